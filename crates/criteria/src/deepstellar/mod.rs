//! Abstract states of recurrent layers, and transitions between them (Du et al., *DeepStellar:
//! Model-Based Quantitative Analysis of Stateful Deep Learning Systems*).
//!
//! The hidden states of all training sequences, of a layer at each step, are projected to their first
//! principal components; each of these is cut into intervals of equal length between its extremes in
//! training. A state's intervals are its *abstract state*. What training sequences visit, and between
//! which abstract states they go from one step to the next, is the model that suites are held against:
//!
//! * `bsc`, basic state coverage: the share of the model's states that the suite visits;
//! * `wsc`, weighted state coverage: the same, and a state weighs as much as training sequences are in
//!   it; as `wsc@reverse`, rare states weigh more: 1 minus that weight;
//! * `sbc`, state boundary coverage: states that training does not visit, but that are at most `n` (1)
//!   intervals away from one that it does, added up over components: the share of these;
//! * `btc`, basic transition coverage: the share of the model's transitions;
//! * `wtc`, weighted transition coverage: as `wsc`, of transitions.
//!
//! Options: `k` (3), how many components; `m` (10), how many intervals. The largest number of a
//! component has an interval of its own, as in the authors' program. Other than there, the first state
//! of a sequence counts, and the artificial one before it does not: so the definitions of the paper
//! say. Reverse weights of states are scaled by the number of states.

mod grid;
mod model;
mod principal;

use npcov_tap::Tap;

use crate::batch::Batch;
use crate::criterion::{Amount, Criterion, CriterionValue, LayerValues, check_shares};
use crate::error::CriterionError;
use crate::fit::{Fit, FitNumbers};
use crate::needs::Needs;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::NetworkShape;
use crate::spec::{Options, Spec};
use crate::state::{BitSet, FixedPart, Handle, Patterns, PatternsPart, SetPart, State};
use crate::training::Training;

use grid::Grid;
use model::{Layer, Model, Sequence};

/// BSC. Only recurrent layers have states.
pub(crate) const BSC: Entry = Entry {
    name: "bsc",
    summary: "abstract states of recurrent layers that training sequences visit",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: false,
    create: |spec, network| DeepStellar::create(spec, network, Visits::States, Kind::Basic),
};

/// WSC.
pub(crate) const WSC: Entry = Entry {
    name: "wsc",
    summary: "abstract states of recurrent layers, weighted by how often training is in them",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: false,
    create: |spec, network| DeepStellar::create(spec, network, Visits::States, Kind::Weighted),
};

/// SBC.
pub(crate) const SBC: Entry = Entry {
    name: "sbc",
    summary: "abstract states of recurrent layers just beyond those that training sequences visit",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: false,
    create: |spec, network| DeepStellar::create(spec, network, Visits::States, Kind::Boundary),
};

/// BTC.
pub(crate) const BTC: Entry = Entry {
    name: "btc",
    summary: "transitions between abstract states of recurrent layers",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: false,
    create: |spec, network| DeepStellar::create(spec, network, Visits::Transitions, Kind::Basic),
};

/// WTC.
pub(crate) const WTC: Entry = Entry {
    name: "wtc",
    summary: "transitions between abstract states, weighted by how often training takes them",
    meaning: Meaning::of_neurons(Unit::Share),
    is_default: false,
    create: |spec, network| DeepStellar::create(spec, network, Visits::Transitions, Kind::Weighted),
};

/// States or transitions that were visited, by layer and place in its grid: how many there
/// are in the model is not known before it is learnt, and states of suites are read without it.
const VISITED: SetPart = SetPart("visited");

/// The same with weights: their places, and how often training visits them.
const WEIGHTED: PatternsPart = PatternsPart("weighted");

/// By path layer, how many of them there are to visit.
const SIZES: FixedPart = FixedPart("sizes");

/// By path layer, how often training visits any of them.
const TOTALS: FixedPart = FixedPart("totals");

/// The most places in the grids of all layers: a set of 128 MB.
const MOST_PLACES: u64 = 1 << 30;

/// The most units of a layer: their covariances take 128 MB.
const MOST_UNITS: usize = 1 << 12;

/// What is visited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visits {
    States,
    Transitions,
}

/// What of it counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What training visits.
    Basic,
    /// That, by how often.
    Weighted,
    /// What is next to it.
    Boundary,
}

