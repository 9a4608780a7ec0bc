//! Reading tensors row by row, by position.

use std::collections::TryReserveError;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::header::{Header, LONGEST_HEADER, PREFIX, Placed, TensorSpec};
use super::seal::{self, SEAL, Seal};
use crate::error::{DataError, ReadError};
use crate::scalar::Scalar;
use crate::source::Source;
use crate::whole_file::copy_whole;

/// Bytes that are read at a time: a whole number of elements of every size, and little enough for the stack.
const STEP: usize = 1 << 14;

/// An opened safetensors file: its header is checked against its length, its tensors are read on demand.
///
/// It can be shared by threads. See the [module](crate::safetensors) for an example.
#[derive(Debug)]
pub struct SafetensorsReader {
    file: String,
    metadata: Option<String>,
    /// In the order of their names.
    tensors: Arc<[Placed]>,
    /// What follows the header.
    data: Source,
    /// Where the file has one.
    seal: Option<Seal>,
}

impl SafetensorsReader {
    /// Opens a file and reads its header.
    pub fn open(path: impl AsRef<Path>) -> Result<SafetensorsReader, DataError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let source = Source::open(path).map_err(|error| ReadError::Io(error).in_file(&file))?;
        SafetensorsReader::new(&source, file)
    }

    /// Reads the header of what is already open; `name` stands for it in errors.
    pub fn new(source: &Source, name: impl Into<String>) -> Result<SafetensorsReader, DataError> {
        let file = name.into();
        let open = || {
            let (header, start, data) = read_header(source)?;
            let mut tensors = header.tensors;
            tensors.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
            let seal = match tensors.iter().position(|tensor| tensor.spec.name == SEAL) {
                Some(place) => {
                    let placed = tensors.remove(place);
                    Some(Seal::open(placed, &tensors, &start, &data)?)
                }
                None => None,
            };
            Ok((header.metadata, tensors, data, seal))
        };
        let (metadata, tensors, data, seal) =
            open().map_err(|error: ReadError| error.in_file(&file))?;
        Ok(SafetensorsReader {
            file,
            metadata,
            tensors: tensors.into(),
            data,
            seal,
        })
    }

    /// Forgets its metadata and its checksums, which are read again when they are needed, and shares with another reader
    /// what is the same in both files. Of thousands of files of one form, that is most of what their readers have in memory.
    pub fn slim(&mut self, other: Option<&SafetensorsReader>) {
        self.metadata = None;
        if let Some(seal) = &mut self.seal {
            seal.let_go();
        }
        let Some(other) = other.filter(|other| other.tensors == self.tensors) else {
            return;
        };
        self.tensors = other.tensors.clone();
        if let (Some(own), Some(other)) = (&mut self.seal, &other.seal) {
            own.share(other);
        }
    }

    /// Whether the file has checksums: everything that a [`SafetensorsWriter`](super::SafetensorsWriter) wrote has. What
    /// they do not fit is an error when it is read.
    pub fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// Reads all tensors, and fails where one is not what was written.
    pub fn check(&self) -> Result<(), DataError> {
        let mut tensors = self.tensors.iter().enumerate();
        tensors.try_for_each(|(i, tensor)| self.check_bytes(i, 0..tensor.len))
    }

    /// The string that the file holds for npcov, where it was written by [`SafetensorsWriter`](super::SafetensorsWriter).
    pub fn metadata(&self) -> Option<&str> {
        self.metadata.as_deref()
    }

    /// The tensors, in the order of their names.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorSpec> {
        self.tensors.iter().map(|tensor| &tensor.spec)
    }

    /// The file, as it was named.
    pub fn name(&self) -> &str {
        &self.file
    }

    /// The tensor `name`, or nothing where the file has none of that name.
    pub fn tensor(&self, name: &str) -> Option<&TensorSpec> {
        self.find(name).map(|(_, tensor)| &tensor.spec)
    }

    /// Reads a whole tensor, in C order.
    pub fn read<T: Scalar>(&self, name: &str) -> Result<Vec<T>, DataError> {
        let (index, tensor) = self.typed::<T>(name)?;
        let mut out = Vec::new();
        // No file is smaller than its tensors, but memory may be.
        out.try_reserve_exact(tensor.count())
            .map_err(|error| self.failed(tensor, out_of_memory(error)))?;
        out.resize(tensor.count(), T::default());
        self.fill(index, tensor, 0, &mut out)?;
        Ok(out)
    }

    /// Reads the rows of `range` into `out`, which holds exactly those. A tensor without axes is one row.
    pub fn read_rows<T: Scalar>(
        &self,
        name: &str,
        range: Range<usize>,
        out: &mut [T],
    ) -> Result<(), DataError> {
        let (index, tensor) = self.typed::<T>(name)?;
        let (rows, row_len) = tensor.rows();
        let Range { start, end } = range;
        let asked = end
            .checked_sub(start)
            .filter(|_| end <= rows)
            .map(|count| count * row_len);
        if asked != Some(out.len()) {
            return Err(self.wrong(
                name,
                format!(
                    "cannot read rows {start}..{end} of {rows}, of {row_len} numbers each, into a buffer of {} numbers",
                    out.len()
                ),
            ));
        }
        self.fill(index, tensor, start * row_len, out)
    }

    /// Reads one row into `out`, which holds exactly that.
    pub fn read_row_into<T: Scalar>(
        &self,
        name: &str,
        row: usize,
        out: &mut [T],
    ) -> Result<(), DataError> {
        self.read_rows(name, row..row.saturating_add(1), out)
    }

    /// Reads some of the numbers of one row into `out`, which holds exactly those.
    pub fn read_row_part<T: Scalar>(
        &self,
        name: &str,
        row: usize,
        part: Range<usize>,
        out: &mut [T],
    ) -> Result<(), DataError> {
        let (index, tensor) = self.typed::<T>(name)?;
        let (rows, row_len) = tensor.rows();
        let Range { start, end } = part;
        if row >= rows || end > row_len || end.checked_sub(start) != Some(out.len()) {
            return Err(self.wrong(
                name,
                format!(
                    "cannot read numbers {start}..{end} of row {row}: there are {rows} rows of {row_len} numbers"
                ),
            ));
        }
        self.fill(index, tensor, row * row_len + start, out)
    }

    /// Writes a file with the same tensors and other metadata, whole or not at all. The tensors lie as a
    /// [`SafetensorsWriter`](super::SafetensorsWriter) places them, or it is an error.
    pub fn save(&self, path: impl AsRef<Path>, metadata: &str) -> Result<(), DataError> {
        let path = path.as_ref();
        let wrong = |reason: String| DataError::Arrays {
            file: path.display().to_string(),
            reason,
        };
        let Some(seal) = &self.seal else {
            return Err(wrong(format!("`{}` has no checksums", self.file)));
        };
        self.check()?;
        let mut specs: Vec<TensorSpec> = self.tensors().cloned().collect();
        specs.push(seal::spec(self.tensors.iter().map(|tensor| tensor.len)));
        let header = Header::place(metadata, &specs).map_err(wrong)?;
        let moved = |placed: &Placed| match self.find(&placed.spec.name) {
            Some((_, tensor)) => tensor != placed,
            None => *seal.placed != *placed,
        };
        if header.tensors.iter().any(moved) {
            return Err(wrong("its tensors lie in another order".to_owned()));
        }
        let start = header.to_bytes().map_err(wrong)?;
        let root = seal.root_for(&start, &self.data);
        let root = root.map_err(|error| self.failed(&seal.placed, error))?;
        let root = root.ok_or_else(|| self.damaged(&seal.placed))?;
        let before = self.data.reader().take(seal.root_place());
        let mut after = self.data.reader();
        let behind = seal.root_place() + root.as_bytes().len() as u64;
        if let Err(source) = after.seek(SeekFrom::Start(behind)) {
            let file = path.display().to_string();
            return Err(DataError::Write { file, source });
        }
        let numbers = before.chain(&root.as_bytes()[..]).chain(after);
        copy_whole(path, &mut start.as_slice().chain(numbers))
    }

    /// A tensor, and its position in the order of names.
    fn find(&self, name: &str) -> Option<(usize, &Placed)> {
        let index = self
            .tensors
            .binary_search_by(|tensor| tensor.spec.name.as_str().cmp(name));
        let index = index.ok()?;
        Some((index, self.tensors.get(index)?))
    }

    /// The position of a tensor whose numbers are of type `T`, and the tensor.
    fn typed<T: Scalar>(&self, name: &str) -> Result<(usize, &Placed), DataError> {
        let (index, tensor) = self
            .find(name)
            .ok_or_else(|| self.wrong(name, "the file does not hold it".to_owned()))?;
        if tensor.spec.element != T::ELEMENT {
            let reason = format!("holds {} and not {}", tensor.spec.element, T::ELEMENT);
            return Err(self.wrong(name, reason));
        }
        Ok((index, tensor))
    }

    /// Fails where bytes of a tensor are not what was written.
    fn check_bytes(&self, index: usize, bytes: Range<u64>) -> Result<(), DataError> {
        let (Some(seal), Some(tensor)) = (&self.seal, self.tensors.get(index)) else {
            return Ok(());
        };
        let checked = seal.check(index, tensor, bytes, &self.data);
        match checked.map_err(|error| self.failed(tensor, error))? {
            Some(()) => Ok(()),
            None => Err(self.damaged(tensor)),
        }
    }

    fn damaged(&self, tensor: &Placed) -> DataError {
        DataError::Damaged {
            file: self.file.clone(),
            tensor: tensor.spec.name.clone(),
        }
    }

    /// Reads the numbers from number `first` of the tensor on.
    fn fill<T: Scalar>(
        &self,
        index: usize,
        tensor: &Placed,
        first: usize,
        out: &mut [T],
    ) -> Result<(), DataError> {
        let size = T::ELEMENT.size();
        let mut buffer = [0; STEP];
        // No overflow: all are positions in the file.
        let start = (first * size) as u64;
        self.check_bytes(index, start..start + (out.len() * size) as u64)?;
        let mut position = tensor.start + start;
        for block in out.chunks_mut(STEP / size) {
            let bytes = &mut buffer[..block.len() * size];
            self.data
                .read_at(position, bytes)
                .map_err(|error| self.failed(tensor, error))?;
            T::decode(bytes, block);
            position += bytes.len() as u64;
        }
        Ok(())
    }

    fn failed(&self, tensor: &Placed, error: io::Error) -> DataError {
        ReadError::Io(error).in_file(format!("{}:{}", self.file, tensor.spec.name))
    }

    fn wrong(&self, tensor: &str, reason: String) -> DataError {
        DataError::Tensor {
            file: self.file.clone(),
            tensor: tensor.to_owned(),
            reason,
        }
    }
}

