//! A limiter of somebody else's: how it is reached, and what it promises. This is `[limiter.NAME]` of `rl-lab.toml`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::contract::{Bound, Contract, DecidingClock, Denials, OnOutage, Scope};
use super::scenario::LimiterRef;
use super::template::Template;
use super::units::{Limit, Span, Window};

/// What a file says of a limiter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Foreign {
    /// One line: which algorithm, which library.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Starts an app server: a program and its arguments, run in the folder of the file. It is asked in lines on its
    /// stdin and stdout, or over HTTP where that is described.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// It is asked over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpWay>,
    /// It is a script that the store runs; no process is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lua: Option<LuaWay>,
    /// Put into the environment of the command, beside what it is told anyway.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Template>,
    /// The longest that the lab waits for an answer to one call. What takes longer has none.
    #[serde(default = "deadline", skip_serializing_if = "is_deadline")]
    pub deadline: Span,
    /// The longest that an app server may take until it is ready.
    #[serde(default = "start_within", skip_serializing_if = "is_start_within")]
    pub start_within: Span,
    /// What it is built for, where that is fixed: scenarios are run with it instead of their own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Whether it goes by no clock that the lab cannot move, so that waits can be skipped: by the expiry of keys
    /// alone, whatever it names them by, or by the time that `skipped_us` adds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skips_time: bool,
    /// Loaded into the servers that it runs on, from the folder of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<PathBuf>,
    /// What is put around it wherever it runs, written as a scenario's variant writes it. The contract is stated without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<LimiterRef>,
    pub contract: Declared,
    /// The folder of the file that says so.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// How a service is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpWay {
    #[serde(default = "root")]
    pub path: Template,
    #[serde(default = "get")]
    pub method: String,
    /// Fields of each request. Without one of these names `X-User` says the key and `X-Cost` the cost.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Template>,
    /// Statuses that mean: refused for its rate.
    #[serde(default = "too_many")]
    pub refused: Vec<u16>,
}

/// How a script is called, and what its reply means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuaWay {
    /// Beside the file that names it; or the script itself, in `script`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// A second one, called with the same keys and args once the first has admitted a call: what a limiter does that
    /// asks first and counts afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<PathBuf>,
    pub keys: Vec<Template>,
    #[serde(default)]
    pub args: Vec<Template>,
    /// When a call is admitted.
    pub allowed: Condition,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_ms: Option<Place>,
}

/// Where in a reply a number stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The element of a list, from 1; the reply itself where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<usize>,
    /// What a unit of it is worth in ms, of times: 1000 for seconds.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub times: i64,
}

/// What a number of the reply has to be. Exactly one comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<Number>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<Number>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Number>,
}

/// A number, or a template that comes to one: `"{limit}"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    Is(i64),
    Of(Template),
}

/// What it promises, as far as the limit it is run with leaves open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    pub bound: DeclaredBound,
    /// The most a bucket holds; the limit where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Limit>,
    #[serde(default = "global", skip_serializing_if = "is_global")]
    pub scope: Scope,
    pub clock: DecidingClock,
    #[serde(default = "one_ms", skip_serializing_if = "is_one_ms")]
    pub clock_resolution_ms: u64,
    pub denials: Denials,
    /// What its callers get while the store does not answer.
    #[serde(default = "error", skip_serializing_if = "is_error")]
    pub on_outage: OnOutage,
    /// What a local limiter admits instead, for each app server, where it falls back to one; the limit where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Limit>,
    /// The longest that a key may live; as long as it likes where absent, but not for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_ttl_at_most: Option<Window>,
    /// For how many windows a caller that used up its limit is refused from then on, where those are its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockout_windows: Option<NonZeroU32>,
    /// Whether it goes on after a call has its answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_background: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeclaredBound {
    FixedWindow,
    AlignedWindow,
    SlidingWindow,
    WeightedTwoWindow,
    Bucket,
    None,
}

