//! NBC and SNAC: neuron boundary coverage and strong neuron activation coverage (DeepGauge).
//!
//! Training gave each neuron a range; what is covered lies beyond it. NBC counts both ends of each
//! neuron, SNAC the upper ones only. Options of both: `slack` (0), by how many standard deviations
//! of the training data the range is widened on each side, and `edges`: `strict` (the default) or
//! `inclusive`, where an activation on the boundary is beyond it.
//!
//! NBC has option `variant`: `classic` (the default), where each end is covered or not, or
//! `sections`, where what is beyond an end is cut into cells: `sections` (10) cells of the range's
//! width divided by `divisor` (1000), or of 0.05 where the range has no width, and one for all that
//! is farther away.

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

/// NBC.
pub(crate) const NBC: Entry = Entry {
    name: "nbc",
    summary: "ends of the range that training gave each neuron, covered from beyond",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: true,
    create: Boundary::nbc,
};

/// SNAC.
pub(crate) const SNAC: Entry = Entry {
    name: "snac",
    summary: "upper ends of the range that training gave each neuron, covered from beyond",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: true,
    create: Boundary::snac,
};

/// The cells beyond the ends of all neurons.
const CELLS: SetPart = SetPart("cells");

/// NBC, or its upper half.
struct Boundary {
    name: &'static str,
    network: NetworkShape,
    beyond: Beyond,
    /// 2 where the lower ends count too.
    ends: usize,
    ranges: NeuronRanges,
}

/// When an activation is beyond an end of a range, and how far.
#[derive(Clone, Copy, Debug)]
struct Beyond {
    slack: f64,
    inclusive: bool,
    /// Cells beyond each end.
    cells: usize,
    divisor: f64,
}

impl Beyond {
    /// The cells beyond the upper and the lower end that a value lies in. A neuron that training
    /// gave no range has no ends.
    fn cells_of(&self, x: f32, low: f32, high: f32, deviation: f32) -> [Option<usize>; 2] {
        let (x, low, high) = (f64::from(x), f64::from(low), f64::from(high));
        let slack = self.slack * f64::from(deviation);
        let width = match high - low {
            0.0 => 0.05,
            width => width / self.divisor,
        };
        [x - (high + slack), (low - slack) - x].map(|excess| {
            let beyond = excess > 0.0 || self.inclusive && excess == 0.0;
            let cell = ((excess / width) as usize).min(self.cells - 1);
            (low <= high && beyond).then_some(cell)
        })
    }
}

impl Boundary {
    /// NBC as the options say.
    fn nbc(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        let mut options = Options::of(spec);
        let variants = [("classic", false), ("sections", true)];
        let in_sections = options.word("variant", &variants)?;
        let sections = options.whole("sections", 10, 1..=10_000)?;
        let positive = |divisor: f64| divisor > 0.0 && divisor.is_finite();
        let divisor = options.number("divisor", 1000.0, positive, "a positive number")?;
        // One cell holds all that is farther away: without sections it is the only one.
        let cells = if in_sections { sections + 1 } else { 1 };
        Boundary::create("nbc", network, 2, cells, divisor, options)
    }

    /// SNAC as the options say.
    fn snac(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        Boundary::create("snac", network, 1, 1, 1.0, Options::of(spec))
    }

    fn create(
        name: &'static str,
        network: &NetworkShape,
        ends: usize,
        cells: usize,
        divisor: f64,
        mut options: Options<'_>,
    ) -> Result<Box<dyn Criterion>, CriterionError> {
        let fits = |slack: f64| slack >= 0.0 && slack.is_finite();
        let beyond = Beyond {
            slack: options.number("slack", 0.0, fits, "a number from 0 on")?,
            inclusive: options.word("edges", &[("strict", false), ("inclusive", true)])?,
            cells,
            divisor,
        };
        options.end()?;
        Ok(Box::new(Boundary {
            name,
            network: network.clone(),
            beyond,
            ends,
            ranges: NeuronRanges::default(),
        }))
    }

    /// Cells of one neuron.
    fn cells(&self) -> usize {
        self.ends * self.beyond.cells
    }
}

impl Criterion for Boundary {
    fn needs(&self) -> Needs {
        Needs::activations(&self.network)
    }

    fn fit(&self, training: &dyn Training) -> Result<Fit, CriterionError> {
        Ok(NeuronRanges::fit(training, self.network.neurons())?.store())
    }

    fn restore(&mut self, fit: Fit) -> Result<(), CriterionError> {
        self.ranges = NeuronRanges::restore(&fit, self.name, self.network.neurons())?;
        Ok(())
    }

