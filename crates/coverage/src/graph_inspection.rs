//! What is inside a decision graph.

use npcov_paths::{bits, for_each_path};
use serde::{Deserialize, Serialize};

use npcov_artefact::{AnpcRecord, ArtefactError, ClassRecord, ExtractionRecord, GraphFile};

use crate::doubts::{self, all_in_one_class};

/// The clusters of every class, and their abstract paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphInspection {
    /// The file.
    pub file: String,
    /// Digest of everything that coverage depends on.
    pub id: String,
    /// The training data, as it was named.
    pub data: String,
    /// Number of training inputs.
    pub inputs: usize,
    /// How many of them are in a cluster.
    pub members: usize,
    /// How paths come from inputs.
    pub extraction: ExtractionRecord,
    /// The choices.
    pub choices: npcov_paths::Choices,
    /// The layers of ANPC and their bounds.
    pub anpc: AnpcRecord,
    /// The criteria that suites can be measured by.
    pub criteria: Vec<String>,
    /// The mean width of training paths: the share of neurons that are critical, over the layers.
    pub width: f64,
    /// The mean width of abstract paths.
    pub abstract_width: f64,
    /// The classes.
    pub classes: Vec<ClassInspection>,
    /// What is probably not meant, or limits what coverage can say.
    pub warnings: Vec<String>,
}

/// A class of a decision graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClassInspection {
    /// The class.
    pub class: usize,
    /// Its name, where the training data has names.
    pub name: Option<String>,
    /// Clusters that were asked for, or chosen.
    pub planned: usize,
    /// The share of relevance that critical neurons have together.
    pub alpha: f64,
    /// The share of members above which a neuron is abstract.
    pub beta: f64,
    /// Its clusters.
    pub clusters: Vec<ClusterInspection>,
}

/// A cluster of a decision graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClusterInspection {
    /// Its position among those of the graph.
    pub cluster: usize,
    /// Number of training inputs in it.
    pub members: usize,
    /// The width of its abstract path.
    pub width: f64,
    /// By path layer: its abstract set.
    pub layers: Vec<AbstractLayer>,
}

/// What the members of a cluster have in common in a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbstractLayer {
    /// Position of the layer among the path layers.
    pub layer: usize,
    /// The neurons, in order.
    pub neurons: Vec<usize>,
}

impl GraphInspection {
    /// Looks into a decision graph.
    pub fn of(file: &GraphFile) -> Result<GraphInspection, ArtefactError> {
        let (record, graph) = (file.record(), file.graph());
        let layout = graph.layout();
        let layers = 0..layout.layers();
        let width = |path: &[u64]| {
            let share = |layer: usize| {
                let neurons = layout.neurons(layer).max(1);
                f64::from(bits::count(layout.layer(path, layer))) / neurons as f64
            };
            layers.clone().map(share).sum::<f64>() / layout.layers().max(1) as f64
        };
        let cluster = |cluster: usize| ClusterInspection {
            cluster,
            members: graph.size(cluster),
            width: width(graph.abstract_path(cluster)),
            layers: layers
                .clone()
                .map(|layer| AbstractLayer {
                    layer,
                    neurons: bits::ones(layout.layer(graph.abstract_path(cluster), layer))
                        .collect(),
                })
                .collect(),
        };
        let classes = record.classes.iter().zip(graph.classes()).enumerate();
        let class = |(class, (own, node)): (usize, (&ClassRecord, &npcov_paths::ClassNode))| {
            ClassInspection {
                class,
                name: own.name.clone(),
                planned: own.planned,
                alpha: record.extraction.alpha.get(class).copied().unwrap_or(0.0),
                beta: own.beta,
                clusters: node.clusters.clone().map(cluster).collect(),
            }
        };
        let mean = |widths: f64, count: usize| match count {
            0 => 0.0,
            count => widths / count as f64,
        };
        let inputs = graph.training().len();
        let mut widths = 0.0;
        for_each_path(file, layout, inputs, |_, path| widths += width(path))?;
        let abstract_paths = &graph.parts().abstract_paths;
        let abstract_widths = abstract_paths.rows().map(width).sum();
        Ok(GraphInspection {
            file: file.name().to_owned(),
            id: record.id.clone(),
            data: record.data.clone(),
            inputs,
            members: (0..graph.clusters()).map(|c| graph.size(c)).sum(),
            extraction: record.extraction.clone(),
            choices: record.choices.clone(),
            anpc: record.anpc.clone(),
            criteria: record.specs().iter().map(ToString::to_string).collect(),
            width: mean(widths, inputs),
            abstract_width: mean(abstract_widths, abstract_paths.len()),
            classes: classes.map(class).collect(),
            warnings: warnings(file),
        })
    }
}

/// What limits what coverage can say.
fn warnings(file: &GraphFile) -> Vec<String> {
    let graph = file.graph();
    let records = &file.record().classes;
    let called = |class: usize| {
        let name = records.get(class).and_then(|class| class.name.as_deref());
        doubts::called(class, name)
    };
    let mut warnings = Vec::new();
    let classes = graph.classes().iter().enumerate();
    let absent = classes.clone().filter(|(_, node)| node.clusters.is_empty());
    let absent: Vec<String> = absent.map(|(class, _)| called(class)).collect();
    if !absent.is_empty() {
        warnings.push(never_predicted(&absent));
    }
    for (class, node) in classes {
        let (found, planned) = (node.clusters.len(), node.planned);
        if (1..planned).contains(&found) {
            warnings.push(format!(
                "class {} has {found} different paths for {planned} clusters: the missing ones \
                 count as uncovered",
                called(class)
            ));
        }
    }
    let left_out = file.record().left_out.iter();
    warnings.extend(left_out.map(|reason| format!("suites cannot be measured by {reason}")));
    let empty = graph.empty_layers();
    if !empty.is_empty() {
        let mut layers: Vec<usize> = empty.iter().map(|&(_, layer)| layer).collect();
        layers.sort_unstable();
        layers.dedup();
        let layers: Vec<String> = layers.iter().map(usize::to_string).collect();
        warnings.push(format!(
            "no neuron is common to the members of some clusters in layer {} ({} abstract sets are \
             empty); a smaller beta keeps more",
            layers.join(", "),
            empty.len()
        ));
    }
    let training = graph.training();
    let predictions = (0..training.len()).map(|input| training.prediction(input));
    warnings.extend(all_in_one_class(
        "training inputs",
        predictions.map(|class| (class, None)),
        called,
    ));
    warnings
}

/// Classes that are listed.
const LISTED: usize = 10;

fn never_predicted(classes: &[String]) -> String {
    let listed = classes[..classes.len().min(LISTED)].join(", ");
    match classes.len() {
        1 => format!("class {listed} has no training input: nothing of it can be covered"),
        count if count > LISTED => format!(
            "{count} classes have no training input ({listed}, ...): nothing of them can be covered"
        ),
        _ => format!("classes {listed} have no training input: nothing of them can be covered"),
    }
}
