//! Where the time of a program goes.
//!
//! `cargo run --release -p npcov-engine --example steps -- MODEL forward|RULE direct|winograd [INPUTS] [ISA]`
//! prints the milliseconds that each step takes one thread for one input, of so many that are computed at a time
//! (as many as the engine likes by default), the best of several runs, and their sum. RULE is a relevance rule, such as `alpha-beta:0.5`, for the relevances of all path layers and of the input; ISA one of the CPU's
//! instruction sets, `portable`, `avx2` or `avx512`, else the best one is taken.

use std::error::Error;
use std::time::Instant;

use npcov_cpu::Isa;
use npcov_engine::native::{Native, Options};
use npcov_engine::{KEEP_ALL, Prepared};
use npcov_graph::{Classifier, OnnxModel, Specialisation};
use npcov_program::{ExplainOutputs, LayerOptions, Lrp, NetworkView, Rules, explain, path_layers};

const RUNS: usize = 10;

#[allow(clippy::print_stdout, reason = "the times are its output")]
fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, program, kernels, rest @ ..] = &args[..] else {
        return Err("usage: steps MODEL forward|RULE direct|winograd [INPUTS] [ISA]".into());
    };
    let inputs: Option<usize> = rest.first().map(|inputs| inputs.parse()).transpose()?;
    let isa = rest.get(1);
    let mut options = Options {
        kernels: kernels.parse()?,
        ..Options::default()
    };
    if let Some(name) = isa {
        options.isa = Isa::named(name).ok_or_else(|| format!("this CPU has no `{name}`"))?;
    }
    let model = OnnxModel::read(model)?.specialise(&Specialisation::default())?;
    let classifier = Classifier::find(&model, model.outputs()[0]);
    let layers = path_layers(&model, &classifier, 1, &LayerOptions::default())?;
    let graph = match program.as_str() {
        "forward" => model,
        rule => {
            let rules = Rules::uniform(rule.parse()?);
            let view = NetworkView {
                graph: &model,
                classifier: &classifier,
                layers: &layers,
                batch: 1,
            };
            let outputs = ExplainOutputs {
                input: true,
                ..ExplainOutputs::default()
            };
            explain(&view, &Lrp { rules }, &outputs)?.graph
        }
    };
    let executor = Native::new(options).executor(&graph, KEEP_ALL)?;
    let together = executor.together().min(inputs.unwrap_or(usize::MAX));
    let sample: usize = executor.input_lens().iter().sum();
    let input: Vec<f32> = (0..together * sample)
        .map(|i| (i * 7919 % 1009) as f32 / 1009.0)
        .collect();
    let mut outputs: Vec<Vec<f32>> = executor
        .output_lens()
        .iter()
        .map(|len| vec![0.0; together * len])
        .collect();
    let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let mut worker = executor.lane_worker();
    let mut best = vec![f64::INFINITY; executor.steps().count()];
    let mut calls = vec![0; best.len()];
    for _ in 0..RUNS {
        let mut start = Instant::now();
        worker.run_timed(together, &[&input], &mut outputs, |step| {
            best[step] = best[step].min(start.elapsed().as_secs_f64());
            calls[step] += 1;
            start = Instant::now();
        })?;
    }
    // A step runs once for all inputs in lanes, or for some abreast, and once for each input by itself.
    let each = best.iter().zip(&calls);
    let each = each.map(|(best, calls)| 1e3 * best * f64::from(*calls) / (RUNS * together) as f64);
    for (name, milliseconds) in executor.steps().zip(each.clone()) {
        println!("{milliseconds:9.3}  {name}");
    }
    println!("{:9.3}", each.sum::<f64>());
    Ok(())
}
