//! Ways to explain a logit by the values it was computed from.

use npcov_graph::op::Binary;
use npcov_graph::{DType, Graph, Node, Op, OpError, ValueId};

use crate::append::Append;
use crate::backward::backward;
use crate::error::ProgramError;
use crate::flow::Carriers;
use crate::op::{self, Choice, Shares, Step};
use crate::program::require_values;
use crate::rule::{Bias, Rules, first_layers};
use crate::sign::nonnegative;

/// What is explained.
#[derive(Clone, Copy, Debug)]
pub struct RelevanceSeed {
    /// The logits.
    pub logits: ValueId,
    /// Of their shape: 1 for the class that is explained, else 0.
    pub one_hot: ValueId,
    /// Of their shape: the relevance that is shared out, at the class that is explained.
    pub relevance: ValueId,
}

impl RelevanceSeed {
    /// An error when a program has not these values, or not in these shapes, or not the targets.
    fn check(&self, program: &Graph, targets: &[ValueId]) -> Result<(), ProgramError> {
        require_values(program, &[self.logits, self.one_hot, self.relevance])?;
        require_values(program, targets)?;
        let shape = program.shape(self.logits);
        let fits = |value| program.shape(value) == shape;
        match fits(self.one_hot) && fits(self.relevance) {
            true => Ok(()),
            false => Err(ProgramError::Misfit(
                "a seed of another shape than the logits".to_owned(),
            )),
        }
    }
}

/// A way to explain a logit.
pub trait Attribution {
    /// Appends to a program the relevance of each of `targets`, of its shape.
    fn relevances(
        &self,
        program: &mut Graph,
        seed: &RelevanceSeed,
        targets: &[ValueId],
    ) -> Result<Vec<ValueId>, ProgramError>;
}

/// Layer-wise relevance propagation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lrp {
    /// How operators share relevance.
    pub rules: Rules,
}

impl Attribution for Lrp {
    fn relevances(
        &self,
        program: &mut Graph,
        seed: &RelevanceSeed,
        targets: &[ValueId],
    ) -> Result<Vec<ValueId>, ProgramError> {
        seed.check(program, targets)?;
        let graph = program.clone();
        let unknown = self.rules.unknown_places(&graph);
        if !unknown.is_empty() {
            return Err(ProgramError::NoSuchNode(unknown));
        }
        let nonnegative = nonnegative(&graph);
        let carriers = Carriers::new(&graph);
        let first = first_layers(&graph);
        let consumers = graph.consumers();
        let seeds = [(seed.logits, seed.relevance)];
        let found = backward(&graph, program, &seeds, targets, |g, step| {
            let node = step.node;
            let position = graph.value(node.output).producer.unwrap_or_default();
            let (rule, named) = self.rules.of(&graph, node, first[position]);
            let choice = Choice {
                rule,
                named,
                bias: self.rules.bias,
                added: match self.rules.bias {
                    Bias::Absorb => added_bias(&graph, &consumers, node),
                    Bias::Ignore => None,
                },
                nonnegative: node.inputs.iter().map(|v| nonnegative[v.index()]).collect(),
                carriers: carriers.of(position).to_vec(),
            };
            op::relevance(g, step, &choice)
        });
        let found = found.map_err(ProgramError::NotExplained)?;
        targets
            .iter()
            .zip(found)
            .map(|(&target, relevance)| relevance.map_or_else(|| zeros(program, target), Ok))
            .collect()
    }
}

/// The constant that is added to a node's result, and to nothing else: a bias in its own node.
fn added_bias(graph: &Graph, consumers: &[Vec<usize>], node: &Node) -> Option<ValueId> {
    let [next] = consumers[node.output.index()][..] else {
        return None;
    };
    let next = &graph.nodes()[next];
    let other = next.inputs.iter().find(|&&v| v != node.output)?;
    // Not a constant that the result is spread over.
    let is_bias = matches!(next.op, Op::Binary(Binary::Add))
        && graph.constant(*other).is_some()
        && graph.shape(next.output) == graph.shape(node.output);
    is_bias.then_some(*other)
}

