//! Running a graph allocates nothing: everything is planned when it is loaded.

#![allow(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::PathBuf;

use npcov_engine::native::Native;
use npcov_engine::{Engine, KEEP_ALL};
use npcov_graph::{Classifier, Graph, OnnxModel, Specialisation};
use npcov_program::{ExplainOutputs, LayerOptions, Lrp, NetworkView, explain, path_layers};

struct Counting;

thread_local! {
    /// Of this thread only: the test harness has threads of its own.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // Nothing to count while a thread ends.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn graph(name: &str) -> Graph {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/{name}.onnx"));
    let model = OnnxModel::read(path).unwrap();
    model.specialise(&Specialisation::default()).unwrap()
}

/// Runs a graph with all outputs kept, and with all but the first shown.
fn check(graph: &Graph, name: &str) {
    let engine: &dyn Engine = &Native::default();
    for kept in [KEEP_ALL, 1] {
        let prepared = engine.prepare(graph, kept).unwrap();
        let mut worker = prepared.worker().unwrap();
        // Sixteen inputs together, and one by itself; each has its memory from its first run on.
        for count in [prepared.together(), 1] {
            let input = vec![0.5; count * prepared.input_lens().iter().sum::<usize>()];
            let lens = prepared.output_lens();
            let mut outputs: Vec<Vec<f32>> =
                lens.iter().map(|len| vec![0.0; count * len]).collect();
            let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            let mut shown = 0;
            let mut run = || {
                let run = worker.run(count, &[&input], &mut outputs, &mut |_, _| shown += 1);
                run.unwrap();
            };
            run();
            let before = ALLOCATIONS.get();
            for _ in 0..3 {
                run();
            }
            assert_eq!(
                ALLOCATIONS.get() - before,
                0,
                "{name}, {kept} kept, {count}"
            );
            assert_eq!(shown, 4 * (graph.outputs().len() - lens.len()), "{name}");
        }
    }
}

#[test]
fn running_a_graph_allocates_nothing() {
    for name in ["lenet", "resnet8", "mobilenet", "vit", "keras"] {
        check(&graph(name), name);
    }
}

#[test]
fn running_an_explanation_allocates_nothing() {
    for name in ["lenet", "resnet8", "mobilenet", "keras"] {
        let graph = graph(name);
        let classifier = Classifier::find(&graph, graph.outputs()[0]);
        let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
        let view = NetworkView {
            graph: &graph,
            classifier: &classifier,
            layers: &layers,
            batch: 1,
        };
        let options = ExplainOutputs {
            activations: true,
            input: true,
            ..ExplainOutputs::default()
        };
        let program = explain(&view, &Lrp::default(), &options).unwrap();
        check(&program.graph, name);
    }
}
