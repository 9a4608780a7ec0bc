//! Where the maximum of each window of a pool is.

use npcov_cpu::vectorised;
use npcov_graph::OpError;
use npcov_program::MaxPlace;

use super::pool::{Axis, RANK, axes, each_element, volume, windows};
use crate::native::kernel::{Alone, Context, Inputs, Kernel, NodeKernel};
use crate::native::pack::{LANES, Pack};
use crate::native::rows::each_sixteen;

struct MaxPlaceKernel {
    axes: [Axis; RANK],
}

pub(super) fn prepare(op: &MaxPlace, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let axes = axes(&op.pool, &cx.shape(0)[2..], &cx.output()[2..])?;
    Ok(NodeKernel::new(MaxPlaceKernel { axes }, [0]))
}

impl Kernel for MaxPlaceKernel {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        self.places(inputs.get(0), output);
    }

    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }
}

/// Sixteen channels at a time.
impl Alone for MaxPlaceKernel {
    fn scratch(&self) -> usize {
        volume(&self.axes) + windows(&self.axes)
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let (from, to) = (volume(&self.axes), windows(&self.axes));
        each_sixteen(inputs.get(0), from, output, to, scratch, |x, y, _| {
            self.places(x, y);
        });
    }
}

impl MaxPlaceKernel {
    fn places(&self, x: &[Pack], output: &mut [Pack]) {
        let [depth, height, width] = &self.axes;
        let volume = volume(&self.axes);
        let mut places = output.iter_mut();
        vectorised(
            #[inline(always)]
            || {
                for x in x.chunks_exact(volume.max(1)) {
                    for d in &depth.windows {
                        for h in &height.windows {
                            for (w, place) in width.windows.iter().zip(&mut places) {
                                *place = first_maximum(&self.axes, [d, h, w], x);
                            }
                        }
                    }
                }
            },
        );
    }
}

/// The number of the tap that sees the first maximum. A NaN is larger than any number, as it is for
/// the pool; a window that sees nothing has 0.
#[inline(always)]
fn first_maximum(axes: &[Axis; RANK], window: [&super::pool::Span; RANK], x: &[Pack]) -> Pack {
    let mut max = Pack::splat(f32::NEG_INFINITY);
    // Below the first tap: nothing was seen.
    let mut place = Pack::splat(-1.0);
    each_element(
        axes,
        window,
        #[inline(always)]
        |tap, at| {
            let tap = tap as f32;
            for l in 0..LANES {
                let (x, m) = (x[at].0[l], max.0[l]);
                let is_larger = (x > m) | (x.is_nan() & !m.is_nan()) | (place.0[l] < 0.0);
                max.0[l] = if is_larger { x } else { m };
                place.0[l] = if is_larger { tap } else { place.0[l] };
            }
        },
    );
    place.map(|place| if place < 0.0 { 0.0 } else { place })
}

#[cfg(test)]
mod tests {
    use npcov_graph::Op;
    use npcov_graph::op::{CompositeOp, Pool, PoolKind, Window};

    use super::*;
    use crate::native::op::testing::{Input, run_lowered, run_node};

    fn node(kernel: usize, stride: usize, dilation: usize, pads: [usize; 2]) -> Op {
        let all = |n: usize| vec![n; 2];
        let pool = Pool {
            kind: PoolKind::Max,
            window: Window {
                kernel: all(kernel),
                strides: all(stride),
                dilations: all(dilation),
                pads_begin: all(pads[0]),
                pads_end: all(pads[1]),
            },
            ceil_mode: stride > 1,
        };
        Op::Composite(CompositeOp::new(MaxPlace { pool }))
    }

    #[test]
    fn places_agree_with_plain_operators() {
        for (kernel, stride, dilation, pads) in [
            (2, 2, 1, [0, 0]),
            (3, 2, 1, [1, 1]),
            (3, 1, 1, [1, 1]),
            (2, 3, 2, [1, 0]),
        ] {
            let op = node(kernel, stride, dilation, pads);
            // Rounded: several elements of a window are its maximum.
            let x = Input::varying(&[2, 3, 7, 9]).map(f32::round);
            let inputs = [x];
            assert_eq!(run_node(op.clone(), &inputs), run_lowered(op, &inputs));
        }
    }

    #[test]
    fn a_nan_is_the_maximum_and_infinity_is_a_number() {
        let (low, nan) = (f32::NEG_INFINITY, f32::NAN);
        for (x, expected) in [
            ([1.0, nan, 3.0, nan], 1.0),
            ([low, low, low, low], 0.0),
            ([1.0, f32::INFINITY, f32::INFINITY, 2.0], 1.0),
        ] {
            let x = Input::varying(&[1, 1, 2, 2]).set(&x);
            for y in run_node(node(2, 2, 1, [0, 0]), &[x]) {
                assert_eq!(y, [expected]);
            }
        }
    }
}
