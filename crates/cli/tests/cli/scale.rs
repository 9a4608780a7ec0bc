//! Work that several processes share: the bytes of one, and a word on what is missing. The scripts of
//! `docs/scale` are run as a scheduler would.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::build::{bytes, succeed};
use crate::support::Project;

const BUILD: &str = "build mlp-matlab.onnx --data data.npz --divide 255 --criteria snpc,kmnc,deepgini \
                     --threads 1";

/// Four shards of 512 inputs, the last of which is not full.
const INPUTS: usize = 1800;

/// Images of the fixtures, over and over: every time a little darker.
fn with_data() -> Project {
    let project = Project::new();
    let images = project.rows("fashion-1000.npz", "x");
    let labels = project.rows("fashion-1000.npz", "y").concat();
    let mut pixels = Vec::with_capacity(INPUTS * 784);
    for i in 0..INPUTS {
        let shade = 1.0 - (i / images.len()) as f32 * 0.05;
        pixels.extend(images[i % images.len()].iter().map(|x| x * shade));
    }
    let labels: Vec<i64> = labels
        .iter()
        .map(|&y| y as i64)
        .cycle()
        .take(INPUTS)
        .collect();
    project.npz("data.npz", &[28, 28], &pixels, &labels);
    project
}

/// Waits for processes that have to work.
fn wait(children: Vec<Child>) {
    for child in children {
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
    }
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn processes_build_a_graph_together() {
    let project = with_data();
    succeed(&project, &format!("{BUILD} -o whole.npcov"));
    let whole = bytes(&project, "whole.npcov");
    for count in [1, 3, 16] {
        let output = format!("{count}.npcov");
        let part = |i: usize| project.command(&format!("{BUILD} --shard {i}/{count} -o {output}"));
        wait((1..=count).map(|i| start(part(i))).collect());
        let part =
            |i: usize| project.command(&format!("{BUILD} --shard-classes {i}/{count} -o {output}"));
        wait((1..=count).map(|i| start(part(i))).collect());
        assert!(!project.path(&output).exists());
        succeed(&project, &format!("{BUILD} --join -o {output}"));
        assert!(bytes(&project, &output) == whole, "{count} processes");
        assert!(!project.path(&format!("{output}.parts")).exists());
    }
}

#[test]
fn a_part_says_what_it_did_and_a_join_what_is_missing() {
    let project = with_data();
    let part = succeed(&project, &format!("{BUILD} --shard 2/2 -o g.npcov"));
    assert_eq!(
        part.stdout,
        "part 2/2 in g.npcov.parts\n  inputs  776, 1,024 to 1,799\n"
    );
    let none = succeed(&project, &format!("{BUILD} --shard 1/9 -o g.npcov"));
    let words = "  inputs  none: there are more parts than shards of inputs\n";
    assert_eq!(none.stdout, format!("part 1/9 in g.npcov.parts\n{words}"));
    let early = project.run(&format!("{BUILD} --shard-classes 1/2 -o g.npcov"));
    assert_eq!((early.code, early.stdout.as_str()), (Some(2), ""));
    assert!(
        early.stderr.contains("2 of 4 parts are wrong:"),
        "{}",
        early.stderr
    );
    let json = succeed(
        &project,
        &format!("{BUILD} --shard 2/2 -o g.npcov --format json"),
    );
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["start"], &json["end"]), (&1024.into(), &1800.into()));

    let missing = project.run(&format!("{BUILD} --join -o g.npcov"));
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(2), ""));
    for words in [
        "`g.npcov.parts` cannot be joined, 2 of 4 parts are wrong:",
        "  `paths-000000.safetensors`, inputs 0 to 511: missing",
        "  `paths-000001.safetensors`, inputs 512 to 1023: missing",
        "hint: run the `--shard` again that these belong to",
    ] {
        assert!(missing.stderr.contains(words), "{}", missing.stderr);
    }
    let other = project.run(&format!("{BUILD} --alpha 0.5 --shard 1/2 -o g.npcov"));
    assert_eq!(other.code, Some(2));
    assert!(
        other.stderr.contains("extraction.alpha.0: 0.8, not 0.5"),
        "{}",
        other.stderr
    );
    let both = project.run(&format!("{BUILD} --shard 1/2 --join -o g.npcov"));
    assert_eq!(both.code, Some(2));
    // What is there was not touched by any of these.
    succeed(&project, &format!("{BUILD} --shard 1/2 -o g.npcov"));
    let classes = succeed(&project, &format!("{BUILD} --shard-classes 2/3 -o g.npcov"));
    assert_eq!(
        classes.stdout,
        "part 2/3 in g.npcov.parts\n  classes  3, 3 to 5\n"
    );
    let none = succeed(
        &project,
        &format!("{BUILD} --shard-classes 1/11 -o g.npcov"),
    );
    let words = "  classes  none: there are more parts than classes\n";
    assert_eq!(none.stdout, format!("part 1/11 in g.npcov.parts\n{words}"));
    succeed(&project, &format!("{BUILD} --join -o g.npcov"));
}

