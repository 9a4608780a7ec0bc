//! Results of npcov as text for people and JSON for programs.
//!
//! Results are types of the crate `npcov`; here they are only written down. Text may change with
//! any version. JSON is a [`Document`]: it says which [format](FORMAT) it is in, and reads back
//! into the same type.
//!
//! ```
//! use npcov::run::{ClassResult, Predictions};
//! use npcov_report::{Document, json, predictions};
//!
//! let class = |class, predicted| ClassResult { class, predicted, ..ClassResult::default() };
//! let result = Predictions {
//!     data: "images.npz".to_owned(),
//!     inputs: 3,
//!     correct: None,
//!     accuracy: None,
//!     per_class: vec![class(0, 2), class(1, 1)],
//!     confusion: None,
//!     numbers: None,
//! };
//! assert!(predictions(&result).contains("66.67%"));
//!
//! let text = json(&result);
//! let read: Document<Predictions> = serde_json::from_str(&text)?;
//! assert_eq!((read.npcov.format, read.result), (1, result));
//! # Ok::<(), serde_json::Error>(())
//! ```

mod attack;
mod check;
mod compilation;
mod coverage;
mod decision_graph;
mod difference;
#[cfg(test)]
mod example;
mod explanation;
mod gaps;
mod heatmap;
mod image_grid;
mod inspection;
mod json;
mod junit;
mod lab;
mod lettering;
mod markdown;
mod mutation;
pub mod number;
mod parts;
mod paths_files;
mod picture;
mod plot;
mod predictions;
mod report;
mod selection;
mod table;
mod thin;
mod tuning;
mod visible;

pub use attack::attack;
pub use check::{check, line as finding};
pub use compilation::compilation;
pub use coverage::{
    coverage, headlines, label as criterion_label, main_criteria, source as yardstick_source,
};
pub use decision_graph::{built_part, decision_graph};
pub use difference::notes;
pub use explanation::{explanation, explanations};
pub use gaps::{GapImages, gap_sheet, gaps};
pub use heatmap::Heatmap;
pub use image_grid::ImageGrid;
pub use inspection::inspection;
pub use json::{Document, FORMAT, ResultHeader, json};
pub use junit::{junit, linked_junit};
pub use lab::{
    cluster_grid, rq1, rq1_plot, rq2, rq2_plot, rq2_settings, rq3, rq3_plot, rq4, rq4_plot, rq5,
    rq5_plot, rq6, rq6_plot, rq7, rq7_plot,
};
pub use markdown::{linked_markdown, markdown};
pub use mutation::mutation;
pub use parts::{clustered_part, finished_part, tuned_part};
pub use paths_files::{
    Activations, MANIFEST, PathsFile, PathsFiles, PathsFilesError, paths_files, write_paths,
};
pub use picture::{PictureError, image_colours};
pub use predictions::predictions;
pub use report::report;
pub use selection::{minimization, selection};
pub use thin::gap;
pub use tuning::tuning;
pub use visible::visible;
