//! RQ1: does the critical decision path affect the decision?
//!
//! Paths are masked, and all neurons but the path, for several alphas; beside them as many of the
//! most activated neurons, as many random ones, and the path of an input of another class. The path
//! of one alpha is cut into fifths by relevance. And the paths of correctly classified inputs are
//! compared, within classes and between them.

use npcov::data::Loader;
use npcov::masking::{
    Cut, Inconsistency, MaskingOptions, MaskingStudy, Neurons, Shift, StrangerPoint,
};
use npcov::paths::{BitRows, Choices, band, rounded_band};
use npcov::run::{Method, MethodInfo, Network, PathExtractor, Progress};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, parameter};
use crate::folder::{EXPLAINED, WorkFolder};
use crate::inputs::{TrainingAndTest, correct_of_each_class, labels};
use crate::published::{Masking, Paper};
use crate::random::{Purpose, some};
use crate::similarity::{Similarities, by_distance, similarities};

/// How RQ1 is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rq1Settings {
    /// How relevances are computed.
    pub method: Method,
    /// What else can be chosen.
    pub choices: Choices,
    /// How many inputs are drawn from the training data; `None` for all.
    pub sample: Option<usize>,
    /// Shares of relevance that critical neurons have together.
    pub alphas: Vec<f64>,
    /// The one whose paths are cut into fifths.
    pub band_alpha: f64,
    /// How paths are cut.
    pub bands: Bands,
    /// How many of the inputs that count the controls are masked for; `None` for all.
    pub controls: Option<usize>,
    /// How many inputs of each class are compared.
    pub per_class: usize,
    /// Seed of every draw.
    pub seed: u64,
    /// The network of the paper whose numbers stand beside.
    pub paper: Option<Paper>,
}

impl Default for Rq1Settings {
    fn default() -> Self {
        Rq1Settings {
            method: Method::default(),
            choices: Choices::default(),
            sample: None,
            alphas: vec![0.7, 0.8, 0.9, 1.0],
            band_alpha: 0.8,
            bands: Bands::Even,
            controls: Some(10_000),
            per_class: 100,
            seed: 0,
            paper: None,
        }
    }
}

/// How a path is cut into fifths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bands {
    /// What does not divide evenly goes to the more relevant fifths.
    #[default]
    Even,
    /// As in the authors' code: equal slices, and what rounding loses is in none.
    Rounded,
}

impl Bands {
    fn cut(self) -> Cut {
        match self {
            Bands::Even => band,
            Bands::Rounded => rounded_band,
        }
    }
}

/// What RQ1 gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq1 {
    /// The training data, as it was named.
    pub data: String,
    /// Inputs in it.
    pub available: usize,
    /// Inputs that were explained.
    pub inputs: usize,
    /// How many of those count.
    pub counted: usize,
    /// How many the controls were masked for.
    pub controls: usize,
    /// The data whose paths were compared, as it was named.
    pub similarity_data: String,
    /// Inputs that were compared.
    pub compared: usize,
    /// How relevances are computed.
    pub method: MethodInfo,
    /// What else was chosen.
    pub choices: Choices,
    /// Seed of every draw.
    pub seed: u64,
    /// The network of the paper whose numbers stand beside.
    pub paper: Option<Paper>,
    /// By alpha.
    pub points: Vec<Rq1Point>,
    /// Fifths of paths.
    pub bands: Rq1Bands,
}

/// What masking does at one alpha.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq1Point {
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
    /// With the path of an input of another class instead.
    pub stranger: StrangerPoint,
    /// How far numbers move with each of those, where the model gives numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<Rq1Shift>,
    /// How similar paths are, within classes and between them.
    pub similarity: Similarities,
    /// Of numbers in bins: how similar paths are whose bins are so far apart, by distance from 0. `None` without such
    /// pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub similarity_by_distance: Vec<Option<f64>>,
    /// Width, Inc.C and Inc.NC of the paper, in per cent.
    pub published: Option<Masking>,
    /// Similarities of the paper within classes and between them, in per cent.
    pub published_similarity: Option<[f64; 2]>,
}

/// How far numbers move when neurons are masked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq1Shift {
    /// With the critical decision path of each input.
    pub path: Shift,
    /// With its most activated neurons.
    pub activated: Shift,
    /// With random neurons.
    pub random: Shift,
    /// With the path of an input of another bin.
    pub stranger: Shift,
}

