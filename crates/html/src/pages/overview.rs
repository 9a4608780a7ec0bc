//! The first page: verdict, gaps, classes, criteria.

use npcov::coverage::SuiteReport;
use npcov::criteria::{find, is_of_similarity};
use npcov_report::number::{amount, count, decimals, percent, share};
use npcov_report::{criterion_label, yardstick_source};

use super::frame::{self, table};
use super::{Page, Site, To, classes, drawing, facts, gap, headline, pointer};
use crate::markup::Markup;

/// Classes that are listed here; of more, those in need are.
pub(super) const MOST_CLASSES: usize = 60;
/// Of many classes, so many.
const CLASSES_IN_NEED: usize = 20;
/// Gaps that are shown with their inputs.
const MOST_GAPS: usize = 12;

pub(super) fn page(site: &Site<'_>) -> Page {
    frame::page(site, To::Overview, "Overview", |main| content(site, main))
}

pub(super) fn content(site: &Site<'_>, main: &mut Markup) {
    let dossier = site.dossier;
    let report = &dossier.compared.report;
    headline::hero(site, main);
    headline::verdict(site, main);
    for (suite, found) in report.suites.iter().enumerate() {
        headline::tiles(site, main, suite, found);
    }
    for note in dossier.notes.iter().chain(&report.warnings) {
        main.tag("p").class("warning").text(note);
    }
    gaps(site, main);
    for (suite, found) in report.suites.iter().enumerate() {
        main.tag("section")
            .class("panel")
            .attr("aria-labelledby", format!("classes-{suite}-title"))
            .holding(|section| {
                let id = format!("classes-{suite}-title");
                section
                    .tag("h2")
                    .attr("id", id)
                    .holding(|title| of_suite(site, title, "Classes", found));
                class_table(site, section, suite);
            });
    }
    for (suite, found) in report.suites.iter().enumerate() {
        main.tag("section")
            .class("panel")
            .attr("aria-labelledby", format!("criteria-{suite}-title"))
            .holding(|section| {
                let id = format!("criteria-{suite}-title");
                section
                    .tag("h2")
                    .attr("id", id)
                    .holding(|title| of_suite(site, title, "Criteria", found));
                criteria(site, section, suite, found);
            });
    }
    facts::section(site, main);
}

/// `Classes`, or `Classes of unit` where there are several suites.
pub(super) fn of_suite(site: &Site<'_>, markup: &mut Markup, words: &str, suite: &SuiteReport) {
    markup.text(words);
    if site.dossier.suites().len() > 1 {
        markup.text(" of ");
        markup.name(&suite.name);
    }
}

/// The same words with a capital first letter.
pub(super) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

fn gaps(site: &Site<'_>, main: &mut Markup) {
    for (suite, (view, found)) in site
        .dossier
        .views
        .iter()
        .zip(site.dossier.suites())
        .enumerate()
    {
        if found.thin().is_empty() {
            continue;
        }
        main.tag("section")
            .attr("aria-labelledby", format!("gaps-{suite}-title"))
            .holding(|section| {
                let id = format!("gaps-{suite}-title");
                let thin = found.thin();
                section
                    .tag("h2")
                    .attr("id", id)
                    .holding(|title| of_suite(site, title, "Gaps", found));
                let Some(gaps) = &view.gaps else {
                    // Without the graph, gaps are known, but nothing that shows them.
                    section.tag("ul").holding(|list| {
                        for gap in &thin {
                            list.tag("li").text(capital(&npcov_report::gap(gap)));
                        }
                    });
                    return;
                };
                let mut order: Vec<usize> = (0..gaps.gaps.len()).collect();
                order.sort_by(|&a, &b| gaps.gaps[b].missing.cmp(&gaps.gaps[a].missing));
                for &number in order.iter().take(MOST_GAPS) {
                    gap::region(site, section, suite, gaps, number);
                }
                if order.len() > MOST_GAPS {
                    section.tag("details").holding(|details| {
                        details
                            .tag("summary")
                            .text(format!("{} more gaps", count(order.len() - MOST_GAPS)));
                        details.tag("ul").holding(|list| {
                            for &number in order.iter().skip(MOST_GAPS).take(200) {
                                let gap = &gaps.gaps[number];
                                list.tag("li").holding(|item| {
                                    gap::name(site, item, gap);
                                    item.text(&format!(
                                        ": {} where {} are expected",
                                        count(gap.inputs),
                                        decimals(gap.expected, 1)
                                    ));
                                });
                            }
                        });
                    });
                }
            });
    }
}

