//! Projected gradient descent, and the fast gradient sign method as one step of it.

use npcov_program::Term;
use serde::{Deserialize, Serialize};

use crate::objective::{Objective, Slopes};
use crate::random;
use crate::seeds::Seeds;
use crate::{AttackNorm, AttackOptions, finite, positive};
use npcov_run::RunError;
use npcov_run::{Event, Network, Progress};

/// Projected gradient descent (Madry et al. 2018): steps that raise the cross entropy of the label,
/// each back into a ball around the input and into the range of pixels.
///
/// In the maximum norm a step moves every pixel by [`step`](Pgd::step) along the sign of its
/// derivative, in the Euclidean norm the whole input by that length along the gradient. The last
/// point is the result, whether it is misclassified or not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pgd {
    /// What balls and steps are measured in.
    pub norm: AttackNorm,
    /// The radius of the ball, in pixels.
    pub epsilon: f32,
    /// How far a step goes, in pixels.
    pub step: f32,
    /// How many steps.
    pub steps: usize,
    /// Whether it starts at a random point of the ball, instead of at the input.
    pub random_start: bool,
}

impl Pgd {
    /// Within `epsilon` in the maximum norm: 40 steps of 0.01 from a random start.
    pub fn maximum(epsilon: f32) -> Pgd {
        Pgd {
            norm: AttackNorm::Maximum,
            epsilon,
            step: 0.01,
            steps: 40,
            random_start: true,
        }
    }

    /// Within `epsilon` in the Euclidean norm: 40 steps of a tenth of it from a random start.
    pub fn euclidean(epsilon: f32) -> Pgd {
        Pgd {
            norm: AttackNorm::Euclidean,
            epsilon,
            step: epsilon / 10.0,
            steps: 40,
            random_start: true,
        }
    }

    /// The fast gradient sign method (Goodfellow et al. 2015): one step to the surface of the ball.
    pub fn fast(epsilon: f32) -> Pgd {
        Pgd {
            norm: AttackNorm::Maximum,
            epsilon,
            step: epsilon,
            steps: 1,
            random_start: false,
        }
    }

    pub(crate) fn check(&self) -> Result<(), RunError> {
        finite("epsilon", self.epsilon, 0.0)?;
        finite("step", self.step, 0.0)?;
        positive("steps", self.steps)
    }

    pub(crate) fn objective<'n>(
        &self,
        network: &'n Network,
        options: &AttackOptions,
    ) -> Result<Objective<'n>, RunError> {
        // The cross entropy of numbers would have no slope left where they are large.
        let term = match network.signature().numbers() {
            Some(_) => Term::Margin,
            None => Term::CrossEntropy,
        };
        Objective::new(network, term, options)
    }

    /// The last point of each seed.
    pub(crate) fn run(
        &self,
        objective: &Objective<'_>,
        seeds: &Seeds<'_>,
        options: &AttackOptions,
        progress: &mut dyn Progress,
    ) -> Result<Vec<f32>, RunError> {
        let width = seeds.width().max(1);
        let mut points = seeds.original.clone();
        if self.random_start {
            for (point, &row) in points.chunks_exact_mut(width).zip(seeds.rows) {
                random::start(point, self.norm, self.epsilon, options.seed, row);
            }
        }
        // The mean of the cross entropies less lambda times the divergence, times the number of
        // inputs: only the direction of its gradient matters.
        let lambda = options.diversity().map_or(0.0, |d| d.lambda);
        let factor = -lambda * seeds.len() as f64;
        let all: Vec<usize> = (0..seeds.len()).collect();
        let mut slopes = Slopes::default();
        for _ in 0..self.steps {
            objective.evaluate(seeds, &points, &all, &[&seeds.labels], factor, &mut slopes)?;
            let rows = points.chunks_exact_mut(width);
            let rows = rows.zip(slopes.gradient.chunks_exact(width));
            for ((point, gradient), original) in rows.zip(seeds.original.chunks_exact(width)) {
                self.advance(point, gradient, original, options.range);
            }
            progress.tell(Event::Finished(seeds.len()))?;
        }
        Ok(points)
    }

    /// One step of one point, back into the ball and the range.
    fn advance(&self, point: &mut [f32], gradient: &[f32], original: &[f32], range: (f32, f32)) {
        match self.norm {
            AttackNorm::Maximum => {
                for ((p, &g), &x) in point.iter_mut().zip(gradient).zip(original) {
                    let moved = *p + self.step * sign(g) - x;
                    *p = x + moved.clamp(-self.epsilon, self.epsilon);
                }
            }
            AttackNorm::Euclidean => {
                let length = euclidean(gradient.iter().copied());
                // Without a gradient there is nowhere to go.
                let factor = match length > 0.0 && length.is_finite() {
                    true => f64::from(self.step) / length,
                    false => 0.0,
                };
                for (p, &g) in point.iter_mut().zip(gradient) {
                    *p += (factor * f64::from(g)) as f32;
                }
                let moved = euclidean(point.iter().zip(original).map(|(p, x)| p - x));
                let shrink = (f64::from(self.epsilon) / moved).min(1.0) as f32;
                if shrink < 1.0 {
                    for (p, &x) in point.iter_mut().zip(original) {
                        *p = x + (*p - x) * shrink;
                    }
                }
            }
        }
        for p in point {
            *p = p.clamp(range.0, range.1);
        }
    }
}

