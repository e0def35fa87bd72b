//! What breaks: outages, failovers, evictions, wrong clocks, clusters, as their scenarios are written; and that
//! all of it is mended, however a run ends.

use rl_lab::model::figures::Figure;
use rl_lab::model::report::{CellReport, Report};
use rl_lab::model::verdict::{Standing, Verdict};

use crate::support::{Lab, on_both, until, usable};

on_both! {
    every_client_and_policy_feels_an_outage_as_typed
    what_the_store_never_answered_it_may_have_applied_and_twice_if_it_was_sent_twice
    what_a_promoted_replica_had_not_got_is_granted_again
    sentinel_promotes_by_itself_and_the_unreplicated_suffix_is_granted_again
    a_fallback_gives_its_share_again_whatever_the_store_had_counted
    what_is_broken_is_mended_when_a_run_is_stopped
    what_a_killed_run_broke_is_removed_by_gc
}

/// A run as written: whatever it expects is so.
fn as_written(backend: &str, args: &[&str]) -> Report {
    let lab = Lab::new();
    let args = [args, &["--backend", backend, "--format", "json"]].concat();
    let report = lab.run(&args).exits(0).report();
    for cell in &report.cells {
        for check in &cell.checks {
            assert_eq!(
                check.outcome,
                Standing::AsExpected,
                "{} {:?}: {check:?}",
                cell.limiter,
                cell.variation
            );
        }
    }
    report
}

#[track_caller]
fn of<'a>(report: &'a Report, variation: &str, client: &str) -> &'a CellReport {
    let fits = |c: &&CellReport| c.variation.as_deref() == Some(variation) && c.client == client;
    report.cells.iter().find(fits).unwrap_or_else(|| panic!("no cell of {client} ({variation})"))
}

#[track_caller]
fn figure(cell: &CellReport, figure: Figure) -> f64 {
    let told = cell.figures.get(&figure).copied();
    told.unwrap_or_else(|| panic!("no {} of {} {:?}", figure.name(), cell.limiter, cell.figures))
}

fn admitted(cell: &CellReport) -> u64 {
    cell.rounds.iter().map(|r| r.admitted).sum()
}

mod cases {
    use super::*;

    pub async fn every_client_and_policy_feels_an_outage_as_typed(backend: &str) {
        let report = as_written(backend, &["outage"]);
        assert_eq!(report.cells.len(), 45);
        for cell in &report.cells {
            let round = &cell.rounds[0];
            let names: Vec<&str> = round.phases.iter().map(|p| p.name.as_str()).collect();
            assert_eq!((names.first(), names.last()), (Some(&"before"), Some(&"after")), "{names:?}");
            assert_eq!(round.phases.iter().map(|p| p.offered).sum::<u64>(), round.offered);
            assert!(!round.slices.is_empty() && !cell.told.is_empty());
        }
        // Who waits, waits for as long as the fault lasts.
        let longest = figure(of(&report, "freeze", "waits-for-reconnect"), Figure::MaxMs);
        assert!(longest > 1_000.0, "{longest}");
    }

    pub async fn what_the_store_never_answered_it_may_have_applied_and_twice_if_it_was_sent_twice(
        backend: &str,
    ) {
        let report = as_written(backend, &["outage-effects"]);
        let gave_up = of(&report, "freeze", "fail-fast");
        assert!(figure(gave_up, Figure::AppliedUnanswered) > 0.0);
        assert_eq!(figure(gave_up, Figure::AppliedTwice), 0.0);
        for (variation, client) in [
            ("freeze", "retries-on-timeout"),
            ("lost reply", "retries-on-timeout"),
            ("lost reply", "replays-in-flight"),
        ] {
            assert!(
                figure(of(&report, variation, client), Figure::AppliedTwice) > 0.0,
                "{variation} {client}"
            );
        }
    }

    pub async fn what_a_promoted_replica_had_not_got_is_granted_again(backend: &str) {
        let report = as_written(backend, &["failover"]);
        let client = "redis-rs-multiplexed";
        for (variation, total) in [
            ("held after 40", 160),
            ("in step", 100),
            ("held, min-replicas", 160),
            ("cut, min-replicas", 100),
            ("split", 160),
            ("demoted", 50),
        ] {
            assert_eq!(admitted(of(&report, variation, client)), total, "{variation}");
        }
        let told = |variation| of(&report, variation, client).told.join("; ");
        assert!(told("held after 40").contains("WAIT 1 500 says 0"), "{}", told("held after 40"));
        assert!(told("held after 40").contains("it had user = 40"));
        assert!(told("in step").contains("WAIT 1 500 says 1") && told("in step").contains("user = 100"));
        let errors = |variation| of(&report, variation, client).errors.keys().cloned().collect::<String>();
        assert!(errors("cut, min-replicas").contains("NOREPLICAS"));
        assert!(errors("demoted").contains("READONLY"));
    }

