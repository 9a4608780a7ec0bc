//! `npcov export`. That others read its files is tested with their programs (`make test-scale`).

use std::fs;

use npcov::data::Digest;

use crate::build::{json, succeed};
use crate::support::Project;

const BUILD: &str =
    "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 200 --clusters 2 -o g.npcov";

#[test]
fn files_are_those_of_the_list() {
    let project = Project::new();
    succeed(&project, BUILD);
    let told = succeed(&project, "export g.npcov -o paths --rows 90");
    assert!(told.stdout.starts_with("200 training inputs in 3 files, "));
    let list = json(&project, "export g.npcov -o paths --rows 90");
    assert_eq!(list["inputs"], 200);
    let files = list["files"].as_array().unwrap();
    let rows = |file: &serde_json::Value| (file["start"].as_u64(), file["end"].as_u64());
    let wanted = [(0, 90), (90, 180), (180, 200)].map(|(a, b)| (Some(a), Some(b)));
    assert_eq!(files.iter().map(rows).collect::<Vec<_>>(), wanted);
    for file in files {
        let name = file["name"].as_str().unwrap();
        let bytes = fs::read(project.path("paths").join(name)).unwrap();
        assert_eq!(file["sha256"], Digest::of(&bytes).to_string());
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    }
    let written = fs::read_to_string(project.path("paths").join("_manifest.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["files"], list["files"]);
    let bytes = |list: &serde_json::Value| list["files"][0]["bytes"].as_u64().unwrap();
    let none = json(&project, "export g.npcov -o none --activations none");
    assert!(bytes(&none) < bytes(&list));
}

#[test]
fn what_is_no_graph_is_named() {
    let project = Project::new();
    for command in [
        "export lenet.onnx -o paths",
        "export nowhere.npcov -o paths",
        "export lenet.onnx -o paths --rows 0",
    ] {
        let outcome = project.run(command);
        assert_eq!(outcome.code, Some(2), "{command}");
        assert!(!project.path("paths").exists());
    }
}
