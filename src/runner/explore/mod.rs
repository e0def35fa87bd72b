//! Explores a limiter: every schedule within a budget, small budgets first, on a real server.

pub mod client;
pub mod cores;
pub mod file;
pub mod keyspace;
pub mod line;
pub mod print;
pub mod run;
pub mod story;
pub mod world;

use std::collections::BTreeMap;

use crate::explorer::levels::levels;
use crate::explorer::search::{self, Options, Searched};
use crate::explorer::shrink::shrink;
use crate::explorer::{Ending, Print, Trouble, World, follow_patiently, pct};
use crate::model::ending::CHECKS;
use crate::model::schedule::{Budget, Schedule};
use crate::model::units::{Limit, Seed};
use story::Story;
use world::{RedisWorld, Subject};

/// What one limiter is put through.
pub struct Hunt<'a> {
    /// One for each server: they share the search.
    pub subjects: Vec<Subject>,
    pub budget: Budget,
    /// Whether a state that was seen ends a branch.
    pub reduce: bool,
    pub seed: Seed,
    /// Whether the time for the full search is over.
    pub spent: &'a (dyn Fn() -> bool + Sync),
    /// Whether the time for random schedules afterwards is over.
    pub spent_altogether: &'a (dyn Fn() -> bool + Sync),
    /// Told what is going on.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

pub enum Progress<'a> {
    Level {
        number: usize,
        of: usize,
        budget: &'a Budget,
    },
    /// With the bodies of the scripts that the limiter sends.
    Found(&'a Counterexample, &'a [String]),
}

/// A level of the search that was gone through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    pub limit: Limit,
    pub budget: Budget,
    pub searched: Searched,
}

/// A schedule that breaks a property, as short as it could be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterexample {
    pub check: &'static str,
    pub limit: Limit,
    pub budget: Budget,
    pub schedule: Schedule,
    pub witness: String,
    pub story: Story,
    /// How many of [`REPLAYS`] runs went exactly the same way.
    pub confirmed: u32,
}

/// How often a counterexample must go the same way before it is told.
pub const REPLAYS: u32 = 3;

/// Random schedules, where the search did not come to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub schedules: u64,
    pub longest: usize,
    pub depth: u32,
    pub missed_at_most: f64,
}

/// What a limiter came to.
#[derive(Debug, Default)]
pub struct Explored {
    pub levels: Vec<Level>,
    pub broken: BTreeMap<&'static str, Counterexample>,
    pub sample: Option<Sample>,
    /// Why there is nothing to explore here.
    pub not_applicable: Option<String>,
    /// Why what was not broken is not certain either.
    pub inconclusive: Option<String>,
}

impl Explored {
    /// Takes in what came of another limit.
    pub fn and(&mut self, other: Self) {
        self.levels.extend(other.levels);
        for (check, found) in other.broken {
            self.broken.entry(check).or_insert(found);
        }
        self.sample = self.sample.take().or(other.sample);
        self.not_applicable = self.not_applicable.take().or(other.not_applicable);
        self.inconclusive = self.inconclusive.take().or(other.inconclusive);
    }

    /// Whether everything within the budget was tried.
    pub fn complete(&self, budget: Budget) -> bool {
        self.inconclusive.is_none()
            && self.levels.last().is_some_and(|l| l.budget == budget && l.searched.complete)
    }
}

/// Explores. An error is one of the ground: the server is gone.
pub fn explore(hunt: &Hunt<'_>) -> Result<Explored, Trouble> {
    let mut explored = Explored::default();
    if hunt.subjects.iter().any(|s| (s.spec.contract)(&s.settings).in_background) {
        let why = "it counts behind its calls: no schedule of calls says when";
        explored.not_applicable = Some(why.to_owned());
        return Ok(explored);
    }
    if let Some(why) = hunt.subjects.iter().find_map(Subject::unfit) {
        explored.not_applicable = Some(why);
        return Ok(explored);
    }
    let mut worlds = hunt.subjects.iter().map(RedisWorld::new).collect::<Result<Vec<_>, _>>()?;
    if !worlds[0].talks() {
        explored.not_applicable = Some("it asks no store: there is nothing to interleave".to_owned());
        return Ok(explored);
    }
    if worlds.iter().any(RedisWorld::reads_time_in_a_script) {
        let why = "its script reads the server's clock, which runs on while the search goes about: no two \
                   runs see the same";
        explored.not_applicable = Some(why.to_owned());
        return Ok(explored);
    }
    let levels = levels(hunt.budget);
    let limit = hunt.subjects[0].settings.limit;
    for (number, budget) in (1..).zip(&levels) {
        (hunt.progress)(Progress::Level { number, of: levels.len(), budget });
        for world in &mut worlds {
            world.allow(*budget);
        }
        if let Some(why) = unfit(differs(&mut worlds[0]))? {
            explored.inconclusive = Some(why);
            break;
        }
        let searched = search_all(&mut worlds, hunt);
        for (check, (schedule, _)) in &searched.broken {
            if !explored.broken.contains_key(check)
                && let Some(found) = counterexample(&mut worlds[0], check, schedule, *budget, hunt)?
            {
                (hunt.progress)(Progress::Found(&found, worlds[0].scripts()));
                explored.broken.insert(check, found);
            }
        }
        let trouble = searched.trouble.clone();
        let complete = searched.complete;
        explored.levels.push(Level { limit, budget: *budget, searched });
        match trouble {
            Some(Trouble::Lost(why)) => return Err(Trouble::Lost(why)),
            Some(Trouble::Nondeterministic(why)) => explored.inconclusive = Some(nondeterministic(&why)),
            Some(Trouble::Stalled(why) | Trouble::Unfit(why)) => explored.inconclusive = Some(why),
            None if !complete => explored.inconclusive = Some("the time was over".to_owned()),
            None => continue,
        }
        if !complete && explored.levels.last().is_some_and(|l| l.searched.trouble.is_none()) {
            sample(&mut worlds[0], hunt, &mut explored)?;
        }
        break;
    }
    if worlds.iter().any(RedisWorld::time_was_told) && explored.inconclusive.is_none() {
        explored.inconclusive = Some(
            "time-canonicalised: the limiter asked the server for the time and was given the schedule's"
                .to_owned(),
        );
    }
    Ok(explored)
}

