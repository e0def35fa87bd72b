//! Breaks what the scenario plans, on time or between two calls, and takes all of it back.
//!
//! Everything goes over the main runtime: the engine's client belongs to it, and a load thread that ends must
//! not take a fault's undoing with it. Whatever ends the round (its end, an error, an interrupt) ends in
//! [`Faults::lift_all`]; after a SIGKILL the journal and `rl-lab gc` do the work.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Barrier, watch};

use super::eye;
use super::record::Recorder;
use crate::faults;
use crate::model::history::Event;
use crate::model::scenario::{OutageNeeds, PlannedFault};
use crate::model::units::{Nanos, Span};
use crate::ports::backend::{BackendError, Server};
use crate::ports::fault::{Ground, Undo};

/// The faults of one round, which one or several cells go through.
pub struct Faults {
    ground: Ground,
    planned: Vec<PlannedFault>,
    /// The recorders of the cells; each hears of every fault.
    lanes: Vec<Arc<Recorder>>,
    runtime: tokio::runtime::Handle,
    count: AtomicU32,
    active: Mutex<Vec<Active>>,
    failed: Mutex<Option<BackendError>>,
    start: Barrier,
    end: Barrier,
    phase: watch::Sender<Phase>,
    /// How long calls have to go on when everything is mended.
    watched_for: Option<Span>,
    /// Faults with an end of their own that have not come to it, and when the last one did.
    pending: Mutex<(usize, Option<Nanos>)>,
}

struct Active {
    id: u32,
    undo: Undo,
    struck: Option<Arc<dyn Server>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Ready,
    /// Every cell is ready to begin.
    Assembled,
    /// What is broken from the beginning is, and the calls begin.
    Began,
    /// Every call of every cell has completed.
    Over,
    Lifted,
}

impl Faults {
    pub fn new(
        ground: Ground,
        planned: &[PlannedFault],
        outage: Option<OutageNeeds>,
        lanes: Vec<Arc<Recorder>>,
    ) -> Arc<Self> {
        let cells = lanes.len();
        let ends = planned.iter().filter(|p| p.lasts.is_some()).map(|p| p.times.get() as usize).sum();
        Arc::new(Self {
            ground,
            planned: planned.to_vec(),
            lanes,
            runtime: tokio::runtime::Handle::current(),
            count: AtomicU32::new(0),
            active: Mutex::default(),
            failed: Mutex::default(),
            start: Barrier::new(cells),
            end: Barrier::new(cells),
            phase: watch::Sender::new(Phase::Ready),
            watched_for: outage.map(|needs| needs.recovers_within),
            pending: Mutex::new((ends, None)),
        })
    }

    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    /// Waits for the other cells, and for what is broken from the beginning.
    pub async fn begin(&self) {
        if self.start.wait().await.is_leader() {
            self.phase.send_replace(Phase::Assembled);
        }
        let begun = |phase: &Phase| !matches!(phase, Phase::Ready | Phase::Assembled);
        let _ = self.phase.subscribe().wait_for(begun).await;
    }

