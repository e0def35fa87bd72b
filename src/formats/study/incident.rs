//! One conviction told step by step: what was promised, what happened, and how it is shown again.

use super::super::document::{Block, Item, Span, Text, code, heading, list, para, plain};
use super::super::findings::Kind;
use super::super::{compose, svg, words};
use super::{Section, Study};
use crate::model::contract::Scope;
use crate::model::op::Outcome;
use crate::model::report::{CellReport, CheckReport};
use crate::model::scene::{Scene, SceneCall};
use crate::model::units::Nanos;
use crate::model::verdict::Verdict;

/// Which conviction is told: of all that fit, one that nobody expected, else the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    pub limiter: Option<String>,
    pub check: Option<String>,
}

pub fn compose(study: &Study<'_>) -> Result<Vec<Block>, String> {
    let sections = study.sections();
    let Some((section, cell, label, check)) = find(&sections, &study.chosen) else {
        return Err(missing(&sections, &study.chosen));
    };
    let mut blocks = vec![heading(1, &*study.title), heading(2, "In short")];
    let mut short = code(label);
    short.push(Span::Plain(" breaks ".to_owned()));
    short.push(Span::Code(check.check.clone()));
    short.push(Span::Plain(format!(": {}.", compose::first_sentence(words::because(check)))));
    blocks.push(Block::Para(short));
    blocks.extend(facts(study, section, cell, check));
    blocks.push(heading(2, "Step by step"));
    match &check.scene {
        Some(scene) => {
            blocks.push(Block::Steps(steps(scene)));
            if scene.left_out > 0 {
                blocks.push(para(format!(
                    "{} more calls that convict are left out here; the history has them all.",
                    scene.left_out
                )));
            }
            let title = format!("{label} · {}", compose::first_sentence(words::because(check)));
            let svg = svg::scene::draw(&title, scene)?;
            let alt = format!("The calls of round {}, from beginning to answer", scene.round);
            blocks.push(Block::Chart { file: "calls.svg".to_owned(), svg, alt });
        }
        None => {
            let lines = words::because(check).lines().filter(|l| !l.trim().is_empty());
            blocks.push(Block::Steps(lines.map(|l| plain(l.trim())).map(Item::from).collect()));
        }
    }
    blocks.push(heading(2, "The whole witness"));
    blocks.extend(list(
        words::because(check).lines().filter(|l| !l.trim().is_empty()).map(|l| plain(l.trim())),
    ));
    if let Some(replay) = &check.replay {
        blocks.push(heading(2, "Show it again"));
        blocks.push(Block::Shell(replay.clone()));
    }
    blocks.extend(study.honesty());
    Ok(blocks)
}

type Found<'s> = (&'s Section<'s>, &'s CellReport, &'s str, &'s CheckReport);