fn nondeterministic(why: &str) -> String {
    format!("nondeterministic: {why}")
}

fn search_all(worlds: &mut [RedisWorld], hunt: &Hunt<'_>) -> Searched {
    let mut worlds: Vec<&mut dyn World> = worlds.iter_mut().map(|w| w as &mut dyn World).collect();
    search::search(&mut worlds, Options { reduce: hunt.reduce, stop: hunt.spent, found: &|_, _| {} })
}

/// What cannot be told exactly is a finding, not an error.
fn unfit(differs: Result<Option<String>, Trouble>) -> Result<Option<String>, Trouble> {
    match differs {
        Err(Trouble::Unfit(why) | Trouble::Stalled(why)) => Ok(Some(why)),
        Err(Trouble::Nondeterministic(why)) => Ok(Some(nondeterministic(&why))),
        other => other,
    }
}

/// Runs one schedule twice: whoever does not do the same again cannot be enumerated.
fn differs(world: &mut RedisWorld) -> Result<Option<String>, Trouble> {
    let first = straight(world)?;
    let second = straight(world)?;
    Ok((first != second).then(|| {
        nondeterministic(&format!("the schedule '{}' was run twice and did not go the same way", first.0))
    }))
}

/// The schedule that takes what is enabled first, with its trace.
fn straight(world: &mut RedisWorld) -> Result<(Schedule, Print, Ending), Trouble> {
    let mut steps = Vec::new();
    let mut tries = 0;
    'again: loop {
        steps.clear();
        world.reset()?;
        while let Some(step) = world.enabled().first().copied() {
            match world.step(step) {
                Err(Trouble::Stalled(_)) if tries < crate::explorer::PATIENCE => {
                    tries += 1;
                    continue 'again;
                }
                other => other?,
            }
            steps.push(step);
        }
        let trace = world.trace();
        match world.end() {
            Err(Trouble::Stalled(_)) if tries < crate::explorer::PATIENCE => tries += 1,
            ending => return Ok((Schedule(steps), trace, ending?)),
        }
    }
}

/// Makes it small, runs it again, and tells what happens in it.
fn counterexample(
    world: &mut RedisWorld,
    check: &'static str,
    schedule: &Schedule,
    budget: Budget,
    hunt: &Hunt<'_>,
) -> Result<Option<Counterexample>, Trouble> {
    let Some((schedule, witness)) = shrink(world, schedule, check, hunt.spent_altogether)? else {
        return Ok(None);
    };
    let mut traces = Vec::new();
    for _ in 0..REPLAYS {
        let (gone, ending) = follow_patiently(world, &schedule.0)?;
        let again = gone == schedule.0 && ending.broken.iter().any(|b| b.check == check);
        traces.push(again.then(|| world.trace()));
    }
    let confirmed = traces.iter().filter(|t| t.is_some() && **t == traces[0]).count();
    let story = story::tell(world, &schedule, check, hunt.spent_altogether)?;
    let confirmed = u32::try_from(confirmed).unwrap_or(0);
    let limit = world.limit();
    Ok(Some(Counterexample { check, limit, budget, schedule, witness, story, confirmed }))
}

/// Random schedules of the whole budget, for as long as there is time.
fn sample(world: &mut RedisWorld, hunt: &Hunt<'_>, explored: &mut Explored) -> Result<(), Trouble> {
    world.allow(hunt.budget);
    let longest = 4 * usize::from(hunt.budget.clients) * usize::from(hunt.budget.requests);
    let sampled = pct::sample(world, hunt.budget.clients, longest, hunt.seed, hunt.spent_altogether);
    if let Some(Trouble::Lost(why)) = sampled.trouble {
        return Err(Trouble::Lost(why));
    }
    for (schedule, broken) in &sampled.broken {
        if !explored.broken.contains_key(broken.check)
            && let Some(found) = counterexample(world, broken.check, schedule, hunt.budget, hunt)?
        {
            (hunt.progress)(Progress::Found(&found, world.scripts()));
            explored.broken.insert(broken.check, found);
        }
    }
    explored.sample = Some(Sample {
        schedules: sampled.schedules,
        longest: sampled.longest,
        depth: pct::DEPTH,
        missed_at_most: pct::missed_at_most(
            sampled.schedules,
            pct::threads(hunt.budget.clients),
            sampled.longest,
            pct::DEPTH,
        ),
    });
    Ok(())
}

/// The checks that apply to a search within this budget, each with why not where it does not.
pub fn applicable(budget: Budget) -> Vec<(&'static str, Option<&'static str>)> {
    let why = |check: &str| {
        (check == "effects-once" && budget.losses == 0)
            .then_some("no reply is lost within this budget (--reply-loss)")
    };
    CHECKS.iter().map(|c| (*c, why(c))).collect()
}
