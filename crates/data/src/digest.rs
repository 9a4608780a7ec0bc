//! Digests: which dataset, which file something was computed from, whatever it was called.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::error::DataError;
use crate::samples::Samples;

/// Bytes of samples that are read at a time, or one sample.
const STEP: usize = 1 << 20;

/// A SHA-256 digest. It is printed and parsed as 64 hexadecimal digits.
///
/// ```
/// use npcov_data::Digest;
///
/// let digest = Digest::of(b"abc");
/// assert!(digest.to_string().starts_with("ba7816bf"));
/// assert_eq!(digest.to_string().parse(), Ok(digest));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A text is not the 64 hexadecimal digits of a [`Digest`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a SHA-256 digest: 64 hexadecimal digits are")]
pub struct NotADigest(String);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Its 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Takes a digest of bytes that come piece by piece.
///
/// ```
/// use npcov_data::{Digest, Digester};
///
/// let mut digester = Digester::default();
/// digester.update(b"a");
/// digester.update(b"bc");
/// assert_eq!(digester.finish(), Digest::of(b"abc"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Digester(Sha256);

impl Digester {
    /// Takes in the bytes that follow.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Digest, NotADigest> {
        let wrong = || NotADigest(text.escape_debug().take(80).collect());
        let digit = |c: u8| char::from(c).to_digit(16).map(|digit| digit as u8);
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let pairs = <&[[u8; 2]; 32]>::try_from(pairs).map_err(|_| wrong())?;
        let mut bytes = [0; 32];
        for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(high)
                .zip(digit(low))
                .map(|(h, l)| h << 4 | l)
                .ok_or_else(wrong)?;
        }
        match rest {
            [] => Ok(Digest(bytes)),
            _ => Err(wrong()),
        }
    }
}

/// Rows whose numbers are digested together.
pub const BLOCK_ROWS: usize = 64;

/// Which data it is: a digest of all of it, made from digests of blocks of rows, so that some rows can be looked at again
/// without the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    digest: Digest,
    /// Of each block the first half of its digest: there may be many, and they are held against the same data only.
    blocks: Vec<[u8; 16]>,
}

/// The first half of a digest.
fn half(digest: &Digest) -> [u8; 16] {
    std::array::from_fn(|i| digest.0[i])
}

impl Fingerprint {
    /// Of samples as they are now. Reads all of them; no more than a few are in memory at a time.
    pub fn of<S: Samples + ?Sized>(samples: &S) -> Result<Fingerprint, DataError> {
        let mut contents = Contents::default();
        let inputs = samples.inputs();
        // A single input is the model's, whatever its name; several are told apart by theirs.
        let several = inputs.len() != 1;
        contents.number(inputs.len());
        for input in inputs {
            if several {
                contents.text(input.name());
            }
            contents.text(&input.element().to_string());
            contents.number(input.shape().len());
            for &axis in input.shape() {
                contents.number(axis);
            }
        }
        contents.number(samples.len());
        let mut blocks = Vec::new();
        let mut take = |block: &Digest| {
            contents.bytes(block.as_bytes());
            blocks.push(half(block));
        };
        match samples.known_blocks() {
            Some(known) => known.iter().for_each(take),
            None => {
                for start in (0..samples.len()).step_by(BLOCK_ROWS) {
                    take(&samples.digest_rows(block(start, samples.len()))?);
                }
            }
        }
        match (samples.is_labelled(), samples.targets()) {
            (false, None) => contents.text("no labels"),
            (false, Some(targets)) => {
                contents.text("targets");
                contents.number(targets.width());
                for number in (0..targets.rows())
                    .filter_map(|row| targets.row(row))
                    .flatten()
                {
                    contents.bytes(&number.to_le_bytes());
                }
            }
            (true, _) => {
                contents.text("labels");
                for label in (0..samples.len()).filter_map(|row| samples.label(row)) {
                    contents.bytes(&label.to_le_bytes());
                }
            }
        }
        Ok(Fingerprint {
            digest: contents.finish(),
            blocks,
        })
    }