fn all<'s>(sections: &'s [Section<'s>]) -> impl Iterator<Item = Found<'s>> {
    sections.iter().flat_map(|section| {
        section.cells.iter().zip(&section.labels).flat_map(move |(cell, label)| {
            let failed = cell.checks.iter().filter(|c| c.verdict == Verdict::Fail);
            failed.map(move |check| (section, *cell, label.as_str(), check))
        })
    })
}

fn find<'s>(sections: &'s [Section<'s>], chosen: &Chosen) -> Option<Found<'s>> {
    let fits = |(_, cell, label, check): &Found<'s>| {
        let limiter = chosen.limiter.as_ref();
        limiter.is_none_or(|l| cell.limiter == *l || *label == *l)
            && chosen.check.as_ref().is_none_or(|c| check.check == *c)
    };
    let fitting: Vec<Found<'s>> = all(sections).filter(fits).collect();
    let unexpected = fitting.iter().find(|(.., check)| Kind::of(check) == Kind::Failed);
    // What can be shown call by call tells more.
    let drawn = fitting.iter().find(|(.., check)| check.scene.is_some());
    unexpected.or(drawn).or(fitting.first()).copied()
}

fn missing(sections: &[Section<'_>], chosen: &Chosen) -> String {
    let asked = [("limiter", &chosen.limiter), ("check", &chosen.check)];
    let asked: Vec<String> =
        asked.iter().filter_map(|(what, name)| Some(format!("{what} '{}'", name.as_ref()?))).collect();
    let of = if asked.is_empty() { String::new() } else { format!(" of {}", asked.join(" and ")) };
    let known: Vec<String> = all(sections).map(|(_, _, label, c)| format!("{label} · {}", c.check)).collect();
    let known = match known.as_slice() {
        [] => "nothing was convicted in these runs".to_owned(),
        some => format!("there are: {}", some.iter().take(8).cloned().collect::<Vec<_>>().join(", ")),
    };
    format!("there is no conviction{of} to tell; {known}")
}

/// What the reader needs to know before it begins.
fn facts(study: &Study<'_>, section: &Section<'_>, cell: &CellReport, check: &CheckReport) -> Option<Block> {
    let scope = match cell.contract.scope {
        Scope::Global => "over all nodes together",
        Scope::Node => "on each node",
    };
    let mut lines = vec![plain(format!("Scenario: {}", section.scenario.title))];
    lines.push(plain(format!("Plan: {}", section.scenario.plan)));
    lines.push(plain(format!("The limiter promises {}, {scope}", cell.contract.bound.in_words())));
    lines.extend(section.scenario.requires.as_ref().map(|r| plain(format!("Required: {r}"))));
    if let Some(proves) = study.proves.get(check.check.as_str()) {
        let mut line: Text = code(&*check.check);
        line.push(Span::Plain(format!(" says: {proves}")));
        lines.push(line);
    }
    lines.push(plain(format!("Server: {}, {}", words::server_of(cell), cell.backend)));
    lines.extend(cell.told.iter().map(|told| plain(told.as_str())));
    list(lines)
}

/// What happens at one moment.
enum What<'a> {
    Breaks(String),
    Asks(&'a SceneCall),
    Ends(&'a SceneCall),
}

/// Every call's beginning and answer in their order; many that do the same in a row are one step. Calls that are held
/// against a bound are counted as they are answered.
fn steps(scene: &Scene) -> Vec<Item> {
    let mut events: Vec<(f64, u8, What<'_>)> = Vec::new();
    for call in &scene.calls {
        events.push((call.from_ms, 1, What::Asks(call)));
        events.extend(call.to_ms.map(|to| (to, 2, What::Ends(call))));
    }
    for fault in &scene.faults {
        events.push((fault.from_ms, 0, What::Breaks(format!("{} of {} begins", fault.fault, fault.on))));
        let over = |to| (to, 0, What::Breaks(format!("{} of {} is over", fault.fault, fault.on)));
        events.extend(fault.to_ms.map(over));
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let beyond = |call: &SceneCall| Some(call.sum? > scene.allowed?);
    let kind = |what: &What<'_>| match what {
        What::Breaks(text) => text.clone(),
        What::Asks(_) => "asks".to_owned(),
        // The one that is too much begins a step of its own.
        What::Ends(call) => format!("{:?} {:?} {:?}", call.outcome, call.source, beyond(call)),
    };
    events.chunk_by(|a, b| kind(&a.2) == kind(&b.2)).map(|row| step(row, scene)).collect()
}

/// Some that ask, or are answered alike, one after the other.
fn step(row: &[(f64, u8, What<'_>)], scene: &Scene) -> Item {
    const NAMED: usize = 12;
    let calls = || {
        row.iter().filter_map(|(.., what)| match what {
            What::Asks(call) | What::Ends(call) => Some(*call),
            What::Breaks(_) => None,
        })
    };
    let (from, to) = (row[0].0, row[row.len() - 1].0);
    let (begin, end) = (Nanos::from_millis(from), Nanos::from_millis(to));
    let when = match (row.len() > 1, begin.is_long() || end.is_long()) {
        (false, _) => begin.to_string(),
        (true, false) => format!("{from:.3}–{to:.3} ms"),
        (true, true) => format!("{}–{}", begin.beside(end), end.beside(begin)),
    };
    let mut line: Text = code(when);
    let ops: Vec<String> = calls().take(NAMED).map(|c| format!("{} (node {})", c.op, c.node)).collect();
    let more = row.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let subject = match row.len() {
        1 => format!("op {}", ops.concat()),
        n => format!("{n} calls, ops {}{more},", ops.join(", ")),
    };
    let (asks, are) = if row.len() == 1 { ("asks", "is") } else { ("ask", "are") };
    let text = match &row[0].2 {
        What::Breaks(text) => text.clone(),
        What::Asks(_) => format!("{subject} {asks}"),
        What::Ends(call) => {
            let came = match call.outcome {
                Outcome::Admitted => "admitted",
                Outcome::Denied => "refused",
                Outcome::Failed => "answered with an error",
                Outcome::Unknown => "given up, and nobody knows what became of them",
            };
            let by = call.source.filter(|s| s.is_of_a_policy()).map(|s| format!(" by {}", s.name()));
            let most = calls().filter_map(|c| c.sum).max();
            let sum = most.zip(scene.allowed).map(|(sum, allowed)| match sum > allowed {
                true => format!(": {sum} now, where {allowed} may be"),
                false => format!(": {sum} of {allowed}"),
            });
            format!("{subject} {are} {came}{}{}", by.unwrap_or_default(), sum.unwrap_or_default())
        }
    };
    line.push(Span::Plain(format!(" {text}")));
    Item::from(line)
}
