//! One experiment as a TOML file: which servers, which load, which limiters, what is expected.
//!
//! Reading is strict. An unknown field, a wrong type or an impossible value is refused with file,
//! line and column and, where a name is close to a known one, with that name.

use serde::{Deserialize, Serialize};

mod act;
mod clock;
mod expect;
mod fault;
mod fleet;
mod topology;
mod variant;
mod vary;
mod workload;

pub use act::{Act, PlannedAct};
pub use clock::PlannedClock;
pub use expect::{Expectation, ExpectedOn};
pub use fault::PlannedFault;
pub use fleet::{Deal, PlannedDeploy, PlannedScale};
pub use topology::TopologyPlan;
pub use variant::{LimiterRef, Variant};
pub use vary::{Setup, Vary};
pub use workload::{Behaviour, NodesAs, PlannedCall, Shape, WorkloadPlan};

use super::contract::{Bound, Requirement, Scope};
use super::figures::{Chart, Figure};
use super::names;
use super::units::{Limit, Micros, Span, Window};

/// The version of the scenario format.
pub const SCHEMA: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub schema: u32,
    pub title: String,
    /// One sentence: what a reader learns from it.
    pub shows: String,
    /// What somebody needs a limiter for: scenarios of one need are told together in a decision record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<String>,
    #[serde(default)]
    pub topology: TopologyPlan,
    pub limit: LimitPlan,
    /// How the waits of a round go by.
    #[serde(default)]
    pub time: Time,
    pub workload: WorkloadPlan,
    /// What breaks while the calls are made.
    #[serde(default, rename = "fault", skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<PlannedFault>,
    /// Clocks of nodes that are not right.
    #[serde(default, rename = "clock", skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<PlannedClock>,
    #[serde(default)]
    pub observe: ObservePlan,
    /// The same with something else; as written alone where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<Vary>,
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
    #[serde(default)]
    pub require: Option<RequirePlan>,
    /// What callers need while the store is away, whatever the limiter promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<OutageNeeds>,
    /// The checks to make, in the order of the columns.
    pub checks: Vec<String>,
    /// What is not expected here is expected as the verdict matrix has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expect_as_matrix: bool,
    /// Figures to show beside the verdicts, in the order of the columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
    /// What the chart shows: the first figure if there is one, unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<Chart>,
    #[serde(default, rename = "expect")]
    pub expectations: Vec<Expectation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitPlan {
    pub limit: Limit,
    pub window: Window,
}

/// How the waits of a round go by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Time {
    /// They are waited for.
    #[default]
    Real,
    /// They are skipped while no call is open: the clocks of the lab and its nodes are moved on, and
    /// so is the expiry of every key. What reads the server's own clock is waited for all the same.
    Skipped,
}

/// What is looked at beside the calls themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservePlan {
    /// How much each key holds, and what the server says it takes in memory.
    #[serde(default)]
    pub memory: bool,
    /// Which keys each exchange declares; the limiter is kept from touching any other.
    #[serde(default)]
    pub keys: bool,
    /// Time added to each round trip to the store.
    #[serde(default)]
    pub round_trip: Micros,
}

/// What callers need while the store is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageNeeds {
    /// No call takes longer than this and three times what the slowest took before anything broke.
    pub answers_within: Span,
    /// So long after the last fault is over, calls are decided by the store again.
    pub recovers_within: Span,
}

/// A requirement as the file writes it; limit and window come from `[limit]` unless given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequirePlan {
    pub bound: RequiredBound,
    #[serde(default = "global")]
    pub scope: Scope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

fn global() -> Scope {
    Scope::Global
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequiredBound {
    FixedWindow,
    AlignedWindow,
    SlidingWindow,
    Bucket,
}

impl RequirePlan {
    pub fn requirement(&self, plan: LimitPlan) -> Requirement {
        let limit = self.limit.unwrap_or(plan.limit);
        let window = self.window.unwrap_or(plan.window);
        let bound = match self.bound {
            RequiredBound::FixedWindow => Bound::FixedWindow { limit, window },
            RequiredBound::AlignedWindow => Bound::AlignedWindow { limit, window },
            RequiredBound::SlidingWindow => Bound::SlidingWindow { limit, window },
            RequiredBound::Bucket => Bound::Bucket { capacity: limit, refill: limit, window },
        };
        Requirement { bound, scope: self.scope }
    }
}

/// Why a scenario file is refused: where, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct ScenarioError {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub message: String,
}

