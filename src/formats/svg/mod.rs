//! One chart per scenario, stacked: limiters down the side, admitted calls to the right, a dot per
//! round against the line of what was left of the limit. A standalone SVG file.
//!
//! Horizontal, because limiters have long names. Dots are moved apart up and down only: sideways
//! would put a round that kept the limit beyond its line.

use std::collections::BTreeSet;

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::canvas::{Canvas, Drawn, Type, ink};
use super::scale::{Scale, short};
use super::words;
use crate::model::contract::Scope;
use crate::model::report::{CellReport, Report, ScenarioSummary};
use crate::model::verdict::Verdict;
use crate::ports::format::{Format, Look};

/// The check whose verdict colours the dots, and the one that is named if it disagrees.
const OVER: &str = "never-over-limit";
const REQUIREMENT: &str = "meets-requirement";

const EDGE: i32 = 24;
const PLOT: i32 = 460;
/// Room for the figures to the right of the rightmost dot.
const FIGURES: i32 = 250;
const LONGEST_NAME: usize = 56;
/// Rounds beyond this many share their height in the row with earlier ones.
const LANES: usize = 20;

const TITLE: Type = Type::bold(18.0, ink::TEXT);
const SMALL: Type = Type::new(12.0, ink::QUIET);
const NAME: Type = Type::new(13.0, ink::TEXT);
const NOTE: Type = Type::new(11.0, ink::QUIET);
const LIMIT: Type = Type::bold(12.0, ink::TEXT);

pub struct Svg;

impl Format for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }

    fn file(&self) -> &'static str {
        "admitted.svg"
    }

    fn on_stdout(&self) -> bool {
        false
    }

    fn render(&self, report: &Report, _: Look) -> Result<String, String> {
        let panels: Vec<Panel<'_>> = report.scenarios.iter().map(|s| Panel::new(report, s)).collect();
        let width = panels.iter().map(Panel::width).max().unwrap_or(760);
        let foot = foot(report, width);
        let height = panels.iter().map(|p| p.height(width)).sum::<i32>() + foot.len() as i32 * 18 + 2 * EDGE;
        let mut text = String::new();
        let canvas = Canvas::new(&mut text, (width, height))?;
        let mut y = EDGE;
        for panel in &panels {
            panel.draw(&canvas, y, width)?;
            y += panel.height(width);
        }
        draw_foot(&canvas, &foot, y + EDGE / 2)?;
        canvas.finish()?;
        Ok(text.replacen(
            "<svg ",
            "<svg role=\"img\" aria-label=\"Admitted calls per round and limiter\" ",
            1,
        ))
    }
}

struct Panel<'a> {
    scenario: &'a ScenarioSummary,
    cells: Vec<&'a CellReport>,
    names: Vec<String>,
    /// Left end of the axis.
    left: i32,
    row: i32,
}

impl<'a> Panel<'a> {
    fn new(report: &'a Report, scenario: &'a ScenarioSummary) -> Self {
        let cells: Vec<&CellReport> = report.cells.iter().filter(|c| c.scenario == scenario.name).collect();
        let names: Vec<String> = words::labels(&cells).iter().map(|n| shorten(n)).collect();
        let left = names.iter().map(|n| NAME.width(n)).max().unwrap_or(0).max(120) + EDGE + 14;
        let rounds = cells.iter().map(|c| c.rounds.len()).max().unwrap_or(0);
        Self { scenario, cells, names, left, row: 38 + 2 * rounds.saturating_sub(8).min(12) as i32 }
    }

    fn width(&self) -> i32 {
        self.left + PLOT + FIGURES
    }

    fn height(&self, width: i32) -> i32 {
        let plot = if self.cells.is_empty() { 0 } else { 30 + self.row * self.cells.len() as i32 + 62 };
        self.head(width).len() as i32 * 18 + 44 + plot
    }

