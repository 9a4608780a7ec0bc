//! Running a program over a dataset.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use npcov_data::Loader;
use npcov_engine::{Prepared, Worker};
use npcov_program::{Output, Program, Tap, known_tokens};

use crate::error::RunError;
use crate::memory::fitting;
use crate::network::Network;
use crate::paths::Extras;
use crate::signature::Signature;

/// Buffers in flight for each thread: one being filled, others waiting for their turn.
const BUFFERS_PER_THREAD: usize = 4;

/// A program, ready to run on the inputs of a dataset.
pub struct Tracer {
    prepared: Box<dyn Prepared>,
    outputs: Vec<Output>,
    /// Numbers that each input and each output of the program have for one input of the network.
    input_lens: Vec<usize>,
    output_lens: Vec<usize>,
    /// For each input of the program, how many tokens the model knows whose numbers it holds.
    tokens: Vec<Option<usize>>,
    /// What is shown while it is computed.
    shown: Vec<Tap>,
    signature: Signature,
}

/// Fills a buffer for each input of a program with the numbers of some rows, one after the other.
pub type Feed<'a> = dyn Fn(Range<usize>, &mut [&mut [f32]]) -> Result<(), RunError> + Sync + 'a;

/// Looks at what a program shows.
pub struct Watch<'a> {
    /// Inputs of a piece. No micro-batch has inputs of two pieces, which follow on each other from the
    /// first input on.
    pub piece: usize,
    /// Is called on the thread that computes.
    pub show: &'a (dyn Fn(ShownTap<'_>) + Sync),
}

impl Watch<'_> {
    /// At nothing.
    pub const NONE: Watch<'static> = Watch {
        piece: usize::MAX,
        show: &|_| {},
    };
}

/// A tap while it is computed.
pub struct ShownTap<'a> {
    /// Which.
    pub tap: Tap,
    /// Positions in the dataset of all inputs that are computed together.
    pub rows: Range<usize>,
    /// The numbers of some of those inputs. All have their turn, each once.
    pub numbers: npcov_tap::Shown<'a>,
}

/// The results of some inputs: one vector for each output of the program, inputs one after the other.
#[derive(Clone, Debug, Default)]
pub struct TracedRows {
    /// Positions in the dataset.
    pub rows: Range<usize>,
    /// For each output, `rows.len()` results.
    pub outputs: Vec<Vec<f32>>,
}

impl Tracer {
    /// A program that was made from a network.
    pub fn new(program: Program, network: &Network) -> Result<Tracer, RunError> {
        Tracer::showing(program, network, &Extras::default())
    }

    /// The same, where taps that `extras` want only watched are no results.
    pub fn showing(
        mut program: Program,
        network: &Network,
        extras: &Extras,
    ) -> Result<Tracer, RunError> {
        let (mut kept, mut results) = (Vec::new(), Vec::new());
        let (mut shown, mut passing) = (Vec::new(), Vec::new());
        for (&output, &value) in program.outputs.iter().zip(program.graph.outputs()) {
            if let Output::Tap(tap) = output
                && extras.watched.contains(&tap)
            {
                shown.push(tap);
                passing.push(value);
                if !extras.keep(tap) {
                    continue;
                }
            }
            kept.push(output);
            results.push(value);
        }
        program.graph.set_outputs([results, passing].concat());
        let inputs = program.graph.inputs().iter();
        let tokens = inputs.map(|&input| known_tokens(&program.graph, input));
        let tokens = tokens.collect();
        let prepared = network.engine().prepare(&program.graph, kept.len())?;
        let each = |len: &usize| len / network.batch();
        Ok(Tracer {
            input_lens: prepared.input_lens().iter().map(each).collect(),
            output_lens: prepared.output_lens().iter().map(each).collect(),
            prepared,
            outputs: kept,
            tokens,
            shown,
            signature: network.signature().clone(),
        })
    }

    /// What the network that the program was made from takes and gives.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// What each output is.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Numbers that each output has for one input.
    pub fn output_lens(&self) -> &[usize] {
        &self.output_lens
    }

