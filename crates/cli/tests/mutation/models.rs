//! Models: what a program does with one, up to a run on a single input.

use std::path::Path;

use npcov::engine::native::Native;
use npcov::engine::{Engine, KEEP_ALL, zeros};
use npcov::graph::{Graph, OnnxModel};
use npcov::program::{
    ExplainOutputs, GradientTimesInput, Loss, Lrp, Preset, Term, explain, gradient, mask, trace,
};
use npcov::run::{ModelOptions, Network};

use crate::fixture;
use crate::mutator::{Random, change_bytes};
use crate::onnx::{model, node, with_ints};
use crate::wire::{MODEL, change};

/// Models that have many operators between them.
fn seed(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => fixture("binary-sigmoid.onnx"),
        1 => fixture("mlp-function.onnx"),
        2 => fixture("lenet-batch1-squeeze.onnx"),
        3 => fixture("mobilenet.onnx"),
        4 => fixture("vit.onnx"),
        5 => fixture("keras.onnx"),
        _ => windows(),
    }
}

/// Pools and pads with sizes that change everything, and nothing that takes long to run.
fn windows() -> Vec<u8> {
    let pool = |op: &str, input: &str, output: &str| {
        let node = with_ints(node(op, &[input], output), "kernel_shape", &[2, 2]);
        let node = with_ints(node, "strides", &[2, 1]);
        with_ints(node, "pads", &[0, 1, 0, 1])
    };
    let nodes = [
        node("Relu", &["image"], "relu"),
        pool("MaxPool", "relu", "max"),
        pool("AveragePool", "max", "average"),
        with_ints(
            node("Transpose", &["average"], "turned"),
            "perm",
            &[0, 2, 3, 1],
        ),
        with_ints(node("ReduceMean", &["turned"], "mean"), "axes", &[1, 2]),
        node("Softmax", &["mean"], "soft"),
        node("Flatten", &["soft"], "scores"),
    ];
    model(&[("image", "2x3x8x8")], &nodes, &[("scores", "2x3")])
}

pub(crate) fn onnx(number: u64) -> bool {
    let mut random = Random::new("onnx", number);
    let mut bytes = seed(&mut random);
    match random.one_in(5) {
        true => change_bytes(&mut random, &mut bytes),
        false => bytes = change(&mut random, &bytes, &MODEL),
    }
    OnnxModel::from_bytes(bytes).is_ok_and(ask)
}

/// A model whose weights stand in a file beside it; either of both is changed, or both.
pub(crate) fn external(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("external", number);
    let mut bytes = fixture("mlp-external.onnx");
    let mut weights = fixture("mlp-external.bin");
    if !random.one_in(4) {
        bytes = change(&mut random, &bytes, &MODEL);
    }
    if random.one_in(2) {
        change_bytes(&mut random, &mut weights);
    }
    std::fs::write(folder.join("mlp-external.bin"), weights).unwrap();
    let path = folder.join("model.onnx");
    std::fs::write(&path, bytes).unwrap();
    OnnxModel::read(&path).is_ok_and(ask)
}

/// Opens a model, makes all programs of it, and runs those that are small; `false` for one that cannot be used.
fn ask(model: OnnxModel) -> bool {
    let _ = (
        model.operators(),
        model.unknown_operators(),
        model.parameters(),
    );
    let Ok(network) = Network::new(model, &ModelOptions::default()) else {
        return false;
    };
    let view = network.view();
    let outputs = ExplainOutputs {
        activations: true,
        input: true,
        ..ExplainOutputs::default()
    };
    let rules = Preset::Npc.rules();
    let programs = [
        trace(&view, &[]),
        gradient(&view, &Loss::from(Term::CrossEntropy)),
        mask(&view),
        explain(&view, &GradientTimesInput, &outputs),
        explain(&view, &Lrp { rules }, &outputs),
    ];
    for program in programs.into_iter().flatten() {
        let _ = program.graph.to_onnx();
        run(&program.graph);
    }
    true
}

/// Runs a graph once on zeros, unless it is one that takes long for good reason.
fn run(graph: &Graph) {
    let elements = graph.values().iter().map(|value| value.ty.numel());
    if elements.fold(0, usize::saturating_add) > 1 << 20 {
        return;
    }
    let Ok(prepared) = Native::default().prepare(graph, KEEP_ALL) else {
        return;
    };
    let all = |lens: &[usize]| {
        lens.iter()
            .map(|&len| zeros(1, len))
            .collect::<Result<Vec<_>, _>>()
    };
    let (Ok(inputs), Ok(mut outputs), Ok(mut worker)) = (
        all(prepared.input_lens()),
        all(prepared.output_lens()),
        prepared.worker(),
    ) else {
        return;
    };
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    worker
        .run(1, &inputs, &mut outputs, &mut |_, _| {})
        .unwrap();
}
