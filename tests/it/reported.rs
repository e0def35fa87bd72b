//! `rl-lab cases`: public reports about limiters, replayed.

use rl_lab::model::claims::{CameOut, Found};
use rl_lab::model::report::Report;

use crate::support::Lab;

fn cases(lab: &Lab, only: &str, exit: i32) -> Report {
    let args = ["cases", "--only", only, "--backend", "local", "--format", "json"];
    lab.run(&args).exits(exit).report()
}

/// A few of each kind: a race, a crash, costs, a script, a log that refused calls enter, a lost script. All of them are
/// run by `make soak`.
#[tokio::test]
async fn the_bad_form_of_a_report_is_convicted_and_the_cured_one_cleared() {
    let lab = Lab::new().env("RL_LAB_ADAPTERS", "/nonexistent");
    let report = cases(&lab, "2,5,6,7,9,11,20,21,27", 0);
    let claims = report.claims.unwrap();
    assert_eq!(
        claims.rows.iter().filter_map(|r| r.case).collect::<Vec<_>>(),
        [2, 5, 6, 7, 9, 11, 20, 21, 27]
    );
    for row in &claims.rows {
        assert_eq!(row.found, Found::Holds, "{}", row.claim);
        assert!(row.source.is_some() && row.trials.len() >= 2, "{}", row.claim);
        for trial in row.trials.iter().filter(|t| t.left_out.is_some()) {
            assert!(trial.left_out.as_ref().unwrap().contains("scripts/adapters/install"));
            assert_eq!((trial.came_out, trial.as_claimed), (CameOut::Nothing, None));
        }
    }
    assert!(claims.rows.iter().flat_map(|r| &r.trials).any(|t| t.left_out.is_some()), "some need a library");
    assert_eq!(lab.traces("local").await, Vec::<String>::new());
}

#[test]
fn what_is_planted_is_run_by_its_name_as_the_command_that_repeats_it_does() {
    let lab = Lab::new();
    let args = ["race", "--strict", "--backend", "local", "-l", "case-get-then-decrby,case-decrby-decides"];
    lab.run(&args).exits(1).prints(&["case-get-then-decrby", "replay: rl-lab race"]);
}

#[test]
fn a_number_that_no_case_has_is_refused() {
    Lab::new().run(&["cases", "--only", "41"]).exits(2).says(&["there is no 41", "1 to 40"]);
}
