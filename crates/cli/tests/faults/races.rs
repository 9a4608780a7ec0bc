//! Two runs that write the same output at the same time: one of them does, and its bytes are right.

use std::process::{Child, Stdio};
use std::time::Duration;

use npcov::data::OutputLock;

use crate::support::Project;
use crate::{Random, succeed, tries, write_data};

fn start(project: &Project, command: &str) -> Child {
    let mut command = project.command(command);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn of_two_builds_one_is_refused() {
    let project = Project::new();
    write_data(&project, "data.npz", 1300);
    let build = |alpha: &str, output: &str| {
        format!(
            "build mlp-matlab.onnx --data data.npz --divide 255 --clusters 2 --restarts 2 \
             --alpha {alpha} -o {output}"
        )
    };
    let expected = ["0.5", "0.8"].map(|alpha| {
        succeed(&project, &build(alpha, "whole.npcov"));
        (alpha, std::fs::read(project.path("whole.npcov")).unwrap())
    });
    let mut random = Random(7);
    let mut refused = 0;
    for race in 0..tries(4, 25) {
        // Equal settings and unequal ones, and one of them a moment later.
        let runners = [&expected[0], &expected[(race + 1) % 2]];
        let first = start(&project, &build(runners[0].0, "g.npcov"));
        std::thread::sleep(Duration::from_millis(random.below(60) as u64));
        let second = start(&project, &build(runners[1].0, "g.npcov"));
        let mut right = Vec::new();
        for (child, runner) in [first, second].into_iter().zip(runners) {
            let output = child.wait_with_output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            match output.status.code() {
                Some(0) => right.push(&runner.1),
                code => {
                    assert_eq!(code, Some(2), "race {race}: {stderr}");
                    let reason = "`g.npcov` is being written by another npcov";
                    assert!(stderr.contains(reason), "race {race}: {stderr}");
                    refused += 1;
                }
            }
        }
        let found = std::fs::read(project.path("g.npcov")).unwrap();
        assert!(right.contains(&&found), "race {race}: other bytes");
        assert!(!project.path("g.npcov.parts").exists(), "race {race}");
        std::fs::remove_file(project.path("g.npcov")).unwrap();
    }
    assert!(refused > 0, "no two runs met");
}

/// Whoever writes an output holds its lock; whoever comes second is refused at once and changes nothing.
#[test]
fn of_every_command_the_second_is_refused() {
    let project = Project::new();
    let whole = "mlp-matlab.onnx --data fashion-1000.npz --divide 255";
    let model = format!("{whole} --limit 60");
    succeed(&project, &format!("build {model} -o g.npcov"));
    let graph = "g.npcov --data fashion-1000.npz --limit 60";
    for (command, output, folder) in [
        (format!("build {model} -o"), "out", "out.parts"),
        (format!("cover {graph} -o"), "out", "out.parts"),
        (
            format!("select {graph} --by additional:snpc -o"),
            "out",
            "out.parts",
        ),
        (format!("minimize {graph} -o"), "out", "out.parts"),
        (format!("attack {model} -o"), "out", "out.parts"),
        (
            format!("tune {whole} --sample 60 --clusters 1,2 --write"),
            "out.toml",
            "out.toml.parts",
        ),
        (
            format!("lab rq1 {whole} --quick -o"),
            "lab",
            "lab/rq1.parts",
        ),
    ] {
        let (output_path, folder) = (project.path(output), project.path(folder));
        std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
        let lock = OutputLock::by(&folder, &output_path).unwrap();
        let outcome = project.run(&format!("{command} {output}"));
        let told = format!("{command}: {:?}\n{}", outcome.code, outcome.stderr);
        assert_eq!(outcome.code, Some(2), "{told}");
        assert!(
            outcome.stderr.contains("is being written by another npcov"),
            "{told}"
        );
        assert!(!output_path.is_file(), "{told}");
        assert!(!project.path("lab/rq1.json").exists(), "{told}");
        drop(lock);
        succeed(&project, &format!("{command} {output}"));
        let _ = std::fs::remove_file(output_path);
    }
}
