//! What artefacts say of where they come from.

use std::path::{Component, Path, PathBuf};

use npcov_criteria::{GraphShape, LayerShape, NetworkShape, Spec, TrainingCoverage};
use npcov_data::{Loader, Preprocessing, ValueRange};
use npcov_engine::Engine;
use npcov_engine::native::{Kernels, Native};
use npcov_paths::{AnpcLayer, Choices, Clustering};
use npcov_program::{BatchNorm, LayerOptions, RecurrentView, Selector};
use npcov_run::{Method, MethodInfo, ModelOptions, Network, Task};
use serde::{Deserialize, Serialize};

use crate::error::ArtefactError;

/// A model, and what its file leaves open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// Its file, from the folder of the artefact; empty for a model that was in memory. Bytes that are no UTF-8 are
    /// written as a NUL, which no path holds, and two hexadecimal digits.
    pub file: String,
    /// Its digest, external data included.
    pub sha256: String,
    /// Shape of one input, where it was given.
    pub input_shape: Option<Vec<usize>>,
    /// The output that holds the classification, where it was named.
    pub output: Option<String>,
    /// The path layers, where they were named.
    pub layers: Vec<Selector>,
    /// Whether every unit is a neuron.
    pub units: bool,
    /// What the neurons of recurrent layers are; sums over steps, where an artefact does not say.
    #[serde(default, skip_serializing_if = "is_usual", with = "text")]
    pub rnn: RecurrentView,
    /// What path layers are made of, where it was chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_layers: Vec<String>,
    /// The only token that counts, where one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<usize>,
    /// What the outputs mean, where that was said or found out; classes, where an artefact does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Inputs that are always the same number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<(String, f32)>,
    /// The input that is preprocessed, where it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
}

fn is_usual(view: &RecurrentView) -> bool {
    *view == RecurrentView::default()
}

/// A value as the text that it is read from.
mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl ModelRecord {
    /// Of a model of this digest, wherever it is.
    pub fn new(sha256: String, options: &ModelOptions) -> ModelRecord {
        ModelRecord {
            file: String::new(),
            sha256,
            input_shape: options.input_shape.clone(),
            output: options.output.clone(),
            layers: options.layers.select.clone(),
            units: options.layers.units,
            rnn: options.layers.rnn,
            path_layers: options
                .layers
                .kinds
                .iter()
                .map(|k| k.name().to_owned())
                .collect(),
            token: options.layers.token,
            task: Some(options.task.clone()).filter(Task::is_settled),
            fixed: options.fixed.clone(),
            input: options.input.clone(),
        }
    }

    /// Says that the model is in `file`, for an artefact in `artefact`.
    pub fn place(&mut self, file: Option<&Path>, artefact: &Path) {
        self.file = file.map_or(String::new(), |file| relative(file, artefact));
    }

    /// Where the model should be, for an artefact in `artefact`.
    pub fn path(&self, artefact: &Path) -> PathBuf {
        artefact.parent().unwrap_or(Path::new("")).join(self.way())
    }

    /// The way to the model, from the folder of the artefact.
    pub fn way(&self) -> PathBuf {
        from_text(&self.file)
    }

    /// How the model is opened.
    pub fn options(&self, batch_norm: BatchNorm, kernels: Kernels) -> ModelOptions {
        ModelOptions {
            input_shape: self.input_shape.clone(),
            output: self.output.clone(),
            layers: LayerOptions {
                select: self.layers.clone(),
                units: self.units,
                rnn: self.rnn,
                kinds: self
                    .path_layers
                    .iter()
                    .filter_map(|k| k.parse().ok())
                    .collect(),
                token: self.token,
            },
            batch_norm,
            batch: None,
            kernels,
            task: self.task.clone().unwrap_or_default(),
            fixed: self.fixed.clone(),
            input: self.input.clone(),
            engine: None,
        }
    }
}

/// The way from an artefact's folder to a file; the file's absolute path where there is none.
fn relative(file: &Path, artefact: &Path) -> String {
    let folder = match artefact.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let way = || {
        let (file, folder) = (file.canonicalize().ok()?, folder.canonicalize().ok()?);
        let same = |(a, b): &(Component<'_>, Component<'_>)| a == b;
        let shared = file
            .components()
            .zip(folder.components())
            .take_while(same)
            .count();
        // Nothing but the root in common: another disk, or another world.
        (shared > 1 || folder.components().count() <= 1).then(|| {
            let up = folder
                .components()
                .skip(shared)
                .map(|_| Component::ParentDir);
            up.chain(file.components().skip(shared))
                .collect::<PathBuf>()
        })
    };
    let own = || std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    to_text(&way().unwrap_or_else(own))
}

/// A path as [`ModelRecord::file`] has it.
fn to_text(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        text += chunk.valid();
        for byte in chunk.invalid() {
            text += &format!("\0{byte:02x}");
        }
    }
    text
}

