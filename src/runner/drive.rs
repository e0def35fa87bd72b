//! Drives one cell: on a thread and a current_thread runtime of its own, so that what is measured
//! is the limiter and the store and not a scheduler.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::acts::Acts;
use super::deploy::Deployed;
use super::eye::{Closely, Eye, Seen};
use super::faults::Faults;
use super::fronts;
use super::keys::RoundKeys;
use super::nodes::Processes;
use super::plan::{CellPlan, Plan};
use super::reach::{Reach, add_traffic, connect};
use super::record::Recorder;
use super::stats::Stats;
use super::timeline::{Aging, NodeClock, RoundTime};
use crate::backends::worker::Workers;
use crate::clients::at_step::{AtStep, Told};
use crate::clients::patient::Patient;
use crate::model::contract::{Bound, DecidingClock, Scope};
use crate::model::history::{CrashPoint, Event, KeyLeft};
use crate::model::report::{CellHonesty, ServerInfo};
use crate::model::scenario::{NodesAs, PlannedCall, PlannedFault, Setup, Time, WorkloadPlan};
use crate::model::units::{Cost, Nanos, NodeId, Seed};
use crate::ports::clock::Clock;
use crate::ports::limiter::{Build, Fleet, Limiter, Settings, Spec};
use crate::ports::policy::Wrap;
use crate::ports::route::Route;
use crate::ports::store::{Call, SharedHook, StepAction, as_call};
use crate::ports::workload::{Actor, Offer, Record};
use crate::workloads;

/// What driving a cell takes.
pub struct Drive<'a> {
    pub plan: &'a Plan,
    pub cell: &'a CellPlan,
    /// Where the lab itself looks at the store.
    pub address: SocketAddr,
    /// Where the nodes find it.
    pub route: Arc<dyn Route>,
    /// The servers that share the keys between them, where that is a cluster.
    pub seeds: Vec<SocketAddr>,
    /// The stores of the regions, where there are several.
    pub regions: Vec<SocketAddr>,
    /// What breaks meanwhile.
    pub faults: Option<Arc<Faults>>,
    /// Prefix of every key of the cell.
    pub prefix: String,
    pub seed: Seed,
    pub recorder: &'a Arc<Recorder>,
    pub hook: Option<SharedHook>,
    /// Who starts app servers that are processes.
    pub workers: Option<Arc<Workers>>,
    /// Told after each round, with its number from 1.
    pub round_done: &'a (dyn Fn(u32) + Sync),
}

impl Drive<'_> {
    /// The clock of a node that is within the lab, from the beginning of the round on.
    pub fn clock_of(&self, node: u16) -> Arc<dyn Clock> {
        let begins = Arc::new(OnceLock::new());
        let _ = begins.set(self.recorder.now());
        clock_of(self, node, &begins)
    }

    /// The servers that keep keys, where those are several.
    fn servers(&self) -> &[SocketAddr] {
        if self.regions.is_empty() { &self.seeds } else { &self.regions }
    }
}

/// Drives all rounds. An error is one of the environment (the store is not there at all); what
/// goes wrong in a call is in the history instead.
pub async fn drive(drive: Drive<'_>) -> anyhow::Result<CellHonesty> {
    tokio::task::block_in_place(|| on_own_thread(|| on_load_runtime(rounds(&drive))))
}

/// Drives several cells at the same time, on one thread.
pub async fn drive_together(drives: Vec<Drive<'_>>) -> anyhow::Result<Vec<CellHonesty>> {
    let all = async || futures_util::future::try_join_all(drives.iter().map(rounds)).await;
    tokio::task::block_in_place(|| on_own_thread(|| on_load_runtime(all())))
}

/// Where the node of the cell's first call can die.
pub fn crash_points(drive: Drive<'_>) -> anyhow::Result<Vec<CrashPoint>> {
    tokio::task::block_in_place(|| on_own_thread(|| on_load_runtime(points(&drive))))
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("load".to_owned())
            .spawn_scoped(scope, work)
            .context("no thread for the load")?;
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn on_load_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}

