//! What is told of each cluster: its path, its members, and what suites have of it.

use npcov::DecisionGraph;
use npcov::artefact::{GraphFile, InputRecord, MeasuredSuite, ScoreKind};
use npcov::coverage::Coverage;
use npcov::paths::bits;
use npcov::paths::choices::Similarity;
use npcov::paths::{BitRows, Centres, ClassNode, Jaccard, PathGraph, gather, similarity_bucket};

use super::suites::Paths;
use super::{Anatomy, ClassView, ClusterView, LayerAnatomy, Similarities, Training};
use crate::error::HtmlError;
use crate::map;

/// Members that are shown as typical, and inputs of a suite.
pub(super) const SHOWN: usize = 6;
/// Members that are shown as least typical, and as hints.
const OUTLIERS: usize = 6;
/// Similar clusters that are named.
const SIMILAR: usize = 3;
/// Labels that are named.
const LABELS: usize = 3;
/// Degrees of similarity that are told apart.
pub(crate) const DEGREES: usize = 20;
/// Clusters on the map, at most.
const MOST_ON_MAP: usize = 500;
/// Words of paths that are compared to see what training covers, at most: some seconds.
const MOST_WORDS: usize = 1 << 31;
/// A degree of similarity that fewer members have is nothing to try.
const WORTH_TRYING: f64 = 0.02;

/// The classes of a state.
pub(super) fn classes(coverage: &Coverage) -> Vec<ClassView> {
    let record = coverage.state().record();
    let mut first = 0;
    let class = |(class, &(_, clusters)): (usize, &(usize, usize))| {
        let own = first..first + clusters;
        first = own.end;
        ClassView {
            class,
            name: record.class_names.get(class).cloned().flatten(),
            training: record
                .shares
                .get(own.clone())
                .unwrap_or_default()
                .iter()
                .sum(),
            first_cluster: own.start,
            clusters,
        }
    };
    record.classes.iter().enumerate().map(class).collect()
}

/// The clusters of a state.
pub(super) fn clusters(
    coverage: &Coverage,
    classes: &[ClassView],
    paths: Option<&Paths<'_>>,
    graph: Option<&DecisionGraph>,
) -> Result<Vec<ClusterView>, HtmlError> {
    let record = coverage.state().record();
    let Some(paths) = paths else {
        return Ok(Vec::new());
    };
    let owners: Vec<usize> = classes
        .iter()
        .flat_map(|class| (0..class.clusters).map(|_| class.class))
        .collect();
    let suites = coverage.state().suites();
    let mut covered = Vec::new();
    let mut degrees = Vec::new();
    for suite in suites {
        covered.push(paths.by_cluster(suite, owners.len())?);
        degrees.push(paths.similarities(suite)?);
    }
    let inputs_with = |wanted: fn(&InputRecord) -> bool| -> Vec<Vec<Vec<usize>>> {
        let of_suite = |suite| inputs(suite, owners.len(), wanted);
        suites.iter().map(of_suite).collect()
    };
    let inputs = inputs_with(|_| true);
    let wrongs = inputs_with(|input| input.is_correct() == Some(false));
    let mut views: Vec<ClusterView> = owners
        .iter()
        .enumerate()
        .map(|(cluster, &class)| ClusterView {
            cluster,
            class,
            training: record.shares.get(cluster).copied().unwrap_or(0),
            covered: covered.iter().map(|suite| suite[cluster].clone()).collect(),
            buckets: paths.buckets,
            reached: None,
            anatomy: None,
            wrong: suites.iter().map(|suite| wrong(suite, cluster)).collect(),
            misclassified: wrongs.iter().map(|suite| suite[cluster].clone()).collect(),
            inputs: inputs.iter().map(|suite| suite[cluster].clone()).collect(),
            similarities: None,
        })
        .collect();
    if let Some(graph) = graph {
        let file = graph.learnt().file();
        let atlas = Atlas::new(file)?;
        let mut reached = reached(file, coverage)?;
        for view in &mut views {
            view.reached = reached
                .as_mut()
                .map(|all| std::mem::take(&mut all[view.cluster]));
            let rows = file.graph().members(view.cluster);
            let own = Members {
                paths: gather(file, file.graph().layout(), &rows)?,
                rows,
            };
            let members = atlas.similarities(view.cluster, &own.paths, coverage);
            let suites: Vec<Vec<usize>> = suites
                .iter()
                .zip(&degrees)
                .map(|(suite, degrees)| histogram(of_cluster(suite, degrees, view.cluster)))
                .collect();
            let training = histogram(members.iter().copied());
            let least = (WORTH_TRYING * members.len() as f64).max(1.0) as usize;
            let untried: Vec<usize> = (0..DEGREES)
                .filter(|&d| training[d] >= least && suites.iter().all(|suite| suite[d] == 0))
                .collect();
            view.anatomy = Some(atlas.anatomy(view.cluster, &own, &members, &untried));
            view.similarities = Some(Similarities {
                training,
                suites,
                untried,
            });
        }
    }
    Ok(views)
}

