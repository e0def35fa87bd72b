//! What the store says is used, call by call, a row per cell, beside what was admitted in truth; and how the commands of a
//! cluster are spread over its nodes.

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::canvas::{Canvas, Drawn, SMALL, Type, ink};
use super::scale::short;
use crate::model::counter::Counter;
use crate::model::report::CellReport;

/// Height of a row of counters, and of one of loads.
pub const ROW: i32 = 92;
pub const LOADS_ROW: i32 = 34;
/// What the plot needs to its right.
pub const BESIDE: i32 = 64;

const TICK: Type = Type::new(10.0, ink::QUIET);
const MARK: Type = Type::new(10.0, ink::TEXT);
const SHARE: Type = Type::bold(11.0, RGBColor(255, 255, 255));
/// Colours of nodes, each dark enough for white signs; not those that a dark page turns.
const NODES: [RGBColor; 6] = [
    RGBColor(0, 105, 166),
    RGBColor(0, 113, 83),
    RGBColor(138, 75, 120),
    RGBColor(150, 90, 0),
    RGBColor(90, 90, 90),
    RGBColor(60, 70, 140),
];

pub const LEGEND: [(&str, RGBColor); 2] =
    [("━ what the store says is used", ink::KEPT), ("━ admitted in truth", ink::OVER)];
pub const LOADS: &str =
    "a bar is all commands of a round, a part of it those that one node of the cluster processed";

pub struct Counters<'a> {
    pub cells: &'a [&'a CellReport],
    pub left: i32,
    pub width: i32,
}

impl Counters<'_> {
    fn calls(&self) -> u32 {
        let last = |c: &Counter| c.points.last().map_or(0, |p| p.call);
        self.counters().map(last).max().unwrap_or(1).max(1)
    }

    fn counters(&self) -> impl Iterator<Item = &Counter> {
        self.cells.iter().flat_map(|c| &c.rounds).filter_map(|r| r.counter.as_ref())
    }

    fn top(&self) -> u64 {
        let most = self.counters().flat_map(|c| &c.points).map(|p| p.admitted.max(p.used.unwrap_or(0))).max();
        let limits = self.cells.iter().map(|c| c.limit.get()).max();
        most.into_iter().chain(limits).max().unwrap_or(1).max(1)
    }

    fn x(&self, call: u32) -> i32 {
        self.left + (f64::from(self.width) * f64::from(call) / f64::from(self.calls())).round() as i32
    }

    pub fn draw(&self, canvas: &Canvas<'_>, top: i32) -> Drawn {
        for (i, cell) in (0..).zip(self.cells) {
            self.row(canvas, cell, top + ROW * i)?;
        }
        let bottom = top + ROW * self.cells.len() as i32;
        let step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000];
        let step = step.into_iter().find(|s| self.calls() / s <= 8).unwrap_or(1_000_000);
        for call in (0..=self.calls()).step_by(step as usize) {
            canvas.line((self.x(call), bottom), (self.x(call), bottom + 4), ink::QUIET, 1)?;
            canvas.text(&short(u64::from(call)), (self.x(call), bottom + 14), SMALL, HPos::Center)?;
        }
        canvas.text("calls, in order", (self.left + self.width / 2, bottom + 36), SMALL, HPos::Center)
    }

    fn row(&self, canvas: &Canvas<'_>, cell: &CellReport, top: i32) -> Drawn {
        let (base, high) = (top + ROW - 8, ROW - 30);
        let most = self.top();
        let y = |n: u64| base - (f64::from(high) * n as f64 / most as f64).round() as i32;
        let right = self.left + self.width;
        let limit = cell.limit.get();
        canvas.line((self.left, y(limit)), (right, y(limit)), ink::QUIET, 1)?;
        canvas.text(&format!("limit {limit}"), (right + 6, y(limit)), TICK, HPos::Left)?;
        canvas.line((self.left, base), (right, base), ink::QUIET, 1)?;
        let Some(counter) = cell.rounds.iter().find_map(|r| r.counter.as_ref()) else {
            return canvas.text("not told", (self.left + 12, base - high / 2), TICK, HPos::Left);
        };
        // Marks that fall together share their words.
        let mut marks: Vec<(i32, String)> = Vec::new();
        for (call, what) in &counter.marks {
            let x = self.x(*call);
            match marks.last_mut() {
                Some((known, words)) if x - *known < 12 => words.push_str(&format!(", {what}")),
                _ => marks.push((x, what.clone())),
            }
        }
        for (i, (x, what)) in marks.iter().enumerate() {
            canvas.line((*x, top + 18), (*x, base), ink::UNTOLD, 1)?;
            let room = marks.get(i + 1).map_or(right + BESIDE, |next| next.0) - x - 8;
            let fits = MARK.width(what) <= room;
            let words: String = if fits {
                what.clone()
            } else {
                what.chars().take(MARK.fitting(room) - 1).chain(['…']).collect()
            };
            canvas.text(&words, (*x + 3, top + 12), MARK, HPos::Left)?;
        }
        let admitted: Vec<(i32, i32)> =
            counter.points.iter().map(|p| (self.x(p.call), y(p.admitted))).collect();
        canvas.path(&admitted, ink::OVER, 2)?;
        let mut used: Vec<(i32, i32)> = Vec::new();
        for point in &counter.points {
            match point.used {
                Some(n) => used.push((self.x(point.call), y(n))),
                None => canvas.path(&std::mem::take(&mut used), ink::KEPT, 2)?,
            }
        }
        canvas.path(&used, ink::KEPT, 2)
    }
}

/// How many commands each node of a cluster processed.
pub struct Loads<'a> {
    pub cells: &'a [&'a CellReport],
    pub left: i32,
    pub width: i32,
}

impl Loads<'_> {
    pub fn draw(&self, canvas: &Canvas<'_>, top: i32) -> Drawn {
        for (i, cell) in (0..).zip(self.cells) {
            let middle = top + LOADS_ROW * i + LOADS_ROW / 2;
            let Some(loads) = cell.rounds.iter().map(|r| &r.loads).find(|l| !l.is_empty()) else {
                canvas.text("not told", (self.left + 12, middle), TICK, HPos::Left)?;
                continue;
            };
            let sum = loads.iter().sum::<u64>().max(1);
            let mut before = 0u64;
            let x = |n: u64| self.left + (f64::from(self.width) * n as f64 / sum as f64).round() as i32;
            for (load, ink) in loads.iter().zip(NODES.iter().cycle()) {
                let (from, to) = (x(before), x(before + load));
                if to > from {
                    canvas.field((from + 1, middle - 11), (to, middle + 11), *ink)?;
                }
                let share = format!("{:.0} %", 100.0 * *load as f64 / sum as f64);
                if to - from > SHARE.width(&share) + 4 {
                    canvas.text(&share, ((from + to) / 2, middle), SHARE, HPos::Center)?;
                }
                before += load;
            }
            canvas.text(&short(sum), (self.left + self.width + 6, middle), TICK, HPos::Left)?;
        }
        let bottom = top + LOADS_ROW * self.cells.len() as i32;
        let middle = self.left + self.width / 2;
        canvas.text("share of the commands, node by node", (middle, bottom + 14), SMALL, HPos::Center)
    }
}
