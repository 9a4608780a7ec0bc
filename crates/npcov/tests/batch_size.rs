//! Models whose file fixes how many inputs they take at once.

use npcov::data::npz::{Compression, NpzWriter};
use npcov::data::{self, Loader, Preprocessing};
use npcov::graph::op::{Binary, Reduce, ReduceKind, Unary};
use npcov::graph::{DType, Data, Graph, OnnxModel, Op, Tensor, TensorType, ValueId};
use npcov::run::RunError;
use npcov::run::{ModelOptions, Network};

const BATCH: usize = 4;
const WIDTH: usize = 3;

/// `relu(x) w`, for a batch of four; `middle` stands between the two.
fn model(middle: impl Fn(&mut Graph, ValueId) -> ValueId) -> OnnxModel {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [BATCH, WIDTH]));
    let h = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
    let h = middle(&mut graph, h);
    let w = Data::F32(vec![1.0, -2.0, 0.5, 3.0, -1.0, 0.25]);
    let w = graph.add_constant("w", Tensor::new([WIDTH, 2], w).unwrap());
    let y = graph.push("dense", Op::MatMul, &[h, w]).unwrap();
    graph.set_outputs(vec![y]);
    OnnxModel::from_bytes(graph.to_onnx().unwrap()).unwrap()
}

/// Ten rows of numbers.
fn rows() -> Vec<Vec<f32>> {
    let number = |i: usize| ((i * 7) % 11) as f32 / 4.0 - 1.0;
    (0..10)
        .map(|row| (0..WIDTH).map(|i| number(row * WIDTH + i)).collect())
        .collect()
}

fn logits(network: &Network) -> Vec<f32> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.npz");
    let mut writer = NpzWriter::create(&path, Compression::Stored).unwrap();
    let x = writer.array::<f32>("x", &[WIDTH]).unwrap();
    writer.append(&x, &rows().concat()).unwrap();
    writer.finish().unwrap();
    let data = data::open(path.to_str().unwrap()).unwrap();
    let loader = Loader::new(data, network.sample_shape(), &Preprocessing::default()).unwrap();
    let mut all = Vec::new();
    network
        .tracer(&[])
        .unwrap()
        .run(&loader, 0..10, 2, |batch| -> Result<(), RunError> {
            all.extend(&batch.outputs[0]);
            Ok(())
        })
        .unwrap();
    all
}

/// The logits of a row whose hidden layer is less by `shift`.
fn expected(row: &[f32], shift: &[f32]) -> [f32; 2] {
    let h: Vec<f32> = row.iter().zip(shift).map(|(x, s)| x.max(0.0) - s).collect();
    [
        h[0] + 0.5 * h[1] - h[2],
        -2.0 * h[0] + 3.0 * h[1] + 0.25 * h[2],
    ]
}

fn assert_close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (a, b) in got.iter().zip(expected) {
        assert!((a - b).abs() < 1e-5, "{got:?}, expected {expected:?}");
    }
}

fn each_alone() -> Vec<f32> {
    rows()
        .iter()
        .flat_map(|row| expected(row, &[0.0; WIDTH]))
        .collect()
}

#[test]
fn a_batch_without_meaning_is_undone() {
    let network = Network::new(model(|_, h| h), &ModelOptions::default()).unwrap();
    assert_eq!(
        (network.declared_batch(), network.batch()),
        (Some(BATCH), 1)
    );
    assert_close(&logits(&network), &each_alone());
}

fn at_once(batch: usize) -> ModelOptions {
    ModelOptions {
        batch: Some(batch),
        ..ModelOptions::default()
    }
}

/// Six inputs at a time and four have twelve as their first whole number of batches.
#[test]
fn a_batch_without_meaning_can_be_another() {
    let network = Network::new(model(|_, h| h), &at_once(6)).unwrap();
    assert_eq!(network.batch(), 6);
    assert_eq!(network.sample_shape(), [WIDTH]);
    assert_close(&logits(&network), &each_alone());
}

/// A Reshape that names the batch size only fits whole batches.
#[test]
fn a_batch_that_the_shapes_need_is_kept() {
    let there_and_back = |graph: &mut Graph, h| {
        let flat = Op::Reshape(vec![BATCH * WIDTH]);
        let flat = graph.push("flat", flat, &[h]).unwrap();
        let doubled = graph.push("double", Op::Binary(Binary::Add), &[flat, flat]);
        let half = graph.add_constant("half", Tensor::scalar(0.5));
        let same = graph
            .push("half", Op::Binary(Binary::Mul), &[doubled.unwrap(), half])
            .unwrap();
        let back = Op::Reshape(vec![BATCH, WIDTH]);
        graph.push("back", back, &[same]).unwrap()
    };
    let network = Network::new(model(there_and_back), &ModelOptions::default()).unwrap();
    assert_eq!(network.batch(), BATCH);
    let together = network.engine().record().together;
    let micro_batch = network.tracer(&[]).unwrap().micro_batch();
    assert_eq!(micro_batch, BATCH * together);
    assert_close(&logits(&network), &each_alone());
}

/// The mean over the batch could be taken over one input, but that would be another model.
#[test]
fn a_batch_whose_inputs_depend_on_each_other_is_kept() {
    let centred = |graph: &mut Graph, h| {
        let mean = Op::Reduce(Reduce {
            kind: ReduceKind::Mean,
            axes: vec![0],
            keep_dims: true,
        });
        let mean = graph.push("mean", mean, &[h]).unwrap();
        graph
            .push("centre", Op::Binary(Binary::Sub), &[h, mean])
            .unwrap()
    };
    let network = Network::new(model(centred), &ModelOptions::default()).unwrap();
    assert_eq!(network.batch(), BATCH);
    let refused = Network::new(model(centred), &at_once(2)).unwrap_err();
    assert!(matches!(
        refused,
        RunError::Batch {
            batch: 2,
            own: BATCH
        }
    ));
    assert_eq!(
        Network::new(model(centred), &at_once(BATCH))
            .unwrap()
            .batch(),
        BATCH
    );
    // The first eight rows are two whole batches.
    let rows = rows();
    let mut all = Vec::new();
    for batch in rows[..8].chunks(BATCH) {
        let mean: Vec<f32> = (0..WIDTH)
            .map(|i| batch.iter().map(|row| row[i].max(0.0)).sum::<f32>() / BATCH as f32)
            .collect();
        all.extend(batch.iter().flat_map(|row| expected(row, &mean)));
    }
    assert_close(&logits(&network)[..16], &all);
}
