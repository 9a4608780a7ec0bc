//! A decision graph with the network it was learnt from.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use npcov_artefact::{ArtefactError, CoverageState, ExtractionRecord, GraphFile, differences};
use npcov_data::{Digest, Loader, Preprocessing, Samples};
use npcov_engine::Engine;
use npcov_engine::native::Kernels;
use npcov_graph::{GraphError, OnnxModel};
use npcov_run::{Method, ModelOptions, Network, PathExtractor};

use crate::error::CoverageError;

/// A decision graph with the network it was learnt from.
pub struct LearntGraph {
    file: GraphFile,
    network: Arc<Network>,
    method: Method,
}

impl LearntGraph {
    /// Opens a decision graph and its model: `model`, or the one that the graph names. Another model
    /// than the graph was learnt from is refused.
    pub fn open(
        graph: impl AsRef<Path>,
        model: Option<&Path>,
    ) -> Result<LearntGraph, CoverageError> {
        LearntGraph::open_on(graph, model, None)
    }

    /// The same on an engine that was asked for, which may be another one than the graph was learnt with.
    pub fn open_on(
        graph: impl AsRef<Path>,
        model: Option<&Path>,
        engine: Option<Arc<dyn Engine>>,
    ) -> Result<LearntGraph, CoverageError> {
        let graph = graph.as_ref();
        let file = GraphFile::open(graph)?;
        let (path, model) = match model {
            Some(path) => (path.to_owned(), OnnxModel::read(path)?),
            None => named_model(&file, graph)?,
        };
        LearntGraph::of(file, model, &path.display().to_string(), engine)
    }

    /// A decision graph with its model, which is called `name` in messages. Another model than the
    /// graph was learnt from is refused, and so is a graph of another engine than npcov's own unless some
    /// engine is asked for.
    pub fn of(
        file: GraphFile,
        model: OnnxModel,
        name: &str,
        engine: Option<Arc<dyn Engine>>,
    ) -> Result<LearntGraph, CoverageError> {
        let record = &file.record().extraction;
        let sha256 = Digest::from(model.digest()?).to_string();
        if sha256 != record.model.sha256 {
            return Err(CoverageError::AnotherModel {
                graph: file.name().to_owned(),
                model: name.to_owned(),
                expected: record.model.sha256.clone(),
                found: sha256,
            });
        }
        let refused = |differences| ArtefactError::Mismatch {
            file: file.name().to_owned(),
            differences,
        };
        let (method, batch_norm) = Method::from_info(&record.method)
            .map_err(|reason| refused(vec![format!("method: {reason}")]))?;
        let asked_for = engine.is_some();
        if !asked_for && !record.is_native() {
            return Err(CoverageError::AnotherEngine {
                graph: file.name().to_owned(),
                engine: record.engine.clone(),
            });
        }
        // The graph's own kernels, where its own engine is meant.
        let engine = engine.map(|engine| match engine.name() == record.engine {
            true => engine.with_kernels(&record.kernels).unwrap_or(engine),
            false => engine,
        });
        let kernels = match record.is_native() {
            true => (record.kernels.parse())
                .map_err(|reason| refused(vec![format!("kernels: {reason}")]))?,
            false => Kernels::default(),
        };
        let options = ModelOptions {
            engine,
            ..record.model.options(batch_norm, kernels)
        };
        let network = Network::new(model, &options)?;
        // The same model may have other layers for another version of npcov.
        let here = ExtractionRecord {
            // Where vectors are of another width, sums are the same bits. Whether products are fused is
            // a matter of the suite that is measured, and recorded with it.
            cpu: record.cpu.clone(),
            arithmetic: record.arithmetic.clone(),
            ..ExtractionRecord::new(
                &network,
                &method,
                record.model.clone(),
                record.preprocessing.clone(),
                record.alpha.clone(),
            )
        };
        let here = match asked_for {
            false => here,
            true => ExtractionRecord {
                engine: record.engine.clone(),
                kernels: record.kernels.clone(),
                micro_batch: record.micro_batch,
                ..here
            },
        };
        let found = differences(&here, record);
        if !found.is_empty() {
            return Err(refused(found).into());
        }
        Ok(LearntGraph {
            network: Arc::new(network),
            method,
            file,
        })
    }

