//! The index of classes.

use npcov::coverage::ClassCoverage;
use npcov_report::criterion_label;
use npcov_report::number::{amount, count, decimals};

use super::frame::{self, meter, table};
use super::{Page, Site, To, pointer};
use crate::markup::Markup;

/// Puts classes that are tried out least first.
pub(super) fn by_need(classes: &[ClassCoverage], order: &mut [usize]) {
    let part = |class: usize| {
        let class = &classes[class];
        (
            !class.thin && !class.is_thin_by_label_alone(),
            class.inputs as f64 / class.expected.max(f64::MIN_POSITIVE),
        )
    };
    order.sort_by(|&a, &b| {
        let (a, b) = (part(a), part(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
}

pub(super) fn page(site: &Site<'_>, number: usize) -> Page {
    let near = |number: Option<usize>| number.map(To::Classes);
    let between = [
        Some(To::Overview),
        near(number.checked_sub(1)),
        near(Some(number + 1)),
    ];
    frame::page_between(site, To::Classes(number), "Classes", between, |main| {
        main.tag("h1").text("Classes");
        if site.class_pages() > 1 {
            main.tag("nav")
                .class("pager")
                .attr("aria-label", "Parts of the list")
                .holding(|nav| {
                    for other in 0..site.class_pages() {
                        let classes = site.classes_on(other);
                        let first = classes.first().map_or(0, |class| class.class);
                        let last = classes.last().map_or(0, |class| class.class);
                        let tag = nav
                            .tag("a")
                            .attr_if("href", site.address(To::Classes(other)));
                        let current = (other == number).then_some("page");
                        tag.attr_if("aria-current", current)
                            .text(format!("{first}–{last}"));
                    }
                });
        }
        frame::filter(main, "classes");
        let order: Vec<usize> = site
            .classes_on(number)
            .iter()
            .map(|class| class.class)
            .collect();
        for (suite, found) in site.dossier.suites().iter().enumerate() {
            main.tag("div").class("panel").holding(|panel| {
                if site.dossier.suites().len() > 1 {
                    panel.tag("h2").name(&found.name);
                }
                rows(site, panel, suite, &order);
            });
        }
    })
}

/// Clusters that are drawn in the row of their class.
const MOST_CELLS: usize = 24;

/// A table of classes of a suite.
pub(super) fn rows(site: &Site<'_>, markup: &mut Markup, suite: usize, order: &[usize]) {
    let found = &site.dossier.suites()[suite];
    let names: Vec<&String> = match found.classes.first() {
        Some(class) => class.criteria.0.iter().map(|(name, _)| name).collect(),
        None => return,
    };
    let clustered = !found.clusters.is_empty();
    let labels: Vec<String> = names.iter().map(|name| criterion_label(name)).collect();
    let mut heads = vec![
        ("class", false),
        ("note", false),
        ("inputs", true),
        ("expected", true),
        ("of expected", true),
    ];
    if clustered {
        heads.extend([("clusters", true), ("each of them", false)]);
    }
    heads.extend(labels.iter().map(|label| (label.as_str(), true)));
    table(
        markup,
        "Classes, as the model predicts them",
        &heads,
        |rows| {
            for &class in order {
                let Some(coverage) = found.classes.get(class) else {
                    continue;
                };
                let at = |field: &str| pointer(&[&"suites", &suite, &"classes", &class, &field]);
                let thin = coverage.thin || coverage.is_thin_by_label_alone();
                let tag = rows.tag("tr").attr("data-row", "");
                tag.attr_if("data-stop", thin.then_some(""))
                    .attr_if("tabindex", thin.then_some("-1"))
                    .holding(|row| {
                        row.tag("th").attr("scope", "row").holding(|cell| {
                            site.class(cell, class);
                            site.class_number(cell, class);
                        });
                        row.tag("td").holding(|cell| mark_class(cell, coverage));
                        amounts(row, coverage.inputs, coverage.expected, thin, &at);
                        if clustered {
                            let view = &site.dossier.classes[class];
                            let at = pointer(&[&"classes", &class, &"clusters"]);
                            row.tag("td").class("n").at(at).text(count(view.clusters));
                            row.tag("td")
                                .holding(|cell| cells(site, cell, suite, class));
                        }
                        for name in &names {
                            let at = pointer(&[
                                &"suites",
                                &suite,
                                &"classes",
                                &class,
                                &"criteria",
                                name,
                            ]);
                            match coverage.criteria.get(name) {
                                Some(value) => row.tag("td").class("n").at(at).text(amount(value)),
                                None => row.tag("td").class("n").text(""),
                            }
                        }
                    });
            }
        },
    );
    if clustered {
        markup.tag("p").class("legend").text(
            "Each of them: a cell is a cluster, the fuller the nearer to the number of inputs that training lets expect; ▲ \
             marks those with far fewer.",
        );
    }
}

/// Cells with the inputs that something has, that it should have, and the part that is.
pub(super) fn amounts(
    row: &mut Markup,
    inputs: usize,
    expected: f64,
    thin: bool,
    at: &dyn Fn(&str) -> String,
) {
    row.tag("td")
        .class("n")
        .at(at("inputs"))
        .text(count(inputs));
    row.tag("td")
        .class("n")
        .at(at("expected"))
        .text(decimals(expected, 1));
    match expected > 0.0 {
        true => {
            let of = [at("inputs"), at("expected")];
            meter(row, inputs as f64 / expected, Some(of), thin);
        }
        false => row.tag("td").class("n").text("–"),
    }
}

/// A cell for each cluster of a class, as full as it is tested.
fn cells(site: &Site<'_>, markup: &mut Markup, suite: usize, class: usize) {
    let view = &site.dossier.classes[class];
    let found = &site.dossier.suites()[suite].clusters;
    let own = view.first_cluster..view.first_cluster + view.clusters;
    markup.tag("span").class("cells").holding(|cells| {
        for cluster in own.clone().take(MOST_CELLS) {
            let Some(coverage) = found.get(cluster) else {
                continue;
            };
            let part = coverage.inputs as f64 / coverage.expected.max(f64::MIN_POSITIVE);
            let words = format!(
                "cluster {cluster}: {} of {} expected inputs{}",
                count(coverage.inputs),
                decimals(coverage.expected, 1),
                if coverage.thin { ", thin" } else { "" }
            );
            let tag = match site.address(To::Cluster(cluster)) {
                Some(address) => cells.tag("a").attr("href", address),
                None => cells.tag("span").attr("role", "img"),
            };
            tag.class(if coverage.thin { "cell thin" } else { "cell" })
                .attr("title", &words)
                .attr("aria-label", &words)
                .attr("style", format!("--part:{:.2}", part.clamp(0.0, 1.0)))
                .text(if coverage.thin { "▲" } else { "" });
        }
        if own.len() > MOST_CELLS {
            cells.text(&format!(" +{}", own.len() - MOST_CELLS));
        }
    });
}

/// Says that a class is thin, and where it is by label alone.
pub(super) fn mark_class(markup: &mut Markup, class: &ClassCoverage) {
    mark(markup, class.thin);
    if class.is_thin_by_label_alone() {
        markup.tag("span").class("thin").text("▲ thin by label");
    }
}

/// Says that something is thin, by a sign and a word.
pub(super) fn mark(markup: &mut Markup, thin: bool) {
    if thin {
        markup.tag("span").class("thin").text("▲ thin");
    }
}
