//! IDC: importance-driven coverage (DeepImportance).
//!
//! The neurons of a layer that matter most for decisions are chosen by their relevance, summed over
//! training inputs. The training activations of each are [clustered](crate::line); an input is the
//! vector of the centroids nearest to its activations, of equally near ones the first. The value
//! is the share of distinct vectors among all there could be.
//!
//! Options: `layer` (the last path layer), `neurons` (12, at most those of the layer) and `zeros`:
//! with `drop`, the default, training activations of 0 are left out when clustering, with `keep`
//! they are not. A neuron with fewer than ten activations has the single centroid 0. Centroids are
//! rounded to two decimals; where that makes two equal, only the first is ever met, but both count
//! among what there could be.

use crate::batch::Batch;
use crate::criterion::{Criterion, CriterionValue};
use crate::error::CriterionError;
use crate::fit::{Fit, FitNumbers};
use crate::line::{self, Runs};
use crate::needs::Needs;
use crate::per_input::PerInput;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::NetworkShape;
use crate::spec::{Options, Spec};
use crate::state::{FixedPart, Handle, Patterns, PatternsPart, State};
use crate::training::{Training, TrainingError, read_blocks_of};
use npcov_tap::Tap;
use std::ops::Range;

/// IDC.
pub(crate) const IDC: Entry = Entry {
    name: "idc",
    summary: "combinations of the activation clusters of the neurons that matter most",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: true,
    create: Idc::create,
};

/// Vectors of nearest centroids.
const VECTORS: PatternsPart = PatternsPart("vectors");

/// How many centroids each neuron has.
const CENTROIDS: FixedPart = FixedPart("centroids");

/// With fewer activations there is nothing to cluster.
const FEWEST: usize = 10;

/// Training inputs whose activations of a neuron are sorted at a time.
const RUN: usize = 1 << 12;

/// Neurons whose activations are sorted together.
const TOGETHER: usize = 64;

/// The criterion.
struct Idc {
    layer: usize,
    /// The layer's first neuron among those of all layers, and how many it has.
    first: usize,
    width: usize,
    /// How many neurons are chosen.
    chosen: usize,
    keep_zeros: bool,
    fitted: Option<Vec<Important>>,
}

/// A neuron that was chosen.
#[derive(Clone, Debug, PartialEq)]
struct Important {
    /// Its position in the layer.
    neuron: usize,
    centroids: Vec<f64>,
}

impl Important {
    /// The nearest centroid.
    fn place(&self, x: f32) -> u32 {
        let apart = |centroid: f64| (f64::from(x) - centroid).abs();
        let mut nearest = 0;
        for (i, &centroid) in self.centroids.iter().enumerate() {
            if apart(centroid) < apart(self.centroids[nearest]) {
                nearest = i;
            }
        }
        nearest as u32
    }
}

impl Idc {
    /// As the options say.
    fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        let mut options = Options::of(spec);
        let layer = options.layer("layer", network.layers.len())?;
        let width = network.layers[layer].neurons;
        let chosen = options.whole("neurons", 12, 1..=100_000)?;
        let criterion = Idc {
            layer,
            first: network.first_neuron(layer),
            width,
            chosen: chosen.min(width),
            keep_zeros: options.word("zeros", &[("drop", false), ("keep", true)])?,
            fitted: None,
        };
        options.end()?;
        Ok(Box::new(criterion))
    }

    /// The activations of some neurons that count, sorted by neuron among [`RUN`] training inputs at a time: run by run,
    /// those of each neuron. And of each neuron how many there are.
    fn sorted(
        &self,
        training: &dyn Training,
        neurons: &[usize],
    ) -> Result<(PerInput, Vec<usize>), CriterionError> {
        let of_run = RUN * neurons.len();
        let runs = training.inputs().div_ceil(RUN);
        let mut counts = vec![0; neurons.len()];
        let mut run: Vec<f64> = Vec::new();
        let kept = training.keep(runs * of_run, &mut |places, out| {
            for (place, out) in places.zip(out) {
                if place % of_run == 0 {
                    let first = place / of_run * RUN;
                    let inputs = first..(first + RUN).min(training.inputs());
                    self.read_run(training, inputs, neurons, &mut run, &mut counts)?;
                }
                *out = run[place % of_run];
            }
            Ok(())
        })?;
        Ok((kept, counts))
    }

    /// Reads and sorts one run of each of some neurons.
    fn read_run(
        &self,
        training: &dyn Training,
        inputs: Range<usize>,
        neurons: &[usize],
        run: &mut Vec<f64>,
        counts: &mut [usize],
    ) -> Result<(), TrainingError> {
        run.clear();
        run.resize(RUN * neurons.len(), line::NOTHING);
        let first = inputs.start;
        let layer = self.first..self.first + self.width;
        read_blocks_of(training, inputs, layer, |block, rows| {
            for (input, row) in block.zip(rows.chunks_exact(self.width.max(1))) {
                for (i, (&neuron, count)) in neurons.iter().zip(&mut *counts).enumerate() {
                    let x = row[neuron];
                    if x.is_finite() && (self.keep_zeros || x != 0.0) {
                        run[i * RUN + input - first] = x.into();
                        *count += 1;
                    }
                }
            }
        })?;
        run.chunks_exact_mut(RUN)
            .for_each(|run| run.sort_unstable_by(f64::total_cmp));
        Ok(())
    }

    /// The centroids of some neurons.
    fn centroids(
        &self,
        training: &dyn Training,
        neurons: &[usize],
    ) -> Result<Vec<Vec<f64>>, CriterionError> {
        let (kept, counts) = self.sorted(training, neurons)?;
        let of_neuron = |(i, count): (usize, usize)| {
            let starts = (i * RUN..kept.len()).step_by(RUN * neurons.len());
            let runs = starts.map(|start| start..start + RUN);
            centroids_of(
                training,
                Runs {
                    kept: &kept,
                    runs: runs.collect(),
                    len: count,
                },
            )
        };
        counts.into_iter().enumerate().map(of_neuron).collect()
    }

    /// The most important neurons; of equally important ones the first.
    fn most_important(&self, importance: &[f64]) -> Vec<usize> {
        // What is no number matters least.
        let key = |i: usize| match importance[i].is_nan() {
            true => f64::NEG_INFINITY,
            false => importance[i],
        };
        let mut neurons: Vec<usize> = (0..self.width).collect();
        neurons.sort_by(|&a, &b| key(b).total_cmp(&key(a)));
        neurons.truncate(self.chosen);
        neurons
    }
}

