//! Attacks: worked by hand on linear models, and on the fixtures.

use std::ops::ControlFlow;

use npcov::Error;
use npcov::attack::{
    Adversaries, AttackFile, AttackMethod, AttackNorm, AttackOptions, AttackReport, Attacked,
    CarliniWagner, Diversity, Pgd, attack,
};
use npcov::data::npz::{Compression, NpzWriter};
use npcov::data::{self, Loader, Preprocessing};
use npcov::graph::{DType, Data, Graph, OnnxModel, Op, Tensor, TensorType};
use npcov::run::{Event, ModelOptions, Network, RunError, predict};
use tempfile::TempDir;

/// A file of the fixtures.
fn fixture(name: &str) -> String {
    format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn scale(divide: f32) -> Preprocessing {
    Preprocessing {
        divide: Some(divide),
        ..Preprocessing::default()
    }
}

/// A fixture model with the images of the fixtures.
fn fashion(model: &str) -> (Network, Loader<'static>) {
    let network = Network::open(fixture(model), &ModelOptions::default()).unwrap();
    let data = data::open(fixture("fashion-1000.npz")).unwrap();
    let loader = Loader::new(data, network.sample_shape(), &scale(255.0)).unwrap();
    (network, loader)
}

/// The logits are the two pixels, times a matrix.
fn linear(weights: [f32; 4]) -> Network {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
    let weights = Tensor::new([2, 2], Data::F32(weights.to_vec())).unwrap();
    let weights = graph.add_constant("w", weights);
    let y = graph.push("y", Op::MatMul, &[x, weights]).unwrap();
    graph.set_outputs(vec![y]);
    let model = OnnxModel::from_bytes(graph.to_onnx().unwrap()).unwrap();
    Network::new(model, &ModelOptions::default()).unwrap()
}

const IDENTITY: [f32; 4] = [1.0, 0.0, 0.0, 1.0];

/// Inputs of two pixels, with labels.
struct Pairs {
    _folder: TempDir,
    loader: Loader<'static>,
}

fn pairs(x: &[[f32; 2]], y: &[i64], preprocessing: &Preprocessing) -> Pairs {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.npz");
    let mut writer = NpzWriter::create(&path, Compression::Stored).unwrap();
    let samples = writer.array::<f32>("x", &[2]).unwrap();
    writer.append(&samples, &x.concat()).unwrap();
    if !y.is_empty() {
        let labels = writer.array::<i64>("y", &[]).unwrap();
        writer.append(&labels, y).unwrap();
    }
    writer.finish().unwrap();
    let dataset = data::open(path.to_str().unwrap()).unwrap();
    let loader = Loader::new(dataset, &[2], preprocessing).unwrap();
    Pairs {
        _folder: folder,
        loader,
    }
}

fn run_on(
    network: &Network,
    data: &Loader,
    rows: &[usize],
    settings: &AttackOptions,
    threads: usize,
) -> Result<(AttackReport, Adversaries), Error> {
    let mut all = Adversaries::default();
    let mut done = 0;
    let inputs = Attacked {
        data,
        rows,
        threads,
    };
    let progress = &mut |event| {
        if let Event::Finished(steps) = event {
            done += steps;
        }
        ControlFlow::Continue(())
    };
    let report = attack(
        network,
        inputs,
        settings,
        progress,
        |found: &Adversaries| {
            all.rows.extend(&found.rows);
            all.samples.extend(&found.samples);
            all.labels.extend(&found.labels);
            all.predictions.extend(&found.predictions);
            all.success.extend(&found.success);
            all.distances.extend(&found.distances);
            Ok::<(), Error>(())
        },
    )?;
    assert_eq!(done, settings.work(rows.len()));
    assert_eq!(all.rows, rows);
    Ok((report, all))
}

fn run(
    network: &Network,
    data: &Loader,
    inputs: usize,
    settings: &AttackOptions,
) -> (AttackReport, Adversaries) {
    let rows: Vec<usize> = (0..inputs).collect();
    run_on(network, data, &rows, settings, 2).unwrap()
}

fn pgd(pgd: Pgd) -> AttackOptions {
    AttackOptions::from(AttackMethod::Pgd(pgd))
}

fn cw(cw: CarliniWagner) -> AttackOptions {
    AttackOptions::from(AttackMethod::CarliniWagner(cw))
}

fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-5, "{found:?}, not {expected:?}");
    }
}

