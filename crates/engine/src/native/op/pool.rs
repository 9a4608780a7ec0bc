//! Maximum and average over windows.
//!
//! A maximum is NaN when an element of its window is. A window without any element, which large
//! dilations can make, has the maximum minus infinity and the average 0.

use npcov_cpu::vectorised;
use npcov_graph::OpError;
use npcov_graph::op::{Pool, PoolKind};

use super::fibre::max;
use crate::native::kernel::{Alone, Context, Inputs, Kernel, NodeKernel};
use crate::native::pack::Pack;
use crate::native::rows::each_sixteen;

/// Windows of fewer axes are windows of extent 1 along leading axes of extent 1.
pub(super) const RANK: usize = 3;

pub(super) fn prepare(op: &Pool, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let kernel = PoolKernel::new(op.kind, axes(op, &cx.shape(0)[2..], &cx.output()[2..])?);
    Ok(NodeKernel::new(kernel, [0]))
}

/// The windows of a pool, along each axis.
pub(super) fn axes(op: &Pool, input: &[usize], output: &[usize]) -> Result<[Axis; RANK], OpError> {
    let Some(added) = RANK.checked_sub(input.len()) else {
        let message = format!("a window over {} axes", input.len());
        return Err(OpError::unsupported(message));
    };
    Ok(std::array::from_fn(|a| match a.checked_sub(added) {
        Some(a) => Axis::new(op, a, input[a], output[a]),
        None => Axis::single(),
    }))
}

/// Visits the elements of a window in order: the tap that sees each, and its position in the volume.
#[inline(always)]
pub(super) fn each_element(
    axes: &[Axis; RANK],
    [d, h, w]: [&Span; RANK],
    mut f: impl FnMut(usize, usize),
) {
    let [depth, height, width] = axes;
    for kd in 0..d.len {
        for kh in 0..h.len {
            let (plane, row) = (d.first + kd * depth.step, h.first + kh * height.step);
            let first = (plane * height.input + row) * width.input + w.first;
            let tap = ((d.tap + kd) * height.kernel + h.tap + kh) * width.kernel + w.tap;
            for kw in 0..w.len {
                f(tap + kw, first + kw * width.step);
            }
        }
    }
}

/// The windows along one axis.
pub(super) struct Axis {
    pub(super) input: usize,
    /// Largest number of elements in a window.
    kernel: usize,
    /// Distance between the elements of a window.
    pub(super) step: usize,
    /// Distance between windows.
    stride: usize,
    pub(super) windows: Vec<Span>,
}

/// One window along an axis.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// First element.
    pub(super) first: usize,
    /// Number of the tap that sees it.
    pub(super) tap: usize,
    /// Number of elements.
    pub(super) len: usize,
    /// Number of elements and padded positions that an average divides by.
    pub(super) divisor: usize,
}

impl Axis {
    fn single() -> Axis {
        Axis {
            input: 1,
            kernel: 1,
            step: 1,
            stride: 1,
            windows: vec![Span {
                first: 0,
                tap: 0,
                len: 1,
                divisor: 1,
            }],
        }
    }

    fn new(op: &Pool, axis: usize, input: usize, output: usize) -> Axis {
        let window = &op.window;
        let (stride, step) = (window.strides[axis], window.dilations[axis]);
        let begin = window.pads_begin[axis];
        let padded = begin + input + window.pads_end[axis];
        let span = |o: usize| {
            let taps = window.tap_range(axis, o, input);
            // Counted from the beginning of the padding, tap k of window o is at
            // o * stride + k * step; those before the end of the padding count.
            let counted = padded.saturating_sub(o * stride).div_ceil(step);
            let divisor = match op.kind {
                PoolKind::Average {
                    count_include_pad: true,
                } => counted.min(window.kernel[axis]),
                PoolKind::Average {
                    count_include_pad: false,
                }
                | PoolKind::Max => taps.len(),
            };
            Span {
                // The first element of an empty window may be anywhere, even outside.
                first: match taps.is_empty() {
                    true => 0,
                    false => o * stride + taps.start * step - begin,
                },
                tap: taps.start,
                len: taps.len(),
                divisor,
            }
        };
        Axis {
            input,
            kernel: window.kernel[axis],
            step,
            stride,
            windows: (0..output).map(span).collect(),
        }
    }
}

