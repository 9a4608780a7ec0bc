//! Elements picked by index.
//!
//! With constant indices a gather only moves elements. Indices that depend on the model's input
//! differ between lanes: each lane then looks up for itself. An index outside of the axis gives
//! NaN, so that it shows in the results of its input and of no other.

use npcov_graph::op::{Gather, GatherElements};
use npcov_graph::{Op, OpError, strides};

use super::arg::MAX_POSITIONS;
use super::structure::{Select, trace};
use crate::native::kernel::{Context, Inputs, Kernel, NodeKernel};
use crate::native::pack::{LANES, Pack};

pub(super) fn prepare(op: &Gather, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    if let Some(select) = constant_indices(&Op::Gather(op.clone()), cx)? {
        return Ok(select);
    }
    let shape = cx.shape(0);
    let (outer, inner) = (&shape[..op.axis], &shape[op.axis + 1..]);
    let inner: usize = inner.iter().product();
    let indices: usize = cx.shape(1).iter().product();
    let slice = inner * shape[op.axis];
    // One block for each index, for each position before the axis.
    let bases = (0..outer.iter().product())
        .flat_map(|o| std::iter::repeat_n(o * slice, indices))
        .collect();
    lookup(cx, op.axis, inner, inner, bases)
}

pub(super) fn prepare_elements(
    op: &GatherElements,
    cx: &Context<'_>,
) -> Result<NodeKernel, OpError> {
    if let Some(select) = constant_indices(&Op::GatherElements(op.clone()), cx)? {
        return Ok(select);
    }
    let strides = strides(cx.shape(0));
    // Where an index of 0 leads: the position of the index itself, but for the axis.
    let mut bases = vec![0];
    for (axis, &extent) in cx.shape(1).iter().enumerate() {
        let stride = if axis == op.axis { 0 } else { strides[axis] };
        let along = |&base: &usize| (0..extent).map(move |i| base + i * stride);
        bases = bases.iter().flat_map(along).collect();
    }
    lookup(cx, op.axis, 1, strides[op.axis], bases)
}

/// The kernel for indices that are known.
fn constant_indices(op: &Op, cx: &Context<'_>) -> Result<Option<NodeKernel>, OpError> {
    let Some(indices) = cx.constant(1) else {
        return Ok(None);
    };
    let table = trace(op, cx, &[indices])?;
    Ok(Some(NodeKernel::new(Select::new(&table, 0.0), [0])))
}

/// The kernel for indices that are not.
fn lookup(
    cx: &Context<'_>,
    axis: usize,
    block: usize,
    stride: usize,
    bases: Vec<usize>,
) -> Result<NodeKernel, OpError> {
    let extent = cx.shape(0)[axis];
    if extent > MAX_POSITIONS {
        let message = format!("varying positions along an axis of {extent} elements");
        return Err(OpError::unsupported(message));
    }
    let places = Places {
        block,
        bases,
        stride,
        extent,
    };
    Ok(match cx.constant(0) {
        Some(data) => {
            let data = data.to_f32();
            NodeKernel::new(LookupConstant { places, data }, [1])
        }
        None => NodeKernel::new(Lookup { places }, [1, 0]),
    })
}

/// Where to look. Block `b` of the output is `block` neighbours of the data, from
/// `bases[b] + index * stride` on, with the index at `b`, counted around.
struct Places {
    block: usize,
    bases: Vec<usize>,
    stride: usize,
    /// Number of positions that an index can have.
    extent: usize,
}

impl Places {
    /// The position in the data of an index, or one that is surely behind its end.
    fn position(&self, base: usize, index: f32) -> usize {
        if index.is_nan() {
            return usize::MAX;
        }
        let extent = self.extent as i64;
        let index = index as i64;
        let index = if index < 0 { index + extent } else { index };
        match usize::try_from(index) {
            Ok(index) if index < self.extent => base + index * self.stride,
            _ => usize::MAX,
        }
    }

    /// Sets each block of the output from where each lane looks.
    #[inline(always)]
    fn run(&self, indices: &[Pack], output: &mut [Pack], f: impl Fn(&[usize; LANES], &mut [Pack])) {
        let blocks = output.chunks_exact_mut(self.block.max(1));
        let wanted = self.bases.iter().zip(indices.iter().cycle());
        for (y, (&base, index)) in blocks.zip(wanted) {
            let at = std::array::from_fn(|l| self.position(base, index.0[l]));
            f(&at, y);
        }
    }
}

/// Data that is constant, such as an embedding: one number, whatever the lane.
struct LookupConstant {
    places: Places,
    data: Vec<f32>,
}

impl Kernel for LookupConstant {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        self.places.run(inputs.get(0), output, |at, y| {
            for (l, &at) in at.iter().enumerate() {
                match self.data.get(at..at.saturating_add(y.len())) {
                    Some(data) => y.iter_mut().zip(data).for_each(|(y, &x)| y.0[l] = x),
                    None => y.iter_mut().for_each(|y| y.0[l] = f32::NAN),
                }
            }
        });
    }
}

