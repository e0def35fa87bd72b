//! `rl-lab linearizable FILE`: whether a history that another tool recorded can be explained.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use super::{Answer, Refusal, args, output};
use crate::model::contract::Denials;
use crate::model::units::{Limit, parse_millis};
use crate::model::verdict::Verdict;
use crate::runner::exit::Exit;
use crate::runner::linearizable::{self, Foreign, OfKey, Witness};

pub fn command() -> Command {
    Command::new("linearizable")
        .about("Say whether a Jepsen-style history of a register or a limiter can be explained")
        .long_about(
            "Say whether a history that another tool recorded is linearizable: whether calls that took effect one \
             at a time, each between its invocation and its completion, explain what every caller was told.\n\n\
             FILE is JSON as Jepsen and Knossos export it: an array of events, or one object per line, with the \
             fields process, type (invoke, ok, fail or info), f, value, time in nanoseconds (without any, the order \
             of the events counts), and key where there are several objects, which are judged each by itself. Names \
             may begin with a colon.\n\n\
             register: read, write with a value, cas with [from, to].\n\
             fixed-window: acquire with a cost (null is 1), answered with true or false; all in one window.",
        )
        .after_help(
            "Exit codes: 0 linearizable · 1 not, with the shortest beginning that is not · 2 usage or bad input \
             · 4 no answer before the deadline",
        )
        .arg(Arg::new("file").value_name("FILE").required(true).help("The history, or - for stdin"))
        .arg(
            Arg::new("model")
                .long("model")
                .short('m')
                .value_name("MODEL")
                .value_parser(["register", "fixed-window"])
                .default_value("register")
                .help("What the calls were made to"),
        )
        .arg(
            Arg::new("limit")
                .long("limit")
                .value_name("N")
                .value_parser(|text: &str| text.parse::<Limit>())
                .help("What a fixed window admits"),
        )
        .arg(
            Arg::new("denials")
                .long("denials")
                .value_name("HOW")
                .value_parser(["free", "charged"])
                .default_value("free")
                .help("Whether a refused call takes its cost all the same; no matter where all cost 1"),
        )
        .arg(
            Arg::new("deadline")
                .long("deadline")
                .value_name("SPAN")
                .value_parser(|text: &str| parse_millis(text, "a deadline").map(Duration::from_millis))
                .default_value("10s")
                .help("How long to search before the answer is unknown"),
        )
        .arg(args::format(&["table", "json"]))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let denials = if text("denials") == "charged" { Denials::Charged } else { Denials::Free };
    let limit = matches.get_one::<Limit>("limit").copied();
    let object = linearizable::object(&text("model"), limit, denials).map_err(Refusal::usage)?;
    let file = text("file");
    let content = read(&file).map_err(|e| Refusal::usage(format!("cannot read {file}: {e}")))?;
    let wrong = |e: linearizable::BadInput| Refusal::usage(format!("{file}: {e}"));
    let history = Foreign::read(&content).map_err(wrong)?;
    let deadline = matches.get_one::<Duration>("deadline").copied().unwrap_or_default();
    let keys = linearizable::judge(&history, object, until(deadline)).map_err(wrong)?;
    let verdict = linearizable::overall(&keys);
    let exit = match verdict {
        Verdict::Pass | Verdict::NotApplicable => Exit::Ok,
        Verdict::Fail => Exit::Failed,
        Verdict::Unknown => Exit::Unknown,
    };
    let told = if text("format") == "json" {
        format!("{:#}\n", as_json(&file, &text("model"), verdict, exit, &keys))
    } else {
        table(verdict, &keys)
    };
    output::print(&told).map_err(Refusal::environment)?;
    Ok(exit)
}

fn read(file: &str) -> std::io::Result<String> {
    if file == "-" { std::io::read_to_string(std::io::stdin().lock()) } else { std::fs::read_to_string(file) }
}

/// Whether the time is up. A look at the clock takes longer than a step: every so often is enough.
#[expect(clippy::disallowed_methods, reason = "a deadline that the user gave")]
fn until(deadline: Duration) -> impl FnMut() -> bool {
    let began = Instant::now();
    let mut steps = 0u32;
    let mut over = deadline.is_zero();
    move || {
        steps = steps.wrapping_add(1);
        over = over || (steps.is_multiple_of(64) && began.elapsed() >= deadline);
        over
    }
}

fn as_json(file: &str, model: &str, verdict: Verdict, exit: Exit, keys: &[OfKey]) -> Value {
    let keys: Vec<Value> = keys
        .iter()
        .map(|k| {
            json!({
                "key": k.key,
                "calls": k.calls,
                "unanswered": k.unanswered,
                "verdict": k.verdict,
                "because": k.because,
                "witness": k.witness.as_ref().map(|w| json!({"at": w.at, "open": w.open, "before": w.before})),
            })
        })
        .collect();
    json!({"schema": 1, "file": file, "model": model, "verdict": verdict, "exit": exit.code(), "keys": keys})
}

fn table(verdict: Verdict, keys: &[OfKey]) -> String {
    let mut text = String::new();
    for k in keys {
        let key = k.key.as_ref().map(|key| format!("key {key}: ")).unwrap_or_default();
        let unanswered = match k.unanswered {
            0 => String::new(),
            n => format!(", {n} of them without an answer"),
        };
        let label = output::label(k.verdict);
        let _ = writeln!(text, "{label:<8} {key}{} calls{unanswered}; {}", k.calls, k.because);
        if let Some(witness) = &k.witness {
            text.push_str(&explain(witness));
        }
    }
    let whole = match verdict {
        Verdict::Pass => "linearizable",
        Verdict::Fail => "not linearizable",
        _ if keys.iter().all(|k| k.calls == 0) => "unknown: there is no call to judge",
        _ => "unknown: a longer --deadline may tell",
    };
    text + whole + "\n"
}

fn explain(witness: &Witness) -> String {
    const SHOWN: usize = 12;
    let mut text = String::new();
    for open in &witness.open {
        let _ = writeln!(text, "         open beside it: {open}");
    }
    match &witness.before {
        Some(before) if before.is_empty() => {
            let _ = writeln!(text, "         nothing had ended before");
        }
        Some(before) => {
            let from = before.len().saturating_sub(SHOWN);
            let left_out = if from > 0 { format!(" ({from} earlier ones left out)") } else { String::new() };
            let _ = writeln!(text, "         what had ended before it fits in this order{left_out}:");
            for call in &before[from..] {
                let _ = writeln!(text, "           {call}");
            }
        }
        None => {}
    }
    text
}
