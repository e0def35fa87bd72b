//! Limiters to be judged: the exact models, small references where there is none, and faults put
//! into any of them.

use std::collections::BTreeMap;

use rl_lab::model::algorithms::{
    Model, Step, fixed_window::FixedWindow, gcra::Gcra, token_bucket::TokenBucket,
};
use rl_lab::model::contract::{Bound, Denials};
use rl_lab::model::units::{Cost, Limit, Window};

pub fn limit(n: u64) -> Limit {
    Limit::new(n).unwrap()
}

pub fn window(ms: i64) -> Window {
    Window::from_millis(u64::try_from(ms).unwrap()).unwrap()
}

/// What is asked of a key's state. Times are the limiter's clock, in µs.
type OneKey = Box<dyn Model>;

/// How a limiter decides, with all that its contract says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Fixed(Denials),
    /// Its window is a key's time to live, as a server keeps it.
    Expiring(Denials),
    Aligned(Denials),
    Log(Denials),
    Counter,
    Token,
    Gcra,
    /// Its keys share a second window.
    Shared,
    /// Who used up the limit is locked out.
    Guard,
}

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub kind: Kind,
    pub limit: u64,
    pub window_ms: i64,
    /// Buckets: what a full one holds. Shared: the limit over all keys.
    pub other: u64,
    /// Guard: for how long. Shared: the window over all keys.
    pub other_ms: i64,
}

impl Settings {
    pub fn bound(&self) -> Bound {
        let (limit, window) = (limit(self.limit), window(self.window_ms));
        match self.kind {
            Kind::Fixed(_) | Kind::Expiring(_) | Kind::Shared | Kind::Guard => {
                Bound::FixedWindow { limit, window }
            }
            Kind::Aligned(_) => Bound::AlignedWindow { limit, window },
            Kind::Log(_) => Bound::SlidingWindow { limit, window },
            Kind::Counter => Bound::WeightedTwoWindow { limit, window },
            Kind::Token | Kind::Gcra => {
                Bound::Bucket { capacity: self::limit(self.other), refill: limit, window }
            }
        }
    }

    pub fn burst(&self) -> u64 {
        self.bound().burst().unwrap()
    }

    pub fn denials(&self) -> Denials {
        match self.kind {
            Kind::Fixed(denials) | Kind::Expiring(denials) | Kind::Aligned(denials) | Kind::Log(denials) => {
                denials
            }
            _ => Denials::Free,
        }
    }

    pub fn across(&self) -> Option<Bound> {
        let (limit, window) = (limit(self.other), window(self.other_ms));
        (self.kind == Kind::Shared).then_some(Bound::FixedWindow { limit, window })
    }

    pub fn lockout(&self) -> Option<Window> {
        (self.kind == Kind::Guard).then(|| window(self.other_ms))
    }

    fn one_key(&self) -> OneKey {
        let (limit, window, ms) = (limit(self.limit), window(self.window_ms), self.window_ms);
        match self.kind {
            Kind::Fixed(denials) => Box::new(FixedWindow::new(limit, window).with(denials)),
            Kind::Aligned(denials) => {
                Box::new(Numbered { limit: self.limit, ms, denials, counts: BTreeMap::new() })
            }
            Kind::Expiring(denials) => Box::new(Expiring { limit: self.limit, ms, denials, key: None }),
            Kind::Log(denials) => Box::new(Log { limit: self.limit, ms, denials, entries: Vec::new() }),
            Kind::Counter => Box::new(TwoWindows { limit: self.limit, ms, counts: BTreeMap::new() }),
            Kind::Token => Box::new(TokenBucket::new(self::limit(self.other), limit, window)),
            Kind::Gcra => Box::new(Gcra::new(self::limit(self.other), limit, window)),
            Kind::Shared => unreachable!("its keys are not on their own"),
            Kind::Guard => Box::new(Guarded {
                open: Open { limit: self.limit, ms, state: None },
                lockout_ms: self.other_ms,
                until: i64::MIN,
            }),
        }
    }
}

/// A fault that a checker must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The limit, or the capacity, is one less than it should be.
    OneLess,
    /// A refusal takes what is left.
    ChargesDenials,
    /// Time stands still after the first call.
    ForgetsToRefill,
    HintHalved,
    HintInSecondsRoundedDown,
    HintToTheNearestSecond,
    HintTripled,
    RemainingOneMore,
    RemainingOneLess,
}

/// All keys and nodes of a limiter.
pub struct Subject {
    settings: Settings,
    fault: Fault,
    keys: BTreeMap<(usize, u16), OneKey>,
    shared: BTreeMap<usize, Open>,
    all: Open,
    first_us: Option<i64>,
}

