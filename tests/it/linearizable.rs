//! `rl-lab linearizable`: histories of other tools. What each means is typed by hand.

use std::io::Write;
use std::process::Stdio;

use crate::support::{Done, Lab};

fn judged(text: &str, more: &[&str]) -> Done {
    let lab = Lab::with_nothing();
    lab.file("history.json", text);
    lab.run(&[&["linearizable", "history.json"], more].concat())
}

/// One object per line: process, type, f, value, time.
fn events(events: &[(u32, &str, &str, &str, i64)]) -> String {
    let one = |(process, kind, f, value, time): &(u32, &str, &str, &str, i64)| {
        format!(r#"{{"process":{process},"type":"{kind}","f":"{f}","value":{value},"time":{time}}}"#)
    };
    events.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Written and over, then read as it was before.
const STALE: [(u32, &str, &str, &str, i64); 6] = [
    (0, "invoke", "write", "1", 10),
    (0, "ok", "write", "1", 20),
    (1, "invoke", "write", "2", 30),
    (1, "ok", "write", "2", 40),
    (2, "invoke", "read", "null", 50),
    (2, "ok", "read", "1", 60),
];

#[test]
fn a_stale_read_is_convicted_and_its_cure_is_not() {
    let stale = judged(&events(&STALE), &[]).exits(1);
    let stale = stale.prints(&["FAIL", "not linearizable", "read → 1 of process 2 (lines 5 to 6)"]);
    stale.prints(&["write 1 of process 0 (lines 1 to 2)\n           write 2 of process 1 (lines 3 to 4)"]);
    // The second write was still open: the read may have come first.
    let mut open = STALE;
    open[3].4 = 55;
    open.swap(3, 4);
    judged(&events(&open), &[]).exits(0).prints(&["PASS", "3 calls", "linearizable"]);
    // Nobody knows about it: it may take effect later, or never.
    let mut lost = STALE;
    lost[3].1 = "info";
    judged(&events(&lost), &[]).exits(0).prints(&["1 of them without an answer"]);
    // It certainly had none.
    let mut failed = STALE;
    failed[3].1 = "fail";
    judged(&events(&failed), &[]).exits(0).prints(&["2 calls"]);
}

#[test]
fn the_witness_ends_where_the_trouble_begins() {
    // A write is open all the time; what comes after the wrong read is not needed.
    let text = events(&[
        (9, "invoke", "write", "7", 5),
        (0, "invoke", "write", "1", 10),
        (0, "ok", "write", "1", 20),
        (1, "invoke", "read", "null", 30),
        (1, "ok", "read", "3", 40),
        (1, "invoke", "read", "null", 50),
        (1, "ok", "read", "1", 60),
    ]);
    let done = judged(&text, &["--format", "json"]).exits(1);
    let found: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (&found["verdict"], &found["exit"], &found["model"]),
        (&"fail".into(), &1.into(), &"register".into())
    );
    let witness = &found["keys"][0]["witness"];
    assert_eq!(witness["at"], "read → 3 of process 1 (lines 4 to 5)");
    assert_eq!(witness["open"], serde_json::json!(["write 7 of process 9 (line 1, without an end)"]));
    assert_eq!(witness["before"], serde_json::json!(["write 1 of process 0 (lines 2 to 3)"]));
}

#[test]
fn an_array_with_keywords_is_read_as_exporters_write_it() {
    let text = r#"[
      {":process": 0, ":type": ":invoke", ":f": ":cas", ":value": [null, 1], ":time": 1, ":index": 0},
      {":process": 1, ":type": ":invoke", ":f": ":cas", ":value": [null, 2], ":time": 2},
      {":process": ":nemesis", ":type": ":info", ":f": ":kill", ":value": null, ":time": 3},
      {":process": 0, ":type": ":ok", ":f": ":cas", ":value": [null, 1], ":time": 4},
      {":process": 1, ":type": ":SECOND", ":f": ":cas", ":value": [null, 2], ":time": 5}
    ]"#;
    judged(&text.replace(":SECOND", ":fail"), &[]).exits(0);
    // Both found nothing there and left something: one of them cannot have.
    judged(&text.replace(":SECOND", ":ok"), &[]).exits(1).prints(&["cas [null,2]"]);
    judged(&text.replace(":SECOND", ":maybe"), &[]).exits(2).says(&["history.json: line 6", "not 'maybe'"]);
}

