//! One chart per scenario, stacked: limiters down the side, admitted calls to the right, a dot per
//! round against the line of what was left of the limit; or, where the scenario shows one, a figure.
//! A standalone SVG file.
//!
//! Horizontal, because limiters have long names. Dots are moved apart up and down only: sideways
//! would put a round that kept the limit beyond its line.

mod canvas;
mod counter;
mod figure;
mod finding;
pub mod heat_map;
mod panel;
mod row;
mod scale;
pub mod scene;
mod skew;
mod timeline;

use std::collections::BTreeSet;

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::words;
use crate::model::figures::Chart;
use crate::model::report::{CellReport, Report, ScenarioSummary};
use crate::ports::format::{Format, Look};
use canvas::{Canvas, Drawn, EDGE, LINE, SMALL, Type, fold, ink};
use panel::Panel;

pub struct Svg;

impl Format for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }

    fn file(&self) -> &'static str {
        "chart.svg"
    }

    fn on_stdout(&self) -> bool {
        false
    }

    fn applies(&self, report: &Report) -> bool {
        // A matrix has a picture of its own, and claims and gates are told by their table.
        let summed = report.matrix.is_some() || report.claims.is_some() || report.gate.is_some();
        let cells: Vec<&CellReport> = report.cells.iter().collect();
        let drawn = report.scenarios.is_empty() || report.scenarios.iter().any(|s| s.chart != Chart::None);
        !summed && drawn && (cells.is_empty() || cells.iter().any(|c| driven(c)))
    }

    fn render(&self, report: &Report, _: Look) -> Result<String, String> {
        let panels = report.scenarios.iter().filter(|s| s.chart != Chart::None).map(|s| {
            let cells = report.cells.iter().filter(|c| c.scenario == s.name).collect();
            Panel::new(s, cells)
        });
        let error = report.error.as_ref().map(|error| format!("{}: {error}", words::error_head(report)));
        draw(&panels.collect::<Vec<_>>(), error, &ground(report))
    }
}

/// The chart of one scenario, with what its figures stand on; `None` where a table says more.
pub fn of_scenario(
    scenario: &ScenarioSummary,
    cells: &[&CellReport],
    ground: &str,
) -> Result<Option<String>, String> {
    if scenario.chart == Chart::None || !cells.iter().any(|c| driven(c)) {
        return Ok(None);
    }
    draw(&[Panel::new(scenario, cells.to_vec())], None, ground).map(Some)
}

/// What a run's figures stand on, in a line.
pub fn ground(report: &Report) -> String {
    let ground =
        [words::servers(report), report.honesty.backend.clone(), format!("seed {}", report.seed)].join(" · ");
    format!("{ground} · rl-lab {} · {}", report.lab, report.started)
}

/// A search makes no calls that could be drawn, and of a crash the table says who is let in again.
fn driven(cell: &CellReport) -> bool {
    cell.search.is_none() && cell.rounds.iter().all(|r| r.crash.is_none())
}

fn draw(panels: &[Panel<'_>], error: Option<String>, ground: &str) -> Result<String, String> {
    let width = panels.iter().map(Panel::width).max().unwrap_or(760);
    let foot = foot(panels, error, ground, width);
    let height = panels.iter().map(|p| p.height(width)).sum::<i32>() + foot.len() as i32 * LINE + 2 * EDGE;
    let mut text = String::new();
    let canvas = Canvas::new(&mut text, (width, height))?;
    let mut y = EDGE;
    for panel in panels {
        panel.draw(&canvas, y, width)?;
        y += panel.height(width);
    }
    draw_foot(&canvas, &foot, y + EDGE / 2)?;
    canvas.finish()?;
    let shown: BTreeSet<String> = panels.iter().map(Panel::shows).collect();
    Ok(labelled(&text, &shown.into_iter().collect::<Vec<_>>().join("; ")))
}

/// The picture with what it shows, for who cannot see it.
fn labelled(svg: &str, label: &str) -> String {
    svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{}\" ", words::xml(label)), 1)
}

