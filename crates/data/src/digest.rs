//! Digests: which dataset, which file something was computed from, whatever it was called.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::error::DataError;
use crate::samples::{SampleInput, Samples};

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

/// A digest that is computed once, when it is first asked for: that reads a whole dataset.
#[derive(Debug, Default)]
pub(crate) struct OnceDigest(Mutex<Option<Digest>>);

impl OnceDigest {
    pub(crate) fn get_or_compute(
        &self,
        compute: impl FnOnce() -> Result<Digest, DataError>,
    ) -> Result<Digest, DataError> {
        // Threads that come while one computes wait for it. A panic leaves nothing behind.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some(digest) => Ok(digest),
            None => Ok(*known.insert(compute()?)),
        }
    }
}

/// Takes in parts that may each have any length, so that none can pass for the end of the one before it.
pub(crate) struct Contents(Sha256);

impl Contents {
    fn number(&mut self, number: usize) {
        self.0.update((number as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.update(text);
    }

    /// The numbers of an array, as they are stored: the bytes of rows are what `read` gives.
    pub(crate) fn rows(
        &mut self,
        input: &SampleInput,
        len: usize,
        big_endian: bool,
        mut read: impl FnMut(Range<usize>, &mut [u8]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        // The same bytes are other numbers in the other order.
        self.text(match big_endian {
            true => "big-endian",
            false => "little-endian",
        });
        let row_bytes = input.sample_bytes();
        let step = (STEP / row_bytes).max(1);
        let mut bytes = Vec::new();
        for start in (0..len).step_by(step) {
            let end = len.min(start.saturating_add(step));
            bytes.resize((end - start) * row_bytes, 0);
            read(start..end, &mut bytes)?;
            self.0.update(&bytes);
        }
        Ok(())
    }

    /// The files of `len` images.
    pub(crate) fn image_files(
        &mut self,
        len: usize,
        file: impl Fn(usize) -> Result<Vec<u8>, DataError>,
    ) -> Result<(), DataError> {
        self.text("images");
        for row in 0..len {
            let bytes = file(row)?;
            self.number(bytes.len());
            self.0.update(&bytes);
        }
        Ok(())
    }
}

/// The digest of samples by what their trait gives.
pub(crate) fn of_samples<S: Samples + ?Sized>(samples: &S) -> Result<Digest, DataError> {
    of_inputs(samples, |contents, index| {
        let Some(images) = samples.images(index) else {
            let input = &samples.inputs()[index];
            let read = |rows: Range<usize>, out: &mut [u8]| samples.read(index, rows, out);
            return contents.rows(input, samples.len(), false, read);
        };
        contents.text("pixels");
        for row in 0..samples.len() {
            let image = images.image(row)?;
            contents.number(image.height());
            contents.number(image.width());
            contents.number(image.channels());
            contents.0.update(image.pixels());
        }
        Ok(())
    })
}

/// The digest of samples; `take` takes in the numbers of an input.
pub(crate) fn of_inputs<S: Samples + ?Sized>(
    samples: &S,
    take: impl Fn(&mut Contents, usize) -> Result<(), DataError>,
) -> Result<Digest, DataError> {
    let mut contents = Contents(Sha256::new());
    let inputs = samples.inputs();
    // A single input is the model's, whatever its name; several are told apart by theirs.
    let several = inputs.len() != 1;
    if several {
        contents.text("inputs");
        contents.number(inputs.len());
    }
    for (index, input) in inputs.iter().enumerate() {
        if several {
            contents.text(input.name());
        }
        contents.text(&input.element().to_string());
        contents.number(input.shape().len());
        for &axis in input.shape() {
            contents.number(axis);
        }
        contents.number(samples.len());
        take(&mut contents, index)?;
    }
    match samples.labels() {
        None => contents.text("no labels"),
        Some(labels) => {
            contents.text("labels");
            for label in labels {
                contents.0.update(label.to_le_bytes());
            }
        }
    }
    Ok(Digest(contents.0.finalize().into()))
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
        let expected = "f41b70392290e52b7fff9e7984c48e7170497d2e818191edddcc8dbb2eef63b6";
        assert_eq!(digest(&path).to_string(), expected);
        let path = folder.path().join("x.npy");
        let data = [0, 1, 0, 2, 0, 3, 0, 4];
        fs::write(&path, npy(">i2", "False", data)).unwrap();
        let expected = "fb0f026e630d03f34ca1c974877c19d6cb8874ef27b640fe9a707179ab3d1d2a";
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
    fn axis_order_does_not_count_and_byte_order_does() {
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
