//! Checksums inside a file, so that damage is seen where it is read and not in results.
//!
//! One tensor of a sealed file, [`SEAL`], holds SHA-256 digests: of every tensor, in the order of names, each block of
//! [`BLOCK`] bytes and what is left at its end; and in its last row the digest of the file's start (everything up to the
//! first number) and of the rows before it. That last row is checked when the file is opened, and with it which tensors
//! there are, of which shape, and what the record says. A block is checked before the first of its numbers is used: of a
//! file that is larger than memory, no more is read than is asked for.
//!
//! Whoever can write the file can seal it again: a seal tells of damage and of accidents, not of intent.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::header::{Placed, TensorSpec};
use crate::digest::{Digest, Digester};
use crate::error::ReadError;
use crate::source::Source;

/// The tensor that holds the digests.
pub(super) const SEAL: &str = "npcov.sha256";

/// Bytes that are checked together: some rows of a large tensor, or all of a small one.
pub(super) const BLOCK: u64 = 1 << 16;

/// Bytes of a digest.
const DIGEST: usize = 32;

/// The tensor that seals tensors of so many bytes.
pub(super) fn spec(lens: impl Iterator<Item = u64>) -> TensorSpec {
    let blocks: u64 = lens.map(|len| len.div_ceil(BLOCK)).sum();
    TensorSpec::of::<u8>(SEAL, &[blocks as usize + 1, DIGEST])
}

/// The digest that the last row of a seal is.
pub(super) fn root(start: &[u8], blocks: &[u8]) -> Digest {
    let mut digester = Digester::default();
    digester.update(start);
    digester.update(blocks);
    digester.finish()
}

/// Takes the digests of a tensor's blocks while it is written.
#[derive(Debug, Default)]
pub(super) struct BlockDigests {
    /// Of the blocks that are whole.
    whole: Vec<u8>,
    last: Digester,
    /// Bytes of the last block.
    len: u64,
}

impl BlockDigests {
    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let free = usize::try_from(BLOCK - self.len).unwrap_or(usize::MAX);
            let (now, rest) = bytes.split_at(free.min(bytes.len()));
            self.last.update(now);
            self.len += now.len() as u64;
            if self.len == BLOCK {
                self.close();
            }
            bytes = rest;
        }
    }

    /// The digests of all blocks, one after the other.
    pub(super) fn finish(&mut self) -> &[u8] {
        if self.len > 0 {
            self.close();
        }
        &self.whole
    }

    fn close(&mut self) {
        let digest = std::mem::take(&mut self.last).finish();
        self.whole.extend_from_slice(digest.as_bytes());
        self.len = 0;
    }
}

/// The digests of all blocks, one after the other.
#[derive(Debug)]
enum Blocks {
    Held(Vec<u8>),
    /// They are read again when they are asked for, and have to have this digest.
    Known(Digest),
}

/// The seal of an opened file.
#[derive(Debug)]
pub(super) struct Seal {
    /// Where it lies.
    pub(super) placed: Arc<Placed>,
    blocks: Blocks,
    /// For each tensor, in the order of names, its first block; and the number of all at the end.
    first: Arc<[usize]>,
    /// A bit for each block that was found whole.
    known: Vec<AtomicU64>,
}

impl Seal {
    /// Checks that a seal is that of a file's start. `tensors` are all others, in the order of names.
    pub(super) fn open(
        placed: Placed,
        tensors: &[Placed],
        start: &[u8],
        data: &Source,
    ) -> Result<Seal, ReadError> {
        let expected = spec(tensors.iter().map(|tensor| tensor.len));
        if placed.spec != expected {
            return Err(ReadError::Damaged(
                "is damaged: its checksums are not those of its tensors".to_owned(),
            ));
        }
        let mut first = vec![0];
        let mut end = 0;
        for tensor in tensors {
            end += tensor.len.div_ceil(BLOCK) as usize;
            first.push(end);
        }
        // As long as the tensor that was found.
        let mut blocks = vec![0; (end + 1) * DIGEST];
        data.read_at(placed.start, &mut blocks)?;
        let found = blocks.split_off(end * DIGEST);
        if root(start, &blocks).as_bytes()[..] != found[..] {
            return Err(ReadError::Damaged(
                "is damaged: its header or its checksums were changed after it was written"
                    .to_owned(),
            ));
        }
        let known = (0..end.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Seal {
            placed: Arc::new(placed),
            blocks: Blocks::Held(blocks),
            first: first.into(),
            known,
        })
    }

