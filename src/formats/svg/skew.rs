//! The worst window against how far the clocks of two app servers are apart: a row per limiter, a dot per skew.
//! Rows rather than lines in one plot: limiters that let the same through would lie on each other.

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::canvas::{Canvas, Drawn, SMALL, Type, ink};
use super::row;
use crate::model::figures::Figure;
use crate::model::report::CellReport;

/// Height of a row.
pub const ROW: i32 = 84;
/// What the plot needs to its right.
pub const BESIDE: i32 = 64;

const TICK: Type = Type::new(10.0, ink::QUIET);
const VALUE: Type = Type::bold(11.0, ink::TEXT);

pub const KEY: &str = "height: the most calls admitted in any one window; a dot is one run, to the right by how far the second app server's clock is ahead";

/// A limiter with what it was put around, and its cells, one for each skew.
pub struct Line<'a> {
    /// The first of its cells, without its variation.
    pub head: CellReport,
    points: Vec<Point<'a>>,
}

struct Point<'a> {
    /// How far ahead, in ms.
    skew: i64,
    worst: f64,
    cell: &'a CellReport,
}

/// How far the clock that is farthest from the truth is ahead, in ms; `None` if one drifts or is set meanwhile.
fn skew(cell: &CellReport) -> Option<i64> {
    let plain = cell.clocks.iter().all(|c| c.drift_ppm == 0 && c.jump_at.is_none());
    let farthest = cell.clocks.iter().map(|c| c.offset.millis()).max_by_key(|ms| ms.abs());
    plain.then(|| farthest.unwrap_or(0))
}

/// What is drawn of these cells, in their order. Clocks that drift or are set have no place on the axis.
pub fn lines<'a>(cells: &[&'a CellReport]) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for &cell in cells {
        let worst = cell.figures.get(&Figure::MostInWindow).copied();
        let Some((skew, worst)) = skew(cell).zip(worst) else { continue };
        let head = CellReport { variation: None, rounds: Vec::new(), ..cell.clone() };
        let of =
            |c: &CellReport| (c.limiter.clone(), c.policy.clone(), c.client.clone(), c.server_in_words());
        let point = Point { skew, worst, cell };
        match lines.iter_mut().find(|l| of(&l.head) == of(&head) && l.head.backend == head.backend) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { head, points: vec![point] }),
        }
    }
    lines.iter_mut().for_each(|l| l.points.sort_by_key(|p| p.skew));
    lines
}

/// What there is to see.
pub fn finding(cells: &[&CellReport]) -> Option<String> {
    let lines = lines(cells);
    let over = |l: &&Line<'_>| l.points.iter().any(|p| row::color(p.cell) == ink::OVER);
    let convicted: Vec<&Line<'_>> = lines.iter().filter(over).collect();
    let of = |l: &Line<'_>| {
        let right = l.points.iter().min_by_key(|p| p.skew.abs()).map_or(0.0, |p| p.worst);
        let most = l.points.iter().map(|p| p.worst).fold(0.0, f64::max);
        (most, right, l.head.limiter.clone())
    };
    if lines.is_empty() {
        return None;
    }
    let worst = convicted.iter().map(|l| of(l)).max_by(|a, b| (a.0 - a.1).total_cmp(&(b.0 - b.1)));
    let Some((most, right, name)) = worst else {
        let who = if lines.len() == 1 { "The limiter was not" } else { "No limiter was" };
        return Some(format!("{who} seen to admit too much where clocks differ"));
    };
    let who = match (convicted.len(), lines.len()) {
        (_, 1) => "The limiter admits".to_owned(),
        (1, all) => format!("1 of {all} limiters admits"),
        (n, all) => format!("{n} of {all} limiters admit"),
    };
    Some(format!(
        "{who} too much where clocks differ: up to {most} in a window with {name}, {right} with equal clocks"
    ))
}

