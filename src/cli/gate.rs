//! `rl-lab gate`: whether the limiters of `rl-lab.toml` may pass.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::flags::{self, StdoutFormat};
use super::ground::GroundFlags;
use super::project::{self, project};
use super::refusal::Refusal;
use super::run::{self, Work};
use super::{Answer, output};
use crate::formats::{self, github};
use crate::model::config::PROFILE;
use crate::model::gate::{Baseline, Shard};
use crate::model::report::Report;
use crate::model::servers::Wanted;
use crate::model::units::Seed;
use crate::ports::format::Look;
use crate::runner::exit::Exit;
use crate::runner::gate::{self, Asked, Planned};

#[derive(Debug, Clone, Args)]
struct GateFlags {
    /// Profile of rl-lab.toml to run
    #[arg(long, value_name = "NAME", default_value = PROFILE, help_heading = "Gate")]
    profile: String,
    /// Limiters to gate instead of the profile's; see `rl-lab list limiters`
    #[arg(short, long, alias = "limiter", value_name = "NAME[:PARAM=VALUE],…", help_heading = "Gate")]
    limiters: Vec<String>,
    /// What is known to fail: listed, and not held against anybody again
    #[arg(long, value_name = "FILE", help_heading = "Gate")]
    baseline: Option<PathBuf>,
    /// Write what comes out, to be named with --baseline from then on; the exit code stays that of the verdicts
    #[arg(long, value_name = "FILE", conflicts_with = "shard", help_heading = "Gate")]
    save_baseline: Option<PathBuf>,
    /// Copy junit.xml of the run there
    #[arg(long, value_name = "FILE", help_heading = "Gate")]
    junit: Option<PathBuf>,
    /// Run a share of it, such as 2/3; `rl-lab report --merge` puts them together
    #[arg(long, value_name = "N/OF", help_heading = "Gate")]
    shard: Option<Shard>,
    #[command(flatten)]
    ground: GroundFlags,
}

pub fn command() -> Command {
    GateFlags::augment_args(Command::new("gate").about("Whether the limiters of rl-lab.toml may pass").long_about(
        "Runs the scenarios of a profile of rl-lab.toml over its limiters, and a small search of schedules where it \
         asks for one. Nothing is expected: every verdict is judged. Prints a matrix of limiters and properties, then \
         each failure with its witness and the command that shows it again. Exit 0: nothing failed. 1: something \
         did, a threshold was crossed, or what must be known is not. 4: only unknowns. The seed is 1 unless another \
             is given.\n\n\
         In a GitHub workflow it adds a summary to the job and annotations to its log.",
    ))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let mut flags = GateFlags::from_arg_matches(matches).map_err(|e| Refusal::usage(e.to_string()))?;
    let Some(project) = project() else { return Err(Refusal::usage(project::MISSING)) };
    let profile = project.config.profile(&flags.profile);
    let profile = profile.map_err(|e| Refusal::usage(format!("{}: {e}", project.shown())))?;
    flags.ground.under(profile.settings());
    let seed = flags.ground.seed_or(Seed(1));
    let refuse = |why: String| Refusal::usage(why).of(seed);
    let server = flags.ground.one_by_name("gate").map_err(refuse)?;
    let limiters = flags::limiters(&flags.limiters).map_err(refuse)?;
    let with = with(&flags.ground, server);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let asked = Asked {
        path: &project.path,
        config: &project.config,
        profile: &flags.profile,
        limiters: &limiters,
        seed,
        shard: flags.shard,
        with: &with,
        servers: cores.saturating_sub(1).clamp(1, 64),
    };
    let mut planned = gate::plan(&asked).map_err(|e| refuse(format!("{}: {e}", project.shown())))?;
    if let Some(file) = &flags.baseline {
        let every = gate::plan(&Asked { limiters: &[], ..asked });
        let mut known = planned.gate.limiters();
        known.extend(every.iter().flat_map(|p| p.gate.limiters()));
        planned.gate.known = Some(baseline(file, &known).map_err(refuse)?);
    }
    if flags.ground.dry_run() {
        return dry_run(&flags.ground, seed, &planned);
    }
    let Planned { plans, exploration, gate } = planned;
    let work = Work { plans, exploration, gate: Some(gate), ..Work::default() };
    let report = run::measure(&flags.ground, seed, work)?;
    let told = tell(&report, flags.ground.format(), flags.junit.as_deref())?;
    let saved = flags.save_baseline.as_ref().map_or(Ok(Exit::Ok), |file| save(file, &report))?;
    Ok(told.and(saved))
}

