//! Runs plans: servers up, each cell driven and judged, servers down, everything kept.
//!
//! Whatever happens, the result is a report and nothing is left running. An error, a panic and an
//! interrupt all end on the same path: what was measured is judged and written, then the servers
//! go, then what the journal still lists is swept.

mod scenario;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;

use super::drive;
use super::exit::{self, Exit};
use super::explore::run::{Exploration, Lent};
use super::judge;
use super::modules;
use super::nodes::Unfit;
use super::out::RunFolder;
use super::plan::{CellPlan, Ground, Plan, shell_words};
use super::record::{Recorder, Stop};
use crate::backends::worker::Workers;
use crate::backends::{self, builds::Found, journal::Journal};
use crate::explorer::Trouble;
use crate::model::claims::{Claims, ClaimsPlan};
use crate::model::gate::{Gate, GatePlan};
use crate::model::history::{self, Event, RunHeader};
use crate::model::matrix::{Column, Matrix};
use crate::model::metrics::{self, Metrics};
use crate::model::report::{self, CellReport, Honesty, Report};
use crate::model::scenario::TopologyPlan;
use crate::model::servers::{Build, Wanted};
use crate::model::units::Seed;
use crate::model::verdict::Verdict;
use crate::ports::backend::{Backend, BackendError, BackendOptions};
use crate::topologies;

pub use scenario::header;

/// A run as asked for.
pub struct Request {
    pub plans: Vec<Plan>,
    /// Search schedules, after whatever plans there are.
    pub exploration: Option<Exploration>,
    /// Put the verdicts into a matrix of these columns.
    pub columns: Option<Vec<Column>>,
    /// Hold these claims against what comes out.
    pub claims: Option<ClaimsPlan>,
    /// The gate that plans and exploration are run for.
    pub gate: Option<GatePlan>,
    pub seed: Seed,
    /// The command line, as it repeats the run.
    pub command: Vec<String>,
    pub backend: String,
    pub options: BackendOptions,
    /// Servers by name, to run everything on one after the other, instead of the one that the backend has.
    pub servers: Option<Wanted>,
    /// What a command has to say of it that shows something again.
    pub ground: Ground,
    /// The rl-lab that app servers are where they are processes; this very program where absent.
    pub program: Option<PathBuf>,
    pub out: PathBuf,
    pub stop: Stop,
}

/// Told how far the run is. Writes to stderr or nowhere.
pub trait Progress: Send + Sync {
    /// Something the user should know.
    fn note(&self, text: &str);
    /// Something the user must know.
    fn warn(&self, text: &str);
    fn cell(&self, plan: &Plan, limiter: &str, number: usize, of: usize);
    fn round(&self, done: u32, of: u32);
    fn cell_done(&self, report: &CellReport);
}

/// Why a run stops before its end.
enum Halt {
    /// Of one cell, whose app server is somebody else's.
    Unfit(String),
    Environment(String),
    Broken(String),
    Interrupted,
}

impl From<BackendError> for Halt {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Interrupted => Self::Interrupted,
            other => Self::Environment(other.to_string()),
        }
    }
}

