//! A share of a gate: `2/3` is the second of three. Which cells it has follows from the plan alone.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub number: u32,
    pub of: u32,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read =
            text.split_once('/').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
        match read {
            Some((number, of)) if (1..=of).contains(&number) && of <= 1000 => Ok(Self { number, of }),
            _ => Err(format!("a share such as 2/3, the second of three, not '{text}'")),
        }
    }
}

impl Serialize for Shard {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Shard {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Deals units of work out to shards so that none has much more than another: the longest first, each to who has
/// least so far. The answer is the number of the shard of each unit, from 1.
pub fn dealt(ms: &[u64], shards: u32) -> Vec<u32> {
    let mut order: Vec<usize> = (0..ms.len()).collect();
    order.sort_by_key(|&unit| std::cmp::Reverse(ms[unit]));
    let mut loads: BTreeMap<u32, u64> = (1..=shards).map(|n| (n, 0)).collect();
    let mut of = vec![1; ms.len()];
    for unit in order {
        let least = loads.iter_mut().min_by_key(|(number, load)| (**load, **number));
        let Some((number, load)) = least else { break };
        of[unit] = *number;
        // What is planned to take no time takes some.
        *load += ms[unit].max(1);
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_and_told() {
        for (text, read) in
            [("1/1", Some((1, 1))), ("2/3", Some((2, 3))), ("0/3", None), ("4/3", None), ("2", None)]
        {
            let shard = text.parse::<Shard>().ok();
            assert_eq!(shard.map(|s| (s.number, s.of)), read, "{text}");
            assert!(shard.is_none_or(|s| s.to_string() == text));
        }
    }

    #[test]
    fn every_unit_is_dealt_once_and_the_long_ones_apart() {
        assert_eq!(dealt(&[100, 10, 90, 10, 10], 2), [1, 2, 2, 1, 2]);
        assert_eq!(dealt(&[0, 0, 0], 5), [1, 2, 3]);
        assert_eq!(dealt(&[], 3), Vec::<u32>::new());
    }
}
