//! The verb `build`: from training data to a decision graph.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use npcov_criteria::{CriterionError, Spec};
use npcov_data::{Digest, Loader, Preprocessing};
use npcov_paths::choices::Members;
use npcov_paths::{
    AnpcLayer, Choices, ClassParameters, Clusters, Input, KMeans, LearnOptions, Observer,
    PathGraph, TrainingActivations,
};
use serde::{Deserialize, Serialize};

use crate::artefact::record::{
    ClassRecord, DataRecord, ExtractionRecord, GraphRecord, LayerRecord, ModelRecord,
    PreprocessingRecord,
};
use crate::artefact::{GraphFile, MOST_CLUSTERS, PartsFolder, graph_file};
use crate::error::Error;
use crate::fitting;
use crate::measures::{self, Measures, default_criteria};
use crate::method::Method;
use crate::network::{Network, NetworkOptions, read_model};
use crate::paths::{Extras, PathExtractor};
use crate::probe::Probe;
use crate::shards::{Event, ShardForm, ShardWriter, TrainingShards, extract_shards};

/// A number for all classes, and others for some.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerClass<T> {
    /// For the classes that have none of their own.
    pub all: T,
    /// By class.
    pub classes: BTreeMap<usize, T>,
}

impl<T: Copy> PerClass<T> {
    /// The same for all.
    pub fn all(all: T) -> PerClass<T> {
        PerClass {
            all,
            classes: BTreeMap::new(),
        }
    }

    /// That of a class.
    pub fn of(&self, class: usize) -> T {
        self.classes.get(&class).copied().unwrap_or(self.all)
    }

    /// Those of all classes.
    pub fn list(&self, classes: usize) -> Vec<T> {
        (0..classes).map(|class| self.of(class)).collect()
    }
}

/// The distances up to which ANPC has buckets.
#[derive(Clone, Debug, PartialEq)]
pub enum AnpcUpper {
    /// One for all layers, or one for each.
    Fixed(Vec<f64>),
    /// For each layer that quantile of the distances between training inputs.
    Auto(f64),
}

/// The share of training distances below the bound that `auto` finds.
pub const AUTO_QUANTILE: f64 = 0.99;

/// The bound of the paper.
pub const PAPER_UPPER: f64 = 2.0;

/// How a decision graph is built.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildSettings {
    /// The share of relevance that critical neurons have together.
    pub alpha: PerClass<f64>,
    /// Clusters of a class.
    pub clusters: PerClass<Clusters>,
    /// The share of a cluster's members above which a neuron is abstract.
    pub beta: PerClass<f64>,
    /// What else can be chosen.
    pub choices: Choices,
    /// The layers that take part in ANPC; all when empty.
    pub anpc_layers: Vec<usize>,
    /// Bounds of ANPC.
    pub anpc_upper: AnpcUpper,
    /// Restarts of the clustering.
    pub restarts: usize,
    /// Seed of the clustering.
    pub seed: u64,
    /// The criteria that suites can be measured by. A criterion that cannot be fitted to the
    /// training data is an error; without a list, the usual ones are fitted, and those that cannot
    /// be are left out.
    pub criteria: Option<Vec<Spec>>,
}

impl Default for BuildSettings {
    fn default() -> Self {
        let kmeans = KMeans::default();
        BuildSettings {
            alpha: PerClass::all(0.8),
            clusters: PerClass::all(Clusters::Fixed(4)),
            beta: PerClass::all(0.8),
            choices: Choices::default(),
            anpc_layers: Vec::new(),
            anpc_upper: AnpcUpper::Fixed(vec![PAPER_UPPER]),
            restarts: kmeans.restarts,
            seed: kmeans.seed,
            criteria: None,
        }
    }
}

/// The layers of ANPC and their bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnpcRecord {
    /// The layers.
    pub layers: Vec<AnpcBound>,
    /// The quantile of training distances that the bounds are; `None` when they were given.
    pub quantile: Option<f64>,
}

