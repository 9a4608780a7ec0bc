//! `npcov select`.

use std::path::Path;

use npcov::data::Preprocessing;
use npcov::{Ruler, SelectSettings};

use crate::args::{Format, MeasuringArgs, SelectArgs};
use crate::config::Config;
use crate::output::refuse_overwriting;
use crate::printer::Printer;
use crate::progress::Progress;

/// Selects inputs of a pool, writes them, and prints which they are.
pub(crate) fn run(args: &SelectArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    refuse_overwriting(
        "--output",
        &args.output,
        &[&args.graph, Path::new(&args.data)],
    )?;
    let mut ruler = ruler(&args.graph, &args.measuring, config)?;
    let pool = ruler.loader(&args.data)?;
    let inputs = args.limit.map_or(pool.len(), |n| n.min(pool.len()));
    let settings = SelectSettings {
        strategy: args.by.clone(),
        count: args.count,
        seed: args.seed,
    };
    let mut progress = Progress::new(inputs);
    let selection = npcov::select(
        &mut ruler,
        &pool,
        0..inputs,
        &settings,
        &args.output,
        config.threads(args.measuring.threads),
        &mut |event| progress.on(event, printer),
    )?;
    drop(progress);
    printer.data(&match args.measuring.format {
        Format::Text => npcov_report::selection(&selection),
        Format::Json => npcov_report::json(&selection),
    })
}

/// A decision graph that measures as the arguments say.
pub(crate) fn ruler(graph: &Path, args: &MeasuringArgs, config: &Config) -> anyhow::Result<Ruler> {
    let mut ruler = Ruler::open(graph, args.model.as_deref())?;
    // What is said here must be what the graph was learnt with.
    let given = config.preprocessing(&args.preprocessing);
    if given != Preprocessing::default() {
        ruler.require_preprocessing(&given)?;
    }
    let mut choices = ruler.choices().clone();
    args.choices.apply(&mut choices);
    ruler.measure_with(choices)?;
    Ok(ruler)
}
