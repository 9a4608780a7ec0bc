//! RQ3: are criteria sensitive to errors in a suite?
//!
//! A suite of inputs that are classified as labelled is the beginning. A growing share of it is
//! replaced by errors of the same number: natural ones, adversaries by projected gradient descent,
//! and, as a control, other inputs that are classified as labelled. What that does to coverage is
//! normalised by its range.
//!
//! Suites of a repetition are nested: a larger share replaces the same inputs and more. So a few
//! parts are measured once, and every suite is made of them: coverage of parts can be united.

use std::collections::BTreeSet;
use std::ops::Range;

use npcov::attack::{AttackMethod, AttackOptions, Attacked, Pgd, attack};
use npcov::coverage::{Coverage, Measurement, Values};
use npcov::data::Loader;
use npcov::run::{Event, Progress, SampleRange};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, parameter};
use crate::folder::WorkFolder;
use crate::inputs::{labels, predictions};
use crate::published::Paper;
use crate::random::{Purpose, shuffle};
use crate::statistics::{changes_over, spread};
use crate::suites::{self, SuiteFile};

/// How RQ3 is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rq3Settings {
    /// Inputs of a suite.
    pub size: usize,
    /// Shares that are replaced, in per cent and ascending.
    pub percents: Vec<f64>,
    /// How often the experiment is repeated with other draws.
    pub repetitions: usize,
    /// The radius of adversaries, in pixels.
    pub epsilon: f32,
    /// Steps of projected gradient descent.
    pub steps: usize,
    /// The least and the largest pixel.
    pub range: (f32, f32),
    /// Seed of every draw.
    pub seed: u64,
    /// The network of the paper; it has no numbers for this question.
    pub paper: Option<Paper>,
}

impl Default for Rq3Settings {
    fn default() -> Self {
        Rq3Settings {
            size: 1000,
            percents: vec![1.0, 2.0, 3.0, 5.0, 7.0, 10.0],
            repetitions: 5,
            epsilon: 0.1,
            steps: 40,
            range: (0.0, 1.0),
            seed: 0,
            paper: None,
        }
    }
}

/// What takes the place of benign inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Misclassified inputs.
    Natural,
    /// Adversaries.
    Adversarial,
    /// Other benign inputs: the control.
    Benign,
}

impl Family {
    const ALL: [Family; 3] = [Family::Natural, Family::Adversarial, Family::Benign];
}

/// What RQ3 gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq3 {
    /// The test data, as it was named.
    pub data: String,
    /// The decision graph's digest.
    pub graph: String,
    /// Inputs of a suite.
    pub size: usize,
    /// Shares that are replaced, in per cent; the first is 0.
    pub percents: Vec<f64>,
    /// How often the experiment was repeated.
    pub repetitions: usize,
    /// The radius of adversaries, in pixels.
    pub epsilon: f32,
    /// Steps of projected gradient descent.
    pub steps: usize,
    /// Inputs of the data that are misclassified.
    pub misclassified: usize,
    /// Seed of every draw.
    pub seed: u64,
    /// The network of the paper.
    pub paper: Option<Paper>,
    /// By what takes the place of benign inputs.
    pub families: Vec<Rq3Family>,
}

/// What one kind of replacement does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq3Family {
    /// The kind.
    pub family: Family,
    /// For each share, inputs that were to be replaced.
    pub wanted: Vec<usize>,
    /// For each share, inputs that were replaced in the repetition that had the fewest.
    pub replaced: Vec<usize>,
    /// At the largest share, the most that stand in for classes without enough of them.
    pub filled: usize,
    /// By criterion.
    pub curves: Vec<Rq3Curve>,
}

/// How a criterion changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq3Curve {
    /// The criterion.
    pub criterion: String,
    /// For each share the mean coverage.
    pub coverage: Vec<f64>,
    /// For each share the mean of normalised coverage: its change over the range of changes, which
    /// for the control is the larger range of the errors.
    pub normalised: Vec<f64>,
    /// In how many of all steps to the next share coverage rises.
    pub rising: f64,
    /// In how many it falls.
    pub falling: f64,
}

/// The suites of one kind in one repetition, by share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Trial {
    replaced: Vec<usize>,
    filled: usize,
    coverage: Vec<Values<f64>>,
}

