//! The attack of Carlini and Wagner: the smallest change that is enough.

use npcov_program::Term;
use serde::{Deserialize, Serialize};

use crate::objective::{Objective, Slopes};
use crate::seeds::Seeds;
use crate::{AttackNorm, AttackOptions, finite, parameter, positive};
use npcov_run::RunError;
use npcov_run::Signature;
use npcov_run::{Event, Network, Progress};

/// A loss that is larger than this part of that at the last look is not getting better.
const PROGRESS: f64 = 0.9999;
/// So many steps a round makes at least before its progress is judged. Adam's first steps move every
/// pixel by the rate, further than most need to go: a loss that rises there says nothing.
const PATIENCE: usize = 100;
/// The factor of an input is looked for by tens up to here, above it by halves.
const LARGE_FACTOR: f64 = 1e9;
/// No factor is larger.
const LARGEST_FACTOR: f64 = 1e10;

/// The attack of Carlini and Wagner (2017): descends `c max(k - m, 0)` plus the size of the change,
/// `m` being how far the best other class is above the label's, and looks for the `c` of each input
/// at which the change is smallest.
///
/// The variable is not the pixel but the inverse hyperbolic tangent of it, so that all pixels stay
/// within a [box](CarliniWagner::tanh_box). The size is the squared length of the change in the
/// Euclidean norm, and its largest pixel in the maximum norm. After a round without success `c`
/// becomes ten times larger; once there is a `c` that was enough, the next one is halfway between it
/// and the largest that was not.
///
/// The result is the smallest misclassified point, or the input where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CarliniWagner {
    /// What changes are measured in.
    pub norm: AttackNorm,
    /// How far above the label's logit another one must be: `k`.
    pub confidence: f32,
    /// How many factors `c` are tried.
    pub rounds: usize,
    /// At most so many steps for each. After every tenth of them, and 100 at least, a round ends that
    /// makes no progress.
    pub steps: usize,
    /// The rate of Adam.
    pub learning_rate: f32,
    /// The first `c`.
    pub first_factor: f32,
    /// Where pixels can be; by default in their range.
    pub tanh_box: Option<(f32, f32)>,
    /// Pixels are brought this much nearer to the middle of the box first: at its edges the inverse
    /// is infinite.
    pub shrink: f32,
    /// Whether a round goes on where the last one ended, instead of at the input.
    pub carry_on: bool,
}

impl CarliniWagner {
    /// The attack in the Euclidean norm.
    pub fn euclidean() -> CarliniWagner {
        CarliniWagner {
            norm: AttackNorm::Euclidean,
            confidence: 0.0,
            rounds: 9,
            steps: 1000,
            learning_rate: 0.01,
            first_factor: 1e-3,
            tanh_box: None,
            shrink: 0.999_999,
            carry_on: false,
        }
    }

    /// The attack in the maximum norm, as it was used to make diverse suites (Harel-Canada et al.
    /// 2020). They had pixels between -1 and 1 in [`tanh_box`](CarliniWagner::tanh_box).
    pub fn maximum() -> CarliniWagner {
        CarliniWagner {
            norm: AttackNorm::Maximum,
            rounds: 5,
            learning_rate: 5e-4,
            shrink: 0.99,
            carry_on: true,
            ..CarliniWagner::euclidean()
        }
    }

    pub(crate) fn check(&self, range: (f32, f32)) -> Result<(), RunError> {
        finite("confidence", self.confidence, 0.0)?;
        positive("rounds", self.rounds)?;
        positive("steps", self.steps)?;
        finite("learning rate", self.learning_rate, 0.0)?;
        finite("first factor", self.first_factor, f32::MIN_POSITIVE)?;
        if !(self.shrink > 0.0 && self.shrink < 1.0) {
            return parameter("shrink", self.shrink, "a number between 0 and 1");
        }
        match self.tanh_box {
            Some((low, high))
                if !(low <= range.0 && high >= range.1 && (high - low).is_finite()) =>
            {
                parameter(
                    "the box of tanh",
                    format!("{low},{high}"),
                    "one that contains the range of pixels",
                )
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn objective<'n>(
        &self,
        network: &'n Network,
        options: &AttackOptions,
    ) -> Result<Objective<'n>, RunError> {
        Objective::new(network, Term::Hinge, options)
    }

    /// The smallest point of each seed that is misclassified, and whether there is one.
    pub(crate) fn run(
        &self,
        network: &Network,
        objective: &Objective<'_>,
        seeds: &Seeds<'_>,
        options: &AttackOptions,
        progress: &mut dyn Progress,
    ) -> Result<(Vec<f32>, Vec<bool>), RunError> {
        let mut descent = Descent::new(self, network, objective, seeds, options);
        let mut search = vec![Search::new(self.first_factor); seeds.len()];
        for round in 0..self.rounds {
            if !self.carry_on && round > 0 {
                descent.restart();
            }
            let factors: Vec<f32> = search.iter().map(|s| s.factor as f32).collect();
            let enough = descent.round(&factors, progress)?;
            for (search, enough) in search.iter_mut().zip(enough) {
                search.next(enough);
            }
        }
        let found = descent.smallest.iter().map(|size| size.is_finite());
        let found = found.collect();
        Ok((descent.best, found))
    }
}

/// The descents of all seeds.
struct Descent<'a> {
    attack: &'a CarliniWagner,
    network: &'a Network,
    objective: &'a Objective<'a>,
    seeds: &'a Seeds<'a>,
    lambda: f64,
    tanh: Tanh,
    /// The seeds in the space of the variable, and how far from them the variable is.
    centre: Vec<f32>,
    moved: Vec<f32>,
    adam: Adam,
    points: Vec<f32>,
    slopes: Slopes,
    /// The smallest points that were enough, and how large their change is.
    best: Vec<f32>,
    smallest: Vec<f64>,
}