/// What a command says so that it runs on the same servers and reads the same file.
fn with(ground: &GroundFlags, server: Option<Wanted>) -> Vec<String> {
    let repeat = ground.to_repeat();
    let mut words = repeat.config;
    words.extend(["--backend".to_owned(), ground.backend()]);
    let path = repeat.options.redis_server.map(|p| p.display().to_string());
    let server = server.map(|wanted| wanted.to_string());
    for (flag, value) in [("--server", server), ("--image", repeat.options.image), ("--redis-server", path)] {
        words.extend(value.into_iter().flat_map(|v| [flag.to_owned(), v]));
    }
    words
}

fn dry_run(ground: &GroundFlags, seed: Seed, planned: &Planned) -> Answer {
    if let Some(search) = planned.exploration.as_ref().filter(|_| ground.format() != StdoutFormat::Json) {
        let limiters: Vec<String> = search.targets.iter().map(|t| t.limiter.to_string()).collect();
        output::tell(&format!("would also explore {}, {}", limiters.join(", "), search.summary().plan));
    }
    run::dry_run(ground, seed, &planned.plans)
}

fn baseline(file: &Path, limiters: &[&str]) -> Result<Baseline, String> {
    let of = |why: String| format!("baseline {}: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|e| of(format!("cannot read it: {e}")))?;
    Baseline::parse(&text, limiters).map_err(of)
}

/// Writes what came out, unless not everything did.
pub fn save(file: &Path, report: &Report) -> Answer {
    match &report.gate {
        Some(gate) if report.finished => write(file, &Baseline::of(gate).to_json())?,
        _ => output::tell(&format!("rl-lab: {} is not written: the run did not finish", file.display())),
    }
    Ok(Exit::Ok)
}

fn write(file: &Path, text: &str) -> Result<(), Refusal> {
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), std::fs::create_dir_all);
    let written = made.and_then(|()| std::fs::write(file, text));
    written.map_err(|e| Refusal::environment(format!("cannot write '{}': {e}", file.display())))
}

/// Prints a gate's report, and tells everybody else who wants to know.
pub fn tell(report: &Report, format: StdoutFormat, junit: Option<&Path>) -> Answer {
    output::report(report, format.name()).map_err(Refusal::environment)?;
    if let Some(file) = junit {
        let format = formats::find("junit").ok_or_else(|| Refusal::new(Exit::Broken, "no format 'junit'"))?;
        let text = format.render(report, Look::PLAIN).map_err(|e| Refusal::new(Exit::Broken, e))?;
        write(file, &text)?;
    }
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if set("GITHUB_ACTIONS").is_some_and(|value| value == "true") {
        let lines: Vec<String> = github::annotations(report);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        // The platform reads both; whoever reads stdout as a document gets that and nothing else.
        match format {
            StdoutFormat::Table | StdoutFormat::Markdown => {
                output::print(&text).map_err(Refusal::environment)?
            }
            StdoutFormat::Json | StdoutFormat::Csv => lines.iter().for_each(|line| output::tell(line)),
        }
    }
    if let Some(file) = set("GITHUB_STEP_SUMMARY")
        && let Err(error) = append_summary(Path::new(&file), report)
    {
        output::tell(&format!("warning: cannot write the summary to '{file}': {error}"));
    }
    Ok(Exit::of_code(report.exit))
}

/// Adds the summary to what the step has said so far, within what the platform takes.
fn append_summary(file: &Path, report: &Report) -> std::io::Result<()> {
    let said = std::fs::metadata(file).map_or(0, |m| usize::try_from(m.len()).unwrap_or(usize::MAX));
    let text = github::summary(report, github::SUMMARY.saturating_sub(said));
    std::fs::OpenOptions::new().create(true).append(true).open(file)?.write_all(text.as_bytes())
}
