//! Random starts that depend on a seed and on the input's position in its dataset, never on the
//! order of work.

use npcov_paths::random::{DrawnFor, Generator};

use crate::AttackNorm;

/// Moves a point to a random place of the ball around it.
///
/// In the maximum norm each pixel moves by a number between `-epsilon` and `epsilon`, all equally
/// likely. In the Euclidean norm the direction is that of normally distributed numbers, and the
/// distance is between 0 and `epsilon`, all equally likely.
pub(crate) fn start(point: &mut [f32], norm: AttackNorm, epsilon: f32, seed: u64, row: usize) {
    let mut rng = Generator::new(seed, DrawnFor::Attacks, 0, row as u64);
    match norm {
        AttackNorm::Maximum => {
            for p in point {
                *p += (2.0 * rng.uniform() as f32 - 1.0) * epsilon;
            }
        }
        AttackNorm::Euclidean => {
            let direction: Vec<f64> = point.iter().map(|_| rng.normal()).collect();
            let length = direction.iter().map(|d| d * d).sum::<f64>().sqrt();
            let scale = rng.uniform() * f64::from(epsilon) / length.max(f64::MIN_POSITIVE);
            for (p, d) in point.iter_mut().zip(direction) {
                *p += (d * scale) as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(norm: AttackNorm, epsilon: f32, seed: u64, row: usize) -> Vec<f32> {
        let mut point = vec![0.0; 2000];
        start(&mut point, norm, epsilon, seed, row);
        point
    }

    #[test]
    fn starts_fill_the_ball() {
        let box_ = moved(AttackNorm::Maximum, 0.5, 7, 3);
        assert!(box_.iter().all(|p| p.abs() <= 0.5));
        let part = |low: f32| {
            box_.iter()
                .filter(|&&p| (low..low + 0.25).contains(&p))
                .count()
        };
        // 500 expected in each quarter; the standard deviation is 19.
        assert!(
            [-0.5, -0.25, 0.0, 0.25]
                .iter()
                .all(|&low| (400..600).contains(&part(low)))
        );
        let length = |row| {
            let point = moved(AttackNorm::Euclidean, 0.5, 7, row);
            point.iter().map(|p| p * p).sum::<f32>().sqrt()
        };
        let lengths: Vec<f32> = (0..40).map(length).collect();
        assert!(lengths.iter().all(|&l| l <= 0.500_01));
        // Twenty are expected in each half; the standard deviation is 3.
        assert!((8..32).contains(&lengths.iter().filter(|&&l| l < 0.25).count()));
    }

    #[test]
    fn seeds_and_rows_have_starts_of_their_own() {
        for norm in [AttackNorm::Maximum, AttackNorm::Euclidean] {
            let one = moved(norm, 0.5, 7, 3);
            assert_eq!(one, moved(norm, 0.5, 7, 3));
            assert_ne!(one, moved(norm, 0.5, 8, 3));
            assert_ne!(one, moved(norm, 0.5, 7, 4));
        }
    }
}
