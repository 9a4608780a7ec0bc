//! `npcov init`.

use insta::assert_snapshot;

use crate::support::Project;

const LENET: &str = "init lenet.onnx --data fashion-1000.npz";

/// The file with every key set.
fn uncommented(text: &str) -> String {
    let uncomment = |line: &str| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') => format!("{key}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(uncomment).collect()
}

fn read(project: &Project, name: &str) -> String {
    std::fs::read_to_string(project.path(name)).unwrap()
}

#[test]
fn a_file_to_start_from() {
    let project = Project::new();
    assert_snapshot!(project.snapshot(LENET));
    let text = read(&project, "npcov.toml");
    assert_snapshot!(text);
    let names: Vec<String> = (0..10).map(|class| format!("class {class}")).collect();
    project.write("classes.txt", names.join("\n"));
    project.write("vocabulary.txt", "word");
    for settings in [text.clone(), uncommented(&text)] {
        project.write("npcov.toml", &settings);
        let outcome = project.run("predict");
        assert_eq!(outcome.stderr, "");
        assert!(
            outcome.stdout.contains("870 of 1,000"),
            "{}",
            outcome.stdout
        );
        let outcome = project.run("explain --limit 1");
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
    let outcome = project.run("build -o graph.npcov --limit 50");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
}

/// Serde names the keys of a table when it meets another one.
#[test]
fn every_key_is_there() {
    let project = Project::new();
    project.run(LENET);
    let text = uncommented(&read(&project, "npcov.toml"));
    let written: toml::Table = toml::from_str(&text).unwrap();
    for table in [
        "",
        "preprocessing",
        "explain",
        "paths",
        "paths.choices",
        "paths.measure",
        "paths.class.0",
        "check",
    ] {
        let head = if table.is_empty() {
            String::new()
        } else {
            format!("[{table}]\n")
        };
        project.write("wrong.toml", format!("{head}unheard-of = 1\n"));
        let message = project.run("inspect --config wrong.toml").stderr;
        let (_, keys) = message.split_once("expected one of ").unwrap();
        let mut found = &written;
        for name in table.split_terminator('.') {
            found = found[name].as_table().unwrap();
        }
        let keys: Vec<&str> = keys.split('`').skip(1).step_by(2).collect();
        assert!(keys.len() >= 3, "{message}");
        for key in &keys {
            assert!(
                found.contains_key(*key),
                "`{key}` is missing in `[{table}]`"
            );
        }
        assert_eq!(keys.len(), found.len(), "{table}");
    }
}

#[test]
fn what_is_given_is_set() {
    let project = Project::new();
    let outcome = project.run(&format!(
        "{LENET}:x,y --output settings/of/lenet.toml --divide 510 --mean 0.25 --std 0.5 --layout hw \
         --layers -1,/4/* --units --input-shape 1x28x28 --output-name output"
    ));
    // The folder is the user's to make.
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    std::fs::create_dir_all(project.path("settings/of")).unwrap();
    let outcome = project.run(&format!(
        "{LENET}:x,y --output settings/of/lenet.toml --divide 510 --mean 0.25 --std 0.5 --layout hw \
         --layers -1,/4/* --units --input-shape 1x28x28 --output-name output"
    ));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("8-bit"), "{}", outcome.stderr);
    let text = read(&project, "settings/of/lenet.toml");
    for line in [
        "model = \"../../lenet.onnx\"",
        "data = \"../../fashion-1000.npz:x,y\"",
        "input-shape = \"1x28x28\"",
        "output-name = \"output\"",
        "layers = [-1, \"/4/*\"]",
        "units = true",
        "divide = 510",
        "mean = 0.25",
        "std = 0.5",
        "layout = \"hw\"",
    ] {
        let found = text
            .lines()
            .any(|found| found.starts_with(&format!("{line} ")));
        assert!(found, "{line}: {text}");
    }
    let same = "lenet.onnx --data fashion-1000.npz --divide 510 --mean 0.25 --std 0.5";
    assert_eq!(
        project
            .run("predict --config settings/of/lenet.toml")
            .stdout,
        project.run(&format!("predict {same}")).stdout
    );
}

#[test]
fn a_file_that_is_there_stays() {
    let project = Project::new();
    project.write("npcov.toml", "threads = 2\n");
    let refused = project.run(LENET);
    assert_eq!(refused.code, Some(2));
    assert_eq!(
        refused.stderr,
        "error: `npcov.toml` exists; `--force` writes over it\n"
    );
    assert_eq!(read(&project, "npcov.toml"), "threads = 2\n");
    let forced = project.run(&format!("{LENET} --force"));
    assert_eq!(forced.code, Some(0), "{}", forced.stderr);
    assert!(read(&project, "npcov.toml").contains("model = \"lenet.onnx\""));
    let own = project.run(&format!("{LENET} --force --output lenet.onnx"));
    assert!(
        own.stderr.contains("would overwrite what is read"),
        "{}",
        own.stderr
    );
}

#[test]
fn numbers_that_are_no_bytes_are_not_divided() {
    let project = Project::new();
    project.npz("floats.npz", &[28, 28], &[0.5; 784], &[3]);
    let outcome = project.run("init lenet.onnx --data floats.npz");
    assert!(!outcome.stderr.contains("8-bit"), "{}", outcome.stderr);
    assert!(read(&project, "npcov.toml").contains("\n#divide = 255 "));
    // Nor bytes whose mean says what they are.
    project.run(&format!("{LENET} --force --mean 72.9 --std 90"));
    assert!(read(&project, "npcov.toml").contains("\n#divide = 255 "));
}
