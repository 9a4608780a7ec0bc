//! A decision graph, ready to measure suites.

use std::path::Path;

use npcov_criteria::Spec;
use npcov_data::{DataError, Dataset, Digest, Loader, Preprocessing};
use npcov_paths::{Choices, Observation, Observer};

use crate::artefact::record::{
    CriterionRecord, ExtractionRecord, PreprocessingRecord, StateRecord,
};
use crate::artefact::{CoverageState, GraphFile, differences};
use crate::error::Error;
use crate::measures::{Measure, Measures, failed};
use crate::method::Method;
use crate::network::{Network, read_model};
use crate::paths::{PathBatch, PathExtractor};
use crate::probe::Probe;

/// A decision graph with the model it was learnt from, ready to measure suites.
pub struct Ruler {
    file: GraphFile,
    network: Network,
    method: Method,
    choices: Choices,
    measures: Measures,
    criteria: Vec<CriterionRecord>,
}

impl Ruler {
    /// Opens a decision graph and its model: the one beside it that it names, or `model`. Another
    /// model than the graph was learnt from is refused.
    pub fn open(graph: impl AsRef<Path>, model: Option<&Path>) -> Result<Ruler, Error> {
        let file = GraphFile::open(graph)?;
        let record = &file.record().extraction;
        let path = match model {
            Some(path) => path.to_owned(),
            None => record.model.path(file.path()),
        };
        let refused = |differences| Error::Mismatch {
            file: file.path().display().to_string(),
            differences,
        };
        if model.is_none() && !path.exists() {
            return Err(Error::ModelMoved {
                graph: file.path().display().to_string(),
                model: path.display().to_string(),
            });
        }
        let read = read_model(&path)?;
        let sha256 = Digest::from(read.digest()?).to_string();
        if sha256 != record.model.sha256 {
            return Err(Error::AnotherModel {
                graph: file.path().display().to_string(),
                model: path.display().to_string(),
                expected: record.model.sha256.clone(),
                found: sha256,
            });
        }
        let (method, batch_norm) = Method::from_info(&record.method)
            .map_err(|reason| refused(vec![format!("method: {reason}")]))?;
        let kernels = (record.kernels.parse())
            .map_err(|reason| refused(vec![format!("kernels: {reason}")]))?;
        let network = Network::new(read, &record.model.options(batch_norm, kernels))?;
        // The same model may have other layers for another version of npcov.
        let here = ExtractionRecord {
            // Where vectors are of another width, sums are the same bits.
            cpu: record.cpu.clone(),
            ..ExtractionRecord::new(
                &network,
                &method,
                record.model.clone(),
                record.preprocessing.clone(),
                record.alpha.clone(),
            )
        };
        let found = differences(&here, record);
        if !found.is_empty() {
            return Err(refused(found));
        }
        let choices = file.record().choices.clone();
        let measures = Measures::new(&[], file.record().network_shape(&choices))?;
        let mut ruler = Ruler {
            choices,
            network,
            method,
            file,
            measures,
            criteria: Vec::new(),
        };
        let all: Vec<Spec> = ruler.graph().record().specs();
        ruler.measure(&all)?;
        Ok(ruler)
    }

    /// Measures with these criteria instead of all that the graph was built for.
    pub fn measure(&mut self, specs: &[Spec]) -> Result<(), Error> {
        let graph = self.file.record();
        let mut measures = Measures::new(specs, graph.network_shape(&self.choices))?;
        let mut criteria = Vec::new();
        for i in 0..measures.list().len() {
            let Measure {
                spec, criterion, ..
            } = &measures.list()[i];
            let (spec, fitted) = (spec.clone(), criterion.fitted_options());
            let known = graph
                .criteria
                .iter()
                .find(|c| c.criterion.name == spec.name && c.fitted == fitted);
            let fit = known.map(|known| self.file.fit(known)).transpose()?;
            measures
                .restore(i, fit.unwrap_or_default())
                .map_err(|source| match known {
                    Some(_) => failed(&spec)(source),
                    None => Error::NotFitted {
                        graph: self.file.path().display().to_string(),
                        criterion: spec.to_string(),
                        has: match &graph.specs()[..] {
                            [] => "none".to_owned(),
                            specs => specs
                                .iter()
                                .map(Spec::to_string)
                                .collect::<Vec<_>>()
                                .join(", "),
                        },
                    },
                })?;
            criteria.push(CriterionRecord {
                arrays: Vec::new(),
                // What training inputs cover depends on all options.
                training_coverage: known
                    .filter(|known| known.criterion == spec)
                    .and_then(|known| known.training_coverage.clone()),
                criterion: spec,
                fitted,
            });
        }
        self.measures = measures;
        self.criteria = criteria;
        Ok(())
    }

