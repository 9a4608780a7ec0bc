//! Coverage in words.

use npcov::artefact::ScoreKind;
use npcov::coverage::{Report, SuiteReport, Values};

use crate::number::{amount, count, percent};
use crate::report::unusual;
use crate::table::{Align, Table};
use crate::visible::on_one_line;

/// What suites cover, for people to read: the criteria, and the classes by those that look at them.
pub fn coverage(report: &Report) -> String {
    let mut text = format!("coverage\n{}", criteria(report).lines());
    for suite in &report.suites {
        text += &format!(
            "\nclasses of {}\n{}",
            on_one_line(&suite.name),
            classes(suite)
        );
    }
    text
}

/// A line for each criterion, a column for each suite.
pub(crate) fn criteria(report: &Report) -> Table {
    let columns = report.suites.len() + usize::from(report.together.is_some());
    let mut align = vec![Align::Left];
    align.extend(vec![Align::Right; columns]);
    let mut table = Table::new(align);
    let row = |first: &str, each: &dyn Fn(&SuiteReport) -> String, together: String| {
        let mut cells = vec![first.to_owned()];
        cells.extend(report.suites.iter().map(each));
        cells.extend(report.together.iter().map(|_| together.clone()));
        cells
    };
    let inputs: usize = report.suites.iter().map(|suite| suite.inputs).sum();
    table.row(row(
        "criterion",
        &|suite| suite.name.clone(),
        "together".to_owned(),
    ));
    table.row(row("inputs", &|suite| count(suite.inputs), count(inputs)));
    if report.suites.iter().any(|suite| suite.accuracy.is_some()) {
        let accuracy = |suite: &SuiteReport| suite.accuracy.map_or(String::new(), percent);
        table.row(row("accuracy", &accuracy, String::new()));
    }
    let names = report.suites.first().map_or(&[][..], |s| &s.criteria.0);
    for (name, _) in names {
        let number = |values: &Values| value(name, values);
        let together = report.together.as_ref().map_or(String::new(), number);
        table.row(row(
            &label(name),
            &|suite| number(&suite.criteria),
            together,
        ));
    }
    for kind in ScoreKind::ALL {
        if report
            .suites
            .iter()
            .any(|suite| suite.unusual(kind).is_some())
        {
            table.row(row(
                kind.name(),
                &|suite| unusual(suite, kind),
                String::new(),
            ));
        }
    }
    table
}

fn classes(suite: &SuiteReport) -> String {
    let names = suite.classes.first().map_or(&[][..], |c| &c.criteria.0);
    let mut align = vec![Align::Right, Align::Left, Align::Right];
    align.extend(vec![Align::Right; names.len()]);
    let mut table = Table::new(align);
    let named = suite.classes.iter().any(|class| class.name.is_some());
    let heads = ["class", if named { "name" } else { "" }, "inputs"].map(str::to_owned);
    let criteria = names.iter().map(|(name, _)| label(name));
    table.row(heads.into_iter().chain(criteria));
    for class in &suite.classes {
        let cells = [
            class.class.to_string(),
            class.name.clone().unwrap_or_default(),
            count(class.inputs),
        ];
        let values = class
            .criteria
            .0
            .iter()
            .map(|(_, amount)| percent(amount.value()));
        table.row(cells.into_iter().chain(values));
    }
    table.lines()
}

/// A criterion's name as it is shown: abbreviations in capitals.
pub(crate) fn label(name: &str) -> String {
    let (first, rest) = name.split_at(name.find([':', '@']).unwrap_or(name.len()));
    let short = first.len() <= 4 && first.chars().all(|c| c.is_ascii_lowercase());
    let first = if short {
        first.to_ascii_uppercase()
    } else {
        first.to_owned()
    };
    match rest.strip_prefix('@') {
        Some(threshold) => format!("{first} {threshold}"),
        None => first + rest,
    }
}

/// What a criterion says; empty where it says nothing.
pub(crate) fn value(name: &str, values: &Values) -> String {
    values.get(name).map_or(String::new(), amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_are_named_as_people_write_them() {
        let names = [
            "snpc",
            "nc@0.5",
            "kmnc:sections=10",
            "deepgini",
            "max-softmax",
        ];
        let shown = names.map(label);
        let expected = [
            "SNPC",
            "NC 0.5",
            "KMNC:sections=10",
            "deepgini",
            "max-softmax",
        ];
        assert_eq!(shown, expected);
    }
}
