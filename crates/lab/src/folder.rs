//! The folder in which an experiment keeps what is finished.

use std::path::{Path, PathBuf};

use npcov::data::write_whole;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::LabError;

/// What the finished parts were made with.
const PLAN: &str = "plan.json";

/// Finished parts of an experiment, each a small JSON file that is whole or not there. An experiment
/// that was cut off, and begins again by the same plan, takes over the parts that are there.
///
/// ```
/// use npcov_lab::WorkFolder;
///
/// # let folder = std::env::temp_dir().join(format!("npcov-lab-doc-{}", std::process::id()));
/// let work = WorkFolder::open(&folder, &"one seed")?;
/// assert_eq!(work.keep("point", || Ok(0.25))?, 0.25);
/// let again = WorkFolder::open(&folder, &"one seed")?;
/// assert_eq!(again.keep("point", || -> Result<f64, _> { unreachable!() })?, 0.25);
/// // Another plan begins anew.
/// assert!(!WorkFolder::open(&folder, &"another seed")?.has("point"));
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), npcov_lab::LabError>(())
/// ```
#[derive(Debug)]
pub struct WorkFolder {
    folder: PathBuf,
}

impl WorkFolder {
    /// Opens a folder, or makes it. Parts of another plan are removed, and nothing else.
    pub fn open(folder: &Path, plan: &impl Serialize) -> Result<WorkFolder, LabError> {
        let work = WorkFolder {
            folder: folder.to_owned(),
        };
        let plan = work.text(plan)?;
        let file = folder.join(PLAN);
        if std::fs::read_to_string(&file).is_ok_and(|found| found == plan) {
            return Ok(work);
        }
        std::fs::create_dir_all(folder).map_err(|e| work.failed(e))?;
        // The plan goes first, so that parts are never taken for those of another one.
        work.remove(&file)?;
        for entry in std::fs::read_dir(folder).map_err(|e| work.failed(e))? {
            let path = entry.map_err(|e| work.failed(e))?.path();
            let extension = path.extension().and_then(|e| e.to_str());
            if matches!(extension, Some("json" | "npz" | "safetensors" | "tmp")) && path.is_file() {
                work.remove(&path)?;
            }
        }
        write_whole(&file, plan.as_bytes())?;
        Ok(work)
    }

    /// Whether a part is finished.
    pub fn has(&self, name: &str) -> bool {
        self.part(name).is_file()
    }

    /// A finished part, or what `make` makes of it.
    ///
    /// In both cases it is what stands in the file, so that results do not depend on it.
    pub fn keep<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let file = self.part(name);
        let found = std::fs::read_to_string(&file).ok();
        if let Some(part) = found.and_then(|text| serde_json::from_str(&text).ok()) {
            return Ok(part);
        }
        let text = self.text(&make()?)?;
        write_whole(&file, text.as_bytes())?;
        serde_json::from_str(&text).map_err(|e| self.failed(e))
    }

    /// A file for something large that is needed for a while.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Removes such a file, if it is there.
    pub fn remove(&self, file: &Path) -> Result<(), LabError> {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    fn part(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    fn text(&self, part: &impl Serialize) -> Result<String, LabError> {
        serde_json::to_string(part).map_err(|e| self.failed(e))
    }

    fn failed(&self, error: impl ToString) -> LabError {
        LabError::Folder {
            folder: self.folder.display().to_string(),
            reason: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_another_plan_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("work");
        let work = WorkFolder::open(&place, &[1, 2]).unwrap();
        work.keep("a", || Ok(vec![0.1, 0.2])).unwrap();
        std::fs::write(work.file("suite.npz"), "npz").unwrap();
        std::fs::write(work.file("notes.txt"), "mine").unwrap();
        assert!(WorkFolder::open(&place, &[1, 2]).unwrap().has("a"));
        let other = WorkFolder::open(&place, &[1, 3]).unwrap();
        assert!(!other.has("a") && !other.file("suite.npz").exists());
        assert!(other.file("notes.txt").exists());
    }

    #[test]
    fn a_part_that_was_cut_off_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let work = WorkFolder::open(folder.path(), &0).unwrap();
        std::fs::write(folder.path().join("a.json"), "[0.1, ").unwrap();
        let made = work.keep("a", || Ok(vec![0.5])).unwrap();
        assert_eq!(made, [0.5]);
    }

    #[test]
    fn errors_are_handed_on_and_keep_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let work = WorkFolder::open(folder.path(), &0).unwrap();
        let failed = work.keep("a", || -> Result<u8, _> {
            Err(LabError::NoLabels("x".to_owned()))
        });
        assert!(failed.is_err() && !work.has("a"));
        let file = folder.path().join("plan.json");
        assert!(WorkFolder::open(&file, &0).is_err());
    }
}
