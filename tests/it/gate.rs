//! `rl-lab.toml`, `rl-lab init` and `rl-lab gate`, as somebody uses them who has a limiter of their own.

use rl_lab::model::gate::{Counts, Gate};
use rl_lab::model::report::Report;
use rl_lab::model::verdict::Verdict;
use serde_json::Value;

use crate::support::{Done, Lab, on_both, usable};

on_both! {
    what_init_writes_passes_and_its_read_then_write_form_is_convicted
    a_known_failure_passes_a_new_one_fails_and_a_fixed_one_is_announced
    shares_come_to_the_same_as_the_whole
}

/// A folder in which `rl-lab init` was run, and nothing else.
fn begun(backend: &str) -> Lab {
    let lab = Lab::new().env("RL_LAB_BACKEND", backend);
    lab.run(&["init"]).exits(0).prints(&["wrote rl-lab.toml", "Next: rl-lab gate"]);
    lab
}

fn edit(lab: &Lab, from: &str, to: &str) {
    edit_at(lab, "rl-lab.toml", from, to);
}

fn edit_at(lab: &Lab, file: &str, from: &str, to: &str) {
    let text = std::fs::read_to_string(lab.path(file)).unwrap();
    assert!(text.contains(from), "{from} is not in\n{text}");
    lab.file(file, &text.replacen(from, to, 1));
}

const RIGHT: &str = "file = \"rl-lab/limiter.lua\"\n";
const WRONG: &str = "file = \"rl-lab/limiter-read.lua\"\nthen = \"rl-lab/limiter-write.lua\"\n";

fn gate_of(report: &Report) -> &Gate {
    report.gate.as_ref().unwrap()
}

fn verdicts(report: &Report) -> Vec<(String, Verdict, Counts)> {
    gate_of(report).results.iter().map(|r| (r.name(), r.verdict, r.counts)).collect()
}

/// A command as it is printed, run by a shell in the lab's folder.
fn again(lab: &Lab, printed: &str) -> Done {
    let command = printed.strip_prefix("rl-lab ").unwrap();
    let mut shell = lab.program("sh");
    shell.args(["-c", &format!("'{}' {command}", env!("CARGO_BIN_EXE_rl-lab"))]);
    Done::from(shell.output().unwrap())
}

mod cases {
    use super::*;

    pub async fn what_init_writes_passes_and_its_read_then_write_form_is_convicted(backend: &str) {
        let lab = begun(backend);
        let report = lab.run(&["gate", "--format", "json"]).exits(0).report();
        let gate = gate_of(&report);
        assert!(gate.results.iter().any(|r| r.scenario == "explore"), "nothing is explored");
        for result in &gate.results {
            assert_eq!(result.counts, Counts::Fine, "{result:?}");
        }
        let judged_again = lab.run(&["analyze", "--format", "json"]).exits(0).report();
        assert_eq!(judged_again.gate, report.gate);

        edit(&lab, RIGHT, WRONG);
        let done = lab.run(&["gate"]).exits(1);
        let done = done.prints(&["race · never-over-limit", "sample · explore · never-over-limit: FAIL"]);
        // The commands that race: both read before either writes.
        assert!(done.stdout.matches("EVALSHA").count() >= 4, "{}", done.stdout);
        let report = lab.run(&["gate", "--format", "json"]).exits(1).report();
        let failed = gate_of(&report).counting(Counts::Failed);
        for property in ["race · never-over-limit", "race · meets-requirement", "explore · never-over-limit"]
        {
            let result =
                failed.iter().find(|r| r.property == property).unwrap_or_else(|| panic!("{failed:?}"));
            again(&lab, result.replay.as_ref().unwrap()).exits(1);
        }
        let judged_again =
            lab.run(&["analyze", report.out.as_ref().unwrap(), "--format", "json"]).exits(1).report();
        assert_eq!(judged_again.gate, report.gate);
    }

