//! Coverage as Markdown, for pull requests.

use npcov::artefact::ScoreKind;
use npcov::coverage::{Difference, Report, SuiteReport, Values};

use crate::coverage::{classes, headlines, label, source, value};
use crate::difference::{fewer, notes};
use crate::number::{change, count, decimals, percent, worth};
use crate::report::{layers, most, unusual};
use crate::thin;
use crate::visible::on_one_line;

/// Gaps of a suite that are named.
const MOST_GAPS: usize = 10;

/// How to read the columns beside a suite's.
const HOW_TO_READ: &str = "\
A random sample has as many training inputs as the suite: what it covers on average. A suite below \
it tries out less than chance would; what training does not reach may be out of reach for any input.";

/// What suites cover, for a pull request: the shares, what changed and what is thin; the rest folds
/// out.
pub fn markdown(report: &Report, difference: Option<&Difference>) -> String {
    linked_markdown(report, difference, None)
}

/// The same, with a link to the pages of the report where there are such.
pub fn linked_markdown(
    report: &Report,
    difference: Option<&Difference>,
    link: Option<&str>,
) -> String {
    let mut text = "### Neuron path coverage\n\n".to_owned();
    if difference.is_some_and(|difference| difference.model_changed) {
        text += "**Model changed.**\n\n";
    }
    for headline in headlines(report) {
        text += &format!("{}\n\n", escape(&headline));
    }
    text += &table(report, difference, is_shown);
    let mut points = Vec::new();
    for suite in &report.suites {
        let name = escape(&suite.name);
        let gaps = thin::lines(&suite.thin(), MOST_GAPS);
        points.extend(
            gaps.iter()
                .map(|gap| format!("Gap in **{name}**: {}", escape(gap))),
        );
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
    if let Some(link) = link {
        // Angle brackets hold an address with any characters but themselves.
        let address = link.replace(['<', '>', '\n', '\r'], "");
        text += &format!(
            "\n[The report with pictures](<{}>)\n",
            on_one_line(&address)
        );
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
    let columns = columns(report);
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

/// A column of the table of criteria.
enum Column<'a> {
    /// A suite.
    Suite(&'a SuiteReport),
    /// A random sample of as many training inputs.
    Random(&'a SuiteReport),
    /// All suites.
    Together(&'a Values),
    /// The training inputs.
    Training,
}

/// The columns of the table of criteria. Those that would be empty are left out.
fn columns(report: &Report) -> Vec<Column<'_>> {
    let mut columns = Vec::new();
    for suite in &report.suites {
        columns.push(Column::Suite(suite));
        if suite.baselines.0.iter().any(|(_, y)| y.random.is_some()) {
            columns.push(Column::Random(suite));
        }
    }
    columns.extend(report.together.as_ref().map(Column::Together));
    if report.suites.iter().any(|s| !s.baselines.0.is_empty()) {
        columns.push(Column::Training);
    }
    columns
}

/// A row of the table of criteria.
enum Row<'a> {
    Head,
    Inputs,
    Accuracy,
    Criterion(&'a str),
    Unusual(ScoreKind),
}

/// The rows of the table of criteria.
fn rows(report: &Report) -> Vec<Row<'_>> {
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
    fn title(&self) -> String {
        match self {
            Row::Head => "criterion".to_owned(),
            Row::Inputs => "inputs".to_owned(),
            Row::Accuracy => "accuracy".to_owned(),
            Row::Criterion(name) => label(name),
            Row::Unusual(kind) => kind.name().to_owned(),
        }
    }

    /// What it says in a column; empty where it says nothing.
    fn cell(&self, report: &Report, column: &Column<'_>) -> String {
        let baselines = |name: &str| report.suites.iter().find_map(|s| s.baselines.get(name));
        let shown = |name: &str, number: f64| match report.is_share(name) {
            true => percent(number),
            false => worth(number),
        };
        match (self, column) {
            (Row::Head, Column::Suite(suite)) => suite.name.clone(),
            (Row::Head, Column::Random(_)) => "random sample".to_owned(),
            (Row::Head, Column::Together(_)) => "together".to_owned(),
            (Row::Head, Column::Training) => "training".to_owned(),
            (Row::Inputs, Column::Suite(suite) | Column::Random(suite)) => count(suite.inputs),
            (Row::Inputs, Column::Together(_)) => {
                count(report.suites.iter().map(|suite| suite.inputs).sum())
            }
            (Row::Inputs, Column::Training) => {
                let all = report.suites.iter().flat_map(|s| &s.baselines.0);
                let most = all.map(|(_, baselines)| baselines.all_inputs).max();
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
                baselines(name).map_or(String::new(), |y| {
                    let training = shown(name, y.training);
                    match y.is_sample() {
                        true => format!("{training} ({})", source(&y)),
                        false => training,
                    }
                })
            }
            (Row::Unusual(kind), Column::Suite(suite)) => unusual(suite, *kind),
            _ => String::new(),
        }
    }
}

/// What folds out: other criteria, and what is behind the numbers.
fn details(report: &Report, difference: Option<&Difference>) -> String {
    let mut text = "\n<details>\n<summary>Details</summary>\n\n".to_owned();
    if report.suites.iter().any(|s| !s.baselines.0.is_empty()) {
        text += &format!("{HOW_TO_READ}\n\n");
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
        text += &block("classes of", suite, classes(suite, false));
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
    fn the_pages_are_linked() {
        let text = linked_markdown(&example::two_suites(), None, Some("a b/<index>.html\n"));
        assert!(
            text.contains("\n[The report with pictures](<a b/index.html>)\n"),
            "{text}"
        );
    }

    #[test]
    fn shares_changes_and_thin_classes_come_first() {
        let text = markdown(&example::two_suites(), Some(&example::difference()));
        let first = "\
### Neuron path coverage

unit\\|test reaches 83.3% (± 5.0%) of what 10 random training inputs reach

field reaches 25.0% of what a sample of 50 training inputs reaches

| criterion | unit\\|test | random sample | field | together | training |
|---|--:|--:|--:|--:|--:|
| inputs | 10 ▼ -5 | 10 | 90 | 100 | 100 |
| accuracy | 90.00% ▲ +5.00 |  |  |  |  |
| SNPC | 50.00% ▼ -5.00 | 60.00% | 20.00% | 55.00% | 80.00% (a sample of 50) |

- Gap in **unit\\|test**: cluster 0 of class 0 (shirt): 1 input where 8.0 are expected
- Gap in **unit\\|test**: class 1 (&lt;dress&gt;): no inputs where 5.9 are expected
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
        let mut changed = example::difference();
        (changed.model_changed, changed.graph_changed) = (true, true);
        let text = markdown(&example::two_suites(), Some(&changed));
        assert!(text.contains("**Model changed.**\n"), "{text}");
        assert!(!markdown(&example::two_suites(), None).contains('▼'));
    }

    #[test]
    fn names_cannot_break_the_table() {
        assert_eq!(
            escape("a|b\n<c> *d* _e_"),
            "a\\|b\\\\n&lt;c&gt; \\*d\\* \\_e\\_"
        );
    }
}
