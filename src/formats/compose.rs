//! A report as a document: what is said of a run, whatever it is then written down as.

use super::document::{
    Align, Block, Item, Span, Table, Text, Tone, code, codes, fold, heading, list, para, plain, verdict, word,
};
use super::findings::{self, Entry, Kind};
use super::svg::heat_map::HeatMap;
use super::{svg, words};
use crate::model::claims::{Claims, Found};
use crate::model::gate::{Counts, Gate, GateResult};
use crate::model::matrix::{Matrix, MatrixCell};
use crate::model::report::{CellReport, Report, ScenarioSummary};
use crate::ports::format::{Format, Look};

/// The whole of a run's report, without pictures.
pub fn report(report: &Report) -> Vec<Block> {
    let mut blocks = summaries(report);
    for scenario in &report.scenarios {
        let cells: Vec<&CellReport> = report.cells.iter().filter(|c| c.scenario == scenario.name).collect();
        blocks.extend(head(scenario));
        blocks.extend(body(scenario, &cells, Scenes::None));
    }
    blocks.extend(end(report));
    blocks
}

/// The same as a page, with its charts and the calls behind each conviction.
///
/// # Errors
/// If a picture cannot be drawn.
pub fn page(report: &Report) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    // A title above everything: what a run was for has its own.
    if report.matrix.is_none() && report.claims.is_none() && report.gate.is_none() {
        blocks.push(heading(1, words::title(report)));
    }
    blocks.extend(summaries(report));
    if report.matrix.is_some() {
        let svg = HeatMap.render(report, Look::PLAIN)?;
        let alt = "Heat map: limiters against properties".to_owned();
        blocks.push(Block::Chart { file: HeatMap.file().to_owned(), svg, alt });
    }
    for scenario in &report.scenarios {
        let cells: Vec<&CellReport> = report.cells.iter().filter(|c| c.scenario == scenario.name).collect();
        blocks.extend(head(scenario));
        blocks.extend(chart(scenario, &cells, &svg::ground(report))?);
        blocks.extend(body(scenario, &cells, Scenes::Drawn));
    }
    blocks.extend(end(report));
    Ok(blocks)
}

/// A scenario's chart, where it has one.
///
/// # Errors
/// If it cannot be drawn.
pub fn chart(
    scenario: &ScenarioSummary,
    cells: &[&CellReport],
    ground: &str,
) -> Result<Option<Block>, String> {
    let svg = svg::of_scenario(scenario, cells, ground)?;
    let alt = format!("Chart: {}", scenario.title);
    Ok(svg.map(|svg| Block::Chart { file: format!("{}.svg", scenario.name), svg, alt }))
}

fn end(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    blocks.extend(error(report));
    blocks.push(Block::Para(vec![Span::Strong(format!("Verdict: {}", words::ending(report)))]));
    blocks.push(heading(3, "What the figures stand on"));
    blocks.extend(ground(report));
    blocks
}

/// What a run was for, where it was for more than its scenarios.
pub fn summaries(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    blocks.extend(report.matrix.iter().flat_map(of_matrix));
    blocks.extend(report.claims.iter().flat_map(of_claims));
    blocks.extend(report.gate.iter().flat_map(of_gate));
    blocks
}

/// What ended the run before its time, or was not kept.
pub fn error(report: &Report) -> Option<Block> {
    let error = report.error.as_ref()?;
    let head = Span::Strong(format!("{}:", words::error_head(report)));
    Some(Block::Alarm(vec![head, Span::Plain(format!(" {error}"))]))
}

/// What the figures stand on, and the command that makes them again.
pub fn ground(report: &Report) -> Vec<Block> {
    let told = words::ground(report).into_iter().map(|(name, text)| plain(format!("{name}: {text}")));
    let mut blocks: Vec<Block> = list(told).into_iter().collect();
    blocks.push(para("Reproduce it:"));
    blocks.push(Block::Shell(words::shell(&report.command)));
    blocks
}

