//! Where everything is too much: random schedules with a guarantee.
//!
//! Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte: A Randomized
//! Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010). Clients get random
//! priorities, the highest that can go goes, and at d − 1 random steps the one that went gets the
//! lowest. With n threads and at most k steps a bug that takes d ordered steps is hit by one run with a
//! probability of at least 1 / (n · k^(d − 1)).

use super::{Broken, PATIENCE, Trouble, World};
use crate::model::random::Random;
use crate::model::schedule::{Schedule, Step};
use crate::model::units::Seed;

/// What random schedules came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampled {
    pub schedules: u64,
    /// The most steps of any schedule.
    pub longest: usize,
    pub broken: Vec<(Schedule, Broken)>,
    pub trouble: Option<Trouble>,
}

/// How deep the bugs are that the priorities look for: d.
pub const DEPTH: u32 = 3;

/// Runs random schedules until told to stop. `longest` is the most steps seen so far: k.
pub fn sample(
    world: &mut dyn World,
    clients: u8,
    longest: usize,
    seed: Seed,
    stop: &dyn Fn() -> bool,
) -> Sampled {
    let mut random = Random::new(seed);
    let mut found = Sampled { longest: longest.max(1), ..Sampled::default() };
    let mut stalled = 0;
    while !stop() {
        let outcome = one(world, clients, found.longest, &mut random);
        match outcome {
            Ok((schedule, broken)) => {
                stalled = 0;
                found.schedules += 1;
                found.longest = found.longest.max(schedule.0.len());
                for b in broken {
                    if !found.broken.iter().any(|(_, known)| known.check == b.check) {
                        found.broken.push((schedule.clone(), b));
                    }
                }
            }
            Err(Trouble::Stalled(_)) if stalled < PATIENCE => stalled += 1,
            Err(trouble) => {
                found.trouble = Some(trouble);
                break;
            }
        }
    }
    found
}

/// The probability that a bug of depth d would have been missed by so many schedules, at most.
pub fn missed_at_most(schedules: u64, threads: u32, longest: usize, depth: u32) -> f64 {
    let hit = 1.0 / (f64::from(threads.max(1)) * (longest.max(1) as f64).powi(depth as i32 - 1));
    (schedules as f64 * (1.0 - hit).ln()).exp()
}

fn one(
    world: &mut dyn World,
    clients: u8,
    longest: usize,
    random: &mut Random,
) -> Result<(Schedule, Vec<Broken>), Trouble> {
    world.reset()?;
    // Faults and the passing of time have a priority each as well: they are threads of their own.
    let mut priority: Vec<u32> = random.shuffled(threads(clients)).into_iter().map(|p| p + DEPTH).collect();
    let mut below = |n: usize| usize::try_from(random.below(n as u64)).unwrap_or(0);
    let mut changes: Vec<usize> = (1..DEPTH).map(|_| below(longest)).collect();
    changes.sort_unstable();
    let mut gone = Vec::new();
    loop {
        let enabled = world.enabled();
        let Some(step) = enabled.iter().copied().max_by_key(|s| priority[thread(*s, clients)]) else { break };
        if let Some(lower) = changes.iter().rposition(|at| *at == gone.len()) {
            changes[lower] = usize::MAX;
            priority[thread(step, clients)] = u32::try_from(lower).unwrap_or(0);
            continue;
        }
        world.step(step)?;
        gone.push(step);
    }
    let ending = world.end()?;
    Ok((Schedule(gone), ending.broken))
}

/// What gets a priority: each client's next command, and each fault of each client; time and the flush.
pub fn threads(clients: u8) -> u32 {
    KINDS * u32::from(clients) + 2
}

/// Go, begin, two ways to die, a lost reply.
const KINDS: u32 = 5;

fn thread(step: Step, clients: u8) -> usize {
    let (clients, kinds) = (usize::from(clients), KINDS as usize);
    let of = |kind: usize, client: u8| kind * clients + usize::from(client);
    match step {
        Step::Go(c) => of(0, c),
        Step::Begin(c) => of(1, c),
        Step::DieBefore(c) => of(2, c),
        Step::DieAfter(c) => of(3, c),
        Step::LoseReply(c) => of(4, c),
        Step::Tick => kinds * clients,
        Step::Flush => kinds * clients + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::toy::Toy;
    use super::*;
    use std::cell::Cell;

    fn sampled(limit: u64) -> Sampled {
        let left = Cell::new(500);
        let stop = || left.replace(left.get() - 1) == 0;
        sample(&mut Toy::counters(3, limit), 3, 6, Seed(7), &stop)
    }

    #[test]
    fn a_race_is_found_and_what_cannot_break_is_not() {
        let found = sampled(1);
        assert_eq!((found.schedules, found.broken.len()), (500, 1));
        assert!(sampled(3).broken.is_empty());
    }

    #[test]
    fn the_bound_is_that_of_the_source() {
        // One run of a bug of depth 1 with two clients hits it with probability 1/2.
        assert!((missed_at_most(1, 2, 10, 1) - 0.5).abs() < 1e-12);
        assert!((missed_at_most(100, 2, 10, 2) - 0.95_f64.powi(100)).abs() < 1e-9);
    }
}
