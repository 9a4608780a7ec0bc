//! What the paper leaves open, or its authors' code does differently.
//!
//! Every choice is an enum whose variants have the names that users write. The defaults are those of
//! [`Preset::Paper`]: the definitions as printed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that names no variant of a choice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is none of {}", .names.join(", "))]
pub struct UnknownChoice {
    given: String,
    names: &'static [&'static str],
}

/// Defines an enum whose variants are written as words; the first is the default.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $(#[$first_doc:meta])* $first:ident = $first_word:literal, $($(#[$variant_doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "&'static str")]
        pub enum $name {
            $(#[$first_doc])*
            #[default]
            $first,
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// The words, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$first_word, $($word),*];

            /// The word that stands for it.
            pub fn word(self) -> &'static str {
                match self {
                    $name::$first => $first_word,
                    $($name::$variant => $word,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl FromStr for $name {
            type Err = UnknownChoice;

            fn from_str(text: &str) -> Result<$name, UnknownChoice> {
                match text {
                    $first_word => Ok($name::$first),
                    $($word => Ok($name::$variant),)*
                    _ => Err(UnknownChoice { given: text.to_owned(), names: $name::WORDS }),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = UnknownChoice;

            fn try_from(text: String) -> Result<$name, UnknownChoice> {
                text.parse()
            }
        }

        impl From<$name> for &'static str {
            fn from(choice: $name) -> &'static str {
                choice.word()
            }
        }
    };
}

choice! {
    /// All choices at once.
    Preset {
        /// The definitions of the paper.
        Paper = "paper",
        /// What the authors' code computes, except for plain bugs.
        Reference = "reference",
        /// The paper's definitions, with what its tables of masking studies were made with.
        Tables = "tables",
    }
}

choice! {
    /// How much relevance the critical neurons of a layer must have together.
    Threshold {
        /// More than `alpha` of the seed. On a layer that is no cut layer, and so carries only a
        /// share of the seed, more than `alpha` of its positive relevance.
        Logit = "logit",
        /// At least `alpha` of the layer's positive relevance.
        PositiveMass = "positive-mass",
    }
}

choice! {
    /// What becomes of a layer in which no neuron is critical.
    EmptyLayer {
        /// It stays empty.
        Keep = "keep",
        /// Its most relevant neuron is taken, whatever the sign of its relevance.
        TopNeuron = "top-neuron",
    }
}

choice! {
    /// The relevance that is shared out among neurons.
    SeedChoice {
        /// The logit of the predicted class, or 1 when that is not positive.
        LogitOrOne = "logit-or-one",
        /// The logit: a negative one turns the sign of every relevance.
        Logit = "logit",
        /// The logarithm of the predicted class's probability, which is never positive.
        LogProbability = "log-probability",
    }
}

choice! {
    /// Which training inputs make up the decision graph.
    Members {
        /// All: an input belongs to the class that is predicted for it, right or wrong.
        Predicted = "predicted",
        /// Those that are classified as labelled.
        Correct = "correct",
    }
}

choice! {
    /// Which neurons of a cluster are in its abstract path.
    Merge {
        /// Those that are critical for more than a share of `beta` of the members.
        Strict = "strict",
        /// Those whose count plus one reaches `beta` times the members, rounded, and the next one.
        Rounded = "rounded",
    }
}

choice! {
    /// How similar two paths are.
    Similarity {
        /// The mean of their layers' Jaccard similarities.
        LayerMean = "layer-mean",
        /// The Jaccard similarity of all neurons together.
        WholePath = "whole-path",
    }
}

choice! {
    /// The bucket of paths without a common neuron.
    Disjoint {
        /// None.
        NoBucket = "no-bucket",
        /// One below the first, which counts as covered though it is not among those to cover.
        BucketZero = "bucket-zero",
    }
}

choice! {
    /// How a similarity's bucket is computed.
    Arithmetic {
        /// In whole numbers.
        Exact = "exact",
        /// As a quotient of floating-point numbers, which puts some fractions a bucket too high.
        Float = "float",
    }
}

choice! {
    /// Which clusters of its class an input's activations are held against.
    AnpcClusters {
        /// All.
        All = "all",
        /// The one whose abstract path is most similar to the input's.
        Nearest = "nearest",
    }
}

choice! {
    /// Which member of a cluster an input's activations are held against.
    Neighbour {
        /// The one with the most similar path.
        Path = "path",
        /// The one with the nearest activations, for each layer anew.
        Activation = "activation",
    }
}

choice! {
    /// How the distance of two layers' activations is measured.
    Norm {
        /// The Euclidean distance.
        L2 = "l2",
        /// The Euclidean distance divided by the root of the number of neurons.
        RootMeanSquare = "rms",
    }
}

choice! {
    /// Which of an input's layers count for ANPC.
    AnpcCounted {
        /// All.
        AllLayers = "all-layers",
        /// Only the last one, though all are among those to cover.
        LastLayer = "last-layer",
    }
}

choice! {
    /// How a distance's bucket is found.
    Edges {
        /// `m` intervals that contain their upper end; 0 and what is beyond the bound have none.
        UpperClosed = "upper-closed",
        /// `m - 1` intervals that contain their lower end, and one for all that is beyond.
        Overflow = "overflow",
    }
}

choice! {
    /// Which training inputs a masking study counts.
    Population {
        /// All.
        All = "all",
        /// Those that are classified as labelled.
        Correct = "correct",
    }
}

choice! {
    /// How the mean width of many paths is computed.
    Width {
        /// The mean share of a layer's neurons, over layers and paths.
        Exact = "exact",
        /// The same with each layer's mean count rounded to a whole number first.
        Rounded = "rounded",
    }
}

choice! {
    /// How inconsistencies of clusters are averaged.
    Average {
        /// Every input counts the same.
        Inputs = "inputs",
        /// Every cluster counts the same.
        Clusters = "clusters",
    }
}

/// Everything that can be chosen, apart from numbers that depend on the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Choices {
    /// Critical neurons: how much relevance they must have.
    pub threshold: Threshold,
    /// Critical neurons: layers without any.
    pub empty_layer: EmptyLayer,
    /// Critical neurons: the relevance that is shared out.
    pub seed: SeedChoice,
    /// The decision graph: whose paths.
    pub members: Members,
    /// The decision graph: which neurons are abstract.
    pub merge: Merge,
    /// How similar paths are.
    pub similarity: Similarity,
    /// SNPC: number of buckets.
    pub snpc_buckets: Buckets<200>,
    /// SNPC: paths without a common neuron.
    pub snpc_disjoint: Disjoint,
    /// SNPC: how buckets are computed.
    pub snpc_arithmetic: Arithmetic,
    /// ANPC: number of buckets.
    pub anpc_buckets: Buckets<200>,
    /// ANPC: which clusters.
    pub anpc_clusters: AnpcClusters,
    /// ANPC: which member of a cluster.
    pub anpc_neighbour: Neighbour,
    /// ANPC: which distance.
    pub anpc_norm: Norm,
    /// ANPC: which layers count.
    pub anpc_counted: AnpcCounted,
    /// ANPC: how buckets are computed.
    pub anpc_edges: Edges,
    /// Masking: which inputs count.
    pub population: Population,
    /// Masking: how widths are averaged.
    pub width: Width,
    /// Masking: how clusters are averaged.
    pub average: Average,
}

/// A number of buckets: 1 to 65,535, by default `D`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Buckets<const D: u16>(u16);

impl<const D: u16> Buckets<D> {
    /// The number, if there may be so many.
    pub fn new(count: u64) -> Result<Buckets<D>, String> {
        match u16::try_from(count) {
            Ok(count @ 1..) => Ok(Buckets(count)),
            _ => Err(format!("`{count}` buckets; use 1 to 65535")),
        }
    }

    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl<const D: u16> Default for Buckets<D> {
    fn default() -> Self {
        Buckets(D)
    }
}

impl<const D: u16> TryFrom<u64> for Buckets<D> {
    type Error = String;

    fn try_from(count: u64) -> Result<Self, String> {
        Buckets::new(count)
    }
}

impl<const D: u16> From<Buckets<D>> for u64 {
    fn from(buckets: Buckets<D>) -> u64 {
        buckets.0.into()
    }
}

impl<const D: u16> FromStr for Buckets<D> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count: u64 = text.parse().map_err(|_| "no whole number".to_owned())?;
        Buckets::new(count)
    }
}

