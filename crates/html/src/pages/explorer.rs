//! The decision graph: a map of all clusters, and the paths of two of them side by side.

use npcov_report::number::{count, decimals, percent, whole_percent};
use serde::Serialize;

use super::class::{covered, typical};
use super::classes::{amounts, mark};
use super::frame::{self, table};
use super::{Page, Site, To, pointer};
use crate::dossier::ClusterView;
use crate::map::{self, Circle};
use crate::markup::Markup;
use crate::pages::sights;

/// Classes whose names are listed.
const MOST_NAMED: usize = 40;
/// Clusters in the table.
const MOST_ROWS: usize = 120;
/// Clusters in it that are shown by typical members.
const MOST_LOOKS: usize = 80;
/// Bytes of paths that the page holds for comparing.
const MOST_PATHS: usize = 1 << 20;
/// Pixels of the map.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 520.0;

/// What the script needs to compare clusters.
#[derive(Serialize)]
struct Compared<'d> {
    layers: Vec<(String, usize)>,
    clusters: Vec<(usize, String, Vec<&'d str>)>,
}

pub(super) fn page(site: &Site<'_>) -> Page {
    frame::page_between(
        site,
        To::Explorer,
        "Explorer",
        [Some(To::Overview), None, None],
        |main| {
            main.tag("h1").text("How the model decides");
            main.tag("p").class("headline").text(
                "Each circle is a cluster: training inputs of one class that the model decides alike. The nearer two \
                 circles are, the more neurons decide both. The larger one is, the more training inputs it has.",
            );
            main.tag("section")
                .class("panel")
                .attr("aria-label", "Map")
                .holding(|panel| {
                    map(site, panel);
                    legend(site, panel);
                    panel
                        .tag("div")
                        .attr("id", "seen")
                        .attr("role", "status")
                        .attr("hidden", "")
                        .text("");
                });
            compare(site, main);
            main.tag("section")
                .class("panel")
                .attr("aria-labelledby", "clusters")
                .holding(|panel| {
                    panel
                        .tag("h2")
                        .attr("id", "clusters")
                        .text("All clusters, the least tested first");
                    frame::filter(panel, "clusters");
                    list(site, panel);
                });
        },
    )
}

/// What the signs of the map mean, and the numbers of classes.
fn legend(site: &Site<'_>, panel: &mut Markup) {
    panel.tag("p").class("legend").holding(|legend| {
        for (class, words) in [
            ("key ring", "covered, of what training covers of it"),
            (
                "key hatched",
                "▲ thin: far fewer inputs than training lets expect",
            ),
        ] {
            legend.tag("span").attr("class", class).text("");
            legend.text(&format!(" {words} "));
        }
    });
    let named = site
        .dossier
        .classes
        .iter()
        .filter(|class| class.name.is_some());
    if named.clone().count() > 0 && site.dossier.classes.len() <= MOST_NAMED {
        panel.tag("p").class("legend").holding(|legend| {
            legend.text("Numbers are classes:");
            for class in named {
                legend.text(" ");
                legend.tag("b").text(class.class.to_string());
                legend.text(" ");
                site.class(legend, class.class);
            }
        });
    }
}

/// The share that suites cover of a cluster, the best of them.
fn best_covered(view: &ClusterView) -> f64 {
    let suites = 0..view.covered.len();
    suites
        .map(|suite| covered(view, suite).0)
        .fold(0.0, f64::max)
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
    // Many circles are small ones.
    let crowd = (40.0 / points.len().max(1) as f64).sqrt().clamp(0.35, 1.0);
    let mut circles: Vec<Circle> = (points.iter())
        .map(|(view, (x, y))| Circle {
            x: scale(*x, left, right, WIDTH),
            y: scale(*y, low, high, HEIGHT),
            radius: crowd * (8.0 + 18.0 * (view.training as f64 / most).sqrt()),
        })
        .collect();
    map::part(&mut circles, WIDTH, HEIGHT);
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
            for ((view, _), &Circle { x, y, radius }) in points.iter().zip(&circles) {
                let thin = is_thin(site, view.cluster);
                let share = best_covered(view).min(1.0);
                let suites = site.dossier.suites().iter();
                let counts: Vec<String> = suites
                    .filter_map(|suite| suite.clusters.get(view.cluster))
                    .map(|c| {
                        format!(
                            "{} of {} expected",
                            count(c.inputs),
                            decimals(c.expected, 1)
                        )
                    })
                    .collect();
                let label = format!(
                    "Cluster {} of {}: {} training inputs; in the suite {}{}",
                    view.cluster,
                    site.class_text(view.class),
                    count(view.training as usize),
                    counts.join(", "),
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
            // The script shows it: what would be obeyed is spelt out here.
            let name = format!("{} · {}", view.cluster, site.class_text(view.class));
            let name = npcov_report::visible(&name);
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
    main.tag("section").class("panel").attr("id", "compare").attr("hidden", "").attr("aria-labelledby", "compare-title").holding(|section| {
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
        .map(|layer| (npcov_report::visible(&layer.name), layer.neurons));
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
    let several = site.dossier.suites().len() > 1;
    let mut heads = vec![
        ("cluster", false),
        ("class", false),
        ("typical", false),
        ("note", false),
        ("in training", true),
    ];
    match several {
        true => heads.push(("in the suites", true)),
        false => heads.extend([("inputs", true), ("expected", true), ("of expected", true)]),
    }
    heads.extend([("covered", true), ("width of its path", true)]);
    table(main, "Clusters, the least tested first", &heads, |rows| {
        for (place, cluster) in order.into_iter().enumerate() {
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
                    row.tag("td").holding(|cell| {
                        if place < MOST_LOOKS {
                            typical(site, cell, view, 3);
                        }
                    });
                    row.tag("td").holding(|cell| mark(cell, thin));
                    let at = pointer(&[&"clusters", &cluster, &"training"]);
                    row.tag("td")
                        .class("n")
                        .at(at)
                        .text(count(view.training as usize));
                    let suites = site.dossier.suites();
                    match several {
                        true => {
                            let counts = suites.iter().filter_map(|s| s.clusters.get(cluster));
                            let counts: Vec<String> = counts.map(|c| count(c.inputs)).collect();
                            row.tag("td").class("n").text(counts.join(", "));
                        }
                        false => {
                            if let Some(c) = suites.first().and_then(|s| s.clusters.get(cluster)) {
                                let at = |field: &str| {
                                    pointer(&[&"suites", &0, &"clusters", &cluster, &field])
                                };
                                amounts(row, c.inputs, c.expected, thin, &at);
                            }
                        }
                    }
                    row.tag("td")
                        .class("n")
                        .text(whole_percent(best_covered(view)));
                    let width = view.anatomy.as_ref().map_or(0.0, |anatomy| anatomy.width);
                    let at = pointer(&[&"clusters", &cluster, &"anatomy", &"width"]);
                    row.tag("td").class("n").at(at).text(percent(width));
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
