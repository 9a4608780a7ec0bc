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
    ExplainOutputs, GradientTimesInput, LayerOptions, Lrp, NetworkView, Preset, Term, explain,
    gradient, mask, path_layers, trace,
};

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// All models of a folder and of those inside it.
fn models(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(models(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "onnx")
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The programs that are made from a model; those that cannot be are left out.
fn programs(path: &Path) -> Vec<(&'static str, Graph)> {
    let model = OnnxModel::read(path).unwrap();
    let Ok(graph) = model.specialise(&Specialisation::default()) else {
        println!("{}: leaves shapes open", path.display());
        return Vec::new();
    };
    let classifier = Classifier::find(&graph, graph.outputs()[0]);
    let Ok(layers) = path_layers(&graph, &classifier, 1, &LayerOptions::default()) else {
        println!("{}: has no path layers", path.display());
        return Vec::new();
    };
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
    // The rules that a model is explained by unless others are chosen.
    let rules = Preset::of(&graph).rules();
    let lrp = Lrp { rules };
    let programs = [
        ("trace", trace(&view, &[])),
        ("explain", explain(&view, &lrp, &outputs)),
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

/// Numbers from 0 to 1 that look random; 1 for masks.
fn inputs(graph: &Graph, sets: usize, label: f32) -> Vec<Vec<f32>> {
    let number = |i: usize| ((i * 7919 + i / 97 * 31) % 1009) as f32 / 1009.0;
    let of = |(place, &id): (usize, _)| {
        let value = graph.value(id);
        let number = |i| match (place, &*value.name) {
            (0, _) => number(i),
            (_, "label") => label,
            _ => 1.0,
        };
        (0..sets * value.ty.numel()).map(number).collect()
    };
    graph.inputs().iter().enumerate().map(of).collect()
}

fn slices(inputs: &[Vec<f32>]) -> Vec<&[f32]> {
    inputs.iter().map(Vec::as_slice).collect()
}

fn largest(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0, |size, x| size.max(x.abs()))
}

#[test]
#[ignore = "needs the library of ONNX Runtime: `make test-onnxruntime`"]
fn all_programs_of_all_fixtures_agree() {
    let engine = OnnxRuntime::new(Provider::Cpu, None).unwrap();
    let mut compared = 0;
    let mut worst = 0.0_f32;
    for path in models(&fixtures()) {
        for (kind, graph) in programs(&path) {
            let name = format!("{} of {}", kind, path.display());
            let native = |label| {
                let inputs = inputs(&graph, 3, label);
                let own = Native::default().run_once(&graph, 3, &slices(&inputs));
                (inputs, own.unwrap())
            };
            let (inputs, own) = match kind {
                // The loss of a label that a model is sure of is smaller than what it is rounded by.
                "gradient" => {
                    let [zero, one] = [0.0, 1.0].map(native);
                    match largest(&zero.1[1]) > largest(&one.1[1]) {
                        true => zero,
                        false => one,
                    }
                }
                _ => native(0.0),
            };
            if kind == "gradient" && largest(&own[1]) < 1e-6 {
                println!("{name}: a single class, and nothing to lose");
                continue;
            }
            let other = engine
                .run_once(&graph, 3, &slices(&inputs))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            for (i, (own, other)) in own.iter().zip(&other).enumerate() {
                let apart: Vec<f32> = own.iter().zip(other).map(|(a, b)| a - b).collect();
                let apart = largest(&apart) / largest(own).max(f32::MIN_POSITIVE);
                assert!(apart < 1e-4, "{name}, output {i}: {apart}");
                worst = worst.max(apart);
            }
            compared += 1;
        }
    }
    assert!(compared > 180, "{compared} programs");
    println!("{compared} programs; at most {worst:e} apart");
}

#[test]
#[ignore = "needs the library of ONNX Runtime: `make test-onnxruntime`"]
fn results_do_not_depend_on_places_and_values_are_shown() {
    let engine = OnnxRuntime::new(Provider::Cpu, None).unwrap();
    let (_, graph) = programs(&fixtures().join("lenet.onnx")).swap_remove(1);
    let inputs = inputs(&graph, 5, 0.0);
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
