//! Positions of extreme elements.

use std::cmp::Ordering;

use super::reduce::reduced;
use super::{GatherElements, Import, Op, arguments};
use crate::ValueId;
use crate::builder::{self, Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, Data, Tensor, TensorType, strides};

/// The index of the maximum or minimum along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgMax {
    /// The axis searched.
    pub axis: usize,
    /// Whether the axis stays with extent 1.
    pub keep_dims: bool,
    /// Whether the last of several equal elements is taken instead of the first.
    pub select_last: bool,
    /// Whether the minimum is searched.
    pub minimum: bool,
}

impl ArgMax {
    pub(super) fn name(&self) -> &'static str {
        match self.minimum {
            true => "ArgMin",
            false => "ArgMax",
        }
    }

    pub(super) fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x] = arguments(inputs)?;
        if x.dtype == DType::Bool {
            return Err(OpError::invalid("the input is of type bool"));
        }
        let shape = reduced(&x.shape, &[self.axis], self.keep_dims)?;
        Ok(TensorType::new(DType::I64, shape))
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.int("axis", self.axis as i64);
        node.int("keepdims", i64::from(self.keep_dims));
        node.int("select_last_index", i64::from(self.select_last));
    }
}

/// The indices of the largest or smallest elements along an axis, the most extreme first; of equal ones
/// the first. The elements themselves are a [`GatherElements`] of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopK {
    /// The axis searched.
    pub axis: usize,
    /// How many there are.
    pub count: usize,
    /// Whether the smallest are searched.
    pub smallest: bool,
}

impl TopK {
    pub(super) fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x] = arguments(inputs)?;
        if x.dtype == DType::Bool {
            return Err(OpError::invalid("the input is of type bool"));
        }
        let mut shape = x.shape.clone();
        match shape.get_mut(self.axis) {
            Some(extent) if *extent < self.count => {
                let message = format!("{} of {extent} elements", self.count);
                return Err(OpError::invalid(message));
            }
            Some(extent) => *extent = self.count,
            None => {
                let message = format!("axis {} does not exist in {} axes", self.axis, x.rank());
                return Err(OpError::invalid(message));
            }
        }
        Ok(TensorType::new(DType::I64, shape))
    }

    /// NaN counts as less extreme than any number.
    pub(super) fn eval(&self, inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
        let [x] = inputs else {
            return None;
        };
        let places = match x.as_i64() {
            Some(ints) => self.places(x.shape(), output, |a, b| ints[a].cmp(&ints[b])),
            None => {
                let worst = match self.smallest {
                    true => f32::INFINITY,
                    false => f32::NEG_INFINITY,
                };
                let known = |x: f32| if x.is_nan() { worst } else { x };
                // Zeros of both signs are equal.
                let keys: Vec<f32> = x.to_f32().into_iter().map(|x| known(x) + 0.0).collect();
                self.places(x.shape(), output, |a, b| keys[a].total_cmp(&keys[b]))
            }
        };
        Tensor::new(output.shape.clone(), Data::I64(places))
    }

    /// The indices of all fibres along the axis, elements being compared by where they stand.
    fn places(
        &self,
        shape: &[usize],
        output: &TensorType,
        compare: impl Fn(usize, usize) -> Ordering,
    ) -> Vec<i64> {
        let (stride, to) = (strides(shape)[self.axis], strides(&output.shape)[self.axis]);
        let mut places = vec![0; output.numel()];
        let fibres = places.len() / self.count.max(1);
        for fibre in 0..fibres {
            let (outer, inner) = (fibre / stride, fibre % stride);
            let first = outer * stride * shape[self.axis] + inner;
            let at = |&i: &usize| first + i * stride;
            let mut order: Vec<usize> = (0..shape[self.axis]).collect();
            // Stable: equal elements stay in their order.
            order.sort_by(|a, b| match self.smallest {
                true => compare(at(a), at(b)),
                false => compare(at(b), at(a)),
            });
            let first = outer * to * self.count + inner;
            for (rank, &i) in order[..self.count].iter().enumerate() {
                places[first + rank * to] = i as i64;
            }
        }
        places
    }

    /// ONNX's operator gives the elements first.
    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.int_input(&[self.count as i64]);
        node.int("axis", self.axis as i64);
        node.int("largest", i64::from(!self.smallest));
        node.second_output();
    }
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "ArgMax" | "ArgMin" => Some(import),
        "TopK" => Some(import_top_k),
        _ => None,
    }
}

fn import(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let arg = ArgMax {
        axis: builder::axis(node.attributes.int("axis", 0)?, b.rank(x))?,
        keep_dims: node.attributes.flag("keepdims", true)?,
        select_last: node.attributes.flag("select_last_index", false)?,
        minimum: node.op_type == "ArgMin",
    };
    Ok(vec![b.push(Op::ArgMax(arg), &[x])?])
}