struct PoolKernel {
    kind: PoolKind,
    axes: [Axis; RANK],
    /// Whether the rows of a window are combined first, as a whole, and then the columns.
    rows_first: bool,
}

impl PoolKernel {
    fn new(kind: PoolKind, axes: [Axis; RANK]) -> PoolKernel {
        let rows = axes[0].kernel.saturating_mul(axes[1].kernel);
        let [
            _,
            _,
            Axis {
                kernel: columns,
                stride,
                ..
            },
        ] = axes;
        // Packs touched per output: each element of the window; or, of the `stride` columns that
        // an output is further than the last one, each row and their result, and then the columns.
        let direct = rows.saturating_mul(columns);
        let in_two_steps = (rows + 1).saturating_mul(stride).saturating_add(columns);
        PoolKernel {
            kind,
            rows_first: in_two_steps < direct,
            axes,
        }
    }
}

impl Kernel for PoolKernel {
    /// A row of the input.
    fn scratch(&self) -> usize {
        if self.rows_first {
            self.axes[2].input
        } else {
            0
        }
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        self.pool(inputs.get(0), scratch, output);
    }

    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }
}

/// Sixteen channels at a time.
impl Alone for PoolKernel {
    fn scratch(&self) -> usize {
        volume(&self.axes) + windows(&self.axes) + Kernel::scratch(self)
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let (from, to) = (volume(&self.axes), windows(&self.axes));
        each_sixteen(inputs.get(0), from, output, to, scratch, |x, y, scratch| {
            self.pool(x, scratch, y);
        });
    }
}

/// Elements of a channel.
pub(super) fn volume(axes: &[Axis; RANK]) -> usize {
    axes.iter().map(|axis| axis.input).product()
}

/// Windows of a channel.
pub(super) fn windows(axes: &[Axis; RANK]) -> usize {
    axes.iter().map(|axis| axis.windows.len()).product()
}

impl PoolKernel {
    fn pool(&self, x: &[Pack], scratch: &mut [Pack], output: &mut [Pack]) {
        match self.kind {
            PoolKind::Max => {
                self.each_row(x, scratch, output, f32::NEG_INFINITY, max, |_, _| {});
            }
            PoolKind::Average { .. } => {
                let columns = &self.axes[2].windows;
                self.each_row(
                    x,
                    scratch,
                    output,
                    0.0,
                    |a, b| a + b,
                    |rows, y| {
                        for (y, column) in y.iter_mut().zip(columns) {
                            let divisor = (rows * column.divisor).max(1) as f32;
                            *y = y.map(|sum| sum / divisor);
                        }
                    },
                );
            }
        }
    }
}

impl PoolKernel {
    /// Combines every window by `f`, beginning with `init`, and calls `finish` on each row of the
    /// output with the divisor of the other axes.
    #[inline(always)]
    fn each_row(
        &self,
        x: &[Pack],
        scratch: &mut [Pack],
        output: &mut [Pack],
        init: f32,
        f: impl Fn(f32, f32) -> f32,
        finish: impl Fn(usize, &mut [Pack]),
    ) {
        let [depth, height, width] = &self.axes;
        let row_len = width.windows.len().max(1);
        let plane = (depth.windows.len() * height.windows.len()).max(1) * row_len;
        let volume = (depth.input * height.input * width.input).max(1);
        vectorised(
            #[inline(always)]
            || {
                for (x, y) in x.chunks_exact(volume).zip(output.chunks_exact_mut(plane)) {
                    let mut y = y.chunks_exact_mut(row_len);
                    for d in &depth.windows {
                        for (h, y) in height.windows.iter().zip(&mut y) {
                            if self.rows_first {
                                self.rows_then_columns(x, scratch, y, (d, h), init, &f);
                            } else {
                                self.windows(x, y, (d, h), init, &f);
                            }
                            finish(d.divisor * h.divisor, y);
                        }
                    }
                }
            },
        );
    }

