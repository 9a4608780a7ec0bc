//! The long report: everything that was measured, and what changed.

use npcov::artefact::ScoreKind;
use npcov::coverage::{Baselines, Difference, Report, SuiteReport};
use npcov::criteria::find;

use crate::coverage::{coverage, label, source, value};
use crate::difference::differences;
use crate::number::{count, decimals, percent, worth};
use crate::table::{Align, Table};
use crate::visible::on_one_line;

/// What suites cover beside what other inputs do, what they miss, and what changed since an earlier
/// state, for people to read. With `all`, everything that was measured.
pub fn report(report: &Report, difference: Option<&Difference>, all: bool) -> String {
    let mut text = coverage(report, all);
    if let Some(difference) = difference {
        text += &format!("\n{}", differences(report, difference));
    }
    for suite in report.suites.iter().filter(|_| all) {
        text += &section("layers of", suite, layers(suite));
        text += &section("inputs that add most to", suite, most(suite));
    }
    if !report.warnings.is_empty() {
        text += "\nwarnings\n";
    }
    for warning in &report.warnings {
        text += &format!("  {}\n", on_one_line(warning));
    }
    text
}

fn section(title: &str, suite: &SuiteReport, lines: Option<String>) -> String {
    match lines {
        Some(lines) => format!("\n{title} {}\n{lines}", on_one_line(&suite.name)),
        None => String::new(),
    }
}

/// A line for each criterion: what a suite is worth, beside what training inputs are, and what those
/// are.
pub(crate) fn criteria(report: &Report, suite: &SuiteReport) -> String {
    let right = Align::Right;
    let mut table = Table::new([Align::Left, right, right, right, right, Align::Left]);
    let heads = match suite.baselines.0.is_empty() {
        true => ["criterion", "value", "", "", "", ""],
        false => [
            "criterion",
            "value",
            "random sample",
            "training",
            "reachable",
            "training inputs",
        ],
    };
    table.row(heads);
    for (name, _) in &suite.criteria.0 {
        let cells = vec![label(name), value(name, &suite.criteria)];
        let baselines = suite.baselines.get(name);
        let baselines = baselines.map(|found| against(report, name, &found));
        table.row(cells.into_iter().chain(baselines.into_iter().flatten()));
    }
    for kind in ScoreKind::ALL {
        if suite.unusual(kind).is_some() {
            table.row([kind.name().to_owned(), unusual(suite, kind)]);
        }
    }
    table.lines()
}

/// How many inputs have an unusually high score, and how many would be usual.
pub(crate) fn unusual(suite: &SuiteReport, kind: ScoreKind) -> String {
    let found = suite.unusual(kind);
    found.map_or(String::new(), |found| {
        let expected = count(found.expected.round() as usize);
        format!("{} ({expected} usual)", count(found.inputs))
    })
}

/// What a random sample and the training inputs are worth, what can be reached, and what was measured.
fn against(report: &Report, name: &str, baselines: &Baselines) -> [String; 4] {
    let is_share = report.is_share(name);
    let random = baselines
        .random
        .map_or("-".to_owned(), |random| match is_share {
            true => percent(random),
            // A mean of counts.
            false => decimals(random, 1),
        });
    let training = match is_share {
        true => percent(baselines.training),
        false => worth(baselines.training),
    };
    let reachable = count(baselines.reachable as usize);
    let reachable = match report.buckets.get(name) {
        Some(all) => format!("{reachable} of {}", count(all as usize)),
        None => reachable,
    };
    [random, training, reachable, source(baselines)]
}

/// What each criterion is, in a line.
pub(crate) fn meanings(report: &Report) -> String {
    let mut table = Table::new([Align::Left, Align::Left]);
    let names = report.suites.first().map_or(&[][..], |s| &s.criteria.0);
    for (name, _) in names {
        let summary = find(name).map_or("", |entry| entry.summary);
        table.row([label(name), summary.to_owned()]);
    }
    table.lines()
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
    let named = suite.most.iter().any(|input| input.sample.is_some());
    let class_name = |class: usize| suite.classes.get(class)?.name.as_deref();
    let called = |class: i64| match usize::try_from(class).ok().and_then(class_name) {
        Some(name) => format!("{class} {name}"),
        None => class.to_string(),
    };
    // Names begin where the one above begins, numbers end where it ends.
    let of_class = match suite.classes.iter().any(|class| class.name.is_some()) {
        true => Align::Left,
        false => Align::Right,
    };
    let mut align = vec![Align::Right];
    align.extend(named.then_some(Align::Left));
    align.extend([Align::Right, of_class, of_class, Align::Left]);
    let mut table = Table::new(align);
    let mut heads = vec!["input"];
    heads.extend(named.then_some("sample"));
    heads.extend(["alone", "prediction", "label"]);
    heads.extend(several.then_some("data"));
    table.row(heads);
    for input in &suite.most {
        let mut cells = vec![input.input.to_string()];
        cells.extend(named.then(|| input.sample.clone().unwrap_or_default()));
        cells.extend([
            count(input.alone),
            called(input.prediction as i64),
            input.label.map_or(String::new(), called),
        ]);
        let data = input.data.get(..12).unwrap_or(&input.data);
        cells.extend(several.then(|| data.to_owned()));
        table.row(cells);
    }
    Some(table.lines() + "alone: buckets of SNPC that no other input of the suite covers\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, example, json};
    use npcov::coverage::{Change, ComparedReport, Relative};

    #[test]
    fn all_is_everything_that_was_measured() {
        let text = report(&example::two_suites(), None, true);
        let expected = "
criteria of unit|test
  criterion         value  random sample  training  reachable  training inputs
  SNPC             50.00%         60.00%    80.00%  80 of 100  a sample of 50
  TKNP                  7
  NLC               2.500
  unfamiliar  2 (0 usual)
";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("inputs that add most to unit|test\n"),
            "{text}"
        );
        assert!(text.contains("layers of unit|test\n"), "{text}");
        assert!(text.contains("\nwhat criteria are\n  SNPC "), "{text}");
        let short = report(&example::two_suites(), None, false);
        assert!(!short.contains("TKNP") && !short.contains("layers of"));
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
        let spread = 0.125;
        changed.suites[0].relative = example::values(&[("snpc", Relative { change, spread })]);
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
