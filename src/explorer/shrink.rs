//! Makes a counterexample small: what can be left out is left out, and clients take turns no more
//! often than they must.
//!
//! Delta debugging (Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input, 2002) over
//! the steps; what is left after each cut is brought to its end and judged anew.

use super::{Trouble, World, follow_patiently};
use crate::model::schedule::{Schedule, Step};

/// A schedule that breaks the same property and is no larger, with what happens in it.
pub fn shrink(
    world: &mut dyn World,
    schedule: &Schedule,
    check: &str,
) -> Result<Option<(Schedule, String)>, Trouble> {
    let mut try_out = |steps: &[Step]| -> Result<Option<(Schedule, String)>, Trouble> {
        let (gone, ending) = follow_patiently(world, steps)?;
        // Whoever breaks with nobody there does so after any call.
        let broken = ending.broken.into_iter().find(|b| b.check == check && !gone.is_empty());
        Ok(broken.map(|b| (Schedule(gone), b.witness)))
    };
    let Some(mut best) = try_out(&schedule.0)? else { return Ok(None) };
    loop {
        let mut smaller = None;
        for candidate in candidates(&best.0.0) {
            if let Some(found) = try_out(&candidate)?
                && found.0.size() < best.0.size()
            {
                smaller = Some(found);
                break;
            }
        }
        match smaller {
            Some(found) => best = found,
            None => break,
        }
    }
    // Identical clients: the one that comes first is a.
    let renamed = best.0.renamed();
    if renamed != best.0
        && let Some(found) = try_out(&renamed.0)?
        && found.0.size() == best.0.size()
    {
        best = found;
    }
    Ok(Some(best))
}

/// Ways to be smaller, the boldest first: a client less, a stretch less, a step less, a step elsewhere.
fn candidates(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut all: Vec<Vec<Step>> = Vec::new();
    let mut clients: Vec<u8> = steps.iter().filter_map(|s| s.client()).collect();
    clients.sort_unstable();
    clients.dedup();
    for client in clients {
        all.push(steps.iter().copied().filter(|s| s.client() != Some(client)).collect());
    }
    let mut length = steps.len() / 2;
    while length > 0 {
        for from in (0..steps.len()).step_by(length) {
            let to = (from + length).min(steps.len());
            all.push(steps[..from].iter().chain(&steps[to..]).copied().collect());
        }
        length /= 2;
    }
    // Dead before a command is dead after the one before it.
    for (at, step) in steps.iter().enumerate() {
        if let Step::DieBefore(client) = *step
            && let Some(before) = (0..at).rev().find(|i| steps[*i] == Step::Go(client))
        {
            let mut earlier = steps.to_vec();
            earlier[before] = Step::DieAfter(client);
            earlier.remove(at);
            all.push(earlier);
        }
    }
    for from in 0..steps.len() {
        for to in 0..steps.len() {
            if from != to {
                let mut moved = steps.to_vec();
                let step = moved.remove(from);
                moved.insert(to, step);
                all.push(moved);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::toy::Toy;
    use super::*;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let mut world = Toy::counters(4, 1);
        let long: Schedule = "c a b d d a b c".parse().unwrap();
        let (short, witness) = shrink(&mut world, &long, Toy::CHECK).unwrap().unwrap();
        assert_eq!(short.to_string(), "a b b a", "{witness}");
    }

    #[test]
    fn a_schedule_that_breaks_nothing_is_told_apart() {
        let fine: Schedule = "a a b b".parse().unwrap();
        assert_eq!(shrink(&mut Toy::counters(2, 1), &fine, Toy::CHECK).unwrap(), None);
    }
}
