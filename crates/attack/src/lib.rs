//! Inputs changed a little, so that they are misclassified.
//!
//! Attacks work on *pixels*: the stored numbers over `divide`, before `mean` and `std`. Radii, steps
//! and distances are in pixels too, so that 0.1 means the same for any normalisation. Gradients are
//! with respect to pixels; pixels stay in a range, 0 to 1 unless another is given.
//!
//! An attack is untargeted: what it leaves behind is the label, or the predicted class where data has
//! no labels. With a [`Diversity`] it also spreads the activity of a layer, which is how suites for
//! the study of output impartiality are made.

mod cw;
mod diversity;
mod error;
mod file;
mod objective;
mod pgd;
mod random;
mod seeds;

use npcov_data::{Loader, SeenRows};
use serde::{Deserialize, Serialize};

pub use cw::CarliniWagner;
pub use error::AttackError;
pub use file::AttackFile;
use npcov_graph::Ending;
use npcov_run::{Network, Progress, RunError, Tracer, labels};
use objective::Objective;
pub use pgd::Pgd;
use seeds::Seeds;

/// Inputs that are attacked at a time have at most so many numbers together, where it does not
/// matter how many they are.
const NUMBERS_AT_A_TIME: usize = 1 << 23;

/// What distances between inputs are measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttackNorm {
    /// The largest difference of a pixel: L-infinity.
    Maximum,
    /// The length of the difference: L2.
    Euclidean,
}

/// How adversaries are sought.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AttackMethod {
    /// Projected gradient descent, and the fast gradient sign method.
    Pgd(Pgd),
    /// The attack of Carlini and Wagner.
    CarliniWagner(CarliniWagner),
}

/// A regulariser that spreads the activity of a layer over all its neurons.
///
/// The attack's loss is lowered by `lambda KL(U || Q)`: `Q` is the distribution of the layer's
/// activity, `U` the uniform one. The activity of a dense layer is summed over all inputs of the
/// batch; that of feature maps is not, so that every element of every input has a share. Inputs of a
/// batch are attacked together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diversity {
    /// Position among the path layers.
    pub layer: usize,
    /// The regulariser's weight; 0 leaves it out.
    pub lambda: f64,
}

/// Which attack, on what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttackOptions {
    /// How adversaries are sought.
    pub method: AttackMethod,
    /// The least and the largest pixel.
    pub range: (f32, f32),
    /// What else is sought.
    pub diversity: Option<Diversity>,
    /// At most so many inputs are attacked together. Without
    /// [diversity](field@AttackOptions::diversity) results do not depend on it.
    pub batch: usize,
    /// Seed of random starts. That of an input depends on its position in the dataset and on nothing
    /// else.
    pub seed: u64,
}

impl From<AttackMethod> for AttackOptions {
    /// On pixels from 0 to 1, in batches of 500.
    fn from(method: AttackMethod) -> AttackOptions {
        AttackOptions {
            method,
            range: (0.0, 1.0),
            diversity: None,
            batch: 500,
            seed: 0,
        }
    }
}

impl AttackOptions {
    /// What `progress` of [`attack`] adds up to, for a number of inputs.
    pub fn work(&self, inputs: usize) -> usize {
        let steps = match self.method {
            AttackMethod::Pgd(pgd) => pgd.steps,
            AttackMethod::CarliniWagner(cw) => cw.rounds.saturating_mul(cw.steps),
        };
        inputs.saturating_mul(steps)
    }

    /// What distances are measured in.
    pub fn norm(&self) -> AttackNorm {
        match self.method {
            AttackMethod::Pgd(pgd) => pgd.norm,
            AttackMethod::CarliniWagner(cw) => cw.norm,
        }
    }

    /// The regulariser, where it has a weight.
    fn diversity(&self) -> Option<Diversity> {
        self.diversity.filter(|d| d.lambda != 0.0)
    }

    fn check(&self) -> Result<(), RunError> {
        let (low, high) = self.range;
        if !(low < high && (high - low).is_finite()) {
            let wanted = "two numbers, the smaller one first";
            return parameter("range", format!("{low},{high}"), wanted);
        }
        positive("batch", self.batch)?;
        let lambda = self.diversity.map_or(0.0, |d| d.lambda);
        if !(lambda >= 0.0 && lambda.is_finite()) {
            return parameter("lambda", lambda, "a number from 0");
        }
        match &self.method {
            AttackMethod::Pgd(pgd) => pgd.check(),
            AttackMethod::CarliniWagner(cw) => cw.check(self.range),
        }
    }
}

