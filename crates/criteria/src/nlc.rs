//! NLC: neural coverage (Yuan et al., *Revisiting neuron coverage for DNN testing: a layer-wise and
//! distribution-aware criterion*).
//!
//! The more a suite spreads the numbers of a layer, in all directions, the better. A layer is worth
//! the mean size of the members of its covariance matrix: the mean values of its neurons, over all
//! inputs, without a correction for few of them. The layers are the convolutions and dense layers,
//! the one that gives the logits included, before any activation function. The value is the sum over
//! layers. There are no options.
//!
//! Covariances come from sums that do not depend on the order of inputs: numbers are rounded to
//! multiples of 2^-20, and the multiples and their products are added as whole numbers. A float of 8
//! or more is such a multiple anyway; smaller ones are moved by at most 2^-21, which moves the
//! covariance of two neurons by at most about 2^-21 times the sum of their deviations. Numbers beyond
//! 2^20 are taken as 2^20, and NaN as 0: products are then up to 2^80, and there is room for 2^46 of
//! them.

use crate::batch::Batch;
use crate::criterion::{Criterion, CriterionValue, impossible};
use crate::error::CriterionError;
use crate::needs::Needs;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::{LayerShape, NetworkShape};
use crate::spec::{Options, Spec};
use crate::state::{Handle, State, SumsPart};
use crate::training::Training;
use npcov_tap::Column;
use npcov_tap::{Reduction, Side, Tap};

/// NLC.
pub(crate) const NLC: Entry = Entry {
    name: "nlc",
    summary: "spread of each layer: the size of its covariances",
    meaning: Meaning::of_neurons(Unit::Spread),
    is_default: true,
    create: Nlc::create,
};

/// How many inputs there were.
const INPUTS: SumsPart = SumsPart("inputs");

/// For each layer, the sums of its neurons, then those of the products of its pairs.
const MOMENTS: SumsPart = SumsPart("moments");

const POINT: f64 = (1u64 << 20) as f64;
const LARGEST: f64 = (1u64 << 20) as f64;

/// The criterion.
struct Nlc {
    network: NetworkShape,
}

/// The most neurons of a layer: the products of their pairs take 2 GB.
const MOST_NEURONS: usize = 1 << 14;

/// The most sums of all layers, which take 4 GB.
const MOST_SUMS: usize = 1 << 28;

/// How many sums are kept of a layer: of its neurons, and of their pairs.
fn sums_of(layer: &LayerShape) -> usize {
    layer.neurons + triangle(layer.neurons)
}

impl Nlc {
    /// Of all path layers.
    fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        Options::of(spec).end()?;
        if let Some(layer) = network.sums.iter().find(|l| l.neurons > MOST_NEURONS) {
            return Err(CriterionError::Fit {
                criterion: "nlc".to_owned(),
                reason: format!("a layer of {} neurons has too many pairs", layer.neurons),
            });
        }
        if network.sums.iter().map(sums_of).sum::<usize>() > MOST_SUMS {
            return Err(CriterionError::Fit {
                criterion: "nlc".to_owned(),
                reason: "its layers have too many pairs of neurons together".to_owned(),
            });
        }
        Ok(Box::new(Nlc {
            network: network.clone(),
        }))
    }

    fn tap(layer: usize) -> Tap {
        Tap {
            layer,
            side: Side::Sum,
            reduction: Reduction::Mean,
        }
    }

    /// What each layer is worth.
    fn layers(&self, state: &State) -> Result<Vec<f64>, CriterionError> {
        let inputs = state.get(INPUTS)?[0];
        let mut moments = state.get(MOMENTS)?;
        let layer = |shape: &LayerShape| {
            let (sums, rest) = moments.split_at(shape.neurons);
            let (products, rest) = rest.split_at(triangle(shape.neurons));
            moments = rest;
            mean_covariance(inputs, sums, products)
        };
        Ok(self.network.sums.iter().map(layer).collect())
    }
}

/// Pairs of neurons of a layer, each neuron with itself included.
fn triangle(neurons: usize) -> usize {
    neurons * (neurons + 1) / 2
}

