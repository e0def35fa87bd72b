//! Random choices from the run's seed: SplitMix64 (Steele, Lea, Flood, 2014).

use super::units::Seed;

pub struct Random(u64);

impl Random {
    pub fn new(seed: Seed) -> Self {
        Self(seed.0)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// 0..n in some order (Fisher–Yates).
    pub fn shuffled(&mut self, n: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n).collect();
        for i in (1..order.len()).rev() {
            let j = self.below(i as u64 + 1);
            order.swap(i, usize::try_from(j).unwrap_or(0));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_the_order_and_nobody_is_lost() {
        let shuffled = |seed| Random::new(Seed(seed)).shuffled(200);
        assert_eq!(shuffled(7), shuffled(7));
        assert_ne!(shuffled(7), shuffled(8));
        let mut all = shuffled(7);
        all.sort_unstable();
        assert_eq!(all, (0..200).collect::<Vec<_>>());
    }
}
