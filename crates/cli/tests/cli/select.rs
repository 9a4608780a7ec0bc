//! `npcov select` and `npcov minimize`.

use insta::assert_snapshot;

use crate::build::{bytes, json, succeed};
use crate::support::Project;

const SELECT: &str = "select g.npcov --data fashion-1000.npz -o out.npz";

/// A project with a decision graph `g.npcov` of lenet.
fn with_graph() -> Project {
    let project = Project::new();
    succeed(
        &project,
        "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 200 --clusters 2 -o g.npcov",
    );
    project
}

#[test]
fn selections_in_words_and_in_numbers() {
    let project = with_graph();
    for (name, options) in [
        ("select_additional", "--by additional:kmnc --count 20"),
        ("select_total", "--by total:tknp --count 3"),
        ("select_score", "--by score:deepgini --count 100"),
        ("select_random", "--by random --seed 7 --limit 50"),
        (
            "select_json",
            "--by additional:snpc --snpc-buckets 10 --limit 300 --count 2 --format json",
        ),
    ] {
        assert_snapshot!(name, project.snapshot(&format!("{SELECT} {options}")));
    }
    assert!(!project.path("out.npz.parts").exists());
    let unlabelled =
        "select g.npcov --data fashion-1000.npz:x --by score:margin --count 3 -o u.npz";
    assert_snapshot!(project.snapshot(unlabelled));
    assert_eq!(project.rows("u.npz", "x").len(), 3);
}

