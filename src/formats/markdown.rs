//! What one pastes into a decision record or a pull request: a run's report as Markdown.

use super::compose;
use super::document::markdown;
use crate::model::report::Report;
use crate::ports::format::{Format, Look};

pub struct Markdown;

impl Format for Markdown {
    fn name(&self) -> &'static str {
        "markdown"
    }

    fn file(&self) -> &'static str {
        "report.md"
    }

    fn on_stdout(&self) -> bool {
        true
    }

    fn render(&self, report: &Report, _: Look) -> Result<String, String> {
        Ok(markdown::render(&compose::report(report)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_bar_or_a_backtick_in_a_name_does_not_break_the_table() {
        let mut report = sample::race();
        report.cells[0].limiter = "a|b`c".to_owned();
        report.scenarios[0].plan = "x|y `z` *w* _v_".to_owned();
        let text = Markdown.render(&report, Look::PLAIN).unwrap();
        assert!(text.contains("| ``a\\|b`c`` |"), "{text}");
        assert!(text.contains(r"x\|y \`z\` \*w\* \_v\_"), "{text}");
        let bars = |l: &str| l.replace("\\|", "").matches('|').count();
        let table: Vec<usize> = text.lines().filter(|l| l.starts_with('|')).map(bars).collect();
        assert_eq!(table.len(), 2 + report.cells.len());
        assert!(table.iter().all(|n| *n == table[0]), "ragged table: {table:?}");
    }

    #[test]
    fn a_line_break_in_a_witness_stays_inside_its_list_item() {
        let mut report = sample::incident();
        report.cells[0].checks[0].witness = Some("first\n\n# second".to_owned());
        let text = Markdown.render(&report, Look::PLAIN).unwrap();
        assert!(text.contains("FAIL: first  \n  · #<!-- --> second  \n  replay: `"), "{text}");
    }

    #[test]
    fn it_carries_plan_witness_ground_and_the_command() {
        let text = Markdown.render(&sample::incident(), Look::PLAIN).unwrap();
        for part in [
            "Plan: burst of 200",
            "50 more admitted",
            "redis 7.0.15",
            "```sh\nrl-lab race --seed 42\n```",
            "replay: `rl-lab",
            "**Verdict: FAIL · exit 1**",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }
}
