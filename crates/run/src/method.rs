//! How logits are explained: the attribution, and its rules as a user chooses them.

use npcov_graph::Graph;
use npcov_program::{
    AttnLrp, Attribution, BatchNorm, Bias, GradientTimesInput, Lrp, Place, Preset, Rule, Rules,
};
use serde::{Deserialize, Serialize};

/// A way to explain logits.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// Layer-wise relevance propagation.
    Lrp(RuleChoice),
    /// AttnLRP as it was published, which has rules of its own.
    AttnLrp,
    /// The gradient of the logit, times the value it is taken at.
    GradientTimesInput,
}

impl Default for Method {
    fn default() -> Self {
        Method::Lrp(RuleChoice::default())
    }
}

impl Method {
    /// The method that an information stands for, and what it does with batch normalisation.
    ///
    /// All that was applied stands in the information: nothing is added to it for a graph.
    pub fn from_info(info: &MethodInfo) -> Result<(Method, BatchNorm), String> {
        let batch_norm = match info.batch_norm.as_str() {
            "identity" => BatchNorm::Identity,
            "fold" => BatchNorm::Fold,
            other => return Err(format!("`{other}` is no treatment of batch norm")),
        };
        match info.attribution.as_str() {
            "gradient-input" => return Ok((Method::GradientTimesInput, batch_norm)),
            "attnlrp" => return Ok((Method::AttnLrp, batch_norm)),
            _ => {}
        }
        let rule = |text: &str| text.parse::<Rule>().map_err(|error| error.to_string());
        let mut rules = Vec::new();
        for RuleAt { place, rule: text } in &info.overrides {
            let Ok(place) = place.parse::<Place>();
            rules.push((Some(place), rule(text)?));
        }
        if let Some(text) = &info.rule {
            rules.push((None, rule(text)?));
        }
        let bias = match info.bias.as_deref() {
            Some("absorb") => Bias::Absorb,
            _ => Bias::Ignore,
        };
        let choice = RuleChoice {
            preset: Some(Preset::Npc),
            rules,
            bias: Some(bias),
        };
        Ok((Method::Lrp(choice), batch_norm))
    }

    /// The attribution for a graph.
    pub fn attribution(&self, graph: &Graph) -> Box<dyn Attribution> {
        match self {
            Method::Lrp(choice) => Box::new(Lrp {
                rules: choice.rules(graph),
            }),
            Method::AttnLrp => Box::new(AttnLrp),
            Method::GradientTimesInput => Box::new(GradientTimesInput),
        }
    }

    /// Whether what is shared out is 1 where the logit is not positive.
    pub fn seeds_one(&self) -> bool {
        matches!(self, Method::Lrp(_))
    }

    /// The preset that was taken because of what a graph is made of, where none was chosen.
    pub fn preset_by_graph(&self, graph: &Graph) -> Option<Preset> {
        match self {
            Method::Lrp(choice) if choice.preset.is_none() => Some(Preset::of(graph)),
            Method::Lrp(_) | Method::AttnLrp | Method::GradientTimesInput => None,
        }
    }

    /// What is applied to a graph, for a result that says how it was made.
    pub fn info(&self, graph: &Graph, batch_norm: BatchNorm) -> MethodInfo {
        let batch_norm = match batch_norm {
            BatchNorm::Identity => "identity",
            BatchNorm::Fold => "fold",
        };
        let named = |attribution: &str| MethodInfo {
            attribution: attribution.to_owned(),
            rule: None,
            overrides: Vec::new(),
            bias: None,
            batch_norm: batch_norm.to_owned(),
        };
        match self {
            Method::GradientTimesInput => named("gradient-input"),
            Method::AttnLrp => named("attnlrp"),
            Method::Lrp(choice) => {
                let rules = choice.rules(graph);
                let overrides = rules.overrides.iter().map(|(at, rule)| RuleAt {
                    place: at.to_string(),
                    rule: rule.to_string(),
                });
                let bias = match rules.bias {
                    Bias::Ignore => "ignore",
                    Bias::Absorb => "absorb",
                };
                MethodInfo {
                    rule: Some(rules.linear.to_string()),
                    overrides: overrides.collect(),
                    bias: Some(bias.to_owned()),
                    ..named("lrp")
                }
            }
        }
    }
}

/// A preset, and what is changed in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleChoice {
    /// The preset; by default the one for the graph, see [`Preset::of`].
    pub preset: Option<Preset>,
    /// Rules for places, or for all linear operators that no place names. Which of several counts,
    /// [`Rules`] says.
    pub rules: Vec<(Option<Place>, Rule)>,
    /// Whether biases take a share; as the preset says by default.
    pub bias: Option<Bias>,
}

impl RuleChoice {
    /// The rules for a graph.
    ///
    /// A preset names operators that a graph may lack. What the user names must be there, or it is
    /// a typing error, which [`explain`](npcov_program::explain()) reports.
    pub fn rules(&self, graph: &Graph) -> Rules {
        let mut rules = self.preset.unwrap_or_else(|| Preset::of(graph)).rules();
        rules.overrides.retain(|(place, _)| place.is_in(graph));
        for (place, rule) in &self.rules {
            match place {
                Some(place) => rules.overrides.push((place.clone(), *rule)),
                None => rules.linear = *rule,
            }
        }
        rules.bias = self.bias.unwrap_or(rules.bias);
        rules
    }
}

/// How relevances were computed, in the words of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodInfo {
    /// `lrp`, `attnlrp` or `gradient-input`.
    pub attribution: String,
    /// The rule of linear operators; `None` for gradients.
    pub rule: Option<String>,
    /// Other rules for some places; of several that fit, the most particular one counts.
    pub overrides: Vec<RuleAt>,
    /// `ignore` or `absorb`; `None` for gradients.
    pub bias: Option<String>,
    /// `identity` or `fold`.
    pub batch_norm: String,
}

/// A rule for a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleAt {
    /// `first`, an operator, or the name or pattern of nodes.
    pub place: String,
    /// The rule.
    pub rule: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::op::Unary;
    use npcov_graph::{DType, Op, TensorType};

    #[test]
    fn a_preset_is_the_base_of_what_the_user_changes() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
        let y = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
        graph.set_outputs(vec![y]);
        let flat: (Option<Place>, Rule) = (Some(Place::Named("Gemm".into())), Rule::Flat);
        let choice = RuleChoice {
            preset: Some(Preset::EpsilonPlusFlat),
            rules: vec![(None, Rule::NPC), flat],
            bias: None,
        };
        let rules = choice.rules(&graph);
        // The graph has no Conv for the preset's rule; a place that the user names stays.
        let places: Vec<&Place> = rules.overrides.iter().map(|(place, _)| place).collect();
        assert_eq!(places, [&Place::First, &Place::Named("Gemm".into())]);
        assert_eq!((rules.linear, rules.bias), (Rule::NPC, Bias::Absorb));
        let method = Method::Lrp(choice);
        let info = method.info(&graph, BatchNorm::Fold);
        let (again, batch_norm) = Method::from_info(&info).unwrap();
        assert_eq!(again.info(&graph, batch_norm), info);
        assert_eq!(info.rule.as_deref(), Some("alpha-beta:0.5"));
        assert_eq!(info.overrides[0].place, "first");
    }
}
