//! Drawings: how coverage grows, how similarities are spread, which neurons clusters share.

use npcov_report::number::{count, whole_percent};

use super::Site;
use crate::dossier::{ClassView, Similarities};
use crate::markup::Markup;

/// Shapes of a drawing, at most.
const MOST_SHAPES: usize = 1800;

/// Begins a drawing of a size, with words for who does not see it.
fn drawing(
    markup: &mut Markup,
    class: &'static str,
    (width, height): (f64, f64),
    words: &str,
    draw: impl FnOnce(&mut Markup),
) {
    let svg = markup
        .tag("svg")
        .class(class)
        .attr("role", "img")
        .attr("aria-label", words);
    let view = format!("0 0 {width} {height}");
    let svg = svg
        .attr("viewBox", view)
        .attr("width", width.to_string())
        .attr("height", height.to_string());
    svg.holding(draw);
}

/// A small curve of how coverage grows with the inputs of a suite.
pub(super) fn growth(markup: &mut Markup, growth: &[usize]) {
    let Some(&last) = growth.last().filter(|&&last| last > 0) else {
        return;
    };
    let (width, height) = (120.0, 28.0);
    let point = |(i, &covered): (usize, &usize)| {
        let x = (i + 1) as f64 / growth.len() as f64 * width;
        let y = height - 2.0 - covered as f64 / last as f64 * (height - 4.0);
        format!("{x:.1},{y:.1}")
    };
    let mut points = vec![format!("0,{:.1}", height - 2.0)];
    points.extend(growth.iter().enumerate().map(point));
    let half = growth[(growth.len() - 1) / 2] as f64 / last as f64;
    let words = format!(
        "the first half of the inputs covers {} of what all cover",
        whole_percent(half)
    );
    drawing(markup, "growth", (width, height), &words, |svg| {
        svg.tag("polyline")
            .class("line")
            .attr("points", points.join(" "))
            .empty();
    });
}

/// Degrees of similarity: training inputs above, those of suites below; what suites lack is hatched.
pub(super) fn similarities(markup: &mut Markup, found: &Similarities, suite: usize, id: &str) {
    const LEFT: f64 = 90.0;
    let (width, half) = (560.0, 72.0);
    let own = &found.suites[suite];
    let step = width / found.training.len() as f64;
    let largest = |counts: &[usize]| counts.iter().copied().max().unwrap_or(0).max(1);
    let words = "Similarity to the cluster: training inputs above, inputs of the suite below";
    let size = (LEFT + width + 8.0, 2.0 * half + 22.0);
    drawing(markup, "histogram", size, words, |svg| {
        svg.tag("defs").holding(|defs| {
            let pattern = defs.tag("pattern").attr("id", id);
            pattern
                .attr("width", "5")
                .attr("height", "5")
                .attr("patternUnits", "userSpaceOnUse")
                .attr("patternTransform", "rotate(45)")
                .holding(|pattern| {
                    let stripe = pattern.tag("rect").class("stripe");
                    stripe.attr("width", "2").attr("height", "5").empty();
                });
        });
        let mut bar = |class: &'static str, degree: usize, y: f64, height: f64, words: String| {
            svg.tag("rect")
                .class(class)
                .attr("x", format!("{:.1}", LEFT + degree as f64 * step + 1.0))
                .attr("y", format!("{y:.1}"))
                .attr("width", format!("{:.1}", step - 2.0))
                .attr("height", format!("{height:.1}"))
                .attr_if("fill", (class == "lacking").then(|| format!("url(#{id})")))
                .holding(|rect| rect.tag("title").text(words));
        };
        let tall =
            |inputs: usize, most: usize| (inputs as f64 / most as f64 * (half - 4.0)).max(2.0);
        let (most, most_own) = (largest(&found.training), largest(own));
        for (degree, &members) in found.training.iter().enumerate() {
            if members > 0 {
                let height = tall(members, most);
                let class = match own[degree] {
                    0 => "lacking",
                    _ => "training",
                };
                let words = format!("{} training inputs", count(members));
                bar(class, degree, half - height, height, words);
            }
            if own[degree] > 0 {
                let words = format!("{} inputs of the suite", count(own[degree]));
                bar(
                    "suite",
                    degree,
                    half + 2.0,
                    tall(own[degree], most_own),
                    words,
                );
            }
        }
        svg.tag("line")
            .class("axis")
            .attr("x1", LEFT.to_string())
            .attr("x2", (LEFT + width).to_string())
            .attr("y1", format!("{:.0}", half + 1.0))
            .attr("y2", format!("{:.0}", half + 1.0))
            .empty();
        let below = 2.0 * half + 17.0;
        let inputs = |counts: &[usize]| count(counts.iter().sum());
        for (x, y, anchor, class, words) in [
            (
                LEFT,
                below,
                "start",
                "muted",
                "nothing in common".to_owned(),
            ),
            (
                LEFT + width / 2.0,
                below,
                "middle",
                "muted",
                "half".to_owned(),
            ),
            (
                LEFT + width,
                below,
                "end",
                "muted",
                "the same path".to_owned(),
            ),
            (0.0, half - 24.0, "start", "", "training".to_owned()),
            (0.0, half - 9.0, "start", "muted", inputs(&found.training)),
            (0.0, half + 20.0, "start", "", "suite".to_owned()),
            (0.0, half + 35.0, "start", "muted", inputs(own)),
        ] {
            svg.tag("text")
                .attr("class", class)
                .attr("x", format!("{x:.0}"))
                .attr("y", format!("{y:.0}"))
                .attr("text-anchor", anchor)
                .text(words);
        }
    });
}

