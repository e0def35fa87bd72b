//! `rl-lab completions SHELL` and `rl-lab man`, both from the one command definition.

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::{Shell, generate};

use super::{Answer, Refusal, output};
use crate::runner::exit::Exit;

pub fn command() -> Command {
    Command::new("completions").about("Print a completion script for a shell").arg(
        Arg::new("shell")
            .value_name("SHELL")
            .required(true)
            .value_parser(value_parser!(Shell))
            .help("Which shell"),
    )
}

pub fn man_command() -> Command {
    Command::new("man")
        .about("Print the manual page (roff): rl-lab man | man -l -")
        .arg(Arg::new("command").value_name("COMMAND").help("The page of one command"))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let mut whole = whole()?;
    let mut script = Vec::new();
    if let Some(shell) = matches.get_one::<Shell>("shell") {
        generate(*shell, &mut whole, "rl-lab", &mut script);
    }
    let script = String::from_utf8_lossy(&script);
    // clap_complete spells a hyphenated name in two ways in its bash script, and the cases of the
    // subcommands are never reached (clap issue 6421).
    print(script.replace("rl__subcmd__lab", "rl__lab").as_bytes())
}

pub fn man(matches: &ArgMatches) -> Answer {
    let mut whole = whole()?;
    whole.build();
    let page = match matches.get_one::<String>("command") {
        None => whole,
        Some(name) => {
            let known: Vec<&str> = whole.get_subcommands().map(Command::get_name).collect();
            let unknown = || Refusal::usage(crate::model::names::unknown("command", name, &known));
            whole.find_subcommand(name).cloned().ok_or_else(unknown)?
        }
    };
    let mut roff = Vec::new();
    clap_mangen::Man::new(page)
        .render(&mut roff)
        .map_err(|e| Refusal::new(Exit::Broken, format!("the manual page cannot be made: {e}")))?;
    print(&roff)
}

fn whole() -> Result<Command, Refusal> {
    super::command().map_err(|message| Refusal::new(Exit::Broken, message))
}

fn print(bytes: &[u8]) -> Answer {
    output::print(&String::from_utf8_lossy(bytes)).map_err(Refusal::environment)?;
    Ok(Exit::Ok)
}
