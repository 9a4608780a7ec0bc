//! Killed mutants in words.

use npcov::mutate::{ClassScore, MutationReport, OperatorScore};

use crate::number::{count, part, percent};
use crate::table::{Align, Table};
use crate::visible::on_one_line;

/// No more classes are listed than so many.
const CLASSES: usize = 20;

/// Which mutants a suite kills, for people to read.
pub fn mutation(found: &MutationReport) -> String {
    let settings = &found.settings;
    let mut facts = Table::new([Align::Left, Align::Left]);
    facts.row(["inputs", &count(found.inputs)]);
    facts.row([
        "accuracy",
        &format!(
            "{} ({})",
            part(found.correct, found.inputs),
            count(found.correct)
        ),
    ]);
    if !found.labelled {
        facts.row(["", "without labels: what the model says is right"]);
    }
    if let Some(among) = &found.among {
        facts.row(["neurons", among]);
    }
    facts.row([
        "mutants",
        &format!("{}, seed {}", count(found.mutants), settings.seed),
    ]);
    let judge = match &found.judged_by {
        Some(data) => format!(" on {data}"),
        None => String::new(),
    };
    let quality = percent(settings.quality);
    facts.row([
        "that count",
        &format!(
            "{}, with {quality} of the accuracy or more{judge}",
            count(found.counted)
        ),
    ]);
    facts.row(["mutation score", &share(found.score)]);
    facts.row(["killed", &share(found.killed)]);
    let suites: Vec<String> = found
        .suites
        .iter()
        .map(|suite| on_one_line(suite))
        .collect();
    let mut text = format!("{}\n{}", suites.join(", "), facts.lines());
    text += "\nmutants that count: classes that are killed (score), mutants of which one is (killed),\n\
             inputs that they do not classify as labelled (error)\n";
    text += &operators(&found.operators);
    text += "\nclasses, and of how many mutants each is killed\n";
    text += &classes(&found.classes, found.counted);
    text
}

fn operators(scores: &[OperatorScore]) -> String {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Right, Right, Right, Right, Right, Right, Left]);
    table.row([
        "operator", "ratio", "mutants", "count", "score", "killed", "error",
    ]);
    for score in scores {
        table.row([
            score.operator.name().to_owned(),
            score
                .ratio
                .map_or("-".to_owned(), |ratio| ratio.to_string()),
            count(score.mutants),
            count(score.counted),
            share(score.score),
            share(score.killed),
            share(score.error_rate),
            score.operator.words().to_owned(),
        ]);
    }
    table.lines()
}

/// Those of which the fewest mutants are killed come first where there are many.
fn classes(scores: &[ClassScore], mutants: usize) -> String {
    let mut shown: Vec<&ClassScore> = scores.iter().collect();
    if shown.len() > CLASSES {
        shown.sort_by_key(|score| (score.killed, score.class));
        shown.truncate(CLASSES);
    }
    let mut table = Table::new([Align::Right; 4]);
    table.row(["class", "right", "killed", ""]);
    for score in &shown {
        table.row([
            score.class.to_string(),
            count(score.correct),
            count(score.killed),
            part(score.killed, mutants),
        ]);
    }
    let mut text = table.lines();
    let more = scores.len() - shown.len();
    if more > 0 {
        text += &format!(
            "  and {} more, of which more mutants are killed\n",
            count(more)
        );
    }
    text
}

fn share(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_classes_are_cut_to_the_weakest() {
        let score = |class: usize| ClassScore {
            class,
            correct: 1000,
            killed: 100 - class,
        };
        let scores: Vec<ClassScore> = (0..25).map(score).collect();
        let text = classes(&scores, 100);
        assert!(text.contains("   24  1,000      76  76.00%\n"), "{text}");
        assert!(!text.contains("    4  1,000"), "{text}");
        assert!(
            text.ends_with("  and 5 more, of which more mutants are killed\n"),
            "{text}"
        );
    }
}
