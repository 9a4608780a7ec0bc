//! The adjoints of pools: what arrived at a window goes back to its elements.
//!
//! What arrived at a maximum is shown to all elements of its window, and the one whose number is
//! given keeps it: lanes differ in which one that is, not in what is computed. What arrived at a
//! window without any element goes nowhere.

use npcov_cpu::vectorised;
use npcov_graph::OpError;
use npcov_graph::op::PoolKind;
use npcov_program::PoolAdjoint;

use super::pool::{Axis, RANK, Span, axes, each_element, volume, windows};
use crate::native::kernel::{Alone, Context, Inputs, Kernel, NodeKernel};
use crate::native::pack::{LANES, Pack};
use crate::native::rows::{each_sixteen, to_packs};

pub(super) fn prepare(op: &PoolAdjoint, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let arrived = cx.arity() - 1;
    let axes = axes(&op.pool, &op.input[2..], &cx.shape(arrived)[2..])?;
    let kernel = PoolAdjointKernel {
        kind: op.pool.kind,
        is_partition: axes.iter().all(is_partition),
        axes,
    };
    Ok(NodeKernel::new(kernel, (0..=arrived).collect::<Vec<_>>()))
}

/// Whether each element is in exactly one window, and the windows follow one another.
fn is_partition(axis: &Axis) -> bool {
    let elements = |w: &Span| (0..w.len).map(move |k| k * axis.step);
    let positions = axis
        .windows
        .iter()
        .flat_map(|w| elements(w).map(|k| w.first + k));
    positions.eq(0..axis.input)
}

/// One more than the last element of a window; 0 when it has none.
#[inline(always)]
fn end(axis: &Axis, window: &Span) -> usize {
    match window.len {
        0 => 0,
        len => window.first + (len - 1) * axis.step + 1,
    }
}

struct PoolAdjointKernel {
    kind: PoolKind,
    axes: [Axis; RANK],
    /// Whether each element is in exactly one window: there is nothing to add up then.
    is_partition: bool,
}

impl Kernel for PoolAdjointKernel {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        match self.kind {
            PoolKind::Max => self.adjoint(inputs.get(0), inputs.get(1), output),
            PoolKind::Average { .. } => self.adjoint(&[], inputs.get(0), output),
        }
    }

    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }
}

/// Sixteen channels at a time.
impl Alone for PoolAdjointKernel {
    fn scratch(&self) -> usize {
        2 * windows(&self.axes) + volume(&self.axes)
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let (from, to) = (windows(&self.axes), volume(&self.axes));
        match self.kind {
            PoolKind::Average { .. } => {
                each_sixteen(inputs.get(0), from, output, to, scratch, |r, y, _| {
                    self.adjoint(&[], r, y);
                });
            }
            PoolKind::Max => {
                let mut places = inputs.get(0).chunks((LANES * from).max(1));
                each_sixteen(inputs.get(1), from, output, to, scratch, |r, y, rest| {
                    let own = &mut rest[..from];
                    to_packs(places.next().unwrap_or(&[]), own);
                    self.adjoint(own, r, y);
                });
            }
        }
    }
}

#[inline(always)]
fn set(y: &mut Pack, share: Pack) {
    *y = share;
}

#[inline(always)]
fn add(y: &mut Pack, share: Pack) {
    *y = y.zip(share, |y, share| y + share);
}

impl PoolAdjointKernel {
    /// What arrived goes back: for maxima to the `places`.
    fn adjoint(&self, places: &[Pack], r: &[Pack], output: &mut [Pack]) {
        match (self.kind, self.is_partition) {
            (PoolKind::Max, true) => self.maximum(places, r, output, set),
            (PoolKind::Max, false) => self.maximum(places, r, output, add),
            (PoolKind::Average { .. }, true) => self.average(r, output, set),
            (PoolKind::Average { .. }, false) => self.average(r, output, add),
        }
    }

    #[inline(always)]
    fn maximum(
        &self,
        places: &[Pack],
        r: &[Pack],
        output: &mut [Pack],
        give: impl Fn(&mut Pack, Pack),
    ) {
        let mut number = 0;
        vectorised(
            #[inline(always)]
            || {
                self.each_window(
                    r,
                    output,
                    #[inline(always)]
                    |y, window, r| {
                        let place = places[number];
                        number += 1;
                        each_element(
                            &self.axes,
                            window,
                            #[inline(always)]
                            |tap, at| {
                                let tap = tap as f32;
                                let mut share = Pack::ZERO;
                                for l in 0..LANES {
                                    share.0[l] = if place.0[l] == tap { r.0[l] } else { 0.0 };
                                }
                                give(&mut y[at], share);
                            },
                        );
                    },
                );
            },
        );
    }

