//! Surprise coverage: LSC, DSC and MDSC (SADL).
//!
//! How surprising an input is to the network is one number, told from its activation trace (the
//! activations of one layer) and those of the training inputs: by [likelihood](lsa), by
//! [distance](dsa) or by [Mahalanobis distance](mdsa). A suite covers the buckets that the numbers
//! of its inputs fall in. All three keep the numbers, from which coverage with any buckets can be
//! told.
//!
//! Options of all three: `layer` (the last path layer), `buckets` (1000), `upper` (2000 for LSC, 2
//! for DSC, and for MDSC see [there](mdsa)), and `edges`: with `fixed`, the default, buckets are
//! equal parts `(., .]` of 0 to `upper`, and what is not above 0 or beyond `upper` is in none. With
//! `sadl` they are as SADL's program has them: `buckets` edges from the smallest number of the
//! suite to `upper`, and what is beyond is in the last one. Since these depend on the suite, an
//! input by itself has no bucket.
//!
//! When training inputs are measured, each is compared with the others.

mod dsa;
mod gaussian;
mod linear;
mod lsa;
mod mdsa;
pub(crate) mod nearest;
mod product;

use std::collections::BTreeSet;
use std::ops::Range;

use npcov_paths::{choices, distance_bucket};

use crate::batch::Batch;
use crate::criterion::{Criterion, CriterionValue, Slot};
use crate::error::CriterionError;
use crate::fit::Fit;
use crate::needs::Needs;
use crate::registry::{Entry, Meaning, Unit};
use crate::shape::NetworkShape;
use crate::spec::{Options, Spec};
use crate::state::{Handle, ScoresPart, State};
use crate::training::Training;
use npcov_tap::Column;
use npcov_tap::Tap;

use dsa::Dsa;
use lsa::Lsa;
use mdsa::Mdsa;

/// What it means that fewer buckets are covered.
const DEGREES: Meaning = Meaning {
    unit: Unit::Share,
    lower: "the suite's inputs differ from the training data in fewer degrees",
    of_paths: false,
    of_similarity: false,
};

/// LSC.
pub(crate) const LSC: Entry = Entry {
    name: "lsc",
    summary: "buckets of surprise by likelihood: how unlikely activations are for the class",
    meaning: DEGREES,
    is_default: true,
    create: Surprise::<Lsa>::create,
};

/// DSC.
pub(crate) const DSC: Entry = Entry {
    name: "dsc",
    summary: "buckets of surprise by distance: to the own class, beside that to the others",
    meaning: DEGREES,
    is_default: true,
    create: Surprise::<Dsa>::create,
};

/// MDSC.
pub(crate) const MDSC: Entry = Entry {
    name: "mdsc",
    summary: "buckets of surprise by Mahalanobis distance from the mean of the class",
    meaning: DEGREES,
    is_default: true,
    create: Surprise::<Mdsa>::create,
};

/// A surprise adequacy: how surprising inputs are.
pub(crate) trait Adequacy: Sized + Send + Sync {
    /// The name of the criterion, and that of the numbers.
    const NAMES: (&'static str, &'static str);
    /// Whether every input is compared with the traces of training inputs.
    const COMPARES: bool;

    /// As the options say, with the default of `upper`.
    fn create(
        options: &mut Options<'_>,
        network: &NetworkShape,
        trace: Trace,
    ) -> Result<(Self, f64), CriterionError>;

    /// The options that the fit depends on, besides the layer.
    fn fitted_options(&self) -> String {
        String::new()
    }

    /// Learns from the training data.
    fn fit(&self, training: &dyn Training) -> Result<Fit, CriterionError>;

    /// Takes over what was learnt.
    fn restore(&mut self, fit: Fit) -> Result<(), CriterionError>;

    /// How surprising each input is; never NaN.
    fn scores(
        &self,
        inputs: &Inputs<'_>,
        training: &dyn Training,
    ) -> Result<Vec<f64>, CriterionError>;
}

/// Where activation traces come from.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// The layer.
    layer: usize,
    /// Its neurons among those of all layers.
    neurons: Range<usize>,
}