/// -1, 0 or 1; 0 also for what is no number.
fn sign(g: f32) -> f32 {
    if g > 0.0 {
        1.0
    } else if g < 0.0 {
        -1.0
    } else {
        0.0
    }
}

fn euclidean(numbers: impl Iterator<Item = f32>) -> f64 {
    let squares = numbers.map(|x| f64::from(x) * f64::from(x));
    squares.sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: (f32, f32) = (0.0, 1.0);

    fn advance(pgd: &Pgd, point: &[f32], gradient: &[f32], original: &[f32]) -> Vec<f32> {
        let mut point = point.to_vec();
        pgd.advance(&mut point, gradient, original, UNIT);
        point
    }

    #[test]
    fn a_step_in_the_maximum_norm() {
        let pgd = Pgd {
            step: 0.25,
            ..Pgd::maximum(0.375)
        };
        let original = [0.5, 0.5, 0.5, 0.125, 0.875];
        let point = [0.5, 0.75, 0.5, 0.125, 0.875];
        // A step of a quarter; no further than three eighths; nowhere; down to 0; up to 1.
        let found = advance(&pgd, &point, &[-3.0, 1e-9, 0.0, -1.0, 2.0], &original);
        assert_eq!(found, [0.25, 0.875, 0.5, 0.0, 1.0]);
        let stays = advance(&pgd, &point, &[f32::NAN; 5], &original);
        assert_eq!(stays, point);
    }

    #[test]
    fn a_step_in_the_euclidean_norm() {
        let pgd = Pgd {
            step: 0.25,
            ..Pgd::euclidean(0.5)
        };
        let original = [0.5, 0.25];
        // (3, 4) has length 5: a quarter along it is (0.15, 0.2).
        let found = advance(&pgd, &original, &[3.0, 4.0], &original);
        assert!(
            (found[0] - 0.65).abs() < 1e-6 && (found[1] - 0.45).abs() < 1e-6,
            "{found:?}"
        );
        // From (0.8, 0.65), half away, it only gets back to the surface.
        let far = [0.8, 0.65];
        let found = advance(&pgd, &far, &[3.0, 4.0], &original);
        assert!(
            (found[0] - 0.8).abs() < 1e-6 && (found[1] - 0.65).abs() < 1e-6,
            "{found:?}"
        );
        assert_eq!(advance(&pgd, &far, &[0.0, 0.0], &original)[0], 0.8);
    }

    proptest! {
        #[test]
        fn points_stay_in_the_ball_and_in_the_range(
            original in proptest::collection::vec(0.0f32..=1.0, 1..20),
            seed in any::<u64>(),
            epsilon in 0.0f32..1.0,
            step in 0.0f32..1.0,
            euclidean_norm in any::<bool>(),
        ) {
            let norm = if euclidean_norm { AttackNorm::Euclidean } else { AttackNorm::Maximum };
            let pgd = Pgd { norm, epsilon, step, ..Pgd::maximum(epsilon) };
            let mut point = original.clone();
            random::start(&mut point, norm, epsilon, seed, 0);
            for round in 0..4usize {
                let gradient: Vec<f32> = (0..original.len())
                    .map(|i| ((i + 1) as f32 * 0.618 + round as f32).fract() - 0.5)
                    .collect();
                pgd.advance(&mut point, &gradient, &original, UNIT);
                let moved = point.iter().zip(&original).map(|(p, x)| p - x);
                let distance = match norm {
                    AttackNorm::Maximum => moved.fold(0.0, |m: f32, d| m.max(d.abs())),
                    AttackNorm::Euclidean => euclidean(moved) as f32,
                };
                prop_assert!(distance <= epsilon + 1e-6, "{} {}", distance, epsilon);
                prop_assert!(point.iter().all(|p| (0.0..=1.0).contains(p)));
            }
        }
    }
}