    /// The digests of the blocks that begin in a range of rows, as they are now.
    pub fn blocks<S: Samples + ?Sized>(
        samples: &S,
        rows: Range<usize>,
    ) -> Result<Vec<Digest>, DataError> {
        let starts = rows.step_by(BLOCK_ROWS);
        starts
            .map(|start| samples.digest_rows(block(start, samples.len())))
            .collect()
    }

    /// The digest of the whole.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Fails unless rows are what they were when this was taken. Reads no more than these, and those of their blocks.
    pub fn check<S: Samples + ?Sized>(
        &self,
        samples: &S,
        rows: Range<usize>,
    ) -> Result<(), DataError> {
        let first = rows.start / BLOCK_ROWS * BLOCK_ROWS;
        for start in (first..rows.end).step_by(BLOCK_ROWS) {
            let rows = block(start, samples.len());
            let now = samples.digest_rows(rows.clone())?;
            if self.blocks.get(start / BLOCK_ROWS) != Some(&half(&now)) {
                return Err(DataError::Changed {
                    file: samples.name().to_owned(),
                    start: rows.start,
                    end: rows.end,
                });
            }
        }
        Ok(())
    }
}

/// Some rows as they were when someone began to read them: a sample of a large dataset is looked at again without the
/// rest of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRows(Vec<(Range<usize>, Digest)>);

impl SeenRows {
    /// Rows as they are now.
    pub fn of<S: Samples + ?Sized>(
        samples: &S,
        rows: impl IntoIterator<Item = usize>,
    ) -> Result<SeenRows, DataError> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for row in rows {
            match runs.last_mut() {
                Some(run) if run.end == row && run.len() < BLOCK_ROWS => run.end += 1,
                _ => runs.push(row..row.saturating_add(1)),
            }
        }
        let seen = runs.into_iter().map(|run| {
            let digest = samples.digest_rows(run.clone())?;
            Ok((run, digest))
        });
        Ok(SeenRows(seen.collect::<Result<_, DataError>>()?))
    }

    /// Fails unless those that lie in a range are what they were.
    pub fn check<S: Samples + ?Sized>(
        &self,
        samples: &S,
        range: Range<usize>,
    ) -> Result<(), DataError> {
        let lies_there = |run: &Range<usize>| run.start < range.end && range.start < run.end;
        for (run, seen) in self.0.iter().filter(|(run, _)| lies_there(run)) {
            if samples.digest_rows(run.clone())? != *seen {
                return Err(DataError::Changed {
                    file: samples.name().to_owned(),
                    start: run.start,
                    end: run.end,
                });
            }
        }
        Ok(())
    }
}

/// The block that begins with a row.
fn block(start: usize, len: usize) -> Range<usize> {
    start..len.min(start.saturating_add(BLOCK_ROWS))
}

/// A fingerprint that is taken once, when it is first asked for: that reads a whole dataset.
#[derive(Debug, Default)]
pub(crate) struct OnceFingerprint(Mutex<Option<Arc<Fingerprint>>>);

impl OnceFingerprint {
    pub(crate) fn get_or_take(
        &self,
        take: impl FnOnce() -> Result<Arc<Fingerprint>, DataError>,
    ) -> Result<Arc<Fingerprint>, DataError> {
        // Threads that come while one reads wait for it. A panic leaves nothing behind.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(fingerprint) => Ok(fingerprint.clone()),
            None => Ok(known.insert(take()?).clone()),
        }
    }
}

/// Takes in parts that may each have any length, so that none can pass for the end of the one before it.
#[derive(Default)]
pub(crate) struct Contents(Digester);

impl Contents {
    pub(crate) fn number(&mut self, number: usize) {
        self.0.update(&(number as u64).to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.update(text.as_bytes());
    }

    /// Bytes whose number is known.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        self.0.finish()
    }
}

