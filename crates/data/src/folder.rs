//! Image folders: one folder per class, PNG and JPEG files in it.
//!
//! Classes are numbered in the order of their names, and images are ordered by class and name, byte by byte: the order
//! of torchvision's `ImageFolder`. A folder with images but no class folders is a dataset without labels.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest::{Contents, Digest, Fingerprint, OnceFingerprint};
use crate::element::Element;
use crate::error::{DataError, ReadError};
use crate::formats::{Format, Location};
use crate::image::{Image, LONGEST};
use crate::samples::{Images, SampleInput, Samples, input_at};

/// A folder of images.
pub(crate) struct ImageFolders;

impl Format for ImageFolders {
    fn name(&self) -> &str {
        "a folder with one folder of PNG or JPEG images per class"
    }

    fn recognises(&self, location: &Location<'_>) -> bool {
        location.is_folder()
    }

    fn open(&self, location: &Location<'_>) -> Result<Arc<dyn Samples>, DataError> {
        location.refuse_part()?;
        let folder = ImageFolder::open(location.path(), &location.spec())?;
        Ok(Arc::new(folder))
    }
}

/// The images of a folder; each is decoded when it is asked for.
#[derive(Debug)]
struct ImageFolder {
    name: String,
    folder: PathBuf,
    images: Vec<PathBuf>,
    /// Height, width and channels of the first image; the others have the same channels, and unless they are resized
    /// must have the same size.
    shape: [usize; 3],
    input: [SampleInput; 1],
    /// Names and labels.
    classes: Option<(Vec<String>, Vec<i64>)>,
    fingerprint: OnceFingerprint,
}

impl ImageFolder {
    /// Lists a folder of images and decodes the first one.
    fn open(folder: &Path, name: &str) -> Result<ImageFolder, DataError> {
        let failed = |path: &Path, error: io::Error| {
            ReadError::Io(error).in_file(path.display().to_string())
        };
        let (mut images, folders) = list(folder).map_err(|error| failed(folder, error))?;
        let unlabelled = !images.is_empty();
        let mut names = Vec::new();
        let mut labels = Vec::new();
        for class in folders {
            let (found, _) = list(&class).map_err(|error| failed(&class, error))?;
            if found.is_empty() {
                continue;
            }
            if unlabelled {
                let reason =
                    "has images both in class folders and beside them; which ones are meant?";
                return Err(ReadError::unsupported(reason).in_file(folder.display().to_string()));
            }
            let name = class.file_name().unwrap_or_default().to_string_lossy();
            labels.extend(std::iter::repeat_n(names.len() as i64, found.len()));
            names.push(name.into_owned());
            images.extend(found);
        }
        let Some(first) = images.first() else {
            let reason = "holds neither PNG or JPEG images, nor folders of them, nor CIFAR files";
            return Err(ReadError::unsupported(reason).in_file(folder.display().to_string()));
        };
        let in_first = |error: ReadError| error.in_file(first.display().to_string());
        let image = decode(first).map_err(in_first)?;
        let shape = [image.height(), image.width(), image.channels()];
        let input = SampleInput::new("x", &shape, Element::U8).map_err(in_first)?;
        Ok(ImageFolder {
            name: name.to_owned(),
            folder: folder.to_owned(),
            shape,
            input: [input],
            images,
            classes: (!unlabelled).then_some((names, labels)),
            fingerprint: OnceFingerprint::default(),
        })
    }

    /// The file of one image as it is.
    fn file(&self, row: usize) -> Result<Vec<u8>, DataError> {
        let path = self.path(row)?;
        read(path).map_err(|error| error.in_file(path.display().to_string()))
    }

    fn path(&self, row: usize) -> Result<&Path, DataError> {
        let path = self.images.get(row).ok_or(DataError::Range {
            start: row,
            end: row.saturating_add(1),
            rows: self.images.len(),
            buffer: 0,
        })?;
        Ok(path)
    }
}

impl Images for ImageFolder {
    /// Grey images among RGB ones get three equal channels.
    fn image(&self, row: usize) -> Result<Image, DataError> {
        let path = self.path(row)?;
        let file = || path.display().to_string();
        let image = decode(path).map_err(|error| error.in_file(file()))?;
        match (image.channels(), self.shape[2]) {
            (_, 3) => Ok(image.into_rgb()),
            (1, 1) => Ok(image),
            _ => Err(DataError::Row {
                file: file(),
                row,
                reason: "is a colour image, but the first image of the folder is grey".to_owned(),
            }),
        }
    }
}

