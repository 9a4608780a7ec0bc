//! Critical decision paths of inputs: where relevances become sets of neurons.

use std::ops::Range;

use npcov_data::Loader;
use npcov_graph::Ending;
use npcov_paths::choices::SeedChoice;
use npcov_paths::profile::push_profile;
use npcov_paths::{BitRows, Choices, Input, PathLayout, PathRule, bits};
use npcov_program::{ProgramError, Tap};

use crate::error::RunError;
use crate::explainer::{ExplainOptions, Explainer, Row};
use crate::masked::read_rows;
use crate::method::{Method, MethodInfo};
use crate::network::Network;
use crate::signature::Signature;
use crate::tracer::{TracedRows, Tracer, Watch};

/// A network whose inputs' critical decision paths can be extracted.
pub struct PathExtractor {
    explainer: Explainer,
    layout: PathLayout,
    /// By class.
    rules: Vec<PathRule>,
    seed: SeedChoice,
}

/// The paths and activations of some inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathRows {
    /// Positions in the dataset.
    pub rows: Range<usize>,
    /// The predicted classes.
    pub predictions: Vec<u32>,
    /// The logits, inputs one after the other.
    pub logits: Vec<f32>,
    /// The critical decision paths; no rows where they are not extracted.
    pub paths: BitRows,
    /// The relevance profiles, one byte for each neuron of all layers; nothing where paths are not
    /// extracted.
    pub profiles: Vec<u8>,
    /// One activation for each neuron of all layers, inputs one after the other.
    pub activations: Vec<f32>,
    /// What [`Extras`] name, for each tap inputs one after the other.
    pub taps: Vec<Vec<f32>>,
    /// One importance for each neuron of the layer that [`Extras`] name, inputs one after the
    /// other.
    pub importance: Vec<f32>,
}

/// What is extracted besides paths and activations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    /// Other numbers of path layers. Activations are there in any case.
    pub taps: Vec<Tap>,
    /// Numbers of path layers that are looked at while they are computed, and are no results.
    pub watched: Vec<Tap>,
    /// A layer whose neurons' importance is wanted.
    pub importance: Option<usize>,
}

impl Extras {
    /// Whether a tap is a result.
    pub fn keep(&self, tap: Tap) -> bool {
        tap == Tap::activation(tap.layer) || self.taps.contains(&tap)
    }

    /// Everything that is computed.
    pub fn all_taps(&self) -> Vec<Tap> {
        [&self.taps[..], &self.watched].concat()
    }
}

impl PathRows {
    /// An input, as it is held against a decision graph.
    pub fn input(&self, place: usize) -> Input<'_> {
        let neurons = self.activations.len() / self.rows.len().max(1);
        Input {
            class: self.predictions[place] as usize,
            path: self.paths.row(place),
            activations: &self.activations[place * neurons..(place + 1) * neurons],
            training: None,
        }
    }

    /// Which of the inputs are predicted as a class, and their profiles, one after the other.
    pub fn of_class(&self, class: usize) -> (Vec<usize>, Vec<u8>) {
        let all = 0..self.predictions.len();
        let places: Vec<usize> = all
            .filter(|&place| self.predictions[place] as usize == class)
            .collect();
        let width = self.profiles.len() / self.predictions.len().max(1);
        let profile = |&place: &usize| &self.profiles[place * width..(place + 1) * width];
        let profiles = places.iter().flat_map(profile).copied().collect();
        (places, profiles)
    }

    /// Makes room for other inputs.
    pub fn clear(&mut self, rows: Range<usize>) {
        self.rows = rows;
        self.predictions.clear();
        self.logits.clear();
        self.profiles.clear();
        self.activations.clear();
        self.taps.iter_mut().for_each(Vec::clear);
        self.importance.clear();
    }

    /// Adds the next input, but for its path.
    pub fn push(&mut self, row: &Row<'_>) {
        self.predictions.push(row.prediction as u32);
        self.logits.extend_from_slice(row.logits);
        for activations in &row.activations {
            self.activations.extend_from_slice(activations);
        }
        self.taps.resize_with(row.taps.len(), Vec::new);
        for (tap, values) in self.taps.iter_mut().zip(&row.taps) {
            tap.extend_from_slice(values);
        }
        self.importance
            .extend_from_slice(row.importance.unwrap_or(&[]));
    }
}

