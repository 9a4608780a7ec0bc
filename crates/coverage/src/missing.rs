//! What a suite has too few inputs of, by name.

use serde::{Deserialize, Serialize};

use crate::report::{ClassCoverage, ClusterCoverage, SuiteReport};
use crate::thin::are_fewer;

/// A class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassName {
    /// Its number.
    pub class: usize,
    /// Its name, where the training data has names.
    pub name: Option<String>,
}

/// A class, or a cluster of one, with too few inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thin {
    /// The class.
    #[serde(flatten)]
    pub class: ClassName,
    /// The cluster, among those of the graph; `None` for the whole class.
    pub cluster: Option<usize>,
    /// Inputs of it.
    pub inputs: usize,
    /// How many are expected.
    pub expected: f64,
    /// How many there were; `None` where there is nothing earlier, or nothing that is the same.
    pub earlier: Option<usize>,
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
            inputs: self.inputs,
            expected: self.expected,
            earlier,
        }
    }
}

impl SuiteReport {
    /// Classes and clusters that have too few inputs: first classes, then clusters of others.
    pub fn thin(&self) -> Vec<Thin> {
        let classes = self.classes.iter().filter(|class| class.thin);
        let clusters = self.clusters.iter().filter(|cluster| cluster.thin);
        let clusters = clusters.map(|cluster| self.as_thin(cluster, None));
        classes
            .map(|class| class.as_thin(None))
            .chain(clusters)
            .collect()
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
                criteria: Values::default(),
            }],
            ..SuiteReport::default()
        }
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
