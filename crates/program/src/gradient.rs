//! The gradient of a loss with respect to the model's input.

use npcov_graph::op::{Binary, Reduce, ReduceKind, Unary};
use npcov_graph::{DType, Data, Ending, Graph, Op, OpError, Tensor, TensorType, ValueId};

use crate::append::Append;
use crate::backward::backward;
use crate::error::ProgramError;
use crate::layers::PathLayer;
use crate::op;
use crate::program::{NetworkView, Output, Program};

/// Added to each part of a distribution, so that all have a logarithm.
const SMALLEST_PART: f32 = 1e-20;

/// What is differentiated: for each input, the sum of some terms with their weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// Each term and the number that it is multiplied by.
    pub terms: Vec<(f32, Term)>,
    /// The input that it is differentiated by, by its position among the model's.
    pub input: usize,
}

impl From<Term> for Loss {
    fn from(term: Term) -> Loss {
        Loss {
            terms: vec![(1.0, term)],
            input: 0,
        }
    }
}

/// A part of a [`Loss`]: a number for each input.
///
/// `z` are the logits and `y` is the label. A model that ends in the sigmoid of a single logit `z`
/// has the logits `-z/2` and `z/2`, whose softmax is that sigmoid. Where the smallest score is chosen, logits are the
/// scores' negatives. A model of numbers has for each of them the logits `-y` and `y`: a label says where an input is to
/// be led away from, below (0) or above (1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// `-ln softmax(z)_y`.
    CrossEntropy,
    /// How far the best other class is above the label's: `max_{j != y} z_j - z_y`, positive when
    /// the input is misclassified.
    Margin,
    /// How unevenly a path layer is active: `KL(U || Q)`, the divergence of the distribution of
    /// its activations from the uniform one. `Q` is the positive part of each element over the
    /// sum of all, plus 1e-20; a layer without any activity has 1e-20 everywhere.
    Divergence {
        /// Position among the path layers.
        layer: usize,
    },
    /// The sum of a path layer's activations.
    Activation {
        /// Position among the path layers.
        layer: usize,
    },
    /// The sum of a path layer's activations, each multiplied by a weight. The weights are an input
    /// of the program, `weight.0` for path layer 0, with a number for each element of the layer.
    /// What depends on the activations of several inputs at once is differentiated with it: the
    /// weights are the derivatives with respect to the activations.
    Weighted {
        /// Position among the path layers.
        layer: usize,
    },
    /// `c max(k - m, 0)`, `m` being the [margin](Term::Margin): what Carlini and Wagner minimise to
    /// have an input misclassified by `k`. Both numbers are inputs of the program, `hinge.scale` for
    /// `c` and `hinge.confidence` for `k`, a number for each input of the model.
    Hinge,
}

