//! A decision record in the headings of MADR 4: everything but the decision.
//!
//! What is needed comes from the scenarios: those that name the same need are looked at together. The consequences
//! are what was measured, for each option and need; which of them weighs most is the author's to say.

use std::collections::BTreeSet;

use super::super::document::{
    Align, Block, Item, Span, Table, Text, code, codes, fold, heading, joined, list, para, plain, strong,
    word,
};
use super::super::{compose, words};
use super::comparison;
use super::{Options, Scenes, Section, Study, not_convicted};
use crate::model::contract::{Bound, DecidingClock, Scope};
use crate::model::figures::Figure;
use crate::model::report::CellReport;
use crate::model::verdict::Verdict;

/// Scenarios of one need.
struct Need<'a, 'b> {
    name: String,
    sections: Vec<&'b Section<'a>>,
}

/// A figure of a scenario.
type Measured<'a, 'b> = (&'b Section<'a>, Figure);

impl<'a, 'b> Need<'a, 'b> {
    fn figures(&self) -> Vec<Measured<'a, 'b>> {
        let of = |section: &&'b Section<'a>| {
            let section = *section;
            section.scenario.figures.iter().map(move |figure| (section, *figure))
        };
        self.sections.iter().flat_map(of).collect()
    }

    fn options(&self) -> Options<'a> {
        Options::of_limiters(self.sections.iter().copied())
    }
}

