//! Writing tensors that grow together, in any interleaving.
//!
//! All shapes are known before the first number, and with them all places: the header is written first, and each piece
//! of a tensor goes to its place in a temporary file, which takes the output's name at the end.

use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::header::{Header, Placed, TensorSpec};
use super::seal::{self, BlockDigests, SEAL};
use crate::error::DataError;
use crate::scalar::Scalar;
use crate::whole_file::{folder_of, refuse_special, temporary_in};

/// Bytes of one tensor that are gathered for one write.
const GATHERED: usize = 1 << 15;

/// Writes a safetensors file; see the [module](crate::safetensors) for an example.
///
/// The widest numbers come first in the file, and tensors of equally wide numbers are in the order of their names: the
/// bytes of the file depend on what it holds, not on the order in which it was named or appended. One more tensor,
/// `npcov.sha256`, holds the checksums of all.
///
/// Dropped without [`finish`](SafetensorsWriter::finish), it leaves nothing behind.
#[derive(Debug)]
pub struct SafetensorsWriter {
    target: Target,
    /// The header with its length in front: what the numbers follow.
    start: Vec<u8>,
    /// In the order of their names.
    tensors: Vec<Growing>,
    /// Where the checksums go.
    seal: u64,
}

/// Where the bytes go.
#[derive(Debug)]
enum Target {
    /// A temporary file that is to get this name.
    File(NamedTempFile, PathBuf),
    /// Memory.
    Memory(Cursor<Vec<u8>>),
}

impl Target {
    /// What it is called in errors.
    fn name(&self) -> String {
        match self {
            Target::File(_, path) => path.display().to_string(),
            Target::Memory(_) => "memory".to_owned(),
        }
    }

    fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Target::File(file, _) => {
                file.seek(SeekFrom::Start(position))?;
                file.write_all(bytes)
            }
            Target::Memory(memory) => {
                memory.seek(SeekFrom::Start(position))?;
                memory.write_all(bytes)
            }
        }
    }
}

#[derive(Debug)]
struct Growing {
    placed: Placed,
    /// Bytes that are in the file.
    written: u64,
    /// Bytes that follow them.
    pending: Vec<u8>,
    digests: BlockDigests,
}

impl SafetensorsWriter {
    /// Prepares to write `path`, whose folder must exist and be writable. `metadata`, by convention JSON, is kept in the
    /// header as the string `npcov`.
    pub fn create(
        path: impl Into<PathBuf>,
        metadata: &str,
        tensors: &[TensorSpec],
    ) -> Result<SafetensorsWriter, DataError> {
        let path = path.into();
        SafetensorsWriter::create_by_way_of(&folder_of(&path), path, metadata, tensors)
    }

    /// The same with the temporary file in `folder`, which is on the disk of `path`: where what a killed process leaves
    /// behind is looked for.
    pub fn create_by_way_of(
        folder: &Path,
        path: impl Into<PathBuf>,
        metadata: &str,
        tensors: &[TensorSpec],
    ) -> Result<SafetensorsWriter, DataError> {
        let path = path.into();
        let failed = |source| DataError::Write {
            file: path.display().to_string(),
            source,
        };
        let begin = || {
            refuse_special(&path)?;
            // A folder that is missing is said without the temporary name.
            std::fs::metadata(folder)?;
            temporary_in(folder)
        };
        let target = begin().map_err(failed)?;
        SafetensorsWriter::new(Target::File(target, path), metadata, tensors)
    }

    /// The same in memory; [`into_bytes`](SafetensorsWriter::into_bytes) gives what a file would hold.
    pub fn in_memory(
        metadata: &str,
        tensors: &[TensorSpec],
    ) -> Result<SafetensorsWriter, DataError> {
        SafetensorsWriter::new(Target::Memory(Cursor::default()), metadata, tensors)
    }

