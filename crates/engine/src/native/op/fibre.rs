//! Fibres: the elements that a reduction, softmax or arg-max takes together.
//!
//! For a shape and a set of axes, a fibre is what remains when the other axes are held still. All
//! fibres have the same inner offsets and differ in where they begin, so a table of beginnings and
//! one description of the inside cover every combination of axes.
//!
//! A tensor of shape `[2, 3, 4]` has elements at `12 i + 4 j + k`. Over axis 1 there are 8 fibres
//! of 3 elements, 4 apart; they begin at `0 1 2 3  12 13 14 15`:
//!
//! ```text
//! i = 0:  0  1  2  3      fibre 1 holds 1, 5, 9
//!         4  5  6  7
//!         8  9 10 11
//! i = 1: 12 13 14 15      fibre 4 holds 12, 16, 20
//!        ...
//! ```
//!
//! Over axes 1 and 2 there are 2 contiguous fibres of 12, over axes 0 and 2 there are 3 uneven
//! ones: `0 1 2 3 12 13 14 15` and the same from 4 and from 8.

use npcov_cpu::widest;
use npcov_graph::strides;

use crate::native::pack::{LANES, Pack, numbers};
use crate::native::rows::to_packs_from;
use crate::native::turn::{Matrix, turn};

/// A sum in double precision, which single precision is rounded to once. Graphs take differences
/// of sums, such as a variance that is written as `E[x^2] - E[x]^2`, in which errors of the sums
/// are all that remains when the terms are alike.
#[derive(Clone, Copy)]
struct Total([f64; LANES]);

impl Total {
    const ZERO: Total = Total([0.0; LANES]);

    #[inline(always)]
    fn add(&mut self, x: Pack) {
        for l in 0..LANES {
            self.0[l] += f64::from(x.0[l]);
        }
    }

    #[inline(always)]
    fn rounded(&self) -> Pack {
        let mut out = Pack::ZERO;
        for l in 0..LANES {
            out.0[l] = self.0[l] as f32;
        }
        out
    }
}

/// Elements of a fibre that are gathered together.
const TOGETHER: usize = 64;

/// The fibres of a shape along a set of axes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fibres {
    /// Position of each fibre's first element, in row-major order of the other axes.
    bases: Vec<usize>,
    /// Number of elements of each fibre.
    len: usize,
    inside: Inside,
}

/// Where the elements of a fibre stand, relative to its first one.
#[derive(Clone, Debug, PartialEq)]
enum Inside {
    /// One after the other.
    Contiguous,
    /// This far apart.
    Even(usize),
    /// Here.
    At(Vec<usize>),
}

impl Fibres {
    /// The fibres along `axes`, each of them an axis of `shape`.
    pub(super) fn new(shape: &[usize], axes: &[usize]) -> Fibres {
        let strides = strides(shape);
        let positions = |inside: bool| -> Vec<usize> {
            let chosen = || (0..shape.len()).filter(|axis| axes.contains(axis) == inside);
            // Next to an extent of zero the others may be too large for a list.
            if chosen().any(|axis| shape[axis] == 0) {
                return Vec::new();
            }
            let mut positions = vec![0];
            for axis in chosen() {
                let stride = strides[axis];
                let along = |&p: &usize| (0..shape[axis]).map(move |i| p + i * stride);
                positions = positions.iter().flat_map(along).collect();
            }
            positions
        };
        let inside = positions(true);
        let step = inside.get(1).copied().unwrap_or(1);
        let even = inside.iter().enumerate().all(|(i, &at)| at == i * step);
        Fibres {
            bases: positions(false),
            len: inside.len(),
            inside: match (even, step) {
                (true, 1) => Inside::Contiguous,
                (true, step) => Inside::Even(step),
                (false, _) => Inside::At(inside),
            },
        }
    }

    /// Position of each fibre's first element.
    pub(super) fn bases(&self) -> &[usize] {
        &self.bases
    }

    /// Number of elements of each fibre.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// One fibre, whose elements stand one after the other.
    pub(super) fn one(len: usize) -> Fibres {
        Fibres {
            bases: vec![0],
            len,
            inside: Inside::Contiguous,
        }
    }

    /// Where element `i` of a fibre stands, relative to its first one.
    #[inline(always)]
    fn offset(&self, i: usize) -> usize {
        match &self.inside {
            Inside::Contiguous => i,
            Inside::Even(step) => i * step,
            Inside::At(offsets) => offsets[i],
        }
    }

    /// Of one input, the elements of up to sixteen fibres that begin at `bases`, a lane for each fibre;
    /// other lanes repeat the first one.
    pub(super) fn gather(&self, x: &[f32], bases: &[usize], packs: &mut [Pack]) {
        let Some(&first) = bases.first() else { return };
        let packs = &mut packs[..self.len];
        if let Some(pitch) = self.pitch(bases) {
            let last = first + (bases.len() - 1) * pitch + self.len;
            return to_packs_from(&x[first..last], pitch, packs);
        }
        let starts: [usize; LANES] =
            std::array::from_fn(|l| bases.get(l).copied().unwrap_or(first));
        for (i, pack) in packs.iter_mut().enumerate() {
            let offset = self.offset(i);
            for l in 0..LANES {
                pack.0[l] = x[starts[l] + offset];
            }
        }
    }

