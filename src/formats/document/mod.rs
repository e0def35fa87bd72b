//! A document before it is Markdown or HTML: what is said is composed once, and each of the two writes it down.

pub mod html;
pub mod markdown;
pub mod terminal;

use super::words;
use crate::model::report::CheckReport;
use crate::model::verdict::{Verdict, Weight, weight};

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    Plain(String),
    Code(String),
    Strong(String),
    /// A place in the document, or a file beside it.
    Link {
        text: String,
        to: String,
    },
    /// A verdict with its label.
    Verdict(Tone, String),
}

/// What a verdict asks of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
    Open,
    Quiet,
}

impl Tone {
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Open => "open",
            Self::Quiet => "quiet",
        }
    }

    pub fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Good,
            Verdict::Fail => Self::Bad,
            Verdict::Unknown => Self::Open,
            Verdict::NotApplicable => Self::Quiet,
        }
    }
}

/// One line.
pub type Text = Vec<Span>;

pub fn plain(text: impl Into<String>) -> Text {
    vec![Span::Plain(text.into())]
}

pub fn code(text: impl Into<String>) -> Text {
    vec![Span::Code(text.into())]
}

pub fn strong(text: impl Into<String>) -> Text {
    vec![Span::Strong(text.into())]
}

/// A check's verdict; one that nobody expects to look at stands out.
pub fn verdict(check: &CheckReport) -> Text {
    let wrong = weight(check.verdict, check.outcome) == Weight::Failed;
    let tone = if wrong { Tone::Bad } else { Tone::of(check.verdict) };
    vec![Span::Verdict(tone, check.label())]
}

/// A bare verdict; what convicts stands out.
pub fn word(verdict: Verdict) -> Text {
    let word = if verdict == Verdict::Fail { "FAIL" } else { verdict.name() };
    vec![Span::Verdict(Tone::of(verdict), word.to_owned())]
}

/// Names as code, with commas.
pub fn codes<'n>(names: impl IntoIterator<Item = &'n str>) -> Text {
    joined(names.into_iter().map(code), ", ")
}

/// What a line says without its marks.
pub fn bare(text: &Text) -> String {
    let all: String = text
        .iter()
        .map(|span| match span {
            Span::Plain(t) | Span::Code(t) | Span::Strong(t) | Span::Verdict(_, t) => t.as_str(),
            Span::Link { text, .. } => text,
        })
        .collect();
    words::clean(&all)
}

/// Lines joined by something in between.
pub fn joined(texts: impl IntoIterator<Item = Text>, between: &str) -> Text {
    let mut all = Text::new();
    for (n, text) in texts.into_iter().enumerate() {
        if n > 0 {
            all.push(Span::Plain(between.to_owned()));
        }
        all.extend(text);
    }
    all
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// From 1, the title, down to 4.
    Heading(u8, Text),
    Para(Text),
    List(Vec<Item>),
    /// The same in an order that matters.
    Steps(Vec<Item>),
    Table(Table),
    /// A picture: its file beside the document, and what it shows for who cannot see it.
    Chart {
        file: String,
        svg: String,
        alt: String,
    },
    /// A command to be pasted into a shell.
    Shell(String),
    /// What need not be read at once.
    Fold {
        title: Text,
        open: bool,
        blocks: Vec<Block>,
    },
    /// What went wrong.
    Alarm(Text),
}

/// An entry of a list: a line, and those that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item(pub Vec<Text>);

impl From<Text> for Item {
    fn from(text: Text) -> Self {
        Self(vec![text])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// What it tells, for who hears it read.
    pub caption: String,
    pub heads: Vec<(Text, Align)>,
    /// Each as long as the heads.
    pub rows: Vec<Vec<Text>>,
}

pub fn heading(level: u8, text: impl Into<String>) -> Block {
    Block::Heading(level, plain(text))
}

pub fn para(text: impl Into<String>) -> Block {
    Block::Para(plain(text))
}

/// A list of lines; nothing where there are none.
pub fn list(lines: impl IntoIterator<Item = Text>) -> Option<Block> {
    let items: Vec<Item> = lines.into_iter().map(Item::from).collect();
    (!items.is_empty()).then_some(Block::List(items))
}

/// A list below its title; nothing where it is empty.
pub fn fold(title: &str, open: bool, items: Vec<Item>) -> Option<Block> {
    let blocks = vec![Block::List(items.clone())];
    (!items.is_empty()).then(|| Block::Fold { title: plain(title), open, blocks })
}
