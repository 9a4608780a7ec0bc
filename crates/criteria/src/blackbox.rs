//! Scores of inputs from the network's output alone: DeepGini, entropy, margin and max-softmax.
//!
//! With p as the softmax of the logits and p1, p2 as its largest members, the score of an input is
//!
//! * `deepgini`: 1 - sum p^2 (Feng et al., *DeepGini*);
//! * `entropy`: -sum p ln p;
//! * `margin`: 1 - (p1 - p2);
//! * `max-softmax`: 1 - p1.
//!
//! The higher the score, the less sure the network is. Scores are for choosing inputs; the value of
//! a suite is their mean, or 0 without inputs. A single logit tells two classes apart, whose
//! probabilities are its sigmoid and the rest. There are no options.

use crate::batch::Batch;
use crate::criterion::{Criterion, CriterionValue};
use crate::error::CriterionError;
use crate::registry::{Entry, Meaning, Unit};
use crate::spec::{Options, Spec};
use crate::state::{Handle, ScoresPart, State};
use crate::training::Training;

/// What it means that scores are lower.
const SURE: Meaning = Meaning {
    unit: Unit::MeanScore,
    lower: "the model is surer of the suite's inputs, which makes them less telling,",
    of_paths: false,
    of_similarity: false,
};

/// DeepGini.
pub(crate) const DEEPGINI: Entry = Entry {
    name: "deepgini",
    summary: "mean score of how unsure the network is: Gini impurity of its output",
    meaning: SURE,
    is_default: true,
    create: |spec, _| BlackBox::create(spec, "deepgini", deepgini),
};

/// Entropy.
pub(crate) const ENTROPY: Entry = Entry {
    name: "entropy",
    summary: "mean score of how unsure the network is: entropy of its output",
    meaning: SURE,
    is_default: true,
    create: |spec, _| BlackBox::create(spec, "entropy", entropy),
};

/// Margin.
pub(crate) const MARGIN: Entry = Entry {
    name: "margin",
    summary: "mean score of how unsure the network is: small margin of the first class",
    meaning: SURE,
    is_default: true,
    create: |spec, _| BlackBox::create(spec, "margin", margin),
};

/// Max-softmax.
pub(crate) const MAX_SOFTMAX: Entry = Entry {
    name: "max-softmax",
    summary: "mean score of how unsure the network is: small probability of the first class",
    meaning: SURE,
    is_default: true,
    create: |spec, _| BlackBox::create(spec, "max-softmax", max_softmax),
};

/// One of the scores.
struct BlackBox {
    name: &'static str,
    score: fn(&[f64]) -> f64,
}

impl BlackBox {
    /// The scores of a suite.
    fn scores(&self) -> ScoresPart {
        ScoresPart(self.name)
    }

    fn create(
        spec: &Spec,
        name: &'static str,
        score: fn(&[f64]) -> f64,
    ) -> Result<Box<dyn Criterion>, CriterionError> {
        Options::of(spec).end()?;
        Ok(Box::new(BlackBox { name, score }))
    }
}

fn deepgini(probabilities: &[f64]) -> f64 {
    1.0 - probabilities.iter().map(|p| p * p).sum::<f64>()
}

fn entropy(probabilities: &[f64]) -> f64 {
    let term = |&p: &f64| if p == 0.0 { 0.0 } else { p * -p.ln() };
    probabilities.iter().map(term).sum()
}

fn margin(probabilities: &[f64]) -> f64 {
    let (first, second) = largest(probabilities);
    1.0 - (first - second)
}

fn max_softmax(probabilities: &[f64]) -> f64 {
    1.0 - largest(probabilities).0
}

/// The two largest numbers.
fn largest(probabilities: &[f64]) -> (f64, f64) {
    let next = |(first, second): (f64, f64), &p: &f64| match p > first {
        true => (p, first),
        false => (first, second.max(p)),
    };
    probabilities.iter().fold((0.0, 0.0), next)
}