/// The matrix itself; the witnesses stand with their scenarios below.
fn of_matrix(matrix: &Matrix) -> Vec<Block> {
    let heads = matrix.columns.iter().map(|c| (plain(&*c.head), Align::Left));
    let label = |cell: &MatrixCell| word(cell.verdict);
    let rows = matrix.rows.iter().map(|row| {
        let verdicts = row.verdicts.iter().map(|cell| cell.as_ref().map(label).unwrap_or_default());
        std::iter::once(code(row.label())).chain(verdicts).collect()
    });
    let columns = matrix.columns.iter().map(|c| {
        let variation = c.variation.as_ref().map(|v| format!(" ({v})")).unwrap_or_default();
        let mut line = plain(format!("{}: ", c.head));
        line.extend([Span::Code(c.check.clone()), Span::Plain(", tried by ".to_owned())]);
        line.extend([Span::Code(c.scenario.clone()), Span::Plain(variation)]);
        line
    });
    let mut blocks = vec![
        heading(1, "Verdicts: limiters against properties"),
        Block::Table(Table {
            caption: "Verdict of each limiter on each property".to_owned(),
            heads: std::iter::once((plain("limiter"), Align::Left)).chain(heads).collect(),
            rows: rows.collect(),
        }),
    ];
    blocks.extend(list(columns));
    blocks
}

/// A gate: its matrix, and what counts. The witnesses stand with their scenarios below.
pub fn of_gate(gate: &Gate) -> Vec<Block> {
    let limiters = gate.limiters();
    let share = gate.plan.shard.map(|s| format!(", share {s}")).unwrap_or_default();
    let profile = Span::Code(gate.plan.profile.clone());
    let title = vec![Span::Plain("Gate: profile ".to_owned()), profile, Span::Plain(share)];
    let mut blocks = vec![Block::Heading(1, title)];
    if gate.results.is_empty() {
        blocks.push(para("Nothing of it is to be run here."));
        return blocks;
    }
    let heads = limiters.iter().map(|l| (code(*l), Align::Left));
    let label = |result: &GateResult| {
        let tone = match result.counts {
            Counts::Failed => Tone::Bad,
            Counts::Known => Tone::Open,
            _ => Tone::of(result.verdict),
        };
        vec![Span::Verdict(tone, result.label())]
    };
    let rows = gate.properties().into_iter().map(|property| {
        let verdicts = limiters.iter().map(|l| gate.result(l, property).map(label).unwrap_or_default());
        std::iter::once(plain(property)).chain(verdicts).collect()
    });
    blocks.push(Block::Table(Table {
        caption: "Verdict of each limiter on each property".to_owned(),
        heads: std::iter::once((plain("property"), Align::Left)).chain(heads).collect(),
        rows: rows.collect(),
    }));
    let named = |r: &&GateResult| {
        Item::from(plain(format!("{}: {}", r.name(), r.because.lines().next().unwrap_or_default())))
    };
    for (title, counts) in [
        ("Failed", Counts::Failed),
        ("Known to fail, and not held against it", Counts::Known),
        ("Unknown: not enough evidence", Counts::Unknown),
    ] {
        blocks.extend(fold(title, true, gate.counting(counts).iter().map(named).collect()));
    }
    let fixed = gate.fixed.iter().map(|f| Item::from(plain(format!("{} · {}", f.limiter, f.property))));
    blocks.extend(fold("Fixed: remove it from the baseline with --save-baseline", true, fixed.collect()));
    blocks
}

