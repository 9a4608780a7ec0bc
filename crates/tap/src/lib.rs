//! What is looked at inside a network.
//!
//! A criterion *declares* what it needs of a path layer as a [`Tap`]. A program computes it, an engine
//! runs the program, and the criterion is *handed* the numbers: as a [`Column`] of a table that has a
//! row for each input, or, where they are too many to be kept, as [`Shown`] while they are computed.
//! Both sides know these few words and nothing else of each other.
//!
//! ```
//! use npcov_tap::{Column, Reduction, Shown, Side, Tap};
//!
//! let tap = Tap { layer: 2, side: Side::Before, reduction: Reduction::Units };
//! assert_eq!(tap.name(), "before-units");
//!
//! // Two inputs with three numbers each, of which a tap is the last two.
//! let table = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
//! let column = Column { data: &table, stride: 3, start: 1, len: 2 };
//! assert_eq!(column.row(1), [5.0, 6.0]);
//!
//! // Two positions of two inputs, as an engine that computes four inputs at a time has them.
//! let numbers = [1.0, 4.0, 0.0, 0.0, 2.0, 5.0, 0.0, 0.0];
//! let shown = Shown::new(&numbers, 2, 4);
//! assert_eq!(shown.position(1), [2.0, 5.0]);
//! ```
//!
//! `npcov-program` appends taps to graphs, `npcov-engine` shows values, `npcov-criteria` reads both.

use std::ops::Range;

/// Where numbers are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// What goes into the activation function of a path layer.
    Before,
    /// What comes out of it.
    After,
    /// What a convolution or a dense layer gives, whatever follows it. [`Tap::layer`] counts these
    /// layers, from the first to the one that gives the logits.
    Sum,
}

/// What becomes of the elements that belong to one neuron.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reduction {
    /// Their mean.
    Mean,
    /// The largest one.
    Max,
    /// The smallest one.
    Min,
    /// All of them are kept: the layer's elements in the model's order.
    Units,
    /// Of a recurrent layer, 1 for each step that is part of the sequence, and 0 for those beyond its end.
    Valid,
}

/// Numbers that a criterion needs of a path layer for each input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tap {
    /// The layer, as a position among the path layers, or among those of [`Side::Sum`].
    pub layer: usize,
    /// Before or after the activation function, or a weighted sum.
    pub side: Side,
    /// What is kept.
    pub reduction: Reduction,
}

impl Tap {
    /// One activation for each neuron of a layer: the mean of its elements. These are always there.
    pub fn activation(layer: usize) -> Tap {
        Tap {
            layer,
            side: Side::After,
            reduction: Reduction::Mean,
        }
    }

    /// Side and reduction as one word.
    pub fn name(self) -> String {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
            Side::Sum => "sum",
        };
        let reduction = match self.reduction {
            Reduction::Mean => "mean",
            Reduction::Max => "max",
            Reduction::Min => "min",
            Reduction::Units => "units",
            Reduction::Valid => "valid",
        };
        format!("{side}-{reduction}")
    }
}

/// Numbers of a tap: a span of the row that each input has in a larger table.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// The table, row after row.
    pub data: &'a [f32],
    /// Numbers in a row of the table.
    pub stride: usize,
    /// Where the span begins.
    pub start: usize,
    /// Numbers in the span.
    pub len: usize,
}

impl<'a> Column<'a> {
    /// The whole rows of a table.
    pub fn of(data: &'a [f32], len: usize) -> Column<'a> {
        Column {
            data,
            stride: len,
            start: 0,
            len,
        }
    }

    /// The numbers of an input.
    pub fn row(&self, input: usize) -> &'a [f32] {
        let start = input * self.stride + self.start;
        &self.data[start..start + self.len]
    }

    /// Those of some inputs.
    pub fn slice(&self, inputs: &Range<usize>) -> Column<'a> {
        Column {
            data: &self.data[inputs.start * self.stride..inputs.end * self.stride],
            ..*self
        }
    }
}

/// Numbers of a tap while they are computed, as they lie in an engine's memory: for each position of
/// a row, those of all inputs beside each other.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    numbers: &'a [f32],
    inputs: usize,
    stride: usize,
}

impl<'a> Shown<'a> {
    /// Of so many inputs, which have the first of `stride` places at each position. What is in the
    /// other places does not count, nor do numbers behind the last whole position.
    pub fn new(numbers: &'a [f32], inputs: usize, stride: usize) -> Shown<'a> {
        Shown {
            numbers,
            inputs: inputs.min(stride),
            stride: stride.max(1),
        }
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Places at each position.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Number of positions.
    pub fn len(&self) -> usize {
        self.numbers.len() / self.stride
    }

    /// Whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All places of all positions, one position after the other; those behind the last input hold
    /// anything.
    pub fn places(&self) -> &'a [f32] {
        &self.numbers[..self.len() * self.stride]
    }

    /// The numbers that all inputs have at a position.
    pub fn position(&self, position: usize) -> &'a [f32] {
        &self.numbers[position * self.stride..][..self.inputs]
    }
}
