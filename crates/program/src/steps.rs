//! Recurrent layers as path layers: which of their steps are looked at, and how.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use npcov_graph::op::{Recurrence, Reduce, ReduceKind};
use npcov_graph::{Graph, Node, Op, OpError, ValueId};

use crate::append::Append;
use crate::layers::PathLayer;
use crate::neurons::{Elements, spread};
use crate::op::recurrent::part;

/// Some steps of a recurrent layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// All states of all steps, `[n, steps, states, hidden]`: what is explained.
    pub states: ValueId,
    /// Which steps are part of the sequence, `[n, steps, 1]`; all where nothing says so.
    pub valid: Option<ValueId>,
    /// The steps that are looked at.
    pub looked_at: Range<usize>,
    /// All that there are.
    pub all: usize,
}

/// What the neurons of a recurrent layer are. Each direction is a layer of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecurrentView {
    /// Hidden units: their relevance is added up over all steps.
    #[default]
    Sum,
    /// Hidden units of each step: a path layer for each.
    Steps,
    /// As [`RecurrentView::Sum`] for each of so many parts of the sequence.
    Segments(usize),
    /// Hidden units after the last step.
    Last,
}

/// Why a text says nothing of recurrent layers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of `sum`, `steps`, `segments:N` (N above 0) and `last`")]
pub struct ParseViewError(String);

impl FromStr for RecurrentView {
    type Err = ParseViewError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseViewError(text.to_owned());
        match text {
            "sum" => Ok(RecurrentView::Sum),
            "steps" => Ok(RecurrentView::Steps),
            "last" => Ok(RecurrentView::Last),
            _ => {
                let count = text.strip_prefix("segments:").and_then(|n| n.parse().ok());
                let count = count.filter(|&n: &usize| n > 0);
                count.map(RecurrentView::Segments).ok_or_else(wrong)
            }
        }
    }
}

impl fmt::Display for RecurrentView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecurrentView::Sum => f.write_str("sum"),
            RecurrentView::Steps => f.write_str("steps"),
            RecurrentView::Segments(count) => write!(f, "segments:{count}"),
            RecurrentView::Last => f.write_str("last"),
        }
    }
}

impl RecurrentView {
    /// The path layers of a node, given as the one that it would be: the same, unless it is a
    /// recurrent one.
    pub(crate) fn layers(self, graph: &Graph, node: &Node, layer: PathLayer) -> Vec<PathLayer> {
        let states = node.inputs.first().copied();
        let behind = states.and_then(|states| Recurrence::behind(graph, states));
        let (Some(states), Some((op, producer))) = (states, behind) else {
            return vec![layer];
        };
        let shape = graph.shape(states);
        let (n, all, hidden) = (shape[0], shape[1], shape[3]);
        let valid = op.arguments(&producer.inputs).ok().and_then(|a| a.valid);
        let of_steps = |looked_at: Range<usize>, name: String| {
            let units = layer.channel_axis.is_none();
            let elements = n.max(1) * looked_at.len() * hidden;
            PathLayer {
                name,
                // There is no single value in front of a unit's output.
                before: layer.value,
                neurons: match units {
                    true => layer.neurons * elements / (n.max(1) * all * hidden).max(1),
                    false => hidden,
                },
                // What passes through several steps is counted at each.
                cut: layer.cut && all == 1,
                steps: Some(Steps {
                    states,
                    valid,
                    looked_at,
                    all,
                }),
                // Steps have a say of their own in which of them count.
                elements: Elements::default(),
                ..layer.clone()
            }
        };
        let name = |looked_at: &Range<usize>| match looked_at.len() {
            1 => format!("{}@{}", layer.name, looked_at.start),
            _ => format!("{}@{}-{}", layer.name, looked_at.start, looked_at.end - 1),
        };
        let several = |count: usize| {
            let count = count.clamp(1, all);
            let segment = |i| i * all / count..(i + 1) * all / count;
            (0..count)
                .map(|i| of_steps(segment(i), name(&segment(i))))
                .collect()
        };
        match self {
            RecurrentView::Sum => vec![of_steps(0..all, layer.name.clone())],
            RecurrentView::Steps => several(all),
            RecurrentView::Segments(count) => several(count),
            RecurrentView::Last => {
                let last = if op.reverse { 0 } else { all - 1 };
                vec![of_steps(last..last + 1, layer.name.clone())]
            }
        }
    }
}

