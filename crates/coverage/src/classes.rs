//! The classes of a decision graph, each clustered by itself.
//!
//! The clusters of a class depend on its own training inputs alone. So several processes can find those of some
//! classes each, when all inputs have been run, and keep them with the shards of inputs for the one that learns the
//! graph. They are whole numbers and scores of single inputs, the same whoever finds them.

use std::ops::Range;

use npcov_artefact::{ArtefactError, ShardStore};
use npcov_data::safetensors::TensorSpec;
use npcov_paths::{
    Clustering, Clusters, GraphClustering, Landmarks, LearnOptions, NO_CLUSTER, Narrow, Neighbour,
    cluster_class, kept_apart, vote,
};
use serde_json::{Value, json};

use crate::error::CoverageError;
use crate::scores::{neighbours, unfamiliar};
use crate::training::TrainingShards;

/// Training inputs whose neighbours are sought at a time.
const BLOCK: usize = 4096;

/// Where the metadata of a shard says what the clusters in it depend on, beside the plan.
const SETTINGS: &str = "settings";

/// Training inputs by class, and what tells where they belong.
pub(crate) struct Classes<'a> {
    pub(crate) clustering: &'a Clustering,
    pub(crate) options: &'a LearnOptions,
    pub(crate) shards: &'a TrainingShards<'a>,
    /// Training inputs that are kept apart for calibration, ascending.
    pub(crate) apart: Vec<u32>,
    pub(crate) landmarks: Landmarks,
    width: usize,
}

/// What is found of one class.
#[derive(Debug, PartialEq)]
pub(crate) struct ClassClusters {
    /// By member, in order: its cluster among those of the class.
    labels: Narrow,
    /// By cluster: training inputs in it, by the vote that inputs of suites are told by. Nothing is known of
    /// clusters by k-means.
    pub(crate) shares: Vec<u64>,
    /// How unfamiliar the members are that are kept apart.
    pub(crate) unfamiliar: Vec<f64>,
}

impl ClassClusters {
    /// By member, in order: its cluster among those of the class.
    pub(crate) fn labels(&self) -> impl Iterator<Item = u32> {
        self.labels.iter().map(|label| label as u32)
    }
}

