//! Batch normalisation as part of the convolutions.

use std::path::Path;

use npcov::data::{self, Loader, Preprocessing};
use npcov::program::BatchNorm;
use npcov::run::{ExplainOptions, Explainer, ModelOptions, Network};

fn explained(batch_norm: BatchNorm) -> npcov::Explanation {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let options = ModelOptions {
        batch_norm,
        ..ModelOptions::default()
    };
    let network = Network::open(fixtures.join("resnet8.onnx"), &options).unwrap();
    let data = fixtures.join("fashion-1000.npz");
    let dataset = data::open(data.to_str().unwrap()).unwrap();
    let scale = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let loader = Loader::new(dataset, network.sample_shape(), &scale).unwrap();
    let explainer = Explainer::new(&network, &ExplainOptions::default()).unwrap();
    npcov::explain_one(&explainer, &loader, 0, 1)
        .unwrap()
        .explanation
}

#[test]
fn folding_keeps_layers_and_logits_and_changes_relevances() {
    let (identity, fold) = (explained(BatchNorm::Identity), explained(BatchNorm::Fold));
    let names = |e: &npcov::Explanation| -> Vec<String> {
        e.layers.iter().map(|layer| layer.name.clone()).collect()
    };
    assert_eq!(names(&identity), names(&fold));
    let (a, b) = (identity.prediction.logit, fold.prediction.logit);
    assert!((a - b).abs() < 1e-4 * a.abs(), "{a} and {b}");
    assert_ne!(identity.layers[1].sum, fold.layers[1].sum);
    assert_eq!(fold.method.batch_norm, "fold");
}
