//! What suites have too few inputs of, in a line each.

use npcov::coverage::{ClassName, CountedBy, Judged, Report, Thin};

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
            text += &format!("  {name}: {}\n", nothing_missing(&suite.judged()));
        }
        // Below stand the classes with how many are `enough` of each.
        for line in too_small_for(&suite.judged(), |_| "`enough` of a class".to_owned()) {
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

fn nothing_missing(judged: &Judged) -> String {
    match what_was_judged(judged) {
        None => NOTHING_JUDGED.to_owned(),
        Some(things) => format!("none in {things}"),
    }
}

/// That a suite is too small for any verdict.
pub(crate) const NOTHING_JUDGED: &str = "nothing could be judged";

/// `10 classes and 38 clusters`; `None` where nothing was judged.
pub(crate) fn what_was_judged(judged: &Judged) -> Option<String> {
    let things = [
        (judged.classes, "class", "classes"),
        (judged.clusters, "cluster", "clusters"),
    ];
    let things: Vec<String> = (things.into_iter())
        .filter(|(number, _, _)| *number > 0)
        .map(|(number, one, many)| {
            format!("{} {}", count(number), if number == 1 { one } else { many })
        })
        .collect();
    (!things.is_empty()).then(|| things.join(" and "))
}

/// What a suite is too small for.
pub(crate) fn not_judged(judged: &Judged) -> Vec<String> {
    let of_class = |enough: u64| format!("{} inputs of each class", count(enough as usize));
    too_small_for(judged, of_class)
}

/// The same, with words for how many inputs of a class would be enough for its clusters.
fn too_small_for(judged: &Judged, of_class: impl Fn(u64) -> String) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(enough) = judged.enough {
        lines.push(format!(
            "too small to judge {} of {} classes; {} inputs would do",
            count(judged.classes_not_judged),
            count(judged.classes + judged.classes_not_judged),
            count(enough as usize)
        ));
    }
    if let Some(enough) = judged.enough_of_class {
        lines.push(format!(
            "too small to judge {} of {} clusters; {} would do",
            count(judged.clusters_not_judged),
            count(judged.clusters + judged.clusters_not_judged),
            of_class(enough)
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
