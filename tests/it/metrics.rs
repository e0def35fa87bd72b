//! `metrics.prom`: a strict reading of Prometheus' text format takes it, and it counts what the history says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rl_lab::model::metrics::{Ended, Gauge, LIMITED, MOST_USERS, Metrics, OTHERS, render};
use rl_lab::model::op::{Outcome, Source};
use rl_lab::runner::analyze;

use crate::support::{Lab, usable};

/// A series: its name and labels.
type Series = (String, BTreeMap<String, String>);

/// What a text says, if it keeps to the format: whole lines, HELP and TYPE once and before the samples of a
/// family, all of a family together, no series twice, histograms that add up.
fn parse(text: &str) -> BTreeMap<Series, f64> {
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is cut");
    let mut series = BTreeMap::new();
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let (mut helped, mut family) = (BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help without a text");
            assert!(helped.insert(name.to_owned()) && !help.is_empty(), "{line}");
            family = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type without a kind");
            assert_eq!(name, family, "the type of another family");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
        } else {
            let (name, labels, value) = sample(line);
            let own = match kinds.get(&family).map(String::as_str) {
                Some("histogram") => {
                    ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix))
                }
                Some("counter") => Some(name.as_str()).filter(|name| name.ends_with("_total")),
                Some(_) => Some(name.as_str()),
                None => None,
            };
            assert_eq!(own, Some(family.as_str()), "{line}");
            assert!(series.insert((name, labels), value).is_none(), "twice: {line}");
        }
    }
    add_up(&series);
    series
}

/// `name{label="value",…} number`.
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let named = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = line.find(|c| !named(c)).expect("a sample without a value");
    let (name, mut rest) = line.split_at(end);
    assert!(name.starts_with(|c: char| c.is_ascii_alphabetic()), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label without a value");
            assert!(!label.is_empty() && label.chars().all(named), "{line}");
            let mut value = String::new();
            let mut chars = after.chars();
            loop {
                match chars.next().expect("a value without an end") {
                    '"' => break,
                    '\\' => value.push(match chars.next() {
                        Some('n') => '\n',
                        Some(c @ ('\\' | '"')) => c,
                        other => panic!("{other:?} is not escaped in {line}"),
                    }),
                    c => value.push(c),
                }
            }
            assert!(labels.insert(label.to_owned(), value).is_none(), "{label} twice in {line}");
            rest = chars.as_str();
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').expect("labels without an end");
    }
    let value = rest.strip_prefix(' ').expect("one space before the value");
    (name.to_owned(), labels, value.parse().expect("a number"))
}

/// Buckets grow, the last holds all, and there is a sum.
fn add_up(series: &BTreeMap<Series, f64>) {
    let mut buckets: BTreeMap<Series, Vec<(f64, f64)>> = BTreeMap::new();
    for ((name, labels), value) in series {
        if let Some(family) = name.strip_suffix("_bucket") {
            let mut labels = labels.clone();
            let end = labels.remove("le").expect("a bucket without an end");
            let end = if end == "+Inf" { f64::INFINITY } else { end.parse().unwrap() };
            buckets.entry((family.to_owned(), labels)).or_default().push((end, *value));
        }
    }
    for ((family, labels), mut ends) in buckets {
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(ends.is_sorted_by_key(|(_, count)| *count), "{family} {ends:?}");
        let of = |suffix| series.get(&(format!("{family}{suffix}"), labels.clone())).copied();
        assert_eq!(ends.last().map(|(end, count)| (*end, Some(*count))), Some((f64::INFINITY, of("_count"))));
        assert!(of("_sum").is_some());
    }
}

/// The sum over all series of this name that have these labels.
fn sum(series: &BTreeMap<Series, f64>, name: &str, with: &[(&str, &str)]) -> f64 {
    let fits = |labels: &BTreeMap<String, String>| {
        with.iter().all(|(label, value)| labels.get(*label).is_some_and(|v| v == value))
    };
    series.iter().filter(|((n, labels), _)| n == name && fits(labels)).map(|(_, value)| value).sum()
}

fn call<'a>(user: &'a str, outcome: Outcome, source: Source, ms: u64) -> Ended<'a> {
    let waited = Some(Duration::from_millis(ms));
    Ended { user, endpoint: "/search", outcome, source: Some(source), waited, near: false }
}

