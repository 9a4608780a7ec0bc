//! A result depends on the model and the input alone: not on the number of threads, not on where
//! in a batch an input stands, not on what stands beside it.

use std::path::PathBuf;

use npcov::Error;
use npcov::data::{Loader, Preprocessing, open};
use npcov::run::{ModelOptions, Network};

/// A plain CNN, residual sums, depthwise convolutions with gates, attention, NHWC.
const MODELS: [&str; 5] = ["lenet", "resnet8", "mobilenet", "vit", "keras"];

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

/// The bits of all outputs for rows `range`, row by row.
fn traced(model: &str, range: std::ops::Range<usize>, threads: usize) -> Vec<Vec<u32>> {
    let options = ModelOptions::default();
    let network = Network::open(fixture(&format!("{model}.onnx")), &options).unwrap();
    let data = open(fixture("fashion-1000.npz").to_str().unwrap()).unwrap();
    let preprocessing = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let loader = Loader::new(data, network.sample_shape(), &preprocessing).unwrap();
    let tracer = network.tracer(&[]).unwrap();
    let lens = tracer.output_lens();
    let mut rows = Vec::new();
    tracer
        .run(&loader, range, threads, |batch| -> Result<(), Error> {
            for row in 0..batch.rows.len() {
                let outputs = batch.outputs.iter().zip(lens);
                rows.push(
                    outputs
                        .flat_map(|(output, &len)| &output[row * len..(row + 1) * len])
                        .map(|x| x.to_bits())
                        .collect(),
                );
            }
            Ok(())
        })
        .unwrap();
    rows
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    for model in MODELS {
        let one = traced(model, 0..150, 1);
        assert_eq!(one.len(), 150);
        for threads in [2, 8] {
            assert_eq!(
                one,
                traced(model, 0..150, threads),
                "{model}, {threads} threads"
            );
        }
    }
}

#[test]
fn the_same_bits_at_any_position_of_a_batch() {
    for model in MODELS {
        let all = traced(model, 0..64, 1);
        for start in [1, 7, 15, 16, 33, 63] {
            assert_eq!(
                all[start..],
                traced(model, start..64, 1),
                "{model} from {start}"
            );
        }
    }
}
