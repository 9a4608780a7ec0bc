//! The folder in which an experiment keeps what is finished.

use std::path::{Path, PathBuf};

use npcov::data::{Digest, Digester, OutputLock, is_temporary, write_whole};
use npcov::masking::Keep;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// Bytes of the longest part.
const LONGEST_PART: u64 = 1 << 30;

/// What the finished parts were made with.
const PLAN: &str = "plan.json";

/// What parts are called: one of these words, and numbers.
const WORDS: [&str; 13] = [
    "activated",
    "band",
    "class",
    "head",
    "path",
    "point",
    "predictions",
    "random",
    "repetition",
    "sheet",
    "similarity",
    "stranger",
    "suite",
];

/// Large files that are there for a while.
const LARGE: [&str; 3] = [EXPLAINED, "repetition.npz", "suite.npz"];

/// Inputs that were explained, until all masks are done.
pub(crate) const EXPLAINED: &str = "explained.safetensors";

/// Finished parts of an experiment, each a small JSON file that is whole or not there. An experiment
/// that was cut off, and begins again by the same plan, takes over the parts that are there; those
/// that are not what was written are [removed](WorkFolder::damaged), and made again. As long as it is
/// open, no other process opens it.
///
/// ```
/// use npcov_lab::WorkFolder;
///
/// # let folder = std::env::temp_dir().join(format!("npcov-lab-doc-{}", std::process::id()));
/// let work = WorkFolder::open(&folder, &"one seed")?;
/// assert_eq!(work.keep("point", || Ok(0.25))?, 0.25);
/// drop(work);
/// let again = WorkFolder::open(&folder, &"one seed")?;
/// assert_eq!(again.keep("point", || -> Result<f64, _> { unreachable!() })?, 0.25);
/// drop(again);
/// // Another plan begins anew.
/// assert!(!WorkFolder::open(&folder, &"another seed")?.has("point"));
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), npcov_lab::LabError>(())
/// ```
#[derive(Debug)]
pub struct WorkFolder {
    lock: OutputLock,
    /// Digest of the plan.
    plan: String,
    damaged: Vec<String>,
}

/// A part as it is written.
#[derive(Serialize, Deserialize)]
struct Sealed {
    /// Its JSON, letter by letter: the order of keys may mean something.
    part: String,
    /// Digest of plan, name and part.
    sha256: String,
}

impl WorkFolder {
    /// Opens a folder, or makes it. Parts of another plan are removed, and nothing else.
    pub fn open(folder: &Path, plan: &impl Serialize) -> Result<WorkFolder, LabError> {
        let lock = OutputLock::by(folder, folder)?;
        let failed = |error: &dyn ToString| LabError::Folder {
            folder: folder.display().to_string(),
            reason: error.to_string(),
        };
        let plan = serde_json::to_string(plan).map_err(|e| failed(&e))?;
        let mut work = WorkFolder {
            lock,
            plan: Digest::of(plan.as_bytes()).to_string(),
            damaged: Vec::new(),
        };
        let file = work.file(PLAN);
        let resumed =
            npcov_file::read_text(&file, plan.len() as u64).is_ok_and(|found| found == plan);
        if !resumed {
            // The plan goes first, so that parts are never taken for those of another one.
            work.remove(&file)?;
        }
        for entry in std::fs::read_dir(folder).map_err(|e| failed(&e))? {
            let entry = entry.map_err(|e| failed(&e))?;
            // Of the entry itself, not of what it links to.
            let is_file = entry.file_type().map_err(|e| failed(&e))?.is_file();
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|_| is_file) else {
                continue;
            };
            let part = name.strip_suffix(".json").filter(|part| is_part(part));
            match part {
                Some(part) if resumed && work.has(part) => {}
                Some(part) => {
                    work.remove(&entry.path())?;
                    if resumed {
                        work.damaged.push(part.to_owned());
                    }
                }
                None if !resumed && (LARGE.contains(&name) || is_temporary(name)) => {
                    work.remove(&entry.path())?;
                }
                None => {}
            }
        }
        work.damaged.sort();
        if !resumed {
            write_whole(&file, plan.as_bytes())?;
        }
        Ok(work)
    }

    /// The parts that were there and not what was written.
    pub fn damaged(&self) -> &[String] {
        &self.damaged
    }

    /// Whether anything is finished that a run by the same plan would take over.
    pub fn holds_parts(&self) -> bool {
        let Ok(mut entries) = std::fs::read_dir(self.folder()) else {
            return false;
        };
        entries.any(|entry| {
            let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
            let name = name.to_str().unwrap_or_default();
            let part = name.strip_suffix(".json");
            name == EXPLAINED || part.is_some_and(|part| self.has(part))
        })
    }

    /// Whether a part is finished.
    pub fn has(&self, name: &str) -> bool {
        self.read(name).is_some()
    }

    /// A finished part, or what `make` makes of it.
    ///
    /// In both cases it is what stands in the file, so that results do not depend on it.
    pub fn keep<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let found = self.read(name);
        if let Some(part) = found.and_then(|part| serde_json::from_str(&part).ok()) {
            return Ok(part);
        }
        let part = serde_json::to_string(&make()?).map_err(|e| self.failed(e))?;
        let sealed = Sealed {
            sha256: self.seal(name, &part),
            part,
        };
        let text = serde_json::to_string(&sealed).map_err(|e| self.failed(e))?;
        write_whole(self.part(name), text.as_bytes())?;
        serde_json::from_str(&sealed.part).map_err(|e| self.failed(e))
    }

    /// A part that is there and as it was written.
    fn read(&self, name: &str) -> Option<String> {
        let text = npcov_file::read_text(self.part(name), LONGEST_PART).ok()?;
        let Sealed { part, sha256 } = serde_json::from_str(&text).ok()?;
        (self.seal(name, &part) == sha256).then_some(part)
    }

    fn seal(&self, name: &str, part: &str) -> String {
        let mut digester = Digester::default();
        digester.update(format!("{}\n{name}\n{part}", self.plan).as_bytes());
        digester.finish().to_string()
    }

    /// A file for something large that is needed for a while.
    pub fn file(&self, name: &str) -> PathBuf {
        self.lock.folder().join(name)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.lock.folder()
    }

    /// A file for the explained inputs of a study.
    pub fn keep_in(&self, name: &str) -> Keep {
        Keep {
            file: self.file(name),
            plan: self.plan.clone(),
        }
    }

    /// Removes such a file, if it is there.
    pub fn remove(&self, file: &Path) -> Result<(), LabError> {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    /// Lets the next run with this plan begin anew: parts were made of something else than it says.
    pub fn disown(&self) -> Result<(), LabError> {
        self.remove(&self.file(PLAN))
    }

    fn part(&self, name: &str) -> PathBuf {
        self.file(&format!("{name}.json"))
    }

    fn failed(&self, error: impl ToString) -> LabError {
        LabError::Folder {
            folder: self.lock.folder().display().to_string(),
            reason: error.to_string(),
        }
    }
}

