//! The plot of one figure: a row per limiter, a dot at its value, the value beside it.

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::super::words;
use super::canvas::{Canvas, Drawn, SMALL, Type, ink};
use super::row;
use super::scale::{Amounts, short};
use crate::model::figures::Figure;
use crate::model::report::CellReport;
use crate::model::verdict::Verdict;

/// Height of a row, and what stands below the axis.
pub const ROW: i32 = 26;
pub const BELOW: i32 = 62;

/// What the colours mean.
pub const LEGEND: [(&str, RGBColor); 4] = [
    ("● misses the requirement", ink::OVER),
    ("● meets the requirement", ink::KEPT),
    ("● not told: unknown, not applicable or not checked", ink::UNTOLD),
    ("● measured, not judged", ink::FIGURE),
];

const VALUE: Type = Type::bold(12.0, ink::TEXT);
const LIMIT: Type = Type::bold(12.0, ink::TEXT);

/// A figure of some cells, laid out between `left` and `left + width`.
pub struct Plot<'a> {
    pub figure: Figure,
    pub cells: &'a [&'a CellReport],
    pub left: i32,
    pub width: i32,
}

impl Plot<'_> {
    /// What the widest value takes beside its dot.
    pub fn beside(&self) -> i32 {
        self.cells.iter().map(|c| VALUE.width(&self.text(c))).max().unwrap_or(0)
    }

    pub fn draw(&self, canvas: &Canvas<'_>, top: i32) -> Drawn {
        let scale = self.scale();
        let bottom = top + ROW * self.cells.len() as i32;
        self.axis(canvas, &scale, top, bottom)?;
        self.limit(canvas, &scale, top, bottom)?;
        for (i, cell) in (0..).zip(self.cells) {
            self.row(canvas, &scale, cell, top + ROW * i + ROW / 2)?;
        }
        Ok(())
    }

    fn scale(&self) -> Amounts {
        let values = self.cells.iter().filter_map(|c| c.figures.get(&self.figure).copied());
        let values: Vec<f64> = values.chain(self.reference().map(|n| n as f64)).collect();
        Amounts::new(&values, self.left, self.width)
    }

    fn axis(&self, canvas: &Canvas<'_>, scale: &Amounts, top: i32, bottom: i32) -> Drawn {
        for tick in scale.ticks() {
            let x = scale.at(tick);
            canvas.line((x, top), (x, bottom), ink::RULE, 1)?;
            canvas.text(&tick_text(tick), (x, bottom + 14), SMALL, HPos::Center)?;
        }
        canvas.line((self.left, bottom), (self.left + self.width, bottom), ink::QUIET, 1)?;
        let kind = if scale.is_logarithmic() { ", logarithmic" } else { "" };
        let title = format!("{}{kind}", self.figure.head());
        canvas.text(&title, (self.left + self.width / 2, bottom + 36), SMALL, HPos::Center)
    }

    /// What the figure is held against, where that is one number for all: what is required, else the limit.
    fn reference(&self) -> Option<u64> {
        let required = |c: &CellReport| c.requirement.and_then(|r| r.bound.burst());
        let limits = self.cells.iter().map(|c| required(c).unwrap_or(c.limit.get()));
        let same = limits.clone().min() == limits.clone().max();
        limits.max().filter(|_| same && self.figure == Figure::MostInWindow)
    }

    fn limit(&self, canvas: &Canvas<'_>, scale: &Amounts, top: i32, bottom: i32) -> Drawn {
        let Some(limit) = self.reference() else { return Ok(()) };
        let x = scale.at(limit as f64);
        canvas.line((x, top), (x, bottom), ink::TEXT, 2)?;
        canvas.text(&format!("limit {limit}"), (x, top - 12), LIMIT, HPos::Center)
    }

    fn row(&self, canvas: &Canvas<'_>, scale: &Amounts, cell: &CellReport, middle: i32) -> Drawn {
        let ink = color(self.figure, cell);
        let text = self.text(cell);
        let Some(value) = cell.figures.get(&self.figure) else {
            return canvas.text(
                &text,
                (self.left + 12, middle),
                Type { ink: ink::QUIET, ..VALUE },
                HPos::Left,
            );
        };
        let x = scale.at(*value);
        let (from, to) = ((x + 8, middle - 8), (x + 16 + VALUE.width(&text), middle + 8));
        canvas.line((self.left, middle), (x, middle), ink, 3)?;
        canvas.dot((x, middle), ink)?;
        // No line of the axis crosses the number.
        canvas.blank(from, to)?;
        canvas.text(&text, (x + 12, middle), Type { ink, ..VALUE }, HPos::Left)
    }

    fn text(&self, cell: &CellReport) -> String {
        match cell.figures.get(&self.figure) {
            Some(value) => words::figure_text(self.figure, *value),
            None if cell.rounds.is_empty() => "not run".to_owned(),
            None => "not told".to_owned(),
        }
    }
}

/// Only what a check speaks of is coloured by its verdict.
pub fn color(figure: Figure, cell: &CellReport) -> RGBColor {
    if figure != Figure::MostInWindow {
        return ink::FIGURE;
    }
    let judged = words::check(cell, row::REQUIREMENT).or_else(|| words::check(cell, row::OVER));
    match judged.map(|c| c.verdict) {
        Some(Verdict::Fail) => ink::OVER,
        Some(Verdict::Pass) => ink::KEPT,
        _ => ink::UNTOLD,
    }
}

/// What the colours mean where nothing is required: the limiter is held to its own bound.
pub fn legend(cells: &[&CellReport]) -> Vec<(&'static str, RGBColor)> {
    let required = cells.iter().any(|c| words::check(c, row::REQUIREMENT).is_some());
    let own = |(text, ink): (&'static str, RGBColor)| match text {
        "● misses the requirement" if !required => ("● over its own limit", ink),
        "● meets the requirement" if !required => ("● within its own limit", ink),
        _ => (text, ink),
    };
    LEGEND.into_iter().map(own).collect()
}

/// `0.05`, `2`, `500`, `20k`.
fn tick_text(tick: f64) -> String {
    if tick >= 1.0 && tick.fract() == 0.0 { short(tick as u64) } else { tick.to_string() }
}
