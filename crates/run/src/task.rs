//! What the outputs of a model mean: classes, or numbers.
//!
//! Numbers become classes where classes are needed: the inputs whose numbers lie in the same *bin* decide alike as far as
//! they go, as inputs of one class do. Bins are quantiles of what the model gives for its training data. What is explained
//! is the direction in which a number deviates from a reference, so the bin that holds the reference is split there.

use std::fmt;
use std::str::FromStr;

use npcov_graph::Purpose;
use npcov_program::Deviation;
use serde::{Deserialize, Serialize};

use crate::error::RunError;

/// What the outputs of a model mean. Stored where it is [settled](Task::is_settled).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// What outputs and labels tell, when there are some.
    #[default]
    #[serde(skip)]
    Auto,
    /// Classes: the one with the largest logit. A single logit tells two classes apart by its sign.
    Classification,
    /// Classes: the one with the smallest score.
    #[serde(rename = "classification-argmin")]
    Smallest,
    /// Numbers, of which nothing is known yet.
    #[serde(skip)]
    Regression(RegressionOptions),
    /// Numbers that are classes by the bins they fall into.
    #[serde(rename = "regression")]
    Numbers(Numbers),
}

impl Task {
    /// Whether nothing is left for data to tell.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Task::Auto | Task::Regression(_))
    }
}

/// How numbers become classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegressionOptions {
    /// The output that is looked at.
    pub output: OutputChoice,
    /// The bins.
    pub bins: BinChoice,
    /// What numbers are held against.
    pub reference: Reference,
    /// Which direction is explained.
    pub direction: Direction,
    /// How far a number may be from its label; by default 3 standard deviations of the residuals.
    pub tolerance: Option<f64>,
}

/// The output that is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputChoice {
    /// The only one, or all together.
    #[default]
    Auto,
    /// This one.
    One(usize),
    /// All together: of each input the one that deviates most.
    Joint,
}

/// Where bins begin and end.
#[derive(Clone, Debug, PartialEq)]
pub enum BinChoice {
    /// So many, equally frequent in the training data.
    Quantiles(usize),
    /// At these numbers.
    Edges(Vec<f64>),
}

impl Default for BinChoice {
    fn default() -> Self {
        BinChoice::Quantiles(10)
    }
}

/// What numbers are held against.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Reference {
    /// The mean of what the model gives for its training data.
    #[default]
    Mean,
    /// Its median.
    Median,
    /// The mean of the labels.
    Labels,
    /// This number.
    Number(f64),
}

/// Which direction is explained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The one in which the number deviates from the reference.
    #[default]
    Deviation,
    /// The one in which it deviates from zero.
    Output,
    /// Up: what raises the number.
    Up,
    /// As `Deviation`, and only what lies between the reference and the number.
    #[serde(rename = "from-reference")]
    FromReference,
}

/// Most bins. Neighbouring ones share their logic, so that more say nothing more.
const MOST_BINS: usize = 20;

/// Training inputs that a bin should have: five for each of four clusters.
const INPUTS_PER_BIN: usize = 20;

/// Most outputs that are looked at together. More are a field, a mask or boxes.
const MOST_OUTPUTS: usize = 64;

/// Standard deviations of the residuals beyond which a number is wrong.
const WRONG_BEYOND: f64 = 3.0;

/// Numbers as classes: what was learnt from training data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// The output that is looked at; `None` for all together, where the class is the output that deviates most and its
    /// direction.
    pub output: Option<usize>,
    /// By output: what it is held against.
    pub reference: Vec<f64>,
    /// By output: its standard deviation over the training data.
    pub scale: Vec<f64>,
    /// Where bins end, from the lowest; none where all outputs are looked at together.
    pub edges: Vec<f64>,
    /// The smallest and the largest number of the training data, where one output is looked at.
    pub range: Option<(f64, f64)>,
    /// Which direction is explained.
    pub direction: Direction,
    /// How far a number may be from its label; `None` where that is not known.
    pub tolerance: Option<Tolerance>,
}

/// How far numbers may be from their labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Tolerance {
    /// All alike.
    Same(f64),
    /// Each output by itself: they may be of different units.
    ByOutput(Vec<f64>),
}

