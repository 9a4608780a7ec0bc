//! The paper's experiments, and two that it does not make, on any model and data.
//!
//! Each research question is a function that gives a result: [`rq1`] whether critical decision paths
//! decide, [`rq2`] whether the abstract paths of clusters still do, [`rq3`] how criteria react to
//! errors in a suite, [`rq4`] how they go with the impartiality of outputs, [`rq5`] how long they
//! take; [`rq6`] whether clusters find kinds that nobody labelled, [`rq7`] whether a kind that is
//! missing from a suite is named. [`Paper`] holds the published numbers, which stand beside ours where the network is one of
//! the paper's.
//!
//! ```
//! use npcov::data::{Loader, Preprocessing, open};
//! use npcov::run::{Network, ModelOptions};
//! use npcov_lab::{Rq1Settings, TrainingAndTest, WorkFolder, rq1};
//!
//! # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
//! # let (model, data) = (format!("{fixtures}/lenet.onnx"), format!("{fixtures}/fashion-1000.npz"));
//! # let folder = std::env::temp_dir().join(format!("npcov-lab-rq1-{}", std::process::id()));
//! let network = Network::open(model, &ModelOptions::default())?;
//! let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
//! let loader = Loader::new(open(&data)?, network.sample_shape(), &scale)?;
//!
//! let settings = Rq1Settings {
//!     sample: Some(50),
//!     alphas: vec![0.8],
//!     per_class: 5,
//!     ..Rq1Settings::default()
//! };
//! let data = TrainingAndTest { training: &loader, test: &loader };
//! let work = WorkFolder::open(&folder, &"lenet, 50 inputs")?;
//! let found = rq1(&network, data, &settings, &work, 2, &mut ())?;
//! let point = &found.points[0];
//! assert!(point.path.inc_c > point.random.inc_c);
//! assert!(point.similarity.intra > point.similarity.inter);
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Long work goes on where it was cut off: finished parts are kept in a [`WorkFolder`]. Every random
//! draw comes from one seed, and results do not depend on the number of threads. The crate stands on
//! the verbs of `npcov`; what is shown to people is made by `npcov-report`.

mod agreement;
mod error;
mod folder;
mod inputs;
mod kinds;
mod published;
mod random;
mod rq1;
mod rq2;
mod rq3;
mod rq4;
mod rq5;
mod rq6;
mod rq7;
mod similarity;
mod statistics;
mod suites;

pub use agreement::{adjusted_rand, purity};
pub use error::LabError;
pub use folder::WorkFolder;
pub use inputs::TrainingAndTest;
pub use kinds::OfKinds;
pub use published::{Masking, Paper, Published, RQ4_CRITERIA, RQ5_CRITERIA};
pub use rq1::{Bands, Rq1, Rq1Bands, Rq1Point, Rq1Settings, Rq1Shift, rq1};
pub use rq2::{Rq2, Rq2Classes, Rq2Point, Rq2Settings, Rq2Similarity, ShownClass, rq2};
pub use rq3::{Family, Rq3, Rq3Curve, Rq3Family, Rq3Settings, rq3};
pub use rq4::{
    AttackKind, Configuration, Rq4, Rq4Correlation, Rq4Settings, Rq4Size, Rq4Suite, rq4,
};
pub use rq5::{Rq5, Rq5Row, Rq5Settings, rq5};
pub use rq6::{Clustered, Rq6, Rq6Class, Rq6Row, Rq6Settings, rq6};
pub use rq7::{Rq7, Rq7Cluster, Rq7Missing, Rq7Settings, rq7};
pub use similarity::Similarities;
pub use statistics::{Correlation, impartiality, normalised, pearson, spearman, spearman_interval};