#[test]
fn calls_are_counted_by_outcome_and_by_who_decided() {
    let mut metrics = Metrics::of(vec![("limiter", "a".to_owned())]);
    metrics.count(&call("u", Outcome::Admitted, Source::Store, 5));
    metrics.count(&call("u", Outcome::Denied, Source::Store, 6));
    metrics.count(&call("v", Outcome::Admitted, Source::FailOpen, 51));
    metrics.count(&call("v", Outcome::Denied, Source::FailClosed, 20_000));
    metrics.count(&Ended { source: None, waited: None, ..call("v", Outcome::Failed, Source::Store, 0) });
    metrics.count(&Ended { source: None, waited: None, ..call("v", Outcome::Unknown, Source::Store, 0) });
    metrics.count(&Ended { near: true, ..call("w", Outcome::Admitted, Source::Shadow, 1) });
    metrics.set(Gauge::Keys, 3.0);
    metrics.set_of_node(Gauge::ClockOffsetSeconds, 1, -0.3);
    let told = parse(&render(&[metrics]));
    for (name, with, value) in [
        ("rate_limit_allowed_total", &[("user", "u"), ("endpoint", "/search")][..], 1.0),
        ("rate_limit_allowed_total", &[("user", "v")], 1.0),
        ("rate_limit_denied_total", &[], 2.0),
        ("rate_limit_allowed_total", &[], 3.0),
        ("rate_limit_shadow_denied_total", &[], 1.0),
        ("rate_limit_near_limit_total", &[("user", "w")], 1.0),
        ("rate_limit_fallback_total", &[("reason", "fail-open")], 1.0),
        ("rate_limit_fallback_total", &[("reason", "fail-closed")], 1.0),
        ("rate_limit_fallback_total", &[], 2.0),
        ("rate_limit_undecided_total", &[("outcome", "failed")], 1.0),
        ("rate_limit_undecided_total", &[("outcome", "unknown")], 1.0),
        ("rate_limit_redis_latency_seconds_bucket", &[("le", "0.0025")], 1.0),
        ("rate_limit_redis_latency_seconds_bucket", &[("le", "0.005")], 2.0),
        ("rate_limit_redis_latency_seconds_bucket", &[("le", "0.05")], 3.0),
        ("rate_limit_redis_latency_seconds_bucket", &[("le", "10")], 4.0),
        ("rate_limit_redis_latency_seconds_count", &[("limiter", "a")], 5.0),
        ("rate_limit_keys", &[], 3.0),
        ("rate_limit_clock_offset_seconds", &[("node", "1")], -0.3),
    ] {
        assert_eq!(sum(&told, name, with), value, "{name} {with:?}");
    }
    assert!((sum(&told, "rate_limit_redis_latency_seconds_sum", &[]) - 20.063).abs() < 1e-9);
    assert!(!told.keys().any(|(name, _)| name == "rate_limit_memory_bytes"), "nobody weighed them");
}

#[test]
fn any_name_is_written_so_that_it_is_read_back() {
    let nasty = "a \"b\" \\ \n{c=\"d\"} é";
    let mut metrics = Metrics::of(vec![("limiter", nasty.to_owned()), ("policy", String::new())]);
    metrics.count(&call(nasty, Outcome::Admitted, Source::Store, 1));
    let told = parse(&render(&[metrics]));
    assert_eq!(sum(&told, "rate_limit_allowed_total", &[("user", nasty), ("limiter", nasty)]), 1.0);
}

#[test]
fn there_are_never_more_series_than_users_that_have_their_own() {
    let mut metrics = Metrics::default();
    for n in 0..MOST_USERS * 10 {
        metrics.count(&call(&format!("user:{n}"), Outcome::Admitted, Source::Store, 1));
    }
    metrics.count(&call(&"k".repeat(1 << 16), Outcome::Denied, Source::Store, 1));
    metrics.count(&call("user:0", Outcome::Admitted, Source::Store, 1));
    let told = parse(&render(&[metrics]));
    let series = told.keys().filter(|(name, _)| name == "rate_limit_allowed_total").count();
    assert_eq!(series, MOST_USERS + 1);
    assert_eq!(sum(&told, "rate_limit_allowed_total", &[]), (MOST_USERS * 10 + 1) as f64);
    assert_eq!(sum(&told, "rate_limit_allowed_total", &[("user", "user:0")]), 2.0);
    assert_eq!(sum(&told, "rate_limit_allowed_total", &[("user", OTHERS)]), (MOST_USERS * 9) as f64);
    assert!(render(&[Metrics::default()]).len() < 10_000);
}

