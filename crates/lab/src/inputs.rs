//! Inputs of a dataset, by what they are taken for.

use npcov::data::Loader;
use npcov::run::{MaskedNetwork, Network, RunError};

use crate::error::LabError;
use crate::random::{Purpose, shuffle};

/// What a network was trained with, and what it is tested with.
#[derive(Clone, Copy)]
pub struct TrainingAndTest<T> {
    /// Training data.
    pub training: T,
    /// Test data.
    pub test: T,
}

/// The labels of a dataset, every one a class of the network.
pub(crate) fn labels<'d>(network: &Network, data: &'d Loader<'d>) -> Result<&'d [i64], LabError> {
    let name = || data.name().to_owned();
    let labels = data.labels().ok_or_else(|| LabError::NoLabels(name()))?;
    let classes = network.classes();
    let wrong = |&label: &i64| usize::try_from(label).map_or(true, |class| class >= classes);
    match labels.iter().position(wrong) {
        None => Ok(labels),
        Some(row) => Err(RunError::Label {
            data: name(),
            row,
            label: labels[row],
            classes,
        }
        .into()),
    }
}

/// What every input of a dataset is taken for.
pub(crate) fn predictions(
    network: &Network,
    data: &Loader,
    threads: usize,
) -> Result<Vec<u32>, LabError> {
    let tracer = network.logits_tracer()?;
    let mut classes = Vec::with_capacity(data.len());
    tracer.run(data, 0..data.len(), threads, |batch| {
        let logits = batch.outputs.first().map_or(&[][..], Vec::as_slice);
        for (row, logits) in batch
            .rows
            .clone()
            .zip(logits.chunks_exact(network.signature().logits().max(1)))
        {
            if !logits.iter().all(|z| z.is_finite()) {
                return Err(RunError::NotFinite { row });
            }
            classes.push(network.signature().predict(logits) as u32);
        }
        Ok(())
    })?;
    Ok(classes)
}

/// Rows that are classified as labelled, up to `each` of every class, in a random order of the
/// dataset. Ends as soon as there are enough.
pub(crate) fn correct_of_each_class(
    network: &Network,
    data: &Loader,
    each: usize,
    seed: u64,
    threads: usize,
) -> Result<Vec<usize>, LabError> {
    let labels = labels(network, data)?;
    let masked = MaskedNetwork::new(network)?;
    let mut order: Vec<usize> = (0..data.len()).collect();
    shuffle(&mut order, seed, Purpose::Similarity, 0);
    let mut found = vec![Vec::new(); network.classes()];
    for rows in order.chunks(1000) {
        let open = |row: &&usize| found[labels[**row] as usize].len() < each;
        let rows: Vec<usize> = rows.iter().filter(open).copied().collect();
        let classes = masked.predict(data, &rows, &|_, _| {}, threads, &mut ())?;
        for (&row, class) in rows.iter().zip(classes) {
            let of_class = &mut found[class as usize];
            if labels[row] == i64::from(class) && of_class.len() < each {
                of_class.push(row);
            }
        }
        if found.iter().all(|rows| rows.len() == each) {
            break;
        }
    }
    let mut rows = found.concat();
    rows.sort_unstable();
    Ok(rows)
}