/// With `z = x`, the cross entropy of class 0 falls along the first pixel and rises along the
/// second.
#[test]
fn steps_on_a_linear_model() {
    let network = linear(IDENTITY);
    let pairs = pairs(
        &[[0.5, 0.25], [0.5, 0.9], [0.05, 0.0]],
        &[0, 1, 0],
        &scale(1.0),
    );
    let data = &pairs.loader;

    let (report, found) = run(&network, data, 3, &pgd(Pgd::fast(0.25)));
    // The third can only go down to 0, and up by all.
    close(&found.samples, &[0.25, 0.5, 0.75, 0.65, 0.0, 0.25]);
    assert_eq!(found.predictions, [1, 0, 1]);
    assert_eq!(found.success, [true; 3]);
    assert_eq!((report.correct_before, report.correct_after), (3, 0));
    assert_eq!((report.successes, report.success_rate), (3, Some(1.0)));
    for (distance, expected) in found.distances.iter().zip([0.25; 3]) {
        assert!((distance - expected).abs() < 1e-6);
    }

    // Two steps of 0.0625 do not reach the radius, five would pass it.
    let steps = |steps| Pgd {
        step: 0.0625,
        steps,
        random_start: false,
        ..Pgd::maximum(0.25)
    };
    let (_, found) = run(&network, data, 1, &pgd(steps(2)));
    close(&found.samples, &[0.375, 0.375]);
    let (_, found) = run(&network, data, 1, &pgd(steps(5)));
    close(&found.samples, &[0.25, 0.5]);

    // Along (-1, 1) / sqrt 2.
    let diagonal = 0.5f32.sqrt();
    let euclidean = |steps| Pgd {
        step: 0.1,
        steps,
        random_start: false,
        ..Pgd::euclidean(0.3)
    };
    let (_, found) = run(&network, data, 1, &pgd(euclidean(1)));
    close(
        &found.samples,
        &[0.5 - 0.1 * diagonal, 0.25 + 0.1 * diagonal],
    );
    let (_, found) = run(&network, data, 1, &pgd(euclidean(7)));
    close(
        &found.samples,
        &[0.5 - 0.3 * diagonal, 0.25 + 0.3 * diagonal],
    );
    assert!((found.distances[0] - 0.3).abs() < 1e-6);
}

/// From (0.75, 0.25) the other class begins at (0.5, 0.5), which is nearest in both norms.
#[test]
fn the_smallest_change_on_a_linear_model() {
    let network = linear(IDENTITY);
    let pairs = pairs(&[[0.75, 0.25], [0.9, 0.8]], &[0, 0], &scale(1.0));
    let small = |cw| cw_small(cw, 5, 200);
    let (report, found) = run(
        &network,
        &pairs.loader,
        2,
        &small(CarliniWagner::euclidean()),
    );
    assert_eq!(report.successes, 2);
    for (found, expected) in found
        .distances
        .iter()
        .zip([0.125f64.sqrt(), 0.005f64.sqrt()])
    {
        assert!(
            *found >= expected - 1e-6 && *found < 1.1 * expected,
            "{found}, not {expected}"
        );
    }
    let fast = CarliniWagner {
        learning_rate: 0.01,
        ..CarliniWagner::maximum()
    };
    let (_, found) = run(&network, &pairs.loader, 2, &small(fast));
    for (found, expected) in found.distances.iter().zip([0.25, 0.05]) {
        assert!(
            *found >= expected - 1e-6 && *found < 1.3 * expected,
            "{found}, not {expected}"
        );
    }
    // With a confidence of 0.4 the logits must be that far apart: (0.3, 0.7).
    let confident = CarliniWagner {
        confidence: 0.4,
        ..CarliniWagner::euclidean()
    };
    let (_, found) = run(&network, &pairs.loader, 1, &small(confident));
    let expected = (2.0 * 0.45f64.powi(2)).sqrt();
    let distance = found.distances[0];
    assert!(
        distance >= expected - 1e-6 && distance < 1.1 * expected,
        "{distance}"
    );
    // No pixels between 0 and 1 are that far apart: the input stays.
    let impossible = CarliniWagner {
        confidence: 1.5,
        ..CarliniWagner::euclidean()
    };
    let (report, found) = run(&network, &pairs.loader, 2, &small(impossible));
    assert_eq!(found.samples, [0.75, 0.25, 0.9, 0.8]);
    assert_eq!((found.success, report.successes), (vec![false; 2], 0));
    assert_eq!((found.distances, report.distance), (vec![0.0; 2], None));
    // In a larger box there are.
    let larger = CarliniWagner {
        tanh_box: Some((-1.0, 1.0)),
        ..impossible
    };
    let (report, found) = run(&network, &pairs.loader, 2, &small(larger));
    assert_eq!(report.successes, 2);
    assert!(found.samples[0] < 0.0);
}

