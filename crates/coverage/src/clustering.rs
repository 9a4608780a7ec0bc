//! Clusters of training inputs, and what is usual for inputs that belong to them.

use std::ops::Range;

use npcov_artefact::{ArtefactError, Calibration, NO_SCORE};
use npcov_paths::{
    Centres, ClassClusters, Clustering, GraphClustering, Landmarks, LearnOptions, NO_CLUSTER,
    Neighbour, PathGraph, kept_apart, vote,
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
    shards: &TrainingShards,
    keeps_apart: bool,
) -> Result<Clustered, CoverageError> {
    let training = shards.paths()?;
    let classes = 0..options.classes.len();
    let members: Vec<Vec<u32>> = classes
        .map(|class| training.rows_of(class, options.members))
        .collect();
    let apart = match keeps_apart {
        true => kept_apart(&training, options.classes.len()),
        false => Vec::new(),
    };
    let landmarks = Landmarks::choose(&members, &apart, options.kmeans.seed);
    let profiles = Profiles {
        shards,
        landmarks: &landmarks,
        width: training.layout.total_neurons(),
        threads: options.threads,
    };
    let mut unfamiliar_scores = Vec::new();
    let mut communities = Vec::new();
    let mut votes = vec![NO_CLUSTER; training.paths.len()];
    for (class, members) in members.iter().enumerate() {
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
                let mut given = Vec::with_capacity(members.len());
                profiles.look(class, members, |row, nearest| {
                    let voted = vote(nearest, of_landmark).unwrap_or(NO_CLUSTER);
                    votes[row as usize] = voted;
                    given.push(match of_landmark(row) {
                        // A class without landmarks is one cluster.
                        NO_CLUSTER if voted == NO_CLUSTER => 0,
                        NO_CLUSTER => voted,
                        label => label,
                    });
                    if is_apart(&&row) {
                        unfamiliar_scores.push(unfamiliar(nearest));
                    }
                })?;
                communities.push(ClassClusters {
                    rows: members.clone(),
                    planned: given.iter().max().map_or(0, |&last| last as usize + 1),
                    labels: given,
                    beta: options.classes[class].beta,
                });
            }
        }
    }
    let graph = match clustering {
        Clustering::KMeans => PathGraph::learn(training, options),
        Clustering::Graph(_) => PathGraph::of_clusters(training, communities, options.merge),
    };
    let shares = shares(&graph, clustering, &members, &votes);
    let last = LastLayer::new(graph.layout(), &landmarks, shards)?;
    let apart = shards.batch(&apart, &graph)?;
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

/// By cluster: training inputs in it, by the rule that inputs of suites are told by.
fn shares(
    graph: &PathGraph,
    clustering: &Clustering,
    members: &[Vec<u32>],
    votes: &[u32],
) -> Vec<u64> {
    let centres = match clustering {
        Clustering::KMeans => Some(Centres::of(graph)),
        Clustering::Graph(_) => None,
    };
    let mut shares = vec![0; graph.clusters()];
    for (class, members) in members.iter().enumerate() {
        let first = graph.classes()[class].clusters.start as u32;
        for &row in members {
            let cluster = match &centres {
                Some(centres) => centres.cluster_of(class, graph.path(row)),
                None => votes[row as usize].checked_add(first),
            };
            let share = cluster.and_then(|cluster| shares.get_mut(cluster as usize));
            share.into_iter().for_each(|share| *share += 1);
        }
    }
    shares
}

/// The relevance profiles of training inputs.
struct Profiles<'a> {
    shards: &'a TrainingShards,
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
