//! `rl-lab report`: runs as a document for who was not there, or the shares of a gate put together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use super::flags::StdoutFormat;
use super::refusal::{Refusal, command_line};
use super::{Answer, gate, output, project};
use crate::checkers;
use crate::formats::document::{html, markdown};
use crate::formats::study::{Chosen, Scenes, Study, Template};
use crate::formats::words;
use crate::model::report::Report;
use crate::runner::exit::Exit;
use crate::runner::merge;
use crate::runner::out::{RunFolder, write_document};

#[derive(Debug, Clone, Args)]
struct ReportFlags {
    /// Runs to report on: folders, their results.json, or names below the folder of runs; the latest if none is named
    #[arg(value_name = "RUN", conflicts_with = "merge")]
    runs: Vec<PathBuf>,
    /// What is told: limiters side by side, a decision record, or one conviction step by step
    #[arg(short, long, value_name = "TEMPLATE", default_value = "comparison", conflicts_with = "merge")]
    template: Told,
    /// The document's title
    #[arg(long, value_name = "TEXT", conflicts_with = "merge")]
    title: Option<String>,
    /// Of an incident: the limiter it is about
    #[arg(long, value_name = "NAME", conflicts_with = "merge")]
    limiter: Option<String>,
    /// Of an incident: the check that convicts
    #[arg(long, value_name = "NAME", conflicts_with = "merge")]
    check: Option<String>,
    /// Runs of `rl-lab gate --shard`, all shares of one gate: folders, or their results.json
    #[arg(long, value_name = "RUN", num_args = 1..)]
    merge: Vec<PathBuf>,
    /// Where it is written: NAME.md, NAME.html and the charts in NAME/; with --merge a folder for every format
    #[arg(short, long, value_name = "NAME")]
    out: Option<PathBuf>,
    /// With --merge: copy junit.xml there
    #[arg(long, value_name = "FILE", requires = "merge")]
    junit: Option<PathBuf>,
    /// With --merge: write what came out, to be named with `rl-lab gate --baseline` from then on
    #[arg(long, value_name = "FILE", requires = "merge")]
    save_baseline: Option<PathBuf>,
    /// With --merge: what is printed on stdout
    #[arg(short, long, default_value = "table", value_name = "FORMAT", requires = "merge")]
    format: StdoutFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Told {
    /// Limiters side by side, with all the evidence
    Comparison,
    /// A decision record in the headings of MADR; the decision is left to you
    Adr,
    /// One conviction, step by step
    Incident,
}

pub fn command() -> Command {
    let command =
        Command::new("report").about("Make a document of runs: a comparison, a decision record, an incident");
    ReportFlags::augment_args(command.long_about(
        "Make a document of runs for who was not there: NAME.md, which renders on a forge, and NAME.html, one page \
         that needs no network. Everything it says comes from results.json of the runs; nothing is run again. With \
         --merge, put the shares of a gate, each run with --shard, together into the report of the whole: one \
         matrix, one exit code, one junit.xml. Shares of different gates, one that is missing and one that is there \
         twice are refused.",
    ))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let flags = ReportFlags::from_arg_matches(matches).map_err(|e| Refusal::usage(e.to_string()))?;
    let out = project::runs_folder();
    if flags.merge.is_empty() { document(&flags, &out) } else { merged(&flags, &out) }
}

fn document(flags: &ReportFlags, out: &Path) -> Answer {
    let named = if flags.runs.is_empty() { vec![PathBuf::from("latest")] } else { flags.runs.clone() };
    if flags.template != Told::Incident && (flags.limiter.is_some() || flags.check.is_some()) {
        let text = "--limiter and --check choose the conviction that --template incident tells of";
        return Err(Refusal::usage(text));
    }
    if flags.title.as_ref().is_some_and(|title| title.trim().is_empty()) {
        return Err(Refusal::usage("--title needs a text"));
    }
    let mut reports: Vec<(String, Report)> = Vec::new();
    for run in &named {
        let report = merge::read(run, out).map_err(Refusal::usage)?;
        if let Some((other, _)) = reports.iter().find(|(_, r)| r.run == report.run) {
            let text = format!("{other} and {} are the same run, {}", run.display(), report.run);
            return Err(Refusal::usage(text));
        }
        reports.push((run.display().to_string(), report));
    }
    let first = reports.first().map(|(_, r)| words::title(r)).unwrap_or_default();
    let template = match flags.template {
        Told::Comparison => Template::Comparison,
        Told::Adr => Template::Adr,
        Told::Incident => Template::Incident,
    };
    let title = flags.title.clone().unwrap_or_else(|| match template {
        Template::Comparison => first,
        Template::Adr => format!("Choose a rate limiter: {first}"),
        Template::Incident => format!("What happened: {first}"),
    });
    let study = Study {
        title: title.clone(),
        runs: reports.iter().map(|(name, report)| (name.clone(), report)).collect(),
        proves: checkers::ALL.iter().map(|c| (c.name(), c.proves())).collect::<BTreeMap<_, _>>(),
        command: words::shell(&command_line(None)),
        chosen: Chosen { limiter: flags.limiter.clone(), check: flags.check.clone() },
    };
    let text = study.compose(template, Scenes::None).map_err(Refusal::usage)?;
    let Some(name) = &flags.out else {
        output::print(&markdown::render(&text)).map_err(Refusal::environment)?;
        return Ok(Exit::Ok);
    };
    let page = html::render(&title, &study.compose(template, Scenes::Drawn).map_err(Refusal::usage)?);
    let written = write_document(&stem(name)?, text, &page).map_err(Refusal::environment)?;
    for path in written {
        output::print(&format!("{}\n", path.display())).map_err(Refusal::environment)?;
    }
    Ok(Exit::Ok)
}

/// The name without the ending of one of its two files.
fn stem(name: &Path) -> Result<PathBuf, Refusal> {
    let ending = name.extension().and_then(|e| e.to_str());
    let stem = if matches!(ending, Some("md" | "html")) { name.with_extension("") } else { name.to_owned() };
    if stem.exists() && !stem.is_dir() {
        let text = format!("{} is a file; charts would go into a folder of that name", stem.display());
        return Err(Refusal::usage(text));
    }
    Ok(stem)
}

fn merged(flags: &ReportFlags, out: &Path) -> Answer {
    let read = |run: &PathBuf| Ok((run.display().to_string(), merge::read(run, out)?));
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
