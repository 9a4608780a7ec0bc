//! Parts of work that several processes share, in words.

use npcov::artefact::FinishedPart;
use npcov::coverage::ClusteredPart;
use npcov::masking::TunedPart;

use crate::number::count;
use crate::table::{Align, Table};

/// The inputs of a part.
pub(crate) fn rows(start: usize, end: usize) -> String {
    match end - start {
        0 => "none: there are more parts than shards of inputs".to_owned(),
        inputs => {
            let (first, last) = (count(start), count(end - 1));
            format!("{}, {first} to {last}", count(inputs))
        }
    }
}

/// A part that was done, for people to read.
pub fn finished_part(done: &FinishedPart) -> String {
    let mut facts = Table::new([Align::Left, Align::Left]);
    facts.row(["inputs", &rows(done.start, done.end)]);
    format!("part {} in {}\n{}", done.part, done.folder, facts.lines())
}

/// Classes that were clustered, for people to read.
pub fn clustered_part(done: &ClusteredPart) -> String {
    let mut facts = Table::new([Align::Left, Align::Left]);
    let classes = match done.end - done.start {
        0 => "none: there are more parts than classes".to_owned(),
        classes => format!("{}, {} to {}", count(classes), done.start, done.end - 1),
    };
    facts.row(["classes", &classes]);
    format!("part {} in {}\n{}", done.part, done.folder, facts.lines())
}

/// A part of a search for parameters, for people to read.
pub fn tuned_part(done: &TunedPart) -> String {
    let mut facts = Table::new([Align::Left, Align::Left]);
    facts.row(["inputs", &rows(done.start, done.end)]);
    let next = match done.step {
        1 => "1 of 2; once more when all parts are done",
        _ => "2 of 2; `--join` when all parts are done",
    };
    facts.row(["step", next]);
    format!("part {} in {}\n{}", done.part, done.folder, facts.lines())
}
