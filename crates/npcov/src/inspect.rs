//! What a model's file holds, and what npcov makes of it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use npcov_engine::EngineError;
use npcov_graph::{Declaration, Dim, Ending, GraphError, OnnxModel};
use npcov_program::PathLayer;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use npcov_run::{ModelOptions, Network, RunError};

/// The facts about a model.
///
/// What can be read from the file is always there; what needs a model that can be run is absent
/// (`None`, or an empty list) when [`problem`](Inspection::problem) says why it cannot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Inspection {
    /// The model's file, as it was named.
    pub file: String,
    /// The program that wrote the file, with its version.
    pub producer: String,
    /// Version of the standard operator set.
    pub opset: i64,
    /// What the model takes.
    pub inputs: Vec<Port>,
    /// What the model gives.
    pub outputs: Vec<Port>,
    /// Number of stored floating-point numbers: weights, biases, statistics.
    pub parameters: usize,
    /// How often each operator occurs in the file.
    pub operators: BTreeMap<String, usize>,
    /// Nodes that compute with quantised integers; npcov computes the numbers that these stand for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quantised: usize,
    /// How inputs are put together into batches.
    pub batch: Option<Batching>,
    /// How many classes the model tells apart.
    pub classes: Option<usize>,
    /// The layers whose neurons a path consists of, from input to output.
    pub path_layers: Vec<LayerInfo>,
    /// Where there are no path layers: hidden convolutions and dense layers, which can be named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameable: Vec<String>,
    /// The nodes that cannot be used: all of them, not only the first.
    pub unsupported: Vec<Unsupported>,
    /// Why the model cannot be run, when it cannot.
    pub problem: Option<String>,
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Port {
    /// Its name.
    pub name: String,
    /// `float`, `integer` or `bool`; `None` for what is no tensor of numbers.
    pub dtype: Option<String>,
    /// Extent of each axis; `None` when the file does not say.
    pub shape: Option<Vec<Extent>>,
    /// For the output that holds the classification: what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<EndingKind>,
}

/// Extent of an axis: a number, or the name of an axis that the file leaves open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Extent {
    /// A number.
    Fixed(usize),
    /// Open, with its name in the file; `?` when it has none.
    Open(String),
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Fixed(n) => n.fmt(f),
            Extent::Open(name) => f.write_str(name),
        }
    }
}

/// How inputs are put together into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batching {
    /// The batch size that the file fixes; `None` when it is open.
    pub declared: Option<usize>,
    /// Inputs that go through the graph together: 1, unless the file's batch size cannot be undone.
    pub graph: usize,
}

/// What follows the logits in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndingKind {
    /// Nothing: the output is the logits.
    Logits,
    /// Softmax.
    Softmax,
    /// The logarithm of softmax.
    LogSoftmax,
    /// A sigmoid of a single logit: two classes.
    Sigmoid,
    /// The class with the smallest score is chosen.
    Smallest,
    /// The output is numbers.
    Numbers,
}

/// A path layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerInfo {
    /// Position among the path layers.
    pub index: usize,
    /// The node's name in the file.
    pub name: String,
    /// The operator whose output it is.
    pub op: String,
    /// Number of neurons.
    pub neurons: usize,
    /// Whether every path from input to logits crosses this layer.
    pub cut: bool,
}

/// A node that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Unsupported {
    /// The node's name, or that of its first output when it has none.
    pub node: String,
    /// Its operator, with its domain when that is not the standard one.
    pub op: String,
    /// What stands in the way.
    pub reason: String,
}

/// Looks into a model.
///
/// A file that can be read but not run gives what the file says *and* the reason; only a file that
/// cannot be read gives no inspection at all.
pub fn inspect(
    path: impl AsRef<Path>,
    options: &ModelOptions,
) -> Result<(Inspection, Option<RunError>), Error> {
    let path = path.as_ref();
    let model = crate::model::read_model(path)?;
    Ok(inspect_model(model, path.display().to_string(), options))
}