/// Runs the plans and reports. Nothing is left running when it returns, or the report says what is.
pub async fn execute(request: Request, progress: &dyn Progress) -> Report {
    let run = run_id(request.seed);
    let started = started_now();
    let name = match request.plans.as_slice() {
        _ if request.gate.is_some() => "gate".to_owned(),
        _ if request.exploration.is_some() => {
            request.exploration.as_ref().map_or("explore", Exploration::name).to_owned()
        }
        _ if request.columns.is_some() => "matrix".to_owned(),
        _ if request.claims.is_some() => request.claims.as_ref().map_or_else(String::new, |c| c.name.clone()),
        [one] => one.name.clone(),
        many => format!("{}-scenarios", many.len()),
    };
    let (folder, unkept) = match RunFolder::create(&request.out, &started, &name, request.seed) {
        Ok(folder) => (Some(folder), None),
        Err(error) => {
            let text = format!(
                "cannot write to '{}': {error}; the results are on stdout only (--out names another folder)",
                request.out.display()
            );
            progress.warn(&text);
            (None, Some(text))
        }
    };
    let recorder = Recorder::start(folder.as_ref().map(RunFolder::history), request.stop.clone());
    recorder.event(Event::Run(RunHeader {
        schema: history::SCHEMA,
        lab: env!("CARGO_PKG_VERSION").to_owned(),
        id: run.clone(),
        seed: request.seed,
        command: request.command.clone(),
        started: started.clone(),
        epoch_ns_at_zero: recorder.epoch_ns_at_zero(),
        columns: request.columns.clone(),
        claims: request.claims.clone(),
        gate: request.gate.clone(),
    }));
    // However early the lab is killed, its folder says which run it was.
    recorder.flush();
    let report = Report {
        schema: report::SCHEMA,
        passed: false,
        verdict: Verdict::Unknown,
        exit: Exit::Unknown.code(),
        finished: false,
        error: None,
        run,
        lab: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        seed: request.seed,
        command: request.command.clone(),
        out: folder.as_ref().map(|f| f.path().display().to_string()),
        honesty: Honesty { backend: request.backend.clone(), ..Honesty::default() },
        scenarios: Vec::new(),
        cells: Vec::new(),
        matrix: None,
        claims: None,
        gate: None,
    };
    let mut run = Run {
        request: &request,
        progress,
        recorder,
        folder,
        report,
        metrics: Vec::new(),
        workers: None,
        found: None,
        build: None,
        unfit: Vec::new(),
    };
    let (halted, error) = match run.with_servers().await {
        Ok(()) => (Exit::Ok, None),
        Err(Halt::Interrupted) => (Exit::Ok, Some(run.interrupted())),
        Err(Halt::Environment(text) | Halt::Unfit(text)) => (Exit::Environment, Some(text)),
        Err(Halt::Broken(text)) => (Exit::Broken, Some(text)),
    };
    let unfit = run.unfit.join("\n");
    let (halted, error) = match (error, unfit.is_empty()) {
        (error, true) => (halted, error),
        (None, false) => (halted.and(Exit::Environment), Some(unfit)),
        (Some(error), false) => (halted.and(Exit::Environment), Some(format!("{error}\n{unfit}"))),
    };
    run.report.finished = error.is_none();
    let code = halted.and(request.stop.code().map_or(Exit::Ok, Exit::Interrupted)).code();
    run.recorder.event(Event::End { exit: code, error: error.clone() });
    let unkept = unkept.or(run.recorder.close().err());
    let kept = if unkept.is_some() { Exit::Environment } else { Exit::Ok };
    run.finish(halted.and(kept), error.or(unkept))
}

struct Run<'a> {
    request: &'a Request,
    progress: &'a dyn Progress,
    recorder: Arc<Recorder>,
    folder: Option<RunFolder>,
    report: Report,
    /// Of each cell that was driven.
    metrics: Vec<Metrics>,
    workers: Option<Arc<Workers>>,
    /// The servers by name that were found, and the one of them that it runs on now.
    found: Option<Found>,
    build: Option<&'static Build>,
    /// Cells whose app servers could not be used, each with why.
    unfit: Vec<String>,
}

