//! Where things lie in the plane when only distances between them are known: classical multidimensional
//! scaling (W. Torgerson, 1952).
//!
//! With `D` the matrix of squared distances and `J` the one that takes means away, `B = -J D J / 2` holds the
//! products of positions around their centre. Its two largest eigenvectors, each times the root of its
//! eigenvalue, are the positions in the plane that keep most of `B`.

/// Steps of the power iteration, at most.
const MOST_STEPS: usize = 500;

/// Positions for `count` things, of which `distance` says how far two are apart. The same for the same
/// distances: eigenvectors are found from a fixed start, and turned so that their largest number is positive.
pub(crate) fn plane(count: usize, distance: impl Fn(usize, usize) -> f64) -> Vec<(f64, f64)> {
    let mut products = vec![0.0; count * count];
    for a in 0..count {
        for b in 0..a {
            let squared = distance(a, b).powi(2);
            products[a * count + b] = squared;
            products[b * count + a] = squared;
        }
    }
    let mean = |row: usize| products[row * count..][..count].iter().sum::<f64>() / count as f64;
    let means: Vec<f64> = (0..count).map(mean).collect();
    let all = means.iter().sum::<f64>() / count.max(1) as f64;
    for a in 0..count {
        for b in 0..count {
            let at = a * count + b;
            products[at] = -0.5 * (products[at] - means[a] - means[b] + all);
        }
    }
    let x = axis(&mut products, count);
    let y = axis(&mut products, count);
    x.into_iter().zip(y).collect()
}

/// Positions along the largest eigenvector, which is taken out of the matrix.
fn axis(products: &mut [f64], count: usize) -> Vec<f64> {
    // No two numbers of the start are alike, so it is at right angles to nothing that is expected.
    let mut vector: Vec<f64> = (0..count)
        .map(|i| 1.0 + ((i * 37) % 101) as f64 / 101.0)
        .collect();
    // Distances of no space give negative eigenvalues: shifted so that the largest is also the largest in size.
    let row_size = |row: &[f64]| row.iter().map(|x| x.abs()).sum::<f64>();
    let shift = products
        .chunks_exact(count.max(1))
        .map(row_size)
        .fold(0.0, f64::max)
        / 2.0;
    normalise(&mut vector);
    for _ in 0..MOST_STEPS {
        let mut next: Vec<f64> = times(products, &vector);
        next.iter_mut()
            .zip(&vector)
            .for_each(|(n, v)| *n += shift * v);
        normalise(&mut next);
        let moved: f64 = next.iter().zip(&vector).map(|(a, b)| (a - b).powi(2)).sum();
        vector = next;
        if moved < 1e-20 {
            break;
        }
    }
    let largest = vector.iter().copied().fold(
        0.0,
        |m: f64, x| if x.abs() > m.abs() + 1e-9 { x } else { m },
    );
    if largest < 0.0 {
        vector.iter_mut().for_each(|x| *x = -*x);
    }
    let value: f64 = times(products, &vector)
        .iter()
        .zip(&vector)
        .map(|(a, b)| a * b)
        .sum();
    for a in 0..count {
        for b in 0..count {
            products[a * count + b] -= value * vector[a] * vector[b];
        }
    }
    let scale = value.max(0.0).sqrt();
    vector.into_iter().map(|x| x * scale).collect()
}

fn times(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    let product = |row: &[f64]| row.iter().zip(vector).map(|(a, b)| a * b).sum();
    matrix
        .chunks_exact(vector.len().max(1))
        .map(product)
        .collect()
}

fn normalise(vector: &mut [f64]) {
    let size = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    if size > 0.0 {
        vector.iter_mut().for_each(|x| *x /= size);
    }
}

/// A circle in the plane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Circle {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) radius: f64,
}

/// Rounds of parting circles, at most.
const MOST_ROUNDS: usize = 200;
/// Pixels between circles.
const APART: f64 = 3.0;

