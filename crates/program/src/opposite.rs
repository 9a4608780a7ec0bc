//! The negative of a value, explained by what speaks for it.
//!
//! What lowers a number is what raises its negative. So the negative is computed anew from where contributions enter:
//! the weights of a layer are negated, or the terms of a sum. A minus sign behind the number itself would not do,
//! because relevance passes through it as it is.

use std::collections::HashMap;

use npcov_graph::op::{Binary, PoolKind, ReduceKind, Unary};
use npcov_graph::{Graph, Node, Op, OpError, Tensor, ValueId};

use crate::append::Append;
use crate::flow::gated_factor;

/// Nodes between a number and the layers that compute it, at most.
const DEEPEST: usize = 64;

/// The negative of a value; `None` where it is no sum, and no layer with weights computes it.
pub(crate) fn opposite(program: &mut Graph, value: ValueId) -> Result<Option<ValueId>, OpError> {
    Opposites {
        program,
        known: HashMap::new(),
    }
    .of(value, 0)
}

struct Opposites<'g> {
    program: &'g mut Graph,
    known: HashMap<ValueId, ValueId>,
}

type Found = Result<Option<ValueId>, OpError>;

impl Opposites<'_> {
    fn of(&mut self, value: ValueId, depth: usize) -> Found {
        if let Some(&known) = self.known.get(&value) {
            return Ok(Some(known));
        }
        let Some(node) = self.program.producer(value).cloned() else {
            return Ok(None);
        };
        if depth == DEEPEST {
            return Ok(None);
        }
        let found = self.computed(&node, depth + 1)?;
        if let Some(found) = found {
            self.known.insert(value, found);
        }
        Ok(found)
    }

    /// The negative of a term of a sum: the sum says whether it speaks for it.
    fn term(&mut self, value: ValueId, depth: usize) -> Result<ValueId, OpError> {
        if let Some(constant) = self.program.constant(value).cloned() {
            return self.negated(&constant);
        }
        match self.of(value, depth)? {
            Some(found) => Ok(found),
            None => self.minus(value),
        }
    }

    fn minus(&mut self, value: ValueId) -> Result<ValueId, OpError> {
        let name = self.program.value(value).name.clone();
        Append::new(self.program, name).unary(Unary::Neg, value)
    }

    fn negated(&mut self, constant: &Tensor) -> Result<ValueId, OpError> {
        let numbers = constant.to_f32().iter().map(|x| -x).collect();
        Append::new(self.program, "negative").made(constant.shape(), numbers)
    }

    /// The same operator on another input in one place.
    fn with(&mut self, node: &Node, place: usize, input: ValueId) -> Result<ValueId, OpError> {
        let mut inputs = node.inputs.clone();
        inputs[place] = input;
        self.again(node, inputs)
    }

    fn again(&mut self, node: &Node, inputs: Vec<ValueId>) -> Result<ValueId, OpError> {
        let name = node.name.clone();
        Append::new(self.program, name).op(node.op.clone(), &inputs)
    }

    /// The operator on the negative of its first input, where it is linear in it and adds nothing up.
    fn moved(&mut self, node: &Node, depth: usize) -> Found {
        match self.of(node.inputs[0], depth)? {
            Some(input) => self.with(node, 0, input).map(Some),
            None => Ok(None),
        }
    }

    /// The operator on negatives of these inputs, which it adds up or puts side by side.
    fn terms(&mut self, node: &Node, places: &[usize], depth: usize) -> Found {
        let mut inputs = node.inputs.clone();
        for &place in places {
            inputs[place] = self.term(inputs[place], depth)?;
        }
        self.again(node, inputs).map(Some)
    }

    fn computed(&mut self, node: &Node, depth: usize) -> Found {
        let is_constant = |program: &Graph, i: usize| program.constant(node.inputs[i]).is_some();
        match &node.op {
            Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul => {
                let weighted = (1..node.inputs.len()).all(|i| is_constant(self.program, i));
                match weighted {
                    true => {
                        let places: Vec<usize> = (1..node.inputs.len()).collect();
                        self.terms(node, &places, depth)
                    }
                    // The sum's terms are products of two activations.
                    false => {
                        let mut places = vec![0];
                        places.extend(2..node.inputs.len());
                        self.terms(node, &places, depth)
                    }
                }
            }
            Op::BatchNormalization(_) => {
                let Some(x) = self.of(node.inputs[0], depth)? else {
                    return Ok(None);
                };
                let mut inputs = node.inputs.clone();
                inputs[0] = x;
                for place in [2, 3] {
                    inputs[place] = self.term(inputs[place], depth)?;
                }
                self.again(node, inputs).map(Some)
            }
            Op::Binary(f) => self.binary(node, *f, depth),
            Op::Reduce(reduce) => match reduce.kind {
                ReduceKind::Sum | ReduceKind::Mean => self.terms(node, &[0], depth),
                ReduceKind::Max
                | ReduceKind::Min
                | ReduceKind::Prod
                | ReduceKind::L1
                | ReduceKind::L2
                | ReduceKind::SumSquare
                | ReduceKind::LogSum
                | ReduceKind::LogSumExp => Ok(None),
            },
            Op::Pool(pool) => match pool.kind {
                PoolKind::Average { .. } => self.terms(node, &[0], depth),
                PoolKind::Max => Ok(None),
            },
            Op::Unary(f) => match f.is_increasing() {
                true => {
                    let Some(x) = self.of(node.inputs[0], depth)? else {
                        return Ok(None);
                    };
                    let x = self.minus(x)?;
                    let y = self.again(node, vec![x])?;
                    self.minus(y).map(Some)
                }
                false => Ok(None),
            },
            Op::Concat(_) => {
                let places: Vec<usize> = (0..node.inputs.len()).collect();
                self.terms(node, &places, depth)
            }
            Op::Cast(_)
            | Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Slice(_)
            | Op::Expand(_)
            | Op::Tile(_)
            | Op::Gather(_) => self.moved(node, depth),
            Op::InstanceNormalization(_)
            | Op::LayerNormalization(_)
            | Op::Lrn(_)
            | Op::Where
            | Op::ArgMax(_)
            | Op::TopK(_)
            | Op::Softmax(_)
            | Op::Pad(_)
            | Op::GatherElements(_)
            | Op::Resize(_)
            | Op::ScatterSum(_)
            | Op::Composite(_) => Ok(None),
        }
    }

    fn binary(&mut self, node: &Node, f: Binary, depth: usize) -> Found {
        let constant = |program: &Graph, i: usize| program.constant(node.inputs[i]).is_some();
        match f {
            Binary::Add | Binary::Sub => self.terms(node, &[0, 1], depth),
            Binary::Mul => {
                let signal = match [0, 1].map(|i| constant(self.program, i)) {
                    [true, _] => 1,
                    [_, true] => 0,
                    [false, false] => gated_factor(self.program, node).unwrap_or(0),
                };
                match self.of(node.inputs[signal], depth)? {
                    Some(x) => self.with(node, signal, x).map(Some),
                    None => Ok(None),
                }
            }
            Binary::Div => self.moved(node, depth),
            Binary::Pow
            | Binary::Min
            | Binary::Max
            | Binary::Mod
            | Binary::Fmod
            | Binary::PRelu
            | Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor => Ok(None),
        }
    }
}
