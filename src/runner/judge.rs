//! From a recorded cell to its part of the report. Pure: the same for a run and for `analyze`.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::checkers::{self, lift_takes_effect};
use crate::model::counter;
use crate::model::figures;
use crate::model::history::{Cell, KeyLeft, PlannedCheck, Round};
use crate::model::indexed::{IndexedCell, IndexedRound};
use crate::model::names::without_prefix;
use crate::model::op::Outcome;
use crate::model::phases;
use crate::model::report::{CellHonesty, CellReport, CheckReport, CrashReport, RoundCounts};
use crate::model::scenario::PlannedClock;
use crate::model::scene;
use crate::model::units::{Nanos, millis_in_words};
use crate::model::verdict::{Finding, Verdict, standing};

/// Judges a cell.
pub fn judge(cell: &Cell) -> CellReport {
    let header = &cell.header;
    let indexed = IndexedCell::of(cell);
    let mut errors = BTreeMap::new();
    for (text, count) in cell.rounds.iter().flat_map(|r| &r.errors) {
        *errors.entry(text.clone()).or_default() += count;
    }
    CellReport {
        scenario: header.scenario.clone(),
        limiter: header.limiter.clone(),
        params: header.params.clone(),
        variation: header.variation.clone(),
        policy: header.policy.clone(),
        client: header.client.clone(),
        backend: header.backend.clone(),
        server: header.server.version.clone(),
        server_flavour: header.server.flavour.clone(),
        limit: header.limit,
        contract: header.contract.clone(),
        requirement: header.requirement,
        rounds: cell.rounds.iter().map(|r| counts(cell, r)).collect(),
        checks: header.checks.iter().map(|c| check(&indexed, c)).collect(),
        figures: figures::measure(cell),
        honesty: honesty(&indexed),
        search: None,
        adapters: adapters(cell),
        place: header.place,
        clocks: header.clocks.clone(),
        told: told(cell).into_iter().chain(per_window(cell)).collect(),
        errors,
    }
}

/// What its processes said they are.
fn adapters(cell: &Cell) -> Vec<String> {
    let all: BTreeSet<&String> = cell.rounds.iter().flat_map(|r| &r.adapters).collect();
    all.into_iter().cloned().collect()
}

/// What was admitted in each window's length from the first call on, where clocks were wrong over several.
fn per_window(cell: &Cell) -> Option<String> {
    let window = cell.header.contract.bound.window()?;
    if cell.header.clocks.is_empty() {
        return None;
    }
    let mut counts: Vec<u64> = Vec::new();
    for round in &cell.rounds {
        let first = round.ops.first()?.invoke;
        for op in round.ops.iter().filter(|o| o.outcome == Outcome::Admitted) {
            // A call that is due as a window begins belongs to it, however punctual the first one was.
            let place = usize::try_from((op.invoke.0 - first.0 + LATE_NS) / window.nanos()).ok()?;
            counts.resize(counts.len().max(place + 1), 0);
            counts[place] += 1;
        }
    }
    const MOST: usize = 12;
    const LATE_NS: i64 = 5_000_000;
    let clocks: Vec<String> = cell.header.clocks.iter().map(PlannedClock::in_words).collect();
    let shown: Vec<String> = counts.iter().take(MOST).map(u64::to_string).collect();
    let more = if counts.len() > MOST { " …" } else { "" };
    Some(format!("{}: admitted in each {window}: {}{more}", clocks.join(", "), shown.join(" ")))
}

/// What was broken or done and what came of it, in its order; the same in several rounds is said once.
fn told(cell: &Cell) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for round in &cell.rounds {
        let at = |t: Nanos| format!("{:.1} s", Nanos(t.0.saturating_sub(round.began.0)).millis() / 1e3);
        let faults = round.faults.iter().map(|f| {
            let to = f.over.map(|over| format!(" to {}", at(over))).unwrap_or_default();
            let told = f.told.as_ref().map(|t| format!(": {t}")).unwrap_or_default();
            (f.asked, format!("{} of {} from {}{to}{told}", f.fault, f.on, at(f.asked)))
        });
        let acts = round.acts.iter().filter_map(|a| {
            let told = a.told.as_ref()?;
            Some((a.invoke, format!("{} at {}: {told}", a.act.name(), at(a.invoke))))
        });
        let changes = round.changes.iter().map(|(t, what)| (*t, format!("{what} from {} on", at(*t))));
        let mut all: Vec<(Nanos, String)> = faults.chain(acts).chain(changes).collect();
        all.sort();
        lines.extend(all.into_iter().map(|(_, line)| line));
    }
    lines
}

/// As it was driven, with what only the whole record shows.
fn honesty(cell: &IndexedCell) -> CellHonesty {
    let overlap = cell.rounds().iter().map(IndexedRound::overlap).max().unwrap_or(0);
    CellHonesty { overlap, ..cell.honesty.unwrap_or_default() }
}

