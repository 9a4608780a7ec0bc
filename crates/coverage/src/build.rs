//! The verb `build`: from training data to a decision graph.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use npcov_artefact::{
    AnpcBound, AnpcRecord, ArtefactError, ClassRecord, DataRecord, ExtractionRecord, GraphFile,
    GraphRecord, MOST_CLUSTERS, ModelRecord, Origin, ShardStore, Surroundings, identify,
};
use npcov_criteria::{CriterionError, CriterionSet, Reduction, Spec, default_criteria};
use npcov_data::Digest;
use npcov_paths::choices::Members;
use npcov_paths::{
    AnpcLayer, Choices, ClassParameters, Clustering, Clusters, GraphClustering, Input, KMeans,
    LearnOptions, Observer, PathGraph, TrainingActivations, gather,
};
use npcov_run::{
    Event, Extraction, Extras, Found, Method, Network, Part, PathExtractor, Progress, RunError,
    SampleRange, extract_shards,
};

use crate::calibration::{self, Known, calibrate};
use crate::classes::Classes;
use crate::clustering::{Clustered, cluster};
use crate::cover::sample_names;
use crate::error::CoverageError;
use crate::fitting::{self, LeftOut};
use crate::graph::LearntGraph;
use crate::training::{ShardForm, ShardWriter, TrainingShards};

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
pub struct BuildOptions {
    /// How relevances are computed.
    pub method: Method,
    /// The share of relevance that critical neurons have together.
    pub alpha: PerClass<f64>,
    /// How the paths of a class are clustered.
    pub clustering: Clustering,
    /// Clusters of a class, where they are not found by the clustering itself.
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
    /// Training inputs that are measured as a yardstick by criteria that take long.
    pub yardstick_inputs: usize,
}

impl Default for BuildOptions {
    fn default() -> Self {
        let kmeans = KMeans::default();
        BuildOptions {
            method: Method::default(),
            alpha: PerClass::all(0.8),
            clustering: Clustering::Graph(GraphClustering::default()),
            clusters: PerClass::all(Clusters::Fixed(4)),
            beta: PerClass::all(0.8),
            choices: Choices::default(),
            anpc_layers: Vec::new(),
            anpc_upper: AnpcUpper::Fixed(vec![PAPER_UPPER]),
            restarts: kmeans.restarts,
            seed: kmeans.seed,
            criteria: None,
            yardstick_inputs: 1000,
        }
    }
}

/// What a decision graph is learnt from.
#[derive(Clone, Copy)]
pub struct Learning<'a> {
    /// Training inputs.
    pub training: &'a SampleRange<'a>,
    /// Inputs that the network was not trained with: scores of others are ranked among theirs. `None` takes
    /// one in ten training inputs, which then are no neighbours of any input.
    pub calibration: Option<&'a SampleRange<'a>>,
}

impl<'a> From<&'a SampleRange<'a>> for Learning<'a> {
    fn from(training: &'a SampleRange<'a>) -> Learning<'a> {
        Learning {
            training,
            calibration: None,
        }
    }
}

/// Learns a decision graph from a range of a training set.
///
/// With a file, the graph is written to it. Finished shards are kept in a folder beside it until the
/// file is whole: a run that is cut off goes on where it was, and gives the same bytes. So does any
/// number of threads. Without a file, all is in memory.
pub fn build<'a>(
    network: &Arc<Network>,
    inputs: impl Into<Learning<'a>>,
    options: &BuildOptions,
    output: Option<&Path>,
    progress: &mut dyn Progress,
) -> Result<LearntGraph, CoverageError> {
    let prepared = Prepared::new(network, inputs.into(), options, output)?;
    let store = ShardStore::of(output, &prepared.plan)?;
    prepared.extract(&store, None, progress)?;
    prepared.finish(store, progress)
}