impl<'a> Classes<'a> {
    /// Unless others are there for calibration, some training inputs are kept apart for it.
    pub(crate) fn new(
        clustering: &'a Clustering,
        options: &'a LearnOptions,
        shards: &'a TrainingShards<'a>,
        keeps_apart: bool,
    ) -> Classes<'a> {
        let (training, classes) = (shards.known(), options.classes.len());
        let apart = match keeps_apart {
            true => kept_apart(training, classes),
            false => Vec::new(),
        };
        let members = |class| training.rows_of(class, options.members);
        Classes {
            clustering,
            options,
            shards,
            landmarks: Landmarks::choose(classes, members, &apart, options.kmeans.seed),
            apart,
            width: training.layout.total_neurons(),
        }
    }

    /// The training inputs of a class, ascending.
    pub(crate) fn members(&self, class: usize) -> impl Iterator<Item = u32> {
        self.shards.known().rows_of(class, self.options.members)
    }

    /// Finds the clusters of a class.
    pub(crate) fn learn(&self, class: usize) -> Result<ClassClusters, CoverageError> {
        let is_apart = |row: &u32| self.apart.binary_search(row).is_ok();
        let mut found = ClassClusters {
            labels: Narrow::default(),
            shares: Vec::new(),
            unfamiliar: Vec::new(),
        };
        match self.clustering {
            Clustering::KMeans => {
                let apart = self.members(class).filter(is_apart);
                self.look(class, apart, |_, nearest| {
                    found.unfamiliar.push(unfamiliar(nearest));
                })?;
                let members: Vec<u32> = self.members(class).collect();
                let (training, class) = (self.shards.known(), (class, &members[..]));
                let labels = cluster_class(training, self.shards, self.options, class)?;
                found.labels.extend(labels.into_iter().map(i64::from));
            }
            Clustering::Graph(clustering) => {
                let labels = self.labels(class, clustering)?;
                let of_landmark = |row: u32| match labels.binary_search_by_key(&row, |l| l.0) {
                    Ok(place) => labels[place].1,
                    Err(_) => NO_CLUSTER,
                };
                self.look(class, self.members(class), |row, nearest| {
                    let voted = vote(nearest, of_landmark).unwrap_or(NO_CLUSTER);
                    if voted != NO_CLUSTER {
                        *at(&mut found.shares, voted) += 1;
                    }
                    let cluster = match of_landmark(row) {
                        // A class without landmarks is one cluster.
                        NO_CLUSTER if voted == NO_CLUSTER => 0,
                        NO_CLUSTER => voted,
                        label => label,
                    };
                    at(&mut found.shares, cluster);
                    found.labels.push(cluster.into());
                    if is_apart(&row) {
                        found.unfamiliar.push(unfamiliar(nearest));
                    }
                })?;
            }
        }
        Ok(found)
    }

    /// The clusters of a class that are kept in `store`: whole, of all its members, and found as they would be here.
    pub(crate) fn stored(&self, store: &ShardStore, class: usize) -> Option<ClassClusters> {
        let reader = store.open(&name(class), self.inputs()).ok()?;
        reader.check().ok()?;
        let metadata: Value = serde_json::from_str(reader.metadata()?).ok()?;
        if metadata.get(SETTINGS) != Some(&self.settings(class)) {
            return None;
        }
        let labels: Vec<u32> = reader.read("label").ok()?;
        let found = ClassClusters {
            labels: labels.into_iter().map(i64::from).collect(),
            shares: reader.read("share").ok()?,
            unfamiliar: reader.read("unfamiliar").ok()?,
        };
        let clusters = found.labels().max().map_or(0, |last| last as usize + 1);
        let members = self.members(class).count();
        let shares = match self.clustering {
            Clustering::KMeans => 0,
            Clustering::Graph(_) => clusters,
        };
        let fits = found.labels.len() == members && clusters <= members;
        (fits && found.shares.len() == shares).then_some(found)
    }

    /// Keeps the clusters of a class in `store`.
    pub(crate) fn keep(&self, store: &ShardStore, class: usize) -> Result<(), CoverageError> {
        if self.stored(store, class).is_some() {
            return Ok(());
        }
        let found = self.learn(class)?;
        let metadata = json!({ SETTINGS: self.settings(class) }).to_string();
        let specs = [
            TensorSpec::of::<u32>("label", &[found.labels.len()]),
            TensorSpec::of::<u64>("share", &[found.shares.len()]),
            TensorSpec::of::<f64>("unfamiliar", &[found.unfamiliar.len()]),
        ];
        store.write(&name(class), self.inputs(), &metadata, &specs, |writer| {
            writer.append("label", &found.labels().collect::<Vec<u32>>())?;
            writer.append("share", &found.shares)?;
            Ok(writer.append("unfamiliar", &found.unfamiliar)?)
        })
    }

    fn inputs(&self) -> Range<usize> {
        0..self.shards.known().len()
    }

    /// What the clusters of a class depend on, beside what inputs were run for.
    fn settings(&self, class: usize) -> Value {
        let options = self.options;
        let clusters = match options.classes.get(class).map(|class| class.clusters) {
            Some(Clusters::Fixed(number)) => json!(number),
            Some(Clusters::Auto(most)) => json!([1, most]),
            None => Value::Null,
        };
        json!({
            "apart": self.apart.len(),
            "clustering": self.clustering,
            "clusters": clusters,
            "members": options.members,
            "restarts": options.kmeans.restarts,
            "seed": options.kmeans.seed,
        })
    }

    /// The landmarks of a class, ascending, each with the label of its community.
    fn labels(
        &self,
        class: usize,
        clustering: &GraphClustering,
    ) -> Result<Vec<(u32, u32)>, ArtefactError> {
        let rows = &self.landmarks.rows()[self.landmarks.of_class(class)];
        let mut bytes = vec![0; rows.len() * self.width];
        self.shards.read_profiles(rows, &mut bytes)?;
        let labels = clustering.run(&bytes, self.width, self.options.threads);
        Ok(rows.iter().copied().zip(labels).collect())
    }

    /// Hands on the neighbours of training inputs of a class, none of which is its own.
    fn look(
        &self,
        class: usize,
        rows: impl IntoIterator<Item = u32>,
        mut take: impl FnMut(u32, &[Neighbour]),
    ) -> Result<(), ArtefactError> {
        let all = self.landmarks.rows();
        let of_landmarks =
            |range: Range<usize>, out: &mut [u8]| self.shards.read_profiles(&all[range], out);
        let mut rows = rows.into_iter();
        loop {
            let block: Vec<u32> = rows.by_ref().take(BLOCK).collect();
            if block.is_empty() {
                return Ok(());
            }
            let mut bytes = vec![0; block.len() * self.width];
            self.shards.read_profiles(&block, &mut bytes)?;
            let queries = (&bytes[..], self.width);
            let (landmarks, threads) = (&self.landmarks, self.options.threads);
            let found = neighbours(landmarks, class, &of_landmarks, queries, &block, threads)?;
            for (&row, nearest) in block.iter().zip(&found) {
                take(row, nearest);
            }
        }
    }
}

/// What is counted at a place.
fn at(counts: &mut Vec<u64>, place: u32) -> &mut u64 {
    let place = place as usize;
    if place >= counts.len() {
        counts.resize(place + 1, 0);
    }
    &mut counts[place]
}

/// What the shard of a class is called.
fn name(class: usize) -> String {
    format!("clusters-{class:06}")
}
