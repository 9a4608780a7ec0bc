//! `npcov lab rq3`, `rq4` and `rq5`: experiments with coverage, on a decision graph and test data.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::anyhow;
use npcov::coverage::Measurement;
use npcov::data::Loader;
use npcov::run::Network;
use npcov::{CoverOptions, DecisionGraph};
use npcov_lab::{Rq3Settings, Rq4Settings, Rq5Settings};

use super::{Results, plain};
use crate::args::{GraphArgs, Rq3Args, Rq4Args, Rq5Args};
use crate::config::Config;
use crate::graph;
use crate::printer::Printer;
use crate::progress::ProgressBar;

/// What measures, and what is measured.
struct Setup {
    graph: DecisionGraph,
    options: CoverOptions,
    data: Loader<'static>,
    /// The graph, the files of its model, names of classes.
    files: Vec<PathBuf>,
    spec: OsString,
}

impl Setup {
    fn open(args: &GraphArgs, config: &Config) -> anyhow::Result<Setup> {
        let graph = graph::open(
            &args.graph,
            &args.model,
            (&args.data.classes, &args.data.preprocessing),
            config,
        )?;
        let options = graph::cover_options(&graph, &args.choices, args.criteria.criteria.as_ref());
        let spec = config.data(&args.data)?;
        let data = graph.loader(graph.open_data(&spec)?)?;
        let mut files = graph.model().network().files().to_vec();
        files.push(args.graph.clone());
        files.extend(config.class_names_file(&args.data.classes));
        Ok(Setup {
            data,
            files,
            spec,
            graph,
            options,
        })
    }

    fn measurement(&self) -> anyhow::Result<Measurement<'_>> {
        let measurement = self.graph.learnt().measurement(&self.options);
        Ok(measurement.map_err(npcov::Error::from)?)
    }
}

/// What tells a graph and how it measures apart from others.
fn identity(measurement: &Measurement<'_>) -> String {
    let state = measurement.state();
    let record = state.record();
    let criteria: Vec<String> = record.specs().iter().map(ToString::to_string).collect();
    format!("{} {criteria:?} {:?}", record.graph, record.choices)
}

pub(super) fn rq3(args: &Rq3Args, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let lab = &args.lab;
    let setup = Setup::open(&args.graph, config)?;
    let measurement = setup.measurement()?;
    let usual = Rq3Settings::default();
    let quick = |size: usize| lab.quick.then_some(size);
    let settings = Rq3Settings {
        size: args.size.or(quick(200)).unwrap_or(usual.size),
        percents: args.percents.clone(),
        repetitions: (args.repetitions.or(quick(2))).unwrap_or(usual.repetitions),
        epsilon: args.epsilon,
        steps: args.steps.or(quick(10)).unwrap_or(usual.steps),
        range: (args.range.0, args.range.1),
        seed: lab.seed,
        paper: lab.paper,
    };
    let results = Results::new(lab, "rq3", config, &setup.files, &[&setup.spec])?;
    let work = results.work(identity(&measurement), &[&setup.data], &settings, printer)?;
    let threads = config.threads(lab.run.threads);
    let mut progress =
        ProgressBar::counting("repetitions", settings.work(), printer).keeping_parts(&work);
    let found = npcov_lab::rq3(
        &measurement,
        &setup.data,
        &settings,
        &work,
        threads,
        &mut progress,
    );
    drop(progress);
    let found = found.map_err(plain)?;
    results.unchanged(&[&setup.data], Some(&work))?;
    let (text, plot) = (npcov_report::rq3(&found), npcov_report::rq3_plot(&found));
    results.finish(&found, &text, &plot, printer)
}

