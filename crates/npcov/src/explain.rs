//! The verb `explain`: which neurons decided.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use npcov_coverage::PathExplanation;
use npcov_data::Loader;
use npcov_program::PathLayer;
use npcov_run::{Explainer, MethodInfo, RunError, TracedRows};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Why an input is classified as it is: the relevance of each neuron for one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The dataset, as it was named.
    pub data: String,
    /// The input's position in it.
    pub index: usize,
    /// What the input is called, where it has a name: a file of an image folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// The input's label; `None` without labels.
    pub label: Option<i64>,
    /// The name of the class that it is labelled as, where classes have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_name: Option<String>,
    /// The class that is predicted.
    pub prediction: ClassLogit,
    /// The class that is explained.
    pub explained: ClassLogit,
    /// The relevance that is shared out: the logit, or 1 when that is not positive. For gradients
    /// the logit, always.
    pub seed: f32,
    /// Whether the seed is 1 because the logit is not positive.
    pub seed_is_one: bool,
    /// How relevances are computed.
    pub method: MethodInfo,
    /// The path layers, from input to output.
    pub layers: Vec<LayerRelevance>,
    /// The sum of the relevance of all inputs of floats; `None` when that is not computed.
    pub input_sum: Option<f64>,
    /// The relevance that is lost at states before the first step of recurrent layers that are constants other
    /// than zero, by layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostRelevance>,
    /// The relevance of each token, from the first to the last; `None` when the input holds no tokens,
    /// or its relevance is not computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Vec<TokenRelevance>>,
    /// By input of floats, where the model has several inputs: its relevance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputRelevance>,
    /// The columns of a table, the most relevant first, where the input is made of columns. Without path layers, the
    /// most relevant numbers of the input by their positions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnRelevance>,
    /// What the model gives, where it gives numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<ExplainedNumber>,
    /// The file with the heat map; `None` when there is none.
    pub heatmap: Option<String>,
    /// The critical decision path; `None` when it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathExplanation>,
}

/// The relevance that arrives at a constant state before the first step of a recurrent layer, and is nobody's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LostRelevance {
    /// The layer's name in the model.
    pub name: String,
    /// The sum of the state's relevance.
    pub sum: f64,
}

/// The share of relevance that is lost so, over many inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LostSummary {
    /// The layer's name in the model.
    pub name: String,
    /// The sum of the state's relevance divided by the seed; `None` without inputs.
    pub lost: Option<Spread>,
}

/// The relevance of one of several inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputRelevance {
    /// The input's name in the model.
    pub name: String,
    /// The sum of its relevance.
    pub sum: f64,
}

/// The relevance of a column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ColumnRelevance {
    /// The column's name.
    pub name: String,
    /// What the input has there, as it is stored.
    pub value: f32,
    /// Its relevance.
    pub relevance: f32,
    /// `relevance` as a share of the seed's size; `None` when that is zero.
    pub share: Option<f64>,
}

/// A number that is explained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExplainedNumber {
    /// The output.
    pub output: usize,
    /// What the model gives.
    pub value: f64,
    /// What it should give; `None` without labels.
    pub label: Option<f64>,
    /// What it is held against.
    pub reference: f64,
    /// Whether what raises it is explained; else what lowers it.
    pub up: bool,
}

/// A class and its logit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassLogit {
    /// The class's number.
    pub class: usize,
    /// The class's name, where the dataset has names.
    pub name: Option<String>,
    /// Its logit. Where a single logit tells two classes apart, that of the first is its negative.
    pub logit: f32,
}

/// The relevances of a layer for one input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerRelevance {
    /// Position among the path layers.
    pub index: usize,
    /// The node's name in the model.
    pub name: String,
    /// Number of neurons.
    pub neurons: usize,
    /// Whether every path from input to logits crosses this layer: then its relevances add up to
    /// the seed, less what rules and biases take.
    pub cut: bool,
    /// The sum of its relevances.
    pub sum: f64,
    /// The neurons with the largest relevances, largest first.
    pub top: Vec<NeuronRelevance>,
}

