//! Selected inputs and smaller suites in words.

use npcov::select::{Apfd, Chosen, Minimization, Selection, SelectionCoverage};

use crate::coverage::label;
use crate::number::{count, decimals, four_digits, part, worth};
use crate::table::{Align, Table};
use crate::visible::on_one_line;

/// Inputs that are shown one by one; the file has all.
const SHOWN: usize = 10;

/// What was selected, for people to read: what it is worth, and the first inputs.
pub fn selection(selection: &Selection) -> String {
    let mut table = Table::new([Align::Left, Align::Left]);
    let all = count(selection.inputs);
    table.row([
        "selected",
        &format!("{} of {all} inputs", count(selection.chosen.len())),
    ]);
    table.row(["by", &selection.strategy]);
    if let Some(coverage) = &selection.coverage {
        table.row([label(&coverage.criterion), covered(coverage)]);
        if let Some(enough) = coverage.enough {
            let words = match enough == selection.inputs {
                true => "only all inputs cover as much as the pool".to_owned(),
                false => format!("the first {} cover as much as the pool", count(enough)),
            };
            table.row([String::new(), words]);
        }
    }
    if let Some(apfd) = &selection.apfd {
        table.row(["APFD".to_owned(), faults(apfd)]);
    }
    table.row(["written to", &selection.file]);
    let reason = match selection.strategy.split(':').next() {
        Some("additional") => "adds",
        Some("total") => "covers",
        Some("score") => "score",
        _ => "",
    };
    format!(
        "{}\n{}\n{}",
        on_one_line(&selection.data),
        table.lines(),
        first(&selection.chosen, reason, selection.class_names.as_deref())
    )
}

/// A suite that was made smaller, for people to read.
pub fn minimization(minimization: &Minimization) -> String {
    let mut table = Table::new([Align::Left, Align::Left]);
    let (kept, all) = (minimization.chosen.len(), minimization.inputs);
    let words = format!(
        "{} of {} inputs ({})",
        count(kept),
        count(all),
        part(kept, all)
    );
    table.row(["kept", &words]);
    table.row(["written to", &minimization.file]);
    let is_given = minimization.criteria.iter().any(|c| c.given.is_some());
    let mut align = vec![Align::Left];
    align.extend([Align::Right; 4]);
    let mut criteria = Table::new(align);
    let mut heads = vec!["criterion", if is_given { "added" } else { "covered" }];
    heads.extend(is_given.then_some("state"));
    heads.extend(match is_given {
        true => ["with all", "with kept"],
        false => ["before", "after"],
    });
    criteria.row(heads);
    for criterion in &minimization.criteria {
        // What is covered is so together with the state.
        let share = |added: u64| {
            let things = added + criterion.given.unwrap_or(0);
            match criterion.total {
                Some(total) => part(things as usize, total as usize),
                None => count(things as usize),
            }
        };
        let mut cells = vec![label(&criterion.criterion), count(criterion.after as usize)];
        cells.extend(is_given.then(|| share(0)));
        cells.extend([share(criterion.before), share(criterion.after)]);
        criteria.row(cells);
    }
    format!(
        "{}\n{}\ncoverage\n{}\n{}",
        on_one_line(&minimization.data),
        table.lines(),
        criteria.lines(),
        first(
            &minimization.chosen,
            "adds",
            minimization.class_names.as_deref()
        )
    )
}

fn covered(coverage: &SelectionCoverage) -> String {
    let things = count(coverage.covered as usize);
    let share = part(coverage.covered as usize, coverage.pool as usize);
    let pool = count(coverage.pool as usize);
    let mut words = match coverage.given {
        None => format!("{things} covered: {share} of the {pool} that the pool covers"),
        Some(given) => format!(
            "{things} added to the {} of the state: {share} of the {pool} that the pool adds",
            count(given as usize)
        ),
    };
    if let Some(total) = coverage.total {
        let all = coverage.covered + coverage.given.unwrap_or(0);
        let share = part(all as usize, total as usize);
        let together = if coverage.given.is_some() {
            "together "
        } else {
            ""
        };
        words += &format!(", {together}{share} of all {}", count(total as usize));
    }
    words
}

fn faults(apfd: &Apfd) -> String {
    let Some(value) = apfd.value else {
        return "- (no input is misclassified)".to_owned();
    };
    format!(
        "{}, random order {}: {} of the {} misclassified inputs selected",
        decimals(value, 3),
        apfd.random,
        count(apfd.found),
        count(apfd.faults)
    )
}

