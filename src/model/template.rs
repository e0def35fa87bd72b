//! Texts with places for what is known only when a call is made: `{key}`, `{limit}`, `{now_ms}`.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::names;

/// A text with places to fill. `{{` and `}}` stand for braces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(String);

/// What is filled in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filling<'a> {
    pub key: &'a str,
    pub cost: u32,
    pub limit: u64,
    pub window_ms: u64,
    pub node: u16,
    /// By the app server's clock.
    pub now_us: i64,
    /// A number that no other call of the run has.
    pub id: u64,
    pub port: u16,
    pub redis: &'a str,
}

const NAMES: [&str; 13] = [
    "key",
    "cost",
    "limit",
    "window_ms",
    "window_s",
    "node",
    "now_us",
    "now_ms",
    "now_s",
    "id",
    "port",
    "redis",
    "redis_port",
];

impl Template {
    pub fn plain(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether every place has a name that is known; if not, why.
    pub fn check(&self) -> Result<(), String> {
        self.fill(&Filling::default()).map(|_| ())
    }

    /// Whether it asks for the time.
    pub fn reads_clock(&self) -> bool {
        self.0.contains("{now_")
    }

    /// The text with everything filled in.
    pub fn fill(&self, with: &Filling) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = self.0.as_str();
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            let tail = &rest[at..];
            if let Some(after) = tail
                .strip_prefix("{{")
                .map(|t| ("{", t))
                .or_else(|| tail.strip_prefix("}}").map(|t| ("}", t)))
            {
                out.push_str(after.0);
                rest = after.1;
                continue;
            }
            let inner = tail.strip_prefix('{').and_then(|t| t.split_once('}'));
            let Some((name, after)) = inner else {
                return Err(format!(
                    "'{}' has a brace that is not closed, or not opened; {{{{ stands for one",
                    self.0
                ));
            };
            with.write(name, &mut out)?;
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }
}

impl Filling<'_> {
    fn write(&self, name: &str, out: &mut String) -> Result<(), String> {
        let Self { key, cost, limit, window_ms, node, now_us, id, port, redis } = *self;
        let told = match name {
            "key" => {
                out.push_str(key);
                return Ok(());
            }
            "redis" => {
                out.push_str(redis);
                return Ok(());
            }
            "redis_port" => {
                out.push_str(redis.rsplit_once(':').map_or("", |(_, port)| port));
                return Ok(());
            }
            "cost" => i128::from(cost),
            "limit" => i128::from(limit),
            "window_ms" => i128::from(window_ms),
            // Rounded up: a window of nothing would be none.
            "window_s" => i128::from(window_ms.div_ceil(1000)),
            "node" => i128::from(node),
            "now_us" => i128::from(now_us),
            "now_ms" => i128::from(now_us.div_euclid(1000)),
            "now_s" => i128::from(now_us.div_euclid(1_000_000)),
            "id" => i128::from(id),
            "port" => i128::from(port),
            _ => return Err(names::unknown("place", name, &NAMES)),
        };
        let _ = write!(out, "{told}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let with = Filling {
            key: "u:{1}",
            limit: 10,
            window_ms: 1500,
            now_us: 1_700_000_000_250_999,
            redis: "redis://h:63",
            ..Filling::default()
        };
        Template::plain(text).fill(&with)
    }

    #[test]
    fn places_are_filled_and_braces_are_written_twice() {
        assert_eq!(filled("a").unwrap(), "a");
        assert_eq!(filled("{key}:{limit}/{window_ms}").unwrap(), "u:{1}:10/1500");
        assert_eq!(filled("{{rl}}{key}").unwrap(), "{rl}u:{1}");
        assert_eq!(filled("{now_s} {now_ms} {now_us}").unwrap(), "1700000000 1700000000250 1700000000250999");
        assert_eq!(filled("{window_s} {redis_port}").unwrap(), "2 63");
    }

    #[test]
    fn a_place_that_is_not_known_and_a_brace_alone_are_refused() {
        assert!(filled("{windw_ms}").unwrap_err().contains("did you mean 'window_ms'"));
        for text in ["{key", "key}", "{", "a}b{c}"] {
            assert!(filled(text).unwrap_err().contains("brace"), "{text}");
        }
    }
}
