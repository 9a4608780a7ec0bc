//! The first shard of a selection that was cut off, with the record and the checksums that it should have and any
//! tensors: the selection goes on with it, or it is refused.
#![no_main]

#[path = "../../crates/cli/tests/faults/reseal.rs"]
mod reseal;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use npcov::data::{Preprocessing, open};
use npcov::select::{SelectOptions, Strategy};
use npcov::{BuildOptions, DecisionGraph, Error, Event, Inputs, Model, Progress};
use reseal::Parts;
use serde_json::{Map, Value};
use tempfile::TempDir;

/// Inputs of a shard, and one more.
const POOL: usize = 513;

struct Selection {
    folder: TempDir,
    graph: DecisionGraph,
    /// The plan, and the shard as it was.
    plan: Vec<u8>,
    honest: Parts,
}

impl Selection {
    fn new() -> Selection {
        let folder = TempDir::new().expect("a folder");
        let scale = Preprocessing {
            divide: Some(255.0),
            ..Preprocessing::default()
        };
        let model = Model::open(fixture("mlp-matlab.onnx")).expect("a model");
        let model = model.with_preprocessing(scale).with_threads(1);
        let options = BuildOptions {
            criteria: Some(["snpc", "lsc", "tknp"].map(|name| name.parse().expect("a name")).into()),
            restarts: 1,
            ..BuildOptions::default()
        };
        let graph = model.build(inputs(200), &options, &mut ()).expect("a graph");
        let mut selection = Selection {
            folder,
            graph,
            plan: Vec::new(),
            honest: Parts {
                header: Map::new(),
                data: Vec::new(),
            },
        };
        let mut seen = 0;
        let mut stop = |event| {
            if let Event::Finished(more) = event {
                seen += more;
            }
            // The shard before is written when inputs of the next one are told.
            match seen >= POOL {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        selection.go_on(&mut stop).expect_err("it was stopped");
        selection.plan = std::fs::read(selection.part("plan.json")).expect("a plan");
        let shard = std::fs::read(selection.part("inputs-000000.safetensors")).expect("a shard");
        selection.honest = reseal::parts(&shard);
        selection
    }

    fn part(&self, name: &str) -> PathBuf {
        self.folder.path().join("out.npz.parts").join(name)
    }

    fn go_on(&self, progress: &mut dyn Progress) -> Result<(), Error> {
        let by = Strategy::Additional("snpc".parse().expect("a name"));
        let options = SelectOptions {
            count: Some(10),
            ..SelectOptions::from(by)
        };
        let output = self.folder.path().join("out.npz");
        self.graph.select_file(inputs(POOL), &options, &output, progress)?;
        Ok(())
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name)
}

fn inputs(count: usize) -> Inputs<'static> {
    let data = fixture("fashion-1000.npz");
    let data = open(data.to_str().expect("UTF-8")).expect("data");
    Inputs::new(data).rows(0..count)
}

fuzz_target!(|bytes: &[u8]| {
    static SELECTION: OnceLock<Selection> = OnceLock::new();
    let selection = SELECTION.get_or_init(Selection::new);
    // As a safetensors file has it: the length of the header, the header, the numbers.
    let Some((len, rest)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let Ok(Some((header, data))) = usize::try_from(u64::from_le_bytes(*len)).map(|len| rest.split_at_checked(len))
    else {
        return;
    };
    let Ok(mut header) = serde_json::from_slice::<Map<String, Value>>(header) else {
        return;
    };
    let metadata = selection.honest.header["__metadata__"].clone();
    header.insert("__metadata__".to_owned(), metadata);
    let data = data.to_vec();
    let shard = reseal::sealed(&Parts { header, data });
    std::fs::create_dir_all(selection.part("")).expect("a folder");
    std::fs::write(selection.part("plan.json"), &selection.plan).expect("room");
    std::fs::write(selection.part("inputs-000000.safetensors"), shard).expect("room");
    let _ = selection.go_on(&mut ());
});
