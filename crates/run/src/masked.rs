//! A network with neurons switched off, other ones for every input.

use std::ops::Range;

use npcov_data::Loader;
use npcov_paths::{PathLayout, bits};
use npcov_program::mask;

use crate::error::RunError;
use crate::network::Network;
use crate::progress::{Event, Progress};
use crate::signature::widened;
use crate::tracer::Tracer;

/// A network whose neurons can be switched off.
///
/// A neuron that is off gives 0, at every position of its feature map, and all path layers are
/// masked in the same pass: a layer sees what masks leave of those before it.
///
/// ```
/// use npcov_data::{Loader, Preprocessing, open};
/// use npcov_run::{MaskedNetwork, Network, ModelOptions};
///
/// # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
/// # let (model, data) = (format!("{fixtures}/lenet.onnx"), format!("{fixtures}/fashion-1000.npz"));
/// let network = Network::open(model, &ModelOptions::default())?;
/// let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
/// let loader = Loader::new(open(&data)?, network.sample_shape(), &scale)?;
///
/// let masked = MaskedNetwork::new(&network)?;
/// let rows: Vec<usize> = (0..1000).step_by(50).collect();
/// // Without any neuron, only biases are left: every input is taken for the same.
/// let everything = |_: usize, off: &mut [u64]| off.fill(u64::MAX);
/// let classes = masked.predict(&loader, &rows, &everything, 2, &mut ())?;
/// assert_eq!(classes, [classes[0]; 20]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MaskedNetwork {
    tracer: Tracer,
    layout: PathLayout,
}

impl MaskedNetwork {
    /// Prepares a network. One without path layers is an error.
    pub fn new(network: &Network) -> Result<MaskedNetwork, RunError> {
        network.require_layers()?;
        Ok(MaskedNetwork {
            tracer: Tracer::new(mask(&network.view())?, network)?,
            layout: PathLayout::new(
                network
                    .layers()
                    .iter()
                    .map(|l| l.neurons)
                    .collect::<Vec<_>>(),
            ),
        })
    }

    /// The path layers.
    pub fn layout(&self) -> &PathLayout {
        &self.layout
    }

    /// The classes predicted for some rows of a dataset, computed on `threads` threads.
    ///
    /// `off` is called with a position in `rows` and an empty set, and adds the neurons that are
    /// off for this input; threads call it in any order. `progress` is told how many inputs more
    /// are done. The classes do not depend on the number of threads.
    pub fn predict(
        &self,
        data: &Loader,
        rows: &[usize],
        off: &(dyn Fn(usize, &mut [u64]) + Sync),
        threads: usize,
        progress: &mut dyn Progress,
    ) -> Result<Vec<u32>, RunError> {
        let signature = self.tracer.signature();
        let mut classes = Vec::with_capacity(rows.len());
        let mut class = |logits: &[f32]| classes.push(signature.predict(logits) as u32);
        self.run(data, rows, off, threads, &mut class, progress)?;
        Ok(classes)
    }

    /// What the network gives for some rows of a dataset, as [`MaskedNetwork::predict`] says: one row of
    /// logits, or numbers, for each.
    pub fn outputs(
        &self,
        data: &Loader,
        rows: &[usize],
        off: &(dyn Fn(usize, &mut [u64]) + Sync),
        threads: usize,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Vec<f64>>, RunError> {
        let mut outputs = Vec::with_capacity(rows.len());
        let mut keep = |logits: &[f32]| outputs.push(widened(logits));
        self.run(data, rows, off, threads, &mut keep, progress)?;
        Ok(outputs)
    }

    /// Hands the logits of each row to `each`.
    fn run(
        &self,
        data: &Loader,
        rows: &[usize],
        off: &(dyn Fn(usize, &mut [u64]) + Sync),
        threads: usize,
        each: &mut dyn FnMut(&[f32]),
        progress: &mut dyn Progress,
    ) -> Result<(), RunError> {
        let feed = |positions: Range<usize>, inputs: &mut [&mut [f32]]| {
            let (samples, masks) = inputs.split_at_mut(data.inputs().min(inputs.len()));
            read_rows(data, &rows[positions.clone()], samples)?;
            let mut set = vec![0; self.layout.width()];
            for (place, position) in positions.enumerate() {
                set.fill(0);
                off(position, &mut set);
                for (layer, mask) in masks.iter_mut().enumerate() {
                    let neurons = self.layout.neurons(layer);
                    let mask = &mut mask[place * neurons..(place + 1) * neurons];
                    let set = self.layout.layer(&set, layer);
                    for (neuron, number) in mask.iter_mut().enumerate() {
                        *number = if bits::get(set, neuron) { 0.0 } else { 1.0 };
                    }
                }
            }
            Ok(())
        };
        let signature = self.tracer.signature();
        self.tracer.run_fed(&feed, 0..rows.len(), threads, |batch| {
            let logits = batch.outputs.first().map_or(&[][..], Vec::as_slice);
            let logits = logits.chunks_exact(signature.logits().max(1));
            for (position, logits) in batch.rows.clone().zip(logits) {
                if !logits.iter().all(|z| z.is_finite()) {
                    let row = rows[position];
                    return Err(RunError::NotFinite { row });
                }
                each(logits);
            }
            progress.tell(Event::Finished(batch.rows.len()))?;
            Ok(())
        })
    }
}

/// Reads rows of a dataset for all inputs of a model, neighbours together.
pub fn read_rows(data: &Loader, rows: &[usize], inputs: &mut [&mut [f32]]) -> Result<(), RunError> {
    let mut done = 0;
    for run in rows.chunk_by(|a, b| a + 1 == *b) {
        let mut parts: Vec<&mut [f32]> = Vec::with_capacity(inputs.len());
        for input in inputs.iter_mut() {
            let each = input.len() / rows.len().max(1);
            parts.push(&mut input[done * each..(done + run.len()) * each]);
        }
        data.read_inputs(run[0]..run[0] + run.len(), &mut parts)?;
        done += run.len();
    }
    Ok(())
}
