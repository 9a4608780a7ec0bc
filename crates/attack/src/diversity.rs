//! The regulariser `div`: how unevenly a layer is active over all inputs of a batch.
//!
//! The activity `a` of a layer is the positive part of its elements. It is made into a distribution
//! `q`, and `div = KL(U || Q) = sum u (ln u - ln q)` with `u` uniform; each share has 1e-20 added, so
//! that all have a logarithm. Less of it means that more of the layer takes part.

/// Added to each share.
const SMALLEST_SHARE: f64 = 1e-20;

/// What the shares of a distribution belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The units of a dense layer, each with its activity for all inputs of the batch together.
    Units,
    /// The elements of feature maps, those of every input on their own: that many more shares.
    Elements,
}

/// The activity of a layer for the inputs of a batch, summed up.
pub(crate) struct Activity {
    /// The sum of all activity; 1 where there is none.
    sum: f64,
    /// Number of shares.
    count: f64,
    /// `sum q / (q + 1e-20)`: almost the number of shares that are not zero.
    active: f64,
    /// For [`Form::Units`], the activity of each.
    units: Option<Vec<f64>>,
}

impl Activity {
    /// Sums up the activations of some inputs, with `elements` numbers for each.
    pub(crate) fn new(activations: &[f32], elements: usize, form: Form) -> Activity {
        let units = (form == Form::Units).then(|| {
            let mut units = vec![0.0; elements];
            for row in activations.chunks_exact(elements.max(1)) {
                for (unit, &a) in units.iter_mut().zip(row) {
                    *unit += positive(a);
                }
            }
            units
        });
        let mut activity = Activity {
            sum: 0.0,
            count: 0.0,
            active: 0.0,
            units,
        };
        let (mut sum, mut count) = (0.0, 0usize);
        activity.each(activations, |a| {
            sum += a;
            count += 1;
        });
        activity.sum = if sum > 0.0 { sum } else { 1.0 };
        activity.count = count.max(1) as f64;
        let (mut active, sum) = (0.0, activity.sum);
        activity.each(activations, |a| {
            active += (a / sum) / (a / sum + SMALLEST_SHARE)
        });
        activity.active = active;
        activity
    }

    /// What the shares are made from.
    fn each(&self, activations: &[f32], mut f: impl FnMut(f64)) {
        match &self.units {
            Some(units) => units.iter().for_each(|&a| f(a)),
            None => activations.iter().for_each(|&a| f(positive(a))),
        }
    }

    /// `KL(U || Q)`, of the activations that were summed up.
    pub(crate) fn divergence(&self, activations: &[f32]) -> f64 {
        let mut logarithms = 0.0;
        self.each(activations, |a| {
            logarithms += (a / self.sum + SMALLEST_SHARE).ln();
        });
        // sum u (ln u - ln q) with u = 1 / count.
        -self.count.ln() - logarithms / self.count
    }

    /// The derivatives of `factor * KL(U || Q)` with respect to the activations of one input.
    ///
    /// With `q_j = a_j / S`, `d q_j / d a_k = [j = k] / S - a_j / S^2`. So of `-sum ln(q_j + e) / M`:
    /// `(sum_j q_j / (q_j + e) - 1 / (q_k + e)) / (M S)`. Where there is no activity, the positive
    /// part has no slope.
    pub(crate) fn derivatives(&self, activations: &[f32], factor: f64, out: &mut [f32]) {
        let scale = factor / (self.count * self.sum);
        let slope = |a: f64| {
            let slope = scale * (self.active - 1.0 / (a / self.sum + SMALLEST_SHARE));
            (slope as f32).clamp(f32::MIN, f32::MAX)
        };
        for (k, (out, &a)) in out.iter_mut().zip(activations).enumerate() {
            *out = match &self.units {
                _ if a <= 0.0 => 0.0,
                Some(units) => slope(units[k]),
                None => slope(f64::from(a)),
            };
        }
    }
}

