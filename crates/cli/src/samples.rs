//! Data as arguments name it.

use std::ffi::OsStr;
use std::sync::Arc;

use npcov::data::Samples;
use npcov::program::Preset;
use npcov::run::{Method, Network};
use npcov::{Inputs, Model};

use crate::args::LimitArgs;
use crate::printer::Printer;

/// Opens data.
pub(crate) fn open(spec: impl AsRef<OsStr>) -> Result<Arc<dyn Samples>, npcov::Error> {
    Ok(npcov::data::open(spec)?)
}

/// The model for what its outputs mean, which data may have to tell: that is said.
pub(crate) fn resolve<'a>(
    model: Model,
    inputs: impl Into<Inputs<'a>>,
    printer: &Printer,
) -> Result<Model, npcov::Error> {
    let (model, notes) = model.for_data(inputs)?;
    notes.iter().for_each(|note| printer.note(note));
    Ok(model)
}

/// The first inputs of data, up to a limit.
pub(crate) fn first(samples: &Arc<dyn Samples>, limit: LimitArgs) -> Inputs<'static> {
    Inputs::new(samples.clone()).rows(limit.range(samples.len()))
}

/// Says what is probably not meant.
pub(crate) fn warn(warnings: &[String], printer: &Printer) {
    for warning in warnings {
        printer.warning(warning);
    }
}

/// Says that a model is explained by other rules than most.
pub(crate) fn say_preset(method: &Method, network: &Network, printer: &Printer) {
    if let Some(note) = preset_note(method, network) {
        printer.note(&note);
    }
}

/// What is to be said where a model is explained by other rules than most.
pub(crate) fn preset_note(method: &Method, network: &Network) -> Option<String> {
    let is_other = method.preset_by_graph(network.graph()) == Some(Preset::Transformer);
    is_other.then(|| "the model has attention: relevance by the preset `transformer`".to_owned())
}
