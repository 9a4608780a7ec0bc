//! How suites are measured against a decision graph: by which criteria, with which choices.

use std::sync::OnceLock;

use npcov_artefact::{CoverageState, CriterionRecord, StateRecord};
use npcov_criteria::{Batch, CriterionSet, InputNumbers, Member, Spec};
use npcov_paths::{AnpcLayer, Choices, Observation, Observer, PathGraph};
use npcov_run::{Extraction, Extras, PathExtractor, PathRows};

use crate::error::CoverageError;
use crate::graph::LearntGraph;
use crate::scores::{Scorer, Scores};

/// What can be chosen about measuring.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoverOptions {
    /// The criteria; all that the graph was built for by default.
    pub criteria: Option<Vec<Spec>>,
    /// How paths are compared; as the graph says by default. Those choices that made paths and the
    /// graph stay the graph's own.
    pub choices: Option<Choices>,
}

/// A decision graph with criteria that are ready to measure suites.
pub struct Measurement<'g> {
    graph: &'g LearntGraph,
    choices: Choices,
    criteria: CriterionSet,
    records: Vec<CriterionRecord>,
    extraction: OnceLock<Extraction>,
    scorer: OnceLock<Scorer>,
    scores_inputs: bool,
}

impl LearntGraph {
    /// Prepares to measure. A criterion that must be fitted to the training data and was not is an
    /// error.
    pub fn measurement(&self, options: &CoverOptions) -> Result<Measurement<'_>, CoverageError> {
        let record = self.file().record();
        let choices = match &options.choices {
            None => record.choices.clone(),
            Some(choices) => Choices {
                threshold: record.choices.threshold,
                empty_layer: record.choices.empty_layer,
                seed: record.choices.seed,
                members: record.choices.members,
                merge: record.choices.merge,
                ..choices.clone()
            },
        };
        let specs = options.criteria.clone().unwrap_or_else(|| record.specs());
        let mut criteria = CriterionSet::new(&specs, record.network_shape(&choices))?;
        // The graph's own choices made what training inputs are known to cover.
        let unlike = choices != record.choices;
        let mut records = Vec::new();
        for i in 0..criteria.members().len() {
            let Member {
                spec,
                criterion,
                needs,
            } = &criteria.members()[i];
            let (spec, fitted) = (spec.clone(), criterion.fitted_options());
            let depends = unlike && needs.paths;
            let known = record
                .criteria
                .iter()
                .find(|c| c.criterion.name == spec.name && c.fitted == fitted);
            let fit = known.map(|known| self.file().fit(known)).transpose()?;
            let restored = criteria.restore(i, fit.unwrap_or_default());
            restored.map_err(|source| match known {
                Some(_) => spec.failed(source).into(),
                None => self.not_fitted(&spec),
            })?;
            records.push(CriterionRecord {
                arrays: Vec::new(),
                // What training inputs cover depends on all options.
                training_coverage: known
                    .filter(|known| known.criterion == spec && !depends)
                    .and_then(|known| known.training_coverage.clone()),
                criterion: spec,
                fitted,
            });
        }
        Ok(Measurement {
            graph: self,
            choices,
            criteria,
            records,
            extraction: OnceLock::new(),
            scorer: OnceLock::new(),
            scores_inputs: true,
        })
    }

    fn not_fitted(&self, spec: &Spec) -> CoverageError {
        let specs = self.file().record().specs();
        let has: Vec<String> = specs.iter().map(Spec::to_string).collect();
        CoverageError::NotFitted {
            graph: self.file().name().to_owned(),
            criterion: spec.to_string(),
            has: match &has[..] {
                [] => "none".to_owned(),
                has => has.join(", "),
            },
        }
    }
}

