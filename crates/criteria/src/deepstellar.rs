//! BSC and BTC: abstract states of recurrent layers, and transitions between them (Du et al.,
//! *DeepStellar: Model-Based Quantitative Analysis of Stateful Deep Learning Systems*).
//!
//! The hidden states of all training sequences, of a layer at each step, are projected to their first
//! principal components; each of these is cut into intervals of equal length between its extremes in
//! training. A state's intervals are its *abstract state*. What training sequences visit, and between
//! which abstract states they go from one step to the next, is the model that suites are held against:
//!
//! * `bsc`, basic state coverage: the share of the model's states that the suite visits;
//! * `btc`, basic transition coverage: the share of its transitions.
//!
//! Options: `k` (3), how many components; `m` (10), how many intervals. The largest number of a
//! component has an interval of its own, as in the authors' program. Other than there, the first state
//! of a sequence counts, and the artificial one before it does not: so the definitions of the paper
//! say.

use std::collections::BTreeSet;
use std::ops::Range;

use npcov_tap::{Reduction, Side, Tap};

use crate::batch::Batch;
use crate::criterion::{Amount, Criterion, CriterionValue, LayerValues};
use crate::error::CriterionError;
use crate::fit::{Fit, FitNumbers};
use crate::needs::Needs;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::NetworkShape;
use crate::spec::{Options, Spec};
use crate::state::{BitSet, FixedPart, Handle, SetPart, State};
use crate::training::Training;

/// BSC. Only recurrent layers have states.
pub(crate) const BSC: Entry = Entry {
    name: "bsc",
    summary: "abstract states of recurrent layers that training sequences visit",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: false,
    create: |spec, network| DeepStellar::create(spec, network, Kind::States),
};

/// BTC.
pub(crate) const BTC: Entry = Entry {
    name: "btc",
    summary: "transitions between abstract states of recurrent layers",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: false,
    create: |spec, network| DeepStellar::create(spec, network, Kind::Transitions),
};

/// States or transitions of the model that were visited, by layer and place in its grid: how many there
/// are in the model is not known before it is learnt, and states of suites are read without it.
const VISITED: SetPart = SetPart("visited");

/// By path layer, how many of them there are in the model.
const SIZES: FixedPart = FixedPart("sizes");

/// The most places in the grids of all layers: a set of 128 MB.
const MOST_PLACES: u64 = 1 << 30;

/// The most units of a layer: their covariances take 128 MB.
const MOST_UNITS: usize = 1 << 12;

/// Training inputs that are read at a time.
const BLOCK: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    States,
    Transitions,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::States => "bsc",
            Kind::Transitions => "btc",
        }
    }
}

/// The criterion.
struct DeepStellar {
    kind: Kind,
    layers: Vec<Layer>,
    /// Number of all path layers.
    count: usize,
    components: usize,
    intervals: usize,
    /// States that there can be.
    grid: u64,
    /// States or transitions that there can be in a layer.
    places: u64,
}

/// A recurrent layer.
struct Layer {
    /// Position among the path layers.
    index: usize,
    units: usize,
    steps: usize,
    /// What was learnt.
    model: Option<Model>,
}

/// The abstraction of a layer, and what training sequences visit.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    mean: Vec<f64>,
    /// Principal components, one after the other.
    components: Vec<f64>,
    /// Of each component, the smallest and largest number.
    extremes: Vec<f64>,
    /// States or transitions as numbers, ascending.
    visited: Vec<u64>,
}

impl Model {
    /// The projections of a state.
    fn project(&self, state: &[f32]) -> impl Iterator<Item = f64> {
        let components = self.components.chunks_exact(self.mean.len().max(1));
        components.map(move |component| {
            let centred = state
                .iter()
                .zip(&self.mean)
                .map(|(&x, mean)| f64::from(x) - mean);
            centred.zip(component).map(|(x, c)| x * c).sum()
        })
    }

    /// The number of a state's intervals; `None` outside of what training sequences reach.
    fn state(&self, state: &[f32], intervals: usize) -> Option<u64> {
        let mut number = 0;
        for (x, extremes) in self.project(state).zip(self.extremes.chunks_exact(2)) {
            number = number * (intervals as u64 + 1) + interval(x, extremes, intervals)?;
        }
        Some(number)
    }
}

