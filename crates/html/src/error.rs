//! Why a report cannot be made.

use std::io;
use std::path::PathBuf;

use npcov::artefact::ArtefactError;
use npcov::coverage::CoverageError;
use npcov::criteria::NamedCriterionError;
use npcov::data::DataError;
use npcov::run::RunError;

/// Why a report cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HtmlError {
    /// What it shows cannot be read or computed.
    #[error(transparent)]
    Found(#[from] npcov::Error),
    /// A page cannot be written.
    #[error("cannot write `{}`", file.display())]
    Write {
        /// The page.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is a folder of that name with other files in it.
    #[error("`{}` holds other files than a report", .0.display())]
    Occupied(PathBuf),
}

macro_rules! from_parts {
    ($($part:ty),*) => {$(
        impl From<$part> for HtmlError {
            fn from(error: $part) -> HtmlError {
                HtmlError::Found(error.into())
            }
        }
    )*};
}

from_parts!(RunError, CoverageError, ArtefactError, DataError);

impl From<NamedCriterionError> for HtmlError {
    fn from(error: NamedCriterionError) -> HtmlError {
        ArtefactError::from(error).into()
    }
}
