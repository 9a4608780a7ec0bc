//! Settings, which only the binary reads: each mutant is a command.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::mutator::{Random, change_bytes, change_text};

const SEED: &str = r#"
model = "model.onnx"
data = "test.npz"
threads = 4
input-shape = [3, 32, 32]
layers = ["block*", -1]

[preprocessing]
divide = 255
mean = [0.49, 0.48, 0.45]
std = [0.25, 0.24, 0.26]
resize = "32x32"

[explain]
preset = "epsilon-plus"
rule = ["first=flat", "Add=epsilon:0.1"]
batch-norm = "fold"

[paths]
alpha = 0.8
clusters = 4
beta = 0.8
class.3 = { alpha = 0.9, clusters = 7 }
choices.preset = "tables"
measure.snpc-buckets = 100

[check]
fail-under = { snpc = 0.05, kmnc = "0.8*random" }
fail-on-drop = 0.01
against = "old.npcov"
"#;

const WORDS: &[&str] = &[
    "nan",
    "inf",
    "-inf",
    "1e400",
    "-0",
    "0x7fffffffffffffff",
    "true",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "\"\"\"",
    "=",
    ".",
    ",",
    "\n",
    "#",
    "1979-05-27T07:32:00Z",
    "[[paths]]\n",
    "\u{0}",
    "\u{202e}",
    "class.999999999999",
    "-9223372036854775808",
    "0.0000000001",
    "\\u0041",
    "[paths]\n",
    "*random",
];

/// Commands that look at settings before anything else.
const COMMANDS: [&str; 4] = [
    "build -o out.npcov",
    "check state.npcov",
    "tune --write missing/npcov.toml",
    "explain --index 0",
];

/// No mutant makes a command panic, hang, or take more than five seconds of computing or a gigabyte.
pub(crate) fn survive(mutants: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("npcov.toml");
    for number in 0..mutants {
        let mut random = Random::new("settings", number);
        let mut bytes = change_text(&mut random, SEED, WORDS).into_bytes();
        if random.one_in(5) {
            change_bytes(&mut random, &mut bytes);
        }
        if random.one_in(50) {
            bytes.extend(b"deep = ");
            bytes.extend(random.choose(&["[", "{a=", "\"\\"]).repeat(100_000).bytes());
        }
        std::fs::write(&path, &bytes).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "ulimit -v 1048576; ulimit -t 5; exec \"$@\"", "sh"])
            .arg(env!("CARGO_BIN_EXE_npcov"))
            .args(random.choose(&COMMANDS).split(' '))
            .current_dir(folder.path())
            .env_clear()
            // Arenas of other threads would take address space, which is what is limited.
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("errors")).unwrap())
            .spawn()
            .unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > Duration::from_secs(60) {
                child.kill().unwrap();
                panic!("mutant {number} does not end");
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let errors = std::fs::read(folder.path().join("errors")).unwrap();
        let errors = String::from_utf8_lossy(&errors);
        // Nothing that is named exists, so nothing can succeed.
        assert_eq!(status.code(), Some(2), "mutant {number}: {errors}");
        assert!(!errors.contains("panicked"), "mutant {number}: {errors}");
    }
}
