//! Attention and rotary embeddings, written out.

use super::slice::{Slice, slice};
use super::softmax::Softmax;
use super::window::too_large;
use super::{Binary, Import, Op, Unary};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::tensor::{DType, Data, ShapeDisplay, Tensor};

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Attention" => Some(import_attention),
        "RotaryEmbedding" => Some(import_rotary),
        _ => None,
    }
}

/// `softmax(Q K' scale + mask) V`, for every head.
fn import_attention(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    // How precisely a softmax is computed, and what a further output holds.
    node.attributes
        .ignore(&["softmax_precision", "qk_matmul_output_mode"]);
    node.only_outputs(1)?;
    for (i, what) in [(4, "past_key"), (5, "past_value"), (6, "nonpad_kv_seqlen")] {
        if node.optional(i).is_some() {
            return Err(OpError::unsupported(format!("`{what}` is given")));
        }
    }
    let heads = |name| -> Result<Option<usize>, OpError> {
        let number = node.attributes.optional_int(name)?;
        Ok(number
            .and_then(|n| usize::try_from(n).ok())
            .filter(|&n| n > 0))
    };
    let (q_heads, kv_heads) = (heads("q_num_heads")?, heads("kv_num_heads")?);
    let flat = b.rank(node.input(0)?) == 3;
    let q = by_head(b, node.input(0)?, q_heads, "Q")?;
    let mut k = by_head(b, node.input(1)?, kv_heads, "K")?;
    let mut v = by_head(b, node.input(2)?, kv_heads, "V")?;
    let (q_shape, k_shape) = (b.shape(q), b.shape(k));
    // Groups of query heads share a head of keys and values.
    let groups = (q_shape[1] / k_shape[1].max(1)).max(1);
    if groups * k_shape[1] != q_shape[1] {
        let (q, k) = (q_shape[1], k_shape[1]);
        return Err(OpError::invalid(format!(
            "{q} heads of queries, {k} of keys"
        )));
    }
    k = repeated(b, k, groups)?;
    v = repeated(b, v, groups)?;

    let size = q_shape[3].max(1) as f32;
    let scale = node.attributes.optional_float("scale")?;
    let scale = b.scalar(scale.unwrap_or(1.0 / size.sqrt()));
    let q = b.binary(Binary::Mul, q, scale)?;
    let k = b.push(Op::Transpose(vec![0, 1, 3, 2]), &[k])?;
    let mut scores = b.push(Op::MatMul, &[q, k])?;
    let softcap = node.attributes.float("softcap", 0.0)?;
    if softcap > 0.0 {
        let cap = b.scalar(softcap);
        scores = b.binary(Binary::Div, scores, cap)?;
        scores = b.unary(Unary::Tanh, scores)?;
        scores = b.binary(Binary::Mul, scores, cap)?;
    }
    if let Some(mask) = node.optional(3) {
        let mask = match b.dtype(mask) {
            DType::Bool => {
                let (zero, never) = (b.scalar(0.0), b.scalar(f32::NEG_INFINITY));
                b.push(Op::Where, &[mask, zero, never])?
            }
            DType::F32 | DType::I64 => mask,
        };
        scores = b.binary(Binary::Add, scores, mask)?;
    }
    let causal = node.attributes.flag("is_causal", false)?;
    let left = node.attributes.int("left_window_size", -1)?;
    let right = node.attributes.int("right_window_size", -1)?;
    if causal || left >= 0 || right >= 0 {
        let right = if causal { 0 } else { right };
        let window = window(b, q_shape[2], k_shape[2], left, right)?;
        scores = b.binary(Binary::Add, scores, window)?;
    }
    let softmax = Softmax {
        axis: 3,
        log: false,
    };
    let mut weights = b.push(Op::Softmax(softmax), &[scores])?;
    if node.optional(3).is_some() {
        // A query that no key is left for gets nothing.
        let is_nothing = b.unary(Unary::IsNaN, weights)?;
        let zero = b.scalar(0.0);
        weights = b.push(Op::Where, &[is_nothing, zero, weights])?;
    }
    let context = b.push(Op::MatMul, &[weights, v])?;
    if !flat {
        return Ok(vec![context]);
    }
    let y = b.push(Op::Transpose(vec![0, 2, 1, 3]), &[context])?;
    let shape = b.shape(y);
    let y = b.reshape(y, [shape[0], shape[1], shape[2] * shape[3]])?;
    Ok(vec![y])
}