impl ScenarioError {
    /// What the reader of TOML objects to.
    pub fn of_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let (line, column) = position(text, error.span().map_or(0, |s| s.start));
        Self { file: file.to_owned(), line, column, message: with_hint(error.message()) }
    }

    /// Points at the first of the needles that the file has, or at its beginning.
    pub fn at(file: &str, text: &str, needles: &[&str], message: String) -> Self {
        let offset = needles.iter().find_map(|needle| text.find(needle)).unwrap_or(0);
        let (line, column) = position(text, offset);
        Self { file: file.to_owned(), line, column, message }
    }
}

impl Scenario {
    /// Reads and validates a scenario. `file` is only used in messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self =
            toml::from_str(text).map_err(|error| ScenarioError::of_toml(file, text, &error))?;
        scenario
            .validate()
            .map_err(|(needle, message)| ScenarioError::at(file, text, &[&needle], message))?;
        Ok(scenario)
    }

    /// What no type says. The error names a text to look for in the file, and the message.
    fn validate(&self) -> Result<(), (String, String)> {
        if self.schema != SCHEMA {
            return Err((
                "schema".to_owned(),
                format!("schema {} is not known, expected {SCHEMA}", self.schema),
            ));
        }
        if self.variants.is_empty() {
            return Err(("variant".to_owned(), "a scenario needs at least one [[variant]]".to_owned()));
        }
        if self.checks.is_empty() {
            return Err(("checks".to_owned(), "a scenario needs at least one check".to_owned()));
        }
        if let Some((_, check)) = self.checks.iter().enumerate().find(|(n, c)| self.checks[..*n].contains(c))
        {
            return Err((format!("\"{check}\""), format!("the check '{check}' is listed twice")));
        }
        if let Some(figure) = self.figures.iter().enumerate().find(|(n, f)| self.figures[..*n].contains(f)) {
            let name = figure.1.name();
            return Err((format!("\"{name}\""), format!("the figure '{name}' is listed twice")));
        }
        if let Some(figure) = self.figures.iter().find(|f| f.is_of_a_search()) {
            let text = format!("'{}' is told of a search (`rl-lab explore`), not of calls", figure.name());
            return Err((figure.name().to_owned(), text));
        }
        if self.chart == Some(Chart::Skew) && !self.figures.contains(&Figure::MostInWindow) {
            let why = format!("a chart of skews shows the figure {}", Figure::MostInWindow.name());
            return Err(("chart".to_owned(), why));
        }
        if self.chart == Some(Chart::Figure) && self.figures.is_empty() {
            return Err(("chart".to_owned(), "a chart of a figure needs a figure to show".to_owned()));
        }
        for (n, variant) in self.variants.iter().enumerate() {
            if self.variants[..n].contains(variant) {
                return Err((
                    variant.limiter.to_string(),
                    format!("the variant '{variant}' is listed twice"),
                ));
            }
        }
        let labels: Vec<String> = self.variants.iter().map(|v| v.limiter.to_string()).collect();
        let varied: Vec<&str> = self.vary.iter().map(|v| v.name.as_str()).collect();
        for (n, vary) in self.vary.iter().enumerate() {
            let quoted = format!("\"{}\"", vary.name);
            if varied[..n].contains(&vary.name.as_str()) {
                return Err((quoted, format!("the variation '{}' is listed twice", vary.name)));
            }
            Setup::of(self)
                .varied(vary)
                .and_then(|setup| setup.fits(self.time))
                .map_err(|why| (quoted, format!("variation '{}': {why}", vary.name)))?;
        }
        let checks: Vec<&str> = self.checks.iter().map(String::as_str).collect();
        for e in &self.expectations {
            let label = e.limiter.as_ref().map(ToString::to_string).unwrap_or_default();
            let known: Vec<&str> = labels.iter().map(String::as_str).collect();
            if e.limiter.is_some() && !known.contains(&label.as_str()) {
                return Err((
                    format!("\"{label}\""),
                    format!("an expectation for {}", names::unknown("variant", &label, &known)),
                ));
            }
            let meant = |v: &&Variant| e.is_of(v);
            if !self.variants.iter().any(|v| meant(&v)) {
                let parts =
                    [e.limiter.as_ref().map(ToString::to_string), e.policy.as_ref().map(ToString::to_string)];
                let parts: Vec<String> = parts.into_iter().chain([e.client.clone()]).flatten().collect();
                let text = format!("an expectation for a variant that is not listed: {}", parts.join(", "));
                let place = parts.last().cloned().unwrap_or_default();
                return Err((format!("\"{place}\""), text));
            }
            if let Some(name) = e.vary.as_deref().filter(|n| !varied.contains(n)) {
                return Err((
                    format!("\"{name}\""),
                    format!("an expectation for {}", names::unknown("variation", name, &varied)),
                ));
            }
            if !checks.contains(&e.check.as_str()) {
                return Err((
                    format!("\"{}\"", e.check),
                    format!(
                        "an expectation for a check that is not among this file's: {}",
                        names::unknown("check", &e.check, &checks)
                    ),
                ));
            }
        }
        let fits = self.workload.validate().and_then(|()| Setup::of(self).fits(self.time));
        fits.map_err(|message| (place_of(&message), message))?;
        self.observe_fits().map_err(|message| ("[observe]".to_owned(), message))?;
        self.preset_fits().map_err(|message| ("preset".to_owned(), message))
    }

    /// What its chart shows.
    pub fn chart(&self) -> Chart {
        let default = if self.figures.is_empty() { Chart::Admitted } else { Chart::Figure };
        self.chart.unwrap_or(default)
    }

    /// What is observed call by call needs calls that do not overlap.
    pub fn observe_fits(&self) -> Result<(), String> {
        if self.observe.keys && self.workload.shape == Shape::Burst {
            return Err("keys can only be observed where calls follow each other, not in a burst".to_owned());
        }
        Ok(())
    }

    /// More than the limit cannot have been used before.
    pub fn preset_fits(&self) -> Result<(), String> {
        let (preset, limit) = (self.workload.preset, self.limit.limit);
        if preset > limit.get() {
            return Err(format!(
                "preset = {preset} is more than the limit of {limit}: that much cannot be used"
            ));
        }
        Ok(())
    }
}

