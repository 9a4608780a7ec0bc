//! The first page: verdict, gaps, classes, criteria.

use npcov::coverage::SuiteReport;
use npcov::criteria::find;
use npcov_report::number::{amount, count, decimals, percent, share};
use npcov_report::{criterion_label, headlines, yardstick_source};

use super::frame::{self, table};
use super::{Page, Site, To, classes, drawing, facts, gap, pointer};
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
    main.tag("h1")
        .text("What the suite covers, and what it misses");
    verdict(site, main);
    for line in headlines(report) {
        main.tag("p").class("headline").text(capital(&line));
    }
    tiles(site, main);
    for note in dossier.notes.iter().chain(&report.warnings) {
        main.tag("p").class("warning").text(note);
    }
    gaps(site, main);
    for (suite, found) in report.suites.iter().enumerate() {
        main.tag("section")
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

fn verdict(site: &Site<'_>, main: &mut Markup) {
    let Some(check) = &site.dossier.check else {
        return;
    };
    let failed = check
        .findings
        .iter()
        .filter(|finding| !finding.passed)
        .count();
    let (class, words) = match check.passed {
        true => ("verdict passed", "✔ Passed: all rules hold".to_owned()),
        false => (
            "verdict failed",
            format!(
                "✘ Failed: {failed} of {} rules do not hold",
                check.findings.len()
            ),
        ),
    };
    main.tag("div").class(class).holding(|verdict| {
        verdict
            .tag("p")
            .holding(|line| line.tag("strong").text(words));
        verdict.tag("ul").holding(|list| {
            for line in npcov_report::check(check).lines() {
                list.tag("li").text(line);
            }
        });
    });
}

/// The numbers that people ask for first.
fn tiles(site: &Site<'_>, main: &mut Markup) {
    for (suite, found) in site.dossier.suites().iter().enumerate() {
        if site.dossier.suites().len() > 1 {
            main.tag("h2").class("suite").name(&found.name);
        }
        let at = |field: &str| pointer(&[&"suites", &suite, &field]);
        main.tag("ul")
            .class("tiles")
            .attr("role", "list")
            .holding(|tiles| {
                let mut tile = |value: &dyn Fn(&mut Markup), words: &str| {
                    tiles.tag("li").holding(|tile| {
                        tile.tag("span").class("value").holding(value);
                        tile.tag("span").class("what").text(words);
                    });
                };
                let gaps = found.thin().len();
                tile(
                    &|v| v.text(&count(gaps)),
                    if gaps == 1 { "gap" } else { "gaps" },
                );
                tile(
                    &|v| v.tag("span").at(at("inputs")).text(count(found.inputs)),
                    "inputs",
                );
                if let Some(accuracy) = found.accuracy {
                    tile(
                        &|v| v.tag("span").at(at("accuracy")).text(percent(accuracy)),
                        "accuracy",
                    );
                }
                let first = npcov_report::main_criteria(&site.dossier.compared.report);
                for name in first {
                    let Some(of_random) = found
                        .baselines
                        .get(name)
                        .and_then(|baselines| baselines.of_random)
                    else {
                        continue;
                    };
                    let at = pointer(&[&"suites", &suite, &"yardsticks", &name, &"of_random"]);
                    tile(
                        &|v| v.tag("span").at(&at).text(share(of_random)),
                        &format!(
                            "of what a random sample reaches ({})",
                            criterion_label(name)
                        ),
                    );
                }
                for (number, name, words) in [
                    (found.unfamiliar, "unfamiliar", "unfamiliar inputs"),
                    (found.contested, "contested", "contested inputs"),
                ] {
                    if let Some(number) = number {
                        let at = pointer(&[&"suites", &suite, &name, &"inputs"]);
                        let words = format!(
                            "{words} ({} usual)",
                            count(number.expected.round() as usize)
                        );
                        tile(
                            &|v| v.tag("span").at(&at).text(count(number.inputs)),
                            &words,
                        );
                    }
                }
            });
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
        main.tag("section").attr("aria-labelledby", format!("gaps-{suite}-title")).holding(|section| {
            let id = format!("gaps-{suite}-title");
            section.tag("h2").attr("id", id).holding(|title| of_suite(site, title, "Gaps", found));
            let thin = found.thin();
            if thin.is_empty() {
                section.tag("p").text("No class and no cluster has far fewer inputs than training would let expect.");
            }
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
                    details.tag("summary").text(format!("{} more gaps", count(order.len() - MOST_GAPS)));
                    details.tag("ul").holding(|list| {
                        for &number in order.iter().skip(MOST_GAPS).take(200) {
                            let gap = &gaps.gaps[number];
                            list.tag("li").holding(|item| {
                                gap::name(site, item, gap);
                                item.text(&format!(": {} where {} are expected", count(gap.inputs), decimals(gap.expected, 1)));
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
    let earlier = site
        .dossier
        .compared
        .difference
        .as_ref()
        .and_then(|difference| difference.suite(&found.name));
    if earlier.is_some() {
        heads.extend([("earlier", true), ("change", true)]);
    }
    heads.push(("what it is", false));
    let report = &site.dossier.compared.report;
    table(
        section,
        "What the suite is worth by each criterion",
        &heads,
        |rows| {
            for (name, value) in &found.criteria.0 {
                rows.tag("tr").holding(|row| {
                    row.tag("th")
                        .attr("scope", "row")
                        .text(criterion_label(name));
                    let at = pointer(&[&"suites", &suite, &"criteria", name]);
                    row.tag("td").class("n").at(at).text(amount(*value));
                    if yardsticks {
                        let baselines = found.baselines.get(name);
                        let at = |field: &str| {
                            pointer(&[&"suites", &suite, &"yardsticks", name, &field])
                        };
                        match baselines.and_then(|baselines| baselines.of_random) {
                            Some(of) => {
                                row.tag("td").class("n").at(at("of_random")).text(share(of))
                            }
                            None => row.tag("td").class("n").text("–"),
                        }
                        match baselines {
                            Some(of) => row
                                .tag("td")
                                .class("n")
                                .at(at("of_training"))
                                .text(share(of.of_training)),
                            None => row.tag("td").class("n").text("–"),
                        }
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
                    row.tag("td").holding(|cell| {
                        cell.text(find(name).map_or("", |entry| entry.summary));
                        if name == "snpc" {
                            cell.text(" ");
                            drawing::growth(cell, &site.dossier.views[suite].growth);
                        }
                    });
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
            "Of random: of what as many training inputs, drawn at random, reach on average. \
             Of training: of what training inputs reach, {}.",
            sources.join(", ")
        ));
    }
}
