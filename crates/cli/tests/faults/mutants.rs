//! Damaged and forged graphs, states and shards.
//!
//! What is damaged is refused or, of a shard, computed again: nobody gets other bytes than those of an
//! honest run. What is forged, with checksums that fit, may say anything, but not bring the program
//! down. All of it happens in processes that may use little memory, and compute five seconds for each file.

use std::io::Write;
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use npcov::data::{Arrays, Preprocessing, Samples, open};
use npcov::masking::{Keep, MaskingOptions, MaskingStudy, Neurons};
use npcov::run::Part;
use npcov::select::{SelectOptions, Strategy};
use npcov::{
    BuildOptions, CoverOptions, Coverage, DecisionGraph, Event, Inputs, Model, Suite, TuneOptions,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::reseal::{Parts, parts, range, sealed};
use crate::seconds::computed;
use crate::support::fixtures;
use crate::{Random, tries};

/// Memory that a process may ask for, in KiB: what the work itself takes, and a gigabyte.
const MEMORY: usize = 1_500_000;

/// Seconds of computing that one file may take.
const SECONDS: f64 = 5.0;

/// How often a look is taken.
const TICK: Duration = Duration::from_millis(100);

/// Looks without an end, computing or not: two minutes. Where the process is paused, nobody looks.
const PATIENCE: u32 = 1200;

/// What tells a child whose mutants are its own.
const TASK: &str = "NPCOV_FAULTS_OF";

/// Other mutants than usual: whoever looks for more gives a number.
const SEED: &str = "NPCOV_FAULTS_SEED";

/// Shows mutants to a child process.
fn no_mutant_gets_through(task: &str) {
    let limits = format!("ulimit -v {MEMORY} && exec \"$0\" \"$@\"");
    let outcome = Command::new("sh")
        .args(["-c", &limits])
        // Threads would each reserve addresses for memory that they never ask for.
        .env("MALLOC_ARENA_MAX", "1")
        .env(TASK, task)
        .arg(std::env::current_exe().unwrap())
        .args(["mutants::child", "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
    let errors = String::from_utf8_lossy(&outcome.stderr);
    assert!(
        outcome.status.success(),
        "{}\n{text}\n{errors}",
        outcome.status
    );
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
fn graphs() {
    no_mutant_gets_through("graphs");
}

#[test]
fn states() {
    no_mutant_gets_through("states");
}

#[test]
fn shards_of_build() {
    no_mutant_gets_through("build");
}

#[test]
fn shards_of_cover() {
    no_mutant_gets_through("cover");
}

#[test]
fn shards_of_select() {
    no_mutant_gets_through("select");
}

#[test]
fn shards_of_tune() {
    no_mutant_gets_through("tune");
}

#[test]
fn explained_inputs_of_lab() {
    no_mutant_gets_through("lab");
}

/// What is being tried, since when, and what had been computed before.
static TRIED: Mutex<Option<(Instant, f64, String)>> = Mutex::new(None);

/// Panics of all threads.
static PANICS: AtomicUsize = AtomicUsize::new(0);

#[test]
#[ignore = "started by the other tests, as a process of its own"]
fn child() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        report(info);
    }));
    std::thread::spawn(watch);
    let honest = Honest::new();
    let count = tries(150, 2000);
    let seed = std::env::var(SEED).map_or(11, |seed| seed.parse().unwrap());
    let mut random = Random(seed);
    let shards = |run, random: &mut Random| {
        let run = ShardRun::new(run, &honest);
        (0..count.div_ceil(3)).for_each(|_| run.try_shards(random));
    };
    match &*task {
        "graphs" => (0..count).for_each(|_| honest.try_graph(&mut random)),
        "states" => (0..count).for_each(|_| honest.try_state(&mut random)),
        "build" => shards(Run::Build, &mut random),
        "cover" => shards(Run::Cover, &mut random),
        "select" => shards(Run::Select, &mut random),
        "tune" => shards(Run::Tune, &mut random),
        "lab" => shards(Run::Lab, &mut random),
        other => panic!("no mutants of `{other}`"),
    }
}

/// Ends the process when something takes too long.
fn watch() {
    let (mut looked_at, mut looks) = (None, 0);
    loop {
        std::thread::sleep(TICK);
        let tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((since, before, name)) = tried else {
            continue;
        };
        looks = match looked_at.replace(since) == Some(since) {
            true => looks + 1,
            false => 1,
        };
        let spent = computed("self").map_or(0.0, |seconds| seconds - before);
        if spent > SECONDS || looks > PATIENCE {
            panic::set_hook(Box::new(|_| {}));
            let _ = writeln!(std::io::stdout(), "takes {spent:.1} seconds: {name}");
            std::process::abort();
        }
    }
}

