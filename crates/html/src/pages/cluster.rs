//! A cluster: what it looks like, what suites have of it, and what is missing.

use npcov::coverage::ClusterCoverage;
use npcov::paths::bits;
use npcov_report::number::{count, decimals, four_digits, share, whole_percent};

use super::class::covered;
use super::classes::mark;
use super::frame::{crumbs, page_between, table};
use super::sights::{self, Item, Look, strip};
use super::{Page, Site, To, drawing, pointer};
use crate::dossier::{Anatomy, ClusterView, Similarities, Training};
use crate::markup::Markup;
use crate::raster::Strip;

/// Layers that are drawn.
const MOST_LAYERS: usize = 80;

/// The heading of a cluster among others.
pub(super) fn title(site: &Site<'_>, view: &ClusterView, markup: &mut Markup) {
    markup.text(&format!("Cluster {} of ", view.cluster));
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
        crumbs(
            site,
            main,
            &[
                (class, site.class_text(view.class)),
                (To::Cluster(view.cluster), words.clone()),
            ],
        );
        main.tag("h1").holding(|h1| title(site, view, h1));
        content(site, view, main);
    })
}

pub(super) fn content(site: &Site<'_>, view: &ClusterView, main: &mut Markup) {
    main.tag("p").class("headline").holding(|line| {
        for (suite, found) in site.dossier.suites().iter().enumerate() {
            if let Some(coverage) = found.clusters.get(view.cluster) {
                has(site, line, view, suite, coverage);
            }
        }
        line.text("Training has ");
        line.tag("span")
            .at(pointer(&[&"clusters", &view.cluster, &"training"]))
            .text(count(view.training as usize));
        line.text(if view.training == 1 {
            " input that is decided so."
        } else {
            " inputs that are decided so."
        });
    });
    if let Some(anatomy) = &view.anatomy {
        main.tag("section").class("panel").holding(|panel| {
            panel.tag(heading(site)).text("In training");
            members(site, view, anatomy, panel);
        });
    }
    for suite in 0..view.inputs.len() {
        main.tag("section").class("panel").holding(|panel| {
            let found = &site.dossier.suites()[suite];
            panel
                .tag(heading(site))
                .holding(|title| match view.inputs.len() {
                    1 => title.text("In the suite"),
                    _ => {
                        title.text("In ");
                        title.name(&found.name);
                    }
                });
            in_suite(site, view, suite, panel);
        });
    }
    if let (Some(found), Some(anatomy)) = (&view.similarities, &view.anatomy) {
        main.tag("section").class("panel").holding(|panel| {
            similarities(site, view, found, anatomy, panel);
        });
    }
    if let Some(anatomy) = &view.anatomy {
        main.tag("section").class("panel").holding(|panel| {
            path(site, view, anatomy, panel);
        });
    }
}

/// How many inputs a suite has of it.
fn has(
    site: &Site<'_>,
    line: &mut Markup,
    view: &ClusterView,
    suite: usize,
    coverage: &ClusterCoverage,
) {
    let at = |field: &str| pointer(&[&"suites", &suite, &"clusters", &view.cluster, &field]);
    match site.dossier.suites().len() {
        1 => line.text("The suite"),
        _ => line.name(&site.dossier.suites()[suite].name),
    }
    line.text(" has ");
    line.tag("strong")
        .at(at("inputs"))
        .text(count(coverage.inputs));
    line.text(if coverage.inputs == 1 {
        " input of it, where "
    } else {
        " inputs of it, where "
    });
    line.tag("strong")
        .at(at("expected"))
        .text(decimals(coverage.expected, 1));
    line.text(" are expected");
    if coverage.thin {
        line.text(" ");
        mark(line, true);
    }
    line.text(". ");
}

