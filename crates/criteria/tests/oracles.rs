//! Real activations against other people's programs: dnn-tip, SciPy, NumPy and scikit-learn.
//!
//! `fixtures/criteria-oracles.npz` has the activations and what those programs make of them; its
//! arrays are named after the criterion with its options. `scripts/criteria_oracles.py` writes it.

use std::path::Path;

use npcov_criteria::{
    Amount, Batch, Column, Criterion, Fit, LayerShape, NetworkShape, ScoresPart, State, Tap,
    TrainingTable, create,
};
use npcov_data::Source;
use npcov_data::npz::Archive;

const TRAINING: usize = 600;

/// Expected numbers are read in single precision, which is off by up to 6e-8 of them.
const TOLERANCE: f64 = 1e-6;

struct Oracles {
    archive: Archive,
    network: NetworkShape,
    training: TrainingTable,
    /// The suite by layer.
    layers: Vec<Vec<f32>>,
    predictions: Vec<u32>,
}

impl Oracles {
    fn open() -> Oracles {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/criteria-oracles.npz");
        let archive = Archive::open(Source::open(&path).unwrap()).unwrap();
        let prediction = numbers(&archive, "prediction");
        let predictions: Vec<u32> = prediction.iter().map(|&class| class as u32).collect();
        let layers = ["activation.0", "activation.1"].map(|name| numbers(&archive, name));
        let inputs = predictions.len();
        let widths = [0, 1].map(|layer| layers[layer].len() / inputs);
        let row = |layer: usize, input: usize| {
            &layers[layer][input * widths[layer]..(input + 1) * widths[layer]]
        };
        let both = |input| [row(0, input), row(1, input)].concat();
        let importance = numbers(&archive, "importance");
        let training = TrainingTable {
            predictions: predictions[..TRAINING].to_vec(),
            neurons: widths.iter().sum(),
            activations: (0..TRAINING).flat_map(both).collect(),
            importance: vec![Vec::new(), importance.into_iter().map(f64::from).collect()],
            ..TrainingTable::default()
        };
        let layer = |neurons| LayerShape {
            neurons,
            units: neurons,
        };
        let suite = |layer: usize| layers[layer][TRAINING * widths[layer]..].to_vec();
        Oracles {
            network: NetworkShape {
                layers: widths.map(layer).to_vec(),
                sums: widths.map(layer).to_vec(),
                classes: 10,
                logits: 10,
                ..NetworkShape::default()
            },
            training,
            layers: vec![suite(0), suite(1)],
            predictions: predictions[TRAINING..].to_vec(),
            archive,
        }
    }

    /// What is expected, by the criterion with its options.
    fn expected(&self, kind: &str) -> Vec<(String, Vec<f32>)> {
        let spec = |name: &str| name.strip_prefix(kind).map(str::to_owned);
        let specs = self.archive.names().filter_map(spec);
        let numbers = |spec: String| {
            let numbers = numbers(&self.archive, &format!("{kind}{spec}"));
            (spec, numbers)
        };
        specs.map(numbers).collect()
    }

    /// The criterion with its fit, and what it keeps of the suite.
    fn measure(&self, spec: &str) -> (Box<dyn Criterion>, Fit, State) {
        let mut criterion = create(&spec.parse().unwrap(), &self.network).unwrap();
        let fit = criterion.fit(&self.training).unwrap();
        criterion.restore(fit.clone()).unwrap();
        let width = |layer: usize| self.network.layers[layer].neurons;
        let tap = |layer: usize| {
            let activations = Column::of(self.layers[layer].as_slice(), width(layer));
            (Tap::activation(layer), activations)
        };
        let batch = Batch {
            predictions: &self.predictions,
            logits: Column::of(&[], 0),
            taps: vec![tap(0), tap(1)],
            observations: &[],
            training: None,
        };
        let mut state = criterion.state();
        criterion
            .observe(&batch, &self.training, &mut state)
            .unwrap();
        (criterion, fit, state)
    }
}

fn numbers(archive: &Archive, name: &str) -> Vec<f32> {
    let rows = archive.array(name).unwrap().unwrap();
    let mut out = vec![0.0; rows.len() * rows.sample_len()];
    rows.read_f32(0..rows.len(), &mut Vec::new(), &mut out)
        .unwrap();
    out
}

#[test]
fn suites_cover_as_much() {
    let oracles = Oracles::open();
    let expected = oracles.expected("covered.");
    for (spec, expected) in &expected {
        let (criterion, _, state) = oracles.measure(spec);
        let Amount::Share { covered, .. } = criterion.values(&state).unwrap()[0].amount else {
            panic!("{spec} is no share");
        };
        assert_eq!(covered as f32, expected[0], "{spec}");
    }
    assert_eq!(expected.len(), 27);
}

#[test]
fn inputs_are_as_surprising() {
    let oracles = Oracles::open();
    let expected = oracles.expected("scores.");
    for (spec, expected) in &expected {
        let (_, _, state) = oracles.measure(spec);
        let name = match spec.split(':').next() {
            Some("lsc") => "lsa",
            Some("dsc") => "dsa",
            _ => "mdsa",
        };
        let scores = state.get(ScoresPart(name)).unwrap();
        assert_eq!(scores.len(), expected.len());
        for (&score, &expected) in scores.iter().zip(expected) {
            let expected = f64::from(expected);
            let close = (score - expected).abs() <= TOLERANCE * expected.abs();
            assert!(close, "{spec}: {score} is not {expected}");
        }
    }
    assert_eq!(expected.len(), 10);
}

#[test]
fn neurons_have_the_same_clusters() {
    let oracles = Oracles::open();
    let expected = oracles.expected("centroids.");
    for (spec, expected) in &expected {
        let (_, fit, _) = oracles.measure(spec);
        let centroids = fit.f64("idc", "centroids", expected.len()).unwrap();
        let centroids: Vec<f32> = centroids.iter().map(|&c| c as f32).collect();
        assert_eq!(&centroids, expected, "{spec}");
    }
    assert_eq!(expected.len(), 2);
}
