//! Coverage of real models, held against its definition: sets of neurons, fractions and inequalities.
//!
//! What the fast version computes with bits and shards is computed here once more from relevances and
//! activations alone. Only the clusters are taken from the graph: k-means has many right answers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use npcov::Error;
use npcov::artefact::{GraphFile, MeasuredSuite};
use npcov::coverage::{
    AnpcUpper, BuildOptions, CoverOptions, CoverTarget, Coverage, GraphInspection, LearntGraph,
    Measurement, PerClass, SuiteSource,
};
use npcov::criteria::exact::fixed;
use npcov::criteria::{SetPart, SumsPart};
use npcov::data::safetensors::SafetensorsReader;
use npcov::data::{Loader, Preprocessing, Source, open};
use npcov::paths::choices::Buckets;
use npcov::paths::{Choices, Clustering, Clusters, NO_CLUSTER, Preset};
use npcov::program::{Output, Reduction, Side, Tap};
use npcov::run::{
    ExplainOptions, Explainer, Method, ModelOptions, Network, PathRows, SampleRange, TracedRows,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where the states of these criteria are among those of all.
const SNPC: usize = 0;
const ANPC: usize = 1;

/// What both keep.
const BUCKETS: SetPart = SetPart("buckets");

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

/// Measures suites and writes the coverage to a file.
fn measure(
    measurement: &Measurement<'_>,
    suites: &[SuiteSource<'_>],
    output: &Path,
    threads: usize,
) -> Result<Coverage, Error> {
    let target = CoverTarget {
        output: Some(output),
        earlier: None,
        threads,
    };
    Ok(npcov::coverage::cover(
        measurement,
        suites,
        target,
        &mut (),
    )?)
}

/// How a graph measures with these criteria.
fn by<'g>(graph: &'g LearntGraph, criteria: &[&str]) -> Measurement<'g> {
    let options = CoverOptions {
        criteria: Some(criteria.iter().map(|name| name.parse().unwrap()).collect()),
        ..CoverOptions::default()
    };
    graph.measurement(&options).unwrap()
}

/// A model with the data of the fixtures.
struct Case {
    folder: TempDir,
    model: PathBuf,
    network: Arc<Network>,
    loader: Loader<'static>,
    method: Method,
}

impl Case {
    fn new(model: &str) -> Case {
        let model = fixture(model);
        let network = Network::open(&model, &ModelOptions::default()).unwrap();
        let preprocessing = Preprocessing {
            divide: Some(255.0),
            ..Preprocessing::default()
        };
        let data = open(fixture("fashion-1000.npz").to_str().unwrap()).unwrap();
        Case {
            folder: TempDir::new().unwrap(),
            loader: Loader::new(data, network.sample_shape(), &preprocessing).unwrap(),
            method: Method::default(),
            model,
            network: Arc::new(network),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn range(&self, range: Range<usize>, threads: usize) -> SampleRange<'_> {
        SampleRange {
            data: &self.loader,
            range,
            threads,
        }
    }

    fn build(&self, options: &BuildOptions, inputs: usize) -> Result<LearntGraph, Error> {
        let options = BuildOptions {
            method: self.method.clone(),
            ..options.clone()
        };
        let output = self.path("graph.npcov");
        let inputs = self.range(0..inputs, 2);
        let built =
            npcov::coverage::build(&self.network, &inputs, &options, Some(&output), &mut ());
        Ok(built?)
    }

    fn suite(&self, name: &str, range: std::ops::Range<usize>) -> SuiteSource<'_> {
        SuiteSource {
            name: name.to_owned(),
            data: &self.loader,
            range,
        }
    }

    fn cover(&self, measurement: &Measurement<'_>, range: Range<usize>) -> MeasuredSuite {
        let output = self.path("state.npcov");
        let suites = [self.suite("suite", range)];
        let coverage = measure(measurement, &suites, &output, 2).unwrap();
        coverage.state().suites()[0].clone()
    }

    /// What the suite that was measured last is worth by a criterion.
    fn value(&self, name: &str) -> f64 {
        let coverage = Coverage::open(self.path("state.npcov")).unwrap();
        let report = coverage.report().unwrap();
        report.suites[0].criteria.get(name).unwrap().value()
    }

