//! What a suite is missing: its thin classes and clusters, what they look like, and how many inputs
//! would fill them.
//!
//! Adding inputs to something thin makes the suite larger, and so what is expected of everything in it.
//! Let the thin parts of a whole of `n` inputs have a share `S` of it in training, and `K` inputs now. The
//! others stay as they are and are to have the share `1 - S`, so the whole is to have
//!
//! ```text
//! n' = (n - K) / (1 - S)
//! ```
//!
//! inputs, and a thin part with the share `s` is to have `n' s` of them. Classes that are thin by label
//! alone are parts of the labelled inputs, and filled by inputs of a pool that has labels.

use std::ops::Range;

use npcov_artefact::{ArtefactError, InputRecord, MeasuredSuite, ScoreKind};
use npcov_paths::{Centres, NO_CLUSTER, for_each_path};
use serde::{Deserialize, Serialize};

use crate::coverage::Coverage;
use crate::error::CoverageError;
use crate::graph::LearntGraph;
use crate::missing::{CountedBy, Judged};
use crate::nearest::Similarities;
use crate::report::{ClassCoverage, LabelledClass, SuiteReport};

/// How gaps are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapOptions {
    /// The suites that are looked at, as if they were one; all of the state by default.
    pub suites: Vec<String>,
    /// How many inputs are named, at most, to show what a gap looks like, and what the suite has of it.
    pub exemplars: usize,
    /// How many inputs of a pool are taken for a gap, at most; by default as many as fill it.
    pub count: Option<usize>,
}

impl Default for GapOptions {
    fn default() -> Self {
        GapOptions {
            suites: Vec::new(),
            exemplars: 5,
            count: None,
        }
    }
}

/// What a suite is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Gaps {
    /// The suite, or the suites that were looked at as one.
    pub suites: Vec<String>,
    /// Inputs in it.
    pub inputs: usize,
    /// Its thin classes, by prediction and by label, then its thin clusters.
    pub gaps: Vec<Gap>,
    /// How much of it could be judged: a suite that is too small has no gaps for that reason alone.
    #[serde(default)]
    pub judged: Judged,
    /// The names of the classes, where they have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_names: Option<Vec<String>>,
    /// Where inputs that would fill the gaps were looked for; `None` without a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<GapPool>,
}

/// A pool that inputs were taken from to fill gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapPool {
    /// The pool, as it was named.
    pub data: String,
    /// Inputs in it.
    pub inputs: usize,
    /// Whether they have labels.
    pub labelled: bool,
    /// Inputs that were taken.
    pub taken: usize,
    /// The file or folder that they were written to; `None` where they were not.
    pub file: Option<String>,
}

/// A class or cluster of which a suite has far fewer inputs than training would let expect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// The class.
    pub class: usize,
    /// Its name, where the training data has names.
    pub name: Option<String>,
    /// The cluster, among those of the graph; `None` where the class as a whole is thin.
    pub cluster: Option<usize>,
    /// How its inputs are counted. A class that is thin by both is one gap, by prediction.
    #[serde(default)]
    pub by: CountedBy,
    /// Inputs of the suite that belong to it.
    pub inputs: usize,
    /// How many that would be if it were as frequent as it should be.
    pub expected: f64,
    /// How likely it is that chance leaves no more of them.
    pub p: f64,
    /// How many inputs are to be added, so that it is as frequent as that.
    pub missing: usize,
    /// Training inputs that are typical of it, the nearest to its centre first.
    pub exemplars: Vec<TypicalInput>,
    /// Inputs of the suite that belong to it, the most familiar ones first.
    pub present: Vec<PresentInput>,
    /// Where few or none belong to a cluster, other inputs of its class, those whose paths are most similar to its
    /// abstract path first; none where the suite was measured without SNPC.
    #[serde(default)]
    pub nearest: Vec<PresentInput>,
    /// Inputs of the pool to add, the nearest to the centre first; `None` without a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<Vec<TypicalInput>>,
    /// What is missing, by cluster; nothing where inputs are counted by label.
    #[serde(skip)]
    pub wanted: Vec<ClusterWanted>,
}

