//! One scenario's chart, laid out in pixels: its heads, the axis, the limit and a row per limiter.
//! Where the scenario shows a figure, the plot is that of `figure`.

use std::collections::BTreeSet;

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::super::words;
use super::canvas::{Canvas, Drawn, EDGE, LINE, SMALL, Type, fold, ink};
use super::counter::{self, Counters, Loads};
use super::figure::{self, Plot};
use super::finding::{self, capital};
use super::row;
use super::scale::{Scale, short};
use super::skew::{self, Skews};
use super::timeline::{self, Timeline};
use crate::model::figures::{Chart, Figure};
use crate::model::report::{CellReport, ScenarioSummary};

const PLOT: i32 = 460;
/// Narrowest picture, so that the lines above and below a small chart need no folding.
const NARROWEST: i32 = 760;
const TITLE_LINE: i32 = 24;

const HEAD: Type = Type::bold(13.0, ink::TEXT);
const TITLE: Type = Type::bold(18.0, ink::TEXT);
const NAME: Type = Type::new(13.0, ink::TEXT);
const NOTE: Type = Type::new(11.0, ink::QUIET);
const LIMIT: Type = Type::bold(12.0, ink::TEXT);
const FIGURE: Type = Type::bold(12.0, ink::TEXT);

/// One scenario's chart.
pub struct Panel<'a> {
    /// What there is to see.
    title: String,
    scenario: &'a ScenarioSummary,
    cells: Vec<&'a CellReport>,
    /// In one line each, or two.
    names: Vec<Vec<String>>,
    /// What is plotted instead of admitted calls.
    figure: Option<Figure>,
    /// What else is plotted instead.
    kind: Chart,
    /// Left end of the axis.
    left: i32,
    row: i32,
}

impl<'a> Panel<'a> {
    pub fn new(scenario: &'a ScenarioSummary, cells: Vec<&'a CellReport>) -> Self {
        let rounds = cells.iter().map(|c| c.rounds.len()).max().unwrap_or(0);
        let figure = scenario.figures.first().copied().filter(|_| scenario.chart == Chart::Figure);
        let dots = 38 + 2 * rounds.saturating_sub(8).min(12) as i32;
        let kind = scenario.chart;
        // Rows with room for two lines.
        let timed = matches!(kind, Chart::Timeline | Chart::Counter | Chart::Skew);
        let lines = skew::lines(&cells);
        let heads: Vec<&CellReport> = match kind {
            Chart::Skew => lines.iter().map(|l| &l.head).collect(),
            _ => cells.clone(),
        };
        let labels = words::short_labels(&heads);
        let short = row::shorten_apart(&labels);
        let one = |(label, short): (&String, String)| {
            if timed { row::in_two(label) } else { vec![short] }
        };
        let names: Vec<Vec<String>> = labels.iter().zip(short).map(one).collect();
        let row = match figure {
            _ if kind == Chart::Counter => counter::ROW,
            _ if kind == Chart::Loads => counter::LOADS_ROW,
            _ if kind == Chart::Skew => skew::ROW,
            _ if timed => timeline::ROW,
            Some(_) => figure::ROW,
            None => dots,
        };
        let title = finding::title(scenario, &cells, &labels);
        let mut panel = Self { title, scenario, cells, names, figure, kind, left: 0, row };
        let notes = panel.cells.iter().map(|c| NOTE.width(&panel.note(c)));
        let widest = panel.names.iter().flatten().map(|n| NAME.width(n)).chain(notes).max();
        panel.left = EDGE + widest.unwrap_or(0).max(120) + 14;
        panel
    }

    /// Whether a row is a plot of its own.
    fn timed(&self) -> bool {
        matches!(self.kind, Chart::Timeline | Chart::Counter | Chart::Loads | Chart::Skew)
    }

    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub fn width(&self) -> i32 {
        let figures = match self.plot() {
            _ if self.timed() => timeline::BESIDE.max(counter::BESIDE).max(skew::BESIDE),
            Some(plot) => plot.beside(),
            None => self.cells.iter().map(|c| beside(c).2).max().unwrap_or(0),
        };
        (self.left + PLOT + 14 + figures + EDGE).max(NARROWEST)
    }

