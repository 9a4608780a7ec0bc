//! Coverage in words.

use npcov::{CoverageReport, SuiteReport};

use crate::table::{Align, Table, grouped};

/// What suites cover, for people to read.
pub fn coverage(report: &CoverageReport) -> String {
    let mut table = Table::new([
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ]);
    table.row(["suite", "inputs", "SNPC", "ANPC", "unknown", "incorrect"]);
    for suite in &report.suites {
        let unknown = suite.unknown.map_or(String::new(), |u| format!("{u:.3}"));
        table.row([
            suite.name.clone(),
            grouped(suite.inputs),
            covered(suite.criteria.snpc),
            covered(suite.criteria.anpc),
            unknown,
            grouped(suite.incorrect),
        ]);
    }
    if let Some(together) = report.together {
        let inputs = report.suites.iter().map(|suite| suite.inputs).sum();
        table.row([
            "together".to_owned(),
            grouped(inputs),
            covered(together.snpc),
            covered(together.anpc),
        ]);
    }
    let mut text = format!("coverage\n{}", table.lines());
    for suite in &report.suites {
        text += &format!("\nclasses of {}\n{}", suite.name, classes(suite));
    }
    text
}

fn classes(suite: &SuiteReport) -> String {
    let mut table = Table::new([
        Align::Right,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
    ]);
    let named = suite.classes.iter().any(|class| class.name.is_some());
    table.row([
        "class",
        if named { "name" } else { "" },
        "inputs",
        "SNPC",
        "ANPC",
    ]);
    for class in &suite.classes {
        table.row([
            class.class.to_string(),
            class.name.clone().unwrap_or_default(),
            grouped(class.inputs),
            covered(class.criteria.snpc),
            covered(class.criteria.anpc),
        ]);
    }
    table.lines()
}

/// A share of buckets. Suites often cover a few percent, and differ by less.
fn covered(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}