const SELECT: &str =
    "select g.npcov --data data.npz --count 300 --by additional:snpc --threads 1 -o chosen.npz";

#[test]
fn processes_select_together() {
    let project = with_data();
    succeed(&project, &format!("{BUILD} --limit 600 -o g.npcov"));
    let whole = succeed(&project, SELECT);
    let file = bytes(&project, "chosen.npz");
    for count in [1, 3, 16] {
        std::fs::remove_file(project.path("chosen.npz")).unwrap();
        let part = |i: usize| project.command(&format!("{SELECT} --shard {i}/{count}"));
        wait((1..=count).map(|i| start(part(i))).collect());
        assert!(!project.path("chosen.npz").exists());
        let joined = succeed(&project, &format!("{SELECT} --join"));
        assert_eq!(joined.stdout, whole.stdout, "{count} processes");
        assert!(bytes(&project, "chosen.npz") == file, "{count} processes");
        assert!(!project.path("chosen.npz.parts").exists());
    }
}

#[test]
fn parts_of_a_pool_say_what_they_are() {
    let project = with_data();
    succeed(&project, &format!("{BUILD} --limit 600 -o g.npcov"));
    let part = succeed(&project, &format!("{SELECT} --shard 2/2"));
    let words = "part 2/2 in chosen.npz.parts\n  inputs  776, 1,024 to 1,799\n";
    assert_eq!(part.stdout, words);
    let missing = project.run(&format!("{SELECT} --join"));
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(2), ""));
    for words in [
        "`chosen.npz.parts` cannot be joined, 2 of 4 parts are wrong:",
        "  `inputs-000000.safetensors`, inputs 0 to 511: missing",
        "hint: run the `--shard` again that these belong to",
    ] {
        assert!(missing.stderr.contains(words), "{}", missing.stderr);
    }
    // Another strategy, other data, another graph.
    succeed(&project, &format!("{BUILD} --limit 500 -o other.npcov"));
    for (from, to) in [
        ("additional:snpc", "score:deepgini"),
        ("data.npz", "fashion-1000.npz"),
        ("g.npcov", "other.npcov"),
    ] {
        for step in ["--shard 1/2", "--join"] {
            let other = project.run(&format!("{} {step}", SELECT.replace(from, to)));
            assert_eq!(other.code, Some(2), "{to} {step}");
            let words = "plan.json` does not fit";
            assert!(other.stderr.contains(words), "{}", other.stderr);
        }
    }
    let both = project.run(&format!("{SELECT} --shard 1/2 --join"));
    assert_eq!(both.code, Some(2));
    // What is there was not touched by any of these.
    succeed(&project, &format!("{SELECT} --shard 1/2"));
    succeed(&project, &format!("{SELECT} --join"));
}

const TUNE: &str = "tune mlp-matlab.onnx --data data.npz --divide 255 --sample 1100 --alphas 0.7,0.9 \
                    --clusters 1,3 --betas 0.6,0.8 --threads 1 --write t.toml";

#[test]
fn processes_tune_together() {
    let project = with_data();
    let before = "# What is here stays.\n[paths]\nclusters = 2 # a guess\n";
    project.write("t.toml", before);
    let whole = succeed(&project, TUNE);
    let file = bytes(&project, "t.toml");
    assert!(file.starts_with(b"# What is here stays.") && file != before.as_bytes());
    for count in [1, 3, 16] {
        project.write("t.toml", before);
        for _ in 0..2 {
            let part = |i: usize| project.command(&format!("{TUNE} --shard {i}/{count}"));
            wait((1..=count).map(|i| start(part(i))).collect());
            assert!(bytes(&project, "t.toml") == before.as_bytes());
        }
        let joined = succeed(&project, &format!("{TUNE} --join"));
        assert_eq!(joined.stdout, whole.stdout, "{count} processes");
        assert!(bytes(&project, "t.toml") == file, "{count} processes");
        assert!(!project.path("t.toml.parts").exists());
    }
}

