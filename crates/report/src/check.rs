//! Whether suites fulfil rules, in a line each.
//!
//! A line is read by whoever broke the build, so it says what was measured, what was asked for, and
//! what that means, without the names of definitions alone.

use npcov::coverage::{
    Bound, Change, Check, ClassName, Condition, Finding, Judged, Thin, YardstickSource,
};

use crate::coverage::label;
use crate::number::{apart, count, share};
use crate::thin::{NOTHING_JUDGED, class, lines, not_judged, what_was_judged};
use crate::visible::on_one_line;

/// Classes or gaps that are named.
const MOST_NAMED: usize = 5;

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
    for finding in check.findings.iter().filter(|finding| is_note(finding)) {
        text += &format!("not judged: {}\n", line(finding, changed));
    }
    text
}

/// Whether a finding is no verdict.
fn is_note(finding: &Finding) -> bool {
    match &finding.rule {
        Condition::LossNotJudged { .. } => true,
        Condition::FailOnThin { judged, .. } => finding.passed && judged.is_empty(),
        Condition::NewlyThin { judged } | Condition::FailOnThinClusters { judged } => {
            finding.passed && what_was_judged(judged).is_none()
        }
        _ => false,
    }
}

/// What holds. Criteria that did not drop are many, and one line for each suite.
fn passed(check: &Check, changed: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut told: Vec<(&str, f64, bool)> = Vec::new();
    let holds = |finding: &&Finding| finding.passed && !is_note(finding);
    for finding in check.findings.iter().filter(holds) {
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
                "suite `{}`: none of {} criteria fell by more than {}{}",
                on_one_line(suite),
                several.len(),
                amount(allowed, share),
                mark(changed)
            )),
        }
    }
    lines
}

