//! What a report was made from.

use npcov::artefact::{GraphRecord, LayerRecord};
use npcov::coverage::Coverage;
use serde::Serialize;

/// What a report was made from.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// The version of npcov that measured the suites.
    pub measured_by: String,
    /// The digest of the decision graph.
    pub graph: String,
    /// The digest of the model.
    pub model: String,
    /// The path layers.
    pub layers: Vec<LayerRecord>,
    /// How products were added up.
    pub arithmetic: String,
    /// What the decision graph says; `None` where it is not there.
    pub learnt: Option<ModelFacts>,
    /// The datasets that were measured.
    pub data: Vec<DataFacts>,
}

/// What a decision graph says of its model and itself.
#[derive(Clone, Debug, Serialize)]
pub struct ModelFacts {
    /// The model's file.
    pub model: String,
    /// The training data, as it was named.
    pub data: String,
    /// Its digest.
    pub sha256: String,
    /// Training inputs.
    pub inputs: usize,
    /// What happens to inputs before they enter the model.
    pub preprocessing: String,
    /// How relevances are computed.
    pub method: String,
    /// The share of relevance that critical neurons have together: the least and the most of all classes.
    pub alpha: (f64, f64),
    /// The share of members above which a neuron is abstract: the least and the most of all classes.
    pub beta: (f64, f64),
    /// How training inputs became clusters.
    pub clustering: String,
    /// How convolutions were computed.
    pub kernels: String,
    /// Vector instructions that were used.
    pub cpu: String,
}

/// A dataset that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct DataFacts {
    /// The suite that it is part of.
    pub suite: String,
    /// Its digest.
    pub sha256: String,
    /// Its first input.
    pub start: usize,
    /// The one behind its last.
    pub end: usize,
    /// Where it was found; `None` where it was not.
    pub found: Option<String>,
}

impl Facts {
    pub(crate) fn of(coverage: &Coverage, learnt: Option<ModelFacts>) -> Facts {
        let record = coverage.state().record();
        let data = coverage.state().suites().iter().flat_map(|suite| {
            suite.shards.iter().map(|shard| DataFacts {
                suite: suite.name.clone(),
                sha256: shard.sha256.clone(),
                start: shard.start,
                end: shard.end,
                found: None,
            })
        });
        Facts {
            measured_by: record.version.clone(),
            graph: record.graph.clone(),
            model: record.model.clone(),
            layers: record.layers.clone(),
            arithmetic: record.arithmetic.clone(),
            learnt,
            data: data.collect(),
        }
    }
}

/// What a decision graph says.
pub(crate) fn graph_facts(record: &GraphRecord) -> ModelFacts {
    let extraction = &record.extraction;
    let range = |numbers: &mut dyn Iterator<Item = f64>| {
        numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
            (low.min(x), high.max(x))
        })
    };
    // As the record has it, without the marks of JSON.
    let words = |value: serde_json::Result<serde_json::Value>| match value {
        Ok(serde_json::Value::String(text)) => text,
        Ok(value) => plain(&value),
        Err(_) => String::new(),
    };
    ModelFacts {
        model: extraction.model.way().display().to_string(),
        data: record.data.clone(),
        sha256: record.training.sha256.clone(),
        inputs: record.training.end - record.training.start,
        preprocessing: words(serde_json::to_value(&extraction.preprocessing)),
        method: words(serde_json::to_value(&extraction.method)),
        alpha: range(&mut extraction.alpha.iter().copied()),
        beta: range(&mut record.classes.iter().map(|class| class.beta)),
        clustering: words(serde_json::to_value(&record.clustering)),
        kernels: extraction.kernels.clone(),
        cpu: extraction.cpu.clone(),
    }
}

/// A value in words: what is nothing is left out.
fn plain(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let parts: Vec<String> = values
                .iter()
                .map(plain)
                .filter(|part| !part.is_empty())
                .collect();
            parts.join(", ")
        }
        Value::Object(fields) => {
            let parts: Vec<String> = fields
                .iter()
                .map(|(name, value)| (name, plain(value)))
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            parts.join(", ")
        }
        other => other.to_string(),
    }
}
