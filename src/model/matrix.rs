//! The verdict matrix: which property which limiter has, each tried under the scenario that puts it
//! to the test.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::report::{CellReport, servers};
use super::scenario::LimiterRef;
use super::verdict::{Standing, Verdict};

/// The matrix as its file plans it, with the verdicts that are known.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixPlan {
    #[serde(rename = "column")]
    pub columns: Vec<Column>,
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

/// A property, and the scenario that tries it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    pub check: String,
    pub scenario: String,
    /// The variation of the scenario, where it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation: Option<String>,
    /// A word for the head of the column.
    pub head: String,
}

/// A limiter, what is known of it, and where from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub limiter: LimiterRef,
    /// The limiter's number in the catalogue.
    pub catalogue: String,
    /// Checks that convict it.
    #[serde(default)]
    pub fail: Vec<String>,
    /// Checks that do not apply to it.
    #[serde(default)]
    pub not_applicable: Vec<String>,
    /// What is behind it.
    #[serde(default)]
    pub because: String,
}

impl MatrixPlan {
    /// Reads the plan. The error names what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let plan: Self = toml::from_str(text).map_err(|e| e.to_string())?;
        let checks: Vec<&str> = plan.columns.iter().map(|c| c.check.as_str()).collect();
        for row in &plan.rows {
            if let Some(name) =
                row.fail.iter().chain(&row.not_applicable).find(|c| !checks.contains(&c.as_str()))
            {
                return Err(super::names::unknown(&format!("check of {}", row.limiter), name, &checks));
            }
        }
        Ok(plan)
    }

    /// The same, if this scenario is the one that tries it.
    pub fn expected_under(
        &self,
        scenario: &str,
        limiter: &LimiterRef,
        variation: Option<&str>,
        check: &str,
    ) -> Option<Verdict> {
        let tries =
            |c: &&Column| c.check == check && c.scenario == scenario && c.variation.as_deref() == variation;
        self.columns.iter().find(tries).and_then(|_| self.expected(limiter, check))
    }

    /// The verdict that is known: what is not said to fail, or not to apply, passes.
    pub fn expected(&self, limiter: &LimiterRef, check: &str) -> Option<Verdict> {
        let row = self.rows.iter().find(|r| r.limiter == *limiter)?;
        let named = |list: &[String]| list.iter().any(|c| c == check);
        Some(if named(&row.fail) {
            Verdict::Fail
        } else if named(&row.not_applicable) {
            Verdict::NotApplicable
        } else {
            Verdict::Pass
        })
    }
}

/// The matrix as it came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matrix {
    pub columns: Vec<Column>,
    pub rows: Vec<MatrixRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixRow {
    pub limiter: String,
    /// `redis 7.0.15`, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// One for each column, in their order; `None` where it was not tried.
    pub verdicts: Vec<Option<MatrixCell>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixCell {
    pub verdict: Verdict,
    pub outcome: Standing,
    /// The witness of a fail; else what the verdict rests on.
    pub because: String,
}

impl MatrixRow {
    /// The limiter, and the server where there are several.
    pub fn label(&self) -> String {
        let server = self.server.as_ref().map(|server| format!(" · {server}")).unwrap_or_default();
        format!("{}{server}", self.limiter)
    }
}

impl Matrix {
    /// Puts judged cells into their places.
    pub fn of(columns: &[Column], cells: &[CellReport]) -> Self {
        let mut rows: Vec<MatrixRow> = Vec::new();
        let mut places: BTreeMap<(&str, Option<String>), usize> = BTreeMap::new();
        let several = servers(cells).len() > 1;
        for cell in cells {
            let server = several.then(|| cell.server_in_words());
            let place = *places.entry((&cell.limiter, server.clone())).or_insert_with(|| {
                let verdicts = vec![None; columns.len()];
                rows.push(MatrixRow { limiter: cell.limiter.clone(), server, verdicts });
                rows.len() - 1
            });
            for (i, column) in columns.iter().enumerate() {
                if column.scenario != cell.scenario || column.variation != cell.variation {
                    continue;
                }
                if let Some(check) = cell.checks.iter().find(|c| c.check == column.check) {
                    rows[place].verdicts[i] = Some(MatrixCell {
                        verdict: check.verdict,
                        outcome: check.outcome,
                        because: check.witness.clone().or_else(|| check.why.clone()).unwrap_or_default(),
                    });
                }
            }
        }
        Self { columns: columns.to_vec(), rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
[[column]]
check = "never-over-limit"
scenario = "race"
head = "over"
[[row]]
limiter = "a"
catalogue = "L01"
fail = ["never-over-limit"]
[[row]]
limiter = "b:x=1"
catalogue = "L02"
"#;

    #[test]
    fn what_is_not_said_to_fail_is_to_pass() {
        let plan = MatrixPlan::parse(PLAN).unwrap();
        let expected = |limiter: &str| plan.expected(&limiter.parse().unwrap(), "never-over-limit");
        assert_eq!(expected("a"), Some(Verdict::Fail));
        assert_eq!(expected("b:x=1"), Some(Verdict::Pass));
        assert_eq!(expected("b"), None);
    }

    #[test]
    fn a_check_without_a_column_is_refused() {
        let error = MatrixPlan::parse(&PLAN.replace("fail = [\"never", "fail = [\"ever")).unwrap_err();
        assert!(error.contains("did you mean 'never-over-limit'"), "{error}");
    }
}