pub fn compose(study: &Study<'_>, scenes: Scenes) -> Result<Vec<Block>, String> {
    let sections = study.sections();
    if sections.iter().all(|s| s.cells.is_empty()) {
        return Err("no limiter was run in any of these runs".to_owned());
    }
    let needs = needs(&sections);
    let options = Options::of_limiters(&sections);
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
        let asked =
            if asked.is_empty() { String::new() } else { format!(", taken to mean {}", asked.join("; or ")) };
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
    blocks.push(para("A pass is a pass of what was tried: the scenarios of a need, and no other."));
    for need in &needs {
        blocks.extend(consequences(need));
    }
    blocks.push(heading(3, "Confirmation"));
    blocks.push(para("The measurements are repeated, and a change that breaks one is found, with:"));
    let mut commands: Vec<String> = study.runs.iter().map(|(_, r)| words::shell(&r.command)).collect();
    commands.dedup();
    blocks.extend(commands.into_iter().map(Block::Shell));
    blocks.push(heading(2, "Pros and Cons of the Options"));
    blocks.push(para(
        "Those that broke least first, for each need by itself; what every option keeps is left out. What was seen of a \
         broken property stands under the consequences, what a pass rests on under more information.",
    ));
    let each: Vec<(&Need<'_, '_>, Options<'_>)> = needs.iter().map(|need| (need, need.options())).collect();
    for name in by_convictions(&options) {
        blocks.push(Block::Heading(3, code(name)));
        for (need, options) in each.iter().filter(|(_, o)| !o.cells(name).is_empty()) {
            if needs.len() > 1 {
                blocks.push(Block::Para(strong(&*need.name)));
            }
            blocks.push(arguments(need, options, name));
        }
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

/// What was measured for one need: what was tried, who kept it, how those differ, and all of it in one table.
fn consequences(need: &Need<'_, '_>) -> Vec<Block> {
    let options = need.options();
    let figures = need.figures();
    let mut blocks = vec![heading(4, &*need.name), para("What was tried:")];
    blocks.extend(list(need.sections.iter().map(|section| tried(section, &options))));
    blocks.extend(list(need.sections.iter().flat_map(|section| held_to_another(section, &options))));
    blocks.push(para("What came of it:"));
    blocks.extend(list(not_convicted(&options).into_iter().chain(convictions(&options))));
    blocks.extend(differences(&options, &figures));
    // What all of them came to tells nobody apart.
    let (same, checks): (Vec<&str>, Vec<&str>) =
        options.checks().into_iter().partition(|check| kept_by_all(&options, check));
    let (alike, figures): (Vec<_>, Vec<_>) = figures.into_iter().partition(|(section, figure)| {
        let all: BTreeSet<String> =
            options.names.iter().map(|n| measured(&options, section, *figure, n)).collect();
        all.len() == 1
    });
    if !same.is_empty() {
        let kept = with_scenarios(&options, None, &same, Verdict::Pass);
        blocks.push(Block::Para([plain("Every option keeps "), kept, plain(".")].concat()));
    }
    if !alike.is_empty() {
        let each = alike.iter().map(|(section, figure)| {
            let value = options.names.first().map(|n| measured(&options, section, *figure, n));
            format!("{} {} ({})", figure.head(), value.unwrap_or_default(), section.scenario.name)
        });
        let each: Vec<String> = each.collect();
        blocks.push(para(format!("The same for every option: {}.", each.join(", "))));
    }
    let names = by_convictions(&options);
    let table = |what: &str, heads: Vec<(Text, Align)>, row: &dyn Fn(&str) -> Vec<Text>| {
        let rows = names.iter().map(|name| std::iter::once(code(*name)).chain(row(name)).collect());
        let heads = std::iter::once((plain("option"), Align::Left)).chain(heads);
        let caption = format!("{}: {what}", need.name);
        Block::Table(Table { caption, heads: heads.collect(), rows: rows.collect() })
    };
    if !checks.is_empty() {
        let heads = checks.iter().map(|c| (code(*c), Align::Left)).collect();
        blocks.push(table("what was kept", heads, &|name| {
            checks.iter().map(|check| options.worst(name, check).map(word).unwrap_or_default()).collect()
        }));
    }
    if !figures.is_empty() {
        let head = |(section, f): &Measured<'_, '_>| format!("{} ({})", f.head(), section.scenario.name);
        let heads = figures.iter().map(|figure| (plain(head(figure)), Align::Right)).collect();
        blocks.push(table("what was measured", heads, &|name| {
            figures.iter().map(|(section, f)| plain(measured(&options, section, *f, name))).collect()
        }));
    }
    let seen = names.iter().flat_map(|name| witnesses(&options, name)).map(Item::from).collect();
    blocks.extend(fold("What was seen of each broken property, at its first call", false, seen));
    blocks
}

/// Whether nobody can be told from others by it.
fn kept_by_all(options: &Options<'_>, check: &str) -> bool {
    options.names.len() > 1 && options.names.iter().all(|n| options.worst(n, check) == Some(Verdict::Pass))
}

/// Who was held to something else than a scenario requires, where a variation changed the limit or the window: the need as
/// it stands was not tried there.
fn held_to_another(section: &Section<'_>, options: &Options<'_>) -> Vec<Text> {
    let Some(required) = section.scenario.requires.as_deref() else { return Vec::new() };
    let mut held: Vec<(String, BTreeSet<String>)> = Vec::new();
    for cell in section.cells.iter() {
        let Some(own) = cell.requirement.map(|r| r.in_words()).filter(|own| own != required) else {
            continue;
        };
        match held.iter_mut().find(|(known, _)| *known == own) {
            Some((_, names)) => drop(names.insert(options.name(cell))),
            None => held.push((own, BTreeSet::from([options.name(cell)]))),
        }
    }
    let line = |(own, names): (String, BTreeSet<String>)| {
        let names = codes(names.iter().map(String::as_str));
        let told = format!(": held to {own} in ");
        let what = plain(format!(", and not to {required}"));
        [strong("Not as needed:"), plain(" "), names, plain(told), code(&*section.scenario.name), what]
            .concat()
    };
    held.into_iter().map(line).collect()
}

/// A scenario in a line: its name, its title, and what was around the limiters.
fn tried(section: &Section<'_>, options: &Options<'_>) -> Text {
    let cells = || section.cells.iter();
    let set = |of: &dyn Fn(&CellReport) -> Option<String>| -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for one in cells().filter_map(|c| of(c)) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    };
    let mut line = code(&*section.scenario.name);
    line.push(Span::Plain(format!(": {}", section.scenario.title)));
    let variations = set(&|c| c.variation.clone());
    if !variations.is_empty() {
        let told: Vec<Text> = variations.iter().map(|v| variation(section, options, v)).collect();
        line.extend([plain(" ("), joined(told, "; "), plain(")")].concat());
    }
    let policies = set(&|c| c.policy.clone());
    if let [policy] = policies.as_slice() {
        line.push(Span::Plain(", with the policy ".to_owned()));
        line.extend(code(&**policy));
        // Only a policy makes the client a matter of the decision: it is not asked before the client gives up.
        for client in set(&|c| Some(c.client.clone())) {
            line.push(Span::Plain(" and the client ".to_owned()));
            line.extend(code(client));
        }
    }
    line
}

/// A variation, and whom it was for where it was not for all: what is known of an option is known under these alone.
fn variation(section: &Section<'_>, options: &Options<'_>, variation: &str) -> Text {
    let names = |of: &dyn Fn(&CellReport) -> bool| -> BTreeSet<String> {
        section.cells.iter().filter(|c| of(c)).map(|c| options.name(c)).collect()
    };
    let all = names(&|_| true);
    let own = names(&|c| c.variation.as_deref() == Some(variation));
    let others: Vec<&str> = all.difference(&own).map(String::as_str).collect();
    let mut text = plain(words::clean(variation));
    if others.is_empty() {
        return text;
    }
    if own.len() <= others.len() {
        text.push(Span::Plain(" for ".to_owned()));
        text.extend(codes(own.iter().map(String::as_str)));
        text.push(Span::Plain(" alone".to_owned()));
    } else {
        text.push(Span::Plain(" for all but ".to_owned()));
        text.extend(codes(others));
    }
    text
}

/// Who was convicted of what, and under which scenarios; those that were convicted alike share a line.
fn convictions(options: &Options<'_>) -> Vec<Text> {
    let mut lines: Vec<(Vec<&str>, Text)> = Vec::new();
    for name in by_convictions(options).into_iter().filter(|n| options.overall(n) == Verdict::Fail) {
        let of = with_scenarios(options, Some(name), &came_to(options, name, Verdict::Fail), Verdict::Fail);
        match lines.iter_mut().find(|(_, known)| *known == of) {
            Some((names, _)) => names.push(name),
            None => lines.push((vec![name], of)),
        }
    }
    let line = |(names, of): (Vec<&str>, Text)| {
        [strong("Convicted:"), plain(" "), codes(names), plain(" of "), of].concat()
    };
    lines.into_iter().map(line).collect()
}

/// The properties on which an option's worst verdict is this one.
fn came_to<'a>(options: &Options<'a>, name: &str, verdict: Verdict) -> Vec<&'a str> {
    options.checks().into_iter().filter(|c| options.worst(name, c) == Some(verdict)).collect()
}

