//! Times what tells where inputs belong and how usual they are, beside measuring them: the native side
//! of `benches/scores/run.py`.
//!
//! `cargo run --release -p npcov --example score_time -- GRAPH DATA INPUTS` prints seconds of CPU time, of
//! one thread: for SNPC alone (paths and what they cover), and for clusters and scores on top. CPU time
//! does not depend on what else the machine does. Linux only: the kernel is asked for it.

use npcov::CoverOptions;
use npcov::DecisionGraph;
use npcov::run::{PathRows, SHARD};

#[allow(clippy::print_stdout, reason = "the times are its output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [graph, data, inputs] = &args[..] else {
        return Err("usage: score_time GRAPH DATA INPUTS".into());
    };
    let graph = DecisionGraph::open(graph)?.with_threads(1);
    let data = graph.loader(npcov::data::open(data)?)?;
    let inputs = data.len().min(inputs.parse()?);
    let options = CoverOptions {
        criteria: Some(vec!["snpc".parse()?]),
        ..CoverOptions::default()
    };
    let measurement = graph.learnt().measurement(&options)?;
    let file = graph.learnt().file();
    let extractor = graph.learnt().extractor()?;
    let observer = measurement.observer(&[]);
    let (mut covering, mut scoring) = (0.0, 0.0);
    for start in (0..inputs).step_by(SHARD) {
        let before = cpu_seconds()?;
        let mut shard = PathRows::empty(start);
        extractor.run(&data, start..inputs.min(start + SHARD), 1, |rows| {
            shard.append(rows);
            Ok::<(), npcov::Error>(())
        })?;
        let seen: Vec<_> = (0..shard.rows.len()).map(|i| shard.input(i)).collect();
        let observations = observer.observe_all(&seen, file)?;
        let batch = measurement.batch(&shard, &observations);
        for member in measurement.criteria().members() {
            member.criterion.slots_of_each(&batch, file)?;
        }
        let between = cpu_seconds()?;
        measurement.scores(&shard, 1)?;
        covering += between - before;
        scoring += cpu_seconds()? - between;
    }
    println!("{covering} {scoring}");
    Ok(())
}

/// CPU time of the process.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which is in brackets: user and system time are the 12th and 13th, in hundredths.
    let (_, fields) = text.rsplit_once(')').ok_or("no name")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Result<Vec<f64>, _> = ticks.map(str::parse).collect();
    Ok(ticks?.iter().sum::<f64>() / 100.0)
}