/// The relevance of a neuron.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeuronRelevance {
    /// The neuron's position in its layer.
    pub neuron: usize,
    /// Its relevance: positive where it supports the class.
    pub relevance: f32,
    /// `relevance` as a share of the seed's size; `None` when that is zero.
    pub share: Option<f64>,
}

/// The relevance of a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenRelevance {
    /// The token's position in the input.
    pub position: usize,
    /// Its number.
    pub id: usize,
    /// What it is called, where there is a vocabulary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
    /// Its relevance: positive where it supports the class.
    pub relevance: f32,
    /// `relevance` as a share of the seed's size; `None` when that is zero.
    pub share: Option<f64>,
}

impl Explanation {
    /// Calls tokens by the words of a vocabulary, the first of which is that of token 0.
    pub fn name_tokens(&mut self, vocabulary: &[String]) {
        for token in self.tokens.iter_mut().flatten() {
            token.word = vocabulary.get(token.id).cloned();
        }
    }
}

/// What the explanations of many inputs have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanations {
    /// The dataset, as it was named.
    pub data: String,
    /// Number of inputs.
    pub inputs: usize,
    /// The class that is explained for all inputs; `None` when it is the predicted one of each.
    pub class: Option<usize>,
    /// How many inputs have the seed 1 because their logit is not positive.
    pub seed_is_one: usize,
    /// How relevances are computed.
    pub method: MethodInfo,
    /// The path layers, from input to output.
    pub layers: Vec<LayerSummary>,
    /// What is lost at states before the first step of recurrent layers that are constants other than zero, by
    /// layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostSummary>,
}

/// The relevances of a layer over many inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerSummary {
    /// Position among the path layers.
    pub index: usize,
    /// The node's name in the model.
    pub name: String,
    /// Number of neurons.
    pub neurons: usize,
    /// Whether every path from input to logits crosses this layer.
    pub cut: bool,
    /// The sum of relevances divided by the seed, over the inputs; `None` without inputs.
    pub conserved: Option<Spread>,
    /// The neurons that have the largest relevance of their layer most often.
    pub top: Vec<NeuronCount>,
}

/// Mean and extremes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The smallest.
    pub lowest: f64,
    /// The largest.
    pub highest: f64,
}

/// How often something is true of a neuron.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeuronCount {
    /// The neuron's position in its layer.
    pub neuron: usize,
    /// Number of inputs.
    pub inputs: usize,
}

/// An explained input with all its numbers.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The explanation.
    pub explanation: Explanation,
    /// All results, for a [`TraceFile`](crate::TraceFile).
    pub batch: TracedRows,
    /// The relevance of the input's elements, when it is computed.
    pub input: Option<Vec<f32>>,
}