/// Where the pairs of a neuron with itself and those after it begin.
fn row_start(neuron: usize, neurons: usize) -> usize {
    triangle(neurons) - triangle(neurons - neuron)
}

/// A number as a whole one, in multiples of 2^-20.
fn quantised(x: f32) -> f64 {
    let multiple = (f64::from(x).clamp(-LARGEST, LARGEST) * POINT).round_ties_even();
    if multiple.is_nan() { 0.0 } else { multiple }
}

/// The mean size of a layer's covariances; 0 without inputs.
fn mean_covariance(inputs: i128, sums: &[i128], products: &[i128]) -> f64 {
    if inputs == 0 || sums.is_empty() {
        return 0.0;
    }
    let neurons = sums.len();
    let mut total = 0.0;
    for i in 0..neurons {
        let row = &products[row_start(i, neurons)..];
        total += covariance(inputs, row[0], sums[i], sums[i]).abs();
        for (&product, &sum) in row[1..].iter().zip(&sums[i + 1..]) {
            total += 2.0 * covariance(inputs, product, sums[i], sum).abs();
        }
    }
    total / (neurons as f64).powi(2)
}

/// E(xy) - E(x)E(y), from the sums of xy, x and y. What cancels is taken off as whole numbers.
fn covariance(inputs: i128, product: i128, a: i128, b: i128) -> f64 {
    let n = inputs as f64;
    let pair = inputs.checked_mul(product).zip(a.checked_mul(b));
    let scaled = match pair.and_then(|(xy, x_y)| xy.checked_sub(x_y)) {
        Some(difference) => difference as f64,
        // Numbers close to 2^20, of more than 2^23 inputs.
        None => n * product as f64 - a as f64 * b as f64,
    };
    scaled / (n * n) / (POINT * POINT)
}

/// Neurons whose products with as many others are added up together.
const PANEL: usize = 4;

/// Adds a layer's numbers and their products.
///
/// Products are added in double precision, which is exact for whole numbers as long as no sum
/// exceeds 2^53: with numbers up to m, that many inputs are added at a time that their number times
/// m^2 does not.
fn add(column: Column<'_>, inputs: usize, sums: &mut [i128], products: &mut [i128]) {
    let neurons = sums.len();
    if neurons == 0 {
        return;
    }
    let mut numbers = Vec::with_capacity(inputs * neurons);
    for input in 0..inputs {
        numbers.extend(column.row(input).iter().map(|&x| quantised(x)));
    }
    let largest = numbers
        .iter()
        .fold(1.0, |largest: f64, x| largest.max(x.abs()));
    let group = ((1u64 << 53) as f64 / (largest * largest)) as usize;
    if group == 0 {
        return add_one_by_one(&numbers, sums, products);
    }
    // Inputs of a panel lie one after the other; where there are too few neurons, there are zeros.
    let group = group.min(inputs.max(1));
    let panels = neurons.div_ceil(PANEL);
    let mut packed = vec![[0.0; PANEL]; panels * group];
    for rows in numbers.chunks(group * neurons) {
        let inputs = rows.len() / neurons;
        for (input, row) in rows.chunks_exact(neurons).enumerate() {
            for (panel, some) in row.chunks(PANEL).enumerate() {
                packed[panel * inputs + input][..some.len()].copy_from_slice(some);
            }
            for (sum, &x) in sums.iter_mut().zip(row) {
                *sum += x as i128;
            }
        }
        let panel = |panel: usize| &packed[panel * inputs..][..inputs];
        for rows in 0..panels {
            for columns in rows..panels {
                let tile = tile(panel(rows), panel(columns));
                for (i, tile_row) in (rows * PANEL..neurons).zip(&tile) {
                    let start = row_start(i, neurons);
                    for (j, &product) in (columns * PANEL..neurons).zip(tile_row) {
                        if j >= i {
                            products[start + j - i] += i128::from(product as i64);
                        }
                    }
                }
            }
        }
    }
}

