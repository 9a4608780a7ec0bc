//! Masking studies: networks with neurons switched off, and what is chosen by that.

use npcov::data::npz::{Compression, NpzWriter};
use npcov::data::{self, Loader, Preprocessing};
use npcov::graph::op::{Binary, Unary};
use npcov::graph::{DType, Data, Graph, OnnxModel, Op, Tensor, TensorType};
use npcov::masking::{Keep, MaskingOptions, MaskingStudy, Neurons, TuneOptions, Tuning, tune};
use npcov::run::{
    Event, ExplainOptions, Explainer, MaskedNetwork, Method, ModelOptions, Network, PathExtractor,
    RunError, TracedRows,
};
use npcov_paths::choices::{Average, Population};
use npcov_paths::{BitRows, Choices, PathLayout, Preset, bits};

/// A file of the fixtures.
fn fixture(name: &str) -> String {
    format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A fixture model with the images of the fixtures.
fn fashion(model: &str) -> (Network, Loader<'static>) {
    let network = Network::open(fixture(model), &ModelOptions::default()).unwrap();
    let data = data::open(fixture("fashion-1000.npz")).unwrap();
    let scale = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let loader = Loader::new(data, network.sample_shape(), &scale).unwrap();
    (network, loader)
}

fn run(
    network: &Network,
    data: &Loader,
    settings: &TuneOptions,
    threads: usize,
) -> Result<Tuning, RunError> {
    let mut done = 0;
    let tuning = tune(network, data, settings, threads, &mut |event| {
        if let Event::Finished(inputs) = event {
            done += inputs;
        }
        std::ops::ControlFlow::Continue(())
    })?;
    assert_eq!(done, settings.work(data.len()));
    Ok(tuning)
}

/// A number between -1 and 1 that looks random.
fn noise(place: usize) -> f32 {
    let mixed = (place as u32 + 1).wrapping_mul(0x9e37_79b1);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca77);
    ((mixed ^ mixed >> 13) % 2001) as f32 / 1000.0 - 1.0
}

/// A network of two hidden layers in plain arithmetic: 4 inputs, 5 and 6 neurons, 3 classes.
struct Small {
    weights: [Vec<f32>; 3],
}

const SIZES: [usize; 4] = [4, 5, 6, 3];

impl Small {
    fn new() -> Small {
        let weights = |l: usize| {
            let places = SIZES[l] * SIZES[l + 1];
            (0..places).map(|i| noise(20_000 + 1000 * l + i)).collect()
        };
        Small {
            weights: [weights(0), weights(1), weights(2)],
        }
    }

    fn network(&self) -> Network {
        let mut graph = Graph::new();
        let mut x = graph.add_input("x", TensorType::new(DType::F32, [1, SIZES[0]]));
        for (l, weights) in self.weights.iter().enumerate() {
            let tensor = Tensor::new([SIZES[l], SIZES[l + 1]], Data::F32(weights.clone())).unwrap();
            let weights = graph.add_constant("w", tensor);
            x = graph.push("dense", Op::MatMul, &[x, weights]).unwrap();
            if l < 2 {
                x = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
            }
        }
        let bias = graph.add_constant("b", Tensor::vector(vec![0.05, 0.02, 0.0]));
        x = graph
            .push("bias", Op::Binary(Binary::Add), &[x, bias])
            .unwrap();
        graph.set_outputs(vec![x]);
        let model = OnnxModel::from_bytes(graph.to_onnx().unwrap()).unwrap();
        Network::new(model, &ModelOptions::default()).unwrap()
    }

    /// The class of an input when some neurons of the hidden layers give 0.
    fn class(&self, x: &[f32], off: &[&dyn Fn(usize) -> bool; 2]) -> u32 {
        let mut values: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        for (l, weights) in self.weights.iter().enumerate() {
            let unit = |j: usize| -> f64 {
                let product = |(i, x): (usize, &f64)| x * f64::from(weights[i * SIZES[l + 1] + j]);
                let z = values.iter().enumerate().map(product).sum();
                match l {
                    2 => z + f64::from([0.05_f32, 0.02, 0.0][j]),
                    l if off[l](j) => 0.0,
                    _ => f64::max(z, 0.0),
                }
            };
            values = (0..SIZES[l + 1]).map(unit).collect();
        }
        let best = (0..3)
            .rev()
            .max_by(|&a, &b| values[a].total_cmp(&values[b]));
        best.unwrap() as u32
    }
}