/// Moves circles that overlap apart, each by half of the overlap, until none does or enough was tried; none leaves the
/// drawing. The order of circles decides, so that the same circles end at the same places.
pub(crate) fn part(circles: &mut [Circle], width: f64, height: f64) {
    for _ in 0..MOST_ROUNDS {
        let mut moved = false;
        for a in 0..circles.len() {
            for b in a + 1..circles.len() {
                let (dx, dy) = (circles[b].x - circles[a].x, circles[b].y - circles[a].y);
                let distance = dx.hypot(dy);
                let lacking = circles[a].radius + circles[b].radius + APART - distance;
                if lacking <= 0.01 {
                    continue;
                }
                moved = true;
                // Circles at one place part to the sides.
                let (x, y) = match distance > 1e-6 {
                    true => (dx / distance, dy / distance),
                    false => (1.0, 0.0),
                };
                let step = lacking / 2.0;
                circles[a].x -= x * step;
                circles[a].y -= y * step;
                circles[b].x += x * step;
                circles[b].y += y * step;
            }
        }
        for circle in circles.iter_mut() {
            let edge = circle.radius + APART;
            circle.x = circle.x.clamp(edge, (width - edge).max(edge));
            circle.y = circle.y.clamp(edge, (height - edge).max(edge));
        }
        if !moved {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(a: (f64, f64), b: (f64, f64)) -> f64 {
        (a.0 - b.0).hypot(a.1 - b.1)
    }

    #[test]
    fn distances_of_a_plane_are_kept() {
        let places = [(0.0, 0.0), (3.0, 0.0), (0.0, 1.0), (2.0, 5.0), (-1.0, 0.5)];
        let found = plane(places.len(), |a, b| apart(places[a], places[b]));
        for a in 0..places.len() {
            for b in 0..a {
                let (was, is) = (apart(places[a], places[b]), apart(found[a], found[b]));
                assert!((was - is).abs() < 1e-6, "{a} {b}: {was} {is}");
            }
        }
    }

    #[test]
    fn the_largest_spread_comes_first() {
        // A triangle of equal sides has no longest side, and no distances at all leave all in one place.
        assert_eq!(plane(0, |_, _| 1.0), []);
        assert_eq!(plane(1, |_, _| 1.0), [(0.0, 0.0)]);
        assert_eq!(plane(2, |_, _| 0.0), [(0.0, 0.0); 2]);
        let line = plane(3, |a, b| (a as f64 - b as f64).abs());
        let xs: Vec<f64> = line.iter().map(|p| p.0).collect();
        assert!((xs[0] - xs[2]).abs() > 1.999 && line.iter().all(|p| p.1.abs() < 1e-3));
    }

    #[test]
    fn distances_of_no_space_do_no_harm() {
        // The triangle inequality does not hold.
        let far = |a: usize, b: usize| if a + b == 1 { 10.0 } else { 1.0 };
        assert!(
            plane(4, far)
                .iter()
                .all(|p| p.0.is_finite() && p.1.is_finite())
        );
    }

    #[test]
    fn circles_part_and_stay_inside() {
        let circle = |x: f64, y: f64| Circle { x, y, radius: 10.0 };
        let mut circles = [
            circle(50.0, 50.0),
            circle(50.0, 50.0),
            circle(52.0, 55.0),
            circle(1.0, 1.0),
        ];
        part(&mut circles, 200.0, 100.0);
        for (i, a) in circles.iter().enumerate() {
            for b in &circles[..i] {
                assert!((a.x - b.x).hypot(a.y - b.y) >= 20.0, "{circles:?}");
            }
            assert!(a.x >= 10.0 && a.y >= 10.0 && a.y <= 90.0, "{a:?}");
        }
        let mut alone = [circle(60.0, 40.0)];
        part(&mut alone, 200.0, 100.0);
        assert_eq!(alone, [circle(60.0, 40.0)]);
    }
}
