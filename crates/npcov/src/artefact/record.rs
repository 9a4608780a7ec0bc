//! What artefacts say of where they come from.

use std::path::{Component, Path, PathBuf};

use npcov_criteria::{NetworkShape, Spec, TrainingCoverage};
use npcov_data::{Layout, Loader, Preprocessing};
use npcov_engine::{Isa, Kernels, LANES};
use npcov_paths::Choices;
use npcov_program::{BatchNorm, LayerOptions, Selector};
use serde::{Deserialize, Serialize};

use crate::build::AnpcRecord;
use crate::error::Error;
use crate::measures;
use crate::method::{Method, MethodInfo};
use crate::network::{Network, NetworkOptions};

/// A model, and what its file leaves open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// Its file, from the folder of the artefact.
    pub file: String,
    /// Its digest, external data included.
    pub sha256: String,
    /// Shape of one input, where it was given.
    pub input_shape: Option<Vec<usize>>,
    /// The output that holds the classification, where it was named.
    pub output: Option<String>,
    /// The path layers, where they were named.
    pub layers: Vec<SelectorRecord>,
    /// Whether every unit is a neuron.
    pub units: bool,
}

/// Names path layers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SelectorRecord {
    /// By position.
    Index(i64),
    /// By name or pattern.
    Name(String),
}

impl ModelRecord {
    /// Of the model in `file`, for an artefact in `artefact`.
    pub(crate) fn new(file: &Path, artefact: &Path, sha256: String, o: &NetworkOptions) -> Self {
        let selector = |selector: &Selector| match selector {
            Selector::Index(index) => SelectorRecord::Index(*index),
            Selector::Name(name) => SelectorRecord::Name(name.clone()),
        };
        ModelRecord {
            file: relative(file, artefact),
            sha256,
            input_shape: o.input_shape.clone(),
            output: o.output.clone(),
            layers: o.layers.select.iter().map(selector).collect(),
            units: o.layers.units,
        }
    }

    /// Where the model should be, for an artefact in `artefact`.
    pub fn path(&self, artefact: &Path) -> PathBuf {
        artefact.parent().unwrap_or(Path::new("")).join(&self.file)
    }

    /// How the model is opened.
    pub(crate) fn options(&self, batch_norm: BatchNorm, kernels: Kernels) -> NetworkOptions {
        let selector = |record: &SelectorRecord| match record {
            SelectorRecord::Index(index) => Selector::Index(*index),
            SelectorRecord::Name(name) => Selector::Name(name.clone()),
        };
        NetworkOptions {
            input_shape: self.input_shape.clone(),
            output: self.output.clone(),
            layers: LayerOptions {
                select: self.layers.iter().map(selector).collect(),
                units: self.units,
            },
            batch_norm,
            batch: None,
            kernels,
        }
    }
}

/// The way from an artefact's folder to a file; the file's own path where there is none.
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
    let path = way().unwrap_or_else(|| file.to_owned());
    path.display().to_string()
}

/// What happens to data before it enters the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PreprocessingRecord {
    /// Divides every number, first of all.
    pub divide: Option<f32>,
    /// Subtracted next.
    pub mean: Vec<f32>,
    /// Divides last.
    pub std: Vec<f32>,
    /// Height and width that images are brought to.
    pub resize: Option<(usize, usize)>,
    /// How the data lies.
    pub layout: Option<String>,
}

impl From<&Preprocessing> for PreprocessingRecord {
    fn from(preprocessing: &Preprocessing) -> Self {
        let Preprocessing {
            divide,
            mean,
            std,
            resize,
            layout,
        } = preprocessing.clone();
        PreprocessingRecord {
            divide,
            mean,
            std,
            resize,
            layout: layout.map(|layout| layout.to_string()),
        }
    }
}

impl PreprocessingRecord {
    /// What it stands for.
    pub fn preprocessing(&self) -> Result<Preprocessing, String> {
        let layout: Option<Layout> = match &self.layout {
            Some(text) => Some(text.parse()?),
            None => None,
        };
        let PreprocessingRecord {
            divide,
            mean,
            std,
            resize,
            ..
        } = self.clone();
        Ok(Preprocessing {
            divide,
            mean,
            std,
            resize,
            layout,
        })
    }
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
}

impl LayerRecord {
    /// The path layers of a network.
    pub(crate) fn of(network: &Network) -> Vec<LayerRecord> {
        let graph = network.graph();
        let layer = |layer: &npcov_program::PathLayer| LayerRecord {
            name: layer.name.clone(),
            op: layer.op.to_owned(),
            neurons: layer.neurons,
            units: graph.value(layer.value).ty.numel() / network.batch().max(1),
            cut: layer.cut,
        };
        network.layers().iter().map(layer).collect()
    }
}

/// How paths come from inputs. Two artefacts belong together when this is the same in both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtractionRecord {
    /// The model.
    pub model: ModelRecord,
    /// What happens to data before it enters the model.
    pub preprocessing: PreprocessingRecord,
    /// How relevances are computed.
    pub method: MethodInfo,
    /// The path layers.
    pub layers: Vec<LayerRecord>,
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
}

fn direct() -> String {
    Kernels::Direct.name().to_owned()
}

impl ExtractionRecord {
    pub(crate) fn new(
        network: &Network,
        method: &Method,
        model: ModelRecord,
        preprocessing: PreprocessingRecord,
        alpha: Vec<f64>,
    ) -> ExtractionRecord {
        ExtractionRecord {
            model,
            preprocessing,
            method: method.info(network.graph(), network.batch_norm()),
            layers: LayerRecord::of(network),
            logits: network.signature().logits(),
            alpha,
            micro_batch: LANES * network.batch(),
            cpu: Isa::detect().name().to_owned(),
            kernels: network.kernels().name().to_owned(),
        }
    }
}

/// Part of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DataRecord {
    /// Digest of the whole dataset.
    pub sha256: String,
    /// Its first input.
    pub start: usize,
    /// The one behind its last.
    pub end: usize,
}

impl DataRecord {
    /// A range of a dataset.
    pub(crate) fn new(data: &Loader, start: usize, end: usize) -> Result<DataRecord, Error> {
        Ok(DataRecord {
            sha256: data.dataset().digest()?.to_string(),
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
    /// The classes.
    pub classes: Vec<ClassRecord>,
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
    pub(crate) fn network_shape(&self, choices: &Choices) -> NetworkShape {
        let classes = self.classes.iter().map(|c| (c.planned, c.clusters));
        let extraction = &self.extraction;
        let (layers, logits) = (&extraction.layers, extraction.logits);
        measures::network_shape(layers, logits, classes.collect(), choices, &self.anpc)
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
    pub(crate) fn bare(&self) -> CriterionRecord {
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
    /// By cluster: training inputs in it.
    pub members: Vec<u64>,
    /// Names of the classes.
    pub class_names: Vec<Option<String>>,
    /// The path layers.
    pub layers: Vec<LayerRecord>,
    /// Number of logits.
    pub logits: usize,
    /// The digest of the model.
    pub model: String,
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
    pub(crate) fn network_shape(&self) -> NetworkShape {
        let classes = self.classes.clone();
        measures::network_shape(
            &self.layers,
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