/// Inputs of the small network, and labels when there are any.
fn small_data(inputs: usize, labels: Option<&[i64]>) -> (Vec<f32>, Loader<'static>) {
    let x: Vec<f32> = (0..inputs * 4).map(|i| 2.0 * noise(7000 + i)).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.npz");
    let mut writer = NpzWriter::create(&path, Compression::Deflated).unwrap();
    let samples = writer.array::<f32>("x", &[4]).unwrap();
    writer.append(&samples, &x).unwrap();
    if let Some(labels) = labels {
        let y = writer.array::<i64>("y", &[]).unwrap();
        writer.append(&y, labels).unwrap();
    }
    writer.finish().unwrap();
    let data = data::open(path.to_str().unwrap()).unwrap();
    (
        x,
        Loader::new(data, &[4], &Preprocessing::default()).unwrap(),
    )
}

/// Every subset of every neuron, against arithmetic.
#[test]
fn masked_classes_are_those_of_plain_arithmetic() {
    let small = Small::new();
    let network = small.network();
    let (x, data) = small_data(40, None);
    let masked = MaskedNetwork::new(&network).unwrap();
    assert_eq!(masked.layout(), &PathLayout::new([5, 6]));
    let rows: Vec<usize> = (0..40).filter(|row| row % 7 != 3).collect();
    let mut seen = [0; 3];
    for step in 0..64 {
        // Another set for every input.
        let number = |place: usize| (place * 643 + step * 389) % 2048;
        let off = |place: usize, set: &mut [u64]| {
            set[0] = (number(place) & 31) as u64;
            set[1] = (number(place) >> 5) as u64;
        };
        let classes = masked.predict(&data, &rows, &off, 2, &mut ()).unwrap();
        for (place, (&row, &class)) in rows.iter().zip(&classes).enumerate() {
            let first = |j: usize| number(place) >> j & 1 == 1;
            let second = |j: usize| number(place) >> (5 + j) & 1 == 1;
            let expected = small.class(&x[row * 4..(row + 1) * 4], &[&first, &second]);
            assert_eq!(class, expected, "row {row}, set {:b}", number(place));
            seen[class as usize] += 1;
        }
    }
    assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
}

/// Inc.C, Inc.NC and width as they are defined, from paths of the extractor and plain arithmetic.
#[test]
fn inconsistencies_follow_their_definition() {
    let small = Small::new();
    let network = small.network();
    let (x, unlabelled) = small_data(90, None);
    let own = |row: usize| small.class(&x[row * 4..(row + 1) * 4], &[&|_| false, &|_| false]);
    let labels: Vec<i64> = (0..90)
        .map(|row| i64::from(if row % 4 == 0 { 2 } else { own(row) }))
        .collect();
    let (_, labelled) = small_data(90, Some(&labels));
    for (preset, data) in [(Preset::Paper, &unlabelled), (Preset::Tables, &labelled)] {
        let settings = TuneOptions {
            choices: preset.choices(),
            sample: None,
            ..TuneOptions::default()
        };
        let tuning = run(&network, data, &settings, 2).unwrap();
        let counts = |row: &usize| {
            settings.choices.population == Population::All || labels[*row] == i64::from(own(*row))
        };
        let counted: Vec<usize> = (0..90).filter(counts).collect();
        assert_eq!((tuning.inputs, tuning.counted), (90, counted.len()));
        for point in &tuning.alphas {
            let paths = paths(&network, data, &settings.choices, point.alpha);
            let share = |masks: bool| {
                let changes = |&&row: &&usize| {
                    let path = paths.row(row);
                    let first = |j: usize| bits::get(&path[..1], j) == masks;
                    let second = |j: usize| bits::get(&path[1..], j) == masks;
                    small.class(&x[row * 4..(row + 1) * 4], &[&first, &second]) != own(row)
                };
                counted.iter().filter(changes).count() as f64 / counted.len() as f64
            };
            assert_eq!(point.path.inc_c, share(true), "alpha {}", point.alpha);
            assert_eq!(point.path.inc_nc, share(false), "alpha {}", point.alpha);
            let mean = |layer: usize| {
                let count = |&row: &usize| f64::from(bits::count(&paths.row(row)[layer..=layer]));
                let mean = counted.iter().map(count).sum::<f64>() / counted.len() as f64;
                if preset == Preset::Tables {
                    mean.round_ties_even()
                } else {
                    mean
                }
            };
            let width = (mean(0) / 5.0 + mean(1) / 6.0) / 2.0;
            assert!((point.width - width).abs() < 1e-12);
        }
        let partly = |share: f64| share > 0.0 && share < 1.0;
        assert!(tuning.alphas.iter().any(|point| partly(point.path.inc_c)));
        assert!(tuning.alphas.iter().any(|point| partly(point.path.inc_nc)));
        // One cluster for each input's own path: the abstract paths are the paths themselves.
        let single = TuneOptions {
            alphas: vec![0.8],
            clusters: vec![90],
            betas: vec![0.9],
            ..settings.clone()
        };
        if preset == Preset::Paper {
            let tuning = run(&network, data, &single, 2).unwrap();
            assert_eq!(tuning.grid[0].path, tuning.alphas[0].path);
        }
    }
}

