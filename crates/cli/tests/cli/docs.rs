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
