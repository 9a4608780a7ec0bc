//! Explanations in words.

use npcov::coverage::{PathExplanation, Placement};
use npcov::run::MethodInfo;
use npcov::{
    ClassLogit, Explanation, Explanations, LayerSummary, NeuronRelevance, Spread, TokenRelevance,
};

use crate::number::{count, decimals, four_digits, part, share};
use crate::table::{Align, Table};
use crate::visible;
use crate::visible::on_one_line;

const NO_LAYERS: &str = "no path layers: the model has no hidden activation function, so it has no neurons to rank \
                         and no paths";
const ONE_INPUT: &str = "`--index N` shows what decided of one input, `--output FILE` writes the relevance of all \
                         inputs";

/// Why an input is classified as it is, for people to read.
pub fn explanation(found: &Explanation) -> String {
    let mut facts = Table::new([Align::Left, Align::Left]);
    let class_label = (found.label).map(|label| named(label, found.label_name.as_deref()));
    if let Some(label) =
        (found.number.as_ref()).map_or(class_label, |number| number.label.map(four_digits))
    {
        facts.row(["label", &label]);
    }
    match &found.number {
        Some(number) => {
            let bin = found.prediction.name.as_deref().unwrap_or_default();
            let text = format!(
                "{} (bin {}, {bin})",
                four_digits(number.value),
                found.prediction.class
            );
            facts.row(["prediction", &text]);
            let way = match number.up {
                true => "raises",
                false => "lowers",
            };
            let text = format!(
                "{}: what {way} the number is explained",
                four_digits(number.reference)
            );
            facts.row(["reference", &text]);
        }
        None => {
            facts.row(["prediction", &class(&found.prediction)]);
        }
    }
    if found.explained.class != found.prediction.class {
        facts.row(["explained", &class(&found.explained)]);
    }
    let seed = match (found.seed_is_one, &found.number) {
        (true, None) => "1, because the logit is not positive".to_owned(),
        (true, Some(_)) => "1, because the number is at the reference".to_owned(),
        (false, None) => format!("{}, the logit", four_digits(f64::from(found.seed))),
        (false, Some(_)) => format!(
            "{}, the distance from the reference",
            four_digits(f64::from(found.seed))
        ),
    };
    facts.row(["seed", &seed]);
    facts.row(["method", &method(&found.method)]);
    if let Some(heatmap) = &found.heatmap {
        facts.row(["heat map", heatmap]);
    }

    let mut layers = Table::new([
        Align::Right,
        Align::Left,
        Align::Right,
        Align::Left,
        Align::Right,
        Align::Right,
    ]);
    layers.row(["index", "name", "neurons", "cut", "sum", "of seed"]);
    let of_seed = |sum: f64| match found.seed {
        0.0 => "-".to_owned(),
        seed => share(sum / f64::from(seed)),
    };
    for layer in &found.layers {
        layers.row([
            layer.index.to_string(),
            layer.name.clone(),
            layer.neurons.to_string(),
            yes_or_no(layer.cut),
            four_digits(layer.sum),
            of_seed(layer.sum),
        ]);
    }
    if let Some(sum) = found.input_sum {
        let cells = ["", "the input", "", "yes"].map(str::to_owned);
        layers.row(cells.into_iter().chain([four_digits(sum), of_seed(sum)]));
    }
    for input in &found.inputs {
        let cells = ["".to_owned(), format!("input {}", input.name)];
        let cells = cells.into_iter().chain(["", ""].map(str::to_owned));
        layers.row(cells.chain([four_digits(input.sum), of_seed(input.sum)]));
    }
    for state in &found.lost {
        let cells = ["".to_owned(), lost_at(&state.name)];
        let cells = cells.into_iter().chain(["", ""].map(str::to_owned));
        layers.row(cells.chain([four_digits(state.sum), of_seed(state.sum)]));
    }
    let mut text = format!(
        "input {} of {}\n{}\nrelevance\n{}",
        found.index,
        on_one_line(&found.data),
        facts.lines(),
        layers.lines()
    );

    if found.layers.is_empty() {
        text += &format!("\n{NO_LAYERS}\n");
    }
    if let Some(tokens) = &found.tokens {
        text += &token_lines(tokens);
    }
    if !found.columns.is_empty() {
        let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Right]);
        table.row(["column", "value", "relevance", "of seed"]);
        for column in &found.columns {
            table.row([
                column.name.clone(),
                four_digits(f64::from(column.value)),
                four_digits(f64::from(column.relevance)),
                column.share.map_or("-".to_owned(), share),
            ]);
        }
        text += &format!("\ncolumns, the most relevant first\n{}", table.lines());
    }

    let ranks = found.layers.iter().map(|l| l.top.len()).max().unwrap_or(0);
    if ranks > 0 {
        let mut align = vec![Align::Right];
        align.resize(1 + 3 * ranks, Align::Right);
        let mut table = Table::new(align);
        for layer in &found.layers {
            let cells = layer.top.iter().flat_map(neuron);
            table.row([layer.index.to_string()].into_iter().chain(cells));
        }
        text += "\ntop neurons (layer; then neuron, relevance, share of the seed)\n";
        text += &table.lines();
    }
    if let Some(found) = &found.path {
        text += &path(found);
    }
    text
}