/// How many inputs of a cluster are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterWanted {
    /// The cluster, among those of the graph.
    pub cluster: usize,
    /// How many inputs of it are to be added.
    pub inputs: usize,
}

/// An input that is typical of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypicalInput {
    /// Its position in the training data or pool.
    pub input: usize,
    /// What it is called, where it has a name: a file of an image folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// Its label, where there are labels.
    pub label: Option<i64>,
    /// The cluster, among those of the graph.
    pub cluster: usize,
    /// How far its path is from the centre of the cluster.
    pub distance: f64,
}

/// An input that a suite has of a gap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresentInput {
    /// The dataset's digest.
    pub data: String,
    /// The input's position in it.
    pub input: usize,
    /// What it is called, where it has a name: a file of an image folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// Its label, where there are labels.
    pub label: Option<i64>,
    /// How [unfamiliar](npcov_artefact::InputRecord::unfamiliar) it is; `None` where nothing is known
    /// of that.
    pub unfamiliar: Option<f64>,
}

impl LearntGraph {
    /// What a suite of a state is missing. A state of another graph, and one that was measured without
    /// paths, is an error.
    pub fn gaps(&self, coverage: &Coverage, options: &GapOptions) -> Result<Gaps, CoverageError> {
        let (whole, names) = self.as_one(coverage, &options.suites)?;
        let report = whole.report()?;
        let (Some(suite), Some(measured)) = (report.suites.first(), whole.state().suites().first())
        else {
            return Err(ArtefactError::NothingToMerge.into());
        };
        if suite.clusters.is_empty() {
            return Err(CoverageError::WithoutPaths);
        }
        let file = self.file();
        let centres = Centres::of(file.graph(), file)?;
        let mut gaps = thin(suite, whole.state().record().shares.as_slice());
        let clusters_of = |class: usize| {
            file.graph()
                .classes()
                .get(class)
                .map(|c| c.clusters.clone())
        };
        let clusters_of = |gap: &Gap| match gap.cluster {
            Some(cluster) => cluster..cluster + 1,
            None => clusters_of(gap.class).unwrap_or_default(),
        };
        let by_prediction = |gap: &&Gap| gap.by == CountedBy::Prediction;
        let wanted: Vec<usize> = (gaps.iter().filter(by_prediction))
            .flat_map(clusters_of)
            .collect();
        let is_wanted = |cluster: usize| wanted.contains(&cluster);
        let typical = centres.typical(file.graph(), file, is_wanted, options.exemplars)?;
        let labelled = match gaps.iter().all(|gap| gap.by == CountedBy::Prediction) {
            true => Vec::new(),
            false => self.typical_labelled(&centres, options.exemplars)?,
        };
        let criteria = whole.state().criteria()?;
        let similarities = Similarities::of(&criteria, measured)?;
        for gap in &mut gaps {
            let clusters = clusters_of(gap);
            gap.exemplars = match gap.by {
                CountedBy::Prediction => self.in_turn(&typical, clusters, options.exemplars),
                CountedBy::Label => labelled.get(gap.class).cloned().unwrap_or_default(),
            };
            gap.present = present(measured, gap, options.exemplars);
            let more = options.exemplars.saturating_sub(gap.present.len());
            if let (Some(cluster), Some(similarities)) = (gap.cluster, &similarities) {
                let place = (gap.class, cluster);
                let rows = similarities.nearest(&measured.inputs, place, more);
                gap.nearest = inputs_of(measured, rows);
            }
        }
        Ok(Gaps {
            suites: names,
            inputs: suite.inputs,
            gaps,
            judged: suite.judged(),
            class_names: self.class_names(),
            pool: None,
        })
    }