    /// Everything that the definitions speak of, for each input.
    fn inputs(&self, rule: Rule, alpha: &PerClass<f64>, count: usize) -> Vec<Input> {
        let settings = ExplainOptions {
            method: self.method.clone(),
            activations: true,
            ..ExplainOptions::default()
        };
        let explainer = Explainer::new(&self.network, &settings).unwrap();
        let outputs = explainer.tracer().outputs().to_vec();
        let lens = explainer.tracer().output_lens();
        let mut inputs = Vec::new();
        let on_batch = |batch: &TracedRows, classes: &[usize]| -> Result<(), Error> {
            for (place, (row, &class)) in batch.rows.clone().zip(classes).enumerate() {
                let mut logit = 0.0;
                let mut relevances = Vec::new();
                let mut activations = Vec::new();
                for ((output, values), len) in outputs.iter().zip(&batch.outputs).zip(lens) {
                    let values = values[place * len..(place + 1) * len].to_vec();
                    match output {
                        Output::Logits => logit = f64::from(values[class]),
                        Output::Relevance(_) => relevances.push(values),
                        Output::Tap(_) => activations.push(values),
                        _ => {}
                    }
                }
                let labels = self.loader.labels().unwrap();
                let cuts = self.network.layers().iter().map(|layer| layer.cut);
                inputs.push(Input {
                    class,
                    correct: labels[row] == class as i64,
                    path: relevances
                        .iter()
                        .zip(cuts)
                        .map(|(r, cut)| rule.critical(r, logit, cut, alpha.of(class)))
                        .collect(),
                    activations,
                });
            }
            Ok(())
        };
        npcov::explain_all(&explainer, &self.loader, 0..count, 2, 1, on_batch).unwrap();
        inputs
    }
}

/// What the definitions know of an input.
struct Input {
    class: usize,
    correct: bool,
    /// By layer: the critical neurons, the most relevant first.
    path: Vec<Vec<usize>>,
    /// By layer and neuron.
    activations: Vec<Vec<f32>>,
}

/// Two ways to define everything.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// As the paper does.
    Paper,
    /// As the authors' code does.
    Reference,
}

impl Rule {
    fn preset(self) -> Preset {
        match self {
            Rule::Paper => Preset::Paper,
            Rule::Reference => Preset::Reference,
        }
    }

    /// Section 2. The relevances are those of the seed `logit`, or 1 when that is not positive.
    fn critical(self, relevances: &[f32], logit: f64, cut: bool, alpha: f64) -> Vec<usize> {
        let (factor, seed) = match (logit > 0.0, self) {
            (true, _) => (1.0, logit),
            (false, Rule::Paper) => (1.0, 1.0),
            // Relevance is proportional to its seed.
            (false, Rule::Reference) => (logit, logit),
        };
        let r: Vec<f64> = relevances.iter().map(|&r| f64::from(r) * factor).collect();
        let mut order: Vec<usize> = (0..r.len()).collect();
        order.sort_by(|&a, &b| r[b].total_cmp(&r[a]).then(a.cmp(&b)));
        let mass: f64 = order.iter().map(|&i| r[i]).filter(|&r| r > 0.0).sum();
        match self {
            Rule::Paper => {
                let target = alpha * if cut { seed } else { mass };
                let mut sum = 0.0;
                let mut set = Vec::new();
                for i in order {
                    if sum > target || r[i] <= 0.0 {
                        break;
                    }
                    sum += r[i];
                    set.push(i);
                }
                set
            }
            Rule::Reference => {
                let mut sum = 0.0;
                let mut set = Vec::new();
                for i in order {
                    sum += r[i];
                    set.push(i);
                    if sum >= alpha * mass || r[i] <= 0.0 {
                        break;
                    }
                }
                set
            }
        }
    }

