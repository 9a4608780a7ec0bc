//! Where inputs belong in a decision graph and how usual they are, against a twin that reads like the
//! definitions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use npcov::artefact::{NO_SCORE, ScoreKind};
use npcov::data::{Preprocessing, Samples, open};
use npcov::paths::{Clustering, NO_CLUSTER};
use npcov::run::{PathRows, RunError};
use npcov::{BuildOptions, DecisionGraph, Inputs, Model, TrainingInputs};

/// Training inputs; the others are the suite.
const TRAINING: usize = 600;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

fn images() -> Arc<dyn Samples> {
    open(fixture("fashion-1000.npz").to_str().unwrap()).unwrap()
}

fn model(threads: usize) -> Model {
    let scale = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let model = Model::open(fixture("lenet.onnx")).unwrap();
    model.with_preprocessing(scale).with_threads(threads)
}

fn options() -> BuildOptions {
    BuildOptions {
        criteria: Some(vec!["snpc".parse().unwrap()]),
        ..BuildOptions::default()
    }
}

fn build(clustering: Option<Clustering>, threads: usize) -> DecisionGraph {
    let mut options = options();
    if let Some(clustering) = clustering {
        options.clustering = clustering;
    }
    let data = images();
    let train = Inputs::from(&data).rows(0..TRAINING);
    model(threads).build(train, &options, &mut ()).unwrap()
}

/// What is extracted of all inputs, training inputs first.
fn extracted(graph: &DecisionGraph) -> Vec<PathRows> {
    let extractor = graph.learnt().extractor().unwrap();
    let data = graph.loader(images()).unwrap();
    let mut all = Vec::new();
    let mut keep = |rows: &PathRows| -> Result<(), RunError> {
        all.push(rows.clone());
        Ok(())
    };
    extractor.run(&data, 0..data.len(), 1, &mut keep).unwrap();
    all
}

/// One input as the definitions see it.
struct Seen {
    class: u32,
    profile: Vec<u8>,
    last: Vec<f32>,
}

fn seen(graph: &DecisionGraph) -> Vec<Seen> {
    let layout = graph.learnt().file().graph().layout().clone();
    let span = layout.span(layout.layers() - 1);
    let neurons = layout.total_neurons();
    let mut inputs = Vec::new();
    for rows in extracted(graph) {
        for place in 0..rows.predictions.len() {
            let of = place * neurons..(place + 1) * neurons;
            inputs.push(Seen {
                class: rows.predictions[place],
                profile: rows.profiles[of.clone()].to_vec(),
                last: rows.activations[of][span.clone()].to_vec(),
            });
        }
    }
    inputs
}

fn squared(a: &[u8], b: &[u8]) -> u64 {
    let pairs = a.iter().zip(b);
    pairs.map(|(&a, &b)| u64::from(a.abs_diff(b)).pow(2)).sum()
}

fn euclidean(a: &[f32], b: &[f32]) -> f64 {
    let square = |(&a, &b): (&f32, &f32)| (f64::from(a) - f64::from(b)).powi(2);
    a.iter().zip(b).map(square).sum::<f64>().sqrt()
}

/// The 15 nearest landmarks of the input's class, nearest first: squared distance and training row.
fn nearest(input: &Seen, all: &[Seen], landmarks: &[u32], except: Option<u32>) -> Vec<(u64, u32)> {
    let of_class = |row: &&u32| all[**row as usize].class == input.class && Some(**row) != except;
    let mut found: Vec<(u64, u32)> = landmarks
        .iter()
        .filter(of_class)
        .map(|&row| (squared(&input.profile, &all[row as usize].profile), row))
        .collect();
    found.sort_unstable();
    found.truncate(15);
    found
}

/// The distance to the nearest.
fn distance(nearest: &[(u64, u32)]) -> Option<f64> {
    let squared = nearest.first()?.0;
    Some(npcov::paths::profile::distance(squared as u32))
}

