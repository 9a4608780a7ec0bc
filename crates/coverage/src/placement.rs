//! One input's critical decision path, and its place in a decision graph.

use npcov_artefact::{NO_SCORE, ScoreKind};
use npcov_paths::{ClusterView, NO_CLUSTER, Observation, bits};
use serde::{Deserialize, Serialize};

use npcov_run::{PathExtractor, PathRows};

use crate::error::CoverageError;
use crate::measurement::Measurement;
use crate::scores::Scores;

/// The critical decision path of an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PathExplanation {
    /// The share of relevance that critical neurons have together.
    pub alpha: f64,
    /// The share of neurons that are critical, over the layers.
    pub width: f64,
    /// By path layer: the critical neurons, in order.
    pub layers: Vec<Vec<usize>>,
    /// Where it is in a decision graph; `None` without one.
    pub placement: Option<Placement>,
}

/// Where an input is in a decision graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Placement {
    /// The clusters of its class.
    pub clusters: Vec<ClusterPlacement>,
    /// The one that it belongs to; `None` when the class has none.
    pub cluster: Option<usize>,
    /// Members of that cluster that are most similar to its abstract path.
    pub exemplars: Vec<Exemplar>,
    /// The most similar cluster of another class.
    pub other: Option<OtherPlacement>,
    /// How far its decision is from all that training showed of its class; `None` when that is nothing.
    pub unfamiliar: Option<Rank>,
    /// How much its decision looks like one of another class; `None` when there is no other.
    pub contested: Option<Rank>,
}

/// A score, and how unusual it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// The score.
    pub score: f64,
    /// The share of inputs with at least such a score, among those that the graph was learnt without;
    /// `None` without such inputs.
    pub p: Option<f64>,
}

/// An input, seen from a cluster of its class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClusterPlacement {
    /// The cluster, among those of the graph.
    pub cluster: usize,
    /// Number of its members.
    pub members: usize,
    /// The similarity of the input's path to the abstract path.
    pub similarity: f64,
    /// By path layer: the similarity.
    pub layers: Vec<f64>,
    /// By path layer: the bucket of SNPC; `None` for none.
    pub snpc: Vec<Option<u16>>,
    /// By layer of ANPC: the distance to the activations of a member.
    pub distances: Vec<f64>,
    /// By layer of ANPC: the bucket; `None` for none.
    pub anpc: Vec<Option<u16>>,
}

/// A typical member of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exemplar {
    /// Its position in the training data.
    pub input: usize,
    /// What it is called, where it has a name: a file of an image folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// Its label, where there are labels.
    pub label: Option<i64>,
    /// The name of the class that it is labelled as, where classes have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_name: Option<String>,
    /// The similarity of its path to the abstract path.
    pub similarity: f64,
}

/// A cluster of another class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OtherPlacement {
    /// The cluster, among those of the graph.
    pub cluster: usize,
    /// Its class.
    pub class: usize,
    /// The class's name, where the training data has names.
    pub name: Option<String>,
    /// The similarity of the input's path to the abstract path.
    pub similarity: f64,
}

impl PathExplanation {
    /// The path of an input of a class, the only one of `paths`.
    pub fn of(extractor: &PathExtractor, class: usize, paths: &PathRows) -> PathExplanation {
        let layout = extractor.layout();
        let row = paths.paths.row(0);
        let layers: Vec<Vec<usize>> = (0..layout.layers())
            .map(|layer| bits::ones(layout.layer(row, layer)).collect())
            .collect();
        let share = |(layer, neurons): (usize, &Vec<usize>)| {
            neurons.len() as f64 / layout.neurons(layer).max(1) as f64
        };
        PathExplanation {
            alpha: extractor.alpha(class),
            width: layers.iter().enumerate().map(share).sum::<f64>() / layers.len().max(1) as f64,
            layers,
            placement: None,
        }
    }
}

impl Measurement<'_> {
    /// Where an input is in the decision graph; `exemplars` is the number of typical training inputs
    /// that are named.
    pub fn place(&self, paths: &PathRows, exemplars: usize) -> Result<Placement, CoverageError> {
        let observation = self.observe(paths, 0)?;
        let file = self.graph().file();
        let (graph, record) = (file.graph(), file.record());
        let scores = self.scores(paths, 1)?;
        let scores = scores.first().copied().unwrap_or(Scores::NONE);
        let cluster = (scores.cluster != NO_CLUSTER).then_some(scores.cluster as usize);
        let rank = |kind| {
            let score = scores.get(kind);
            (score != NO_SCORE).then(|| Rank {
                score,
                p: file.calibration().p(kind, score),
            })
        };
        let typical = match cluster {
            Some(cluster) => {
                graph.exemplars(file, cluster, self.choices().similarity, exemplars)?
            }
            None => Vec::new(),
        };
        let class_name = |class: usize| record.classes.get(class)?.name.clone();
        let exemplar = |(row, similarity): (u32, f64)| {
            let label = graph.training().label(row as usize);
            Exemplar {
                input: record.training.start + row as usize,
                sample: file.training_name(row as usize).map(str::to_owned),
                label,
                label_name: label.and_then(|label| class_name(usize::try_from(label).ok()?)),
                similarity,
            }
        };
        let other = |(cluster, similarity): (usize, f64)| {
            let class = graph.class_of(cluster);
            OtherPlacement {
                cluster,
                class,
                name: class_name(class),
                similarity,
            }
        };
        let Observation { ref clusters, .. } = observation;
        Ok(Placement {
            clusters: clusters.iter().map(|view| self.cluster(view)).collect(),
            cluster,
            exemplars: typical.into_iter().map(exemplar).collect(),
            other: observation.nearest_other.map(other),
            unfamiliar: rank(ScoreKind::Unfamiliar),
            contested: rank(ScoreKind::Contested),
        })
    }

    fn cluster(&self, view: &ClusterView) -> ClusterPlacement {
        ClusterPlacement {
            cluster: view.cluster,
            members: self.graph().file().graph().size(view.cluster),
            similarity: view.similarity,
            layers: view
                .layers
                .iter()
                .map(|(jaccard, _)| jaccard.value())
                .collect(),
            snpc: view.layers.iter().map(|&(_, bucket)| bucket).collect(),
            distances: view
                .distances
                .iter()
                .map(|&(distance, _)| distance)
                .collect(),
            anpc: view.distances.iter().map(|&(_, bucket)| bucket).collect(),
        }
    }
}
