//! What the server holds, as a value that is the same whenever the state is the same.
//!
//! The server's clock runs on while a schedule is run, by some milliseconds; expiries are told in the
//! schedule's time instead, in which nothing passes but ticks. They are rounded to [`GRAIN_MS`], and a
//! schedule that took longer than that is no evidence ([`super::world`]).

use std::collections::BTreeMap;
use std::time::Duration;

use super::line::Upstream;
use crate::explorer::Trouble;
use crate::runner::timeline::DUE;
use crate::wire::resp::{Frame, encode_command};

/// Expiries that differ by less are taken for the same.
pub const GRAIN_MS: i64 = 500;

/// Some add a millisecond to what is left before they tell it.
const ADDED_MS: i64 = 50;

/// How long ago at most a key can have been given its time to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// No longer than since then.
    Since(std::time::Instant),
    /// It does not matter any more: the schedule was judged, or is about to be.
    Any,
}

/// A time to live as it was before some of it passed: a multiple of [`GRAIN_MS`].
pub fn to_grain(ms: i64) -> i64 {
    (ms + GRAIN_MS - 1 - ADDED_MS) / GRAIN_MS * GRAIN_MS
}

/// Lists every key: name, type, when it expires by the server's clock (−1 for never), what it holds; the
/// server's clock first. After [`DUE`]. `ARGV[1]` says whether the server tells moments (from 7.0).
const DUMP: &str = "
local told = {string.format('%.0f', now())}
local keys = redis.call('KEYS', '*')
table.sort(keys)
for _, key in ipairs(keys) do
  local kind, holds = redis.call('TYPE', key).ok, nil
  if kind == 'string' then holds = {redis.call('GET', key)}
  elseif kind == 'hash' then holds = redis.call('HGETALL', key)
  elseif kind == 'zset' then holds = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'list' then holds = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then holds = redis.call('SMEMBERS', key)
  else holds = {redis.call('DUMP', key)} end
  told[#told + 1] = {key, kind, string.format('%.0f', due(key, ARGV[1] == '1')), holds}
end
return told";

fn dump() -> String {
    format!("{DUE}{DUMP}")
}

/// Gives keys the time they have left, or removes them: KEYS, and for each the ms left (0: none).
/// Answers with the moment each expires by the server's clock.
const AGE: &str = "
local told = {}
for i, key in ipairs(KEYS) do
  if ARGV[i] == '0' then redis.call('DEL', key) else redis.call('PEXPIRE', key, ARGV[i]) end
  local time = redis.call('TIME')
  told[i] = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[i])
end
return told";

const CLEAR: &[u8] = b"*1\r\n$7\r\nFLUSHDB\r\n";

/// A key in the schedule's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub name: String,
    pub kind: String,
    /// Values, fields with their values, or members with their scores; sorted where the order says
    /// nothing.
    pub entries: Vec<String>,
    /// When it expires, in ms of the schedule's time.
    pub due_ms: Option<i64>,
}

impl Key {
    /// `string 1`, `zset {a-0 at 5}`.
    pub fn holds(&self) -> String {
        match self.kind.as_str() {
            "string" => self.entries.concat(),
            kind => format!("{kind} {{{}}}", self.entries.join(", ")),
        }
    }
}

impl Age {
    /// In ms; `None` where it does not matter.
    fn at_most(self) -> Result<Option<i64>, Trouble> {
        const MOST: Duration = Duration::from_millis(60);
        let Self::Since(began) = self else { return Ok(None) };
        let age = began.elapsed();
        if age > MOST {
            return Err(Trouble::Stalled(format!("a schedule took longer than {} ms", MOST.as_millis())));
        }
        Ok(Some(i64::try_from(age.as_millis()).unwrap_or(i64::MAX) + 1))
    }
}

/// Looks at the server between steps.
pub struct Keyspace {
    upstream: Upstream,
    moments: bool,
    /// Every key is to be removed before the next command.
    to_clear: bool,
    /// SHA-1 of [`dump`].
    dump: String,
    /// By key: the moment it expires by the server's clock, and what that is in the schedule's time.
    known: BTreeMap<String, (i64, i64)>,
}

impl Keyspace {
    pub fn new(mut upstream: Upstream) -> Result<Self, Trouble> {
        let (frame, _) = ask(&mut upstream, &["PEXPIRETIME", "rl-lab:none"])?;
        let moments = frame.error().is_none();
        let dump = redis::Script::new(&dump()).get_hash().to_owned();
        Ok(Self { upstream, moments, to_clear: true, dump, known: BTreeMap::new() })
    }

    /// One command of the search's own.
    pub fn ask(&mut self, args: &[&str]) -> Result<Frame, Trouble> {
        let mut raw = Vec::new();
        encode_command(args, &mut raw);
        if std::mem::take(&mut self.to_clear) {
            let both = self.upstream.exchange_behind(CLEAR, &raw);
            return both
                .map(|(frame, _)| frame)
                .map_err(|e| lost(format!("the server does not answer: {e}")));
        }
        Ok(ask(&mut self.upstream, args)?.0)
    }

    /// Removes every key, before whatever is sent next.
    pub fn clear(&mut self) {
        self.known.clear();
        self.to_clear = true;
    }

    /// Sends a command of somebody's, on a connection of his own, behind what there is to be removed.
    pub fn behind(&mut self, upstream: &mut Upstream, raw: &[u8]) -> std::io::Result<(Frame, Vec<u8>)> {
        if std::mem::take(&mut self.to_clear) {
            upstream.exchange_behind(CLEAR, raw)
        } else {
            upstream.exchange(raw)
        }
    }