    /// One row of outputs, window by window.
    #[inline(always)]
    fn windows(
        &self,
        x: &[Pack],
        y: &mut [Pack],
        (d, h): (&Span, &Span),
        init: f32,
        f: impl Fn(f32, f32) -> f32,
    ) {
        let step = self.axes[2].step;
        for (y, w) in y.iter_mut().zip(&self.axes[2].windows) {
            let mut acc = Pack::splat(init);
            self.rows(
                x,
                d,
                h,
                #[inline(always)]
                |row| {
                    for x in row[w.first..].iter().step_by(step).take(w.len) {
                        acc = acc.zip(*x, &f);
                    }
                },
            );
            *y = acc;
        }
    }

    /// One row of outputs, from the combination of the rows that their windows share.
    #[inline(always)]
    fn rows_then_columns(
        &self,
        x: &[Pack],
        scratch: &mut [Pack],
        y: &mut [Pack],
        (d, h): (&Span, &Span),
        init: f32,
        f: impl Fn(f32, f32) -> f32,
    ) {
        scratch.fill(Pack::splat(init));
        self.rows(
            x,
            d,
            h,
            #[inline(always)]
            |row| {
                for (acc, x) in scratch.iter_mut().zip(row) {
                    *acc = acc.zip(*x, &f);
                }
            },
        );
        let step = self.axes[2].step;
        for (y, w) in y.iter_mut().zip(&self.axes[2].windows) {
            let mut acc = Pack::splat(init);
            for x in scratch[w.first..].iter().step_by(step).take(w.len) {
                acc = acc.zip(*x, &f);
            }
            *y = acc;
        }
    }