/// The gradient of the logit, times the value it is taken at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GradientTimesInput;

impl Attribution for GradientTimesInput {
    fn relevances(
        &self,
        program: &mut Graph,
        seed: &RelevanceSeed,
        targets: &[ValueId],
    ) -> Result<Vec<ValueId>, ProgramError> {
        times_input(program, seed, targets, op::adjoint)
    }
}

/// AttnLRP in the form of a gradient: relevance is a value times a gradient in whose way back
/// non-linear functions count as factors, deviations of normalisations as constants, and products
/// of two activations pass half to each (Achtibat et al., *AttnLRP: Attention-Aware Layer-Wise
/// Relevance Propagation for Transformers*, ICML 2024).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttnLrp;

impl Attribution for AttnLrp {
    fn relevances(
        &self,
        program: &mut Graph,
        seed: &RelevanceSeed,
        targets: &[ValueId],
    ) -> Result<Vec<ValueId>, ProgramError> {
        times_input(program, seed, targets, op::attn_lrp::adjoint)
    }
}

/// Relevances as values times what `step` makes, on the way back, of a 1 at the explained logit. A
/// row that was looked up in a table has its relevance at once, and its index gets the sum: that of
/// a token.
fn times_input(
    program: &mut Graph,
    seed: &RelevanceSeed,
    targets: &[ValueId],
    step: fn(&mut Append<'_>, &Step<'_>) -> Result<Shares, OpError>,
) -> Result<Vec<ValueId>, ProgramError> {
    seed.check(program, targets)?;
    let graph = program.clone();
    let seeds = [(seed.logits, seed.one_hot)];
    let found = backward(&graph, program, &seeds, targets, |g, at| {
        if let Op::Gather(gather) = &at.node.op
            && !at.varies(0)
        {
            let relevance = g.mul(at.node.output, at.cotangent)?;
            let at = Step {
                cotangent: relevance,
                ..*at
            };
            return op::structure::lookup_relevance(g, &at, gather);
        }
        match graph.value(at.node.output).ty.dtype {
            DType::I64 => index_relevance(g, at),
            DType::F32 | DType::Bool => step(g, at),
        }
    });
    let found = found.map_err(ProgramError::NotDifferentiated)?;
    targets
        .iter()
        .zip(found)
        .map(|(&target, cotangent)| {
            let Some(cotangent) = cotangent else {
                return zeros(program, target);
            };
            if program.value(target).ty.dtype == DType::I64 {
                return Ok(cotangent);
            }
            let name = program.value(target).name.clone();
            let product = Append::new(program, name.clone()).mul(target, cotangent);
            product.map_err(|source| ProgramError::Op {
                layer: name,
                source,
            })
        })
        .collect()
}

/// What arrived at an index passes on to what the index was made of.
fn index_relevance(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    if let Op::Cast(_) | Op::Unary(_) = step.node.op {
        return op::identity(step);
    }
    if let Op::Binary(_) = step.node.op {
        let varying: Vec<usize> = (0..2).filter(|&i| step.varies(i)).collect();
        return match varying[..] {
            [only] => Ok(vec![(
                only,
                g.unbroadcast(step.cotangent, step.shape(only))?,
            )]),
            _ => Ok(Shares::new()),
        };
    }
    op::adjoint(g, step)
}

/// The relevance of a value that none reaches.
fn zeros(program: &mut Graph, value: ValueId) -> Result<ValueId, ProgramError> {
    let (name, shape) = (
        program.value(value).name.clone(),
        program.shape(value).to_vec(),
    );
    let zeros = Append::new(program, name.clone()).filled(&shape, 0.0);
    zeros.map_err(|source| ProgramError::Op {
        layer: name,
        source,
    })
}