fn cw_small(attack: CarliniWagner, rounds: usize, steps: usize) -> AttackOptions {
    cw(CarliniWagner {
        rounds,
        steps,
        ..attack
    })
}

/// A high rate first overshoots, and the loss rises before it falls. A round that was given up after
/// ten steps would find nothing nearer than 0.107.
#[test]
fn a_rise_at_first_does_not_end_a_round() {
    let network = linear(IDENTITY);
    let pairs = pairs(&[[0.55, 0.45]], &[0], &scale(1.0));
    let attack = CarliniWagner {
        learning_rate: 1.0,
        first_factor: 0.2,
        ..CarliniWagner::euclidean()
    };
    let (_, found) = run(&network, &pairs.loader, 1, &cw_small(attack, 1, 100));
    let (distance, nearest) = (found.distances[0], 0.005f64.sqrt());
    assert!(
        distance >= nearest - 1e-6 && distance < 1.1 * nearest,
        "{distance}"
    );
}

/// Radii are in pixels whatever the model's scale, and a negative scale turns gradients around.
#[test]
fn attacks_see_through_preprocessing() {
    let network = linear(IDENTITY);
    let normal = Preprocessing {
        divide: Some(200.0),
        mean: vec![0.5],
        std: vec![0.25],
        ..Preprocessing::default()
    };
    let pairs_ = pairs(&[[100.0, 50.0]], &[0], &normal);
    let (report, found) = run(&network, &pairs_.loader, 1, &pgd(Pgd::fast(0.25)));
    close(&found.samples, &[50.0, 100.0]);
    assert!((report.distance.unwrap().maximum - 0.25).abs() < 1e-6);
    let turned = Preprocessing {
        std: vec![-0.25],
        ..normal
    };
    // The model sees the negative: the darker pixel is its class.
    let pairs_ = pairs(&[[50.0, 100.0]], &[0], &turned);
    let (report, found) = run(&network, &pairs_.loader, 1, &pgd(Pgd::fast(0.25)));
    close(&found.samples, &[100.0, 50.0]);
    assert_eq!((report.correct_before, report.correct_after), (1, 0));
}

/// Without labels an input is to leave the class that it is taken for.
#[test]
fn predictions_take_the_place_of_labels() {
    let network = linear(IDENTITY);
    let pairs_ = pairs(&[[0.5, 0.25], [0.25, 0.5]], &[], &scale(1.0));
    let (report, found) = run(&network, &pairs_.loader, 2, &pgd(Pgd::fast(0.2)));
    assert_eq!((report.labelled, report.correct_before), (false, 2));
    assert_eq!(
        (&found.labels[..], &found.predictions[..]),
        (&[0, 1][..], &[1, 0][..])
    );
    // What is misclassified from the start is no success of an attack on what was right.
    let pairs_ = pairs(&[[0.5, 0.25], [0.25, 0.5]], &[0, 0], &scale(1.0));
    let (report, found) = run(&network, &pairs_.loader, 2, &pgd(Pgd::fast(0.2)));
    assert_eq!((report.correct_before, report.successes), (1, 1));
    assert_eq!(found.success, [true, true]);
}

