//! A comparison of two runs as a document.

use super::document::{Align, Block, Span, Table, Text, Tone, code, heading, list, para, plain, word};
use super::words;
use crate::model::compare::{Change, Comparison, Measured, Told, Values};
use crate::model::verdict::Verdict;

/// What changed; what did not is counted, or told in full where it is asked for.
pub fn compose(names: [&str; 2], comparison: &Comparison, all: bool) -> Vec<Block> {
    let [before, after] = names;
    let mut title = plain("What changed from ");
    title.extend([
        Span::Code(before.to_owned()),
        Span::Plain(" to ".to_owned()),
        Span::Code(after.to_owned()),
    ]);
    let mut blocks = vec![Block::Heading(1, title)];
    blocks.push(para(summary(comparison)));
    if !comparison.ground.is_empty() {
        blocks.push(para("The runs also differ in, which may be behind it:"));
        blocks.extend(list(comparison.ground.iter().map(|line| plain(&**line))));
    }
    blocks.push(heading(2, "Verdicts"));
    blocks.extend(verdicts(comparison, all));
    blocks.push(heading(2, "What was measured"));
    blocks.extend(measured(comparison, all));
    for (title, only) in
        [("Only in the first", &comparison.only_before), ("Only in the second", &comparison.only_after)]
    {
        let items = only.iter().map(|name| code(&**name).into()).collect();
        blocks.extend(super::document::fold(title, true, items));
    }
    blocks
}

fn summary(comparison: &Comparison) -> String {
    let changes = || comparison.pairs.iter().flat_map(|p| &p.verdicts);
    let count = |change| changes().filter(|c| c.change == change).count();
    let told =
        [Change::Broken, Change::Unsettled, Change::Settled, Change::Fixed, Change::Other, Change::Same];
    let parts: Vec<String> =
        told.iter().filter(|c| count(**c) > 0).map(|c| format!("{} {}", count(*c), c.name())).collect();
    let verdicts = if parts.is_empty() { "none".to_owned() } else { parts.join(", ") };
    let all = || comparison.pairs.iter().flat_map(|p| &p.measured);
    let changed = all().filter(|m| matches!(m.told, Told::Changed { .. })).count();
    let open = all().filter(|m| matches!(m.told, Told::Inconclusive { .. })).count();
    format!(
        "{} cells in both. Verdicts: {verdicts}. Measurements: {changed} changed, {open} inconclusive, {} the same.",
        comparison.pairs.len(),
        all().count() - changed - open
    )
}

fn told(verdict: Option<Verdict>) -> Text {
    verdict.map_or_else(|| plain("–"), word)
}

fn verdicts(comparison: &Comparison, all: bool) -> Vec<Block> {
    let mut rows = Vec::new();
    let mut why = Vec::new();
    for pair in &comparison.pairs {
        for changed in pair.verdicts.iter().filter(|c| all || c.change != Change::Same) {
            let tone = match changed.change {
                Change::Broken => Tone::Bad,
                Change::Unsettled => Tone::Open,
                Change::Fixed | Change::Settled => Tone::Good,
                Change::Same | Change::Other => Tone::Quiet,
            };
            rows.push(vec![
                plain(&*pair.scenario),
                code(&*pair.limiter),
                code(&*changed.check),
                told(changed.before),
                told(changed.after),
                vec![Span::Verdict(tone, changed.change.name().to_owned())],
            ]);
            if matches!(changed.change, Change::Broken | Change::Unsettled) {
                let mut line = code(&*pair.limiter);
                line.push(Span::Plain(format!(
                    " · {}: {}",
                    changed.check,
                    changed.because.lines().next().unwrap_or("")
                )));
                why.push(line);
            }
        }
    }
    if rows.is_empty() {
        let both = if comparison.only_before.is_empty() && comparison.only_after.is_empty() {
            "Every verdict is the same."
        } else {
            "Every verdict that both have is the same; cells of one run only are listed below."
        };
        return vec![para(both)];
    }
    let heads = ["scenario", "limiter", "property", "before", "after", "change"];
    let heads = heads.map(|h| (plain(h), Align::Left)).to_vec();
    let caption = "Verdicts before and after".to_owned();
    let mut blocks = vec![Block::Table(Table { caption, heads, rows })];
    blocks.extend(list(why));
    blocks
}

