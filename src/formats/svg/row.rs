//! What one limiter's row says: its figures, its colour and where its dots go. Pure, no drawing.

use std::collections::BTreeSet;

use plotters::style::RGBColor;

use super::super::words;
use super::canvas::ink;
use crate::model::contract::Scope;
use crate::model::report::CellReport;
use crate::model::verdict::Verdict;

/// The check whose verdict colours the dots, and the one that is named if it disagrees.
pub const OVER: &str = "never-over-limit";
pub const REQUIREMENT: &str = "meets-requirement";

/// What the colours of the dots mean.
pub const LEGEND: [(&str, RGBColor); 3] = [
    ("● convicted by never-over-limit", ink::OVER),
    ("● not convicted: no window was seen to hold more than was promised", ink::KEPT),
    ("● not told: unknown, not applicable or not checked", ink::UNTOLD),
];
pub const KEY: &str =
    "One dot per round, the first on top; a bar shows how far the median is beyond the limit.";

const LONGEST_NAME: usize = 56;
/// Rounds beyond this many share their height in the row with earlier ones.
pub const LANES: usize = 20;

/// What a round could still admit: the limit less what the preset had used.
pub fn room(cell: &CellReport) -> u64 {
    cell.limit.get().saturating_sub(words::preset(cell))
}

/// What the line across all rows is.
pub fn limit_label(cell: &CellReport) -> String {
    match words::preset(cell) {
        0 => format!("limit {}", cell.limit),
        used => format!("room for {}: limit {} − {used} used before", room(cell), cell.limit),
    }
}

/// Where the limiter promises something else than the line says.
pub fn promise(cell: &CellReport) -> Option<String> {
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
pub fn figures(cell: &CellReport) -> (String, String) {
    let (low, median, high) = words::spread(&cell.rounds);
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

pub fn misses_requirement(cell: &CellReport) -> bool {
    words::check(cell, REQUIREMENT).is_some_and(|c| c.verdict == Verdict::Fail)
}

/// By whether the limiter broke its own promise.
pub fn color(cell: &CellReport) -> RGBColor {
    match words::check(cell, OVER).map(|c| c.verdict) {
        Some(Verdict::Fail) => ink::OVER,
        Some(Verdict::Pass) => ink::KEPT,
        _ => ink::UNTOLD,
    }
}

/// Where in its row a round's dot is: the first on top, five pixels apart as far as there is room.
pub fn offset(lane: usize, lanes: usize, row: i32) -> i32 {
    let span = (5 * (lanes as i32 - 1)).min(row - 12);
    if lanes < 2 { 0 } else { lane as i32 * span / (lanes as i32 - 1) - span / 2 }
}

/// Cut in the middle: variants of one limiter differ at the end.
pub fn shorten(name: &str) -> String {
    shorten_to(name, LONGEST_NAME)
}

/// All of them as short as it goes without leaving out what tells two apart.
pub fn shorten_apart(names: &[String]) -> Vec<String> {
    let distinct = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len();
    let tries = (LONGEST_NAME..=LONGEST_NAME * 2).step_by(14);
    let short = tries.map(|longest| names.iter().map(|n| shorten_to(n, longest)).collect::<Vec<_>>());
    short.into_iter().find(|short| distinct(short) == distinct(names)).unwrap_or_else(|| names.to_vec())
}

fn shorten_to(name: &str, longest: usize) -> String {
    let all: Vec<char> = name.chars().collect();
    if all.len() <= longest {
        return name.to_owned();
    }
    let (start, end) = (longest / 2, all.len() - longest / 2 + 1);
    all[..start].iter().chain(&['…']).chain(&all[end..]).collect()
}

/// A label that is too long for a line in two: the limiter, and what is around it.
pub fn in_two(label: &str) -> Vec<String> {
    let at = [" + ", " · "].iter().find_map(|mark| label.find(mark));
    match at.filter(|_| label.chars().count() > LONGEST_NAME / 2) {
        Some(at) => [&label[..at], label[at..].trim_start()].map(shorten).to_vec(),
        None => vec![shorten(label)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_two_names_apart_is_not_left_out() {
        let name = |tags: &str| {
            format!("sharded-counter:mode=share,shards=6,{tags}ttl=script (one key in six parts)")
        };
        let names = [name(""), name("tags=shared,")];
        assert_eq!(shorten(&names[0]), shorten(&names[1]));
        let short = shorten_apart(&names);
        assert_ne!(short[0], short[1]);
    }

    #[test]
    fn a_long_name_keeps_the_end_that_tells_it_from_its_sisters() {
        let name = format!("token-bucket-lua:{}=1", "x".repeat(80));
        let short = shorten(&name);
        assert!(short.ends_with("x=1") && short.contains('…'));
        assert_eq!(words::chars(&short), LONGEST_NAME);
    }

    #[test]
    fn a_label_of_two_lines_loses_nothing_that_a_line_has_room_for() {
        let label = "fixed-window-lua (freeze) + circuit-breaker:open=200ms · redis-rs-multiplexed";
        let lines = ["fixed-window-lua (freeze)", "+ circuit-breaker:open=200ms · redis-rs-multiplexed"];
        assert_eq!(in_two(label), lines);
        assert_eq!(in_two("fixed-window-lua"), ["fixed-window-lua"]);
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
