//! The decision graph: a map of all clusters, and the paths of two of them side by side.

use npcov_report::number::{count, decimals, percent};
use serde::Serialize;

use super::classes::mark;
use super::frame::{self, table};
use super::{Page, Site, To, pointer};
use crate::dossier::ClusterView;
use crate::markup::Markup;
use crate::pages::sights;

/// Clusters in the table.
const MOST_ROWS: usize = 150;
/// Bytes of paths that the page holds for comparing.
const MOST_PATHS: usize = 1 << 20;
/// Pixels of the map.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 520.0;

/// What the script needs to compare clusters.
#[derive(Serialize)]
struct Compared<'d> {
    layers: Vec<(&'d str, usize)>,
    clusters: Vec<(usize, String, Vec<&'d str>)>,
}

pub(super) fn page(site: &Site<'_>) -> Page {
    frame::page_between(
        site,
        To::Explorer,
        "Explorer",
        [Some(To::Overview), None, None],
        |main| {
            main.tag("h1").text("Decision graph");
            main.tag("p").text(
            "Each circle is a cluster: training inputs of a class that are decided alike. The nearer two are, the more \
             neurons their paths share. The larger a circle, the more inputs; its number is the class. The blue part of \
             the ring is the share of the most covered cluster's SNPC that the suite covers; a hatched circle with ▲ is thin.",
        );
            map(site, main);
            main.tag("div")
                .attr("id", "seen")
                .attr("role", "status")
                .attr("hidden", "")
                .text("");
            compare(site, main);
            main.tag("h2").text("Clusters");
            frame::filter(main, "clusters");
            list(site, main);
        },
    )
}

/// The share of buckets that suites cover of a cluster, the best of them.
fn covered(view: &ClusterView) -> f64 {
    let of_suite = |layers: &Vec<usize>| {
        layers.iter().sum::<usize>() as f64 / (view.buckets * layers.len()).max(1) as f64
    };
    view.covered.iter().map(of_suite).fold(0.0, f64::max)
}

fn is_thin(site: &Site<'_>, cluster: usize) -> bool {
    let mut suites = site.dossier.suites().iter();
    suites.any(|suite| {
        suite
            .clusters
            .get(cluster)
            .is_some_and(|cluster| cluster.thin)
    })
}

fn map(site: &Site<'_>, main: &mut Markup) {
    let points: Vec<(&ClusterView, (f64, f64))> = (site.dossier.clusters.iter())
        .filter_map(|view| Some((view, view.anatomy.as_ref()?.place?)))
        .collect();
    let extent = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let fold = |(low, high): (f64, f64), x: f64| (low.min(x), high.max(x));
        points
            .iter()
            .map(|(_, place)| of(place))
            .fold((f64::INFINITY, f64::NEG_INFINITY), fold)
    };
    let ((left, right), (low, high)) = (extent(&|p| p.0), extent(&|p| p.1));
    let margin = 34.0;
    let scale = |value: f64, low: f64, high: f64, room: f64| match high > low {
        true => margin + (value - low) / (high - low) * (room - 2.0 * margin),
        false => room / 2.0,
    };
    let most = points
        .iter()
        .map(|(view, _)| view.training)
        .max()
        .unwrap_or(1)
        .max(1) as f64;
    let best = points
        .iter()
        .map(|(view, _)| covered(view))
        .fold(0.0, f64::max)
        .max(f64::MIN_POSITIVE);
    // Many circles are small ones.
    let crowd = (30.0 / points.len().max(1) as f64).sqrt().clamp(0.35, 1.0);
    let words = "Map of the clusters; the table below lists them";
    let svg = main
        .tag("svg")
        .class("map")
        .attr("role", "group")
        .attr("aria-label", words);
    svg.attr("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
        .attr("width", "100%")
        .holding(|svg| {
            svg.tag("defs").holding(|defs| {
                defs.tag("pattern")
                    .attr("id", "hatch")
                    .attr("width", "5")
                    .attr("height", "5")
                    .attr("patternUnits", "userSpaceOnUse")
                    .attr("patternTransform", "rotate(45)")
                    .holding(|pattern| {
                        pattern
                            .tag("rect")
                            .class("hatch")
                            .attr("width", "2")
                            .attr("height", "5")
                            .empty();
                    });
            });
            for (view, (x, y)) in &points {
                let (x, y) = (scale(*x, left, right, WIDTH), scale(*y, low, high, HEIGHT));
                let radius = crowd * (6.0 + 20.0 * (view.training as f64 / most).sqrt());
                let thin = is_thin(site, view.cluster);
                let share = covered(view) / best;
                let label = format!(
                    "cluster {} of class {}: {} training inputs{}",
                    view.cluster,
                    site.class_text(view.class),
                    count(view.training as usize),
                    if thin { ", thin" } else { "" }
                );
                let draw = |point: &mut Markup| {
                    point.tag("title").text(&label);
                    let class = if thin { "point thin" } else { "point" };
                    let at = |tag: crate::markup::Tag<'_>, radius: f64| {
                        tag.attr("cx", format!("{x:.1}"))
                            .attr("cy", format!("{y:.1}"))
                            .attr("r", format!("{radius:.1}"))
                            .empty();
                    };
                    at(point.tag("circle").attr("class", class), radius);
                    // A ring of this length is drawn from the top, clockwise.
                    let length = 2.0 * std::f64::consts::PI * radius;
                    let dash = format!("{:.1} {length:.1}", length * share);
                    let turn = format!("rotate(-90 {x:.1} {y:.1})");
                    at(
                        point
                            .tag("circle")
                            .class("ring")
                            .attr("stroke-dasharray", dash)
                            .attr("transform", turn),
                        radius,
                    );
                    let number = if thin {
                        format!("▲{}", view.class)
                    } else {
                        view.class.to_string()
                    };
                    point
                        .tag("text")
                        .attr("x", format!("{x:.1}"))
                        .attr("y", format!("{:.1}", y + 4.0))
                        .attr("text-anchor", "middle")
                        .text(number);
                };
                let shown = pictures(site, view);
                match site.address(To::Cluster(view.cluster)) {
                    Some(address) => {
                        let tag = svg
                            .tag("a")
                            .attr("href", address)
                            .attr("data-cluster", view.cluster.to_string());
                        tag.attr_if("data-pictures", shown).holding(draw);
                    }
                    None => svg.tag("g").holding(draw),
                }
            }
        });
}

