//! Claims that are put to the test: an anti-pattern and its cure, advice on which limiter to take. Each rests on cells
//! of scenarios; what they came to says whether the claim holds.

use serde::{Deserialize, Serialize};

use super::figures::Figure;
use super::names;
use super::report::{CellReport, servers};
use super::scenario::LimiterRef;
use super::verdict::Verdict;

/// A list of claims, as its file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsPlan {
    /// The command that tries them.
    pub name: String,
    pub title: String,
    /// One sentence: what a reader learns from it.
    pub shows: String,
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// What somebody says, and what would show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its number, where that is not its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<u32>,
    /// Who reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub claim: String,
    /// What to know about it, in a sentence.
    pub says: String,
    /// What is known to come out.
    #[serde(default)]
    pub known: Found,
    #[serde(rename = "trial")]
    pub trials: Vec<Trial>,
}

/// A cell of a scenario, and what the claim says of it: the verdict of a check, or where a figure lies. A figure
/// without either is shown and decides nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    pub scenario: String,
    pub limiter: LimiterRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<LimiterRef>,
    /// One of several that the scenario compares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// What not everybody has: the libraries for a language, or a server of a certain age (`redis-before-7.2`,
    /// `redis-from-7.2`; Valkey is younger than all of these). Where it is not there the trial is left out, and says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// Why it is left out, found out when it is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// What a trial needs that is a module, which not every server can be given.
const MODULE: &str = "cell";

/// What became of a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// Everything came out as it says.
    #[default]
    Holds,
    /// Something came out otherwise.
    Contradicted,
    /// Something was not tried, or told nothing.
    Unknown,
}

impl Found {
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Contradicted => "contradicted",
            Self::Unknown => "unknown",
        }
    }
}

impl ClaimsPlan {
    /// Reads the plan. The error says what is wrong.
    pub fn parse(text: &str, checks: &[&str]) -> Result<Self, String> {
        let plan: Self = toml::from_str(text).map_err(|e| e.to_string())?;
        for claim in &plan.claims {
            let of = |why: String| format!("'{}': {why}", claim.claim);
            if claim.trials.is_empty() {
                return Err(of("a claim needs at least one [[claim.trial]]".to_owned()));
            }
            for trial in &claim.trials {
                trial.validate(checks).map_err(of)?;
            }
        }
        Ok(plan)
    }
}

impl Trial {
    fn validate(&self, checks: &[&str]) -> Result<(), String> {
        match (&self.check, self.verdict, self.figure) {
            (Some(check), Some(_), None) if checks.contains(&check.as_str()) => {}
            (Some(check), Some(_), None) => return Err(names::unknown("check", check, checks)),
            (None, None, Some(_)) => {}
            _ => return Err("a trial has a check with a verdict, or a figure".to_owned()),
        }
        if self.figure.is_none() && (self.at_least.is_some() || self.at_most.is_some()) {
            return Err("at_least and at_most belong to a figure".to_owned());
        }
        Ok(())
    }

    /// Whether this is the cell it speaks of.
    fn is_of(&self, cell: &CellReport) -> bool {
        let policy = self.policy.as_ref().map(ToString::to_string);
        cell.scenario == self.scenario
            && cell.limiter == self.limiter.to_string()
            && cell.policy == policy
            && cell.variation == self.vary
            && self.client.as_ref().is_none_or(|c| *c == cell.client)
    }

    /// `boundary: sliding-log-lua + fail-open (freeze)`.
    pub fn label(&self) -> String {
        let mut label = self.limiter.to_string();
        if let Some(policy) = &self.policy {
            label += &format!(" + {policy}");
        }
        if let Some(client) = &self.client {
            label += &format!(", {client}");
        }
        if let Some(vary) = &self.vary {
            label += &format!(" ({vary})");
        }
        label
    }

