//! `rl-lab report --merge RUN…`: the shares of a gate as one report.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::flags::StdoutFormat;
use super::refusal::{Refusal, command_line};
use super::{Answer, gate, project};
use crate::runner::exit::Exit;
use crate::runner::merge;
use crate::runner::out::RunFolder;

#[derive(Debug, Clone, Args)]
struct ReportFlags {
    /// Runs of `rl-lab gate --shard`, all shares of one gate: folders, or their results.json
    #[arg(long, value_name = "RUN", required = true, num_args = 1..)]
    merge: Vec<PathBuf>,
    /// Folder for the report in every format
    #[arg(short, long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Copy junit.xml there
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write what came out, to be named with `rl-lab gate --baseline` from then on
    #[arg(long, value_name = "FILE")]
    save_baseline: Option<PathBuf>,
    /// What is printed on stdout
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    format: StdoutFormat,
}

pub fn command() -> Command {
    ReportFlags::augment_args(Command::new("report").about("Put the shares of a gate together").long_about(
        "Put the shares of a gate, each run with --shard, together into the report of the whole: one matrix, one \
         exit code, one junit.xml. Shares of different gates, one that is missing and one that is there twice are \
         refused.",
    ))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let flags = ReportFlags::from_arg_matches(matches).map_err(|e| Refusal::usage(e.to_string()))?;
    let told = std::env::var_os("RL_LAB_OUT").map(PathBuf::from);
    let out = told.or_else(|| project::settings().out).unwrap_or_else(|| "out".into());
    let read = |run: &PathBuf| Ok((run.display().to_string(), merge::read(run, &out)?));
    let shares: Result<_, String> = flags.merge.iter().map(read).collect();
    let merged = shares.and_then(|shares| merge::merge(shares, command_line(None)));
    let mut report = merged.map_err(Refusal::usage)?;
    if let Some(folder) = &flags.out {
        report.out = Some(folder.display().to_string());
        RunFolder::at(folder).and_then(|folder| folder.write(&report)).map_err(Refusal::environment)?;
    }
    let told = gate::tell(&report, flags.format, flags.junit.as_deref())?;
    let saved = flags.save_baseline.as_ref().map_or(Ok(Exit::Ok), |file| gate::save(file, &report))?;
    Ok(told.and(saved))
}