    /// Checks the blocks that hold these bytes of a tensor, but for those that were checked before; `None` where one is
    /// not what was written.
    pub(super) fn check(
        &self,
        index: usize,
        tensor: &Placed,
        bytes: Range<u64>,
        data: &Source,
    ) -> io::Result<Option<()>> {
        let (mut buffer, mut blocks) = (Vec::new(), None);
        for block in bytes.start / BLOCK..bytes.end.div_ceil(BLOCK) {
            let place = self.first[index] + block as usize;
            let (word, bit) = (&self.known[place / 64], 1 << (place % 64));
            if word.load(Ordering::Relaxed) & bit != 0 {
                continue;
            }
            let start = block * BLOCK;
            buffer.resize(BLOCK.min(tensor.len - start) as usize, 0);
            data.read_at(tensor.start + start, &mut buffer)?;
            let blocks = match &mut blocks {
                Some(blocks) => blocks,
                None => match self.blocks(data)? {
                    Some(found) => blocks.insert(found),
                    None => return Ok(None),
                },
            };
            let expected = &blocks[place * DIGEST..(place + 1) * DIGEST];
            if Digest::of(&buffer).as_bytes()[..] != *expected {
                return Ok(None);
            }
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(Some(()))
    }

    /// The digests of all blocks; `None` where they are not what they were.
    fn blocks(&self, data: &Source) -> io::Result<Option<Cow<'_, [u8]>>> {
        let expected = match &self.blocks {
            Blocks::Held(blocks) => return Ok(Some(blocks.into())),
            Blocks::Known(digest) => digest,
        };
        let mut blocks = vec![0; self.bytes()];
        data.read_at(self.placed.start, &mut blocks)?;
        Ok((Digest::of(&blocks) == *expected).then_some(blocks.into()))
    }

    /// Bytes of the digests of all blocks.
    fn bytes(&self) -> usize {
        self.first.last().map_or(0, |end| end * DIGEST)
    }

    /// Holds no digests of blocks any more.
    pub(super) fn let_go(&mut self) {
        if let Blocks::Held(blocks) = &self.blocks {
            self.blocks = Blocks::Known(Digest::of(blocks));
        }
    }

    /// Keeps one list with the seal of a file that has the same tensors.
    pub(super) fn share(&mut self, other: &Seal) {
        if self.placed == other.placed {
            self.placed = other.placed.clone();
        }
        if self.first == other.first {
            self.first = other.first.clone();
        }
    }

    /// The seal of the same tensors behind another start: its last row. `None` where it is not what it was.
    pub(super) fn root_for(&self, start: &[u8], data: &Source) -> io::Result<Option<Digest>> {
        let blocks = self.blocks(data)?;
        Ok(blocks.map(|blocks| root(start, &blocks)))
    }

