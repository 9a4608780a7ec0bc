//! The decision graph: for each class, clusters of training paths and what their members share.

use std::borrow::Cow;
use std::ops::Range;

use npcov_cpu::counting;

use crate::abstraction::Frequencies;
use crate::bits::BitRows;
use crate::block::{Block, PATHS};
use crate::choices::{Members, Merge, Similarity};
use crate::clustering::number_of_clusters;
use crate::kmeans::{Answer, KMeans, PointBlock, Question, Restart, RowShards};
use crate::layout::PathLayout;
use crate::narrow::Narrow;
use crate::similarity::{Comparison, layer_counts, more_similar};
use crate::training::{PathSource, TrainingInputs, for_each_path, gather};

/// The cluster of an input that belongs to none.
pub const NO_CLUSTER: u32 = u32::MAX;

/// The same among [the clusters of training inputs](GraphParts::assignment).
pub const UNCLUSTERED: i64 = -1;

/// Bytes of counts that are held to find abstract paths.
const COUNTED: usize = 256 << 20;

/// Bytes of a class's paths that k-means holds; those of larger classes are read again for every step.
const HELD: usize = 512 << 20;

/// Bytes of the paths of a larger class that are read at a time, by each thread.
const READ: usize = 32 << 20;

/// How many clusters a class gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clusters {
    /// So many.
    Fixed(usize),
    /// From 1 to so many, as many as [`number_of_clusters`] finds.
    Auto(usize),
}

impl Clusters {
    /// As how many are planned where so many were found.
    pub fn planned(self, found: usize) -> usize {
        match self {
            Clusters::Fixed(clusters) => clusters,
            Clusters::Auto(_) => found.max(1),
        }
    }
}

/// How the paths of a class become abstract paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassParameters {
    /// Number of clusters.
    pub clusters: Clusters,
    /// Above which share of a cluster's members a neuron is part of its abstract path.
    pub beta: f64,
}

/// How a decision graph is learnt.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnOptions {
    /// For each class of the model.
    pub classes: Vec<ClassParameters>,
    /// Which training inputs take part.
    pub members: Members,
    /// Which neurons are part of an abstract path.
    pub merge: Merge,
    /// Restarts, iterations and seed of the clustering; its number of clusters is not used.
    pub kmeans: KMeans,
    /// Threads that may be used; the result does not depend on it.
    pub threads: usize,
}

impl LearnOptions {
    fn clusters_of(&self, class: usize) -> Clusters {
        let class = self.classes.get(class);
        class.map_or(Clusters::Fixed(1), |class| class.clusters)
    }

    /// How many restarts of the k-means of a class can be run apart. Where the number of clusters is to be found first,
    /// or is one, it is one.
    pub fn restarts_of(&self, class: usize) -> usize {
        match self.clusters_of(class) {
            Clusters::Fixed(clusters) if clusters > 1 => self.kmeans.restarts.max(1),
            Clusters::Fixed(_) | Clusters::Auto(_) => 1,
        }
    }
}

/// The clusters of training inputs, class after class, however they were found.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterList {
    assignment: Narrow,
    classes: Vec<ClassNode>,
    /// The highest number of a cluster of the class that is not closed yet, and one.
    end: usize,
}

impl ClusterList {
    /// So many training inputs, none of which is in a cluster.
    pub fn new(inputs: usize) -> ClusterList {
        ClusterList {
            assignment: Narrow::filled(UNCLUSTERED, inputs),
            classes: Vec::new(),
            end: 0,
        }
    }

    /// Puts an input into a cluster of the class that is not closed yet. Its clusters are numbered from 0 on, without
    /// gaps.
    pub fn add(&mut self, input: u32, cluster: u32) {
        let cluster = self.first() + cluster as usize;
        self.assignment.set(input as usize, cluster as i64);
        self.end = self.end.max(cluster + 1);
    }

    /// Puts the members of the class that is not closed yet into its clusters.
    pub fn add_class(
        &mut self,
        members: impl IntoIterator<Item = u32>,
        labels: impl IntoIterator<Item = u32>,
    ) {
        for (row, label) in members.into_iter().zip(labels) {
            self.add(row, label);
        }
    }

