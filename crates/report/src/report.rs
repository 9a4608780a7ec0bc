//! The long report: coverage beside baselines, and what is behind the numbers.

use npcov::artefact::ScoreKind;
use npcov::coverage::{Baselines, Difference, Report, SuiteReport, Values};

use crate::coverage::{label, value};
use crate::difference::differences;
use crate::number::{count, decimals, percent, worth};
use crate::table::{Align, Table};
use crate::visible::on_one_line;

/// Clusters that are listed.
const MOST_CLUSTERS: usize = 20;

/// How to read the columns beside a suite's.
pub(crate) const HOW_TO_READ: &str = "\
random is what as many training inputs, drawn at random, cover on average; training is what all of
them cover, and reachable how many things that are. A suite below random tries out less than chance
would; what is not reachable may be out of reach for any input.";

/// What suites cover beside what other inputs do, by class, cluster and layer, and what changed
/// since an earlier state, for people to read.
pub fn report(report: &Report, difference: Option<&Difference>) -> String {
    let mut text = format!("coverage\n{}", criteria(report).lines());
    if report.suites.iter().any(|s| !s.baselines.0.is_empty()) {
        text += &format!("{HOW_TO_READ}\n");
    }
    if let Some(difference) = difference {
        text += &format!("\n{}", differences(report, difference));
    }
    for suite in &report.suites {
        text += &section("classes of", suite, classes(suite));
        text += &section("thin clusters of", suite, clusters(suite));
        text += &section("layers of", suite, layers(suite));
        text += &section("inputs that add most to", suite, most(suite));
    }
    if !report.warnings.is_empty() {
        text += "\nwarnings\n";
    }
    for warning in &report.warnings {
        text += &format!("  {warning}\n");
    }
    text
}

fn section(title: &str, suite: &SuiteReport, lines: Option<String>) -> String {
    match lines {
        Some(lines) => format!("\n{title} {}\n{lines}", on_one_line(&suite.name)),
        None => String::new(),
    }
}

/// A line for each criterion: for each suite its value and that of a random sample, then what does
/// not depend on the suite.
fn criteria(report: &Report) -> Table {
    let columns = columns(report);
    let mut align = vec![Align::Left];
    align.extend(vec![Align::Right; columns.len()]);
    let mut table = Table::new(align);
    for row in rows(report) {
        table.row(std::iter::once(row.title()).chain(columns.iter().map(|c| row.cell(report, c))));
    }
    table
}

/// A column of the table of criteria.
pub(crate) enum Column<'a> {
    /// A suite.
    Suite(&'a SuiteReport),
    /// A random sample of as many training inputs.
    Random(&'a SuiteReport),
    /// All suites.
    Together(&'a Values),
    /// The training inputs.
    Training,
    /// Things that training inputs cover, of all there are.
    Reachable,
}

/// The columns of the table of criteria. Those that would be empty are left out.
pub(crate) fn columns(report: &Report) -> Vec<Column<'_>> {
    let mut columns = Vec::new();
    for suite in &report.suites {
        columns.push(Column::Suite(suite));
        if suite.baselines.0.iter().any(|(_, y)| y.random.is_some()) {
            columns.push(Column::Random(suite));
        }
    }
    columns.extend(report.together.as_ref().map(Column::Together));
    if report.suites.iter().any(|s| !s.baselines.0.is_empty()) {
        columns.extend([Column::Training, Column::Reachable]);
    }
    columns
}

/// A row of the table of criteria.
pub(crate) enum Row<'a> {
    Head,
    Inputs,
    Accuracy,
    Criterion(&'a str),
    Unusual(ScoreKind),
}

/// The rows of the table of criteria.
pub(crate) fn rows(report: &Report) -> Vec<Row<'_>> {
    let mut rows = vec![Row::Head, Row::Inputs];
    if report.suites.iter().any(|suite| suite.accuracy.is_some()) {
        rows.push(Row::Accuracy);
    }
    let names = report.suites.first().map_or(&[][..], |s| &s.criteria.0);
    rows.extend(names.iter().map(|(name, _)| Row::Criterion(name)));
    let is_told = |kind: &ScoreKind| report.suites.iter().any(|s| s.unusual(*kind).is_some());
    let told = ScoreKind::ALL.into_iter().filter(is_told);
    rows.extend(told.map(Row::Unusual));
    rows
}