/// Does something with a file that may be anything; nothing in it panics or takes long.
fn survive<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let set = |tried| *TRIED.lock().unwrap_or_else(PoisonError::into_inner) = tried;
    let before = computed("self").unwrap_or(0.0);
    set(Some((Instant::now(), before, name.to_owned())));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    set(None);
    let panics = PANICS.load(Ordering::SeqCst);
    match result {
        Ok(result) if panics == 0 => result,
        _ => panic!("a panic: {name}"),
    }
}

/// Damages bytes somewhere, and says how. The result is never what it was.
fn damaged(bytes: &[u8], random: &mut Random) -> (String, Vec<u8>) {
    let mut found = bytes.to_vec();
    let place = random.below(bytes.len());
    // The header is where most can go wrong, and short.
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = header.saturating_add(8).min(bytes.len());
    let early = random.below(header);
    let how = match random.below(8) {
        0 => {
            found.truncate(place);
            format!("cut at {place}")
        }
        1 => {
            found.extend_from_slice(&bytes[place..]);
            format!("lengthened from {place}")
        }
        2 => {
            found.drain(place..(place + 1 + random.below(64)).min(bytes.len()));
            format!("without bytes at {place}")
        }
        3 => {
            // Two places change their contents.
            let len = 1 + random.below(32.min(bytes.len()));
            let other = random.below(bytes.len() - len + 1);
            let place = place.min(bytes.len() - len);
            found[place..place + len].copy_from_slice(&bytes[other..other + len]);
            format!("{len} bytes of {other} at {place}")
        }
        4 => {
            let digits: Vec<usize> = (8..header).filter(|&i| bytes[i].is_ascii_digit()).collect();
            let place = digits[random.below(digits.len())];
            found[place] = b'0' + random.below(10) as u8;
            format!("another digit at {place}")
        }
        5 => {
            found[early] ^= 1 << random.below(8);
            format!("a bit of the header at {early}")
        }
        _ => {
            found[place] ^= 1 << random.below(8);
            format!("a bit at {place}")
        }
    };
    match found == bytes {
        true => damaged(bytes, random),
        false => (how, found),
    }
}

/// Changes what a file says, and seals it anew.
fn forged(bytes: &[u8], random: &mut Random) -> (String, Vec<u8>) {
    let mut file = parts(bytes);
    let mut how = String::new();
    for _ in 0..1 + random.below(2) {
        how += &match random.below(3) {
            0 => forge_numbers(&mut file, random),
            1 => forge_record(&mut file, random),
            _ => forge_header(&mut file, random),
        };
        how += "; ";
    }
    (how, sealed(&file))
}

/// Numbers that files rarely hold.
fn strange(random: &mut Random) -> u64 {
    let near: [u64; 13] = [
        0,
        1,
        2,
        63,
        64,
        65,
        1 << 16,
        1 << 27,
        1 << 31,
        1 << 32,
        1 << 53,
        1 << 59,
        1 << 63,
    ];
    near[random.below(near.len())]
        .wrapping_add(random.below(3) as u64)
        .wrapping_sub(1)
}

fn forge_numbers(file: &mut Parts, random: &mut Random) -> String {
    if file.data.is_empty() {
        return "no numbers".to_owned();
    }
    let place = random.below(file.data.len());
    let bytes = match random.below(4) {
        0 => f64::NAN.to_le_bytes().to_vec(),
        1 => f32::INFINITY.to_le_bytes().to_vec(),
        2 => strange(random).to_le_bytes().to_vec(),
        _ => vec![random.next() as u8],
    };
    let place = place / bytes.len() * bytes.len();
    for (to, from) in file.data[place..].iter_mut().zip(&bytes) {
        *to = *from;
    }
    format!("{bytes:?} among the numbers at {place}")
}

/// Changes a value somewhere in a JSON tree.
fn change(value: &mut Value, random: &mut Random, place: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() && random.below(8) > 0 => {
            let index = random.below(map.len());
            let Some((key, inner)) = map.iter_mut().nth(index) else {
                return;
            };
            *place += &format!(".{key}");
            change(inner, random, place);
        }
        Value::Array(list) if !list.is_empty() && random.below(8) > 0 => {
            let index = random.below(list.len());
            *place += &format!("[{index}]");
            match random.below(6) {
                0 => {
                    list.remove(index);
                }
                1 => list.push(list[index].clone()),
                _ => change(&mut list[index], random, place),
            }
        }
        value => {
            *value = match random.below(5) {
                0 => Value::Null,
                1 => Value::from(strange(random)),
                2 => Value::from(-(random.share() * 10.0)),
                3 => Value::from("\u{1b}[31m../../x"),
                _ => match value.as_u64() {
                    Some(number) => Value::from(number ^ 1 << random.below(64)),
                    None => Value::from(strange(random) as f64),
                },
            };
            *place += &format!(" = {value}");
        }
    }
}