/// The header, its bytes with their length in front, and what follows it.
fn read_header(source: &Source) -> Result<(Header, Vec<u8>, Source), ReadError> {
    let mut prefix = [0; PREFIX];
    if source.len() < PREFIX as u64 {
        return Err(ReadError::malformed(
            "is no safetensors file: it ends inside its header",
        ));
    }
    source.read_at(0, &mut prefix)?;
    let len = u64::from_le_bytes(prefix);
    let left = source.len() - PREFIX as u64;
    if len > left {
        return Err(ReadError::malformed(format!(
            "is no safetensors file, or truncated: its header claims {len} bytes, {left} are there"
        )));
    }
    let size = usize::try_from(len).ok().filter(|&n| n <= LONGEST_HEADER);
    let data = source.part(PREFIX as u64 + len, left - len);
    let (Some(size), Some(data)) = (size, data) else {
        return Err(ReadError::unsupported(format!(
            "has a safetensors header of {len} bytes, more than {LONGEST_HEADER}"
        )));
    };
    let mut start = vec![0; PREFIX + size];
    source.read_at(0, &mut start)?;
    let header = Header::parse(&start[PREFIX..], data.len())?;
    Ok((header, start, data))
}

fn out_of_memory(error: TryReserveError) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, error)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::Write;

    use ::safetensors::Dtype;
    use ::safetensors::tensor::TensorView;
    use proptest::prelude::*;

    use super::*;
    use crate::Element;

    fn reader(bytes: &[u8]) -> Result<SafetensorsReader, DataError> {
        SafetensorsReader::new(&Source::from_bytes(bytes.to_vec()), "file")
    }

    /// A file by the format's own library: `a` of 3x2 `u16`, `b` of one `f64`, `c` of 4 `bool`, `d` of no `u8`.
    fn foreign() -> Vec<u8> {
        let a: Vec<u8> = (0..6u16).flat_map(|v| (v * 300).to_le_bytes()).collect();
        let b = (-0.5f64).to_le_bytes();
        let view = |dtype, shape: &[usize], data| TensorView::new(dtype, shape.to_vec(), data);
        let tensors = [
            ("c", view(Dtype::BOOL, &[4], &[0, 1, 1, 0][..]).unwrap()),
            ("a", view(Dtype::U16, &[3, 2], &a).unwrap()),
            ("d", view(Dtype::U8, &[0, 7], &[]).unwrap()),
            ("b", view(Dtype::F64, &[], &b).unwrap()),
        ];
        let strings = HashMap::from([
            ("npcov".to_owned(), "ü\n\"".to_owned()),
            ("other".to_owned(), "text".to_owned()),
        ]);
        ::safetensors::serialize(tensors, Some(strings)).unwrap()
    }

    #[test]
    fn what_the_formats_own_library_writes_is_read() {
        let reader = reader(&foreign()).unwrap();
        assert_eq!(reader.metadata(), Some("ü\n\""));
        let names: Vec<&str> = reader.tensors().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        assert_eq!(
            reader.tensor("a"),
            Some(&TensorSpec::of::<u16>("a", &[3, 2]))
        );
        assert_eq!(reader.tensor("e"), None);
        assert_eq!(
            reader.read::<u16>("a").unwrap(),
            [0, 300, 600, 900, 1200, 1500]
        );
        assert_eq!(reader.read::<f64>("b").unwrap(), [-0.5]);
        assert_eq!(
            reader.read::<bool>("c").unwrap(),
            [false, true, true, false]
        );
        assert_eq!(reader.read::<u8>("d").unwrap(), [0; 0]);
    }

    #[test]
    fn readers_of_one_form_share_it() {
        let mut other = reader(&foreign()).unwrap();
        other.slim(None);
        assert_eq!(other.metadata(), None);
        let mut slim = reader(&foreign()).unwrap();
        slim.slim(Some(&other));
        assert!(Arc::ptr_eq(&slim.tensors, &other.tensors));
        assert_eq!(slim.read::<f64>("b").unwrap(), [-0.5]);
        let view = TensorView::new(Dtype::U8, vec![1], &[7]).unwrap();
        let bytes = ::safetensors::serialize([("a", view)], None).unwrap();
        let mut another = reader(&bytes).unwrap();
        another.slim(Some(&slim));
        assert_eq!(another.read::<u8>("a").unwrap(), [7]);
    }

    #[test]
    fn rows_are_read_by_position() {
        let reader = reader(&foreign()).unwrap();
        let mut two = [0u16; 4];
        reader.read_rows("a", 1..3, &mut two).unwrap();
        assert_eq!(two, [600, 900, 1200, 1500]);
        let mut one = [0u16; 2];
        reader.read_row_into("a", 1, &mut one).unwrap();
        assert_eq!(one, [600, 900]);
        reader.read_rows::<u16>("a", 3..3, &mut []).unwrap();
        let mut scalar = [0.0];
        reader.read_row_into("b", 0, &mut scalar).unwrap();
        assert_eq!(scalar, [-0.5]);
        std::thread::scope(|scope| {
            for row in 0..3 {
                let reader = &reader;
                scope.spawn(move || {
                    let mut out = [0u16; 2];
                    reader.read_row_into("a", row, &mut out).unwrap();
                    assert_eq!(out[0], row as u16 * 600);
                });
            }
        });
    }

    #[test]
    fn tensors_longer_than_one_step_are_read_whole() {
        let count = STEP / 4 * 3 + 1;
        let numbers: Vec<u8> = (0..count as u32).flat_map(u32::to_le_bytes).collect();
        let view = TensorView::new(Dtype::U32, vec![count], &numbers).unwrap();
        let bytes = ::safetensors::serialize([("x", view)], None).unwrap();
        let reader = reader(&bytes).unwrap();
        assert_eq!(reader.metadata(), None);
        assert_eq!(
            reader.read::<u32>("x").unwrap(),
            Vec::from_iter(0..count as u32)
        );
        let mut rest = vec![0u32; count - 1];
        reader.read_rows("x", 1..count, &mut rest).unwrap();
        assert_eq!(rest, Vec::from_iter(1..count as u32));
    }

    #[test]
    fn questions_without_an_answer_name_file_and_tensor() {
        let reader = reader(&foreign()).unwrap();
        let text = |error: DataError| error.to_string();
        assert_eq!(
            text(reader.read::<u8>("e").unwrap_err()),
            "`file`, tensor `e`: the file does not hold it"
        );
        assert_eq!(
            text(reader.read::<u8>("a").unwrap_err()),
            "`file`, tensor `a`: holds u16 and not u8"
        );
        for (range, len) in [
            (2..4, 4),
            (0..1, 3),
            (0..1, 1),
            (Range { start: 2, end: 1 }, 0),
            (0..usize::MAX, 6),
        ] {
            let error = text(
                reader
                    .read_rows::<u16>("a", range.clone(), &mut vec![0; len])
                    .unwrap_err(),
            );
            let start = format!("`file`, tensor `a`: cannot read rows {}..", range.start);
            assert!(error.starts_with(&start), "{error}");
        }
        assert!(
            reader
                .read_row_into("a", usize::MAX, &mut [0u16; 2])
                .is_err()
        );
    }

    #[test]
    fn truncated_and_lengthened_files_are_refused() {
        let bytes = foreign();
        for len in 0..bytes.len() {
            let error = reader(&bytes[..len]).unwrap_err().to_string();
            assert!(error.starts_with("`file`: "), "{error}");
        }
        let longer = [&bytes[..], &[0]].concat();
        let error = reader(&longer).unwrap_err().to_string();
        assert!(error.contains("but 25 follow the header"), "{error}");
    }

    #[test]
    fn header_lengths_are_checked_before_anything_is_allocated() {
        let mut bytes = foreign();
        bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        let error = reader(&bytes).unwrap_err().to_string();
        assert!(
            error.contains("claims 18446744073709551615 bytes"),
            "{error}"
        );
        // A file with holes: long, and almost nothing on the disk.
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), (1u64 << 32).to_le_bytes()).unwrap();
        file.as_file().set_len(1 << 33).unwrap();
        let error = SafetensorsReader::open(file.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains("header of 4294967296 bytes"), "{error}");
        assert!(SafetensorsReader::open("missing").is_err());
    }

    #[test]
    fn rows_beyond_32_bits_are_found() {
        // A file with holes again: 6 GiB of zeros and three bytes.
        let (holes, end) = (6u64 << 30, (6u64 << 30) + 3);
        let json = format!(r#"{{"x":{{"dtype":"U8","shape":[{end}],"data_offsets":[0,{end}]}}}}"#);
        let file = tempfile::NamedTempFile::new().unwrap();
        let start = [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat();
        std::fs::write(file.path(), &start).unwrap();
        let mut out = file.as_file();
        out.seek(SeekFrom::Start(start.len() as u64 + holes))
            .unwrap();
        out.write_all(&[7, 8, 9]).unwrap();
        let reader = SafetensorsReader::open(file.path()).unwrap();
        let (first, rows) = (holes as usize - 1, end as usize);
        let mut last = [1u8; 4];
        reader.read_rows("x", first..rows, &mut last).unwrap();
        assert_eq!(last, [0, 7, 8, 9]);
    }

    #[test]
    fn a_file_truncated_while_open_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), foreign()).unwrap();
        let reader = SafetensorsReader::open(file.path()).unwrap();
        file.as_file().set_len(100).unwrap();
        let error = reader.read::<u16>("a").unwrap_err().to_string();
        assert!(error.contains(":a`"), "{error}");
    }

    /// Everything that an opened file claims to hold is there.
    fn read_everything(reader: &SafetensorsReader) {
        for spec in reader.tensors() {
            let name = &spec.name;
            let counted: usize = spec.shape.iter().product();
            let count = match spec.element {
                Element::Bool => reader.read::<bool>(name).unwrap().len(),
                Element::U8 => reader.read::<u8>(name).unwrap().len(),
                Element::U16 => reader.read::<u16>(name).unwrap().len(),
                Element::U32 => reader.read::<u32>(name).unwrap().len(),
                Element::U64 => reader.read::<u64>(name).unwrap().len(),
                Element::I64 => reader.read::<i64>(name).unwrap().len(),
                Element::F32 => reader.read::<f32>(name).unwrap().len(),
                Element::F64 => reader.read::<f64>(name).unwrap().len(),
                _ => continue,
            };
            assert_eq!(count, counted);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn damaged_files_are_read_or_refused_as_by_the_formats_own_library(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            digits in any::<bool>(),
        ) {
            let mut bytes = foreign();
            for (place, byte) in damage {
                // Digits damage shapes and offsets, which other bytes rarely reach.
                let (places, byte): (Vec<usize>, u8) = match digits {
                    true => {
                        let digit = |&i: &usize| bytes[i].is_ascii_digit();
                        ((8..bytes.len()).filter(digit).collect(), b'0' + byte % 10)
                    }
                    false => ((0..bytes.len()).collect(), byte),
                };
                bytes[places[place.index(places.len())]] = byte;
            }
            let theirs = ::safetensors::SafeTensors::deserialize(&bytes).is_ok();
            match reader(&bytes) {
                Ok(ours) => {
                    prop_assert!(theirs);
                    read_everything(&ours);
                }
                // Names twice, of which that library takes one.
                Err(error) if theirs => {
                    let text = error.to_string();
                    prop_assert!(text.contains("two entries") || text.contains("of type"), "{text}");
                }
                Err(_) => {}
            }
        }
    }
}