/// The distance of the last activations to the nearest of the class, over that to the nearest of another.
fn contested(input: &Seen, all: &[Seen], landmarks: &[u32]) -> f64 {
    let to = |same: bool| {
        let rows = landmarks.iter().map(|&row| &all[row as usize]);
        rows.filter(|other| (other.class == input.class) == same)
            .map(|other| euclidean(&input.last, &other.last))
            .fold(f64::INFINITY, f64::min)
    };
    to(true) / to(false)
}

/// The cluster that most of them are in; of equals that of the nearest.
fn voted(nearest: &[(u64, u32)], assignment: &[u32]) -> u32 {
    let mut votes: BTreeMap<u32, usize> = BTreeMap::new();
    for (_, row) in nearest {
        *votes.entry(assignment[*row as usize]).or_default() += 1;
    }
    let most = votes.values().max().copied().unwrap_or(0);
    let first = nearest.iter().map(|(_, row)| assignment[*row as usize]);
    let mut first = first.filter(|cluster| votes[cluster] == most);
    first.next().unwrap_or(NO_CLUSTER)
}

#[test]
fn clusters_and_scores_are_told_by_neighbours() {
    let graph = build(None, 2);
    let file = graph.learnt().file();
    let all = seen(&graph);
    let assignment: Vec<u32> = (0..TRAINING as u32)
        .map(|input| file.graph().cluster_of(input))
        .collect();
    let (assignment, landmarks) = (&assignment, file.landmarks().rows());
    assert!(matches!(file.record().clustering, Clustering::Graph(_)));

    let data = images();
    let suite = Inputs::from(&data).rows(TRAINING..data.len());
    let coverage = graph.cover("test", suite, &mut ()).unwrap();
    let records = &coverage.state().suites()[0].inputs;
    for (record, input) in records.iter().zip(&all[TRAINING..]) {
        assert_eq!(record.prediction, input.class);
        let near = nearest(input, &all, landmarks, None);
        assert_eq!(record.cluster, voted(&near, assignment));
        assert_eq!(record.score(ScoreKind::Unfamiliar), distance(&near));
        let contested = contested(input, &all, landmarks);
        match record.score(ScoreKind::Contested) {
            Some(found) => assert!((found - contested).abs() < 1e-9 * contested, "{found}"),
            None => assert!(!contested.is_finite()),
        }
    }

    // Shares are counted by the same rule, each input left out of its own vote.
    let mut shares = vec![0; file.graph().clusters()];
    for (row, input) in all[..TRAINING].iter().enumerate() {
        let near = nearest(input, &all, landmarks, Some(row as u32));
        if let Some(share) = shares.get_mut(voted(&near, assignment) as usize) {
            *share += 1;
        }
    }
    assert_eq!(file.record().shares, shares);

    // Calibration inputs are none of the landmarks, and classified as labelled.
    let labels = data.labels().unwrap();
    let calibration = file.calibration().scores(ScoreKind::Unfamiliar);
    assert!(calibration.len() >= 30 && calibration.is_sorted());
    for &score in calibration {
        let is_it = |row: &usize| {
            let near = nearest(&all[*row], &all, landmarks, None);
            let right = labels[*row] == i64::from(all[*row].class);
            distance(&near) == Some(score) && right && !landmarks.contains(&(*row as u32))
        };
        assert!((0..TRAINING).any(|row| is_it(&row)), "{score}");
    }
}