/// A layer of ANPC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnpcBound {
    /// Its position among the path layers.
    pub layer: usize,
    /// The distance up to which there are buckets.
    pub upper: f64,
}

impl AnpcRecord {
    /// As they are measured with.
    pub(crate) fn layers(&self) -> Vec<AnpcLayer> {
        let layer = |bound: &AnpcBound| AnpcLayer {
            layer: bound.layer,
            upper: bound.upper,
        };
        self.layers.iter().map(layer).collect()
    }
}

/// A model, and how its inputs are explained.
pub struct Source<'a> {
    /// The model's file.
    pub file: &'a Path,
    /// How it was opened.
    pub options: &'a NetworkOptions,
    /// The network.
    pub network: &'a Network,
    /// What happens to data before it enters the model.
    pub preprocessing: &'a Preprocessing,
    /// How relevances are computed.
    pub method: &'a Method,
}

/// Learns a decision graph from a range of a training set, and writes it to `output`.
///
/// Finished shards are kept in a folder beside it until the file is whole: a run that is cut off
/// goes on where it was, and gives the same bytes. So does any number of threads.
pub fn build(
    source: &Source<'_>,
    data: &Loader,
    range: Range<usize>,
    settings: &BuildSettings,
    output: &Path,
    threads: usize,
    on: &mut dyn FnMut(Event),
) -> Result<GraphFile, Error> {
    settings.check(source.network, data, &range)?;
    let classes = source.network.classes();
    let alpha = settings.alpha.list(classes);
    let network_shape = |classes, anpc: &AnpcRecord| {
        let layers = LayerRecord::of(source.network);
        let logits = source.network.signature().logits();
        measures::network_shape(&layers, logits, classes, &settings.choices, anpc)
    };
    // What criteria ask for is known before there are clusters.
    let before = network_shape(vec![(0, 0); classes], &AnpcRecord::default());
    let mut left_out = Vec::new();
    let specs = match &settings.criteria {
        Some(specs) => specs.clone(),
        None => fitting::possible(default_criteria(), &before, &mut left_out)?,
    };
    let planned = Measures::new(&specs, before)?;
    let extras = Extras {
        importance: planned.importance()?,
        ..Extras::default()
    };
    let (network, method) = (source.network, source.method);
    let extractor =
        PathExtractor::with_extras(network, method, &settings.choices, &alpha, &extras)?;
    let sha256 = Digest::from(read_model(source.file)?.digest()?).to_string();
    let extraction = ExtractionRecord::new(
        network,
        method,
        ModelRecord::new(source.file, output, sha256, source.options),
        PreprocessingRecord::from(source.preprocessing),
        alpha,
    );
    let training = DataRecord::new(data, range.start, range.end)?;
    let form = ShardForm {
        layout: extractor.layout().clone(),
        logits: network.signature().logits(),
        importance: extras.importance,
    };

    let plan = plan(&extraction, &training, &settings.choices, &extras)?;
    let parts = PartsFolder::open(output, &plan)?;
    extract_shards(
        &Probe::Paths(Box::new(extractor)),
        data,
        range.clone(),
        threads,
        |i, rows| form.is_done(&parts, i, rows.len()),
        on,
        &mut ShardWriter {
            form: &form,
            parts: &parts,
            labels: data.labels(),
        },
    )?;

    on(Event::Clustering);
    let labels = data.labels().and_then(|labels| labels.get(range.clone()));
    let shards = TrainingShards::open(&parts, &form, range.clone(), labels.map(<[i64]>::to_vec))?;
    let graph = PathGraph::learn(shards.paths()?, &settings.learn_options(classes, threads));
    let anpc = settings.anpc(&graph, &shards)?;
    on(Event::Fitting);
    let counts = graph.classes().iter();
    let counts = counts.map(|class| (class.planned, class.clusters.len()));
    let mut measures = Measures::new(&specs, network_shape(counts.collect(), &anpc))?;
    let fits = fitting::fit(&mut measures, &shards, &mut left_out)?;
    if let (Some((spec, reason)), Some(_)) = (left_out.first(), &settings.criteria) {
        return Err(Error::Criterion {
            criterion: spec.to_string(),
            source: CriterionError::Fit {
                criterion: spec.name.clone(),
                reason: reason.clone(),
            },
        });
    }
    let criteria = fitting::records(
        &measures,
        &fits,
        &graph,
        &settings.choices,
        &anpc.layers(),
        &shards,
        threads,
    )?;
    let names = data.dataset().class_names().unwrap_or_default();
    let class = |(i, class): (usize, &npcov_paths::ClassNode)| ClassRecord {
        name: names.get(i).cloned(),
        planned: class.planned,
        clusters: class.clusters.len(),
        beta: class.beta,
    };
    let mut record = GraphRecord {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        id: String::new(),
        extraction,
        data: data.dataset().name().to_owned(),
        training,
        classes: graph.classes().iter().enumerate().map(class).collect(),
        restarts: settings.restarts,
        seed: settings.seed,
        choices: settings.choices.clone(),
        anpc,
        criteria,
        left_out: left_out
            .into_iter()
            .map(|(spec, reason)| format!("{spec}: {reason}"))
            .collect(),
    };
    record.id = graph_file::identify(&record, &graph)?;
    GraphFile::write(output, parts.folder(), &record, &graph, &fits, &shards)?;
    drop(shards);
    parts.remove()?;
    GraphFile::open(output)
}

