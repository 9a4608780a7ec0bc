//! Times surprise by distance: the native side of `benches/criteria/dsa.py`.
//!
//! `cargo run --release -p npcov-criteria --example dsa_time -- FILE SCORES THREADS` fits the
//! criterion to the training traces of the file and measures its suite, a part in each thread. It
//! prints the seconds and writes the adequacies, as f64. The file has the length of a trace and the
//! numbers of training inputs and of inputs as u64, then for both their classes as u32 and traces
//! as f32, all in little-endian order.

use std::thread;
use std::time::Instant;

use npcov_criteria::{
    Batch, Column, CriterionError, LayerShape, NetworkShape, ScoresPart, State, Tap, TrainingTable,
    create,
};

type Error = Box<dyn std::error::Error>;

#[allow(clippy::print_stdout, reason = "the time is its output")]
fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, output, threads] = &args[..] else {
        return Err("usage: dsa_time FILE SCORES THREADS".into());
    };
    let threads: usize = threads.parse()?;
    let bytes = std::fs::read(file)?;
    let mut rest = &bytes[..];
    let lengths: Vec<usize> = take(&mut rest, 3, |n| u64::from_le_bytes(n) as usize)?;
    let [width, inputs, suite] = lengths[..] else {
        return Err("no lengths".into());
    };
    let training = TrainingTable {
        predictions: take(&mut rest, inputs, u32::from_le_bytes)?,
        neurons: width,
        activations: take(&mut rest, inputs * width, f32::from_le_bytes)?,
        ..TrainingTable::default()
    };
    let predictions: Vec<u32> = take(&mut rest, suite, u32::from_le_bytes)?;
    let traces: Vec<f32> = take(&mut rest, suite * width, f32::from_le_bytes)?;
    let classes = training
        .predictions
        .iter()
        .max()
        .map_or(0, |&class| class as usize + 1);
    let network = NetworkShape {
        sums: Vec::new(),
        layers: vec![LayerShape {
            neurons: width,
            units: width,
        }],
        classes,
        logits: classes,
        ..NetworkShape::default()
    };

    let start = Instant::now();
    let mut criterion = create(&"dsc".parse()?, &network)?;
    criterion.restore(criterion.fit(&training)?)?;
    let batch = Batch {
        predictions: &predictions,
        logits: Column::of(&[], 0),
        taps: vec![(Tap::activation(0), Column::of(&traces, width))],
        observations: &[],
        training: None,
    };
    let step = suite.div_ceil(threads.max(1)).max(1);
    let parts: Vec<Batch<'_>> = (0..suite)
        .step_by(step)
        .map(|first| batch.slice(first..(first + step).min(suite)))
        .collect();
    let measure = |part: &Batch<'_>| {
        let mut state = criterion.state();
        criterion.observe(part, &training, &mut state)?;
        Ok(state)
    };
    let states: Vec<Result<State, CriterionError>> = thread::scope(|scope| {
        let workers: Vec<_> = parts
            .iter()
            .map(|part| scope.spawn(|| measure(part)))
            .collect();
        let states = workers.into_iter().map(|worker| match worker.join() {
            Ok(state) => state,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        states.collect()
    });
    let mut all = criterion.state();
    for state in states {
        all.append(&state?)?;
    }
    let seconds = start.elapsed().as_secs_f64();

    let scores = all.get(ScoresPart("dsa"))?.iter();
    std::fs::write(
        output,
        scores.flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>(),
    )?;
    println!("{seconds}");
    Ok(())
}

/// The first numbers of what is left.
fn take<T, const N: usize>(
    rest: &mut &[u8],
    count: usize,
    number: fn([u8; N]) -> T,
) -> Result<Vec<T>, Error> {
    let bytes = rest.split_off(..count * N).ok_or("the file ends early")?;
    Ok(bytes.as_chunks().0.iter().map(|&n| number(n)).collect())
}
