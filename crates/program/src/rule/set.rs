//! Which rule applies where.

use npcov_graph::{Graph, Node, Op};

use super::{Bias, EPSILON, Rule};
use crate::layers::matches;
use crate::linear::LinearNode;

/// Nodes that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first operators with weights: those that no other one stands before.
    First,
    /// All nodes of an operator, by its ONNX name; or those of a name, in which `*` stands for
    /// any characters.
    Named(String),
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

/// The rules of an explanation.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The rule of all linear operators: Conv, Gemm, MatMul with a constant, average pools, means,
    /// Add of two activations.
    pub linear: Rule,
    /// Other rules for some nodes; the last one that fits a node counts.
    pub overrides: Vec<(Place, Rule)>,
    /// Whether biases take a share.
    pub bias: Bias,
}

impl Default for Rules {
    fn default() -> Self {
        Preset::Npc.rules()
    }
}

/// Rules under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The alpha-beta rule with 1.5 and 0.5 everywhere, without biases: that of the paper's
    /// implementation.
    Npc,
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
    pub const ALL: [Preset; 5] = [
        Preset::Npc,
        Preset::EpsilonPlus,
        Preset::EpsilonPlusFlat,
        Preset::EpsilonAlpha2Beta1,
        Preset::EpsilonAlpha2Beta1Flat,
    ];

    /// The preset's name.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Npc => "npc",
            Preset::EpsilonPlus => "epsilon-plus",
            Preset::EpsilonPlusFlat => "epsilon-plus-flat",
            Preset::EpsilonAlpha2Beta1 => "epsilon-alpha2-beta1",
            Preset::EpsilonAlpha2Beta1Flat => "epsilon-alpha2-beta1-flat",
        }
    }

    /// What it stands for.
    pub fn rules(self) -> Rules {
        let conv = match self {
            Preset::Npc => {
                return Rules {
                    linear: Rule::NPC,
                    overrides: Vec::new(),
                    bias: Bias::Ignore,
                };
            }
            Preset::EpsilonPlus | Preset::EpsilonPlusFlat => Rule::Z_PLUS,
            Preset::EpsilonAlpha2Beta1 | Preset::EpsilonAlpha2Beta1Flat => Rule::AlphaBeta {
                beta: 1.0,
                epsilon: EPSILON,
                rare: false,
            },
        };
        let mut overrides = vec![(Place::Named("Conv".into()), conv)];
        if let Preset::EpsilonPlusFlat | Preset::EpsilonAlpha2Beta1Flat = self {
            overrides.push((Place::First, Rule::Flat));
        }
        Rules {
            linear: Rule::Epsilon { epsilon: EPSILON },
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
    pub(crate) fn of(&self, node: &Node, is_first: bool) -> (Rule, bool) {
        let fits = |place: &Place| match place {
            Place::First => is_first,
            Place::Named(pattern) => pattern == node.op.name() || matches(pattern, &node.name),
        };
        match self.overrides.iter().rev().find(|(place, _)| fits(place)) {
            Some((_, rule)) => (*rule, true),
            None => (self.linear, false),
        }
    }

    /// The places that name no node of a graph.
    pub(crate) fn unknown_places(&self, graph: &Graph) -> Vec<String> {
        let named = |pattern: &str| {
            graph
                .nodes()
                .iter()
                .any(|n| pattern == n.op.name() || matches(pattern, &n.name))
        };
        self.overrides
            .iter()
            .filter_map(|(place, _)| match place {
                Place::Named(pattern) if !named(pattern) => Some(pattern.clone()),
                _ => None,
            })
            .collect()
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
            let has_weights = matches!(
                node.op,
                Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul
            ) && LinearNode::of(graph, node).is_some();
            weighted[node.output.index()] = before || has_weights;
            has_weights && !before
        })
        .collect()
}
