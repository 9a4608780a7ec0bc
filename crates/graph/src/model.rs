//! A model as its file describes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::Bytes;
use prost::Message;

use crate::error::GraphError;
use crate::import::known;
use crate::onnx::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto,
};
use crate::onnx::tensor::{ExternalData, dtype_of};
use crate::op::is_quantised;
use crate::tensor::DType;

/// The oldest operator set that npcov reads: the first with NumPy's broadcasting.
const OLDEST_OPSET: i64 = 7;

/// The largest model file: protobuf messages end at 2 GiB. Larger models have external data.
const LARGEST_FILE: u64 = 1 << 31;

/// Extent of an axis as a model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A number.
    Fixed(usize),
    /// Open, with the name that the model gives it, if any.
    Open(String),
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(n) => write!(f, "{n}"),
            Dim::Open(name) if name.is_empty() => f.write_str("?"),
            Dim::Open(name) => f.write_str(name),
        }
    }
}

/// An input or output as the model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Name.
    pub name: String,
    /// Element type, `None` for what is no tensor of numbers.
    pub dtype: Option<DType>,
    /// Element type as ONNX numbers it (`TensorProto.DataType`): 1 is `float`, 10 `float16`; 0
    /// when the model does not say.
    pub onnx_type: i32,
    /// Extent of each axis; `None` when the model does not say.
    pub dims: Option<Vec<Dim>>,
}

impl Declaration {
    /// The shape in words: `Nx3x32x32`.
    pub fn shape(&self) -> String {
        match &self.dims {
            None => "unknown".to_owned(),
            Some(dims) if dims.is_empty() => "scalar".to_owned(),
            Some(dims) => dims
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("x"),
        }
    }
}

/// An ONNX model, decoded but not interpreted: shapes may be open, operators unknown.
///
/// [`OnnxModel::specialise`] turns it into a [`Graph`](crate::Graph).
#[derive(Clone, Debug)]
pub struct OnnxModel {
    pub(crate) proto: ModelProto,
    pub(crate) external: ExternalData,
    /// Where it was read; `None` for one that was in memory.
    path: Option<PathBuf>,
    /// The whole file. Its raw tensors are parts of it, so it is in memory anyway.
    pub(crate) file: Bytes,
    /// Made when it is first asked for.
    pub(crate) digest: OnceLock<[u8; 32]>,
}

impl OnnxModel {
    /// Reads a model from a file. External data is looked for in the file's folder, and read when it
    /// is first needed; from then on the model keeps it, as it keeps its own file.
    pub fn read(path: impl AsRef<Path>) -> Result<OnnxModel, GraphError> {
        let path = path.as_ref();
        let bytes = npcov_file::read(path, LARGEST_FILE).map_err(|source| GraphError::Io {
            path: path.to_owned(),
            source,
        })?;
        let folder = match path.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let model = OnnxModel::decode(bytes.into(), path, Some(folder))?;
        Ok(OnnxModel {
            path: Some(path.to_owned()),
            ..model
        })
    }