/// What masking fifths of paths does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq1Bands {
    /// The alpha of the paths.
    pub alpha: f64,
    /// How they were cut.
    pub form: Bands,
    /// Shares of inputs whose prediction changes, by fifth, the most relevant first.
    pub inconsistency: Vec<f64>,
    /// The paper's, in per cent.
    pub published: Option<[f64; 5]>,
}

/// What a finished study leaves.
#[derive(Serialize, Deserialize)]
struct Head {
    inputs: usize,
    counted: usize,
    controls: usize,
    method: MethodInfo,
    widths: Vec<f64>,
}

impl Rq1Settings {
    /// Inputs of all passes over the training data.
    pub fn work(&self, data: &Loader) -> usize {
        let inputs = self.sample.unwrap_or(data.len()).min(data.len());
        let controls = self.controls.unwrap_or(inputs).min(inputs);
        let alphas = self.alphas.len();
        inputs * (1 + 2 * alphas + MaskingStudy::FIFTHS) + controls * 6 * alphas
    }

    fn check(&self) -> Result<(), LabError> {
        let is_alpha = |&alpha: &f64| alpha > 0.0 && alpha <= 1.0;
        let mut alphas = self.alphas.iter().chain([&self.band_alpha]);
        match alphas.find(|alpha| !is_alpha(alpha)) {
            _ if self.alphas.is_empty() => parameter("alphas", "no number", "at least one"),
            Some(alpha) => parameter("alpha", alpha, "above 0 and at most 1"),
            None if self.per_class == 0 => parameter("per-class", 0, "1 or more"),
            None if self.sample == Some(0) => parameter("sample", 0, "1 or more"),
            None if self.controls == Some(0) => parameter("controls", 0, "1 or more"),
            None => Ok(()),
        }
    }
}

