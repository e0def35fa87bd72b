//! How fast the checkers judge, and in how much memory: histories made in memory, every checker of
//! `checkers::ALL`, no server and no file.
//!
//! `make bench`, or `cargo bench --bench checkers -- [NAME…]` with parts of the names of the table. How judging
//! grows is measured for the cases that grow worst, or with `--growth` for all: ten million calls take their
//! time to make. `--each` tells what each checker took of each case.
//!
//! Exits 1 if a bound is missed: a million calls judged by all checkers together within a second, ten million by
//! each and by all together in at most 13 times what one million takes, and at most 72 bytes per call beside the
//! calls, as they are taken from the allocator: what is reserved counts, touched or not. A cell is judged as a
//! run judges it: one checker after the other, what one has grouped at hand for the next. All of it is repeated,
//! the sizes in turn, and the best counts; where a time is missed, more often.
//!
//! A checker runs on one thread, and the CPU time of that thread is held to the bounds, the kernel's work for it
//! included: on a busy machine the time by the clock, told beside it, measures the neighbours as well. Where
//! nothing else runs the two are the same. Neighbours also take cache and bandwidth, which no clock leaves out.

#![expect(clippy::disallowed_methods, reason = "the exit code of a bench is its answer")]

#[path = "shared/allocations.rs"]
mod allocations;
#[path = "checkers/cases.rs"]
mod cases;
#[path = "checkers/limiter.rs"]
mod limiter;
#[path = "checkers/meter.rs"]
mod meter;
#[path = "checkers/synthesis.rs"]
mod synthesis;

use rl_lab::checkers;
use rl_lab::model::history::Cell;
use rl_lab::model::indexed::IndexedCell;
use rl_lab::model::verdict::Verdict;

use cases::{CASES, Case, Twist};
use meter::{Memory, Time};
use synthesis::cell;

const MILLION: usize = 1_000_000;
const MOST_SECONDS: f64 = 1.0;
const MOST_RATIO: f64 = 13.0;
/// The record itself takes 56 for a call.
const MOST_BYTES: f64 = 72.0;
/// Of each size in turn: whatever else runs on the machine only ever adds. As long as a time is missed there are
/// more tries, for either size, up to the most.
const TRIES: usize = 2;
const MOST_TRIES: usize = 8;
/// A nanosecond per call. What takes less of ten million looks at a few of them, and has no ratio.
const LEAST_SECONDS: f64 = 0.01;

struct Wanted {
    names: Vec<String>,
    growth: bool,
    each: bool,
}

impl Wanted {
    fn has(&self, case: &Case) -> bool {
        self.names.is_empty() || self.names.iter().any(|w| case.name.contains(w.as_str()))
    }
}

fn main() {
    let given = |flag: &str| std::env::args().any(|a| a == flag);
    let names = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = Wanted { names, growth: given("--growth"), each: given("--each") };
    println!(
        "{:<41} {:>6} {:>6} {:>6} {:>7} {:>6} {:>6} {:>8} {:>5}",
        "all checkers together", "clock", "10^6 s", "clock", "10^7 s", "ratio", "worst", "bytes/op", "tries"
    );
    let (mut all, mut missed): (Vec<Measured>, Vec<&str>) = (Vec::new(), Vec::new());
    for case in CASES.iter().filter(|case| wanted.has(case)) {
        let measured = measure(case, wanted.growth || case.grows());
        let objections = measured.objections();
        println!("{}  {}", measured.row(), if objections.is_empty() { "ok" } else { "MISSED" });
        objections.iter().for_each(|what| println!("    missed: {what}"));
        if wanted.each {
            measured.each.iter().for_each(|each| println!("    {}", each.row()));
        }
        if !objections.is_empty() {
            missed.push(case.name);
        }
        all.push(measured);
    }
    for checker in checkers::ALL {
        by_checker(checker.name(), &all);
    }
    let grown = all.iter().filter(|m| m.ten.is_some()).count();
    println!(
        "{} cases, {grown} of them at both sizes; missed by {}: {}",
        all.len(),
        missed.len(),
        missed.join("; ")
    );
    // Nothing measured is no bound kept.
    std::process::exit(i32::from(!missed.is_empty() || all.is_empty()));
}

/// The worst that a checker came to.
fn by_checker(name: &str, all: &[Measured]) {
    let own = || all.iter().flat_map(|m| m.each.iter().filter(|e| e.checker == name).map(|e| (m.name, e)));
    let slowest = own().max_by(|a, b| a.1.one.cpu.total_cmp(&b.1.one.cpu));
    if let Some((case, each)) = slowest {
        print!("{name:<27} at most {:.3} s of 10^6 ({case})", each.one.cpu);
    }
    let ratios = own().filter_map(|(case, each)| Some((case, each.ratio()?)));
    if let Some((case, ratio)) = ratios.max_by(|a, b| a.1.total_cmp(&b.1)) {
        print!(", ratio {ratio:.1} ({case})");
    }
    println!();
}

/// A case, judged by all checkers.
struct Measured {
    name: &'static str,
    one: Time,
    ten: Option<Time>,
    each: Vec<Each>,
    tries: usize,
}

/// What one checker of them took.
struct Each {
    checker: &'static str,
    verdict: Verdict,
    one: Time,
    ten: Option<Time>,
    /// The most that was in use beside the history, per call.
    bytes: f64,
}

impl Each {
    /// Of two tries.
    fn or_better(self, other: Self) -> Self {
        assert_eq!(self.verdict, other.verdict, "{}", self.checker);
        Self { one: self.one.least(other.one), ten: self.ten.zip(other.ten).map(|(a, b)| a.least(b)), ..self }
    }