    /// The class has no more inputs, and the next one follows. As many clusters as `planned` were asked for, at least
    /// as many as there are; those that are there without it. `beta` is the share of a cluster's members above which a
    /// neuron is part of its abstract path.
    pub fn close_class(&mut self, planned: Option<usize>, beta: f64) {
        let clusters = self.first()..self.end;
        self.classes.push(ClassNode {
            planned: planned.unwrap_or(clusters.len()),
            clusters,
            beta,
        });
    }

    /// How many clusters the class has that is not closed yet.
    pub fn open(&self) -> usize {
        self.end - self.first()
    }

    /// The first cluster of the class that is not closed yet.
    pub fn first(&self) -> usize {
        self.classes.last().map_or(0, |class| class.clusters.end)
    }
}

/// A class in a decision graph.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassNode {
    /// Its clusters among those of the graph.
    pub clusters: Range<usize>,
    /// How many clusters were asked for: those that are missing can never be covered.
    pub planned: usize,
    /// The share of members above which a neuron is abstract.
    pub beta: f64,
}

/// The clusters of a class by k-means, of its members in order: what [`PathGraph::learn`] does for each class by itself.
pub fn cluster_class<S: PathSource<Error: Send> + Sync>(
    training: &TrainingInputs,
    source: &S,
    options: &LearnOptions,
    (class, members): (usize, &[u32]),
) -> Result<Vec<u32>, S::Error> {
    cluster_holding(training, source, options, (class, members), (HELD, READ))
}

/// Some restarts of the k-means of a class, each by itself. The [better](Restart::better) one of
/// [all](LearnOptions::restarts_of) has the clusters of [`cluster_class`].
pub fn cluster_restarts<S: PathSource<Error: Send> + Sync>(
    training: &TrainingInputs,
    source: &S,
    options: &LearnOptions,
    (class, members): (usize, &[u32]),
    restarts: &[usize],
) -> Result<Vec<Restart>, S::Error> {
    let paths = ClassPaths::of(training, source, members, (HELD, READ))?;
    let kmeans = paths.kmeans(options, class)?;
    kmeans.run_restarts(&paths, restarts, options.threads)
}

/// How much of the paths of a class is held at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockBytes {
    /// A class whose paths take no more bytes is held whole.
    pub held: usize,
    /// Bytes of the paths in a block of a larger class.
    pub block: usize,
}

impl Default for BlockBytes {
    fn default() -> BlockBytes {
        BlockBytes {
            held: HELD,
            block: READ,
        }
    }
}

/// Whether a class of so many inputs is worth [spreading](cluster_blocks): not one whose paths one process holds, that is
/// one cluster, or whose number of clusters is to be found from all paths.
pub fn is_spread(
    training: &TrainingInputs,
    options: &LearnOptions,
    (class, members): (usize, usize),
    bytes: BlockBytes,
) -> bool {
    let of_path = training.layout.width().max(1) * size_of::<u64>();
    match options.clusters_of(class) {
        Clusters::Fixed(0 | 1) | Clusters::Auto(_) => false,
        Clusters::Fixed(_) => members * of_path > bytes.held,
    }
}

/// The same as [`cluster_class`] [by others](KMeans::run_blocks), who hold a block of the paths at a time; nothing where
/// their answers are none.
pub fn cluster_blocks<S: PathSource<Error: Send> + Sync, E: From<S::Error>>(
    training: &TrainingInputs,
    source: &S,
    options: &LearnOptions,
    (class, members): (usize, &[u32]),
    bytes: BlockBytes,
    keep: impl FnMut(PointBlock) -> Result<(), E>,
    ask: impl FnMut(&Question) -> Option<Vec<Answer>>,
) -> Result<Option<Vec<u32>>, E> {
    let paths = ClassPaths::of(training, source, members, (bytes.held, bytes.block))?;
    let kmeans = paths.kmeans(options, class)?;
    let found = kmeans.run_blocks(&paths, keep, ask)?;
    Ok(found.map(|found| found.labels))
}

