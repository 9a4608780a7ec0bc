//! Scripts: commands, and what each of them gave.

use std::collections::HashMap;
use std::fmt::{self, Display};

/// Commands that run one after the other in one folder.
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
}

/// A command and what it gave.
pub(crate) struct Step {
    /// Lines that begin with `#`, in front of the command.
    pub(crate) comments: Vec<String>,
    /// Its arguments.
    pub(crate) command: String,
    pub(crate) lines: Vec<Line>,
    /// What it had to say; not recorded, but shown when the exit code differs.
    pub(crate) talk: String,
}

/// A number, or a digest of several, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) path: String,
    pub(crate) value: String,
}

impl Line {
    pub(crate) fn new(path: impl Into<String>, value: impl Display) -> Line {
        Line {
            path: path.into(),
            value: value.to_string(),
        }
    }
}

/// The path of exit codes.
pub(crate) const EXIT: &str = "exit code";

impl Script {
    /// Reads what [`Display`] writes.
    pub(crate) fn parse(text: &str) -> Script {
        let mut steps: Vec<Step> = Vec::new();
        let mut comments = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if line.starts_with('#') {
                comments.push(line.to_owned());
            } else if let Some(command) = line.strip_prefix("$ npcov ") {
                steps.push(Step {
                    comments: std::mem::take(&mut comments),
                    command: command.to_owned(),
                    lines: Vec::new(),
                    talk: String::new(),
                });
            } else {
                let step = steps.last_mut().expect("lines follow a command");
                let (path, value) = line.split_once(" = ").expect("a path and a value");
                step.lines.push(Line::new(path, value));
            }
        }
        assert!(comments.is_empty(), "a comment without a command");
        Script { steps }
    }

    /// Panics where a command ended in an error: that is nothing to record.
    pub(crate) fn refuse_errors(&self) {
        for step in &self.steps {
            let error = step.lines.contains(&Line::new(EXIT, 2));
            assert!(!error, "$ npcov {}\n{}", step.command, step.talk);
        }
    }

    /// What is recorded here and was not found again.
    pub(crate) fn differences(&self, found: &Script) -> Vec<Difference<'_>> {
        let mut differences = Vec::new();
        for (recorded, found) in self.steps.iter().zip(&found.steps) {
            let values: HashMap<&str, &str> = found
                .lines
                .iter()
                .map(|line| (&line.path[..], &line.value[..]))
                .collect();
            let command = &recorded.command[..];
            let mut say = |what: String| differences.push(Difference { command, what });
            if recorded.lines.is_empty() {
                say("nothing is recorded yet".to_owned());
            }
            for Line { path, value } in &recorded.lines {
                match values.get(&path[..]) {
                    Some(got) if got == value => {}
                    Some(got) if path == EXIT => say(format!(
                        "{path}: expected {value}, got {got}: {}",
                        found.talk
                    )),
                    Some(got) => say(format!("{path}: expected {value}, got {got}")),
                    None => say(format!("{path}: expected {value}, got nothing")),
                }
            }
        }
        differences
    }
}

/// A line that was not found again.
pub(crate) struct Difference<'a> {
    pub(crate) command: &'a str,
    pub(crate) what: String,
}

/// Differences in words, under the commands that they belong to.
pub(crate) fn told(differences: &[Difference<'_>]) -> String {
    let of_each = differences.chunk_by(|a, b| a.command == b.command);
    let mut text = String::new();
    for of_one in of_each {
        text += &format!("$ npcov {}\n", of_one[0].command);
        text.extend(of_one.iter().map(|one| format!("    {}\n", one.what)));
    }
    text
}

impl Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.steps.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            for comment in &step.comments {
                writeln!(f, "{comment}")?;
            }
            writeln!(f, "$ npcov {}", step.command)?;
            for Line { path, value } in &step.lines {
                writeln!(f, "{path} = {value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# What it is about.
$ npcov predict a.onnx
exit code = 0
accuracy = 0.1
classes[0].name = \"a = b\"

$ npcov inspect a.onnx
exit code = 0
";

    #[test]
    fn what_is_written_is_what_was_read() {
        assert_eq!(Script::parse(TEXT).to_string(), TEXT);
    }

    #[test]
    fn changed_and_missing_lines_are_differences_and_added_ones_are_not() {
        let recorded = Script::parse(TEXT);
        let differences = |from: &str, to: &str| {
            let found = TEXT.replace(from, to);
            assert_ne!(found, TEXT);
            told(&recorded.differences(&Script::parse(&found)))
        };
        assert_eq!(told(&recorded.differences(&recorded)), "");
        assert_eq!(differences("= 0.1", "= 0.1\nloss = 3"), "");
        assert_eq!(
            differences("= 0.1", "= 0.10000000000000001"),
            "$ npcov predict a.onnx\n    accuracy: expected 0.1, got 0.10000000000000001\n"
        );
        assert_eq!(
            differences("0\naccuracy = 0.1\n", "1\n"),
            "$ npcov predict a.onnx\n    exit code: expected 0, got 1: \n    \
             accuracy: expected 0.1, got nothing\n"
        );
    }

    #[test]
    fn a_command_without_a_record_is_a_difference() {
        let recorded = Script::parse("$ npcov inspect a.onnx\n");
        assert_eq!(recorded.differences(&recorded).len(), 1);
    }
}
