//! The safetensors format: named tensors behind a JSON header, as machine-learning programs exchange weights.
//!
//! A file is the length of the header (8 bytes, little-endian), the header, and the numbers of all tensors. The header
//! gives element type, shape and byte range of each tensor; the ranges cover the rest of the file without gaps. Tensors
//! here may be larger than memory: [`SafetensorsWriter`] takes them piece by piece, [`SafetensorsReader`] reads the rows
//! that are asked for, from as many threads as ask. What is written here is sealed: it holds checksums, and what was
//! damaged or edited is an error when it is read. Files of other programs have no seal, and are read as they are.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("out.safetensors");
//! let tensors = [TensorSpec::of::<f32>("centroid", &[2, 3]), TensorSpec::of::<u64>("count", &[2])];
//! let mut writer = SafetensorsWriter::create(&path, r#"{"classes":2}"#, &tensors)?;
//! for cluster in 0..2u64 {
//!     writer.append("centroid", &[cluster as f32; 3])?;
//!     writer.append("count", &[10 + cluster])?;
//! }
//! writer.finish()?;
//!
//! let reader = SafetensorsReader::open(&path)?;
//! assert_eq!(reader.metadata(), Some(r#"{"classes":2}"#));
//! assert_eq!(reader.read::<u64>("count")?, [10, 11]);
//! let mut row = [0f32; 3];
//! reader.read_row_into("centroid", 1, &mut row)?;
//! assert_eq!(row, [1.0; 3]);
//! # Ok(())
//! # }
//! ```

mod header;
mod reader;
mod seal;
mod writer;

pub use crate::scalar::Scalar;
pub use header::TensorSpec;
pub use reader::SafetensorsReader;
pub use writer::SafetensorsWriter;
