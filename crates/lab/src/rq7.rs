//! RQ7: is a missing kind named?
//!
//! Suites are drawn from test data without inputs of one *kind*, a finer label than the network was
//! trained with, and have as many inputs of each predicted class as complete ones: numbers of classes do
//! not tell them apart. The kind is named if the report calls a cluster thin that is mostly of this kind among
//! training inputs. Complete suites are the control: whatever is thin in them is a false alarm.
//!
//! All test inputs are measured once; a suite is a part of them.

use std::collections::BTreeSet;

use npcov::artefact::{InputRecord, NO_SCORE};
use npcov::coverage::{ClusterCoverage, Measurement};
use npcov::data::Loader;
use npcov::run::{Extraction, Found, PathRows, Progress, SampleRange, Sink, extract_shards};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, parameter};
use crate::folder::WorkFolder;
use crate::inputs::TrainingAndTest;
use crate::kinds::{OfKinds, TrainingKinds, of_data};
use crate::random::{Purpose, shuffle};
use crate::suites;

/// How RQ7 is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rq7Settings {
    /// Inputs of a suite.
    pub size: usize,
    /// Complete suites.
    pub complete: usize,
    /// Seed of every draw.
    pub seed: u64,
}

impl Default for Rq7Settings {
    fn default() -> Self {
        Rq7Settings {
            size: 2000,
            complete: 40,
            seed: 0,
        }
    }
}

/// What RQ7 gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq7 {
    /// The test data, as it was named.
    pub data: String,
    /// The training data, as it was named.
    pub training: String,
    /// The decision graph's digest.
    pub graph: String,
    /// Test inputs.
    pub inputs: usize,
    /// Inputs of a suite.
    pub size: usize,
    /// Seed of every draw.
    pub seed: u64,
    /// By cluster of the decision graph.
    pub clusters: Vec<Rq7Cluster>,
    /// A suite for each kind, without it.
    pub missing: Vec<Rq7Missing>,
    /// Complete suites.
    pub complete: usize,
    /// Clusters that are thin in complete suites, in all of them.
    pub false_alarms: usize,
    /// Complete suites in which a cluster is thin.
    pub alarmed: usize,
    /// Clusters that are thin in the whole test data.
    pub thin_in_test: Vec<usize>,
    /// Clusters that are thin in the graph's own training data.
    pub thin_in_training: Vec<usize>,
}

/// A cluster, and what it is a cluster of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq7Cluster {
    /// The cluster, among those of the graph.
    pub cluster: usize,
    /// Its class.
    pub class: usize,
    /// Training inputs in it.
    pub inputs: usize,
    /// The kind of more than half of them; `None` where there is none.
    pub kind: Option<i64>,
    /// The share of those that are of the most frequent kind.
    pub purity: f64,
}

/// A suite without a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq7Missing {
    /// The kind.
    pub kind: i64,
    /// Clusters that are mostly of this kind.
    pub clusters: usize,
    /// Inputs of the suite in those.
    pub inputs: usize,
    /// How many are expected there.
    pub expected: f64,
    /// Whether one of those is thin.
    pub named: bool,
    /// Thin clusters that are mostly of another kind.
    pub wrongly: Vec<usize>,
    /// Thin clusters that are mostly of no kind.
    pub unclear: Vec<usize>,
}

impl Rq7 {
    /// Missing kinds that are named.
    pub fn named(&self) -> usize {
        self.missing.iter().filter(|missing| missing.named).count()
    }

    /// Thin clusters of other kinds, in all suites without a kind.
    pub fn wrongly(&self) -> usize {
        let wrongly = self.missing.iter().map(|missing| missing.wrongly.len());
        wrongly.sum()
    }
}

