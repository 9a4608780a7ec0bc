//! `npcov lab`: the quick sizes of all experiments, whole.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;

use crate::build::{bytes, json, succeed};
use crate::support::Project;

const STUDY: &str = "lenet.onnx --data fashion-1000.npz --divide 255 --quick -o lab";

/// A project with a decision graph `g.npcov` of lenet.
fn with_graph() -> Project {
    let project = Project::new();
    succeed(
        &project,
        "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 300 --clusters 2 -o g.npcov",
    );
    project
}

#[test]
fn masking_studies_in_words() {
    let project = Project::new();
    assert_snapshot!(
        "lab_rq1",
        project.snapshot(&format!("lab rq1 {STUDY} --paper sadl-1"))
    );
    assert_snapshot!(
        "lab_rq2",
        project.snapshot(&format!("lab rq2 {STUDY} --paper sadl-1"))
    );
    for name in ["rq1", "rq2"] {
        let svg = String::from_utf8(bytes(&project, &format!("lab/{name}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("paper's"), "{svg}");
    }
    assert!(bytes(&project, "lab/rq2-clusters.png").starts_with(b"\x89PNG"));
}

/// What classes choose for themselves is printed beside one choice for all, and a graph is built with it.
#[test]
fn parameters_of_each_class() {
    let project = Project::new();
    let choose = format!("lab rq2 {STUDY} --each-class");
    let shown = project.snapshot(&choose);
    assert_snapshot!("lab_rq2_each_class", shown);
    // Finished classes are taken over.
    assert_eq!(project.snapshot(&choose), shown);
    let classes = json(&project, &choose)["each_class"]["classes"].clone();
    succeed(
        &project,
        "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 300 --criteria snpc \
         --config lab/rq2-classes.toml -o own.npcov",
    );
    let graph = json(&project, "inspect own.npcov");
    for class in classes.as_array().unwrap() {
        let number = class["class"].as_u64().unwrap() as usize;
        let built = &graph["classes"][number];
        for key in ["alpha", "beta"] {
            assert_eq!(class["own"][key], built[key], "{key} of class {number}");
        }
        assert_eq!(class["own"]["clusters"], built["planned"], "class {number}");
    }
}

#[test]
fn coverage_studies_in_words() {
    let project = with_graph();
    let study = "g.npcov --data fashion-1000.npz --quick -o lab";
    assert_snapshot!("lab_rq3", project.snapshot(&format!("lab rq3 {study}")));
    assert_snapshot!(
        "lab_rq4",
        project.snapshot(&format!("lab rq4 {study} --paper sadl-1 --sizes 100"))
    );
    for name in ["rq3", "rq4"] {
        let svg = String::from_utf8(bytes(&project, &format!("lab/{name}.svg"))).unwrap();
        assert!(svg.contains(">SNPC</text>"), "{svg}");
    }
    // Suites are not kept.
    for name in ["rq3", "rq4"] {
        for entry in std::fs::read_dir(project.path(&format!("lab/{name}.parts"))).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(path.extension().unwrap(), "json", "{}", path.display());
        }
    }
}

/// Builds the decision graph `shoes.npcov` of a network that tells footwear from other clothes.
/// What it was not told is the kind of clothes, the labels of the data.
fn shoes(project: &Project) {
    succeed(
        project,
        "build binary-sigmoid.onnx --data fashion-1000.npz:x --divide 255 --criteria snpc \
         -o shoes.npcov",
    );
}

const KINDS: &str = "shoes.npcov --data fashion-1000.npz:x --kinds y --quick";

#[test]
fn studies_of_kinds_in_words() {
    let project = Project::new();
    shoes(&project);
    let rq6 = format!("lab rq6 {KINDS} -o lab");
    assert_snapshot!("lab_rq6", project.snapshot(&rq6));
    let rq7 = format!("lab rq7 {KINDS} --test fashion-1000.npz:x --size 400 -o lab");
    assert_snapshot!("lab_rq7", project.snapshot(&rq7));
    for (name, row) in [("rq6", "pixels"), ("rq7", "without 9")] {
        let svg = String::from_utf8(bytes(&project, &format!("lab/{name}.svg"))).unwrap();
        assert!(svg.contains(&format!(">{row}</text>")), "{svg}");
    }
}

/// Times differ from run to run; what they belong to does not.
#[test]
fn times_of_criteria() {
    let project = with_graph();
    let found = json(
        &project,
        "lab rq5 g.npcov --data fashion-1000.npz --criteria snpc,nc,idc --paper sadl-1 --quick -o lab",
    );
    let rows = found["rows"].as_array().unwrap();
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["criterion"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["snpc", "nc", "idc"]);
    let base = |name: &str| found[name].as_f64().unwrap();
    for (row, (paths, paper)) in rows
        .iter()
        .zip([(true, 8.83), (false, 0.67), (false, 1.11)])
    {
        let seconds = row["seconds"].as_f64().unwrap();
        assert!(seconds > 0.0);
        for (ratio, base) in [
            ("to_forward", base("forward")),
            ("to_explain", base("explain")),
        ] {
            let ratio = row[ratio].as_f64().unwrap();
            assert!((ratio * base / seconds - 1.0).abs() < 1e-12);
        }
        assert_eq!(
            (&row["paths"], &row["published"]),
            (&paths.into(), &paper.into())
        );
        assert!(row["bar"].is_f64() && row["met"].is_boolean());
    }
    assert!(base("scores") > 0.0);
    let text = String::from_utf8(bytes(&project, "lab/rq5.txt")).unwrap();
    assert!(
        text.contains("8.83 (2.60)") && text.contains("\n  scores "),
        "{text}"
    );
    // Where nothing needs paths, nothing is told of single inputs.
    let found = json(
        &project,
        "lab rq5 g.npcov --data fashion-1000.npz --criteria idc --quick -o lab",
    );
    assert!(found["scores"].is_null(), "{found}");
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let project = with_graph();
    shoes(&project);
    let graph = "g.npcov --data fashion-1000.npz --quick";
    for command in [
        "lab rq1 lenet.onnx --data fashion-1000.npz --divide 255 --quick".to_owned(),
        "lab rq2 lenet.onnx --data fashion-1000.npz --divide 255 --quick --each-class".to_owned(),
        format!("lab rq3 {graph} --criteria snpc,nc,lsc,nlc"),
        format!("lab rq4 {graph} --criteria snpc,nc,lsc,nlc"),
        format!("lab rq6 {KINDS}"),
        format!("lab rq7 {KINDS} --test fashion-1000.npz:x"),
    ] {
        let name = &command[4..7];
        let runs = ["1", "2", "5"].map(|threads| {
            let folder = format!("{name}-{threads}");
            succeed(
                &project,
                &format!("{command} --threads {threads} -o {folder}"),
            );
            ["json", "svg"].map(|kind| bytes(&project, &format!("{folder}/{name}.{kind}")))
        });
        assert!(runs.iter().all(|run| *run == runs[0]), "{command}");
    }
}

#[test]
fn finished_parts_are_taken_over_and_others_are_not() {
    let project = Project::new();
    let command = format!("lab rq1 {STUDY}");
    let first = succeed(&project, &command).stdout;
    let file = "lab/rq1.parts/path-1.json";
    let written = || {
        let file = std::fs::metadata(project.path(file)).unwrap();
        file.modified().unwrap()
    };
    let before = written();
    assert_eq!(succeed(&project, &command).stdout, first);
    assert_eq!(written(), before, "a finished part is not made again");
    // One that was edited is, the same, and that is said.
    let whole = bytes(&project, file);
    let edited = String::from_utf8(whole.clone()).unwrap();
    project.write(file, edited.replacen("inc_c\\\":", "inc_c\\\":1", 1));
    let again = succeed(&project, &command);
    assert_eq!(again.stdout, first);
    let note = "what an earlier run left of path-1 is damaged: it is computed again";
    assert!(again.stderr.contains(note), "{}", again.stderr);
    assert!(bytes(&project, file) == whole);
    // One that is missing is made again as well.
    std::fs::remove_file(project.path(file)).unwrap();
    assert_eq!(succeed(&project, &command).stdout, first);
    // Another seed has other parts.
    succeed(&project, &format!("{command} --seed 1"));
    assert!(bytes(&project, file) != whole);
}

/// Data that changes meanwhile is an error, and nothing is written.
#[test]
fn data_that_changes_is_an_error() {
    let project = with_graph();
    let pixels: Vec<f32> = (0..300 * 784).map(|i| ((i * 7919) % 251) as f32).collect();
    project.npz("own.npz", &[1, 28, 28], &pixels, &[0; 300]);
    let words = "lab rq5 g.npcov --data own.npz --criteria snpc --inputs 300 --rounds 40 -o lab";
    let mut command = project.command(words);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let begun = project.path("lab/rq5.parts");
    let start = Instant::now();
    while !begun.exists() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut bytes = std::fs::read(project.path("own.npz")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4].copy_from_slice(&1.5f32.to_le_bytes());
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(project.path("own.npz"))
        .unwrap();
    file.write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("`own.npz` changed while it was read"),
        "{error}"
    );
    assert!(!project.path("lab/rq5.json").exists());
}

#[test]
fn settings_come_from_the_file() {
    let project = Project::new();
    project.write(
        "npcov.toml",
        "model = \"lenet.onnx\"\ndata = \"fashion-1000.npz\"\n[preprocessing]\ndivide = 255\n\
         [paths]\nalpha = 0.9\nchoices.preset = \"tables\"\n",
    );
    let found = json(&project, "lab rq1 --quick -o lab");
    assert_eq!(found["bands"]["alpha"], 0.9);
    assert_eq!(found["choices"]["threshold"], "positive-mass");
    assert!(found["counted"].as_u64() < found["inputs"].as_u64());
    let found = json(&project, "lab rq2 --quick --alpha 0.7 -o lab");
    assert_eq!(found["alpha"], 0.7);
}

#[test]
fn lab_arguments_that_cannot_be() {
    let project = with_graph();
    project.npz("small.npz", &[28, 28], &[0.0; 784 * 3], &[0, 1, 2]);
    succeed(
        &project,
        "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 60 --criteria snpc -o c.npcov",
    );
    for (i, arguments) in [
        "lab",
        "lab rq8",
        "lab rq1 lenet.onnx --data fashion-1000.npz --divide 255",
        "lab rq1 lenet.onnx --data fashion-1000.npz --divide 255 --paper resnet -o lab",
        "lab rq1 lenet.onnx --data fashion-1000.npz --divide 255 --alphas 0,1 -o lab",
        "lab rq1 lenet.onnx --data fashion-1000.npz:x --divide 255 --quick -o lab",
        "lab rq1 lenet.onnx --data fashion-1000.npz --divide 255 --quick -o lenet.onnx",
        "lab rq2 lenet.onnx --data fashion-1000.npz --divide 255 --betas 1 -o lab",
        "lab rq3 g.npcov --data fashion-1000.npz -o lab",
        "lab rq3 g.npcov --data fashion-1000.npz --percents 3,1 --quick -o lab",
        "lab rq3 g.npcov --data fashion-1000.npz:x --quick -o lab",
        "lab rq4 g.npcov --data fashion-1000.npz --target-layers 9 --quick -o lab",
        "lab rq4 g.npcov --data small.npz --quick -o lab",
        "lab rq5 g.npcov --data small.npz -o lab",
        "lab rq5 lenet.onnx --data fashion-1000.npz -o lab",
        "lab rq6 g.npcov --data fashion-1000.npz --kinds y -o lab",
        "lab rq6 c.npcov --data fashion-1000.npz --kinds y --paper sadl-1 -o lab",
        "lab rq6 c.npcov --data fashion-1000.npz -o lab",
        "lab rq6 c.npcov --data small.npz --kinds y -o lab",
        "lab rq7 c.npcov --data fashion-1000.npz --test small.npz --kinds y -o lab",
        "lab rq7 c.npcov --data fashion-1000.npz --test fashion-1000.npz --kinds y --size 0 -o lab",
        "lab rq7 c.npcov --data fashion-1000.npz --test fashion-1000.npz --kinds x -o lab",
        "lab rq2 lenet.onnx --data fashion-1000.npz --divide 255 --each-class --alphas 0 -o lab",
        "lab rq2 lenet.onnx --data fashion-1000.npz --divide 255 --alphas 0.8 -o lab",
    ]
    .iter()
    .enumerate()
    {
        let shown = project.snapshot(arguments);
        assert!(shown.contains("exit code: 2"), "{shown}");
        assert_snapshot!(format!("lab_arguments_{i:02}"), shown);
    }
}