/// The interval of a number between extremes; that of the largest one begins there, and is as long as
/// the others.
fn interval(x: f64, extremes: &[f64], intervals: usize) -> Option<u64> {
    let (low, range) = (extremes[0], extremes[1] - extremes[0]);
    // All the same in training: that number, or another one.
    let place = match range > 0.0 {
        true => ((x - low) * intervals as f64 / range).floor(),
        false => x - low,
    };
    (place >= 0.0 && place <= intervals as f64).then_some(place as u64)
}

impl DeepStellar {
    /// As the options say.
    fn create(
        spec: &Spec,
        network: &NetworkShape,
        kind: Kind,
    ) -> Result<Box<dyn Criterion>, CriterionError> {
        let mut options = Options::of(spec);
        let components = options.whole("k", 3, 1..=8)?;
        let intervals = options.whole("m", 10, 1..=200)?;
        options.end()?;
        let refused = |reason: String| CriterionError::Fit {
            criterion: kind.name().to_owned(),
            reason,
        };
        let mut layers = Vec::new();
        for &index in &network.recurrent {
            let shape = network.layers.get(index);
            let shape = shape.ok_or_else(|| refused(format!("there is no layer {index}")))?;
            if shape.neurons > MOST_UNITS {
                return Err(refused(format!(
                    "a layer of {} units is too wide",
                    shape.neurons
                )));
            }
            layers.push(Layer {
                index,
                units: shape.neurons,
                steps: shape.units / shape.neurons.max(1),
                model: None,
            });
        }
        if layers.is_empty() {
            return Err(refused("the model has no recurrent layer".to_owned()));
        }
        let grid = (intervals as u64 + 1).checked_pow(components as u32);
        let places = match kind {
            Kind::States => grid,
            Kind::Transitions => grid.and_then(|cells| cells.checked_mul(cells)),
        };
        let all = places.and_then(|places| places.checked_mul(layers.len() as u64));
        let (Some(grid), Some(places), Some(..=MOST_PLACES)) = (grid, places, all) else {
            let message = format!("{intervals} intervals of {components} components are too many");
            return Err(refused(message));
        };
        Ok(Box::new(DeepStellar {
            kind,
            layers,
            count: network.layers.len(),
            components,
            intervals,
            grid,
            places,
        }))
    }

    /// The states or transitions of a sequence that lie in the model's grid.
    fn visits(&self, model: &Model, units: usize, row: &[f32]) -> Vec<u64> {
        let states = row.chunks_exact(units.max(1));
        let states: Vec<Option<u64>> = states
            .map(|state| model.state(state, self.intervals))
            .collect();
        match self.kind {
            Kind::States => states.into_iter().flatten().collect(),
            Kind::Transitions => {
                let pair = |pair: &[Option<u64>]| Some(pair[0]? * self.grid + pair[1]?);
                states.windows(2).filter_map(pair).collect()
            }
        }
    }

    /// Learns the model of a layer.
    fn learn(&self, layer: &Layer, training: &dyn Training) -> Result<Model, CriterionError> {
        let units = layer.units;
        let (mut count, mut sums) = (0.0, vec![0.0; units]);
        layer.read(training, |state| {
            count += 1.0;
            sums.iter_mut()
                .zip(state)
                .for_each(|(sum, &x)| *sum += f64::from(x));
        })?;
        if count == 0.0 {
            return Err(CriterionError::Fit {
                criterion: self.kind.name().to_owned(),
                reason: "there are no training sequences of finite states".to_owned(),
            });
        }
        let mean: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
        let mut covariance = vec![0.0; units * units];
        let mut centred = vec![0.0; units];
        layer.read(training, |state| {
            for ((c, &x), mean) in centred.iter_mut().zip(state).zip(&mean) {
                *c = f64::from(x) - mean;
            }
            for (row, &a) in covariance.chunks_exact_mut(units).zip(&centred) {
                row.iter_mut()
                    .zip(&centred)
                    .for_each(|(sum, b)| *sum += a * b);
            }
        })?;
        let components = principal(&covariance, units, self.components);
        let found = components.len() / units.max(1);
        let mut model = Model {
            mean,
            components,
            extremes: [f64::INFINITY, f64::NEG_INFINITY].repeat(found),
            visited: Vec::new(),
        };
        let mut extremes = model.extremes.clone();
        layer.read(training, |state| {
            for (x, extremes) in model.project(state).zip(extremes.chunks_exact_mut(2)) {
                extremes[0] = extremes[0].min(x);
                extremes[1] = extremes[1].max(x);
            }
        })?;
        model.extremes = extremes;
        let mut visited = BTreeSet::new();
        layer.read_rows(training, |row| {
            visited.extend(self.visits(&model, units, row))
        })?;
        model.visited = visited.into_iter().collect();
        Ok(model)
    }

