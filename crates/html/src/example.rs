//! A dossier of any size, with any names, for tests.

use npcov::artefact::LayerRecord;
use npcov::coverage::{
    ClassCoverage, ClusterCoverage, ComparedReport, CountedBy, Gap, Gaps, LayerCoverage,
    PresentInput, Rank, Report, SuiteReport, TypicalInput, Values,
};
use npcov::criteria::Amount;

use crate::dossier::{
    Anatomy, ClassView, ClusterView, DataFacts, Dossier, ErrorGroup, ExplainedInput, Facts,
    InputView, LayerAnatomy, LayerMatch, ModelFacts, NeuronView, Pictures, Similarities, SuiteView,
    Training,
};

/// How large it is, and what things in it are called.
#[derive(Clone)]
pub(crate) struct Extent<'a> {
    pub(crate) suites: usize,
    pub(crate) classes: usize,
    pub(crate) clusters: usize,
    pub(crate) layers: usize,
    pub(crate) neurons: usize,
    pub(crate) inputs: usize,
    pub(crate) name: &'a str,
}

/// The fixture of the specification: three classes of two clusters, two layers, twelve inputs.
pub(crate) const SMALL: Extent<'static> = Extent {
    suites: 1,
    classes: 3,
    clusters: 2,
    layers: 2,
    neurons: 8,
    inputs: 12,
    name: "shirt",
};

fn share(covered: u64, total: u64) -> Values {
    Values(vec![("snpc".to_owned(), Amount::Share { covered, total })])
}

fn training(input: usize) -> Training {
    Training {
        input,
        sample: None,
        label: Some(1),
        value: 0.5,
    }
}

fn suite(extent: &Extent<'_>, number: usize) -> SuiteReport {
    let class = |class: usize| ClassCoverage {
        class,
        name: Some(extent.name.to_owned()),
        inputs: 7,
        expected: 8.25,
        p: 0.4,
        thin: class % 50 == 1,
        enough: Some(30),
        labelled: None,
        criteria: share(12, 800),
    };
    let cluster = |cluster: usize| ClusterCoverage {
        cluster,
        class: cluster / extent.clusters,
        inputs: cluster % 5,
        expected: 2.5,
        p: 1e-5,
        thin: cluster % 7 == 3,
        enough: Some(12),
        criteria: share(3, 400),
    };
    let layer = |layer: usize| LayerCoverage {
        layer,
        name: extent.name.to_owned(),
        criteria: share(1, 100),
    };
    let mut suite = SuiteReport::default();
    suite.name = format!("{}{number}", extent.name);
    suite.inputs = extent.inputs;
    suite.accuracy = Some(0.75);
    suite.criteria = share(1234, 56_789);
    suite.classes = (0..extent.classes).map(class).collect();
    suite.clusters = (0..extent.classes * extent.clusters).map(cluster).collect();
    suite.layers = (0..extent.layers).map(layer).collect();
    suite
}

fn report(extent: &Extent<'_>, suites: Vec<SuiteReport>) -> Report {
    let mut report = Report::default();
    report.suites = suites;
    report.buckets = Values(vec![("snpc".to_owned(), 56_789)]);
    report.warnings = vec![format!("something about {}", extent.name)];
    report
}

fn gaps(extent: &Extent<'_>, suite: &SuiteReport) -> Gaps {
    let typical = |input: usize, cluster: usize| TypicalInput {
        input,
        sample: Some(format!("{}/{input}.png", extent.name)),
        label: Some(0),
        cluster,
        distance: 1.5,
    };
    let gap = |cluster: &ClusterCoverage| Gap {
        class: cluster.class,
        name: Some(extent.name.to_owned()),
        cluster: Some(cluster.cluster),
        by: CountedBy::Prediction,
        inputs: cluster.inputs,
        expected: cluster.expected,
        p: cluster.p,
        missing: 3,
        exemplars: (0..8)
            .map(|input| typical(input, cluster.cluster))
            .collect(),
        present: vec![PresentInput {
            data: "data".to_owned(),
            input: 1,
            sample: None,
            label: Some(0),
            unfamiliar: Some(0.5),
        }],
        nearest: Vec::new(),
        add: None,
        wanted: Vec::new(),
    };
    let mut gaps = Gaps::default();
    gaps.suites = vec![suite.name.clone()];
    gaps.inputs = suite.inputs;
    gaps.gaps = suite
        .clusters
        .iter()
        .filter(|cluster| cluster.thin)
        .map(gap)
        .collect();
    gaps.judged = suite.judged();
    gaps
}