fn parameter<T>(
    name: &'static str,
    value: impl ToString,
    wanted: &'static str,
) -> Result<T, RunError> {
    Err(RunError::Parameter {
        name,
        value: value.to_string(),
        wanted,
    })
}

fn finite(name: &'static str, value: f32, least: f32) -> Result<(), RunError> {
    match value >= least && value.is_finite() {
        true => Ok(()),
        false if least == 0.0 => parameter(name, value, "a number from 0"),
        false => parameter(name, value, "a number above 0"),
    }
}

fn positive(name: &'static str, value: usize) -> Result<(), RunError> {
    match value {
        0 => parameter(name, value, "1 or more"),
        _ => Ok(()),
    }
}

/// What became of some inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adversaries {
    /// Positions of the inputs in the dataset.
    pub rows: Vec<usize>,
    /// The inputs after the attack, one after the other, as they would be stored in the dataset.
    pub samples: Vec<f32>,
    /// The classes that they were to leave.
    pub labels: Vec<usize>,
    /// The classes that they are taken for.
    pub predictions: Vec<usize>,
    /// Whether the attack found what it sought: a misclassified input, by the confidence that was
    /// asked for.
    pub success: Vec<bool>,
    /// How far they are from what they were, in pixels and the norm of the attack.
    pub distances: Vec<f64>,
}

impl Adversaries {
    /// Adds those of further inputs.
    pub fn append(&mut self, next: &Adversaries) {
        self.rows.extend(&next.rows);
        self.samples.extend(&next.samples);
        self.labels.extend(&next.labels);
        self.predictions.extend(&next.predictions);
        self.success.extend(&next.success);
        self.distances.extend(&next.distances);
    }
}

/// How an attack went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttackReport {
    /// The dataset, as it was named.
    pub data: String,
    /// How adversaries were sought.
    pub settings: AttackOptions,
    /// Number of inputs.
    pub inputs: usize,
    /// Whether the data has labels; else they are what was predicted before.
    pub labelled: bool,
    /// How many inputs were classified as labelled.
    pub correct_before: usize,
    /// How many are after the attack.
    pub correct_after: usize,
    /// How many of those that were classified as labelled the attack was successful on.
    pub successes: usize,
    /// `successes / correct_before`; `None` where none were.
    pub success_rate: Option<f64>,
    /// How far those successes moved, on average; `None` without any.
    pub distance: Option<MeanDistance>,
    /// The regulariser before and after.
    pub diversity: Option<DiversityReport>,
}

/// How far inputs moved, on average, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanDistance {
    /// The largest difference of a pixel.
    pub maximum: f64,
    /// The length of the difference.
    pub euclidean: f64,
}

/// What became of the activity of a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiversityReport {
    /// The layer's name.
    pub layer: String,
    /// Its divergence before the attack, the mean of all batches.
    pub before: f64,
    /// Its divergence after.
    pub after: f64,
}

/// Rows of a dataset that are attacked, and the threads that work on them.
#[derive(Clone, Copy)]
pub struct Attacked<'a> {
    /// The dataset.
    pub data: &'a Loader<'a>,
    /// Positions in it.
    pub rows: &'a [usize],
    /// Number of threads.
    pub threads: usize,
}

