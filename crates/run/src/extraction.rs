//! What is extracted of inputs: always predictions, logits and activations; paths where a criterion
//! needs them.

use std::ops::Range;

use npcov_data::Loader;
use npcov_paths::BitRows;
use npcov_program::{Output, Tap, trace};

use crate::error::RunError;
use crate::explainer::Row;
use crate::network::Network;
use crate::paths::{Extras, PathExtractor, PathRows};
use crate::shards::SampleRange;
use crate::tracer::{TracedRows, Tracer, Watch};

/// A network whose inputs can be measured.
pub enum Extraction {
    /// By relevance programs.
    Paths(Box<PathExtractor>),
    /// By the network alone.
    Trace(Box<Tracer>),
}

impl Extraction {
    /// Of the network alone, with the taps of these.
    pub fn trace(network: &Network, extras: &Extras) -> Result<Extraction, RunError> {
        let program = trace(&network.view(), &extras.all_taps())?;
        let tracer = Tracer::showing(program, network, extras)?;
        Ok(Extraction::Trace(Box::new(tracer)))
    }

    /// Extracts what there is of a range of a dataset on `threads` threads, and hands it to `sink`
    /// in the order of the dataset; what is computed by the way is watched.
    pub fn run<E: From<RunError>>(
        &self,
        data: &Loader,
        range: Range<usize>,
        threads: usize,
        watch: &Watch<'_>,
        mut sink: impl FnMut(&PathRows) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Extraction::Paths(extractor) => {
                extractor.run_watched(data, range, threads, watch, sink)
            }
            Extraction::Trace(tracer) => {
                let mut traced = PathRows::default();
                tracer.run_watched(data, range, threads, watch, |batch| {
                    traced.clear(batch.rows.clone());
                    traced.paths = BitRows::zeros(0, batch.rows.len());
                    for index in batch.rows.clone() {
                        traced.push(&row(tracer, batch, index)?);
                    }
                    sink(&traced)
                })
            }
        }
    }
}

/// Inputs that are tried together before each is tried by itself.
const TRIED: usize = 64;

/// The inputs of a range that nothing can be extracted of, each with why not: no more than `most`.
pub fn bad_rows(
    extraction: &Extraction,
    inputs: &SampleRange<'_>,
    most: usize,
) -> Vec<(usize, RunError)> {
    let SampleRange {
        data,
        ref range,
        threads,
    } = *inputs;
    let attempt = |rows: Range<usize>| {
        extraction.run(
            data,
            rows,
            threads,
            &Watch::NONE,
            |_| Ok::<(), RunError>(()),
        )
    };
    let mut bad = Vec::new();
    for start in range.clone().step_by(TRIED) {
        let rows = start..range.end.min(start + TRIED);
        if attempt(rows.clone()).is_err() {
            let failed = |row: usize| Some((row, attempt(row..row + 1).err()?));
            bad.extend(rows.filter_map(failed).take(most - bad.len()));
        }
        if bad.len() == most {
            break;
        }
    }
    bad
}

/// What a batch of a tracer holds of one of its inputs.
fn row<'b>(tracer: &Tracer, batch: &'b TracedRows, index: usize) -> Result<Row<'b>, RunError> {
    let place = index - batch.rows.start;
    let mut row = Row::default();
    let outputs = tracer.outputs().iter().zip(&batch.outputs);
    for ((output, values), len) in outputs.zip(tracer.output_lens()) {
        let values = values.get(place * len..(place + 1) * len).unwrap_or(&[]);
        if values.iter().any(|x| !x.is_finite()) {
            return Err(RunError::NotFinite { row: index });
        }
        match output {
            Output::Logits => row.logits = values,
            Output::Tap(tap) if *tap == Tap::activation(tap.layer) => row.activations.push(values),
            Output::Tap(_) => row.taps.push(values),
            _ => {}
        }
    }
    row.prediction = tracer.signature().predict(row.logits);
    Ok(row)
}
