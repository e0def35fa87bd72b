//! The calls behind one conviction as a picture: a bar for each from its beginning to its answer, what was broken
//! meanwhile shaded.

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::super::words;
use super::canvas::{Canvas, EDGE, LINE, SMALL, Type, fold, ink};
use super::labelled;
use super::timeline::SHADE;
use crate::model::op::Outcome;
use crate::model::scene::{Scene, SceneCall};
use crate::model::units::Nanos;

const WIDTH: i32 = 760;
const ROW: i32 = 15;
const TITLE: Type = Type::bold(15.0, ink::TEXT);
const NAMED: Type = Type::bold(11.0, ink::TEXT);
const BESIDE: Type = Type::new(11.0, ink::QUIET);
/// A call that takes no time is still to be seen.
const THINNEST: i32 = 3;

/// The picture, and what it shows in words.
pub fn draw(title: &str, scene: &Scene) -> Result<String, String> {
    let (from, to) = span(scene);
    let several = scene.calls.iter().any(|c| c.key != scene.calls[0].key);
    let name = |c: &SceneCall| {
        let key = if several { format!(" · {}", words::clean(&c.key)) } else { String::new() };
        let mark = if c.convicts { "● " } else { "" };
        format!("{mark}op {} · node {}{key}", c.op, c.node)
    };
    let names: Vec<String> = scene.calls.iter().map(name).collect();
    let left = EDGE + names.iter().map(|n| NAMED.width(n)).max().unwrap_or(0).min(300) + 12;
    let width = WIDTH - EDGE - left;
    let x = |ms: f64| left + (f64::from(width) * ((ms - from) / (to - from)).clamp(0.0, 1.0)).round() as i32;
    let title = fold(title, TITLE, WIDTH);
    let top = EDGE + title.len() as i32 * 22 + 10;
    let bottom = top + ROW * scene.calls.len() as i32;
    let foot: Vec<(String, RGBColor)> = legend(scene);
    let height = bottom + 52 + foot.len() as i32 * LINE + EDGE / 2;
    let mut text = String::new();
    let canvas = Canvas::new(&mut text, (WIDTH, height))?;
    for (i, line) in (0..).zip(&title) {
        canvas.text(line, (EDGE, EDGE + 22 * i), TITLE, HPos::Left)?;
    }
    for fault in &scene.faults {
        let end = fault.to_ms.map_or(left + width, &x);
        canvas.field((x(fault.from_ms), top - 2), (end.max(x(fault.from_ms) + 2), bottom), SHADE)?;
    }
    let (unit, unit_ms) = unit(to - from);
    for tick in ticks(from / unit_ms, to / unit_ms) {
        let at = x(tick * unit_ms);
        canvas.line((at, top), (at, bottom), ink::RULE, 1)?;
        canvas.text(&words::number(tick), (at, bottom + 14), SMALL, HPos::Center)?;
    }
    canvas.line((left, bottom), (left + width, bottom), ink::QUIET, 1)?;
    let axis = format!("{unit} from the beginning of round {}", scene.round);
    canvas.text(&axis, (left + width / 2, bottom + 34), SMALL, HPos::Center)?;
    for ((call, name), y) in scene.calls.iter().zip(&names).zip((0..).map(|i| top + ROW * i)) {
        let kind = if call.convicts { NAMED } else { BESIDE };
        canvas.text(name, (left - 8, y + ROW / 2), kind, HPos::Right)?;
        let begin = x(call.from_ms).min(left + width - THINNEST);
        let end = call.to_ms.map_or(left + width, &x).max(begin + THINNEST);
        canvas.field((begin, y + 3), (end, y + ROW - 2), color(call))?;
    }
    for ((line, ink), y) in foot.iter().zip((0..).map(|i| bottom + 58 + LINE * i)) {
        canvas.text(line, (EDGE, y), Type { ink: *ink, ..SMALL }, HPos::Left)?;
    }
    canvas.finish()?;
    let (from, to) = (Nanos::from_millis(from), Nanos::from_millis(to));
    let about = format!("The calls behind the verdict, from {} to {}", from.beside(to), to.beside(from));
    Ok(labelled(&text, &about))
}

/// What the axis counts in, and how many ms that is: what is long is told as its verdict tells it.
fn unit(span_ms: f64) -> (&'static str, f64) {
    match Nanos::from_millis(span_ms) {
        span if !span.is_long() => ("ms", 1.0),
        span if span.0 < 600_000_000_000 => ("seconds", 1e3),
        _ => ("minutes", 6e4),
    }
}