    /// The lines below the title.
    fn head(&self, width: i32) -> Vec<String> {
        let mut lines = vec![self.scenario.plan.clone()];
        lines.extend(self.scenario.requires.as_ref().map(|r| format!("requires: {r}")));
        let servers: BTreeSet<String> = self.cells.iter().map(|c| words::server_of(c)).collect();
        let servers: Vec<String> =
            servers.into_iter().chain([words::terms(self.scenario).to_owned()]).collect();
        lines.push(servers.join(" · "));
        lines.iter().flat_map(|l| fold(l, width)).collect()
    }

    fn draw(&self, canvas: &Canvas<'_>, top: i32, width: i32) -> Drawn {
        let title = words::fold(&words::clean(&self.scenario.title), TITLE.fitting(width - 2 * EDGE), &[' ']);
        canvas.text(&title[0], (EDGE, top + 10), TITLE, HPos::Left)?;
        let mut y = top + 36;
        for line in self.head(width) {
            canvas.text(&line, (EDGE, y), SMALL, HPos::Left)?;
            y += 18;
        }
        if self.cells.is_empty() {
            return Ok(());
        }
        let top = y + 30;
        let scale = self.scale();
        self.axis(canvas, &scale, top)?;
        self.limits(canvas, &scale, top)?;
        for (i, (cell, name)) in (0..).zip(self.cells.iter().zip(&self.names)) {
            let middle = top + self.row * i + self.row / 2;
            self.names(canvas, cell, name, middle)?;
            self.dots(canvas, &scale, cell, middle)?;
        }
        Ok(())
    }

    fn scale(&self) -> Scale {
        let counts: Vec<u64> = self.cells.iter().flat_map(|c| &c.rounds).map(|r| r.admitted).collect();
        let rooms: Vec<u64> = self.cells.iter().map(|c| room(c)).collect();
        Scale::new(&counts, &rooms, self.left, PLOT)
    }

    fn bottom(&self, top: i32) -> i32 {
        top + self.row * self.cells.len() as i32
    }

    fn axis(&self, canvas: &Canvas<'_>, scale: &Scale, top: i32) -> Drawn {
        let bottom = self.bottom(top);
        for tick in scale.ticks() {
            let x = scale.at(tick);
            canvas.line((x, top), (x, bottom), ink::RULE, 1)?;
            canvas.text(&short(tick), (x, bottom + 14), SMALL, HPos::Center)?;
        }
        canvas.line((self.left, bottom), (self.left + PLOT, bottom), ink::QUIET, 1)?;
        let kind = if scale.is_logarithmic() { ", logarithmic: log(1 + n)" } else { "" };
        let title = format!("admitted calls per round{kind}");
        canvas.text(&title, (self.left + PLOT / 2, bottom + 36), SMALL, HPos::Center)
    }

    /// One line with its label where all cells have the same room, else one piece per row.
    fn limits(&self, canvas: &Canvas<'_>, scale: &Scale, top: i32) -> Drawn {
        for (i, cell) in (0..).zip(&self.cells) {
            let (x, y) = (scale.at(room(cell)), top + self.row * i);
            canvas.line((x, y), (x, y + self.row), ink::TEXT, 2)?;
        }
        let label = match self.cells.first() {
            Some(cell) if self.same_room() => limit_label(cell),
            _ => "┃ the limit of each row".to_owned(),
        };
        let half = LIMIT.width(&label) / 2;
        let anchor = if self.same_room() {
            scale.at(self.cells.first().map_or(0, |c| room(c)))
        } else {
            self.left + half
        };
        let x = anchor.max(EDGE + half).min(self.width() - EDGE - half);
        canvas.text(&label, (x, top - 12), LIMIT, HPos::Center)
    }

    fn same_room(&self) -> bool {
        self.cells.iter().map(|c| words::room(c)).collect::<BTreeSet<_>>().len() == 1
    }

    fn names(&self, canvas: &Canvas<'_>, cell: &CellReport, name: &str, middle: i32) -> Drawn {
        let mut notes = Vec::new();
        if !self.same_room() {
            notes.push(format!("limit {}", words::room(cell)));
        }
        notes.extend(promise(cell));
        let up = if notes.is_empty() { 0 } else { 7 };
        canvas.text(name, (self.left - 12, middle - up), NAME, HPos::Right)?;
        if notes.is_empty() {
            return Ok(());
        }
        canvas.text(&notes.join(", "), (self.left - 12, middle + 9), NOTE, HPos::Right)
    }