impl Rq3Settings {
    /// Repetitions.
    pub fn work(&self) -> usize {
        self.repetitions
    }

    fn check(&self) -> Result<(), LabError> {
        let shares = "shares between 0 and 100 per cent, in ascending order";
        let fit = self.percents.iter().all(|p| *p > 0.0 && *p < 100.0);
        if self.percents.is_empty() || !fit || !self.percents.is_sorted() {
            return parameter("percents", format!("{:?}", self.percents), shares);
        }
        if self.size == 0 {
            return parameter("size", 0, "1 or more");
        }
        if self.repetitions == 0 {
            return parameter("repetitions", 0, "1 or more");
        }
        Ok(())
    }

    /// For each share, beginning with none, how many inputs that is.
    fn counts(&self) -> Vec<usize> {
        let count = |percent: &f64| (percent * self.size as f64 / 100.0).round() as usize;
        std::iter::once(0)
            .chain(self.percents.iter().map(count))
            .collect()
    }
}

/// The test data, by what it is taken for.
struct Pool<'a> {
    labels: &'a [i64],
    /// Rows that are classified as labelled.
    benign: Vec<usize>,
    /// Rows that are not.
    errors: Vec<usize>,
}

/// Replaces growing shares of suites by errors and measures them. What is finished is kept in
/// `work`, whose plan must tell graph, data and settings apart; `progress` is told of each
/// repetition.
pub fn rq3(
    measurement: &Measurement<'_>,
    data: &Loader,
    settings: &Rq3Settings,
    work: &WorkFolder,
    threads: usize,
    progress: &mut dyn Progress,
) -> Result<Rq3, LabError> {
    settings.check()?;
    let labels = labels(measurement.graph().network(), data)?;
    let classes: Vec<u32> = work.keep("predictions", || {
        predictions(measurement.graph().network(), data, threads)
    })?;
    let is_benign = |&row: &usize| labels[row] == i64::from(classes[row]);
    let (benign, errors): (Vec<usize>, Vec<usize>) = (0..data.len()).partition(is_benign);
    let pool = Pool {
        labels,
        benign,
        errors,
    };
    if pool.benign.len() < settings.size {
        return Err(LabError::TooFew {
            data: data.name().to_owned(),
            kind: "inputs that are classified as labelled",
            found: pool.benign.len(),
            wanted: settings.size,
        });
    }
    let mut trials: Vec<Vec<Trial>> = Vec::new();
    for repetition in 0..settings.repetitions {
        trials.push(work.keep(&format!("repetition-{repetition}"), || {
            repeat(
                measurement,
                data,
                &pool,
                settings,
                repetition,
                work,
                threads,
            )
        })?);
        progress.tell(Event::Finished(1))?;
    }
    let families = Family::ALL.iter().enumerate();
    let families = families.map(|(i, &family)| {
        let of = |i: usize| trials.iter().filter_map(|t| t.get(i)).collect::<Vec<_>>();
        // The control is drawn to the scale of errors; by its own, chance would fill the plot.
        let scales = match family {
            Family::Benign => vec![of(0), of(1)],
            _ => vec![of(i)],
        };
        summary(family, settings.counts(), &of(i), &scales)
    });
    Ok(Rq3 {
        data: data.name().to_owned(),
        graph: measurement.graph().file().record().id.clone(),
        size: settings.size,
        percents: std::iter::once(0.0)
            .chain(settings.percents.iter().copied())
            .collect(),
        repetitions: settings.repetitions,
        epsilon: settings.epsilon,
        steps: settings.steps,
        misclassified: pool.errors.len(),
        seed: settings.seed,
        paper: settings.paper,
        families: families.collect(),
    })
}

/// What replaces benign inputs: rows of the data, or attacked inputs with their labels.
enum Replacement {
    Row(usize),
    Attacked(Vec<f32>, i64),
}

