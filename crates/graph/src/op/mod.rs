//! The operators of a [`Graph`](crate::Graph), one file per family.
//!
//! A graph holds *canonical* operators: what ONNX passes as a constant input or as an attribute,
//! depending on the opset, is a field here, and operators that others can express (Flatten,
//! Squeeze, Split, DepthToSpace, global pools...) do not exist. So an engine or a program meets
//! each idea once. Every family file has
//!
//! * the operator's struct, whose fields are checked values;
//! * `infer`: the types of the outputs from the types of the inputs, and the check that they fit;
//! * `eval`, where it can occur on constants: the value, computed plainly;
//! * `import`: from the ONNX operators of the family to canonical ones;
//! * `export`: back to ONNX.

mod arg;
mod attention;
mod binary;
mod blocks;
mod clip;
mod composite;
mod conv;
mod einsum;
mod elementwise;
mod erf;
mod fused;
mod gather;
mod integer;
mod matmul;
mod norm;
mod pad;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod scatter;
mod shape;
mod slice;
mod softmax;
mod structure;
mod table;
#[cfg(test)]
mod testing;
mod unary;
mod window;

pub use arg::{ArgMax, TopK};
pub use binary::Binary;
pub use composite::{Composite, CompositeOp};
pub use conv::{Conv, ConvTranspose};
pub use elementwise::broadcast;
pub use gather::{Gather, GatherElements};
pub use matmul::Gemm;
pub use norm::{BatchNormalization, InstanceNormalization, LayerNormalization, Lrn};
pub use pad::{Pad, PadMode};
pub use pool::{Pool, PoolKind};
pub use recurrent::{Arguments, Cell, Given, MAX_STEPS, Recurrence, States};
pub use reduce::{Reduce, ReduceKind};
pub use resize::{AxisMap, Coordinates, Interpolation, NearestRounding, Resize};
pub use scatter::ScatterSum;
pub use slice::Slice;
pub use softmax::Softmax;
pub use unary::Unary;
pub use window::Window;

pub(crate) use integer::is_quantised;
pub(crate) use quantize::import_number;
pub(crate) use table::no_network;

use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, Tensor, TensorType};

/// A canonical operator. The documentation of each says what its inputs are; the batch has no
/// special place among the axes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Convolution: `x [n, c, ...]`, `w [out, c/groups, ...]`, optional bias `[out]`.
    Conv(Conv),
    /// Transposed convolution: `x [n, c, ...]`, `w [c, out/groups, ...]`, optional bias `[out]`.
    ConvTranspose(ConvTranspose),
    /// `alpha * a' b' + beta * c` of matrices, `c` optional and broadcast.
    Gemm(Gemm),
    /// Matrix product with NumPy's rules for vectors and leading axes: `a`, `b`.
    MatMul,
    /// `x`, `scale`, `bias`, `mean`, `variance`, the last four one per channel (axis 1).
    BatchNormalization(BatchNormalization),
    /// `x`, `scale`, `bias`: statistics per sample and channel.
    InstanceNormalization(InstanceNormalization),
    /// `x`, `scale`, optional `bias`: statistics over the trailing axes.
    LayerNormalization(LayerNormalization),
    /// Local response normalisation across channels: `x`.
    Lrn(Lrn),
    /// A function of each element: `x`.
    Unary(Unary),
    /// A function of pairs of elements, broadcast: `a`, `b`.
    Binary(Binary),
    /// `condition`, `a`, `b`, broadcast.
    Where,
    /// Another element type: `x`.
    Cast(DType),
    /// Maximum or average over windows: `x [n, c, ...]`.
    Pool(Pool),
    /// Reduction over axes: `x`.
    Reduce(Reduce),
    /// Index of the maximum or minimum along an axis: `x`.
    ArgMax(ArgMax),
    /// Indices of the largest or smallest elements along an axis: `x`.
    TopK(TopK),
    /// Softmax or its logarithm along an axis: `x`.
    Softmax(Softmax),
    /// The same elements in the same order under another shape: `x`.
    Reshape(Vec<usize>),
    /// Axes in another order; output axis `i` is input axis `perm[i]`: `x`.
    Transpose(Vec<usize>),
    /// Inputs one after the other along an axis.
    Concat(usize),
    /// Regularly spaced elements along every axis: `x`.
    Slice(Slice),
    /// Elements added (never removed) around: `x`.
    Pad(Pad),
    /// Broadcast to a larger shape: `x`.
    Expand(Vec<usize>),
    /// The tensor repeated along each axis: `x`.
    Tile(Vec<usize>),
    /// Slices of `data` at `indices` along an axis.
    Gather(Gather),
    /// One element of `data` per element of `indices` along an axis.
    GatherElements(GatherElements),
    /// Interpolation along axes: `x`.
    Resize(Resize),
    /// Elements added up at given places: `x`, `places`.
    ScatterSum(ScatterSum),
    /// Several operators at once; its documentation says what its inputs are.
    Composite(CompositeOp),
}

