//! Floor 4: one file per command. clap, printing and exit codes live only here.

mod analyze;
mod args;
mod claims;
mod compare;
mod completions;
mod config;
mod doctor;
mod explore;
mod flags;
mod gate;
mod gc;
mod ground;
mod headers;
mod init;
mod linearizable;
mod list;
mod matrix;
mod output;
mod progress;
mod project;
mod refusal;
mod report;
mod run;
mod serve_http;
mod serve_limiter;
mod settings;
mod signals;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command};

use refusal::Refusal;

use crate::runner::exit::Exit;
use crate::runner::scenarios;

/// What a command answers: an exit, or words about why not.
type Answer = Result<Exit, Refusal>;

/// Parses the command line, runs the command, and answers with the exit code.
pub fn main() -> ExitCode {
    prepare();
    let answer = catch_unwind(AssertUnwindSafe(parse_and_run)).unwrap_or_else(|_| {
        let what = "the lab itself broke; `rl-lab gc` removes what may be left of this run";
        Err(Refusal::new(Exit::Broken, what))
    });
    let exit = answer.unwrap_or_else(|refusal| {
        output::tell(&format!("rl-lab: {}", refusal.message));
        refusal.print_json();
        refusal.exit
    });
    ExitCode::from(exit.code())
}

/// What must hold before anything else happens.
fn prepare() {
    // SAFETY: ignoring a signal runs no code of ours. A file at its size limit is then an error
    // that can be told, and not the end of the process with servers left running.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    // An empty variable is one that is not set: CI templates write it so.
    let empty = std::env::vars_os().filter(|(name, value)| {
        value.is_empty() && name.to_str().is_some_and(|name| name.starts_with("RL_LAB_"))
    });
    for (name, _) in empty.collect::<Vec<_>>() {
        // SAFETY: the first thing the process does: no other thread reads the environment yet.
        unsafe { std::env::remove_var(name) };
    }
}

fn parse_and_run() -> Answer {
    let command = command().map_err(|message| Refusal::new(Exit::Broken, message))?;
    let matches = match command.try_get_matches() {
        Ok(matches) => matches,
        // Help and version go to stdout and are no error.
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return Ok(Exit::Ok);
        }
        Err(error) => {
            let text = error.render().to_string();
            let refusal = Refusal::usage(text.trim_end().trim_start_matches("error: "));
            return if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                let _ = error.print();
                Ok(Exit::Usage)
            } else {
                Err(refusal)
            };
        }
    };
    project::read(&matches)?;
    dispatch(&matches)
}

fn dispatch(matches: &ArgMatches) -> Answer {
    match matches.subcommand() {
        Some(("run", m)) => run::files(m),
        Some(("matrix", m)) => matrix::main(m),
        Some(("explore", m)) => explore::main(m),
        Some(("replay", m)) => explore::replay(m),
        Some(("init", m)) => init::main(m),
        Some(("gate", m)) => gate::main(m),
        Some(("report", m)) => report::main(m),
        Some(("compare", m)) => compare::main(m),
        Some(("config", m)) => config::main(m),
        Some(("list", m)) => list::main(m),
        Some(("doctor", m)) => doctor::main(m),
        Some(("gc", m)) => gc::main(m),
        Some(("analyze", m)) => analyze::main(m),
        Some(("linearizable", m)) => linearizable::main(m),
        Some(("serve-limiter", m)) => serve_limiter::main(m),
        Some(("serve-http", m)) => serve_http::main(m),
        Some(("headers", m)) => headers::main(m),
        Some(("completions", m)) => completions::main(m),
        Some(("man", m)) => completions::man(m),
        Some((name, m)) if claims::is(name) => claims::main(name, m),
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
        .arg(project::arg())
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
        .subcommands(claims::commands().map(|c| c.after_help(EXIT_CODES)))
        .subcommand(matrix::command().after_help(EXIT_CODES))
        .subcommand(explore::command().after_help(EXIT_CODES))
        .subcommand(explore::replay_command().after_help(EXIT_CODES))
        .subcommand(init::command())
        .subcommand(gate::command().after_help(EXIT_CODES))
        .subcommand(report::command().after_help(EXIT_CODES))
        .subcommand(compare::command())
        .subcommand(config::command())
        .subcommand(list::command())
        .subcommand(doctor::command())
        .subcommand(gc::command())
        .subcommand(analyze::command())
        .subcommand(linearizable::command())
        .subcommand(serve_limiter::command())
        .subcommand(serve_http::command())
        .subcommand(headers::command())
        .subcommand(completions::command())
        .subcommand(completions::man_command()))
}

const EXIT_CODES: &str = "Exit codes: 0 all as expected · 1 a check failed, or an expectation did not show · \
2 usage or bad input · 3 environment (no engine, no server, output not writable) · 4 unknown or inconclusive · \
5 clean-up incomplete · 70 the lab itself broke · 130/143 interrupted";
