//! Colour on a terminal: a meaning, and the escape sequence it gets. The sixteen basic colours
//! only, because the reader's theme has made those readable.

use crate::model::report::CheckReport;
use crate::model::verdict::Verdict;

use super::words;

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
    pub fn of(check: &CheckReport) -> Self {
        match check.verdict {
            _ if words::counts_as_failed(check) => Self::Bad,
            Verdict::Pass => Self::Good,
            Verdict::Fail => Self::Known,
            Verdict::Unknown => Self::Unsure,
            Verdict::NotApplicable => Self::Dim,
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
    use super::super::sample;
    use super::*;

    #[test]
    fn an_expected_fail_is_no_alarm_and_a_pass_where_a_fail_was_expected_is_one() {
        let tone = |verdict, expected| Tone::of(&sample::check("c", verdict, expected, "text"));
        assert_eq!(tone(Verdict::Fail, Some(Verdict::Fail)), Tone::Known);
        assert_eq!(tone(Verdict::Fail, None), Tone::Bad);
        assert_eq!(tone(Verdict::Pass, Some(Verdict::Fail)), Tone::Bad);
        assert_eq!(tone(Verdict::Pass, None), Tone::Good);
        assert_eq!(tone(Verdict::Unknown, Some(Verdict::Fail)), Tone::Unsure, "unknown is never a pass");
    }
}