#[test]
fn scores_are_ranked_among_inputs_of_the_users_own() {
    let data = images();
    let part = |range| Inputs::from(&data).rows(range);
    let build = |calibration| {
        let training = TrainingInputs::from(part(0..TRAINING)).calibrated(calibration);
        model(2).build(training, &options(), &mut ())
    };
    let strangers = part(TRAINING..1000);
    let graph = build(strangers).unwrap();
    let file = graph.learnt().file();
    // No training input has to be kept apart.
    let mut landmarks = file.landmarks().rows().to_vec();
    landmarks.sort_unstable();
    assert_eq!(landmarks, (0..TRAINING as u32).collect::<Vec<_>>());
    // Those that are classified as labelled count, all of them.
    let (all, labels) = (seen(&graph), data.labels().unwrap());
    let is_right = |row: &usize| labels[*row] == i64::from(all[*row].class);
    let right: Vec<usize> = (TRAINING..1000).filter(is_right).collect();
    assert!((300..400).contains(&right.len()));
    let sorted = |score: &dyn Fn(&Seen) -> f64| {
        let mut scores: Vec<f64> = right.iter().map(|&row| score(&all[row])).collect();
        scores.sort_unstable_by(f64::total_cmp);
        scores
    };
    let unfamiliar = |input: &Seen| distance(&nearest(input, &all, &landmarks, None)).unwrap();
    let found = |kind| file.calibration().scores(kind);
    assert_eq!(found(ScoreKind::Unfamiliar), sorted(&unfamiliar));
    let expected = sorted(&|input| contested(input, &all, &landmarks));
    for (found, expected) in found(ScoreKind::Contested).iter().zip(&expected) {
        assert!(
            (found - expected).abs() < 1e-9 * expected,
            "{found} {expected}"
        );
    }
    assert_eq!(found(ScoreKind::Contested).len(), expected.len());
    let record = file.record().calibration.as_ref().unwrap();
    assert_eq!((record.start, record.end), (TRAINING, 1000));

    // What the network was trained with is known to it.
    let overlap = part(TRAINING - 1..1000);
    let reason = build(overlap).err().unwrap().to_string();
    assert!(reason.contains("was not trained with"), "{reason}");
    assert!(build(part(9..9)).is_err());
}

#[test]
fn neither_threads_nor_shards_matter() {
    let (one, two) = (build(None, 1), build(None, 2));
    let (a, b) = (one.learnt().file(), two.learnt().file());
    assert_eq!(a.record().id, b.record().id);
    assert_eq!(a.landmarks(), b.landmarks());
    assert_eq!(a.calibration(), b.calibration());
    let data = images();
    let whole = two.cover("s", Inputs::from(&data).rows(600..1000), &mut ());
    let whole = whole.unwrap();
    for (start, end) in [(600, 601), (700, 733), (990, 1000)] {
        let part = Inputs::from(&data).rows(start..end);
        let part = one.cover("s", part, &mut ()).unwrap();
        let expected = &whole.state().suites()[0].inputs[start - 600..end - 600];
        assert_eq!(part.state().suites()[0].inputs, expected);
    }
}

#[test]
fn clusters_of_kmeans_take_their_own_members_back() {
    let graph = build(Some(Clustering::KMeans), 2);
    let file = graph.learnt().file();
    let members: Vec<u64> = (0..file.graph().clusters())
        .map(|cluster| file.graph().size(cluster) as u64)
        .collect();
    assert_eq!(file.record().shares, members);
    let data = images();
    let train = Inputs::from(&data).rows(0..TRAINING);
    let coverage = graph.cover("train", train, &mut ()).unwrap();
    let found = coverage.state().suites()[0].inputs.iter();
    let found: Vec<u32> = found.map(|input| input.cluster).collect();
    let cluster = |input| file.graph().cluster_of(input);
    assert_eq!(found, Vec::from_iter((0..TRAINING as u32).map(cluster)));
}

#[test]
fn criteria_without_paths_tell_nothing() {
    let graph = build(None, 2);
    let options = npcov::CoverOptions {
        criteria: Some(vec!["nc".parse().unwrap()]),
        ..npcov::CoverOptions::default()
    };
    let data = images();
    let suite = Inputs::from(&data).rows(600..620);
    let coverage = graph.cover_with("s", suite, &options, &mut ()).unwrap();
    let inputs = &coverage.state().suites()[0].inputs;
    assert!(
        inputs
            .iter()
            .all(|i| i.cluster == NO_CLUSTER && i.unfamiliar == NO_SCORE)
    );
    let report = coverage.report().unwrap();
    assert!(report.suites[0].unfamiliar.is_none() && report.suites[0].contested.is_none());
    assert_eq!(graph.learnt().file().graph().training().len(), TRAINING);
}
