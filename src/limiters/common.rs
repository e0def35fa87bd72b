//! What several limiters share: contracts of counters, decisions from counts, scripts by SHA-1.

use std::time::Duration;

use crate::model::algorithms::{Algorithm, Step};
use crate::model::contract::{Bound, Contract, DecidingClock, Denials, OnOutage, Scope};
use crate::model::op::{Decision, Source};
use crate::model::units::{Cost, Limit, Window};
use crate::ports::clock::Clock;
use crate::ports::limiter::{Param, ParamKind, Settings};
use crate::ports::store::{Command, Reply, Store, StoreError};

/// The contract of a counter in the store whose window opens with the first hit.
pub fn counter_contract(settings: &Settings, denials: Denials) -> Contract {
    Contract {
        bound: Bound::FixedWindow { limit: settings.limit, window: settings.window },
        scope: Scope::Global,
        clock: DecidingClock::Expiry,
        clock_resolution_ms: 1,
        denials,
        on_outage: OnOutage::Error,
        fallback: None,
        key_ttl_at_most: Some(settings.window),
        lockout: None,
        across_keys: None,
        algorithm: None,
        round_trips_at_most: None,
    }
}

/// The algorithm of a counter whose window opens with the first hit.
pub fn fixed_window(settings: &Settings, denials: Denials) -> Option<Algorithm> {
    Some(Algorithm::FixedWindow { limit: settings.limit, window: settings.window, denials })
}

/// The contract of a bucket in the store.
pub fn bucket_contract(settings: &Settings, capacity: Limit, clock: DecidingClock, ttl: Window) -> Contract {
    Contract {
        bound: Bound::Bucket { capacity, refill: settings.limit, window: settings.window },
        scope: Scope::Global,
        clock,
        clock_resolution_ms: 1,
        denials: Denials::Free,
        on_outage: OnOutage::Error,
        fallback: None,
        key_ttl_at_most: Some(ttl),
        lockout: None,
        across_keys: None,
        algorithm: None,
        round_trips_at_most: None,
    }
}

/// A decision from a counter's value after a call of this cost was counted, and from how long its
/// window has left.
pub fn counted(settings: &Settings, cost: Cost, count: i64, left: Option<Duration>) -> Decision {
    let limit = settings.limit.get();
    let count = u64::try_from(count).unwrap_or(0);
    let allowed = count <= limit;
    // What asks for more than the limit is never admitted, so there is nothing to wait for.
    let fits = u64::from(cost.get()) <= limit;
    Decision {
        allowed,
        remaining: Some(limit.saturating_sub(count)),
        limit: settings.limit,
        retry_after: if allowed || !fits { None } else { left },
        reset: left,
        source: Source::Store,
    }
}

/// A decision from a model's step.
pub fn stepped(settings: &Settings, step: Step, source: Source) -> Decision {
    let wait = step.retry_after_ms.map(Duration::from_millis);
    Decision {
        allowed: step.allowed,
        remaining: Some(step.remaining),
        limit: settings.limit,
        retry_after: if step.allowed { None } else { wait },
        reset: None,
        source,
    }
}

/// Gives a counter the value it has after `used` calls, with a whole window to live.
pub async fn preset_counter(
    store: &dyn Store,
    settings: &Settings,
    key: &str,
    used: u64,
) -> Result<(), StoreError> {
    let set = Command::new("SET").arg(key).arg(used).arg("PX").arg(settings.window.millis());
    store.command(set).await.map(|_| ())
}

/// Adds `used` to a counter that others may have counted on already; a new one lives for `window`.
pub async fn preset_shared(
    store: &dyn Store,
    window: Window,
    key: &str,
    used: u64,
) -> Result<(), StoreError> {
    store.command(Command::new("SET").arg(key).arg(0).arg("PX").arg(window.millis()).arg("NX")).await?;
    store.command(Command::new("INCRBY").arg(key).arg(used)).await.map(|_| ())
}

/// The number of the clock-aligned window that is open now, and the milliseconds it has left.
pub fn open_window(settings: &Settings, app: &dyn Clock) -> (i64, u64) {
    let length = settings.window.millis() as i64;
    let now = app.wall_us().div_euclid(1000);
    (now.div_euclid(length), (length - now.rem_euclid(length)) as u64)
}

/// PEXPIRE with the window's length.
pub fn expire(settings: &Settings, key: &str) -> Command {
    Command::new("PEXPIRE").arg(key).arg(settings.window.millis())
}

/// INCRBY, with the cost of the call.
pub fn incr(key: &str, cost: Cost) -> Command {
    Command::new("INCRBY").arg(key).arg(cost.get())
}

/// The choice every clock-reading script offers.
pub const CLOCK: Param = Param {
    name: "clock",
    default: "app",
    kind: ParamKind::OneOf(&["app", "server"]),
    help: "whose clock decides: the app server's, passed as an argument, or the store's TIME",
};

/// What the parameter of [`CLOCK`] says.
pub fn clock(settings: &Settings) -> DecidingClock {
    if settings.param("clock") == "server" { DecidingClock::Server } else { DecidingClock::App }
}

/// A count from 1 that is the limit where it is not given.
pub const fn count_param(name: &'static str, help: &'static str) -> Param {
    Param { name, default: "", kind: ParamKind::Count, help }
}

