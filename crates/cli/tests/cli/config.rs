//! `npcov.toml`.

use insta::assert_snapshot;

use crate::support::Project;

const SETTINGS: &str = r#"
model = "lenet.onnx"
data = "fashion-1000.npz"
threads = 2
layers = ["/4/*", -1]

[preprocessing]
divide = 255
mean = 0.0
std = [1]
layout = "hw"
"#;

#[test]
fn settings_come_from_the_file() {
    let project = Project::new();
    project.write("npcov.toml", SETTINGS);
    let outcome = project.run("predict --output out.npz");
    assert_eq!(outcome.stderr, "");
    assert!(
        outcome.stdout.contains("870 of 1,000"),
        "{}",
        outcome.stdout
    );
    let widths = ["activation.0", "activation.1"].map(|a| project.rows("out.npz", a)[0].len());
    assert_eq!(widths, [12, 64]);
    assert_snapshot!(project.snapshot("inspect"));
}

#[test]
fn flags_override_the_file() {
    let project = Project::new();
    project.write("npcov.toml", SETTINGS);
    // Expected counts: `fixtures/expected.json`.
    for (arguments, expected) in [
        ("predict mlp-matlab.onnx --layers 0", "860 of 1,000"),
        ("predict --data fashion-1000.npz:x", "class  inputs"),
        ("predict --limit 10", "of 10)"),
    ] {
        let outcome = project.run(arguments);
        assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    }
    let divided = project.run("predict --output a.npz");
    let other = project.run("predict --output b.npz --divide 510 --std 0.5");
    assert_eq!((divided.code, other.code), (Some(0), Some(0)));
    // x / 255 and (x / 510) / 0.5 are the same to the last bit: both steps by a power of two are exact.
    assert_eq!(
        project.rows("a.npz", "logits"),
        project.rows("b.npz", "logits")
    );
    let inspected = project.run("inspect --layers 0");
    assert!(
        inspected.stdout.contains("1 layer, 6 neurons"),
        "{}",
        inspected.stdout
    );
}

#[test]
fn units_can_be_switched_off_again() {
    let project = Project::new();
    project.write(
        "npcov.toml",
        "model = \"lenet.onnx\"\nlayers = [0]\nunits = true\n",
    );
    let neurons = |arguments: &str| {
        project
            .run(arguments)
            .stdout
            .lines()
            .last()
            .map(str::to_owned)
    };
    let (on, off) = (neurons("inspect"), neurons("inspect --units=false"));
    // Six channels of 28x28 units.
    assert_eq!(on.as_deref(), Some("  1 layer, 4,704 neurons"));
    assert_eq!(off.as_deref(), Some("  1 layer, 6 neurons"));
}

#[test]
fn paths_are_relative_to_the_file() {
    let project = Project::new();
    project.write("settings/net.toml", SETTINGS.replace("= \"", "= \"../"));
    // `layout` is a path no more than before.
    let text = std::fs::read_to_string(project.path("settings/net.toml")).unwrap();
    project.write("settings/net.toml", text.replace("../hw", "hw"));
    let outcome = project.run("predict --config settings/net.toml");
    assert_eq!(outcome.stderr, "");
    assert!(
        outcome.stdout.contains("870 of 1,000"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn mistakes_in_the_file() {
    let project = Project::new();
    for (i, text) in [
        "threads = 2\nmodle = \"lenet.onnx\"\n",
        "[preprocessing]\ndivid = 255\n",
        "threads = 0\n",
        "input-shape = \"1*28\"\n",
        "[preprocessing]\nmean = \"0.5\"\n",
        "[preprocessing]\nlayout = \"whc\"\n",
        "model = \n",
    ]
    .iter()
    .enumerate()
    {
        project.write("npcov.toml", text);
        assert_snapshot!(format!("mistake_{i}"), project.snapshot("inspect"));
    }
    assert_snapshot!(project.snapshot("inspect --config missing.toml"));
}
