//! Figures of a history typed by hand: what its lines say, and nothing else.

use rl_lab::model::figures::Figure::{self, *};
use rl_lab::model::history::Builder;
use rl_lab::model::scenario::Act;
use rl_lab::runner::analyze;

/// Limit 2 per 100 ms. Two identities make five calls in 1, 2, 3, 4 and 10 ms; of the first, three are
/// admitted, two of them within 100 ms; one of the second is refused, and its last call gets no answer.
/// Seven round trips for the four decisions, three for one of them; nine commands for the five calls, those behind them among
/// them. A log of three entries, a number.
const HISTORY: &str = r#"
{"type":"run","schema":1,"lab":"0","id":"r","seed":1,"command":[],"started":"","epoch_ns_at_zero":0}
{"type":"cell","scenario":"s","limiter":"l","client":"c","backend":"b","server":{"flavour":"redis","version":"7"},"limit":2,"nodes":1,"rounds":1,"concurrent":false,"requirement":null,"checks":[],"contract":{"bound":{"kind":"sliding-window","limit":2,"window":"100ms"},"scope":"global","clock":"app","clock_resolution_ms":1,"denials":"free","on_outage":"error","key_ttl_at_most":null}}
{"type":"round","index":1,"at":0}
{"type":"invoke","op":0,"node":0,"key":"a","cost":1,"at":0}
{"type":"ok","op":0,"allowed":true,"source":"store","at":1000000}
{"type":"act","do":"script-flush","invoke":2000000,"complete":2500000}
{"type":"invoke","op":1,"node":0,"key":"a","cost":1,"at":50000000}
{"type":"ok","op":1,"allowed":true,"source":"store","at":52000000}
{"type":"invoke","op":2,"node":0,"key":"b","cost":1,"at":60000000}
{"type":"ok","op":2,"allowed":false,"source":"store","at":63000000}
{"type":"invoke","op":3,"node":0,"key":"a","cost":1,"at":140000000}
{"type":"ok","op":3,"allowed":true,"source":"store","at":144000000}
{"type":"invoke","op":4,"node":0,"key":"b","cost":1,"at":150000000}
{"type":"info","op":4,"error":"no answer: timed out","at":160000000}
{"type":"probe","key":"a","pttl":90,"at":170000000,"holds":3,"bytes":400,"kind":"zset"}
{"type":"probe","key":"b","pttl":90,"at":170000000,"holds":17,"bytes":72,"kind":"string"}
{"type":"probes-complete","at":170000000}
{"type":"round-end","at":171000000,"ops":5,"clock_step_ns":0,"trips":7,"most_trips":3}
{"type":"cell-end","honesty":{"generator_cpu":0.0,"overlap":0,"commands":9,"round_trips":7,"busy_ms":0.0}}
"#;

fn history(text: &str) -> rl_lab::model::history::History {
    let mut builder = Builder::default();
    text.trim().lines().for_each(|line| builder.line(line).unwrap());
    builder.finish().unwrap()
}

fn figures(text: &str) -> Vec<(Figure, f64)> {
    let report = analyze::report(&history(text));
    report.cells[0].figures.iter().map(|(figure, value)| (*figure, *value)).collect()
}

#[test]
fn the_figures_are_what_the_history_says() {
    let typed = [
        // 472 bytes and four values for two identities: what a number says is one value.
        (BytesPerIdentity, 236.0),
        (EntriesPerIdentity, 2.0),
        // One counter, at 17.
        (CountedPerIdentity, 8.5),
        (RoundTripsPerDecision, 1.75),
        (MostRoundTrips, 3.0),
        (CommandsPerCall, 1.8),
        // Of 1, 2, 3 and 4 ms: the second, and the last.
        (P50Ms, 2.0),
        (P99Ms, 4.0),
        (MaxMs, 4.0),
        (DeniedPercent, 25.0),
        (FirstRefused, 3.0),
        (MostInWindow, 2.0),
        (Undecided, 1.0),
        // The only call of its identity.
        (RefusedBelowLimit, 1.0),
        (RequestsSent, 5.0),
        (Refused, 1.0),
        // The fourth call, answered 144 ms after the first began.
        (LastAdmittedS, 0.14),
    ];
    assert_eq!(figures(HISTORY), typed);
    let policies = ["circuit-breaker", "shadow", "near-limit:at=90"].map(under);
    let all: Vec<_> =
        figures(OUTAGE).into_iter().chain(policies.into_iter().flatten()).chain(typed).collect();
    let told = |figure: &Figure| all.iter().any(|(f, _)| f == figure);
    let untold: Vec<_> =
        Figure::ALL.into_iter().filter(|f| !f.is_of_a_search() && !told(f)).map(Figure::name).collect();
    assert_eq!(untold, Vec::<&str>::new(), "each has its line in one of the histories");
}

