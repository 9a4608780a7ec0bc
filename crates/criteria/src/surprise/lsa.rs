//! LSA: how unlikely a trace is.
//!
//! `-log p(a)` of an input's trace `a`, where `p` is the Gaussian kernel density of the training
//! traces of its predicted class, as SciPy's `gaussian_kde` has it: with n traces of d neurons, the
//! covariance of a kernel is the (sample) covariance of the traces times `n^(-2/(d+4))` (Scott).
//! Options are those of [all](super) and of [Gaussians](super::gaussian). A singular covariance
//! gets a small ridge, which is kept with what was fitted. An input of a class without a Gaussian
//! is infinitely surprising. A training input is compared with the n - 1 others of its class; their
//! covariance still has it in.
//!
//! With `W` that makes kernels white, centred traces q and t are
//! `|Wq|² + |Wt|² - 2 (WᵀWq)·t` apart. `|Wt|²` is fitted, so for each input only the product with
//! the training traces themselves is left. All products are of blocks of one size, so that bits do
//! not depend on which inputs are measured together.

use std::ops::Range;

use crate::error::CriterionError;
use crate::fit::{Fit, FitNumbers};
use crate::per_input::{Lookup, PerInput};
use crate::shape::NetworkShape;
use crate::spec::Options;
use crate::training::Training;

use super::gaussian::{BLOCK, Gaussian, Gaussians, NeuronFilter};
use super::linear::Whitening;
use super::{Adequacy, Inputs, Trace, product, sound};

/// Inputs that are worked on at a time: few, since those of each class are padded to as many.
const PANEL: usize = 32;

/// The adequacy.
pub(crate) struct Lsa {
    filter: NeuronFilter,
    gaussians: Gaussians,
    /// For each training input, its squared white norm.
    norms: PerInput,
}

/// Inputs of one class.
struct Panel {
    inputs: Vec<usize>,
    /// `|Wq|²`.
    norms: Vec<f64>,
    /// `WᵀWq`.
    dual: Vec<f64>,
    sums: Vec<LogSum>,
}

/// The logarithm of a sum of exponentials, of which `largest` is taken out.
#[derive(Clone, Copy, Debug)]
struct LogSum {
    largest: f64,
    sum: f64,
    terms: usize,
}

impl LogSum {
    const EMPTY: LogSum = LogSum {
        largest: f64::NEG_INFINITY,
        sum: 0.0,
        terms: 0,
    };

    fn add(&mut self, exponents: &[f64]) {
        self.terms += exponents.len();
        let largest = exponents.iter().copied().fold(self.largest, f64::max);
        if largest == f64::NEG_INFINITY {
            return;
        }
        let rest: f64 = exponents.iter().map(|x| (x - largest).exp()).sum();
        self.sum = self.sum * (self.largest - largest).exp() + rest;
        self.largest = largest;
    }

    /// Of their mean.
    fn log_mean(&self) -> f64 {
        self.largest + self.sum.ln() - (self.terms as f64).ln()
    }
}

impl Panel {
    fn new(gaussian: &Gaussian, square: &[f64], inputs: &[usize], all: &Inputs<'_>) -> Panel {
        let width = gaussian.width();
        let mut rows = vec![0.0; PANEL * width];
        for (row, &input) in rows.chunks_exact_mut(width).zip(inputs) {
            gaussian.centre(all.traces.row(input), row);
        }
        let mut white = vec![0.0; PANEL * width];
        product::rows(&rows, square, width, &mut white);
        let norms = white.chunks_exact(width).map(squared_norm).collect();
        product::columns(&white, square, width, &mut rows);
        Panel {
            inputs: inputs.to_vec(),
            norms,
            dual: rows,
            sums: vec![LogSum::EMPTY; inputs.len()],
        }
    }

