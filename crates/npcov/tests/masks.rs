//! Models with neurons switched off.

mod support;

use npcov::graph::op::Binary;
use npcov::graph::{Classifier, Graph, Op};
use npcov::program::{LayerOptions, NetworkView, PathLayer, Program, mask, path_layers, trace};
use support::{graph, images, run};

const MODELS: [&str; 20] = [
    "binary-sigmoid.onnx",
    "keras.onnx",
    "lenet-batch1-flatten.onnx",
    "lenet-batch1-squeeze.onnx",
    "lenet-dynamo.onnx",
    "lenet-f16-weights.onnx",
    "lenet-f16.onnx",
    "lenet-nhwc.onnx",
    "lenet-softmax.onnx",
    "lenet.onnx",
    "mlp-external.onnx",
    "mlp-function.onnx",
    "mlp-matlab.onnx",
    "mobilenet-dynamo.onnx",
    "mobilenet.onnx",
    "resnet8-dynamo.onnx",
    "resnet8.onnx",
    "vit-batch1.onnx",
    "vit-dynamo.onnx",
    "vit.onnx",
];

/// Images of each model.
const IMAGES: usize = 20;

struct Masked {
    graph: Graph,
    classifier: Classifier,
    layers: Vec<PathLayer>,
    program: Program,
    images: Vec<f32>,
}

impl Masked {
    fn new(model: &str) -> Masked {
        let graph = graph(model);
        let classifier = Classifier::find(&graph, graph.outputs()[0]);
        let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
        let view = NetworkView {
            graph: &graph,
            classifier: &classifier,
            layers: &layers,
            batch: 1,
        };
        let program = mask(&view).unwrap();
        Masked {
            images: images(&graph, IMAGES),
            program,
            graph,
            classifier,
            layers,
        }
    }

    /// The logits' bits, image by image, under masks of every layer (images x neurons).
    fn bits(&self, masks: &[Vec<f32>]) -> Vec<u32> {
        let count = masks[0].len() / self.layers[0].neurons;
        let image = self.images.len() / IMAGES;
        let mut inputs = vec![&self.images[..count * image]];
        inputs.extend(masks.iter().map(Vec::as_slice));
        bits(run(&self.program.graph, count, &inputs).remove(0))
    }

    /// A mask for every layer and image, from a function of layer, image and neuron.
    fn masks(&self, count: usize, number: impl Fn(usize, usize, usize) -> bool) -> Vec<Vec<f32>> {
        let number = |l: usize, i: usize, n: usize| f32::from(u8::from(number(l, i, n)));
        self.layers
            .iter()
            .enumerate()
            .map(|(l, layer)| {
                (0..count * layer.neurons)
                    .map(|at| number(l, at / layer.neurons, at % layer.neurons))
                    .collect()
            })
            .collect()
    }
}

fn bits(numbers: Vec<f32>) -> Vec<u32> {
    numbers.into_iter().map(f32::to_bits).collect()
}

#[test]
fn masks_of_ones_change_no_bit() {
    for model in MODELS {
        let masked = Masked::new(model);
        let view = NetworkView {
            graph: &masked.graph,
            classifier: &masked.classifier,
            layers: &[],
            batch: 1,
        };
        let own = trace(&view, &[]).unwrap();
        let own = run(&own.graph, IMAGES, &[&masked.images]).remove(0);
        let ones = masked.masks(IMAGES, |_, _, _| true);
        assert_eq!(masked.bits(&ones), bits(own), "{model}");
    }
}

/// Without any neuron, the logits are the last layer's bias.
#[test]
fn masks_of_zeros_leave_the_bias() {
    for model in [
        "binary-sigmoid.onnx",
        "keras.onnx",
        "lenet.onnx",
        "mlp-matlab.onnx",
        "mobilenet.onnx",
        "resnet8.onnx",
    ] {
        let masked = Masked::new(model);
        let last = masked.graph.producer(masked.classifier.logits).unwrap();
        let bias = match last.op {
            Op::Gemm(_) => last.inputs[2],
            Op::Binary(Binary::Add) => last.inputs[1],
            _ => panic!("{model} ends in {}", last.op.name()),
        };
        let bias = masked.graph.constant(bias).unwrap();
        let bias = bias.as_f32().unwrap().repeat(IMAGES);
        let zeros = masked.masks(IMAGES, |_, _, _| false);
        assert_eq!(masked.bits(&zeros), bits(bias), "{model}");
    }
}

/// What is switched off for one image makes no difference to another.
#[test]
fn masks_are_for_single_images() {
    for model in ["lenet.onnx", "mobilenet.onnx", "keras.onnx"] {
        let masked = Masked::new(model);
        let pattern = |l: usize, i: usize, n: usize| !(i * 5 + n * 3 + l).is_multiple_of(7);
        let all = masked.bits(&masked.masks(IMAGES, pattern));
        let classes = all.len() / IMAGES;
        let ones = masked.masks(IMAGES, |_, _, _| true);
        assert_ne!(masked.bits(&ones), all, "{model}");
        for image in [0, 3, 17] {
            // The same masks for this image, none for the others.
            let alone = masked.masks(IMAGES, |l, i, n| i != image || pattern(l, i, n));
            let alone = masked.bits(&alone);
            let rows = image * classes..(image + 1) * classes;
            assert_eq!(alone[rows.clone()], all[rows], "{model}, image {image}");
        }
    }
}

/// One neuron off: the same as the model with this neuron's outgoing weights at zero.
#[test]
fn a_neuron_that_is_off_contributes_nothing() {
    let masked = Masked::new("lenet.onnx");
    let dense = masked.graph.producer(masked.classifier.logits).unwrap();
    let weight = masked.graph.constant(dense.inputs[1]).unwrap();
    let (weight, bias) = (
        weight.as_f32().unwrap(),
        masked.graph.constant(dense.inputs[2]).unwrap(),
    );
    let bias = bias.as_f32().unwrap();
    let last = masked.layers.len() - 1;
    let units = masked.layers[last].neurons;
    let view = NetworkView {
        graph: &masked.graph,
        classifier: &masked.classifier,
        layers: &masked.layers,
        batch: 1,
    };
    let traced = trace(&view, &[]).unwrap();
    let hidden = run(&traced.graph, IMAGES, &[&masked.images]).remove(1 + last);
    let off = 5;
    let masks = masked.masks(IMAGES, |l, _, n| l != last || n != off);
    let found = masked.bits(&masks);
    for image in 0..IMAGES {
        for class in 0..bias.len() {
            let contribution = |n: usize| match n == off {
                true => 0.0,
                // Rows of the weight are classes: the exporter writes `transB = 1`.
                false => f64::from(weight[class * units + n] * hidden[image * units + n]),
            };
            let z = (0..units).map(contribution).sum::<f64>() + f64::from(bias[class]);
            let found = f64::from(f32::from_bits(found[image * bias.len() + class]));
            assert!((found - z).abs() <= 1e-5 * z.abs().max(1.0), "{found}, {z}");
        }
    }
}