/// The same as [`cluster_class`] with other limits than [`HELD`] and [`READ`].
fn cluster_holding<S: PathSource<Error: Send> + Sync>(
    training: &TrainingInputs,
    source: &S,
    options: &LearnOptions,
    (class, rows): (usize, &[u32]),
    limits: (usize, usize),
) -> Result<Vec<u32>, S::Error> {
    let paths = ClassPaths::of(training, source, rows, limits)?;
    let kmeans = paths.kmeans(options, class)?;
    Ok(kmeans.run_shards(&paths, options.threads)?.labels)
}

/// The paths of a class: in memory, or so many in a shard where they take too much of it.
enum ClassPaths<'a, S> {
    Held(BitRows),
    Shards {
        source: &'a S,
        layout: &'a PathLayout,
        /// The inputs of the class.
        rows: &'a [u32],
        count: usize,
    },
}

impl<'a, S: PathSource<Error: Send> + Sync> ClassPaths<'a, S> {
    fn of(
        training: &'a TrainingInputs,
        source: &'a S,
        rows: &'a [u32],
        (held, read): (usize, usize),
    ) -> Result<ClassPaths<'a, S>, S::Error> {
        let layout = &training.layout;
        let of_path = layout.width().max(1) * size_of::<u64>();
        if rows.len() * of_path <= held {
            return Ok(ClassPaths::Held(gather(source, layout, rows)?));
        }
        Ok(ClassPaths::Shards {
            source,
            layout,
            rows,
            count: (read / of_path).max(1),
        })
    }

    /// How a class is clustered. How many clusters it has, where that is to be found, is found from all paths in memory.
    fn kmeans(&self, options: &LearnOptions, class: usize) -> Result<KMeans, S::Error> {
        let (seed, threads) = (options.kmeans.seed, options.threads);
        let clusters = match (options.clusters_of(class), self) {
            (Clusters::Fixed(number), _) => number,
            (Clusters::Auto(most), ClassPaths::Held(paths)) => {
                number_of_clusters(paths, most, seed, threads)
            }
            (
                Clusters::Auto(most),
                &ClassPaths::Shards {
                    source,
                    layout,
                    rows,
                    ..
                },
            ) => number_of_clusters(&gather(source, layout, rows)?, most, seed, threads),
        };
        Ok(KMeans {
            clusters,
            ..options.kmeans.clone()
        })
    }
}

impl<S: PathSource<Error: Send> + Sync> RowShards for ClassPaths<'_, S> {
    type Error = S::Error;

    fn shards(&self) -> usize {
        match self {
            ClassPaths::Held(_) => 1,
            ClassPaths::Shards { rows, count, .. } => rows.len().div_ceil(*count),
        }
    }

    fn rows(&self, shard: usize) -> Result<Cow<'_, BitRows>, S::Error> {
        match self {
            ClassPaths::Held(paths) => Ok(Cow::Borrowed(paths)),
            ClassPaths::Shards {
                source,
                layout,
                rows,
                count,
            } => {
                let end = ((shard + 1) * count).min(rows.len());
                let rows = &rows[shard * count..end];
                Ok(Cow::Owned(gather(*source, layout, rows)?))
            }
        }
    }
}

/// What a decision graph consists of, as it is stored; the training paths are elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphParts {
    /// The training inputs.
    pub training: TrainingInputs,
    /// The classes, in order; their clusters follow one another.
    pub classes: Vec<ClassNode>,
    /// The cluster of each training input; [`UNCLUSTERED`] for those that belong to none.
    pub assignment: Narrow,
    /// One abstract path for each cluster.
    pub abstract_paths: BitRows,
}

