//! Image folders: one folder per class, PNG and JPEG files in it.
//!
//! Classes are numbered in the order of their names, and images are ordered by class and name, byte by byte: the order
//! of torchvision's `ImageFolder`. A folder with images but no class folders is a dataset without labels.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{DataError, ReadError};
use crate::image::{Image, LONGEST};

/// The images of a folder; each is decoded when it is asked for.
#[derive(Debug)]
pub(crate) struct ImageFolder {
    images: Vec<PathBuf>,
    /// Height, width and channels of the first image.
    shape: [usize; 3],
}

/// What a folder holds.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) images: ImageFolder,
    pub(crate) classes: Option<(Vec<String>, Vec<i64>)>,
}

/// Lists a folder of images and decodes the first one.
pub(crate) fn open(folder: &Path) -> Result<Contents, DataError> {
    let failed =
        |path: &Path, error: io::Error| ReadError::Io(error).in_file(path.display().to_string());
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
            let reason = "has images both in class folders and beside them; which ones are meant?";
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
    let image = decode(first).map_err(|error| error.in_file(first.display().to_string()))?;
    Ok(Contents {
        images: ImageFolder {
            shape: [image.height, image.width, image.channels],
            images,
        },
        classes: (!unlabelled).then_some((names, labels)),
    })
}

impl ImageFolder {
    pub(crate) fn len(&self) -> usize {
        self.images.len()
    }

    /// Height, width and channels of the first image; the others have the same channels, and unless they are resized
    /// must have the same size.
    pub(crate) fn shape(&self) -> &[usize; 3] {
        &self.shape
    }

    /// Decodes one image. Grey images among RGB ones get three equal channels.
    pub(crate) fn image(&self, row: usize) -> Result<Image, DataError> {
        let path = self.path(row)?;
        let file = || path.display().to_string();
        let image = decode(path).map_err(|error| error.in_file(file()))?;
        match (image.channels, self.shape[2]) {
            (_, 3) => Ok(image.into_rgb()),
            (1, 1) => Ok(image),
            _ => Err(DataError::Row {
                file: file(),
                row,
                reason: "is a colour image, but the first image of the folder is grey".to_owned(),
            }),
        }
    }

    /// The file of one image as it is.
    pub(crate) fn file(&self, row: usize) -> Result<Vec<u8>, DataError> {
        let path = self.path(row)?;
        read(path).map_err(|error| error.in_file(path.display().to_string()))
    }

    fn path(&self, row: usize) -> Result<&Path, DataError> {
        let path = self.images.get(row).ok_or(DataError::Range {
            start: row,
            end: row + 1,
            rows: self.images.len(),
            buffer: 0,
        })?;
        Ok(path)
    }

    /// The name of one image's file, for error messages.
    pub(crate) fn name(&self, row: usize) -> String {
        self.images
            .get(row)
            .map(|path| path.display().to_string())
            .unwrap_or_default()
    }
}

fn decode(path: &Path) -> Result<Image, ReadError> {
    Image::decode(&read(path)?)
}

fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    let len = fs::metadata(path)?.len();
    if len > LONGEST as u64 {
        return Err(ReadError::unsupported(format!(
            "is too large for an image: {len} bytes"
        )));
    }
    Ok(fs::read(path)?)
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

fn is_image(path: &Path) -> bool {
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
        let contents = open(root).unwrap();
        assert_eq!(
            contents.classes,
            Some((vec!["cat".to_owned(), "dog".to_owned()], vec![0, 1, 1]))
        );
        assert_eq!(contents.images.shape(), &[1, 1, 3]);
        let pixels = |row| contents.images.image(row).unwrap().pixels;
        assert_eq!(
            [pixels(0), pixels(1), pixels(2)].concat(),
            [1, 2, 3, 9, 9, 9, 4, 5, 6]
        );
        assert!(contents.images.image(3).is_err());
    }

    #[test]
    fn images_without_class_folders_have_no_labels() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "a.png", &png(Grayscale, 1, 1, &[1]));
        put(folder.path(), "b.png", &png(Rgb, 1, 1, &[1, 2, 3]));
        let contents = open(folder.path()).unwrap();
        assert_eq!((contents.images.len(), contents.classes), (2, None));
        let error = contents.images.image(1).unwrap_err().to_string();
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
