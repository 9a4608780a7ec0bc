//! Everything that the pages show, in numbers: what `report.json` holds.

mod album;
mod clusters;
mod facts;
mod gather;
mod inputs;
mod neurons;
mod suites;

use npcov::coverage::{Check, ComparedReport, Gaps, Rank, SuiteReport};
use serde::Serialize;

pub(crate) use album::{Album, Picture, Pictures};
pub(crate) use facts::graph_facts;
pub use facts::{DataFacts, Facts, ModelFacts};
pub use gather::{Material, gather};

/// What is shown of a coverage state, its decision graph and its data.
#[derive(Clone, Debug, Serialize)]
pub struct Dossier {
    /// What it was made from.
    pub facts: Facts,
    /// What suites cover, and what changed.
    #[serde(flatten)]
    pub compared: ComparedReport,
    /// Whether the rules hold; `None` without rules.
    pub check: Option<Check>,
    /// More of each suite, in the order of `suites`.
    pub views: Vec<SuiteView>,
    /// The classes.
    pub classes: Vec<ClassView>,
    /// The clusters of the decision graph.
    pub clusters: Vec<ClusterView>,
    /// The inputs of suites that are shown one by one.
    pub inputs: Vec<InputView>,
    /// Neurons that tell clusters apart.
    pub neurons: Vec<NeuronView>,
    /// What changed in classes since an earlier state of the same graph.
    pub class_changes: Vec<ClassChange>,
    /// What changed in clusters since an earlier state of the same graph.
    pub changes: Vec<ClusterChange>,
    /// The digest of the pool that gaps may be filled from; `None` without one.
    pub pool: Option<String>,
    /// What could not be shown, and why.
    pub notes: Vec<String>,
    #[serde(skip)]
    pub(crate) pictures: Pictures,
}

/// More of a suite.
#[derive(Clone, Debug, Serialize)]
pub struct SuiteView {
    /// What it is missing, with inputs; `None` without the decision graph.
    pub gaps: Option<Gaps>,
    /// Inputs that are not classified as labelled, in groups, the largest first.
    pub errors: Vec<ErrorGroup>,
    /// How many groups there are; of many, the largest are listed.
    pub error_groups: usize,
    /// The inputs that are decided least as training inputs are: positions in the suite.
    pub unfamiliar: Vec<usize>,
    /// The inputs that are decided most as inputs of another class: positions in the suite.
    pub contested: Vec<usize>,
    /// How many buckets of SNPC the first inputs cover: one number for each part of the suite.
    pub growth: Vec<usize>,
}

/// Inputs of one label that are classified as one other class, and belong to one cluster of that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorGroup {
    /// The label.
    pub label: i64,
    /// The predicted class.
    pub prediction: usize,
    /// The cluster; `None` for none.
    pub cluster: Option<usize>,
    /// How many inputs there are.
    pub inputs: usize,
    /// The first of them: positions in the suite.
    pub places: Vec<usize>,
}

/// A class.
#[derive(Clone, Debug, Serialize)]
pub struct ClassView {
    /// Its number.
    pub class: usize,
    /// Its name, where the training data has names.
    pub name: Option<String>,
    /// Training inputs in its clusters.
    pub training: u64,
    /// Its first cluster.
    pub first_cluster: usize,
    /// How many clusters it has.
    pub clusters: usize,
}

/// A cluster.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterView {
    /// Its number, among those of the graph.
    pub cluster: usize,
    /// Its class.
    pub class: usize,
    /// Training inputs that belong to it.
    pub training: u64,
    /// By suite, and by layer: covered buckets of SNPC.
    pub covered: Vec<Vec<usize>>,
    /// Buckets of SNPC of each layer.
    pub buckets: usize,
    /// By layer: buckets of SNPC that the training inputs of its class cover. `None` without the graph, or where there
    /// are very many of them.
    pub reached: Option<Vec<usize>>,
    /// What the decision graph knows of it; `None` without the graph.
    pub anatomy: Option<Anatomy>,
    /// By suite: inputs that belong to it, positions in the suite, the most familiar first.
    pub inputs: Vec<Vec<usize>>,
    /// By suite: how many of its inputs are not classified as labelled; `None` without labels.
    pub wrong: Vec<Option<usize>>,
    /// By suite: the first of those, positions in the suite, the most familiar first.
    pub misclassified: Vec<Vec<usize>>,
    /// How similar inputs' paths are to its own: training inputs, and those of each suite.
    pub similarities: Option<Similarities>,
}

/// What a decision graph knows of a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct Anatomy {
    /// The share of neurons that are in its abstract path, over the layers.
    pub width: f64,
    /// By layer.
    pub layers: Vec<LayerAnatomy>,
    /// The labels that its members have most often, and how many do.
    pub labels: Vec<(i64, usize)>,
    /// Members that are nearest to its centre.
    pub exemplars: Vec<Training>,
    /// Members that are farthest from it.
    pub outliers: Vec<Training>,
    /// Members that are not classified as labelled, those nearest to its centre.
    pub misclassified: Vec<Training>,
    /// Where it is on the map of clusters; `None` for the smallest of very many.
    pub place: Option<(f64, f64)>,
    /// The most similar clusters, and how similar they are.
    pub similar: Vec<(usize, f64)>,
    /// Members that are like no input of the suites: their similarities fall where suites have none.
    pub hints: Vec<Training>,
    #[serde(skip)]
    pub(crate) frequencies: Vec<Vec<f64>>,
}

