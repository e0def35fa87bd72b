//! A scenario, group by group of cells that are driven at the same time: servers for them, what breaks, the
//! load, and the verdicts.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::{Halt, Run, environment, panic_text};
use crate::limiters;
use crate::model::history::{CellHeader, Event};
use crate::model::report::{self, ServerInfo};
use crate::model::scenario::{NodesAs, Setup, Time, TopologyPlan};
use crate::ports::backend::{Backend, BackendError};
use crate::ports::topology::Deployment;
use crate::runner::drive::{self, Drive};
use crate::runner::eye;
use crate::runner::faults::Faults;
use crate::runner::modules::{self, Lack};
use crate::runner::nodes;
use crate::runner::plan::{CellPlan, Ground, Plan};
use crate::runner::record::Recorder;
use crate::runner::stage::{self, Stage};
use crate::topologies;

impl Run<'_> {
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

    pub(super) async fn scenario(
        &mut self,
        backend: &dyn Backend,
        number: usize,
        plan: &Plan,
    ) -> Result<(), Halt> {
        let mut topology = plan.cells.first().map_or(&plan.scenario.topology, |c| &c.setup.topology);
        let mut times = 0;
        let mut deployed = self.deploy(backend, topology, number, times).await?;
        let mut server = introduced(&deployed).await?;
        if let Some(folder) = &self.folder {
            folder.announce();
        }
        // The network path and the image are known once a server runs.
        self.describe(backend);
        self.recorder.event(Event::Ground { honesty: self.report.honesty.clone() });
        if self.is_first() {
            self.recorder.event(Event::Scenario(plan.summary.clone()));
            self.report.scenarios.push(plan.summary.clone());
        }
        let mut used = false;
        for group in stage::groups(plan) {
            let setup = &plan.cells[group[0]].setup;
            // What breaks leaves nothing as it was.
            if used || *topology != setup.topology {
                stop(&deployed).await?;
                times += 1;
                topology = &setup.topology;
                deployed = self.deploy(backend, topology, number, times).await?;
                server = introduced(&deployed).await?;
                // A server of another kind is more ground.
                backend.describe(&mut self.report.honesty);
                self.recorder.event(Event::Ground { honesty: self.report.honesty.clone() });
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
            let mut cell = plan.cells[index].clone();
            if let Some(lack) = modules::lack(cell.spec, backend.name()) {
                if let Lack::File(why) = &lack {
                    self.unfit(&cell, why);
                }
                cell.refused.get_or_insert(lack.in_words().to_owned());
            }
            // What is not run here does not get as far as a step to die at.
            let runs = header(plan, &cell, server, backend.name()).not_run.is_none();
            if let Some(stage) = stage.as_ref().ok().filter(|_| runs) {
                match self.crashing((number, index), plan, &cell, stage, &recorder).await {
                    Ok(crashing) => cell = crashing.unwrap_or(cell),
                    Err(error) if cell.process().is_some() => {
                        let why = format!("{error:#}");
                        self.unfit(&cell, &why);
                        cell.refused = Some(why);
                    }
                    Err(error) => return Err(environment(error)),
                }
            }
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
        let ground = self.ground();
        let mut lanes = Vec::new();
        for (index, cell, recorder) in &cells {
            let header = header(plan, cell, server, backend.name());
            let refused = match &self.workers {
                Some(workers) => nodes::clocks_refused(workers, cell).await.map_err(environment)?,
                None => None,
            };
            let header = CellHeader {
                place: u32::try_from(*index).ok(),
                replay: plan.replay(cell, backend.name(), &ground),
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
        match driven {
            Err(Halt::Unfit(why)) => {
                cells
                    .iter()
                    .filter(|(_, cell, _)| cell.process().is_some())
                    .for_each(|(_, cell, _)| self.unfit(cell, &why));
                Ok(())
            }
            driven => driven.map(|_| ()),
        }
    }

    /// What a command says that shows a cell of this server again.
    fn ground(&self) -> Ground {
        let mut ground = self.request.ground.clone();
        ground.options.server = self.build;
        ground
    }

    /// Notes that a cell cannot be judged for its app servers, and goes on with others.
    fn unfit(&mut self, cell: &CellPlan, why: &str) {
        let text = format!("{}: {why}", cell.label());
        self.progress.warn(&text);
        self.unfit.push(text);
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
            regions: stage.regions(),
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
}

/// The servers of a scenario, or why this ground cannot have them.
type Deployed = Result<Arc<Deployment>, String>;

/// How the servers introduce themselves.
async fn introduced(deployed: &Deployed) -> Result<ServerInfo, Halt> {
    let Ok(deployment) = deployed else { return Ok(ServerInfo::default()) };
    eye::introduced(&*deployment.primary, limiters::postgres_row::TABLES).await.map_err(environment)
}

async fn stop(deployed: &Deployed) -> Result<(), Halt> {
    for server in deployed.iter().flat_map(|deployment| &deployment.servers) {
        server.stop().await?;
    }
    Ok(())
}

/// What the history says about a cell before it is driven.
pub fn header(plan: &Plan, cell: &CellPlan, server: &ServerInfo, backend: &str) -> CellHeader {
    // Valkey's first version is newer than every Redis a limiter here asks for.
    let too_old = cell.spec.needs_server.and_then(|needs| needs.refuse(&server.version));
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
        http: cell.setup.workload.nodes_as == NodesAs::Http
            || cell.process().is_some_and(|f| f.http.is_some()),
        foreign: cell.process().is_some(),
        topology: Some(cell.setup.topology.kind.clone()).filter(|kind| kind != "single"),
        limit: cell.setup.limit.limit,
        nodes: u16::try_from(cell.setup.workload.most_nodes()).unwrap_or(u16::MAX),
        versions: u32::try_from(cell.deploys.len()).unwrap_or(u32::MAX),
        rounds: cell.setup.workload.rounds.get(),
        concurrent: plan.concurrent(),
        time: drive::time_of(plan, cell),
        not_run,
        place: None,
        replay: String::new(),
        contract: cell.contract(),
        requirement: plan.scenario.require.as_ref().map(|r| r.requirement(cell.setup.limit)),
        outage: plan.scenario.outage,
        clocks: cell.setup.clocks.clone(),
        checks: cell.checks_for(backend, &server.version).to_vec(),
    }
}

/// Who reads the server's clock, or works behind its calls, is waited for, but not for ever.
fn too_long(plan: &Plan, cell: &CellPlan) -> Option<String> {
    const LONGEST: std::time::Duration = std::time::Duration::from_secs(30);
    let planned = cell.setup.workload.planned(cell.setup.limit.window);
    let waited = plan.scenario.time == Time::Skipped && drive::time_of(plan, cell) == Time::Real;
    let why = if cell.contract().in_background {
        "it works behind its calls, where time cannot be skipped"
    } else if cell.process().is_some() {
        "it goes by the clock of its process, which cannot be moved on"
    } else {
        "it reads the server's clock, which cannot be moved on"
    };
    (waited && planned.duration() > LONGEST).then(|| format!("{why}, and {planned} are not waited for"))
}
