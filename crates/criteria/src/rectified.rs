//! Sums of rectified numbers: those of each unit of a layer by themselves, exact, and as fast as memory.
//!
//! A layer of a network for photographs has a million units, and each gives a number for every input: what is added up
//! comes from memory and goes back there. So a sum has eight bytes, and those of a block of units are multiples of the
//! same power of two. What such sums cannot hold is added to sums in [fixed point](crate::exact), which have sixteen
//! bytes and are seldom looked at.

use crate::exact::fixed;
use npcov_cpu::widest;
use npcov_tap::Shown;
use std::ops::Range;

/// Units that have a power of two together.
const UNITS: usize = 256;

/// Numbers that are looked at together: a register of the widest vectors.
const TOGETHER: usize = 16;

/// Sums of rectified numbers.
///
/// Let the numbers of a block that are not 0 have exponents from `low` to `high`. They are multiples of 2^(low-23), the
/// worth of the smallest one's last bit. If that is a multiple of 2^-point, all sums of them are whole multiples of
/// 2^-point, which doubles add exactly up to 2^52 of these. A sum of 16 is below 2^(high+1+4), so it may be computed in
/// double precision if point is from 23-low to 47-high. With point up to 64 it is a multiple of the unit of the fixed
/// point, too. That is how it nearly always is: it takes a number below a 2^24th of another for it not to be.
pub(crate) struct RectifiedSums {
    /// Multiples of what the scale of their block says.
    sums: Vec<u64>,
    scales: Vec<Scale>,
    /// The rest of each sum in fixed point; empty as long as there is none.
    rest: Vec<i128>,
}

/// How the sums of a block are to be read.
#[derive(Clone, Copy, Default)]
struct Scale {
    /// They are multiples of 2^-point.
    point: i32,
    /// How often something below 2^52 was added to each.
    additions: u32,
}

/// Additions of numbers below 2^52 that 64 bits hold.
const ADDITIONS: u32 = 1 << 12;

impl RectifiedSums {
    /// Of no inputs.
    pub(crate) fn new(units: usize) -> RectifiedSums {
        RectifiedSums {
            sums: vec![0; units],
            scales: vec![Scale::default(); units.div_ceil(UNITS)],
            rest: Vec::new(),
        }
    }

    /// Of how many units.
    pub(crate) fn units(&self) -> usize {
        self.sums.len()
    }

    /// Adds the numbers of inputs.
    pub(crate) fn add(&mut self, numbers: Shown<'_>) {
        if numbers.inputs() == 0 {
            return;
        }
        let mut totals = [0.0; UNITS];
        let mut copied = [0.0; UNITS];
        let (packs, _) = numbers.places().as_chunks::<TOGETHER>();
        // A place without an input counts as 0.
        let mask = std::array::from_fn(|place| match place < numbers.inputs() {
            true => u32::MAX,
            false => 0,
        });
        for block in 0..self.scales.len() {
            let units = self.block(block);
            let first = units.start;
            if numbers.stride() == TOGETHER {
                let exponents = widest(
                    #[inline(always)]
                    || of_packs(&packs[units], &mask, &mut totals),
                );
                let each = |unit: usize| numbers.position(first + unit).iter().copied();
                self.add_block(block, exponents, &totals, each);
                continue;
            }
            for input in 0..numbers.inputs() {
                let row = match numbers.stride() {
                    1 => &numbers.places()[units.clone()],
                    _ => {
                        for (x, unit) in copied.iter_mut().zip(units.clone()) {
                            *x = numbers.position(unit)[input];
                        }
                        &copied[..units.len()]
                    }
                };
                let exponents = widest(
                    #[inline(always)]
                    || of_row(row, &mut totals),
                );
                let each = |unit: usize| std::iter::once(row[unit]);
                self.add_block(block, exponents, &totals, each);
            }
        }
    }

