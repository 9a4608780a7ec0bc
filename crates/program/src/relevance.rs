//! The relevance step of a linear operator, as one operator.

use npcov_graph::op::Composite;
use npcov_graph::{Graph, OpError, TensorType, ValueId};

use crate::append::Append;
use crate::linear::{Linear, WeightPart};
use crate::rule::{Rule, Sharing, SplitFactors, WholeFactor};

/// The relevance of a linear operator's input.
///
/// Its inputs are the operator's input `x`, the relevance of its output, then the constant weight
/// if the operator has one, and the bias if it takes a share.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearRelevance {
    /// The operator.
    pub linear: Linear,
    /// How its contributions share relevance.
    pub rule: Rule,
    /// Whether the operator has a weight.
    pub weight: bool,
    /// Whether a bias takes a share.
    pub bias: bool,
    /// Whether `x` is known never to be negative; then half of the products are zero.
    pub nonnegative: bool,
}

/// The inputs of a [`LinearRelevance`].
#[derive(Clone, Copy)]
pub(crate) struct LinearInputs {
    /// The operator's input.
    pub(crate) x: ValueId,
    /// The relevance of its output.
    pub(crate) r: ValueId,
    /// Its weight, if it has one.
    pub(crate) weight: Option<ValueId>,
    /// The bias, in a shape that broadcasts to the output, if it takes a share.
    pub(crate) bias: Option<ValueId>,
}

impl LinearRelevance {
    fn inputs<T: Copy>(&self, inputs: &[T]) -> Result<(T, T, Option<T>, Option<T>), OpError> {
        let expected = 2 + usize::from(self.weight) + usize::from(self.bias);
        match inputs {
            [x, r, rest @ ..] if inputs.len() == expected => {
                let mut rest = rest.iter().copied();
                let weight = if self.weight { rest.next() } else { None };
                Ok((*x, *r, weight, rest.next()))
            }
            _ => Err(OpError::invalid(format!(
                "it takes {expected} inputs, not {}",
                inputs.len()
            ))),
        }
    }
}

impl Composite for LinearRelevance {
    fn name(&self) -> &'static str {
        match self.linear {
            Linear::Conv(_) => "ConvRelevance",
            Linear::ConvTranspose(_) => "ConvTransposeRelevance",
            Linear::Gemm(_) => "GemmRelevance",
            Linear::MatMul | Linear::MatMulLeft => "MatMulRelevance",
            Linear::Pool(_) => "AveragePoolRelevance",
            Linear::Reduce(_) => "ReduceRelevance",
            Linear::Resize(_) => "ResizeRelevance",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let (x, r, weight, _) = self.inputs(inputs)?;
        let y = self.linear.infer(x, weight)?;
        match y == *r {
            true => Ok(x.clone()),
            false => Err(OpError::invalid(format!(
                "relevance of type `{r}` for an output of type `{y}`"
            ))),
        }
    }

    fn lower(&self, graph: &mut Graph, name: &str, inputs: &[ValueId]) -> Result<ValueId, OpError> {
        let (x, r, weight, bias) = self.inputs(inputs)?;
        let mut g = Append::new(graph, name);
        g.infer(self, inputs)?;
        let bias = match bias {
            Some(bias) => {
                let rank = g.graph.shape(r).len();
                Some(self.linear.bias(&mut g, bias, rank)?)
            }
            None => None,
        };
        let inputs = LinearInputs { x, r, weight, bias };
        match self.rule.sharing() {
            Sharing::Split { negative, rule } => self.split(&mut g, &inputs, negative, rule),
            Sharing::Whole(rule) => self.whole(&mut g, &inputs, rule),
            Sharing::Own(rule) => rule.linear(&mut g, &self.linear, &inputs),
            Sharing::Named(_) => {
                let message = format!("the rule `{}` shares nothing", self.rule);
                Err(OpError::invalid(message))
            }
        }
    }
}

