//! The rank-sum test of Wilcoxon, Mann and Whitney: whether two samples are of one source. It assumes no
//! distribution. Exact, ties included: of all ways to deal the ranks out, how many are as far from the middle.

/// A difference is told only if chance gives it this seldom. Five rounds against five come to 0.008 at best.
pub const P_AT_MOST: f64 = 0.01;

/// Beyond so many values of both together the distribution is taken for a normal one.
const EXACT_UP_TO: usize = 60;

/// The probability, on both sides together, that two samples of one source differ as much as these in their ranks.
/// 1 where one of them is empty.
pub fn p_value(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let ranks = doubled_ranks(a, b);
    if ranks.len() <= EXACT_UP_TO { exact(&ranks, a.len()) } else { normal(&ranks, a.len()) }
}

/// The least that [`p_value`] can come to for samples of these sizes.
pub fn least_p(n: usize, m: usize) -> f64 {
    // One dealing of n + m choose n on either side.
    let ways = (1..=n).fold(1.0, |ways, i| ways * (m + i) as f64 / i as f64);
    (2.0 / ways).min(1.0)
}

/// Twice the rank of each value, those of `a` first; equal values share the mean of theirs.
fn doubled_ranks(a: &[f64], b: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let rank = |value: &f64| {
        let below = all.iter().filter(|v| v.total_cmp(value).is_lt()).count();
        let equal = all.iter().filter(|v| v.total_cmp(value).is_eq()).count();
        2 * below + equal + 1
    };
    all.iter().map(rank).collect()
}

/// Counts, for every sum, how many choices of `n` ranks have it.
fn exact(ranks: &[usize], n: usize) -> f64 {
    let most: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0_f64; most + 1]; n + 1];
    ways[0][0] = 1.0;
    for (seen, rank) in ranks.iter().enumerate() {
        for chosen in (1..=n.min(seen + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(chosen);
            let (from, to) = (&fewer[chosen - 1], &mut more[0]);
            for sum in (*rank..=most).rev() {
                to[sum] += from[sum - rank];
            }
        }
    }
    let sum: usize = ranks[..n].iter().sum();
    // Distances from the middle, in whole numbers: the mean of the sum is n · most / N.
    let far = |s: usize| (s * ranks.len()).abs_diff(n * most);
    let total: f64 = ways[n].iter().sum();
    let as_far: f64 = (0..=most).filter(|s| far(*s) >= far(sum)).map(|s| ways[n][s]).sum();
    as_far / total
}

/// With the variance of tied ranks.
fn normal(ranks: &[usize], n: usize) -> f64 {
    let size = ranks.len() as f64;
    let mean = ranks.iter().sum::<usize>() as f64 / size;
    let variance = ranks.iter().map(|r| (*r as f64 - mean).powi(2)).sum::<f64>() / size;
    let (n, sum) = (n as f64, ranks[..n].iter().sum::<usize>() as f64);
    let deviation = (n * (size - n) / (size - 1.0) * variance).sqrt();
    if deviation == 0.0 {
        return 1.0;
    }
    let z = ((sum - n * mean).abs() / deviation).max(0.0);
    2.0 * upper_tail(z)
}

/// The share of a normal distribution beyond `z`; Abramowitz and Stegun 26.2.17, within 7.5e-8.
fn upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    series * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_of_the_test() {
        let up = |from: i32, n: i32| (from..from + n).map(f64::from).collect::<Vec<_>>();
        // 2 of 252 dealings are as far apart as 1..5 and 6..10.
        assert!((p_value(&up(1, 5), &up(6, 5)) - 2.0 / 252.0).abs() < 1e-12);
        assert!((least_p(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert!((p_value(&up(1, 3), &up(4, 3)) - 0.1).abs() < 1e-12);
        // 1 4 5 against 2 3 6: ranks 10 and 11 of a mean of 10.5.
        assert!((p_value(&[1.0, 4.0, 5.0], &[2.0, 3.0, 6.0]) - 1.0).abs() < 1e-12);
        assert_eq!(p_value(&[7.0; 4], &[7.0; 4]), 1.0);
        assert_eq!(p_value(&[], &[1.0]), 1.0);
    }

    #[test]
    fn ties_are_dealt_out_exactly() {
        // 10 10 10 10 10 against 10 10 10 10 11: in every second dealing the one is here or there.
        assert!((p_value(&[10.0; 5], &[10.0, 10.0, 10.0, 10.0, 11.0]) - 1.0).abs() < 1e-12);
        let p = p_value(&[10.0; 5], &[200.0; 5]);
        assert!((p - 2.0 / 252.0).abs() < 1e-12, "{p}");
    }

    #[test]
    fn both_ways_to_compute_it_agree_where_they_meet() {
        let a: Vec<f64> = (0..30).map(|i| f64::from(i * 7 % 31)).collect();
        let b: Vec<f64> = (0..30).map(|i| f64::from(i * 11 % 37) + 3.0).collect();
        let ranks = doubled_ranks(&a, &b);
        let (exact, normal) = (exact(&ranks, 30), normal(&ranks, 30));
        assert!((exact - normal).abs() < 0.01, "{exact} {normal}");
        assert!((upper_tail(1.959_964) - 0.025).abs() < 1e-6);
    }
}
