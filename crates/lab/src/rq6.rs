//! RQ6: do clusters find the kinds that nobody labelled?
//!
//! A network was trained on labels that merge finer ones, its *kinds*. It never saw them; whether the
//! clusters of a class are the kinds in it tells whether clusters are worth looking at. Relevance
//! profiles are not alone in that: activations and pixels are clustered by the same method, and only
//! what exceeds them is to the credit of paths.

use std::ops::Range;

use npcov::coverage::LearntGraph;
use npcov::data::Loader;
use npcov::paths::{Clustering, GraphClustering, KMeans, TrainingActivations, gather, profile};
use npcov::run::{Event, Progress};
use serde::{Deserialize, Serialize};

use crate::agreement::{adjusted_rand, purity};
use crate::error::LabError;
use crate::folder::WorkFolder;
use crate::kinds::{OfKinds, TrainingKinds};

/// How RQ6 is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rq6Settings {
    /// Restarts of k-means; as many as the graph was built with by default.
    pub restarts: Option<usize>,
}

impl Rq6Settings {
    /// How many ways to cluster there are.
    pub fn work(&self) -> usize {
        Clustered::ALL.len()
    }
}

/// What RQ6 gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq6 {
    /// The training data, as it was named.
    pub data: String,
    /// The decision graph's digest.
    pub graph: String,
    /// Training inputs in clusters.
    pub inputs: usize,
    /// How inputs are clustered, but for k-means.
    pub clustering: GraphClustering,
    /// Restarts of k-means.
    pub restarts: usize,
    /// By what was clustered.
    pub rows: Vec<Rq6Row>,
}

/// How well the clusters of something agree with kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq6Row {
    /// What was clustered.
    pub clustered: Clustered,
    /// By class.
    pub classes: Vec<Rq6Class>,
}

/// How well the clusters of a class agree with kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq6Class {
    /// The class.
    pub class: usize,
    /// Training inputs that are classified as it.
    pub inputs: usize,
    /// Kinds that have more inputs in it than in any other class.
    pub kinds: usize,
    /// Clusters that were found, or asked for.
    pub clusters: usize,
    /// The adjusted Rand index.
    pub ari: f64,
    /// The share of inputs that are of the most frequent kind of their cluster.
    pub purity: f64,
}

/// What is clustered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clustered {
    /// Relevance profiles, by communities: the graph's own clusters.
    Profiles,
    /// Paths, by k-means with as many clusters as there are kinds.
    PathsByKMeans,
    /// Activations of the last path layer, by communities.
    LastActivations,
    /// Activations of all path layers, by communities.
    Activations,
    /// Pixels, by communities.
    Pixels,
}

impl Clustered {
    /// All, in the order in which they are shown.
    pub const ALL: [Clustered; 5] = [
        Clustered::Profiles,
        Clustered::PathsByKMeans,
        Clustered::LastActivations,
        Clustered::Activations,
        Clustered::Pixels,
    ];

    /// What its part of the work is called.
    fn part(self) -> &'static str {
        match self {
            Clustered::Profiles => "profiles",
            Clustered::PathsByKMeans => "paths-by-kmeans",
            Clustered::LastActivations => "last-activations",
            Clustered::Activations => "activations",
            Clustered::Pixels => "pixels",
        }
    }
}

/// Compares the clusters of a graph with kinds of its training data, one for each input. What is
/// finished is kept in `work`, whose plan must tell graph, data, kinds and settings apart; `progress`
/// is told of each way to cluster, [`Rq6Settings::work`] says how many there are.
///
/// Activations are made bytes as relevances are: by layer, the root of each neuron's share of what is
/// positive. Pixels are scaled to the range of bytes.
pub fn rq6(
    graph: &LearntGraph,
    &OfKinds { data, kinds }: &OfKinds<'_>,
    settings: &Rq6Settings,
    work: &WorkFolder,
    threads: usize,
    progress: &mut dyn Progress,
) -> Result<Rq6, LabError> {
    let record = graph.file().record();
    let Clustering::Graph(communities) = &record.clustering else {
        return Err(LabError::NoCommunities(graph.file().name().to_owned()));
    };
    let study = Study {
        graph,
        data,
        kinds: TrainingKinds::new(graph.file(), data, kinds)?,
        communities,
        kmeans: KMeans {
            restarts: settings.restarts.unwrap_or(record.restarts),
            seed: record.seed,
            ..KMeans::default()
        },
        threads,
    };
    let mut rows = Vec::new();
    for clustered in Clustered::ALL {
        rows.push(work.keep(clustered.part(), || study.row(clustered))?);
        progress.tell(Event::Finished(1))?;
    }
    let first = rows.first().map_or(&[][..], |row: &Rq6Row| &row.classes);
    Ok(Rq6 {
        data: data.name().to_owned(),
        graph: record.id.clone(),
        inputs: first.iter().map(|class| class.inputs).sum(),
        clustering: communities.clone(),
        restarts: study.kmeans.restarts,
        rows,
    })
}

/// Training inputs and their kinds, and how they are clustered.
struct Study<'a> {
    graph: &'a LearntGraph,
    data: &'a Loader<'a>,
    kinds: TrainingKinds<'a>,
    communities: &'a GraphClustering,
    kmeans: KMeans,
    threads: usize,
}

