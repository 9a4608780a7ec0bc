//! SNPC and ANPC: neuron path coverage.
//!
//! Both count buckets of what [`Observation`](npcov_paths::Observation)s tell of an input's place
//! in the decision graph. Their choices are those of the graph and the measurement.

use npcov_paths::AnpcLayer;
use npcov_paths::choices::{AnpcCounted, Disjoint};

use crate::batch::Batch;
use crate::criterion::{
    Amount, Criterion, CriterionValue, LayerValues, SlotPlace, SlotsByInput, Warning, check_shares,
    impossible,
};
use crate::error::CriterionError;
use crate::needs::Needs;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::{GraphShape, NetworkShape};
use crate::spec::{Options, Spec};
use crate::state::{BitSet, Handle, ListsPart, SetPart, State, SumsPart};
use crate::training::Training;

/// What it means that less is covered.
const DECISION_LOGIC: Meaning = Meaning {
    unit: Unit::Share,
    lower: "the suite exercises less of the model's decision logic",
    of_paths: true,
    of_similarity: false,
};

/// SNPC.
pub(crate) const SNPC: Entry = Entry {
    name: "snpc",
    summary: "neuron path coverage by structure: degrees of similarity to abstract paths",
    meaning: Meaning {
        of_similarity: true,
        ..DECISION_LOGIC
    },
    is_default: true,
    create: Snpc::create,
};

/// ANPC.
pub(crate) const ANPC: Entry = Entry {
    name: "anpc",
    summary: "neuron path coverage by activation: distances to training inputs on the path",
    meaning: DECISION_LOGIC,
    is_default: true,
    create: Anpc::create,
};

/// Buckets of all clusters and layers.
const BUCKETS: SetPart = SetPart("buckets");

/// SNPC: the buckets of each input, to tell what an input adds to its suite.
const INPUTS: ListsPart = ListsPart("inputs");

/// ANPC: by layer, the distances that were measured.
const DISTANCES: SumsPart = SumsPart("distances");

/// ANPC: by layer, those of them that are beyond the bound.
const BEYOND: SumsPart = SumsPart("beyond");

/// The share of distances beyond the bound above which there is a warning.
const MANY_BEYOND: f64 = 0.2;

/// Structure-based: degrees of similarity to abstract paths.
struct Snpc {
    space: Space,
}

/// Activation-based: distances to the activations of training inputs.
struct Anpc {
    space: Space,
    graph: GraphShape,
    /// Where each layer that takes part is among the path layers.
    all_layers: usize,
}

/// Buckets for each cluster and layer, and one below the first, which some choices count too.
struct Space {
    graph: GraphShape,
    layers: usize,
    buckets: usize,
}

impl Space {
    fn slot(&self, cluster: usize, layer: usize, bucket: u16) -> usize {
        (cluster * self.layers + layer) * (self.buckets + 1) + usize::from(bucket)
    }

    /// Fails where slots below the first bucket are covered, unless `counted`.
    fn check(&self, covered: &BitSet, counted: bool) -> Result<(), CriterionError> {
        let below = |slot: usize| slot.is_multiple_of(self.buckets + 1);
        match covered.iter().find(|&slot| !counted && below(slot)) {
            Some(slot) => Err(impossible(format!(
                "`{}` has {slot}, which is no bucket",
                BUCKETS.name()
            ))),
            None => Ok(()),
        }
    }

    /// The place of a slot.
    fn place(&self, slot: u64) -> Option<SlotPlace> {
        let slot = usize::try_from(slot).ok()?;
        let (rest, bucket) = (slot / (self.buckets + 1), slot % (self.buckets + 1));
        let cluster = rest.checked_div(self.layers)?;
        (cluster < self.graph.clusters()).then_some(SlotPlace {
            cluster,
            layer: rest % self.layers,
            bucket,
        })
    }

    fn set(&self) -> BitSet {
        BitSet::new(self.slot(self.graph.clusters(), 0, 0))
    }

    fn value(&self, name: &str, covered: &BitSet) -> CriterionValue {
        let total = self.graph.planned() * self.layers * self.buckets;
        CriterionValue::share(name, covered.count(), total as u64)
    }

    fn by_layer(&self, covered: &BitSet, layer: usize) -> Amount {
        let at = |cluster| {
            let first = self.slot(cluster, layer, 0);
            covered.count_in(first..first + self.buckets + 1)
        };
        Amount::Share {
            covered: (0..self.graph.clusters()).map(at).sum(),
            total: (self.graph.planned() * self.buckets) as u64,
        }
    }