fn from_text(text: &str) -> PathBuf {
    let mut parts = text.split('\0');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        // Whatever else follows a NUL was not written by npcov, and is the name of no file.
        let byte = part
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(0));
        bytes.extend(part.get(2..).unwrap_or_default().as_bytes());
    }
    #[cfg(unix)]
    return <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes).into();
    #[cfg(not(unix))]
    return String::from_utf8_lossy(&bytes).into_owned().into();
}

/// A path layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// The node's name in the model.
    pub name: String,
    /// The operator.
    pub op: String,
    /// Number of neurons.
    pub neurons: usize,
    /// Number of elements: each position of a channel is one.
    pub units: usize,
    /// Whether every path from input to logits crosses it.
    pub cut: bool,
    /// Whether its elements are steps of a sequence, each of all neurons.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recurrent: bool,
}

impl LayerRecord {
    /// The path layers of a network.
    pub fn of(network: &Network) -> Vec<LayerRecord> {
        let graph = network.graph();
        let layer = |layer: &npcov_program::PathLayer| LayerRecord {
            name: layer.name.clone(),
            op: layer.op.to_owned(),
            neurons: layer.neurons,
            units: layer.units(graph, network.batch()),
            cut: layer.cut,
            recurrent: layer.steps.is_some() && layer.channel_axis.is_some(),
        };
        network.layers().iter().map(layer).collect()
    }
}

/// The convolutions and dense layers of a network.
fn sums(network: &Network) -> Vec<LayerShape> {
    let graph = network.graph();
    let shape = |layer: &npcov_program::PathLayer| LayerShape {
        neurons: layer.neurons,
        units: graph.value(layer.value).ty.numel() / network.batch().max(1),
    };
    network.signature().sums().iter().map(shape).collect()
}

/// How paths come from inputs. Two artefacts belong together when this is the same in both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtractionRecord {
    /// The model.
    pub model: ModelRecord,
    /// What happens to data before it enters the model.
    pub preprocessing: Preprocessing,
    /// How relevances are computed.
    pub method: MethodInfo,
    /// The path layers.
    pub layers: Vec<LayerRecord>,
    /// The convolutions and dense layers.
    pub sums: Vec<LayerShape>,
    /// Number of logits.
    pub logits: usize,
    /// By class: the share of relevance that critical neurons have together.
    pub alpha: Vec<f64>,
    /// Inputs that are computed together.
    pub micro_batch: usize,
    /// Vector instructions that were used.
    pub cpu: String,
    /// How convolutions were computed; directly, where an artefact does not say.
    #[serde(default = "direct")]
    pub kernels: String,
    /// How products were added up.
    #[serde(default = "fused")]
    pub arithmetic: String,
    /// What ran the programs; npcov's own engine, where an artefact does not say.
    #[serde(default = "native", skip_serializing_if = "is_native")]
    pub engine: String,
}

fn native() -> String {
    Native::default().name().to_owned()
}

fn is_native(engine: &str) -> bool {
    engine == Native::default().name()
}

fn fused() -> String {
    "fused".to_owned()
}

fn direct() -> String {
    Kernels::Direct.name().to_owned()
}

impl ExtractionRecord {
    /// Of a network that is explained in some way.
    pub fn new(
        network: &Network,
        method: &Method,
        model: ModelRecord,
        preprocessing: Preprocessing,
        alpha: Vec<f64>,
    ) -> ExtractionRecord {
        let engine = network.engine().record();
        ExtractionRecord {
            model,
            preprocessing,
            method: method.info(network.graph(), network.batch_norm()),
            layers: LayerRecord::of(network),
            sums: sums(network),
            logits: network.signature().logits(),
            alpha,
            micro_batch: engine.together * network.batch(),
            cpu: engine.cpu,
            kernels: engine.kernels,
            arithmetic: engine.arithmetic,
            engine: engine.engine,
        }
    }

    /// Whether npcov's own engine made it.
    pub fn is_native(&self) -> bool {
        is_native(&self.engine)
    }
}

/// Part of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DataRecord {
    /// Digest of the whole dataset: see [`Fingerprint`](npcov_data::Fingerprint).
    pub sha256: String,
    /// Its first input.
    pub start: usize,
    /// The one behind its last.
    pub end: usize,
}

impl DataRecord {
    /// A range of a dataset. All of the dataset is read once for its digest, also for a short range: ranges are known
    /// to be of one dataset by it.
    pub fn new(data: &Loader, start: usize, end: usize) -> Result<DataRecord, ArtefactError> {
        Ok(DataRecord {
            sha256: data.fingerprint()?.digest().to_string(),
            start,
            end,
        })
    }
}

