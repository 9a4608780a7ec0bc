//! A model that is ready to be asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use npcov_engine::native::{Kernels, Native, Options};
use npcov_engine::{Engine, EngineError, zeros};
use npcov_graph::{
    Classifier, Declaration, Dim, Graph, GraphError, OnnxModel, Purpose, ShapeDisplay,
    Specialisation, fold_batch_norm,
};
use npcov_program::{
    Attribution, BatchNorm, ExplainOutputs, LayerOptions, NetworkView, PathLayer, ProgramError,
    Tap, explain, path_layers, trace, weighted_sums,
};

use crate::error::RunError;
use crate::signature::Signature;
use crate::tracer::Tracer;

/// What a model's file leaves open.
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// Shape of one input, for models with open height and width; with or without the batch axis.
    pub input_shape: Option<Vec<usize>>,
    /// The output that holds the classification; the first one of floating-point numbers by
    /// default.
    pub output: Option<String>,
    /// Which layers are path layers.
    pub layers: LayerOptions,
    /// Whether batch normalisation becomes part of the convolution before it. Logits stay the same
    /// up to rounding; relevances do not.
    pub batch_norm: BatchNorm,
    /// Number of inputs that the graph takes at once. By default 1, or what the model fixes in a
    /// way that cannot be undone.
    pub batch: Option<usize>,
    /// How convolutions are computed, where no engine is given.
    pub kernels: Kernels,
}

/// A classifier: its graph for one input, its logits and its path layers.
#[derive(Clone, Debug)]
pub struct Network {
    graph: Graph,
    classifier: Classifier,
    output: String,
    signature: Signature,
    declared_batch: Option<usize>,
    options: ModelOptions,
    files: Vec<PathBuf>,
    digest: [u8; 32],
    engine: Arc<dyn Engine>,
}

/// The largest batch size that a file may fix. All of it is run when the model is opened, to find out whether its inputs
/// can be run one by one.
const LARGEST_BATCH: usize = 1024;

/// How far two ways to run a model may be apart, relative to the largest logit.
const REBATCH_TOLERANCE: f32 = 1e-5;