    pub async fn a_known_failure_passes_a_new_one_fails_and_a_fixed_one_is_announced(backend: &str) {
        let lab = begun(backend);
        edit(&lab, "explore = \"3s\"\n", "");
        lab.run(&["gate", "--save-baseline", "good.json"]).exits(0);
        edit(&lab, RIGHT, WRONG);
        lab.run(&["gate", "--save-baseline", "bad.json"]).exits(1);
        // The same failures are new to one that knows none of them.
        let done = lab.run(&["gate", "--baseline", "bad.json"]).exits(0);
        let _ = done.prints(&["FAIL (known)", "Known to fail, and not held against it"]);
        let report = lab.run(&["gate", "--baseline", "good.json", "--format", "json"]).exits(1).report();
        assert!(gate_of(&report).results.iter().all(|r| r.counts != Counts::Known));
        edit(&lab, WRONG, RIGHT);
        let done = lab.run(&["gate", "--baseline", "bad.json"]).exits(0);
        let _ = done
            .prints(&["Fixed: remove it from the baseline with --save-baseline", "race · never-over-limit"]);
        let latest = lab.run(&["analyze"]).exits(0);
        assert!(latest.stdout.contains("Fixed: "), "the history does not know what was known");
    }

    pub async fn shares_come_to_the_same_as_the_whole(backend: &str) {
        let lab = begun(backend);
        edit(&lab, RIGHT, WRONG);
        let whole = lab.run(&["gate", "--format", "json"]).exits(1).report();
        let share = |shard: &str, more: &[&str]| {
            let args = [&["gate", "--format", "json", "--shard", shard][..], more].concat();
            lab.run(&args).report().out.unwrap()
        };
        let shares = ["1/3", "2/3", "3/3"].map(|shard| share(shard, &[]));
        let [a, b, c] = shares.each_ref().map(String::as_str);
        let merged = lab.run(&["report", "--format", "json", "-o", "merged", "--merge", b, c, a]).exits(1);
        assert_eq!(verdicts(&merged.report()), verdicts(&whole));
        assert_eq!(merged.report().scenarios, whole.scenarios);
        for file in ["results.json", "junit.xml", "report.md"] {
            assert!(lab.path("merged").join(file).is_file(), "{file}");
        }
        lab.run(&["report", "--merge", a, b]).exits(2).says(&["share 3/3 is missing"]);
        lab.run(&["report", "--merge", a, b, c, a]).exits(2).says(&["are both share 1/3"]);
        let other = share("3/3", &["--seed", "2"]);
        lab.run(&["report", "--merge", a, b, &other]).exits(2).says(&["share of another gate"]);
        let not_a_share = whole.out.unwrap();
        lab.run(&["report", "--merge", &not_a_share]).exits(2).says(&["whole gate, not a share"]);
        lab.run(&["report", "--merge", "nowhere"]).exits(2).says(&["no results at 'nowhere'"]);
        // More shares than there is work: nothing is not a failure.
        let empty = lab.run(&["gate", "--shard", "50/50"]).exits(0);
        let _ = empty.prints(&["nothing of it is to be run here"]);
    }
}

/// What one server shows, the other shows as well.
async fn local() -> Option<Lab> {
    usable("local").await.then(|| begun("local"))
}

/// Whether tags are closed in order and texts are escaped.
fn assert_is_xml(text: &str) {
    let body = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").unwrap();
    let mut open: Vec<&str> = Vec::new();
    for part in body.split('<').skip(1) {
        let (tag, rest) = part.split_once('>').unwrap();
        assert!(!rest.contains('>'), "a bare > in {rest}");
        assert!(
            part.split('&').skip(1).all(|e| e.split_once(';').is_some_and(|(name, _)| name.len() <= 4)),
            "{part}"
        );
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty() && text.chars().all(|c| c == '\n' || !c.is_control()), "{open:?}");
}

