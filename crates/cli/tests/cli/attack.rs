//! `npcov attack`.

use insta::assert_snapshot;

use crate::build::{bytes, json, succeed};
use crate::support::Project;

const ATTACK: &str = "attack lenet.onnx --data fashion-1000.npz --divide 255 -o out.npz";

#[test]
fn attacks_in_words_and_in_numbers() {
    let project = Project::new();
    for (name, options) in [
        ("attack_pgd", "--limit 100"),
        ("attack_fgsm", "--method fgsm --epsilon 0.05 --per-class 10"),
        (
            "attack_pgd_l2",
            "--method pgd-l2 --epsilon 0.5 --steps 1 --step 0.5 --no-random-start --limit 50",
        ),
        (
            "attack_cw",
            "--method cw --factor 1 --rounds 2 --steps 50 --confidence 2 --limit 20",
        ),
        (
            "attack_cw_linf",
            "--method cw-linf --learning-rate 0.01 --rounds 3 --steps 40 --tanh-box=-1,1 --limit 20",
        ),
        (
            "attack_diverse",
            "--lambda 10 --layer -1 --batch 10 --steps 5 --limit 20",
        ),
        ("attack_nothing", "--limit 0"),
        ("attack_json", "--steps 3 --seed 7 --limit 10 --format json"),
        (
            "attack_json_diverse",
            "--method cw --rounds 1 --steps 2 --lambda 1.5 --layer /4/Relu --limit 5 --format json",
        ),
    ] {
        assert_snapshot!(name, project.snapshot(&format!("{ATTACK} {options}")));
    }
    // An input is to leave the class that it is taken for.
    let unlabelled =
        "attack lenet.onnx --data fashion-1000.npz:x --divide 255 --steps 5 --limit 30 -o u.npz";
    assert_snapshot!(project.snapshot(unlabelled));
    assert_eq!(project.rows("u.npz", "y").len(), 30);
}

#[test]
fn what_was_attacked_can_be_predicted_and_measured() {
    let project = Project::new();
    let told = json(&project, &format!("{ATTACK} --epsilon 0.05 --limit 200"));
    let found = json(
        &project,
        "predict lenet.onnx --data out.npz --divide 255 -o predicted.npz",
    );
    assert_eq!(found["correct"], told["correct_after"]);
    assert_eq!(
        project.rows("predicted.npz", "prediction"),
        project.rows("out.npz", "prediction")
    );
    succeed(
        &project,
        "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 200 --clusters 2 -o g.npcov",
    );
    let covered = json(&project, "cover g.npcov --data out.npz -o s.npcov");
    let after = told["correct_after"].as_f64().unwrap();
    assert_eq!(covered["suites"][0]["inputs"], 200);
    assert_eq!(covered["suites"][0]["accuracy"], after / 200.0);
}

/// The file says where inputs come from, how far they went, and whether that was enough.
#[test]
fn the_file_tells_what_became_of_each_input() {
    let project = Project::new();
    let told = json(
        &project,
        &format!("{ATTACK} --epsilon 0.05 --steps 5 --per-class 3"),
    );
    let (x, y) = (project.rows("out.npz", "x"), project.rows("out.npz", "y"));
    let column = |name: &str| project.rows("out.npz", name).concat();
    let (index, prediction) = (column("index"), column("prediction"));
    let (success, distance) = (column("success"), column("distance"));
    let data = project.rows("fashion-1000.npz", "x");
    let labels = project.rows("fashion-1000.npz", "y");
    assert_eq!(x.len(), 30);
    assert_eq!(told["inputs"], 30);
    let mut seen = [0; 10];
    for row in 0..30 {
        let input = index[row] as usize;
        assert_eq!(y[row], labels[input]);
        seen[y[row][0] as usize] += 1;
        let moved = x[row].iter().zip(&data[input]).map(|(a, b)| (a - b).abs());
        let largest = moved.fold(0.0, f32::max) / 255.0;
        assert!((largest - distance[row]).abs() < 1e-6 && largest < 0.050_001);
        assert_eq!(success[row] == 1.0, prediction[row] != y[row][0]);
    }
    assert_eq!(seen, [3; 10]);
    // The first three of each class.
    assert!(index.windows(2).all(|pair| pair[0] < pair[1]));
    for (at, label) in labels.iter().enumerate() {
        let earlier = labels[..at].iter().filter(|other| *other == label).count();
        assert_eq!(index.contains(&(at as f32)), earlier < 3, "{at}");
    }
}

