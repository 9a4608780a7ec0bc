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
use crate::criterion::{Amount, Criterion, CriterionValue, LayerValues};
use crate::error::CriterionError;
use crate::exact::fixed;
use crate::needs::Needs;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::{LayerShape, NetworkShape};
use crate::spec::{Options, Spec};
use crate::state::{BitSet, Handle, SetPart, State, SumsPart};
use crate::training::Training;
use npcov_cpu::widest;
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

/// Units that are summed together.
const UNITS: usize = 256;

/// Inputs whose numbers of a unit are added at once: a register of the widest vectors.
const TOGETHER: usize = 16;

/// Adds the rectified numbers of inputs, each in fixed point.
///
/// The numbers of a unit are added in double precision where that is exact. Let all numbers of a
/// block of units be 0 or have exponents from `low` to `high`. They are multiples of q = 2^(low-23),
/// the worth of the smallest one's last bit, and so are their sums. A sum of 16 is below
/// 2^(high+1+4), which is at most 2^52 q if high - low <= 24: so sums are whole numbers of q that a
/// double holds. If low is at least -41, q is a multiple of 2^-64, the unit of the fixed point. That
/// is how it nearly always is, because it takes a number below a 2^24th of another for it not to be.
fn add_rectified(numbers: Shown<'_>, sums: &mut [i128]) {
    let (as_they_lie, _) = numbers.places().as_chunks::<TOGETHER>();
    let mut copied = [[0.0; TOGETHER]; UNITS];
    for first in (0..numbers.inputs()).step_by(TOGETHER) {
        let inputs = (numbers.inputs() - first).min(TOGETHER);
        for (block, sums) in sums.chunks_mut(UNITS).enumerate() {
            let units = block * UNITS..block * UNITS + sums.len();
            let packs = match numbers.stride() == TOGETHER {
                true => &as_they_lie[units],
                false => {
                    for (pack, unit) in copied.iter_mut().zip(units) {
                        let all = &numbers.position(unit)[first..];
                        pack[..inputs].copy_from_slice(&all[..inputs]);
                    }
                    &copied[..sums.len()]
                }
            };
            add_rectified_block(packs, inputs, sums);
        }
    }
}

/// Adds those of the first so many inputs of a block of units.
fn add_rectified_block(packs: &[[f32; TOGETHER]], inputs: usize, sums: &mut [i128]) {
    // A place without an input counts as 0.
    let mask: [u32; TOGETHER] = std::array::from_fn(|place| match place < inputs {
        true => u32::MAX,
        false => 0,
    });
    let mut totals = [0.0; UNITS];
    let exponents = widest(
        #[inline(always)]
        || total(packs, &mask, &mut totals),
    );
    match exponents {
        Exponents::None => {}
        Exponents::Between(low, high) if low >= -41 && high <= 30 && high - low <= 24 => {
            // Added to 2^52, a whole number below that is what the last 52 bits say.
            let per_quantum = power_of_two(23 - low);
            let shift = low - 23 + 64;
            for (sum, total) in sums.iter_mut().zip(&totals) {
                let whole = (total * per_quantum + WHOLE).to_bits() - WHOLE.to_bits();
                *sum += i128::from(whole) << shift;
            }
        }
        Exponents::Between(..) => {
            for (sum, pack) in sums.iter_mut().zip(packs) {
                for &x in &pack[..inputs] {
                    *sum += fixed(f64::from(rectified(x)));
                }
            }
        }
    }
}

/// From 2^52 on, doubles are whole numbers, up to 2^53 all of them.
const WHOLE: f64 = (1u64 << 52) as f64;

/// 2 to a power that is not beyond the range of doubles.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// The smallest and the largest exponent of numbers.
enum Exponents {
    /// All numbers are 0.
    None,
    /// Those of the others.
    Between(i32, i32),
}

/// Adds up the rectified numbers of each unit that the mask leaves.
///
/// The bits of floats that are not negative have the order of the floats, and those of negative ones
/// are negative as whole numbers. Infinity and NaN have an exponent of their own, 128.
#[inline(always)]
fn total(
    packs: &[[f32; TOGETHER]],
    mask: &[u32; TOGETHER],
    totals: &mut [f64; UNITS],
) -> Exponents {
    let mut smallest = [u32::MAX; TOGETHER];
    let mut largest = [0_u32; TOGETHER];
    for (pack, total) in packs.iter().zip(totals) {
        let mut numbers = [0.0; TOGETHER];
        for lane in 0..TOGETHER {
            let bits = pack[lane].to_bits().cast_signed().max(0).cast_unsigned() & mask[lane];
            // One less makes 0 the largest.
            smallest[lane] = smallest[lane].min(bits.wrapping_sub(1));
            largest[lane] = largest[lane].max(bits);
            numbers[lane] = f64::from(f32::from_bits(bits));
        }
        let eight: [f64; 8] = std::array::from_fn(|i| numbers[i] + numbers[i + 8]);
        let four: [f64; 4] = std::array::from_fn(|i| eight[i] + eight[i + 4]);
        *total = (four[0] + four[2]) + (four[1] + four[3]);
    }
    let smallest = smallest.iter().fold(u32::MAX, |a, &b| a.min(b));
    let largest = largest.iter().fold(0, |a, &b| a.max(b));
    let exponent = |bits: u32| (bits >> 23).cast_signed() - 127;
    match largest {
        0 => Exponents::None,
        // What is too small to have an exponent seems to have -127.
        _ => Exponents::Between(exponent(smallest + 1), exponent(largest)),
    }
}