fn paths(network: &Network, data: &Loader, choices: &Choices, alpha: f64) -> BitRows {
    let alphas = vec![alpha; network.classes()];
    let extractor = PathExtractor::new(network, &Method::default(), choices, &alphas).unwrap();
    let mut paths = BitRows::new(extractor.layout().width());
    extractor
        .run(data, 0..data.len(), 1, |batch| -> Result<(), RunError> {
            batch.paths.rows().for_each(|row| paths.push(row));
            Ok(())
        })
        .unwrap();
    paths
}

/// One cluster of each class, merged and masked by hand.
#[test]
fn abstract_paths_are_masked_for_all_members() {
    let small = Small::new();
    let network = small.network();
    let (x, data) = small_data(80, None);
    let own = |row: usize| small.class(&x[row * 4..(row + 1) * 4], &[&|_| false, &|_| false]);
    for average in [Average::Inputs, Average::Clusters] {
        let settings = TuneOptions {
            choices: Choices {
                average,
                ..Choices::default()
            },
            sample: None,
            alphas: vec![0.7],
            clusters: vec![1],
            betas: vec![0.3, 0.6],
            ..TuneOptions::default()
        };
        let tuning = run(&network, &data, &settings, 2).unwrap();
        let paths = paths(&network, &data, &settings.choices, 0.7);
        for point in &tuning.grid {
            let mut shares = Vec::new();
            for class in 0..3 {
                let members: Vec<usize> = (0..80).filter(|&row| own(row) == class).collect();
                if members.is_empty() {
                    continue;
                }
                let is_abstract = |layer: usize, j: usize| {
                    let has = |&&row: &&usize| bits::get(&paths.row(row)[layer..=layer], j);
                    let count = members.iter().filter(has).count();
                    count as f64 / members.len() as f64 > point.beta
                };
                let changes = |&&row: &&usize| {
                    let off: [&dyn Fn(usize) -> bool; 2] =
                        [&|j| is_abstract(0, j), &|j| is_abstract(1, j)];
                    small.class(&x[row * 4..(row + 1) * 4], &off) != class
                };
                shares.push((members.iter().filter(changes).count(), members.len()));
            }
            assert_eq!(point.paths, shares.len());
            let expected = match average {
                Average::Inputs => shares.iter().map(|s| s.0).sum::<usize>() as f64 / 80.0,
                Average::Clusters => {
                    let sum: f64 = shares.iter().map(|s| s.0 as f64 / s.1 as f64).sum();
                    sum / shares.len() as f64
                }
            };
            assert_eq!(point.path.inc_c, expected, "beta {}, {average}", point.beta);
        }
        assert_ne!(tuning.grid[0], tuning.grid[1]);
    }
}

