//! The verb `tune`: parameters of paths, chosen by what masking does.
//!
//! A critical decision path deserves its name when predictions change without its neurons and stay
//! without all others. Inc.C is the share of inputs whose prediction changes when their path is
//! masked, Inc.NC when the complement of their path is. Neurons chosen otherwise, as many in each
//! layer, show what these figures would be for any set of the same width.
//!
//! No control shows how much of this is due to the masks alone. A path holds neurons that speak for
//! its class, and with all others off a network may predict that class for any input: of 1,000
//! inputs of the fixture `resnet8.onnx`, all are taken for the class of whatever path is left.

mod random;
mod recommend;
mod sets;
mod study;

use npcov_data::Loader;
use npcov_paths::choices::{Members, Population};
use npcov_paths::{Choices, ClassParameters, Clusters, KMeans, Learning, TrainingPaths};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::masked::MaskedNetwork;
use crate::method::{Method, MethodInfo};
use crate::network::Network;
use crate::paths::PathExtractor;
use crate::predict::labels;
use recommend::recommend;
pub use recommend::{Basis, Recommendation};
use sets::Sets;
use study::Study;

/// Which parameters are tried, on what.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneSettings {
    /// How relevances are computed.
    pub method: Method,
    /// What else can be chosen.
    pub choices: Choices,
    /// How many inputs are drawn from the data; `None` for all.
    pub sample: Option<usize>,
    /// Shares of relevance that critical neurons have together.
    pub alphas: Vec<f64>,
    /// Numbers of clusters of each class.
    pub clusters: Vec<usize>,
    /// Shares of a cluster's members above which a neuron is abstract.
    pub betas: Vec<f64>,
    /// Restarts of the clustering.
    pub restarts: usize,
    /// Seed of the sample, of the random neurons and of the clustering.
    pub seed: u64,
}

impl Default for TuneSettings {
    /// The paper's grid, on 2,000 inputs.
    fn default() -> Self {
        let kmeans = KMeans::default();
        TuneSettings {
            method: Method::default(),
            choices: Choices::default(),
            sample: Some(2000),
            alphas: vec![0.7, 0.8, 0.9, 1.0],
            clusters: vec![1, 4, 7, 10],
            betas: vec![0.6, 0.7, 0.8, 0.9],
            restarts: kmeans.restarts,
            seed: kmeans.seed,
        }
    }
}

/// What masking does for every choice of parameters, and which to take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// The dataset, as it was named.
    pub data: String,
    /// Number of inputs in it.
    pub available: usize,
    /// Number of inputs that were drawn from it.
    pub inputs: usize,
    /// How many of those count: all, or the correctly classified ones.
    pub counted: usize,
    /// How relevances are computed.
    pub method: MethodInfo,
    /// What else was chosen.
    pub choices: Choices,
    /// Seed of the sample, of the random neurons and of the clustering.
    pub seed: u64,
    /// Paths of single inputs, by ascending alpha.
    pub alphas: Vec<AlphaPoint>,
    /// The recommended one of `alphas`.
    pub alpha: Recommendation,
    /// The controls that do as well as the recommended paths, at equal width. When there is one,
    /// the figures say little about relevance.
    pub rivals: Vec<Control>,
    /// Abstract paths at the recommended alpha, by ascending clusters, then beta.
    pub grid: Vec<GridPoint>,
    /// The recommended one of `grid`.
    pub abstraction: Recommendation,
    /// All that is recommended.
    pub chosen: PathParameters,
}

/// The parameters of a decision graph.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathParameters {
    /// The share of relevance that critical neurons have together.
    pub alpha: f64,
    /// Clusters of each class.
    pub clusters: usize,
    /// The share of a cluster's members above which a neuron is abstract.
    pub beta: f64,
}

/// Shares of inputs whose prediction changes when neurons are masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inconsistency {
    /// When a set of neurons is masked.
    pub inc_c: f64,
    /// When all other neurons are.
    pub inc_nc: f64,
}

impl Inconsistency {
    /// What sets a good choice of neurons apart from a poor one: Inc.C - Inc.NC.
    pub fn difference(&self) -> f64 {
        self.inc_c - self.inc_nc
    }
}

