//! Whether suites fulfil rules, in a line each.
//!
//! A line is read by whoever broke the build, so it says what was measured, what was asked for, and
//! what that means, without the names of definitions alone.

use npcov::coverage::{Bound, Change, Check, ClassName, Condition, Finding, ThinClass};

use crate::coverage::label;
use crate::number::{apart, count, decimals};
use crate::visible::on_one_line;

/// Classes that are named.
const MOST_CLASSES: usize = 5;

/// Whether suites fulfil rules: a line for each that failed, then for each that holds.
pub fn check(check: &Check) -> String {
    let changed = check.model_changed == Some(true);
    let mut text = String::new();
    for finding in check.findings.iter().filter(|finding| !finding.passed) {
        text += &format!("failed: {}\n", line(finding, changed));
    }
    for line in passed(check, changed) {
        text += &format!("ok: {line}\n");
    }
    text
}

/// What holds. Criteria that did not drop are many, and one line for each suite.
fn passed(check: &Check, changed: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut told: Vec<(&str, f64, bool)> = Vec::new();
    for finding in check.findings.iter().filter(|finding| finding.passed) {
        let Condition::FailOnDrop { allowed, share, .. } = finding.rule else {
            lines.push(line(finding, changed));
            continue;
        };
        let suite = finding.suite.as_str();
        if told.contains(&(suite, allowed, share)) {
            continue;
        }
        told.push((suite, allowed, share));
        let alike = |other: &&Finding| match &other.rule {
            Condition::FailOnDrop {
                allowed: a,
                share: s,
                ..
            } => other.passed && other.suite == suite && (*a, *s) == (allowed, share),
            _ => false,
        };
        let alike: Vec<&Finding> = check.findings.iter().filter(alike).collect();
        match &alike[..] {
            [one] => lines.push(line(one, changed)),
            several => lines.push(format!(
                "suite `{suite}`: none of {} criteria fell by more than {}{}",
                several.len(),
                amount(allowed, share),
                mark(changed)
            )),
        }
    }
    lines
}

/// What a rule found, in one line.
pub(crate) fn line(finding: &Finding, model_changed: bool) -> String {
    let suite = on_one_line(&finding.suite);
    match &finding.rule {
        Condition::FailUnder {
            criterion,
            share,
            value,
            required,
            bound,
        } => {
            let (value, required) = apart(*value, *required, *share);
            let name = label(criterion);
            let source = source(*bound, finding.inputs);
            match finding.passed {
                true => format!("suite `{suite}`: {name} is {value}, at least {required}{source}"),
                false => format!(
                    "suite `{suite}`: {name} is {value}, below {required}{source}: {} than \
                     required{}",
                    meaning(criterion),
                    because(&finding.thin)
                ),
            }
        }
        Condition::FailOnDrop {
            criterion,
            share,
            change: Change { old, new, change },
            allowed,
            old_inputs,
        } => {
            let name = label(criterion);
            let mark = mark(model_changed);
            if finding.passed && *change >= 0.0 {
                return format!("suite `{suite}`: {name} did not fall{mark}");
            }
            let (old, new) = apart(*old, *new, *share);
            let (by, most) = amounts(-change, *allowed, *share);
            match finding.passed {
                true => format!(
                    "suite `{suite}`: {name} fell from {old} to {new}, by no more than {most}{mark}"
                ),
                false => format!(
                    "suite `{suite}`: {name} fell from {old} to {new}, by {by}, more than \
                     {most}{mark}: {} than before{}{}",
                    meaning(criterion),
                    shrunk(*old_inputs, finding.inputs),
                    because(&finding.thin)
                ),
            }
        }
        Condition::FailOnThin if finding.passed => {
            format!("suite `{suite}`: every class has inputs")
        }
        Condition::FailOnThin => format!(
            "suite `{suite}`: {}: how the model decides for them is hardly tried out",
            few_inputs(&finding.thin)
        ),
        Condition::MissingSuite => {
            format!("suite `{suite}`: it was measured earlier, and is not in this state")
        }
    }
}

fn mark(model_changed: bool) -> &'static str {
    if model_changed {
        " (model changed)"
    } else {
        ""
    }
}