/// All that is settled before the first input is run: the same in every process that takes part.
pub(crate) struct Prepared<'a> {
    network: &'a Arc<Network>,
    pub(crate) inputs: Learning<'a>,
    options: &'a BuildOptions,
    extraction: ExtractionRecord,
    /// The criteria that training inputs are run for.
    specs: Vec<Spec>,
    left_out: Vec<LeftOut>,
    program: Extraction,
    training: DataRecord,
    calibration: Option<DataRecord>,
    /// What is kept of training inputs, and of those for calibration.
    pub(crate) forms: [ShardForm; 2],
    /// What that depends on.
    pub(crate) plan: String,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(
        network: &'a Arc<Network>,
        inputs: Learning<'a>,
        options: &'a BuildOptions,
        output: Option<&Path>,
    ) -> Result<Prepared<'a>, CoverageError> {
        options.check(network, inputs.training)?;
        let SampleRange {
            data, ref range, ..
        } = *inputs.training;
        let classes = network.classes();
        let alpha = options.alpha.list(classes);
        let mut model = ModelRecord::new(
            Digest::from(*network.digest()).to_string(),
            network.options(),
        );
        if let Some(output) = output {
            model.place(network.file(), output);
        }
        let extraction = ExtractionRecord::new(
            network,
            &options.method,
            model,
            data.preprocessing().clone(),
            alpha.clone(),
        );
        let (choices, mut left_out) = (&options.choices, Vec::new());
        // What criteria ask for is known before there are clusters.
        let before =
            extraction.network_shape(vec![(0, 0); classes], choices, &AnpcRecord::default());
        let specs = match &options.criteria {
            Some(specs) => specs.clone(),
            None => fitting::possible(default_criteria(), &before, &mut left_out)?,
        };
        // Of numbers, there are no probabilities that could be uncertain.
        let (uncertain, specs): (Vec<Spec>, Vec<Spec>) = (specs.into_iter())
            .partition(|spec| network.signature().numbers().is_some() && is_of_probabilities(spec));
        let no_probabilities =
            |spec| (spec, "a model of numbers gives no probabilities".to_owned());
        left_out.extend(uncertain.into_iter().map(no_probabilities));
        let planned = CriterionSet::new(&specs, before)?;
        let importance = planned.importance().map_err(|spec| RunError::Parameter {
            name: "layer",
            value: spec.to_string(),
            wanted: "the same layer for all criteria that rank neurons",
        })?;
        let taps = planned.training_taps();
        let extras = Extras {
            importance,
            taps: taps.clone(),
            ..Extras::default()
        };
        let extractor =
            PathExtractor::with_extras(network, &options.method, choices, &alpha, &extras)?;
        let training = DataRecord::new(data, range.start, range.end)?;
        let calibration = (inputs.calibration)
            .map(|strangers| calibration::record(strangers, &training))
            .transpose()?;
        let form = ShardForm {
            word: "paths",
            layout: extractor.layout().clone(),
            logits: network.signature().logits(),
            importance,
            taps: taps
                .iter()
                .map(|&tap| {
                    let layer = &extraction.layers[tap.layer];
                    let width = match tap.reduction {
                        Reduction::Units => layer.units,
                        Reduction::Valid => layer.units / layer.neurons.max(1),
                        Reduction::Mean | Reduction::Max | Reduction::Min => layer.neurons,
                    };
                    (tap, width)
                })
                .collect(),
        };
        let plan = plan(
            &extraction,
            (&training, calibration.as_ref()),
            choices,
            &form,
        )?;
        let strangers = ShardForm {
            word: "calibration",
            importance: None,
            taps: Vec::new(),
            ..form.clone()
        };
        Ok(Prepared {
            network,
            inputs,
            options,
            extraction,
            specs,
            left_out,
            program: Extraction::Paths(Box::new(extractor)),
            training,
            calibration,
            forms: [form, strangers],
            plan,
        })
    }

    /// The inputs that are run, with the form of their shards and the digest of their data.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&'a SampleRange<'a>, &ShardForm, &str)> {
        let training = Some((self.inputs.training, &self.forms[0], &self.training));
        let strangers = self.inputs.calibration.zip(self.calibration.as_ref());
        let strangers = strangers.map(|(inputs, record)| (inputs, &self.forms[1], record));
        let runs = [training, strangers].into_iter().flatten();
        runs.map(|(inputs, form, record)| (inputs, form, record.sha256.as_str()))
    }

    /// What shards of this data are made from.
    pub(crate) fn origin(&self, data: &str) -> Origin {
        Origin {
            model: self.extraction.model.sha256.clone(),
            data: data.to_owned(),
            ..Origin::default()
        }
    }

    /// Runs inputs, or a part of them, and keeps what comes out.
    pub(crate) fn extract(
        &self,
        store: &ShardStore,
        part: Option<Part>,
        progress: &mut dyn Progress,
    ) -> Result<(), CoverageError> {
        for (inputs, form, data) in self.runs() {
            let own = part.map_or(inputs.range.clone(), |part| part.rows(inputs.range.clone()));
            let find = |i: usize, rows: Range<usize>| match own.contains(&rows.start) {
                true => form.find(store, i, rows),
                false => Found::NotWanted,
            };
            let mut writer = ShardWriter {
                form,
                store,
                origin: self.origin(data),
                data: inputs.data,
                taps: vec![Vec::new(); form.taps.len()],
            };
            extract_shards(&self.program, inputs, find, progress, &mut writer)?;
        }
        Ok(())
    }

    /// Clusters a part of the classes of what is kept of all inputs, and keeps what comes out. Gives these classes, the
    /// first and the last of which may be divided where there are more parts than classes.
    pub(crate) fn cluster_classes(
        &self,
        store: &ShardStore,
        part: Part,
        progress: &mut dyn Progress,
    ) -> Result<Range<usize>, CoverageError> {
        let (training, options) = (self.inputs.training, self.options);
        let shards = open_shards(store, &self.forms[0], training)?;
        let learn = options.learn_options(self.network.classes(), training.threads);
        let keeps_apart = self.inputs.calibration.is_none();
        let by_class = Classes::new(&options.clustering, &learn, &shards, keeps_apart);
        let portions: Vec<usize> = (0..self.classes())
            .map(|class| match part.parts() > self.classes() {
                true => by_class.portions(class),
                false => 1,
            })
            .collect();
        let own = part.of(portions.iter().sum());
        let (mut first, mut classes) = (0, 0..0);
        for (class, &count) in portions.iter().enumerate() {
            let all = first..first + count;
            first = all.end;
            let own = own.start.max(all.start)..own.end.min(all.end);
            if own.is_empty() {
                continue;
            }
            progress.tell(Event::Clustering)?;
            match own == all {
                true => by_class.keep(store, class)?,
                false => {
                    let portions = own.start - all.start..own.end - all.start;
                    by_class.keep_portions(store, class, portions)?;
                }
            }
            let start = if classes.is_empty() {
                class
            } else {
                classes.start
            };
            classes = start..class + 1;
        }
        Ok(classes)
    }

    /// How many classes the network tells apart.
    pub(crate) fn classes(&self) -> usize {
        self.network.classes()
    }

    /// Learns the graph from what is kept of all inputs.
    pub(crate) fn finish(
        self,
        store: ShardStore,
        progress: &mut dyn Progress,
    ) -> Result<LearntGraph, CoverageError> {
        let Prepared {
            network,
            inputs,
            options,
            extraction,
            specs,
            mut left_out,
            ..
        } = self;
        let SampleRange {
            data,
            ref range,
            threads,
        } = *inputs.training;
        let (classes, choices) = (network.classes(), &options.choices);
        let [form, strangers_form] = &self.forms;
        progress.tell(Event::Clustering)?;
        let shards = open_shards(&store, form, inputs.training)?;
        let learn = options.learn_options(classes, threads);
        let by_class = Classes::new(
            &options.clustering,
            &learn,
            &shards,
            inputs.calibration.is_none(),
        );
        let Clustered {
            graph,
            shares,
            calibration: mut scores,
        } = cluster(&by_class, &store)?;
        let landmarks = by_class.landmarks;
        if let Some(strangers) = inputs.calibration {
            let known = Known {
                shards: &shards,
                landmarks: &landmarks,
                layout: graph.layout(),
                classes,
            };
            scores = calibrate(strangers, (&store, strangers_form), &known)?;
        }
        let anpc = options.anpc(&graph, &shards)?;
        progress.tell(Event::Fitting)?;
        let counts = graph.classes().iter();
        let counts = counts.map(|class| (class.planned, class.clusters.len()));
        let network_shape = extraction.network_shape(counts.collect(), choices, &anpc);
        let mut criteria = CriterionSet::new(&specs, network_shape)?;
        let fits = fitting::fit(&mut criteria, &shards, &mut left_out)?;
        if let (Some((spec, reason)), Some(_)) = (left_out.first(), &options.criteria) {
            let source = CriterionError::Fit {
                criterion: spec.name.clone(),
                reason: reason.clone(),
            };
            return Err(spec.failed(source).into());
        }
        let learnt = fitting::Learnt {
            graph: &graph,
            choices,
            anpc: &anpc.layers(),
            training: &shards,
            sample: options.yardstick_inputs,
        };
        let criteria = fitting::records(&criteria, &fits, &learnt, threads)?;
        let class_names = data.class_names().unwrap_or_default();
        let class = |(i, class): (usize, &npcov_paths::ClassNode)| ClassRecord {
            name: class_names.get(i).cloned(),
            planned: class.planned,
            clusters: class.clusters.len(),
            beta: class.beta,
        };
        let mut record = GraphRecord {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            id: String::new(),
            extraction,
            data: data.name().to_owned(),
            training: self.training,
            calibration: self.calibration,
            values: data.value_range(range.clone())?,
            classes: graph.classes().iter().enumerate().map(class).collect(),
            clustering: options.clustering.clone(),
            shares,
            restarts: options.restarts,
            seed: options.seed,
            choices: choices.clone(),
            anpc,
            criteria,
            left_out: left_out
                .into_iter()
                .map(|(spec, reason)| format!("{spec}: {reason}"))
                .collect(),
        };
        record.id = identify(&record, &graph, &shards)?;
        let names = sample_names(data, range.clone());
        let surroundings = Surroundings {
            fits: &fits,
            landmarks: &landmarks,
            calibration: &scores,
            names: &names,
        };
        let file = GraphFile::write(&store, &record, graph, &surroundings, shards)?;
        store.remove()?;
        let method = options.method.clone();
        Ok(LearntGraph::learnt(file, network.clone(), method))
    }
}