/// The first reply of a batch, as an integer.
pub fn first_int(replies: &[Reply]) -> Result<i64, StoreError> {
    replies.first().ok_or_else(|| StoreError::Unexpected("a batch without replies".to_owned()))?.expect_int()
}

/// A decision from `{allowed, remaining, wait in ms; -1 for never}`, as the scripts here answer.
pub fn scripted(settings: &Settings, reply: Reply) -> Result<Decision, StoreError> {
    let reply = reply.expect_list(3)?;
    let allowed = reply[0].expect_int()? == 1;
    let wait = u64::try_from(reply[2].expect_int()?).ok().map(Duration::from_millis);
    Ok(Decision {
        allowed,
        remaining: u64::try_from(reply[1].expect_int()?).ok(),
        limit: settings.limit,
        retry_after: if allowed { None } else { wait },
        reset: None,
        source: Source::Store,
    })
}

/// As [`scripted`], with the ms until the full limit is there again at the end.
pub fn scripted_with_reset(settings: &Settings, reply: Reply) -> Result<Decision, StoreError> {
    let mut reply = reply.expect_list(4)?;
    let reset = reply.pop().as_ref().and_then(Reply::int).and_then(|ms| u64::try_from(ms).ok());
    let decision = scripted(settings, Reply::List(reply))?;
    Ok(Decision { reset: reset.map(Duration::from_millis), ..decision })
}

/// The largest log a limiter here keeps: one member per admitted call.
const LONGEST_LOG: u64 = 1_000_000;

/// For limiters that keep every admitted call of a window.
pub fn fits_a_log(settings: &Settings) -> Result<(), String> {
    if settings.limit.get() > LONGEST_LOG {
        return Err(format!("a log of {} calls is longer than the {LONGEST_LOG} it keeps", settings.limit));
    }
    can_be_kept(settings)
}

/// Fills a log with `used` calls made just now, at `score`; it is kept for `ttl`.
pub async fn preset_log(
    store: &dyn Store,
    settings: &Settings,
    key: &str,
    used: u64,
    score: i64,
    ttl: Window,
) -> Result<(), StoreError> {
    // No more than the limit can have been admitted; a thousand members to a command.
    let used = used.min(settings.limit.get());
    for from in (0..used).step_by(1000) {
        let mut add = Command::new("ZADD").arg(key);
        for n in from..used.min(from + 1000) {
            add = add.arg(score).arg(format!("preset-{n}"));
        }
        store.command(add).await?;
    }
    store.command(Command::new("PEXPIRE").arg(key).arg(ttl.millis())).await.map(|_| ())
}

/// What the keys of one application share, up to and including the last `:`, and the rest.
pub fn shared_prefix(key: &str) -> (&str, &str) {
    key.split_at(key.rfind(':').map_or(0, |at| at + 1))
}

/// A key's name under a hash tag of its shared prefix: all names made so lie in one slot. Where there
/// is no prefix the tag cannot be empty, as an empty one is none.
pub fn tagged(prefix: &str, rest: &str) -> String {
    let tag = if prefix.is_empty() { ":" } else { prefix };
    format!("{{{tag}}}{rest}")
}

/// Two windows' length, which some keys live for.
pub fn twice_the_window(settings: &Settings) -> Result<Window, String> {
    Window::from_millis(settings.window.millis() * 2)
        .map_err(|_| format!("twice the window of {} is longer than 366 days", settings.window))
}

/// For limiters that count windows in whole seconds.
pub fn whole_seconds(settings: &Settings) -> Result<(), String> {
    if settings.window.millis().is_multiple_of(1000) {
        return Ok(());
    }
    Err(format!("it counts windows in whole seconds, which {} is not", settings.window))
}

/// With the app's clock a call carries the time at which it was made and may be late. Its state
/// must not be gone before it arrives: it would start anew in the past, and the next call would
/// refill the whole bucket. The longest a call can be under way is the client's time to connect and
/// to wait for the response, 1.5 s; the rest is margin. With the store's clock no call is late.
pub fn kept_for_the_late_ms(settings: &Settings) -> u64 {
    match clock(settings) {
        DecidingClock::App => 2_000,
        DecidingClock::Server | DecidingClock::Expiry => 0,
    }
}

/// How long a key is kept whose state lasts for so many windows.
pub fn kept(settings: &Settings, windows: u64) -> Result<Window, String> {
    Window::from_millis(settings.window.millis() * windows + kept_for_the_late_ms(settings)).map_err(|_| {
        format!("with a window of {} its keys would be kept for more than 366 days", settings.window)
    })
}

/// For limiters whose state lasts for one window.
pub fn can_be_kept(settings: &Settings) -> Result<(), String> {
    kept(settings, 1).map(|_| ())
}

/// What [`kept`] says, once it was checked.
pub fn kept_ms(settings: &Settings, windows: u64) -> u64 {
    kept(settings, windows).unwrap_or(settings.window).millis()
}

/// Now, in microseconds, by the clock that decides.
pub async fn now_us(settings: &Settings, store: &dyn Store, app: &dyn Clock) -> Result<i64, StoreError> {
    match clock(settings) {
        DecidingClock::App => Ok(app.wall_us()),
        DecidingClock::Server | DecidingClock::Expiry => {
            let time = store.command(Command::new("TIME")).await?.expect_list(2)?;
            Ok(time[0].expect_int()? * 1_000_000 + time[1].expect_int()?)
        }
    }
}
