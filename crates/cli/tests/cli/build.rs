//! `npcov build`.

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::{Outcome, Project};

/// What depends on the machine: which instructions its processor has, and the graph's digest, which
/// takes note of them.
pub(crate) fn on_any_machine(text: &str) -> String {
    let line = |line: &str| match line.split_once("\": \"") {
        Some((key, value)) if ["\"cpu", "\"id"].contains(&key.trim_start()) => {
            let comma = if value.ends_with(',') { "," } else { "" };
            format!("{key}\": \"[MACHINE]\"{comma}\n")
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// A command that has to work.
pub(crate) fn succeed(project: &Project, arguments: &str) -> Outcome {
    let outcome = project.run(arguments);
    assert_eq!(outcome.code, Some(0), "{arguments}: {}", outcome.stderr);
    outcome
}

pub(crate) fn json(project: &Project, arguments: &str) -> Value {
    let outcome = succeed(project, &format!("{arguments} --format json"));
    serde_json::from_str(&outcome.stdout).unwrap()
}

pub(crate) fn bytes(project: &Project, name: &str) -> Vec<u8> {
    std::fs::read(project.path(name)).unwrap()
}

const BUILD: &str = "build lenet.onnx --data fashion-1000.npz --divide 255 -o g.npcov";

#[test]
fn a_graph_in_words_and_in_numbers() {
    let project = Project::new();
    assert_snapshot!(project.snapshot(&format!("{BUILD} --limit 300 --clusters 2")));
    let small = "build mlp-matlab.onnx --data fashion-1000.npz --divide 255 -o g.npcov --limit 60 \
                 --clusters 1 --anpc-upper auto --layers -1";
    let command = format!("{small} --format json");
    assert_snapshot!(on_any_machine(&project.snapshot(&command)));
    assert!(!project.path("g.npcov.parts").exists());
}

#[test]
fn scores_are_calibrated_by_data_of_the_users_own() {
    let project = Project::new();
    let build = format!("{BUILD} --limit 500 --clusters 1 --criteria snpc --calibration");
    let refused = project.run(&format!("{build} fashion-1000.npz"));
    assert_eq!(refused.code, Some(2));
    let reason = "calibration needs inputs that the network was not trained with";
    assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    let over = project.run(&format!("{build} g.npcov"));
    let reason = "`--output g.npcov` would overwrite what is read";
    assert!(over.stderr.contains(reason), "{}", over.stderr);

    let rows = |name: &str| project.rows("fashion-1000.npz", name)[500..].concat();
    let labels: Vec<i64> = rows("y").iter().map(|&label| label as i64).collect();
    project.npz("fresh.npz", &[28, 28], &rows("x"), &labels);
    succeed(&project, &format!("{build} fresh.npz"));
    // Held against themselves, inputs that are right have all ranks, one each.
    succeed(
        &project,
        "cover g.npcov --data fresh.npz --inputs inputs.npz",
    );
    let column = |name: &str| project.rows("inputs.npz", name).concat();
    let pairs = column("prediction").into_iter().zip(column("label"));
    let ranks = pairs.zip(column("unfamiliar.p"));
    let mut ranks: Vec<f32> = ranks
        .filter_map(|((class, label), p)| (class == label).then_some(p))
        .collect();
    ranks.sort_unstable_by(f32::total_cmp);
    assert!(ranks.len() > 400, "{}", ranks.len());
    for (place, &p) in ranks.iter().enumerate() {
        let expected = (place + 2) as f32 / (ranks.len() + 1) as f32;
        assert!((p - expected).abs() < 0.02, "{place}: {p}, not {expected}");
    }
}

#[test]
fn any_number_of_threads_and_any_run_gives_the_same_bytes() {
    let project = Project::new();
    // More than one part, and more than one branch.
    for (model, inputs) in [("lenet.onnx", 1000), ("resnet8.onnx", 40)] {
        let build =
            format!("build {model} --data fashion-1000.npz --divide 255 --limit {inputs} -o");
        let graphs = ["1", "2", "8", "2"].map(|threads| {
            succeed(&project, &format!("{build} g.npcov --threads {threads}"));
            bytes(&project, "g.npcov")
        });
        assert!(graphs.iter().all(|graph| *graph == graphs[0]), "{model}");
        // Nor does the name matter, or what was there before.
        succeed(&project, &format!("{build} other.npcov --clusters 2"));
        assert!(bytes(&project, "other.npcov") != graphs[0], "{model}");
        succeed(&project, &format!("{build} other.npcov"));
        assert!(bytes(&project, "other.npcov") == graphs[0], "{model}");
    }
}

#[test]
fn parameters_come_from_the_file_for_all_and_for_single_classes() {
    let project = Project::new();
    let settings = "\
        [paths]\nalpha = 0.9\nbeta = 0.5\nclusters = 3\nanpc-layers = [0, 2]\nanpc-upper = [1, 3.5]\n\
        [paths.class.7]\nalpha = 0.6\nclusters = 1\n\
        [paths.class.2]\nbeta = 0.0\nclusters = \"auto:2\"\n\
        [paths.choices]\nmembers = \"correct\"\n[paths.measure]\nsnpc-buckets = 50\n";
    project.write("npcov.toml", settings);
    let command = format!("{BUILD} --limit 300");
    let found = json(&project, &command);
    let of = |class: usize| {
        let class = &found["classes"][class];
        let (alpha, beta) = (class["alpha"].as_f64(), class["beta"].as_f64());
        (
            alpha.unwrap(),
            beta.unwrap(),
            class["planned"].as_u64().unwrap(),
        )
    };
    assert_eq!((of(0), of(7)), ((0.9, 0.5, 3), (0.6, 0.5, 1)));
    assert!(of(2).1 == 0.0 && of(2).2 <= 2, "{:?}", of(2));
    assert_eq!(found["choices"]["members"], "correct");
    assert_eq!(found["choices"]["snpc-buckets"], 50);
    let bounds = serde_json::json!([{"layer": 0, "upper": 1.0}, {"layer": 2, "upper": 3.5}]);
    assert_eq!(found["anpc"]["layers"], bounds);
    assert!(found["members"].as_u64() < found["inputs"].as_u64());

    // What they stand for, too: without a threshold every neuron of a member is abstract, and a
    // smaller share of relevance has fewer neurons.
    let widths = |found: &Value, class: usize| -> f64 {
        let clusters = found["classes"][class]["clusters"].as_array().unwrap();
        clusters
            .iter()
            .map(|c| c["width"].as_f64().unwrap())
            .sum::<f64>()
            / clusters.len() as f64
    };
    let others = json(&project, &format!("{command} --beta 0.5"));
    assert!(widths(&found, 2) > widths(&others, 2));
    let flag = json(&project, &format!("{command} --alpha 0.9 --clusters 1"));
    assert!(widths(&found, 7) < widths(&flag, 7));
    // A flag counts for all classes.
    for class in flag["classes"].as_array().unwrap() {
        assert_eq!(
            (class["alpha"].as_f64(), class["planned"].as_u64()),
            (Some(0.9), Some(1))
        );
    }
}

#[test]
fn the_number_of_clusters_is_found() {
    let project = Project::new();
    let found = json(&project, &format!("{BUILD} --limit 200 --clusters auto:4"));
    for class in found["classes"].as_array().unwrap() {
        let planned = class["planned"].as_u64().unwrap();
        assert!((1..=4).contains(&planned), "{class}");
        assert_eq!(class["clusters"].as_array().unwrap().len() as u64, planned);
    }
}

#[test]
fn bounds_are_found_from_training_distances() {
    let project = Project::new();
    let upper = |option: &str| -> Vec<f64> {
        let found = json(
            &project,
            &format!("{BUILD} --limit 200 --anpc-upper {option}"),
        );
        let layers = found["anpc"]["layers"].as_array().unwrap();
        layers
            .iter()
            .map(|l| l["upper"].as_f64().unwrap())
            .collect()
    };
    assert_eq!(upper("1,2,3"), [1.0, 2.0, 3.0]);
    let (half, most) = (upper("auto:0.5"), upper("auto"));
    assert!(
        half.iter().zip(&most).all(|(a, b)| 0.0 < *a && a < b),
        "{half:?} {most:?}"
    );
}

#[test]
fn what_limits_a_graph_is_said() {
    let project = Project::new();
    let outcome = succeed(&project, &format!("{BUILD} --limit 12 --clusters 2"));
    assert_snapshot!(outcome.stderr);
    // The first layer has six neurons, and few of them are critical for every input of a class.
    let command = format!("{BUILD} --clusters 1 --alpha 0.3 --beta 0.99");
    assert_snapshot!(succeed(&project, &command).stderr);
}

#[test]
fn parameters_that_cannot_be() {
    let project = Project::new();
    for (i, options) in [
        "--alpha 0",
        "--alpha 1.5",
        "--alpha nan",
        "--beta 1",
        "--beta -0.1",
        "--clusters 0",
        "--clusters 1001",
        "--clusters auto:0",
        "--choices papers",
        "--threshold mass",
        "--snpc-buckets 0",
        "--anpc-upper 0",
        "--anpc-upper 1,2",
        "--anpc-upper auto:2",
        "--anpc-layers 3",
        "--limit 0",
        "--members correct --data fashion-1000.npz:x",
    ]
    .iter()
    .enumerate()
    {
        let command = match options.contains("--data") {
            true => format!("build lenet.onnx --divide 255 -o g.npcov {options}"),
            false => format!("{BUILD} {options}"),
        };
        let shown = project.snapshot(&command);
        assert!(shown.contains("exit code: 2"), "{shown}");
        assert_snapshot!(format!("parameters_{i:02}"), shown);
        assert!(!project.path("g.npcov").exists() && !project.path("g.npcov.parts").exists());
    }
}

#[test]
fn parameters_in_the_file_that_cannot_be() {
    let project = Project::new();
    for (i, settings) in [
        "class.10 = { alpha = 0.5 }",
        "class.shirt = { alpha = 0.5 }",
        "class.3 = { beta = 1 }",
        "choices.merge = \"loose\"",
        "gamma = 1",
    ]
    .iter()
    .enumerate()
    {
        project.write("npcov.toml", format!("[paths]\n{settings}\n"));
        let shown = project.snapshot(BUILD);
        assert!(shown.contains("exit code: 2"), "{shown}");
        assert_snapshot!(format!("file_parameters_{i}"), shown);
    }
}

#[test]
fn outputs_that_cannot_be_written() {
    let project = Project::new();
    let build = "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 20 -o";
    assert_snapshot!(project.snapshot(&format!("{build} no/g.npcov")));
    assert!(!project.path("no").exists(), "a folder nobody asked for");
    assert_snapshot!(project.snapshot(&format!("{build} lenet.onnx")));
    std::fs::create_dir(project.path("folder")).unwrap();
    assert_snapshot!(project.snapshot(&format!("{build} folder")));
}
