//! A decision graph in words.

use npcov::coverage::{BuiltPart, ClassInspection, GraphInspection};

use crate::number::{count, share, short};
use crate::parts;
use crate::table::{Align, Table};
use crate::visible::on_one_line;

/// A part of a decision graph that was built, for people to read.
pub fn built_part(built: &BuiltPart) -> String {
    let mut facts = Table::new([Align::Left, Align::Left]);
    facts.row(["inputs", &parts::rows(built.start, built.end)]);
    if built.calibration > 0 {
        facts.row(["for calibration", &count(built.calibration)]);
    }
    format!("part {} in {}\n{}", built.part, built.folder, facts.lines())
}

/// What is inside a decision graph, for people to read.
pub fn decision_graph(found: &GraphInspection) -> String {
    let mut facts = Table::new([Align::Left, Align::Left]);
    let extraction = &found.extraction;
    facts.row(["model", &extraction.model.file]);
    facts.row(["training data", &found.data]);
    let members = match found.members == found.inputs {
        true => count(found.inputs),
        false => format!(
            "{}, {} in clusters",
            count(found.inputs),
            count(found.members)
        ),
    };
    facts.row(["inputs", &members]);
    let layers = extraction.layers.len();
    let neurons = extraction.layers.iter().map(|layer| layer.neurons).sum();
    facts.row([
        "path layers",
        &format!("{layers} with {} neurons", count(neurons)),
    ]);
    let same = |of: fn(&ClassInspection) -> f64| {
        let mut values: Vec<f64> = found.classes.iter().map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        let texts: Vec<String> = values.iter().map(f64::to_string).collect();
        texts.join(", ")
    };
    facts.row(["alpha", &same(|class| class.alpha)]);
    facts.row(["beta", &same(|class| class.beta)]);
    facts.row(["width of paths", &share(found.width)]);
    facts.row(["width of abstract paths", &share(found.abstract_width)]);
    let bounds: Vec<String> = found.anpc.layers.iter().map(|b| short(b.upper)).collect();
    let source = match found.anpc.quantile {
        Some(quantile) => format!(" ({} of training distances)", share(quantile)),
        None => String::new(),
    };
    let alike = bounds.windows(2).all(|pair| pair[0] == pair[1]);
    let bounds = match (alike, bounds.first()) {
        (true, Some(first)) => first.clone(),
        _ => bounds.join(", "),
    };
    facts.row(["ANPC up to", &format!("{bounds}{source}")]);
    facts.row(["criteria", &found.criteria.join(", ")]);

    let mut table = Table::new([Align::Right, Align::Left, Align::Right, Align::Left]);
    let named = found.classes.iter().any(|class| class.name.is_some());
    table.row([
        "class",
        if named { "name" } else { "" },
        "inputs",
        "clusters: inputs (width)",
    ]);
    for class in &found.classes {
        let inputs = class.clusters.iter().map(|cluster| cluster.members).sum();
        let clusters = class
            .clusters
            .iter()
            .map(|cluster| format!("{} ({})", count(cluster.members), share(cluster.width)));
        table.row([
            class.class.to_string(),
            class.name.clone().unwrap_or_default(),
            count(inputs),
            clusters.collect::<Vec<_>>().join("  "),
        ]);
    }
    format!(
        "{}\n{}\nclusters\n{}",
        on_one_line(&found.file),
        facts.lines(),
        table.lines()
    )
}
