//! `npcov attack`.

use std::collections::BTreeMap;

use anyhow::{anyhow, bail};
use npcov::Model;
use npcov::attack::{
    AttackFile, AttackMethod, AttackOptions, Attacked, CarliniWagner, Diversity, Pgd, attack,
};
use npcov::data::{Loader, OutputLock};
use npcov::program::Selector;
use npcov::run::Network;

use crate::args::{AttackArgs, AttackChoices, AttackName, Format};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::samples;

/// Attacks inputs of a dataset, writes what became of them, and prints how that went.
pub(crate) fn run(args: &AttackArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    let mut outputs = Outputs::new(config, [("--output", Some(&*args.output))])?;
    outputs.spare(&model)?;
    outputs.spare_data(&data)?;
    outputs.spare_all(config.class_names_file(&args.data.classes))?;
    let method = method(args.method, &args.choices)?;
    let model = Model::open_with(model, &config.network(&args.model))?;
    outputs.spare_all(model.network().files())?;
    let model = config.prepare(model, &args.data)?;
    let samples = model.open_data(&data)?;
    let model = samples::resolve(model, &samples, printer)?;
    samples::warn(&model.warnings(&samples)?, printer);
    let loader = model.loader(samples)?;
    let network = model.network();
    let settings = settings(args, method, network)?;
    let rows = rows(args, &loader)?;
    let mut file = AttackFile::create(&args.output, &loader).map_err(npcov::Error::from)?;
    let _lock = OutputLock::beside(&args.output).map_err(npcov::Error::from)?;
    let inputs = Attacked {
        data: &loader,
        rows: &rows,
        threads: config.threads(args.run.threads),
    };
    let work = settings.work(rows.len());
    let mut progress = ProgressBar::new(rows.len(), printer).of_work(work);
    let report = attack::<npcov::Error>(network, inputs, &settings, &mut progress, |found| {
        Ok(file.append(found)?)
    })?;
    drop(progress);
    file.finish().map_err(npcov::Error::from)?;
    printer.data(&match args.run.print.format {
        Format::Text => npcov_report::attack(&report),
        Format::Json => npcov_report::json(&report),
    })
}

/// The inputs that are attacked.
pub(crate) fn rows(args: &AttackArgs, data: &Loader) -> anyhow::Result<Vec<usize>> {
    let Some(count) = args.per_class else {
        return Ok(args.limit.range(data.len()).collect());
    };
    let Some(labels) = data.labels() else {
        let name = data.name();
        bail!("`{name}` has no labels, which `--per-class` counts; give `--limit` instead");
    };
    let mut seen = BTreeMap::new();
    let mut rows = Vec::new();
    for (row, label) in labels.iter().enumerate() {
        let seen = seen.entry(label).or_insert(0);
        if *seen < count {
            *seen += 1;
            rows.push(row);
        }
    }
    Ok(rows)
}

pub(crate) fn settings(
    args: &AttackArgs,
    method: AttackMethod,
    network: &Network,
) -> anyhow::Result<AttackOptions> {
    let choices = &args.choices;
    let mut settings = AttackOptions::from(method);
    settings.seed = args.seed;
    settings.range = (choices.range.0, choices.range.1);
    if let Some(batch) = choices.batch {
        settings.batch = batch.0;
    }
    if let (Some(lambda), Some(layer)) = (choices.lambda, &choices.layer) {
        let layer = position(layer, network)?;
        settings.diversity = Some(Diversity { layer, lambda });
    }
    Ok(settings)
}

/// The position of a path layer.
fn position(layer: &Selector, network: &Network) -> anyhow::Result<usize> {
    let layers = network.layers();
    let (found, text) = match layer {
        Selector::Index(index) => {
            let from = if *index < 0 { layers.len() as i64 } else { 0 };
            (usize::try_from(from + index).ok(), index.to_string())
        }
        Selector::Name(name) => (layers.iter().position(|l| l.name == *name), name.clone()),
    };
    found.filter(|&i| i < layers.len()).ok_or_else(|| {
        let names = layers.iter().enumerate();
        let names: Vec<String> = names.map(|(i, l)| format!("{i} (`{}`)", l.name)).collect();
        match names.is_empty() {
            true => anyhow!("there is no path layer `{text}`: the model has none"),
            false => anyhow!(
                "there is no path layer `{text}`; there are {}",
                names.join(", ")
            ),
        }
    })
}

/// The method with its parameters. One that it does not have is a mistake.
pub(crate) fn method(name: AttackName, given: &AttackChoices) -> anyhow::Result<AttackMethod> {
    use AttackName::{Cw, CwLinf, Fgsm, Pgd as Descent, PgdL2};
    let fits: [(&str, bool, &[AttackName]); 9] = [
        (
            "steps",
            given.steps.is_some(),
            &[Descent, PgdL2, Cw, CwLinf],
        ),
        ("epsilon", given.epsilon.is_some(), &[Fgsm, Descent, PgdL2]),
        ("step", given.step.is_some(), &[Descent, PgdL2]),
        ("no-random-start", given.no_random_start, &[Descent, PgdL2]),
        ("confidence", given.confidence.is_some(), &[Cw, CwLinf]),
        ("rounds", given.rounds.is_some(), &[Cw, CwLinf]),
        ("factor", given.factor.is_some(), &[Cw, CwLinf]),
        (
            "learning-rate",
            given.learning_rate.is_some(),
            &[Cw, CwLinf],
        ),
        ("tanh-box", given.tanh_box.is_some(), &[Cw, CwLinf]),
    ];
    for (flag, is_given, methods) in fits {
        if is_given && !methods.contains(&name) {
            let methods: Vec<String> = methods.iter().map(|m| format!("`{}`", word(*m))).collect();
            bail!(
                "`--{flag}` is for {}, not for `--method {}`",
                methods.join(", "),
                word(name)
            );
        }
    }
    Ok(match name {
        Fgsm => AttackMethod::Pgd(Pgd::fast(given.epsilon.unwrap_or(0.1))),
        Descent => descent(Pgd::maximum(given.epsilon.unwrap_or(0.1)), given),
        PgdL2 => descent(Pgd::euclidean(given.epsilon.unwrap_or(1.0)), given),
        Cw => smallest(CarliniWagner::euclidean(), given),
        CwLinf => smallest(CarliniWagner::maximum(), given),
    })
}

/// A method as it is written.
fn word(name: AttackName) -> &'static str {
    match name {
        AttackName::Fgsm => "fgsm",
        AttackName::Pgd => "pgd",
        AttackName::PgdL2 => "pgd-l2",
        AttackName::Cw => "cw",
        AttackName::CwLinf => "cw-linf",
    }
}

fn descent(usual: Pgd, given: &AttackChoices) -> AttackMethod {
    AttackMethod::Pgd(Pgd {
        step: given.step.unwrap_or(usual.step),
        steps: given.steps.unwrap_or(usual.steps),
        random_start: !given.no_random_start,
        ..usual
    })
}

fn smallest(usual: CarliniWagner, given: &AttackChoices) -> AttackMethod {
    AttackMethod::CarliniWagner(CarliniWagner {
        confidence: given.confidence.unwrap_or(usual.confidence),
        rounds: given.rounds.unwrap_or(usual.rounds),
        steps: given.steps.unwrap_or(usual.steps),
        learning_rate: given.learning_rate.unwrap_or(usual.learning_rate),
        first_factor: given.factor.unwrap_or(usual.first_factor),
        tanh_box: given.tanh_box.map(|bounds| (bounds.0, bounds.1)),
        ..usual
    })
}