    /// Visits the rows of the input in a window.
    #[inline(always)]
    fn rows(&self, x: &[Pack], d: &Span, h: &Span, mut f: impl FnMut(&[Pack])) {
        let [depth, height, width] = &self.axes;
        for d in (0..d.len).map(|k| d.first + k * depth.step) {
            for h in (0..h.len).map(|k| h.first + k * height.step) {
                let row = (d * height.input + h) * width.input;
                f(&x[row..row + width.input]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::Op;
    use npcov_graph::op::Window;

    use super::*;
    use crate::native::op::testing::{Input, check, number_of, positions, run_node};

    const KINDS: [PoolKind; 3] = [
        PoolKind::Max,
        PoolKind::Average {
            count_include_pad: false,
        },
        PoolKind::Average {
            count_include_pad: true,
        },
    ];

    /// Kernel, stride, dilation, padding before and after.
    type Sides = [usize; 5];

    fn pool(kind: PoolKind, sides: &[Sides], ceil_mode: bool) -> Pool {
        let field = |i: usize| sides.iter().map(|s| s[i]).collect();
        Pool {
            kind,
            window: Window {
                kernel: field(0),
                strides: field(1),
                dilations: field(2),
                pads_begin: field(3),
                pads_end: field(4),
            },
            ceil_mode,
        }
    }

    /// Compares with the definition: every tap of every window, inside of the input, of the
    /// padding or of neither.
    fn check_pool(shape: &[usize], sides: &[Sides], kind: PoolKind, ceil_mode: bool) {
        let op = pool(kind, sides, ceil_mode);
        let spatial = op.window.output(&shape[2..], ceil_mode).unwrap();
        let output = [&shape[..2], &spatial].concat();
        let kernel = op.window.kernel.clone();
        check(Op::Pool(op), &[Input::varying(shape)], 1e-6, |inputs| {
            let value = |o: Vec<usize>| {
                let (mut max, mut sum, mut inside, mut padded) = (f64::NEG_INFINITY, 0.0, 0, 0);
                for k in positions(&kernel) {
                    let at = |a: usize| {
                        let [_, stride, dilation, begin, _] = sides[a];
                        (o[a + 2] * stride + k[a] * dilation) as isize - begin as isize
                    };
                    let at: Vec<isize> = (0..kernel.len()).map(at).collect();
                    let within = |a: usize, begin: usize, end: usize| {
                        let range = -(begin as isize)..(shape[a + 2] + end) as isize;
                        range.contains(&at[a])
                    };
                    if (0..kernel.len()).all(|a| within(a, 0, 0)) {
                        let at: Vec<usize> = at.iter().map(|&p| p as usize).collect();
                        let x = inputs[0][number_of(shape, &[&o[..2], &at].concat())];
                        (max, sum, inside) = (max.max(x), sum + x, inside + 1);
                    }
                    if (0..kernel.len()).all(|a| within(a, sides[a][3], sides[a][4])) {
                        padded += 1;
                    }
                }
                match kind {
                    PoolKind::Max => max,
                    PoolKind::Average {
                        count_include_pad: true,
                    } => sum / f64::from(padded),
                    PoolKind::Average { .. } => sum / f64::from(inside.max(1)),
                }
            };
            positions(&output).into_iter().map(value).collect()
        });
    }

    #[test]
    fn windows_of_every_form_agree_with_the_definition() {
        for kind in KINDS {
            for ceil in [false, true] {
                check_pool(&[1, 2, 6, 8], &[[2, 2, 1, 0, 0]; 2], kind, ceil);
                check_pool(&[1, 2, 7, 7], &[[3, 2, 1, 1, 1]; 2], kind, ceil);
                check_pool(&[1, 1, 8, 9], &[[3, 1, 1, 1, 1]; 2], kind, ceil);
                check_pool(&[1, 1, 9, 9], &[[5, 1, 1, 2, 2]; 2], kind, ceil);
                check_pool(
                    &[2, 2, 7, 8],
                    &[[3, 2, 1, 0, 2], [2, 3, 1, 1, 0]],
                    kind,
                    ceil,
                );
                check_pool(
                    &[1, 1, 9, 8],
                    &[[3, 1, 2, 1, 2], [2, 2, 3, 0, 1]],
                    kind,
                    ceil,
                );
                check_pool(&[1, 3, 11], &[[4, 3, 1, 2, 1]], kind, ceil);
                check_pool(
                    &[1, 1, 4, 5, 6],
                    &[[2, 1, 1, 0, 1], [3, 2, 1, 1, 1], [3, 1, 1, 1, 1]],
                    kind,
                    ceil,
                );
            }
        }
    }

    #[test]
    fn a_window_may_have_no_element_at_all() {
        // Taps at -1 and 1 of an input of one element.
        let sides = [2, 1, 2, 1, 1];
        for kind in [KINDS[0], KINDS[1]] {
            check_pool(&[1, 1, 1, 1], &[sides, sides], kind, false);
        }
    }

    #[test]
    fn rows_are_combined_first_where_windows_overlap_enough() {
        let kernel = |sides: Sides| {
            let op = pool(PoolKind::Max, &[sides, sides], false);
            let axis = |a: usize| match a {
                0 => Axis::single(),
                _ => Axis::new(&op, a - 1, 9, 4),
            };
            PoolKernel::new(PoolKind::Max, std::array::from_fn(axis))
        };
        assert!(kernel([3, 1, 1, 1, 1]).rows_first);
        assert!(kernel([5, 2, 1, 1, 1]).rows_first);
        assert!(!kernel([2, 2, 1, 0, 0]).rows_first);
        assert!(!kernel([3, 2, 1, 1, 1]).rows_first);
    }

    #[test]
    fn a_maximum_is_nan_when_an_element_is() {
        let x = Input::varying(&[1, 1, 4]).set(&[1.0, f32::NAN, 3.0, 2.0]);
        let op = Op::Pool(pool(PoolKind::Max, &[[2, 1, 1, 0, 0]], false));
        for y in run_node(op, &[x]) {
            assert!(y[0].is_nan() && y[1].is_nan());
            assert_eq!(y[2], 3.0);
        }
    }
}
