//! Random samples of the training data reach what random samples reach: all of it, within the spread.

use std::path::PathBuf;

use npcov::data::{Arrays, Preprocessing, open};
use npcov::{BuildOptions, Inputs, Model};

const TRAINING: usize = 600;
const PIXELS: usize = 28 * 28;

fn fixture(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    folder.join(name).to_str().unwrap().to_owned()
}

/// The first numbers in an order that has nothing to do with their own.
fn shuffled(count: usize) -> Vec<usize> {
    let mut seed = 7_u64;
    let mut order: Vec<usize> = (0..count).collect();
    for i in (1..count).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        order.swap(i, (seed >> 33) as usize % (i + 1));
    }
    order
}

#[test]
fn random_samples_reach_what_random_samples_reach() {
    let data = open(fixture("fashion-1000.npz")).unwrap();
    let mut pixels = vec![0; TRAINING * PIXELS];
    data.read(0, 0..TRAINING, &mut pixels).unwrap();
    let order = shuffled(TRAINING);
    let rows = order.iter().map(|&i| &pixels[i * PIXELS..(i + 1) * PIXELS]);
    let rows: Vec<u8> = rows.flatten().copied().collect();
    let samples = Arrays::new("x", &[TRAINING, 28, 28], &rows[..]).unwrap();

    let scale = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let model = Model::open(fixture("lenet.onnx")).unwrap();
    let model = model.with_preprocessing(scale).with_threads(2);
    let options = BuildOptions {
        criteria: Some(vec!["snpc".parse().unwrap()]),
        ..BuildOptions::default()
    };
    let train = Inputs::from(&samples).rows(0..TRAINING);
    let graph = model.build(train, &options, &mut ()).unwrap();

    let mut within = Vec::new();
    for size in [25, 50, 100, 200, 300] {
        let mut parts = Vec::new();
        for start in (0..TRAINING).step_by(size) {
            let inputs = Inputs::from(&samples).rows(start..start + size);
            let coverage = graph.cover("sample", inputs, &mut ()).unwrap();
            let report = coverage.report().unwrap();
            let suite = &report.suites[0];
            let baselines = suite.baselines.get("snpc").unwrap();
            let (part, spread) = (baselines.of_random.unwrap(), baselines.spread.unwrap());
            within.push((part - 1.0).abs() <= 2.0 * spread);
            // A spread that could not be missed would say nothing.
            assert!(spread < 1.0 / (size as f64).sqrt(), "{size}: {spread}");
            assert_eq!(suite.thin(), [], "{size}");
            parts.push(part);
        }
        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "{size}: {mean}");
    }
    // Two spreads around what is expected hold 95 % of samples, if they are normally distributed.
    let far = within.iter().filter(|&&within| !within).count();
    assert!(far * 10 <= within.len(), "{far} of {}", within.len());
    // All of them reach exactly what training reaches, and nothing of them is thin.
    let all = Inputs::from(&samples).rows(0..TRAINING);
    let report = graph.cover("all", all, &mut ()).unwrap().report().unwrap();
    let baselines = report.suites[0].baselines.get("snpc").unwrap();
    assert!((baselines.of_training - 1.0).abs() < 1e-12, "{baselines:?}");
    assert!((baselines.of_random.unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(report.suites[0].thin(), []);
    assert_eq!(report.suites[0].copies, Some(0));
}
