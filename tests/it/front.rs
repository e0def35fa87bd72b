//! What callers are told over HTTP: by a limiter that is served, by nodes behind a front, and by services that
//! are asked from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};

use rl_lab::model::figures::Figure;
use rl_lab::model::history::Builder;
use rl_lab::model::http::{Form, RetryAfter};
use rl_lab::model::report::Report;
use rl_lab::model::verdict::{Standing, Verdict};
use rl_lab::runner::analyze;
use serde_json::{Value, json};

use crate::ground::Ground;
use crate::support::{Lab, check, on_both, usable};

/// `rl-lab serve-http`, while it runs.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Served {
    fn start(lab: &Lab, ground: &Ground, more: &[&str]) -> Self {
        let redis = format!("redis://{}", ground.address);
        let args = ["serve-http", "--redis", &redis, "--listen", "127.0.0.1:0"];
        let mut command = lab.command(&[&args[..], more].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").expect(&line).parse().unwrap();
        Self { child, address }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// A request on a connection of its own, and all that is answered.
    fn ask(&self, path: &str, fields: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Told to end, and how it did.
    fn end(mut self) -> Option<i32> {
        let pid = self.child.id().cast_signed();
        // SAFETY: kill(2) touches no memory; the child is ours and not reaped yet, so is its pid.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn field<'a>(answer: &'a str, name: &str) -> &'a str {
    let of = |line: &'a str| line.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name));
    answer.lines().find_map(of).unwrap_or_else(|| panic!("no {name} in\n{answer}")).1
}

#[tokio::test]
async fn a_served_limiter_is_asked_by_hand() {
    let Some(ground) = Ground::start("front").await else { return };
    let lab = Lab::new();
    let served = Served::start(&lab, &ground, &["fixed-window-lua", "--limit", "2", "--window", "600s"]);
    let by = |user: &str, more: &str| served.ask("/orders", &format!("X-User: {user}\r\n{more}"));
    let first = by("ann", "");
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    assert_eq!((field(&first, "RateLimit-Limit"), field(&first, "X-RateLimit-Remaining")), ("2", "1"));
    assert!(!first.to_lowercase().contains("retry-after"), "{first}");
    // Two more do not fit, and nobody else is held back by that.
    let dear = by("ann", "X-Cost: 2\r\n");
    assert!(dear.starts_with("HTTP/1.1 429 ") && by("bob", "").starts_with("HTTP/1.1 200 "), "{dear}");
    let wait: u64 = field(&dear, "Retry-After").parse().unwrap();
    // A window that has just begun ends within the millisecond after what the server tells.
    assert!((1..=601).contains(&wait), "{dear}");
    assert_eq!(field(&dear, "RateLimit-Reset"), wait.to_string(), "the same moment");
    assert_eq!(field(&dear, "Content-Type"), "application/problem+json");
    let body: Value = serde_json::from_str(dear.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(
        (&body["status"], body["type"].is_string(), body["title"].is_string()),
        (&429.into(), true, true)
    );
    assert_eq!(body["retry_after_ms"].as_u64().unwrap().div_ceil(1000), wait);
    for cost in ["0", "-1", "many", "99999999999"] {
        let refused = by("ann", &format!("X-Cost: {cost}\r\n"));
        assert!(refused.starts_with("HTTP/1.1 400 ") && refused.contains("from 1 to"), "{refused}");
    }
    // Without a name it is the address that is counted.
    assert!(served.ask("/", "").starts_with("HTTP/1.1 200 "));
    let metrics = served.ask("/metrics", "");
    for line in [
        r#"rate_limit_denied_total{limiter="fixed-window-lua",client="redis-rs-multiplexed",user="ann",endpoint="/orders"} 1"#,
        r#"user="bob",endpoint="/orders"} 1"#,
        r#"user="127.0.0.1",endpoint="/"} 1"#,
        "rate_limit_redis_latency_seconds_count",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    // Without its store it has no answer, and says so.
    ground.end().await;
    let gone = by("ann", "");
    assert!(gone.starts_with("HTTP/1.1 503 ") && gone.contains("limiter-unavailable"), "{gone}");
    assert!(served.ask("/metrics", "").contains("rate_limit_undecided_total"));
    assert_eq!(served.end(), Some(0));
}

#[test]
fn what_cannot_be_served_is_refused_in_words() {
    let lab = Lab::new();
    let args = |redis: &str, limiter: &str, more: &[&str]| {
        let all = ["serve-http", limiter, "--redis", redis, "--limit", "2", "--window", "1s"];
        lab.run(&[&all[..], more].concat())
    };
    let nobody = "redis://127.0.0.1:1";
    args(nobody, "fixed-windw-lua", &[]).exits(2).says(&["did you mean 'fixed-window-lua'"]);
    args("http://x", "fixed-window-lua", &[]).exits(2).says(&["redis://HOST:PORT"]);
    args(nobody, "fixed-window-lua", &["--front", "flor"]).exits(2).says(&["floor"]);
    args(nobody, "fixed-window-lua", &[]).exits(3).says(&["cannot be reached"]);
}

#[tokio::test]
async fn a_service_is_judged_from_outside_by_what_it_says() {
    let Some(ground) = Ground::start("headers").await else { return };
    let lab = Lab::new();
    let ask = |form: &str, user: &str, code: i32, shown: &[&str]| {
        // One call comes back after 1.5 s, so that half a second is rounded away.
        let limit = ["token-bucket-lua", "--limit", "2", "--window", "3s", "--front", form];
        let served = Served::start(&lab, &ground, &limit);
        let user = format!("X-User: {user}");
        lab.run(&["headers", &served.url(), "--header", &user]).exits(code).prints(shown);
        assert_eq!(served.end(), Some(0));
    };
    let honest = ["PASS     wait-is-enough", "n/a      status", "PASS     problem", "verdict: PASS"];
    ask("honest", "ann", 0, &honest);
    for (form, rule) in [
        ("no-retry-after", "FAIL     retry-after "),
        ("zero", "FAIL     retry-after "),
        ("whole-window", "FAIL     wait-is-needed "),
        ("floor", "FAIL     wait-is-enough "),
        ("reset-delta", "FAIL     reset "),
    ] {
        ask(form, form, 1, &[rule, "verdict: FAIL"]);
    }
    // A limiter that tells no wait, and a front that always tells the whole window: no other field betrays it.
    let untold = ["incr-then-expire", "--limit", "2", "--window", "3s", "--front", "whole-window"];
    let served = Served::start(&lab, &ground, &untold);
    lab.run(&["headers", &served.url(), "-H", "X-User: untold"])
        .exits(1)
        .prints(&["FAIL     wait-is-needed "]);
    assert_eq!(served.end(), Some(0));
    // A wait that nobody has the patience for, and a limit that is not reached.
    let long = ["fixed-window-lua", "--limit", "5", "--window", "600s"];
    let served = Served::start(&lab, &ground, &long);
    let url = served.url();
    let few = ["headers", url.as_str(), "-H", "X-User: few", "--requests", "3"];
    lab.run(&few).exits(4).prints(&["none of 3 requests was refused", "3 admitted"]);
    let done = lab.run(&["headers", url.as_str(), "-H", "X-User: many", "--format", "json"]).exits(4);
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((&told["verdict"], &told["requests"]["refused"]), (&"unknown".into(), &1.into()));
    assert!(done.stdout.contains("--patience"), "{}", done.stdout);
    // What takes no such request is not judged.
    lab.run(&["headers", url.as_str(), "-H", "X-Cost: 0"]).exits(2).says(&["400"]);
    ground.end().await;
}

#[test]
fn what_cannot_be_asked_is_told_with_what_to_do() {
    let lab = Lab::new();
    for (args, code, says) in [
        (vec!["headers"], 2, "URL"),
        (vec!["headers", "https://localhost/"], 2, "TLS"),
        (vec!["headers", "localhost:80"], 2, "http://HOST"),
        (vec!["headers", "http://127.0.0.1:1/", "-H", "nonsense"], 2, "Name: value"),
        (vec!["headers", "http://127.0.0.1:1/", "--requests", "0"], 2, "--requests"),
        (vec!["headers", "http://127.0.0.1:1/"], 3, "does not answer"),
    ] {
        lab.run(&args).exits(code).says(&[says]);
    }
}

/// Each broken history is convicted by the rule that it breaks, and by no other that comes before.
#[test]
fn each_rule_of_the_headers_has_a_history_that_breaks_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/histories");
    let report = analyze::report(&analyze::read(&folder.join("headers-honest.bad.jsonl")).unwrap());
    let broken = [
        ("fixed-window-lua", "status", "the limiter had refused it"),
        ("gcra-lua", "retry-after", "without Retry-After"),
        ("sliding-log-lua", "retry-after", "Retry-After: 0"),
        ("atomic-throttle", "retry-after", "neither whole seconds nor a date"),
        ("token-bucket-lua", "wait-is-enough", "waited out, op 2 was refused again"),
        ("sliding-counter-lua", "wait-is-enough", "1000 ms, too short: it is 1400 ms"),
        ("laravel-throttle", "wait-is-needed", "op 2 was admitted more than a second before its end"),
        ("get-then-incr", "wait-is-needed", "3000 ms, longer than needed: it is 1400 ms"),
        ("leaky-bucket-lua", "reset", "no number of seconds"),
        ("cost-based", "reset", "no Unix time near its own date"),
        ("login-guard", "remaining", "more than ratelimit-limit: 2"),
        ("multi-limit", "remaining", "more was left, and no time for it to come back"),
        ("quota-by-period", "families", "RateLimit-Limit: 2 and X-RateLimit-Limit: 20"),
        ("laravel-attempt", "families", "two moments"),
        ("two-key-bucket", "problem", "application/json"),
        ("watch-multi-bucket", "problem", "a problem of status 500"),
        ("token-reservation", "problem", "no JSON object"),
        ("static-split", "remaining", "remaining: 2, where a call that costs 1 was refused"),
    ];
    assert_eq!(report.cells.len(), broken.len());
    for (limiter, rule, part) in broken {
        let found = check(crate::support::cell(&report, limiter), "headers-honest");
        let witness = found.witness.as_deref().unwrap_or_else(|| panic!("{limiter}: {found:?}"));
        assert!(witness.starts_with(rule) && witness.contains(part), "{limiter}: {witness}");
    }
}

/// What is found of a service of which nothing is known but its answers, each with when it came in ms.
fn found_of(answers: &[(i64, Value)]) -> (Verdict, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/histories");
    let text = std::fs::read_to_string(folder.join("headers-honest.good.jsonl")).unwrap();
    let run = text.lines().next().unwrap();
    let cell = text.lines().find(|l| l.contains(r#""limiter":"gcra-lua""#)).unwrap();
    let mut builder = Builder::default();
    let mut line = |text: &str| builder.line(text).unwrap();
    line(run);
    line(cell);
    line(r#"{"type":"round","index":1,"at":0}"#);
    let mut last = 0;
    for (op, (at_ms, said)) in answers.iter().enumerate() {
        let (at, allowed) = (at_ms * 1_000_000, said["status"] == 200);
        last = at + 500_000;
        let mut http = said.clone();
        http["type"] = "http".into();
        http["op"] = op.into();
        line(&format!(r#"{{"type":"invoke","op":{op},"node":0,"key":"k","cost":1,"at":{at}}}"#));
        line(&http.to_string());
        line(&format!(r#"{{"type":"ok","op":{op},"allowed":{allowed},"source":"store","at":{last}}}"#));
    }
    line(&format!(r#"{{"type":"probes-complete","at":{last}}}"#));
    let calls = answers.len();
    line(&format!(r#"{{"type":"round-end","at":{},"ops":{calls},"clock_step_ns":0}}"#, last + 1));
    let report = analyze::report(&builder.finish().unwrap());
    let found = check(&report.cells[0], "headers-honest");
    (found.verdict, found.witness.clone().or_else(|| found.why.clone()).unwrap())
}

const DATE: &str = "Mon, 30 Nov 2026 08:29:14 GMT";

fn admitted(left: u64) -> Value {
    json!({"status": 200, "date": DATE, "x": {"limit": "3", "remaining": left.to_string(), "reset": "1796027355"}})
}

fn refused(wait_s: u64) -> Value {
    let problem = json!({"type": "urn:example:rate-limited", "title": "too many requests", "status": 429});
    json!({"status": 429, "date": DATE, "retry_after": wait_s.to_string(), "media_type": "application/problem+json",
           "problem": problem, "x": {"limit": "3", "remaining": "0", "reset": (1_796_027_354 + wait_s).to_string()}})
}

/// Three at once, then no more for a second.
fn honest() -> Vec<(i64, Value)> {
    vec![(0, admitted(2)), (1, admitted(1)), (2, admitted(0)), (3, refused(1)), (1100, admitted(2))]
}

#[test]
fn what_nothing_was_held_against_is_unknown_from_outside_and_no_pass() {
    assert_eq!(found_of(&honest()).0, Verdict::Pass, "{:?}", found_of(&honest()));
    let with = |change: &dyn Fn(usize, &mut Value)| {
        let mut answers = honest();
        answers.iter_mut().enumerate().for_each(|(n, (_, said))| change(n, said));
        found_of(&answers)
    };
    let x = |field: &'static str, values: [&'static str; 5]| {
        move |n: usize, said: &mut Value| said["x"][field] = values[n].into()
    };
    use Verdict::{Fail, Unknown};
    for (what, found, verdict, part) in [
        ("always nothing left", with(&x("remaining", ["0"; 5])), Unknown, "more was given than was told"),
        (
            "more left than before",
            with(&x("remaining", ["0", "2", "0", "0", "2"])),
            Fail,
            "were admitted before a call",
        ),
        (
            "a limit that changes",
            with(&x("limit", ["3", "1000", "3", "3", "3"])),
            Unknown,
            "3 in one answer and 1000",
        ),
        ("a limit nobody got", with(&x("limit", ["1000000"; 5])), Unknown, "said to be 1000000"),
        ("a reset that is over", with(&x("reset", ["1795950000"; 5])), Fail, "before its own date"),
        ("a reset far away", with(&x("reset", ["1799027355"; 5])), Unknown, "is there again"),
        (
            "a clock and its moments an hour behind",
            with(&|_, said| {
                said["date"] = "Mon, 30 Nov 2026 07:29:14 GMT".into();
                said["x"]["reset"] = "1796023755".into();
            }),
            Unknown,
            "from the one of this machine",
        ),
        (
            "fields of a later draft",
            with(&|_, said| said["unread"] = "ratelimit".into()),
            Unknown,
            "later draft",
        ),
    ] {
        assert!(found.0 == verdict && found.1.contains(part), "{what}: {found:?}");
    }
}

#[test]
fn a_wait_is_looked_into_where_it_could_be_too_long() {
    let begin = || vec![(0, admitted(2)), (1, admitted(1)), (2, admitted(0))];
    let then = |more: &[(i64, Value)]| found_of(&[&begin()[..], more].concat());
    // Always all of the window, also a second before its end: whoever comes back at that is let in.
    let constant = then(&[(3, refused(10)), (8903, refused(10)), (10_009, admitted(2))]);
    assert!(constant.0 == Verdict::Fail && constant.1.starts_with("wait-is-needed"), "{constant:?}");
    // Two seconds for what may take six tenths: refused after half of one tells nothing.
    let early = then(&[(3, refused(2)), (503, refused(2)), (2600, admitted(2))]);
    assert!(early.0 == Verdict::Unknown && early.1.contains("wait-is-needed"), "{early:?}");
    let late = then(&[(3, refused(2)), (903, refused(2)), (3000, admitted(2))]);
    assert_eq!(late.0, Verdict::Pass, "{late:?}");
}

/// A service may say anything, however large, in any of its fields.
#[test]
fn no_field_of_an_answer_breaks_the_checker_or_passes_as_honest() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/histories");
    let text = std::fs::read_to_string(folder.join("headers-honest.good.jsonl")).unwrap();
    let most = u64::MAX.to_string();
    for said in
        [most.as_str(), "18446744073709551616", "-1", "", " ", "1.0", "0x10", "\u{661}", "\u{fffd}", "NaN"]
    {
        let mut builder = Builder::default();
        for line in text.lines() {
            let mut event: Value = serde_json::from_str(line).unwrap();
            if event["type"] == "http" {
                replace(&mut event, said);
            }
            builder.line(&event.to_string()).unwrap();
        }
        let report = analyze::report(&builder.finish().unwrap());
        for cell in report.cells.iter().filter(|c| c.limiter != "in-memory") {
            let found = check(cell, "headers-honest");
            assert_eq!(found.verdict, Verdict::Fail, "{said:?}: {found:?}");
        }
    }
}

/// Every text of an answer, and the number of a problem.
fn replace(value: &mut Value, said: &str) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut().filter(|(name, _)| *name != "type") {
                match name.as_str() {
                    "retry_after_ms" => *member = u64::MAX.into(),
                    _ => replace(member, said),
                }
            }
        }
        Value::String(text) => said.clone_into(text),
        _ => {}
    }
}

on_both! {
    a_broken_front_is_convicted_whatever_decides_behind_it
}

fn as_expected(report: &Report) {
    for check in report.cells.iter().flat_map(|c| &c.checks) {
        assert_eq!(check.outcome, Standing::AsExpected, "{check:?}");
    }
}

mod cases {
    use super::*;

    pub async fn a_broken_front_is_convicted_whatever_decides_behind_it(backend: &str) {
        let lab = Lab::new();
        let report = lab.run(&["headers-honest", "--backend", backend, "--format", "json"]).exits(0).report();
        as_expected(&report);
        assert_eq!(report.cells.len(), 3 * Form::ALL.len());
        // What was said is on record, so that it is judged alike from there.
        let history = analyze::read(&lab.runs()[0].join("history.jsonl")).unwrap();
        let again = analyze::report(&history);
        let found = |report: &Report| -> Vec<_> {
            report.cells.iter().map(|c| check(c, "headers-honest").witness.clone()).collect()
        };
        assert_eq!(found(&report), found(&again));
        for cell in &history.cells {
            let round = &cell.rounds[0];
            assert_eq!(round.http.len(), round.ops.len(), "{:?}", cell.header.variation);
            let zero = |a: &rl_lab::model::http::Answer| a.retry_after() == Some(RetryAfter::Seconds(0));
            let zeros = round.http.values().any(zero);
            assert_eq!(zeros, cell.header.variation.as_deref() == Some("zero"));
        }
        lab.assert_nothing_is_left(backend).await;
    }
}

#[tokio::test]
async fn a_node_behind_http_decides_as_one_that_is_not() {
    if !usable("local").await {
        return;
    }
    // The model is compared call by call: round trips and clock readings come through.
    let lab = Lab::new();
    let text = include_str!("../../scenarios/equivalence.toml");
    let http = text.replacen("\n[workload]\n", "\n[workload]\nnodes_as = \"http\"\n", 1);
    assert_ne!(text, http);
    lab.file("http.toml", &http);
    let limiters = "fixed-window-lua,token-bucket-lua,gcra-lua";
    let run = ["run", "http.toml", "--backend", "local", "--format", "json", "--limiters", limiters];
    let report = lab.run(&run).exits(0).report();
    assert!(!report.cells.is_empty());
    for cell in &report.cells {
        assert_eq!(
            check(cell, "matches-model").verdict,
            Verdict::Pass,
            "{} {:?}",
            cell.limiter,
            cell.variation
        );
    }
}

#[test]
fn a_broken_front_belongs_to_nodes_behind_http() {
    let lab = Lab::with_nothing();
    let text = include_str!("../../scenarios/headers-honest.toml");
    lab.file("mine.toml", &text.replacen("nodes_as = \"http\"\n", "", 1));
    lab.run(&["run", "mine.toml"]).exits(2).says(&["nodes_as = \"http\""]);
}

#[test]
fn what_a_retrying_client_needs_is_asked_for_and_belongs_to_it_alone() {
    let lab = Lab::with_nothing();
    let text = include_str!("../../scenarios/retry.toml");
    for (from, to, says) in [
        ("successes = 100\n", "", "needs successes and a behaviour"),
        ("behaviour = \"at-once\"\n", "", "needs successes and a behaviour"),
        ("behaviour = \"at-once\"\n", "behaviour = \"fixed\"\n", "needs every"),
        ("behaviour = \"at-once\"\n", "behaviour = \"at-once\"\nevery = \"1s\"\n", "belongs to behaviour"),
        ("behaviour = \"at-once\"\n", "behaviour = \"atonce\"\n", "did you mean `at-once`?"),
        ("shape = \"retry\"", "shape = \"burst\"", "belongs to shape \"retry\""),
    ] {
        assert!(text.contains(from), "{from}");
        lab.file("mine.toml", &text.replacen(from, to, 1));
        lab.run(&["run", "mine.toml"]).exits(2).says(&[says]);
    }
}

#[tokio::test]
async fn who_ignores_a_refusal_asks_most_and_who_paces_itself_is_not_refused() {
    if !usable("local").await {
        return;
    }
    let report = Lab::new().run(&["retry", "--backend", "local", "--format", "json"]).exits(0).report();
    as_expected(&report);
    for limiter in ["token-bucket-lua", "gcra-lua"] {
        let of = |variation: &str, figure: Figure| {
            let is = |c: &&rl_lab::model::report::CellReport| {
                c.limiter == limiter && c.variation.as_deref() == Some(variation)
            };
            report.cells.iter().find(is).unwrap().figures[&figure]
        };
        let sent = |variation| of(variation, Figure::RequestsSent);
        assert!(report.cells.iter().all(|c| c.rounds[0].admitted == 100), "each got what it needs");
        // 20 at once and 20 after each second; on a slow machine more come back meanwhile.
        assert!((101.0..=104.0).contains(&sent("Retry-After")), "{}", sent("Retry-After"));
        assert!(sent("Retry-After") < sent("fixed 50 ms") && sent("fixed 50 ms") < sent("at once"));
        assert_eq!(of("paced by Remaining", Figure::Refused), 0.0);
        assert_eq!(sent("paced by Remaining"), 100.0);
    }
}
