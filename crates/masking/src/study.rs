//! What masking does to predictions.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use npcov_data::{DataError, Loader, SeenRows};
use npcov_paths::choices::{Average, Members, Population};
use npcov_paths::{
    BitRows, Choices, ClassParameters, Clusters, KMeans, LearnOptions, NO_CLUSTER, PathGraph,
    PathLayout, TrainingInputs, number_of_clusters,
};

use super::answers::Answers;
use super::sets::{Cut, FIFTHS, Sets, random_like, width};
use super::{GridPoint, Inconsistency, Neurons, Shift, StrangerPoint, random};
use npcov_run::{
    Event, MaskedNetwork, Method, MethodInfo, Network, Numbers, PathExtractor, Progress, RunError,
    labels,
};

/// Which inputs are explained, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskingOptions {
    /// How relevances are computed.
    pub method: Method,
    /// What else can be chosen.
    pub choices: Choices,
    /// How many inputs are drawn from the data; `None` for all.
    pub sample: Option<usize>,
    /// Shares of relevance that critical neurons have together.
    pub alphas: Vec<f64>,
    /// An alpha whose paths are cut into fifths, and how.
    pub bands: Option<(f64, Cut)>,
    /// Restarts of the clustering.
    pub restarts: usize,
    /// Seed of the sample, of the random neurons and of the clustering.
    pub seed: u64,
    /// Where explained inputs are kept.
    pub keep: Option<Keep>,
}

/// A file to keep explained inputs in: a study by the same plan that finds it there does not explain
/// them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The file.
    pub file: PathBuf,
    /// What tells model, data and options from others.
    pub plan: String,
}

/// A sample of inputs that were explained, ready to be masked.
///
/// ```
/// use npcov_data::{Loader, Preprocessing, open};
/// use npcov_masking::{MaskingOptions, MaskingStudy, Neurons};
/// use npcov_run::{Method, Network, ModelOptions};
///
/// # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
/// # let (model, data) = (format!("{fixtures}/lenet.onnx"), format!("{fixtures}/fashion-1000.npz"));
/// let network = Network::open(model, &ModelOptions::default())?;
/// let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
/// let loader = Loader::new(open(&data)?, network.sample_shape(), &scale)?;
///
/// let options = MaskingOptions {
///     method: Method::default(),
///     choices: Default::default(),
///     sample: Some(100),
///     alphas: vec![0.8],
///     bands: None,
///     restarts: 10,
///     seed: 0,
///     keep: None,
/// };
/// let study = MaskingStudy::new(&network, &loader, &options, 2, &mut ())?;
/// let path = study.inconsistency(0, Neurons::Path, study.counted(), &mut ())?;
/// let random = study.inconsistency(0, Neurons::Random, study.counted(), &mut ())?;
/// assert!(path.difference() > random.difference());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MaskingStudy<'a> {
    network: &'a Network,
    masked: Arc<MaskedNetwork>,
    answers: Answers,
    data: &'a Loader<'a>,
    options: &'a MaskingOptions,
    method: MethodInfo,
    /// Rows of the dataset.
    sample: Vec<usize>,
    sets: Sets,
    /// Labels of the sample, where there are labels and something depends on them.
    labels: Option<Vec<i64>>,
    seen: Arc<SeenRows>,
    counted: Vec<u32>,
    threads: usize,
}

