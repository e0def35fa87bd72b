//! `rl-lab headers URL`: whether what a service says of its limit is true.

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;

use super::{Answer, Refusal, args, output};
use crate::limiters::external::http::Target;
use crate::model::units::parse_millis;
use crate::model::verdict::Verdict;
use crate::runner::exit::Exit;
use crate::runner::headers::{self, Ask, Cannot, Told};

const MOST_REQUESTS: i64 = 10_000;

pub fn command() -> Command {
    Command::new("headers")
        .about("Ask a service until it refuses, and judge what it says of its limit")
        .long_about(
            "Ask a service with GET requests, one after the other, until it answers 429. Then come back when that \
             says to (and, where it says two seconds or more, once before), and judge every answer by the rules of \
             the check headers-honest: Retry-After, RateLimit-* and X-RateLimit-*, problem+json. The caller that \
             the service takes these requests for must be yours alone meanwhile: other requests would be \
             taken for what these did.",
        )
        .after_help(
            "Exit codes: 0 all of it is true · 1 something is not · 2 usage, or the service takes no such request · \
             3 nobody answers there · 4 too little was seen to tell",
        )
        .arg(Arg::new("url").value_name("URL").required(true).help("http://HOST[:PORT][/PATH]"))
        .arg(
            Arg::new("header")
                .long("header")
                .short('H')
                .value_name("NAME: VALUE")
                .action(ArgAction::Append)
                .help("A field of each request, such as 'X-User: a'; may be given again"),
        )
        .arg(
            Arg::new("requests")
                .long("requests")
                .value_name("N")
                .value_parser(clap::value_parser!(u32).range(1..=MOST_REQUESTS))
                .default_value("100")
                .help("Requests until it refuses, at most"),
        )
        .arg(
            Arg::new("patience")
                .long("patience")
                .value_name("SPAN")
                .value_parser(|text: &str| parse_millis(text, "patience").map(Duration::from_millis))
                .default_value("90s")
                .help("The longest wait that is waited out"),
        )
        .arg(args::format(&["table", "json"]))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let url = matches.get_one::<String>("url").cloned().unwrap_or_default();
    let mut target = Target::parse(&url).map_err(Refusal::usage)?;
    for field in matches.get_many::<String>("header").into_iter().flatten() {
        target = target.with_field(field).map_err(Refusal::usage)?;
    }
    let ask = Ask {
        target,
        requests: *matches.get_one("requests").expect("it has a default"),
        patience: *matches.get_one("patience").expect("it has a default"),
    };
    let told = args::runtime()?.block_on(headers::ask(ask)).map_err(|cannot| match cannot {
        Cannot::Reach(why) => Refusal::environment(format!("{url} does not answer: {why}")),
        Cannot::Use(why) => Refusal::usage(format!("{url}: {why}")),
    })?;
    let exit = match told.finding.verdict {
        Verdict::Pass => Exit::Ok,
        Verdict::Fail => Exit::Failed,
        Verdict::Unknown | Verdict::NotApplicable => Exit::Unknown,
    };
    let json = matches.get_one::<String>("format").is_some_and(|f| f == "json");
    let text = if json { as_json(&url, exit, &told) } else { table(&told) };
    output::print(&text).map_err(Refusal::environment)?;
    Ok(exit)
}

fn as_json(url: &str, exit: Exit, told: &Told) -> String {
    let rules: Vec<_> = told
        .rules
        .iter()
        .map(|r| json!({"rule": r.name, "verdict": r.finding.verdict, "because": r.finding.because}))
        .collect();
    let all = json!({
        "schema": 1,
        "url": url,
        "verdict": told.finding.verdict,
        "exit": exit.code(),
        "requests": {"admitted": told.admitted, "refused": told.refused, "unanswered": told.unanswered},
        "rules": rules,
        "answer": told.answer,
        "notes": told.notes,
    });
    format!("{all:#}\n")
}

fn table(told: &Told) -> String {
    let mut text = String::new();
    for rule in &told.rules {
        let label = output::label(rule.finding.verdict);
        let _ = writeln!(text, "{label:<8} {:<15} {}", rule.name, rule.finding.because);
    }
    let Told { admitted, refused, unanswered, .. } = told;
    let _ = writeln!(text, "requests: {admitted} admitted, {refused} refused, {unanswered} not answered");
    for note in &told.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let _ = writeln!(text, "verdict: {}", output::label(told.finding.verdict));
    text
}
