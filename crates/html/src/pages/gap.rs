//! A gap: what is missing, what it looks like, and what to add.

use npcov::coverage::{CountedBy, Gap, Gaps};
use npcov_report::number::{count, decimals, four_digits};

use super::sights::{Item, strip};
use super::{Site, To, pointer};
use crate::markup::Markup;

/// Inputs in a strip.
const SHOWN: usize = 6;

/// How the inputs of a suite are found from what a gap says of them.
fn place(site: &Site<'_>, suite: usize, data: &str, input: usize) -> Option<To> {
    let found = site.dossier.inputs.iter();
    let mut found =
        found.filter(|view| view.suite == suite && view.data == data && view.input == input);
    found.next().map(|view| To::Input(suite, view.place))
}

/// The gap number `number` of a suite.
pub(super) fn region(
    site: &Site<'_>,
    markup: &mut Markup,
    suite: usize,
    gaps: &Gaps,
    number: usize,
) {
    let gap = &gaps.gaps[number];
    let training = site
        .dossier
        .facts
        .learnt
        .as_ref()
        .map_or("", |learnt| learnt.sha256.as_str());
    let id = format!("gap-{suite}-{number}");
    let tag = markup
        .tag("section")
        .class("gap")
        .attr("id", &id)
        .attr("data-stop", "");
    tag.attr("aria-labelledby", format!("{id}-title"))
        .attr("tabindex", "-1")
        .holding(|section| {
            section
                .tag("h3")
                .attr("id", format!("{id}-title"))
                .holding(|title| name(site, title, gap));
            numbers(
                section,
                gap,
                &pointer(&[&"views", &suite, &"gaps", &"gaps", &number]),
            );
            let typical: Vec<Item<'_>> = (gap.exemplars.iter().take(SHOWN))
                .map(|input| Item {
                    data: training,
                    row: input.input,
                    sample: input.sample.as_deref(),
                    label: input.label,
                    note: None,
                    at: None,
                    to: None,
                })
                .collect();
            let present: Vec<Item<'_>> = (gap.present.iter().take(SHOWN))
                .map(|input| Item {
                    data: &input.data,
                    row: input.input,
                    sample: input.sample.as_deref(),
                    label: input.label,
                    note: None,
                    at: None,
                    to: place(site, suite, &input.data, input.input),
                })
                .collect();
            section.tag("div").class("strips").holding(|strips| {
                strip(
                    site,
                    strips,
                    "Typical in training",
                    "nothing",
                    false,
                    &typical,
                );
                strip(
                    site,
                    strips,
                    "In the suite",
                    "nothing of it",
                    false,
                    &present,
                );
                if let (Some(add), Some(pool)) = (&gap.add, &gaps.pool) {
                    let known = site.dossier.pool.as_deref().unwrap_or("");
                    let offered: Vec<Item<'_>> = (add.iter().take(SHOWN))
                        .map(|input| Item {
                            data: known,
                            row: input.input,
                            sample: input.sample.as_deref(),
                            label: input.label,
                            note: None,
                            at: None,
                            to: None,
                        })
                        .collect();
                    let title = format!(
                        "To add, {} of {}",
                        count(add.len()),
                        crate::markup::short(&pool.data)
                    );
                    strip(
                        site,
                        strips,
                        &title,
                        "the pool has nothing of it",
                        false,
                        &offered,
                    );
                }
            });
        });
}

/// What is thin: a class, or a cluster of one.
pub(super) fn name(site: &Site<'_>, markup: &mut Markup, gap: &Gap) {
    match gap.cluster {
        Some(cluster) => {
            markup.text("Class ");
            site.class(markup, gap.class);
            markup.text(", ");
            site.cluster(markup, cluster);
        }
        None => {
            markup.text("Class ");
            site.class(markup, gap.class);
            if gap.by == CountedBy::Label {
                markup.text(", by label");
            }
        }
    }
}

fn numbers(markup: &mut Markup, gap: &Gap, at: &str) {
    markup.tag("p").class("amounts").holding(|line| {
        line.tag("strong")
            .at(format!("{at}/inputs"))
            .text(count(gap.inputs));
        line.text(if gap.inputs == 1 {
            " input where "
        } else {
            " inputs where "
        });
        line.tag("strong")
            .at(format!("{at}/expected"))
            .text(decimals(gap.expected, 1));
        line.text(" are expected; ");
        line.tag("strong")
            .at(format!("{at}/missing"))
            .text(count(gap.missing));
        line.text(" to add");
        line.tag("small").holding(|small| {
            small.text(" (by chance: p ");
            small
                .tag("span")
                .at(format!("{at}/p"))
                .text(four_digits(gap.p));
            small.text(")");
        });
    });
}