/// From the first call's beginning to the last answer, with a little room.
fn span(scene: &Scene) -> (f64, f64) {
    let from = scene.calls.iter().map(|c| c.from_ms).fold(f64::INFINITY, f64::min);
    let ends = scene.calls.iter().map(|c| c.to_ms.unwrap_or(c.from_ms));
    let to = ends.fold(from, f64::max);
    let room = ((to - from) * 0.03).max(0.01);
    ((from - room).max(0.0), to + room)
}

/// Four to eight round numbers.
fn ticks(from: f64, to: f64) -> Vec<f64> {
    let steps = (-4..9).flat_map(|e| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(e)));
    let Some(step) = steps.into_iter().find(|s| (to - from) / s <= 7.0) else { return Vec::new() };
    let first = (from / step).ceil() as i64;
    (first..).map(|n| n as f64 * step).take_while(|t| *t <= to).collect()
}

fn color(call: &SceneCall) -> RGBColor {
    match call.outcome {
        Outcome::Admitted => ink::KEPT,
        Outcome::Denied => ink::UNTOLD,
        Outcome::Failed | Outcome::Unknown => ink::OVER,
    }
}

fn legend(scene: &Scene) -> Vec<(String, RGBColor)> {
    let known = [
        ("■ admitted", ink::KEPT),
        ("■ refused", ink::UNTOLD),
        ("■ failed, or nobody knows what became of it", ink::OVER),
    ];
    let used = |ink: RGBColor| scene.calls.iter().any(|c| color(c) == ink);
    let mut lines: Vec<(String, RGBColor)> =
        known.into_iter().filter(|(_, ink)| used(*ink)).map(|(text, ink)| (text.to_owned(), ink)).collect();
    let more = match scene.left_out {
        0 => String::new(),
        n => format!("; {n} more of them are not drawn"),
    };
    lines.push((format!("● the verdict counts it{more}"), ink::TEXT));
    let faults = scene.faults.iter().map(|f| format!("shaded: {} of {}", f.fault, f.on));
    lines.extend(faults.map(|text| (text, ink::QUIET)));
    lines
}

#[cfg(test)]
mod tests {
    use super::super::super::xml::well_formed;
    use super::*;
    use crate::model::scene::SceneFault;

    fn scene(calls: u32) -> Scene {
        let call = |n: u32| SceneCall {
            op: n,
            node: 1,
            key: "user".to_owned(),
            from_ms: f64::from(n),
            to_ms: (n != 3).then(|| f64::from(n) + 0.4),
            outcome: if n == 3 { Outcome::Unknown } else { Outcome::Admitted },
            source: None,
            cost: 1,
            convicts: n.is_multiple_of(2),
            sum: None,
        };
        let fault = SceneFault { fault: "freeze".into(), on: "<primary>".into(), from_ms: 2.0, to_ms: None };
        Scene {
            round: 1,
            allowed: None,
            calls: (0..calls).map(call).collect(),
            left_out: 7,
            faults: vec![fault],
        }
    }

    #[test]
    fn every_call_is_named_and_what_is_not_drawn_is_said() {
        for calls in [1, 5, 48] {
            let svg = draw("a & b: 11 of 10", &scene(calls)).unwrap();
            well_formed(&svg);
            assert_eq!(svg.matches("node 1").count(), calls as usize);
            assert!(svg.contains("7 more of them are not drawn") && svg.contains("&lt;primary&gt;"));
        }
    }

    #[test]
    fn a_long_scene_counts_in_what_a_person_counts_in() {
        let mut long = scene(3);
        long.calls[2].to_ms = Some(910_000.892);
        let svg = draw("6 of 5", &long).unwrap();
        assert!(svg.contains("minutes from the beginning of round 1") && svg.contains("\n15\n"), "{svg}");
    }

    #[test]
    fn the_axis_has_round_numbers_within_its_ends() {
        assert_eq!(ticks(0.12, 3.3), [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
        for (from, to) in [(0.0, 0.02), (5_000.0, 5_400.0), (0.0, 3.6e6)] {
            let ticks = ticks(from, to);
            assert!((3..=8).contains(&ticks.len()), "{from} {to}: {ticks:?}");
            assert!(ticks.iter().all(|t| (from..=to).contains(t)));
        }
    }
}
