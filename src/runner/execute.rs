//! Runs plans: servers up, each cell driven and judged, servers down, everything kept.
//!
//! Whatever happens, the result is a report and nothing is left running. An error, a panic and an
//! interrupt all end on the same path: what was measured is judged and written, then the servers
//! go, then what the journal still lists is swept.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;

use super::drive::{self, Drive};
use super::exit::{self, Exit};
use super::explore::run::{Exploration, Lent};
use super::faults::Faults;
use super::judge;
use super::nodes;
use super::out::RunFolder;
use super::plan::{CellPlan, Plan};
use super::record::{Recorder, Stop};
use super::stage::{self, Stage};
use crate::backends::worker::Workers;
use crate::backends::{self, journal::Journal};
use crate::explorer::Trouble;
use crate::model::history::{self, CellHeader, Event, RunHeader};
use crate::model::matrix::{Column, Matrix};
use crate::model::report::{self, CellReport, Honesty, Report, ServerInfo};
use crate::model::scenario::{Setup, Time, TopologyPlan};
use crate::model::units::Seed;
use crate::model::verdict::Verdict;
use crate::ports::backend::{Backend, BackendError, BackendOptions};
use crate::ports::limiter::Version;
use crate::ports::topology::Deployment;
use crate::topologies;

/// A run as asked for.
pub struct Request {
    pub plans: Vec<Plan>,
    /// Search schedules instead of running plans.
    pub exploration: Option<Exploration>,
    /// Put the verdicts into a matrix of these columns.
    pub columns: Option<Vec<Column>>,
    pub seed: Seed,
    /// The command line, as it repeats the run.
    pub command: Vec<String>,
    pub backend: String,
    pub options: BackendOptions,
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
        _ if request.exploration.is_some() => {
            request.exploration.as_ref().map_or("explore", Exploration::name).to_owned()
        }
        _ if request.columns.is_some() => "matrix".to_owned(),
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
    };
    let mut run = Run { request: &request, progress, recorder, folder, report, workers: None };
    let (halted, error) = match run.with_servers().await {
        Ok(()) => (Exit::Ok, None),
        Err(Halt::Interrupted) => (Exit::Ok, Some(run.interrupted())),
        Err(Halt::Environment(text)) => (Exit::Environment, Some(text)),
        Err(Halt::Broken(text)) => (Exit::Broken, Some(text)),
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
    workers: Option<Arc<Workers>>,
}

