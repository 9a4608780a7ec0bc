//! An ONNX model of any bytes becomes a graph or is refused, without a panic and without memory
//! out of proportion to the file; a graph that is small enough also runs, and so do the programs
//! made from it.
//!
//! `fuzz/seed.sh` fills the corpus with small models.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npcov_engine::native::Native;
use npcov_engine::{Engine, KEEP_ALL};
use npcov_graph::{Classifier, Dim, Graph, OnnxModel, Specialisation};
use npcov_program::{
    ExplainOutputs, GradientTimesInput, LayerOptions, Loss, Lrp, NetworkView, Preset, Term,
    explain, gradient, mask, path_layers,
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = OnnxModel::from_bytes(bytes.to_vec()) else {
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
        let bytes = graph.to_onnx().expect("names are made as they are needed");
        let written = OnnxModel::from_bytes(bytes).expect("a written graph is a model");
        assert_eq!(written.outputs().len(), graph.outputs().len());
        if is_small(&graph) {
            run(&graph);
            run_programs(&graph);
        }
    }
});

fn is_small(graph: &Graph) -> bool {
    let elements = graph.values().iter().map(|v| v.ty.numel());
    graph.nodes().len() <= 64 && elements.fold(0, usize::saturating_add) <= 1 << 16
}

/// Makes and runs the programs of a graph whose first output is taken for logits.
fn run_programs(graph: &Graph) {
    let Some(&output) = graph.outputs().first() else {
        return;
    };
    let classifier = Classifier::find(graph, output);
    let options = LayerOptions::default();
    let layers = path_layers(graph, &classifier, 1, &options).unwrap_or_default();
    let view = NetworkView {
        graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    let options = ExplainOutputs {
        activations: true,
        input: true,
        ..ExplainOutputs::default()
    };
    let mut programs = vec![
        gradient(&view, &Loss::from(Term::CrossEntropy)),
        mask(&view),
        explain(&view, &GradientTimesInput, &options),
    ];
    for preset in [Preset::Npc, Preset::EpsilonAlpha2Beta1Flat] {
        let rules = preset.rules();
        programs.push(explain(&view, &Lrp { rules }, &options));
    }
    for program in programs.into_iter().flatten() {
        run(&program.graph);
        // An input may be called like one of ours.
        let _ = program.graph.to_onnx();
    }
}

/// Runs a graph on zeros, unless that takes much memory.
fn run(graph: &Graph) {
    let Ok(prepared) = Native::default().prepare(graph, KEEP_ALL) else {
        return;
    };
    if prepared.worker_bytes() > 1 << 26 {
        return;
    }
    let zeros = |&len: &usize| vec![0.0; len];
    let inputs: Vec<Vec<f32>> = prepared.input_lens().iter().map(zeros).collect();
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<f32>> = prepared.output_lens().iter().map(zeros).collect();
    let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let mut worker = prepared.worker().expect("64 MiB can be had");
    worker
        .run(1, &inputs, &mut outputs, &mut |_, _| {})
        .expect("the buffers are as long as the engine says");
}
