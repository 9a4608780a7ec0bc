//! RQ7 in words and as a picture.

use npcov_lab::{Rq7, Rq7Missing};

use super::{facts, numbers};
use crate::number::{count, decimals, share};
use crate::plot::{Mark, PlotRow, Rows};
use crate::visible::on_one_line;

/// Which missing kinds are named, for people to read.
pub fn rq7(found: &Rq7) -> String {
    let rows = [
        ("training data", found.training.clone()),
        ("test inputs", count(found.inputs)),
        (
            "suites",
            format!(
                "{} inputs, drawn with seed {}",
                count(found.size),
                found.seed
            ),
        ),
        (
            "named",
            format!("{} of {} missing kinds", found.named(), found.missing.len()),
        ),
        (
            "named wrongly",
            format!(
                "{}, and {} that are mostly of no kind",
                clusters(found.wrongly()),
                found.missing.iter().map(|m| m.unclear.len()).sum::<usize>()
            ),
        ),
        (
            "false alarms",
            format!(
                "{} in {} of {} complete suites",
                clusters(found.false_alarms),
                found.alarmed,
                found.complete
            ),
        ),
        (
            "whole test data",
            thin(&found.thin_in_test, found.clusters.len()),
        ),
        (
            "training data itself",
            thin(&found.thin_in_training, found.clusters.len()),
        ),
    ];
    let mut text = format!(
        "RQ7: is a missing kind named? {}\n{}",
        on_one_line(&found.data),
        facts(&rows)
    );
    text += "\nclusters, and the kind of more than half of their training inputs\n";
    let mut table = numbers(5);
    table.row(["cluster", "class", "inputs", "kind", "purity"]);
    for cluster in &found.clusters {
        table.row([
            cluster.cluster.to_string(),
            cluster.class.to_string(),
            count(cluster.inputs),
            cluster.kind.map_or("-".to_owned(), |kind| kind.to_string()),
            share(cluster.purity),
        ]);
    }
    text += &table.lines();
    text += "\nsuites without a kind: what they have in the clusters of that kind, and thin clusters of others\n";
    let mut table = numbers(7);
    table.row([
        "without",
        "clusters",
        "inputs",
        "expected",
        "named",
        "wrongly",
        "of no kind",
    ]);
    for missing in &found.missing {
        table.row([
            missing.kind.to_string(),
            missing.clusters.to_string(),
            count(missing.inputs),
            decimals(missing.expected, 1),
            if missing.named { "yes" } else { "no" }.to_owned(),
            missing.wrongly.len().to_string(),
            missing.unclear.len().to_string(),
        ]);
    }
    text + &table.lines()
}

fn clusters(number: usize) -> String {
    match number {
        1 => "1 cluster".to_owned(),
        number => format!("{number} clusters"),
    }
}

/// Which of all clusters are thin.
fn thin(thin: &[usize], all: usize) -> String {
    match thin {
        [] => "nothing thin".to_owned(),
        thin => {
            let names: Vec<String> = thin.iter().map(ToString::to_string).collect();
            format!(
                "{} of {} thin: {}",
                clusters(thin.len()),
                all,
                names.join(", ")
            )
        }
    }
}

/// The same as a picture: a row for each kind.
pub fn rq7_plot(found: &Rq7) -> String {
    let row = |missing: &Rq7Missing| PlotRow {
        name: format!("without {}", missing.kind),
        values: vec![(missing.clusters > 0).then(|| {
            (
                missing.inputs as f64 / missing.expected.max(f64::MIN_POSITIVE),
                None,
            )
        })],
        note: if missing.named { "named" } else { "not named" }.to_owned(),
    };
    Rows {
        title: format!(
            "RQ7: suites of {} without a kind, {}",
            count(found.size),
            found.data
        ),
        legend: vec![(
            Mark::Bar,
            "inputs in clusters of the missing kind".to_owned(),
        )],
        label: "as a part of what is expected".to_owned(),
        low: 0.0,
        high: 1.0,
        ticks: [0.0, 0.25, 0.5, 0.75, 1.0]
            .map(|x| (x, x.to_string()))
            .to_vec(),
        logarithmic: false,
        reference: Some(0.5),
        rows: found.missing.iter().map(row).collect(),
    }
    .svg()
}
