//! Data as arguments name it.

use std::sync::Arc;

use npcov::data::Samples;
use npcov::{Inputs, Model};

use crate::printer::Printer;

/// Opens data.
pub(crate) fn open(spec: &str) -> Result<Arc<dyn Samples>, npcov::Error> {
    Ok(npcov::data::open(spec)?)
}

/// The first inputs of data, up to a limit.
pub(crate) fn first(samples: &Arc<dyn Samples>, limit: Option<usize>) -> Inputs<'static> {
    let count = limit.map_or(samples.len(), |n| n.min(samples.len()));
    Inputs::new(samples.clone()).rows(0..count)
}

/// Says what is probably not meant about data for a model.
pub(crate) fn warn(
    model: &Model,
    samples: &Arc<dyn Samples>,
    printer: &Printer,
) -> Result<(), npcov::Error> {
    for warning in model.loader(samples.clone())?.warnings() {
        printer.warning(warning);
    }
    Ok(())
}