/// The same of the bytes of an ONNX file.
pub fn inspect_bytes(
    bytes: impl Into<Vec<u8>>,
    options: &ModelOptions,
) -> Result<(Inspection, Option<RunError>), Error> {
    let model = OnnxModel::from_bytes(bytes.into())?;
    Ok(inspect_model(
        model,
        "a model in memory".to_owned(),
        options,
    ))
}

fn inspect_model(
    model: OnnxModel,
    file: String,
    options: &ModelOptions,
) -> (Inspection, Option<RunError>) {
    let mut inspection = Inspection {
        file,
        producer: model.producer(),
        opset: model.opset(),
        inputs: model.inputs().iter().map(Port::from).collect(),
        outputs: model.outputs().iter().map(Port::from).collect(),
        parameters: model.parameters(),
        operators: model.operators(),
        quantised: model.quantised_nodes(),
        batch: None,
        classes: None,
        path_layers: Vec::new(),
        nameable: Vec::new(),
        unsupported: Vec::new(),
        problem: None,
    };
    let problem = match Network::new(model, options) {
        Ok(network) => {
            inspection.add(&network);
            // The graph is understood; whether it can be run shows when it is prepared.
            network.tracer(&[]).err()
        }
        Err(error) => Some(error),
    };
    if let Some(error) = &problem {
        inspection.unsupported = unsupported(error);
        inspection.problem = Some(error.to_string());
    }
    (inspection, problem)
}

impl Inspection {
    fn add(&mut self, network: &Network) {
        self.batch = Some(Batching {
            declared: network.declared_batch(),
            graph: network.batch(),
        });
        self.classes = Some(network.classes());
        let output = |o: &&mut Port| network.output() == o.name;
        if let Some(output) = self.outputs.iter_mut().find(output) {
            output.ending = Some(match network.classifier().ending {
                Ending::Logits => EndingKind::Logits,
                Ending::Softmax => EndingKind::Softmax,
                Ending::LogSoftmax => EndingKind::LogSoftmax,
                Ending::Sigmoid => EndingKind::Sigmoid,
                Ending::Smallest => EndingKind::Smallest,
                Ending::Numbers => EndingKind::Numbers,
            });
        }
        let layers = network.layers().iter().enumerate();
        self.path_layers = layers.map(|(i, layer)| LayerInfo::new(i, layer)).collect();
        if self.path_layers.is_empty() {
            let logits = network.classifier().logits;
            let sums = network.signature().sums().iter();
            let hidden = sums.filter(|layer| layer.value != logits);
            self.nameable = hidden.map(|layer| layer.name.clone()).collect();
        }
    }
}

impl LayerInfo {
    fn new(index: usize, layer: &PathLayer) -> LayerInfo {
        LayerInfo {
            index,
            name: layer.name.clone(),
            op: layer.op.to_owned(),
            neurons: layer.neurons,
            cut: layer.cut,
        }
    }
}

impl From<&Declaration> for Port {
    fn from(declaration: &Declaration) -> Port {
        let extent = |dim: &Dim| match dim {
            Dim::Fixed(n) => Extent::Fixed(*n),
            Dim::Open(_) => Extent::Open(dim.to_string()),
        };
        let dims = declaration.dims.as_ref();
        Port {
            name: declaration.name.clone(),
            dtype: declaration.dtype.map(|dtype| dtype.to_string()),
            shape: dims.map(|dims| dims.iter().map(extent).collect()),
            ending: None,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn unsupported(error: &RunError) -> Vec<Unsupported> {
    match error {
        RunError::Graph(GraphError::Nodes(nodes)) | RunError::Engine(EngineError::Nodes(nodes)) => {
            nodes
                .iter()
                .map(|node| Unsupported {
                    node: node.node.clone(),
                    op: node.op_type.clone(),
                    reason: node.reason.to_string(),
                })
                .collect()
        }
        _ => Vec::new(),
    }
}
