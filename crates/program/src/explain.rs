//! The explanation: relevances of path layers, and of the input.

use npcov_graph::op::{ArgMax, Binary};
use npcov_graph::{DType, Data, Graph, Op, OpError, Tensor, TensorType, ValueId};
use npcov_tap::Tap;

use crate::append::Append;
use crate::attribution::{Attribution, Lrp, RelevanceSeed};
use crate::error::ProgramError;
use crate::layers::PathLayer;
use crate::neurons;
use crate::program::{NetworkView, Output, Program, require_values};
use crate::rule::{Bias, Rule, Rules};
use crate::trace::{append_tap, tapped};
use crate::two_sided::two_sided;

/// The class that is explained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The one that is predicted; the first of several with the largest logit.
    #[default]
    Predicted,
    /// The same for all inputs.
    Class(usize),
    /// One for each input of the model: a second input of the program, called `target`.
    Input,
}

/// What an explanation holds besides the logits and the relevances of the path layers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainOutputs {
    /// The class that is explained.
    pub target: Target,
    /// Whether the activations of the path layers are given as well.
    pub activations: bool,
    /// Whether the input's relevance is given as well.
    pub input: bool,
    /// What else is given of path layers.
    pub taps: Vec<Tap>,
    /// The path layer whose importance is given as well: its relevance by the z-rule, in which
    /// biases take a share, for the logit as it is.
    pub importance: Option<usize>,
}

/// A program that gives the logits, one relevance per neuron of each path layer, and what else
/// `options` ask for. A channel's relevance is the sum over its elements.
///
/// What is shared out is the logit of the explained class, or 1 when that is not positive: so a
/// positive relevance always supports the class.
pub fn explain(
    view: &NetworkView<'_>,
    attribution: &dyn Attribution,
    options: &ExplainOutputs,
) -> Result<Program, ProgramError> {
    view.check()?;
    let mut program = view.graph.clone();
    let logits = two_sided(&mut program, view.classifier)?;
    let seed = seed(&mut program, view, logits, options.target)?;
    let input = view.graph.inputs().first().copied();
    let mut targets: Vec<ValueId> = view.layers.iter().map(PathLayer::explained).collect();
    targets.extend(input.filter(|_| options.input));
    let relevances = relevances(attribution, &mut program, &seed, &targets)?;

    let mut outputs = vec![Output::Logits];
    let mut values = vec![view.classifier.logits];
    for (i, layer) in view.layers.iter().enumerate() {
        let error = |source| ProgramError::Op {
            layer: layer.name.clone(),
            source,
        };
        if options.activations {
            let tap = Tap::activation(i);
            values.push(tapped(&mut program, layer, tap, view.batch).map_err(error)?);
            outputs.push(Output::Tap(tap));
        }
        let relevance = neurons::relevances(&mut program, layer, relevances[i], view.batch);
        values.push(relevance.map_err(error)?);
        outputs.push(Output::Relevance(i));
    }
    if options.input {
        values.extend(relevances.get(view.layers.len()));
        outputs.push(Output::InputRelevance);
    }
    for &tap in &options.taps {
        if outputs.contains(&Output::Tap(tap)) {
            continue;
        }
        values.push(append_tap(&mut program, view, tap)?);
        outputs.push(Output::Tap(tap));
    }
    if let Some(layer) = options.importance {
        values.push(importance(&mut program, view, &seed, layer)?);
        outputs.push(Output::Importance(layer));
    }
    program.set_outputs(values);
    Ok(Program {
        graph: program.pruned(),
        outputs,
    })
}

/// The relevance of each target, of its shape, as an attribution promises.
fn relevances(
    attribution: &dyn Attribution,
    program: &mut Graph,
    seed: &RelevanceSeed,
    targets: &[ValueId],
) -> Result<Vec<ValueId>, ProgramError> {
    let relevances = attribution.relevances(program, seed, targets)?;
    require_values(program, &relevances)?;
    let fits = |(&target, &relevance): (&ValueId, &ValueId)| {
        program.shape(target) == program.shape(relevance)
    };
    match relevances.len() == targets.len() && targets.iter().zip(&relevances).all(fits) {
        true => Ok(relevances),
        false => Err(ProgramError::Misfit(
            "relevances that are not those of the targets".to_owned(),
        )),
    }
}