    fn new(
        mut target: Target,
        metadata: &str,
        tensors: &[TensorSpec],
    ) -> Result<SafetensorsWriter, DataError> {
        let wrong = |reason: String| DataError::Arrays {
            file: target.name(),
            reason,
        };
        // Placed without a seal first, which also refuses what is too long to be counted.
        let bare = Header::place(metadata, tensors).map_err(wrong)?;
        let mut tensors = tensors.to_vec();
        tensors.push(seal::spec(bare.tensors.iter().map(|tensor| tensor.len)));
        let header = Header::place(metadata, &tensors).map_err(wrong)?;
        let start = header.to_bytes().map_err(wrong)?;
        if let Err(source) = target.write_at(0, &start) {
            let file = target.name();
            return Err(DataError::Write { file, source });
        }
        let (seal, tensors): (Vec<Placed>, Vec<Placed>) =
            (header.tensors.into_iter()).partition(|placed| placed.spec.name == SEAL);
        let mut tensors: Vec<Growing> = tensors
            .into_iter()
            .map(|placed| Growing {
                placed,
                written: 0,
                pending: Vec::new(),
                digests: BlockDigests::default(),
            })
            .collect();
        tensors.sort_by(|a, b| a.placed.spec.name.cmp(&b.placed.spec.name));
        Ok(SafetensorsWriter {
            target,
            start,
            tensors,
            seal: seal.iter().map(|placed| placed.start).sum(),
        })
    }

    /// Appends numbers to a tensor, in C order: any count, as long as the tensor is full in the end.
    pub fn append<T: Scalar>(&mut self, name: &str, values: &[T]) -> Result<(), DataError> {
        let found = self
            .tensors
            .binary_search_by(|tensor| tensor.placed.spec.name.as_str().cmp(name));
        let Some(tensor) = found.ok().and_then(|index| self.tensors.get_mut(index)) else {
            return Err(self.wrong(format!("there is no tensor `{name}`")));
        };
        let stored = tensor.placed.spec.element;
        if stored != T::ELEMENT {
            let reason = format!("tensor `{name}` holds {stored} and not {}", T::ELEMENT);
            return Err(self.wrong(reason));
        }
        let free = tensor.placed.count() - tensor.count();
        if values.len() > free {
            let (more, all) = (values.len(), tensor.placed.count());
            return Err(self.wrong(format!(
                "tensor `{name}` takes {all} numbers, {free} are missing and {more} were appended"
            )));
        }
        for chunk in values.chunks(GATHERED / stored.size()) {
            T::encode(chunk, &mut tensor.pending);
            if tensor.pending.len() >= GATHERED
                && let Err(error) = tensor.flush(self.start.len() as u64, &mut self.target)
            {
                return Err(self.failed(error));
            }
        }
        Ok(())
    }

    /// Checks that every tensor is full and gives the file its name. What is in memory is gone.
    pub fn finish(mut self) -> Result<(), DataError> {
        self.complete()?;
        match self.target {
            Target::Memory(_) => Ok(()),
            Target::File(file, path) => {
                let failed = |source| DataError::Write {
                    file: path.display().to_string(),
                    source,
                };
                file.as_file().sync_all().map_err(failed)?;
                file.persist(&path).map_err(|error| failed(error.error))?;
                Ok(())
            }
        }
    }

    /// Checks that every tensor is full and gives what was written in memory; nothing for a file.
    pub fn into_bytes(mut self) -> Result<Vec<u8>, DataError> {
        self.complete()?;
        match self.target {
            Target::Memory(memory) => Ok(memory.into_inner()),
            Target::File(..) => Ok(Vec::new()),
        }
    }

    /// Checks that every tensor is full, and writes what is left, and the checksums.
    fn complete(&mut self) -> Result<(), DataError> {
        for tensor in &self.tensors {
            let (count, all) = (tensor.count(), tensor.placed.count());
            if count != all {
                let name = &tensor.placed.spec.name;
                let reason = format!("tensor `{name}` has only {count} of its {all} numbers");
                return Err(self.wrong(reason));
            }
        }
        let data = self.start.len() as u64;
        let mut seal = Vec::new();
        for tensor in &mut self.tensors {
            if let Err(error) = tensor.flush(data, &mut self.target) {
                return Err(self.failed(error));
            }
            seal.extend_from_slice(tensor.digests.finish());
        }
        let root = seal::root(&self.start, &seal);
        seal.extend_from_slice(root.as_bytes());
        let written = self.target.write_at(data + self.seal, &seal);
        written.map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> DataError {
        DataError::Write {
            file: self.target.name(),
            source,
        }
    }

    fn wrong(&self, reason: String) -> DataError {
        DataError::Arrays {
            file: self.target.name(),
            reason,
        }
    }
}

impl Growing {
    /// How many numbers it has.
    fn count(&self) -> usize {
        // No overflow: it never has more bytes than its shape, which was counted.
        self.written as usize / self.placed.spec.element.size()
            + self.pending.len() / self.placed.spec.element.size()
    }

