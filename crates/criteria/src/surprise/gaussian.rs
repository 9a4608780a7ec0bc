//! The Gaussian of each class: which neurons take part, their means, and what makes traces white.
//!
//! Neurons that hardly vary say nothing and make a covariance singular. Options of both adequacies
//! that use this: `min-variance` (1e-5), below which the (population) variance of a neuron's
//! activations over a class leaves it out; `columns`, which says whether out of all classes
//! (`global`, the default, as SADL does) or only out of that one (`per-class`); `most` (1000), how
//! many neurons are kept at most, those with the highest variance: over all training inputs with
//! `global`, over the class with `per-class`. A class with fewer than two training inputs has no
//! covariance; it has no Gaussian, and no say in the neurons of the other classes.

use std::ops::Range;
use std::slice::Chunks;

use crate::error::CriterionError;
use crate::fit::{Fit, FitNumbers};
use crate::spec::Options;
use crate::training::{Training, read_blocks, read_blocks_of};

use super::linear::{Whitening, row};
use super::product;

/// Traces that are worked on at a time. The same number always, lest bits depend on how many
/// there are.
pub(super) const BLOCK: usize = 128;

/// Numbers that may be held at a time for many classes: 128 MB.
const HELD: usize = 1 << 24;

/// Numbers that may be stored of all covariances: 2 GB.
const STORED: usize = 1 << 28;

/// Which neurons take part.
#[derive(Clone, Copy, Debug)]
pub(super) struct NeuronFilter {
    min_variance: f64,
    most: usize,
    per_class: bool,
}

impl NeuronFilter {
    pub(super) fn read(options: &mut Options<'_>) -> Result<NeuronFilter, CriterionError> {
        let wanted = "a number from 0";
        let positive = |x: f64| x >= 0.0 && x.is_finite();
        Ok(NeuronFilter {
            min_variance: options.number("min-variance", 1e-5, positive, wanted)?,
            most: options.whole("most", 1000, 1..=100_000)?,
            per_class: options.word("columns", &[("global", false), ("per-class", true)])?,
        })
    }

    pub(super) fn text(&self) -> String {
        let columns = match self.per_class {
            true => "per-class",
            false => "global",
        };
        format!(
            ":columns={columns}:min-variance={}:most={}",
            self.min_variance, self.most
        )
    }

    /// The neurons of each class.
    fn columns(&self, moments: &[Moments]) -> Vec<Vec<u32>> {
        let take_part: Vec<&Moments> = moments.iter().filter(|m| m.count >= 2).collect();
        // Written so that NaN is left out.
        let varies = |m: &Moments, i: usize| m.variance(i) >= self.min_variance;
        let in_all: Vec<u32> = match (self.per_class, take_part.first()) {
            (false, Some(first)) => {
                let all = |&i: &u32| take_part.iter().all(|m| varies(m, i as usize));
                let columns = (0..first.mean.len() as u32).filter(all).collect();
                self.highest(columns, &Moments::together(moments))
            }
            _ => Vec::new(),
        };
        let class = |m: &Moments| match (m.count >= 2, self.per_class) {
            (false, _) => Vec::new(),
            (true, false) => in_all.clone(),
            (true, true) => {
                let columns = (0..m.mean.len() as u32).filter(|&i| varies(m, i as usize));
                self.highest(columns.collect(), m)
            }
        };
        moments.iter().map(class).collect()
    }

    /// At most so many, those of the highest variance; of equal ones the first.
    fn highest(&self, mut columns: Vec<u32>, moments: &Moments) -> Vec<u32> {
        let variance = |i: u32| moments.variance(i as usize);
        columns.sort_by(|&a, &b| variance(b).total_cmp(&variance(a)).then(a.cmp(&b)));
        columns.truncate(self.most);
        columns.sort_unstable();
        columns
    }
}

/// Mean and sum of squared deviations of each neuron, input by input (Welford).
#[derive(Clone, Debug)]
struct Moments {
    count: usize,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    fn new(width: usize) -> Moments {
        Moments {
            count: 0,
            mean: vec![0.0; width],
            squares: vec![0.0; width],
        }
    }

    fn add(&mut self, trace: &[f32]) {
        self.count += 1;
        let part = 1.0 / self.count as f64;
        for ((mean, squares), &x) in self.mean.iter_mut().zip(&mut self.squares).zip(trace) {
            let before = f64::from(x) - *mean;
            *mean += before * part;
            *squares += before * (f64::from(x) - *mean);
        }
    }

    fn variance(&self, neuron: usize) -> f64 {
        self.squares[neuron] / self.count as f64
    }