#[test]
fn without_times_the_order_of_the_events_counts() {
    let untimed = |order: [usize; 6]| {
        let events: Vec<String> = order
            .map(|n| STALE[n])
            .iter()
            .map(|(process, kind, f, value, _)| {
                format!(r#"{{"process":{process},"type":"{kind}","f":"{f}","value":{value}}}"#)
            })
            .collect();
        format!("[{}]", events.join(",\n"))
    };
    judged(&untimed([0, 1, 2, 3, 4, 5]), &[]).exits(1);
    judged(&untimed([0, 1, 2, 4, 3, 5]), &[]).exits(0);
    // On one line, where a call without effect is not taken for its neighbours.
    let failed = untimed([0, 1, 2, 3, 4, 5]).replace('\n', "").replacen(
        r#""ok","f":"write","value":2"#,
        r#""fail","f":"write","value":2"#,
        1,
    );
    judged(&failed, &[]).exits(0).prints(&["2 calls"]);
}

#[test]
fn keys_are_objects_of_their_own() {
    let one = |key: &str, read: u32| {
        let lines = events(&STALE[..2]) + "\n" + &events(&[(2, "invoke", "read", "null", 50)]);
        let end = events(&[(2, "ok", "read", &read.to_string(), 60)]);
        (lines + "\n" + &end).replace(r#"{"process":"#, &format!(r#"{{"key":"{key}","process":1{key}"#))
    };
    let done = judged(&format!("{}\n{}", one("1", 1), one("2", 5)), &[]).exits(1);
    done.prints(&["PASS     key 1: 2 calls", "FAIL     key 2: 2 calls"]);
    judged(&format!("{}\n{}", one("1", 1), one("2", 1)), &[]).exits(0);
}

#[test]
fn a_limiter_is_judged_as_one_window() {
    let told = |second: &str, third: &str| {
        events(&[
            (0, "invoke", "acquire", "3", 1),
            (1, "invoke", "acquire", "2", 2),
            (0, "ok", "acquire", "true", 3),
            (1, "ok", "acquire", second, 4),
            (2, "invoke", "acquire", "null", 5),
            (2, "ok", "acquire", third, 6),
        ])
    };
    let window = |text: &str, more: &[&str]| judged(text, &[&["--model", "fixed-window"], more].concat());
    // Three, and two more that do not fit into four; then one that does, if those two are not charged.
    window(&told("false", "true"), &["--limit", "4"]).exits(0);
    window(&told("false", "true"), &["--limit", "4", "--denials", "charged"]).exits(1);
    window(&told("true", "true"), &["--limit", "4"]).exits(1).prints(&["acquire 2 → true of process 1"]);
    window(&told("true", "true"), &["--limit", "6"]).exits(0);
    window(&told("true", "true"), &[]).exits(2).says(&["--limit"]);
    window(&told("true", "9"), &["--limit", "4"]).exits(2).says(&["line 6", "true or false, not 9"]);
    judged(&told("true", "true"), &["--limit", "4"]).exits(2).says(&["--model fixed-window"]);
    judged(&told("true", "true"), &[]).exits(2).says(&["line 1", "read, write and cas, not 'acquire'"]);
}

#[test]
fn bad_input_is_told_with_its_line() {
    let fine = events(&STALE[..2]);
    for (more, line, why) in [
        ("{", 3, "has no end"),
        ("nonsense", 3, "JSON objects"),
        (r#"{"process":1,}"#, 3, "trailing comma"),
        (r#"{"type":"invoke","f":"read","value":null,"time":30}"#, 3, "without 'process'"),
        (r#"{"process":1,"f":"read","value":null,"time":30}"#, 3, "without 'type'"),
        (r#"{"process":1,"type":"invoke","f":"read","value":null}"#, 3, "without a time"),
        (r#"{"process":1,"type":"invoke","f":"read","value":null,"time":"now"}"#, 3, "nanoseconds"),
        (r#"{"process":1,"type":"ok","f":"read","value":1,"time":30}"#, 3, "did not begin"),
        (r#"{"process":1,"type":"invoke","f":"cas","value":3,"time":30}"#, 3, "[from, to]"),
    ] {
        let line = format!("history.json: line {line}: ");
        judged(&format!("{fine}\n{more}\n"), &[]).exits(2).says(&[&line, why]);
    }
    let twice = events(&[STALE[0], STALE[0]]);
    judged(&twice, &[]).exits(2).says(&["line 2", "that of line 1 is open"]);
    let back = events(&[(0, "invoke", "write", "1", 10), (0, "ok", "write", "1", 9)]);
    judged(&back, &[]).exits(2).says(&["line 2", "before its beginning on line 1"]);
    judged(&format!("[{}", events(&STALE[..1])), &[]).exits(2).says(&["the array has no end"]);
    judged("[] []", &[]).exits(2).says(&["after the end of the array"]);
    Lab::with_nothing().run(&["linearizable", "nowhere.json"]).exits(2).says(&["cannot read nowhere.json"]);
    let json = judged("{", &["--format", "json"]).exits(2).report();
    assert!(json.error.is_some_and(|e| e.contains("line 1")));
}

#[test]
fn no_call_is_no_pass() {
    for nothing in ["", "[]", "\n\n"] {
        judged(nothing, &[]).exits(4).prints(&["no call"]);
    }
}

/// Forty writes at once, and a value that nobody wrote: every order of every choice of them is ruled
/// out one by one, which takes longer than anybody waits.
#[test]
fn a_search_without_end_ends_at_its_deadline() {
    let mut text = Vec::new();
    text.extend((0..40).map(|n| (n, "invoke", "write", n + 1, i64::from(n))));
    text.extend((0..40).map(|n| (n, "ok", "write", n + 1, 100 + i64::from(n))));
    text.extend([(50, "invoke", "read", 99, 200), (50, "ok", "read", 99, 201)]);
    let lines: Vec<String> = text
        .into_iter()
        .map(|(process, kind, f, value, time)| {
            let value = value.to_string();
            events(&[(process, kind, f, value.as_str(), time)])
        })
        .collect();
    let done = judged(&lines.join("\n"), &["--deadline", "200ms"]).exits(4);
    done.prints(&["unknown", "in the time there was", "--deadline"]);
}

#[test]
fn a_history_may_come_from_a_pipe() {
    let lab = Lab::with_nothing();
    let mut command = lab.command(&["linearizable", "-"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(events(&STALE).as_bytes()).unwrap();
    Done::from(child.wait_with_output().unwrap()).exits(1).prints(&["not linearizable"]);
}