    /// A graph that was learnt from a network just now.
    pub(crate) fn learnt(file: GraphFile, network: Arc<Network>, method: Method) -> LearntGraph {
        LearntGraph {
            file,
            network,
            method,
        }
    }

    /// The graph and what it was learnt from.
    pub fn file(&self) -> &GraphFile {
        &self.file
    }

    /// The network.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// How relevances are computed.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// How the engine differs from the one that the graph was learnt with, where it is another one.
    pub fn engine_difference(&self) -> Option<String> {
        let (own, record) = (
            self.network.engine().record(),
            &self.file.record().extraction,
        );
        (own.engine != record.engine).then(|| {
            format!(
                "engine: {} ({}), not {} ({})",
                own.engine, own.arithmetic, record.engine, record.arithmetic
            )
        })
    }

    /// What happens to samples on their way into the model.
    pub fn preprocessing(&self) -> &Preprocessing {
        &self.file.record().extraction.preprocessing
    }

    /// Fails with what differs unless the graph was learnt with this preprocessing.
    pub fn require_preprocessing(&self, given: &Preprocessing) -> Result<(), CoverageError> {
        let found = differences(given, self.preprocessing());
        match found.is_empty() {
            true => Ok(()),
            false => Err(CoverageError::Artefact(ArtefactError::Mismatch {
                file: self.file.name().to_owned(),
                differences: found.iter().map(|d| format!("preprocessing.{d}")).collect(),
            })),
        }
    }

    /// Fails unless a state, which has this name, was measured with the graph.
    pub fn require_state(&self, state: &CoverageState, name: &str) -> Result<(), CoverageError> {
        let (found, expected) = (&state.record().graph, &self.file.record().id);
        match found == expected {
            true => Ok(()),
            false => Err(CoverageError::Artefact(ArtefactError::AnotherGraph {
                file: name.to_owned(),
                found: found.clone(),
                expected: expected.clone(),
            })),
        }
    }

    /// The names of the classes, where each has one.
    pub fn class_names(&self) -> Option<Vec<String>> {
        let classes = self.file.record().classes.iter();
        classes.map(|class| class.name.clone()).collect()
    }

    /// Samples, preprocessed as the graph's own were, with classes matched by name.
    pub fn loader<'a>(&self, samples: Arc<dyn Samples + 'a>) -> Result<Loader<'a>, CoverageError> {
        let names = self.class_names();
        let loader = (self.network).loader(samples, names.as_deref(), self.preprocessing());
        Ok(loader?)
    }

    /// Extracts paths as the graph's own were.
    pub fn extractor(&self) -> Result<PathExtractor, CoverageError> {
        let record = self.file.record();
        let (network, alpha) = (&self.network, &record.extraction.alpha);
        let extractor = PathExtractor::new(network, &self.method, &record.choices, alpha);
        Ok(extractor?)
    }
}

/// The model that a decision graph names: where the graph says, or else beside the graph under the same name.
///
/// A graph may come from somebody else. A way that leads out of its folder is followed only to the very model that the
/// graph was learnt from; whatever else is there is treated as if there were nothing, so that no answer tells of it.
fn named_model(file: &GraphFile, graph: &Path) -> Result<(PathBuf, OnnxModel), CoverageError> {
    let record = &file.record().extraction.model;
    let way = record.way();
    let inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let named = record.path(graph);
    if !way.components().all(inside)
        && let Ok(model) = OnnxModel::read(&named)
        && model
            .digest()
            .is_ok_and(|digest| Digest::from(digest).to_string() == record.sha256)
    {
        return Ok((named, model));
    }
    let moved = || CoverageError::ModelMoved {
        graph: file.name().to_owned(),
        model: named.display().to_string(),
    };
    let name = way.file_name().ok_or_else(moved)?;
    let beside = match way.components().all(inside) {
        true => named.clone(),
        false => graph.parent().unwrap_or(Path::new("")).join(name),
    };
    match OnnxModel::read(&beside) {
        Ok(model) => Ok((beside, model)),
        Err(GraphError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Err(moved())
        }
        Err(error) => Err(error.into()),
    }
}