    /// The shape that each output has for one input: that of the model's input for what belongs to
    /// its elements, else one axis.
    pub fn output_shapes(&self) -> Vec<Vec<usize>> {
        let outputs = self.outputs.iter().zip(&self.output_lens);
        outputs
            .map(|(output, &len)| match output {
                Output::InputRelevance(input) => self.signature.input_shape(*input).to_vec(),
                Output::InputGradient => self.signature.sample_shape().to_vec(),
                _ => vec![len],
            })
            .collect()
    }

    /// Number of inputs that are computed together.
    pub fn micro_batch(&self) -> usize {
        self.prepared.together() * self.signature.batch()
    }

    /// Runs the program on a range of a dataset, on up to `threads` threads, and hands the results to
    /// `sink` in the order of the dataset. The results are the same bits for any number of
    /// threads and any range. An error of the sink ends the run.
    pub fn run<E: From<RunError>>(
        &self,
        data: &Loader,
        range: Range<usize>,
        threads: usize,
        sink: impl FnMut(&TracedRows) -> Result<(), E>,
    ) -> Result<(), E> {
        self.run_watched(data, range, threads, &Watch::NONE, sink)
    }

    /// As [`run`](Tracer::run); what the program shows is watched.
    pub fn run_watched<E: From<RunError>>(
        &self,
        data: &Loader,
        range: Range<usize>,
        threads: usize,
        watch: &Watch<'_>,
        sink: impl FnMut(&TracedRows) -> Result<(), E>,
    ) -> Result<(), E> {
        let feed =
            |rows: Range<usize>, inputs: &mut [&mut [f32]]| Ok(data.read_inputs(rows, inputs)?);
        self.run_all(&feed, range, threads, watch, sink)
    }

    /// As [`run`](Tracer::run), on what `feed` provides instead of a dataset's rows.
    pub fn run_fed<E: From<RunError>>(
        &self,
        feed: &Feed<'_>,
        range: Range<usize>,
        threads: usize,
        sink: impl FnMut(&TracedRows) -> Result<(), E>,
    ) -> Result<(), E> {
        self.run_all(feed, range, threads, &Watch::NONE, sink)
    }