impl Tolerance {
    /// That of an output.
    pub fn of(&self, output: usize) -> Option<f64> {
        match self {
            Tolerance::Same(most) => Some(*most),
            Tolerance::ByOutput(most) => most.get(output).copied(),
        }
    }
}

impl Numbers {
    /// Number of classes.
    pub fn classes(&self) -> usize {
        match self.output {
            Some(_) => self.edges.len() + 1,
            None => 2 * self.reference.len(),
        }
    }

    /// The class of what a model gives for an input: the number of edges below it, or the output that deviates most and
    /// its direction, down before up.
    pub fn class(&self, numbers: &[f64]) -> usize {
        match self.output {
            Some(output) => {
                let number = numbers.get(output).copied().unwrap_or(f64::NAN);
                bin(&self.edges, number)
            }
            None => {
                let output = self.explained(numbers);
                2 * output + usize::from(self.is_up(output, numbers))
            }
        }
    }

    /// The output that is explained for what a model gives.
    pub fn explained(&self, numbers: &[f64]) -> usize {
        if let Some(output) = self.output {
            return output;
        }
        let outputs = numbers.iter().zip(&self.reference).zip(&self.scale);
        let mut most = (0, f64::NEG_INFINITY);
        for (i, ((y, reference), scale)) in outputs.enumerate() {
            let deviation = (y - reference).abs() / scale;
            if deviation > most.1 {
                most = (i, deviation);
            }
        }
        most.0
    }

    /// How far an output is from its reference.
    pub fn deviation(&self, output: usize, numbers: &[f64]) -> f64 {
        let number = numbers.get(output).copied().unwrap_or(f64::NAN);
        let reference = match self.direction {
            Direction::Deviation | Direction::Up | Direction::FromReference => {
                self.reference.get(output).copied()
            }
            Direction::Output => Some(0.0),
        };
        number - reference.unwrap_or(0.0)
    }

    /// Whether what raises an output is explained.
    pub fn is_up(&self, output: usize, numbers: &[f64]) -> bool {
        let least = self.scale.get(output).copied().unwrap_or(1.0) * f64::from(Deviation::NONE);
        self.direction == Direction::Up || self.deviation(output, numbers) > -least
    }

    /// What is shared out for an input: how far the explained output deviates; `None` where it hardly does.
    pub fn seed(&self, numbers: &[f64]) -> Option<f64> {
        let output = self.explained(numbers);
        let least = self.scale.get(output).copied().unwrap_or(1.0) * f64::from(Deviation::NONE);
        Some(self.deviation(output, numbers).abs()).filter(|&size| size > least)
    }

    /// How far the output moves that is explained before, in standard deviations of the training data.
    pub fn shift(&self, before: &[f64], after: &[f64]) -> f64 {
        let output = self.explained(before);
        let at = |numbers: &[f64]| numbers.get(output).copied().unwrap_or(f64::NAN);
        let scale = self.scale.get(output).copied().unwrap_or(1.0);
        (at(after) - at(before)).abs() / scale
    }

    /// Whether a number of the model is too far from its label.
    pub fn is_wrong(&self, numbers: &[f64], target: &[f64]) -> Option<bool> {
        let output = self.explained(numbers);
        let tolerance = self.tolerance.as_ref()?.of(output)?;
        let (number, target) = (numbers.get(output)?, target.get(output).or(target.first())?);
        Some((number - target).abs() > tolerance)
    }

    /// Whether a number lies outside of what the training data gave.
    pub fn is_outside(&self, numbers: &[f64]) -> bool {
        match (self.output, self.range) {
            (Some(output), Some((low, high))) => {
                let number = numbers.get(output).copied().unwrap_or(f64::NAN);
                !(low..=high).contains(&number)
            }
            _ => false,
        }
    }

    /// What programs are told to explain.
    pub fn target(&self) -> Deviation {
        let reference = match self.direction {
            Direction::Output => vec![0.0; self.reference.len()],
            Direction::Deviation | Direction::Up | Direction::FromReference => {
                self.reference.iter().map(|&x| x as f32).collect()
            }
        };
        Deviation {
            output: self.output,
            reference,
            scale: self.scale.iter().map(|&x| x as f32).collect(),
            up: self.direction == Direction::Up,
            flooded: self.direction == Direction::FromReference,
        }
    }

