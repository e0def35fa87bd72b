//! How long callers waited over the time of a round, a row per cell: a bar for each tenth of a second, as high
//! as its slowest call took, in the colour of who decided its calls; what was broken is shaded.

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::canvas::{Canvas, Drawn, SMALL, Type, ink};
use crate::model::phases::Slice;
use crate::model::report::CellReport;

/// Height of a row, and of what is below the last one.
pub const ROW: i32 = 62;
/// What the plot needs to its right: the scale of its rows.
pub const BESIDE: i32 = 64;

pub const SHADE: RGBColor = RGBColor(246, 236, 214);
const TICK: Type = Type::new(10.0, ink::QUIET);
const FAULT: Type = Type::new(10.0, ink::TEXT);
/// White above a row's highest bar.
const GAP: i32 = 14;

pub const LEGEND: [(&str, RGBColor); 3] = [
    ("● decided by the store", ink::KEPT),
    ("● decided by the policy", ink::FIGURE),
    ("● some calls without a decision", ink::OVER),
];
pub const KEY: &str = "a bar is a tenth of a second, as high as its slowest call took (logarithmic); shaded: something was broken";

pub struct Timeline<'a> {
    pub cells: &'a [&'a CellReport],
    pub left: i32,
    pub width: i32,
}

/// The colour of a slice: of the worst that happened in it.
pub fn color(slice: &Slice) -> RGBColor {
    match slice {
        Slice { undecided: 1.., .. } => ink::OVER,
        Slice { by_policy: 1.., .. } => ink::FIGURE,
        _ => ink::KEPT,
    }
}

fn slices<'a>(cells: &'a [&'a CellReport]) -> impl Iterator<Item = &'a Slice> {
    cells.iter().flat_map(|c| &c.rounds).flat_map(|r| &r.slices)
}

/// What the colours mean, as far as they are used.
pub fn legend(cells: &[&CellReport]) -> Vec<(&'static str, RGBColor)> {
    let used = |ink: RGBColor| slices(cells).any(|s| color(s) == ink);
    LEGEND.iter().copied().filter(|(_, ink)| used(*ink)).chain([(KEY, ink::QUIET)]).collect()
}

impl Timeline<'_> {
    /// The end of the axis, in ms: a whole second.
    fn end(&self) -> f64 {
        let last = slices(self.cells).map(|s| s.from_ms + 100.0).fold(0.0, f64::max);
        (last / 1000.0).ceil().max(1.0) * 1000.0
    }

    /// The highest bar, in ms: a whole power of ten.
    fn top(&self) -> f64 {
        let most = slices(self.cells).map(|s| s.max_ms).fold(0.0, f64::max);
        10f64.powf(most.max(10.0).log10().ceil())
    }

    fn x(&self, ms: f64) -> i32 {
        self.left + (f64::from(self.width) * (ms / self.end()).clamp(0.0, 1.0)).round() as i32
    }

    pub fn draw(&self, canvas: &Canvas<'_>, top: i32) -> Drawn {
        for (i, cell) in (0..).zip(self.cells) {
            self.row(canvas, cell, top + ROW * i)?;
        }
        let bottom = top + ROW * self.cells.len() as i32;
        let seconds = (self.end() / 1000.0) as i32;
        let step = (1..).find(|s| seconds / s <= 12).unwrap_or(1);
        for second in (0..=seconds).step_by(step as usize) {
            let x = self.x(f64::from(second) * 1000.0);
            canvas.line((x, bottom), (x, bottom + 4), ink::QUIET, 1)?;
            canvas.text(&second.to_string(), (x, bottom + 14), SMALL, HPos::Center)?;
        }
        let middle = self.left + self.width / 2;
        canvas.text("seconds from the beginning of the round", (middle, bottom + 36), SMALL, HPos::Center)
    }

    fn row(&self, canvas: &Canvas<'_>, cell: &CellReport, top: i32) -> Drawn {
        let (base, high) = (top + ROW - 6, ROW - 6 - GAP);
        let Some(round) = cell.rounds.first() else { return Ok(()) };
        let broken = round.phases.iter().filter(|p| !matches!(p.name.as_str(), "before" | "after"));
        for phase in broken {
            let (from, to) = (self.x(phase.from_ms), self.x(phase.to_ms).max(self.x(phase.from_ms) + 2));
            canvas.field((from, top + GAP - 2), (to, base), SHADE)?;
            canvas.text(&phase.name, (from, top + 5), FAULT, HPos::Left)?;
        }
        let decades = self.top().log10();
        let height =
            |ms: f64| (f64::from(high) * (ms.max(1.0).log10() / decades).clamp(0.0, 1.0)).round() as i32;
        let right = self.left + self.width;
        for decade in 0..=decades as i32 {
            let y = base - height(10f64.powi(decade));
            canvas.line((self.left, y), (right, y), ink::RULE, 1)?;
            // Every second one where the rows leave no room for all.
            if decade % 2 == decades as i32 % 2 {
                let ms = 10_u64.pow(decade.unsigned_abs());
                let text = if ms < 1000 { format!("{ms} ms") } else { format!("{} s", ms / 1000) };
                canvas.text(&text, (right + 6, y), TICK, HPos::Left)?;
            }
        }
        let wide = (self.x(100.0) - self.left - 1).max(1);
        for slice in &round.slices {
            if slice.by_store + slice.by_policy + slice.undecided == 0 {
                continue;
            }
            let x = self.x(slice.from_ms);
            let up = height(slice.max_ms).max(2);
            canvas.field((x, base - up), (x + wide, base), color(slice))?;
        }
        canvas.line((self.left, base), (right, base), ink::QUIET, 1)
    }
}
