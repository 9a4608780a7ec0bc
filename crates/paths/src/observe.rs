//! What one input exercises: its place in the decision graph, and the buckets it covers.

use crate::bits;
use crate::bucket::{distance_bucket, similarity_bucket};
use crate::choices::{AnpcClusters, Choices, Neighbour, Norm};
use crate::graph::{PathGraph, Seeker};
use crate::layout::PathLayout;
use crate::similarity::{Comparison, Jaccard, more_similar};
use crate::training::TrainingActivations;

/// A layer that takes part in ANPC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnpcLayer {
    /// Its position among the path layers.
    pub layer: usize,
    /// The distance up to which there are buckets.
    pub upper: f64,
}

/// An input as it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The predicted class.
    pub class: usize,
    /// Its critical decision path.
    pub path: &'a [u64],
    /// Its activations, those of all layers one after the other.
    pub activations: &'a [f32],
    /// Its position among the training inputs, where it is one: it is looked at as if it had not
    /// been there.
    pub training: Option<u32>,
}

/// What an input exercises.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The clusters of its class.
    pub clusters: Vec<ClusterView>,
    /// The cluster of its class with the most similar abstract path, and that similarity; `None`
    /// when the class has no clusters.
    pub nearest: Option<(usize, f64)>,
    /// The cluster of another class with the most similar abstract path, and that similarity.
    pub nearest_other: Option<(usize, f64)>,
}

/// An input, seen from a cluster of its class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterView {
    /// The cluster.
    pub cluster: usize,
    /// The similarity of the input's path to the abstract path.
    pub similarity: f64,
    /// By path layer: similarity and SNPC bucket.
    pub layers: Vec<(Jaccard, Option<u16>)>,
    /// The member whose activations were looked at; `None` when each layer has one of its own, or
    /// the cluster is not looked at.
    pub neighbour: Option<u32>,
    /// By ANPC layer: distance and ANPC bucket; empty when the cluster is not looked at.
    pub distances: Vec<(f64, Option<u16>)>,
}

/// Measures inputs against a decision graph.
pub struct Observer<'g> {
    graph: &'g PathGraph,
    choices: &'g Choices,
    anpc: &'g [AnpcLayer],
}

impl<'g> Observer<'g> {
    /// Of a graph, with the layers that take part in ANPC.
    pub fn new(graph: &'g PathGraph, choices: &'g Choices, anpc: &'g [AnpcLayer]) -> Self {
        Observer {
            graph,
            choices,
            anpc,
        }
    }

    /// Looks at an input.
    pub fn observe<A: TrainingActivations>(
        &self,
        input: Input<'_>,
        training: &A,
    ) -> Result<Observation, A::Error> {
        let comparison = self.comparison(&input);
        let mut observation = self.place(&input, &comparison);
        let placed = std::slice::from_mut(&mut observation);
        self.find_neighbours(&[input], &[comparison], placed, training)?;
        self.find_distances(&input, &mut observation, training)?;
        Ok(observation)
    }