fn forge_record(file: &mut Parts, random: &mut Random) -> String {
    let mut place = "record".to_owned();
    let Some(text) = file
        .header
        .get("__metadata__")
        .and_then(|m| m["npcov"].as_str())
    else {
        return "no record".to_owned();
    };
    let Ok(mut record) = serde_json::from_str::<Value>(text) else {
        return "no JSON".to_owned();
    };
    change(&mut record, random, &mut place);
    file.header["__metadata__"]["npcov"] = Value::from(record.to_string());
    place
}

/// Changes a tensor's type, shape or name, or removes it.
fn forge_header(file: &mut Parts, random: &mut Random) -> String {
    let names: Vec<String> = file
        .header
        .keys()
        .filter(|name| *name != "__metadata__")
        .cloned()
        .collect();
    let Some(name) = (!names.is_empty()).then(|| names[random.below(names.len())].clone()) else {
        return "no tensors".to_owned();
    };
    match random.below(4) {
        0 => {
            // Shapes of the same size, or of none.
            let Some((start, end)) = range(&file.header[&name]) else {
                return "no range".to_owned();
            };
            let shape = match start == end {
                true => vec![0, strange(random)],
                false => vec![1, (end - start) as u64],
            };
            file.header[&name]["dtype"] = Value::from("U8");
            file.header[&name]["shape"] = Value::from(shape.clone());
            format!("`{name}` of shape {shape:?}")
        }
        1 => {
            let other = names[random.below(names.len())].clone();
            let (a, b) = (file.header[&name].clone(), file.header[&other].clone());
            file.header[&name] = b;
            file.header[&other] = a;
            format!("`{name}` and `{other}` swapped")
        }
        2 => {
            let entry = file.header.remove(&name).unwrap_or_default();
            file.header.insert(format!("{name}x"), entry);
            format!("`{name}` renamed")
        }
        _ => {
            let mut place = format!("`{name}`");
            change(&mut file.header[&name], random, &mut place);
            place
        }
    }
}

/// What an honest run writes.
struct Honest {
    folder: TempDir,
    data: Arc<dyn Samples>,
    /// Enough inputs for three shards.
    many: Arrays<'static>,
    model: Vec<u8>,
    graph: Vec<u8>,
    state: Vec<u8>,
}

fn model() -> Model {
    let scale = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let model = Model::open(fixtures().join("mlp-matlab.onnx")).unwrap();
    model.with_preprocessing(scale).with_threads(1)
}

fn build_options() -> BuildOptions {
    let criteria = [
        "snpc",
        "anpc",
        "nc",
        "kmnc",
        "lsc",
        "nlc",
        "cc",
        "idc:neurons=4",
        "deepgini",
    ];
    BuildOptions {
        criteria: Some(criteria.map(|name| name.parse().unwrap()).into()),
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
        restarts: 1,
        ..TuneOptions::default()
    }
}

/// So many images: those there are, again and again.
fn repeated(data: &dyn Samples, inputs: usize) -> Arrays<'static> {
    let mut pixels = vec![0; data.len() * 784];
    data.read(0, 0..data.len(), &mut pixels).unwrap();
    let pixels: Vec<u8> = pixels.into_iter().cycle().take(inputs * 784).collect();
    Arrays::new("x", &[inputs, 28, 28], pixels).unwrap()
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

impl Honest {
    fn new() -> Honest {
        let folder = TempDir::new().unwrap();
        let data = open(fixtures().join("fashion-1000.npz").to_str().unwrap()).unwrap();
        let graph = folder.path().join("g.npcov");
        let training = Inputs::from(&data).rows(0..200);
        model()
            .build_file(training, &build_options(), &graph, &mut ())
            .unwrap();
        let mut honest = Honest {
            model: read(&fixtures().join("mlp-matlab.onnx")),
            graph: read(&graph),
            state: Vec::new(),
            folder,
            many: repeated(&*data, 1040),
            data,
        };
        honest.state = honest.covered(honest.graph.clone()).unwrap();
        honest
    }