/// How it is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way<'a> {
    /// A process, asked in lines.
    Lines,
    /// A process, asked over HTTP.
    Http(&'a HttpWay),
    Lua(&'a LuaWay),
}

impl Foreign {
    /// How it is reached.
    ///
    /// # Errors
    /// If nothing says so, or too much does.
    pub fn way(&self) -> Result<Way<'_>, String> {
        let told = !self.command.is_empty();
        match (told, &self.http, &self.lua) {
            (true, None, None) => Ok(Way::Lines),
            (true, Some(http), None) => Ok(Way::Http(http)),
            (false, None, Some(lua)) => Ok(Way::Lua(lua)),
            (false, Some(_), _) => {
                Err("http needs command as well: the lab starts the service, with its own store".to_owned())
            }
            (_, _, Some(_)) => {
                Err("lua is run by the store: command and http do not belong to it".to_owned())
            }
            (false, None, None) => Err("it needs command, with http beside it or not, or lua".to_owned()),
        }
    }

    /// Whether it runs in processes of its own.
    pub fn is_process(&self) -> bool {
        self.lua.is_none()
    }

    /// Why its schedules cannot be searched, if so.
    pub fn unsearchable(&self) -> Option<&'static str> {
        let clock =
            "its process goes by a clock that cannot be held (skips_time = true says that it does not)";
        let module = "its module reads the server's clock, which runs on while the search goes about: no two runs \
                      see the same";
        match self.contract.clock {
            _ if self.is_process() && !self.skips_time => Some(clock),
            DecidingClock::Server if self.module.is_some() => Some(module),
            _ => None,
        }
    }

    /// What no type says.
    pub fn validate(&self) -> Result<(), String> {
        let way = self.way()?;
        if self.command.first().is_some_and(String::is_empty) {
            return Err("command begins with the program to run, and that is empty".to_owned());
        }
        let zero = |span: Span, name: &str| {
            if span.millis() == 0 { Err(format!("{name} is at least 1ms")) } else { Ok(()) }
        };
        zero(self.deadline, "deadline")?;
        zero(self.start_within, "start_within")?;
        if self.module.as_ref().is_some_and(|module| module.as_os_str().is_empty()) {
            return Err("module names no file".to_owned());
        }
        if self.deadline.millis() > 60_000 {
            return Err("deadline is at most 60s: a run stays bounded in time".to_owned());
        }
        let mut templates: Vec<(&str, &Template)> = self.env.iter().map(|(n, t)| (n.as_str(), t)).collect();
        match way {
            Way::Lines => {}
            Way::Http(http) => {
                templates.push(("path", &http.path));
                templates.extend(http.headers.iter().map(|(n, t)| (n.as_str(), t)));
                if http.refused.is_empty() {
                    return Err("refused names no status, so no call could be refused".to_owned());
                }
                if let Some(status) = http.refused.iter().find(|s| !(400..500).contains(*s)) {
                    return Err(format!("refused: {status} is no status from 400 to 499"));
                }
            }
            Way::Lua(lua) => {
                templates.extend(lua.keys.iter().map(|t| ("keys", t)));
                templates.extend(lua.args.iter().map(|t| ("args", t)));
                if lua.file.is_some() == lua.script.is_some() {
                    return Err("lua needs its script: file names one, or script is one".to_owned());
                }
                let compared = [&lua.allowed.is, &lua.allowed.at_least, &lua.allowed.at_most];
                if compared.iter().filter(|c| c.is_some()).count() != 1 {
                    return Err("allowed needs one of is, at_least and at_most".to_owned());
                }
                let places =
                    [lua.allowed.at, lua.remaining.and_then(|p| p.at), lua.retry_after_ms.and_then(|p| p.at)];
                if places.contains(&Some(0)) {
                    return Err("at counts the elements of the reply from 1".to_owned());
                }
                if self.skips_time {
                    return Err(
                        "skips_time is for processes: a script is told the time by {now_ms}".to_owned()
                    );
                }
            }
        }
        templates.into_iter().try_for_each(|(of, t)| t.check().map_err(|why| format!("{of}: {why}")))?;
        self.contract.validate()
    }
}

impl Declared {
    fn validate(&self) -> Result<(), String> {
        if self.capacity.is_some() && self.bound != DeclaredBound::Bucket {
            return Err("contract: capacity belongs to bound = \"bucket\"".to_owned());
        }
        if self.fallback.is_some() && self.on_outage != OnOutage::Fallback {
            return Err("contract: fallback belongs to on_outage = \"fallback\"".to_owned());
        }
        Ok(())
    }

    pub fn contract(&self, limit: Limit, window: Window) -> Contract {
        let bound = match self.bound {
            DeclaredBound::FixedWindow => Bound::FixedWindow { limit, window },
            DeclaredBound::AlignedWindow => Bound::AlignedWindow { limit, window },
            DeclaredBound::SlidingWindow => Bound::SlidingWindow { limit, window },
            DeclaredBound::WeightedTwoWindow => Bound::WeightedTwoWindow { limit, window },
            DeclaredBound::Bucket => {
                Bound::Bucket { capacity: self.capacity.unwrap_or(limit), refill: limit, window }
            }
            DeclaredBound::None => Bound::None,
        };
        Contract {
            bound,
            scope: self.scope,
            clock: self.clock,
            clock_resolution_ms: self.clock_resolution_ms,
            denials: self.denials,
            on_outage: self.on_outage,
            fallback: (self.on_outage == OnOutage::Fallback)
                .then(|| Bound::FixedWindow { limit: self.fallback.unwrap_or(limit), window }),
            key_ttl_at_most: Some(self.key_ttl_at_most.unwrap_or(Window::LONGEST)),
            lockout: self.lockout_windows.and_then(|n| window.times(n.get())),
            across_keys: None,
            algorithm: None,
            round_trips_at_most: None,
            in_background: self.in_background,
        }
    }
}

