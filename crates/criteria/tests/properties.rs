//! What holds for every criterion: however a suite is cut into batches and states, and in whatever
//! order its inputs come, it is worth the same.

use std::collections::BTreeSet;

use npcov_criteria::{
    Amount, Batch, CRITERIA, Column, Criterion, CriterionError, GraphShape, InputRun, LayerShape,
    NetworkShape, Reduction, Shown, Side, Slot, State, StatePart, Tap, TrainingTable, Unit, create,
    find,
};
use npcov_paths::choices::Buckets;
use npcov_paths::{AnpcLayer, Choices, ClusterView, Jaccard, Observation};
use proptest::collection::vec;
use proptest::prelude::*;

const CLASSES: usize = 2;
const BUCKETS: u16 = 5;
const TRAINING: usize = 40;

/// A network, its training data and a suite, all made up.
#[derive(Clone, Debug)]
struct World {
    network: NetworkShape,
    training: TrainingTable,
    inputs: Vec<Input>,
}

/// An input as the network sees it.
#[derive(Clone, Debug)]
struct Input {
    logits: Vec<f32>,
    /// By layer, what goes into each unit's activation function.
    units: Vec<Vec<f32>>,
    observation: Observation,
}

fn world() -> impl Strategy<Value = World> {
    vec((1..4_usize, 1..4_usize), 2..4).prop_flat_map(|shapes| {
        let layer = |&(neurons, positions): &(usize, usize)| LayerShape {
            neurons,
            units: neurons * positions,
        };
        let layers: Vec<LayerShape> = shapes.iter().map(layer).collect();
        let anpc = |layer| AnpcLayer { layer, upper: 2.0 };
        let network = NetworkShape {
            sums: layers.clone(),
            classes: CLASSES,
            logits: CLASSES,
            graph: Some(GraphShape {
                // A cluster fewer than asked for in the first class.
                classes: vec![(2, 1), (2, 2)],
                choices: Choices {
                    snpc_buckets: Buckets::new(BUCKETS.into()).unwrap(),
                    anpc_buckets: Buckets::new(BUCKETS.into()).unwrap(),
                    ..Choices::default()
                },
                anpc: (0..layers.len()).map(anpc).collect(),
            }),
            recurrent: (0..layers.len()).collect(),
            layers,
        };
        let inputs = vec(input(&network), 0..10);
        (training(&network), inputs).prop_map(move |(training, inputs)| World {
            network: network.clone(),
            training,
            inputs,
        })
    })
}

fn training(network: &NetworkShape) -> impl Strategy<Value = TrainingTable> + use<> {
    let neurons = network.neurons();
    let activations = vec(0.0..2.0_f32, TRAINING * neurons);
    let importance: Vec<_> = network
        .layers
        .iter()
        .map(|layer| vec(-1.0..1.0_f64, layer.neurons))
        .collect();
    let taps: Vec<_> = (network.layers.iter().enumerate())
        .flat_map(|(layer, shape)| {
            let numbers = |reduction, width, range: std::ops::Range<f32>| {
                let tap = Tap {
                    layer,
                    side: Side::After,
                    reduction,
                };
                (Just(tap), Just(width), vec(range, TRAINING * width))
            };
            let steps = shape.units / shape.neurons;
            [
                numbers(Reduction::Units, shape.units, 0.0..2.0),
                numbers(Reduction::Valid, steps, -0.5..2.0),
            ]
        })
        .collect();
    let numbers = (activations, importance, taps);
    numbers.prop_map(move |(activations, importance, taps)| TrainingTable {
        taps,
        predictions: (0..TRAINING).map(|i| (i % CLASSES) as u32).collect(),
        neurons,
        activations,
        importance,
    })
}