/// A primary that is replaced: frozen from 100 to 200 ms. Four calls, each with a key of its own. One before; one
/// that fail-open admits after 50 ms, whose counter is at 2; one that the thawed primary admits at 210 ms, which the
/// store answered after 5 ms; and an error at 230 ms. A request without a limiter waits 30 ms. Of 40 commands one
/// node of two processes 30, in 2 ms of CPU time, for the two that the store decided.
const OUTAGE: &str = r#"
{"type":"run","schema":1,"lab":"0","id":"r","seed":1,"command":[],"started":"","epoch_ns_at_zero":0}
{"type":"cell","scenario":"s","limiter":"l","client":"c","backend":"b","server":{"flavour":"redis","version":"7"},"topology":"sentinel","limit":2,"nodes":1,"rounds":1,"concurrent":false,"requirement":null,"checks":[],"contract":{"bound":{"kind":"fixed-window","limit":2,"window":"100ms"},"scope":"global","clock":"expiry","clock_resolution_ms":1,"denials":"charged","on_outage":"open","key_ttl_at_most":null}}
{"type":"round","index":1,"at":0}
{"type":"invoke","op":0,"node":0,"key":"a","cost":1,"at":50000000}
{"type":"ok","op":0,"allowed":true,"source":"store","at":51000000}
{"type":"fault","id":1,"do":"freeze","on":"primary","asked":100000000,"at":101000000}
{"type":"invoke","op":1,"node":0,"key":"b","cost":1,"at":120000000}
{"type":"aside","invoke":130000000,"complete":160000000}
{"type":"ok","op":1,"allowed":true,"source":"fail-open","at":170000000}
{"type":"fault-end","id":1,"asked":199000000,"at":200000000}
{"type":"invoke","op":2,"node":0,"key":"c","cost":1,"at":210000000}
{"type":"ok","op":2,"allowed":true,"source":"store","at":215000000}
{"type":"invoke","op":3,"node":0,"key":"d","cost":1,"at":230000000}
{"type":"fail","op":3,"error":"READONLY","at":231000000}
{"type":"load","node":"one","commands":30,"cpu_us":2000,"at":235000000}
{"type":"load","node":"two","commands":10,"cpu_us":500,"at":235000000}
{"type":"probe","key":"a","pttl":90,"at":240000000,"holds":1,"kind":"string"}
{"type":"probe","key":"b","pttl":90,"at":240000000,"holds":2,"kind":"string"}
{"type":"probe","key":"c","pttl":90,"at":240000000,"holds":1,"kind":"string"}
{"type":"probes-complete","at":240000000}
{"type":"round-end","at":241000000,"ops":4,"clock_step_ns":0,"trips":4,"most_trips":1}
"#;

/// Two that the store admits, the second of which is near the limit. Fail-open, once after the store was asked and
/// twice without asking; fail-closed without asking; and one that the store refuses and that is let in.
const POLICY: &str = r#"
{"type":"run","schema":1,"lab":"0","id":"r","seed":1,"command":[],"started":"","epoch_ns_at_zero":0}
{"type":"cell","scenario":"s","limiter":"l","policy":"POLICY","client":"c","backend":"b","server":{"flavour":"redis","version":"7"},"limit":2,"nodes":1,"rounds":1,"concurrent":false,"requirement":null,"checks":[],"contract":{"bound":{"kind":"fixed-window","limit":2,"window":"100ms"},"scope":"global","clock":"expiry","clock_resolution_ms":1,"denials":"charged","on_outage":"open","key_ttl_at_most":null}}
{"type":"round","index":1,"at":0}
{"type":"invoke","op":0,"node":0,"key":"a","cost":1,"at":1000000}
{"type":"ok","op":0,"allowed":true,"source":"store","at":2000000,"contact":"answered"}
{"type":"invoke","op":1,"node":0,"key":"a","cost":1,"at":3000000}
{"type":"ok","op":1,"allowed":true,"source":"store","at":4000000,"contact":"answered","near":true}
{"type":"invoke","op":2,"node":0,"key":"a","cost":1,"at":5000000}
{"type":"ok","op":2,"allowed":true,"source":"fail-open","at":6000000,"contact":"unanswered"}
{"type":"invoke","op":3,"node":0,"key":"a","cost":1,"at":7000000}
{"type":"ok","op":3,"allowed":true,"source":"fail-open","at":8000000,"contact":"not-asked"}
{"type":"invoke","op":4,"node":0,"key":"a","cost":1,"at":9000000}
{"type":"ok","op":4,"allowed":true,"source":"fail-open","at":10000000,"contact":"not-asked"}
{"type":"invoke","op":5,"node":0,"key":"a","cost":1,"at":11000000}
{"type":"ok","op":5,"allowed":false,"source":"fail-closed","at":12000000,"contact":"not-asked"}
{"type":"invoke","op":6,"node":0,"key":"a","cost":1,"at":13000000}
{"type":"ok","op":6,"allowed":true,"source":"shadow","at":14000000,"contact":"answered"}
{"type":"round-end","at":15000000,"ops":7,"clock_step_ns":0,"trips":4,"most_trips":1}
"#;