/// On a linear model every step raises the loss.
#[test]
fn more_steps_never_lower_the_loss_of_a_linear_model() {
    let network = linear([0.3, -1.2, 0.7, 0.4]);
    let margin = |x: &[f32]| (-1.2 - 0.3) * x[0] + (0.4 - 0.7) * x[1];
    let pairs = pairs(&[[0.9, 0.2], [0.4, 0.6]], &[0, 0], &scale(1.0));
    for attack in [Pgd::maximum(0.3), Pgd::euclidean(0.3)] {
        let mut last = [f32::NEG_INFINITY; 2];
        for steps in 1..30 {
            let (_, found) = run(&network, &pairs.loader, 2, &pgd(Pgd { steps, ..attack }));
            for (last, point) in last.iter_mut().zip(found.samples.chunks(2)) {
                assert!(margin(point) >= *last - 1e-6);
                *last = margin(point);
            }
        }
    }
}

#[test]
fn images_are_misclassified_after_small_changes() {
    let (network, data) = fashion("lenet.onnx");
    let (report, found) = run(&network, &data, 200, &pgd(Pgd::maximum(0.1)));
    assert!(report.correct_before > 160, "{report:?}");
    assert!(report.correct_after < 20, "{report:?}");
    let mut originals = vec![0.0; found.samples.len()];
    data.read_stored(0..200, &mut originals).unwrap();
    for (a, b) in found.samples.iter().zip(&originals) {
        assert!(
            (0.0..=255.0).contains(a) && (a - b).abs() <= 25.5 + 1e-3,
            "{a} {b}"
        );
    }
    let distance = report.distance.unwrap();
    assert!(
        distance.maximum <= 0.1 + 1e-6 && distance.euclidean <= 2.8,
        "{distance:?}"
    );
    // A smaller radius, fewer steps: fewer successes.
    let (weak, _) = run(&network, &data, 200, &pgd(Pgd::fast(0.01)));
    assert!(weak.correct_after > report.correct_after);
    let (euclidean, found) = run(&network, &data, 200, &pgd(Pgd::euclidean(1.5)));
    assert!(euclidean.correct_after < 60, "{euclidean:?}");
    assert!(found.distances.iter().all(|&d| d <= 1.5 + 1e-5));
}

#[test]
fn carlini_and_wagner_move_images_less() {
    let (network, data) = fashion("lenet.onnx");
    // Most of these images need a factor of about one: it need not be looked for.
    let attack = CarliniWagner {
        first_factor: 1.0,
        ..CarliniWagner::euclidean()
    };
    let (report, found) = run(&network, &data, 40, &cw_small(attack, 3, 100));
    assert!(report.success_rate.unwrap() > 0.95, "{report:?}");
    let euclidean = report.distance.unwrap().euclidean;
    let (pgd, _) = run(&network, &data, 40, &pgd(Pgd::maximum(0.1)));
    assert!(
        euclidean < 0.7 * pgd.distance.unwrap().euclidean,
        "{euclidean}"
    );
    assert!(found.samples.iter().all(|s| (0.0..=255.0).contains(s)));
    for ((success, prediction), label) in found
        .success
        .iter()
        .zip(&found.predictions)
        .zip(&found.labels)
    {
        assert!(!success || prediction != label);
    }
    let attack = CarliniWagner {
        learning_rate: 5e-3,
        ..CarliniWagner::maximum()
    };
    let (report, _) = run(&network, &data, 40, &cw_small(attack, 5, 100));
    assert!(report.success_rate.unwrap() > 0.9, "{report:?}");
    assert!(report.distance.unwrap().maximum < 0.15, "{report:?}");
}

fn diverse(settings: AttackOptions, layer: usize, lambda: f64) -> AttackOptions {
    AttackOptions {
        diversity: Some(Diversity { layer, lambda }),
        ..settings
    }
}

