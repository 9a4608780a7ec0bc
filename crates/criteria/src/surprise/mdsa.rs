//! MDSA: Mahalanobis distances.
//!
//! `sqrt((a - m)ᵀ C⁻¹ (a - m))` of an input's trace `a`, with the mean `m` and the (population)
//! covariance `C` of the training traces of its predicted class. Options besides those of
//! [all](super) and of [Gaussians](super::gaussian): `class`, `predicted` or, for one Gaussian of
//! all training inputs, `none`. An input of a class without a Gaussian is infinitely surprising.
//!
//! `upper` is 5 √n by default, for a layer of n neurons: over the training inputs of a class, the
//! squares of the distances are on average as many as neurons take part, so that at most one in 25
//! of them is beyond.

use crate::error::CriterionError;
use crate::fit::Fit;
use crate::shape::NetworkShape;
use crate::spec::Options;
use crate::training::Training;

use super::gaussian::{BLOCK, Gaussians, NeuronFilter};
use super::{Adequacy, Inputs, Trace, product, sound};

/// The adequacy.
pub(crate) struct Mdsa {
    filter: NeuronFilter,
    single: bool,
    gaussians: Gaussians,
}

impl Adequacy for Mdsa {
    const NAMES: (&'static str, &'static str) = ("mdsc", "mdsa");
    const COMPARES: bool = false;

    fn create(
        options: &mut Options<'_>,
        network: &NetworkShape,
        trace: Trace,
    ) -> Result<(Mdsa, f64), CriterionError> {
        let single = options.word("class", &[("predicted", false), ("none", true)])?;
        let upper = 5.0 * (trace.neurons.len().max(1) as f64).sqrt();
        let adequacy = Mdsa {
            filter: NeuronFilter::read(options)?,
            single,
            gaussians: Gaussians::new(trace.neurons, network.classes, single),
        };
        Ok((adequacy, upper))
    }

    fn fitted_options(&self) -> String {
        let class = if self.single { "none" } else { "predicted" };
        format!(":class={class}{}", self.filter.text())
    }

    fn fit(&self, training: &dyn Training) -> Result<Fit, CriterionError> {
        let empty = self.gaussians.clone();
        let fitted = empty.fit(training, &self.filter, |samples, _| 1.0 / samples)?;
        Ok(fitted.store())
    }

    fn restore(&mut self, fit: Fit) -> Result<(), CriterionError> {
        self.gaussians = self.gaussians.clone().restore(&fit, "mdsc")?;
        Ok(())
    }

    fn scores(
        &self,
        inputs: &Inputs<'_>,
        _training: &dyn Training,
    ) -> Result<Vec<f64>, CriterionError> {
        let mut scores = vec![f64::INFINITY; inputs.predictions.len()];
        for (class, gaussian) in self.gaussians.classes.iter().enumerate() {
            let Some(whitening) = &gaussian.whitening else {
                continue;
            };
            let of_class = |&i: &usize| self.gaussians.class(inputs.predictions[i]) == class;
            let own: Vec<usize> = (0..scores.len()).filter(of_class).collect();
            if own.is_empty() {
                continue;
            }
            let width = gaussian.width();
            let square = whitening.square(width);
            let mut rows = vec![0.0; BLOCK * width];
            let mut white = vec![0.0; BLOCK * width];
            for block in own.chunks(BLOCK) {
                rows.fill(0.0);
                for (row, &input) in rows.chunks_exact_mut(width).zip(block) {
                    gaussian.centre(inputs.traces.row(input), row);
                }
                product::rows(&rows, &square, width, &mut white);
                for (row, &input) in white.chunks_exact(width).zip(block) {
                    scores[input] = sound(row.iter().map(|x| x * x).sum::<f64>().sqrt());
                }
            }
        }
        Ok(scores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::registry::create;
    use crate::shape::LayerShape;
    use crate::state::ScoresPart;
    use crate::training::TrainingTable;
    use npcov_tap::Column;
    use npcov_tap::Tap;

    fn scores(spec: &str, table: &TrainingTable, predictions: &[u32], traces: &[f32]) -> Vec<f64> {
        let layer = LayerShape {
            neurons: 2,
            units: 2,
        };
        let network = NetworkShape {
            sums: Vec::new(),
            layers: vec![layer],
            classes: 2,
            logits: 2,
            ..NetworkShape::default()
        };
        let mut mdsc = create(&spec.parse().unwrap(), &network).unwrap();
        mdsc.restore(mdsc.fit(table).unwrap()).unwrap();
        let batch = Batch {
            predictions,
            logits: Column::of(&[], 0),
            taps: vec![(Tap::activation(0), Column::of(traces, 2))],
            observations: &[],
            training: None,
        };
        let mut state = mdsc.state();
        mdsc.observe(&batch, table, &mut state).unwrap();
        state.get(ScoresPart("mdsa")).unwrap().clone()
    }

    #[test]
    fn worked_case() {
        // Case 19.
        let table = TrainingTable {
            predictions: vec![0; 3],
            neurons: 2,
            activations: vec![0.0, 0.0, 2.0, 1.0, 4.0, 5.0],
            ..TrainingTable::default()
        };
        let two = scores("mdsc", &table, &[0, 1], &[4.0, 0.0, 4.0, 0.0]);
        assert!((two[0] - 42.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(two[1], f64::INFINITY);
        let two = scores("mdsc:class=none", &table, &[0, 1], &[4.0, 0.0, 4.0, 0.0]);
        assert!((two[1] - 42.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn squares_are_on_average_as_many_as_neurons() {
        // What the default of `upper` rests on.
        let table = TrainingTable {
            predictions: vec![0; 5],
            neurons: 2,
            activations: vec![0.0, 0.0, 2.0, 1.0, 4.0, 5.0, 9.0, -3.0, 1.0, 1.0],
            ..TrainingTable::default()
        };
        let all = scores("mdsc", &table, &table.predictions, &table.activations);
        let mean = all.iter().map(|x| x * x).sum::<f64>() / 5.0;
        assert!((mean - 2.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_number_surprises_infinitely() {
        let table = TrainingTable {
            predictions: vec![0; 3],
            neurons: 2,
            activations: vec![0.0, f32::NAN, 2.0, 1.0, 4.0, 5.0],
            ..TrainingTable::default()
        };
        // The second neuron takes no part.
        let two = scores("mdsc", &table, &[0, 0], &[2.0, f32::NAN, f32::NAN, 1.0]);
        assert_eq!(two, [0.0, f64::INFINITY]);
    }
}
