//! `npcov demo`.

use insta::assert_snapshot;

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
    let picture = "  The same as a picture: tour/here/heatmap.png\n";
    assert!(kept.stdout.contains(picture), "{}", kept.stdout);
    let keep = "  `npcov demo --keep FOLDER` keeps it as a picture, and all files of this tour.\n";
    let kept_as_shown = kept.stdout.replace(picture, keep);
    assert!(shown.contains(&kept_as_shown), "{}", kept.stdout);
    assert_eq!(
        files(&project, "tour/here"),
        [
            "graph.npcov",
            "heatmap.png",
            "model.onnx",
            "random.npz",
            "state.npcov",
            "test.npz",
            "train.npz",
            "two-classes.npz",
            "with-errors.npz",
        ]
    );
    // The commands of the tour work on what it leaves: the mistake is the one that was shown.
    let command = kept
        .stdout
        .lines()
        .find_map(|line| line.trim().strip_prefix("$ npcov explain "));
    let arguments = command
        .unwrap()
        .replace("graph.npcov", "tour/here/graph.npcov");
    let arguments = arguments.replace("with-errors", "tour/here/with-errors");
    let explained = project.run(&format!("explain {arguments} --heatmap why.png"));
    let (_, score) = kept.stdout.split_once("its score `contested`, ").unwrap();
    let score = score.split(',').next().unwrap();
    let told = format!("contested   {score}");
    assert!(explained.stdout.contains(&told), "{}", explained.stdout);
    let picture = |name: &str| std::fs::read(project.path(name)).unwrap();
    assert!(picture("why.png") == picture("tour/here/heatmap.png"));
    // A folder with files in it may be somebody's.
    let refused = project.run("demo --keep tour/here");
    assert_eq!(refused.code, Some(2));
    assert_eq!(
        refused.stderr,
        "error: `tour/here` is not empty; name a new folder\n"
    );
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

#[test]
fn its_model_and_images_are_those_of_the_other_tests() {
    let file = |path: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        std::fs::read(path).unwrap()
    };
    assert!(file("demo/model.onnx") == file("../../fixtures/resnet8.onnx"));
    assert!(file("demo/test.npz") == file("../../fixtures/fashion-1000.npz"));
}
