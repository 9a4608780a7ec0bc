//! A model that is ready to be asked.

use std::path::Path;

use npcov_engine::{EngineError, Executor};
use npcov_graph::{
    Classifier, Declaration, Dim, Ending, Graph, Model, ShapeDisplay, Specialisation, ValueId,
};
use npcov_program::{
    Attribution, ExplainOptions, LayerOptions, PathLayer, ProgramError, Subject, Tap, explain,
    path_layers, trace,
};

use crate::error::Error;
use crate::tracer::Tracer;

/// What a model's file leaves open.
#[derive(Clone, Debug, Default)]
pub struct NetworkOptions {
    /// Shape of one input, for models with open height and width; with or without the batch axis.
    pub input_shape: Option<Vec<usize>>,
    /// The output that holds the classification; the first one by default.
    pub output: Option<String>,
    /// Which layers are path layers.
    pub layers: LayerOptions,
}

/// A classifier: its graph for one input, its logits and its path layers.
#[derive(Clone, Debug)]
pub struct Network {
    graph: Graph,
    classifier: Classifier,
    layers: Vec<PathLayer>,
    batch: usize,
    declared_batch: Option<usize>,
}

/// How far two ways to run a model may be apart, relative to the largest logit.
const REBATCH_TOLERANCE: f32 = 1e-5;

impl Network {
    /// Reads a model and finds its logits and path layers.
    pub fn open(path: impl AsRef<Path>, options: &NetworkOptions) -> Result<Network, Error> {
        Network::new(Model::read(path)?, options)
    }

    /// Finds the logits and path layers of a model.
    ///
    /// A model whose file fixes a batch size above 1 is used for one input at a time when that
    /// gives the same logits, which is tried out; else it is run at its own batch size.
    pub fn new(model: Model, options: &NetworkOptions) -> Result<Network, Error> {
        let inputs = model.inputs();
        let [input] = &inputs[..] else {
            let names = inputs.iter().map(|i| format!("`{}`", i.name)).collect();
            return Err(Error::SeveralInputs(names));
        };
        let declared_batch = match input.dims.as_deref() {
            Some([Dim::Fixed(n), _, ..]) => Some(*n),
            _ => None,
        };
        let specialised = |rebatch: bool| -> Result<(Graph, Classifier), Error> {
            let batch = if rebatch {
                1
            } else {
                declared_batch.unwrap_or(1)
            };
            let specialisation = Specialisation {
                batch,
                rebatch,
                shapes: shapes(input, options.input_shape.as_deref(), batch)?,
                ..Specialisation::default()
            };
            let graph = model.specialise(&specialisation)?;
            let output = output(&model, &graph, options.output.as_deref())?;
            let classifier = Classifier::find(&graph, output);
            Ok((graph, classifier))
        };
        let own = match declared_batch {
            Some(n) if n > 1 => n,
            _ => 1,
        };
        let single = match own {
            1 => None,
            own => specialised(true).ok().filter(
                |single| matches!(specialised(false), Ok(whole) if agree(&whole, single, own)),
            ),
        };
        let (batch, (graph, classifier)) = match single {
            Some(single) => (1, single),
            None => (own, specialised(false)?),
        };
        let layers = match path_layers(&graph, &classifier, batch, &options.layers) {
            // A linear classifier: it can be asked for logits all the same.
            Err(ProgramError::NoLayers) => Vec::new(),
            layers => layers?,
        };
        Ok(Network {
            graph,
            classifier,
            layers,
            batch,
            declared_batch,
        })
    }

    /// The graph for [`Network::batch`] inputs.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Where the logits are.
    pub fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// The path layers, from input to output; none when the model has no hidden activation
    /// function and no layer was named.
    pub fn layers(&self) -> &[PathLayer] {
        &self.layers
    }

    /// Number of inputs that the graph takes at once: 1, unless the model fixes its batch size in
    /// a way that cannot be undone.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The batch size that the model's file fixes.
    pub fn declared_batch(&self) -> Option<usize> {
        self.declared_batch
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classifier.classes(&self.graph, self.batch)
    }

    /// Number of logits: one for a sigmoid that tells two classes apart.
    pub fn logits(&self) -> usize {
        self.graph.value(self.classifier.logits).ty.numel() / self.batch
    }