/// One repetition: the suites of all kinds.
fn repeat(
    measurement: &Measurement<'_>,
    data: &Loader,
    pool: &Pool<'_>,
    settings: &Rq3Settings,
    repetition: usize,
    work: &WorkFolder,
    threads: usize,
) -> Result<Vec<Trial>, LabError> {
    let (seed, stream) = (settings.seed, repetition as u64);
    let counts = settings.counts();
    let most = counts.last().copied().unwrap_or(0);
    let classes = measurement.graph().network().classes();
    let by_class = |rows: &[usize]| {
        let mut lists = vec![Vec::new(); classes];
        for &row in rows {
            lists[pool.labels[row] as usize].push(row);
        }
        lists
    };
    let mut benign = pool.benign.clone();
    shuffle(&mut benign, seed, Purpose::Benign, stream);
    let (suite, others) = benign.split_at(settings.size);
    let mut order: Vec<usize> = (0..classes).collect();
    shuffle(&mut order, seed, Purpose::Replaced, stream);

    // The suite, those first that are replaced last.
    let (replaced, _) = in_turn(by_class(suite), &order, most);
    let gone: BTreeSet<usize> = replaced.iter().copied().collect();
    let rest: Vec<usize> = suite
        .iter()
        .copied()
        .filter(|row| !gone.contains(row))
        .collect();

    let mut errors = pool.errors.clone();
    shuffle(&mut errors, seed, Purpose::Natural, stream);
    let natural = in_turn(by_class(&errors), &order, most);
    let mut strangers = others.to_vec();
    shuffle(&mut strangers, seed, Purpose::Others, stream);
    let control = in_turn(by_class(&strangers), &order, most);
    // Adversaries of inputs outside of the suite, or of any where those are too few.
    let mut seeds = if others.len() >= 3 * most {
        others.to_vec()
    } else {
        benign.clone()
    };
    shuffle(&mut seeds, seed, Purpose::Attacked, stream);
    let (seeds, _) = in_turn(by_class(&seeds), &order, 3 * most);
    let adversaries = adversaries(measurement, data, &seeds, settings, most, threads)?;
    let mut by_label: Vec<Vec<(Vec<f32>, i64)>> = vec![Vec::new(); classes];
    for (sample, label) in adversaries {
        by_label[label as usize].push((sample, label));
    }
    let attacked = in_turn(by_label, &order, most);

    let rows = |(rows, filled): (Vec<usize>, usize)| {
        let rows: Vec<_> = rows.into_iter().map(Replacement::Row).collect();
        (rows, filled)
    };
    let found = attacked.0.into_iter();
    let found = found.map(|(sample, label)| Replacement::Attacked(sample, label));
    let kinds = [rows(natural), (found.collect(), attacked.1), rows(control)];
    let path = work.file("repetition.npz");
    let trials = measure(
        measurement,
        data,
        pool,
        (&rest, &replaced),
        &kinds,
        &counts,
        &path,
        threads,
    );
    work.remove(&path)?;
    trials
}

/// Takes from the lists in turn, as `order` says, `most` things at most. For a list that is empty,
/// the longest that is left stands in; how often that was is told too.
fn in_turn<T>(lists: Vec<Vec<T>>, order: &[usize], most: usize) -> (Vec<T>, usize) {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let (mut taken, mut filled) = (Vec::new(), 0);
    for turn in 0..most {
        let wanted = order[turn % order.len().max(1)];
        if let Some(found) = lists[wanted].next() {
            taken.push(found);
            continue;
        }
        let longest = order.iter().copied().max_by_key(|&i| lists[i].len());
        match longest.and_then(|i| lists[i].next()) {
            Some(found) => taken.push(found),
            None => break,
        }
        filled += 1;
    }
    (taken, filled)
}

/// Attacks seeds batch by batch until enough are misclassified, and gives those with their labels.
fn adversaries(
    measurement: &Measurement<'_>,
    data: &Loader,
    seeds: &[usize],
    settings: &Rq3Settings,
    enough: usize,
    threads: usize,
) -> Result<Vec<(Vec<f32>, i64)>, LabError> {
    let pgd = Pgd {
        steps: settings.steps,
        ..Pgd::maximum(settings.epsilon)
    };
    let options = AttackOptions {
        range: settings.range,
        seed: settings.seed,
        ..AttackOptions::from(AttackMethod::Pgd(pgd))
    };
    let mut found = Vec::new();
    for rows in seeds.chunks(enough.max(1)) {
        let inputs = Attacked {
            data,
            rows,
            threads,
        };
        let network = measurement.graph().network();
        attack::<LabError>(network, inputs, &options, &mut (), |batch| {
            let samples = batch.samples.chunks_exact(data.sample_len().max(1));
            for (i, sample) in samples.enumerate() {
                if batch.success[i] {
                    found.push((sample.to_vec(), batch.labels[i] as i64));
                }
            }
            Ok(())
        })?;
        if found.len() >= enough {
            break;
        }
    }
    Ok(found)
}