/// The criterion.
struct DeepStellar {
    name: String,
    visits: Visits,
    kind: Kind,
    layers: Vec<Layer>,
    /// Number of all path layers.
    count: usize,
    grid: Grid,
    /// States that there can be.
    states: u64,
    /// States or transitions that there can be in a layer.
    places: u64,
}

impl DeepStellar {
    /// As the options say.
    fn create(
        spec: &Spec,
        network: &NetworkShape,
        visits: Visits,
        kind: Kind,
    ) -> Result<Box<dyn Criterion>, CriterionError> {
        let mut options = Options::of(spec);
        let grid = Grid {
            components: options.whole("k", 3, 1..=8)?,
            intervals: options.whole("m", 10, 1..=200)?,
            margin: match kind {
                Kind::Boundary => options.whole("n", 1, 1..=6)?,
                Kind::Basic | Kind::Weighted => 0,
            },
        };
        options.end()?;
        let refused = |reason: String| CriterionError::Fit {
            criterion: spec.name.clone(),
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
        let states = grid.states();
        let places = match visits {
            Visits::States => states,
            Visits::Transitions => states.and_then(|states| states.checked_mul(states)),
        };
        let all = places.and_then(|places| places.checked_mul(layers.len() as u64));
        let (Some(states), Some(places), Some(..=MOST_PLACES)) = (states, places, all) else {
            let message = format!(
                "{} intervals of {} components are too many",
                grid.intervals, grid.components
            );
            return Err(refused(message));
        };
        Ok(Box::new(DeepStellar {
            name: spec.name.clone(),
            visits,
            kind,
            layers,
            count: network.layers.len(),
            grid,
            states,
            places,
        }))
    }

    /// The states or transitions of a sequence that lie in the model's grid.
    fn visits(&self, model: &Model, sequence: Sequence<'_>) -> Vec<u64> {
        let states = sequence.states();
        let states: Vec<Option<u64>> = states.map(|state| model.state(state, self.grid)).collect();
        match self.visits {
            Visits::States => states.into_iter().flatten().collect(),
            Visits::Transitions => {
                let pair = |pair: &[Option<u64>]| Some(pair[0]? * self.states + pair[1]?);
                states.windows(2).filter_map(pair).collect()
            }
        }
    }

    /// What a suite is worth in each recurrent layer, with the position of the layer: by
    /// weight, and by reverse weight where there is one.
    fn amounts(&self, state: &State) -> Result<Vec<(usize, Vec<Amount>)>, CriterionError> {
        let sizes = state.get(SIZES)?;
        let number = |numbers: &[f64], i: usize| numbers.get(i).map_or(0, |&x| x as u64);
        let places = self.places as usize;
        let mut amounts = Vec::new();
        for (i, layer) in self.layers.iter().enumerate() {
            let size = number(sizes, layer.index);
            let range = i * places..(i + 1) * places;
            if self.kind != Kind::Weighted {
                let covered = state.get(VISITED)?.count_in(range);
                let share = Amount::Share {
                    covered,
                    total: size,
                };
                amounts.push((layer.index, vec![share]));
                continue;
            }
            let total = number(state.get(TOTALS)?, layer.index);
            let rows = state.get(WEIGHTED)?.rows();
            let own = rows.filter(|row| range.contains(&(row[0] as usize)));
            let (mut visited, mut weight) = (0_u64, 0_u64);
            for row in own {
                visited += 1;
                weight += u64::from(row[1]);
            }
            // The sum of `total - weight` over those that are visited, of that over all. The only state of a
            // model would weigh nothing: it is as good as any.
            let reverse = match size {
                0 | 1 => (visited, size),
                _ => (
                    visited.saturating_mul(total).saturating_sub(weight),
                    (size - 1).saturating_mul(total),
                ),
            };
            let share = |(covered, total)| Amount::Share { covered, total };
            let shares = vec![share((weight, total)), share(reverse)];
            amounts.push((layer.index, shares));
        }
        Ok(amounts)
    }

    /// The names of the values.
    fn names(&self) -> Vec<String> {
        match self.kind {
            Kind::Weighted => vec![self.name.clone(), format!("{}@reverse", self.name)],
            Kind::Basic | Kind::Boundary => vec![self.name.clone()],
        }
    }

    /// A number for each path layer, 0 for those that are not recurrent.
    fn by_path_layer(&self, number: impl Fn(&Model) -> u64) -> Vec<f64> {
        let mut numbers = vec![0.0; self.count];
        for layer in &self.layers {
            numbers[layer.index] = layer.model.as_ref().map_or(0.0, |m| number(m) as f64);
        }
        numbers
    }
}

impl Criterion for DeepStellar {
    fn needs(&self) -> Needs {
        let taps: Vec<Tap> = self.layers.iter().flat_map(Layer::taps).collect();
        Needs {
            training_taps: taps.clone(),
            ..Needs::taps(taps)
        }
    }