    /// What there is to see, for who cannot see it.
    pub fn shows(&self) -> String {
        match self.figure {
            _ if self.kind == Chart::Counter => {
                "What the store says is used and what was admitted, call by call".to_owned()
            }
            _ if self.kind == Chart::Skew => {
                "The most admitted in one window, against how far clocks are apart, for each limiter"
                    .to_owned()
            }
            _ if self.kind == Chart::Loads => "Commands of each node of a cluster".to_owned(),
            _ if self.timed() => "How long callers waited over time, for each limiter".to_owned(),
            Some(figure) => format!("{} for each limiter", capital(figure.head())),
            None => "Admitted calls per round and limiter".to_owned(),
        }
    }

    /// What the colours mean, as far as they are used.
    pub fn legend(&self) -> Vec<(&'static str, RGBColor)> {
        match self.kind {
            Chart::Timeline => return timeline::legend(&self.cells),
            Chart::Counter => return counter::LEGEND.to_vec(),
            Chart::Skew => return skew::legend(&self.cells),
            Chart::Loads => return vec![(counter::LOADS, ink::QUIET)],
            _ => {}
        }
        let known = if self.figure.is_some() { figure::legend(&self.cells) } else { row::LEGEND.to_vec() };
        let color = |c: &CellReport| self.figure.map_or_else(|| row::color(c), |f| figure::color(f, c));
        let used = |ink: RGBColor| self.cells.iter().any(|c| color(c) == ink);
        let mut legend: Vec<_> = known.iter().copied().filter(|(_, ink)| used(*ink)).collect();
        if self.figure.is_none() && !self.cells.is_empty() {
            legend.push((row::KEY, ink::QUIET));
        }
        legend
    }