fn measured(comparison: &Comparison, all: bool) -> Vec<Block> {
    let mut rows = Vec::new();
    for pair in &comparison.pairs {
        for told in pair.measured.iter().filter(|m| all || matches!(m.told, Told::Changed { .. })) {
            rows.push(vec![
                plain(&*pair.scenario),
                code(&*pair.limiter),
                plain(&*told.what),
                plain(value(&told.before)),
                plain(value(&told.after)),
                plain(ratio(told)),
                judged(&told.told),
            ]);
        }
    }
    let mut blocks = Vec::new();
    if rows.is_empty() {
        blocks.push(para("No difference is larger than the noise."));
    } else {
        let heads = ["scenario", "limiter", "measured", "before", "after", "ratio", "told"];
        let heads = heads.map(|h| (plain(h), if h == "ratio" { Align::Right } else { Align::Left })).to_vec();
        let caption = "Measurements before and after".to_owned();
        blocks.push(Block::Table(Table { caption, heads, rows }));
    }
    blocks.push(para(
        "Rounds are compared by the exact rank-sum test (Wilcoxon, Mann, Whitney), medians are shown; a difference is \
         told at p ≤ 0.01, so of a hundred comparisons of nothing one may be. The runs were made one after the \
         other: a change of a time may be the machine's.",
    ));
    blocks
}

fn value(values: &Values) -> String {
    let of = match values {
        Values::One(_) => String::new(),
        Values::Rounds(all) => format!(" ({} rounds)", all.len()),
    };
    words::number(values.middle()) + &of
}

fn ratio(told: &Measured) -> String {
    let (before, after) = (told.before.middle(), told.after.middle());
    if before > 0.0 && after > 0.0 { format!("{:.2}", after / before) } else { "–".to_owned() }
}

fn judged(told: &Told) -> Text {
    match told {
        Told::Same => vec![Span::Verdict(Tone::Quiet, "same".to_owned())],
        Told::Changed { p: Some(p) } => vec![Span::Strong(format!("changed, p = {p:.3}"))],
        Told::Changed { p: None } => vec![Span::Strong("changed".to_owned())],
        Told::Inconclusive { why } => plain(format!("inconclusive: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::markdown;
    use super::super::sample;
    use super::*;
    use crate::model::compare::compare;

    #[test]
    fn a_limiter_that_broke_is_named_with_its_witness_and_the_rest_is_not() {
        let (before, mut after) = (sample::race(), sample::race());
        after.cells[2] = sample::judged(sample::cell("fixed-window-lua", &[200; 5]), None);
        let told = compare(&before, &after);
        assert_eq!(told.verdicts, Change::Broken);
        let text = markdown::render(&compose(["a", "b"], &told, false));
        assert!(text.contains("fixed-window-lua") && !text.contains("gcra-lua"), "{text}");
        assert!(text.contains("200 calls (#<!-- -->0") && text.contains("changed, p = 0.008"), "{text}");
        let whole = markdown::render(&compose(["a", "b"], &told, true));
        assert!(whole.contains("gcra-lua"), "{whole}");
    }

    #[test]
    fn the_same_run_twice_has_no_difference() {
        let run = sample::race();
        let told = compare(&run, &run);
        assert_eq!((told.verdicts, told.ground.len(), told.only_before.len()), (Change::Same, 0, 0));
        let text = markdown::render(&compose(["a", "a"], &told, false));
        assert!(
            text.contains("Every verdict is the same") && text.contains("No difference is larger"),
            "{text}"
        );
    }

    #[test]
    fn cells_of_one_run_only_are_told_and_not_compared() {
        let (before, mut after) = (sample::race(), sample::race());
        after.cells.remove(0);
        let told = compare(&before, &after);
        assert_eq!(told.only_before, ["race: get-then-incr · waits-for-reconnect"]);
        assert_eq!(told.pairs.len(), after.cells.len());
        assert_eq!(told.verdicts, Change::Unsettled, "what is gone is no longer known");
        let told = compare(&after, &before);
        assert_eq!(told.verdicts, Change::Broken, "what is new and fails");
        let text = markdown::render(&compose(["a", "b"], &told, false));
        assert!(text.contains("that both have") && !text.contains("verdict is the same."), "{text}");
    }
}
