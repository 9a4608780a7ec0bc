//! Neurons that tell clusters apart, and the training inputs in which they are strongest.

use npcov::DecisionGraph;
use npcov::paths::profile::UNIT;
use npcov::paths::{bits, for_each_path};

use super::NeuronView;
use super::clusters::training;
use crate::error::HtmlError;

/// Neurons of a layer that have a card.
const OF_LAYER: usize = 8;
/// Cards, at most.
const MOST: usize = 96;
/// Inputs on a card.
const STRONGEST: usize = 4;
/// Bytes of profiles that are looked at; of more, every so many are.
const LOOKED_AT: usize = 256 << 20;

/// The neurons of each layer that tell most clusters apart: those that are nearest to being in half of all abstract
/// paths.
pub(super) fn neurons(graph: &DecisionGraph) -> Result<Vec<NeuronView>, HtmlError> {
    let file = graph.learnt().file();
    let (graph, layout) = (file.graph(), file.graph().layout());
    let inputs = graph.training().len();
    let mut views = Vec::new();
    for layer in 0..layout.layers() {
        let with = |neuron: usize| -> Vec<usize> {
            let has = |&cluster: &usize| {
                bits::get(layout.layer(graph.abstract_path(cluster), layer), neuron)
            };
            (0..graph.clusters()).filter(has).collect()
        };
        let mut found: Vec<(usize, Vec<usize>)> = (0..layout.neurons(layer))
            .map(|neuron| (neuron, with(neuron)))
            .filter(|(_, clusters)| !clusters.is_empty())
            .collect();
        let from_half = |clusters: &[usize]| (2 * clusters.len()).abs_diff(graph.clusters());
        // Stable: of equal ones the first.
        found.sort_by_key(|(_, clusters)| from_half(clusters));
        found.truncate(OF_LAYER);
        found.sort_by_key(|&(neuron, _)| neuron);
        views.extend(found.into_iter().map(|(neuron, clusters)| NeuronView {
            layer,
            neuron,
            clusters,
            frequency: 0.0,
            strongest: Vec::new(),
        }));
    }
    views.truncate(MOST);
    let mut users = vec![0_usize; views.len()];
    for_each_path(file, layout, inputs, |_, path| {
        for (view, users) in views.iter().zip(&mut users) {
            *users += usize::from(bits::get(layout.layer(path, view.layer), view.neuron));
        }
    })?;
    for (view, users) in views.iter_mut().zip(users) {
        view.frequency = users as f64 / inputs.max(1) as f64;
    }
    let width = layout.total_neurons();
    let landmarks = file.landmarks().rows();
    let step = (landmarks.len() * width).div_ceil(LOOKED_AT).max(1);
    let mut profile = vec![0_u8; width];
    let mut strongest: Vec<Vec<(u32, u8)>> = vec![Vec::new(); views.len()];
    for at in (0..landmarks.len()).step_by(step) {
        file.read_profiles(at..at + 1, &mut profile)?;
        for (view, best) in views.iter().zip(&mut strongest) {
            let strength = profile[layout.span(view.layer).start + view.neuron];
            let better =
                best.len() < STRONGEST || best.last().is_some_and(|&(_, least)| strength > least);
            if strength > 0 && better {
                let place = best.partition_point(|&(_, other)| other >= strength);
                best.insert(place, (landmarks[at], strength));
                best.truncate(STRONGEST);
            }
        }
    }
    for (view, best) in views.iter_mut().zip(strongest) {
        // A profile keeps the root of each neuron's share.
        let share = |strength: u8| (f64::from(strength) * UNIT).powi(2);
        view.strongest = best
            .into_iter()
            .map(|(row, s)| training(file, (row, share(s))))
            .collect();
    }
    Ok(views)
}