/// What the colours mean, as far as they are used, and what is left out.
pub fn legend(cells: &[&CellReport]) -> Vec<(&'static str, RGBColor)> {
    let lines = lines(cells);
    let drawn = || lines.iter().flat_map(|l| &l.points);
    let used = |ink: RGBColor| drawn().any(|p| row::color(p.cell) == ink);
    let mut legend: Vec<_> = row::LEGEND.into_iter().filter(|(_, ink)| used(*ink)).collect();
    legend.push((KEY, ink::QUIET));
    if drawn().count() < cells.len() {
        legend.push(("Clocks that drift or are set meanwhile are in the table.", ink::QUIET));
    }
    legend
}

pub struct Skews<'a> {
    pub lines: &'a [Line<'a>],
    pub left: i32,
    pub width: i32,
}

impl Skews<'_> {
    fn points(&self) -> impl Iterator<Item = &Point<'_>> {
        self.lines.iter().flat_map(|l| &l.points)
    }

    /// The least skew that there is, where an axis of equal steps would press it into the middle.
    fn logarithmic(&self) -> Option<i64> {
        const TOO_FAR_APART: i64 = 20;
        let apart = || self.points().map(|p| p.skew.abs()).filter(|ms| *ms > 0);
        let (least, most) = (apart().min()?, apart().max()?);
        (most / least > TOO_FAR_APART).then_some(least)
    }

    /// From the least to the largest skew, with white at both ends.
    fn x(&self, skew: i64) -> i32 {
        const WHITE: i32 = 18;
        let place = |skew: i64| match self.logarithmic() {
            Some(least) => (skew.abs() as f64 / least as f64).ln_1p() * skew.signum() as f64,
            None => skew as f64,
        };
        let (least, most) = self.points().fold((0, 0), |(a, b), p| (p.skew.min(a), p.skew.max(b)));
        let share = (place(skew) - place(least)) / (place(most) - place(least)).max(f64::MIN_POSITIVE);
        self.left + WHITE + (f64::from(self.width - 2 * WHITE) * share).round() as i32
    }

    pub fn draw(&self, canvas: &Canvas<'_>, top: i32) -> Drawn {
        let bottom = top + ROW * self.lines.len() as i32;
        let mut free = i32::MIN;
        let mut skews: Vec<i64> = self.points().map(|p| p.skew).collect();
        skews.sort_unstable();
        skews.dedup();
        // Equal clocks have their tick whatever is beside it.
        let zero = (self.x(0), TICK.width(&in_words(0)) / 2 + 6);
        for skew in skews {
            let (x, words) = (self.x(skew), in_words(skew));
            let half = TICK.width(&words) / 2;
            canvas.line((x, top), (x, bottom), ink::RULE, 1)?;
            let beside_zero = skew != 0 && (x - zero.0).abs() < half + zero.1;
            if x - half > free && !beside_zero {
                canvas.text(&words, (x, bottom + 14), SMALL, HPos::Center)?;
                free = x + half + 6;
            }
        }
        for (i, line) in (0..).zip(self.lines) {
            self.row(canvas, line, top + ROW * i)?;
        }
        let kind = if self.logarithmic().is_some() { ", logarithmic to both sides" } else { "" };
        let words = format!("how far the clock is ahead{kind}");
        canvas.text(&words, (self.left + self.width / 2, bottom + 36), SMALL, HPos::Center)
    }

    fn row(&self, canvas: &Canvas<'_>, line: &Line<'_>, top: i32) -> Drawn {
        let limit = line.head.limit.get() as f64;
        let most = self.points().map(|p| p.worst).fold(limit, f64::max).max(1.0);
        let (base, high) = (top + ROW - 8, f64::from(ROW - 32));
        let y = |n: f64| base - (high * n / most).round() as i32;
        let right = self.left + self.width;
        canvas.line((self.left, base), (right, base), ink::QUIET, 1)?;
        canvas.line((self.left, y(limit)), (right, y(limit)), ink::QUIET, 1)?;
        canvas.text(&format!("limit {limit}"), (right + 6, y(limit)), TICK, HPos::Left)?;
        let path: Vec<(i32, i32)> = line.points.iter().map(|p| (self.x(p.skew), y(p.worst))).collect();
        canvas.path(&path, ink::UNTOLD, 2)?;
        let mut free = i32::MIN;
        for (point, at) in line.points.iter().zip(path) {
            let ink = row::color(point.cell);
            canvas.dot(at, ink)?;
            let words = point.worst.to_string();
            let half = VALUE.width(&words) / 2;
            if at.0 - half > free {
                canvas.text(&words, (at.0, at.1 - 13), Type { ink, ..VALUE }, HPos::Center)?;
                free = at.0 + half + 3;
            }
        }
        Ok(())
    }
}

