//! Models of numbers, tables, and models with several inputs.

use insta::assert_snapshot;
use npcov::data::npz::{Compression, NpzWriter};
use npcov::paths::PathRule;
use npcov::paths::choices::{EmptyLayer, Threshold};
use serde_json::Value;

use crate::support::{Project, fixtures};

/// A graph of `prices.onnx` that is built in a moment.
const GRAPH: &str = "build prices.onnx --data prices.csv --label-column price --bins 4 --criteria snpc,kmnc -o prices.npcov";

impl Project {
    /// Images of `fashion-1000.npz` under the names of a model's inputs, with a mask of classes: of every so many rows one
    /// is asked about odd classes only.
    fn masked(&self, name: &str, arrays: [&str; 3], rows: usize, every: usize) {
        let pixels = self.rows("fashion-1000.npz", "x");
        let labels = self.rows("fashion-1000.npz", "y");
        let mut writer = NpzWriter::create(self.path(name), Compression::Stored).unwrap();
        let image = writer.array::<u8>(arrays[0], &[28, 28]).unwrap();
        let mask = writer.array::<i64>(arrays[1], &[10]).unwrap();
        let y = writer.array::<i64>(arrays[2], &[]).unwrap();
        for (row, (pixels, label)) in pixels.iter().zip(&labels).take(rows).enumerate() {
            let bytes: Vec<u8> = pixels.iter().map(|&x| x as u8).collect();
            writer.append(&image, &bytes).unwrap();
            let all = row % every != 0;
            let ones: Vec<i64> = (0..10).map(|c| i64::from(all || c % 2 == 1)).collect();
            writer.append(&mask, &ones).unwrap();
            writer.append(&y, &[label[0] as i64]).unwrap();
        }
        writer.finish().unwrap();
    }

    /// The first logits of a command that writes `out.npz`, as in `tasks.json`.
    fn agrees(&self, name: &str, command: &str) {
        let outcome = self.run(&format!("{command} --output out.npz"));
        assert_eq!(outcome.code, Some(0), "{name}: {}", outcome.stderr);
        let expected = std::fs::read_to_string(fixtures().join("tasks.json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let expected: Vec<Vec<f64>> = serde_json::from_value(expected[name].clone()).unwrap();
        let found = self.rows("out.npz", "logits");
        let largest = expected
            .iter()
            .flatten()
            .fold(0.0f64, |m, x| m.max(x.abs()));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.len(), expected.len(), "{name}");
            for (&a, b) in found.iter().zip(expected) {
                assert!(
                    (f64::from(a) - b).abs() <= 1e-4 * largest,
                    "{name}: {a} for {b}"
                );
            }
        }
    }
}

/// `tasks.json` holds what ONNX Runtime computes.
#[test]
fn outputs_are_those_of_onnx_runtime() {
    let project = Project::new();
    project.masked("five.npz", ["image", "mask", "y"], 5, 1);
    let images = "--divide 255 --data fashion-1000.npz";
    for (name, command) in [
        (
            "prices",
            "predict prices.onnx --data prices-test.csv --label-column price".to_owned(),
        ),
        (
            "two-inputs",
            "predict two-inputs.onnx --data five.npz --divide 255".to_owned(),
        ),
        (
            "distances",
            format!("predict distances.onnx {images} --task classification:argmin"),
        ),
        (
            "two-numbers",
            format!("predict two-numbers.onnx --task regression {images}:x"),
        ),
    ] {
        project.agrees(name, &command);
    }
}

#[test]
fn numbers_are_found_by_their_labels() {
    let project = Project::new();
    let command = "predict prices.onnx --data prices-test.csv --label-column price";
    assert_snapshot!(project.snapshot(command));
    assert_snapshot!(project.snapshot(&format!(
        "{command} --bins 3 --tolerance 1000 --format json --limit 60"
    )));
}

#[test]
fn a_table_is_the_same_in_all_formats() {
    let project = Project::new();
    let table = |file: &str| {
        let command =
            format!("predict prices.onnx --data {file} --label-column price --output {file}.npz");
        let outcome = project.run(&command);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        (
            outcome.stdout,
            project.rows(&format!("{file}.npz"), "logits"),
        )
    };
    assert_eq!(table("prices.csv"), table("prices.parquet"));
}

#[test]
fn numbers_are_explained_by_columns() {
    let project = Project::new();
    let command =
        "explain prices.onnx --data prices-test.csv --label-column price --index 3 --no-heatmap";
    assert_snapshot!(project.snapshot(command));
    assert_snapshot!(project.snapshot(&format!("{command} --direction up --reference 0")));
}

