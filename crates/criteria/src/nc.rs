//! NC: neuron coverage.
//!
//! A neuron is covered when its value, brought to a scale, exceeds a threshold. Option
//! `thresholds` (0/0.2/0.5/0.75) has one measure each, `nc@0.5`. What the value and the scale are
//! goes by option `variant`:
//!
//! * `harel` (the default; Harel-Canada et al., *Is neuron coverage a meaningful measure for
//!   testing deep neural networks?*): what convolutions and dense layers give, the logits included,
//!   is rectified unit by unit and summed over the suite, and the sums are scaled by the smallest
//!   and the largest of the layer. The suite is measured as a whole: more inputs can cover less.
//! * `deepxplore` (Pei et al., *DeepXplore*): all units of a layer are scaled by the smallest and
//!   the largest of that input; a neuron's value is the mean of its units.
//! * `neural-coverage` (the tool of Yuan et al., *Revisiting neuron coverage for DNN testing*): the
//!   means of the neurons of convolutions and dense layers, the logits included, scaled by the
//!   smallest and the largest mean of the layer for that input.
//! * `raw`: mean activations as they are.
//!
//! Where all numbers that a scale is taken from are the same, nothing is covered.

use crate::batch::Batch;
use crate::criterion::{Amount, Criterion, CriterionValue, LayerValues, Watching};
use crate::error::CriterionError;
use crate::needs::Needs;
use crate::rectified::RectifiedSums;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::{LayerShape, NetworkShape};
use crate::spec::{Options, Spec};
use crate::state::{BitSet, Handle, SetPart, State, SumsPart};
use crate::training::Training;
use npcov_tap::{Reduction, Shown, Side, Tap};

/// NC.
pub(crate) const NC: Entry = Entry {
    name: "nc",
    summary: "neurons whose scaled activation exceeds a threshold",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: true,
    create: Nc::create,
};

/// For `harel`, the sums of all units.
const SUMS: SumsPart = SumsPart("sums");

/// For the other variants, by threshold the neurons of all layers.
const NEURONS: SetPart = SetPart("neurons");

/// The criterion.
struct Nc {
    network: NetworkShape,
    variant: Variant,
    thresholds: Vec<f64>,
}

/// What is held against the thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Harel,
    DeepXplore,
    NeuralCoverage,
    Raw,
}

impl Nc {
    /// As the options say.
    fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        let mut options = Options::of(spec);
        let criterion = Nc {
            network: network.clone(),
            variant: options.word(
                "variant",
                &[
                    ("harel", Variant::Harel),
                    ("deepxplore", Variant::DeepXplore),
                    ("neural-coverage", Variant::NeuralCoverage),
                    ("raw", Variant::Raw),
                ],
            )?,
            thresholds: options.numbers("thresholds", &[0.0, 0.2, 0.5, 0.75])?,
        };
        options.end()?;
        Ok(Box::new(criterion))
    }

    /// Where it looks.
    fn side(&self) -> Side {
        match self.variant {
            Variant::Harel | Variant::NeuralCoverage => Side::Sum,
            Variant::DeepXplore | Variant::Raw => Side::After,
        }
    }

    /// The layers that it looks at.
    fn layers(&self) -> &[LayerShape] {
        match self.side() {
            Side::Sum => &self.network.sums,
            Side::Before | Side::After => &self.network.layers,
        }
    }

    /// What there is to cover in each layer.
    fn sizes(&self) -> Vec<usize> {
        let layers = self.layers().iter();
        match self.variant {
            Variant::Harel => layers.map(|layer| layer.units).collect(),
            _ => layers.map(|layer| layer.neurons).collect(),
        }
    }

    /// What the suite covers of each layer, for each threshold.
    fn covered(&self, state: &State) -> Result<Vec<Vec<u64>>, CriterionError> {
        let sizes = self.sizes();
        let total: usize = sizes.iter().sum();
        let at = |(i, &threshold): (usize, &f64)| {
            let mut first = 0;
            let layer = |&size: &usize| {
                let things = first..first + size;
                first += size;
                Ok(match self.variant {
                    Variant::Harel => above(&state.get(SUMS)?[things], threshold),
                    _ => {
                        let offset = i * total;
                        let set = state.get(NEURONS)?;
                        set.count_in(offset + things.start..offset + things.end)
                    }
                })
            };
            sizes.iter().map(layer).collect()
        };
        self.thresholds.iter().enumerate().map(at).collect()
    }

    fn tap(&self, layer: usize, reduction: Reduction) -> Tap {
        Tap {
            layer,
            side: self.side(),
            reduction,
        }
    }
}

/// How many sums, scaled by the smallest and the largest, exceed a threshold.
fn above(sums: &[i128], threshold: f64) -> u64 {
    let (Some(&low), Some(&high)) = (sums.iter().min(), sums.iter().max()) else {
        return 0;
    };
    // Sums are not negative, unless a damaged file says so.
    let range = high.saturating_sub(low) as f64;
    let exceeds = |&&sum: &&i128| sum.saturating_sub(low) as f64 / range > threshold;
    sums.iter().filter(exceeds).count() as u64
}

