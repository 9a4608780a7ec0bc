//! `npcov export`.

use std::path::Path;

use npcov::artefact::GraphFile;
use npcov_report::{Activations, PathsFiles};

use crate::args::{ExportArgs, ExportedActivations, Format};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;

/// Writes the training inputs of a graph as Parquet files, and prints which.
pub(crate) fn run(args: &ExportArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let mut outputs = Outputs::new(config, [("--output", None)])?;
    outputs.add_folder("--output", &args.output)?;
    outputs.spare(&args.graph)?;
    let graph = GraphFile::open(&args.graph).map_err(npcov::Error::from)?;
    let written = write(&graph, args, &args.output)?;
    printer.data(&match args.print.format {
        Format::Text => npcov_report::paths_files(&written),
        Format::Json => npcov_report::json(&written),
    })
}

/// Writes the files into a folder.
pub(crate) fn write(
    graph: &GraphFile,
    args: &ExportArgs,
    folder: &Path,
) -> anyhow::Result<PathsFiles> {
    let activations = match args.activations {
        ExportedActivations::F32 => Activations::F32,
        ExportedActivations::F16 => Activations::F16,
        ExportedActivations::None => Activations::None,
    };
    let written = npcov_report::write_paths(graph, folder, activations, args.rows.get())?;
    Ok(written)
}