    /// Adds the kernels of training inputs.
    fn add(&mut self, block: &Block<'_>, training: Option<&[u32]>, scratch: &mut Scratch) {
        product::rows(&self.dual, block.rows, block.width, &mut scratch.products);
        for (place, sum) in self.sums.iter_mut().enumerate() {
            let own = training.map(|positions| positions[self.inputs[place]] as usize);
            let products = &scratch.products[place * BLOCK..(place + 1) * BLOCK];
            scratch.exponents.clear();
            for ((&input, &norm), &product) in block.inputs.iter().zip(&block.norms).zip(products) {
                if own != Some(input) {
                    let apart = self.norms[place] + norm - 2.0 * product;
                    scratch.exponents.push(-0.5 * apart.max(0.0));
                }
            }
            sum.add(&scratch.exponents);
        }
    }
}

/// Training inputs of one class.
struct Block<'a> {
    inputs: &'a [usize],
    rows: &'a [f64],
    width: usize,
    norms: Vec<f64>,
}

struct Scratch {
    products: Vec<f64>,
    exponents: Vec<f64>,
}

impl Adequacy for Lsa {
    const NAMES: (&'static str, &'static str) = ("lsc", "lsa");
    const COMPARES: bool = true;

    fn create(
        options: &mut Options<'_>,
        network: &NetworkShape,
        trace: Trace,
    ) -> Result<(Lsa, f64), CriterionError> {
        let adequacy = Lsa {
            filter: NeuronFilter::read(options)?,
            gaussians: Gaussians::new(trace.neurons, network.classes, false),
            norms: PerInput::in_memory(Vec::new()),
        };
        Ok((adequacy, 2000.0))
    }

    fn fitted_options(&self) -> String {
        self.filter.text()
    }

    fn fit(&self, training: &dyn Training) -> Result<Fit, CriterionError> {
        let scott = |samples: f64, width: f64| {
            let factor = samples.powf(-1.0 / (width + 4.0));
            factor * factor / (samples - 1.0)
        };
        let gaussians = self.gaussians.clone().fit(training, &self.filter, scott)?;
        let norms = training.keep(training.inputs(), &mut |inputs, norms| {
            Ok(white_norms(&gaussians, training, inputs, norms)?)
        })?;
        let mut fit = gaussians.store();
        let name = FitNumbers::PER_INPUT;
        fit.insert(name, &[norms.len()], FitNumbers::PerInput(norms));
        Ok(fit)
    }

    fn restore(&mut self, fit: Fit) -> Result<(), CriterionError> {
        self.gaussians = self.gaussians.clone().restore(&fit, "lsc")?;
        self.norms = fit.per_input("lsc", FitNumbers::PER_INPUT)?.clone();
        Ok(())
    }

    fn scores(
        &self,
        inputs: &Inputs<'_>,
        training: &dyn Training,
    ) -> Result<Vec<f64>, CriterionError> {
        if self.norms.len() != training.inputs() {
            return Err(CriterionError::Damaged {
                criterion: "lsc".to_owned(),
                reason: "it was fitted to other training data".to_owned(),
            });
        }
        let mut panels: Vec<Vec<Panel>> = Vec::new();
        for (class, gaussian) in self.gaussians.classes.iter().enumerate() {
            let of_class = |&i: &usize| self.gaussians.class(inputs.predictions[i]) == class;
            let own: Vec<usize> = (0..inputs.predictions.len()).filter(of_class).collect();
            let panels_of = |whitening: &Whitening| {
                let square = whitening.square(gaussian.width());
                own.chunks(PANEL)
                    .map(|panel| Panel::new(gaussian, &square, panel, inputs))
                    .collect()
            };
            panels.push(match &gaussian.whitening {
                Some(whitening) if !own.is_empty() => panels_of(whitening),
                _ => Vec::new(),
            });
        }
        let classes: Vec<usize> = (0..panels.len())
            .filter(|&class| !panels[class].is_empty())
            .collect();
        let mut scratch = Scratch {
            products: vec![0.0; PANEL * BLOCK],
            exponents: Vec::with_capacity(BLOCK),
        };
        let mut lookup = Lookup::new(&self.norms);
        let mut failed = None;
        self.gaussians
            .stream(training, &classes, |class, block, rows| {
                let norms: Result<Vec<f64>, _> = block.iter().map(|&i| lookup.get(i)).collect();
                let block = Block {
                    inputs: block,
                    rows,
                    width: self.gaussians.classes[class].width(),
                    norms: norms.unwrap_or_else(|error| {
                        failed = Some(error);
                        Vec::new()
                    }),
                };
                for panel in &mut panels[class] {
                    panel.add(&block, inputs.training, &mut scratch);
                }
            })?;
        if let Some(error) = failed {
            return Err(CriterionError::Training(error));
        }

        let mut scores = vec![f64::INFINITY; inputs.predictions.len()];
        for (gaussian, panels) in self.gaussians.classes.iter().zip(&panels) {
            let Some(whitening) = &gaussian.whitening else {
                continue;
            };
            let width = gaussian.width() as f64;
            let log_height = -0.5 * width * std::f64::consts::TAU.ln() - whitening.log_root;
            for panel in panels {
                for (&input, sum) in panel.inputs.iter().zip(&panel.sums) {
                    scores[input] = sound(-(log_height + sum.log_mean()));
                }
            }
        }
        Ok(scores)
    }
}