/// A layer of a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct LayerAnatomy {
    /// Neurons in the abstract path.
    pub path: usize,
    /// Those of them that another cluster of the class has too.
    pub shared: usize,
    /// Neurons that other clusters of the class have in theirs, and it has not.
    pub missing: usize,
    /// Neurons in the path of any member.
    pub used: usize,
    /// The abstract path: a bit for each neuron, as hexadecimal digits, the first neuron first.
    pub bits: String,
}

/// A training input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Training {
    /// Its position in the training data.
    pub input: usize,
    /// What it is called, where it has a name.
    pub sample: Option<String>,
    /// Its label, where there are labels.
    pub label: Option<i64>,
    /// How far it is, or how strong, or how similar.
    pub value: f64,
}

/// How often each of twenty degrees of similarity occurs.
#[derive(Clone, Debug, Serialize)]
pub struct Similarities {
    /// Among training inputs.
    pub training: Vec<usize>,
    /// By suite.
    pub suites: Vec<Vec<usize>>,
    /// Degrees that training inputs have and no suite has.
    pub untried: Vec<usize>,
}

/// An input of a suite that is shown by itself.
#[derive(Clone, Debug, Serialize)]
pub struct InputView {
    /// Its suite: a position among `suites`.
    pub suite: usize,
    /// Its position in the suite.
    pub place: usize,
    /// The dataset's digest.
    pub data: String,
    /// Its position in the dataset.
    pub input: usize,
    /// What it is called, where it has a name.
    pub sample: Option<String>,
    /// Its label; `None` without labels.
    pub label: Option<i64>,
    /// The predicted class.
    pub prediction: usize,
    /// The cluster that it belongs to; `None` for none.
    pub cluster: Option<usize>,
    /// How far its decision is from all that training showed of its class.
    pub unfamiliar: Option<Rank>,
    /// How much its decision looks like one of another class.
    pub contested: Option<Rank>,
    /// What explaining it found; `None` where the model or the data is not there.
    pub explained: Option<ExplainedInput>,
}

/// What explaining an input found.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedInput {
    /// The classes with the highest logits, and those.
    pub logits: Vec<(usize, f32)>,
    /// By layer: how its path compares with that of its cluster.
    pub layers: Vec<LayerMatch>,
    /// The nearest training inputs of its class.
    pub nearest: Vec<Training>,
    #[serde(skip)]
    pub(crate) path: Vec<u64>,
}

/// A layer of an input's path beside that of its cluster.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LayerMatch {
    /// Neurons in both.
    pub both: usize,
    /// Only in the input's path.
    pub only_input: usize,
    /// Only in the cluster's.
    pub only_cluster: usize,
    /// How similar they are.
    pub similarity: f64,
}

/// A neuron.
#[derive(Clone, Debug, Serialize)]
pub struct NeuronView {
    /// Its layer, among the path layers.
    pub layer: usize,
    /// Its position in the layer.
    pub neuron: usize,
    /// The clusters that have it in their abstract path.
    pub clusters: Vec<usize>,
    /// The share of training inputs that have it in their paths.
    pub frequency: f64,
    /// Training inputs in which it has the largest part of its layer's relevance, and that part.
    pub strongest: Vec<Training>,
}

/// What changed in a class.
#[derive(Clone, Debug, Serialize)]
pub struct ClassChange {
    /// The suite: a position among `suites`.
    pub suite: usize,
    /// The class.
    pub class: usize,
    /// Inputs in its clusters earlier.
    pub earlier: usize,
    /// Inputs in its clusters now.
    pub inputs: usize,
    /// Buckets of SNPC that are covered now, and were not.
    pub new: usize,
    /// Buckets of SNPC that were covered, and are no longer.
    pub lost: usize,
}

/// What changed in a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterChange {
    /// The suite: a position among `suites`.
    pub suite: usize,
    /// The cluster.
    pub cluster: usize,
    /// Its class.
    pub class: usize,
    /// Inputs of it earlier.
    pub earlier: usize,
    /// Inputs of it now.
    pub inputs: usize,
    /// Buckets of SNPC that are covered now, and were not.
    pub new: usize,
    /// Buckets of SNPC that were covered, and are no longer.
    pub lost: usize,
}

impl Dossier {
    /// What suites cover.
    pub(crate) fn suites(&self) -> &[SuiteReport] {
        &self.compared.report.suites
    }

    /// The page of an input of a suite, where it has one.
    pub(crate) fn input(&self, suite: usize, place: usize) -> Option<&InputView> {
        let found = |input: &InputView| (input.suite, input.place).cmp(&(suite, place));
        let at = self.inputs.binary_search_by(found).ok()?;
        self.inputs.get(at)
    }

    /// What a class is called.
    pub(crate) fn class_name(&self, class: usize) -> Option<&str> {
        self.classes.get(class)?.name.as_deref()
    }
}
