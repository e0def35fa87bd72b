//! The title of a chart: what there is to see in it, in one sentence.

use std::collections::BTreeSet;

use super::super::words;
use super::row::{OVER, REQUIREMENT, room};
use super::skew;
use crate::model::figures::{Chart, Figure};
use crate::model::report::{CellReport, ScenarioSummary};
use crate::model::verdict::Verdict;

/// What the chart of these cells shows.
pub fn title(scenario: &ScenarioSummary, cells: &[&CellReport], names: &[String]) -> String {
    let told = match scenario.chart {
        Chart::Timeline => waits(cells, names),
        Chart::Counter => lost(cells),
        Chart::Skew => skew::finding(cells),
        Chart::Loads => spread(Figure::BusiestNodePercent, cells, names),
        Chart::Figure => scenario.figures.first().and_then(|f| spread(*f, cells, names)),
        Chart::Admitted | Chart::None => admitted(cells),
    };
    told.unwrap_or_else(|| scenario.title.clone())
}

fn admitted(cells: &[&CellReport]) -> Option<String> {
    let failed = |c: &CellReport, name| words::check(c, name).is_some_and(|c| c.verdict == Verdict::Fail);
    let judged =
        cells.iter().filter(|c| words::check(c, OVER).or(words::check(c, REQUIREMENT)).is_some()).count();
    if judged == 0 {
        return None;
    }
    let over: Vec<_> = cells.iter().filter(|c| failed(c, OVER) || failed(c, REQUIREMENT)).collect();
    // A limiter under several variations, or on several servers, is several cases.
    let names: BTreeSet<&str> = cells.iter().map(|c| c.limiter.as_str()).collect();
    let what = if names.len() == cells.len() { "limiters" } else { "cases" };
    let of =
        if judged == 1 { "the limiter".to_owned() } else { format!("{} of {judged} {what}", over.len()) };
    let most = over.iter().flat_map(|c| c.rounds.iter().map(move |r| (r.admitted, room(c))));
    Some(match most.max_by_key(|(admitted, room)| admitted.saturating_sub(*room)) {
        // One that is over a shorter span than the round has no such number.
        Some((admitted, room)) if admitted > room => {
            let verb = if judged == 1 || over.len() == 1 { "admits" } else { "admit" };
            capital(&format!("{of} {verb} too much: up to {admitted} where {room} may be"))
        }
        Some(_) => capital(&format!("{of} admitted too much in a window")),
        None if judged == 1 => "The limiter was not seen to admit too much".to_owned(),
        None => format!("None of {judged} {what} was seen to admit too much"),
    })
}

fn spread(figure: Figure, cells: &[&CellReport], names: &[String]) -> Option<String> {
    let told = cells.iter().zip(names).filter_map(|(c, n)| Some((*c.figures.get(&figure)?, n)));
    let told: Vec<(f64, String)> = told.map(|(value, name)| (value, brief(name))).collect();
    let least = told.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let most = told.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let text = |value| words::figure_text(figure, value);
    let head = capital(figure.head());
    Some(if text(least.0) == text(most.0) {
        let all = if told.len() > 1 { " for each of them" } else { "" };
        format!("{head}: {}{all}", text(least.0))
    } else {
        format!("{head}: {} with {} to {} with {}", text(least.0), least.1, text(most.0), most.1)
    })
}

fn waits(cells: &[&CellReport], names: &[String]) -> Option<String> {
    let slowest = |c: &CellReport| {
        let slices = c.rounds.iter().flat_map(|r| &r.slices).map(|s| s.max_ms);
        slices.max_by(f64::total_cmp)
    };
    let told: Vec<(f64, String)> =
        cells.iter().zip(names).filter_map(|(c, n)| Some((slowest(c)?, brief(n)))).collect();
    let least = told.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let most = told.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let text = |ms| words::figure_text(Figure::MaxMs, ms);
    Some(if told.len() == 1 {
        format!("The slowest caller waits {} ms", text(most.0))
    } else {
        format!(
            "The slowest caller waits {} ms with {} to {} ms with {}",
            text(least.0),
            least.1,
            text(most.0),
            most.1
        )
    })
}

/// How far what was admitted got ahead of what the store says is used.
fn lost(cells: &[&CellReport]) -> Option<String> {
    let ahead = |c: &&CellReport| {
        let points = c.rounds.iter().filter_map(|r| r.counter.as_ref()).flat_map(|c| &c.points);
        points.filter_map(|p| Some(p.admitted.saturating_sub(p.used?))).max()
    };
    let told: Vec<u64> = cells.iter().filter_map(ahead).collect();
    let most = *told.iter().max()?;
    let lossy = told.iter().filter(|n| **n > 0).count();
    Some(match most {
        0 => format!("No count is lost in any of {}", told.len()),
        _ => format!("In {lossy} of {} counts are lost, up to {most}", told.len()),
    })
}

/// A name that leaves room for the rest of the sentence.
fn brief(name: &str) -> String {
    const LONGEST: usize = 40;
    let cut: String = name.chars().take(LONGEST).collect();
    if cut.len() < name.len() { format!("{}…", cut.trim_end()) } else { cut }
}

pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;

    #[test]
    fn a_title_says_what_came_out_and_nothing_else() {
        let report = sample::race();
        let of = |cells: &[&CellReport]| title(&report.scenarios[0], cells, &words::labels(cells));
        let all: Vec<&CellReport> = report.cells.iter().collect();
        assert_eq!(of(&all), "2 of 4 limiters admit too much: up to 200 where 10 may be");
        assert_eq!(of(&all[2..]), "None of 2 limiters was seen to admit too much");
        assert_eq!(of(&all[..1]), "The limiter admits too much: up to 200 where 10 may be");
        assert_eq!(of(&all[2..3]), "The limiter was not seen to admit too much");
        let mut unjudged = report.cells[2].clone();
        unjudged.checks.clear();
        let on_two_servers = [&report.cells[2], &report.cells[2], &report.cells[3]];
        assert_eq!(of(&on_two_servers), "None of 3 cases was seen to admit too much");
        assert_eq!(of(&[&unjudged]), report.scenarios[0].title);
    }

    #[test]
    fn the_title_of_a_figure_names_its_ends() {
        let mut scenario = sample::race().scenarios[0].clone();
        (scenario.chart, scenario.figures) = (Chart::Figure, vec![Figure::BytesPerIdentity]);
        let mut cells = [sample::cell("a", &[10]), sample::cell("b", &[10])];
        for (cell, bytes) in cells.iter_mut().zip([96.0, 1_029_400.0]) {
            cell.figures.insert(Figure::BytesPerIdentity, bytes);
        }
        let cells: Vec<&CellReport> = cells.iter().collect();
        let names = words::labels(&cells);
        assert_eq!(title(&scenario, &cells, &names), "Bytes per identity: 96 with a to 1,029,400 with b");
    }
}