    /// How many states or transitions each path layer has.
    fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.count];
        for layer in &self.layers {
            sizes[layer.index] = layer.model.as_ref().map_or(0, |model| model.visited.len());
        }
        sizes
    }
}

impl Layer {
    fn tap(&self) -> Tap {
        Tap {
            layer: self.index,
            side: Side::After,
            reduction: Reduction::Units,
        }
    }

    /// All training sequences.
    fn read_rows(
        &self,
        training: &dyn Training,
        mut on: impl FnMut(&[f32]),
    ) -> Result<(), CriterionError> {
        let inputs = training.inputs();
        let width = self.steps * self.units;
        let mut rows = vec![0.0; BLOCK.min(inputs) * width];
        for start in (0..inputs).step_by(BLOCK) {
            let block: Range<usize> = start..(start + BLOCK).min(inputs);
            let rows = &mut rows[..block.len() * width];
            training
                .read_tap(self.tap(), block, rows)
                .map_err(CriterionError::Training)?;
            rows.chunks_exact(width.max(1)).for_each(&mut on);
        }
        Ok(())
    }

    /// All states of training sequences; those that are not finite are none.
    fn read(
        &self,
        training: &dyn Training,
        mut on: impl FnMut(&[f32]),
    ) -> Result<(), CriterionError> {
        self.read_rows(training, |row| {
            let states = row.chunks_exact(self.units.max(1));
            states
                .filter(|state| state.iter().all(|x| x.is_finite()))
                .for_each(&mut on);
        })
    }

    /// The name of an array of the fit.
    fn array(&self, what: &str) -> String {
        format!("{what}.{}", self.index)
    }
}

/// The eigenvectors of the largest eigenvalues of a symmetric matrix, by Jacobi's method; the largest
/// member of each is positive.
fn principal(matrix: &[f64], size: usize, most: usize) -> Vec<f64> {
    let mut a = matrix.to_vec();
    let mut vectors = vec![0.0; size * size];
    (0..size).for_each(|i| vectors[i * size + i] = 1.0);
    let total: f64 = a.iter().map(|x| x * x).sum();
    for _ in 0..64 {
        let off = |(i, x): (usize, &f64)| if i / size == i % size { 0.0 } else { x * x };
        if a.iter().enumerate().map(off).sum::<f64>() <= 1e-24 * total {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                rotate(&mut a, &mut vectors, size, p, q);
            }
        }
    }
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|&i, &j| a[j * size + j].total_cmp(&a[i * size + i]));
    order.truncate(most);
    let mut found = Vec::with_capacity(order.len() * size);
    for i in order {
        let vector = &vectors[i * size..(i + 1) * size];
        let larger = |a: f64, &b: &f64| if b.abs() > a.abs() { b } else { a };
        let sign = if vector.iter().fold(0.0, larger) < 0.0 {
            -1.0
        } else {
            1.0
        };
        found.extend(vector.iter().map(|x| sign * x));
    }
    found
}