/// A program that gives the logits, the loss of each input, and its gradient with respect to the
/// input.
///
/// After the model's own input it takes another, `label`: for each input of the model the number
/// of a class, as a floating-point number. Without such a class the terms that look for it mean
/// nothing. Then come the inputs of terms that have some, in the order of the terms.
///
/// Where several inputs are computed at once, those of a model that keeps them apart have gradients
/// of their own.
///
/// ```
/// use npcov_engine::{Engine, native::Native};
/// use npcov_graph::{Classifier, DType, Graph, Op, Tensor, TensorType, op::Gemm};
/// use npcov_program::{Loss, NetworkView, Term, gradient};
///
/// let mut graph = Graph::new();
/// let gemm = Op::Gemm(Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false });
/// let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
/// let w = Tensor::vector(vec![1.0, 2.0, 0.5, -1.0]).reshaped([2, 2]).unwrap();
/// let w = graph.add_constant("w", w);
/// let y = graph.push("fc", gemm, &[x, w])?;
/// graph.set_outputs(vec![y]);
/// let classifier = Classifier::find(&graph, y);
/// let view = NetworkView { graph: &graph, classifier: &classifier, layers: &[], batch: 1 };
///
/// let program = gradient(&view, &Loss::from(Term::Margin))?;
/// assert_eq!(program.output_names(), ["logits", "loss", "gradient.input"]);
/// let outputs = Native::default().run_once(&program.graph, 1, &[&[1.0, 1.0], &[0.0]])?;
/// assert_eq!(outputs, [vec![1.5, 1.0], vec![-0.5], vec![1.0, -1.5]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn gradient(view: &NetworkView<'_>, loss: &Loss) -> Result<Program, ProgramError> {
    let at = |layer: &str| {
        let layer = layer.to_owned();
        |source| ProgramError::Op { layer, source }
    };
    view.check()?;
    let mut program = view.graph.clone();
    let input = view.graph.inputs().get(loss.input).copied();
    let input = input
        .ok_or_else(|| OpError::invalid("a model without an input"))
        .map_err(at("input"))?;
    let batch = view.batch;
    let label = program.add_input("label", TensorType::new(DType::F32, [batch]));
    let scores = Scores::new(&mut program, view, label).map_err(at("logits"))?;
    let mut total = None;
    for &(weight, term) in &loss.terms {
        let value = match term {
            Term::CrossEntropy => scores.cross_entropy(&mut program).map_err(at("logits"))?,
            Term::Margin => scores.margin(&mut program).map_err(at("logits"))?,
            Term::Divergence { layer } => {
                let layer = path_layer(view, layer)?;
                divergence(&mut program, layer, batch).map_err(at(&layer.name))?
            }
            Term::Activation { layer } => {
                let layer = path_layer(view, layer)?;
                activation(&mut program, layer, batch).map_err(at(&layer.name))?
            }
            Term::Weighted { layer: position } => {
                let layer = path_layer(view, position)?;
                weighted(&mut program, layer, position, batch).map_err(at(&layer.name))?
            }
            Term::Hinge => scores.hinge(&mut program).map_err(at("logits"))?,
        };
        let mut g = Append::new(&mut program, "loss");
        let sum = g.times(value, weight).and_then(|value| match total {
            Some(total) => g.add(total, value),
            None => Ok(value),
        });
        total = Some(sum.map_err(at("loss"))?);
    }
    let mut g = Append::new(&mut program, "loss");
    let ones = g.filled(&[batch], 1.0).map_err(at("loss"))?;
    let total = match total {
        Some(total) => total,
        None => g.filled(&[batch], 0.0).map_err(at("loss"))?,
    };
    let graph = program.clone();
    let found = backward(
        &graph,
        &mut program,
        &[(total, ones)],
        &[input],
        op::adjoint,
    );
    let found = found.map_err(ProgramError::NotDifferentiated)?;
    let gradient = match found.first().copied().flatten() {
        Some(gradient) => gradient,
        None => {
            let shape = program.shape(input).to_vec();
            let zeros = Append::new(&mut program, "gradient").filled(&shape, 0.0);
            zeros.map_err(at("input"))?
        }
    };
    program.set_outputs(vec![view.classifier.logits, total, gradient]);
    Ok(Program {
        graph: program.pruned(),
        outputs: vec![Output::Logits, Output::Loss, Output::InputGradient],
    })
}

fn path_layer<'a>(view: &NetworkView<'a>, layer: usize) -> Result<&'a PathLayer, ProgramError> {
    let layers = view.layers.len();
    let missing = ProgramError::LossLayer { layer, layers };
    view.layers.get(layer).ok_or(missing)
}

/// The logits as rows, and which of them is the label's.
struct Scores {
    rows: ValueId,
    is_label: ValueId,
    batch: usize,
}

impl Scores {
    fn new(program: &mut Graph, view: &NetworkView<'_>, label: ValueId) -> Result<Scores, OpError> {
        let (batch, classifier) = (view.batch, view.classifier);
        let logits = program.value(classifier.logits).ty.numel() / batch.max(1);
        let mut g = Append::new(program, "logits");
        let mut rows = g.reshape(classifier.logits, &[batch, logits])?;
        match classifier.ending {
            Ending::Logits | Ending::Softmax | Ending::LogSoftmax => {}
            Ending::Sigmoid => {
                let half = g.times(rows, 0.5)?;
                let other = g.unary(Unary::Neg, half)?;
                rows = g.op(Op::Concat(1), &[other, half])?;
            }
            Ending::Smallest => rows = g.unary(Unary::Neg, rows)?,
            Ending::Numbers => {
                let other = g.unary(Unary::Neg, rows)?;
                let other = g.reshape(other, &[batch, logits, 1])?;
                let own = g.reshape(rows, &[batch, logits, 1])?;
                let sides = g.op(Op::Concat(2), &[other, own])?;
                rows = g.reshape(sides, &[batch, 2 * logits])?;
            }
        }
        let classes = g.shape(rows)[1];
        let numbers = Data::F32((0..classes).map(|c| c as f32).collect());
        let numbers = Tensor::new([1, classes], numbers)
            .ok_or_else(|| OpError::invalid("a model without classes"))?;
        let numbers = g.constant(numbers);
        let label = g.reshape(label, &[batch, 1])?;
        let is_label = g.binary(Binary::Equal, label, numbers)?;
        Ok(Scores {
            rows,
            is_label,
            batch,
        })
    }

