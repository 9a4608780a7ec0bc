//! DCT: combinations of neurons (Ma et al., *DeepCT: Tomographic Combinatorial Testing for Deep
//! Learning Systems*).
//!
//! A neuron is active for an input whose mean value before the activation function is above 0. So
//! two neurons of a layer are in one of four configurations, and a pair of them shows those that
//! some input has. Values, each over the pairs of all layers:
//!
//! * `dct`, the paper's dense coverage: the share of configurations that are shown;
//! * `dct@sparse`, its sparse coverage: the share of pairs that show all four;
//! * with option `p` (above 0, up to 1), its (p, 2)-completeness, as `dct@0.75` for a `p` of 0.75: the
//!   share of pairs that show at least three of the four.
//!
//! What is kept is a bit for each configuration of each pair, so that all of this is done for 64
//! pairs at a time. A neuron has four rows of bits: where it is silent or active and the other one is
//! silent or active. A row has the layer's neurons in order, from the word on that has the neuron
//! itself; bits up to that one are never set, because a pair belongs to the first of its two.

use crate::batch::Batch;
use crate::criterion::{Amount, Criterion, CriterionValue, LayerValues};
use crate::error::CriterionError;
use crate::needs::Needs;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::NetworkShape;
use crate::spec::{Options, Spec};
use crate::state::{BitSet, Handle, SetPart, State};
use crate::training::Training;
use npcov_tap::{Column, Reduction, Side, Tap};

/// DCT. A layer has many pairs, so it is measured when it is asked for.
pub(crate) const DCT: Entry = Entry {
    name: "dct",
    summary: "configurations, active or not, of pairs of neurons of a layer",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: false,
    create: Dct::create,
};

/// The configurations that pairs show.
const PAIRS: SetPart = SetPart("pairs");

/// The most bits of all layers together: a set of 128 MB, or one layer of 23,000 neurons.
const MOST_BITS: u64 = 1 << 30;

/// Configurations of two neurons.
const CONFIGURATIONS: usize = 4;

/// The criterion.
struct Dct {
    layers: Vec<Layer>,
    p: Option<f64>,
}

/// The pairs of a layer.
#[derive(Clone, Copy)]
struct Layer {
    neurons: usize,
    /// The first of its words in the set.
    start: usize,
}

/// The pairs of a neuron with those after it.
#[derive(Clone, Copy)]
struct Rows {
    neuron: usize,
    /// The first of their words in the set; each configuration has `len` words.
    start: usize,
    len: usize,
}

impl Layer {
    /// Words that have a bit for each neuron.
    fn width(&self) -> usize {
        self.neurons.div_ceil(64)
    }

    fn pairs(&self) -> u64 {
        let neurons = self.neurons as u64;
        neurons * neurons.saturating_sub(1) / 2
    }

    /// For each neuron but the last, which has none after it.
    fn rows(self) -> impl Iterator<Item = Rows> {
        let neurons = 0..self.neurons.saturating_sub(1);
        neurons.scan(self.start, move |next, neuron| {
            let (start, len) = (*next, self.width() - neuron / 64);
            *next += CONFIGURATIONS * len;
            Some(Rows { neuron, start, len })
        })
    }

    /// How many words there are in all rows.
    fn words(&self) -> u64 {
        let (rows, width) = (self.neurons.saturating_sub(1), self.width());
        let word = |word: usize| {
            let rows = rows.saturating_sub(64 * word).min(64);
            (rows * (width - word) * CONFIGURATIONS) as u64
        };
        (0..width).map(word).sum()
    }

