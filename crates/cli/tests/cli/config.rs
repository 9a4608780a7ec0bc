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
fn rules_come_from_the_file_and_flags_override_them() {
    let project = Project::new();
    let relevances = |arguments: &str| {
        let command = format!("explain --limit 5 --output out.npz {arguments}");
        let outcome = project.run(&command);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        (outcome.stdout, project.rows("out.npz", "relevance.0"))
    };
    let table = "\n[explain]\npreset = \"epsilon-plus\"\nrule = [\"first=flat\"]\n\
                 bias = \"ignore\"\nbatch-norm = \"fold\"\n";
    let settings = SETTINGS
        .replace("lenet", "resnet8")
        .replace("\"/4/*\", -1", "0");
    project.write("npcov.toml", format!("{settings}{table}"));
    let from_file = relevances("");
    let overridden = relevances("--rule first=zplus --bias absorb --batch-norm identity");
    assert_ne!(from_file.1, overridden.1);
    project.write("npcov.toml", &settings);
    let from_flags =
        relevances("--preset epsilon-plus --rule first=flat --bias ignore --batch-norm fold");
    assert_eq!(from_file, from_flags);
    let method = "Conv=alpha-beta:0, first=flat, bias ignore, batch norm fold\n";
    assert!(from_file.0.contains(method), "{}", from_file.0);
    let one = format!("{settings}\n[explain]\nrule = \"zplus\"\nattribution = \"lrp\"\n");
    project.write("npcov.toml", one);
    let zplus = relevances("").0;
    assert!(zplus.contains("lrp alpha-beta:0, bias ignore"), "{zplus}");
    // Rules in the file are no mistake when a flag asks for gradients.
    let gradient = relevances("--attribution gradient-input").0;
    assert!(gradient.contains("method  gradient-input\n"), "{gradient}");
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
        "[explain]\nrule = [\"zplus\", \"omega\"]\n",
        "[explain]\npreset = \"best\"\n",
        "[explain]\nbias = \"absorbed\"\n",
        "[explain]\nrules = \"zplus\"\n",
    ]
    .iter()
    .enumerate()
    {
        project.write("npcov.toml", text);
        assert_snapshot!(format!("mistake_{i}"), project.snapshot("inspect"));
    }
    assert_snapshot!(project.snapshot("inspect --config missing.toml"));
}
