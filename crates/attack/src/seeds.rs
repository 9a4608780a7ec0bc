//! The inputs that an attack starts from, and programs run at points near them.
//!
//! Points are made of pixels: stored numbers over `divide`, before `mean` and `std`. What the model
//! sees is made from them by way of the stored numbers, so that it is bit by bit what it will see
//! when these are read from a file.

use std::ops::Range;

use npcov_data::Loader;

use npcov_run::{RunError, Tracer};

use crate::error::AttackError;

/// The inputs that adversaries are sought of, all at once.
pub(crate) struct Seeds<'a> {
    pub(crate) data: &'a Loader<'a>,
    /// Their positions in the dataset.
    pub(crate) rows: &'a [usize],
    /// Classes that they are to be misclassified from.
    pub(crate) labels: Vec<f32>,
    /// Their pixels.
    pub(crate) original: Vec<f32>,
    /// The same as stored in the dataset.
    stored: Vec<f32>,
    threads: usize,
}

/// Fills a further input of a program, by its number, for the seed at a position.
pub(crate) type Further<'a> = dyn Fn(usize, usize, &mut [f32]) + Sync + 'a;

impl<'a> Seeds<'a> {
    /// Reads rows of a dataset. Pixels outside of `range` are an error.
    pub(crate) fn read(
        data: &'a Loader<'a>,
        rows: &'a [usize],
        range: (f32, f32),
        threads: usize,
    ) -> Result<Seeds<'a>, AttackError> {
        let mut stored = vec![0.0; rows.len() * data.sample_len()];
        // In the model's order, and checked to be numbers.
        read_stored(data, rows, &mut stored)?;
        let divisor = data.divisor();
        let original: Vec<f32> = stored.iter().map(|&s| s / divisor).collect();
        let outside = |&p: &f32| !(range.0..=range.1).contains(&p);
        if let Some(place) = original.iter().position(outside) {
            return Err(AttackError::OutOfRange {
                data: data.name().to_owned(),
                row: rows[place / data.sample_len()],
                number: original[place],
                low: range.0,
                high: range.1,
            });
        }
        Ok(Seeds {
            data,
            rows,
            labels: vec![0.0; rows.len()],
            original,
            stored,
            threads,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Numbers of a point.
    pub(crate) fn width(&self) -> usize {
        self.data.sample_len()
    }

    /// The stored numbers of a point of the seed at a position. A pixel that is the seed's has its
    /// number, which dividing and multiplying again need not give.
    pub(crate) fn store(&self, position: usize, point: &[f32], out: &mut [f32]) {
        let (width, divisor) = (self.width(), self.data.divisor());
        let seed = position * width..(position + 1) * width;
        let seed = self.original[seed.clone()].iter().zip(&self.stored[seed]);
        for ((out, &p), (&original, &stored)) in out.iter_mut().zip(point).zip(seed) {
            *out = if p == original { stored } else { p * divisor };
        }
    }

    /// Runs a program at the points of some positions, and hands its outputs on, position by
    /// position.
    pub(crate) fn run(
        &self,
        tracer: &Tracer,
        points: &[f32],
        positions: &[usize],
        further: &Further<'_>,
        mut sink: impl FnMut(usize, &[&[f32]]) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let width = self.width();
        let feed = |range: Range<usize>, inputs: &mut [&mut [f32]]| {
            let positions = &positions[range];
            let (own, others) = inputs.split_at_mut(self.data.inputs().min(inputs.len()));
            let rows: Vec<usize> = positions.iter().map(|&at| self.rows[at]).collect();
            read_others(self.data, &rows, own)?;
            let Some(samples) = own.get_mut(self.data.place()) else {
                return Ok(());
            };
            for (sample, &at) in samples.chunks_exact_mut(width).zip(positions) {
                self.store(at, &points[at * width..(at + 1) * width], sample);
            }
            self.data.normalise(samples);
            for (number, input) in others.iter_mut().enumerate() {
                let each = input.len() / positions.len().max(1);
                for (numbers, &at) in input.chunks_exact_mut(each.max(1)).zip(positions) {
                    further(number, at, numbers);
                }
            }
            Ok(())
        };
        let lens = tracer.output_lens();
        tracer.run_fed(&feed, 0..positions.len(), self.threads, |batch| {
            for (place, index) in batch.rows.clone().enumerate() {
                let outputs = batch.outputs.iter().zip(lens);
                let outputs: Vec<&[f32]> = outputs
                    .map(|(all, &len)| &all[place * len..(place + 1) * len])
                    .collect();
                sink(positions[index], &outputs)?;
            }
            Ok(())
        })
    }

    /// The logits at points of all seeds, handed on position by position.
    pub(crate) fn logits(
        &self,
        tracer: &Tracer,
        points: &[f32],
        mut sink: impl FnMut(usize, &[f32]),
    ) -> Result<(), RunError> {
        let all: Vec<usize> = (0..self.len()).collect();
        self.run(tracer, points, &all, &|_, _, _| {}, |at, outputs| {
            let logits = outputs.first().copied().unwrap_or_default();
            self.check(at, logits)?;
            sink(at, logits);
            Ok(())
        })
    }

    /// Logits that are no numbers are an error.
    pub(crate) fn check(&self, position: usize, logits: &[f32]) -> Result<(), RunError> {
        match logits.iter().all(|z| z.is_finite()) {
            true => Ok(()),
            false => Err(RunError::NotFinite {
                row: self.rows[position],
            }),
        }
    }
}

/// Rows of a dataset as they are stored.
fn read_stored(data: &Loader, rows: &[usize], mut out: &mut [f32]) -> Result<(), RunError> {
    for run in rows.chunk_by(|a, b| a + 1 == *b) {
        let (samples, rest) = out.split_at_mut(run.len() * data.sample_len());
        data.read_stored(run[0]..run[0] + run.len(), samples)?;
        out = rest;
    }
    Ok(())
}

/// Those inputs of a model that an attack leaves as they are.
fn read_others(data: &Loader, rows: &[usize], inputs: &mut [&mut [f32]]) -> Result<(), RunError> {
    if data.inputs() == 1 {
        return Ok(());
    }
    for (place, &row) in rows.iter().enumerate() {
        let mut parts: Vec<&mut [f32]> = Vec::with_capacity(inputs.len());
        for input in inputs.iter_mut() {
            let each = input.len() / rows.len().max(1);
            parts.push(&mut input[place * each..(place + 1) * each]);
        }
        data.read_others(row..row + 1, &mut parts)?;
    }
    Ok(())
}