pub(super) fn rq4(args: &Rq4Args, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let lab = &args.lab;
    let setup = Setup::open(&args.graph, config)?;
    let measurement = setup.measurement()?;
    let usual = Rq4Settings::default();
    let quick = |size: usize| lab.quick.then_some(size);
    let lambdas = (args.lambdas.clone())
        .or(lab.quick.then(|| vec![0.0, 100.0]))
        .unwrap_or(usual.lambdas);
    let settings = Rq4Settings {
        sizes: (args.sizes.clone())
            .or(lab.quick.then(|| vec![50]))
            .unwrap_or(usual.sizes),
        epsilons: (args.epsilons.clone())
            .or(lab.quick.then(|| vec![0.1, 0.2]))
            .unwrap_or(usual.epsilons),
        pgd_steps: (args.pgd_steps.or(quick(10))).unwrap_or(usual.pgd_steps),
        confidences: (args.confidences.clone())
            .or(lab.quick.then(|| vec![0.0]))
            .unwrap_or(usual.confidences),
        cw_rounds: (args.cw_rounds.or(quick(1))).unwrap_or(usual.cw_rounds),
        cw_steps: (args.cw_steps.or(quick(20))).unwrap_or(usual.cw_steps),
        cw_rate: args.cw_rate.unwrap_or(usual.cw_rate),
        cw_lambdas: args.cw_lambdas.clone().unwrap_or(lambdas.clone()),
        lambdas,
        layers: layers(args, setup.graph.model().network())?,
        range: (args.range.0, args.range.1),
        seed: lab.seed,
        paper: lab.paper,
    };
    let results = Results::new(lab, "rq4", config, &setup.files, &[&setup.spec])?;
    let work = results.work(identity(&measurement), &[&setup.data], &settings, printer)?;
    let threads = config.threads(lab.run.threads);
    let mut progress =
        ProgressBar::counting("suites", settings.work(), printer).keeping_parts(&work);
    let found = npcov_lab::rq4(
        &measurement,
        &setup.data,
        &settings,
        &work,
        threads,
        &mut progress,
    );
    drop(progress);
    let found = found.map_err(plain)?;
    results.unchanged(&[&setup.data], Some(&work))?;
    let (text, plot) = (npcov_report::rq4(&found), npcov_report::rq4_plot(&found));
    results.finish(&found, &text, &plot, printer)
}

/// The positions of the layers whose activity is spread.
fn layers(args: &Rq4Args, network: &Network) -> anyhow::Result<Vec<usize>> {
    let count = network.layers().len() as i64;
    let Some(given) = &args.target_layers else {
        let mut ends = vec![0, network.layers().len().saturating_sub(1)];
        ends.dedup();
        return Ok(ends);
    };
    let position = |&index: &i64| {
        let from = if index < 0 { count } else { 0 };
        let found = (from + index >= 0 && from + index < count).then_some(from + index);
        let missing = || anyhow!("there is no path layer {index}; the model has {count}");
        Ok(found.ok_or_else(missing)? as usize)
    };
    given.iter().map(position).collect()
}

pub(super) fn rq5(args: &Rq5Args, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let lab = &args.lab;
    let setup = Setup::open(&args.graph, config)?;
    let quick = |size: usize| lab.quick.then_some(size);
    let settings = Rq5Settings {
        inputs: args.inputs.or(quick(200)).unwrap_or(1000),
        rounds: args.rounds.or(quick(2)).unwrap_or(5),
        criteria: setup.measurement()?.state().record().specs(),
        choices: setup.options.choices.clone(),
        paper: lab.paper,
    };
    let results = Results::new(lab, "rq5", config, &setup.files, &[&setup.spec])?;
    let _lock = results.lock(&setup.data)?;
    let threads = config.threads(lab.run.threads);
    let mut progress = ProgressBar::counting(
        "measurements",
        settings.rounds * settings.criteria.len(),
        printer,
    );
    let found = npcov_lab::rq5(
        setup.graph.learnt(),
        &setup.data,
        &settings,
        threads,
        &mut progress,
    );
    drop(progress);
    let found = found.map_err(plain)?;
    results.unchanged(&[&setup.data], None)?;
    let (text, plot) = (npcov_report::rq5(&found), npcov_report::rq5_plot(&found));
    results.finish(&found, &text, &plot, printer)
}
