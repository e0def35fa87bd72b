//! Intervals in order of their ends, from intervals in order of their beginnings.
//!
//! Of calls that are recorded as they begin, only those that are open at the same time can end in
//! another order. They are sorted in batches, each cut off where nothing that begins later can end
//! before it: O(n log k) for k open at a time, in a cache's reach, and O(n log n) if all are.

use super::units::Nanos;

/// As many as are worth a look; a batch is at least twice what the last one left over. Small, so that to sort one
/// takes no longer where more calls belong together.
const BATCH: usize = 128;

/// Puts `items` in order of their ends. They come in order of their beginnings, the n-th at
/// `begins(n)`, and none ends before it begins.
pub fn by_end<T>(items: &mut [T], begins: impl Fn(usize) -> Nanos, ends: impl Fn(&T) -> Nanos) {
    if items.is_sorted_by_key(&ends) {
        return;
    }
    let mut settled = 0;
    let mut enough = BATCH;
    for n in 0..items.len() {
        if n - settled < enough {
            continue;
        }
        // Whatever begins from here on ends no earlier than this.
        let now = begins(n);
        let mut over = settled;
        for at in settled..n {
            if ends(&items[at]) <= now {
                items.swap(at, over);
                over += 1;
            }
        }
        items[settled..over].sort_unstable_by_key(&ends);
        settled = over;
        enough = BATCH + 2 * (n - settled);
    }
    items[settled..].sort_unstable_by_key(&ends);
}

/// How many intervals are open at the same moment, at most. They come as beginning and end, in order of
/// their beginnings; one that ends as another begins does not overlap it.
///
/// Only what is still open is kept, and put in order in batches: O(n log k) for k open at a time.
pub fn most_open(intervals: impl Iterator<Item = (Nanos, Nanos)>) -> usize {
    let mut intervals = intervals.peekable();
    let (mut begun, mut ends) = (Vec::new(), Vec::new());
    let mut most = 0;
    while intervals.peek().is_some() {
        let enough = BATCH + 2 * ends.len();
        begun.clear();
        for (begin, end) in intervals.by_ref().take(enough) {
            begun.push(begin);
            ends.push(end);
        }
        ends.sort_unstable();
        // Of the ends in order those of a batch come after its beginnings, one by one.
        let before = ends.len() - begun.len();
        let mut over = 0;
        for (n, begin) in begun.iter().enumerate() {
            while ends[over] <= *begin {
                over += 1;
            }
            most = most.max(before + n + 1 - over);
        }
        ends.drain(..over);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counted at each beginning.
    fn by_definition(spans: &[(i64, i64)]) -> usize {
        let open_at = |at| spans.iter().filter(|(begin, end)| *begin <= at && at < *end).count();
        spans.iter().map(|(begin, _)| open_at(*begin)).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn as_many_are_open_as_the_definition_counts(
            calls in prop::collection::vec((0i64..3, 1i64..4), 0..3000), longest in 1i64..4000,
        ) {
            let mut now = 0;
            let spans: Vec<(i64, i64)> = calls
                .into_iter()
                .map(|(gap, length)| {
                    now += gap;
                    (now, now + 1 + length * longest / 3)
                })
                .collect();
            let intervals = spans.iter().map(|(begin, end)| (Nanos(*begin), Nanos(*end)));
            prop_assert_eq!(most_open(intervals), by_definition(&spans));
        }

        #[test]
        fn the_ends_come_in_order_and_none_is_lost(
            calls in prop::collection::vec((0i64..3, 0i64..4), 0..6000), longest in 1i64..4000,
        ) {
            let mut now = 0;
            let spans: Vec<(i64, i64)> = calls
                .into_iter()
                .map(|(gap, length)| {
                    now += gap;
                    (now, now + length * longest / 3)
                })
                .collect();
            let mut places: Vec<usize> = (0..spans.len()).collect();
            by_end(&mut places, |n| Nanos(spans[n].0), |at| Nanos(spans[*at].1));
            prop_assert!(places.is_sorted_by_key(|at| spans[*at].1));
            places.sort_unstable();
            prop_assert!(places.iter().enumerate().all(|(n, at)| n == *at) && places.len() == spans.len());
        }
    }
}