/// The pictures of a cluster's typical members.
fn pictures(site: &Site<'_>, view: &ClusterView) -> Option<String> {
    let digest = &site.dossier.facts.learnt.as_ref()?.sha256;
    let files: Vec<String> = (view.anatomy.as_ref()?.exemplars.iter())
        .filter_map(|input| {
            let picture = site.dossier.pictures.get(digest, input.input)?;
            (!sights::files(picture).is_empty())
                .then(|| format!("pictures/{}", sights::name(picture, "")))
        })
        .take(5)
        .collect();
    (!files.is_empty()).then(|| files.join(" "))
}

/// Two clusters side by side; the script fills it in.
fn compare(site: &Site<'_>, main: &mut Markup) {
    let clusters: Vec<(usize, String, Vec<&str>)> = (site.dossier.clusters.iter())
        .filter_map(|view| {
            let anatomy = view.anatomy.as_ref()?;
            let name = format!("{} · class {}", view.cluster, site.class_text(view.class));
            Some((
                view.cluster,
                name,
                anatomy
                    .layers
                    .iter()
                    .map(|layer| layer.bits.as_str())
                    .collect(),
            ))
        })
        .collect();
    let bytes: usize = clusters
        .iter()
        .flat_map(|(_, _, layers)| layers)
        .map(|bits| bits.len())
        .sum();
    if bytes > MOST_PATHS || clusters.len() < 2 {
        return;
    }
    main.tag("section").attr("id", "compare").attr("hidden", "").attr("aria-labelledby", "compare-title").holding(|section| {
        section.tag("h2").attr("id", "compare-title").text("Two paths side by side");
        section.tag("p").holding(|line| {
            line.tag("label").holding(|label| {
                label.text("First ");
                label.tag("select").attr("id", "first").text("");
            });
            line.text(" ");
            line.tag("label").holding(|label| {
                label.text("Second ");
                label.tag("select").attr("id", "second").text("");
            });
        });
        table(section, "Neurons by layer", &[("layer", false), ("both", true), ("only first", true), ("only second", true), ("similarity", true), ("drawn", false)], |rows| {
            rows.tag("tr").holding(|row| row.tag("td").attr("colspan", "6").text("Choose two clusters."));
        });
        section.tag("p").class("legend").text(
            "A cell is a neuron, or several where a layer has more than 256. Upper row: the first path, lower row: the \
             second. Blue where they agree, orange where only one has it.",
        );
    });
    let layers = site
        .dossier
        .facts
        .layers
        .iter()
        .map(|layer| (layer.name.as_str(), layer.neurons));
    main.data(
        "paths",
        &Compared {
            layers: layers.collect(),
            clusters,
        },
    );
}

fn list(site: &Site<'_>, main: &mut Markup) {
    let mut order: Vec<usize> = (0..site.dossier.clusters.len()).collect();
    order.sort_by_key(|&cluster| super::need(site.dossier, cluster));
    let more = order.len().saturating_sub(MOST_ROWS);
    order.truncate(MOST_ROWS);
    let heads = [
        ("cluster", false),
        ("class", false),
        ("note", false),
        ("in training", true),
        ("in the suites", true),
        ("width", true),
        ("SNPC", true),
    ];
    table(main, "Clusters, those in need first", &heads, |rows| {
        for cluster in order {
            let view = &site.dossier.clusters[cluster];
            let thin = is_thin(site, cluster);
            let tag = rows
                .tag("tr")
                .attr("data-row", "")
                .attr_if("data-stop", thin.then_some(""));
            tag.attr_if("tabindex", thin.then_some("-1"))
                .holding(|row| {
                    row.tag("th")
                        .attr("scope", "row")
                        .holding(|cell| site.cluster(cell, cluster));
                    row.tag("td").holding(|cell| site.class(cell, view.class));
                    row.tag("td").holding(|cell| mark(cell, thin));
                    let at = pointer(&[&"clusters", &cluster, &"training"]);
                    row.tag("td")
                        .class("n")
                        .at(at)
                        .text(count(view.training as usize));
                    let counts = site
                        .dossier
                        .suites()
                        .iter()
                        .filter_map(|suite| suite.clusters.get(cluster));
                    let counts: Vec<String> = counts.map(|c| count(c.inputs)).collect();
                    row.tag("td").class("n").text(counts.join(", "));
                    let width = view.anatomy.as_ref().map_or(0.0, |anatomy| anatomy.width);
                    let at = pointer(&[&"clusters", &cluster, &"anatomy", &"width"]);
                    row.tag("td").class("n").at(at).text(percent(width));
                    row.tag("td")
                        .class("n")
                        .text(format!("{}%", decimals(100.0 * covered(view), 1)));
                });
        }
    });
    if more > 0 {
        main.tag("p").text(format!(
            "and {} more, on the pages of their classes",
            count(more)
        ));
    }
}