    /// Some suites of a state as one, and their names; all where none is named.
    fn as_one(
        &self,
        coverage: &Coverage,
        suites: &[String],
    ) -> Result<(Coverage, Vec<String>), CoverageError> {
        let state = coverage.state();
        let names: Vec<String> = match suites {
            [] => state
                .suites()
                .iter()
                .map(|suite| suite.name.clone())
                .collect(),
            some => some.to_vec(),
        };
        self.require_state(state, &names.join(" + "))?;
        let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok((coverage.united(&borrowed, &names.join(" + "))?, names))
    }

    /// Training inputs that are typical of some clusters, taken from each in turn.
    fn in_turn(
        &self,
        typical: &[Vec<(u32, f64)>],
        clusters: Range<usize>,
        count: usize,
    ) -> Vec<TypicalInput> {
        let turn = |place: usize| {
            let found = move |cluster: usize| Some((cluster, *typical.get(cluster)?.get(place)?));
            clusters.clone().filter_map(found)
        };
        let input = |(cluster, (row, distance))| self.typical_input(row, cluster, distance);
        (0..count).flat_map(turn).take(count).map(input).collect()
    }

    /// By class: training inputs that are labelled as it, those nearest to the centres of their clusters first,
    /// whatever they are classified as.
    fn typical_labelled(
        &self,
        centres: &Centres,
        count: usize,
    ) -> Result<Vec<Vec<TypicalInput>>, CoverageError> {
        let graph = self.file().graph();
        let training = graph.training();
        let mut all: Vec<Vec<(u32, u32, f64)>> = vec![Vec::new(); graph.classes().len()];
        if training.labels.is_none() {
            return Ok(Vec::new());
        }
        for_each_path(self.file(), graph.layout(), training.len(), |row, path| {
            let class = training.label(row as usize);
            let class = class.and_then(|class| usize::try_from(class).ok());
            let cluster = graph.cluster_of(row);
            let found = class.and_then(|class| all.get_mut(class));
            if let (Some(found), true) = (found, cluster != NO_CLUSTER) {
                let distance = centres.distance(cluster as usize, path);
                // Of equal ones the first.
                let place = found.partition_point(|other| other.2.total_cmp(&distance).is_le());
                if place < count {
                    found.insert(place, (row, cluster, distance));
                    found.truncate(count);
                }
            }
        })?;
        let input = |(row, cluster, distance)| self.typical_input(row, cluster as usize, distance);
        let class = |found: Vec<(u32, u32, f64)>| found.into_iter().map(input).collect();
        Ok(all.into_iter().map(class).collect())
    }

    fn typical_input(&self, row: u32, cluster: usize, distance: f64) -> TypicalInput {
        let file = self.file();
        TypicalInput {
            input: file.record().training.start + row as usize,
            sample: file.training_name(row as usize).map(str::to_owned),
            label: file.graph().training().label(row as usize),
            cluster,
            distance,
        }
    }
}

/// The inputs of a suite that belong to a gap, the most familiar ones first.
fn present(suite: &MeasuredSuite, gap: &Gap, count: usize) -> Vec<PresentInput> {
    let belongs = |input: &InputRecord| match (gap.cluster, gap.by) {
        (Some(cluster), _) => input.cluster as usize == cluster,
        (None, CountedBy::Prediction) => input.prediction as usize == gap.class,
        (None, CountedBy::Label) => usize::try_from(input.label) == Ok(gap.class),
    };
    let rows = (0..suite.inputs.len()).filter(|&row| belongs(&suite.inputs[row]));
    let mut found = inputs_of(suite, rows);
    let far = |input: &PresentInput| input.unfamiliar.unwrap_or(f64::INFINITY);
    // Stable: of equal ones the first.
    found.sort_by(|a, b| far(a).total_cmp(&far(b)));
    found.truncate(count);
    found
}