    /// The criteria that are measured.
    pub(crate) fn measures(&self) -> &Measures {
        &self.measures
    }

    /// Fails with what differs unless the graph was learnt with this preprocessing.
    pub fn require_preprocessing(&self, given: &Preprocessing) -> Result<(), Error> {
        let own = &self.file.record().extraction.preprocessing;
        let found = differences(&PreprocessingRecord::from(given), own);
        match found.is_empty() {
            true => Ok(()),
            false => Err(Error::Mismatch {
                file: self.file.path().display().to_string(),
                differences: found.iter().map(|d| format!("preprocessing.{d}")).collect(),
            }),
        }
    }

    /// The decision graph.
    pub fn graph(&self) -> &GraphFile {
        &self.file
    }

    /// The model.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// How relevances are computed.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The choices that suites are measured with: those of the graph, unless they were set.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// Measures with other choices. Those that make paths and the graph stay the graph's own.
    pub fn measure_with(&mut self, choices: Choices) -> Result<(), Error> {
        let own = self.file.record().choices.clone();
        let choices = Choices {
            threshold: own.threshold,
            empty_layer: own.empty_layer,
            seed: own.seed,
            members: own.members,
            merge: own.merge,
            ..choices
        };
        if choices != self.choices {
            self.choices = choices;
            let specs: Vec<Spec> = self.criteria.iter().map(|c| c.criterion.clone()).collect();
            self.measure(&specs)?;
            // The graph's own choices made what training inputs are known to cover.
            let unlike = self.choices != own;
            for (record, measure) in self.criteria.iter_mut().zip(self.measures.list()) {
                if unlike && measure.needs.paths {
                    record.training_coverage = None;
                }
            }
        }
        Ok(())
    }

    /// What is extracted of inputs to measure them.
    pub(crate) fn probe(&self) -> Result<Probe, Error> {
        let extras = self.measures.extras();
        if !self.measures.need_paths() {
            return Probe::trace(&self.network, &extras);
        }
        let alpha = &self.file.record().extraction.alpha;
        let (network, method) = (&self.network, &self.method);
        PathExtractor::with_extras(network, method, &self.choices, alpha, &extras)
            .map(|extractor| Probe::Paths(Box::new(extractor)))
    }

    /// Extracts paths as the graph's own were.
    pub fn extractor(&self) -> Result<PathExtractor, Error> {
        let alpha = &self.file.record().extraction.alpha;
        PathExtractor::new(&self.network, &self.method, &self.choices, alpha)
    }

    /// A dataset, preprocessed as the graph's own was.
    pub fn loader(&self, spec: &str) -> Result<Loader, Error> {
        let record = &self.file.record().extraction.preprocessing;
        let preprocessing = record.preprocessing().map_err(DataError::Preprocessing)?;
        Ok(Loader::new(
            Dataset::open(spec)?,
            self.network.sample_shape(),
            &preprocessing,
        )?)
    }

    /// A state without suites.
    pub fn state(&self) -> CoverageState {
        let record = self.file.record();
        CoverageState::new(StateRecord {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            graph: record.id.clone(),
            choices: self.choices.clone(),
            anpc: record.anpc.clone(),
            classes: record
                .classes
                .iter()
                .map(|c| (c.planned, c.clusters))
                .collect(),
            members: (0..self.file.graph().clusters())
                .map(|cluster| self.file.graph().members(cluster).len() as u64)
                .collect(),
            class_names: record.classes.iter().map(|c| c.name.clone()).collect(),
            layers: record.extraction.layers.clone(),
            logits: record.extraction.logits,
            model: record.extraction.model.sha256.clone(),
            criteria: self.criteria.clone(),
            suites: Vec::new(),
        })
    }

    /// Looks at one input of a batch.
    pub fn observe(&self, batch: &PathBatch, place: usize) -> Result<Observation, Error> {
        let anpc = self.file.record().anpc.layers();
        let observer = Observer::new(self.file.graph(), &self.choices, &anpc);
        observer.observe(batch.input(place), &self.file)
    }
}