/// The sums over inputs of the products of some neurons with some others.
#[inline]
fn tile(rows: &[[f64; PANEL]], columns: &[[f64; PANEL]]) -> [[f64; PANEL]; PANEL] {
    let mut sums = [[0.0; PANEL]; PANEL];
    for (a, b) in rows.iter().zip(columns) {
        for i in 0..PANEL {
            for j in 0..PANEL {
                sums[i][j] += a[i] * b[j];
            }
        }
    }
    sums
}

/// Adds rows of whole numbers and their products, however large they are.
fn add_one_by_one(numbers: &[f64], sums: &mut [i128], products: &mut [i128]) {
    for row in numbers.chunks_exact(sums.len()) {
        let row: Vec<i128> = row.iter().map(|&x| x as i128).collect();
        let mut products = products.iter_mut();
        for (i, &x) in row.iter().enumerate() {
            sums[i] += x;
            for (&y, product) in row[i..].iter().zip(&mut products) {
                *product += x * y;
            }
        }
    }
}

impl Criterion for Nlc {
    fn needs(&self) -> Needs {
        Needs::taps((0..self.network.sums.len()).map(Nlc::tap))
    }

    fn sums(&self) -> usize {
        self.network.sums.iter().map(sums_of).sum()
    }

    fn state(&self) -> State {
        State::new([INPUTS.with(vec![0]), MOMENTS.with(vec![0; self.sums()])])
    }

