//! The verdict matrix at the terminal: one letter's worth per cell, then what needs a look in full.

use super::super::words;
use super::grid::{self, Text};
use super::page::Page;
use super::paint::Tone;
use crate::model::matrix::{Matrix, MatrixCell};
use crate::model::verdict::{Verdict, Weight, weight};

pub fn write(page: &mut Page, matrix: &Matrix) {
    page.line("", "Verdicts: limiters against properties", Tone::Strong);
    page.push("");
    page.text.push_str(&grid::render(&rows(matrix), page.look));
    page.head("Columns", Tone::Strong);
    for column in &matrix.columns {
        let variation = column.variation.as_ref().map(|v| format!(" ({v})")).unwrap_or_default();
        page.hanging(&format!("{}: {}, tried by {}{variation}", column.head, column.check, column.scenario));
    }
    let told = |want: fn(&MatrixCell) -> bool| -> Vec<(String, &MatrixCell)> {
        let cells = matrix.rows.iter().flat_map(|row| {
            row.verdicts.iter().zip(&matrix.columns).filter_map(move |(cell, column)| {
                Some((format!("{} · {}", row.label(), column.check), cell.as_ref()?))
            })
        });
        cells.filter(|(_, cell)| want(cell)).collect()
    };
    let wrong = told(|c| weight(c.verdict, c.outcome) != Weight::Fine);
    if !wrong.is_empty() {
        page.head("Not as expected", Tone::Bad);
        for (name, cell) in &wrong {
            page.hanging(&format!("{name}: {} — {}", cell.verdict.name(), first_line(&cell.because)));
        }
    }
    let shown = told(|c| c.verdict == Verdict::Fail && weight(c.verdict, c.outcome) == Weight::Fine);
    if !shown.is_empty() {
        page.head("Witnesses of what is known to fail", Tone::Known);
        for (name, cell) in &shown {
            page.hanging(&format!("{name}: {}", first_line(&cell.because)));
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn rows(matrix: &Matrix) -> Vec<Vec<Text>> {
    let heads = std::iter::once("limiter").chain(matrix.columns.iter().map(|c| c.head.as_str()));
    let mut rows = vec![heads.map(|h| Text::new(h, Tone::Strong)).collect::<Vec<_>>()];
    for row in &matrix.rows {
        let mut texts = vec![Text::new(words::clean(&row.label()), Tone::Plain)];
        texts.extend(row.verdicts.iter().map(|cell| match cell {
            None => Text::new("", Tone::Plain),
            Some(cell) => Text::new(mark(cell), tone(cell)),
        }));
        rows.push(texts);
    }
    rows
}

/// A word of four letters at most; `!` where it is not what is known.
fn mark(cell: &MatrixCell) -> String {
    let word = match cell.verdict {
        Verdict::Pass => "ok",
        Verdict::Fail => "FAIL",
        Verdict::Unknown => "?",
        Verdict::NotApplicable => "–",
    };
    let wrong = weight(cell.verdict, cell.outcome) == Weight::Failed;
    if wrong { format!("{word}!") } else { word.to_owned() }
}

fn tone(cell: &MatrixCell) -> Tone {
    match (weight(cell.verdict, cell.outcome), cell.verdict) {
        (Weight::Failed, _) => Tone::Bad,
        (_, Verdict::Fail) => Tone::Known,
        (_, Verdict::Pass) => Tone::Good,
        (_, Verdict::Unknown) => Tone::Unsure,
        (_, Verdict::NotApplicable) => Tone::Dim,
    }
}
