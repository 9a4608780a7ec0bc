//! Coverage in words: what suites reach, what they miss, and their classes.

use npcov::coverage::{Baselines, ClassCoverage, Report, SuiteReport, Values};
use npcov::criteria::{Amount, find};

use crate::number::{amount, count, decimals, percent, share};
use crate::report::{criteria, meanings};
use crate::table::{Align, Table};
use crate::thin::gaps;
use crate::visible::on_one_line;

/// Suites whose classes are listed; of more, each must be asked for.
const MOST_SUITES: usize = 3;

/// Classes that are listed.
const MOST_CLASSES: usize = 20;

/// What suites cover, for people to read: what they reach of what training inputs reach, gaps and
/// classes. With `all`, everything that was measured.
pub fn coverage(report: &Report, all: bool) -> String {
    let mut text: String = (headlines(report).iter())
        .map(|line| format!("{line}\n"))
        .collect();
    if !text.is_empty() {
        text.push('\n');
    }
    text += &format!("coverage\n{}{}", reached(report), how_to_read(report));
    text += &format!("\ngaps\n{}", gaps(report));
    if all || report.suites.len() <= MOST_SUITES {
        for suite in &report.suites {
            if let Some(lines) = classes(suite, all) {
                text += &format!("\nclasses of {}\n{lines}", on_one_line(&suite.name));
            }
        }
    } else {
        text += "\nclasses: `report --suite NAME` shows those of a suite\n";
    }
    if all {
        for suite in &report.suites {
            text += &format!(
                "\ncriteria of {}\n{}",
                on_one_line(&suite.name),
                criteria(report, suite)
            );
        }
        text += &format!("\nwhat criteria are\n{}", meanings(report));
    }
    text
}

/// For each suite what it reaches of what a random sample reaches, by the first criterion that tells. A suite
/// that no sample is as large as is held against all training inputs that were measured.
pub fn headlines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for suite in &report.suites {
        let known = || {
            let names = main_criteria(report).into_iter();
            names.filter_map(|name| suite.baselines.get(name))
        };
        let of_random = known().find_map(|b| Some((b.of_random?, b.spread)));
        let name = on_one_line(&suite.name);
        if let Some((of_random, deviation)) = of_random {
            let spread = |spread: f64| format!(" (± {})", share(spread));
            lines.push(format!(
                "{name} reaches {}{} of what {} random training inputs reach",
                share(of_random),
                deviation.map_or(String::new(), spread),
                count(suite.inputs),
            ));
        } else if let Some(baselines) = known().next() {
            let reach = if baselines.is_sample() {
                "reaches"
            } else {
                "reach"
            };
            lines.push(format!(
                "{name} reaches {} of what {} training inputs {reach}",
                share(baselines.of_training),
                source(&baselines),
            ));
        }
    }
    lines
}

/// The criteria about paths, where suites were measured by them, or else all.
pub fn main_criteria(report: &Report) -> Vec<&str> {
    let measured = report.suites.first().map_or(&[][..], |s| &s.criteria.0);
    let names = measured.iter().map(|(name, _)| name.as_str());
    let of_paths = |name: &&str| find(name).is_some_and(|found| found.meaning.of_paths);
    let paths: Vec<&str> = names.clone().filter(of_paths).collect();
    match paths.is_empty() {
        true => names.collect(),
        false => paths,
    }
}

