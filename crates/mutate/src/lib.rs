//! Models with something wrong in them, and which of them a suite tells from the model.
//!
//! A *mutant* is the model with a small change that nobody asked for: weights with noise on them, neurons that are silent,
//! negated or exchanged ([`Operator`]). A test input *kills* class `c` of a mutant when the model classifies it as labelled,
//! as `c`, and the mutant does not. The *mutation score* of a suite is how many classes of how many mutants it kills
//! ([`MutationReport`]). What a suite kills is a [`MutationState`]: a set of classes for each mutant, so that states of
//! several suites merge.
//!
//! Mutants of a trained model behave less like real faults than retrained ones do; the score tells suites apart, and says
//! little by itself.
//!
//! ```
//! use npcov_data::{Loader, Preprocessing, open};
//! use npcov_mutate::{MutationOptions, Mutants};
//! use npcov_run::{ModelOptions, Network, SampleRange};
//!
//! # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
//! # let (model, data) = (format!("{fixtures}/lenet.onnx"), format!("{fixtures}/fashion-1000.npz"));
//! let network = Network::open(model, &ModelOptions::default())?;
//! let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
//! let loader = Loader::new(open(&data)?, network.sample_shape(), &scale)?;
//!
//! let options = MutationOptions { mutants: 2, ratios: vec![0.05], ..MutationOptions::default() };
//! let mutants = Mutants::new(&network, &options)?;
//! let suite = |range| SampleRange { data: &loader, range, threads: 2 };
//! let mut state = mutants.measure(&suite(0..100), &mut ())?;
//! let few = state.report().score;
//! state.merge(&mutants.measure(&suite(100..200), &mut ())?)?;
//! assert_eq!(state, mutants.measure(&suite(0..200), &mut ())?);
//! assert!(state.killed.iter().any(|killed| !killed.classes.is_empty()));
//! # assert!(few.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod draw;
mod error;
mod mutants;
mod operator;
mod options;
mod score;
mod state;

pub use draw::Mutant;
pub use error::MutationError;
pub use mutants::{Among, Mutants};
pub use operator::Operator;
pub use options::MutationOptions;
pub use score::{ClassScore, MutationReport, OperatorScore};
pub use state::{Judged, Killed, MutationPlan, MutationState};
