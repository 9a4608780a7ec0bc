//! Predictions in words.

use npcov::run::{ClassResult, NumberErrors, Predictions, Tolerance};

use crate::number::{count, four_digits, part};
use crate::table::{Align, Table};

/// A confusion table with more columns does not fit a terminal.
const TABLE_CLASSES: usize = 20;
/// Rows of tables that show only the most telling classes.
const SHOWN_CLASSES: usize = 20;

/// How inputs are classified, for people to read: with labels the accuracy and who is taken for
/// whom, without labels how often each class is predicted.
pub fn predictions(found: &Predictions) -> String {
    let mut text = format!("inputs    {}\n", count(found.inputs));
    if let Some(errors) = &found.numbers {
        return text + &numbers(errors) + &histogram(found);
    }
    let Some(correct) = found.correct else {
        return text + &histogram(found);
    };
    text += &format!(
        "accuracy  {} ({} of {})\n",
        part(correct, found.inputs),
        count(correct),
        count(found.inputs)
    );
    text += &match &found.confusion {
        Some(confusion) if confusion.len() <= TABLE_CLASSES => confused(found, confusion),
        _ => worst(found),
    };
    text
}

/// How far numbers are from their labels.
fn numbers(found: &NumberErrors) -> String {
    let mut table = Table::new([Align::Left, Align::Left]);
    let list = |numbers: &[f64]| {
        numbers
            .iter()
            .map(|&x| four_digits(x))
            .collect::<Vec<_>>()
            .join(", ")
    };
    table.row(["mean", &list(&found.mean)]);
    table.row(["reference", &list(&found.reference)]);
    for (name, number) in [
        ("mean absolute error", found.mean_absolute_error),
        ("root mean square error", found.root_mean_square_error),
        ("R2", found.r2),
    ] {
        if let Some(number) = number {
            table.row([name, &four_digits(number)]);
        }
    }
    if let (Some(wrong), Some(tolerance)) = (found.wrong, &found.tolerance) {
        let text = format!(
            "{} (farther than {} from the label)",
            count(wrong),
            match tolerance {
                Tolerance::Same(most) => four_digits(*most),
                Tolerance::ByOutput(most) => list(most),
            }
        );
        table.row(["wrong", &text]);
    }
    if found.outside > 0 {
        let text = format!(
            "{} (beyond all numbers that bins were learnt from)",
            count(found.outside)
        );
        table.row(["out of range", &text]);
    }
    table.lines()
}

fn confused(found: &Predictions, confusion: &[Vec<usize>]) -> String {
    let mut align = vec![Align::Left];
    align.resize(confusion.len() + 2, Align::Right);
    let mut table = Table::new(align);
    let columns = (0..confusion.len()).map(|class| class.to_string());
    table.row(
        ["label".to_owned()]
            .into_iter()
            .chain(columns)
            .chain(["correct".to_owned()]),
    );
    for (class, row) in found.per_class.iter().zip(confusion) {
        // Zeros would hide the few cells that matter.
        let cells = row.iter().map(|&n| match n {
            0 => "·".to_owned(),
            n => n.to_string(),
        });
        let correct = [hits(class)];
        table.row([name(class)].into_iter().chain(cells).chain(correct));
    }
    format!(
        "\nconfusion (a row is a label, a column a prediction)\n{}",
        table.lines()
    )
}

fn worst(found: &Predictions) -> String {
    let mut classes: Vec<&ClassResult> = found
        .per_class
        .iter()
        .filter(|c| c.labelled.is_some_and(|n| n > 0))
        .collect();
    // By correct / labelled, exactly: a/b < c/d where a·d < c·b.
    classes.sort_by(|a, b| {
        let (a_hits, a_all) = (a.correct.unwrap_or(0), a.labelled.unwrap_or(0));
        let (b_hits, b_all) = (b.correct.unwrap_or(0), b.labelled.unwrap_or(0));
        (a_hits as u128 * b_all as u128).cmp(&(b_hits as u128 * a_all as u128))
    });
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["label", "inputs", "predicted", "correct"]);
    for class in classes.iter().take(SHOWN_CLASSES) {
        table.row([
            name(class),
            class.labelled.unwrap_or(0).to_string(),
            class.predicted.to_string(),
            hits(class),
        ]);
    }
    format!(
        "\nclasses{}, least accurate first\n{}",
        shown(classes.len()),
        table.lines()
    )
}

