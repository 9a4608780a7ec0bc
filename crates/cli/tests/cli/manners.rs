//! How the binary behaves, whatever it computes.

use insta::assert_snapshot;

use crate::build::{json, succeed};
use crate::support::Project;

const BUILD: &str = "build mlp-matlab.onnx --data fashion-1000.npz --divide 255 --limit 100 --clusters 1 -o g.npcov";

#[test]
fn suites_are_measured_without_a_file() {
    let project = Project::new();
    succeed(&project, BUILD);
    let cover = "cover g.npcov --data fashion-1000.npz --limit 200 --criteria snpc,nbc";
    let shown = succeed(&project, cover);
    let files = || std::fs::read_dir(project.path("")).unwrap().count();
    let before = files();
    assert_eq!(
        succeed(&project, &format!("{cover} -o s.npcov")).stdout,
        shown.stdout
    );
    assert_eq!(files(), before + 1);
    // Several suites as well, and what each input is.
    let two = "--data fashion-1000.npz --data fashion-1000.npz --name a --name b --inputs i.npz";
    let report = json(&project, &format!("cover g.npcov {two} --limit 20"));
    assert_eq!(report["suites"].as_array().unwrap().len(), 2);
    assert_eq!(project.texts("i.npz", "name").len(), 40);
    assert_snapshot!(project.snapshot(&format!("{cover} --append")));
}

#[test]
fn quiet_means_results_and_errors_only() {
    let project = Project::new();
    let predict = "predict lenet.onnx --data fashion-1000.npz --limit 20";
    let loud = succeed(&project, predict);
    assert!(loud.stderr.starts_with("warning: "), "{}", loud.stderr);
    for quiet in [format!("{predict} --quiet"), format!("-q {predict}")] {
        let quiet = succeed(&project, &quiet);
        assert_eq!(
            (quiet.stdout, quiet.stderr),
            (loud.stdout.clone(), String::new())
        );
    }
    assert_snapshot!(project.snapshot("predict lenet.onnx --data no.npz --quiet"));
}

#[test]
fn without_a_terminal_lines_say_how_far_work_is() {
    let project = Project::new();
    // What was done of how many inputs, line by line.
    let far = |arguments: &str, seconds: &str| -> Vec<(usize, usize)> {
        let mut command = project.command(arguments);
        command.env("NPCOV_PROGRESS_SECONDS", seconds);
        let output = command.output().unwrap();
        let talk = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{talk}");
        let numbers = |line: &str| {
            let line = line.strip_prefix("note: ")?;
            let (numbers, rest) = line.split_once(" inputs")?;
            let (done, of) = numbers.split_once(" of ")?;
            assert!(rest.is_empty() || rest.ends_with(" left"), "{line}");
            Some((done.parse().unwrap(), of.parse().unwrap()))
        };
        talk.lines().filter_map(numbers).collect()
    };
    // Every input is passed many times by `tune`: inputs are counted, those of the sample.
    let tune = "tune mlp-matlab.onnx --data fashion-1000.npz --divide 255 --sample 50";
    for (command, inputs) in [(BUILD, 100), (tune, 50)] {
        let lines = far(command, "0");
        assert!(lines.len() > 1 && lines.is_sorted(), "{lines:?}");
        assert!(lines.iter().all(|line| line.1 == inputs), "{lines:?}");
        assert_eq!(lines.last(), Some(&(inputs, inputs)));
        assert_eq!(far(command, "3000"), []);
    }
}

#[test]
fn what_was_meant_is_guessed() {
    let project = Project::new();
    succeed(&project, BUILD);
    assert_snapshot!(project.snapshot("predict lenet.onnx --dta fashion-1000.npz"));
    assert_snapshot!(project.snapshot("predcit lenet.onnx"));
    let cover = "cover g.npcov --data fashion-1000.npz";
    assert_snapshot!(project.snapshot(&format!("{cover} --criteria sncp")));
}

#[test]
fn one_file_in_the_place_of_another_is_called_what_it_is() {
    let project = Project::new();
    succeed(&project, BUILD);
    succeed(
        &project,
        "cover g.npcov --data fashion-1000.npz --limit 10 -o s.npcov",
    );
    for (name, command) in [
        (
            "model_for_graph",
            "cover lenet.onnx --data fashion-1000.npz",
        ),
        ("model_for_state", "report lenet.onnx"),
        ("graph_for_model", "predict g.npcov --data fashion-1000.npz"),
        ("graph_for_state", "report g.npcov"),
        ("state_for_graph", "cover s.npcov --data fashion-1000.npz"),
    ] {
        assert_snapshot!(name, project.snapshot(command));
    }
}

#[test]
fn differences_stand_in_a_line_each() {
    let project = Project::new();
    succeed(&project, BUILD);
    let cover = "cover g.npcov --data fashion-1000.npz --limit 10 --criteria snpc";
    succeed(&project, &format!("{cover} -o a.npcov"));
    succeed(
        &project,
        &format!("{cover} --snpc-buckets 10 --similarity whole-path -o b.npcov"),
    );
    assert_snapshot!(project.snapshot("merge a.npcov b.npcov -o c.npcov"));
}

#[test]
fn shells_complete_commands_and_flags() {
    let project = Project::new();
    for (shell, expected) in [
        ("bash", "complete -F _npcov"),
        ("zsh", "#compdef npcov"),
        ("fish", "complete -c npcov"),
    ] {
        let script = succeed(&project, &format!("completions {shell}")).stdout;
        for text in [expected, "minimize", "class-names"] {
            assert!(script.contains(text), "{shell}: {text}");
        }
    }
    assert_snapshot!(project.snapshot("completions cmd.com"));
}

#[test]
fn every_command_has_a_man_page() {
    let project = Project::new();
    std::fs::create_dir(project.path("man1")).unwrap();
    assert_eq!(succeed(&project, "man --output man1").stdout, "");
    for page in ["npcov.1", "npcov-cover.1", "npcov-lab.1", "npcov-lab-rq3.1"] {
        let text = std::fs::read_to_string(project.path(&format!("man1/{page}"))).unwrap();
        assert!(text.contains(".TH npcov"), "{page}: {text}");
    }
    let cover = std::fs::read_to_string(project.path("man1/npcov-cover.1")).unwrap();
    for text in ["criteria", "quiet", "Measure which decision logic"] {
        assert!(cover.contains(text), "{text}");
    }
    assert_snapshot!(project.snapshot("man --output nowhere"));
}