impl Preset {
    /// The choices that it stands for.
    pub fn choices(self) -> Choices {
        let paper = Choices::default();
        let tables = Choices {
            threshold: Threshold::PositiveMass,
            empty_layer: EmptyLayer::TopNeuron,
            members: Members::Correct,
            merge: Merge::Rounded,
            population: Population::Correct,
            width: Width::Rounded,
            ..paper.clone()
        };
        match self {
            Preset::Paper => paper,
            Preset::Tables => tables,
            Preset::Reference => Choices {
                seed: SeedChoice::Logit,
                snpc_buckets: Buckets(100),
                snpc_disjoint: Disjoint::BucketZero,
                snpc_arithmetic: Arithmetic::Float,
                anpc_clusters: AnpcClusters::Nearest,
                anpc_neighbour: Neighbour::Activation,
                anpc_counted: AnpcCounted::LastLayer,
                anpc_edges: Edges::Overflow,
                ..tables
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_as_they_are_written() {
        for word in Threshold::WORDS {
            assert_eq!(word.parse::<Threshold>().unwrap().word(), *word);
        }
        let error = "mass".parse::<Threshold>().unwrap_err();
        assert_eq!(error.to_string(), "`mass` is none of logit, positive-mass");
    }

    #[test]
    fn the_paper_is_the_default() {
        assert_eq!(Preset::default().choices(), Choices::default());
        assert_eq!(Choices::default().snpc_buckets.get(), 200);
    }

    #[test]
    fn too_many_buckets_and_none_are_refused() {
        assert!("0".parse::<Buckets<1>>().is_err() && "65536".parse::<Buckets<1>>().is_err());
        assert_eq!("100".parse::<Buckets<1>>().unwrap().get(), 100);
    }
}
