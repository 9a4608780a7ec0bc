//! A decision graph that several processes build together.
//!
//! Nearly all of the work is running the network on training inputs, which depend on nothing but
//! themselves. So each process does that for a part of the shards, and one of them, or another one, learns
//! the graph from all. A shard is the same bytes whoever makes it, so the graph is as well.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use npcov_artefact::{ArtefactError, Flaw, ShardStore};
use npcov_run::{Found, Network, Part, Progress, shards};
use serde::{Deserialize, Serialize};

use crate::build::{BuildOptions, Learning, Prepared};
use crate::error::CoverageError;
use crate::graph::LearntGraph;
use crate::training::Origin;

/// A part of a decision graph that was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        folder: folder(&store),
        start: rows.start,
        end: rows.end,
        calibration,
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
    let (mut all, mut wrong) = (0, Vec::new());
    for (inputs, form, data) in prepared.runs() {
        for (i, rows) in shards(inputs.range.clone()) {
            all += 1;
            if form.find(&store, i, rows.clone()) == Found::Whole {
                continue;
            }
            let name = form.name(i);
            let flaw = match store.flaw(&name, rows.clone()) {
                Flaw::Missing => "missing".to_owned(),
                Flaw::Damaged => "damaged".to_owned(),
                Flaw::OtherVersion(version) => format!("written by npcov {version}"),
                Flaw::OtherShard(other) => format!("it is `{other}`"),
                Flaw::OtherPlan { metadata } => {
                    other_plan(&metadata, prepared.model(), data).to_owned()
                }
            };
            let (first, last) = (rows.start, rows.end - 1);
            wrong.push(format!(
                "`{name}.safetensors`, inputs {first} to {last}: {flaw}"
            ));
        }
    }
    match wrong.is_empty() {
        true => prepared.finish(store, progress),
        false => Err(ArtefactError::Parts {
            folder: folder(&store),
            all,
            wrong,
        }
        .into()),
    }
}

fn folder(store: &ShardStore) -> String {
    let folder = store.folder();
    folder.map_or(String::new(), |folder| folder.display().to_string())
}

/// What differs for a shard that was made by another plan.
fn other_plan(metadata: &str, model: &str, data: &str) -> &'static str {
    match serde_json::from_str::<Origin>(metadata) {
        Ok(origin) if origin.model != model => "made by another model",
        Ok(origin) if origin.data != data => "made from other data",
        _ => "made with other settings",
    }
}