/// Whether a part may have this name.
fn is_part(name: &str) -> bool {
    let mut words = name.split('-');
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    words.next().is_some_and(|word| WORDS.contains(&word)) && words.all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_another_plan_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("work");
        let work = WorkFolder::open(&place, &[1, 2]).unwrap();
        work.keep("point-4-0.8", || Ok(vec![0.1, 0.2])).unwrap();
        std::fs::write(work.file("suite.npz"), "npz").unwrap();
        let mine = ["notes.txt", "notes.json", "point-x.json", "mine.npz"];
        for name in mine {
            std::fs::write(work.file(name), "mine").unwrap();
        }
        assert!(WorkFolder::open(&place, &[1, 2]).is_err(), "two at a time");
        drop(work);
        let same = WorkFolder::open(&place, &[1, 2]).unwrap();
        assert!(same.has("point-4-0.8") && same.damaged().is_empty());
        assert!(same.holds_parts());
        drop(same);
        let other = WorkFolder::open(&place, &[1, 3]).unwrap();
        // Neither the plan nor what is somebody else's is a part.
        assert!(!other.holds_parts());
        assert!(!other.has("point-4-0.8") && !other.file("suite.npz").exists());
        assert!(mine.iter().all(|name| other.file(name).exists()));
        assert!(other.damaged().is_empty());
    }

    #[test]
    fn a_part_that_is_not_what_was_written_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let open = |plan: u32| WorkFolder::open(folder.path(), &plan).unwrap();
        let work = open(0);
        let numbers = [0.1, 1.0 / 3.0, f64::MIN_POSITIVE, 1e300];
        work.keep("path-0", || Ok(numbers)).unwrap();
        work.keep("path-1", || Ok([0.5])).unwrap();
        let file = work.file("path-0.json");
        let whole = std::fs::read(&file).unwrap();
        drop(work);
        let other = std::fs::read(folder.path().join("path-1.json")).unwrap();
        let cut = whole[..whole.len() / 2].to_vec();
        let edited = String::from_utf8(whole.clone())
            .unwrap()
            .replace("0.1", "0.2");
        for damaged in [cut, edited.into_bytes(), other, b"[0.1]".to_vec()] {
            std::fs::write(&file, damaged).unwrap();
            let work = open(0);
            assert_eq!(work.damaged(), ["path-0"]);
            assert!(!work.has("path-0") && work.has("path-1"));
            assert_eq!(work.keep("path-0", || Ok(numbers)).unwrap(), numbers);
            assert_eq!(std::fs::read(&file).unwrap(), whole);
        }
    }

    #[test]
    fn errors_are_handed_on_and_keep_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let work = WorkFolder::open(folder.path(), &0).unwrap();
        let failed = work.keep("path-0", || -> Result<u8, _> {
            Err(LabError::NoLabels("x".to_owned()))
        });
        assert!(failed.is_err() && !work.has("path-0"));
        let file = folder.path().join("plan.json");
        assert!(WorkFolder::open(&file, &0).is_err());
    }
}
