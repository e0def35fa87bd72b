//! A stable sort by a number, in passes that each write to few places.

/// How many come before the first of which it is not so, and none after that: O(log) of the answer.
pub fn run<T>(items: &[T], same: impl Fn(&T) -> bool) -> usize {
    let mut most = 1;
    while items.get(most).is_some_and(&same) {
        most *= 2;
    }
    let from = most / 2;
    from + items[from..items.len().min(most)].partition_point(same)
}

/// Bits dealt out at a time: as many piles as a first-level cache and its table of pages hold the ends of.
const DIGIT: u32 = 8;

/// Sorts by a number: those of the same number stay as they were. Digit by digit from the lowest, so that
/// each pass writes to few places, however many numbers there are.
pub fn deal_out(order: &mut [u32], number: impl Fn(u32) -> u32) {
    let mut from: Vec<(u32, u32)> = order.iter().map(|at| (number(*at), *at)).collect();
    let most = from.iter().map(|(number, _)| *number).max().unwrap_or(0);
    let bits = u32::BITS - most.leading_zeros();
    let passes = bits.div_ceil(DIGIT);
    let mut to = vec![(0, 0); if passes > 0 { from.len() } else { 0 }];
    for pass in 0..passes {
        // Digits of about the same length: a pass over few piles costs as much as one over many.
        let (low, high) = (bits * pass / passes, bits * (pass + 1) / passes);
        let digit = |number: u32| (number >> low) as usize & ((1 << (high - low)) - 1);
        let mut next = [0u32; 1 << DIGIT];
        from.iter().for_each(|(number, _)| next[digit(*number)] += 1);
        let mut sum = 0;
        for place in &mut next {
            sum += std::mem::replace(place, sum);
        }
        for one in &from {
            let place = &mut next[digit(one.0)];
            to[*place as usize] = *one;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    order.iter_mut().zip(&from).for_each(|(order, (_, at))| *order = *at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Of numbers of any length, and of runs of any.
        #[test]
        fn what_is_dealt_out_is_sorted_and_stays_in_order(
            numbers in prop::collection::vec((any::<u32>(), 0u32..33), 0..600),
        ) {
            let numbers: Vec<u32> =
                numbers.into_iter().map(|(n, bits)| n & (u32::MAX.checked_shr(bits).unwrap_or(0))).collect();
            let mut dealt: Vec<u32> = (0..numbers.len() as u32).collect();
            let mut sorted = dealt.clone();
            deal_out(&mut dealt, |at| numbers[at as usize]);
            sorted.sort_by_key(|at| numbers[*at as usize]);
            prop_assert_eq!(&dealt, &sorted);
            if let Some(first) = sorted.first() {
                let same = |at: &u32| numbers[*at as usize] == numbers[*first as usize];
                prop_assert_eq!(run(&sorted, same), sorted.iter().take_while(|at| same(at)).count());
            }
        }
    }
}
