//! The criteria there are.

use crate::blackbox::BlackBox;
use crate::cc::Cc;
use crate::criterion::Criterion;
use crate::error::CriterionError;
use crate::idc::Idc;
use crate::kmnc::Kmnc;
use crate::nbc::Boundary;
use crate::nc::Nc;
use crate::nlc::Nlc;
use crate::npc::{Anpc, Snpc};
use crate::shape::NetworkShape;
use crate::spec::Spec;
use crate::surprise::{Dsa, Lsa, Mdsa, Surprise};
use crate::topk::{Tknc, Tknp};

/// A criterion that can be asked for by name.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Makes it.
    create: Create,
}

type Create = fn(&Spec, &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError>;

/// All criteria, in the order in which they are shown.
pub const CRITERIA: &[Entry] = &[
    Entry {
        name: "snpc",
        summary: "neuron path coverage by structure: degrees of similarity to abstract paths",
        create: Snpc::create,
    },
    Entry {
        name: "anpc",
        summary: "neuron path coverage by activation: distances to training inputs on the path",
        create: Anpc::create,
    },
    Entry {
        name: "kmnc",
        summary: "sections of the range that training gave each neuron",
        create: Kmnc::create,
    },
    Entry {
        name: "nbc",
        summary: "ends of the range that training gave each neuron, covered from beyond",
        create: Boundary::nbc,
    },
    Entry {
        name: "snac",
        summary: "upper ends of the range that training gave each neuron, covered from beyond",
        create: Boundary::snac,
    },
    Entry {
        name: "nc",
        summary: "neurons whose scaled activation exceeds a threshold",
        create: Nc::create,
    },
    Entry {
        name: "tknc",
        summary: "neurons that are among the k most active ones of their layer",
        create: Tknc::create,
    },
    Entry {
        name: "tknp",
        summary: "distinct patterns of the k most active neurons of all layers",
        create: Tknp::create,
    },
    Entry {
        name: "cc",
        summary: "activations that are far from all before them; in the order of inputs",
        create: Cc::create,
    },
    Entry {
        name: "nlc",
        summary: "spread of each layer: the size of its covariances",
        create: Nlc::create,
    },
    Entry {
        name: "deepgini",
        summary: "mean score of how unsure the network is: Gini impurity of its output",
        create: BlackBox::deepgini,
    },
    Entry {
        name: "entropy",
        summary: "mean score of how unsure the network is: entropy of its output",
        create: BlackBox::entropy,
    },
    Entry {
        name: "margin",
        summary: "mean score of how unsure the network is: small margin of the first class",
        create: BlackBox::margin,
    },
    Entry {
        name: "max-softmax",
        summary: "mean score of how unsure the network is: small probability of the first class",
        create: BlackBox::max_softmax,
    },
    Entry {
        name: "lsc",
        summary: "buckets of surprise by likelihood: how unlikely activations are for the class",
        create: Surprise::<Lsa>::create,
    },
    Entry {
        name: "dsc",
        summary: "buckets of surprise by distance: to the own class, beside that to the others",
        create: Surprise::<Dsa>::create,
    },
    Entry {
        name: "mdsc",
        summary: "buckets of surprise by Mahalanobis distance from the mean of the class",
        create: Surprise::<Mdsa>::create,
    },
    Entry {
        name: "idc",
        summary: "combinations of the activation clusters of the neurons that matter most",
        create: Idc::create,
    },
];

/// Makes a criterion.
pub fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
    network.check()?;
    match CRITERIA.iter().find(|entry| entry.name == spec.name) {
        Some(entry) => (entry.create)(spec, network),
        None => Err(CriterionError::Unknown {
            name: spec.name.clone(),
            known: names().join(", "),
        }),
    }
}

/// The names of all criteria.
pub fn names() -> Vec<&'static str> {
    CRITERIA.iter().map(|entry| entry.name).collect()
}