    /// Looks at inputs. This is faster than one by one: every training path is read once for all
    /// inputs of its class.
    pub fn observe_all<A: TrainingActivations>(
        &self,
        inputs: &[Input<'_>],
        training: &A,
    ) -> Result<Vec<Observation>, A::Error> {
        let comparisons: Vec<_> = inputs.iter().map(|input| self.comparison(input)).collect();
        let place = |(input, comparison)| self.place(input, comparison);
        let mut placed: Vec<Observation> = inputs.iter().zip(&comparisons).map(place).collect();
        self.find_neighbours(inputs, &comparisons, &mut placed, training)?;
        for (input, observation) in inputs.iter().zip(&mut placed) {
            self.find_distances(input, observation, training)?;
        }
        Ok(placed)
    }

    fn comparison<'a>(&'a self, input: &Input<'a>) -> Comparison<'a> {
        Comparison::new(self.graph.layout(), self.choices.similarity, input.path)
    }

    /// Whether activations of a cluster's members are compared.
    fn looks_at(&self, cluster: usize, nearest: Option<(usize, f64)>) -> bool {
        let wanted = match self.choices.anpc_clusters {
            AnpcClusters::All => true,
            AnpcClusters::Nearest => nearest.is_some_and(|(best, _)| best == cluster),
        };
        wanted && !self.anpc.is_empty()
    }

    /// Similarities to abstract paths, and the buckets of those.
    fn place(&self, input: &Input<'_>, comparison: &Comparison<'_>) -> Observation {
        let graph = self.graph;
        let similarity =
            |cluster| comparison.to(graph.abstract_path(cluster), graph.abstract_counts(cluster));
        let own = graph
            .classes()
            .get(input.class)
            .map_or(0..0, |class| class.clusters.clone());
        let others = (0..graph.clusters()).filter(|cluster| !own.contains(cluster));
        let view = |cluster| {
            let layers = (0..graph.layout().layers()).map(|layer| {
                let jaccard = Jaccard::of(
                    graph.layout().layer(input.path, layer),
                    graph.layout().layer(graph.abstract_path(cluster), layer),
                );
                let choices = self.choices;
                let buckets = choices.snpc_buckets.get();
                let (disjoint, arithmetic) = (choices.snpc_disjoint, choices.snpc_arithmetic);
                (
                    jaccard,
                    similarity_bucket(jaccard, buckets, disjoint, arithmetic),
                )
            });
            ClusterView {
                cluster,
                similarity: similarity(cluster),
                layers: layers.collect(),
                neighbour: None,
                distances: Vec::new(),
            }
        };
        Observation {
            nearest: most(own.clone(), similarity),
            nearest_other: most(others, similarity),
            clusters: own.map(view).collect(),
        }
    }

    /// Finds the member of each cluster whose path is most similar.
    fn find_neighbours<A: TrainingActivations>(
        &self,
        inputs: &[Input<'_>],
        comparisons: &[Comparison<'_>],
        placed: &mut [Observation],
        training: &A,
    ) -> Result<(), A::Error> {
        if self.choices.anpc_neighbour != Neighbour::Path || self.anpc.is_empty() {
            return Ok(());
        }
        // By cluster: who looks at its members.
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); self.graph.clusters()];
        for (i, observation) in placed.iter().enumerate() {
            for view in &observation.clusters {
                if self.looks_at(view.cluster, observation.nearest) {
                    places[view.cluster].push(i);
                }
            }
        }
        let seeker = |&i: &usize| (&comparisons[i], inputs[i].training);
        let seekers: Vec<Vec<Seeker<'_>>> = (places.iter())
            .map(|places| places.iter().map(seeker).collect())
            .collect();
        let found = self.graph.neighbours(&seekers, training)?;
        for (cluster, (places, found)) in places.into_iter().zip(found).enumerate() {
            for (i, neighbour) in places.into_iter().zip(found) {
                let mut views = placed[i].clusters.iter_mut();
                if let Some(view) = views.find(|view| view.cluster == cluster) {
                    view.neighbour = neighbour;
                }
            }
        }
        Ok(())
    }

    fn find_distances<A: TrainingActivations>(
        &self,
        input: &Input<'_>,
        observation: &mut Observation,
        training: &A,
    ) -> Result<(), A::Error> {
        let nearest = observation.nearest;
        let views = observation.clusters.iter_mut();
        for view in views.filter(|view| self.looks_at(view.cluster, nearest)) {
            self.distances(view, input, training)?;
        }
        Ok(())
    }

    /// Finds distances to training activations of a cluster, and their buckets.
    fn distances<A: TrainingActivations>(
        &self,
        view: &mut ClusterView,
        input: &Input<'_>,
        training: &A,
    ) -> Result<(), A::Error> {
        let cluster = view.cluster;
        let candidates: Vec<u32> = match self.choices.anpc_neighbour {
            Neighbour::Path => view.neighbour.into_iter().collect(),
            Neighbour::Activation => {
                let members = self.graph.members(cluster).into_iter();
                members
                    .filter(|&member| Some(member) != input.training)
                    .collect()
            }
        };
        let layout = self.graph.layout();
        let path = self.graph.abstract_path(cluster);
        let mut smallest = vec![f64::INFINITY; self.anpc.len()];
        let mut activations = vec![0.0; layout.total_neurons()];
        for member in candidates {
            training.read(member, &mut activations)?;
            for (smallest, anpc) in smallest.iter_mut().zip(self.anpc) {
                let squared =
                    squared_distance(layout, anpc.layer, path, input.activations, &activations);
                *smallest = smallest.min(squared);
            }
        }
        // A cluster whose only member is the input itself has nobody to compare with.
        if smallest.iter().any(|distance| distance.is_infinite()) {
            return Ok(());
        }
        let distances = smallest.iter().zip(self.anpc).map(|(&squared, anpc)| {
            let neurons = self.graph.abstract_counts(cluster)[anpc.layer];
            let distance = match self.choices.anpc_norm {
                Norm::L2 => squared.sqrt(),
                Norm::RootMeanSquare => (squared / f64::from(neurons.max(1))).sqrt(),
            };
            let buckets = self.choices.anpc_buckets.get();
            let edges = self.choices.anpc_edges;
            (
                distance,
                distance_bucket(distance, anpc.upper, buckets, edges),
            )
        });
        view.distances = distances.collect();
        Ok(())
    }
}

/// The cluster with the highest similarity; the first of equal ones.
fn most(
    clusters: impl Iterator<Item = usize>,
    similarity: impl Fn(usize) -> f64,
) -> Option<(usize, f64)> {
    let scored = clusters.map(|cluster| (cluster, similarity(cluster)));
    scored.reduce(|best, next| {
        if more_similar(next.1, best.1) {
            next
        } else {
            best
        }
    })
}

/// The squared Euclidean distance of two inputs' activations, over a path's neurons of one layer.
fn squared_distance(layout: &PathLayout, layer: usize, path: &[u64], a: &[f32], b: &[f32]) -> f64 {
    let span = layout.span(layer);
    let (a, b) = (&a[span.clone()], &b[span]);
    let neurons = bits::ones(layout.layer(path, layer));
    neurons
        .map(|neuron| f64::from(a[neuron]) - f64::from(b[neuron]))
        .map(|difference| difference * difference)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::BitRows;
    use crate::choices::{Disjoint, Preset};
    use crate::graph::{ClassNode, GraphParts};
    use crate::narrow::Narrow;
    use crate::training::{PathSource, TrainingInputs};
    use std::convert::Infallible;
    use std::ops::Range;

    /// Paths and activations in memory.
    struct Rows(Vec<Vec<u64>>, Vec<Vec<f32>>);

    impl PathSource for Rows {
        type Error = Infallible;

        fn read_paths(&self, inputs: Range<usize>, out: &mut BitRows) -> Result<(), Infallible> {
            self.0[inputs].iter().for_each(|path| out.push(path));
            Ok(())
        }
    }

    impl TrainingActivations for Rows {
        fn read(&self, input: u32, out: &mut [f32]) -> Result<(), Self::Error> {
            out.copy_from_slice(&self.1[input as usize]);
            Ok(())
        }
    }

    fn path(layout: &PathLayout, sets: &[&[usize]]) -> Vec<u64> {
        let mut row = vec![0; layout.width()];
        for (layer, set) in sets.iter().enumerate() {
            for &neuron in *set {
                bits::set(layout.layer_mut(&mut row, layer), neuron);
            }
        }
        row
    }

    /// Two classes with a cluster each; the training inputs are all in the first class.
    fn graph(layout: PathLayout, training: usize, abstracts: [Vec<u64>; 2]) -> PathGraph {
        let rows = |list: &[Vec<u64>]| {
            let mut rows = BitRows::new(layout.width());
            list.iter().for_each(|row| rows.push(row));
            rows
        };
        let class = |clusters| ClassNode {
            clusters,
            planned: 1,
            beta: 0.8,
        };
        PathGraph::assemble(GraphParts {
            training: TrainingInputs {
                predictions: Narrow::filled(0, training),
                labels: None,
                layout: layout.clone(),
            },
            classes: vec![class(0..1), class(1..2)],
            assignment: Narrow::filled(0, training),
            abstract_paths: rows(&abstracts),
        })
        .unwrap()
    }

    #[test]
    fn worked_case_of_snpc() {
        // Case 9: s = ({0,1}, {2}), abstract ({1,2}, {2}), m = 4.
        let layout = PathLayout::new([3, 3]);
        let row = |sets: &[&[usize]]| path(&layout, sets);
        let abstracts = [row(&[&[1, 2], &[2]]), row(&[&[0], &[0]])];
        let graph = graph(layout.clone(), 0, abstracts);
        let four = Choices {
            snpc_buckets: "4".parse().unwrap(),
            ..Choices::default()
        };
        let observe = |choices: &Choices, class, sets: &[&[usize]]| {
            let observer = Observer::new(&graph, choices, &[]);
            let path = row(sets);
            let input = Input {
                class,
                path: &path,
                activations: &[0.0; 6],
                training: None,
            };
            let Ok(observation) = observer.observe(input, &Rows(vec![], vec![]));
            let layers = &observation.clusters[0].layers;
            let buckets: Vec<_> = layers.iter().map(|layer| layer.1).collect();
            (observation, buckets)
        };
        let (observation, buckets) = observe(&four, 0, &[&[0, 1], &[2]]);
        assert_eq!(buckets, [Some(2), Some(4)]);
        assert_eq!(observation.nearest, Some((0, (1.0 / 3.0 + 1.0) / 2.0)));
        // Of the other class's {0} and {0} it has one of two, and none of two.
        assert_eq!(observation.nearest_other, Some((1, 0.25)));
        // Seen from the other class, which shares nothing in the second layer.
        let (other, buckets) = observe(&four, 1, &[&[0, 1], &[2]]);
        assert_eq!(other.clusters[0].cluster, 1);
        assert_eq!(buckets, [Some(2), None]);
        let reference = Choices {
            snpc_disjoint: Disjoint::BucketZero,
            ..four
        };
        let (_, buckets) = observe(&reference, 1, &[&[0, 1], &[2]]);
        assert_eq!(buckets, [Some(2), Some(0)]);
    }

    #[test]
    fn worked_case_of_anpc() {
        // Case 10: path neurons {0, 2}, A(x) = (1, 2, 3), members a and b; b's path is the nearer
        // one, a's activations are. Halves and quarters in the place of tenths are exact.
        let layout = PathLayout::new([3]);
        let row = |set: &[usize]| path(&layout, &[set]);
        let training = [row(&[1]), row(&[0, 2])];
        let graph = graph(layout.clone(), 2, [row(&[0, 2]), row(&[1])]);
        let activations = vec![vec![1.0, 9.0, 3.25], vec![0.5, 2.0, 3.0]];
        let activations = Rows(training.to_vec(), activations);
        let anpc = [AnpcLayer {
            layer: 0,
            upper: 2.0,
        }];
        let x = row(&[0, 2]);
        let observe = |choices: &Choices, except| {
            let observer = Observer::new(&graph, choices, &anpc);
            let input = Input {
                class: 0,
                path: &x,
                activations: &[1.0, 2.0, 3.0],
                training: except,
            };
            let Ok(observation) = observer.observe(input, &activations);
            let Ok(both) = observer.observe_all(&[input, input], &activations);
            assert_eq!(both, [observation.clone(), observation.clone()]);
            let view = &observation.clusters[0];
            (view.neighbour, view.distances.clone())
        };
        let paper = Choices::default();
        assert_eq!(observe(&paper, None), (Some(1), vec![(0.5, Some(50))]));
        assert_eq!(observe(&paper, Some(1)), (Some(0), vec![(0.25, Some(25))]));
        let reference = Preset::Reference.choices();
        // 0.25 is beyond 24 of 199 intervals of 2.
        assert_eq!(observe(&reference, None), (None, vec![(0.25, Some(25))]));
        let rms = Choices {
            anpc_norm: Norm::RootMeanSquare,
            ..paper
        };
        assert_eq!(observe(&rms, None).1[0].0, 0.125f64.sqrt());
    }

    #[test]
    fn classes_that_training_never_showed_have_no_clusters() {
        let layout = PathLayout::new([1]);
        let row = path(&layout, &[&[0]]);
        let mut parts = graph(layout, 0, [row.clone(), row.clone()]).parts().clone();
        parts.classes[1].clusters = 1..1;
        parts.abstract_paths = parts.abstract_paths.gather(&[0]);
        let graph = PathGraph::assemble(parts).unwrap();
        let choices = Choices::default();
        let observer = Observer::new(&graph, &choices, &[]);
        for class in [1, 7] {
            let input = Input {
                class,
                path: &row,
                activations: &[0.0],
                training: None,
            };
            let Ok(observation) = observer.observe(input, &Rows(vec![], vec![]));
            assert_eq!(observation.nearest, None);
            assert_eq!(observation.nearest_other, Some((0, 1.0)));
            assert!(observation.clusters.is_empty());
        }
    }
}