/// How one operator is imported: reads the node, appends canonical operators, returns its outputs.
pub(crate) type Import = fn(&NodeContext<'_>, &mut Builder<'_>) -> Result<Vec<ValueId>, OpError>;

/// The import function of an ONNX operator, or `None` when npcov does not know it.
pub(crate) fn import_of(op_type: &str) -> Option<Import> {
    [
        arg::import_of,
        attention::import_of,
        binary::import_of,
        blocks::import_of,
        clip::import_of,
        conv::import_of,
        einsum::import_of,
        elementwise::import_of,
        gather::import_of,
        integer::import_of,
        matmul::import_of,
        norm::import_of,
        pad::import_of,
        pool::import_of,
        quantize::import_of,
        recurrent::import_of,
        reduce::import_of,
        resize::import_of,
        scatter::import_of,
        shape::import_of,
        slice::import_of,
        softmax::import_of,
        structure::import_of,
        unary::import_of,
    ]
    .iter()
    .find_map(|family| family(op_type))
}

/// The import function of an operator of another domain than the standard one.
pub(crate) fn import_of_domain(domain: &str, op_type: &str) -> Option<Import> {
    match domain {
        "ai.onnx.ml" => table::import_of(op_type),
        "com.microsoft" => {
            integer::import_of_microsoft(op_type).or_else(|| fused::import_of_microsoft(op_type))
        }
        _ => None,
    }
}

/// The types of the inputs of an operator that takes exactly `N`.
fn arguments<'a, const N: usize>(
    inputs: &[&'a TensorType],
) -> Result<[&'a TensorType; N], OpError> {
    inputs
        .try_into()
        .map_err(|_| OpError::invalid(format!("it takes {N} inputs, not {}", inputs.len())))
}

/// An error when a value is not of floating-point type.
fn require_float(what: &str, ty: &TensorType) -> Result<(), OpError> {
    match ty.dtype {
        DType::F32 => Ok(()),
        other @ (DType::I64 | DType::Bool) => {
            Err(OpError::unsupported(format!("{what} is of type {other}")))
        }
    }
}