/// The claims; the evidence stands with the scenarios below.
fn of_claims(claims: &Claims) -> Vec<Block> {
    let mut rows = Vec::new();
    for (number, row) in (1..).zip(&claims.rows) {
        for (n, on_each) in words::trials(claims, row).enumerate() {
            let Some(tried) = on_each.first() else { continue };
            let first = |text: Text| if n == 0 { text } else { Text::new() };
            let tone = match row.found {
                Found::Holds => Tone::Good,
                Found::Contradicted => Tone::Bad,
                _ => Tone::Open,
            };
            let mut line = vec![
                first(plain(row.case.unwrap_or(number).to_string())),
                first(plain(&*row.claim)),
                code(&*tried.label),
                code(&*tried.scenario),
                plain(words::property(tried)),
            ];
            line.extend(on_each.iter().map(|t| plain(words::came_out(t))));
            line.push(first(vec![Span::Verdict(tone, row.in_words(&claims.servers))]));
            rows.push(line);
        }
    }
    let table = Table {
        caption: "Claims, what they were tried with, and what came out".to_owned(),
        heads: words::claim_heads(claims).into_iter().map(|h| (plain(h), Align::Left)).collect(),
        rows,
    };
    let says = claims.rows.iter().map(|r| plain(format!("{}: {}", r.claim, r.says)));
    let mut blocks = vec![heading(1, &*claims.title), para(&*claims.shows), Block::Table(table)];
    blocks.extend(list(says));
    blocks
}

/// A scenario's title, what it shows, and how it was run.
pub fn head(scenario: &ScenarioSummary) -> Vec<Block> {
    let mut facts = vec![plain(format!("Plan: {}", scenario.plan))];
    facts.extend(scenario.requires.as_ref().map(|r| plain(format!("Requires: {r}"))));
    facts.push(plain(format!("Run: {}", words::terms(scenario))));
    let mut blocks = vec![heading(2, &*scenario.title), para(&*scenario.shows)];
    blocks.extend(list(facts));
    blocks
}

/// What came out of a scenario.
pub fn body(scenario: &ScenarioSummary, cells: &[&CellReport], scenes: Scenes) -> Vec<Block> {
    if cells.is_empty() {
        return vec![para("No limiter was run.")];
    }
    body_as(scenario, cells, &words::labels(cells), scenes)
}

/// The same with names for the cells.
pub fn body_as(
    scenario: &ScenarioSummary,
    cells: &[&CellReport],
    labels: &[String],
    scenes: Scenes,
) -> Vec<Block> {
    if cells.is_empty() {
        return vec![para("No limiter was run.")];
    }
    let mut blocks = vec![Block::Table(table(scenario, cells, labels))];
    blocks.extend(further(
        "What a dead node left behind",
        words::CRASH_HEADS,
        &words::crashes(cells, labels),
    ));
    blocks.extend(further("How long callers waited", words::PHASE_HEADS, &words::phases(cells, labels)));
    blocks.extend(evidence(cells, labels, scenes));
    blocks
}

/// How many convictions of a kind are drawn: a page of many stays one that can be opened.
const DRAWN: usize = 8;

/// Whether the calls behind a conviction are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenes {
    None,
    Drawn,
}

/// What was broken, and what every verdict rests on.
pub fn evidence(cells: &[&CellReport], labels: &[String], scenes: Scenes) -> Vec<Block> {
    let told = words::told(cells, labels).into_iter().map(|line| Item::from(plain(line)));
    let mut blocks: Vec<Block> =
        fold("What was broken and done", false, told.collect()).into_iter().collect();
    for kind in Kind::ALL {
        let entries = findings::of_kind(kind, cells, labels);
        let open = matches!(kind, Kind::Failed | Kind::Shown);
        let mut all = vec![Block::List(entries.iter().map(item).collect())];
        if scenes == Scenes::Drawn {
            all.extend(entries.iter().filter_map(scene).take(DRAWN));
            let more = entries.iter().filter(|e| e.check.scene.is_some()).count().saturating_sub(DRAWN);
            if more > 0 {
                let mut text = plain(format!("The calls of {more} more are in "));
                text.extend([Span::Code("results.json".to_owned()), Span::Plain("; ".to_owned())]);
                let command = "rl-lab report --template incident --limiter NAME --check NAME";
                text.extend([Span::Code(command.to_owned()), Span::Plain(" tells of one.".to_owned())]);
                all.push(Block::Para(text));
            }
        }
        if !entries.is_empty() {
            blocks.push(Block::Fold { title: plain(kind.title()), open, blocks: all });
        }
    }
    let trouble = labels.iter().zip(cells).filter_map(|(label, cell)| {
        let mut line = code(&**label);
        line.push(Span::Plain(format!(": {}", words::trouble(cell)?)));
        Some(Item::from(line))
    });
    blocks.extend(fold("Calls without a decision", false, trouble.collect()));
    blocks
}