impl Subject {
    pub fn new(settings: Settings, fault: Fault) -> Self {
        let mut settings = settings;
        if fault == Fault::OneLess {
            match settings.kind {
                Kind::Token | Kind::Gcra => settings.other -= 1,
                _ => settings.limit -= 1,
            }
        }
        let all = Open { limit: settings.other, ms: settings.other_ms, state: None };
        Self { settings, fault, keys: BTreeMap::new(), shared: BTreeMap::new(), all, first_us: None }
    }

    /// Decides a call on a key; `node` is the place of its state where each node keeps its own.
    pub fn acquire(&mut self, key: usize, node: u16, now_us: i64, cost: Cost) -> Step {
        let first = *self.first_us.get_or_insert(now_us);
        let now_us = if self.fault == Fault::ForgetsToRefill { first } else { now_us };
        let mut step = self.decide(key, node, now_us, cost);
        if self.fault == Fault::ChargesDenials && !step.allowed {
            for _ in 0..cost.get() {
                self.decide(key, node, now_us, Cost::ONE);
            }
        }
        let hint = &mut step.retry_after_ms;
        match self.fault {
            Fault::HintHalved => *hint = hint.map(|ms| (ms / 2).max(1)),
            Fault::HintInSecondsRoundedDown => *hint = hint.map(|ms| ms / 1000 * 1000),
            Fault::HintToTheNearestSecond => *hint = hint.map(|ms| (ms + 500) / 1000 * 1000),
            Fault::HintTripled => *hint = hint.map(|ms| ms * 3),
            Fault::RemainingOneMore => step.remaining += 1,
            Fault::RemainingOneLess => step.remaining = step.remaining.saturating_sub(1),
            _ => {}
        }
        step
    }

    fn decide(&mut self, key: usize, node: u16, now_us: i64, cost: Cost) -> Step {
        if self.settings.kind == Kind::Shared {
            let open = Open { limit: self.settings.limit, ms: self.settings.window_ms, state: None };
            let own = self.shared.entry(key).or_insert(open);
            return both(own, &mut self.all, now_us.div_euclid(1000), cost);
        }
        let settings = self.settings;
        self.keys.entry((key, node)).or_insert_with(|| settings.one_key()).acquire(now_us, cost)
    }
}

/// A window that opens with its first hit, and can be looked at before it is hit.
#[derive(Debug, Clone, Copy)]
struct Open {
    limit: u64,
    ms: i64,
    state: Option<(i64, u64)>,
}

impl Open {
    fn count(&self, now_ms: i64) -> (i64, u64) {
        self.state.filter(|(began, _)| now_ms - began < self.ms).unwrap_or((now_ms, 0))
    }

    /// `None` if the call fits; else how long it must wait, if that helps.
    fn refuses(&self, now_ms: i64, cost: Cost) -> Option<Option<u64>> {
        let (began, count) = self.count(now_ms);
        let cost = u64::from(cost.get());
        (count + cost > self.limit).then(|| (cost <= self.limit).then_some((began + self.ms - now_ms) as u64))
    }

    fn take(&mut self, now_ms: i64, cost: Cost) {
        let (began, count) = self.count(now_ms);
        self.state = Some((began, count + u64::from(cost.get())));
    }

    fn left(&self, now_ms: i64) -> u64 {
        self.limit.saturating_sub(self.count(now_ms).1)
    }
}

/// Both windows are looked at, then both are charged; what is told is the tighter one's.
fn both(own: &mut Open, all: &mut Open, now_ms: i64, cost: Cost) -> Step {
    let refusals = [own.refuses(now_ms, cost), all.refuses(now_ms, cost)];
    let allowed = refusals == [None, None];
    if allowed {
        own.take(now_ms, cost);
        all.take(now_ms, cost);
    }
    let waits: Option<Vec<u64>> = refusals.into_iter().flatten().collect();
    Step {
        allowed,
        remaining: own.left(now_ms).min(all.left(now_ms)),
        retry_after_ms: waits.map(|w| w.into_iter().max().unwrap_or(0)),
    }
}

/// A window after whose last permit nobody gets in for a while.
struct Guarded {
    open: Open,
    lockout_ms: i64,
    until: i64,
}

impl Model for Guarded {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        let now = now_us.div_euclid(1000);
        if now < self.until {
            let wait = (u64::from(cost.get()) <= self.open.limit).then_some((self.until - now) as u64);
            return Step { allowed: false, remaining: 0, retry_after_ms: wait };
        }
        if let Some(wait) = self.open.refuses(now, cost) {
            return Step { allowed: false, remaining: self.open.left(now), retry_after_ms: wait };
        }
        self.open.take(now, cost);
        let remaining = self.open.left(now);
        if remaining == 0 {
            self.until = now + self.lockout_ms;
            self.open.state = None;
        }
        Step { allowed: true, remaining, retry_after_ms: Some(0) }
    }
}

