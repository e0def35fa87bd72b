//! `rl-lab analyze RUN`: judges a recorded history again, without running anything.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};

use super::{Answer, Refusal, args, output, settings};
use crate::runner::analyze;
use crate::runner::exit::Exit;

pub fn command() -> Command {
    Command::new("analyze")
        .about("Judge a recorded run again, without running anything")
        .arg(
            Arg::new("run")
                .value_name("RUN")
                .default_value("latest")
                .help("A run's folder, its history.jsonl, or a folder's name below --out"),
        )
        .arg(args::out())
        .arg(args::format(&["table", "json", "markdown", "csv"]))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let out = settings::out(matches);
    let path = analyze::locate(Path::new(&text("run")), &out).map_err(Refusal::usage)?;
    let history = analyze::read(&path).map_err(Refusal::usage)?;
    let report = analyze::report(&history);
    output::report(&report, &text("format")).map_err(Refusal::environment)?;
    Ok(Exit::of_code(report.exit))
}
