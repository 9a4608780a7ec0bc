//! What changed since an earlier state.

use npcov::coverage::{CountedBy, Difference, SuiteDifference, SuiteReport};
use npcov_report::criterion_label;
use npcov_report::number::{change, count, decimals, percent, share, worth};

use super::class::typical;
use super::frame::{self, table};
use super::{Page, Site, To, pointer};
use crate::markup::Markup;

/// Clusters that are listed.
const MOST_CLUSTERS: usize = 250;
/// The same in a report that is a single file.
const MOST_IN_SINGLE: usize = 8;
/// Clusters that are shown by typical members.
const MOST_LOOKS: usize = 60;

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
            lost(site, section, suite);
            section.tag("div").class("panel").holding(|panel| {
                values(site, panel, difference, number, suite);
            });
            let position = site.dossier.suites().iter();
            let position = position
                .enumerate()
                .find(|(_, found)| found.name == suite.name);
            if let Some((position, found)) = position {
                by_class(site, section, (number, suite), (position, found));
                clusters(site, section, position);
            }
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
            .class("headline")
            .text("✔ Nothing that had enough inputs has too few now.");
        return;
    }
    section.tag("div").class("verdict failed").holding(|part| {
        part.tag("h3").text("✘ Had enough inputs, and has too few");
        part.tag("ul").holding(|list| {
            for thin in suite.thinned.iter().take(100) {
                let item = list.tag("li").attr("data-stop", "");
                item.attr("tabindex", "-1").holding(|item| {
                    site.class(item, thin.class.class);
                    if let Some(cluster) = thin.cluster {
                        item.text(", ");
                        site.cluster(item, cluster);
                    }
                    if thin.by == CountedBy::Label {
                        item.text(", by label");
                    }
                    let earlier = thin.earlier.map_or(String::new(), |earlier| {
                        format!("; earlier there were {}", count(earlier))
                    });
                    item.text(&format!(
                        ": {} where {} are expected{earlier}",
                        count(thin.inputs),
                        decimals(thin.expected, 1),
                    ));
                });
            }
        });
    });
}

/// What changed class by class: for the same graph thing by thing, else by the number of inputs.
fn by_class(
    site: &Site<'_>,
    section: &mut Markup,
    (number, suite): (usize, &SuiteDifference),
    (position, found): (usize, &SuiteReport),
) {
    let mut changed: Vec<usize> = (0..site.dossier.class_changes.len())
        .filter(|&i| {
            let change = &site.dossier.class_changes[i];
            change.suite == position
                && (change.new > 0 || change.lost > 0 || change.earlier != change.inputs)
        })
        .collect();
    if !changed.is_empty() {
        changed.sort_by_key(|&i| std::cmp::Reverse(site.dossier.class_changes[i].lost));
        section.tag("div").class("panel").holding(|panel| {
            panel.tag("h3").text("By class, most lost first");
            table(
                panel,
                "Degrees of similarity by class, most lost first",
                &HEADS,
                |rows| {
                    for i in changed.into_iter().take(MOST_CLUSTERS) {
                        let change = &site.dossier.class_changes[i];
                        rows.tag("tr").attr("data-row", "").holding(|row| {
                            row.tag("th").attr("scope", "row").holding(|cell| {
                                site.class(cell, change.class);
                                site.class_number(cell, change.class);
                            });
                            let numbers = [change.earlier, change.inputs, change.new, change.lost];
                            cells(row, numbers, |field| {
                                pointer(&[&"class_changes", &i, &field])
                            });
                        });
                    }
                },
            );
        });
        return;
    }
    if suite.classes.is_empty() {
        return;
    }
    section.tag("div").class("panel").holding(|panel| {
        panel.tag("h3").text("Classes with fewer inputs");
        let heads = [
            ("class", false),
            ("earlier", true),
            ("now", true),
            ("expected", true),
        ];
        table(panel, "Classes with fewer inputs", &heads, |rows| {
            for (i, class) in suite.classes.iter().enumerate().take(MOST_CLUSTERS) {
                let at = |field: &str| {
                    pointer(&[
                        &"difference",
                        &"suites",
                        &number,
                        &"classes",
                        &i,
                        &"inputs",
                        &field,
                    ])
                };
                rows.tag("tr").attr("data-row", "").holding(|row| {
                    row.tag("th").attr("scope", "row").holding(|cell| {
                        site.class(cell, class.class);
                        site.class_number(cell, class.class);
                    });
                    row.tag("td")
                        .class("n")
                        .at(at("old"))
                        .text(count(class.inputs.old));
                    row.tag("td")
                        .class("n")
                        .at(at("new"))
                        .text(count(class.inputs.new));
                    let expected = found.classes.get(class.class).map(|class| class.expected);
                    let expected = expected.map_or(String::new(), |x| decimals(x, 1));
                    row.tag("td").class("n").text(expected);
                });
            }
        });
    });
}

