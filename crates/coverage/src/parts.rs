//! A decision graph that several processes build together.
//!
//! Nearly all of the work is running the network on training inputs, which depend on nothing but
//! themselves. So each process does that for a part of the shards, and one of them, or another one, learns
//! the graph from all. A shard is the same bytes whoever makes it, so the graph is as well.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use npcov_artefact::{ShardStore, WantedShard};
use npcov_run::{Found, Network, Part, Progress, shards};
use serde::{Deserialize, Serialize};

use crate::build::{BuildOptions, Learning, Prepared};
use crate::error::CoverageError;
use crate::graph::LearntGraph;

/// A part of a decision graph that was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BuiltPart {
    /// Which part of how many, as `2/4`.
    pub part: String,
    /// The folder that it was added to.
    pub folder: String,
    /// The first of its training inputs, by position in the data.
    pub start: usize,
    /// The one behind the last; the same as the first where there are more parts than shards.
    pub end: usize,
    /// How many inputs for calibration are in it.
    pub calibration: usize,
}

/// Does a part of the work of [`build`](crate::build()) and keeps it in the folder beside `output`. Several
/// processes may do that at the same time in one folder, or each in one of its own; a part that was cut
/// off goes on where it was. With all of them in one folder, [`join_parts`] gives the graph.
///
/// Parts of another model, of other data, or made with other settings are refused.
pub fn build_part<'a>(
    network: &Arc<Network>,
    inputs: impl Into<Learning<'a>>,
    options: &BuildOptions,
    part: Part,
    output: &Path,
    progress: &mut dyn Progress,
) -> Result<BuiltPart, CoverageError> {
    let prepared = Prepared::new(network, inputs.into(), options, Some(output))?;
    let store = ShardStore::shared(output, &prepared.plan)?;
    prepared.extract(&store, Some(part), progress)?;
    let rows = part.rows(prepared.inputs.training.range.clone());
    let calibration = prepared.inputs.calibration;
    let calibration = calibration.map_or(0, |inputs| part.rows(inputs.range.clone()).len());
    Ok(BuiltPart {
        part: part.to_string(),
        folder: store.folder_name(),
        start: rows.start,
        end: rows.end,
        calibration,
    })
}

/// Classes of a decision graph that were clustered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClusteredPart {
    /// Which part of how many, as `2/4`.
    pub part: String,
    /// The folder that it was added to.
    pub folder: String,
    /// The first of its classes.
    pub start: usize,
    /// The one behind the last; the same as the first where there are more parts than can be made of classes.
    pub end: usize,
}

/// Clusters a part of the classes, when all [parts](build_part) of the inputs are there, and keeps what comes out with
/// them: [`join_parts`] does not cluster these again, unless it is asked for other clusters. Several processes may do
/// that at the same time. Where there are more parts than classes, several have one: some restarts of its k-means each,
/// or some thousands of its inputs.
pub fn cluster_part<'a>(
    network: &Arc<Network>,
    inputs: impl Into<Learning<'a>>,
    options: &BuildOptions,
    part: Part,
    output: &Path,
    progress: &mut dyn Progress,
) -> Result<ClusteredPart, CoverageError> {
    let prepared = Prepared::new(network, inputs.into(), options, Some(output))?;
    let store = ShardStore::shared(output, &prepared.plan)?;
    prepared.require_all(&store)?;
    let classes = prepared.cluster_classes(&store, part, progress)?;
    Ok(ClusteredPart {
        part: part.to_string(),
        folder: store.folder_name(),
        start: classes.start,
        end: classes.end,
    })
}

/// Inputs that no [part](build_part) holds yet, or none that is whole, shard by shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingParts {
    /// Training inputs.
    pub training: Vec<Range<usize>>,
    /// Inputs for calibration.
    pub calibration: Vec<Range<usize>>,
}

/// Tells which inputs are still to be run before [`join_parts`] gives a graph. What is there of another model, of other
/// data, or made with other settings is an error.
pub fn missing_parts<'a>(
    network: &Arc<Network>,
    inputs: impl Into<Learning<'a>>,
    options: &BuildOptions,
    output: &Path,
) -> Result<MissingParts, CoverageError> {
    let prepared = Prepared::new(network, inputs.into(), options, Some(output))?;
    let store = ShardStore::shared(output, &prepared.plan)?;
    let mut missing = MissingParts::default();
    let lists = [&mut missing.training, &mut missing.calibration];
    for ((inputs, form, _), list) in prepared.runs().zip(lists) {
        let shards = shards(inputs.range.clone());
        let missing =
            shards.filter(|(i, rows)| form.find(&store, *i, rows.clone()) != Found::Whole);
        list.extend(missing.map(|(_, rows)| rows));
    }
    Ok(missing)
}

/// Learns a decision graph from all [parts](build_part), which are removed when it is written. It has the
/// bytes of a graph that one process builds. Parts that are missing, damaged, or not made for this graph
/// are named.
pub fn join_parts<'a>(
    network: &Arc<Network>,
    inputs: impl Into<Learning<'a>>,
    options: &BuildOptions,
    output: &Path,
    progress: &mut dyn Progress,
) -> Result<LearntGraph, CoverageError> {
    let prepared = Prepared::new(network, inputs.into(), options, Some(output))?;
    let store = ShardStore::joining(output, &prepared.plan)?;
    prepared.require_all(&store)?;
    prepared.finish(store, progress)
}

impl Prepared<'_> {
    /// Makes sure that all inputs have been run. What is missing, damaged, or made for something else is named.
    pub(crate) fn require_all(&self, store: &ShardStore) -> Result<(), CoverageError> {
        let runs: Vec<_> = (self.runs())
            .map(|(inputs, form, data)| (inputs, form, self.origin(data)))
            .collect();
        Ok(
            store.require(runs.iter().flat_map(|(inputs, form, origin)| {
                shards(inputs.range.clone()).map(move |(i, rows)| WantedShard {
                    name: form.name(i),
                    inputs: rows.clone(),
                    found: form.find(store, i, rows),
                    origin,
                })
            }))?,
        )
    }
}