#[test]
fn limiters_that_bear_the_same_names_stay_apart() {
    let mut metrics = Metrics::of(vec![("limiter", "a".to_owned())]);
    metrics.count(&call("u", Outcome::Admitted, Source::Store, 1));
    let text = render(&[metrics.clone(), metrics.clone(), metrics]);
    let told = parse(&text);
    assert_eq!(sum(&told, "rate_limit_allowed_total", &[("number", "3")]), 1.0);
    assert_eq!(sum(&told, "rate_limit_allowed_total", &[]), 3.0);
}

/// Every recorded history: what its cells counted, call by call, is what their metrics say.
#[test]
fn metrics_count_what_the_history_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/histories");
    let mut calls = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let history = analyze::read(&entry.path()).unwrap();
        let metrics: Vec<Metrics> = history.cells.iter().map(Metrics::of_cell).collect();
        let told = parse(&render(&metrics));
        let ops = || history.cells.iter().flat_map(|c| &c.rounds).flat_map(|r| &r.ops);
        let count = |of: &dyn Fn(Outcome, Option<Source>) -> bool| {
            ops().filter(|op| of(op.outcome, op.source)).count() as f64
        };
        assert_eq!(sum(&told, "rate_limit_allowed_total", &[]), count(&|o, _| o == Outcome::Admitted));
        assert_eq!(sum(&told, "rate_limit_denied_total", &[]), count(&|o, _| o == Outcome::Denied));
        let undecided = count(&|o, _| matches!(o, Outcome::Failed | Outcome::Unknown));
        assert_eq!(sum(&told, "rate_limit_undecided_total", &[]), undecided);
        for source in [Source::FailOpen, Source::FailClosed, Source::Fallback] {
            let told = sum(&told, "rate_limit_fallback_total", &[("reason", source.name())]);
            assert_eq!(told, count(&|_, s| s == Some(source)));
        }
        calls += ops().count();
    }
    assert!(calls > 2000, "{calls}");
}

#[tokio::test]
async fn a_run_leaves_its_metrics() {
    if !usable("local").await {
        return;
    }
    let lab = Lab::new();
    let args = ["race", "--limiters", "get-then-incr,fixed-window-lua", "--rounds", "2", "--format", "json"];
    let report = lab.run(&[&args[..], &["--backend", "local"]].concat()).report();
    let text = std::fs::read_to_string(lab.runs()[0].join("metrics.prom")).unwrap();
    let told = parse(&text);
    for cell in &report.cells {
        let with = [("scenario", "race"), ("limiter", cell.limiter.as_str()), ("endpoint", LIMITED)];
        let admitted: u64 = cell.rounds.iter().map(|r| r.admitted).sum();
        let denied: u64 = cell.rounds.iter().map(|r| r.denied).sum();
        assert_eq!(sum(&told, "rate_limit_allowed_total", &with), admitted as f64);
        assert_eq!(sum(&told, "rate_limit_denied_total", &with), denied as f64);
        let of_user = [("limiter", cell.limiter.as_str()), ("user", "user")];
        assert_eq!(sum(&told, "rate_limit_allowed_total", &of_user), admitted as f64);
        let of = [("limiter", cell.limiter.as_str())];
        assert_eq!(sum(&told, "rate_limit_keys", &of), 1.0);
        assert_eq!(sum(&told, "rate_limit_redis_evicted_keys", &of), 0.0);
        // The first calls find no script; who uses none never asks for one.
        let asked_for_none = sum(&told, "rate_limit_redis_noscript", &of) == 0.0;
        assert_eq!(asked_for_none, cell.limiter == "get-then-incr");
        let waited = sum(&told, "rate_limit_redis_latency_seconds_count", &[("limiter", &cell.limiter)]);
        assert_eq!(waited, 400.0);
    }
}
