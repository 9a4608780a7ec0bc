//! What changed since an earlier state, in words.

use npcov::coverage::{Change, Difference, Report, SuiteDifference};

use crate::coverage::label;
use crate::number::{change, count, percent, share as one_digit, worth};
use crate::table::{Align, Table};
use crate::thin::lines;
use crate::visible::on_one_line;

/// Classes that are named.
const MOST_CLASSES: usize = 10;

/// What changed since an earlier state, suite by suite.
pub(crate) fn differences(report: &Report, difference: &Difference) -> String {
    let mut text = "since the earlier state".to_owned();
    if difference.model_changed {
        text += " (model changed)";
    }
    text.push('\n');
    for suite in &difference.suites {
        text += &suite_difference(report, suite);
    }
    for note in notes(difference) {
        text += &format!("{note}\n");
    }
    text
}

fn suite_difference(report: &Report, suite: &SuiteDifference) -> String {
    let mut align = vec![Align::Left];
    align.extend([Align::Right; 5]);
    let mut table = Table::new(align);
    let counted = !suite.things.0.is_empty();
    let mut heads = vec![
        title(suite),
        "earlier".into(),
        "now".into(),
        "change".into(),
    ];
    heads.extend(
        ["lost", "new"]
            .iter()
            .filter(|_| counted)
            .map(|s| (*s).to_owned()),
    );
    table.row(heads);
    let inputs = suite.inputs;
    let grown = inputs.new as f64 - inputs.old as f64;
    let cells = [count(inputs.old), count(inputs.new), change(grown, false)];
    table.row(std::iter::once("inputs".to_owned()).chain(cells));
    if let Some(accuracy) = suite.accuracy {
        let cells = [
            percent(accuracy.old),
            percent(accuracy.new),
            change(accuracy.change, true),
        ];
        table.row(std::iter::once("accuracy".to_owned()).chain(cells));
    }
    for (name, values) in &suite.criteria.0 {
        let share = report.is_share(name);
        let shown = |value: f64| if share { percent(value) } else { worth(value) };
        let mut cells = vec![label(name), shown(values.old), shown(values.new)];
        cells.push(change(values.change, share));
        if let Some(things) = suite.things.get(name) {
            cells.extend([count(things.lost), count(things.new)]);
        }
        table.row(cells);
        if let Some(relative) = suite.relative.get(name) {
            let Change {
                old,
                new,
                change: by,
            } = relative.change;
            let cells = [one_digit(old), one_digit(new), change(by, true)];
            table.row(std::iter::once("  of random".to_owned()).chain(cells));
        }
    }
    let mut text = table.lines();
    for gap in lines(&suite.thinned, MOST_CLASSES) {
        text += &format!("  became thin: {gap}\n");
    }
    if !suite.classes.is_empty() {
        text += &format!("  fewer inputs: {}\n", fewer(suite));
    }
    text
}

/// The suite, and what it was called.
fn title(suite: &SuiteDifference) -> String {
    let name = on_one_line(&suite.name);
    match suite.name == suite.earlier {
        true => name,
        false => format!("{name}, earlier {}", on_one_line(&suite.earlier)),
    }
}

/// Classes that have fewer inputs, those that have none first.
pub(crate) fn fewer(suite: &SuiteDifference) -> String {
    let mut classes: Vec<_> = suite.classes.iter().collect();
    classes.sort_by_key(|class| class.inputs.new > 0);
    let class = |class: &&npcov::coverage::ClassDifference| {
        let name = class
            .name
            .as_ref()
            .map_or(String::new(), |n| format!(" ({})", on_one_line(n)));
        let (old, new) = (count(class.inputs.old), count(class.inputs.new));
        format!("class {}{name}: {new} instead of {old}", class.class)
    };
    let shown: Vec<String> = classes.iter().take(MOST_CLASSES).map(class).collect();
    let more = classes.len() - shown.len();
    match more {
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

/// What could not be compared, and why.
pub fn notes(difference: &Difference) -> Vec<String> {
    let mut notes = Vec::new();
    if difference.graph_changed {
        let what = if difference.model_changed {
            "model"
        } else {
            "decision graph"
        };
        notes.push(format!(
            "the {what} changed: values can be compared, single buckets cannot"
        ));
    }
    for choice in &difference.choices {
        notes.push(format!(
            "another choice, so values mean something else: {choice}"
        ));
    }
    for name in &difference.missing {
        notes.push(format!("suite `{name}` is only in the earlier state"));
    }
    for name in &difference.added {
        notes.push(format!("suite `{name}` is not in the earlier state"));
    }
    if !difference.not_compared.is_empty() {
        let names = difference.not_compared.join(", ");
        notes.push(format!("measured in one of both states only: {names}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn values_then_and_now() {
        let text = differences(&example::two_suites(), &example::difference());
        let expected = "\
since the earlier state
  unit|test    earlier     now  change  lost  new
  inputs            15      10      -5
  accuracy      85.00%  90.00%   +5.00
  SNPC          55.00%  50.00%   -5.00     6    1
    of random    95.0%   83.3%  -11.67
  TKNP               7       7       0
  fewer inputs: class 1 (<dress>): 0 instead of 5
suite `gone` is only in the earlier state
suite `field` is not in the earlier state
measured in one of both states only: nlc
";
        assert_eq!(text, expected);
    }

    #[test]
    fn another_model_is_said() {
        let mut changed = example::difference();
        (changed.model_changed, changed.graph_changed) = (true, true);
        changed.choices = vec!["snpc-buckets: 10, not 200".to_owned()];
        let text = differences(&example::two_suites(), &changed);
        assert!(text.starts_with("since the earlier state (model changed)\n"));
        assert!(text.contains("the model changed: values can be compared"));
        assert!(text.contains("snpc-buckets: 10, not 200"));
    }
}
