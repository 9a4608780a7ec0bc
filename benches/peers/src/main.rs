//! Times the forward pass of rten and tract.
//!
//!     peers rten|tract MODEL INPUTS THREADS REPEATS BATCH:MODE...
//!
//! For every repeat of every `BATCH:MODE` one line with the setting and the
//! seconds that all inputs took is printed. Mode `inner` gives all threads to
//! one batch at a time, mode `outer` gives every thread its own batches.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rten::{Dimension, Model, RunOptions, ThreadPool};
use rten_tensor::{AsView, NdTensor};
use tract_linalg::multithread::{Executor, set_default_executor};
use tract_onnx::prelude::*;

type Failure = Box<dyn Error + Send + Sync>;

/// Channels, height and width of the model's images.
type ImageShape = [usize; 3];

/// Runs one batch.
type Forward = Arc<dyn Fn() -> Result<(), Failure> + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [peer, model, inputs, threads, repeats, settings @ ..] = arguments.as_slice() else {
        return Err("usage: peers rten|tract MODEL INPUTS THREADS REPEATS BATCH:MODE...".into());
    };
    let (inputs, threads, repeats): (usize, usize, usize) =
        (inputs.parse()?, threads.parse()?, repeats.parse()?);
    let shape = image_shape(model)?;
    for setting in settings {
        let (batch, mode) = setting.split_once(':').ok_or("a setting is BATCH:MODE")?;
        let batch: usize = batch.parse()?;
        let (outer, inner) = if mode == "outer" {
            (threads, 1)
        } else {
            (1, threads)
        };
        let forward = match peer.as_str() {
            "rten" => rten_forward(model, shape, batch, inner)?,
            "tract" => tract_forward(model, shape, batch, inner)?,
            _ => return Err(format!("unknown peer `{peer}`").into()),
        };
        for _ in 0..repeats {
            let seconds = time(&forward, inputs / batch, outer)?;
            println!("{setting} {seconds}");
        }
    }
    Ok(())
}

/// Seconds for `batches` calls shared by `workers` threads.
fn time(forward: &Forward, batches: usize, workers: usize) -> Result<f64, Failure> {
    let taken = AtomicUsize::new(0);
    let work = || -> Result<(), Failure> {
        while taken.fetch_add(1, Ordering::Relaxed) < batches {
            forward()?;
        }
        Ok(())
    };
    let start = Instant::now();
    thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        work()?;
        for other in others {
            other.join().map_err(|_| "a worker panicked")??;
        }
        Ok(start.elapsed().as_secs_f64())
    })
}

fn image_shape(model: &str) -> Result<ImageShape, Failure> {
    let dimensions = Model::load_file(model)?
        .input_shape(0)
        .ok_or("the model has no input")?;
    let sizes: Vec<usize> = dimensions
        .iter()
        .filter_map(|dimension| match dimension {
            Dimension::Fixed(size) => Some(*size),
            Dimension::Symbolic(_) => None,
        })
        .collect();
    sizes
        .try_into()
        .map_err(|_| "expected images with a symbolic batch".into())
}

/// Pixels between 0 and 1 that differ from image to image.
fn pixels(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (i * 7919 % 256) as f32 / 255.0)
        .collect()
}

fn rten_forward(
    model: &str,
    shape: ImageShape,
    batch: usize,
    threads: usize,
) -> Result<Forward, Failure> {
    let mut options = rten::ModelOptions::with_all_ops();
    options.prepack_weights(true);
    let model = options.load_file(model)?;
    let [channels, height, width] = shape;
    let sizes = [batch, channels, height, width];
    let images = NdTensor::from_data(sizes, pixels(sizes.iter().product()));
    let pool = Arc::new(ThreadPool::with_num_threads(threads));
    Ok(Arc::new(move || {
        let options = RunOptions::default().with_thread_pool(Some(pool.clone()));
        model.run_one(images.view().into(), Some(options))?;
        Ok(())
    }))
}

fn tract_forward(
    model: &str,
    shape: ImageShape,
    batch: usize,
    threads: usize,
) -> Result<Forward, Failure> {
    set_default_executor(match threads {
        1 => Executor::SingleThread,
        _ => Executor::multithread(threads),
    });
    let [channels, height, width] = shape;
    let sizes = [batch, channels, height, width];
    let plan = tract_onnx::onnx()
        .model_for_path(model)?
        .with_input_fact(0, f32::fact(sizes).into())?
        .into_optimized()?
        .into_runnable()?;
    let images = Tensor::from_shape(&sizes, &pixels(sizes.iter().product()))?;
    let images: TValue = images.into();
    Ok(Arc::new(move || {
        plan.run(tvec!(images.clone()))?;
        Ok(())
    }))
}
