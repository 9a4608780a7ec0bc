//! The classes of a decision graph, each clustered by itself.
//!
//! The clusters of a class depend on its own training inputs alone: they are whole numbers and scores of single inputs,
//! the same whoever finds them. So several processes can find [some each](crate::portions).

use std::ops::Range;

use npcov_artefact::ArtefactError;
use npcov_paths::{
    Clustering, GraphClustering, Landmarks, LearnOptions, NO_CLUSTER, Narrow, Neighbour,
    cluster_class, kept_apart, vote,
};

use crate::error::CoverageError;
use crate::scores::{neighbours, unfamiliar};
use crate::training::TrainingShards;

/// Training inputs whose neighbours are sought at a time.
pub(crate) const BLOCK: usize = 4096;

/// Training inputs by class, and what tells where they belong.
pub(crate) struct Classes<'a> {
    pub(crate) clustering: &'a Clustering,
    pub(crate) options: &'a LearnOptions,
    pub(crate) shards: &'a TrainingShards<'a>,
    /// Training inputs that are kept apart for calibration, ascending.
    pub(crate) apart: Vec<u32>,
    pub(crate) landmarks: Landmarks,
    /// How many neurons paths and profiles have.
    pub(crate) width: usize,
}

/// What is found of one class, or of some of its members that follow one another.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ClassClusters {
    /// By member, in order: its cluster among those of the class.
    pub(crate) labels: Narrow,
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

    /// How many clusters its members are in, as far as is known of them.
    pub(crate) fn clusters(&self) -> usize {
        self.labels().max().map_or(0, |last| last as usize + 1)
    }

    /// Adds what is found of the members that follow.
    pub(crate) fn append(&mut self, next: ClassClusters) {
        self.labels.extend(next.labels.iter());
        for (cluster, share) in next.shares.into_iter().enumerate() {
            *at(&mut self.shares, cluster) += share;
        }
        self.unfamiliar.extend(next.unfamiliar);
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
        match self.clustering {
            Clustering::KMeans => {
                let members: Vec<u32> = self.members(class).collect();
                let (training, of_class) = (self.shards.known(), (class, &members[..]));
                let labels = cluster_class(training, self.shards, self.options, of_class)?;
                self.by_kmeans(class, labels)
            }
            Clustering::Graph(clustering) => {
                let labels = self.communities(class, clustering)?;
                self.by_vote(class, &labels, self.members(class))
            }
        }
    }

    /// A class whose members have these labels by k-means.
    pub(crate) fn by_kmeans(
        &self,
        class: usize,
        labels: Vec<u32>,
    ) -> Result<ClassClusters, CoverageError> {
        let mut found = ClassClusters::default();
        let apart = self.members(class).filter(|&row| self.is_apart(row));
        self.look(class, apart, |_, nearest| {
            found.unfamiliar.push(unfamiliar(nearest));
        })?;
        found.labels.extend(labels.into_iter().map(i64::from));
        Ok(found)
    }

    /// Some members of a class, by the vote of their neighbours among its landmarks, whose communities are given.
    pub(crate) fn by_vote(
        &self,
        class: usize,
        labels: &[(u32, u32)],
        members: impl IntoIterator<Item = u32>,
    ) -> Result<ClassClusters, CoverageError> {
        let mut found = ClassClusters::default();
        let of_landmark = |row: u32| match labels.binary_search_by_key(&row, |l| l.0) {
            Ok(place) => labels[place].1,
            Err(_) => NO_CLUSTER,
        };
        self.look(class, members, |row, nearest| {
            let voted = vote(nearest, of_landmark).unwrap_or(NO_CLUSTER);
            if voted != NO_CLUSTER {
                *at(&mut found.shares, voted as usize) += 1;
            }
            let cluster = match of_landmark(row) {
                // A class without landmarks is one cluster.
                NO_CLUSTER if voted == NO_CLUSTER => 0,
                NO_CLUSTER => voted,
                label => label,
            };
            at(&mut found.shares, cluster as usize);
            found.labels.push(cluster.into());
            if self.is_apart(row) {
                found.unfamiliar.push(unfamiliar(nearest));
            }
        })?;
        Ok(found)
    }

    fn is_apart(&self, row: u32) -> bool {
        self.apart.binary_search(&row).is_ok()
    }

    /// The landmarks of a class, ascending, each with the label of its community.
    pub(crate) fn communities(
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
fn at(counts: &mut Vec<u64>, place: usize) -> &mut u64 {
    if place >= counts.len() {
        counts.resize(place + 1, 0);
    }
    &mut counts[place]
}