impl Op {
    /// The operator's name: ONNX's where it has one.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Conv(_) => "Conv",
            Op::ConvTranspose(_) => "ConvTranspose",
            Op::Gemm(_) => "Gemm",
            Op::MatMul => "MatMul",
            Op::BatchNormalization(_) => "BatchNormalization",
            Op::InstanceNormalization(_) => "InstanceNormalization",
            Op::LayerNormalization(_) => "LayerNormalization",
            Op::Lrn(_) => "LRN",
            Op::Unary(unary) => unary.name(),
            Op::Binary(binary) => binary.name(),
            Op::Where => "Where",
            Op::Cast(_) => "Cast",
            Op::Pool(pool) => pool.name(),
            Op::Reduce(reduce) => reduce.name(),
            Op::ArgMax(arg) => arg.name(),
            Op::TopK(_) => "TopK",
            Op::Softmax(softmax) => softmax.name(),
            Op::Reshape(_) => "Reshape",
            Op::Transpose(_) => "Transpose",
            Op::Concat(_) => "Concat",
            Op::Slice(_) => "Slice",
            Op::Pad(_) => "Pad",
            Op::Expand(_) => "Expand",
            Op::Tile(_) => "Tile",
            Op::Gather(_) => "Gather",
            Op::GatherElements(_) => "GatherElements",
            Op::Resize(_) => "Resize",
            Op::ScatterSum(_) => "ScatterElements",
            Op::Composite(op) => op.name(),
        }
    }

    /// The type of the output for inputs of the given types; every canonical operator has one
    /// output.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        match self {
            Op::Conv(op) => op.infer(inputs),
            Op::ConvTranspose(op) => op.infer(inputs),
            Op::Gemm(op) => op.infer(inputs),
            Op::MatMul => matmul::infer(inputs),
            Op::BatchNormalization(op) => op.infer(inputs),
            Op::InstanceNormalization(op) => op.infer(inputs),
            Op::LayerNormalization(op) => op.infer(inputs),
            Op::Lrn(op) => op.infer(inputs),
            Op::Unary(op) => op.infer(inputs),
            Op::Binary(op) => op.infer(inputs),
            Op::Where => elementwise::infer_where(inputs),
            Op::Cast(to) => elementwise::infer_cast(*to, inputs),
            Op::Pool(op) => op.infer(inputs),
            Op::Reduce(op) => op.infer(inputs),
            Op::ArgMax(op) => op.infer(inputs),
            Op::TopK(op) => op.infer(inputs),
            Op::Softmax(op) => op.infer(inputs),
            Op::Reshape(shape) => structure::infer_reshape(shape, inputs),
            Op::Transpose(perm) => structure::infer_transpose(perm, inputs),
            Op::Concat(axis) => structure::infer_concat(*axis, inputs),
            Op::Slice(op) => op.infer(inputs),
            Op::Pad(op) => op.infer(inputs),
            Op::Expand(shape) => structure::infer_expand(shape, inputs),
            Op::Tile(repeats) => structure::infer_tile(repeats, inputs),
            Op::Gather(op) => op.infer(inputs),
            Op::GatherElements(op) => op.infer(inputs),
            Op::Resize(op) => op.infer(inputs),
            Op::ScatterSum(op) => op.infer(inputs),
            Op::Composite(op) => op.infer(inputs),
        }
    }

    /// The value on constants, for the operators that shape arithmetic and prepared weights use;
    /// `None` leaves the node to the engine, and so does another `output` than [`Op::infer`] gives.
    ///
    /// ```
    /// use npcov_graph::{DType, Op, Tensor, TensorType};
    ///
    /// let x = Tensor::vector(vec![1.0, 2.0]);
    /// let column = TensorType::new(DType::F32, [2, 1]);
    /// let y = Op::Reshape(vec![2, 1]).eval(&[&x], &column);
    /// assert_eq!(y, x.reshaped([2, 1]));
    /// assert_eq!(Op::Reshape(vec![2, 1]).eval(&[], &column), None);
    /// ```
    pub fn eval(&self, inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
        let types: Vec<TensorType> = inputs.iter().map(|input| input.ty()).collect();
        let inferred = self.infer(&types.iter().collect::<Vec<_>>()).ok()?;
        if inferred != *output {
            return None;
        }
        match self {
            Op::Unary(op) => op.eval(inputs, output),
            Op::Binary(op) => op.eval(inputs, output),
            Op::Where => elementwise::eval_where(inputs, output),
            Op::Cast(_) => elementwise::eval_cast(inputs, output),
            Op::Reduce(op) => op.eval(inputs, output),
            Op::TopK(op) => op.eval(inputs, output),
            Op::Reshape(_) => inputs.first()?.reshaped(output.shape.clone()),
            Op::Transpose(perm) => structure::eval_transpose(perm, inputs, output),
            Op::Concat(axis) => structure::eval_concat(*axis, inputs, output),
            Op::Slice(op) => op.eval(inputs, output),
            Op::Pad(op) => op.eval(inputs, output),
            Op::Expand(_) => structure::eval_expand(inputs, output),
            Op::Tile(_) => structure::eval_tile(inputs, output),
            Op::Gather(op) => op.eval(inputs, output),
            Op::GatherElements(op) => op.eval(inputs, output),
            Op::Conv(_)
            | Op::ConvTranspose(_)
            | Op::Gemm(_)
            | Op::MatMul
            | Op::BatchNormalization(_)
            | Op::InstanceNormalization(_)
            | Op::LayerNormalization(_)
            | Op::Lrn(_)
            | Op::Pool(_)
            | Op::ArgMax(_)
            | Op::Softmax(_)
            | Op::Resize(_)
            | Op::ScatterSum(_)
            | Op::Composite(_) => None,
        }
    }

    /// The ONNX node (opset [`EXPORT_OPSET`](crate::EXPORT_OPSET)) that computes this operator.
    pub(crate) fn export(&self, node: &mut OnnxNode<'_>) {
        match self {
            Op::Conv(op) => op.export(node),
            Op::ConvTranspose(op) => op.export(node),
            Op::Gemm(op) => op.export(node),
            Op::MatMul | Op::Where => {}
            Op::BatchNormalization(op) => op.export(node),
            Op::InstanceNormalization(op) => op.export(node),
            Op::LayerNormalization(op) => op.export(node),
            Op::Lrn(op) => op.export(node),
            Op::Unary(op) => op.export(node),
            Op::Binary(op) => op.export(node),
            Op::Cast(to) => elementwise::export_cast(*to, node),
            Op::Pool(op) => op.export(node),
            Op::Reduce(op) => op.export(node),
            Op::ArgMax(op) => op.export(node),
            Op::TopK(op) => op.export(node),
            Op::Softmax(op) => op.export(node),
            Op::Reshape(shape) => structure::export_reshape(shape, node),
            Op::Transpose(perm) => node.ints("perm", &structure::to_i64(perm)),
            Op::Concat(axis) => node.int("axis", *axis as i64),
            Op::Slice(op) => op.export(node),
            Op::Pad(op) => op.export(node),
            Op::Expand(shape) => node.int_input(&structure::to_i64(shape)),
            Op::Tile(repeats) => node.int_input(&structure::to_i64(repeats)),
            Op::Gather(op) => op.export(node),
            Op::GatherElements(op) => op.export(node),
            Op::Resize(op) => op.export(node),
            Op::ScatterSum(op) => op.export(node),
            // A graph is lowered before it is written.
            Op::Composite(_) => {}
        }
    }
}