#[tokio::test]
async fn a_workflow_gets_cases_a_summary_and_annotations() {
    let Some(lab) = local().await else { return };
    edit(&lab, RIGHT, WRONG);
    let lab = lab.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", "summary.md");
    lab.file("summary.md", "said before\n");
    let done = lab.run(&["gate", "--junit", "cases/junit.xml"]).exits(1);
    let told: Vec<&str> = done.stdout.lines().filter(|l| l.starts_with("::error ")).collect();
    assert!((1..=10).contains(&told.len()), "{told:?}");
    assert!(told[0].starts_with("::error title=sample · "), "{}", told[0]);
    assert!(told.iter().all(|l| l.contains("%3A FAIL::") && l.contains("%0Areplay: rl-lab ")), "{told:?}");
    let summary = std::fs::read_to_string(lab.path("summary.md")).unwrap();
    assert!(summary.starts_with("said before\n# Gate: profile `quick`"), "{summary}");
    assert!(summary.contains("| race · never-over-limit | **FAIL** |"), "{summary}");
    let cases = std::fs::read_to_string(lab.path("cases/junit.xml")).unwrap();
    assert_is_xml(&cases);
    assert!(cases.contains("<testsuite name=\"race\" tests=\"3\" failures=\"2\""), "{cases}");
    assert_eq!(std::fs::read_to_string(lab.runs()[0].join("junit.xml")).unwrap(), cases);
    // Whoever reads a document from stdout gets that and nothing else.
    let done = lab.run(&["gate", "--format", "json"]).exits(1);
    assert!(done.stderr.contains("::error ") && gate_of(&done.report()).results.len() > 5);
}

#[tokio::test]
async fn thresholds_and_what_must_be_known_fail_and_unknowns_alone_do_not_pass() {
    let Some(lab) = local().await else { return };
    let profile = |more: &str| {
        let text = "schema = 1\n[profile.quick]\nscenarios = [\"race\"]\nlimiters = [\"gcra-lua\"]\n";
        lab.file("rl-lab.toml", &format!("{text}{more}\n"));
        lab.run(&["gate"])
    };
    // A round of milliseconds cannot tell whether a bucket keeps to a window.
    let _ = profile("").exits(4).prints(&["race · meets-requirement  unknown"]);
    let _ = profile("must_be_known = [\"meets-requirement\"]").exits(1).prints(&["unknown (must be known)"]);
    let _ = profile("must_be_known = [\"never-over-limit\"]").exits(4);
    let done = profile("at_most = { p99-ms = 0 }").exits(1);
    let done = done.prints(&["gcra-lua · race · p99-ms ≤ 0: FAIL", "replay: rl-lab gate --profile quick"]);
    let replay = done.stdout.lines().find_map(|l| l.trim().strip_prefix("replay: ")).unwrap();
    again(&lab, replay).exits(1);
    let _ = profile("at_most = { p99-ms = 60000 }").exits(4).prints(&["race · p99-ms ≤ 60000: p99-ms is "]);
    let _ = profile("at_most = { bytes-per-identity = 9 }")
        .exits(4)
        .prints(&["no scenario of the profile measures"]);
}

#[tokio::test]
async fn what_the_file_requires_stands_in_for_what_a_scenario_does() {
    let Some(lab) = local().await else { return };
    let lab_toml = |require: &str| {
        let text = format!(
            "schema = 1\nbackend = \"local\"\n{require}\n[profile.quick]\nscenarios = [\"boundary\"]\nlimiters = [\"fixed-window-lua\"]\n"
        );
        lab.file("rl-lab.toml", &text);
    };
    lab_toml("");
    lab.run(&["gate"]).exits(1).prints(&["fixed-window-lua · boundary · meets-requirement: FAIL"]);
    lab.run(&["boundary", "--limiters", "fixed-window-lua"]).exits(0).prints(&["FAIL (expected)"]);
    lab_toml("[require]\nbound = \"fixed-window\"");
    lab.run(&["gate"]).exits(0);
    let done = lab.run(&["boundary", "--limiters", "fixed-window-lua"]).exits(0);
    let _ = done.prints(&["verdicts are judged", "at most 100 in each 5s window, opened by its first hit"]);
}

