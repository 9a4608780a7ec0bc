//! The explanation: relevances of path layers, and of the input.

use npcov_graph::op::{ArgMax, Binary, Unary};
use npcov_graph::{DType, Data, Graph, Op, OpError, Tensor, TensorType, ValueId};
use npcov_tap::Tap;

use crate::append::Append;
use crate::attribution::{Attribution, Lrp, RelevanceSeed};
use crate::error::ProgramError;
use crate::flooding::Flooded;
use crate::head::explained_logits;
use crate::layers::PathLayer;
use crate::neurons;
use crate::op::recurrent::constant_states;
use crate::program::{NetworkView, Output, Program, require_values};
use crate::rule::{Bias, Rule, Rules};
use crate::tokens::known_tokens;
use crate::trace::{append_tap, tapped};

/// What is explained: a class, or the direction in which a number deviates.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Target {
    /// The one that is predicted; the first of several with the largest logit.
    #[default]
    Predicted,
    /// The same for all inputs.
    Class(usize),
    /// One for each input of the model: a second input of the program, called `target`.
    Input,
    /// How far an output of numbers is from a reference.
    Deviation(Deviation),
}

/// The output of numbers that is explained, and what it is held against. Only the direction matters to paths: relevance is
/// proportional to what is shared out.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// The output; `None` for the one that deviates most, in units of its scale, the first of several.
    pub output: Option<usize>,
    /// By output: the reference.
    pub reference: Vec<f32>,
    /// By output: its scale, above 0.
    pub scale: Vec<f32>,
    /// Whether what raises the output is explained, wherever it is.
    pub up: bool,
    /// Whether only what lies between the number and its reference is explained: the last hidden layer is flooded up to
    /// the reference.
    pub flooded: bool,
}

impl Deviation {
    /// Deviations below this part of the scale count as none: what raises the output is explained then.
    pub const NONE: f32 = 1e-6;
}

