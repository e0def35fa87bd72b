//! A limiter that is a Lua script of somebody else's: what it is called with, and what its reply means, is told by
//! `[limiter.NAME.lua]`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::model::foreign::{Foreign, LuaWay, Number, Place};
use crate::model::op::{Decision, Source};
use crate::model::template::{Filling, Template};
use crate::model::units::Cost;
use crate::ports::BoxFuture;
use crate::ports::clock::Clock;
use crate::ports::limiter::{Build, Limiter, Settings};
use crate::ports::store::{Reply, Script, Store, StoreError};

/// The script that decides, and the one after it if there is one.
type Scripts = (&'static Script, Option<&'static Script>);

/// What was read, by the table that names it, which is kept to the end of the program.
static READ: Mutex<BTreeMap<usize, Scripts>> = Mutex::new(BTreeMap::new());

/// Reads its scripts, once: the same limiter is built for every round, and stays the same.
pub fn read(of: &Foreign, lua: &'static LuaWay) -> Result<Scripts, String> {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let place = std::ptr::from_ref(lua).addr();
    if let Some(scripts) = read.get(&place) {
        return Ok(*scripts);
    }
    let kept = |text: String| -> &'static Script {
        Box::leak(Box::new(Script::new(Box::leak(text.into_boxed_str()))))
    };
    let script = |file: &Path| -> Result<&'static Script, String> {
        let path = of.folder.join(file);
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|e| format!("its script {} cannot be read: {e}", path.display()))?;
        Ok(kept(text))
    };
    let first = match (&lua.script, &lua.file) {
        (Some(text), _) => kept(text.clone()),
        (None, file) => script(file.as_deref().unwrap_or_else(|| Path::new("")))?,
    };
    let scripts = (first, lua.then.as_deref().map(script).transpose()?);
    read.insert(place, scripts);
    Ok(scripts)
}

pub struct Scripted {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    node: u16,
    scripts: Result<Scripts, String>,
    lua: &'static LuaWay,
    /// Calls so far.
    calls: AtomicU64,
    version: u64,
}

impl Scripted {
    pub fn new(build: Build, lua: &'static LuaWay) -> Self {
        let of = build.settings.foreign.ok_or_else(|| "nobody says which script it is".to_owned());
        // It was there when the file that names it was read.
        let scripts = of.and_then(|of| read(of, lua));
        let Build { settings, store, clock, node, version, .. } = build;
        Self { settings, store, clock, node: node.0, scripts, lua, calls: AtomicU64::new(0), version }
    }

    fn filled(&self, templates: &[Template], with: &Filling) -> Result<Vec<String>, StoreError> {
        templates.iter().map(|t| t.fill(with).map_err(StoreError::Unexpected)).collect()
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let (script, then) = self.scripts.as_ref().map_err(|why| StoreError::NotConnected(why.clone()))?;
        let timed = self.lua.keys.iter().chain(&self.lua.args).any(Template::reads_clock);
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let with = Filling {
            key,
            cost: cost.get(),
            limit: self.settings.limit.get(),
            window_ms: self.settings.window.millis(),
            node: self.node,
            now_us: if timed { self.clock.wall_us() } else { 0 },
            // Those of a node, of a version and of all before differ.
            id: (u64::from(self.node) << 44) | (self.version << 40) | number,
            ..Filling::default()
        };
        let keys = self.filled(&self.lua.keys, &with)?;
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let reply = self.store.eval(script, &keys, self.filled(&self.lua.args, &with)?).await?;
        let decision = self.meant(&reply, &with)?;
        if let Some(then) = then.filter(|_| decision.allowed) {
            self.store.eval(then, &keys, self.filled(&self.lua.args, &with)?).await?;
        }
        Ok(decision)
    }

    fn meant(&self, reply: &Reply, with: &Filling) -> Result<Decision, StoreError> {
        let unread =
            |what: &str| StoreError::Unexpected(format!("{what} cannot be read from the reply {reply:?}"));
        let number = |number: &Number| match number {
            Number::Is(number) => Some(*number),
            Number::Of(template) => template.fill(with).ok()?.parse().ok(),
        };
        let told = at(reply, self.lua.allowed.at).ok_or_else(|| unread("whether it is allowed"))?;
        let allowed = self.lua.allowed.holds(told, number).ok_or_else(|| unread("whether it is allowed"))?;
        let amount = |place: Option<Place>, what: &str| {
            let read =
                |p: Place| at(reply, p.at).map(|n| n.saturating_mul(p.times)).ok_or_else(|| unread(what));
            // Below nothing is nothing: `-1` is what scripts say for none.
            place.map(read).transpose().map(|n| n.and_then(|n| u64::try_from(n).ok()))
        };
        let retry_after = amount(self.lua.retry_after_ms, "retry_after_ms")?.map(Duration::from_millis);
        Ok(Decision {
            allowed,
            remaining: amount(self.lua.remaining, "remaining")?,
            limit: self.settings.limit,
            retry_after: retry_after.filter(|_| !allowed),
            reset: amount(self.lua.reset_ms, "reset_ms")?.map(Duration::from_millis),
            source: Source::Store,
        })
    }
}

/// A number of a reply: an element of a list from 1, or the reply itself. `nil`, which is what Lua's `false` becomes,
/// counts as 0.
fn at(reply: &Reply, place: Option<usize>) -> Option<i64> {
    let one = match (place, reply) {
        (None, reply) => reply,
        (Some(place), Reply::List(items)) => items.get(place.checked_sub(1)?)?,
        (Some(_), _) => return None,
    };
    match one {
        Reply::Nil => Some(0),
        other => other.int(),
    }
}

impl Limiter for Scripted {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    /// By calling it: nobody knows what its state looks like.
    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(super::preset_by_calls(self, key, used))
    }
}
