//! Criteria, applied to a network's inputs.

use npcov_criteria::{
    Batch, CRITERIA, Column, Criterion, CriterionError, Fit, GraphShape, LayerShape, Needs,
    NetworkShape, Shown, Spec, State, Tap, Training,
};
use npcov_paths::{Choices, Observation};

use crate::artefact::record::LayerRecord;
use crate::build::AnpcRecord;
use crate::error::Error;
use crate::paths::{Extras, PathBatch};
use crate::watching::WatchStates;

/// Criteria that are measured together.
pub(crate) struct Measures {
    network: NetworkShape,
    list: Vec<Measure>,
    /// What they need of inputs besides activations.
    taps: Vec<Tap>,
    /// What they watch.
    watched: Vec<Tap>,
}

/// A criterion that is measured.
pub(crate) struct Measure {
    pub(crate) spec: Spec,
    pub(crate) criterion: Box<dyn Criterion>,
    pub(crate) needs: Needs,
}

impl Measure {
    /// Whether it needs more than activations. That may be a great deal, so it is looked at as soon
    /// as it is there.
    pub(crate) fn is_streamed(&self) -> bool {
        self.needs.taps.iter().any(is_extra) || !self.needs.watched.is_empty()
    }
}

fn is_extra(tap: &Tap) -> bool {
    *tap != Tap::activation(tap.layer)
}

/// The criteria that are measured unless others are named.
pub fn default_criteria() -> Vec<Spec> {
    let usual = CRITERIA.iter().filter(|entry| entry.is_default);
    usual
        .map(|entry| Spec {
            name: entry.name.to_owned(),
            options: Default::default(),
        })
        .collect()
}

/// What criteria know of a network and its decision graph.
pub(crate) fn network_shape(
    layers: &[LayerRecord],
    logits: usize,
    classes: Vec<(usize, usize)>,
    choices: &Choices,
    anpc: &AnpcRecord,
) -> NetworkShape {
    let layer = |layer: &LayerRecord| LayerShape {
        neurons: layer.neurons,
        units: layer.units,
    };
    NetworkShape {
        layers: layers.iter().map(layer).collect(),
        classes: classes.len(),
        logits,
        graph: Some(GraphShape {
            classes,
            choices: choices.clone(),
            anpc: anpc.layers(),
        }),
    }
}

/// A criterion's error, with its name.
pub(crate) fn failed(spec: &Spec) -> impl Fn(CriterionError) -> Error + '_ {
    |source| Error::Criterion {
        criterion: spec.to_string(),
        source,
    }
}

impl Measures {
    /// Makes criteria for a network.
    pub(crate) fn new(specs: &[Spec], network: NetworkShape) -> Result<Measures, Error> {
        let mut list: Vec<Measure> = Vec::new();
        let (mut taps, mut watched) = (Vec::new(), Vec::new());
        for spec in specs {
            if list.iter().any(|measure| measure.spec == *spec) {
                continue;
            }
            let criterion = npcov_criteria::create(spec, &network).map_err(failed(spec))?;
            let needs = criterion.needs();
            taps.extend(needs.taps.iter().copied().filter(is_extra));
            watched.extend_from_slice(&needs.watched);
            list.push(Measure {
                spec: spec.clone(),
                criterion,
                needs,
            });
        }
        for taps in [&mut taps, &mut watched] {
            taps.sort_unstable();
            taps.dedup();
        }
        Ok(Measures {
            network,
            list,
            taps,
            watched,
        })
    }

    /// The criteria.
    pub(crate) fn list(&self) -> &[Measure] {
        &self.list
    }

    /// Gives a criterion what it learnt from the training data.
    pub(crate) fn restore(&mut self, index: usize, fit: Fit) -> Result<(), CriterionError> {
        self.list[index].criterion.restore(fit)
    }

