//! Every schedule within a budget, depth first, with a cache of states.
//!
//! A branch ends at a state that was seen before: whatever follows from it was or will be seen from
//! there. Without the cache every schedule is run. Several worlds may search together; they share the
//! branches to come and the cache.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Condvar, Mutex, PoisonError};

use super::{Broken, Ending, PATIENCE, Print, Trouble, World};
use crate::model::schedule::{Schedule, Step};

/// How to search.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Whether a state that was seen ends a branch.
    pub reduce: bool,
    /// Asked before each branch; the search ends where it says so.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told of each property when it is first broken.
    pub found: &'a (dyn Fn(&Schedule, &Broken) + Sync),
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Searched {
    /// Whether nothing is left to try.
    pub complete: bool,
    /// Schedules that were run to an end of their own.
    pub schedules: u64,
    /// Branches that ended at a known state.
    pub pruned: u64,
    pub steps: u64,
    /// Different states on the way; 0 without the cache.
    pub states: u64,
    pub endings: BTreeSet<Print>,
    /// By property: the first schedule that broke it.
    pub broken: BTreeMap<&'static str, (Schedule, String)>,
    /// Why the search is worth nothing, or could not end.
    pub trouble: Option<Trouble>,
}

/// A branch to come: the steps up to it and what was seen before its last one.
struct Branch {
    steps: Vec<Step>,
    /// Of all steps but the last. None for the first branch.
    seen: Option<Print>,
    tries: u32,
}

struct Shared {
    branches: Vec<Branch>,
    at_work: usize,
    states: HashSet<Print>,
    found: Searched,
}

struct Frontier {
    shared: Mutex<Shared>,
    changed: Condvar,
}

/// What a branch came to.
enum Came {
    Ended(Ending),
    Known,
}

/// Searches with all worlds at once; at least one.
pub fn search(worlds: &mut [&mut dyn World], options: Options<'_>) -> Searched {
    let first = Branch { steps: Vec::new(), seen: None, tries: 0 };
    let shared =
        Shared { branches: vec![first], at_work: 0, states: HashSet::new(), found: Searched::default() };
    let frontier = Frontier { shared: Mutex::new(shared), changed: Condvar::new() };
    if let [only] = worlds {
        frontier.work(&mut **only, options);
    } else {
        std::thread::scope(|scope| {
            for world in worlds.iter_mut() {
                scope.spawn(|| frontier.work(&mut **world, options));
            }
        });
    }
    let shared = frontier.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut found = shared.found;
    found.complete = shared.branches.is_empty() && found.trouble.is_none();
    found.states = shared.states.len() as u64;
    found
}

impl Frontier {
    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, world: &mut dyn World, options: Options<'_>) {
        while let Some(mut branch) = self.take(options) {
            let came = self.run(world, &mut branch, options);
            self.done(branch, came, options);
        }
    }

    /// The next branch; waits for one while others may still find some.
    fn take(&self, options: Options<'_>) -> Option<Branch> {
        let mut shared = self.lock();
        loop {
            if shared.found.trouble.is_some() || (options.stop)() {
                self.changed.notify_all();
                return None;
            }
            if let Some(branch) = shared.branches.pop() {
                shared.at_work += 1;
                return Some(branch);
            }
            if shared.at_work == 0 {
                self.changed.notify_all();
                return None;
            }
            shared = self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, branch: Branch, came: Result<Came, Trouble>, options: Options<'_>) {
        let mut shared = self.lock();
        shared.at_work -= 1;
        match came {
            Ok(Came::Known) => shared.found.pruned += 1,
            Ok(Came::Ended(ending)) => {
                shared.found.schedules += 1;
                shared.found.endings.insert(ending.state);
                let schedule = Schedule(branch.steps);
                for broken in ending.broken {
                    if !shared.found.broken.contains_key(broken.check) {
                        (options.found)(&schedule, &broken);
                        let first = (schedule.clone(), broken.witness);
                        shared.found.broken.insert(broken.check, first);
                    }
                }
            }
            Err(Trouble::Stalled(_)) if branch.tries < PATIENCE => {
                shared.branches.push(Branch { tries: branch.tries + 1, ..branch });
            }
            Err(trouble) => {
                shared.branches.push(branch);
                shared.found.trouble.get_or_insert(trouble);
            }
        }
        self.changed.notify_all();
    }

    /// Goes to the branch and on, taking what is enabled first; what else is, are branches to come.
    /// If it has to be run again, `branch` is what then remains of it.
    fn run(&self, world: &mut dyn World, branch: &mut Branch, options: Options<'_>) -> Result<Came, Trouble> {
        world.reset()?;
        let last = branch.steps.len().saturating_sub(1);
        for (i, step) in branch.steps.iter().enumerate() {
            if i == last && branch.seen.is_some_and(|seen| seen != world.trace()) {
                return Err(diverged(&branch.steps[..i]));
            }
            if !world.enabled().contains(step) {
                return Err(diverged(&branch.steps[..i]));
            }
            world.step(*step)?;
        }
        let mut steps = branch.steps.len() as u64;
        // What is run again after it stalled may have left its mark in the cache already.
        let mut marked = branch.tries > 0;
        loop {
            if options.reduce {
                let state = world.state()?;
                let mut shared = self.lock();
                if !shared.states.insert(state) && !marked {
                    shared.found.steps += steps;
                    return Ok(Came::Known);
                }
                marked = false;
            }
            let enabled = if options.reduce { world.distinct() } else { world.enabled() };
            let mut enabled = enabled.into_iter();
            let Some(next) = enabled.next() else { break };
            let seen = Some(world.trace());
            {
                let mut shared = self.lock();
                for other in enabled.rev() {
                    let steps = branch.steps.iter().copied().chain([other]).collect();
                    shared.branches.push(Branch { steps, seen, tries: 0 });
                }
            }
            self.changed.notify_all();
            branch.steps.push(next);
            branch.seen = seen;
            world.step(next)?;
            steps += 1;
        }
        self.lock().found.steps += steps;
        world.end().map(Came::Ended)
    }
}