/// A line for each suite and criterion: what it is worth as a part of what others reach.
fn reached(report: &Report) -> String {
    let names = main_criteria(report);
    let has_accuracy = report.suites.iter().any(|suite| suite.accuracy.is_some());
    let has_baselines = report.suites.iter().any(|s| !s.baselines.0.is_empty());
    let right = Align::Right;
    let mut table = Table::new([Align::Left, right, right, Align::Left, right, right, right]);
    table.row([
        "suite",
        "inputs",
        if has_accuracy { "accuracy" } else { "" },
        "criterion",
        if has_baselines { "of random" } else { "" },
        if has_baselines { "of training" } else { "" },
        "value",
    ]);
    let mut lines =
        |first: [String; 3], values: &Values, baselines: &dyn Fn(&str) -> [String; 2]| {
            let mut first = first;
            for name in &names {
                let value = values.get(name).map_or(String::new(), amount);
                let [random, training] = baselines(name);
                let cells = [label(name), random, training, value];
                table.row(std::mem::take(&mut first).into_iter().chain(cells));
            }
            // Without criteria the suite is still a line.
            if names.is_empty() {
                table.row(first);
            }
        };
    for suite in &report.suites {
        let first = [
            suite.name.clone(),
            count(suite.inputs),
            suite.accuracy.map_or(String::new(), percent),
        ];
        lines(first, &suite.criteria, &|name| {
            let found = suite.baselines.get(name);
            found.map_or([String::new(), String::new()], |baselines| {
                let random = baselines.of_random.map_or("-".to_owned(), share);
                [random, share(baselines.of_training)]
            })
        });
    }
    if let Some(together) = &report.together {
        let inputs = report.suites.iter().map(|suite| suite.inputs).sum();
        let first = ["together".to_owned(), count(inputs), String::new()];
        lines(first, together, &|name| {
            let training = report.suites.iter().find_map(|s| s.baselines.get(name));
            let of = training.zip(together.get(name));
            let of = of.map(|(training, value)| share(value.value() / training.training));
            [String::new(), of.unwrap_or_default()]
        });
    }
    table.lines()
}

/// What the columns are, and what yardsticks were computed from.
fn how_to_read(report: &Report) -> String {
    let mut text = String::new();
    let baselines = |name: &str| report.suites.iter().find_map(|s| s.baselines.get(name));
    let known: Vec<(&str, Baselines)> = (main_criteria(report).into_iter())
        .filter_map(|name| Some((name, baselines(name)?)))
        .collect();
    if known.is_empty() {
        return text;
    }
    text += "of random: of what as many training inputs, drawn at random, reach on average\n";
    let sources = known
        .iter()
        .map(|(name, b)| format!("{} by {}", source(b), label(name)));
    let sources: Vec<String> = sources.collect();
    text += &format!(
        "of training: of what training inputs reach: {}\n",
        sources.join(", ")
    );
    for (name, baselines) in &known {
        let too_large = |suite: &&SuiteReport| {
            suite
                .baselines
                .get(name)
                .is_some_and(|b| b.of_random.is_none())
        };
        let Some(largest) = report
            .suites
            .iter()
            .filter(too_large)
            .map(|s| s.inputs)
            .max()
        else {
            continue;
        };
        let inputs = largest as u64;
        let way = match baselines.is_sample() && inputs <= baselines.all_inputs {
            true => format!("; `build --yardstick-inputs {largest}` measures more"),
            false => String::new(),
        };
        text += &format!(
            "{}: a random sample of {} is more than were measured{way}\n",
            label(name),
            count(largest),
        );
    }
    text
}

/// What a yardstick was computed from.
pub fn source(baselines: &Baselines) -> String {
    let inputs = count(baselines.inputs as usize);
    match baselines.is_sample() {
        true => format!("a sample of {inputs}"),
        false => format!("all {inputs}"),
    }
}

