//! The outputs in the guides are what the commands print.

use std::path::{Path, PathBuf};

use crate::build::succeed;
use crate::support::Project;

/// The folder of the guides.
pub(crate) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn outputs_in_the_first_guide_are_real() {
    compare("guide-inspect-predict.md", &fixtures());
}

#[test]
fn outputs_in_the_guide_to_explanations_are_real() {
    compare("guide-explain.md", &fixtures());
}

#[test]
fn outputs_in_the_guide_to_coverage_are_real() {
    let project = fixtures();
    succeed(&project, "demo --keep tour");
    compare("guide-coverage.md", &project);
}

#[test]
fn outputs_in_the_guide_to_selecting_are_real() {
    compare("guide-select.md", &fixtures());
}

#[test]
fn outputs_in_the_guide_to_attacks_are_real() {
    compare("guide-attack.md", &fixtures());
}

#[test]
fn outputs_in_the_guide_to_mutants_are_real() {
    compare("guide-mutate.md", &fixtures());
}

#[test]
fn outputs_in_the_guide_to_experiments_are_real() {
    compare("guide-lab.md", &fixtures());
}

/// Outputs in the README are shortened: `...` stands for any lines.
#[test]
fn outputs_in_the_readme_are_real() {
    let project = fixtures();
    let text = std::fs::read_to_string(docs().join("../README.md")).unwrap();
    let blocks = indented(&text);
    let shown = blocks.iter().filter(|block| block.len() > 1);
    let shown: Vec<&Vec<&str>> = shown
        .filter(|block| block[0].contains("fixtures/"))
        .collect();
    assert_eq!(shown.len(), 2);
    for block in shown {
        let arguments = block[0].strip_prefix("$ npcov ").unwrap();
        let printed = succeed(&project, arguments).stdout;
        let mut rest: Vec<&str> = printed.lines().map(str::trim_end).collect();
        let mut anywhere = false;
        for line in &block[1..] {
            if line.trim() == "..." {
                anywhere = true;
                continue;
            }
            let place = rest.iter().position(|found| found == line);
            let place = place.filter(|&place| anywhere || place == 0);
            let place =
                place.unwrap_or_else(|| panic!("{line:?} is not what is printed:\n{printed}"));
            rest.drain(..=place);
            anywhere = false;
        }
    }
}

/// What is to be done with one's own model, with files of these names.
#[test]
fn commands_for_your_own_model_run() {
    for (page, commands) in [("../README.md", 5), ("guide-report.md", 3)] {
        let project = Project::new();
        std::fs::rename(project.path("lenet.onnx"), project.path("model.onnx")).unwrap();
        let (x, y) = (
            project.rows("fashion-1000.npz", "x"),
            project.rows("fashion-1000.npz", "y"),
        );
        for (name, rows) in [("train", 0..600), ("test", 600..1000)] {
            let labels: Vec<i64> = y[rows.clone()].iter().map(|y| y[0] as i64).collect();
            let pixels = x[rows].concat();
            project.npz(&format!("{name}.npz"), &[28, 28], &pixels, &labels);
        }
        let folders = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        project.images("more-images", &(0..).zip(folders).collect::<Vec<_>>(), 5);
        let text = std::fs::read_to_string(docs().join(page)).unwrap();
        let blocks = indented(&text);
        let own = blocks
            .iter()
            .find(|block| block.iter().any(|l| l.contains("model.onnx")));
        let mut run = 0;
        for line in own.unwrap() {
            let Some(arguments) = line.strip_prefix("$ npcov ") else {
                continue;
            };
            if arguments.starts_with("check") {
                std::fs::copy(project.path("state.npcov"), project.path("last-week.npcov"))
                    .unwrap();
            }
            succeed(&project, arguments);
            run += 1;
        }
        assert_eq!(run, commands, "{page}");
    }
}

/// The blocks of a document that are indented by four, without that.
fn indented(text: &str) -> Vec<Vec<&str>> {
    let mut blocks: Vec<Vec<&str>> = vec![Vec::new()];
    for line in text.lines() {
        let last = blocks.last_mut().unwrap();
        match line.strip_prefix("    ") {
            Some(line) => last.push(line.trim_end()),
            None if line.is_empty() && !last.is_empty() => last.push(""),
            None if last.is_empty() => {}
            None => blocks.push(Vec::new()),
        }
    }
    for block in &mut blocks {
        while block.last() == Some(&"") {
            block.pop();
        }
    }
    blocks
}

fn fixtures() -> Project {
    Project::with_fixtures_in("fixtures")
}

/// Runs the commands of a guide. With `NPCOV_UPDATE_DOCS` set, writes their outputs into it instead.
fn compare(name: &str, project: &Project) {
    let guide = docs().join(name);
    let text = std::fs::read_to_string(&guide).unwrap();
    let mut actual = String::new();
    let mut lines = text.lines();
    let mut commands = 0;
    while let Some(line) = lines.next() {
        actual += &format!("{line}\n");
        if line != "```console" {
            continue;
        }
        let command = lines.next().unwrap();
        let arguments = command.strip_prefix("$ npcov ").unwrap();
        let outcome = project.run(arguments);
        actual += &format!("{command}\n{}{}```\n", outcome.stderr, outcome.stdout);
        lines.find(|line| *line == "```").unwrap();
        commands += 1;
    }
    assert!(commands >= 4, "{commands} commands are few");
    if std::env::var_os("NPCOV_UPDATE_DOCS").is_some() {
        std::fs::write(&guide, actual).unwrap();
    } else {
        assert!(
            text == actual,
            "the guide differs from what npcov prints; `NPCOV_UPDATE_DOCS=1 cargo test -p \
             npcov-cli docs` corrects it:\n{actual}"
        );
    }
}