#[test]
fn parts_of_a_search_say_what_they_are() {
    let project = with_data();
    let first = succeed(&project, &format!("{TUNE} --shard 1/2"));
    let words = "part 1/2 in t.toml.parts\n  inputs  512, 0 to 511\n  step    1 of 2; once more when all \
                 parts are done\n";
    assert_eq!(first.stdout, words);
    let second = succeed(&project, &format!("{TUNE} --shard 2/2 --format json"));
    let second: serde_json::Value = serde_json::from_str(&second.stdout).unwrap();
    assert_eq!((&second["step"], &second["end"]), (&2.into(), &1100.into()));
    let missing = project.run(&format!("{TUNE} --join"));
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(2), ""));
    for words in [
        "`t.toml.parts` cannot be joined, 1 of 3 parts are wrong:",
        "  `abstract-000000.safetensors`, inputs 0 to 511: missing",
    ] {
        assert!(missing.stderr.contains(words), "{}", missing.stderr);
    }
    for (from, to) in [
        ("--betas 0.6", "--betas 0.5"),
        ("data.npz", "fashion-1000.npz"),
        ("mlp-matlab.onnx", "lenet.onnx"),
    ] {
        for step in ["--shard 1/2", "--join"] {
            let other = project.run(&format!("{} {step}", TUNE.replace(from, to)));
            assert_eq!(other.code, Some(2), "{to} {step}");
            let words = "plan.json` does not fit";
            assert!(other.stderr.contains(words), "{}", other.stderr);
        }
    }
    for words in ["--shard 1/2 --join", "--shard 3/2"] {
        assert_eq!(project.run(&format!("{TUNE} {words}")).code, Some(2));
    }
    succeed(&project, &format!("{TUNE} --shard 1/2"));
    // Parts stay as long as what they found cannot be written.
    project.write("t.toml", "[paths");
    let broken = project.run(&format!("{TUNE} --join"));
    assert_eq!(broken.code, Some(2), "{}", broken.stderr);
    std::fs::remove_file(project.path("t.toml")).unwrap();
    succeed(&project, &format!("{TUNE} --join"));
}

/// The names by which a scheduler tells a task which one it is.
type Environment = fn(task: usize, tasks: usize) -> Vec<(&'static str, String)>;

/// A script of `docs/scale` in the project's folder, as task `task` of `tasks`.
fn script(project: &Project, words: &[&str], environment: Vec<(&str, String)>) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scale");
    let binary = Path::new(env!("CARGO_BIN_EXE_npcov")).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", binary.display());
    let mut command = Command::new("sh");
    command
        .arg(scripts.join(words[0]))
        .args(&words[1..])
        .current_dir(project.path(""))
        .env_clear()
        .env("PATH", path)
        .env("MODEL", "mlp-matlab.onnx")
        .env("TRAIN", "data.npz")
        .env("SUITE", "fashion-1000.npz")
        .env("OPTIONS", "--divide 255 --criteria snpc,kmnc,deepgini")
        .envs(environment)
        .stdin(Stdio::null());
    command
}

/// The graph and the state that one process makes.
fn expected(project: &Project) -> [Vec<u8>; 2] {
    succeed(project, &format!("{BUILD} -o graph.npcov"));
    succeed(
        project,
        "cover graph.npcov --data fashion-1000.npz -o state.npcov",
    );
    let whole = ["graph.npcov", "state.npcov"].map(|name| bytes(project, name));
    for name in ["graph.npcov", "state.npcov"] {
        std::fs::remove_file(project.path(name)).unwrap();
    }
    whole
}

/// Runs all steps of a script that works in one folder.
fn in_one_folder(name: &str, tasks: usize, environment: Environment) {
    let project = with_data();
    let whole = expected(&project);
    for step in ["build", "classes", "join", "cover", "merge"] {
        let count = match ["join", "merge"].contains(&step) {
            true => 1,
            false => tasks,
        };
        let task = |i: usize| start(script(&project, &[name, step], environment(i, tasks)));
        wait((0..count).map(task).collect());
    }
    assert!(bytes(&project, "graph.npcov") == whole[0]);
    assert!(bytes(&project, "state.npcov") == whole[1]);
    let wrong = script(&project, &[name, "nothing"], environment(0, tasks)).output();
    assert_eq!(wrong.unwrap().status.code(), Some(2));
}

#[test]
fn the_script_for_slurm() {
    in_one_folder("slurm.sh", 3, |task, tasks| {
        vec![
            ("SLURM_ARRAY_TASK_ID", (task + 1).to_string()),
            ("SLURM_ARRAY_TASK_COUNT", tasks.to_string()),
            ("SLURM_CPUS_PER_TASK", "1".to_owned()),
        ]
    });
}

#[test]
fn the_script_for_kubernetes() {
    in_one_folder("kubernetes.sh", 4, |task, tasks| {
        vec![
            ("JOB_COMPLETION_INDEX", task.to_string()),
            ("SHARDS", tasks.to_string()),
            ("CPU_LIMIT", "1".to_owned()),
        ]
    });
}

#[test]
fn the_script_for_ci() {
    let (project, tasks) = (with_data(), 3);
    let whole = expected(&project);
    let run = |step: &str, task: usize, folder: &str| {
        let names = vec![
            ("SHARD", (task + 1).to_string()),
            ("SHARDS", tasks.to_string()),
        ];
        start(script(&project, &["ci.sh", step, folder], names))
    };
    for (steps, made) in [
        (["build", "join"], "built"),
        (["cover", "merge"], "covered"),
    ] {
        let job = |task: usize| run(steps[0], task, &format!("{made}/{task}"));
        wait((0..tasks).map(job).collect());
        wait(vec![run(steps[1], 0, made)]);
    }
    assert!(bytes(&project, "graph.npcov") == whole[0]);
    assert!(bytes(&project, "state.npcov") == whole[1]);
}
