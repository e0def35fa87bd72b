//! `[[expect]]`: what a scenario, run as written, is known to show, and where it is something else.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{LimiterRef, Scenario, Variant};
use crate::model::servers::Version;
use crate::model::verdict::Verdict;

/// What the scenario, run as written, is known to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Of this variant; of every one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<LimiterRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<LimiterRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Under this variation; under every one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vary: Option<String>,
    /// On this backend; on every one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// On servers older than this version; on every one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Version>,
    pub check: String,
    pub verdict: Verdict,
}

impl Expectation {
    /// Whether it is about this variant.
    pub(super) fn is_of(&self, variant: &Variant) -> bool {
        self.limiter.as_ref().is_none_or(|l| *l == variant.limiter)
            && self.policy.as_ref().is_none_or(|p| variant.policy.as_ref() == Some(p))
            && self.client.as_ref().is_none_or(|c| variant.client.as_ref() == Some(c))
    }
}

/// Where a scenario may expect something else than elsewhere: a backend that an expectation names, and a server older than
/// a version that one names.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpectedOn {
    pub backend: Option<String>,
    pub before: Option<Version>,
}

impl ExpectedOn {
    /// The one of these that this backend and server are.
    pub fn of<'a>(
        all: impl Iterator<Item = &'a Self> + Clone,
        backend: &str,
        server: Option<Version>,
    ) -> Self {
        let named = all.clone().any(|on| on.backend.as_deref() == Some(backend));
        let older = all.filter_map(|on| on.before).filter(|v| server.is_some_and(|s| s < *v)).min();
        Self { backend: named.then(|| backend.to_owned()), before: older }
    }
}

impl Scenario {
    /// All the places that differ in what is expected.
    pub fn expected_on(&self) -> Vec<ExpectedOn> {
        let backends: BTreeSet<_> =
            self.expectations.iter().map(|e| e.backend.clone()).chain([None]).collect();
        let versions: BTreeSet<_> = self.expectations.iter().map(|e| e.before).chain([None]).collect();
        let on = |backend: &Option<String>, before: &Option<Version>| ExpectedOn {
            backend: backend.clone(),
            before: *before,
        };
        backends.iter().flat_map(|b| versions.iter().map(move |v| on(b, v))).collect()
    }

    /// The verdict expected of a variant under a check and a variation. What names both comes before
    /// what names the variant alone, that before what names the variation alone, and what is said of all of
    /// them comes last.
    pub fn expected(
        &self,
        variant: &Variant,
        vary: Option<&str>,
        ground: &ExpectedOn,
        check: &str,
    ) -> Option<Verdict> {
        let applies = |e: &&Expectation| {
            e.check == check
                && e.is_of(variant)
                && e.vary.as_deref().is_none_or(|name| Some(name) == vary)
                && e.backend.as_ref().is_none_or(|name| ground.backend.as_ref() == Some(name))
                && e.before.is_none_or(|v| ground.before.is_some_and(|older| older <= v))
        };
        let closest = self.expectations.iter().filter(applies).rev();
        let names = |e: &&Expectation| {
            let named = [e.limiter.is_some(), e.policy.is_some(), e.client.is_some(), e.vary.is_some()];
            (e.backend.is_some(), e.before.is_some(), named)
        };
        closest.max_by_key(names).map(|e| e.verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::GOOD;
    use super::*;

    #[test]
    fn what_is_said_of_fewer_comes_before_what_is_said_of_more() {
        let expect = |what: &str, verdict: &str| {
            format!("[[expect]]\n{what}check = \"never-over-limit\"\nverdict = \"{verdict}\"\n")
        };
        let text = GOOD
            .replace("[[expect]]\nlimiter = \"a\"\ncheck = \"never-over-limit\"\nverdict = \"fail\"\n", "")
            + "[[variant]]\nlimiter = \"b\"\n[[vary]]\nname = \"v\"\n[[vary]]\nname = \"w\"\n"
            + &expect("", "pass")
            + &expect("vary = \"v\"\n", "unknown")
            + &expect("limiter = \"a\"\n", "n/a")
            + &expect("limiter = \"a\"\nvary = \"w\"\n", "fail");
        let s = Scenario::parse("x.toml", &text).unwrap();
        let variant = |limiter: &str| s.variants.iter().find(|v| v.limiter.name == limiter).unwrap();
        let of = |limiter: &str, vary| {
            s.expected(variant(limiter), Some(vary), &ExpectedOn::default(), "never-over-limit")
        };
        use Verdict::{Fail, NotApplicable, Pass, Unknown};
        assert_eq!([of("b", "w"), of("b", "v")], [Some(Pass), Some(Unknown)]);
        assert_eq!([of("a", "v"), of("a", "w")], [Some(NotApplicable), Some(Fail)]);
        assert_eq!(s.expected(variant("a"), Some("v"), &ExpectedOn::default(), "cost"), None);
    }

    #[test]
    fn a_backend_and_an_old_server_may_be_expected_to_show_something_else() {
        let expect = |what: &str, verdict: &str| {
            format!("[[expect]]\n{what}check = \"never-over-limit\"\nverdict = \"{verdict}\"\n")
        };
        let text = GOOD.to_owned()
            + &expect("limiter = \"a\"\nbackend = \"docker\"\n", "unknown")
            + &expect("before = \"7.0\"\n", "pass");
        let s = Scenario::parse("x.toml", &text).unwrap();
        let all = s.expected_on();
        let of = |backend: &str, server: Option<Version>| {
            let on = ExpectedOn::of(all.iter(), backend, server);
            s.expected(&s.variants[0], None, &on, "never-over-limit")
        };
        use Verdict::{Fail, Pass, Unknown};
        assert_eq!(of("local", Some(Version(7, 0))), Some(Fail));
        assert_eq!(of("local", Some(Version(6, 2))), Some(Pass));
        assert_eq!(of("docker", Some(Version(9, 1))), Some(Unknown));
        assert_eq!(
            of("local", None),
            Some(Fail),
            "of a server that does not say its version nothing is known"
        );
        let e = Scenario::parse("x.toml", &text.replace("\"7.0\"", "\"seven\"")).unwrap_err();
        assert!(e.message.contains("'seven' is no version of a server, such as 7.0"), "{e}");
    }
}