impl Samples for ImageFolder {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.images.len()
    }

    fn inputs(&self) -> &[SampleInput] {
        &self.input
    }

    fn read(&self, input: usize, rows: Range<usize>, out: &mut [u8]) -> Result<(), DataError> {
        let described = input_at(self, input)?;
        described.check_bytes(&rows, self.len(), out.len())?;
        for (row, pixels) in rows.zip(out.chunks_exact_mut(described.sample_bytes())) {
            let image = self.image(row)?;
            let [height, width, _] = self.shape;
            if (image.height(), image.width()) != (height, width) {
                return Err(DataError::Row {
                    file: self.path(row)?.display().to_string(),
                    row,
                    reason: format!(
                        "the image is {}x{}, the first one of the folder {height}x{width}; add `--resize`",
                        image.height(),
                        image.width()
                    ),
                });
            }
            pixels.copy_from_slice(image.pixels());
        }
        Ok(())
    }

    fn images(&self, input: usize) -> Option<&dyn Images> {
        (input == 0).then_some(self)
    }

    fn labels(&self) -> Option<&[i64]> {
        self.classes.as_ref().map(|(_, labels)| &labels[..])
    }

    fn class_names(&self) -> Option<&[String]> {
        self.classes.as_ref().map(|(names, _)| &names[..])
    }

    /// The way from the folder to the image, on every system with the same slashes.
    fn sample_name(&self, row: usize) -> Option<Cow<'_, str>> {
        let path = self.images.get(row)?;
        let inside = path.strip_prefix(&self.folder).unwrap_or(path);
        let parts = inside.iter().map(|part| part.to_string_lossy());
        Some(parts.collect::<Vec<_>>().join("/").into())
    }

    fn sample_file(&self, row: usize) -> Option<&Path> {
        self.images.get(row).map(AsRef::as_ref)
    }

    /// The files count, not the pixels: they are read without being decoded.
    fn digest_runs(&self, runs: &[Range<usize>]) -> Result<Digest, DataError> {
        let mut contents = Contents::default();
        contents.text("images");
        for row in runs.iter().cloned().flatten() {
            let bytes = self.file(row)?;
            contents.number(bytes.len());
            contents.bytes(&bytes);
        }
        Ok(contents.finish())
    }

    fn fingerprint(&self) -> Result<Arc<Fingerprint>, DataError> {
        let take = || Ok(Arc::new(Fingerprint::of(self)?));
        self.fingerprint.get_or_take(take)
    }
}

fn decode(path: &Path) -> Result<Image, ReadError> {
    Image::decode(&read(path)?)
}

fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    Ok(npcov_file::read(path, LONGEST as u64)?)
}

/// The images and the folders directly inside `folder`, each in the order of their names. Hidden ones are left out.
fn list(folder: &Path) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let mut images = Vec::new();
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // Through symbolic links, which datasets are often made of.
        if fs::metadata(&path)?.is_dir() {
            folders.push(path);
        } else if is_image(&path) {
            images.push(path);
        }
    }
    images.sort();
    folders.sort();
    Ok((images, folders))
}

pub(crate) fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        ["png", "jpg", "jpeg"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(extension))
    })
}

#[cfg(test)]
mod tests {
    use png::ColorType::{Grayscale, Rgb};

    use super::*;
    use crate::image::tests::png;

    fn put(folder: &Path, name: &str, bytes: &[u8]) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn open(folder: &Path) -> Result<ImageFolder, DataError> {
        ImageFolder::open(folder, "images")
    }

    #[test]
    fn classes_and_images_come_in_the_order_of_names() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, "dog/2.PNG", &png(Rgb, 1, 1, &[4, 5, 6]));
        put(root, "dog/1.png", &png(Grayscale, 1, 1, &[9]));
        put(root, "cat/7.png", &png(Rgb, 1, 1, &[1, 2, 3]));
        put(root, "dog/notes.txt", b"not an image");
        put(root, ".hidden/1.png", &png(Rgb, 1, 1, &[0, 0, 0]));
        fs::create_dir(root.join("empty")).unwrap();
        let images = open(root).unwrap();
        assert_eq!(images.class_names().unwrap(), ["cat", "dog"]);
        assert_eq!(images.labels(), Some(&[0, 1, 1][..]));
        assert_eq!(images.inputs()[0].shape(), [1, 1, 3]);
        let pixels = |row| images.image(row).unwrap().pixels().to_vec();
        assert_eq!(
            [pixels(0), pixels(1), pixels(2)].concat(),
            [1, 2, 3, 9, 9, 9, 4, 5, 6]
        );
        assert!(images.image(3).is_err());
        let names: Vec<_> = (0..4).map(|row| images.sample_name(row)).collect();
        let expected = ["cat/7.png", "dog/1.png", "dog/2.PNG"].map(|name| Some(name.into()));
        assert_eq!(names, [&expected[..], &[None]].concat());
    }

    #[test]
    fn images_without_class_folders_have_no_labels() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "a.png", &png(Grayscale, 1, 1, &[1]));
        put(folder.path(), "b.png", &png(Rgb, 1, 1, &[1, 2, 3]));
        let images = open(folder.path()).unwrap();
        assert_eq!((images.len(), &images.classes), (2, &None));
        assert_eq!(images.sample_name(1).as_deref(), Some("b.png"));
        let error = images.image(1).unwrap_err().to_string();
        assert!(error.contains("colour image"), "{error}");
    }

    #[test]
    fn unclear_folders_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            open(folder.path())
                .unwrap_err()
                .to_string()
                .contains("holds neither")
        );
        put(folder.path(), "a.png", &png(Grayscale, 1, 1, &[1]));
        put(folder.path(), "cat/a.png", &png(Grayscale, 1, 1, &[1]));
        assert!(
            open(folder.path())
                .unwrap_err()
                .to_string()
                .contains("which ones")
        );
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "cat/a.png", b"no image");
        assert!(
            open(folder.path())
                .unwrap_err()
                .to_string()
                .contains("a.png")
        );
    }
}