/// What is settled before the first input is explained.
pub(super) struct Subject<'a> {
    network: &'a Network,
    data: &'a Loader<'a>,
    options: &'a MaskingOptions,
    extractor: PathExtractor,
    masked: Arc<MaskedNetwork>,
    /// Rows of the dataset.
    pub(super) sample: Vec<usize>,
    /// Labels of the sample, where there are labels and something depends on them.
    labels: Option<Vec<i64>>,
    /// The sample as it is before anything is computed from it.
    seen: Arc<SeenRows>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        network: &'a Network,
        data: &'a Loader<'a>,
        options: &'a MaskingOptions,
    ) -> Result<Subject<'a>, RunError> {
        if options.restarts > KMeans::MOST_RESTARTS {
            return Err(RunError::Parameter {
                name: "restarts",
                value: options.restarts.to_string(),
                wanted: "at most 1000",
            });
        }
        let choices = &options.choices;
        let by_label =
            choices.population == Population::Correct || choices.members == Members::Correct;
        let labels = match by_label {
            true => {
                let labels = labels(network.signature(), data, 0..data.len())?;
                Some(labels.ok_or_else(|| RunError::NoLabels(data.name().to_owned()))?)
            }
            false => None,
        };
        let sample = match options.sample {
            Some(count) if count < data.len() => random::rows(data.len(), count, options.seed),
            _ => (0..data.len()).collect(),
        };
        Ok(Subject {
            network,
            data,
            options,
            extractor: PathExtractor::new(network, &options.method, choices, &options.alphas)?,
            masked: Arc::new(MaskedNetwork::new(network)?),
            labels: labels.map(|l| sample.iter().map(|&row| l[row] as i64).collect()),
            seen: Arc::new(SeenRows::of(data.samples(), sample.iter().copied())?),
            sample,
        })
    }

    /// The neurons of the path layers.
    pub(super) fn layout(&self) -> &PathLayout {
        self.masked.layout()
    }

    /// Sets of all inputs, without neurons.
    pub(super) fn no_sets(&self) -> Sets {
        let (width, alphas) = (self.masked.layout().width(), self.options.alphas.len());
        Sets::empty(
            width,
            self.sample.len(),
            alphas,
            self.options.bands.is_some(),
        )
    }

    /// Explains some inputs of the sample.
    pub(super) fn explain(
        &self,
        positions: Range<usize>,
        threads: usize,
        progress: &mut dyn Progress,
    ) -> Result<Sets, RunError> {
        let (options, sample) = (self.options, &self.sample[positions]);
        let grid = (&options.alphas[..], &options.choices);
        let (extractor, bands) = (&self.extractor, options.bands);
        let sets = Sets::extract(extractor, self.data, sample, grid, bands, threads, progress)?;
        unchanged(&self.seen, self.data, sample)?;
        Ok(sets)
    }

    /// A study of some inputs of the sample, which have these sets.
    pub(super) fn study(
        &self,
        positions: Range<usize>,
        sets: Sets,
        answers: Answers,
        threads: usize,
    ) -> MaskingStudy<'a> {
        let labels = self.labels.as_ref();
        let labels = labels.map(|labels| labels[positions.clone()].to_vec());
        let is_counted = |&position: &u32| match (self.options.choices.population, &labels) {
            (Population::Correct, Some(labels)) => {
                let position = position as usize;
                labels[position] == i64::from(sets.predictions[position])
            }
            _ => true,
        };
        let counted = (0..positions.len() as u32).filter(is_counted).collect();
        MaskingStudy {
            network: self.network,
            masked: self.masked.clone(),
            answers,
            data: self.data,
            options: self.options,
            method: self.extractor.method().clone(),
            sample: self.sample[positions].to_vec(),
            sets,
            labels,
            seen: self.seen.clone(),
            counted,
            threads,
        }
    }
}

/// The paths of one alpha, in clusters.
pub struct ClusteredPaths {
    graph: PathGraph,
    alpha: usize,
    clusters: usize,
}

impl ClusteredPaths {
    /// The clusters, with the sample's inputs as training inputs.
    pub fn graph(&self) -> &PathGraph {
        &self.graph
    }

    /// The position of their alpha among those of the study.
    pub fn alpha(&self) -> usize {
        self.alpha
    }
}

/// Adds the neurons of an input's set; inputs are positions in the sample.
type SetOf<'a> = dyn Fn(usize, &mut [u64]) + Sync + 'a;