    /// Section 3: the abstract set of a layer with `neurons` neurons.
    fn merge(self, members: &[&Input], layer: usize, neurons: usize, beta: f64) -> BTreeSet<usize> {
        let with = |t: usize| members.iter().filter(move |m| m.path[layer].contains(&t));
        let counts: Vec<usize> = (0..neurons).map(|t| with(t).count()).collect();
        match self {
            Rule::Paper => {
                let above = |&t: &usize| counts[t] as f64 / members.len() as f64 > beta;
                (0..neurons).filter(above).collect()
            }
            Rule::Reference => {
                let threshold = (members.len() as f64 * beta).round_ties_even() as usize;
                // Of equally frequent neurons, those of earlier members come first. The reference
                // goes by relevance within a member, which a path of bits does not keep.
                let first = |t: usize| members.iter().position(|m| m.path[layer].contains(&t));
                let mut order: Vec<usize> = (0..neurons).collect();
                order.sort_by_cached_key(|&t| {
                    let first = first(t).unwrap_or(usize::MAX);
                    (std::cmp::Reverse(counts[t]), first, t)
                });
                let mut set = BTreeSet::new();
                for t in order {
                    set.insert(t);
                    // The first one below the threshold is still taken.
                    if counts[t] + 1 < threshold {
                        break;
                    }
                }
                set
            }
        }
    }

    /// Section 4: the bucket of the similarity `shared / united`.
    fn similarity_bucket(self, (shared, united): (u128, u128), m: u16) -> Option<u16> {
        match self {
            Rule::Paper => (1..=m).find(|&i| {
                let (i, m) = (u128::from(i), u128::from(m));
                (i - 1) * united < shared * m && shared * m <= i * united
            }),
            Rule::Reference => {
                let j = shared as f64 / united as f64;
                Some((j / (1.0 / f64::from(m))).ceil() as u16)
            }
        }
    }

    /// Section 5: the bucket of a distance.
    fn distance_bucket(self, d: f64, upper: f64, m: u16) -> Option<u16> {
        match self {
            Rule::Paper => {
                let edge = |i: u16| upper * f64::from(i) / f64::from(m);
                (1..=m).find(|&i| edge(i - 1) < d && d <= edge(i))
            }
            Rule::Reference => {
                // m edges from 0 to the bound: the bucket is the number of those not above.
                let edge = |i: u16| f64::from(i) * (upper / f64::from(m - 1));
                let inner = (0..m - 1).filter(|&i| edge(i) <= d).count() as u16;
                Some(inner + u16::from(upper <= d))
            }
        }
    }
}

/// Neurons in both of two sets and in either, as a fraction; 1 for two empty sets.
fn jaccard(a: &BTreeSet<usize>, b: &BTreeSet<usize>) -> (u128, u128) {
    match a.union(b).count() {
        0 => (1, 1),
        united => (a.intersection(b).count() as u128, united as u128),
    }
}

/// The sum of the layers' Jaccard similarities, as a fraction without rounding.
fn sum_of_layers(a: &[BTreeSet<usize>], b: &[BTreeSet<usize>]) -> (u128, u128) {
    let layers = a.iter().zip(b).map(|(a, b)| jaccard(a, b));
    layers.fold((0, 1), |(n, d), (shared, united)| {
        (n * united + shared * d, d * united)
    })
}

/// The first of those with the largest fraction.
fn first_largest<T>(scored: impl Iterator<Item = (T, (u128, u128))>) -> Option<(T, (u128, u128))> {
    scored.reduce(
        |best, next| match next.1.0 * best.1.1 > best.1.0 * next.1.1 {
            true => next,
            false => best,
        },
    )
}

fn distance(a: &[f32], b: &[f32], neurons: &BTreeSet<usize>) -> f64 {
    let squares = neurons.iter().map(|&i| {
        let difference = f64::from(a[i]) - f64::from(b[i]);
        difference * difference
    });
    squares.sum::<f64>().sqrt()
}

fn set_path(path: &[Vec<usize>]) -> Vec<BTreeSet<usize>> {
    let set = |layer: &Vec<usize>| layer.iter().copied().collect();
    path.iter().map(set).collect()
}

/// The numbers that a decision graph and its coverage depend on.
struct Parameters {
    training: usize,
    clusters: usize,
    alpha: f64,
    beta: f64,
    upper: f64,
}

