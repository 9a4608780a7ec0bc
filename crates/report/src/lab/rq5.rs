//! RQ5 in words and as a picture.

use npcov_lab::{Rq5, Rq5Row};

use super::{facts, numbers};
use crate::coverage::label;
use crate::number::{count, decimals, seconds};
use crate::plot::{Mark, PlotRow, Rows};
use crate::visible::on_one_line;

/// How long criteria take, for people to read.
pub fn rq5(found: &Rq5) -> String {
    let mut rows = vec![
        ("inputs", count(found.inputs)),
        (
            "timed",
            format!(
                "{} times in turns on {}; the shortest counts",
                found.rounds,
                match found.threads {
                    1 => "1 thread".to_owned(),
                    threads => format!("{threads} threads"),
                }
            ),
        ),
        ("forward pass", seconds(found.forward, 3)),
        ("relevances", seconds(found.explain, 3)),
        ("paths", seconds(found.extraction, 3)),
    ];
    // Of single inputs, beside criteria.
    rows.extend(found.scores.map(|scores| ("scores", seconds(scores, 3))));
    let mut text = format!(
        "RQ5: how long do criteria take? {}\n{}",
        on_one_line(&found.data),
        facts(&rows)
    );
    text += "\nseconds, with those for paths in brackets; as many times the forward pass and relevances\n";
    let mut table = numbers(7);
    let mut head = vec!["criterion", "seconds", "", "forward", "relevances", "bar"];
    if found.paper.is_some() {
        head.push("paper");
    }
    table.row(head);
    for row in &found.rows {
        let brackets = |time: Option<f64>| {
            time.map_or(String::new(), |time| format!("({})", decimals(time, 2)))
        };
        let bar = match (row.bar, row.met) {
            (Some(bar), Some(true)) => format!("{bar} met"),
            (Some(bar), Some(false)) => format!("{bar} missed"),
            _ => String::new(),
        };
        let published = row.published.map_or(String::new(), |time| {
            let paths = brackets(row.published_extraction);
            format!("{} {paths}", decimals(time, 2))
        });
        table.row([
            label(&row.criterion),
            decimals(row.seconds, 3),
            brackets(row.paths.then_some(found.extraction)),
            decimals(row.to_forward, 2),
            decimals(row.to_explain, 2),
            bar,
            published.trim_end().to_owned(),
        ]);
    }
    text + &table.lines()
}

/// The same as a picture: a row for each criterion.
pub fn rq5_plot(found: &Rq5) -> String {
    let row = |row: &Rq5Row| PlotRow {
        name: label(&row.criterion),
        values: vec![Some((row.to_forward, None))],
        note: format!(
            "{}, {}x",
            seconds(row.seconds, 2),
            decimals(row.to_forward, 1)
        ),
    };
    let relevances = PlotRow {
        name: "relevances".to_owned(),
        values: vec![Some((found.explain / found.forward, None))],
        note: seconds(found.explain, 2),
    };
    let mut rows = vec![relevances];
    rows.extend(found.rows.iter().map(row));
    let largest = rows
        .iter()
        .flat_map(|row| &row.values)
        .filter_map(|value| value.map(|(x, _)| x))
        .fold(10.0, f64::max);
    let ticks = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
    let tick = |x: &f64| (*x, x.to_string());
    Rows {
        title: format!(
            "RQ5: time for {} inputs, {}",
            count(found.inputs),
            found.data
        ),
        legend: vec![(Mark::Bar, "times the forward pass".to_owned())],
        label: "as many times the forward pass".to_owned(),
        low: 0.5,
        high: largest,
        ticks: ticks.iter().filter(|x| **x <= largest).map(tick).collect(),
        logarithmic: true,
        reference: Some(1.0),
        rows,
    }
    .svg()
}