/// Where a bound comes from that is no plain number.
fn source(bound: Bound, inputs: usize) -> String {
    let part = |factor: f64| match factor {
        1.0 => String::new(),
        factor => format!("{factor} of "),
    };
    match bound {
        Bound::Value(_) => String::new(),
        Bound::Random(factor) => format!(
            " ({}what {inputs} random training inputs cover)",
            part(factor)
        ),
        Bound::Training(factor) => format!(" ({}what the training inputs cover)", part(factor)),
    }
}

/// What it means that there is less of a criterion, up to the word `than`.
fn meaning(criterion: &str) -> &'static str {
    match npcov::criteria::find(criterion) {
        Some(entry) => entry.meaning.lower,
        // What is no criterion is the accuracy.
        None => "the model classifies fewer inputs of the suite as they are labelled",
    }
}

/// How much something may fall, or fell.
fn amount(size: f64, share: bool) -> String {
    amounts(size, 0.0, share).0
}

/// The same of two that differ.
fn amounts(a: f64, b: f64, share: bool) -> (String, String) {
    let (a, b) = apart(a, b, share);
    let points = |shown: String| match shown.strip_suffix('%') {
        Some(points) => format!("{points} points"),
        None => shown,
    };
    (points(a), points(b))
}

/// That a suite has fewer inputs than it had.
fn shrunk(old: usize, new: usize) -> String {
    match new < old {
        true => format!(
            "; the suite has {} inputs and had {}",
            count(new),
            count(old)
        ),
        false => String::new(),
    }
}

/// The classes that may be why.
fn because(classes: &[ThinClass]) -> String {
    match classes {
        [] => String::new(),
        classes => format!("; {}", few_inputs(classes)),
    }
}

/// Which classes have no inputs, and which have few.
fn few_inputs(classes: &[ThinClass]) -> String {
    let (none, few): (Vec<_>, Vec<_>) = classes.iter().partition(|class| class.inputs == 0);
    let mut parts = Vec::new();
    if !none.is_empty() {
        let none: Vec<String> = none.iter().map(|thin| class(&thin.class)).collect();
        parts.push(classes_have_none(none));
    }
    parts.extend(few.iter().take(MOST_CLASSES).map(|class| has_few(class)));
    if let Some(more @ 1..) = few.len().checked_sub(MOST_CLASSES) {
        parts.push(format!("{more} more classes have too few"));
    }
    parts.join("; ")
}

fn classes_have_none(mut names: Vec<String>) -> String {
    if let Some(more @ 1..) = names.len().checked_sub(MOST_CLASSES) {
        names.truncate(MOST_CLASSES);
        names.push(format!("{more} more"));
    }
    match &names[..] {
        [] => String::new(),
        [one] => format!("class {one} has no inputs"),
        [first @ .., last] => format!("classes {} and {last} have no inputs", first.join(", ")),
    }
}

fn has_few(thin: &ThinClass) -> String {
    let expected = match thin.expected {
        Some(expected) => format!(" where training would let expect {}", decimals(expected, 0)),
        None => String::new(),
    };
    let word = if thin.inputs == 1 { "input" } else { "inputs" };
    format!(
        "class {} has {} {word}{expected}",
        class(&thin.class),
        thin.inputs
    )
}

