//! Datasets
mod element;
mod error;
pub mod npy;
pub mod rows;
mod source;
pub use element::Element;
pub use error::{DataError, ReadError};
pub use source::Source;
