//! A model that is ready to be asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use npcov_data::{
    DataError, Loader, Preprocessing, Reading, Samples, Targets, WantedInput, match_classes,
    with_classes,
};
use npcov_engine::native::{Kernels, Native, Options};
use npcov_engine::{Engine, EngineError, zeros};
use npcov_graph::op::Unary;
use npcov_graph::{
    Classifier, DType, Declaration, Dim, Ending, Graph, GraphError, OnnxModel, Op, Purpose,
    ShapeDisplay, Specialisation, ValueId, fold_batch_norm,
};
use npcov_program::{
    Attribution, BatchNorm, Deviation, ExplainOutputs, LayerOptions, NetworkView, PathLayer,
    ProgramError, Tap, explain, explained_number, known_tokens, path_layers, trace, weighted_sums,
};

use crate::error::RunError;
use crate::signature::Signature;
use crate::task::{Numbers, Task};
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
    /// What the outputs mean.
    pub task: Task,
    /// Inputs that are always the same number, by name.
    pub fixed: Vec<(String, f32)>,
    /// The input that is preprocessed and attacked; by default the only one of floats, or of images.
    pub input: Option<String>,
    /// What runs its programs; npcov's own engine by default.
    pub engine: Option<Arc<dyn Engine>>,
}

/// A classifier: its graph for one input, its logits and its path layers.
#[derive(Clone, Debug)]
pub struct Network {
    graph: Graph,
    /// The output that was chosen.
    output: ValueId,
    output_name: String,
    classifier: Classifier,
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

/// The most classes that a model may have: much is kept for each of them.
const MOST_CLASSES: usize = 1 << 20;

/// The most path layers: each is an output of programs, all of which are in memory at their end.
const MOST_LAYERS: usize = 1 << 14;

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
        let native = || {
            Arc::new(Native::new(Options {
                kernels: options.kernels,
                ..Options::default()
            }))
        };
        let engine = options.engine.clone().unwrap_or_else(|| native());
        Network::with_engine(model, options, engine)
    }

    /// As [`Network::new`], for an engine that runs all programs of the network.
    pub fn with_engine(
        model: OnnxModel,
        options: &ModelOptions,
        engine: Arc<dyn Engine>,
    ) -> Result<Network, RunError> {
        let digest = model.digest()?;
        let inputs = model.inputs();
        let declared_batch = match inputs.first().and_then(|input| input.dims.as_deref()) {
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
        let output_name = output(&model, options.output.as_deref())?;
        let specialised = |batch: usize| -> Result<(Graph, ValueId), RunError> {
            let specialisation = Specialisation {
                batch,
                rebatch: declared_batch.is_some_and(|declared| declared != batch),
                shapes: shapes(&inputs, options.input_shape.as_deref(), batch)?,
                outputs: vec![output_name.clone()],
                ..Specialisation::default()
            };
            let mut graph = model.specialise(&specialisation)?;
            if options.batch_norm == BatchNorm::Fold {
                graph = fold_batch_norm(&graph)
                    .map_err(|error| GraphError::Invalid(error.to_string()))?;
            }
            let output = graph.outputs().first().copied();
            let output = output.ok_or_else(|| no_such_output(&model, &output_name))?;
            Ok((graph, output))
        };
        // Zero inputs at a time are none that could be run.
        let own = declared_batch.unwrap_or(1).max(1);
        let rebatched = |batch: usize| {
            let found = specialised(batch).ok()?;
            let whole = specialised(own).ok()?;
            agree(&*engine, (&whole, own), (&found, batch)).then_some(found)
        };
        let (batch, (graph, output)) = match options.batch {
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
        let wanted = wanted(&graph, options)?;
        let place = place(&wanted, options)?;
        let classifier = Classifier::find(&graph, output);
        let signature = Signature {
            inputs: wanted,
            place,
            ending: classifier.ending,
            numbers: None,
            classes: 0,
            logits: 0,
            layers: Vec::new(),
            sums: weighted_sums(&graph, batch),
            batch,
            tokens: graph
                .inputs()
                .get(place)
                .and_then(|&i| known_tokens(&graph, i)),
        };
        let network = Network {
            graph,
            output,
            output_name,
            classifier,
            signature,
            declared_batch,
            options: options.clone(),
            files: model.files()?,
            digest,
            engine,
        };
        network.tasked(options.task.clone())
    }

    /// The same network for another task.
    pub fn with_task(&self, task: Task) -> Result<Network, RunError> {
        self.clone().tasked(task)
    }

    /// Finds the logits and path layers for a task.
    fn tasked(mut self, task: Task) -> Result<Network, RunError> {
        let (graph, batch) = (&self.graph, self.signature.batch);
        let (classifier, numbers) = head(graph, self.output, batch, &task);
        let logits = graph.value(classifier.logits).ty.numel() / batch.max(1);
        if let Some(numbers) = numbers.as_ref().filter(|n| n.reference.len() != logits) {
            return Err(RunError::Parameter {
                name: "the number of outputs",
                value: numbers.reference.len().to_string(),
                wanted: "as many as the model has",
            });
        }
        if let Some(purpose) = Purpose::of(graph, &classifier, batch).filter(|p| !task.takes(p)) {
            return Err(RunError::NoClassifier {
                output: self.output_name,
                purpose,
            });
        }
        if logits > MOST_CLASSES {
            return Err(RunError::ManyClasses {
                output: self.output_name,
                classes: logits,
                most: MOST_CLASSES,
            });
        }
        // What stands behind the last linear map of a number is no part of what is explained.
        let explained = match classifier.ending {
            Ending::Numbers => explained_number(graph, self.output),
            _ => classifier.logits,
        };
        let explained = Classifier {
            logits: explained,
            ..classifier
        };
        let layers = match path_layers(graph, &explained, batch, &self.options.layers) {
            // A linear classifier: it can be asked for logits all the same.
            Err(ProgramError::NoLayers) => Vec::new(),
            layers => layers?,
        };
        if layers.len() > MOST_LAYERS {
            return Err(RunError::ManyLayers {
                layers: layers.len(),
                most: MOST_LAYERS,
            });
        }
        let classes = match &numbers {
            Some(numbers) => numbers.classes(),
            None => classifier.classes(graph, batch),
        };
        self.signature = Signature {
            ending: classifier.ending,
            numbers,
            classes,
            logits,
            layers,
            ..self.signature
        };
        self.classifier = classifier;
        self.options.task = task;
        Ok(self)
    }

    /// Whether only data can tell if the outputs are classes or numbers.
    pub fn is_open(&self) -> bool {
        match &self.options.task {
            Task::Auto => self.classifier.ending == Ending::Logits,
            Task::Regression(_) => true,
            Task::Classification | Task::Smallest | Task::Numbers(_) => false,
        }
    }

    /// Samples as the network wants them. `names` are those of its classes, where they are known.
    pub fn loader<'a>(
        &self,
        samples: Arc<dyn Samples + 'a>,
        names: Option<&[String]>,
        preprocessing: &Preprocessing,
    ) -> Result<Loader<'a>, RunError> {
        let samples = match (&self.signature.numbers, names) {
            (Some(numbers), _) => binned(samples, numbers)?,
            (None, Some(names)) => match_classes(samples, names)?,
            (None, None) => samples,
        };
        if let (false, false, Some(targets)) =
            (self.is_open(), samples.is_labelled(), samples.targets())
            && self.signature.numbers.is_none()
        {
            return Err(RunError::Data(DataError::Labels {
                file: samples.name().to_owned(),
                reason: targets.reason().to_owned(),
            }));
        }
        let (inputs, place) = (self.signature.inputs(), self.signature.place());
        Ok(Loader::of_inputs(samples, inputs, place, preprocessing)?)
    }

    /// What data is read for.
    pub fn reading(&self, labels: Option<&str>) -> Reading {
        let inputs = self.signature.inputs().iter();
        let open = inputs.filter(|input| input.fixed.is_none());
        Reading {
            inputs: open.map(|input| input.name.clone()).collect(),
            labels: labels.map(str::to_owned),
            kinds: false,
        }
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
        &self.output_name
    }

    /// What it takes and gives.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// What is explained of a network of numbers; `None` where its outputs are classes. Without data that it learnt from,
    /// options have to say what numbers are held against.
    pub fn deviation(&self) -> Result<Option<Deviation>, RunError> {
        match (self.signature.numbers(), &self.options.task) {
            (Some(numbers), _) => Ok(Some(numbers.target())),
            (None, Task::Regression(options)) => options.target(self.signature.logits()).map(Some),
            (None, _) => Ok(None),
        }
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

/// Where the logits are, and how numbers become classes.
fn head(
    graph: &Graph,
    output: ValueId,
    batch: usize,
    task: &Task,
) -> (Classifier, Option<Numbers>) {
    let found = Classifier::find(graph, output);
    let as_they_are = |ending| Classifier {
        logits: output,
        ending,
    };
    match task {
        Task::Auto => (found, None),
        Task::Classification if found.classes(graph, batch) == 1 => {
            let ending = Ending::Sigmoid;
            (Classifier { ending, ..found }, None)
        }
        Task::Classification => (found, None),
        Task::Smallest => (as_they_are(Ending::Smallest), None),
        Task::Regression(_) => (as_they_are(Ending::Numbers), None),
        Task::Numbers(numbers) => (as_they_are(Ending::Numbers), Some(numbers.clone())),
    }
}

/// Whether numbers of a value that are missing, NaN, are looked for: by an imputer, also behind what only moves numbers.
fn fills_in(graph: &Graph, value: ValueId) -> bool {
    let mut moved = vec![value];
    for node in graph.nodes() {
        if !node.inputs.iter().any(|input| moved.contains(input)) {
            continue;
        }
        match node.op {
            Op::Unary(Unary::IsNaN) => return true,
            Op::Cast(_)
            | Op::Concat(_)
            | Op::Gather(_)
            | Op::Reshape(_)
            | Op::Slice(_)
            | Op::Transpose(_) => moved.push(node.output),
            _ => {}
        }
    }
    false
}

/// The inputs of a graph, each with its shape for one sample.
fn wanted(graph: &Graph, options: &ModelOptions) -> Result<Vec<WantedInput>, RunError> {
    let mut inputs = Vec::new();
    for &input in graph.inputs() {
        let value = graph.value(input);
        let fixed = options.fixed.iter().find(|(name, _)| *name == value.name);
        inputs.push(WantedInput {
            name: value.name.clone(),
            shape: match graph.shape(input) {
                // A vector without a batch axis is one input.
                whole @ ([_] | []) => whole.to_vec(),
                [_, rest @ ..] => rest.to_vec(),
            },
            whole: value.ty.dtype != DType::F32,
            missing: fills_in(graph, input),
            fixed: fixed.map(|(_, number)| *number),
        });
    }
    let unknown = |name: &&String| !inputs.iter().any(|input| input.name == **name);
    let named = options
        .fixed
        .iter()
        .map(|(name, _)| name)
        .chain(&options.input);
    match { named }.find(unknown) {
        None => Ok(inputs),
        Some(name) => Err(RunError::NoSuchInput {
            name: name.clone(),
            inputs: inputs
                .iter()
                .map(|input| format!("`{}`", input.name))
                .collect(),
        }),
    }
}

/// The place of the input that is preprocessed: the one that is named; else the only one of floats, the only one of
/// images, or the first.
fn place(inputs: &[WantedInput], options: &ModelOptions) -> Result<usize, RunError> {
    let open = |i: &usize| inputs[*i].fixed.is_none();
    if let Some(name) = &options.input {
        let named = inputs.iter().position(|input| input.name == *name);
        return named.filter(open).ok_or_else(|| RunError::Parameter {
            name: "the input that is named",
            value: format!("`{name}`, which is fixed"),
            wanted: "one that data is for",
        });
    }
    let all: Vec<usize> = (0..inputs.len()).filter(open).collect();
    let floats: Vec<usize> = all.iter().copied().filter(|&i| !inputs[i].whole).collect();
    let images = floats
        .iter()
        .copied()
        .filter(|&i| inputs[i].shape.len() == 3);
    let images: Vec<usize> = images.collect();
    match (&floats[..], &images[..], &all[..]) {
        ([single], _, _) | (_, [single], _) => Ok(*single),
        ([first, ..], _, _) | ([], _, [first, ..]) => Ok(*first),
        ([], _, []) => Err(RunError::NoOpenInput),
    }
}

/// Samples whose classes are the bins of numbers.
fn binned<'a>(
    samples: Arc<dyn Samples + 'a>,
    numbers: &Numbers,
) -> Result<Arc<dyn Samples + 'a>, RunError> {
    let names = numbers.class_names();
    let Some(labels) = targets_of(&*samples, numbers.reference.len(), numbers.output)? else {
        return Ok(match_classes(samples, &names)?);
    };
    let outputs = numbers.reference.len();
    let classes = labels.chunks_exact(outputs.max(1));
    let classes = classes.map(|target| numbers.class(target) as i64).collect();
    let targets = Targets::new(outputs, labels.clone())
        .map_err(|error| error.in_file(samples.name().to_owned()))?;
    Ok(with_classes(samples, names, classes, targets)?)
}