    fn dots(&self, canvas: &Canvas<'_>, scale: &Scale, cell: &CellReport, middle: i32) -> Drawn {
        let (low, median, high) = words::spread(&cell.rounds);
        let (figure, verdict) = figures(cell, low, median, high);
        let ink = color(cell);
        let widest = Type::bold(12.0, ink).width(&figure).max(NOTE.width(&verdict));
        let (line, beside) = (scale.at(room(cell)), scale.at(high) + 12);
        // Beyond the limit's line rather than across it.
        let x = if (beside - 6..beside + widest).contains(&line) { line + 10 } else { beside };
        canvas.blank((x - 4, middle - 15), (x + widest, middle + 16))?;
        if median > room(cell) {
            canvas.line((scale.at(room(cell)), middle), (scale.at(median), middle), ink, 3)?;
        }
        let lanes = cell.rounds.len().min(LANES);
        let mut seen = BTreeSet::new();
        for (i, round) in cell.rounds.iter().enumerate() {
            let at = (scale.at(round.admitted), middle + offset(i % LANES, lanes, self.row));
            if seen.insert(at) {
                canvas.dot(at, ink)?;
            }
        }
        canvas.text(&figure, (x, middle - 7), Type::bold(12.0, ink), HPos::Left)?;
        let ink = if misses_requirement(cell) { ink::OVER } else { ink };
        canvas.text(&verdict, (x, middle + 8), Type { ink, ..NOTE }, HPos::Left)
    }
}

/// What a round could still admit: the limit less what the preset had used.
fn room(cell: &CellReport) -> u64 {
    cell.limit.get().saturating_sub(words::preset(cell))
}

fn limit_label(cell: &CellReport) -> String {
    match words::preset(cell) {
        0 => format!("limit {}", cell.limit),
        used => format!("room for {}: limit {} − {used} used before", room(cell), cell.limit),
    }
}

/// Where the limiter promises something else than the line says.
fn promise(cell: &CellReport) -> Option<String> {
    let burst = cell.contract.bound.burst();
    let text = match (burst, cell.contract.scope) {
        (None, _) => "promises no bound".to_owned(),
        (Some(n), Scope::Node) => format!("promises {n} per node"),
        (Some(n), Scope::Global) if n != cell.limit.get() => format!("promises {n} at once"),
        _ => return None,
    };
    Some(text)
}

/// The two lines beside the dots.
fn figures(cell: &CellReport, low: u64, median: u64, high: u64) -> (String, String) {
    let figure = match cell.rounds.len() {
        0 => "no round".to_owned(),
        _ if low == high => median.to_string(),
        _ => format!("median {median} ({low}–{high})"),
    };
    let over = words::check(cell, OVER);
    let mut verdicts: Vec<String> = over.map(|c| c.label()).into_iter().collect();
    if misses_requirement(cell) && color(cell) != ink::OVER {
        let label = words::check(cell, REQUIREMENT).map(|c| c.label()).unwrap_or_default();
        verdicts.push(format!("requirement {label}"));
    }
    if verdicts.is_empty() {
        verdicts.push("not judged".to_owned());
    }
    (figure, verdicts.join(" · "))
}

fn misses_requirement(cell: &CellReport) -> bool {
    words::check(cell, REQUIREMENT).is_some_and(|c| c.verdict == Verdict::Fail)
}

fn color(cell: &CellReport) -> RGBColor {
    match words::check(cell, OVER).map(|c| c.verdict) {
        Some(Verdict::Fail) => ink::OVER,
        Some(Verdict::Pass) => ink::KEPT,
        _ => ink::UNTOLD,
    }
}

/// Where in its row a round's dot is: the first on top, five pixels apart as far as there is room.
fn offset(lane: usize, lanes: usize, row: i32) -> i32 {
    let span = (5 * (lanes as i32 - 1)).min(row - 12);
    if lanes < 2 { 0 } else { lane as i32 * span / (lanes as i32 - 1) - span / 2 }
}

