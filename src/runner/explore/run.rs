//! A run that explores: limiter by limiter, with what was found kept as it is found.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::file::{Origin, ScheduleFile};
use super::world::{RedisWorld, Subject};
use super::{Counterexample, Explored, Hunt, Progress, REPLAYS, applicable, explore};
use crate::backends::worker::Workers;
use crate::clients::Profile;
use crate::explorer::{Trouble, World, follow_patiently};
use crate::limiters;
use crate::model::figures::{Chart, Figure, Figures};
use crate::model::report::{
    CellHonesty, CellReport, CheckReport, CounterexampleReport, LevelReport, SampleReport, ScenarioSummary,
    SearchReport, ServerInfo,
};
use crate::model::scenario::LimiterRef;
use crate::model::schedule::Budget;
use crate::model::units::{Limit, Seed, Window};
use crate::model::verdict::{Finding, Standing, Verdict};
use crate::ports::limiter::{Settings, Spec};
use crate::runner::modules;

/// What is to be explored, or gone through again.
pub struct Exploration {
    pub targets: Vec<Target>,
    /// Each is searched; what breaks at any of them breaks.
    pub limits: Vec<Limit>,
    pub window: Window,
    pub budget: Budget,
    /// Whether a state that was seen ends a branch.
    pub reduce: bool,
    /// For the full search of each limiter.
    pub time: Duration,
    /// Servers that search together.
    pub servers: usize,
    pub client: &'static Profile,
    /// Where tests are written to, one for each counterexample.
    pub export: Option<PathBuf>,
    /// A schedule to run again instead, and how often.
    pub replay: Option<(ScheduleFile, u32)>,
}

#[derive(Clone)]
pub struct Target {
    pub limiter: LimiterRef,
    pub spec: &'static Spec,
    /// One for each limit.
    pub settings: Vec<Settings>,
}

impl Target {
    /// The largest limit whose endings can be judged, by asking call after call.
    pub const MOST: u64 = 1000;

    /// A limiter as it is searched at these limits; with `own`, one that is built for a limit or a window is searched
    /// at that.
    pub fn of(wanted: &LimiterRef, limits: &[Limit], window: Window, own: bool) -> Result<Self, String> {
        let limiter = limiters::resolve(wanted)?;
        let spec = limiters::find(&limiter.name)?;
        if spec.is_in_rows() {
            return Err(format!("'{}' asks no Redis: the search holds the commands of one", spec.name));
        }
        let built_for = spec.foreign.filter(|_| own);
        let window = built_for.and_then(|f| f.window).unwrap_or(window);
        window_fits(window)?;
        let one = built_for.and_then(|f| f.limit);
        let limits = one.as_ref().map_or(limits, std::slice::from_ref);
        if let Some(limit) = limits.iter().find(|l| l.get() > Self::MOST) {
            return Err(format!(
                "limit {limit}: every ending is judged by asking until refused; a limit of at most {} shows the same",
                Self::MOST
            ));
        }
        let settings = limits.iter().map(|limit| Settings::new(spec, *limit, window, &limiter.params));
        let settings = settings.collect::<Result<_, _>>()?;
        Ok(Self { limiter, spec, settings })
    }
}

/// Whether schedules can be searched with such a window: each may take 0.4 s, in which the server's clock runs on.
fn window_fits(window: Window) -> Result<(), String> {
    let ms = window.millis();
    if (5_000..=864_000_000).contains(&ms) && ms.is_multiple_of(500) {
        return Ok(());
    }
    Err(format!(
        "window {window}: time stands still for the clients but not for the server, so expiries are told in whole \
         half seconds; a window from 5s to 10d in steps of 500ms costs nothing"
    ))
}

/// What the run lends to each limiter's search.
pub struct Lent<'a> {
    /// Each with the core it was put on.
    pub servers: &'a [(std::net::SocketAddr, Option<usize>)],
    pub server: &'a ServerInfo,
    /// Who starts app servers of somebody else's.
    pub workers: Option<&'a Arc<Workers>>,
    pub backend: &'a str,
    pub seed: Seed,
    /// Time since the run began.
    pub now: &'a (dyn Fn() -> Duration + Sync),
    pub stopped: &'a (dyn Fn() -> bool + Sync),
    pub note: &'a (dyn Fn(&str) + Sync),
    /// Keeps a file in the run's folder and answers with its path.
    pub keep: &'a (dyn Fn(&str, &[u8]) -> Option<PathBuf> + Sync),
}

