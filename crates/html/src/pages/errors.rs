//! Inputs that are not classified as labelled, and unusual ones.

use npcov_report::number::count;

use super::frame;
use super::overview::of_suite;
use super::sights::{Item, strip};
use super::{Page, Site, To, pointer};
use crate::markup::Markup;

/// Groups that are shown with inputs.
const MOST_SHOWN: usize = 40;

pub(super) fn page(site: &Site<'_>) -> Page {
    frame::page(site, To::Errors, "Errors", |main| {
        main.tag("h1").text("Errors");
        content(site, main);
    })
}

/// Errors and unusual inputs of all suites.
pub(super) fn content(site: &Site<'_>, main: &mut Markup) {
    let dossier = site.dossier;
    for (suite, (view, found)) in dossier.views.iter().zip(dossier.suites()).enumerate() {
        let item = |place: usize| Item::of_suite(site, suite, place);
        main.tag("section").holding(|section| {
            section.tag("h2").holding(|title| of_suite(site, title, "By label, prediction and cluster", found));
            if view.errors.is_empty() {
                section.tag("p").text("No input is classified other than labelled.");
            } else {
                section.tag("p").text(format!(
                    "Errors of one kind in one cluster often have one cause. {} groups, the largest first.",
                    count(view.error_groups)
                ));
            }
            section.tag("div").class("groups").holding(|groups| {
                for number in 0..view.errors.len().min(MOST_SHOWN) {
                    group(site, groups, suite, number);
                }
            });
        });
        for (title, words, places) in [
            (
                "Contested",
                "Decided nearly as another class is, more than usual inputs are.",
                &view.contested,
            ),
            (
                "Unfamiliar",
                "Decided as no training input of the class was, more than usual inputs are.",
                &view.unfamiliar,
            ),
        ] {
            if places.is_empty() {
                continue;
            }
            main.tag("section").holding(|section| {
                section
                    .tag("h2")
                    .holding(|h2| of_suite(site, h2, title, found));
                section.tag("p").text(words);
                let items: Vec<Item<'_>> = places.iter().map(|&place| item(place)).collect();
                strip(site, section, "", "", false, &items);
            });
        }
    }
}

/// A group of errors.
fn group(site: &Site<'_>, markup: &mut Markup, suite: usize, number: usize) {
    let group = &site.dossier.views[suite].errors[number];
    let id = format!("errors-{suite}-{number}");
    let tag = markup.tag("section").class("group").attr("data-stop", "");
    let tag = tag.attr("tabindex", "-1").attr("aria-labelledby", &id);
    tag.holding(|part| {
        part.tag("h3").attr("id", &id).holding(|title| {
            let at = pointer(&[&"views", &suite, &"errors", &number, &"inputs"]);
            title.tag("span").at(at).text(count(group.inputs));
            let label = site.label_text(group.label);
            title.text(&format!(" labelled {label}, predicted "));
            site.class(title, group.prediction);
            if let Some(cluster) = group.cluster {
                title.text(", ");
                site.cluster(title, cluster);
            }
        });
        let places = group.places.iter();
        let items: Vec<Item<'_>> = places
            .map(|&place| Item::of_suite(site, suite, place))
            .collect();
        strip(site, part, "", "", false, &items);
    });
}