/// Builds a graph from the first `training` inputs, measures the ones behind them, and holds
/// everything against the definition.
fn twin(model: &str, rule: Rule, parameters: Parameters) {
    let Parameters {
        training,
        clusters,
        alpha,
        beta,
        upper,
    } = parameters;
    let case = Case::new(model);
    let settings = BuildOptions {
        alpha: PerClass::all(alpha),
        beta: PerClass::all(beta),
        clustering: Clustering::KMeans,
        clusters: PerClass::all(Clusters::Fixed(clusters)),
        choices: rule.preset().choices(),
        anpc_upper: AnpcUpper::Fixed(vec![upper]),
        ..BuildOptions::default()
    };
    let graph = case.build(&settings, training).unwrap();
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    let end = training + 120;
    let suite = case.cover(&measurement, training..end);

    let inputs = case.inputs(rule, &settings.alpha, end);
    let paths: Vec<Vec<BTreeSet<usize>>> = inputs.iter().map(|i| set_path(&i.path)).collect();
    let (classes, layers) = (case.network.classes(), case.network.layers().len());

    let file = SafetensorsReader::open(graph.file().path().unwrap()).unwrap();
    let assigned: Vec<u32> = file.read("cluster").unwrap();
    let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (i, &cluster) in assigned.iter().enumerate() {
        let takes_part = rule == Rule::Paper || inputs[i].correct;
        assert_eq!(cluster != NO_CLUSTER, takes_part, "input {i}");
        if takes_part {
            members.entry(cluster).or_default().push(i);
        }
    }
    // A cluster's class is that of any member; clusters of one class are at most those planned.
    let class_of = |cluster: u32| inputs[members[&cluster][0]].class;
    for (cluster, list) in &members {
        assert!(list.iter().all(|&i| inputs[i].class == class_of(*cluster)));
    }
    let abstract_paths: BTreeMap<u32, Vec<BTreeSet<usize>>> = members
        .iter()
        .map(|(&cluster, list)| {
            let list: Vec<&Input> = list.iter().map(|&i| &inputs[i]).collect();
            let merged = (0..layers).map(|layer| {
                let neurons = case.network.layers()[layer].neurons;
                rule.merge(&list, layer, neurons, beta)
            });
            (cluster, merged.collect())
        })
        .collect();
    for class in GraphInspection::of(graph.file()).unwrap().classes {
        for cluster in class.clusters {
            for layer in cluster.layers {
                let twin = &abstract_paths[&(cluster.cluster as u32)][layer.layer];
                let found: BTreeSet<usize> = layer.neurons.iter().copied().collect();
                assert_eq!(
                    &found, twin,
                    "cluster {} layer {}",
                    cluster.cluster, layer.layer
                );
            }
        }
    }

    let (snpc_buckets, anpc_buckets): (u16, u16) = match rule {
        Rule::Paper => (200, 200),
        Rule::Reference => (100, 200),
    };
    let mut snpc = BTreeSet::new();
    let mut anpc = BTreeSet::new();
    for (place, i) in (training..end).enumerate() {
        let (input, path) = (&inputs[i], &paths[i]);
        let scored = || {
            let of_class = |cluster: &&u32| class_of(**cluster) == input.class;
            let chosen = members.keys().filter(of_class);
            first_largest(chosen.map(|&c| (c, sum_of_layers(path, &abstract_paths[&c]))))
        };
        let record = suite.inputs[place];
        assert_eq!(record.prediction as usize, input.class);
        // The sum of (b - m)^2 over all neurons, m the share of members that have the neuron.
        let from_centre = |list: &[usize]| -> f64 {
            let neurons: BTreeSet<(usize, usize)> = (list.iter().chain([&i]))
                .flat_map(|&m| paths[m].iter().enumerate())
                .flat_map(|(layer, set)| set.iter().map(move |&neuron| (layer, neuron)))
                .collect();
            let square = |&(layer, neuron): &(usize, usize)| {
                let has = |m: &&usize| paths[**m][layer].contains(&neuron);
                let share = list.iter().filter(has).count() as f64 / list.len() as f64;
                (f64::from(u8::from(path[layer].contains(&neuron))) - share).powi(2)
            };
            neurons.iter().map(square).sum()
        };
        let own = members.iter().filter(|(c, _)| class_of(**c) == input.class);
        let distances: Vec<(u32, f64)> = own.map(|(&c, list)| (c, from_centre(list))).collect();
        match distances
            .iter()
            .find(|(cluster, _)| *cluster == record.cluster)
        {
            Some((_, found)) => {
                let nearer = |&(_, d): &(u32, f64)| d < found - 1e-9;
                assert!(!distances.iter().any(nearer), "input {i}: {distances:?}");
            }
            None => assert!(record.cluster == NO_CLUSTER && distances.is_empty()),
        }
        for (&cluster, list) in members.iter().filter(|(c, _)| class_of(**c) == input.class) {
            let abstract_path = &abstract_paths[&cluster];
            for layer in 0..layers {
                let similarity = jaccard(&path[layer], &abstract_path[layer]);
                let bucket = rule.similarity_bucket(similarity, snpc_buckets);
                snpc.extend(bucket.map(|bucket| (cluster, layer, bucket)));
            }
            let to = |member: usize, layer: usize| {
                let (a, b) = (
                    &input.activations[layer],
                    &inputs[member].activations[layer],
                );
                distance(a, b, &abstract_path[layer])
            };
            let distances: Vec<f64> = match rule {
                Rule::Paper => {
                    let scored = list.iter().map(|&m| (m, sum_of_layers(path, &paths[m])));
                    let (nearest, _) = first_largest(scored).unwrap();
                    (0..layers).map(|layer| to(nearest, layer)).collect()
                }
                Rule::Reference if scored().is_none_or(|(c, _)| c != cluster) => continue,
                Rule::Reference => {
                    let smallest = |layer| list.iter().map(move |&m| to(m, layer));
                    let smallest = |layer| smallest(layer).fold(f64::INFINITY, f64::min);
                    (0..layers).map(smallest).collect()
                }
            };
            for (layer, d) in distances.into_iter().enumerate() {
                if rule == Rule::Paper || layer + 1 == layers {
                    let bucket = rule.distance_bucket(d, upper, anpc_buckets);
                    anpc.extend(bucket.map(|bucket| (cluster, layer, bucket)));
                }
            }
        }
    }
    for (name, place, twin, buckets) in [
        ("SNPC", SNPC, snpc, snpc_buckets),
        ("ANPC", ANPC, anpc, anpc_buckets),
    ] {
        let found = suite.states[place].get(BUCKETS).unwrap();
        // A slot below the first bucket is that of disjoint paths.
        let slot = |&(cluster, layer, bucket): &(u32, usize, u16)| {
            let slots = usize::from(buckets) + 1;
            (cluster as usize * layers + layer) * slots + usize::from(bucket)
        };
        let covered: BTreeSet<usize> = twin.iter().map(slot).collect();
        assert!(
            found.iter().eq(covered.iter().copied()),
            "{name}: other buckets"
        );
        let all = classes * clusters * layers * usize::from(buckets);
        let value = twin.len() as f64 / all as f64;
        assert_eq!(case.value(&name.to_lowercase()), value, "{name}");
        assert!(
            twin.len() > 100,
            "{name}: only {} buckets, too few to tell",
            twin.len()
        );
    }
}