    /// Decodes a model from memory.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<OnnxModel, GraphError> {
        OnnxModel::decode(bytes.into(), Path::new("model"), None)
    }

    /// The file that it was read from; `None` for a model that was in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn decode(bytes: Bytes, path: &Path, folder: Option<PathBuf>) -> Result<OnnxModel, GraphError> {
        let not_onnx = |reason: &str| GraphError::NotOnnx {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let proto = ModelProto::decode(bytes.clone()).map_err(|e| not_onnx(&e.to_string()))?;
        // Every field is optional on the wire, so almost any bytes decode to something.
        if proto.graph.is_none() {
            return Err(not_onnx("it holds no graph"));
        }
        let model = OnnxModel {
            proto,
            external: ExternalData::new(folder),
            path: None,
            file: bytes,
            digest: OnceLock::new(),
        };
        let opset = model.opset();
        // A model of other domains alone (decision trees) need not say which standard set it means.
        let is_standard = model.graph().node.iter().any(NodeProto::is_standard);
        if opset < OLDEST_OPSET && is_standard {
            return Err(GraphError::Invalid(format!(
                "operator set {opset} is older than {OLDEST_OPSET}; convert the model with \
                 `onnx.version_converter`"
            )));
        }
        if !model.graph().sparse_initializer.is_empty() {
            return Err(GraphError::Invalid(
                "sparse initialisers are not supported".to_owned(),
            ));
        }
        Ok(model)
    }

    pub(crate) fn graph(&self) -> &GraphProto {
        // `decode` refuses a model without one.
        static EMPTY: std::sync::LazyLock<GraphProto> = std::sync::LazyLock::new(Default::default);
        self.proto.graph.as_ref().unwrap_or(&EMPTY)
    }

    /// Version of the standard operator set.
    pub fn opset(&self) -> i64 {
        standard_opset(&self.proto.opset_import).unwrap_or(1)
    }

    /// The program that wrote the file, with its version.
    pub fn producer(&self) -> String {
        [&self.proto.producer_name, &self.proto.producer_version]
            .into_iter()
            .flatten()
            .filter(|s| !s.is_empty())
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The inputs that a caller provides: not those that are initialisers.
    pub fn inputs(&self) -> Vec<Declaration> {
        let graph = self.graph();
        let is_initializer = |name: &Option<String>| {
            graph
                .initializer
                .iter()
                .any(|t: &TensorProto| &t.name == name)
        };
        graph
            .input
            .iter()
            .filter(|info| !is_initializer(&info.name))
            .map(declaration)
            .collect()
    }

    /// The outputs.
    pub fn outputs(&self) -> Vec<Declaration> {
        self.graph().output.iter().map(declaration).collect()
    }

    /// The output that holds the classification, unless another is named: the first one of
    /// floating-point numbers. Labels and numbers of boxes are integers; scikit-learn's
    /// dictionaries of probabilities are no tensor, but have numbers.
    pub fn main_output(&self) -> Option<Declaration> {
        let outputs = self.outputs();
        let numbers = |o: &&Declaration| match o.dtype {
            Some(DType::F32) => true,
            Some(DType::I64 | DType::Bool) => false,
            None => o.onnx_type == 0,
        };
        let found = outputs.iter().find(numbers).cloned();
        found.or_else(|| outputs.first().cloned())
    }

    /// How often each operator occurs, by name; with its domain when that is not the standard one.
    pub fn operators(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for node in &self.graph().node {
            *counts.entry(node.qualified_op()).or_insert(0) += 1;
        }
        counts
    }

    /// The operators among [`OnnxModel::operators`] that npcov does not know: neither of the standard
    /// set nor a function of the model. Functions and branches are looked into.
    pub fn unknown_operators(&self) -> BTreeSet<String> {
        let functions = &self.proto.functions;
        let is_function = |node: &NodeProto| {
            let text = |s: &Option<String>| s.clone().unwrap_or_default();
            functions
                .iter()
                .any(|f| f.name == node.op_type && text(&f.domain) == text(&node.domain))
        };
        let mut unknown = BTreeSet::new();
        let mut pending: Vec<&[NodeProto]> = vec![&self.graph().node];
        pending.extend(functions.iter().map(|f| f.node.as_slice()));
        while let Some(nodes) = pending.pop() {
            for node in nodes {
                if known(node).is_err() && !is_function(node) {
                    unknown.insert(node.qualified_op());
                }
                let branches = node.attribute.iter().filter_map(|a| a.g.as_deref());
                pending.extend(branches.map(|g| g.node.as_slice()));
            }
        }
        unknown
    }

    /// Number of nodes that compute with quantised integers.
    pub fn quantised_nodes(&self) -> usize {
        let is_quantised = |n: &&NodeProto| is_quantised(n.op_type());
        self.graph().node.iter().filter(is_quantised).count()
    }

    /// Number of stored floating-point numbers, and of integers that stand for such: weights, biases, statistics.
    pub fn parameters(&self) -> usize {
        let quantised = self.graph().node.iter();
        let quantised = quantised.filter(|n| is_quantised(n.op_type()));
        let read: BTreeSet<&str> = quantised
            .flat_map(|n| n.input.iter().map(String::as_str))
            .collect();
        let counted = |t: &&TensorProto| {
            dtype_of(t.data_type.unwrap_or_default()) == Some(DType::F32)
                || t.name.as_deref().is_some_and(|name| read.contains(name))
        };
        let numel = |t: &TensorProto| {
            t.dims
                .iter()
                .try_fold(1usize, |acc, &d| acc.checked_mul(usize::try_from(d).ok()?))
                .unwrap_or(0)
        };
        let graph = self.graph();
        let constants = graph
            .node
            .iter()
            .filter(|n| n.op_type.as_deref() == Some("Constant"))
            .flat_map(|n| n.attribute.iter().filter_map(|a| a.t.as_ref()));
        graph
            .initializer
            .iter()
            .chain(constants)
            .filter(counted)
            .map(numel)
            .fold(0, usize::saturating_add)
    }
}

