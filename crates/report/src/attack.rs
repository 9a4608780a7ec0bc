//! Attacks in words.

use npcov::attack::{AttackMethod, AttackNorm, AttackReport, CarliniWagner, Pgd};

use crate::number::{count, four_digits, part};
use crate::table::{Align, Table};
use crate::visible::on_one_line;

/// How an attack went, for people to read.
pub fn attack(found: &AttackReport) -> String {
    let mut facts = Table::new([Align::Left, Align::Left]);
    let settings = &found.settings;
    facts.row(["attack", &method(&settings.method, settings.seed)]);
    facts.row(["inputs", &count(found.inputs)]);
    let accuracy = |correct: usize| {
        let share = part(correct, found.inputs);
        format!("{share} ({})", count(correct))
    };
    facts.row([
        "accuracy",
        &format!(
            "{} before, {} after",
            accuracy(found.correct_before),
            accuracy(found.correct_after)
        ),
    ]);
    if !found.labelled {
        facts.row(["", "without labels: against what was predicted before"]);
    }
    facts.row([
        "success",
        &format!(
            "{} ({} of {} that were classified as labelled)",
            part(found.successes, found.correct_before),
            count(found.successes),
            count(found.correct_before)
        ),
    ]);
    if let Some(distance) = found.distance {
        facts.row([
            "distance",
            &format!(
                "largest pixel {}, length {} (means of the successes)",
                four_digits(distance.maximum),
                four_digits(distance.euclidean)
            ),
        ]);
    }
    if let (Some(activity), Some(diversity)) = (&found.diversity, settings.diversity) {
        facts.row([
            "activity",
            &format!(
                "lambda {}, layer {} ({}): divergence {} before, {} after",
                diversity.lambda,
                diversity.layer,
                activity.layer,
                four_digits(activity.before),
                four_digits(activity.after)
            ),
        ]);
    }
    format!("{}\n{}", on_one_line(&found.data), facts.lines())
}

fn method(method: &AttackMethod, seed: u64) -> String {
    match method {
        AttackMethod::Pgd(pgd) => descent(pgd, seed),
        AttackMethod::CarliniWagner(cw) => smallest(cw),
    }
}

fn descent(pgd: &Pgd, seed: u64) -> String {
    let Pgd { epsilon, step, .. } = pgd;
    if *pgd == Pgd::fast(*epsilon) {
        return format!("fgsm: one step, no pixel by more than {epsilon}");
    }
    let (name, limit) = match pgd.norm {
        AttackNorm::Maximum => ("pgd", format!("no pixel by more than {epsilon}")),
        AttackNorm::Euclidean => ("pgd-l2", format!("no input by more than {epsilon}")),
    };
    let start = match pgd.random_start {
        true => format!(", random start of seed {seed}"),
        false => String::new(),
    };
    format!("{name}: {} of {step}, {limit}{start}", steps(pgd.steps))
}

fn smallest(cw: &CarliniWagner) -> String {
    let name = match cw.norm {
        AttackNorm::Maximum => "cw-linf",
        AttackNorm::Euclidean => "cw",
    };
    let rounds = match cw.rounds {
        1 => "1 round".to_owned(),
        rounds => format!("{} rounds", count(rounds)),
    };
    let confidence = match cw.confidence {
        0.0 => String::new(),
        confidence => format!(", confidence {confidence}"),
    };
    format!(
        "{name}: {rounds} of {} at most{confidence}",
        steps(cw.steps)
    )
}

fn steps(steps: usize) -> String {
    match steps {
        1 => "1 step".to_owned(),
        steps => format!("{} steps", count(steps)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov::attack::{AttackOptions, Diversity, DiversityReport};
    use serde_json::json;

    fn report(method: AttackMethod) -> AttackReport {
        let report = json!({
            "data": "test.npz",
            "settings": AttackOptions::from(method),
            "inputs": 1000,
            "labelled": true,
            "correct_before": 800,
            "correct_after": 100,
            "successes": 700,
            "success_rate": 0.875,
            "distance": { "maximum": 0.1, "euclidean": 1.5 },
        });
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn before_and_after() {
        let mut found = report(AttackMethod::Pgd(Pgd::maximum(0.1)));
        let text = attack(&found);
        assert_eq!(
            text,
            "test.npz\n  \
             attack    pgd: 40 steps of 0.01, no pixel by more than 0.1, random start of seed 0\n  \
             inputs    1,000\n  \
             accuracy  80.00% (800) before, 10.00% (100) after\n  \
             success   87.50% (700 of 800 that were classified as labelled)\n  \
             distance  largest pixel 0.1000, length 1.500 (means of the successes)\n"
        );
        found.labelled = false;
        found.distance = None;
        found.settings.diversity = Some(Diversity {
            layer: 2,
            lambda: 10.0,
        });
        found.diversity = Some(DiversityReport {
            layer: "relu".to_owned(),
            before: 1.25,
            after: 0.5,
        });
        let text = attack(&found);
        assert!(
            text.contains("without labels") && !text.contains("distance"),
            "{text}"
        );
        let line = "lambda 10, layer 2 (relu): divergence 1.250 before, 0.5000 after";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn methods() {
        let text = |m| method(&m, 7);
        let fast = AttackMethod::Pgd(Pgd::fast(0.25));
        assert_eq!(text(fast), "fgsm: one step, no pixel by more than 0.25");
        let one = Pgd {
            steps: 1,
            random_start: false,
            ..Pgd::euclidean(2.0)
        };
        let one = AttackMethod::Pgd(one);
        assert_eq!(text(one), "pgd-l2: 1 step of 0.2, no input by more than 2");
        let cw = AttackMethod::CarliniWagner(CarliniWagner::euclidean());
        assert_eq!(text(cw), "cw: 9 rounds of 1,000 steps at most");
        let confident = CarliniWagner {
            confidence: 20.0,
            rounds: 1,
            ..CarliniWagner::maximum()
        };
        let confident = AttackMethod::CarliniWagner(confident);
        assert_eq!(
            text(confident),
            "cw-linf: 1 round of 1,000 steps at most, confidence 20"
        );
    }
}