    fn by_cluster(&self, covered: &BitSet) -> Vec<Amount> {
        let cluster = |cluster| Amount::Share {
            covered: covered.count_in(self.slot(cluster, 0, 0)..self.slot(cluster + 1, 0, 0)),
            total: (self.layers * self.buckets) as u64,
        };
        (0..self.graph.clusters()).map(cluster).collect()
    }

    fn by_class(&self, covered: &BitSet) -> Vec<Amount> {
        let mut start = 0;
        let class = |&(planned, clusters): &(usize, usize)| {
            let slots = self.slot(start, 0, 0)..self.slot(start + clusters, 0, 0);
            start += clusters;
            Amount::Share {
                covered: covered.count_in(slots),
                total: (planned * self.layers * self.buckets) as u64,
            }
        };
        self.graph.classes.iter().map(class).collect()
    }
}

/// The graph that paths are measured against.
fn graph<'a>(spec: &Spec, network: &'a NetworkShape) -> Result<&'a GraphShape, CriterionError> {
    // Its options are the choices of the measurement.
    Options::of(spec).end()?;
    network.graph.as_ref().ok_or_else(|| CriterionError::Fit {
        criterion: spec.name.clone(),
        reason: "it needs a decision graph".to_owned(),
    })
}

impl Snpc {
    /// Of the network's graph.
    fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        let graph = graph(spec, network)?;
        let space = Space {
            graph: graph.clone(),
            layers: network.layers.len(),
            buckets: usize::from(graph.choices.snpc_buckets.get()),
        };
        Ok(Box::new(Snpc { space }))
    }

    /// Whether paths without a common neuron cover something, too.
    fn counts_disjoint(&self) -> bool {
        self.space.graph.choices.snpc_disjoint == Disjoint::BucketZero
    }
}

impl Criterion for Snpc {
    fn needs(&self) -> Needs {
        Needs {
            paths: true,
            ..Needs::default()
        }
    }

    fn state(&self) -> State {
        State::new([BUCKETS.with(self.space.set()), INPUTS.with(Vec::new())])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        for observation in batch.observations {
            let covered = state.get_mut(BUCKETS)?;
            let mut list = Vec::new();
            for view in &observation.clusters {
                for (layer, (_, bucket)) in view.layers.iter().enumerate() {
                    if let Some(bucket) = bucket {
                        let slot = self.space.slot(view.cluster, layer, *bucket);
                        covered.insert(slot);
                        list.push(slot as u32);
                    }
                }
            }
            state.get_mut(INPUTS)?.push(list.into());
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        Ok(vec![self.space.value("snpc", state.get(BUCKETS)?)])
    }

    fn by_layer(&self, state: &State) -> Result<Vec<LayerValues>, CriterionError> {
        let covered = state.get(BUCKETS)?;
        let layer = |layer| self.space.by_layer(covered, layer);
        Ok(vec![LayerValues {
            name: "snpc".to_owned(),
            layers: (0..self.space.layers).map(layer).collect(),
        }])
    }

    fn by_cluster(&self, state: &State) -> Result<Vec<Amount>, CriterionError> {
        Ok(self.space.by_cluster(state.get(BUCKETS)?))
    }

    fn by_class(&self, state: &State) -> Result<Vec<Amount>, CriterionError> {
        Ok(self.space.by_class(state.get(BUCKETS)?))
    }

    /// What inputs cover together is what they cover one by one.
    fn check(&self, state: &State, _inputs: usize) -> Result<(), CriterionError> {
        let covered = state.get(BUCKETS)?;
        self.space.check(covered, self.counts_disjoint())?;
        let mut united = BitSet::new(covered.bound());
        for &slot in state.get(INPUTS)?.iter().flatten() {
            if slot as usize >= covered.bound() {
                let what = format!("`{}` has {slot}, which is no bucket", INPUTS.name());
                return Err(impossible(what));
            }
            united.insert(slot as usize);
        }
        match united == *covered {
            true => check_shares(self, state),
            false => Err(impossible(format!(
                "{} buckets, of which single inputs cover {}",
                covered.count(),
                united.count()
            ))),
        }
    }

    fn most_covered(&self, total: u64) -> u64 {
        match self.counts_disjoint() {
            // One more for each cluster and layer.
            true => total + total / self.space.buckets.max(1) as u64,
            false => total,
        }
    }

    fn place(&self, slot: u64) -> Option<SlotPlace> {
        self.space.place(slot)
    }

    fn slots_by_input<'s>(
        &self,
        state: &'s State,
    ) -> Result<Option<SlotsByInput<'s>>, CriterionError> {
        Ok(Some(SlotsByInput {
            lists: state.get(INPUTS)?,
            bound: state.get(BUCKETS)?.bound(),
        }))
    }
}

