//! What Gaussians need of linear algebra.
//!
//! A covariance is `L Lᵀ` with a lower triangle `L` (Cholesky); `W = L⁻¹` makes a centred vector
//! white: `|W x|²` is `xᵀ C⁻¹ x`.

/// What makes vectors white.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Whitening {
    /// The lower triangle of `W`, row after row: row `i` has `i + 1` numbers.
    pub(super) triangle: Vec<f64>,
    /// The logarithm of the root of the covariance's determinant.
    pub(super) log_root: f64,
    /// What was added to the diagonal of the covariance.
    pub(super) ridge: f64,
}

/// Ridges that are tried, as parts of the mean of the diagonal.
const RIDGES: [f64; 13] = [
    0.0, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1,
];

impl Whitening {
    /// Of a symmetric covariance. One that is singular gets the smallest ridge that makes it
    /// positive definite; `None` where it is no covariance: without variance, or not finite.
    pub(super) fn of(covariance: &[f64], size: usize) -> Option<Whitening> {
        let trace: f64 = (0..size).map(|i| covariance[i * size + i]).sum();
        let mean = trace / size.max(1) as f64;
        if !(mean > 0.0 && mean.is_finite()) {
            return None;
        }
        RIDGES.iter().find_map(|ridge| {
            let ridge = ridge * mean;
            let lower = cholesky(covariance, size, ridge)?;
            let log_root = (0..size).map(|i| lower[row(i) + i].ln()).sum();
            Some(Whitening {
                triangle: inverse(&lower, size),
                log_root,
                ridge,
            })
        })
    }

    /// `W` with its zeros.
    pub(super) fn square(&self, size: usize) -> Vec<f64> {
        let mut square = vec![0.0; size * size];
        for i in 0..size {
            let numbers = &self.triangle[row(i)..row(i + 1)];
            square[i * size..i * size + i + 1].copy_from_slice(numbers);
        }
        square
    }
}

/// Where row `i` of a triangle begins; with the size, how many numbers it has.
pub(super) fn row(i: usize) -> usize {
    i * (i + 1) / 2
}

/// The triangle `L` of a covariance with a ridge; `None` where that is not positive definite, as
/// far as rounding lets one tell: a pivot of less than `size` times the unit of the largest
/// diagonal number is noise.
fn cholesky(covariance: &[f64], size: usize, ridge: f64) -> Option<Vec<f64>> {
    let diagonal = |i: usize| covariance[i * size + i] + ridge;
    let largest = (0..size).map(diagonal).fold(0.0, f64::max);
    let noise = size as f64 * f64::EPSILON * largest;
    let mut lower = vec![0.0; row(size)];
    for i in 0..size {
        let (above, own) = lower.split_at_mut(row(i));
        for j in 0..i {
            let other = &above[row(j)..row(j + 1)];
            let rest = covariance[i * size + j] - dot(&own[..j], &other[..j]);
            own[j] = rest / other[j];
        }
        let pivot = diagonal(i) - dot(&own[..i], &own[..i]);
        // Written so that NaN is refused.
        if !(pivot > noise && pivot.is_finite()) {
            return None;
        }
        own[i] = pivot.sqrt();
    }
    Some(lower)
}

/// The inverse of a lower triangle, by rows: `Wᵢ = (eᵢ - Σₖ Lᵢₖ Wₖ) / Lᵢᵢ` for k below i.
fn inverse(lower: &[f64], size: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; row(size)];
    for i in 0..size {
        let (above, own) = inverse.split_at_mut(row(i));
        let factors = &lower[row(i)..row(i + 1)];
        for k in 0..i {
            let other = &above[row(k)..row(k + 1)];
            own.iter_mut()
                .zip(other)
                .for_each(|(x, y)| *x -= factors[k] * y);
        }
        own[..i].iter_mut().for_each(|x| *x /= factors[i]);
        own[i] = 1.0 / factors[i];
    }
    inverse
}

/// In lanes, which the compiler can make vectors of.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `xᵀ C⁻¹ x` by elimination.
    fn naive(covariance: &[f64], x: &[f64]) -> f64 {
        let n = x.len();
        let mut a = covariance.to_vec();
        let mut y = x.to_vec();
        for i in 0..n {
            for j in i + 1..n {
                let factor = a[j * n + i] / a[i * n + i];
                (0..n).for_each(|k| a[j * n + k] -= factor * a[i * n + k]);
                y[j] -= factor * y[i];
            }
        }
        for i in (0..n).rev() {
            let known: f64 = (i + 1..n).map(|j| a[i * n + j] * y[j]).sum();
            y[i] = (y[i] - known) / a[i * n + i];
        }
        x.iter().zip(&y).map(|(x, y)| x * y).sum()
    }

    fn norm(whitening: &Whitening, x: &[f64]) -> f64 {
        let square = whitening.square(x.len());
        let rows = square.chunks_exact(x.len());
        rows.map(|w| dot(w, x).powi(2)).sum()
    }

    #[test]
    fn worked_case() {
        // [[4, 2], [2, 5]] = L Lᵀ with L = [[2, 0], [1, 2]]; its determinant is 16.
        let whitening = Whitening::of(&[4.0, 2.0, 2.0, 5.0], 2).unwrap();
        assert_eq!(whitening.triangle, [0.5, -0.25, 0.5]);
        assert!((whitening.log_root - 4.0_f64.ln()).abs() < 1e-15);
        assert_eq!(whitening.ridge, 0.0);
    }

    #[test]
    fn a_singular_covariance_gets_a_ridge() {
        let whitening = Whitening::of(&[1.0, 1.0, 1.0, 1.0], 2).unwrap();
        assert!(whitening.ridge > 0.0 && whitening.ridge <= 1e-11);
        assert!(whitening.triangle.iter().all(|x| x.is_finite()));
        assert_eq!(Whitening::of(&[0.0; 4], 2), None);
        assert_eq!(Whitening::of(&[f64::NAN; 4], 2), None);
        assert_eq!(Whitening::of(&[], 0), None);
    }

    proptest! {
        #[test]
        fn white_norms_are_quadratic_forms(
            factors in prop::collection::vec(-1.0f64..1.0, 400),
            x in prop::collection::vec(-1.0f64..1.0, 1..20),
        ) {
            // A covariance that is far from singular.
            let n = x.len();
            let at = |i: usize, j: usize| {
                let sum: f64 = (0..n).map(|k| factors[i * 20 + k] * factors[j * 20 + k]).sum();
                sum + f64::from(u8::from(i == j))
            };
            let covariance: Vec<f64> = (0..n * n).map(|k| at(k / n, k % n)).collect();
            let whitening = Whitening::of(&covariance, n).unwrap();
            let (fast, slow) = (norm(&whitening, &x), naive(&covariance, &x));
            prop_assert!((fast - slow).abs() <= 1e-9 * slow.max(1.0));
        }
    }
}
