//! Einsum of one or two operands, as transposes, sums and one matrix product.

use super::structure::transpose;
use super::window::too_large;
use super::{Import, Op, Reduce, ReduceKind, require_float};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::tensor::element_count;

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Einsum" => Some(import_einsum),
        _ => None,
    }
}

/// A value and the letter of each of its axes.
struct Term {
    value: ValueId,
    letters: Vec<char>,
}

impl Term {
    /// Sums over the axes whose letter is not wanted.
    fn summed(self, builder: &mut Builder<'_>, wanted: &[char]) -> Result<Term, OpError> {
        let gone = |&a: &usize| !wanted.contains(&self.letters[a]);
        let axes: Vec<usize> = (0..self.letters.len()).filter(gone).collect();
        if axes.is_empty() {
            return Ok(self);
        }
        let sum = Reduce {
            kind: ReduceKind::Sum,
            axes,
            keep_dims: false,
        };
        let value = builder.push(Op::Reduce(sum), &[self.value])?;
        let letters = self
            .letters
            .into_iter()
            .filter(|l| wanted.contains(l))
            .collect();
        Ok(Term { value, letters })
    }

    /// The same term with its axes in the order of `letters`, which are its own.
    fn ordered(self, builder: &mut Builder<'_>, letters: Vec<char>) -> Result<Term, OpError> {
        let position = |l: &char| self.letters.iter().position(|own| own == l);
        let perm: Option<Vec<usize>> = letters.iter().map(position).collect();
        let perm = perm.ok_or_else(|| OpError::invalid("`equation` names an unknown axis"))?;
        let value = transpose(builder, self.value, &perm)?;
        Ok(Term { value, letters })
    }
}

/// The letters of the operands and of the result.
#[derive(Debug, PartialEq)]
struct Equation {
    operands: Vec<Vec<char>>,
    result: Vec<char>,
}

impl Equation {
    fn parse(text: &str) -> Result<Self, OpError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        if text.contains('.') {
            return Err(OpError::unsupported(format!("`equation` is `{text}`")));
        }
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let operands: Vec<Vec<char>> = left.split(',').map(|o| o.chars().collect()).collect();
        let result = match right {
            Some(right) => right.chars().collect(),
            None => implicit(&operands),
        };
        let known = result
            .iter()
            .all(|l| operands.iter().any(|o| o.contains(l)));
        let letters = left
            .chars()
            .filter(|&c| c != ',')
            .all(|c| c.is_ascii_alphabetic());
        if !known || !letters || repeats(&result) {
            return Err(OpError::invalid(format!("`equation` is `{text}`")));
        }
        if operands.iter().any(|o| repeats(o)) {
            let message = format!("the diagonals that `equation` `{text}` names");
            return Err(OpError::unsupported(message));
        }
        Ok(Equation { operands, result })
    }
}

/// The result's letters where an equation does not say: those that occur once, in their order.
fn implicit(operands: &[Vec<char>]) -> Vec<char> {
    let all: Vec<char> = operands.concat();
    let mut once: Vec<char> = all.clone();
    once.retain(|l| all.iter().filter(|other| *other == l).count() == 1);
    once.sort_unstable();
    once
}

fn repeats(letters: &[char]) -> bool {
    (1..letters.len()).any(|i| letters[..i].contains(&letters[i]))
}

fn import_einsum(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let equation = Equation::parse(&node.attributes.string("equation", "")?)?;
    let values = node.variadic()?;
    if values.len() != equation.operands.len() {
        let message = format!("`equation` has not the {} operands given", values.len());
        return Err(OpError::invalid(message));
    }
    let mut terms = Vec::with_capacity(values.len());
    for (&value, letters) in values.iter().zip(equation.operands) {
        require_float("an operand", &builder.graph.value(value).ty)?;
        if builder.rank(value) != letters.len() {
            let message = format!(
                "an operand of {} axes has other letters",
                builder.rank(value)
            );
            return Err(OpError::invalid(message));
        }
        terms.push(Term { value, letters });
    }
    let result = equation.result;
    let term = match <[Term; 1]>::try_from(terms) {
        Ok([x]) => x.summed(builder, &result)?,
        Err(terms) => match <[Term; 2]>::try_from(terms) {
            Ok([a, b]) => product(builder, a, b, &result)?,
            Err(terms) => {
                let message = format!("{} operands", terms.len());
                return Err(OpError::unsupported(message));
            }
        },
    };
    Ok(vec![term.ordered(builder, result)?.value])
}

