//! The criteria there are.

use crate::criterion::Criterion;
use crate::error::CriterionError;
use crate::kmnc::Kmnc;
use crate::npc::{Anpc, Snpc};
use crate::spec::Spec;
use crate::subject::Subject;

/// A criterion that can be asked for by name.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Makes it.
    create: fn(&Spec, &Subject) -> Result<Box<dyn Criterion>, CriterionError>,
}

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
];

/// Makes a criterion.
pub fn create(spec: &Spec, subject: &Subject) -> Result<Box<dyn Criterion>, CriterionError> {
    match CRITERIA.iter().find(|entry| entry.name == spec.name) {
        Some(entry) => (entry.create)(spec, subject),
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
