//! `rl-lab serve-http NAME`: a limiter behind HTTP.

use std::net::SocketAddr;

use clap::{Arg, ArgMatches, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::{Answer, Refusal, args, output};
use crate::model::http::Form;
use crate::model::units::{Limit, Window};
use crate::runner::exit::Exit;
use crate::runner::serve_http::{self, How};

pub fn command() -> Command {
    let needed =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value).required(true);
    Command::new("serve-http")
        .about("Serve a limiter over HTTP: 200 or 429, Retry-After, RateLimit fields, problem+json")
        .long_about(
            "Serve a limiter over HTTP. Every request is a call, whatever its method and path. Who calls says \
             the field X-User (without it, the caller's address), and X-Cost what the call costs. Answers: 200 \
             admitted, 429 refused, 503 the limiter has no answer, 400 a field that cannot be read. Each says \
             RateLimit-Limit, -Remaining and -Reset (seconds) and X-RateLimit-Limit, -Remaining and -Reset (Unix \
             time), as far as the limiter knows; a refusal also Retry-After in whole seconds, rounded up, and a \
             problem (RFC 9457) with retry_after_ms. GET /metrics is for Prometheus. It prints where it listens, \
             and ends by Ctrl-C or SIGTERM.",
        )
        .after_help(
            "Exit codes: 0 it was told to end · 2 usage · 3 the store cannot be reached, or the port is taken",
        )
        .args(args::served())
        .arg(needed("redis", "URL").help("The store, such as redis://127.0.0.1:6379"))
        .arg(
            needed("limit", "N")
                .value_parser(|text: &str| text.parse::<Limit>())
                .help("Requests it admits per window"),
        )
        .arg(
            needed("window", "SPAN")
                .value_parser(|text: &str| text.parse::<Window>())
                .help("Length of the window, such as 500ms, 60s or 1h"),
        )
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDRESS:PORT")
                .value_parser(|text: &str| text.parse::<SocketAddr>())
                .default_value("127.0.0.1:8429")
                .help("Where it listens; port 0 takes any that is free"),
        )
        .arg(
            Arg::new("connections")
                .long("connections")
                .value_name("N")
                .value_parser(clap::value_parser!(u32).range(1..=1000))
                .default_value("8")
                .help("Connections to the store"),
        )
        .arg(
            Arg::new("front")
                .long("front")
                .value_name("FORM")
                .value_parser(clap::builder::PossibleValuesParser::new(Form::ALL.map(Form::name)))
                .default_value(Form::Honest.name())
                .help("What it says: the truth, or one of the ways to mislead callers"),
        )
}

pub fn main(matches: &ArgMatches) -> Answer {
    let served = args::read_served(matches);
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let how = How {
        listen: *matches.get_one("listen").expect("it has a default"),
        redis: text("redis"),
        limit: *matches.get_one("limit").expect("it is required"),
        window: *matches.get_one("window").expect("it is required"),
        connections: *matches.get_one("connections").expect("it has a default"),
        form: text("front").parse().map_err(Refusal::usage)?,
    };
    served.check(how.limit, how.window, &how.redis).map_err(Refusal::usage)?;
    let runtime = args::runtime()?;
    runtime.block_on(async {
        let no_signals = |e: std::io::Error| Refusal::environment(format!("cannot hear signals: {e}"));
        let mut ended = signal(SignalKind::terminate()).map_err(no_signals)?;
        let front = serve_http::open(&served, how).await.map_err(Refusal::environment)?;
        output::print(&format!("listening on http://{}\n", front.address)).map_err(Refusal::environment)?;
        tokio::select! {
            _ = ended.recv() => {}
            heard = tokio::signal::ctrl_c() => heard.map_err(no_signals)?,
        }
        Ok(Exit::Ok)
    })
}