fn input(network: &NetworkShape) -> impl Strategy<Value = Input> + use<> {
    let units: Vec<_> = network
        .layers
        .iter()
        .map(|layer| vec(-2.0..3.0_f32, layer.units))
        .collect();
    let logits = vec(-3.0..3.0_f32, network.logits);
    let places = vec(
        (0..3_u32, bucket(), 0.0..3.0_f64, bucket()),
        2 * units.len(),
    );
    (logits, units, places).prop_map(|(logits, units, places)| {
        let clusters = match prediction(&logits) {
            0 => 0..1,
            _ => 1..3,
        };
        let view = |(cluster, places): (usize, &[(u32, _, f64, _)])| ClusterView {
            cluster,
            similarity: 0.5,
            layers: places
                .iter()
                .map(|&(shared, bucket, ..)| (Jaccard { shared, united: 3 }, bucket))
                .collect(),
            neighbour: None,
            distances: places.iter().map(|&(.., d, bucket)| (d, bucket)).collect(),
        };
        let observation = Observation {
            clusters: clusters.zip(places.chunks(units.len())).map(view).collect(),
            nearest: None,
            nearest_other: None,
        };
        Input {
            logits,
            units,
            observation,
        }
    })
}

fn bucket() -> impl Strategy<Value = Option<u16>> {
    proptest::option::of(1..=BUCKETS)
}

fn prediction(logits: &[f32]) -> u32 {
    u32::from(logits[1] > logits[0])
}

/// What criteria see of some inputs.
struct Tables {
    predictions: Vec<u32>,
    logits: Vec<f32>,
    taps: Vec<(Tap, usize, Vec<f32>)>,
    observations: Vec<Observation>,
}

impl Tables {
    fn of(world: &World, order: &[usize]) -> Tables {
        let inputs = || order.iter().map(|&i| &world.inputs[i]);
        let mut taps = Vec::new();
        for (layer, shape) in world.network.layers.iter().enumerate() {
            for side in [Side::Before, Side::After, Side::Sum] {
                use Reduction::{Max, Mean, Min, Units, Valid};
                for reduction in [Mean, Max, Min, Units, Valid] {
                    let tap = Tap {
                        layer,
                        side,
                        reduction,
                    };
                    let numbers = inputs().flat_map(|input| tapped(tap, input, shape));
                    let width = match reduction {
                        Units => shape.units,
                        Valid => shape.units / shape.neurons,
                        Mean | Max | Min => shape.neurons,
                    };
                    taps.push((tap, width, numbers.collect()));
                }
            }
        }
        Tables {
            predictions: inputs().map(|input| prediction(&input.logits)).collect(),
            logits: inputs().flat_map(|input| input.logits.clone()).collect(),
            taps,
            observations: inputs().map(|input| input.observation.clone()).collect(),
        }
    }

    fn batch(&self) -> Batch<'_> {
        let taps = self.taps.iter();
        Batch {
            predictions: &self.predictions,
            logits: Column::of(&self.logits, CLASSES),
            taps: taps
                .map(|(tap, width, numbers)| (*tap, Column::of(numbers, *width)))
                .collect(),
            observations: &self.observations,
            training: None,
        }
    }
}

fn tapped(tap: Tap, input: &Input, shape: &LayerShape) -> Vec<f32> {
    let units = input.units[tap.layer].iter().map(|&x| match tap.side {
        Side::Before | Side::Sum => x,
        Side::After => x.max(0.0),
    });
    let units: Vec<f32> = units.collect();
    let positions = shape.units / shape.neurons;
    let neurons = units.chunks(positions);
    match tap.reduction {
        Reduction::Units => units,
        Reduction::Mean => neurons
            .map(|n| n.iter().sum::<f32>() / positions as f32)
            .collect(),
        Reduction::Max => neurons
            .map(|n| n.iter().copied().fold(f32::NEG_INFINITY, f32::max))
            .collect(),
        Reduction::Min => neurons
            .map(|n| n.iter().copied().fold(f32::INFINITY, f32::min))
            .collect(),
        Reduction::Valid => vec![1.0; positions],
    }
}

/// All criteria, and some with other options, fitted to the training data.
fn criteria(world: &World) -> Vec<(String, Box<dyn Criterion>)> {
    let options = [
        "kmnc:sections=3:edges=lower-open",
        "nbc:variant=sections:sections=2:divisor=4",
        "nbc:slack=0.5:edges=inclusive",
        "snac:slack=0.5",
        "nc:variant=deepxplore",
        "nc:variant=neural-coverage",
        "nc:variant=raw:thresholds=0.5",
        "tknc:k=1",
        "tknp:k=2:order=list",
        "cc:threshold=0.5",
        "lsc:edges=sadl:buckets=10:upper=20",
        "dsc:layer=0:buckets=10",
        "dct:p=0.75",
        "sbc:k=2:m=4:n=2",
    ];
    let names = CRITERIA.iter().map(|entry| entry.name);
    names
        .chain(options)
        .map(|spec| {
            let mut criterion = create(&spec.parse().unwrap(), &world.network).unwrap();
            let fit = criterion.fit(&world.training).unwrap();
            criterion.restore(fit).unwrap();
            (spec.to_owned(), criterion)
        })
        .collect()
}

