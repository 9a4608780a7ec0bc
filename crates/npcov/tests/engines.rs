//! A network runs on any engine, however many inputs that computes together and however it shows them.

#[path = "../../engine/tests/one_by_one/mod.rs"]
mod one_by_one;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use npcov::BuildOptions;
use npcov::artefact::{ExtractionRecord, GraphRecord};
use npcov::data::{Loader, Preprocessing, open};
use npcov::engine::Engine;
use npcov::engine::native::Native;
use npcov::graph::OnnxModel;
use npcov::run::{ModelOptions, Network, SampleRange};

use one_by_one::OneByOne;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

/// What a decision graph of a network says of itself, and the bytes of its numbers.
fn graph_of(engine: Arc<dyn Engine>, batch: usize, folder: &Path) -> (GraphRecord, Vec<u8>) {
    let model = fixture("mlp-matlab.onnx");
    let options = ModelOptions {
        batch: Some(batch),
        ..ModelOptions::default()
    };
    let network = Network::with_engine(OnnxModel::read(&model).unwrap(), &options, engine);
    let network = Arc::new(network.unwrap());
    let preprocessing = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let data = open(fixture("fashion-1000.npz").to_str().unwrap()).unwrap();
    let loader = Loader::new(data, network.sample_shape(), &preprocessing).unwrap();
    let options = BuildOptions {
        // The first two look at paths and activations, the last at units while these are computed.
        criteria: Some(
            ["snpc", "anpc", "nc"]
                .map(|name| name.parse().unwrap())
                .to_vec(),
        ),
        ..BuildOptions::default()
    };
    let output = folder.join("graph.npcov");
    let inputs = SampleRange {
        data: &loader,
        range: 0..100,
        threads: 2,
    };
    let graph = npcov::coverage::build(&network, &inputs, &options, Some(&output), &mut ());
    let record = graph.unwrap().file().record().clone();
    let bytes = std::fs::read(&output).unwrap();
    // The length of a header, the header, the numbers; the checksums are of both.
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    let mut numbers = bytes[8 + len..].to_vec();
    let checksums = &header["npcov.sha256"]["data_offsets"];
    let place = |i: usize| checksums[i].as_u64().unwrap() as usize;
    numbers.drain(place(0)..place(1));
    (record, numbers)
}

#[test]
fn decision_graphs_are_the_same_bytes_on_any_engine() {
    let folder = tempfile::tempdir().unwrap();
    for batch in [1, 3] {
        let other = OneByOne::default().record().together;
        let (own, numbers) = graph_of(Arc::new(Native::default()), batch, folder.path());
        let (found, others) = graph_of(Arc::new(OneByOne::default()), batch, folder.path());
        assert_eq!(found.criteria, own.criteria);
        let extraction = ExtractionRecord {
            micro_batch: batch * other,
            engine: "one-by-one".to_owned(),
            ..own.extraction
        };
        assert_eq!(found.extraction, extraction);
        assert!(numbers == others, "{batch} inputs in a set");
    }
}
