//! The verdict matrix: typed by hand, run, and compared.

use rl_lab::limiters;
use rl_lab::model::scenario::LimiterRef;
use rl_lab::model::verdict::{Standing, Verdict};
use rl_lab::runner::{matrix, scenarios};

use crate::support::{Lab, usable};

#[test]
fn the_matrix_has_a_row_for_every_limiter_and_a_scenario_for_every_column() {
    let plan = matrix::embedded().unwrap();
    for spec in limiters::ALL {
        assert!(plan.rows.iter().any(|r| r.limiter.name == spec.name), "{} has no row", spec.name);
    }
    for row in &plan.rows {
        let spec = limiters::find(&row.limiter.name).unwrap();
        assert!(row.catalogue.contains(spec.id), "{} is {}, typed {}", row.limiter, spec.id, row.catalogue);
        assert!(row.fail.is_empty() || !row.because.is_empty(), "{}: why does it fail?", row.limiter);
    }
    for column in &plan.columns {
        let scenario = scenarios::find(&column.scenario).unwrap().scenario;
        assert!(
            scenario.checks.contains(&column.check),
            "{} does not make {}",
            column.scenario,
            column.check
        );
    }
}

#[test]
fn scenarios_that_expect_as_the_matrix_run_its_rows() {
    let plan = matrix::embedded().unwrap();
    let rows: Vec<&LimiterRef> = plan.rows.iter().map(|r| &r.limiter).collect();
    for named in scenarios::embedded().unwrap().iter().filter(|n| n.scenario.expect_as_matrix) {
        let runs = |l: &LimiterRef| named.scenario.variants.iter().any(|v| v.limiter == *l);
        let lacking: Vec<String> = rows.iter().filter(|l| !runs(l)).map(ToString::to_string).collect();
        assert!(lacking.is_empty(), "{} lacks {lacking:?}", named.name);
    }
}

#[tokio::test]
async fn every_verdict_of_the_matrix_is_the_one_that_is_known_and_none_is_unknown() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let report = lab.run(&["matrix", "--backend", "local", "--format", "json"]).exits(0).report();
    let plan = matrix::embedded().unwrap();
    let found = report.matrix.unwrap();
    assert_eq!(found.rows.len(), plan.rows.len());
    let mut wrong = Vec::new();
    for (row, typed) in found.rows.iter().zip(&plan.rows) {
        for (column, cell) in plan.columns.iter().zip(&row.verdicts) {
            let cell = cell.as_ref().unwrap();
            let expected = plan.expected(&typed.limiter, &column.check);
            // A cell that was not run is judged by itself: n/a, as typed.
            if Some(cell.verdict) != expected || cell.outcome == Standing::Unexpected {
                wrong.push(format!("{} {}: {cell:?}", row.limiter, column.check));
            }
            assert!(cell.verdict != Verdict::Fail || !cell.because.is_empty(), "a fail without a witness");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    lab.assert_nothing_is_left("local").await;
}
