//! `npcov explain`.

use insta::assert_snapshot;
use serde_json::Value;

use crate::onnx::{model, node, with_floats, with_ints};
use crate::support::Project;

const FASHION: &str = "--data fashion-1000.npz --divide 255";

#[test]
fn one_input() {
    let project = Project::new();
    assert_snapshot!(project.snapshot(&format!("explain resnet8.onnx {FASHION} --index 0")));
    let png = std::fs::read(project.path("fashion-1000-0-heatmap.png")).unwrap();
    // Width and height stand at bytes 16 and 20: twice 28 pixels, eight times enlarged, in a frame.
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
    assert_eq!(png[16..24], [0, 0, 1, 216, 0, 0, 0, 240]);
}

#[test]
fn all_inputs() {
    let project = Project::new();
    let command = format!("explain lenet.onnx {FASHION} --limit 100 --top 3");
    assert_snapshot!(project.snapshot(&command));
}

#[test]
fn json() {
    let project = Project::new();
    let command = format!("explain lenet.onnx {FASHION} --layers 0,-1 --top 2 --format json");
    let one = project.run(&format!("{command} --index 1 --heatmap why.png"));
    assert_snapshot!(rounded(&one.stdout));
    assert!(project.path("why.png").exists());
    let all = project.run(&format!("{command} --limit 20"));
    assert_snapshot!(rounded(&all.stdout));
}

/// A document with four digits of each number.
fn rounded(json: &str) -> String {
    fn round(value: &mut Value) {
        match value {
            Value::Number(number) if number.is_f64() => {
                let digits = format!("{:.3e}", number.as_f64().unwrap());
                *value = digits.parse::<f64>().unwrap().into();
            }
            Value::Array(values) => values.iter_mut().for_each(round),
            Value::Object(fields) => fields.values_mut().for_each(round),
            _ => {}
        }
    }
    let mut value: Value = serde_json::from_str(json).unwrap();
    round(&mut value);
    format!("{value:#}")
}

/// The logit of a class that is not predicted is often negative.
#[test]
fn another_class_and_a_logit_that_is_not_positive() {
    let project = Project::new();
    let command = format!("explain lenet.onnx {FASHION} --class 0 --no-heatmap");
    assert_snapshot!(project.snapshot(&format!("{command} --index 0")));
    assert!(!project.path("fashion-1000-0-heatmap.png").exists());
}

#[test]
fn gradients() {
    let project = Project::new();
    let command = format!("explain lenet.onnx {FASHION} --attribution gradient-input");
    assert_snapshot!(project.snapshot(&format!("{command} --limit 20")));
    assert_snapshot!(project.snapshot(&format!("{command} --index 0 --no-heatmap --top 2")));
}

#[test]
fn the_output_holds_relevances() {
    let project = Project::new();
    let command = format!("explain lenet.onnx {FASHION} --output out.npz");
    let outcome = project.run(&format!("{command} --limit 30 --input-relevance"));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let logits = project.rows("out.npz", "logits");
    let prediction = project.rows("out.npz", "prediction");
    let layers = ["0", "1", "2", "input"];
    let layers = layers.map(|l| project.rows("out.npz", &format!("relevance.{l}")));
    assert_eq!(layers.each_ref().map(|l| l[0].len()), [6, 12, 64, 784]);
    for row in 0..30 {
        let logit = logits[row][prediction[row][0] as usize];
        // All path layers are cut layers, and biases are ignored.
        for layer in &layers[..3] {
            let sum: f32 = layer[row].iter().sum();
            assert!(
                (sum - logit).abs() < 1e-3 * logit.abs(),
                "{sum} for {logit}"
            );
        }
    }
    // One input by itself gives the bits that it has among others.
    let outcome = project.run(&format!("{command} --index 17 --no-heatmap"));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(
        project.rows("out.npz", "relevance.1"),
        [layers[1][17].clone()]
    );
    assert_eq!(
        project.rows("out.npz", "relevance.input"),
        [layers[3][17].clone()]
    );
    // Without being asked for, it is not there.
    let outcome = project.run(&format!("{command} --limit 2"));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let bytes = std::fs::read(project.path("out.npz")).unwrap();
    let name = b"relevance.input";
    assert!(!bytes.windows(name.len()).any(|w| w == name));
}