/// What raises a number and what lowers it are opposite: where neurons of the last layer do both, each does the opposite
/// in the other direction.
#[test]
fn directions_are_opposite() {
    let project = Project::new();
    let relevances = |reference: &str| {
        let command = format!(
            "explain prices.onnx --data prices-test.csv --label-column price --limit 20 --reference={reference} \
             --output out.npz"
        );
        let outcome = project.run(&command);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        project.rows("out.npz", "relevance.1")
    };
    let (up, down) = (relevances("-1e6"), relevances("1e6"));
    let mixed = |row: &[f32]| row.iter().any(|&r| r > 0.0) && row.iter().any(|&r| r < 0.0);
    let rows: Vec<_> = up.iter().zip(&down).filter(|(up, _)| mixed(up)).collect();
    assert!(rows.len() > 5, "{}", rows.len());
    for (up, down) in rows {
        let opposite = |(u, d): (&f32, &f32)| u * d < 0.0 || (*u == 0.0 && *d == 0.0);
        assert!(up.iter().zip(down).all(opposite), "{up:?} {down:?}");
    }
}

/// Only the direction of what is shared out matters to a path, because relevances are
/// proportional to it, and those of the opposite direction are negatives.
#[test]
fn the_size_of_a_deviation_changes_no_path() {
    let rule = PathRule {
        alpha: 0.7,
        threshold: Threshold::Logit,
        empty_layer: EmptyLayer::Keep,
    };
    let relevances = [0.5_f32, -0.25, 0.375, 0.125, -0.5];
    let path = |seed: f32| {
        let scaled: Vec<f32> = relevances.iter().map(|r| r * seed).collect();
        let mut critical = Vec::new();
        rule.select(&scaled, f64::from(seed.abs()), false, &mut critical);
        critical
    };
    for seed in [1.0, 7.3, 1e-3] {
        assert_eq!(path(seed), [0, 2], "{seed}");
    }
    assert_eq!(path(-1.0), [4, 1]);
}

#[test]
fn a_graph_of_numbers_is_built_covered_and_searched_for_gaps() {
    let project = Project::new();
    assert_snapshot!(project.snapshot(GRAPH));
    let cover = "cover prices.npcov --data prices-test.csv --label-column price -o suite.npcov";
    assert_snapshot!(project.snapshot(cover));
    assert_snapshot!(project.snapshot("gaps prices.npcov suite.npcov"));
    let explain =
        "explain prices.npcov --data prices-test.csv --label-column price --index 0 --no-heatmap";
    assert_snapshot!(project.snapshot(explain));
    let select = "select prices.npcov --data prices-test.csv --label-column price --by score:unfamiliar --count 5 -o picked.npz";
    assert_snapshot!(project.snapshot(select));
    let tune =
        project.run("tune prices.onnx --data prices.csv --label-column price --bins 3 --sample 60");
    assert_eq!(tune.code, Some(0), "{}", tune.stderr);
}