/// A class of a decision graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassRecord {
    /// Its name, where the training data has names.
    pub name: Option<String>,
    /// Clusters that were asked for, or chosen.
    pub planned: usize,
    /// Clusters there are.
    pub clusters: usize,
    /// The share of members above which a neuron is abstract.
    pub beta: f64,
}

/// What a decision graph says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphRecord {
    /// The version of npcov that wrote it.
    pub version: String,
    /// Digest of everything that coverage depends on.
    pub id: String,
    /// How paths come from inputs.
    pub extraction: ExtractionRecord,
    /// The training data, as it was named.
    pub data: String,
    /// The training data.
    pub training: DataRecord,
    /// The inputs that scores are ranked among, where they are none of the training data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<DataRecord>,
    /// Where its numbers lie when they enter the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<ValueRange>,
    /// The classes.
    pub classes: Vec<ClassRecord>,
    /// How the paths of a class were clustered.
    pub clustering: Clustering,
    /// By cluster: training inputs in it, by the rule that inputs of suites are told by; each is left
    /// out where neighbours vote on it.
    pub shares: Vec<u64>,
    /// Restarts of the clustering.
    pub restarts: usize,
    /// Seed of the clustering.
    pub seed: u64,
    /// The choices.
    pub choices: Choices,
    /// The layers of ANPC and their bounds.
    pub anpc: AnpcRecord,
    /// The criteria that suites can be measured by.
    pub criteria: Vec<CriterionRecord>,
    /// The usual criteria that could not be fitted to the training data, and why.
    pub left_out: Vec<String>,
}

impl GraphRecord {
    /// The criteria that suites can be measured by.
    pub fn specs(&self) -> Vec<Spec> {
        self.criteria.iter().map(|c| c.criterion.clone()).collect()
    }

    /// What criteria know of the network, when these choices are measured with.
    pub fn network_shape(&self, choices: &Choices) -> NetworkShape {
        let classes = self.classes.iter().map(|c| (c.planned, c.clusters));
        let extraction = &self.extraction;
        extraction.network_shape(classes.collect(), choices, &self.anpc)
    }
}

/// A criterion that suites can be measured by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CriterionRecord {
    /// The criterion and its options.
    pub criterion: Spec,
    /// The options that what it learnt from the training data depends on.
    pub fitted: String,
    /// What it learnt: names of arrays.
    pub arrays: Vec<String>,
    /// What training inputs cover; `None` where it does not count things, or needs more of an input
    /// than is kept of training inputs.
    #[serde(rename = "yardstick")]
    pub training_coverage: Option<TrainingCoverage>,
}

impl CriterionRecord {
    /// The criterion and its options alone.
    pub fn bare(&self) -> CriterionRecord {
        CriterionRecord {
            training_coverage: None,
            ..self.clone()
        }
    }
}

/// What a coverage state says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// The version of npcov that wrote it.
    pub version: String,
    /// The decision graph's digest.
    pub graph: String,
    /// The choices that were measured with.
    pub choices: Choices,
    /// The layers of ANPC and their bounds.
    pub anpc: AnpcRecord,
    /// By class: clusters that were asked for and clusters there are.
    pub classes: Vec<(usize, usize)>,
    /// By cluster: training inputs in it, by the rule that inputs of suites are told by.
    pub shares: Vec<u64>,
    /// By class: training inputs that are labelled as it; empty where training inputs have no labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub training_labels: Vec<u64>,
    /// Names of the classes.
    pub class_names: Vec<Option<String>>,
    /// The path layers.
    pub layers: Vec<LayerRecord>,
    /// The convolutions and dense layers.
    pub sums: Vec<LayerShape>,
    /// Number of logits.
    pub logits: usize,
    /// The digest of the model.
    pub model: String,
    /// How products were added up: the same inputs give other bits where that differs.
    #[serde(default = "fused")]
    pub arithmetic: String,
    /// The criteria that were measured.
    pub criteria: Vec<CriterionRecord>,
    /// The suites.
    pub suites: Vec<SuiteRecord>,
}

impl StateRecord {
    /// The criteria that were measured.
    pub fn specs(&self) -> Vec<Spec> {
        self.criteria.iter().map(|c| c.criterion.clone()).collect()
    }

    /// What criteria know of the network.
    pub fn network_shape(&self) -> NetworkShape {
        let classes = self.classes.clone();
        network_shape(
            &self.layers,
            &self.sums,
            self.logits,
            classes,
            &self.choices,
            &self.anpc,
        )
    }
}

/// A suite in a coverage state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteRecord {
    /// Its name.
    pub name: String,
    /// What was measured, in order and without overlaps.
    pub shards: Vec<DataRecord>,
}

/// The layers of ANPC and their bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnpcRecord {
    /// The layers.
    pub layers: Vec<AnpcBound>,
    /// The quantile of training distances that the bounds are; `None` when they were given.
    pub quantile: Option<f64>,
}

