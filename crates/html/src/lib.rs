//! What npcov found, as pages for people: static, without requests, from disk.
//!
//! [`gather`] puts together a [`Dossier`] from a coverage state and, where they are there, its decision graph and data;
//! the model is run on the few inputs that are shown. [`write_folder`] makes pages of it, [`write_file`] a single one.
//! Every number on them is in the dossier, which is written beside them as `report.json`.

mod dossier;
mod error;
#[cfg(test)]
mod example;
mod map;
mod markup;
mod output;
mod pages;
mod raster;
mod sight;

pub use dossier::*;
pub use error::HtmlError;
pub use output::{write_file, write_folder};
pub use sight::Names;
