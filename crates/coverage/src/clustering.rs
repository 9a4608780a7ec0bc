//! Clusters of training inputs, and what is usual for inputs that belong to them.

use std::ops::Range;

use npcov_artefact::{ArtefactError, Calibration, NO_SCORE};
use npcov_paths::choices::Members;
use npcov_paths::{
    Centres, ClusterList, Clustering, GraphClustering, Landmarks, LearnOptions, NO_CLUSTER,
    Neighbour, PathGraph, for_each_path, kept_apart, vote,
};

use crate::error::CoverageError;
use crate::scores::{LastLayer, neighbours, unfamiliar};
use crate::training::TrainingShards;

/// Training inputs whose neighbours are sought at a time.
const BLOCK: usize = 4096;

/// A decision graph that was learnt, and what tells where inputs belong in it.
pub(crate) struct Clustered {
    pub(crate) graph: PathGraph,
    pub(crate) landmarks: Landmarks,
    /// By cluster: training inputs in it, by the rule that inputs of suites are told by.
    pub(crate) shares: Vec<u64>,
    pub(crate) calibration: Calibration,
}

/// Clusters the training inputs of each class and learns the decision graph. Unless others are there for
/// calibration, some training inputs are kept apart for it.
pub(crate) fn cluster(
    clustering: &Clustering,
    options: &LearnOptions,
    shards: &TrainingShards<'_>,
    keeps_apart: bool,
) -> Result<Clustered, CoverageError> {
    let training = shards.known().clone();
    let classes = options.classes.len();
    let members_of = |class: usize| shards.known().rows_of(class, options.members);
    let apart = match keeps_apart {
        true => kept_apart(&training, classes),
        false => Vec::new(),
    };
    let landmarks = Landmarks::choose(classes, members_of, &apart, options.kmeans.seed);
    let profiles = Profiles {
        shards,
        landmarks: &landmarks,
        width: training.layout.total_neurons(),
        threads: options.threads,
    };
    let mut unfamiliar_scores = Vec::new();
    let mut clusters = ClusterList::new(training.len());
    let mut shares = Vec::new();
    for class in 0..classes {
        let members = members_of(class);
        let is_apart = |row: &&u32| apart.binary_search(row).is_ok();
        match clustering {
            Clustering::KMeans => {
                let apart: Vec<u32> = members.iter().filter(is_apart).copied().collect();
                profiles.look(class, &apart, |_, nearest| {
                    unfamiliar_scores.push(unfamiliar(nearest));
                })?;
            }
            Clustering::Graph(clustering) => {
                let labels = profiles.labels(class, clustering)?;
                let of_landmark = |row: u32| match labels.binary_search_by_key(&row, |l| l.0) {
                    Ok(place) => labels[place].1,
                    Err(_) => NO_CLUSTER,
                };
                let first = clusters.first();
                profiles.look(class, &members, |row, nearest| {
                    let voted = vote(nearest, of_landmark).unwrap_or(NO_CLUSTER);
                    if voted != NO_CLUSTER {
                        count(&mut shares, first + voted as usize);
                    }
                    let cluster = match of_landmark(row) {
                        // A class without landmarks is one cluster.
                        NO_CLUSTER if voted == NO_CLUSTER => 0,
                        NO_CLUSTER => voted,
                        label => label,
                    };
                    clusters.add(row, cluster);
                    if is_apart(&&row) {
                        unfamiliar_scores.push(unfamiliar(nearest));
                    }
                })?;
                clusters.close_class(None, options.classes[class].beta);
            }
        }
    }
    let graph = match clustering {
        Clustering::KMeans => PathGraph::learn(training, shards, options)?,
        Clustering::Graph(_) => PathGraph::of_clusters(training, clusters, options.merge, shards)?,
    };
    if matches!(clustering, Clustering::KMeans) {
        shares = shares_by_centres(&graph, shards, options.members)?;
    }
    shares.resize(graph.clusters(), 0);
    let last = LastLayer::new(graph.layout(), &landmarks, shards)?;
    let apart = shards.batch(&apart)?;
    let contested = last.scores(&landmarks, shards, &apart, options.threads)?;
    let told = |scores: Vec<f64>| scores.into_iter().filter(|&score| score != NO_SCORE);
    let calibration =
        Calibration::new(told(unfamiliar_scores).collect(), told(contested).collect());
    Ok(Clustered {
        graph,
        landmarks,
        shares,
        calibration,
    })
}

/// Adds one to what is counted at a place.
fn count(counts: &mut Vec<u64>, place: usize) {
    if place >= counts.len() {
        counts.resize(place + 1, 0);
    }
    counts[place] += 1;
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

/// The relevance profiles of training inputs.
struct Profiles<'a> {
    shards: &'a TrainingShards<'a>,
    landmarks: &'a Landmarks,
    width: usize,
    threads: usize,
}

impl Profiles<'_> {
    /// The landmarks of a class, ascending, each with the label of its community.
    fn labels(
        &self,
        class: usize,
        clustering: &GraphClustering,
    ) -> Result<Vec<(u32, u32)>, ArtefactError> {
        let rows = &self.landmarks.rows()[self.landmarks.of_class(class)];
        let mut bytes = vec![0; rows.len() * self.width];
        self.shards.read_profiles(rows, &mut bytes)?;
        let labels = clustering.run(&bytes, self.width, self.threads);
        Ok(rows.iter().copied().zip(labels).collect())
    }

    /// Hands on the neighbours of training inputs of a class, none of which is its own.
    fn look(
        &self,
        class: usize,
        rows: &[u32],
        mut take: impl FnMut(u32, &[Neighbour]),
    ) -> Result<(), ArtefactError> {
        let all = self.landmarks.rows();
        let of_landmarks =
            |range: Range<usize>, out: &mut [u8]| self.shards.read_profiles(&all[range], out);
        for rows in rows.chunks(BLOCK) {
            let mut bytes = vec![0; rows.len() * self.width];
            self.shards.read_profiles(rows, &mut bytes)?;
            let queries = (&bytes[..], self.width);
            let (landmarks, threads) = (self.landmarks, self.threads);
            let found = neighbours(landmarks, class, &of_landmarks, queries, rows, threads)?;
            for (&row, nearest) in rows.iter().zip(&found) {
                take(row, nearest);
            }
        }
        Ok(())
    }
}
