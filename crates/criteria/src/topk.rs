//! TKNC and TKNP: top-k neuron coverage and top-k neuron patterns (DeepGauge).
//!
//! For an input, the top neurons of a layer are the k with the largest activations; of equal ones
//! the first. TKNC is the share of neurons that are among the top ones for some input. TKNP counts
//! the distinct patterns, which are the top neurons of all layers together. Option of both: `k` (3).
//! Option `order` of TKNP: `set` (the default), where the top neurons of a layer have no order, or
//! `list`, where they go from the largest activation down.

use crate::batch::Batch;
use crate::criterion::{Amount, Criterion, CriterionValue, LayerValues};
use crate::error::CriterionError;
use crate::needs::Needs;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::NetworkShape;
use crate::spec::{Options, Spec};
use crate::state::{BitSet, Handle, Patterns, PatternsPart, SetPart, State};
use crate::training::Training;

/// TKNC.
pub(crate) const TKNC: Entry = Entry {
    name: "tknc",
    summary: "neurons that are among the k most active ones of their layer",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: true,
    create: Tknc::create,
};

/// TKNP.
pub(crate) const TKNP: Entry = Entry {
    name: "tknp",
    summary: "distinct patterns of the k most active neurons of all layers",
    meaning: Meaning::of_neurons(Unit::Count),
    is_default: true,
    create: Tknp::create,
};

/// Neurons of all layers that were among the top ones.
const NEURONS: SetPart = SetPart("neurons");

/// Top neurons of all layers together.
const PATTERNS: PatternsPart = PatternsPart("patterns");

/// Neurons that are among the top ones.
struct Tknc {
    network: NetworkShape,
    k: usize,
}

/// Patterns of top neurons.
struct Tknp {
    network: NetworkShape,
    k: usize,
    ordered: bool,
}

/// Finds top neurons.
struct Top {
    k: usize,
    /// The largest activations so far, from the largest down, with their neurons.
    best: Vec<(f32, u32)>,
}

impl Top {
    fn new(k: usize) -> Top {
        Top {
            k,
            best: Vec::new(),
        }
    }

    /// The neurons with the k largest activations, from the largest down.
    fn of(&mut self, activations: &[f32]) -> impl Iterator<Item = u32> {
        self.best.clear();
        for (neuron, &x) in activations.iter().enumerate() {
            let x = if x.is_nan() { f32::NEG_INFINITY } else { x };
            if self.best.len() == self.k {
                match self.best.last() {
                    Some((smallest, _)) if x > *smallest => self.best.pop(),
                    _ => continue,
                };
            }
            let place = self.best.partition_point(|(better, _)| *better >= x);
            self.best.insert(place, (x, neuron as u32));
        }
        self.best.iter().map(|(_, neuron)| *neuron)
    }
}

fn k(options: &mut Options<'_>) -> Result<usize, CriterionError> {
    options.whole("k", 3, 1..=1_000_000)
}

impl Tknc {
    /// As the options say.
    fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        let mut options = Options::of(spec);
        let criterion = Tknc {
            network: network.clone(),
            k: k(&mut options)?,
        };
        options.end()?;
        Ok(Box::new(criterion))
    }
}

impl Criterion for Tknc {
    fn needs(&self) -> Needs {
        Needs::activations(&self.network)
    }

    fn state(&self) -> State {
        let set = BitSet::new(self.network.neurons());
        State::new([NEURONS.with(set)])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        let covered = state.get_mut(NEURONS)?;
        let mut top = Top::new(self.k);
        for layer in 0..self.network.layers.len() {
            let activations = batch.activations(layer)?;
            let first = self.network.first_neuron(layer);
            for input in 0..batch.len() {
                for neuron in top.of(activations.row(input)) {
                    covered.insert(first + neuron as usize);
                }
            }
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let covered = state.get(NEURONS)?.count();
        let total = self.network.neurons() as u64;
        Ok(vec![CriterionValue::share("tknc", covered, total)])
    }

    fn by_layer(&self, state: &State) -> Result<Vec<LayerValues>, CriterionError> {
        let covered = state.get(NEURONS)?;
        let layer = |layer| {
            let first = self.network.first_neuron(layer);
            let neurons = self.network.layers[layer].neurons;
            Amount::Share {
                covered: covered.count_in(first..first + neurons),
                total: neurons as u64,
            }
        };
        Ok(vec![LayerValues {
            name: "tknc".to_owned(),
            layers: (0..self.network.layers.len()).map(layer).collect(),
        }])
    }
}

impl Tknp {
    /// As the options say.
    fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        let mut options = Options::of(spec);
        let criterion = Tknp {
            network: network.clone(),
            k: k(&mut options)?,
            ordered: options.word("order", &[("set", false), ("list", true)])?,
        };
        options.end()?;
        Ok(Box::new(criterion))
    }
}

