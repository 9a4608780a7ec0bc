//! Mutants are read by a child process, which may die, hang or grow without harm to the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// Shows so many mutants to a reader. None may make it panic, abort, hang or take more memory than a child has.
pub(crate) fn survives(reader: &str, mutants: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    let mut next = 0;
    while next < mutants && failures.len() < ENOUGH {
        match watch(reader, next, mutants, folder.path()) {
            Ok(()) => next = mutants,
            Err((number, reason)) => {
                failures.push(format!("mutant {number}: {reason}"));
                next = number + 1;
            }
        }
    }
    assert!(failures.is_empty(), "{reader}:\n{}", failures.join("\n"));
}

/// One mutant again, in this process: `NPCOV_MUTANT="onnx 17" cargo test ... one_mutant`.
pub(crate) fn one(read: impl Fn(&str, u64, &Path)) {
    if let Ok(task) = std::env::var("NPCOV_MUTANT") {
        let (reader, number) = task.split_once(' ').expect("reader and number");
        let folder = tempfile::tempdir().unwrap();
        read(reader, number.parse().unwrap(), folder.path());
    }
}

/// The child's part.
pub(crate) fn work(read: impl Fn(&str, u64, &Path)) {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let parts: Vec<&str> = task.splitn(4, ' ').collect();
    let [reader, first, end, folder] = parts[..] else {
        panic!("{task}");
    };
    let folder = PathBuf::from(folder);
    for number in first.parse::<u64>().unwrap()..end.parse().unwrap() {
        std::fs::write(progress(&folder), number.to_string()).unwrap();
        read(reader, number, &folder);
    }
}

fn progress(folder: &Path) -> PathBuf {
    folder.join("progress")
}

/// Runs a child to its end, or to that of a mutant's time.
fn watch(reader: &str, first: u64, end: u64, folder: &Path) -> Result<(), (u64, String)> {
    std::fs::write(progress(folder), first.to_string()).unwrap();
    let errors = folder.join("errors");
    let mut child = start(reader, first, end, folder, &errors);
    let now = || {
        std::fs::read_to_string(progress(folder))
            .ok()?
            .parse::<u64>()
            .ok()
    };
    let mut number = first;
    let mut since = (Instant::now(), 0.0);
    loop {
        let ended = child.try_wait().unwrap();
        if let Some(found) = now()
            && found != number
        {
            number = found;
            since = (Instant::now(), seconds(&child).unwrap_or(0.0));
        }
        if let Some(status) = ended {
            let text = String::from_utf8_lossy(&std::fs::read(&errors).unwrap()).into_owned();
            return match status.success() {
                true => Ok(()),
                false => Err((number, format!("{status}\n{}", text.trim_end()))),
            };
        }
        let computed = seconds(&child).map_or(0.0, |seconds| seconds - since.1);
        if computed > SECONDS || since.0.elapsed() > Duration::from_secs(PATIENCE) {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err((
                number,
                format!("does not end, after {computed:.1} seconds of computing"),
            ));
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

/// Seconds that a process has computed; unknown without Linux' folder of processes.
fn seconds(child: &Child) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // Behind the name in parentheses, the 12th and 13th are user and system time in hundredths.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}
