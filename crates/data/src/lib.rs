//! Data for models: samples from anywhere, as a model wants them.
//!
//! [`Samples`] is any data that a model can be asked about: its numbers, labels, names of classes and of samples. Here are
//! arrays, in memory or in files ([`Arrays`]), and folders of images; others can implement the trait. [`open`] finds out
//! what a file or folder is: npy, npz, MNIST's IDX, CIFAR's binary files, CSV, Parquet, image folders. A [`Loader`] binds samples to the
//! shape a model wants and hands them out as `f32`, range by range, to as many threads as ask. This crate is told the
//! shape; it never knows the model.
//!
//! Arrays in memory are borrowed or owned:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use npcov_data::{Arrays, Loader, Preprocessing};
//!
//! // Two 2x2 RGB images: N, H, W, C.
//! let pixels: Vec<u8> = [255, 0, 51].repeat(8);
//! let images = Arrays::new("x", &[2, 2, 2, 3], &pixels[..])?
//!     .with_labels(vec![1, 0])?
//!     .with_class_names(["cat", "dog"])?;
//!
//! // The model wants C, H, W, scaled to 0..1.
//! let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
//! let loader = Loader::new(Arc::new(images), &[3, 2, 2], &scale)?;
//! let mut sample = [0.0; 12];
//! loader.read(1..2, &mut sample)?;
//! assert_eq!(sample, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.2, 0.2, 0.2, 0.2]);
//! assert_eq!(loader.labels(), Some(&[1, 0][..]));
//! # Ok(())
//! # }
//! ```
//!
//! A file is opened, and then the same:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use npcov_data::npz::{Compression, NpzWriter};
//! use npcov_data::{Loader, Preprocessing, open};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("images.npz");
//! let mut writer = NpzWriter::create(&path, Compression::Deflated)?;
//! let (x, y) = (writer.array::<u8>("x", &[2, 2, 3])?, writer.array::<i64>("y", &[])?);
//! writer.append(&x, &[255, 0, 51].repeat(8))?;
//! writer.append(&y, &[1, 0])?;
//! writer.finish()?;
//!
//! let images = open(path.to_str().unwrap())?;
//! assert_eq!(images.inputs()[0].shape(), [2, 2, 3]);
//! assert_eq!(images.labels(), Some(&[1, 0][..]));
//! let loader = Loader::new(images, &[3, 2, 2], &Preprocessing::default())?;
//! assert_eq!((loader.len(), loader.sample_len()), (2, 12));
//! # Ok(())
//! # }
//! ```
//!
//! Each format stands in a file of its own and in one line of a list, [`formats::FORMATS`]; programs that use this crate
//! can add theirs ([`formats::open_with`]).
//!
//! # Memory, and files that lie
//!
//! A file is never in memory as `f32`. Rows are read by position from it ([`Source`], [`rows::Rows`]); what is
//! compressed has no positions, so it is decoded once, into memory up to 16 MiB; beyond that as far as it is read, into a
//! temporary file in the system's folder for these, which vanishes with the process.
//! Nothing is allocated on the word of a header: it must agree with the length of the file first, and a compressed array
//! is decoded to exactly the size its header claims, after a check that its compressed bytes could hold that.
//! Plain and stored arrays are read without verifying a checksum, which would mean reading them whole.
//!
//! # Relation to the other crates
//!
//! Nothing of npcov stands left of this crate. `npcov` feeds what [`Loader::read`] returns into the engine, and names
//! data in its artefacts by [`Samples::digest`]; the command line turns its flags into a [`Preprocessing`] and writes
//! results with [`npz::NpzWriter`] and [`safetensors::SafetensorsWriter`].

mod arrays;
mod cifar;
mod classes;
mod contained;
mod csv;
mod digest;
mod element;
mod error;
mod excerpt;
mod file_pool;
mod folder;
pub mod formats;
pub mod idx;
mod image;
mod jpeg_colours;
mod labels;
mod layout;
mod loader;
pub mod npy;
pub mod npz;
mod npz_writer;
mod output_lock;
mod parquet;
mod preprocess;
mod resize;
pub mod rows;
pub mod safetensors;
mod samples;
mod scalar;
mod source;
mod spool;
mod table;
mod texts;
mod value_range;
mod wanted;
mod whole_file;

pub use arrays::Arrays;
pub use classes::{match_classes, read_class_names, read_vocabulary, with_classes};
pub use contained::silence_contained_panics;
pub use digest::{BLOCK_ROWS, Digest, Digester, Fingerprint, NotADigest, SeenRows};
pub use element::Element;
pub use error::{DataError, ReadError};
pub use excerpt::{Excerpt, Run, Whole};
pub use file_pool::FilePool;
pub use formats::{Reading, open, open_as};
pub use image::Image;
pub use labels::{Classes, Targets};
pub use layout::{ImageShape, Layout};
pub use loader::Loader;
pub use output_lock::OutputLock;
pub use preprocess::Preprocessing;
pub use resize::{ImageSize, Interpolation};
pub use samples::{Images, SampleInput, Samples};
pub use scalar::Scalar;
pub use source::{Source, SourceReader};
pub use value_range::ValueRange;
pub use wanted::WantedInput;
pub use whole_file::{is_temporary, require_place, write_soon, write_whole};