/// Attacks rows of a dataset.
///
/// `sink` gets the adversaries in the order of the rows; `progress` is told how many steps of inputs
/// more are done, [`AttackOptions::work`] says of how many. The results are the same bits for any
/// number of threads.
///
/// ```
/// use npcov_attack::{AttackError, AttackMethod, AttackOptions, Attacked, Pgd, attack};
/// use npcov_data::{Loader, Preprocessing, open};
/// use npcov_run::{Network, ModelOptions};
///
/// # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
/// # let (model, data) = (format!("{fixtures}/lenet.onnx"), format!("{fixtures}/fashion-1000.npz"));
/// let network = Network::open(model, &ModelOptions::default())?;
/// let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
/// let loader = Loader::new(open(&data)?, network.sample_shape(), &scale)?;
///
/// let options = AttackOptions::from(AttackMethod::Pgd(Pgd::fast(0.1)));
/// let rows: Vec<usize> = (0..20).collect();
/// let attacked = Attacked { data: &loader, rows: &rows, threads: 2 };
/// let mut found = Vec::new();
/// let report = attack(&network, attacked, &options, &mut (), |adversaries| {
///     found.extend_from_slice(&adversaries.predictions);
///     Ok::<(), AttackError>(())
/// })?;
/// assert_eq!((report.inputs, found.len()), (20, 20));
/// assert!(report.correct_after < report.correct_before);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn attack<E: From<AttackError>>(
    network: &Network,
    inputs: Attacked<'_>,
    options: &AttackOptions,
    progress: &mut dyn Progress,
    mut sink: impl FnMut(&Adversaries) -> Result<(), E>,
) -> Result<AttackReport, E> {
    let attacker = Attacker::new(network, inputs, options).map_err(AttackError::from)?;
    let mut tally = Tally::default();
    let samples = inputs.data.samples();
    let failed = |error| AttackError::from(RunError::from(error));
    let seen = SeenRows::of(samples, inputs.rows.iter().copied()).map_err(failed)?;
    for rows in inputs.rows.chunks(attacker.batch()) {
        let seeds = attacker.seeds(rows)?;
        let adversaries = attacker.attack(seeds, &mut tally, progress);
        let adversaries = adversaries.map_err(AttackError::from)?;
        sink(&adversaries)?;
    }
    seen.check(samples, 0..samples.len()).map_err(failed)?;
    Ok(tally.report(network, inputs.data, options, inputs.rows.len()))
}

/// A network with all that an attack needs.
struct Attacker<'a> {
    network: &'a Network,
    data: &'a Loader<'a>,
    options: &'a AttackOptions,
    labels: Option<Vec<usize>>,
    logits: Tracer,
    objective: Objective<'a>,
    threads: usize,
}

impl<'a> Attacker<'a> {
    fn new(
        network: &'a Network,
        inputs: Attacked<'a>,
        options: &'a AttackOptions,
    ) -> Result<Attacker<'a>, RunError> {
        let Attacked {
            data,
            rows,
            threads,
        } = inputs;
        options.check()?;
        let outputs = network.signature().numbers().map(|n| n.reference.len());
        let unusual = network.signature().ending() == Ending::Smallest || outputs.is_some();
        match &options.method {
            AttackMethod::CarliniWagner(_) if unusual => {
                return Err(RunError::Parameter {
                    name: "the attack",
                    value: "Carlini and Wagner's".to_owned(),
                    wanted: "`pgd` for models of numbers, and for those that choose the smallest score",
                });
            }
            _ if outputs.is_some_and(|outputs| outputs > 1) => {
                return Err(RunError::Parameter {
                    name: "the model under attack",
                    value: "one of several numbers".to_owned(),
                    wanted: "a model of classes, or of one number",
                });
            }
            _ => {}
        }
        if let Some(&row) = rows.iter().find(|&&row| row >= data.len()) {
            return Err(RunError::Index {
                data: data.name().to_owned(),
                index: row,
                inputs: data.len(),
            });
        }
        let end = rows.iter().max().map_or(0, |last| last + 1);
        Ok(Attacker {
            network,
            data,
            options,
            labels: labels(network.signature(), data, 0..end)?,
            logits: network.logits_tracer()?,
            objective: match &options.method {
                AttackMethod::Pgd(pgd) => pgd.objective(network, options)?,
                AttackMethod::CarliniWagner(cw) => cw.objective(network, options)?,
            },
            threads,
        })
    }

    /// How many inputs are attacked together.
    fn batch(&self) -> usize {
        match self.options.diversity() {
            Some(_) => self.options.batch,
            None => {
                let few = NUMBERS_AT_A_TIME / self.data.sample_len().max(1);
                self.options.batch.min(few.max(1))
            }
        }
    }

    fn seeds<'s>(&self, rows: &'s [usize]) -> Result<Seeds<'s>, AttackError>
    where
        'a: 's,
    {
        Seeds::read(self.data, rows, self.options.range, self.threads)
    }

    /// The classes that points are taken for.
    fn predict(&self, seeds: &Seeds<'_>, points: &[f32]) -> Result<Vec<usize>, RunError> {
        let mut classes = Vec::with_capacity(seeds.len());
        seeds.logits(&self.logits, points, |_, logits| {
            classes.push(self.network.signature().predict(logits));
        })?;
        Ok(classes)
    }

    /// Attacks the inputs of a batch.
    fn attack(
        &self,
        mut seeds: Seeds<'_>,
        tally: &mut Tally,
        progress: &mut dyn Progress,
    ) -> Result<Adversaries, RunError> {
        let before = self.predict(&seeds, &seeds.original)?;
        let labels: Vec<usize> = match &self.labels {
            Some(labels) => seeds.rows.iter().map(|&row| labels[row]).collect(),
            None => before.clone(),
        };
        // Numbers are led away from the side of the reference that they lie on.
        let side = |&label: &usize| match self.network.signature().numbers() {
            Some(numbers) => numbers.side(label) as f32,
            None => label as f32,
        };
        seeds.labels = labels.iter().map(side).collect();
        let (points, found) = match &self.options.method {
            AttackMethod::Pgd(pgd) => {
                let run = pgd.run(&self.objective, &seeds, self.options, progress);
                (run?, vec![true; seeds.len()])
            }
            AttackMethod::CarliniWagner(cw) => {
                let (network, objective) = (self.network, &self.objective);
                cw.run(network, objective, &seeds, self.options, progress)?
            }
        };
        let predictions = self.predict(&seeds, &points)?;
        let is_away = predictions.iter().zip(&labels).map(|(p, label)| p != label);
        let success: Vec<bool> = is_away
            .zip(found)
            .map(|(away, found)| away && found)
            .collect();
        if let Some(after) = self.objective.divergence(&seeds, &points)? {
            let before = self.objective.divergence(&seeds, &seeds.original)?;
            tally.divergences.push((before.unwrap_or(after), after));
        }
        let width = seeds.width().max(1);
        let mut samples = vec![0.0; points.len()];
        let mut distances = Vec::with_capacity(seeds.len());
        let stored = samples
            .chunks_exact_mut(width)
            .zip(points.chunks_exact(width));
        for (at, (sample, point)) in stored.enumerate() {
            seeds.store(at, point, sample);
            let moved = distance(point, &seeds.original[at * width..(at + 1) * width]);
            tally.correct_before += usize::from(before[at] == labels[at]);
            tally.correct_after += usize::from(predictions[at] == labels[at]);
            if success[at] && before[at] == labels[at] {
                tally.successes += 1;
                tally.moved.maximum += moved.maximum;
                tally.moved.euclidean += moved.euclidean;
            }
            distances.push(match self.options.norm() {
                AttackNorm::Maximum => moved.maximum,
                AttackNorm::Euclidean => moved.euclidean,
            });
        }
        Ok(Adversaries {
            rows: seeds.rows.to_vec(),
            samples,
            labels,
            predictions,
            success,
            distances,
        })
    }
}

