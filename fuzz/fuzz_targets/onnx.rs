//! An ONNX model of any bytes becomes a graph or is refused, without a panic and without memory
//! out of proportion to the file; a graph that is small enough also runs.
//!
//! `fuzz/seed_onnx.sh` fills the corpus with small models.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npcov_engine::Executor;
use npcov_graph::{Dim, Graph, Model, Specialisation};

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
        let written = Model::from_bytes(graph.to_onnx().expect("it has only plain operators")).expect("a written graph is a model");
        assert_eq!(written.outputs().len(), graph.outputs().len());
        run(&graph);
    }
});

/// Runs a graph on zeros, unless that would take long.
fn run(graph: &Graph) {
    let elements = graph.values().iter().map(|v| v.ty.numel());
    if graph.nodes().len() > 64 || elements.fold(0, usize::saturating_add) > 1 << 16 {
        return;
    }
    let Ok(executor) = Executor::new(graph) else {
        return;
    };
    if executor.worker_bytes() > 1 << 26 {
        return;
    }
    let zeros = |len| vec![0.0; len];
    let inputs: Vec<Vec<f32>> = executor.input_lens().map(zeros).collect();
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<f32>> = executor.output_lens().map(zeros).collect();
    let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let mut worker = executor.worker().expect("64 MiB can be had");
    worker
        .run(1, &inputs, &mut outputs)
        .expect("the buffers are as long as the executor says");
}