    /// Adds the configurations that inputs show.
    fn add(self, values: Column<'_>, inputs: usize, shown: &mut BitSet) {
        let width = self.width();
        // For each input, the neurons that are silent and those that are active.
        let mut neurons = vec![[0_u64; 2]; inputs * width];
        for (input, words) in neurons.chunks_exact_mut(width.max(1)).enumerate() {
            for (neuron, &value) in (0..self.neurons).zip(values.row(input)) {
                words[neuron / 64][usize::from(value > 0.0)] |= 1 << (neuron % 64);
            }
        }
        let mut seen = vec![0; CONFIGURATIONS * width];
        for rows in self.rows() {
            let (word, bit) = (rows.neuron / 64, rows.neuron % 64);
            let seen = &mut seen[..CONFIGURATIONS * rows.len];
            seen.fill(0);
            let (silent, active) = seen.split_at_mut(2 * rows.len);
            for words in neurons.chunks_exact(width) {
                let own = match words[word][1] >> bit & 1 {
                    0 => &mut *silent,
                    _ => &mut *active,
                };
                let (with_silent, with_active) = own.split_at_mut(rows.len);
                let others = &words[word..];
                for ((silent, active), other) in with_silent.iter_mut().zip(with_active).zip(others)
                {
                    *silent |= other[0];
                    *active |= other[1];
                }
            }
            // Not with itself, nor with those before it.
            let after = u64::MAX << bit << 1;
            seen.iter_mut()
                .step_by(rows.len)
                .for_each(|first| *first &= after);
            shown.insert_words(rows.start, seen);
        }
    }

    /// How many pairs show at least so many configurations, of one to four.
    fn with_at_least(self, configurations: usize, shown: &BitSet) -> u64 {
        let pairs = |rows: Rows| {
            let word = |word: usize| {
                let of =
                    |configuration| shown.words()[rows.start + configuration * rows.len + word];
                let [a, b, c, d] = [of(0), of(1), of(2), of(3)];
                let found = match configurations {
                    0 | 1 => a | b | c | d,
                    2 => (a & b) | (c & d) | ((a | b) & (c | d)),
                    3 => (a & b & (c | d)) | (c & d & (a | b)),
                    _ => a & b & c & d,
                };
                u64::from(found.count_ones())
            };
            (0..rows.len).map(word).sum::<u64>()
        };
        self.rows().map(pairs).sum()
    }
}

impl Dct {
    /// As the options say.
    fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        let mut options = Options::of(spec);
        let share = |p: f64| p > 0.0 && p <= 1.0;
        let p = options.number("p", 0.0, share, "a number above 0, up to 1")?;
        options.end()?;
        let mut words = 0;
        let mut layers = Vec::new();
        for shape in &network.layers {
            let start = words as usize;
            let layer = Layer {
                neurons: shape.neurons,
                start,
            };
            words += layer.words();
            if words * 64 > MOST_BITS {
                return Err(CriterionError::Fit {
                    criterion: "dct".to_owned(),
                    reason: format!("a layer of {} neurons has too many pairs", shape.neurons),
                });
            }
            layers.push(layer);
        }
        let p = share(p).then_some(p);
        Ok(Box::new(Dct { layers, p }))
    }

    fn tap(layer: usize) -> Tap {
        Tap {
            layer,
            side: Side::Before,
            reduction: Reduction::Mean,
        }
    }

    /// Bits of all layers.
    fn bits(&self) -> usize {
        let words: u64 = self.layers.iter().map(Layer::words).sum();
        words as usize * 64
    }

    /// The names of values, and what some layers are worth by each.
    fn worth(
        &self,
        layers: &[Layer],
        state: &State,
    ) -> Result<Vec<(String, Amount)>, CriterionError> {
        let shown = state.get(PAIRS)?;
        if shown.bound() != self.bits() {
            return Err(CriterionError::ForeignState {
                part: PAIRS.name().to_owned(),
            });
        }
        let pairs: u64 = layers.iter().map(Layer::pairs).sum();
        let words = |layer: &Layer| layer.start * 64..(layer.start + layer.words() as usize) * 64;
        let dense = layers.iter().map(|layer| shown.count_in(words(layer)));
        let with_at_least = |configurations: usize| Amount::Share {
            covered: (layers.iter())
                .map(|layer| layer.with_at_least(configurations, shown))
                .sum(),
            total: pairs,
        };
        let dense = Amount::Share {
            covered: dense.sum(),
            total: CONFIGURATIONS as u64 * pairs,
        };
        let mut worth = vec![
            ("dct".to_owned(), dense),
            ("dct@sparse".to_owned(), with_at_least(CONFIGURATIONS)),
        ];
        if let Some(p) = self.p {
            let least = (p * CONFIGURATIONS as f64).ceil() as usize;
            worth.push((format!("dct@{p}"), with_at_least(least)));
        }
        Ok(worth)
    }
}

