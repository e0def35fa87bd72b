//! What is wrong with the link as a whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// How long the way to the store takes on top, for each piece of the stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latency {
    pub least: Duration,
    /// At most so much more, evenly spread.
    pub jitter: Duration,
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    black_hole: bool,
    latency: Option<Latency>,
}

pub struct Link {
    state: watch::Sender<State>,
    /// Counts what was drawn, so that a seed gives the same delays in the same order.
    drawn: AtomicU64,
}

impl Default for Link {
    fn default() -> Self {
        Self { state: watch::Sender::new(State::default()), drawn: AtomicU64::new(0) }
    }
}

impl Link {
    pub fn is_black_hole(&self) -> bool {
        self.state.borrow().black_hole
    }

    pub fn set_black_hole(&self, on: bool) {
        self.state.send_modify(|state| state.black_hole = on);
    }

    pub fn set_latency(&self, latency: Option<Latency>) {
        self.drawn.store(0, Ordering::Relaxed);
        self.state.send_modify(|state| state.latency = latency);
    }

    /// The delay of the next piece.
    pub fn delay(&self) -> Option<Duration> {
        let latency = self.state.borrow().latency?;
        let n = self.drawn.fetch_add(1, Ordering::Relaxed);
        let share = mix(latency.seed.wrapping_add(n)) >> 32;
        let jitter = u64::try_from(latency.jitter.as_nanos()).unwrap_or(u64::MAX);
        let more = (u128::from(jitter) * u128::from(share)) >> 32;
        Some(latency.least + Duration::from_nanos(u64::try_from(more).unwrap_or(u64::MAX)))
    }

    /// Returns when nothing is swallowed: the end of a stream does not come through a black hole either.
    pub async fn clear(&self) {
        // The sender is ours, so this ends only by the condition.
        let _ = self.state.subscribe().wait_for(|state| !state.black_hole).await;
    }
}

/// splitmix64 of the n-th state (Steele, Lea, Flood 2014).
fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_delays_again_within_their_bounds() {
        let draw = |seed| {
            let link = Link::default();
            let (least, jitter) = (Duration::from_millis(10), Duration::from_millis(4));
            link.set_latency(Some(Latency { least, jitter, seed }));
            (0..1000).map(|_| link.delay().unwrap()).collect::<Vec<_>>()
        };
        let delays = draw(1);
        assert_eq!(delays, draw(1));
        assert_ne!(delays, draw(2));
        let (low, high) =
            (delays.iter().min().unwrap().as_micros(), delays.iter().max().unwrap().as_micros());
        assert!((10_000..10_200).contains(&low) && (13_800..14_001).contains(&high), "{low} {high}");
        assert_eq!(Link::default().delay(), None);
    }
}