fn positive(a: f32) -> f64 {
    f64::from(a.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As the definition reads.
    fn naive(a: &[f64], elements: usize, form: Form) -> f64 {
        let shares: Vec<f64> = match form {
            Form::Elements => a.iter().map(|a| a.max(0.0)).collect(),
            Form::Units => {
                let unit = |j: usize| a.chunks(elements).map(|row| row[j].max(0.0)).sum();
                (0..elements).map(unit).collect()
            }
        };
        let sum: f64 = shares.iter().sum();
        let u = 1.0 / shares.len() as f64;
        let term = |a: &f64| u * (u.ln() - (a / sum + 1e-20).ln());
        shares.iter().map(term).sum()
    }

    fn divergence(a: &[f32], elements: usize, form: Form) -> f64 {
        Activity::new(a, elements, form).divergence(a)
    }

    fn derivatives(a: &[f32], elements: usize, form: Form, factor: f64) -> Vec<f32> {
        let mut out = vec![f32::NAN; a.len()];
        let activity = Activity::new(a, elements, form);
        let rows = out.chunks_mut(elements).zip(a.chunks(elements));
        rows.for_each(|(out, a)| activity.derivatives(a, factor, out));
        out
    }

    /// The numbers follow from the definition: (1, 1, 2, 4) has `ln 2 / 4`.
    #[test]
    fn worked_cases() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a}, not {b}");
        for form in [Form::Units, Form::Elements] {
            close(divergence(&[1.0, 1.0, 2.0, 4.0], 4, form), 0.173_286_8);
            close(divergence(&[1.0, 1.0, 2.0, 0.0], 4, form), 10.993_065);
            close(divergence(&[1.0, 1.0, 2.0, -7.0], 4, form), 10.993_065);
        }
        // Two inputs of two units: 1 + 3 and 1 + 3 are even, 1, 1, 3 and 3 are not.
        let a = [1.0, 3.0, 3.0, 1.0];
        close(divergence(&a, 2, Form::Units), 0.0);
        close(
            divergence(&a, 2, Form::Elements),
            2f64.ln() - 3f64.ln() / 2.0,
        );
    }

    #[test]
    fn what_is_not_active_has_no_slope() {
        for form in [Form::Units, Form::Elements] {
            assert_eq!(derivatives(&[0.0, -1.0], 2, form, 1.0), [0.0, 0.0]);
            assert!(divergence(&[0.0, -1.0], 2, form) > 40.0);
            // d/da of ln(sum a) - sum(ln a) / 4 = 1/8 - 1/(4 a), three times as much.
            let found = derivatives(&[1.0, 1.0, 2.0, 4.0], 4, form, 3.0);
            assert_eq!(found, [-0.375, -0.375, 0.0, 0.1875]);
        }
    }

    proptest! {
        #[test]
        fn derivatives_are_those_of_the_definition(
            a in proptest::collection::vec(prop_oneof![Just(-1.0f32), 0.1f32..3.0], 12),
            elements in prop_oneof![Just(3usize), Just(4), Just(12)],
            units in any::<bool>(),
        ) {
            let form = if units { Form::Units } else { Form::Elements };
            let wide: Vec<f64> = a.iter().map(|&a| f64::from(a)).collect();
            prop_assume!(a.iter().any(|&a| a > 0.0));
            let value = naive(&wide, elements, form);
            prop_assert!((divergence(&a, elements, form) - value).abs() < 1e-9 * value.max(1.0));
            let found = derivatives(&a, elements, form, 1.0);
            for k in 0..a.len() {
                let moved = |by: f64| {
                    let mut at = wide.clone();
                    at[k] += by;
                    naive(&at, elements, form)
                };
                let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                let distance = (f64::from(found[k]) - expected).abs();
                prop_assert!(distance < 1e-5 * expected.abs().max(1.0), "{} {}", found[k], expected);
            }
        }
    }
}
