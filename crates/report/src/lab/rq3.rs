//! RQ3 in words and as a picture.

use npcov_lab::{Family, Rq3, Rq3Family};

use super::{facts, numbers};
use crate::coverage::label;
use crate::number::{count, hundredths, share};
use crate::plot::{Axis, Line, Panel, Panels, Series};
use crate::visible::on_one_line;

/// How criteria react to errors in a suite, for people to read.
pub fn rq3(found: &Rq3) -> String {
    let rows = [
        ("suites", format!("{} inputs", count(found.size))),
        (
            "repetitions",
            format!("{}, seed {}", found.repetitions, found.seed),
        ),
        (
            "misclassified",
            format!("{} inputs of the data", count(found.misclassified)),
        ),
        (
            "adversaries",
            format!("PGD, epsilon {}, {} steps", found.epsilon, found.steps),
        ),
    ];
    let mut text = format!(
        "RQ3: are criteria sensitive to errors? {}\n{}",
        on_one_line(&found.data),
        facts(&rows)
    );
    for family in &found.families {
        let (kind, scale) = (words(family.family), scale(family.family));
        text += &format!("\n{kind}: {scale}\n");
        text += &curves(found, family);
        text += &shortages(family);
    }
    text
}

fn words(family: Family) -> &'static str {
    match family {
        Family::Natural => "natural errors",
        Family::Adversarial => "adversaries",
        Family::Benign => "other benign inputs (control)",
    }
}

/// What changes are divided by.
fn scale(family: Family) -> &'static str {
    match family {
        Family::Benign => "coverage, to the scale of errors",
        _ => "coverage, normalised",
    }
}

fn curves(found: &Rq3, family: &Rq3Family) -> String {
    let mut table = numbers(found.percents.len() + 3);
    let head = found.percents.iter().map(|p| format!("{p}%"));
    let head = std::iter::once("criterion".to_owned()).chain(head);
    table.row(head.chain(["rises".to_owned(), "falls".to_owned()]));
    for curve in &family.curves {
        let row = std::iter::once(label(&curve.criterion));
        let row = row.chain(curve.normalised.iter().map(|x| hundredths(*x)));
        table.row(row.chain([share(curve.rising), share(curve.falling)]));
    }
    table.lines()
}

fn shortages(family: &Rq3Family) -> String {
    let mut text = String::new();
    if family.filled > 0 {
        text += &format!(
            "note: classes had too few; for up to {} inputs those of other classes stand in\n",
            family.filled
        );
    }
    let last = (family.wanted.last(), family.replaced.last());
    if let (Some(wanted), Some(replaced)) = last
        && replaced < wanted
    {
        text += &format!(
            "note: there were only {replaced} of the {wanted} inputs that the largest share needs\n"
        );
    }
    text
}

/// The same as a picture: a panel for each criterion.
pub fn rq3_plot(found: &Rq3) -> String {
    let names = found.families.first().map_or(&[][..], |f| &f.curves);
    let number = |x: f64| (x, x.to_string());
    let y = Axis {
        label: String::new(),
        low: -1.0,
        high: 1.0,
        ticks: [-1.0, -0.5, 0.0, 0.5, 1.0].map(number).to_vec(),
    };
    let panel = |name: &String| Panel {
        title: label(name),
        x: Axis::through("errors in per cent", &found.percents),
        y: y.clone(),
        lines: (0..found.families.len())
            .map(|series| {
                let mut curves = found.families[series].curves.iter();
                let curve = curves.find(|curve| curve.criterion == *name);
                let points = curve.map_or(&[][..], |curve| &curve.normalised);
                Line {
                    series,
                    points: found
                        .percents
                        .iter()
                        .copied()
                        .zip(points.iter().copied())
                        .collect(),
                }
            })
            .collect(),
    };
    Panels {
        title: format!(
            "RQ3: normalised coverage of suites with errors, {}",
            found.data
        ),
        columns: 4,
        series: found
            .families
            .iter()
            .map(|family| Series {
                name: words(family.family).to_owned(),
                dashed: family.family == Family::Benign,
            })
            .collect(),
        panels: names.iter().map(|curve| panel(&curve.criterion)).collect(),
    }
    .svg()
}