    pub async fn sentinel_promotes_by_itself_and_the_unreplicated_suffix_is_granted_again(backend: &str) {
        let report = as_written(backend, &["failover-sentinel", "--variation", "killed"]);
        assert_eq!(admitted(&report.cells[0]), 160, "a hundred, and the sixty that the replicas had not got");
    }

    pub async fn a_fallback_gives_its_share_again_whatever_the_store_had_counted(backend: &str) {
        let report = as_written(backend, &["fallback"]);
        for cell in &report.cells {
            let (policy, variation) = (cell.policy.as_deref().unwrap(), cell.variation.as_deref().unwrap());
            // Twenty on each of two app servers; the whole limit on each; nobody.
            let share = match policy {
                "local-fallback" => 40.0,
                "local-fallback:limit=40" => 80.0,
                "fail-closed" => 0.0,
                _ => {
                    assert!(figure(cell, Figure::AdmittedByPolicy) > 80.0, "{variation}");
                    continue;
                }
            };
            assert_eq!(figure(cell, Figure::AdmittedByPolicy), share, "{policy} {variation}");
            // A user who is always sent to the same app server gets only what that one has to give.
            let users = if variation.contains("sticky") { 2.0 } else { 1.0 };
            if !variation.starts_with("death") {
                let most = 40.0 + share / users;
                assert!(figure(cell, Figure::MostInWindow) <= most, "{policy} {variation}");
            }
        }
    }