/// The centroids of a neuron's activations.
fn centroids_of(training: &dyn Training, runs: Runs<'_>) -> Result<Vec<f64>, CriterionError> {
    if runs.len < FEWEST {
        return Ok(vec![0.0]);
    }
    let centroids = line::best_centroids(training, runs)?.into_iter();
    // As NumPy rounds: halves to even.
    Ok(centroids
        .map(|c| (c * 100.0).round_ties_even() / 100.0)
        .collect())
}

impl Criterion for Idc {
    fn needs(&self) -> Needs {
        Needs {
            importance: Some(self.layer),
            ..Needs::taps([Tap::activation(self.layer)])
        }
    }

    fn fitted_options(&self) -> String {
        let zeros = if self.keep_zeros { "keep" } else { "drop" };
        format!("layer={}:neurons={}:zeros={zeros}", self.layer, self.chosen)
    }

    fn fit(&self, training: &dyn Training) -> Result<Fit, CriterionError> {
        let importance = training
            .importance(self.layer)
            .filter(|importance| importance.len() == self.width)
            .ok_or_else(|| CriterionError::Fit {
                criterion: "idc".to_owned(),
                reason: "the importance of the layer's neurons is not known".to_owned(),
            })?;
        let neurons = self.most_important(importance);
        let mut centroids: Vec<Vec<f64>> = Vec::new();
        for neurons in neurons.chunks(TOGETHER) {
            centroids.extend(self.centroids(training, neurons)?);
        }
        let counts = centroids.iter().map(|c| c.len() as u32).collect();
        let mut fit = Fit::default();
        let arrays = [
            (
                "neurons",
                FitNumbers::U32(neurons.iter().map(|&n| n as u32).collect()),
            ),
            ("counts", FitNumbers::U32(counts)),
            ("centroids", FitNumbers::F64(centroids.concat())),
        ];
        for (name, numbers) in arrays {
            fit.insert(name, &[numbers.len()], numbers);
        }
        Ok(fit)
    }

    fn restore(&mut self, fit: Fit) -> Result<(), CriterionError> {
        let damaged = || CriterionError::Damaged {
            criterion: "idc".to_owned(),
            reason: "neurons or centroids are not those of the layer".to_owned(),
        };
        let neurons = fit.u32("idc", "neurons", self.chosen)?;
        let counts = fit.u32("idc", "counts", self.chosen)?;
        let total = counts.iter().map(|&count| count as usize).sum();
        let mut centroids = fit.f64("idc", "centroids", total)?;
        let mut fitted = Vec::new();
        for (&neuron, &count) in neurons.iter().zip(counts) {
            let (own, rest) = centroids.split_at(count as usize);
            centroids = rest;
            if neuron as usize >= self.width || own.is_empty() {
                return Err(damaged());
            }
            fitted.push(Important {
                neuron: neuron as usize,
                centroids: own.to_vec(),
            });
        }
        self.fitted = Some(fitted);
        Ok(())
    }