    fn run_all<E: From<RunError>>(
        &self,
        feed: &Feed<'_>,
        range: Range<usize>,
        threads: usize,
        watch: &Watch<'_>,
        mut sink: impl FnMut(&TracedRows) -> Result<(), E>,
    ) -> Result<(), E> {
        let least = self.prepared.least() * self.signature.batch();
        let count = range.len().div_ceil(least.max(1));
        let threads = fitting(threads.clamp(1, count.max(1)), self.prepared.worker_bytes());
        let (done, results) = mpsc::channel();
        let (free, buffers) = mpsc::channel();
        for _ in 0..threads * BUFFERS_PER_THREAD {
            // The receiver outlives the loop.
            let _ = free.send(TracedRows::default());
        }
        // The next position and a buffer are taken together, so that the results that are waited
        // for always have their buffers, and no thread runs far ahead.
        let queue = Mutex::new((range.start, buffers));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let done = done.clone();
                let (queue, stop, range) = (&queue, &stop, &range);
                let share = Share { least, threads };
                scope.spawn(move || self.work(feed, (range, share), watch, queue, &done, stop));
            }
            drop(done);
            let result = in_order(&results, &free, range.start, &mut sink);
            stop.store(true, Ordering::Relaxed);
            // Wakes the threads that wait for a buffer.
            drop(free);
            result
        })
    }

    /// One thread's work: micro-batches until there are no more.
    fn work(
        &self,
        feed: &Feed<'_>,
        (range, share): (&Range<usize>, Share),
        watch: &Watch<'_>,
        queue: &Mutex<(usize, Receiver<TracedRows>)>,
        done: &Sender<Result<TracedRows, RunError>>,
        stop: &AtomicBool,
    ) {
        let _alarm = Alarm(done);
        let mut worker = match self.prepared.worker() {
            Ok(worker) => worker,
            Err(error) => {
                // The run may have ended already.
                let _ = done.send(Err(error.into()));
                return;
            }
        };
        let mut inputs = Vec::new();
        loop {
            let mut batch = {
                let Ok(mut queue) = queue.lock() else { return };
                if queue.0 >= range.end || stop.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(mut batch) = queue.1.recv() else {
                    return;
                };
                let in_piece = (queue.0 - range.start) % watch.piece;
                let most = share.of(range.end - queue.0).min(self.micro_batch());
                let most = most.min(watch.piece - in_piece);
                batch.rows = queue.0..(queue.0 + most).min(range.end);
                queue.0 = batch.rows.end;
                batch
            };
            let result = self
                .compute(&mut *worker, feed, watch, &mut inputs, &mut batch)
                .map(|()| batch);
            if done.send(result).is_err() {
                return;
            }
        }
    }

    fn compute(
        &self,
        worker: &mut dyn Worker,
        feed: &Feed<'_>,
        watch: &Watch<'_>,
        inputs: &mut Vec<Vec<f32>>,
        batch: &mut TracedRows,
    ) -> Result<(), RunError> {
        let rows = batch.rows.len();
        // Models with a batch size of their own take whole batches: the last is filled up.
        let own = self.signature.batch();
        let sets = rows.div_ceil(own);
        let lens = &self.input_lens;
        inputs.resize_with(lens.len(), Vec::new);
        for (input, len) in inputs.iter_mut().zip(lens) {
            input.resize(sets * own * len, 0.0);
        }
        let slices = inputs.iter_mut().zip(lens);
        let mut slices: Vec<&mut [f32]> = slices.map(|(i, len)| &mut i[..rows * len]).collect();
        feed(batch.rows.clone(), &mut slices)?;
        for ((input, len), tokens) in slices.iter().zip(lens).zip(&self.tokens) {
            if let &Some(tokens) = tokens {
                check_tokens(input, *len, tokens, batch.rows.start)?;
            }
        }
        for (input, len) in inputs.iter_mut().zip(lens) {
            for row in rows..sets * own {
                input.copy_within(..*len, row * len);
            }
        }
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        batch.outputs.resize_with(self.outputs.len(), Vec::new);
        for (output, len) in batch.outputs.iter_mut().zip(self.prepared.output_lens()) {
            output.resize(sets * len, 0.0);
        }
        let mut outputs: Vec<&mut [f32]> =
            batch.outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let positions = batch.rows.clone();
        // Sets of inputs that each value was shown of already.
        let mut done = vec![0; self.shown.len()];
        let mut show = |number: usize, shown: npcov_tap::Shown<'_>| {
            let before = done[number];
            done[number] += shown.inputs();
            // The inputs of a set stand in it one after the other: the first of all sets, then the
            // second ones.
            let (numbers, stride) = (shown.places(), shown.stride());
            let len = shown.len() / own * stride;
            for (place, numbers) in numbers.chunks_exact(len.max(1)).enumerate() {
                let there = rows.saturating_sub(place).div_ceil(own);
                let inputs = there.saturating_sub(before).min(shown.inputs());
                (watch.show)(ShownTap {
                    tap: self.shown[number],
                    rows: positions.clone(),
                    numbers: npcov_tap::Shown::new(numbers, inputs, stride),
                });
            }
        };
        worker.run(sets, &inputs, &mut outputs, &mut show)?;
        for (output, len) in batch.outputs.iter_mut().zip(&self.output_lens) {
            output.truncate(rows * len);
        }
        Ok(())
    }
}

/// An error when a number is that of no token.
fn check_tokens(input: &[f32], len: usize, tokens: usize, first: usize) -> Result<(), RunError> {
    let is_token = |&x: &f32| x >= 0.0 && x < tokens as f32 && x.fract() == 0.0;
    match input.iter().position(|x| !is_token(x)) {
        None => Ok(()),
        Some(at) => Err(RunError::Token {
            row: first + at / len.max(1),
            position: at % len.max(1),
            id: input[at],
            tokens,
        }),
    }
}