/// Explains one input; `top` is the number of neurons that are named in each layer.
pub fn explain_one(
    explainer: &Explainer,
    data: &Loader,
    index: usize,
    top: usize,
) -> Result<Explained, Error> {
    let name = data.name();
    if index >= data.len() {
        return Err(RunError::Index {
            data: name.to_owned(),
            index,
            inputs: data.len(),
        }
        .into());
    }
    let mut result = TracedRows::default();
    explainer
        .tracer()
        .run(data, index..index + 1, 1, |batch| -> Result<(), RunError> {
            result = batch.clone();
            Ok(())
        })?;
    let row = explainer.row(&result, index)?;
    let class_name = |class: usize| data.class_names().and_then(|n| n.get(class).cloned());
    let label = data.label(index);
    let class_logit = |class: usize| ClassLogit {
        class,
        name: class_name(class),
        logit: explainer
            .signature()
            .logit(row.logits, class)
            .unwrap_or(f32::NAN),
    };
    let layers = row
        .layers
        .iter()
        .zip(explainer.signature().layers())
        .enumerate();
    let layers = layers.map(|(i, (relevances, layer))| LayerRelevance {
        index: i,
        name: layer.name.clone(),
        neurons: layer.neurons,
        cut: layer.cut,
        sum: sum(relevances),
        top: strongest(relevances, row.seed, top),
    });
    let tokens = match (explainer.signature().tokens(), row.input(data.place())) {
        (Some(_), Some(relevances)) => {
            let mut ids = vec![0.0; relevances.len()];
            data.read(index..index + 1, &mut ids)
                .map_err(RunError::from)?;
            let token = |(position, (&relevance, &id)): (usize, (&f32, &f32))| TokenRelevance {
                position,
                // It was looked up, so it is one.
                id: id as usize,
                word: None,
                relevance,
                share: share(relevance, row.seed),
            };
            Some(relevances.iter().zip(&ids).enumerate().map(token).collect())
        }
        _ => None,
    };
    let columns = match (data.column_names(), row.input(data.place())) {
        (Some(names), Some(relevances)) => {
            let names = names.into_iter().map(str::to_owned).collect();
            columns(data, index, names, relevances, row.seed)?
        }
        // Without neurons to rank, parts of the input are, by their positions.
        (None, Some(relevances))
            if row.layers.is_empty() && tokens.is_none() && data.image().is_none() =>
        {
            let names = (0..relevances.len()).map(|i| i.to_string()).collect();
            let mut all = columns(data, index, names, relevances, row.seed)?;
            all.truncate(top);
            all
        }
        _ => Vec::new(),
    };
    let explanation = Explanation {
        data: name.to_owned(),
        index,
        sample: data.sample_name(index).map(Cow::into_owned),
        label,
        label_name: label.and_then(|label| class_name(usize::try_from(label).ok()?)),
        prediction: class_logit(row.prediction),
        explained: class_logit(row.explained),
        seed: row.seed,
        seed_is_one: row.seed_is_one,
        method: explainer.method().clone(),
        layers: layers.collect(),
        tokens,
        input_sum: (!row.inputs.is_empty()).then(|| {
            row.inputs
                .iter()
                .map(|(_, relevances)| sum(relevances))
                .sum()
        }),
        lost: explainer
            .lost_states()
            .iter()
            .zip(row.lost)
            .map(|(name, &sum)| LostRelevance {
                name: name.clone(),
                sum: f64::from(sum),
            })
            .collect(),
        inputs: match explainer.signature().inputs() {
            [_] => Vec::new(),
            several => {
                let inputs = row.inputs.iter();
                let relevance = |&(place, relevances): &(usize, &[f32])| InputRelevance {
                    name: several[place].name.clone(),
                    sum: sum(relevances),
                };
                inputs.map(relevance).collect()
            }
        },
        columns,
        number: number(explainer, data, index, row.logits),
        heatmap: None,
        path: None,
    };
    let input = row.input(data.place()).map(<[f32]>::to_vec);
    Ok(Explained {
        explanation,
        batch: result,
        input,
    })
}

/// The columns that an input is made of, the most relevant first.
fn columns(
    data: &Loader,
    index: usize,
    names: Vec<String>,
    relevances: &[f32],
    seed: f32,
) -> Result<Vec<ColumnRelevance>, Error> {
    let mut values = vec![0.0; data.sample_len()];
    data.read_stored(index..index + 1, &mut values)?;
    let share = |relevance: f32| f64::from(relevance) / f64::from(seed.abs());
    let columns = names.into_iter().zip(&values).zip(relevances);
    let mut columns: Vec<ColumnRelevance> = columns
        .map(|((name, &value), &relevance)| ColumnRelevance {
            name,
            value,
            relevance,
            share: Some(share(relevance)).filter(|share| share.is_finite()),
        })
        .collect();
    columns.sort_by(|a, b| b.relevance.abs().total_cmp(&a.relevance.abs()));
    Ok(columns)
}