fn diverged(steps: &[Step]) -> Trouble {
    Trouble::Nondeterministic(format!(
        "the schedule '{}' was run twice and did not go the same way",
        Schedule(steps.to_vec())
    ))
}

#[cfg(test)]
mod tests {
    use super::super::toy::Toy;
    use super::*;

    fn run(worlds: Vec<Toy>, reduce: bool) -> Searched {
        let mut worlds = worlds;
        let mut worlds: Vec<&mut dyn World> = worlds.iter_mut().map(|w| w as &mut dyn World).collect();
        search(&mut worlds, Options { reduce, stop: &|| false, found: &|_, _| {} })
    }

    /// Orders of GET and INCR at limit 1, counted by hand for two: each whole before the other (2), or
    /// both read first (2 orders of the reads × 2 of the writes).
    #[test]
    fn without_reduction_every_schedule_is_run_once() {
        for (clients, schedules) in [(1, 1), (2, 6), (3, 66), (4, 1176)] {
            let found = run(vec![Toy::counters(clients, 1)], false);
            assert_eq!((found.schedules, found.complete), (schedules, true), "{clients} clients");
        }
    }

    #[test]
    fn the_reduced_search_sees_the_same_ends_and_breaks_the_same() {
        for clients in 1..=5 {
            for limit in 1..=3 {
                let world = || Toy::counters(clients, limit);
                let (all, reduced) = (run(vec![world()], false), run(vec![world()], true));
                assert_eq!(all.endings, reduced.endings, "{clients} at {limit}");
                assert_eq!(all.broken.keys().collect::<Vec<_>>(), reduced.broken.keys().collect::<Vec<_>>());
                assert!(reduced.schedules <= all.schedules && all.complete && reduced.complete);
            }
        }
    }

    #[test]
    fn several_worlds_see_what_one_sees() {
        let world = || Toy::counters(4, 2);
        for reduce in [false, true] {
            let (one, three) = (run(vec![world()], reduce), run(vec![world(), world(), world()], reduce));
            assert_eq!((one.endings, one.states), (three.endings, three.states));
            assert_eq!(one.broken.keys().collect::<Vec<_>>(), three.broken.keys().collect::<Vec<_>>());
            assert!(reduce || one.schedules == three.schedules);
        }
    }

    #[test]
    fn a_schedule_that_stalls_is_run_again_and_counted_once() {
        for reduce in [false, true] {
            let calm = run(vec![Toy::counters(3, 1)], reduce);
            let stalling = Toy::counters(3, 1).stalling(2);
            let found = run(vec![stalling], reduce);
            assert_eq!((found.schedules, found.endings), (calm.schedules, calm.endings));
            assert!(found.complete);
        }
        let found = run(vec![Toy::counters(2, 1).stalling(1)], true);
        assert!(matches!(found.trouble, Some(Trouble::Stalled(_))) && !found.complete);
    }

    #[test]
    fn a_world_with_a_mood_is_no_world_to_enumerate() {
        let found = run(vec![Toy::counters(2, 1).moody()], true);
        assert!(matches!(found.trouble, Some(Trouble::Nondeterministic(_))), "{found:?}");
    }

    #[test]
    fn a_search_that_was_stopped_is_not_complete() {
        let mut world = Toy::counters(4, 1);
        let mut worlds: Vec<&mut dyn World> = vec![&mut world];
        let asked = std::sync::atomic::AtomicU32::new(0);
        let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 10;
        let found = search(&mut worlds, Options { reduce: true, stop: &stop, found: &|_, _| {} });
        assert!(!found.complete && found.trouble.is_none());
    }
}
