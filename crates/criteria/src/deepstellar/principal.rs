//! Principal components.

/// The eigenvectors of the largest eigenvalues of a symmetric matrix, by Jacobi's method; the largest
/// member of each is positive.
pub(super) fn principal(matrix: &[f64], size: usize, most: usize) -> Vec<f64> {
    let mut a = matrix.to_vec();
    let mut vectors = vec![0.0; size * size];
    (0..size).for_each(|i| vectors[i * size + i] = 1.0);
    let total: f64 = a.iter().map(|x| x * x).sum();
    for _ in 0..64 {
        let off = |(i, x): (usize, &f64)| if i / size == i % size { 0.0 } else { x * x };
        if a.iter().enumerate().map(off).sum::<f64>() <= 1e-24 * total {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                rotate(&mut a, &mut vectors, size, p, q);
            }
        }
    }
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|&i, &j| a[j * size + j].total_cmp(&a[i * size + i]));
    order.truncate(most);
    let mut found = Vec::with_capacity(order.len() * size);
    for i in order {
        let vector = &vectors[i * size..(i + 1) * size];
        let larger = |a: f64, &b: &f64| if b.abs() > a.abs() { b } else { a };
        let sign = if vector.iter().fold(0.0, larger) < 0.0 {
            -1.0
        } else {
            1.0
        };
        found.extend(vector.iter().map(|x| sign * x));
    }
    found
}

/// Turns the plane of two axes so that their covariance vanishes. `vectors` has a row for each axis.
fn rotate(a: &mut [f64], vectors: &mut [f64], size: usize, p: usize, q: usize) {
    let between = a[p * size + q];
    if between == 0.0 {
        return;
    }
    let theta = (a[q * size + q] - a[p * size + p]) / (2.0 * between);
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let t = if theta == 0.0 { 1.0 } else { t };
    let c = 1.0 / (t * t + 1.0).sqrt();
    let s = t * c;
    for k in 0..size {
        let (x, y) = (a[k * size + p], a[k * size + q]);
        (a[k * size + p], a[k * size + q]) = (c * x - s * y, s * x + c * y);
    }
    for k in 0..size {
        let (x, y) = (a[p * size + k], a[q * size + k]);
        (a[p * size + k], a[q * size + k]) = (c * x - s * y, s * x + c * y);
        let (x, y) = (vectors[p * size + k], vectors[q * size + k]);
        (vectors[p * size + k], vectors[q * size + k]) = (c * x - s * y, s * x + c * y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points along (3, 4) with a little of (-4, 3).
    #[test]
    fn principal_components_are_found() {
        let points = [(2.0, 0.0), (-1.0, 0.2), (-1.0, -0.2)];
        let mut covariance = [0.0; 4];
        for (along, across) in points {
            let point = [0.6 * along - 0.8 * across, 0.8 * along + 0.6 * across];
            for i in 0..4 {
                covariance[i] += point[i / 2] * point[i % 2];
            }
        }
        let found = principal(&covariance, 2, 2);
        for (found, expected) in found.iter().zip([0.6, 0.8, 0.8, -0.6]) {
            assert!((found - expected).abs() < 1e-12, "{found} and {expected}");
        }
    }
}
