//! CC: cluster coverage (Odena et al., *TensorFuzz*).
//!
//! Each layer keeps the mean activations of some inputs: those of an input whose squared distance
//! to all that the layer keeps already exceeds option `threshold` (10). The value is the number
//! that all layers keep, their first inputs included. Which are kept depends on the order of the
//! inputs, so a suite must be measured in one run.

use crate::batch::Batch;
use crate::criterion::{Amount, Criterion, CriterionValue, LayerValues};
use crate::error::CriterionError;
use crate::needs::Needs;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::NetworkShape;
use crate::spec::{Options, Spec};
use crate::state::{Handle, Kept, KeptPart, State};
use crate::training::Training;

/// CC. Suites are merged by default, and its states cannot be.
pub(crate) const CC: Entry = Entry {
    name: "cc",
    summary: "activations that are far from all before them; in the order of inputs",
    meaning: Meaning::of_neurons(Unit::Count),
    is_default: false,
    create: Cc::create,
};

/// By layer, the activations that are far from all before them.
const KEPT: KeptPart = KeptPart("kept");

/// The criterion.
struct Cc {
    network: NetworkShape,
    threshold: f64,
}

impl Cc {
    /// As the options say.
    fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        let mut options = Options::of(spec);
        let fits = |threshold: f64| threshold >= 0.0 && threshold.is_finite();
        let criterion = Cc {
            network: network.clone(),
            threshold: options.number("threshold", 10.0, fits, "a number from 0 on")?,
        };
        options.end()?;
        Ok(Box::new(criterion))
    }

    /// For each layer, where the vectors that it keeps begin.
    fn places(&self, kept: &Kept) -> Option<Vec<Vec<usize>>> {
        let mut places = vec![Vec::new(); self.network.layers.len()];
        let mut start = 0;
        for &key in &kept.keys {
            places.get_mut(key as usize)?.push(start);
            start += self.network.layers[key as usize].neurons;
        }
        (start == kept.numbers.len()).then_some(places)
    }
}

/// Whether the squared distance of two vectors exceeds a threshold. Squares only add to it, so it
/// is enough that some of them do.
fn apart(a: &[f32], b: &[f32], threshold: f64) -> bool {
    const CHUNK: usize = 32;
    let mut squared = 0.0;
    for (a, b) in a.chunks(CHUNK).zip(b.chunks(CHUNK)) {
        for (&a, &b) in a.iter().zip(b) {
            let difference = f64::from(a) - f64::from(b);
            squared += difference * difference;
        }
        if squared > threshold {
            return true;
        }
    }
    false
}

impl Criterion for Cc {
    fn needs(&self) -> Needs {
        Needs::activations(&self.network)
    }

    fn ordered(&self) -> bool {
        true
    }

