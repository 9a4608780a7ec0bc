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

mod classes;
mod parts;
mod recommend;

use npcov_data::Loader;
use npcov_paths::{Choices, KMeans};
use serde::{Deserialize, Serialize};

use crate::{GridPoint, Inconsistency, MaskingOptions, MaskingStudy, Neurons};
pub use classes::{ChosenPoint, ClassChoice, Halves};
use npcov_run::{Event, Method, MethodInfo, Network, Progress, RunError};
pub use parts::{JoinedTuning, TuneError, TunedPart, join_tuning, tune_part};
use recommend::recommend;
pub use recommend::{Basis, Recommendation};

/// Which parameters are tried, on what.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneOptions {
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

impl Default for TuneOptions {
    /// The paper's grid, on 2,000 inputs.
    fn default() -> Self {
        let kmeans = KMeans::default();
        TuneOptions {
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
#[non_exhaustive]
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
    /// How many clusters the paths of a class have by themselves at the recommended alpha: the median
    /// of the classes.
    pub natural_clusters: usize,
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

/// Masks the critical decision paths of training inputs and the abstract paths of their clusters,
/// and recommends alpha, and then clusters and beta.
///
/// Of all points whose Inc.C is within 5 points of the best and whose Inc.NC is within 3 points of
/// the lowest, the one with the smallest width is recommended; of equal ones that with the smaller
/// alpha or beta. When there is none, the one with the largest difference of the two is.
///
/// Masking alone does not tell how many clusters there are: the fewer, the fewer neurons do their
/// members share, so the narrowest abstract paths that still decide tend to be those of one cluster. So
/// of the points that are good enough those with the least number of clusters that is not below
/// [`npcov_paths::number_of_clusters`] come first, or else the largest one.
///
/// `progress` is told how many inputs more are done, [`TuneOptions::work`] says of how many. The
/// result does not depend on the number of threads.
///
/// ```
/// use npcov_data::{Loader, Preprocessing, open};
/// use npcov_masking::{TuneOptions, tune};
/// use npcov_run::{Network, ModelOptions};
///
/// # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
/// # let (model, data) = (format!("{fixtures}/lenet.onnx"), format!("{fixtures}/fashion-1000.npz"));
/// let network = Network::open(model, &ModelOptions::default())?;
/// let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
/// let loader = Loader::new(open(&data)?, network.sample_shape(), &scale)?;
///
/// let options = TuneOptions { sample: Some(100), clusters: vec![1, 2], ..TuneOptions::default() };
/// let tuning = tune(&network, &loader, &options, 2, &mut ())?;
/// let chosen = &tuning.alphas[tuning.alpha.point];
/// assert!(chosen.path.inc_c > 0.8 && chosen.path.inc_nc < 0.2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn tune(
    network: &Network,
    data: &Loader,
    options: &TuneOptions,
    threads: usize,
    progress: &mut dyn Progress,
) -> Result<Tuning, RunError> {
    let options = options.checked()?;
    let masking = options.masking();
    let study = MaskingStudy::new(network, data, &masking, threads, progress)?;
    choose(&study, data, &options, progress)
}

/// Masks what was explained, and recommends parameters.
fn choose(
    study: &MaskingStudy<'_>,
    data: &Loader,
    options: &TuneOptions,
    progress: &mut dyn Progress,
) -> Result<Tuning, RunError> {
    let name = || data.name().to_owned();
    let (counted, inputs) = (study.counted(), study.sample().len());
    let alphas = mask_paths(study, options, progress)?;
    let points: Vec<_> = alphas
        .iter()
        .map(|point| ((), point.width, point.path))
        .collect();
    let alpha = recommend(&points).ok_or_else(|| RunError::NoInputs(name()))?;
    let (grid, natural, abstraction) =
        choose_clusters(study, data, options, alpha.point, &options.betas, progress)?;
    Ok(Tuning {
        data: name(),
        available: data.len(),
        inputs,
        counted: counted.len(),
        method: study.method().clone(),
        choices: options.choices.clone(),
        seed: options.seed,
        rivals: alphas[alpha.point].rivals(),
        chosen: PathParameters {
            alpha: alphas[alpha.point].alpha,
            clusters: grid[abstraction.point].clusters,
            beta: grid[abstraction.point].beta,
        },
        alphas,
        alpha,
        natural_clusters: natural,
        grid,
        abstraction,
    })
}

/// Masks abstract paths at one alpha, and recommends clusters and beta: what masking did, how many clusters there are
/// by themselves, and the recommendation.
fn choose_clusters(
    study: &MaskingStudy<'_>,
    data: &Loader,
    options: &TuneOptions,
    alpha: usize,
    betas: &[f64],
    progress: &mut dyn Progress,
) -> Result<(Vec<GridPoint>, usize, Recommendation), RunError> {
    // What does not count is as good as done.
    let spared = 2 * (study.sample().len() - study.counted().len());
    let mut grid: Vec<GridPoint> = Vec::new();
    for &clusters in &options.clusters {
        let clustered = study.cluster(alpha, clusters);
        for &beta in betas {
            progress.tell(Event::Finished(spared))?;
            grid.push(study.abstract_paths(&clustered, beta, progress)?);
        }
    }
    let most = options.clusters.last().copied().unwrap_or(1);
    let natural = study.number_of_clusters(alpha, most);
    // Not fewer than there are, and not many more.
    let rank = |clusters: usize| (clusters < natural, clusters.abs_diff(natural));
    let points: Vec<_> = grid
        .iter()
        .map(|point| (rank(point.clusters), point.width, point.path))
        .collect();
    let abstraction =
        recommend(&points).ok_or_else(|| RunError::NoInputs(data.name().to_owned()))?;
    Ok((grid, natural, abstraction))
}

/// Masks paths of single inputs, and their controls.
fn mask_paths(
    study: &MaskingStudy<'_>,
    options: &TuneOptions,
    progress: &mut dyn Progress,
) -> Result<Vec<AlphaPoint>, RunError> {
    let counted = study.counted();
    let spared = 2 * (study.sample().len() - counted.len());
    let mut alphas = Vec::new();
    for (i, &alpha) in options.alphas.iter().enumerate() {
        let mut masked = |neurons| {
            progress.tell(Event::Finished(spared))?;
            study.inconsistency(i, neurons, counted, progress)
        };
        alphas.push(AlphaPoint {
            alpha,
            width: study.width(i),
            path: masked(Neurons::Path)?,
            activated: masked(Neurons::Activated)?,
            random: masked(Neurons::Random)?,
        });
    }
    Ok(alphas)
}

impl TuneOptions {
    /// What is explained.
    fn masking(&self) -> MaskingOptions {
        MaskingOptions {
            method: self.method.clone(),
            choices: self.choices.clone(),
            sample: self.sample,
            alphas: self.alphas.clone(),
            bands: None,
            restarts: self.restarts,
            seed: self.seed,
            keep: None,
        }
    }

    /// Inputs that are masked, where so many are available.
    pub fn inputs(&self, available: usize) -> usize {
        self.sample.unwrap_or(available).min(available)
    }

    /// Inputs of all passes over the data: one that explains, and two for each set of neurons.
    pub fn work(&self, available: usize) -> usize {
        let inputs = self.inputs(available);
        let sets = 3 * self.alphas.len() + self.clusters.len() * self.betas.len();
        inputs * (1 + 2 * sets)
    }

    /// The same in ascending order, if all parameters can be.
    fn checked(&self) -> Result<TuneOptions, RunError> {
        let wrong = |name, value: String, wanted| {
            Err(RunError::Parameter {
                name,
                value,
                wanted,
            })
        };
        let mut options = self.clone();
        for (name, list) in [("alpha", &mut options.alphas), ("beta", &mut options.betas)] {
            list.sort_unstable_by(f64::total_cmp);
            if list.is_empty() {
                return wrong(name, "no number".to_owned(), "at least one");
            }
        }
        options.clusters.sort_unstable();
        if options.clusters.is_empty() {
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
        Ok(options)
    }
}
