//! What a scenario runs: limiters with their parameters, and what is around them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One limiter in one configuration: a cell of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub limiter: LimiterRef,
    /// What decides where the limiter cannot, written as limiters are: `circuit-breaker:failures=3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<LimiterRef>,
    /// Client profile; the scenario's default where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

impl fmt::Display for Variant {
    /// `fixed-window-lua + fail-open, fail-fast`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.limiter)?;
        if let Some(policy) = &self.policy {
            write!(f, " + {policy}")?;
        }
        match &self.client {
            Some(client) => write!(f, ", {client}"),
            None => Ok(()),
        }
    }
}

/// A limiter with parameters, written `name` or `name:param=value,param=value`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimiterRef {
    pub name: String,
    pub params: BTreeMap<String, String>,
}

impl fmt::Display for LimiterRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, (k, v)) in self.params.iter().enumerate() {
            write!(f, "{}{k}={v}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for LimiterRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        if name.is_empty() {
            return Err("a limiter's name is missing".to_owned());
        }
        let mut params = BTreeMap::new();
        for part in rest.split(',').filter(|p| !p.is_empty()) {
            let (k, v) = part
                .split_once('=')
                .ok_or_else(|| format!("'{part}' in '{text}' is not of the form param=value"))?;
            if params.insert(k.trim().to_owned(), v.trim().to_owned()).is_some() {
                return Err(format!("'{}' is given twice in '{text}'", k.trim()));
            }
        }
        Ok(Self { name: name.to_owned(), params })
    }
}

impl Serialize for LimiterRef {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LimiterRef {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limiter_with_parameters_reads_back_as_written() {
        let r: LimiterRef = "gcra-lua:burst=12,clock=server".parse().unwrap();
        assert_eq!(r.to_string(), "gcra-lua:burst=12,clock=server");
        assert!("gcra-lua:clock".parse::<LimiterRef>().is_err());
        assert!("x:a=1,a=2".parse::<LimiterRef>().is_err());
    }
}