/// Removes each kind in turn from suites of test data. What is finished is kept in `work`, whose plan
/// must tell graph, data, kinds and settings apart; `progress` is told of each input that is measured,
/// first of the test data, then of the training data.
pub fn rq7(
    measurement: &Measurement<'_>,
    TrainingAndTest { training, test }: TrainingAndTest<OfKinds<'_>>,
    settings: &Rq7Settings,
    work: &WorkFolder,
    threads: usize,
    progress: &mut dyn Progress,
) -> Result<Rq7, LabError> {
    let file = measurement.graph().file();
    let learnt = TrainingKinds::new(file, training.data, training.kinds)?;
    let test_kinds = of_data(test.data, test.kinds)?;
    let wanted = settings.size;
    if wanted == 0 {
        return parameter("size", 0, "1 or more");
    }
    if test.data.len() < wanted {
        return Err(LabError::TooFew {
            data: test.data.name().to_owned(),
            kind: "inputs",
            found: test.data.len(),
            wanted,
        });
    }
    let mut measure = |part: &str, data: &Loader<'_>, range: std::ops::Range<usize>| {
        work.keep(part, || {
            let inputs = SampleRange {
                data,
                range,
                threads,
            };
            placed(measurement, &inputs, progress)
        })
    };
    let tested = measure("test", test.data, 0..test.data.len())?;
    let of_training = &file.record().training;
    let trained = measure(
        "training",
        training.data,
        of_training.start..of_training.end,
    )?;

    let clusters = learnt.clusters().map(|(cluster, class)| {
        let (kind, purity) = learnt.majority(cluster);
        Rq7Cluster {
            cluster,
            class,
            inputs: file.graph().size(cluster),
            kind,
            purity,
        }
    });
    let clusters: Vec<Rq7Cluster> = clusters.collect();
    let classes: Vec<u32> = tested.iter().map(|&(class, _)| class).collect();
    let drawing = Drawing {
        quotas: quotas(&classes, file.graph().classes().len(), wanted),
        classes: &classes,
        seed: settings.seed,
    };
    let report = |rows: &[usize]| {
        let inputs = rows.iter().map(|&row| tested[row]);
        filled(measurement, inputs)
    };
    let kinds: BTreeSet<i64> = test_kinds.iter().copied().collect();
    let mut missing = Vec::new();
    for (number, &kind) in kinds.iter().enumerate() {
        let rows = drawing.suite(number, |row| test_kinds[row] != kind);
        missing.push(judge(kind, &clusters, &report(&rows)?));
    }
    let (mut false_alarms, mut alarmed) = (0, 0);
    for number in 0..settings.complete {
        let rows = drawing.suite(kinds.len() + number, |_| true);
        let thin = thin(&report(&rows)?).len();
        false_alarms += thin;
        alarmed += usize::from(thin > 0);
    }
    let whole = |placed: &[Place]| -> Result<Vec<usize>, LabError> {
        Ok(thin(&filled(measurement, placed.iter().copied())?))
    };
    Ok(Rq7 {
        data: test.data.name().to_owned(),
        training: training.data.name().to_owned(),
        graph: file.record().id.clone(),
        inputs: test.data.len(),
        size: wanted,
        seed: settings.seed,
        clusters,
        missing,
        complete: settings.complete,
        false_alarms,
        alarmed,
        thin_in_test: whole(&tested)?,
        thin_in_training: whole(&trained)?,
    })
}

/// Where an input is in the decision graph: its predicted class and its cluster.
type Place = (u32, u32);

/// Where inputs are. What they cover is not looked at.
fn placed(
    measurement: &Measurement<'_>,
    inputs: &SampleRange<'_>,
    progress: &mut dyn Progress,
) -> Result<Vec<Place>, LabError> {
    let extraction = Extraction::Paths(Box::new(measurement.graph().extractor()?));
    let mut places = Places {
        measurement,
        threads: inputs.threads,
        found: Vec::new(),
    };
    extract_shards(
        &extraction,
        inputs,
        |_, _| Found::Nothing,
        progress,
        &mut places,
    )?;
    Ok(places.found)
}

/// Finds the places of inputs, shard by shard.
struct Places<'a> {
    measurement: &'a Measurement<'a>,
    threads: usize,
    found: Vec<Place>,
}

impl<'a> Sink<'a> for Places<'a> {
    type Error = LabError;

    fn shard(&mut self, _index: usize, shard: &PathRows) -> Result<(), LabError> {
        let clusters = self.measurement.clusters(shard, self.threads)?;
        let classes = shard.predictions.iter().copied();
        self.found.extend(classes.zip(clusters));
        Ok(())
    }
}

/// What a suite has of a cluster.
#[derive(Clone, Copy)]
struct Filled {
    inputs: usize,
    expected: f64,
    thin: bool,
}

/// By cluster: what a report says of a suite with these inputs. Labels and scores do not matter for
/// that.
fn filled(
    measurement: &Measurement<'_>,
    places: impl Iterator<Item = Place>,
) -> Result<Vec<Filled>, LabError> {
    let record = |(prediction, cluster): Place| InputRecord {
        prediction,
        label: i64::from(prediction),
        cluster,
        unfamiliar: NO_SCORE,
        contested: NO_SCORE,
    };
    let found = suites::clusters(measurement, places.map(record).collect())?;
    let one = |found: &ClusterCoverage| Filled {
        inputs: found.inputs,
        expected: found.expected,
        thin: found.thin,
    };
    Ok(found.iter().map(one).collect())
}

