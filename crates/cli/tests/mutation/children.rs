//! Mutants are read by a child process, which may die, hang or grow without harm to the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::seconds::computed;

/// What tells a child what to do: reader, first mutant, the one behind the last, folder.
const TASK: &str = "NPCOV_MUTANTS";
/// Memory of a child, in KiB.
const MEMORY: &str = "1048576";
/// Seconds of computing that one mutant may take.
const SECONDS: f64 = 5.0;
/// Seconds without an end, computing or not: on a busy machine a child waits for its turn.
const PATIENCE: u64 = 120;
/// Failures after which no more are looked for.
const ENOUGH: usize = 8;

/// Shows so many mutants to a reader. None may make it panic, abort, hang or take more memory than a child has. A part of
/// them it reads and a part it refuses: else nothing was tried out.
pub(crate) fn survives(reader: &str, mutants: u64) {
    let Shown { failures, accepted } = show(reader, mutants);
    assert!(failures.is_empty(), "{reader}:\n{}", failures.join("\n"));
    let few = mutants / 50;
    let range = few..=mutants - few;
    assert!(
        range.contains(&accepted),
        "{reader}: {accepted} of {mutants} are read"
    );
}

/// What became of mutants.
pub(crate) struct Shown {
    /// Those that did harm, and which.
    pub(crate) failures: Vec<String>,
    /// How many were read.
    accepted: u64,
}

/// Shows so many mutants to a reader, until there are enough that do harm.
pub(crate) fn show(reader: &str, mutants: u64) -> Shown {
    let folder = tempfile::tempdir().unwrap();
    let mut shown = Shown {
        failures: Vec::new(),
        accepted: 0,
    };
    let mut next = 0;
    while next < mutants && shown.failures.len() < ENOUGH {
        let (number, result) = watch(reader, next, mutants, folder.path());
        shown.accepted += accepted(folder.path());
        match result {
            Ok(()) => next = mutants,
            Err(reason) => {
                shown.failures.push(format!("mutant {number}: {reason}"));
                next = number + 1;
            }
        }
    }
    shown
}

/// One mutant again, in this process: `NPCOV_MUTANT="onnx 17" cargo test ... one_mutant`.
pub(crate) fn one(read: impl Fn(&str, u64, &Path) -> bool) {
    if let Ok(task) = std::env::var("NPCOV_MUTANT") {
        let (reader, number) = task.split_once(' ').expect("reader and number");
        let folder = tempfile::tempdir().unwrap();
        read(reader, number.parse().unwrap(), folder.path());
    }
}

/// The child's part: reads mutants, and counts those that are not refused.
pub(crate) fn work(read: impl Fn(&str, u64, &Path) -> bool) {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let parts: Vec<&str> = task.splitn(4, ' ').collect();
    let [reader, first, end, folder] = parts[..] else {
        panic!("{task}");
    };
    let folder = PathBuf::from(folder);
    let mut accepted = 0;
    for number in first.parse::<u64>().unwrap()..end.parse().unwrap() {
        std::fs::write(progress(&folder), format!("{number} {accepted}")).unwrap();
        accepted += u64::from(read(reader, number, &folder));
    }
    std::fs::write(progress(&folder), format!("{end} {accepted}")).unwrap();
}

/// The file that a child writes: the number of its mutant, and how many it has read before.
fn progress(folder: &Path) -> PathBuf {
    folder.join("progress")
}

fn numbers(folder: &Path) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(progress(folder)).ok()?;
    let (number, accepted) = text.split_once(' ')?;
    Some((number.parse().ok()?, accepted.parse().ok()?))
}

fn accepted(folder: &Path) -> u64 {
    numbers(folder).map_or(0, |(_, accepted)| accepted)
}

/// Runs a child to its end, or to that of a mutant's time: the mutant, and whether it was the last one.
fn watch(reader: &str, first: u64, end: u64, folder: &Path) -> (u64, Result<(), String>) {
    std::fs::write(progress(folder), format!("{first} 0")).unwrap();
    let errors = folder.join("errors");
    let mut child = start(reader, first, end, folder, &errors);
    let seconds = |child: &Child| computed(&child.id().to_string()).unwrap_or(0.0);
    let mut number = first;
    let mut since = (Instant::now(), 0.0);
    loop {
        let ended = child.try_wait().unwrap();
        if let Some((found, _)) = numbers(folder)
            && found != number
        {
            number = found;
            since = (Instant::now(), seconds(&child));
        }
        if let Some(status) = ended {
            let text = String::from_utf8_lossy(&std::fs::read(&errors).unwrap()).into_owned();
            let failed = || format!("{status}\n{}", text.trim_end());
            return (number, status.success().then_some(()).ok_or_else(failed));
        }
        let spent = seconds(&child) - since.1;
        if spent > SECONDS || since.0.elapsed() > Duration::from_secs(PATIENCE) {
            child.kill().unwrap();
            child.wait().unwrap();
            let reason = format!("does not end, after {spent:.1} seconds of computing");
            return (number, Err(reason));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn start(reader: &str, first: u64, end: u64, folder: &Path, errors: &Path) -> Child {
    let output = std::fs::File::create(errors).unwrap();
    Command::new("sh")
        .args(["-c", &format!("ulimit -v {MEMORY}; exec \"$@\""), "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(TASK, format!("{reader} {first} {end} {}", folder.display()))
        // Arenas of other threads would take address space, which is what is limited.
        .env("MALLOC_ARENA_MAX", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .unwrap()
}
