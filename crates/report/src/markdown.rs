//! Coverage as Markdown, for pull requests.

use npcov::coverage::{Difference, Report, SuiteReport, Values};

use crate::coverage::label;
use crate::difference::{fewer, notes};
use crate::number::{change, count};
use crate::report::{Column, HOW_TO_READ, Row, columns, rows};
use crate::report::{classes, clusters, layers, most};
use crate::visible::on_one_line;

/// Classes that are named.
const MOST_CLASSES: usize = 10;

/// What suites cover, for a pull request: the shares, what changed and what is thin; the rest folds
/// out.
pub fn markdown(report: &Report, difference: Option<&Difference>) -> String {
    let mut text = "### Neuron path coverage\n\n".to_owned();
    if difference.is_some_and(|difference| difference.model_changed) {
        text += "**Model changed.**\n\n";
    }
    text += &table(report, difference, is_shown);
    let mut points = Vec::new();
    for suite in &report.suites {
        points.extend(thin(suite));
    }
    for suite in difference.map_or(&[][..], |difference| &difference.suites) {
        if !suite.classes.is_empty() {
            let name = escape(&suite.name);
            points.push(format!(
                "Fewer inputs in **{name}**: {}",
                escape(&fewer(suite))
            ));
        }
    }
    let notes = difference.map_or(Vec::new(), notes);
    points.extend(notes.iter().map(|note| escape(note)));
    points.extend(report.warnings.iter().map(|warning| escape(warning)));
    if !points.is_empty() {
        text.push('\n');
    }
    for point in points {
        text += &format!("- {point}\n");
    }
    text + &details(report, difference)
}

/// What stands in the first table: what is a share.
fn is_shown(report: &Report, row: &Row<'_>) -> bool {
    match row {
        Row::Head | Row::Inputs | Row::Accuracy => true,
        Row::Criterion(name) => report.is_share(name),
        Row::Unusual(_) => false,
    }
}

