//! Runs that are killed at random moments and begun again: the end is as if nothing had happened.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::Project;
use crate::{Random, succeed, tries, write_data};

/// Removes a file or folder, if it is there.
fn remove(path: &Path) {
    match path.is_dir() {
        true => std::fs::remove_dir_all(path).unwrap(),
        false => {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Kills a command at random moments, each time after none, one or two earlier kills, and runs it to
/// its end. `outputs` are what it writes; the first is a file that is compared.
fn kill_at_random(project: &Project, command: &str, outputs: &[&str], seed: u64) {
    kill_after(&|| {}, project, command, outputs, seed);
}

/// The same with what has to be done before the command, each time.
fn kill_after(before: &dyn Fn(), project: &Project, command: &str, outputs: &[&str], seed: u64) {
    before();
    let begin = Instant::now();
    succeed(project, command);
    let duration = begin.elapsed();
    let expected = std::fs::read(project.path(outputs[0])).unwrap();
    let mut random = Random(seed);
    let mut left = tries(3, 50);
    while left > 0 {
        outputs
            .iter()
            .for_each(|output| remove(&project.path(output)));
        before();
        let mut moments = Vec::new();
        for _ in 0..(1 + random.below(3)).min(left) {
            left -= 1;
            let moment = duration.mul_f64(random.share());
            moments.push(moment);
            let mut child = project
                .command(command)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(moment);
            // It may have finished, which is a moment, too.
            child.kill().unwrap();
            child.wait().unwrap();
            let found = std::fs::read(project.path(outputs[0]));
            if let Ok(found) = found {
                assert!(found == expected, "{command}: half-made at {moments:?}");
            }
        }
        // What joins parts that others made is done when its output is there: parts may be gone.
        if command.ends_with("--join") && project.path(outputs[0]).exists() {
            continue;
        }
        succeed(project, command);
        let found = std::fs::read(project.path(outputs[0])).unwrap();
        assert!(
            found == expected,
            "{command}: other bytes after {moments:?}"
        );
        let parts = project.path(&format!("{}.parts", outputs[0]));
        assert!(
            !parts.exists(),
            "{command}: parts are left after {moments:?}"
        );
    }
    assert!(duration > Duration::ZERO);
}

fn project() -> Project {
    let project = Project::new();
    write_data(&project, "data.npz", 1300);
    project
}

fn with_graph() -> Project {
    let project = project();
    succeed(
        &project,
        "build mlp-matlab.onnx --data fashion-1000.npz --divide 255 --clusters 2 -o g.npcov",
    );
    project
}

#[test]
fn build() {
    let command =
        "build mlp-matlab.onnx --data data.npz --divide 255 --clusters 2 --restarts 2 -o b.npcov";
    kill_at_random(&project(), command, &["b.npcov", "b.npcov.parts"], 1);
}

#[test]
fn cover() {
    let command = "cover g.npcov --data data.npz -o s.npcov";
    kill_at_random(&with_graph(), command, &["s.npcov", "s.npcov.parts"], 2);
}

#[test]
fn select() {
    let command = "select g.npcov --data data.npz --by additional:snpc --count 50 -o c.npz";
    kill_at_random(&with_graph(), command, &["c.npz", "c.npz.parts"], 3);
}

#[test]
fn tune() {
    let command = "tune mlp-matlab.onnx --data fashion-1000.npz --divide 255 --sample 200 \
                   --clusters 1,2 --write tuned.toml";
    kill_at_random(&project(), command, &["tuned.toml", "tuned.toml.parts"], 4);
}

/// Kills a command that joins what two processes did, in so many steps.
fn kill_joining(project: &Project, command: &str, steps: usize, output: &str, seed: u64) {
    let parts = || {
        for i in (0..steps).flat_map(|_| 1..=2) {
            succeed(project, &format!("{command} --shard {i}/2"));
        }
    };
    let outputs = [output, &format!("{output}.parts")];
    let join = format!("{command} --join");
    kill_after(&parts, project, &join, &outputs, seed);
}

#[test]
fn joined_build() {
    let command = "build mlp-matlab.onnx --data data.npz --divide 255 --clusters 2 --restarts 2 \
                   --criteria snpc -o b.npcov";
    kill_joining(&project(), command, 1, "b.npcov", 6);
}

#[test]
fn joined_select() {
    let command = "select g.npcov --data data.npz --by additional:snpc --count 50 -o c.npz";
    kill_joining(&with_graph(), command, 1, "c.npz", 7);
}

#[test]
fn joined_tune() {
    let command = "tune mlp-matlab.onnx --data fashion-1000.npz --divide 255 --sample 600 \
                   --alphas 0.8 --clusters 1,2 --betas 0.8 --write tuned.toml";
    kill_joining(&project(), command, 2, "tuned.toml", 8);
}

#[test]
fn lab() {
    let command = "lab rq1 mlp-matlab.onnx --data fashion-1000.npz --divide 255 --quick -o lab";
    kill_at_random(&project(), command, &["lab/rq1.json", "lab"], 5);
}
