//! The numbers of npcov, held against recorded ones, to the last digit.
//!
//! A `.txt` file beside this one is a script: commands (`$ npcov ...`), each followed by what it gave. The numbers of
//! its JSON stand there as `path = value` ([`flatten`]), the arrays that it wrote as digests ([`npz`]). Every recorded
//! line has to be found again, with the same value. Lines that are not recorded, such as those of an added field, are
//! no fault. The commands run in an empty folder with all of `fixtures/` and the `.toml` files from here in it, so they
//! can be repeated by hand. Times (`lab rq5`), pictures and compiled models are not recorded.
//!
//! `NPCOV_GOLDEN=record cargo test -p npcov-cli --test golden` records anew. A change that is meant to change numbers
//! does so in a commit of its own, which lists each number and why; any other change leaves the records as they are. A
//! new command is recorded the same way: a line `$ npcov ...` is enough.
//!
//! The numbers are those of CPUs with fused multiply-add (`docs/architecture.md`). On others there is nothing to hold
//! them against, and the tests say so and pass.

mod flatten;
mod npz;
mod runner;
mod script;

use std::path::{Path, PathBuf};

use script::Script;

/// How many differences are shown.
const SHOWN: usize = 40;

/// One test for each script, so that they run side by side.
macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                hold(stringify!($name));
            }
        )*

        const SCRIPTS: &[&str] = &[$(stringify!($name)),*];
    };
}

scripts!(
    attack,
    binary_sigmoid,
    choices,
    criteria,
    exporters,
    keras,
    lab_attacks,
    lab_errors,
    lab_kinds,
    lab_masking,
    lenet,
    mlp,
    mobilenet,
    optional,
    resnet8,
    select,
    states,
    vit,
);

/// Runs a script and compares what it gives with what is recorded, or records it.
fn hold(name: &str) {
    if !fused_multiply_add() {
        runner::say(&format!(
            "golden test `{name}` SKIPPED: the recorded numbers are those of CPUs with AVX2 and FMA"
        ));
        return;
    }
    let file = folder().join(format!("{name}.txt"));
    let recorded = Script::parse(&std::fs::read_to_string(&file).unwrap());
    let found = runner::run(&recorded);
    match std::env::var("NPCOV_GOLDEN").as_deref() {
        Ok("record") => {
            found.refuse_errors();
            std::fs::write(&file, found.to_string()).unwrap();
        }
        Ok(other) => panic!("NPCOV_GOLDEN can only be `record`, not `{other}`"),
        Err(_) => {
            let differences = recorded.differences(&found);
            let count = differences.len();
            assert!(
                count == 0,
                "{name}.txt: {count} recorded lines were not found again:\n{}{}",
                script::told(&differences[..count.min(SHOWN)]),
                if count > SHOWN { "and more" } else { "" }
            );
        }
    }
}

/// Whether the CPU computes what the recorded numbers were computed with.
fn fused_multiply_add() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// The folder of the scripts.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn every_script_has_a_test() {
    let mut found: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".txt").map(str::to_owned))
        .collect();
    found.sort();
    assert_eq!(found, SCRIPTS);
}
