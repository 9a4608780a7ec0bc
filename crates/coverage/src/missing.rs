//! What a suite has too few inputs of, by name.

use serde::{Deserialize, Serialize};

use crate::report::{ClassCoverage, ClusterCoverage, LabelledClass, SuiteReport};
use crate::thin::{are_fewer, judge};

/// A class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassName {
    /// Its number.
    pub class: usize,
    /// Its name, where the training data has names.
    pub name: Option<String>,
}

/// What tells that an input is one of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountedBy {
    /// The network classifies it as that.
    #[default]
    Prediction,
    /// It is labelled as that.
    Label,
}

/// A class, or a cluster of one, with too few inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thin {
    /// The class.
    #[serde(flatten)]
    pub class: ClassName,
    /// The cluster, among those of the graph; `None` for the whole class.
    pub cluster: Option<usize>,
    /// How its inputs are counted. A class that has too few by both is named once, by prediction.
    #[serde(default)]
    pub by: CountedBy,
    /// Inputs of it.
    pub inputs: usize,
    /// How many are expected.
    pub expected: f64,
    /// How many there were; `None` where there is nothing earlier, or nothing that is the same.
    pub earlier: Option<usize>,
}

/// How much of a suite could be judged: something is thin by more than chance, so a small suite says little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// Classes of which the suite would show that they are missing.
    pub classes: usize,
    /// Classes for which it is too small.
    pub classes_not_judged: usize,
    /// Inputs that would be enough to judge all of them; `None` where all are judged.
    pub enough: Option<u64>,
    /// Clusters of which the suite would show that they are missing. Those of classes without inputs are not
    /// counted.
    pub clusters: usize,
    /// Clusters for which it is too small.
    pub clusters_not_judged: usize,
    /// Inputs of a class that would be enough to judge all clusters of it; `None` where all are judged.
    pub enough_of_class: Option<u64>,
}

impl ClassCoverage {
    /// What it is called.
    pub fn class_name(&self) -> ClassName {
        ClassName {
            class: self.class,
            name: self.name.clone(),
        }
    }

    fn as_thin(&self, earlier: Option<usize>) -> Thin {
        Thin {
            class: self.class_name(),
            cluster: None,
            by: CountedBy::Prediction,
            inputs: self.inputs,
            expected: self.expected,
            earlier,
        }
    }

    fn as_thin_by_label(&self, expected: f64, earlier: Option<usize>) -> Thin {
        Thin {
            by: CountedBy::Label,
            inputs: self.labelled.map_or(0, |labelled| labelled.inputs),
            expected,
            ..self.as_thin(earlier)
        }
    }

    /// Whether it has too few inputs by label, and enough by prediction.
    pub fn is_thin_by_label_alone(&self) -> bool {
        !self.thin && self.labelled.is_some_and(|labelled| labelled.thin)
    }
}

impl SuiteReport {
    /// Classes and clusters that have too few inputs: first classes, by prediction and by label, then
    /// clusters of others.
    pub fn thin(&self) -> Vec<Thin> {
        let classes = self.classes.iter().filter(|class| class.thin);
        let classes = classes.map(|class| class.as_thin(None));
        let by_label = self.classes.iter().filter(|c| c.is_thin_by_label_alone());
        let by_label = by_label.filter_map(|class| {
            let expected = class.labelled.and_then(|labelled| labelled.expected)?;
            Some(class.as_thin_by_label(expected, None))
        });
        let clusters = self.clusters.iter().filter(|cluster| cluster.thin);
        let clusters = clusters.map(|cluster| self.as_thin(cluster, None));
        classes.chain(by_label).chain(clusters).collect()
    }

    /// The classes of which the suite would show that they are missing, and those for which it is too
    /// small. Classes that no inputs are expected of are neither.
    pub fn judged_classes(&self) -> (Vec<&ClassCoverage>, Vec<&ClassCoverage>) {
        let expected = self.classes.iter().filter(|class| class.enough.is_some());
        expected.partition(|class| class.enough <= Some(self.inputs as u64))
    }