    /// The logits of the other classes combined into one, less the label's.
    fn others(&self, g: &mut Append<'_>, kind: ReduceKind) -> Result<ValueId, OpError> {
        let lowest = g.scalar(f32::NEG_INFINITY);
        let others = g.choose(self.is_label, lowest, self.rows)?;
        let combined = Reduce {
            kind,
            axes: vec![1],
            keep_dims: false,
        };
        let combined = g.op(Op::Reduce(combined), &[others])?;
        let own = g.keep(self.is_label, self.rows)?;
        let own = g.sum(own, vec![1])?;
        let own = g.reshape(own, &[self.batch])?;
        g.sub(combined, own)
    }

    /// `-ln softmax(z)_y = ln(1 + e^m)`, `m` being the logarithm of what the others sum up to, less
    /// `z_y`. Its slope is the probability of the others, and has all its digits also where the
    /// model is sure of the label: as one minus the label's probability it would lose them.
    fn cross_entropy(&self, program: &mut Graph) -> Result<ValueId, OpError> {
        let mut g = Append::new(program, "cross entropy");
        let m = self.others(&mut g, ReduceKind::LogSumExp)?;
        g.unary(Unary::Softplus, m)
    }

    fn margin(&self, program: &mut Graph) -> Result<ValueId, OpError> {
        let mut g = Append::new(program, "margin");
        self.others(&mut g, ReduceKind::Max)
    }

    fn hinge(&self, program: &mut Graph) -> Result<ValueId, OpError> {
        let numbers = || TensorType::new(DType::F32, [self.batch]);
        let scale = program.add_input("hinge.scale", numbers());
        let confidence = program.add_input("hinge.confidence", numbers());
        let margin = self.margin(program)?;
        let mut g = Append::new(program, "hinge");
        let missing = g.sub(confidence, margin)?;
        let missing = g.positive(missing)?;
        g.mul(scale, missing)
    }
}

/// The elements of a layer, a row for each input.
fn rows(g: &mut Append<'_>, layer: &PathLayer, batch: usize) -> Result<ValueId, OpError> {
    let value = layer.of_steps(g.graph, layer.value)?;
    let elements = g.graph.value(value).ty.numel() / batch.max(1);
    g.reshape(value, &[batch, elements])
}

fn divergence(program: &mut Graph, layer: &PathLayer, batch: usize) -> Result<ValueId, OpError> {
    let mut g = Append::new(program, format!("divergence of {}", layer.name));
    let a = rows(&mut g, layer, batch)?;
    let a = g.positive(a)?;
    let sum = g.sum(a, vec![1])?;
    let is_active = g.is_positive(sum)?;
    let one = g.scalar(1.0);
    let sum = g.choose(is_active, sum, one)?;
    let q = g.div(a, sum)?;
    let q = g.plus(q, SMALLEST_PART)?;
    let log = g.unary(Unary::Log, q)?;
    // u sum(ln u - ln q) = ln u - mean(ln q), u being one over their number.
    let mean = Reduce {
        kind: ReduceKind::Mean,
        axes: vec![1],
        keep_dims: false,
    };
    let mean = g.op(Op::Reduce(mean), &[log])?;
    let elements = g.shape(a)[1].max(1) as f32;
    let uniform = g.scalar(-elements.ln());
    g.sub(uniform, mean)
}

fn activation(program: &mut Graph, layer: &PathLayer, batch: usize) -> Result<ValueId, OpError> {
    let mut g = Append::new(program, format!("activation of {}", layer.name));
    let a = rows(&mut g, layer, batch)?;
    let sum = g.sum(a, vec![1])?;
    g.reshape(sum, &[batch])
}

fn weighted(
    program: &mut Graph,
    layer: &PathLayer,
    position: usize,
    batch: usize,
) -> Result<ValueId, OpError> {
    let mut g = Append::new(program, format!("weighted {}", layer.name));
    let a = rows(&mut g, layer, batch)?;
    let shape = g.shape(a);
    let weights = TensorType::new(DType::F32, shape);
    let weights = g.graph.add_input(format!("weight.{position}"), weights);
    let products = g.mul(weights, a)?;
    let sum = g.sum(products, vec![1])?;
    g.reshape(sum, &[batch])
}