    /// Waits until the calls of the other cells are over too, and everything is taken back.
    pub async fn end(&self) {
        if self.end.wait().await.is_leader() {
            self.phase.send_replace(Phase::Over);
        }
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Lifted).await;
    }

    /// Plays what goes on beside the calls, from their beginning to their end, and takes everything back. To
    /// be run on the main runtime; `aborted` ends it where the calls will not.
    pub async fn play(
        self: Arc<Self>,
        beside: impl Fn(&PlannedFault) -> bool,
        mut aborted: watch::Receiver<bool>,
    ) {
        let mut phase = self.phase.subscribe();
        let assembled = tokio::select! {
            phase = phase.wait_for(|phase| *phase == Phase::Assembled) => phase.is_ok(),
            _ = aborted.wait_for(|aborted| *aborted) => false,
        };
        if assembled {
            let over = async {
                let mut phase = self.phase.subscribe();
                tokio::select! {
                    _ = phase.wait_for(|phase| *phase == Phase::Over) => {}
                    _ = aborted.wait_for(|aborted| *aborted) => {}
                }
            };
            self.on_time(beside, over).await;
        }
        self.lift_all().await;
        self.phase.send_replace(Phase::Lifted);
    }

    async fn on_time(&self, beside: impl Fn(&PlannedFault) -> bool, over: impl Future<Output = ()>) {
        let mut agenda: Vec<(i64, What<'_>)> = Vec::new();
        for planned in self.planned.iter().filter(|p| beside(p)) {
            for at in planned.times() {
                let place = agenda.len();
                agenda.push((at, What::Strike(planned)));
                if let Some(lasts) = planned.lasts {
                    agenda.push((at.saturating_add(lasts.nanos()), What::Lift(place)));
                }
            }
        }
        let mut order: Vec<usize> = (0..agenda.len()).collect();
        order.sort_by_key(|place| agenda[*place].0);
        let mut struck = vec![None; agenda.len()];
        let mut over = std::pin::pin!(over);
        // What is broken from the beginning is so before the first call.
        let (first, rest): (Vec<usize>, Vec<usize>) =
            order.into_iter().partition(|place| agenda[*place].0 == 0);
        for place in first {
            if let What::Strike(planned) = agenda[place].1 {
                struck[place] = self.inject(planned).await;
            }
        }
        let began = self.now();
        self.phase.send_replace(Phase::Began);
        for place in rest {
            let (at, what) = &agenda[place];
            let left = began.0.saturating_add(*at).saturating_sub(self.now().0);
            let wait = tokio::time::sleep(Duration::from_nanos(u64::try_from(left).unwrap_or(0)));
            tokio::select! {
                biased;
                () = &mut over => return,
                () = wait => {}
            }
            match what {
                // A fault that cannot be injected ends the round, once its calls are over.
                What::Strike(planned) => struck[place] = self.inject(planned).await,
                What::Lift(of) => {
                    if let Some(id) = struck[*of] {
                        self.lift(id).await;
                    }
                }
            }
        }
        over.await;
    }

    /// Breaks something from the thread of the calls, and returns when it is in force.
    pub async fn strike(self: &Arc<Self>, planned: &PlannedFault) {
        let (faults, planned) = (Arc::clone(self), planned.clone());
        let work = self.runtime.spawn(async move {
            let id = faults.inject(&planned).await;
            if let (Some(id), Some(lasts)) = (id, planned.lasts) {
                tokio::time::sleep(Span::duration(lasts)).await;
                faults.lift(id).await;
            }
        });
        if let Err(error) = work.await {
            std::panic::resume_unwind(error.into_panic());
        }
    }

    fn now(&self) -> Nanos {
        self.lanes[0].now()
    }

    fn tell(&self, event: &Event) {
        for lane in &self.lanes {
            lane.event(event.clone());
        }
    }

    async fn inject(&self, planned: &PlannedFault) -> Option<u32> {
        let asked = self.now();
        let injected = match faults::find(&planned.fault) {
            Ok(fault) => fault.inject(planned, &self.ground).await,
            Err(why) => Err(BackendError::Missing(why)),
        };
        let at = self.now();
        match injected {
            Ok(injected) => {
                let id = self.count.fetch_add(1, Ordering::Relaxed) + 1;
                let (fault, on, told) = (planned.fault.clone(), planned.on.clone(), injected.told);
                self.tell(&Event::Fault { id, fault, on, asked, at, told });
                if let Some(undo) = injected.undo {
                    self.active().push(Active { id, undo, struck: injected.struck });
                }
                Some(id)
            }
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    fn active(&self) -> MutexGuard<'_, Vec<Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: BackendError) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    async fn lift(&self, id: u32) {
        let found = {
            let mut active = self.active();
            let place = active.iter().position(|a| a.id == id);
            place.map(|place| active.remove(place))
        };
        let Some(Active { undo, struck, .. }) = found else { return };
        let asked = self.now();
        let mut undone = undo().await;
        if let (Ok(()), Some(server)) = (&undone, &struck) {
            undone = eye::answers(&**server).await.map_err(|why| BackendError::Engine {
                what: format!("looking whether '{}' answers again", server.name()),
                why,
            });
        }
        match undone {
            Ok(()) => {
                let at = self.now();
                let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                *pending = (pending.0.saturating_sub(1), Some(at));
                drop(pending);
                self.tell(&Event::FaultEnd { id, asked, at });
            }
            Err(error) => self.fail(error),
        }
    }

    /// Whether a fault has not come to its end yet, or so lately that nobody can tell whether the store is back.
    pub fn unsettled(&self) -> bool {
        const LONGER_NS: i64 = 500_000_000;
        let (left, last) = *self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = self.watched_for else { return false };
        let until = |last: Nanos| last.0.saturating_add(watched.nanos()).saturating_add(LONGER_NS);
        left > 0 || last.is_some_and(|last| self.now().0 < until(last))
    }

    /// Takes back whatever is still in force, the last first.
    pub async fn lift_all(&self) {
        loop {
            let last = self.active().last().map(|a| a.id);
            match last {
                Some(id) => self.lift(id).await,
                None => return,
            }
        }
    }

    /// Why something could not be broken or taken back, if so.
    pub fn failure(&self) -> Option<BackendError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

enum What<'a> {
    Strike(&'a PlannedFault),
    /// What was struck at that place of the agenda.
    Lift(usize),
}
