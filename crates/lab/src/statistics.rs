//! Correlation, impartiality and normalised coverage.

use serde::{Deserialize, Serialize};

use crate::random::{Purpose, generator};

/// The quantile of the normal distribution that 95 % confidence intervals reach to on both sides.
const Z_95: f64 = 1.959_963_984_540_054;

/// A correlation, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correlation {
    /// Pearson's coefficient.
    pub r: f64,
    /// The 95 % confidence interval by Fisher's transformation; `None` for fewer than four pairs.
    pub interval: Option<(f64, f64)>,
}

/// Pearson's correlation of pairs; `None` where a side is constant, or there are fewer than two.
///
/// ```
/// let found = npcov_lab::pearson(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0]).unwrap();
/// assert!((found.r - 0.6).abs() < 1e-12);
/// assert_eq!(npcov_lab::pearson(&[1.0, 2.0], &[3.0, 3.0]), None);
/// ```
pub fn pearson(x: &[f64], y: &[f64]) -> Option<Correlation> {
    let n = x.len().min(y.len());
    let (x, y) = (&x[..n], &y[..n]);
    let constant = |list: &[f64]| list.iter().all(|value| *value == list[0]);
    if n < 2 || constant(x) || constant(y) {
        return None;
    }
    let mean = |list: &[f64]| list.iter().sum::<f64>() / n as f64;
    let (mean_x, mean_y) = (mean(x), mean(y));
    let moment = |a: &[f64], b: &[f64], (ma, mb): (f64, f64)| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum()
    };
    let both = moment(x, y, (mean_x, mean_y));
    let spread = (moment(x, x, (mean_x, mean_x)) * moment(y, y, (mean_y, mean_y))).sqrt();
    let r = (both / spread).clamp(-1.0, 1.0);
    r.is_finite().then(|| Correlation {
        r,
        interval: fisher(r, n),
    })
}

/// `atanh r` is almost normal, with a standard deviation of `1 / sqrt(n - 3)`.
fn fisher(r: f64, n: usize) -> Option<(f64, f64)> {
    if n < 4 {
        return None;
    }
    let reach = Z_95 / ((n - 3) as f64).sqrt();
    let end = |z: f64| match r.abs() < 1.0 {
        true => (r.atanh() + z).tanh(),
        false => r,
    };
    Some((end(-reach), end(reach)))
}

/// Spearman's correlation: that of ranks, equal numbers having the mean of theirs. A few pairs that
/// are far from all others have no more weight in it than any.
///
/// ```
/// // One outlier makes Pearson's correlation, and not this one.
/// let (x, y) = ([1.0, 2.0, 3.0, 4.0, 90.0], [4.0, 3.0, 2.0, 1.0, 99.0]);
/// assert!(npcov_lab::pearson(&x, &y).unwrap().r > 0.9);
/// assert_eq!(npcov_lab::spearman(&x, &y), Some(0.0));
/// ```
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    let n = x.len().min(y.len());
    pearson(&ranks(&x[..n]), &ranks(&y[..n])).map(|found| found.r)
}