/// The relevance of a layer by the z-rule.
fn importance(
    program: &mut Graph,
    view: &NetworkView<'_>,
    seed: &RelevanceSeed,
    layer: usize,
) -> Result<ValueId, ProgramError> {
    let found = view.layers.get(layer).ok_or(ProgramError::Tap {
        layer,
        layers: view.layers.len(),
    })?;
    let error = |source| ProgramError::Op {
        layer: found.name.clone(),
        source,
    };
    let logit = Append::new(program, "importance").mul(seed.one_hot, seed.logits);
    let seed = RelevanceSeed {
        relevance: logit.map_err(error)?,
        ..*seed
    };
    let z_rule = Lrp {
        rules: Rules {
            linear: Rule::epsilon(0.0),
            overrides: Vec::new(),
            bias: Bias::Absorb,
        },
    };
    let relevances = relevances(&z_rule, program, &seed, &[found.explained()])?;
    neurons::relevances(program, found, relevances[0], view.batch).map_err(error)
}

/// The class that is explained, as a row for each input.
pub(crate) fn one_hot(
    program: &mut Graph,
    logits: ValueId,
    batch: usize,
    target: Target,
) -> Result<ValueId, OpError> {
    let shape = program.shape(logits).to_vec();
    let classes = shape.iter().product::<usize>() / batch.max(1);
    let floats = || Data::F32((0..classes).map(|c| c as f32).collect());
    let mut g = Append::new(program, "target");
    let (class, numbers) = match target {
        Target::Predicted => {
            let rows = g.reshape(logits, &[batch, classes])?;
            let arg = ArgMax {
                axis: 1,
                keep_dims: true,
                select_last: false,
                minimum: false,
            };
            let class = g.op(Op::ArgMax(arg), &[rows])?;
            (class, Data::I64((0..classes as i64).collect()))
        }
        Target::Class(class) if class >= classes => {
            let message = format!("class {class} of {classes}");
            return Err(OpError::invalid(message));
        }
        Target::Class(class) => (g.filled(&[batch, 1], class as f32)?, floats()),
        Target::Input => {
            let ty = TensorType::new(DType::F32, [batch]);
            let given = g.graph.add_input("target", ty);
            (g.reshape(given, &[batch, 1])?, floats())
        }
    };
    let numbers = Tensor::new([1, classes], numbers);
    let numbers = g.constant(numbers.ok_or_else(|| OpError::invalid("no classes"))?);
    let is_class = g.binary(Binary::Equal, class, numbers)?;
    let (one, zero) = (g.scalar(1.0), g.scalar(0.0));
    let one_hot = g.choose(is_class, one, zero)?;
    g.reshape(one_hot, &shape)
}

fn seed(
    program: &mut Graph,
    view: &NetworkView<'_>,
    logits: ValueId,
    target: Target,
) -> Result<RelevanceSeed, ProgramError> {
    let classes = program.value(logits).ty.numel() / view.batch.max(1);
    if let Target::Class(class) = target
        && class >= classes
    {
        return Err(ProgramError::Class { class, classes });
    }
    let make = |program: &mut Graph| {
        let one_hot = one_hot(program, logits, view.batch, target)?;
        let mut g = Append::new(program, "seed");
        let one = g.scalar(1.0);
        let is_positive = g.is_positive(logits)?;
        let shared = g.choose(is_positive, logits, one)?;
        let relevance = g.mul(one_hot, shared)?;
        Ok(RelevanceSeed {
            logits,
            one_hot,
            relevance,
        })
    };
    make(program).map_err(|source| ProgramError::Op {
        layer: "logits".to_owned(),
        source,
    })
}
