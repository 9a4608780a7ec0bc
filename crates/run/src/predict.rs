//! The verb `predict`: classes of inputs, and how often they are right.

use std::ops::Range;

use npcov_data::Loader;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::network::targets_of;
use crate::signature::{Signature, widened};
use crate::task::{Numbers, Tolerance};
use crate::tracer::{TracedRows, Tracer};

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
    pub per_class: Vec<ClassResult>,
    /// `confusion[label][class]`: how many inputs with the label are classified as the class;
    /// `None` without labels, and for models with more than 100 classes.
    pub confusion: Option<Vec<Vec<usize>>>,
    /// How far numbers are from labels, for a model of numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<NumberErrors>,
}

/// How far the numbers that a model gives are from those that it should give. Of several outputs, all together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberErrors {
    /// What numbers are held against, by output.
    pub reference: Vec<f64>,
    /// The mean of what is given, by output.
    pub mean: Vec<f64>,
    /// The mean distance from the labels; `None` without labels.
    pub mean_absolute_error: Option<f64>,
    /// The square root of the mean squared distance; `None` without labels.
    pub root_mean_square_error: Option<f64>,
    /// The share of the labels' variance that is explained; `None` without labels, or where they are all the same.
    pub r2: Option<f64>,
    /// How far a number may be from its label; `None` where that is not known.
    pub tolerance: Option<Tolerance>,
    /// How many inputs are farther from their label; `None` without labels.
    pub wrong: Option<usize>,
    /// How many inputs have numbers that the data, from which bins were learnt, never gave.
    pub outside: usize,
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
/// The tracer is one of a network's own: [`logits_tracer`](crate::Network::logits_tracer) when only the classes
/// matter, [`tracer`](crate::Network::tracer) when `on_batch` wants activations as well. `on_batch` gets every
/// batch in the order of the dataset, and the classes of its inputs.
///
/// Labels are held against the network's classes before anything is computed.
pub fn predict<E: From<RunError>>(
    tracer: &Tracer,
    data: &Loader,
    range: Range<usize>,
    threads: usize,
    mut on_batch: impl FnMut(&TracedRows, &[usize]) -> Result<(), E>,
) -> Result<Predictions, E> {
    let signature = tracer.signature();
    let labels = labels(signature, data, range.clone())?;
    let mut predictions = Predictions::new(signature, data, range.len());
    let mut errors = signature
        .numbers()
        .map(|numbers| Errors::new(numbers, data))
        .transpose()?;
    let mut classes = Vec::new();
    tracer.run(data, range.clone(), threads, |batch| {
        classes.clear();
        let logits = batch.outputs.first().map_or(&[][..], Vec::as_slice);
        for (row, logits) in batch
            .rows
            .clone()
            .zip(logits.chunks_exact(signature.logits().max(1)))
        {
            if !logits.iter().all(|z| z.is_finite()) {
                return Err(E::from(RunError::NotFinite { row }));
            }
            let class = signature.predict(logits);
            let label = labels
                .as_ref()
                .and_then(|l| l.get(row - range.start))
                .copied();
            predictions.count(class, label);
            if let Some(errors) = &mut errors {
                errors.add(row, logits);
            }
            classes.push(class);
        }
        on_batch(batch, &classes)
    })?;
    predictions.numbers = errors.map(Errors::finish);
    predictions.accuracy = match (predictions.correct, predictions.inputs) {
        (None, _) | (_, 0) => None,
        (Some(correct), inputs) => Some(correct as f64 / inputs as f64),
    };
    Ok(predictions)
}

impl Predictions {
    fn new(signature: &Signature, data: &Loader, inputs: usize) -> Predictions {
        let count = signature.classes();
        let labelled = data.is_labelled().then_some(0);
        let names = data.class_names().unwrap_or_default();
        let class = |class| ClassResult {
            class,
            name: names.get(class).cloned(),
            predicted: 0,
            labelled,
            correct: labelled,
        };
        Predictions {
            data: data.name().to_owned(),
            inputs,
            correct: labelled,
            accuracy: None,
            per_class: (0..count).map(class).collect(),
            confusion: labelled
                .filter(|_| count <= CONFUSION_CLASSES)
                .map(|_| vec![vec![0; count]; count]),
            numbers: None,
        }
    }