/// `+300 ms`, `−2 s`, `0`.
fn in_words(skew: i64) -> String {
    let sign = match skew {
        0 => return "0".to_owned(),
        ..0 => '−',
        _ => '+',
    };
    match skew.unsigned_abs() {
        ms if ms.is_multiple_of(1000) => format!("{sign}{} s", ms / 1000),
        ms if ms > 1000 => format!("{sign}{} s", ms as f64 / 1e3),
        ms => format!("{sign}{ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;
    use crate::model::scenario::PlannedClock;
    use crate::model::verdict::Verdict;

    fn cell(limiter: &str, offset: &str, worst: f64, verdict: Verdict) -> CellReport {
        let mut cell = sample::cell(limiter, &[10]);
        cell.variation = Some(offset.to_owned());
        cell.checks = vec![sample::check(row::OVER, verdict, None, "text")];
        cell.figures.insert(Figure::MostInWindow, worst);
        let clock = |text: &str| PlannedClock {
            node: 1,
            offset: text.parse().unwrap(),
            drift_ppm: 0,
            jump_at: None,
            jump: "+0s".parse().unwrap(),
        };
        cell.clocks = if offset == "drift" {
            vec![PlannedClock { drift_ppm: 100, ..clock("+0s") }]
        } else if offset == "+0s" {
            Vec::new()
        } else {
            vec![clock(offset)]
        };
        cell
    }

    #[test]
    fn each_limiter_is_a_line_over_its_skews_and_what_has_no_place_is_left_out() {
        let cells = [
            cell("log", "+300ms", 15.0, Verdict::Fail),
            cell("log", "+0s", 10.0, Verdict::Pass),
            cell("log", "drift", 18.0, Verdict::Fail),
            cell("log", "-2s", 20.0, Verdict::Fail),
            cell("window", "+0s", 11.0, Verdict::Pass),
            cell("window", "+300ms", 11.0, Verdict::Pass),
        ];
        let cells: Vec<&CellReport> = cells.iter().collect();
        let lines = lines(&cells);
        let told: Vec<Vec<(i64, f64)>> =
            lines.iter().map(|l| l.points.iter().map(|p| (p.skew, p.worst)).collect()).collect();
        let (log, window) = (vec![(-2000, 20.0), (0, 10.0), (300, 15.0)], vec![(0, 11.0), (300, 11.0)]);
        assert_eq!(told, [log, window]);
        assert_eq!(
            finding(&cells).unwrap(),
            "1 of 2 limiters admits too much where clocks differ: up to 20 in a window with log, 10 with equal clocks"
        );
        let window = "The limiter was not seen to admit too much where clocks differ";
        assert_eq!(finding(&cells[4..]).unwrap(), window);
        assert!(legend(&cells).iter().any(|(text, _)| text.contains("are in the table")));
        assert!(!legend(&cells[4..]).iter().any(|(text, _)| text.contains("are in the table")));
    }

    #[test]
    fn a_skew_is_told_in_its_unit() {
        let told = [0, 300, -300, 1500, -2000, 70_000].map(in_words);
        assert_eq!(told, ["0", "+300 ms", "−300 ms", "+1.5 s", "−2 s", "+70 s"]);
    }
}
