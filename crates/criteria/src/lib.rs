//! Test criteria for neural networks, behind one trait.
//!
//! A [`Criterion`] says what it needs of each input ([`Needs`]), learns from the training data
//! ([`Fit`]), keeps what matters of a suite ([`State`]) and says what that is worth
//! ([`CriterionValue`]). States are made of a few kinds of parts, so that merging, writing and
//! reading them is written once. [`create`] makes a criterion from its name and options;
//! [`CRITERIA`] lists those there are.
//!
//! ```
//! use npcov_criteria::{Batch, Column, LayerShape, NetworkShape, Tap, TrainingTable, create};
//!
//! // One layer of two neurons; training inputs gave them the ranges 0..1 and 0..10.
//! let layer = LayerShape { neurons: 2, units: 2 };
//! let network = NetworkShape { layers: vec![layer], classes: 2, logits: 2, ..NetworkShape::default() };
//! let training = TrainingTable {
//!     predictions: vec![0, 1],
//!     neurons: 2,
//!     activations: vec![0.0, 10.0, 1.0, 0.0],
//!     ..TrainingTable::default()
//! };
//! let mut kmnc = create(&"kmnc:sections=4".parse()?, &network)?;
//! kmnc.restore(kmnc.fit(&training)?)?;
//!
//! let mut state = kmnc.state();
//! let batch = Batch {
//!     predictions: &[0],
//!     logits: Column::of(&[1.0, 0.0], 2),
//!     taps: vec![(Tap::activation(0), Column::of(&[0.3, 20.0], 2))],
//!     observations: &[],
//!     training: None,
//! };
//! kmnc.observe(&batch, &training, &mut state)?;
//! // One of eight sections: the second neuron is beyond its range.
//! assert_eq!(kmnc.values(&state)?[0].amount.value(), 0.125);
//! # Ok::<(), npcov_criteria::CriterionError>(())
//! ```
//!
//! The crate knows neither models nor files: `npcov` runs the network, stores fits with the
//! decision graph and states in files of their own. Paths, decision graphs and what an input
//! exercises of them are `npcov-paths`' business.

mod batch;
mod blackbox;
mod cc;
mod contested;
mod criterion;
mod dct;
mod deepstellar;
mod error;
pub mod exact;
mod fit;
mod idc;
mod kmnc;
mod line;
mod nbc;
mod nc;
mod needs;
mod nlc;
mod npc;
mod per_input;
mod ranges;
mod rectified;
mod registry;
mod set;
mod shape;
mod spec;
mod state;
mod surprise;
mod topk;
mod training;
mod training_coverage;

pub use batch::Batch;
pub use contested::{Contested, ContestedInput};
pub use criterion::{
    Amount, Criterion, CriterionValue, LayerValues, Slot, SlotPlace, SlotsByInput, Warning,
    Watching,
};
pub use error::{CriterionError, NamedCriterionError};
pub use fit::{Array, Fit, FitNumbers};
pub use needs::Needs;
pub use npcov_tap::{Column, Reduction, Shown, Side, Tap};
pub use per_input::PerInput;
pub use registry::{
    CRITERIA, Entry, Meaning, Unit, create, default_criteria, find, is_of_similarity,
    judging_criterion, names,
};
pub use set::{CriterionSet, InputNumbers, Member, WatchingSet};
pub use shape::{GraphShape, LayerShape, NetworkShape};
pub use spec::Spec;
pub use state::{
    BitSet, FixedPart, Handle, InputRun, Kept, KeptPart, ListsPart, Patterns, PatternsPart,
    ScoresPart, SetPart, State, StatePart, SumsPart,
};
pub use training::{Compute, Training, TrainingError, TrainingTable, kept_blocks};
pub use training_coverage::{TrainingCounts, TrainingCoverage};