/// GraphParts that do not make a decision graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no decision graph: {0}")]
pub struct InvalidGraph(pub(crate) &'static str);

/// A decision graph: abstract paths of every class, and which training inputs they were learnt from. The paths of
/// those stay where they are ([`PathSource`]).
#[derive(Clone, Debug, PartialEq)]
pub struct PathGraph {
    parts: GraphParts,
    /// How many training inputs each cluster has.
    sizes: Vec<usize>,
    /// Neurons in each layer of each abstract path.
    abstract_counts: Vec<u32>,
}

impl PathGraph {
    /// Learns a decision graph, with clusters by k-means. Predictions are classes of `options`; others
    /// are left out.
    ///
    /// Paths of a class that take more than 512 MiB are not held in memory but [read in
    /// shards](KMeans::run_shards), which changes nothing but the time.
    pub fn learn<S: PathSource<Error: Send> + Sync>(
        training: TrainingInputs,
        source: &S,
        options: &LearnOptions,
    ) -> Result<PathGraph, S::Error> {
        PathGraph::learn_holding(training, source, options, (HELD, READ))
    }

    /// The same with other limits than [`HELD`] and [`READ`].
    fn learn_holding<S: PathSource<Error: Send> + Sync>(
        training: TrainingInputs,
        source: &S,
        options: &LearnOptions,
        (held, read): (usize, usize),
    ) -> Result<PathGraph, S::Error> {
        let mut clusters = ClusterList::new(training.len());
        for (class, parameters) in options.classes.iter().enumerate() {
            let rows: Vec<u32> = training.rows_of(class, options.members).collect();
            let labels = cluster_holding(&training, source, options, (class, &rows), (held, read))?;
            clusters.add_class(rows, labels);
            let planned = parameters.clusters.planned(clusters.open());
            clusters.close_class(Some(planned), parameters.beta);
        }
        PathGraph::of_clusters(training, clusters, options.merge, source)
    }

    /// The decision graph of clusters that are known.
    pub fn of_clusters<S: PathSource>(
        training: TrainingInputs,
        clusters: ClusterList,
        merge: Merge,
        source: &S,
    ) -> Result<PathGraph, S::Error> {
        let ClusterList {
            assignment,
            classes,
            ..
        } = clusters;
        let layout = &training.layout;
        let end = classes.last().map_or(0, |class| class.clusters.end);
        let mut abstract_paths = BitRows::new(layout.width());
        // What is counted of all clusters may be more than memory holds.
        let of_cluster = layout.total_neurons().max(1) * size_of::<[u32; 2]>();
        let step = (COUNTED / of_cluster).max(1);
        for first in (0..end).step_by(step) {
            let portion = first..(first + step).min(end);
            let mut counts = vec![Frequencies::new(layout); portion.len()];
            for_each_path(source, layout, training.len(), |row, path| {
                let cluster = assignment.get(row as usize);
                let cluster = cluster.and_then(|cluster| usize::try_from(cluster).ok());
                let place = cluster.and_then(|cluster| cluster.checked_sub(first));
                if let Some(counts) = place.and_then(|place| counts.get_mut(place)) {
                    counts.add(layout, row, path);
                }
            })?;
            for (cluster, counts) in portion.zip(counts) {
                let class = classes
                    .iter()
                    .find(|class| class.clusters.contains(&cluster));
                let beta = class.map_or(1.0, |class| class.beta);
                abstract_paths.push(&counts.abstract_path(layout, merge, beta));
            }
        }
        Ok(PathGraph::index(GraphParts {
            training,
            classes,
            assignment,
            abstract_paths,
        }))
    }

    /// Puts a decision graph together again, and checks that its parts fit.
    pub fn assemble(parts: GraphParts) -> Result<PathGraph, InvalidGraph> {
        let fail = |reason| Err(InvalidGraph(reason));
        let training = &parts.training;
        let inputs = training.len();
        let width = training.layout.width();
        if parts.abstract_paths.width() != width {
            return fail("paths have other layers");
        }
        if parts.assignment.len() != inputs {
            return fail("not every training input has a class and a cluster");
        }
        if training
            .labels
            .as_ref()
            .is_some_and(|labels| labels.len() != inputs)
        {
            return fail("not every training input has a label");
        }
        let mut end = 0;
        for class in &parts.classes {
            if class.clusters.start != end || class.clusters.end < end {
                return fail("clusters of classes do not follow one another");
            }
            if class.clusters.len() > class.planned {
                return fail("a class has more clusters than planned");
            }
            end = class.clusters.end;
        }
        if end != parts.abstract_paths.len() {
            return fail("not every cluster has an abstract path");
        }
        for (cluster, class) in parts.assignment.iter().zip(training.predictions.iter()) {
            let class = usize::try_from(class).ok();
            let node = class.and_then(|class| parts.classes.get(class));
            let cluster_number = usize::try_from(cluster).ok();
            let fits =
                |node: &ClassNode| cluster_number.is_some_and(|c| node.clusters.contains(&c));
            if cluster != UNCLUSTERED && !node.is_some_and(fits) {
                return fail("a training input is in a cluster of another class");
            }
        }
        if (parts.abstract_paths.rows()).any(|path| !training.layout.holds(path)) {
            return fail("a path has neurons that its layers have not");
        }
        Ok(PathGraph::index(parts))
    }

    fn index(parts: GraphParts) -> PathGraph {
        let layout = &parts.training.layout;
        let counts = parts.abstract_paths.rows();
        let counts = counts.flat_map(|row| layer_counts(layout, row)).collect();
        let mut sizes = vec![0; parts.abstract_paths.len()];
        for cluster in parts.assignment.iter() {
            let cluster = usize::try_from(cluster).ok();
            let size = cluster.and_then(|cluster| sizes.get_mut(cluster));
            size.into_iter().for_each(|size| *size += 1);
        }
        PathGraph {
            abstract_counts: counts,
            sizes,
            parts,
        }
    }

    /// What it consists of.
    pub fn parts(&self) -> &GraphParts {
        &self.parts
    }

    /// The training inputs.
    pub fn training(&self) -> &TrainingInputs {
        &self.parts.training
    }

    /// The path layers.
    pub fn layout(&self) -> &PathLayout {
        &self.parts.training.layout
    }

    /// The classes, in order.
    pub fn classes(&self) -> &[ClassNode] {
        &self.parts.classes
    }

    /// Number of clusters of all classes.
    pub fn clusters(&self) -> usize {
        self.sizes.len()
    }

    /// Number of clusters that were asked for, of all classes.
    pub fn planned_clusters(&self) -> usize {
        self.parts.classes.iter().map(|class| class.planned).sum()
    }

    /// The class that a cluster belongs to.
    pub fn class_of(&self, cluster: usize) -> usize {
        let is_of = |class: &ClassNode| class.clusters.contains(&cluster);
        self.parts.classes.iter().position(is_of).unwrap_or(0)
    }

    /// The cluster of a training input, or [`NO_CLUSTER`].
    pub fn cluster_of(&self, input: u32) -> u32 {
        let cluster = self.parts.assignment.get(input as usize);
        cluster
            .and_then(|cluster| cluster.try_into().ok())
            .unwrap_or(NO_CLUSTER)
    }

    /// How many training inputs a cluster has.
    pub fn size(&self, cluster: usize) -> usize {
        self.sizes[cluster]
    }

    /// The training inputs of a cluster, in order. All inputs are looked at to find them.
    pub fn members(&self, cluster: usize) -> Vec<u32> {
        let assignment = self.parts.assignment.iter().enumerate();
        let own = assignment.filter(|&(_, of)| usize::try_from(of) == Ok(cluster));
        let mut members = Vec::with_capacity(self.sizes[cluster]);
        members.extend(own.map(|(row, _)| row as u32));
        members
    }

    /// The abstract path of a cluster.
    pub fn abstract_path(&self, cluster: usize) -> &[u64] {
        self.parts.abstract_paths.row(cluster)
    }

    /// The clusters and layers whose abstract set is empty.
    pub fn empty_layers(&self) -> Vec<(usize, usize)> {
        let layers = self.layout().layers().max(1);
        let counts = self.abstract_counts.iter().enumerate();
        let empty = counts.filter(|&(_, &count)| count == 0);
        empty.map(|(i, _)| (i / layers, i % layers)).collect()
    }

    /// The members of a cluster that are most similar to its abstract path, at most `count`, the
    /// most similar first.
    pub fn exemplars<S: PathSource>(
        &self,
        source: &S,
        cluster: usize,
        kind: Similarity,
        count: usize,
    ) -> Result<Vec<(u32, f64)>, S::Error> {
        let comparison = Comparison::new(self.layout(), kind, self.abstract_path(cluster));
        let mut best: Vec<(u32, f64)> = Vec::new();
        let mut counts = Vec::new();
        for_each_path(source, self.layout(), self.training().len(), |row, path| {
            if self.cluster_of(row) as usize != cluster {
                return;
            }
            counts.clear();
            counts.extend(layer_counts(self.layout(), path));
            let score = comparison.to(path, &counts);
            // Of equal ones the first.
            let place = best.partition_point(|(_, other)| other.total_cmp(&score).is_ge());
            if place < count {
                best.insert(place, (row, score));
                best.truncate(count);
            }
        })?;
        Ok(best)
    }

    /// For each seeker of each cluster the member with the most similar path, other than itself; the
    /// first of equal ones.
    ///
    /// Training paths are more than caches hold, and may be more than memory does. So they are read once, and where
    /// some of a cluster's are together, every seeker looks through them.
    pub(crate) fn neighbours<S: PathSource>(
        &self,
        seekers: &[Vec<Seeker<'_>>],
        source: &S,
    ) -> Result<Vec<Vec<Option<u32>>>, S::Error> {
        let looking = |seekers: &Vec<Seeker<'_>>| Looking {
            best: vec![None; seekers.len()],
            rows: Vec::with_capacity(PATHS),
            paths: BitRows::new(self.layout().width()),
        };
        let mut all: Vec<Looking> = seekers.iter().map(looking).collect();
        if seekers.iter().any(|seekers| !seekers.is_empty()) {
            let mut block = Block::default();
            for_each_path(source, self.layout(), self.training().len(), |row, path| {
                let cluster = self.cluster_of(row) as usize;
                let (Some(looking), Some(seekers)) = (all.get_mut(cluster), seekers.get(cluster))
                else {
                    return;
                };
                if seekers.is_empty() {
                    return;
                }
                looking.rows.push(row);
                looking.paths.push(path);
                if looking.rows.len() == PATHS {
                    looking.look(self.layout(), seekers, &mut block);
                }
            })?;
            for (looking, seekers) in all.iter_mut().zip(seekers) {
                looking.look(self.layout(), seekers, &mut block);
            }
        }
        let found = |looking: Looking| looking.best.into_iter().map(|best| Some(best?.0)).collect();
        Ok(all.into_iter().map(found).collect())
    }

    /// Neurons in each layer of a cluster's abstract path.
    pub(crate) fn abstract_counts(&self, cluster: usize) -> &[u32] {
        let layers = self.layout().layers();
        &self.abstract_counts[cluster * layers..(cluster + 1) * layers]
    }
}

/// Who seeks a neighbour: a path, and which training input it is, if it is one.
pub(crate) type Seeker<'a> = (&'a Comparison<'a>, Option<u32>);

/// The search among the members of a cluster.
struct Looking {
    /// By seeker: the best so far.
    best: Vec<Option<(u32, f64)>>,
    /// Members that were not looked at yet, fewer than [`PATHS`].
    rows: Vec<u32>,
    paths: BitRows,
}

impl Looking {
    /// Lets every seeker look at the members that are here.
    fn look(&mut self, layout: &PathLayout, seekers: &[Seeker<'_>], block: &mut Block) {
        if self.rows.is_empty() {
            return;
        }
        block.fill(layout, &self.paths);
        for (best, &(comparison, itself)) in self.best.iter_mut().zip(seekers) {
            let scores = counting(
                #[inline(always)]
                || block.similarities(comparison),
            );
            let scores = &scores[..self.rows.len()];
            // Most blocks hold nothing better.
            let most = scores.iter().copied().fold(0.0, f64::max);
            if best.is_some_and(|(_, highest)| !more_similar(most, highest)) {
                continue;
            }
            for (&row, &score) in self.rows.iter().zip(scores) {
                let is_better = best.is_none_or(|(_, highest)| more_similar(score, highest));
                if is_better && itself != Some(row) {
                    *best = Some((row, score));
                }
            }
        }
        self.rows.clear();
        self.paths.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits;

    /// Paths of one layer of four neurons, as in case 22.
    fn training(rows: &[(&str, u32, i64)]) -> (TrainingInputs, BitRows) {
        let layout = PathLayout::new([4]);
        let mut paths = BitRows::zeros(1, rows.len());
        for (i, (text, _, _)) in rows.iter().enumerate() {
            for (neuron, _) in text.match_indices('1') {
                bits::set(paths.row_mut(i), neuron);
            }
        }
        let inputs = TrainingInputs {
            layout,
            predictions: rows.iter().map(|row| row.1.into()).collect(),
            labels: Some(rows.iter().map(|row| row.2).collect()),
        };
        (inputs, paths)
    }

    fn learn(rows: &[(&str, u32, i64)], options: &LearnOptions) -> PathGraph {
        let (inputs, paths) = training(rows);
        let Ok(graph) = PathGraph::learn(inputs, &paths, options);
        graph
    }

    fn options(clusters: usize, members: Members) -> LearnOptions {
        let parameters = ClassParameters {
            clusters: Clusters::Fixed(clusters),
            beta: 0.6,
        };
        LearnOptions {
            classes: vec![parameters; 2],
            members,
            merge: Merge::Strict,
            kmeans: KMeans::default(),
            threads: 1,
        }
    }

    const ROWS: [(&str, u32, i64); 6] = [
        ("1100", 0, 0),
        ("1110", 0, 0),
        ("0110", 1, 1),
        ("0011", 0, 1),
        ("0001", 0, 0),
        ("0111", 1, 1),
    ];

    #[test]
    fn classes_are_clustered_one_by_one() {
        let graph = learn(&ROWS, &options(2, Members::Predicted));
        let [zero, one] = graph.classes() else {
            panic!("two classes")
        };
        assert_eq!((zero.clusters.clone(), one.clusters.clone()), (0..2, 2..4));
        let of = |cluster| (graph.members(cluster), graph.abstract_path(cluster)[0]);
        let mut clusters = [of(0), of(1)];
        clusters.sort();
        assert_eq!(clusters, [(vec![0, 1], 0b0011), (vec![3, 4], 0b1000)]);
        assert_eq!((graph.class_of(1), graph.class_of(2)), (0, 1));
    }

    #[test]
    fn classes_that_are_not_held_are_clustered_alike() {
        let texts = ["1100", "1110", "0110", "0011", "1111", "0001", "1010"];
        let rows: Vec<_> = (0..200)
            .map(|i| (texts[i * i % 7], (i % 3 > 0).into(), 0))
            .collect();
        let (inputs, paths) = training(&rows);
        for clusters in [1, 3, 9] {
            let options = options(clusters, Members::Predicted);
            let held = learn(&rows, &options);
            // Nothing is held, and a path, some or all are read at a time.
            for read in [0, 100, 1 << 20] {
                let limits = (0, read);
                let Ok(graph) = PathGraph::learn_holding(inputs.clone(), &paths, &options, limits);
                assert_eq!(graph, held, "{clusters} clusters, {read} bytes");
            }
        }
    }

    #[test]
    fn wrongly_classified_inputs_can_be_left_out() {
        let graph = learn(&ROWS, &options(1, Members::Correct));
        assert_eq!(graph.members(0), [0, 1, 4]);
        assert_eq!((graph.size(0), graph.cluster_of(3)), (3, NO_CLUSTER));
    }

    #[test]
    fn missing_clusters_stay_planned() {
        let graph = learn(&ROWS, &options(3, Members::Predicted));
        assert_eq!((graph.clusters(), graph.planned_clusters()), (5, 6));
        let graph = learn(&ROWS[..2], &options(3, Members::Predicted));
        assert_eq!(graph.classes()[1].clusters, 2..2);
    }

    #[test]
    fn clusters_may_be_known_before() {
        let options = options(2, Members::Predicted);
        let learnt = learn(&ROWS, &options);
        let (inputs, paths) = training(&ROWS);
        let mut clusters = ClusterList::new(ROWS.len());
        for class in 0..2 {
            let first = learnt.classes()[class].clusters.start as u32;
            assert_eq!(clusters.first() as u32, first);
            for row in inputs.rows_of(class, Members::Predicted) {
                clusters.add(row, learnt.cluster_of(row) - first);
            }
            clusters.close_class(None, 0.6);
        }
        let Ok(known) = PathGraph::of_clusters(inputs.clone(), clusters, Merge::Strict, &paths);
        assert_eq!(known, learnt);
        let mut none = ClusterList::new(ROWS.len());
        none.close_class(Some(0), 0.6);
        let Ok(graph) = PathGraph::of_clusters(inputs, none, Merge::Strict, &paths);
        assert_eq!((graph.clusters(), graph.cluster_of(0)), (0, NO_CLUSTER));
    }

    #[test]
    fn exemplars_are_most_like_the_abstract_path() {
        let graph = learn(&ROWS, &options(1, Members::Predicted));
        // Of 1100, 1110, 0011, 0001 no neuron is in more than half: only beta above .5 is empty.
        assert_eq!(graph.empty_layers(), [(0, 0)]);
        let paths = training(&ROWS).1;
        let Ok(exemplars) = graph.exemplars(&paths, 1, Similarity::LayerMean, 1);
        // Both members of class 1 share 0110.
        assert_eq!(exemplars, [(2, 1.0)]);
        // Of equal ones the first: nobody shares anything with an empty path.
        let Ok(exemplars) = graph.exemplars(&paths, 0, Similarity::LayerMean, 3);
        assert_eq!(exemplars, [(0, 0.0), (1, 0.0), (3, 0.0)]);
    }

    #[test]
    fn neighbours_are_the_first_of_the_most_similar() {
        // Many paths, of which several are alike, in more than a block.
        let texts = ["1100", "1110", "0110", "0011", "1111", "0001", "1010"];
        let count = 3 * PATHS + 5;
        let rows: Vec<_> = (0..count).map(|i| (texts[i * i % 7], 0, 0)).collect();
        let graph = learn(&rows, &options(2, Members::Predicted));
        let paths = training(&rows).1;
        let kind = Similarity::LayerMean;
        let own: Vec<[u64; 1]> = (0..16).map(|bits| [bits]).collect();
        let comparisons: Vec<Comparison<'_>> = (own.iter())
            .map(|path| Comparison::new(graph.layout(), kind, path))
            .collect();
        for itself in [None, Some(0), Some(40), Some(count as u32 - 1)] {
            let seekers: Vec<Seeker<'_>> = comparisons.iter().map(|c| (c, itself)).collect();
            // Nobody seeks in the second cluster.
            let Ok(found) = graph.neighbours(&[seekers.clone(), vec![]], &paths);
            assert_eq!(found[1], []);
            let Ok(both) = graph.neighbours(&[seekers.clone(), seekers.clone()], &paths);
            assert_eq!(both[0], found[0]);
            for (cluster, found) in both.iter().enumerate() {
                let naive = |comparison: &Comparison<'_>| {
                    let mut best: Option<(u32, f64)> = None;
                    let members = graph.members(cluster);
                    for &row in members.iter().filter(|&&row| Some(row) != itself) {
                        let path = paths.row(row as usize);
                        let counts: Vec<u32> = layer_counts(graph.layout(), path).collect();
                        let score = comparison.to(path, &counts);
                        if best.is_none_or(|(_, highest)| more_similar(score, highest)) {
                            best = Some((row, score));
                        }
                    }
                    best.map(|(row, _)| row)
                };
                let expected: Vec<_> = comparisons.iter().map(naive).collect();
                assert_eq!(*found, expected);
            }
        }
    }

    #[test]
    fn parts_are_checked() {
        let graph = learn(&ROWS, &options(2, Members::Predicted));
        assert_eq!(
            PathGraph::assemble(graph.parts().clone()),
            Ok(graph.clone())
        );
        let broken = |change: fn(&mut GraphParts)| {
            let mut parts = graph.parts().clone();
            change(&mut parts);
            PathGraph::assemble(parts).unwrap_err().to_string()
        };
        let other_class = broken(|parts| parts.assignment.set(0, 2));
        assert!(other_class.contains("another class"), "{other_class}");
        let neurons = broken(|parts| parts.abstract_paths.row_mut(0)[0] |= 1 << 4);
        assert!(neurons.contains("neurons"), "{neurons}");
        for change in [
            (|parts: &mut GraphParts| parts.assignment = Narrow::filled(0, 1))
                as fn(&mut GraphParts),
            |parts| parts.training.predictions.push(0),
            |parts| parts.training.labels = Some(Narrow::default()),
            |parts| parts.assignment.set(0, -2),
            |parts| parts.training.layout = PathLayout::new([4, 1]),
            |parts| parts.classes[1].clusters = 1..4,
            |parts| parts.classes[0].planned = 1,
            |parts| parts.abstract_paths.push(&[0]),
        ] {
            broken(change);
        }
    }
}