async fn rounds(drive: &Drive<'_>) -> anyhow::Result<CellHonesty> {
    let workload = &drive.cell.setup.workload;
    let mut honesty = CellHonesty::default();
    let mut cpu = Duration::ZERO;
    let mut busy = Duration::ZERO;
    let table = drive.cell.spec.table(&drive.cell.settings);
    let mut probe = Eye::on(drive.address, table).await?;
    let mut stores = connect(drive, &probe, None).await?;
    let moments = tells_moments(&probe).await;
    let apart = if table.is_none() { Some(admin(drive.address).await?) } else { None };
    let acts = Acts::new(apart, Arc::clone(drive.recorder), workload, drive.faults.clone()).await;
    let acts = Arc::new(acts.context("the pace of the server's scripts cannot be measured")?);
    let offered = offered(drive);
    let between = between(drive);
    for index in 1..=workload.rounds.get() {
        if drive.recorder.stopped() {
            break;
        }
        if workload.cold_pool && index > 1 {
            add_traffic(&mut honesty, &stores);
            stores = connect(drive, &probe, None).await?;
        }
        let point = drive.cell.crashes.get(index as usize - 1);
        let processes = match workload.nodes_as {
            NodesAs::Processes => {
                Some(Processes::start(drive, probe.keys()?, workload.most_nodes(), point.is_some()).await?)
            }
            NodesAs::Tasks | NodesAs::Http => None,
        };
        let prefix = format!("{}-{index}:", drive.prefix);
        let own = RoundKeys::from_now(drive, &mut probe, &prefix).await?;
        acts.begin_round(own.pattern());
        let key = format!("{prefix}{}", workload.identity(0));
        let drift_before = drive.recorder.wall_drift_ns();
        let apart_us = if goes_along(drive.cell) { 0 } else { drive.recorder.skipped_us() };
        let epoch = drive.recorder.epoch_ns_at_zero().saturating_add(drift_before);
        let epoch_ns_at_zero = Some(epoch.saturating_sub(apart_us.saturating_mul(1000)));
        drive.recorder.event(Event::Round { index, at: drive.recorder.now(), epoch_ns_at_zero });
        if let Some(processes) = &processes {
            processes.introduce(drive.recorder);
        }
        drive.recorder.expect_ops(usize::try_from(workload.requests())?);
        if let Some(point) = point {
            add_traffic(&mut honesty, &stores);
            stores = connect(drive, &probe, Some(dies(point))).await?;
        }
        let begins = Arc::new(OnceLock::new());
        let fleet = Fleet::of(workload.nodes.get());
        let mut nodes =
            processes.as_ref().map_or_else(|| build(drive, &stores, &begins, &fleet), Processes::limiters);
        if workload.nodes_as == NodesAs::Http {
            for (node, inner) in (0..).zip(&mut nodes) {
                let clock = clock_of(drive, node, &begins);
                *inner = fronts::before(drive, Arc::clone(inner), clock).await?;
            }
        }
        preset(drive, &nodes, &key).await?;
        let aging = if time_of(drive.plan, drive.cell) == Time::Skipped {
            let mut stores = vec![probe.clone()];
            for region in drive.regions.iter().skip(1) {
                stores.push(Eye::on(*region, None).await?);
            }
            Some(Arc::new(Aging::new(stores, own.pattern(), moments)))
        } else {
            None
        };
        let time = RoundTime {
            recorder: Arc::clone(drive.recorder),
            stop: drive.recorder.stop(),
            aging: aging.clone(),
            apart_us,
        };
        let mut loads = Vec::new();
        for seed in drive.servers() {
            loads.push(Stats::of(&mut admin(*seed).await?).await?);
        }
        // Who is struck may be another one afterwards, or may have forgotten.
        let one_server = drive.servers().is_empty() && drive.faults.is_none();
        let before = match &mut probe {
            Eye::Keys(patient) if one_server => Some(Stats::of(patient).await?),
            _ => None,
        };
        if let Some(faults) = &drive.faults {
            faults.begin().await;
        }
        let watched = drive.faults.is_some().then(|| tokio::spawn(heartbeat(Arc::clone(drive.recorder))));
        let (began, cpu_before) = (drive.recorder.now(), thread_cpu());
        if !offered.at_edge {
            let _ = begins.set(began);
        }
        let offer = Offer {
            plan: &offered,
            limit: drive.cell.settings.limit,
            window: drive.cell.settings.window,
            nodes,
            fleet,
            begins: Arc::clone(&begins),
            prefix: Arc::from(prefix.as_str()),
            seed: Seed(drive.seed.0.wrapping_add(u64::from(index))),
            record: Arc::clone(drive.recorder) as Arc<dyn Record>,
            time: Arc::new(time),
            actor: Arc::clone(&acts) as Arc<dyn Actor>,
            faults: &between,
        };
        let (end, over) = tokio::sync::oneshot::channel();
        let mut looking = probe.clone();
        let calls = async {
            let looked = match point {
                Some(point) => {
                    crash_first(drive, &offer, point, processes.as_ref(), (&mut looking, &own)).await
                }
                None => Ok(None),
            };
            let rest = looked.as_ref().ok().and_then(Option::as_ref);
            if looked.is_ok() {
                let plan = rest.unwrap_or(offer.plan);
                workloads::of(workload.shape).drive(Offer { plan, ..offer.clone() }).await;
            }
            let _ = end.send(());
            looked.map(|_| ())
        };
        let (looked, ()) = tokio::join!(calls, acts.beside(workload, began, over));
        looked?;
        cpu += thread_cpu().saturating_sub(cpu_before);
        let skipped = aging.as_ref().map(|a| a.aged()).unwrap_or_default();
        busy += span(began, drive.recorder.now()).saturating_sub(skipped);
        honesty.skipped_ms += skipped.as_secs_f64() * 1e3;
        if let Some(processes) = processes {
            processes.end(drive, &mut honesty).await?;
        }
        if let Some(heart) = watched {
            heart.abort();
        }
        if let Some(faults) = &drive.faults {
            faults.end().await;
            if let Some(error) = faults.failure() {
                return Err(error).context("what the scenario plans to break cannot be broken");
            }
            // What was struck may have taken the lab's own connection with it, and the store elsewhere.
            let there = drive.route.primary().await.map_err(|e| anyhow!("the store cannot be found: {e}"))?;
            probe = Eye::on(there, table).await?;
        }
        own.outlive(drive, &mut probe).await?;
        settle(&offer.nodes).await;
        if let Some(error) = aging.and_then(|a| a.failure()) {
            return Err(error).context("the expiry of the round's keys cannot be moved on");
        }
        if let Some(error) = acts.failure() {
            return Err(error).context("what the scenario plans to be done to the store cannot be done");
        }
        if drive.recorder.stopped() {
            break;
        }
        if let (Some(before), Eye::Keys(patient)) = (before, &mut probe) {
            let Stats { evicted_keys, noscript, .. } = Stats::of(patient).await?.since(before);
            drive.recorder.event(Event::Stats { evicted_keys, noscript, at: drive.recorder.now() });
        }
        if drive.servers().is_empty() {
            own.probe(drive, &mut probe).await?;
        }
        for (seed, before) in drive.servers().iter().zip(&loads) {
            let mut node = admin(*seed).await?;
            let Stats { commands, cpu_us, .. } = Stats::of(&mut node).await?.since(*before);
            let (node_name, at) = (seed.to_string(), drive.recorder.now());
            drive.recorder.event(Event::Load { node: node_name, commands, cpu_us: Some(cpu_us), at });
            own.probe(drive, &mut Eye::Keys(node)).await?;
        }
        drive.recorder.event(Event::ProbesComplete { at: drive.recorder.now() });
        let clock_step_ns = drive.recorder.wall_drift_ns() - drift_before;
        let ops = drive.recorder.ops_of_round();
        let (trips, most_trips) = drive.recorder.trips_of_round();
        let at = drive.recorder.now();
        drive.recorder.event(Event::RoundEnd { at, ops, clock_step_ns, trips, most_trips });
        (drive.round_done)(index);
    }
    add_traffic(&mut honesty, &stores);
    honesty.busy_ms = busy.as_secs_f64() * 1e3;
    honesty.generator_cpu = if busy.is_zero() { 0.0 } else { cpu.as_secs_f64() / busy.as_secs_f64() };
    Ok(honesty)
}