impl<'g> Measurement<'g> {
    /// The decision graph.
    pub fn graph(&self) -> &'g LearntGraph {
        self.graph
    }

    /// The criteria that are measured.
    pub fn criteria(&self) -> &CriterionSet {
        &self.criteria
    }

    /// The choices that suites are measured with.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// What is extracted of inputs to measure them, prepared once.
    pub fn extraction(&self) -> Result<&Extraction, CoverageError> {
        match self.extraction.get() {
            Some(extraction) => Ok(extraction),
            None => {
                let prepared = self.prepare()?;
                Ok(self.extraction.get_or_init(|| prepared))
            }
        }
    }

    /// The same without telling of single inputs where they belong and how usual they are there, which no criterion
    /// needs: they have no clusters and scores.
    pub fn without_scores(self) -> Measurement<'g> {
        Measurement {
            scores_inputs: false,
            ..self
        }
    }

    /// Where inputs belong in the graph, and how usual they are there. Nothing is told where no
    /// criterion needs paths.
    pub fn scores(&self, rows: &PathRows, threads: usize) -> Result<Vec<Scores>, CoverageError> {
        if rows.profiles.is_empty() || !self.scores_inputs {
            return Ok(vec![Scores::NONE; rows.predictions.len()]);
        }
        self.scorer()?.scores(self.graph.file(), rows, threads)
    }

    /// The cluster of each of some inputs, or [`NO_CLUSTER`](npcov_paths::NO_CLUSTER): what
    /// [`scores`](Measurement::scores) tells of them, without the rest.
    pub fn clusters(&self, rows: &PathRows, threads: usize) -> Result<Vec<u32>, CoverageError> {
        let placed = self.scorer()?.placed(self.graph.file(), rows, threads)?;
        Ok(placed.into_iter().map(|place| place.cluster).collect())
    }

    fn scorer(&self) -> Result<&Scorer, CoverageError> {
        match self.scorer.get() {
            Some(scorer) => Ok(scorer),
            None => {
                let prepared = Scorer::new(self.graph.file())?;
                Ok(self.scorer.get_or_init(|| prepared))
            }
        }
    }

    fn prepare(&self) -> Result<Extraction, CoverageError> {
        let extras = Extras {
            taps: self.criteria.taps().to_vec(),
            watched: self.criteria.watched().to_vec(),
            importance: None,
        };
        let (network, method) = (self.graph.network(), self.graph.method());
        if !self.criteria.need_paths() {
            return Ok(Extraction::trace(network, &extras)?);
        }
        let alpha = &self.graph.file().record().extraction.alpha;
        let extractor = PathExtractor::with_extras(network, method, &self.choices, alpha, &extras)?;
        Ok(Extraction::Paths(Box::new(extractor)))
    }

    /// The layers of ANPC; none where no criterion needs neighbours, because looking for them takes
    /// long.
    pub fn anpc(&self) -> Vec<AnpcLayer> {
        match self.criteria.need_neighbours(|_| true) {
            true => self.graph.file().record().anpc.layers(),
            false => Vec::new(),
        }
    }

    /// Looks at inputs as criteria do; `anpc` are the layers whose neighbours are sought.
    pub fn observer<'a>(&'a self, anpc: &'a [AnpcLayer]) -> Observer<'a> {
        Observer::new(self.graph.file().graph(), &self.choices, anpc)
    }

    /// Inputs as criteria see them.
    pub fn batch<'a>(&self, rows: &'a PathRows, observations: &'a [Observation]) -> Batch<'a> {
        self.criteria.batch(numbers(rows), observations)
    }

    /// Looks at one input of some.
    pub fn observe(&self, rows: &PathRows, place: usize) -> Result<Observation, CoverageError> {
        let anpc = self.graph.file().record().anpc.layers();
        let observed = self
            .observer(&anpc)
            .observe(rows.input(place), self.graph.file());
        Ok(observed?)
    }

    /// A state without suites.
    pub fn state(&self) -> CoverageState {
        let file = self.graph.file();
        let record = file.record();
        let classes = record.classes.iter();
        let state = StateRecord {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            graph: record.id.clone(),
            choices: self.choices.clone(),
            anpc: record.anpc.clone(),
            classes: classes.map(|c| (c.planned, c.clusters)).collect(),
            shares: record.shares.clone(),
            training_labels: training_labels(file.graph()),
            class_names: record.classes.iter().map(|c| c.name.clone()).collect(),
            layers: record.extraction.layers.clone(),
            sums: record.extraction.sums.clone(),
            logits: record.extraction.logits,
            model: record.extraction.model.sha256.clone(),
            arithmetic: self.graph.network().engine().record().arithmetic,
            criteria: self.records.clone(),
            suites: Vec::new(),
        };
        CoverageState::new(state, file.calibration().clone())
    }
}

/// By class: training inputs that are labelled as it; empty without labels.
fn training_labels(graph: &PathGraph) -> Vec<u64> {
    let Some(labels) = &graph.training().labels else {
        return Vec::new();
    };
    let mut counts = vec![0; graph.classes().len()];
    for label in labels.iter() {
        let class = usize::try_from(label).ok();
        if let Some(count) = class.and_then(|class| counts.get_mut(class)) {
            *count += 1;
        }
    }
    counts
}

/// The numbers that criteria look at.
pub(crate) fn numbers(rows: &PathRows) -> InputNumbers<'_> {
    InputNumbers {
        predictions: &rows.predictions,
        logits: &rows.logits,
        activations: &rows.activations,
        taps: &rows.taps,
    }
}
