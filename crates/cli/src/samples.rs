//! Data as arguments name it.

use std::ffi::OsStr;
use std::sync::Arc;

use npcov::Inputs;
use npcov::data::Samples;
use npcov::program::Preset;
use npcov::run::{Method, Network};

use crate::printer::Printer;

/// Opens data.
pub(crate) fn open(spec: impl AsRef<OsStr>) -> Result<Arc<dyn Samples>, npcov::Error> {
    Ok(npcov::data::open(spec)?)
}

/// The first inputs of data, up to a limit.
pub(crate) fn first(samples: &Arc<dyn Samples>, limit: Option<usize>) -> Inputs<'static> {
    let count = limit.map_or(samples.len(), |n| n.min(samples.len()));
    Inputs::new(samples.clone()).rows(0..count)
}

/// Says what is probably not meant.
pub(crate) fn warn(warnings: &[String], printer: &Printer) {
    for warning in warnings {
        printer.warning(warning);
    }
}

/// Says that a model is explained by other rules than most.
pub(crate) fn say_preset(method: &Method, network: &Network, printer: &Printer) {
    if method.preset_by_graph(network.graph()) == Some(Preset::Transformer) {
        printer.note("the model has attention: relevance by the preset `transformer`");
    }
}