fn item<'d>(
    site: &Site<'d>,
    view: &ClusterView,
    input: &'d Training,
    words: &str,
    at: Option<String>,
) -> Item<'d> {
    let learnt = site.dossier.facts.learnt.as_ref();
    let data = learnt.map_or("", |learnt| learnt.sha256.as_str());
    Item {
        note: Some(format!("{words} {}", decimals(input.value, 2))),
        at,
        class: Some(view.class),
        ..Item::training(data, input)
    }
}

/// What a suite has of it.
fn in_suite(site: &Site<'_>, view: &ClusterView, suite: usize, panel: &mut Markup) {
    let items = |places: &[usize]| -> Vec<_> {
        let places = places.iter();
        places
            .map(|&place| Item::of_suite(site, suite, place))
            .collect()
    };
    panel.tag("div").class("strips").holding(|strips| {
        let shown = items(&view.inputs[suite]);
        let title = if shown.is_empty() {
            ""
        } else {
            "The most familiar first"
        };
        strip(site, strips, title, "no input", Look::Middle, &shown);
        let wrong = items(&view.misclassified[suite]);
        if !wrong.is_empty() {
            let all = view.wrong[suite].unwrap_or(wrong.len());
            let title = match all > wrong.len() {
                true => format!("Misclassified, {} of {}", wrong.len(), count(all)),
                false => "Misclassified".to_owned(),
            };
            strip(site, strips, &title, "", Look::Middle, &wrong);
        }
    });
    let Some(coverage) = site.dossier.suites()[suite].clusters.get(view.cluster) else {
        return;
    };
    let at = |field: &str| pointer(&[&"suites", &suite, &"clusters", &view.cluster, &field]);
    panel.tag("dl").class("facts").holding(|list| {
        let mut fact = |name: &str, value: &dyn Fn(&mut Markup)| {
            list.tag("div").holding(|pair| {
                pair.tag("dt").text(name);
                pair.tag("dd").holding(value);
            });
        };
        fact("By chance", &|dd| {
            dd.text("p = ");
            dd.tag("span").at(at("p")).text(four_digits(coverage.p));
            dd.text(", how likely so few are if it is as frequent as in training");
        });
        if let Some(enough) = coverage.enough {
            fact("Could be seen", &|dd| {
                dd.text("with ");
                dd.tag("span").at(at("enough")).text(count(enough as usize));
                dd.text(match enough {
                    1 => " input of the class: then a cluster without any is a gap",
                    _ => " inputs of the class: then a cluster without any is a gap",
                });
            });
        }
        if let Some(wrong) = view.wrong[suite] {
            let at = pointer(&[&"clusters", &view.cluster, &"wrong", &suite]);
            fact("Misclassified", &|dd| {
                dd.tag("span").at(&at).text(count(wrong))
            });
        }
        let (part, all) = covered(view, suite);
        let own: usize = view.covered[suite].iter().sum();
        fact("Covered", &|dd| {
            dd.text(&whole_percent(part));
            let (own, all) = (count(own), count(all));
            match view.reached {
                Some(_) => dd.text(&format!(
                    ": {own} degrees of similarity, training shows {all} (SNPC)"
                )),
                None => dd.text(&format!(": {own} of {all} degrees of similarity (SNPC)")),
            }
        });
    });
}

/// Members of a cluster with their distances.
struct Listed<'s> {
    site: &'s Site<'s>,
    view: &'s ClusterView,
}