/// The probabilities of classes.
fn softmax(logits: &[f32], probabilities: &mut Vec<f64>) {
    probabilities.clear();
    // The sigmoid of a logit is what softmax gives it beside a logit of 0.
    if logits.len() == 1 {
        probabilities.push(0.0);
    }
    probabilities.extend(logits.iter().map(|&z| f64::from(z)));
    let largest = probabilities.iter().copied().fold(f64::MIN, f64::max);
    for z in probabilities.iter_mut() {
        *z = (*z - largest).exp();
    }
    let sum: f64 = probabilities.iter().sum();
    for e in probabilities.iter_mut() {
        *e /= sum;
    }
}

impl Criterion for BlackBox {
    fn state(&self) -> State {
        State::new([self.scores().with(Vec::new())])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        let scores = state.get_mut(self.scores())?;
        let mut probabilities = Vec::new();
        for input in 0..batch.len() {
            softmax(batch.logits.row(input), &mut probabilities);
            scores.push((self.score)(&probabilities));
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let scores = state.get(self.scores())?;
        let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        Ok(vec![CriterionValue::number(self.name, mean)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::create;
    use crate::shape::NetworkShape;
    use crate::training::TrainingTable;
    use npcov_tap::Column;

    const NAMES: [&str; 4] = ["deepgini", "entropy", "margin", "max-softmax"];

    /// The scores of inputs, and the value of the suite.
    fn scores(name: &str, logits: &[&[f32]]) -> (Vec<f64>, f64) {
        let criterion = create(&name.parse().unwrap(), &NetworkShape::default()).unwrap();
        let rows = logits.concat();
        let batch = Batch {
            predictions: &vec![0; logits.len()],
            logits: Column::of(&rows, logits.first().map_or(0, |row| row.len())),
            taps: Vec::new(),
            observations: &[],
            training: None,
        };
        let mut state = criterion.state();
        criterion
            .observe(&batch, &TrainingTable::default(), &mut state)
            .unwrap();
        let mean = criterion.values(&state).unwrap()[0].amount.value();
        let (_, scores) = state.all_scores().next().unwrap();
        (scores.to_vec(), mean)
    }

    fn assert_close(got: f64, wanted: f64) {
        assert!((got - wanted).abs() < 1e-7, "{got} is not {wanted}");
    }

    #[test]
    fn by_hand() {
        // Logits ln 1, ln 2, ln 5 have the probabilities 1/8, 1/4, 5/8.
        let logits = [1.0_f32, 2.0, 5.0].map(f32::ln);
        let wanted = [
            1.0 - (1.0 + 4.0 + 25.0) / 64.0,
            (8_f64.ln() + 2.0 * 4_f64.ln() + 5.0 * 1.6_f64.ln()) / 8.0,
            1.0 - 3.0 / 8.0,
            3.0 / 8.0,
        ];
        for (name, wanted) in NAMES.into_iter().zip(wanted) {
            assert_close(scores(name, &[&logits]).0[0], wanted);
        }
    }

    #[test]
    fn one_logit_is_two_classes() {
        // The sigmoid of ln 3 is 3/4.
        let wanted = [0.375, 4_f64.ln() - 0.75 * 3_f64.ln(), 0.5, 0.25];
        for (name, wanted) in NAMES.into_iter().zip(wanted) {
            let (scores, mean) = scores(name, &[&[3_f32.ln()], &[-(3_f32.ln())]]);
            assert_close(scores[0], wanted);
            assert_close(scores[1], wanted);
            assert_close(mean, wanted);
        }
    }

    #[test]
    fn the_value_is_the_mean() {
        let (each, mean) = scores("max-softmax", &[&[0.0, 0.0], &[1000.0, -1000.0]]);
        assert_eq!((each, mean), (vec![0.5, 0.0], 0.25));
        // No probability is too small for a logarithm.
        assert_eq!(scores("entropy", &[&[1000.0, -1000.0]]).1, 0.0);
        assert_eq!(scores("deepgini", &[]), (vec![], 0.0));
    }
}