    /// Why it does not count on the server of this cell, if so.
    fn of_another_age(&self, cell: &CellReport, several: bool) -> Option<String> {
        let needs = self.needs.as_ref()?;
        let parts = |text: &str| text.split('.').map_while(|p| p.parse().ok()).collect::<Vec<u32>>();
        let (age, wrong) = match (needs.strip_prefix(BEFORE), needs.strip_prefix(FROM)) {
            (Some(age), _) => (age, parts(&cell.server) >= parts(age)),
            (_, Some(age)) => (age, parts(&cell.server) < parts(age)),
            _ => return None,
        };
        let which = if needs.starts_with(BEFORE) { "before" } else { "from" };
        // Beside other servers each stands below its name.
        let beside = || format!("only {which} {age}");
        let alone = || format!("it takes a server {which} {age}, this is {}", cell.server);
        wrong.then(|| if several { beside() } else { alone() })
    }

    /// Whether what it needs is a server, which is told by the cells.
    pub fn needs_a_server(&self) -> bool {
        self.needs.as_ref().is_some_and(|n| n.starts_with(BEFORE) || n.starts_with(FROM))
    }

    /// Why the servers of this cell could not be given the module that it needs, if so.
    fn not_loaded(&self, cell: &CellReport) -> Option<String> {
        let check = self.check.as_ref().filter(|_| self.needs.as_deref() == Some(MODULE))?;
        let not_run =
            cell.checks.iter().find(|c| c.check == *check && c.verdict == Verdict::NotApplicable)?;
        Some(not_run.why.clone().unwrap_or_default())
    }

    /// On a server, where there are several.
    fn tried(&self, cells: &[CellReport], server: Option<&String>) -> Tried {
        let here = |c: &&CellReport| server.is_none_or(|s| c.server_in_words() == *s);
        let found = cells.iter().filter(here).find(|c| self.is_of(c));
        let missing = |cell| self.of_another_age(cell, server.is_some()).or_else(|| self.not_loaded(cell));
        let left_out = self.left_out.clone().or_else(|| found.and_then(missing));
        let server = server.cloned();
        if let Some(why) = left_out {
            return Tried {
                server,
                scenario: self.scenario.clone(),
                label: self.label(),
                check: self.check.clone(),
                figure: self.figure,
                came_out: CameOut::Nothing,
                as_claimed: None,
                because: String::new(),
                left_out: Some(why),
            };
        }
        let (came_out, as_claimed, because) = match (found, &self.check, self.figure) {
            (Some(cell), Some(name), _) => match cell.checks.iter().find(|c| c.check == *name) {
                Some(check) => {
                    let because = check.witness.clone().or_else(|| check.why.clone()).unwrap_or_default();
                    let told = check.verdict != Verdict::Unknown;
                    let as_claimed = told.then_some(Some(check.verdict) == self.verdict);
                    (CameOut::Verdict(check.verdict), as_claimed, because)
                }
                None => (CameOut::Nothing, None, "the check was not made".to_owned()),
            },
            (Some(cell), None, Some(figure)) => match cell.figures.get(&figure).copied() {
                Some(value) => {
                    let fits = self.at_least.is_none_or(|least| value >= least)
                        && self.at_most.is_none_or(|most| value <= most);
                    (CameOut::Figure(value), Some(fits), String::new())
                }
                None => (CameOut::Nothing, None, "nothing tells this figure".to_owned()),
            },
            _ => (CameOut::Nothing, None, "it was not run".to_owned()),
        };
        Tried {
            server,
            scenario: self.scenario.clone(),
            label: self.label(),
            check: self.check.clone(),
            figure: self.figure,
            came_out,
            as_claimed,
            because,
            left_out: None,
        }
    }
}

/// The claims as they came out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    pub title: String,
    pub shows: String,
    /// Those that they were tried on, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    pub rows: Vec<ClaimRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub claim: String,
    pub says: String,
    /// On all servers together: what holds on one of them and not on another is contradicted.
    pub found: Found,
    pub known: Found,
    /// On each server, where there are several; `None` where nothing of it is about that one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found_on: Vec<Option<Found>>,
    /// Where there are several servers, each trial on each of them.
    pub trials: Vec<Tried>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    pub scenario: String,
    /// Which cell of it.
    pub label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
    pub came_out: CameOut,
    /// Absent where nothing was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_claimed: Option<bool>,
    /// The witness of a fail; else what the verdict rests on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub because: String,
    /// Why it was not tried, where that decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CameOut {
    Verdict(Verdict),
    Figure(f64),
    Nothing,
}