/// The classes; thin ones are marked. Of many classes the least tried out ones, unless `all` are asked
/// for.
pub(crate) fn classes(suite: &SuiteReport, all: bool) -> Option<String> {
    // Classes that nobody expects and nobody sees are a line together.
    let unseen = |class: &&ClassCoverage| {
        class.inputs == 0 && class.enough.is_none() && !class.is_thin_by_label_alone()
    };
    let (unseen, mut shown): (Vec<_>, Vec<_>) = suite.classes.iter().partition(unseen);
    shown.first()?;
    let mut more = 0;
    if !all && shown.len() > MOST_CLASSES {
        let part =
            |class: &ClassCoverage| class.inputs as f64 / class.expected.max(f64::MIN_POSITIVE);
        let thin = |class: &ClassCoverage| class.thin || class.is_thin_by_label_alone();
        shown.sort_by(|a, b| (thin(b).cmp(&thin(a))).then(part(a).total_cmp(&part(b))));
        more = shown.len() - MOST_CLASSES;
        shown.truncate(MOST_CLASSES);
    }
    let names: Vec<&String> = shown[0].criteria.0.iter().map(|(name, _)| name).collect();
    let mut align = vec![Align::Right, Align::Left];
    align.extend(vec![Align::Right; 3 + names.len()]);
    align.push(Align::Left);
    let mut table = Table::new(align);
    let named = shown.iter().any(|class| class.name.is_some());
    let judged = |class: usize| {
        let clusters = suite.clusters.iter().filter(|c| c.class == class);
        clusters.filter_map(|cluster| cluster.enough).max()
    };
    let has_clusters = !suite.clusters.is_empty();
    let heads = [
        "class",
        if named { "name" } else { "" },
        "inputs",
        "expected",
        if has_clusters { "enough" } else { "" },
    ];
    let criteria = names.iter().map(|name| label(name));
    table.row(heads.into_iter().map(str::to_owned).chain(criteria));
    for class in shown {
        let cells = [
            class.class.to_string(),
            class.name.clone().unwrap_or_default(),
            count(class.inputs),
            decimals(class.expected, 1),
            judged(class.class).map_or(String::new(), |n| count(n as usize)),
        ];
        let values = class.criteria.0.iter();
        let values = values.map(|(_, amount): &(String, Amount)| percent(amount.value()));
        let thin = match (class.thin, class.is_thin_by_label_alone()) {
            (true, _) => "thin",
            (false, true) => "thin by label",
            (false, false) => "",
        };
        table.row(cells.into_iter().chain(values).chain([thin.to_owned()]));
    }
    let mut text = table.lines();
    if more > 0 {
        text += &format!("  and {} more, which `--all` shows\n", count(more));
    }
    match unseen.len() {
        0 => {}
        1 => text += "  and 1 class that training inputs are never classified as\n",
        many => {
            text += &format!(
                "  and {} classes that training inputs are never classified as\n",
                count(many)
            );
        }
    }
    if has_clusters {
        text += "enough: with so many inputs of the class, a cluster without any is a gap\n";
    }
    Some(text)
}

/// A criterion's name as it is shown: abbreviations in capitals.
pub fn label(name: &str) -> String {
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
    use crate::example;

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

    #[test]
    fn what_is_reached_and_missed_comes_first() {
        let text = coverage(&example::two_suites(), false);
        let expected = "\
unit|test reaches 83.3% (± 5.0%) of what 10 random training inputs reach
field reaches 25.0% of what a sample of 50 training inputs reaches

coverage
  suite      inputs  accuracy  criterion  of random  of training   value
  unit|test      10    90.00%  SNPC           83.3%        62.5%  50.00%
  field          90            SNPC               -        25.0%  20.00%
  together      100            SNPC                        68.8%  55.00%
of random: of what as many training inputs, drawn at random, reach on average
of training: of what training inputs reach: a sample of 50 by SNPC
SNPC: a random sample of 90 is more than were measured; `build --yardstick-inputs 90` measures more

gaps
  unit|test: cluster 0 of class 0 (shirt): 1 input where 8.0 are expected
  unit|test: class 1 (<dress>): no inputs where 5.9 are expected
  field: nothing could be judged

classes of unit|test
  class  name     inputs  expected  enough    SNPC
      0  shirt        10       4.1      10  60.00%
      1  <dress>       0       5.9          0.00%  thin
enough: with so many inputs of the class, a cluster without any is a gap
";
        let squeeze = |text: &str| -> Vec<String> {
            let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            text.lines().map(line).collect()
        };
        assert_eq!(squeeze(&text), squeeze(expected), "{text}");
    }

    #[test]
    fn many_classes_are_those_tried_out_least() {
        let mut suite = example::two_suites().suites.remove(0);
        let (shirt, dress) = (suite.classes[0].clone(), suite.classes[1].clone());
        suite.classes = (0..1000)
            .map(|class| match class {
                700 => dress.clone(),
                900.. => ClassCoverage {
                    class,
                    inputs: 0,
                    enough: None,
                    ..shirt.clone()
                },
                _ => ClassCoverage {
                    class,
                    ..shirt.clone()
                },
            })
            .collect();
        let text = classes(&suite, false).unwrap();
        assert!(text.lines().nth(1).unwrap().ends_with("thin"), "{text}");
        assert!(
            text.contains("  and 880 more, which `--all` shows\n"),
            "{text}"
        );
        let never = "  and 100 classes that training inputs are never classified as\n";
        assert!(text.contains(never), "{text}");
        assert_eq!(text.lines().count(), 1 + MOST_CLASSES + 3);
        assert_eq!(classes(&suite, true).unwrap().lines().count(), 1 + 900 + 2);
    }
}