impl Run<'_> {
    /// What an interrupted run did not get to.
    fn interrupted(&self) -> String {
        let done = self.report.cells.len();
        let servers = self.found.as_ref().map_or(&[][..], |f| &f.there);
        let mut planned: Vec<String> = Vec::new();
        for place in 0..servers.len().max(1) {
            let on = servers.get(place).filter(|_| servers.len() > 1);
            let on = on.map(|build| format!(" on {}", build.name)).unwrap_or_default();
            let cells = self.request.plans.iter().flat_map(|p| &p.cells).map(CellPlan::label);
            let targets = self.request.exploration.iter().flat_map(|e| &e.targets);
            let labels = cells.chain(targets.map(|t| t.limiter.to_string()));
            planned.extend(labels.map(|label| label + &on));
        }
        match planned.get(done..).unwrap_or_default() {
            [] => "interrupted; this is what was measured".to_owned(),
            rest => format!("interrupted; this is what was measured; not run: {}", rest.join(", ")),
        }
    }

    /// Runs everything on each of the servers that were asked for by name, or on the one that the backend has.
    async fn with_servers(&mut self) -> Result<(), Halt> {
        let Some(wanted) = &self.request.servers else { return self.with_server().await };
        let finding = backends::find_builds(&self.request.backend, wanted);
        let found = tokio::select! {
            found = finding => found?,
            () = self.request.stop.told() => return Err(Halt::Interrupted),
        };
        for (_, why) in &found.missing {
            self.progress
                .warn(&format!("{why}; left out: what holds on the others is not known to hold on it"));
            self.report.honesty.missing.push(why.clone());
        }
        if self.request.backend != found.backend {
            self.progress.note(&format!("using backend {}: {}", found.backend, found.because));
        }
        for build in self.found.insert(found).there.clone() {
            self.build = Some(build);
            self.progress.note(&format!("server {}", build.name));
            self.with_server().await?;
            if self.report.exit == Exit::Cleanup.code() {
                // What is left is in the journal, which the next server would have begun anew.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Opens the backend, runs everything, and takes it all down again.
    async fn with_server(&mut self) -> Result<(), Halt> {
        let journal = Journal::open(&self.report.run)
            .map_err(|e| Halt::Environment(format!("the clean-up journal cannot be written: {e}")))?;
        let journal = Arc::new(journal);
        self.workers = Some(Arc::new(Workers::of(&journal, self.request.program.clone())));
        let outcome = AssertUnwindSafe(self.on_backend(&journal)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|panic| Err(Halt::Broken(panic_text(&*panic))));
        let swept = backends::shut_down(&journal).await;
        match (outcome, swept) {
            (outcome, Ok(())) => outcome,
            (outcome, Err(left)) => {
                self.progress.warn(&left.to_string());
                self.report.exit = Exit::Cleanup.code();
                outcome
            }
        }
    }

    /// Whether it is the first of its servers that everything runs on.
    fn is_first(&self) -> bool {
        let first = self.found.as_ref().and_then(|f| f.there.first());
        self.build.is_none() || self.build == first.copied()
    }

    /// Takes down what the backend knows about the ground that the figures stand on.
    fn describe(&mut self, backend: &dyn Backend) {
        let honesty = &mut self.report.honesty;
        backend.describe(honesty);
        let (Some(build), Some(found)) = (self.build, &self.found) else { return };
        if found.there.len() == 1 && found.missing.is_empty() {
            return;
        }
        // What is said of one of several servers stands with it.
        let from = std::mem::replace(&mut honesty.chosen_because, found.because.clone());
        let from = from.strip_prefix(&found.because).unwrap_or(&from).trim_start_matches("; ").to_owned();
        let image: Vec<String> =
            [honesty.image.take(), honesty.image_digest.take()].into_iter().flatten().collect();
        let from = if image.is_empty() { from } else { image.join(" ") };
        let line = format!("{}: {from}", build.name);
        let known = honesty.builds.iter_mut().find(|l| l.split(':').next() == Some(build.name));
        match known {
            Some(known) => *known = line,
            None => honesty.builds.push(line),
        }
    }

    async fn on_backend(&mut self, journal: &Arc<Journal>) -> Result<(), Halt> {
        let request = self.request;
        let progress = self.progress;
        let mut say = |text: String| progress.note(&text);
        let planned = request.plans.iter().flat_map(|plan| &plan.cells).map(|cell| cell.spec);
        let searched = request.exploration.iter().flat_map(|e| &e.targets).map(|target| target.spec);
        let modules = modules::of(planned.chain(searched));
        let options = BackendOptions { modules, ..request.options.clone() };
        let opening = match (self.build, &self.found) {
            (Some(build), Some(found)) => {
                backends::open_build(found, build, &options, Arc::clone(journal), &mut say)
            }
            _ => backends::open(&request.backend, &options, Arc::clone(journal), &mut say),
        };
        let backend = tokio::select! {
            backend = opening => backend?,
            () = request.stop.told() => return Err(Halt::Interrupted),
        };
        self.describe(&*backend);
        let honesty = &mut self.report.honesty;
        honesty.cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let work = async {
            self.scenarios(&*backend).await?;
            match &request.exploration {
                Some(exploration) => self.explore(&*backend, exploration).await,
                None => Ok(()),
            }
        };
        let outcome = AssertUnwindSafe(work).catch_unwind().await;
        // Whatever happened, the servers go first; only then is the outcome looked at.
        let down = backend.shutdown().await;
        let outcome = outcome.unwrap_or_else(|panic| Err(Halt::Broken(panic_text(&*panic))));
        if let Err(error) = down {
            // The sweep that follows tries again and has the last word.
            self.progress.note(&format!("shutting down: {error}"));
        }
        outcome
    }

    async fn scenarios(&mut self, backend: &dyn Backend) -> Result<(), Halt> {
        for (number, plan) in self.request.plans.iter().enumerate() {
            self.scenario(backend, number, plan).await?;
        }
        Ok(())
    }

    /// Searches schedules, limiter by limiter, on as many servers as may search together.
    async fn explore(&mut self, backend: &dyn Backend, exploration: &Exploration) -> Result<(), Halt> {
        let kind = topologies::find("single").map_err(Halt::Broken)?;
        let cores = super::explore::cores::usable();
        let mut servers = Vec::new();
        let mut addresses = Vec::new();
        for number in 0..exploration.servers.max(1) {
            let name = format!("e{number}");
            // Runs beside each other do not all begin with the same core.
            let first = std::process::id() as usize;
            let core = cores.get((first + number) % cores.len().max(1)).copied();
            let config = core.map(|c| ("server_cpulist".to_owned(), c.to_string())).into_iter().collect();
            let topology = TopologyPlan { config, ..TopologyPlan::default() };
            let deployment = tokio::select! {
                deployment = kind.deploy(backend, &name, &topology) => deployment?,
                () = self.request.stop.told() => return Err(Halt::Interrupted),
            };
            addresses.push((deployment.primary.address(), core));
            servers.push(deployment.primary);
        }
        let mut admin = drive::admin(addresses[0].0).await.map_err(environment)?;
        let server = drive::server_info(&mut admin).await.map_err(environment)?;
        if let Some(folder) = &self.folder {
            folder.announce();
        }
        self.describe(backend);
        self.recorder.event(Event::Ground { honesty: self.report.honesty.clone() });
        self.recorder.event(Event::Scenario(exploration.summary()));
        self.report.scenarios.push(exploration.summary());
        for (number, target) in (1..).zip(&exploration.targets) {
            let of = exploration.targets.len();
            self.progress.note(&format!("{} {} ({number} of {of})", exploration.name(), target.limiter));
            let (progress, recorder, folder) = (self.progress, &self.recorder, &self.folder);
            let stop = self.request.stop.clone();
            let lent = Lent {
                servers: &addresses,
                server: &server,
                workers: self.workers.as_ref(),
                backend: backend.name(),
                seed: self.request.seed,
                now: &|| std::time::Duration::from_nanos(u64::try_from(recorder.now().0).unwrap_or(0)),
                stopped: &|| stop.stopped(),
                note: &|text| progress.note(text),
                keep: &|name, content| match folder.as_ref()?.keep(name, content) {
                    Ok(path) => Some(path),
                    Err(error) => {
                        progress.warn(&error);
                        None
                    }
                },
            };
            let cell =
                on_own_thread(|| exploration.run(target, &lent))?.map_err(|trouble| match trouble {
                    Trouble::Lost(why)
                    | Trouble::Stalled(why)
                    | Trouble::Unfit(why)
                    | Trouble::Nondeterministic(why) => Halt::Environment(why),
                })?;
            let cell = self.repeatable(cell);
            if self.request.gate.is_some() {
                self.recorder.event(Event::Searched(Box::new(cell.clone())));
            }
            self.report.cells.push(cell);
            self.sum_up();
            self.write();
            if let Some(cell) = self.report.cells.last() {
                self.progress.cell_done(cell);
            }
            if self.request.stop.stopped() {
                return Err(Halt::Interrupted);
            }
        }
        for server in &servers {
            server.stop().await?;
        }
        Ok(())
    }

    /// Judges the cell that was just driven, and writes everything known so far.
    fn judge(&mut self, recorder: &Recorder, honesty: report::CellHonesty) {
        let Some(cell) = recorder.take_cell(honesty) else { return };
        let ground = &mut self.report.honesty;
        ground.clock_step_ms = ground.clock_step_ms.max(judge::clock_step_ms(&cell));
        if cell.header.not_run.is_none() {
            self.metrics.push(Metrics::of_cell(&cell));
        }
        let judged = judge::judge(&cell);
        self.report.cells.push(judged);
        self.sum_up();
        self.write();
        // Last, so that whoever is told cannot lose it.
        if let Some(judged) = self.report.cells.last() {
            self.progress.cell_done(judged);
        }
    }

    /// What the cells so far come to, for whatever they are run for.
    fn sum_up(&mut self) {
        let cells = &self.report.cells;
        self.report.matrix = self.request.columns.as_deref().map(|c| Matrix::of(c, cells));
        self.report.claims = self.request.claims.as_ref().map(|c| Claims::of(c, cells));
        self.report.gate = self.request.gate.as_ref().map(|g| Gate::of(g, cells));
    }

    /// A searched cell whose commands find the file that its limiter is of.
    fn repeatable(&self, mut cell: CellReport) -> CellReport {
        let config = &self.request.ground.config;
        if !config.is_empty() {
            let words = shell_words(config);
            cell.checks
                .iter_mut()
                .filter_map(|c| c.replay.as_mut())
                .for_each(|r| *r = format!("{r} {words}"));
        }
        cell
    }

    fn write(&self) {
        if let Some(folder) = &self.folder
            && let Err(error) = folder.write(&self.report).and_then(|()| self.keep_metrics(folder))
        {
            self.progress.warn(&error);
        }
    }

    fn keep_metrics(&self, folder: &RunFolder) -> Result<(), String> {
        if self.metrics.is_empty() {
            return Ok(());
        }
        folder.keep(metrics::FILE, metrics::render(&self.metrics).as_bytes()).map(|_| ())
    }

    /// Fills in what the run came to, and writes it for the last time.
    fn finish(mut self, ended: Exit, error: Option<String>) -> Report {
        let cleanup = if self.report.exit == Exit::Cleanup.code() { Exit::Cleanup } else { Exit::Ok };
        report::in_order(&mut self.report.cells);
        self.sum_up();
        let report = &self.report;
        let (judged, verdict) =
            exit::of_all(&report.cells, report.claims.as_ref(), report.gate.as_ref(), &report.honesty);
        let interrupted = self.request.stop.code().map_or(Exit::Ok, Exit::Interrupted);
        let mut exit = judged.and(ended).and(cleanup).and(interrupted);
        // A run that did not get to its end is not a pass, whatever its first cells said. One whose
        // results could not be kept was judged all the same.
        let cut = !self.report.finished || interrupted != Exit::Ok;
        self.report.verdict = if cut { verdict.max(Verdict::Unknown) } else { verdict };
        self.report.error = error;
        self.settle(exit);
        if let Some(folder) = self.folder.take()
            && let Err(error) = folder.write(&self.report)
        {
            self.progress.warn(&error);
            exit = exit.and(Exit::Environment);
            let first = self.report.error.take();
            self.report.error = first.or(Some(error));
            self.settle(exit);
        }
        self.report
    }

    fn settle(&mut self, exit: Exit) {
        self.report.exit = exit.code();
        self.report.passed = exit == Exit::Ok;
    }
}

/// A search runs on threads and runtimes of its own, which cannot be begun inside another one's.
fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Halt> {
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            scope.spawn(work).join().map_err(|panic| Halt::Broken(panic_text(&*panic)))
        })
    })
}

fn environment(error: anyhow::Error) -> Halt {
    let text = format!("{error:#}");
    if error.downcast_ref::<Unfit>().is_some() { Halt::Unfit(text) } else { Halt::Environment(text) }
}

/// What a panic said.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    format!("the lab itself broke: {said}")
}

/// Ten hex digits that differ between any two runs on a machine: from the time, the process and
/// the seed (FNV-1a, 64 bits).
#[expect(clippy::disallowed_methods, reason = "a name that must differ from run to run")]
fn run_id(seed: Seed) -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let bytes = [
        since.as_nanos().to_le_bytes().as_slice(),
        std::process::id().to_le_bytes().as_slice(),
        seed.0.to_le_bytes().as_slice(),
    ]
    .concat();
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    format!("{:010x}", hash & 0xff_ffff_ffff)
}

#[expect(clippy::disallowed_methods, reason = "the date in the results")]
fn started_now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}
