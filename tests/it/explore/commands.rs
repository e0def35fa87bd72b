//! `rl-lab explore` and `rl-lab replay` as a user runs them.

use std::process::Command;

use rl_lab::model::report::{CellReport, Report};
use rl_lab::model::verdict::Verdict;

use crate::support::{Lab, until, usable};

fn of<'a>(report: &'a Report, limiter: &str) -> &'a CellReport {
    report.cells.iter().find(|c| c.limiter == limiter).unwrap()
}

fn verdict(cell: &CellReport, check: &str) -> Verdict {
    cell.checks.iter().find(|c| c.check == check).unwrap().verdict
}

/// The counterexamples that a run saved, by their file names.
fn saved(lab: &Lab, check: &str) -> Vec<std::path::PathBuf> {
    let folder = lab.out().join("latest");
    let files = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path());
    files.filter(|f| f.to_string_lossy().ends_with(&format!("{check}.json"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counterexample_is_saved_and_replays_twenty_times_of_twenty() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let run = ["explore", "L01", "L06", "--backend", "local", "--format", "json"];
    let report = lab.run(&run).exits(1).report();
    let leak = of(&report, "get-then-incr");
    assert_eq!(verdict(leak, "never-over-limit"), Verdict::Fail);
    let good = of(&report, "fixed-window-lua");
    assert_eq!(verdict(good, "never-over-limit"), Verdict::Pass);
    assert!(good.checks[0].why.as_ref().unwrap().starts_with("certificate: 2 clients"));
    assert_eq!(leak.search.as_ref().unwrap().counterexamples.len(), 3);
    let files = saved(&lab, "never-over-limit");
    assert_eq!(files.len(), 1);
    let file = files[0].to_str().unwrap();
    let again = lab.run(&["replay", file, "--times", "20", "--backend", "local"]);
    again.exits(1).prints(&["20 of 20 replays alike", "GET rl:k", "2 admitted at one moment"]);
}

/// The exported script runs against any Redis by redis-cli alone, and goes the same way.
#[tokio::test(flavor = "multi_thread")]
async fn an_exported_test_shows_the_fault_without_the_lab() {
    let Some(ground) = crate::ground::Ground::start("explore-export").await else { return };
    let lab = Lab::new();
    let folder = lab.path("tests");
    let folder = folder.to_str().unwrap();
    lab.run(&["explore", "L01", "L17", "L05", "--backend", "local", "--export-test", folder]).exits(1);
    let scripts: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|f| f.extension().is_some_and(|e| e == "sh"))
        .collect();
    assert!(scripts.len() >= 5, "{scripts:?}");
    let port = ground.address.port().to_string();
    let mut differed = 0;
    for script in scripts {
        let run = || Command::new("sh").arg(&script).args(["-p", &port]).output().unwrap();
        let done = run();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{}: {text}", script.display());
        assert!(text.contains("then: "), "{text}");
        // A reply that differs is told.
        let told = std::fs::read_to_string(&script).unwrap();
        let other = |line: &str| match line.strip_suffix(" '1'") {
            Some(call) if line.starts_with("is ") => format!("{call} '7'\n"),
            _ => format!("{line}\n"),
        };
        let changed: String = told.lines().map(other).collect();
        if changed != told {
            std::fs::write(&script, changed).unwrap();
            assert_eq!(run().status.code(), Some(1), "{}", script.display());
            differed += 1;
        }
    }
    assert!(differed > 2);
    ground.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_search_keeps_what_it_found_and_gc_ends_its_servers() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let search = ["explore", "L01", "L10", "--clients", "5", "--requests", "2", "--budget", "10m"];
    let living = lab.start(&[&search[..], &["--backend", "local"]].concat());
    let found = || lab.out().join("latest").exists().then(|| saved(&lab, "recovers").pop()).flatten();
    until("a counterexample", found).await;
    living.signal(libc::SIGKILL);
    drop(living);
    assert_eq!(saved(&lab, "recovers").len(), 1);
    lab.run(&["gc"]).exits(0);
    let file = saved(&lab, "recovers").remove(0);
    lab.run(&["replay", file.to_str().unwrap(), "--backend", "local"]).exits(1);
}

#[test]
fn what_cannot_be_explored_is_refused_with_what_can() {
    let lab = Lab::new();
    lab.run(&["explore"]).exits(2).says(&["LIMITER"]);
    lab.run(&["explore", "get-then-inc"]).exits(2).says(&["did you mean 'get-then-incr'"]);
    lab.run(&["explore", "L01", "--clients", "0"]).exits(2).says(&["1..=25"]);
    lab.run(&["explore", "L01", "--clients", "99"]).exits(2).says(&["1..=25"]);
    lab.run(&["explore", "L01", "--limit", "5000"]).exits(2).says(&["at most 1000"]);
    lab.run(&["explore", "L01", "--client", "pooling"]).exits(2).says(&["did you mean 'pooled'"]);
    lab.run(&["explore", "L01", "--window", "1s"]).exits(2).says(&["from 5s to 10d"]);
    lab.run(&["explore", "L16", "--window", "7500ms"]).exits(2).says(&["whole seconds"]);
    lab.run(&["replay", "nowhere.json"]).exits(2).says(&["cannot read 'nowhere.json'"]);
    let file = lab.file("x.json", "{}");
    lab.run(&["replay", file.to_str().unwrap()]).exits(2).says(&["is no schedule"]);
    lab.run(&["explore", "L01", "--dry-run"])
        .exits(0)
        .prints(&["nothing is started", "2 clients, 1 call each"]);
}