/// What ReLU makes of a number. NaN becomes 0.
fn rectified(x: f32) -> f32 {
    if x > 0.0 { x } else { 0.0 }
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

    fn watch(&self, tap: Tap, numbers: Shown<'_>, state: &mut State) -> Result<(), CriterionError> {
        let layers = self.layers();
        let first: usize = layers[..tap.layer].iter().map(|layer| layer.units).sum();
        let units = first..first + layers[tap.layer].units;
        add_rectified(numbers, &mut state.get_mut(SUMS)?[units]);
        Ok(())
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
    use proptest::prelude::*;

    use super::*;
    use crate::registry::create;
    use crate::training::TrainingTable;
    use npcov_tap::Column;

    /// Rows of inputs as an engine has them in memory. Places without an input hold something, which
    /// is not to count.
    fn places(rows: &[f32], width: usize, stride: usize) -> Vec<f32> {
        let mut places = vec![1e6; width * stride];
        for (input, row) in rows.chunks_exact(width).enumerate() {
            for (unit, &x) in row.iter().enumerate() {
                places[unit * stride + input] = x;
            }
        }
        places
    }

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
        for tap in needs.watched {
            let numbers = column(tap.side).data;
            let places = places(numbers, 4, TOGETHER);
            let shown = Shown::new(&places, 2, TOGETHER);
            nc.watch(tap, shown, &mut state).unwrap();
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

    /// Each number in fixed point by itself.
    fn add_rectified_naively(rows: &[f32], sums: &mut [i128]) {
        for row in rows.chunks_exact(sums.len()) {
            for (sum, &x) in sums.iter_mut().zip(row) {
                *sum += fixed(f64::from(x.max(0.0)));
            }
        }
    }

    /// Sums of rows, fast and naively, to which something was added before.
    fn sums(rows: &[f32], units: usize, stride: usize) -> [Vec<i128>; 2] {
        let (mut fast, mut naive) = (vec![1; units], vec![1; units]);
        let inputs = rows.len() / units;
        let places = places(rows, units, stride);
        add_rectified(Shown::new(&places, inputs, stride), &mut fast);
        add_rectified_naively(rows, &mut naive);
        [fast, naive]
    }

    #[test]
    fn the_last_bit_of_a_small_number_counts() {
        // One small number with its last bit set among large ones: from some size on, their sum
        // has more than 53 bits. And from some smallness on, that bit is below the fixed point.
        for smallness in [0, 10, 17, 18, 19, 40, 120] {
            let small = (1.0 + f32::EPSILON) * f32::exp2(-(smallness as f32));
            for exponent in 0..32 {
                let large = (2.0 - f32::EPSILON) * (1u64 << exponent) as f32;
                let mut data = [large; TOGETHER];
                data[3] = small;
                let [fast, naive] = sums(&data, 1, TOGETHER);
                assert_eq!(fast, naive, "2^-{smallness} and 2^{exponent}");
            }
        }
    }

    fn number() -> impl Strategy<Value = f32> {
        prop_oneof![
            20 => -8.0_f32..8.0,
            1 => any::<f32>(),
            1 => Just(f32::MIN_POSITIVE),
            1 => Just(f32::INFINITY),
            1 => Just(f32::NAN),
        ]
    }

    proptest! {
        #[test]
        fn sums_are_those_of_single_numbers(
            units in 1..600_usize,
            numbers in proptest::collection::vec(number(), 40),
            plain in any::<bool>(),
            (stride, inputs) in prop_oneof![Just(TOGETHER), 1..40_usize]
                .prop_flat_map(|stride| (Just(stride), 0..=stride)),
        ) {
            // Blocks with odd numbers and blocks without, some of which are added at once.
            let one = |i: usize| match numbers[i * 7 % 40] {
                x if plain && !(x.is_finite() && x.abs() < 8.0) => 0.5,
                x => x * (1.0 + i as f32 / 1e4),
            };
            let rows: Vec<f32> = (0..inputs * units).map(one).collect();
            let [fast, naive] = sums(&rows, units, stride);
            prop_assert_eq!(fast, naive);
        }
    }
}
