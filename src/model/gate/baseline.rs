//! What a gate said before: a failure in it is known, and does not fail the gate again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Fixed, Gate, GateResult};
use crate::model::verdict::Verdict;

const SCHEMA: u32 = 1;

/// By property.
pub type Verdicts = BTreeMap<String, Verdict>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    pub schema: u32,
    /// By limiter.
    pub limiters: BTreeMap<String, Verdicts>,
}

impl Baseline {
    /// What a gate came to.
    pub fn of(gate: &Gate) -> Self {
        let mut limiters: BTreeMap<String, Verdicts> = BTreeMap::new();
        for result in &gate.results {
            let of = limiters.entry(result.limiter.clone()).or_default();
            of.insert(result.property.clone(), result.verdict);
        }
        Self { schema: SCHEMA, limiters }
    }

    /// Reads one for a gate of these limiters. The error says what is wrong and what to do.
    pub fn parse(text: &str, limiters: &[&str]) -> Result<Self, String> {
        let again = "--save-baseline writes it again";
        let told: serde_json::Value =
            serde_json::from_str(text).map_err(|e| format!("it is no JSON: {e}; {again}"))?;
        match told.get("schema").and_then(serde_json::Value::as_u64) {
            Some(schema) if schema == u64::from(SCHEMA) => {}
            Some(schema) => return Err(format!("schema {schema} is not known, expected {SCHEMA}; {again}")),
            None => return Err(format!("it is no baseline: it has no schema; {again}")),
        }
        let read: Self = serde_json::from_value(told).map_err(|e| format!("{e}; {again}"))?;
        if let Some(other) = read.limiters.keys().find(|name| !limiters.contains(&name.as_str())) {
            let known = limiters.join(", ");
            return Err(format!(
                "it speaks of '{other}', and the limiters of this gate are {known}; {again}"
            ));
        }
        Ok(read)
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).map(|text| text + "\n").unwrap_or_default()
    }

    pub(super) fn verdict(&self, of: &GateResult) -> Option<Verdict> {
        self.limiters.get(&of.limiter)?.get(&of.property).copied()
    }

    pub(super) fn fixed(&self, now: &[GateResult]) -> Vec<Fixed> {
        let fixed = |r: &&GateResult| r.verdict == Verdict::Pass && self.verdict(r) == Some(Verdict::Fail);
        let name = |r: &GateResult| Fixed { limiter: r.limiter.clone(), property: r.property.clone() };
        now.iter().filter(fixed).map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, plan};
    use super::*;

    #[test]
    fn it_reads_back_and_says_what_is_wrong_with_another_file() {
        let gate = Gate::of(&plan(&["a"]), &[cell("a", Verdict::Fail, &[])]);
        let baseline = Baseline::of(&gate);
        let text = baseline.to_json();
        assert!(text.contains("\"race · never-over-limit\": \"fail\""), "{text}");
        assert_eq!(Baseline::parse(&text, &["a", "b"]), Ok(baseline));
        for (text, what) in [
            (text.as_str(), "speaks of 'a', and the limiters of this gate are b"),
            ("{", "no JSON"),
            ("[]", "no schema"),
            ("{\"schema\": 2}", "schema 2 is not known"),
            ("{\"schema\": 1, \"limiters\": {\"b\": {\"x\": \"passed\"}}}", "passed"),
        ] {
            let refused = Baseline::parse(text, &["b"]).unwrap_err();
            assert!(refused.contains(what) && refused.contains("--save-baseline"), "{refused}");
        }
    }
}
