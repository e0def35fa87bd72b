//! Limiters that ask less often than they are asked: what that saves, and who pays for it.

use rl_lab::model::figures::Figure;
use rl_lab::model::report::Report;

use crate::scenes::{figure, run, varied};
use crate::support::{Lab, cell, on_both};

on_both! {
    a_batch_saves_calls_and_is_refused_to_the_other_node
    greedy_nodes_are_over_the_limit_only_where_refusals_give_back_too_much
    what_is_saved_is_paid_for_by_somebody
    who_remembers_goes_on_refusing_when_the_limit_is_lifted
    regions_admit_the_limit_once_each_unless_they_hear_of_each_other
}

fn admitted(report: &Report, limiter: &str, variation: &str) -> u64 {
    varied(report, limiter, variation).rounds[0].admitted
}

mod cases {
    use super::*;

    pub async fn a_batch_saves_calls_and_is_refused_to_the_other_node(backend: &str) {
        let lab = Lab::new();
        let batches = [1, 10, 100].map(|n| format!("local-budget-lua:batch={n}"));
        let report = run(&lab, "budget", backend, &batches.join(","), &[]);
        // 1000 in batches, and 20 refused, each after having asked; and the script is loaded once.
        for (limiter, asked) in batches.iter().zip([1020.0, 120.0, 30.0f64]) {
            let trips = figure(varied(&report, limiter, "one node"), Figure::RoundTripsPerDecision) * 1020.0;
            assert!((asked - 0.6..asked + 1.6).contains(&trips), "{limiter}: {trips}");
        }
        // The first node has used one of its batch.
        for (limiter, admitted_in_all) in batches.iter().zip([1000, 991, 901]) {
            assert_eq!(admitted(&report, limiter, "traffic moves"), admitted_in_all, "{limiter}");
        }
    }

    pub async fn greedy_nodes_are_over_the_limit_only_where_refusals_give_back_too_much(backend: &str) {
        let lab = Lab::new();
        let report = lab.run(&["budget-greedy", "--backend", backend, "--format", "json"]).report();
        assert_eq!(admitted(&report, "token-reservation:batch=100", "1 node"), 1000);
        for nodes in ["2 nodes", "5 nodes", "10 nodes"] {
            assert!(admitted(&report, "token-reservation:batch=100", nodes) > 1000, "{nodes}");
            assert_eq!(admitted(&report, "local-budget-lua:batch=100", nodes), 1000, "{nodes}");
        }
    }

    pub async fn what_is_saved_is_paid_for_by_somebody(backend: &str) {
        let lab = Lab::new();
        let all = "exceeded-cache,async-count-flag,local-then-global,fixed-window-lua";
        let report = run(&lab, "fewer-calls", backend, all, &[]);
        let trips = |limiter| figure(cell(&report, limiter), Figure::RoundTripsPerDecision);
        assert_eq!((trips("fixed-window-lua"), trips("async-count-flag")), (1.0, 0.0));
        // 204 of 800 and about 500, or a window more where the machine is late.
        assert!(trips("exceeded-cache") < 0.5 && trips("local-then-global") < 1.0);
    }

    pub async fn who_remembers_goes_on_refusing_when_the_limit_is_lifted(backend: &str) {
        let lab = Lab::new();
        let all = "fixed-window-numbered,exceeded-cache,exceeded-cache:trust=1s";
        let report = run(&lab, "lifted", backend, all, &[]);
        let admitted = |limiter| cell(&report, limiter).rounds[0].admitted;
        assert_eq!(all.split(',').map(admitted).collect::<Vec<_>>(), [40, 20, 40]);
    }

    pub async fn regions_admit_the_limit_once_each_unless_they_hear_of_each_other(backend: &str) {
        let lab = Lab::new();
        let all = "regional,regional:form=merged,merge=1s,regional:form=far";
        let report = run(&lab, "regions", backend, all, &[]);
        for (regions, alone) in [("two regions", 40), ("three regions", 60)] {
            assert_eq!(admitted(&report, "regional", regions), alone, "{regions}");
            assert_eq!(admitted(&report, "regional:form=far", regions), 20, "{regions}");
        }
    }
}