/// The workload. Where the edge would be waited for, and windows that are not aligned have none, the
/// round begins at once.
fn offered(drive: &Drive<'_>) -> WorkloadPlan {
    let mut plan = drive.cell.setup.workload.clone();
    let bound = drive.cell.contract().bound;
    let aligned = matches!(bound, Bound::AlignedWindow { .. } | Bound::WeightedTwoWindow { .. });
    plan.at_edge &= aligned || time_of(drive.plan, drive.cell) == Time::Skipped;
    plan
}

/// What breaks between two calls: what is done at once, where calls follow each other.
fn between(drive: &Drive<'_>) -> Vec<PlannedFault> {
    let setup = &drive.cell.setup;
    setup.faults.iter().filter(|f| !is_beside(setup, f)).cloned().collect()
}

/// Whether a fault goes on beside the calls, by the clock.
pub fn is_beside(setup: &Setup, fault: &PlannedFault) -> bool {
    fault.lasts.is_some() || setup.workload.overlaps()
}

/// Waits for what limiters do behind their calls, with everything that broke taken back. What a client that never
/// gives up still waits for is dropped, and with it its task.
async fn settle(nodes: &[Arc<dyn Limiter>]) {
    const PATIENCE: Duration = Duration::from_secs(10);
    let all = futures_util::future::join_all(nodes.iter().map(|node| node.settle()));
    let _ = tokio::time::timeout(PATIENCE, all).await;
}