/// What is kept of training inputs, with their labels.
pub(crate) fn open_shards<'s>(
    store: &'s ShardStore,
    form: &ShardForm,
    inputs: &SampleRange<'_>,
) -> Result<TrainingShards<'s>, CoverageError> {
    let SampleRange { data, range, .. } = inputs;
    let labels = || range.clone().filter_map(|row| data.label(row)).collect();
    TrainingShards::open(store, form, range.clone(), data.is_labelled().then(labels))
}

/// Whether a criterion looks at nothing but the probabilities of classes.
fn is_of_probabilities(spec: &Spec) -> bool {
    matches!(
        spec.name.as_str(),
        "deepgini" | "entropy" | "margin" | "max-softmax"
    )
}

/// What the parts of a decision graph depend on: not on how their paths are clustered, nor on where the
/// model is, or which of the CPUs computes that give the same numbers.
fn plan(
    extraction: &ExtractionRecord,
    (training, calibration): (&DataRecord, Option<&DataRecord>),
    choices: &Choices,
    form: &ShardForm,
) -> Result<String, CoverageError> {
    let choices = Choices {
        threshold: choices.threshold,
        empty_layer: choices.empty_layer,
        seed: choices.seed,
        ..Choices::default()
    };
    let mut extraction = extraction.clone();
    extraction.model.file.clear();
    extraction.cpu.clear();
    let mut plan = serde_json::json!({
        "choices": choices,
        "extraction": extraction,
        "importance": form.importance,
        "training": training,
    });
    if !form.taps.is_empty() {
        let names = form.taps.iter().map(|(tap, _)| ShardForm::tap_name(*tap));
        plan["taps"] = names.collect();
    }
    if let Some(calibration) = calibration {
        plan["calibration"] = serde_json::json!(calibration);
    }
    Ok(serde_json::to_string(&plan).map_err(ArtefactError::Json)?)
}

