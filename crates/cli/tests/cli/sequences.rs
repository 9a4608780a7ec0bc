//! Sequences of different lengths, which a model is told.

use serde_json::Value;

use crate::support::Project;

const CRITERIA: &str = "snpc,anpc,kmnc,bsc,btc,wsc,wtc,sbc:n=2";

/// The same sequences in arrays of four steps and of six, with other numbers behind them: logits are ONNX Runtime's,
/// states and transitions those of the sequences, and so are paths.
#[test]
fn what_is_behind_the_end_of_a_sequence_counts_for_nothing() {
    let project = Project::new();
    let json = |command: &str| -> Value {
        let outcome = project.run(&format!("{command} --format json"));
        assert_eq!(outcome.code, Some(0), "{command}: {}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).unwrap()
    };
    let found = [4, 6].map(|steps| {
        let data = format!("--data sequences/padded-{steps}.npz");
        let model = format!("sequences/padded-{steps}.onnx");
        json(&format!("predict {model} {data} --output logits.npz"));
        let expected = project.rows(&format!("sequences/padded-{steps}.npz"), "expected");
        let logits = project.rows("logits.npz", "logits");
        let pairs = logits.concat().into_iter().zip(expected.concat());
        for (found, expected) in pairs {
            assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
        }
        json(&format!(
            "build {model} {data} --criteria {CRITERIA} -o graph.npcov"
        ));
        let cover = "cover graph.npcov --limit 20 --name suite -o suite.npcov";
        let covered = json(&format!("{cover} {data}"));
        let suite = covered["suites"][0].clone();
        let shares = suite["criteria"].as_object().unwrap();
        assert_eq!(shares.len(), 10, "{shares:?}");
        assert!(shares["bsc"].as_f64().unwrap() < 1.0, "{shares:?}");
        (logits, suite["criteria"].clone(), suite["layers"].clone())
    });
    assert_eq!(found[0], found[1]);
}

/// Logits are ONNX Runtime's. With hardly any stabiliser the seed is what the input has, and what is lost at the state.
#[test]
fn what_is_lost_at_a_state_before_the_first_step_is_said() {
    let project = Project::new();
    let model = "sequences/initial.onnx --data sequences/initial.npz";
    let outcome = project.run(&format!("predict {model} --output logits.npz"));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let expected = project.rows("sequences/initial.npz", "expected").concat();
    let logits = project.rows("logits.npz", "logits").concat();
    for (found, expected) in logits.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
    }
    let explain = format!("explain {model} --rule LSTM=epsilon:0 --index 3 --no-heatmap");
    let found = project.run(&explain);
    assert!(
        found.stdout.contains("lost to the initial state of lstm"),
        "{}",
        found.stdout
    );
    let found = project.run(&format!("{explain} --format json"));
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(found["lost"][0]["name"], "lstm");
    let number = |value: &Value| value.as_f64().unwrap();
    let (lost, input) = (
        number(&found["lost"][0]["sum"]),
        number(&found["input_sum"]),
    );
    let apart = (lost + input - number(&found["seed"])).abs();
    assert!(
        lost != 0.0 && apart < 1e-4 * (lost.abs() + input.abs()),
        "{found}"
    );
    // Of many inputs, shares of the seed.
    let found = project.run(&format!("explain {model} --format json"));
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let share = &found["lost"][0]["lost"];
    assert!(
        number(&share["lowest"]) < number(&share["highest"]),
        "{found}"
    );
    // A state of zeros loses nothing, and nothing is said.
    let zeros =
        project.run("explain sequences/padded-4.onnx --data sequences/padded-4.npz --format json");
    assert!(!zeros.stdout.contains("lost"), "{}", zeros.stdout);
}
