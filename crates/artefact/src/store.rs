//! Where a long piece of work keeps what is finished.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_data::{DataError, ReadError, Source, require_place, write_whole};

use crate::error::ArtefactError;

/// Shards of an artefact that is being made, and the artefact in the end.
///
/// [Beside a file](ShardStore::beside), each shard is a file in a folder, written whole or not at all;
/// work that was cut off goes on after the shards that are there. [In memory](ShardStore::in_memory)
/// nothing touches a disk, and nothing outlives the store.
pub struct ShardStore {
    place: Place,
    resumed: bool,
}

enum Place {
    Disk { artefact: PathBuf, folder: PathBuf },
    Memory(Mutex<BTreeMap<String, Source>>),
}

/// What the shards are made with.
const PLAN: &str = "plan.json";

/// What an artefact in memory is called.
const MEMORY: &str = "memory";

impl ShardStore {
    /// A folder beside the file that the artefact will be. Shards that were made by another plan are
    /// removed. An artefact that could not be written in the end is an error now.
    pub fn beside(artefact: &Path, plan: &str) -> Result<ShardStore, ArtefactError> {
        require_place(artefact)?;
        let mut name = artefact.file_name().unwrap_or_default().to_owned();
        name.push(".parts");
        let folder = artefact.with_file_name(name);
        let plan_file = folder.join(PLAN);
        let resumed = std::fs::read_to_string(&plan_file).is_ok_and(|found| found == plan);
        if !resumed {
            let failed = failed(&folder);
            // The plan goes first, so that shards are never taken for those of another one.
            match std::fs::remove_file(&plan_file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed(error));
                }
                _ => {}
            }
            clear(&folder)?;
            std::fs::create_dir_all(&folder).map_err(failed)?;
            write_whole(&plan_file, plan.as_bytes())?;
        }
        Ok(ShardStore {
            place: Place::Disk {
                artefact: artefact.to_owned(),
                folder,
            },
            resumed,
        })
    }

    /// Memory.
    pub fn in_memory() -> ShardStore {
        ShardStore {
            place: Place::Memory(Mutex::default()),
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
            Place::Disk { folder, .. } => Some(folder),
            Place::Memory(_) => None,
        }
    }

    /// What a shard is called in messages.
    pub fn name(&self, shard: &str) -> String {
        match &self.place {
            Place::Disk { folder, .. } => file(folder, shard).display().to_string(),
            Place::Memory(_) => shard.to_owned(),
        }
    }

    /// Opens a shard.
    pub fn open(&self, shard: &str) -> Result<SafetensorsReader, DataError> {
        match &self.place {
            Place::Disk { folder, .. } => SafetensorsReader::open(file(folder, shard)),
            Place::Memory(shards) => match lock(shards).get(shard) {
                Some(bytes) => SafetensorsReader::new(bytes, shard),
                None => Err(ReadError::Io(std::io::ErrorKind::NotFound.into()).in_file(shard)),
            },
        }
    }

    /// Writes a shard, whole or not at all.
    pub fn write<E: From<DataError>>(
        &self,
        shard: &str,
        metadata: &str,
        tensors: &[TensorSpec],
        fill: impl FnOnce(&mut SafetensorsWriter) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.place {
            Place::Disk { folder, .. } => {
                let path = file(folder, shard);
                let mut writer = SafetensorsWriter::create(path, metadata, tensors)?;
                fill(&mut writer)?;
                Ok(writer.finish()?)
            }
            Place::Memory(shards) => {
                let mut writer = SafetensorsWriter::in_memory(metadata, tensors)?;
                fill(&mut writer)?;
                let bytes = Source::from_bytes(writer.into_bytes()?);
                lock(shards).insert(shard.to_owned(), bytes);
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
            Place::Disk { artefact, folder } => {
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

    /// Removes all shards.
    pub fn remove(self) -> Result<(), ArtefactError> {
        match self.place {
            Place::Disk { folder, .. } => clear(&folder),
            Place::Memory(_) => Ok(()),
        }
    }
}

fn lock(shards: &Mutex<BTreeMap<String, Source>>) -> MutexGuard<'_, BTreeMap<String, Source>> {
    // Shards are inserted whole.
    shards.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file(folder: &Path, shard: &str) -> PathBuf {
    folder.join(format!("{shard}.safetensors"))
}

/// Removes what a folder of shards holds, and the folder; nothing else that a user may have put there.
fn clear(folder: &Path) -> Result<(), ArtefactError> {
    let failed = failed(folder);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(&failed)?,
    };
    let mut rest = false;
    for entry in entries {
        let path = entry.map_err(&failed)?.path();
        let ours = |extension: &str| path.extension().is_some_and(|e| e == extension);
        match ours("safetensors") || ours("tmp") || path.ends_with(PLAN) {
            true => std::fs::remove_file(&path).map_err(&failed)?,
            false => rest = true,
        }
    }
    match rest {
        true => Ok(()),
        false => std::fs::remove_dir(folder).map_err(failed),
    }
}

fn failed(folder: &Path) -> impl Fn(std::io::Error) -> ArtefactError + '_ {
    |source| ArtefactError::Folder {
        folder: folder.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(store: &ShardStore, shard: &str, number: u32) {
        let spec = [TensorSpec::of::<u32>("number", &[1])];
        let written = store.write(shard, "{}", &spec, |writer| {
            writer.append("number", &[number])
        });
        written.unwrap();
    }

    fn read(store: &ShardStore, shard: &str) -> Option<Vec<u32>> {
        let reader = store.open(shard).ok()?;
        reader.read("number").ok()
    }

    #[test]
    fn shards_of_another_plan_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let artefact = folder.path().join("graph.npcov");
        let store = ShardStore::beside(&artefact, "a").unwrap();
        write(&store, "0", 7);
        let again = ShardStore::beside(&artefact, "a").unwrap();
        assert!(!store.resumed() && again.resumed());
        assert_eq!(read(&again, "0"), Some(vec![7]));
        let notes = folder.path().join("graph.npcov.parts/notes.txt");
        std::fs::write(&notes, "mine").unwrap();
        let other = ShardStore::beside(&artefact, "b").unwrap();
        assert!(read(&other, "0").is_none() && notes.exists());
        std::fs::remove_file(notes).unwrap();
        other.remove().unwrap();
        assert!(!folder.path().join("graph.npcov.parts").exists());
    }

    #[test]
    fn memory_holds_what_files_would() {
        let folder = tempfile::tempdir().unwrap();
        let artefact = folder.path().join("graph.npcov");
        for store in [
            ShardStore::beside(&artefact, "plan").unwrap(),
            ShardStore::in_memory(),
        ] {
            assert!(store.open("0").is_err());
            write(&store, "0", 1);
            write(&store, "1", 2);
            write(&store, "0", 3);
            assert_eq!(
                (read(&store, "0"), read(&store, "1")),
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
