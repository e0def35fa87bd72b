//! A decision record in the headings of MADR 4: everything but the decision.
//!
//! What is needed comes from the scenarios: those that name the same need are looked at together. The consequences
//! are what was measured, for each option and need; which of them weighs most is the author's to say.

use std::collections::BTreeSet;

use super::super::document::{
    Align, Block, Span, Table, Text, code, codes, heading, list, para, plain, strong, word,
};
use super::super::{compose, words};
use super::comparison;
use super::{Options, Scenes, Section, Study, standings};
use crate::model::contract::{Bound, DecidingClock, Scope};
use crate::model::figures::Figure;
use crate::model::report::CellReport;
use crate::model::verdict::Verdict;

/// Scenarios of one need.
struct Need<'a, 'b> {
    name: String,
    sections: Vec<&'b Section<'a>>,
}

impl<'a> Need<'a, '_> {
    fn options(&self) -> Options<'a> {
        Options::of(self.sections.iter().copied())
    }
}

pub fn compose(study: &Study<'_>, scenes: Scenes) -> Result<Vec<Block>, String> {
    let sections = study.sections();
    if sections.iter().all(|s| s.cells.is_empty()) {
        return Err("no limiter was run in any of these runs".to_owned());
    }
    let needs = needs(&sections);
    let options = Options::of(&sections);
    let mut blocks = vec![
        heading(1, &*study.title),
        Block::List(vec![
            plain("status: proposed").into(),
            plain("date, decision-makers, consulted, informed: to be filled in by the author").into(),
        ]),
        heading(2, "Context and Problem Statement"),
    ];
    blocks.push(para(if needs.len() == 1 {
        "Which rate limiter serves this need? What follows was measured, not read up."
    } else {
        "Which rate limiter serves which need? What follows was measured, not read up."
    }));
    blocks.extend(list(needs.iter().map(|need| {
        let asked: BTreeSet<&str> =
            need.sections.iter().filter_map(|s| s.scenario.requires.as_deref()).collect();
        let asked: Vec<&str> = asked.into_iter().collect();
        let asked = if asked.is_empty() { String::new() } else { format!(": {}", asked.join("; or ")) };
        let mut line = strong(&*need.name);
        line.push(Span::Plain(asked));
        line
    })));
    blocks.push(heading(2, "Decision Drivers"));
    blocks.extend(list(options.checks().into_iter().map(|check| {
        let mut line = code(check);
        line.extend(study.proves.get(check).map(|proves| Span::Plain(format!(": {proves}"))));
        line
    })));
    blocks.push(heading(2, "Considered Options"));
    blocks.extend(list(options.names.iter().map(|name| {
        let mut line = code(&**name);
        line.extend(options.cells(name).first().map(|(_, cell)| Span::Plain(format!(": {}", promise(cell)))));
        line
    })));
    blocks.push(heading(2, "Decision Outcome"));
    // A decision for each need: one option need not serve all of them.
    blocks.extend(list(needs.iter().map(|need| {
        let mut chosen = strong(format!("Chosen option for {}:", need.name));
        chosen.push(Span::Plain(
            " to be filled in by the author, because … (see the consequences below).".to_owned(),
        ));
        chosen
    })));
    blocks.push(heading(3, "Consequences"));
    blocks.push(para(
        "A property that stands here as broken names the first call too many; how many there were in all tell the \
         columns beside it. A pass is a pass of what was tried: the scenarios of a need, and no other.",
    ));
    for need in &needs {
        blocks.extend(consequences(need));
    }
    blocks.push(heading(3, "Confirmation"));
    blocks.push(para("The measurements are repeated, and a change that breaks one is found, with:"));
    let mut commands: Vec<String> = study.runs.iter().map(|(_, r)| words::shell(&r.command)).collect();
    commands.dedup();
    blocks.extend(commands.into_iter().map(Block::Shell));
    blocks.push(heading(2, "Pros and Cons of the Options"));
    for name in &options.names {
        blocks.push(Block::Heading(3, code(&**name)));
        blocks.extend(arguments(&options, name));
    }
    blocks.push(heading(2, "More Information"));
    blocks.push(para("The evidence, scenario by scenario:"));
    for section in &sections {
        let told = comparison::section(section, scenes)?;
        // Below the record's own headings.
        blocks.extend(told.into_iter().map(|block| match block {
            Block::Heading(level, text) => Block::Heading(level + 1, text),
            other => other,
        }));
    }
    blocks.extend(study.honesty());
    Ok(blocks)
}

/// The needs, in order of first appearance: a scenario that names none is one of its own.
fn needs<'a, 'b>(sections: &'b [Section<'a>]) -> Vec<Need<'a, 'b>> {
    let mut needs: Vec<Need<'a, 'b>> = Vec::new();
    for section in sections {
        let name = section.scenario.need.clone().unwrap_or_else(|| section.scenario.title.clone());
        match needs.iter_mut().find(|n| n.name == name) {
            Some(need) => need.sections.push(section),
            None => needs.push(Need { name, sections: vec![section] }),
        }
    }
    needs
}

/// What a limiter promises, and whose clock it goes by.
fn promise(cell: &CellReport) -> String {
    let scope = match cell.contract.scope {
        Scope::Global => "over all nodes together",
        Scope::Node => "on each node",
    };
    let clock = match cell.contract.clock {
        DecidingClock::App => "by the app server's clock",
        DecidingClock::Server => "by the store's clock",
        DecidingClock::Expiry => "by the expiry of keys",
    };
    let bound = match cell.contract.bound {
        Bound::FixedWindow { .. } => "promises the limit in each window, opened by its first hit",
        Bound::AlignedWindow { .. } => "promises the limit in each clock-aligned window",
        Bound::SlidingWindow { .. } => "promises the limit in any span of a window's length",
        Bound::WeightedTwoWindow { .. } => {
            "promises the limit in the weighted sum of two clock-aligned windows"
        }
        Bound::Bucket { .. } => "promises a capacity at once that refills over the window",
        Bound::None => "promises no bound",
    };
    format!("{bound}, {scope}, {clock}")
}