/// What a suite without a kind says of it.
fn judge(kind: i64, clusters: &[Rq7Cluster], found: &[Filled]) -> Rq7Missing {
    let mut missing = Rq7Missing {
        kind,
        clusters: 0,
        inputs: 0,
        expected: 0.0,
        named: false,
        wrongly: Vec::new(),
        unclear: Vec::new(),
    };
    for (cluster, found) in clusters.iter().zip(found) {
        match cluster.kind {
            Some(majority) if majority == kind => {
                missing.clusters += 1;
                missing.inputs += found.inputs;
                missing.expected += found.expected;
                missing.named |= found.thin;
            }
            Some(_) if found.thin => missing.wrongly.push(cluster.cluster),
            None if found.thin => missing.unclear.push(cluster.cluster),
            _ => {}
        }
    }
    missing
}

/// The thin ones of some clusters.
fn thin(clusters: &[Filled]) -> Vec<usize> {
    let thin = |&cluster: &usize| clusters[cluster].thin;
    (0..clusters.len()).filter(thin).collect()
}

/// By class: how many inputs a suite of `size` has, in the proportions of all inputs.
fn quotas(inputs: &[u32], classes: usize, size: usize) -> Vec<usize> {
    let mut counts = vec![0; classes];
    for &class in inputs {
        counts[class as usize] += 1;
    }
    // Where each class ends is rounded, so that all of them add up.
    let end = |seen: usize| (2 * seen * size + inputs.len()) / (2 * inputs.len().max(1));
    let mut seen = 0;
    let quota = |count: usize| {
        let start = end(seen);
        seen += count;
        end(seen) - start
    };
    counts.into_iter().map(quota).collect()
}

/// How suites are drawn.
struct Drawing<'a> {
    /// By input: its predicted class.
    classes: &'a [u32],
    /// By class: inputs of a suite.
    quotas: Vec<usize>,
    seed: u64,
}

impl Drawing<'_> {
    /// Random rows among those that are allowed; fewer of a class where there are not enough.
    fn suite(&self, number: usize, allowed: impl Fn(usize) -> bool) -> Vec<usize> {
        let rows = 0..self.classes.len();
        let mut order: Vec<usize> = rows.filter(|&row| allowed(row)).collect();
        shuffle(&mut order, self.seed, Purpose::Kinds, number as u64);
        let mut left = self.quotas.clone();
        order.retain(|&row| {
            let left = &mut left[self.classes[row] as usize];
            let taken = *left > 0;
            *left = left.saturating_sub(1);
            taken
        });
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_the_proportions_of_classes_and_nothing_that_is_not_allowed() {
        let class = |row: usize| [0, 0, 0, 0, 0, 1, 1, 1, 1, 2][row % 10];
        let classes: Vec<u32> = (0..100).map(class).collect();
        let drawing = Drawing {
            quotas: quotas(&classes, 3, 33),
            classes: &classes,
            seed: 0,
        };
        // Half, four tenths and a tenth of 33, rounded where each ends: 16.5, 29.7, 33.
        assert_eq!(drawing.quotas, [17, 13, 3]);
        let suite = drawing.suite(0, |row| row % 10 != 0);
        assert!(suite.iter().all(|row| row % 10 != 0));
        let count = |class: u32| suite.iter().filter(|&&row| classes[row] == class).count();
        assert_eq!([0, 1, 2].map(count), [17, 13, 3]);
        let distinct: BTreeSet<usize> = suite.iter().copied().collect();
        assert_eq!(distinct.len(), 33);
        assert_eq!(suite, drawing.suite(0, |row| row % 10 != 0));
        assert_ne!(suite, drawing.suite(1, |row| row % 10 != 0));
        // A class that is not allowed at all leaves the suite smaller.
        assert_eq!(drawing.suite(0, |row| row % 10 != 9).len(), 30);
    }

    #[test]
    fn a_kind_is_named_by_a_thin_cluster_that_is_mostly_of_it() {
        let cluster = |cluster: usize, kind: Option<i64>| Rq7Cluster {
            cluster,
            class: 0,
            inputs: 10,
            kind,
            purity: 0.9,
        };
        let clusters = [
            cluster(0, Some(4)),
            cluster(1, Some(4)),
            cluster(2, Some(6)),
            cluster(3, None),
        ];
        let found = |thin: [bool; 4]| {
            thin.map(|thin| Filled {
                inputs: 3,
                expected: 5.0,
                thin,
            })
        };
        let judged = judge(4, &clusters, &found([false, true, false, false]));
        assert!(judged.named && judged.wrongly.is_empty() && judged.unclear.is_empty());
        assert_eq!(
            (judged.clusters, judged.inputs, judged.expected),
            (2, 6, 10.0)
        );
        let judged = judge(4, &clusters, &found([false, false, true, true]));
        assert!(!judged.named);
        assert_eq!((judged.wrongly, judged.unclear), (vec![2], vec![3]));
        // A kind without a cluster of its own cannot be named.
        assert!(!judge(9, &clusters, &found([true; 4])).named);
    }
}
