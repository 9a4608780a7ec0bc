//! Coverage held against its definition: sets of neurons, fractions and inequalities.
//!
//! What the fast version computes with bits and shards is computed here once more from relevances and
//! activations alone. Only the clusters are taken from the graph: k-means has many right answers.

use std::collections::{BTreeMap, BTreeSet};

use npcov::Error;
use npcov::coverage::{AnpcUpper, BuildOptions, CoverOptions, GraphInspection, PerClass};
use npcov::data::safetensors::SafetensorsReader;
use npcov::paths::{Clustering, Clusters, NO_CLUSTER, Preset};
use npcov::program::Output;
use npcov::run::{ExplainOptions, Explainer, TracedRows};

use crate::case::{ANPC, BUCKETS, Case, SNPC};

impl Case {
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
