//! A cluster: what it looks like, what suites have of it, and what is missing.

use npcov::paths::bits;
use npcov_report::number::{count, decimals, four_digits, percent, share};

use super::classes::mark;
use super::frame::{crumbs, page_between, table};
use super::sights::{self, Item, strip};
use super::{Page, Site, To, drawing, pointer};
use crate::dossier::{Anatomy, ClusterView, Training};
use crate::markup::Markup;
use crate::raster::Strip;

/// Layers that are drawn.
const MOST_LAYERS: usize = 80;

pub(super) fn title(site: &Site<'_>, view: &ClusterView, markup: &mut Markup) {
    markup.text(&format!("Cluster {} of class ", view.cluster));
    site.class_words(markup, view.class);
}

pub(super) fn page(site: &Site<'_>, view: &ClusterView) -> Page {
    let words = format!("Cluster {}", view.cluster);
    let class = To::Class(view.class);
    let near = |cluster: Option<usize>| cluster.map(To::Cluster);
    let between = [
        Some(class),
        near(view.cluster.checked_sub(1)),
        near(Some(view.cluster + 1)),
    ];
    page_between(site, To::Cluster(view.cluster), &words, between, |main| {
        let class_words = format!("Class {}", site.class_text(view.class));
        crumbs(
            site,
            main,
            &[
                (class, class_words),
                (To::Cluster(view.cluster), words.clone()),
            ],
        );
        main.tag("h1").holding(|h1| title(site, view, h1));
        content(site, view, main);
    })
}

pub(super) fn content(site: &Site<'_>, view: &ClusterView, main: &mut Markup) {
    counts(site, view, main);
    if let Some(anatomy) = &view.anatomy {
        members(site, view, anatomy, main);
    }
    for suite in 0..view.inputs.len() {
        let found = &site.dossier.suites()[suite];
        let items: Vec<Item<'_>> = (view.inputs[suite].iter())
            .map(|&place| Item::of_suite(site, suite, place))
            .collect();
        let title = match view.inputs.len() {
            1 => "In the suite, the most familiar first".to_owned(),
            _ => format!(
                "In {}, the most familiar first",
                crate::markup::short(&found.name)
            ),
        };
        strip(site, main, &title, "nothing of it", false, &items);
    }
    if let (Some(found), Some(anatomy)) = (&view.similarities, &view.anatomy) {
        for suite in 0..found.suites.len() {
            main.tag(heading(site)).holding(|h3| {
                h3.text("How similar paths are to that of the cluster");
                if found.suites.len() > 1 {
                    h3.text(": ");
                    h3.name(&site.dossier.suites()[suite].name);
                }
            });
            drawing::similarities(main, found, suite);
        }
        main.tag("p").class("legend").text(
            "Above: training inputs; hatched where the suite has none. Below: inputs of the suite. From left, \
             paths that share nothing with that of the cluster, to right, paths that are the same.",
        );
        main.tag("details").holding(|details| {
            details.tag("summary").text("The same as numbers");
            similarity_table(site, view, details);
        });
        let hints: Vec<Item<'_>> = anatomy
            .hints
            .iter()
            .map(|input| item(site, input, "similarity", None))
            .collect();
        if !hints.is_empty() {
            strip(
                site,
                main,
                "Worth trying: training inputs as similar as no input of the suite",
                "",
                false,
                &hints,
            );
        }
    }
    if let Some(anatomy) = &view.anatomy {
        path(site, view, anatomy, main);
    }
}

fn item<'d>(site: &Site<'d>, input: &'d Training, words: &str, at: Option<String>) -> Item<'d> {
    let data = site
        .dossier
        .facts
        .learnt
        .as_ref()
        .map_or("", |learnt| learnt.sha256.as_str());
    Item {
        note: Some(format!("{words} {}", decimals(input.value, 2))),
        at,
        ..Item::training(data, input)
    }
}

