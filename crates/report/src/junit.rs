//! Coverage as JUnit XML: a test suite for each suite, a test case for each criterion.

use npcov::coverage::{Check, Condition, Difference, Finding, Report, SuiteReport};

use crate::check::line;
use crate::visible::visible;

/// What suites cover, for programs that collect test results. Values are properties of test cases;
/// rules that do not hold are failures.
pub fn junit(report: &Report, difference: Option<&Difference>, check: Option<&Check>) -> String {
    linked_junit(report, difference, check, None)
}

/// The same; where there are pages of the report, a property of each suite says where.
pub fn linked_junit(
    report: &Report,
    difference: Option<&Difference>,
    check: Option<&Check>,
    link: Option<&str>,
) -> String {
    let findings = check.map_or(&[][..], |check| &check.findings);
    let changed = check.is_some_and(|check| check.model_changed == Some(true));
    let mut suites: Vec<(String, Vec<Case>)> = Vec::new();
    for suite in &report.suites {
        suites.push((suite.name.clone(), cases(suite, difference, findings)));
    }
    for finding in findings
        .iter()
        .filter(|f| f.rule == Condition::MissingSuite)
    {
        let case = Case::new("measured", &[finding]);
        suites.push((finding.suite.clone(), vec![case]));
    }
    let all = || suites.iter().flat_map(|(_, cases)| cases);
    let mut xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    xml += &format!(
        "<testsuites name=\"npcov\" tests=\"{}\" failures=\"{}\">\n",
        all().count(),
        all().filter(|case| case.fails()).count()
    );
    for (name, cases) in &suites {
        xml += &format!(
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\">\n",
            escape(name),
            cases.len(),
            cases.iter().filter(|case| case.fails()).count()
        );
        if let Some(link) = link {
            xml += &format!(
                "    <properties>\n      <property name=\"report\" value=\"{}\"/>\n    </properties>\n",
                escape(link)
            );
        }
        for case in cases {
            xml += &case.xml(name, changed);
        }
        xml += "  </testsuite>\n";
    }
    xml += "</testsuites>\n";
    xml
}

/// A test case.
struct Case<'a> {
    name: String,
    properties: Vec<(&'static str, f64)>,
    findings: Vec<&'a Finding>,
}

impl<'a> Case<'a> {
    fn new(name: &str, findings: &[&'a Finding]) -> Case<'a> {
        Case {
            name: name.to_owned(),
            properties: Vec::new(),
            findings: findings.to_vec(),
        }
    }

    fn fails(&self) -> bool {
        self.findings.iter().any(|finding| !finding.passed)
    }

    fn xml(&self, suite: &str, model_changed: bool) -> String {
        let mut xml = format!(
            "    <testcase classname=\"{}\" name=\"{}\">\n",
            escape(suite),
            escape(&self.name)
        );
        if !self.properties.is_empty() {
            xml += "      <properties>\n";
            for (name, value) in &self.properties {
                xml += &format!("        <property name=\"{name}\" value=\"{value}\"/>\n");
            }
            xml += "      </properties>\n";
        }
        for finding in self.findings.iter().filter(|finding| !finding.passed) {
            let kind = match finding.rule {
                Condition::FailUnder { .. } => "fail-under",
                Condition::FailOnDrop { .. } => "fail-on-drop",
                Condition::FailOnThin { .. } => "fail-on-thin",
                Condition::FailOnLoss { .. } => "fail-on-loss",
                Condition::FailOnThinClusters { .. } => "fail-on-thin-clusters",
                Condition::LossNotJudged { .. } => "loss-not-judged",
                Condition::NewlyThin { .. } => "newly-thin",
                Condition::MoreCopies { .. } => "more-copies",
                Condition::MissingSuite => "missing-suite",
            };
            let message = escape(&line(finding, model_changed));
            xml += &format!("      <failure type=\"{kind}\" message=\"{message}\"/>\n");
        }
        xml + "    </testcase>\n"
    }
}

fn cases<'a>(
    suite: &SuiteReport,
    difference: Option<&Difference>,
    findings: &'a [Finding],
) -> Vec<Case<'a>> {
    let about = |name: &str| -> Vec<&'a Finding> {
        let named = |finding: &&Finding| match &finding.rule {
            Condition::FailUnder { criterion, .. }
            | Condition::FailOnDrop { criterion, .. }
            | Condition::FailOnLoss { criterion, .. }
            | Condition::LossNotJudged { criterion, .. } => {
                finding.suite == suite.name && criterion == name
            }
            _ => false,
        };
        findings.iter().filter(named).collect()
    };
    let changes = difference.and_then(|difference| difference.suite(&suite.name));
    let mut cases = Vec::new();
    if let Some(accuracy) = suite.accuracy {
        let mut case = Case::new("accuracy", &about("accuracy"));
        case.properties.push(("value", accuracy));
        let earlier = changes.and_then(|changes| changes.accuracy);
        case.properties
            .extend(earlier.map(|change| ("earlier", change.old)));
        cases.push(case);
    }
    for (name, amount) in &suite.criteria.0 {
        let mut case = Case::new(name, &about(name));
        case.properties.push(("value", amount.value()));
        if let Some(baselines) = suite.baselines.get(name) {
            let random = baselines.random.map(|random| ("random", random));
            case.properties.extend(random);
            case.properties.push(("training", baselines.training));
            let of_random = baselines.of_random.map(|part| ("of-random", part));
            case.properties.extend(of_random);
            let spread = baselines.spread.map(|spread| ("spread", spread));
            case.properties.extend(spread);
        }
        let earlier = changes.and_then(|changes| changes.criteria.get(name));
        case.properties
            .extend(earlier.map(|change| ("earlier", change.old)));
        cases.push(case);
    }
    for (name, about) in [
        ("classes", is_about_classes as fn(&_) -> _),
        ("copies", is_about_copies),
    ] {
        let own = |finding: &&Finding| finding.suite == suite.name && about(&finding.rule);
        let found: Vec<&Finding> = findings.iter().filter(own).collect();
        if !found.is_empty() {
            cases.push(Case::new(name, &found));
        }
    }
    cases
}