    /// Shape of one input, without the batch axis.
    pub fn sample_shape(&self) -> &[usize] {
        let shape = self
            .graph
            .inputs()
            .first()
            .map_or(&[][..], |&i| self.graph.shape(i));
        match shape {
            // A vector without a batch axis is one input.
            [_] | [] => shape,
            [_, rest @ ..] => rest,
        }
    }

    /// The class that logits stand for; the first of several that are largest.
    pub fn predict(&self, logits: &[f32]) -> usize {
        if self.classifier.ending == Ending::Sigmoid {
            return usize::from(logits.first().is_some_and(|&z| z > 0.0));
        }
        let mut best = 0;
        for (class, &z) in logits.iter().enumerate() {
            if z > logits[best] {
                best = class;
            }
        }
        best
    }

    /// What programs are made from.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            graph: &self.graph,
            classifier: &self.classifier,
            layers: &self.layers,
            batch: self.batch,
        }
    }

    /// A program that gives logits, activations and the given taps, ready to run.
    pub fn tracer(&self, taps: &[Tap]) -> Result<Tracer, Error> {
        Tracer::new(trace(&self.subject(), taps)?, self.batch)
    }

    /// A program that gives the logits and nothing else, ready to run.
    pub fn logits_tracer(&self) -> Result<Tracer, Error> {
        let subject = Subject {
            layers: &[],
            ..self.subject()
        };
        Tracer::new(trace(&subject, &[])?, self.batch)
    }

    /// A program that gives logits and relevances, ready to run.
    pub fn explainer(
        &self,
        attribution: &dyn Attribution,
        options: &ExplainOptions,
    ) -> Result<Tracer, Error> {
        let program = explain(&self.subject(), attribution, options)?;
        Tracer::new(program, self.batch)
    }
}

/// The whole shape of the input, when the user gave one.
fn shapes(
    input: &Declaration,
    given: Option<&[usize]>,
    batch: usize,
) -> Result<std::collections::BTreeMap<String, Vec<usize>>, Error> {
    let Some(given) = given else {
        return Ok(Default::default());
    };
    let with_batch = || [&[batch], given].concat();
    let shape = match &input.dims {
        None => with_batch(),
        Some(dims) if dims.len() == given.len() + 1 => with_batch(),
        Some(dims) if dims.len() == given.len() => [&[batch], &given[1..]].concat(),
        Some(_) => {
            return Err(Error::InputShape {
                given: ShapeDisplay(given).to_string(),
                declared: input.shape(),
            });
        }
    };
    Ok([(input.name.clone(), shape)].into())
}

/// The output that is asked for, or the first one.
fn output(model: &Model, graph: &Graph, name: Option<&str>) -> Result<ValueId, Error> {
    let declared = model.outputs();
    let position = match name {
        None => Some(0),
        Some(name) => declared.iter().position(|o| o.name == name),
    };
    position
        .and_then(|p| graph.outputs().get(p).copied())
        .ok_or_else(|| Error::NoSuchOutput {
            name: name.unwrap_or_default().to_owned(),
            outputs: declared.iter().map(|o| format!("`{}`", o.name)).collect(),
        })
}

/// Whether a graph for one input gives the logits that the graph for `n` inputs gives, tried with
/// different inputs in all `n` places.
fn agree(whole: &(Graph, Classifier), single: &(Graph, Classifier), n: usize) -> bool {
    let run = |(graph, classifier): &(Graph, Classifier), rows: usize| {
        let mut program = graph.clone();
        program.set_outputs(vec![classifier.logits]);
        let executor = Executor::new(&program.pruned())?;
        let len = executor.input_lens().sum::<usize>() / rows;
        // A fixed pattern without period in the places that models distinguish.
        let number = |i: usize| ((i * 7919 + i / 97 * 31) % 1009) as f32 / 1009.0 - 0.3;
        let mut logits = Vec::new();
        for start in (0..n).step_by(rows) {
            let input: Vec<f32> = (start * len..(start + rows) * len).map(number).collect();
            let mut output = vec![0.0; executor.output_lens().sum()];
            executor
                .worker()?
                .run(1, &[&input], &mut [output.as_mut_slice()])?;
            logits.extend(output);
        }
        Ok::<_, EngineError>(logits)
    };
    match (run(whole, n), run(single, 1)) {
        (Ok(a), Ok(b)) => {
            let scale = a.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            a.len() == b.len()
                && a.iter()
                    .zip(&b)
                    .all(|(a, b)| (a - b).abs() <= REBATCH_TOLERANCE * scale)
        }
        _ => false,
    }
}