/// By cluster: the inputs that belong to it and are wanted, the most familiar ones first.
fn inputs(
    suite: &MeasuredSuite,
    clusters: usize,
    wanted: fn(&InputRecord) -> bool,
) -> Vec<Vec<usize>> {
    let mut found = vec![Vec::new(); clusters];
    for (place, input) in suite.inputs.iter().enumerate().filter(|(_, i)| wanted(i)) {
        if let Some(list) = found.get_mut(input.cluster as usize) {
            list.push(place);
        }
    }
    let far = |&place: &usize| {
        suite.inputs[place]
            .score(ScoreKind::Unfamiliar)
            .unwrap_or(f64::INFINITY)
    };
    for list in &mut found {
        // Stable: of equal ones the first.
        list.sort_by(|a, b| far(a).total_cmp(&far(b)));
        list.truncate(SHOWN);
    }
    found
}

/// How many inputs of a cluster are not classified as labelled.
fn wrong(suite: &MeasuredSuite, cluster: usize) -> Option<usize> {
    let own = suite
        .inputs
        .iter()
        .filter(|input| input.cluster as usize == cluster);
    let judged: Vec<bool> = own.filter_map(|input| input.is_correct()).collect();
    let labelled = suite
        .inputs
        .iter()
        .any(|input| input.is_correct().is_some());
    labelled.then(|| judged.iter().filter(|&&right| !right).count())
}

fn of_cluster<'a>(
    suite: &'a MeasuredSuite,
    degrees: &'a [Option<f64>],
    cluster: usize,
) -> impl Iterator<Item = f64> + 'a {
    let own = suite.inputs.iter().zip(degrees);
    own.filter(move |(input, _)| input.cluster as usize == cluster)
        .filter_map(|(_, degree)| *degree)
}

/// The degree of a similarity.
fn degree(similarity: f64) -> usize {
    // Rounding must not move a similarity that is the end of a degree into the next one.
    let end = (similarity * DEGREES as f64 - 1e-9).ceil() as usize;
    end.saturating_sub(1).min(DEGREES - 1)
}

fn histogram(similarities: impl Iterator<Item = f64>) -> Vec<usize> {
    let mut counts = vec![0; DEGREES];
    similarities.for_each(|similarity| counts[degree(similarity)] += 1);
    counts
}

/// By cluster and layer: how many buckets of SNPC the training inputs of the class cover. `None` where that takes long.
fn reached(file: &GraphFile, coverage: &Coverage) -> Result<Option<Vec<Vec<usize>>>, HtmlError> {
    let graph = file.graph();
    let choices = &coverage.state().record().choices;
    let (layout, buckets) = (graph.layout(), choices.snpc_buckets.get());
    let words = |class: &ClassNode| {
        let own = class.clusters.clone();
        own.clone().map(|c| graph.size(c)).sum::<usize>() * own.len() * layout.width()
    };
    if graph.classes().iter().map(words).sum::<usize>() > MOST_WORDS {
        return Ok(None);
    }
    let mut found = vec![vec![0; layout.layers()]; graph.clusters()];
    for class in graph.classes() {
        let mut members: Vec<u32> = (class.clusters.clone())
            .flat_map(|cluster| graph.members(cluster))
            .collect();
        members.sort_unstable();
        let paths = gather(file, layout, &members)?;
        for cluster in class.clusters.clone() {
            for (layer, count) in found[cluster].iter_mut().enumerate() {
                let abstract_layer = layout.layer(graph.abstract_path(cluster), layer);
                let mut seen = vec![false; usize::from(buckets) + 1];
                for path in paths.rows() {
                    let own = layout.layer(path, layer);
                    let bucket = similarity_bucket(
                        Jaccard::of(own, abstract_layer),
                        buckets,
                        choices.snpc_disjoint,
                        choices.snpc_arithmetic,
                    );
                    if let Some(bucket) = bucket {
                        seen[usize::from(bucket)] = true;
                    }
                }
                *count = seen.into_iter().filter(|&seen| seen).count();
            }
        }
    }
    Ok(Some(found))
}