fn histogram(found: &Predictions) -> String {
    let mut classes: Vec<&ClassResult> = found.per_class.iter().collect();
    if classes.len() > SHOWN_CLASSES {
        classes.sort_by_key(|class| std::cmp::Reverse(class.predicted));
    }
    let mut table = Table::new([Align::Left, Align::Right, Align::Right]);
    table.row(["class", "inputs", "share"]);
    for class in classes.iter().take(SHOWN_CLASSES) {
        table.row([
            name(class),
            class.predicted.to_string(),
            part(class.predicted, found.inputs),
        ]);
    }
    format!("\npredictions{}\n{}", shown(classes.len()), table.lines())
}

fn shown(classes: usize) -> String {
    match classes {
        0..=SHOWN_CLASSES => String::new(),
        _ => format!(" ({SHOWN_CLASSES} of {})", count(classes)),
    }
}

fn name(class: &ClassResult) -> String {
    match &class.name {
        Some(name) => format!("{} {name}", class.class),
        None => class.class.to_string(),
    }
}

fn hits(class: &ClassResult) -> String {
    part(class.correct.unwrap_or(0), class.labelled.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(counts: &[(usize, usize)]) -> Predictions {
        let class = |(class, &(correct, labelled)): (usize, &(usize, usize))| ClassResult {
            class,
            name: None,
            predicted: correct,
            labelled: Some(labelled),
            correct: Some(correct),
        };
        let sum = |of: fn(&(usize, usize)) -> usize| counts.iter().map(of).sum();
        Predictions {
            numbers: None,
            data: "data.npz".to_owned(),
            inputs: sum(|c| c.1),
            correct: Some(sum(|c| c.0)),
            accuracy: None,
            per_class: counts.iter().enumerate().map(class).collect(),
            confusion: None,
        }
    }

    #[test]
    fn of_many_classes_the_worst_are_shown() {
        let mut counts = vec![(9, 10); 30];
        counts[7] = (1, 4);
        counts[3] = (1, 2);
        counts[5] = (0, 0);
        let text = predictions(&labelled(&counts));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[3], "classes (20 of 29), least accurate first");
        assert_eq!(
            lines[5].split_whitespace().collect::<Vec<_>>(),
            ["7", "4", "1", "25.00%"]
        );
        assert!(lines[6].starts_with("  3 "), "{text}");
        assert_eq!(lines.len(), 25);
    }

    #[test]
    fn confusion_names_classes_and_leaves_zeros_out() {
        let mut found = labelled(&[(3, 4), (5, 5)]);
        found.confusion = Some(vec![vec![3, 1], vec![0, 5]]);
        found.per_class[0].name = Some("cat".to_owned());
        let text = predictions(&found);
        let table = "  label  0  1  correct\n  0 cat  3  1   75.00%\n  1      ·  5  100.00%\n";
        assert!(text.ends_with(table), "{text}");
    }

    #[test]
    fn no_inputs_have_no_accuracy() {
        let text = predictions(&labelled(&[(0, 0), (0, 0)]));
        assert!(text.contains("accuracy  - (0 of 0)"), "{text}");
    }

    #[test]
    fn without_labels_of_many_classes_the_most_frequent_are_shown() {
        let mut found = labelled(&[(1, 1); 25]);
        (found.correct, found.per_class[24].predicted) = (None, 5);
        let text = predictions(&found);
        assert!(text.contains("(20 of 25)"), "{text}");
        assert!(
            text.lines().nth(4).is_some_and(|l| l.starts_with("  24 ")),
            "{text}"
        );
    }
}