    /// What is probably not meant, though it was found.
    pub fn warnings(&self) -> Vec<String> {
        const ENOUGH: usize = 10;
        let all = |class: &&ClassResult| {
            class.predicted == self.inputs && class.correct != Some(self.inputs)
        };
        let class = self.per_class.iter().find(all);
        let class = class.filter(|_| self.inputs >= ENOUGH && self.per_class.len() > 1);
        let warning = class.map(|class| {
            format!(
                "all {} inputs are predicted as class {}: is their scale or layout what the model was \
                 trained on?",
                self.inputs,
                match &class.name {
                    Some(name) => format!("{} ({name})", class.class),
                    None => class.class.to_string(),
                }
            )
        });
        warning.into_iter().collect()
    }

    fn count(&mut self, class: usize, label: Option<usize>) {
        self.per_class[class].predicted += 1;
        let Some(label) = label else { return };
        let hit = usize::from(class == label);
        let add = |count: &mut Option<usize>, more| *count = count.map(|n| n + more);
        add(&mut self.correct, hit);
        add(&mut self.per_class[label].labelled, 1);
        add(&mut self.per_class[label].correct, hit);
        if let Some(confusion) = &mut self.confusion {
            confusion[label][class] += 1;
        }
    }
}

/// What is summed up of numbers and labels.
struct Errors<'a> {
    numbers: &'a Numbers,
    /// What should be given, samples one after the other.
    targets: Option<Vec<f64>>,
    count: usize,
    sums: Vec<f64>,
    absolute: f64,
    squared: f64,
    /// Sums of labels and of their squares.
    label: f64,
    label_squared: f64,
    wrong: usize,
    outside: usize,
}

impl<'a> Errors<'a> {
    fn new(numbers: &'a Numbers, data: &Loader) -> Result<Errors<'a>, RunError> {
        let outputs = numbers.reference.len();
        Ok(Errors {
            numbers,
            // Labels of a loader are bins; the samples' own numbers are behind it.
            targets: match data.targets() {
                Some(_) => targets_of(&**data.samples(), outputs, numbers.output)?,
                None => None,
            },
            count: 0,
            sums: vec![0.0; outputs],
            absolute: 0.0,
            squared: 0.0,
            label: 0.0,
            label_squared: 0.0,
            wrong: 0,
            outside: 0,
        })
    }

    fn add(&mut self, row: usize, found: &[f32]) {
        let found = widened(found);
        let outputs = self.sums.len();
        self.count += 1;
        self.sums
            .iter_mut()
            .zip(&found)
            .for_each(|(sum, x)| *sum += x);
        self.outside += usize::from(self.numbers.is_outside(&found));
        let targets = self.targets.as_deref();
        let Some(target) = targets.and_then(|all| all.get(row * outputs..(row + 1) * outputs))
        else {
            return;
        };
        let looked_at = match self.numbers.output {
            Some(output) => output..output + 1,
            None => 0..outputs,
        };
        for output in looked_at {
            let (x, y) = (found[output], target[output]);
            self.absolute += (x - y).abs();
            self.squared += (x - y) * (x - y);
            self.label += y;
            self.label_squared += y * y;
        }
        self.wrong += usize::from(self.numbers.is_wrong(&found, target) == Some(true));
    }

    fn finish(self) -> NumberErrors {
        let outputs = match self.numbers.output {
            Some(_) => 1,
            None => self.sums.len(),
        };
        let labelled = self.targets.is_some() && self.count > 0;
        let count = (self.count * outputs).max(1) as f64;
        let variance = self.label_squared - self.label * self.label / count;
        let with_labels = |number: f64| labelled.then_some(number);
        NumberErrors {
            reference: self.numbers.reference.clone(),
            mean: self
                .sums
                .iter()
                .map(|sum| sum / self.count.max(1) as f64)
                .collect(),
            mean_absolute_error: with_labels(self.absolute / count),
            root_mean_square_error: with_labels((self.squared / count).sqrt()),
            r2: with_labels(1.0 - self.squared / variance).filter(|r2| r2.is_finite()),
            tolerance: self.numbers.tolerance.clone(),
            wrong: (labelled && self.numbers.tolerance.is_some()).then_some(self.wrong),
            outside: self.outside,
        }
    }
}

/// The labels of a range, every one a class of the network.
pub fn labels(
    signature: &Signature,
    data: &Loader,
    range: Range<usize>,
) -> Result<Option<Vec<usize>>, RunError> {
    if !data.is_labelled() {
        return Ok(None);
    }
    let classes = signature.classes();
    let labels = range.filter_map(|row| Some((row, data.label(row)?)));
    let labels = labels.map(|(row, label)| match usize::try_from(label) {
        Ok(class) if class < classes => Ok(class),
        _ => Err(RunError::Label {
            data: data.name().to_owned(),
            row,
            label,
            classes,
        }),
    });
    labels.collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{ModelOptions, Network};
    use npcov_data::Preprocessing;
    use npcov_data::npz::{Compression, NpzWriter};
    use npcov_graph::op::Unary;
    use npcov_graph::{DType, Graph, OnnxModel, Op, TensorType};

    /// `ln(relu(x))`: the class is the position of the largest number; -inf where one is negative.
    fn network(classes: usize) -> Network {
        let mut graph = Graph::new();
        let mut x = graph.add_input("x", TensorType::new(DType::F32, [1, classes]));
        for f in [Unary::Relu, Unary::Log] {
            x = graph.push("f", Op::Unary(f), &[x]).unwrap();
        }
        graph.set_outputs(vec![x]);
        let model = OnnxModel::from_bytes(graph.to_onnx().unwrap()).unwrap();
        Network::new(model, &ModelOptions::default()).unwrap()
    }

    fn run(
        classes: usize,
        x: &[f32],
        y: &[i64],
        range: Range<usize>,
    ) -> Result<Predictions, RunError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.npz");
        let mut writer = NpzWriter::create(&path, Compression::Stored)?;
        let samples = writer.array::<f32>("x", &[classes])?;
        writer.append(&samples, x)?;
        if !y.is_empty() {
            let labels = writer.array::<i64>("y", &[])?;
            writer.append(&labels, y)?;
        }
        writer.finish()?;
        let dataset = npcov_data::open(path.to_str().unwrap())?;
        let loader = Loader::new(dataset, &[classes], &Preprocessing::default())?;
        let network = network(classes);
        let tracer = network.logits_tracer()?;
        assert_eq!(tracer.outputs().len(), 1);
        let mut rows = 0;
        let result = predict(&tracer, &loader, range, 2, |batch, classes| {
            assert_eq!(batch.rows.len(), classes.len());
            rows += classes.len();
            Ok::<(), RunError>(())
        })?;
        assert_eq!(rows, result.inputs);
        Ok(result)
    }