/// What a model of numbers gives for an input.
fn number(
    explainer: &Explainer,
    data: &Loader,
    index: usize,
    logits: &[f32],
) -> Option<ExplainedNumber> {
    let numbers = explainer.signature().numbers()?;
    let found: Vec<f64> = logits.iter().map(|&x| f64::from(x)).collect();
    let output = numbers.explained(&found);
    let target = data.targets().and_then(|targets| targets.row(index));
    Some(ExplainedNumber {
        output,
        value: *found.get(output)?,
        label: target.and_then(|target| target.get(output).copied()),
        reference: found.get(output)? - numbers.deviation(output, &found),
        up: numbers.is_up(output, &found),
    })
}

/// Explains a range of a dataset on `threads` threads. `on_batch` gets every batch in the order
/// of the dataset, and the predicted classes of its inputs.
pub fn explain_all<E: From<RunError>>(
    explainer: &Explainer,
    data: &Loader,
    range: Range<usize>,
    threads: usize,
    top: usize,
    mut on_batch: impl FnMut(&TracedRows, &[usize]) -> Result<(), E>,
) -> Result<Explanations, E> {
    let mut seed_is_one = 0;
    let mut layers: Vec<LayerCount> = explainer
        .signature()
        .layers()
        .iter()
        .map(LayerCount::new)
        .collect();
    let mut lost = vec![Shares::default(); explainer.lost_states().len()];
    let mut classes = Vec::new();
    explainer
        .tracer()
        .run(data, range.clone(), threads, |batch| {
            classes.clear();
            for index in batch.rows.clone() {
                let row = explainer.row(batch, index)?;
                classes.push(row.prediction);
                seed_is_one += usize::from(row.seed_is_one);
                for (count, relevances) in layers.iter_mut().zip(&row.layers) {
                    count.count(relevances, row.seed);
                }
                for (shares, &sum) in lost.iter_mut().zip(row.lost) {
                    shares.count(f64::from(sum), row.seed);
                }
            }
            on_batch(batch, &classes)
        })?;
    let layers = layers
        .iter()
        .zip(explainer.signature().layers())
        .enumerate();
    Ok(Explanations {
        data: data.name().to_owned(),
        inputs: range.len(),
        class: explainer.class(),
        seed_is_one,
        method: explainer.method().clone(),
        layers: layers
            .map(|(i, (count, layer))| count.summary(i, layer, top))
            .collect(),
        lost: explainer
            .lost_states()
            .iter()
            .zip(&lost)
            .map(|(name, shares)| LostSummary {
                name: name.clone(),
                lost: shares.spread(),
            })
            .collect(),
    })
}

/// Shares of the seed, over many inputs.
#[derive(Clone, Copy)]
struct Shares {
    inputs: usize,
    total: f64,
    lowest: f64,
    highest: f64,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares {
            inputs: 0,
            total: 0.0,
            lowest: f64::INFINITY,
            highest: f64::NEG_INFINITY,
        }
    }
}

impl Shares {
    fn count(&mut self, sum: f64, seed: f32) {
        // Of nothing, nothing can be conserved.
        if seed != 0.0 {
            let share = sum / f64::from(seed);
            self.inputs += 1;
            self.total += share;
            self.lowest = self.lowest.min(share);
            self.highest = self.highest.max(share);
        }
    }

    fn spread(&self) -> Option<Spread> {
        (self.inputs > 0).then(|| Spread {
            mean: self.total / self.inputs as f64,
            lowest: self.lowest,
            highest: self.highest,
        })
    }
}

/// What is counted of a layer.
struct LayerCount {
    shares: Shares,
    /// By neuron: how often it is on top.
    on_top: Vec<usize>,
}

impl LayerCount {
    fn new(layer: &PathLayer) -> LayerCount {
        LayerCount {
            shares: Shares::default(),
            on_top: vec![0; layer.neurons],
        }
    }

    fn count(&mut self, relevances: &[f32], seed: f32) {
        for neuron in order(relevances, 1) {
            self.on_top[neuron] += 1;
        }
        self.shares.count(sum(relevances), seed);
    }