/// How threads divide the last inputs of a range.
#[derive(Clone, Copy)]
struct Share {
    /// Inputs that take as long as one.
    least: usize,
    threads: usize,
}

impl Share {
    /// How many of so many inputs that are left a thread takes at most.
    fn of(self, left: usize) -> usize {
        left.div_ceil(self.threads)
            .next_multiple_of(self.least.max(1))
    }
}

/// Ends the run when the thread that holds it panics: its rows would be waited for by all others, forever.
/// The panic itself goes on where the threads are joined.
struct Alarm<'a>(&'a Sender<Result<TracedRows, RunError>>);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The run may have ended already.
            let _ = self.0.send(Err(RunError::Stopped));
        }
    }
}

/// Hands results on in the order of their rows, and their buffers back.
fn in_order<E: From<RunError>>(
    results: &Receiver<Result<TracedRows, RunError>>,
    free: &Sender<TracedRows>,
    mut next: usize,
    sink: &mut impl FnMut(&TracedRows) -> Result<(), E>,
) -> Result<(), E> {
    let mut waiting = BTreeMap::new();
    for result in results {
        let batch = result?;
        waiting.insert(batch.rows.start, batch);
        while let Some(batch) = waiting.remove(&next) {
            sink(&batch)?;
            next = batch.rows.end;
            // Nobody may be left who wants it.
            let _ = free.send(batch);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "../../engine/tests/one_by_one/mod.rs"]
mod one_by_one;

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use npcov_data::Preprocessing;
    use npcov_data::npz::{Compression, NpzWriter};
    use npcov_engine::Engine;
    use npcov_engine::native::Native;
    use npcov_graph::op::Unary;
    use npcov_graph::{DType, Data, Graph, OnnxModel, Op, Tensor, TensorType};
    use npcov_program::{Reduction, Side, trace};

    use super::one_by_one::OneByOne;
    use super::*;
    use crate::network::ModelOptions;

    const WIDTH: usize = 3;

    /// `relu(x) w`.
    fn model() -> OnnxModel {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, WIDTH]));
        let h = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
        let w = Data::F32(vec![1.0, -2.0, 0.5, 3.0, -1.0, 0.25]);
        let w = graph.add_constant("w", Tensor::new([WIDTH, 2], w).unwrap());
        let y = graph.push("dense", Op::MatMul, &[h, w]).unwrap();
        graph.set_outputs(vec![y]);
        OnnxModel::from_bytes(graph.to_onnx().unwrap()).unwrap()
    }

    #[test]
    fn threads_divide_the_last_inputs() {
        let of = |least, left| Share { least, threads: 2 }.of(left);
        assert_eq!([1, 2, 5, 8].map(|left| of(1, left)), [1, 1, 3, 4]);
        // Sixteen take as long as one.
        assert_eq!([1, 16, 33].map(|left| of(16, left)), [16, 16, 32]);
        // A model takes whole batches.
        assert_eq!([1, 3, 5].map(|left| of(2, left)), [2, 2, 4]);
    }

    /// A thread that panics ends the run, and the panic is not lost.
    #[test]
    fn a_panic_in_one_thread_ends_all() {
        for threads in [1, 2, 3] {
            let (done, ended) = std::sync::mpsc::channel();
            let run = move || {
                let network = Network::new(model(), &ModelOptions::default()).unwrap();
                let tracer = network.logits_tracer().unwrap();
                let feed = |rows: Range<usize>, inputs: &mut [&mut [f32]]| {
                    assert!(!rows.contains(&100), "row 100");
                    inputs.iter_mut().for_each(|input| input.fill(0.5));
                    Ok(())
                };
                let ran = std::panic::AssertUnwindSafe(|| {
                    tracer.run_fed(&feed, 0..10_000, threads, |_| Ok::<(), RunError>(()))
                });
                let panicked = std::panic::catch_unwind(ran).is_err();
                done.send(panicked).unwrap();
            };
            std::thread::spawn(run);
            let limit = std::time::Duration::from_secs(60);
            assert_eq!(ended.recv_timeout(limit), Ok(true), "{threads} threads");
        }
    }

    /// What is shown is what results would be: every input once, and none that fills up a set. Each
    /// piece has its own inputs, for any number of threads and of inputs in a set, and however many sets
    /// an engine shows at a time.
    #[test]
    fn every_input_is_shown_once() {
        const ROWS: usize = 150;
        const PIECE: usize = 40;
        let numbers: Vec<f32> = (0..ROWS * WIDTH).map(|i| i as f32 - 100.0).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.npz");
        let mut writer = NpzWriter::create(&path, Compression::Stored).unwrap();
        let x = writer.array::<f32>("x", &[WIDTH]).unwrap();
        writer.append(&x, &numbers).unwrap();
        writer.finish().unwrap();
        let native: Arc<dyn Engine> = Arc::new(Native::default());
        let other: Arc<dyn Engine> = Arc::new(OneByOne::default());
        for (engine, batch, threads) in [
            (&native, 1, 1),
            (&native, 1, 3),
            (&native, 3, 2),
            (&native, 7, 1),
            (&other, 1, 3),
            (&other, 3, 2),
            (&other, 7, 1),
        ] {
            let options = ModelOptions {
                batch: Some(batch),
                ..ModelOptions::default()
            };
            let network = Network::with_engine(model(), &options, engine.clone()).unwrap();
            assert_eq!(network.batch(), batch);
            let data = npcov_data::open(path.to_str().unwrap()).unwrap();
            let loader = Loader::new(data, network.sample_shape(), &Preprocessing::default());
            let loader = loader.unwrap();
            let side = |side| Tap {
                layer: 0,
                side,
                reduction: Reduction::Units,
            };
            let [before, after] = [side(Side::Before), side(Side::After)];
            let extras = Extras {
                taps: vec![after],
                watched: vec![before, after],
                importance: None,
            };
            let program = trace(&network.view(), &extras.all_taps()).unwrap();
            let tracer = Tracer::showing(program, &network, &extras).unwrap();
            // What is kept as well is a result all the same.
            let outputs = [
                Output::Logits,
                Output::Tap(Tap::activation(0)),
                Output::Tap(after),
            ];
            assert_eq!(tracer.outputs(), outputs);

            let first = 5;
            let seen: Mutex<Vec<(usize, Tap, Vec<f32>)>> = Mutex::default();
            let show = |shown: ShownTap<'_>| {
                let piece = (shown.rows.start - first) / PIECE;
                assert_eq!((shown.rows.end - 1 - first) / PIECE, piece);
                for lane in 0..shown.numbers.inputs() {
                    let positions = 0..shown.numbers.len();
                    let row = positions.map(|i| shown.numbers.position(i)[lane]);
                    let row = (piece, shown.tap, row.collect());
                    seen.lock().unwrap().push(row);
                }
            };
            let watch = Watch {
                piece: PIECE,
                show: &show,
            };
            let mut kept = Vec::new();
            let run = tracer.run_watched(&loader, first..ROWS, threads, &watch, |batch| {
                kept.extend_from_slice(&batch.outputs[2]);
                Ok::<(), RunError>(())
            });
            run.unwrap();
            let rectified: Vec<f32> = numbers.iter().map(|x| x.max(0.0)).collect();
            assert_eq!(kept, rectified[first * WIDTH..]);
            let seen = seen.into_inner().unwrap();
            for (tap, numbers) in [(before, &numbers), (after, &rectified)] {
                let mut found: Vec<_> = seen.iter().filter(|row| row.1 == tap).collect();
                found.sort_by(|a, b| (a.0, &a.2).partial_cmp(&(b.0, &b.2)).unwrap());
                let rows = numbers.chunks_exact(WIDTH).skip(first).enumerate();
                let expected: Vec<_> = rows
                    .map(|(i, row)| (i / PIECE, tap, row.to_vec()))
                    .collect();
                assert_eq!(found, expected.iter().collect::<Vec<_>>());
            }
        }
    }
}
