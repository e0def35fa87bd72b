//! The verdict matrix: every limiter under every scenario that a column names.

use super::plan::{self, Overrides, Plan};
use super::scenarios;
use crate::model::matrix::MatrixPlan;
use crate::model::scenario::LimiterRef;
use crate::model::units::Seed;

/// The matrix in the binary: columns, rows, and what is known.
///
/// # Errors
/// If it cannot be read; a test rules that out.
pub fn embedded() -> Result<MatrixPlan, String> {
    let text = include_str!("../../scenarios/matrix/expected.toml");
    MatrixPlan::parse(text).map_err(|e| format!("scenarios/matrix/expected.toml: {e}"))
}

/// One plan for each scenario of the matrix, with the checks of its columns and no others.
pub fn plans(matrix: &MatrixPlan, limiters: &[LimiterRef], seed: Seed) -> Result<Vec<Plan>, String> {
    let rows: Vec<LimiterRef> = if limiters.is_empty() {
        matrix.rows.iter().map(|r| r.limiter.clone()).collect()
    } else {
        limiters.to_vec()
    };
    let mut plans: Vec<Plan> = Vec::new();
    for column in &matrix.columns {
        if plans.iter().any(|p| p.name == column.scenario) {
            continue;
        }
        let mut named = scenarios::find(&column.scenario)?;
        let columns = || matrix.columns.iter().filter(|c| c.scenario == column.scenario);
        named.scenario.checks = columns().map(|c| c.check.clone()).collect();
        // What is expected of these limiters is the matrix's to say.
        named.scenario.figures.clear();
        named.scenario.expectations.clear();
        let variations = columns().filter_map(|c| c.variation.clone()).collect();
        let changes = Overrides { limiters: rows.clone(), variations, ..Overrides::default() };
        let mut plan = plan::plan(named, &changes, seed)?;
        for cell in &mut plan.cells {
            let limiter = cell.limiter.clone();
            cell.checks_everywhere().flatten().for_each(|c| c.expected = matrix.expected(&limiter, &c.check));
        }
        plans.push(plan);
    }
    Ok(plans)
}
