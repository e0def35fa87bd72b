//! Claims at the terminal: each with what was tried of it and what became of it, then what it rests on.

use super::super::words;
use super::grid::{self, Text};
use super::page::Page;
use super::paint::Tone;
use crate::model::claims::{ClaimRow, Claims, Found, Tried};

pub fn write(page: &mut Page, claims: &Claims) {
    page.line("", &claims.title, Tone::Strong);
    page.line("  ", &claims.shows, Tone::Dim);
    page.push("");
    page.text.push_str(&grid::render(&rows(claims), page.look));
    page.head("What each comes to", Tone::Strong);
    for (number, row) in (1..).zip(&claims.rows) {
        let source = row.source.as_ref().map(|s| format!(" ({s})")).unwrap_or_default();
        page.hanging(&format!("{}. {}: {}{source}", row.case.unwrap_or(number), row.claim, row.says));
        for tried in row.trials.iter().filter(|t| !t.because.is_empty()) {
            let because = tried.because.lines().next().unwrap_or_default();
            page.hanging(&format!(
                "     {} · {}: {because}",
                words::clean(&tried.label),
                words::property(tried)
            ));
        }
    }
    // What was not run, or told nothing, says so in its row.
    let other = |r: &&ClaimRow| r.found != r.known && r.found != Found::Unknown;
    let wrong: Vec<&ClaimRow> = claims.rows.iter().filter(other).collect();
    if !wrong.is_empty() {
        page.head("Not as known", Tone::Bad);
        for row in wrong {
            page.hanging(&format!("{}: {}, known as {}", row.claim, row.found.name(), row.known.name()));
        }
    }
}

fn rows(claims: &Claims) -> Vec<Vec<Text>> {
    let heads = ["", "claim", "tried with", "scenario", "property or figure", "came out", "claim"];
    let mut rows = vec![heads.map(|h| Text::new(h, Tone::Strong)).to_vec()];
    for (number, row) in (1..).zip(&claims.rows) {
        for (n, tried) in row.trials.iter().enumerate() {
            let first = n == 0;
            let once = |text: String| if first { text } else { String::new() };
            rows.push(vec![
                Text::new(once(row.case.unwrap_or(number).to_string()), Tone::Plain),
                Text::new(once(row.claim.clone()), Tone::Plain),
                Text::new(words::clean(&tried.label), Tone::Plain),
                Text::new(tried.scenario.clone(), Tone::Plain),
                Text::new(words::property(tried), Tone::Plain),
                Text::new(words::came_out(tried), tone(tried)),
                Text::new(once(row.found.name().to_owned()), of(row)),
            ]);
        }
    }
    rows
}

fn tone(tried: &Tried) -> Tone {
    match tried.as_claimed {
        Some(true) => Tone::Plain,
        Some(false) => Tone::Known,
        None => Tone::Unsure,
    }
}

fn of(row: &ClaimRow) -> Tone {
    match row.found {
        Found::Unknown => Tone::Unsure,
        found if found == row.known => Tone::Known,
        _ => Tone::Bad,
    }
}
