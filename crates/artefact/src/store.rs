//! Where a long piece of work keeps what is finished.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_data::{
    DataError, Digest, FilePool, OutputLock, ReadError, Source, is_temporary, require_place,
    write_whole,
};
use npcov_run::Found;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::difference::differences;
use crate::error::ArtefactError;

/// Shards of an artefact that is being made, and the artefact in the end.
///
/// [Beside a file](ShardStore::beside), each shard is a file in a folder, written whole or not at all;
/// work that was cut off goes on after the shards that are there. [In memory](ShardStore::in_memory)
/// nothing touches a disk, and nothing outlives the store.
///
/// A shard says which one it is: its name, its inputs, the plan by which it was made, and the version
/// of npcov. It is opened as that or not at all. As long as there is a store beside a file, no other
/// process makes one.
pub struct ShardStore {
    place: Place,
    /// Digest of what the shards are made with.
    plan: String,
    resumed: bool,
}

enum Place {
    Disk {
        artefact: PathBuf,
        lock: OutputLock,
        files: Arc<FilePool>,
    },
    Memory(Mutex<BTreeMap<String, Source>>),
}

/// A shard that is removed when it is no longer read.
pub struct Passing {
    reader: SafetensorsReader,
    /// Its file, and where that may be open.
    file: Option<(PathBuf, Arc<FilePool>)>,
}

impl Passing {
    /// What is in it.
    pub fn reader(&self) -> &SafetensorsReader {
        &self.reader
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if let Some((file, files)) = &self.file {
            files.forget(file);
            // What cannot be removed now goes with all other shards.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Why a shard cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is not there.
    Missing,
    /// It is not what was written.
    Damaged,
    /// Another version of npcov wrote it.
    OtherVersion(String),
    /// It was made by another plan.
    OtherPlan {
        /// What it says of itself.
        metadata: String,
    },
    /// It is another one than its name says: this one.
    OtherShard(String),
}

/// Which shard a file is, in its metadata.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ShardRecord {
    name: String,
    /// The first of its inputs, and the one behind the last.
    inputs: (usize, usize),
    /// Digest of the plan.
    plan: String,
    /// The version of npcov that wrote it.
    version: String,
}

/// The metadata of a shard, as far as the store knows it.
#[derive(Deserialize)]
struct ShardMetadata {
    shard: ShardRecord,
}

/// Where a shard's metadata says which one it is.
const SHARD: &str = "shard";

/// What the shards are made with.
const PLAN: &str = "plan.json";

/// What shards are called: one of these words, and numbers.
const WORDS: [&str; 9] = [
    "paths",
    "calibration",
    "clusters",
    "kept",
    "suite",
    "inputs",
    "lists",
    "masked",
    "abstract",
];

/// What is written here before it is given its name elsewhere.
const UNFINISHED: &str = "chosen.tmp";

/// What an artefact in memory is called.
const MEMORY: &str = "memory";

impl ShardStore {
    /// A folder beside the file that the artefact will be. Shards that were made by another plan are
    /// removed. An artefact that could not be written in the end, or is being written by another
    /// process, is an error now.
    pub fn beside(artefact: &Path, plan: &str) -> Result<ShardStore, ArtefactError> {
        require_place(artefact)?;
        let lock = OutputLock::beside(artefact)?;
        let plan_file = lock.folder().join(PLAN);
        let resumed =
            npcov_file::read_text(&plan_file, plan.len() as u64).is_ok_and(|found| found == plan);
        if !resumed {
            // The plan goes first, so that shards are never taken for those of another one.
            remove_file(lock.folder(), &plan_file)?;
            clear(lock.folder())?;
            write_whole(&plan_file, plan.as_bytes())?;
        }
        Ok(ShardStore::on_disk(artefact, lock, plan, resumed))
    }

    /// The same for one of several processes that make shards of the artefact at the same time, or one
    /// after the other: shards that are there stay. Those of another plan are an error.
    pub fn shared(artefact: &Path, plan: &str) -> Result<ShardStore, ArtefactError> {
        require_place(artefact)?;
        let lock = OutputLock::shared(artefact)?;
        if !has_plan(lock.folder(), plan)? {
            write_whole(lock.folder().join(PLAN), plan.as_bytes())?;
        }
        Ok(ShardStore::on_disk(artefact, lock, plan, true))
    }

