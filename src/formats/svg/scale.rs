//! The x axis of a chart: from a count to a pixel, and which counts get a tick.

/// Beyond this ratio between the largest count and the limit, a linear axis presses one of them
/// into a single pixel or two.
const TOO_FAR_APART: u64 = 50;

/// Pixels that a tick's text needs.
const TICKS_APART: i32 = 44;

#[derive(Debug, Clone, Copy)]
pub struct Scale {
    left: i32,
    width: i32,
    top: u64,
    logarithmic: bool,
}

impl Scale {
    /// An axis from 0 that shows all `counts` and all `limits`.
    pub fn new(counts: &[u64], limits: &[u64], left: i32, width: i32) -> Self {
        let most = counts.iter().copied().max().unwrap_or(0).max(1);
        let highest = limits.iter().copied().max().unwrap_or(0).max(1);
        let lowest = limits.iter().copied().min().unwrap_or(0).max(1);
        let logarithmic = most / lowest > TOO_FAR_APART || highest / most > TOO_FAR_APART;
        Self { left, width, top: most.max(highest), logarithmic }
    }

    pub fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    pub fn at(&self, count: u64) -> i32 {
        // log10(1 + n), so that a round that admitted nothing has a place too.
        let place = |n: u64| if self.logarithmic { (n as f64).ln_1p() } else { n as f64 };
        self.left + (f64::from(self.width) * place(count) / place(self.top)).round() as i32
    }

    pub fn ticks(&self) -> Vec<u64> {
        if self.logarithmic {
            let powers = (0..18).map(|e| 10u64.pow(e));
            let all = std::iter::once(0).chain(powers).take_while(|n| *n <= self.top);
            return all.fold(Vec::new(), |kept, tick| self.keep_apart(kept, tick));
        }
        let step = round_step(self.top);
        (0..).map(|i| i * step).take_while(|n| *n <= self.top).collect()
    }

    fn keep_apart(&self, mut kept: Vec<u64>, tick: u64) -> Vec<u64> {
        if kept.last().is_none_or(|last| self.at(tick) - self.at(*last) >= TICKS_APART) {
            kept.push(tick);
        }
        kept
    }
}

/// The same for amounts of any size: bytes, milliseconds, shares.
#[derive(Debug, Clone, Copy)]
pub struct Amounts {
    left: i32,
    width: i32,
    /// The amount at the left end, if the axis is logarithmic; else the axis begins at 0.
    lowest: Option<f64>,
    top: f64,
}

/// Beyond two decades the small amounts of a linear axis cannot be told apart.
const DECADES: f64 = 100.0;

impl Amounts {
    /// An axis that shows all `values`. One of 0 is at the left end.
    pub fn new(values: &[f64], left: i32, width: i32) -> Self {
        let above = || values.iter().copied().filter(|v| *v > 0.0);
        let top = above().fold(0.0, f64::max);
        let least = above().fold(f64::INFINITY, f64::min);
        let apart = top / least > DECADES;
        // A whole power below the least, so that its line has a length.
        let lowest = apart.then(|| 10f64.powf((least.log10() - 0.05).floor()));
        Self { left, width, lowest, top: if top > 0.0 { top } else { 1.0 } }
    }

    pub fn is_logarithmic(&self) -> bool {
        self.lowest.is_some()
    }

    pub fn at(&self, value: f64) -> i32 {
        let share = match self.lowest {
            Some(low) => (value.max(low) / low).ln() / (self.top / low).ln(),
            None => value / self.top,
        };
        self.left + (f64::from(self.width) * share.clamp(0.0, 1.0)).round() as i32
    }

