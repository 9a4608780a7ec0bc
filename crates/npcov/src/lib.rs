//! Coverage for neural networks: the library behind the command `npcov`.

mod compile;
mod error;
mod explain;
mod inspect;
mod model;
mod trace_file;

pub use compile::{Compilation, ProgramKind, compile};
pub use error::Error;
pub use explain::{
    ClassLogit, Explained, Explanation, Explanations, LayerRelevance, LayerSummary, NeuronCount,
    NeuronRelevance, Spread, explain_all, explain_one,
};
pub use inspect::{
    Batching, EndingKind, Extent, Inspection, LayerInfo, Port, Unsupported, inspect,
};
pub use model::{open_graph, open_network, read_model};
pub use trace_file::TraceFile;

pub use npcov_artefact as artefact;
pub use npcov_attack as attack;
pub use npcov_coverage as coverage;
pub use npcov_criteria as criteria;
pub use npcov_data as data;
pub use npcov_engine as engine;
pub use npcov_graph as graph;
pub use npcov_masking as masking;
pub use npcov_paths as paths;
pub use npcov_program as program;
pub use npcov_run as run;
pub use npcov_select as select;