/// Radii are in pixels, and what is written is in the scale of the data, whatever the model sees.
#[test]
fn preprocessing_from_a_file_of_settings() {
    let project = Project::new();
    let flags = "attack lenet.onnx --data fashion-1000.npz --divide 255 --mean 0.1 --std 0.9";
    succeed(&project, &format!("{flags} --limit 20 -o flags.npz"));
    project.write(
        "npcov.toml",
        "model = \"lenet.onnx\"\ndata = \"fashion-1000.npz\"\nthreads = 2\n\
         [preprocessing]\ndivide = 255\nmean = 0.1\nstd = 0.9\n",
    );
    succeed(&project, "attack --limit 20 -o settings.npz");
    assert_eq!(
        bytes(&project, "flags.npz"),
        bytes(&project, "settings.npz")
    );
    let moved = project.rows("flags.npz", "distance").concat();
    assert!(
        moved.iter().all(|&d| d <= 0.100_001 && d > 0.09),
        "{moved:?}"
    );
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let project = Project::new();
    for options in [
        "--limit 100 --steps 5",
        "--limit 40 --method pgd-l2 --steps 5",
        "--limit 40 --method cw --factor 1 --rounds 2 --steps 12",
        "--limit 40 --method cw-linf --rounds 2 --steps 12 --tanh-box=-1,1 --lambda 1 --layer 0",
        "--limit 40 --steps 5 --lambda 1 --layer -1",
    ] {
        let runs = ["1", "2", "8"].map(|threads| {
            let outcome = succeed(&project, &format!("{ATTACK} {options} --threads {threads}"));
            (outcome.stdout, bytes(&project, "out.npz"))
        });
        assert!(runs.iter().all(|run| *run == runs[0]), "{options}");
    }
}

#[test]
fn attack_arguments_that_cannot_be() {
    let project = Project::new();
    project.npz("wrong-labels.npz", &[28, 28], &[0.0; 2 * 784], &[3, 10]);
    let with = |options: &str| format!("{ATTACK} {options}");
    let data = |name: &str, options: &str| {
        format!("attack lenet.onnx --data {name} -o out.npz --limit 20 {options}")
    };
    for (i, arguments) in [
        // Options that the method does not have.
        with("--method fgsm --steps 3"),
        with("--method fgsm --no-random-start"),
        with("--method cw --epsilon 0.1"),
        with("--method cw-linf --step 0.1"),
        with("--confidence 1"),
        with("--method pgd-l2 --rounds 3"),
        with("--factor 1"),
        with("--learning-rate 0.1"),
        with("--tanh-box=-1,1"),
        with("--method deepfool"),
        // Numbers that cannot be.
        with("--epsilon -0.1"),
        with("--epsilon nan"),
        with("--step inf"),
        with("--steps 0"),
        with("--method cw --rounds 0"),
        with("--method cw --confidence -1"),
        with("--method cw --factor 0"),
        with("--method cw --learning-rate -1"),
        with("--method cw --tanh-box 0.5,1"),
        with("--range 1,0"),
        with("--range 0;1"),
        with("--batch 0"),
        with("--threads 0"),
        // The regulariser.
        with("--lambda 1"),
        with("--layer 0"),
        with("--lambda -1 --layer 0"),
        with("--lambda 1 --layer 3"),
        with("--lambda 1 --layer -4"),
        with("--lambda 1 --layer conv"),
        // The data.
        with("--limit 3 --per-class 3"),
        data("fashion-1000.npz", ""),
        data("fashion-1000.npz", "--divide 255 --range 0.25,1"),
        data("wrong-labels.npz", ""),
        "attack lenet.onnx --data fashion-1000.npz:x --divide 255 --per-class 3 -o out.npz".into(),
        data("missing.npz", ""),
        // The files.
        "attack lenet.onnx --data fashion-1000.npz --divide 255".into(),
        "attack lenet.onnx --data fashion-1000.npz --divide 255 -o fashion-1000.npz".into(),
        "attack lenet.onnx --data fashion-1000.npz --divide 255 -o lenet.onnx".into(),
        "attack lenet.onnx --data fashion-1000.npz --divide 255 -o missing/out.npz".into(),
        "attack missing.onnx --data fashion-1000.npz -o out.npz".into(),
    ]
    .iter()
    .enumerate()
    {
        let shown = project.snapshot(arguments);
        assert!(shown.contains("exit code: 2"), "{shown}");
        assert_snapshot!(format!("attack_arguments_{i:02}"), shown);
    }
    assert!(!project.path("out.npz").exists());
}
