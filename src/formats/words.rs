//! What the formats share: how cells are called, how counts read, and how prose is folded.

use std::collections::BTreeSet;

use crate::model::claims::{CameOut, ClaimRow, Claims, Tried};
use crate::model::contract::Scope;
use crate::model::figures::Figure;
use crate::model::phases::Phase;
use crate::model::report::{CellReport, CheckReport, Honesty, Report, RoundCounts, ScenarioSummary};
use crate::model::verdict::Verdict;

/// Above so many rounds a row shows a summary instead of every round.
const ROUNDS_IN_FULL: usize = 6;

/// One name per cell, unique as far as the cells differ: the limiter and its policy always,
/// client, server and backend only where the cells do not agree on them.
pub fn labels(cells: &[&CellReport]) -> Vec<String> {
    let varied =
        |of: fn(&CellReport) -> String| cells.iter().map(|c| of(c)).collect::<BTreeSet<_>>().len() > 1;
    let client = varied(|c| c.client.clone());
    let server = varied(server_of);
    let backend = varied(|c| c.backend.clone());
    cells
        .iter()
        .map(|c| {
            let mut label = c.limiter.clone();
            if let Some(variation) = &c.variation {
                label.push_str(&format!(" ({variation})"));
            }
            if let Some(policy) = &c.policy {
                label.push_str(&format!(" + {policy}"));
            }
            let parts = [(client, c.client.clone()), (server, server_of(c)), (backend, c.backend.clone())];
            for (_, part) in parts.iter().filter(|(shown, _)| *shown) {
                label.push_str(&format!(" · {part}"));
            }
            clean(&label)
        })
        .collect()
}

/// The limiter that all cells are of, where there are several that differ otherwise.
pub fn common_limiter<'a>(cells: &[&'a CellReport]) -> Option<&'a str> {
    let (first, rest) = cells.split_first()?;
    let told = |c: &&CellReport| c.variation.is_some() || c.policy.is_some();
    let one = !rest.is_empty() && rest.iter().all(|c| c.limiter == first.limiter);
    (one && cells.iter().all(told)).then_some(&first.limiter)
}

/// As [`labels`], without the limiter where all are of one: for where there is little room.
pub fn short_labels(cells: &[&CellReport]) -> Vec<String> {
    let labels = labels(cells);
    let Some(limiter) = common_limiter(cells) else { return labels };
    let limiter = clean(limiter);
    let short = labels.iter().map(|label| {
        let rest = label.strip_prefix(limiter.as_str()).unwrap_or(label).trim_start();
        rest.strip_prefix("+ ").unwrap_or(rest).to_owned()
    });
    short.collect()
}

/// Names of the checks that some cell has, in order of first appearance.
pub fn checks<'a>(cells: &[&'a CellReport]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for check in cells.iter().flat_map(|c| &c.checks) {
        if !names.contains(&check.check.as_str()) {
            names.push(&check.check);
        }
    }
    names
}

pub fn check<'a>(cell: &'a CellReport, name: &str) -> Option<&'a CheckReport> {
    cell.checks.iter().find(|c| c.check == name)
}

/// What a check found, in words: the witness of a fail, the reason of anything else.
pub fn because(check: &CheckReport) -> &str {
    let (first, second) = match check.verdict {
        Verdict::Fail => (&check.witness, &check.why),
        _ => (&check.why, &check.witness),
    };
    first.as_deref().or(second.as_deref()).unwrap_or("no reason recorded")
}

/// The heads of the table of crashes.
pub const CRASH_HEADS: [&str; 5] =
    ["limiter", "the node dies", "the store then holds", "admitted / offered, by window", "let in again"];

/// A row for each place where a node died: what it left, and what others got from then on.
pub fn crashes(cells: &[&CellReport], labels: &[String]) -> Vec<[String; 5]> {
    let rounds = cells.iter().zip(labels).flat_map(|(c, l)| c.rounds.iter().map(move |r| (l, r)));
    let row = |(label, round): (&String, &RoundCounts)| {
        let crash = round.crash.as_ref()?;
        let windows: Vec<String> = crash.windows.iter().map(|(o, a)| format!("{a}/{o}")).collect();
        let released = if crash.released { "yes" } else { "never" };
        Some([label.clone(), crash.died.clone(), crash.left.clone(), windows.join(" "), released.to_owned()])
    };
    rounds.filter_map(row).collect()
}