/// Notes when the thread of the calls stood still: the machine did, or too much was asked of it.
async fn heartbeat(recorder: Arc<Recorder>) {
    const BEAT: Duration = Duration::from_millis(5);
    const STILL_NS: i64 = 25_000_000;
    let mut last = recorder.now();
    loop {
        tokio::time::sleep(BEAT).await;
        let at = recorder.now();
        if at.0.saturating_sub(last.0) > STILL_NS {
            recorder.event(Event::Stall { from: last, at });
        }
        last = at;
    }
}

/// How the waits of a cell go by: nobody can skip what a limiter reads from the server's clock, nor what it does
/// behind its calls.
pub fn time_of(plan: &Plan, cell: &CellPlan) -> Time {
    let contract = cell.contract();
    let own_time = cell.process().is_some_and(|f| !f.skips_time);
    match contract.clock {
        _ if contract.in_background || own_time => Time::Real,
        DecidingClock::Server => Time::Real,
        DecidingClock::App | DecidingClock::Expiry => plan.scenario.time,
    }
}

/// Whether the limiter's clock has gone along with all that was skipped so far: nobody can move a server's, and
/// somebody else's process has a clock of its own.
fn goes_along(cell: &CellPlan) -> bool {
    cell.contract().clock != DecidingClock::Server && cell.process().is_none_or(|f| f.skips_time)
}

/// Whether the server tells when a key expires, and not only in how long (from 7.0).
async fn tells_moments(eye: &Eye) -> bool {
    let Eye::Keys(patient) = eye else { return true };
    redis::cmd("PEXPIRETIME").arg("rl-lab:none").query_async::<i64>(&mut patient.clone()).await.is_ok()
}