impl Study<'_> {
    fn row(&self, clustered: Clustered) -> Result<Rq6Row, LabError> {
        let scale = match clustered {
            Clustered::Pixels => Some(self.scale()?),
            _ => None,
        };
        let mut classes = Vec::new();
        for (class, kinds) in self.kinds.by_class().into_iter().enumerate() {
            let (rows, own) = self.kinds.members(class);
            let layers = self.graph.file().graph().layout().layers();
            let clusters = match (clustered, &scale) {
                (Clustered::Profiles, _) => own,
                (Clustered::PathsByKMeans, _) => self.by_kmeans(&rows, kinds)?,
                (Clustered::Pixels, Some(scale)) => {
                    self.by_communities(&self.pixels(&rows, scale)?, rows.len())
                }
                (Clustered::LastActivations, _) => {
                    let last = layers.saturating_sub(1)..layers;
                    self.by_communities(&self.activations(&rows, last)?, rows.len())
                }
                _ => self.by_communities(&self.activations(&rows, 0..layers)?, rows.len()),
            };
            let mut found = clusters.clone();
            found.sort_unstable();
            found.dedup();
            let of_rows = self.kinds.of(&rows);
            classes.push(Rq6Class {
                class,
                inputs: rows.len(),
                kinds,
                clusters: found.len(),
                ari: adjusted_rand(&clusters, &of_rows),
                purity: purity(&clusters, &of_rows),
            });
        }
        Ok(Rq6Row { clustered, classes })
    }

    fn by_kmeans(&self, rows: &[u32], clusters: usize) -> Result<Vec<u32>, LabError> {
        let file = self.graph.file();
        let paths = gather(file, file.graph().layout(), rows)?;
        let clusters = clusters.max(1);
        let kmeans = KMeans {
            clusters,
            ..self.kmeans.clone()
        };
        Ok(kmeans.run(&paths, self.threads).labels)
    }

    fn by_communities(&self, bytes: &[u8], inputs: usize) -> Vec<u32> {
        let width = bytes.len() / inputs.max(1);
        self.communities.run(bytes, width, self.threads)
    }

    /// Activations of some layers, as bytes.
    fn activations(&self, rows: &[u32], layers: Range<usize>) -> Result<Vec<u8>, LabError> {
        let file = self.graph.file();
        let layout = file.graph().layout();
        let mut activations = vec![0.0; layout.total_neurons()];
        let mut bytes = Vec::new();
        for &row in rows {
            TrainingActivations::read(file, row, &mut activations)?;
            let layer = |layer: usize| &activations[layout.span(layer)];
            profile::push_profile(layers.clone().map(layer), &mut bytes);
        }
        Ok(bytes)
    }

    /// How pixels become bytes.
    fn scale(&self) -> Result<Scale, LabError> {
        let width = self.data.sample_len();
        let training = &self.graph.file().record().training;
        let mut sample = vec![0.0; width];
        let mut scale = Scale::of_width(width);
        for row in training.start..training.end {
            self.data.read_stored(row..row + 1, &mut sample)?;
            sample.iter().for_each(|&pixel| scale.show(pixel));
        }
        Ok(scale)
    }

    /// Pixels, as bytes.
    fn pixels(&self, rows: &[u32], scale: &Scale) -> Result<Vec<u8>, LabError> {
        let start = self.graph.file().record().training.start;
        let mut sample = vec![0.0; self.data.sample_len()];
        let mut bytes = Vec::with_capacity(rows.len() * sample.len());
        for &row in rows {
            let row = start + row as usize;
            self.data.read_stored(row..row + 1, &mut sample)?;
            bytes.extend(sample.iter().map(|&pixel| scale.byte(pixel)));
        }
        Ok(bytes)
    }
}

/// Brings numbers to the range of bytes: the least to 0, the largest to 255.
struct Scale {
    low: f32,
    high: f32,
    /// What the largest becomes.
    top: f64,
}

impl Scale {
    /// For rows of so many numbers. Of very many, the largest becomes less than 255, so that the
    /// squared distance of two rows, at most `width top^2`, fits into 32 bits.
    fn of_width(width: usize) -> Scale {
        let fits = (f64::from(u32::MAX) / width.max(1) as f64).sqrt().floor();
        Scale {
            low: f32::INFINITY,
            high: f32::NEG_INFINITY,
            top: fits.min(255.0),
        }
    }

    fn show(&mut self, number: f32) {
        if number.is_finite() {
            self.low = self.low.min(number);
            self.high = self.high.max(number);
        }
    }

    fn byte(&self, number: f32) -> u8 {
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        let share = (f64::from(number) - low) / (high - low);
        // A number that is none becomes 0, as do all where there is only one.
        (share * self.top).round() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_of_bytes_stay_as_they_are() {
        let mut scale = Scale::of_width(784);
        (0..=255u8).for_each(|pixel| scale.show(f32::from(pixel)));
        assert!((0..=255u8).all(|pixel| scale.byte(f32::from(pixel)) == pixel));
    }

    #[test]
    fn other_numbers_are_scaled_and_squares_fit() {
        let mut scale = Scale::of_width(3 * 224 * 224);
        for number in [-1.0, f32::NAN, 1.0, f32::INFINITY] {
            scale.show(number);
        }
        // sqrt((2^32 - 1) / 150,528) = 168.9.
        assert_eq!(
            [-1.0, 0.0, 1.0, f32::NAN].map(|x| scale.byte(x)),
            [0, 84, 168, 0]
        );
        assert!(3 * 224 * 224 * 168u64.pow(2) < 1 << 32);
        let mut one = Scale::of_width(1);
        one.show(3.0);
        assert_eq!(one.byte(3.0), 0);
    }
}
