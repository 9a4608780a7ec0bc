//! Inputs of suites that are shown one by one.

use std::collections::{BTreeMap, BTreeSet};

use npcov::DecisionGraph;
use npcov::artefact::{InputRecord, MeasuredSuite, ScoreKind};
use npcov::coverage::{Coverage, Rank};
use npcov::paths::{Jaccard, NO_CLUSTER};
use npcov::run::PathRows;

use super::clusters::training;
use super::{ExplainedInput, InputView, LayerMatch};
use crate::error::HtmlError;

/// Inputs that have a page, at most.
const MOST: usize = 400;
/// Classes whose logits are shown.
const LOGITS: usize = 3;
/// Training inputs that are shown beside it.
const NEAREST: usize = 5;

/// Inputs that are to have a page of their own: a suite and a position in it. The first that ask get one.
#[derive(Default)]
pub(super) struct Chosen(BTreeSet<(usize, usize)>);

impl Chosen {
    pub(super) fn ask(&mut self, suite: usize, places: impl IntoIterator<Item = usize>) {
        for place in places {
            if self.0.len() < MOST {
                self.0.insert((suite, place));
            }
        }
    }

    /// What the state says of them.
    pub(super) fn views(&self, coverage: &Coverage) -> Vec<InputView> {
        let suites = coverage.state().suites();
        let rows: Vec<Vec<(&str, usize)>> = suites.iter().map(rows).collect();
        let view = |&(suite, place): &(usize, usize)| {
            let measured = suites.get(suite)?;
            let record = measured.inputs.get(place)?;
            let &(data, input) = rows[suite].get(place)?;
            Some(InputView {
                suite,
                place,
                data: data.to_owned(),
                input,
                sample: measured
                    .names
                    .get(place)
                    .filter(|name| !name.is_empty())
                    .cloned(),
                label: record.is_correct().map(|_| record.label),
                prediction: record.prediction as usize,
                cluster: (record.cluster != NO_CLUSTER).then_some(record.cluster as usize),
                unfamiliar: rank(coverage, record, ScoreKind::Unfamiliar),
                contested: rank(coverage, record, ScoreKind::Contested),
                explained: None,
            })
        };
        self.0.iter().filter_map(view).collect()
    }
}

fn rank(coverage: &Coverage, record: &InputRecord, kind: ScoreKind) -> Option<Rank> {
    let score = record.score(kind)?;
    Some(Rank {
        score,
        p: coverage.state().calibration().p(kind, score),
    })
}

/// Where the inputs of a suite are: digests of datasets, and positions in them.
pub(super) fn rows(suite: &MeasuredSuite) -> Vec<(&str, usize)> {
    let shards = suite.shards.iter();
    shards
        .flat_map(|shard| (shard.start..shard.end).map(|row| (shard.sha256.as_str(), row)))
        .collect()
}

/// Paths and profiles of inputs that were explained.
#[derive(Default)]
pub(super) struct Explanations {
    wanted: BTreeSet<(String, usize)>,
    places: BTreeMap<(String, usize), usize>,
    rows: PathRows,
}

impl Explanations {
    /// Of the inputs that have a page.
    pub(super) fn of(inputs: &[InputView], graph: Option<&DecisionGraph>) -> Explanations {
        let width = graph.map_or(0, |graph| graph.learnt().file().graph().layout().width());
        Explanations {
            wanted: inputs
                .iter()
                .map(|input| (input.data.clone(), input.input))
                .collect(),
            rows: PathRows {
                paths: npcov::paths::BitRows::new(width),
                ..PathRows::default()
            },
            places: BTreeMap::new(),
        }
    }

    /// Keeps what was found of an input, if it is one of them.
    pub(super) fn keep(&mut self, digest: &str, row: usize, found: &PathRows, at: usize) {
        let key = (digest.to_owned(), row);
        if !self.wanted.contains(&key) {
            return;
        }
        let part = |all: usize| {
            let width = all / found.predictions.len().max(1);
            at * width..(at + 1) * width
        };
        self.places.insert(key, self.rows.predictions.len());
        self.rows.predictions.push(found.predictions[at]);
        self.rows
            .logits
            .extend_from_slice(&found.logits[part(found.logits.len())]);
        self.rows
            .profiles
            .extend_from_slice(&found.profiles[part(found.profiles.len())]);
        self.rows.paths.push(found.paths.row(at));
    }

    /// Adds what was found to what is shown.
    pub(super) fn add_to(
        &self,
        inputs: &mut [InputView],
        graph: &DecisionGraph,
    ) -> Result<(), HtmlError> {
        let nearest = graph
            .learnt()
            .nearest(&self.rows, NEAREST, graph.model().threads())?;
        let file = graph.learnt().file();
        let classes = self.rows.logits.len() / self.rows.predictions.len().max(1);
        for input in inputs {
            let key = (input.data.clone(), input.input);
            let Some(&at) = self.places.get(&key) else {
                continue;
            };
            let logits = &self.rows.logits[at * classes..(at + 1) * classes];
            let mut order: Vec<(usize, f32)> = logits.iter().copied().enumerate().collect();
            order.sort_by(|a, b| b.1.total_cmp(&a.1));
            order.truncate(LOGITS);
            let path = self.rows.paths.row(at);
            let layers = input.cluster.map(|cluster| matches(graph, path, cluster));
            input.explained = Some(ExplainedInput {
                logits: order,
                layers: layers.unwrap_or_default(),
                nearest: nearest[at]
                    .iter()
                    .map(|&found| training(file, found))
                    .collect(),
                path: path.to_vec(),
            });
        }
        Ok(())
    }
}

/// A path beside the abstract path of a cluster, layer by layer.
fn matches(graph: &DecisionGraph, path: &[u64], cluster: usize) -> Vec<LayerMatch> {
    let graph = graph.learnt().file().graph();
    let layout = graph.layout();
    let layer = |layer: usize| {
        let own = layout.layer(path, layer);
        let other = layout.layer(graph.abstract_path(cluster), layer);
        let jaccard = Jaccard::of(own, other);
        let count = |row: &[u64]| npcov::paths::bits::count(row) as usize;
        let both = jaccard.shared as usize;
        LayerMatch {
            both,
            only_input: count(own) - both,
            only_cluster: count(other) - both,
            similarity: jaccard.value(),
        }
    };
    (0..layout.layers()).map(layer).collect()
}