const PLAIN: Parameters = Parameters {
    training: 400,
    clusters: 3,
    alpha: 0.8,
    beta: 0.6,
    upper: 8.0,
};

const RESIDUAL: Parameters = Parameters {
    training: 200,
    clusters: 2,
    alpha: 0.7,
    beta: 0.7,
    upper: 2.0,
};

#[test]
fn a_plain_network_is_covered_as_the_paper_says() {
    twin("lenet.onnx", Rule::Paper, PLAIN);
}

#[test]
fn a_plain_network_is_covered_as_the_reference_does() {
    twin("lenet.onnx", Rule::Reference, PLAIN);
}

#[test]
fn a_residual_network_is_covered_as_the_paper_says() {
    twin("resnet8.onnx", Rule::Paper, RESIDUAL);
}

#[test]
fn a_residual_network_is_covered_as_the_reference_does() {
    twin("resnet8.onnx", Rule::Reference, RESIDUAL);
}

/// A small decision graph.
fn small() -> (Case, LearntGraph) {
    let case = Case::new("mlp-matlab.onnx");
    let settings = BuildOptions {
        clustering: Clustering::KMeans,
        clusters: PerClass::all(Clusters::Fixed(2)),
        choices: Choices {
            snpc_buckets: Buckets::new(20).unwrap(),
            anpc_buckets: Buckets::new(20).unwrap(),
            ..Choices::default()
        },
        ..BuildOptions::default()
    };
    let graph = case.build(&settings, 60).unwrap();
    (case, graph)
}

