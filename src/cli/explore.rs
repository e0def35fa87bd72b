//! `rl-lab explore LIMITER…` and `rl-lab replay FILE`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::flags::{self, GroundFlags};
use super::ground::span;
use super::refusal::{Refusal, command_line};
use super::{Answer, output, run};
use crate::clients;
use crate::model::report;
use crate::model::scenario::LimiterRef;
use crate::model::schedule::{Budget, MOST_CLIENTS};
use crate::model::units::{Limit, Seed, Window};
use crate::runner::exit::Exit;
use crate::runner::explore::file::ScheduleFile;
use crate::runner::explore::run::{Exploration, Target};

#[derive(Debug, Clone, Args)]
struct ExploreFlags {
    /// Limiters: names or catalogue numbers, with parameters where wanted
    /// (`fixed-window-lua gcra-lua:burst=2`); see `rl-lab list limiters`
    #[arg(value_name = "LIMITER", required = true)]
    limiters: Vec<String>,
    /// Clients that call at the same time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=i64::from(MOST_CLIENTS) - 1), help_heading = "Search")]
    clients: u8,
    /// Calls of each client
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=50), help_heading = "Search")]
    requests: u8,
    /// Clients that may die: before a command, or after it was applied and before its reply
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Search")]
    crashes: u8,
    /// Times that time may pass until the next key has expired
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Search")]
    ticks: u8,
    /// Replies that may be lost with their connection, the client living on
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Search")]
    reply_loss: u8,
    /// Times the server may forget its scripts
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Search")]
    script_flushes: u8,
    /// Clients that may be held between reading their clock and sending their first command
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Search")]
    pauses: u8,
    /// Requests a limiter may admit per window, each searched by itself; small ones find the same faults
    /// with fewer steps
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2", help_heading = "Search")]
    limit: Vec<Limit>,
    /// Length of the window; it passes only with a tick
    #[arg(long, value_name = "SPAN", default_value = "60s", help_heading = "Search")]
    window: Window,
    /// How long each limiter may be searched; random schedules follow for a quarter of that where it
    /// was not enough
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = span, help_heading = "Search")]
    budget: Duration,
    /// Run every schedule, however alike they are
    #[arg(long, help_heading = "Search")]
    no_reduction: bool,
    /// Client profile of every client; see `rl-lab list clients`
    #[arg(long, value_name = "NAME", default_value = clients::DEFAULT, help_heading = "Search")]
    client: String,
    /// Servers that search together, each with its thread on one core; one less than there are cores if not
    /// given, so that others get their turn
    #[arg(long, value_name = "N", help_heading = "Search")]
    servers: Option<NonZeroU32>,
    /// Folder for tests of your own: a redis-cli script and a JSON case for each counterexample
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    export_test: Option<PathBuf>,
    #[command(flatten)]
    ground: GroundFlags,
}

#[derive(Debug, Clone, Args)]
struct ReplayFlags {
    /// A schedule that `rl-lab explore` saved
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How often it is run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Search")]
    times: u32,
    #[command(flatten)]
    ground: GroundFlags,
}

pub fn command() -> Command {
    ExploreFlags::augment_args(
        Command::new("explore").about("Every schedule of a limiter's commands, within a budget").long_about(
            "Every schedule of a limiter's commands, within a budget: which client's command comes next, who \
             dies and where, when keys expire. Real servers, unmodified limiters and client libraries. What \
             breaks is shown as the shortest schedule that could be found and saved for `rl-lab replay`; what \
             does not break within the budget is certified for that budget, if the search came to its end.",
        ),
    )
}

