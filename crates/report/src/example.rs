//! Made-up results for the tests of several formats.

use npcov::coverage::{
    Baselines, Change, ClassCoverage, ClassDifference, ClassName, ClusterCoverage, Contribution,
    Counts, Difference, LayerCoverage, Relative, Report, SuiteDifference, SuiteReport, Things,
    Unusual, Values,
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
    let baselines = |value: f64, random: Option<f64>| Baselines {
        training: 0.8,
        random,
        reachable: 80,
        inputs: 50,
        all_inputs: 100,
        of_training: value / 0.8,
        of_random: random.map(|random| value / random),
        spread: random.map(|_| 0.05),
    };
    let mut unit = SuiteReport::default();
    unit.name = "unit|test".to_owned();
    unit.inputs = 10;
    unit.accuracy = Some(0.9);
    unit.criteria = values(&[
        ("snpc", percent(50)),
        ("tknp", Amount::Count(7)),
        ("nlc", Amount::Number(2.5)),
    ]);
    unit.baselines = values(&[("snpc", baselines(0.5, Some(0.6)))]);
    unit.classes = vec![
        ClassCoverage {
            class: 0,
            name: Some("shirt".to_owned()),
            inputs: 10,
            expected: 4.1,
            p: 1.0,
            thin: false,
            enough: Some(8),
            labelled: None,
            criteria: values(&[("snpc", percent(60))]),
        },
        ClassCoverage {
            class: 1,
            name: Some("<dress>".to_owned()),
            inputs: 0,
            expected: 5.9,
            p: 1e-4,
            thin: true,
            enough: Some(6),
            labelled: None,
            criteria: values(&[("snpc", percent(0))]),
        },
    ];
    unit.clusters = vec![ClusterCoverage {
        cluster: 0,
        class: 0,
        inputs: 1,
        expected: 8.0,
        p: 1e-5,
        thin: true,
        enough: Some(10),
        criteria: values(&[("snpc", percent(0))]),
    }];
    unit.layers = vec![LayerCoverage {
        layer: 0,
        name: "/relu".to_owned(),
        criteria: values(&[("snpc", percent(50))]),
    }];
    unit.most = vec![Contribution {
        data: "0123456789abcdef".to_owned(),
        input: 4,
        sample: None,
        prediction: 0,
        label: Some(1),
        alone: 12,
    }];
    unit.unfamiliar = Some(Unusual {
        inputs: 2,
        expected: 0.2,
    });
    unit.copies = Some(0);
    let mut field = SuiteReport::default();
    field.name = "field".to_owned();
    field.inputs = 90;
    field.criteria = values(&[
        ("snpc", percent(20)),
        ("tknp", Amount::Count(9)),
        ("nlc", Amount::Number(1.0)),
    ]);
    field.baselines = values(&[("snpc", baselines(0.2, None))]);
    let mut report = Report::default();
    report.suites = vec![unit, field];
    report.together = Some(values(&[
        ("snpc", percent(55)),
        ("tknp", Amount::Count(12)),
    ]));
    report.buckets = values(&[("snpc", 100)]);
    report.warnings = vec!["layer 2 is beyond".to_owned()];
    report
}

/// The first suite had more of everything, and of a class that it has lost; the second is new.
pub(crate) fn difference() -> Difference {
    let mut difference = Difference::default();
    difference.suites = vec![SuiteDifference {
        name: "unit|test".to_owned(),
        earlier: "unit|test".to_owned(),
        inputs: Counts { old: 15, new: 10 },
        accuracy: Some(Change::between(0.85, 0.9)),
        criteria: values(&[
            ("snpc", Change::between(0.55, 0.5)),
            ("tknp", Change::between(7.0, 7.0)),
        ]),
        relative: values(&[(
            "snpc",
            Relative {
                change: Change::between(0.95, 0.5 / 0.6),
                spread: 0.06,
            },
        )]),
        things: values(&[("snpc", Things { lost: 6, new: 1 })]),
        classes: vec![ClassDifference {
            class: 1,
            name: Some("<dress>".to_owned()),
            inputs: Counts { old: 5, new: 0 },
        }],
        thinned: Vec::new(),
        copies: Some(Counts { old: 0, new: 0 }),
    }];
    difference.missing = vec!["gone".to_owned()];
    difference.added = vec!["field".to_owned()];
    difference.not_compared = vec!["nlc".to_owned()];
    difference
}

pub(crate) fn dress() -> ClassName {
    ClassName {
        class: 1,
        name: Some("<dress>".to_owned()),
    }
}