/// What the parts of a decision graph depend on: not on how their paths are clustered.
fn plan(
    extraction: &ExtractionRecord,
    training: &DataRecord,
    choices: &Choices,
    extras: &Extras,
) -> Result<String, Error> {
    let choices = Choices {
        threshold: choices.threshold,
        empty_layer: choices.empty_layer,
        seed: choices.seed,
        ..Choices::default()
    };
    let plan = serde_json::json!({
        "choices": choices,
        "extraction": extraction,
        "importance": extras.importance,
        "training": training,
    });
    serde_json::to_string(&plan).map_err(Error::Json)
}

impl BuildSettings {
    fn check(&self, network: &Network, data: &Loader, range: &Range<usize>) -> Result<(), Error> {
        let wrong = |name, value: String, wanted| {
            Err(Error::Parameter {
                name,
                value,
                wanted,
            })
        };
        if range.is_empty() {
            return Err(Error::NoInputs(data.dataset().name().to_owned()));
        }
        for beta in self.beta.list(network.classes()) {
            if !(0.0..1.0).contains(&beta) {
                return wrong("beta", beta.to_string(), "at least 0 and below 1");
            }
        }
        for clusters in self.clusters.list(network.classes()) {
            let (Clusters::Fixed(count) | Clusters::Auto(count)) = clusters;
            if !(1..=MOST_CLUSTERS).contains(&count) {
                return wrong("clusters", count.to_string(), "1 to 1000");
            }
        }
        let named = [&self.alpha.classes, &self.beta.classes].map(|map| map.keys().max());
        for class in named
            .into_iter()
            .chain([self.clusters.classes.keys().max()])
            .flatten()
        {
            if *class >= network.classes() {
                return Err(Error::NoSuchClass {
                    class: *class,
                    classes: network.classes(),
                });
            }
        }
        let layers = network.layers().len();
        if let Some(layer) = self.anpc_layers.iter().find(|&&layer| layer >= layers) {
            return wrong("ANPC layer", layer.to_string(), "the index of a path layer");
        }
        match &self.anpc_upper {
            AnpcUpper::Fixed(upper) => {
                if let Some(upper) = upper
                    .iter()
                    .find(|upper| !(**upper > 0.0 && upper.is_finite()))
                {
                    return wrong("ANPC bound", upper.to_string(), "above 0");
                }
                let wanted = self.anpc_indices(layers).len();
                if upper.len() != 1 && upper.len() != wanted {
                    let text = "one number, or one for each layer of ANPC";
                    return wrong("ANPC bound", format!("{} numbers", upper.len()), text);
                }
            }
            AnpcUpper::Auto(quantile) if !(0.0..=1.0).contains(quantile) => {
                return wrong("ANPC quantile", quantile.to_string(), "0 to 1");
            }
            AnpcUpper::Auto(_) => {}
        }
        if self.choices.members == Members::Correct && data.labels().is_none() {
            return Err(Error::NoLabels(data.dataset().name().to_owned()));
        }
        Ok(())
    }