    fn fitted_options(&self) -> String {
        let options = format!("k={},m={}", self.grid.components, self.grid.intervals);
        match self.kind {
            Kind::Boundary => format!("{options},n={}", self.grid.margin),
            Kind::Basic | Kind::Weighted => options,
        }
    }

    fn fit(&self, training: &dyn Training) -> Result<Fit, CriterionError> {
        let mut fit = Fit::default();
        for layer in &self.layers {
            let mut model = layer.abstraction(&self.name, training, self.grid.components)?;
            layer.count(training, &mut model, |model, sequence| {
                self.visits(model, sequence)
            })?;
            let mut insert = |what: &str, numbers: FitNumbers| {
                fit.insert(layer.array(what), &[numbers.len()], numbers);
            };
            let halves = |v: &u64| [(v >> 32) as u32, *v as u32];
            let visited = model.visited.iter().flat_map(halves).collect();
            insert("visited", FitNumbers::U32(visited));
            if self.kind == Kind::Weighted {
                insert("counts", FitNumbers::U32(model.counts));
            }
            insert("mean", FitNumbers::F64(model.mean));
            insert("components", FitNumbers::F64(model.components));
            insert("extremes", FitNumbers::F64(model.extremes));
        }
        Ok(fit)
    }

    fn restore(&mut self, fit: Fit) -> Result<(), CriterionError> {
        for layer in &mut self.layers {
            let components = self.grid.components.min(layer.units);
            let numbers = |what: &str, len| {
                let numbers = fit.f64(&self.name, &layer.array(what), len);
                numbers.map(<[_]>::to_vec)
            };
            let visited = layer.array("visited");
            let halves = fit.u32(&self.name, &visited, fit.len(&visited))?;
            let pairs = halves.chunks_exact(2);
            let mut visited: Vec<u64> = pairs
                .map(|p| u64::from(p[0]) << 32 | u64::from(p[1]))
                .collect();
            let ascends = visited.is_sorted_by(|a, b| a < b);
            let inside = |&place: &u64| match self.kind {
                Kind::Boundary => self.grid.is_inner(place, components),
                Kind::Basic | Kind::Weighted => place < self.places,
            };
            if !ascends || !visited.iter().all(inside) {
                return Err(CriterionError::Damaged {
                    criterion: self.name.clone(),
                    reason: "what training visits is not in the grid".to_owned(),
                });
            }
            let counts = match self.kind {
                Kind::Weighted => {
                    let counts = fit.u32(&self.name, &layer.array("counts"), visited.len())?;
                    counts.to_vec()
                }
                Kind::Basic | Kind::Boundary => Vec::new(),
            };
            if self.kind == Kind::Boundary {
                visited = self.grid.around(&visited, components);
            }
            layer.model = Some(Model {
                mean: numbers("mean", layer.units)?,
                components: numbers("components", components * layer.units)?,
                extremes: numbers("extremes", 2 * components)?,
                visited,
                counts,
            });
        }
        Ok(())
    }

    fn state(&self) -> State {
        let sizes = self.by_path_layer(|model| model.visited.len() as u64);
        let sizes = SIZES.with(sizes);
        match self.kind {
            Kind::Weighted => {
                let total = |model: &Model| model.counts.iter().map(|&c| u64::from(c)).sum();
                let totals = self.by_path_layer(total);
                State::new([WEIGHTED.with(Patterns::new(2)), sizes, TOTALS.with(totals)])
            }
            Kind::Basic | Kind::Boundary => {
                let visited = BitSet::new(self.layers.len() * self.places as usize);
                State::new([VISITED.with(visited), sizes])
            }
        }
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        for (i, layer) in self.layers.iter().enumerate() {
            let Some(model) = &layer.model else { continue };
            let [states, valid] = layer.taps();
            let (states, valid) = (batch.tap(states)?, batch.tap(valid)?);
            for input in 0..batch.len() {
                let sequence = layer.sequence(states.row(input), valid.row(input));
                for visit in self.visits(model, sequence) {
                    let Ok(found) = model.visited.binary_search(&visit) else {
                        continue;
                    };
                    let place = i * self.places as usize + visit as usize;
                    match self.kind {
                        Kind::Weighted => {
                            let row = [place as u32, model.counts[found]];
                            state.get_mut(WEIGHTED)?.insert(&row);
                        }
                        Kind::Basic | Kind::Boundary => state.get_mut(VISITED)?.insert(place),
                    }
                }
            }
        }
        Ok(())
    }