fn span(from: Nanos, to: Nanos) -> Duration {
    Duration::from_nanos(u64::try_from(to.0 - from.0).unwrap_or(0))
}

/// A hook for the node that dies there.
fn dies(point: &CrashPoint) -> SharedHook {
    AtStep { op: None, index: point.step, after: point.after, action: StepAction::Die }.shared()
}

/// Makes the first call, whose node dies in it, and takes down what it left. Answers with the rest of
/// the calls.
async fn crash_first(
    drive: &Drive<'_>,
    offer: &Offer<'_>,
    point: &CrashPoint,
    processes: Option<&Processes>,
    (probe, own): (&mut Eye, &RoundKeys),
) -> anyhow::Result<Option<WorkloadPlan>> {
    let with = |calls: &[PlannedCall]| WorkloadPlan { calls: calls.to_vec(), ..offer.plan.clone() };
    let (first, rest) = offer.plan.calls.split_at(1);
    let first = with(first);
    let call = workloads::of(first.shape).drive(Offer { plan: &first, ..offer.clone() });
    match processes {
        Some(processes) => processes.crash(point, call).await?,
        None => call.await,
    }
    let mut left = Vec::new();
    for key in own.list(probe).await? {
        let Seen { pttl, kind, holds, .. } = probe.look(&key, Closely::Content).await?;
        left.push(KeyLeft { key, pttl, kind: kind.unwrap_or_default(), holds });
    }
    left.sort_by(|a, b| a.key.cmp(&b.key));
    drive.recorder.event(Event::Crash { point: point.clone(), left, at: drive.recorder.now() });
    Ok(Some(with(rest)))
}

/// Every place in a first call where its node can die: before each exchange with the store, and after
/// the store applied it. Found by making that call twice: the first one loads scripts.
async fn points(drive: &Drive<'_>) -> anyhow::Result<Vec<CrashPoint>> {
    let mut probe = Eye::on(drive.address, drive.cell.spec.table(&drive.cell.settings)).await?;
    let mut steps = Vec::new();
    for round in ["warm", "told"] {
        let told = Arc::new(Told::default());
        let stores = connect(drive, &probe, Some(Arc::clone(&told) as SharedHook)).await?;
        let processes = match drive.cell.setup.workload.nodes_as {
            NodesAs::Processes => Some(Processes::start(drive, probe.keys()?, 1, true).await?),
            NodesAs::Tasks | NodesAs::Http => None,
        };
        let nodes = match &processes {
            Some(processes) => processes.limiters(),
            None => build(drive, &stores, &Arc::default(), &Fleet::of(1)),
        };
        let prefix = format!("{}-{round}:", drive.prefix);
        let key = format!("{prefix}{}", drive.cell.setup.workload.identity(0));
        let own = RoundKeys::from_now(drive, &mut probe, &prefix).await?;
        let before = processes.as_ref().map_or(0, Processes::sent);
        let call = as_call(Call::new(0, 0), nodes[0].acquire(&key, Cost::ONE));
        let (answer, _) = call.await;
        answer.map_err(|e| anyhow!("the call that is to be crashed does not even succeed: {e}"))?;
        for key in own.list(&mut probe).await? {
            probe.remove(&key).await?;
        }
        steps = processes.map_or_else(|| told.steps(), |p| p.steps(before));
    }
    let of = u32::try_from(steps.len())?;
    let at = |(step, command): (u32, &String)| {
        [false, true].map(|after| CrashPoint { step, of, after, command: command.clone() })
    };
    Ok((1..).zip(&steps).flat_map(at).collect())
}