    fn open_graph(&self, bytes: Vec<u8>) -> Result<DecisionGraph, npcov::Error> {
        let graph = DecisionGraph::from_bytes(bytes, self.model.clone())?;
        Ok(graph.with_threads(1))
    }

    /// The state of a few inputs, measured with a graph.
    fn covered(&self, graph: Vec<u8>) -> Result<Vec<u8>, npcov::Error> {
        let graph = self.open_graph(graph)?;
        let _ = graph.inspect();
        let coverage = graph.cover("test", Inputs::from(&self.data).rows(300..304), &mut ())?;
        coverage.report()?;
        let path = self.folder.path().join("s.npcov");
        coverage.save(&path)?;
        Ok(read(&path))
    }

    fn try_graph(&self, random: &mut Random) {
        let (how, bytes) = damaged(&self.graph, random);
        let found = survive(&format!("graph, {how}"), || self.covered(bytes).ok());
        assert!(
            found.is_none_or(|found| found == self.state),
            "graph, {how}: other bytes"
        );
        let (how, bytes) = forged(&self.graph, random);
        survive(&format!("forged graph, {how}"), || {
            self.covered(bytes).is_ok()
        });
    }

    fn try_state(&self, random: &mut Random) {
        let path = self.folder.path().join("mutant.npcov");
        let (how, bytes) = damaged(&self.state, random);
        std::fs::write(&path, bytes).unwrap();
        let taken = survive(&format!("state, {how}"), || Coverage::open(&path).is_ok());
        assert!(!taken, "state, {how}: taken");
        let (how, bytes) = forged(&self.state, random);
        std::fs::write(&path, bytes).unwrap();
        survive(&format!("forged state, {how}"), || {
            let coverage = Coverage::open(&path)?;
            coverage.report()?;
            coverage.difference(&coverage)?;
            coverage.save(self.folder.path().join("again.npcov"))
        })
        .ok();
    }
}

/// A run that keeps shards.
#[derive(Clone, Copy, Debug)]
enum Run {
    Build,
    Cover,
    Select,
    /// A part of a search for parameters, whose first step has to be done by others too.
    Tune,
    /// The explained inputs that masking in `lab` keeps.
    Lab,
}

/// A run that was cut off when all its shards were there.
struct ShardRun<'a> {
    run: Run,
    honest: &'a Honest,
    folder: TempDir,
    /// The files in the folder of parts.
    files: Vec<(PathBuf, Vec<u8>)>,
    /// What it writes in the end.
    expected: Vec<u8>,
}

