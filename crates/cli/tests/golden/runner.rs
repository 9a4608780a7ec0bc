//! Running the commands of a script.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::flatten::flatten;
use crate::npz;
use crate::script::{EXIT, Line, Script, Step};

/// Runs all commands of a script in a folder of its own, and returns it with what they gave.
pub(crate) fn run(script: &Script) -> Script {
    let folder = TempDir::new().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    copy_files(&here.join("../../fixtures"), folder.path(), "");
    copy_files(&here.join("tests/golden"), folder.path(), ".toml");
    let steps = script.steps.iter();
    Script {
        steps: steps.map(|step| one(step, folder.path())).collect(),
    }
}

/// Copies the files of a folder whose names end in a certain way.
fn copy_files(from: &Path, to: &Path, ending: &str) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_file() && name.ends_with(ending) {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

fn one(step: &Step, folder: &Path) -> Step {
    let words: Vec<&str> = step.command.split_whitespace().collect();
    let output = Command::new(env!("CARGO_BIN_EXE_npcov"))
        .args(&words)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let code = output.status.code().unwrap();
    let talk = String::from_utf8(output.stderr).unwrap();
    let mut lines = vec![Line::new(EXIT, code)];
    // 0 and 1 are results; 2 is an error, which has no numbers.
    if code < 2 {
        let text = String::from_utf8(output.stdout).unwrap();
        lines.extend(match option(&words, &["--format"]).next() {
            Some("json") => flatten(&text),
            _ => printed(&text),
        });
        let files = option(&words, &["-o", "--output", "--inputs"]);
        let files = files.filter(|file| file.ends_with(".npz"));
        lines.extend(files.flat_map(|file| npz::arrays(folder, file)));
    }
    Step {
        comments: step.comments.clone(),
        command: step.command.clone(),
        lines,
        talk,
    }
}

/// What follows one of these options.
fn option<'a>(words: &[&'a str], names: &[&str]) -> impl Iterator<Item = &'a str> {
    let pairs = words.windows(2);
    pairs.filter_map(move |pair| names.contains(&pair[0]).then_some(pair[1]))
}

/// Text for people, line by line.
fn printed(text: &str) -> Vec<Line> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty());
    lines
        .map(|(i, line)| Line::new(format!("text[{i}]"), format!("{line:?}")))
        .collect()
}

/// Says something even when the test passes: `eprintln` would be kept back.
pub(crate) fn say(text: &str) {
    let line = format!("{text}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}