/// The criteria as a table; the value of each suite carries its change.
fn table(
    report: &Report,
    difference: Option<&Difference>,
    keep: impl Fn(&Report, &Row<'_>) -> bool,
) -> String {
    let columns: Vec<Column<'_>> = columns(report)
        .into_iter()
        .filter(|column| !matches!(column, Column::Reachable))
        .collect();
    let mut text = String::new();
    for row in rows(report).iter().filter(|row| keep(report, row)) {
        let cell = |column: &Column<'_>| {
            let shown = escape(&row.cell(report, column));
            let change = match column {
                Column::Suite(suite) => difference.and_then(|d| moved(report, d, suite, row)),
                _ => None,
            };
            change.map_or(shown.clone(), |change| format!("{shown} {change}"))
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        text += &format!("| {} | {} |\n", escape(&row.title()), cells.join(" | "));
        if matches!(row, Row::Head) {
            text += &format!("|---|{}\n", "--:|".repeat(columns.len()));
        }
    }
    text
}

/// How a value of a suite changed, with an arrow.
fn moved(
    report: &Report,
    difference: &Difference,
    suite: &SuiteReport,
    row: &Row<'_>,
) -> Option<String> {
    let changes = difference.suite(&suite.name)?;
    let (size, share) = match row {
        Row::Inputs => (changes.inputs.new as f64 - changes.inputs.old as f64, false),
        Row::Accuracy => (changes.accuracy?.change, true),
        Row::Criterion(name) => {
            let share = report.is_share(name);
            (changes.criteria.get(name)?.change, share)
        }
        _ => return None,
    };
    let shown = change(size, share);
    Some(match shown.as_bytes().first() {
        Some(b'+') => format!("▲ {shown}"),
        Some(b'-') => format!("▼ {shown}"),
        _ => "=".to_owned(),
    })
}

fn thin(suite: &SuiteReport) -> Option<String> {
    let thin: Vec<_> = suite.classes.iter().filter(|class| class.thin).collect();
    if thin.is_empty() {
        return None;
    }
    let class = |class: &&npcov::coverage::ClassCoverage| {
        let name = class
            .name
            .as_ref()
            .map_or(String::new(), |n| format!(" ({n})"));
        format!("{}{name}: {}", class.class, count(class.inputs))
    };
    let mut names: Vec<String> = thin.iter().take(MOST_CLASSES).map(class).collect();
    if let Some(more @ 1..) = thin.len().checked_sub(MOST_CLASSES) {
        names.push(format!("and {more} more"));
    }
    let (suite, names) = (escape(&suite.name), escape(&names.join(", ")));
    Some(format!("Classes of **{suite}** with few inputs: {names}"))
}

/// What folds out: other criteria, and what is behind the numbers.
fn details(report: &Report, difference: Option<&Difference>) -> String {
    let mut text = "\n<details>\n<summary>Details</summary>\n\n".to_owned();
    if report.suites.iter().any(|s| !s.baselines.0.is_empty()) {
        text += &format!("{}\n\n", HOW_TO_READ.replace('\n', " "));
    }
    let rest = |report: &Report, row: &Row<'_>| matches!(row, Row::Head) || !is_shown(report, row);
    if rows(report).iter().filter(|row| rest(report, row)).count() > 1 {
        text += &format!("{}\n", table(report, difference, rest));
    }
    for suite in &report.suites {
        let things = difference
            .and_then(|d| d.suite(&suite.name))
            .map(|s| &s.things);
        let things = things.filter(|things| !things.0.is_empty());
        text += &block("lost and new in", suite, things.map(lost_and_new));
        text += &block("classes of", suite, classes(suite));
        text += &block("thin clusters of", suite, clusters(suite));
        text += &block("layers of", suite, layers(suite));
        text += &block("inputs that add most to", suite, most(suite));
    }
    text + "</details>\n"
}

fn lost_and_new(things: &Values<npcov::coverage::Things>) -> String {
    let line = |(name, things): &(String, npcov::coverage::Things)| {
        let (lost, new) = (count(things.lost), count(things.new));
        format!("  {}: {lost} lost, {new} new\n", label(name))
    };
    things.0.iter().map(line).collect()
}

/// Lines that keep their columns.
fn block(title: &str, suite: &SuiteReport, lines: Option<String>) -> String {
    match lines {
        // A line of its own cannot start with the fence: lines are indented, or end a table.
        Some(lines) => format!(
            "{title} {}\n\n````text\n{lines}````\n\n",
            escape(&suite.name)
        ),
        None => String::new(),
    }
}

/// Text that Markdown leaves alone, also in a table.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in on_one_line(text).chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(character);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn shares_changes_and_thin_classes_come_first() {
        let text = markdown(&example::two_suites(), Some(&example::difference()));
        let first = "\
### Neuron path coverage

| criterion | unit\\|test | random | field | together | training |
|---|--:|--:|--:|--:|--:|
| inputs | 10 ▼ -5 | 10 | 90 | 100 | 50 |
| accuracy | 90.00% ▲ +5.00 |  |  |  |  |
| SNPC | 50.00% ▼ -5.00 | 60.00% | 20.00% | 55.00% | 80.00% |

- Classes of **unit\\|test** with few inputs: 1 (&lt;dress&gt;): 0
- Fewer inputs in **unit\\|test**: class 1 (&lt;dress&gt;): 0 instead of 5
- suite \\`gone\\` is only in the earlier state
- suite \\`field\\` is not in the earlier state
- measured in one of both states only: nlc
- layer 2 is beyond

<details>
";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("| TKNP | 7 = |"), "{text}");
        assert!(text.contains("  SNPC: 6 lost, 1 new\n"), "{text}");
        assert!(text.ends_with("</details>\n"));
    }

    #[test]
    fn another_model_is_said_first() {
        let changed = Difference {
            model_changed: true,
            graph_changed: true,
            ..example::difference()
        };
        let text = markdown(&example::two_suites(), Some(&changed));
        assert!(text.contains("**Model changed.**\n"), "{text}");
        assert!(!markdown(&example::two_suites(), None).contains('▼'));
    }

    #[test]
    fn names_cannot_break_the_table() {
        assert_eq!(
            escape("a|b\n<c> *d* _e_"),
            "a\\|b &lt;c&gt; \\*d\\* \\_e\\_"
        );
    }
}
