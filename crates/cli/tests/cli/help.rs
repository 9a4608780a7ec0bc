//! Help texts, as the user reads them.

use insta::assert_snapshot;

use crate::support::Project;

#[test]
fn help() {
    let project = Project::new();
    for command in [
        "",
        "demo",
        "init",
        "inspect",
        "predict",
        "explain",
        "tune",
        "build",
        "cover",
        "merge",
        "export",
        "report",
        "check",
        "gaps",
        "select",
        "minimize",
        "attack",
        "mutate",
        "compile",
        "completions",
        "man",
        "lab",
        "lab rq1",
        "lab rq2",
        "lab rq3",
        "lab rq4",
        "lab rq5",
        "lab rq6",
        "lab rq7",
    ] {
        let name = |flag: &str| format!("help_{}{flag}", command.replace(' ', "-"));
        assert_snapshot!(
            name("_long"),
            project.snapshot(&format!("{command} --help"))
        );
        assert_snapshot!(name("_short"), project.snapshot(&format!("{command} -h")));
    }
}

#[test]
fn version() {
    let outcome = Project::new().run("--version");
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (Some(0), "npcov [VERSION]\n")
    );
}