/// Turns the plane of two axes so that their covariance vanishes. `vectors` has a row for each axis.
fn rotate(a: &mut [f64], vectors: &mut [f64], size: usize, p: usize, q: usize) {
    let between = a[p * size + q];
    if between == 0.0 {
        return;
    }
    let theta = (a[q * size + q] - a[p * size + p]) / (2.0 * between);
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let t = if theta == 0.0 { 1.0 } else { t };
    let c = 1.0 / (t * t + 1.0).sqrt();
    let s = t * c;
    for k in 0..size {
        let (x, y) = (a[k * size + p], a[k * size + q]);
        (a[k * size + p], a[k * size + q]) = (c * x - s * y, s * x + c * y);
    }
    for k in 0..size {
        let (x, y) = (a[p * size + k], a[q * size + k]);
        (a[p * size + k], a[q * size + k]) = (c * x - s * y, s * x + c * y);
        let (x, y) = (vectors[p * size + k], vectors[q * size + k]);
        (vectors[p * size + k], vectors[q * size + k]) = (c * x - s * y, s * x + c * y);
    }
}

impl Criterion for DeepStellar {
    fn needs(&self) -> Needs {
        let taps: Vec<Tap> = self.layers.iter().map(Layer::tap).collect();
        Needs {
            training_taps: taps.clone(),
            ..Needs::taps(taps)
        }
    }

    fn fitted_options(&self) -> String {
        format!("k={},m={}", self.components, self.intervals)
    }

    fn fit(&self, training: &dyn Training) -> Result<Fit, CriterionError> {
        let mut fit = Fit::default();
        for layer in &self.layers {
            let model = self.learn(layer, training)?;
            let mut insert = |what: &str, numbers: Vec<f64>| {
                fit.insert(
                    layer.array(what),
                    &[numbers.len()],
                    FitNumbers::F64(numbers),
                );
            };
            insert("mean", model.mean);
            insert("components", model.components);
            insert("extremes", model.extremes);
            let halves = model
                .visited
                .iter()
                .flat_map(|&v| [(v >> 32) as u32, v as u32]);
            let halves: Vec<u32> = halves.collect();
            fit.insert(
                layer.array("visited"),
                &[halves.len()],
                FitNumbers::U32(halves),
            );
        }
        Ok(fit)
    }

    fn restore(&mut self, fit: Fit) -> Result<(), CriterionError> {
        let (name, most) = (self.kind.name(), self.components);
        for layer in &mut self.layers {
            let components = most.min(layer.units);
            let numbers =
                |what: &str, len| fit.f64(name, &layer.array(what), len).map(<[_]>::to_vec);
            let visited = layer.array("visited");
            let halves = fit.u32(name, &visited, fit.len(&visited))?;
            let pairs = halves.chunks_exact(2);
            layer.model = Some(Model {
                mean: numbers("mean", layer.units)?,
                components: numbers("components", components * layer.units)?,
                extremes: numbers("extremes", 2 * components)?,
                visited: pairs
                    .map(|p| u64::from(p[0]) << 32 | u64::from(p[1]))
                    .collect(),
            });
        }
        Ok(())
    }

