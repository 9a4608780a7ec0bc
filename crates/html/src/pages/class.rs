//! A class: its clusters and layers, what is covered of them, and how their paths differ.

use npcov_report::number::{count, decimals, whole_percent};

use super::classes::{mark, mark_class};
use super::frame::{crumbs, filter, page_between, table};
use super::sights::{Item, tiny};
use super::{Page, Site, To, drawing, pointer};
use crate::dossier::{ClassView, ClusterView};
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
        crumbs(site, main, &[(To::Class(number), site.class_text(number))]);
        main.tag("h1").holding(|h1| {
            site.class_words(h1, number);
            if class.name.as_ref().is_some_and(|name| !name.is_empty()) {
                h1.tag("span").class("id").text(format!(" class {number}"));
            }
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
        main.tag("p").class("headline").holding(|line| {
            for suite in 0..site.dossier.suites().len() {
                has(site, line, suite, number);
            }
            line.text("Training has ");
            line.tag("span")
                .at(pointer(&[&"classes", &number, &"training"]))
                .text(count(class.training as usize));
            line.text(" that are classified so, in ");
            line.tag("span")
                .at(pointer(&[&"classes", &number, &"clusters"]))
                .text(count(class.clusters));
            line.text(if class.clusters == 1 {
                " cluster of inputs that are decided alike."
            } else {
                " clusters of inputs that are decided alike."
            });
        });
        if class.clusters > 0 && !site.dossier.clusters.is_empty() {
            filter(main, "clusters");
            for suite in 0..site.dossier.suites().len() {
                main.tag("section").class("panel").holding(|panel| {
                    heat(site, panel, class, suite);
                });
            }
            if site.has_explorer() {
                main.tag("section").class("panel").holding(|panel| {
                    panel.tag("h2").text("Which neurons decide");
                    drawing::ribbons(site, panel, class);
                });
            }
        }
    })
}

/// How many inputs of a class a suite has.
fn has(site: &Site<'_>, line: &mut Markup, suite: usize, class: usize) {
    let found = &site.dossier.suites()[suite];
    let Some(coverage) = found.classes.get(class) else {
        return;
    };
    let at = |field: &str| pointer(&[&"suites", &suite, &"classes", &class, &field]);
    match site.dossier.suites().len() {
        1 => line.text("The suite"),
        _ => line.name(&found.name),
    }
    line.text(" has ");
    line.tag("strong")
        .at(at("inputs"))
        .text(count(coverage.inputs));
    line.text(if coverage.inputs == 1 {
        " input where "
    } else {
        " inputs where "
    });
    line.tag("strong")
        .at(at("expected"))
        .text(decimals(coverage.expected, 1));
    line.text(" are expected");
    if coverage.thin || coverage.is_thin_by_label_alone() {
        line.text(" ");
        mark_class(line, coverage);
    }
    line.text(". ");
}

/// Clusters by layers: the share of covered buckets.
fn heat(site: &Site<'_>, main: &mut Markup, class: &ClassView, suite: usize) {
    let dossier = site.dossier;
    let found = &dossier.suites()[suite];
    let layers = match class.clusters * (dossier.facts.layers.len() + 8) <= MOST_CELLS {
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
    order.truncate(MOST_CELLS / 16);
    let of_training = order.iter().all(|&c| dossier.clusters[c].reached.is_some());
    main.tag("h2").text(super::headline::suite_words(
        site,
        "clusters, the least tested first",
        suite,
    ));
    let drawn = order.iter().any(|&c| dossier.clusters[c].anatomy.is_some());
    let numbers: Vec<String> = (0..layers).map(|layer| format!("layer {layer}")).collect();
    let mut heads = vec![("cluster", false)];
    if drawn {
        heads.push(("typical", false));
    }
    heads.extend([
        ("note", false),
        ("inputs", true),
        ("expected", true),
        ("of expected", true),
        ("in training", true),
        ("covered", true),
    ]);
    heads.extend(numbers.iter().map(|layer| (layer.as_str(), true)));
    let caption = "Covered by cluster and layer, least tested clusters first";
    table(main, caption, &heads, |rows| {
        for (i, cluster) in order.into_iter().enumerate() {
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
                    if drawn {
                        row.tag("td").holding(|cell| {
                            if i < MOST_LOOKS {
                                typical(site, cell, view, 4);
                            }
                        });
                    }
                    row.tag("td").holding(|cell| mark(cell, thin));
                    super::classes::amounts(row, coverage.inputs, coverage.expected, thin, &at);
                    let trained = pointer(&[&"clusters", &cluster, &"training"]);
                    row.tag("td")
                        .class("n")
                        .at(trained)
                        .text(count(view.training as usize));
                    let (value, _) = covered(view, suite);
                    row.tag("td").class("n").text(whole_percent(value));
                    for (layer, &covered) in view.covered[suite].iter().enumerate().take(layers) {
                        cell(row, view, (suite, layer), covered);
                    }
                });
        }
    });
    main.tag("p").class("legend").text(match of_training {
        true => {
            "Covered: inputs of a class are more or less similar to each of its clusters, layer by layer. Of a hundred \
             degrees of similarity, those that the suite shows, as a part of those that the training data shows (SNPC)."
        }
        false => {
            "Covered: inputs of a class are more or less similar to each of its clusters, layer by layer. The degrees of \
             similarity that the suite shows, of all that there are (SNPC); most are out of reach."
        }
    });
}

/// What a suite covers of a cluster: as a part of what training covers, or of everything where that is not known.
pub(super) fn covered(view: &ClusterView, suite: usize) -> (f64, usize) {
    let own: usize = view.covered[suite].iter().sum();
    let all = match &view.reached {
        Some(reached) => reached.iter().sum(),
        None => view.buckets * view.covered[suite].len(),
    };
    (own as f64 / all.max(1) as f64, all)
}

/// The share that is covered in a layer, as a number and as a colour.
fn cell(row: &mut Markup, view: &ClusterView, (suite, layer): (usize, usize), covered: usize) {
    let all = view.reached.as_ref().map_or(view.buckets, |r| r[layer]);
    if all == 0 {
        // Neither training nor anything else can cover it: no neuron is common to the members.
        row.tag("td").class("n").text("–");
        return;
    }
    let value = covered as f64 / all as f64;
    let class = match covered {
        0 => "n heat nothing",
        _ => "n heat",
    };
    let own = pointer(&[&"clusters", &view.cluster, &"covered", &suite, &layer]);
    let of = match view.reached {
        Some(_) => pointer(&[&"clusters", &view.cluster, &"reached", &layer]),
        None => pointer(&[&"clusters", &view.cluster, &"buckets"]),
    };
    let tag = row.tag("td").attr("class", class);
    tag.attr("style", format!("--part:{:.2}", value.clamp(0.0, 1.0)))
        .attr("title", format!("{covered} of {all} degrees of similarity"))
        .attr("data-ratio", format!("{own} {of}"))
        .text(whole_percent(value));
}

/// Pictures of typical members of a cluster.
pub(super) fn typical(site: &Site<'_>, cell: &mut Markup, view: &ClusterView, most: usize) {
    let data = (site.dossier.facts.learnt.as_ref()).map_or("", |learnt| learnt.sha256.as_str());
    let Some(anatomy) = &view.anatomy else {
        return;
    };
    let items: Vec<Item<'_>> = (anatomy.exemplars.iter().take(most))
        .map(|input| Item::training(data, input))
        .collect();
    tiny(site, cell, &items);
}
