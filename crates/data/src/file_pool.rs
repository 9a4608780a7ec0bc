//! Many files of which only a few are open.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Files that are open at a time. Systems let a process have some hundreds.
const OPEN: usize = 32;

/// Opens files when they are read, and closes those that were not read for the longest time: there may be more of them
/// than a process can have open.
#[derive(Debug, Default)]
pub struct FilePool {
    /// The one that was read last is at the end.
    open: Mutex<VecDeque<(PathBuf, Arc<File>)>>,
}

impl FilePool {
    /// The file, open. It stays so as long as someone has it.
    pub(crate) fn get(&self, path: &Path) -> io::Result<Arc<File>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let found = open.iter().position(|(known, _)| known == path);
        let entry = match found.and_then(|place| open.remove(place)) {
            Some(entry) => entry,
            None => (path.to_owned(), Arc::new(npcov_file::open(path)?.0)),
        };
        let file = entry.1.clone();
        if open.len() >= OPEN {
            open.pop_front();
        }
        open.push_back(entry);
        Ok(file)
    }

    /// Forgets a file, so that its name can be given to another one, or to none.
    pub fn forget(&self, path: &Path) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(known, _)| known != path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    #[test]
    fn many_files_are_read_and_few_are_open() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Arc::new(FilePool::default());
        let sources: Vec<Source> = (0..3 * OPEN)
            .map(|i| {
                let path = folder.path().join(i.to_string());
                std::fs::write(&path, [i as u8, 1]).unwrap();
                Source::pooled(&pool, &path).unwrap()
            })
            .collect();
        for _ in 0..2 {
            for (i, source) in sources.iter().enumerate() {
                let mut byte = [0];
                source.read_at(0, &mut byte).unwrap();
                assert_eq!((usize::from(byte[0]), source.len()), (i, 2));
                assert!(pool.open.lock().unwrap().len() <= OPEN);
            }
        }
        // A file that takes another's name is read in its place.
        let path = folder.path().join("0");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, [9, 9]).unwrap();
        let again = Source::pooled(&pool, &path).unwrap();
        let mut byte = [0];
        again.read_at(0, &mut byte).unwrap();
        assert_eq!(byte, [9]);
    }
}