impl Condition {
    /// Whether a number of the reply meets it; `of` reads templates.
    pub fn holds(&self, number: i64, of: impl Fn(&Number) -> Option<i64>) -> Option<bool> {
        let compare = |with: &Option<Number>, how: fn(&i64, &i64) -> bool| {
            with.as_ref().map(|with| of(with).map(|with| how(&number, &with)))
        };
        let told = compare(&self.is, i64::eq)
            .or_else(|| compare(&self.at_least, i64::ge))
            .or_else(|| compare(&self.at_most, i64::le));
        told.flatten()
    }
}

fn deadline() -> Span {
    Span::from_millis(5_000).unwrap_or_default()
}

fn start_within() -> Span {
    Span::from_millis(30_000).unwrap_or_default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_deadline(span: &Span) -> bool {
    *span == deadline()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_start_within(span: &Span) -> bool {
    *span == start_within()
}

fn root() -> Template {
    Template::plain("/")
}

fn get() -> String {
    "GET".to_owned()
}

fn too_many() -> Vec<u16> {
    vec![429]
}

fn one() -> i64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_one(n: &i64) -> bool {
    *n == 1
}

fn global() -> Scope {
    Scope::Global
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_global(scope: &Scope) -> bool {
    *scope == Scope::Global
}

fn one_ms() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_one_ms(ms: &u64) -> bool {
    *ms == 1
}

fn error() -> OnOutage {
    OnOutage::Error
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_error(policy: &OnOutage) -> bool {
    *policy == OnOutage::Error
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTRACT: &str =
        "[contract]\nbound = \"fixed-window\"\nclock = \"expiry\"\ndenials = \"charged\"\n";

    fn read(text: &str) -> Result<Foreign, String> {
        let foreign: Foreign =
            toml::from_str(&format!("{text}\n{CONTRACT}")).map_err(|e| e.message().to_owned())?;
        foreign.validate().map(|()| foreign)
    }

    #[test]
    fn it_is_reached_in_one_way() {
        let way = |text: &str| {
            read(text).map(|f| format!("{:?}", f.way().unwrap()).split('(').next().unwrap().to_owned())
        };
        assert_eq!(way("command = [\"x\"]").unwrap(), "Lines");
        assert_eq!(way("command = [\"x\"]\nhttp = {}").unwrap(), "Http");
        let lua = "lua = { file = \"l.lua\", keys = [\"{key}\"], allowed = { is = 1 } }";
        assert_eq!(way(lua).unwrap(), "Lua");
        assert!(way("").unwrap_err().contains("needs command"));
        assert!(way("http = {}").unwrap_err().contains("starts the service"));
        assert!(way(&format!("command = [\"x\"]\n{lua}")).unwrap_err().contains("run by the store"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_in_words() {
        let lua = |allowed: &str, args: &str| {
            read(&format!(
                "lua = {{ file = \"l\", keys = [\"{{key}}\"], args = [{args}], allowed = {{ {allowed} }} }}"
            ))
        };
        for (refused, what) in [
            (read("command = [\"\"]"), "that is empty"),
            (read("command = [\"x\"]\ndeadline = \"0s\""), "at least 1ms"),
            (read("command = [\"x\"]\ndeadline = \"2m\""), "at most 60s"),
            (read("command = [\"x\"]\nhttp = { refused = [] }"), "no call could be refused"),
            (read("command = [\"x\"]\nhttp = { refused = [200] }"), "from 400"),
            (read("command = [\"x\"]\nenv = { A = \"{limt}\" }"), "did you mean 'limit'"),
            (lua("", ""), "one of is"),
            (lua("is = 1, at_most = 2", ""), "one of is"),
            (lua("at = 0, is = 1", ""), "from 1"),
            (lua("is = 1", "\"{now}\""), "'now'"),
        ] {
            assert!(refused.as_ref().is_err_and(|e| e.contains(what)), "{refused:?}: {what}");
        }
    }

    #[test]
    fn a_condition_compares_one_number_of_the_reply() {
        let condition = |text: &str| toml::from_str::<Condition>(text).unwrap();
        let limit = |n: &Number| match n {
            Number::Is(n) => Some(*n),
            Number::Of(_) => Some(10),
        };
        assert_eq!(condition("is = 1").holds(1, limit), Some(true));
        assert_eq!(condition("at_most = \"{limit}\"").holds(10, limit), Some(true));
        assert_eq!(condition("at_most = \"{limit}\"").holds(11, limit), Some(false));
        assert_eq!(condition("at_least = 0").holds(-1, limit), Some(false));
    }
}