    /// Those of all classes together.
    fn together(classes: &[Moments]) -> Moments {
        let width = classes.first().map_or(0, |m| m.mean.len());
        let mut all = Moments::new(width);
        for class in classes.iter().filter(|class| class.count > 0) {
            let (a, b) = (all.count as f64, class.count as f64);
            for i in 0..width {
                let apart = class.mean[i] - all.mean[i];
                all.mean[i] += apart * b / (a + b);
                all.squares[i] += class.squares[i] + apart * apart * a * b / (a + b);
            }
            all.count += class.count;
        }
        all
    }
}

/// The training inputs of a class as a Gaussian.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Gaussian {
    /// Training inputs.
    pub(super) samples: usize,
    /// The neurons that take part.
    columns: Vec<u32>,
    mean: Vec<f64>,
    /// `None` where there is no Gaussian.
    pub(super) whitening: Option<Whitening>,
}

impl Gaussian {
    /// Numbers of a trace that take part.
    pub(super) fn width(&self) -> usize {
        self.columns.len()
    }

    /// A trace without the mean.
    pub(super) fn centre(&self, trace: &[f32], out: &mut [f64]) {
        let places = self.columns.iter().zip(&self.mean);
        for (out, (&column, mean)) in out.iter_mut().zip(places) {
            *out = f64::from(trace[column as usize]) - mean;
        }
    }
}

/// The Gaussians of all classes.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaussians {
    pub(super) classes: Vec<Gaussian>,
    neurons: Range<usize>,
    /// Whether there is one for all inputs.
    single: bool,
}

impl Gaussians {
    /// Not fitted yet; of each class, or a single one of all inputs.
    pub(super) fn new(neurons: Range<usize>, classes: usize, single: bool) -> Gaussians {
        Gaussians {
            classes: vec![Gaussian::default(); if single { 1 } else { classes }],
            neurons,
            single,
        }
    }

    /// The class that counts for an input; it need not have a Gaussian, or even exist.
    pub(super) fn class(&self, prediction: u32) -> usize {
        match self.single {
            true => 0,
            false => prediction as usize,
        }
    }

    /// Learns them. `scale` gives, for the number of inputs and neurons, what the sum of squared
    /// deviations is multiplied with to be the covariance.
    pub(super) fn fit(
        mut self,
        training: &dyn Training,
        filter: &NeuronFilter,
        scale: impl Fn(f64, f64) -> f64,
    ) -> Result<Gaussians, CriterionError> {
        let width = self.neurons.len();
        let mut moments = vec![Moments::new(width); self.classes.len()];
        read_blocks(training, self.neurons.clone(), |inputs, rows| {
            for (input, trace) in inputs.zip(rows.chunks_exact(width.max(1))) {
                let class = self.class(training.prediction(input));
                if let Some(moments) = moments.get_mut(class) {
                    moments.add(trace);
                }
            }
        })?;
        let columns = filter.columns(&moments);
        if columns.iter().all(Vec::is_empty) {
            return Err(CriterionError::Fit {
                criterion: "a Gaussian".to_owned(),
                reason:
                    "no neuron of the layer varies enough in every class; `columns=per-class`, \
                         another `layer` or a smaller `min-variance` finds some"
                        .to_owned(),
            });
        }
        for ((gaussian, columns), moments) in self.classes.iter_mut().zip(columns).zip(&moments) {
            let mean = |&column: &u32| moments.mean[column as usize];
            *gaussian = Gaussian {
                samples: moments.count,
                mean: columns.iter().map(mean).collect(),
                columns,
                whitening: None,
            };
        }
        drop(moments);
        let pairs = |gaussian: &Gaussian| gaussian.width() * (gaussian.width() + 1) / 2;
        let stored: usize = self.classes.iter().map(pairs).sum();
        if stored > STORED {
            return Err(CriterionError::Fit {
                criterion: "a Gaussian".to_owned(),
                reason: format!(
                    "the covariances of its classes take {} GB; `most` keeps fewer neurons",
                    (stored * size_of::<f64>()).div_ceil(1 << 30)
                ),
            });
        }

        let fitting: Vec<usize> = self.with(|gaussian| gaussian.width() > 0);
        for classes in self.portions(&fitting, |width| width * width) {
            let mut scatters: Vec<Vec<f64>> = vec![Vec::new(); self.classes.len()];
            for &class in classes {
                scatters[class] = vec![0.0; self.classes[class].width().pow(2)];
            }
            self.stream(training, classes, |class, _, rows| {
                let width = self.classes[class].width();
                product::add_squares(rows, width, &mut scatters[class]);
            })?;
            for &class in classes {
                let gaussian = &mut self.classes[class];
                let width = gaussian.width();
                let scale = scale(gaussian.samples as f64, width as f64);
                let covariance: Vec<f64> = scatters[class].iter().map(|x| x * scale).collect();
                gaussian.whitening = Whitening::of(&covariance, width);
            }
        }
        Ok(self)
    }