    fn ratio(&self) -> Option<f64> {
        self.ten.filter(|ten| ten.cpu >= LEAST_SECONDS).map(|ten| ten.cpu / self.one.cpu)
    }

    fn row(&self) -> String {
        let ten = self.ten.map_or(String::new(), |ten| format!("{:.3}", ten.cpu));
        let ratio = self.ratio().map_or(String::new(), |ratio| format!("{ratio:.1}"));
        let Self { checker, one, bytes, .. } = self;
        let verdict = self.verdict.name();
        format!("{checker:<27} {:>7.3} {ten:>7} {ratio:>6} {bytes:>6.1}  {verdict}", one.cpu)
    }
}

impl Measured {
    fn or_better(self, other: Self) -> Self {
        Self {
            one: self.one.least(other.one),
            ten: self.ten.zip(other.ten).map(|(a, b)| a.least(b)),
            each: self.each.into_iter().zip(other.each).map(|(a, b)| a.or_better(b)).collect(),
            ..self
        }
    }

    fn ratio(&self) -> Option<f64> {
        self.ten.map(|ten| ten.cpu / self.one.cpu)
    }

    fn worst(&self) -> Option<(&'static str, f64)> {
        let ratios = self.each.iter().filter_map(|each| Some((each.checker, each.ratio()?)));
        ratios.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn bytes(&self) -> f64 {
        self.each.iter().map(|each| each.bytes).fold(0.0, f64::max)
    }

    fn row(&self) -> String {
        let told =
            |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |v| format!("{v:.digits$}"));
        format!(
            "{:<41} {:>6.3} {:>6.3} {:>6} {:>7} {:>6} {:>6} {:>8.1} {:>5}",
            self.name,
            self.one.clock,
            self.one.cpu,
            told(self.ten.map(|ten| ten.clock), 2),
            told(self.ten.map(|ten| ten.cpu), 2),
            told(self.ratio(), 1),
            told(self.worst().map(|(_, ratio)| ratio), 1),
            self.bytes(),
            self.tries
        )
    }

    /// The bounds that it misses.
    fn objections(&self) -> Vec<String> {
        let mut all = self.too_slow();
        for each in self.each.iter().filter(|each| each.bytes > MOST_BYTES) {
            all.push(format!("{}: {:.1} bytes per call, {MOST_BYTES} allowed", each.checker, each.bytes));
        }
        all
    }

    /// Those of them that another try may find kept.
    fn too_slow(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.one.cpu > MOST_SECONDS {
            all.push(format!("{:.3} s of a million calls, {MOST_SECONDS} allowed", self.one.cpu));
        }
        if let Some(ratio) = self.ratio().filter(|ratio| *ratio > MOST_RATIO) {
            all.push(format!("ten million take {ratio:.1} times as long, {MOST_RATIO} allowed"));
        }
        let grown = self.each.iter().filter_map(|each| Some((each.checker, each.ratio()?)));
        for (checker, ratio) in grown.filter(|(_, ratio)| *ratio > MOST_RATIO) {
            all.push(format!("{checker} takes {ratio:.1} times as long of ten million"));
        }
        all
    }
}

fn measure(case: &Case, growth: bool) -> Measured {
    let mut cells = vec![cell(case, MILLION)];
    cells.extend(growth.then(|| cell(case, 10 * MILLION)));
    let mut best: Option<Measured> = None;
    for tries in 1..=MOST_TRIES {
        let once = judged(case, &cells);
        let all = match best.take() {
            None => once,
            Some(before) => before.or_better(once),
        };
        let enough = tries >= TRIES && all.too_slow().is_empty();
        best = Some(Measured { tries, ..all });
        if enough {
            break;
        }
    }
    let measured = best.expect("at least one try");
    expected(case, &measured.each);
    measured
}

/// One try: each size by all checkers, one after the other.
fn judged(case: &Case, cells: &[Cell]) -> Measured {
    let mut sizes = cells.iter().map(|cell| {
        let memory = Memory::before();
        // What is kept of the cell is in use from the first checker that asks for it to the last.
        let mut indexed = None;
        let each = checkers::ALL.iter().map(|checker| {
            memory.forget_peak();
            let began = Time::now();
            let found = checker.judge_indexed(indexed.get_or_insert_with(|| IndexedCell::of(cell)));
            let one = Time::now().since(began);
            let bytes = memory.grown() / ops(cell) as f64;
            Each { checker: checker.name(), verdict: found.verdict, one, ten: None, bytes }
        });
        let each: Vec<Each> = each.collect();
        let one = each.iter().fold(Time::default(), |sum, each| sum.and(each.one));
        Measured { name: case.name, one, ten: None, each, tries: 1 }
    });
    let one = sizes.next().expect("a million is always judged");
    let Some(ten) = sizes.next() else { return one };
    let each = one.each.into_iter().zip(ten.each).map(|(one, ten)| {
        let same = one.verdict == ten.verdict;
        assert!(same, "{}: {}: one verdict on a million, another on ten", case.name, one.checker);
        Each { ten: Some(ten.one), ..one }
    });
    Measured { each: each.collect(), ten: Some(ten.one), ..one }
}

fn ops(cell: &Cell) -> usize {
    cell.rounds.iter().map(|r| r.ops.len()).sum()
}

/// A bench of checkers that err would be a bench of nothing.
fn expected(case: &Case, each: &[Each]) {
    for Each { checker, verdict, .. } in each {
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