/// The relevance of each token, by its word or its number.
fn token_lines(tokens: &[TokenRelevance]) -> String {
    let mut table = Table::new([Align::Right, Align::Left, Align::Right, Align::Right]);
    for token in tokens {
        let word = token.word.as_deref().map(visible);
        table.row([
            token.position.to_string(),
            word.unwrap_or_else(|| token.id.to_string()),
            four_digits(f64::from(token.relevance)),
            token.share.map_or("-".to_owned(), share),
        ]);
    }
    let lines = table.lines();
    format!("\ntokens (position, token, relevance, share of the seed)\n{lines}")
}

/// The critical decision path, and its place in a decision graph.
fn path(found: &PathExplanation) -> String {
    let mut table = Table::new([Align::Right, Align::Right, Align::Left]);
    for (layer, neurons) in found.layers.iter().enumerate() {
        table.row([
            layer.to_string(),
            neurons.len().to_string(),
            listed(neurons),
        ]);
    }
    let width = share(found.width);
    let mut text = format!(
        "\ncritical decision path, alpha {}, {width} of all neurons (layer, number, neurons)\n{}",
        found.alpha,
        table.lines()
    );
    if let Some(placement) = &found.placement {
        text += &place(placement);
    }
    text
}

/// The neurons, as many as fit on a line.
fn listed(neurons: &[usize]) -> String {
    const SHOWN: usize = 16;
    let mut texts: Vec<String> = neurons.iter().take(SHOWN).map(usize::to_string).collect();
    if neurons.len() > SHOWN {
        texts.push("...".to_owned());
    }
    texts.join(" ")
}

fn place(found: &Placement) -> String {
    let layers = found
        .clusters
        .first()
        .map_or(0, |cluster| cluster.layers.len());
    let mut align = vec![Align::Left, Align::Right, Align::Right, Align::Right];
    align.resize(4 + layers, Align::Right);
    let mut table = Table::new(align);
    let head = ["", "cluster", "inputs", "similarity"].map(str::to_owned);
    table.row(
        head.into_iter()
            .chain((0..layers).map(|layer| layer.to_string())),
    );
    for cluster in &found.clusters {
        let mark = match found.cluster == Some(cluster.cluster) {
            true => "*",
            false => "",
        };
        let cells = [
            mark.to_owned(),
            cluster.cluster.to_string(),
            count(cluster.members),
            share(cluster.similarity),
        ];
        table.row(
            cells
                .into_iter()
                .chain(cluster.layers.iter().map(|&s| share(s))),
        );
    }
    let mut text = format!(
        "\nclusters of its class (* its own; then the similarity of each layer)\n{}",
        table.lines()
    );
    if !found.exemplars.is_empty() {
        let exemplar = |e: &npcov::coverage::Exemplar| {
            let input = e.sample.clone().unwrap_or_else(|| e.input.to_string());
            match e.label {
                Some(label) => format!("{input} (label {})", named(label, e.label_name.as_deref())),
                None => input,
            }
        };
        let exemplars: Vec<String> = found.exemplars.iter().map(exemplar).collect();
        text += &format!(
            "  typical training inputs of it: {}\n",
            exemplars.join(", ")
        );
    }
    let mut scores = Table::new([Align::Left, Align::Right, Align::Left]);
    let meanings = [
        (
            "unfamiliar",
            found.unfamiliar,
            "are as far from what training showed of their class",
        ),
        (
            "contested",
            found.contested,
            "look as much like another class",
        ),
    ];
    for (name, rank, meaning) in meanings {
        if let Some(rank) = rank {
            let usual = |p| format!("{} of usual inputs {meaning}", share(p));
            scores.row([
                name,
                &decimals(rank.score, 3),
                &rank.p.map_or(String::new(), usual),
            ]);
        }
    }
    text + "\nscores\n" + &scores.lines()
}

