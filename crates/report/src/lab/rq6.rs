//! RQ6 in words and as a picture.

use npcov_lab::{Clustered, Rq6, Rq6Row};

use super::{facts, numbers};
use crate::number::{count, decimals, share};
use crate::plot::{Mark, PlotRow, Rows};
use crate::visible::on_one_line;

/// How well clusters agree with kinds, for people to read.
pub fn rq6(found: &Rq6) -> String {
    let clustering = &found.clustering;
    let rows = [
        ("inputs", count(found.inputs)),
        (
            "communities",
            format!(
                "{} neighbours, resolution {}, up to {} inputs of a class",
                clustering.neighbours,
                clustering.resolution,
                count(clustering.landmarks)
            ),
        ),
        (
            "k-means",
            format!("as many clusters as kinds, best of {}", found.restarts),
        ),
    ];
    let mut text = format!(
        "RQ6: do clusters find the kinds that nobody labelled? {}\n{}",
        on_one_line(&found.data),
        facts(&rows)
    );
    text += "\nagreement of clusters with kinds: adjusted Rand index (ARI), and the share of inputs that are of\n\
             the most frequent kind of their cluster (purity)\n";
    let mut table = numbers(7);
    table.row([
        "clustered",
        "class",
        "inputs",
        "kinds",
        "clusters",
        "ARI",
        "purity",
    ]);
    for row in &found.rows {
        for (i, class) in row.classes.iter().enumerate() {
            table.row([
                if i == 0 { name(row.clustered) } else { "" }.to_owned(),
                class.class.to_string(),
                count(class.inputs),
                class.kinds.to_string(),
                class.clusters.to_string(),
                decimals(class.ari, 3),
                share(class.purity),
            ]);
        }
    }
    text + &table.lines()
}

/// What is clustered, and how where it is not by communities.
fn name(clustered: Clustered) -> &'static str {
    match clustered {
        Clustered::Profiles => "relevance profiles",
        Clustered::PathsByKMeans => "paths, by k-means",
        Clustered::LastActivations => "activations, last layer",
        Clustered::Activations => "activations, all layers",
        Clustered::Pixels => "pixels",
    }
}

/// The same as a picture: a row for what is clustered, a mark for each class.
pub fn rq6_plot(found: &Rq6) -> String {
    let row = |row: &Rq6Row| PlotRow {
        name: name(row.clustered).to_owned(),
        values: row.classes.iter().map(|c| Some((c.ari, None))).collect(),
        note: String::new(),
    };
    let first = found.rows.first().map_or(&[][..], |row| &row.classes);
    let legend = first
        .iter()
        .map(|c| (Mark::Bar, format!("class {}", c.class)));
    Rows {
        title: format!("RQ6: agreement of clusters with kinds, {}", found.data),
        legend: legend.collect(),
        label: "adjusted Rand index".to_owned(),
        low: 0.0,
        high: 1.0,
        ticks: [0.0, 0.25, 0.5, 0.75, 1.0]
            .map(|x| (x, x.to_string()))
            .to_vec(),
        logarithmic: false,
        reference: None,
        rows: found.rows.iter().map(row).collect(),
    }
    .svg()
}
