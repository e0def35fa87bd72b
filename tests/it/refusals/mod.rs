//! The checkers of refusals and hints against limiters whose every decision is known: none that keeps
//! its word is ever convicted, however the calls overlap, get lost or are late, and each planted fault is
//! found.

mod limiters;
mod traffic;

use rl_lab::model::contract::Denials::{Charged, Free};
use rl_lab::model::verdict::Verdict;

use limiters::{Fault, Kind, Settings};
use traffic::{Random, Weather, cell, judge};

const CHECKS: [&str; 6] = [
    "no-false-denial",
    "no-lost-permit",
    "denial-changes-nothing",
    "recovers",
    "remaining-consistent",
    "retry-after-honest",
];

/// Histories for each limiter.
const HISTORIES: u64 = 6_000;

fn settings(kind: Kind, seed: u64) -> Settings {
    let mut random = Random(seed ^ 0x5EED);
    let window_ms = random.within(20, 400);
    Settings {
        kind,
        limit: random.within(2, 7) as u64,
        window_ms,
        other: random.within(2, 9) as u64,
        other_ms: random.within(window_ms, 3 * window_ms),
    }
}

fn weather(seed: u64, costs_up_to: i64) -> Weather {
    // Half of the histories are of calls that mostly come alone, and nothing gets lost in half.
    Weather {
        costs_up_to,
        alone: if seed.is_multiple_of(2) { 85 } else { 25 },
        lost: if seed % 4 < 2 { 0 } else { 8 },
    }
}

/// Nobody is convicted; each of these checks clears at least that share of the histories, in
/// percent.
#[track_caller]
fn clears(kind: Kind, costs_up_to: i64, checks: &[(&str, u64)]) {
    let mut passed = vec![0; checks.len()];
    for seed in 0..HISTORIES {
        let settings = settings(kind, seed);
        let cell = cell(seed, settings, Fault::None, weather(seed, costs_up_to));
        for (n, (check, _)) in checks.iter().enumerate() {
            let found = judge(&cell, check);
            assert!(found.verdict != Verdict::Fail, "seed {seed}, {settings:?}: {check}: {}", found.because);
            passed[n] += u64::from(found.verdict == Verdict::Pass);
        }
    }
    println!("{kind:?} {checks:?} {passed:?}");
    for ((check, share), passed) in checks.iter().zip(passed) {
        assert!(passed * 100 >= share * HISTORIES, "{kind:?}: {check} passed {passed} of {HISTORIES}");
    }
}

const ALL_SIX: [(&str, u64); 6] = [
    ("no-false-denial", 50),
    ("no-lost-permit", 50),
    ("denial-changes-nothing", 25),
    ("recovers", 10),
    ("remaining-consistent", 50),
    ("retry-after-honest", 10),
];

#[test]
fn a_fixed_window_is_cleared() {
    clears(Kind::Fixed(Free), 3, &ALL_SIX);
    clears(Kind::Expiring(Free), 3, &ALL_SIX);
}

#[test]
fn a_fixed_window_that_declares_to_charge_refusals_is_cleared() {
    let checks =
        [("no-false-denial", 20), ("recovers", 10), ("remaining-consistent", 50), ("retry-after-honest", 5)];
    clears(Kind::Fixed(Charged), 3, &checks);
    clears(Kind::Expiring(Charged), 3, &checks);
    clears(Kind::Aligned(Charged), 3, &checks);
}

/// Where every call costs one, refusals come only after the limit is used up: charging them takes
/// nothing from anybody.
#[test]
fn a_window_that_charges_refusals_of_single_calls_loses_no_permit() {
    clears(Kind::Expiring(Charged), 1, &[("no-lost-permit", 50), ("no-false-denial", 20)]);
    clears(Kind::Fixed(Charged), 1, &[("no-lost-permit", 50), ("no-false-denial", 20)]);
    clears(Kind::Aligned(Charged), 1, &[("no-lost-permit", 50), ("no-false-denial", 20)]);
}

#[test]
fn a_numbered_window_is_cleared() {
    clears(Kind::Aligned(Free), 3, &ALL_SIX);
}

#[test]
fn a_sliding_log_is_cleared() {
    clears(Kind::Log(Free), 3, &ALL_SIX);
}

#[test]
fn a_sliding_log_that_declares_to_log_refusals_is_cleared() {
    clears(Kind::Log(Charged), 3, &[("no-false-denial", 20), ("recovers", 10), ("remaining-consistent", 50)]);
}