impl Criterion for Dct {
    fn needs(&self) -> Needs {
        Needs::taps((0..self.layers.len()).map(Dct::tap))
    }

    fn state(&self) -> State {
        State::new([PAIRS.with(BitSet::new(self.bits()))])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        let shown = state.get_mut(PAIRS)?;
        for (i, layer) in self.layers.iter().enumerate() {
            layer.add(batch.tap(Dct::tap(i))?, batch.len(), shown);
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let worth = self.worth(&self.layers, state)?.into_iter();
        Ok(worth
            .map(|(name, amount)| CriterionValue { name, amount })
            .collect())
    }

    fn by_layer(&self, state: &State) -> Result<Vec<LayerValues>, CriterionError> {
        let names = self.worth(&[], state)?.into_iter();
        let mut values: Vec<LayerValues> = names
            .map(|(name, _)| LayerValues {
                name,
                layers: Vec::new(),
            })
            .collect();
        for &layer in &self.layers {
            let worth = self.worth(&[layer], state)?;
            for (values, (_, amount)) in values.iter_mut().zip(worth) {
                values.layers.push(amount);
            }
        }
        Ok(values)
    }

    /// Configurations. Which pairs show many of them follows, and is nothing more to cover.
    fn things(&self) -> Result<Option<u64>, CriterionError> {
        let pairs: u64 = self.layers.iter().map(Layer::pairs).sum();
        Ok(Some(CONFIGURATIONS as u64 * pairs))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::registry::create;
    use crate::shape::LayerShape;
    use crate::training::TrainingTable;

    fn network(layers: &[usize]) -> NetworkShape {
        let layer = |&neurons: &usize| LayerShape {
            neurons,
            units: neurons,
        };
        NetworkShape {
            layers: layers.iter().map(layer).collect(),
            ..NetworkShape::default()
        }
    }

    /// What inputs are worth to layers, which have their numbers one after the other.
    fn measured(spec: &str, layers: &[usize], inputs: &[Vec<f32>]) -> (Box<dyn Criterion>, State) {
        let dct = create(&spec.parse().unwrap(), &network(layers)).unwrap();
        let rows = inputs.concat();
        let mut start = 0;
        let tap = |(i, &len): (usize, &usize)| {
            let column = Column {
                data: &rows,
                stride: layers.iter().sum(),
                start,
                len,
            };
            start += len;
            (Dct::tap(i), column)
        };
        let batch = Batch {
            predictions: &vec![0; inputs.len()],
            logits: Column::of(&[], 0),
            taps: layers.iter().enumerate().map(tap).collect(),
            observations: &[],
            training: None,
        };
        let mut state = dct.state();
        dct.observe(&batch, &TrainingTable::default(), &mut state)
            .unwrap();
        (dct, state)
    }

    /// Names and shares of values.
    fn shares(dct: &dyn Criterion, state: &State) -> Vec<(String, u64, u64)> {
        let values = dct.values(state).unwrap().into_iter();
        let share = |value: CriterionValue| match value.amount {
            Amount::Share { covered, total } => (value.name, covered, total),
            other => panic!("{other:?}"),
        };
        values.map(share).collect()
    }

    #[test]
    fn worked_case() {
        // Inputs 110, 010, 100 and 001. The first two neurons show all configurations; each of them
        // and the third are never active together.
        let [on, off] = [0.5, -0.5];
        let inputs = [
            [on, on, off],
            [off, on, off],
            [on, off, off],
            [off, off, on],
        ];
        let inputs = inputs.map(|input| input.to_vec());
        let (dct, state) = measured("dct:p=0.75", &[3], &inputs);
        let share = |name: &str, covered, total| (name.to_owned(), covered, total);
        let expected = [
            share("dct", 10, 12),
            share("dct@sparse", 1, 3),
            share("dct@0.75", 3, 3),
        ];
        assert_eq!(shares(&*dct, &state), expected);
        assert_eq!(dct.things().unwrap(), Some(12));
        let (dct, state) = measured("dct:p=1", &[3], &inputs);
        assert_eq!(shares(&*dct, &state)[2], share("dct@1", 1, 3));
    }

    #[test]
    fn pairs_are_of_one_layer() {
        // Two layers of two neurons, and one that has no pair.
        let inputs = [[1.0, -1.0, 1.0, 1.0, 1.0], [f32::NAN, 0.0, 2.0, 2.0, 2.0]];
        let (dct, state) = measured("dct", &[2, 1, 2], &inputs.map(|input| input.to_vec()));
        // What is 0 or no number is not active.
        assert_eq!(shares(&*dct, &state)[0], ("dct".to_owned(), 3, 8));
        let by_layer = dct.by_layer(&state).unwrap();
        let share = |covered, total| Amount::Share { covered, total };
        assert_eq!(by_layer[0].layers, [share(2, 4), share(0, 0), share(1, 4)]);
        assert_eq!(by_layer[1].layers, [share(0, 1), share(0, 0), share(0, 1)]);
    }

    #[test]
    fn layers_that_are_too_large_are_refused() {
        let wide = |neurons| create(&"dct".parse().unwrap(), &network(&[neurons]));
        assert!(
            wide(4096).is_ok_and(|dct| dct.state().get(PAIRS).unwrap().bound() < 8 * 4_300_000)
        );
        assert!(matches!(wide(30_000), Err(CriterionError::Fit { .. })));
        assert!(matches!(wide(1 << 27), Err(CriterionError::Fit { .. })));
        assert!(create(&"dct:p=0".parse().unwrap(), &network(&[2])).is_err());
    }

    #[test]
    fn states_of_other_networks_are_refused() {
        let (dct, _) = measured("dct", &[3], &[]);
        let (_, foreign) = measured("dct", &[70], &[]);
        assert!(dct.values(&foreign).is_err() && dct.by_layer(&foreign).is_err());
    }

    proptest! {
        #[test]
        fn as_defined(
            layers in prop::collection::vec(0..140_usize, 1..3),
            seed in prop::collection::vec(any::<u64>(), 5),
            inputs in 0..6_usize,
            quarters in 1..5_u8,
        ) {
            let width: usize = layers.iter().sum();
            // Words of a few patterns, so that pairs have something in common.
            let value = |input: usize, place: usize| {
                let word = seed[(input * 3 + place / 64) % 5].rotate_left((input * 7) as u32);
                if word >> (place % 64) & 1 == 1 { 1.0 } else { -1.0 }
            };
            let row = |input| (0..width).map(|place| value(input, place)).collect::<Vec<f32>>();
            let rows: Vec<Vec<f32>> = (0..inputs).map(row).collect();
            let p = f64::from(quarters) / 4.0;
            let (dct, state) = measured(&format!("dct:p={p}"), &layers, &rows);

            let (mut pairs, mut dense, mut sparse, mut complete) = (0, 0, 0, 0);
            let mut first = 0;
            for &neurons in &layers {
                for a in first..first + neurons {
                    for b in a + 1..first + neurons {
                        let shown: BTreeSet<(bool, bool)> =
                            rows.iter().map(|row| (row[a] > 0.0, row[b] > 0.0)).collect();
                        pairs += 1;
                        dense += shown.len() as u64;
                        sparse += u64::from(shown.len() == 4);
                        complete += u64::from(shown.len() as f64 / 4.0 >= p);
                    }
                }
                first += neurons;
            }
            let counts: Vec<(u64, u64)> =
                shares(&*dct, &state).into_iter().map(|(_, covered, total)| (covered, total)).collect();
            prop_assert_eq!(counts, [(dense, 4 * pairs), (sparse, pairs), (complete, pairs)]);
            prop_assert_eq!(dct.slots(&state).unwrap().len() as u64, dense);
        }
    }
}
