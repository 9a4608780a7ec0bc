//! Reports of real states: of images in files, of a table and of series in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use npcov::coverage::{Losses, PerClass};
use npcov::criteria::Spec;
use npcov::data::{Preprocessing, open};
use npcov::paths::{Clustering, Clusters};
use npcov::{BuildOptions, Coverage, DecisionGraph, Gate, Inputs, Model};
use npcov_html::{Dossier, Material, Names, gather, write_file, write_folder};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

fn options() -> BuildOptions {
    BuildOptions {
        criteria: Some(vec![Spec::named("snpc")]),
        clustering: Clustering::KMeans,
        clusters: PerClass::all(Clusters::Fixed(2)),
        ..BuildOptions::default()
    }
}

struct Images {
    graph: DecisionGraph,
    coverage: Coverage,
    earlier: Coverage,
}

impl Images {
    /// A suite that lacks a class which an earlier one had.
    fn new(threads: usize) -> Images {
        let scale = Preprocessing {
            divide: Some(255.0),
            ..Preprocessing::default()
        };
        let model = Model::open(fixture("lenet.onnx"))
            .unwrap()
            .with_preprocessing(scale)
            .with_threads(threads);
        let data = open(fixture("fashion-1000.npz")).unwrap();
        let graph = model
            .build(Inputs::from(&data).rows(0..300), &options(), &mut ())
            .unwrap();
        let earlier = graph
            .cover("suite", Inputs::from(&data).rows(300..400), &mut ())
            .unwrap();
        let coverage = graph
            .cover("suite", Inputs::from(&data).rows(400..460), &mut ())
            .unwrap();
        Images {
            graph,
            coverage,
            earlier,
        }
    }

    fn dossier(&self) -> Dossier {
        let data = open(fixture("fashion-1000.npz")).unwrap();
        let gate = Gate {
            losses: Some(Losses::Usual),
            ..Gate::default()
        };
        let material = Material {
            earlier: Some(&self.earlier),
            gate: Some(&gate),
            graph: Some(&self.graph),
            data: vec![self.graph.loader(data).unwrap()],
            ..Material::new(&self.coverage)
        };
        gather(material, &mut ()).unwrap()
    }
}

/// All files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(place) = folders.pop() {
        for entry in std::fs::read_dir(place).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => {
                    let bytes = std::fs::read(&path).unwrap();
                    found.insert(path.strip_prefix(folder).unwrap().to_owned(), bytes);
                }
            }
        }
    }
    found
}

#[test]
fn a_report_is_the_same_bytes_and_asks_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let written = |threads: usize| {
        let place = folder.path().join(threads.to_string());
        write_folder(&Images::new(threads).dossier(), &place).unwrap();
        files(&place)
    };
    let (one, two) = (written(1), written(2));
    assert_eq!(
        one.keys().collect::<Vec<_>>(),
        two.keys().collect::<Vec<_>>()
    );
    for (name, bytes) in &one {
        assert_eq!(Some(bytes), two.get(name), "{}", name.display());
        let text = String::from_utf8_lossy(bytes);
        if name.extension().is_some_and(|ending| ending != "png") {
            assert!(
                !text.contains("http://") && !text.contains("https://"),
                "{}",
                name.display()
            );
        }
    }
    for page in [
        "index.html",
        "class-0.html",
        "cluster-0.html",
        "input-0-0.html",
        "errors.html",
        "explorer.html",
        "changes.html",
        "style.css",
        "script.js",
        "report.json",
    ] {
        assert!(one.contains_key(Path::new(page)), "{page}");
    }
    let index = String::from_utf8(one[Path::new("index.html")].clone()).unwrap();
    assert!(index.contains("rules"), "the verdict");
    assert!(
        one.keys()
            .any(|name| name.to_string_lossy().ends_with("-heat.png"))
    );
    // Written again, nothing of the first remains that is not part of the second.
    let place = folder.path().join("1");
    let numbers = place.join("report.json");
    let text = std::fs::read_to_string(&numbers).unwrap();
    let listed = [
        "cluster-999.html",
        "pictures/999.png",
        "../mine.html",
        "notes.txt",
    ];
    for name in listed {
        std::fs::write(place.join(name), "").unwrap();
    }
    let more = format!("\"files\": [\n    \"{}\",", listed.join("\", \""));
    let forged = text.replace("\"files\": [", &more);
    assert_ne!(forged, text);
    std::fs::write(&numbers, forged).unwrap();
    // What no list has is not the report's.
    std::fs::write(place.join("thesis.html"), "").unwrap();
    std::fs::write(place.join("pictures/cat.png"), "").unwrap();
    write_folder(&Images::new(1).dossier(), &place).unwrap();
    for kept in [
        "thesis.html",
        "pictures/cat.png",
        "../mine.html",
        "notes.txt",
    ] {
        std::fs::remove_file(place.join(kept)).expect(kept);
    }
    assert_eq!(files(&place), one);
}

