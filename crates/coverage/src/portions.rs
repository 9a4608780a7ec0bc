//! What several processes find of classes, kept with the shards of inputs for the one that learns the graph.
//!
//! Where there are no more processes than classes, each finds whole classes. Else classes are divided too, into portions
//! that do not depend on each other: restarts of k-means, and blocks of members that are told by the communities of
//! landmarks where they belong. Portions put together are the class, bit by bit.

use std::ops::Range;

use npcov_artefact::ShardStore;
use npcov_data::safetensors::{SafetensorsReader, TensorSpec};
use npcov_paths::{Clustering, Clusters, Restart, cluster_restarts};
use serde_json::{Value, json};

use crate::classes::{BLOCK, ClassClusters, Classes};
use crate::error::CoverageError;

/// Where the metadata of a shard says what the clusters in it depend on, beside the plan.
const SETTINGS: &str = "settings";

impl Classes<'_> {
    /// How many portions of a class can be found apart.
    pub(crate) fn portions(&self, class: usize) -> usize {
        match self.clustering {
            Clustering::KMeans => self.options.restarts_of(class),
            Clustering::Graph(_) => self.members(class).count().div_ceil(BLOCK).max(1),
        }
    }

    /// The clusters of a class, from what is kept of them in `store` as far as that goes.
    pub(crate) fn finish(
        &self,
        store: &ShardStore,
        class: usize,
    ) -> Result<ClassClusters, CoverageError> {
        if let Some(found) = self.stored(store, class) {
            return Ok(found);
        }
        let portions = 0..self.portions(class);
        let is_there = |portion| {
            store
                .open(&portion_name(class, portion), self.inputs())
                .is_ok()
        };
        if portions.len() == 1 || !portions.clone().any(is_there) {
            return self.learn(class);
        }
        let members: Vec<u32> = self.members(class).collect();
        let found = match self.clustering {
            Clustering::KMeans => {
                let (mut best, mut missing) = (None, Vec::new());
                for portion in portions {
                    match self.stored_restart(store, (class, &members), portion) {
                        Some(found) => best = better(best, found),
                        None => missing.push(portion),
                    }
                }
                let found = self.restarts((class, &members), &missing)?;
                let best = found.into_iter().fold(best, better);
                let labels = best.map(|best| best.clusters.labels).unwrap_or_default();
                self.by_kmeans(class, labels)?
            }
            Clustering::Graph(clustering) => {
                let mut communities: Option<Vec<(u32, u32)>> = None;
                let mut found = ClassClusters::default();
                for (portion, block) in members.chunks(BLOCK).enumerate() {
                    if let Some(next) = self.stored_block(store, (class, block), portion) {
                        found.append(next);
                        continue;
                    }
                    let labels = match communities.take() {
                        Some(labels) => labels,
                        None => self.communities(class, clustering)?,
                    };
                    found.append(self.by_vote(class, &labels, block.iter().copied())?);
                    communities = Some(labels);
                }
                found
            }
        };
        match self.is_possible(&found, class) {
            true => Ok(found),
            false => self.learn(class),
        }
    }

    /// Keeps the clusters of a class in `store`.
    pub(crate) fn keep(&self, store: &ShardStore, class: usize) -> Result<(), CoverageError> {
        if self.is_kept(store, class) {
            return Ok(());
        }
        let found = self.finish(store, class)?;
        self.write_class(store, class, &found)
    }

    /// Whether the clusters of a class are kept in `store`.
    pub(crate) fn is_kept(&self, store: &ShardStore, class: usize) -> bool {
        self.stored(store, class).is_some()
    }

    /// Writes the clusters of a class to `store`.
    pub(crate) fn write_class(
        &self,
        store: &ShardStore,
        class: usize,
        found: &ClassClusters,
    ) -> Result<(), CoverageError> {
        self.write(store, class, &name(class), found)
    }

    /// Keeps some portions of a class in `store`.
    pub(crate) fn keep_portions(
        &self,
        store: &ShardStore,
        class: usize,
        portions: Range<usize>,
    ) -> Result<(), CoverageError> {
        if self.is_kept(store, class) {
            return Ok(());
        }
        let members: Vec<u32> = self.members(class).collect();
        match self.clustering {
            Clustering::KMeans => {
                let of_class = (class, &members[..]);
                let is_missing =
                    |&portion: &usize| self.stored_restart(store, of_class, portion).is_none();
                let missing: Vec<usize> = portions.filter(is_missing).collect();
                for found in self.restarts(of_class, &missing)? {
                    self.write_restart(store, class, &found)?;
                }
            }
            Clustering::Graph(clustering) => {
                let blocks = members.chunks(BLOCK).enumerate();
                let is_missing = |&(portion, block): &(usize, &[u32])| {
                    let is_own = portions.contains(&portion);
                    is_own && self.stored_block(store, (class, block), portion).is_none()
                };
                let missing: Vec<_> = blocks.filter(is_missing).collect();
                if missing.is_empty() {
                    return Ok(());
                }
                let labels = self.communities(class, clustering)?;
                for (portion, block) in missing {
                    let found = self.by_vote(class, &labels, block.iter().copied())?;
                    self.write(store, class, &portion_name(class, portion), &found)?;
                }
            }
        }
        Ok(())
    }

    /// Some restarts of the k-means of a class.
    fn restarts(
        &self,
        of_class: (usize, &[u32]),
        restarts: &[usize],
    ) -> Result<Vec<Restart>, CoverageError> {
        if restarts.is_empty() {
            return Ok(Vec::new());
        }
        let training = self.shards.known();
        let found = cluster_restarts(training, self.shards, self.options, of_class, restarts);
        Ok(found?)
    }

    /// The clusters of a class that are kept in `store`: whole, of all its members, and found as they would be here.
    fn stored(&self, store: &ShardStore, class: usize) -> Option<ClassClusters> {
        let found = read(&self.open(store, class, &name(class))?)?;
        self.is_possible(&found, class).then_some(found)
    }

    /// The same of a block of its members.
    fn stored_block(
        &self,
        store: &ShardStore,
        (class, block): (usize, &[u32]),
        portion: usize,
    ) -> Option<ClassClusters> {
        let found = read(&self.open(store, class, &portion_name(class, portion))?)?;
        let fits = found.labels.len() == block.len() && found.clusters() <= found.shares.len();
        fits.then_some(found)
    }

    /// The same of a restart of k-means.
    fn stored_restart(
        &self,
        store: &ShardStore,
        (class, members): (usize, &[u32]),
        restart: usize,
    ) -> Option<Restart> {
        let reader = self.open(store, class, &portion_name(class, restart))?;
        let mut found = Restart::default();
        found.clusters.restart = restart;
        found.clusters.labels = reader.read("label").ok()?;
        found.clusters.sizes = reader.read("size").ok()?;
        let halves: Vec<u64> = reader.read("square").ok()?;
        let squares = halves.as_chunks().0.iter();
        found.squares = squares
            .map(|&[low, high]| u128::from(high) << 64 | u128::from(low))
            .collect();
        let sizes = &found.clusters.sizes;
        let mut counted = vec![0; sizes.len()];
        for &label in &found.clusters.labels {
            *counted.get_mut(label as usize)? += 1;
        }
        // Each of so many neurons is in the paths of all members of a cluster at most.
        let most = |size: u32| u128::from(size).pow(2) * self.width as u128;
        let mut squares = found.squares.iter().zip(sizes);
        let fits = found.clusters.labels.len() == members.len()
            && found.squares.len() == sizes.len()
            && counted == *sizes
            && squares.all(|(&square, &size)| size > 0 && square <= most(size));
        fits.then_some(found)
    }

    /// Opens what is kept, where it was found as it would be here.
    fn open(&self, store: &ShardStore, class: usize, name: &str) -> Option<SafetensorsReader> {
        let reader = store.open(name, self.inputs()).ok()?;
        reader.check().ok()?;
        let metadata: Value = serde_json::from_str(reader.metadata()?).ok()?;
        (metadata.get(SETTINGS) == Some(&self.settings(class))).then_some(reader)
    }

    fn is_possible(&self, found: &ClassClusters, class: usize) -> bool {
        let (clusters, members) = (found.clusters(), self.members(class).count());
        let shares = match self.clustering {
            Clustering::KMeans => 0,
            Clustering::Graph(_) => clusters,
        };
        found.labels.len() == members && clusters <= members && found.shares.len() == shares
    }

    fn write(
        &self,
        store: &ShardStore,
        class: usize,
        name: &str,
        found: &ClassClusters,
    ) -> Result<(), CoverageError> {
        let specs = [
            TensorSpec::of::<u32>("label", &[found.labels.len()]),
            TensorSpec::of::<u64>("share", &[found.shares.len()]),
            TensorSpec::of::<f64>("unfamiliar", &[found.unfamiliar.len()]),
        ];
        store.write(
            name,
            self.inputs(),
            &self.metadata(class),
            &specs,
            |writer| {
                writer.append("label", &found.labels().collect::<Vec<u32>>())?;
                writer.append("share", &found.shares)?;
                Ok(writer.append("unfamiliar", &found.unfamiliar)?)
            },
        )
    }

    fn write_restart(
        &self,
        store: &ShardStore,
        class: usize,
        found: &Restart,
    ) -> Result<(), CoverageError> {
        let clusters = &found.clusters;
        let specs = [
            TensorSpec::of::<u32>("label", &[clusters.labels.len()]),
            TensorSpec::of::<u32>("size", &[clusters.sizes.len()]),
            TensorSpec::of::<u64>("square", &[found.squares.len(), 2]),
        ];
        let halves = |&square: &u128| [square as u64, (square >> 64) as u64];
        let name = portion_name(class, clusters.restart);
        store.write(
            &name,
            self.inputs(),
            &self.metadata(class),
            &specs,
            |writer| {
                writer.append("label", &clusters.labels)?;
                writer.append("size", &clusters.sizes)?;
                let halves: Vec<u64> = found.squares.iter().flat_map(halves).collect();
                Ok(writer.append("square", &halves)?)
            },
        )
    }

    fn inputs(&self) -> Range<usize> {
        0..self.shards.known().len()
    }

    fn metadata(&self, class: usize) -> String {
        json!({ SETTINGS: self.settings(class) }).to_string()
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
}

/// The better one, where there are two.
fn better(best: Option<Restart>, next: Restart) -> Option<Restart> {
    match best {
        Some(best) => Some(best.better(next)),
        None => Some(next),
    }
}

/// Reads what is kept of members that follow one another.
fn read(reader: &SafetensorsReader) -> Option<ClassClusters> {
    let labels: Vec<u32> = reader.read("label").ok()?;
    Some(ClassClusters {
        labels: labels.into_iter().map(i64::from).collect(),
        shares: reader.read("share").ok()?,
        unfamiliar: reader.read("unfamiliar").ok()?,
    })
}

/// What the shard of a class is called.
fn name(class: usize) -> String {
    format!("clusters-{class:06}")
}

/// What the shard of a portion of a class is called.
fn portion_name(class: usize, portion: usize) -> String {
    format!("clusters-{class:06}-{portion:06}")
}
