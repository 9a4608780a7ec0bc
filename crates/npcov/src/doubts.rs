//! Data that can be used, and is probably not what was meant.
//!
//! Numbers that were scaled twice or not at all, labels that are no classes, and classes that were
//! counted where they should have been named all give results. These say so before anybody believes
//! them.

use npcov_data::{Loader, ValueRange};

use crate::decision_graph::DecisionGraph;
use crate::error::Error;
use crate::inputs::Inputs;
use crate::model::Model;

/// How many times wider or narrower than those of the training data the numbers of other data may be.
const WIDTHS: f64 = 10.0;

/// The largest number that pixels have.
const LARGEST_PIXEL: f32 = 255.0;

/// Class names that are listed.
const LISTED: usize = 3;

impl Model {
    /// What is probably not meant about inputs, though they can be used.
    pub fn warnings<'a>(&self, inputs: impl Into<Inputs<'a>>) -> Result<Vec<String>, Error> {
        let inputs = inputs.into();
        let loader = self.loader(inputs.samples().clone())?;
        let mut warnings = loader.warnings().to_vec();
        if warnings.is_empty()
            && let Some(stored) = loader.stored_value_range(inputs.range())?
        {
            warnings.extend(scaling(&loader, &stored));
        }
        warnings.extend(self.counted_classes(&loader));
        Ok(warnings)
    }

    /// Fails where a label is none of the model's classes: what is counted by labels would be wrong.
    pub fn require_labels<'a>(&self, inputs: impl Into<Inputs<'a>>) -> Result<(), Error> {
        let inputs = inputs.into();
        let loader = self.loader(inputs.samples().clone())?;
        npcov_run::labels(self.network().signature(), &loader, inputs.range())?;
        Ok(())
    }

    fn strange_label(&self, inputs: &Inputs<'_>, loader: &Loader<'_>) -> Option<String> {
        let classes = self.network().classes();
        let mut labels = inputs
            .range()
            .filter_map(|row| Some((row, loader.label(row)?)));
        let is_class = |label: i64| usize::try_from(label).is_ok_and(|label| label < classes);
        let (row, label) = labels.find(|&(_, label)| !is_class(label))?;
        Some(format!(
            "`{}` has labels that are no classes of the model: row {row} has {label}, and there are \
             {classes} classes (0 to {}); such inputs count as misclassified",
            loader.name(),
            classes.saturating_sub(1)
        ))
    }

    /// Classes of data that are not all of the model's, and whose names cannot be matched.
    fn counted_classes(&self, loader: &Loader<'_>) -> Option<String> {
        let classes = self.network().classes();
        let names = loader
            .class_names()
            .filter(|names| names.len() != classes)?;
        let counted = names.iter().enumerate().take(LISTED);
        let counted: Vec<String> = counted
            .map(|(class, name)| format!("`{name}` counts as class {class}"))
            .collect();
        let more = if names.len() > LISTED { ", ..." } else { "" };
        Some(format!(
            "`{}` has {} classes and the model {classes}, whose names are not known: {}{more}; \
             `--class-names FILE` says which classes they are",
            loader.name(),
            names.len(),
            counted.join(", ")
        ))
    }
}