/// What masking does to the paths of one alpha.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlphaPoint {
    /// The share of relevance that critical neurons have together.
    pub alpha: f64,
    /// The mean width of the paths.
    pub width: f64,
    /// With the critical decision path of each input.
    pub path: Inconsistency,
    /// With its most activated neurons instead, as many in each layer.
    pub activated: Inconsistency,
    /// With random neurons instead, as many in each layer.
    pub random: Inconsistency,
}

impl AlphaPoint {
    /// The controls whose difference of Inc.C and Inc.NC is at least the path's.
    pub fn rivals(&self) -> Vec<Control> {
        let controls = [
            (Control::Activated, self.activated),
            (Control::Random, self.random),
        ];
        let as_good = |inc: &Inconsistency| inc.difference() >= self.path.difference();
        controls
            .into_iter()
            .filter(|(_, inc)| as_good(inc))
            .map(|(control, _)| control)
            .collect()
    }
}

/// Another way to choose neurons, as many in each layer as a path has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// The most activated ones.
    Activated,
    /// Random ones.
    Random,
}

/// What masking does to the abstract paths of one choice of clusters and beta.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridPoint {
    /// Clusters of each class that were asked for.
    pub clusters: usize,
    /// The share of a cluster's members above which a neuron is abstract.
    pub beta: f64,
    /// Number of abstract paths, of all classes.
    pub paths: usize,
    /// Their mean width.
    pub width: f64,
    /// With the abstract path of its cluster for each input.
    pub path: Inconsistency,
}

/// Masks the critical decision paths of training inputs and the abstract paths of their clusters,
/// and recommends alpha, and then clusters and beta.
///
/// Of all points whose Inc.C is within 5 points of the best and whose Inc.NC is within 3 points of
/// the lowest, the one with the smallest width is recommended; of equal ones that with the smaller
/// alpha, or fewer clusters. When there is none, the one with the largest difference of the two is.
///
/// `progress` is told how many inputs more are done, [`TuneSettings::work`] says of how many. The
/// result does not depend on the number of threads.
///
/// ```
/// use npcov::data::{Dataset, Loader, Preprocessing};
/// use npcov::{Network, NetworkOptions, TuneSettings, tune};
///
/// # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
/// # let (model, data) = (format!("{fixtures}/lenet.onnx"), format!("{fixtures}/fashion-1000.npz"));
/// let network = Network::open(model, &NetworkOptions::default())?;
/// let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
/// let loader = Loader::new(Dataset::open(&data)?, network.sample_shape(), &scale)?;
///
/// let settings = TuneSettings { sample: Some(100), clusters: vec![1, 2], ..TuneSettings::default() };
/// let tuning = tune(&network, &loader, &settings, 2, &mut |_inputs| {})?;
/// let chosen = &tuning.alphas[tuning.alpha.point];
/// assert!(chosen.path.inc_c > 0.8 && chosen.path.inc_nc < 0.2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn tune(
    network: &Network,
    data: &Loader,
    settings: &TuneSettings,
    threads: usize,
    progress: &mut dyn FnMut(usize),
) -> Result<Tuning, Error> {
    let settings = settings.checked()?;
    let choices = &settings.choices;
    let name = || data.dataset().name().to_owned();
    let by_label = choices.population == Population::Correct || choices.members == Members::Correct;
    let labels = match by_label {
        true => Some(labels(network, data, 0..data.len())?.ok_or_else(|| Error::NoLabels(name()))?),
        false => None,
    };
    let sample = settings.sample(data);
    let extractor = PathExtractor::new(network, &settings.method, choices, &settings.alphas)?;
    let masked = MaskedNetwork::new(network)?;
    let grid = (&settings.alphas[..], choices);
    let sets = Sets::extract(&extractor, data, &sample, grid, threads, progress)?;
    let is_counted = |&position: &u32| match (choices.population, &labels) {
        (Population::Correct, Some(labels)) => {
            let position = position as usize;
            labels[sample[position]] == sets.predictions[position] as usize
        }
        _ => true,
    };
    let counted: Vec<u32> = (0..sample.len() as u32).filter(is_counted).collect();
    if counted.is_empty() {
        return Err(Error::NoInputs(name()));
    }

    let mut study = Study {
        masked: &masked,
        data,
        sample: &sample,
        sets: &sets,
        threads,
        progress,
    };
    let alphas = study.alphas(&settings, &counted)?;
    let points: Vec<_> = alphas
        .iter()
        .map(|point| (point.width, point.path))
        .collect();
    let alpha = recommend(&points).ok_or_else(|| Error::NoInputs(name()))?;
    let training = TrainingPaths {
        layout: extractor.layout().clone(),
        paths: sets.paths[alpha.point].clone(),
        predictions: sets.predictions.clone(),
        labels: labels.map(|l| sample.iter().map(|&row| l[row] as i64).collect()),
    };
    let grid = study.grid(&settings, &counted, training, network.classes())?;
    let points: Vec<_> = grid.iter().map(|point| (point.width, point.path)).collect();
    let abstraction = recommend(&points).ok_or_else(|| Error::NoInputs(name()))?;
    Ok(Tuning {
        data: name(),
        available: data.len(),
        inputs: sample.len(),
        counted: counted.len(),
        method: extractor.method().clone(),
        choices: choices.clone(),
        seed: settings.seed,
        rivals: alphas[alpha.point].rivals(),
        chosen: PathParameters {
            alpha: alphas[alpha.point].alpha,
            clusters: grid[abstraction.point].clusters,
            beta: grid[abstraction.point].beta,
        },
        alphas,
        alpha,
        grid,
        abstraction,
    })
}

