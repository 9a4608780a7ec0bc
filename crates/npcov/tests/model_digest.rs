//! Which model a decision graph was learnt from, when its file changes meanwhile.

use std::path::PathBuf;

use npcov::{BuildOptions, Inputs, Model};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

#[test]
fn the_model_that_was_read_is_recorded() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("model.onnx");
    std::fs::copy(fixture("lenet.onnx"), &file).unwrap();
    let model = Model::open(&file).unwrap();
    std::fs::copy(fixture("lenet-nhwc.onnx"), &file).unwrap();
    let data = npcov::data::open(fixture("fashion-1000.npz").to_str().unwrap()).unwrap();
    let train = Inputs::from(&data).rows(0..20);
    let graph = model
        .build(train, &BuildOptions::default(), &mut ())
        .unwrap();
    // sha256sum fixtures/lenet.onnx
    let expected = "d0e61c1e97dde5aa91228258265c4eea340e4779905fc47897bc460640f83ee9";
    let record = graph.learnt().file().record();
    assert_eq!(record.extraction.model.sha256, expected);
}
