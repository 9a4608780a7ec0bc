//! What can go wrong with a dataset, in words a user can act on.
//!
//! Parsers do not know which file their bytes come from: they return a [`ReadError`]. Whoever opened the file wraps it
//! into a [`DataError`], which names the file.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// What is wrong with the bytes of a file, without the name of the file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes break the rules of their format: truncated, inconsistent or absurd.
    #[error("{0}")]
    Malformed(String),
    /// The bytes are valid, but hold something that is not read here.
    #[error("{0}")]
    Unsupported(String),
    /// The bytes are not those that were written: their checksum says so.
    #[error("{0}")]
    Damaged(String),
    /// They are compressed, and the folder for temporary files cannot take what they decode to.
    #[error("cannot be decoded into the temporary folder `{}`: {source}", folder.display())]
    Temporary {
        /// The folder.
        folder: PathBuf,
        /// The reason the operating system gave.
        source: io::Error,
    },
    /// The operating system could not read them.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    /// What is compressed is decoded while it is read: what is wrong with it arrives as an error of reading.
    fn from(error: io::Error) -> ReadError {
        error.downcast().unwrap_or_else(ReadError::Io)
    }
}

impl ReadError {
    pub(crate) fn malformed(reason: impl Into<String>) -> Self {
        Self::Malformed(reason.into())
    }

    pub(crate) fn unsupported(reason: impl Into<String>) -> Self {
        Self::Unsupported(reason.into())
    }

    /// Names the file the bytes came from.
    pub fn in_file(self, file: impl Into<String>) -> DataError {
        DataError::Read {
            file: file.into(),
            source: self,
        }
    }
}

/// Why a dataset could not be opened, bound to a model's input, read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file is missing, unreadable or malformed.
    #[error("`{file}`: {source}")]
    Read {
        /// The file, and the array inside it where there are several.
        file: String,
        /// What is wrong with it.
        source: ReadError,
    },
    /// A file or folder is none of the known formats.
    #[error("`{file}` is not a dataset: it is neither {known}")]
    UnknownFormat {
        /// The path as it was given.
        file: String,
        /// The known formats, ready to print.
        known: String,
    },
    /// An npz file lacks an array that was asked for, or the `x` that is looked for by default.
    #[error(
        "`{file}` has no array `{array}`; it holds {found}. Name the arrays as `{file}:SAMPLES,LABELS`"
    )]
    NoArray {
        /// The npz file.
        file: String,
        /// The array that was looked for.
        array: String,
        /// The arrays it holds, ready to print.
        found: String,
    },
    /// A dataset specification cannot be read.
    #[error("cannot read the dataset specification `{spec}`: {reason}")]
    Spec {
        /// The specification as it was given.
        spec: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Labels are not one whole number (or one-hot row) per sample.
    #[error("labels in `{file}`: {reason}")]
    Labels {
        /// The file, and the array inside it where there are several.
        file: String,
        /// What is wrong with them.
        reason: String,
    },
    /// Names of classes or samples do not fit the samples.
    #[error("names in `{file}`: {reason}")]
    Names {
        /// The dataset.
        file: String,
        /// What is wrong with them.
        reason: String,
    },
    /// Classes have names that the model's do not have.
    #[error("`{file}` has the classes {found}; the model has no {unknown}, but {known}")]
    UnknownClasses {
        /// The dataset.
        file: String,
        /// Its classes, ready to print.
        found: String,
        /// Those of them that the model does not have, ready to print.
        unknown: String,
        /// The model's, ready to print.
        known: String,
    },
    /// The inputs of a dataset do not fit together, or not what was asked for.
    #[error("`{file}`: {reason}")]
    Inputs {
        /// The dataset.
        file: String,
        /// What is wrong with them.
        reason: String,
    },
    /// Samples do not have the shape the model wants, or how to arrange them cannot be told from the shapes.
    #[error("`{file}` holds samples of shape {stored:?}, the model wants {wanted:?}: {reason}")]
    Shape {
        /// The dataset.
        file: String,
        /// The sample shape in the dataset.
        stored: Vec<usize>,
        /// The sample shape the model wants.
        wanted: Vec<usize>,
        /// What stands in the way, and the option that removes it.
        reason: String,
    },
    /// A preprocessing option makes no sense, by itself or for this dataset.
    #[error("preprocessing: {0}")]
    Preprocessing(String),
    /// One sample cannot be used.
    #[error("`{file}`, row {row}: {reason}")]
    Row {
        /// The dataset or, in an image folder, the image.
        file: String,
        /// Index of the sample, counted from 0.
        row: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The caller asked for samples that do not exist, or passed a buffer of the wrong length.
    #[error("cannot read rows {start}..{end} of {rows} into a buffer of {buffer} numbers")]
    Range {
        /// First row asked for.
        start: usize,
        /// Row behind the last one asked for.
        end: usize,
        /// Rows there are.
        rows: usize,
        /// Length of the caller's buffer.
        buffer: usize,
    },
    /// The caller asked a safetensors file for a tensor it does not hold, for numbers of another type than it holds, or
    /// for rows it does not have.
    #[error("`{file}`, tensor `{tensor}`: {reason}")]
    Tensor {
        /// The safetensors file.
        file: String,
        /// The tensor that was asked for.
        tensor: String,
        /// What is wrong with the question.
        reason: String,
    },
    /// Numbers of a tensor are not those that were written: their checksum says so.
    #[error("`{file}` is damaged: the numbers of `{tensor}` are not those that were written")]
    Damaged {
        /// The safetensors file.
        file: String,
        /// The tensor.
        tensor: String,
    },
    /// Samples are not what they were when they were first read.
    #[error("`{file}` changed while it was read: rows {start} to {}", .end.saturating_sub(1))]
    Changed {
        /// The dataset.
        file: String,
        /// The first of some rows, at least one of which changed.
        start: usize,
        /// The one behind the last.
        end: usize,
    },
    /// The folder for parts of an output cannot be used.
    #[error("cannot keep parts in `{folder}`: {source}")]
    Folder {
        /// The folder.
        folder: String,
        /// Why not.
        source: io::Error,
    },
    /// Another process is writing the same output.
    #[error("`{file}` is being written by another npcov")]
    Locked {
        /// The output.
        file: String,
    },
    /// An output file cannot be written.
    #[error("cannot write `{file}`: {source}")]
    Write {
        /// The file to be written.
        file: String,
        /// The reason the operating system gave.
        source: io::Error,
    },
    /// Arrays cannot be put together into one output file.
    #[error("cannot write `{file}`: {reason}")]
    Arrays {
        /// The file to be written.
        file: String,
        /// What is wrong with the arrays.
        reason: String,
    },
}