    /// The side that a class lies on: 1 for above the reference, else 0; of all outputs together, the class itself.
    pub fn side(&self, class: usize) -> usize {
        let Some(output) = self.output else {
            return class;
        };
        let reference = self.reference.get(output).copied().unwrap_or(0.0);
        let below = self.edges.get(class).is_some_and(|&edge| edge <= reference);
        2 * output + usize::from(!below)
    }

    /// The names of the classes.
    pub fn class_names(&self) -> Vec<String> {
        if self.output.is_none() {
            let sides = |output: usize| {
                [
                    format!("output {output} low"),
                    format!("output {output} high"),
                ]
            };
            return (0..self.reference.len()).flat_map(sides).collect();
        }
        // As many digits as tell neighbouring edges apart.
        let written = |digits: usize| -> Vec<String> {
            self.edges
                .iter()
                .map(|&edge| digits_of(edge, digits))
                .collect()
        };
        let edges = (3..=17)
            .map(written)
            .find(|edges| edges.windows(2).all(|pair| pair[0] != pair[1]))
            .unwrap_or_else(|| written(17));
        match &edges[..] {
            [] => vec!["all".to_owned()],
            [first, .., last] | [first @ last] => {
                let mut names = vec![format!("up to {first}")];
                names.extend(
                    edges
                        .windows(2)
                        .map(|pair| format!("{} to {}", pair[0], pair[1])),
                );
                names.push(format!("above {last}"));
                names
            }
        }
    }
}

/// A number with so many significant digits, without an exponent where that is short.
fn digits_of(x: f64, digits: usize) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    let before = x.abs().log10().floor() as i32 + 1;
    if !(-4..=15).contains(&before) {
        return format!("{x:.*e}", digits.saturating_sub(1));
    }
    let decimals = (digits as i32 - before).max(0) as usize;
    let text = format!("{x:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The bin of a number: how many edges are strictly below it.
pub fn bin(edges: &[f64], number: f64) -> usize {
    edges.partition_point(|&edge| edge < number)
}

/// The quantiles that end `bins` bins, by linear interpolation; equal ones count once.
pub fn quantile_edges(numbers: &[f64], bins: usize) -> Vec<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut edges: Vec<f64> = (1..bins).map(|b| quantile(&sorted, b, bins)).collect();
    edges.dedup();
    edges
}

/// The quantile `part / parts` of sorted numbers.
fn quantile(sorted: &[f64], part: usize, parts: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let place = (last * part) as f64 / parts as f64;
    let (low, share) = (place.floor() as usize, place.fract());
    let at = |i: usize| sorted.get(i.min(last)).copied().unwrap_or(0.0);
    at(low) + share * (at(low + 1) - at(low))
}

/// What a model gives for some inputs, and what it should give.
pub struct Observed<'a> {
    /// Number of outputs.
    pub outputs: usize,
    /// What it gives, inputs one after the other.
    pub numbers: &'a [f64],
    /// What it should give, where that is known, with as many outputs.
    pub targets: Option<&'a [f64]>,
}

impl RegressionOptions {
    /// What programs are told to explain where there is no data to learn from: the reference has to be a number, and the
    /// output one.
    pub fn target(&self, outputs: usize) -> Result<Deviation, RunError> {
        let wrong = |name, value: &str, wanted| RunError::Parameter {
            name,
            value: value.to_owned(),
            wanted,
        };
        let output = match self.output {
            OutputChoice::One(output) if output < outputs => output,
            OutputChoice::Auto if outputs == 1 => 0,
            OutputChoice::One(_) | OutputChoice::Auto | OutputChoice::Joint => {
                let wanted = "one that the model has: there is no data to learn their scales from";
                return Err(wrong("the output", "left open", wanted));
            }
        };
        let reference = match (self.direction, self.reference) {
            (Direction::Output, _) => 0.0,
            (_, Reference::Number(number)) => number,
            (Direction::Up, _) => 0.0,
            (Direction::Deviation | Direction::FromReference, _) => {
                let wanted = "a number: there is no data to learn it from";
                return Err(wrong("the reference", "left open", wanted));
            }
        };
        Ok(Deviation {
            output: Some(output),
            reference: vec![reference as f32; outputs],
            scale: vec![1.0; outputs],
            up: self.direction == Direction::Up,
            flooded: self.direction == Direction::FromReference,
        })
    }