/// Inputs as they are compared with the training data.
pub(crate) struct Inputs<'a> {
    predictions: &'a [u32],
    traces: Column<'a>,
    /// Their positions among the training inputs, where they are such.
    training: Option<&'a [u32]>,
}

/// Coverage by an adequacy.
struct Surprise<A> {
    adequacy: A,
    trace: Trace,
    buckets: Buckets,
}

/// Where numbers fall.
#[derive(Clone, Copy, Debug)]
struct Buckets {
    count: u16,
    upper: f64,
    edges: Edges,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edges {
    Fixed,
    Sadl,
}

impl Buckets {
    /// The bucket of a number, from 1; `None` where it falls in none, or no number can tell.
    fn of(&self, score: f64) -> Option<u64> {
        let closed = choices::Edges::UpperClosed;
        match self.edges {
            Edges::Fixed => distance_bucket(score, self.upper, self.count, closed).map(u64::from),
            Edges::Sadl => None,
        }
    }

    /// How many buckets the numbers of a suite fall in.
    fn covered(&self, scores: &[f64]) -> u64 {
        match self.edges {
            Edges::Fixed => self.distinct(scores).len() as u64,
            Edges::Sadl => self.covered_as_sadl(scores),
        }
    }

    fn distinct(&self, scores: &[f64]) -> BTreeSet<u64> {
        scores.iter().filter_map(|&score| self.of(score)).collect()
    }

    /// NumPy's `digitize(scores, linspace(min(scores), upper, count))`: the number of edges that
    /// are not above a score.
    fn covered_as_sadl(&self, scores: &[f64]) -> u64 {
        let lowest = scores.iter().copied().fold(f64::INFINITY, f64::min);
        if scores.is_empty() || lowest >= self.upper {
            // No score is below any edge, so all are in the last bucket.
            return u64::from(!scores.is_empty());
        }
        let steps = self.count - 1;
        let step = (self.upper - lowest) / f64::from(steps.max(1));
        let edge = |i: u16| match i == steps && i > 0 {
            true => self.upper,
            false => f64::from(i) * step + lowest,
        };
        let edges: Vec<f64> = (0..self.count).map(edge).collect();
        let bucket = |score: &f64| edges.partition_point(|edge| edge <= score);
        scores.iter().map(bucket).collect::<BTreeSet<_>>().len() as u64
    }
}

impl<A: Adequacy + 'static> Surprise<A> {
    /// How surprising each input is.
    const SCORES: ScoresPart = ScoresPart(A::NAMES.1);

    /// As the options say.
    fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
        let mut options = Options::of(spec);
        let layer = options.layer("layer", network.layers.len())?;
        let first = network.first_neuron(layer);
        let trace = Trace {
            layer,
            neurons: first..first + network.layers[layer].neurons,
        };
        let (adequacy, upper) = A::create(&mut options, network, trace.clone())?;
        let positive = |upper: f64| upper > 0.0 && upper.is_finite();
        let buckets = Buckets {
            count: options.whole("buckets", 1000, 1..=usize::from(u16::MAX))? as u16,
            upper: options.number("upper", upper, positive, "a number above 0")?,
            edges: options.word("edges", &[("fixed", Edges::Fixed), ("sadl", Edges::Sadl)])?,
        };
        options.end()?;
        Ok(Box::new(Surprise {
            adequacy,
            trace,
            buckets,
        }))
    }

    fn scores(
        &self,
        batch: &Batch<'_>,
        training: &dyn Training,
    ) -> Result<Vec<f64>, CriterionError> {
        let inputs = Inputs {
            predictions: batch.predictions,
            traces: batch.activations(self.trace.layer)?,
            training: batch.training,
        };
        self.adequacy.scores(&inputs, training)
    }
}

