//! Clusters of training inputs, and what is usual for inputs that belong to them.

use npcov_artefact::{Calibration, NO_SCORE, ShardStore};
use npcov_paths::choices::Members;
use npcov_paths::{Centres, ClusterList, Clustering, PathGraph, for_each_path};

use crate::classes::Classes;
use crate::error::CoverageError;
use crate::scores::LastLayer;
use crate::training::TrainingShards;

/// A decision graph that was learnt, and what is usual in it.
pub(crate) struct Clustered {
    pub(crate) graph: PathGraph,
    /// By cluster: training inputs in it, by the rule that inputs of suites are told by.
    pub(crate) shares: Vec<u64>,
    pub(crate) calibration: Calibration,
}

/// Learns the decision graph of classes that are clustered one by one. What is kept of some of them
/// in `store` is not found again.
pub(crate) fn cluster(
    classes: &Classes<'_>,
    store: &ShardStore,
) -> Result<Clustered, CoverageError> {
    let (options, shards) = (classes.options, classes.shards);
    let training = shards.known().clone();
    let mut clusters = ClusterList::new(training.len());
    let (mut shares, mut unfamiliar_scores) = (Vec::new(), Vec::new());
    for (class, parameters) in options.classes.iter().enumerate() {
        let found = classes.finish(store, class)?;
        clusters.add_class(classes.members(class), found.labels());
        shares.extend(found.shares);
        unfamiliar_scores.extend(found.unfamiliar);
        let planned = match classes.clustering {
            Clustering::KMeans => Some(parameters.clusters.planned(clusters.open())),
            Clustering::Graph(_) => None,
        };
        clusters.close_class(planned, parameters.beta);
    }
    let graph = PathGraph::of_clusters(training, clusters, options.merge, shards)?;
    if matches!(classes.clustering, Clustering::KMeans) {
        shares = shares_by_centres(&graph, shards, options.members)?;
    }
    let landmarks = &classes.landmarks;
    let last = LastLayer::new(graph.layout(), landmarks, shards)?;
    let apart = shards.batch(&classes.apart)?;
    let contested = last.scores(landmarks, shards, &apart, options.threads)?;
    let told = |scores: Vec<f64>| scores.into_iter().filter(|&score| score != NO_SCORE);
    let calibration =
        Calibration::new(told(unfamiliar_scores).collect(), told(contested).collect());
    Ok(Clustered {
        graph,
        shares,
        calibration,
    })
}

/// By cluster of k-means: training inputs whose nearest centre is its own.
fn shares_by_centres(
    graph: &PathGraph,
    shards: &TrainingShards<'_>,
    members: Members,
) -> Result<Vec<u64>, CoverageError> {
    let centres = Centres::of(graph, shards)?;
    let mut shares = vec![0; graph.clusters()];
    let training = graph.training();
    for_each_path(shards, graph.layout(), training.len(), |row, path| {
        if training.is_member(row as usize, members) {
            let class = training.prediction(row as usize) as usize;
            let cluster = centres.cluster_of(class, path);
            let share = cluster.and_then(|cluster| shares.get_mut(cluster as usize));
            share.into_iter().for_each(|share| *share += 1);
        }
    })?;
    Ok(shares)
}
