//! Blocks of an image as channels and back: DepthToSpace and SpaceToDepth, which are a transpose
//! between two reshapes.

use super::Import;
use super::structure::transpose;
use super::window::too_large;
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::tensor::ShapeDisplay;

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "DepthToSpace" => Some(import_depth_to_space),
        "SpaceToDepth" => Some(import_space_to_depth),
        _ => None,
    }
}

/// `n`, `c`, `h`, `w` of an image batch, and `blocksize`.
fn blocks(node: &NodeContext<'_>, builder: &Builder<'_>) -> Result<([usize; 4], usize), OpError> {
    let shape = builder.shape(node.input(0)?);
    let dims = <[usize; 4]>::try_from(shape.as_slice()).map_err(|_| {
        OpError::invalid(format!("`{}` is no batch of images", ShapeDisplay(&shape)))
    })?;
    let size = node.attributes.optional_int("blocksize")?.unwrap_or(0);
    let block = usize::try_from(size)
        .ok()
        .filter(|&b| b > 0 && b.checked_mul(b).is_some());
    let block = block.ok_or_else(|| OpError::invalid(format!("`blocksize` is {size}")))?;
    Ok((dims, block))
}

fn indivisible(what: &str, block: usize) -> OpError {
    OpError::invalid(format!("{what} cannot be split into blocks of {block}"))
}

fn import_depth_to_space(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let ([n, c, h, w], b) = blocks(node, builder)?;
    if !c.is_multiple_of(b * b) {
        return Err(indivisible("the channels", b));
    }
    let c = c / (b * b);
    let (split, perm) = match node.attributes.string("mode", "DCR")?.as_str() {
        "DCR" => ([n, b, b, c, h, w], [0, 3, 4, 1, 5, 2]),
        "CRD" => ([n, c, b, b, h, w], [0, 1, 4, 2, 5, 3]),
        other => return Err(OpError::invalid(format!("`mode` is `{other}`"))),
    };
    let x = builder.reshape(node.input(0)?, split)?;
    let x = transpose(builder, x, &perm)?;
    let (h, w) = (h.checked_mul(b), w.checked_mul(b));
    let shape = [n, c, h.ok_or_else(too_large)?, w.ok_or_else(too_large)?];
    Ok(vec![builder.reshape(x, shape)?])
}

fn import_space_to_depth(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let ([n, c, h, w], b) = blocks(node, builder)?;
    if !h.is_multiple_of(b) || !w.is_multiple_of(b) {
        return Err(indivisible("the image", b));
    }
    let x = builder.reshape(node.input(0)?, [n, c, h / b, b, w / b, b])?;
    let x = transpose(builder, x, &[0, 3, 5, 1, 2, 4])?;
    let channels = c.checked_mul(b * b).ok_or_else(too_large)?;
    Ok(vec![builder.reshape(x, [n, channels, h / b, w / b])?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, floats};

    #[test]
    fn depth_to_space_interleaves_channels() {
        // "DepthToSpace" of the ONNX operators: 1x8x2x3 of nines per channel, first row shown.
        let x: Vec<f32> = (0..8)
            .flat_map(|c| (0..6).map(move |i| (9 * c + i) as f32))
            .collect();
        let case = |mode| {
            Case::new("DepthToSpace", 13)
                .constant(floats(&[1, 8, 2, 3], &x))
                .int("blocksize", 2)
                .string("mode", mode)
        };
        let dcr = case("DCR").value();
        assert_eq!(dcr.shape(), [1, 2, 4, 6]);
        assert_eq!(dcr.to_f32()[..6], [0.0, 18.0, 1.0, 19.0, 2.0, 20.0]);
        let crd = case("CRD").value();
        assert_eq!(crd.to_f32()[..6], [0.0, 9.0, 1.0, 10.0, 2.0, 11.0]);
        assert!(case("ABC").import().is_err());
    }

    #[test]
    fn space_to_depth_undoes_depth_to_space() {
        let x = floats(
            &[1, 8, 2, 3],
            &(0..48).map(|i| i as f32).collect::<Vec<_>>(),
        );
        let up = Case::new("DepthToSpace", 13)
            .constant(x.clone())
            .int("blocksize", 2);
        let down = Case::new("SpaceToDepth", 13)
            .constant(up.value())
            .int("blocksize", 2);
        assert_eq!(down.value(), x);
        for block in [0, -1, 3, i64::MAX] {
            for op_type in ["SpaceToDepth", "DepthToSpace"] {
                let case = Case::new(op_type, 13).constant(x.clone());
                assert!(
                    case.int("blocksize", block).import().is_err(),
                    "{op_type} {block}"
                );
            }
        }
    }
}