impl Claims {
    /// Holds every claim against the cells that were run.
    pub fn of(plan: &ClaimsPlan, cells: &[CellReport]) -> Self {
        let servers = Some(servers(cells)).filter(|s| s.len() > 1).unwrap_or_default();
        let on: Vec<Option<&String>> =
            if servers.is_empty() { vec![None] } else { servers.iter().map(Some).collect() };
        let rows = plan.claims.iter().map(|claim| {
            let tried = |t: &Trial| on.iter().map(|s| t.tried(cells, *s)).collect::<Vec<_>>();
            let trials: Vec<Tried> = claim.trials.iter().flat_map(tried).collect();
            let of = |place: usize| found(trials.iter().skip(place).step_by(on.len()));
            let found_on: Vec<Option<Found>> = (0..servers.len()).map(of).collect();
            let found = if found_on.is_empty() {
                found(trials.iter())
            } else {
                let any = |wanted| found_on.contains(&Some(wanted)).then_some(wanted);
                any(Found::Contradicted).or(any(Found::Unknown)).or(any(Found::Holds))
            };
            let found = found.unwrap_or(Found::Unknown);
            let (name, says) = (claim.claim.clone(), claim.says.clone());
            let (case, source) = (claim.case, claim.source.clone());
            ClaimRow { case, source, claim: name, says, found, known: claim.known, found_on, trials }
        });
        let rows = rows.collect();
        Self { title: plan.title.clone(), shows: plan.shows.clone(), servers, rows }
    }

    /// Whether every claim came out as it is known to, on every server; `None` where some told nothing.
    pub fn as_known(&self) -> Option<bool> {
        let all = || self.rows.iter().flat_map(|r| r.all().map(|found| (found, r.known)));
        if all().any(|(found, known)| found != known && found != Found::Unknown) {
            return Some(false);
        }
        all().all(|(found, known)| found == known).then_some(true)
    }
}

impl ClaimRow {
    /// On each server, or on the one that there is.
    fn all(&self) -> impl Iterator<Item = Found> {
        let one = self.found_on.iter().all(Option::is_none).then_some(self.found);
        self.found_on.iter().copied().flatten().chain(one)
    }

    /// Whether it came out as it is not known to, somewhere.
    pub fn is_wrong(&self) -> bool {
        self.all().any(|found| found != self.known && found != Found::Unknown)
    }

    /// What became of it, server by server where they differ.
    pub fn in_words(&self, servers: &[String]) -> String {
        if self.all().all(|found| found == self.found) {
            return self.found.name().to_owned();
        }
        let told = servers.iter().zip(&self.found_on);
        let each = told.filter_map(|(server, found)| Some(format!("{} on {server}", (*found)?.name())));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// What became of a claim, by what its trials came to; `None` if all are left out.
fn found<'a>(trials: impl Iterator<Item = &'a Tried>) -> Option<Found> {
    let counts: Vec<Option<bool>> = trials.filter(|t| t.left_out.is_none()).map(|t| t.as_claimed).collect();
    let found = if counts.contains(&Some(false)) {
        Found::Contradicted
    } else if counts.contains(&None) {
        Found::Unknown
    } else {
        Found::Holds
    };
    (!counts.is_empty()).then_some(found)
}

/// How it begins what a trial needs of a server: the version follows.
const BEFORE: &str = "redis-before-";
const FROM: &str = "redis-from-";

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
name = "n"
title = "t"
shows = "s"
[[claim]]
claim = "c"
says = "because"
[[claim.trial]]
scenario = "race"
limiter = "a"
check = "never-over-limit"
verdict = "fail"
"#;

