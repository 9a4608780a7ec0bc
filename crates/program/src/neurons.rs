//! From the elements of a path layer to its neurons, and back.

use npcov_graph::op::{Binary, Reduce, ReduceKind, Slice};
use npcov_graph::{DType, Graph, Op, OpError, ValueId};

use crate::append::Append;
use crate::layers::PathLayer;

/// How the elements of a layer belong to its neurons, where there is more to say than which axis
/// tells neurons apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// The axis of vectors whose length is the activation of a neuron; `None` where every element is
    /// an activation.
    pub vectors: Option<usize>,
    /// The axis of tokens and the only one of them that counts; `None` where all do.
    pub token: Option<(usize, usize)>,
    /// Which tokens count, as a value of the graph with a number for each token of each input, and
    /// the layer's axis of tokens: those with 0 are padding. `None` where there is no padding.
    pub padding: Option<(ValueId, usize)>,
}

/// A layer's value with a batch axis of its own, and where things are then.
struct View {
    value: ValueId,
    shape: Vec<usize>,
    channel: Option<usize>,
    /// How far axes have moved.
    moved: usize,
}

impl View {
    /// Some layers have windows or heads of all inputs on one axis.
    fn new(
        g: &mut Append<'_>,
        layer: &PathLayer,
        value: ValueId,
        batch: usize,
    ) -> Result<View, OpError> {
        let mut shape = g.shape(value);
        let first = shape.first().copied().unwrap_or(1);
        let moved = usize::from(batch > 1 && first != batch && first % batch == 0);
        if moved == 1 {
            shape[0] = first / batch;
            shape.insert(0, batch);
        }
        Ok(View {
            value: g.reshape(value, &shape)?,
            channel: layer.channel_axis.map(|axis| axis + moved),
            shape,
            moved,
        })
    }
}

/// The axes over which the elements of one neuron are spread; none when each neuron has a single
/// element. A single input has no batch axis to keep.
pub(crate) fn spread(shape: &[usize], channel: Option<usize>, batch: usize) -> Vec<usize> {
    let Some(channel) = channel else {
        return Vec::new();
    };
    let keeps = |axis: usize| axis == channel || (batch > 1 && axis == 0);
    let axes: Vec<usize> = (0..shape.len()).filter(|&a| !keeps(a)).collect();
    match axes.iter().all(|&a| shape[a] == 1) {
        true => Vec::new(),
        false => axes,
    }
}

/// A layer's activations, one for each neuron.
pub(crate) fn activations(
    program: &mut Graph,
    layer: &PathLayer,
    value: ValueId,
    kind: ReduceKind,
    batch: usize,
) -> Result<ValueId, OpError> {
    let mut g = Append::new(program, layer.name.clone());
    let mut view = View::new(&mut g, layer, value, batch)?;
    if let Some(axis) = layer
        .elements
        .vectors
        .filter(|_| layer.channel_axis.is_some())
    {
        let length = Reduce {
            kind: ReduceKind::L2,
            axes: vec![axis + view.moved],
            keep_dims: true,
        };
        view.value = g.op(Op::Reduce(length), &[view.value])?;
        view.shape[axis + view.moved] = 1;
    }
    reduced(&mut g, layer, view, kind, batch)
}

/// A layer's relevances, one for each neuron: the sums over its elements.
pub(crate) fn relevances(
    program: &mut Graph,
    layer: &PathLayer,
    relevance: ValueId,
    batch: usize,
) -> Result<ValueId, OpError> {
    let relevance = layer.of_neurons(program, relevance)?;
    let mut g = Append::new(program, layer.name.clone());
    let view = View::new(&mut g, layer, relevance, batch)?;
    reduced(&mut g, layer, view, ReduceKind::Sum, batch)
}

