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
    stop: &dyn Fn() -> bool,
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
        let steps = best.0.0.clone();
        for candidate in candidates(&steps) {
            if stop() {
                return Ok(Some(best));
            }
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

/// Ways to be smaller, the boldest first: a client less, a stretch less, a step less, a death earlier, a
/// step elsewhere.
fn candidates(steps: &[Step]) -> impl Iterator<Item = Vec<Step>> + '_ {
    let mut clients: Vec<u8> = steps.iter().filter_map(|s| s.client()).collect();
    clients.sort_unstable();
    clients.dedup();
    let without =
        clients.into_iter().map(|c| steps.iter().copied().filter(|s| s.client() != Some(c)).collect());
    let halves = std::iter::successors(Some(steps.len() / 2), |n| Some(n / 2)).take_while(|n| *n > 0);
    let cuts = halves.flat_map(|n| (0..steps.len()).step_by(n).map(move |from| (from, n)));
    let cut = cuts.map(|(from, n)| {
        let to = (from + n).min(steps.len());
        steps[..from].iter().chain(&steps[to..]).copied().collect()
    });
    let places = || 0..steps.len();
    let moves = places().flat_map(move |from| places().map(move |to| (from, to))).filter(|(a, b)| a != b);
    let moved = moves.map(|(from, to)| {
        let mut moved = steps.to_vec();
        let step = moved.remove(from);
        moved.insert(to, step);
        moved
    });
    without.chain(cut).chain(places().filter_map(|at| earlier(steps, at))).chain(moved)
}

/// Dead before a command is dead after the one before it.
fn earlier(steps: &[Step], at: usize) -> Option<Vec<Step>> {
    let Step::DieBefore(client) = steps[at] else { return None };
    let before = (0..at).rev().find(|i| steps[*i] == Step::Go(client))?;
    let mut earlier = steps.to_vec();
    earlier[before] = Step::DieAfter(client);
    earlier.remove(at);
    Some(earlier)
}

#[cfg(test)]
mod tests {
    use super::super::toy::Toy;
    use super::*;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let mut world = Toy::counters(4, 1);
        let long: Schedule = "c a b d d a b c".parse().unwrap();
        let (short, witness) = shrink(&mut world, &long, Toy::CHECK, &|| false).unwrap().unwrap();
        assert_eq!(short.to_string(), "a b b a", "{witness}");
    }

    #[test]
    fn a_schedule_that_breaks_nothing_is_told_apart() {
        let fine: Schedule = "a a b b".parse().unwrap();
        assert_eq!(shrink(&mut Toy::counters(2, 1), &fine, Toy::CHECK, &|| false).unwrap(), None);
    }
}