    #[test]
    fn right_and_wrong_ones_are_counted_within_the_range() {
        let x = [[2.0, 1.0], [1.0, 2.0], [3.0, 1.0], [1.0, 3.0]].concat();
        let result = run(2, &x, &[1, 1, 1, 1], 1..4).unwrap();
        assert_eq!((result.inputs, result.correct), (3, Some(2)));
        assert_eq!(result.accuracy, Some(2.0 / 3.0));
        assert_eq!(result.confusion, Some(vec![vec![0, 0], vec![1, 2]]));
        let [zero, one] = &result.per_class[..] else {
            panic!("two classes")
        };
        assert_eq!(
            (zero.predicted, zero.labelled, zero.correct),
            (1, Some(0), Some(0))
        );
        assert_eq!(
            (one.predicted, one.labelled, one.correct),
            (2, Some(3), Some(2))
        );
    }

    #[test]
    fn without_labels_only_predictions_are_counted() {
        let result = run(2, &[2.0, 1.0, 1.0, 2.0, 1.0, 2.0], &[], 0..3).unwrap();
        assert_eq!(
            (result.correct, result.accuracy, result.confusion),
            (None, None, None)
        );
        let predicted: Vec<usize> = result.per_class.iter().map(|c| c.predicted).collect();
        assert_eq!(predicted, [1, 2]);
    }

    #[test]
    fn a_confusion_matrix_of_many_classes_is_not_kept() {
        let result = run(101, &[1.0; 101], &[3], 0..1).unwrap();
        assert_eq!((result.confusion, result.per_class.len()), (None, 101));
    }

    #[test]
    fn an_empty_range_has_no_accuracy() {
        let result = run(2, &[1.0, 2.0], &[0], 0..0).unwrap();
        assert_eq!((result.correct, result.accuracy), (Some(0), None));
    }

    #[test]
    fn labels_and_logits_that_cannot_be_name_their_row() {
        let error = run(2, &[1.0; 6], &[0, 1, 2], 0..3).unwrap_err();
        assert!(
            matches!(
                error,
                RunError::Label {
                    row: 2,
                    label: 2,
                    classes: 2,
                    ..
                }
            ),
            "{error}"
        );
        // Forty inputs are several batches.
        let mut x = vec![1.0; 80];
        x[70] = -1.0;
        let error = run(2, &x, &[], 0..40).unwrap_err();
        assert!(matches!(error, RunError::NotFinite { row: 35 }), "{error}");
    }
}