#[tokio::test]
async fn a_limiter_that_is_built_for_one_limit_is_run_with_it() {
    let Some(lab) = local().await else { return };
    edit(&lab, "summary = ", "limit = 7\nwindow = \"30s\"\nsummary = ");
    let report = lab.run(&["race", "--limiters", "sample", "--format", "json"]).exits(0).report();
    assert_eq!(report.cells[0].limit.get(), 7);
    assert!(report.cells[0].rounds.iter().all(|r| r.admitted == 7), "{:?}", report.cells[0].rounds);
    lab.run(&["race", "--limiters", "sample", "--limit", "9"]).exits(2).says(&["built for limit 7 per 30s"]);
    let done = lab.run(&["explore", "sample"]).exits(0);
    let _ = done.prints(&["limit 7: ", "complete"]);
}

#[test]
fn flags_come_before_the_environment_before_a_profile_before_the_file() {
    let lab = Lab::new();
    lab.file(
        "rl-lab.toml",
        "schema = 1\nbackend = \"local\"\nimage = \"of-file\"\nredis_server = \"bin/redis\"\nout = \"runs\"\nseed = 3\n\
         [profile.p]\nscenarios = [\"race\"]\nbackend = \"docker\"\nimage = \"of-profile\"\nseed = 4\n",
    );
    let lab = lab.env("RL_LAB_OUT", "");
    let shown = |lab: &Lab, args: &[&str]| -> Vec<(String, String)> {
        let args = [&["config", "show", "--format", "json"][..], args].concat();
        let told: Value = serde_json::from_str(&lab.run(&args).exits(0).stdout).unwrap();
        let settings = told["settings"].as_array().unwrap();
        let text = |v: &Value| v.as_str().unwrap_or("–").to_owned();
        settings.iter().map(|s| (text(&s["value"]), text(&s["origin"]))).collect()
    };
    let pairs = |all: [(&str, &str); 6]| all.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec();
    let file = "rl-lab.toml";
    assert_eq!(
        shown(&lab, &[]),
        pairs([
            ("local", file),
            ("–", "default"),
            ("of-file", file),
            ("bin/redis", file),
            ("runs", file),
            ("3", file)
        ])
    );
    let profile = "profile p";
    assert_eq!(
        shown(&lab, &["--profile", "p"]),
        pairs([
            ("docker", profile),
            ("–", "default"),
            ("of-profile", profile),
            ("bin/redis", file),
            ("runs", file),
            ("4", profile)
        ])
    );
    let lab = lab.env("RL_LAB_IMAGE", "of-env").env("RL_LAB_SEED", "5");
    assert_eq!(
        shown(&lab, &["--profile", "p", "--backend", "auto", "--seed", "6"]),
        pairs([
            ("auto", "flag --backend"),
            ("–", "default"),
            ("of-env", "environment RL_LAB_IMAGE"),
            ("bin/redis", file),
            ("runs", file),
            ("6", "flag --seed"),
        ])
    );
    let none = Lab::new().env("RL_LAB_OUT", "").env("RL_LAB_IMAGE", "").env("RL_LAB_REDIS_SERVER", "");
    let default = "default";
    assert_eq!(
        shown(&none, &[]),
        pairs([
            ("auto", default),
            ("–", default),
            ("–", default),
            ("–", default),
            ("out", default),
            ("–", default)
        ])
    );
}

#[tokio::test]
async fn the_file_of_a_folder_above_is_read_and_named_by_what_repeats_a_run() {
    let Some(lab) = local().await else { return };
    edit(&lab, RIGHT, WRONG);
    let deep = lab.path("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    let call = |args: &[&str]| {
        let mut command = lab.command(args);
        Done::from(command.current_dir(&deep).output().unwrap())
    };
    call(&["list", "limiters"]).exits(0).prints(&["sample", "a fixed window that the first call opens"]);
    let done = call(&["race", "--limiters", "sample"]).exits(1);
    let replay = done.stdout.lines().find_map(|l| l.trim().strip_prefix("replay: ")).unwrap();
    assert!(replay.contains(" --config ../../rl-lab.toml "), "{replay}");
    let command = done.stdout.lines().find_map(|l| l.strip_prefix("again    ")).unwrap();
    assert!(command.contains(" --config ../../rl-lab.toml"), "{command}");
    let words: Vec<&str> = replay.split(' ').skip(1).collect();
    call(&words).exits(1);
    let done = call(&["explore", "sample"]).exits(1);
    let replay = done.stdout.lines().find_map(|l| l.trim().strip_prefix("replay: ")).unwrap();
    call(&replay.split(' ').skip(1).collect::<Vec<_>>()).exits(1);
    // A repository of its own is not reached into from below.
    std::fs::create_dir(lab.path("a/.git")).unwrap();
    call(&["race", "--limiters", "sample"]).exits(2).says(&["unknown limiter 'sample'"]);
    call(&["gate"]).exits(2).says(&["no rl-lab.toml here or above", "rl-lab init"]);
}

