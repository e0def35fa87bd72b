//! How fast the checkers judge, and in how much memory: histories made in memory, every checker of
//! `checkers::ALL`, no server and no file.
//!
//! `make bench`, or `cargo bench --bench checkers -- [NAME…]` with parts of the names of the table. How judging
//! grows is measured for some cases, or with `--growth` for all: ten million calls take their time to make.
//! Exits 1 if a bound is missed: a million calls judged by all checkers together within a second, ten
//! million by each in at most 13 times what one takes, and at most 48 bytes per call beside the calls.

#![expect(clippy::disallowed_methods, reason = "the exit code of a bench is its answer")]

#[path = "checkers/cases.rs"]
mod cases;
#[path = "checkers/limiter.rs"]
mod limiter;
#[path = "checkers/synthesis.rs"]
mod synthesis;

use rl_lab::checkers;
use rl_lab::model::history::Cell;
use rl_lab::model::verdict::Verdict;
use rl_lab::ports::checker::Checker;

use cases::{CASES, Case, Twist};
use synthesis::cell;

const MILLION: usize = 1_000_000;
const MOST_SECONDS: f64 = 1.0;
const MOST_RATIO: f64 = 13.0;
const MOST_BYTES: f64 = 48.0;
/// Of each size in turn, and the best counts: whatever else runs on the machine only ever adds.
const TRIES: usize = 3;
/// A nanosecond per call. What takes less of ten million looks at a few of them, and has no ratio.
const LEAST_SECONDS: f64 = 0.01;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let chosen = |case: &&Case| wanted.is_empty() || wanted.iter().any(|w| case.name.contains(w.as_str()));
    let growth = std::env::args().any(|a| a == "--growth");
    let mut fine = true;
    println!(
        "{:<41} {:>7} {:>7} {:>6} {:>6} {:>9}",
        "all checkers together", "10^6 s", "10^7 s", "ratio", "worst", "bytes/op"
    );
    let mut all: Vec<(&str, Measured)> = Vec::new();
    for case in CASES.iter().filter(chosen) {
        let measured = measure(case, growth || case.grows());
        let sum = |of: fn(&Measured) -> f64| measured.iter().map(of).sum::<f64>();
        let most = |of: fn(&Measured) -> f64| measured.iter().map(of).fold(0.0, f64::max);
        let (one, ten) = (sum(|m| m.one), sum(|m| m.ten));
        let (ratio, bytes) = (most(Measured::ratio), most(|m| m.bytes));
        let kept = one <= MOST_SECONDS && ratio <= MOST_RATIO && bytes <= MOST_BYTES;
        fine &= kept;
        let kept = if kept { "ok" } else { "MISSED" };
        let verdicts: Vec<&str> = measured.iter().map(|m| m.verdict.name()).collect();
        println!(
            "{:<41} {one:>7.3} {ten:>7.3} {:>6.1} {ratio:>6.1} {bytes:>9.1}  {kept}  {}",
            case.name,
            ten / one,
            verdicts.join(" ")
        );
        all.extend(measured.into_iter().map(|m| (case.name, m)));
    }
    for checker in checkers::ALL {
        by_checker(*checker, &all);
    }
    std::process::exit(i32::from(!fine));
}

/// The worst that a checker came to.
fn by_checker(checker: &dyn Checker, all: &[(&str, Measured)]) {
    let worst = |of: fn(&Measured) -> f64| {
        let own = all.iter().filter(|(_, m)| m.checker == checker.name());
        own.max_by(|a, b| of(&a.1).total_cmp(&of(&b.1))).map(|(case, m)| (of(m), *case))
    };
    if let (Some(seconds), Some(ratio)) = (worst(|m| m.one), worst(Measured::ratio)) {
        println!(
            "{:<27} at most {:.3} s of 10^6 ({}), ratio {:.1} ({})",
            checker.name(),
            seconds.0,
            seconds.1,
            ratio.0,
            ratio.1
        );
    }
}

struct Measured {
    checker: &'static str,
    verdict: Verdict,
    /// Seconds for a million and for ten.
    one: f64,
    ten: f64,
    /// The most it took beside the history, per call.
    bytes: f64,
}

impl Measured {
    fn ratio(&self) -> f64 {
        if self.ten < LEAST_SECONDS { 0.0 } else { self.ten / self.one }
    }
}

fn measure(case: &Case, growth: bool) -> Vec<Measured> {
    let mut cells = vec![cell(case, MILLION)];
    cells.extend(growth.then(|| cell(case, 10 * MILLION)));
    let measured = checkers::ALL.iter().map(|checker| {
        let (mut seconds, mut bytes, mut verdicts) = ([f64::MAX, f64::MAX], 0.0f64, Vec::new());
        for _ in 0..TRIES {
            for (n, cell) in cells.iter().enumerate() {
                let (before, began) = (Memory::begin(), cpu_seconds());
                let found = checker.judge(cell);
                seconds[n] = seconds[n].min(cpu_seconds() - began);
                bytes = bytes.max(before.grown() / ops(cell) as f64);
                verdicts.push(found.verdict);
            }
        }
        verdicts.dedup();
        let [verdict] = verdicts[..] else { panic!("{}: {}: {verdicts:?}", case.name, checker.name()) };
        let ten = if growth { seconds[1] } else { 0.0 };
        Measured { checker: checker.name(), verdict, one: seconds[0], ten, bytes }
    });
    let measured: Vec<Measured> = measured.collect();
    expected(case, &measured);
    measured
}

fn ops(cell: &Cell) -> usize {
    cell.rounds.iter().map(|r| r.ops.len()).sum()
}

/// A bench of checkers that err would be a bench of nothing.
fn expected(case: &Case, measured: &[Measured]) {
    for Measured { checker, verdict, .. } in measured {
        let convicted = *verdict == Verdict::Fail;
        let right = match case.twist.convicted_by() {
            [] => !convicted,
            by => convicted || !by.contains(checker),
        };
        assert!(right, "{}: {checker}: {}", case.name, verdict.name());
        let bound = ["never-over-limit", "meets-requirement"].contains(checker);
        assert!(!bound || convicted == (case.twist == Twist::Leaks), "{}: {checker}", case.name);
    }
}

/// CPU time of this thread, on which all of a checker runs.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of this frame; the clock id is a constant of the system.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0;
    assert!(!failed, "the system tells a thread's CPU time");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Peak memory of this process, by the kernel's account.
struct Memory {
    kb: f64,
}

impl Memory {
    /// Forgets the peak so far, and gives back what was freed: memory that is there already would cost
    /// nothing, and that is had for a million calls sooner than for ten.
    fn begin() -> Self {
        #[cfg(target_env = "gnu")]
        // SAFETY: it takes no pointer, and gives back only what is not in use.
        unsafe {
            libc::malloc_trim(0);
        }
        std::fs::write("/proc/self/clear_refs", "5").expect("the kernel lets a process forget its peak");
        Self { kb: field("VmRSS:") }
    }

    /// Bytes by which the peak since then was above what there was.
    fn grown(&self) -> f64 {
        (field("VmHWM:") - self.kb).max(0.0) * 1024.0
    }
}

fn field(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(name));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok()).expect("a figure in kB")
}
