//! What exactly is wrong with a mutant.

use npcov_paths::random::{DrawnFor, Generator};
use npcov_program::{Edit, NetworkView, Sites};
use serde::{Deserialize, Serialize};

use crate::operator::Operator;
use crate::options::MutationOptions;

/// A mutant: together with the seed this is all that it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mutant {
    /// What is wrong with it.
    pub operator: Operator,
    /// The share of weights or neurons that is changed; `None` where one layer is.
    pub ratio: Option<f64>,
    /// Its number among those of the same operator and ratio.
    pub number: usize,
}

impl Mutant {
    /// What tells its operator and ratio from others.
    pub(crate) fn kind(&self) -> (Operator, Option<u64>) {
        (self.operator, self.ratio.map(f64::to_bits))
    }
}

/// Where mutants of a network differ from it.
pub(crate) struct Drawing<'a> {
    view: NetworkView<'a>,
    sites: Sites,
    options: &'a MutationOptions,
    /// By path layer, the neurons that may be changed.
    neurons: Vec<Vec<usize>>,
}

impl<'a> Drawing<'a> {
    /// `among` says of every neuron of every path layer whether it may be changed.
    pub(crate) fn new(
        view: NetworkView<'a>,
        options: &'a MutationOptions,
        among: Option<&[Vec<bool>]>,
    ) -> Drawing<'a> {
        let neurons = view.layers.iter().enumerate().map(|(i, layer)| {
            let all = 0..layer.neurons;
            let may = |&neuron: &usize| match among {
                Some(among) => among.get(i).and_then(|layer| layer.get(neuron)) == Some(&true),
                None => true,
            };
            all.filter(may).collect()
        });
        Drawing {
            sites: Sites::of(&view),
            neurons: neurons.collect(),
            view,
            options,
        }
    }

    /// All mutants that can be made. An operator that finds nothing to change has none.
    pub(crate) fn mutants(&self) -> Vec<Mutant> {
        let mut mutants = Vec::new();
        for &operator in &self.options.operators {
            if !operator.is_drawn() {
                let layers = self.layers(operator).len().min(self.options.mutants);
                mutants.extend((0..layers).map(|number| Mutant {
                    operator,
                    ratio: None,
                    number,
                }));
            } else if self.things(operator) > 0 {
                for &ratio in &self.options.ratios {
                    mutants.extend((0..self.options.mutants).map(|number| Mutant {
                        operator,
                        ratio: Some(ratio),
                        number,
                    }));
                }
            }
        }
        mutants
    }

    /// How the network is changed.
    pub(crate) fn edits(&self, mutant: &Mutant) -> Vec<Edit> {
        let ratio = mutant.ratio.unwrap_or(0.0);
        // A ratio is part of the purpose, so that mutants of another ratio are others and not more of the same.
        let purpose = (mutant.operator as u64) << 56 ^ ratio.to_bits() >> 8;
        let seed = self.options.seed;
        let mut rng = Generator::new(seed, DrawnFor::Mutants, purpose, mutant.number as u64);
        match mutant.operator {
            Operator::Gf => self.fuzzed(ratio, &mut rng),
            Operator::Ws => self.of_incoming(Operator::Ws, ratio, &mut rng, |weights, rng| {
                rng.shuffle(weights);
            }),
            Operator::Nai => self.of_incoming(Operator::Nai, ratio, &mut rng, |weights, _| {
                weights.iter_mut().for_each(|w| *w = -*w);
            }),
            Operator::Neb => {
                let chosen = self.chosen(Operator::Neb, ratio, &mut rng).into_iter();
                let silent = chosen
                    .enumerate()
                    .filter(|(_, neurons)| !neurons.is_empty());
                silent
                    .map(|(layer, neurons)| Edit::Silent { layer, neurons })
                    .collect()
            }
            Operator::Ns => self.exchanged(ratio, &mut rng),
            Operator::Afrm | Operator::Ld => {
                // The same order for all, so that no two are of one layer.
                let mut layers = self.layers(mutant.operator);
                let mut rng = Generator::new(seed, DrawnFor::Mutants, purpose, u64::MAX);
                rng.shuffle(&mut layers);
                let node = layers.get(mutant.number).copied();
                node.map(|node| Edit::LeftOut { node })
                    .into_iter()
                    .collect()
            }
        }
    }

    /// The nodes that an operator can leave out.
    fn layers(&self, operator: Operator) -> Vec<usize> {
        match operator {
            Operator::Afrm => self.sites.activations.iter().flatten().copied().collect(),
            Operator::Ld => self.sites.layers.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether an operator can change neurons of a layer.
    fn can(&self, operator: Operator, layer: usize) -> bool {
        match operator {
            Operator::Neb => true,
            Operator::Ws | Operator::Nai => self.sites.incoming[layer].is_some(),
            Operator::Ns => {
                self.view.layers[layer].steps.is_none() && self.neurons[layer].len() > 1
            }
            Operator::Gf | Operator::Afrm | Operator::Ld => false,
        }
    }

    /// The neurons of a layer that an operator may change.
    fn candidates(&self, operator: Operator, layer: usize) -> &[usize] {
        match self.can(operator, layer) {
            true => &self.neurons[layer],
            false => &[],
        }
    }

    /// How many weights or neurons an operator may change.
    fn things(&self, operator: Operator) -> usize {
        match operator {
            Operator::Gf => {
                let weights = self.sites.weights.iter();
                weights.map(|&w| self.view.graph.value(w).ty.numel()).sum()
            }
            _ => (0..self.neurons.len())
                .map(|layer| self.candidates(operator, layer).len())
                .sum(),
        }
    }

    /// A share of all neurons that an operator can change, by layer, in ascending order. Where only some may be changed, they
    /// are as many: so mutants of different neurons can be compared.
    fn chosen(&self, operator: Operator, ratio: f64, rng: &mut Generator) -> Vec<Vec<usize>> {
        let layers = self.view.layers.iter().enumerate();
        let changeable = layers.filter(|(layer, _)| self.can(operator, *layer));
        let all = changeable.map(|(_, layer)| layer.neurons).sum();
        let may = self.things(operator);
        let mut drawn = rng.sample(may, share(all, ratio)).into_iter().peekable();
        let mut first = 0;
        let layers = (0..self.neurons.len()).map(|layer| {
            let candidates = self.candidates(operator, layer);
            let end = first + candidates.len();
            let mut chosen = Vec::new();
            while let Some(place) = drawn.next_if(|&place| place < end) {
                chosen.push(candidates[place - first]);
            }
            first = end;
            chosen
        });
        layers.collect()
    }

    /// Normally distributed numbers are added to a share of all weights.
    fn fuzzed(&self, ratio: f64, rng: &mut Generator) -> Vec<Edit> {
        let all = self.things(Operator::Gf);
        let mut drawn = rng.sample(all, share(all, ratio)).into_iter().peekable();
        let mut first = 0;
        let mut edits = Vec::new();
        for &constant in &self.sites.weights {
            let Some(mut elements) = self.elements(constant) else {
                continue;
            };
            let end = first + elements.len();
            let mut changed = false;
            while let Some(place) = drawn.next_if(|&place| place < end) {
                elements[place - first] += (self.options.sd * rng.normal()) as f32;
                changed = true;
            }
            first = end;
            if changed {
                edits.push(Edit::Weights { constant, elements });
            }
        }
        edits
    }

    /// Changes the weights of what comes into a share of all neurons.
    fn of_incoming(
        &self,
        operator: Operator,
        ratio: f64,
        rng: &mut Generator,
        change: impl Fn(&mut [f32], &mut Generator),
    ) -> Vec<Edit> {
        let chosen = self.chosen(operator, ratio, rng);
        let mut edits: Vec<Edit> = Vec::new();
        for (layer, neurons) in chosen.into_iter().enumerate() {
            let Some(incoming) = self.sites.incoming[layer].filter(|_| !neurons.is_empty()) else {
                continue;
            };
            // Layers may share their weights: what is changed already is changed further.
            let earlier = edits.iter().position(|edit| {
                matches!(edit, Edit::Weights { constant, .. } if *constant == incoming.weights)
            });
            let earlier = earlier.map(|place| edits.remove(place));
            let elements = match earlier {
                Some(Edit::Weights { elements, .. }) => Some(elements),
                _ => self.elements(incoming.weights),
            };
            let Some(mut elements) = elements else {
                continue;
            };
            for neuron in neurons {
                let mut weights: Vec<f32> = incoming.of(neuron).map(|at| elements[at]).collect();
                change(&mut weights, rng);
                for (at, weight) in incoming.of(neuron).zip(weights) {
                    elements[at] = weight;
                }
            }
            edits.push(Edit::Weights {
                constant: incoming.weights,
                elements,
            });
        }
        edits
    }

    /// A share of all neurons change places, in each layer in a ring. Where a layer has only one of them, another one takes
    /// part.
    fn exchanged(&self, ratio: f64, rng: &mut Generator) -> Vec<Edit> {
        let chosen = self.chosen(Operator::Ns, ratio, rng);
        let mut edits = Vec::new();
        for (layer, mut ring) in chosen.into_iter().enumerate() {
            if let [only] = ring[..] {
                let others = self.candidates(Operator::Ns, layer).iter();
                let others: Vec<usize> = others.copied().filter(|&n| n != only).collect();
                ring.push(others[rng.below(others.len() as u64) as usize]);
            }
            rng.shuffle(&mut ring);
            let mut order: Vec<usize> = (0..self.view.layers[layer].neurons).collect();
            for (i, &neuron) in ring.iter().enumerate() {
                order[neuron] = ring[(i + 1) % ring.len()];
            }
            if !ring.is_empty() {
                edits.push(Edit::Exchanged { layer, order });
            }
        }
        edits
    }

    fn elements(&self, constant: npcov_graph::ValueId) -> Option<Vec<f32>> {
        let tensor = self.view.graph.constant(constant)?;
        tensor.as_f32().map(<[f32]>::to_vec)
    }
}

/// So many of `all`, at least one.
fn share(all: usize, ratio: f64) -> usize {
    ((all as f64 * ratio).round() as usize).clamp(1, all.max(1))
}
