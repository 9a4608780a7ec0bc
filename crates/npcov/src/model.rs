//! A model, and what can be asked of it.

use std::ffi::OsStr;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use npcov_artefact::{ArtefactError, Kind};
use npcov_attack::{Adversaries, AttackOptions, AttackReport, Attacked};
use npcov_coverage::{
    Ask, BuildOptions, BuiltPart, ClusteredPart, Learning, LearntGraph, MissingParts,
};
use npcov_data::{Loader, Preprocessing, Reading, Samples};
use npcov_graph::{GraphError, OnnxModel};
use npcov_masking::{JoinedTuning, TuneOptions, TunedPart, Tuning};
use npcov_mutate::{Mutants, MutationOptions, MutationState};
use npcov_paths::BlockBytes;
use npcov_run::{
    Event, ExplainOptions, Explainer, Extraction, Extras, ModelOptions, Network, Part, Predictions,
    Progress, RunError, SampleRange,
};

use crate::compile::{Compilation, ProgramKind, compile};
use crate::decision_graph::DecisionGraph;
use crate::error::Error;
use crate::explain::{Explanation, explain_one};
use crate::inputs::{Inputs, TrainingInputs};

/// A model that is ready to be asked: its logits and path layers are found, and it is known what
/// happens to samples on their way into it.
///
/// Clones share the model.
#[derive(Clone)]
pub struct Model {
    network: Arc<Network>,
    preprocessing: Preprocessing,
    /// Of its classes, where they are known.
    class_names: Option<Arc<[String]>>,
    /// What holds the labels of data, where it was named.
    labels: Option<Arc<str>>,
    threads: usize,
}

