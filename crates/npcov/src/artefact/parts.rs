//! The folder in which a long piece of work keeps what is finished.

use std::path::{Path, PathBuf};

use npcov_data::{require_place, write_whole};

use crate::error::Error;

/// Inputs that are kept together: a few seconds of work for a large network.
pub(crate) const SHARD: usize = 512;

/// Parts of an artefact that is being made. Each is written whole or not at all; work that was cut
/// off goes on after the parts that are there.
pub(crate) struct PartsFolder {
    folder: PathBuf,
    resumed: bool,
}

/// What the parts are made with.
const PLAN: &str = "plan.json";

impl PartsFolder {
    /// The folder for an artefact, beside it. Parts that were made by another plan are removed. An
    /// artefact that could not be written in the end is an error now.
    pub(crate) fn open(artefact: &Path, plan: &str) -> Result<PartsFolder, Error> {
        require_place(artefact)?;
        let mut name = artefact.file_name().unwrap_or_default().to_owned();
        name.push(".parts");
        let folder = artefact.with_file_name(name);
        let mut parts = PartsFolder {
            folder,
            resumed: false,
        };
        let file = parts.folder.join(PLAN);
        if std::fs::read_to_string(&file).is_ok_and(|found| found == plan) {
            parts.resumed = true;
            return Ok(parts);
        }
        let failed = |source| parts.failed(source);
        // The plan goes first, so that parts are never taken for those of another one.
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        parts.clear()?;
        std::fs::create_dir_all(&parts.folder).map_err(failed)?;
        write_whole(&file, plan.as_bytes())?;
        Ok(parts)
    }

    /// Whether an earlier run by the same plan was cut off.
    pub(crate) fn resumed(&self) -> bool {
        self.resumed
    }

    /// The folder, for temporary files as well: what a killed process leaves is removed with the
    /// parts.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a part.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.safetensors"))
    }

    /// Removes the folder and all parts.
    pub(crate) fn remove(self) -> Result<(), Error> {
        self.clear()
    }

    /// Removes what such a folder holds, and the folder; nothing else that a user may have put
    /// there.
    fn clear(&self) -> Result<(), Error> {
        let failed = |source| self.failed(source);
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(failed)?,
        };
        let mut rest = false;
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let ours = |extension: &str| path.extension().is_some_and(|e| e == extension);
            match ours("safetensors") || ours("tmp") || path.ends_with(PLAN) {
                true => std::fs::remove_file(&path).map_err(failed)?,
                false => rest = true,
            }
        }
        match rest {
            true => Ok(()),
            false => std::fs::remove_dir(&self.folder).map_err(failed),
        }
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::Folder {
            folder: self.folder.display().to_string(),
            source,
        }
    }
}

/// The shards of a range, each with its number: all begin at multiples of [`SHARD`] from its start.
pub(crate) fn shards(
    range: std::ops::Range<usize>,
) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    let starts = range.clone().step_by(SHARD);
    starts
        .enumerate()
        .map(move |(i, start)| (i, start..(start + SHARD).min(range.end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_another_plan_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let artefact = folder.path().join("graph.npcov");
        let parts = PartsFolder::open(&artefact, "a").unwrap();
        std::fs::write(parts.file("0"), "shard").unwrap();
        let again = PartsFolder::open(&artefact, "a").unwrap();
        assert!(again.file("0").exists());
        let notes = folder.path().join("graph.npcov.parts/notes.txt");
        std::fs::write(&notes, "mine").unwrap();
        let other = PartsFolder::open(&artefact, "b").unwrap();
        assert!(!other.file("0").exists() && notes.exists());
        std::fs::remove_file(notes).unwrap();
        other.remove().unwrap();
        assert!(!folder.path().join("graph.npcov.parts").exists());
    }

    #[test]
    fn shards_cover_a_range() {
        let found: Vec<_> = shards(10..10 + 2 * SHARD + 1).collect();
        assert_eq!(found.len(), 3);
        assert_eq!(found[2], (2, 10 + 2 * SHARD..11 + 2 * SHARD));
        assert_eq!(shards(3..3).count(), 0);
    }
}