    /// A sequence visits many states.
    fn check(&self, state: &State, _inputs: usize) -> Result<(), CriterionError> {
        check_shares(self, state)
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let layers = self.amounts(state)?;
        let sum = |(i, name): (usize, String)| {
            let (mut covered, mut total) = (0_u64, 0_u64);
            for (_, amounts) in &layers {
                if let Some(Amount::Share {
                    covered: c,
                    total: t,
                }) = amounts.get(i)
                {
                    covered = covered.saturating_add(*c);
                    total = total.saturating_add(*t);
                }
            }
            CriterionValue::share(name, covered, total)
        };
        Ok(self.names().into_iter().enumerate().map(sum).collect())
    }

    fn by_layer(&self, state: &State) -> Result<Vec<LayerValues>, CriterionError> {
        let nothing = Amount::Share {
            covered: 0,
            total: 0,
        };
        let mut values: Vec<LayerValues> = (self.names().into_iter())
            .map(|name| LayerValues {
                name,
                layers: vec![nothing; self.count],
            })
            .collect();
        for (index, amounts) in self.amounts(state)? {
            for (value, amount) in values.iter_mut().zip(amounts) {
                value.layers[index] = amount;
            }
        }
        Ok(values)
    }

    /// States or transitions, also where they are weighed.
    fn things(&self) -> Result<Option<u64>, CriterionError> {
        let sizes = self.by_path_layer(|model| model.visited.len() as u64);
        Ok(Some(sizes.iter().sum::<f64>() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::create;
    use crate::shape::LayerShape;
    use crate::training::TrainingTable;
    use npcov_tap::Column;

    /// Sequences of numbers as those of a layer of one unit: all values of a criterion.
    fn measured(spec: &str, train: &[&[f32]], test: &[&[f32]]) -> Vec<Amount> {
        measured_of(spec, train, train[0].len(), test)
    }

    /// The same where training sequences end after so many steps.
    fn measured_of(spec: &str, train: &[&[f32]], length: usize, test: &[&[f32]]) -> Vec<Amount> {
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
        let needs = criterion.needs();
        let (states, valid) = (needs.taps[0], needs.taps[1]);
        let ends: Vec<f32> = (0..steps)
            .map(|step| if step < length { 1.0 } else { 0.0 })
            .collect();
        let training = TrainingTable {
            predictions: vec![0; train.len()],
            taps: vec![
                (states, steps, train.concat()),
                (valid, steps, ends.repeat(train.len())),
            ],
            ..TrainingTable::default()
        };
        let fit = criterion.fit(&training).unwrap();
        criterion.restore(fit).unwrap();
        let mut state = criterion.state();
        for row in test {
            // Sequences of other lengths are as good for a test.
            let ones = vec![1.0; row.len()];
            let batch = Batch {
                predictions: &[0],
                logits: Column::of(&[], 0),
                taps: vec![
                    (states, Column::of(row, row.len())),
                    (valid, Column::of(&ones, row.len())),
                ],
                observations: &[],
                training: None,
            };
            criterion.observe(&batch, &training, &mut state).unwrap();
        }
        let values = criterion.values(&state).unwrap();
        let layers = criterion.by_layer(&state).unwrap();
        for (value, layer) in values.iter().zip(&layers) {
            assert_eq!(layer.layers, [value.amount]);
        }
        values.into_iter().map(|value| value.amount).collect()
    }

    const fn share(covered: u64, total: u64) -> Amount {
        Amount::Share { covered, total }
    }

    /// Four intervals of 0 to 8: training sequences are in 0 1 2 and 0 2 4, the suite in 0 1 4 3.
    const TRAIN: [&[f32]; 2] = [&[0.0, 3.0, 5.0], &[1.0, 5.0, 8.0]];
    const SUITE: &[f32] = &[0.5, 2.5, 8.0, 6.5];

    #[test]
    fn worked_case() {
        assert_eq!(measured("bsc:m=4", &TRAIN, &[SUITE]), [share(3, 4)]);
        assert_eq!(measured("btc:m=4", &TRAIN, &[SUITE]), [share(1, 4)]);
        // Beyond what training reaches there is nothing to cover; the interval of the largest number is
        // as long as the others. NaN is nowhere.
        let far: &[f32] = &[-0.5, 10.0, f32::NAN];
        assert_eq!(measured("bsc:m=4", &TRAIN, &[far]), [share(0, 4)]);
        assert_eq!(measured("bsc:m=4", &TRAIN, &TRAIN), [share(4, 4)]);
        assert_eq!(measured("btc:m=4", &TRAIN, &TRAIN), [share(4, 4)]);
    }

    /// Training is in 0 and 2 twice, in 1 and 4 once: the suite has seen 2 + 1 + 1 of 6. Reverse weights
    /// are 4, 4, 5, 5 of 18, and it has seen 4 + 5 + 5.
    #[test]
    fn worked_case_of_weights() {
        let expected = [share(4, 6), share(14, 18)];
        assert_eq!(measured("wsc:m=4", &TRAIN, &[SUITE]), expected);
        let twice = measured("wsc:m=4", &TRAIN, &[SUITE, SUITE]);
        assert_eq!(twice, expected);
        // Each transition is taken once.
        let expected = [share(1, 4), share(3, 12)];
        assert_eq!(measured("wtc:m=4", &TRAIN, &[SUITE]), expected);
        for spec in ["wsc:m=4", "wtc:m=4"] {
            let all = measured(spec, &TRAIN, &TRAIN);
            assert!(all.iter().all(|amount| amount.value() == 1.0), "{all:?}");
        }
    }

    /// Next to 0 1 2 4 are -1, 3 and 5, and two steps away -2 and 6 as well.
    #[test]
    fn worked_case_of_the_boundary() {
        assert_eq!(measured("sbc:m=4", &TRAIN, &[SUITE]), [share(1, 3)]);
        assert_eq!(measured("sbc:m=4", &TRAIN, &TRAIN), [share(0, 3)]);
        let beyond: &[f32] = &[-1.0, 11.0, 13.0, 100.0, f32::NAN];
        assert_eq!(measured("sbc:m=4", &TRAIN, &[beyond]), [share(2, 3)]);
        assert_eq!(measured("sbc:m=4:n=2", &TRAIN, &[beyond]), [share(3, 5)]);
    }

    /// What stands beyond the end of a sequence is not visited.
    #[test]
    fn padding_counts_for_nothing() {
        let padded: [&[f32]; 2] = [&[0.0, 3.0, 5.0, 5.0, 40.0], &[1.0, 5.0, 8.0, 8.0, 40.0]];
        for spec in ["bsc:m=4", "wsc:m=4", "sbc:m=4", "btc:m=4", "wtc:m=4"] {
            let found = measured_of(spec, &padded, 3, &[SUITE]);
            assert_eq!(found, measured(spec, &TRAIN, &[SUITE]), "{spec}");
        }
    }

    #[test]
    fn constant_states_are_one() {
        let train: [&[f32]; 1] = [&[2.0, 2.0]];
        assert_eq!(measured("bsc", &train, &train), [share(1, 1)]);
        assert_eq!(measured("btc", &train, &[]), [share(0, 1)]);
        assert_eq!(measured("wsc", &train, &train), [share(2, 2), share(1, 1)]);
        assert_eq!(measured("sbc", &train, &train), [share(0, 2)]);
    }

    #[test]
    fn networks_without_recurrent_layers_are_refused() {
        let network = NetworkShape::default();
        for name in ["bsc", "wsc", "sbc", "btc", "wtc"] {
            let error = create(&name.parse().unwrap(), &network).err().unwrap();
            assert!(matches!(error, CriterionError::Fit { .. }), "{error}");
        }
    }

    #[test]
    fn only_boundaries_have_a_distance() {
        let network = NetworkShape {
            layers: vec![LayerShape {
                neurons: 1,
                units: 2,
            }],
            recurrent: vec![0],
            ..NetworkShape::default()
        };
        let made = |spec: &str| create(&spec.parse().unwrap(), &network);
        assert!(made("sbc:n=3").is_ok() && made("bsc:n=3").is_err());
    }
}
