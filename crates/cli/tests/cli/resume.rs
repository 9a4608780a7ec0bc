//! Work that is killed at any moment: nothing half-made is ever there under its name, nothing finished
//! is lost, and the end is as if nothing had happened.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::build::{bytes, succeed};
use crate::support::Project;

/// Inputs in one part, as the library keeps them.
const SHARD: usize = 512;

/// Images of the fixtures, four times over: every time a little darker.
const INPUTS: usize = 4000;

/// When a run is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// After this share of the time that it takes.
    Share(f64),
    /// As soon as a part of it is finished.
    FirstPart,
}

/// Spread evenly, and shuffled so that a machine that is busy for a while does not spoil one end.
const MOMENTS: [Moment; 18] = [
    Moment::Share(0.51),
    Moment::Share(0.09),
    Moment::Share(0.93),
    Moment::FirstPart,
    Moment::Share(0.30),
    Moment::Share(0.72),
    Moment::Share(0.16),
    Moment::Share(0.86),
    Moment::Share(0.44),
    Moment::FirstPart,
    Moment::Share(0.02),
    Moment::Share(0.65),
    Moment::Share(0.23),
    Moment::Share(1.00),
    Moment::Share(0.37),
    Moment::Share(0.79),
    Moment::Share(0.58),
    Moment::FirstPart,
];