/// What a rule found, in one line; `model_changed` where the suites were measured with different models.
pub fn line(finding: &Finding, model_changed: bool) -> String {
    let suite = on_one_line(&finding.suite);
    match &finding.rule {
        Condition::FailUnder {
            criterion,
            share,
            value,
            required,
            bound,
            yardstick,
        } => {
            let (value, required) = apart(*value, *required, *share);
            let name = label(criterion);
            let source = source(*bound, finding.inputs, yardstick.as_ref());
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
        Condition::FailOnThin {
            judged,
            not_judged,
            not_expected,
            enough,
        } => {
            let of_classes = of_classes(judged, not_judged, not_expected, *enough);
            match finding.passed {
                true => format!("suite `{suite}`: {of_classes}"),
                false => format!(
                    "suite `{suite}`: {}: how the model decides there is hardly tried out; {of_classes}",
                    gaps(&finding.thin)
                ),
            }
        }
        Condition::FailOnLoss {
            criterion,
            relative,
            lowest,
            old_inputs,
            yardstick,
        } => {
            let Change { old, new, .. } = relative.change;
            let reached = format!(
                "suite `{suite}`: by {} it reaches {} of what {} random training inputs reach{}, \
                 earlier {} of what {} reach{}",
                label(criterion),
                share(new),
                count(finding.inputs),
                drawn_from(yardstick.as_ref()),
                share(old),
                count(*old_inputs),
                mark(model_changed)
            );
            match finding.passed {
                true => format!("{reached}: not less than chance explains"),
                false => format!(
                    "{reached}; chance explains {} and more: {} than before{}",
                    share(*lowest),
                    meaning(criterion),
                    because(&finding.thin)
                ),
            }
        }
        Condition::LossNotJudged {
            criterion,
            too_many,
            yardstick,
        } => {
            let has = match *too_many == finding.inputs {
                true => "it has",
                false => "earlier it had",
            };
            let more = match yardstick.is_sample() && *too_many as u64 <= yardstick.all_inputs {
                true => format!("; `build --yardstick-inputs {too_many}` measures more"),
                false => String::new(),
            };
            format!(
                "suite `{suite}`: whether it covers less by {}: {has} {} inputs, and no random sample of {} \
                 training inputs is as large{more}",
                label(criterion),
                count(*too_many),
                from(yardstick)
            )
        }
        Condition::NewlyThin { judged } | Condition::FailOnThinClusters { judged }
            if finding.passed =>
        {
            let mut parts = Vec::new();
            match (&finding.rule, what_was_judged(judged)) {
                (_, None) => parts.push(NOTHING_JUDGED.to_owned()),
                (Condition::NewlyThin { .. }, Some(things)) => {
                    parts.push(format!("none of {things} lost its inputs"));
                }
                (_, Some(_)) => parts.push(format!(
                    "all {} that could be judged have enough inputs",
                    counted_clusters(judged)
                )),
            }
            parts.extend(not_judged(judged));
            format!("suite `{suite}`: {}", parts.join("; "))
        }
        Condition::NewlyThin { .. } => format!(
            "suite `{suite}`: {}: how the model decides there is no longer tried out",
            gaps(&finding.thin)
        ),
        Condition::FailOnThinClusters { judged } => format!(
            "suite `{suite}`: {}: how the model decides there is hardly tried out; {} judged",
            gaps(&finding.thin),
            counted_clusters(judged)
        ),
        Condition::MoreCopies { copies, old_inputs } => {
            let part = |copies: usize, all: usize| format!("{} of {}", count(copies), count(all));
            let (new, old) = (
                part(copies.new, finding.inputs),
                part(copies.old, *old_inputs),
            );
            match finding.passed {
                true => format!("suite `{suite}`: {new} inputs are copies of others, {old} were"),
                false => format!(
                    "suite `{suite}`: {new} inputs are copies of others, {old} were: copies try \
                     out nothing that the originals do not"
                ),
            }
        }
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

/// `38 clusters`.
fn counted_clusters(judged: &Judged) -> String {
    match judged.clusters {
        1 => "1 cluster".to_owned(),
        many => format!("{} clusters", count(many)),
    }
}

/// Which training inputs a yardstick was computed from: `all 3,000`, `a sample of 50`.
fn from(yardstick: &YardstickSource) -> String {
    let inputs = count(yardstick.inputs as usize);
    match yardstick.is_sample() {
        true => format!("a sample of {inputs}"),
        false => format!("all {inputs}"),
    }
}

/// That random inputs are drawn from a sample; nothing where they are drawn from all.
fn drawn_from(yardstick: Option<&YardstickSource>) -> String {
    let sample = yardstick.filter(|yardstick| yardstick.is_sample());
    sample.map_or(String::new(), |sample| {
        format!(" (drawn from {})", from(sample))
    })
}

/// Where a bound comes from that is no plain number.
fn source(bound: Bound, inputs: usize, yardstick: Option<&YardstickSource>) -> String {
    let part = |factor: f64| match factor {
        1.0 => String::new(),
        factor => format!("{factor} of "),
    };
    match bound {
        Bound::Value(_) => String::new(),
        Bound::Random(factor) => format!(
            " ({}what {inputs} random training inputs cover{})",
            part(factor),
            drawn_from(yardstick)
        ),
        Bound::Training(factor) => {
            let training = yardstick.map_or("the".to_owned(), from);
            format!(" ({}what {training} training inputs cover)", part(factor))
        }
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

/// The gaps that may be why.
fn because(thin: &[Thin]) -> String {
    match thin {
        [] => String::new(),
        thin => format!("; {}", gaps(thin)),
    }
}

fn gaps(thin: &[Thin]) -> String {
    lines(thin, MOST_NAMED).join("; ")
}

/// Which classes were judged, which a suite is too small for, and which nobody expects.
fn of_classes(
    judged: &[ClassName],
    not_judged: &[ClassName],
    not_expected: &[ClassName],
    enough: u64,
) -> String {
    let mut parts = vec![match judged {
        [] => "no class could be judged".to_owned(),
        judged if not_judged.is_empty() && not_expected.is_empty() => {
            format!("all {} classes were judged", count(judged.len()))
        }
        [_] => format!("{} was judged", classes(judged)),
        _ => format!("{} were judged", classes(judged)),
    }];
    if !not_judged.is_empty() {
        let (names, enough) = (classes(not_judged), count(enough as usize));
        parts.push(format!(
            "for {names} it is too small, {enough} inputs would do"
        ));
    }
    if !not_expected.is_empty() {
        let names = classes(not_expected);
        parts.push(format!("training inputs are never classified as {names}"));
    }
    parts.join("; ")
}

fn classes(list: &[ClassName]) -> String {
    let mut names: Vec<String> = list.iter().take(MOST_NAMED).map(class).collect();
    if let Some(more @ 1..) = list.len().checked_sub(MOST_NAMED) {
        names.push(format!("{more} more"));
    }
    match &names[..] {
        [] => String::new(),
        [one] => format!("class {one}"),
        [first @ .., last] => format!("classes {} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, example, json};
    use npcov::coverage::{CountedBy, Counts, Difference, Relative};

    fn thin(class: ClassName, inputs: usize) -> Thin {
        Thin {
            class,
            cluster: None,
            by: CountedBy::Prediction,
            inputs,
            expected: 7.6,
            earlier: None,
        }
    }

    /// Of nine classes and 38 clusters, so many clusters judged.
    fn newly_thin(clusters: usize) -> Condition {
        Condition::NewlyThin {
            judged: Judged {
                classes: clusters,
                classes_not_judged: 9 - clusters,
                enough: (clusters < 9).then_some(1200),
                clusters,
                clusters_not_judged: 9 - clusters,
                enough_of_class: (clusters < 9).then_some(57),
            },
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
                yardstick: None,
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
             decision logic than required; class 1 (<dress>): no inputs where 7.6 are expected; \
             class 5: no inputs where 7.6 are expected"
        );
        assert_eq!(
            line(&under(0.03, 0.04, Bound::Random(0.8), false), true),
            "suite `test`: SNPC is 3.00%, below 4.00% (0.8 of what 60 random training inputs \
             cover): the suite exercises less of the model's decision logic than required; class \
             1 (<dress>): no inputs where 7.6 are expected; class 5: no inputs where 7.6 are \
             expected"
        );
        assert_eq!(
            line(&fell("accuracy", 0.95, 0.9, 0.01, false), true),
            "suite `test`: accuracy fell from 95.00% to 90.00%, by 5.00 points, more than 1.00 \
             points (model changed): the model classifies fewer inputs of the suite as they are \
             labelled than before; the suite has 60 inputs and had 80; class 1 (<dress>): no inputs \
             where 7.6 are expected; class 5: no inputs where 7.6 are expected"
        );
    }

    #[test]
    fn what_fails_comes_first_and_what_holds_is_short() {
        let result = Check::new(
            vec![
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
            Some(&Difference::default()),
        );
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
        let result = Check::new(
            vec![
                under(0.06, 0.05, Bound::Random(0.5), true),
                fell("kmnc", 0.5, 0.25, 0.01, false),
                Finding {
                    rule: Condition::FailOnThin {
                        judged: vec![number(5)],
                        not_judged: Vec::new(),
                        not_expected: Vec::new(),
                        enough: 60,
                    },
                    ..under(0.0, 0.0, Bound::Value(0.0), false)
                },
                Finding {
                    rule: Condition::FailOnLoss {
                        criterion: "snpc".to_owned(),
                        relative: Relative {
                            change: Change::between(0.5, 0.25),
                            spread: 0.125,
                        },
                        lowest: 0.375,
                        old_inputs: 10,
                        yardstick: None,
                    },
                    ..under(0.0, 0.0, Bound::Value(0.0), false)
                },
                Finding {
                    rule: Condition::MoreCopies {
                        copies: Counts { old: 0, new: 9 },
                        old_inputs: 10,
                    },
                    ..under(0.0, 0.0, Bound::Value(0.0), false)
                },
            ],
            None,
        );
        let read: Document<Check> = serde_json::from_str(&json(&result)).unwrap();
        assert_eq!(read.result, result);
    }

    #[test]
    fn what_is_missing_is_named_with_what_was_judged() {
        let mut finding = under(0.0, 0.0, Bound::Value(0.0), false);
        finding.rule = Condition::FailOnThin {
            judged: vec![example::dress(), number(5)],
            not_judged: vec![number(7)],
            not_expected: vec![number(8), number(9)],
            enough: 1200,
        };
        finding.thin.truncate(1);
        assert_eq!(
            line(&finding, false),
            "suite `test`: class 1 (<dress>): no inputs where 7.6 are expected: how the model \
             decides there is hardly tried out; classes 1 (<dress>) and 5 were judged; for class 7 \
             it is too small, 1,200 inputs would do; training inputs are never classified as \
             classes 8 and 9"
        );
        finding.passed = true;
        finding.rule = Condition::FailOnThin {
            judged: (0..10).map(number).collect(),
            not_judged: Vec::new(),
            not_expected: Vec::new(),
            enough: 60,
        };
        assert_eq!(
            line(&finding, false),
            "suite `test`: all 10 classes were judged"
        );
        let many: Vec<ClassName> = (0..8).map(number).collect();
        assert_eq!(classes(&many), "classes 0, 1, 2, 3, 4 and 3 more");
    }

    #[test]
    fn what_is_lost_can_be_read_without_the_paper() {
        let finding = |rule: Condition, passed: bool, thin: Vec<Thin>| Finding {
            suite: "test".to_owned(),
            inputs: 2000,
            passed,
            rule,
            thin,
        };
        let loss = |new: f64| Condition::FailOnLoss {
            criterion: "snpc".to_owned(),
            relative: Relative {
                change: Change::between(0.98, new),
                spread: 0.02,
            },
            lowest: 0.92,
            old_inputs: 1000,
            yardstick: None,
        };
        assert_eq!(
            line(&finding(loss(0.71), false, Vec::new()), true),
            "suite `test`: by SNPC it reaches 71.0% of what 2,000 random training inputs reach, \
             earlier 98.0% of what 1,000 reach (model changed); chance explains 92.0% and more: \
             the suite exercises less of the model's decision logic than before"
        );
        assert_eq!(
            line(&finding(loss(0.97), true, Vec::new()), false),
            "suite `test`: by SNPC it reaches 97.0% of what 2,000 random training inputs reach, \
             earlier 98.0% of what 1,000 reach: not less than chance explains"
        );
        let cluster = Thin {
            cluster: Some(12),
            earlier: Some(1500),
            ..thin(example::dress(), 1)
        };
        assert_eq!(
            line(&finding(newly_thin(9), false, vec![cluster]), false),
            "suite `test`: cluster 12 of class 1 (<dress>): 1 input where 7.6 are expected and \
             1,500 were: how the model decides there is no longer tried out"
        );
        let copies = Condition::MoreCopies {
            copies: Counts { old: 0, new: 1000 },
            old_inputs: 2000,
        };
        assert_eq!(
            line(&finding(copies, false, Vec::new()), false),
            "suite `test`: 1,000 of 2,000 inputs are copies of others, 0 of 2,000 were: copies try \
             out nothing that the originals do not"
        );
    }

    #[test]
    fn what_a_yardstick_was_computed_from_is_said() {
        let mut finding = under(0.06, 0.05, Bound::Training(0.1), true);
        let Condition::FailUnder { yardstick, .. } = &mut finding.rule else {
            panic!("{finding:?}");
        };
        let sample = YardstickSource {
            inputs: 50,
            all_inputs: 3000,
        };
        *yardstick = Some(sample);
        assert_eq!(
            line(&finding, false),
            "suite `test`: SNPC is 6.00%, at least 5.00% (0.1 of what a sample of 50 training inputs cover)"
        );
        let all = YardstickSource {
            inputs: 3000,
            ..sample
        };
        assert_eq!(
            source(Bound::Training(1.0), 60, Some(&all)),
            " (what all 3,000 training inputs cover)"
        );
        assert_eq!(
            source(Bound::Random(0.5), 60, Some(&sample)),
            " (0.5 of what 60 random training inputs cover (drawn from a sample of 50))"
        );
    }

    #[test]
    fn what_cannot_be_judged_is_no_verdict() {
        let finding = |rule: Condition| Finding {
            suite: "test".to_owned(),
            inputs: 5000,
            passed: true,
            rule,
            thin: Vec::new(),
        };
        let not_judged = Condition::LossNotJudged {
            criterion: "snpc".to_owned(),
            too_many: 5000,
            yardstick: YardstickSource {
                inputs: 3000,
                all_inputs: 3000,
            },
        };
        let result = Check::new(
            vec![
                finding(not_judged),
                finding(newly_thin(9)),
                finding(newly_thin(0)),
            ],
            None,
        );
        assert_eq!(
            check(&result),
            "ok: suite `test`: none of 9 classes and 9 clusters lost its inputs\n\
             not judged: suite `test`: whether it covers less by SNPC: it has 5,000 inputs, and no random \
             sample of all 3,000 training inputs is as large\n\
             not judged: suite `test`: nothing could be judged; too small to judge 9 of 9 classes; 1,200 \
             inputs would do; too small to judge 9 of 9 clusters; 57 inputs of each class would do\n"
        );
    }

    #[test]
    fn shares_fall_by_points() {
        assert_eq!(amount(0.00001, true), "0.001 points");
        assert_eq!(amount(0.0, true), "0.00 points");
        assert_eq!(amount(2.0, false), "2");
    }
}