fn is_about_classes(rule: &Condition) -> bool {
    matches!(
        rule,
        Condition::FailOnThin { .. }
            | Condition::FailOnThinClusters { .. }
            | Condition::NewlyThin { .. }
    )
}

fn is_about_copies(rule: &Condition) -> bool {
    matches!(rule, Condition::MoreCopies { .. })
}

/// Text as the value of an attribute. XML cannot hold all characters; what is not shown is made visible.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in visible(text).chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&apos;",
            '\n' => escaped += "&#10;",
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use npcov::coverage::{Bound, CountedBy, Judged, Thin};

    #[test]
    fn the_pages_are_a_property() {
        let xml = linked_junit(&example::two_suites(), None, None, Some("a&b.html"));
        let property = "<property name=\"report\" value=\"a&amp;b.html\"/>";
        assert_eq!(xml.matches(property).count(), 2, "{xml}");
    }

    #[test]
    fn attributes_are_escaped() {
        let text = "a<b> & \"c\" 'd'\n\u{1}é";
        let expected = "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;&#10;\\u{1}é";
        assert_eq!(escape(text), expected);
    }

    #[test]
    fn criteria_are_test_cases() {
        let xml = junit(&example::two_suites(), Some(&example::difference()), None);
        assert!(
            xml.contains("<testsuites name=\"npcov\" tests=\"7\" failures=\"0\">"),
            "{xml}"
        );
        let case = "    <testcase classname=\"unit|test\" name=\"snpc\">\n      <properties>\n        \
                    <property name=\"value\" value=\"0.5\"/>\n        \
                    <property name=\"random\" value=\"0.6\"/>\n        \
                    <property name=\"training\" value=\"0.8\"/>\n        \
                    <property name=\"of-random\" value=\"0.8333333333333334\"/>\n        \
                    <property name=\"spread\" value=\"0.05\"/>\n        \
                    <property name=\"earlier\" value=\"0.55\"/>\n      </properties>\n    \
                    </testcase>\n";
        assert!(xml.contains(case), "{xml}");
    }

    #[test]
    fn rules_that_do_not_hold_are_failures() {
        let finding = |suite: &str, rule: Condition| Finding {
            suite: suite.to_owned(),
            inputs: 10,
            passed: false,
            rule,
            thin: vec![Thin {
                class: example::dress(),
                cluster: None,
                by: CountedBy::Prediction,
                inputs: 0,
                expected: 5.9,
                earlier: None,
            }],
        };
        let under = Condition::FailUnder {
            criterion: "snpc".to_owned(),
            share: true,
            value: 0.5,
            required: 0.6,
            bound: Bound::Value(0.6),
            yardstick: None,
        };
        let newly_thin = Condition::NewlyThin {
            judged: Judged::default(),
        };
        let check = Check::new(
            vec![
                finding("unit|test", under),
                finding("unit|test", newly_thin),
                finding("gone", Condition::MissingSuite),
            ],
            None,
        );
        let xml = junit(&example::two_suites(), None, Some(&check));
        assert!(xml.contains("tests=\"9\" failures=\"3\""), "{xml}");
        assert!(xml.contains("<failure type=\"fail-under\" message=\"suite `unit|test`: SNPC is"));
        assert!(
            xml.contains("class 1 (&lt;dress&gt;): no inputs where 5.9 are expected"),
            "{xml}"
        );
        assert!(
            xml.contains("<testsuite name=\"gone\" tests=\"1\" failures=\"1\">"),
            "{xml}"
        );
    }
}