/// Inputs that an engine might compute together.
const PLACES: usize = 16;

/// Shows a criterion what it watches of some inputs.
fn watch(criterion: &dyn Criterion, batch: &Batch<'_>, state: &mut State) {
    let Some(mut watching) = criterion.watching() else {
        return;
    };
    for tap in criterion.needs().watched {
        let column = batch.tap(tap).unwrap();
        let all: Vec<usize> = (0..batch.len()).collect();
        for inputs in all.chunks(PLACES) {
            // Places without an input hold something.
            let mut numbers = vec![f32::MAX; column.len * PLACES];
            for (place, &input) in inputs.iter().enumerate() {
                for (i, &x) in column.row(input).iter().enumerate() {
                    numbers[i * PLACES + place] = x;
                }
            }
            let shown = Shown::new(&numbers, inputs.len(), PLACES);
            watching.watch(tap, shown);
        }
    }
    watching.hand_over(state).unwrap();
}

/// What a criterion keeps of inputs in an order, in batches of some sizes.
fn observed(
    criterion: &dyn Criterion,
    world: &World,
    order: &[usize],
    sizes: impl IntoIterator<Item = usize>,
) -> State {
    let tables = Tables::of(world, order);
    let batch = tables.batch();
    let mut state = criterion.state();
    let mut start = 0;
    for size in sizes {
        let end = batch.len().min(start + size);
        let part = batch.slice(start..end);
        criterion
            .observe(&part, &world.training, &mut state)
            .unwrap();
        watch(criterion, &part, &mut state);
        start = end;
    }
    assert_eq!(start, batch.len(), "sizes do not reach the last input");
    state
}

/// What a criterion keeps of inputs in an order, in one batch.
fn at_once(criterion: &dyn Criterion, world: &World, order: &[usize]) -> State {
    observed(criterion, world, order, [order.len()])
}

/// Sizes of batches: those of up to three, and one more of a single input, so that these over and
/// over reach any number of inputs.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(0..4_usize, 0..4).prop_map(|sizes| sizes.into_iter().chain([1]).collect())
}

/// The sizes over and over, often enough for some inputs.
fn repeated(sizes: &[usize], inputs: usize) -> impl Iterator<Item = usize> {
    std::iter::repeat_n(sizes, inputs).flatten().copied()
}