    /// Where the last row lies, counted from the end of the header.
    pub(super) fn root_place(&self) -> u64 {
        self.placed.start + self.bytes() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DataError;
    use crate::safetensors::{SafetensorsReader, SafetensorsWriter};

    /// Bytes in a tensor of three blocks and a bit.
    const LONG: usize = 3 * BLOCK as usize + 5;

    fn written() -> Vec<u8> {
        let specs = [
            TensorSpec::of::<u8>("z", &[LONG]),
            TensorSpec::of::<u32>("a", &[2]),
            TensorSpec::of::<f64>("none", &[0, 3]),
        ];
        let mut writer = SafetensorsWriter::in_memory(r#"{"a":1}"#, &specs).unwrap();
        writer.append("a", &[7u32, 8]).unwrap();
        for piece in (0..LONG)
            .map(|i| (i % 251) as u8)
            .collect::<Vec<_>>()
            .chunks(1000)
        {
            writer.append("z", piece).unwrap();
        }
        writer.into_bytes().unwrap()
    }

    fn open(bytes: &[u8]) -> Result<SafetensorsReader, DataError> {
        SafetensorsReader::new(&Source::from_bytes(bytes.to_vec()), "file")
    }

    /// Where the bytes of a tensor begin.
    fn place(bytes: &[u8], name: &str) -> usize {
        let theirs = ::safetensors::SafeTensors::deserialize(bytes).unwrap();
        let tensor = theirs.tensor(name).unwrap();
        tensor.data().as_ptr() as usize - bytes.as_ptr() as usize
    }

    /// The definition, by the format's own library.
    #[test]
    fn a_seal_is_the_digest_of_every_block_and_of_the_start_with_these() {
        let bytes = written();
        let theirs = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let data = |name: &str| theirs.tensor(name).unwrap().data();
        let blocks = data("a").chunks(1 << 16).chain(data("z").chunks(1 << 16));
        let digests: Vec<u8> = blocks.flat_map(|b| *Digest::of(b).as_bytes()).collect();
        let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let root = Digest::of(&[&bytes[..header], &digests].concat());
        assert_eq!(data(SEAL), [&digests[..], root.as_bytes()].concat());
        assert_eq!(theirs.tensor(SEAL).unwrap().shape(), [1 + 4 + 1, 32]);
    }

    #[test]
    fn no_flipped_bit_goes_unseen() {
        let bytes = written();
        let whole = open(&bytes).unwrap();
        assert!(whole.is_sealed() && whole.check().is_ok());
        let names: Vec<&str> = whole.tensors().map(|spec| spec.name.as_str()).collect();
        assert_eq!(
            names,
            ["a", "none", "z"],
            "the seal is no tensor of the user's"
        );
        // All of the start, and places all over the rest.
        let places = (0..600).chain((600..bytes.len()).step_by(997));
        for place in places.chain(bytes.len() - 300..bytes.len()) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << (place % 8);
            let seen = open(&damaged).and_then(|reader| match reader.is_sealed() {
                true => reader.check(),
                // Its seal has another name now; who needs one asks for it.
                false => Err(ReadError::malformed("no seal").in_file("file")),
            });
            assert!(seen.is_err(), "byte {place}");
        }
    }

    #[test]
    fn a_block_is_checked_when_it_is_read_and_no_other() {
        let mut bytes = written();
        let place = place(&bytes, "z") + 2 * BLOCK as usize;
        bytes[place] ^= 1;
        let reader = open(&bytes).unwrap();
        assert_eq!(reader.read::<u32>("a").unwrap(), [7, 8]);
        let mut part = vec![0u8; 2 * BLOCK as usize];
        reader.read_rows("z", 0..part.len(), &mut part).unwrap();
        let error = reader
            .read_row_into("z", part.len() + 9, &mut [0u8])
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "`file` is damaged: the numbers of `z` are not those that were written"
        );
        assert!(reader.read::<u8>("z").is_err() && reader.check().is_err());
    }

    /// Of a reader that holds no digests, blocks are checked by those in the file, and these by theirs.
    #[test]
    fn digests_that_are_read_again_are_those_that_were_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes = written();
        let (z, seal) = (place(&bytes, "z"), place(&bytes, SEAL));
        let slim = || {
            std::fs::write(&path, &bytes).unwrap();
            let mut reader = SafetensorsReader::open(&path).unwrap();
            reader.slim(None);
            reader
        };
        let copy = folder.path().join("copy");
        assert!(slim().check().is_ok() && slim().save(&copy, "{}").is_ok());
        for place in [z, z + LONG - 1, seal, seal + 5 * DIGEST - 1] {
            let reader = slim();
            assert_eq!(reader.read::<u32>("a").unwrap(), [7, 8]);
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            let error = reader.read::<u8>("z").unwrap_err();
            assert!(
                matches!(error, DataError::Damaged { .. }),
                "{place}: {error}"
            );
            assert!(reader.save(&copy, "{}").is_err(), "{place}");
        }
    }

    #[test]
    fn a_copy_with_another_record_is_sealed_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy");
        let mut bytes = written();
        open(&bytes).unwrap().save(&path, r#"{"a":2}"#).unwrap();
        let copy = SafetensorsReader::open(&path).unwrap();
        assert!(copy.is_sealed() && copy.check().is_ok());
        assert_eq!(copy.metadata(), Some(r#"{"a":2}"#));
        assert_eq!(copy.read::<u32>("a").unwrap(), [7, 8]);
        // What is damaged is not sealed again.
        let place = place(&bytes, "z");
        bytes[place] ^= 1;
        assert!(open(&bytes).unwrap().save(&path, "{}").is_err());
    }
}
