//! Graphs that are built in parts: the bytes of those that are built in one go, whatever the parts, and a
//! word on every part that does not belong to them.

use std::path::{Path, PathBuf};

use npcov::coverage::PerClass;
use npcov::criteria::names;
use npcov::data::{Arrays, Preprocessing, Samples, open};
use npcov::paths::{Clustering, Clusters};
use npcov::run::Part;
use npcov::{BuildOptions, Error, Inputs, Model, TrainingInputs};
use tempfile::TempDir;

/// Four whole shards of 512 inputs, and some inputs more.
const INPUTS: usize = 2100;

/// One shard and some inputs more.
const STRANGERS: usize = 700;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

fn model(name: &str) -> Model {
    let scale = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let model = Model::open(fixture(name)).unwrap();
    model.with_preprocessing(scale).with_threads(2)
}

/// Images of the fixtures with their labels, over and over: every time a little darker.
fn images(count: usize, shade: usize) -> Arrays<'static> {
    let fixture = open(fixture("fashion-1000.npz").to_str().unwrap()).unwrap();
    let mut stored = vec![0; 1000 * 784];
    fixture.read(0, 0..1000, &mut stored).unwrap();
    let pixel = |i: usize| {
        let darker = 100 - shade - 5 * (i / stored.len());
        (usize::from(stored[i % stored.len()]) * darker / 100) as u8
    };
    let pixels: Vec<u8> = (0..count * 784).map(pixel).collect();
    let labels = fixture.labels().unwrap().iter().cycle().take(count);
    let labels: Vec<i64> = labels.copied().collect();
    let arrays = Arrays::new("x", &[count, 28, 28], pixels).unwrap();
    arrays.with_labels(labels).unwrap()
}

/// A graph that is to be built.
struct Case {
    folder: TempDir,
    model: Model,
    training: Arrays<'static>,
    calibration: Option<Arrays<'static>>,
    options: BuildOptions,
}

