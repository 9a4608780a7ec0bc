//! A gap: what is missing, what it looks like, and what to add.

use npcov::coverage::{CountedBy, Gap, Gaps, PresentInput};
use npcov_report::number::{count, decimals, four_digits};

use super::sights::{Item, Look, strip};
use super::{Site, To, frame, pointer};
use crate::markup::Markup;

/// Inputs in a strip.
const SHOWN: usize = 5;
/// Inputs to add that are named.
const NAMED: usize = 12;

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
    let id = format!("gap-{suite}-{number}");
    let tag = markup
        .tag("section")
        .class("gap")
        .attr("id", &id)
        .attr("data-stop", "");
    // Suites may have the same gap: then its name begins with that of the suite.
    let label = match site.dossier.suites().len() {
        1 => format!("{id}-title"),
        _ => format!("gaps-{suite}-title {id}-title"),
    };
    tag.attr("aria-labelledby", label)
        .attr("tabindex", "-1")
        .holding(|section| {
            let at = pointer(&[&"views", &suite, &"gaps", &"gaps", &number]);
            section.tag("div").class("gap-head").holding(|head| {
                head.tag("h3")
                    .attr("id", format!("{id}-title"))
                    .holding(|title| name(site, title, gap));
                numbers(head, gap, &at);
            });
            strips(site, section, suite, gaps, gap);
            advice(section, gaps, gap, &at);
        });
}

/// What is typical of it, what the suite has, and what a pool offers.
fn strips<'a>(site: &Site<'_>, section: &mut Markup, suite: usize, gaps: &Gaps, gap: &'a Gap) {
    let learnt = site.dossier.facts.learnt.as_ref();
    let training = learnt.map_or("", |learnt| learnt.sha256.as_str());
    let typical: Vec<Item<'_>> = (gap.exemplars.iter().take(SHOWN))
        .map(|input| Item {
            class: Some(gap.class),
            ..Item::plain(training, input.input, input.sample.as_deref(), input.label)
        })
        .collect();
    let of_suite = |inputs: &'a [PresentInput]| -> Vec<Item<'a>> {
        let item = |input: &'a PresentInput| Item {
            to: place(site, suite, &input.data, input.input),
            class: Some(gap.class),
            ..Item::plain(
                &input.data,
                input.input,
                input.sample.as_deref(),
                input.label,
            )
        };
        inputs.iter().take(SHOWN).map(item).collect()
    };
    let (present, nearest) = (of_suite(&gap.present), of_suite(&gap.nearest));
    section.tag("div").class("strips").holding(|strips| {
        let (look, nothing) = (Look::Middle, "no input");
        let title = "What is missing looks like this (training)";
        strip(site, strips, title, "nothing", look, &typical);
        let title = match gap.inputs > present.len() {
            true => format!("The suite has, the most typical of {}", count(gap.inputs)),
            false => "The suite has".to_owned(),
        };
        strip(site, strips, &title, nothing, look, &present);
        if !nearest.is_empty() {
            let title = "The suite's nearest inputs of other clusters";
            strip(site, strips, title, nothing, look, &nearest);
        }
        if let (Some(add), Some(pool)) = (&gap.add, &gaps.pool) {
            let known = site.dossier.pool.as_deref().unwrap_or("");
            let offered: Vec<Item<'_>> = (add.iter().take(SHOWN))
                .map(|input| Item::plain(known, input.input, input.sample.as_deref(), input.label))
                .collect();
            let title = format!("To add, from {}", crate::markup::short(&pool.data));
            strip(site, strips, &title, "the pool has none", look, &offered);
        }
    });
}

/// What is thin: a class, or a cluster of one.
pub(super) fn name(site: &Site<'_>, markup: &mut Markup, gap: &Gap) {
    site.class(markup, gap.class);
    match gap.cluster {
        Some(cluster) => {
            markup.text(", ");
            site.cluster(markup, cluster);
        }
        None => {
            markup.text(", the whole class");
            if gap.by == CountedBy::Label {
                markup.text(", by label");
            }
        }
    }
}

/// Found and expected, as numbers and as a bar.
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
        line.text(" are expected");
        frame::bar(
            line,
            gap.inputs as f64 / gap.expected.max(f64::MIN_POSITIVE),
        );
        line.tag("small").holding(|small| {
            small.text("by chance: p = ");
            small
                .tag("span")
                .at(format!("{at}/p"))
                .text(four_digits(gap.p));
        });
    });
}

/// What to do.
fn advice(section: &mut Markup, gaps: &Gaps, gap: &Gap, at: &str) {
    section.tag("p").class("advice").holding(|line| {
        line.tag("strong").text("To do: ");
        line.text("add ");
        line.tag("strong")
            .at(format!("{at}/missing"))
            .text(count(gap.missing));
        line.text(if gap.missing == 1 {
            " input like those of training. "
        } else {
            " inputs like those of training. "
        });
        match (&gap.add, &gaps.pool) {
            (Some(add), Some(_)) if add.is_empty() => {
                line.text("The pool has none: look for them elsewhere.");
            }
            (Some(add), Some(pool)) => {
                line.text(&format!(
                    "{} has {}: ",
                    crate::markup::short(&pool.data),
                    count(add.len())
                ));
                for (i, input) in add.iter().take(NAMED).enumerate() {
                    line.text(if i > 0 { ", " } else { "" });
                    match &input.sample {
                        Some(sample) => line.name(sample),
                        None => line.text(&format!("#{}", input.input)),
                    }
                }
                if add.len() > NAMED {
                    line.text(&format!(
                        " and {} more, in report.json",
                        count(add.len() - NAMED)
                    ));
                }
                line.text(". ");
                line.tag("code").text("npcov gaps … --pool DATA -o FILE");
                line.text(" writes them.");
            }
            _ => {
                line.tag("code").text("npcov gaps GRAPH STATE --pool DATA");
                line.text(" finds some among data that you have.");
            }
        }
    });
}