/// The numbers that a model of so many outputs should give, samples one after the other; `None` without labels. Where one
/// output is looked at, labels may be those of it alone.
pub(crate) fn targets_of(
    samples: &dyn Samples,
    outputs: usize,
    output: Option<usize>,
) -> Result<Option<Vec<f64>>, RunError> {
    let (width, numbers): (usize, Vec<f64>) = match (samples.targets(), samples.labels()) {
        (Some(targets), _) => {
            let rows = (0..targets.rows()).filter_map(|row| targets.row(row));
            (targets.width(), rows.flatten().copied().collect())
        }
        (None, Some(labels)) => (1, labels.iter().map(|&label| label as f64).collect()),
        (None, None) => return Ok(None),
    };
    if width == outputs {
        return Ok(Some(numbers));
    }
    match output {
        // The other outputs are not looked at.
        Some(_) if width == 1 => {
            let spread = |number: f64| std::iter::repeat_n(number, outputs);
            Ok(Some(numbers.into_iter().flat_map(spread).collect()))
        }
        _ => Err(RunError::Data(DataError::Labels {
            file: samples.name().to_owned(),
            reason: format!("{width} numbers for each sample, and the model has {outputs} outputs"),
        })),
    }
}

/// The whole shapes of inputs, when the user gave one: of all that it fits.
fn shapes(
    inputs: &[Declaration],
    given: Option<&[usize]>,
    batch: usize,
) -> Result<std::collections::BTreeMap<String, Vec<usize>>, RunError> {
    let Some(given) = given else {
        return Ok(Default::default());
    };
    let misfit = || RunError::InputShape {
        given: ShapeDisplay(given).to_string(),
        declared: inputs.first().map_or(String::new(), Declaration::shape),
    };
    let (_, behind_batch) = given.split_first().ok_or_else(misfit)?;
    let mut found = std::collections::BTreeMap::new();
    for input in inputs {
        let sample = match &input.dims {
            None => given,
            Some(dims) if dims.len() == given.len() + 1 => given,
            Some(dims) if dims.len() == given.len() => behind_batch,
            Some(_) => continue,
        };
        if sample.contains(&0) {
            return Err(misfit());
        }
        found.insert(input.name.clone(), [&[batch], sample].concat());
    }
    match found.is_empty() {
        true => Err(misfit()),
        false => Ok(found),
    }
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

/// A graph with its output, and the number of inputs it is for.
type Candidate<'a> = (&'a (Graph, ValueId), usize);

