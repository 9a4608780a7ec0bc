//! What can be wrong with a mutant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A way to change a trained model without training it again. The names are those of DeepMutation (Ma et al. 2018).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operator {
    /// Gaussian fuzzing: normally distributed numbers are added to weights.
    Gf,
    /// Weight shuffling: the weights of what comes into a neuron change places.
    Ws,
    /// Neuron effect blocking: a neuron gives 0 to all that reads it, as if it were masked.
    Neb,
    /// Neuron activation inverse: the weights of what comes into a neuron change their signs, its bias does not.
    Nai,
    /// Neuron switch: neurons of a layer change places for all that reads them.
    Ns,
    /// Activation function removal: a layer goes on without its activation function.
    Afrm,
    /// Layer deactivation: a layer whose output has the shape of its input is left out.
    Ld,
}

impl Operator {
    /// All of them.
    pub const ALL: [Operator; 7] = [
        Operator::Gf,
        Operator::Ws,
        Operator::Neb,
        Operator::Nai,
        Operator::Ns,
        Operator::Afrm,
        Operator::Ld,
    ];

    /// Those that change a share of weights or neurons, of which any number of mutants can be made.
    pub const DRAWN: [Operator; 5] = [
        Operator::Gf,
        Operator::Ws,
        Operator::Neb,
        Operator::Nai,
        Operator::Ns,
    ];

    /// The operator's name.
    pub fn name(self) -> &'static str {
        match self {
            Operator::Gf => "gf",
            Operator::Ws => "ws",
            Operator::Neb => "neb",
            Operator::Nai => "nai",
            Operator::Ns => "ns",
            Operator::Afrm => "afrm",
            Operator::Ld => "ld",
        }
    }

    /// What it does, in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Operator::Gf => "weights fuzzed",
            Operator::Ws => "incoming weights shuffled",
            Operator::Neb => "neurons silent",
            Operator::Nai => "incoming weights negated",
            Operator::Ns => "neurons exchanged",
            Operator::Afrm => "activation function removed",
            Operator::Ld => "layer left out",
        }
    }

    /// Whether it changes a share of weights or neurons; else it is about one layer.
    pub fn is_drawn(self) -> bool {
        Operator::DRAWN.contains(&self)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Operator {
    type Err = String;

    fn from_str(text: &str) -> Result<Operator, String> {
        let found = Operator::ALL.into_iter().find(|o| o.name() == text);
        found.ok_or_else(|| {
            let names = Operator::ALL.map(Operator::name).join(", ");
            format!("`{text}` is no mutation operator; there are {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for operator in Operator::ALL {
            assert_eq!(operator.name().parse(), Ok(operator));
        }
        let error = "xyz".parse::<Operator>().unwrap_err();
        assert!(error.contains("gf, ws, neb"), "{error}");
    }
}