    fn state(&self) -> State {
        let sizes = self.sizes();
        State::new([
            VISITED.with(BitSet::new(self.layers.len() * self.places as usize)),
            SIZES.with(sizes.iter().map(|&size| size as f64).collect()),
        ])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        let visited = state.get_mut(VISITED)?;
        for (i, layer) in self.layers.iter().enumerate() {
            let Some(model) = &layer.model else { continue };
            let rows = batch.tap(layer.tap())?;
            for input in 0..batch.len() {
                for visit in self.visits(model, layer.units, rows.row(input)) {
                    if model.visited.binary_search(&visit).is_ok() {
                        visited.insert(i * self.places as usize + visit as usize);
                    }
                }
            }
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let total: f64 = state.get(SIZES)?.iter().sum();
        let covered = state.get(VISITED)?.count();
        let share = CriterionValue::share(self.kind.name(), covered, total as u64);
        Ok(vec![share])
    }

    fn by_layer(&self, state: &State) -> Result<Vec<LayerValues>, CriterionError> {
        let (visited, sizes) = (state.get(VISITED)?, state.get(SIZES)?);
        let mut layers = vec![
            Amount::Share {
                covered: 0,
                total: 0
            };
            self.count
        ];
        let places = self.places as usize;
        for (i, layer) in self.layers.iter().enumerate() {
            layers[layer.index] = Amount::Share {
                covered: visited.count_in(i * places..(i + 1) * places),
                total: sizes.get(layer.index).map_or(0, |&size| size as u64),
            };
        }
        Ok(vec![LayerValues {
            name: self.kind.name().to_owned(),
            layers,
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::create;
    use crate::shape::LayerShape;
    use crate::training::TrainingTable;
    use npcov_tap::Column;

    /// Sequences of numbers as those of a layer of one unit.
    fn measured(spec: &str, train: &[&[f32]], test: &[&[f32]]) -> Amount {
        let steps = train[0].len();
        let network = NetworkShape {
            layers: vec![LayerShape {
                neurons: 1,
                units: steps,
            }],
            recurrent: vec![0],
            ..NetworkShape::default()
        };
        let mut criterion = create(&spec.parse().unwrap(), &network).unwrap();
        let tap = criterion.needs().taps[0];
        let training = TrainingTable {
            predictions: vec![0; train.len()],
            taps: vec![(tap, steps, train.concat())],
            ..TrainingTable::default()
        };
        let fit = criterion.fit(&training).unwrap();
        criterion.restore(fit).unwrap();
        let mut state = criterion.state();
        for row in test {
            // Sequences of other lengths are as good for a test.
            let batch = Batch {
                predictions: &[0],
                logits: Column::of(&[], 0),
                taps: vec![(tap, Column::of(row, row.len()))],
                observations: &[],
                training: None,
            };
            criterion.observe(&batch, &training, &mut state).unwrap();
        }
        let values = criterion.values(&state).unwrap();
        let layers = criterion.by_layer(&state).unwrap();
        assert_eq!(layers[0].layers, [values[0].amount]);
        values[0].amount
    }

    /// Four intervals of 0 to 8: training sequences are in 0 1 2 and 0 2 4, the suite in 0 1 4 3.
    #[test]
    fn worked_case() {
        let train: [&[f32]; 2] = [&[0.0, 3.0, 5.0], &[1.0, 5.0, 8.0]];
        let share = |covered, total| Amount::Share { covered, total };
        let test: &[f32] = &[0.5, 2.5, 8.0, 6.5];
        assert_eq!(measured("bsc:m=4", &train, &[test]), share(3, 4));
        assert_eq!(measured("btc:m=4", &train, &[test]), share(1, 4));
        // Beyond what training reaches there is nothing to cover; the interval of the largest number is
        // as long as the others. NaN is nowhere.
        let far: &[f32] = &[-0.5, 10.0, f32::NAN];
        assert_eq!(measured("bsc:m=4", &train, &[far]), share(0, 4));
        assert_eq!(measured("bsc:m=4", &train, &train), share(4, 4));
        assert_eq!(measured("btc:m=4", &train, &train), share(4, 4));
    }

    #[test]
    fn constant_states_are_one() {
        let train: [&[f32]; 1] = [&[2.0, 2.0]];
        let share = |covered, total| Amount::Share { covered, total };
        assert_eq!(measured("bsc", &train, &train), share(1, 1));
        assert_eq!(measured("btc", &train, &[]), share(0, 1));
    }

    #[test]
    fn networks_without_recurrent_layers_are_refused() {
        let network = NetworkShape::default();
        let error = create(&"bsc".parse().unwrap(), &network).err().unwrap();
        assert!(matches!(error, CriterionError::Fit { .. }), "{error}");
    }

    /// Points along (3, 4) with a little of (-4, 3).
    #[test]
    fn principal_components_are_found() {
        let points = [(2.0, 0.0), (-1.0, 0.2), (-1.0, -0.2)];
        let mut covariance = [0.0; 4];
        for (along, across) in points {
            let point = [0.6 * along - 0.8 * across, 0.8 * along + 0.6 * across];
            for i in 0..4 {
                covariance[i] += point[i / 2] * point[i % 2];
            }
        }
        let found = principal(&covariance, 2, 2);
        for (found, expected) in found.iter().zip([0.6, 0.8, 0.8, -0.6]) {
            assert!((found - expected).abs() < 1e-12, "{found} and {expected}");
        }
    }
}