    /// Leaves only the criteria that `keep` wants.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Measure) -> bool) {
        self.list.retain(|measure| keep(measure));
    }

    /// Whether any of them needs the places of inputs in the decision graph.
    pub(crate) fn need_paths(&self) -> bool {
        self.list.iter().any(|measure| measure.needs.paths)
    }

    /// Whether any of those that `which` picks needs the neighbours of inputs among training inputs.
    /// Looking for those takes long.
    pub(crate) fn need_neighbours(&self, which: impl Fn(&Measure) -> bool) -> bool {
        let mut list = self.list.iter();
        list.any(|measure| measure.needs.neighbours && which(measure))
    }

    /// What has to be extracted of inputs that are measured.
    pub(crate) fn extras(&self) -> Extras {
        Extras {
            taps: self.taps.clone(),
            watched: self.watched.clone(),
            importance: None,
        }
    }

    /// The layer whose importance some of them are fitted with. There is one at most.
    pub(crate) fn importance(&self) -> Result<Option<usize>, Error> {
        let mut found: Option<usize> = None;
        for measure in &self.list {
            match (found, measure.needs.importance) {
                (_, None) => {}
                (None, layer) => found = layer,
                (Some(found), Some(layer)) if found == layer => {}
                (Some(_), Some(_)) => {
                    return Err(Error::Parameter {
                        name: "layer",
                        value: measure.spec.to_string(),
                        wanted: "the same layer for all criteria that rank neurons",
                    });
                }
            }
        }
        Ok(found)
    }

    /// No inputs were seen.
    pub(crate) fn states(&self) -> Vec<State> {
        self.list.iter().map(|m| m.criterion.state()).collect()
    }

    /// Nothing was watched.
    pub(crate) fn watch_states(&self) -> WatchStates {
        let state = |measure: &Measure| {
            let watches = !measure.needs.watched.is_empty();
            watches.then(|| measure.criterion.state())
        };
        self.list.iter().map(state).collect()
    }

    /// Shows a tap to those criteria that watch it.
    pub(crate) fn watch(
        &self,
        shown: Tap,
        numbers: Shown<'_>,
        states: &mut WatchStates,
    ) -> Result<(), Error> {
        for (measure, state) in self.list.iter().zip(states) {
            let watched = measure.needs.watched.iter();
            for &tap in watched.filter(|&&tap| tap == shown) {
                if let Some(state) = state {
                    let watched = measure.criterion.watch(tap, numbers, state);
                    watched.map_err(failed(&measure.spec))?;
                }
            }
        }
        Ok(())
    }

    /// Adds what criteria have watched to their states.
    pub(crate) fn add_watched(
        &self,
        watched: &WatchStates,
        states: &mut [State],
    ) -> Result<(), Error> {
        for ((measure, watched), state) in self.list.iter().zip(watched).zip(states) {
            if let Some(watched) = watched {
                state.append(watched).map_err(failed(&measure.spec))?;
            }
        }
        Ok(())
    }

    /// Inputs as criteria see them.
    pub(crate) fn batch<'a>(
        &self,
        batch: &'a PathBatch,
        observations: &'a [Observation],
    ) -> Batch<'a> {
        let stride = self.network.neurons();
        let mut start = 0;
        let mut taps = Vec::new();
        for (i, layer) in self.network.layers.iter().enumerate() {
            let column = Column {
                data: &batch.activations,
                stride,
                start,
                len: layer.neurons,
            };
            start += layer.neurons;
            taps.push((Tap::activation(i), column));
        }
        let inputs = batch.rows.len();
        for (tap, numbers) in self.taps.iter().zip(&batch.taps) {
            taps.push((*tap, Column::of(numbers, numbers.len() / inputs.max(1))));
        }
        Batch {
            predictions: &batch.predictions,
            logits: Column::of(&batch.logits, self.network.logits),
            taps,
            observations,
            training: None,
        }
    }

    /// Adds inputs to the states of those criteria that `which` picks.
    pub(crate) fn observe(
        &self,
        batch: &Batch<'_>,
        training: &dyn Training,
        states: &mut [State],
        which: impl Fn(&Measure) -> bool,
    ) -> Result<(), Error> {
        for (measure, state) in self.list.iter().zip(states) {
            if which(measure) {
                let observed = measure.criterion.observe(batch, training, state);
                observed.map_err(failed(&measure.spec))?;
            }
        }
        Ok(())
    }
}
