//! An input of a suite: what it looks like, what decided, and how usual that is.

use npcov::coverage::Rank;
use npcov::paths::bits;
use npcov_report::number::{count, decimals, four_digits, share};

use super::cluster::bits_of;
use super::frame::{crumbs, page_between, table};
use super::sights::{self, Item, Look, strip};
use super::{Page, Site, To, pointer};
use crate::dossier::{ExplainedInput, InputView};
use crate::markup::Markup;
use crate::raster::Strip;

/// Layers that are drawn.
const MOST_LAYERS: usize = 80;

pub(super) fn page(site: &Site<'_>, view: &InputView) -> Page {
    let number = site
        .dossier
        .inputs
        .iter()
        .position(|other| std::ptr::eq(other, view))
        .unwrap_or(0);
    let called = match &view.sample {
        Some(name) => crate::markup::short(name),
        None => view.input.to_string(),
    };
    let title = format!("Input {called}");
    let near = |number: Option<usize>| {
        let other = site.dossier.inputs.get(number?)?;
        Some(To::Input(other.suite, other.place))
    };
    let up = match view.cluster {
        Some(cluster) => To::Cluster(cluster),
        None => To::Class(view.prediction),
    };
    let between = [
        Some(up),
        near(number.checked_sub(1)),
        near(Some(number + 1)),
    ];
    let here = To::Input(view.suite, view.place);
    page_between(site, here, &title, between, |main| {
        let mut steps = vec![(To::Class(view.prediction), site.class_text(view.prediction))];
        steps.extend(
            view.cluster
                .map(|cluster| (To::Cluster(cluster), format!("Cluster {cluster}"))),
        );
        steps.push((here, title.clone()));
        crumbs(site, main, &steps);
        main.tag("h1").holding(|h1| {
            h1.text("Input ");
            h1.name(&called);
            h1.text(" of ");
            h1.name(&site.dossier.suites()[view.suite].name);
        });
        decision(site, main, view);
        main.tag("section").class("panel sides").holding(|panel| {
            panel.tag("div").holding(|side| {
                match site.dossier.pictures.get(&view.data, view.input) {
                    Some(picture) => sights::alone(site, side, picture, &title),
                    None => side
                        .tag("p")
                        .class("none")
                        .text("Its data is not there: it is not shown."),
                }
            });
            panel.tag("div").holding(|side| {
                scores(side, view, number);
                if let Some(explained) = &view.explained {
                    logits(site, side, explained, number);
                }
            });
        });
        if let Some(explained) = &view.explained {
            main.tag("section").class("panel").holding(|panel| {
                panel
                    .tag("h2")
                    .text("Training inputs that are decided most alike");
                nearest(site, panel, explained, number);
            });
            main.tag("section").class("panel").holding(|panel| {
                path(site, panel, view, explained, number);
            });
        }
    })
}

fn decision(site: &Site<'_>, main: &mut Markup, view: &InputView) {
    main.tag("p").class("headline").holding(|line| {
        match view.label {
            Some(label) if label == view.prediction as i64 => {
                line.tag("span").class("right").text("✔ right")
            }
            Some(_) => line.tag("span").class("thin").text("✘ wrong"),
            None => {}
        }
        line.text(" Predicted as ");
        site.class(line, view.prediction);
        if let Some(label) = view.label {
            line.text(", labelled ");
            line.tag("span").class("label").text(site.label_text(label));
        }
        if let Some(cluster) = view.cluster {
            line.text(", decided as in ");
            site.cluster(line, cluster);
        }
        line.text(".");
    });
}

fn scores(main: &mut Markup, view: &InputView, number: usize) {
    if view.unfamiliar.is_none() && view.contested.is_none() {
        return;
    }
    let heads = [("score", false), ("value", true), ("p", true)];
    main.tag("h2").text("How usual the decision is");
    table(main, "How usual the decision is", &heads, |rows| {
        let mut score = |name: &str, rank: Option<Rank>, words: &str| {
            let Some(rank) = rank else { return };
            rows.tag("tr").holding(|row| {
                row.tag("th").attr("scope", "row").holding(|cell| {
                    cell.tag("strong").text(name);
                    cell.tag("span").class("meaning").text(words);
                });
                let at = |field: &str| pointer(&[&"inputs", &number, &name, &field]);
                row.tag("td")
                    .class("n")
                    .at(at("score"))
                    .text(four_digits(rank.score));
                match rank.p {
                    Some(p) => row.tag("td").class("n").at(at("p")).text(four_digits(p)),
                    None => row.tag("td").class("n").text("–"),
                }
            });
        };
        score(
            "unfamiliar",
            view.unfamiliar,
            "How far the decision is from those of its class in training",
        );
        score(
            "contested",
            view.contested,
            "How much it looks like one of another class; near or above 1 is much",
        );
    });
    main.tag("p").class("legend").text(
        "p: the share of usual inputs that have at least such a score. Below 0.05 is unusual.",
    );
}