#[test]
fn a_suite_covers_what_its_parts_cover() {
    let (case, graph) = small();
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    let all = case.cover(&measurement, 100..700);
    for middle in [101, 199, 450, 612, 699] {
        let (first, second) = (
            case.cover(&measurement, 100..middle),
            case.cover(&measurement, middle..700),
        );
        for place in [SNPC, ANPC] {
            let covered = |suite: &MeasuredSuite| suite.states[place].get(BUCKETS).unwrap().count();
            let parts = [covered(&first), covered(&second)];
            assert!(covered(&all) >= parts[0].max(parts[1]));
            assert!(covered(&all) <= parts[0] + parts[1]);
        }
        let pairs = first.states.iter().zip(&second.states).zip(&all.states);
        for ((first, second), all) in pairs {
            let mut both = first.clone();
            both.append(second).unwrap();
            assert_eq!(&both, all);
        }
        assert_eq!([first.inputs, second.inputs].concat(), all.inputs);
    }
}

#[test]
fn measuring_in_memory_gives_what_files_give() {
    let (case, graph) = small();
    // All criteria, also one for which the order of inputs matters, on more than one shard.
    // Those of recurrent layers have nothing to look at here.
    let names = npcov::criteria::names().into_iter();
    let names: Vec<&str> = names
        .filter(|name| !["bsc", "wsc", "sbc", "btc", "wtc"].contains(name))
        .collect();
    let measurement = by(&graph, &names);
    let expected = case.cover(&measurement, 100..700);
    let in_memory = |measurement: &Measurement<'_>, name: &str, range, threads| {
        measurement.cover(name, &case.range(range, threads), &mut ())
    };
    for threads in [1, 3] {
        let coverage = in_memory(&measurement, "suite", 100..700, threads).unwrap();
        assert!(coverage.state().suites()[0] == expected);
    }
    assert!(in_memory(&measurement, "suite", 5..5, 1).is_err());
    assert!(in_memory(&measurement, "suite", 0..1001, 1).is_err());

    // Parts that are united are the whole.
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    let expected = case.cover(&measurement, 100..700);
    let mut parts = Coverage::new(measurement.state());
    for (name, range) in [("c", 300..700), ("a", 100..250), ("b", 250..300)] {
        let part = in_memory(&measurement, name, range, 2).unwrap();
        parts.merge(part).unwrap();
    }
    let united = parts.united(&["a", "b", "c"], "suite").unwrap();
    assert!(united.state().suites()[0] == expected);
    assert!(parts.united(&["a", "d"], "suite").is_err());
}

/// Units are summed up while they are computed: as if all had been kept.
#[test]
fn sums_of_units_are_those_of_their_numbers() {
    let (case, graph) = small();
    let measurement = by(&graph, &["nc"]);
    let range = 100..633;
    let units = |layer| Tap {
        layer,
        side: Side::After,
        reduction: Reduction::Units,
    };
    let taps: Vec<Tap> = (0..case.network.layers().len()).map(units).collect();
    let tracer = case.network.tracer(&taps).unwrap();
    // The taps in order, then the logits. In layers of single units these are the activations.
    let wanted = taps.iter().map(|&tap| Output::Tap(tap));
    let wanted: Vec<usize> = wanted
        .chain([Output::Logits])
        .map(|output| tracer.outputs().iter().position(|&o| o == output).unwrap())
        .collect();
    let mut sums = vec![0; wanted.iter().map(|&i| tracer.output_lens()[i]).sum()];
    let run = tracer.run(
        &case.loader,
        range.clone(),
        2,
        |batch| -> Result<(), Error> {
            let mut first = 0;
            for &i in &wanted {
                let len = tracer.output_lens()[i];
                for row in batch.outputs[i].chunks_exact(len) {
                    for (sum, &x) in sums[first..].iter_mut().zip(row) {
                        *sum += fixed(f64::from(x.max(0.0)));
                    }
                }
                first += len;
            }
            Ok(())
        },
    );
    run.unwrap();
    assert!(
        case.cover(&measurement, range).states[0]
            .get(SumsPart("sums"))
            .unwrap()
            == sums
    );
}

