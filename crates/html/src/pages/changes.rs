//! What changed since an earlier state.

use npcov::coverage::{CountedBy, Difference, SuiteDifference};
use npcov_report::criterion_label;
use npcov_report::number::{change, count, percent, share, worth};

use super::frame::{self, table};
use super::{Page, Site, To, pointer};
use crate::markup::Markup;

/// Clusters that are listed.
const MOST_CLUSTERS: usize = 250;

pub(super) fn page(site: &Site<'_>) -> Page {
    frame::page(site, To::Changes, "Changes", |main| {
        main.tag("h1").text("What changed since the earlier state");
        content(site, main);
    })
}

pub(super) fn content(site: &Site<'_>, main: &mut Markup) {
    let Some(difference) = &site.dossier.compared.difference else {
        return;
    };
    for note in npcov_report::notes(difference) {
        main.tag("p")
            .class("warning")
            .text(super::overview::capital(&note));
    }
    for (number, suite) in difference.suites.iter().enumerate() {
        main.tag("section").holding(|section| {
            section.tag("h2").holding(|title| {
                title.name(&suite.name);
                if suite.earlier != suite.name {
                    title.text(" beside ");
                    title.name(&suite.earlier);
                }
            });
            values(site, section, difference, number, suite);
            lost(site, section, suite);
            clusters(site, section, suite);
        });
    }
}

fn values(
    site: &Site<'_>,
    section: &mut Markup,
    difference: &Difference,
    number: usize,
    suite: &SuiteDifference,
) {
    let counted = !suite.things.0.is_empty();
    let mut heads = vec![
        ("what", false),
        ("earlier", true),
        ("now", true),
        ("change", true),
    ];
    if counted {
        heads.extend([("newly covered", true), ("lost", true)]);
    }
    let caption = match difference.graph_changed {
        true => {
            "Values; what is covered cannot be compared thing by thing, because the decision graph is another"
        }
        false => "Values, and what is covered thing by thing",
    };
    let report = &site.dossier.compared.report;
    table(section, caption, &heads, |rows| {
        let at = |parts: &[&dyn std::fmt::Display]| {
            format!(
                "{}{}",
                pointer(&[&"difference", &"suites", &number]),
                pointer(parts)
            )
        };
        rows.tag("tr").holding(|row| {
            row.tag("th").attr("scope", "row").text("inputs");
            row.tag("td")
                .class("n")
                .at(at(&[&"inputs", &"old"]))
                .text(count(suite.inputs.old));
            row.tag("td")
                .class("n")
                .at(at(&[&"inputs", &"new"]))
                .text(count(suite.inputs.new));
            let grown = suite.inputs.new as f64 - suite.inputs.old as f64;
            row.tag("td").class("n").text(change(grown, false));
            (0..if counted { 2 } else { 0 }).for_each(|_| row.tag("td").text(""));
        });
        if let Some(accuracy) = suite.accuracy {
            rows.tag("tr").holding(|row| {
                row.tag("th").attr("scope", "row").text("accuracy");
                row.tag("td")
                    .class("n")
                    .at(at(&[&"accuracy", &"old"]))
                    .text(percent(accuracy.old));
                row.tag("td")
                    .class("n")
                    .at(at(&[&"accuracy", &"new"]))
                    .text(percent(accuracy.new));
                row.tag("td").class("n").text(change(accuracy.change, true));
                (0..if counted { 2 } else { 0 }).for_each(|_| row.tag("td").text(""));
            });
        }
        for (name, found) in &suite.criteria.0 {
            rows.tag("tr").holding(|row| {
                let is_share = report.is_share(name);
                let shown = |x: f64| if is_share { percent(x) } else { worth(x) };
                row.tag("th")
                    .attr("scope", "row")
                    .text(criterion_label(name));
                row.tag("td")
                    .class("n")
                    .at(at(&[&"criteria", name, &"old"]))
                    .text(shown(found.old));
                row.tag("td")
                    .class("n")
                    .at(at(&[&"criteria", name, &"new"]))
                    .text(shown(found.new));
                row.tag("td")
                    .class("n")
                    .text(change(found.change, is_share));
                if counted {
                    match suite.things.get(name) {
                        Some(things) => {
                            row.tag("td")
                                .class("n")
                                .at(at(&[&"things", name, &"new"]))
                                .text(count(things.new));
                            row.tag("td")
                                .class("n")
                                .at(at(&[&"things", name, &"lost"]))
                                .text(count(things.lost));
                        }
                        None => (0..2).for_each(|_| row.tag("td").text("")),
                    }
                }
            });
        }
        for (name, found) in &suite.relative.0 {
            rows.tag("tr").holding(|row| {
                row.tag("th")
                    .attr("scope", "row")
                    .text(format!("{} of random", criterion_label(name)));
                row.tag("td")
                    .class("n")
                    .at(at(&[&"relative", name, &"old"]))
                    .text(share(found.change.old));
                row.tag("td")
                    .class("n")
                    .at(at(&[&"relative", name, &"new"]))
                    .text(share(found.change.new));
                let verdict = if found.is_lost() { " ▼ lost" } else { "" };
                row.tag("td")
                    .class("n")
                    .text(format!("{}{verdict}", change(found.change.change, true)));
                (0..if counted { 2 } else { 0 }).for_each(|_| row.tag("td").text(""));
            });
        }
    });
}

