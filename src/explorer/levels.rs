//! In which order budgets are searched: small ones first, so that a counterexample is found where it
//! is short. Each later level contains the earlier ones; the last one is what was asked for.

use crate::model::schedule::Budget;

/// The levels of a budget, the budget itself last.
pub fn levels(budget: Budget) -> Vec<Budget> {
    let mut levels: Vec<Budget> = Vec::new();
    let mut add = |level: Budget| {
        if !levels.contains(&level) {
            levels.push(level);
        }
    };
    let once = Budget { requests: 1, ..budget };
    for of in [once, budget] {
        for clients in [1, 2, budget.clients] {
            let level = of.with_clients(clients.min(budget.clients));
            add(level.without_faults());
            add(level);
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_comes_first_and_what_was_asked_for_last() {
        let budget =
            Budget { clients: 3, requests: 2, crashes: 1, ticks: 1, losses: 0, flushes: 0, pauses: 0 };
        let levels = levels(budget);
        assert_eq!(levels.first().unwrap().in_words(), "1 client, 1 call each");
        assert_eq!(levels.last(), Some(&budget));
        assert_eq!(levels.len(), 12);
        let calls = |b: &Budget| u32::from(b.clients) * u32::from(b.requests);
        assert!(levels.windows(2).all(|w| calls(&w[0]) <= calls(&w[1]) || w[1].requests > w[0].requests));
    }

    #[test]
    fn nothing_is_searched_twice() {
        let budget =
            Budget { clients: 2, requests: 1, crashes: 0, ticks: 0, losses: 0, flushes: 0, pauses: 0 };
        assert_eq!(levels(budget).len(), 2);
    }
}
