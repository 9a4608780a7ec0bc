//! Graphs and states that are damaged or that promise too much.

use std::path::PathBuf;

use npcov::Error;
use npcov::artefact::GraphFile;
use npcov::coverage::{CoverOptions, Coverage, GraphInspection, LearntGraph};
use npcov::data::Source;
use npcov::data::safetensors::SafetensorsReader;
use serde_json::{Value, json};

use crate::case::{Case, measure, small};

/// The bytes of an artefact with another record.
fn with_record(bytes: &[u8], edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let reader = SafetensorsReader::new(&Source::from_bytes(bytes.to_vec()), "bytes").unwrap();
    let mut record: Value = serde_json::from_str(reader.metadata().unwrap()).unwrap();
    edit(&mut record);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edited");
    reader.save(&file, &record.to_string()).unwrap();
    std::fs::read(file).unwrap()
}

/// Uses a file as a decision graph for all that it is good for.
fn use_graph(case: &Case, file: &PathBuf) -> Result<(), Error> {
    GraphInspection::of(&GraphFile::open(file)?)?;
    let graph = LearntGraph::open(file, Some(&case.model))?;
    let measurement = graph.measurement(&CoverOptions::default())?;
    let output = case.path("used.npcov");
    let suites = [case.suite("suite", 0..3)];
    measure(&measurement, &suites, &output, 1)?.report()?;
    Ok(())
}

fn use_state(file: &PathBuf) -> Result<(), Error> {
    Coverage::open(file)?.report()?;
    Coverage::merge_files(std::slice::from_ref(file), Some("all"))?;
    Ok(())
}

/// Places all over a file, the header more densely than the numbers, each with a bit to turn.
fn damages(bytes: &[u8], header: usize, data: usize) -> impl Iterator<Item = (usize, u8)> {
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let len = bytes.len();
    (0..header + data).map(move |i| {
        let place = match i < header {
            true => next(start),
            false => start + next(len - start),
        };
        (place, 1 << next(8))
    })
}

#[test]
fn damaged_files_are_refused_or_used_but_never_a_panic() {
    let (case, graph) = small();
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    case.cover(&measurement, 60..90);
    let file = case.path("damaged.npcov");
    let mut refused = 0;
    let graph_bytes = std::fs::read(graph.file().path().unwrap()).unwrap();
    for (place, bit) in damages(&graph_bytes, 700, 100) {
        let mut bytes = graph_bytes.clone();
        bytes[place] ^= bit;
        std::fs::write(&file, bytes).unwrap();
        refused += usize::from(use_graph(&case, &file).is_err());
    }
    let state_bytes = std::fs::read(case.path("state.npcov")).unwrap();
    for (place, bit) in damages(&state_bytes, 700, 300) {
        let mut bytes = state_bytes.clone();
        bytes[place] ^= bit;
        std::fs::write(&file, bytes).unwrap();
        refused += usize::from(use_state(&file).is_err());
    }
    assert!(refused > 500, "only {refused} of 1,800");
    for bytes in [&graph_bytes, &state_bytes] {
        for cut in (0..200).map(|i| i * bytes.len() / 200) {
            std::fs::write(&file, &bytes[..cut]).unwrap();
            assert!(
                use_graph(&case, &file).is_err() && use_state(&file).is_err(),
                "{cut}"
            );
        }
    }
}

#[test]
fn records_that_promise_too_much_are_refused() {
    const HUGE: u64 = u64::MAX;
    let (case, graph) = small();
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    case.cover(&measurement, 60..90);
    let file = case.path("hostile.npcov");
    let bytes = std::fs::read(graph.file().path().unwrap()).unwrap();
    std::fs::write(&file, with_record(&bytes, |_| {})).unwrap();
    use_graph(&case, &file).unwrap();
    let edits: [(&str, Value); 11] = [
        ("/classes/0/planned", HUGE.into()),
        ("/classes/0/clusters", HUGE.into()),
        (
            "/classes/0",
            json!({"name": null, "planned": HUGE, "clusters": HUGE, "beta": 0.8}),
        ),
        ("/training/end", HUGE.into()),
        ("/extraction/layers/0/neurons", HUGE.into()),
        ("/extraction/layers", json!([])),
        ("/extraction/alpha/0", 2.into()),
        ("/anpc/layers/0/layer", 7.into()),
        ("/choices/snpc-buckets", 65_536.into()),
        ("/choices/members", "all".into()),
        ("/kind", "coverage-state".into()),
    ];
    for (place, value) in edits {
        let edit = |record: &mut Value| *record.pointer_mut(place).unwrap() = value;
        std::fs::write(&file, with_record(&bytes, edit)).unwrap();
        assert!(use_graph(&case, &file).is_err(), "{place}");
    }
    // Without layers, nothing but the record says how many clusters there are.
    let edit = |record: &mut Value| {
        record["extraction"]["layers"] = json!([]);
        record["anpc"]["layers"] = json!([]);
        record["classes"][0]["planned"] = HUGE.into();
        record["classes"][0]["clusters"] = HUGE.into();
    };
    std::fs::write(&file, with_record(&bytes, edit)).unwrap();
    assert!(use_graph(&case, &file).is_err());

    let bytes = std::fs::read(case.path("state.npcov")).unwrap();
    std::fs::write(&file, with_record(&bytes, |_| {})).unwrap();
    use_state(&file).unwrap();
    let edits: [(&str, Value); 8] = [
        ("/classes/0", json!([HUGE, 2])),
        ("/classes/0", json!([HUGE, HUGE])),
        ("/classes/0", json!([2, 0])),
        ("/suites/0/shards/0/end", HUGE.into()),
        ("/suites/0/shards", json!([])),
        ("/layers", json!([])),
        ("/anpc/layers", json!([])),
        ("/choices/anpc-buckets", 0.into()),
    ];
    for (place, value) in edits {
        let edit = |record: &mut Value| *record.pointer_mut(place).unwrap() = value;
        std::fs::write(&file, with_record(&bytes, edit)).unwrap();
        assert!(use_state(&file).is_err(), "{place}");
    }
}