    /// Learns how numbers become classes, and says what is not quite as asked.
    pub fn learn(&self, observed: &Observed<'_>) -> Result<(Numbers, Vec<String>), RunError> {
        let outputs = observed.outputs.max(1);
        let rows = observed.numbers.len() / outputs;
        let wrong = |name, value: String, wanted| RunError::Parameter {
            name,
            value,
            wanted,
        };
        if outputs > MOST_OUTPUTS {
            return Err(RunError::ManyNumbers {
                outputs,
                most: MOST_OUTPUTS,
            });
        }
        let output = match (self.output, outputs) {
            (OutputChoice::One(output), _) if output >= outputs => {
                let value = output.to_string();
                return Err(wrong(
                    "the output",
                    value,
                    "one that the model has, counted from 0",
                ));
            }
            (OutputChoice::One(output), _) => Some(output),
            (OutputChoice::Auto, 1) => Some(0),
            (OutputChoice::Auto | OutputChoice::Joint, _) => None,
        };
        let column = |numbers: &[f64], output: usize| -> Vec<f64> {
            numbers
                .iter()
                .skip(output)
                .step_by(outputs)
                .copied()
                .collect()
        };
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len().max(1) as f64;
        let deviation = |numbers: &[f64]| {
            let mean = mean(numbers);
            let squares: f64 = numbers.iter().map(|x| (x - mean) * (x - mean)).sum();
            (squares / numbers.len().max(1) as f64).sqrt()
        };
        let (mut reference, mut scale) = (Vec::new(), Vec::new());
        for o in 0..outputs {
            let numbers = column(observed.numbers, o);
            let size = deviation(&numbers);
            if size == 0.0 && output.is_none_or(|output| output == o) {
                return Err(RunError::ConstantNumber { output: o });
            }
            reference.push(match (self.reference, observed.targets) {
                (Reference::Mean, _) => mean(&numbers),
                (Reference::Median, _) => {
                    let mut sorted = numbers.clone();
                    sorted.sort_by(f64::total_cmp);
                    quantile(&sorted, 1, 2)
                }
                (Reference::Labels, Some(targets)) => mean(&column(targets, o)),
                (Reference::Labels, None) => {
                    let value = "labels".to_owned();
                    return Err(wrong(
                        "the reference",
                        value,
                        "`mean`, where data has no labels",
                    ));
                }
                (Reference::Number(number), _) => number,
            });
            scale.push(if size > 0.0 { size } else { 1.0 });
        }
        let mut notes = Vec::new();
        let own = output.map(|output| column(observed.numbers, output));
        let edges = match (&own, &self.bins) {
            (None, _) => Vec::new(),
            (Some(_), BinChoice::Edges(edges)) => {
                if edges.is_empty() || !edges.windows(2).all(|pair| pair[0] < pair[1]) {
                    let value = format!("{edges:?}");
                    return Err(wrong("the list of bins", value, "numbers that grow"));
                }
                edges.clone()
            }
            (Some(numbers), &BinChoice::Quantiles(bins)) => {
                if !(2..=MOST_BINS).contains(&bins) {
                    return Err(wrong("the number of bins", bins.to_string(), "2 to 20"));
                }
                let possible = (rows / INPUTS_PER_BIN).clamp(2, bins);
                if possible < bins {
                    notes.push(format!(
                        "{rows} inputs are few: {possible} bins instead of {bins}, so that each has {INPUTS_PER_BIN}"
                    ));
                }
                let mut edges = quantile_edges(numbers, possible);
                if edges.len() + 1 < possible {
                    notes.push(format!(
                        "many numbers are equal: {} bins instead of {possible}",
                        edges.len() + 1
                    ));
                }
                // Directions differ on the two sides of the reference.
                let (y0, split) = (
                    reference[output.unwrap_or(0)],
                    bin(&edges, reference[output.unwrap_or(0)]),
                );
                let inside = numbers.iter().any(|&x| x <= y0) && numbers.iter().any(|&x| x > y0);
                if inside && edges.get(split) != Some(&y0) {
                    edges.insert(split, y0);
                }
                edges
            }
        };
        let residuals = observed.targets.map(|targets| {
            let pairs = observed.numbers.iter().zip(targets);
            let residuals: Vec<f64> = pairs.map(|(y, target)| y - target).collect();
            let most = |output| WRONG_BEYOND * deviation(&column(&residuals, output));
            match output {
                Some(output) => Tolerance::Same(most(output)),
                None => Tolerance::ByOutput((0..outputs).map(most).collect()),
            }
        });
        let extremes = own.map(|numbers| {
            let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            (
                low,
                numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            )
        });
        let numbers = Numbers {
            output,
            reference,
            scale,
            edges,
            range: extremes,
            direction: self.direction,
            tolerance: self.tolerance.map(Tolerance::Same).or(residuals),
        };
        Ok((numbers, notes))
    }
}