    fn summary(&self, index: usize, layer: &PathLayer, top: usize) -> LayerSummary {
        let mut counts: Vec<NeuronCount> = self
            .on_top
            .iter()
            .enumerate()
            .filter(|&(_, &inputs)| inputs > 0)
            .map(|(neuron, &inputs)| NeuronCount { neuron, inputs })
            .collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.inputs));
        counts.truncate(top);
        LayerSummary {
            index,
            name: layer.name.clone(),
            neurons: layer.neurons,
            cut: layer.cut,
            conserved: self.shares.spread(),
            top: counts,
        }
    }
}

fn sum(relevances: &[f32]) -> f64 {
    relevances.iter().map(|&r| f64::from(r)).sum()
}

/// The positions of the `top` largest numbers, largest first; the first of equal ones first.
fn order(relevances: &[f32], top: usize) -> Vec<usize> {
    if top == 1 {
        let larger = |best: usize, i: usize| {
            if relevances[i] > relevances[best] {
                i
            } else {
                best
            }
        };
        return (0..relevances.len()).reduce(larger).into_iter().collect();
    }
    let mut order: Vec<usize> = (0..relevances.len()).collect();
    // A stable sort; all numbers are finite.
    order.sort_by(|&a, &b| {
        relevances[b]
            .partial_cmp(&relevances[a])
            .unwrap_or(Ordering::Equal)
    });
    order.truncate(top);
    order
}

/// A relevance as a share of the seed's size.
fn share(relevance: f32, seed: f32) -> Option<f64> {
    (seed != 0.0).then(|| f64::from(relevance) / f64::from(seed.abs()))
}

fn strongest(relevances: &[f32], seed: f32, top: usize) -> Vec<NeuronRelevance> {
    let neuron = |neuron: usize| NeuronRelevance {
        neuron,
        relevance: relevances[neuron],
        share: share(relevances[neuron], seed),
    };
    order(relevances, top).into_iter().map(neuron).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_neurons_comes_first() {
        let relevances = [0.5, 2.0, -3.0, 2.0, -0.0, 0.0];
        assert_eq!(order(&relevances, 1), [1]);
        assert_eq!(order(&relevances, 5), [1, 3, 0, 4, 5]);
        assert_eq!(order(&relevances, 0), [0; 0]);
        assert_eq!(order(&[], 1), [0; 0]);
    }

    #[test]
    fn shares_have_the_sign_of_the_relevance() {
        // A gradient's seed may be negative: what supports the class is positive all the same.
        let top = strongest(&[1.0, -4.0], -2.0, 2);
        let shares: Vec<_> = top.iter().map(|n| (n.neuron, n.share)).collect();
        assert_eq!(shares, [(0, Some(0.5)), (1, Some(-2.0))]);
        assert_eq!(strongest(&[1.0], 0.0, 1)[0].share, None);
    }

    #[test]
    fn a_count_counts_winners_and_sums() {
        let layer = PathLayer {
            name: "relu".to_owned(),
            op: "Relu",
            value: input(),
            before: input(),
            channel_axis: None,
            neurons: 3,
            cut: true,
            steps: None,
            elements: npcov_program::Elements::default(),
        };
        let mut count = LayerCount::new(&layer);
        count.count(&[1.0, 0.0, 1.0], 2.0);
        count.count(&[0.0, 0.0, 3.0], 2.0);
        count.count(&[0.0, 5.0, 6.0], 0.0);
        let summary = count.summary(4, &layer, 1);
        let spread = Spread {
            mean: 1.25,
            lowest: 1.0,
            highest: 1.5,
        };
        assert_eq!(summary.conserved, Some(spread));
        let on_top = NeuronCount {
            neuron: 2,
            inputs: 2,
        };
        assert_eq!((summary.index, summary.top), (4, vec![on_top]));
    }

    /// Some value of some graph.
    fn input() -> npcov_graph::ValueId {
        let mut graph = npcov_graph::Graph::new();
        graph.add_input(
            "x",
            npcov_graph::TensorType::new(npcov_graph::DType::F32, [1]),
        )
    }
}