/// What was broken and done, cell by cell; cells that went through exactly the same share a line.
pub fn told(cells: &[&CellReport], labels: &[String]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for (cell, label) in cells.iter().zip(labels).filter(|(c, _)| !c.told.is_empty()) {
        let text = cell.told.join("; ");
        match lines.iter_mut().find(|(known, _)| *known == text) {
            Some((_, of)) => of.push(label),
            None => lines.push((text, vec![label])),
        }
    }
    lines.into_iter().map(|(text, of)| format!("{text} — {}", of.join(", "))).collect()
}

/// The heads of the table of phases.
pub const PHASE_HEADS: [&str; 6] = [
    "limiter",
    "before: p50, max in ms",
    "broken: p50, max in ms",
    "by store, policy, nobody",
    "after: p50, max in ms",
    "by store, policy, nobody",
];

/// A row for each round in which something broke: how long callers waited before, during and after, and who
/// decided. Of several phases of a kind the one whose slowest call took longest.
pub fn phases(cells: &[&CellReport], labels: &[String]) -> Vec<[String; 6]> {
    let rounds = cells.iter().zip(labels).flat_map(|(c, l)| c.rounds.iter().map(move |r| (l, r)));
    let row = |(label, round): (&String, &RoundCounts)| {
        let of = |kind: &dyn Fn(&str) -> bool| -> Vec<&Phase> {
            round.phases.iter().filter(|p| kind(&p.name)).collect()
        };
        let before = of(&|name| name == "before");
        let after = of(&|name| name == "after");
        let broken = of(&|name| name != "before" && name != "after");
        if broken.is_empty() {
            return None;
        }
        let waits = |phases: &[&Phase]| {
            let longest =
                phases.iter().max_by(|a, b| a.max_ms.unwrap_or(0.0).total_cmp(&b.max_ms.unwrap_or(0.0)));
            match longest.and_then(|p| Some((p.p50_ms?, p.max_ms?))) {
                Some((p50, max)) => {
                    format!("{}, {}", figure_text(Figure::P50Ms, p50), figure_text(Figure::MaxMs, max))
                }
                None => "–".to_owned(),
            }
        };
        let who = |phases: &[&Phase]| {
            let sum = |of: fn(&Phase) -> u64| phases.iter().map(|p| of(p)).sum::<u64>();
            format!("{}, {}, {}", sum(|p| p.by_store), sum(|p| p.by_policy), sum(|p| p.undecided))
        };
        let cells = [waits(&before), waits(&broken), who(&broken), waits(&after), who(&after)];
        let [a, b, c, d, e] = cells;
        Some([label.clone(), a, b, c, d, e])
    };
    rounds.filter_map(row).collect()
}

/// Whether calls were counted; schedules that were searched have no rounds.
pub fn counts_calls(cells: &[&CellReport]) -> bool {
    cells.iter().any(|c| c.search.is_none())
}

/// The head of the column that [`admitted`] fills.
pub fn admitted_head(cells: &[&CellReport]) -> &'static str {
    if cells.iter().any(|c| c.rounds.len() > ROUNDS_IN_FULL) {
        "admitted per round, min–median–max"
    } else {
        "admitted per round"
    }
}

/// `200 200 190`, or minimum–median–maximum where that would be a long row.
pub fn admitted(rounds: &[RoundCounts]) -> String {
    if rounds.len() <= ROUNDS_IN_FULL {
        let each: Vec<String> = rounds.iter().map(|r| r.admitted.to_string()).collect();
        return if each.is_empty() { "–".to_owned() } else { each.join(" ") };
    }
    let (low, mid, high) = spread(rounds);
    format!("{low}–{mid}–{high}")
}