/// A class by its number and, where it has one, its name.
fn class(class: &ClassName) -> String {
    match &class.name {
        Some(name) => format!("{} ({})", class.class, on_one_line(name)),
        None => class.class.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, example, json};

    fn thin(class: ClassName, inputs: usize) -> ThinClass {
        ThinClass {
            class,
            inputs,
            expected: Some(7.6),
        }
    }

    fn number(class: usize) -> ClassName {
        ClassName { class, name: None }
    }

    fn under(value: f64, required: f64, bound: Bound, passed: bool) -> Finding {
        Finding {
            suite: "test".to_owned(),
            inputs: 60,
            passed,
            rule: Condition::FailUnder {
                criterion: "snpc".to_owned(),
                share: true,
                value,
                required,
                bound,
            },
            thin: match passed {
                true => Vec::new(),
                false => vec![thin(example::dress(), 0), thin(number(5), 0)],
            },
        }
    }

    fn fell(criterion: &str, old: f64, new: f64, allowed: f64, passed: bool) -> Finding {
        Finding {
            rule: Condition::FailOnDrop {
                criterion: criterion.to_owned(),
                share: true,
                change: Change::between(old, new),
                allowed,
                old_inputs: 80,
            },
            ..under(0.0, 0.0, Bound::Value(0.0), passed)
        }
    }

    #[test]
    fn a_reason_can_be_read_without_the_paper() {
        assert_eq!(
            line(&under(0.021, 0.05, Bound::Value(0.05), false), false),
            "suite `test`: SNPC is 2.10%, below 5.00%: the suite exercises less of the model's \
             decision logic than required; classes 1 (<dress>) and 5 have no inputs"
        );
        assert_eq!(
            line(&under(0.03, 0.04, Bound::Random(0.8), false), true),
            "suite `test`: SNPC is 3.00%, below 4.00% (0.8 of what 60 random training inputs \
             cover): the suite exercises less of the model's decision logic than required; \
             classes 1 (<dress>) and 5 have no inputs"
        );
        assert_eq!(
            line(&fell("accuracy", 0.95, 0.9, 0.01, false), true),
            "suite `test`: accuracy fell from 95.00% to 90.00%, by 5.00 points, more than 1.00 \
             points (model changed): the model classifies fewer inputs of the suite as they are \
             labelled than before; the suite has 60 inputs and had 80; classes 1 (<dress>) and 5 \
             have no inputs"
        );
    }

    #[test]
    fn what_fails_comes_first_and_what_holds_is_short() {
        let result = Check {
            passed: false,
            model_changed: Some(false),
            findings: vec![
                under(0.06, 0.05, Bound::Value(0.05), true),
                fell("kmnc", 0.3, 0.3, 0.01, true),
                fell("snpc", 0.3, 0.295, 0.01, true),
                fell("tknc", 0.3, 0.2, 0.0, true),
                Finding {
                    rule: Condition::MissingSuite,
                    suite: "field".to_owned(),
                    ..fell("snpc", 0.0, 0.0, 0.0, false)
                },
            ],
        };
        assert_eq!(
            check(&result),
            "failed: suite `field`: it was measured earlier, and is not in this state\n\
             ok: suite `test`: SNPC is 6.00%, at least 5.00%\n\
             ok: suite `test`: none of 2 criteria fell by more than 1.00 points\n\
             ok: suite `test`: TKNC fell from 30.00% to 20.00%, by no more than 0.00 points\n"
        );
    }

    #[test]
    fn findings_survive_json() {
        let result = Check {
            passed: false,
            model_changed: None,
            findings: vec![
                under(0.06, 0.05, Bound::Random(0.5), true),
                fell("kmnc", 0.5, 0.25, 0.01, false),
                Finding {
                    rule: Condition::FailOnThin,
                    ..under(0.0, 0.0, Bound::Value(0.0), false)
                },
            ],
        };
        let read: Document<Check> = serde_json::from_str(&json(&result)).unwrap();
        assert_eq!(read.result, result);
    }

    #[test]
    fn thin_classes_are_named() {
        let mut finding = under(0.0, 0.0, Bound::Value(0.0), false);
        finding.rule = Condition::FailOnThin;
        finding.thin = vec![
            thin(example::dress(), 0),
            thin(number(4), 1),
            thin(number(7), 2),
        ];
        finding.thin[2].expected = None;
        assert_eq!(
            line(&finding, false),
            "suite `test`: class 1 (<dress>) has no inputs; class 4 has 1 input where training \
             would let expect 8; class 7 has 2 inputs: how the model decides for them is hardly \
             tried out"
        );
        let many = |inputs: usize| -> Vec<ThinClass> {
            (0..8).map(|class| thin(number(class), inputs)).collect()
        };
        let none = "classes 0, 1, 2, 3, 4 and 3 more have no inputs";
        assert_eq!(few_inputs(&many(0)), none);
        assert!(few_inputs(&many(1)).ends_with("; 3 more classes have too few"));
    }

    #[test]
    fn shares_fall_by_points() {
        assert_eq!(amount(0.00001, true), "0.001 points");
        assert_eq!(amount(0.0, true), "0.00 points");
        assert_eq!(amount(2.0, false), "2");
    }
}