impl TuneSettings {
    /// Inputs of all passes over the data: one that explains, and two for each set of neurons.
    pub fn work(&self, data: &Loader) -> usize {
        let inputs = self.sample.unwrap_or(data.len()).min(data.len());
        let sets = 3 * self.alphas.len() + self.clusters.len() * self.betas.len();
        inputs * (1 + 2 * sets)
    }

    fn sample(&self, data: &Loader) -> Vec<usize> {
        match self.sample {
            Some(count) if count < data.len() => random::sample(data.len(), count, self.seed),
            _ => (0..data.len()).collect(),
        }
    }

    /// The same in ascending order, if all parameters can be.
    fn checked(&self) -> Result<TuneSettings, Error> {
        let wrong = |name, value: String, wanted| {
            Err(Error::Parameter {
                name,
                value,
                wanted,
            })
        };
        let mut settings = self.clone();
        for (name, list) in [
            ("alpha", &mut settings.alphas),
            ("beta", &mut settings.betas),
        ] {
            list.sort_unstable_by(f64::total_cmp);
            if list.is_empty() {
                return wrong(name, "no number".to_owned(), "at least one");
            }
        }
        settings.clusters.sort_unstable();
        if settings.clusters.is_empty() {
            return wrong("clusters", "no number".to_owned(), "at least one");
        }
        if let Some(alpha) = self
            .alphas
            .iter()
            .find(|&&alpha| !(alpha > 0.0 && alpha <= 1.0))
        {
            return wrong("alpha", alpha.to_string(), "above 0 and at most 1");
        }
        if let Some(beta) = self.betas.iter().find(|beta| !(0.0..1.0).contains(*beta)) {
            return wrong("beta", beta.to_string(), "at least 0 and below 1");
        }
        if let Some(count) = self
            .clusters
            .iter()
            .find(|count| !(1..=1000).contains(*count))
        {
            return wrong("clusters", count.to_string(), "1 to 1000");
        }
        Ok(settings)
    }

    fn learning(&self, clusters: usize, beta: f64, classes: usize, threads: usize) -> Learning {
        let parameters = ClassParameters {
            clusters: Clusters::Fixed(clusters),
            beta,
        };
        Learning {
            classes: vec![parameters; classes],
            members: self.choices.members,
            merge: self.choices.merge,
            kmeans: KMeans {
                restarts: self.restarts,
                seed: self.seed,
                ..KMeans::default()
            },
            threads,
        }
    }
}