/// Folders that look like a report and are none, and links in them.
#[cfg(unix)]
#[test]
fn what_is_behind_links_and_beside_foreign_reports_stays() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let coverage = Images::new(2).coverage;
    let dossier = gather(Material::new(&coverage), &mut ()).unwrap();
    let write = |name: &str| write_folder(&dossier, at(name)).map_err(|e| e.to_string());
    std::fs::create_dir_all(at("web/pictures")).unwrap();
    std::fs::write(at("web/thesis.html"), "mine").unwrap();
    for foreign in [
        "{}",
        "no JSON",
        "{\"facts\": 1, \"views\": 2, \"files\": []}",
    ] {
        std::fs::write(at("web/report.json"), foreign).unwrap();
        let error = write("web").unwrap_err();
        assert!(error.contains("holds other files than a report"), "{error}");
    }
    // A page that is a link is replaced; what it led to is not.
    write("report").unwrap();
    std::fs::write(at("model.onnx"), "mine").unwrap();
    std::fs::remove_file(at("report/index.html")).unwrap();
    symlink(at("model.onnx"), at("report/index.html")).unwrap();
    write("report").unwrap();
    assert_eq!(std::fs::read(at("model.onnx")).unwrap(), b"mine");
    assert!(
        at("report/index.html")
            .symlink_metadata()
            .unwrap()
            .is_file()
    );
    // Folders that are links are not entered.
    std::fs::remove_dir(at("report/pictures")).unwrap();
    symlink(at("web/pictures"), at("report/pictures")).unwrap();
    symlink(at("report"), at("link")).unwrap();
    for name in ["report", "link"] {
        assert!(write(name).unwrap_err().contains("cannot write"), "{name}");
    }
}

#[test]
fn other_folders_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thesis.tex"), "years").unwrap();
    let coverage = Images::new(2).coverage;
    let dossier = gather(Material::new(&coverage), &mut ()).unwrap();
    let error = write_folder(&dossier, folder.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("holds other files than a report"),
        "{error}"
    );
    assert_eq!(files(folder.path()).len(), 1);
    // Without graph and data there are numbers, and a word on what is missing.
    let file = folder.path().join("report.html");
    write_file(&dossier, &file).unwrap();
    let html = std::fs::read_to_string(file).unwrap();
    assert!(html.contains("The decision graph is not there"), "{html}");
}

/// The report of a model on its own training data, and the page of its first input.
fn page_of_input(name: &str, names: Names) -> String {
    let model = Model::open(fixture(&format!("report/{name}.onnx"))).unwrap();
    let data = open(fixture(&format!("report/{name}.npz"))).unwrap();
    let graph = model.build(&data, &options(), &mut ()).unwrap();
    let coverage = graph.cover("suite", &data, &mut ()).unwrap();
    let material = Material {
        graph: Some(&graph),
        data: vec![graph.loader(data).unwrap()],
        names,
        ..Material::new(&coverage)
    };
    let dossier = gather(material, &mut ()).unwrap();
    assert!(dossier.notes.is_empty(), "{:?}", dossier.notes);
    let folder = tempfile::tempdir().unwrap();
    write_folder(&dossier, folder.path()).unwrap();
    std::fs::read_to_string(folder.path().join("input-0-0.html")).unwrap()
}

#[test]
fn rows_of_a_table_have_named_features() {
    let features = std::fs::read_to_string(fixture("report/iris-features.txt")).unwrap();
    let names = Names {
        features: features.lines().map(str::to_owned).collect(),
        words: Vec::new(),
    };
    let html = page_of_input("iris", names);
    // The first flower is 5.1 cm long.
    assert!(
        html.contains("<th scope=\"row\">sepal length (cm)</th><td class=\"n\">5.100</td>"),
        "{html}"
    );
    assert!(
        html.contains("class=\"for fill\"") || html.contains("class=\"against fill\""),
        "{html}"
    );
    assert!(page_of_input("iris", Names::default()).contains("feature 3"));
}

#[test]
fn series_are_lines_with_relevance_below() {
    let html = page_of_input("bumps", Names::default());
    assert!(html.contains("<polyline class=\"line\""), "{html}");
    assert!(html.contains("<path class=\"for\""), "{html}");
}