    fn learn_options(&self, classes: usize, threads: usize) -> LearnOptions {
        let parameters = |class| ClassParameters {
            clusters: self.clusters.of(class),
            beta: self.beta.of(class),
        };
        LearnOptions {
            classes: (0..classes).map(parameters).collect(),
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

    fn anpc_indices(&self, layers: usize) -> Vec<usize> {
        match self.anpc_layers.is_empty() {
            true => (0..layers).collect(),
            false => self.anpc_layers.clone(),
        }
    }

    /// The layers of ANPC with their bounds.
    fn anpc(&self, graph: &PathGraph, shards: &TrainingShards) -> Result<AnpcRecord, Error> {
        let layers = self.anpc_indices(graph.layout().layers());
        let (upper, quantile) = match &self.anpc_upper {
            AnpcUpper::Fixed(upper) => (upper.clone(), None),
            AnpcUpper::Auto(quantile) => {
                let upper = quantiles(graph, shards, &self.choices, &layers, *quantile)?;
                (upper, Some(*quantile))
            }
        };
        let bound = |(i, &layer): (usize, &usize)| AnpcBound {
            layer,
            // One bound is that of all layers.
            upper: upper
                .get(i)
                .or(upper.first())
                .copied()
                .unwrap_or(PAPER_UPPER),
        };
        Ok(AnpcRecord {
            layers: layers.iter().enumerate().map(bound).collect(),
            quantile,
        })
    }
}

/// Training inputs whose distances are looked at to find bounds.
const SAMPLE: usize = 1000;

/// For each layer a quantile of the distances that training inputs have to the others, as ANPC
/// measures them.
fn quantiles(
    graph: &PathGraph,
    shards: &TrainingShards,
    choices: &Choices,
    layers: &[usize],
    quantile: f64,
) -> Result<Vec<f64>, Error> {
    let unbounded = |&layer: &usize| AnpcLayer {
        layer,
        upper: f64::MAX,
    };
    let anpc: Vec<AnpcLayer> = layers.iter().map(unbounded).collect();
    let observer = Observer::new(graph, choices, &anpc);
    let training = &graph.parts().training;
    let inputs = training.paths.len();
    let mut activations = vec![0.0; graph.layout().total_neurons()];
    let mut distances = vec![Vec::new(); layers.len()];
    for i in 0..SAMPLE.min(inputs) {
        // Spread over all inputs, which may be sorted by class.
        let index = (i * inputs / SAMPLE.min(inputs)) as u32;
        TrainingActivations::read(shards, index, &mut activations)?;
        let input = Input {
            class: training.predictions[index as usize] as usize,
            path: graph.path(index),
            activations: &activations,
            training: Some(index),
        };
        let observation = observer.observe(input, shards)?;
        for view in &observation.clusters {
            for (list, (distance, _)) in distances.iter_mut().zip(&view.distances) {
                list.push(*distance);
            }
        }
    }
    let upper = distances.iter_mut().map(|list| {
        list.sort_unstable_by(f64::total_cmp);
        let place = (list.len().saturating_sub(1) as f64 * quantile).round() as usize;
        // A layer that never differs has no distances to tell apart.
        list.get(place)
            .copied()
            .filter(|&upper| upper > 0.0)
            .unwrap_or(PAPER_UPPER)
    });
    Ok(upper.collect())
}
