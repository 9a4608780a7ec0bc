//! Which model a decision graph was learnt from, when its file changes meanwhile.

use std::path::PathBuf;

use npcov::data::{Dataset, Loader, Preprocessing};
use npcov::{
    BuildSettings, Error, GraphFile, Method, Network, NetworkOptions, Source, build, read_model,
};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

fn learn(folder: &TempDir, network: &Network) -> Result<GraphFile, Error> {
    let preprocessing = Preprocessing::default();
    let data = Dataset::open(fixture("fashion-1000.npz").to_str().unwrap())?;
    let source = Source {
        file: &folder.path().join("model.onnx"),
        options: &NetworkOptions::default(),
        network,
        preprocessing: &preprocessing,
        method: &Method::default(),
    };
    build(
        &source,
        &Loader::new(data, network.sample_shape(), &preprocessing)?,
        0..20,
        &BuildSettings::default(),
        &folder.path().join("graph.npcov"),
        1,
        &mut |_| {},
    )
}

#[test]
fn the_model_that_was_read_is_recorded() {
    let folder = TempDir::new().unwrap();
    let model = folder.path().join("model.onnx");
    std::fs::copy(fixture("lenet.onnx"), &model).unwrap();
    let options = NetworkOptions::default();
    let network = Network::with_digest(read_model(&model).unwrap(), &options).unwrap();
    std::fs::copy(fixture("lenet-nhwc.onnx"), &model).unwrap();
    let graph = learn(&folder, &network).unwrap();
    // sha256sum fixtures/lenet.onnx
    let expected = "d0e61c1e97dde5aa91228258265c4eea340e4779905fc47897bc460640f83ee9";
    assert_eq!(graph.record().extraction.model.sha256, expected);
}

#[test]
fn nothing_is_learnt_from_a_network_of_unknown_origin() {
    let folder = TempDir::new().unwrap();
    let network = Network::open(fixture("lenet.onnx"), &NetworkOptions::default()).unwrap();
    assert_eq!(network.model_digest(), None);
    let learnt = learn(&folder, &network);
    assert!(matches!(learnt, Err(Error::NoDigest)));
}