    pub async fn what_is_broken_is_mended_when_a_run_is_stopped(backend: &str) {
        for (variation, signal) in
            [("freeze", libc::SIGINT), ("black hole", libc::SIGTERM), ("death", libc::SIGINT)]
        {
            let lab = Lab::new();
            let mut living = lab.start(&["outage", "--backend", backend, "--variation", variation]);
            let broken = until("a fault in the history", || {
                let broken = lab.runs().iter().any(|run| {
                    let history = std::fs::read_to_string(run.join("history.jsonl"));
                    history.is_ok_and(|text| text.contains(r#""type":"fault""#))
                });
                (broken || !living.is_running()).then_some(broken)
            });
            assert!(broken.await, "{variation}");
            living.signal(signal);
            living.wait().exits(128 + signal);
            lab.assert_nothing_is_left(backend).await;
        }
    }

    pub async fn what_a_killed_run_broke_is_removed_by_gc(backend: &str) {
        let lab = Lab::new();
        for variation in ["freeze", "black hole"] {
            let mut living = lab.start(&["outage", "--backend", backend, "--variation", variation]);
            let runs = lab.runs().len();
            let broken = until("a fault in the history", || {
                let broken = lab.runs().iter().any(|run| {
                    let history = std::fs::read_to_string(run.join("history.jsonl")).unwrap_or_default();
                    history.contains(r#""type":"fault""#) && !history.contains(r#""type":"fault-end""#)
                });
                (broken || !living.is_running()).then_some(broken)
            });
            assert!(broken.await, "{variation}, {runs}");
            living.signal(libc::SIGKILL);
            lab.run(&["gc"]).exits(0);
            lab.assert_nothing_is_left(backend).await;
        }
    }
}

/// What one server shows, the other shows as well: these run on local servers only.
macro_rules! on_local {
    ($($name:ident)*) => {
        $(#[tokio::test]
        async fn $name() {
            if usable("local").await {
                locally::$name();
            }
        })*
    };
}

on_local! {
    a_worker_that_waits_stops_routes_without_a_limiter
    an_app_that_starts_in_an_outage_is_answered_by_who_gives_up
    a_full_store_forgets_a_limit_or_refuses_to_count
    skew_admits_more_by_the_apps_clock_and_nothing_more_by_the_stores
    a_window_in_the_apps_time_is_reset_by_who_is_outside_of_it
    a_promoted_replica_with_another_clock_has_forgotten_everybody
    a_cluster_refuses_keys_in_different_slots
    one_key_is_one_nodes_work
    a_client_or_policy_of_ones_own_is_judged_and_not_compared
    a_limiter_without_a_connection_is_silent_or_says_so
    a_breaker_spares_calls_and_takes_its_time_to_close
    a_limiter_in_the_shadow_refuses_nobody_and_counts_whom_it_would
    what_nears_the_limit_is_reported_and_decided_as_before
    a_policy_is_the_same_around_an_app_server_that_is_a_process
}

mod locally {
    use super::*;

    pub fn a_worker_that_waits_stops_routes_without_a_limiter() {
        let report = as_written("local", &["outage-workers"]);
        let aside = |policy: &str, client: &str| {
            let fits =
                |c: &&CellReport| c.client == client && c.policy.as_deref().is_some_and(|p| p == policy);
            figure(report.cells.iter().find(fits).unwrap(), Figure::AsideMaxMs)
        };
        let (waits, gives_up) = (aside("fail-open", "waits-for-reconnect"), aside("fail-open", "fail-fast"));
        assert!(waits > 5.0 * gives_up.max(1.0), "{waits} and {gives_up}");
    }

    pub fn an_app_that_starts_in_an_outage_is_answered_by_who_gives_up() {
        as_written("local", &["outage-start"]);
    }

    pub fn a_full_store_forgets_a_limit_or_refuses_to_count() {
        let report = as_written("local", &["evict"]);
        let cell = |variation| of(&report, variation, "redis-rs-multiplexed");
        for variation in ["allkeys-lru", "volatile-ttl, cache lives longer", "volatile-lru, cache expires"] {
            assert!(cell(variation).rounds.iter().all(|r| r.admitted == 100), "{variation}");
        }
        for variation in ["allkeys-lfu", "volatile-ttl, cache lives shorter"] {
            assert!(cell(variation).rounds.iter().all(|r| r.admitted == 50), "{variation}");
        }
        for variation in ["noeviction", "volatile-lru, cache without expiry"] {
            let errors: Vec<&String> = cell(variation).errors.keys().collect();
            assert!(errors.iter().all(|e| e.contains("OOM")) && !errors.is_empty(), "{errors:?}");
        }
    }

    pub fn skew_admits_more_by_the_apps_clock_and_nothing_more_by_the_stores() {
        let report =
            as_written("local", &["skew", "--limiters", "sliding-log-lua,sliding-log-lua:clock=server"]);
        let of = |limiter: &str, variation: &str| {
            let fits = |c: &&CellReport| c.limiter == limiter && c.variation.as_deref() == Some(variation);
            admitted(report.cells.iter().find(fits).unwrap())
        };
        let app: Vec<u64> =
            ["+0", "+300 ms", "+1500 ms"].map(|offset| of("sliding-log-lua", offset)).to_vec();
        assert!(app[0] == 40 && app[0] < app[1] && app[1] < app[2], "{app:?}");
        for offset in ["+0", "+300 ms", "-300 ms", "+1500 ms"] {
            assert_eq!(of("sliding-log-lua:clock=server", offset), 40, "{offset}");
        }
    }

    /// The figures of the source, to the digit.
    pub fn a_window_in_the_apps_time_is_reset_by_who_is_outside_of_it() {
        let both = ["skew-window", "--limiters", "laravel-throttle-redis,laravel-throttle"];
        let report = as_written("local", &both);
        let told: String = report.cells.iter().flat_map(|c| c.told.clone()).collect::<Vec<_>>().join("\n");
        for (offset, minutes) in
            [("+2s", "119 121 121"), ("-2s", "121 121 121"), ("+30s", "201 202 202"), ("+70s", "600 600 600")]
        {
            let line = format!("clock of node 1 off by {offset}: admitted in each 60s: {minutes}");
            assert!(told.contains(&line), "{line} in\n{told}");
        }
        assert_eq!(admitted(&report.cells[0]), 300, "with right clocks");
        let over_the_cache: Vec<u64> =
            report.cells.iter().filter(|c| c.limiter == "laravel-throttle").map(admitted).collect();
        assert_eq!(over_the_cache, [300; 5], "whatever the clocks say");
    }

    pub fn a_promoted_replica_with_another_clock_has_forgotten_everybody() {
        let report = as_written("local", &["skew-promoted"]);
        for cell in report.cells.iter().filter(|c| c.variation.as_deref() == Some("70 s ahead")) {
            assert_eq!(admitted(cell), 200, "{}", cell.limiter);
        }
    }

    pub fn a_cluster_refuses_keys_in_different_slots() {
        as_written("local", &["cluster"]);
    }

    pub fn one_key_is_one_nodes_work() {
        let report = as_written("local", &["hotkey"]);
        for cell in &report.cells {
            let share = figure(cell, Figure::BusiestNodePercent);
            // Parts under one tag lie in one slot, and a node that has three of six parts has half of the work or more.
            let tagged = cell.params.get("tags").is_some_and(|t| t == "shared");
            let fits = match cell.variation.as_deref() {
                Some("one key") => share > 95.0,
                Some("one key in six parts") if tagged => share > 95.0,
                Some("one key in six parts") => share < 90.0,
                _ => share < 60.0,
            };
            assert!(fits, "{} {share}", cell.limiter);
        }
    }

    pub fn a_client_or_policy_of_ones_own_is_judged_and_not_compared() {
        let lab = Lab::new();
        let limiters = ["--limiters", "fixed-window-lua", "--format", "json", "--backend", "local"];
        let own = ["race", "--client", "fail-fast", "--policy", "P2"];
        let report = lab.run(&[&own[..], &limiters].concat()).exits(0).report();
        let cell = &report.cells[0];
        assert_eq!((cell.client.as_str(), cell.policy.as_deref()), ("fail-fast", Some("fail-closed")));
        assert!(cell.checks.iter().all(|c| c.expected.is_none()));
        for (flag, wrong, near) in
            [("--client", "fail-fats", "fail-fast"), ("--policy", "fail-opne", "fail-open")]
        {
            let args = [&["race", flag, wrong][..], &limiters].concat();
            lab.run(&args).exits(2).says(&[&format!("did you mean '{near}'")]);
        }
    }

    pub fn a_limiter_without_a_connection_is_silent_or_says_so() {
        let report = as_written("local", &["misconfig"]);
        let of = |policy: Option<&str>, client: &str| {
            let fits = |c: &&CellReport| {
                c.policy.as_deref() == policy && c.client == client && c.limiter == "fixed-window-lua"
            };
            report.cells.iter().find(fits).unwrap()
        };
        let none = "not-configured";
        for (policy, admitted_in_all, by_policy) in [
            ("fail-open:report=silent", 12, 0.0),
            ("fail-open", 12, 12.0),
            ("fail-closed", 0, 0.0),
            // Half of five on each of two app servers.
            ("local-fallback", 4, 4.0),
        ] {
            let cell = of(Some(policy), none);
            let told = (admitted(cell), figure(cell, Figure::AdmittedByPolicy));
            assert_eq!(told, (admitted_in_all, by_policy), "{policy}");
        }
        assert_eq!(figure(of(Some("fail-closed"), none), Figure::RefusedByPolicy), 12.0);
        let undecided = of(None, none);
        assert_eq!((undecided.rounds[0].failed, undecided.errors.values().sum::<u64>()), (12, 12));
    }

    pub fn a_breaker_spares_calls_and_takes_its_time_to_close() {
        let report = as_written("local", &["breaker", "--variation", "freeze"]);
        for client in ["redis-rs-multiplexed", "fail-fast"] {
            let of = |policy: &str, told| {
                let fits = |c: &&CellReport| c.client == client && c.policy.as_deref() == Some(policy);
                figure(report.cells.iter().find(fits).unwrap(), told)
            };
            assert_eq!(of("fail-open", Figure::Spared), 0.0);
            for policy in ["circuit-breaker", "circuit-breaker:open=200ms"] {
                assert!(of(policy, Figure::Spared) > 0.0, "{client} {policy}");
                assert!(of(policy, Figure::BackAfterMs) > 0.0);
                let (with, without) = (of(policy, Figure::AskedInVain), of("fail-open", Figure::AskedInVain));
                assert!(with < without, "{client} {policy}: {with} and {without}");
            }
        }
    }

    /// The race with a policy of one's own.
    fn race_under(policy: &str, more: &[&str]) -> Report {
        let args = ["race", "--limiters", "fixed-window-lua", "--policy", policy, "--rounds", "1"];
        let lab = Lab::new();
        lab.run(&[&args[..], more, &["--backend", "local", "--format", "json"]].concat()).report()
    }

    pub fn a_limiter_in_the_shadow_refuses_nobody_and_counts_whom_it_would() {
        let report = race_under("shadow", &[]);
        let cell = &report.cells[0];
        assert_eq!(admitted(cell), 200);
        assert_eq!(figure(cell, Figure::WouldDeny), 190.0);
        let verdict = |check: &str| crate::support::check(cell, check).verdict;
        assert_eq!(verdict("never-over-limit"), Verdict::Unknown, "it promises nothing");
        assert_eq!(verdict("meets-requirement"), Verdict::Fail, "and limits nobody");
    }

    pub fn what_nears_the_limit_is_reported_and_decided_as_before() {
        let report = race_under("near-limit", &[]);
        let cell = &report.cells[0];
        assert_eq!(admitted(cell), 10);
        // The eighth, ninth and tenth, and the refused ones.
        assert_eq!(figure(cell, Figure::NearLimit), 193.0);
        assert!(cell.checks.iter().all(|c| c.verdict == Verdict::Pass), "{:?}", cell.checks);
    }

    pub fn a_policy_is_the_same_around_an_app_server_that_is_a_process() {
        let lab = Lab::new();
        let scenario = lab.file(
            "processes.toml",
            r#"
schema = 1
title = "Processes"
shows = "What an app server says of itself is what the lab sees of its own."
checks = ["fail-open-is-reported", "never-over-limit", "declared-outage-policy"]
figures = ["admitted-by-policy"]
[limit]
limit = 4
window = "60s"
[workload]
shape = "sequence"
connections = 2
in_flight = 1
nodes = 2
nodes_as = "processes"
call = [{ at = "0s", times = 12 }]
[[variant]]
limiter = "fixed-window-lua"
policy = "local-fallback"
client = "not-configured"
[[variant]]
limiter = "fixed-window-lua"
policy = "fail-open:report=silent"
client = "not-configured"
[[variant]]
limiter = "fixed-window-lua"
policy = "near-limit"
client = "waits-for-reconnect"
[[expect]]
policy = "local-fallback"
check = "fail-open-is-reported"
verdict = "pass"
[[expect]]
policy = "fail-open:report=silent"
check = "fail-open-is-reported"
verdict = "fail"
"#,
        );
        let path = scenario.to_str().unwrap().to_owned();
        let report = lab.run(&["run", &path, "--backend", "local", "--format", "json"]).report();
        let cells: Vec<(u64, Option<f64>)> =
            report.cells.iter().map(|c| (admitted(c), c.figures.get(&Figure::NearLimit).copied())).collect();
        // Two on each by itself; everybody; four, of which the last is near, as are the refused ones.
        assert_eq!(cells, [(4, None), (12, None), (4, Some(9.0))], "{report:?}");
        let verdicts = |check: &str| -> Vec<Verdict> {
            report.cells.iter().map(|c| crate::support::check(c, check).verdict).collect()
        };
        let told = verdicts("fail-open-is-reported");
        assert_eq!(told, [Verdict::Pass, Verdict::Fail, Verdict::Unknown]);
    }
}

/// Three seconds after it was filled, and with buffers of many clients to be had back.
const FULL: &str = r#"
schema = 1
title = "Full"
shows = "A store that was filled stays so."
checks = ["declared-outage-policy"]
figures = ["undecided"]

[topology]
kind = "single"
config = { maxmemory = "2mb", maxmemory-policy = "noeviction" }

[limit]
limit = 1000
window = "60s"

[workload]
shape = "sequence"
connections = 12
in_flight = 1
nodes = 12

[[workload.call]]
at = "0s"
times = 12

[[workload.act]]
at = "200ms"
do = "fill"
count = 4000
bytes = 1024

[[workload.call]]
at = "3500ms"
times = 20

[[workload.act]]
at = "3510ms"
do = "empty"

[[workload.call]]
at = "3520ms"
times = 5

[[variant]]
limiter = "fixed-window-lua"
"#;

#[tokio::test]
async fn a_store_that_was_filled_stays_full_until_it_is_emptied() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let scenario = lab.file("full.toml", FULL);
    let args = ["run", scenario.to_str().unwrap(), "--backend", "local", "--format", "json"];
    let report = lab.run(&args).exits(0).report();
    let cell = &report.cells[0];
    assert_eq!(figure(cell, Figure::Undecided), 20.0, "{:?}", cell.errors);
    assert_eq!(admitted(cell), 12 + 5);
    lab.assert_nothing_is_left("local").await;
}