impl Network {
    /// Reads a model and finds its logits and path layers.
    pub fn open(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Network, RunError> {
        Network::new(OnnxModel::read(path)?, options)
    }

    /// Finds the logits and path layers of a model.
    ///
    /// A model whose file fixes a batch size above 1 is used for one input at a time when that
    /// gives the same logits, which is tried out; else it is run at its own batch size. A batch
    /// size that `options` ask for is tried out in the same way where the file fixes another one.
    pub fn new(model: OnnxModel, options: &ModelOptions) -> Result<Network, RunError> {
        let native = Native::new(Options {
            kernels: options.kernels,
            ..Options::default()
        });
        Network::with_engine(model, options, Arc::new(native))
    }

    /// As [`Network::new`], for an engine that runs all programs of the network.
    pub fn with_engine(
        model: OnnxModel,
        options: &ModelOptions,
        engine: Arc<dyn Engine>,
    ) -> Result<Network, RunError> {
        let digest = model.digest()?;
        let inputs = model.inputs();
        let [input] = &inputs[..] else {
            let names = inputs.iter().map(|i| format!("`{}`", i.name)).collect();
            return Err(RunError::SeveralInputs(names));
        };
        let declared_batch = match input.dims.as_deref() {
            Some([Dim::Fixed(n), _, ..]) => Some(*n),
            _ => None,
        };
        if let Some(batch) = declared_batch
            && batch > LARGEST_BATCH
        {
            return Err(RunError::LargeBatch {
                batch,
                most: LARGEST_BATCH,
            });
        }
        let output = output(&model, options.output.as_deref())?;
        let specialised = |batch: usize| -> Result<(Graph, Classifier), RunError> {
            let specialisation = Specialisation {
                batch,
                rebatch: declared_batch.is_some_and(|declared| declared != batch),
                shapes: shapes(input, options.input_shape.as_deref(), batch)?,
                outputs: vec![output.clone()],
                ..Specialisation::default()
            };
            let mut graph = model.specialise(&specialisation)?;
            if options.batch_norm == BatchNorm::Fold {
                graph = fold_batch_norm(&graph)
                    .map_err(|error| GraphError::Invalid(error.to_string()))?;
            }
            let found = graph.outputs().first().copied();
            let found = found.ok_or_else(|| no_such_output(&model, &output))?;
            let classifier = Classifier::find(&graph, found);
            Ok((graph, classifier))
        };
        // Zero inputs at a time are none that could be run.
        let own = declared_batch.unwrap_or(1).max(1);
        let rebatched = |batch: usize| {
            let found = specialised(batch).ok()?;
            let whole = specialised(own).ok()?;
            agree(&*engine, (&whole, own), (&found, batch)).then_some(found)
        };
        let (batch, (graph, classifier)) = match options.batch {
            Some(0) => {
                return Err(RunError::Parameter {
                    name: "batch size",
                    value: "0".to_owned(),
                    wanted: "1 or more",
                });
            }
            Some(batch) if declared_batch.is_some_and(|declared| declared != batch) => {
                let found = rebatched(batch).ok_or(RunError::Batch { batch, own })?;
                (batch, found)
            }
            Some(batch) => {
                let found = specialised(batch)?;
                // A vector has no batch axis.
                let takes = |&i| found.0.shape(i).first() == Some(&batch);
                if !found.0.inputs().first().is_some_and(takes) {
                    return Err(RunError::Batch { batch, own });
                }
                (batch, found)
            }
            None if own == 1 => (1, specialised(1)?),
            None => match rebatched(1) {
                Some(single) => (1, single),
                None => (own, specialised(own)?),
            },
        };
        if let Some(purpose) = Purpose::of(&graph, &classifier, batch) {
            return Err(RunError::NoClassifier { output, purpose });
        }
        let layers = match path_layers(&graph, &classifier, batch, &options.layers) {
            // A linear classifier: it can be asked for logits all the same.
            Err(ProgramError::NoLayers) => Vec::new(),
            layers => layers?,
        };
        let signature = Signature {
            sample_shape: sample_shape(&graph).to_vec(),
            ending: classifier.ending,
            classes: classifier.classes(&graph, batch),
            logits: graph.value(classifier.logits).ty.numel() / batch,
            layers,
            sums: weighted_sums(&graph, batch),
            batch,
        };
        Ok(Network {
            graph,
            classifier,
            output,
            signature,
            declared_batch,
            options: options.clone(),
            files: model.files()?,
            digest,
            engine,
        })
    }

    /// How it was opened.
    pub fn options(&self) -> &ModelOptions {
        &self.options
    }

    /// The file that it was read from; `None` for a model that was in memory.
    pub fn file(&self) -> Option<&Path> {
        self.files.first().map(PathBuf::as_path)
    }

    /// All files that it was read from: its own, then those of external data.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The SHA-256 digest of the model, external data included.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// How convolutions are computed.
    pub fn kernels(&self) -> Kernels {
        self.options.kernels
    }

    /// What runs its programs.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// The graph for [`Network::batch`] inputs.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Where the logits are.
    pub fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// The name of the output that holds the classification.
    pub fn output(&self) -> &str {
        &self.output
    }

    /// What it takes and gives.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The path layers, as in [`Signature::layers`].
    pub fn layers(&self) -> &[PathLayer] {
        self.signature.layers()
    }

    /// An error for a network without path layers: it gives logits, but nothing to explain.
    pub fn require_layers(&self) -> Result<(), RunError> {
        match self.layers().is_empty() {
            true => Err(ProgramError::NoLayers.into()),
            false => Ok(()),
        }
    }

    /// What has become of batch normalisation.
    pub fn batch_norm(&self) -> BatchNorm {
        self.options.batch_norm
    }

    /// Number of inputs that the graph takes at once, as in [`Signature::batch`].
    pub fn batch(&self) -> usize {
        self.signature.batch()
    }

    /// The batch size that the model's file fixes.
    pub fn declared_batch(&self) -> Option<usize> {
        self.declared_batch
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.signature.classes()
    }

    /// Shape of one input, without the batch axis.
    pub fn sample_shape(&self) -> &[usize] {
        self.signature.sample_shape()
    }

    /// What programs are made from.
    pub fn view(&self) -> NetworkView<'_> {
        NetworkView {
            graph: &self.graph,
            classifier: &self.classifier,
            layers: self.layers(),
            batch: self.batch(),
        }
    }

    /// A program that gives logits, activations and the given taps, ready to run.
    pub fn tracer(&self, taps: &[Tap]) -> Result<Tracer, RunError> {
        Tracer::new(trace(&self.view(), taps)?, self)
    }

    /// A program that gives the logits and nothing else, ready to run.
    pub fn logits_tracer(&self) -> Result<Tracer, RunError> {
        let view = NetworkView {
            layers: &[],
            ..self.view()
        };
        Tracer::new(trace(&view, &[])?, self)
    }

    /// A program that gives logits and relevances, ready to run.
    pub fn explainer(
        &self,
        attribution: &dyn Attribution,
        options: &ExplainOutputs,
    ) -> Result<Tracer, RunError> {
        let program = explain(&self.view(), attribution, options)?;
        Tracer::new(program, self)
    }
}

/// Shape of one input of a graph, without the batch axis.
fn sample_shape(graph: &Graph) -> &[usize] {
    let shape = graph.inputs().first().map_or(&[][..], |&i| graph.shape(i));
    match shape {
        // A vector without a batch axis is one input.
        [_] | [] => shape,
        [_, rest @ ..] => rest,
    }
}

