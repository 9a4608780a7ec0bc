//! `npcov lab rq6` and `rq7`: experiments with kinds that a network was not told of.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use npcov::data::formats::split;
use npcov::data::{Digester, Loader, Reading, open_as};
use npcov::{CoverOptions, DecisionGraph};
use npcov_lab::{OfKinds, Rq6Settings, Rq7Settings, TrainingAndTest};

use super::{Results, plain};
use crate::args::{KindsArgs, LabOptions, Rq6Args, Rq7Args};
use crate::config::Config;
use crate::graph;
use crate::printer::Printer;
use crate::progress::ProgressBar;

/// A decision graph, its training data, and the kinds of that.
struct Setup {
    graph: DecisionGraph,
    data: Loader<'static>,
    kinds: Vec<i64>,
    /// The graph, the files of its model, names of classes.
    files: Vec<PathBuf>,
    spec: OsString,
}

impl Setup {
    fn open(args: &KindsArgs, lab: &LabOptions, config: &Config) -> anyhow::Result<Setup> {
        if lab.paper.is_some() {
            bail!("the paper does not ask this question: leave `--paper` out");
        }
        let graph = graph::open(
            &args.graph,
            &args.model,
            (&args.data.classes, &args.data.preprocessing),
            config,
        )?;
        let spec = config.data(&args.data)?;
        let (data, kinds) = open(&graph, &spec, &args.kinds)?;
        let mut files = graph.model().network().files().to_vec();
        files.push(args.graph.clone());
        files.extend(config.class_names_file(&args.data.classes));
        Ok(Setup {
            graph,
            data,
            kinds,
            files,
            spec,
        })
    }

    /// What tells the graph from others.
    fn identity(&self) -> String {
        self.graph.learnt().file().record().id.clone()
    }
}

/// Data of a graph, and an array of its file with the kind of each input.
fn open(
    graph: &DecisionGraph,
    spec: &OsStr,
    array: &str,
) -> anyhow::Result<(Loader<'static>, Vec<i64>)> {
    // Kinds are what labels would be if they were named as such.
    let (file, part) = split(spec);
    let x = part.and_then(|part| part.split(',').next()).unwrap_or("x");
    let mut named = file.into_os_string();
    named.push(format!(":{x},{array}"));
    let reading = Reading {
        kinds: true,
        ..Reading::default()
    };
    let of_kinds = open_as(&named, &reading).map_err(npcov::Error::from)?;
    let kinds = of_kinds.labels().map(<[i64]>::to_vec);
    let kinds = kinds.ok_or_else(|| anyhow!("`{}` has no kinds", named.display()))?;
    Ok((graph.loader(graph.open_data(spec)?)?, kinds))
}

/// The digest of kinds, which results depend on besides the data.
fn digest(kinds: &[&[i64]]) -> String {
    let mut digester = Digester::default();
    for kinds in kinds {
        kinds
            .iter()
            .for_each(|kind| digester.update(&kind.to_le_bytes()));
    }
    digester.finish().to_string()
}

pub(super) fn rq6(args: &Rq6Args, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let lab = &args.lab;
    let setup = Setup::open(&args.kinds, lab, config)?;
    let settings = Rq6Settings {
        restarts: args.restarts.or(lab.quick.then_some(1)),
    };
    let results = Results::new(lab, "rq6", config, &setup.files, &[&setup.spec])?;
    let told = (&settings, digest(&[&setup.kinds]));
    let work = results.work(setup.identity(), &[&setup.data], &told, printer)?;
    let threads = config.threads(lab.run.threads);
    let mut progress =
        ProgressBar::counting("ways to cluster", settings.work(), printer).keeping_parts(&work);
    let found = npcov_lab::rq6(
        setup.graph.learnt(),
        &OfKinds {
            data: &setup.data,
            kinds: &setup.kinds,
        },
        &settings,
        &work,
        threads,
        &mut progress,
    );
    drop(progress);
    let found = found.map_err(plain)?;
    results.unchanged(&[&setup.data], Some(&work))?;
    let (text, plot) = (npcov_report::rq6(&found), npcov_report::rq6_plot(&found));
    results.finish(&found, &text, &plot, printer)
}

pub(super) fn rq7(args: &Rq7Args, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let lab = &args.lab;
    let setup = Setup::open(&args.kinds, lab, config)?;
    let (test, kinds) = open(&setup.graph, &args.test, &args.kinds.kinds)?;
    let usual = Rq7Settings::default();
    let quick = |size: usize| lab.quick.then_some(size);
    let settings = Rq7Settings {
        size: args.size.or(quick(200)).unwrap_or(usual.size),
        complete: args.complete.or(quick(5)).unwrap_or(usual.complete),
        seed: lab.seed,
    };
    // Clusters are told of inputs whose paths are looked at.
    let options = CoverOptions {
        criteria: Some(vec!["snpc".parse()?]),
        choices: None,
    };
    let measurement = setup.graph.learnt().measurement(&options);
    let measurement = measurement.map_err(npcov::Error::from)?;
    let results = Results::new(lab, "rq7", config, &setup.files, &[&setup.spec, &args.test])?;
    let told = (&settings, digest(&[&setup.kinds, &kinds]));
    let data = [&setup.data, &test];
    let work = results.work(setup.identity(), &data, &told, printer)?;
    let threads = config.threads(lab.run.threads);
    let training = &setup.graph.learnt().file().record().training;
    let inputs = test.len() + training.end.saturating_sub(training.start);
    let mut progress = ProgressBar::new(inputs, printer).keeping_parts(&work);
    let found = npcov_lab::rq7(
        &measurement,
        TrainingAndTest {
            training: OfKinds {
                data: &setup.data,
                kinds: &setup.kinds,
            },
            test: OfKinds {
                data: &test,
                kinds: &kinds,
            },
        },
        &settings,
        &work,
        threads,
        &mut progress,
    );
    drop(progress);
    let found = found.map_err(plain)?;
    results.unchanged(&data, Some(&work))?;
    let (text, plot) = (npcov_report::rq7(&found), npcov_report::rq7_plot(&found));
    results.finish(&found, &text, &plot, printer)
}
