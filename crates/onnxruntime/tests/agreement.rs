//! ONNX Runtime and npcov's own engine give the same numbers, up to rounding.
//!
//! Both run the same graphs, so what differs is how each adds up. Needs the library: `make test-onnxruntime` has it.

#![allow(clippy::print_stdout, reason = "the counts are for people to read")]

use std::path::{Path, PathBuf};

use npcov_engine::native::Native;
use npcov_engine::{Engine, EngineError, KEEP_ALL};
use npcov_graph::{Classifier, Graph, OnnxModel, Specialisation};
use npcov_onnxruntime::{Library, OnnxRuntime, OnnxRuntimeError, Provider};
use npcov_program::{
    ExplainOutputs, GradientTimesInput, LayerOptions, Lrp, NetworkView, Term, explain, gradient,
    mask, path_layers, trace,
};

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// The programs that are made from a model; those that cannot be are left out.
fn programs(path: &Path) -> Vec<(&'static str, Graph)> {
    let model = OnnxModel::read(path).unwrap();
    let graph = model.specialise(&Specialisation::default()).unwrap();
    let classifier = Classifier::find(&graph, graph.outputs()[0]);
    let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
    let view = NetworkView {
        graph: &graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    let outputs = ExplainOutputs {
        activations: true,
        input: true,
        ..ExplainOutputs::default()
    };
    let programs = [
        ("trace", trace(&view, &[])),
        ("explain", explain(&view, &Lrp::default(), &outputs)),
        (
            "gradient-input",
            explain(&view, &GradientTimesInput, &outputs),
        ),
        ("mask", mask(&view)),
        ("gradient", gradient(&view, &Term::CrossEntropy.into())),
    ];
    let made = programs.into_iter();
    made.filter_map(|(name, program)| Some((name, program.ok()?.graph)))
        .collect()
}

/// Numbers from 0 to 1 that look random; 1 for masks and labels, which they are.
fn inputs(graph: &Graph, sets: usize) -> Vec<Vec<f32>> {
    let number = |i: usize| ((i * 7919 + i / 97 * 31) % 1009) as f32 / 1009.0;
    let of = |(place, &id): (usize, _)| {
        let len = sets * graph.value(id).ty.numel();
        (0..len)
            .map(|i| if place == 0 { number(i) } else { 1.0 })
            .collect()
    };
    graph.inputs().iter().enumerate().map(of).collect()
}

#[test]
#[ignore = "needs the library of ONNX Runtime: `make test-onnxruntime`"]
fn all_programs_of_all_fixtures_agree() {
    let engine = OnnxRuntime::new(Provider::Cpu, None).unwrap();
    let mut compared = 0;
    let mut worst = 0.0_f32;
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "onnx") {
            continue;
        }
        for (kind, graph) in programs(&path) {
            let name = format!("{} of {}", kind, path.display());
            let inputs = inputs(&graph, 3);
            let slices: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
            let own = Native::default().run_once(&graph, 3, &slices).unwrap();
            let other = engine
                .run_once(&graph, 3, &slices)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            for (i, (own, other)) in own.iter().zip(&other).enumerate() {
                let size = own.iter().fold(0.0_f32, |size, x| size.max(x.abs()));
                let apart = own.iter().zip(other).map(|(a, b)| (a - b).abs());
                let apart = apart.fold(0.0_f32, f32::max) / size.max(1.0);
                assert!(apart < 1e-4, "{name}, output {i}: {apart}");
                worst = worst.max(apart);
            }
            compared += 1;
        }
    }
    assert!(compared > 80, "{compared} programs");
    println!("{compared} programs; at most {worst:e} apart");
}

#[test]
#[ignore = "needs the library of ONNX Runtime: `make test-onnxruntime`"]
fn results_do_not_depend_on_places_and_values_are_shown() {
    let engine = OnnxRuntime::new(Provider::Cpu, None).unwrap();
    let (_, graph) = programs(&fixtures().join("lenet.onnx")).swap_remove(1);
    let inputs = inputs(&graph, 5);
    let all = engine.run_once(&graph, 5, &[&inputs[0]]).unwrap();
    let prepared = engine.prepare(&graph, 1).unwrap();
    let mut worker = prepared.worker().unwrap();
    let (len, logits) = (prepared.input_lens()[0], prepared.output_lens()[0]);
    let mut output = vec![0.0; logits];
    let mut shown = Vec::new();
    let run = worker.run(
        1,
        &[&inputs[0][3 * len..4 * len]],
        &mut [&mut output],
        &mut |number, value| shown.push((number, value.places().to_vec())),
    );
    run.unwrap();
    assert_eq!(output, all[0][3 * logits..4 * logits]);
    assert_eq!(shown.len(), graph.outputs().len() - 1);
    for (number, numbers) in shown {
        let len = numbers.len();
        assert_eq!(numbers, all[number + 1][3 * len..4 * len]);
    }
    let wrong = worker.run(1, &[&[]], &mut [&mut output], &mut |_, _| {});
    assert!(matches!(wrong, Err(EngineError::Buffer { .. })));
    assert_eq!(
        engine.prepare(&graph, KEEP_ALL).unwrap().together(),
        engine.record().together
    );
}

#[test]
#[ignore = "needs the library of ONNX Runtime: `make test-onnxruntime`"]
fn what_the_machine_lacks_is_said() {
    let found = Library::find(None).unwrap();
    assert!(found.path().is_file());
    let refused = OnnxRuntime::new(Provider::CoreMl, None).map(|_| ());
    assert!(
        matches!(refused, Err(OnnxRuntimeError::Refused(_))),
        "{refused:?}"
    );
}

#[test]
fn without_the_library_it_is_said_how_to_get_it() {
    let nowhere = OnnxRuntime::new(Provider::Cpu, Some(Path::new("/nowhere")));
    let message = nowhere.map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("`pip install onnxruntime`"), "{message}");
}
