//! A grid of short texts that stays within a width.
//!
//! Texts are folded before tabled sees them, at spaces, hyphens and colons, because a name such
//! as `never-over-limit` reads well in two lines and badly when cut anywhere. Columns that still
//! do not fit go into a second table below that repeats the first column.

use tabled::builder::Builder;
use tabled::settings::style::HorizontalLine;
use tabled::settings::{Color, Padding, Style};

use super::super::words::{chars, fold};
use super::paint::{RESET, Tone};
use crate::ports::format::Look;

/// Where a text may be folded.
const BREAKS: [char; 4] = [' ', '-', ':', ','];
/// Spaces between two columns: rules would take a third column's worth on a narrow terminal.
const GAP: usize = 2;

#[derive(Debug, Clone)]
pub struct Text {
    pub text: String,
    pub tone: Tone,
}

impl Text {
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

/// Rows of equal length, the first of them the heads of the columns.
pub fn render(rows: &[Vec<Text>], look: Look) -> String {
    let columns: Vec<Vec<&Text>> =
        (0..rows.first().map_or(0, Vec::len)).map(|i| rows.iter().map(|r| &r[i]).collect()).collect();
    let mut text = String::new();
    for group in groups(&columns, look.width) {
        if !text.is_empty() {
            text.push('\n');
        }
        let shown: Vec<&[&Text]> = group.iter().map(|&i| columns[i].as_slice()).collect();
        text.push_str(&draw(&shown, look));
    }
    text
}

/// Which columns go into which table: as many as fit when folded, the first one in each.
fn groups(columns: &[Vec<&Text>], width: Option<usize>) -> Vec<Vec<usize>> {
    let (Some(width), false) = (width, columns.is_empty()) else {
        return vec![(0..columns.len()).collect()];
    };
    let first = narrowest(&columns[0]) + GAP;
    let mut groups = vec![vec![0]];
    let mut used = first;
    for (i, column) in columns.iter().enumerate().skip(1) {
        let wanted = narrowest(column) + GAP;
        if used + wanted > width + 1 && groups.last().is_some_and(|g| g.len() > 1) {
            groups.push(vec![0]);
            used = first;
        }
        used += wanted;
        if let Some(group) = groups.last_mut() {
            group.push(i);
        }
    }
    groups
}

fn draw(columns: &[&[&Text]], look: Look) -> String {
    let widths = widths(columns, look.width);
    let mut builder = Builder::default();
    for row in 0..columns[0].len() {
        let folded = columns.iter().zip(&widths).map(|(c, &w)| fold(&c[row].text, w, &BREAKS).join("\n"));
        builder.push_record(folded);
    }
    let mut table = builder.build();
    table.with(Style::blank().horizontals([(1, HorizontalLine::new('─').intersection('─'))]));
    // The style's own separator is the second space of the gap.
    table.with(Padding::new(0, GAP - 1, 0, 0));
    if look.color {
        for (i, column) in columns.iter().enumerate() {
            for (row, cell) in column.iter().enumerate().filter(|(_, c)| c.tone != Tone::Plain) {
                table.modify((row, i), Color::new(cell.tone.start(), RESET));
            }
        }
    }
    let lines: Vec<String> = table.to_string().lines().map(|l| l.trim_end().to_owned() + "\n").collect();
    lines.concat()
}

/// As wide as the texts ask for; where that is too much, the widest column gives way first, and
/// the names in the first column last.
fn widths(columns: &[&[&Text]], width: Option<usize>) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|c| widest(c)).collect();
    let Some(width) = width else { return widths };
    // The last column keeps one space of its gap, under the rule.
    let room = (width + 1).saturating_sub(GAP * columns.len()).max(columns.len());
    let floors: Vec<usize> = columns.iter().map(|c| narrowest(c)).collect();
    // Below its floor a text is cut inside a word: only on a terminal too narrow for anything else.
    for (from, floors) in [(1, floors.as_slice()), (0, &floors), (0, &vec![1; columns.len()])] {
        while widths.iter().sum::<usize>() > room {
            let shrinkable = (from..widths.len()).filter(|&i| widths[i] > floors[i]);
            let Some(i) = shrinkable.max_by_key(|&i| widths[i]) else { break };
            widths[i] -= 1;
        }
    }
    widths
}

fn widest(column: &[&Text]) -> usize {
    column.iter().map(|c| chars(&c.text)).max().unwrap_or(0).max(1)
}

fn narrowest(column: &[&Text]) -> usize {
    let pieces = column.iter().flat_map(|c| c.text.split_inclusive(BREAKS));
    pieces.map(|p| chars(p.trim_end())).max().unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(columns: usize) -> Vec<Vec<Text>> {
        let row = |text: &str| (0..columns).map(|i| Text::new(format!("{text}-{i}"), Tone::Bad)).collect();
        vec![row("never-over-limit"), row("PASS (expected FAIL)")]
    }

    #[test]
    fn no_line_is_wider_than_asked_whatever_the_width() {
        for (columns, width) in [(1, 8), (3, 20), (3, 40), (9, 40), (9, 80), (9, 120), (9, 400)] {
            let text = render(&rows(columns), Look { color: false, width: Some(width) });
            let widest = text.lines().map(chars).max().unwrap();
            assert!(widest <= width, "{columns} columns at {width}: {widest}\n{text}");
        }
    }

    #[test]
    fn columns_that_do_not_fit_move_below_with_the_first_column_repeated() {
        let text = render(&rows(9), Look { color: false, width: Some(60) });
        assert!(text.matches("\n\n").count() >= 1, "{text}");
        assert_eq!(text.matches("limit-8").count(), 1, "{text}");
        assert!(text.matches("limit-0").count() > 1, "{text}");
    }
}
