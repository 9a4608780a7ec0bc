//! The verb `predict`: classes of inputs, and how often they are right.

use std::ops::Range;

use npcov_data::Loader;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::network::Network;
use crate::tracer::{Batch, Tracer};

/// A confusion matrix is kept up to this many classes; beyond, it would be most of the result and
/// nobody could read it.
const CONFUSION_CLASSES: usize = 100;

/// How the inputs of a dataset are classified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictions {
    /// The dataset, as it was named.
    pub data: String,
    /// Number of inputs.
    pub inputs: usize,
    /// How many are classified as labelled; `None` without labels.
    pub correct: Option<usize>,
    /// `correct / inputs`; `None` without labels or inputs.
    pub accuracy: Option<f64>,
    /// Every class of the model, by its number.
    pub classes: Vec<ClassResult>,
    /// `confusion[label][class]`: how many inputs with the label are classified as the class;
    /// `None` without labels, and for models with more than 100 classes.
    pub confusion: Option<Vec<Vec<usize>>>,
}

/// What was predicted of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassResult {
    /// The class's number.
    pub class: usize,
    /// The class's name, where the dataset has names.
    pub name: Option<String>,
    /// How many inputs are classified as this class.
    pub predicted: usize,
    /// How many inputs have its label; `None` without labels.
    pub labelled: Option<usize>,
    /// How many of those are classified as it; `None` without labels.
    pub correct: Option<usize>,
}

/// Classifies a range of a dataset on `threads` threads.
///
/// The tracer is one of the network's own: [`Network::logits_tracer`] when only the classes
/// matter, [`Network::tracer`] when `on_batch` wants activations as well. `on_batch` gets every
/// batch in the order of the dataset, and the classes of its inputs.
///
/// Labels are held against the network's classes before anything is computed.
pub fn predict<E: From<Error>>(
    network: &Network,
    tracer: &Tracer,
    data: &Loader,
    range: Range<usize>,
    threads: usize,
    mut on_batch: impl FnMut(&Batch, &[usize]) -> Result<(), E>,
) -> Result<Predictions, E> {
    let labels = labels(network, data, range.clone())?;
    let mut predictions = Predictions::new(network, data, range.len());
    let mut classes = Vec::new();
    tracer.run(data, range.clone(), threads, |batch| {
        classes.clear();
        let logits = batch.outputs.first().map_or(&[][..], Vec::as_slice);
        for (row, logits) in batch
            .rows
            .clone()
            .zip(logits.chunks_exact(network.logits().max(1)))
        {
            if !logits.iter().all(|z| z.is_finite()) {
                return Err(E::from(Error::NotFinite { row }));
            }
            let class = network.predict(logits);
            let label = labels
                .as_ref()
                .and_then(|l| l.get(row - range.start))
                .copied();
            predictions.count(class, label);
            classes.push(class);
        }
        on_batch(batch, &classes)
    })?;
    predictions.accuracy = match (predictions.correct, predictions.inputs) {
        (None, _) | (_, 0) => None,
        (Some(correct), inputs) => Some(correct as f64 / inputs as f64),
    };
    Ok(predictions)
}

impl Predictions {
    fn new(network: &Network, data: &Loader, inputs: usize) -> Predictions {
        let count = network.classes();
        let labelled = data.labels().map(|_| 0);
        let names = data.dataset().class_names().unwrap_or_default();
        let class = |class| ClassResult {
            class,
            name: names.get(class).cloned(),
            predicted: 0,
            labelled,
            correct: labelled,
        };
        Predictions {
            data: data.dataset().name().to_owned(),
            inputs,
            correct: labelled,
            accuracy: None,
            classes: (0..count).map(class).collect(),
            confusion: labelled
                .filter(|_| count <= CONFUSION_CLASSES)
                .map(|_| vec![vec![0; count]; count]),
        }
    }

    fn count(&mut self, class: usize, label: Option<usize>) {
        self.classes[class].predicted += 1;
        let Some(label) = label else { return };
        let hit = usize::from(class == label);
        let add = |count: &mut Option<usize>, more| *count = count.map(|n| n + more);
        add(&mut self.correct, hit);
        add(&mut self.classes[label].labelled, 1);
        add(&mut self.classes[label].correct, hit);
        if let Some(confusion) = &mut self.confusion {
            confusion[label][class] += 1;
        }
    }
}

/// The labels of a range, every one a class of the network.
fn labels(
    network: &Network,
    data: &Loader,
    range: Range<usize>,
) -> Result<Option<Vec<usize>>, Error> {
    let Some(labels) = data.labels() else {
        return Ok(None);
    };
    let classes = network.classes();
    let labels = labels.iter().enumerate().take(range.end).skip(range.start);
    let labels = labels.map(|(row, &label)| match usize::try_from(label) {
        Ok(class) if class < classes => Ok(class),
        _ => Err(Error::Label {
            data: data.dataset().name().to_owned(),
            row,
            label,
            classes,
        }),
    });
    labels.collect::<Result<_, _>>().map(Some)
}