/// What an explanation holds besides the logits and the relevances of the path layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExplainOutputs {
    /// The class that is explained.
    pub target: Target,
    /// Whether the activations of the path layers are given as well.
    pub activations: bool,
    /// Whether the relevance of each input of floats is given as well.
    pub input: bool,
    /// Whether the relevance is given as well that is lost at [`lost_states`], where there are any.
    pub lost: bool,
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
///
/// A network without path layers is an error, unless an input is explained.
pub fn explain(
    view: &NetworkView<'_>,
    attribution: &dyn Attribution,
    options: &ExplainOutputs,
) -> Result<Program, ProgramError> {
    view.check()?;
    let explains = |v: ValueId| {
        view.graph.value(v).ty.dtype == DType::F32 || known_tokens(view.graph, v).is_some()
    };
    let inputs = view.graph.inputs().iter().copied().enumerate();
    let inputs: Vec<(usize, ValueId)> = inputs
        .filter(|&(_, v)| options.input && explains(v))
        .collect();
    if view.layers.is_empty() && inputs.is_empty() {
        return Err(ProgramError::NoLayers);
    }
    let mut program = view.graph.clone();
    let flooded = flooded(&mut program, view, &options.target)?;
    let logits = match &flooded {
        Some(flooded) => flooded.sides,
        None => explained_logits(&mut program, view.classifier)?,
    };
    let seed = seed(&mut program, view, logits, &options.target)?;
    let lost = match options.lost {
        true => constant_states(view.graph),
        false => Vec::new(),
    };
    let stands_for = |value: ValueId| flooded.as_ref().filter(|flooded| flooded.hidden == value);
    let targets = view.layers.iter().map(PathLayer::explained);
    let targets = targets.chain(inputs.iter().map(|&(_, value)| value));
    let targets = targets.chain(lost.iter().map(|&(_, value)| value));
    let values: Vec<ValueId> = targets.collect();
    let targets = values
        .iter()
        .map(|&v| stands_for(v).map_or(v, |flooded| flooded.units));
    let targets: Vec<ValueId> = targets.collect();
    let mut relevances = relevances(attribution, &mut program, &seed, &targets)?;
    for (&value, relevance) in values.iter().zip(&mut relevances) {
        if let Some(flooded) = stands_for(value) {
            let folded = flooded.folded(&mut program, *relevance);
            *relevance = folded.map_err(at_logits)?;
        }
    }

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
    let (of_inputs, of_lost) = relevances[view.layers.len()..].split_at(inputs.len());
    for (&(input, _), &relevance) in inputs.iter().zip(of_inputs) {
        values.push(relevance);
        outputs.push(Output::InputRelevance(input));
    }
    if !lost.is_empty() {
        let sums = sums(&mut program, of_lost, view.batch);
        values.push(sums.map_err(at_logits)?);
        outputs.push(Output::Lost);
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

/// The recurrent layers whose state before the first step is a constant other than zero: relevance that
/// arrives there is nobody's.
pub fn lost_states(graph: &Graph) -> Vec<String> {
    let states = constant_states(graph).into_iter();
    states.map(|(name, _)| name).collect()
}

/// Of each input, the sum of each value.
fn sums(program: &mut Graph, values: &[ValueId], batch: usize) -> Result<ValueId, OpError> {
    let mut g = Append::new(program, "lost");
    let mut sums = Vec::with_capacity(values.len());
    for &value in values {
        let rest = g.shape(value).iter().product::<usize>() / batch.max(1);
        let rows = g.reshape(value, &[batch, rest])?;
        let sum = g.sum(rows, vec![1])?;
        sums.push(g.reshape(sum, &[batch, 1])?);
    }
    match sums[..] {
        [only] => Ok(only),
        _ => g.op(Op::Concat(1), &sums),
    }
}

/// The network with another top, where a number is explained from its reference on.
fn flooded(
    program: &mut Graph,
    view: &NetworkView<'_>,
    target: &Target,
) -> Result<Option<Flooded>, ProgramError> {
    let Target::Deviation(deviation) = target else {
        return Ok(None);
    };
    if !deviation.flooded {
        return Ok(None);
    }
    let together =
        || OpError::unsupported("several numbers together, explained from their references on");
    let outputs = deviation.reference.len();
    let explained = deviation.output.ok_or_else(|| at_logits(together()))?;
    let reference = deviation.reference.get(explained).copied().unwrap_or(0.0);
    let output = view.classifier.logits;
    let flooded = Flooded::new(program, output, (explained, outputs), reference);
    flooded.map(Some).map_err(at_logits)
}

fn at_logits(source: OpError) -> ProgramError {
    ProgramError::Op {
        layer: "logits".to_owned(),
        source,
    }
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
    target: &Target,
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
        &Target::Class(class) if class >= classes => {
            let message = format!("class {class} of {classes}");
            return Err(OpError::invalid(message));
        }
        &Target::Class(class) => (g.filled(&[batch, 1], class as f32)?, floats()),
        Target::Input => {
            let ty = TensorType::new(DType::F32, [batch]);
            let given = g.graph.add_input("target", ty);
            (g.reshape(given, &[batch, 1])?, floats())
        }
        Target::Deviation(_) => return Err(OpError::invalid("a deviation of classes")),
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
    target: &Target,
) -> Result<RelevanceSeed, ProgramError> {
    let classes = program.value(logits).ty.numel() / view.batch.max(1);
    if let &Target::Class(class) = target
        && class >= classes
    {
        return Err(ProgramError::Class { class, classes });
    }
    let make = |program: &mut Graph| {
        if let Target::Deviation(deviation) = target {
            return deviating(program, view, logits, deviation);
        }
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
    make(program).map_err(at_logits)
}

/// The seed of numbers: of each output the directions down and up, and what is shared out is how far it deviates, or 1
/// where it hardly does.
fn deviating(
    program: &mut Graph,
    view: &NetworkView<'_>,
    logits: ValueId,
    deviation: &Deviation,
) -> Result<RelevanceSeed, OpError> {
    let (batch, outputs) = (view.batch, deviation.reference.len());
    let shape = program.shape(logits).to_vec();
    let sides = shape.iter().product::<usize>();
    if deviation.scale.len() != outputs || sides != batch * outputs * 2 {
        return Err(OpError::invalid("references of another number of outputs"));
    }
    let mut g = Append::new(program, "deviation");
    let row = |g: &mut Append<'_>, numbers: Vec<f32>| {
        let tensor = Tensor::new([1, outputs], Data::F32(numbers));
        let tensor = tensor.ok_or_else(|| OpError::invalid("no outputs"))?;
        Ok::<ValueId, OpError>(g.constant(tensor))
    };
    let numbers = g.reshape(view.classifier.logits, &[batch, outputs])?;
    let reference = row(&mut g, deviation.reference.clone())?;
    let distance = g.sub(numbers, reference)?;
    let size = g.unary(Unary::Abs, distance)?;
    let least = deviation.scale.iter().map(|scale| scale * Deviation::NONE);
    let least: Vec<f32> = least.collect();
    let lowest = match deviation.up {
        true => vec![f32::NEG_INFINITY; outputs],
        false => least.iter().map(|x| -x).collect(),
    };
    let (lowest, least) = (row(&mut g, lowest)?, row(&mut g, least)?);
    let is_up = g.binary(Binary::Greater, distance, lowest)?;
    let deviates = g.binary(Binary::Greater, size, least)?;
    let (one, zero) = (g.scalar(1.0), g.scalar(0.0));
    let shared = g.choose(deviates, size, one)?;
    let chosen = match deviation.output {
        Some(output) => {
            let is = (0..outputs).map(|o| if o == output { 1.0 } else { 0.0 });
            row(&mut g, is.collect())?
        }
        None => {
            let scale = row(&mut g, deviation.scale.clone())?;
            let standardised = g.div(size, scale)?;
            let arg = ArgMax {
                axis: 1,
                keep_dims: true,
                select_last: false,
                minimum: false,
            };
            let most = g.op(Op::ArgMax(arg), &[standardised])?;
            let places = Tensor::new([1, outputs], Data::I64((0..outputs as i64).collect()));
            let places = g.constant(places.ok_or_else(|| OpError::invalid("no outputs"))?);
            let is_most = g.binary(Binary::Equal, most, places)?;
            g.choose(is_most, one, zero)?
        }
    };
    let up = g.choose(is_up, one, zero)?;
    let down = g.choose(is_up, zero, one)?;
    let side = |g: &mut Append<'_>, side: ValueId, amount: ValueId| {
        let side = g.mul(side, chosen)?;
        let side = g.mul(side, amount)?;
        g.reshape(side, &[batch, outputs, 1])
    };
    let both = |g: &mut Append<'_>, down: ValueId, up: ValueId| {
        let both = g.op(Op::Concat(2), &[down, up])?;
        g.reshape(both, &shape)
    };
    let (down_one, up_one) = (side(&mut g, down, one)?, side(&mut g, up, one)?);
    let (down_all, up_all) = (side(&mut g, down, shared)?, side(&mut g, up, shared)?);
    Ok(RelevanceSeed {
        logits,
        one_hot: both(&mut g, down_one, up_one)?,
        relevance: both(&mut g, down_all, up_all)?,
    })
}