fn class_table(site: &Site<'_>, section: &mut Markup, suite: usize) {
    let mut order: Vec<usize> = (0..site.dossier.classes.len()).collect();
    let many = order.len() > MOST_CLASSES;
    if many {
        let classes = &site.dossier.suites()[suite].classes;
        classes::by_need(classes, &mut order);
        order.truncate(CLASSES_IN_NEED);
        section.tag("p").holding(|line| {
            line.text(&format!(
                "Of {} classes, those that are tried out least. ",
                count(site.dossier.classes.len())
            ));
            site.link(line, To::Classes(0), |words| words.text("All classes"));
        });
    } else if suite == 0 {
        frame::filter(section, "classes");
    }
    classes::rows(site, section, suite, &order);
}

fn criteria(site: &Site<'_>, section: &mut Markup, suite: usize, found: &SuiteReport) {
    let yardsticks = !found.baselines.0.is_empty();
    let mut heads = vec![("criterion", false), ("value", true)];
    if yardsticks {
        heads.extend([("of random", true), ("of training", true)]);
    }
    let difference = site.dossier.compared.difference.as_ref();
    let earlier = difference.and_then(|difference| difference.suite(&found.name));
    if earlier.is_some() {
        heads.extend([("earlier", true), ("change", true)]);
    }
    let growth = &site.dossier.views[suite].growth;
    let grows = growth.last().is_some_and(|&last| last > 0);
    if grows {
        heads.push(("growth over the suite", false));
    }
    let report = &site.dossier.compared.report;
    table(
        section,
        "What the suite is worth by each criterion",
        &heads,
        |rows| {
            for (name, value) in &found.criteria.0 {
                rows.tag("tr").holding(|row| {
                    row.tag("th").attr("scope", "row").holding(|cell| {
                        cell.tag("strong").text(criterion_label(name));
                        let words = find(name).map_or("", |entry| entry.summary);
                        cell.tag("span").class("meaning").text(capital(words));
                    });
                    let at = pointer(&[&"suites", &suite, &"criteria", name]);
                    row.tag("td").class("n").at(at).text(amount(*value));
                    if yardsticks {
                        let baselines = found.baselines.get(name);
                        let at = |field: &str| {
                            pointer(&[&"suites", &suite, &"yardsticks", name, &field])
                        };
                        part(row, baselines.and_then(|b| b.of_random), &at("of_random"));
                        part(row, baselines.map(|b| b.of_training), &at("of_training"));
                    }
                    if let Some(earlier) = earlier {
                        let change = earlier.criteria.get(name);
                        let is_share = report.is_share(name);
                        let cells = change.map(|change| {
                            let old = match is_share {
                                true => percent(change.old),
                                false => npcov_report::number::worth(change.old),
                            };
                            (old, npcov_report::number::change(change.change, is_share))
                        });
                        let (old, change) = cells.unwrap_or(("–".to_owned(), "–".to_owned()));
                        row.tag("td").class("n").text(old);
                        row.tag("td").class("n").text(change);
                    }
                    if grows {
                        row.tag("td").holding(|cell| {
                            if is_of_similarity(name) {
                                drawing::growth(cell, growth);
                            }
                        });
                    }
                });
            }
        },
    );
    let mut sources: Vec<String> = Vec::new();
    for (name, baselines) in &found.baselines.0 {
        sources.push(format!(
            "{} by {}",
            yardstick_source(baselines),
            criterion_label(name)
        ));
    }
    if !sources.is_empty() {
        section.tag("p").class("legend").text(format!(
            "A bare value says little: most of what a criterion counts may be out of reach. Of random: of what as many \
             training inputs, drawn at random, reach on average. Of training: of what training inputs reach, {}.",
            sources.join(", ")
        ));
    }
}

/// A cell with a part of a yardstick, as a number and as a bar.
fn part(row: &mut Markup, part: Option<f64>, at: &str) {
    match part {
        Some(part) => row.tag("td").class("n meter").holding(|cell| {
            cell.tag("span").class("percent").at(at).text(share(part));
            frame::bar(cell, part);
        }),
        None => row.tag("td").class("n").text("–"),
    }
}