impl Criterion for Tknp {
    fn needs(&self) -> Needs {
        Needs::activations(&self.network)
    }

    fn state(&self) -> State {
        let layers = self.network.layers.iter();
        let width = layers.map(|layer| layer.neurons.min(self.k)).sum();
        State::new([PATTERNS.with(Patterns::new(width))])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        let patterns = state.get_mut(PATTERNS)?;
        let layers = 0..self.network.layers.len();
        let columns = layers.map(|layer| batch.activations(layer));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let mut top = Top::new(self.k);
        let mut pattern = Vec::with_capacity(patterns.width());
        for input in 0..batch.len() {
            pattern.clear();
            for activations in &columns {
                let start = pattern.len();
                pattern.extend(top.of(activations.row(input)));
                if !self.ordered {
                    pattern[start..].sort_unstable();
                }
            }
            patterns.insert(&pattern);
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let patterns = state.get(PATTERNS)?.count();
        Ok(vec![CriterionValue::count("tknp", patterns)])
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

    /// What inputs are worth to layers of three and two neurons.
    fn value(spec: &str, inputs: &[[f32; 5]]) -> Amount {
        let layer = |neurons| LayerShape {
            neurons,
            units: neurons,
        };
        let network = NetworkShape {
            layers: vec![layer(3), layer(2)],
            ..NetworkShape::default()
        };
        let rows = inputs.concat();
        let span = |start, len| Column {
            data: &rows,
            stride: 5,
            start,
            len,
        };
        let batch = Batch {
            predictions: &vec![0; inputs.len()],
            logits: Column::of(&[], 0),
            taps: vec![
                (Tap::activation(0), span(0, 3)),
                (Tap::activation(1), span(3, 2)),
            ],
            observations: &[],
            training: None,
        };
        let criterion = create(&spec.parse().unwrap(), &network).unwrap();
        let mut state = criterion.state();
        criterion
            .observe(&batch, &TrainingTable::default(), &mut state)
            .unwrap();
        criterion.values(&state).unwrap()[0].amount
    }

    #[test]
    fn top_neurons_are_united() {
        let inputs = [[3.0, 2.0, 1.0, 0.0, 0.0], [1.0, 2.0, 2.0, 0.0, 1.0]];
        let share = |covered| Amount::Share { covered, total: 5 };
        // {0} and {1} of three, {0} and {1} of two.
        assert_eq!(value("tknc:k=1", &inputs), share(4));
        // {0, 1} and {1, 2} of three, and the whole second layer.
        assert_eq!(value("tknc:k=2", &inputs), share(5));
        assert_eq!(value("tknc:k=2", &inputs[..1]), share(4));
        assert_eq!(value("tknc", &inputs[..1]), share(5));
    }

    #[test]
    fn patterns_are_those_of_all_layers() {
        let inputs = [
            [3.0, 2.0, 1.0, 5.0, 4.0],
            [2.0, 3.0, 1.0, 5.0, 4.0],
            [2.0, 3.0, 1.0, 4.0, 5.0],
            [3.0, 1.0, 2.0, 5.0, 4.0],
        ];
        assert_eq!(value("tknp:k=2", &inputs), Amount::Count(2));
        assert_eq!(value("tknp:k=2:order=list", &inputs), Amount::Count(4));
        assert_eq!(value("tknp", &inputs), Amount::Count(1));
    }

    proptest! {
        #[test]
        fn the_first_of_a_sorted_layer(
            activations in proptest::collection::vec((-3..4_i8).prop_map(f32::from), 0..12),
            k in 1..14_usize,
        ) {
            let mut neurons: Vec<u32> = (0..activations.len() as u32).collect();
            // A stable sort leaves equal ones as they are.
            neurons.sort_by(|&a, &b| activations[b as usize].total_cmp(&activations[a as usize]));
            neurons.truncate(k);
            prop_assert_eq!(Top::new(k).of(&activations).collect::<Vec<_>>(), neurons);
        }
    }

    #[test]
    fn what_is_no_number_comes_last() {
        let top: Vec<u32> = Top::new(2).of(&[f32::NAN, -1.0, -2.0]).collect();
        assert_eq!(top, [1, 2]);
    }
}