/// The digest of runs of rows, one after the other, by what the trait gives: numbers in C order and little-endian, or the
/// pixels of images.
pub(crate) fn of_runs<S: Samples + ?Sized>(
    samples: &S,
    runs: &[Range<usize>],
) -> Result<Digest, DataError> {
    let mut contents = Contents::default();
    let mut bytes = Vec::new();
    for (index, input) in samples.inputs().iter().enumerate() {
        if let Some(images) = samples.images(index) {
            contents.text("pixels");
            for row in runs.iter().cloned().flatten() {
                let image = images.image(row)?;
                contents.number(image.height());
                contents.number(image.width());
                contents.number(image.channels());
                contents.bytes(image.pixels());
            }
            continue;
        }
        let row_bytes = input.sample_bytes();
        let step = (STEP / row_bytes).max(1);
        for rows in runs {
            for start in rows.clone().step_by(step) {
                let end = rows.end.min(start.saturating_add(step));
                bytes.resize((end - start) * row_bytes, 0);
                samples.read(index, start..end, &mut bytes)?;
                contents.bytes(&bytes);
            }
        }
    }
    Ok(contents.finish())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use png::ColorType::Grayscale;

    use super::*;
    use crate::image::tests::png;
    use crate::npz::{Compression, NpzWriter};

    fn digest(spec: impl AsRef<Path>) -> Digest {
        let spec = spec.as_ref().to_str().unwrap();
        crate::open(spec).unwrap().digest().unwrap()
    }

    #[test]
    fn digests_are_those_of_the_standard() {
        // FIPS 180-2, B.1; of nothing: `sha256sum /dev/null`.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), abc);
        let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), nothing);
        assert_eq!(
            format!("{:?}", Digest::of(b"abc")),
            format!("Digest({abc})")
        );
    }

    #[test]
    fn digests_are_parsed_and_other_texts_are_not() {
        let digest = Digest::of(b"abc");
        let text = digest.to_string();
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(text.to_uppercase().parse(), Ok(digest));
        assert_eq!(Digest::from(*digest.as_bytes()), digest);
        for wrong in [
            "",
            &text[..62],
            &text[..63],
            &format!("{text}0"),
            &format!("{text}00"),
            &text.replace('b', "g"),
            &format!("+{}", &text[1..]),
            &"ü".repeat(32),
        ] {
            let error = wrong.parse::<Digest>().unwrap_err().to_string();
            assert!(error.ends_with("64 hexadecimal digits are"), "{error}");
        }
    }

    /// Writes arrays `x` and, where there are labels, `y`.
    fn write<T: crate::Scalar>(path: &Path, row: &[usize], x: &[T], y: Option<&[i64]>) {
        write_as(Compression::Stored, path, row, x, y);
    }

    fn write_as<T: crate::Scalar>(
        compression: Compression,
        path: &Path,
        row: &[usize],
        x: &[T],
        y: Option<&[i64]>,
    ) {
        let mut writer = NpzWriter::create(path, compression).unwrap();
        let array = writer.array::<T>("x", row).unwrap();
        writer.append(&array, x).unwrap();
        if let Some(y) = y {
            let array = writer.array::<i64>("y", &[]).unwrap();
            writer.append(&array, y).unwrap();
        }
        writer.finish().unwrap();
    }

    /// Digests name data in artefacts: they stay what they are. Computed from the definition by Python's hashlib.
    #[test]
    fn digests_of_samples_are_those_of_the_definition() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npz");
        write::<u8>(&path, &[2], &[1, 2, 3, 4], Some(&[0, -1]));
        let expected = "8c3afdcfe0db1d75a78ed25a2626b16fb504849b2279c52b86164a39ac68a8e3";
        assert_eq!(digest(&path).to_string(), expected);
        let path = folder.path().join("x.npy");
        let data = [0, 1, 0, 2, 0, 3, 0, 4];
        fs::write(&path, npy(">i2", "False", data)).unwrap();
        let expected = "7cf09e6c54b18c3a48818b9e82f99e455591e9ca4b453e12c9eacd63812d0b36";
        assert_eq!(digest(&path).to_string(), expected);
    }

    /// An npy file of two rows of two numbers.
    fn npy(descr: &str, fortran: &str, data: [u8; 8]) -> Vec<u8> {
        let literal =
            format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': (2, 2), }}\n");
        let len = (literal.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\x00", &len[..], literal.as_bytes(), &data].concat()
    }

    #[test]
    fn everything_that_a_dataset_holds_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.npz");
        let mut digests = Vec::new();
        let mut put = |row: &[usize], x: &[u8], y: Option<&[i64]>| {
            write(&path, row, x, y);
            digests.push(digest(&path));
        };
        put(&[2], &[1, 2, 3, 4], Some(&[0, 1]));
        put(&[2], &[1, 2, 3, 4], Some(&[0, 2]));
        put(&[2], &[1, 2, 3, 4], Some(&[0, -1]));
        put(&[2], &[1, 2, 3, 4], None);
        put(&[2], &[1, 2, 3, 5], Some(&[0, 1]));
        put(&[2], &[0, 2, 3, 4], Some(&[0, 1]));
        put(&[2], &[1, 2], Some(&[0]));
        put(&[2], &[], Some(&[]));
        put(&[2], &[], None);
        put(&[2, 1], &[1, 2, 3, 4], Some(&[0, 1]));
        put(&[1, 2], &[1, 2, 3, 4], Some(&[0, 1]));
        put(&[1], &[1, 2, 3, 4], None);
        put(&[], &[1, 2, 3, 4], None);
        // The same bytes as one sample of another type.
        write::<u16>(&path, &[2], &[0x0201, 0x0403], Some(&[0]));
        digests.push(digest(&path));
        write::<bool>(&path, &[2], &[true, false], None);
        digests.push(digest(&path));
        write::<u8>(&path, &[2], &[1, 0], None);
        digests.push(digest(&path));
        for (i, digest) in digests.iter().enumerate() {
            assert!(!digests[..i].contains(digest), "case {i}");
        }
    }

    #[test]
    fn names_and_compression_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let [stored, copied, deflated] = ["a.npz", "b.npz", "c.npz"].map(|n| folder.path().join(n));
        // More than one step of samples, which are longer than half of one.
        let row = STEP / 2 + 1;
        let x: Vec<u8> = (0..3 * row).map(|i| (i / 1000) as u8).collect();
        write(&stored, &[row], &x, Some(&[1, 2, 3]));
        write_as(
            Compression::Deflated,
            &deflated,
            &[row],
            &x,
            Some(&[1, 2, 3]),
        );
        fs::copy(&stored, &copied).unwrap();
        assert_eq!(digest(&copied), digest(&stored));
        assert_eq!(digest(&deflated), digest(&stored));
        let without = format!("{}:x", stored.display());
        assert_ne!(digest(without), digest(&stored));
    }

    #[test]
    fn axis_order_does_not_count_and_numbers_do() {
        let folder = tempfile::tempdir().unwrap();
        let npy = |descr: &str, fortran: &str, data: [u8; 8]| {
            let path = folder.path().join("x.npy");
            fs::write(&path, npy(descr, fortran, data)).unwrap();
            digest(&path)
        };
        let rows = [1, 0, 2, 0, 3, 0, 4, 0];
        let columns = [1, 0, 3, 0, 2, 0, 4, 0];
        assert_eq!(npy("<i2", "False", rows), npy("<i2", "True", columns));
        assert_ne!(npy("<i2", "False", rows), npy("<i2", "True", rows));
        assert_ne!(npy("<i2", "False", rows), npy(">i2", "False", rows));
        assert_ne!(npy("<i2", "False", rows), npy("<u2", "False", rows));
    }

    #[test]
    fn the_same_numbers_in_another_byte_order_are_the_same_data() {
        let folder = tempfile::tempdir().unwrap();
        let [little, big] = [
            ("<i2", [1, 0, 2, 0, 3, 0, 4, 0]),
            (">i2", [0, 1, 0, 2, 0, 3, 0, 4]),
        ]
        .map(|(descr, data)| {
            let path = folder.path().join("x.npy");
            fs::write(&path, npy(descr, "False", data)).unwrap();
            digest(&path)
        });
        assert_eq!(little, big);
    }

    #[test]
    fn rows_of_a_sample_that_change_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npz");
        let x: Vec<u8> = (0..400).map(|i| (i % 251) as u8).collect();
        write(&path, &[2], &x, None);
        let samples = crate::open(path.to_str().unwrap()).unwrap();
        let seen = SeenRows::of(&samples, (3..5).chain([130, 7]).chain(131..199)).unwrap();
        let others = SeenRows::of(&samples, (0..130).chain([131])).unwrap();
        seen.check(&samples, 0..200).unwrap();
        // Row 130.
        let mut bytes = fs::read(&path).unwrap();
        let place = bytes.windows(9).rposition(|w| w == &x[258..267]).unwrap() + 2;
        bytes[place] ^= 1;
        fs::write(&path, &bytes).unwrap();
        others.check(&samples, 0..200).unwrap();
        seen.check(&samples, 0..130).unwrap();
        seen.check(&samples, 131..200).unwrap();
        let error = seen.check(&samples, 100..131).unwrap_err().to_string();
        assert!(
            error.ends_with("changed while it was read: rows 130 to 130"),
            "{error}"
        );
    }

    #[test]
    fn rows_that_change_are_noticed_and_others_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npz");
        let x: Vec<u8> = (0..400).map(|i| (i % 251) as u8).collect();
        write(&path, &[2], &x, None);
        let samples = crate::open(path.to_str().unwrap()).unwrap();
        let fingerprint = samples.fingerprint().unwrap();
        fingerprint.check(&samples, 0..200).unwrap();
        // Row 130, in the block of rows 128 to 191.
        let mut bytes = fs::read(&path).unwrap();
        let place = bytes.windows(9).rposition(|w| w == &x[258..267]).unwrap() + 2;
        bytes[place] ^= 1;
        fs::write(&path, &bytes).unwrap();
        fingerprint.check(&samples, 0..128).unwrap();
        fingerprint.check(&samples, 192..200).unwrap();
        for rows in [130..131, 100..129, 191..200] {
            let error = fingerprint.check(&samples, rows).unwrap_err().to_string();
            assert!(
                error.ends_with("changed while it was read: rows 128 to 191"),
                "{error}"
            );
        }
        // What was taken stays what it is.
        assert_eq!(*samples.fingerprint().unwrap(), *fingerprint);
        assert_ne!(Fingerprint::of(&*samples).unwrap(), *fingerprint);
    }

    #[test]
    fn an_image_folder_is_its_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        let (black, white) = (png(Grayscale, 1, 1, &[0]), png(Grayscale, 1, 1, &[255]));
        put("a/cat/1.png", &black);
        put("a/dog/1.png", &white);
        put("b/katze/x.png", &black);
        put("b/zebra/y.png", &white);
        put("c/cat/1.png", &white);
        put("c/dog/1.png", &black);
        put("d/cat/1.png", &black);
        put("d/cat/2.png", &white);
        put("e/1.png", &black);
        put("e/2.png", &white);
        let digests = ["a", "b", "c", "d", "e"].map(|name| digest(folder.path().join(name)));
        assert_eq!(digests[0], digests[1]);
        for (i, digest) in digests.iter().enumerate().skip(2) {
            assert!(!digests[..i].contains(digest), "case {i}");
        }
        let spec = folder.path().join("e").to_str().unwrap().to_owned();
        let (samples, remembered) = (crate::open(&spec).unwrap(), crate::open(&spec).unwrap());
        let before = remembered.digest().unwrap();
        fs::remove_file(folder.path().join("e/2.png")).unwrap();
        let error = samples.digest().unwrap_err().to_string();
        assert!(error.contains("2.png"), "{error}");
        assert_eq!(remembered.digest().unwrap(), before);
    }
}