    /// The shards that [such](ShardStore::shared) processes made, here or in folders that were copied
    /// together, for the one that makes the artefact of them. Those of another plan are an error, and so
    /// is a process that still adds to them.
    pub fn joining(artefact: &Path, plan: &str) -> Result<ShardStore, ArtefactError> {
        require_place(artefact)?;
        let lock = OutputLock::beside(artefact)?;
        has_plan(lock.folder(), plan)?;
        Ok(ShardStore::on_disk(artefact, lock, plan, true))
    }

    fn on_disk(artefact: &Path, lock: OutputLock, plan: &str, resumed: bool) -> ShardStore {
        ShardStore {
            place: Place::Disk {
                artefact: artefact.to_owned(),
                lock,
                files: Arc::default(),
            },
            plan: Digest::of(plan.as_bytes()).to_string(),
            resumed,
        }
    }

    /// Memory.
    pub fn in_memory() -> ShardStore {
        ShardStore {
            place: Place::Memory(Mutex::default()),
            plan: String::new(),
            resumed: false,
        }
    }

    /// Beside a file, where there is one to be, and else in memory.
    pub fn of(artefact: Option<&Path>, plan: &str) -> Result<ShardStore, ArtefactError> {
        match artefact {
            Some(path) => ShardStore::beside(path, plan),
            None => Ok(ShardStore::in_memory()),
        }
    }

    /// Whether an earlier run by the same plan was cut off.
    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// The file that the artefact is to be; `None` in memory.
    pub fn artefact(&self) -> Option<&Path> {
        match &self.place {
            Place::Disk { artefact, .. } => Some(artefact),
            Place::Memory(_) => None,
        }
    }

    /// The folder of shards; `None` in memory.
    pub fn folder(&self) -> Option<&Path> {
        match &self.place {
            Place::Disk { lock, .. } => Some(lock.folder()),
            Place::Memory(_) => None,
        }
    }

    /// What an earlier run left of a shard: only where all of it is as it was written, and `fits`
    /// finds in it what it should hold, it is whole.
    pub fn find(
        &self,
        shard: &str,
        inputs: Range<usize>,
        fits: impl FnOnce(&SafetensorsReader) -> bool,
    ) -> Found {
        match self.open(shard, inputs) {
            Ok(reader) if reader.check().is_ok() && fits(&reader) => Found::Whole,
            Err(error) if is_missing(&error) => Found::Nothing,
            _ => Found::Damaged,
        }
    }

    /// Why a shard that was not [found whole](ShardStore::find) cannot be used.
    pub fn flaw(&self, shard: &str, inputs: Range<usize>) -> Flaw {
        let reader = match self.read(shard) {
            Ok(reader) if reader.is_sealed() && reader.check().is_ok() => reader,
            Err(error) if is_missing(&error) => return Flaw::Missing,
            _ => return Flaw::Damaged,
        };
        let metadata = reader.metadata().unwrap_or_default().to_owned();
        let Ok(ShardMetadata { shard: found }) = serde_json::from_str(&metadata) else {
            return Flaw::Damaged;
        };
        let wanted = self.record(shard, inputs);
        match found {
            found if found.version != wanted.version => Flaw::OtherVersion(found.version),
            found if found.plan != wanted.plan => Flaw::OtherPlan { metadata },
            found if found != wanted => Flaw::OtherShard(found.name),
            _ => Flaw::Damaged,
        }
    }

    /// Opens a shard: the one of this name, with these inputs, that was made by the store's plan.
    pub fn open(&self, shard: &str, inputs: Range<usize>) -> Result<SafetensorsReader, DataError> {
        let reader = self.read(shard)?;
        let metadata = reader.metadata().unwrap_or_default();
        let found: Option<ShardMetadata> = serde_json::from_str(metadata).ok();
        let is_it = found.is_some_and(|found| found.shard == self.record(shard, inputs));
        match reader.is_sealed() && is_it {
            true => Ok(reader),
            false => {
                let reason = "is damaged, or another part than its name says".to_owned();
                Err(ReadError::Damaged(reason).in_file(reader.name()))
            }
        }
    }