/// For each cluster of a class and each layer: neurons that it shares with other clusters of the class, that it has
/// alone, and that only others have.
pub(super) fn ribbons(site: &Site<'_>, markup: &mut Markup, class: &ClassView) {
    let layers = site.dossier.facts.layers.len();
    let own = class.first_cluster..class.first_cluster + class.clusters;
    let most = (MOST_SHAPES / (3 * layers.max(1))).max(1);
    let shown: Vec<_> = site.dossier.clusters[own]
        .iter()
        .filter_map(|view| Some((view, view.anatomy.as_ref()?)))
        .take(most)
        .collect();
    if shown.is_empty() {
        return;
    }
    let (left, cell, gap, row) = (
        84.0,
        (960.0 / layers.max(1) as f64).clamp(16.0, 220.0),
        6.0,
        22.0,
    );
    let width = left + layers as f64 * cell;
    let height = 22.0 + shown.len() as f64 * row;
    markup.tag("p").class("legend").text(
        "By cluster and layer: of the neurons that decide for any cluster of the class, those that decide for this one.",
    );
    let words = "By cluster and layer: neurons shared with other clusters of the class, own ones, and missing ones";
    markup
        .tag("div")
        .class("scroll")
        .attr("tabindex", "0")
        .attr("role", "group")
        .attr("aria-label", "Paths of the clusters, drawn")
        .holding(|div| {
            drawing(div, "ribbons", (width, height), words, |svg| {
                for layer in 0..layers {
                    let x = format!("{:.1}", left + (layer as f64 + 0.5) * cell - gap / 2.0);
                    svg.tag("text")
                        .attr("x", x)
                        .attr("y", "12")
                        .attr("text-anchor", "middle")
                        .text(match cell > 60.0 {
                            true => format!("layer {layer}"),
                            false => layer.to_string(),
                        });
                }
                for (i, (view, anatomy)) in shown.iter().enumerate() {
                    let y = 20.0 + i as f64 * row;
                    svg.tag("text")
                        .attr("x", "0")
                        .attr("y", format!("{:.1}", y + 12.0))
                        .text(format!("cluster {}", view.cluster));
                    for (layer, found) in anatomy.layers.iter().enumerate() {
                        let all = (found.path + found.missing).max(1) as f64;
                        let parts = [
                            ("shared", found.shared),
                            ("own", found.path - found.shared),
                            ("missing", found.missing),
                        ];
                        let mut x = left + layer as f64 * cell;
                        for (class, neurons) in
                            parts.into_iter().filter(|(_, neurons)| *neurons > 0)
                        {
                            let width = neurons as f64 / all * (cell - gap);
                            svg.tag("rect")
                                .class(class)
                                .attr("x", format!("{x:.1}"))
                                .attr("y", format!("{y:.1}"))
                                .attr("width", format!("{width:.1}"))
                                .attr("height", "15")
                                .empty();
                            x += width;
                        }
                    }
                }
            });
        });
    markup.tag("p").class("legend").holding(|legend| {
        for (class, words) in [
            ("key shared", "shared with other clusters of the class"),
            ("key own", "its own"),
            ("key missing", "only others have them"),
        ] {
            legend.tag("span").class(class).text("");
            legend.text(&format!(" {words}  "));
        }
    });
    if class.clusters > shown.len() {
        let more = count(class.clusters - shown.len());
        markup
            .tag("p")
            .text(format!("and {more} more clusters, in the table above"));
    }
}
