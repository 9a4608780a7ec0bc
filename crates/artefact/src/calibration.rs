//! Scores of inputs that a decision graph does not know, to hold other scores against.

use npcov_data::DataError;
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use serde::{Deserialize, Serialize};

use crate::error::ArtefactError;

/// What is told of a single input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScoreKind {
    /// How far its decision is from all that training showed of its class: the distance of its
    /// relevance profile to the nearest one.
    Unfamiliar,
    /// How much its decision looks like one of another class: the distance of its activations to the
    /// nearest ones of its class, divided by that to the nearest ones of any other.
    Contested,
}

impl ScoreKind {
    /// All kinds.
    pub const ALL: [ScoreKind; 2] = [ScoreKind::Unfamiliar, ScoreKind::Contested];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ScoreKind::Unfamiliar => "unfamiliar",
            ScoreKind::Contested => "contested",
        }
    }
}

/// The scores of calibration inputs: ones that the graph's neighbours were chosen without.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// By kind, ascending.
    scores: [Vec<f64>; 2],
}

impl Calibration {
    /// Of scores in any order.
    pub fn new(mut unfamiliar: Vec<f64>, mut contested: Vec<f64>) -> Calibration {
        unfamiliar.sort_unstable_by(f64::total_cmp);
        contested.sort_unstable_by(f64::total_cmp);
        Calibration {
            scores: [unfamiliar, contested],
        }
    }

    /// The scores of a kind, ascending.
    pub fn scores(&self, kind: ScoreKind) -> &[f64] {
        &self.scores[kind as usize]
    }

    /// How unusual a score is: the share of calibration inputs, and of the input itself, that have at
    /// least such a score. `None` without calibration inputs.
    pub fn p(&self, kind: ScoreKind, score: f64) -> Option<f64> {
        let scores = self.scores(kind);
        let below = scores.partition_point(|&other| other < score);
        let as_large = scores.len() - below;
        (!scores.is_empty()).then(|| (1 + as_large) as f64 / (1 + scores.len()) as f64)
    }

    /// Whether so small a `p` can be told with this many calibration inputs.
    pub fn tells(&self, kind: ScoreKind, p: f64) -> bool {
        1.0 / (1 + self.scores(kind).len()) as f64 <= p
    }

    pub(crate) fn specs(&self) -> impl Iterator<Item = TensorSpec> {
        ScoreKind::ALL.into_iter().map(|kind| {
            let count = self.scores(kind).len();
            TensorSpec::of::<f64>(tensor(kind), &[count])
        })
    }

    pub(crate) fn write(&self, writer: &mut SafetensorsWriter) -> Result<(), DataError> {
        let mut kinds = ScoreKind::ALL.into_iter();
        kinds.try_for_each(|kind| writer.append(&tensor(kind), self.scores(kind)))
    }

    pub(crate) fn read(reader: &SafetensorsReader) -> Result<Calibration, ArtefactError> {
        let [unfamiliar, contested] = ScoreKind::ALL.map(|kind| reader.read::<f64>(&tensor(kind)));
        let read = Calibration {
            scores: [unfamiliar?, contested?],
        };
        let is_score = |score: &f64| score.is_finite() && *score >= 0.0;
        match (read.scores.iter()).all(|list| list.is_sorted() && list.iter().all(is_score)) {
            true => Ok(read),
            false => Err(ArtefactError::Artefact {
                file: reader.name().to_owned(),
                reason: "its calibration scores are none".to_owned(),
            }),
        }
    }
}

/// The tensor with the scores of a kind.
fn tensor(kind: ScoreKind) -> String {
    format!("calibration.{}", kind.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_among_calibration_inputs() {
        // p = (1 + number of calibration inputs with at least the score) / (n + 1).
        let calibration = Calibration::new(vec![0.3, 0.1, 0.2, 0.2], Vec::new());
        let p = |score| calibration.p(ScoreKind::Unfamiliar, score).unwrap();
        assert_eq!([p(0.0), p(0.1), p(0.15)], [1.0, 1.0, 0.8]);
        assert_eq!([p(0.2), p(0.25), p(0.3), p(0.31)], [0.8, 0.4, 0.4, 0.2]);
        assert_eq!(calibration.p(ScoreKind::Contested, 0.5), None);
        assert!(calibration.tells(ScoreKind::Unfamiliar, 0.2));
        assert!(!calibration.tells(ScoreKind::Unfamiliar, 0.05));
    }
}
