//! Floor 4: one file per command. clap, printing and exit codes live only here.

mod analyze;
mod completions;
mod doctor;
mod flags;
mod gc;
mod list;
mod output;
mod progress;
mod run;
mod signals;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};

use crate::runner::exit::Exit;
use crate::runner::scenarios;

/// What a command answers: an exit, or words about why not.
type Answer = Result<Exit, Refusal>;

/// Why a command did not do what it was asked: the exit code it means, and what to say.
struct Refusal {
    exit: Exit,
    message: String,
}

impl Refusal {
    fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    fn environment(message: impl Into<String>) -> Self {
        Self { exit: Exit::Environment, message: message.into() }
    }
}

/// Parses the command line, runs the command, and answers with the exit code.
pub fn main() -> ExitCode {
    let exit = catch_unwind(AssertUnwindSafe(parse_and_run)).unwrap_or_else(|_| {
        eprintln!("rl-lab: the lab itself broke; `rl-lab gc` removes what may be left of this run");
        Exit::Broken
    });
    ExitCode::from(exit.code())
}

fn parse_and_run() -> Exit {
    let command = match command() {
        Ok(command) => command,
        Err(message) => {
            eprintln!("rl-lab: {message}");
            return Exit::Broken;
        }
    };
    let matches = match command.try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version go to stdout and are no error.
            let fine = !error.use_stderr();
            let _ = error.print();
            return if fine { Exit::Ok } else { Exit::Usage };
        }
    };
    match dispatch(&matches) {
        Ok(exit) => exit,
        Err(refusal) => {
            eprintln!("rl-lab: {}", refusal.message);
            refusal.exit
        }
    }
}

fn dispatch(matches: &ArgMatches) -> Answer {
    match matches.subcommand() {
        Some(("run", m)) => run::files(m),
        Some(("list", m)) => list::main(m),
        Some(("doctor", m)) => doctor::main(m),
        Some(("gc", m)) => gc::main(m),
        Some(("analyze", m)) => analyze::main(m),
        Some(("completions", m)) => completions::main(m),
        Some(("man", m)) => completions::man(m),
        Some((scenario, m)) => run::scenario(scenario, m),
        None => Err(Refusal::usage("no command was given; `rl-lab --help` lists them")),
    }
}

/// The whole command line, scenarios included: help, man page and completions come from it.
fn command() -> Result<Command, String> {
    let mut command = Command::new("rl-lab")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A chaos and correctness lab for rate limiters")
        .long_about(
            "A chaos and correctness lab for rate limiters: starts real Redis servers, drives limiters from \
             many app servers at once, records everything that happens, and says with evidence what a \
             limiter promised and did not keep.",
        )
        .after_help(EXIT_CODES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100);
    for ((name, _), named) in scenarios::EMBEDDED.iter().zip(scenarios::embedded()?) {
        let s = &named.scenario;
        let variants: Vec<String> = s.variants.iter().map(|v| v.limiter.to_string()).collect();
        let long = format!(
            "{}\n\n{}\n\nlimit {} per {}; {}\nlimiters: {}\nchecks: {}",
            s.title,
            s.shows,
            s.limit.limit,
            s.limit.window,
            s.workload.in_words(),
            variants.join(", "),
            s.checks.join(", ")
        );
        let sub = Command::new(*name).about(s.title.clone()).long_about(long).after_help(EXIT_CODES);
        command = command.subcommand(flags::run_flags(sub));
    }
    let run = Command::new("run")
        .about("Run scenario files of your own, or embedded ones by name")
        .arg(Arg::new("files").value_name("FILE").required(true).num_args(1..).help("Scenario files (TOML)"))
        .after_help(EXIT_CODES);
    Ok(command
        .subcommand(flags::run_flags(run))
        .subcommand(list::command())
        .subcommand(doctor::command())
        .subcommand(gc::command())
        .subcommand(analyze::command())
        .subcommand(completions::command())
        .subcommand(completions::man_command()))
}

const EXIT_CODES: &str = "Exit codes: 0 all as expected · 1 a check failed, or an expectation did not show · \
2 usage or bad input · 3 environment (no engine, no server, output not writable) · 4 unknown or inconclusive · \
5 clean-up incomplete · 70 the lab itself broke · 130/143 interrupted";
