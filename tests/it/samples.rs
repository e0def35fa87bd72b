//! The samples that `rl-lab init` writes in other languages, line by line, against a store that is no Redis: as far as
//! their interpreter is here.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};

use rl_lab::model::config::Config;
use serde_json::{Value, json};

use crate::support::Lab;

const LIMIT: i64 = 3;

/// Each with what shows that its language is here.
const SAMPLES: [(&str, &[&str]); 4] = [
    ("python", &["python3", "--version"]),
    ("node", &["node", "--version"]),
    ("php", &["php", "--version"]),
    ("go", &["go", "version"]),
];

struct Adapter {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Adapter {
    fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// Ends its stdin and answers with its exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hello(port: u16, cold: bool) -> String {
    let redis = format!("redis://127.0.0.1:{port}");
    json!({"hello": 1, "redis": redis, "limit": LIMIT, "window_ms": 60_000, "node": 0, "clock_offset_ms": 0,
           "connections": 2, "cold_pool": cold})
    .to_string()
}

/// A sample that `init` has just written, started as its file says; nothing where its language is not here.
fn begun(lab: &Lab, language: &str, shows: &[&str]) -> Option<Adapter> {
    let mut version = lab.program(shows[0]);
    let version = version.args(&shows[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        println!("skipped: no {} here", shows[0]);
        return None;
    }
    lab.run(&["init", "--language", language, "--force"]).exits(0);
    let file = lab.path("rl-lab.toml");
    let config = Config::parse(&file, &std::fs::read_to_string(&file).unwrap()).unwrap();
    let command = &config.limiters["sample"].command;
    let mut program = lab.program(&command[0]);
    program.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = program.spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
    Some(Adapter { child, stdin, lines: BufReader::new(stdout) })
}

/// Answers every script as the sample's would, with one count for all keys; a key named `broken` gets an error.
fn store() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let count = std::sync::Arc::new(AtomicI64::new(0));
        for stream in listener.incoming().flatten() {
            let count = std::sync::Arc::clone(&count);
            std::thread::spawn(move || serve(stream, &count));
        }
    });
    port
}

fn serve(stream: TcpStream, count: &AtomicI64) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let words = command(&mut reader)?;
        let reply = match words.get(3).map(String::as_str) {
            Some("broken") => "-ERR no such luck\r\n".to_owned(),
            _ if count.fetch_add(1, Ordering::SeqCst) < LIMIT => {
                format!("*3\r\n:1\r\n:{}\r\n:0\r\n", count.load(Ordering::SeqCst))
            }
            _ => format!("*3\r\n:0\r\n:{LIMIT}\r\n:59000\r\n"),
        };
        writer.write_all(reply.as_bytes()).ok()?;
    }
}

fn command(reader: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let number = |of: &mut BufReader<TcpStream>| -> Option<usize> {
        let mut line = String::new();
        of.read_line(&mut line).ok()?;
        line.trim_end().get(1..)?.parse().ok()
    };
    let words = number(reader)?;
    let mut all = Vec::new();
    for _ in 0..words {
        let length = number(reader)?;
        let mut word = vec![0; length + 2];
        reader.read_exact(&mut word).ok()?;
        all.push(String::from_utf8_lossy(&word[..length]).into_owned());
    }
    Some(all)
}

#[test]
fn each_sample_decides_tells_errors_and_ends_with_its_stdin() {
    for (language, shows) in SAMPLES {
        let (lab, port) = (Lab::new(), store());
        let Some(mut adapter) = begun(&lab, language, shows) else { continue };
        adapter.say(&hello(port, false));
        assert_eq!(adapter.hear()["ready"], true, "{language}");
        for id in 1..=6 {
            adapter
                .say(&json!({"id": id, "op": "acquire", "key": "user", "cost": 1, "lane": id}).to_string());
        }
        let mut answers: Vec<Value> = (0..6).map(|_| adapter.hear()).collect();
        answers.sort_by_key(|a| a["id"].as_u64());
        let ids: Vec<u64> = answers.iter().map(|a| a["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6], "{language}");
        assert_eq!(answers.iter().filter(|a| a["allowed"] == true).count(), 3, "{language}: {answers:?}");
        for answer in &answers {
            assert!(answer["allowed"].is_boolean() && answer["round_trips"] == 1, "{language}: {answer}");
            assert_eq!(
                answer.get("retry_after_ms").is_some(),
                answer["allowed"] == false,
                "{language}: {answer}"
            );
        }
        adapter.say(&json!({"id": 7, "op": "acquire", "key": "broken"}).to_string());
        assert_eq!(adapter.hear()["error"]["kind"], "refused", "{language}");
        adapter.say(&json!({"id": 8, "op": "traffic"}).to_string());
        assert_eq!(adapter.hear()["error"]["kind"], "unexpected", "{language}");
        assert_eq!(adapter.end(), Some(0), "{language}");
    }
}

#[test]
fn each_sample_says_that_nothing_was_sent_where_there_is_no_store_and_what_it_cannot_follow() {
    // Nobody listens where somebody has just stopped.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (language, shows) in SAMPLES {
        let lab = Lab::new();
        let Some(mut adapter) = begun(&lab, language, shows) else { continue };
        adapter.say(&hello(free, true));
        assert_eq!(adapter.hear()["ready"], true, "{language}");
        adapter.say(&json!({"id": 1, "op": "acquire", "key": "user"}).to_string());
        let answer = adapter.hear();
        assert_eq!(
            (&answer["error"]["kind"], &answer["sent"]),
            (&json!("not-connected"), &json!(false)),
            "{language}"
        );
        adapter.say("no request");
        assert_eq!(adapter.end(), Some(2), "{language}");
        let mut adapter = begun(&lab, language, shows).unwrap();
        adapter.say(&hello(free, false));
        assert_eq!(adapter.hear()["ready"], false, "{language}");
        assert_eq!(adapter.end(), Some(2), "{language}");
    }
}
