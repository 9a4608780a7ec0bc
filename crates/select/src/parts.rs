//! A pool that several processes measure together.
//!
//! Measuring is nearly all of the work, and inputs do not depend on each other; their order does. So each
//! process measures a part of the shards, and one of them, or another one, puts all inputs in order.

use std::path::Path;

use npcov_artefact::{FinishedPart, ShardStore};
use npcov_coverage::LearntGraph;
use npcov_run::{Part, Progress, SampleRange};

use crate::error::SelectError;
use crate::{Asked, SelectOptions, Selection};

/// Measures a part of a pool for [`select`](crate::select()) and keeps that in the folder beside `output`.
/// Several processes may do so at the same time in one folder, or each in one of its own; a part that was
/// cut off goes on where it was. With all of them in one folder, [`join_selection`] gives the selection.
///
/// Parts that were measured with another graph, of other data, or for another strategy are refused.
pub fn select_part(
    graph: &LearntGraph,
    pool: &SampleRange<'_>,
    options: &SelectOptions,
    part: Part,
    output: &Path,
    progress: &mut dyn Progress,
) -> Result<FinishedPart, SelectError> {
    let asked = Asked::new(graph, options)?;
    let measuring = asked.measuring(pool)?;
    let store = ShardStore::shared(output, &measuring.plan)?;
    measuring.extract(&store, Some(part), progress)?;
    let rows = part.rows(pool.range.clone());
    Ok(FinishedPart {
        part: part.to_string(),
        folder: store.folder_name(),
        start: rows.start,
        end: rows.end,
    })
}

/// Selects inputs of a pool all of whose [parts](select_part) were measured; these are removed when the
/// file is written, which has the bytes of one that [`select`](crate::select()) writes in one go. Parts that are
/// missing, damaged, or made for something else are named.
pub fn join_selection(
    graph: &LearntGraph,
    pool: &SampleRange<'_>,
    options: &SelectOptions,
    output: &Path,
) -> Result<Selection, SelectError> {
    let asked = Asked::new(graph, options)?;
    let measuring = asked.measuring(pool)?;
    let store = ShardStore::joining(output, &measuring.plan)?;
    measuring.require(&store)?;
    asked.choose(measuring.gather(store)?, pool, options, Some(output))
}