#[test]
fn any_number_of_threads_and_little_memory_give_the_same_bytes() {
    let project = Project::new();
    let outputs = ["--threads 1", "--threads 3", "--engine native:1"].map(|how| {
        let outcome = project.run(&format!(
            "explain mobilenet.onnx {FASHION} --limit 100 {how} --output out.npz"
        ));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        (
            outcome.stdout,
            std::fs::read(project.path("out.npz")).unwrap(),
        )
    });
    assert!(outputs[0] == outputs[1] && outputs[0] == outputs[2]);
}

/// The first layer of a chain of rules decides about the input alone.
#[test]
fn rules_are_applied_where_they_are_given() {
    let project = Project::new();
    let relevances = |rules: &str| {
        let command = format!("explain lenet.onnx {FASHION} --limit 3 --input-relevance {rules}");
        let outcome = project.run(&format!("{command} --output out.npz"));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let layers = ["input", "0", "2"];
        layers.map(|l| project.rows("out.npz", &format!("relevance.{l}")))
    };
    let default = relevances("");
    assert_eq!(default, relevances("--rule alpha-beta:0.5"));
    assert_eq!(default, relevances("--preset npc --bias ignore"));
    let flat = relevances("--rule first=flat");
    assert_ne!(default[0], flat[0]);
    assert_eq!(default[1..], flat[1..]);
    assert_eq!(flat, relevances("--rule /0/Conv=flat"));
    let dense = relevances("--rule Gemm=epsilon:0.01");
    assert_ne!(default[2], dense[2]);
}

#[test]
fn what_is_no_image_has_no_heat_map() {
    let project = Project::new();
    let nodes = [node("Relu", &["x"], "relu"), node("Neg", &["relu"], "y")];
    project.write("net.onnx", model(&[("x", "Nx3")], &nodes, &[("y", "Nx3")]));
    project.npz("data.npz", &[3], &[1.0, 2.0, 3.0], &[2]);
    assert_snapshot!(
        project.snapshot("explain net.onnx --data data.npz --index 0 --rule Neg=identity")
    );
}