/// Inputs of a suite, by row.
fn inputs_of(suite: &MeasuredSuite, rows: impl IntoIterator<Item = usize>) -> Vec<PresentInput> {
    let places: Vec<(&str, usize)> = (suite.shards.iter())
        .flat_map(|shard| (shard.start..shard.end).map(move |input| (shard.sha256.as_str(), input)))
        .collect();
    let present = |row: usize| {
        let (&(data, input), record) = (places.get(row)?, suite.inputs.get(row)?);
        Some(PresentInput {
            data: data.to_owned(),
            input,
            sample: suite
                .names
                .get(row)
                .filter(|name| !name.is_empty())
                .cloned(),
            label: record.is_correct().map(|_| record.label),
            unfamiliar: record.score(ScoreKind::Unfamiliar),
        })
    };
    rows.into_iter().filter_map(present).collect()
}

/// A class of a suite.
struct ClassPart {
    /// Its share of what is expected.
    share: f64,
    inputs: usize,
    thin: bool,
    clusters: Vec<ClusterPart>,
}

/// A cluster of a suite.
struct ClusterPart {
    cluster: usize,
    /// Its share of the training inputs of its class.
    share: f64,
    inputs: usize,
    thin: bool,
}

impl ClassPart {
    /// The classes of a suite; `training` are training inputs by cluster.
    fn of(suite: &SuiteReport, training: &[u64]) -> Vec<ClassPart> {
        let classes = suite.classes.iter().map(|class| ClassPart {
            share: class.expected / suite.inputs.max(1) as f64,
            inputs: class.inputs,
            thin: class.thin,
            clusters: Vec::new(),
        });
        let mut classes: Vec<ClassPart> = classes.collect();
        for cluster in &suite.clusters {
            if let Some(class) = classes.get_mut(cluster.class) {
                class.clusters.push(ClusterPart {
                    cluster: cluster.cluster,
                    share: training.get(cluster.cluster).copied().unwrap_or(0) as f64,
                    inputs: cluster.inputs,
                    thin: cluster.thin,
                });
            }
        }
        for class in &mut classes {
            let all: f64 = class.clusters.iter().map(|cluster| cluster.share).sum();
            let clusters = class.clusters.iter_mut();
            clusters.for_each(|cluster| cluster.share /= all.max(1.0));
        }
        classes
    }
}

/// By cluster, how many inputs are to be added to a suite so that nothing in it is thin.
fn wanted(inputs: usize, classes: &[ClassPart]) -> Vec<ClusterWanted> {
    let mut wanted = Vec::new();
    let mut inputs = inputs;
    for class in classes.iter().filter(|class| !class.thin) {
        let thin = || class.clusters.iter().filter(|cluster| cluster.thin);
        let whole = filled(class.inputs, thin().map(|part| (part.share, part.inputs)));
        for part in thin() {
            let lacking = lacking(whole * part.share, part.inputs);
            inputs = inputs.saturating_add(lacking);
            wanted.push(ClusterWanted {
                cluster: part.cluster,
                inputs: lacking,
            });
        }
    }
    // What a thin class lacks is shared out among all its clusters.
    let thin = || classes.iter().filter(|class| class.thin);
    let whole = filled(inputs, thin().map(|part| (part.share, part.inputs)));
    for class in thin() {
        wanted.extend(class.clusters.iter().map(|part| ClusterWanted {
            cluster: part.cluster,
            inputs: lacking(whole * class.share * part.share, part.inputs),
        }));
    }
    wanted
}

/// How many inputs a whole is to have when thin parts of it, with these shares and inputs, are filled.
fn filled(inputs: usize, thin: impl Iterator<Item = (f64, usize)>) -> f64 {
    let (share, present) = thin.fold((0.0, 0), |(s, k), (share, inputs)| (s + share, k + inputs));
    inputs.saturating_sub(present) as f64 / (1.0 - share).max(f64::EPSILON)
}

/// How many inputs a part lacks.
fn lacking(target: f64, inputs: usize) -> usize {
    // What is whole but for its rounding is not rounded up.
    ((target - 1e-6).ceil() as usize).saturating_sub(inputs)
}