/// The whole shape of the input, when the user gave one.
fn shapes(
    input: &Declaration,
    given: Option<&[usize]>,
    batch: usize,
) -> Result<std::collections::BTreeMap<String, Vec<usize>>, RunError> {
    let Some(given) = given else {
        return Ok(Default::default());
    };
    let misfit = || RunError::InputShape {
        given: ShapeDisplay(given).to_string(),
        declared: input.shape(),
    };
    let (_, behind_batch) = given.split_first().ok_or_else(misfit)?;
    let sample = match &input.dims {
        None => given,
        Some(dims) if dims.len() == given.len() + 1 => given,
        Some(dims) if dims.len() == given.len() => behind_batch,
        Some(_) => return Err(misfit()),
    };
    if sample.contains(&0) {
        return Err(misfit());
    }
    let shape = [&[batch], sample].concat();
    Ok([(input.name.clone(), shape)].into())
}

/// The name of the output that is asked for, or of the main one.
fn output(model: &OnnxModel, name: Option<&str>) -> Result<String, RunError> {
    let found = match name {
        None => model.main_output(),
        Some(name) => model.outputs().into_iter().find(|o| o.name == name),
    };
    let found = found.map(|output| output.name);
    found.ok_or_else(|| no_such_output(model, name.unwrap_or_default()))
}

fn no_such_output(model: &OnnxModel, name: &str) -> RunError {
    let declared = model.outputs();
    RunError::NoSuchOutput {
        name: name.to_owned(),
        outputs: declared.iter().map(|o| format!("`{}`", o.name)).collect(),
    }
}

/// A graph with its logits, and the number of inputs it is for.
type Candidate<'a> = (&'a (Graph, Classifier), usize);

/// Whether two graphs for different numbers of inputs give the same logits, tried with different
/// inputs in all places of both.
fn agree(engine: &dyn Engine, a: Candidate<'_>, b: Candidate<'_>) -> bool {
    // Both see the same inputs, in whole batches of their own.
    let mut inputs = a.1.max(1);
    while !inputs.is_multiple_of(b.1.max(1)) {
        inputs += a.1.max(1);
    }
    let run = |((graph, classifier), rows): Candidate<'_>| {
        let mut program = graph.clone();
        program.set_outputs(vec![classifier.logits]);
        let program = program.pruned();
        let len: usize = program
            .inputs()
            .iter()
            .map(|&i| program.value(i).ty.numel())
            .sum();
        // A fixed pattern without period in the places that models distinguish.
        let number = |i: usize| ((i * 7919 + i / 97 * 31) % 1009) as f32 / 1009.0 - 0.3;
        let sets = inputs / rows.max(1);
        let mut input = zeros(sets, len)?;
        (input.iter_mut().enumerate()).for_each(|(i, x)| *x = number(i));
        let logits = engine.run_once(&program, sets, &[&input])?;
        Ok::<_, EngineError>(logits.concat())
    };
    match (run(a), run(b)) {
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

#[cfg(test)]
mod tests {
    use npcov_graph::op::Unary;
    use npcov_graph::{DType, Op, TensorType};

    use super::*;

    /// `relu(x)` of a shape that the file fixes.
    fn open(shape: &[usize], options: &ModelOptions) -> Result<Network, RunError> {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, shape));
        let y = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
        graph.set_outputs(vec![y]);
        let model = OnnxModel::from_bytes(graph.to_onnx().unwrap()).unwrap();
        Network::new(model, options)
    }

    #[test]
    fn no_inputs_at_a_time_are_refused() {
        let options = ModelOptions {
            batch: Some(0),
            ..ModelOptions::default()
        };
        for shape in [&[1, 3][..], &[4, 3], &[3], &[]] {
            let refused = open(shape, &options).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "batch size cannot be 0: use 1 or more",
                "{shape:?}"
            );
        }
    }

    #[test]
    fn large_batches_are_refused_before_anything_runs() {
        assert_eq!(
            open(&[1024, 3], &ModelOptions::default()).unwrap().batch(),
            1
        );
        for batch in [1025, 1 << 40] {
            let refused = open(&[batch, 5], &ModelOptions::default()).unwrap_err();
            let expected = format!(
                "the model's file fixes its batch size at {batch}; at most 1024 inputs are run at once"
            );
            assert_eq!(refused.to_string(), expected);
        }
    }

    #[test]
    fn shapes_that_say_nothing_are_refused() {
        let with = |shape: &[usize]| ModelOptions {
            input_shape: Some(shape.to_vec()),
            ..ModelOptions::default()
        };
        let cases: [(&[usize], &[usize]); 4] =
            [(&[], &[]), (&[3], &[]), (&[1, 3], &[0]), (&[1, 3], &[1, 0])];
        for (declared, given) in cases {
            let refused = open(declared, &with(given)).unwrap_err();
            let named = matches!(refused, RunError::InputShape { .. });
            assert!(named, "{given:?} for {declared:?}: {refused}");
        }
        // The batch axis may be there or not, whatever it says.
        for given in [&[3][..], &[1, 3], &[0, 3]] {
            let network = open(&[1, 3], &with(given)).unwrap();
            assert_eq!(network.sample_shape(), [3]);
        }
    }
}
