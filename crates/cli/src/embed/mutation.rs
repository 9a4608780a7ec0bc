//! What suites notice of models with something wrong in them.

use std::path::Path;

use npcov::mutate::{Mutants, MutationState};
use npcov::run::SampleRange;
use npcov::{DecisionGraph, Inputs, Model};

use super::model::with_threads;
use super::{Answer, Data, Listener, arguments, outputs};
use crate::mutate;

/// What a suite is held against, beside the options.
#[derive(Clone, Default)]
pub struct Beside {
    /// Data whose accuracy says which mutants count; the suite itself where there is none.
    pub judge: Option<Data>,
    /// A decision graph of the model, for `--paths`.
    pub graph: Option<DecisionGraph>,
}

/// What is killed, and what that is worth.
pub fn answer(state: &MutationState) -> Answer {
    let report = state.report();
    let text = npcov_report::mutation(&report);
    Answer::new(&report, text)
}

/// Makes mutants of a model, and says which of them a suite kills; with `output`, in a file.
pub fn mutate(
    model: &Model,
    data: &Data,
    beside: &Beside,
    options: &[String],
    output: Option<&Path>,
    listener: &mut Listener<'_>,
) -> anyhow::Result<MutationState> {
    // Where neurons are needs a graph to be said of.
    let known: &[&str] = match beside.graph {
        Some(_) => &["-", "--data=-", "--graph=-"],
        None => &["-", "--data=-"],
    };
    let args = arguments!("mutate", Mutate, *known, options);
    let read: Vec<&Data> = [data].into_iter().chain(&beside.judge).collect();
    let model = with_threads(model, args.run.threads);
    let written = [
        ("output", output),
        ("predictions", args.predictions.as_deref()),
    ];
    let mut outputs = outputs(written, model.network().files(), &read)?;
    if let Some(graph) = &beside.graph {
        outputs.spare_graph(graph)?;
    }
    let samples = data.for_model(&model)?;
    let inputs = Inputs::new(samples.clone()).rows(args.range.range(samples.len()));
    let (model, notes) = model.for_data(inputs.clone())?;
    listener.warn(notes);
    listener.warn(model.warnings(inputs.clone())?);
    let among = mutate::among(args.paths, beside.graph.as_ref(), model.network())?;
    let wanted = mutate::options(&args);
    let mutants = Mutants::among(model.network(), &wanted, among.as_ref());
    let mut mutants = mutants.map_err(npcov::Error::from)?;
    if let Some(folder) = &args.mutants_to {
        mutate::write(&mutants, folder, &mut outputs)?;
    }
    if let Some(judge) = &beside.judge {
        let data = model.loader(judge.for_model(&model)?)?;
        let judging = SampleRange {
            range: 0..data.len(),
            data: &data,
            threads: model.threads(),
        };
        let judged = mutants.judge(&judging, listener.progress);
        judged.map_err(npcov::Error::from)?;
    }
    let loader = model.loader(samples)?;
    let suite = SampleRange {
        data: &loader,
        range: inputs.range(),
        threads: model.threads(),
    };
    let state = mutants.measure_into(&suite, args.predictions.as_deref(), listener.progress);
    let state = state.map_err(npcov::Error::from)?;
    if let Some(path) = output {
        state.save(path).map_err(npcov::Error::from)?;
    }
    Ok(state)
}

/// What any of them kills.
pub fn merged(first: &MutationState, others: &[&MutationState]) -> anyhow::Result<MutationState> {
    let mut all = first.clone();
    for other in others {
        all.merge(other).map_err(npcov::Error::from)?;
    }
    Ok(all)
}
