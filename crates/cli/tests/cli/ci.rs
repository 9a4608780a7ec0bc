//! The gate of `docs/ci.md` in a git repository, driven as CI would: every run starts from a fresh
//! clone of a commit, and keeps nothing but the state of the main branch.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::docs::docs;
use crate::support::Project;

/// What the repository says of itself. Rules are relative where a number would have to be guessed.
const SETTINGS: &str = r#"
model = "model.onnx"
data = "train.npz"

[preprocessing]
divide = 255

[paths]
clusters = 2

[check]
fail-under = { snpc = "0.9*random", accuracy = 0.75 }
fail-on-thin = true
"#;

/// A repository with a model, data and the gate, beside the machine that runs CI for it.
struct Repository {
    project: Project,
    runs: TempDir,
    /// Images of the fixtures with their labels.
    images: Vec<(Vec<f32>, i64)>,
}

impl Repository {
    fn new() -> Repository {
        let project = Project::with_fixtures_in("fixtures");
        let x = project.rows("fixtures/fashion-1000.npz", "x");
        let y = project.rows("fixtures/fashion-1000.npz", "y").concat();
        let images = x.into_iter().zip(y.into_iter().map(|label| label as i64));
        let repository = Repository {
            images: images.collect(),
            runs: TempDir::new().unwrap(),
            project,
        };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository.project.write(".gitignore", "/fixtures/\n");
        repository.project.write("npcov.toml", SETTINGS);
        let script = std::fs::read(docs().join("ci/coverage-gate.sh")).unwrap();
        repository.project.write("ci/coverage-gate.sh", script);
        repository.model("lenet.onnx");
        repository.data("train.npz", &repository.images[..600]);
        repository.data("test.npz", &repository.images[600..]);
        repository
    }

    fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=npcov", "-c", "user.email=npcov@localhost"]);
        command.args(["-c", "commit.gpgsign=false"]);
        command.args(arguments).current_dir(self.project.path(""));
        let output = command.output().expect("git makes the repository");
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
    }

    fn model(&self, fixture: &str) {
        let content = std::fs::read(self.project.path(&format!("fixtures/{fixture}"))).unwrap();
        self.project.write("model.onnx", content);
    }

    fn data<'a>(&self, name: &str, images: impl IntoIterator<Item = &'a (Vec<f32>, i64)>) {
        let (x, y): (Vec<&[f32]>, Vec<i64>) = images
            .into_iter()
            .map(|(pixels, label)| (&pixels[..], *label))
            .unzip();
        self.project.npz(name, &[28, 28], &x.concat(), &y);
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    /// Clones the last commit and runs the gate in the clone.
    fn gate(&self, run: &str, base: Option<&Path>) -> Run {
        let folder = self.runs.path().join(run);
        let from = self.project.path("").to_str().unwrap().to_owned();
        self.git(&["clone", "--quiet", &from, folder.to_str().unwrap()]);
        std::fs::create_dir(folder.join("coverage")).unwrap();
        if let Some(base) = base {
            std::fs::copy(base, folder.join("coverage/base.npcov")).unwrap();
        }
        let output = Command::new("sh")
            .arg("ci/coverage-gate.sh")
            .current_dir(&folder)
            .env("NPCOV", env!("CARGO_BIN_EXE_npcov"))
            .env("GITHUB_STEP_SUMMARY", folder.join("summary.md"))
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Run { folder, output }
    }
}

/// What a run of the gate left.
struct Run {
    folder: PathBuf,
    output: Output,
}

impl Run {
    fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.output.stdout.clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).unwrap()
    }
}

#[test]
fn a_gate_passes_until_a_suite_loses_a_class() {
    let repository = Repository::new();
    repository.commit("A model with its tests");
    let main = repository.gate("main", None);
    assert_eq!(main.code(), Some(0), "{:?}", main.output);
    assert!(main.lines().iter().all(|line| line.starts_with("ok: ")));
    assert!(main.file("summary.md").contains("| SNPC | "));
    assert!(main.file("coverage/junit.xml").contains(" failures=\"0\""));
    let base = main.folder.join("coverage/state.npcov");

    // Nothing changed, compared with itself.
    let again = repository.gate("again", Some(&base));
    assert_eq!(again.code(), Some(0), "{:?}", again.output);
    let told = "ok: suite `test.npz`: by SNPC it reaches ";
    assert!(again.lines().iter().any(|line| line.starts_with(told)));

    // Ankle boots are gone.
    repository.git(&["switch", "--quiet", "--create", "smaller-suite"]);
    let tests = repository.images[600..].iter();
    repository.data("test.npz", tests.filter(|(_, label)| *label != 9));
    repository.commit("Leave some images out");
    let fewer = repository.gate("fewer", Some(&base));
    assert_eq!(fewer.code(), Some(1), "{:?}", fewer.output);
    let lines = fewer.lines();
    let gone = "failed: suite `test.npz`: class 9: ";
    let gone: Vec<&String> = lines.iter().filter(|line| line.starts_with(gone)).collect();
    // It is missing, and it was not.
    assert_eq!(gone.len(), 2, "{lines:?}");
    let lost =
        |line: &&&String| line.ends_with("how the model decides there is no longer tried out");
    assert_eq!(gone.iter().filter(lost).count(), 1, "{lines:?}");
    let ok = lines
        .iter()
        .any(|line| line.starts_with("ok: suite `test.npz`: 0 of "));
    assert!(ok, "{lines:?}");
    let summary = fewer.file("summary.md");
    assert!(summary.contains("▼ -") && summary.contains("Gap in **test.npz**: class 9: "));
    let junit = fewer.file("coverage/junit.xml");
    assert!(junit.contains("<failure type=\"newly-thin\""), "{junit}");
}

#[test]
fn a_gate_compares_a_retrained_model() {
    let repository = Repository::new();
    repository.commit("A model with its tests");
    let main = repository.gate("main", None);
    let base = main.folder.join("coverage/state.npcov");
    // Another file of the same weights: to npcov it is another model.
    repository.model("lenet-dynamo.onnx");
    repository.commit("Train again");
    let retrained = repository.gate("retrained", Some(&base));
    assert_eq!(retrained.code(), Some(0), "{:?}", retrained.output);
    let marked = |line: &&String| line.contains(" (model changed)");
    assert_eq!(retrained.lines().iter().filter(marked).count(), 1);
    assert!(retrained.file("summary.md").contains("**Model changed.**"));
    let talk = String::from_utf8(retrained.output.stderr).unwrap();
    assert!(
        talk.contains("note: the model changed: values can be compared"),
        "{talk}"
    );
}

#[test]
fn a_gate_that_cannot_be_applied_is_an_error() {
    let repository = Repository::new();
    let settings = SETTINGS.replace("snpc =", "spnc =");
    repository.project.write("npcov.toml", settings);
    repository.commit("A model with its tests");
    let run = repository.gate("main", None);
    assert_eq!(run.code(), Some(2), "{:?}", run.output);
    let talk = String::from_utf8(run.output.stderr).unwrap();
    assert!(
        talk.contains("`spnc` was not measured; there are accuracy, snpc"),
        "{talk}"
    );
}

#[test]
fn the_workflow_runs_the_gate() {
    let page = std::fs::read_to_string(docs().join("ci.md")).unwrap();
    assert!(page.contains("run: sh ci/coverage-gate.sh"));
    // What the workflow keeps is what the gate writes and reads.
    for file in [
        "graph.npcov",
        "base.npcov",
        "state.npcov",
        "report.md",
        "junit.xml",
    ] {
        assert!(page.contains(&format!("coverage/{file}")), "{file}");
    }
}