    /// The classes of which something holds.
    pub(super) fn with(&self, holds: impl Fn(&Gaussian) -> bool) -> Vec<usize> {
        let classes = self.classes.iter().enumerate();
        classes
            .filter(|(_, gaussian)| holds(gaussian))
            .map(|(class, _)| class)
            .collect()
    }

    /// Classes in portions for which what is held of each class fits into memory.
    fn portions<'c>(
        &self,
        classes: &'c [usize],
        held: impl Fn(usize) -> usize,
    ) -> Chunks<'c, usize> {
        let widths = classes.iter().map(|&class| self.classes[class].width());
        let most = widths.max().map_or(1, held).max(1);
        classes.chunks((HELD / most).max(1))
    }

    /// Hands on the training traces of some classes, centred, in blocks of one class with their
    /// positions: [`BLOCK`] of them in ascending order, the last block of a class padded with
    /// zeros.
    pub(super) fn stream(
        &self,
        training: &dyn Training,
        classes: &[usize],
        on: impl FnMut(usize, &[usize], &[f64]),
    ) -> Result<(), CriterionError> {
        self.stream_of(training, 0..training.inputs(), classes, on)
    }

    /// The same for some training inputs.
    pub(super) fn stream_of(
        &self,
        training: &dyn Training,
        inputs: Range<usize>,
        classes: &[usize],
        mut on: impl FnMut(usize, &[usize], &[f64]),
    ) -> Result<(), CriterionError> {
        let width = self.neurons.len();
        for classes in self.portions(classes, |width| BLOCK * width) {
            let mut held: Vec<Option<(Vec<usize>, Vec<f64>)>> = vec![None; self.classes.len()];
            for &class in classes {
                let rows = vec![0.0; BLOCK * self.classes[class].width()];
                held[class] = Some((Vec::with_capacity(BLOCK), rows));
            }
            let neurons = self.neurons.clone();
            read_blocks_of(training, inputs.clone(), neurons, |inputs, rows| {
                for (input, trace) in inputs.zip(rows.chunks_exact(width.max(1))) {
                    let class = self.class(training.prediction(input));
                    let Some(Some((held, rows))) = held.get_mut(class) else {
                        continue;
                    };
                    let gaussian = &self.classes[class];
                    let start = held.len() * gaussian.width();
                    gaussian.centre(trace, &mut rows[start..start + gaussian.width()]);
                    held.push(input);
                    if held.len() == BLOCK {
                        on(class, held, rows);
                        held.clear();
                        rows.fill(0.0);
                    }
                }
            })?;
            for (class, held) in held.iter().enumerate() {
                match held {
                    Some((held, rows)) if !held.is_empty() => on(class, held, rows),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// As arrays.
    pub(super) fn store(&self) -> Fit {
        let mut fit = Fit::default();
        let whitenings = || self.classes.iter().map(|class| class.whitening.as_ref());
        let by_class = |number: fn(&Whitening) -> f64| {
            let number = |whitening: Option<&Whitening>| whitening.map_or(0.0, number);
            FitNumbers::F64(whitenings().map(number).collect())
        };
        let whole = |number: fn(&Gaussian) -> usize| {
            let number = |gaussian| number(gaussian) as u32;
            FitNumbers::U32(self.classes.iter().map(number).collect())
        };
        // Classes without a Gaussian have no neurons.
        let fitted = || self.classes.iter().filter(|c| c.whitening.is_some());
        let columns = fitted().flat_map(|c| &c.columns).copied().collect();
        let mean = fitted().flat_map(|c| &c.mean).copied().collect();
        let triangles = whitenings().flatten().flat_map(|w| &w.triangle);
        let arrays = [
            ("samples", whole(|class| class.samples)),
            ("widths", whole(Gaussian::fitted_width)),
            ("columns", FitNumbers::U32(columns)),
            ("mean", FitNumbers::F64(mean)),
            ("whitening", FitNumbers::F64(triangles.copied().collect())),
            ("log-root", by_class(|whitening| whitening.log_root)),
            ("ridge", by_class(|whitening| whitening.ridge)),
        ];
        for (name, numbers) in arrays {
            fit.insert(name, &[numbers.len()], numbers);
        }
        fit
    }

    /// From arrays.
    pub(super) fn restore(mut self, fit: &Fit, criterion: &str) -> Result<Self, CriterionError> {
        let damaged = |reason: &str| CriterionError::Damaged {
            criterion: criterion.to_owned(),
            reason: reason.to_owned(),
        };
        let classes = self.classes.len();
        let samples = fit.u32(criterion, "samples", classes)?;
        let widths = fit.u32(criterion, "widths", classes)?;
        let log_roots = fit.f64(criterion, "log-root", classes)?;
        let ridges = fit.f64(criterion, "ridge", classes)?;
        if widths.iter().any(|&w| w as usize > self.neurons.len()) {
            return Err(damaged("there are more columns than neurons"));
        }
        let numbers = widths.iter().map(|&width| width as usize).sum();
        let triangles = widths.iter().map(|&width| row(width as usize)).sum();
        let mut columns = fit.u32(criterion, "columns", numbers)?;
        let mut means = fit.f64(criterion, "mean", numbers)?;
        let mut whitening = fit.f64(criterion, "whitening", triangles)?;
        for (class, gaussian) in self.classes.iter_mut().enumerate() {
            let width = widths[class] as usize;
            let own = take(&mut columns, width);
            let ascending = own.is_sorted_by(|a, b| a < b);
            if !ascending
                || own
                    .last()
                    .is_some_and(|&c| c as usize >= self.neurons.len())
            {
                return Err(damaged("columns are not those of neurons"));
            }
            let triangle = take(&mut whitening, row(width)).to_vec();
            *gaussian = Gaussian {
                samples: samples[class] as usize,
                columns: own.to_vec(),
                mean: take(&mut means, width).to_vec(),
                whitening: (width > 0).then_some(Whitening {
                    triangle,
                    log_root: log_roots[class],
                    ridge: ridges[class],
                }),
            };
        }
        Ok(self)
    }
}

impl Gaussian {
    fn fitted_width(&self) -> usize {
        match self.whitening {
            Some(_) => self.width(),
            None => 0,
        }
    }
}

fn take<'a, T>(rest: &mut &'a [T], len: usize) -> &'a [T] {
    let (taken, left) = rest.split_at(len);
    *rest = left;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::TrainingTable;

    fn filter(per_class: bool, most: usize) -> NeuronFilter {
        NeuronFilter {
            min_variance: 1e-5,
            most,
            per_class,
        }
    }

    /// Three neurons: the first is constant in class 1, the third varies most. Class 2 has a
    /// single input.
    fn training() -> TrainingTable {
        TrainingTable {
            predictions: vec![0, 1, 0, 1, 2],
            neurons: 3,
            activations: vec![
                0.0, 1.0, 5.0, //
                3.0, 2.0, 1.0, //
                1.0, 3.0, 2.0, //
                3.0, 4.0, 9.0, //
                7.0, 7.0, 7.0,
            ],
            ..TrainingTable::default()
        }
    }

    fn columns(filter: NeuronFilter) -> Vec<Vec<u32>> {
        let fitted = Gaussians::new(0..3, 3, false)
            .fit(&training(), &filter, |n, _| 1.0 / n)
            .unwrap();
        fitted.classes.into_iter().map(|c| c.columns).collect()
    }

    #[test]
    fn neurons_that_hardly_vary_are_left_out() {
        // The single input of class 2 leaves nothing out.
        assert_eq!(columns(filter(false, 9)), [vec![1, 2], vec![1, 2], vec![]]);
        assert_eq!(
            columns(filter(true, 9)),
            [vec![0, 1, 2], vec![1, 2], vec![]]
        );
        assert_eq!(columns(filter(false, 1)), [vec![2], vec![2], vec![]]);
        assert_eq!(columns(filter(true, 2)), [vec![1, 2], vec![1, 2], vec![]]);
    }

    #[test]
    fn stored_and_restored() {
        let empty = || Gaussians::new(0..3, 3, false);
        let fitted = empty()
            .fit(&training(), &filter(true, 9), |n, _| 1.0 / n)
            .unwrap();
        let fit = fitted.store();
        let restored = empty().restore(&fit, "mdsc").unwrap();
        assert_eq!(restored.classes, fitted.classes);
        assert!(
            Gaussians::new(0..2, 3, false)
                .restore(&fit, "mdsc")
                .is_err()
        );
        assert!(
            Gaussians::new(0..3, 4, false)
                .restore(&fit, "mdsc")
                .is_err()
        );
    }

    #[test]
    fn moments_together_are_those_of_all() {
        let table = training();
        let mut classes = vec![Moments::new(3); 4];
        let mut all = Moments::new(3);
        for (trace, &class) in table.activations.chunks_exact(3).zip(&table.predictions) {
            classes[class as usize].add(trace);
            all.add(trace);
        }
        let together = Moments::together(&classes);
        assert_eq!(together.count, 5);
        for i in 0..3 {
            assert!((together.variance(i) - all.variance(i)).abs() < 1e-12);
        }
    }
}
