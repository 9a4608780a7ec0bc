//! Drawings: how coverage grows, how similarities are spread, which neurons clusters share.

use npcov_report::number::count;

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
        "the first half of the inputs covers {:.0}% of what all cover",
        100.0 * half
    );
    drawing(markup, "growth", (width, height), &words, |svg| {
        svg.tag("polyline")
            .class("line")
            .attr("points", points.join(" "))
            .empty();
    });
}

/// Degrees of similarity: training inputs above, those of suites below; what suites lack is hatched.
pub(super) fn similarities(markup: &mut Markup, found: &Similarities, suite: usize) {
    let (width, half) = (400.0, 60.0);
    let own = &found.suites[suite];
    let step = width / found.training.len() as f64;
    let largest = |counts: &[usize]| counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let words = "Similarity of paths to that of the cluster: training inputs above, inputs of the suite below";
    drawing(
        markup,
        "histogram",
        (width, 2.0 * half + 18.0),
        words,
        |svg| {
            let mut bar = |class: &'static str, degree: usize, y: f64, height: f64| {
                svg.tag("rect")
                    .class(class)
                    .attr("x", format!("{:.1}", degree as f64 * step + 1.0))
                    .attr("y", format!("{y:.1}"))
                    .attr("width", format!("{:.1}", step - 2.0))
                    .attr("height", format!("{height:.1}"))
                    .empty();
            };
            let most = largest(&found.training);
            for (degree, &members) in found
                .training
                .iter()
                .enumerate()
                .filter(|(_, members)| **members > 0)
            {
                let height = (members as f64 / most * (half - 2.0)).max(1.5);
                let class = if own[degree] == 0 {
                    "lacking"
                } else {
                    "training"
                };
                bar(class, degree, half - height, height);
            }
            let most = largest(own);
            for (degree, &inputs) in own.iter().enumerate().filter(|(_, inputs)| **inputs > 0) {
                bar(
                    "suite",
                    degree,
                    half + 2.0,
                    (inputs as f64 / most * (half - 2.0)).max(1.5),
                );
            }
            svg.tag("line")
                .class("axis")
                .attr("x1", "0")
                .attr("x2", width.to_string())
                .attr("y1", format!("{:.0}", half + 1.0))
                .attr("y2", format!("{:.0}", half + 1.0))
                .empty();
            let y = format!("{:.0}", 2.0 * half + 15.0);
            for (x, anchor, words) in [
                (0.0, "start", "0 nothing shared"),
                (width / 2.0, "middle", "0.5"),
                (width, "end", "1 the same"),
            ] {
                svg.tag("text")
                    .attr("x", format!("{x:.0}"))
                    .attr("y", &y)
                    .attr("text-anchor", anchor)
                    .text(words);
            }
        },
    );
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
        74.0,
        (820.0 / layers.max(1) as f64).clamp(14.0, 110.0),
        4.0,
        20.0,
    );
    let width = left + layers as f64 * cell;
    let height = 22.0 + shown.len() as f64 * row;
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
                        .text(layer.to_string());
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