impl<'a> Descent<'a> {
    fn new(
        attack: &'a CarliniWagner,
        network: &'a Network,
        objective: &'a Objective<'a>,
        seeds: &'a Seeds<'a>,
        options: &AttackOptions,
    ) -> Descent<'a> {
        let tanh = Tanh::new(attack.tanh_box.unwrap_or(options.range), attack.shrink);
        let centre: Vec<f32> = seeds.original.iter().map(|&x| tanh.inverse(x)).collect();
        Descent {
            attack,
            network,
            objective,
            seeds,
            lambda: options.diversity().map_or(0.0, |d| d.lambda),
            tanh,
            moved: vec![0.0; centre.len()],
            adam: Adam::new(seeds.len(), seeds.width(), attack.learning_rate),
            points: seeds.original.clone(),
            slopes: Slopes::default(),
            best: seeds.original.clone(),
            smallest: vec![f64::INFINITY; seeds.len()],
            centre,
        }
    }

    /// Back to the seeds.
    fn restart(&mut self) {
        self.moved.fill(0.0);
        self.adam = Adam::new(self.seeds.len(), self.seeds.width(), self.adam.rate);
    }

    /// A descent with one factor for each seed, and whether it was enough.
    fn round(
        &mut self,
        factors: &[f32],
        progress: &mut dyn Progress,
    ) -> Result<Vec<bool>, RunError> {
        let (seeds, steps) = (self.seeds, self.attack.steps);
        let look = steps.div_ceil(10).max(PATIENCE);
        let mut enough = vec![false; seeds.len()];
        let mut losses = vec![0.0; seeds.len()];
        let mut last = vec![f64::INFINITY; seeds.len()];
        let mut last_of_all = f64::INFINITY;
        let mut going: Vec<usize> = (0..seeds.len()).collect();
        for step in 0..steps {
            self.step(factors, &going, &mut losses, &mut enough)?;
            progress.tell(Event::Finished(seeds.len()))?;
            if step % look == 0 {
                if let Some(divergence) = self.objective.divergence(seeds, &self.points)? {
                    // The regulariser makes one descent of all: they end together.
                    let loss = losses.iter().sum::<f64>() + self.lambda * divergence;
                    if !is_better(loss, last_of_all) {
                        going.clear();
                    }
                    last_of_all = loss;
                } else {
                    going.retain(|&at| is_better(losses[at], last[at]));
                    last.copy_from_slice(&losses);
                }
            }
            if going.is_empty() {
                progress.tell(Event::Finished(
                    (steps - step - 1).saturating_mul(seeds.len()),
                ))?;
                break;
            }
        }
        Ok(enough)
    }

    /// One step of some seeds.
    fn step(
        &mut self,
        factors: &[f32],
        going: &[usize],
        losses: &mut [f64],
        enough: &mut [bool],
    ) -> Result<(), RunError> {
        let (seeds, tanh) = (self.seeds, &self.tanh);
        let signature = self.network.signature();
        let width = seeds.width();
        let row = |at: usize| at * width..(at + 1) * width;
        for i in going.iter().flat_map(|&at| row(at)) {
            self.points[i] = tanh.pixel(self.centre[i] + self.moved[i]);
        }
        let confidence = vec![self.attack.confidence; seeds.len()];
        let numbers = [&seeds.labels[..], factors, &confidence];
        let (lambda, slopes) = (self.lambda, &mut self.slopes);
        self.objective
            .evaluate(seeds, &self.points, going, &numbers, lambda, slopes)?;
        for &at in going {
            let (point, gradient) = (&self.points[row(at)], &mut slopes.gradient[row(at)]);
            let logits = signature.logits();
            let logits = &slopes.logits[at * logits..(at + 1) * logits];
            let label = seeds.labels[at] as usize;
            let size = change(self.attack.norm, point, &seeds.original[row(at)], gradient);
            let missing = f64::from(self.attack.confidence) - margin(signature, logits, label);
            losses[at] = f64::from(factors[at]) * missing.max(0.0) + size;
            if is_beyond(signature, logits, label, self.attack.confidence) {
                enough[at] = true;
                if size < self.smallest[at] {
                    self.smallest[at] = size;
                    self.best[row(at)].copy_from_slice(point);
                }
            }
            for (g, &p) in gradient.iter_mut().zip(point) {
                *g *= tanh.slope(p);
            }
            self.adam.advance(at, &mut self.moved[row(at)], gradient);
        }
        Ok(())
    }
}