/// Sorted also where any order would do.
fn import_top_k(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let count = match node.opset < 10 {
        true => {
            let count = node.attributes.optional_int("k")?;
            count.ok_or_else(|| OpError::invalid("attribute `k` is missing"))?
        }
        false => match b.ints(node.input(1)?, "K")?[..] {
            [count] => count,
            _ => return Err(OpError::invalid("`K` is not one number")),
        },
    };
    let count = usize::try_from(count).map_err(|_| OpError::invalid("`K` is negative"))?;
    node.attributes.flag("sorted", true)?;
    let top = TopK {
        axis: builder::axis(node.attributes.int("axis", -1)?, b.rank(x))?,
        count,
        smallest: !node.attributes.flag("largest", true)?,
    };
    let along = GatherElements { axis: top.axis };
    let places = b.push(Op::TopK(top), &[x])?;
    let elements = b.push(Op::GatherElements(along), &[x, places])?;
    Ok(vec![elements, places])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_round_trip, floats, ints};
    use super::*;

    #[test]
    fn the_axis_is_reduced_to_an_index() {
        let case = Case::new("ArgMin", 13)
            .input(DType::F32, &[2, 3, 4])
            .int("axis", -2)
            .int("select_last_index", 1);
        let imported = case.import().unwrap();
        assert_eq!(*imported.ty(), TensorType::new(DType::I64, [2, 1, 4]));
        let expected = ArgMax {
            axis: 1,
            keep_dims: true,
            select_last: true,
            minimum: true,
        };
        assert_eq!(imported.ops(), [&Op::ArgMax(expected)]);
        let case = Case::new("ArgMax", 7)
            .input(DType::F32, &[2, 3])
            .int("keepdims", 0);
        assert_eq!(case.import().unwrap().ty().shape, [3]);
    }

    #[test]
    fn what_has_no_maximum_is_an_error() {
        let scalar = Case::new("ArgMax", 13).input(DType::F32, &[]);
        assert_eq!(scalar.error(), "axis 0 does not exist in 0 axes");
        let empty = Case::new("ArgMax", 13).input(DType::F32, &[0, 2]);
        assert_eq!(
            empty.error(),
            "unsupported: axis 0 has no element to reduce"
        );
        let truth = Case::new("ArgMax", 13).input(DType::Bool, &[2]);
        assert_eq!(truth.error(), "the input is of type bool");
    }

    #[test]
    fn every_form_is_written_and_read_again() {
        for form in 0..8 {
            let arg = ArgMax {
                axis: 1,
                keep_dims: form & 1 != 0,
                select_last: form & 2 != 0,
                minimum: form & 4 != 0,
            };
            assert_round_trip(Op::ArgMax(arg), &[TensorType::new(DType::F32, [2, 3])]);
        }
    }

    fn top(axis: usize, count: usize, smallest: bool) -> Op {
        Op::TopK(TopK {
            axis,
            count,
            smallest,
        })
    }

    #[test]
    fn the_largest_are_their_places_and_what_stands_there() {
        let case = Case::new("TopK", 11)
            .input(DType::F32, &[2, 5])
            .constant(ints(&[1], &[3]))
            .int("largest", 0)
            .outputs(2);
        let imported = case.import().unwrap();
        let gather = GatherElements { axis: 1 };
        let expected = [&top(1, 3, true), &Op::GatherElements(gather)];
        assert_eq!(imported.ops(), expected);
        assert_eq!(*imported.ty(), TensorType::new(DType::F32, [2, 3]));
        // How many was an attribute once.
        let case = Case::new("TopK", 1).input(DType::F32, &[4, 2]);
        let imported = case.int("k", 2).int("axis", 0).import().unwrap();
        assert_eq!(imported.ops()[0], &top(0, 2, false));
    }

    #[test]
    fn the_largest_of_constants() {
        // test_top_k of the ONNX backend tests.
        let rows: Vec<f32> = (0..12).map(|x| x as f32).collect();
        let case = Case::new("TopK", 11)
            .constant(floats(&[3, 4], &rows))
            .constant(ints(&[1], &[3]));
        let expected = [3.0, 2.0, 1.0, 7.0, 6.0, 5.0, 11.0, 10.0, 9.0];
        assert_eq!(case.value(), floats(&[3, 3], &expected));

        let places = |x: &Tensor, op: Op| {
            let output = op.infer(&[&x.ty()]).unwrap();
            op.eval(&[x], &output).unwrap()
        };
        // Along another axis, of equal ones the first; zeros of both signs are equal.
        let x = floats(&[3, 2], &[0.0, 5.0, 7.0, 5.0, -0.0, 6.0]);
        let found = places(&x, top(0, 2, false));
        assert_eq!(found, ints(&[2, 2], &[1, 2, 0, 0]));
        let found = places(&x, top(0, 2, true));
        assert_eq!(found, ints(&[2, 2], &[0, 0, 2, 1]));
        // NaN comes last, integers are compared as such.
        let x = floats(&[4], &[f32::NAN, 1.0, f32::NEG_INFINITY, 2.0]);
        assert_eq!(places(&x, top(0, 4, false)), ints(&[4], &[3, 1, 0, 2]));
        let x = ints(&[3], &[i64::MAX - 1, i64::MAX, i64::MIN]);
        assert_eq!(places(&x, top(0, 3, false)), ints(&[3], &[1, 0, 2]));
    }

    #[test]
    fn more_than_there_are_is_an_error() {
        let of = |count: i64| {
            let case = Case::new("TopK", 11).input(DType::F32, &[2, 5]);
            case.constant(ints(&[1], &[count])).error()
        };
        assert_eq!(of(6), "6 of 5 elements");
        assert_eq!(of(-1), "`K` is negative");
        let open = Case::new("TopK", 11)
            .input(DType::F32, &[2, 5])
            .input(DType::I64, &[1]);
        assert_eq!(
            open.error(),
            "unsupported: `K` depends on the model's input"
        );
    }

    #[test]
    fn the_largest_are_written_and_read_again() {
        for smallest in [false, true] {
            let op = top(1, 2, smallest);
            assert_round_trip(op, &[TensorType::new(DType::F32, [2, 3])]);
        }
    }
}
