//! Numbers that are explained from a reference on, worked out by hand.

use npcov_engine::Engine;
use npcov_engine::native::Native;
use npcov_graph::op::{Binary, Unary};
use npcov_graph::{Classifier, DType, Data, Ending, Graph, Op, Tensor, TensorType, ValueId};
use npcov_program::{
    Deviation, ExplainOutputs, LayerOptions, Lrp, NetworkView, ProgramError, Rule, Rules, Target,
    explain, path_layers,
};

fn constant(graph: &mut Graph, shape: &[usize], numbers: &[f32]) -> ValueId {
    let tensor = Tensor::new(shape, Data::F32(numbers.to_vec())).unwrap();
    graph.add_constant("c", tensor)
}

/// `y = scale (w ReLU(x) + c)`, the sums of the hidden layer being `x` itself.
fn network(w: &[f32], c: f32, scale: f32) -> Graph {
    let n = w.len();
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [1, n]));
    let unit: Vec<f32> = (0..n * n)
        .map(|i| if i % (n + 1) == 0 { 1.0 } else { 0.0 })
        .collect();
    let unit = constant(&mut graph, &[n, n], &unit);
    let w = constant(&mut graph, &[n, 1], w);
    let c = constant(&mut graph, &[1], &[c]);
    let scale = constant(&mut graph, &[], &[scale]);
    let p = graph.push("p", Op::MatMul, &[x, unit]).unwrap();
    let a = graph.push("a", Op::Unary(Unary::Relu), &[p]).unwrap();
    let y = graph.push("y", Op::MatMul, &[a, w]).unwrap();
    let y = graph
        .push("bias", Op::Binary(Binary::Add), &[y, c])
        .unwrap();
    let y = graph
        .push("scale", Op::Binary(Binary::Mul), &[y, scale])
        .unwrap();
    graph.set_outputs(vec![y]);
    graph
}

fn program(graph: &Graph, reference: f32, rule: Rule) -> Result<Graph, ProgramError> {
    let classifier = Classifier {
        logits: graph.outputs()[0],
        ending: Ending::Numbers,
    };
    let layers = path_layers(graph, &classifier, 1, &LayerOptions::default()).unwrap();
    let view = NetworkView {
        graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    let outputs = ExplainOutputs {
        target: Target::Deviation(Deviation {
            output: Some(0),
            reference: vec![reference],
            scale: vec![1.0],
            up: false,
            flooded: true,
        }),
        input: true,
        ..ExplainOutputs::default()
    };
    let lrp = Lrp {
        rules: Rules::uniform(rule),
    };
    Ok(explain(&view, &lrp, &outputs)?.graph)
}

/// The relevances of the hidden layer and of the input.
fn relevances(graph: &Graph, x: &[f32], reference: f32, rule: Rule) -> [Vec<f32>; 2] {
    let program = program(graph, reference, rule).unwrap();
    let lowered = program.lowered(|_| true).unwrap();
    let [found, plain] =
        [&program, &lowered].map(|p| Native::default().run_once(p, 1, &[x]).unwrap());
    for (a, b) in found.iter().zip(&plain) {
        close(a, b);
    }
    [found[1].clone(), found[2].clone()]
}

#[track_caller]
fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-5, "{found:?}, not {expected:?}");
    }
}

/// `w = (2, -1, 4)`, `c = .5`, `a = (3, 1, .5)`: the number is 7.5. Flooded to 2, activations are (.75, 0, 0), and the
/// parts of the difference (4.5, -1, 2); to 9 they are (3.3, 1.3, .8), and 1.5 is missing: (.6, -.3, 1.2).
#[test]
fn parts_are_those_between_the_number_and_the_reference() {
    let x = [3.0, 1.0, 0.5];
    for (scale, turned) in [(1.0, 1.0), (10.0, 10.0), (-2.0, 2.0)] {
        let graph = network(&[2.0, -1.0, 4.0], 0.5, scale);
        let scaled = |parts: [f32; 3]| parts.map(|part| part * turned);
        for found in relevances(&graph, &x, 2.0 * scale, Rule::epsilon(0.0)) {
            close(&found, &scaled([4.5, -1.0, 2.0]));
        }
        for found in relevances(&graph, &x, 9.0 * scale, Rule::epsilon(0.0)) {
            close(&found, &scaled([0.6, -0.3, 1.2]));
        }
    }
}

/// One neuron: sums of 3, .5 and -2, flooded to 1, differ from it by 2, -.5 and -1.
#[test]
fn three_units_stand_for_a_neuron() {
    let graph = network(&[1.0], 0.0, 1.0);
    for (p, apart) in [(3.0, 2.0), (0.5, 0.5), (-2.0, 1.0)] {
        for rule in [Rule::epsilon(0.0), Rule::NPC] {
            let [hidden, input] = relevances(&graph, &[p], 1.0, rule);
            close(&hidden, &[apart]);
            close(&input, &[apart]);
        }
    }
}

/// With a reference of `c`, nothing of the activations is flooded: it is the usual explanation.
#[test]
fn from_nothing_on_it_is_the_usual_explanation() {
    let graph = network(&[2.0, -1.0, 4.0], 0.5, 1.0);
    let x = [3.0, 1.0, 0.5];
    // 8 for and 1 against: 1.5 and -.5 of what is shared out.
    let [hidden, _] = relevances(&graph, &x, 0.5, Rule::NPC);
    close(&hidden, &[7.0 * 1.5 * 0.75, -7.0 * 0.5, 7.0 * 1.5 * 0.25]);
}

#[test]
fn other_networks_are_refused() {
    let mut graph = network(&[1.0, 2.0], 0.0, 1.0);
    let y = graph.outputs()[0];
    let y = graph.push("exp", Op::Unary(Unary::Exp), &[y]).unwrap();
    graph.set_outputs(vec![y]);
    let error = program(&graph, 1.0, Rule::NPC).unwrap_err().to_string();
    assert!(error.contains("two dense layers"), "{error}");
}