    /// Adds to a block the sums of some numbers of each unit, which `each` gives one by one.
    fn add_block<I: Iterator<Item = f32>>(
        &mut self,
        block: usize,
        exponents: Exponents,
        totals: &[f64; UNITS],
        each: impl Fn(usize) -> I,
    ) {
        let (least, most) = match exponents {
            Exponents::None => return,
            // Fixed point has no number from 2^31 on.
            Exponents::Between(low, high) if high <= 30 => (23 - low, (47 - high).min(64)),
            Exponents::Between(..) => (1, 0),
        };
        let units = self.block(block);
        if least > most {
            self.rest = self.take_rest();
            for (unit, rest) in self.rest[units].iter_mut().enumerate() {
                let numbers = each(unit).map(|x| fixed(f64::from(rectified(x))));
                *rest += numbers.sum::<i128>();
            }
            return;
        }
        let Scale { point, additions } = self.scales[block];
        if additions == ADDITIONS || !(least..=most).contains(&point) {
            // After the first numbers, later ones may be larger by some powers of two, and smaller by more.
            let wanted = if additions == 0 { most - 6 } else { point };
            if additions > 0 {
                let mut rest = self.take_rest();
                self.empty(block, &mut rest[units.clone()]);
                self.rest = rest;
            }
            self.scales[block].point = wanted.clamp(least, most);
        }
        let scale = &mut self.scales[block];
        scale.additions += 1;
        let per_unit = power_of_two(scale.point);
        let sums = &mut self.sums[units];
        widest(
            #[inline(always)]
            || {
                for (sum, total) in sums.iter_mut().zip(totals) {
                    // Added to 2^52, a whole number below that is what the last 52 bits say.
                    *sum += (total * per_unit + WHOLE).to_bits() - WHOLE.to_bits();
                }
            },
        );
    }

    /// Adds all sums to others, which are in fixed point, and begins anew.
    pub(crate) fn hand_over(&mut self, sums: &mut [i128]) {
        for block in 0..self.scales.len() {
            let units = self.block(block);
            self.empty(block, &mut sums[units]);
        }
        for (sum, rest) in sums.iter_mut().zip(std::mem::take(&mut self.rest)) {
            *sum += rest;
        }
    }

    /// The rest of all sums, zeros where there is none: memory that is not used until it is written to.
    fn take_rest(&mut self) -> Vec<i128> {
        match self.rest.is_empty() {
            true => vec![0; self.sums.len()],
            false => std::mem::take(&mut self.rest),
        }
    }

    /// The units of a block.
    fn block(&self, block: usize) -> Range<usize> {
        let first = block * UNITS;
        first..self.sums.len().min(first + UNITS)
    }