    fn state(&self) -> State {
        let slots = self.network.neurons() * self.cells();
        State::new([CELLS.with(BitSet::new(slots))])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        let covered = state.get_mut(CELLS)?;
        let NeuronRanges {
            low,
            high,
            deviation,
        } = &self.ranges;
        let mut first = 0;
        for (layer, shape) in self.network.layers.iter().enumerate() {
            let activations = batch.activations(layer)?;
            for input in 0..batch.len() {
                for (i, &x) in activations.row(input).iter().enumerate() {
                    let n = first + i;
                    let cells = self.beyond.cells_of(x, low[n], high[n], deviation[n]);
                    for (end, cell) in cells.into_iter().enumerate().take(self.ends) {
                        if let Some(cell) = cell {
                            covered.insert(n * self.cells() + end * self.beyond.cells + cell);
                        }
                    }
                }
            }
            first += shape.neurons;
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let covered = state.get(CELLS)?;
        let total = self.network.neurons() * self.cells();
        let value = CriterionValue::share(self.name, covered.count(), total as u64);
        Ok(vec![value])
    }

    fn by_layer(&self, state: &State) -> Result<Vec<LayerValues>, CriterionError> {
        let covered = state.get(CELLS)?;
        let layer = |layer| {
            let first = self.network.first_neuron(layer) * self.cells();
            let total = self.network.layers[layer].neurons * self.cells();
            Amount::Share {
                covered: covered.count_in(first..first + total),
                total: total as u64,
            }
        };
        Ok(vec![LayerValues {
            name: self.name.to_owned(),
            layers: (0..self.network.layers.len()).map(layer).collect(),
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::create;
    use crate::shape::LayerShape;
    use crate::training::TrainingTable;
    use npcov_tap::{Column, Tap};

    /// What inputs are worth to a layer of two neurons with the ranges 0..1 and 2..2.
    fn value(spec: &str, inputs: &[[f32; 2]]) -> Amount {
        let network = NetworkShape {
            layers: vec![LayerShape {
                neurons: 2,
                units: 2,
            }],
            ..NetworkShape::default()
        };
        let training = TrainingTable {
            predictions: vec![0; 2],
            neurons: 2,
            activations: vec![0.0, 2.0, 1.0, 2.0],
            ..TrainingTable::default()
        };
        let mut criterion = create(&spec.parse().unwrap(), &network).unwrap();
        criterion
            .restore(criterion.fit(&training).unwrap())
            .unwrap();
        let rows = inputs.concat();
        let batch = Batch {
            predictions: &vec![0; inputs.len()],
            logits: Column::of(&[], 0),
            taps: vec![(Tap::activation(0), Column::of(&rows, 2))],
            observations: &[],
            training: None,
        };
        let mut state = criterion.state();
        criterion.observe(&batch, &training, &mut state).unwrap();
        let amount = criterion.values(&state).unwrap()[0].amount;
        assert_eq!(criterion.by_layer(&state).unwrap()[0].layers, [amount]);
        amount
    }

    fn share(covered: u64, total: u64) -> Amount {
        Amount::Share { covered, total }
    }

    #[test]
    fn ends_are_covered_from_beyond() {
        assert_eq!(value("nbc", &[[0.0, 2.0], [1.0, 2.0]]), share(0, 4));
        assert_eq!(value("nbc", &[[1.5, 2.0], [-0.5, 1.0]]), share(3, 4));
        assert_eq!(value("snac", &[[1.5, 2.0], [-0.5, 1.0]]), share(1, 2));
        // Twice beyond the same end counts once.
        assert_eq!(value("nbc", &[[1.5, 2.0], [9.0, 2.0]]), share(1, 4));
        assert_eq!(value("nbc", &[[f32::NAN, f32::NAN]]), share(0, 4));
    }

    #[test]
    fn boundaries_may_count() {
        // The second neuron's range is both its ends.
        assert_eq!(value("nbc:edges=inclusive", &[[1.0, 2.0]]), share(3, 4));
        assert_eq!(value("snac:edges=inclusive", &[[0.0, 2.0]]), share(1, 2));
    }

    #[test]
    fn slack_is_in_standard_deviations() {
        // The first neuron deviates by 1/2: the boundaries are -1/2 and 3/2.
        let spec = "nbc:slack=1";
        assert_eq!(value(spec, &[[1.5, 2.0], [-0.5, 2.0]]), share(0, 4));
        assert_eq!(value(spec, &[[1.6, 2.0], [-0.6, 2.0]]), share(2, 4));
        let inclusive = "snac:slack=1:edges=inclusive";
        assert_eq!(value(inclusive, &[[1.5, 0.0]]), share(1, 2));
    }

    #[test]
    fn cells_beyond_ends() {
        let beyond = Beyond {
            slack: 0.0,
            inclusive: false,
            cells: 11,
            divisor: 8.0,
        };
        // Cells of 1/8 beyond 0..1.
        let of = |x| beyond.cells_of(x, 0.0, 1.0, 0.0);
        assert_eq!(of(1.0), [None, None]);
        assert_eq!(of(1.0625), [Some(0), None]);
        assert_eq!(of(1.125), [Some(1), None]);
        assert_eq!(of(-0.25), [None, Some(2)]);
        assert_eq!(of(9.0), [Some(10), None]);
        assert_eq!(of(f32::NEG_INFINITY), [None, Some(10)]);
        // Cells of 0.05 where there is no width.
        assert_eq!(beyond.cells_of(0.12, 0.0, 0.0, 0.0), [Some(2), None]);
        // Nothing is known of a range without training inputs.
        let unknown = beyond.cells_of(1.0, f32::INFINITY, f32::NEG_INFINITY, 0.0);
        assert_eq!(unknown, [None, None]);
    }

    #[test]
    fn both_ends_have_cells_of_their_own() {
        // 22 cells for each neuron; the same distance beyond either end is two of them.
        let inputs = [[1.0005, 2.0], [-0.0005, 2.0]];
        assert_eq!(value("nbc:variant=sections", &inputs), share(2, 44));
        let few = "nbc:variant=sections:sections=2:divisor=1";
        assert_eq!(value(few, &[[1.5, 2.0], [2.5, 1.9]]), share(3, 12));
    }
}