/// The scenarios that came to a verdict on a property, of one option or of all.
fn under<'a>(options: &Options<'a>, name: Option<&str>, check: &str, verdict: Verdict) -> Vec<&'a str> {
    let mut under: Vec<&str> = Vec::new();
    let of = options.names.iter().map(String::as_str).filter(|n| name.is_none_or(|name| name == *n));
    for (scenario, _, found) in of.flat_map(|n| options.judged(n, check)) {
        if found.verdict == verdict && !under.contains(&scenario.name.as_str()) {
            under.push(&scenario.name);
        }
    }
    under
}

/// Properties with the scenarios that came to a verdict on them, each set of scenarios once.
fn by_scenarios<'a>(
    options: &Options<'a>,
    name: Option<&str>,
    checks: &[&'a str],
    verdict: Verdict,
) -> Vec<(Vec<&'a str>, Vec<&'a str>)> {
    let mut groups: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for check in checks {
        let under = under(options, name, check, verdict);
        match groups.iter_mut().find(|(_, of)| *of == under) {
            Some((checks, _)) => checks.push(check),
            None => groups.push((vec![check], under)),
        }
    }
    groups
}

fn with_scenarios<'a>(
    options: &Options<'a>,
    name: Option<&str>,
    checks: &[&'a str],
    verdict: Verdict,
) -> Text {
    let groups = by_scenarios(options, name, checks, verdict);
    let each = groups.into_iter().map(|(checks, under)| {
        let mut text = codes(checks);
        text.push(Span::Plain(format!(" ({})", under.join(", "))));
        text
    });
    joined(each, ", ")
}

/// Those that broke and left open least first.
fn by_convictions<'o>(options: &'o Options<'_>) -> Vec<&'o str> {
    let checks = options.checks();
    let count =
        |name: &str, verdict| checks.iter().filter(|c| options.worst(name, c) == Some(verdict)).count();
    let mut names: Vec<&str> = options.names.iter().map(String::as_str).collect();
    names.sort_by_key(|name| (count(name, Verdict::Fail), count(name, Verdict::Unknown)));
    names
}

