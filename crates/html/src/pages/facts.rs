//! What a report was made from.

use npcov_report::number::{count, short};

use super::{Site, pointer};
use crate::markup::Markup;

/// Layers that are listed.
const MOST_LAYERS: usize = 100;

pub(super) fn section(site: &Site<'_>, main: &mut Markup) {
    let facts = &site.dossier.facts;
    main.tag("section")
        .class("panel")
        .attr("aria-labelledby", "made-from")
        .holding(|section| {
            section.tag("h2").attr("id", "made-from").text("Made from");
            section.tag("dl").class("facts").holding(|list| {
                let mut fact = |name: &str, value: &dyn Fn(&mut Markup)| {
                    list.tag("div").holding(|pair| {
                        pair.tag("dt").text(name);
                        pair.tag("dd").holding(value);
                    });
                };
                let text = |text: String| move |dd: &mut Markup| dd.name(&text);
                let digest = |digest: &str| {
                    let digest = digest.to_owned();
                    move |dd: &mut Markup| {
                        let shown = digest.get(..16).unwrap_or(&digest);
                        dd.tag("code").attr("title", &digest).text(shown);
                    }
                };
                if let Some(learnt) = &facts.learnt {
                    fact("Model", &text(learnt.model.clone()));
                }
                fact("Digest of the model", &digest(&facts.model));
                fact("Decision graph", &digest(&facts.graph));
                if let Some(learnt) = &facts.learnt {
                    fact("Training data", &text(learnt.data.clone()));
                    fact("Training inputs", &|dd| {
                        dd.tag("span")
                            .at("/facts/learnt/inputs")
                            .text(count(learnt.inputs));
                    });
                    let range = |(low, high): (f64, f64)| match low == high {
                        true => short(low),
                        false => format!("{} to {}", short(low), short(high)),
                    };
                    let parts = [
                        ("Preprocessing", learnt.preprocessing.clone()),
                        ("Relevance", learnt.method.clone()),
                        ("Alpha", range(learnt.alpha)),
                        ("Beta", range(learnt.beta)),
                        ("Clusters by", learnt.clustering.clone()),
                        ("Kernels", format!("{}, {}", learnt.kernels, learnt.cpu)),
                    ];
                    for (name, value) in parts {
                        if !value.is_empty() {
                            fact(name, &|dd: &mut Markup| dd.text(&value));
                        }
                    }
                }
                fact("Measured by", &text(format!("npcov {}", facts.measured_by)));
            });
            section.tag("details").holding(|details| {
                details.tag("summary").text("Suites' data and path layers");
                super::frame::table(
                    details,
                    "Data",
                    &[
                        ("suite", false),
                        ("inputs", true),
                        ("digest", false),
                        ("found", false),
                    ],
                    |rows| {
                        for part in facts.data.iter().take(MOST_LAYERS) {
                            rows.tag("tr").holding(|row| {
                                row.tag("th").attr("scope", "row").name(&part.suite);
                                row.tag("td")
                                    .class("n")
                                    .text(format!("{} to {}", part.start, part.end));
                                row.tag("td").holding(|cell| {
                                    cell.tag("code")
                                        .text(part.sha256.get(..16).unwrap_or(&part.sha256))
                                });
                                row.tag("td").holding(|cell| match &part.found {
                                    Some(file) => cell.name(file),
                                    None => cell.text("not there"),
                                });
                            });
                        }
                    },
                );
                super::frame::table(
                    details,
                    "Path layers",
                    &[
                        ("layer", true),
                        ("name", false),
                        ("operator", false),
                        ("neurons", true),
                    ],
                    |rows| {
                        for (i, layer) in facts.layers.iter().enumerate().take(MOST_LAYERS) {
                            rows.tag("tr").holding(|row| {
                                row.tag("th")
                                    .class("n")
                                    .attr("scope", "row")
                                    .text(i.to_string());
                                row.tag("td").name(&layer.name);
                                row.tag("td").text(&layer.op);
                                let at = pointer(&[&"facts", &"layers", &i, &"neurons"]);
                                row.tag("td").class("n").at(at).text(count(layer.neurons));
                            });
                        }
                    },
                );
            });
        });
}
