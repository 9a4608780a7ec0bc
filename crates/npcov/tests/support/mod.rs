//! The fixtures, as the tests of explanations use them.

use std::path::PathBuf;

use npcov::data::{self, Loader, Preprocessing};
use npcov::engine::Engine;
use npcov::engine::native::Native;
use npcov::graph::{Graph, OnnxModel, Specialisation};

/// A file of the fixtures.
pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

/// A fixture model's graph for one input.
pub(crate) fn graph(model: &str) -> Graph {
    let model = OnnxModel::read(fixture(model)).unwrap();
    model.specialise(&Specialisation::default()).unwrap()
}

/// The data, in the shape of a graph's only input.
pub(crate) fn loader(graph: &Graph) -> Loader<'static> {
    let data = data::open(fixture("fashion-1000.npz").to_str().unwrap()).unwrap();
    let preprocessing = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let shape = graph.shape(graph.inputs()[0]);
    Loader::new(data, &shape[1..], &preprocessing).unwrap()
}

/// The first images, one after the other.
pub(crate) fn images(graph: &Graph, count: usize) -> Vec<f32> {
    let loader = loader(graph);
    let mut images = vec![0.0; count * loader.sample_len()];
    loader.read(0..count, &mut images).unwrap();
    images
}

/// All outputs of a program for `count` sets of inputs, those of an output one after the other.
pub(crate) fn run(program: &Graph, count: usize, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    Native::default().run_once(program, count, inputs).unwrap()
}