impl<'a> ShardRun<'a> {
    fn new(run: Run, honest: &'a Honest) -> ShardRun<'a> {
        let mut shards = ShardRun {
            run,
            honest,
            folder: TempDir::new().unwrap(),
            files: Vec::new(),
            expected: Vec::new(),
        };
        shards.go(&mut ()).unwrap();
        shards.expected = read(&shards.output());
        std::fs::remove_file(shards.output()).unwrap();
        let parts = shards.folder.path().join("out.parts");
        for entry in shards.cut_off(&parts) {
            let bytes = read(&entry);
            shards.files.push((entry, bytes));
        }
        shards.files.sort();
        shards
    }

    /// The files that a run leaves which is cut off.
    fn cut_off(&self, parts: &Path) -> Vec<PathBuf> {
        match self.run {
            Run::Build | Run::Cover | Run::Select => self.stopped(parts),
            Run::Tune => {
                self.tune_part().unwrap();
                // Another plan than it should be is an error here, not a reason to begin anew.
                let names = ["masked-000000.safetensors", "abstract-000000.safetensors"];
                names.map(|name| parts.join(name)).into()
            }
            Run::Lab => {
                std::fs::create_dir_all(parts).unwrap();
                self.study(&mut ()).unwrap();
                vec![parts.join("explained.safetensors")]
            }
        }
    }

    /// Both steps of a search.
    fn tune_part(&self) -> Result<(), npcov::Error> {
        let whole = Part::new(1, 1).unwrap();
        let (data, options) = (&*self.honest.data, tune_options());
        for _ in 0..2 {
            model().tune_part(data, &options, whole, self.output(), &mut ())?;
        }
        Ok(())
    }

    /// What masking the paths of a few inputs does, in words.
    fn study(&self, progress: &mut dyn npcov::Progress) -> Result<String, npcov::Error> {
        let model = model();
        let data = model.loader(self.honest.data.clone())?;
        let options = MaskingOptions {
            method: tune_options().method,
            choices: tune_options().choices,
            sample: Some(20),
            alphas: vec![0.8],
            bands: None,
            restarts: 1,
            seed: 0,
            keep: Some(Keep {
                file: self.folder.path().join("out.parts/explained.safetensors"),
                plan: "a plan".to_owned(),
            }),
        };
        let study = MaskingStudy::new(model.network(), &data, &options, 1, progress)?;
        let found = study.inconsistency(0, Neurons::Path, study.counted(), progress)?;
        Ok(format!("{found:?} {}", study.width(0)))
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// Goes on until two shards are there, and gives the files.
    fn stopped(&self, parts: &Path) -> Vec<PathBuf> {
        let mut seen = 0;
        let mut stop = |event| {
            if let Event::Finished(more) = event {
                seen += more;
            }
            // The shard before is written when inputs of the next one are told.
            match seen > 1024 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        assert!(self.go(&mut stop).is_err());
        let entries = std::fs::read_dir(parts).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let files: Vec<PathBuf> = paths.collect();
        assert_eq!(files.len(), 3, "a plan and two shards: {files:?}");
        files
    }

    fn go(&self, progress: &mut dyn npcov::Progress) -> Result<(), npcov::Error> {
        let inputs = Inputs::from(&self.honest.many);
        let output = self.output();
        match self.run {
            Run::Build => {
                let options = BuildOptions {
                    criteria: Some(vec!["snpc".parse().unwrap()]),
                    restarts: 1,
                    ..BuildOptions::default()
                };
                model().build_file(inputs, &options, &output, progress)?;
            }
            Run::Cover => {
                let graph = self.honest.open_graph(self.honest.graph.clone())?;
                let options = CoverOptions {
                    criteria: Some(vec!["snpc".parse().unwrap(), "nc".parse().unwrap()]),
                    ..CoverOptions::default()
                };
                let suites = [Suite::new("test", inputs)];
                graph.cover_file(&suites, &options, None, &output, progress)?;
            }
            Run::Select => {
                let graph = self.honest.open_graph(self.honest.graph.clone())?;
                let by = Strategy::Total("snpc".parse().unwrap());
                let options = SelectOptions {
                    count: Some(10),
                    ..SelectOptions::from(by)
                };
                graph.select_file(inputs, &options, &output, progress)?;
            }
            Run::Tune => {
                self.tune_part()?;
                let found = model().join_tuning(&*self.honest.data, &tune_options(), &output)?;
                let found = format!("{:?}", found.remove_parts()?);
                std::fs::write(output, found).unwrap();
            }
            Run::Lab => {
                std::fs::create_dir_all(self.folder.path().join("out.parts")).unwrap();
                std::fs::write(output, self.study(progress)?).unwrap();
            }
        }
        Ok(())
    }

    /// Goes on with one file damaged, with two in each other's place, and with a shard that is forged.
    fn try_shards(&self, random: &mut Random) {
        let (path, bytes) = &self.files[random.below(self.files.len())];
        if random.below(6) == 0 {
            let (other, others) = &self.files[random.below(self.files.len())];
            let how = format!("in the place of {other:?}");
            self.go_on(&[(path, others), (other, bytes)], &how, true);
        } else {
            let (how, bytes) = damaged(bytes, random);
            self.go_on(&[(path, &bytes)], &how, true);
        }
        let is_shard = |path: &Path| path.extension().is_some_and(|e| e == "safetensors");
        let shards = self.files.iter().filter(|(path, _)| is_shard(path));
        let shards: Vec<&(PathBuf, Vec<u8>)> = shards.collect();
        let (path, bytes) = shards[random.below(shards.len())];
        let (how, bytes) = forged(bytes, random);
        self.go_on(&[(path, &bytes)], &how, false);
    }

    /// Puts the folder of parts back, but for some files, and goes on. If it must be, to the end of an
    /// honest run.
    fn go_on(&self, others: &[(&PathBuf, &Vec<u8>)], how: &str, must_be_honest: bool) {
        let parts = self.folder.path().join("out.parts");
        std::fs::create_dir_all(&parts).unwrap();
        let files = self.files.iter().map(|(path, bytes)| (path, bytes));
        for (path, bytes) in files.chain(others.iter().copied()) {
            std::fs::write(path, bytes).unwrap();
        }
        let name = format!("{:?} {:?}, {how}", self.run, others[0].0);
        let outcome = survive(&name, || self.go(&mut ()));
        if must_be_honest {
            outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(read(&self.output()) == self.expected, "{name}: other bytes");
        }
        let _ = std::fs::remove_file(self.output());
        let _ = std::fs::remove_dir_all(&parts);
    }
}