/// Masks move numbers; of bins there is a distance, of which that of 0 is the same bin.
#[test]
fn masking_says_how_far_a_number_moves() {
    let project = Project::new();
    let json = |command: &str| -> Value {
        let outcome = project.run(&format!("{command} --format json"));
        assert_eq!(outcome.code, Some(0), "{command}: {}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).unwrap()
    };
    let study = "--sample 60 --controls 30 --per-class 10 --alphas 0.8 -o";
    let prices = "lab rq1 prices.onnx --data prices.csv --label-column price --bins 4";
    let found = json(&format!("{prices} {study} lab"));
    let point = &found["points"][0];
    let sd = |of: &str, when: &str| point["shift"][of][when].as_f64().unwrap();
    for of in ["path", "activated", "random", "stranger"] {
        assert!(sd(of, "without") > 0.0 && sd(of, "only") > 0.0, "{point}");
    }
    assert!(sd("path", "without") > sd("random", "without"), "{point}");
    let distances = point["similarity_by_distance"].as_array().unwrap();
    assert_eq!(distances.len(), 5, "the bin of the reference is split");
    assert_eq!(distances[0], point["similarity"]["intra"]);
    // The same without the parts being computed again, and in words.
    assert_eq!(json(&format!("{prices} {study} lab")), found);
    let text = project.run(&format!("{prices} {study} lab")).stdout;
    assert!(text.contains("how far the number moves"), "{text}");
    assert!(
        text.contains("by how many bins two inputs are apart"),
        "{text}"
    );
    let lenet = "lab rq1 lenet.onnx --data fashion-1000.npz --divide 255";
    let found = json(&format!("{lenet} {study} classes"));
    let point = found["points"][0].as_object().unwrap();
    assert!(!point.contains_key("shift") && !point.contains_key("similarity_by_distance"));
}

#[test]
fn a_single_logit_tells_two_classes_apart() {
    let project = Project::new();
    let pixels = project.rows("fashion-1000.npz", "x").concat();
    let labels = project.rows("fashion-1000.npz", "y");
    let footwear = |label: &Vec<f32>| i64::from([5.0, 7.0, 9.0].contains(&label[0]));
    let footwear: Vec<i64> = labels.iter().map(footwear).collect();
    project.npz("footwear.npz", &[28, 28], &pixels, &footwear);
    assert_snapshot!(project.snapshot("predict one-logit.onnx --data footwear.npz --divide 255"));
    project.agrees(
        "one-logit",
        "predict one-logit.onnx --data footwear.npz --divide 255",
    );
}

#[test]
fn the_smallest_score_can_be_the_one_that_counts() {
    let project = Project::new();
    let command =
        "predict distances.onnx --data fashion-1000.npz --divide 255 --task classification:argmin";
    let distances = project.run(&format!("{command} --format json"));
    let result: Value = serde_json::from_str(&distances.stdout).unwrap();
    assert!(result["accuracy"].as_f64().unwrap() > 0.75, "{result}");
    assert_snapshot!(project.snapshot(
        "explain distances.onnx --data fashion-1000.npz --divide 255 --task classification:argmin --index 0 --no-heatmap"
    ));
}

#[test]
fn several_inputs_are_found_by_name() {
    let project = Project::new();
    project.masked("named.npz", ["image", "mask", "y"], 40, 2);
    project.masked("other.npz", ["a", "b", "c"], 40, 2);
    let named = "predict two-inputs.onnx --data named.npz --divide 255";
    assert_snapshot!(project.snapshot(named));
    let other = "predict two-inputs.onnx --data other.npz:image=a,mask=b,y=c --divide 255";
    let (named, other) = (project.run(named), project.run(other));
    assert_eq!(named.stdout, other.stdout, "{}", other.stderr);
    // With all classes asked about, it is the network without a mask.
    assert_snapshot!(project.snapshot(
        "predict two-inputs.onnx --data fashion-1000.npz --divide 255 --input mask=1 --limit 100"
    ));
    assert_snapshot!(
        project.snapshot(
            "explain two-inputs.onnx --data named.npz --divide 255 --index 1 --no-heatmap"
        )
    );
    let attack = "attack two-inputs.onnx --data named.npz --divide 255 --limit 10 -o attacked.npz";
    let attack = project.run(attack);
    assert_eq!(attack.code, Some(0), "{}", attack.stderr);
}

/// A model with several inputs gives the same bits wherever an input stands in a batch, and on any number of threads.
#[test]
fn several_inputs_are_the_same_bits_in_any_place() {
    let project = Project::new();
    project.masked("named.npz", ["image", "mask", "y"], 60, 2);
    let logits = |options: &str| {
        let command = "explain two-inputs.onnx --data named.npz --divide 255 --input-relevance";
        let outcome = project.run(&format!("{command} {options} --output out.npz"));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        ["logits", "relevance.0", "relevance.input"].map(|array| project.rows("out.npz", array))
    };
    let all = logits("--threads 3");
    assert_eq!(all, logits("--threads 1"));
    for limit in [1, 7, 33] {
        let some = logits(&format!("--limit {limit}"));
        for (some, all) in some.iter().zip(&all) {
            assert_eq!(some[..], all[..limit], "{limit}");
        }
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let project = Project::new();
    project.masked("named.npz", ["image", "mask", "y"], 4, 2);
    project.write(
        "missing.csv",
        "a,b,c,d,e,f,g,h,i\n1,2,3,4,5,6,7,8,9\n1,,3,4,5,6,7,8,9\n",
    );
    project.write("words.csv", "carat,cut\n1,good\n");
    project.write("short.csv", "carat,cut,color\n1,2,3\n");
    let predict = |rest: &str| project.snapshot(&format!("predict {rest}"));
    for (name, command) in [
        ("missing", "prices.onnx --data missing.csv"),
        ("words", "prices.onnx --data words.csv"),
        ("columns", "prices.onnx --data short.csv"),
        (
            "no_column",
            "prices.onnx --data prices.csv --label-column cost",
        ),
        (
            "classes",
            "prices.onnx --data prices.csv --label-column carat --task classification",
        ),
        ("input", "two-inputs.onnx --data named.npz --input masks=1"),
        (
            "no_array",
            "two-inputs.onnx --data fashion-1000.npz --divide 255",
        ),
        ("spec", "two-inputs.onnx --data named.npz:image=image,mask"),
        (
            "all_fixed",
            "two-inputs.onnx --data named.npz --input mask=1 --input image=0",
        ),
        (
            "bins",
            "prices.onnx --data prices.csv --label-column price --bins 1",
        ),
        (
            "edges",
            "prices.onnx --data prices.csv --label-column price --bins=3,2",
        ),
        ("task", "prices.onnx --data prices.csv --task ranking"),
        (
            "output",
            "prices.onnx --data prices.csv --label-column price --task regression:1",
        ),
        (
            "several_targets",
            "two-numbers.onnx --data fashion-1000.npz --divide 255 --task regression:joint",
        ),
    ] {
        assert_snapshot!(format!("refused_{name}"), predict(command));
    }
    let explain = "explain prices.onnx --data prices.csv --label-column price --class 1";
    assert_snapshot!(project.snapshot(explain));
}

#[test]
fn images_are_resized_and_cropped_as_people_do() {
    let project = Project::new();
    project.images("photos", &[(0, "top"), (7, "shoe")], 3);
    let command = "predict lenet.onnx --data photos --divide 255";
    assert_snapshot!(project.snapshot(&format!(
        "{command} --resize 32 --crop 28 --interpolation bicubic"
    )));
    assert_snapshot!(project.snapshot(&format!("{command} --crop 32")));
    assert_snapshot!(project.snapshot(&format!("{command} --resize 32")));
    assert_snapshot!(project.snapshot(&format!("{command} --resize 0 --crop 28")));
    project.write(
        "npcov.toml",
        "[preprocessing]\ndivide = 255\nresize = 32\ncrop = \"28x28\"\ninterpolation = \"bicubic\"\n",
    );
    let flags = project.run(&format!(
        "{command} --resize 32 --crop 28 --interpolation bicubic"
    ));
    let file = project.run("predict lenet.onnx --data photos");
    assert_eq!(flags.stdout, file.stdout, "{}", file.stderr);
}

/// A table has a column `y` that is no label: who reads it without `--label-column` takes the wrong one.
#[test]
fn calibration_is_read_as_training_data_is() {
    let project = Project::new();
    let table = std::fs::read_to_string(fixtures().join("prices-test.csv")).unwrap();
    let mut writer = NpzWriter::create(project.path("test.npz"), Compression::Stored).unwrap();
    let x = writer.array::<f64>("x", &[9]).unwrap();
    let rows: Vec<Vec<f64>> = table
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|x| x.parse().unwrap()).collect())
        .collect();
    for row in &rows {
        writer.append(&x, &row[..9]).unwrap();
    }
    let price = writer.array::<f64>("price", &[]).unwrap();
    for row in &rows {
        writer.append(&price, &row[9..]).unwrap();
    }
    writer.finish().unwrap();
    let ranks = |calibration: &str| {
        for command in [
            format!("{GRAPH} --calibration {calibration}"),
            "cover prices.npcov --data prices-test.csv --label-column price --inputs inputs.npz"
                .to_owned(),
        ] {
            let outcome = project.run(&command);
            assert_eq!(outcome.code, Some(0), "{command}: {}", outcome.stderr);
        }
        project.rows("inputs.npz", "unfamiliar.p").concat()
    };
    assert_eq!(ranks("prices-test.csv"), ranks("test.npz"));
}

/// Suites and training data of tables and of models with several inputs are found only where they are read alike.
#[test]
fn pages_read_data_as_the_model_does() {
    let project = Project::new();
    project.masked("named.npz", ["image", "mask", "y"], 60, 2);
    let two = "build two-inputs.onnx --data named.npz --divide 255 --criteria snpc -o two.npcov";
    for (build, graph, label, data) in [
        (GRAPH, "prices", "price", "prices-test.csv"),
        (two, "two", "y", "named.npz"),
    ] {
        project.write("npcov.toml", format!("label-column = \"{label}\"\n"));
        for command in [
            build.to_owned(),
            format!("cover {graph}.npcov --data {data} --name s -o {graph}-s.npcov"),
            format!("report {graph}-s.npcov --html {graph} --data {data} --pool {data}"),
        ] {
            let outcome = project.run(&command);
            assert_eq!(outcome.code, Some(0), "{command}: {}", outcome.stderr);
        }
        let pages = std::fs::read(project.path(&format!("{graph}/report.json"))).unwrap();
        let pages: Value = serde_json::from_slice(&pages).unwrap();
        assert_eq!(pages["notes"], serde_json::json!([]), "{graph}");
    }
}