fn counts(site: &Site<'_>, view: &ClusterView, main: &mut Markup) {
    let heads = [
        ("suite", false),
        ("note", false),
        ("inputs", true),
        ("expected", true),
        ("p", true),
        ("enough", true),
        ("wrong", true),
        ("SNPC", true),
    ];
    table(main, "Inputs of the cluster", &heads, |rows| {
        for (suite, found) in site.dossier.suites().iter().enumerate() {
            let Some(coverage) = found.clusters.get(view.cluster) else {
                continue;
            };
            let at =
                |field: &str| pointer(&[&"suites", &suite, &"clusters", &view.cluster, &field]);
            rows.tag("tr").holding(|row| {
                row.tag("th").attr("scope", "row").name(&found.name);
                row.tag("td").holding(|cell| mark(cell, coverage.thin));
                row.tag("td")
                    .class("n")
                    .at(at("inputs"))
                    .text(count(coverage.inputs));
                row.tag("td")
                    .class("n")
                    .at(at("expected"))
                    .text(decimals(coverage.expected, 1));
                row.tag("td")
                    .class("n")
                    .at(at("p"))
                    .text(four_digits(coverage.p));
                match coverage.enough {
                    Some(enough) => row
                        .tag("td")
                        .class("n")
                        .at(at("enough"))
                        .text(count(enough as usize)),
                    None => row.tag("td").class("n").text("–"),
                }
                match view.wrong[suite] {
                    Some(wrong) => {
                        let at = pointer(&[&"clusters", &view.cluster, &"wrong", &suite]);
                        row.tag("td").class("n").at(at).text(count(wrong));
                    }
                    None => row.tag("td").class("n").text("–"),
                }
                let all: usize = view.covered[suite].iter().sum();
                let value = all as f64 / (view.buckets * view.covered[suite].len()).max(1) as f64;
                row.tag("td").class("n").text(percent(value));
            });
        }
    });
    main.tag("p").class("legend").text(
        "Expected: of as many inputs of the class, if the cluster were as frequent as in training. Enough: with so many \
         inputs of the class, a cluster without any is a gap. Wrong: not classified as labelled.",
    );
}

fn members(site: &Site<'_>, view: &ClusterView, anatomy: &Anatomy, main: &mut Markup) {
    let at = |field: &str| pointer(&[&"clusters", &view.cluster, &"anatomy", &field]);
    main.tag("p").holding(|line| {
        line.text("Training has ");
        line.tag("span")
            .at(pointer(&[&"clusters", &view.cluster, &"training"]))
            .text(count(view.training as usize));
        line.text(" inputs of it. Its path is ");
        line.tag("span")
            .at(at("width"))
            .text(percent(anatomy.width));
        line.text(" of the neurons wide. ");
        if !anatomy.labels.is_empty() {
            line.text("Labels of its members: ");
            for (i, &(label, inputs)) in anatomy.labels.iter().enumerate() {
                if i > 0 {
                    line.text(", ");
                }
                line.text(&format!("{} (", site.label_text(label)));
                let at = pointer(&[&"clusters", &view.cluster, &"anatomy", &"labels", &i, &1]);
                line.tag("span").at(at).text(count(inputs));
                line.text(")");
            }
            line.text(". ");
        }
        if !anatomy.similar.is_empty() {
            line.text("Most similar: ");
            for (i, &(other, similarity)) in anatomy.similar.iter().enumerate() {
                if i > 0 {
                    line.text(", ");
                }
                site.cluster(line, other);
                line.text(" of class ");
                site.class_words(line, site.dossier.clusters[other].class);
                line.text(" (");
                let at = pointer(&[&"clusters", &view.cluster, &"anatomy", &"similar", &i, &1]);
                line.tag("span").at(at).text(share(similarity));
                line.text(")");
            }
            line.text(".");
        }
    });
    let items = |inputs: &[Training], name: &str| -> Vec<(String, usize)> {
        (0..inputs.len())
            .map(|i| {
                (
                    pointer(&[&"clusters", &view.cluster, &"anatomy", &name, &i, &"value"]),
                    i,
                )
            })
            .collect()
    };
    let shown = |inputs: &'_ [Training], name: &str| -> Vec<(Option<String>, usize)> {
        items(inputs, name)
            .into_iter()
            .map(|(at, i)| (Some(at), i))
            .collect()
    };
    let list = |found: Vec<(Option<String>, usize)>, inputs| -> Vec<Item<'_>> {
        let inputs: &[Training] = inputs;
        found
            .into_iter()
            .map(|(at, i)| item(site, &inputs[i], "distance", at))
            .collect()
    };
    let typical = list(shown(&anatomy.exemplars, "exemplars"), &anatomy.exemplars);
    strip(
        site,
        main,
        "Typical in training, with what decided",
        "nothing",
        true,
        &typical,
    );
    let far = list(shown(&anatomy.outliers, "outliers"), &anatomy.outliers);
    strip(site, main, "Least typical members", "nothing", false, &far);
}

