//! Sequences of tensors. What is in them is known when a model is read, so they are lists of values and no part of a
//! graph; a value without elements stands for each, and goes where values go: through loops, branches and functions.

use super::Importer;
use crate::builder::{NodeContext, axis};
use crate::error::OpError;
use crate::graph::ValueId;
use crate::op::Op;
use crate::tensor::{Data, Tensor};

/// The most tensors of all sequences together. Each insertion makes a sequence of its own.
const MOST_ELEMENTS: usize = 1 << 22;

/// Whether an operator makes sequences or reads them.
pub(super) fn is_of_sequences(op_type: &str) -> bool {
    matches!(
        op_type,
        "SequenceEmpty"
            | "SequenceConstruct"
            | "SequenceInsert"
            | "SequenceErase"
            | "SequenceAt"
            | "SequenceLength"
            | "ConcatFromSequence"
    )
}

impl Importer<'_> {
    /// Imports such an operator.
    pub(super) fn sequence(&mut self, context: &NodeContext<'_>) -> Result<Vec<ValueId>, OpError> {
        let attributes = &context.attributes;
        let made = match context.op_type {
            "SequenceEmpty" => {
                attributes.int("dtype", 1)?;
                Vec::new()
            }
            "SequenceConstruct" => context.variadic()?,
            "SequenceInsert" => {
                let mut list = self.elements(context.input(0)?)?;
                let at = match context.optional(2) {
                    Some(at) => self.place(at, list.len(), list.len())?,
                    None => list.len(),
                };
                list.insert(at, context.input(1)?);
                list
            }
            "SequenceErase" => {
                let mut list = self.elements(context.input(0)?)?;
                let last = list.len().checked_sub(1).ok_or_else(empty)?;
                let at = match context.optional(1) {
                    Some(at) => self.place(at, list.len(), last)?,
                    None => last,
                };
                list.remove(at);
                list
            }
            "SequenceAt" => {
                let list = self.elements(context.input(0)?)?;
                let last = list.len().checked_sub(1).ok_or_else(empty)?;
                return Ok(vec![list[self.place(context.input(1)?, list.len(), last)?]]);
            }
            "SequenceLength" => {
                let length = self.elements(context.input(0)?)?.len();
                let length = Tensor::new([], Data::I64(vec![length as i64]));
                let length = length.ok_or_else(|| OpError::invalid("no length"))?;
                return Ok(vec![self.graph.add_made("length", length)]);
            }
            _ => {
                let list = self.elements(context.input(0)?)?;
                let appears = attributes.int("new_axis", 0)? != 0;
                let along = attributes.int("axis", 0)?;
                return Ok(vec![self.joined(&list, along, appears)?]);
            }
        };
        let room = self.sequences.values().map(Vec::len).sum::<usize>() + made.len();
        if room > MOST_ELEMENTS {
            return Err(OpError::unsupported("sequences of too many tensors"));
        }
        let stand_in = Tensor::new([0], Data::F32(Vec::new())).ok_or_else(empty)?;
        let stand_in = self.graph.add_made("sequence", stand_in);
        self.sequences.insert(stand_in, made);
        Ok(vec![stand_in])
    }

    fn elements(&self, sequence: ValueId) -> Result<Vec<ValueId>, OpError> {
        let list = self.sequences.get(&sequence);
        list.cloned()
            .ok_or_else(|| OpError::invalid("its input is no sequence"))
    }

    /// A position, counted from the end when negative, up to `last`.
    fn place(&self, at: ValueId, length: usize, last: usize) -> Result<usize, OpError> {
        let depends = || OpError::unsupported("the position depends on the model's input");
        let tensor = self.graph.constant(at).ok_or_else(depends)?;
        let number = match tensor.as_i64() {
            Some([number]) => *number,
            _ => return Err(OpError::invalid("the position is no whole number")),
        };
        let number = if number < 0 {
            number.saturating_add(length as i64)
        } else {
            number
        };
        let place = usize::try_from(number).ok().filter(|&place| place <= last);
        place.ok_or_else(|| OpError::invalid(format!("position {number} of {length} tensors")))
    }

    fn joined(&mut self, list: &[ValueId], along: i64, appears: bool) -> Result<ValueId, OpError> {
        if appears {
            return self.stacked(list, along);
        }
        let &first = list.first().ok_or_else(empty)?;
        let position = axis(along, self.graph.shape(first).len())?;
        match list {
            [only] => Ok(*only),
            _ => self
                .builder("ConcatFromSequence")
                .push(Op::Concat(position), list),
        }
    }
}

fn empty() -> OpError {
    OpError::unsupported("a sequence without tensors")
}
