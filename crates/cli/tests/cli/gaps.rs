//! `npcov gaps`.

use insta::assert_snapshot;

use crate::build::{json, succeed};
use crate::support::Project;

/// A project with a decision graph `g.npcov` of lenet, and the state `all.npcov` of the images that it was
/// not learnt from.
fn with_graph() -> Project {
    let project = Project::new();
    succeed(
        &project,
        "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 500 --clusters 2 --criteria snpc -o g.npcov",
    );
    project
}

/// Writes those of the images from 500 on that are wanted, and their labels.
fn write(project: &Project, name: &str, wanted: impl Fn(usize) -> bool) {
    let (x, y) = (
        project.rows("fashion-1000.npz", "x"),
        project.rows("fashion-1000.npz", "y"),
    );
    let rows: Vec<usize> = (500..1000).filter(|&row| wanted(row)).collect();
    let pixels: Vec<f32> = rows.iter().flat_map(|&row| x[row].clone()).collect();
    let labels: Vec<i64> = rows.iter().map(|&row| y[row][0] as i64).collect();
    project.npz(name, &[28, 28], &pixels, &labels);
}

/// By image from 500 on, the prediction and the cluster.
fn places(project: &Project) -> Vec<(usize, usize)> {
    succeed(
        project,
        "cover g.npcov --data fashion-1000.npz --criteria snpc --inputs places.npz -o all.npcov",
    );
    let column = |name: &str| project.rows("places.npz", name).concat();
    let places = column("prediction").into_iter().zip(column("cluster"));
    places
        .map(|(class, cluster)| (class as usize, cluster as usize))
        .collect()
}

