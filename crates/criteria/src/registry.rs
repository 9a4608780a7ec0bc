//! The criteria there are.

use crate::criterion::Criterion;
use crate::error::CriterionError;
use crate::shape::NetworkShape;
use crate::spec::Spec;

/// A criterion that can be asked for by name.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// What its values mean.
    pub meaning: Meaning,
    /// Whether suites are measured by it unless criteria are named.
    pub is_default: bool,
    /// Makes it.
    pub(crate) create: Create,
}

/// Makes a criterion as its options say, for a network.
pub(crate) type Create = fn(&Spec, &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError>;

/// What the values of a criterion tell of a suite. A higher value is always the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// What kind of numbers they are.
    pub unit: Unit,
    /// What it means that a value is lower, for people: words that end where `than` may follow.
    pub lower: &'static str,
    /// Whether they tell of paths: how inputs are decided. Suites are judged by such criteria first.
    pub of_paths: bool,
    /// Whether they count degrees of similarity to abstract paths: things have a
    /// [place](Criterion::place), and the more similar a path is, the higher is its bucket.
    pub of_similarity: bool,
}

/// What kind of number a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The share of things that are covered.
    Share,
    /// How many things are covered, without a limit.
    Count,
    /// The mean of a score that each input has.
    MeanScore,
    /// How far the suite spreads something, without a limit.
    Spread,
}

impl Meaning {
    /// Of criteria that look at what single neurons do.
    pub(crate) const fn of_neurons(unit: Unit) -> Meaning {
        Meaning {
            unit,
            lower: "the suite exercises less of what the model's neurons can do",
            of_paths: false,
            of_similarity: false,
        }
    }
}

/// All criteria, in the order in which they are shown.
pub const CRITERIA: &[Entry] = &[
    crate::npc::SNPC,
    crate::npc::ANPC,
    crate::kmnc::KMNC,
    crate::nbc::NBC,
    crate::nbc::SNAC,
    crate::nc::NC,
    crate::topk::TKNC,
    crate::topk::TKNP,
    crate::cc::CC,
    crate::nlc::NLC,
    crate::blackbox::DEEPGINI,
    crate::blackbox::ENTROPY,
    crate::blackbox::MARGIN,
    crate::blackbox::MAX_SOFTMAX,
    crate::surprise::LSC,
    crate::surprise::DSC,
    crate::surprise::MDSC,
    crate::idc::IDC,
    crate::dct::DCT,
    crate::deepstellar::BSC,
    crate::deepstellar::WSC,
    crate::deepstellar::SBC,
    crate::deepstellar::BTC,
    crate::deepstellar::WTC,
];

/// Makes a criterion.
pub fn create(spec: &Spec, network: &NetworkShape) -> Result<Box<dyn Criterion>, CriterionError> {
    network.check()?;
    match CRITERIA.iter().find(|entry| entry.name == spec.name) {
        Some(entry) => (entry.create)(spec, network),
        None => Err(CriterionError::Unknown {
            name: spec.name.clone(),
            known: match meant(&spec.name) {
                Some(name) => format!("did you mean `{name}`? There are {}", names().join(", ")),
                None => format!("there are {}", names().join(", ")),
            },
        }),
    }
}

/// The criterion that a value belongs to: `nc` for `nc@0.5` and `nc:variant=raw`.
pub fn find(value: &str) -> Option<&'static Entry> {
    let name = value.split([':', '@']).next().unwrap_or(value);
    CRITERIA.iter().find(|entry| entry.name == name)
}

/// Whether a value counts degrees of similarity to abstract paths.
pub fn is_of_similarity(value: &str) -> bool {
    find(value).is_some_and(|entry| entry.meaning.of_similarity)
}

/// The criterion that suites are judged by where none is named: the first that tells of paths.
pub fn judging_criterion() -> Option<&'static Entry> {
    CRITERIA.iter().find(|entry| entry.meaning.of_paths)
}

/// The criterion whose name is most like one that there is not; `None` where none is like it.
fn meant(name: &str) -> Option<&'static str> {
    const ALIKE: f64 = 0.6;
    let name = name.to_lowercase();
    let alike = |known: &str| strsim::normalized_damerau_levenshtein(&name, known);
    let closest = names()
        .into_iter()
        .max_by(|a, b| alike(a).total_cmp(&alike(b)))?;
    (alike(closest) > ALIKE).then_some(closest)
}

/// The names of all criteria.
pub fn names() -> Vec<&'static str> {
    CRITERIA.iter().map(|entry| entry.name).collect()
}

/// The criteria that are measured unless others are named.
pub fn default_criteria() -> Vec<Spec> {
    let usual = CRITERIA.iter().filter(|entry| entry.is_default);
    usual.map(|entry| Spec::named(entry.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_almost_right_find_the_right_one() {
        for (name, expected) in [
            ("sncp", Some("snpc")),
            ("SNPC", Some("snpc")),
            ("kmn", Some("kmnc")),
            ("deep-gini", Some("deepgini")),
            ("accuracy", None),
            ("", None),
        ] {
            assert_eq!(meant(name), expected, "{name}");
        }
    }

    #[test]
    fn values_are_found_by_the_first_part_of_their_names() {
        for value in ["nc", "nc@0.5", "nc:variant=raw", "nc@0.5:variant=raw"] {
            assert_eq!(find(value).map(|entry| entry.name), Some("nc"), "{value}");
        }
        assert!(find("accuracy").is_none() && find("").is_none());
    }

    #[test]
    fn criteria_say_what_they_are() {
        assert_eq!(judging_criterion().map(|entry| entry.name), Some("snpc"));
        // Buckets of ANPC are distances: the higher, the less similar.
        let similar = CRITERIA.iter().filter(|e| is_of_similarity(e.name));
        assert!(similar.map(|entry| entry.name).eq(["snpc"]));
    }

    #[test]
    fn names_are_words_that_options_can_follow() {
        for (i, name) in names().into_iter().enumerate() {
            assert!(
                name.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
                "{name}"
            );
            assert_eq!(names().iter().position(|&other| other == name), Some(i));
            assert_eq!(
                name.parse::<Spec>().map(|spec| spec.name).ok().as_deref(),
                Some(name)
            );
        }
    }
}