/// Whether two graphs for different numbers of inputs give the same logits, tried with different
/// inputs in all places of both.
fn agree(engine: &dyn Engine, a: Candidate<'_>, b: Candidate<'_>) -> bool {
    // Both see the same inputs, in whole batches of their own.
    let mut inputs = a.1.max(1);
    while !inputs.is_multiple_of(b.1.max(1)) {
        inputs += a.1.max(1);
    }
    let run = |((graph, output), rows): Candidate<'_>| {
        let mut program = graph.clone();
        program.set_outputs(vec![Classifier::find(graph, *output).logits]);
        let program = program.pruned();
        // A fixed pattern without period in the places that models distinguish.
        let number = |i: usize| (i * 7919 + i / 97 * 31) % 1009;
        let sets = inputs / rows.max(1);
        let mut numbers = Vec::new();
        for &input in program.inputs() {
            let known = known_tokens(&program, input);
            let ty = &program.value(input).ty;
            let mut input = zeros(sets, ty.numel())?;
            let of_type = |i: usize| match (known, ty.dtype) {
                (Some(tokens), _) => (number(i) % tokens.max(1)) as f32,
                (None, DType::F32) => number(i) as f32 / 1009.0 - 0.3,
                // Masks and lengths.
                (None, DType::I64 | DType::Bool) => {
                    f32::from(u8::from(!(i * 7919).is_multiple_of(3)))
                }
            };
            (input.iter_mut().enumerate()).for_each(|(i, x)| *x = of_type(i));
            numbers.push(input);
        }
        let numbers: Vec<&[f32]> = numbers.iter().map(|input| &input[..]).collect();
        let logits = engine.run_once(&program, sets, &numbers)?;
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
    use npcov_graph::TensorType;

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

    /// `where(isnan(x), 0, x)`, as imputers are read.
    #[test]
    fn numbers_may_be_missing_where_a_model_fills_them_in() {
        let open = |imputes: bool| {
            let mut graph = Graph::new();
            let mut x = graph.add_input("x", TensorType::new(DType::F32, [1, 3]));
            if imputes {
                let missing = graph.push("n", Op::Unary(Unary::IsNaN), &[x]).unwrap();
                let zero = graph.add_constant("zero", npcov_graph::Tensor::scalar(0.0));
                x = graph
                    .push("filled", Op::Where, &[missing, zero, x])
                    .unwrap();
            }
            let y = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
            graph.set_outputs(vec![y]);
            wanted(&graph, &ModelOptions::default()).unwrap()[0].missing
        };
        assert!(open(true) && !open(false));
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