#[test]
fn a_longer_suite_covers_no_less() {
    let (case, graph) = small();
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    let mut before = [0, 0];
    for end in [61, 70, 100, 200, 500, 1000] {
        let suite = case.cover(&measurement, 60..end);
        let covered = [SNPC, ANPC].map(|i| suite.states[i].get(BUCKETS).unwrap().count());
        assert!(
            covered[0] >= before[0] && covered[1] >= before[1],
            "{end}: {covered:?}"
        );
        before = covered;
    }
    assert!(before[0] > 50 && before[1] > 50, "{before:?}");
}

#[test]
fn an_input_that_the_graph_was_learnt_from_has_distance_zero_to_itself() {
    let (case, graph) = small();
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    for index in [0, 17, 59] {
        let mut found = None;
        let extractor = graph.extractor().unwrap();
        let observe = |batch: &PathRows| -> Result<(), Error> {
            found = Some(measurement.observe(batch, 0)?);
            Ok(())
        };
        let range = index..index + 1;
        extractor.run(&case.loader, range, 1, observe).unwrap();
        let observation = found.unwrap();
        let own = graph.file().graph().cluster_of(index as u32) as usize;
        let view = observation.clusters.iter().find(|view| view.cluster == own);
        let view = view.unwrap();
        // The nearest member has the same path; it may be an earlier one.
        let nearest = view.neighbour.unwrap();
        let path = |input: u32| {
            let file = graph.file();
            npcov::paths::gather(file, file.graph().layout(), &[input]).unwrap()
        };
        assert_eq!(path(nearest), path(index as u32));
        assert!(nearest as usize <= index);
        if nearest as usize == index {
            assert!(
                view.distances
                    .iter()
                    .all(|&(d, bucket)| d == 0.0 && bucket.is_none())
            );
        }
    }
}

/// The bytes of an artefact with another record.
fn with_record(bytes: &[u8], edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let reader = SafetensorsReader::new(&Source::from_bytes(bytes.to_vec()), "bytes").unwrap();
    let mut record: Value = serde_json::from_str(reader.metadata().unwrap()).unwrap();
    edit(&mut record);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edited");
    reader.save(&file, &record.to_string()).unwrap();
    std::fs::read(file).unwrap()
}

/// Uses a file as a decision graph for all that it is good for.
fn use_graph(case: &Case, file: &PathBuf) -> Result<(), Error> {
    GraphInspection::of(&GraphFile::open(file)?)?;
    let graph = LearntGraph::open(file, Some(&case.model))?;
    let measurement = graph.measurement(&CoverOptions::default())?;
    let output = case.path("used.npcov");
    let suites = [case.suite("suite", 0..3)];
    measure(&measurement, &suites, &output, 1)?.report()?;
    Ok(())
}

fn use_state(file: &PathBuf) -> Result<(), Error> {
    Coverage::open(file)?.report()?;
    Coverage::merge_files(std::slice::from_ref(file), Some("all"))?;
    Ok(())
}

/// Places all over a file, the header more densely than the numbers, each with a bit to turn.
fn damages(bytes: &[u8], header: usize, data: usize) -> impl Iterator<Item = (usize, u8)> {
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let len = bytes.len();
    (0..header + data).map(move |i| {
        let place = match i < header {
            true => next(start),
            false => start + next(len - start),
        };
        (place, 1 << next(8))
    })
}