impl DecisionGraph {
    /// Fails where a label is none of the model's classes: what is counted by labels would be wrong.
    pub fn require_labels<'a>(&self, inputs: impl Into<Inputs<'a>>) -> Result<(), Error> {
        let inputs = inputs.into();
        let loader = self.loader(inputs.samples().clone())?;
        npcov_run::labels(self.model().network().signature(), &loader, inputs.range())?;
        Ok(())
    }

    /// What is probably not meant about inputs, though they can be used: they are held against the
    /// training data.
    pub fn warnings<'a>(&self, inputs: impl Into<Inputs<'a>>) -> Result<Vec<String>, Error> {
        let inputs = inputs.into();
        let loader = self.loader(inputs.samples().clone())?;
        let mut warnings = Vec::new();
        if let Some(difference) = self.learnt().engine_difference() {
            warnings.push(format!(
                "the graph was learnt with another engine ({difference}): a few neurons of a path may differ"
            ));
        }
        if let Some(by) = self.lacking_preprocessing() {
            warnings.push(format!(
                "the graph was learnt from inputs that `{by}` had preprocessed; those of `{}` are taken as \
                 they are, and should be preprocessed like that",
                loader.name()
            ));
        }
        let training = self.learnt().file().record().values;
        if let (Some(training), Some(own)) = (training, loader.value_range(inputs.range())?) {
            warnings.extend(differently_scaled(loader.name(), &own, &training));
        }
        warnings.extend(self.model().counted_classes(&loader));
        warnings.extend(self.model().strange_label(&inputs, &loader));
        Ok(warnings)
    }
}

/// Whether stored numbers look as if they were scaled before, or were not and should be.
fn scaling(loader: &Loader<'_>, stored: &ValueRange) -> Option<String> {
    let (file, divisor) = (loader.name(), loader.divisor());
    let ValueRange {
        min, max, whole, ..
    } = *stored;
    if divisor > 1.0 && min >= 0.0 && max <= 1.0 && max > 0.0 {
        return Some(format!(
            "numbers in `{file}` are from {min} to {max} before they are divided by {divisor}: were \
             they scaled already?"
        ));
    }
    let pixels = whole && min >= 0.0 && max > LARGEST_PIXEL / 2.0 && max <= LARGEST_PIXEL;
    let given = loader.preprocessing();
    let is_scaled = given.divide.is_some() || !given.mean.is_empty() || !given.std.is_empty();
    (pixels && !is_scaled).then(|| {
        format!(
            "numbers in `{file}` are whole ones from {min} to {max}, and go into the model as they \
             are; add `--divide 255` if it was trained on 0..1"
        )
    })
}

/// Whether numbers lie elsewhere than those of the training data.
fn differently_scaled(file: &str, own: &ValueRange, training: &ValueRange) -> Option<String> {
    let (width, usual) = (own.width(), training.width());
    let far = !(f64::from(training.min)..=f64::from(training.max)).contains(&own.mean);
    let guess = match () {
        () if width * WIDTHS < usual => "were they scaled twice?",
        () if width > usual * WIDTHS => "were they not scaled?",
        () if far => "were they scaled in another way?",
        () => return None,
    };
    Some(format!(
        "inputs of `{file}` are from {} to {}, those of the training data from {} to {}: {guess}",
        own.min, own.max, training.min, training.max
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(min: f32, max: f32) -> ValueRange {
        ValueRange {
            min,
            max,
            mean: f64::from(min + max) / 2.0,
            whole: false,
        }
    }

    #[test]
    fn ranges_that_differ_say_how() {
        let pixels = range(0.0, 1.0);
        let normal = range(-2.1, 2.6);
        for (own, training, guess) in [
            (range(0.0, 0.004), pixels, Some("scaled twice?")),
            (range(0.0, 255.0), pixels, Some("not scaled?")),
            // Normalised after it was divided twice: all is close to minus mean over deviation.
            (range(-2.1, -2.08), normal, Some("scaled twice?")),
            (range(-2.1, 1100.0), normal, Some("not scaled?")),
            (range(5.0, 6.0), pixels, Some("another way?")),
            // A dark suite, and one that is a little brighter.
            (range(0.0, 0.3), pixels, None),
            (range(0.1, 1.3), pixels, None),
            (range(0.0, 1.0), range(0.0, 0.9), None),
            (range(1.0, 1.0), range(1.0, 1.0), None),
        ] {
            let found = differently_scaled("data", &own, &training);
            assert_eq!(found.is_some(), guess.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().ends_with(guess.unwrap_or("")));
        }
    }
}
