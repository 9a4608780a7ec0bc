//! Where inputs belong in a decision graph, and how usual they are there, told by their neighbours.
//!
//! The neighbours of an input are the nearest landmarks of its class by relevance profile. Where the
//! graph's clusters are communities of neighbours, they vote on the cluster; clusters of k-means are
//! told by their centres. The distance to the nearest of them says how unfamiliar the input is.
//! How contested it is, the activations of the last path layer say.

use std::ops::Range;

use npcov_artefact::{ArtefactError, GraphFile, NO_SCORE, ScoreKind};
use npcov_criteria::{Contested, ContestedInput, Training, TrainingError};
use npcov_paths::{
    Centres, Clustering, Landmarks, NO_CLUSTER, NearestRows, Neighbour, PathGraph, PathLayout,
    profile, vote,
};
use npcov_run::{PathRows, in_parallel};

use crate::error::CoverageError;
use crate::graph::LearntGraph;

/// Bytes of profiles that are read at a time.
const READ: usize = 4 << 20;

/// What is told of an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// The cluster of its class that it belongs to, or [`NO_CLUSTER`].
    pub cluster: u32,
    /// How unfamiliar it is, or [`NO_SCORE`].
    pub unfamiliar: f64,
    /// How contested it is, or [`NO_SCORE`].
    pub contested: f64,
}

impl Scores {
    /// Of an input that nothing is told of.
    pub(crate) const NONE: Scores = Scores {
        cluster: NO_CLUSTER,
        unfamiliar: NO_SCORE,
        contested: NO_SCORE,
    };

    /// The score of a kind.
    pub fn get(&self, kind: ScoreKind) -> f64 {
        match kind {
            ScoreKind::Unfamiliar => self.unfamiliar,
            ScoreKind::Contested => self.contested,
        }
    }
}

/// How many neighbours are asked for.
pub(crate) const NEIGHBOURS: usize = 15;

/// Reads the profiles of some landmarks, one after the other.
pub(crate) type ReadProfiles<'a> =
    &'a (dyn Fn(Range<usize>, &mut [u8]) -> Result<(), ArtefactError> + Sync);

/// The nearest landmarks of a class for each of some inputs, whose profiles stand one after the other.
/// Those that are training inputs themselves (`training` says which) are not their own neighbours.
pub(crate) fn neighbours(
    landmarks: &Landmarks,
    class: usize,
    read: ReadProfiles<'_>,
    (profiles, width): (&[u8], usize),
    training: &[u32],
    threads: usize,
) -> Result<Vec<Vec<Neighbour>>, ArtefactError> {
    let mut nearest = NearestRows::new(profiles, width, NEIGHBOURS);
    for (query, &row) in training.iter().enumerate() {
        nearest.leave_out(query, row);
    }
    let of_class = landmarks.of_class(class);
    let step = (READ / width.max(1)).max(1);
    let mut bytes = Vec::new();
    for start in of_class.clone().step_by(step) {
        let block = start..(start + step).min(of_class.end);
        bytes.resize(block.len() * width, 0);
        read(block.clone(), &mut bytes)?;
        nearest.show(&landmarks.rows()[block], &bytes, threads);
    }
    let queries = profiles.len() / width.max(1);
    Ok((0..queries).map(|i| nearest.of(i).to_vec()).collect())
}

impl LearntGraph {
    /// For each of some inputs its nearest landmarks: training inputs that are decided as the same class,
    /// at most `count`, and how far they are.
    pub fn nearest(
        &self,
        inputs: &PathRows,
        count: usize,
        threads: usize,
    ) -> Result<Vec<Vec<(u32, f64)>>, CoverageError> {
        let file = self.file();
        let read = |landmarks: Range<usize>, out: &mut [u8]| file.read_profiles(landmarks, out);
        let mut all = vec![Vec::new(); inputs.predictions.len()];
        let (landmarks, classes) = (file.landmarks(), file.graph().classes().len());
        neighbours_of_all(
            landmarks,
            classes,
            &read,
            inputs,
            threads,
            |place, found| {
                let nearest = found.iter().take(count);
                let distance = |n: &Neighbour| (n.row, profile::distance(n.squared));
                all[place] = nearest.map(distance).collect();
            },
        )?;
        Ok(all)
    }
}

/// Hands on the neighbours of each of some inputs, among the landmarks of the class that it is predicted as.
pub(crate) fn neighbours_of_all(
    landmarks: &Landmarks,
    classes: usize,
    read: ReadProfiles<'_>,
    rows: &PathRows,
    threads: usize,
    mut take: impl FnMut(usize, &[Neighbour]),
) -> Result<(), ArtefactError> {
    let width = rows.profiles.len() / rows.predictions.len().max(1);
    for class in 0..classes {
        let (places, profiles) = rows.of_class(class);
        if places.is_empty() {
            continue;
        }
        let found = neighbours(landmarks, class, read, (&profiles, width), &[], threads)?;
        for (place, found) in places.into_iter().zip(found) {
            take(place, &found);
        }
    }
    Ok(())
}

/// How unfamiliar an input with these neighbours is.
pub(crate) fn unfamiliar(neighbours: &[Neighbour]) -> f64 {
    neighbours
        .first()
        .map_or(NO_SCORE, |nearest| profile::distance(nearest.squared))
}

