//! Criteria that are measured together, so that the network runs once for all of them.

use npcov_paths::Observation;
use npcov_tap::{Column, Shown, Tap};

use crate::batch::Batch;
use crate::criterion::{Criterion, Watching};
use crate::error::{CriterionError, NamedCriterionError};
use crate::fit::Fit;
use crate::needs::Needs;
use crate::registry::create;
use crate::shape::NetworkShape;
use crate::spec::Spec;
use crate::state::State;
use crate::training::Training;

/// Criteria that are measured together.
pub struct CriterionSet {
    network: NetworkShape,
    members: Vec<Member>,
    /// What they need of inputs besides activations.
    taps: Vec<Tap>,
    /// What they watch.
    watched: Vec<Tap>,
}

/// A criterion that is measured.
pub struct Member {
    /// Its name and options.
    pub spec: Spec,
    /// The criterion.
    pub criterion: Box<dyn Criterion>,
    /// What it needs.
    pub needs: Needs,
}

/// By criterion, what it has watched; `None` for those that watch nothing.
pub type WatchingSet = Vec<Option<Box<dyn Watching>>>;

/// Numbers of some inputs, each list with one input after the other.
#[derive(Clone, Copy, Debug)]
pub struct InputNumbers<'a> {
    /// The predicted classes.
    pub predictions: &'a [u32],
    /// The logits.
    pub logits: &'a [f32],
    /// One activation for each neuron of all layers.
    pub activations: &'a [f32],
    /// What [`CriterionSet::taps`] ask for; empty where that is not there.
    pub taps: &'a [Vec<f32>],
}

impl Member {
    /// Whether it needs more than activations. That may be a great deal, so it is looked at as soon
    /// as it is there.
    pub fn is_streamed(&self) -> bool {
        self.needs.taps.iter().any(is_extra) || !self.needs.watched.is_empty()
    }

    /// An error with its name.
    pub fn failed(&self, source: CriterionError) -> NamedCriterionError {
        self.spec.failed(source)
    }
}

fn is_extra(tap: &Tap) -> bool {
    *tap != Tap::activation(tap.layer)
}

impl CriterionSet {
    /// Makes criteria for a network; those that are named twice once.
    pub fn new(specs: &[Spec], network: NetworkShape) -> Result<CriterionSet, NamedCriterionError> {
        let mut members: Vec<Member> = Vec::new();
        let (mut taps, mut watched) = (Vec::new(), Vec::new());
        for spec in specs {
            if members.iter().any(|member| member.spec == *spec) {
                continue;
            }
            let criterion = create(spec, &network).map_err(|source| spec.failed(source))?;
            let needs = criterion.needs();
            taps.extend(needs.taps.iter().copied().filter(is_extra));
            watched.extend_from_slice(&needs.watched);
            members.push(Member {
                spec: spec.clone(),
                criterion,
                needs,
            });
        }
        for taps in [&mut taps, &mut watched] {
            taps.sort_unstable();
            taps.dedup();
        }
        Ok(CriterionSet {
            network,
            members,
            taps,
            watched,
        })
    }

    /// The criteria.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// What they need of inputs besides activations.
    pub fn taps(&self) -> &[Tap] {
        &self.taps
    }

    /// What they watch.
    pub fn watched(&self) -> &[Tap] {
        &self.watched
    }

    /// Gives a criterion what it learnt from the training data.
    pub fn restore(&mut self, index: usize, fit: Fit) -> Result<(), CriterionError> {
        self.members[index].criterion.restore(fit)
    }

    /// Leaves only the criteria that `keep` wants.
    pub fn retain(&mut self, mut keep: impl FnMut(&Member) -> bool) {
        self.members.retain(|member| keep(member));
    }

    /// Whether any of them needs the places of inputs in the decision graph.
    pub fn need_paths(&self) -> bool {
        self.members.iter().any(|member| member.needs.paths)
    }

    /// Whether any of those that `which` picks needs the neighbours of inputs among training inputs.
    /// Looking for those takes long.
    pub fn need_neighbours(&self, which: impl Fn(&Member) -> bool) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.needs.neighbours && which(member))
    }

    /// The layer whose importance some of them are fitted with. There is one at most; where criteria
    /// ask for different ones, the error is the one that does so second.
    pub fn importance(&self) -> Result<Option<usize>, &Spec> {
        let mut found: Option<usize> = None;
        for member in &self.members {
            match (found, member.needs.importance) {
                (_, None) => {}
                (None, layer) => found = layer,
                (Some(found), Some(layer)) if found == layer => {}
                (Some(_), Some(_)) => return Err(&member.spec),
            }
        }
        Ok(found)
    }

    /// What they are fitted with besides activations.
    pub fn training_taps(&self) -> Vec<Tap> {
        let taps = self.members.iter().flat_map(|m| &m.needs.training_taps);
        let mut taps: Vec<Tap> = taps.copied().collect();
        taps.sort_unstable();
        taps.dedup();
        taps
    }

    /// No inputs were seen.
    pub fn states(&self) -> Vec<State> {
        self.members.iter().map(|m| m.criterion.state()).collect()
    }

    /// Nothing was watched.
    pub fn watching(&self) -> WatchingSet {
        let members = self.members.iter();
        members.map(|member| member.criterion.watching()).collect()
    }

    /// Shows a tap to those criteria that watch it.
    pub fn watch(&self, shown: Tap, numbers: Shown<'_>, all: &mut WatchingSet) {
        for (member, watching) in self.members.iter().zip(all) {
            if let Some(watching) = watching
                && member.needs.watched.contains(&shown)
            {
                watching.watch(shown, numbers);
            }
        }
    }

    /// Adds what criteria have watched to their states; they begin anew.
    pub fn hand_over(
        &self,
        all: &mut WatchingSet,
        states: &mut [State],
    ) -> Result<(), NamedCriterionError> {
        for ((member, watching), state) in self.members.iter().zip(all).zip(states) {
            if let Some(watching) = watching {
                let handed_over = watching.hand_over(state);
                handed_over.map_err(|e| member.failed(e))?;
            }
        }
        Ok(())
    }

    /// Inputs as criteria see them.
    pub fn batch<'a>(
        &self,
        inputs: InputNumbers<'a>,
        observations: &'a [Observation],
    ) -> Batch<'a> {
        let stride = self.network.neurons();
        let mut start = 0;
        let mut taps = Vec::new();
        for (i, layer) in self.network.layers.iter().enumerate() {
            let column = Column {
                data: inputs.activations,
                stride,
                start,
                len: layer.neurons,
            };
            start += layer.neurons;
            taps.push((Tap::activation(i), column));
        }
        let count = inputs.predictions.len().max(1);
        for (tap, numbers) in self.taps.iter().zip(inputs.taps) {
            taps.push((*tap, Column::of(numbers, numbers.len() / count)));
        }
        Batch {
            predictions: inputs.predictions,
            logits: Column::of(inputs.logits, self.network.logits),
            taps,
            observations,
            training: None,
        }
    }

    /// Adds inputs to the states of those criteria that `which` picks.
    pub fn observe(
        &self,
        batch: &Batch<'_>,
        training: &dyn Training,
        states: &mut [State],
        which: impl Fn(&Member) -> bool,
    ) -> Result<(), NamedCriterionError> {
        for (member, state) in self.members.iter().zip(states) {
            if which(member) {
                let observed = member.criterion.observe(batch, training, state);
                observed.map_err(|source| member.failed(source))?;
            }
        }
        Ok(())
    }
}