fn under(policy: &str) -> Vec<(Figure, f64)> {
    figures(&POLICY.replace("POLICY", policy))
}

#[test]
fn the_figures_of_a_policy_are_what_its_history_says() {
    let told = under("circuit-breaker");
    for typed in [(AdmittedByPolicy, 3.0), (RefusedByPolicy, 1.0), (AskedInVain, 1.0), (Spared, 3.0)] {
        assert!(told.contains(&typed), "{typed:?} in {told:?}");
    }
    let has = |told: &[(Figure, f64)], figure| told.iter().any(|(f, _)| *f == figure);
    assert!(!has(&told, WouldDeny) && !has(&told, NearLimit), "it tells neither");
    assert!(under("shadow").contains(&(WouldDeny, 1.0)));
    assert!(under("near-limit:at=90").contains(&(NearLimit, 1.0)));
    let unrecorded = figures(&POLICY.replace(r#","contact":"not-asked""#, ""));
    assert!(
        !has(&unrecorded, Spared) && !has(&unrecorded, AskedInVain) && has(&unrecorded, AdmittedByPolicy)
    );
    let without = figures(&POLICY.replace(r#""policy":"POLICY","#, ""));
    assert!(!has(&without, AdmittedByPolicy));
}

#[test]
fn the_figures_of_an_outage_are_what_its_history_says() {
    let told = figures(OUTAGE);
    for typed in [
        (ByPolicy, 1.0),
        (Undecided, 1.0),
        // Call 2 was answered 15 ms after the thaw; the error came to a call that was made 30 ms after it.
        (BackAfterMs, 15.0),
        (NoticedAfterMs, 30.0),
        (AdmittedUnnoticed, 1.0),
        (AppliedUnanswered, 1.0),
        (AppliedTwice, 1.0),
        (AsideMaxMs, 30.0),
        (BusiestNodePercent, 75.0),
        (DecisionsPerCpuSecond, 1000.0),
        (MaxMs, 50.0),
    ] {
        assert!(told.contains(&typed), "{typed:?} in {told:?}");
    }
    let phases = &analyze::report(&history(OUTAGE)).cells[0].rounds[0].phases;
    let told: Vec<_> =
        phases.iter().map(|p| (p.name.as_str(), p.by_store, p.by_policy, p.undecided, p.max_ms)).collect();
    let typed =
        [("before", 1, 0, 0, Some(1.0)), ("freeze", 0, 1, 0, Some(50.0)), ("after", 1, 0, 1, Some(5.0))];
    assert_eq!(told, typed);
}

#[test]
fn what_the_history_does_not_say_is_absent_and_not_zero() {
    let of = |text: &str, figure| figures(text).into_iter().find(|(f, _)| *f == figure).map(|(_, v)| v);
    let unweighed = HISTORY.replace(r#","holds":3,"bytes":400,"kind":"zset""#, "");
    let unweighed = unweighed.replace(r#","holds":17,"bytes":72,"kind":"string""#, "");
    assert_eq!(of(&unweighed, BytesPerIdentity), None);
    let none: String =
        HISTORY.lines().filter(|l| !l.contains("\"probe\"")).map(|l| l.to_owned() + "\n").collect();
    assert_eq!(of(&none, BytesPerIdentity), Some(0.0), "listed to the end, and nothing there");
    let cut: String =
        HISTORY.lines().filter(|l| !l.contains("round-end")).map(|l| l.to_owned() + "\n").collect();
    assert_eq!((of(&cut, RoundTripsPerDecision), of(&cut, MaxMs)), (None, Some(4.0)));
    let refused = HISTORY.replace(r#""nodes":1"#, r#""not_run":"refused","nodes":1"#);
    assert_eq!(figures(&refused), []);
}

#[test]
fn what_somebody_else_did_is_part_of_the_round() {
    let acts = &history(HISTORY).cells[0].rounds[0].acts;
    assert_eq!(acts.iter().map(|a| (a.act, a.invoke.0)).collect::<Vec<_>>(), [(Act::ScriptFlush, 2_000_000)]);
}
