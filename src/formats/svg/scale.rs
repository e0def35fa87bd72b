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

    proptest! {
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