/// Heads of tables of classes and clusters.
const HEADS: [(&str, bool); 5] = [
    ("class", false),
    ("inputs earlier", true),
    ("now", true),
    ("newly covered", true),
    ("lost", true),
];

/// Inputs then and now, and what is newly covered and lost, by a sign too.
fn cells(row: &mut Markup, numbers: [usize; 4], at: impl Fn(&str) -> String) {
    let [earlier, inputs, new, lost] = numbers;
    row.tag("td")
        .class("n")
        .at(at("earlier"))
        .text(count(earlier));
    row.tag("td")
        .class("n")
        .at(at("inputs"))
        .text(count(inputs));
    let signed = |row: &mut Markup, field: &str, class: &'static str, sign: &str, number: usize| {
        row.tag("td").class("n").holding(|cell| {
            if number > 0 {
                cell.tag("span").class(class).text(sign);
                cell.text(" ");
            }
            cell.tag("span").at(at(field)).text(count(number));
        });
    };
    signed(row, "new", "right", "▲", new);
    signed(row, "lost", "thin", "▼", lost);
}

/// What changed cluster by cluster, most lost first.
fn clusters(site: &Site<'_>, section: &mut Markup, position: usize) {
    let mut found: Vec<usize> = (0..site.dossier.changes.len())
        .filter(|&i| {
            let change = &site.dossier.changes[i];
            change.suite == position
                && (change.new > 0 || change.lost > 0 || change.earlier != change.inputs)
        })
        .collect();
    if found.is_empty() {
        return;
    }
    found.sort_by_key(|&i| std::cmp::Reverse(site.dossier.changes[i].lost));
    let most = if site.single {
        MOST_IN_SINGLE
    } else {
        MOST_CLUSTERS
    };
    let more = found.len().saturating_sub(most);
    found.truncate(most);
    section.tag("div").class("panel").holding(|panel| {
        panel.tag("h3").text("By cluster, most lost first");
        let mut heads = vec![("cluster", false), ("class", false), ("typical", false)];
        heads.extend(&HEADS[1..]);
        table(panel, "Degrees of similarity by cluster, most lost first", &heads, |rows| {
            for (place, i) in found.into_iter().enumerate() {
                let change = &site.dossier.changes[i];
                rows.tag("tr").attr("data-row", "").holding(|row| {
                    row.tag("th")
                        .attr("scope", "row")
                        .holding(|cell| site.cluster(cell, change.cluster));
                    row.tag("td").holding(|cell| site.class(cell, change.class));
                    row.tag("td").holding(|cell| {
                        let view = site.dossier.clusters.get(change.cluster);
                        if let Some(view) = view.filter(|_| place < MOST_LOOKS) {
                            typical(site, cell, view, 3);
                        }
                    });
                    let numbers = [change.earlier, change.inputs, change.new, change.lost];
                    cells(row, numbers, |field| pointer(&[&"changes", &i, &field]));
                });
            }
        });
        panel.tag("p").class("legend").text(
            "Covered: degrees of similarity to a cluster, layer by layer, that inputs of the suite show (SNPC).",
        );
        if more > 0 {
            panel
                .tag("p")
                .text(format!("and {} more, in report.json", count(more)));
        }
    });
}
