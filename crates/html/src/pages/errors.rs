//! Inputs that are not classified as labelled, and unusual ones.

use npcov::coverage::SuiteReport;
use npcov_report::number::{count, four_digits};

use super::frame;
use super::overview::of_suite;
use super::sights::{Item, Look, strip};
use super::{Page, Site, To, pointer};
use crate::dossier::SuiteView;
use crate::markup::Markup;

/// Groups that are shown with inputs.
const MOST_SHOWN: usize = 40;
/// The same in a report that is a single file.
const MOST_IN_SINGLE: usize = 5;

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
        main.tag("section").holding(|section| {
            section
                .tag("h2")
                .holding(|title| of_suite(site, title, "Misclassified", found));
            summary(section, view, found, most_shown(site));
            section.tag("div").class("groups").holding(|groups| {
                for number in 0..view.errors.len().min(most_shown(site)) {
                    group(site, groups, suite, number);
                }
            });
        });
        for (title, id, words, places) in [
            (
                "Contested",
                "contested",
                "Decided nearly as another class is. These may be wrong, or become wrong with the next training: the first \
                 to have their labels looked at.",
                &view.contested,
            ),
            (
                "Unfamiliar",
                "unfamiliar",
                "Decided as no training input of the class was. The model may not know such inputs: more of them may belong \
                 into the training data.",
                &view.unfamiliar,
            ),
        ] {
            if places.is_empty() {
                continue;
            }
            let section = main
                .tag("section")
                .class("panel")
                .attr("id", format!("{id}-{suite}"));
            section.holding(|section| {
                section
                    .tag("h2")
                    .holding(|h2| of_suite(site, h2, title, found));
                section.tag("p").text(words);
                let items: Vec<Item<'_>> = (places.iter())
                    .map(|&place| unusual(site, suite, place, id))
                    .collect();
                strip(site, section, "", "", Look::Middle, &items);
                section.tag("p").class("legend").text(
                    "p: the share of usual inputs that are so at least. A word in orange: the label, where it is another.",
                );
            });
        }
    }
}

/// Groups that there is room for.
fn most_shown(site: &Site<'_>) -> usize {
    if site.single {
        MOST_IN_SINGLE
    } else {
        MOST_SHOWN
    }
}

/// How many errors there are.
fn summary(section: &mut Markup, view: &SuiteView, found: &SuiteReport, most: usize) {
    if view.errors.is_empty() {
        section
            .tag("p")
            .text("Every input is classified as labelled.");
        return;
    }
    let wrong = found.accuracy.map(|accuracy| {
        let wrong = (found.inputs as f64 * (1.0 - accuracy)).round();
        count(wrong as usize)
    });
    let groups = match view.error_groups {
        1 => "1 group".to_owned(),
        many => format!("{} groups", count(many)),
    };
    section.tag("p").text(format!(
        "{} of {} inputs are not classified as labelled, in {groups} of one label, one prediction and one cluster, the \
         largest first. Errors of a group often have one cause.",
        wrong.unwrap_or_default(),
        count(found.inputs),
    ));
    if view.error_groups > most {
        section
            .tag("p")
            .class("legend")
            .text(format!("The {most} largest groups are shown."));
    }
}

/// An unusual input, with how unusual it is.
fn unusual<'d>(site: &Site<'d>, suite: usize, place: usize, kind: &str) -> Item<'d> {
    let inputs = &site.dossier.inputs;
    let number = inputs
        .iter()
        .position(|input| (input.suite, input.place) == (suite, place));
    let p = number.and_then(|number| {
        let rank = match kind {
            "contested" => inputs[number].contested,
            _ => inputs[number].unfamiliar,
        };
        rank.and_then(|rank| rank.p)
    });
    Item {
        note: p.map(|p| format!("p {}", four_digits(p))),
        at: number.map(|number| pointer(&[&"inputs", &number, &kind, &"p"])),
        ..Item::of_suite(site, suite, place)
    }
}

/// A group of errors.
fn group(site: &Site<'_>, markup: &mut Markup, suite: usize, number: usize) {
    let group = &site.dossier.views[suite].errors[number];
    let id = format!("errors-{suite}-{number}");
    let tag = markup.tag("div").class("group").attr("role", "group");
    let tag = tag.attr("data-stop", "");
    let tag = tag.attr("tabindex", "-1").attr("aria-labelledby", &id);
    tag.holding(|part| {
        part.tag("h3").attr("id", &id).holding(|title| {
            let at = pointer(&[&"views", &suite, &"errors", &number, &"inputs"]);
            title
                .tag("span")
                .class("badge")
                .at(at)
                .text(count(group.inputs));
            title.text(" labelled ");
            title
                .tag("span")
                .class("label")
                .text(site.label_text(group.label));
            title.text(", predicted ");
            site.class(title, group.prediction);
            if let Some(cluster) = group.cluster {
                title.text(", ");
                site.cluster(title, cluster);
            }
        });
        let items: Vec<Item<'_>> = (group.places.iter())
            .map(|&place| Item {
                class: None,
                ..Item::of_suite(site, suite, place)
            })
            .collect();
        strip(site, part, "", "", Look::Small, &items);
    });
}