/// A line for each property that an option broke, by its first witness; properties that are broken by the same calls
/// share one.
fn witnesses(options: &Options<'_>, name: &str) -> Vec<Text> {
    let mut seen: Vec<(Vec<&str>, &str, &str)> = Vec::new();
    for check in options.checks() {
        let judged = options.judged(name, check);
        let Some((scenario, _, found)) = judged.iter().find(|(.., c)| c.verdict == Verdict::Fail) else {
            continue;
        };
        let because = compose::first_sentence(words::because(found));
        let same = |(_, of, known): &&mut (Vec<&str>, &str, &str)| {
            *of == scenario.name && (known.ends_with(because) || because.ends_with(*known))
        };
        match seen.iter_mut().find(same) {
            Some((checks, _, known)) => {
                checks.push(check);
                // What one of them says beside it is worth having.
                *known = if because.len() > known.len() { because } else { *known };
            }
            None => seen.push((vec![check], &scenario.name, because)),
        }
    }
    let line = |(checks, scenario, because): (Vec<&str>, &str, &str)| {
        let mut line = code(name);
        line.push(Span::Plain(" breaks ".to_owned()));
        line.extend(codes(checks));
        line.push(Span::Plain(format!(" under {scenario}: {because}")));
        line
    };
    seen.into_iter().map(line).collect()
}

/// What a figure came to for an option: from the least to the most where the scenario has variations.
fn measured(options: &Options<'_>, section: &Section<'_>, figure: Figure, name: &str) -> String {
    let Some((least, most)) = range(options, section, figure, name) else { return "–".to_owned() };
    let (low, high) = (words::figure_text(figure, least), words::figure_text(figure, most));
    if low == high { low } else { format!("{low} – {high}") }
}

fn range(options: &Options<'_>, section: &Section<'_>, figure: Figure, name: &str) -> Option<(f64, f64)> {
    let of = section.cells.iter().filter(|c| options.name(c) == name);
    let values = of.filter_map(|c| c.figures.get(&figure).copied());
    values.fold(None, |known, value| {
        let (least, most) = known.unwrap_or((value, value));
        Some((value.min(least), value.max(most)))
    })
}

/// What is paid for a limiter.
const PAID: [Figure; 3] =
    [Figure::BytesPerIdentity, Figure::EntriesPerIdentity, Figure::RoundTripsPerDecision];
/// How close it keeps to the limit.
const ACCURACY: [Figure; 2] = [Figure::MostInWindow, Figure::DeniedPercent];

/// How those that kept everything differ, least first: what they cost, and how close they keep to the limit.
fn differences(options: &Options<'_>, figures: &[Measured<'_, '_>]) -> Vec<Block> {
    let kept = options.with(|v| matches!(v, Verdict::Pass | Verdict::NotApplicable));
    let told = figures.iter().filter(|(_, f)| PAID.contains(f) || ACCURACY.contains(f));
    let lines = told.filter_map(|(section, figure)| {
        let mut values: Vec<(f64, String, &str)> = Vec::new();
        for name in &kept {
            let (_, most) = range(options, section, *figure, name)?;
            values.push((most, measured(options, section, *figure, name), name));
        }
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let alike = values.chunk_by(|a, b| a.1 == b.1).map(|of| {
            let mut text = plain(format!("{} for ", of[0].1));
            text.extend(codes(of.iter().map(|(.., name)| *name)));
            text
        });
        let alike: Vec<Text> = alike.collect();
        let mut line = plain(format!("{} ({}): ", figure.head(), section.scenario.name));
        match (alike.as_slice(), kept.len()) {
            ([], _) => return None,
            ([_], 1) => line.extend(plain(&*values[0].1)),
            ([_], _) => line.extend(plain(format!("{} for each", values[0].1))),
            _ => line.extend(joined(alike, "; ")),
        }
        Some(line)
    });
    let lines: Vec<Text> = lines.collect();
    let head = match kept.as_slice() {
        _ if lines.is_empty() => return Vec::new(),
        [] => return Vec::new(),
        [one] => [plain("What "), code(*one), plain(" comes to:")].concat(),
        _ => plain("How those that kept everything differ:"),
    };
    std::iter::once(Block::Para(head)).chain(list(lines)).collect()
}