#[test]
fn empty_masks_change_nothing_and_full_ones_leave_one_class() {
    for model in ["lenet.onnx", "resnet8.onnx", "lenet-batch1-flatten.onnx"] {
        let (network, data) = fashion(model);
        let masked = MaskedNetwork::new(&network).unwrap();
        let rows: Vec<usize> = (0..1000).step_by(11).collect();
        let explainer = Explainer::new(&network, &ExplainOptions::default()).unwrap();
        let mut own = Vec::new();
        let on_batch = |_: &TracedRows, classes: &[usize]| -> Result<(), RunError> {
            own.extend(classes.iter().map(|&class| class as u32));
            Ok(())
        };
        npcov::explain_all(&explainer, &data, 0..1000, 2, 0, on_batch).unwrap();
        let own: Vec<u32> = rows.iter().map(|&row| own[row]).collect();
        let classes = |off: &(dyn Fn(usize, &mut [u64]) + Sync), threads| {
            masked.predict(&data, &rows, off, threads, &mut ()).unwrap()
        };
        assert_eq!(classes(&|_, _| {}, 2), own, "{model}");
        let everything = |_: usize, off: &mut [u64]| {
            let empty = vec![0; off.len()];
            off.copy_from_slice(&masked.layout().complement(&empty));
        };
        let bias = classes(&everything, 2);
        assert!(bias.iter().all(|&class| class == bias[0]), "{model}");
        // Some neurons of every input: as many threads as may be give the same.
        let some = |place: usize, off: &mut [u64]| {
            off.iter_mut()
                .for_each(|word| *word = 0x1249_2492_4924_9249 << (place % 3));
        };
        let alone = classes(&some, 1);
        assert_ne!(alone, own, "{model}");
        for threads in [2, 8] {
            assert_eq!(classes(&some, threads), alone, "{model}, {threads} threads");
        }
    }
}

#[test]
fn results_are_the_same_for_any_number_of_threads() {
    let (network, data) = fashion("lenet.onnx");
    let settings = TuneOptions {
        sample: Some(150),
        alphas: vec![0.9, 0.7],
        clusters: vec![3, 1],
        betas: vec![0.6],
        seed: 4,
        ..TuneOptions::default()
    };
    let alone = run(&network, &data, &settings, 1).unwrap();
    let alphas: Vec<f64> = alone.alphas.iter().map(|point| point.alpha).collect();
    let clusters: Vec<usize> = alone.grid.iter().map(|point| point.clusters).collect();
    assert_eq!((alphas, clusters), (vec![0.7, 0.9], vec![1, 3]));
    for threads in [2, 8] {
        assert_eq!(run(&network, &data, &settings, threads).unwrap(), alone);
    }
    let other = TuneOptions {
        seed: 5,
        ..settings
    };
    assert_ne!(
        run(&network, &data, &other, 2).unwrap().alphas,
        alone.alphas
    );
}

#[test]
fn paths_of_trained_networks_decide() {
    for model in ["lenet.onnx", "resnet8.onnx"] {
        let (network, data) = fashion(model);
        let settings = TuneOptions {
            sample: Some(200),
            clusters: vec![1, 4],
            betas: vec![0.6, 0.8],
            ..TuneOptions::default()
        };
        let tuning = run(&network, &data, &settings, 2).unwrap();
        assert_eq!(
            (tuning.available, tuning.inputs, tuning.counted),
            (1000, 200, 200)
        );
        let widths: Vec<f64> = tuning.alphas.iter().map(|point| point.width).collect();
        assert!(widths.is_sorted_by(|a, b| a < b), "{widths:?}");
        let point = &tuning.alphas[tuning.alpha.point];
        assert_eq!(tuning.chosen.alpha, point.alpha);
        assert!(point.path.inc_c > 0.8, "{model}: {point:?}");
        assert!(point.path.inc_nc < 0.2, "{model}: {point:?}");
        assert!(
            point.random.difference() < point.path.difference(),
            "{model}: {point:?}"
        );
        assert!(point.width < 0.8, "{model}: {point:?}");
    }
}

/// Why a low Inc.NC alone proves little: what is left of a network follows the path, whoever's it
/// is. Here each input keeps only the path of another input, of another class.
#[test]
fn a_mask_can_dictate_the_class() {
    let (network, data) = fashion("resnet8.onnx");
    let masked = MaskedNetwork::new(&network).unwrap();
    let layout = masked.layout();
    let choices = Choices::default();
    let alphas = vec![0.7; network.classes()];
    let extractor = PathExtractor::new(&network, &Method::default(), &choices, &alphas).unwrap();
    let (mut own, mut paths) = (Vec::new(), BitRows::new(layout.width()));
    extractor
        .run(&data, 0..200, 2, |batch| -> Result<(), RunError> {
            own.extend_from_slice(&batch.predictions);
            batch.paths.rows().for_each(|row| paths.push(row));
            Ok(())
        })
        .unwrap();
    let stranger = |i: usize| {
        let mut others = (1..200).map(|step| (i + step) % 200);
        others.find(|&other| own[other] != own[i]).unwrap()
    };
    let rows: Vec<usize> = (0..200).collect();
    let off = |i: usize, off: &mut [u64]| {
        off.copy_from_slice(&layout.complement(paths.row(stranger(i))));
    };
    let classes = masked.predict(&data, &rows, &off, 2, &mut ()).unwrap();
    let follows = rows
        .iter()
        .filter(|&&i| classes[i] == own[stranger(i)])
        .count();
    assert!(follows >= 190, "{follows} of 200");
}

