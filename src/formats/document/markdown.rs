//! A document as GitHub's Markdown, still readable as plain text.
//!
//! Names go into code spans, prose is escaped. `#12` and `@name` get an empty comment in between:
//! on GitHub they would become links to issue 12 and to somebody, and no backslash prevents it.

use super::super::words;
use super::{Align, Block, Item, Span, Table, Tone};

/// The document, with a line's end after its last line.
pub fn render(blocks: &[Block]) -> String {
    joined(blocks) + "\n"
}

fn joined(blocks: &[Block]) -> String {
    blocks.iter().map(block).collect::<Vec<_>>().join("\n\n")
}

pub fn block(block: &Block) -> String {
    match block {
        Block::Heading(level, text) => format!("{} {}", "#".repeat((*level).into()), line(text)),
        Block::Para(text) => line(text),
        Block::List(items) => list(items, |_| "-".to_owned()),
        Block::Steps(items) => list(items, |n| format!("{}.", n + 1)),
        Block::Table(table) => self::table(table),
        Block::Chart { file, alt, .. } => format!("![{}]({file})", prose(alt)),
        Block::Shell(command) => format!("```sh\n{}\n```", words::printable(command)),
        // What a page can fold is a list below its title here.
        Block::Fold { title, blocks, .. } => format!("**{}**\n\n{}", line(title), joined(blocks)),
        Block::Alarm(text) => format!("> {}", line(text)),
    }
}

fn list(items: &[Item], mark: impl Fn(usize) -> String) -> String {
    let item = |(n, Item(lines)): (usize, &Item)| {
        let mark = mark(n);
        // Each line of it on a line of its own, below the first.
        let below = format!("  \n{}", " ".repeat(mark.len() + 1));
        format!("{mark} {}", lines.iter().map(|l| line(l)).collect::<Vec<_>>().join(&below))
    };
    items.iter().enumerate().map(item).collect::<Vec<_>>().join("\n")
}

fn table(table: &Table) -> String {
    let rule = |(_, align): &(_, Align)| match align {
        Align::Left => "---",
        Align::Right => "---:",
    };
    let mut rows =
        vec![row(table.heads.iter().map(|(text, _)| line(text))), row(table.heads.iter().map(rule))];
    rows.extend(table.rows.iter().map(|cells| row(cells.iter().map(|c| line(c)))));
    rows.join("\n")
}

/// A bar ends a table's field even inside a code span, so it is escaped last and everywhere.
fn row(fields: impl Iterator<Item = impl AsRef<str>>) -> String {
    let fields: Vec<String> = fields.map(|f| f.as_ref().replace('|', "\\|")).collect();
    format!("| {} |", fields.join(" | "))
}

fn line(text: &[Span]) -> String {
    text.iter().map(span).collect()
}

fn span(span: &Span) -> String {
    match span {
        Span::Plain(text) => prose(text),
        Span::Code(text) => code(text),
        Span::Strong(text) => format!("**{}**", prose(text)),
        Span::Link { text, to } => format!("[{}]({to})", prose(text)),
        Span::Verdict(Tone::Bad, label) => format!("**{}**", prose(label)),
        Span::Verdict(_, label) => prose(label),
    }
}

/// Text that means nothing to Markdown. White space at its ends is kept: it stands between spans.
pub fn prose(text: &str) -> String {
    if !text.is_empty() && text.trim().is_empty() {
        return " ".to_owned();
    }
    let mut out = String::new();
    let blank = |at_end: bool| {
        let edge = if at_end { text.chars().next_back() } else { text.chars().next() };
        edge.is_some_and(char::is_whitespace)
    };
    out.extend(Some(' ').filter(|_| blank(false)));
    for c in words::clean(text).chars() {
        match c {
            '#' | '@' => out.extend([c.to_string().as_str(), "<!-- -->"]),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '$' | '&' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out.extend(Some(' ').filter(|_| blank(true)));
    out
}

/// A code span whose fence is longer than any run of backticks inside.
pub fn code(text: &str) -> String {
    let text = words::printable(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use super::super::{heading, para, plain};
    use super::*;

    #[test]
    fn an_op_number_does_not_become_a_link_to_an_issue() {
        assert_eq!(prose("op #12 by @b"), "op #<!-- -->12 by @<!-- -->b");
    }

    #[test]
    fn blanks_between_spans_stay() {
        let mut text = vec![Span::Code("a".into()), Span::Plain(" · x_y ".into()), Span::Strong("b".into())];
        text.extend([Span::Plain(" ".into()), Span::Code("c".into())]);
        assert_eq!(line(&text), "`a` · x\\_y **b** `c`");
    }

    #[test]
    fn a_line_that_looks_like_a_list_or_a_heading_stays_in_its_item() {
        let item = Item(vec![plain("first"), plain("# second")]);
        let text = render(&[heading(2, "T"), para("p"), Block::List(vec![item])]);
        assert_eq!(text, "## T\n\np\n\n- first  \n  #<!-- --> second\n");
    }
}