fn logits(site: &Site<'_>, main: &mut Markup, explained: &ExplainedInput, number: usize) {
    main.tag("h2").text("Highest logits");
    table(
        main,
        "Highest logits",
        &[("class", false), ("logit", true)],
        |rows| {
            for (i, &(class, logit)) in explained.logits.iter().enumerate() {
                rows.tag("tr").holding(|row| {
                    row.tag("th")
                        .attr("scope", "row")
                        .holding(|cell| site.class(cell, class));
                    let at = pointer(&[&"inputs", &number, &"explained", &"logits", &i, &1]);
                    row.tag("td")
                        .class("n")
                        .at(at)
                        .text(four_digits(f64::from(logit)));
                });
            }
        },
    );
}

fn nearest(site: &Site<'_>, main: &mut Markup, explained: &ExplainedInput, number: usize) {
    let data = site
        .dossier
        .facts
        .learnt
        .as_ref()
        .map_or("", |learnt| learnt.sha256.as_str());
    let items: Vec<Item<'_>> = (explained.nearest.iter().enumerate())
        .map(|(i, input)| Item {
            note: Some(format!("distance {}", decimals(input.value, 2))),
            at: Some(pointer(&[
                &"inputs",
                &number,
                &"explained",
                &"nearest",
                &i,
                &"value",
            ])),
            ..Item::training(data, input)
        })
        .collect();
    strip(site, main, "", "nothing", Look::Middle, &items);
}

/// Its path beside that of its cluster.
fn path(
    site: &Site<'_>,
    main: &mut Markup,
    view: &InputView,
    explained: &ExplainedInput,
    number: usize,
) {
    let Some(anatomy) = view
        .cluster
        .and_then(|cluster| site.dossier.clusters.get(cluster)?.anatomy.as_ref())
    else {
        return;
    };
    main.tag("h2").text("Its path beside that of its cluster");
    let heads = [
        ("layer", false),
        ("both", true),
        ("only the input", true),
        ("only the cluster", true),
        ("similarity", true),
        ("drawn", false),
    ];
    let layout = npcov::paths::PathLayout::new(
        site.dossier
            .facts
            .layers
            .iter()
            .map(|l| l.neurons)
            .collect::<Vec<_>>(),
    );
    table(main, "Neurons of the path", &heads, |rows| {
        for (layer, found) in explained.layers.iter().enumerate().take(MOST_LAYERS) {
            rows.tag("tr").holding(|row| {
                let record = &site.dossier.facts.layers[layer];
                row.tag("th").attr("scope", "row").holding(|cell| {
                    cell.text(&format!("{layer} "));
                    cell.name(&record.name);
                });
                let at = |field: &str| pointer(&[&"inputs", &number, &"explained", &"layers", &layer, &field]);
                row.tag("td").class("n").at(at("both")).text(count(found.both));
                row.tag("td").class("n").at(at("only_input")).text(count(found.only_input));
                row.tag("td").class("n").at(at("only_cluster")).text(count(found.only_cluster));
                row.tag("td").class("n").at(at("similarity")).text(share(found.similarity));
                row.tag("td").class("strip-cell").holding(|cell| {
                    let own = layout.layer(&explained.path, layer);
                    let other = bits_of(&anatomy.layers[layer].bits);
                    let strip = Strip::comparing(record.neurons, |i| bits::get(own, i), |i| bits::get(&other, i));
                    let alt = format!("{} neurons in both paths, {} only in the input's, {} only in the cluster's", found.both, found.only_input, found.only_cluster);
                    sights::neurons(cell, &strip.raster(), &alt);
                });
            });
        }
    });
    main.tag("p").class("legend").text(
        "A cell is a neuron, or several where a layer has more than 256. Upper row: the input's path, lower row: the \
         cluster's. Blue where they agree, orange where only one has it.",
    );
}