fn similarity_table(site: &Site<'_>, view: &ClusterView, details: &mut Markup) {
    let Some(found) = &view.similarities else {
        return;
    };
    let names: Vec<String> = site
        .dossier
        .suites()
        .iter()
        .map(|suite| crate::markup::short(&suite.name))
        .collect();
    let mut heads = vec![("similarity", true), ("training", true)];
    heads.extend(names.iter().map(|name| (name.as_str(), true)));
    table(details, "Inputs by similarity", &heads, |rows| {
        for (degree, &members) in found.training.iter().enumerate() {
            rows.tag("tr").holding(|row| {
                let step = 1.0 / found.training.len() as f64;
                let range = format!(
                    "{} to {}",
                    decimals(degree as f64 * step, 2),
                    decimals((degree + 1) as f64 * step, 2)
                );
                row.tag("th").class("n").attr("scope", "row").text(range);
                let at = |parts: &[&dyn std::fmt::Display]| {
                    format!(
                        "{}{}",
                        pointer(&[&"clusters", &view.cluster, &"similarities"]),
                        pointer(parts)
                    )
                };
                row.tag("td")
                    .class("n")
                    .at(at(&[&"training", &degree]))
                    .text(count(members));
                for (suite, counts) in found.suites.iter().enumerate() {
                    row.tag("td")
                        .class("n")
                        .at(at(&[&"suites", &suite, &degree]))
                        .text(count(counts[degree]));
                }
            });
        }
    });
}

/// Headings of its parts: in a single file the cluster is one part of the page.
fn heading(site: &Site<'_>) -> &'static str {
    if site.single { "h3" } else { "h2" }
}

/// The abstract path, layer by layer.
fn path(site: &Site<'_>, view: &ClusterView, anatomy: &Anatomy, main: &mut Markup) {
    main.tag(heading(site)).text("Its path, layer by layer");
    let heads = [
        ("layer", false),
        ("neurons in the path", true),
        ("used by a member", true),
        ("of all", true),
        ("drawn", false),
    ];
    table(main, "Neurons of the cluster", &heads, |rows| {
        for (layer, found) in anatomy.layers.iter().enumerate().take(MOST_LAYERS) {
            rows.tag("tr").holding(|row| {
                let record = &site.dossier.facts.layers[layer];
                row.tag("th").attr("scope", "row").holding(|cell| {
                    site.link(cell, To::Neurons(layer), |words| {
                        words.text(&format!("{layer} "));
                        words.name(&record.name);
                    });
                });
                let at = |field: &str| {
                    pointer(&[
                        &"clusters",
                        &view.cluster,
                        &"anatomy",
                        &"layers",
                        &layer,
                        &field,
                    ])
                };
                row.tag("td")
                    .class("n")
                    .at(at("path"))
                    .text(count(found.path));
                row.tag("td")
                    .class("n")
                    .at(at("used"))
                    .text(count(found.used));
                row.tag("td").class("n").text(count(record.neurons));
                row.tag("td").class("strip-cell").holding(|cell| {
                    let own = bits_of(&found.bits);
                    let strip =
                        Strip::of_cluster(&anatomy.frequencies[layer], |i| bits::get(&own, i));
                    let alt = format!(
                        "{} of {} neurons are in the path",
                        found.path, record.neurons
                    );
                    sights::neurons(cell, &strip.raster(), &alt);
                });
            });
        }
    });
    main.tag("p").class("legend").text(
        "A cell is a neuron, or several where a layer has more than 256. Upper row: the darker, the more members use it. \
         Lower row: neurons of the path.",
    );
}

/// The bits that hexadecimal digits stand for, the highest of a digit first.
pub(super) fn bits_of(digits: &str) -> Vec<u64> {
    let mut row = vec![0; digits.len().div_ceil(16).max(1)];
    for (i, digit) in digits.chars().enumerate() {
        let value = digit.to_digit(16).unwrap_or(0);
        for bit in (0..4).filter(|bit| value >> (3 - bit) & 1 == 1) {
            bits::set(&mut row, 4 * i + bit);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_neurons() {
        let row = bits_of("808");
        assert_eq!(bits::ones(&row).collect::<Vec<_>>(), [0, 8]);
    }
}