/// Data that depends on the model's input too: every lane has its own.
struct Lookup {
    places: Places,
}

impl Kernel for Lookup {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        let data = inputs.get(1);
        self.places.run(inputs.get(0), output, |at, y| {
            for (l, &at) in at.iter().enumerate() {
                match data.get(at..at.saturating_add(y.len())) {
                    Some(data) => y.iter_mut().zip(data).for_each(|(y, x)| y.0[l] = x.0[l]),
                    None => y.iter_mut().for_each(|y| y.0[l] = f32::NAN),
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::op::testing::{Input, check, number_of, positions, run_node};

    /// An index as ONNX means it.
    fn wrapped(index: f64, extent: usize) -> usize {
        let index = index as isize;
        let wrapped = if index < 0 {
            index + extent as isize
        } else {
            index
        };
        wrapped as usize
    }

    fn check_gather(data: &Input, shape: &[usize], axis: usize, indices: &Input, like: &[usize]) {
        let op = Op::Gather(Gather { axis });
        let inputs = [data.clone(), indices.clone()];
        let output = [&shape[..axis], like, &shape[axis + 1..]].concat();
        check(op, &inputs, 0.0, |inputs| {
            let value = |p: Vec<usize>| {
                let index = inputs[1][number_of(like, &p[axis..axis + like.len()])];
                let index = wrapped(index, shape[axis]);
                let at = [&p[..axis], &[index], &p[axis + like.len()..]].concat();
                inputs[0][number_of(shape, &at)]
            };
            positions(&output).into_iter().map(value).collect()
        });
    }

    #[test]
    fn gathers_at_constant_indices() {
        let shape = [2, 5, 3];
        let x = Input::varying(&shape);
        check_gather(
            &x,
            &shape,
            1,
            &Input::ints(&[2, 2], &[4, -5, 0, -1]),
            &[2, 2],
        );
        check_gather(&x, &shape, 2, &Input::ints(&[], &[-2]), &[]);
        check_gather(&x, &shape, 0, &Input::ints(&[3], &[1, 1, 0]), &[3]);
    }

    #[test]
    fn gathers_at_indices_that_differ_between_inputs() {
        let shape = [2, 5, 3];
        for data in [Input::varying(&shape), Input::constant(&shape)] {
            for axis in 0..3 {
                let extent = shape[axis] as i64;
                for like in [&[4][..], &[2, 3], &[]] {
                    let indices = Input::indices(like, -extent, extent - 1);
                    check_gather(&data, &shape, axis, &indices, like);
                }
            }
        }
    }

    #[test]
    fn gathers_single_elements() {
        let (shape, like) = ([2, 4, 3], [2, 5, 2]);
        let constant = Input::ints(
            &like,
            &[
                0, -1, 3, 2, 1, 0, -4, 2, 1, -2, 0, 1, 2, 3, 3, -3, 1, 2, 0, -1,
            ],
        );
        for (data, indices) in [
            (Input::varying(&shape), constant),
            (Input::varying(&shape), Input::indices(&like, -4, 3)),
            (Input::constant(&shape), Input::indices(&like, -4, 3)),
        ] {
            let op = Op::GatherElements(GatherElements { axis: 1 });
            check(op, &[data, indices], 0.0, |inputs| {
                let value = |p: Vec<usize>| {
                    let index = wrapped(inputs[1][number_of(&like, &p)], shape[1]);
                    inputs[0][number_of(&shape, &[p[0], index, p[2]])]
                };
                positions(&like).into_iter().map(value).collect()
            });
        }
    }

    #[test]
    fn an_index_outside_of_the_axis_is_nan_in_its_lane_only() {
        let shape = [3, 2];
        // From -5 to 4, of which -3 to 2 exist.
        let indices = Input::indices(&[4], -5, 4);
        for data in [Input::varying(&shape), Input::constant(&shape)] {
            let op = Op::Gather(Gather { axis: 0 });
            check(op, &[data, indices.clone()], 0.0, |inputs| {
                let row = |&index: &f64| match (-3.0..3.0).contains(&index) {
                    true => inputs[0][2 * wrapped(index, 3)..][..2].to_vec(),
                    false => vec![f64::NAN; 2],
                };
                inputs[1].iter().flat_map(row).collect()
            });
        }
    }

    #[test]
    fn absurd_indices_are_nan() {
        for index in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30] {
            let op = Op::Gather(Gather { axis: 0 });
            let indices = Input::indices(&[1], 0, 0).map(|_| index);
            let y = run_node(op, &[Input::varying(&[3]), indices]);
            assert!(y.iter().all(|y| y[0].is_nan()), "{index}");
        }
    }
}