/// Measures the parts that suites are made of, and puts suites together.
#[expect(clippy::too_many_arguments)]
fn measure(
    measurement: &Measurement<'_>,
    data: &Loader,
    pool: &Pool<'_>,
    (rest, replaced): (&[usize], &[usize]),
    kinds: &[(Vec<Replacement>, usize)],
    counts: &[usize],
    path: &std::path::Path,
    threads: usize,
) -> Result<Vec<Trial>, LabError> {
    // A kind that has too few replaces as many as it has.
    let reached = |kind: &(Vec<Replacement>, usize)| -> Vec<usize> {
        let most = kind.0.len().min(replaced.len());
        counts.iter().map(|&count| count.min(most)).collect()
    };
    let ends: BTreeSet<usize> = kinds.iter().flat_map(reached).collect();
    let mut segments: Vec<(usize, usize)> = Vec::new();
    let mut start = 0;
    for end in ends.into_iter().chain([replaced.len()]) {
        if end > start {
            segments.push((start, end));
            start = end;
        }
    }
    let mut file = SuiteFile::create(path, data)?;
    file.push_rows(rest, pool.labels)?;
    file.push_rows(replaced, pool.labels)?;
    let mut starts = Vec::new();
    for (replacements, _) in kinds {
        starts.push(file.len());
        for replacement in replacements {
            match replacement {
                Replacement::Row(row) => file.push_rows(&[*row], pool.labels)?,
                Replacement::Attacked(sample, label) => file.push(sample, *label)?,
            }
        }
    }
    file.finish()?;
    let suite = suites::open(measurement, path)?;
    let measure = |name: &str, range: Range<usize>| {
        let inputs = SampleRange {
            data: &suite,
            range,
            threads,
        };
        suites::measure(measurement, name, &inputs)
    };
    let mut parts = Coverage::new(measurement.state());
    if !rest.is_empty() {
        parts.merge(measure("rest", 0..rest.len())?)?;
    }
    for &(start, end) in &segments {
        let name = format!("replaced-{start}");
        let range = rest.len() + start..rest.len() + end;
        parts.merge(measure(&name, range)?)?;
        for (kind, (replacements, _)) in kinds.iter().enumerate() {
            if end <= replacements.len() {
                let range = starts[kind] + start..starts[kind] + end;
                let name = format!("kind-{kind}-{start}");
                parts.merge(measure(&name, range)?)?;
            }
        }
    }
    let mut trials = Vec::new();
    for (kind, replacements) in kinds.iter().enumerate() {
        let reached = reached(replacements);
        let mut coverage = Vec::new();
        for &count in &reached {
            let mut names = Vec::new();
            if !rest.is_empty() {
                names.push("rest".to_owned());
            }
            for &(start, end) in &segments {
                names.push(match end <= count {
                    true => format!("kind-{kind}-{start}"),
                    false => format!("replaced-{start}"),
                });
            }
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            coverage.push(suites::values(&parts.united(&names, "suite")?)?);
        }
        trials.push(Trial {
            replaced: reached,
            filled: replacements.1,
            coverage,
        });
    }
    Ok(trials)
}

