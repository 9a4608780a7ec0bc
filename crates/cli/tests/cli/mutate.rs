//! `npcov mutate`.

use insta::assert_snapshot;

use crate::build::{bytes, json, succeed};
use crate::support::Project;

const MUTATE: &str = "mutate lenet.onnx --data fashion-1000.npz --divide 255 --limit 100";

#[test]
fn mutants_in_words_and_in_numbers() {
    let project = Project::new();
    for (name, options) in [
        ("mutate", ""),
        (
            "mutate_ratios",
            "--operators nai,ns --ratio 0.02,0.1 --mutants 3 --seed 7",
        ),
        ("mutate_layers", "--operators afrm,ld --quality 0"),
        ("mutate_sd", "--operators gf --sd 1 --ratio 0.5 --mutants 2"),
        (
            "mutate_json",
            "--operators ws,afrm --mutants 2 --quality 0.5 --format json",
        ),
    ] {
        assert_snapshot!(name, project.snapshot(&format!("{MUTATE} {options}")));
    }
    let nothing = MUTATE.replace("--limit 100", "--limit 0 --mutants 1");
    assert_snapshot!(project.snapshot(&nothing));
    // What the model says is right.
    let unlabelled =
        "mutate lenet.onnx --data fashion-1000.npz:x --divide 255 --limit 50 --mutants 2";
    assert_snapshot!(project.snapshot(unlabelled));
    let judged = format!("{MUTATE} --mutants 2 --judge fashion-1000.npz");
    assert_snapshot!(project.snapshot(&judged));
}

#[test]
fn what_cannot_be_mutated_is_named() {
    let project = Project::new();
    for options in [
        "--operators xyz",
        "--ratio 0",
        "--mutants 0",
        "--operators ld",
        "--mutants-to nowhere",
        "--paths inside",
        "-o fashion-1000.npz",
    ] {
        assert_snapshot!(project.snapshot(&format!("{MUTATE} {options}")));
    }
}

/// A mutant from its file is the mutant that was measured.
#[test]
fn files_of_mutants_are_the_mutants() {
    let project = Project::new();
    std::fs::create_dir(project.path("mutants")).unwrap();
    let options = "--operators gf,ws,neb,nai,ns,afrm --ratio 0.1 --mutants 1 --quality 0";
    let files = "--mutants-to mutants --predictions all.npz";
    succeed(&project, &format!("{MUTATE} {options} {files}"));
    let all = project.rows("all.npz", "mutants");
    for (mutant, name) in [
        "gf-0.1-0",
        "ws-0.1-0",
        "neb-0.1-0",
        "nai-0.1-0",
        "ns-0.1-0",
        "afrm-0",
    ]
    .iter()
    .enumerate()
    {
        succeed(
            &project,
            &format!(
                "predict mutants/{name}.onnx --data fashion-1000.npz --divide 255 --limit 100 -o p.npz"
            ),
        );
        assert_eq!(
            project.rows("p.npz", "prediction").concat(),
            all[mutant],
            "{name}"
        );
    }
}

/// Parts that are merged are the whole; states that do not belong together are refused.
#[test]
fn parts_are_merged() {
    let project = Project::new();
    let of = |more: &str| {
        format!("mutate lenet.onnx --data fashion-1000.npz --divide 255 --mutants 2 {more}")
    };
    let whole = json(&project, &of("-o whole.json"));
    for part in 1..=3 {
        let report = json(
            &project,
            &of(&format!("--shard {part}/3 -o part-{part}.json")),
        );
        assert!(report["score"].as_f64() < whole["score"].as_f64());
    }
    let parts = "part-2.json part-3.json part-1.json";
    let merged = json(&project, &format!("merge {parts} -o merged.json"));
    assert_eq!(merged, whole);
    assert_eq!(
        bytes(&project, "merged.json"),
        bytes(&project, "whole.json")
    );
    succeed(&project, &of("--limit 10 --seed 1 -o other.json"));
    std::fs::write(project.path("bad.json"), "{\"npcov-mutation\":1}").unwrap();
    for command in [
        "merge part-1.json other.json -o x.json",
        "merge part-1.json bad.json -o x.json",
        "merge part-1.json part-2.json --name all -o x.json",
        "merge part-1.json part-2.json -o part-1.json",
    ] {
        assert_snapshot!(project.snapshot(command));
    }
}

/// A file's name is data: it begins no line of its own and moves no cursor.
#[cfg(unix)]
#[test]
fn names_of_suites_stay_on_their_line() {
    let project = Project::new();
    let name = "a\nkilled  100%\u{1b}[2J.npz";
    std::fs::copy(project.path("fashion-1000.npz"), project.path(name)).unwrap();
    let words = "mutate lenet.onnx --divide 255 --limit 20 --mutants 1 --data";
    let output = project.command(words).arg(name).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().next().unwrap();
    assert!(first.contains("killed  100%"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}