/// A value as `[batch, heads, tokens, features of a head]`.
fn by_head(
    b: &mut Builder<'_>,
    x: ValueId,
    heads: Option<usize>,
    what: &str,
) -> Result<ValueId, OpError> {
    let shape = b.shape(x);
    match (&shape[..], heads) {
        (&[_, _, _, _], _) => Ok(x),
        (&[batch, tokens, features], Some(heads)) if features % heads == 0 => {
            let x = b.reshape(x, [batch, tokens, heads, features / heads])?;
            b.push(Op::Transpose(vec![0, 2, 1, 3]), &[x])
        }
        _ => Err(OpError::invalid(format!(
            "`{what}` of shape `{}` has no {} heads",
            ShapeDisplay(&shape),
            heads.unwrap_or(0)
        ))),
    }
}

/// Every head, several times in a row.
fn repeated(b: &mut Builder<'_>, x: ValueId, times: usize) -> Result<ValueId, OpError> {
    let &[batch, heads, tokens, size] = &b.shape(x)[..] else {
        return Err(OpError::invalid("a value that has no heads"));
    };
    if times == 1 {
        return Ok(x);
    }
    let x = b.reshape(x, [batch, heads, 1, tokens, size])?;
    let x = b.push(Op::Expand(vec![batch, heads, times, tokens, size]), &[x])?;
    b.reshape(x, [batch, heads * times, tokens, size])
}

/// 0 where key `j` is at most `left` before query `i` and at most `right` behind it, else minus
/// infinity; a negative number is no bound.
fn window(
    b: &mut Builder<'_>,
    queries: usize,
    keys: usize,
    left: i64,
    right: i64,
) -> Result<ValueId, OpError> {
    let count = queries.checked_mul(keys).ok_or_else(too_large)?;
    b.make_room(count)?;
    let bias = |at: usize| {
        let ahead = (at % keys.max(1)) as i64 - (at / keys.max(1)) as i64;
        let inside = (left < 0 || -ahead <= left) && (right < 0 || ahead <= right);
        if inside { 0.0 } else { f32::NEG_INFINITY }
    };
    let numbers = Data::F32((0..count).map(bias).collect());
    let bias = Tensor::new([queries, keys], numbers).ok_or_else(too_large)?;
    Ok(b.tensor(bias))
}

/// Pairs of features, turned by an angle that depends on the token's position.
fn import_rotary(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let shape = b.shape(x);
    let heads = usize::try_from(node.attributes.int("num_heads", 0)?).unwrap_or(0);
    let interleaved = node.attributes.flag("interleaved", false)?;
    let misfit = || {
        let shape = ShapeDisplay(&shape);
        OpError::invalid(format!("an input of shape `{shape}` with {heads} heads"))
    };
    // As [batch, tokens, heads, features of a head].
    let x = match shape[..] {
        [_, _, _, _] => b.push(Op::Transpose(vec![0, 2, 1, 3]), &[x])?,
        [batch, tokens, features] if heads > 0 && features % heads == 0 => {
            b.reshape(x, [batch, tokens, heads, features / heads])?
        }
        _ => return Err(misfit()),
    };
    let full = b.shape(x);
    let turned = match usize::try_from(node.attributes.int("rotary_embedding_dim", 0)?) {
        Ok(turned) if turned > 0 => turned,
        _ => full[3],
    };
    if turned > full[3] || turned % 2 != 0 {
        return Err(misfit());
    }
    let mut angle = |i: usize| -> Result<ValueId, OpError> {
        let mut table = node.input(i)?;
        if let Some(positions) = node.optional(3) {
            let gather = super::Gather { axis: 0 };
            table = b.push(Op::Gather(gather), &[table, positions])?;
        }
        let mut shape = b.shape(table);
        let axis = shape.len().saturating_sub(1);
        shape.insert(axis, 1);
        b.reshape(table, shape)
    };
    let (cos, sin) = (angle(1)?, angle(2)?);
    let part = |b: &mut Builder<'_>, start: usize, step: usize, count: usize| {
        let mut part = Slice::identity(&full);
        part.starts[3] = start;
        part.steps[3] = step as isize;
        part.shape[3] = count;
        slice(b, x, part)
    };
    let half = turned / 2;
    let (first, second) = match interleaved {
        true => (part(b, 0, 2, half)?, part(b, 1, 2, half)?),
        false => (part(b, 0, 1, half)?, part(b, half, 1, half)?),
    };
    let mut turn = |f: Binary, [along, across]: [ValueId; 2]| -> Result<ValueId, OpError> {
        let along = b.binary(Binary::Mul, first, along)?;
        let across = b.binary(Binary::Mul, second, across)?;
        b.binary(f, along, across)
    };
    let real = turn(Binary::Sub, [cos, sin])?;
    let imaginary = turn(Binary::Add, [sin, cos])?;
    let mut y = match interleaved {
        true => {
            let pair = [full[0], full[1], full[2], half, 1];
            let (real, imaginary) = (b.reshape(real, pair)?, b.reshape(imaginary, pair)?);
            let pairs = b.push(Op::Concat(4), &[real, imaginary])?;
            b.reshape(pairs, [full[0], full[1], full[2], turned])?
        }
        false => b.push(Op::Concat(3), &[real, imaginary])?,
    };
    if turned < full[3] {
        let rest = part(b, turned, 1, full[3] - turned)?;
        y = b.push(Op::Concat(3), &[y, rest])?;
    }
    let y = match shape.len() {
        4 => b.push(Op::Transpose(vec![0, 2, 1, 3]), &[y])?,
        _ => b.reshape(y, shape)?,
    };
    Ok(vec![y])
}