impl Case {
    fn new(model_name: &str, options: BuildOptions) -> Case {
        Case {
            folder: TempDir::new().unwrap(),
            model: model(model_name),
            training: images(INPUTS, 0),
            calibration: None,
            options,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn inputs(&self) -> TrainingInputs<'_> {
        TrainingInputs {
            training: Inputs::from(&self.training),
            calibration: self.calibration.as_ref().map(Inputs::from),
        }
    }

    /// Does a part in the folder beside `output`.
    fn part(&self, part: (usize, usize), output: &str) -> Result<(), Error> {
        let part = Part::new(part.0, part.1).unwrap();
        let (options, output) = (&self.options, self.path(output));
        let built = (self.model).build_part(self.inputs(), options, part, &output, &mut ())?;
        assert_eq!(built.folder, format!("{}.parts", output.display()));
        assert_eq!(built.end - built.start, part.rows(0..INPUTS).len());
        assert!(!output.exists());
        Ok(())
    }

    /// Clusters a part of the classes.
    fn classes(&self, part: (usize, usize), output: &str) -> Result<usize, Error> {
        let part = Part::new(part.0, part.1).unwrap();
        let (options, output) = (&self.options, self.path(output));
        let done = (self.model).cluster_part(self.inputs(), options, part, &output, &mut ())?;
        Ok(done.end - done.start)
    }

    fn all_classes(&self, count: usize, output: &str) {
        let done: usize = (1..=count)
            .map(|i| self.classes((i, count), output).unwrap())
            .sum();
        // Several parts have a class where there are more parts than classes.
        assert!(done == 10 || count > 10 && done > 10, "{done} classes");
    }

    fn join(&self, output: &str) -> Result<Vec<u8>, Error> {
        let path = self.path(output);
        (self.model).join_parts(self.inputs(), &self.options, &path, &mut ())?;
        assert!(!self.path(&format!("{output}.parts")).exists());
        Ok(std::fs::read(path).unwrap())
    }

    /// The bytes of a graph that is built in one go.
    fn whole(&self) -> Vec<u8> {
        let path = self.path("whole.npcov");
        let built = (self.model).build_file(self.inputs(), &self.options, &path, &mut ());
        drop(built.unwrap());
        std::fs::read(path).unwrap()
    }

    /// Runs so many inputs in one part.
    fn build_all(&self, output: &str, count: usize) {
        let (part, output) = (Part::new(1, 1).unwrap(), self.path(output));
        let (inputs, options) = (self.inputs(), &self.options);
        let built = (self.model).build_part(inputs, options, part, &output, &mut ());
        assert_eq!(built.unwrap().end, count);
    }

    fn all_parts(&self, count: usize, output: &str) {
        (1..=count).for_each(|i| self.part((i, count), output).unwrap());
    }

    /// Why the parts beside `output` cannot be joined.
    fn refused(&self, output: &str) -> String {
        let error = self.join(output).unwrap_err().to_string();
        assert!(!self.path(output).exists());
        error
    }

    fn shard(&self, output: &str, name: &str) -> PathBuf {
        self.path(&format!("{output}.parts/{name}.safetensors"))
    }
}

fn snpc() -> BuildOptions {
    BuildOptions {
        criteria: Some(vec!["snpc".parse().unwrap()]),
        ..BuildOptions::default()
    }
}

fn same(parts: &[u8], whole: &[u8]) {
    assert!(parts == whole, "the graph has other bytes");
}

#[test]
fn any_number_of_parts_gives_the_bytes_of_one_run() {
    // Of recurrent layers, which this model has none of.
    let of_states = ["bsc", "wsc", "sbc", "btc", "wtc"];
    let all = names().into_iter().filter(|name| !of_states.contains(name));
    let options = BuildOptions {
        criteria: Some(all.map(|name| name.parse().unwrap()).collect()),
        yardstick_inputs: 50,
        ..BuildOptions::default()
    };
    let case = Case {
        calibration: Some(images(STRANGERS, 30)),
        ..Case::new("lenet.onnx", options)
    };
    let whole = case.whole();
    for count in [1, 3, 16] {
        let output = format!("{count}.npcov");
        case.all_parts(count, &output);
        same(&case.join(&output).unwrap(), &whole);
    }
}

#[test]
fn clusters_of_kmeans_are_joined_too() {
    let options = BuildOptions {
        clustering: Clustering::KMeans,
        ..snpc()
    };
    let case = Case::new("mlp-matlab.onnx", options);
    case.all_parts(4, "parts.npcov");
    same(&case.join("parts.npcov").unwrap(), &case.whole());
}

/// As many tasks as there are, for all ways of clustering; classes that nobody clustered are left to the join.
#[test]
fn classes_may_be_clustered_before_parts_are_joined() {
    let auto = BuildOptions {
        clusters: PerClass::all(Clusters::Auto(4)),
        clustering: Clustering::KMeans,
        ..snpc()
    };
    let kmeans = BuildOptions {
        clustering: Clustering::KMeans,
        ..snpc()
    };
    for (options, is_calibrated) in [
        (snpc(), false),
        (snpc(), true),
        (kmeans, false),
        (auto, true),
    ] {
        let case = Case {
            calibration: is_calibrated.then(|| images(STRANGERS, 30)),
            ..Case::new("mlp-matlab.onnx", options)
        };
        let whole = case.whole();
        for count in [1, 3, 16] {
            let output = format!("{count}.npcov");
            case.all_parts(count, &output);
            case.all_classes(count, &output);
            same(&case.join(&output).unwrap(), &whole);
        }
        case.all_parts(2, "some.npcov");
        assert_eq!(case.classes((2, 3), "some.npcov").unwrap(), 3);
        same(&case.join("some.npcov").unwrap(), &whole);
    }
}

/// Restarts of one class are run by several processes; what is missing of them, or damaged, is run by the join.
#[test]
fn restarts_of_a_class_may_be_divided() {
    let options = BuildOptions {
        clustering: Clustering::KMeans,
        clusters: PerClass::all(Clusters::Fixed(5)),
        ..snpc()
    };
    let case = Case::new("mlp-matlab.onnx", options);
    let whole = case.whole();
    for count in [11, 40, 100, 150] {
        let output = format!("{count}.npcov");
        case.all_parts(1, &output);
        case.all_classes(count, &output);
        assert!(case.shard(&output, "clusters-000000-000000").exists());
        same(&case.join(&output).unwrap(), &whole);
    }
    // Two of ten restarts of class 3, and two of class 4: 33 of 40 parts of all restarts are missing.
    case.all_parts(1, "some.npcov");
    for i in 13..20 {
        assert!(case.classes((i, 40), "some.npcov").unwrap() > 0);
    }
    let restart =
        |restart: usize| case.shard("some.npcov", &format!("clusters-000003-{restart:06}"));
    assert!(restart(0).exists() && restart(9).exists());
    let before = std::fs::read(restart(4)).unwrap();
    let mut damaged = before.clone();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::write(restart(4), damaged).unwrap();
    std::fs::copy(restart(5), restart(6)).unwrap();
    case.all_parts(1, "more.npcov");
    for entry in std::fs::read_dir(case.path("some.npcov.parts")).unwrap() {
        let from = entry.unwrap().path();
        let to = case
            .path("more.npcov.parts")
            .join(from.file_name().unwrap());
        std::fs::copy(from, to).unwrap();
    }
    same(&case.join("more.npcov").unwrap(), &whole);
    // Done once more, only what is wrong is found anew.
    for i in 13..20 {
        case.classes((i, 40), "some.npcov").unwrap();
    }
    assert_eq!(std::fs::read(restart(4)).unwrap(), before);
    same(&case.join("some.npcov").unwrap(), &whole);
}

/// A class of so many inputs that several processes tell where they belong.
#[test]
fn inputs_of_a_class_may_be_divided() {
    let count = 4700;
    let mut case = Case::new("mlp-matlab.onnx", snpc());
    // Trousers, which are told from everything else.
    let all = images(1000, 0);
    let trousers: Vec<usize> = (0..1000)
        .filter(|&i| all.labels().unwrap()[i] == 1)
        .collect();
    let mut stored = vec![0; 1000 * 784];
    all.read(0, 0..1000, &mut stored).unwrap();
    let pixels: Vec<u8> = (0..count * 784)
        .map(|at| {
            let (copy, image) = (at / 784 / trousers.len(), at / 784 % trousers.len());
            // Some pixels are a little darker, others in every copy.
            let darker = u8::from((copy * 31 + at % 784 * 7) % 11 == 0);
            stored[trousers[image] * 784 + at % 784].saturating_sub(darker * 3)
        })
        .collect();
    case.training = Arrays::new("x", &[count, 28, 28], pixels).unwrap();
    let predicted = case.model.predict(&case.training, &mut ()).unwrap();
    let of_trousers = predicted.per_class[1].predicted;
    assert!(of_trousers > 4096, "{of_trousers} of {count}");
    let whole = case.whole();
    case.build_all("a.npcov", count);
    case.all_classes(16, "a.npcov");
    let block = |block: usize| case.shard("a.npcov", &format!("clusters-000001-{block:06}"));
    assert!(block(0).exists() && block(1).exists() && !block(2).exists());
    same(&case.join("a.npcov").unwrap(), &whole);
    // One of two blocks.
    for missing in 0..2 {
        case.build_all("a.npcov", count);
        case.all_classes(16, "a.npcov");
        std::fs::remove_file(block(missing)).unwrap();
        same(&case.join("a.npcov").unwrap(), &whole);
    }
}

/// The join takes the clusters that are there, and only those that it would have found.
#[test]
fn clusters_of_something_else_are_found_anew() {
    let mut case = Case::new("mlp-matlab.onnx", snpc());
    let error = case.classes((1, 2), "a.npcov").unwrap_err().to_string();
    assert!(error.contains("5 of 5 parts are wrong"), "{error}");
    case.all_parts(1, "a.npcov");
    case.all_classes(2, "a.npcov");
    let before = std::fs::read(case.shard("a.npcov", "clusters-000003")).unwrap();
    let mut damaged = before.clone();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::write(case.shard("a.npcov", "clusters-000003"), damaged).unwrap();
    std::fs::copy(
        case.shard("a.npcov", "clusters-000004"),
        case.shard("a.npcov", "clusters-000005"),
    )
    .unwrap();
    // Done once more, only what is wrong is found anew.
    case.all_classes(3, "a.npcov");
    assert_eq!(
        std::fs::read(case.shard("a.npcov", "clusters-000003")).unwrap(),
        before
    );
    case.options.clustering = Clustering::KMeans;
    same(&case.join("a.npcov").unwrap(), &case.whole());
}

#[test]
fn clusters_that_are_there_are_not_found_again() {
    let mut case = Case::new("mlp-matlab.onnx", snpc());
    case.options.clustering = Clustering::KMeans;
    case.options.clusters = PerClass::all(Clusters::Fixed(9));
    case.all_parts(1, "a.npcov");
    case.all_classes(1, "a.npcov");
    let file = case.shard("a.npcov", "clusters-000000");
    let modified = |file: &Path| std::fs::metadata(file).unwrap().modified().unwrap();
    let before = modified(&file);
    case.all_classes(2, "a.npcov");
    assert_eq!(modified(&file), before);
}

/// In any order, at the same time, twice, and in folders of their own.
#[test]
fn parts_may_be_done_anyhow_and_anywhere() {
    let case = Case::new("mlp-matlab.onnx", snpc());
    let whole = case.whole();
    std::thread::scope(|scope| {
        for i in [3, 1, 2, 3] {
            let case = &case;
            scope.spawn(move || case.part((i, 3), "a.npcov").unwrap());
        }
    });
    same(&case.join("a.npcov").unwrap(), &whole);
    // The rest is another division of the work.
    case.part((1, 2), "b.npcov").unwrap();
    case.part((3, 5), "c.npcov").unwrap();
    case.part((4, 5), "c.npcov").unwrap();
    case.part((5, 5), "c.npcov").unwrap();
    for entry in std::fs::read_dir(case.path("c.npcov.parts")).unwrap() {
        let from = entry.unwrap().path();
        let to = case.path("b.npcov.parts").join(from.file_name().unwrap());
        std::fs::copy(from, to).unwrap();
    }
    same(&case.join("b.npcov").unwrap(), &whole);
    // Without what all shards say themselves.
    case.all_parts(2, "d.npcov");
    std::fs::remove_file(case.path("d.npcov.parts/plan.json")).unwrap();
    same(&case.join("d.npcov").unwrap(), &whole);
}

#[test]
fn a_model_that_is_elsewhere_makes_the_same_parts() {
    let mut case = Case::new("mlp-matlab.onnx", snpc());
    let whole = case.whole();
    case.part((1, 2), "a.npcov").unwrap();
    let home = case.model.clone();
    std::fs::create_dir(case.path("elsewhere")).unwrap();
    let copy = case.path("elsewhere/copy.onnx");
    std::fs::copy(fixture("mlp-matlab.onnx"), &copy).unwrap();
    let preprocessing = home.preprocessing().clone();
    case.model = Model::open(&copy)
        .unwrap()
        .with_preprocessing(preprocessing);
    case.part((2, 2), "a.npcov").unwrap();
    case.model = home;
    same(&case.join("a.npcov").unwrap(), &whole);
}

#[test]
fn parts_that_are_missing_or_damaged_are_named() {
    let case = Case::new("mlp-matlab.onnx", snpc());
    assert!(case.refused("a.npcov").contains("5 of 5 parts are wrong"));
    assert!(!case.path("a.npcov.parts").exists());
    case.all_parts(3, "a.npcov");
    let whole = std::fs::read(case.shard("a.npcov", "paths-000001")).unwrap();
    std::fs::remove_file(case.shard("a.npcov", "paths-000002")).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(case.shard("a.npcov", "paths-000001"), damaged).unwrap();
    std::fs::copy(
        case.shard("a.npcov", "paths-000000"),
        case.shard("a.npcov", "paths-000003"),
    )
    .unwrap();
    let error = case.refused("a.npcov");
    for line in [
        "a.npcov.parts` cannot be joined, 3 of 5 parts are wrong",
        "`paths-000001.safetensors`, inputs 512 to 1023: damaged",
        "`paths-000002.safetensors`, inputs 1024 to 1535: missing",
        "`paths-000003.safetensors`, inputs 1536 to 2047: it is `paths-000000`",
    ] {
        assert!(error.contains(line), "{line}: {error}");
    }
    // Done once more, only what is wrong is computed.
    case.all_parts(3, "a.npcov");
    assert_eq!(
        std::fs::read(case.shard("a.npcov", "paths-000001")).unwrap(),
        whole
    );
    same(&case.join("a.npcov").unwrap(), &case.whole());
}

/// Copies a shard of another graph's folder between the parts of a case.
fn foist(other: &Case, case: &Case) {
    other.part((1, 1), "other.npcov").unwrap();
    let shard = other.shard("other.npcov", "paths-000002");
    std::fs::copy(shard, case.shard("a.npcov", "paths-000002")).unwrap();
}

#[test]
fn parts_of_something_else_are_named() {
    let case = Case::new("mlp-matlab.onnx", snpc());
    case.all_parts(2, "a.npcov");
    let wrong = |other: &Case, why: &str| {
        foist(other, &case);
        let error = case.refused("a.npcov");
        let line = format!("`paths-000002.safetensors`, inputs 1024 to 1535: {why}");
        assert!(error.contains(&line), "{error}");
    };
    wrong(&Case::new("lenet.onnx", snpc()), "made by another model");
    let mut other = Case::new("mlp-matlab.onnx", snpc());
    other.training = images(INPUTS, 1);
    wrong(&other, "made from other data");
    let mut other = Case::new("mlp-matlab.onnx", snpc());
    other.options.alpha.all = 0.5;
    wrong(&other, "made with other settings");

    // A folder is that of one plan.
    let path = |case: &Case| Path::new(&case.path("a.npcov")).to_owned();
    let training = &case.training;
    let part = Part::new(1, 2).unwrap();
    let error = (case.model)
        .build_part(training, &other.options, part, path(&case), &mut ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("plan.json` does not fit"), "{error}");
    assert!(
        error.contains("extraction.alpha.0: 0.8, not 0.5"),
        "{error}"
    );
    let error = (case.model)
        .join_parts(training, &other.options, path(&case), &mut ())
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("extraction.alpha.0: 0.8, not 0.5"),
        "{error}"
    );
}