impl<A: Adequacy + 'static> Criterion for Surprise<A> {
    fn needs(&self) -> Needs {
        Needs {
            training_traces: A::COMPARES,
            ..Needs::taps([Tap::activation(self.trace.layer)])
        }
    }

    fn fitted_options(&self) -> String {
        format!(
            "layer={}{}",
            self.trace.layer,
            self.adequacy.fitted_options()
        )
    }

    fn fit(&self, training: &dyn Training) -> Result<Fit, CriterionError> {
        self.adequacy.fit(training)
    }

    fn restore(&mut self, fit: Fit) -> Result<(), CriterionError> {
        self.adequacy.restore(fit)
    }

    fn state(&self) -> State {
        State::new([Self::SCORES.with(Vec::new())])
    }

    fn observe(
        &self,
        batch: &Batch<'_>,
        training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError> {
        let scores = self.scores(batch, training)?;
        state.get_mut(Self::SCORES)?.extend(scores);
        Ok(())
    }

    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError> {
        let covered = self.buckets.covered(state.get(Self::SCORES)?);
        let total = u64::from(self.buckets.count);
        Ok(vec![CriterionValue::share(A::NAMES.0, covered, total)])
    }

    fn counts_things(&self) -> bool {
        self.buckets.edges == Edges::Fixed
    }

    fn slots(&self, state: &State) -> Result<Vec<Slot>, CriterionError> {
        let buckets = self.buckets.distinct(state.get(Self::SCORES)?);
        Ok(buckets.into_iter().map(Slot::Number).collect())
    }

    fn bound_of_numbers(&self) -> u64 {
        // Buckets are counted from 1.
        u64::from(self.buckets.count) + 1
    }

    fn slots_of_each(
        &self,
        batch: &Batch<'_>,
        training: &dyn Training,
    ) -> Result<Vec<Vec<Slot>>, CriterionError> {
        let scores = self.scores(batch, training)?;
        let slot = |score| self.buckets.of(score).map(Slot::Number);
        Ok(scores
            .into_iter()
            .map(|score| slot(score).into_iter().collect())
            .collect())
    }
}

/// A score, where there is one; infinite where the numbers that it comes from are none.
fn sound(score: f64) -> f64 {
    match score.is_nan() {
        true => f64::INFINITY,
        false => score,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn buckets(count: u16, upper: f64, edges: Edges) -> Buckets {
        Buckets {
            count,
            upper,
            edges,
        }
    }

    #[test]
    fn worked_case() {
        // Case 15: both cover two of three buckets.
        let scores = [0.1, 0.2, 0.8];
        let fixed = buckets(3, 1.0, Edges::Fixed);
        assert_eq!(scores.map(|s| fixed.of(s)), [Some(1), Some(1), Some(3)]);
        assert_eq!(fixed.covered(&scores), 2);
        assert_eq!(buckets(3, 1.0, Edges::Sadl).covered(&scores), 2);
    }

    #[test]
    fn what_is_outside_is_in_no_fixed_bucket() {
        let fixed = buckets(4, 2.0, Edges::Fixed);
        let of = [-1.0, 0.0, 0.5, 2.0, 2.1, f64::INFINITY].map(|s| fixed.of(s));
        assert_eq!(of, [None, None, Some(1), Some(4), None, None]);
    }

    #[test]
    fn the_last_bucket_of_sadl_has_what_is_beyond() {
        // Expected values computed with NumPy: ids 1, 2, 3, 3 of three.
        let sadl = buckets(3, 2.0, Edges::Sadl);
        assert_eq!(sadl.covered(&[0.0, 1.0, 2.0, f64::INFINITY]), 3);
        assert_eq!(sadl.covered(&[3.0, 5.0, f64::INFINITY]), 1);
        assert_eq!(sadl.covered(&[f64::INFINITY]), 1);
        assert_eq!(sadl.covered(&[]), 0);
        assert_eq!(buckets(1, 2.0, Edges::Sadl).covered(&[0.5, 1.5, 9.0]), 1);
    }

    proptest! {
        #[test]
        fn more_inputs_cover_more_fixed_buckets(
            scores in prop::collection::vec(-1.0f64..4.0, 0..40),
            part in 0usize..40,
        ) {
            let fixed = buckets(7, 3.0, Edges::Fixed);
            let some = &scores[..part.min(scores.len())];
            prop_assert!(fixed.covered(some) <= fixed.covered(&scores));
            prop_assert!(fixed.covered(&scores) <= 7);
        }
    }
}