/// What the chart means, and what the figures stand on.
fn foot(panels: &[Panel<'_>], error: Option<String>, ground: &str, width: i32) -> Vec<(String, RGBColor)> {
    let mut lines: Vec<(String, RGBColor)> = Vec::new();
    if panels.iter().all(Panel::is_empty) {
        lines.push(("No limiter was run.".to_owned(), ink::OVER));
    }
    for (text, ink) in panels.iter().flat_map(Panel::legend) {
        if !lines.iter().any(|(known, _)| known == text) {
            lines.push((text.to_owned(), ink));
        }
    }
    lines.extend(error.map(|error| (error, ink::OVER)));
    lines.push((ground.to_owned(), ink::QUIET));
    let folded =
        |(text, ink): (String, RGBColor)| fold(&text, SMALL, width).into_iter().map(move |l| (l, ink));
    lines.into_iter().flat_map(folded).collect()
}

fn draw_foot(canvas: &Canvas<'_>, lines: &[(String, RGBColor)], top: i32) -> Drawn {
    for (i, (text, ink)) in (0..).zip(lines) {
        canvas.text(text, (EDGE, top + LINE * i), Type { ink: *ink, ..SMALL }, HPos::Left)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::super::xml::well_formed;
    use super::*;
    use crate::model::contract::Scope;
    use crate::model::figures::Figure;
    use crate::model::verdict::Verdict;

    fn svg(report: &Report) -> String {
        let text = Svg.render(report, Look::PLAIN).unwrap();
        well_formed(&text);
        text
    }

    /// The texts of a chart, as XML has them.
    fn texts(svg: &str) -> Vec<&str> {
        svg.split("<text").skip(1).map(|t| t.split(['>', '<']).nth(1).unwrap().trim()).collect()
    }

    /// A report whose chart is one of a figure.
    fn measured(figure: Figure, values: &[f64]) -> Report {
        let cell = |(i, value): (usize, &f64)| {
            let mut cell = sample::cell(&format!("token-bucket-read-write:variant={i}"), &[10]);
            cell.variation = Some("at the far end of a rather long cable, once more".to_owned());
            cell.figures.insert(figure, *value);
            cell
        };
        let mut report = sample::report(values.iter().enumerate().map(cell).collect());
        (report.scenarios[0].figures, report.scenarios[0].chart) = (vec![figure], Chart::Figure);
        report
    }

    #[test]
    fn the_chart_of_a_figure_names_it_and_its_values_and_what_was_not_told() {
        let mut report = measured(Figure::BytesPerIdentity, &[96.0, 1_029_400.0, 0.0]);
        report.cells.push(sample::cell("in-memory", &[10]));
        let svg = svg(&report);
        let texts = texts(&svg);
        for text in
            ["bytes per identity, logarithmic", "96", "1,029,400", "0", "not told", "● measured, not judged"]
        {
            assert!(texts.contains(&text), "{text}: {texts:?}");
        }
        assert!(svg.contains("aria-label=\"Bytes per identity for each limiter\""));
        assert!(!svg.contains("admitted calls per round"), "the axis of another chart");
    }

    #[test]
    fn what_is_held_against_the_limit_shows_its_line_and_who_misses_the_requirement() {
        let mut report = measured(Figure::MostInWindow, &[20.0, 10.0]);
        for (cell, verdict) in report.cells.iter_mut().zip([Verdict::Fail, Verdict::Pass]) {
            cell.checks.push(sample::check("meets-requirement", verdict, None, "text"));
        }
        let svg = svg(&report);
        for text in ["limit 10", "● misses the requirement", "● meets the requirement"] {
            assert!(texts(&svg).contains(&text), "{text}");
        }
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
        assert_eq!(row::room(&report.cells[0]), 2);
    }

    #[test]
    fn a_limiter_that_could_not_run_leaves_the_line_of_the_others_alone() {
        let mut report = sample::incident();
        let mut cell = sample::cell("multi-incr-expire-nx", &[]);
        cell.limit = report.cells[0].limit;
        report.cells.push(cell);
        let svg = svg(&report);
        assert!(svg.contains("room for 2: limit 1000 − 998 used before"));
        assert!(!texts(&svg).contains(&"1000"), "the axis reaches out to a limit nobody was held to");
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
        assert_eq!(dots(10_000), row::LANES);
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

    /// No two texts meet, and none is cut off.
    fn assert_apart(svg: &str, what: &str) {
        let (boxes, size) = (boxes(svg), svg.split("viewBox=\"").nth(1).unwrap().split('"').next().unwrap());
        let size: Vec<f64> = size.split(' ').filter_map(|n| n.parse().ok()).collect();
        for (i, (text, a)) in boxes.iter().enumerate() {
            let inside = a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= size[2] && a[3] <= size[3];
            assert!(inside, "{text} leaves the picture: {a:?} of {size:?}");
            for (other, b) in &boxes[i + 1..] {
                let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                assert!(apart, "{text} covers {other} with {what}");
            }
        }
    }

    #[test]
    fn no_text_of_a_figures_chart_covers_another_or_leaves_the_picture() {
        for rows in [1, 3, 30] {
            for step in [1.0, 7.3, 1000.0] {
                for figure in [Figure::BytesPerIdentity, Figure::P99Ms, Figure::MostInWindow] {
                    let values: Vec<f64> =
                        (0..rows).map(|i| 0.04 + f64::from(i) * f64::from(i) * step).collect();
                    assert_apart(
                        &svg(&measured(figure, &values)),
                        &format!("{rows} rows of {}", figure.name()),
                    );
                }
            }
        }
    }

    #[test]
    fn no_text_covers_another_or_leaves_the_picture() {
        for limiters in [1, 4, 10, 25] {
            for rounds in [1, 5, 20] {
                let cell = |i: u64| {
                    let admitted: Vec<u64> =
                        (0..rounds).map(|r| if i.is_multiple_of(3) { 200 - r } else { 10 }).collect();
                    let mut cell = sample::cell(&format!("token-bucket-read-write:variant={i}"), &admitted);
                    cell.contract.scope = if i % 4 == 1 { Scope::Node } else { Scope::Global };
                    sample::judged(cell, Some(Verdict::Pass))
                };
                let svg = svg(&sample::report((0..limiters).map(cell).collect()));
                assert_apart(&svg, &format!("{limiters} limiters, {rounds} rounds"));
            }
        }
    }
}