    /// Opens a shard that is of no use later: it is removed when what is given back is dropped.
    pub fn open_once(&self, shard: &str, inputs: Range<usize>) -> Result<Passing, DataError> {
        let reader = self.open(shard, inputs)?;
        let file = match &self.place {
            Place::Disk { lock, files, .. } => Some((file(lock.folder(), shard), files.clone())),
            Place::Memory(shards) => {
                lock_map(shards).remove(shard);
                None
            }
        };
        Ok(Passing { reader, file })
    }

    /// Opens whatever is there under a shard's name.
    fn read(&self, shard: &str) -> Result<SafetensorsReader, DataError> {
        match &self.place {
            Place::Disk { lock, files, .. } => {
                let path = file(lock.folder(), shard);
                let name = path.display().to_string();
                match Source::pooled(files, &path) {
                    Ok(source) => SafetensorsReader::new(&source, name),
                    Err(error) => Err(ReadError::Io(error).in_file(name)),
                }
            }
            Place::Memory(shards) => match lock_map(shards).get(shard) {
                Some(bytes) => SafetensorsReader::new(bytes, shard),
                None => Err(ReadError::Io(ErrorKind::NotFound.into()).in_file(shard)),
            },
        }
    }

    fn record(&self, shard: &str, inputs: Range<usize>) -> ShardRecord {
        ShardRecord {
            name: shard.to_owned(),
            inputs: (inputs.start, inputs.end),
            plan: self.plan.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Writes a shard of some inputs, whole or not at all. `metadata` is a JSON object, to which is
    /// added which shard it is.
    pub fn write<E: From<DataError>>(
        &self,
        shard: &str,
        inputs: Range<usize>,
        metadata: &str,
        tensors: &[TensorSpec],
        fill: impl FnOnce(&mut SafetensorsWriter) -> Result<(), E>,
    ) -> Result<(), E> {
        let record = self.record(shard, inputs);
        let metadata = labelled(metadata, &record).map_err(|error| DataError::Arrays {
            file: shard.to_owned(),
            reason: error.to_string(),
        })?;
        match &self.place {
            Place::Disk { lock, .. } => {
                let path = file(lock.folder(), shard);
                let mut writer = SafetensorsWriter::create(path, &metadata, tensors)?;
                fill(&mut writer)?;
                Ok(writer.finish()?)
            }
            Place::Memory(shards) => {
                let mut writer = SafetensorsWriter::in_memory(&metadata, tensors)?;
                fill(&mut writer)?;
                let bytes = Source::from_bytes(writer.into_bytes()?);
                lock_map(shards).insert(shard.to_owned(), bytes);
                Ok(())
            }
        }
    }

    /// Writes the artefact that the shards were made for, whole or not at all, and opens it. On a
    /// disk it is written in the folder of shards first: what a killed process leaves is removed with
    /// them.
    pub fn write_artefact<E: From<DataError>>(
        &self,
        metadata: &str,
        tensors: &[TensorSpec],
        fill: impl FnOnce(&mut SafetensorsWriter) -> Result<(), E>,
    ) -> Result<SafetensorsReader, E> {
        match &self.place {
            Place::Disk { artefact, lock, .. } => {
                let folder = lock.folder();
                let mut writer =
                    SafetensorsWriter::create_by_way_of(folder, artefact, metadata, tensors)?;
                fill(&mut writer)?;
                writer.finish()?;
                Ok(SafetensorsReader::open(artefact)?)
            }
            Place::Memory(_) => {
                let mut writer = SafetensorsWriter::in_memory(metadata, tensors)?;
                fill(&mut writer)?;
                let bytes = Source::from_bytes(writer.into_bytes()?);
                Ok(SafetensorsReader::new(&bytes, MEMORY)?)
            }
        }
    }

    /// A file in the folder of shards for an artefact that is no safetensors file, until it is whole;
    /// beside it where there is no folder.
    pub fn unfinished(&self, artefact: &Path) -> PathBuf {
        let folder = self.folder().or(artefact.parent());
        folder.unwrap_or(Path::new("")).join(UNFINISHED)
    }

    /// Removes all shards.
    pub fn remove(self) -> Result<(), ArtefactError> {
        match &self.place {
            // What is left of the folder goes with its lock.
            Place::Disk { lock, .. } => clear(lock.folder()),
            Place::Memory(_) => Ok(()),
        }
    }
}

/// The metadata of a shard with which one it is.
fn labelled(metadata: &str, record: &ShardRecord) -> Result<String, serde_json::Error> {
    let mut object: serde_json::Map<String, Value> = serde_json::from_str(metadata)?;
    object.insert(SHARD.to_owned(), serde_json::to_value(record)?);
    serde_json::to_string(&object)
}

fn lock_map(shards: &Mutex<BTreeMap<String, Source>>) -> MutexGuard<'_, BTreeMap<String, Source>> {
    // Shards are inserted whole.
    shards.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a file cannot be read because there is none.
fn is_missing(error: &DataError) -> bool {
    let DataError::Read { source, .. } = error else {
        return false;
    };
    matches!(source, ReadError::Io(error) if error.kind() == ErrorKind::NotFound)
}

/// The most bytes that a plan has: it names layers and classes.
const LARGEST_PLAN: u64 = 1 << 26;

/// Whether a folder is that of a plan; `false` where it has none, and an error where it has another.
fn has_plan(folder: &Path, plan: &str) -> Result<bool, ArtefactError> {
    let path = folder.join(PLAN);
    let Ok(found) = npcov_file::read_text(&path, LARGEST_PLAN) else {
        return Ok(false);
    };
    if found == plan {
        return Ok(true);
    }
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let mut differences = differences(&value(&found), &value(plan));
    if differences.is_empty() {
        differences.push("it is no plan of npcov's".to_owned());
    }
    Err(ArtefactError::Mismatch {
        file: path.display().to_string(),
        differences,
    })
}

fn file(folder: &Path, shard: &str) -> PathBuf {
    folder.join(format!("{shard}.safetensors"))
}

/// Whether a file of this name was written by a store, now or in a run that was killed.
fn is_ours(name: &str) -> bool {
    if let Some(shard) = name.strip_suffix(".safetensors") {
        let mut parts = shard.split('-');
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        return parts.next().is_some_and(|word| WORDS.contains(&word)) && parts.all(is_number);
    }
    name == PLAN || name == UNFINISHED || is_temporary(name)
}

/// Removes the files of a folder that are a store's; nothing that a user may have put there, and
/// nothing that a link leads to.
fn clear(folder: &Path) -> Result<(), ArtefactError> {
    let failed = |source| DataError::Folder {
        folder: folder.display().to_string(),
        source,
    };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Of the entry itself, not of what it links to.
        let is_file = entry.file_type().map_err(failed)?.is_file();
        if is_file && entry.file_name().to_str().is_some_and(is_ours) {
            remove_file(folder, &entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file, if it is there.
fn remove_file(folder: &Path, file: &Path) -> Result<(), DataError> {
    match std::fs::remove_file(file) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(DataError::Folder {
            folder: folder.display().to_string(),
            source,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: Range<usize> = 0..512;

    #[test]
    fn a_passing_shard_goes_with_its_reader() {
        let folder = tempfile::tempdir().unwrap();
        let store = ShardStore::beside(&folder.path().join("graph"), "{}").unwrap();
        for store in [store, ShardStore::in_memory()] {
            write(&store, "kept-000000", 7);
            let passing = store.open_once("kept-000000", INPUTS).unwrap();
            let file = store.folder().map(|folder| file(folder, "kept-000000"));
            assert!(file.as_ref().is_none_or(|file| file.exists()));
            assert_eq!(passing.reader().read::<u32>("number").unwrap(), [7]);
            drop(passing);
            assert!(file.is_none_or(|file| !file.exists()));
            assert!(is_missing(&store.open("kept-000000", INPUTS).unwrap_err()));
        }
    }

    fn write(store: &ShardStore, shard: &str, number: u32) {
        let spec = [TensorSpec::of::<u32>("number", &[1])];
        let written = store.write(shard, INPUTS, "{}", &spec, |writer| {
            writer.append("number", &[number])
        });
        written.unwrap();
    }

    fn read(store: &ShardStore, shard: &str) -> Option<Vec<u32>> {
        let reader = store.open(shard, INPUTS).ok()?;
        reader.read("number").ok()
    }

    fn found(store: &ShardStore, shard: &str) -> Found {
        store.find(shard, INPUTS, |_| true)
    }

    #[test]
    fn shards_of_another_plan_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let artefact = folder.path().join("graph.npcov");
        let store = ShardStore::beside(&artefact, "a").unwrap();
        write(&store, "paths-0", 7);
        assert!(!store.resumed());
        drop(store);
        let again = ShardStore::beside(&artefact, "a").unwrap();
        assert!(again.resumed());
        assert_eq!(read(&again, "paths-0"), Some(vec![7]));
        drop(again);
        let parts = folder.path().join("graph.npcov.parts");
        let mine = [
            "notes.txt",
            "model.safetensors",
            "a.tmp",
            "paths-x.safetensors",
        ];
        for name in mine {
            std::fs::write(parts.join(name), "mine").unwrap();
        }
        std::fs::create_dir(parts.join("paths-1.safetensors")).unwrap();
        std::fs::write(parts.join(".npcov-a1B2c3.tmp"), "cut off").unwrap();
        let other = ShardStore::beside(&artefact, "b").unwrap();
        assert_eq!(found(&other, "paths-0"), Found::Nothing);
        assert!(!parts.join(".npcov-a1B2c3.tmp").exists());
        other.remove().unwrap();
        for name in mine {
            assert_eq!(std::fs::read(parts.join(name)).unwrap(), b"mine");
        }
        assert!(parts.join("paths-1.safetensors").is_dir());
        std::fs::remove_dir_all(&parts).unwrap();
        ShardStore::beside(&artefact, "a")
            .unwrap()
            .remove()
            .unwrap();
        assert!(!parts.exists());
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_removed_through_a_link() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let artefact = folder.path().join("graph.npcov");
        let (parts, mine) = (
            folder.path().join("graph.npcov.parts"),
            folder.path().join("mine"),
        );
        std::fs::create_dir(&mine).unwrap();
        std::fs::write(mine.join("paths-000000.safetensors"), "mine").unwrap();
        symlink(&mine, &parts).unwrap();
        assert!(ShardStore::beside(&artefact, "a").is_err());
        std::fs::remove_file(&parts).unwrap();
        std::fs::create_dir(&parts).unwrap();
        let link = parts.join("paths-000000.safetensors");
        symlink(mine.join("paths-000000.safetensors"), &link).unwrap();
        ShardStore::beside(&artefact, "a")
            .unwrap()
            .remove()
            .unwrap();
        assert!(mine.join("paths-000000.safetensors").exists() && link.is_symlink());
    }

    #[test]
    fn there_is_one_store_beside_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let artefact = folder.path().join("graph.npcov");
        let store = ShardStore::beside(&artefact, "a").unwrap();
        write(&store, "paths-0", 7);
        let Err(error) = ShardStore::beside(&artefact, "b") else {
            panic!("two stores");
        };
        let error = error.to_string();
        assert!(error.contains("graph.npcov` is being written"), "{error}");
        assert_eq!(read(&store, "paths-0"), Some(vec![7]));
    }

    #[test]
    fn what_is_not_the_shard_that_was_written_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let artefact = folder.path().join("graph.npcov");
        let file = |shard: &str| {
            let name = format!("graph.npcov.parts/{shard}.safetensors");
            folder.path().join(name)
        };
        let other = ShardStore::beside(&folder.path().join("other.npcov"), "b").unwrap();
        let store = ShardStore::beside(&artefact, "a").unwrap();
        write(&store, "paths-0", 7);
        write(&store, "paths-1", 8);
        write(&other, "paths-0", 9);
        let whole = std::fs::read(file("paths-0")).unwrap();
        assert_eq!(found(&store, "paths-0"), Found::Whole);
        assert_eq!(found(&store, "paths-2"), Found::Nothing);
        assert_eq!(store.find("paths-0", INPUTS, |_| false), Found::Damaged);
        // Of other inputs, of another place, of another plan.
        assert_eq!(store.find("paths-0", 0..511, |_| true), Found::Damaged);
        std::fs::copy(file("paths-1"), file("paths-0")).unwrap();
        assert_eq!(found(&store, "paths-0"), Found::Damaged);
        let stranger = folder.path().join("other.npcov.parts/paths-0.safetensors");
        std::fs::copy(stranger, file("paths-0")).unwrap();
        assert_eq!(found(&store, "paths-0"), Found::Damaged);
        // Cut off anywhere, or with a bit that flipped.
        for place in 0..whole.len() {
            std::fs::write(file("paths-0"), &whole[..place]).unwrap();
            assert_eq!(found(&store, "paths-0"), Found::Damaged, "cut at {place}");
            let mut damaged = whole.clone();
            damaged[place] ^= 1 << (place % 8);
            std::fs::write(file("paths-0"), damaged).unwrap();
            assert_eq!(found(&store, "paths-0"), Found::Damaged, "bit at {place}");
        }
        std::fs::write(file("paths-0"), whole).unwrap();
        assert_eq!(found(&store, "paths-0"), Found::Whole);
    }

    #[test]
    fn several_make_shards_and_one_joins_them() {
        let folder = tempfile::tempdir().unwrap();
        let artefact = folder.path().join("graph.npcov");
        let plan = r#"{"alpha": 0.8, "model": "a"}"#;
        let [a, b] = [0, 1].map(|_| ShardStore::shared(&artefact, plan).unwrap());
        write(&a, "paths-0", 7);
        write(&b, "paths-1", 8);
        // The same one twice is no harm.
        write(&b, "paths-0", 7);
        let error = ShardStore::joining(&artefact, plan).err().unwrap();
        assert!(error.to_string().contains("is being written"), "{error}");
        let other = r#"{"alpha": 0.9, "model": "a"}"#;
        let refused = [ShardStore::shared(&artefact, other).err().unwrap(), {
            drop((a, b));
            ShardStore::joining(&artefact, other).err().unwrap()
        }];
        for error in refused.map(|error| error.to_string()) {
            assert!(
                error.contains("graph.npcov.parts/plan.json` does not fit"),
                "{error}"
            );
            assert!(error.contains("alpha: 0.8, not 0.9"), "{error}");
        }
        let joined = ShardStore::joining(&artefact, plan).unwrap();
        assert_eq!(read(&joined, "paths-0"), Some(vec![7]));
        assert_eq!(read(&joined, "paths-1"), Some(vec![8]));
        joined.remove().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_shard_that_cannot_be_used_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let artefact = folder.path().join("graph.npcov");
        let store = ShardStore::shared(&artefact, "{}").unwrap();
        let at = |name: &str| {
            folder
                .path()
                .join(format!("graph.npcov.parts/{name}.safetensors"))
        };
        assert_eq!(store.flaw("paths-0", INPUTS), Flaw::Missing);
        write(&store, "paths-1", 8);
        std::fs::copy(at("paths-1"), at("paths-0")).unwrap();
        assert_eq!(
            store.flaw("paths-0", INPUTS),
            Flaw::OtherShard("paths-1".to_owned())
        );
        let mut bytes = std::fs::read(at("paths-0")).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(at("paths-0"), bytes).unwrap();
        assert_eq!(store.flaw("paths-0", INPUTS), Flaw::Damaged);
        let other = ShardStore::shared(&folder.path().join("other.npcov"), "{ }").unwrap();
        write(&other, "paths-0", 7);
        let from = folder.path().join("other.npcov.parts/paths-0.safetensors");
        std::fs::copy(from, at("paths-0")).unwrap();
        let Flaw::OtherPlan { metadata } = store.flaw("paths-0", INPUTS) else {
            panic!("no other plan");
        };
        assert!(metadata.contains("paths-0"), "{metadata}");
    }

    #[test]
    fn memory_holds_what_files_would() {
        let folder = tempfile::tempdir().unwrap();
        let artefact = folder.path().join("graph.npcov");
        for store in [
            ShardStore::beside(&artefact, "plan").unwrap(),
            ShardStore::in_memory(),
        ] {
            assert_eq!(found(&store, "paths-0"), Found::Nothing);
            write(&store, "paths-0", 1);
            write(&store, "paths-1", 2);
            write(&store, "paths-0", 3);
            assert_eq!(
                (read(&store, "paths-0"), read(&store, "paths-1")),
                (Some(vec![3]), Some(vec![2]))
            );
            let spec = [TensorSpec::of::<u32>("number", &[1])];
            let whole =
                store.write_artefact("{}", &spec, |writer| writer.append("number", &[5_u32]));
            let whole: Result<_, DataError> = whole;
            assert_eq!(whole.unwrap().read::<u32>("number").unwrap(), [5]);
            store.remove().unwrap();
        }
    }
}
