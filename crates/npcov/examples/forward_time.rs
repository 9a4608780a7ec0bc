//! Times the forward pass of a model: the native side of `make bench-peers`.
//!
//! `cargo run --release -p npcov --example forward_time -- MODEL INPUTS THREADS REPEATS` prints the
//! seconds of each repeat, one a line. Inputs are random and made beforehand; what is timed is
//! what the peers' timing contains as well: from numbers in memory to logits in memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use npcov::engine::{Executor, LANES};
use npcov::{Network, NetworkOptions};

#[allow(clippy::print_stdout, reason = "the times are its output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, inputs, threads, repeats] = &args[..] else {
        return Err("usage: forward_time MODEL INPUTS THREADS REPEATS".into());
    };
    let (inputs, threads, repeats): (usize, usize, usize) =
        (inputs.parse()?, threads.parse()?, repeats.parse()?);
    let network = Network::open(model, &NetworkOptions::default())?;
    let mut graph = network.graph().clone();
    graph.set_outputs(vec![network.classifier().logits]);
    let executor = Executor::new(&graph.pruned())?;
    let sample: usize = executor.input_lens().sum();
    let logits: usize = executor.output_lens().sum();
    let data: Vec<f32> = (0..inputs * sample)
        .map(|i| (i * 7919 % 1009) as f32 / 1009.0)
        .collect();
    let mut results = vec![0.0; inputs * logits];
    let mut workers: Vec<_> = (0..threads)
        .map(|_| executor.worker())
        .collect::<Result<_, _>>()?;
    for _ in 0..repeats {
        let start = Instant::now();
        let next = AtomicUsize::new(0);
        let chunks: Vec<_> = results
            .chunks_mut(LANES * logits)
            .map(std::sync::Mutex::new)
            .collect();
        std::thread::scope(|scope| {
            for worker in &mut workers {
                let (next, chunks, data) = (&next, &chunks, &data);
                scope.spawn(move || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(chunk) = chunks.get(at) else { break };
                        let mut output = chunk.lock().expect("no thread panics");
                        let count = output.len() / logits;
                        let input = &data[at * LANES * sample..][..count * sample];
                        worker
                            .run(count, &[input], &mut [&mut output[..]])
                            .expect("buffers fit");
                    }
                });
            }
        });
        println!("{}", start.elapsed().as_secs_f64());
    }
    Ok(())
}