impl Row<'_> {
    /// What the row is about.
    pub(crate) fn title(&self) -> String {
        match self {
            Row::Head => "criterion".to_owned(),
            Row::Inputs => "inputs".to_owned(),
            Row::Accuracy => "accuracy".to_owned(),
            Row::Criterion(name) => label(name),
            Row::Unusual(kind) => kind.name().to_owned(),
        }
    }

    /// What it says in a column; empty where it says nothing.
    pub(crate) fn cell(&self, report: &Report, column: &Column<'_>) -> String {
        let baselines = |name: &str| report.suites.iter().find_map(|s| s.baselines.get(name));
        let shown = |name: &str, number: f64| match report.is_share(name) {
            true => percent(number),
            false => worth(number),
        };
        match (self, column) {
            (Row::Head, Column::Suite(suite)) => suite.name.clone(),
            (Row::Head, Column::Random(_)) => "random".to_owned(),
            (Row::Head, Column::Together(_)) => "together".to_owned(),
            (Row::Head, Column::Training) => "training".to_owned(),
            (Row::Head, Column::Reachable) => "reachable".to_owned(),
            (Row::Inputs, Column::Suite(suite) | Column::Random(suite)) => count(suite.inputs),
            (Row::Inputs, Column::Together(_)) => {
                count(report.suites.iter().map(|suite| suite.inputs).sum())
            }
            (Row::Inputs, Column::Training) => {
                let all = report.suites.iter().flat_map(|s| &s.baselines.0);
                let most = all.map(|(_, baselines)| baselines.inputs).max();
                most.map_or(String::new(), |most| count(most as usize))
            }
            (Row::Accuracy, Column::Suite(suite)) => suite.accuracy.map_or(String::new(), percent),
            (Row::Criterion(name), Column::Suite(suite)) => value(name, &suite.criteria),
            (Row::Criterion(name), Column::Random(suite)) => {
                let random = suite.baselines.get(name).and_then(|y| y.random);
                random.map_or(String::new(), |random| match report.is_share(name) {
                    true => percent(random),
                    // A mean of counts.
                    false => decimals(random, 1),
                })
            }
            (Row::Criterion(name), Column::Together(together)) => value(name, together),
            (Row::Criterion(name), Column::Training) => {
                baselines(name).map_or(String::new(), |y| shown(name, y.training))
            }
            (Row::Criterion(name), Column::Reachable) => {
                baselines(name).map_or(String::new(), |y: Baselines| {
                    match report.buckets.get(name) {
                        Some(all) => {
                            let reachable = count(y.reachable as usize);
                            format!("{reachable} of {}", count(all as usize))
                        }
                        None => count(y.reachable as usize),
                    }
                })
            }
            (Row::Unusual(kind), Column::Suite(suite)) => unusual(suite, *kind),
            _ => String::new(),
        }
    }
}

/// How many inputs have an unusually high score, and how many would be usual.
pub(crate) fn unusual(suite: &SuiteReport, kind: ScoreKind) -> String {
    let found = suite.unusual(kind);
    found.map_or(String::new(), |found| {
        let expected = count(found.expected.round() as usize);
        format!("{} ({expected} usual)", count(found.inputs))
    })
}

/// The classes; thin ones are marked.
pub(crate) fn classes(suite: &SuiteReport) -> Option<String> {
    let first = suite.classes.first()?;
    let names = &first.criteria.0;
    let mut align = vec![Align::Right, Align::Left, Align::Right];
    align.extend(vec![Align::Right; names.len()]);
    align.push(Align::Left);
    let mut table = Table::new(align);
    let named = suite.classes.iter().any(|class| class.name.is_some());
    let heads = ["class", if named { "name" } else { "" }, "inputs"].map(str::to_owned);
    table.row(
        heads
            .into_iter()
            .chain(names.iter().map(|(name, _)| label(name))),
    );
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
        let thin = if class.thin { "thin" } else { "" };
        table.row(cells.into_iter().chain(values).chain([thin.to_owned()]));
    }
    Some(table.lines())
}