/// Where in the file a message about the load points: to the field that it begins with, where it does.
fn place_of(message: &str) -> String {
    let first = message.split([' ', ':']).next().unwrap_or_default();
    let table = ["a deploy", "deploy"].iter().any(|name| message.starts_with(name)).then_some("deploy");
    match table {
        Some(table) => table.to_owned(),
        None if FIELDS.contains(&first) => format!("{first} ="),
        None => "[workload]".to_owned(),
    }
}

/// The fields of a load that messages begin with.
const FIELDS: [&str; 9] =
    ["shares", "scale", "front", "every", "keys", "requests", "connections", "nodes", "in_flight"];

/// Line and column, both from 1, of a byte offset.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset.min(text.len()))];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}

/// Adds the nearest known name to serde's "unknown field `x`, expected one of `a`, `b`".
fn with_hint(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((name, known)) if message.starts_with("unknown") => match names::nearest(name, known) {
            Some(n) => format!("{message}; did you mean `{n}`?"),
            None => message.to_owned(),
        },
        _ if message.starts_with("invalid type: ") && message.ends_with("expected a string") => {
            let number = ["integer", "floating point"].iter().any(|kind| message.contains(kind));
            let hint = if number { "; a span of time has a unit, such as \"100ms\"" } else { "" };
            format!("{message}{hint}")
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::verdict::Verdict;

    pub const GOOD: &str = r#"
schema = 1
title = "t"
shows = "s"
checks = ["never-over-limit"]
[limit]
limit = 10
window = "60s"
[workload]
shape = "burst"
requests = 200
connections = 20
in_flight = 200
[[variant]]
limiter = "a"
[[expect]]
limiter = "a"
check = "never-over-limit"
verdict = "fail"
"#;

    fn refusal(from: &str, to: &str) -> ScenarioError {
        assert!(GOOD.contains(from));
        Scenario::parse("x.toml", &GOOD.replace(from, to)).unwrap_err()
    }

    #[test]
    fn a_good_file_is_taken() {
        let s = Scenario::parse("x.toml", GOOD).unwrap();
        assert_eq!(
            s.expected(&s.variants[0], None, &ExpectedOn::default(), "never-over-limit"),
            Some(Verdict::Fail)
        );
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_place_and_the_nearest_name() {
        let e = refusal("connections = 20", "conections = 20");
        assert_eq!((e.line, e.column), (12, 1));
        assert!(e.message.contains("did you mean `connections`?"), "{e}");
    }

    #[test]
    fn wrong_values_are_refused_with_their_line() {
        assert_eq!(refusal("requests = 200", "requests = 0").line, 11);
        assert_eq!(refusal("limit = 10", "limit = -1").line, 7);
        assert_eq!(refusal("\"60s\"", "\"60\"").line, 8);
        assert_eq!(refusal("shape = \"burst\"", "shape = \"brust\"").line, 10);
        assert_eq!(refusal("title = \"t\"", "title = \"t").line, 3);
        assert!(
            refusal("connections = 20", "connections = 2\nnodes = 3").message.contains("each node needs one")
        );
    }

    #[test]
    fn a_cost_that_is_none_is_refused_wherever_it_stands_with_what_would_be_one() {
        let mixed = "shape = \"mixed\"\nevery = \"1s\"\n";
        let sequence = "shape = \"sequence\"\n";
        for cost in ["0", "-1", "4294967296", "1.5"] {
            let load = refusal("shape = \"burst\"\n", &format!("{mixed}cost = {cost}\n"));
            let call = refusal(
                "shape = \"burst\"\nrequests = 200\n",
                &format!("{sequence}call = [{{ at = \"0s\", cost = {cost} }}]\n"),
            );
            let vary = refusal("[[variant]]", &format!("[[vary]]\nname = \"v\"\ncost = {cost}\n[[variant]]"));
            assert_eq!([load.line, call.line, vary.line], [12, 11, 16], "{cost}: {call}");
            for error in [load, call, vary] {
                assert!(error.message.contains("from 1 to 4294967295"), "{error}");
            }
        }
    }

    #[test]
    fn a_figure_is_named_rightly_once_and_shown_by_a_chart_that_has_it() {
        let with = |more: &str| refusal("[limit]\n", &format!("{more}\n[limit]\n")).message;
        assert!(with("figures = [\"p99\"]").contains("did you mean `p99-ms`?"));
        assert!(with("figures = [\"p99-ms\", \"p99-ms\"]").contains("listed twice"));
        assert!(with("figures = [\"states\"]").contains("told of a search"));
        assert!(with("chart = \"figure\"").contains("needs a figure"));
    }

    #[test]
    fn an_act_has_its_place_between_calls_or_beside_them() {
        let act = |what: &str| format!("in_flight = 200\n[[workload.act]]\nat = \"0s\"\n{what}\n");
        let refused = |what: &str| refusal("in_flight = 200\n", &act(what)).message;
        assert!(refused("do = \"script-flush\"").contains("between two calls"));
        assert!(refused("do = \"busy-script\"").contains("needs for"));
        assert!(refused("do = \"busy-script\"\nfor = \"5s\"").contains("to 1000 ms"));
        let busy = GOOD.replace("in_flight = 200\n", &act("do = \"busy-script\"\nfor = \"9ms\""));
        assert!(Scenario::parse("x.toml", &busy).is_ok());
    }

    #[test]
    fn time_is_skipped_only_where_nothing_goes_on_meanwhile() {
        let steady = GOOD.replace("shape = \"burst\"", "shape = \"steady\"\nevery = \"5ms\"");
        let read = |text: &str| {
            Scenario::parse("x.toml", &text.replace("[limit]\n", "time = \"skipped\"\n[limit]\n"))
        };
        assert!(read(&steady).unwrap_err().message.contains("in_flight = 1"));
        let one = steady.replace("in_flight = 200\n", "in_flight = 1\n");
        assert!(read(&one).is_ok());
        let beside = one.clone() + "[[workload.act]]\nat = \"0s\"\ndo = \"busy-script\"\nfor = \"9ms\"\n";
        assert!(read(&beside).unwrap_err().message.contains("beside the calls"));
        let varied = one + "[[vary]]\nname = \"v\"\nin_flight = 2\n";
        assert!(read(&varied).unwrap_err().message.contains("variation 'v'"));
    }

    #[test]
    fn what_a_process_cannot_be_told_belongs_to_tasks() {
        let steady = GOOD
            .replace("shape = \"burst\"", "shape = \"steady\"\nevery = \"5ms\"\nnodes_as = \"processes\"")
            .replace("in_flight = 200", "in_flight = 1");
        assert!(Scenario::parse("x.toml", &steady).is_ok());
        for (more, what) in [
            ("[observe]\nkeys = true\n", "[observe] keys"),
            ("[observe]\nround_trip = \"1ms\"\n", "round_trip"),
            ("[[clock]]\nnode = 0\ndrift_ppm = 100\n", "drifts"),
            ("[topology]\nkind = \"sentinel\"\n", "sentinel"),
            ("[topology]\nkind = \"cluster\"\n", "cluster"),
            ("[topology]\nkind = \"regions\"\n", "regions"),
            ("[[fault]]\nat = \"1s\"\ndo = \"promote\"\non = \"replica-1\"\n", "promote"),
        ] {
            let refused = Scenario::parse("x.toml", &(steady.clone() + more)).unwrap_err().message;
            assert!(refused.contains(what) && refused.contains("nodes_as = \"tasks\""), "{refused}");
        }
        let many = steady.replace("connections = 20", "connections = 99\nnodes = 65");
        assert!(Scenario::parse("x.toml", &many).unwrap_err().message.contains("64"));
    }

    #[test]
    fn an_expectation_for_nothing_that_runs_is_refused() {
        let e = refusal("limiter = \"a\"\ncheck", "limiter = \"b\"\ncheck");
        assert!(e.message.contains("unknown variant 'b'"), "{e}");
    }
}
