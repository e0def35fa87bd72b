//! Counters by the number of their window, as keys with the number in their name.

use std::collections::BTreeMap;

/// Old ones are dropped as their keys expire: none outlives the end of the second window after its
/// own, so by a clock that has come to window n nothing before n − 2 is there any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbered(BTreeMap<i64, u64>);

impl Numbered {
    pub fn of(&self, number: i64) -> u64 {
        self.0.get(&number).copied().unwrap_or(0)
    }

    pub fn set(&mut self, number: i64, count: u64) {
        self.0.insert(number, count);
        let newest = self.0.last_key_value().map_or(number, |(n, _)| *n);
        while self.0.first_key_value().is_some_and(|(n, _)| *n < newest - 2) {
            self.0.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_later_window_may_still_ask_for_is_kept_and_nothing_else() {
        let mut counts = Numbered::default();
        for number in 0..1000 {
            counts.set(number, 7);
        }
        assert_eq!((counts.of(996), counts.of(997), counts.of(999), counts.0.len()), (0, 7, 7, 3));
    }
}
