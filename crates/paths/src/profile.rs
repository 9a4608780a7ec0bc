//! The relevance profile of an input: which share of a layer's relevance each neuron has.
//!
//! In Hellinger's form: of the relevances `r` of a layer, `q_t = max(r_t, 0) / sum max(r, 0)`, and the
//! feature of neuron `t` is `sqrt(q_t)`. The squared distance of two profiles is the sum of
//! `(sqrt q - sqrt q')^2` over all neurons, at most 2 a layer. A layer without positive relevance is
//! all zeros.
//!
//! A feature is kept in a byte, as `round(255 sqrt(q_t))`, and distances are computed from bytes: whole
//! numbers, the same on every CPU and in any order.

/// What the root of a squared distance of bytes is worth as a distance of profiles.
pub const UNIT: f64 = 1.0 / 255.0;

/// Appends the profile of an input: a byte for every neuron, layer after layer.
///
/// `layers` are its relevances. One that is not finite counts as 0.
pub fn push_profile<'a>(layers: impl Iterator<Item = &'a [f32]>, out: &mut Vec<u8>) {
    for relevances in layers {
        let sum: f64 = relevances.iter().copied().map(positive).sum();
        let share = |&relevance: &f32| match sum > 0.0 {
            true => positive(relevance) / sum,
            false => 0.0,
        };
        let byte = |relevance| (255.0 * f64::sqrt(share(relevance))).round() as u8;
        out.extend(relevances.iter().map(byte));
    }
}

fn positive(relevance: f32) -> f64 {
    match relevance.is_finite() {
        true => f64::from(relevance.max(0.0)),
        false => 0.0,
    }
}

/// The squared distance of two profiles, in squares of [`UNIT`].
///
/// It fits for profiles of any number of neurons: those of a layer add at most
/// `2 (255 + sqrt(n) / 2)^2`. Bytes that are no profile are summed modulo 2^32.
pub fn squared_distance(a: &[u8], b: &[u8]) -> u32 {
    let square = |(&a, &b): (&u8, &u8)| u32::from(a.abs_diff(b)).pow(2);
    a.iter().zip(b).map(square).fold(0, u32::wrapping_add)
}

/// A distance of profiles, of its square as [`squared_distance`] gives it.
pub fn distance(squared: u32) -> f64 {
    f64::from(squared).sqrt() * UNIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn profile(layers: &[&[f32]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_profile(layers.iter().copied(), &mut bytes);
        bytes
    }

    /// The definition, without bytes.
    fn naive_squared(a: &[&[f32]], b: &[&[f32]]) -> f64 {
        let feature = |layer: &[f32], t: usize| {
            let sum: f64 = layer.iter().map(|&r| f64::from(r).max(0.0)).sum();
            let q = if sum > 0.0 {
                f64::from(layer[t]).max(0.0) / sum
            } else {
                0.0
            };
            q.sqrt()
        };
        let layer = |(a, b): (&&[f32], &&[f32])| -> f64 {
            let differences = (0..a.len()).map(|t| feature(a, t) - feature(b, t));
            differences.map(|difference| difference.powi(2)).sum()
        };
        a.iter().zip(b).map(layer).sum()
    }

    #[test]
    fn a_worked_case() {
        // q = (.75, .25, 0 | 0, 1) and (.25, .25, .5 | .5, .5).
        let a: [&[f32]; 2] = [&[3.0, 1.0, -2.0], &[0.0, 4.0]];
        let b: [&[f32]; 2] = [&[1.0, 1.0, 2.0], &[2.0, 2.0]];
        assert!((naive_squared(&a, &b) - (0.633975 + 0.585786)).abs() < 1e-6);
        // 255 sqrt(.75) = 220.8, 255 sqrt(.25) = 127.5, 255 sqrt(.5) = 180.3.
        assert_eq!(profile(&a), [221, 128, 0, 0, 255]);
        assert_eq!(profile(&b), [128, 128, 180, 180, 180]);
        let squared = squared_distance(&profile(&a), &profile(&b));
        assert_eq!(squared, 93 * 93 + 180 * 180 + 180 * 180 + 75 * 75);
        assert!((distance(squared).powi(2) - 1.219761).abs() < 0.005);
    }

    #[test]
    fn layers_without_positive_relevance_are_zeros() {
        let inf = f32::INFINITY;
        assert_eq!(profile(&[&[0.0, -1.0], &[], &[2.0]]), [0, 0, 255]);
        assert_eq!(profile(&[&[f32::NAN, 1.0, inf, -inf]]), [0, 255, 0, 0]);
        assert_eq!(profile(&[&[f32::MAX, f32::MAX, 1e-45]]), [180, 180, 0]);
        assert_eq!(distance(squared_distance(&[], &[])), 0.0);
        assert_eq!(distance(255 * 255), 1.0);
    }

    fn layers() -> impl Strategy<Value = (Vec<Vec<f32>>, Vec<Vec<f32>>)> {
        let layer = (1..40usize).prop_flat_map(|neurons| {
            let relevances = || prop::collection::vec(-1.0..1.0f32, neurons);
            (relevances(), relevances())
        });
        prop::collection::vec(layer, 0..4).prop_map(|layers| layers.into_iter().unzip())
    }

    proptest! {
        #[test]
        fn distances_are_those_of_the_definition_but_for_rounding((a, b) in layers()) {
            let a: Vec<&[f32]> = a.iter().map(|layer| &layer[..]).collect();
            let b: Vec<&[f32]> = b.iter().map(|layer| &layer[..]).collect();
            let (p, q) = (profile(&a), profile(&b));
            // Each difference of features is off by a unit at most, so the distance by sqrt(n) units.
            let room = (p.len() as f64).sqrt() * UNIT + 1e-12;
            let found = distance(squared_distance(&p, &q));
            prop_assert!((found - naive_squared(&a, &b).sqrt()).abs() <= room);
        }
    }
}
