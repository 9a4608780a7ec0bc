//! The relevance step of a sum of two values, as one operator.

use npcov_graph::op::{Binary, Composite, Unary};
use npcov_graph::{Graph, Op, OpError, TensorType, ValueId};

use crate::append::Append;
use crate::relevance::{or_zeros, sum};
use crate::rule::{Rule, Sharing};

/// What one of two values gets whose sum has some relevance, by a rule that sums positive and negative
/// contributions apart. The contributions are the values themselves.
///
/// Its inputs are both values and the relevance, which has the shape of the sum. So has what it gives:
/// where a value was broadcast, that is still to be added up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumRelevance {
    /// How both values share.
    pub rule: Rule,
    /// Whether the second value is subtracted.
    pub subtracted: bool,
    /// Which of the values are known never to be negative.
    pub nonnegative: [bool; 2],
    /// Which value's share it is, 0 or 1.
    pub of: usize,
}

impl SumRelevance {
    /// Whether contribution `i` is known never to be negative: that of a value that is subtracted has the
    /// other sign.
    pub fn is_nonnegative(&self, i: usize) -> bool {
        self.nonnegative[i] && !(self.subtracted && i == 1)
    }
}

impl Composite for SumRelevance {
    fn name(&self) -> &'static str {
        "SumRelevance"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let &[a, b, r] = inputs else {
            return Err(OpError::invalid("it takes two values and a relevance"));
        };
        let y = Op::Binary(Binary::Add).infer(&[a, b])?;
        match y == *r && self.of < 2 {
            true => Ok(y),
            false => Err(OpError::invalid(format!(
                "relevance of type `{r}` for a sum of type `{y}`"
            ))),
        }
    }

    fn lower(&self, graph: &mut Graph, name: &str, inputs: &[ValueId]) -> Result<ValueId, OpError> {
        let mut g = Append::new(graph, name);
        g.infer(self, inputs)?;
        let &[a, b, r] = inputs else {
            return Err(OpError::invalid("it takes two values and a relevance"));
        };
        let Sharing::Split { negative, rule } = self.rule.sharing() else {
            let message = format!("the rule `{}` sums nothing apart", self.rule);
            return Err(OpError::invalid(message));
        };
        let mut parts = Vec::new();
        let (mut p, mut n) = (None, None);
        for (i, value) in [a, b].into_iter().enumerate() {
            let c = match self.subtracted && i == 1 {
                true => g.unary(Unary::Neg, value)?,
                false => value,
            };
            let (c_p, c_n) = match self.is_nonnegative(i) {
                true => (c, None),
                false => (g.positive(c)?, Some(g.negative(c)?)),
            };
            p = sum(&mut g, p, Some(c_p))?;
            n = sum(&mut g, n, c_n.filter(|_| negative))?;
            parts.push((c_p, c_n));
        }
        let shape = g.shape(r);
        let p = or_zeros(&mut g, p, &shape)?;
        let n = match negative {
            true => Some(or_zeros(&mut g, n, &shape)?),
            false => None,
        };
        let (p_factor, n_factor) = rule.factors(&mut g, p, n, r)?;
        let (c_p, c_n) = parts[self.of];
        let share = g.mul(c_p, p_factor)?;
        match (c_n, n_factor) {
            (Some(c), Some(factor)) => {
                let more = g.mul(c, factor)?;
                g.add(share, more)
            }
            _ => Ok(share),
        }
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::DType;

    use super::*;

    #[test]
    fn what_does_not_fit_a_sum_is_not_lowered() {
        let share = SumRelevance {
            rule: Rule::NPC,
            subtracted: false,
            nonnegative: [false; 2],
            of: 1,
        };
        let mut graph = Graph::new();
        let mut input = |shape: &[usize]| graph.add_input("x", TensorType::new(DType::F32, shape));
        let [a, b, c] = [input(&[1, 2, 3]), input(&[2, 1]), input(&[1, 3])];
        let shares = [(share, &[a, b, a][..], true), (share, &[a, b], false)];
        let others = [
            (share, &[a, b, c][..], false),
            (SumRelevance { of: 2, ..share }, &[a, b, a], false),
            (
                SumRelevance {
                    rule: Rule::Identity,
                    ..share
                },
                &[a, b, a],
                false,
            ),
        ];
        for (share, inputs, fits) in shares.into_iter().chain(others) {
            assert_eq!(share.lower(&mut graph, "s", inputs).is_ok(), fits);
        }
    }
}