/// A model that takes flat numbers is shown as the image that the data is.
#[test]
fn flat_models_have_heat_maps_of_images() {
    let project = Project::new();
    let outcome = project.run(&format!("explain mlp-matlab.onnx {FASHION} --index 2"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    assert!(project.path("fashion-1000-2-heatmap.png").exists());
}

#[test]
fn every_fixture_is_explained() {
    let project = Project::new();
    for entry in std::fs::read_dir(crate::support::fixtures()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".onnx") {
            continue;
        }
        let data = match name.as_str() {
            "prices.onnx" => "--data prices-test.csv --label-column price".to_owned(),
            "two-inputs.onnx" => format!("{FASHION} --input mask=1"),
            "distances.onnx" => format!("{FASHION} --task classification:argmin"),
            "one-logit.onnx" => format!("{FASHION} --task classification"),
            "two-numbers.onnx" => format!("{FASHION} --task regression:0"),
            _ => FASHION.to_owned(),
        };
        let command = format!("explain {name} {data} --limit 20 --format json");
        let outcome = project.run(&command);
        assert_eq!(outcome.code, Some(0), "{name}: {}", outcome.stderr);
        let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
        for layer in result["layers"].as_array().unwrap() {
            if layer["cut"] == true {
                let mean = layer["conserved"]["mean"].as_f64().unwrap();
                assert!((mean - 1.0).abs() < 0.01, "{name}: {layer}");
            }
        }
    }
}

/// Contributions to the first class are 4, 1 and -1, its logit is 4: by alpha-beta with 0.5, positive ones share 1.5 of
/// it, negative ones -0.5.
#[test]
fn a_linear_model_is_explained_by_its_inputs() {
    let project = Project::new();
    let weights = with_floats(
        node("Constant", &[], "list"),
        "value_floats",
        &[2.0, -1.0, 0.5, 1.0, 1.0, 3.0],
    );
    let nodes = [
        weights,
        with_ints(node("Constant", &[], "shape"), "value_ints", &[3, 2]),
        node("Reshape", &["list", "shape"], "weights"),
        node("MatMul", &["x", "weights"], "y"),
    ];
    project.write(
        "linear.onnx",
        model(&[("x", "Nx3")], &nodes, &[("y", "Nx2")]),
    );
    project.write("data.csv", "age,height,weight\n2,2,-1\n");
    project.npz("data.npz", &[3], &[2.0, 2.0, -1.0], &[0]);
    let shares = |arguments: &str| {
        let command = format!("explain linear.onnx --index 0 --format json {arguments}");
        let outcome = project.run(&command);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let columns = result["columns"].as_array().unwrap().iter();
        let column = |column: &Value| {
            let relevance = column["relevance"].as_f64().unwrap();
            let name = column["name"].as_str().unwrap().to_owned();
            (name, (relevance * 1e3).round() / 1e3)
        };
        columns.map(column).collect::<Vec<_>>()
    };
    let named = |names: [&str; 3], relevances: [f64; 3]| -> Vec<(String, f64)> {
        names
            .map(str::to_owned)
            .into_iter()
            .zip(relevances)
            .collect()
    };
    let split = [4.8, -2.0, 1.2];
    assert_eq!(
        shares("--data data.csv"),
        named(["age", "weight", "height"], split)
    );
    assert_eq!(shares("--data data.npz"), named(["0", "2", "1"], split));
    assert_eq!(
        shares("--data data.csv --rule epsilon"),
        named(["age", "height", "weight"], [4.0, 1.0, -1.0])
    );
    assert_snapshot!(
        project.snapshot("explain linear.onnx --data data.csv --index 0 --no-heatmap")
    );
    assert_snapshot!(project.snapshot("explain linear.onnx --data data.csv"));
    // There are neither neurons for a path nor for a mask, and relevance of the input was not asked for.
    for without in [
        "explain linear.onnx --data data.csv --alpha 0.8",
        "compile linear.onnx --program mask -o out.onnx",
        "compile linear.onnx --program explain -o out.onnx",
    ] {
        let outcome = project.run(without);
        assert_eq!(outcome.code, Some(2), "{without}");
        assert!(
            outcome.stderr.contains("it has no path layers"),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn errors() {
    let project = Project::new();
    let nodes = [node("Neg", &["x"], "y")];
    project.write("net.onnx", model(&[("x", "Nx2")], &nodes, &[("y", "Nx2")]));
    let nodes = [
        node("Relu", &["x"], "r"),
        node("Softmax", &["r"], "s"),
        node("Neg", &["s"], "y"),
    ];
    project.write(
        "inner.onnx",
        model(&[("x", "Nx2")], &nodes, &[("y", "Nx2")]),
    );
    project.npz("data.npz", &[2], &[1.0, 2.0, 2.0, 1.0], &[0, 1]);
    for (name, arguments) in [
        ("class", format!("lenet.onnx {FASHION} --class 10")),
        ("rule", format!("lenet.onnx {FASHION} --rule Conv=omega")),
        (
            "rule_number",
            format!("lenet.onnx {FASHION} --rule epsilon:-1"),
        ),
        ("preset", format!("lenet.onnx {FASHION} --preset best")),
        (
            "place",
            format!("lenet.onnx {FASHION} --rule Conv3=zplus --rule /x/*=flat"),
        ),
        ("index", format!("lenet.onnx {FASHION} --index 1000")),
        ("no_rule", "inner.onnx --data data.npz --index 0".to_owned()),
        (
            "no_layers",
            "net.onnx --data data.npz --layers 0".to_owned(),
        ),
        (
            "rules_for_gradients",
            format!("lenet.onnx {FASHION} --attribution gradient-input --rule zplus"),
        ),
        (
            "heatmap_of_all",
            format!("lenet.onnx {FASHION} --heatmap all.png"),
        ),
        (
            "heatmap_folder",
            format!("lenet.onnx {FASHION} --index 0 --heatmap no/x.png"),
        ),
        (
            "over_an_input",
            format!("lenet.onnx {FASHION} --index 0 --heatmap lenet.onnx"),
        ),
    ] {
        let snapshot = project.snapshot(&format!("explain {arguments}"));
        assert!(snapshot.contains("exit code: 2"), "{snapshot}");
        assert_snapshot!(format!("error_{name}"), snapshot);
    }
}

/// The gradient of a root is infinite at 0.
#[test]
fn relevances_that_are_no_numbers() {
    let project = Project::new();
    let nodes = [node("Relu", &["x"], "relu"), node("Sqrt", &["relu"], "y")];
    project.write("net.onnx", model(&[("x", "Nx2")], &nodes, &[("y", "Nx2")]));
    let mut x = vec![1.0; 80];
    x[74..76].fill(-1.0);
    project.npz("data.npz", &[2], &x, &[]);
    let command = "explain net.onnx --data data.npz --attribution gradient-input --output out.npz";
    assert_snapshot!(project.snapshot(command));
    assert!(!project.path("out.npz").exists());
}

/// Eight inputs of four numbers of tokens, and a model that knows `WORDS` of them.
fn tokens(project: &Project, ids: &[i64]) {
    let table: Vec<f32> = (0..5 * 3)
        .map(|i| ((i * 7) % 11) as f32 / 5.0 - 1.0)
        .collect();
    let out: Vec<f32> = (0..3 * 2)
        .map(|i| ((i * 5) % 7) as f32 / 3.0 - 1.0)
        .collect();
    let graph = {
        use npcov::graph::op::{Gather, Reduce, ReduceKind, Unary};
        use npcov::graph::{DType, Data, Graph, Op, Tensor, TensorType};
        let mut graph = Graph::new();
        let x = graph.add_input("ids", TensorType::new(DType::I64, [1, 4]));
        let table = Tensor::new([5, 3], Data::F32(table)).unwrap();
        let table = graph.add_constant("table", table);
        let out = graph.add_constant("out", Tensor::new([3, 2], Data::F32(out)).unwrap());
        let rows = graph.push("rows", Op::Gather(Gather { axis: 0 }), &[table, x]);
        let hidden = graph.push("relu", Op::Unary(Unary::Relu), &[rows.unwrap()]);
        let mean = Reduce {
            kind: ReduceKind::Mean,
            axes: vec![1],
            keep_dims: false,
        };
        let mean = graph.push("mean", Op::Reduce(mean), &[hidden.unwrap()]);
        let y = graph
            .push("logits", Op::MatMul, &[mean.unwrap(), out])
            .unwrap();
        graph.set_outputs(vec![y]);
        graph.to_onnx().unwrap()
    };
    project.write("words.onnx", graph);
    project.npz_ints("ids.npz", &[4], ids);
}

#[test]
fn tokens_have_relevances() {
    let project = Project::new();
    tokens(&project, &[0, 1, 2, 3, 4, 4, 1, 0]);
    project.write("vocabulary.txt", "the\nquick\nbrown\nfox\njumps\n");
    let command = "explain words.onnx --data ids.npz --index 0";
    assert_snapshot!("tokens_by_number", project.snapshot(command));
    let named = format!("{command} --vocabulary vocabulary.txt");
    assert_snapshot!("tokens_by_word", project.snapshot(&named));
    let json = project.run(&format!("{named} --format json"));
    let result: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(result["tokens"][1]["word"], "quick");
    let sum: f64 = (result["tokens"].as_array().unwrap().iter())
        .map(|token| token["relevance"].as_f64().unwrap())
        .sum();
    let seed = result["seed"].as_f64().unwrap();
    assert!((sum - seed).abs() < 1e-3 * seed, "{result}");
}

#[test]
fn tokens_that_the_model_does_not_know_are_errors_with_their_row() {
    for (id, row) in [(5, 1), (-1, 1), (1 << 40, 1)] {
        let project = Project::new();
        tokens(&project, &[0, 1, 2, 3, 4, id, 1, 0]);
        for command in ["predict", "explain"] {
            let outcome = project.run(&format!("{command} words.onnx --data ids.npz"));
            assert_eq!(outcome.code, Some(2));
            let expected = format!("input {row}: token 1 has the number");
            assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);
        }
    }
}