#[cfg(test)]
mod tests {
    use super::super::testing::Case;
    use super::*;

    fn attention(heads: [i64; 2], shapes: [&[usize]; 3]) -> Case {
        let case = Case::new("Attention", 23)
            .int("q_num_heads", heads[0])
            .int("kv_num_heads", heads[1]);
        shapes
            .into_iter()
            .fold(case, |case, shape| case.input(DType::F32, shape))
    }

    #[test]
    fn attention_is_two_products_around_a_softmax() {
        let case = attention([2, 1], [&[1, 3, 8], &[1, 5, 4], &[1, 5, 6]]);
        let imported = case.int("is_causal", 1).import().unwrap();
        assert_eq!(imported.ty().shape, [1, 3, 12]);
        let names: Vec<&str> = imported.ops().iter().map(|op| op.name()).collect();
        let kept = |name: &&&str| ["MatMul", "Softmax"].contains(*name);
        let kept: Vec<&&str> = names.iter().filter(kept).collect();
        assert_eq!(kept, [&"MatMul", &"Softmax", &"MatMul"]);
    }

    #[test]
    fn heads_that_do_not_fit_are_named() {
        let case = attention([3, 1], [&[1, 3, 8], &[1, 5, 4], &[1, 5, 4]]);
        assert_eq!(case.error(), "`Q` of shape `1x3x8` has no 3 heads");
        let case = attention([2, 4], [&[1, 3, 8], &[1, 5, 16], &[1, 5, 16]]);
        assert_eq!(case.error(), "2 heads of queries, 4 of keys");
        let case = attention([2, 2], [&[1, 3, 8], &[1, 5, 8], &[1, 5, 8]]).outputs(2);
        assert_eq!(case.error(), "unsupported: output 1 is used");
    }

    #[test]
    fn windows_mask_what_is_outside() {
        let mut graph = crate::Graph::new();
        let mut stored = Default::default();
        let mut b = Builder {
            graph: &mut graph,
            stored: &mut stored,
            name: "w",
        };
        let value = window(&mut b, 3, 3, 1, 0).unwrap();
        let never = f32::NEG_INFINITY;
        let expected = [0.0, never, never, 0.0, 0.0, never, never, 0.0, 0.0];
        assert_eq!(graph.constant(value).unwrap().as_f32(), Some(&expected[..]));
    }

    #[test]
    fn rotations_keep_the_shape() {
        for (shape, interleaved) in [(&[1, 2, 3, 8][..], 0), (&[1, 3, 16], 1)] {
            let imported = Case::new("RotaryEmbedding", 23)
                .input(DType::F32, shape)
                .input(DType::F32, &[1, 3, 2])
                .input(DType::F32, &[1, 3, 2])
                .int("interleaved", interleaved)
                .int("num_heads", 2)
                .int("rotary_embedding_dim", 4)
                .import()
                .unwrap();
            assert_eq!(imported.ty().shape, shape);
        }
    }
}