#[test]
fn the_regulariser_spreads_the_activity_of_a_layer() {
    let (network, data) = fashion("lenet.onnx");
    let layers = network.layers().len();
    let attack = Pgd {
        steps: 10,
        ..Pgd::maximum(0.1)
    };
    for layer in [0, layers - 1] {
        let after = |lambda| {
            let settings = diverse(pgd(attack), layer, lambda);
            let (report, _) = run(&network, &data, 30, &settings);
            let diversity = report.diversity.unwrap();
            assert_eq!(diversity.layer, network.layers()[layer].name);
            (diversity.before, diversity.after)
        };
        let ((before, little), (_, much)) = (after(1e-6), after(100.0));
        assert!(
            much < little && much < before,
            "{layer}: {before} {little} {much}"
        );
    }
    let (report, _) = run(&network, &data, 30, &diverse(pgd(attack), 0, 0.0));
    assert_eq!(report.diversity, None);
}

/// The same numbers for any number of threads; without a regulariser also for any batch.
#[test]
fn threads_and_batches_do_not_matter() {
    let (network, data) = fashion("lenet.onnx");
    let rows: Vec<usize> = [5, 6, 7, 900, 33, 34, 35, 36, 37, 2, 1, 0].repeat(3);
    let few = Pgd {
        steps: 3,
        ..Pgd::maximum(0.1)
    };
    let maximum = CarliniWagner {
        tanh_box: Some((-1.0, 1.0)),
        learning_rate: 0.01,
        ..CarliniWagner::maximum()
    };
    let cw_few = cw_small(maximum, 3, 12);
    for settings in [
        pgd(few),
        pgd(Pgd {
            norm: AttackNorm::Euclidean,
            ..few
        }),
        cw_few.clone(),
        cw_small(CarliniWagner::euclidean(), 3, 12),
        diverse(pgd(few), 0, 1.0),
        diverse(cw_few, 2, 1.0),
    ] {
        let one = run_on(&network, &data, &rows, &settings, 1).unwrap();
        for threads in [2, 8] {
            let same = run_on(&network, &data, &rows, &settings, threads).unwrap();
            assert_eq!(same, one, "{settings:?}, {threads} threads");
        }
        let small = AttackOptions {
            batch: 7,
            ..settings.clone()
        };
        let (_, found) = run_on(&network, &data, &rows, &small, 2).unwrap();
        assert_eq!(found == one.1, settings.diversity.is_none(), "{settings:?}");
    }
    let other = AttackOptions {
        seed: 1,
        ..pgd(few)
    };
    let (_, found) = run_on(&network, &data, &rows, &other, 2).unwrap();
    assert_ne!(
        found.samples,
        run_on(&network, &data, &rows, &pgd(few), 2)
            .unwrap()
            .1
            .samples
    );
    // The start of an input does not depend on what is attacked besides it.
    let (_, alone) = run_on(&network, &data, &[900], &pgd(few), 2).unwrap();
    let (_, all) = run_on(&network, &data, &rows, &pgd(few), 2).unwrap();
    assert_eq!(alone.samples, all.samples[3 * 784..4 * 784]);
}

/// A file of adversaries is a dataset for the same preprocessing, and is classified as reported.
#[test]
fn a_file_of_adversaries_is_a_dataset() {
    let (network, data) = fashion("resnet8.onnx");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("suite.npz");
    let attack = Pgd {
        steps: 5,
        ..Pgd::maximum(0.05)
    };
    let (report, found) = run(&network, &data, 50, &pgd(attack));
    let mut file = AttackFile::create(&path, &data).unwrap();
    file.append(&found).unwrap();
    file.finish().unwrap();
    let dataset = data::open(path.to_str().unwrap()).unwrap();
    assert_eq!(dataset.inputs()[0].shape(), data.input().shape());
    let loader = Loader::new(dataset, network.sample_shape(), &scale(255.0)).unwrap();
    let mut classes = Vec::new();
    let tracer = network.logits_tracer().unwrap();
    let predictions = predict(&tracer, &loader, 0..50, 2, |_, found| {
        classes.extend_from_slice(found);
        Ok::<(), Error>(())
    });
    assert_eq!(predictions.unwrap().correct, Some(report.correct_after));
    assert_eq!(classes, found.predictions);
}