fn reduced(
    g: &mut Append<'_>,
    layer: &PathLayer,
    mut view: View,
    kind: ReduceKind,
    batch: usize,
) -> Result<ValueId, OpError> {
    if let Some((axis, token)) = layer.elements.token.filter(|_| view.channel.is_some()) {
        let mut slice = Slice::identity(&view.shape);
        slice.starts[axis + view.moved] = token;
        slice.shape[axis + view.moved] = 1;
        view.shape.clone_from(&slice.shape);
        view.value = g.op(Op::Slice(slice), &[view.value])?;
    }
    let axes = spread(&view.shape, view.channel, batch);
    let reduce = |kind: ReduceKind| {
        Op::Reduce(Reduce {
            kind,
            axes: axes.clone(),
            keep_dims: false,
        })
    };
    if axes.is_empty() {
        return Ok(view.value);
    }
    let is_whole = layer.elements.token.is_none();
    let Some((mask, axis)) = layer.elements.padding.filter(|_| is_whole) else {
        return g.op(reduce(kind), &[view.value]);
    };
    let mut shape = vec![1; view.shape.len()];
    shape[axis + view.moved] = view.shape[axis + view.moved];
    if batch > 1 {
        shape[0] = batch;
    }
    let mask = match g.graph.value(mask).ty.dtype {
        DType::F32 => mask,
        DType::I64 | DType::Bool => g.op(Op::Cast(DType::F32), &[mask])?,
    };
    let mask = g.reshape(mask, &shape)?;
    let counts = g.is_positive(mask)?;
    let kept = g.keep(counts, view.value)?;
    match kind {
        ReduceKind::Mean => {
            let sum = g.op(reduce(ReduceKind::Sum), &[kept])?;
            let (one, zero) = (g.scalar(1.0), g.scalar(0.0));
            let ones = g.choose(counts, one, zero)?;
            let ones = g.expand(ones, &view.shape)?;
            let count = g.op(reduce(ReduceKind::Sum), &[ones])?;
            // Nothing but padding has a mean of zero.
            let count = g.binary(Binary::Max, count, one)?;
            g.div(sum, count)
        }
        // Padding takes the place of the least extreme.
        ReduceKind::Max | ReduceKind::Min => {
            let other = match kind == ReduceKind::Max {
                true => ReduceKind::Min,
                false => ReduceKind::Max,
            };
            let least = Reduce {
                kind: other,
                axes: axes.clone(),
                keep_dims: true,
            };
            let least = g.op(Op::Reduce(least), &[view.value])?;
            let kept = g.choose(counts, view.value, least)?;
            g.op(reduce(kind), &[kept])
        }
        ReduceKind::Sum
        | ReduceKind::Prod
        | ReduceKind::L1
        | ReduceKind::L2
        | ReduceKind::SumSquare
        | ReduceKind::LogSum
        | ReduceKind::LogSumExp => g.op(reduce(kind), &[kept]),
    }
}

/// A layer's value with its neurons multiplied by the numbers of a mask, of which each input has one
/// for each neuron.
pub(crate) fn masked(
    program: &mut Graph,
    layer: &PathLayer,
    value: ValueId,
    mask: ValueId,
    batch: usize,
) -> Result<ValueId, OpError> {
    let mut g = Append::new(program, "mask");
    let original = g.shape(value);
    let view = View::new(&mut g, layer, value, batch)?;
    let shape = match view.channel {
        None => view.shape.clone(),
        Some(0) if batch > 1 => {
            return Err(OpError::unsupported("a batch on the axis of the neurons"));
        }
        Some(channel) => {
            let mut shape = vec![1; view.shape.len()];
            shape[channel] = layer.neurons;
            if batch > 1 {
                shape[0] = batch;
            }
            shape
        }
    };
    let mut mask = g.op(Op::Reshape(shape), &[mask])?;
    if let Some((axis, token)) = layer.elements.token.filter(|_| view.channel.is_some()) {
        let extent = view.shape[axis + view.moved];
        let mut shape = vec![1; view.shape.len()];
        shape[axis + view.moved] = extent;
        let mut numbers = g.repeated(0.0, &[extent])?;
        numbers[token] = 1.0;
        let is_token = g.made(&shape, numbers)?;
        let is_token = g.is_positive(is_token)?;
        let one = g.scalar(1.0);
        mask = g.choose(is_token, mask, one)?;
    }
    let product = g.mul(view.value, mask)?;
    g.reshape(product, &original)
}