#[test]
fn the_path_of_another_class_says_that_class() {
    let (network, data) = fashion("resnet8.onnx");
    let folder = tempfile::tempdir().unwrap();
    let settings = MaskingOptions {
        method: Method::default(),
        choices: Choices::default(),
        sample: Some(100),
        alphas: vec![0.7],
        bands: Some((0.7, npcov::paths::band)),
        restarts: 1,
        seed: 0,
        keep: Some(Keep {
            file: folder.path().join("explained.safetensors"),
            plan: "the same".to_owned(),
        }),
    };
    let study = MaskingStudy::new(&network, &data, &settings, 2, &mut ()).unwrap();
    let found = study.stranger(0, study.counted(), &mut ()).unwrap();
    assert_eq!(found.inputs, 100);
    assert!(found.follows > 0.9, "{found:?}");
    // Whoever is taken for the other class is not taken for its own.
    assert!(found.path.inc_nc >= found.follows);
    let path = study.inconsistency(0, Neurons::Path, study.counted(), &mut ());
    assert!(path.unwrap().inc_nc < 0.1);

    // Explained inputs that were kept give the same.
    let again = MaskingStudy::new(&network, &data, &settings, 1, &mut ()).unwrap();
    assert_eq!(again.predictions(), study.predictions());
    assert_eq!(again.paths(0), study.paths(0));
    assert_eq!(again.stranger(0, again.counted(), &mut ()).unwrap(), found);
    for fifth in 0..MaskingStudy::FIFTHS {
        let share = |study: &MaskingStudy<'_>| study.band(fifth, study.counted(), &mut ());
        assert_eq!(share(&again).unwrap(), share(&study).unwrap());
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let network = Small::new().network();
    let (_, data) = small_data(20, None);
    let (_, none) = small_data(0, None);
    let (_, strange) = small_data(20, Some(&[3; 20]));
    let (_, wrong) = small_data(20, Some(&[0; 20]));
    let error = |settings: TuneOptions, data: &Loader| {
        tune(&network, data, &settings, 1, &mut ()).unwrap_err()
    };
    let base = TuneOptions::default;
    for settings in [
        TuneOptions {
            alphas: vec![0.5, 0.0],
            ..base()
        },
        TuneOptions {
            alphas: vec![f64::NAN],
            ..base()
        },
        TuneOptions {
            alphas: vec![],
            ..base()
        },
        TuneOptions {
            betas: vec![1.0],
            ..base()
        },
        TuneOptions {
            betas: vec![],
            ..base()
        },
        TuneOptions {
            clusters: vec![0],
            ..base()
        },
        TuneOptions {
            clusters: vec![],
            ..base()
        },
    ] {
        let error = error(settings, &data);
        assert!(matches!(error, RunError::Parameter { .. }), "{error}");
    }
    let correct = TuneOptions {
        choices: Choices {
            population: Population::Correct,
            ..Choices::default()
        },
        ..base()
    };
    assert!(matches!(
        error(correct.clone(), &data),
        RunError::NoLabels(_)
    ));
    assert!(matches!(
        error(correct.clone(), &strange),
        RunError::Label { label: 3, .. }
    ));
    assert!(matches!(error(base(), &none), RunError::NoInputs(_)));
    let nothing = TuneOptions {
        sample: Some(0),
        ..base()
    };
    assert!(matches!(error(nothing, &data), RunError::NoInputs(_)));
    // With labels, the paper's population is all the same.
    assert!(tune(&network, &wrong, &base(), 1, &mut ()).is_ok());
    let tuning = tune(&network, &wrong, &correct, 1, &mut ()).unwrap();
    assert!(tuning.counted < 20);
}