/// Waits until so many inputs are finished, or the run is.
fn wait_for_parts(project: &Project, artefact: &str, inputs: usize, child: &mut Child) {
    while finished(project, artefact) < inputs && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a command that nobody listens to.
fn start(project: &Project, command: &str) -> Child {
    let mut command = project.command(command);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// `SIGKILL`: there is no time to tidy up. It may have finished, which is a moment, too.
fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn with_data() -> Project {
    let project = Project::new();
    let images = project.rows("fashion-1000.npz", "x");
    let labels: Vec<i64> = project
        .rows("fashion-1000.npz", "y")
        .iter()
        .map(|y| y[0] as i64)
        .collect();
    let mut pixels = Vec::with_capacity(INPUTS * 784);
    for i in 0..INPUTS {
        let shade = 1.0 - (i / images.len()) as f32 * 0.05;
        pixels.extend(images[i % images.len()].iter().map(|x| x * shade));
    }
    let labels: Vec<i64> = labels.iter().cycle().take(INPUTS).copied().collect();
    project.npz("data.npz", &[28, 28], &pixels, &labels);
    project
}

/// What is in the project's folder and is none of the given names.
fn left_over(project: &Project, known: &[PathBuf]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(project.path("")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| !known.contains(path)).collect()
}

/// Inputs in whole parts that belong to a plan.
fn finished(project: &Project, artefact: &str) -> usize {
    let folder = project.path(&format!("{artefact}.parts"));
    if !folder.join("plan.json").exists() {
        return 0;
    }
    let whole = (0..INPUTS.div_ceil(SHARD)).filter(|shard| {
        let names = [
            format!("paths-{shard:06}"),
            format!("suite-0000-{shard:06}"),
        ];
        let file = |name: &String| folder.join(format!("{name}.safetensors"));
        names.iter().map(file).any(|file| file.exists())
    });
    whole.map(|shard| SHARD.min(INPUTS - shard * SHARD)).sum()
}

/// Runs a command that writes `artefact`, kills it at every moment, runs it again, and compares with
/// what a run without interruption wrote.
fn killed_at_any_moment(project: &Project, command: &str, artefact: &str, uses: &str) {
    let begin = Instant::now();
    succeed(project, command);
    let duration = begin.elapsed();
    let expected = bytes(project, artefact);
    let before = || {
        std::fs::remove_file(project.path(artefact)).unwrap();
        left_over(project, &[])
    };
    let mut resumed = 0;
    for moment in MOMENTS {
        let known = before();
        let mut child = start(project, command);
        match moment {
            Moment::Share(share) => std::thread::sleep(duration.mul_f64(share)),
            Moment::FirstPart => wait_for_parts(project, artefact, 1, &mut child),
        }
        kill(child);
        if project.path(artefact).exists() {
            assert!(
                bytes(project, artefact) == expected,
                "at {moment:?}: not whole"
            );
            succeed(project, uses);
            std::fs::remove_file(project.path("used.npcov")).unwrap();
        }
        let parts = project.path(&format!("{artefact}.parts"));
        let mut may_exist = known.clone();
        may_exist.extend([parts.clone(), project.path(artefact)]);
        let others = left_over(project, &may_exist);
        assert!(others.is_empty(), "at {moment:?}: {others:?}");

        let inputs = finished(project, artefact);
        let outcome = succeed(project, command);
        let note = format!("going on after {inputs} inputs that are finished");
        assert_eq!(
            outcome.stderr.contains(&note),
            inputs > 0,
            "{}",
            outcome.stderr
        );
        assert_eq!(
            outcome.stderr.contains("going on"),
            inputs > 0,
            "{}",
            outcome.stderr
        );
        resumed += usize::from(inputs > 0);
        assert!(
            bytes(project, artefact) == expected,
            "at {moment:?}: other bytes"
        );
        assert!(!parts.exists(), "at {moment:?}: parts are left");
    }
    assert!(
        resumed > 0,
        "no run of {duration:?} was cut off behind its first part"
    );
}

#[test]
fn a_graph_is_built_in_spite_of_kills() {
    let project = with_data();
    let command =
        "build mlp-matlab.onnx --data data.npz --divide 255 --clusters 2 --restarts 2 -o g.npcov";
    let uses = "cover g.npcov --data fashion-1000.npz --limit 3 -o used.npcov";
    killed_at_any_moment(&project, command, "g.npcov", uses);
}

#[test]
fn a_suite_is_measured_in_spite_of_kills() {
    let project = with_data();
    succeed(
        &project,
        "build mlp-matlab.onnx --data fashion-1000.npz --divide 255 --clusters 2 -o g.npcov",
    );
    let command = "cover g.npcov --data data.npz -o s.npcov";
    killed_at_any_moment(&project, command, "s.npcov", "merge s.npcov -o used.npcov");
}

#[test]
fn many_kills_in_a_row_lose_nothing() {
    let project = with_data();
    let command = "build mlp-matlab.onnx --data data.npz --divide 255 --clusters 2 --restarts 2 -o";
    let begin = Instant::now();
    succeed(&project, &format!("{command} whole.npcov"));
    // Long enough for one part, now and then; too short for all.
    let patience = begin.elapsed() / 3;
    let mut before = 0;
    for _ in 0..8 {
        let mut child = start(&project, &format!("{command} g.npcov"));
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        kill(child);
        if project.path("g.npcov").exists() {
            break;
        }
        let now = finished(&project, "g.npcov");
        assert!(now >= before, "{now} after {before}");
        before = now;
    }
    succeed(&project, &format!("{command} g.npcov"));
    assert!(bytes(&project, "g.npcov") == bytes(&project, "whole.npcov"));
    assert!(!project.path("g.npcov.parts").exists());
}

#[test]
fn parts_of_other_settings_are_not_taken() {
    let project = with_data();
    let build = "build mlp-matlab.onnx --data data.npz --divide 255 --clusters 2 --restarts 2";
    succeed(&project, &format!("{build} --alpha 0.6 -o whole.npcov"));
    let mut child = start(&project, &format!("{build} --alpha 0.9 -o g.npcov"));
    wait_for_parts(&project, "g.npcov", 1, &mut child);
    kill(child);
    let outcome = succeed(&project, &format!("{build} --alpha 0.6 -o g.npcov"));
    assert!(!outcome.stderr.contains("going on"), "{}", outcome.stderr);
    assert!(bytes(&project, "g.npcov") == bytes(&project, "whole.npcov"));
}

#[test]
fn a_damaged_part_is_made_again() {
    let project = with_data();
    let command = "build mlp-matlab.onnx --data data.npz --divide 255 --clusters 2 --restarts 2";
    succeed(&project, &format!("{command} -o whole.npcov"));
    let mut child = start(&project, &format!("{command} -o g.npcov"));
    wait_for_parts(&project, "g.npcov", 2 * SHARD, &mut child);
    kill(child);
    let part = |i: usize| format!("g.npcov.parts/paths-{i:06}.safetensors");
    if project.path(&part(0)).exists() {
        // A bit of a number, and half a part: of a disk that was full, or a file that was copied.
        let mut whole = bytes(&project, &part(0));
        let middle = whole.len() / 2;
        whole[middle] ^= 16;
        project.write(&part(0), &whole);
        project.write(&part(1), &whole[..middle]);
    }
    let outcome = succeed(&project, &format!("{command} -o g.npcov"));
    let note = "what an earlier run left of 1024 inputs is damaged: they are computed again";
    assert!(outcome.stderr.contains(note), "{}", outcome.stderr);
    assert!(bytes(&project, "g.npcov") == bytes(&project, "whole.npcov"));
}

#[test]
fn an_edited_artefact_is_refused_by_name() {
    let project = with_data();
    let data = "--data fashion-1000.npz --divide 255 --clusters 2 --limit 100";
    succeed(
        &project,
        &format!("build mlp-matlab.onnx {data} -o g.npcov"),
    );
    let cover = "cover g.npcov --data fashion-1000.npz --limit 20 -o s.npcov";
    succeed(&project, cover);
    for (file, command) in [
        ("g.npcov", cover),
        ("s.npcov", "report s.npcov"),
        ("s.npcov", "merge s.npcov -o m.npcov"),
        ("s.npcov", "check s.npcov --fail-under snpc=0"),
    ] {
        let whole = bytes(&project, file);
        // Its record, and its numbers.
        let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
        for place in [header / 2, header + (whole.len() - header) / 2] {
            let mut edited = whole.clone();
            edited[place] ^= 1;
            project.write(file, &edited);
            let outcome = project.run(command);
            assert_eq!(outcome.code, Some(2), "{command}: {}", outcome.stderr);
            assert!(outcome.stderr.contains(file), "{}", outcome.stderr);
        }
        project.write(file, whole);
    }
}

#[test]
fn a_run_that_was_cut_off_after_its_last_write_is_done() {
    let project = with_data();
    let data = "--data fashion-1000.npz --divide 255 --clusters 2";
    succeed(
        &project,
        &format!("build mlp-matlab.onnx {data} -o g.npcov"),
    );
    let command = "cover g.npcov --data data.npz --append -o s.npcov";
    let mut child = start(&project, command);
    wait_for_parts(&project, "s.npcov", 1, &mut child);
    kill(child);
    let plan = project.path("s.npcov.parts/plan.json");
    let text = std::fs::read(&plan).unwrap();
    succeed(&project, command);
    let expected = bytes(&project, "s.npcov");
    // The state is there, and so is the folder that is removed last.
    std::fs::create_dir(project.path("s.npcov.parts")).unwrap();
    std::fs::write(&plan, text).unwrap();
    succeed(&project, command);
    assert!(bytes(&project, "s.npcov") == expected);
    assert!(!project.path("s.npcov.parts").exists());
    // Without it, the same inputs would count twice.
    let again = project.run(command);
    assert!(
        again.stderr.contains("were measured twice"),
        "{}",
        again.stderr
    );
}

/// Ctrl-C says what is kept, and the same command goes on from there.
#[test]
fn ctrl_c_keeps_what_is_finished() {
    let project = with_data();
    let command = "build mlp-matlab.onnx --data data.npz --divide 255 --clusters 2 --restarts 2";
    succeed(&project, &format!("{command} -o whole.npcov"));
    let command = format!("{command} -o g.npcov");
    let mut child = (project.command(&command).stdout(Stdio::null()))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_parts(&project, "g.npcov", SHARD, &mut child);
    let id = child.id().to_string();
    let interrupt = Command::new("kill").args(["-INT", &id]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let kept = finished(&project, "g.npcov");
    // A run that was faster than the signal has nothing to say.
    if interrupt.success() && kept > 0 {
        assert_eq!(output.status.code(), Some(130), "{stderr}");
        assert!(
            stderr.contains("stopping; Ctrl-C again ends at once\n"),
            "{stderr}"
        );
        let thousands = |n: usize| match n {
            0..1000 => n.to_string(),
            n => format!("{},{:03}", n / 1000, n % 1000),
        };
        let expected = format!(
            "stopped; {} of 4,000 inputs are kept in `g.npcov.parts`; run the same command to go on\n",
            thousands(kept)
        );
        assert!(stderr.ends_with(&expected), "{stderr}");
        let outcome = succeed(&project, &command);
        let note = format!("going on after {kept} inputs");
        assert!(outcome.stderr.contains(&note), "{}", outcome.stderr);
    }
    assert!(bytes(&project, "g.npcov") == bytes(&project, "whole.npcov"));
}