/// The product of two terms, axes in some order. Each letter plays one of four parts:
///
/// | in `a` | in `b` | in the result | part |
/// |---|---|---|---|
/// | yes | yes | yes | batch |
/// | yes | yes | no | contracted |
/// | one of them || yes | free |
/// | one of them || no | summed beforehand |
///
/// With axes in the order batch, free, contracted on the left and batch, contracted, free on the
/// right, the groups taken as one axis each, it is a matrix product.
fn product(builder: &mut Builder<'_>, a: Term, b: Term, result: &[char]) -> Result<Term, OpError> {
    let a_wanted = [result, &b.letters].concat();
    let b_wanted = [result, &a.letters].concat();
    let a = a.summed(builder, &a_wanted)?;
    let b = b.summed(builder, &b_wanted)?;
    for (i, letter) in a.letters.iter().enumerate() {
        let Some(j) = b.letters.iter().position(|l| l == letter) else {
            continue;
        };
        let (left, right) = (builder.shape(a.value)[i], builder.shape(b.value)[j]);
        if left != right {
            let message = format!("axis `{letter}` has {left} and {right} positions");
            return Err(OpError::unsupported(message));
        }
    }
    let pick = |from: &[char], keep: &dyn Fn(&char) -> bool| -> Vec<char> {
        from.iter().copied().filter(|l| keep(l)).collect()
    };
    let batch = pick(&a.letters, &|l| b.letters.contains(l) && result.contains(l));
    let contracted = pick(&a.letters, &|l| {
        b.letters.contains(l) && !result.contains(l)
    });
    let a_free = pick(&a.letters, &|l| !b.letters.contains(l));
    let b_free = pick(&b.letters, &|l| !a.letters.contains(l));

    let a = a.ordered(builder, [&batch[..], &a_free, &contracted].concat())?;
    let b = b.ordered(builder, [&batch[..], &contracted, &b_free].concat())?;
    let (a_shape, b_shape) = (builder.shape(a.value), builder.shape(b.value));
    let (leading, a_rest) = a_shape.split_at(batch.len());
    let (rows, inner) = a_rest.split_at(a_free.len());
    let columns = &b_shape[batch.len() + contracted.len()..];
    let one = |extents: &[usize]| element_count(extents).ok_or_else(too_large);
    let left = [leading, &[one(rows)?, one(inner)?]].concat();
    let right = [leading, &[one(inner)?, one(columns)?]].concat();

    let a = builder.reshape(a.value, left)?;
    let b = builder.reshape(b.value, right)?;
    let matrix = builder.push(Op::MatMul, &[a, b])?;
    let value = builder.reshape(matrix, [leading, rows, columns].concat())?;
    let letters = [batch, a_free, b_free].concat();
    Ok(Term { value, letters })
}

#[cfg(test)]
mod tests {
    use super::super::testing::Case;
    use super::*;
    use crate::tensor::DType;

    fn einsum(equation: &str, shapes: &[&[usize]]) -> Case {
        let case = Case::new("Einsum", 13).string("equation", equation);
        shapes
            .iter()
            .fold(case, |case, shape| case.input(DType::F32, shape))
    }

    fn names(case: Case) -> (Vec<&'static str>, Vec<usize>) {
        let imported = case.import().unwrap();
        let names = imported.ops().iter().map(|op| op.name()).collect();
        (names, imported.ty().shape.clone())
    }

    #[test]
    fn one_operand_is_summed_and_transposed() {
        assert_eq!(
            names(einsum("ij->ji", &[&[2, 3]])),
            (vec!["Transpose"], vec![3, 2])
        );
        assert_eq!(
            names(einsum("ij->i", &[&[2, 3]])),
            (vec!["ReduceSum"], vec![2])
        );
        assert_eq!(
            names(einsum("ba", &[&[2, 3]])),
            (vec!["Transpose"], vec![3, 2])
        );
        assert_eq!(names(einsum("ij -> ij", &[&[2, 3]])), (vec![], vec![2, 3]));
    }

    #[test]
    fn attention_is_a_batched_product() {
        let scores = einsum("bhid,bhjd->bhij", &[&[2, 4, 5, 8], &[2, 4, 6, 8]]);
        assert_eq!(
            names(scores),
            (vec!["Transpose", "MatMul"], vec![2, 4, 5, 6])
        );
        let values = einsum("bhij,bhjd->bhid", &[&[2, 4, 5, 6], &[2, 4, 6, 8]]);
        assert_eq!(names(values), (vec!["MatMul"], vec![2, 4, 5, 8]));
    }

    #[test]
    fn free_and_contracted_axes_are_joined() {
        let dense = einsum("bfd,de->bfe", &[&[2, 3, 4], &[4, 5]]);
        assert_eq!(
            names(dense),
            (vec!["Reshape", "MatMul", "Reshape"], vec![2, 3, 5])
        );
        let full = einsum("ij,ij->", &[&[2, 3], &[2, 3]]);
        assert_eq!(
            names(full),
            (vec!["Reshape", "Reshape", "MatMul", "Reshape"], vec![])
        );
        let outer = einsum("i,j", &[&[2], &[3]]);
        assert_eq!(
            names(outer),
            (vec!["Reshape", "Reshape", "MatMul"], vec![2, 3])
        );
        let summed = einsum("ik,jk->j", &[&[2, 4], &[3, 4]]);
        assert_eq!(names(summed).1, [3]);
    }

    #[test]
    fn implicit_results_hold_the_letters_that_occur_once() {
        let equation = Equation::parse("bja, abc").unwrap();
        assert_eq!(equation.result, ['c', 'j']);
    }

    #[test]
    fn other_equations_are_refused() {
        for (equation, shapes) in [
            ("...ij->...ji", &[&[2, 3][..]][..]),
            ("ii->i", &[&[2, 2]]),
            ("ij->k", &[&[2, 3]]),
            ("ij->ii", &[&[2, 3]]),
            ("i->i", &[&[2, 3]]),
            ("i1->i", &[&[2, 3]]),
            ("ij,jk->ik", &[&[2, 3], &[4, 5]]),
            ("ij,jk->ik", &[&[2, 3]]),
            ("i,i,i->i", &[&[2], &[2], &[2]]),
            ("", &[&[2]]),
        ] {
            assert!(einsum(equation, shapes).import().is_err(), "{equation}");
        }
    }
}