/// The members of a cluster, in order.
struct Members {
    rows: Vec<u32>,
    paths: BitRows,
}

/// What is known of the clusters of a graph together.
struct Atlas<'g> {
    file: &'g GraphFile,
    centres: Centres,
    /// By cluster: its most typical members.
    typical: Vec<Vec<(u32, f64)>>,
    places: Vec<Option<(f64, f64)>>,
}

impl<'g> Atlas<'g> {
    fn new(file: &'g GraphFile) -> Result<Atlas<'g>, HtmlError> {
        let graph = file.graph();
        // Of very many clusters, the largest.
        let mut shown: Vec<usize> = (0..graph.clusters()).collect();
        shown.sort_by_key(|&cluster| std::cmp::Reverse(graph.size(cluster)));
        shown.truncate(MOST_ON_MAP);
        shown.sort_unstable();
        let found = map::plane(shown.len(), |a, b| {
            1.0 - similarity(graph, shown[a], shown[b])
        });
        let mut places = vec![None; graph.clusters()];
        // As many digits as a screen has pixels.
        let rounded = |x: f64| (x * 1e4).round() / 1e4 + 0.0;
        for (cluster, (x, y)) in shown.into_iter().zip(found) {
            places[cluster] = Some((rounded(x), rounded(y)));
        }
        let centres = Centres::of(graph, file)?;
        Ok(Atlas {
            file,
            typical: centres.typical(graph, file, |_| true, SHOWN)?,
            centres,
            places,
        })
    }

    /// For each member of a cluster, how similar its path is to the cluster's, as it is for inputs of suites.
    fn similarities(&self, cluster: usize, members: &BitRows, coverage: &Coverage) -> Vec<f64> {
        let graph = self.file.graph();
        let choices = &coverage.state().record().choices;
        let buckets = choices.snpc_buckets.get();
        let layers = graph.layout().layers();
        let one = |path: &[u64]| {
            let bucket = |layer: usize| {
                let jaccard = Jaccard::of(
                    graph.layout().layer(path, layer),
                    graph.layout().layer(graph.abstract_path(cluster), layer),
                );
                let found = similarity_bucket(
                    jaccard,
                    buckets,
                    choices.snpc_disjoint,
                    choices.snpc_arithmetic,
                );
                usize::from(found.unwrap_or(0))
            };
            let sum: usize = (0..layers).map(bucket).sum();
            sum as f64 / (usize::from(buckets) * layers).max(1) as f64
        };
        members.rows().map(one).collect()
    }

    fn anatomy(
        &self,
        cluster: usize,
        own: &Members,
        similarities: &[f64],
        untried: &[usize],
    ) -> Anatomy {
        let graph = self.file.graph();
        let class = &graph.classes()[graph.class_of(cluster)];
        let others: Vec<usize> = class
            .clusters
            .clone()
            .filter(|&other| other != cluster)
            .collect();
        let Members {
            rows: members,
            paths,
        } = own;
        let mut layers = Vec::new();
        let mut frequencies = Vec::new();
        for layer in 0..graph.layout().layers() {
            let neurons = graph.layout().neurons(layer);
            let own = graph.layout().layer(graph.abstract_path(cluster), layer);
            let mut counts = vec![0usize; neurons];
            for path in paths.rows() {
                bits::ones(graph.layout().layer(path, layer)).for_each(|n| counts[n] += 1);
            }
            let elsewhere = |neuron: usize| {
                let has = |&other: &usize| {
                    bits::get(
                        graph.layout().layer(graph.abstract_path(other), layer),
                        neuron,
                    )
                };
                others.iter().any(has)
            };
            let in_path = |neuron: &usize| bits::get(own, *neuron);
            layers.push(LayerAnatomy {
                path: bits::count(own) as usize,
                shared: (0..neurons)
                    .filter(in_path)
                    .filter(|&n| elsewhere(n))
                    .count(),
                missing: (0..neurons)
                    .filter(|n| !in_path(n) && elsewhere(*n))
                    .count(),
                used: counts.iter().filter(|&&count| count > 0).count(),
                bits: hexadecimal(own, neurons),
            });
            let share = |count: usize| count as f64 / members.len().max(1) as f64;
            frequencies.push(counts.into_iter().map(share).collect());
        }
        let share = |(layer, anatomy): (usize, &LayerAnatomy)| {
            anatomy.path as f64 / graph.layout().neurons(layer).max(1) as f64
        };
        let mut far: Vec<(u32, f64)> = (members.iter().zip(paths.rows()))
            .map(|(&row, path)| (row, self.centres.distance(cluster, path)))
            .collect();
        far.sort_by(|a, b| b.1.total_cmp(&a.1));
        let owner = graph.class_of(cluster) as i64;
        let label = |row: u32| graph.training().label(row as usize);
        let is_wrong = |row: u32| label(row).is_some_and(|label| label != owner);
        let mut misclassified: Vec<(u32, f64)> = far
            .iter()
            .copied()
            .filter(|&(row, _)| is_wrong(row))
            .collect();
        misclassified.reverse();
        misclassified.truncate(SHOWN);
        far.truncate(OUTLIERS);
        let mut similar: Vec<(usize, f64)> = (0..graph.clusters())
            .filter(|&other| other != cluster)
            .map(|other| (other, similarity(graph, cluster, other)))
            .collect();
        similar.sort_by(|a, b| b.1.total_cmp(&a.1));
        similar.truncate(SIMILAR);
        // A member of each degree in turn.
        let of_degree = |&wanted: &usize| {
            let found = similarities.iter().position(|&s| degree(s) == wanted);
            found.map(|i| (members[i], similarities[i]))
        };
        let hints = untried.iter().filter_map(of_degree).take(OUTLIERS);
        Anatomy {
            width: layers.iter().enumerate().map(share).sum::<f64>() / layers.len().max(1) as f64,
            layers,
            labels: self.labels(members),
            exemplars: (self.typical[cluster].iter())
                .map(|&found| training(self.file, found))
                .collect(),
            outliers: far
                .into_iter()
                .map(|found| training(self.file, found))
                .collect(),
            misclassified: misclassified
                .into_iter()
                .map(|found| training(self.file, found))
                .collect(),
            place: self.places[cluster],
            similar,
            hints: hints.map(|found| training(self.file, found)).collect(),
            frequencies,
        }
    }

    fn labels(&self, members: &[u32]) -> Vec<(i64, usize)> {
        let training = self.file.graph().training();
        let mut counts = std::collections::BTreeMap::new();
        let labels = members
            .iter()
            .filter_map(|&member| training.label(member as usize));
        labels.for_each(|label| *counts.entry(label).or_insert(0) += 1);
        let mut counts: Vec<(i64, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        counts.truncate(LABELS);
        counts
    }
}

/// The similarity of two abstract paths: the mean over layers.
fn similarity(graph: &PathGraph, a: usize, b: usize) -> f64 {
    let (a, b) = (graph.abstract_path(a), graph.abstract_path(b));
    npcov::paths::similarity(graph.layout(), Similarity::LayerMean, a, b)
}

/// A training input of a graph, with a number that belongs to it.
pub(super) fn training(file: &GraphFile, (row, value): (u32, f64)) -> Training {
    Training {
        input: file.record().training.start + row as usize,
        sample: file.training_name(row as usize).map(str::to_owned),
        label: file.graph().training().label(row as usize),
        value,
    }
}

/// A bit for each neuron, four to a digit, the first one highest.
fn hexadecimal(row: &[u64], neurons: usize) -> String {
    (0..neurons.div_ceil(4))
        .map(|digit| {
            let bit =
                |i: usize| u32::from(4 * digit + i < neurons && bits::get(row, 4 * digit + i));
            let value = (0..4).fold(0, |value, i| value << 1 | bit(i));
            char::from_digit(value, 16).unwrap_or('0')
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neurons_are_digits() {
        assert_eq!(hexadecimal(&[0b1_0000_0001], 9), "808");
        assert_eq!(hexadecimal(&[0], 0), "");
    }

    #[test]
    fn degrees_are_closed_above() {
        assert_eq!(
            [
                degree(0.0),
                degree(0.05),
                degree(0.0501),
                degree(0.15),
                degree(1.0)
            ],
            [0, 0, 1, 2, 19]
        );
        let counts = histogram([0.1, 0.1, 0.9].into_iter());
        assert_eq!(
            (counts[1], counts[17], counts.iter().sum::<usize>()),
            (2, 1, 3)
        );
    }
}