/// Classes and clusters that had enough inputs, and have too few.
fn lost(site: &Site<'_>, section: &mut Markup, suite: &SuiteDifference) {
    if suite.thinned.is_empty() {
        section
            .tag("p")
            .text("Nothing that had enough inputs has too few now.");
        return;
    }
    section
        .tag("h3")
        .text("Had enough inputs, and have too few");
    section.tag("ul").holding(|list| {
        for thin in suite.thinned.iter().take(100) {
            list.tag("li")
                .attr("data-stop", "")
                .attr("tabindex", "-1")
                .holding(|item| {
                    item.text("Class ");
                    site.class(item, thin.class.class);
                    if let Some(cluster) = thin.cluster {
                        item.text(", ");
                        site.cluster(item, cluster);
                    }
                    if thin.by == CountedBy::Label {
                        item.text(", by label");
                    }
                    let earlier = thin
                        .earlier
                        .map(|earlier| format!(", {} were", count(earlier)));
                    item.text(&format!(
                        ": {} where {} are expected{}",
                        count(thin.inputs),
                        npcov_report::number::decimals(thin.expected, 1),
                        earlier.unwrap_or_default()
                    ));
                });
        }
    });
}

/// What changed cluster by cluster, most lost first.
fn clusters(site: &Site<'_>, section: &mut Markup, suite: &SuiteDifference) {
    let position = site
        .dossier
        .suites()
        .iter()
        .position(|found| found.name == suite.name);
    let mut found: Vec<usize> = (0..site.dossier.changes.len())
        .filter(|&i| {
            let change = &site.dossier.changes[i];
            Some(change.suite) == position
                && (change.new > 0 || change.lost > 0 || change.earlier != change.inputs)
        })
        .collect();
    if found.is_empty() {
        return;
    }
    found.sort_by_key(|&i| std::cmp::Reverse(site.dossier.changes[i].lost));
    let more = found.len().saturating_sub(MOST_CLUSTERS);
    found.truncate(MOST_CLUSTERS);
    let heads = [
        ("cluster", false),
        ("class", false),
        ("inputs earlier", true),
        ("now", true),
        ("newly covered", true),
        ("lost", true),
    ];
    table(
        section,
        "Buckets of SNPC by cluster, most lost first",
        &heads,
        |rows| {
            for i in found {
                let found = &site.dossier.changes[i];
                let at = |field: &str| pointer(&[&"changes", &i, &field]);
                rows.tag("tr").attr("data-row", "").holding(|row| {
                    row.tag("th")
                        .attr("scope", "row")
                        .holding(|cell| site.cluster(cell, found.cluster));
                    row.tag("td").holding(|cell| site.class(cell, found.class));
                    row.tag("td")
                        .class("n")
                        .at(at("earlier"))
                        .text(count(found.earlier));
                    row.tag("td")
                        .class("n")
                        .at(at("inputs"))
                        .text(count(found.inputs));
                    row.tag("td")
                        .class("n")
                        .at(at("new"))
                        .text(count(found.new));
                    row.tag("td")
                        .class("n")
                        .at(at("lost"))
                        .text(count(found.lost));
                });
            }
        },
    );
    if more > 0 {
        section
            .tag("p")
            .text(format!("and {} more, in report.json", count(more)));
    }
}