    /// The same of clusters, by the inputs of their classes. Those of classes without inputs are
    /// neither.
    pub fn judged_clusters(&self) -> (Vec<&ClusterCoverage>, Vec<&ClusterCoverage>) {
        let inputs = |class: usize| self.classes.get(class).map_or(0, |class| class.inputs);
        let expected = self
            .clusters
            .iter()
            .filter(|cluster| cluster.enough.is_some() && inputs(cluster.class) > 0);
        expected.partition(|cluster| cluster.enough <= Some(inputs(cluster.class) as u64))
    }

    /// How many classes and clusters could be judged.
    pub fn judged(&self) -> Judged {
        let (classes, other_classes) = self.judged_classes();
        let (clusters, other_clusters) = self.judged_clusters();
        Judged {
            classes: classes.len(),
            classes_not_judged: other_classes.len(),
            enough: other_classes.iter().filter_map(|class| class.enough).max(),
            clusters: clusters.len(),
            clusters_not_judged: other_clusters.len(),
            enough_of_class: other_clusters
                .iter()
                .filter_map(|cluster| cluster.enough)
                .max(),
        }
    }

    /// What has too few inputs, and had enough in an earlier suite.
    ///
    /// Something that is thin now and was not quite thin then may have hardly changed, so it must also
    /// have become fewer by more than chance. Clusters of another graph are others: there a class may
    /// not have more thin clusters than it had.
    pub(crate) fn thinned(&self, old: &SuiteReport, same_graph: bool) -> Vec<Thin> {
        let mut thinned = Vec::new();
        for class in self.classes.iter().filter(|class| class.thin) {
            let Some(then) = old.classes.iter().find(|c| c.class == class.class) else {
                continue;
            };
            if !then.thin && are_fewer((class.inputs, self.inputs), (then.inputs, old.inputs)) {
                thinned.push(class.as_thin(Some(then.inputs)));
            }
        }
        let named: Vec<usize> = thinned.iter().map(|thin| thin.class.class).collect();
        let by_label = self.thinned_by_label(old);
        thinned.extend(by_label.filter(|thin| !named.contains(&thin.class.class)));
        for cluster in self.clusters.iter().filter(|cluster| cluster.thin) {
            let mut earlier = None;
            let is_new = if same_graph {
                let Some(then) = old.clusters.iter().find(|c| c.cluster == cluster.cluster) else {
                    continue;
                };
                earlier = Some(then.inputs);
                let new = (cluster.inputs, self.of_class(cluster.class));
                !then.thin && are_fewer(new, (then.inputs, old.of_class(cluster.class)))
            } else {
                self.thin_clusters(cluster.class) > old.thin_clusters(cluster.class)
            };
            if is_new {
                thinned.push(self.as_thin(cluster, earlier));
            }
        }
        thinned
    }

    /// Classes that have too few inputs by label, and had enough. Where nothing says how frequent
    /// labels should be, they should be as frequent as they were.
    fn thinned_by_label(&self, old: &SuiteReport) -> impl Iterator<Item = Thin> {
        let all = (self.labelled_inputs(), old.labelled_inputs());
        let known = |class: &&ClassCoverage| class.labelled.is_some_and(|l| l.inputs > 0);
        let known = old.classes.iter().filter(known).count();
        self.classes.iter().filter_map(move |class| {
            let then = old.classes.iter().find(|c| c.class == class.class)?;
            let (now, then) = (class.labelled?, then.labelled?);
            let expected = match (now.expected, then.expected) {
                (Some(expected), Some(_)) => (now.thin && !then.thin).then_some(expected)?,
                _ => {
                    let share = then.inputs as f64 / all.1.max(1) as f64;
                    let verdict = judge(now.inputs, all.0, share, known);
                    verdict.thin.then_some(verdict.expected)?
                }
            };
            let fewer = are_fewer((now.inputs, all.0), (then.inputs, all.1));
            fewer.then(|| class.as_thin_by_label(expected, Some(then.inputs)))
        })
    }

