//! What is computed *from* a model, as a graph that contains the model's own.
//!
//! A program is made once and run on every input by an engine that knows nothing of its meaning. All
//! give the logits, and
//!
//! * [`trace`] what happens in the path layers: one activation per neuron, or what [`Tap`]s ask for;
//! * [`explain`] one relevance per neuron of each path layer, and the input's, by an
//!   [`Attribution`]: [`Lrp`] with [`Rules`], [`AttnLrp`], or [`GradientTimesInput`];
//! * [`gradient`] a [`Loss`] of each input, and its gradient with respect to the input;
//! * [`mask`] nothing else, but with a switch for every neuron;
//! * [`mutant`] nothing else, but of a model that was changed by [`Edit`]s, where [`Sites`] says that it can be.
//!
//! [`path_layers`] finds the layers that all this is about.
//!
//! ```
//! use npcov_graph::{Classifier, DType, Graph, Op, Tensor, TensorType, op::{Gemm, Unary}};
//! use npcov_program::{ExplainOutputs, LayerOptions, Lrp, NetworkView, explain, path_layers, trace};
//!
//! // Two dense layers with a ReLU between them.
//! let mut graph = Graph::new();
//! let gemm = Op::Gemm(Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false });
//! let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
//! let w = Tensor::vector(vec![1.0, -1.0, 2.0, 0.5, 0.5, 0.5]);
//! let w1 = graph.add_constant("w1", w.reshaped([2, 3]).unwrap());
//! let w2 = graph.add_constant("w2", w.reshaped([3, 2]).unwrap());
//! let z = graph.push("fc1", gemm.clone(), &[x, w1])?;
//! let h = graph.push("relu", Op::Unary(Unary::Relu), &[z])?;
//! let y = graph.push("fc2", gemm, &[h, w2])?;
//! graph.set_outputs(vec![y]);
//!
//! let classifier = Classifier::find(&graph, y);
//! let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default())?;
//! assert_eq!((layers[0].name.as_str(), layers[0].neurons), ("relu", 3));
//! let view = NetworkView { graph: &graph, classifier: &classifier, layers: &layers, batch: 1 };
//! let program = trace(&view, &[])?;
//! assert_eq!(program.output_names(), ["logits", "activation.0"]);
//! let program = explain(&view, &Lrp::default(), &ExplainOutputs::default())?;
//! assert_eq!(program.output_names(), ["logits", "relevance.0"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Graphs come from `npcov-graph`, and programs are such graphs; `npcov-engine` runs them, and has
//! kernels for the steps that are composite operators ([`LinearRelevance`], [`MaxPlace`],
//! [`PoolAdjoint`], [`SumRelevance`], [`ThroughTime`]); the crate `npcov` brings both together with data. The words for taps are those of
//! `npcov-tap`, which criteria use as well.

// Whoever adds an operator is told of every place that has to decide about it.
#![warn(clippy::wildcard_enum_match_arm)]

mod append;
mod attention;
mod attribution;
mod backward;
mod channel;
mod error;
mod explain;
mod flooding;
mod flow;
mod gradient;
mod head;
mod layers;
mod linear;
mod mask;
mod mutant;
mod neurons;
mod op;
mod opposite;
mod program;
mod relevance;
mod rule;
mod sign;
mod sites;
mod steps;
mod tokens;
mod trace;

pub use attribution::{AttnLrp, Attribution, GradientTimesInput, Lrp, RelevanceSeed};
pub use error::ProgramError;
pub use explain::{Deviation, ExplainOutputs, Target, explain, lost_states};
pub use gradient::{Loss, Term, gradient};
pub use head::explained_number;
pub use layers::{LayerKind, LayerOptions, PathLayer, Selector, path_layers, weighted_sums};
pub use linear::Linear;
pub use mask::mask;
pub use mutant::{Edit, mutant, mutated_graph};
pub use neurons::Elements;
pub use npcov_tap::{Reduction, Side, Tap};
pub use op::pool::{MaxPlace, PoolAdjoint};
pub use op::recurrent::{RECURRENT_EPSILON, ThroughTime};
pub use op::sum::SumRelevance;
pub use program::{NetworkView, Output, Program};
pub use relevance::LinearRelevance;
pub use rule::{
    AlphaBeta, BatchNorm, Bias, EPSILON, Epsilon, Gamma, Gradient, ParseRuleError, Place, Preset,
    Rule, Rules, Sums, ZBox,
};
pub use sites::{Incoming, Sites};
pub use steps::{ParseViewError, RecurrentView, Steps};
pub use tokens::known_tokens;
pub use trace::trace;