/// All inputs.
fn all(world: &World) -> Vec<usize> {
    (0..world.inputs.len()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn batches_do_not_matter(world in world(), sizes in sizes()) {
        let order = all(&world);
        for (name, criterion) in criteria(&world) {
            let whole = at_once(&*criterion, &world, &order);
            let sizes = repeated(&sizes, order.len());
            let grouped = observed(&*criterion, &world, &order, sizes);
            prop_assert_eq!(&whole, &grouped, "{}", name);
            let values = |state| criterion.values(state).unwrap();
            prop_assert_eq!(values(&whole), values(&grouped));
        }
    }

    #[test]
    fn order_does_not_matter(
        (world, order) in world().prop_flat_map(|world| {
            let order = Just(all(&world)).prop_shuffle();
            (Just(world), order)
        }),
    ) {
        for (name, criterion) in criteria(&world) {
            if criterion.ordered() {
                continue;
            }
            let whole = at_once(&*criterion, &world, &all(&world));
            let shuffled = at_once(&*criterion, &world, &order);
            // What is kept for each input follows its input.
            let run = |&input: &usize| InputRun { other: true, inputs: input..input + 1 };
            let runs: Vec<InputRun> = order.iter().map(run).collect();
            let mut reordered = criterion.state();
            prop_assert!(reordered.merge(&whole, &runs).is_ok(), "{}", name);
            prop_assert_eq!(reordered, shuffled, "{}", name);
        }
    }

    #[test]
    fn merged_states_are_the_whole(
        world in world(),
        sides in vec(any::<bool>(), 10),
        sizes in sizes(),
    ) {
        // Each input goes to one of two states; runs say how theirs follow on each other.
        let mut orders = [Vec::new(), Vec::new()];
        let mut runs: Vec<InputRun> = Vec::new();
        for input in all(&world) {
            let other = sides[input];
            let order = &mut orders[usize::from(other)];
            let place = order.len();
            order.push(input);
            match runs.last_mut() {
                Some(run) if run.other == other => run.inputs.end = place + 1,
                _ => runs.push(InputRun { other, inputs: place..place + 1 }),
            }
        }
        for (name, criterion) in criteria(&world) {
            let of = |order: &[usize]| {
                observed(&*criterion, &world, order, repeated(&sizes, order.len()))
            };
            let (mut merged, other) = (of(&orders[0]), of(&orders[1]));
            let result = merged.merge(&other, &runs);
            if criterion.ordered() {
                prop_assert!(matches!(result, Err(CriterionError::Ordered)), "{}", name);
                continue;
            }
            prop_assert!(result.is_ok(), "{}", name);
            let whole = at_once(&*criterion, &world, &all(&world));
            prop_assert_eq!(&merged, &whole, "{}", name);

            // One after the other is the simplest order.
            let half = world.inputs.len() / 2;
            let (first, second) = (all(&world)[..half].to_vec(), all(&world)[half..].to_vec());
            let mut appended = of(&first);
            prop_assert!(appended.append(&of(&second)).is_ok(), "{}", name);
            prop_assert_eq!(&appended, &whole, "{}", name);
        }
    }

    #[test]
    fn suites_cover_what_their_inputs_cover(world in world()) {
        for (name, criterion) in criteria(&world) {
            let tables = Tables::of(&world, &all(&world));
            let each = criterion.slots_of_each(&tables.batch(), &world.training).unwrap();
            let state = at_once(&*criterion, &world, &all(&world));
            let united: BTreeSet<Slot> = each.into_iter().flatten().collect();
            let sums = state.parts().iter().map(|(_, part)| match part {
                StatePart::Sums(sums) => sums.len(),
                _ => 0,
            });
            prop_assert!(criterion.sums() <= sums.sum(), "{}", name);
            for slot in &united {
                let Slot::Number(number) = slot else { continue };
                prop_assert!(*number < criterion.bound_of_numbers(), "{}: {}", name, number);
            }
            let slots: BTreeSet<Slot> = criterion.slots(&state).unwrap().into_iter().collect();
            prop_assert_eq!(united, slots, "{}", name);
        }
    }

    #[test]
    fn what_is_missing_or_foreign_is_an_error(world in world()) {
        let all_criteria = criteria(&world);
        let tables = Tables::of(&world, &all(&world));
        let without_taps = Batch { taps: Vec::new(), ..tables.batch() };
        for (name, criterion) in &all_criteria {
            let mut state = criterion.state();
            let observed = criterion.observe(&without_taps, &world.training, &mut state);
            let starved = !criterion.needs().taps.is_empty() && !without_taps.is_empty();
            prop_assert!(observed.is_err() || !starved, "{}", name);
            for (other, another) in &all_criteria {
                let mut foreign = at_once(&**another, &world, &all(&world));
                let names = |state: &State| state.parts().iter().map(|p| p.0).collect::<Vec<_>>();
                let (own, others) = (names(&state), names(&foreign));
                let valued = criterion.values(&foreign).is_ok();
                if own.iter().all(|part| others.contains(part)) {
                    prop_assert!(valued, "{} of {}", name, other);
                } else if !own.iter().any(|part| others.contains(part)) {
                    prop_assert!(!valued, "{} of {}", name, other);
                }
                // Whether these fail is all the same, as long as they do not panic.
                let _ = criterion.by_layer(&foreign);
                let _ = criterion.by_cluster(&foreign);
                let _ = criterion.by_class(&foreign);
                let _ = criterion.slots(&foreign);
                let _ = criterion.warnings(&foreign);
                let _ = criterion.slots_by_input(&foreign);
                if let Some(mut watching) = criterion.watching() {
                    for tap in criterion.needs().watched {
                        watching.watch(tap, Shown::new(&[], 0, PLACES));
                    }
                    let _ = watching.hand_over(&mut foreign);
                }
            }
        }
    }

    #[test]
    fn nothing_is_used_that_was_not_asked_for(world in world()) {
        let tables = Tables::of(&world, &all(&world));
        let whole = tables.batch();
        for (name, criterion) in criteria(&world) {
            let needs = criterion.needs();
            let asked = |(tap, _): &&(Tap, Column<'_>)| needs.taps.contains(tap);
            let sparing = Batch {
                taps: whole.taps.iter().filter(asked).copied().collect(),
                observations: if needs.paths { whole.observations } else { &[] },
                ..whole.clone()
            };
            let nobody = TrainingTable::default();
            let training = if needs.training_traces { &world.training } else { &nobody };
            let observed = |batch: &Batch<'_>, training| {
                let mut state = criterion.state();
                criterion.observe(batch, training, &mut state).unwrap();
                state
            };
            let expected = observed(&whole, &world.training);
            prop_assert_eq!(observed(&sparing, training), expected, "{}", name);
            prop_assert!(needs.paths || !needs.neighbours, "{}", name);
        }
    }

    #[test]
    fn values_are_of_the_kind_that_is_told(world in world()) {
        for (name, criterion) in criteria(&world) {
            let entry = find(&name).unwrap();
            let state = at_once(&*criterion, &world, &all(&world));
            for value in criterion.values(&state).unwrap() {
                let unit = match value.amount {
                    Amount::Share { .. } => entry.meaning.unit == Unit::Share,
                    Amount::Count(_) => entry.meaning.unit == Unit::Count,
                    Amount::Number(_) => {
                        let scored = state.all_scores().next().is_some();
                        entry.meaning.unit == if scored { Unit::MeanScore } else { Unit::Spread }
                    }
                };
                prop_assert!(unit, "{}: {:?}", name, value);
                prop_assert_eq!(find(&value.name).unwrap().name, entry.name);
            }
            // What is measured can be read again.
            let checked = criterion.check(&state, world.inputs.len());
            prop_assert!(checked.is_ok(), "{}: {:?}", name, checked);
            let covered = criterion.slots(&state).unwrap().len() as u64;
            let things = criterion.things().unwrap();
            prop_assert!(things.is_none_or(|things| covered <= things), "{}", name);
            // A state says how many there are, too, without what was learnt.
            let values = criterion.values(&state).unwrap();
            let totals = values.iter().map(|value| match value.amount {
                Amount::Share { total, .. } => total,
                _ => u64::MAX,
            });
            let totals = totals.fold(0, u64::saturating_add);
            prop_assert!(covered <= criterion.most_covered(totals), "{}", name);
            // States of what is measured by default can be merged.
            prop_assert!(!(entry.is_default && criterion.ordered()), "{}", name);
        }
    }

    #[test]
    fn values_make_sense(world in world()) {
        for (name, criterion) in criteria(&world) {
            for inputs in [vec![], all(&world)] {
                let state = at_once(&*criterion, &world, &inputs);
                let values = criterion.values(&state).unwrap();
                prop_assert!(!values.is_empty(), "{}", name);
                let by_layer = criterion.by_layer(&state).unwrap();
                if !by_layer.is_empty() {
                    let names: Vec<&str> = values.iter().map(|v| v.name.as_str()).collect();
                    let layered: Vec<&str> = by_layer.iter().map(|v| v.name.as_str()).collect();
                    prop_assert_eq!(names, layered, "{}", name);
                }
                let layers = by_layer.iter().flat_map(|measure| &measure.layers);
                for amount in values.iter().map(|value| &value.amount).chain(layers) {
                    if let Amount::Share { covered, total } = amount {
                        prop_assert!(covered <= total, "{}: {:?}", name, amount);
                    }
                    prop_assert!(amount.value().is_finite(), "{}: {:?}", name, amount);
                }
                for measure in by_layer {
                    prop_assert_eq!(measure.layers.len(), world.network.layers.len(), "{}", name);
                }
            }
        }
    }
}