/// A table of its own whose rows begin with a limiter; nothing at all if it is empty.
fn further<const N: usize>(caption: &str, heads: [&str; N], of: &[[String; N]]) -> Option<Block> {
    let rows = of.iter().filter_map(|told| {
        let (limiter, rest) = told.split_first()?;
        Some(std::iter::once(code(&**limiter)).chain(rest.iter().map(|t| plain(&**t))).collect())
    });
    let heads = heads.map(|h| (plain(h), Align::Left)).to_vec();
    let table = Table { caption: caption.to_owned(), heads, rows: rows.collect() };
    (!of.is_empty()).then_some(Block::Table(table))
}

/// Who it is about, what was found, and how it is shown again. Each line of the text is a line of its own; the dot
/// keeps it from reading as a list or a heading.
pub fn item(entry: &Entry<'_>) -> Item {
    let text = words::because(entry.check);
    let mut told = text.lines().filter(|l| !l.trim().is_empty());
    let mut first = codes(entry.limiters.iter().copied());
    first.push(Span::Plain(" · ".to_owned()));
    first.extend(codes(entry.checks.iter().copied()));
    first.push(Span::Plain(format!(", {}: {}", entry.check.label(), told.next().unwrap_or_default())));
    let mut lines = vec![first];
    lines.extend(told.map(|line| plain(format!("· {line}"))));
    let replay = entry.check.replay.as_ref().filter(|_| Kind::of(entry.check) == Kind::Failed);
    lines.extend(replay.map(|command| vec![Span::Plain("replay: ".to_owned()), Span::Code(command.clone())]));
    Item(lines)
}

/// The calls that an entry is about, folded away; one that cannot be drawn is left out.
fn scene(entry: &Entry<'_>) -> Option<Block> {
    let scene = entry.check.scene.as_ref()?;
    let about = format!("{} · {}", entry.limiters.join(", "), entry.checks.join(", "));
    let title = format!("{}: {}", about, first_sentence(words::because(entry.check)));
    let svg = svg::scene::draw(&title, scene).ok()?;
    let alt = format!("Calls behind the verdict: {about}");
    let chart = Block::Chart { file: "scene.svg".to_owned(), svg, alt };
    let name = format!("The calls of round {}: {about}", scene.round);
    Some(Block::Fold { title: plain(name), open: false, blocks: vec![chart] })
}

/// Up to the first semicolon or line: what is counted where, before the reasons.
pub fn first_sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.split_once("; ").map_or(line, |(first, _)| first)
}

/// The limiters of a scenario side by side.
pub fn table(scenario: &ScenarioSummary, cells: &[&CellReport], labels: &[String]) -> Table {
    let checks = words::checks(cells);
    let counted = words::counts_calls(cells);
    let mut heads = vec![(plain("limiter"), Align::Left)];
    if counted {
        heads.push((plain(words::admitted_head(cells)), Align::Left));
    }
    heads.extend(scenario.figures.iter().map(|f| (plain(f.head()), Align::Right)));
    if counted {
        heads.extend([(plain("limit"), Align::Right), (plain("promise"), Align::Left)]);
    }
    heads.extend(checks.iter().map(|c| (code(*c), Align::Left)));
    let row = |(cell, label): (&&CellReport, &String)| {
        let scope = if words::scope(cell).is_empty() { "global" } else { words::scope(cell) };
        let mut row = vec![code(&**label)];
        row.extend(counted.then(|| plain(words::admitted(&cell.rounds))));
        row.extend(scenario.figures.iter().map(|f| plain(words::figure(cell, *f))));
        if counted {
            row.extend([plain(words::room(cell) + &words::at_once(cell)), plain(scope)]);
        }
        row.extend(checks.iter().map(|name| words::check(cell, name).map(verdict).unwrap_or_default()));
        row
    };
    Table {
        caption: format!("{}: what each limiter came to", scenario.title),
        heads,
        rows: cells.iter().zip(labels).map(row).collect(),
    }
}