/// A layer of ANPC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnpcBound {
    /// Its position among the path layers.
    pub layer: usize,
    /// The distance up to which there are buckets.
    pub upper: f64,
}

impl AnpcRecord {
    /// As they are measured with.
    pub fn layers(&self) -> Vec<AnpcLayer> {
        let layer = |bound: &AnpcBound| AnpcLayer {
            layer: bound.layer,
            upper: bound.upper,
        };
        self.layers.iter().map(layer).collect()
    }
}

impl ExtractionRecord {
    /// What criteria know of the network with a decision graph of so many clusters of each class.
    pub fn network_shape(
        &self,
        classes: Vec<(usize, usize)>,
        choices: &Choices,
        anpc: &AnpcRecord,
    ) -> NetworkShape {
        network_shape(
            &self.layers,
            &self.sums,
            self.logits,
            classes,
            choices,
            anpc,
        )
    }
}

/// What criteria know of a network and its decision graph.
fn network_shape(
    layers: &[LayerRecord],
    sums: &[LayerShape],
    logits: usize,
    classes: Vec<(usize, usize)>,
    choices: &Choices,
    anpc: &AnpcRecord,
) -> NetworkShape {
    let layer = |layer: &LayerRecord| LayerShape {
        neurons: layer.neurons,
        units: layer.units,
    };
    NetworkShape {
        layers: layers.iter().map(layer).collect(),
        sums: sums.to_vec(),
        recurrent: (0..layers.len()).filter(|&i| layers[i].recurrent).collect(),
        classes: classes.len(),
        logits,
        graph: Some(GraphShape {
            classes,
            choices: choices.clone(),
            anpc: anpc.layers(),
        }),
    }
}

/// Why shares of clusters are refused.
pub(crate) const TOO_MANY_INPUTS: &str = "its clusters have more training inputs than there can be";

/// Whether clusters can have these shares: training inputs are counted with 32 bits.
pub(crate) fn are_possible(shares: &[u64]) -> bool {
    let all = shares
        .iter()
        .try_fold(0_u64, |all, &share| all.checked_add(share));
    all.is_some_and(|all| u32::try_from(all).is_ok())
}

#[cfg(test)]
mod tests {
    use npcov_run::Numbers;
    use serde_json::json;

    use super::*;

    #[test]
    fn layers_and_tasks_are_stored_as_their_names() {
        let numbers = Numbers {
            output: Some(0),
            reference: vec![0.5],
            scale: vec![1.0],
            edges: Vec::new(),
            range: None,
            direction: Default::default(),
            tolerance: None,
        };
        for (task, stored) in [
            (Task::Auto, None),
            (Task::Regression(Default::default()), None),
            (Task::Classification, Some(json!("classification"))),
            (Task::Smallest, Some(json!("classification-argmin"))),
            (
                Task::Numbers(numbers.clone()),
                Some(json!({ "regression": numbers })),
            ),
        ] {
            let select = vec![Selector::Index(-1), Selector::Name("block*".to_owned())];
            let options = ModelOptions {
                layers: LayerOptions {
                    select,
                    ..LayerOptions::default()
                },
                task: task.clone(),
                ..ModelOptions::default()
            };
            let record = ModelRecord::new("digest".to_owned(), &options);
            let json = serde_json::to_value(&record).unwrap();
            assert_eq!(json["layers"], json!([-1, "block*"]));
            assert_eq!(json.get("task"), stored.as_ref(), "{task:?}");
            assert_eq!(serde_json::from_value::<ModelRecord>(json).unwrap(), record);
        }
    }

    /// Quotients have all the digits that a number can have.
    #[test]
    fn numbers_come_back_to_the_last_bit() {
        let numbers: Vec<f64> = (1..2000).map(|i| 1e3 / f64::from(i).powi(3)).collect();
        let text = serde_json::to_string(&numbers).unwrap();
        let read: Vec<f64> = serde_json::from_str(&text).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (i, number) in numbers.iter().enumerate() {
            assert_eq!(read[i].to_bits(), number.to_bits(), "{number}");
            assert_eq!(value[i].as_f64().map(f64::to_bits), Some(number.to_bits()));
        }
    }

    #[cfg(unix)]
    #[test]
    fn paths_of_any_bytes_come_back() {
        use std::os::unix::ffi::OsStrExt;
        for (bytes, text) in [
            (&b"../model.onnx"[..], "../model.onnx"),
            (b"\xff\xfe-m\xc3.onnx", "\0ff\0fe-m\0c3.onnx"),
            ("mödel".as_bytes(), "mödel"),
        ] {
            let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
            assert_eq!(to_text(path), text);
            assert_eq!(from_text(text), path);
        }
    }
}