    #[inline(always)]
    fn average(&self, r: &[Pack], output: &mut [Pack], give: impl Fn(&mut Pack, Pack)) {
        vectorised(
            #[inline(always)]
            || {
                self.each_window(
                    r,
                    output,
                    #[inline(always)]
                    |y, window, r| {
                        let divisor: usize = window.iter().map(|span| span.divisor).product();
                        let share = r.map(|r| r / divisor as f32);
                        each_element(
                            &self.axes,
                            window,
                            #[inline(always)]
                            |_, at| give(&mut y[at], share),
                        );
                    },
                );
            },
        );
    }

    /// Visits every window of every volume of the output: the volume's elements, the window, and
    /// what arrived there.
    #[inline(always)]
    fn each_window(
        &self,
        r: &[Pack],
        output: &mut [Pack],
        mut f: impl FnMut(&mut [Pack], [&Span; RANK], Pack),
    ) {
        let [depth, height, width] = &self.axes;
        let mut r = r.iter();
        let volume = depth.input * height.input * width.input;
        for y in output.chunks_exact_mut(volume.max(1)) {
            // Rows become zero just before the first window reaches them, while they are at hand.
            let mut cleared = if self.is_partition { y.len() } else { 0 };
            for d in &depth.windows {
                for h in &height.windows {
                    let reached = end(depth, d).saturating_sub(1) * height.input + end(height, h);
                    let reached = reached * width.input;
                    if cleared < reached {
                        y[cleared..reached].fill(Pack::ZERO);
                        cleared = reached;
                    }
                    for (w, r) in width.windows.iter().zip(&mut r) {
                        f(y, [d, h, w], *r);
                    }
                }
            }
            y[cleared..].fill(Pack::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::Op;
    use npcov_graph::op::{CompositeOp, Pool, Window};

    use super::*;
    use crate::native::op::testing::{
        Input, check, graph_of, number_of, positions, run_lowered, run_node,
    };
    use crate::native::options::Options;
    use crate::native::plan::Plan;

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

    /// Shapes and windows: apart, side by side, overlapping, stepping over elements.
    fn cases() -> Vec<(Vec<usize>, Vec<Sides>)> {
        vec![
            (vec![1, 2, 6, 8], vec![[2, 2, 1, 0, 0]; 2]),
            (vec![2, 2, 7, 7], vec![[2, 2, 1, 0, 0]; 2]),
            (vec![1, 2, 7, 7], vec![[3, 2, 1, 1, 1]; 2]),
            (vec![1, 1, 8, 9], vec![[3, 1, 1, 1, 1]; 2]),
            (vec![1, 3, 4, 5], vec![[4, 1, 1, 0, 0], [5, 1, 1, 0, 0]]),
            (vec![2, 1, 9, 9], vec![[2, 3, 1, 0, 0]; 2]),
            (vec![2, 2, 7, 8], vec![[3, 2, 1, 0, 2], [2, 3, 1, 1, 0]]),
            (vec![1, 1, 9, 8], vec![[3, 1, 2, 1, 2], [2, 2, 3, 0, 1]]),
            (vec![1, 3, 11], vec![[4, 3, 1, 2, 1]]),
            (
                vec![1, 1, 4, 5, 6],
                vec![[2, 1, 1, 0, 1], [3, 2, 1, 1, 1], [3, 1, 1, 1, 1]],
            ),
            (vec![1, 2, 4, 2, 6], vec![[2, 2, 1, 0, 0]; 3]),
        ]
    }

    fn adjoint(kind: PoolKind, shape: &[usize], sides: &[Sides], ceil_mode: bool) -> PoolAdjoint {
        let field = |i: usize| sides.iter().map(|s| s[i]).collect();
        PoolAdjoint {
            pool: Pool {
                kind,
                window: Window {
                    kernel: field(0),
                    strides: field(1),
                    dilations: field(2),
                    pads_begin: field(3),
                    pads_end: field(4),
                },
                ceil_mode,
            },
            input: shape.to_vec(),
        }
    }

    /// What arrives, after the places of maxima where they are needed.
    fn inputs(op: &PoolAdjoint) -> (Vec<usize>, Vec<Input>) {
        let windows = op.pool.window.output(&op.input[2..], op.pool.ceil_mode);
        let output = [&op.input[..2], &windows.unwrap()].concat();
        let mut inputs = vec![Input::varying(&output)];
        if op.pool.kind == PoolKind::Max {
            let taps: usize = op.pool.window.kernel.iter().product();
            inputs.insert(0, Input::indices(&output, 0, taps as i64));
        }
        (output, inputs)
    }

    /// The definition: every window lists its elements, and gives.
    fn naive(op: &PoolAdjoint, output: &[usize], values: &[Vec<f64>]) -> Vec<f64> {
        let window = &op.pool.window;
        let shape = &op.input;
        let r = &values[values.len() - 1];
        let mut shares = vec![0.0; shape.iter().product()];
        for o in positions(output) {
            let (mut elements, mut padded) = (Vec::new(), 0.0);
            for (tap, k) in positions(&window.kernel).into_iter().enumerate() {
                let at = |a: usize| o[a + 2] * window.strides[a] + k[a] * window.dilations[a];
                let extent = |a: usize| shape[a + 2] + window.pads_begin[a] + window.pads_end[a];
                let axes = 0..k.len();
                if axes.clone().all(|a| at(a) < extent(a)) {
                    padded += 1.0;
                }
                // Past the end for what lies in the padding before the beginning.
                let from: Vec<usize> = axes
                    .map(|a| at(a).wrapping_sub(window.pads_begin[a]))
                    .collect();
                if from.iter().zip(&shape[2..]).all(|(i, extent)| i < extent) {
                    elements.push((tap, number_of(shape, &[&o[..2], &from].concat())));
                }
            }
            let r = r[number_of(output, &o)];
            match op.pool.kind {
                PoolKind::Max => {
                    let place = values[0][number_of(output, &o)] as usize;
                    if let Some((_, at)) = elements.iter().find(|(tap, _)| *tap == place) {
                        shares[*at] += r;
                    }
                }
                PoolKind::Average { count_include_pad } => {
                    let inside = elements.len() as f64;
                    let divisor = if count_include_pad { padded } else { inside };
                    elements
                        .iter()
                        .for_each(|(_, at)| shares[*at] += r / divisor);
                }
            }
        }
        shares
    }

    fn for_each_case(f: impl Fn(PoolAdjoint)) {
        for (shape, sides) in cases() {
            for kind in KINDS {
                for ceil_mode in [false, true] {
                    f(adjoint(kind, &shape, &sides, ceil_mode));
                }
            }
        }
    }

    fn node(op: &PoolAdjoint) -> Op {
        Op::Composite(CompositeOp::new(op.clone()))
    }

    #[test]
    fn adjoints_agree_with_the_definition() {
        for_each_case(|op| {
            let (output, inputs) = inputs(&op);
            check(node(&op), &inputs, 1e-6, |values| {
                naive(&op, &output, values)
            });
        });
    }

    #[test]
    fn adjoints_agree_with_plain_operators() {
        for_each_case(|op| {
            let (_, inputs) = inputs(&op);
            let kernel = run_node(node(&op), &inputs);
            let plain = run_lowered(node(&op), &inputs);
            for (a, b) in kernel.concat().iter().zip(plain.concat()) {
                assert!((a - b).abs() <= 1e-5, "{op:?}: {a} and {b}");
            }
        });
    }

    #[test]
    fn an_adjoint_is_one_step() {
        for_each_case(|op| {
            let graph = graph_of(node(&op), &inputs(&op).1);
            assert_eq!(
                Plan::new(&graph, Options::default(), usize::MAX)
                    .unwrap()
                    .steps
                    .len(),
                1
            );
        });
    }

    #[test]
    fn nothing_is_added_up_where_each_element_is_in_one_window() {
        let partition = |shape: &[usize], sides: Sides, ceil_mode| {
            let op = adjoint(PoolKind::Max, shape, &[sides], ceil_mode);
            let windows = inputs(&op).0;
            axes(&op.pool, &shape[2..], &windows[2..])
                .unwrap()
                .iter()
                .all(is_partition)
        };
        assert!(partition(&[1, 1, 6], [2, 2, 1, 0, 0], false));
        assert!(partition(&[1, 1, 7], [2, 2, 1, 0, 0], true));
        assert!(partition(&[1, 1, 5], [2, 2, 1, 1, 0], false));
        assert!(!partition(&[1, 1, 7], [2, 2, 1, 0, 0], false));
        assert!(!partition(&[1, 1, 7], [3, 2, 1, 0, 0], false));
        assert!(!partition(&[1, 1, 4], [2, 1, 2, 0, 0], false));
    }

    #[test]
    fn a_window_without_elements_gives_nothing() {
        // Taps at -1 and 1 of an input of one element.
        for kind in [KINDS[0], KINDS[1]] {
            let op = adjoint(kind, &[1, 1, 1, 1], &[[2, 1, 2, 1, 1]; 2], false);
            for y in run_node(node(&op), &inputs(&op).1) {
                assert_eq!(y, [0.0]);
            }
        }
    }
}
