//! How far a clock is ahead of the true time, or behind it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::units::{Span, UnitError};

/// Whole milliseconds with a sign, at most 366 days either way: `+70s`, `-7s`, `0s`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset(i64);

impl Offset {
    pub fn from_millis(ms: i64) -> Result<Self, UnitError> {
        Span::from_millis(ms.unsigned_abs())?;
        Ok(Self(ms))
    }

    /// Positive where the clock is ahead.
    pub fn millis(self) -> i64 {
        self.0
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.0 {
            0 => "",
            ..0 => "-",
            _ => "+",
        };
        // What was made is in range.
        let span = Span::from_millis(self.0.unsigned_abs()).unwrap_or_default();
        write!(f, "{sign}{span}")
    }
}

impl FromStr for Offset {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        let (sign, span) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        // 366 days in milliseconds are far inside i64.
        Ok(Self(sign * span.parse::<Span>()?.millis() as i64))
    }
}

impl Serialize for Offset {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Offset {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_is_read_and_written_back() {
        for (text, ms, back) in
            [("+70s", 70_000, "+70s"), ("-7s", -7_000, "-7s"), ("5ms", 5, "+5ms"), ("0s", 0, "0s")]
        {
            let offset: Offset = text.parse().unwrap();
            assert_eq!((offset.millis(), offset.to_string().parse()), (ms, Ok(offset)), "{text}");
            assert_eq!(offset.to_string(), back.parse::<Offset>().unwrap().to_string());
        }
        assert!("-".parse::<Offset>().is_err() && "--7s".parse::<Offset>().is_err());
        assert!("367d".parse::<Offset>().is_err());
    }
}