/// Cut in the middle: variants of one limiter differ at the end.
fn shorten(name: &str) -> String {
    let all: Vec<char> = name.chars().collect();
    if all.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let (start, end) = (LONGEST_NAME / 2, all.len() - LONGEST_NAME / 2 + 1);
    all[..start].iter().chain(&['…']).chain(&all[end..]).collect()
}

fn fold(text: &str, width: i32) -> Vec<String> {
    words::fold(&words::clean(text), SMALL.fitting(width - 2 * EDGE), &[' '])
}

/// What the chart means, and what the figures stand on.
fn foot(report: &Report, width: i32) -> Vec<(String, RGBColor)> {
    let mut lines: Vec<(String, RGBColor)> = Vec::new();
    if report.cells.is_empty() {
        lines.push(("No limiter was run.".to_owned(), ink::OVER));
    } else {
        let shown = |ink: &RGBColor| report.cells.iter().any(|c| color(c) == *ink);
        for (text, ink) in [
            ("convicted by never-over-limit", ink::OVER),
            ("not convicted: no window was seen to hold more than was promised", ink::KEPT),
            ("not told: unknown, not applicable or not checked", ink::UNTOLD),
        ] {
            lines.extend(shown(&ink).then(|| (format!("● {text}"), ink)));
        }
        let key = "One dot per round, the first on top; a bar shows how far the median is beyond the limit.";
        lines.push((key.to_owned(), ink::QUIET));
    }
    if let Some(error) = &report.error {
        lines.push((format!("The run ended before its end: {error}"), ink::OVER));
    }
    let h = &report.honesty;
    let ground = [words::servers(report), h.backend.clone(), format!("seed {}", report.seed)];
    lines.push((format!("{} · rl-lab {} · {}", ground.join(" · "), report.lab, report.started), ink::QUIET));
    let folded = |(text, ink): (String, RGBColor)| fold(&text, width).into_iter().map(move |l| (l, ink));
    lines.into_iter().flat_map(folded).collect()
}