    fn state(&self) -> State {
        State::new([KEPT.with(Kept::default())])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        let kept = state.get_mut(KEPT)?;
        let unlike = || CriterionError::Unlike {
            part: "kept".to_owned(),
        };
        let mut places = self.places(kept).ok_or_else(unlike)?;
        // By input first, so that batches of any size keep the same in the same order.
        for input in 0..batch.len() {
            for (layer, places) in places.iter_mut().enumerate() {
                let row = batch.activations(layer)?.row(input);
                let far = |&start: &usize| {
                    apart(row, &kept.numbers[start..start + row.len()], self.threshold)
                };
                if places.iter().all(far) {
                    places.push(kept.numbers.len());
                    kept.keys.push(layer as u32);
                    kept.numbers.extend_from_slice(row);
                }
            }
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let kept = state.get(KEPT)?.keys.len();
        Ok(vec![CriterionValue::count("cc", kept as u64)])
    }

    fn by_layer(&self, state: &State) -> Result<Vec<LayerValues>, CriterionError> {
        let keys = &state.get(KEPT)?.keys;
        let layer = |layer: usize| {
            let kept = keys.iter().filter(|&&key| key as usize == layer).count();
            Amount::Count(kept as u64)
        };
        Ok(vec![LayerValues {
            name: "cc".to_owned(),
            layers: (0..self.network.layers.len()).map(layer).collect(),
        }])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::registry::create;
    use crate::shape::LayerShape;
    use crate::training::TrainingTable;
    use npcov_tap::{Column, Tap};

    /// What one layer of a neuron and one of two keep of inputs.
    fn kept(spec: &str, inputs: &[[f32; 3]]) -> (Vec<u32>, Vec<f32>) {
        let layer = |neurons| LayerShape {
            neurons,
            units: neurons,
        };
        let network = NetworkShape {
            layers: vec![layer(1), layer(2)],
            ..NetworkShape::default()
        };
        let rows = inputs.concat();
        let span = |start, len| Column {
            data: &rows,
            stride: 3,
            start,
            len,
        };
        let batch = Batch {
            predictions: &vec![0; inputs.len()],
            logits: Column::of(&[], 0),
            taps: vec![
                (Tap::activation(0), span(0, 1)),
                (Tap::activation(1), span(1, 2)),
            ],
            observations: &[],
            training: None,
        };
        let cc = create(&spec.parse().unwrap(), &network).unwrap();
        let mut state = cc.state();
        cc.observe(&batch, &TrainingTable::default(), &mut state)
            .unwrap();
        let Kept { keys, numbers } = state.get(KEPT).unwrap().clone();
        assert_eq!(
            cc.values(&state).unwrap()[0].amount,
            Amount::Count(keys.len() as u64)
        );
        let by_layer = &cc.by_layer(&state).unwrap()[0].layers;
        let sum: f64 = by_layer.iter().map(|amount| amount.value()).sum();
        assert_eq!(sum, keys.len() as f64);
        (keys, numbers)
    }

    #[test]
    fn what_is_far_from_all_is_kept() {
        let a = [0.0, 0.0, 0.0];
        // The squared distances to the first are 9 and 9 + 1, and 16 and 16 + 1.
        let b = [3.0, 3.0, 1.0];
        let c = [4.0, 4.0, 1.0];
        assert_eq!(kept("cc", &[a, b]), (vec![0, 1], vec![0.0; 3]));
        let all = [0.0, 0.0, 0.0, 4.0, 4.0, 1.0];
        assert_eq!(kept("cc", &[a, c]), (vec![0, 1, 0, 1], all.to_vec()));
        assert_eq!(kept("cc:threshold=9", &[a, b]).0, [0, 1, 1]);
        assert_eq!(kept("cc", &[]).0, [0; 0]);
    }

    #[test]
    fn the_order_matters() {
        let line = [0.0, 3.0, 6.0].map(|x| [x, 0.0, 0.0]);
        // From one end both ends are kept; from the middle nothing else.
        assert_eq!(kept("cc", &line).0, [0, 1, 0]);
        assert_eq!(kept("cc", &[line[1], line[0], line[2]]).0, [0, 1]);
    }

    #[test]
    fn a_damaged_state_is_refused() {
        let network = NetworkShape {
            layers: vec![LayerShape {
                neurons: 2,
                units: 2,
            }],
            ..NetworkShape::default()
        };
        let cc = create(&"cc".parse().unwrap(), &network).unwrap();
        let batch = Batch {
            predictions: &[0],
            logits: Column::of(&[], 0),
            taps: vec![(Tap::activation(0), Column::of(&[0.0; 2], 2))],
            observations: &[],
            training: None,
        };
        for (keys, numbers) in [(vec![7], vec![0.0; 2]), (vec![0], vec![0.0])] {
            let mut state = State::new([KEPT.with(Kept { keys, numbers })]);
            let result = cc.observe(&batch, &TrainingTable::default(), &mut state);
            assert!(matches!(result, Err(CriterionError::Unlike { .. })));
        }
    }

    proptest! {
        #[test]
        fn distances_are_those_of_whole_vectors(
            pairs in proptest::collection::vec((-4..5_i8, -4..5_i8), 0..100),
            threshold in 0..400_u32,
        ) {
            let a: Vec<f32> = pairs.iter().map(|pair| f32::from(pair.0)).collect();
            let b: Vec<f32> = pairs.iter().map(|pair| f32::from(pair.1)).collect();
            let squares = a.iter().zip(&b).map(|(a, b)| f64::from((a - b) * (a - b)));
            let whole = squares.sum::<f64>() > f64::from(threshold);
            prop_assert_eq!(apart(&a, &b, f64::from(threshold)), whole);
        }
    }
}