/// Masks paths of training data, and compares those of test data. What is finished is kept in `work`, whose
/// plan must tell model, data and settings apart; `progress` is told how many inputs more are done,
/// [`Rq1Settings::work`] says of how many.
pub fn rq1(
    network: &Network,
    TrainingAndTest {
        training: data,
        test,
    }: TrainingAndTest<&Loader<'_>>,
    settings: &Rq1Settings,
    work: &WorkFolder,
    threads: usize,
    progress: &mut dyn Progress,
) -> Result<Rq1, LabError> {
    settings.check()?;
    // Said before hours of work, not after them.
    labels(network, test)?;
    let alphas = &settings.alphas;
    let masking = MaskingOptions {
        method: settings.method.clone(),
        choices: settings.choices.clone(),
        sample: settings.sample,
        alphas: alphas.clone(),
        bands: Some((settings.band_alpha, settings.bands.cut())),
        restarts: 1,
        seed: settings.seed,
        keep: Some(work.keep_in(EXPLAINED)),
    };
    let names = |kind: &'static str| (0..alphas.len()).map(move |i| format!("{kind}-{i}"));
    let bands = (0..MaskingStudy::FIFTHS).map(|fifth| format!("band-{fifth}"));
    let kinds = ["path", "activated", "random", "stranger"];
    let mut parts = kinds.into_iter().flat_map(names).chain(bands);
    let is_open = !work.has("head") || parts.any(|part| !work.has(&part));
    let study = match is_open {
        true => Some(MaskingStudy::new(
            network, data, &masking, threads, progress,
        )?),
        false => None,
    };
    let missing = || LabError::Folder {
        folder: work.file("").display().to_string(),
        reason: "a finished part cannot be read; remove the folder".to_owned(),
    };
    let study = || study.as_ref().ok_or_else(missing);
    let controls = |study: &MaskingStudy<'_>| match settings.controls {
        Some(count) => some(study.counted(), count, settings.seed, Purpose::Controls),
        None => study.counted().to_vec(),
    };
    let head: Head = work.keep("head", || {
        let study = study()?;
        Ok(Head {
            inputs: study.sample().len(),
            counted: study.counted().len(),
            controls: controls(study).len(),
            method: study.method().clone(),
            widths: (0..alphas.len()).map(|i| study.width(i)).collect(),
        })
    })?;

    let mut points = Vec::new();
    let similarity = compare(network, test, settings, work, threads)?;
    for (i, &alpha) in alphas.iter().enumerate() {
        type Masked = (Inconsistency, Option<Shift>);
        let mut masked = |kind: &str, neurons: Neurons| -> Result<Masked, LabError> {
            work.keep(&format!("{kind}-{i}"), || {
                let study = study()?;
                let inputs = match neurons {
                    Neurons::Path => study.counted().to_vec(),
                    _ => controls(study),
                };
                Ok(study.inconsistency_and_shift(i, neurons, &inputs, progress)?)
            })
        };
        let (path, path_shift) = masked("path", Neurons::Path)?;
        let (activated, activated_shift) = masked("activated", Neurons::Activated)?;
        let (random, random_shift) = masked("random", Neurons::Random)?;
        let mut stranger: StrangerPoint = work.keep(&format!("stranger-{i}"), || {
            let study = study()?;
            Ok(study.stranger(i, &controls(study), progress)?)
        })?;
        let shifts = (
            path_shift,
            activated_shift,
            random_shift,
            stranger.shift.take(),
        );
        let shift = match shifts {
            (Some(path), Some(activated), Some(random), Some(stranger)) => Some(Rq1Shift {
                path,
                activated,
                random,
                stranger,
            }),
            _ => None,
        };
        let compared = similarity.0.get(i).ok_or_else(missing)?;
        points.push(Rq1Point {
            alpha,
            width: head.widths.get(i).copied().ok_or_else(missing)?,
            path,
            activated,
            random,
            stranger,
            shift,
            similarity: compared.0,
            similarity_by_distance: compared.1.clone(),
            published: settings
                .paper
                .and_then(|paper| paper.published().masking_at(alpha)),
            published_similarity: settings
                .paper
                .and_then(|paper| paper.published().similarity_at(alpha)),
        });
    }
    let mut inconsistency = Vec::new();
    for fifth in 0..MaskingStudy::FIFTHS {
        inconsistency.push(work.keep(&format!("band-{fifth}"), || {
            let study = study()?;
            let found = study.band(fifth, study.counted(), progress)?;
            found.ok_or_else(missing)
        })?);
    }
    work.remove(&work.file(EXPLAINED))?;
    Ok(Rq1 {
        data: data.name().to_owned(),
        available: data.len(),
        inputs: head.inputs,
        counted: head.counted,
        controls: head.controls,
        similarity_data: test.name().to_owned(),
        compared: similarity.1,
        method: head.method,
        choices: settings.choices.clone(),
        seed: settings.seed,
        paper: settings.paper,
        points,
        bands: Rq1Bands {
            alpha: settings.band_alpha,
            form: settings.bands,
            inconsistency,
            published: settings.paper.map(|paper| paper.published().bands),
        },
    })
}

/// Similarities by class, and by distance of bins.
type Compared = (Similarities, Vec<Option<f64>>);

/// Similarities of the paths of correctly classified inputs by alpha, and how many there were.
fn compare(
    network: &Network,
    test: &Loader,
    settings: &Rq1Settings,
    work: &WorkFolder,
    threads: usize,
) -> Result<(Vec<Compared>, usize), LabError> {
    work.keep("similarity", || {
        let (each, seed) = (settings.per_class, settings.seed);
        let rows = correct_of_each_class(network, test, each, seed, threads)?;
        let choices = &settings.choices;
        let mut found = Vec::new();
        for &alpha in &settings.alphas {
            let alpha = vec![alpha; network.classes()];
            let extractor = PathExtractor::new(network, &settings.method, choices, &alpha)?;
            let mut classes = Vec::new();
            let mut paths = BitRows::new(extractor.layout().width());
            extractor.run_rows(test, &rows, threads, |batch| -> Result<(), npcov::Error> {
                classes.extend_from_slice(&batch.predictions);
                batch.paths.rows().for_each(|path| paths.push(path));
                Ok(())
            })?;
            let layout = extractor.layout();
            let kind = choices.similarity;
            let by_class =
                similarities(layout, &paths, kind, |a, b| Some(classes[a] == classes[b]));
            // Bins have an order; outputs that are looked at together have none.
            let numbers = network.signature().numbers();
            let distances = match numbers.is_some_and(|numbers| numbers.output.is_some()) {
                true => by_distance(layout, &paths, kind, &classes, network.classes()),
                false => Vec::new(),
            };
            found.push((by_class, distances));
        }
        Ok((found, rows.len()))
    })
}