#[test]
fn a_sliding_counter_is_cleared() {
    clears(Kind::Counter, 3, &ALL_SIX);
}

#[test]
fn a_token_bucket_is_cleared() {
    clears(Kind::Token, 3, &ALL_SIX);
}

#[test]
fn a_gcra_is_cleared() {
    clears(Kind::Gcra, 3, &ALL_SIX);
}

#[test]
fn a_limit_that_all_keys_share_is_cleared() {
    clears(Kind::Shared, 3, &ALL_SIX);
}

#[test]
fn a_lockout_is_cleared() {
    clears(Kind::Guard, 3, &ALL_SIX);
}

/// The fault is found by these checks, in at least one of a hundred histories, and by no other.
#[track_caller]
fn convicts(kind: Kind, fault: Fault, by: &[&str], others_too: bool) {
    const TRIED: u64 = 1_000;
    let mut found = [0u64; CHECKS.len()];
    for seed in 0..TRIED {
        let mut settings = settings(kind, seed);
        if matches!(fault, Fault::HintInSecondsRoundedDown | Fault::HintToTheNearestSecond) {
            settings.window_ms = settings.window_ms * 10 + 1_000;
            settings.other_ms = settings.other_ms * 10 + 1_000;
        }
        let cell = cell(seed, settings, fault, weather(seed, 3));
        for (n, check) in CHECKS.iter().enumerate() {
            found[n] += u64::from(judge(&cell, check).verdict == Verdict::Fail);
        }
    }
    println!("{kind:?} {fault:?} {found:?}");
    for (check, found) in CHECKS.iter().zip(found) {
        if by.contains(check) {
            assert!(found >= TRIED / 100, "{kind:?} {fault:?}: {check} convicts {found} of {TRIED}");
        } else if !others_too {
            assert_eq!(found, 0, "{kind:?} {fault:?}: {check} convicts");
        }
    }
}

const FREE: [Kind; 9] = [
    Kind::Fixed(Free),
    Kind::Expiring(Free),
    Kind::Aligned(Free),
    Kind::Log(Free),
    Kind::Counter,
    Kind::Token,
    Kind::Gcra,
    Kind::Shared,
    Kind::Guard,
];

#[test]
fn a_limit_that_is_one_too_small_is_found() {
    for kind in FREE {
        convicts(kind, Fault::OneLess, &["no-false-denial", "no-lost-permit"], true);
    }
}

#[test]
fn charging_refusals_against_ones_word_is_found() {
    for kind in FREE {
        let by = ["no-false-denial", "no-lost-permit", "denial-changes-nothing"];
        convicts(kind, Fault::ChargesDenials, &by, true);
    }
}

/// To declare it is no excuse for permits that nobody got.
#[test]
fn charging_refusals_by_ones_word_still_loses_permits() {
    for kind in [Kind::Fixed(Charged), Kind::Expiring(Charged), Kind::Aligned(Charged), Kind::Log(Charged)] {
        convicts(kind, Fault::None, &["no-lost-permit"], false);
    }
}

#[test]
fn a_limiter_whose_time_stands_still_is_found() {
    for kind in FREE {
        convicts(kind, Fault::ForgetsToRefill, &["no-false-denial", "no-lost-permit", "recovers"], true);
    }
}

#[test]
fn a_hint_that_is_half_of_the_wait_is_found() {
    for kind in FREE {
        convicts(kind, Fault::HintHalved, &["retry-after-honest"], false);
    }
}

#[test]
fn a_hint_in_whole_seconds_that_is_short_is_found() {
    for kind in FREE {
        convicts(kind, Fault::HintInSecondsRoundedDown, &["retry-after-honest"], false);
        convicts(kind, Fault::HintToTheNearestSecond, &["retry-after-honest"], false);
    }
}

#[test]
fn a_hint_of_three_times_the_wait_is_found() {
    for kind in FREE {
        convicts(kind, Fault::HintTripled, &["retry-after-honest"], false);
    }
}

#[test]
fn to_promise_one_more_than_is_left_is_found() {
    for kind in FREE {
        convicts(kind, Fault::RemainingOneMore, &["remaining-consistent"], false);
    }
}

/// Of a level with fractions, one less than is left may be what is left rounded down.
#[test]
fn to_tell_one_less_than_is_left_is_found_where_levels_are_whole() {
    for kind in [Kind::Fixed(Free), Kind::Aligned(Free), Kind::Log(Free), Kind::Counter, Kind::Guard] {
        convicts(kind, Fault::RemainingOneLess, &["remaining-consistent"], false);
    }
}