impl<'s> Listed<'s> {
    fn items(&self, inputs: &'s [Training], name: &str) -> Vec<Item<'s>> {
        let inputs = inputs.iter().enumerate();
        inputs
            .map(|(i, input)| {
                let cluster = self.view.cluster;
                let at = pointer(&[&"clusters", &cluster, &"anatomy", &name, &i, &"value"]);
                item(self.site, self.view, input, "distance", Some(at))
            })
            .collect()
    }
}

fn members(site: &Site<'_>, view: &ClusterView, anatomy: &Anatomy, panel: &mut Markup) {
    let list = Listed { site, view };
    panel.tag("div").class("strips").holding(|strips| {
        let shown = list.items(&anatomy.exemplars, "exemplars");
        let title = "Typical, with what decided";
        strip(site, strips, title, "nothing", Look::Heat, &shown);
        let shown = list.items(&anatomy.outliers, "outliers");
        strip(
            site,
            strips,
            "Least typical",
            "nothing",
            Look::Middle,
            &shown,
        );
        if !anatomy.misclassified.is_empty() {
            let shown = list.items(&anatomy.misclassified, "misclassified");
            strip(site, strips, "Misclassified", "", Look::Middle, &shown);
        }
    });
    panel.tag("p").class("legend").text(
        "Distance: from the centre of the cluster. In pictures of what decided, orange supports the class, blue speaks \
         against it.",
    );
    panel.tag("dl").class("facts").holding(|list| {
        let mut fact = |name: &str, value: &dyn Fn(&mut Markup)| {
            list.tag("div").holding(|pair| {
                pair.tag("dt").text(name);
                pair.tag("dd").holding(value);
            });
        };
        if !anatomy.labels.is_empty() {
            fact("Labels", &|dd| {
                for (i, &(label, inputs)) in anatomy.labels.iter().enumerate() {
                    dd.text(if i > 0 { ", " } else { "" });
                    dd.text(&format!("{} ", site.label_text(label)));
                    let at = pointer(&[&"clusters", &view.cluster, &"anatomy", &"labels", &i, &1]);
                    dd.tag("span").at(at).text(count(inputs));
                }
            });
        }
        if !anatomy.similar.is_empty() {
            fact("Most similar", &|dd| {
                for (i, &(other, similarity)) in anatomy.similar.iter().enumerate() {
                    dd.text(if i > 0 { ", " } else { "" });
                    site.cluster(dd, other);
                    let class = site.dossier.clusters[other].class;
                    if class != view.class {
                        dd.text(" of ");
                        site.class_words(dd, class);
                    }
                    dd.text(" ");
                    let at = pointer(&[&"clusters", &view.cluster, &"anatomy", &"similar", &i, &1]);
                    dd.tag("span").at(at).text(share(similarity));
                }
            });
        }
        fact("Its path", &|dd| {
            let at = pointer(&[&"clusters", &view.cluster, &"anatomy", &"width"]);
            dd.tag("span").at(at).text(share(anatomy.width));
            dd.text(" of the neurons");
        });
    });
}

/// How similar inputs are to the cluster, and which degrees of similarity the suite lacks.
fn similarities(
    site: &Site<'_>,
    view: &ClusterView,
    found: &Similarities,
    anatomy: &Anatomy,
    panel: &mut Markup,
) {
    for suite in 0..found.suites.len() {
        panel.tag(heading(site)).holding(|h3| {
            h3.text("How similar inputs are to the cluster");
            if found.suites.len() > 1 {
                h3.text(": ");
                h3.name(&site.dossier.suites()[suite].name);
            }
        });
        let id = format!("lacking-{suite}-{}", view.cluster);
        drawing::similarities(panel, found, suite, &id);
    }
    panel.tag("p").class("legend").text(
        "By the neurons that decide: at the left inputs that share none with the path of the cluster, at the right those \
         that have the same. Hatched: degrees that training has and the suite lacks.",
    );
    panel.tag("details").holding(|details| {
        details.tag("summary").text("The same as numbers");
        similarity_table(site, view, details);
    });
    let hints: Vec<Item<'_>> = (anatomy.hints.iter().enumerate())
        .map(|(i, input)| {
            let at = pointer(&[
                &"clusters",
                &view.cluster,
                &"anatomy",
                &"hints",
                &i,
                &"value",
            ]);
            item(site, view, input, "similarity", Some(at))
        })
        .collect();
    if !hints.is_empty() {
        let title = "Worth trying: training inputs as similar as no input of the suite";
        strip(site, panel, title, "", Look::Middle, &hints);
    }
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
