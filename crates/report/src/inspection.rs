//! A model in words.

use npcov::{Batching, EndingKind, Inspection, Port};

use crate::number::count;
use crate::table::{Align, Table};
use crate::visible::on_one_line;

/// What is inside a model, for people to read.
pub fn inspection(found: &Inspection) -> String {
    let mut facts = Table::new([Align::Left, Align::Left]);
    facts.row(["producer", or_unknown(&found.producer)]);
    facts.row(["opset", &found.opset.to_string()]);
    for input in &found.inputs {
        facts.row(["input", &port(input)]);
    }
    for output in &found.outputs {
        let meaning = output.ending.map_or(String::new(), |e| {
            format!(", {}", ending(e, found.classes.unwrap_or(0)))
        });
        facts.row(["output", &format!("{}{meaning}", port(output))]);
    }
    facts.row(["parameters", &count(found.parameters)]);
    facts.row(["batch norm", &batch_norm(found)]);
    if found.quantised > 0 {
        let nodes = count(found.quantised);
        let text = format!("{nodes} nodes, computed on the numbers that the integers stand for");
        facts.row(["quantised", &text]);
    }
    if let Some(batch) = found.batch {
        facts.row(["batch", &batching(batch)]);
    }

    let mut operators = Table::new([Align::Left, Align::Right]);
    for (operator, count) in &found.operators {
        operators.row([operator.as_str(), &count.to_string()]);
    }
    let mut text = format!(
        "{}\n{}\noperators\n{}",
        on_one_line(&found.file),
        facts.lines(),
        operators.lines()
    );
    if !found.path_layers.is_empty() {
        text += "\npath layers\n";
        text += &path_layers(found);
    } else if found.problem.is_none() {
        text += "\npath layers\n  none: the model has no hidden activation function\n";
        if !found.nameable.is_empty() {
            let names = found.nameable.iter().map(|name| on_one_line(name));
            let names: Vec<String> = names.map(|name| format!("    {name}\n")).collect();
            text += "  `--layers NAME` makes one of these nodes a path layer, for example:\n";
            text += &names.concat();
        }
    }
    if !found.unsupported.is_empty() {
        let mut table = Table::new([Align::Left; 3]);
        table.row(["node", "operator", "reason"]);
        for node in &found.unsupported {
            table.row([&node.node, &node.op, &node.reason]);
        }
        text += "\nunsupported\n";
        text += &table.lines();
    }
    text
}

fn path_layers(found: &Inspection) -> String {
    let mut table = Table::new([
        Align::Right,
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Left,
    ]);
    table.row(["index", "name", "operator", "neurons", "cut"]);
    for layer in &found.path_layers {
        table.row([
            layer.index.to_string().as_str(),
            &layer.name,
            &layer.op,
            &layer.neurons.to_string(),
            if layer.cut { "yes" } else { "no" },
        ]);
    }
    let neurons = found.path_layers.iter().map(|l| l.neurons).sum();
    let layers = match found.path_layers.len() {
        1 => "1 layer".to_owned(),
        layers => format!("{layers} layers"),
    };
    format!("{}  {layers}, {} neurons\n", table.lines(), count(neurons))
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

pub(crate) fn port(port: &Port) -> String {
    let dtype = port.dtype.as_deref().unwrap_or("not numbers");
    let shape = match &port.shape {
        None => "shape unknown".to_owned(),
        Some(shape) if shape.is_empty() => "scalar".to_owned(),
        Some(shape) => shape
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("x"),
    };
    format!("{} ({dtype}, {shape})", port.name)
}

fn ending(ending: EndingKind, classes: usize) -> String {
    match ending {
        EndingKind::Logits if classes == 1 => {
            "one logit of 2 classes, or a number: labels tell, or `--task`".to_owned()
        }
        EndingKind::Logits => format!("logits of {classes} classes"),
        EndingKind::Softmax => format!("softmax over {classes} classes"),
        EndingKind::LogSoftmax => format!("log-softmax over {classes} classes"),
        EndingKind::Sigmoid => "sigmoid of one logit: 2 classes".to_owned(),
        EndingKind::Smallest => format!("scores of {classes} classes, the smallest counts"),
        EndingKind::Numbers => "numbers".to_owned(),
    }
}

fn batch_norm(found: &Inspection) -> String {
    let count = |operator| found.operators.get(operator).copied().unwrap_or(0);
    match (count("BatchNormalization"), count("Conv")) {
        (0, 0) => "none".to_owned(),
        (0, _) => "none (exporters fold it into the convolutions by default)".to_owned(),
        (1, _) => "1 node".to_owned(),
        (nodes, _) => format!("{nodes} nodes"),
    }
}

fn batching(batch: Batching) -> String {
    match (batch.declared, batch.graph) {
        (None, _) => "open".to_owned(),
        (Some(1), _) => "fixed at 1".to_owned(),
        (Some(declared), 1) => format!("fixed at {declared}; run input by input, checked"),
        (Some(declared), _) => format!("fixed at {declared}; run {declared} inputs at a time"),
    }
}