/// What clusters are made of, and by what suites are measured, is settled when parts are joined.
#[test]
fn parts_do_not_depend_on_what_is_learnt_from_them() {
    let mut case = Case::new("mlp-matlab.onnx", snpc());
    case.all_parts(2, "a.npcov");
    case.options.beta.all = 0.6;
    case.options.clustering = Clustering::KMeans;
    same(&case.join("a.npcov").unwrap(), &case.whole());
}

#[test]
fn a_run_in_one_go_takes_what_parts_left() {
    let case = Case::new("mlp-matlab.onnx", snpc());
    let expected = case.whole();
    std::fs::remove_file(case.path("whole.npcov")).unwrap();
    case.part((2, 3), "whole.npcov").unwrap();
    same(&case.whole(), &expected);
}

#[test]
fn bad_rows_are_all_found() {
    let count = 200;
    let mut pixels = vec![0.5_f32; count * 784];
    let bad = [0, 63, 64, 150, 199];
    for row in bad {
        pixels[row * 784 + 100] = f32::NAN;
    }
    let data = Arrays::new("x", &[count, 28, 28], pixels).unwrap();
    let model = model("lenet.onnx");
    let found = |inputs: Inputs<'_>, most: usize| -> Vec<usize> {
        let found = model.bad_rows(inputs, most).unwrap();
        found.into_iter().map(|(row, _)| row).collect()
    };
    assert_eq!(found(Inputs::from(&data), 100), bad);
    assert_eq!(found(Inputs::from(&data).rows(10..160), 100), [63, 64, 150]);
    assert_eq!(found(Inputs::from(&data), 2), [0, 63]);
    assert_eq!(found(Inputs::from(&data).rows(1..63), 100), [0; 0]);
}
