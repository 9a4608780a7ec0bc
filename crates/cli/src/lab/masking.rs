//! `npcov lab rq1` and `npcov lab rq2`: experiments with masks, on training data.

use std::ffi::OsString;
use std::path::PathBuf;

use npcov::data::{Digest, Loader};
use npcov::paths::Choices;
use npcov::run::{Method, ModelOptions};
use npcov::{Model, TuneOptions};
use npcov_lab::{Rq1Settings, Rq2Settings, TrainingAndTest};

use super::{Results, plain, write};
use crate::args::{Rq1Args, Rq2Args, StudyArgs};
use crate::config::Config;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::samples;

/// What is masked.
struct Setup {
    model: Model,
    /// The model's digest.
    digest: String,
    data: Loader<'static>,
    /// The files of the model, names of classes.
    files: Vec<PathBuf>,
    spec: OsString,
    method: Method,
    choices: Choices,
}

impl Setup {
    fn open(args: &StudyArgs, config: &Config, printer: &Printer) -> anyhow::Result<Setup> {
        let model: PathBuf = config.model(&args.model)?;
        let spec = config.data(&args.data)?;
        let options = ModelOptions {
            batch_norm: config.batch_norm(&args.method),
            ..config.network(&args.model)
        };
        let model = config.prepare(Model::open_with(&model, &options)?, &args.data)?;
        let data = model.open_data(&spec)?;
        let model = samples::resolve(model, &data, printer)?;
        samples::warn(&model.warnings(&data)?, printer);
        let method = config.method(&args.method)?;
        samples::say_preset(&method, model.network(), printer);
        let data = model.loader(data)?;
        let mut files = model.network().files().to_vec();
        files.extend(config.class_names_file(&args.data.classes));
        Ok(Setup {
            files,
            // Other layers or units make another experiment of the same file.
            digest: format!("{} {options:?}", Digest::from(*model.network().digest())),
            model,
            data,
            spec,
            method,
            choices: config
                .paths
                .choices(&args.path_choices, None, Some(&args.study_choices)),
        })
    }
}

pub(super) fn rq1(args: &Rq1Args, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let lab = &args.lab;
    let setup = Setup::open(&args.study, config, printer)?;
    let test_spec = args.test.as_ref().unwrap_or(&setup.spec);
    let test = setup.model.loader(setup.model.open_data(test_spec)?)?;
    let usual = Rq1Settings::default();
    let quick = |size: usize| lab.quick.then_some(size);
    let chosen = lab.paper.map(|paper| paper.published().alpha);
    let settings = Rq1Settings {
        method: setup.method,
        choices: setup.choices,
        sample: args.sample.or(quick(200)),
        alphas: args.alphas.clone(),
        band_alpha: (args.alpha.or(chosen))
            .or(config.paths.alpha())
            .unwrap_or(usual.band_alpha),
        bands: args.bands.into(),
        controls: args.controls.or(quick(100)).or(usual.controls),
        per_class: args.per_class.or(quick(10)).unwrap_or(usual.per_class),
        seed: lab.seed,
        paper: lab.paper,
    };
    let results = Results::new(lab, "rq1", config, &setup.files, &[&setup.spec, test_spec])?;
    let told = (&settings, setup.model.preprocessing());
    let work = results.work(setup.digest, &[&setup.data, &test], &told, printer)?;
    let threads = config.threads(lab.run.threads);
    let all = setup.data.len();
    let inputs = settings.sample.map_or(all, |sample| sample.min(all));
    let mut progress = ProgressBar::new(inputs, printer)
        .of_work(settings.work(&setup.data))
        .keeping_parts(&work);
    let found = npcov_lab::rq1(
        setup.model.network(),
        TrainingAndTest {
            training: &setup.data,
            test: &test,
        },
        &settings,
        &work,
        threads,
        &mut progress,
    );
    drop(progress);
    let found = found.map_err(plain)?;
    results.unchanged(&[&setup.data, &test], Some(&work))?;
    let (text, plot) = (npcov_report::rq1(&found), npcov_report::rq1_plot(&found));
    results.finish(&found, &text, &plot, printer)
}

pub(super) fn rq2(args: &Rq2Args, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let lab = &args.lab;
    let setup = Setup::open(&args.study, config, printer)?;
    let usual = Rq2Settings::default();
    let quick = |size: usize| lab.quick.then_some(size);
    let published = lab.paper.map(|paper| paper.published());
    let settings = Rq2Settings {
        method: setup.method,
        choices: setup.choices,
        sample: args.sample.or(quick(200)),
        alpha: (args.alpha.or(published.map(|p| p.alpha)))
            .or(config.paths.alpha())
            .unwrap_or(usual.alpha),
        clusters: (args.clusters.clone())
            .or(lab.quick.then(|| vec![1, 4]))
            .unwrap_or(usual.clusters),
        betas: (args.betas.clone())
            .or(lab.quick.then(|| vec![0.6, 0.8]))
            .unwrap_or(usual.betas),
        each_class: (args.each_class)
            .then(|| args.alphas.clone().unwrap_or(TuneOptions::default().alphas)),
        chosen: (args.chosen)
            .or(published.map(|p| p.clusters))
            .unwrap_or(usual.chosen),
        per_class: args.per_class.or(quick(10)).unwrap_or(usual.per_class),
        sheet_classes: args.sheet_classes.clone(),
        sheet_inputs: usual.sheet_inputs,
        restarts: config.paths.restarts(),
        seed: lab.seed,
        paper: lab.paper,
    };
    let results = Results::new(lab, "rq2", config, &setup.files, &[&setup.spec])?;
    let told = (&settings, setup.model.preprocessing());
    let work = results.work(setup.digest, &[&setup.data], &told, printer)?;
    let threads = config.threads(lab.run.threads);
    let all = setup.data.len();
    let inputs = settings.sample.map_or(all, |sample| sample.min(all));
    let mut progress = ProgressBar::new(inputs, printer)
        .of_work(settings.work(&setup.data))
        .keeping_parts(&work);
    let found = npcov_lab::rq2(
        setup.model.network(),
        &setup.data,
        &settings,
        &work,
        threads,
        &mut progress,
    );
    drop(progress);
    let found = found.map_err(plain)?;
    results.unchanged(&[&setup.data], Some(&work))?;
    if let Some(grid) = npcov_report::cluster_grid(&found, &setup.data)? {
        grid.write(results.file("-clusters.png"))?;
    }
    if let Some(classes) = &found.each_class {
        let settings = npcov_report::rq2_settings(classes);
        write(&results.file("-classes.toml"), settings.as_bytes())?;
    }
    let (text, plot) = (npcov_report::rq2(&found), npcov_report::rq2_plot(&found));
    results.finish(&found, &text, &plot, printer)
}