#[test]
fn a_file_that_cannot_be_meant_is_refused_with_its_place() {
    let lab = Lab::new();
    lab.file("rl-lab.toml", "schema = 1\nbackend = \"lokal\"\n");
    for command in [&["race"][..], &["list"], &["gate"], &["config", "show"]] {
        lab.run(command).exits(2).says(&["rl-lab.toml:2:11: ", "did you mean 'local'"]);
    }
    lab.run(&["config", "schema"]).exits(0);
    lab.run(&["gc"]).exits(0);
    lab.run(&["list", "--config", "nowhere.toml"]).exits(2).says(&["there is no file 'nowhere.toml'"]);
    lab.file("other.toml", "schema = 1\n[profile.full]\nscenarios = [\"race\"]\n");
    let lab = lab.env("RL_LAB_CONFIG", "other.toml");
    lab.run(&["gate"]).exits(2).says(&["other.toml: unknown profile 'quick'"]);
    lab.run(&["gate", "--profile", "full"]).exits(2).says(&["names no limiters"]);
}

#[test]
fn a_baseline_that_is_none_is_refused_before_anything_runs() {
    let lab = begun("local");
    lab.file("other.json", "{\"schema\": 1, \"limiters\": {\"theirs\": {\"race · cost\": \"fail\"}}}");
    lab.file("broken.json", "{");
    for (file, what) in
        [("other.json", "speaks of 'theirs'"), ("broken.json", "no JSON"), ("none.json", "cannot read")]
    {
        lab.run(&["gate", "--baseline", file]).exits(2).says(&[file, what]);
    }
    assert!(lab.runs().is_empty());
    lab.run(&["gate", "--shard", "4/3"]).exits(2).says(&["a share such as 2/3"]);
}

#[test]
fn init_writes_for_the_language_of_the_folder_and_overwrites_nothing() {
    for (sign, wrote) in [
        ("package.json", "rl-lab/limiter.mjs"),
        ("pyproject.toml", "rl-lab/limiter.py"),
        ("composer.json", "rl-lab/limiter.php"),
        ("go.mod", "rl-lab/limiter.go"),
        ("pom.xml", "rl-lab/limiter.lua"),
        ("README", "rl-lab/limiter.lua"),
    ] {
        let lab = Lab::new();
        lab.file(sign, "");
        let done = lab.run(&["init"]).exits(0);
        assert!(done.stdout.contains(wrote), "{sign}: {}", done.stdout);
        assert_eq!(done.stdout.contains("To gate one in Java"), sign == "pom.xml");
        lab.run(&["config", "show"])
            .exits(0)
            .prints(&["sample: a fixed window", "at most LIMIT in each WINDOW window"]);
    }
    let lab = Lab::new();
    lab.file("package.json", "");
    lab.run(&["init", "there", "--language", "python"])
        .exits(0)
        .prints(&["there/rl-lab/limiter.py", "cd there && "]);
    lab.file("there/rl-lab/limiter.py", "mine");
    lab.run(&["init", "there", "--language", "python"]).exits(2).says(&["there/rl-lab.toml, ", "--force"]);
    std::fs::remove_file(lab.path("there/rl-lab.toml")).unwrap();
    lab.run(&["init", "there", "--language", "python"]).exits(2).says(&["there/rl-lab/limiter.py"]);
    assert!(!lab.path("there/rl-lab.toml").exists(), "something was written");
    assert_eq!(std::fs::read_to_string(lab.path("there/rl-lab/limiter.py")).unwrap(), "mine");
    lab.run(&["init", "there", "--language", "python", "--force"]).exits(0);
}