fn is_better(loss: f64, last: f64) -> bool {
    loss <= PROGRESS * last
}

/// How far the best other class is above the label's.
fn margin(signature: &Signature, logits: &[f32], label: usize) -> f64 {
    let own = signature.logit(logits, label).unwrap_or(0.0);
    if let [_] = logits {
        return -f64::from(own);
    }
    let others = logits
        .iter()
        .enumerate()
        .filter(|(class, _)| *class != label);
    let best = others.fold(f32::NEG_INFINITY, |best, (_, &z)| best.max(z));
    f64::from(best) - f64::from(own)
}

/// Whether another class is predicted even if the label's logit is `confidence` higher.
pub(crate) fn is_beyond(
    signature: &Signature,
    logits: &[f32],
    label: usize,
    confidence: f32,
) -> bool {
    let mut raised = logits.to_vec();
    match &mut raised[..] {
        [single] if label == 0 => *single -= confidence,
        [single] => *single += confidence,
        several => {
            if let Some(own) = several.get_mut(label) {
                *own += confidence;
            }
        }
    }
    signature.predict(&raised) != label
}

/// The size of a change; its derivatives are added to a gradient.
fn change(norm: AttackNorm, point: &[f32], original: &[f32], gradient: &mut [f32]) -> f64 {
    let moved = || point.iter().zip(original).map(|(p, x)| p - x);
    match norm {
        AttackNorm::Euclidean => {
            for (g, d) in gradient.iter_mut().zip(moved()) {
                *g += 2.0 * d;
            }
            moved().map(|d| f64::from(d) * f64::from(d)).sum()
        }
        AttackNorm::Maximum => {
            let largest = moved().fold(0.0, |m: f32, d| m.max(d.abs()));
            if largest > 0.0 {
                // Several that are largest share the slope.
                let shared = moved().filter(|d| d.abs() == largest).count() as f32;
                for (g, d) in gradient.iter_mut().zip(moved()) {
                    if d.abs() == largest {
                        *g += d.signum() / shared;
                    }
                }
            }
            f64::from(largest)
        }
    }
}

/// Pixels of a box as hyperbolic tangents.
struct Tanh {
    middle: f32,
    half: f32,
    shrink: f32,
}

impl Tanh {
    fn new((low, high): (f32, f32), shrink: f32) -> Tanh {
        Tanh {
            middle: (low + high) / 2.0,
            half: (high - low) / 2.0,
            shrink,
        }
    }

    fn inverse(&self, pixel: f32) -> f32 {
        (self.shrink * ((pixel - self.middle) / self.half)).atanh()
    }

    fn pixel(&self, w: f32) -> f32 {
        let pixel = self.middle + self.half * w.tanh();
        pixel.clamp(self.middle - self.half, self.middle + self.half)
    }

    /// `d pixel / d w = half (1 - tanh^2)`.
    fn slope(&self, pixel: f32) -> f32 {
        let t = (pixel - self.middle) / self.half;
        self.half * (1.0 - t * t)
    }
}

/// The search for the factor of one input.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Search {
    factor: f64,
    /// The largest that was not enough.
    low: f64,
    /// The smallest that was enough.
    high: f64,
}

impl Search {
    fn new(first: f32) -> Search {
        Search {
            factor: f64::from(first),
            low: 0.0,
            high: LARGEST_FACTOR,
        }
    }

    /// The factor after a round.
    fn next(&mut self, enough: bool) {
        match enough {
            true => self.high = self.high.min(self.factor),
            false => self.low = self.low.max(self.factor),
        }
        self.factor = match self.high < LARGE_FACTOR {
            true => (self.low + self.high) / 2.0,
            false => (self.factor * 10.0).min(LARGEST_FACTOR),
        };
    }
}

