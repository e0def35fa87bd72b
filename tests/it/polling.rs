//! The planted bugs of `polling`: who never lets a client in again that keeps calling.

use rl_lab::model::verdict::{Standing, Verdict};

use crate::support::{Lab, cell, check, on_both};

on_both! {
    a_steady_client_is_let_in_again_or_its_limiter_is_convicted
}

mod cases {
    use super::*;

    pub async fn a_steady_client_is_let_in_again_or_its_limiter_is_convicted(backend: &str) {
        let (bad, good) =
            (["incr-expire-pipeline", "sliding-log-pipeline"], ["fixed-window-lua", "sliding-log-lua"]);
        let all = [bad, good].concat().join(",");
        let args = ["polling", "--backend", backend, "--format", "json", "--limiters", &all];
        let lab = Lab::new();
        let report = lab.run(&args).exits(0).report();
        for (limiters, verdict) in [(bad, Verdict::Fail), (good, Verdict::Pass)] {
            for limiter in limiters {
                let found = check(cell(&report, limiter), "steady-client-served");
                assert_eq!((found.verdict, found.outcome), (verdict, Standing::AsExpected), "{limiter}");
            }
        }
        lab.assert_nothing_is_left(backend).await;
    }
}