    fn refused(from: &str, to: &str) -> String {
        assert!(PLAN.contains(from));
        ClaimsPlan::parse(&PLAN.replace(from, to), &["never-over-limit"]).unwrap_err()
    }

    #[test]
    fn a_trial_names_a_check_with_its_verdict_or_a_figure() {
        assert!(ClaimsPlan::parse(PLAN, &["never-over-limit"]).is_ok());
        assert!(refused("never-over", "ever-over").contains("did you mean 'never-over-limit'"));
        assert!(refused("verdict = \"fail\"\n", "").contains("a check with a verdict"));
        assert!(
            refused("verdict = \"fail\"", "verdict = \"fail\"\nat_most = 3").contains("belong to a figure")
        );
    }

    #[test]
    fn what_is_left_out_decides_nothing_unless_nothing_else_is_there() {
        let other = "[[claim.trial]]\nscenario = \"race\"\nlimiter = \"b\"\ncheck = \"never-over-limit\"\nverdict = \"pass\"\n";
        let mut plan = ClaimsPlan::parse(&format!("{PLAN}{other}"), &["never-over-limit"]).unwrap();
        plan.claims[0].trials[1].left_out = Some("not installed".to_owned());
        assert_eq!(Claims::of(&plan, &[]).rows[0].found, Found::Unknown, "the first was not run");
        plan.claims[0].trials.remove(0);
        let claims = Claims::of(&plan, &[]);
        assert_eq!((claims.rows[0].found, claims.as_known()), (Found::Unknown, None), "nothing was tried");
    }

    /// A cell of `race` on a server.
    fn cell(limiter: &str, server: &str, verdict: Verdict) -> CellReport {
        let cell = super::super::gate::tests::cell(limiter, verdict, &[]);
        CellReport { server: server.to_owned(), ..cell }
    }

    #[test]
    fn a_claim_that_falls_on_one_server_does_not_hold_on_all() {
        let plan = ClaimsPlan::parse(PLAN, &["never-over-limit"]).unwrap();
        let cells = [cell("a", "6.2.14", Verdict::Fail), cell("a", "8.2.3", Verdict::Pass)];
        let claims = Claims::of(&plan, &cells);
        let row = &claims.rows[0];
        assert_eq!(claims.servers, ["redis 6.2.14", "redis 8.2.3"]);
        assert_eq!(row.found_on, [Some(Found::Holds), Some(Found::Contradicted)]);
        assert_eq!((row.found, claims.as_known()), (Found::Contradicted, Some(false)));
        assert_eq!(row.in_words(&claims.servers), "holds on redis 6.2.14, contradicted on redis 8.2.3");
        let mut known = plan;
        known.claims[0].known = Found::Contradicted;
        assert_eq!(Claims::of(&known, &cells).as_known(), Some(false), "it holds on the first");
    }

    #[test]
    fn a_trial_of_another_age_decides_nothing_on_that_server() {
        let aged = PLAN.replace("verdict = \"fail\"", "verdict = \"fail\"\nneeds = \"redis-from-7.2\"");
        let plan = ClaimsPlan::parse(&aged, &["never-over-limit"]).unwrap();
        let (old, new) = (cell("a", "7.0.15", Verdict::Pass), cell("a", "8.2.3", Verdict::Fail));
        let claims = Claims::of(&plan, &[old.clone(), new]);
        assert_eq!(claims.rows[0].found_on, [None, Some(Found::Holds)]);
        assert_eq!((claims.rows[0].found, claims.as_known()), (Found::Holds, Some(true)));
        assert_eq!(claims.rows[0].trials[0].left_out.as_deref(), Some("only from 7.2"));
        assert_eq!(Claims::of(&plan, &[old]).as_known(), None, "nothing was tried");
    }

    #[test]
    fn what_was_not_run_decides_nothing_and_is_never_taken_for_shown() {
        let plan = ClaimsPlan::parse(PLAN, &["never-over-limit"]).unwrap();
        let claims = Claims::of(&plan, &[]);
        assert_eq!((claims.rows[0].found, claims.as_known()), (Found::Unknown, None));
    }
}