/// The largest step of the wall clock in a round.
pub fn clock_step_ms(cell: &Cell) -> f64 {
    cell.rounds.iter().map(|r| r.clock_step_ns.saturating_abs()).max().unwrap_or(0) as f64 / 1e6
}

fn counts(cell: &Cell, round: &Round) -> RoundCounts {
    let (p50_ms, max_ms) = figures::latency(round);
    RoundCounts {
        p50_ms,
        max_ms,
        counter: cell.header.topology.as_ref().and_then(|_| counter::of(cell.header.limit, round)),
        loads: round.loads.clone(),
        crash: crash(cell, round),
        phases: phases::of(round),
        slices: phases::slices(round),
        offered: round.ops.len() as u64,
        admitted: round.count(Outcome::Admitted),
        denied: round.count(Outcome::Denied),
        failed: round.count(Outcome::Failed),
        unknown: round.count(Outcome::Unknown),
        preset: round.presets.iter().map(|p| p.used).max().unwrap_or(0),
    }
}

/// What others got after the node of the first call died, window by window from their first call on.
fn crash(cell: &Cell, round: &Round) -> Option<CrashReport> {
    let crash = round.crash.as_ref()?;
    let window = cell.header.contract.bound.window()?.nanos();
    let others = || round.ops.iter().filter(|o| o.invoke >= crash.at);
    let first = others().map(|o| o.invoke).min()?;
    let mut windows: Vec<(u64, u64)> = Vec::new();
    for op in others() {
        let at = usize::try_from((op.invoke.0 - first.0) / window).unwrap_or(0);
        if windows.len() <= at {
            windows.resize(at + 1, (0, 0));
        }
        windows[at].0 += 1;
        windows[at].1 += u64::from(op.outcome == Outcome::Admitted);
    }
    windows.retain(|(offered, _)| *offered > 0);
    let released = windows.last().is_some_and(|(_, admitted)| *admitted > 0);
    let one = |k: &KeyLeft| {
        let holds = k.holds.map_or_else(|| k.kind.clone(), |n| n.to_string());
        let left = u64::try_from(k.pttl)
            .map_or_else(|_| "no expiry".to_owned(), |ms| format!("{} left", millis_in_words(ms)));
        let name = without_prefix(&k.key);
        format!("{name} = {holds} ({left})")
    };
    let left: Vec<String> = crash.left.iter().map(one).collect();
    let left = if left.is_empty() { "no key".to_owned() } else { left.join(", ") };
    Some(CrashReport { died: crash.point.in_words(), left, windows, released })
}

fn check(cell: &IndexedCell, planned: &PlannedCheck) -> CheckReport {
    let Finding { verdict, because, place } = finding(cell, &planned.check);
    let failed = verdict == Verdict::Fail;
    // What was not run cannot disappoint: its expectation is about another server.
    let expected = planned.expected.filter(|_| cell.header.not_run.is_none());
    CheckReport {
        check: planned.check.clone(),
        verdict,
        expected,
        outcome: standing(verdict, expected),
        witness: failed.then(|| because.clone()),
        why: (!failed).then_some(because),
        scene: place.filter(|_| failed).and_then(|place| {
            let round = cell.rounds.iter().find(|r| r.index == place.round)?;
            scene::of(round, &place)
        }),
        replay: failed.then(|| cell.header.replay.clone()).filter(|r| !r.is_empty()),
    }
}

/// Checks that say the same whether or not the counters were removed between two calls, and the one about it.
const KNOW_LIFTS: [&str; 4] =
    ["lift-takes-effect", "every-key-expires", "keys-declared-and-one-slot", "cost"];

/// Checks that say the same whatever version decided: the bound they go by is the largest there was.
const KNOW_VERSIONS: [&str; 7] = [
    "never-over-limit",
    "meets-requirement",
    "every-key-expires",
    "bounded-latency",
    "declared-outage-policy",
    "fail-open-is-reported",
    "cost",
];

/// A checker that breaks has found nothing.
fn finding(cell: &IndexedCell, name: &str) -> Finding {
    if let Some(why) = &cell.header.not_run {
        return Finding::not_applicable(why.clone());
    }
    if let Some(why) = cell.rounds.iter().find_map(|r| r.disbelieved.as_ref()) {
        return Finding::unknown(format!("an app server cannot be believed: {why}"));
    }
    if lift_takes_effect::was_lifted(cell) && !KNOW_LIFTS.contains(&name) {
        return Finding::unknown("the limit was lifted in between, of which this check knows nothing");
    }
    if cell.header.versions > 0 && !KNOW_VERSIONS.contains(&name) {
        return Finding::unknown(
            "another version was rolled out in between, of which this check knows nothing",
        );
    }
    let checker = match checkers::find(name) {
        Ok(checker) => checker,
        Err(why) => return Finding::unknown(why),
    };
    catch_unwind(AssertUnwindSafe(|| checker.judge_indexed(cell)))
        .unwrap_or_else(|_| Finding::unknown("the checker itself broke; this is a fault of the lab"))
}