#[test]
fn where_there_is_no_server_the_gate_says_so_and_so_does_its_junit() {
    let lab = Lab::with_nothing();
    lab.run(&["init"]).exits(0);
    let done = lab
        .run(&["gate", "--junit", "junit.xml", "--save-baseline", "known.json", "--format", "json"])
        .exits(3);
    assert!(done.report().error.is_some());
    let cases = std::fs::read_to_string(lab.path("junit.xml")).unwrap();
    assert_is_xml(&cases);
    assert!(cases.contains("errors=\"1\"") && cases.contains("it was not run"), "{cases}");
    assert!(!lab.path("known.json").exists(), "a run that did not finish is no baseline");
}

/// The sample of a language with its wrong form put in place of the right one, as its comment says to.
fn read_then_write(text: &str, comment: &str) -> String {
    let mark = format!("{comment}   ");
    let right = |line: &str| {
        ["SCRIPT, 1", "SCRIPT, [", "'EVAL', SCRIPT", "script, 1"].iter().any(|call| line.contains(call))
    };
    let lines = text.lines().filter(|line| !right(line)).map(|line| {
        let indent = line.len() - line.trim_start().len();
        match line.trim_start().strip_prefix(&mark) {
            Some(code) => format!("{}{code}", &line[..indent]),
            None => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Each in an empty folder, with what the language brings along.
#[tokio::test]
async fn the_sample_of_every_language_passes_and_its_read_then_write_form_is_convicted() {
    let languages = [
        ("python", "python3", "rl-lab/limiter.py", "#"),
        ("node", "node", "rl-lab/limiter.mjs", "//"),
        ("php", "php", "rl-lab/limiter.php", "//"),
        ("go", "go", "rl-lab/limiter.go", "//"),
    ];
    for (language, program, file, comment) in languages {
        if std::process::Command::new(program).arg("--version").output().is_err() {
            println!("skipped: there is no {program}");
            continue;
        }
        let lab = Lab::new().env("RL_LAB_BACKEND", "local");
        lab.run(&["init", "--language", language]).exits(0);
        let report = lab.run(&["gate", "--format", "json"]).exits(0).report();
        assert!(gate_of(&report).results.iter().all(|r| r.counts == Counts::Fine), "{language}");
        let right = std::fs::read_to_string(lab.path(file)).unwrap();
        let wrong = read_then_write(&right, comment);
        assert_ne!(wrong, right);
        lab.file(file, &wrong);
        let report = lab.run(&["gate", "--format", "json"]).exits(1).report();
        let failed: Vec<&str> =
            gate_of(&report).counting(Counts::Failed).iter().map(|r| r.property.as_str()).collect();
        // How far a search comes in its time is the machine's doing.
        for property in ["race · never-over-limit", "crash · every-key-expires"] {
            assert!(failed.contains(&property), "{language}: {failed:?}");
        }
        assert_eq!(lab.traces("local").await, Vec::<String>::new());
    }
}

/// The store stands still for half a second; nobody is refused for the number of calls.
const FREEZE: &str = r#"
schema = 1
title = "Freeze"
shows = "Who is let in meanwhile, and by whom."
checks = ["declared-outage-policy", "fail-open-is-reported", "bounded-latency"]

[limit]
limit = 10000
window = "60s"

[workload]
shape = "open"
requests = 60
every = "20ms"
connections = 4
in_flight = 60
nodes = 2

[[fault]]
at = "300ms"
do = "freeze"
for = "500ms"

[outage]
answers_within = "100ms"
recovers_within = "2s"

[[variant]]
limiter = "fixed-window-lua"
policy = "fail-closed"
client = "fail-fast"

[[variant]]
limiter = "fixed-window-lua"
client = "fail-fast"
"#;

/// A limiter of the file, reached as `how` says, that promises a fixed window.
fn one(name: &str, how: &str) -> String {
    let contract = "bound = \"fixed-window\"\nclock = \"expiry\"\ndenials = \"free\"\n";
    format!("[limiter.{name}]\n{how}\n[limiter.{name}.contract]\n{contract}")
}

const SCRIPT: &str = "lua = { file = \"rl-lab/limiter.lua\", keys = [\"{key}\"], args = [\"{limit}\", \"{window_ms}\", \"{cost}\"], allowed = { at = 1, is = 1 } }";

#[tokio::test]
async fn a_policy_of_the_file_is_around_its_limiter_and_one_that_is_silent_is_convicted() {
    let Some(lab) = local().await else { return };
    let with = |name: &str, policy: &str| one(name, &format!("policy = \"{policy}\"\n{SCRIPT}"));
    let limiters = [
        one("bare", SCRIPT),
        with("counted", "P1"),
        with("silent", "fail-open:report=silent"),
        with("closed", "circuit-breaker:failures=1,then=closed"),
    ];
    let profile = "[profile.quick]\nscenarios = [\"freeze.toml\"]\n";
    lab.file("rl-lab.toml", &format!("schema = 1\n{}{profile}", limiters.concat()));
    lab.file("freeze.toml", FREEZE);
    let report = lab.run(&["gate", "--format", "json"]).exits(1).report();
    let of = |limiter: &str, check: &str| {
        let gate = gate_of(&report);
        gate.result(&format!("{limiter}, fail-fast"), &format!("freeze · {check}")).unwrap().verdict
    };
    let (outage, reported) = ("declared-outage-policy", "fail-open-is-reported");
    // What the scenario compares of its own limiter it compares of one that has no policy, and of no other.
    for (limiter, told) in [
        ("bare", [Verdict::Pass, Verdict::Unknown]),
        ("bare + fail-closed", [Verdict::Pass, Verdict::Unknown]),
        ("counted + fail-open", [Verdict::Pass, Verdict::Pass]),
        ("silent + fail-open:report=silent", [Verdict::Fail, Verdict::Fail]),
        ("closed + circuit-breaker:failures=1,then=closed", [Verdict::Pass, Verdict::Unknown]),
    ] {
        assert_eq!([of(limiter, outage), of(limiter, reported)], told, "{limiter}");
        assert_eq!(of(limiter, "bounded-latency"), Verdict::Pass, "{limiter}");
    }
    assert_eq!(gate_of(&report).limiters().len(), 5);
    let silent = gate_of(&report).counting(Counts::Failed)[0];
    again(&lab, silent.replay.as_ref().unwrap()).exits(1);
    // Who asks for another gets that.
    let other = ["run", "freeze.toml", "-l", "silent", "--policy", "fail-open"];
    lab.run(&other).exits(0).prints(&["silent + fail-open  "]);
    lab.run(&["config", "show"]).exits(0).prints(&[
        "with fail-open:report=silent around it (rl-lab.toml [limiter.silent])",
        "calls are admitted while the store is away",
        "callers get an error while the store is away",
    ]);
}

/// Decides some calls and fails the others, as one whose store is away now and then.
const FAILS: &str = r#"command = ["sh", "-c", '''
read -r hello; echo '{"ready":true}'
while read -r line; do
    id=${line#*\"id\":}; id=${id%%,*}
    case $id in
    1) echo "{\"id\":$id,\"allowed\":true}" ;;
    *) echo "{\"id\":$id,\"error\":{\"kind\":\"refused\",\"text\":\"OOM\"}}" ;;
    esac
done''']"#;

#[tokio::test]
async fn a_policy_is_around_a_process_where_that_tells_an_error_or_is_late() {
    let Some(lab) = local().await else { return };
    let late = "deadline = \"300ms\"\ncommand = [\"sh\", \"-c\", '''read -r hello; echo '{\"ready\":true}'; sleep 60''']";
    let limiters = [
        one("fails", &format!("policy = \"fail-closed\"\n{FAILS}")),
        one("opens", &format!("policy = \"fail-open\"\n{FAILS}")),
        one("late", &format!("policy = \"fail-open:report=silent,within=100ms\"\n{late}")),
    ];
    lab.file("rl-lab.toml", &format!("schema = 1\n{}", limiters.concat()));
    let race = ["race", "-l", "fails,opens,late", "--requests", "12", "--rounds", "1", "--format", "json"];
    let report = lab.run(&race).exits(1).report();
    let of = |name: &str| report.cells.iter().find(|c| c.limiter == name).unwrap();
    let verdict = |name: &str| crate::support::check(of(name), "never-over-limit").verdict;
    // Two app servers admit one each; what a policy refuses is no evidence of the limiter's.
    let admitted = |name: &str| of(name).rounds[0].admitted;
    assert_eq!((admitted("fails"), admitted("opens"), admitted("late")), (2, 12, 12));
    assert_eq!(verdict("opens"), Verdict::Fail, "open has no bound to be held to");
    assert_ne!(verdict("fails"), Verdict::Fail);
    lab.assert_nothing_is_left("local").await;

    let scenario = "schema = 1\ntitle = \"Late\"\nshows = \"How far a call came.\"\nchecks = [\"fail-open-is-reported\"]\n\
         [limit]\nlimit = 100\nwindow = \"60s\"\n[workload]\nshape = \"burst\"\nrequests = 8\nconnections = 2\nin_flight = 8\n\
         [[variant]]\nlimiter = \"late\"\n";
    lab.file("late.toml", scenario);
    let report = lab.run(&["run", "late.toml", "--format", "json"]).exits(4).report();
    let check = crate::support::check(&report.cells[0], "fail-open-is-reported");
    // It may have asked and been answered: nobody can say that it never did.
    assert_eq!(check.verdict, Verdict::Unknown, "{check:?}");
}

#[test]
fn a_policy_that_cannot_be_meant_is_refused_with_its_place() {
    let lab = Lab::new();
    let contract = "[limiter.l.contract]\nbound = \"none\"\nclock = \"app\"\ndenials = \"free\"\n";
    for (policy, more, what) in [
        ("fail-opn", "", "unknown policy 'fail-opn'; did you mean 'fail-open'"),
        ("fail-open:report=loud", "", "is not one of counted, silent"),
        ("circuit-breaker:failure=3", "", "did you mean 'failures'"),
        ("fail-closed", "on_outage = \"open\"", "follow from the policy"),
        ("local-fallback", "on_outage = \"fallback\"\nfallback = 3", "follow from the policy"),
    ] {
        let file =
            format!("schema = 1\n[limiter.l]\npolicy = \"{policy}\"\ncommand = [\"x\"]\n{contract}{more}\n");
        lab.file("rl-lab.toml", &file);
        lab.run(&["config", "show"]).exits(2).says(&["rl-lab.toml:2:1: limiter 'l'", what]);
    }
    let agrees = format!(
        "schema = 1\n[limiter.l]\npolicy = \"fail-open\"\ncommand = [\"x\"]\n{contract}on_outage = \"open\"\n"
    );
    lab.file("rl-lab.toml", &agrees);
    lab.run(&["config", "show"]).exits(0);
}

/// They run in a folder of the lab's.
#[tokio::test]
async fn app_servers_find_the_file_and_its_scripts_wherever_its_path_begins() {
    let Some(lab) = local().await else { return };
    std::fs::create_dir(lab.path("conf")).unwrap();
    for name in ["rl-lab.toml", "rl-lab"] {
        std::fs::rename(lab.path(name), lab.path("conf").join(name)).unwrap();
    }
    edit_at(&lab, "conf/rl-lab.toml", "#policy", "policy");
    let scenario = "schema = 1\ntitle = \"Processes\"\nshows = \"They find it.\"\nchecks = [\"never-over-limit\"]\n\
         [limit]\nlimit = 5\nwindow = \"60s\"\n\
         [workload]\nshape = \"burst\"\nrequests = 20\nconnections = 4\nin_flight = 20\nnodes = 2\nnodes_as = \"processes\"\n\
         [[variant]]\nlimiter = \"sample\"\n";
    lab.file("processes.toml", scenario);
    let lab = lab.env("RL_LAB_CONFIG", "conf/rl-lab.toml");
    let report = lab.run(&["run", "processes.toml", "--format", "json"]).exits(0).report();
    assert_eq!(report.cells[0].policy.as_deref(), Some("fail-open"));
    assert_eq!(report.cells[0].rounds[0].admitted, 5);
    lab.assert_nothing_is_left("local").await;
}