pub fn replay_command() -> Command {
    ReplayFlags::augment_args(Command::new("replay").about("Run a saved schedule again").long_about(
        "Runs a schedule that `rl-lab explore` saved, step by step on a real server. Exit 1 if it still \
             breaks what it broke, 0 if it does not any more.",
    ))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let flags = ExploreFlags::from_arg_matches(matches).map_err(|e| Refusal::usage(e.to_string()))?;
    let seed = flags.ground.seed();
    let refuse = |why: String| Refusal::usage(why).of(seed);
    let budget = Budget {
        clients: flags.clients,
        requests: flags.requests,
        crashes: flags.crashes,
        ticks: flags.ticks,
        losses: flags.reply_loss,
        flushes: flags.script_flushes,
        pauses: flags.pauses,
    };
    if let Some(folder) = &flags.export_test {
        std::fs::create_dir_all(folder).and_then(|()| tempfile_in(folder)).map_err(|e| {
            Refusal::environment(format!("cannot write to '{}': {e}", folder.display())).of(seed)
        })?;
    }
    flags.ground.one_by_name("explore").map_err(refuse)?;
    let named = flags::limiters(&flags.limiters).map_err(refuse)?;
    let given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let own = !given("limit") && !given("window");
    let target = |l| Target::of(l, &flags.limit, flags.window, own);
    let targets = named.iter().map(target).collect::<Result<_, _>>();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let exploration = Exploration {
        targets: targets.map_err(refuse)?,
        limits: flags.limit.clone(),
        window: flags.window,
        budget,
        reduce: !flags.no_reduction,
        time: flags.budget,
        servers: flags
            .servers
            .map_or(cores.saturating_sub(1).max(1), |n| usize::try_from(n.get()).unwrap_or(usize::MAX))
            .min(64),
        client: clients::find(&flags.client).map_err(refuse)?,
        export: flags.export_test.clone(),
        replay: None,
    };
    go(&flags.ground, seed, exploration, None)
}

pub fn replay(matches: &ArgMatches) -> Answer {
    let flags = ReplayFlags::from_arg_matches(matches).map_err(|e| Refusal::usage(e.to_string()))?;
    let seed = flags.ground.seed();
    let refuse = |why: String| Refusal::usage(why).of(seed);
    flags.ground.one_by_name("replay").map_err(refuse)?;
    let file = ScheduleFile::load(&flags.file).map_err(refuse)?;
    if file.schedule.0.is_empty() {
        return Err(refuse(format!("'{}': its schedule has no steps", flags.file.display())));
    }
    if file.limit.get() > Target::MOST {
        return Err(refuse(format!(
            "'{}': a limit of at most {} can be judged",
            flags.file.display(),
            Target::MOST
        )));
    }
    let limiter: LimiterRef = file.limiter.parse().map_err(refuse)?;
    if !crate::model::ending::CHECKS.contains(&file.check.as_str()) {
        return Err(refuse(format!("'{}': no search judges '{}'", flags.file.display(), file.check)));
    }
    let exploration = Exploration {
        targets: vec![Target::of(&limiter, &[file.limit], file.window, false).map_err(refuse)?],
        limits: vec![file.limit],
        window: file.window,
        budget: file.budget,
        reduce: false,
        time: Duration::ZERO,
        servers: 1,
        client: clients::find(&file.client).map_err(refuse)?,
        export: None,
        replay: Some((file, flags.times)),
    };
    // `out/latest` will be this replay's own folder.
    let typed = flags.file.display().to_string();
    let lasting = std::fs::canonicalize(&flags.file).unwrap_or_else(|_| flags.file.clone());
    let lasting = std::env::current_dir()
        .ok()
        .and_then(|here| lasting.strip_prefix(here).ok().map(std::path::Path::to_owned))
        .unwrap_or(lasting);
    let words = command_line(Some(seed)).into_iter();
    let words = words.map(|w| if w == typed { lasting.display().to_string() } else { w });
    go(&flags.ground, seed, exploration, Some(words.collect()))
}

fn go(ground: &GroundFlags, seed: Seed, exploration: Exploration, command: Option<Vec<String>>) -> Answer {
    if !ground.dry_run() {
        return run::go(
            ground,
            seed,
            run::Work { exploration: Some(exploration), command, ..Default::default() },
        );
    }
    let summary = exploration.summary();
    let limiters: Vec<String> = exploration.targets.iter().map(|t| t.limiter.to_string()).collect();
    let text = if ground.format() == flags::StdoutFormat::Json {
        let value = serde_json::json!({
            "schema": report::SCHEMA,
            "dry_run": true,
            "seed": seed,
            "backend": ground.backend(),
            "server": ground.by_name(),
            "budget": exploration.budget,
            "limiters": limiters,
        });
        format!("{value:#}\n")
    } else {
        format!(
            "would run on {}, seed {seed}; nothing is started\n\n{}: {}\n  limiters: {}\n",
            ground.in_words(),
            summary.title,
            summary.plan,
            limiters.join(", ")
        )
    };
    output::print(&text).map_err(Refusal::environment)?;
    Ok(Exit::Ok)
}

/// Whether a file can be written there.
fn tempfile_in(folder: &std::path::Path) -> std::io::Result<()> {
    let probe = folder.join(format!(".rl-lab-{}", std::process::id()));
    std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe))
}
