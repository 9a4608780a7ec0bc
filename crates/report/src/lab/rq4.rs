//! RQ4 in words and as a picture.

use npcov_lab::{Rq4, Rq4Correlation, Rq4Size};

use super::{facts, numbers};
use crate::coverage::label;
use crate::number::{decimals, share};
use crate::plot::{Mark, PlotRow, Rows};
use crate::visible::on_one_line;

/// How criteria go with the impartiality of outputs, for people to read.
pub fn rq4(found: &Rq4) -> String {
    let attacks = format!(
        "PGD with {} steps; Carlini-Wagner with {} rounds of {} steps",
        found.pgd_steps, found.cw.0, found.cw.1
    );
    let mut text = format!(
        "RQ4: does coverage go with impartial outputs? {}\n{}",
        on_one_line(&found.data),
        facts(&[("attacks", attacks), ("seed", found.seed.to_string())])
    );
    for size in &found.sizes {
        text += &format!(
            "\n{} suites of {} inputs; {}\n",
            size.suites.len(),
            size.size,
            spread(size)
        );
        text += &correlations(size, is_published(size));
    }
    if constant(found) {
        text += "* coverage is the same for all suites, so that there is no correlation\n";
    }
    text
}

/// Whether a correlation is missing.
fn constant(found: &Rq4) -> bool {
    let mut all = found.sizes.iter().flat_map(|size| &size.correlations);
    all.any(|row| row.correlation.is_none())
}

fn spread(size: &Rq4Size) -> String {
    let range = |of: &dyn Fn(usize) -> f64| {
        (0..size.suites.len())
            .map(of)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
                (low.min(x), high.max(x))
            })
    };
    let impartiality = range(&|i| size.suites[i].impartiality);
    let wrong = range(&|i| size.suites[i].misclassified);
    format!(
        "impartiality {} to {}, misclassified {} to {}",
        decimals(impartiality.0, 3),
        decimals(impartiality.1, 3),
        share(wrong.0),
        share(wrong.1)
    )
}

/// Whether the paper has numbers of suites of this size.
fn is_published(size: &Rq4Size) -> bool {
    let mut rows = size.correlations.iter();
    rows.any(|row| row.published.is_some())
}

fn correlations(size: &Rq4Size, paper: bool) -> String {
    let mut table = numbers(5);
    let mut head = vec!["criterion", "Pearson", "95 % interval", "ranks"];
    if paper {
        head.push("paper");
    }
    table.row(head);
    for row in &size.correlations {
        let (r, interval) = match row.correlation {
            Some(found) => (
                decimals(found.r, 3),
                found.interval.map_or("-".to_owned(), |(low, high)| {
                    format!("{} to {}", decimals(low, 2), decimals(high, 2))
                }),
            ),
            None => ("0.000*".to_owned(), "-".to_owned()),
        };
        let theirs = row.published.map_or(String::new(), |r| decimals(r, 3));
        let ranks = row.ranks.map_or("-".to_owned(), |r| decimals(r, 3));
        table.row([label(&row.criterion), r, interval, ranks, theirs]);
    }
    table.lines()
}

/// The same as a picture: a row for each criterion.
pub fn rq4_plot(found: &Rq4) -> String {
    let mut legend = Vec::new();
    for size in &found.sizes {
        legend.push((Mark::Dot, format!("{} inputs", size.size)));
        if is_published(size) {
            legend.push((Mark::Cross, format!("paper, {} inputs", size.size)));
        }
    }
    let names = found.sizes.first().map_or(&[][..], |s| &s.correlations);
    let row = |name: &Rq4Correlation| {
        let mut values = Vec::new();
        for size in &found.sizes {
            let mut all = size.correlations.iter();
            let of = all.find(|row| row.criterion == name.criterion);
            let ours = of.and_then(|row| row.correlation);
            values.push(ours.map(|found| (found.r, found.interval)));
            if is_published(size) {
                values.push(of.and_then(|row| row.published).map(|r| (r, None)));
            }
        }
        PlotRow {
            name: label(&name.criterion),
            values,
            note: String::new(),
        }
    };
    let tick = |r: f64| (r, r.to_string());
    Rows {
        title: format!("RQ4: {}", found.data),
        legend,
        label: "correlation of coverage and impartiality, with 95 % intervals".to_owned(),
        low: -1.0,
        high: 1.0,
        ticks: [-1.0, -0.7, -0.3, 0.0, 0.3, 0.7, 1.0].map(tick).to_vec(),
        logarithmic: false,
        reference: Some(0.0),
        rows: names.iter().map(row).collect(),
    }
    .svg()
}