/// Averages repetitions. Changes are normalised by the largest range that they have in one of
/// `scales`.
fn summary(
    family: Family,
    wanted: Vec<usize>,
    trials: &[&Trial],
    scales: &[Vec<&Trial>],
) -> Rq3Family {
    let shares = wanted.len();
    let fewest = |share: usize| {
        let replaced = trials.iter().filter_map(|trial| trial.replaced.get(share));
        replaced.min().copied().unwrap_or(0)
    };
    let first = trials.first().and_then(|trial| trial.coverage.first());
    let names = first.map_or(Vec::new(), |values| {
        values.0.iter().map(|(name, _)| name.clone()).collect()
    });
    let curve = |criterion: String| {
        let of = |trial: &&Trial| -> Vec<f64> {
            let values = trial.coverage.iter();
            values
                .map(|values| values.get(&criterion).unwrap_or(0.0))
                .collect()
        };
        let coverage: Vec<Vec<f64>> = trials.iter().map(of).collect();
        let range = |trial: usize| {
            let kinds = scales.iter().filter_map(|kind| kind.get(trial));
            kinds.map(|trial| spread(&of(trial))).fold(0.0, f64::max)
        };
        let changes = coverage.iter().enumerate();
        let changes: Vec<Vec<f64>> = changes.map(|(i, c)| changes_over(c, range(i))).collect();
        let steps = || coverage.iter().flat_map(|c| c.windows(2));
        let share_of = |count: usize| count as f64 / steps().count().max(1) as f64;
        Rq3Curve {
            coverage: means(&coverage, shares),
            normalised: means(&changes, shares),
            rising: share_of(steps().filter(|step| step[1] > step[0]).count()),
            falling: share_of(steps().filter(|step| step[1] < step[0]).count()),
            criterion,
        }
    };
    Rq3Family {
        family,
        replaced: (0..shares).map(fewest).collect(),
        filled: trials.iter().map(|trial| trial.filled).max().unwrap_or(0),
        curves: names.into_iter().map(curve).collect(),
        wanted,
    }
}

/// The mean of each column.
fn means(rows: &[Vec<f64>], columns: usize) -> Vec<f64> {
    let mean = |column: usize| {
        let values = rows.iter().filter_map(|row| row.get(column));
        values.sum::<f64>() / rows.len().max(1) as f64
    };
    (0..columns).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_from_in_turn() {
        let lists = || vec![vec![1, 2, 3], vec![], vec![20]];
        let order = [2, 0, 1];
        // Turns are 2, 0, 1, 2, 0: for lists 1 and the second of 2, list 0 stands in.
        assert_eq!(in_turn(lists(), &order, 4), (vec![20, 1, 2, 3], 2));
        assert_eq!(in_turn(lists(), &order, 9), (vec![20, 1, 2, 3], 2));
        assert_eq!(in_turn(lists(), &order, 2), (vec![20, 1], 0));
        assert_eq!(in_turn::<u8>(vec![vec![]], &[0], 3), (vec![], 0));
    }

    #[test]
    fn summaries_average_repetitions() {
        let trial = |coverage: [f64; 3], last: usize| Trial {
            replaced: vec![0, 10, last],
            filled: 1,
            coverage: coverage
                .map(|c| Values(vec![("snpc".to_owned(), c)]))
                .to_vec(),
        };
        let trials = [trial([0.10, 0.08, 0.13], 20), trial([0.2, 0.2, 0.2], 15)];
        let trials: Vec<&Trial> = trials.iter().collect();
        let found = summary(
            Family::Natural,
            vec![0, 10, 20],
            &trials,
            std::slice::from_ref(&trials),
        );
        assert_eq!(found.replaced, [0, 10, 15]);
        let curve = &found.curves[0];
        for (found, expected) in curve.normalised.iter().zip([0.0, -0.2, 0.3]) {
            assert!((found - expected).abs() < 1e-12);
        }
        assert!((curve.coverage[2] - 0.165).abs() < 1e-12);
        assert_eq!((curve.rising, curve.falling), (0.25, 0.25));

        // A control that changes by 0.01 where errors change by 0.05 at most.
        let control = [trial([0.10, 0.10, 0.11], 20), trial([0.2, 0.2, 0.2], 20)];
        let control: Vec<&Trial> = control.iter().collect();
        let found = summary(Family::Benign, vec![0, 10, 20], &control, &[trials]);
        assert!((found.curves[0].normalised[2] - 0.1).abs() < 1e-12);
    }

    #[test]
    fn shares_are_whole_inputs() {
        let settings = Rq3Settings {
            size: 250,
            ..Rq3Settings::default()
        };
        assert_eq!(settings.counts(), [0, 3, 5, 8, 13, 18, 25]);
        let wrong = Rq3Settings {
            percents: vec![5.0, 1.0],
            ..settings
        };
        assert!(wrong.check().is_err());
    }
}