impl Anpc {
    /// Of the network's graph.
    fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        let graph = graph(spec, network)?;
        let space = Space {
            graph: graph.clone(),
            layers: graph.anpc.len(),
            buckets: usize::from(graph.choices.anpc_buckets.get()),
        };
        Ok(Box::new(Anpc {
            space,
            graph: graph.clone(),
            all_layers: network.layers.len(),
        }))
    }
}

impl Criterion for Anpc {
    fn needs(&self) -> Needs {
        Needs {
            paths: true,
            neighbours: true,
            ..Needs::default()
        }
    }

    fn state(&self) -> State {
        let layers = self.graph.anpc.len();
        State::new([
            BUCKETS.with(self.space.set()),
            DISTANCES.with(vec![0; layers]),
            BEYOND.with(vec![0; layers]),
        ])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        _training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        let first = match self.graph.choices.anpc_counted {
            AnpcCounted::AllLayers => 0,
            AnpcCounted::LastLayer => self.graph.anpc.len().saturating_sub(1),
        };
        for view in batch.observations.iter().flat_map(|o| &o.clusters) {
            let layers = || view.distances.iter().zip(&self.graph.anpc);
            for (measured, _) in state.get_mut(DISTANCES)?.iter_mut().zip(layers()) {
                *measured += 1;
            }
            let beyond = state.get_mut(BEYOND)?.iter_mut().zip(layers());
            for (beyond, ((distance, _), bound)) in beyond {
                *beyond += i128::from(*distance > bound.upper);
            }
            let covered = state.get_mut(BUCKETS)?;
            for (layer, (_, bucket)) in view.distances.iter().enumerate().skip(first) {
                if let Some(bucket) = bucket {
                    covered.insert(self.space.slot(view.cluster, layer, *bucket));
                }
            }
        }
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        Ok(vec![self.space.value("anpc", state.get(BUCKETS)?)])
    }

    fn by_layer(&self, state: &State) -> Result<Vec<LayerValues>, CriterionError> {
        let covered = state.get(BUCKETS)?;
        // A layer that takes no part has nothing to cover.
        let nothing = Amount::Share {
            covered: 0,
            total: 0,
        };
        let mut layers = vec![nothing; self.all_layers];
        for (i, anpc) in self.graph.anpc.iter().enumerate() {
            layers[anpc.layer] = self.space.by_layer(covered, i);
        }
        Ok(vec![LayerValues {
            name: "anpc".to_owned(),
            layers,
        }])
    }

    fn by_cluster(&self, state: &State) -> Result<Vec<Amount>, CriterionError> {
        Ok(self.space.by_cluster(state.get(BUCKETS)?))
    }

    fn by_class(&self, state: &State) -> Result<Vec<Amount>, CriterionError> {
        Ok(self.space.by_class(state.get(BUCKETS)?))
    }

    fn check(&self, state: &State, inputs: usize) -> Result<(), CriterionError> {
        self.space.check(state.get(BUCKETS)?, false)?;
        // An input is held against clusters of its class.
        let clusters = self.graph.classes.iter().map(|(_, clusters)| *clusters);
        let most = inputs as i128 * clusters.max().unwrap_or(0) as i128;
        for (&beyond, &all) in state.get(BEYOND)?.iter().zip(state.get(DISTANCES)?) {
            if beyond < 0 || beyond > all || all > most {
                let what = format!("{beyond} of {all} distances of {inputs} inputs are beyond");
                return Err(impossible(what));
            }
        }
        check_shares(self, state)
    }

    fn place(&self, slot: u64) -> Option<SlotPlace> {
        self.space.place(slot)
    }

    fn beyond(&self, state: &State) -> Result<Vec<Option<f64>>, CriterionError> {
        let shares = state.get(BEYOND)?.iter().zip(state.get(DISTANCES)?);
        let share = |(&beyond, &all): (&i128, &i128)| (all > 0).then(|| beyond as f64 / all as f64);
        Ok(shares.map(share).collect())
    }

