//! Which rule applies where.

use std::fmt;

use npcov_graph::{Graph, Node};

use super::{AlphaBeta, EPSILON, Rule};
use crate::attention::{has_attention, is_product};
use crate::layers::matches;
use crate::linear::LinearNode;

/// Nodes that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first operators with weights: those that no other one stands before.
    First,
    /// Matrix products of two values that both depend on the model's input: what attention weighs.
    Attention,
    /// All nodes of an operator, by its ONNX name; or those of a name, in which `*` stands for
    /// any characters.
    Named(String),
}

/// How closely a place describes a node; the later ones are more particular.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Particularity {
    Kind,
    Operator,
    Pattern,
    First,
    Name,
}

impl Place {
    /// How closely this place describes a node, when it fits at all.
    fn fit(&self, graph: &Graph, node: &Node, is_first: bool) -> Option<Particularity> {
        match self {
            Place::First => is_first.then_some(Particularity::First),
            Place::Attention => is_product(graph, node).then_some(Particularity::Kind),
            Place::Named(name) if *name == node.name => Some(Particularity::Name),
            Place::Named(name) if name == node.op.name() => Some(Particularity::Operator),
            Place::Named(name) => matches(name, &node.name).then_some(Particularity::Pattern),
        }
    }

    /// Whether a graph has nodes that this place could be.
    pub fn is_in(&self, graph: &Graph) -> bool {
        let is_here = |node: &Node| self.fit(graph, node, true).is_some();
        graph.nodes().iter().any(is_here)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::First => "first",
            Place::Attention => "attention",
            Place::Named(name) => name,
        })
    }
}

/// What batch normalisation does to relevance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchNorm {
    /// It passes it on; the layer before it is explained with its own weights.
    #[default]
    Identity,
    /// It is made part of the convolution before it, whose weights change.
    Fold,
}

/// Whether a bias takes its share of relevance, which is then lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bias {
    /// It takes none: relevance is conserved.
    #[default]
    Ignore,
    /// It counts as a contribution of its sign.
    Absorb,
}

/// The rules of an explanation.
///
/// Where several overrides fit a node, the most particular one counts, in whatever order they are
/// given: the node's own name before [`Place::First`], that before a pattern with `*`, that before
/// the operator's name, that before [`Place::Attention`]. Of equally particular ones, the last
/// counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The rule of all linear operators: Conv, Gemm, MatMul, average pools, means, Add of two
    /// activations.
    pub linear: Rule,
    /// Other rules for some nodes.
    pub overrides: Vec<(Place, Rule)>,
    /// Whether biases take a share.
    pub bias: Bias,
}

impl Default for Rules {
    fn default() -> Self {
        Preset::Npc.rules()
    }
}

/// What stabilises denominators of the preset `transformer`. Nothing there needs more: a contribution under alpha-beta
/// is never larger than its denominator, and what reaches a sum of values is proportional to that sum, because the
/// projection behind it is linear. Normalisation makes sums of any size count alike, so that a larger stabiliser takes
/// relevance away where activations are small.
const TRANSFORMER_EPSILON: f32 = 1e-9;

/// Rules under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The alpha-beta rule with 1.5 and 0.5 everywhere, without biases: that of the paper's
    /// implementation.
    Npc,
    /// As `Npc`, with values shared by their parts in what attention makes of them. Weights of
    /// attention are constants.
    Transformer,
    /// z+ for convolutions, epsilon for dense layers, pools and sums, biases absorbed.
    EpsilonPlus,
    /// As `EpsilonPlus`, with the first layer flat.
    EpsilonPlusFlat,
    /// Alpha-beta with 2 and 1 for convolutions, epsilon for dense layers, pools and sums, biases
    /// absorbed.
    EpsilonAlpha2Beta1,
    /// As `EpsilonAlpha2Beta1`, with the first layer flat.
    EpsilonAlpha2Beta1Flat,
}

impl Preset {
    /// All presets.
    pub const ALL: [Preset; 6] = [
        Preset::Npc,
        Preset::Transformer,
        Preset::EpsilonPlus,
        Preset::EpsilonPlusFlat,
        Preset::EpsilonAlpha2Beta1,
        Preset::EpsilonAlpha2Beta1Flat,
    ];