    fn flush(&mut self, data: u64, target: &mut Target) -> io::Result<()> {
        if !self.pending.is_empty() {
            let position = data + self.placed.start + self.written;
            target.write_at(position, &self.pending)?;
            self.digests.update(&self.pending);
            self.written += self.pending.len() as u64;
            self.pending.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ::safetensors::{Dtype, SafeTensors};
    use proptest::prelude::*;

    use super::*;
    use crate::safetensors::SafetensorsReader;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    fn specs() -> [TensorSpec; 9] {
        [
            TensorSpec::of::<bool>("flag", &[2]),
            TensorSpec::of::<u8>("byte", &[3]),
            TensorSpec::of::<u16>("short", &[1, 1]),
            TensorSpec::of::<u32>("word", &[1]),
            TensorSpec::of::<u64>("long", &[1]),
            TensorSpec::of::<i64>("label", &[2]),
            TensorSpec::of::<f32>("layer.0/mean", &[2, 2]),
            TensorSpec::of::<f64>("sum", &[]),
            TensorSpec::of::<u64>("none", &[0, 4]),
        ]
    }

    #[test]
    fn the_temporary_file_is_where_it_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let parts = folder.path().join("parts");
        std::fs::create_dir(&parts).unwrap();
        let path = folder.path().join("out.safetensors");
        let writer = SafetensorsWriter::create_by_way_of(&parts, &path, "", &[]).unwrap();
        assert_eq!(names(folder.path()), ["parts"]);
        assert_eq!(names(&parts).len(), 1);
        writer.finish().unwrap();
        assert!(path.exists() && names(&parts).is_empty());
    }

    #[test]
    fn what_is_written_is_read_by_the_formats_own_library_and_by_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.safetensors");
        let mut writer = SafetensorsWriter::create(&path, r#"{"a":"b"}"#, &specs()).unwrap();
        writer.append("layer.0/mean", &[1f32]).unwrap();
        writer.append("flag", &[true]).unwrap();
        writer.append("layer.0/mean", &[2f32, 3.0, -4.0]).unwrap();
        writer.append("byte", &[7u8, 8, 9]).unwrap();
        writer.append("short", &[65_535u16]).unwrap();
        writer.append("word", &[1u32 << 31]).unwrap();
        writer.append("long", &[1u64 << 63]).unwrap();
        writer.append("flag", &[false]).unwrap();
        writer.append("label", &[-1i64, 5]).unwrap();
        writer.append("sum", &[0.1f64]).unwrap();
        writer.append::<u64>("none", &[]).unwrap();
        assert!(!path.exists(), "no output before the end");
        writer.finish().unwrap();
        assert_eq!(names(folder.path()), ["out.safetensors"]);

        let bytes = std::fs::read(&path).unwrap();
        let theirs = SafeTensors::deserialize(&bytes).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let strings = header.metadata().as_ref().unwrap();
        assert_eq!(strings["npcov"], r#"{"a":"b"}"#);
        // One more holds the checksums.
        assert_eq!(theirs.len(), 10);
        let mean = theirs.tensor("layer.0/mean").unwrap();
        assert_eq!((mean.dtype(), mean.shape()), (Dtype::F32, &[2, 2][..]));
        let floats = [1f32, 2.0, 3.0, -4.0].map(f32::to_le_bytes).concat();
        assert_eq!(mean.data(), floats);
        for (name, dtype, data) in [
            ("flag", Dtype::BOOL, vec![1, 0]),
            ("byte", Dtype::U8, vec![7, 8, 9]),
            ("short", Dtype::U16, vec![255, 255]),
            ("word", Dtype::U32, vec![0, 0, 0, 128]),
            ("long", Dtype::U64, vec![0, 0, 0, 0, 0, 0, 0, 128]),
            (
                "label",
                Dtype::I64,
                [-1i64, 5].map(i64::to_le_bytes).concat(),
            ),
            ("sum", Dtype::F64, 0.1f64.to_le_bytes().to_vec()),
            ("none", Dtype::U64, vec![]),
        ] {
            let tensor = theirs.tensor(name).unwrap();
            assert_eq!(
                (tensor.dtype(), tensor.data()),
                (dtype, &data[..]),
                "{name}"
            );
        }

        let ours = SafetensorsReader::open(&path).unwrap();
        assert_eq!(ours.metadata(), Some(r#"{"a":"b"}"#));
        assert_eq!(ours.tensors().count(), 9);
        for spec in specs() {
            assert_eq!(ours.tensor(&spec.name), Some(&spec));
        }
        assert_eq!(
            ours.read::<f32>("layer.0/mean").unwrap(),
            [1.0, 2.0, 3.0, -4.0]
        );
        assert_eq!(ours.read::<bool>("flag").unwrap(), [true, false]);
        assert_eq!(ours.read::<i64>("label").unwrap(), [-1, 5]);
    }

    #[test]
    fn an_unfinished_or_failed_file_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.safetensors");
        std::fs::write(&path, "old").unwrap();
        let spec = [TensorSpec::of::<u8>("x", &[2, 2])];
        let create = || SafetensorsWriter::create(&path, "", &spec).unwrap();
        drop(create());
        let mut writer = create();
        writer.append("x", &[1u8, 2, 3]).unwrap();
        let error = writer.append("x", &[4u8, 5]).unwrap_err().to_string();
        assert!(
            error.ends_with("tensor `x` takes 4 numbers, 1 are missing and 2 were appended"),
            "{error}"
        );
        let error = writer.append("x", &[4u16]).unwrap_err().to_string();
        assert!(
            error.ends_with("tensor `x` holds u8 and not u16"),
            "{error}"
        );
        let error = writer.append("y", &[4u8]).unwrap_err().to_string();
        assert!(error.ends_with("there is no tensor `y`"), "{error}");
        let error = writer.finish().unwrap_err().to_string();
        assert!(
            error.ends_with("tensor `x` has only 3 of its 4 numbers"),
            "{error}"
        );
        assert_eq!(names(folder.path()), ["out.safetensors"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn bad_tensors_and_folders_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let create = |path: &Path, names: &[&str]| {
            let specs: Vec<TensorSpec> = names
                .iter()
                .map(|&name| TensorSpec::of::<u8>(name, &[1]))
                .collect();
            SafetensorsWriter::create(path, "", &specs).map_err(|error| error.to_string())
        };
        let path = folder.path().join("out");
        assert!(
            create(&path, &["x", "x"])
                .unwrap_err()
                .contains("two tensors `x`")
        );
        assert!(
            create(folder.path(), &["x"])
                .unwrap_err()
                .contains("not a regular file")
        );
        assert!(create(&path.join("missing"), &["x"]).is_err());
        assert!(names(folder.path()).is_empty());
        create(&path, &[]).unwrap().finish().unwrap();
        assert_eq!(SafetensorsReader::open(&path).unwrap().tensors().len(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Tensors of many gathered writes, in pieces of any size and in any order, against both in one piece each.
        #[test]
        fn the_bytes_do_not_depend_on_how_they_were_appended(
            lengths in (0usize..30_000, 0usize..30_000),
            pieces in prop::collection::vec((any::<bool>(), 1usize..20_000), 0..12),
        ) {
            let a: Vec<f32> = (0..lengths.0).map(|v| v as f32).collect();
            let b: Vec<u16> = (0..lengths.1).map(|v| v as u16).collect();
            let specs = [TensorSpec::of::<f32>("a", &[a.len()]), TensorSpec::of::<u16>("b", &[b.len()])];
            let write = |name: &str, specs: &[TensorSpec], pieces: &[(bool, usize)]| {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join(name);
                let mut writer = SafetensorsWriter::create(&path, "{}", specs).unwrap();
                let (mut left_a, mut left_b) = (&a[..], &b[..]);
                for &(first, len) in pieces {
                    if first {
                        let (piece, rest) = left_a.split_at(len.min(left_a.len()));
                        writer.append("a", piece).unwrap();
                        left_a = rest;
                    } else {
                        let (piece, rest) = left_b.split_at(len.min(left_b.len()));
                        writer.append("b", piece).unwrap();
                        left_b = rest;
                    }
                }
                writer.append("b", left_b).unwrap();
                writer.append("a", left_a).unwrap();
                writer.finish().unwrap();
                let reader = SafetensorsReader::open(&path).unwrap();
                assert_eq!(reader.read::<f32>("a").unwrap(), a);
                assert_eq!(reader.read::<u16>("b").unwrap(), b);
                std::fs::read(&path).unwrap()
            };
            let reversed = [specs[1].clone(), specs[0].clone()];
            prop_assert_eq!(write("x", &specs, &pieces), write("y", &reversed, &[]));
        }
    }
}