fn draw_foot(canvas: &Canvas<'_>, lines: &[(String, RGBColor)], top: i32) -> Drawn {
    for (i, (text, ink)) in (0..).zip(lines) {
        canvas.text(text, (EDGE, top + 18 * i), Type { ink: *ink, ..SMALL }, HPos::Left)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn svg(report: &Report) -> String {
        let text = Svg.render(report, Look::PLAIN).unwrap();
        well_formed(&text);
        text
    }

    /// Every tag is closed in order, and no text holds a bare `<` or `&`.
    fn well_formed(text: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut parts = text.split('<');
        assert_eq!(parts.next(), Some(""));
        for part in parts {
            let (tag, rest) = part.split_once('>').expect("a tag without an end");
            assert!(!rest.contains('>'), "a bare > in {rest:?}");
            for entity in part.split('&').skip(1) {
                let name = entity.split_once(';').expect("a bare &").0;
                assert!(["lt", "gt", "amp", "quot", "apos"].contains(&name), "{name}");
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            match (tag.strip_prefix('/'), tag.ends_with('/')) {
                (Some(name), _) => assert_eq!(open.pop(), Some(name)),
                (None, false) => open.push(tag.split(' ').next().unwrap()),
                (None, true) => {}
            }
        }
        assert!(open.is_empty(), "{open:?} stay open");
        assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "a control character");
    }

    /// The texts of a chart, as XML has them.
    fn texts(svg: &str) -> Vec<&str> {
        svg.split("<text").skip(1).map(|t| t.split(['>', '<']).nth(1).unwrap().trim()).collect()
    }

    #[test]
    fn every_limiter_is_named_once() {
        for report in [sample::race(), sample::incident()] {
            let svg = svg(&report);
            for cell in &report.cells {
                let count = texts(&svg).iter().filter(|t| **t == cell.limiter).count();
                assert_eq!(count, 1, "{}", cell.limiter);
            }
        }
    }

    #[test]
    fn any_text_of_a_report_leaves_the_file_well_formed() {
        let mut report = sample::race();
        let nasty = "<b a=\"1\">&amp;'\u{0}\u{1b}]]>";
        report.cells[0].limiter = nasty.to_owned();
        report.scenarios[0].title = nasty.to_owned();
        report.scenarios[0].plan = nasty.to_owned();
        report.error = Some(nasty.repeat(40));
        assert!(svg(&report).contains("&lt;b a=&quot;1&quot;&gt;&amp;amp;&apos; ]]&gt;"));
        svg(&sample::stillborn());
    }

    #[test]
    fn after_a_preset_the_line_is_at_what_was_left() {
        let report = sample::incident();
        assert!(svg(&report).contains("room for 2: limit 1000 − 998 used before"));
        assert_eq!(room(&report.cells[0]), 2);
    }

    #[test]
    fn a_promise_per_node_is_said_beside_the_name() {
        let mut report = sample::race();
        report.cells[0].contract.scope = Scope::Node;
        assert!(svg(&report).contains("promises 10 per node"));
    }

    #[test]
    fn equal_rounds_are_seen_as_several_dots_and_thousands_do_not_blow_up_the_file() {
        let dots = |n: usize| {
            let report = sample::report(vec![sample::judged(sample::cell("a", &vec![10; n]), None)]);
            svg(&report).matches("<circle").count() / 2
        };
        assert_eq!((dots(1), dots(5), dots(20)), (1, 5, 20));
        assert_eq!(dots(10_000), LANES);
    }

    /// Left, top, right and bottom of every text, by the estimate the layout itself uses.
    fn boxes(svg: &str) -> Vec<(String, [f64; 4])> {
        let boxed = |element: &str| {
            let of =
                |name: &str| element.split_once(&format!(" {name}=\"")).unwrap().1.split('"').next().unwrap();
            let text = element.split(['>', '<']).nth(1).unwrap().trim();
            let number = |name: &str| of(name).parse::<f64>().unwrap();
            let (x, y, size) = (number("x"), number("y"), number("font-size"));
            let wide = words::chars(text) as f64 * size * 0.6;
            let left = match of("text-anchor") {
                "start" => x,
                "end" => x - wide,
                _ => x - wide / 2.0,
            };
            (text.to_owned(), [left, y - size / 2.0, left + wide, y + size / 2.0])
        };
        svg.split("<text").skip(1).map(boxed).collect()
    }

    #[test]
    fn no_text_covers_another_or_leaves_the_picture() {
        for limiters in [1, 4, 10, 25] {
            for rounds in [1, 5, 20] {
                let cell = |i: u64| {
                    let admitted: Vec<u64> =
                        (0..rounds).map(|r| if i % 3 == 0 { 200 - r } else { 10 }).collect();
                    let mut cell = sample::cell(&format!("token-bucket-read-write:variant={i}"), &admitted);
                    cell.contract.scope = if i % 4 == 1 { Scope::Node } else { Scope::Global };
                    sample::judged(cell, Some(Verdict::Pass))
                };
                let svg = svg(&sample::report((0..limiters).map(cell).collect()));
                let (boxes, size) = (boxes(&svg), svg.split('"').nth(9).unwrap());
                let size: Vec<f64> = size.split(' ').filter_map(|n| n.parse().ok()).collect();
                for (i, (text, a)) in boxes.iter().enumerate() {
                    let inside = a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= size[2] && a[3] <= size[3];
                    assert!(inside, "{text} leaves the picture: {a:?} of {size:?}");
                    for (other, b) in &boxes[i + 1..] {
                        let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                        assert!(apart, "{text} covers {other} with {limiters} limiters, {rounds} rounds");
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_name_keeps_the_end_that_tells_it_from_its_sisters() {
        let name = format!("token-bucket-lua:{}=1", "x".repeat(80));
        let short = shorten(&name);
        assert!(short.ends_with("x=1") && short.contains('…'));
        assert_eq!(words::chars(&short), LONGEST_NAME);
    }

    #[test]
    fn dots_stay_inside_their_row() {
        for lanes in 1..=LANES {
            for lane in 0..lanes {
                assert!(offset(lane, lanes, 38).abs() <= 13, "{lane} of {lanes}");
            }
        }
    }
}