/// The clusters that are thin, the most frequent ones first.
pub(crate) fn clusters(suite: &SuiteReport) -> Option<String> {
    let mut thin: Vec<_> = suite.clusters.iter().filter(|c| c.thin).collect();
    if thin.is_empty() {
        return None;
    }
    thin.sort_by(|a, b| b.expected.total_cmp(&a.expected));
    let mut table = Table::new([Align::Right; 4]);
    table.row(["cluster", "class", "inputs", "expected"]);
    for cluster in thin.iter().take(MOST_CLUSTERS) {
        table.row([
            cluster.cluster.to_string(),
            cluster.class.to_string(),
            count(cluster.inputs),
            decimals(cluster.expected, 1),
        ]);
    }
    let mut text = table.lines();
    if let Some(more @ 1..) = thin.len().checked_sub(MOST_CLUSTERS) {
        text += &format!("  and {more} more\n");
    }
    Some(text)
}

/// The layers, by criteria that look at them one by one.
pub(crate) fn layers(suite: &SuiteReport) -> Option<String> {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in suite.layers.iter().flat_map(|layer| &layer.criteria.0) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return None;
    }
    let mut align = vec![Align::Right, Align::Left];
    align.extend(vec![Align::Right; names.len()]);
    let mut table = Table::new(align);
    let heads = ["layer", "name"].map(str::to_owned);
    table.row(
        heads
            .into_iter()
            .chain(names.iter().map(|name| label(name))),
    );
    for layer in &suite.layers {
        let cells = [layer.layer.to_string(), layer.name.clone()];
        let values = names.iter().map(|name| value(name, &layer.criteria));
        table.row(cells.into_iter().chain(values));
    }
    Some(table.lines())
}

/// The inputs that cover most that no other does.
pub(crate) fn most(suite: &SuiteReport) -> Option<String> {
    let first = suite.most.first()?;
    // Positions alone are clear as long as there is one dataset.
    let several = suite.most.iter().any(|input| input.data != first.data);
    let mut table = Table::new([
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ]);
    table.row([
        "input",
        "alone",
        "prediction",
        "label",
        if several { "data" } else { "" },
    ]);
    for input in &suite.most {
        let data = input.data.get(..12).unwrap_or(&input.data);
        table.row([
            input.input.to_string(),
            count(input.alone),
            input.prediction.to_string(),
            input.label.map_or(String::new(), |label| label.to_string()),
            if several {
                data.to_owned()
            } else {
                String::new()
            },
        ]);
    }
    Some(table.lines() + "alone: buckets of SNPC that no other input of the suite covers\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, example, json};
    use npcov::coverage::{Change, ComparedReport};

    #[test]
    fn values_stand_beside_yardsticks() {
        let text = report(&example::two_suites(), None);
        let expected = "\
coverage
  criterion  unit|test  random  field  together  training  reachable
  inputs            10      10     90       100        50
  accuracy      90.00%
  SNPC          50.00%  60.00%  20.00%   55.00%    80.00%  80 of 100
";
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeeze(&text).starts_with(&squeeze(expected)), "{text}");
        assert!(text.contains("thin clusters of unit|test\n"), "{text}");
        assert!(
            text.contains("inputs that add most to unit|test\n"),
            "{text}"
        );
        assert!(
            text.ends_with("\nwarnings\n  layer 2 is beyond\n"),
            "{text}"
        );
    }

    #[test]
    fn reports_with_and_without_a_difference_survive_json() {
        let mut changed = example::difference();
        let change = Change::between(0.5, 0.25);
        changed.suites[0].accuracy = Some(change);
        changed.suites[0].criteria = example::values(&[("snpc", change)]);
        for difference in [None, Some(changed)] {
            let compared = ComparedReport {
                report: example::two_suites(),
                difference,
            };
            let text = json(&compared);
            let read: Document<ComparedReport> = serde_json::from_str(&text).unwrap();
            // Amounts are read as numbers, and written as those.
            assert_eq!(json(&read.result), text);
            assert_eq!(read.result.difference, compared.difference);
        }
    }
}