    /// How far apart fibres are that are rows of a matrix.
    fn pitch(&self, bases: &[usize]) -> Option<usize> {
        let pitch = match bases {
            _ if self.inside != Inside::Contiguous || self.len == 0 => return None,
            [first, second, ..] => second.checked_sub(*first)?,
            _ => self.len,
        };
        let even = bases.windows(2).all(|two| two[0] + pitch == two[1]);
        (even && pitch >= self.len).then_some(pitch)
    }

    /// Puts what [`Fibres::gather`] took into its place.
    pub(super) fn scatter(&self, packs: &[Pack], bases: &[usize], y: &mut [f32]) {
        if let (Some(pitch), Some(&first)) = (self.pitch(bases), bases.first()) {
            let matrix = Matrix {
                rows: self.len,
                cols: bases.len(),
                pitch: LANES,
            };
            return turn(numbers(packs), matrix, &mut y[first..], pitch);
        }
        for (i, pack) in packs[..self.len].iter().enumerate() {
            let offset = self.offset(i);
            for (base, x) in bases.iter().zip(pack.0) {
                y[base + offset] = x;
            }
        }
    }

    /// Visits the elements of the fibre that begins at `base`, in order.
    #[inline(always)]
    pub(super) fn visit(&self, x: &[Pack], base: usize, mut f: impl FnMut(Pack)) {
        match &self.inside {
            Inside::Contiguous => {
                for &pack in &x[base..base + self.len] {
                    f(pack);
                }
            }
            Inside::Even(step) => {
                for &pack in x[base..].iter().step_by(*step).take(self.len) {
                    f(pack);
                }
            }
            Inside::At(offsets) => {
                for offset in offsets {
                    f(x[base + offset]);
                }
            }
        }
    }

