//! Cards of neurons that tell clusters apart.

use npcov_report::number::{count, percent, share};

use super::frame::{crumbs, page_between};
use super::sights::{Item, Look, strip};
use super::{Page, Site, To, pointer};
use crate::dossier::{Dossier, NeuronView};
use crate::markup::Markup;

/// Clusters that are named on a card.
const MOST_CLUSTERS: usize = 24;

pub(super) fn has_cards(dossier: &Dossier, layer: usize) -> bool {
    dossier.neurons.iter().any(|neuron| neuron.layer == layer)
}

pub(super) fn page(site: &Site<'_>, layer: usize) -> Page {
    let layers: Vec<usize> = (0..site.dossier.facts.layers.len())
        .filter(|&l| has_cards(site.dossier, l))
        .collect();
    let at = layers.iter().position(|&other| other == layer).unwrap_or(0);
    let near = |at: Option<usize>| {
        at.and_then(|at| layers.get(at))
            .map(|&layer| To::Neurons(layer))
    };
    let between = [
        Some(To::Explorer),
        near(at.checked_sub(1)),
        near(Some(at + 1)),
    ];
    let title = format!("Neurons of layer {layer}");
    page_between(site, To::Neurons(layer), &title, between, |main| {
        crumbs(
            site,
            main,
            &[
                (To::Explorer, "Explorer".to_owned()),
                (To::Neurons(layer), title.clone()),
            ],
        );
        main.tag("h1").holding(|h1| {
            h1.text(&format!("Neurons of layer {layer} "));
            h1.tag("span")
                .class("id")
                .name(&site.dossier.facts.layers[layer].name);
        });
        main.tag("nav")
            .class("pager")
            .attr("aria-label", "Layers")
            .holding(|nav| {
                for &other in &layers {
                    let current = (other == layer).then_some("page");
                    let tag = nav
                        .tag("a")
                        .attr_if("href", site.address(To::Neurons(other)));
                    tag.attr_if("aria-current", current)
                        .text(format!("layer {other}"));
                }
            });
        main.tag("p").text(
            "The neurons that tell most clusters apart: about half of all clusters have them in their paths, the others \
             have not. Below each, the training inputs in which it has the largest part of its layer's relevance, that part, and what \
             decided them.",
        );
        main.tag("div").class("groups").holding(|cards| {
            let all = site.dossier.neurons.iter().enumerate();
            for (number, neuron) in all.filter(|(_, n)| n.layer == layer) {
                card(site, cards, number, neuron);
            }
        });
    })
}

fn card(site: &Site<'_>, main: &mut Markup, number: usize, view: &NeuronView) {
    let id = format!("neuron-{}", view.neuron);
    let tag = main
        .tag("section")
        .class("card")
        .attr("id", &id)
        .attr("aria-labelledby", format!("{id}-title"));
    tag.attr("data-stop", "")
        .attr("tabindex", "-1")
        .holding(|section| {
            section
                .tag("h2")
                .attr("id", format!("{id}-title"))
                .text(format!("Neuron {}", view.neuron));
            section.tag("p").holding(|line| {
                line.text("Decides ");
                line.tag("span")
                    .at(pointer(&[&"neurons", &number, &"frequency"]))
                    .text(percent(view.frequency));
                line.text(" of the training inputs, and is in the paths of ");
                users(site, line, view);
            });
            let data = site
                .dossier
                .facts
                .learnt
                .as_ref()
                .map_or("", |learnt| learnt.sha256.as_str());
            let items: Vec<Item<'_>> = (view.strongest.iter().enumerate())
                .map(|(i, input)| Item {
                    note: Some(share(input.value)),
                    at: Some(pointer(&[&"neurons", &number, &"strongest", &i, &"value"])),
                    ..Item::training(data, input)
                })
                .collect();
            strip(site, section, "", "nothing", Look::Heat, &items);
        });
}

/// The clusters that have a neuron in their paths, by class.
fn users(site: &Site<'_>, line: &mut Markup, view: &NeuronView) {
    let mut class = None;
    for &cluster in view.clusters.iter().take(MOST_CLUSTERS) {
        let owner = site.dossier.clusters[cluster].class;
        if class != Some(owner) {
            line.text(if class.is_some() { "; " } else { "" });
            site.class(line, owner);
            line.text(":");
            class = Some(owner);
        }
        line.text(" ");
        site.link(line, To::Cluster(cluster), |words| {
            words.text(&cluster.to_string())
        });
    }
    if view.clusters.len() > MOST_CLUSTERS {
        line.text(&format!(
            " and {} more",
            count(view.clusters.len() - MOST_CLUSTERS)
        ));
    }
    line.text(".");
}
