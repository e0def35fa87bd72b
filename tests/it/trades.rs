//! What trading accuracy for calls costs, what a change at run time lets through, and what people say of it.

use rl_lab::model::claims::Found;
use rl_lab::model::figures::Figure;
use rl_lab::model::report::Report;
use rl_lab::model::verdict::Verdict;
use rl_lab::runner::analyze;

use crate::scenes::{figure, run, varied};
use crate::support::{Lab, usable};

/// Within two per cent of what the source measured; a client here calls every 33 ms, a hundredth more often.
#[tokio::test]
async fn the_longer_nodes_do_not_tell_each_other_the_more_is_admitted() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let all = ["0s", "100ms", "1s", "5s", "15s"].map(|sync| format!("local-sync:sync={sync}"));
    let report = run(&lab, "sync", "local", &(all.join(",") + ",static-split"), &[]);
    let most = |limiter: &str, vary: &str| figure(varied(&report, limiter, vary), Figure::MostInWindow);
    for (limiter, source) in all.iter().zip([600.0, 601.0, 627.0, 735.0, 1006.0]) {
        let most = most(limiter, "even");
        assert!((most - source).abs() <= source * 0.02, "{limiter}: {most} where {source} was measured");
    }
    let split = [most("static-split", "even"), most("static-split", "uneven")];
    assert!((split[0] - 600.0).abs() <= 12.0 && (split[1] - 360.0).abs() <= 7.2, "{split:?}");
    // Sixty on each of twenty nodes.
    assert!(most("static-split", "autoscaling") >= 1050.0);
}

#[tokio::test]
async fn new_keys_hand_the_limit_out_again_unless_the_old_ones_are_asked_as_well() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let report = run(&lab, "migration", "local", "fixed-window-lua,sliding-log-lua", &[]);
    for limiter in ["fixed-window-lua", "sliding-log-lua"] {
        let most = |vary: &str| figure(varied(&report, limiter, vary), Figure::MostInWindow);
        assert!(most("new keys") >= 199.0 && most("new keys by node") >= 199.0, "{limiter}");
        // A window of its own may begin within a span of the same length.
        assert!(most("new keys beside old") <= 102.0, "{limiter}");
    }
    // The old key is of another type: no call can be decided until it has expired.
    let log = varied(&report, "fixed-window-lua", "a log under the same key");
    assert!(log.errors.keys().any(|e| e.contains("WRONGTYPE")), "{:?}", log.errors);
}

fn founds(report: &Report) -> Vec<(&str, Found)> {
    let rows = &report.claims.as_ref().unwrap().rows;
    rows.iter().map(|r| (r.claim.as_str(), r.found)).collect()
}

#[tokio::test]
async fn nine_anti_patterns_are_shown_and_the_tenth_is_contradicted() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let report = lab.run(&["anti-patterns", "--backend", "local", "--format", "json"]).exits(0).report();
    let founds = founds(&report);
    assert_eq!(founds.len(), 10);
    for (claim, found) in &founds {
        let typed = if *claim == "TIME in a script" { Found::Contradicted } else { Found::Holds };
        assert_eq!(*found, typed, "{claim}");
    }
    // The history alone says the same.
    let again = analyze::report(&analyze::read(&lab.runs()[0].join("history.jsonl")).unwrap());
    assert_eq!(again.claims, report.claims);
    assert_eq!((again.exit, again.verdict), (0, Verdict::Pass));
}

#[tokio::test]
async fn advice_that_does_not_hold_is_told_from_advice_that_does() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let report = lab.run(&["which-limiter", "--backend", "local", "--format", "json"]).exits(0).report();
    let wrong = |found: Found| founds(&report).into_iter().filter(move |(_, f)| *f == found).count();
    assert_eq!([wrong(Found::Contradicted), wrong(Found::Unknown)], [4, 0]);
}

/// A round that begins at an edge waits for it, and what is planned within the round waits along. Else a version
/// would be there from the first call on whenever the edge is further away than its roll-out, and change nothing.
#[tokio::test]
async fn what_is_planned_in_a_round_counts_from_its_edge_however_long_that_was_waited_for() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let report = run(&lab, "migration", "local", "sliding-log-lua", &["--variation", "new keys"]);
    let cell = &report.cells[0];
    assert!(figure(cell, Figure::MostInWindow) >= 199.0);
    assert!(
        cell.told.iter().any(|t| t.starts_with("node 0 runs the new version from 30.")),
        "{:?}",
        cell.told
    );
    let history = analyze::read(&lab.runs()[0].join("history.jsonl")).unwrap();
    let round = &history.cells[0].rounds[0];
    let first = round.ops.first().unwrap();
    assert!((0..1_000_000_000).contains(&(first.invoke.0 - round.began.0)), "it begins with its first call");
}
