//! How fast the checkers judge, and in how much memory: histories made in memory, every checker of
//! `checkers::ALL`, no server and no file.
//!
//! `make bench`, or `cargo bench --bench checkers -- [NAME…]` with parts of the names of the table.
//! Exits 1 if a bound is missed: a million calls judged by all checkers together within a second, ten
//! million in at most 13 times what one takes, and at most 48 bytes per call beside the calls.

#![expect(clippy::disallowed_methods, reason = "the exit code of a bench is its answer")]

#[path = "checkers/synthesis.rs"]
mod synthesis;

use rl_lab::checkers;
use rl_lab::model::history::Cell;

use synthesis::{CASES, Case, cell};

const MILLION: usize = 1_000_000;
const MOST_SECONDS: f64 = 1.0;
const MOST_RATIO: f64 = 13.0;
const MOST_BYTES: f64 = 48.0;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let chosen = |case: &&Case| wanted.is_empty() || wanted.iter().any(|w| case.name.contains(w.as_str()));
    let mut fine = true;
    println!(
        "{:<46} {:>8} {:>8} {:>6} {:>9}",
        "case, all checkers together", "10^6 s", "10^7 s", "ratio", "bytes/op"
    );
    let mut slowest: Vec<(f64, String)> = Vec::new();
    for case in CASES.iter().filter(chosen) {
        let one = measure(case, MILLION, &mut slowest);
        let ten = measure(case, 10 * MILLION, &mut Vec::new());
        let ratio = ten.seconds / one.seconds;
        let bytes = one.bytes.max(ten.bytes);
        let kept = one.seconds <= MOST_SECONDS && ratio <= MOST_RATIO && bytes <= MOST_BYTES;
        fine &= kept;
        println!(
            "{:<46} {:>8.3} {:>8.3} {:>6.1} {:>9.1}  {}  {}",
            case.name,
            one.seconds,
            ten.seconds,
            ratio,
            bytes,
            if kept { "ok" } else { "MISSED" },
            one.verdicts
        );
    }
    slowest.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("slowest of 10^6:");
    for (seconds, name) in slowest.iter().take(8) {
        println!("  {seconds:.3} s  {name}");
    }
    std::process::exit(i32::from(!fine));
}

struct Measured {
    seconds: f64,
    /// The most any checker took beside the history, per call.
    bytes: f64,
    verdicts: String,
}

/// The best of a few, by the CPU's account: other processes only ever add.
fn measure(case: &Case, ops: usize, slowest: &mut Vec<(f64, String)>) -> Measured {
    let cell = cell(case, ops);
    let tries = if ops > MILLION { 2 } else { 3 };
    let (mut seconds, mut bytes, mut verdicts) = (0.0, 0.0f64, Vec::new());
    for checker in checkers::ALL {
        let mut best = f64::MAX;
        for _ in 0..tries {
            let before = Memory::begin();
            let began = cpu_seconds();
            let found = checker.judge(&cell);
            best = best.min(cpu_seconds() - began);
            bytes = bytes.max(before.grown() / ops as f64);
            if verdicts.last().is_none_or(|(name, _)| *name != checker.name()) {
                verdicts.push((checker.name(), found.verdict.name()));
            }
        }
        seconds += best;
        slowest.push((best, format!("{}: {}", case.name, checker.name())));
    }
    expected(case, &cell, &verdicts);
    let verdicts: Vec<String> = verdicts.iter().map(|(_, verdict)| (*verdict).to_owned()).collect();
    Measured { seconds, bytes, verdicts: verdicts.join(" ") }
}

/// A bench of checkers that err would be a bench of nothing.
fn expected(case: &Case, cell: &Cell, verdicts: &[(&str, &str)]) {
    let bound = verdicts.iter().find(|(name, _)| *name == "never-over-limit").map(|(_, verdict)| *verdict);
    assert_eq!(
        bound,
        Some(if case.violated { "fail" } else { "pass" }),
        "{}: {}",
        case.name,
        cell.rounds.len()
    );
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
    /// Forgets the peak so far.
    fn begin() -> Self {
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
