//! `npcov demo`.

use insta::assert_snapshot;

use crate::build::{json, succeed};
use crate::support::Project;

#[test]
fn the_tour() {
    let project = Project::new();
    let before = files(&project, "");
    let shown = project.snapshot("demo");
    assert_snapshot!(shown);
    assert_eq!(files(&project, ""), before);
    // Of the user's settings only the number of threads counts, and it changes nothing.
    project.write("npcov.toml", "model = \"missing.onnx\"\nthreads = 1\n");
    let kept = project.run("demo --keep tour/here");
    let picture = "All of it as a picture, for each gap what is typical and what to add: tour/here/gaps.png\n";
    assert!(kept.stdout.contains(picture), "{}", kept.stdout);
    let keep = "`npcov demo --keep FOLDER` keeps all files, and a picture of the gaps.\n";
    let pages = "  $ npcov report suite.npcov --against earlier.npcov --pool pool.npz --html report\n  \
                 The same as pages with pictures: tour/here/report/index.html\n";
    let kept_as_shown = kept.stdout.replace(&format!("{picture}\n{pages}"), keep);
    assert!(shown.contains(&kept_as_shown), "{}", kept.stdout);
    assert_eq!(
        files(&project, "tour/here"),
        [
            "add.npcov",
            "add.npz",
            "earlier.npcov",
            "earlier.npz",
            "filled.npcov",
            "gaps.png",
            "graph.npcov",
            "model.onnx",
            "pool.npz",
            "report",
            "suite.npcov",
            "suite.npz",
            "test.npz",
            "train.npz",
        ]
    );
    // A folder with files in it may be somebody's.
    let refused = project.run("demo --keep tour/here");
    assert_eq!(refused.code, Some(2));
    assert_eq!(
        refused.stderr,
        "error: `tour/here` is not empty; name a new folder\n"
    );
}

/// What the tour claims, by the commands that it shows, on what it leaves.
#[test]
fn the_suite_looks_fine_is_not_and_is_filled() {
    let project = Project::new();
    succeed(&project, "demo --keep t");
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    // Its images are those of the other tests, their grey levels rounded to multiples of eight.
    let rounded = |grey: f32| (((grey + 4.0) / 8.0).floor() * 8.0).min(248.0);
    let images = project.rows("fashion-1000.npz", "x").into_iter();
    let images = images.map(|image| image.into_iter().map(rounded).collect());
    assert!(project.rows("t/test.npz", "x") == images.collect::<Vec<Vec<f32>>>());
    assert!(project.rows("t/test.npz", "kind") == project.rows("fashion-1000.npz", "y"));
    // It looks fine: as many are right as earlier, and no group is thin.
    let report = json(&project, "report t/suite.npcov --against t/earlier.npcov");
    let earlier = json(&project, "report t/earlier.npcov");
    let (suite, earlier) = (&report["suites"][0], &earlier["suites"][0]);
    assert!(number(&suite["accuracy"]) >= 0.99, "{}", suite["accuracy"]);
    assert!(number(&suite["accuracy"]) >= number(&earlier["accuracy"]) - 0.005);
    for class in suite["classes"].as_array().unwrap() {
        let (has, expected) = (number(&class["inputs"]), number(&class["expected"]));
        assert!(
            class["thin"] == false && (has - expected).abs() < 5.0,
            "{class}"
        );
    }
    assert!(suite["classes"].as_array().unwrap().len() == 3);
    // It is not: clusters of bags are empty, and nothing else is missing.
    let found = json(&project, "gaps t/graph.npcov t/suite.npcov");
    let kinds = project.rows("t/train.npz", "kind");
    let gaps = found["gaps"].as_array().unwrap();
    assert!(!gaps.is_empty());
    for gap in gaps {
        let exemplars = gap["exemplars"].as_array().unwrap();
        assert!(!exemplars.is_empty());
        for exemplar in exemplars {
            let row = exemplar["input"].as_u64().unwrap() as usize;
            assert_eq!(kinds[row], [8.0], "{gap}");
        }
    }
    let check = |state: &str| {
        let outcome = project.run(&format!("check t/{state}.npcov --against t/earlier.npcov"));
        (outcome.code, outcome.stdout)
    };
    assert_eq!(check("suite").0, Some(1));
    // It is filled, by bags: nothing is missing, and the gate passes.
    let kinds = project.rows("t/pool.npz", "kind");
    let added = project.rows("t/add.npz", "index");
    let bags = added
        .iter()
        .filter(|input| kinds[input[0] as usize] == [8.0]);
    assert!(bags.count() * 10 >= added.len() * 9);
    let left = json(&project, "gaps t/graph.npcov t/filled.npcov");
    assert_eq!(left["gaps"], serde_json::json!([]));
    let (code, text) = check("filled");
    assert_eq!(code, Some(0), "{text}");
}

/// Names of the files in a folder.
fn files(project: &Project, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(project.path(folder)).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect();
    names.sort();
    names
}
