//! Who knows engines by their traits runs on any of them.

mod one_by_one;

use std::path::PathBuf;

use npcov_engine::native::{Native, Options};
use npcov_engine::{Engine, EngineError, Shown};
use npcov_graph::{Classifier, Graph, OnnxModel, Specialisation};
use npcov_program::{ExplainOutputs, LayerOptions, Lrp, NetworkView, explain, path_layers};

use one_by_one::OneByOne;

/// Logits, relevances and activations of a fixture.
fn program(name: &str) -> Graph {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/{name}.onnx"));
    let model = OnnxModel::read(path).unwrap();
    let graph = model.specialise(&Specialisation::default()).unwrap();
    let classifier = Classifier::find(&graph, graph.outputs()[0]);
    let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
    let subject = NetworkView {
        graph: &graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    let options = ExplainOutputs {
        activations: true,
        ..ExplainOutputs::default()
    };
    let program = explain(&subject, &Lrp::default(), &options).unwrap();
    program.graph
}

/// Numbers that look random.
fn numbers(count: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 7919 + i / 97 * 31) % 1009) as f32 / 1009.0;
    (0..count).map(number).collect()
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// The bits of the first output and of what is shown of the others, by output, then by set of inputs.
fn run(engine: &dyn Engine, graph: &Graph, sets: usize) -> (Vec<u32>, Vec<Vec<Vec<u32>>>) {
    let prepared = engine.prepare(graph, 1).unwrap();
    let mut worker = prepared.worker().unwrap();
    let ([len], [logits]) = (prepared.input_lens(), prepared.output_lens()) else {
        panic!("one input and one result");
    };
    let input = numbers(sets * len);
    let mut output = vec![0.0; sets * logits];
    let mut seen: Vec<Vec<Vec<u32>>> = vec![Vec::new(); graph.outputs().len() - 1];
    for start in (0..sets).step_by(prepared.together()) {
        let count = prepared.together().min(sets - start);
        let input = &input[start * len..][..count * len];
        let output = &mut output[start * logits..][..count * logits];
        let mut show = |number: usize, shown: Shown<'_>| {
            for set in 0..shown.inputs() {
                let row = (0..shown.len()).map(|i| shown.position(i)[set].to_bits());
                seen[number].push(row.collect());
            }
        };
        worker
            .run(count, &[input], &mut [output], &mut show)
            .unwrap();
    }
    (bits(&output), seen)
}

#[test]
fn engines_that_compute_alike_give_the_same_bits() {
    for name in ["lenet", "resnet8", "mobilenet"] {
        let graph = program(name);
        let (native, other) = (Native::default(), OneByOne::default());
        let expected = run(&native, &graph, 20);
        assert!(expected.1.iter().all(|sets| sets.len() == 20), "{name}");
        assert!(run(&other, &graph, 20) == expected, "{name}");
    }
}

/// Inputs that are computed one by one go through some steps abreast, as many as there are and have memory.
#[test]
fn any_number_of_sets_abreast_gives_the_same_bits() {
    for name in ["lenet", "resnet8", "mobilenet"] {
        let graph = program(name);
        let native = Native::default();
        let bytes = native.prepare(&graph, 1).unwrap().worker_bytes();
        let expected: Vec<_> = (1..=9).map(|sets| run(&native, &graph, sets)).collect();
        for (memory, together) in [(bytes - 1, 4), (0, 1)] {
            let options = Options {
                memory,
                ..Options::default()
            };
            let engine = Native::new(options);
            let prepared = engine.prepare(&graph, 1).unwrap();
            assert_eq!((prepared.together(), prepared.least()), (together, 1));
            for (sets, expected) in (1..).zip(&expected) {
                assert!(run(&engine, &graph, sets) == *expected, "{name}, {sets}");
            }
        }
    }
}

/// What is run once is cut into as many sets as an engine takes, and what is shown would have been an
/// output.
#[test]
fn any_number_of_sets_can_be_run_once() {
    let graph = program("lenet");
    let len = graph.value(graph.inputs()[0]).ty.numel();
    let input = numbers(20 * len);
    let (logits, seen) = run(&Native::default(), &graph, 20);
    let engines: [&dyn Engine; 2] = [&Native::default(), &OneByOne::default()];
    for engine in engines {
        let outputs = engine.run_once(&graph, 20, &[&input]).unwrap();
        assert_eq!(bits(&outputs[0]), logits, "{}", engine.name());
        for (output, seen) in outputs[1..].iter().zip(&seen) {
            assert!(bits(output) == seen.concat(), "{}", engine.name());
        }
        assert!(engine.run_once(&graph, 20, &[&input[1..]]).is_err());
    }
}

#[test]
fn more_sets_than_an_engine_takes_are_refused() {
    let graph = program("lenet");
    let engines: [&dyn Engine; 2] = [&Native::default(), &OneByOne::default()];
    for engine in engines {
        let prepared = engine.prepare(&graph, 1).unwrap();
        assert_eq!(prepared.together(), engine.record().together);
        let count = prepared.together() + 1;
        let input = vec![0.0; count * prepared.input_lens()[0]];
        let mut output = vec![0.0; count * prepared.output_lens()[0]];
        let mut worker = prepared.worker().unwrap();
        let run = worker.run(count, &[&input], &mut [&mut output], &mut |_, _| {});
        assert!(matches!(run, Err(EngineError::Buffer { .. })));
    }
}
