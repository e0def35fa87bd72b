//! `rl-lab compare A B`: what changed between two runs.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use super::refusal::Refusal;
use super::{Answer, output, project};
use crate::formats::compare::compose;
use crate::formats::document::{markdown, terminal};
use crate::model::compare::{Change, compare};
use crate::runner::exit::Exit;
use crate::runner::merge;

#[derive(Debug, Clone, Args)]
struct CompareFlags {
    /// The run before: a folder, its results.json, or a name below the folder of runs
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The run after
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Tell what did not change, too, and what is inconclusive
    #[arg(short, long)]
    all: bool,
    /// What is printed
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    format: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Table,
    Markdown,
    Json,
}

pub fn command() -> Command {
    CompareFlags::augment_args(Command::new("compare").about("Tell what changed between two runs").long_about(
        "Tell what changed between two runs: verdicts, and what was measured, cell by cell. A difference that is no \
         larger than the noise of the rounds is inconclusive. Exit 1 if something fails that did not, 4 if something \
         was known that is unknown now, or is not there, else 0.",
    ))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let flags = CompareFlags::from_arg_matches(matches).map_err(|e| Refusal::usage(e.to_string()))?;
    let out = project::runs_folder();
    let read = |run: &PathBuf| merge::read(run, &out).map_err(Refusal::usage);
    let (before, after) = (read(&flags.before)?, read(&flags.after)?);
    if before.run == after.run {
        return Err(Refusal::usage(format!(
            "{} and {} are the same run, {}",
            flags.before.display(),
            flags.after.display(),
            before.run
        )));
    }
    let told = compare(&before, &after);
    if told.pairs.is_empty() {
        return Err(Refusal::usage(format!(
            "{} and {} have no cell in common: the same scenario, limiter, variation, policy and client, and the same \
             server and backend where one of them has several",
            flags.before.display(),
            flags.after.display()
        )));
    }
    let names = [flags.before.display().to_string(), flags.after.display().to_string()];
    let blocks = || compose([&names[0], &names[1]], &told, flags.all);
    let text = match flags.format {
        Form::Table => terminal::render(&blocks(), output::look()),
        Form::Markdown => markdown::render(&blocks()),
        Form::Json => {
            let text =
                serde_json::to_string_pretty(&told).map_err(|e| Refusal::environment(e.to_string()))?;
            text + "\n"
        }
    };
    output::print(&text).map_err(Refusal::environment)?;
    Ok(match told.verdicts {
        Change::Broken => Exit::Failed,
        Change::Unsettled => Exit::Unknown,
        _ => Exit::Ok,
    })
}