impl Task {
    /// Whether an output that is no classification can be asked this: one of its numbers always, and all of them
    /// together where each is a number of its own.
    pub(crate) fn takes(&self, purpose: &Purpose) -> bool {
        let one = match self {
            Task::Auto | Task::Classification | Task::Smallest => return false,
            Task::Regression(options) => matches!(options.output, OutputChoice::One(_)),
            Task::Numbers(numbers) => numbers.output.is_some(),
        };
        one || matches!(purpose, Purpose::Labels { .. })
    }
}

/// A task, as on the command line and in records.
impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let output = |output: Option<usize>| match output {
            Some(output) => format!("regression:{output}"),
            None => "regression:joint".to_owned(),
        };
        match self {
            Task::Auto => f.write_str("auto"),
            Task::Classification => f.write_str("classification"),
            Task::Smallest => f.write_str("classification:argmin"),
            Task::Regression(options) => match options.output {
                OutputChoice::Auto => f.write_str("regression"),
                OutputChoice::One(one) => f.write_str(&output(Some(one))),
                OutputChoice::Joint => f.write_str(&output(None)),
            },
            Task::Numbers(numbers) => f.write_str(&output(numbers.output)),
        }
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> Result<Task, String> {
        let regression = |output| {
            Task::Regression(RegressionOptions {
                output,
                ..RegressionOptions::default()
            })
        };
        match text.split_once(':') {
            None if text == "classification" => Ok(Task::Classification),
            None if text == "regression" => Ok(regression(OutputChoice::Auto)),
            Some(("classification", "argmax")) => Ok(Task::Classification),
            Some(("classification", "argmin")) => Ok(Task::Smallest),
            Some(("regression", "joint")) => Ok(regression(OutputChoice::Joint)),
            Some(("regression", output)) if output.parse::<usize>().is_ok() => {
                let output = output.parse().unwrap_or(0);
                Ok(regression(OutputChoice::One(output)))
            }
            _ => Err(format!(
                "`{text}` is no task; use `classification`, `classification:argmin`, `regression`, \
                 `regression:OUTPUT` (its number) or `regression:joint`"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(numbers: &[f64], bins: usize) -> Numbers {
        let options = RegressionOptions {
            bins: BinChoice::Quantiles(bins),
            ..RegressionOptions::default()
        };
        let observed = Observed {
            outputs: 1,
            numbers,
            targets: None,
        };
        options.learn(&observed).unwrap().0
    }

    /// Worked out by hand: linear interpolation between the sorted numbers.
    #[test]
    fn quartiles_are_interpolated_and_equal_ones_merged() {
        let numbers = [1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 100.0];
        let edges = quantile_edges(&numbers, 4);
        assert_eq!(edges, [2.25, 4.5, 6.75]);
        let bins: Vec<usize> = numbers.iter().map(|&x| bin(&edges, x)).collect();
        assert_eq!(bins, [0, 0, 0, 1, 1, 2, 2, 3, 3, 3]);

        let many = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0];
        let edges = quantile_edges(&many, 4);
        assert_eq!(edges, [0.0, 1.75]);
        let bins: Vec<usize> = many.iter().map(|&x| bin(&edges, x)).collect();
        assert_eq!(bins, [0, 0, 0, 0, 0, 0, 1, 2, 2, 2]);
    }

    #[test]
    fn the_bin_of_the_reference_is_split_there() {
        // 0 to 99: the mean is 49.5, the quartiles 24.75, 49.5 and 74.25.
        let numbers: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(learnt(&numbers, 4).edges, [24.75, 49.5, 74.25]);
        // The mean of these is above their median.
        let skewed: Vec<f64> = (0..100).map(|i| f64::from(i * i)).collect();
        let found = learnt(&skewed, 2);
        assert_eq!(found.edges, [2450.5, 3283.5]);
        assert_eq!(found.reference, [3283.5]);
        assert_eq!(
            found.class_names(),
            ["up to 2450", "2450 to 3284", "above 3284"]
        );
        assert_eq!([0, 1, 2].map(|class| found.side(class)), [0, 0, 1]);
        assert!(found.is_outside(&[9802.0]) && !found.is_outside(&[9801.0]));
        assert_eq!(found.seed(&[3283.5]), None);
        assert_eq!(found.seed(&[3280.5]), Some(3.0));
    }

    #[test]
    fn few_inputs_have_few_bins_and_one_number_is_an_error() {
        let numbers: Vec<f64> = (0..45).map(f64::from).collect();
        let observed = |numbers| Observed {
            outputs: 1,
            numbers,
            targets: None,
        };
        let (found, notes) = RegressionOptions::default()
            .learn(&observed(&numbers))
            .unwrap();
        assert_eq!(found.edges, [22.0]);
        assert_eq!(
            notes,
            ["45 inputs are few: 2 bins instead of 10, so that each has 20"]
        );
        let same = RegressionOptions::default().learn(&observed(&[2.0; 50]));
        assert!(same.unwrap_err().to_string().contains("the same number"));
    }

    /// Two outputs, of means 0 and 0 and deviations 1 and 10: (1, -20) deviates most in the second, downwards.
    #[test]
    fn several_outputs_are_the_one_that_deviates_most_and_its_direction() {
        let numbers = [1.0, 10.0, -1.0, -10.0, 1.0, -10.0, -1.0, 10.0];
        let observed = Observed {
            outputs: 2,
            numbers: &numbers,
            targets: Some(&[0.0; 8]),
        };
        let (found, _) = RegressionOptions::default().learn(&observed).unwrap();
        assert_eq!((found.classes(), found.scale.clone()), (4, vec![1.0, 10.0]));
        let classes =
            [[1.0, -20.0], [1.0, 5.0], [-3.0, 20.0], [1.0, 10.0]].map(|y| found.class(&y));
        assert_eq!(classes, [2, 1, 0, 1]);
        assert_eq!(found.class_names()[2], "output 1 low");
        // What moves is the output that deviated most before: by 5 of 10, whatever the other one does.
        assert_eq!(found.shift(&[1.0, -20.0], &[9.0, -15.0]), 0.5);
        let one = RegressionOptions {
            output: OutputChoice::One(2),
            ..RegressionOptions::default()
        };
        assert!(one.learn(&observed).is_err());
    }

    /// Residuals of 1 and of 1000: what is wrong of the first output is little of the second.
    #[test]
    fn outputs_of_different_units_have_tolerances_of_their_own() {
        let numbers = [1.0, 1000.0, -1.0, -1000.0, 1.0, -1000.0, -1.0, 1000.0];
        let observed = Observed {
            outputs: 2,
            numbers: &numbers,
            targets: Some(&[0.0; 8]),
        };
        let (found, _) = RegressionOptions::default().learn(&observed).unwrap();
        let expected = Tolerance::ByOutput(vec![3.0, 3000.0]);
        assert_eq!(found.tolerance, Some(expected));
        assert_eq!(found.is_wrong(&[9.0, 0.0], &[0.0, 0.0]), Some(true));
        assert_eq!(found.is_wrong(&[0.0, 2500.0], &[0.0, 0.0]), Some(false));
    }

    #[test]
    fn tasks_are_read_from_their_names() {
        for text in [
            "classification",
            "classification:argmin",
            "regression",
            "regression:2",
            "regression:joint",
        ] {
            assert_eq!(text.parse::<Task>().unwrap().to_string(), text);
        }
        for text in ["ranking", "regression:x", "classification:2"] {
            assert!(text.parse::<Task>().is_err(), "{text}");
        }
    }
}