    pub fn ticks(&self) -> Vec<f64> {
        let whole = |e: i32| if e < 0 { 1.0 / 10f64.powi(-e) } else { 10f64.powi(e) };
        let Some(low) = self.lowest else {
            let steps = (-6..18).flat_map(|e| [1.0, 2.0, 5.0].map(|m| (m, e)));
            let (m, e) =
                steps.into_iter().find(|(m, e)| self.top / (m * whole(*e)) <= 6.0).unwrap_or((1.0, 18));
            // Multiplied before it is divided: 3 × 0.1 is not 0.3.
            let tick =
                |n: i32| if e < 0 { f64::from(n) * m / 10f64.powi(-e) } else { f64::from(n) * m * whole(e) };
            return (0..).map(tick).take_while(|t| *t <= self.top).collect();
        };
        let first = low.log10().round() as i32;
        let all = (first..first + 24).map(whole).take_while(|t| *t <= self.top);
        let mut kept: Vec<f64> = Vec::new();
        for tick in all {
            if kept.last().is_none_or(|last| self.at(tick) - self.at(*last) >= TICKS_APART) {
                kept.push(tick);
            }
        }
        kept
    }
}

/// The smallest of 1, 2, 5, 10, 20, 50, … that gives at most six steps.
fn round_step(top: u64) -> u64 {
    let steps = (0..18).flat_map(|e| [1, 2, 5].map(|m| m * 10u64.pow(e)));
    steps.into_iter().find(|s| top / s <= 6).unwrap_or(top)
}

/// A tick's text; from 10 000 on in thousands, millions and so on, so that ticks stay apart.
pub fn short(count: u64) -> String {
    for (unit, name) in [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")] {
        if count >= 10_000 && count >= unit && count.is_multiple_of(unit / 10) {
            return format!("{}{name}", count as f64 / unit as f64);
        }
    }
    count.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_count_far_from_its_limit_gets_a_logarithmic_axis() {
        assert!(!Scale::new(&[10, 200], &[10], 0, 400).is_logarithmic());
        assert!(!Scale::new(&[2, 50], &[2], 0, 400).is_logarithmic());
        assert!(Scale::new(&[24_100], &[100], 0, 400).is_logarithmic());
        assert!(Scale::new(&[5], &[1_000], 0, 400).is_logarithmic());
    }

    #[test]
    fn amounts_more_than_two_decades_apart_get_a_logarithmic_axis() {
        assert!(!Amounts::new(&[0.0, 1.0, 100.0], 0, 400).is_logarithmic());
        let bytes = Amounts::new(&[96.0, 1_029_400.0], 0, 400);
        assert!(bytes.is_logarithmic() && bytes.at(0.0) == 0 && bytes.at(96.0) > 0);
        assert_eq!(bytes.ticks(), [10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!(Amounts::new(&[0.5], 0, 400).ticks(), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]);
        assert_eq!(Amounts::new(&[], 0, 400).ticks(), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
    }

    proptest! {
        #[test]
        fn an_axis_of_amounts_holds_every_one_in_order(
            mut values in proptest::collection::vec(0.0f64..1e9, 0..20),
        ) {
            let scale = Amounts::new(&values, 100, 400);
            values.sort_by(f64::total_cmp);
            let at: Vec<i32> = values.iter().map(|v| scale.at(*v)).collect();
            prop_assert!(at.is_sorted() && at.iter().all(|x| (100..=500).contains(x)));
            let ticks: Vec<i32> = scale.ticks().iter().map(|t| scale.at(*t)).collect();
            prop_assert!(ticks.windows(2).all(|w| w[1] - w[0] >= TICKS_APART), "{:?}", scale.ticks());
        }

        #[test]
        fn the_axis_holds_every_count_in_order(
            mut counts in proptest::collection::vec(0u64..1 << 53, 1..20),
            limit in 0u64..1 << 53,
        ) {
            let scale = Scale::new(&counts, &[limit], 100, 400);
            counts.sort_unstable();
            let at: Vec<i32> = counts.iter().map(|c| scale.at(*c)).collect();
            prop_assert!(at.is_sorted() && at[0] >= 100 && at[at.len() - 1] <= 500);
            let ticks: Vec<i32> = scale.ticks().iter().map(|t| scale.at(*t)).collect();
            prop_assert!(ticks.windows(2).all(|w| w[1] - w[0] >= TICKS_APART), "{:?}", scale.ticks());
            prop_assert!(scale.at(limit) <= 500);
        }
    }
}