impl PathExtractor {
    /// Prepares the extraction; `alpha` gives the share of relevance for each class.
    pub fn new(
        network: &Network,
        method: &Method,
        choices: &Choices,
        alpha: &[f64],
    ) -> Result<PathExtractor, RunError> {
        PathExtractor::with_extras(network, method, choices, alpha, &Extras::default())
    }

    /// The same, with more than paths and activations.
    pub fn with_extras(
        network: &Network,
        method: &Method,
        choices: &Choices,
        alpha: &[f64],
        extras: &Extras,
    ) -> Result<PathExtractor, RunError> {
        let settings = ExplainOptions {
            method: method.clone(),
            activations: true,
            taps: extras.all_taps(),
            importance: extras.importance,
            ..ExplainOptions::default()
        };
        let explainer = Explainer::showing(network, &settings, extras)?;
        PathExtractor::explaining(explainer, choices, alpha)
    }

    /// Extracts paths from what an explainer computes.
    pub fn explaining(
        explainer: Explainer,
        choices: &Choices,
        alpha: &[f64],
    ) -> Result<PathExtractor, RunError> {
        if let Some(&alpha) = alpha.iter().find(|&&alpha| !(alpha > 0.0 && alpha <= 1.0)) {
            return Err(RunError::Parameter {
                name: "alpha",
                value: alpha.to_string(),
                wanted: "above 0 and at most 1",
            });
        }
        let layers = explainer.signature().layers();
        if layers.is_empty() && !alpha.is_empty() {
            return Err(ProgramError::NoLayers.into());
        }
        let rule = |&alpha: &f64| PathRule {
            alpha,
            threshold: choices.threshold,
            empty_layer: choices.empty_layer,
        };
        Ok(PathExtractor {
            layout: PathLayout::new(layers.iter().map(|l| l.neurons).collect::<Vec<_>>()),
            rules: alpha.iter().map(rule).collect(),
            seed: choices.seed,
            explainer,
        })
    }

    /// The path layers.
    pub fn layout(&self) -> &PathLayout {
        &self.layout
    }

    /// The share of relevance that critical neurons of inputs of a class have together.
    pub fn alpha(&self, class: usize) -> f64 {
        self.rules.get(class).map_or(0.0, |rule| rule.alpha)
    }

    /// What the network takes and gives.
    pub fn signature(&self) -> &Signature {
        self.explainer.signature()
    }

    /// How relevances are computed.
    pub fn method(&self) -> &MethodInfo {
        self.explainer.method()
    }

    /// The explanations that paths are taken from.
    pub fn explainer(&self) -> &Explainer {
        &self.explainer
    }

    /// The program behind it.
    pub fn tracer(&self) -> &Tracer {
        self.explainer.tracer()
    }

    /// Extracts the paths of a range of a dataset on `threads` threads, and hands them to `sink` in
    /// the order of the dataset.
    pub fn run<E: From<RunError>>(
        &self,
        data: &Loader,
        range: Range<usize>,
        threads: usize,
        sink: impl FnMut(&PathRows) -> Result<(), E>,
    ) -> Result<(), E> {
        self.run_watched(data, range, threads, &Watch::NONE, sink)
    }

    /// The same; what is computed by the way is watched.
    pub fn run_watched<E: From<RunError>>(
        &self,
        data: &Loader,
        range: Range<usize>,
        threads: usize,
        watch: &Watch<'_>,
        mut sink: impl FnMut(&PathRows) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut paths = PathRows::default();
        let tracer = self.tracer();
        tracer.run_watched(data, range, threads, watch, |batch| {
            self.extract(batch, &mut paths)?;
            sink(&paths)
        })
    }