/// The squared white norms of some training inputs, those of classes that have no Gaussian 0.
fn white_norms(
    gaussians: &Gaussians,
    training: &dyn Training,
    inputs: Range<usize>,
    norms: &mut [f64],
) -> Result<(), CriterionError> {
    let classes = gaussians.with(|gaussian| gaussian.whitening.is_some());
    let first = inputs.start;
    let mut white = Vec::new();
    gaussians.stream_of(training, inputs, &classes, |class, inputs, rows| {
        let gaussian = &gaussians.classes[class];
        if let Some(whitening) = &gaussian.whitening {
            let width = gaussian.width();
            white.resize(rows.len(), 0.0);
            product::rows(rows, &whitening.square(width), width, &mut white);
            for (&input, row) in inputs.iter().zip(white.chunks_exact(width)) {
                norms[input - first] = squared_norm(row);
            }
        }
    })
}

fn squared_norm(row: &[f64]) -> f64 {
    row.iter().map(|x| x * x).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::criterion::Criterion;
    use crate::registry::create;
    use crate::shape::LayerShape;
    use crate::state::ScoresPart;
    use crate::training::TrainingTable;
    use npcov_tap::Column;
    use npcov_tap::Tap;
    use proptest::prelude::*;

    fn fitted(spec: &str, table: &TrainingTable) -> Box<dyn Criterion> {
        let mut criterion = unfitted(spec, table);
        criterion.restore(criterion.fit(table).unwrap()).unwrap();
        criterion
    }

    fn unfitted(spec: &str, table: &TrainingTable) -> Box<dyn Criterion> {
        let layer = LayerShape {
            neurons: table.neurons,
            units: table.neurons,
        };
        let network = NetworkShape {
            sums: Vec::new(),
            layers: vec![layer],
            classes: 3,
            logits: 3,
            ..NetworkShape::default()
        };
        create(&spec.parse().unwrap(), &network).unwrap()
    }

    fn scores(
        criterion: &dyn Criterion,
        table: &TrainingTable,
        predictions: &[u32],
        traces: &[f32],
        training: Option<&[u32]>,
    ) -> Vec<f64> {
        let batch = Batch {
            predictions,
            logits: Column::of(&[], 0),
            taps: vec![(Tap::activation(0), Column::of(traces, table.neurons))],
            observations: &[],
            training,
        };
        let mut state = criterion.state();
        criterion.observe(&batch, table, &mut state).unwrap();
        state.get(ScoresPart("lsa")).unwrap().clone()
    }

    fn table(neurons: usize, predictions: Vec<u32>, activations: Vec<f32>) -> TrainingTable {
        TrainingTable {
            predictions,
            neurons,
            activations,
            ..TrainingTable::default()
        }
    }

    fn assert_close(fast: &[f64], slow: &[f64]) {
        assert_eq!(fast.len(), slow.len());
        for (fast, slow) in fast.iter().zip(slow) {
            let close = (fast - slow).abs() <= 5e-8 * slow.abs().max(1.0);
            assert!(close || fast == slow, "{fast} is not {slow}");
        }
    }

    #[test]
    fn worked_cases() {
        // Case 13: computed with SciPy's gaussian_kde.
        let line = table(1, vec![0; 3], vec![0.0, 1.0, 2.0]);
        let lsc = fitted("lsc", &line);
        let two = scores(&*lsc, &line, &[0, 0], &[1.0, 5.0], None);
        assert_close(&two, &[1.1452128, 8.7767623]);

        let square = table(2, vec![0; 4], vec![0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
        let lsc = fitted("lsc", &square);
        let two = scores(&*lsc, &square, &[0, 0], &[0.5, 0.5, 2.0, 2.0], None);
        assert_close(&two, &[1.4677174, 6.4240845]);
    }

    #[test]
    fn classes_without_a_density_surprise_infinitely() {
        let table = table(1, vec![0, 0, 1, 0], vec![0.0, 1.0, 5.0, 2.0]);
        let lsc = fitted("lsc", &table);
        let three = scores(&*lsc, &table, &[0, 1, 2], &[1.0, 5.0, 5.0], None);
        assert_close(&three, &[1.1452128, f64::INFINITY, f64::INFINITY]);
        let state = lsc.state();
        assert_eq!(lsc.values(&state).unwrap()[0].amount.value(), 0.0);
    }

    #[test]
    fn a_singular_covariance_still_has_a_density() {
        // Two neurons that are always the same, and a third that never varies.
        let traces = vec![0.0, 0.0, 7.0, 1.0, 1.0, 7.0, 2.0, 2.0, 7.0, 4.0, 4.0, 7.0];
        let table = table(3, vec![0; 4], traces);
        let lsc = fitted("lsc", &table);
        let fit = lsc.fit(&table).unwrap();
        assert_eq!(fit.u32("lsc", "columns", 2).unwrap(), [0, 1]);
        assert!(fit.f64("lsc", "ridge", 3).unwrap()[0] > 0.0);
        let two = scores(
            &*lsc,
            &table,
            &[0, 0],
            &[1.0, 1.0, 7.0, 1.0, 1.5, 7.0],
            None,
        );
        assert!(two[0].is_finite() && two[1] > two[0] + 100.0);
    }

    #[test]
    fn a_fit_to_other_training_data_is_refused() {
        let three = table(1, vec![0; 3], vec![0.0, 1.0, 2.0]);
        let four = table(1, vec![0; 4], vec![0.0, 1.0, 2.0, 3.0]);
        let lsc = fitted("lsc", &three);
        let batch = Batch {
            predictions: &[0],
            logits: Column::of(&[], 0),
            taps: vec![(Tap::activation(0), Column::of(&[1.0], 1))],
            observations: &[],
            training: None,
        };
        assert!(lsc.observe(&batch, &four, &mut lsc.state()).is_err());
        assert_eq!(lsc.slots_of_each(&batch, &three).unwrap().len(), 1);
    }

    #[test]
    fn wide_traces_are_the_same_bits_in_any_grouping() {
        // Wide enough for products to be summed in several portions.
        let mut seed = 1u32;
        let mut number = |_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as f32 / (1 << 24) as f32
        };
        let table = table(300, vec![0; 350], (0..300 * 350).map(&mut number).collect());
        let traces: Vec<f32> = (0..300 * 70).map(number).collect();
        let lsc = fitted("lsc", &table);
        let all = scores(&*lsc, &table, &[0; 70], &traces, None);
        assert!(all.iter().all(|score| score.is_finite()));
        for (i, trace) in traces.chunks_exact(300).enumerate() {
            assert_eq!(scores(&*lsc, &table, &[0], trace, None), [all[i]]);
        }
    }

    /// By definition, for two neurons: the covariance and its inverse written out.
    fn naive(table: &TrainingTable, class: u32, x: &[f32], own: Option<usize>) -> f64 {
        let of_class = |i: &usize| table.predictions[*i] == class;
        let inputs: Vec<usize> = (0..table.predictions.len()).filter(of_class).collect();
        let n = inputs.len() as f64;
        if n < 2.0 {
            return f64::INFINITY;
        }
        let at = |i: usize, j: usize| f64::from(table.activations[i * 2 + j]);
        let mean = [0, 1].map(|j| inputs.iter().map(|&i| at(i, j)).sum::<f64>() / n);
        let covariance = |j: usize, k: usize| {
            let term = |&i: &usize| (at(i, j) - mean[j]) * (at(i, k) - mean[k]);
            let sample = inputs.iter().map(term).sum::<f64>() / (n - 1.0);
            sample * n.powf(-1.0 / 6.0).powi(2)
        };
        let (a, b, c) = (covariance(0, 0), covariance(0, 1), covariance(1, 1));
        let determinant = a * c - b * b;
        let others: Vec<usize> = inputs.into_iter().filter(|&i| Some(i) != own).collect();
        let kernel = |&i: &usize| {
            let (p, q) = (f64::from(x[0]) - at(i, 0), f64::from(x[1]) - at(i, 1));
            (-0.5 * (c * p * p - 2.0 * b * p * q + a * q * q) / determinant).exp()
        };
        let sum: f64 = others.iter().map(kernel).sum();
        let height = std::f64::consts::TAU * determinant.sqrt() * others.len() as f64;
        -(sum / height).ln()
    }

    proptest! {
        #[test]
        fn as_by_definition_in_any_grouping(
            rows in prop::collection::vec((0u32..3, [-9i8..9, -9i8..9]), 20..300),
            cut in 1usize..300,
        ) {
            let numbers = rows.iter().flat_map(|row| row.1).map(|x| f32::from(x) * 0.25);
            let table = table(2, rows.iter().map(|row| row.0).collect(), numbers.collect());
            // Few inputs of a class can lie on a line; then it has no density by definition. Where no neuron
            // varies in every class, nothing can be fitted.
            let fit = unfitted("lsc:min-variance=0.3", &table).fit(&table);
            let has_density = fit.is_ok_and(|fit| {
                let ridge = fit.f64("lsc", "ridge", 3).unwrap();
                fit.len("columns") == 6 && ridge.iter().all(|&ridge| ridge == 0.0)
            });
            prop_assume!(has_density);
            let lsc = fitted("lsc:min-variance=0.3", &table);
            let classes = &table.predictions;
            let traces = &table.activations;
            let positions: Vec<u32> = (0..classes.len() as u32).collect();
            let own = scores(&*lsc, &table, classes, traces, Some(&positions));
            let others = scores(&*lsc, &table, classes, traces, None);
            let at = |i: usize| &traces[i * 2..i * 2 + 2];
            let naively = |i: usize, own| naive(&table, classes[i], at(i), own);
            let slow: Vec<f64> = (0..rows.len()).map(|i| naively(i, None)).collect();
            for i in 0..rows.len() {
                prop_assert!((others[i] - slow[i]).abs() < 1e-6 * slow[i].abs().max(1.0));
                let alone = naively(i, Some(i));
                // Where nothing else is near, the definition as written underflows.
                if alone < 300.0 {
                    prop_assert!((own[i] - alone).abs() < 1e-6 * alone.abs().max(1.0));
                }
            }
            let cut = cut.min(rows.len());
            let mut parts = scores(&*lsc, &table, &classes[..cut], &traces[..cut * 2], None);
            parts.extend(scores(&*lsc, &table, &classes[cut..], &traces[cut * 2..], None));
            prop_assert_eq!(parts, others);
        }
    }
}