/// What one thread has seen of all units, by layer.
struct Watched(Vec<RectifiedSums>);

impl Watching for Watched {
    fn watch(&mut self, tap: Tap, numbers: Shown<'_>) {
        self.0[tap.layer].add(numbers);
    }

    fn hand_over(&mut self, state: &mut State) -> Result<(), CriterionError> {
        let mut sums = state.get_mut(SUMS)?;
        for layer in &mut self.0 {
            let foreign = || CriterionError::ForeignState {
                part: SUMS.name().to_owned(),
            };
            let (own, others) = sums
                .split_at_mut_checked(layer.units())
                .ok_or_else(foreign)?;
            layer.hand_over(own);
            sums = others;
        }
        Ok(())
    }
}

/// The smallest and the largest number.
fn range(numbers: &[f32]) -> (f32, f32) {
    let low = numbers.iter().copied().fold(f32::INFINITY, f32::min);
    let high = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    (low, high)
}

impl Criterion for Nc {
    fn needs(&self) -> Needs {
        let reductions: &[Reduction] = match self.variant {
            Variant::Harel => &[],
            Variant::DeepXplore => &[Reduction::Mean, Reduction::Min, Reduction::Max],
            Variant::NeuralCoverage | Variant::Raw => &[Reduction::Mean],
        };
        let layers = 0..self.layers().len();
        let watched = match self.variant {
            Variant::Harel => layers.clone(),
            _ => 0..0,
        };
        let layer = |layer| reductions.iter().map(move |&r| self.tap(layer, r));
        let units = |layer| self.tap(layer, Reduction::Units);
        Needs {
            watched: watched.map(units).collect(),
            ..Needs::taps(layers.flat_map(layer))
        }
    }

    fn sums(&self) -> usize {
        match self.variant {
            Variant::Harel => self.sizes().iter().sum(),
            _ => 0,
        }
    }

    fn state(&self) -> State {
        match self.variant {
            Variant::Harel => State::new([SUMS.with(vec![0; self.sums()])]),
            _ => {
                let total: usize = self.sizes().iter().sum();
                let set = BitSet::new(self.thresholds.len() * total);
                State::new([NEURONS.with(set)])
            }
        }
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        if self.variant == Variant::Harel {
            // Units are watched.
            return Ok(());
        }
        let sizes = self.sizes();
        let total: usize = sizes.iter().sum();
        let covered = state.get_mut(NEURONS)?;
        let mut first = 0;
        for (layer, &size) in sizes.iter().enumerate() {
            let column = |reduction| batch.tap(self.tap(layer, reduction));
            let means = column(Reduction::Mean)?;
            for input in 0..batch.len() {
                let row = means.row(input);
                let (low, high) = match self.variant {
                    Variant::DeepXplore => (
                        range(column(Reduction::Min)?.row(input)).0,
                        range(column(Reduction::Max)?.row(input)).1,
                    ),
                    Variant::NeuralCoverage => range(row),
                    Variant::Harel | Variant::Raw => (0.0, 1.0),
                };
                // A mean of equal units may be rounded away from them, so the range decides.
                if low >= high {
                    continue;
                }
                let (low, high) = (f64::from(low), f64::from(high));
                for (i, &x) in row.iter().enumerate() {
                    let scaled = (f64::from(x) - low) / (high - low);
                    for (t, &threshold) in self.thresholds.iter().enumerate() {
                        if scaled > threshold {
                            covered.insert(t * total + first + i);
                        }
                    }
                }
            }
            first += size;
        }
        Ok(())
    }

    fn watching(&self) -> Option<Box<dyn Watching>> {
        let layers = self.layers().iter();
        let sums = layers.map(|layer| RectifiedSums::new(layer.units));
        (self.variant == Variant::Harel).then(|| Box::new(Watched(sums.collect())) as _)
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let total: usize = self.sizes().iter().sum();
        let value = |(threshold, covered): (&f64, Vec<u64>)| {
            CriterionValue::share(name(*threshold), covered.iter().sum(), total as u64)
        };
        let covered = self.covered(state)?;
        Ok(self.thresholds.iter().zip(covered).map(value).collect())
    }

    fn by_layer(&self, state: &State) -> Result<Vec<LayerValues>, CriterionError> {
        // What is told by layer is told by path layer.
        if self.side() == Side::Sum {
            return Ok(Vec::new());
        }
        let sizes = self.sizes();
        let value = |(threshold, covered): (&f64, Vec<u64>)| {
            let layers = covered.into_iter().zip(&sizes);
            let share = |(covered, &size): (u64, &usize)| Amount::Share {
                covered,
                total: size as u64,
            };
            LayerValues {
                name: name(*threshold),
                layers: layers.map(share).collect(),
            }
        };
        let covered = self.covered(state)?;
        Ok(self.thresholds.iter().zip(covered).map(value).collect())
    }
}