/// A figure as its column shows it; a dash where the record does not tell it.
pub fn figure(cell: &CellReport, figure: Figure) -> String {
    cell.figures.get(&figure).map_or_else(|| "–".to_owned(), |value| figure_text(figure, *value))
}

/// The heads of the table of claims: what came out has a column for each server where there are several.
pub fn claim_heads(claims: &Claims) -> Vec<String> {
    let came_out =
        if claims.servers.is_empty() { vec!["came out".to_owned()] } else { claims.servers.clone() };
    let heads = ["", "claim", "tried with", "scenario", "property or figure"].map(str::to_owned);
    heads.into_iter().chain(came_out).chain(["claim".to_owned()]).collect()
}

/// The trials of a claim, each on all servers.
pub fn trials<'a>(claims: &Claims, row: &'a ClaimRow) -> impl Iterator<Item = &'a [Tried]> {
    row.trials.chunks(claims.servers.len().max(1))
}

/// What a trial of a claim looks at.
pub fn property(tried: &Tried) -> String {
    let figure = tried.figure.map(|f| f.head().to_owned());
    tried.check.clone().or(figure).unwrap_or_default()
}

/// What it came to.
pub fn came_out(tried: &Tried) -> String {
    if let Some(why) = &tried.left_out {
        return why.clone();
    }
    match (tried.came_out, tried.figure) {
        (CameOut::Verdict(verdict), _) => verdict.name().to_owned(),
        (CameOut::Figure(value), Some(figure)) => figure_text(figure, value),
        (CameOut::Figure(value), None) => value.to_string(),
        (CameOut::Nothing, _) => "–".to_owned(),
    }
}

/// No more digits than there is something behind: three of a time, one of a share, whole bytes.
pub fn figure_text(figure: Figure, value: f64) -> String {
    match figure {
        Figure::DeniedPercent => format!("{value:.1}"),
        Figure::RoundTripsPerDecision | Figure::CommandsPerCall => format!("{value:.2}"),
        _ if figure.is_time() => {
            let digits = if value < 1.0 {
                3
            } else if value < 10.0 {
                2
            } else {
                usize::from(value < 100.0)
            };
            grouped(&format!("{value:.digits$}"))
        }
        _ => grouped(&format!("{value:.0}")),
    }
}

/// `1029400` as `1,029,400`; what follows a point stays as it is.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut text = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text + rest
}

/// Minimum, median (the lower one of two) and maximum of the admitted calls; zeros without rounds.
pub fn spread(rounds: &[RoundCounts]) -> (u64, u64, u64) {
    let mut all: Vec<u64> = rounds.iter().map(|r| r.admitted).collect();
    all.sort_unstable();
    match (all.first(), all.last()) {
        (Some(&low), Some(&high)) => (low, all[(all.len() - 1) / 2], high),
        _ => (0, 0, 0),
    }
}

/// The most that a preset had used before a round of this cell.
pub fn preset(cell: &CellReport) -> u64 {
    cell.rounds.iter().map(|r| r.preset).max().unwrap_or(0)
}

/// The scope, where it is not the one everybody assumes.
pub fn scope(cell: &CellReport) -> &'static str {
    match cell.contract.scope {
        Scope::Node => "per node",
        Scope::Global => "",
    }
}

/// The limit, with what a preset had taken out of it before the round: `1000 − 998 used`.
pub fn room(cell: &CellReport) -> String {
    match preset(cell) {
        0 => cell.limit.to_string(),
        used => format!("{} − {used} used", cell.limit),
    }
}

/// What may pass at one moment, where that is not the limit: `, 20 at once`.
pub fn at_once(cell: &CellReport) -> String {
    match cell.contract.bound.burst() {
        Some(burst) if burst != cell.limit.get() => format!(", {burst} at once"),
        _ => String::new(),
    }
}

/// Whether the scenario's expectations hold for this run, as a sentence.
pub fn terms(scenario: &ScenarioSummary) -> String {
    clean(&scenario.terms)
}

