//! KMNC: k-multisection neuron coverage (DeepGauge).
//!
//! The range that training gave each neuron is cut into equal sections; a section is covered when
//! an input's activation lies in it. Options: `sections` (1000), and `edges`, which says where
//! values on the edges of sections belong:
//! `closed` (the default: a section begins with its lower edge, the last one has its upper edge
//! too), `lower-open` (a section ends with its upper edge; the lowest value lies in none) or
//! `upper-open` (the highest value lies in none).

use crate::batch::Batch;
use crate::criterion::{Amount, Criterion, CriterionValue, LayerValues};
use crate::error::CriterionError;
use crate::fit::Fit;
use crate::needs::Needs;
use crate::ranges::NeuronRanges;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::NetworkShape;
use crate::spec::{Options, Spec};
use crate::state::{BitSet, Handle, SetPart, State};
use crate::training::Training;

/// KMNC.
pub(crate) const KMNC: Entry = Entry {
    name: "kmnc",
    summary: "sections of the range that training gave each neuron",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: true,
    create: Kmnc::create,
};

/// The sections of all neurons.
const SECTIONS: SetPart = SetPart("sections");

/// The most sections of all neurons together: a set of 512 MB.
const MOST_SECTIONS: usize = 1 << 32;

/// The criterion.
struct Kmnc {
    network: NetworkShape,
    sections: usize,
    edges: Edges,
    ranges: NeuronRanges,
}

/// Where values on the edges of sections belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edges {
    Closed,
    LowerOpen,
    UpperOpen,
}

impl Kmnc {
    /// As the options say.
    fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        let mut options = Options::of(spec);
        let criterion = Kmnc {
            network: network.clone(),
            sections: options.whole("sections", 1000, 1..=1_000_000)?,
            edges: options.word(
                "edges",
                &[
                    ("closed", Edges::Closed),
                    ("lower-open", Edges::LowerOpen),
                    ("upper-open", Edges::UpperOpen),
                ],
            )?,
            ranges: NeuronRanges::default(),
        };
        options.end()?;
        if network.neurons().saturating_mul(criterion.sections) > MOST_SECTIONS {
            return Err(CriterionError::Fit {
                criterion: "kmnc".to_owned(),
                reason: format!("{} neurons have too many sections", network.neurons()),
            });
        }
        Ok(Box::new(criterion))
    }
}

/// The section of `low..high` that a value lies in, from 0; `None` outside, and where the range is
/// empty.
fn section(x: f32, low: f32, high: f32, sections: usize, edges: Edges) -> Option<usize> {
    if !(low < high && x >= low && x <= high) {
        return None;
    }
    let (x, low, high) = (f64::from(x), f64::from(low), f64::from(high));
    let place = (x - low) / (high - low) * sections as f64;
    match edges {
        Edges::Closed => Some((place as usize).min(sections - 1)),
        Edges::LowerOpen => (place.ceil() as usize).checked_sub(1),
        Edges::UpperOpen => Some(place as usize).filter(|&section| section < sections),
    }
}

impl Criterion for Kmnc {
    fn needs(&self) -> Needs {
        Needs::activations(&self.network)
    }

    fn fit(&self, training: &dyn Training) -> Result<Fit, CriterionError> {
        Ok(NeuronRanges::fit(training, self.network.neurons())?.store())
    }

    fn restore(&mut self, fit: Fit) -> Result<(), CriterionError> {
        self.ranges = NeuronRanges::restore(&fit, "kmnc", self.network.neurons())?;
        Ok(())
    }

    fn state(&self) -> State {
        let slots = self.network.neurons() * self.sections;
        State::new([SECTIONS.with(BitSet::new(slots))])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        let covered = state.get_mut(SECTIONS)?;
        let mut first = 0;
        for (layer, shape) in self.network.layers.iter().enumerate() {
            let activations = batch.activations(layer)?;
            for input in 0..batch.len() {
                for (i, &x) in activations.row(input).iter().enumerate() {
                    let neuron = first + i;
                    let (low, high) = (self.ranges.low[neuron], self.ranges.high[neuron]);
                    if let Some(section) = section(x, low, high, self.sections, self.edges) {
                        covered.insert(neuron * self.sections + section);
                    }
                }
            }
            first += shape.neurons;
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let covered = state.get(SECTIONS)?;
        let total = self.network.neurons() * self.sections;
        let value = CriterionValue::share("kmnc", covered.count(), total as u64);
        Ok(vec![value])
    }

    fn by_layer(&self, state: &State) -> Result<Vec<LayerValues>, CriterionError> {
        let covered = state.get(SECTIONS)?;
        let layer = |layer| {
            let first = self.network.first_neuron(layer) * self.sections;
            let total = self.network.layers[layer].neurons * self.sections;
            Amount::Share {
                covered: covered.count_in(first..first + total),
                total: total as u64,
            }
        };
        Ok(vec![LayerValues {
            name: "kmnc".to_owned(),
            layers: (0..self.network.layers.len()).map(layer).collect(),
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_case() {
        // Case 12: low 0, high 1, four sections, counted from 1.
        let of = |x, edges| section(x, 0.0, 1.0, 4, edges).map(|s| s + 1);
        let all = |x| [Edges::Closed, Edges::LowerOpen, Edges::UpperOpen].map(|e| of(x, e));
        assert_eq!(all(0.0), [Some(1), None, Some(1)]);
        assert_eq!(all(0.25), [Some(2), Some(1), Some(2)]);
        assert_eq!(all(1.0), [Some(4), Some(4), None]);
        assert_eq!(all(1.2), [None; 3]);
        assert_eq!(section(1.0, 1.0, 1.0, 4, Edges::Closed), None);
    }
}
