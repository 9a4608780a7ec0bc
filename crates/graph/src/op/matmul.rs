//! Matrix products.

use super::{Import, Op, arguments, broadcast, require_float};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, ShapeDisplay, TensorType};

/// `alpha * a' b' + beta * c` of two matrices, where `'` transposes when asked to.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of `c`.
    pub beta: f32,
    /// Whether `a` is stored transposed.
    pub trans_a: bool,
    /// Whether `b` is stored transposed.
    pub trans_b: bool,
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Gemm" => Some(import_gemm),
        "MatMul" => Some(import_matmul),
        _ => None,
    }
}

impl Gemm {
    /// The output's type: a matrix.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let (a, b, c) = match *inputs {
            [a, b] => (a, b, None),
            [a, b, c] => (a, b, Some(c)),
            _ => {
                let message = format!("it takes 2 or 3 inputs, not {}", inputs.len());
                return Err(OpError::invalid(message));
            }
        };
        for (what, ty) in [("a", Some(a)), ("b", Some(b)), ("c", c)] {
            ty.map_or(Ok(()), |ty| require_float(what, ty))?;
        }
        let (&[a0, a1], &[b0, b1]) = (a.shape.as_slice(), b.shape.as_slice()) else {
            return Err(mismatch(&a.shape, &b.shape));
        };
        let (m, inner) = if self.trans_a { (a1, a0) } else { (a0, a1) };
        let (inner_b, n) = if self.trans_b { (b1, b0) } else { (b0, b1) };
        if inner != inner_b {
            return Err(mismatch(&a.shape, &b.shape));
        }
        let fits = |c: &TensorType| broadcast(&[&c.shape, &[m, n]]).is_ok_and(|s| s == [m, n]);
        match c {
            Some(c) if !fits(c) => Err(OpError::invalid(format!(
                "`{}` cannot be added to `{}`",
                ShapeDisplay(&c.shape),
                ShapeDisplay(&[m, n])
            ))),
            _ => Ok(TensorType::new(DType::F32, [m, n])),
        }
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.float("alpha", self.alpha);
        node.float("beta", self.beta);
        node.int("transA", i64::from(self.trans_a));
        node.int("transB", i64::from(self.trans_b));
    }
}

/// The type of a matrix product with NumPy's rules: a vector is a row on the left and a column on
/// the right, and its axis is removed again; leading axes are broadcast.
pub(super) fn infer(inputs: &[&TensorType]) -> Result<TensorType, OpError> {
    let [a, b] = arguments(inputs)?;
    require_float("a", a)?;
    require_float("b", b)?;
    let error = || mismatch(&a.shape, &b.shape);
    let (&inner, rows) = a.shape.split_last().ok_or_else(error)?;
    let (inner_b, leading_b, columns) = match b.shape.as_slice() {
        [] => return Err(error()),
        &[inner] => (inner, &[][..], None),
        [leading @ .., inner, columns] => (*inner, leading, Some(*columns)),
    };
    let (leading_a, rows) = match rows.split_last() {
        Some((&rows, leading)) => (leading, Some(rows)),
        None => (&[][..], None),
    };
    if inner != inner_b {
        return Err(error());
    }
    let mut shape = broadcast(&[leading_a, leading_b]).map_err(|_| error())?;
    shape.extend(rows);
    shape.extend(columns);
    Ok(TensorType::new(DType::F32, shape))
}

fn mismatch(a: &[usize], b: &[usize]) -> OpError {
    OpError::invalid(format!(
        "`{}` and `{}` cannot be multiplied",
        ShapeDisplay(a),
        ShapeDisplay(b)
    ))
}

fn import_gemm(node: &NodeContext<'_>, builder: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let op = Gemm {
        alpha: node.attributes.float("alpha", 1.0)?,
        beta: node.attributes.float("beta", 1.0)?,
        trans_a: node.attributes.flag("transA", false)?,
        trans_b: node.attributes.flag("transB", false)?,
    };
    let mut inputs = vec![node.input(0)?, node.input(1)?];
    inputs.extend(node.optional(2));
    Ok(vec![builder.push(Op::Gemm(op), &inputs)?])
}

fn import_matmul(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    Ok(vec![
        builder.push(Op::MatMul, &[node.input(0)?, node.input(1)?])?,
    ])
}

#[cfg(test)]
mod tests {
    use super::super::testing::Case;
    use super::*;

    fn product(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
        let case = Case::new("MatMul", 13)
            .input(DType::F32, a)
            .input(DType::F32, b);
        case.import()
            .ok()
            .map(|imported| imported.ty().shape.clone())
    }

    #[test]
    fn products_have_numpys_shapes() {
        // (numpy.zeros(a) @ numpy.zeros(b)).shape
        assert_eq!(product(&[3, 4], &[4, 5]), Some(vec![3, 5]));
        assert_eq!(product(&[4], &[4]), Some(vec![]));
        assert_eq!(product(&[4], &[4, 5]), Some(vec![5]));
        assert_eq!(product(&[3, 4], &[4]), Some(vec![3]));
        assert_eq!(product(&[2, 1, 3, 4], &[7, 4, 5]), Some(vec![2, 7, 3, 5]));
        assert_eq!(product(&[2, 3, 4], &[4]), Some(vec![2, 3]));
        assert_eq!(product(&[4], &[2, 4, 5]), Some(vec![2, 5]));
    }

    #[test]
    fn products_that_do_not_fit_are_refused() {
        assert_eq!(product(&[3, 4], &[3, 4]), None);
        assert_eq!(product(&[], &[4]), None);
        assert_eq!(product(&[4], &[]), None);
        assert_eq!(product(&[2, 3, 4], &[3, 4, 5]), None);
        let integers = Case::new("MatMul", 13)
            .input(DType::I64, &[2, 2])
            .input(DType::I64, &[2, 2]);
        assert_eq!(integers.error(), "unsupported: a is of type integer");
    }

    fn gemm(a: &[usize], b: &[usize]) -> Case {
        Case::new("Gemm", 13)
            .input(DType::F32, a)
            .input(DType::F32, b)
    }

    #[test]
    fn gemm_transposes_and_broadcasts() {
        let both = gemm(&[4, 3], &[5, 4]).int("transA", 1).int("transB", 1);
        assert_eq!(both.import().unwrap().ty().shape, [3, 5]);
        for c in [&[][..], &[1], &[5], &[1, 5], &[3, 1], &[3, 5]] {
            let case = gemm(&[3, 4], &[4, 5])
                .input(DType::F32, c)
                .float("beta", 0.5);
            assert_eq!(case.import().unwrap().ty().shape, [3, 5], "{c:?}");
        }
    }

    #[test]
    fn gemm_refuses_what_does_not_fit() {
        assert!(gemm(&[3, 4], &[5, 4]).import().is_err());
        assert!(gemm(&[2, 3, 4], &[4, 5]).import().is_err());
        for c in [&[3][..], &[1, 3, 5], &[2, 5]] {
            assert!(
                gemm(&[3, 4], &[4, 5])
                    .input(DType::F32, c)
                    .import()
                    .is_err(),
                "{c:?}"
            );
        }
    }
}