impl Exploration {
    pub fn summary(&self) -> ScenarioSummary {
        let searched = if self.reduce { "states that differ in names only are one" } else { "no reduction" };
        let (title, shows, plan) = match &self.replay {
            Some((file, times)) => (
                "Replay: one schedule again",
                "A saved schedule is run again, step by step, on a real server.",
                format!("'{}', {times} times", file.schedule),
            ),
            None => (
                "Explore: every order, crash and expiry within a budget",
                "No luck: every schedule of the clients' commands is tried on a real server.",
                format!(
                    "{}; limit {} per {}; {searched}; {} server{}",
                    self.budget.in_words(),
                    in_words(self.limits.iter().copied()),
                    self.window,
                    self.servers,
                    if self.servers == 1 { "" } else { "s" }
                ),
            ),
        };
        ScenarioSummary {
            name: self.name().to_owned(),
            title: title.to_owned(),
            shows: shows.to_owned(),
            need: None,
            as_written: false,
            terms: "every verdict is judged by itself".to_owned(),
            plan,
            requires: None,
            figures: if self.replay.is_some() { Vec::new() } else { vec![Figure::States, Figure::Schedules] },
            chart: Chart::default(),
        }
    }

    pub fn name(&self) -> &'static str {
        if self.replay.is_some() { "replay" } else { "explore" }
    }

    /// Explores one limiter.
    pub fn run(&self, target: &Target, lent: &Lent<'_>) -> Result<CellReport, Trouble> {
        let lack = modules::lack(target.spec, lent.backend).map(|lack| lack.in_words().to_owned());
        if let Some(why) = lack.or_else(|| too_old(target, lent.server)) {
            return Ok(self.cell(
                target,
                lent,
                self.findings(|_| Finding::not_applicable(why.clone())),
                None,
            ));
        }
        match &self.replay {
            Some((file, times)) => self.again(target, lent, file, *times),
            None => self.search(target, lent),
        }
    }

    fn subject(
        &self,
        target: &Target,
        settings: &Settings,
        (address, core): (std::net::SocketAddr, Option<usize>),
        workers: Option<&Arc<Workers>>,
    ) -> Subject {
        let (settings, workers) = (settings.clone(), workers.cloned());
        Subject { spec: target.spec, settings, profile: self.client, address, core, workers }
    }

    fn search(&self, target: &Target, lent: &Lent<'_>) -> Result<CellReport, Trouble> {
        let began = (lent.now)();
        let over = |time: Duration| (lent.stopped)() || (lent.now)().saturating_sub(began) >= time;
        let kept: Mutex<Vec<(Counterexample, Option<PathBuf>)>> = Mutex::new(Vec::new());
        let progress = |progress: Progress<'_>| match progress {
            Progress::Level { number, of, budget } if number > 1 => {
                (lent.note)(&format!("  level {number} of {of}: {}", budget.in_words()));
            }
            Progress::Level { .. } => {}
            Progress::Found(found, scripts) => {
                let Ok(mut kept) = kept.lock() else { return };
                if kept.iter().any(|(c, _)| c.check == found.check) {
                    return;
                }
                (lent.note)(&format!("  {} breaks: {}", found.check, found.schedule));
                kept.push((found.clone(), self.keep(found, target, scripts, lent)));
            }
        };
        let mut explored = Explored::default();
        for settings in &target.settings {
            let subject = |at: &(std::net::SocketAddr, Option<usize>)| {
                self.subject(target, settings, *at, lent.workers)
            };
            explored.and(explore(&Hunt {
                subjects: lent.servers.iter().map(subject).collect(),
                budget: self.budget,
                reduce: self.reduce,
                seed: lent.seed,
                spent: &|| over(self.time),
                spent_altogether: &|| over(self.time + self.time / 4),
                progress: &progress,
            })?);
        }
        let kept = kept.into_inner().unwrap_or_default();
        let files = |check: &str| kept.iter().find(|(c, _)| c.check == check).and_then(|(_, f)| f.clone());
        let findings = self.findings(|check| self.finding(check, target, &explored));
        let report = self.searched(target, &explored, &files);
        let mut cell = self.cell(target, lent, findings, Some(report));
        for check in &mut cell.checks {
            let file = files(&check.check).filter(|_| check.verdict == Verdict::Fail);
            check.replay = file.map(|f| format!("rl-lab replay {}", quoted(&f.display().to_string())));
        }
        Ok(cell)
    }

    /// Writes a counterexample down, for reading, for running and, where asked for, as a test.
    fn keep(
        &self,
        found: &Counterexample,
        target: &Target,
        scripts: &[String],
        lent: &Lent<'_>,
    ) -> Option<PathBuf> {
        let origin = Origin {
            limiter: &target.limiter,
            limit: found.limit,
            window: target.settings[0].window,
            client: self.client.name,
            scripts,
        };
        let file = ScheduleFile::of(found, &origin);
        let stem = file.stem();
        if let Some(folder) = &self.export {
            let written = std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(folder.join(format!("{stem}.sh")), file.to_shell()))
                .and_then(|()| std::fs::write(folder.join(format!("{stem}.json")), file.to_json()));
            if let Err(error) = written {
                (lent.note)(&format!("  the test cannot be written to '{}': {error}", folder.display()));
            }
        }
        let text = format!(
            "{} at limit {} per {}\n{}: {}\n{}schedule: {}\n\n{}\n{}\n",
            target.limiter,
            found.limit,
            origin.window,
            found.check,
            found.witness,
            found.story.between.as_ref().map(|b| format!("{b}\n")).unwrap_or_default(),
            found.schedule,
            found.story.side_by_side(),
            found.story.outcomes
        );
        (lent.keep)(&format!("{stem}.txt"), text.as_bytes());
        (lent.keep)(&format!("{stem}.json"), file.to_json().as_bytes())
    }

    fn again(
        &self,
        target: &Target,
        lent: &Lent<'_>,
        file: &ScheduleFile,
        times: u32,
    ) -> Result<CellReport, Trouble> {
        let mut world =
            RedisWorld::new(&self.subject(target, &target.settings[0], lent.servers[0], lent.workers))?;
        world.allow(file.budget);
        let (mut alike, mut broke, mut last) = (0, 0, None);
        let mut first = None;
        for _ in 0..times.max(1) {
            let (gone, ending) = follow_patiently(&mut world, &file.schedule.0)?;
            let trace = world.trace();
            alike += u32::from(*first.get_or_insert(trace) == trace && gone == file.schedule.0);
            if let Some(broken) = ending.broken.into_iter().find(|b| b.check == file.check) {
                broke += 1;
                last = Some(broken.witness);
            }
        }
        let story = super::story::tell(&mut world, &file.schedule, &file.check, &|| true)?;
        let transcript = story.lines().join("\n");
        let finding = match (broke, last) {
            (0, _) if alike == times => {
                Finding::pass(format!("{times} of {times} replays alike, none breaks it"))
            }
            (_, Some(witness)) if broke == times && alike == times => {
                Finding::fail(format!("{witness}\n{times} of {times} replays alike\n{transcript}"))
            }
            _ => Finding::unknown(format!(
                "{alike} of {times} replays went the same way and {broke} broke it: the limiter is not what it \
                 was when the schedule was saved, or not deterministic\n{transcript}"
            )),
        };
        Ok(self.cell(target, lent, vec![(file.check.clone(), finding)], None))
    }

    fn findings(&self, of: impl Fn(&'static str) -> Finding) -> Vec<(String, Finding)> {
        let finding = |(check, why): (&'static str, Option<&str>)| {
            let finding = why.map_or_else(|| of(check), Finding::not_applicable);
            (check.to_owned(), finding)
        };
        match &self.replay {
            Some((file, _)) => {
                let all = applicable(self.budget).into_iter().filter(|(c, _)| *c == file.check);
                all.map(|(check, _)| (check.to_owned(), of(check))).collect()
            }
            None => applicable(self.budget).into_iter().map(finding).collect(),
        }
    }

    fn searched(
        &self,
        target: &Target,
        explored: &Explored,
        file: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> SearchReport {
        SearchReport {
            budget: self.budget,
            complete: self.complete(target, explored),
            reduced: self.reduce,
            levels: explored
                .levels
                .iter()
                .map(|l| LevelReport {
                    limit: l.limit,
                    budget: l.budget,
                    complete: l.searched.complete,
                    schedules: l.searched.schedules,
                    states: l.searched.states,
                    pruned: l.searched.pruned,
                    steps: l.searched.steps,
                    endings: l.searched.endings.len() as u64,
                })
                .collect(),
            sample: explored.sample.as_ref().map(|s| SampleReport {
                schedules: s.schedules,
                longest: s.longest,
                depth: s.depth,
                missed_at_most: s.missed_at_most,
            }),
            counterexamples: explored
                .broken
                .values()
                .map(|c| CounterexampleReport {
                    check: c.check.to_owned(),
                    limit: c.limit,
                    schedule: c.schedule.clone(),
                    confirmed: c.confirmed,
                    file: file(c.check).and_then(|f| Some(f.file_name()?.to_string_lossy().into_owned())),
                })
                .collect(),
        }
    }

    fn cell(
        &self,
        target: &Target,
        lent: &Lent<'_>,
        findings: Vec<(String, Finding)>,
        search: Option<SearchReport>,
    ) -> CellReport {
        let checks = findings.into_iter().map(|(check, finding)| {
            let failed = finding.verdict == Verdict::Fail;
            CheckReport {
                check,
                verdict: finding.verdict,
                expected: None,
                outcome: Standing::Judged,
                witness: failed.then(|| finding.because.clone()),
                why: (!failed).then_some(finding.because),
                replay: None,
                scene: None,
            }
        });
        let mut figures = Figures::new();
        if let Some(search) = &search {
            let sum = |of: fn(&LevelReport) -> u64| search.levels.iter().map(of).sum::<u64>() as f64;
            if search.reduced {
                let last = search.levels.iter().filter(|l| l.budget == search.budget);
                figures.insert(Figure::States, last.map(|l| l.states).sum::<u64>() as f64);
            }
            figures.insert(Figure::Schedules, sum(|l| l.schedules));
        }
        CellReport {
            scenario: self.name().to_owned(),
            limiter: target.limiter.to_string(),
            params: target.limiter.params.clone(),
            variation: None,
            policy: None,
            client: self.client.name.to_owned(),
            backend: lent.backend.to_owned(),
            server: lent.server.version.clone(),
            server_flavour: lent.server.flavour.clone(),
            limit: target.settings[0].limit,
            contract: (target.spec.contract)(&target.settings[0]),
            requirement: None,
            rounds: Vec::new(),
            checks: checks.collect(),
            figures,
            honesty: CellHonesty::default(),
            adapters: Vec::new(),
            clocks: Vec::new(),
            place: None,
            told: Vec::new(),
            search: Some(search.unwrap_or_else(|| self.searched(target, &Explored::default(), &|_| None))),
            errors: Default::default(),
        }
    }
}

impl Exploration {
    fn complete(&self, target: &Target, explored: &Explored) -> bool {
        let whole = |limit: Limit| {
            let mut levels = explored.levels.iter();
            levels.any(|v| v.limit == limit && v.budget == self.budget && v.searched.complete)
        };
        explored.complete(self.budget) && target.settings.iter().all(|s| whole(s.limit))
    }

    fn finding(&self, check: &str, target: &Target, explored: &Explored) -> Finding {
        if let Some(why) = &explored.not_applicable {
            return Finding::not_applicable(why.clone());
        }
        if let Some(found) = explored.broken.get(check) {
            let story = &found.story;
            let mut lines = vec![found.witness.clone()];
            lines.extend(story.between.clone());
            lines.push(format!(
                "schedule '{}' at limit {} ({})",
                found.schedule,
                found.limit,
                found.budget.in_words()
            ));
            lines.extend(story.lines());
            if found.confirmed < REPLAYS {
                lines.push(format!("only {} of {REPLAYS} replays went the same way", found.confirmed));
                return Finding::unknown(lines.join("\n"));
            }
            lines.push(format!("{REPLAYS} of {REPLAYS} replays went the same way"));
            return Finding::fail(lines.join("\n"));
        }
        if self.complete(target, explored) {
            let last = || explored.levels.iter().filter(|l| l.budget == self.budget).map(|l| &l.searched);
            let (states, schedules): (u64, u64) =
                (last().map(|s| s.states).sum(), last().map(|s| s.schedules).sum());
            let seen = if states > 0 { format!("{states} states") } else { format!("{schedules} schedules") };
            return Finding::pass(format!(
                "certificate: {}, limit {}: {seen}, complete; deterministic clients assumed",
                self.budget.in_words(),
                in_words(target.settings.iter().map(|s| s.limit))
            ));
        }
        let why =
            explored.inconclusive.clone().unwrap_or_else(|| "the search did not come to its end".to_owned());
        let done = explored.levels.iter().rev().find(|l| l.searched.complete);
        let done = done.map(|l| format!("; complete up to {}", l.budget.in_words())).unwrap_or_default();
        let sampled = explored.sample.as_ref().map(|s| {
        format!(
            "; then {} random schedules of at most {} steps broke nothing: a bug of depth {} was missed with \
             probability ≤ {}",
            s.schedules,
            s.longest,
            s.depth,
            at_most(s.missed_at_most)
        )
    });
        Finding::unknown(format!("{why}{done}{}", sampled.unwrap_or_default()))
    }
}

/// `1 and 2`.
fn in_words(limits: impl Iterator<Item = Limit>) -> String {
    limits.map(|l| l.to_string()).collect::<Vec<_>>().join(" and ")
}

/// Rounded up, and never to nothing.
fn at_most(p: f64) -> String {
    if p < 0.01 { "0.01".to_owned() } else { format!("{:.2}", (p * 100.0).ceil() / 100.0) }
}

fn too_old(target: &Target, server: &ServerInfo) -> Option<String> {
    target.spec.needs_server?.refuse(&server.version)
}

fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