    /// Inputs that are labelled as one of the classes.
    pub(crate) fn labelled_inputs(&self) -> usize {
        let labelled =
            |class: &ClassCoverage| class.labelled.map_or(0, |l: LabelledClass| l.inputs);
        self.classes.iter().map(labelled).sum()
    }

    fn of_class(&self, class: usize) -> usize {
        self.classes.get(class).map_or(0, |class| class.inputs)
    }

    fn thin_clusters(&self, class: usize) -> usize {
        let thin = |cluster: &&ClusterCoverage| cluster.class == class && cluster.thin;
        self.clusters.iter().filter(thin).count()
    }

    fn as_thin(&self, cluster: &ClusterCoverage, earlier: Option<usize>) -> Thin {
        let class = self.classes.get(cluster.class);
        Thin {
            class: ClassName {
                class: cluster.class,
                name: class.and_then(|class| class.name.clone()),
            },
            cluster: Some(cluster.cluster),
            by: CountedBy::Prediction,
            inputs: cluster.inputs,
            expected: cluster.expected,
            earlier,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Values;
    use crate::thin::judge;

    /// A suite of one class with clusters of the same share.
    fn suite(inputs: &[usize]) -> SuiteReport {
        let all = inputs.iter().sum();
        let cluster = |(cluster, &count): (usize, &usize)| {
            let verdict = judge(count, all, 1.0 / inputs.len() as f64, inputs.len());
            ClusterCoverage {
                cluster,
                class: 0,
                inputs: count,
                expected: verdict.expected,
                p: verdict.p,
                thin: verdict.thin,
                enough: verdict.enough,
                criteria: Values::default(),
            }
        };
        let verdict = judge(all, all, 1.0, 1);
        SuiteReport {
            inputs: all,
            clusters: inputs.iter().enumerate().map(cluster).collect(),
            classes: vec![ClassCoverage {
                class: 0,
                name: Some("even".to_owned()),
                inputs: all,
                expected: verdict.expected,
                p: verdict.p,
                thin: verdict.thin,
                enough: verdict.enough,
                labelled: None,
                criteria: Values::default(),
            }],
            ..SuiteReport::default()
        }
    }

    /// A suite with so many inputs of each class by label, of which training has the same share, where
    /// that is known. By prediction nothing is missing.
    fn labelled(inputs: &[usize], known: bool) -> SuiteReport {
        let all: usize = inputs.iter().sum();
        let class = |(class, &count): (usize, &usize)| {
            let verdict = judge(count, all, 1.0 / inputs.len() as f64, inputs.len());
            ClassCoverage {
                class,
                name: None,
                inputs: all / inputs.len(),
                expected: verdict.expected,
                p: 0.5,
                thin: false,
                enough: None,
                labelled: Some(LabelledClass {
                    inputs: count,
                    expected: known.then_some(verdict.expected),
                    p: known.then_some(verdict.p),
                    thin: known && verdict.thin,
                    enough: None,
                }),
                criteria: Values::default(),
            }
        };
        SuiteReport {
            inputs: all,
            classes: inputs.iter().enumerate().map(class).collect(),
            ..SuiteReport::default()
        }
    }

    #[test]
    fn a_class_that_is_gone_by_label_is_named() {
        let (complete, without) = (labelled(&[50; 4], true), labelled(&[50, 50, 0, 50], true));
        let thin = Thin {
            class: ClassName {
                class: 2,
                name: None,
            },
            cluster: None,
            by: CountedBy::Label,
            inputs: 0,
            expected: 37.5,
            earlier: None,
        };
        assert_eq!(complete.thin(), []);
        assert_eq!(without.thin(), std::slice::from_ref(&thin));
        let earlier = Thin {
            earlier: Some(50),
            ..thin
        };
        // Labels are the same whatever the graph.
        for same_graph in [true, false] {
            let found = without.thinned(&complete, same_graph);
            assert_eq!(found, std::slice::from_ref(&earlier));
        }
        // What was missing before is no news, and half a suite has lost nothing.
        assert_eq!(without.thinned(&without, true), []);
        assert_eq!(labelled(&[25; 4], true).thinned(&complete, true), []);
        // Too few to tell.
        assert_eq!(labelled(&[2, 2, 0, 2], true).thinned(&complete, true), []);
        // Nothing is said of suites without labels.
        let mut silent = complete.clone();
        silent
            .classes
            .iter_mut()
            .for_each(|class| class.labelled = None);
        assert_eq!(silent.thinned(&complete, true), []);
        assert_eq!(without.thinned(&silent, true), []);
    }

    #[test]
    fn a_class_that_has_too_few_by_both_is_named_once() {
        let complete = labelled(&[50; 4], true);
        let mut without = labelled(&[50, 50, 0, 50], true);
        without.classes[2].inputs = 0;
        without.classes[2].thin = true;
        let by = |thin: &[Thin]| thin.iter().map(|thin| thin.by).collect::<Vec<_>>();
        assert_eq!(by(&without.thin()), [CountedBy::Prediction]);
        assert_eq!(
            by(&without.thinned(&complete, true)),
            [CountedBy::Prediction]
        );
    }

    #[test]
    fn without_labels_in_training_the_earlier_suite_says_how_many() {
        // Of 200, 80 were of the first class and 20 of the last: of 100 there should be 40 and 10.
        let then = labelled(&[80, 50, 50, 20], false);
        let now = labelled(&[50, 50, 0, 0], false);
        assert_eq!(now.thin(), []);
        let found = now.thinned(&then, false);
        let found: Vec<_> = found.iter().map(|t| (t.class.class, t.expected)).collect();
        assert_eq!(found, [(2, 25.0), (3, 10.0)]);
        assert_eq!(labelled(&[40, 25, 25, 10], false).thinned(&then, true), []);
        // A class that there was nothing of is not missed.
        let never = labelled(&[100, 100, 0, 0], false);
        assert_eq!(labelled(&[60, 40, 0, 0], false).thinned(&never, true), []);
    }

    fn clusters(thin: &[Thin]) -> Vec<Option<usize>> {
        thin.iter().map(|thin| thin.cluster).collect()
    }

    #[test]
    fn a_cluster_that_is_gone_is_named() {
        let (complete, without) = (suite(&[50, 48, 52, 50]), suite(&[67, 66, 67, 0]));
        assert_eq!(complete.thin(), []);
        let thin = Thin {
            class: ClassName {
                class: 0,
                name: Some("even".to_owned()),
            },
            cluster: Some(3),
            by: CountedBy::Prediction,
            inputs: 0,
            expected: 50.0,
            earlier: None,
        };
        assert_eq!(without.thin(), std::slice::from_ref(&thin));
        let earlier = Thin {
            earlier: Some(50),
            ..thin.clone()
        };
        assert_eq!(without.thinned(&complete, true), [earlier]);
        assert_eq!(without.thinned(&complete, false), [thin]);
        // What was missing before is no news.
        assert_eq!(without.thinned(&without, true), []);
        assert_eq!(without.thinned(&without, false), []);
    }

    #[test]
    fn what_hardly_changed_is_no_news() {
        let (then, now) = (suite(&[60, 60, 55, 25]), suite(&[60, 60, 57, 23]));
        assert_eq!(
            (then.thin(), clusters(&now.thin())),
            (vec![], vec![Some(3)])
        );
        assert_eq!(now.thinned(&then, true), []);
    }

    #[test]
    fn what_a_suite_is_too_small_for() {
        // 0.75^n is below 0.01 / 4 from 21 on.
        let small = suite(&[5, 5, 5, 5]);
        assert_eq!(small.judged_clusters().1.len(), 4);
        let large = suite(&[5, 5, 5, 6]);
        assert_eq!(large.judged_clusters().0.len(), 4);
        assert_eq!(large.judged_classes().0.len(), 1);
    }
}
