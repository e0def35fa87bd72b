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
            let on = tried.server.as_ref().map(|server| format!(" · {server}")).unwrap_or_default();
            page.hanging(&format!(
                "     {} · {}{on}: {because}",
                words::clean(&tried.label),
                words::property(tried)
            ));
        }
    }
    // What was not run, or told nothing, says so in its row.
    let wrong: Vec<&ClaimRow> = claims.rows.iter().filter(|r| r.is_wrong()).collect();
    if !wrong.is_empty() {
        page.head("Not as known", Tone::Bad);
        for row in wrong {
            page.hanging(&format!(
                "{}: {}, known as {}",
                row.claim,
                row.in_words(&claims.servers),
                row.known.name()
            ));
        }
    }
}

fn rows(claims: &Claims) -> Vec<Vec<Text>> {
    let mut rows = vec![words::claim_heads(claims).into_iter().map(|h| Text::new(h, Tone::Strong)).collect()];
    for (number, row) in (1..).zip(&claims.rows) {
        for (n, on_each) in words::trials(claims, row).enumerate() {
            let Some(tried) = on_each.first() else { continue };
            let once = |text: String| if n == 0 { text } else { String::new() };
            let mut line = vec![
                Text::new(once(row.case.unwrap_or(number).to_string()), Tone::Plain),
                Text::new(once(row.claim.clone()), Tone::Plain),
                Text::new(words::clean(&tried.label), Tone::Plain),
                Text::new(tried.scenario.clone(), Tone::Plain),
                Text::new(words::property(tried), Tone::Plain),
            ];
            line.extend(on_each.iter().map(|t| Text::new(words::came_out(t), tone(t))));
            line.push(Text::new(once(row.in_words(&claims.servers)), of(row)));
            rows.push(line);
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
        _ if row.is_wrong() => Tone::Bad,
        Found::Unknown => Tone::Unsure,
        _ => Tone::Known,
    }
}