/// Good, neutral and bad, as the form has them: what is kept that others break, what an option costs beside the least, how
/// close it keeps to the limit, and what it breaks.
fn arguments(need: &Need<'_, '_>, options: &Options<'_>, name: &str) -> Block {
    let kept: Vec<&str> =
        came_to(options, name, Verdict::Pass).into_iter().filter(|c| !kept_by_all(options, c)).collect();
    let mut lines = Vec::new();
    if !kept.is_empty() {
        let kept = with_scenarios(options, Some(name), &kept, Verdict::Pass);
        lines.push([plain("Good, because it keeps "), kept].concat());
    }
    let (mut least, mut more, mut within, mut beyond, mut refused) = (vec![], vec![], vec![], vec![], vec![]);
    let mut over = false;
    let broken: Vec<&str> = came_to(options, name, Verdict::Fail);
    let broken: BTreeSet<&str> =
        broken.iter().flat_map(|check| under(options, Some(name), check, Verdict::Fail)).collect();
    for (section, figure) in need.figures() {
        let Some((_, most)) = range(options, section, figure, name) else { continue };
        let own = measured(options, section, figure, name);
        let scenario = section.scenario.name.as_str();
        if PAID.contains(&figure) {
            let all = options.names.iter().filter_map(|n| Some(range(options, section, figure, n)?.1));
            let lowest = words::figure_text(figure, all.fold(f64::INFINITY, f64::min));
            if lowest == words::figure_text(figure, most) {
                least.push(format!("{own} {} ({scenario})", figure.head()));
            } else {
                more.push(format!("{own} {}, where the least is {lowest} ({scenario})", figure.head()));
            }
        } else if figure == Figure::MostInWindow {
            let limit = section.cells.iter().map(|c| c.limit.get()).max().unwrap_or(0);
            if most <= limit as f64 {
                within.push(scenario);
            } else if !broken.contains(scenario) {
                beyond.push((format!("{own} ({scenario})"), limit));
            } else {
                // It stands with what is broken there.
                over = true;
            }
        } else if figure == Figure::DeniedPercent {
            refused.push(format!("{own} % of the calls are refused ({scenario})"));
        }
    }
    if !least.is_empty() {
        lines.push(plain(format!("Good, because no other takes less than its {}", least.join(" and "))));
    }
    if beyond.is_empty() && !over && !within.is_empty() {
        let under = within.join(", ");
        lines.push(plain(format!("Good, because no window's length holds more than the limit ({under})")));
    }
    if !more.is_empty() {
        lines.push(plain(format!("Neutral, because it takes {}", more.join(" and "))));
    }
    if let Some((_, limit)) = beyond.first() {
        let each: Vec<&str> = beyond.iter().map(|(text, _)| text.as_str()).collect();
        lines.push(plain(format!(
            "Neutral, because up to {} are admitted in one window, where the limit is {limit}",
            each.join(", ")
        )));
    }
    lines.extend(refused.into_iter().map(|text| plain(format!("Neutral, because {text}"))));
    let unknown = came_to(options, name, Verdict::Unknown);
    if !unknown.is_empty() {
        let of = with_scenarios(options, Some(name), &unknown, Verdict::Unknown);
        lines.push([plain("Neutral, because too little is known of "), of].concat());
    }
    lines.extend(breaches(need, options, name));
    list(lines).unwrap_or_else(|| para("Nothing tells it from the others."))
}

/// What an option breaks, a line for each set of scenarios, with how much it let in there.
fn breaches(need: &Need<'_, '_>, options: &Options<'_>, name: &str) -> Vec<Text> {
    let line = |(checks, under): (Vec<&str>, Vec<&str>)| {
        let figures = need.figures().into_iter();
        let admitted = figures.filter(|(section, figure)| {
            *figure == Figure::MostInWindow && under.contains(&section.scenario.name.as_str())
        });
        let admitted = admitted.filter_map(|(section, figure)| {
            let (_, most) = range(options, section, figure, name)?;
            let limit = section.cells.iter().map(|c| c.limit.get()).max().filter(|l| most > *l as f64)?;
            let own = measured(options, section, figure, name);
            Some(format!("{own} are admitted in one window where the limit is {limit}"))
        });
        let admitted: Vec<String> = admitted.collect();
        let mut line = [plain("Bad, because it breaks "), codes(checks)].concat();
        line.push(Span::Plain(format!(" ({})", under.join(", "))));
        if !admitted.is_empty() {
            line.push(Span::Plain(format!(": {}", admitted.join("; "))));
        }
        line
    };
    let broken = came_to(options, name, Verdict::Fail);
    by_scenarios(options, Some(name), &broken, Verdict::Fail).into_iter().map(line).collect()
}