#[test]
fn a_class_that_is_missing_is_found_and_filled() {
    let project = with_graph();
    let places = places(&project);
    write(&project, "suite.npz", |row| places[row].0 != 8);
    succeed(
        &project,
        "cover g.npcov --data suite.npz --name s -o s.npcov",
    );
    assert_snapshot!("gaps_words", project.snapshot("gaps g.npcov s.npcov"));
    let fill = "gaps g.npcov s.npcov --pool fashion-1000.npz -o add.npz --picture gaps.png --data suite.npz";
    assert_snapshot!("gaps_pool", project.snapshot(fill));
    let picture = std::fs::read(project.path("gaps.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
    assert!(!project.path("add.npz.parts").exists());
    let found = json(&project, "gaps g.npcov s.npcov --pool fashion-1000.npz");
    let [gap] = &found["gaps"].as_array().unwrap()[..] else {
        panic!("{found}")
    };
    assert_eq!(
        (&gap["class"], &gap["cluster"]),
        (&8.into(), &serde_json::Value::Null)
    );
    // As many as are missing, all of them classified as the class, no two alike.
    let add = gap["add"].as_array().unwrap();
    assert_eq!(gap["missing"], add.len());
    let mut inputs: Vec<usize> = add
        .iter()
        .map(|i| i["input"].as_u64().unwrap() as usize)
        .collect();
    assert!(inputs.iter().all(|&input| places[input].0 == 8), "{gap}");
    let written: Vec<usize> = project
        .rows("add.npz", "index")
        .iter()
        .map(|i| i[0] as usize)
        .collect();
    assert_eq!(inputs, written);
    inputs.sort_unstable();
    inputs.dedup();
    assert_eq!(inputs.len(), add.len());
    // Together there is nothing missing, and the class is as frequent as in training.
    succeed(
        &project,
        "cover g.npcov --data add.npz --name s -o added.npcov",
    );
    succeed(&project, "merge s.npcov added.npcov -o filled.npcov");
    assert_snapshot!("gaps_none", project.snapshot("gaps g.npcov filled.npcov"));
    let report = json(&project, "report filled.npcov");
    let class = &report["suites"][0]["classes"][8];
    let (has, expected) = (
        class["inputs"].as_f64().unwrap(),
        class["expected"].as_f64().unwrap(),
    );
    assert!((has - expected).abs() < 2.0, "{class}");
}

/// The same images, of which none is labelled as a shirt any more: the network predicts shirts as before.
#[test]
fn a_class_that_is_gone_by_label_is_named_and_filled() {
    let project = with_graph();
    let images = project.rows("fashion-1000.npz", "x")[500..].concat();
    let labels = project.rows("fashion-1000.npz", "y")[500..].concat();
    let labels: Vec<i64> = labels.iter().map(|&label| label as i64).collect();
    let others: Vec<i64> = labels.iter().map(|&l| if l == 6 { 0 } else { l }).collect();
    let shirts = labels.iter().filter(|&&label| label == 6).count();
    for (name, labels) in [("whole", &labels[..]), ("others", &others), ("silent", &[])] {
        project.npz(&format!("{name}.npz"), &[28, 28], &images, labels);
        succeed(
            &project,
            &format!("cover g.npcov --data {name}.npz --name s -o {name}.npcov"),
        );
    }
    let check = |state: &str, options: &str| {
        let command = format!("check {state}.npcov --against whole.npcov {options} --format json");
        let outcome = project.run(&command);
        let found: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        let findings = found["findings"].as_array().unwrap().clone();
        let thin: Vec<_> = (findings.iter())
            .flat_map(|finding| finding["thin"].as_array().unwrap().clone())
            .collect();
        (outcome.code, thin)
    };
    let (code, thin) = check("others", "");
    let [thin] = &thin[..] else {
        panic!("{thin:?}")
    };
    assert_eq!(code, Some(1));
    assert_eq!(
        (&thin["class"], &thin["by"], &thin["cluster"]),
        (&6.into(), &"label".into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&thin["inputs"], &thin["earlier"]),
        (&0.into(), &shirts.into())
    );
    // Without labels nobody can tell, and without shirts on purpose nothing is lost.
    assert_eq!(check("silent", ""), (Some(0), vec![]));
    project.write("shares.txt", "2 1 1 1 1 1 0 1 1 1\n");
    assert_eq!(
        check("others", "--class-shares shares.txt"),
        (Some(0), vec![])
    );
    let balanced = check("others", "--class-shares balanced");
    assert_eq!((balanced.0, balanced.1.len()), (Some(1), 1));
    let words = |command: &str| project.snapshot(command);
    assert_snapshot!("gaps_by_label", words("gaps g.npcov others.npcov"));
    assert_snapshot!("report_by_label", words("report others.npcov"));

    let pool = "gaps g.npcov others.npcov --pool fashion-1000.npz";
    let found = json(&project, &format!("{pool} -o add.npz"));
    let [gap] = &found["gaps"].as_array().unwrap()[..] else {
        panic!("{found}")
    };
    let add = gap["add"].as_array().unwrap();
    assert_eq!(
        (&gap["by"], &gap["missing"]),
        (&"label".into(), &add.len().into())
    );
    assert!(add.iter().all(|input| input["label"] == 6), "{gap}");
    assert!(
        gap["exemplars"]
            .as_array()
            .unwrap()
            .iter()
            .all(|e| e["label"] == 6)
    );
    assert_eq!(project.rows("add.npz", "index").len(), add.len());
    succeed(
        &project,
        "cover g.npcov --data add.npz --name s -o add.npcov",
    );
    succeed(&project, "merge others.npcov add.npcov -o filled.npcov");
    let left = json(&project, "gaps g.npcov filled.npcov");
    assert_eq!(left["gaps"], serde_json::json!([]));
    // The gate against nothing earlier says so too.
    let verdict = |state: &str| {
        project
            .run(&format!("check {state}.npcov --fail-on-thin"))
            .code
    };
    assert_eq!((verdict("others"), verdict("filled")), (Some(1), Some(0)));
    // A pool without labels has nothing to offer, and it is said why.
    let silent = succeed(&project, &pool.replace("fashion-1000", "silent")).stdout;
    assert!(
        silent.contains("nothing: the pool has no labels\n"),
        "{silent}"
    );
}

#[test]
fn a_cluster_that_is_missing_is_found_and_filled() {
    let project = with_graph();
    let places = places(&project);
    let size = |cluster: usize| {
        places[500..]
            .iter()
            .filter(|place| place.1 == cluster)
            .count()
    };
    let largest = (0..20).max_by_key(|&cluster| size(cluster)).unwrap();
    write(&project, "suite.npz", |row| places[row].1 != largest);
    write(&project, "pool.npz", |row| {
        places[row].1 == largest || row % 5 == 0
    });
    succeed(&project, "cover g.npcov --data suite.npz -o s.npcov");
    let found = json(&project, "gaps g.npcov s.npcov --pool pool.npz --count 7");
    let gaps = found["gaps"].as_array().unwrap();
    let gap = gaps.iter().find(|gap| gap["cluster"] == largest).unwrap();
    assert_eq!(gap["inputs"], 0);
    assert_eq!(gap["present"], serde_json::json!([]));
    // The suite's nearest are others of the class.
    let nearest = gap["nearest"].as_array().unwrap();
    assert_eq!(nearest.len(), 5);
    let kept: Vec<usize> = (500..1000)
        .filter(|&row| places[row].1 != largest)
        .collect();
    let class = gap["class"].as_u64().unwrap() as usize;
    for input in nearest {
        let row = kept[input["input"].as_u64().unwrap() as usize];
        assert_eq!(places[row].0, class, "{input}");
    }
    let words = succeed(&project, "gaps g.npcov s.npcov").stdout;
    assert!(words.contains("\n  nearest in the suite "), "{words}");
    // The gate against nothing earlier sees clusters where it is asked to.
    let verdict = |flag: &str| project.run(&format!("check s.npcov {flag}"));
    let classes = verdict("--fail-on-thin").stdout;
    assert!(!classes.contains("cluster"), "{classes}");
    let clusters = verdict("--fail-on-thin=clusters");
    assert_eq!(clusters.code, Some(1), "{}", clusters.stderr);
    let named = format!("failed: suite `suite.npz`: cluster {largest} of class {class}: no inputs");
    assert!(clusters.stdout.contains(&named), "{}", clusters.stdout);
    project.write("npcov.toml", "[check]\nfail-on-thin = \"clusters\"\n");
    assert_eq!(verdict("").stdout, clusters.stdout);
    let add = gap["add"].as_array().unwrap();
    assert_eq!(add.len(), 7);
    assert!(add.iter().all(|input| input["cluster"] == largest), "{gap}");
    let distances: Vec<f64> = add
        .iter()
        .map(|i| i["distance"].as_f64().unwrap())
        .collect();
    assert!(distances.is_sorted(), "{distances:?}");
    // Typical inputs are members of the cluster.
    let exemplars = gap["exemplars"].as_array().unwrap();
    assert_eq!(exemplars.len(), 5);
    for exemplar in exemplars {
        let row = exemplar["input"].as_u64().unwrap() as usize;
        assert!(row < 500 && places[row].1 == largest, "{exemplar}");
    }
    // What the suite has is not added to it again: it is the pool here.
    let own = json(&project, "gaps g.npcov s.npcov --pool suite.npz");
    assert_eq!(own["pool"]["taken"], 0);
    let none = succeed(
        &project,
        "gaps g.npcov s.npcov --pool suite.npz -o none.npz",
    );
    assert_eq!(
        none.stderr,
        "note: `none.npz` is not written: there is nothing to add\n"
    );
    let words = "\nnothing of suite.npz to add\n";
    assert!(none.stdout.ends_with(words), "{}", none.stdout);
}

#[test]
fn a_suite_that_is_too_small_is_not_called_complete() {
    let project = with_graph();
    let cover = "cover g.npcov --data fashion-1000.npz --criteria snpc --name s";
    succeed(&project, &format!("{cover} --limit 8 -o s.npcov"));
    assert_snapshot!("gaps_too_small", project.snapshot("gaps g.npcov s.npcov"));
    let found = json(&project, "gaps g.npcov s.npcov");
    assert_eq!(found["judged"]["classes"], 0);
    assert_eq!(found["judged"]["classes_not_judged"], 10);
    let check = "check s.npcov --against s.npcov";
    assert_snapshot!("check_too_small", project.snapshot(check));
}

#[test]
fn a_suite_larger_than_the_training_data_is_judged() {
    let project = Project::new();
    succeed(
        &project,
        "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 200 --clusters 1 --criteria snpc -o g.npcov",
    );
    succeed(
        &project,
        "cover g.npcov --data fashion-1000.npz --name s -o all.npcov",
    );
    let labels = project.rows("fashion-1000.npz", "y");
    write(&project, "suite.npz", |row| labels[row][0] != 8.0);
    let cover = succeed(
        &project,
        "cover g.npcov --data suite.npz --name s -o s.npcov",
    )
    .stdout;
    let headline = cover.lines().next().unwrap();
    assert!(headline.starts_with("s reaches "), "{cover}");
    assert!(headline.ends_with(" training inputs reach"), "{cover}");
    assert!(headline.contains(" of what all "), "{cover}");
    let check = project.run("check s.npcov --against all.npcov");
    assert_eq!(check.code, Some(1), "{}", check.stderr);
    assert!(check.stdout.contains("class 8: "), "{}", check.stdout);
    let note = "not judged: suite `s`: whether it covers less by SNPC: ";
    assert!(check.stdout.contains(note), "{}", check.stdout);
    // Who names the criterion is told that it cannot be judged.
    let named = project.run("check s.npcov --against all.npcov --fail-on-loss snpc");
    assert_eq!(named.code, Some(2));
}

#[test]
fn images_become_a_folder_of_links() {
    let project = with_graph();
    let places = places(&project);
    write(&project, "suite.npz", |row| {
        ![8, 9].contains(&places[row].0)
    });
    succeed(
        &project,
        "cover g.npcov --data suite.npz --name s -o s.npcov",
    );
    project.images("pool", &[(1, "a"), (8, "bag"), (9, "boot")], 20);
    let fill = "gaps g.npcov s.npcov --pool pool --count 3 -o add";
    assert_snapshot!("gaps_links", project.snapshot(fill));
    let classes = ["bag", "boot"].map(|class| {
        let entries = std::fs::read_dir(project.path(&format!("add/{class}"))).unwrap();
        entries.count()
    });
    assert_eq!(classes, [3, 3]);
    assert!(!project.path("add/a").exists());
    succeed(&project, "predict lenet.onnx --data add --divide 255");
    // What is there is not replaced.
    let again = project.run(fill);
    assert_eq!(again.code, Some(2));
    succeed(&project, &fill.replace("-o add", "-o add.npz"));
    assert_eq!(project.texts("add.npz", "name").len(), 6);
}

#[test]
fn what_says_nothing_of_gaps_is_refused() {
    let project = with_graph();
    succeed(
        &project,
        "cover g.npcov --data fashion-1000.npz --criteria nc --limit 50 --name s -o nc.npcov",
    );
    succeed(
        &project,
        "cover g.npcov --data fashion-1000.npz --criteria snpc --limit 50 --name s -o s.npcov",
    );
    succeed(
        &project,
        "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 60 --clusters 1 --criteria snpc -o h.npcov",
    );
    for (name, arguments) in [
        ("gaps_without_paths", "gaps g.npcov nc.npcov"),
        ("gaps_no_such_suite", "gaps g.npcov s.npcov --suite t"),
        ("gaps_another_graph", "gaps h.npcov s.npcov"),
        (
            "gaps_output_without_pool",
            "gaps g.npcov s.npcov -o add.npz",
        ),
    ] {
        let outcome = project.run(arguments);
        assert_eq!(outcome.code, Some(2), "{name}: {}", outcome.stderr);
        let digest = |text: &str| -> String {
            let words = text.split_inclusive(char::is_whitespace);
            let hidden = words.map(|word| match word.len() > 60 {
                true => "[DIGEST] ".to_owned(),
                false => word.to_owned(),
            });
            hidden.collect()
        };
        assert_snapshot!(name, digest(&outcome.stderr));
    }
}