fn build(
    drive: &Drive<'_>,
    stores: &[Reach],
    begins: &Arc<OnceLock<Nanos>>,
    fleet: &Arc<Fleet>,
) -> Vec<Arc<dyn Limiter>> {
    let one = |(node, reach): (u16, &Reach)| {
        let clock = clock_of(drive, node, begins);
        let make = |spec: &Spec, settings: Settings, version: u64| {
            let (store, others) = (Arc::clone(&reach.store), reach.others.clone());
            let database = reach.database.clone();
            let (clock, fleet) = (Arc::clone(&clock), Arc::clone(fleet));
            let node = NodeId(node);
            (spec.build)(Build { settings, store, database, others, clock, node, version, fleet })
        };
        let mut inner = make(drive.cell.spec, drive.cell.settings.clone(), 0);
        for (number, version) in (1..).zip(&drive.cell.deploys).filter(|(_, v)| v.planned.is_for(node)) {
            let limiter = make(version.spec, version.settings.clone(), number);
            inner = Deployed::over(inner, limiter, version, NodeId(node), begins, drive.recorder);
        }
        match &drive.cell.policy {
            Some(p) => {
                let (settings, terms) = (p.settings.clone(), drive.cell.terms());
                (p.spec.wrap)(Wrap { inner, settings, terms, clock })
            }
            None => inner,
        }
    };
    (0..).zip(stores).map(one).collect()
}

/// The wall clock of a node.
fn clock_of(drive: &Drive<'_>, node: u16, begins: &Arc<OnceLock<Nanos>>) -> Arc<dyn Clock> {
    let wrong = drive.cell.setup.clocks.iter().find(|c| c.node == node).copied();
    let wrong = wrong.map(|clock| (Arc::clone(begins), clock));
    Arc::new(NodeClock { recorder: Arc::clone(drive.recorder), wrong })
}

/// A limiter that counts per node is preset on every node, any other once.
async fn preset(drive: &Drive<'_>, nodes: &[Arc<dyn Limiter>], key: &str) -> anyhow::Result<()> {
    let used = drive.cell.setup.workload.preset;
    if used == 0 {
        return Ok(());
    }
    let contract = drive.cell.contract();
    let count = if contract.scope == Scope::Node { nodes.len() } else { 1 };
    for (n, limiter) in nodes.iter().take(count).enumerate() {
        let invoke = drive.recorder.now();
        limiter.preset(key, used).await.map_err(|e| anyhow!("the preset of {key} failed: {e}"))?;
        let complete = drive.recorder.now();
        let node = NodeId(u16::try_from(n)?);
        drive.recorder.event(Event::Preset { key: key.to_owned(), used, node, invoke, complete });
    }
    Ok(())
}

/// A connection of the lab's own, for looking at the store between rounds.
pub async fn admin(address: SocketAddr) -> anyhow::Result<Patient> {
    Patient::connect(address).await.with_context(|| format!("the server at {address} cannot be reached"))
}

/// How the server introduces itself.
pub async fn server_info(connection: &mut Patient) -> anyhow::Result<ServerInfo> {
    let text: String = redis::cmd("INFO").arg("server").query_async(connection).await?;
    Ok(parse_info(&text))
}

fn parse_info(text: &str) -> ServerInfo {
    let field =
        |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    match field("valkey_version") {
        Some(version) => ServerInfo { flavour: "valkey".to_owned(), version: version.to_owned() },
        None => ServerInfo {
            flavour: "redis".to_owned(),
            version: field("redis_version").unwrap_or("unknown").to_owned(),
        },
    }
}

/// CPU time of the calling thread.
fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of this frame; the clock id is a constant of the system.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0;
    if failed {
        return Duration::ZERO;
    }
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valkey_is_not_taken_for_the_redis_it_claims_to_be_compatible_with() {
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.8\r\n";
        assert_eq!(parse_info(valkey).version, "8.1.8");
        assert_eq!(parse_info(valkey).flavour, "valkey");
        assert_eq!(parse_info("# Server\r\nredis_version:7.0.15\r\n").version, "7.0.15");
    }
}
