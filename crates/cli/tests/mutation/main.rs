//! Files that somebody has changed. Thousands of mutants of every format: each is read or refused, without a panic, an
//! abort, more than 5 seconds or more than 1 GB.
//!
//! What a mutant is depends on its reader and its number alone. `NPCOV_MUTANT="onnx 17" cargo test -p npcov-cli --test
//! mutation one_mutant -- --ignored --nocapture` reads one again, under a debugger if that helps.
#![cfg(unix)]

mod children;
mod data;
mod images;
mod models;
mod mutator;
#[path = "../cli/onnx.rs"]
#[allow(dead_code)]
mod onnx;
mod seconds;
mod settings;
mod tables;
mod wire;

use std::path::Path;

/// Mutants of each reader.
const MUTANTS: u64 = 2000;

/// A file of the fixtures.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    std::fs::read(folder.join(name)).unwrap()
}

/// Makes one mutant and reads it, unless that is refused.
fn read(reader: &str, number: u64, folder: &Path) -> bool {
    match reader {
        "onnx" => models::onnx(number),
        "external" => models::external(number, folder),
        "npy" => data::npy(number, folder),
        "npz" => data::npz(number, folder),
        "idx" => data::idx(number, folder),
        "cifar" => data::cifar(number, folder),
        "csv" => tables::csv(number, folder),
        "parquet" => tables::parquet(number, folder),
        "vocabulary" => tables::vocabulary(number, folder),
        "classes" => tables::classes(number, folder),
        "killed" => tables::killed(number, folder),
        "png" => images::png(number, folder),
        "jpeg" => images::jpeg(number, folder),
        "faulty" => faulty(number),
        other => panic!("no reader `{other}`"),
    }
}

#[test]
#[ignore = "started by the other tests, as a process of its own"]
fn child() {
    children::work(read);
}

#[test]
#[ignore = "reads the mutant that NPCOV_MUTANT names"]
fn one_mutant() {
    children::one(read);
}

/// A reader as none should be.
fn faulty(number: u64) -> bool {
    match number {
        1 => panic!("a panic"),
        2 => std::process::abort(),
        3 => loop {
            std::hint::spin_loop();
        },
        4 => vec![1u8; 2 << 30].len() > 1,
        _ => true,
    }
}

#[test]
fn harm_is_seen() {
    let failures = children::show("faulty", 6).failures;
    let texts = ["a panic", "signal: 6", "does not end", "memory allocation"];
    assert_eq!(failures.len(), texts.len(), "{failures:?}");
    for (number, (failure, text)) in failures.iter().zip(texts).enumerate() {
        assert!(
            failure.starts_with(&format!("mutant {}: ", number + 1)),
            "{failure}"
        );
        assert!(failure.contains(text), "{failure}");
    }
}

#[test]
fn onnx_models() {
    children::survives("onnx", MUTANTS);
}

#[test]
fn external_weights() {
    children::survives("external", MUTANTS);
}

#[test]
fn npy_files() {
    children::survives("npy", MUTANTS);
}

#[test]
fn npz_files_and_labels() {
    children::survives("npz", MUTANTS);
}

#[test]
fn idx_files() {
    children::survives("idx", MUTANTS);
}

#[test]
fn cifar_files() {
    children::survives("cifar", MUTANTS);
}

#[test]
fn csv_files() {
    children::survives("csv", MUTANTS);
}

#[test]
fn parquet_files() {
    children::survives("parquet", MUTANTS);
}

#[test]
fn vocabularies() {
    children::survives("vocabulary", MUTANTS);
}

#[test]
fn names_and_shares_of_classes() {
    children::survives("classes", MUTANTS);
}

#[test]
fn killed_mutants() {
    children::survives("killed", MUTANTS);
}

#[test]
fn png_images() {
    children::survives("png", MUTANTS);
}

#[test]
fn jpeg_images() {
    children::survives("jpeg", MUTANTS);
}

#[test]
fn settings_files() {
    settings::survive(MUTANTS);
}
