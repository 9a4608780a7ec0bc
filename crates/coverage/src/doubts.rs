//! Results that are probably not what was meant.

use npcov_artefact::InputRecord;

/// Inputs from which on it is strange that all are in one class.
const ENOUGH: usize = 10;

/// What is strange about what the inputs of a suite are predicted as.
pub(crate) fn of_inputs(
    suite: &str,
    inputs: &[InputRecord],
    called: impl Fn(usize) -> String,
) -> Option<String> {
    let inputs = inputs
        .iter()
        .map(|input| (input.prediction, input.is_correct()));
    all_in_one_class(&format!("inputs of `{suite}`"), inputs, called)
}

/// A class by its number and, where it has one, its name.
pub(crate) fn called(class: usize, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{class} ({name})"),
        None => class.to_string(),
    }
}

/// Says so where all inputs are predicted as one class, and labels do not say that they are of that class.
pub(crate) fn all_in_one_class(
    inputs: &str,
    predictions: impl IntoIterator<Item = (u32, Option<bool>)>,
    called: impl Fn(usize) -> String,
) -> Option<String> {
    let mut rest = predictions.into_iter();
    let (first, mut right) = rest.next()?;
    let mut count = 1;
    for (class, is_correct) in rest {
        count += 1;
        if class != first {
            return None;
        }
        if is_correct != Some(true) {
            right = is_correct;
        }
    }
    (count >= ENOUGH && right != Some(true)).then(|| {
        format!(
            "all {count} {inputs} are predicted as class {}: is their scale or layout what the \
             model was trained on?",
            called(first as usize)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_inputs_in_one_class_are_strange_unless_they_are_of_it() {
        let named = |class: usize| called(class, Some("dress"));
        let say = |inputs: Vec<(u32, Option<bool>)>| all_in_one_class("inputs", inputs, named);
        let found = say(vec![(3, None); 10]).unwrap();
        assert!(found.starts_with("all 10 inputs are predicted as class 3 (dress): "));
        assert!(say(vec![(3, Some(false)); 10]).is_some());
        assert!(say(vec![(3, None); 9]).is_none(), "too few");
        assert!(say(vec![(3, Some(true)); 10]).is_none(), "all are of it");
        let mut inputs = vec![(3, Some(true)); 10];
        inputs[4] = (3, Some(false));
        assert!(say(inputs.clone()).is_some(), "one is not");
        inputs[9].0 = 4;
        assert!(say(inputs).is_none() && say(Vec::new()).is_none());
    }
}