/// What was measured for one need, in one table: verdicts, then figures; who kept most first.
fn consequences(need: &Need<'_, '_>) -> Vec<Block> {
    let options = need.options();
    let checks = options.checks();
    let mut figures = Vec::new();
    for section in &need.sections {
        let several = section.cells.iter().any(|c| c.variation.is_some());
        for figure in section.scenario.figures.iter().filter(|_| !several) {
            figures.push((section, *figure));
        }
    }
    let mut heads = vec![(plain("option"), Align::Left)];
    heads.extend(checks.iter().map(|c| (code(*c), Align::Left)));
    heads.extend(figures.iter().map(|(section, f)| {
        let head = format!("{} ({})", f.head(), section.scenario.name);
        (plain(head), Align::Right)
    }));
    let count =
        |name: &str, verdict| checks.iter().filter(|c| options.worst(name, c) == Some(verdict)).count();
    let mut names: Vec<&String> = options.names.iter().collect();
    names.sort_by_key(|name| (count(name, Verdict::Fail), count(name, Verdict::Unknown)));
    let rows = names.iter().map(|name| {
        let verdicts = checks.iter().map(|check| {
            let worst = options.worst(name, check);
            worst.map(word).unwrap_or_default()
        });
        let measured = figures.iter().map(|(section, figure)| {
            let cell = section.cells.iter().find(|c| options.name(c) == **name);
            plain(cell.map_or_else(|| "–".to_owned(), |c| words::figure(c, *figure)))
        });
        std::iter::once(code(&***name)).chain(verdicts).chain(measured).collect()
    });
    let rows: Vec<Vec<Text>> = rows.collect();
    let mut blocks = vec![heading(4, &*need.name)];
    blocks.extend(standings(&options));
    blocks.push(Block::Table(Table { caption: format!("{}: what was measured", need.name), heads, rows }));
    let mut why = Vec::new();
    for name in &names {
        for check in &checks {
            let judged = options.judged(name, check);
            let Some((scenario, _, found)) = judged.iter().find(|(.., c)| c.verdict == Verdict::Fail) else {
                continue;
            };
            let mut line = code(&***name);
            line.extend([Span::Plain(" breaks ".to_owned()), Span::Code((*check).to_owned())]);
            let because = compose::first_sentence(words::because(found));
            line.push(Span::Plain(format!(" under {}: {because}", scenario.name)));
            why.push(line);
        }
    }
    blocks.extend(list(why));
    blocks.extend(least(&options, &figures));
    blocks
}

/// Of what is paid for, who takes least among those that kept everything.
fn least(options: &Options<'_>, figures: &[(&&Section<'_>, Figure)]) -> Option<Block> {
    const PAID: [Figure; 3] =
        [Figure::BytesPerIdentity, Figure::EntriesPerIdentity, Figure::RoundTripsPerDecision];
    let kept = options.with(|v| matches!(v, Verdict::Pass | Verdict::NotApplicable));
    let lines = figures.iter().filter(|(_, f)| PAID.contains(f)).filter_map(|(section, figure)| {
        let values = section.cells.iter().filter_map(|c| {
            let name = options.name(c);
            kept.contains(&name.as_str()).then_some(())?;
            Some((*c.figures.get(figure)?, name))
        });
        let values: Vec<(f64, String)> = values.collect();
        let least = values.iter().map(|(v, _)| *v).min_by(f64::total_cmp)?;
        let names: Vec<&str> = values.iter().filter(|(v, _)| *v == least).map(|(_, n)| n.as_str()).collect();
        if values.len() < 2 || names.len() == values.len() {
            return None;
        }
        let mut line = plain(format!("Of those that kept everything, least {}: ", figure.head()));
        line.extend(codes(names));
        line.push(Span::Plain(format!(
            " ({}, {})",
            words::figure_text(*figure, least),
            section.scenario.name
        )));
        Some(line)
    });
    list(lines)
}

/// Good, neutral and bad, as the form has them: each check once, with the scenarios that tried it.
fn arguments(options: &Options<'_>, name: &str) -> Vec<Block> {
    let mut lines: Vec<(u8, Text)> = Vec::new();
    for check in options.checks() {
        let judged = options.judged(name, check);
        for (order, verdict, word) in
            [(0, Verdict::Pass, "Good"), (1, Verdict::Unknown, "Neutral"), (2, Verdict::Fail, "Bad")]
        {
            let so: Vec<_> = judged.iter().filter(|(.., c)| c.verdict == verdict).collect();
            let Some((_, _, first)) = so.first() else { continue };
            let verb = match verdict {
                Verdict::Pass => "kept",
                Verdict::Fail => "broken",
                _ => "not decided",
            };
            let mut line = plain(format!("{word}, because "));
            line.push(Span::Code(check.to_owned()));
            line.push(Span::Plain(format!(" is {verb} under ")));
            let mut under: Vec<&str> = so.iter().map(|(s, ..)| s.name.as_str()).collect();
            under.dedup();
            line.extend(codes(under));
            let because = compose::first_sentence(words::because(first));
            line.push(Span::Plain(format!(": {because}")));
            lines.push((order, line));
        }
    }
    lines.sort_by_key(|(order, _)| *order);
    let told = list(lines.into_iter().map(|(_, line)| line));
    told.map_or_else(|| vec![para("Nothing of it was judged.")], |block| vec![block])
}