/// What the explanations of many inputs have in common, for people to read.
pub fn explanations(found: &Explanations) -> String {
    let mut facts = Table::new([Align::Left, Align::Left]);
    facts.row(["inputs", &count(found.inputs)]);
    let class = found
        .class
        .map_or("the predicted one".to_owned(), |c| c.to_string());
    facts.row(["class", &class]);
    if found.method.rule.is_some() {
        let ones = match found.seed_is_one {
            0 => "none".to_owned(),
            n => format!("{} (the logit is not positive)", count(n)),
        };
        facts.row(["seed is 1", &ones]);
    }
    facts.row(["method", &method(&found.method)]);

    let mut layers = Table::new([
        Align::Right,
        Align::Left,
        Align::Right,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ]);
    layers.row([
        "index",
        "name",
        "neurons",
        "cut",
        "mean",
        "lowest",
        "highest",
        "most often on top",
    ]);
    let spread = |spread: Option<Spread>| match spread {
        Some(s) => [s.mean, s.lowest, s.highest].map(share),
        None => ["-"; 3].map(str::to_owned),
    };
    for layer in &found.layers {
        let first = [
            layer.index.to_string(),
            layer.name.clone(),
            layer.neurons.to_string(),
            yes_or_no(layer.cut),
        ];
        layers.row(
            first
                .into_iter()
                .chain(spread(layer.conserved))
                .chain([on_top(layer, found.inputs)]),
        );
    }
    for state in &found.lost {
        let first = ["".to_owned(), lost_at(&state.name)];
        let first = first.into_iter().chain(["", ""].map(str::to_owned));
        layers.row(first.chain(spread(state.lost)));
    }
    if found.layers.is_empty() {
        return format!(
            "{}\n{}\n{NO_LAYERS}\n{ONE_INPUT}\n",
            on_one_line(&found.data),
            facts.lines()
        );
    }
    format!(
        "{}\n{}\nrelevance (sum of a layer as a share of the seed; neurons by inputs)\n{}",
        on_one_line(&found.data),
        facts.lines(),
        layers.lines()
    )
}

/// Where relevance is nobody's: a constant state of a recurrent layer.
fn lost_at(layer: &str) -> String {
    format!("lost to the initial state of {layer}")
}

fn on_top(layer: &LayerSummary, inputs: usize) -> String {
    let neuron = |n: &npcov::NeuronCount| format!("{} ({})", n.neuron, part(n.inputs, inputs));
    let neurons: Vec<String> = layer.top.iter().map(neuron).collect();
    neurons.join(", ")
}

fn neuron(neuron: &NeuronRelevance) -> [String; 3] {
    [
        neuron.neuron.to_string(),
        four_digits(f64::from(neuron.relevance)),
        neuron.share.map_or("-".to_owned(), share),
    ]
}

fn class(found: &ClassLogit) -> String {
    let logit = four_digits(f64::from(found.logit));
    format!(
        "{}, logit {logit}",
        named(found.class, found.name.as_deref())
    )
}

/// A class, with its name where it has one.
fn named(class: impl std::fmt::Display, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{class} {name}"),
        None => class.to_string(),
    }
}

/// The way relevances are computed, on one line.
fn method(method: &MethodInfo) -> String {
    let Some(rule) = &method.rule else {
        return method.attribution.clone();
    };
    let mut words = vec![format!("{} {rule}", method.attribution)];
    let overrides = method.overrides.iter();
    words.extend(overrides.map(|at| format!("{}={}", at.place, at.rule)));
    if let Some(bias) = &method.bias {
        words.push(format!("bias {bias}"));
    }
    words.push(format!("batch norm {}", method.batch_norm));
    words.join(", ")
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found() -> Explanation {
        let found = json!({
            "data": "data.npz",
            "index": 7,
            "prediction": { "class": 1, "logit": 2.5 },
            "explained": { "class": 0, "logit": -3.0 },
            "seed": 1.0,
            "seed_is_one": true,
            "method": {
                "attribution": "lrp",
                "rule": "epsilon:1e-6",
                "overrides": [],
                "bias": "ignore",
                "batch_norm": "identity",
            },
            "layers": [{
                "index": 0,
                "name": "relu",
                "neurons": 2,
                "cut": true,
                "sum": 0.995,
                "top": [{ "neuron": 1, "relevance": 1.25, "share": 1.25 }],
            }],
        });
        serde_json::from_value(found).unwrap()
    }

    #[test]
    fn another_class_and_a_seed_of_one_are_said() {
        let text = explanation(&found());
        assert!(text.contains("  explained   0, logit -3.000\n"), "{text}");
        assert!(text.contains("  seed        1, because"), "{text}");
        assert!(
            text.contains("  0  relu        2  yes  0.9950    99.5%\n"),
            "{text}"
        );
        assert!(text.ends_with("  0  1  1.250  125.0%\n"), "{text}");
    }

    #[test]
    fn without_a_seed_there_are_no_shares() {
        let mut found = found();
        (found.seed, found.seed_is_one) = (0.0, false);
        found.layers[0].top[0].share = None;
        assert!(explanation(&found).ends_with("  0  1  1.250  -\n"));
    }

    #[test]
    fn without_inputs_nothing_is_conserved() {
        let found = Explanations {
            data: "data.npz".to_owned(),
            inputs: 0,
            class: Some(3),
            seed_is_one: 0,
            method: found().method,
            layers: vec![LayerSummary {
                index: 0,
                name: "relu".to_owned(),
                neurons: 2,
                cut: false,
                conserved: None,
                top: Vec::new(),
            }],
            lost: Vec::new(),
        };
        let text = explanations(&found);
        assert!(
            text.contains("class      3\n") && text.contains("seed is 1  none"),
            "{text}"
        );
        assert!(text.ends_with("no      -       -        -\n"), "{text}");
    }
}