impl BuildOptions {
    fn check(&self, network: &Network, inputs: &SampleRange<'_>) -> Result<(), RunError> {
        let data = inputs.data;
        let wrong = |name, value: String, wanted| {
            Err(RunError::Parameter {
                name,
                value,
                wanted,
            })
        };
        if inputs.range.is_empty() {
            return Err(RunError::NoInputs(data.name().to_owned()));
        }
        if self.yardstick_inputs == 0 {
            return wrong("yardstick-inputs", "0".to_owned(), "at least 1");
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
        if self.restarts > KMeans::MOST_RESTARTS {
            return wrong("restarts", self.restarts.to_string(), "at most 1000");
        }
        let named = [&self.alpha.classes, &self.beta.classes].map(|map| map.keys().max());
        for class in named
            .into_iter()
            .chain([self.clusters.classes.keys().max()])
            .flatten()
        {
            if *class >= network.classes() {
                return Err(RunError::NoSuchClass {
                    class: *class,
                    classes: network.classes(),
                });
            }
        }
        let layers = network.layers().len();
        network.require_layers()?;
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
        if self.choices.members == Members::Correct && !data.is_labelled() {
            return Err(RunError::NoLabels(data.name().to_owned()));
        }
        Ok(())
    }

    pub(crate) fn learn_options(&self, classes: usize, threads: usize) -> LearnOptions {
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
    fn anpc(
        &self,
        graph: &PathGraph,
        shards: &TrainingShards<'_>,
    ) -> Result<AnpcRecord, CoverageError> {
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
    shards: &TrainingShards<'_>,
    choices: &Choices,
    layers: &[usize],
    quantile: f64,
) -> Result<Vec<f64>, CoverageError> {
    let unbounded = |&layer: &usize| AnpcLayer {
        layer,
        upper: f64::MAX,
    };
    let anpc: Vec<AnpcLayer> = layers.iter().map(unbounded).collect();
    let observer = Observer::new(graph, choices, &anpc);
    let inputs = graph.training().len();
    let mut activations = vec![0.0; graph.layout().total_neurons()];
    let mut distances = vec![Vec::new(); layers.len()];
    for i in 0..SAMPLE.min(inputs) {
        // Spread over all inputs, which may be sorted by class.
        let index = (i * inputs / SAMPLE.min(inputs)) as u32;
        TrainingActivations::read(shards, index, &mut activations)?;
        let path = gather(shards, graph.layout(), &[index])?;
        let input = Input {
            class: graph.training().prediction(index as usize) as usize,
            path: path.row(0),
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