    /// Adds the sums of a block to others, and begins anew.
    fn empty(&mut self, block: usize, others: &mut [i128]) {
        let units = self.block(block);
        let scale = &mut self.scales[block];
        if std::mem::take(&mut scale.additions) == 0 {
            return;
        }
        for (other, sum) in others.iter_mut().zip(&mut self.sums[units]) {
            *other += i128::from(std::mem::take(sum)) << (64 - scale.point);
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

impl Exponents {
    /// Of the bits of rectified numbers, of which `smallest` are one less, so that 0 is the largest. Infinity and NaN have
    /// an exponent of their own, 128. What is too small to have one seems to have -127.
    #[inline(always)]
    fn of(smallest: [u32; TOGETHER], largest: [u32; TOGETHER]) -> Exponents {
        let smallest = smallest.iter().fold(u32::MAX, |a, &b| a.min(b));
        let largest = largest.iter().fold(0, |a, &b| a.max(b));
        let exponent = |bits: u32| (bits >> 23).cast_signed() - 127;
        match largest {
            0 => Exponents::None,
            _ => Exponents::Between(exponent(smallest + 1), exponent(largest)),
        }
    }
}

/// The bits of what ReLU makes of a number. Those of floats that are not negative have the order of the floats, and
/// those of negative ones are negative as whole numbers.
#[inline(always)]
fn rectified_bits(x: f32) -> u32 {
    x.to_bits().cast_signed().max(0).cast_unsigned()
}

/// Adds up the rectified numbers of each unit that the mask leaves.
#[inline(always)]
fn of_packs(
    packs: &[[f32; TOGETHER]],
    mask: &[u32; TOGETHER],
    totals: &mut [f64; UNITS],
) -> Exponents {
    let mut smallest = [u32::MAX; TOGETHER];
    let mut largest = [0; TOGETHER];
    for (pack, total) in packs.iter().zip(totals) {
        let mut numbers = [0.0; TOGETHER];
        for lane in 0..TOGETHER {
            let bits = rectified_bits(pack[lane]) & mask[lane];
            smallest[lane] = smallest[lane].min(bits.wrapping_sub(1));
            largest[lane] = largest[lane].max(bits);
            numbers[lane] = f64::from(f32::from_bits(bits));
        }
        let eight: [f64; 8] = std::array::from_fn(|i| numbers[i] + numbers[i + 8]);
        let four: [f64; 4] = std::array::from_fn(|i| eight[i] + eight[i + 4]);
        *total = (four[0] + four[2]) + (four[1] + four[3]);
    }
    Exponents::of(smallest, largest)
}

/// The rectified numbers of one input, unit by unit.
#[inline(always)]
fn of_row(row: &[f32], totals: &mut [f64; UNITS]) -> Exponents {
    let mut smallest = [u32::MAX; TOGETHER];
    let mut largest = [0; TOGETHER];
    let (whole, rest) = row.as_chunks::<TOGETHER>();
    let mut last = [0.0; TOGETHER];
    last[..rest.len()].copy_from_slice(rest);
    let last = std::slice::from_ref(&last);
    let chunks = whole.iter().chain(last);
    for (numbers, totals) in chunks.zip(totals.as_chunks_mut::<TOGETHER>().0) {
        for lane in 0..TOGETHER {
            let bits = rectified_bits(numbers[lane]);
            smallest[lane] = smallest[lane].min(bits.wrapping_sub(1));
            largest[lane] = largest[lane].max(bits);
            totals[lane] = f64::from(f32::from_bits(bits));
        }
    }
    Exponents::of(smallest, largest)
}

/// What ReLU makes of a number. NaN becomes 0.
fn rectified(x: f32) -> f32 {
    if x > 0.0 { x } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    /// Each number in fixed point by itself.
    fn add_naively(rows: &[f32], sums: &mut [i128]) {
        for row in rows.chunks_exact(sums.len()) {
            for (sum, &x) in sums.iter_mut().zip(row) {
                *sum += fixed(f64::from(x.max(0.0)));
            }
        }
    }

    /// Sums of rows, so many at a time, fast and naively, to which something was added before.
    fn sums(rows: &[f32], units: usize, inputs: usize, stride: usize) -> [Vec<i128>; 2] {
        let mut added = RectifiedSums::new(units);
        let (mut fast, mut naive) = (vec![1; units], vec![1; units]);
        for rows in rows.chunks(inputs * units) {
            let places = places(rows, units, stride);
            added.add(Shown::new(&places, rows.len() / units, stride));
        }
        added.hand_over(&mut fast);
        // Nothing is left.
        added.hand_over(&mut fast);
        add_naively(rows, &mut naive);
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
                for place in [0, 3] {
                    let mut data = [large; TOGETHER];
                    data[place] = small;
                    for (inputs, stride) in [(TOGETHER, TOGETHER), (1, 1)] {
                        let [fast, naive] = sums(&data, 1, inputs, stride);
                        assert_eq!(fast, naive, "2^-{smallness} and 2^{exponent}");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_of_many_inputs_do_not_run_over() {
        // The largest total that one addition takes, more often than 64 bits hold it. The first numbers leave
        // room for such, and no more.
        let large = [2.0 - f32::EPSILON; TOGETHER];
        let small = large.map(|x| x / 64.0);
        let mut added = RectifiedSums::new(1);
        added.add(Shown::new(&small, TOGETHER, TOGETHER));
        let count = 2 * ADDITIONS as usize;
        for _ in 0..count {
            added.add(Shown::new(&large, TOGETHER, TOGETHER));
            assert_eq!(added.scales[0].point, 47);
        }
        assert_eq!(added.scales[0].additions, 1);
        let mut sums = [0];
        added.hand_over(&mut sums);
        let one = |x: f32| fixed(f64::from(x)) * TOGETHER as i128;
        assert_eq!(sums, [one(small[0]) + one(large[0]) * count as i128]);
    }

    fn number() -> impl Strategy<Value = f32> {
        prop_oneof![
            20 => -8.0_f32..8.0,
            1 => any::<f32>(),
            1 => Just(f32::MIN_POSITIVE),
            1 => Just(f32::INFINITY),
            1 => Just(f32::NAN),
            1 => Just(-f32::NAN),
        ]
    }

    proptest! {
        #[test]
        fn sums_are_those_of_single_numbers(
            units in 1..600_usize,
            numbers in proptest::collection::vec(number(), 40),
            plain in any::<bool>(),
            rows in 0..40_usize,
            (stride, inputs) in prop_oneof![Just(1), Just(TOGETHER), 1..40_usize]
                .prop_flat_map(|stride| (Just(stride), 1..=stride)),
        ) {
            // Blocks with odd numbers and blocks without, and rows of other sizes than those before.
            let one = |i: usize| match numbers[i * 7 % 40] {
                x if plain && !(x.is_finite() && x.abs() < 8.0) => 0.5,
                x => x * (1.0 + i as f32 / 1e4) * f32::exp2((i / units % 5) as f32 * 4.0),
            };
            let rows: Vec<f32> = (0..rows * units).map(one).collect();
            let [fast, naive] = sums(&rows, units, inputs, stride);
            prop_assert_eq!(fast, naive);
        }
    }
}