#[test]
fn a_single_logit_is_attacked_too() {
    let network = Network::open(fixture("binary-sigmoid.onnx"), &ModelOptions::default()).unwrap();
    let data = data::open(format!("{}:x", fixture("fashion-1000.npz"))).unwrap();
    let data = Loader::new(data, network.sample_shape(), &scale(255.0)).unwrap();
    let (report, _) = run(&network, &data, 30, &pgd(Pgd::maximum(0.3)));
    assert_eq!((report.labelled, report.correct_before), (false, 30));
    assert!(report.correct_after < 10, "{report:?}");
    let attack = CarliniWagner {
        first_factor: 1.0,
        learning_rate: 0.1,
        ..CarliniWagner::euclidean()
    };
    let (report, _) = run(&network, &data, 30, &cw_small(attack, 3, 100));
    assert!(report.correct_after < 3, "{report:?}");
}

/// Steps beyond all counting are many, not few.
#[test]
fn work_is_counted_without_overflow() {
    let settings = cw_small(CarliniWagner::euclidean(), usize::MAX / 2, 3);
    assert_eq!(settings.work(1), usize::MAX);
    let settings = pgd(Pgd {
        steps: usize::MAX / 2,
        ..Pgd::fast(0.1)
    });
    assert_eq!(settings.work(3), usize::MAX);
    assert_eq!(pgd(Pgd::maximum(0.1)).work(3), 120);
}

#[test]
fn what_cannot_be_attacked_says_why() {
    let network = linear(IDENTITY);
    let pairs_ = pairs(&[[0.5, 0.25], [0.5, 3.0]], &[0, 1], &scale(1.0));
    let error = |settings: &AttackOptions, rows: &[usize]| {
        let error = run_on(&network, &pairs_.loader, rows, settings, 2);
        error.unwrap_err().to_string()
    };
    let fast = pgd(Pgd::fast(0.1));
    let text = error(&fast, &[0, 1]);
    assert!(
        text.ends_with("input 1: 3 is not in the range 0 to 1"),
        "{text}"
    );
    assert!(error(&fast, &[7]).contains("no input 7"));
    let layer = diverse(fast.clone(), 0, 1.0);
    assert_eq!(error(&layer, &[0]), "a loss names path layer 0, of 0");
    for (settings, name) in [
        (pgd(Pgd::fast(-0.1)), "epsilon"),
        (pgd(Pgd::fast(f32::NAN)), "epsilon"),
        (
            pgd(Pgd {
                steps: 0,
                ..Pgd::fast(0.1)
            }),
            "steps",
        ),
        (
            pgd(Pgd {
                step: f32::INFINITY,
                ..Pgd::fast(0.1)
            }),
            "step",
        ),
        (
            cw(CarliniWagner {
                rounds: 0,
                ..CarliniWagner::maximum()
            }),
            "rounds",
        ),
        (
            cw(CarliniWagner {
                confidence: -1.0,
                ..CarliniWagner::maximum()
            }),
            "confidence",
        ),
        (
            cw(CarliniWagner {
                first_factor: 0.0,
                ..CarliniWagner::maximum()
            }),
            "first factor",
        ),
        (
            cw(CarliniWagner {
                shrink: 1.0,
                ..CarliniWagner::maximum()
            }),
            "shrink",
        ),
        (
            cw(CarliniWagner {
                tanh_box: Some((0.5, 1.0)),
                ..CarliniWagner::maximum()
            }),
            "the box of tanh",
        ),
        (
            AttackOptions {
                range: (1.0, 0.0),
                ..fast.clone()
            },
            "range",
        ),
        (
            AttackOptions {
                batch: 0,
                ..fast.clone()
            },
            "batch",
        ),
        (diverse(fast.clone(), 0, -1.0), "lambda"),
    ] {
        let text = error(&settings, &[0]);
        assert!(text.starts_with(&format!("{name} cannot be ")), "{text}");
    }
    let pairs_ = pairs(&[[0.5, 0.25]], &[2], &scale(1.0));
    let found = run_on(&network, &pairs_.loader, &[0], &fast, 2);
    assert!(matches!(
        found,
        Err(Error::Run(RunError::Label {
            row: 0,
            label: 2,
            ..
        }))
    ));
    let (report, _) = run_on(&network, &pairs_.loader, &[], &fast, 2).unwrap();
    assert_eq!((report.inputs, report.success_rate), (0, None));
}
