//! How early an order shows faults.

use serde::{Deserialize, Serialize};

/// How early an order of inputs shows those that are misclassified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Apfd {
    /// The average percentage of faults detected, from 0 to 1: about 1 where misclassified inputs
    /// come first; `None` where there are none.
    pub value: Option<f64>,
    /// What a random order has on average: 1/2.
    pub random: f64,
    /// Inputs that are misclassified.
    pub faults: usize,
    /// How many of them were chosen.
    pub found: usize,
}

/// The average percentage of faults detected of an order; each input that `is_fault` holds for is a
/// fault of its own.
///
/// With n inputs and m faults, the i-th of which comes in place T(i), counted from 1, it is
/// 1 - (T(1) + ... + T(m)) / (n m) + 1 / (2 n). In a random order T(i) is (n + 1) / 2 on average,
/// which makes 1/2.
pub fn apfd(is_fault: impl IntoIterator<Item = bool>) -> Option<f64> {
    let (mut inputs, mut faults, mut places) = (0u64, 0u64, 0u128);
    for is_fault in is_fault {
        inputs += 1;
        if is_fault {
            faults += 1;
            places += u128::from(inputs);
        }
    }
    let n = inputs as f64;
    (faults > 0).then(|| 1.0 - places as f64 / (n * faults as f64) + 0.5 / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_cases() {
        // Five inputs, faults in places 1 and 4: 1 - (1 + 4) / (5 * 2) + 1 / 10.
        let value = apfd([true, false, false, true, false]).unwrap();
        assert!((value - 0.6).abs() < 1e-15, "{value}");
        // The best and the worst order of two faults in four inputs.
        assert_eq!(apfd([true, true, false, false]), Some(0.75));
        assert_eq!(apfd([false, false, true, true]), Some(0.25));
        assert_eq!(apfd([true]), Some(0.5));
        assert_eq!(apfd([false, false]), None);
        assert_eq!(apfd([]), None);
    }

    #[test]
    fn random_orders_have_a_half_on_average() {
        // All orders of two faults among five inputs.
        let mut sum = 0.0;
        for (a, b) in (0..5).flat_map(|a| (0..a).map(move |b| (a, b))) {
            sum += apfd((0..5).map(|i| i == a || i == b)).unwrap();
        }
        assert!((sum / 10.0 - 0.5).abs() < 1e-12, "{sum}");
    }
}
