//! What suites have too few inputs of, in a line each.

use npcov::coverage::{ClassName, CountedBy, Report, SuiteReport, Thin};

use crate::number::{count, decimals};
use crate::visible::on_one_line;

/// Gaps of a suite that are listed.
const MOST_GAPS: usize = 20;

/// The gaps of all suites, those of which most is missing first, and what could not be judged.
pub(crate) fn gaps(report: &Report) -> String {
    let mut text = String::new();
    for suite in &report.suites {
        let thin = suite.thin();
        let name = on_one_line(&suite.name);
        for line in lines(&thin, MOST_GAPS) {
            text += &format!("  {name}: {line}\n");
        }
        if thin.is_empty() {
            text += &format!("  {name}: {}\n", nothing_missing(suite));
        }
        for line in not_judged(suite) {
            text += &format!("  {name}: {line}\n");
        }
    }
    text
}

/// A line for each gap, up to so many.
pub(crate) fn lines(thin: &[Thin], most: usize) -> Vec<String> {
    let mut thin: Vec<&Thin> = thin.iter().collect();
    let missing = |thin: &Thin| thin.expected - thin.inputs as f64;
    thin.sort_by(|a, b| missing(b).total_cmp(&missing(a)));
    let mut lines: Vec<String> = thin.iter().take(most).map(|thin| gap(thin)).collect();
    if let Some(more @ 1..) = thin.len().checked_sub(most) {
        lines.push(format!("{more} more"));
    }
    lines
}

/// A gap: `class 1 (dress): no inputs where 12.0 are expected`.
pub fn gap(thin: &Thin) -> String {
    let inputs = match thin.inputs {
        0 => "no inputs".to_owned(),
        1 => "1 input".to_owned(),
        many => format!("{} inputs", count(many)),
    };
    let earlier = match thin.earlier {
        Some(earlier) => format!(" and {} were", count(earlier)),
        None => String::new(),
    };
    let place = place(thin);
    format!(
        "{place}: {inputs} where {} are expected{earlier}",
        decimals(thin.expected, 1)
    )
}

/// A class or a cluster of it, by name.
fn place(thin: &Thin) -> String {
    let class = class(&thin.class);
    match (thin.cluster, thin.by) {
        (Some(cluster), _) => format!("cluster {cluster} of class {class}"),
        (None, CountedBy::Prediction) => format!("class {class}"),
        (None, CountedBy::Label) => format!("class {class} by label"),
    }
}

/// A class by its number and, where it has one, its name.
pub(crate) fn class(class: &ClassName) -> String {
    match &class.name {
        Some(name) => format!("{} ({})", class.class, on_one_line(name)),
        None => class.class.to_string(),
    }
}

fn nothing_missing(suite: &SuiteReport) -> String {
    let (classes, clusters) = (suite.judged_classes().0, suite.judged_clusters().0);
    let things = [(classes.len(), "classes"), (clusters.len(), "clusters")];
    let things = things.iter().filter(|(number, _)| *number > 0);
    let things: Vec<String> = things
        .map(|(number, of)| format!("{} {of}", count(*number)))
        .collect();
    match things.is_empty() {
        true => "nothing could be judged".to_owned(),
        false => format!("none in {}", things.join(" and ")),
    }
}

/// What a suite is too small for.
fn not_judged(suite: &SuiteReport) -> Vec<String> {
    let mut lines = Vec::new();
    let (judged, not) = suite.judged_classes();
    if let Some(enough) = not.iter().filter_map(|class| class.enough).max() {
        lines.push(format!(
            "too small to judge {} of {} classes; {} inputs would do",
            count(not.len()),
            count(judged.len() + not.len()),
            count(enough as usize)
        ));
    }
    let (judged, not) = suite.judged_clusters();
    if !not.is_empty() {
        lines.push(format!(
            "too small to judge {} of {} clusters; `enough` of a class would do",
            count(not.len()),
            count(judged.len() + not.len()),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thin(class: usize, cluster: Option<usize>, inputs: usize, earlier: Option<usize>) -> Thin {
        Thin {
            class: ClassName {
                class,
                name: (class == 1).then(|| "dress".to_owned()),
            },
            cluster,
            by: CountedBy::Prediction,
            inputs,
            expected: 7.6,
            earlier,
        }
    }

    #[test]
    fn gaps_are_named() {
        for (thin, text) in [
            (
                thin(1, None, 0, None),
                "class 1 (dress): no inputs where 7.6 are expected",
            ),
            (
                thin(4, Some(12), 1, Some(1500)),
                "cluster 12 of class 4: 1 input where 7.6 are expected and 1,500 were",
            ),
            (
                Thin {
                    by: CountedBy::Label,
                    ..thin(1, None, 0, Some(9))
                },
                "class 1 (dress) by label: no inputs where 7.6 are expected and 9 were",
            ),
        ] {
            assert_eq!(gap(&thin), text);
        }
    }

    #[test]
    fn what_misses_most_comes_first_and_many_are_counted() {
        let list: Vec<Thin> = (0..5)
            .map(|class| thin(class, None, 4 - class, None))
            .collect();
        let lines = lines(&list, 2);
        assert!(lines[0].starts_with("class 4: no inputs"), "{lines:?}");
        assert_eq!((lines.len(), lines[2].as_str()), (3, "3 more"));
    }
}