/// What the error of a report is about.
pub fn error_head(report: &Report) -> &'static str {
    if report.finished { "Not everything was kept" } else { "The run did not finish" }
}

/// `redis 7.0.15`.
pub fn server_of(cell: &CellReport) -> String {
    cell.server_in_words()
}

/// All servers of the run, each once.
pub fn servers(report: &Report) -> String {
    let all: BTreeSet<String> = report.cells.iter().map(server_of).filter(|s| !s.is_empty()).collect();
    if all.is_empty() { "no server".to_owned() } else { all.into_iter().collect::<Vec<_>>().join(", ") }
}

/// What the figures stand on, as name and text.
pub fn ground(report: &Report) -> Vec<(&'static str, String)> {
    let h = &report.honesty;
    let mut backend = h.backend.clone();
    if !h.chosen_because.is_empty() {
        backend.push_str(&format!(" ({})", h.chosen_because));
    }
    let mut ground = vec![("server", servers(report)), ("backend", backend)];
    ground.extend(h.builds.iter().map(|text| ("build", text.clone())));
    ground.extend(h.missing.iter().map(|text| ("missing", text.clone())));
    ground.extend(engine(h).map(|text| ("engine", text)));
    ground.extend(image(h).map(|text| ("image", text)));
    ground.extend(h.network_path.clone().map(|text| ("network", text)));
    ground.push(("seed", report.seed.to_string()));
    let driven = report.cells.iter().filter(|c| c.search.is_none());
    if let Some(most) = driven.map(|c| c.honesty.generator_cpu).max_by(f64::total_cmp) {
        let step = h.clock_step_ms;
        ground.push((
            "load",
            format!("generator at most {:.0} % of one core; clock step {step:.1} ms", most * 100.0),
        ));
    }
    let skipped: f64 = report.cells.iter().map(|c| c.honesty.skipped_ms).sum();
    if skipped > 0.0 {
        ground.push((
            "time",
            format!("{:.1} s of waiting were skipped: clocks and expiries moved on", skipped / 1e3),
        ));
    }
    ground.push(("lab", format!("rl-lab {}, run {}, started {}", report.lab, report.run, report.started)));
    ground.into_iter().map(|(name, text)| (name, clean(&text))).collect()
}

fn engine(h: &Honesty) -> Option<String> {
    let engine = h.engine.as_ref()?;
    Some(h.api.as_ref().map_or_else(|| engine.clone(), |api| format!("{engine}, API {api}")))
}

fn image(h: &Honesty) -> Option<String> {
    let image = h.image.as_ref()?;
    Some(h.image_digest.as_ref().map_or_else(|| image.clone(), |digest| format!("{image} {digest}")))
}

/// Ops that neither passed nor were refused, and the errors behind them; `None` if there are none.
pub fn trouble(cell: &CellReport) -> Option<String> {
    let sum = |of: fn(&RoundCounts) -> u64| cell.rounds.iter().map(of).sum::<u64>();
    let counts = [(sum(|r| r.failed), "failed"), (sum(|r| r.unknown), "unknown")];
    let mut parts: Vec<String> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    parts.extend(cell.errors.iter().map(|(text, n)| format!("{n} × {}", clean(text))));
    if parts.is_empty() { None } else { Some(parts.join(", ")) }
}

/// How a run ended: `PASS · exit 0`.
pub fn ending(report: &Report) -> String {
    format!("{} · exit {}", report.verdict.name().to_uppercase(), report.exit)
}

