//! Limiters side by side: what each came to under everything that was tried, and the evidence for it.

use super::super::document::{Align, Block, Span, Table, Tone, code, heading, para, plain, word};
use super::super::svg::heat_map;
use super::super::{compose, words};
use super::{Options, Scenes, Section, Study, standings};
use crate::model::matrix::{Column, Matrix, MatrixCell, MatrixRow};
use crate::model::verdict::{Standing, Verdict};

pub fn compose(study: &Study<'_>, scenes: Scenes) -> Result<Vec<Block>, String> {
    let sections = study.sections();
    if sections.iter().all(|s| s.cells.is_empty()) {
        return Err("no limiter was run in any of these runs".to_owned());
    }
    let options = Options::of(&sections);
    let mut blocks = vec![heading(1, &*study.title)];
    blocks.push(para(format!(
        "{} under {}, on {}.",
        counted(options.names.len(), "limiter"),
        counted(sections.len(), "scenario"),
        servers(study)
    )));
    for (_, report) in &study.runs {
        blocks.extend(compose::summaries(report).into_iter().map(lowered));
    }
    blocks.push(heading(2, "What came out"));
    blocks.extend(standings(&options));
    blocks.push(Block::Table(overview(study, &options)));
    if options.names.len() > 1 {
        blocks.push(heat_map(study, &options)?);
    }
    for section in &sections {
        blocks.extend(self::section(section, scenes)?);
    }
    blocks.extend(study.honesty());
    Ok(blocks)
}

pub fn section(section: &Section<'_>, scenes: Scenes) -> Result<Vec<Block>, String> {
    let mut blocks = compose::head(section.scenario);
    blocks.extend(compose::chart(section.scenario, &section.cells, &section.ground)?);
    blocks.extend(compose::body_as(section.scenario, &section.cells, &section.labels, scenes));
    Ok(blocks)
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn servers(study: &Study<'_>) -> String {
    let mut all: Vec<String> = study.runs.iter().map(|(_, report)| words::servers(report)).collect();
    all.dedup();
    all.join(", ")
}

/// A part of a document whose title is another.
fn lowered(block: Block) -> Block {
    match block {
        Block::Heading(1, text) => Block::Heading(2, text),
        other => other,
    }
}

/// The worst verdict of each option on each property, and in how many of the scenarios that tried it.
fn overview(study: &Study<'_>, options: &Options<'_>) -> Table {
    let checks = options.checks();
    let mut heads = vec![(plain("limiter"), Align::Left)];
    heads.extend(checks.iter().map(|c| (code(*c), Align::Left)));
    let rows = options.names.iter().map(|name| {
        let verdicts = checks.iter().map(|check| {
            let judged = options.judged(name, check);
            let Some(worst) = judged.iter().map(|(.., c)| c.verdict).max() else { return Vec::new() };
            let so = judged.iter().filter(|(.., c)| c.verdict == worst).count();
            let mut text = word(worst);
            if let [Span::Verdict(Tone::Bad | Tone::Open, label)] = text.as_mut_slice()
                && judged.len() > 1
            {
                label.push_str(&format!(" ({so} of {})", judged.len()));
            }
            text
        });
        std::iter::once(code(&**name)).chain(verdicts).collect()
    });
    Table {
        caption: format!("{}: the worst verdict of each limiter on each property", study.title),
        heads,
        rows: rows.collect(),
    }
}

fn heat_map(study: &Study<'_>, options: &Options<'_>) -> Result<Block, String> {
    let checks = options.checks();
    let column = |check: &&str| Column {
        check: (*check).to_owned(),
        scenario: String::new(),
        variation: None,
        head: (*check).to_owned(),
    };
    let cell =
        |verdict: Verdict| MatrixCell { verdict, outcome: Standing::AsExpected, because: String::new() };
    let row = |name: &String| MatrixRow {
        limiter: name.clone(),
        // It is part of the name.
        server: None,
        verdicts: checks.iter().map(|check| options.worst(name, check).map(cell)).collect(),
    };
    let matrix = Matrix {
        columns: checks.iter().map(column).collect(),
        rows: options.names.iter().map(row).collect(),
    };
    let notes = checks.iter().filter_map(|c| Some(format!("{c}: {}", study.proves.get(c)?))).collect();
    let svg = heat_map::draw(&matrix, &servers(study), notes)?;
    let alt = "Heat map: the worst verdict of each limiter on each property".to_owned();
    Ok(Block::Chart { file: "verdicts.svg".to_owned(), svg, alt })
}
