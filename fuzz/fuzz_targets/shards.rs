//! The first shard of work that was cut off, with the record and the checksums that it should have and any tensors: the
//! work goes on with it, or it is refused. The first byte says which work.
#![no_main]

#[path = "../../crates/cli/tests/faults/reseal.rs"]
mod reseal;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use npcov::data::{Preprocessing, Samples, open};
use npcov::run::Part;
use npcov::select::{SelectOptions, Strategy};
use npcov::{
    BuildOptions, CoverOptions, DecisionGraph, Error, Event, Inputs, Model, Progress, Suite, TuneOptions,
};
use reseal::Parts;
use serde_json::{Map, Value};
use tempfile::TempDir;

/// Inputs of a shard, and one more.
const POOL: usize = 513;

#[derive(Clone, Copy)]
enum Run {
    Build,
    Cover,
    Select,
    Tune,
}

/// Work that was cut off when its first shard was there.
struct Work {
    run: Run,
    folder: TempDir,
    model: Model,
    graph: DecisionGraph,
    data: Arc<dyn Samples>,
    /// The plan, and the shard as it was.
    plan: Vec<u8>,
    shard: PathBuf,
    honest: Parts,
}

impl Work {
    fn new(run: Run) -> Work {
        let folder = TempDir::new().expect("a folder");
        let scale = Preprocessing {
            divide: Some(255.0),
            ..Preprocessing::default()
        };
        let model = Model::open(fixture("mlp-matlab.onnx")).expect("a model");
        let model = model.with_preprocessing(scale).with_threads(1);
        let data = fixture("fashion-1000.npz");
        let data = open(data.to_str().expect("UTF-8")).expect("data");
        let graph = model.build(Inputs::from(&data).rows(0..200), &build_options(), &mut ());
        let mut work = Work {
            run,
            folder,
            graph: graph.expect("a graph"),
            model,
            data,
            plan: Vec::new(),
            shard: PathBuf::new(),
            honest: Parts {
                header: Map::new(),
                data: Vec::new(),
            },
        };
        match run {
            Run::Tune => work.tune_part().expect("a part"),
            Run::Build | Run::Cover | Run::Select => {
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
                work.go_on(&mut stop).expect_err("it was stopped");
            }
        }
        work.plan = std::fs::read(work.part("plan.json")).expect("a plan");
        let word = match run {
            Run::Build => "paths",
            Run::Cover => "suite",
            Run::Select => "inputs",
            Run::Tune => "masked",
        };
        let files = std::fs::read_dir(work.part("")).expect("a folder");
        let mut files = files.map(|file| file.expect("a file").file_name());
        let is_it = |name: &std::ffi::OsString| name.to_string_lossy().starts_with(word);
        work.shard = work.part(&files.find(is_it).expect("a shard").to_string_lossy());
        work.honest = reseal::parts(&std::fs::read(&work.shard).expect("a shard"));
        work
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("out.npz")
    }

    fn part(&self, name: &str) -> PathBuf {
        self.folder.path().join("out.npz.parts").join(name)
    }

    fn tune_part(&self) -> Result<(), Error> {
        let whole = Part::new(1, 1).expect("a part");
        self.model.tune_part(&*self.data, &tune_options(), whole, self.output(), &mut ())?;
        Ok(())
    }

    fn go_on(&self, progress: &mut dyn Progress) -> Result<(), Error> {
        let (inputs, output) = (Inputs::from(&self.data).rows(0..POOL), self.output());
        match self.run {
            Run::Build => {
                self.model.build_file(inputs, &build_options(), &output, progress)?;
            }
            Run::Cover => {
                let suites = [Suite::new("test", inputs)];
                self.graph.cover_file(&suites, &CoverOptions::default(), None, &output, progress)?;
            }
            Run::Select => {
                let by = Strategy::Additional("snpc".parse().expect("a name"));
                let options = SelectOptions {
                    count: Some(10),
                    ..SelectOptions::from(by)
                };
                self.graph.select_file(inputs, &options, &output, progress)?;
            }
            Run::Tune => {
                self.tune_part()?;
                let found = self.model.join_tuning(&*self.data, &tune_options(), &output)?;
                found.remove_parts()?;
            }
        }
        Ok(())
    }
}

fn build_options() -> BuildOptions {
    BuildOptions {
        criteria: Some(["snpc", "lsc", "tknp"].map(|name| name.parse().expect("a name")).into()),
        restarts: 1,
        ..BuildOptions::default()
    }
}

fn tune_options() -> TuneOptions {
    TuneOptions {
        sample: Some(20),
        alphas: vec![0.8],
        clusters: vec![1],
        betas: vec![0.8],
        ..TuneOptions::default()
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name)
}

fuzz_target!(|bytes: &[u8]| {
    static WORK: OnceLock<[Work; 4]> = OnceLock::new();
    let all = WORK.get_or_init(|| [Run::Build, Run::Cover, Run::Select, Run::Tune].map(Work::new));
    let Some((run, bytes)) = bytes.split_first() else {
        return;
    };
    let work = &all[usize::from(*run) % all.len()];
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
    let metadata = work.honest.header["__metadata__"].clone();
    header.insert("__metadata__".to_owned(), metadata);
    let data = data.to_vec();
    let shard = reseal::sealed(&Parts { header, data });
    std::fs::create_dir_all(work.part("")).expect("a folder");
    std::fs::write(work.part("plan.json"), &work.plan).expect("room");
    std::fs::write(&work.shard, shard).expect("room");
    let _ = work.go_on(&mut ());
});