/// The thin classes and clusters of a suite, with what is missing; `training` are training inputs by
/// cluster.
fn thin(suite: &SuiteReport, training: &[u64]) -> Vec<Gap> {
    let parts = ClassPart::of(suite, training);
    let wanted = wanted(suite.inputs, &parts);
    let wanted = |of: &dyn Fn(usize) -> bool| -> Vec<ClusterWanted> {
        wanted
            .iter()
            .filter(|wanted| of(wanted.cluster))
            .copied()
            .collect()
    };
    let name = |class: usize| {
        suite
            .classes
            .get(class)
            .and_then(|class| class.name.clone())
    };
    let classes = suite
        .classes
        .iter()
        .zip(&parts)
        .filter(|(class, _)| class.thin);
    let classes = classes.map(|(class, part)| {
        // Clusters that are thin themselves are gaps of their own.
        let rest = |cluster: usize| {
            part.clusters
                .iter()
                .any(|part| part.cluster == cluster && !part.thin)
        };
        let counts = (class.inputs, class.expected, class.p);
        let place = (class.class, None);
        Gap::new(place, name(class.class), counts, wanted(&rest))
    });
    let by_label = by_label(suite);
    let clusters = suite.clusters.iter().filter(|cluster| cluster.thin);
    let clusters = clusters.map(|cluster| {
        let place = (cluster.class, Some(cluster.cluster));
        let counts = (cluster.inputs, cluster.expected, cluster.p);
        let itself = |other: usize| other == cluster.cluster;
        Gap::new(place, name(cluster.class), counts, wanted(&itself))
    });
    classes.chain(by_label).chain(clusters).collect()
}

/// The classes of a suite that are thin by label alone, with what is missing.
fn by_label(suite: &SuiteReport) -> Vec<Gap> {
    let all = suite.labelled_inputs();
    let part = |labelled: LabelledClass| {
        let expected = labelled.expected.filter(|_| labelled.thin)?;
        Some((expected / all.max(1) as f64, labelled.inputs))
    };
    let thin = suite
        .classes
        .iter()
        .filter_map(|class| part(class.labelled?));
    let whole = filled(all, thin);
    let alone = suite.classes.iter().filter(|c| c.is_thin_by_label_alone());
    let gap = |class: &ClassCoverage| {
        let labelled = class.labelled?;
        let (share, inputs) = part(labelled)?;
        let counts = (inputs, labelled.expected?, labelled.p?);
        Some(Gap {
            by: CountedBy::Label,
            missing: lacking(whole * share, inputs),
            ..Gap::new((class.class, None), class.name.clone(), counts, Vec::new())
        })
    };
    alone.filter_map(gap).collect()
}

