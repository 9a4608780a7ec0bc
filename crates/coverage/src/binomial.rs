//! How likely it is that so few of some inputs are of a kind.
//!
//! Of `n` inputs that are each of a kind with probability `s`, `k` are with probability
//! `C(n, k) s^k (1 - s)^(n - k)`. Logarithms of factorials of a million are ten million, and their
//! difference would have half of its digits left. So probabilities are written as the largest one
//! there could be for that `n` and `k`, which Stirling's formula gives to the last digit, times what
//! is lost because `s` is not `k / n` (C. Loader, Fast and accurate computation of binomial
//! probabilities, 2000):
//!
//! ```text
//! ln P = e(n) - e(k) - e(n - k) - D(k, n s) - D(n - k, n (1 - s)) + ln(n / (2 pi k (n - k))) / 2
//! e(n) = ln n! - ln(sqrt(2 pi n) (n / e)^n),    D(x, m) = x ln(x / m) + m - x
//! ```

use std::f64::consts::TAU;

/// The probability that at most `most` of `inputs` are of a kind that each is of with probability
/// `share`. Relative to the smaller of it and its complement, the error is about 1e-12.
pub(crate) fn at_most(most: u64, inputs: u64, share: f64) -> f64 {
    if most >= inputs || share <= 0.0 {
        return 1.0;
    }
    if share >= 1.0 {
        return 0.0;
    }
    // From the mode on, terms fall faster than a geometric series; whichever side of the mode the
    // bound is on, the sum starts at its largest term.
    let odds = share / (1.0 - share);
    let mode = ((inputs + 1) as f64 * share).floor();
    if (most as f64) < mode {
        // P(i - 1) / P(i) = i / ((n - i + 1) odds)
        sum(exactly(most, inputs, share), (1..=most).rev(), |i| {
            i as f64 / ((inputs - i + 1) as f64 * odds)
        })
        .min(1.0)
    } else {
        // P(i + 1) / P(i) = (n - i) odds / (i + 1)
        let first = most + 1;
        let above = sum(exactly(first, inputs, share), first..inputs, |i| {
            (inputs - i) as f64 * odds / (i + 1) as f64
        });
        (1.0 - above).max(0.0)
    }
}

/// The sum of terms, each of which is the one before it times a ratio that falls from term to term.
fn sum(first: f64, steps: impl Iterator<Item = u64>, ratio: impl Fn(u64) -> f64) -> f64 {
    let (mut term, mut sum) = (first, first);
    for step in steps {
        term *= ratio(step);
        sum += term;
        if term <= sum * f64::EPSILON / 16.0 {
            break;
        }
    }
    sum
}

/// The probability that exactly `count` of `inputs` are of a kind of a share between 0 and 1.
fn exactly(count: u64, inputs: u64, share: f64) -> f64 {
    let (k, n) = (count as f64, inputs as f64);
    if count == 0 {
        return (n * (-share).ln_1p()).exp();
    }
    if count == inputs {
        return (n * share.ln()).exp();
    }
    let lost = deviance(k, n * share) + deviance(n - k, n * (1.0 - share));
    let stirling = stirling_error(n) - stirling_error(k) - stirling_error(n - k);
    (stirling - lost).exp() * (n / (TAU * k * (n - k))).sqrt()
}

/// `ln n! - ln(sqrt(2 pi n) (n / e)^n)`.
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        // Factorials up to 15 are whole numbers that `f64` holds.
        let factorial: f64 = (1..=n as u32).map(f64::from).product();
        return factorial.ln() - 0.5 * (TAU * n).ln() - n * n.ln() + n;
    }
    // The next term of Stirling's series is below 1e-15.
    let square = n * n;
    let series = 1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / (1188.0 * square)) / square;
    (1.0 / 12.0 - (1.0 / 360.0 - series / square) / square) / n
}

/// `x ln(x / mean) + mean - x`, which is small where both are close.
fn deviance(x: f64, mean: f64) -> f64 {
    let difference = x - mean;
    if difference.abs() >= 0.1 * (x + mean) {
        return x * (x / mean).ln() - difference;
    }
    // With v = (x - mean) / (x + mean), ln(x / mean) = 2 (v + v^3 / 3 + v^5 / 5 + ...), and
    // 2 x v - (x - mean) = (x - mean) v.
    let v = difference / (x + mean);
    let square = v * v;
    let mut sum = difference * v;
    let mut power = 2.0 * x * v;
    // Each term is less than a hundredth of the one before it.
    for odd in (3..25).step_by(2) {
        power *= square;
        sum += power / f64::from(odd);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By input: of one more, as many are of a kind as before, or one more.
    fn by_input(most: u64, inputs: u64, share: f64) -> f64 {
        let mut probabilities = vec![1.0];
        for _ in 0..inputs {
            let mut next = vec![0.0; probabilities.len() + 1];
            for (count, probability) in probabilities.iter().enumerate() {
                next[count] += probability * (1.0 - share);
                next[count + 1] += probability * share;
            }
            probabilities = next;
        }
        probabilities.iter().take(most as usize + 1).sum()
    }

    proptest! {
        #[test]
        fn as_by_input(inputs in 0..120_u64, part in 0.0..=1.0_f64, share in 0.0..=1.0_f64) {
            let most = (part * inputs as f64) as u64;
            let (expected, found) = (by_input(most, inputs, share), at_most(most, inputs, share));
            prop_assert!((found - expected).abs() <= 1e-11 * expected + 1e-300, "{found} {expected}");
        }

        #[test]
        fn more_is_likelier(inputs in 1..2_000_000_u64, part in 0.0..1.0_f64, share in 0.0..=1.0_f64) {
            let most = (part * inputs as f64) as u64;
            let (less, more) = (at_most(most, inputs, share), at_most(most + 1, inputs, share));
            prop_assert!((0.0..=1.0).contains(&less) && less <= more + 1e-12, "{less} {more}");
        }
    }

    /// Values of SciPy, by `scripts/binomial_oracle.py`.
    #[test]
    fn as_scipy() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/binomial.csv");
        let text = std::fs::read_to_string(file).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("most,inputs,share,probability"));
        let mut cases = 0;
        for line in lines {
            let cells: Vec<&str> = line.split(',').collect();
            let [most, inputs, share, probability] = cells[..] else {
                panic!("{line}");
            };
            let found = at_most(
                most.parse().unwrap(),
                inputs.parse().unwrap(),
                share.parse().unwrap(),
            );
            let expected: f64 = probability.parse().unwrap();
            assert!(
                (found - expected).abs() <= 1e-9 * expected + 1e-300,
                "{line}: {found}"
            );
            cases += 1;
        }
        assert!(cases > 100);
    }

    #[test]
    fn what_is_certain() {
        assert_eq!([at_most(0, 0, 0.5), at_most(3, 3, 0.5)], [1.0, 1.0]);
        assert_eq!([at_most(0, 5, 0.0), at_most(4, 5, 1.0)], [1.0, 0.0]);
    }
}