    fn check(&self, state: &State, inputs: usize) -> Result<(), CriterionError> {
        match *state.get(INPUTS)? {
            [summed] if summed == inputs as i128 => Ok(()),
            _ => Err(impossible(format!("sums are not those of {inputs} inputs"))),
        }
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        state.get_mut(INPUTS)?[0] += batch.len() as i128;
        let mut moments = state.get_mut(MOMENTS)?;
        for (layer, shape) in self.network.sums.iter().enumerate() {
            let (sums, rest) = moments.split_at_mut(shape.neurons);
            let (products, rest) = rest.split_at_mut(triangle(shape.neurons));
            moments = rest;
            add(batch.tap(Nlc::tap(layer))?, batch.len(), sums, products);
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let sum = self.layers(state)?.iter().sum();
        Ok(vec![CriterionValue::number("nlc", sum)])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::training::TrainingTable;

    /// What points are worth by layer, in layers of two neurons.
    fn layers(points: &[[f32; 4]]) -> Vec<f64> {
        let layer = LayerShape {
            neurons: 2,
            units: 2,
        };
        let network = NetworkShape {
            sums: vec![layer; 2],
            ..NetworkShape::default()
        };
        let nlc = Nlc { network };
        let rows = points.concat();
        let span = |start| Column {
            data: &rows,
            stride: 4,
            start,
            len: 2,
        };
        let batch = Batch {
            predictions: &vec![0; points.len()],
            logits: Column::of(&[], 0),
            taps: vec![(Nlc::tap(0), span(0)), (Nlc::tap(1), span(2))],
            observations: &[],
            training: None,
        };
        let mut state = nlc.state();
        nlc.observe(&batch, &TrainingTable::default(), &mut state)
            .unwrap();
        let layers = nlc.layers(&state).unwrap();
        let sum: f64 = layers.iter().sum();
        assert_eq!(nlc.values(&state).unwrap()[0].amount.value(), sum);
        layers
    }

    #[test]
    fn worked_case() {
        // Case 19, and the same points with the second neuron's sign turned and half the size.
        let points = [[0.0, 0.0], [2.0, 1.0], [4.0, 5.0]];
        let points = points.map(|[x, y]| [x, y, x / 2.0, -y / 2.0]);
        let [first, second] = layers(&points)[..] else {
            panic!("no numbers");
        };
        assert!((first - 3.5).abs() < 1e-12, "{first}");
        assert!((second - 0.875).abs() < 1e-12, "{second}");
    }

    #[test]
    fn without_spread_there_is_nothing() {
        assert_eq!(layers(&[]), [0.0; 2]);
        assert_eq!(layers(&[[0.1; 4]; 3]), [0.0; 2]);
        assert_eq!(layers(&[[f32::NAN; 4]; 3]), [0.0; 2]);
    }

    #[test]
    fn numbers_are_multiples_of_a_millionth() {
        assert_eq!((quantised(1.0), quantised(-0.5)), (POINT, -POINT / 2.0));
        assert_eq!(quantised(f32::INFINITY), LARGEST * POINT);
        assert_eq!(quantised(f32::NAN), 0.0);
        // A float of 8 is followed by one that is 2^-20 larger.
        assert_eq!(quantised(8.0_f32.next_up()), 8.0 * POINT + 1.0);
    }

    #[test]
    fn large_sums_are_close() {
        // x is 2^20 for half of 2^30 inputs: deviation 2^19.
        let (n, x) = (1_i128 << 30, 1_i128 << 40);
        let variance = covariance(n, n / 2 * x * x, n / 2 * x, n / 2 * x);
        assert_eq!(variance, (1_u64 << 38) as f64);
    }

    #[test]
    fn no_sum_is_too_long() {
        // The square of 2^24 - 1 is odd and nearly 2^48: an odd number of those is odd, and from 33
        // on it has more than 53 bits.
        let x = 16.0 - 1.0 / POINT as f32;
        assert_eq!(quantised(x), ((1 << 24) - 1) as f64);
        let (mut sums, mut products) = ([0], [0]);
        add(Column::of(&[x; 41], 1), 41, &mut sums, &mut products);
        let multiple = (1_i128 << 24) - 1;
        assert_eq!(
            (sums[0], products[0]),
            (41 * multiple, 41 * multiple.pow(2))
        );
    }

    /// The mean of |covariances|, with means taken off first.
    fn by_definition(rows: &[f32], neurons: usize) -> f64 {
        let inputs = (rows.len() / neurons) as f64;
        let mean =
            |of: &dyn Fn(&[f32]) -> f64| rows.chunks_exact(neurons).map(of).sum::<f64>() / inputs;
        let mut total = 0.0;
        for i in 0..neurons {
            for j in 0..neurons {
                let (a, b) = (mean(&|r| r[i].into()), mean(&|r| r[j].into()));
                let product = |r: &[f32]| (f64::from(r[i]) - a) * (f64::from(r[j]) - b);
                total += mean(&product).abs();
            }
        }
        total / (neurons * neurons) as f64
    }

    fn number() -> impl Strategy<Value = f32> {
        prop_oneof![
            8 => -4.0_f32..4.0,
            1 => -3e3_f32..3e3,
            1 => any::<f32>(),
        ]
    }

    proptest! {
        #[test]
        fn any_way_gives_the_same_whole_numbers(
            neurons in 1..11_usize,
            pool in proptest::collection::vec(number(), 120),
            largest in prop_oneof![Just(4.0_f32), Just(40.0), Just(1e3), Just(f32::INFINITY)],
            inputs in 0..12_usize,
        ) {
            let rows: Vec<f32> = pool[..inputs * neurons.min(10)]
                .iter()
                .cycle()
                .take(inputs * neurons)
                .map(|x| x.clamp(-largest, largest))
                .collect();
            let mut sums = vec![3; neurons];
            let mut products = vec![5; triangle(neurons)];
            let (mut naive_sums, mut naive_products) = (sums.clone(), products.clone());
            add(Column::of(&rows, neurons), inputs, &mut sums, &mut products);
            let numbers: Vec<f64> = rows.iter().map(|&x| quantised(x)).collect();
            add_one_by_one(&numbers, &mut naive_sums, &mut naive_products);
            prop_assert_eq!(sums, naive_sums);
            prop_assert_eq!(products, naive_products);
        }

        #[test]
        fn as_defined(
            neurons in 1..6_usize,
            pool in proptest::collection::vec(-4.0_f32..4.0, 5..60),
        ) {
            let inputs = pool.len() / neurons;
            let rows = &pool[..inputs * neurons];
            let mut sums = vec![0; neurons];
            let mut products = vec![0; triangle(neurons)];
            add(Column::of(rows, neurons), inputs, &mut sums, &mut products);
            let value = mean_covariance(inputs as i128, &sums, &products);
            let wanted = by_definition(rows, neurons);
            prop_assert!((value - wanted).abs() < 1e-5, "{value} is not {wanted}");
        }
    }
}