/// One line without control characters: an error text of a server may hold any byte, and an
/// escape sequence in it must not reach a terminal or an XML file.
pub fn clean(text: &str) -> String {
    printable(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// As [`clean`], but keeps runs of spaces: in a command they may stand inside quotes.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Text as an attribute of XML.
pub fn xml(text: &str) -> String {
    clean(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number without the zeros that say nothing: `0.5`, `12`.
pub fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What a run is about, in a line.
pub fn title(report: &Report) -> String {
    let claims = report.claims.as_ref().map(|c| c.title.clone());
    let gate = || report.gate.as_ref().map(|g| format!("Gate: profile {}", g.plan.profile));
    let matrix = || report.matrix.as_ref().map(|_| "Verdicts: limiters against properties".to_owned());
    let scenario = || match report.scenarios.as_slice() {
        [] => None,
        [one] => Some(one.title.clone()),
        [first, rest @ ..] => Some(format!("{}, and {} more", first.title, rest.len())),
    };
    clean(
        &claims
            .or_else(gate)
            .or_else(matrix)
            .or_else(scenario)
            .unwrap_or_else(|| "A run of rl-lab".to_owned()),
    )
}

/// The command as one can paste it into a shell.
pub fn shell(command: &[String]) -> String {
    command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Folds at the given characters (each stays at the end of its piece); a piece wider than a line
/// is cut. Never returns an empty list.
pub fn fold(text: &str, width: usize, at: &[char]) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    for piece in text.split_inclusive(at).flat_map(|p| cut(p, width)) {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && chars(&lines[last]) + chars(piece.trim_end()) > width {
            lines.push(piece);
        } else {
            lines[last].push_str(&piece);
        }
    }
    lines.iter().map(|l| l.trim_end().to_owned()).collect()
}

fn cut(piece: &str, width: usize) -> Vec<String> {
    if chars(piece.trim_end()) <= width {
        return vec![piece.to_owned()];
    }
    let all: Vec<char> = piece.chars().collect();
    all.chunks(width).map(|c| c.iter().collect()).collect()
}

/// Columns a text takes: its characters, which is right for all that the lab itself writes.
pub fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn cells_that_differ_only_in_client_or_server_get_different_labels() {
        let mut cells = [sample::cell("a", &[1]), sample::cell("a", &[1]), sample::cell("a", &[1])];
        cells[1].client = "fail-fast".to_owned();
        cells[2].server = "8.2.3".to_owned();
        let labels = labels(&cells.iter().collect::<Vec<_>>());
        assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), 3, "{labels:?}");
        let alone = super::labels(&[&cells[0]]);
        assert_eq!(alone, ["a"], "nothing to tell apart, nothing added");
    }

    #[test]
    fn folding_keeps_every_word_and_every_line_within_the_width() {
        let text = "one two-three a-word-much-longer-than-the-line four";
        for width in 1..60 {
            let lines = fold(text, width, &[' ', '-']);
            assert!(lines.iter().all(|l| chars(l) <= width), "{width}: {lines:?}");
            let joined: String = lines.concat().split(' ').collect();
            assert_eq!(joined, text.replace(' ', ""), "{width}");
        }
    }

    #[test]
    fn a_long_series_of_rounds_is_summed_up() {
        assert_eq!(admitted(&sample::rounds(&[10, 12])), "10 12");
        let many = admitted(&sample::rounds(&[9, 10, 10, 10, 10, 10, 30]));
        assert_eq!(many, "9–10–30");
        assert_eq!(admitted(&[]), "–");
    }

    #[test]
    fn a_figure_shows_no_more_digits_than_there_is_something_behind() {
        let texts = [0.0412, 1.2345, 41.26, 3384.4].map(|ms| figure_text(Figure::P99Ms, ms));
        assert_eq!(texts, ["0.041", "1.23", "41.3", "3,384"]);
        assert_eq!(figure_text(Figure::BytesPerIdentity, 1_029_400.0), "1,029,400");
        assert_eq!(figure_text(Figure::DeniedPercent, 33.333), "33.3");
        assert_eq!(figure_text(Figure::RoundTripsPerDecision, 1.0005), "1.00");
    }

    #[test]
    fn an_escape_sequence_in_an_error_text_does_not_survive() {
        assert_eq!(clean("ERR \u{1b}[31mred\u{1b}[0m\r\nnext"), "ERR [31mred [0m next");
    }

    #[test]
    fn a_command_can_be_pasted_back() {
        let words = ["rl-lab", "race", "--limiters", "a b", "it's", ""].map(str::to_owned);
        assert_eq!(shell(&words), r"rl-lab race --limiters 'a b' 'it'\''s' ''");
    }
}