impl Run<'_> {
    /// What an interrupted run did not get to.
    fn interrupted(&self) -> String {
        let done = self.report.cells.len();
        let planned = self.request.plans.iter().flat_map(|p| &p.cells).map(CellPlan::label);
        let targets = self.request.exploration.iter().flat_map(|e| &e.targets);
        let planned = planned.chain(targets.map(|t| t.limiter.to_string()));
        let rest: Vec<String> = planned.skip(done).collect();
        match rest.as_slice() {
            [] => "interrupted; this is what was measured".to_owned(),
            rest => format!("interrupted; this is what was measured; not run: {}", rest.join(", ")),
        }
    }

    /// Opens the backend, runs everything, and takes it all down again.
    async fn with_servers(&mut self) -> Result<(), Halt> {
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

    async fn on_backend(&mut self, journal: &Arc<Journal>) -> Result<(), Halt> {
        let request = self.request;
        let progress = self.progress;
        let mut say = |text: String| progress.note(&text);
        let opening = backends::open(&request.backend, &request.options, Arc::clone(journal), &mut say);
        let backend = tokio::select! {
            backend = opening => backend?,
            () = request.stop.told() => return Err(Halt::Interrupted),
        };
        backend.describe(&mut self.report.honesty);
        let honesty = &mut self.report.honesty;
        honesty.cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let work = async {
            match &request.exploration {
                Some(exploration) => self.explore(&*backend, exploration).await,
                None => self.scenarios(&*backend).await,
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

    /// Servers for a scenario, or for the next of its groups.
    async fn deploy(
        &self,
        backend: &dyn Backend,
        topology: &TopologyPlan,
        number: usize,
        again: usize,
    ) -> Result<Deployed, Halt> {
        let kind = topologies::find(&topology.kind).map_err(Halt::Broken)?;
        let name = if again == 0 { format!("s{number}") } else { format!("s{number}-{again}") };
        let deploying = kind.deploy(backend, &name, topology);
        let deployed = tokio::select! {
            deployed = deploying => deployed,
            () = self.request.stop.told() => return Err(Halt::Interrupted),
        };
        match deployed {
            Ok(deployment) => Ok(Ok(Arc::new(deployment))),
            Err(BackendError::Unsupported(why)) => Ok(Err(why)),
            Err(error) => Err(error.into()),
        }
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
        backend.describe(&mut self.report.honesty);
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
            self.report.cells.push(cell);
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

    async fn scenario(&mut self, backend: &dyn Backend, number: usize, plan: &Plan) -> Result<(), Halt> {
        let mut topology = plan.cells.first().map_or(&plan.scenario.topology, |c| &c.setup.topology);
        let mut times = 0;
        let mut deployed = self.deploy(backend, topology, number, times).await?;
        let mut server = introduced(&deployed).await?;
        if let Some(folder) = &self.folder {
            folder.announce();
        }
        // The network path and the image are known once a server runs.
        backend.describe(&mut self.report.honesty);
        self.recorder.event(Event::Ground { honesty: self.report.honesty.clone() });
        self.recorder.event(Event::Scenario(plan.summary.clone()));
        self.report.scenarios.push(plan.summary.clone());
        let mut used = false;
        for group in stage::groups(&plan.cells, plan.scenario.workload.together) {
            let setup = &plan.cells[group[0]].setup;
            // What breaks leaves nothing as it was.
            if used || *topology != setup.topology {
                stop(&deployed).await?;
                times += 1;
                topology = &setup.topology;
                deployed = self.deploy(backend, topology, number, times).await?;
                server = introduced(&deployed).await?;
            }
            used = !setup.faults.is_empty();
            let stage = match &deployed {
                Ok(deployment) => Ok(Stage::of(Arc::clone(deployment), setup)?),
                Err(why) => Err(why.clone()),
            };
            self.group(backend, number, plan, &group, &stage, &server).await?;
            if self.request.stop.stopped() {
                return Err(Halt::Interrupted);
            }
        }
        stop(&deployed).await
    }

    /// Drives the cells of a group, at the same time if there are several, and judges them.
    async fn group(
        &mut self,
        backend: &dyn Backend,
        number: usize,
        plan: &Plan,
        group: &[usize],
        stage: &Result<Stage, String>,
        server: &ServerInfo,
    ) -> Result<(), Halt> {
        let mut cells: Vec<(usize, CellPlan, Arc<Recorder>)> = Vec::new();
        for &index in group {
            let lane = u32::try_from(cells.len() + 1).unwrap_or(u32::MAX);
            let recorder =
                if group.len() > 1 { self.recorder.lane(lane) } else { Arc::clone(&self.recorder) };
            let cell = plan.cells[index].clone();
            let cell = match stage {
                Ok(stage) => {
                    let crashing = self.crashing((number, index), plan, &cell, stage, &recorder).await;
                    crashing.map_err(environment)?.unwrap_or(cell)
                }
                Err(_) => cell,
            };
            cells.push((index, cell, recorder));
        }
        let label = match cells.as_slice() {
            [(_, one, _)] => one.label(),
            [(_, first, _), ..] => {
                let under = first.variation.as_ref().map(|v| format!(" ({v})")).unwrap_or_default();
                format!("{} together{under}", cells.len())
            }
            [] => return Ok(()),
        };
        self.progress.cell(plan, &label, group[0] + 1, plan.cells.len());
        let mut lanes = Vec::new();
        for (_, cell, recorder) in &cells {
            let header = header(plan, cell, server, backend.name());
            let refused = match &self.workers {
                Some(workers) => nodes::clocks_refused(workers, cell).await.map_err(environment)?,
                None => None,
            };
            let header = CellHeader {
                replay: plan.replay(cell, backend.name(), &self.request.options),
                not_run: header.not_run.clone().or_else(|| stage.as_ref().err().cloned()).or(refused),
                ..header
            };
            if header.not_run.is_none() {
                lanes.push(Arc::clone(recorder));
            }
            recorder.event(Event::Cell(Box::new(header.clone())));
        }
        let runs = |recorder: &Arc<Recorder>| lanes.iter().any(|lane| Arc::ptr_eq(lane, recorder));
        let faults = match stage {
            Ok(stage) if !lanes.is_empty() => {
                stage.faults(&cells[0].1.setup, plan.scenario.outage, lanes.clone())
            }
            _ => None,
        };
        let progress = self.progress;
        let rounds = cells[0].1.setup.workload.rounds.get();
        let round_done = |done| progress.round(done, rounds);
        let driven = {
            let mut drives: Vec<Drive<'_>> = Vec::new();
            for (index, cell, recorder) in cells.iter().filter(|(_, _, recorder)| runs(recorder)) {
                let Ok(stage) = stage else { continue };
                let drive = self.driving((number, *index), plan, cell, stage, recorder, &round_done);
                drives.push(Drive { faults: faults.clone(), ..drive });
            }
            self.driven(drives, faults.as_ref(), &cells[0].1.setup).await
        };
        // A panic too leaves the rounds before it behind, and they count.
        let mut honesties = driven.as_ref().map(|all| all.clone()).unwrap_or_default().into_iter();
        for (_, _, recorder) in &cells {
            let honesty = if runs(recorder) { honesties.next() } else { None };
            self.judge(recorder, honesty.unwrap_or_default());
        }
        driven.map(|_| ())
    }

    /// Drives cells to their end, whatever ends them, and takes back what was broken meanwhile.
    async fn driven(
        &self,
        drives: Vec<Drive<'_>>,
        faults: Option<&Arc<Faults>>,
        setup: &Setup,
    ) -> Result<Vec<report::CellHonesty>, Halt> {
        if drives.is_empty() {
            return Ok(Vec::new());
        }
        let (abort, aborted) = tokio::sync::watch::channel(false);
        let playing = faults.map(|faults| {
            let setup = setup.clone();
            let faults = Arc::clone(faults);
            tokio::spawn(faults.play(move |fault| drive::is_beside(&setup, fault), aborted))
        });
        let outcome = AssertUnwindSafe(drive::drive_together(drives)).catch_unwind().await;
        abort.send_replace(true);
        if let Some(playing) = playing
            && let Err(error) = playing.await
        {
            return Err(Halt::Broken(format!("the lab itself broke: {error}")));
        }
        match outcome {
            Ok(driven) => driven.map_err(environment),
            Err(panic) => Err(Halt::Broken(panic_text(&*panic))),
        }
    }

    /// What driving a cell takes; its place is the scenario's number and its own.
    fn driving<'a>(
        &self,
        (scenario, cell_number): (usize, usize),
        plan: &'a Plan,
        cell: &'a CellPlan,
        stage: &Stage,
        recorder: &'a Arc<Recorder>,
        round_done: &'a (dyn Fn(u32) + Sync),
    ) -> Drive<'a> {
        Drive {
            plan,
            cell,
            address: stage.address(),
            route: Arc::clone(&stage.route),
            seeds: stage.seeds(),
            faults: None,
            prefix: format!("rl-lab:{}:{scenario}-{cell_number}", self.report.run),
            seed: self.request.seed,
            recorder,
            hook: None,
            workers: self.workers.clone(),
            round_done,
        }
    }

    /// The cell with a round for each place where the node of its first call can die, where that is what
    /// the scenario is about.
    async fn crashing(
        &self,
        place: (usize, usize),
        plan: &Plan,
        cell: &CellPlan,
        stage: &Stage,
        recorder: &Arc<Recorder>,
    ) -> anyhow::Result<Option<CellPlan>> {
        if !cell.setup.workload.crash_at_every_step || cell.refused.is_some() {
            return Ok(None);
        }
        let mut crashing = cell.clone();
        crashing.crashes = drive::crash_points(self.driving(place, plan, cell, stage, recorder, &|_| {}))?;
        let rounds = u32::try_from(crashing.crashes.len())?;
        if let Some(rounds) = std::num::NonZeroU32::new(rounds) {
            crashing.setup.workload.rounds = rounds;
        }
        Ok(Some(crashing))
    }

    /// Judges the cell that was just driven, and writes everything known so far.
    fn judge(&mut self, recorder: &Recorder, honesty: report::CellHonesty) {
        let Some(cell) = recorder.take_cell(honesty) else { return };
        let ground = &mut self.report.honesty;
        ground.clock_step_ms = ground.clock_step_ms.max(judge::clock_step_ms(&cell));
        let judged = judge::judge(&cell);
        self.report.cells.push(judged);
        let columns = self.request.columns.as_deref();
        self.report.matrix = columns.map(|c| Matrix::of(c, &self.report.cells));
        self.write();
        // Last, so that whoever is told cannot lose it.
        if let Some(judged) = self.report.cells.last() {
            self.progress.cell_done(judged);
        }
    }

    fn write(&self) {
        if let Some(folder) = &self.folder
            && let Err(error) = folder.write(&self.report)
        {
            self.progress.warn(&error);
        }
    }

    /// Fills in what the run came to, and writes it for the last time.
    fn finish(mut self, ended: Exit, error: Option<String>) -> Report {
        let cleanup = if self.report.exit == Exit::Cleanup.code() { Exit::Cleanup } else { Exit::Ok };
        let (judged, verdict) = exit::of_cells(&self.report.cells);
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

/// The servers of a scenario, or why this ground cannot have them.
type Deployed = Result<Arc<Deployment>, String>;

/// How the servers introduce themselves.
async fn introduced(deployed: &Deployed) -> Result<ServerInfo, Halt> {
    let Ok(deployment) = deployed else { return Ok(ServerInfo::default()) };
    let mut admin = drive::admin(deployment.primary.address()).await.map_err(environment)?;
    drive::server_info(&mut admin).await.map_err(environment)
}

async fn stop(deployed: &Deployed) -> Result<(), Halt> {
    for server in deployed.iter().flat_map(|deployment| &deployment.servers) {
        server.stop().await?;
    }
    Ok(())
}

fn environment(error: anyhow::Error) -> Halt {
    Halt::Environment(format!("{error:#}"))
}

/// What the history says about a cell before it is driven.
pub fn header(plan: &Plan, cell: &CellPlan, server: &ServerInfo, backend: &str) -> CellHeader {
    let too_old = cell.spec.needs_server.and_then(|(needed, why)| {
        // Valkey's first version is newer than every Redis a limiter here asks for.
        let found = Version::parse(&server.version)?;
        (found < needed)
            .then(|| format!("needs server {}.{}, this is {}: {why}", needed.0, needed.1, server.version))
    });
    let refused = cell.refused.as_ref().map(|why| format!("refused: {why}"));
    let not_run = refused.or(too_old).or_else(|| too_long(plan, cell));
    CellHeader {
        scenario: plan.name.clone(),
        limiter: cell.limiter.to_string(),
        params: cell.limiter.params.clone(),
        variation: cell.variation.clone(),
        policy: cell.policy.as_ref().map(|p| p.policy.to_string()),
        client: cell.client.name.to_owned(),
        client_named: cell.client_named,
        backend: backend.to_owned(),
        server: server.clone(),
        topology: Some(cell.setup.topology.kind.clone()).filter(|kind| kind != "single"),
        limit: cell.setup.limit.limit,
        nodes: u16::try_from(cell.setup.workload.nodes.get()).unwrap_or(u16::MAX),
        rounds: cell.setup.workload.rounds.get(),
        concurrent: plan.concurrent(),
        time: drive::time_of(plan, cell),
        not_run,
        replay: String::new(),
        contract: cell.contract(),
        requirement: plan.scenario.require.as_ref().map(|r| r.requirement(cell.setup.limit)),
        outage: plan.scenario.outage,
        clocks: cell.setup.clocks.clone(),
        checks: cell.checks_on.get(backend).unwrap_or(&cell.checks).clone(),
    }
}

/// Who reads the server's clock is waited for, but not for ever.
fn too_long(plan: &Plan, cell: &CellPlan) -> Option<String> {
    const LONGEST: std::time::Duration = std::time::Duration::from_secs(30);
    let planned = cell.setup.workload.planned(cell.setup.limit.window);
    let waited = plan.scenario.time == Time::Skipped && drive::time_of(plan, cell) == Time::Real;
    (waited && planned.duration() > LONGEST).then(|| {
        format!("it reads the server's clock, which cannot be moved on, and {planned} are not waited for")
    })
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