impl<'a> MaskingStudy<'a> {
    /// Explains the sample. `progress` is told how many inputs more are done, here and whenever
    /// something is masked.
    pub fn new(
        network: &'a Network,
        data: &'a Loader<'a>,
        options: &'a MaskingOptions,
        threads: usize,
        progress: &mut dyn Progress,
    ) -> Result<MaskingStudy<'a>, RunError> {
        let subject = Subject::new(network, data, options)?;
        let all = 0..subject.sample.len();
        let kept = options.keep.as_ref().and_then(|keep| {
            let empty = subject.no_sets();
            empty.read(keep, all.len(), subject.layout())
        });
        if kept.is_none() && options.keep.as_ref().is_some_and(|keep| keep.file.exists()) {
            progress.tell(Event::Damaged(all.len()))?;
        }
        let sets = match kept {
            Some(sets) => {
                progress.tell(Event::Finished(all.len()))?;
                sets
            }
            None => {
                let sets = subject.explain(all.clone(), threads, progress)?;
                if let Some(keep) = &options.keep {
                    sets.write(keep)?;
                }
                sets
            }
        };
        let study = subject.study(all, sets, Answers::default(), threads);
        match study.counted.is_empty() {
            true => Err(RunError::NoInputs(data.name().to_owned())),
            false => Ok(study),
        }
    }

    /// A study of some inputs of this one, named by their positions, in ascending order. There may be none that
    /// count.
    pub(super) fn part(&self, inputs: &[u32]) -> MaskingStudy<'a> {
        let places = || inputs.iter().map(|&i| i as usize);
        let of_each = |sets: &Vec<BitRows>| sets.iter().map(|rows| rows.gather(inputs)).collect();
        let sets = &self.sets;
        let counted = (0..inputs.len() as u32)
            .filter(|&place| self.counted.binary_search(&inputs[place as usize]).is_ok());
        MaskingStudy {
            network: self.network,
            masked: self.masked.clone(),
            answers: Answers::default(),
            data: self.data,
            options: self.options,
            method: self.method.clone(),
            sample: places().map(|i| self.sample[i]).collect(),
            sets: Sets {
                predictions: places().map(|i| sets.predictions[i]).collect(),
                paths: of_each(&sets.paths),
                activated: of_each(&sets.activated),
                bands: of_each(&sets.bands),
            },
            labels: (self.labels.as_ref()).map(|labels| places().map(|i| labels[i]).collect()),
            seen: self.seen.clone(),
            counted: counted.collect(),
            threads: self.threads,
        }
    }

    /// How relevances were computed.
    pub fn method(&self) -> &MethodInfo {
        &self.method
    }

    /// The path layers.
    pub fn layout(&self) -> &PathLayout {
        self.masked.layout()
    }

    /// Rows of the dataset that were explained. Other functions name inputs by their position here.
    pub fn sample(&self) -> &[usize] {
        &self.sample
    }

    /// The sets of neurons, and what was answered for all inputs whenever neurons were masked.
    pub(super) fn into_parts(self) -> (Sets, Vec<Vec<u32>>) {
        (self.sets, self.answers.into_given())
    }

    /// The inputs that count: all, or those that are classified as labelled.
    pub fn counted(&self) -> &[u32] {
        &self.counted
    }

    /// What each input is taken for.
    pub fn predictions(&self) -> &[u32] {
        &self.sets.predictions
    }

    /// The critical decision path of each input, for one of the alphas.
    pub fn paths(&self, alpha: usize) -> &BitRows {
        &self.sets.paths[alpha]
    }

    /// The mean width of the counted inputs' paths.
    pub fn width(&self, alpha: usize) -> f64 {
        let paths = &self.sets.paths[alpha];
        let paths = self.counted.iter().map(|&i| paths.row(i as usize));
        width(self.layout(), paths, self.options.choices.width)
    }

    /// Masks neurons of some inputs, and all others.
    pub fn inconsistency(
        &self,
        alpha: usize,
        neurons: Neurons,
        inputs: &[u32],
        progress: &mut dyn Progress,
    ) -> Result<Inconsistency, RunError> {
        let set = |i: usize, set: &mut [u64]| self.add_neurons(alpha, neurons, i, set);
        self.masked_and_left(inputs, &vec![0; inputs.len()], &set, progress)
    }

    /// The same, and how far numbers move, where the model gives numbers.
    pub fn inconsistency_and_shift(
        &self,
        alpha: usize,
        neurons: Neurons,
        inputs: &[u32],
        progress: &mut dyn Progress,
    ) -> Result<(Inconsistency, Option<Shift>), RunError> {
        let Some(numbers) = self.network.signature().numbers() else {
            let found = self.inconsistency(alpha, neurons, inputs, progress)?;
            return Ok((found, None));
        };
        let set = |i: usize, set: &mut [u64]| self.add_neurons(alpha, neurons, i, set);
        let before = self.outputs(inputs, &|_, _| {}, &mut ())?;
        let without = self.outputs(inputs, &set, progress)?;
        let only = self.outputs(inputs, &self.all_but(&set), progress)?;
        let changed = |after: &[Vec<f64>]| {
            let changed = self.differing(inputs, &classes_of(numbers, after));
            mean_share(&changed, &vec![0; inputs.len()])
        };
        let found = Inconsistency {
            inc_c: changed(&without),
            inc_nc: changed(&only),
        };
        Ok((found, Some(shift(numbers, &before, &without, &only))))
    }

    /// Adds some neurons of an input.
    fn add_neurons(&self, alpha: usize, neurons: Neurons, i: usize, set: &mut [u64]) {
        let (sets, seed) = (&self.sets, self.options.seed);
        let path = sets.paths[alpha].row(i);
        match neurons {
            Neurons::Path => set.copy_from_slice(path),
            Neurons::Activated => set.copy_from_slice(sets.activated[alpha].row(i)),
            Neurons::Random => random_like(self.layout(), path, seed, self.sample[i], set),
        }
    }

    /// Masks the path of an input of another class, and all other neurons. That input is drawn from
    /// those that count.
    pub fn stranger(
        &self,
        alpha: usize,
        inputs: &[u32],
        progress: &mut dyn Progress,
    ) -> Result<StrangerPoint, RunError> {
        let (classes, paths) = (&self.sets.predictions, &self.sets.paths[alpha]);
        let counted = &self.counted;
        let mut strangers = vec![None; self.sample.len()];
        let mut met = Vec::new();
        for &input in inputs {
            let i = input as usize;
            let same = |place: usize| classes[counted[place] as usize] == classes[i];
            let found = random::other(counted.len(), self.options.seed, self.sample[i], same);
            strangers[i] = found.map(|place| counted[place] as usize);
            met.extend(found.map(|_| input));
        }
        let set = |i: usize, set: &mut [u64]| {
            if let Some(stranger) = strangers[i] {
                set.copy_from_slice(paths.row(stranger));
            }
        };
        let rest = self.all_but(&set);
        let share = |count: usize| count as f64 / met.len().max(1) as f64;
        let own = |&i: &u32| classes[i as usize];
        let changed = |predicted: &[u32]| {
            let own = met.iter().map(own).zip(predicted);
            share(own.filter(|(own, class)| own != *class).count())
        };
        let (without, only, shift) = match self.network.signature().numbers() {
            None => (
                self.predict(&met, &set, progress)?,
                self.predict(&met, &rest, progress)?,
                None,
            ),
            Some(numbers) => {
                let before = self.outputs(&met, &|_, _| {}, &mut ())?;
                let without = self.outputs(&met, &set, progress)?;
                let only = self.outputs(&met, &rest, progress)?;
                let shift = shift(numbers, &before, &without, &only);
                (
                    classes_of(numbers, &without),
                    classes_of(numbers, &only),
                    Some(shift),
                )
            }
        };
        let follows = met.iter().zip(&only).filter(|(i, class)| {
            strangers[**i as usize].is_some_and(|stranger| classes[stranger] == **class)
        });
        Ok(StrangerPoint {
            inputs: met.len(),
            path: Inconsistency {
                inc_c: changed(&without),
                inc_nc: changed(&only),
            },
            follows: share(follows.count()),
            shift,
        })
    }

    /// The share of inputs whose prediction changes when a fifth of their path is masked, the most
    /// relevant first; `None` where paths were not cut.
    pub fn band(
        &self,
        fifth: usize,
        inputs: &[u32],
        progress: &mut dyn Progress,
    ) -> Result<Option<f64>, RunError> {
        let Some(band) = self.sets.bands.get(fifth) else {
            return Ok(None);
        };
        let set = |i: usize, set: &mut [u64]| set.copy_from_slice(band.row(i));
        let changed = self.changed(inputs, &set, progress)?;
        Ok(Some(mean_share(&changed, &vec![0; inputs.len()])))
    }

    /// How many fifths there are.
    pub const FIFTHS: usize = FIFTHS;

    /// How many clusters the paths of one alpha have by themselves, at most `most`: in the median of
    /// the classes that have inputs, of two the lower.
    pub fn number_of_clusters(&self, alpha: usize, most: usize) -> usize {
        let training = self.training();
        let mut numbers: Vec<usize> = (0..self.network.classes())
            .map(|class| training.rows_of(class, self.options.choices.members))
            .map(Vec::from_iter)
            .filter(|rows| !rows.is_empty())
            .map(|rows| {
                let paths = self.sets.paths[alpha].gather(&rows);
                number_of_clusters(&paths, most, self.options.seed, self.threads)
            })
            .collect();
        numbers.sort_unstable();
        let middle = numbers.len().saturating_sub(1) / 2;
        numbers.get(middle).copied().unwrap_or(1)
    }

    fn training(&self) -> TrainingInputs {
        let labels = self.labels.as_ref();
        TrainingInputs {
            layout: self.layout().clone(),
            predictions: self.sets.predictions.iter().map(|&c| c.into()).collect(),
            labels: labels.map(|labels| labels.iter().copied().collect()),
        }
    }

    /// Finds clusters of the paths of one alpha.
    pub fn cluster(&self, alpha: usize, clusters: usize) -> ClusteredPaths {
        // Which neurons are abstract is of no interest yet.
        let options = self.learn_options(clusters, 0.5, self.network.classes());
        let paths = &self.sets.paths[alpha];
        let Ok(graph) = PathGraph::learn(self.training(), paths, &options);
        ClusteredPaths {
            graph,
            alpha,
            clusters,
        }
    }

    /// Masks the abstract paths of clusters, and all other neurons.
    pub fn abstract_paths(
        &self,
        clustered: &ClusteredPaths,
        beta: f64,
        progress: &mut dyn Progress,
    ) -> Result<GridPoint, RunError> {
        let choices = &self.options.choices;
        let cluster_of = |i: u32| clustered.graph.cluster_of(i);
        let in_cluster = |&&i: &&u32| cluster_of(i) != NO_CLUSTER;
        let inputs: Vec<u32> = self.counted.iter().filter(in_cluster).copied().collect();
        let group = |&i: &u32| match choices.average {
            Average::Inputs => 0,
            Average::Clusters => cluster_of(i),
        };
        let groups: Vec<u32> = inputs.iter().map(group).collect();
        if inputs.is_empty() {
            return Err(RunError::NoInputs(self.data.name().to_owned()));
        }
        // Each cluster as a class whose only cluster it is: merged without a search.
        let merged = TrainingInputs {
            layout: self.layout().clone(),
            predictions: clustered.graph.parts().assignment.clone(),
            labels: None,
        };
        let options = LearnOptions {
            members: Members::Predicted,
            ..self.learn_options(1, beta, clustered.graph.clusters())
        };
        let paths = &self.sets.paths[clustered.alpha];
        let Ok(merged) = PathGraph::learn(merged, paths, &options);
        let paths = &merged.parts().abstract_paths;
        let path = |i: usize, set: &mut [u64]| {
            set.copy_from_slice(paths.row(cluster_of(i as u32) as usize));
        };
        Ok(GridPoint {
            clusters: clustered.clusters,
            beta,
            paths: paths.len(),
            width: width(self.layout(), paths.rows(), choices.width),
            path: self.masked_and_left(&inputs, &groups, &path, progress)?,
        })
    }

    fn learn_options(&self, clusters: usize, beta: f64, classes: usize) -> LearnOptions {
        let parameters = ClassParameters {
            clusters: Clusters::Fixed(clusters),
            beta,
        };
        LearnOptions {
            classes: vec![parameters; classes],
            members: self.options.choices.members,
            merge: self.options.choices.merge,
            kmeans: KMeans {
                restarts: self.options.restarts,
                seed: self.options.seed,
                ..KMeans::default()
            },
            threads: self.threads,
        }
    }

    /// Masks a set of each input, and its complement. Every group of inputs counts the same.
    fn masked_and_left(
        &self,
        inputs: &[u32],
        groups: &[u32],
        set: &SetOf<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Inconsistency, RunError> {
        let critical = self.changed(inputs, set, progress)?;
        let others = self.changed(inputs, &self.all_but(set), progress)?;
        Ok(Inconsistency {
            inc_c: mean_share(&critical, groups),
            inc_nc: mean_share(&others, groups),
        })
    }

    fn all_but<'s>(&'s self, set: &'s SetOf<'_>) -> impl Fn(usize, &mut [u64]) + Sync + 's {
        move |i: usize, off: &mut [u64]| {
            set(i, off);
            off.copy_from_slice(&self.layout().complement(off));
        }
    }

    /// Which predictions change.
    fn changed(
        &self,
        inputs: &[u32],
        set: &SetOf<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Vec<bool>, RunError> {
        Ok(self.differing(inputs, &self.predict(inputs, set, progress)?))
    }

    /// Which classes are not those that were predicted.
    fn differing(&self, inputs: &[u32], classes: &[u32]) -> Vec<bool> {
        let own = inputs.iter().map(|&i| self.sets.predictions[i as usize]);
        own.zip(classes).map(|(own, &class)| own != class).collect()
    }

    /// What the model gives when a set of each input is masked.
    fn outputs(
        &self,
        inputs: &[u32],
        set: &SetOf<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Vec<f64>>, RunError> {
        let rows: Vec<usize> = inputs.iter().map(|&i| self.sample[i as usize]).collect();
        let off = |place: usize, off: &mut [u64]| set(inputs[place] as usize, off);
        let (data, threads) = (self.data, self.threads);
        let outputs = self.masked.outputs(data, &rows, &off, threads, progress)?;
        unchanged(&self.seen, data, &rows)?;
        Ok(outputs)
    }

    /// What inputs are taken for when a set of each is masked.
    fn predict(
        &self,
        inputs: &[u32],
        set: &SetOf<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Vec<u32>, RunError> {
        self.answers.predict(inputs, self.sample.len(), |inputs| {
            let rows: Vec<usize> = inputs.iter().map(|&i| self.sample[i as usize]).collect();
            let off = |place: usize, off: &mut [u64]| set(inputs[place] as usize, off);
            let (data, threads) = (self.data, self.threads);
            let classes = self.masked.predict(data, &rows, &off, threads, progress)?;
            unchanged(&self.seen, data, &rows)?;
            Ok(classes)
        })
    }
}

/// The classes of numbers.
fn classes_of(numbers: &Numbers, outputs: &[Vec<f64>]) -> Vec<u32> {
    let class = |output: &Vec<f64>| numbers.class(output) as u32;
    outputs.iter().map(class).collect()
}

/// How far numbers move from `before`.
fn shift(numbers: &Numbers, before: &[Vec<f64>], without: &[Vec<f64>], only: &[Vec<f64>]) -> Shift {
    let mean = |after: &[Vec<f64>]| {
        let shifts = before.iter().zip(after);
        let sum: f64 = shifts.map(|(a, b)| numbers.shift(a, b)).sum();
        sum / before.len().max(1) as f64
    };
    Shift {
        without: mean(without),
        only: mean(only),
    }
}

/// Fails where rows that something was computed from are no longer what they were at first.
fn unchanged(seen: &SeenRows, data: &Loader<'_>, rows: &[usize]) -> Result<(), DataError> {
    let end = rows.iter().max().map_or(0, |last| last + 1);
    seen.check(
        data.samples(),
        rows.iter().min().copied().unwrap_or(end)..end,
    )
}

/// The share of each group that is true, averaged over the groups.
fn mean_share(changed: &[bool], groups: &[u32]) -> f64 {
    let count = groups.iter().max().map_or(0, |&last| last as usize + 1);
    let mut tallies = vec![(0_usize, 0_usize); count];
    for (&changed, &group) in changed.iter().zip(groups) {
        let (hits, all) = &mut tallies[group as usize];
        *hits += usize::from(changed);
        *all += 1;
    }
    tallies.retain(|&(_, all)| all > 0);
    let shares = tallies.iter().map(|&(hits, all)| hits as f64 / all as f64);
    shares.sum::<f64>() / tallies.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use npcov_run::Direction;

    use super::*;

    #[test]
    fn worked_cases_of_averages() {
        let changed = [true, false, false, true, true];
        // Every input counts the same: 3 of 5.
        assert_eq!(mean_share(&changed, &[0; 5]), 0.6);
        // Every cluster counts the same: 1 of 3 and 2 of 2; cluster 1 has no input.
        let clusters = [0, 0, 0, 2, 2];
        assert_eq!(mean_share(&changed, &clusters), (1.0 / 3.0 + 1.0) / 2.0);
        assert_eq!(mean_share(&[], &[]), 0.0);
    }

    #[test]
    fn worked_case_of_shifts() {
        let numbers = Numbers {
            output: Some(1),
            reference: vec![0.0, 0.0],
            scale: vec![1.0, 4.0],
            edges: vec![1.0],
            range: None,
            direction: Direction::default(),
            tolerance: None,
        };
        // Of output 1: moved by 2 and by 6 of 4, and by 0 and by 1.
        let before = [vec![9.0, 1.0], vec![9.0, 5.0]];
        let without = [vec![0.0, 3.0], vec![0.0, -1.0]];
        let only = [vec![0.0, 1.0], vec![9.0, 4.0]];
        let expected = Shift {
            without: 1.0,
            only: 0.125,
        };
        assert_eq!(shift(&numbers, &before, &without, &only), expected);
        assert_eq!(classes_of(&numbers, &before), [0, 1]);
        assert_eq!(shift(&numbers, &[], &[], &[]), Shift::default());
    }
}