/// The first inputs, one a line.
fn first(chosen: &[Chosen], reason: &str, class_names: Option<&[String]>) -> String {
    let labelled = chosen.iter().any(|input| input.label.is_some());
    let named = chosen.iter().any(|input| input.sample.is_some());
    let class = |class: i64| {
        let name = usize::try_from(class)
            .ok()
            .and_then(|i| class_names?.get(i));
        name.map_or(class.to_string(), |name| format!("{class} {name}"))
    };
    let mut align = vec![Align::Right, Align::Right];
    align.extend(named.then_some(Align::Left));
    // Names begin where the one above begins, numbers end where it ends.
    let of_class = if class_names.is_some() {
        Align::Left
    } else {
        Align::Right
    };
    align.push(of_class);
    align.extend(labelled.then_some(of_class));
    align.push(Align::Right);
    let mut table = Table::new(align);
    let mut heads = vec!["rank", "input"];
    heads.extend(named.then_some("sample"));
    heads.push("class");
    heads.extend(labelled.then_some("label"));
    heads.extend((!reason.is_empty()).then_some(reason));
    table.row(heads);
    for (i, input) in chosen.iter().take(SHOWN).enumerate() {
        let score = match input.score {
            None => "infinite".to_owned(),
            Some(score) if reason == "score" => four_digits(score),
            Some(score) => worth(score),
        };
        let mut cells = vec![(i + 1).to_string(), input.input.to_string()];
        cells.extend(named.then(|| input.sample.clone().unwrap_or_default()));
        cells.push(class(input.prediction as i64));
        cells.extend(labelled.then(|| input.label.map_or(String::new(), class)));
        cells.extend((!reason.is_empty()).then_some(score));
        table.row(cells);
    }
    match chosen.len() > SHOWN {
        true => format!("the first inputs\n{}", table.lines()),
        false => format!("the inputs\n{}", table.lines()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chosen(input: usize, score: Option<f64>, label: Option<i64>) -> Chosen {
        Chosen {
            sample: None,
            input,
            score,
            prediction: 3,
            label,
        }
    }

    #[test]
    fn scores_of_any_size_are_shown() {
        let found = json!({
            "data": "pool.npz",
            "inputs": 12345,
            "strategy": "score:lsa",
            "file": "out.npz",
            "apfd": { "random": 0.5, "faults": 0, "found": 0 },
            "chosen": [chosen(7, None, Some(4)), chosen(0, Some(0.25), Some(3))],
        });
        let mut found: Selection = serde_json::from_value(found).unwrap();
        let text = selection(&found);
        assert!(text.contains("2 of 12,345 inputs"), "{text}");
        assert!(text.contains("no input is misclassified"), "{text}");
        assert!(
            text.contains("1      7      3      4  infinite\n"),
            "{text}"
        );
        assert!(
            text.contains("2      0      3      3    0.2500\n"),
            "{text}"
        );
        // A random order has no reasons.
        (found.strategy, found.apfd) = ("random".to_owned(), None);
        found.chosen = vec![chosen(7, Some(0.0), None)];
        let text = selection(&found);
        assert!(
            text.ends_with("rank  input  class\n     1      7      3\n"),
            "{text}"
        );
    }

    #[test]
    fn samples_and_classes_have_names() {
        let names = ["bag", "boot", "coat", "dress"].map(str::to_owned);
        let input = Chosen {
            sample: Some("boot/7.png".to_owned()),
            ..chosen(12, Some(5.0), Some(1))
        };
        let text = first(&[input], "adds", Some(&names));
        assert_eq!(
            text,
            "the inputs\n  rank  input  sample      class    label   adds\n     1     12  boot/7.png  3 dress  \
             1 boot     5\n"
        );
    }

    #[test]
    fn coverage_without_a_limit_is_a_count() {
        let found = Minimization {
            data: "suite.npz".to_owned(),
            inputs: 0,
            class_names: None,
            file: "out.npz".to_owned(),
            criteria: vec![npcov::select::MinimizedCriterion {
                criterion: "tknp".to_owned(),
                given: None,
                before: 1200,
                after: 1200,
                total: None,
            }],
            chosen: Vec::new(),
        };
        let text = minimization(&found);
        assert!(text.contains("0 of 0 inputs (-)"), "{text}");
        assert!(
            text.contains("TKNP         1,200   1,200  1,200\n"),
            "{text}"
        );
    }
}
