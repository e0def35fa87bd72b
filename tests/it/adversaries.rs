//! App servers of somebody else's that misbehave: each ends in an error in words or in calls without an answer, never
//! in a verdict, a hang or a broken lab.

use rl_lab::model::verdict::Verdict;

use crate::support::{Lab, cell, check};

const SCENARIO: &str = r#"
schema = 1
title = "Adversary"
shows = "What an app server can do to the lab."
checks = ["never-over-limit"]

[limit]
limit = 5
window = "60s"

[workload]
shape = "burst"
requests = 12
connections = 4
in_flight = 12
nodes = 2

[[variant]]
limiter = "them"
"#;

/// What they are written with: a shell that reads lines and says some.
const PRELUDE: &str = r#"
greet() { read -r hello; echo '{"ready":true}'; }
each() { while read -r line; do id=${line#*\"id\":}; id=${id%%,*}; "$@"; done; }
say() { printf '%s\n' "$1"; }
admit() { say "{\"id\":$id,\"allowed\":true}"; }
refuse() { say "{\"id\":$id,\"allowed\":false}"; }
count() { n=$((n + 1)); if [ $n -le 2 ]; then admit; else refuse; fi; }
"#;

struct Adversary {
    name: &'static str,
    script: &'static str,
    exit: i32,
    /// What is said of it.
    told: &'static str,
}

const fn one(name: &'static str, script: &'static str, exit: i32, told: &'static str) -> Adversary {
    Adversary { name, script, exit, told }
}

/// Those that the cell cannot be judged for end with 3; those whose calls have no answers with 4.
const ALL: &[Adversary] = &[
    one("ends at once", "exit 0", 3, "it ended before it was ready"),
    one("ends with words", "echo 'no such module' >&2; exit 1", 3, "no such module"),
    one("is silent", "read -r hello; sleep 60", 3, "it was not ready within 700 ms"),
    one("is not ready", "read -r hello; say '{\"ready\":false,\"error\":\"no licence\"}'", 3, "no licence"),
    one("does not say why", "read -r hello; say '{\"ready\":false}'", 3, "does not say why"),
    one(
        "greets with a banner",
        "echo 'Welcome to limiter 3000'; greet; each refuse",
        3,
        "does not say whether it is ready",
    ),
    one("greets with half a line", "printf '{\"ready\":tr'", 3, "it ended before it was ready"),
    one(
        "greets with a huge line",
        "head -c 3000000 /dev/zero | tr '\\0' x; sleep 60",
        3,
        "more than 1048576 bytes",
    ),
    one("greets twice", "greet; say '{\"ready\":true}'; each refuse", 3, "what is no answer"),
    one(
        "promises something else",
        "read -r hello; say '{\"ready\":true,\"contract\":{\"bound\":{\"kind\":\"none\"},\"scope\":\"global\",\"clock\":\"app\",\"clock_resolution_ms\":1,\"denials\":\"free\",\"on_outage\":\"error\",\"key_ttl_at_most\":null}}'; each refuse",
        3,
        "promises something else than the file says",
    ),
    one("says garbage", "greet; each say 'OK'", 3, "what is no answer"),
    one("logs to stdout", "greet; log() { say \"acquire $id\"; admit; }; each log", 3, "what is no answer"),
    one("says blank lines", "greet; blank() { say ''; admit; }; each blank", 3, "what is no answer"),
    one("says no UTF-8", "greet; bad() { printf '\\377\\376\\n'; }; each bad", 3, "what is no answer"),
    one(
        "says a huge line",
        "greet; huge() { printf '{\"id\":%s,\"x\":\"' $id; head -c 3000000 /dev/zero | tr '\\0' x; say '\"}'; }; each huge",
        3,
        "more than 1048576 bytes",
    ),
    one(
        "answers nobody",
        "greet; each say '{\"id\":99,\"allowed\":true}'",
        3,
        "request 99, which nobody made",
    ),
    one(
        "answers before it is asked",
        "greet; say '{\"id\":1,\"allowed\":true}'; each refuse",
        3,
        "broke the protocol",
    ),
    one("answers twice", "greet; twice() { admit; admit; }; each twice", 3, "twice"),
    one(
        "decides in words",
        "greet; words() { say \"{\\\"id\\\":$id,\\\"allowed\\\":\\\"yes\\\"}\"; }; each words",
        3,
        "what is no answer",
    ),
    one(
        "decides nothing",
        "greet; nothing() { say \"{\\\"id\\\":$id}\"; }; each nothing",
        3,
        "neither a decision nor an error",
    ),
    one(
        "has fields of its own",
        "greet; own() { say \"{\\\"id\\\":$id,\\\"allowed\\\":true,\\\"retry_after\\\":3}\"; }; each own",
        3,
        "retry_after",
    ),
    one(
        "has less than nothing left",
        "greet; less() { say \"{\\\"id\\\":$id,\\\"allowed\\\":false,\\\"remaining\\\":-1}\"; }; each less",
        3,
        "what is no answer",
    ),
    one(
        "numbers in fractions",
        "greet; part() { say \"{\\\"id\\\":$id.5,\\\"allowed\\\":true}\"; }; each part",
        3,
        "what is no answer",
    ),
    one(
        "fails in a way of its own",
        "greet; odd() { say \"{\\\"id\\\":$id,\\\"error\\\":{\\\"kind\\\":\\\"oops\\\",\\\"text\\\":\\\"x\\\"}}\"; }; each odd",
        3,
        "what is no answer",
    ),
    one(
        "never stops talking",
        "greet; read -r line; while :; do say '{\"id\":1,\"allowed\":true}'; done",
        3,
        "broke the protocol",
    ),
    one("never answers", "greet; each :", 4, "did not answer within 300 ms"),
    one(
        "answers too late",
        "greet; late() { sleep 1; admit; }; each late",
        4,
        "did not answer within 300 ms",
    ),
    one(
        "answers one and no other",
        "greet; read -r line; id=1; refuse; sleep 60",
        4,
        "did not answer within 300 ms",
    ),
    one("stops reading", "greet; exec <&-; sleep 60", 4, "did not answer within 300 ms"),
    one("ends in a call", "greet; read -r line; exit 7", 4, "the node died"),
    one("ends by a signal", "greet; read -r line; kill -9 $$", 4, "the node died"),
    one("shuts up for good", "greet; exec >&-; sleep 60", 4, "the node died"),
    one(
        "only fails",
        "greet; fail() { say \"{\\\"id\\\":$id,\\\"error\\\":{\\\"kind\\\":\\\"refused\\\",\\\"text\\\":\\\"WRONGTYPE\\\"}}\"; }; each fail",
        4,
        "WRONGTYPE",
    ),
    one(
        "shouts on stderr",
        "greet; shout() { head -c 1000000 /dev/zero | tr '\\0' x >&2; fail; }; fail() { say \"{\\\"id\\\":$id,\\\"error\\\":{\\\"kind\\\":\\\"refused\\\",\\\"text\\\":\\\"no\\\"}}\"; }; each shout",
        4,
        "12 calls got no decision",
    ),
    one("leaves children behind", "(sleep 300 &) ; greet; each :", 4, "did not answer within 300 ms"),
];

fn config(command: &str, more: &str) -> String {
    format!(
        "schema = 1\n[limiter.them]\ncommand = {command}\ndeadline = \"300ms\"\nstart_within = \"700ms\"\n{more}\n\
         [limiter.them.contract]\nbound = \"fixed-window\"\nclock = \"app\"\ndenials = \"free\"\n"
    )
}

fn shell(script: &str) -> String {
    let text = format!("{PRELUDE}\n{script}");
    format!("[\"sh\", \"-c\", '''{text}''']")
}

/// Runs the scenario with a limiter of a file.
async fn run(config: &str, exit: i32, told: &[&str], name: &str) -> Verdict {
    run_in(SCENARIO, config, exit, told, name).await
}

async fn run_in(scenario: &str, config: &str, exit: i32, told: &[&str], name: &str) -> Verdict {
    println!("{name}");
    let lab = Lab::new();
    let file = lab.file("rl-lab.toml", config);
    let lab = lab.env("RL_LAB_CONFIG", file.to_str().unwrap());
    let scenario = lab.file("adversary.toml", scenario);
    let done = lab.run(&[
        "run",
        scenario.to_str().unwrap(),
        "--backend",
        "local",
        "--seed",
        "1",
        "--format",
        "json",
    ]);
    let text = format!("{name}: {}{}", done.stdout, done.stderr);
    let done = done.exits(exit);
    assert_eq!(lab.traces("local").await, Vec::<String>::new(), "{name}");
    for told in told {
        assert!(text.contains(told), "{name} is not told: {told}\n{text}");
    }
    check(cell(&done.report(), "them"), "never-over-limit").verdict
}

#[tokio::test]
async fn who_keeps_to_the_protocol_is_cleared_or_convicted() {
    let honest = shell("greet; n=0; each count");
    assert_eq!(run(&config(&honest, ""), 0, &[], "honest").await, Verdict::Pass);
    let generous = shell("greet; each admit");
    assert_eq!(
        run(&config(&generous, ""), 1, &["12 admitted where 5 may be"], "generous").await,
        Verdict::Fail
    );
}

#[tokio::test]
async fn whoever_misbehaves_is_told_and_earns_no_verdict() {
    for adversary in ALL {
        let Adversary { name, script, exit, told } = adversary;
        let verdict = run(&config(&shell(script), ""), *exit, &[told], name).await;
        assert_eq!(verdict, Verdict::Unknown, "{name}");
    }
    assert!(ALL.len() >= 30);
}

/// Calls one after the other, so that each finds it gone.
#[tokio::test]
async fn who_ends_by_itself_is_started_again_and_that_is_told() {
    let steady =
        SCENARIO.replace("burst", "steady").replace("in_flight = 12", "in_flight = 1\nevery = \"20ms\"");
    let ends = "greet; read -r line; id=${line#*\\\"id\\\":}; id=${id%%,*}; refuse; echo 'out of memory' >&2; exit 7";
    let told = ["ended by itself", "exit status: 7", "out of memory", "a new one serves"];
    let verdict = run_in(&steady, &config(&shell(ends), ""), 0, &told, "ends after every answer").await;
    assert_eq!(verdict, Verdict::Pass, "whoever refuses everything admits nothing");
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named() {
    for (command, told) in
        [("[\"no-such-program-anywhere\"]", "no-such-program-anywhere"), ("[\"/\"]", "starting /")]
    {
        assert_eq!(run(&config(command, ""), 3, &[told], command).await, Verdict::Unknown);
    }
}

#[tokio::test]
async fn a_service_that_is_none_is_told() {
    let sleeps = config(&shell("sleep 60"), "http = {}");
    assert_eq!(run(&sleeps, 3, &["nobody listened on its port"], "no listener").await, Verdict::Unknown);
    let ends = config(&shell("echo 'port is taken' >&2; exit 1"), "http = {}");
    assert_eq!(run(&ends, 3, &["ended before it listened", "port is taken"], "ends").await, Verdict::Unknown);
}
