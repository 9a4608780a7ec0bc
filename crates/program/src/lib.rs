//! What is computed *from* a model, as a graph that contains the model's own.
//!
//! A program is made once and run on every input by an engine that knows nothing of its meaning.
//! The [`trace`] gives the logits, and for every path layer one activation per neuron.
//!
//! ```
//! use npcov_graph::{Classifier, DType, Graph, Op, Tensor, TensorType, op::{Gemm, Unary}};
//! use npcov_program::{LayerOptions, NetworkView, path_layers, trace};
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
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Graphs come from `npcov-graph`; `npcov-engine` runs them; the crate `npcov` brings both
//! together with data.

// Whoever adds an operator is told of every place that has to decide about it.
#![warn(clippy::wildcard_enum_match_arm)]

mod append;
mod attribution;
mod backward;
mod channel;
mod error;
mod explain;
mod flow;
mod gradient;
mod layers;
mod linear;
mod mask;
mod op;
mod program;
mod relevance;
mod rule;
mod sign;
mod trace;
mod two_sided;

pub use attribution::{Attribution, GradientTimesInput, Lrp, RelevanceSeed};
pub use error::ProgramError;
pub use explain::{ExplainOutputs, Target, explain};
pub use gradient::{Loss, Term, gradient};
pub use layers::{LayerOptions, PathLayer, Selector, path_layers};
pub use linear::Linear;
pub use mask::mask;
pub use npcov_tap::{Reduction, Side, Tap};
pub use op::pool::{MaxPlace, PoolAdjoint};
pub use program::{NetworkView, Output, Program};
pub use relevance::LinearRelevance;
pub use rule::{
    AlphaBeta, BatchNorm, Bias, EPSILON, Epsilon, Gamma, Gradient, ParseRuleError, Place, Preset,
    Rule, Rules, Sums, ZBox,
};
pub use trace::trace;
