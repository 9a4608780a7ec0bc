//! Made-up results for the tests of several formats.

use npcov::coverage::{
    Baselines, Change, ClassCoverage, ClassDifference, ClassName, ClusterCoverage, Contribution,
    Counts, Difference, LayerCoverage, Report, SuiteDifference, SuiteReport, Things, Unusual,
    Values,
};
use npcov::criteria::Amount;

pub(crate) fn values<T: Copy>(list: &[(&str, T)]) -> Values<T> {
    let entry = |&(name, value): &(&str, T)| (name.to_owned(), value);
    Values(list.iter().map(entry).collect())
}

/// So many of a hundred things.
fn percent(covered: u64) -> Amount {
    Amount::Share {
        covered,
        total: 100,
    }
}

/// One suite with everything a report can say, whose name needs escaping, and one with little: it is
/// larger than the training data and has no labels.
pub(crate) fn two_suites() -> Report {
    let baselines = |random: Option<f64>| Baselines {
        training: 0.8,
        random,
        reachable: 80,
        inputs: 50,
    };
    let unit = SuiteReport {
        name: "unit|test".to_owned(),
        inputs: 10,
        accuracy: Some(0.9),
        criteria: values(&[
            ("snpc", percent(50)),
            ("tknp", Amount::Count(7)),
            ("nlc", Amount::Number(2.5)),
        ]),
        baselines: values(&[("snpc", baselines(Some(0.6)))]),
        classes: vec![
            ClassCoverage {
                class: 0,
                name: Some("shirt".to_owned()),
                inputs: 10,
                criteria: values(&[("snpc", percent(60))]),
                thin: false,
            },
            ClassCoverage {
                class: 1,
                name: Some("<dress>".to_owned()),
                inputs: 0,
                criteria: values(&[("snpc", percent(0))]),
                thin: true,
            },
        ],
        clusters: vec![ClusterCoverage {
            cluster: 3,
            class: 1,
            inputs: 0,
            expected: 4.25,
            criteria: values(&[("snpc", percent(0))]),
            thin: true,
        }],
        layers: vec![LayerCoverage {
            layer: 0,
            name: "/relu".to_owned(),
            criteria: values(&[("snpc", percent(50))]),
        }],
        most: vec![Contribution {
            data: "0123456789abcdef".to_owned(),
            input: 4,
            sample: None,
            prediction: 0,
            label: Some(1),
            alone: 12,
        }],
        beyond: Vec::new(),
        unfamiliar: Some(Unusual {
            inputs: 2,
            expected: 0.2,
        }),
        contested: None,
    };
    let field = SuiteReport {
        name: "field".to_owned(),
        inputs: 90,
        accuracy: None,
        criteria: values(&[
            ("snpc", percent(20)),
            ("tknp", Amount::Count(9)),
            ("nlc", Amount::Number(1.0)),
        ]),
        baselines: values(&[("snpc", baselines(None))]),
        classes: Vec::new(),
        clusters: Vec::new(),
        layers: Vec::new(),
        most: Vec::new(),
        beyond: Vec::new(),
        unfamiliar: None,
        contested: None,
    };
    Report {
        suites: vec![unit, field],
        together: Some(values(&[
            ("snpc", percent(55)),
            ("tknp", Amount::Count(12)),
        ])),
        buckets: values(&[("snpc", 100)]),
        warnings: vec!["layer 2 is beyond".to_owned()],
    }
}

/// The first suite had more of everything, and of a class that it has lost; the second is new.
pub(crate) fn difference() -> Difference {
    Difference {
        suites: vec![SuiteDifference {
            name: "unit|test".to_owned(),
            earlier: "unit|test".to_owned(),
            inputs: Counts { old: 15, new: 10 },
            accuracy: Some(Change::between(0.85, 0.9)),
            criteria: values(&[
                ("snpc", Change::between(0.55, 0.5)),
                ("tknp", Change::between(7.0, 7.0)),
            ]),
            things: values(&[("snpc", Things { lost: 6, new: 1 })]),
            classes: vec![ClassDifference {
                class: 1,
                name: Some("<dress>".to_owned()),
                inputs: Counts { old: 5, new: 0 },
            }],
        }],
        missing: vec!["gone".to_owned()],
        added: vec!["field".to_owned()],
        not_compared: vec!["nlc".to_owned()],
        ..Difference::default()
    }
}

pub(crate) fn dress() -> ClassName {
    ClassName {
        class: 1,
        name: Some("<dress>".to_owned()),
    }
}