impl Model {
    /// Reads a model from an ONNX file.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, Error> {
        Model::open_with(path, &ModelOptions::default())
    }

    /// The same, where something about the model is to be decided.
    pub fn open_with(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Model, Error> {
        let network = Network::new(read_model(path.as_ref())?, options)?;
        Ok(Model::of(Arc::new(network)))
    }

    /// A model from the bytes of an ONNX file.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Model, Error> {
        Model::from_bytes_with(bytes, &ModelOptions::default())
    }

    /// The same, where something about the model is to be decided.
    pub fn from_bytes_with(
        bytes: impl Into<Vec<u8>>,
        options: &ModelOptions,
    ) -> Result<Model, Error> {
        let model = OnnxModel::from_bytes(bytes.into())?;
        Ok(Model::of(Arc::new(Network::new(model, options)?)))
    }

    pub(crate) fn of(network: Arc<Network>) -> Model {
        Model {
            network,
            preprocessing: Preprocessing::default(),
            class_names: None,
            labels: None,
            threads: std::thread::available_parallelism().map_or(1, NonZero::get),
        }
    }

    /// The same with samples that are preprocessed; as they are by default.
    pub fn with_preprocessing(mut self, preprocessing: Preprocessing) -> Model {
        self.preprocessing = preprocessing;
        self
    }

    /// The same with names of its classes, the first one that of class 0; one for each, or it is an
    /// error. Data whose classes have names is matched with these: its labels become those of the same
    /// names, and a name that is not among these is an error.
    pub fn with_class_names(self, names: Vec<String>) -> Result<Model, Error> {
        let classes = self.network.classes();
        if names.len() != classes {
            return Err(Error::Run(RunError::Parameter {
                name: "the list of class names",
                value: format!("{} names for {classes} classes", names.len()),
                wanted: "one for each class of the model",
            }));
        }
        Ok(self.named(names))
    }

    /// The same with a name for each class.
    pub(crate) fn named(mut self, names: Vec<String>) -> Model {
        self.class_names = Some(names.into());
        self
    }

    /// The same with labels in a column of this name, or in an array of an npz file.
    pub fn with_label_column(mut self, name: &str) -> Model {
        self.labels = Some(name.into());
        self
    }

    /// The same on so many threads; on all cores by default. No result depends on it.
    pub fn with_threads(mut self, threads: usize) -> Model {
        self.threads = threads.max(1);
        self
    }

    /// Its graph, classes and path layers.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// What happens to samples on their way into it.
    pub fn preprocessing(&self) -> &Preprocessing {
        &self.preprocessing
    }

    /// The names of its classes, where they are known.
    pub fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Samples as the model wants them. What does not fit is an error.
    pub fn loader<'a>(&self, samples: Arc<dyn Samples + 'a>) -> Result<Loader<'a>, Error> {
        let names = self.class_names.as_deref();
        Ok(self.network.loader(samples, names, &self.preprocessing)?)
    }

    /// Opens a file or folder of data, for the inputs that the model has.
    pub fn open_data(&self, spec: impl AsRef<OsStr>) -> Result<Arc<dyn Samples>, Error> {
        Ok(npcov_data::open_as(spec, &self.reading())?)
    }

    /// What data is read for: the inputs that the model has, and what holds the labels.
    pub fn reading(&self) -> Reading {
        self.network.reading(self.labels.as_deref())
    }

    /// The model for what its outputs mean, which inputs and their labels tell where nobody said it, and what was found
    /// out. A model of numbers is run on all of them to learn its bins. Verbs do this by themselves.
    pub fn for_data<'a>(
        &self,
        inputs: impl Into<Inputs<'a>>,
    ) -> Result<(Model, Vec<String>), Error> {
        if !self.network.is_open() {
            return Ok((self.clone(), Vec::new()));
        }
        let inputs = inputs.into();
        let data = self.loader(inputs.samples().clone())?;
        let found = npcov_run::resolve(&self.network, &data, inputs.range(), self.threads);
        let (network, notes) = found?;
        let model = Model {
            network,
            ..self.clone()
        };
        Ok((model, notes))
    }

    /// The same of some inputs, with all that work on them takes.
    pub(crate) fn with_inputs<'a, R>(
        &self,
        inputs: impl Into<Inputs<'a>>,
        work: impl FnOnce(&Model, &SampleRange<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let inputs = inputs.into();
        let (model, _) = self.for_data(inputs.clone())?;
        let data = model.loader(inputs.samples().clone())?;
        let range = SampleRange {
            data: &data,
            range: inputs.range(),
            threads: self.threads,
        };
        work(&model, &range)
    }

    /// Classifies inputs.
    pub fn predict<'a>(
        &self,
        inputs: impl Into<Inputs<'a>>,
        progress: &mut dyn Progress,
    ) -> Result<Predictions, Error> {
        self.with_inputs(inputs, |model, inputs| {
            let tracer = model.network.logits_tracer()?;
            let SampleRange { data, threads, .. } = *inputs;
            let range = inputs.range.clone();
            npcov_run::predict(&tracer, data, range, threads, |_, classes| {
                Ok(progress.tell(Event::Finished(classes.len()))?)
            })
        })
    }

    /// The positions of inputs that the model cannot be run on, each with why not: images that cannot be
    /// read, numbers that are none. No more than `most` are sought.
    pub fn bad_rows<'a>(
        &self,
        inputs: impl Into<Inputs<'a>>,
        most: usize,
    ) -> Result<Vec<(usize, RunError)>, Error> {
        let inputs = inputs.into();
        let data = self.loader(inputs.samples().clone())?;
        let extraction = Extraction::trace(&self.network, &Extras::default())?;
        let inputs = SampleRange {
            data: &data,
            range: inputs.range(),
            threads: self.threads,
        };
        Ok(npcov_run::bad_rows(&extraction, &inputs, most))
    }

    /// Explains the input at a position: which neurons decided. `top` of them are named in each layer.
    pub fn explain(
        &self,
        samples: &dyn Samples,
        index: usize,
        options: &ExplainOptions,
        top: usize,
    ) -> Result<Explanation, Error> {
        let (model, _) = self.for_data(samples)?;
        let explainer = Explainer::new(&model.network, options)?;
        let data = model.loader(Arc::new(samples))?;
        Ok(explain_one(&explainer, &data, index, top)?.explanation)
    }

    /// Learns a decision graph from training data, in memory.
    pub fn build<'a>(
        &self,
        training: impl Into<TrainingInputs<'a>>,
        options: &BuildOptions,
        progress: &mut dyn Progress,
    ) -> Result<DecisionGraph, Error> {
        self.build_at(training, options, None, progress)
    }

    /// The same with a file. Finished shards are kept in a folder beside it until the file is whole: a
    /// run that is cut off goes on where it was, and gives the same bytes.
    pub fn build_file<'a>(
        &self,
        training: impl Into<TrainingInputs<'a>>,
        options: &BuildOptions,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<DecisionGraph, Error> {
        self.build_at(training, options, Some(path.as_ref()), progress)
    }

    /// Does one part of the work of [building](Model::build_file) a graph in a file, and keeps it in the
    /// folder beside that file. Several processes may do so at the same time, on machines that share the
    /// folder, or each in a folder of its own; when all parts are in one folder,
    /// [`join_parts`](Model::join_parts) makes the graph.
    ///
    /// ```
    /// use npcov::run::Part;
    /// use npcov::data::{Preprocessing, open};
    /// use npcov::{BuildOptions, Model};
    ///
    /// # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
    /// # let (file, images) = (format!("{fixtures}/mlp-matlab.onnx"), format!("{fixtures}/fashion-1000.npz"));
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let graph = folder.path().join("graph.npcov");
    /// let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
    /// let model = Model::open(file)?.with_preprocessing(scale);
    /// let data = open(&images)?;
    /// let options = BuildOptions::default();
    /// for part in [1, 2].map(|i| Part::new(i, 2).unwrap()) {
    ///     model.build_part(&data, &options, part, &graph, &mut ())?;
    /// }
    /// let graph = model.join_parts(&data, &options, &graph, &mut ())?;
    /// assert_eq!(graph.inspect()?.inputs, 1000);
    /// # Ok::<(), npcov::Error>(())
    /// ```
    pub fn build_part<'a>(
        &self,
        training: impl Into<TrainingInputs<'a>>,
        options: &BuildOptions,
        part: Part,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<BuiltPart, Error> {
        let path = path.as_ref();
        self.learning(training, |model, data| {
            let network = &model.network;
            let built = npcov_coverage::build_part(network, data, options, part, path, progress);
            Ok(built?)
        })
    }

    /// Clusters a part of the classes of a graph whose [parts](Model::build_part) are all there, so that
    /// [`join_parts`](Model::join_parts) has less to do.
    pub fn cluster_part<'a>(
        &self,
        training: impl Into<TrainingInputs<'a>>,
        options: &BuildOptions,
        part: Part,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<ClusteredPart, Error> {
        let path = path.as_ref();
        self.learning(training, |model, data| {
            let network = &model.network;
            let done = npcov_coverage::cluster_part(network, data, options, part, path, progress);
            Ok(done?)
        })
    }

    /// Clusters large classes of such a graph by k-means, by way of others that hold some of their paths each
    /// ([`cluster_spread`](npcov_coverage::cluster_spread)). Gives the classes that were clustered.
    pub fn cluster_spread<'a>(
        &self,
        training: impl Into<TrainingInputs<'a>>,
        options: &BuildOptions,
        path: impl AsRef<Path>,
        bytes: BlockBytes,
        ask: &mut Ask<'_>,
    ) -> Result<Vec<usize>, Error> {
        let path = path.as_ref();
        self.learning(training, |model, data| {
            let network = &model.network;
            let done = npcov_coverage::cluster_spread(network, data, options, path, bytes, ask);
            Ok(done?)
        })
    }

    /// The inputs that are in no [part](Model::build_part) beside a file yet.
    pub fn missing_parts<'a>(
        &self,
        training: impl Into<TrainingInputs<'a>>,
        options: &BuildOptions,
        path: impl AsRef<Path>,
    ) -> Result<MissingParts, Error> {
        let path = path.as_ref();
        self.learning(training, |model, data| {
            let network = &model.network;
            Ok(npcov_coverage::missing_parts(network, data, options, path)?)
        })
    }

    /// Makes a decision graph of all its [parts](Model::build_part), with the bytes of one that is built
    /// in one go. Parts that are missing or do not belong together are errors that name them.
    pub fn join_parts<'a>(
        &self,
        training: impl Into<TrainingInputs<'a>>,
        options: &BuildOptions,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<DecisionGraph, Error> {
        let path = path.as_ref();
        self.learning(training, |model, data| {
            let network = &model.network;
            let graph = npcov_coverage::join_parts(network, data, options, path, progress)?;
            Ok(self.learnt(graph))
        })
    }

    fn build_at<'a>(
        &self,
        training: impl Into<TrainingInputs<'a>>,
        options: &BuildOptions,
        output: Option<&Path>,
        progress: &mut dyn Progress,
    ) -> Result<DecisionGraph, Error> {
        self.learning(training, |model, data| {
            let graph = npcov_coverage::build(&model.network, data, options, output, progress)?;
            Ok(self.learnt(graph))
        })
    }

    fn learnt(&self, graph: LearntGraph) -> DecisionGraph {
        let graph = DecisionGraph::of(graph, self.threads).with_preprocessed_inputs();
        match &self.labels {
            Some(name) => graph.with_label_column(name),
            None => graph,
        }
    }

    /// Inputs that a graph is learnt from, with all that work on them takes.
    fn learning<'a, R>(
        &self,
        training: impl Into<TrainingInputs<'a>>,
        learn: impl FnOnce(&Model, Learning<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let TrainingInputs {
            training,
            calibration,
        } = training.into();
        self.with_inputs(training, |model, training| match calibration {
            Some(inputs) => model.with_inputs(inputs, |_, inputs| {
                let calibration = Some(inputs);
                let data = Learning {
                    training,
                    calibration,
                };
                learn(model, data)
            }),
            None => {
                let data = Learning {
                    training,
                    calibration: None,
                };
                learn(model, data)
            }
        })
    }

    /// Finds parameters of paths by what masking neurons does to predictions.
    pub fn tune(
        &self,
        samples: &dyn Samples,
        options: &TuneOptions,
        progress: &mut dyn Progress,
    ) -> Result<Tuning, Error> {
        let (model, _) = self.for_data(samples)?;
        let data = model.loader(Arc::new(samples))?;
        let tuning = npcov_masking::tune(&model.network, &data, options, self.threads, progress);
        Ok(tuning?)
    }

    /// Does a part of [`tune`](Model::tune), and keeps it beside `path`, which nothing is written to. All parts are to be done
    /// twice: the second step needs the first of all. Then [`join_tuning`](Model::join_tuning) says what was found.
    pub fn tune_part(
        &self,
        samples: &dyn Samples,
        options: &TuneOptions,
        part: Part,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<TunedPart, Error> {
        let (model, _) = self.for_data(samples)?;
        let data = model.loader(Arc::new(samples))?;
        let (network, part) = (&model.network, (part, path.as_ref()));
        let done = npcov_masking::tune_part(network, &data, options, part, self.threads, progress);
        Ok(done?)
    }

    /// What all [parts](Model::tune_part) found: the same as [`tune`](Model::tune). Parts that are missing or do not belong
    /// together are errors that name them. They stay until [`JoinedTuning::remove_parts`].
    pub fn join_tuning(
        &self,
        samples: &dyn Samples,
        options: &TuneOptions,
        path: impl AsRef<Path>,
    ) -> Result<JoinedTuning, Error> {
        let (model, _) = self.for_data(samples)?;
        let data = model.loader(Arc::new(samples))?;
        let (network, path) = (&model.network, path.as_ref());
        let found = npcov_masking::join_tuning(network, &data, options, path, self.threads);
        Ok(found?)
    }

    /// Changes inputs a little, so that they are misclassified.
    pub fn attack<'a>(
        &self,
        inputs: impl Into<Inputs<'a>>,
        options: &AttackOptions,
        progress: &mut dyn Progress,
    ) -> Result<(AttackReport, Adversaries), Error> {
        self.with_inputs(inputs, |model, inputs| {
            let rows: Vec<usize> = inputs.range.clone().collect();
            let attacked = Attacked {
                data: inputs.data,
                rows: &rows,
                threads: inputs.threads,
            };
            let mut all = Adversaries::default();
            let sink = |found: &Adversaries| {
                all.append(found);
                Ok::<(), Error>(())
            };
            let report = npcov_attack::attack(&model.network, attacked, options, progress, sink)?;
            Ok((report, all))
        })
    }

    /// Makes mutants of the model, and finds which of them inputs tell from it. States of several suites
    /// [merge](MutationState::merge).
    pub fn mutate<'a>(
        &self,
        inputs: impl Into<Inputs<'a>>,
        options: &MutationOptions,
        progress: &mut dyn Progress,
    ) -> Result<MutationState, Error> {
        self.with_inputs(inputs, |model, inputs| {
            let mutants = Mutants::new(&model.network, options)?;
            Ok(mutants.measure(inputs, progress)?)
        })
    }

    /// Writes a program that is made from the model as an ONNX file of plain operators.
    pub fn compile(
        &self,
        kind: &ProgramKind,
        path: impl AsRef<Path>,
    ) -> Result<Compilation, Error> {
        compile(&self.network, kind, path)
    }
}

/// Reads a model. An artefact in its place is named as what it is.
pub(crate) fn read_model(path: &Path) -> Result<OnnxModel, Error> {
    OnnxModel::read(path).map_err(|error| match (&error, Kind::of(path)) {
        (GraphError::NotOnnx { .. }, Some(kind)) => ArtefactError::Artefact {
            file: path.display().to_string(),
            reason: format!("it is {}, not an ONNX model", kind.words()),
        }
        .into(),
        _ => error.into(),
    })
}