impl Gap {
    fn new(
        (class, cluster): (usize, Option<usize>),
        name: Option<String>,
        (inputs, expected, p): (usize, f64, f64),
        wanted: Vec<ClusterWanted>,
    ) -> Gap {
        let missing = wanted
            .iter()
            .fold(0usize, |sum, w| sum.saturating_add(w.inputs));
        Gap {
            class,
            name,
            cluster,
            by: CountedBy::Prediction,
            inputs,
            expected,
            p,
            missing,
            exemplars: Vec::new(),
            present: Vec::new(),
            nearest: Vec::new(),
            add: None,
            wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn class(share: f64, thin: bool, clusters: &[(f64, usize, bool)]) -> ClassPart {
        let cluster = |&(share, inputs, thin): &(f64, usize, bool)| ClusterPart {
            cluster: 0,
            share,
            inputs,
            thin,
        };
        ClassPart {
            share,
            inputs: clusters.iter().map(|(_, inputs, _)| inputs).sum(),
            thin,
            clusters: clusters.iter().map(cluster).collect(),
        }
    }

    fn numbers(inputs: usize, classes: &[ClassPart]) -> Vec<usize> {
        wanted(inputs, classes)
            .iter()
            .map(|wanted| wanted.inputs)
            .collect()
    }

    #[test]
    fn worked_cases() {
        // The other 800 are to be 80 %: of 1,000.
        let one = [class(1.0, false, &[(0.2, 20, true), (0.8, 800, false)])];
        assert_eq!(numbers(820, &one), [180]);
        // The other 400 are to be half, of 800.
        let two = [class(
            1.0,
            false,
            &[(0.2, 0, true), (0.3, 10, true), (0.5, 400, false)],
        )];
        assert_eq!(numbers(410, &two), [160, 230]);
        // The cluster lacks 100, which makes 1,000 inputs of the other class; these are to be half.
        let classes = [
            class(0.5, true, &[(0.25, 0, false), (0.75, 100, false)]),
            class(0.5, false, &[(0.1, 0, true), (0.9, 900, false)]),
        ];
        assert_eq!(numbers(1000, &classes), [100, 250, 650]);
        assert_eq!(numbers(900, &classes[1..]), [100]);
    }

    #[test]
    fn classes_by_label() {
        let class = |class: usize, inputs: usize, expected: f64, thin: bool| ClassCoverage {
            class,
            name: None,
            inputs: 100,
            expected: 100.0,
            p: 0.5,
            // The last is thin by prediction as well.
            thin: class == 3,
            enough: None,
            labelled: Some(LabelledClass {
                inputs,
                expected: Some(expected),
                p: Some(1e-9),
                thin,
                enough: None,
            }),
            criteria: crate::report::Values::default(),
        };
        // The other 300 are to be 60 %: of 500. Of these 20 % are to be of the third class, of which there
        // are 20.
        let suite = SuiteReport {
            inputs: 500,
            classes: vec![
                class(0, 150, 102.0, false),
                class(1, 150, 102.0, false),
                class(2, 20, 68.0, true),
                class(3, 20, 68.0, true),
            ],
            ..SuiteReport::default()
        };
        let gaps = by_label(&suite);
        let [gap] = &gaps[..] else { panic!("{gaps:?}") };
        assert_eq!((gap.class, gap.by, gap.missing), (2, CountedBy::Label, 80));
        assert_eq!((gap.inputs, gap.expected, gap.cluster), (20, 68.0, None));
    }

    #[test]
    fn nothing_overflows() {
        // Training has nothing but what the suite has nothing of.
        let all = [class(1.0, true, &[(1.0, 0, true)])];
        assert_eq!(numbers(10, &all), [45_035_996_273_704_960]);
        assert_eq!(numbers(0, &all), [0]);
        assert!(numbers(usize::MAX, &[class(0.0, true, &[])]).is_empty());
    }

    proptest! {
        /// Every part that was thin has its share afterwards, and none has more than that and one input.
        #[test]
        fn what_was_thin_has_its_share(
            parts in prop::collection::vec((1..100u32, 0..50usize, any::<bool>()), 2..8),
        ) {
            let all: u32 = parts.iter().map(|(share, _, _)| share).sum();
            let mut parts: Vec<(f64, usize, bool)> = parts
                .into_iter()
                .map(|(share, inputs, thin)| (f64::from(share) / f64::from(all), inputs, thin))
                .collect();
            parts[0].2 = false;
            let inputs: usize = parts.iter().map(|(_, inputs, _)| inputs).sum();
            for part in &mut parts {
                part.2 &= (part.1 as f64) < part.0 * inputs as f64 / 2.0;
            }
            let added = numbers(inputs, &[class(1.0, false, &parts)]);
            let after = inputs + added.iter().sum::<usize>();
            let thin = parts.iter().filter(|part| part.2);
            for (&(share, inputs, _), added) in thin.zip(&added) {
                let target = share * after as f64;
                let now = (inputs + added) as f64;
                prop_assert!(now > target - added.to_owned().min(8) as f64 && now < target + 1.0 + 1e-6);
            }
        }
    }
}