    fn warnings(&self, state: &State) -> Result<Vec<Warning>, CriterionError> {
        let beyond = self.beyond(state)?;
        let layers = beyond.into_iter().zip(&self.graph.anpc);
        let warning = |(share, bound): (Option<f64>, &AnpcLayer)| {
            let share = share.filter(|&share| share > MANY_BEYOND)?;
            let text = format!(
                "{:.0} % of the distances in layer {} are beyond {}, and cover nothing",
                share * 100.0,
                bound.layer,
                bound.upper
            );
            Some(Warning { text })
        };
        Ok(layers.filter_map(warning).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::create;
    use crate::shape::LayerShape;
    use crate::training::TrainingTable;
    use npcov_paths::choices::Buckets;
    use npcov_paths::{Choices, ClusterView, Jaccard, Observation};

    fn view(cluster: usize, buckets: [u16; 2]) -> Observation {
        let layers = buckets.map(|b| (Jaccard::of(&[1], &[1]), Some(b))).to_vec();
        Observation {
            clusters: vec![ClusterView {
                cluster,
                similarity: 1.0,
                layers,
                neighbour: None,
                distances: Vec::new(),
            }],
            nearest: None,
            nearest_other: None,
        }
    }

    #[test]
    fn worked_case() {
        // Case 9: two classes with a cluster each, two layers, four buckets.
        let layer = LayerShape {
            neurons: 3,
            units: 3,
        };
        let network = NetworkShape {
            sums: Vec::new(),
            recurrent: Vec::new(),
            layers: vec![layer; 2],
            classes: 2,
            logits: 2,
            graph: Some(GraphShape {
                classes: vec![(1, 1), (1, 1)],
                choices: Choices {
                    snpc_buckets: Buckets::new(4).unwrap(),
                    ..Choices::default()
                },
                anpc: Vec::new(),
            }),
        };
        let snpc = create(&"snpc".parse().unwrap(), &network).unwrap();
        let mut state = snpc.state();
        let mut value = |observations: &[Observation]| {
            let batch = Batch {
                predictions: &vec![0; observations.len()],
                logits: npcov_tap::Column::of(&[], 0),
                taps: Vec::new(),
                observations,
                training: None,
            };
            let training = TrainingTable::default();
            snpc.observe(&batch, &training, &mut state).unwrap();
            (
                snpc.values(&state).unwrap()[0].amount.value(),
                snpc.by_class(&state).unwrap(),
            )
        };
        let share = |covered| Amount::Share { covered, total: 8 };
        // Two inputs in the same buckets do not add; the same buckets of another class do.
        let same = [view(0, [2, 4]), view(0, [2, 4])];
        assert_eq!(value(&same), (0.125, vec![share(2), share(0)]));
        assert_eq!(value(&[view(1, [2, 4])]).0, 0.25);
    }

    #[test]
    fn only_the_last_layer_counts_where_that_was_chosen() {
        let layer = LayerShape {
            neurons: 1,
            units: 1,
        };
        let covered = |anpc_counted| {
            let bound = |layer| AnpcLayer { layer, upper: 2.0 };
            let network = NetworkShape {
                sums: Vec::new(),
                recurrent: Vec::new(),
                layers: vec![layer; 2],
                classes: 2,
                logits: 2,
                graph: Some(GraphShape {
                    classes: vec![(1, 1), (1, 1)],
                    choices: Choices {
                        anpc_counted,
                        ..Choices::default()
                    },
                    anpc: vec![bound(0), bound(1)],
                }),
            };
            let anpc = create(&"anpc".parse().unwrap(), &network).unwrap();
            let mut seen = view(0, [1, 1]);
            seen.clusters[0].distances = vec![(0.5, Some(50)), (2.5, None)];
            let mut last = seen.clone();
            last.clusters[0].distances = vec![(0.5, Some(50)), (0.5, Some(50))];
            let mut state = anpc.state();
            let batch = Batch {
                predictions: &[0, 0],
                logits: npcov_tap::Column::of(&[], 0),
                taps: Vec::new(),
                observations: &[seen, last],
                training: None,
            };
            let training = TrainingTable::default();
            anpc.observe(&batch, &training, &mut state).unwrap();
            assert_eq!(state.get(DISTANCES).unwrap(), [2, 2]);
            assert_eq!(state.get(BEYOND).unwrap(), [0, 1]);
            assert_eq!(anpc.beyond(&state).unwrap(), [Some(0.0), Some(0.5)]);
            let warnings = anpc.warnings(&state).unwrap();
            let words = "50 % of the distances in layer 1 are beyond 2, and cover nothing";
            assert_eq!(warnings.len(), 1);
            assert_eq!(warnings[0].to_string(), words);
            anpc.values(&state).unwrap()[0].amount
        };
        let share = |covered| Amount::Share {
            covered,
            total: 800,
        };
        assert_eq!(covered(AnpcCounted::AllLayers), share(2));
        assert_eq!(covered(AnpcCounted::LastLayer), share(1));
    }
}