fn distance(a: &[f32], b: &[f32]) -> MeanDistance {
    let moved = || a.iter().zip(b).map(|(&a, &b)| f64::from(a) - f64::from(b));
    MeanDistance {
        maximum: moved().fold(0.0, |m: f64, d| m.max(d.abs())),
        euclidean: moved().map(|d| d * d).sum::<f64>().sqrt(),
    }
}

/// What is counted on the way.
#[derive(Default)]
struct Tally {
    correct_before: usize,
    correct_after: usize,
    successes: usize,
    /// Sums over the successes.
    moved: MeanDistance,
    /// Of each batch, before and after.
    divergences: Vec<(f64, f64)>,
}

impl Tally {
    fn report(
        self,
        network: &Network,
        data: &Loader,
        options: &AttackOptions,
        inputs: usize,
    ) -> AttackReport {
        let part = |sum: f64, count: usize| (count > 0).then(|| sum / count as f64);
        let mean = |of: fn(&(f64, f64)) -> f64| {
            let sum = self.divergences.iter().map(of).sum();
            part(sum, self.divergences.len())
        };
        let layer = options
            .diversity()
            .and_then(|d| network.layers().get(d.layer));
        let diversity = layer.and_then(|layer| {
            Some(DiversityReport {
                layer: layer.name.clone(),
                before: mean(|d| d.0)?,
                after: mean(|d| d.1)?,
            })
        });
        let distance = part(self.moved.maximum, self.successes).map(|maximum| MeanDistance {
            maximum,
            euclidean: self.moved.euclidean / self.successes as f64,
        });
        AttackReport {
            data: data.name().to_owned(),
            settings: options.clone(),
            inputs,
            labelled: data.labels().is_some(),
            correct_before: self.correct_before,
            correct_after: self.correct_after,
            successes: self.successes,
            success_rate: part(self.successes as f64, self.correct_before),
            distance,
            diversity,
        }
    }
}