    /// Combines all elements of a fibre from the first to the last, lane by lane.
    #[inline(always)]
    pub(super) fn fold(
        &self,
        x: &[Pack],
        base: usize,
        init: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> Pack {
        let mut acc = Pack::splat(init);
        self.visit(
            x,
            base,
            #[inline(always)]
            |x| acc = acc.zip(x, &f),
        );
        acc
    }

    /// Adds up `f` of all elements of a fibre, lane by lane.
    #[inline(always)]
    pub(super) fn sum(&self, x: &[Pack], base: usize, f: impl Fn(Pack) -> Pack) -> Pack {
        let mut total = Total::ZERO;
        self.visit(
            x,
            base,
            #[inline(always)]
            |x| total.add(f(x)),
        );
        total.rounded()
    }

    /// Of one input, adds up the elements of each of up to sixteen fibres that begin at `bases`, in the
    /// order of [`Fibres::sum`], a lane for each fibre. Some elements of all of them are gathered at a time,
    /// which stay in the nearest cache.
    pub(super) fn sums(&self, x: &[f32], bases: &[usize]) -> Option<Pack> {
        let (pitch, &first) = (self.pitch(bases)?, bases.first()?);
        let last = first + (bases.len() - 1) * pitch;
        let mut gathered = [Pack::ZERO; TOGETHER];
        let mut total = Total::ZERO;
        for start in (0..self.len).step_by(TOGETHER) {
            let some = &mut gathered[..TOGETHER.min(self.len - start)];
            let end = last + start + some.len();
            to_packs_from(&x[first + start..end], pitch, some);
            total = widest(
                #[inline(always)]
                || {
                    let mut total = total;
                    for x in some {
                        total.add(*x);
                    }
                    total
                },
            );
        }
        Some(total.rounded())
    }

    /// Sets every element of a fibre of `y` to `f` of the one of `x`.
    #[inline(always)]
    pub(super) fn map(&self, x: &[Pack], y: &mut [Pack], base: usize, f: impl Fn(Pack) -> Pack) {
        match &self.inside {
            Inside::Contiguous => {
                let range = base..base + self.len;
                for (y, &x) in y[range.clone()].iter_mut().zip(&x[range]) {
                    *y = f(x);
                }
            }
            Inside::Even(step) => {
                let y = y[base..].iter_mut().step_by(*step);
                for (y, &x) in y.zip(x[base..].iter().step_by(*step)).take(self.len) {
                    *y = f(x);
                }
            }
            Inside::At(offsets) => {
                for offset in offsets {
                    y[base + offset] = f(x[base + offset]);
                }
            }
        }
    }

    /// As [`Fibres::map`], in place.
    #[inline(always)]
    pub(super) fn update(&self, y: &mut [Pack], base: usize, f: impl Fn(Pack) -> Pack) {
        match &self.inside {
            Inside::Contiguous => {
                for y in &mut y[base..base + self.len] {
                    *y = f(*y);
                }
            }
            Inside::Even(step) => {
                for y in y[base..].iter_mut().step_by(*step).take(self.len) {
                    *y = f(*y);
                }
            }
            Inside::At(offsets) => {
                for offset in offsets {
                    y[base + offset] = f(y[base + offset]);
                }
            }
        }
    }
}

/// Adds up `f` of packs that stand next to each other, as [`Fibres::sum`] does.
#[inline(always)]
pub(super) fn sum(x: &[Pack], f: impl Fn(Pack) -> Pack) -> Pack {
    let mut total = Total::ZERO;
    for &x in x {
        total.add(f(x));
    }
    total.rounded()
}

/// The larger number; NaN when one of them is.
#[inline(always)]
pub(super) fn max(a: f32, b: f32) -> f32 {
    if (b > a) | b.is_nan() { b } else { a }
}

/// The smaller number; NaN when one of them is.
#[inline(always)]
pub(super) fn min(a: f32, b: f32) -> f32 {
    if (b < a) | b.is_nan() { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packs(n: usize) -> Vec<Pack> {
        (0..n)
            .map(|i| Pack(std::array::from_fn(|lane| (100 * lane + i) as f32)))
            .collect()
    }

    #[test]
    fn the_example_of_the_module() {
        let fibres = Fibres::new(&[2, 3, 4], &[1]);
        assert_eq!(fibres.bases, [0, 1, 2, 3, 12, 13, 14, 15]);
        assert_eq!((fibres.len, fibres.inside), (3, Inside::Even(4)));

        let fibres = Fibres::new(&[2, 3, 4], &[1, 2]);
        assert_eq!(fibres.bases, [0, 12]);
        assert_eq!((fibres.len, fibres.inside), (12, Inside::Contiguous));

        let fibres = Fibres::new(&[2, 3, 4], &[0, 2]);
        assert_eq!(fibres.bases, [0, 4, 8]);
        let inside = vec![0, 1, 2, 3, 12, 13, 14, 15];
        assert_eq!((fibres.len, fibres.inside), (8, Inside::At(inside)));
    }

    #[test]
    fn axes_of_extent_one_do_not_make_a_fibre_uneven() {
        let fibres = Fibres::new(&[1, 3, 1, 4], &[1, 2]);
        assert_eq!((fibres.len, fibres.inside), (3, Inside::Even(4)));
        let single = Fibres::new(&[5], &[]);
        assert_eq!((single.len, &single.inside), (1, &Inside::Contiguous));
        assert_eq!(single.bases, [0, 1, 2, 3, 4]);
        assert_eq!(Fibres::new(&[2, 0], &[1]).len, 0);
        assert!(Fibres::new(&[2, 0], &[0]).bases.is_empty());
        assert_eq!(Fibres::new(&[2, 1 << 50, 0], &[1, 2]).len, 0);
    }

    #[test]
    fn every_kind_of_fibre_visits_its_elements_in_order() {
        let x = packs(24);
        for (axes, expected) in [
            (vec![2], [4.0, 5.0, 6.0, 7.0].as_slice()),
            (vec![1], &[1.0, 5.0, 9.0]),
            (vec![0, 2], &[4.0, 5.0, 6.0, 7.0, 16.0, 17.0, 18.0, 19.0]),
        ] {
            let fibres = Fibres::new(&[2, 3, 4], &axes);
            let base = fibres.bases[1];
            let mut seen = Vec::new();
            fibres.visit(&x, base, |x| seen.push(x.0[0]));
            assert_eq!(seen, expected);

            let mut y = vec![Pack::ZERO; 24];
            fibres.map(&x, &mut y, base, |x| x.map(|x| x + 1.0));
            fibres.update(&mut y, base, |y| y.map(|y| y * 2.0));
            for (i, y) in y.iter().enumerate() {
                let inside = expected.contains(&(i as f32));
                let doubled = |lane| 2.0 * ((100 * lane + i) as f32 + 1.0);
                let value = |lane| if inside { doubled(lane) } else { 0.0 };
                assert_eq!(y.0, std::array::from_fn(value), "{axes:?}, element {i}");
            }
        }
    }

    #[test]
    fn sums_are_rounded_once() {
        // Added up in f32, 100,000 times 0.1 is wrong by 1.4e-4 of itself.
        let x = vec![Pack::splat(0.1); 100_000];
        let expected = (100_000.0 * f64::from(0.1_f32)) as f32;
        for total in [
            Fibres::new(&[100_000], &[0]).sum(&x, 0, |x| x),
            sum(&x, |x| x),
        ] {
            assert_eq!(total, Pack::splat(expected));
        }
    }

    #[test]
    fn extremes_are_nan_when_an_element_is() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(max(a, b).is_nan() && min(a, b).is_nan());
        }
        assert_eq!((max(1.0, 2.0), min(1.0, 2.0)), (2.0, 1.0));
    }
}