#[test]
fn damaged_files_are_refused_or_used_but_never_a_panic() {
    let (case, graph) = small();
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    case.cover(&measurement, 60..90);
    let file = case.path("damaged.npcov");
    let mut refused = 0;
    let graph_bytes = std::fs::read(graph.file().path().unwrap()).unwrap();
    for (place, bit) in damages(&graph_bytes, 700, 100) {
        let mut bytes = graph_bytes.clone();
        bytes[place] ^= bit;
        std::fs::write(&file, bytes).unwrap();
        refused += usize::from(use_graph(&case, &file).is_err());
    }
    let state_bytes = std::fs::read(case.path("state.npcov")).unwrap();
    for (place, bit) in damages(&state_bytes, 700, 300) {
        let mut bytes = state_bytes.clone();
        bytes[place] ^= bit;
        std::fs::write(&file, bytes).unwrap();
        refused += usize::from(use_state(&file).is_err());
    }
    assert!(refused > 500, "only {refused} of 1,800");
    for bytes in [&graph_bytes, &state_bytes] {
        for cut in (0..200).map(|i| i * bytes.len() / 200) {
            std::fs::write(&file, &bytes[..cut]).unwrap();
            assert!(
                use_graph(&case, &file).is_err() && use_state(&file).is_err(),
                "{cut}"
            );
        }
    }
}

#[test]
fn records_that_promise_too_much_are_refused() {
    const HUGE: u64 = u64::MAX;
    let (case, graph) = small();
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    case.cover(&measurement, 60..90);
    let file = case.path("hostile.npcov");
    let bytes = std::fs::read(graph.file().path().unwrap()).unwrap();
    std::fs::write(&file, with_record(&bytes, |_| {})).unwrap();
    use_graph(&case, &file).unwrap();
    let edits: [(&str, Value); 11] = [
        ("/classes/0/planned", HUGE.into()),
        ("/classes/0/clusters", HUGE.into()),
        (
            "/classes/0",
            json!({"name": null, "planned": HUGE, "clusters": HUGE, "beta": 0.8}),
        ),
        ("/training/end", HUGE.into()),
        ("/extraction/layers/0/neurons", HUGE.into()),
        ("/extraction/layers", json!([])),
        ("/extraction/alpha/0", 2.into()),
        ("/anpc/layers/0/layer", 7.into()),
        ("/choices/snpc-buckets", 65_536.into()),
        ("/choices/members", "all".into()),
        ("/kind", "coverage-state".into()),
    ];
    for (place, value) in edits {
        let edit = |record: &mut Value| *record.pointer_mut(place).unwrap() = value;
        std::fs::write(&file, with_record(&bytes, edit)).unwrap();
        assert!(use_graph(&case, &file).is_err(), "{place}");
    }
    // Without layers, nothing but the record says how many clusters there are.
    let edit = |record: &mut Value| {
        record["extraction"]["layers"] = json!([]);
        record["anpc"]["layers"] = json!([]);
        record["classes"][0]["planned"] = HUGE.into();
        record["classes"][0]["clusters"] = HUGE.into();
    };
    std::fs::write(&file, with_record(&bytes, edit)).unwrap();
    assert!(use_graph(&case, &file).is_err());

    let bytes = std::fs::read(case.path("state.npcov")).unwrap();
    std::fs::write(&file, with_record(&bytes, |_| {})).unwrap();
    use_state(&file).unwrap();
    let edits: [(&str, Value); 8] = [
        ("/classes/0", json!([HUGE, 2])),
        ("/classes/0", json!([HUGE, HUGE])),
        ("/classes/0", json!([2, 0])),
        ("/suites/0/shards/0/end", HUGE.into()),
        ("/suites/0/shards", json!([])),
        ("/layers", json!([])),
        ("/anpc/layers", json!([])),
        ("/choices/anpc-buckets", 0.into()),
    ];
    for (place, value) in edits {
        let edit = |record: &mut Value| *record.pointer_mut(place).unwrap() = value;
        std::fs::write(&file, with_record(&bytes, edit)).unwrap();
        assert!(use_state(&file).is_err(), "{place}");
    }
}
