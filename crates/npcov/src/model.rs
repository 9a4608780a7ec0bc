//! A model.

use std::path::Path;

use npcov_artefact::{ArtefactError, Kind};
use npcov_coverage::LearntGraph;
use npcov_graph::{GraphError, Model};
use npcov_run::{Network, NetworkOptions};

use crate::error::Error;

/// Reads a model. An artefact in its place is named as what it is.
pub fn read_model(path: impl AsRef<Path>) -> Result<Model, Error> {
    let path = path.as_ref();
    Model::read(path).map_err(|error| match (&error, Kind::of(path)) {
        (GraphError::NotOnnx { .. }, Some(kind)) => ArtefactError::Artefact {
            file: path.display().to_string(),
            reason: format!("it is {}, not an ONNX model", kind.words()),
        }
        .into(),
        _ => error.into(),
    })
}

/// Reads a model and finds its logits and path layers.
pub fn open_network(path: impl AsRef<Path>, options: &NetworkOptions) -> Result<Network, Error> {
    let path = path.as_ref();
    let mut network = Network::new(read_model(path)?, options)?;
    network.set_file(path.to_owned());
    Ok(network)
}

/// Opens a decision graph with its model.
pub fn open_graph(graph: &Path, model: Option<&Path>) -> Result<LearntGraph, Error> {
    Ok(LearntGraph::open(graph, model)?)
}