    /// The same for rows of a dataset in any order: batches have positions in `rows`.
    pub fn run_rows<E: From<RunError>>(
        &self,
        data: &Loader,
        rows: &[usize],
        threads: usize,
        mut sink: impl FnMut(&PathRows) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut paths = PathRows::default();
        let feed = |places: Range<usize>, inputs: &mut [&mut [f32]]| {
            read_rows(data, &rows[places], inputs)
        };
        self.tracer()
            .run_fed(&feed, 0..rows.len(), threads, |batch| {
                self.extract(batch, &mut paths)
                    .map_err(|error| error.of_row(rows))?;
                sink(&paths)
            })
    }

    /// The paths of a batch of the [tracer](PathExtractor::tracer)'s results.
    pub fn extract(&self, batch: &TracedRows, out: &mut PathRows) -> Result<(), RunError> {
        out.clear(batch.rows.clone());
        out.paths = BitRows::zeros(self.layout.width(), batch.rows.len());
        for (place, index) in batch.rows.clone().enumerate() {
            let row = self.explainer.row(batch, index)?;
            out.push(&row);
            push_profile(row.layers.iter().copied(), &mut out.profiles);
            if let Some(rule) = self.rules.get(row.prediction) {
                self.select(&row, rule, out.paths.row_mut(place));
            }
        }
        Ok(())
    }

    /// Adds the neurons that a rule selects for an input to `path`.
    pub fn select(&self, row: &Row<'_>, rule: &PathRule, path: &mut [u64]) {
        self.select_layers(row, rule, |layer, critical| {
            let set = self.layout.layer_mut(path, layer);
            critical
                .iter()
                .for_each(|&neuron| bits::set(set, neuron as usize));
        });
    }

    /// The same neurons by layer, the most relevant first.
    pub fn select_ordered(&self, row: &Row<'_>, rule: &PathRule, out: &mut Vec<Vec<u32>>) {
        out.resize_with(self.layout.layers(), Vec::new);
        self.select_layers(row, rule, |layer, critical| {
            out[layer].clear();
            out[layer].extend_from_slice(critical);
        });
    }

    fn select_layers(&self, row: &Row<'_>, rule: &PathRule, mut sink: impl FnMut(usize, &[u32])) {
        let factor = self.factor(row);
        let seed = f64::from(row.seed) * factor;
        // A gradient's logit may be negative, and nothing positive is a share of it.
        let shares = self.seed == SeedChoice::LogitOrOne && seed <= 0.0;
        let mut critical = Vec::new();
        let mut scaled = Vec::new();
        for (layer, relevances) in row.layers.iter().enumerate() {
            scaled.clear();
            scaled.extend(relevances.iter().map(|&r| (f64::from(r) * factor) as f32));
            let cut = self.signature().layers()[layer].cut && !shares;
            rule.select(&scaled, seed, cut, &mut critical);
            sink(layer, &critical);
        }
    }

    /// What relevances are multiplied with to be those of the chosen seed. They are proportional to
    /// the seed, so that no other program is needed.
    fn factor(&self, row: &Row<'_>) -> f64 {
        // Of numbers, how far they deviate is all there is.
        if self.signature().numbers().is_some() {
            return 1.0;
        }
        let logit = |class| {
            self.signature()
                .logit(row.logits, class)
                .map_or(0.0, f64::from)
        };
        match self.seed {
            SeedChoice::LogitOrOne => 1.0,
            SeedChoice::Logit if row.seed_is_one => logit(row.prediction),
            SeedChoice::Logit => 1.0,
            SeedChoice::LogProbability if row.seed == 0.0 => 1.0,
            SeedChoice::LogProbability => {
                let own = logit(row.prediction);
                let others: f64 = match self.signature().ending() {
                    // The logarithm of sigmoid(z) is -ln(1 + exp(-z)).
                    Ending::Sigmoid => 1.0 + (-own).exp(),
                    _ => row.logits.iter().map(|&z| (f64::from(z) - own).exp()).sum(),
                };
                -others.ln() / f64::from(row.seed)
            }
        }
    }
}
