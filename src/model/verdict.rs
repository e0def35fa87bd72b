//! Verdicts, and what they mean against an expectation.

use serde::{Deserialize, Serialize};

use super::scene::Place;

/// The finding of one checker. Ordered from best to worst: `max` is the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// The property does not apply; the reason is given beside it.
    #[serde(rename = "n/a")]
    NotApplicable,
    #[serde(rename = "pass")]
    Pass,
    /// Not enough evidence either way. Never read as a pass.
    #[serde(rename = "unknown")]
    Unknown,
    #[serde(rename = "fail")]
    Fail,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::NotApplicable => "n/a",
            Self::Pass => "pass",
            Self::Unknown => "unknown",
            Self::Fail => "fail",
        }
    }
}

/// What a checker found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub verdict: Verdict,
    /// For `fail` the witness in words; for the others the reason or the strength of the evidence.
    pub because: String,
    /// For `fail`: where it was seen, as far as the checker can name calls.
    pub place: Option<Place>,
}

impl Finding {
    pub fn pass(because: impl Into<String>) -> Self {
        Self { verdict: Verdict::Pass, because: because.into(), place: None }
    }

    pub fn fail(witness: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, because: witness.into(), place: None }
    }

    /// With the place where it was seen.
    pub fn seen_at(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    pub fn unknown(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unknown, because: why.into(), place: None }
    }

    pub fn not_applicable(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotApplicable, because: why.into(), place: None }
    }
}

/// A finding against what the scenario expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The scenario expects this verdict and it showed.
    AsExpected,
    /// The scenario expects another verdict.
    Unexpected,
    /// Nothing is expected: the verdict speaks for itself.
    Judged,
}

/// Compares a verdict with an expectation.
pub fn standing(verdict: Verdict, expected: Option<Verdict>) -> Standing {
    match expected {
        None => Standing::Judged,
        Some(e) if e == verdict => Standing::AsExpected,
        Some(_) => Standing::Unexpected,
    }
}

/// How a finished check counts towards the exit code of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    Fine,
    /// Exit 4: inconclusive.
    Inconclusive,
    /// Exit 1: a check failed, or an expectation did not show.
    Failed,
}

/// An expected `fail` is fine; an expectation that did not show is a failure, unless the check
/// could not tell, which is inconclusive.
pub fn weight(verdict: Verdict, standing: Standing) -> Weight {
    match (standing, verdict) {
        (Standing::AsExpected, _) => Weight::Fine,
        (_, Verdict::Unknown) => Weight::Inconclusive,
        (Standing::Unexpected, _) => Weight::Failed,
        (Standing::Judged, Verdict::Fail) => Weight::Failed,
        (Standing::Judged, Verdict::Pass | Verdict::NotApplicable) => Weight::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_verdict_wins_and_unknown_is_never_pass() {
        let worst = [Verdict::Pass, Verdict::Unknown, Verdict::NotApplicable].into_iter().max();
        assert_eq!(worst, Some(Verdict::Unknown));
        assert!(Verdict::Fail > Verdict::Unknown);
    }

    #[test]
    fn an_expectation_that_does_not_show_is_a_failure() {
        let s = standing(Verdict::Pass, Some(Verdict::Fail));
        assert_eq!(weight(Verdict::Pass, s), Weight::Failed);
        assert_eq!(weight(Verdict::Fail, standing(Verdict::Fail, Some(Verdict::Fail))), Weight::Fine);
        assert_eq!(weight(Verdict::Fail, standing(Verdict::Fail, None)), Weight::Failed);
        assert_eq!(
            weight(Verdict::Unknown, standing(Verdict::Unknown, Some(Verdict::Pass))),
            Weight::Inconclusive
        );
    }
}