    fn state(&self) -> State {
        // Without a fit, the counts are filled in from the file that the state is read from.
        let counts = match &self.fitted {
            Some(neurons) => neurons.iter().map(|n| n.centroids.len() as f64).collect(),
            None => vec![0.0; self.chosen],
        };
        State::new([
            VECTORS.with(Patterns::new(self.chosen)),
            CENTROIDS.with(counts),
        ])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        let neurons = self.fitted.as_deref().unwrap_or_default();
        let activations = batch.activations(self.layer)?;
        let vectors = state.get_mut(VECTORS)?;
        let mut vector = vec![0; neurons.len()];
        for input in 0..batch.len() {
            let row = activations.row(input);
            for (place, important) in vector.iter_mut().zip(neurons) {
                *place = important.place(row[important.neuron]);
            }
            vectors.insert(&vector);
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let counts = state.get(CENTROIDS)?.iter();
        let total = counts.fold(1u64, |total, &count| total.saturating_mul(count as u64));
        let covered = state.get(VECTORS)?.count();
        Ok(vec![CriterionValue::share("idc", covered, total)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::create;
    use crate::shape::LayerShape;
    use crate::training::TrainingTable;
    use npcov_tap::Column;

    fn network() -> NetworkShape {
        let layer = LayerShape {
            neurons: 3,
            units: 3,
        };
        NetworkShape {
            sums: Vec::new(),
            layers: vec![layer],
            classes: 2,
            logits: 2,
            ..NetworkShape::default()
        }
    }

    /// Case 21's activations for neuron 2, two clusters for neuron 0; neuron 1 does not matter.
    fn training() -> TrainingTable {
        let third = [0.0, 0.1, 0.2, 5.0, 5.1, 5.2, 10.0, 10.1, 10.2, 10.3];
        let row = |(i, x): (usize, &f32)| [1.0 + (i % 2) as f32, 7.0, *x];
        TrainingTable {
            predictions: vec![0; 10],
            neurons: 3,
            activations: third.iter().enumerate().flat_map(row).collect(),
            importance: vec![vec![2.0, -1.0, 2.5]],
            ..TrainingTable::default()
        }
    }

    fn observe(idc: &dyn Criterion, rows: &[f32]) -> State {
        let mut state = idc.state();
        let batch = Batch {
            predictions: &vec![0; rows.len() / 3],
            logits: Column::of(&[], 0),
            taps: vec![(Tap::activation(0), Column::of(rows, 3))],
            observations: &[],
            training: None,
        };
        idc.observe(&batch, &training(), &mut state).unwrap();
        state
    }

    #[test]
    fn worked_case() {
        // Case 21: centroids .1, 5.1 and 10.15 for one neuron, two for the other; 4 of 6 vectors.
        let mut idc = create(&"idc:neurons=2:zeros=keep".parse().unwrap(), &network()).unwrap();
        let fit = idc.fit(&training()).unwrap();
        assert_eq!(fit.u32("idc", "neurons", 2).unwrap(), [2, 0]);
        let centroids = fit.f64("idc", "centroids", 5).unwrap();
        assert_eq!(centroids, [0.1, 5.1, 10.15, 1.0, 2.0]);
        idc.restore(fit).unwrap();
        let rows = [
            1.0, 0.0, 0.0, //
            9.0, 0.0, 0.0, //
            1.0, 0.0, 5.0, //
            1.5, 0.0, 9.0, //
            1.0, 0.0, 11.0,
        ];
        let state = observe(&*idc, &rows);
        let rows: Vec<&[u32]> = state.get(VECTORS).unwrap().rows().collect();
        // 1.5 is as near to 1 as to 2: the first counts.
        assert_eq!(rows, [[0, 0], [0, 1], [1, 0], [2, 0]]);
        assert_eq!(
            idc.values(&state).unwrap()[0],
            CriterionValue::share("idc", 4, 6)
        );
    }

    #[test]
    fn few_activations_have_the_centroid_zero() {
        // Without the zero, nine are left.
        let idc = create(&"idc:neurons=1".parse().unwrap(), &network()).unwrap();
        let fit = idc.fit(&training()).unwrap();
        assert_eq!(fit.f64("idc", "centroids", 1).unwrap(), [0.0]);
    }

    #[test]
    fn values_need_no_fit() {
        let mut idc = create(&"idc".parse().unwrap(), &network()).unwrap();
        assert_eq!(idc.state().get(CENTROIDS).unwrap(), [0.0; 3]);
        let unfitted = create(&"idc".parse().unwrap(), &network()).unwrap();
        idc.restore(idc.fit(&training()).unwrap()).unwrap();
        let state = observe(&*idc, &[1.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
        assert_eq!(
            unfitted.values(&state).unwrap(),
            idc.values(&state).unwrap()
        );
        assert_eq!(idc.values(&state).unwrap()[0].amount.value(), 2.0 / 2.0);
    }

    #[test]
    fn importance_must_be_known() {
        let idc = create(&"idc".parse().unwrap(), &network()).unwrap();
        let unknown = TrainingTable {
            importance: Vec::new(),
            ..training()
        };
        assert!(idc.fit(&unknown).is_err());
    }
}
