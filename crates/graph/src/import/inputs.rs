//! What a model leaves open, and the static types of its inputs.

use std::collections::BTreeMap;

use crate::error::GraphError;
use crate::model::{Declaration, Dim};
use crate::tensor::{ShapeDisplay, Tensor, TensorType, element_count};

/// Elements of the largest input, batch included: as `f32` it takes half a gigabyte.
pub const LARGEST_INPUT: usize = 1 << 27;

/// What is left open in a model and must be known for a graph.
#[derive(Clone, Debug, Default)]
pub struct Specialisation {
    /// Extent of the first axis of every input where the model leaves it open; 0 means 1.
    pub batch: usize,
    /// Whether a first axis that the model fixes takes `batch` too.
    pub rebatch: bool,
    /// Whole shapes of inputs, by name, for axes that are open after the first.
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// Inputs that are bound to a constant, by name.
    pub constants: BTreeMap<String, Tensor>,
    /// The outputs that are wanted, by name; all when empty. What they do not need is not looked at.
    pub outputs: Vec<String>,
}

/// The static type of an input.
pub(super) fn input_type(
    input: &Declaration,
    options: &Specialisation,
) -> Result<TensorType, GraphError> {
    let dtype = input.dtype.ok_or_else(|| {
        GraphError::Invalid(format!(
            "input `{}` is no tensor of numbers; a model that takes text has to be exported from behind the step that \
             makes numbers of it",
            input.name
        ))
    })?;
    let shape = input_shape(input, options)?;
    match element_count(&shape) {
        Some(count) if count <= LARGEST_INPUT => Ok(TensorType::new(dtype, shape)),
        _ => Err(GraphError::Invalid(format!(
            "input `{}` of shape `{}` is too large: it may have {LARGEST_INPUT} elements",
            input.name,
            ShapeDisplay(&shape)
        ))),
    }
}

/// The static shape of an input.
fn input_shape(input: &Declaration, options: &Specialisation) -> Result<Vec<usize>, GraphError> {
    let given = options.shapes.get(&input.name);
    let Some(dims) = &input.dims else {
        return given.cloned().ok_or_else(|| GraphError::OpenAxis {
            input: input.name.clone(),
            shape: input.shape(),
            axis: 0,
        });
    };
    if let Some(shape) = given
        && shape.len() != dims.len()
    {
        return Err(wrong_shape(input, shape));
    }
    let mut extents = Vec::with_capacity(dims.len());
    for (axis, dim) in dims.iter().enumerate() {
        let given = given.map(|shape| shape[axis]);
        extents.push(match (dim, given) {
            (Dim::Fixed(n), _) if axis > 0 || !options.rebatch => match given {
                Some(g) if g != *n => {
                    return Err(wrong_shape(input, given_shape(options, input)));
                }
                _ => *n,
            },
            (_, Some(g)) => g,
            (_, None) if axis == 0 => options.batch.max(1),
            (_, None) => {
                return Err(GraphError::OpenAxis {
                    input: input.name.clone(),
                    shape: input.shape(),
                    axis,
                });
            }
        });
    }
    Ok(extents)
}

fn given_shape<'a>(options: &'a Specialisation, input: &Declaration) -> &'a [usize] {
    options.shapes.get(&input.name).map_or(&[], Vec::as_slice)
}

fn wrong_shape(input: &Declaration, given: &[usize]) -> GraphError {
    GraphError::InputShape {
        input: input.name.clone(),
        declared: input.shape(),
        given: ShapeDisplay(given).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{node, specialise};
    use super::*;

    #[test]
    fn inputs_beyond_any_memory_are_refused() {
        let relu = || vec![node("Relu", &["x"], &["y"])];
        assert!(specialise(&[1, 3], relu(), vec![], vec![]).is_ok());
        let error = specialise(&[1 << 40, 1 << 40], relu(), vec![], vec![]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid model: input `x` of shape `1099511627776x1099511627776` is too large: it may have 134217728 elements"
        );
        assert!(specialise(&[1, LARGEST_INPUT as i64], relu(), vec![], vec![]).is_ok());
        assert!(specialise(&[1, LARGEST_INPUT as i64 + 1], relu(), vec![], vec![]).is_err());
    }
}
