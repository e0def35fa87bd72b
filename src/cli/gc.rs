//! `rl-lab gc`: removes what killed runs left behind, and nothing else.

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{Answer, Refusal, output};
use crate::backends::{gc, journal};
use crate::runner::exit::Exit;

pub fn command() -> Command {
    Command::new("gc")
        .about("Remove what killed runs left behind: containers, networks, servers, folders")
        .long_about(
            "Remove what killed runs left behind. Every run journals what it makes before it makes it; gc \
             reads the journals of runs whose process is gone and removes exactly what they name. Runs that \
             are going on are not touched.",
        )
        .arg(
            Arg::new("dry-run")
                .long("dry-run")
                .action(ArgAction::SetTrue)
                .help("Say what would be removed, and remove nothing"),
        )
        .arg(Arg::new("run").value_name("RUN").help("Only what this run left"))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Refusal::environment(e.to_string()))?;
    let dry = matches.get_flag("dry-run");
    let only = matches.get_one::<String>("run").map(String::as_str);
    if let Some(run) = only
        && !journal::all_in(&journal::state_folder()).iter().any(|p| p.file_stem().is_some_and(|s| s == run))
    {
        return Err(Refusal::usage(format!(
            "no run '{run}' is journalled; `rl-lab gc --dry-run` lists what is left"
        )));
    }
    let report = runtime.block_on(gc::gc(dry, only));
    let mut text = String::new();
    for thing in &report.removed {
        text.push_str(&format!("{} {thing}\n", if dry { "would remove" } else { "removed" }));
    }
    for run in &report.alive {
        text.push_str(&format!("run {run} is going on: not touched\n"));
    }
    if text.is_empty() && report.left.is_empty() {
        text.push_str("nothing to remove\n");
    }
    output::print(&text).map_err(Refusal::environment)?;
    if report.left.is_empty() {
        return Ok(Exit::Ok);
    }
    Err(Refusal::new(Exit::Cleanup, format!("not removed: {}", report.left.join("; "))))
}