    /// Every key, at this moment of the schedule's time.
    pub fn keys(&mut self, now_ms: i64, age: Age) -> Result<Vec<Key>, Trouble> {
        let moments = if self.moments { "1" } else { "0" };
        let dump = self.dump.clone();
        let mut told = self.ask(&["EVALSHA", &dump, "0", moments])?;
        if told.error().is_some_and(|e| e.starts_with(b"NOSCRIPT")) {
            told = self.ask(&["EVAL", &self::dump(), "0", moments])?;
        }
        let mut told = list(told)?.into_iter();
        let server_ms = number(told.next().as_ref())?;
        // Only now: what held this thread up may have done so before the server looked at its clock.
        let at_most = age.at_most()?;
        let mut keys = Vec::new();
        for key in told {
            keys.push(self.key(list(key)?, server_ms, now_ms, at_most)?);
        }
        self.known.retain(|name, _| keys.iter().any(|k| k.name == *name));
        Ok(keys)
    }

    fn key(
        &mut self,
        told: Vec<Frame>,
        server_ms: i64,
        now_ms: i64,
        at_most: Option<i64>,
    ) -> Result<Key, Trouble> {
        let [name, kind, due, holds] =
            <[Frame; 4]>::try_from(told).map_err(|_| lost("a key is not told in four parts"))?;
        let (name, kind) = (text(&name), text(&kind));
        let at = number(Some(&due))?;
        let due_ms = if at >= 0 { Some(self.due(&name, at, server_ms, now_ms, at_most)?) } else { None };
        if due_ms.is_none() {
            self.known.remove(&name);
        }
        let values: Vec<String> = list(holds)?.iter().map(text).collect();
        let mut entries = match kind.as_str() {
            "hash" => values.chunks(2).map(|p| p.join(" = ")).collect(),
            "zset" => values.chunks(2).map(|p| p.join(" at ")).collect(),
            _ => values,
        };
        if kind != "list" {
            entries.sort_unstable();
        }
        Ok(Key { name, kind, entries, due_ms })
    }

    /// A moment of the server's clock in the schedule's time. One that was seen before is the same now;
    /// two ms are what asking for it in different ways can differ by.
    fn due(
        &mut self,
        name: &str,
        at: i64,
        server_ms: i64,
        now_ms: i64,
        at_most: Option<i64>,
    ) -> Result<i64, Trouble> {
        if let Some((known, due)) = self.known.get(name)
            && (known - at).abs() <= 2
        {
            return Ok(*due);
        }
        let seen = (at - server_ms).max(0);
        let left = (seen + GRAIN_MS - 1) / GRAIN_MS * GRAIN_MS;
        if let Some(ms) = at_most
            && left - seen > ms + 2
        {
            return Err(Trouble::Unfit(format!(
                "{name} lives for {seen} ms or a little more, which is no multiple of {GRAIN_MS} ms: when it expires \
                 cannot be told exactly; choose --window and --limit so that it is"
            )));
        }
        let due = now_ms + left;
        self.known.insert(name.to_owned(), (at, due));
        Ok(due)
    }

    /// Lets time pass until this moment: what is due goes, what is not comes closer.
    pub fn pass(&mut self, keys: &[Key], until_ms: i64) -> Result<(), Trouble> {
        let aged: Vec<(&Key, i64)> = keys.iter().filter_map(|k| Some((k, k.due_ms?))).collect();
        if aged.is_empty() {
            return Ok(());
        }
        let count = aged.len().to_string();
        let late = |due: i64| (due - until_ms).max(0);
        let left: Vec<String> = aged.iter().map(|(_, due)| late(*due).to_string()).collect();
        let mut args = vec!["EVAL", AGE, &count];
        args.extend(aged.iter().map(|(key, _)| key.name.as_str()));
        args.extend(left.iter().map(String::as_str));
        let told = list(self.ask(&args)?)?;
        for ((key, due), at) in aged.iter().zip(&told) {
            // A key of that name that comes now is another one.
            if late(*due) > 0 {
                self.known.insert(key.name.clone(), (number(Some(at))?, *due));
            } else {
                self.known.remove(&key.name);
            }
        }
        Ok(())
    }
}

fn ask(upstream: &mut Upstream, args: &[&str]) -> Result<(Frame, Vec<u8>), Trouble> {
    let mut raw = Vec::new();
    encode_command(args, &mut raw);
    upstream.exchange(&raw).map_err(|e| lost(format!("the server does not answer: {e}")))
}

fn lost(what: impl Into<String>) -> Trouble {
    Trouble::Lost(what.into())
}

fn list(frame: Frame) -> Result<Vec<Frame>, Trouble> {
    match frame {
        Frame::Array(items) => Ok(items),
        other => Err(lost(format!("the server's keys cannot be listed: {}", text(&other)))),
    }
}

fn number(frame: Option<&Frame>) -> Result<i64, Trouble> {
    let told = frame.map(text).unwrap_or_default();
    told.parse().map_err(|_| lost(format!("'{told}' instead of a moment")))
}

/// A frame as people read it.
pub fn text(frame: &Frame) -> String {
    match frame {
        Frame::Bulk(b) | Frame::Simple(b) => String::from_utf8_lossy(b).into_owned(),
        Frame::Error(e) => format!("(error) {}", String::from_utf8_lossy(e)),
        Frame::Int(n) => n.to_string(),
        Frame::Nil(_) => "(nil)".to_owned(),
        Frame::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}
