//! Selecting and minimising on a real model: orders are held against their definitions, and the
//! files that are written against what they are said to cover.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use npcov::Error;
use npcov::artefact::{NO_SCORE, ScoreKind};
use npcov::coverage::{BuildOptions, CoverOptions, Coverage, LearntGraph, SuiteReport};
use npcov::data::{Loader, Preprocessing, open};
use npcov::run::{Event, ModelOptions, Network, Progress, SampleRange, TracedRows};
use npcov::select::{Minimization, MinimizeOptions, SelectOptions, Selection};
use tempfile::TempDir;

/// Training inputs: the first of the fixtures.
const TRAINING: usize = 300;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

fn data() -> String {
    fixture("fashion-1000.npz").display().to_string()
}

/// Some inputs of a dataset.
fn part<'a>(
    data: &'a Loader<'a>,
    range: std::ops::Range<usize>,
    threads: usize,
) -> SampleRange<'a> {
    SampleRange {
        data,
        range,
        threads,
    }
}

/// A decision graph of lenet in a folder of its own.
struct Case {
    folder: TempDir,
}

impl Case {
    fn new() -> Case {
        let case = Case {
            folder: TempDir::new().unwrap(),
        };
        let model = fixture("lenet.onnx");
        let network = Network::open(&model, &ModelOptions::default()).unwrap();
        let preprocessing = Preprocessing {
            divide: Some(255.0),
            ..Preprocessing::default()
        };
        let dataset = open(data()).unwrap();
        let loader = Loader::new(dataset, network.sample_shape(), &preprocessing).unwrap();
        let options = BuildOptions::default();
        let output = case.path("graph.npcov");
        let inputs = part(&loader, 0..TRAINING, 2);
        let network = Arc::new(network);
        npcov::coverage::build(&network, &inputs, &options, Some(&output), &mut ()).unwrap();
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn graph(&self) -> LearntGraph {
        LearntGraph::open(self.path("graph.npcov"), Some(&fixture("lenet.onnx"))).unwrap()
    }

    fn try_select(
        &self,
        strategy: &str,
        count: Option<usize>,
        threads: usize,
        progress: &mut dyn Progress,
    ) -> Result<Selection, Error> {
        let graph = self.graph();
        let pool = graph.loader(npcov::data::open(data()).unwrap())?;
        let options = SelectOptions {
            count,
            ..SelectOptions::from(strategy.parse::<npcov::select::Strategy>().unwrap())
        };
        let (inputs, output) = (part(&pool, 0..pool.len(), threads), self.path("out.npz"));
        let selected = npcov::select::select(&graph, &inputs, &options, Some(&output), progress);
        Ok(selected?)
    }

    fn select(&self, strategy: &str, count: Option<usize>) -> Selection {
        self.try_select(strategy, count, 2, &mut ()).unwrap()
    }

    fn minimize(&self, criteria: &[&str], range: std::ops::Range<usize>) -> Minimization {
        let options = MinimizeOptions {
            criteria: criteria.iter().map(|c| c.parse().unwrap()).collect(),
            ..MinimizeOptions::default()
        };
        let graph = self.graph();
        let suite = graph.loader(npcov::data::open(data()).unwrap()).unwrap();
        let (inputs, output) = (part(&suite, range, 2), self.path("out.npz"));
        npcov::select::minimize(&graph, &inputs, &options, Some(&output), &mut ()).unwrap()
    }

    /// What a dataset covers.
    fn cover(&self, data: &str, inputs: usize) -> SuiteReport {
        let coverage = self.coverage(data, inputs);
        coverage.report().unwrap().suites.remove(0)
    }

    fn coverage(&self, data: &str, inputs: usize) -> Coverage {
        let graph = self.graph();
        let loader = graph.loader(npcov::data::open(data).unwrap()).unwrap();
        let measurement = graph.measurement(&CoverOptions::default()).unwrap();
        let inputs = part(&loader, 0..inputs, 2);
        measurement.cover("suite", &inputs, &mut ()).unwrap()
    }

    fn cover_selected(&self) -> SuiteReport {
        let selected = self.path("out.npz").display().to_string();
        let inputs = npcov::data::open(&selected).unwrap().len();
        self.cover(&selected, inputs)
    }

    /// For every input the activations of all neurons, and the logits.
    fn traces(&self) -> Vec<(Vec<f32>, Vec<f32>)> {
        let graph = self.graph();
        let loader = graph.loader(npcov::data::open(data()).unwrap()).unwrap();
        let tracer = graph.network().tracer(&[]).unwrap();
        let lens = tracer.output_lens();
        let mut traces = Vec::new();
        let sink = |batch: &TracedRows| -> Result<(), Error> {
            for place in 0..batch.rows.len() {
                let output = |i: usize| &batch.outputs[i][place * lens[i]..(place + 1) * lens[i]];
                let activations = (1..lens.len()).flat_map(output).copied().collect();
                traces.push((activations, output(0).to_vec()));
            }
            Ok(())
        };
        tracer.run(&loader, 0..loader.len(), 2, sink).unwrap();
        traces
    }
}

fn inputs(selection: &Selection) -> Vec<usize> {
    selection.chosen.iter().map(|chosen| chosen.input).collect()
}

/// By definition: of the range that training gave a neuron, the section that a value lies in.
fn sections(traces: &[(Vec<f32>, Vec<f32>)], sections: usize) -> Vec<BTreeSet<(usize, usize)>> {
    let neurons = traces[0].0.len();
    let ranges: Vec<(f64, f64)> = (0..neurons)
        .map(|neuron| {
            let values = traces[..TRAINING].iter().map(|(a, _)| f64::from(a[neuron]));
            values.fold((f64::MAX, f64::MIN), |(low, high), x| {
                (low.min(x), high.max(x))
            })
        })
        .collect();
    let section = |neuron: usize, x: f64| {
        let (low, high) = ranges[neuron];
        let inside = low < high && (low..=high).contains(&x);
        let place = ((x - low) / (high - low) * sections as f64).floor() as usize;
        inside.then_some((neuron, place.min(sections - 1)))
    };
    let input = |(activations, _): &(Vec<f32>, Vec<f32>)| {
        let values = activations.iter().enumerate();
        values
            .filter_map(|(neuron, &x)| section(neuron, f64::from(x)))
            .collect()
    };
    traces.iter().map(input).collect()
}

#[test]
fn additional_coverage_is_greedy_and_is_what_the_file_covers() {
    let case = Case::new();
    let lists = sections(&case.traces(), 100);
    let selection = case.select("additional:kmnc:sections=100", Some(60));
    let mut covered = BTreeSet::new();
    let mut rest: BTreeSet<usize> = (0..lists.len()).collect();
    for chosen in &selection.chosen {
        let gain = |input: &usize| lists[*input].difference(&covered).count();
        let most = rest.iter().map(gain).max().unwrap();
        let first = *rest.iter().find(|input| gain(input) == most).unwrap();
        assert_eq!((chosen.input, chosen.score), (first, Some(most as f64)));
        rest.remove(&first);
        covered.extend(&lists[first]);
    }
    let told = selection.coverage.unwrap();
    assert_eq!(told.covered, covered.len() as u64);
    let all: BTreeSet<_> = lists.iter().flatten().collect();
    assert_eq!(told.pool, all.len() as u64);
    assert!(told.enough.is_some_and(|enough| enough > 60));

    let selection = case.select("additional:kmnc", Some(60));
    let told = selection.coverage.unwrap();
    let measured = case.cover_selected();
    let value = told.covered as f64 / told.total.unwrap() as f64;
    assert_eq!(measured.criteria.get("kmnc").unwrap().value(), value);
    assert_eq!(measured.inputs, 60);
    assert_eq!(
        measured.accuracy,
        Some(1.0 - selection.apfd.unwrap().found as f64 / 60.0)
    );
}

#[test]
fn total_coverage_takes_those_that_cover_the_most() {
    let case = Case::new();
    let lists = sections(&case.traces(), 1000);
    let mut expected: Vec<usize> = (0..lists.len()).collect();
    expected.sort_by_key(|&input| (std::cmp::Reverse(lists[input].len()), input));
    let selection = case.select("total:kmnc", None);
    assert_eq!(inputs(&selection), expected);
    let scores = selection.chosen.iter().map(|chosen| chosen.score.unwrap());
    let counts = expected.iter().map(|&input| lists[input].len() as f64);
    assert!(scores.eq(counts));
}

#[test]
fn scores_come_in_descending_order_and_say_where_faults_are() {
    let case = Case::new();
    let gini = |(_, logits): &(Vec<f32>, Vec<f32>)| {
        let highest = logits.iter().copied().fold(f32::MIN, f32::max);
        let powers: Vec<f64> = logits
            .iter()
            .map(|z| f64::from(z - highest).exp())
            .collect();
        let sum: f64 = powers.iter().sum();
        1.0 - powers.iter().map(|p| (p / sum).powi(2)).sum::<f64>()
    };
    let scores: Vec<f64> = case.traces().iter().map(gini).collect();
    let selection = case.select("score:deepgini", Some(20));
    assert!(selection.coverage.is_none());
    let lowest = selection.chosen.last().unwrap().score.unwrap();
    for chosen in &selection.chosen {
        assert!((scores[chosen.input] - chosen.score.unwrap()).abs() < 1e-6);
    }
    let higher = scores.iter().filter(|&&score| score > lowest + 1e-6);
    assert!(higher.count() < 20);
    // By hand, from the order of the whole pool.
    let all = case.select("score:deepgini", None);
    let (n, mut m, mut places) = (all.chosen.len() as f64, 0.0, 0.0);
    for (i, chosen) in all.chosen.iter().enumerate() {
        if chosen.label != Some(chosen.prediction as i64) {
            (m, places) = (m + 1.0, places + (i + 1) as f64);
        }
    }
    let apfd = all.apfd.unwrap();
    let expected = 1.0 - places / (n * m) + 1.0 / (2.0 * n);
    assert!((apfd.value.unwrap() - expected).abs() < 1e-12);
    // The order is that of the whole pool with `count` too.
    assert_eq!(selection.apfd.unwrap().value, apfd.value);
    assert!(expected > 0.7, "unsure predictions are more often wrong");
}

#[test]
fn places_in_the_graph_are_scores() {
    let case = Case::new();
    let coverage = case.coverage(&data(), 1000);
    let records = &coverage.state().suites()[0].inputs;
    for kind in ScoreKind::ALL {
        let selection = case.select(&format!("score:{}", kind.name()), None);
        assert_eq!(selection.chosen.len(), records.len());
        for pair in selection.chosen.windows(2) {
            let place = |i: usize| (pair[i].score.unwrap(), std::cmp::Reverse(pair[i].input));
            assert!(place(0) > place(1), "{pair:?}");
        }
        for chosen in &selection.chosen {
            let record = &records[chosen.input];
            assert_eq!(chosen.score, Some(record.score(kind).unwrap_or(NO_SCORE)));
        }
    }
}

#[test]
fn smaller_suites_cover_the_same() {
    let case = Case::new();
    let names = ["snpc", "tknc", "tknp", "lsc", "nbc"];
    let minimization = case.minimize(&names, 0..800);
    let kept = minimization.chosen.len();
    assert!(0 < kept && kept < 800, "{kept}");
    let (before, after) = (case.cover(&data(), 800), case.cover_selected());
    assert_eq!(after.inputs, kept);
    for (criterion, name) in minimization.criteria.iter().zip(names) {
        assert_eq!(criterion.before, criterion.after);
        let values = [&before, &after].map(|suite| suite.criteria.get(name).unwrap().value());
        assert_eq!(values[0], values[1], "{name}");
        let told = criterion.after as f64 / criterion.total.map_or(1.0, |total| total as f64);
        assert_eq!(values[1], told, "{name}");
    }
    let positions: BTreeSet<usize> = minimization.chosen.iter().map(|c| c.input).collect();
    assert_eq!(positions.len(), kept);
    let added: f64 = minimization.chosen.iter().filter_map(|c| c.score).sum();
    let covered: u64 = minimization.criteria.iter().map(|c| c.after).sum();
    assert_eq!(added, covered as f64);
    // An input is in one bucket of LSC at most: one is kept for each.
    let again = case.minimize(&["lsc"], 0..800);
    assert_eq!(again.chosen.len() as u64, again.criteria[0].after);
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let case = Case::new();
    for strategy in ["additional:snpc", "additional:tknp", "score:dsa", "random"] {
        let runs = [1, 2, 8].map(|threads| {
            let selection = case.try_select(strategy, Some(40), threads, &mut ());
            (
                selection.unwrap(),
                std::fs::read(case.path("out.npz")).unwrap(),
            )
        });
        assert!(runs.iter().all(|run| *run == runs[0]), "{strategy}");
    }
}

#[test]
fn work_that_was_cut_off_goes_on() {
    let case = Case::new();
    let (parts, saved) = (case.path("out.npz.parts"), case.path("saved"));
    let copy = |from: &Path, to: &Path| {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    };
    // What is there when the first shard is finished and the second is not.
    let mut on = |_: Event| {
        if parts.join("inputs-000000.safetensors").exists() && !saved.exists() {
            copy(&parts, &saved);
        }
        ControlFlow::Continue(())
    };
    let strategy = "additional:tknp";
    let whole = case.try_select(strategy, None, 1, &mut on).unwrap();
    let bytes = std::fs::read(case.path("out.npz")).unwrap();
    assert!(saved.exists() && !parts.exists());
    copy(&saved, &parts);
    let mut resumed = Vec::new();
    let again = case.try_select(strategy, None, 2, &mut |event| {
        if let Event::Resumed(inputs) = event {
            resumed.push(inputs);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(again.unwrap(), whole);
    assert_eq!(resumed, [512]);
    assert!(std::fs::read(case.path("out.npz")).unwrap() == bytes);
    // Those of another strategy are not taken.
    copy(&saved, &parts);
    let mut resumed = false;
    let other = case.try_select("additional:tknc", None, 2, &mut |event| {
        resumed |= matches!(event, Event::Resumed(_));
        ControlFlow::Continue(())
    });
    assert!(other.is_ok() && !resumed && !parts.exists());
}

#[test]
fn criteria_without_things_and_unknown_scores_are_refused() {
    let case = Case::new();
    for (strategy, words) in [
        ("additional:cc", "depends on those before it"),
        ("total:nlc", "looks at a suite as a whole"),
        ("additional:entropy", "as in `score:entropy`"),
        ("additional:lsc:edges=sadl", "as in `score:lsa`"),
        ("score:snpc", "there are deepgini"),
        ("score:lsa:x=1", "no option `x`"),
    ] {
        let error = case.try_select(strategy, None, 2, &mut ()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(!case.path("out.npz").exists() && !case.path("out.npz.parts").exists());
}

/// Selection from what is given, held against its definition: coverage of the given suite and the selected inputs
/// together is what the given suite covers and what is said to be added.
#[test]
fn selection_starts_from_what_is_given() {
    let case = Case::new();
    let graph = case.graph();
    let pool = graph.loader(open(data()).unwrap()).unwrap();
    for (criterion, inputs) in [
        ("snpc", 200),
        ("tknp", 500),
        ("kmnc:sections=10", 50),
        ("lsc", 300),
    ] {
        let spec: npcov::criteria::Spec = criterion.parse().unwrap();
        let options = CoverOptions {
            criteria: Some(vec![spec.clone()]),
            ..CoverOptions::default()
        };
        let measurement = graph.measurement(&options).unwrap();
        let cover = |data: &Loader<'_>, inputs: usize| {
            let part = part(data, 0..inputs, 2);
            measurement.cover("suite", &part, &mut ()).unwrap()
        };
        let slots = |coverage: &Coverage| -> BTreeSet<npcov::criteria::Slot> {
            let member = &measurement.criteria().members()[0];
            let state = &coverage.state().suites()[0].states[0];
            member.criterion.slots(state).unwrap().into_iter().collect()
        };
        let given = cover(&pool, inputs);
        let (before, all) = (slots(&given), slots(&cover(&pool, pool.len())));
        // Those that add something to what is given, by definition.
        let adds: BTreeSet<usize> = (0..pool.len())
            .filter(|&input| {
                let one = measurement.cover("one", &part(&pool, input..input + 1, 1), &mut ());
                !slots(&one.unwrap()).is_subset(&before)
            })
            .collect();
        for name in ["additional", "total"] {
            let strategy: npcov::select::Strategy = format!("{name}:{criterion}").parse().unwrap();
            let options = SelectOptions {
                given: Some(given.clone()),
                ..SelectOptions::from(strategy)
            };
            let output = case.path("given.npz");
            let inputs = part(&pool, 0..pool.len(), 2);
            let found = npcov::select::select(&graph, &inputs, &options, Some(&output), &mut ());
            let found = found.unwrap();
            let told = found.coverage.unwrap();
            assert_eq!(told.given, Some(before.len() as u64));
            assert_eq!(
                told.pool as usize,
                all.difference(&before).count(),
                "{criterion}"
            );
            assert_eq!(told.covered, told.pool, "all that add something are there");
            let chosen: BTreeSet<usize> = found.chosen.iter().map(|chosen| chosen.input).collect();
            assert_eq!(
                (&chosen, chosen.len()),
                (&adds, found.chosen.len()),
                "{criterion}"
            );
        }
        let options = MinimizeOptions {
            criteria: vec![spec],
            given: Some(given),
            ..MinimizeOptions::default()
        };
        let output = case.path("small.npz");
        let suite = part(&pool, 0..pool.len(), 2);
        let small = npcov::select::minimize(&graph, &suite, &options, Some(&output), &mut ());
        let small = small.unwrap();
        let kept = small.chosen.len();
        let mut together = before.clone();
        if kept > 0 {
            let kept_data = graph
                .loader(open(output.to_str().unwrap()).unwrap())
                .unwrap();
            together.extend(slots(&cover(&kept_data, kept)));
        }
        assert_eq!(together, all, "{criterion}");
    }
}