impl PathLayer {
    /// The steps that are looked at, of `[n, steps, ...]`; the value itself for other layers.
    pub(crate) fn of_steps(&self, program: &mut Graph, value: ValueId) -> Result<ValueId, OpError> {
        let Some(steps) = &self.steps else {
            return Ok(value);
        };
        let mut g = Append::new(program, self.name.clone());
        part(
            &mut g,
            value,
            1,
            steps.looked_at.start,
            steps.looked_at.len(),
        )
    }

    /// The relevance of the elements of [`PathLayer::value`] that are looked at, from that of
    /// [`PathLayer::explained`]: of recurrent units, that of all their states in valid steps.
    pub(crate) fn of_neurons(
        &self,
        program: &mut Graph,
        relevance: ValueId,
    ) -> Result<ValueId, OpError> {
        let Some(steps) = &self.steps else {
            return Ok(relevance);
        };
        let mut g = Append::new(program, self.name.clone());
        let &[n, all, _, hidden] = g.shape(relevance).as_slice() else {
            return Err(OpError::invalid("states have four axes"));
        };
        let sum = g.sum(relevance, vec![2])?;
        let mut sum = g.reshape(sum, &[n, all, hidden])?;
        if let Some(valid) = steps.valid {
            sum = g.mul(sum, valid)?;
        }
        self.of_steps(program, sum)
    }

    /// Which of the steps that are looked at are part of the sequence, `[n, steps, 1]`.
    pub(crate) fn valid_steps(
        &self,
        program: &mut Graph,
        value: ValueId,
    ) -> Result<ValueId, OpError> {
        let valid = self.steps.as_ref().and_then(|steps| steps.valid);
        if let Some(valid) = valid {
            return self.of_steps(program, valid);
        }
        let mut g = Append::new(program, self.name.clone());
        let shape = g.shape(value);
        let (n, steps) = (
            shape.first().map_or(1, |&n| n),
            shape.get(1).map_or(1, |&s| s),
        );
        g.filled(&[n, steps, 1], 1.0)
    }

    /// The mean of steps that are looked at, where sequences are of different lengths; else `None`.
    pub(crate) fn mean_of_valid(
        &self,
        program: &mut Graph,
        value: ValueId,
        batch: usize,
    ) -> Result<Option<ValueId>, OpError> {
        let valid = self.steps.as_ref().and_then(|steps| steps.valid);
        let axes = spread(program.shape(value), self.channel_axis, batch);
        let Some(valid) = valid.filter(|_| !axes.is_empty()) else {
            return Ok(None);
        };
        let valid = self.of_steps(program, valid)?;
        let mut g = Append::new(program, self.name.clone());
        let numbers = g.mul(value, valid)?;
        let sum = |g: &mut Append<'_>, x| {
            let kind = ReduceKind::Sum;
            let (axes, keep_dims) = (axes.clone(), false);
            g.op(
                Op::Reduce(Reduce {
                    kind,
                    axes,
                    keep_dims,
                }),
                &[x],
            )
        };
        let total = sum(&mut g, numbers)?;
        let count = sum(&mut g, valid)?;
        // No valid step: zero over one.
        let one = g.scalar(1.0);
        let count = g.binary(npcov_graph::op::Binary::Max, count, one)?;
        g.div(total, count).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_read_and_written() {
        for text in ["sum", "steps", "segments:4", "last"] {
            let view: RecurrentView = text.parse().unwrap();
            assert_eq!(view.to_string(), text);
        }
        for text in ["", "all", "segments", "segments:0", "segments:x"] {
            assert!(text.parse::<RecurrentView>().is_err(), "{text}");
        }
    }
}
