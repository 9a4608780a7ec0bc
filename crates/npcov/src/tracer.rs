//! Running a program over a dataset.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use npcov_data::Loader;
use npcov_engine::{Executor, LANES, Options, Worker};
use npcov_program::{Output, Program};

use crate::error::Error;
use crate::network::Network;
use crate::signature::Signature;

/// Buffers in flight for each thread: one being filled, others waiting for their turn.
const BUFFERS_PER_THREAD: usize = 4;

/// A program, ready to run on the inputs of a dataset.
pub struct Tracer {
    executor: Executor,
    outputs: Vec<Output>,
    signature: Signature,
}

/// Fills a buffer for each input of a program with the numbers of some rows, one after the other.
pub(crate) type Feed<'a> = dyn Fn(Range<usize>, &mut [&mut [f32]]) -> Result<(), Error> + Sync + 'a;

/// The results of some inputs: one vector for each output of the program, inputs one after the other.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Positions in the dataset.
    pub rows: Range<usize>,
    /// For each output, `rows.len()` results.
    pub outputs: Vec<Vec<f32>>,
}

impl Tracer {
    /// A program that was made from a network.
    pub(crate) fn new(program: Program, network: &Network) -> Result<Tracer, Error> {
        let options = Options {
            kernels: network.kernels(),
            ..Options::default()
        };
        Ok(Tracer {
            executor: Executor::with_options(&program.graph, options)?,
            outputs: program.outputs,
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
    pub fn output_lens(&self) -> Vec<usize> {
        self.executor
            .output_lens()
            .map(|len| len / self.signature.batch())
            .collect()
    }

    /// The shape that each output has for one input: that of the model's input for what belongs to
    /// its elements, else one axis.
    pub fn output_shapes(&self) -> Vec<Vec<usize>> {
        let outputs = self.outputs.iter().zip(self.output_lens());
        outputs
            .map(|(output, len)| match output {
                Output::InputRelevance | Output::InputGradient => {
                    self.signature.sample_shape().to_vec()
                }
                _ => vec![len],
            })
            .collect()
    }

    /// Bytes of memory that `threads` threads will need.
    pub fn bytes(&self, threads: usize) -> usize {
        threads * self.executor.worker_bytes()
    }

    /// Number of inputs that are computed together.
    pub fn micro_batch(&self) -> usize {
        LANES * self.signature.batch()
    }

    /// Runs the program on a range of a dataset, on `threads` threads, and hands the results to
    /// `sink` in the order of the dataset. The results are the same bits for any number of
    /// threads and any range. An error of the sink ends the run.
    pub fn run<E: From<Error>>(
        &self,
        data: &Loader,
        range: Range<usize>,
        threads: usize,
        sink: impl FnMut(&Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let feed = |rows: Range<usize>, inputs: &mut [&mut [f32]]| match inputs {
            [samples, ..] => Ok(data.read(rows, samples)?),
            [] => Ok(()),
        };
        self.run_fed(&feed, range, threads, sink)
    }

    /// As [`run`](Tracer::run), on what `feed` provides instead of a dataset's rows.
    pub(crate) fn run_fed<E: From<Error>>(
        &self,
        feed: &Feed<'_>,
        range: Range<usize>,
        threads: usize,
        mut sink: impl FnMut(&Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let count = range.len().div_ceil(self.micro_batch());
        let threads = threads.clamp(1, count.max(1));
        let (done, results) = mpsc::channel();
        let (free, buffers) = mpsc::channel();
        for _ in 0..threads * BUFFERS_PER_THREAD {
            // The receiver outlives the loop.
            let _ = free.send(Batch::default());
        }
        // The next position and a buffer are taken together, so that the results that are waited
        // for always have their buffers, and no thread runs far ahead.
        let queue = Mutex::new((range.start, buffers));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let done = done.clone();
                let (queue, stop, range) = (&queue, &stop, &range);
                scope.spawn(move || self.work(feed, range.end, queue, &done, stop));
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
        end: usize,
        queue: &Mutex<(usize, Receiver<Batch>)>,
        done: &Sender<Result<Batch, Error>>,
        stop: &AtomicBool,
    ) {
        let mut worker = match self.executor.worker() {
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
                if queue.0 >= end || stop.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(mut batch) = queue.1.recv() else {
                    return;
                };
                batch.rows = queue.0..(queue.0 + self.micro_batch()).min(end);
                queue.0 = batch.rows.end;
                batch
            };
            let result = self
                .compute(&mut worker, feed, &mut inputs, &mut batch)
                .map(|()| batch);
            if done.send(result).is_err() {
                return;
            }
        }
    }

    fn compute(
        &self,
        worker: &mut Worker,
        feed: &Feed<'_>,
        inputs: &mut Vec<Vec<f32>>,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let rows = batch.rows.len();
        // Models with a batch size of their own take whole batches: the last is filled up.
        let lanes = rows.div_ceil(self.signature.batch());
        let lens: Vec<usize> = self
            .executor
            .input_lens()
            .map(|len| len / self.signature.batch())
            .collect();
        inputs.resize_with(lens.len(), Vec::new);
        for (input, len) in inputs.iter_mut().zip(&lens) {
            input.resize(lanes * self.signature.batch() * len, 0.0);
        }
        let slices = inputs.iter_mut().zip(&lens);
        let mut slices: Vec<&mut [f32]> = slices.map(|(i, len)| &mut i[..rows * len]).collect();
        feed(batch.rows.clone(), &mut slices)?;
        for (input, len) in inputs.iter_mut().zip(&lens) {
            for row in rows..lanes * self.signature.batch() {
                input.copy_within(..*len, row * len);
            }
        }
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        batch.outputs.resize_with(self.outputs.len(), Vec::new);
        for (output, len) in batch.outputs.iter_mut().zip(self.executor.output_lens()) {
            output.resize(lanes * len, 0.0);
        }
        let mut outputs: Vec<&mut [f32]> =
            batch.outputs.iter_mut().map(Vec::as_mut_slice).collect();
        worker.run(lanes, &inputs, &mut outputs)?;
        for (output, len) in batch.outputs.iter_mut().zip(self.output_lens()) {
            output.truncate(rows * len);
        }
        Ok(())
    }
}

/// Hands results on in the order of their rows, and their buffers back.
fn in_order<E: From<Error>>(
    results: &Receiver<Result<Batch, Error>>,
    free: &Sender<Batch>,
    mut next: usize,
    sink: &mut impl FnMut(&Batch) -> Result<(), E>,
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