    /// The figure's plot, where one is shown.
    fn plot(&self) -> Option<Plot<'_>> {
        self.figure.map(|figure| Plot { figure, cells: &self.cells, left: self.left, width: PLOT })
    }

    pub fn height(&self, width: i32) -> i32 {
        let rows = self.row * self.names.len() as i32;
        let plot = if self.cells.is_empty() { 0 } else { 30 + rows + figure::BELOW };
        let title = fold(&self.title, TITLE, width).len() as i32 * TITLE_LINE;
        let said = self.said(width).len() as i32 * LINE;
        title + said + self.head(width).len() as i32 * LINE + 20 + plot
    }

    /// The scenario, and what a figure's plot shows, in words.
    fn said(&self, width: i32) -> Vec<String> {
        let title = Some(self.scenario.title.clone()).filter(|t| *t != self.title);
        let figure = self.figure.map(|f| capital(f.summary()));
        title.into_iter().chain(figure).flat_map(|text| fold(&text, HEAD, width)).collect()
    }

    /// The lines below the title.
    fn head(&self, width: i32) -> Vec<String> {
        let mut lines = vec![self.scenario.plan.clone()];
        lines.extend(words::common_limiter(&self.cells).map(|l| format!("limiter: {}", words::clean(l))));
        lines.extend(self.scenario.requires.as_ref().map(|r| format!("requires: {r}")));
        let servers: BTreeSet<String> = self.cells.iter().map(|c| words::server_of(c)).collect();
        let servers: Vec<String> = servers.into_iter().chain([words::terms(self.scenario)]).collect();
        lines.push(servers.join(" · "));
        lines.iter().flat_map(|l| fold(l, SMALL, width)).collect()
    }

    pub fn draw(&self, canvas: &Canvas<'_>, top: i32, width: i32) -> Drawn {
        let mut y = top + 10;
        for line in fold(&self.title, TITLE, width) {
            canvas.text(&line, (EDGE, y), TITLE, HPos::Left)?;
            y += TITLE_LINE;
        }
        y += 2;
        for line in self.said(width) {
            canvas.text(&line, (EDGE, y), HEAD, HPos::Left)?;
            y += LINE;
        }
        for line in self.head(width) {
            canvas.text(&line, (EDGE, y), SMALL, HPos::Left)?;
            y += LINE;
        }
        if self.cells.is_empty() {
            return Ok(());
        }
        let top = y + 30;
        if self.timed() {
            for (i, (cell, name)) in (0..).zip(self.cells.iter().zip(&self.names)) {
                self.names(canvas, cell, name, top + self.row * i + self.row / 2)?;
            }
            let (cells, left, width) = (&self.cells, self.left, PLOT);
            return match self.kind {
                Chart::Counter => Counters { cells, left, width }.draw(canvas, top),
                Chart::Loads => Loads { cells, left, width }.draw(canvas, top),
                Chart::Skew => Skews { lines: &skew::lines(cells), left, width }.draw(canvas, top),
                _ => Timeline { cells, left, width }.draw(canvas, top),
            };
        }
        if let Some(plot) = self.plot() {
            for (i, (cell, name)) in (0..).zip(self.cells.iter().zip(&self.names)) {
                self.names(canvas, cell, name, top + self.row * i + self.row / 2)?;
            }
            return plot.draw(canvas, top);
        }
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
        let rooms: Vec<u64> = self.ran().map(row::room).collect();
        Scale::new(&counts, &rooms, self.left, PLOT)
    }

    /// The cells with rounds. One without has no preset that is known of, so its limit would be
    /// another line than that of all the others, far away on the axis.
    fn ran(&self) -> impl Iterator<Item = &'a CellReport> {
        self.cells.iter().copied().filter(|c| !c.rounds.is_empty())
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
        for (i, cell) in (0..).zip(&self.cells).filter(|(_, c)| !c.rounds.is_empty()) {
            let (x, y) = (scale.at(row::room(cell)), top + self.row * i);
            canvas.line((x, y), (x, y + self.row), ink::TEXT, 2)?;
        }
        let Some(first) = self.ran().next() else { return Ok(()) };
        let (label, at) = if self.same_room() {
            (row::limit_label(first), Some(scale.at(row::room(first))))
        } else {
            ("┃ the limit of each row".to_owned(), None)
        };
        let half = LIMIT.width(&label) / 2;
        let x = at.unwrap_or(self.left + half).max(EDGE + half).min(self.width() - EDGE - half);
        canvas.text(&label, (x, top - 12), LIMIT, HPos::Center)
    }

    fn same_room(&self) -> bool {
        self.ran().map(words::room).collect::<BTreeSet<_>>().len() <= 1
    }

    fn names(&self, canvas: &Canvas<'_>, cell: &CellReport, name: &[String], middle: i32) -> Drawn {
        let (note, x) = (self.note(cell), self.left - 12);
        const APART: i32 = 16;
        let up = if note.is_empty() { APART * (name.len() as i32 - 1) / 2 } else { 7 };
        for (i, line) in (0..).zip(name) {
            canvas.text(line, (x, middle - up + APART * i), NAME, HPos::Right)?;
        }
        if note.is_empty() { Ok(()) } else { canvas.text(&note, (x, middle + 9), NOTE, HPos::Right) }
    }

    /// What the line above the rows does not say of this limiter.
    fn note(&self, cell: &CellReport) -> String {
        if self.figure.is_some() || self.timed() {
            return String::new();
        }
        let own = !self.same_room() && !cell.rounds.is_empty();
        let limit = own.then(|| format!("limit {}", words::room(cell)));
        limit.into_iter().chain(row::promise(cell)).collect::<Vec<_>>().join(", ")
    }

    fn dots(&self, canvas: &Canvas<'_>, scale: &Scale, cell: &CellReport, middle: i32) -> Drawn {
        let (_, median, high) = words::spread(&cell.rounds);
        let (figure, verdict, widest) = beside(cell);
        let ink = row::color(cell);
        let (line, beside) = (scale.at(row::room(cell)), scale.at(high) + 12);
        // Beyond the limit's line rather than across it.
        let x = if (beside - 6..beside + widest).contains(&line) { line + 10 } else { beside };
        canvas.blank((x - 4, middle - 15), (x + widest, middle + 16))?;
        if median > row::room(cell) {
            canvas.line((scale.at(row::room(cell)), middle), (scale.at(median), middle), ink, 3)?;
        }
        let lanes = cell.rounds.len().min(row::LANES);
        let mut seen = BTreeSet::new();
        for (i, round) in cell.rounds.iter().enumerate() {
            let at = (scale.at(round.admitted), middle + row::offset(i % row::LANES, lanes, self.row));
            if seen.insert(at) {
                canvas.dot(at, ink)?;
            }
        }
        canvas.text(&figure, (x, middle - 7), Type { ink, ..FIGURE }, HPos::Left)?;
        let ink = if row::misses_requirement(cell) { ink::OVER } else { ink };
        canvas.text(&verdict, (x, middle + 8), Type { ink, ..NOTE }, HPos::Left)
    }
}

/// The two lines beside a limiter's dots, and how wide they are.
fn beside(cell: &CellReport) -> (String, String, i32) {
    let (figure, verdict) = row::figures(cell);
    let width = FIGURE.width(&figure).max(NOTE.width(&verdict));
    (figure, verdict, width)
}