/// A 95 % interval of Spearman's correlation, by the percentiles of 1,000 bootstrap samples of the pairs. Unlike
/// Fisher's it knows nothing of how numbers are distributed. `None` where fewer than half of the samples have a
/// correlation.
///
/// ```
/// let (x, y): (Vec<f64>, Vec<f64>) = (0..30).map(|i| (f64::from(i), f64::from(i % 7))).unzip();
/// let (low, high) = npcov_lab::spearman_interval(&x, &y, 0).unwrap();
/// let found = npcov_lab::spearman(&x, &y).unwrap();
/// assert!(low < found && found < high);
/// ```
pub fn spearman_interval(x: &[f64], y: &[f64], seed: u64) -> Option<(f64, f64)> {
    const SAMPLES: usize = 1000;
    let n = x.len().min(y.len());
    let mut generator = generator(seed, Purpose::Bootstrap, 0);
    let mut found: Vec<f64> = (0..SAMPLES)
        .filter_map(|_| {
            let mut draw = || generator.below(n as u64) as usize;
            let pairs = (0..n).map(|_| draw()).map(|i| (x[i], y[i]));
            let (x, y): (Vec<f64>, Vec<f64>) = pairs.unzip();
            spearman(&x, &y)
        })
        .collect();
    if found.len() < SAMPLES / 2 {
        return None;
    }
    found.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| found[((found.len() - 1) as f64 * share).round() as usize];
    Some((at(0.025), at(0.975)))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let less = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        less as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// How evenly predictions are spread over the classes: their entropy over that of an even spread,
/// from 0 to 1. `counts` has the predictions of each class.
///
/// The paper prints a denominator of `(1/n) log(1/n)`, which makes it `n` times larger; a correlation
/// does not change by that.
///
/// ```
/// assert!((npcov_lab::impartiality(&[3, 3, 3]) - 1.0).abs() < 1e-12);
/// assert_eq!(npcov_lab::impartiality(&[9, 0, 0]), 0.0);
/// ```
pub fn impartiality(counts: &[usize]) -> f64 {
    let all: usize = counts.iter().sum();
    if all == 0 || counts.len() < 2 {
        return 0.0;
    }
    // Summed in ascending order: which class is which does not matter.
    let mut counts = counts.to_vec();
    counts.sort_unstable();
    let share = |&count: &usize| count as f64 / all as f64;
    let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    let entropy: f64 = counts.iter().map(share).map(term).sum();
    (entropy / (counts.len() as f64).ln()).clamp(0.0, 1.0)
}

/// How coverage changes from the first of some suites, over the range of those changes. All zero
/// where nothing changes.
///
/// ```
/// let found = npcov_lab::normalised(&[0.10, 0.08, 0.13]);
/// assert!((found[1] + 0.4).abs() < 1e-12 && (found[2] - 0.6).abs() < 1e-12);
/// ```
pub fn normalised(coverage: &[f64]) -> Vec<f64> {
    changes_over(coverage, spread(coverage))
}

/// The range of changes from the first, which is the range of numbers.
pub(crate) fn spread(coverage: &[f64]) -> f64 {
    let largest = coverage.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = coverage.iter().copied().fold(f64::INFINITY, f64::min);
    if coverage.is_empty() {
        0.0
    } else {
        largest - least
    }
}

/// Changes from the first over some range.
pub(crate) fn changes_over(coverage: &[f64], range: f64) -> Vec<f64> {
    let Some(&first) = coverage.first() else {
        return Vec::new();
    };
    let change = |c: &f64| match range > 0.0 {
        true => (c - first) / range,
        false => 0.0,
    };
    coverage.iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    }

    #[test]
    fn worked_cases_of_impartiality() {
        close(impartiality(&[5; 10]), 1.0);
        let mut two = [0; 10];
        (two[3], two[7]) = (4, 4);
        close(impartiality(&two), std::f64::consts::LOG10_2);
        let mut one = [0; 10];
        one[2] = 8;
        close(impartiality(&one), 0.0);
        close(impartiality(&[7, 1, 2]), 0.729_846_7);
        assert_eq!([impartiality(&[]), impartiality(&[3])], [0.0, 0.0]);
        assert_eq!(impartiality(&[0, 0]), 0.0);
    }

    #[test]
    fn worked_cases_of_correlation() {
        let found = pearson(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0]).unwrap();
        close(found.r, 0.6);
        // atanh 0.6 = ln 2, and one standard deviation is 1.
        let (low, high) = found.interval.unwrap();
        close(low, (std::f64::consts::LN_2 - 1.959_964).tanh());
        close(high, (std::f64::consts::LN_2 + 1.959_964).tanh());
        assert_eq!(pearson(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(pearson(&[1.0, 2.0, 3.0], &[0.1, 0.1, 0.1]), None);
        assert_eq!(pearson(&[1.0], &[1.0]), None);
        let line = pearson(&[1.0, 2.0, 3.0, 4.0], &[2.0, 4.0, 6.0, 8.0]).unwrap();
        assert_eq!((line.r, line.interval), (1.0, Some((1.0, 1.0))));
        let three = pearson(&[1.0, 2.0, 4.0], &[2.0, 1.0, 0.0]).unwrap();
        assert!(three.r < 0.0 && three.interval.is_none());
    }

    #[test]
    fn worked_cases_of_ranks() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 7.0]), [2.5, 1.0, 2.5, 4.0]);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[1.0, 8.0, 27.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[5.0, 5.0, 5.0]), None);
    }

    #[test]
    fn intervals_of_ranks_hold_the_correlation_and_shrink_with_pairs() {
        let pairs = |n: u32| -> (Vec<f64>, Vec<f64>) {
            let pair = |i: u32| (f64::from(i), f64::from(i + 17 * (i * i % 11)));
            (0..n).map(pair).unzip()
        };
        let interval = |(x, y): (Vec<f64>, Vec<f64>)| {
            let (low, high) = spearman_interval(&x, &y, 0).unwrap();
            let found = spearman(&x, &y).unwrap();
            assert!(low < found && found < high, "{low} {found} {high}");
            high - low
        };
        assert!(interval(pairs(100)) < interval(pairs(20)));
        let line = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(spearman_interval(&line, &line, 0), Some((1.0, 1.0)));
        assert_eq!(spearman_interval(&line, &[5.0; 4], 0), None);
        assert_eq!(spearman_interval(&[], &[], 0), None);
    }

    /// In one pass over sums, as textbooks also have it.
    #[test]
    fn correlation_follows_another_form_of_its_definition() {
        let x = [0.3, 0.1, 0.7, 0.65, 0.2, 0.5];
        let y = [1.0, 0.4, 0.9, 1.6, 0.1, 0.3];
        let n = x.len() as f64;
        let sum = |a: &[f64]| a.iter().sum::<f64>();
        let products = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let top = n * products(&x, &y) - sum(&x) * sum(&y);
        let side = |a: &[f64]| n * products(a, a) - sum(a).powi(2);
        let twin = top / (side(&x) * side(&y)).sqrt();
        close(pearson(&x, &y).unwrap().r, twin);
    }

    #[test]
    fn worked_cases_of_normalised_coverage() {
        let found = normalised(&[0.10, 0.08, 0.13]);
        for (found, expected) in found.iter().zip([0.0, -0.4, 0.6]) {
            close(*found, expected);
        }
        assert_eq!(normalised(&[0.5; 3]), [0.0; 3]);
        assert_eq!(normalised(&[]), [0.0; 0]);
    }
}