/// A dossier of this size.
pub(crate) fn dossier(extent: &Extent<'_>) -> Dossier {
    let all = extent.classes * extent.clusters;
    let suites: Vec<SuiteReport> = (0..extent.suites)
        .map(|number| suite(extent, number))
        .collect();
    let layer = |layer: usize| LayerAnatomy {
        path: 3 + layer % 3,
        shared: 2,
        missing: 1,
        used: 6,
        bits: "f".repeat(extent.neurons.div_ceil(4)),
    };
    let anatomy = |cluster: usize| Anatomy {
        width: 0.25,
        layers: (0..extent.layers).map(layer).collect(),
        labels: vec![(1, 20), (0, 2)],
        exemplars: (0..6).map(training).collect(),
        outliers: (6..10).map(training).collect(),
        misclassified: (10..12).map(training).collect(),
        place: (cluster < 500)
            .then(|| ((cluster as f64 * 0.7).sin(), (cluster as f64 * 1.3).cos())),
        similar: vec![((cluster + 1) % all, 0.5)],
        hints: vec![training(11)],
        frequencies: vec![vec![0.5; extent.neurons]; extent.layers],
    };
    let histogram = || (0..20).map(|degree| degree * 3).collect();
    let cluster = |cluster: usize| ClusterView {
        cluster,
        class: cluster / extent.clusters,
        training: 100,
        covered: vec![vec![5; extent.layers]; extent.suites],
        buckets: 200,
        reached: Some(vec![20; extent.layers]),
        anatomy: Some(anatomy(cluster)),
        inputs: vec![(0..extent.inputs.min(6)).collect(); extent.suites],
        wrong: vec![Some(1); extent.suites],
        misclassified: vec![(0..extent.inputs.min(2)).collect(); extent.suites],
        similarities: Some(Similarities {
            training: histogram(),
            suites: vec![histogram(); extent.suites],
            untried: vec![0],
        }),
    };
    let input = |place: usize| InputView {
        suite: 0,
        place,
        data: "data".to_owned(),
        input: place,
        sample: Some(format!("{}{place}", extent.name)),
        label: Some(0),
        prediction: place % extent.classes,
        cluster: Some(place % all),
        unfamiliar: Some(Rank {
            score: 1.25,
            p: Some(0.03),
        }),
        contested: None,
        explained: Some(ExplainedInput {
            logits: vec![(0, 1.5), (1, -0.25)],
            layers: vec![
                LayerMatch {
                    both: 2,
                    only_input: 1,
                    only_cluster: 3,
                    similarity: 1.0 / 3.0
                };
                extent.layers
            ],
            nearest: (0..5).map(training).collect(),
            path: vec![0; extent.layers * extent.neurons.div_ceil(64)],
        }),
    };
    let view = |suite: &SuiteReport| SuiteView {
        gaps: Some(gaps(extent, suite)),
        errors: (0..40)
            .map(|number| ErrorGroup {
                label: number,
                prediction: 1,
                cluster: Some(0),
                inputs: 9,
                places: (0..extent.inputs.min(8)).collect(),
            })
            .collect(),
        error_groups: 40,
        unfamiliar: (0..extent.inputs.min(12)).collect(),
        contested: vec![0],
        growth: (1..=60).collect(),
    };
    let neuron = |number: usize| NeuronView {
        layer: number / 8,
        neuron: number % 8,
        clusters: (0..all.min(100)).collect(),
        frequency: 0.5,
        strongest: (0..4).map(training).collect(),
    };
    Dossier {
        facts: Facts {
            measured_by: "0.1.0".to_owned(),
            graph: "0".repeat(64),
            model: "1".repeat(64),
            layers: (0..extent.layers)
                .map(|_| LayerRecord {
                    name: extent.name.to_owned(),
                    op: "Relu".to_owned(),
                    neurons: extent.neurons,
                    units: extent.neurons,
                    cut: true,
                    recurrent: false,
                })
                .collect(),
            arithmetic: "fused".to_owned(),
            learnt: Some(ModelFacts {
                model: extent.name.to_owned(),
                data: extent.name.to_owned(),
                sha256: "training".to_owned(),
                inputs: 1000,
                preprocessing: "divide 255".to_owned(),
                method: "lrp".to_owned(),
                alpha: (0.8, 0.8),
                beta: (0.6, 0.9),
                clustering: "graph".to_owned(),
                kernels: "direct".to_owned(),
                cpu: "avx2".to_owned(),
            }),
            data: suites
                .iter()
                .map(|suite| DataFacts {
                    suite: suite.name.clone(),
                    sha256: "data".to_owned(),
                    start: 0,
                    end: extent.inputs,
                    found: Some(extent.name.to_owned()),
                })
                .collect(),
        },
        views: suites.iter().map(view).collect(),
        compared: ComparedReport {
            report: report(extent, suites),
            difference: None,
        },
        check: None,
        classes: (0..extent.classes)
            .map(|class| ClassView {
                class,
                name: Some(extent.name.to_owned()),
                training: 200,
                first_cluster: class * extent.clusters,
                clusters: extent.clusters,
            })
            .collect(),
        clusters: (0..all).map(cluster).collect(),
        inputs: (0..extent.inputs.min(400)).map(input).collect(),
        neurons: (0..extent.layers.min(12) * 8).map(neuron).collect(),
        class_changes: Vec::new(),
        changes: Vec::new(),
        pool: None,
        notes: vec![format!("`{}` is not there", extent.name)],
        pictures: Pictures::default(),
    }
}