#[test]
fn suites_in_words_and_in_numbers() {
    let project = with_graph();
    let minimize = "minimize g.npcov --data fashion-1000.npz -o small.npz";
    assert_snapshot!(
        "minimize_words",
        project.snapshot(&format!("{minimize} --criteria snpc,tknp,nbc"))
    );
    assert_snapshot!(
        "minimize_json",
        project.snapshot(&format!(
            "{minimize} --limit 30 --criteria tknc --format json"
        ))
    );
    let default = json(&project, &format!("{minimize} --limit 100"));
    let names: Vec<&str> = default["criteria"]
        .as_array()
        .unwrap()
        .iter()
        .map(|criterion| criterion["criterion"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["snpc", "anpc"]);
    let all = json(
        &project,
        &format!("{minimize} --limit 100 --criteria default"),
    );
    assert!(all["criteria"].as_array().unwrap().len() > 8, "{all}");
}

#[test]
fn what_was_selected_can_be_measured() {
    let project = with_graph();
    let selection = json(
        &project,
        &format!("{SELECT} --by additional:snpc --count 25"),
    );
    let told = &selection["coverage"];
    let measured = json(
        &project,
        "cover g.npcov --data out.npz --criteria snpc -o s.npcov",
    );
    let share = told["covered"].as_f64().unwrap() / told["total"].as_f64().unwrap();
    assert_eq!(measured["suites"][0]["criteria"]["snpc"], share);
    // Pixels, labels and positions are those of the pool.
    let (pool, labels) = (
        project.rows("fashion-1000.npz", "x"),
        project.rows("fashion-1000.npz", "y"),
    );
    let (x, y) = (project.rows("out.npz", "x"), project.rows("out.npz", "y"));
    let index = project.rows("out.npz", "index");
    for (row, input) in index.iter().enumerate() {
        let input = input[0] as usize;
        assert_eq!(selection["chosen"][row]["input"], input);
        assert_eq!((&x[row], &y[row]), (&pool[input], &labels[input]));
    }
    let scores = project.rows("out.npz", "score").concat();
    assert_eq!(f64::from(scores.iter().sum::<f32>()), told["covered"]);
}

#[test]
fn numbers_that_are_no_bytes_stay_what_they_are() {
    let project = with_graph();
    let images = project.rows("fashion-1000.npz", "x");
    let pixels: Vec<f32> = images[..40].concat().iter().map(|x| x * 0.7).collect();
    project.npz("pool.npz", &[28, 28], &pixels, &[]);
    succeed(
        &project,
        "select g.npcov --data pool.npz --by score:entropy --count 5 -o out.npz",
    );
    let (x, index) = (
        project.rows("out.npz", "x"),
        project.rows("out.npz", "index"),
    );
    for (row, input) in x.iter().zip(index) {
        let start = input[0] as usize * 784;
        assert_eq!(*row, pixels[start..start + 784]);
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let project = with_graph();
    for command in [
        format!("{SELECT} --by additional:anpc"),
        "minimize g.npcov --data fashion-1000.npz --criteria snpc,idc -o out.npz".to_owned(),
    ] {
        let runs = ["1", "2", "8"].map(|threads| {
            let outcome = succeed(&project, &format!("{command} --threads {threads}"));
            (outcome.stdout, bytes(&project, "out.npz"))
        });
        assert!(runs.iter().all(|run| *run == runs[0]), "{command}");
    }
}

/// Lists of criteria grow. They are replaced by a word.
fn without_lists_of_criteria(shown: &str) -> String {
    let names = npcov::criteria::names();
    let is_name = |word: &&str| names.contains(&word.trim_end_matches(','));
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let runs = words.chunk_by(|a, b| a.ends_with(',') && is_name(a) && is_name(b));
        let run = |run: &[&str]| match run {
            [_, _, .., last] if !last.ends_with(',') => "[criteria]".to_owned(),
            run => run.join(" "),
        };
        runs.map(run).collect::<Vec<_>>().join(" ")
    };
    shown.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn select_arguments_that_cannot_be() {
    let project = with_graph();
    project.npz("empty.npz", &[28, 28], &[], &[]);
    for (i, arguments) in [
        "select g.npcov --data fashion-1000.npz -o out.npz",
        "select g.npcov --data fashion-1000.npz --by kmnc -o out.npz",
        "select g.npcov --data fashion-1000.npz --by additional -o out.npz",
        "select g.npcov --data fashion-1000.npz --by additional:kmnk -o out.npz",
        "select g.npcov --data fashion-1000.npz --by additional:nlc -o out.npz",
        "select g.npcov --data fashion-1000.npz --by additional:cc -o out.npz",
        "select g.npcov --data fashion-1000.npz --by total:margin -o out.npz",
        "select g.npcov --data fashion-1000.npz --by score:snpc -o out.npz",
        "select g.npcov --data fashion-1000.npz --by score:lsa:layer=0 -o out.npz",
        "select g.npcov --data fashion-1000.npz --by random --count 0 -o out.npz",
        "select g.npcov --data fashion-1000.npz --by random --divide 1 -o out.npz",
        "select g.npcov --data empty.npz --by random -o out.npz",
        "select g.npcov --data fashion-1000.npz --by random -o fashion-1000.npz",
        "select g.npcov --data fashion-1000.npz --by random -o missing/out.npz",
        "select lenet.onnx --data fashion-1000.npz --by random -o out.npz",
        "minimize g.npcov --data fashion-1000.npz --criteria snpc,nlc -o out.npz",
        "minimize g.npcov --data fashion-1000.npz -o g.npcov",
    ]
    .iter()
    .enumerate()
    {
        let shown = project.snapshot(arguments);
        assert!(shown.contains("exit code: 2"), "{shown}");
        let shown = without_lists_of_criteria(&shown);
        assert_snapshot!(format!("select_arguments_{i:02}"), shown);
    }
    assert!(!project.path("out.npz").exists() && !project.path("out.npz.parts").exists());
}

#[test]
fn what_a_state_covers_is_not_selected_again() {
    let project = with_graph();
    succeed(
        &project,
        "cover g.npcov --data fashion-1000.npz --limit 400 --criteria snpc,tknp -o s.npcov",
    );
    let by = "--by additional:snpc --given s.npcov";
    assert_snapshot!(
        "given_words",
        project.snapshot(&format!("{SELECT} {by} --count 5"))
    );
    // Each of them covers something that neither the state nor those before it do.
    let some = json(&project, &format!("{SELECT} {by} --count 5"));
    let chosen = some["chosen"].as_array().unwrap();
    assert_eq!(chosen.len(), 5);
    let images = project.rows("fashion-1000.npz", "x");
    for input in chosen {
        let row = input["input"].as_u64().unwrap() as usize;
        project.npz("one.npz", &[28, 28], &images[row], &[]);
        let one = "cover g.npcov --data one.npz --criteria snpc,tknp -o one.npcov";
        succeed(&project, one);
        succeed(&project, "merge s.npcov one.npcov --name all -o both.npcov");
        let against = json(&project, "report both.npcov --against s.npcov");
        let new = &against["difference"]["suites"][0]["things"]["snpc"]["new"];
        assert!(
            new.as_u64() >= input["score"].as_f64().map(|score| score as u64),
            "{against}"
        );
        assert!(new.as_u64() > Some(0), "{input}");
    }
    // Everything in the pool is in the state.
    let none = json(&project, &format!("{SELECT} {by} --limit 400"));
    assert_eq!(none["chosen"].as_array().unwrap().len(), 0);
    assert_eq!(none["coverage"]["pool"], 0);
    let minimize =
        "minimize g.npcov --data fashion-1000.npz --criteria snpc --given s.npcov -o m.npz";
    assert_snapshot!("given_minimize", project.snapshot(minimize));
    assert_snapshot!(
        "given_score",
        project.snapshot(&format!("{SELECT} --by score:deepgini --given s.npcov"))
    );
    assert_snapshot!(
        "given_other_criterion",
        project.snapshot(&format!("{SELECT} --by additional:kmnc --given s.npcov"))
    );
    assert_snapshot!(
        "given_other_choices",
        project.snapshot(&format!("{SELECT} {by} --snpc-buckets 10"))
    );
}
