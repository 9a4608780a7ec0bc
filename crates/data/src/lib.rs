//! Datasets, preprocessing and batching.
//!
//! A [`Dataset`] is an opened and checked file or folder: npy, npz, MNIST's IDX, CIFAR's binary files, image folders. A
//! [`Loader`] binds it to the shape a model wants and hands out samples as `f32`, range by range, to as many threads as
//! ask. This crate is told the shape; it never knows the model.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use npcov_data::npz::{Compression, NpzWriter};
//! use npcov_data::{Dataset, Loader, Preprocessing};
//!
//! // Two 2x2 RGB images, as numpy would write them: N, H, W, C.
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("images.npz");
//! let mut writer = NpzWriter::create(&path, Compression::Deflated)?;
//! let (x, y) = (writer.array::<u8>("x", &[2, 2, 3])?, writer.array::<i64>("y", &[])?);
//! writer.append(&x, &[255, 0, 51].repeat(8))?;
//! writer.append(&y, &[1, 0])?;
//! writer.finish()?;
//!
//! let dataset = Dataset::open(path.to_str().unwrap())?;
//! assert_eq!(dataset.sample_shape(), [2, 2, 3]);
//! assert_eq!(dataset.labels(), Some(&[1, 0][..]));
//!
//! // The model wants C, H, W, scaled to 0..1.
//! let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
//! let loader = Loader::new(dataset, &[3, 2, 2], &scale)?;
//! let mut sample = [0.0; 12];
//! loader.read(1..2, &mut sample)?;
//! assert_eq!(sample, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.2, 0.2, 0.2, 0.2]);
//! # Ok(())
//! # }
//! ```
//!
//! # Memory, and files that lie
//!
//! A dataset is never in memory as `f32`. Rows are read by position from the file ([`Source`], [`rows::Rows`]); what is
//! compressed has no positions, so it is decoded once, into memory up to 16 MiB and into a temporary file in the system's
//! folder for these beyond that; it vanishes with the process.
//! Nothing is allocated on the word of a header: it must agree with the length of the file first, and a compressed array
//! is decoded to exactly the size its header claims, after a check that its compressed bytes could hold that.
//! Plain and stored arrays are read without verifying a checksum, which would mean reading them whole.
//!
//! # Relation to the other crates
//!
//! Nothing of npcov stands left of this crate. `npcov` feeds what [`Loader::read`] returns into the engine; the command
//! line turns its flags into a [`Preprocessing`] and writes results with [`npz::NpzWriter`] and
//! [`safetensors::SafetensorsWriter`].

mod cifar;
mod dataset;
mod digest;
mod element;
mod error;
mod folder;
pub mod idx;
mod image;
mod labels;
mod layout;
mod loader;
pub mod npy;
pub mod npz;
mod npz_writer;
mod preprocess;
mod resize;
pub mod rows;
pub mod safetensors;
mod scalar;
mod source;
mod whole_file;

pub use dataset::Dataset;
pub use digest::{Digest, NotADigest};
pub use element::Element;
pub use error::{DataError, ReadError};
pub use layout::{ImageShape, Layout};
pub use loader::Loader;
pub use preprocess::Preprocessing;
pub use scalar::Scalar;
pub use source::{Source, SourceReader};
pub use whole_file::{require_place, write_whole};
