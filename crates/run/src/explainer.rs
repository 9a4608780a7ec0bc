//! A network that explains its logits.

use npcov_graph::Ending;
use npcov_program::{ExplainOutputs, Output, Tap, Target, explain, lost_states};

use crate::error::RunError;
use crate::method::{Method, MethodInfo};
use crate::network::Network;
use crate::paths::Extras;
use crate::signature::Signature;
use crate::tracer::{TracedRows, Tracer};

/// What is explained, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExplainOptions {
    /// How relevances are computed.
    pub method: Method,
    /// The class that is explained; the predicted one by default.
    pub class: Option<usize>,
    /// Whether the relevance of the input is computed as well.
    pub input: bool,
    /// Whether the activations of the path layers are given as well.
    pub activations: bool,
    /// Whether the relevance is computed as well that is lost at states before the first step of recurrent
    /// layers.
    pub lost: bool,
    /// What else is given of path layers.
    pub taps: Vec<Tap>,
    /// The path layer whose importance is given as well.
    pub importance: Option<usize>,
}

/// A network that explains its logits: its program gives the relevance of every neuron of its path layers.
pub struct Explainer {
    tracer: Tracer,
    class: Option<usize>,
    info: MethodInfo,
    /// Whether what is shared out is 1 when the logit is not positive.
    seeded: bool,
    lost_states: Vec<String>,
}

impl Explainer {
    /// Prepares explanations. A network without path layers is an error unless the relevance of the input is
    /// asked for, and so are operators that relevance cannot pass through.
    pub fn new(network: &Network, settings: &ExplainOptions) -> Result<Explainer, RunError> {
        Explainer::showing(network, settings, &Extras::default())
    }

    /// The same, where taps that `extras` want only watched are no results.
    pub fn showing(
        network: &Network,
        settings: &ExplainOptions,
        extras: &Extras,
    ) -> Result<Explainer, RunError> {
        let graph = network.graph();
        let attribution = settings.method.attribution(graph);
        if settings.class.is_some() && network.signature().ending() == Ending::Numbers {
            return Err(RunError::Parameter {
                name: "the class to explain",
                value: "chosen".to_owned(),
                wanted: "`--direction` instead: the model gives numbers",
            });
        }
        let mut outputs = settings.options();
        if let Some(numbers) = network.signature().numbers() {
            outputs.target = Target::Deviation(numbers.target());
        }
        let program = explain(&network.view(), &*attribution, &outputs)?;
        let tracer = Tracer::showing(program, network, extras)?;
        Ok(Explainer {
            tracer,
            class: settings.class,
            info: settings.method.info(graph, network.batch_norm()),
            seeded: settings.method.seeds_one(),
            lost_states: match settings.lost {
                true => lost_states(graph),
                false => Vec::new(),
            },
        })
    }

    /// What the network that is explained takes and gives.
    pub fn signature(&self) -> &Signature {
        self.tracer.signature()
    }

    /// How relevances are computed.
    pub fn method(&self) -> &MethodInfo {
        &self.info
    }

    /// The program behind it.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// The class that is explained for all inputs; `None` when it is the predicted one of each.
    pub fn class(&self) -> Option<usize> {
        self.class
    }

    /// The recurrent layers at whose state before the first step relevance is lost, where that is computed.
    pub fn lost_states(&self) -> &[String] {
        &self.lost_states
    }

    /// What a batch holds of one of its inputs: all numbers, and every one of them finite.
    pub fn row<'b>(&self, batch: &'b TracedRows, index: usize) -> Result<Row<'b>, RunError> {
        let place = index - batch.rows.start;
        let mut row = Row::default();
        let outputs = self.tracer.outputs().iter().zip(&batch.outputs);
        for ((output, values), len) in outputs.zip(self.tracer.output_lens()) {
            let values = values.get(place * len..(place + 1) * len).unwrap_or(&[]);
            let is_finite = values.iter().all(|x| x.is_finite());
            let not_finite =
                |layer: String| Err(RunError::RelevanceNotFinite { row: index, layer });
            match output {
                Output::Logits if !is_finite => return Err(RunError::NotFinite { row: index }),
                Output::Logits => row.logits = values,
                Output::Relevance(layer) if !is_finite => {
                    let layer = self.signature().layers().get(*layer);
                    let name = layer.map_or("", |layer| layer.name.as_str());
                    return not_finite(format!("layer `{name}`"));
                }
                Output::Relevance(_) => row.layers.push(values),
                Output::Tap(_) if !is_finite => return Err(RunError::NotFinite { row: index }),
                Output::Tap(tap) if *tap == Tap::activation(tap.layer) => {
                    row.activations.push(values);
                }
                Output::Tap(_) => row.taps.push(values),
                // A z-rule divides by sums that may be zero: what is not finite counts for nothing.
                Output::Importance(_) => row.importance = Some(values),
                Output::InputRelevance(_) if !is_finite => {
                    return not_finite("the input".to_owned());
                }
                Output::Lost if !is_finite => {
                    return not_finite("states before the first step".to_owned());
                }
                Output::Lost => row.lost = values,
                Output::InputRelevance(input) => row.inputs.push((*input, values)),
                _ => {}
            }
        }
        row.prediction = self.signature().predict(row.logits);
        row.explained = self.class.unwrap_or(row.prediction);
        let logit = self
            .signature()
            .logit(row.logits, row.explained)
            .unwrap_or(0.0);
        row.seed_is_one = self.seeded && logit <= 0.0;
        row.seed = if row.seed_is_one { 1.0 } else { logit };
        Ok(row)
    }
}

impl ExplainOptions {
    /// What the program gives.
    pub fn options(&self) -> ExplainOutputs {
        ExplainOutputs {
            target: self.class.map_or(Target::Predicted, Target::Class),
            activations: self.activations,
            input: self.input,
            lost: self.lost,
            taps: self.taps.clone(),
            importance: self.importance,
        }
    }
}

/// One input's results.
#[derive(Default)]
pub struct Row<'b> {
    /// The logits.
    pub logits: &'b [f32],
    /// The predicted class.
    pub prediction: usize,
    /// The class that is explained.
    pub explained: usize,
    /// What is shared out.
    pub seed: f32,
    /// Whether that is 1 because the logit is not positive.
    pub seed_is_one: bool,
    /// By path layer, one relevance per neuron.
    pub layers: Vec<&'b [f32]>,
    /// By path layer, one activation per neuron, when they are computed.
    pub activations: Vec<&'b [f32]>,
    /// What else was asked for of path layers, in that order.
    pub taps: Vec<&'b [f32]>,
    /// The importances of a layer's neurons, when they are computed.
    pub importance: Option<&'b [f32]>,
    /// The relevance that is lost at each of [`Explainer::lost_states`].
    pub lost: &'b [f32],
    /// The relevance of the elements of each input of floats, with its place, when it is computed.
    pub inputs: Vec<(usize, &'b [f32])>,
}

impl<'b> Row<'b> {
    /// The relevance of the input at a place.
    pub fn input(&self, place: usize) -> Option<&'b [f32]> {
        let found = self.inputs.iter().find(|(input, _)| *input == place);
        found.map(|(_, relevance)| *relevance)
    }
}
