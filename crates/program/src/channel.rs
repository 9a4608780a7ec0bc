//! Which axis of a value tells neurons apart.
//!
//! A convolution puts channels on axis 1, a dense layer units on the last one; from there on the
//! axis is followed through transposes, reshapes and reductions, so that NHWC exports and token
//! models need no special treatment.

use npcov_graph::op::{Recurrence, States};
use npcov_graph::{Graph, Node, Op, ValueId};

/// The channel axis of every value, by [`ValueId::index`]; scalars have none.
pub(crate) fn channel_axes(graph: &Graph) -> Vec<Option<usize>> {
    let mut axes: Vec<Option<usize>> = vec![None; graph.values().len()];
    for node in graph.nodes() {
        let rank = graph.shape(node.output).len();
        let followed = follow(graph, node, &axes);
        axes[node.output.index()] = followed.filter(|&a| a < rank).or(fallback(rank));
    }
    axes
}

/// The usual place where nothing says better: axis 1 behind a batch axis.
fn fallback(rank: usize) -> Option<usize> {
    match rank {
        0 => None,
        1 => Some(0),
        _ => Some(1),
    }
}

fn follow(graph: &Graph, node: &Node, axes: &[Option<usize>]) -> Option<usize> {
    let of = |v: ValueId| axes[v.index()];
    let first = *node.inputs.first()?;
    let output = graph.shape(node.output);
    match &node.op {
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::Lrn(_)
        | Op::Pool(_) => Some(1),
        Op::Gemm(_) | Op::MatMul => output.len().checked_sub(1),
        Op::Composite(_) if Recurrence::of(node).is_some() || States::of(node).is_some() => {
            output.len().checked_sub(1)
        }
        Op::Transpose(perm) => {
            let axis = of(first)?;
            perm.iter().position(|&p| p == axis)
        }
        Op::Reshape(_) => reshaped(graph.shape(first), output, of(first)?),
        Op::Reduce(reduce) if !reduce.keep_dims => removed(of(first)?, &reduce.axes),
        Op::ArgMax(arg) if !arg.keep_dims => removed(of(first)?, &[arg.axis]),
        // A row of a table holds the features of a token.
        Op::Gather(_) if graph.constant(first).is_some() => output.len().checked_sub(1),
        Op::Gather(gather) => {
            let axis = of(first)?;
            let added = graph.shape(*node.inputs.get(1)?).len();
            match axis > gather.axis {
                true => (axis + added).checked_sub(1),
                false => Some(axis),
            }
        }
        // Broadcasting aligns shapes at the end. The operand with all axes knows best.
        Op::LayerNormalization(_)
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Where
        | Op::Cast(_)
        | Op::Reduce(_)
        | Op::ArgMax(_)
        | Op::TopK(_)
        | Op::Softmax(_)
        | Op::Concat(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::GatherElements(_)
        | Op::Resize(_)
        | Op::ScatterSum(_)
        | Op::Composite(_) => node
            .inputs
            .iter()
            .filter(|&&v| graph.shape(v).len() == output.len())
            .find_map(|&v| of(v)),
    }
}

fn removed(axis: usize, removed: &[usize]) -> Option<usize> {
    match removed.contains(&axis) {
        true => None,
        false => Some(axis - removed.iter().filter(|&&r| r < axis).count()),
    }
}

/// The output axis that the channel axis has become, or become part of: the one in which the
/// elements before the channels' axis end.
fn reshaped(from: &[usize], to: &[usize], axis: usize) -> Option<usize> {
    let before: usize = from[..axis].iter().product();
    let extent = from[axis];
    let mut product = 1;
    for (i, &d) in to.iter().enumerate() {
        if product == before && (d == extent || d > 1 || extent == 1) {
            return Some(i);
        }
        if product * d > before {
            return Some(i);
        }
        product *= d;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshapes_are_followed() {
        // Flatten, tokens from patches, one token picked, heads split off, an axis added.
        assert_eq!(reshaped(&[1, 8, 4, 4], &[1, 128], 1), Some(1));
        assert_eq!(reshaped(&[1, 16, 7, 7], &[1, 16, 49], 1), Some(1));
        assert_eq!(reshaped(&[1, 1, 32], &[1, 32], 2), Some(1));
        assert_eq!(reshaped(&[1, 49, 32], &[1, 49, 4, 8], 2), Some(2));
        assert_eq!(reshaped(&[1, 32], &[1, 32, 1, 1], 1), Some(1));
        assert_eq!(reshaped(&[1, 10], &[10], 1), Some(0));
    }

    #[test]
    fn removed_axes_shift_the_later_ones() {
        assert_eq!(removed(3, &[1, 2]), Some(1));
        assert_eq!(removed(1, &[2, 3]), Some(1));
        assert_eq!(removed(2, &[2]), None);
    }
}
