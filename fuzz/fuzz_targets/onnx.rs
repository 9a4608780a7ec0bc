//! An ONNX model of any bytes becomes a graph or is refused, without a panic and without memory
//! out of proportion to the file.
//!
//! `fuzz/seed_onnx.sh` fills the corpus with small models.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npcov_graph::{Dim, Model, Specialisation};

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = Model::from_bytes(bytes.to_vec()) else {
        return;
    };
    let mut options = Specialisation {
        batch: 1,
        ..Specialisation::default()
    };
    for input in model.inputs() {
        let extent = |dim: &Dim| match dim {
            Dim::Fixed(n) => *n,
            Dim::Open(_) => 2,
        };
        let shape = input.dims.iter().flatten().map(extent).collect();
        options.shapes.insert(input.name, shape);
    }
    if let Ok(graph) = model.specialise(&options) {
        // What was accepted can be written, and read again.
        let written = Model::from_bytes(graph.to_onnx()).expect("a written graph is a model");
        assert_eq!(written.outputs().len(), graph.outputs().len());
    }
});