/// Adam (Kingma and Ba 2015) with the usual decay rates, for each input on its own.
struct Adam {
    rate: f32,
    width: usize,
    /// Steps that each input has made.
    steps: Vec<i32>,
    mean: Vec<f32>,
    square: Vec<f32>,
}

const MEAN_DECAY: f32 = 0.9;
const SQUARE_DECAY: f32 = 0.999;

impl Adam {
    fn new(inputs: usize, width: usize, rate: f32) -> Adam {
        Adam {
            rate,
            width,
            steps: vec![0; inputs],
            mean: vec![0.0; inputs * width],
            square: vec![0.0; inputs * width],
        }
    }

    /// One step down of the input at a position.
    fn advance(&mut self, position: usize, x: &mut [f32], gradient: &[f32]) {
        let row = position * self.width..(position + 1) * self.width;
        self.steps[position] += 1;
        let steps = self.steps[position];
        let rate = self.rate / (1.0 - MEAN_DECAY.powi(steps));
        let correction = (1.0 - SQUARE_DECAY.powi(steps)).sqrt();
        let moments = self.mean[row.clone()].iter_mut().zip(&mut self.square[row]);
        for ((x, &g), (mean, square)) in x.iter_mut().zip(gradient).zip(moments) {
            // What is no number tells no direction.
            let g = if g.is_finite() { g } else { 0.0 };
            *mean += (1.0 - MEAN_DECAY) * (g - *mean);
            *square += (1.0 - SQUARE_DECAY) * (g * g - *square);
            *x -= rate * *mean / (square.sqrt() / correction + 1e-8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sequences follow from the rule: tens while nothing was enough, then halves.
    #[test]
    fn the_search_for_a_factor() {
        let run = |rounds: &[bool]| {
            let mut search = Search::new(1.0);
            let next = rounds.iter().map(|&enough| {
                search.next(enough);
                search.factor
            });
            next.collect::<Vec<f64>>()
        };
        assert_eq!(run(&[false, false, true, false]), [10.0, 100.0, 55.0, 77.5]);
        assert_eq!(run(&[true, true, false]), [0.5, 0.25, 0.375]);
        assert_eq!(run(&[false; 12])[9..], [1e10; 3]);
    }

    /// Adam's first step has the length of the rate, whatever the gradient.
    #[test]
    fn steps_of_adam() {
        let mut adam = Adam::new(2, 2, 0.1);
        let mut x = [1.0, 1.0];
        adam.advance(1, &mut x, &[5.0, -0.001]);
        assert!(
            (x[0] - 0.9).abs() < 1e-5 && (x[1] - 1.1).abs() < 1e-4,
            "{x:?}"
        );
        // The same gradient again: mean and square are those of the first step.
        adam.advance(1, &mut x, &[5.0, -0.001]);
        assert!((x[0] - 0.8).abs() < 1e-5, "{x:?}");
        let before = x;
        adam.advance(0, &mut x, &[f32::NAN, 0.0]);
        assert_eq!(x, before);
    }

    #[test]
    fn pixels_and_the_variable() {
        for (low, high) in [(0.0, 1.0), (-1.0, 1.0), (0.0, 255.0)] {
            let tanh = Tanh::new((low, high), 0.99);
            for part in [0.0, 0.1, 0.5, 0.99, 1.0] {
                let pixel = low + part * (high - low);
                let middle = (low + high) / 2.0;
                let near = middle + 0.99 * (pixel - middle);
                let w = tanh.inverse(pixel);
                assert!((tanh.pixel(w) - near).abs() < 1e-5 * high);
                let slope = (tanh.pixel(w + 1e-2) - tanh.pixel(w - 1e-2)) / 2e-2;
                assert!((tanh.slope(tanh.pixel(w)) - slope).abs() < 1e-3 * high);
            }
            assert!(tanh.pixel(100.0) <= high && tanh.pixel(-100.0) >= low);
        }
    }

    #[test]
    fn sizes_and_their_slopes() {
        let (point, original) = ([0.5, 0.25, 0.0], [0.25, 0.5, 0.0]);
        let mut gradient = [1.0, 1.0, 1.0];
        let size = change(AttackNorm::Euclidean, &point, &original, &mut gradient);
        assert_eq!((size, gradient), (0.125, [1.5, 0.5, 1.0]));
        let mut gradient = [0.0; 3];
        let size = change(AttackNorm::Maximum, &point, &original, &mut gradient);
        assert_eq!((size, gradient), (0.25, [0.5, -0.5, 0.0]));
        let nothing = change(AttackNorm::Maximum, &point, &point, &mut gradient);
        assert_eq!((nothing, gradient), (0.0, [0.5, -0.5, 0.0]));
    }
}