fn name(threshold: f64) -> String {
    format!("nc@{threshold}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::create;
    use crate::training::TrainingTable;
    use npcov_tap::Column;

    /// Neurons of a layer that two inputs cover, given what goes into its ReLUs.
    fn covered(spec: &str, before: [[f32; 4]; 2]) -> Vec<usize> {
        let layer = LayerShape {
            neurons: 4,
            units: 4,
        };
        let network = NetworkShape {
            layers: vec![layer],
            sums: vec![layer],
            classes: 2,
            logits: 0,
            ..NetworkShape::default()
        };
        let before = before.concat();
        let after: Vec<f32> = before.iter().map(|x| x.max(0.0)).collect();
        let column = |side| match side {
            Side::Before | Side::Sum => Column::of(&before, 4),
            Side::After => Column::of(&after, 4),
        };
        let nc = create(&spec.parse().unwrap(), &network).unwrap();
        let needs = nc.needs();
        let batch = Batch {
            predictions: &[0, 0],
            logits: Column::of(&[], 0),
            taps: needs.taps.iter().map(|t| (*t, column(t.side))).collect(),
            observations: &[],
            training: None,
        };
        let mut state = nc.state();
        nc.observe(&batch, &TrainingTable::default(), &mut state)
            .unwrap();
        if let Some(mut watching) = nc.watching() {
            for tap in needs.watched {
                let rows = column(tap.side).data.chunks(4);
                rows.for_each(|row| watching.watch(tap, Shown::new(row, 1, 1)));
            }
            watching.hand_over(&mut state).unwrap();
        }
        let values = nc.values(&state).unwrap();
        let found: Vec<usize> = match state.get(SUMS) {
            Err(_) => state.get(NEURONS).unwrap().iter().collect(),
            // Which units exceed the threshold is not kept, only how far they came.
            Ok(sums) => {
                let threshold = values[0].name[3..].parse().unwrap();
                let (low, high) = (*sums.iter().min().unwrap(), *sums.iter().max().unwrap());
                let exceeds = |sum: i128| (sum - low) as f64 / (high - low) as f64 > threshold;
                (0..4).filter(|&i| exceeds(sums[i])).collect()
            }
        };
        let share = Amount::Share {
            covered: found.len() as u64,
            total: 4,
        };
        assert_eq!(values[0].amount, share);
        // Sums are no path layers, by which nothing can be told then.
        let by_layer = nc.by_layer(&state).unwrap();
        let of_path_layers = spec.contains("deepxplore") || spec.contains("raw");
        assert_eq!(!by_layer.is_empty(), of_path_layers);
        assert!(by_layer.iter().all(|values| values.layers == [share]));
        found
    }

    #[test]
    fn worked_case() {
        // Case 11.
        let before = [[-1.0, 0.0, 1.0, 3.0], [2.0, 0.0, -1.0, 1.0]];
        let of = |variant: &str, threshold: &str| {
            covered(
                &format!("nc:variant={variant}:thresholds={threshold}"),
                before,
            )
        };
        assert_eq!(of("deepxplore", "0.5"), [0, 3]);
        assert_eq!(of("neural-coverage", "0.5"), [0, 3]);
        assert_eq!(of("harel", "0.5"), [3]);
        assert_eq!(of("raw", "0.5"), [0, 2, 3]);
        assert_eq!(of("deepxplore", "0"), [0, 2, 3]);
        assert_eq!(of("harel", "0"), [0, 2, 3]);
        assert_eq!(of("raw", "0"), [0, 2, 3]);
        assert_eq!(of("neural-coverage", "0"), [0, 1, 2, 3]);
    }

    #[test]
    fn a_constant_layer_is_not_covered() {
        for variant in ["harel", "deepxplore", "neural-coverage"] {
            let spec = format!("nc:variant={variant}:thresholds=-1");
            assert_eq!(covered(&spec, [[2.0; 4]; 2]), [0; 0]);
        }
    }

    #[test]
    fn channels_are_scaled_by_all_their_units() {
        // Two channels of two units: (0, 1) and (2, 4). Scaled by 0..4 their means are 1/8 and 3/4.
        let network = NetworkShape {
            layers: vec![LayerShape {
                neurons: 2,
                units: 4,
            }],
            ..NetworkShape::default()
        };
        let spec = "nc:variant=deepxplore:thresholds=0.1/0.125/0.7/0.75";
        let nc = create(&spec.parse().unwrap(), &network).unwrap();
        let table = |reduction| -> &[f32] {
            match reduction {
                Reduction::Mean => &[0.5, 3.0],
                Reduction::Min => &[0.0, 2.0],
                _ => &[1.0, 4.0],
            }
        };
        let column = |tap: &Tap| (*tap, Column::of(table(tap.reduction), 2));
        let batch = Batch {
            predictions: &[0],
            logits: Column::of(&[], 0),
            taps: nc.needs().taps.iter().map(column).collect(),
            observations: &[],
            training: None,
        };
        let mut state = nc.state();
        nc.observe(&batch, &TrainingTable::default(), &mut state)
            .unwrap();
        let values = nc.values(&state).unwrap();
        let values: Vec<f64> = values.iter().map(|v| v.amount.value()).collect();
        assert_eq!(values, [1.0, 0.5, 0.5, 0.0]);
    }
}
