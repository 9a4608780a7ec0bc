//! A class: its clusters and layers, what is covered of them, and how their paths differ.

use npcov_report::number::{count, decimals, percent};

use super::classes::{mark, mark_class};
use super::frame::{crumbs, filter, page_between, table};
use super::sights::{Item, strip};
use super::{Page, Site, To, drawing, pointer};
use crate::dossier::ClassView;
use crate::markup::Markup;

/// Clusters that are shown by typical members.
const MOST_LOOKS: usize = 24;
/// Cells of a table, at most; of more, only those of whole clusters are shown.
const MOST_CELLS: usize = 2200;

pub(super) fn page(site: &Site<'_>, class: &ClassView) -> Page {
    let number = class.class;
    let title = format!("Class {}", site.class_text(number));
    let between = [
        Some(To::Overview),
        number.checked_sub(1).map(To::Class),
        Some(To::Class(number + 1)),
    ];
    page_between(site, To::Class(number), &title, between, |main| {
        crumbs(site, main, &[(To::Class(number), title.clone())]);
        main.tag("h1").holding(|h1| {
            h1.text("Class ");
            site.class_words(h1, number);
        });
        if let Some(name) = class.name.as_ref().filter(|name| name.chars().count() > 60) {
            main.tag("details").holding(|details| {
                details.tag("summary").text("The whole name");
                details
                    .tag("p")
                    .class("whole")
                    .holding(|p| p.tag("bdi").text(name));
            });
        }
        for (suite, found) in site.dossier.suites().iter().enumerate() {
            let Some(coverage) = found.classes.get(number) else {
                continue;
            };
            let at = |field: &str| pointer(&[&"suites", &suite, &"classes", &number, &field]);
            main.tag("p").class("amounts").holding(|line| {
                line.name(&found.name);
                line.text(": ");
                line.tag("strong")
                    .at(at("inputs"))
                    .text(count(coverage.inputs));
                line.text(" inputs where ");
                line.tag("strong")
                    .at(at("expected"))
                    .text(decimals(coverage.expected, 1));
                line.text(" are expected ");
                mark_class(line, coverage);
            });
        }
        main.tag("p").holding(|line| {
            line.text("Training has ");
            line.tag("span")
                .at(pointer(&[&"classes", &number, &"training"]))
                .text(count(class.training as usize));
            line.text(" inputs of it, in ");
            line.tag("span")
                .at(pointer(&[&"classes", &number, &"clusters"]))
                .text(count(class.clusters));
            line.text(if class.clusters == 1 {
                " cluster: inputs that are decided alike."
            } else {
                " clusters: inputs that are decided alike."
            });
        });
        if class.clusters > 0 && !site.dossier.clusters.is_empty() {
            filter(main, "clusters");
            for suite in 0..site.dossier.suites().len() {
                heat(site, main, class, suite);
            }
            if site.has_explorer() {
                main.tag("h2").text("What is typical of its clusters");
                looks(site, main, class);
                main.tag("h2").text("How its clusters are decided");
                drawing::ribbons(site, main, class);
            }
        }
    })
}

/// Typical members of each cluster.
fn looks(site: &Site<'_>, main: &mut Markup, class: &ClassView) {
    let own = class.first_cluster..class.first_cluster + class.clusters;
    let data = (site.dossier.facts.learnt.as_ref()).map_or("", |learnt| learnt.sha256.as_str());
    main.tag("div").class("strips").holding(|strips| {
        for view in site.dossier.clusters[own].iter().take(MOST_LOOKS) {
            let Some(anatomy) = &view.anatomy else {
                continue;
            };
            let items: Vec<Item<'_>> = (anatomy.exemplars.iter().take(4))
                .map(|input| Item {
                    to: Some(To::Cluster(view.cluster)),
                    ..Item::training(data, input)
                })
                .collect();
            let title = format!("cluster {}", view.cluster);
            strip(site, strips, &title, "nothing", false, &items);
        }
    });
}

/// Clusters by layers: the share of covered buckets.
fn heat(site: &Site<'_>, main: &mut Markup, class: &ClassView, suite: usize) {
    let dossier = site.dossier;
    let found = &dossier.suites()[suite];
    let layers = match class.clusters * (dossier.facts.layers.len() + 6) <= MOST_CELLS {
        true => dossier.facts.layers.len(),
        false => 0,
    };
    let own = class.first_cluster..class.first_cluster + class.clusters;
    let mut order: Vec<usize> = own.collect();
    let ratio = |cluster: usize| {
        found
            .clusters
            .get(cluster)
            .map_or(0.0, |c| c.inputs as f64 / c.expected.max(f64::MIN_POSITIVE))
    };
    order.sort_by(|&a, &b| ratio(a).total_cmp(&ratio(b)));
    order.truncate(MOST_CELLS / 12);
    let cells = order
        .iter()
        .flat_map(|&cluster| &dossier.clusters[cluster].covered[suite]);
    let most = cells.copied().max().unwrap_or(0);
    let numbers: Vec<String> = (0..layers).map(|layer| format!("layer {layer}")).collect();
    let mut heads = vec![
        ("cluster", false),
        ("note", false),
        ("inputs", true),
        ("expected", true),
        ("in training", true),
        ("SNPC", true),
    ];
    heads.extend(numbers.iter().map(|layer| (layer.as_str(), true)));
    let caption = match dossier.suites().len() {
        1 => {
            "Covered buckets of SNPC by cluster and layer, least covered clusters first".to_owned()
        }
        _ => format!(
            "{}: covered buckets of SNPC by cluster and layer",
            crate::markup::short(&found.name)
        ),
    };
    table(main, &caption, &heads, |rows| {
        for cluster in order {
            let view = &dossier.clusters[cluster];
            let Some(coverage) = found.clusters.get(cluster) else {
                continue;
            };
            let at = |field: &str| pointer(&[&"suites", &suite, &"clusters", &cluster, &field]);
            let thin = coverage.thin;
            let tag = rows
                .tag("tr")
                .attr("data-row", "")
                .attr("id", format!("cluster-{suite}-{cluster}"));
            tag.attr_if("data-stop", thin.then_some(""))
                .attr_if("tabindex", thin.then_some("-1"))
                .holding(|row| {
                    row.tag("th")
                        .attr("scope", "row")
                        .holding(|cell| site.cluster(cell, cluster));
                    row.tag("td").holding(|cell| mark(cell, thin));
                    row.tag("td")
                        .class("n")
                        .at(at("inputs"))
                        .text(count(coverage.inputs));
                    row.tag("td")
                        .class("n")
                        .at(at("expected"))
                        .text(decimals(coverage.expected, 1));
                    let trained = pointer(&[&"clusters", &cluster, &"training"]);
                    row.tag("td")
                        .class("n")
                        .at(trained)
                        .text(count(view.training as usize));
                    let all: usize = view.covered[suite].iter().sum();
                    let share =
                        |covered: usize, buckets: usize| covered as f64 / buckets.max(1) as f64;
                    let value = share(all, view.buckets * dossier.facts.layers.len());
                    row.tag("td").class("n").text(percent(value));
                    for &covered in view.covered[suite].iter().take(layers) {
                        let value = share(covered, view.buckets);
                        let class = if covered == 0 {
                            "n heat nothing"
                        } else {
                            "n heat"
                        };
                        let tag = row
                            .tag("td")
                            .attr("class", class)
                            .attr("style", format!("--part:{:.2}", share(covered, most)));
                        tag.attr("title", format!("{covered} of {} buckets", view.buckets))
                            .text(format!("{:.0}%", 100.0 * value));
                    }
                });
        }
    });
}
