//! Times a program on a model: the native side of `make bench-peers`.
//!
//! `cargo run --release -p npcov --example program_time -- MODEL PROGRAM INPUTS THREADS REPEATS [TOGETHER]`
//! prints the seconds of each repeat, one a line. PROGRAM is `forward`, for the logits, or a rule,
//! for the relevances of all path layers and of the input. Inputs are random and made beforehand;
//! what is timed is what the peers' timing contains as well: from numbers in memory to results in
//! memory. TOGETHER is how many inputs a thread takes at a time, as many as the engine likes by default.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use npcov::engine::KEEP_ALL;
use npcov::program::{ExplainOutputs, Lrp, NetworkView, Rules, explain, trace};
use npcov::run::{ModelOptions, Network};

#[allow(clippy::print_stdout, reason = "the times are its output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, program, inputs, threads, repeats, together @ ..] = &args[..] else {
        return Err("usage: program_time MODEL PROGRAM INPUTS THREADS REPEATS [TOGETHER]".into());
    };
    let (inputs, threads, repeats): (usize, usize, usize) =
        (inputs.parse()?, threads.parse()?, repeats.parse()?);
    let network = Network::open(model, &ModelOptions::default())?;
    let program = match program.as_str() {
        "forward" => {
            let view = NetworkView {
                layers: &[],
                ..network.view()
            };
            trace(&view, &[])?
        }
        rule => {
            let rules = Rules::uniform(rule.parse()?);
            let options = ExplainOutputs {
                input: true,
                ..ExplainOutputs::default()
            };
            explain(&network.view(), &Lrp { rules }, &options)?
        }
    };
    let prepared = network.engine().prepare(&program.graph, KEEP_ALL)?;
    let together = match together.first() {
        Some(together) => prepared.together().min(together.parse()?),
        None => prepared.together(),
    };
    let sample: usize = prepared.input_lens().iter().sum();
    let lens = prepared.output_lens();
    let data: Vec<f32> = (0..inputs * sample)
        .map(|i| (i * 7919 % 1009) as f32 / 1009.0)
        .collect();
    let mut workers: Vec<_> = (0..threads)
        .map(|_| prepared.worker())
        .collect::<Result<_, _>>()?;
    for _ in 0..repeats {
        let start = Instant::now();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for worker in &mut workers {
                let (next, data) = (&next, &data);
                scope.spawn(move || {
                    let mut results: Vec<Vec<f32>> =
                        lens.iter().map(|len| vec![0.0; together * len]).collect();
                    loop {
                        let start = next.fetch_add(together, Ordering::Relaxed);
                        let count = inputs.saturating_sub(start).min(together);
                        if count == 0 {
                            break;
                        }
                        let mut outputs: Vec<&mut [f32]> = results
                            .iter_mut()
                            .zip(lens)
                            .map(|(result, len)| &mut result[..count * len])
                            .collect();
                        let input = &data[start * sample..][..count * sample];
                        worker
                            .run(count, &[input], &mut outputs, &mut |_, _| {})
                            .expect("buffers fit");
                    }
                });
            }
        });
        println!("{}", start.elapsed().as_secs_f64());
    }
    Ok(())
}