impl LinearRelevance {
    /// Positive contributions are positive weights times the positive part of `x` and negative
    /// weights times its negative part; negative contributions the other two products:
    ///
    /// ```text
    /// P = W+ x+ + W- x-      R_x = x+ (W+' f_P + W-' f_N)
    /// N = W- x+ + W+ x-          + x- (W-' f_P + W+' f_N)
    /// ```
    fn split(
        &self,
        g: &mut Append<'_>,
        inputs: &LinearInputs,
        negative: bool,
        rule: &dyn SplitFactors,
    ) -> Result<ValueId, OpError> {
        let LinearInputs { x, r, weight, bias } = *inputs;
        let signs = [
            (WeightPart::Positive, WeightPart::Negative),
            (WeightPart::Negative, WeightPart::Positive),
        ];
        let parts = match self.nonnegative {
            true => vec![x],
            false => vec![g.positive(x)?, g.negative(x)?],
        };
        let mut p = None;
        let mut n = None;
        for (&x, (same, other)) in parts.iter().zip(signs) {
            let y = self.linear.forward(g, same, x, weight)?;
            p = sum(g, p, y)?;
            if negative {
                let y = self.linear.forward(g, other, x, weight)?;
                n = sum(g, n, y)?;
            }
        }
        if let Some(bias) = bias {
            let share = Some(g.positive(bias)?);
            p = sum(g, p, share)?;
            if negative {
                let share = Some(g.negative(bias)?);
                n = sum(g, n, share)?;
            }
        }
        // An operator without negative weights on an input without negative numbers.
        let shape = g.shape(r);
        let p = or_zeros(g, p, &shape)?;
        let n = match negative {
            true => Some(or_zeros(g, n, &shape)?),
            false => None,
        };
        let (p_factor, n_factor) = rule.factors(g, p, n, r)?;
        let shape = g.shape(x);
        let mut relevance = None;
        for (&x, (same, other)) in parts.iter().zip(signs) {
            let mut sums = None;
            for (part, factor) in [(same, Some(p_factor)), (other, n_factor)] {
                let empty = part == WeightPart::Negative && !self.linear.has_negative_weights();
                if let (Some(factor), false) = (factor, empty) {
                    let y = self.linear.adjoint(g, part, factor, weight, &shape)?;
                    sums = sum(g, sums, Some(y))?;
                }
            }
            if let Some(sums) = sums {
                let share = g.mul(x, sums)?;
                relevance = sum(g, relevance, Some(share))?;
            }
        }
        or_zeros(g, relevance, &shape)
    }

    /// `R_x = x (W' f)`, the factor `f` being made from `z = W x`.
    fn whole(
        &self,
        g: &mut Append<'_>,
        inputs: &LinearInputs,
        rule: &dyn WholeFactor,
    ) -> Result<ValueId, OpError> {
        let LinearInputs { x, r, weight, bias } = *inputs;
        let z = self.linear.forward(g, WeightPart::All, x, weight)?;
        let z = sum(g, z, bias)?.ok_or_else(|| OpError::invalid("an operator without weights"))?;
        let factor = rule.factor(g, z, r)?;
        let shape = g.shape(x);
        let sums = self
            .linear
            .adjoint(g, WeightPart::All, factor, weight, &shape)?;
        g.mul(x, sums)
    }
}

/// The sum of what there is.
pub(crate) fn sum(
    g: &mut Append<'_>,
    a: Option<ValueId>,
    b: Option<ValueId>,
) -> Result<Option<ValueId>, OpError> {
    Ok(match (a, b) {
        (Some(a), Some(b)) => Some(g.add(a, b)?),
        (a, b) => a.or(b),
    })
}

/// What there is, or zeros, of a shape.
pub(crate) fn or_zeros(
    g: &mut Append<'_>,
    x: Option<ValueId>,
    shape: &[usize],
) -> Result<ValueId, OpError> {
    match x {
        // A bias alone is smaller than the output.
        Some(x) => g.expand(x, shape),
        None => g.filled(shape, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::DType;
    use npcov_graph::op::{Conv, Window};

    use super::*;

    #[test]
    fn what_does_not_fit_an_operator_is_not_lowered() {
        let step = LinearRelevance {
            linear: Linear::Conv(Conv {
                window: Window::sized([2]),
                groups: 1,
            }),
            rule: Rule::NPC,
            weight: true,
            bias: true,
            nonnegative: false,
        };
        let mut graph = Graph::new();
        let mut input = |shape: &[usize]| graph.add_input("x", TensorType::new(DType::F32, shape));
        let [x, r, w, b] = [
            input(&[1, 1, 3]),
            input(&[1, 1, 2]),
            input(&[1, 1, 2]),
            input(&[1]),
        ];
        assert!(step.lower(&mut graph, "r", &[x, r, w, b]).is_ok());
        for inputs in [&[][..], &[x, r, w], &[x, b, w, b], &[b, r, w, b]] {
            assert!(step.lower(&mut graph, "r", inputs).is_err());
        }
    }
}
