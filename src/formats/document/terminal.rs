//! A document at the terminal: prose folded to its width, tables that stay within it, commands that can be pasted.

use super::super::table::grid::{self, Text as Cell};
use super::super::table::page::Page;
use super::super::table::paint;
use super::{Block, Item, Span, Table, Text, Tone, bare};
use crate::ports::format::Look;

pub fn render(blocks: &[Block], look: Look) -> String {
    let mut page = Page { text: String::new(), look };
    blocks.iter().for_each(|b| block(&mut page, b));
    page.text.trim_start_matches('\n').to_owned()
}

fn block(page: &mut Page, block: &Block) {
    match block {
        Block::Heading(_, text) => page.head(&bare(text), paint::Tone::Strong),
        Block::Para(text) => page.line("", &bare(text), paint::Tone::Plain),
        Block::List(items) | Block::Steps(items) => items.iter().for_each(|i| item(page, i)),
        Block::Table(table) => {
            page.push("");
            let rows = self::rows(table);
            page.text.push_str(&grid::render(&rows, page.look));
        }
        // A picture is none here.
        Block::Chart { .. } => {}
        Block::Shell(command) => page.command("  ", command),
        Block::Fold { title, blocks, .. } => {
            page.head(&bare(title), paint::Tone::Strong);
            blocks.iter().for_each(|b| self::block(page, b));
        }
        Block::Alarm(text) => page.line("", &bare(text), paint::Tone::Bad),
    }
}

fn item(page: &mut Page, Item(lines): &Item) {
    for text in lines {
        page.hanging(&bare(text));
    }
}

fn rows(table: &Table) -> Vec<Vec<Cell>> {
    let heads = table.heads.iter().map(|(text, _)| Cell::new(bare(text), paint::Tone::Strong)).collect();
    let cell = |text: &Text| {
        let tone = text.iter().find_map(|span| match span {
            Span::Verdict(Tone::Bad, _) => Some(paint::Tone::Bad),
            Span::Verdict(Tone::Quiet, _) => Some(paint::Tone::Dim),
            _ => None,
        });
        Cell::new(bare(text), tone.unwrap_or(paint::Tone::Plain))
    };
    let rows = table.rows.iter().map(|row| row.iter().map(cell).collect());
    std::iter::once(heads).chain(rows).collect()
}