/// Tells where inputs belong in a decision graph.
pub(crate) struct Scorer {
    /// The centres of clusters of k-means; other clusters are told by votes.
    centres: Option<Centres>,
    contested: LastLayer,
}

impl Scorer {
    pub(crate) fn new(file: &GraphFile) -> Result<Scorer, CoverageError> {
        let contested = LastLayer::new(file.graph().layout(), file.landmarks(), file)?;
        let centres = match file.record().clustering {
            Clustering::KMeans => Some(Centres::of(file.graph(), file)?),
            Clustering::Graph(_) => None,
        };
        Ok(Scorer { centres, contested })
    }

    /// The cluster of an input of a class, with these neighbours.
    fn cluster(
        &self,
        graph: &PathGraph,
        class: usize,
        path: &[u64],
        neighbours: &[Neighbour],
    ) -> u32 {
        let found = match &self.centres {
            Some(centres) => centres.cluster_of(class, path),
            None => vote(neighbours, |row| graph.cluster_of(row)),
        };
        found.unwrap_or(NO_CLUSTER)
    }

    /// Where each of some inputs belongs, and how unfamiliar it is there.
    pub(crate) fn placed(
        &self,
        file: &GraphFile,
        rows: &PathRows,
        threads: usize,
    ) -> Result<Vec<Scores>, CoverageError> {
        let graph = file.graph();
        let (landmarks, classes) = (file.landmarks(), graph.classes().len());
        let mut all = vec![Scores::NONE; rows.predictions.len()];
        let read = |landmarks: Range<usize>, out: &mut [u8]| file.read_profiles(landmarks, out);
        neighbours_of_all(landmarks, classes, &read, rows, threads, |place, found| {
            let (class, path) = (rows.predictions[place] as usize, rows.paths.row(place));
            all[place].cluster = self.cluster(graph, class, path, found);
            all[place].unfamiliar = unfamiliar(found);
        })?;
        Ok(all)
    }

    /// What is told of each of some inputs.
    pub(crate) fn scores(
        &self,
        file: &GraphFile,
        rows: &PathRows,
        threads: usize,
    ) -> Result<Vec<Scores>, CoverageError> {
        let mut all = self.placed(file, rows, threads)?;
        let contested = self
            .contested
            .scores(file.landmarks(), file, rows, threads)?;
        let scores = all.iter_mut().zip(contested);
        scores.for_each(|(scores, contested)| scores.contested = contested);
        Ok(all)
    }
}

/// Tells how contested inputs are, by the landmarks' activations of the last path layer.
pub(crate) struct LastLayer {
    neurons: Range<usize>,
    contested: Contested,
}

impl LastLayer {
    pub(crate) fn new(
        layout: &PathLayout,
        landmarks: &Landmarks,
        training: &dyn Training,
    ) -> Result<LastLayer, CoverageError> {
        let neurons = match layout.layers() {
            0 => 0..0,
            layers => layout.span(layers - 1),
        };
        let training = LandmarkTraining::new(landmarks, training);
        let contested = Contested::new(&training, neurons.clone())?;
        Ok(LastLayer { neurons, contested })
    }

    /// The score of each of some inputs, or [`NO_SCORE`].
    pub(crate) fn scores(
        &self,
        landmarks: &Landmarks,
        training: &dyn Training,
        rows: &PathRows,
        threads: usize,
    ) -> Result<Vec<f64>, CoverageError> {
        let training = LandmarkTraining::new(landmarks, training);
        let inputs = rows.predictions.len();
        let width = rows.activations.len() / inputs.max(1);
        let input = |place: usize| ContestedInput {
            class: rows.predictions[place],
            activations: &rows.activations[place * width..][self.neurons.clone()],
        };
        let mut all = Vec::with_capacity(inputs);
        for part in in_parallel(inputs, threads, |places| {
            let inputs: Vec<ContestedInput<'_>> = places.map(input).collect();
            self.contested.scores(&inputs, &training)
        }) {
            all.extend(part?.into_iter().map(|score| score.unwrap_or(NO_SCORE)));
        }
        Ok(all)
    }
}

/// Landmarks as the training data that inputs are held against.
struct LandmarkTraining<'a> {
    rows: &'a [u32],
    predictions: Vec<u32>,
    training: &'a dyn Training,
}

impl<'a> LandmarkTraining<'a> {
    fn new(landmarks: &'a Landmarks, training: &'a dyn Training) -> LandmarkTraining<'a> {
        let rows = landmarks.rows();
        let class = |&row: &u32| training.prediction(row as usize);
        LandmarkTraining {
            predictions: rows.iter().map(class).collect(),
            rows,
            training,
        }
    }
}

impl Training for LandmarkTraining<'_> {
    fn inputs(&self) -> usize {
        self.predictions.len()
    }

    fn prediction(&self, input: usize) -> u32 {
        self.predictions[input]
    }

    fn read(
        &self,
        inputs: Range<usize>,
        neurons: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), TrainingError> {
        let rows = out.chunks_exact_mut(neurons.len().max(1));
        for (&row, out) in self.rows[inputs].iter().zip(rows) {
            let row = row as usize;
            self.training.read(row..row + 1, neurons.clone(), out)?;
        }
        Ok(())
    }

    fn importance(&self, _layer: usize) -> Option<&[f64]> {
        None
    }
}