/// Version of the standard operator set among a model's or a function's.
pub(crate) fn standard_opset(imports: &[OperatorSetIdProto]) -> Option<i64> {
    imports
        .iter()
        .find(|o| matches!(o.domain.as_deref(), None | Some("" | "ai.onnx")))
        .and_then(|o| o.version)
}

fn declaration(info: &ValueInfoProto) -> Declaration {
    let tensor = info.r#type.as_ref().and_then(|t| t.tensor_type.as_ref());
    let dims = tensor.and_then(|t| t.shape.as_ref()).map(|shape| {
        shape
            .dim
            .iter()
            .map(|d| match d.dim_value.map(usize::try_from) {
                Some(Ok(n)) if n > 0 => Dim::Fixed(n),
                // Zero and negative extents mean "open" in old PaddlePaddle and Keras exports.
                _ => Dim::Open(d.dim_param.clone().unwrap_or_default()),
            })
            .collect()
    });
    let onnx_type = tensor.and_then(|t| t.elem_type).unwrap_or_default();
    Declaration {
        name: info.name.clone().unwrap_or_default(),
        dtype: dtype_of(onnx_type),
        onnx_type,
        dims,
    }
}

impl crate::onnx::proto::NodeProto {
    /// Whether the node is of the standard domain.
    pub(crate) fn is_standard(&self) -> bool {
        matches!(self.domain(), "" | "ai.onnx")
    }

    /// The node's name, or that of its first output when it has none.
    pub(crate) fn label(&self) -> &str {
        match self.name.as_deref() {
            Some(name) if !name.is_empty() => name,
            _ => self.output.first().map_or("", String::as_str),
        }
    }

    /// The operator's name, with its domain when that is not the standard one.
    pub(crate) fn qualified_op(&self) -> String {
        let op = self.op_type.as_deref().unwrap_or_default();
        match self.is_standard() {
            true => op.to_owned(),
            false => format!("{}.{op}", self.domain()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::{AttributeProto, FunctionProto};

    fn node(domain: &str, op_type: &str) -> NodeProto {
        NodeProto {
            domain: Some(domain.to_owned()),
            op_type: Some(op_type.to_owned()),
            ..Default::default()
        }
    }

    #[test]
    fn unknown_operators_are_found_in_functions_and_branches() {
        let mut branching = node("", "If");
        branching.attribute.push(AttributeProto {
            g: Some(Box::new(GraphProto {
                node: vec![node("", "Relu"), node("", "Mystery")],
                ..Default::default()
            })),
            ..Default::default()
        });
        let model = ModelProto {
            graph: Some(GraphProto {
                node: vec![branching, node("own", "Block"), node("other", "Block")],
                ..Default::default()
            }),
            functions: vec![FunctionProto {
                name: Some("Block".to_owned()),
                domain: Some("own".to_owned()),
                node: vec![node("", "Constant"), node("", "Riddle")],
                ..Default::default()
            }],
            opset_import: vec![OperatorSetIdProto {
                domain: None,
                version: Some(17),
            }],
            ..Default::default()
        };
        let model = OnnxModel::from_bytes(model.encode_to_vec()).unwrap();
        let unknown: Vec<String> = model.unknown_operators().into_iter().collect();
        assert_eq!(unknown, ["Mystery", "Riddle", "other.Block"]);
    }
}