/// A counter in a key with a time to live: it is there up to the last millisecond of it, and the time
/// left is told rounded down, so one more is told to wait.
struct Expiring {
    limit: u64,
    ms: i64,
    denials: Denials,
    /// The count, and the last millisecond.
    key: Option<(u64, i64)>,
}

impl Model for Expiring {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        let now = now_us.div_euclid(1000);
        self.key = self.key.filter(|(_, until)| now <= *until);
        let (count, until) = self.key.unwrap_or((0, now + self.ms));
        let cost = u64::from(cost.get());
        let allowed = count + cost <= self.limit;
        let mut counted = count;
        if allowed || self.denials == Denials::Charged {
            counted += cost;
            self.key = Some((counted, until));
        }
        let wait = (cost <= self.limit).then_some((until - now + 1) as u64);
        Step {
            allowed,
            remaining: self.limit.saturating_sub(counted),
            retry_after_ms: if allowed { Some(0) } else { wait },
        }
    }
}

/// A counter for each window of the clock.
struct Numbered {
    limit: u64,
    ms: i64,
    denials: Denials,
    counts: BTreeMap<i64, u64>,
}

impl Model for Numbered {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        let now = now_us.div_euclid(1000);
        let count = self.counts.entry(now.div_euclid(self.ms)).or_default();
        let cost = u64::from(cost.get());
        let allowed = *count + cost <= self.limit;
        if allowed || self.denials == Denials::Charged {
            *count += cost;
        }
        let left = (self.ms - now.rem_euclid(self.ms)) as u64;
        Step {
            allowed,
            remaining: self.limit.saturating_sub(*count),
            retry_after_ms: if allowed { Some(0) } else { (cost <= self.limit).then_some(left) },
        }
    }
}

/// Every call with its time.
struct Log {
    limit: u64,
    ms: i64,
    denials: Denials,
    entries: Vec<i64>,
}

impl Model for Log {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        let window = self.ms * 1000;
        self.entries.retain(|at| *at > now_us - window);
        let (count, cost) = (self.entries.len() as u64, u64::from(cost.get()));
        let allowed = count + cost <= self.limit;
        let mut wait = Some(0);
        if !allowed {
            let place = (count + cost).saturating_sub(self.limit + 1);
            let leaves =
                self.entries.get(place as usize).map(|at| ((at + window - now_us) as u64).div_ceil(1000));
            // Where refusals are logged nobody knows when there will be room: more may come.
            wait = leaves.filter(|_| cost <= self.limit && self.denials == Denials::Free);
        }
        if allowed || self.denials == Denials::Charged {
            self.entries.extend((0..cost).map(|_| now_us));
            self.entries.sort_unstable();
        }
        Step {
            allowed,
            remaining: self.limit.saturating_sub(self.entries.len() as u64),
            retry_after_ms: wait,
        }
    }
}

/// Two numbered counters, the older one weighted, in doubles.
struct TwoWindows {
    limit: u64,
    ms: i64,
    counts: BTreeMap<i64, u64>,
}

impl Model for TwoWindows {
    fn acquire(&mut self, now_us: i64, cost: Cost) -> Step {
        let now = now_us.div_euclid(1000);
        let number = now.div_euclid(self.ms);
        let of = |n: i64| self.counts.get(&n).copied().unwrap_or(0) as f64;
        let (count, last) = (of(number), of(number - 1));
        let (limit, window, wanted) = (self.limit as f64, self.ms as f64, f64::from(cost.get()));
        let elapsed = (now - number * self.ms) as f64;
        let weighted = count + last * (window - elapsed) / window;
        if weighted + wanted > limit {
            let wait = if wanted > limit {
                None
            } else if count + wanted <= limit && last > 0.0 {
                Some(((weighted + wanted - limit) * window / last).ceil() as u64)
            } else {
                let over = (count + wanted - limit) * window / count;
                Some((window - elapsed + over.max(0.0).ceil()) as u64)
            };
            let remaining = (limit - weighted).floor().max(0.0) as u64;
            return Step { allowed: false, remaining, retry_after_ms: wait };
        }
        *self.counts.entry(number).or_default() += u64::from(cost.get());
        Step { allowed: true, remaining: (limit - weighted - wanted).floor() as u64, retry_after_ms: Some(0) }
    }
}
