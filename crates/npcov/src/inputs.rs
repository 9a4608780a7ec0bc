//! What verbs work on.

use std::ops::Range;
use std::sync::Arc;

use npcov_data::Samples;

/// Samples, or some of them: what verbs work on.
///
/// A reference to any [`Samples`] is all of them.
///
/// ```
/// use npcov::Inputs;
/// use npcov::data::Arrays;
///
/// let data = Arrays::new("x", &[3, 2], [0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0])?;
/// assert_eq!(Inputs::from(&data).len(), 3);
/// assert_eq!(Inputs::from(&data).rows(1..3).len(), 2);
/// # Ok::<(), npcov::Error>(())
/// ```
#[derive(Clone)]
pub struct Inputs<'a> {
    samples: Arc<dyn Samples + 'a>,
    range: Range<usize>,
}

impl<'a> Inputs<'a> {
    /// All samples.
    pub fn new(samples: Arc<dyn Samples + 'a>) -> Inputs<'a> {
        let range = 0..samples.len();
        Inputs { samples, range }
    }

    /// Only those at these positions of the samples.
    pub fn rows(mut self, range: Range<usize>) -> Inputs<'a> {
        self.range = range;
        self
    }

    /// The samples that these are part of.
    pub fn samples(&self) -> &Arc<dyn Samples + 'a> {
        &self.samples
    }

    /// Their positions.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

impl<'a, S: Samples + ?Sized> From<&'a S> for Inputs<'a> {
    fn from(samples: &'a S) -> Inputs<'a> {
        Inputs::new(Arc::new(samples))
    }
}

/// What a decision graph is learnt from.
///
/// Inputs alone become it; one in ten of them is then set aside for calibration.
///
/// ```
/// use npcov::data::Arrays;
/// use npcov::{Inputs, TrainingInputs};
///
/// let data = Arrays::new("x", &[3, 2], [0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0])?;
/// let (first, last) = (Inputs::from(&data).rows(0..2), Inputs::from(&data).rows(2..3));
/// let training = TrainingInputs::from(first).calibrated(last);
/// assert_eq!(training.calibration.unwrap().len(), 1);
/// # Ok::<(), npcov::Error>(())
/// ```
#[derive(Clone)]
pub struct TrainingInputs<'a> {
    /// What the model was trained with.
    pub training: Inputs<'a>,
    /// What it was not trained with: scores of others are ranked among theirs.
    pub calibration: Option<Inputs<'a>>,
}

impl<'a> TrainingInputs<'a> {
    /// The same with inputs for calibration.
    pub fn calibrated(mut self, inputs: impl Into<Inputs<'a>>) -> TrainingInputs<'a> {
        self.calibration = Some(inputs.into());
        self
    }
}

impl<'a> From<Inputs<'a>> for TrainingInputs<'a> {
    fn from(training: Inputs<'a>) -> TrainingInputs<'a> {
        TrainingInputs {
            training,
            calibration: None,
        }
    }
}

impl<'a, S: Samples + ?Sized> From<&'a S> for TrainingInputs<'a> {
    fn from(samples: &'a S) -> TrainingInputs<'a> {
        Inputs::from(samples).into()
    }
}