    /// The preset's name.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Npc => "npc",
            Preset::Transformer => "transformer",
            Preset::EpsilonPlus => "epsilon-plus",
            Preset::EpsilonPlusFlat => "epsilon-plus-flat",
            Preset::EpsilonAlpha2Beta1 => "epsilon-alpha2-beta1",
            Preset::EpsilonAlpha2Beta1Flat => "epsilon-alpha2-beta1-flat",
        }
    }

    /// The one that a model is explained by unless another is chosen.
    pub fn of(graph: &Graph) -> Preset {
        match has_attention(graph) {
            true => Preset::Transformer,
            false => Preset::Npc,
        }
    }

    /// What it stands for.
    pub fn rules(self) -> Rules {
        let conv = match self {
            Preset::Npc => return Rules::uniform(Rule::NPC),
            Preset::Transformer => {
                let linear = AlphaBeta {
                    beta: 0.5,
                    epsilon: TRANSFORMER_EPSILON,
                    rare: true,
                };
                let values = Rule::epsilon(TRANSFORMER_EPSILON);
                return Rules {
                    overrides: vec![(Place::Attention, values)],
                    ..Rules::uniform(Rule::AlphaBeta(linear))
                };
            }
            Preset::EpsilonPlus | Preset::EpsilonPlusFlat => Rule::Z_PLUS,
            Preset::EpsilonAlpha2Beta1 | Preset::EpsilonAlpha2Beta1Flat => {
                Rule::AlphaBeta(AlphaBeta {
                    beta: 1.0,
                    epsilon: EPSILON,
                    rare: false,
                })
            }
        };
        let mut overrides = vec![(Place::Named("Conv".into()), conv)];
        if let Preset::EpsilonPlusFlat | Preset::EpsilonAlpha2Beta1Flat = self {
            overrides.push((Place::First, Rule::Flat));
        }
        Rules {
            linear: Rule::epsilon(EPSILON),
            overrides,
            bias: Bias::Absorb,
        }
    }
}

impl Rules {
    /// The same rule for all linear operators.
    pub fn uniform(linear: Rule) -> Rules {
        Rules {
            linear,
            overrides: Vec::new(),
            bias: Bias::Ignore,
        }
    }

    /// The rule of a node, and whether it was named for it.
    pub(crate) fn of(&self, graph: &Graph, node: &Node, is_first: bool) -> (Rule, bool) {
        let fitting = self.overrides.iter().filter_map(|(place, rule)| {
            let particularity = place.fit(graph, node, is_first)?;
            Some((particularity, *rule))
        });
        // The last of several largest.
        match fitting.max_by_key(|(particularity, _)| *particularity) {
            Some((_, rule)) => (rule, true),
            None => (self.linear, false),
        }
    }

    /// The places that name no node of a graph.
    pub(crate) fn unknown_places(&self, graph: &Graph) -> Vec<String> {
        let places = self.overrides.iter().map(|(place, _)| place);
        let unknown = places.filter(|place| **place != Place::First && !place.is_in(graph));
        unknown.map(Place::to_string).collect()
    }
}

/// By position of a node: whether it has weights and no node with weights stands before it.
pub(crate) fn first_layers(graph: &Graph) -> Vec<bool> {
    let mut weighted = vec![false; graph.values().len()];
    graph
        .nodes()
        .iter()
        .map(|node| {
            let before = node.inputs.iter().any(|v| weighted[v.index()]);
            let linear = LinearNode::of(graph, node);
            let has_weights = linear.is_some_and(|linear| linear.weight.is_some());
            weighted[node.output.index()] = before || has_weights;
            has_weights && !before
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::op::Unary;
    use npcov_graph::{DType, Op, TensorType};

    #[test]
    fn the_most_particular_place_counts_in_any_order() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1]));
        let relu = Op::Unary(Unary::Relu);
        graph.push("block/relu", relu, &[x]).unwrap();
        let node = &graph.nodes()[0];
        let epsilon = Rule::epsilon;
        // From the least particular to the most.
        let places = ["Relu", "block/*", "first", "block/relu"];
        let places = places.map(|p| p.parse::<Place>().unwrap());
        let named = |order: &[usize], is_first| {
            let rules = Rules {
                overrides: order
                    .iter()
                    .map(|&i| (places[i].clone(), epsilon(i as f32)))
                    .collect(),
                ..Rules::default()
            };
            rules.of(&graph, node, is_first)
        };
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]] {
            for count in 1..=4 {
                let most = *order[..count].iter().max().unwrap();
                assert_eq!(named(&order[..count], true), (epsilon(most as f32), true));
            }
        }
        assert_eq!(named(&[2, 0], false), (epsilon(0.0), true));
        assert_eq!(named(&[2], false), (Rule::NPC, false));
        // The last of equals.
        let rules = Rules {
            overrides: vec![
                (places[0].clone(), Rule::Flat),
                (places[0].clone(), Rule::Identity),
            ],
            ..Rules::default()
        };
        assert_eq!(rules.of(&graph, node, true), (Rule::Identity, true));
    }
}
