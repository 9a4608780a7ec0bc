//! How exact convolutions by tiles are on a trained model.
//!
//! `cargo run --release -p npcov-engine --example exactness -- MODEL INPUTS [POOLED]` compares tiles with direct kernels on
//! inputs that stand in a file as 32-bit floats, one after the other (`scripts/exactness.py` makes one): which of the
//! activations that are exactly zero are not, which live windows of max pools have another winner, and how far input
//! relevances are apart. What direct kernels give max pools to choose from is written to POOLED in the same form, for each
//! part of 64 inputs pool by pool.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};

use npcov_engine::Engine;
use npcov_engine::native::{Kernels, Native, Options};
use npcov_graph::op::{CompositeOp, PoolKind, Unary};
use npcov_graph::{Classifier, Graph, OnnxModel, Op, Specialisation};
use npcov_program::{
    ExplainOutputs, LayerOptions, Lrp, MaxPlace, NetworkView, Rules, explain, path_layers,
};

/// Inputs that are compared at a time.
const PART: usize = 64;

#[allow(clippy::print_stdout, reason = "the counts are its output")]
fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, file, rest @ ..] = &args[..] else {
        return Err("usage: exactness MODEL INPUTS [POOLED]".into());
    };
    let mut written = rest
        .first()
        .map(File::create)
        .transpose()?
        .map(BufWriter::new);
    let model = OnnxModel::read(model)?.specialise(&Specialisation::default())?;
    let bytes = std::fs::read(file)?;
    let (numbers, _) = bytes.as_chunks::<4>();
    let numbers: Vec<f32> = numbers.iter().map(|&x| f32::from_le_bytes(x)).collect();
    let sample = model.value(model.inputs()[0]).ty.numel();

    let mut graph = model.clone();
    let (mut pools, mut outputs, mut activations) = (Vec::new(), Vec::new(), 0);
    for node in model.nodes() {
        match &node.op {
            Op::Pool(pool) if pool.kind == PoolKind::Max => {
                let place = MaxPlace { pool: pool.clone() };
                let place = Op::Composite(CompositeOp::new(place));
                pools.push(node.inputs[0]);
                pools.push(node.output);
                pools.push(graph.push("place", place, &[node.inputs[0]])?);
            }
            Op::Unary(Unary::Relu) => {
                activations += 1;
                outputs.push(node.output);
            }
            _ => {}
        }
    }
    outputs.extend(pools);
    graph.set_outputs(outputs);
    let program = relevance(&model)?;
    let (mut zeros, mut false_zeros) = (0_usize, 0_usize);
    let (mut live, mut others) = (0_usize, 0_usize);
    let (mut furthest, mut far, mut inputs) = (0.0_f64, 0, 0);
    for part in numbers.chunks(PART * sample) {
        let count = part.len() / sample;
        let [direct, tiles] =
            [Kernels::Direct, Kernels::Winograd].map(|k| run(&graph, k, count, part));
        let (direct, tiles) = (direct?, tiles?);
        for (direct, tiles) in direct.iter().zip(&tiles).take(activations) {
            zeros += direct.iter().filter(|&&y| y == 0.0).count();
            let not = direct
                .iter()
                .zip(tiles)
                .filter(|(d, t)| **d == 0.0 && **t != 0.0);
            false_zeros += not.count();
        }
        for (direct, tiles) in direct[activations..]
            .chunks(3)
            .zip(tiles[activations..].chunks(3))
        {
            let ([pooled, maxima, places], [_, _, others_places]) = (direct, tiles) else {
                continue;
            };
            for ((max, place), other) in maxima.iter().zip(places).zip(others_places) {
                live += usize::from(*max > 0.0);
                others += usize::from(*max > 0.0 && place != other);
            }
            if let Some(file) = &mut written {
                for x in pooled {
                    file.write_all(&x.to_le_bytes())?;
                }
            }
        }
        let [direct, tiles] =
            [Kernels::Direct, Kernels::Winograd].map(|k| run(&program, k, count, part));
        let (direct, tiles) = (direct?, tiles?);
        if let (Some(direct), Some(tiles)) = (direct.last(), tiles.last()) {
            for (direct, tiles) in direct.chunks(sample).zip(tiles.chunks(sample)) {
                let apart: f64 = direct
                    .iter()
                    .zip(tiles)
                    .map(|(a, b)| f64::from((a - b).abs()))
                    .sum();
                let all: f64 = direct.iter().map(|r| f64::from(r.abs())).sum();
                let apart = apart / all.max(1e-30);
                furthest = furthest.max(apart);
                far += usize::from(apart > 1e-4);
            }
        }
        inputs += count;
    }
    println!("{inputs} inputs");
    println!("{false_zeros} of {zeros} zeros are not zero");
    println!("{others} of {live} live windows have another winner");
    println!(
        "input relevances differ by {furthest:.1e} of their sum at most, those of {far} inputs by more than 1e-4"
    );
    Ok(())
}

/// The relevance of the input by the alpha-beta rule, as the last output.
fn relevance(model: &Graph) -> Result<Graph, Box<dyn Error>> {
    let classifier = Classifier::find(model, model.outputs()[0]);
    let layers = path_layers(model, &classifier, 1, &LayerOptions::default())?;
    let view = NetworkView {
        graph: model,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    let rules = Rules::uniform("alpha-beta:0.5".parse()?);
    let outputs = ExplainOutputs {
        input: true,
        ..ExplainOutputs::default()
    };
    let mut program = explain(&view, &Lrp { rules }, &outputs)?;
    let of_input =
        |output: &npcov_program::Output| matches!(output, npcov_program::Output::InputRelevance(_));
    let at = program
        .outputs
        .iter()
        .position(of_input)
        .ok_or("no relevance of the input")?;
    let value = program.graph.outputs()[at];
    program.graph.set_outputs(vec![value]);
    Ok(program.graph)
}

fn run(
    graph: &Graph,
    kernels: Kernels,
    count: usize,
    input: &[f32],
) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
    let options = Options {
        kernels,
        ..Options::default()
    };
    Ok(Native::new(options).run_once(graph, count, &[input])?)
}
