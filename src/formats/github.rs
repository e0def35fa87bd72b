//! What a gate says on GitHub: a summary of the job, and annotations. Files of the run have nothing of it.

use super::document::markdown::{block, code, prose};
use super::{compose, words};
use crate::model::gate::{Counts, Gate, GateResult};
use crate::model::report::Report;

/// The most bytes that the platform takes as the summary of a step.
pub const SUMMARY: usize = 1024 * 1024;

/// The most annotations of a kind that it shows of a step.
pub const ANNOTATIONS: usize = 10;

/// The most bytes of a witness, here and there: the file has it all.
const WITNESS: usize = 8_000;

/// A summary of no more than `room` bytes. What does not fit is cut off, block by block, and said so.
pub fn summary(report: &Report, room: usize) -> String {
    let cut =
        "*Cut here: a summary takes no more. The whole of it is in report.md and junit.xml of the run.*\n";
    let Some(room) = room.checked_sub(cut.len() + 2) else { return String::new() };
    let gate = report.gate.iter().flat_map(compose::of_gate);
    let mut blocks: Vec<String> = gate.chain(compose::error(report)).map(|b| block(&b)).collect();
    blocks.push(format!("**Verdict: {}**", words::ending(report)));
    for result in report.gate.iter().flat_map(|g| g.counting(Counts::Failed)) {
        blocks.extend(failure(result));
    }
    let mut text = String::new();
    for block in blocks {
        if text.len() + block.len() + 2 > room {
            text.push_str(cut);
            return text;
        }
        text.push_str(&block);
        text.push_str("\n\n");
    }
    text
}

fn failure(result: &GateResult) -> Vec<String> {
    let mut blocks =
        vec![format!("### {}: {}", prose(&result.name()), result.label()), fenced(&first(&result.because))];
    blocks.extend(result.replay.as_ref().map(|command| format!("replay: {}", code(command))));
    blocks
}

fn first(text: &str) -> String {
    let end = text.floor_char_boundary(WITNESS.min(text.len()));
    let more = if end < text.len() { " …" } else { "" };
    format!("{}{more}", &text[..end])
}

/// Lines as they are, within a fence that none of them closes.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let lines: Vec<String> = text.lines().map(words::printable).collect();
    format!("{fence}text\n{}\n{fence}", lines.join("\n"))
}

/// An annotation for what keeps the run from its end, and for each failure, the worst first.
pub fn annotations(report: &Report) -> Vec<String> {
    let error = report.error.iter().map(|e| annotation(words::error_head(report), e));
    let failed = report.gate.iter().flat_map(|g: &Gate| g.counting(Counts::Failed));
    let failed = failed.map(|r| {
        let replay = r.replay.as_ref().map(|command| format!("\nreplay: {command}")).unwrap_or_default();
        annotation(&format!("{}: {}", r.name(), r.label()), &format!("{}{replay}", first(&r.because)))
    });
    error.chain(failed).take(ANNOTATIONS).collect()
}

fn annotation(title: &str, text: &str) -> String {
    let title = words::clean(title);
    let lines: Vec<String> = text.lines().map(words::printable).collect();
    let title = escaped(&title).replace(':', "%3A").replace(',', "%2C");
    format!("::error title={title}::{}", escaped(&lines.join("\n")))
}

fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::model::verdict::Verdict;

    #[test]
    fn an_annotation_is_one_line_whose_title_ends_where_it_should() {
        let mut report = sample::gate(&[("a,b:c=1", Verdict::Fail)]);
        report.gate.as_mut().unwrap().results[0].because =
            "100 % more\r\nthan :: may be\u{1b}[31m".to_owned();
        let told = annotations(&report);
        let replay = "%0Areplay: rl-lab race --strict --limiters a,b:c=1";
        assert_eq!(
            told,
            [format!(
                "::error title=a%2Cb%3Ac=1 · race · never-over-limit%3A FAIL::100 %25 more%0Athan :: may be [31m{replay}"
            )]
        );
    }

    #[test]
    fn a_thousand_failures_stay_within_what_the_platform_takes() {
        let names: Vec<String> = (0..1000).map(|n| format!("limiter-{n}")).collect();
        let all: Vec<(&str, Verdict)> = names.iter().map(|n| (n.as_str(), Verdict::Fail)).collect();
        let mut report = sample::gate(&all);
        for result in &mut report.gate.as_mut().unwrap().results {
            result.because = "`a` long witness\n".repeat(300);
        }
        let text = summary(&report, SUMMARY);
        assert!(text.len() <= SUMMARY && text.len() > SUMMARY / 2, "{}", text.len());
        assert!(text.ends_with("of the run.*\n"));
        let fences = text.lines().filter(|l| l.starts_with("```")).count();
        assert!(fences.is_multiple_of(2), "a fence is left open");
        assert_eq!(annotations(&report).len(), ANNOTATIONS);
        assert!(annotations(&report).iter().all(|a| a.len() < 64 * 1024 && !a.contains('\n')));
        assert_eq!(summary(&report, 10), "");
    }

    #[test]
    fn what_ended_the_run_comes_first() {
        let mut report = sample::gate(&[("a", Verdict::Fail)]);
        report.error = Some("no engine answers".to_owned());
        assert!(annotations(&report)[0].ends_with("::no engine answers"));
        assert!(summary(&report, SUMMARY).contains("no engine answers"));
    }
}
