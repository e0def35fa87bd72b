//! Colour on a terminal: a meaning, and the escape sequence it gets. The sixteen basic colours
//! only, because the reader's theme has made those readable.

use super::super::findings::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Dim,
    Good,
    /// Needs somebody's attention.
    Bad,
    /// A fail that the scenario is there to show: visible, but no alarm.
    Known,
    Unsure,
}

impl Tone {
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Failed => Self::Bad,
            Kind::Shown => Self::Known,
            Kind::Unknown => Self::Unsure,
            Kind::NotApplicable => Self::Dim,
            Kind::Passed => Self::Good,
        }
    }

    /// The escape sequence before the text; [`RESET`] goes after it.
    pub fn start(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\u{1b}[1m",
            Self::Dim => "\u{1b}[2m",
            Self::Good => "\u{1b}[32m",
            Self::Bad => "\u{1b}[1;31m",
            Self::Known => "\u{1b}[35m",
            Self::Unsure => "\u{1b}[33m",
        }
    }

    pub fn paint(self, text: &str, color: bool) -> String {
        if color && self != Self::Plain && !text.is_empty() {
            format!("{}{text}{RESET}", self.start())
        } else {
            text.to_owned()
        }
    }
}

pub const RESET: &str = "\u{1b}[0m";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_attention_is_red() {
        let red: Vec<Kind> =
            Kind::ALL.into_iter().filter(|k| Tone::of(*k).start().ends_with("31m")).collect();
        assert_eq!(red, [Kind::Failed]);
    }
}
