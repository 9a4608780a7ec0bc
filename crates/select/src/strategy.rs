//! How inputs are chosen.

use std::fmt;
use std::str::FromStr;

use npcov_coverage::{CoverOptions, LearntGraph, Measurement};
use npcov_criteria::{Criterion, Spec, create, names};
use npcov_paths::Choices;

use crate::error::SelectError;
use crate::pool::Wanted;
use npcov_artefact::ScoreKind;

/// How inputs are chosen from a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Each next input adds the most things to what those before it cover by a criterion
    /// (coverage-additional, CAM). When none adds anything, everything counts as not covered again.
    Additional(Spec),
    /// Inputs that cover the most things by themselves first (coverage-total, CTM).
    Total(Spec),
    /// Inputs with the highest scores first. The name is that of a score, the options are those of
    /// the criterion that gives it.
    Score(Spec),
    /// A random order.
    Random,
}

impl Strategy {
    /// What it is called in front of the criterion or score.
    fn name(&self) -> &'static str {
        match self {
            Strategy::Additional(_) => "additional",
            Strategy::Total(_) => "total",
            Strategy::Score(_) => "score",
            Strategy::Random => "random",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::Additional(spec) | Strategy::Total(spec) | Strategy::Score(spec) => {
                write!(f, "{}:{spec}", self.name())
            }
            Strategy::Random => f.write_str(self.name()),
        }
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Strategy, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let make: fn(Spec) -> Strategy = match name {
            "additional" => Strategy::Additional,
            "total" => Strategy::Total,
            "score" => Strategy::Score,
            "random" if rest.is_empty() => return Ok(Strategy::Random),
            _ => {
                return Err(
                    "use `additional:CRITERION`, `total:CRITERION`, `score:NAME` or `random`"
                        .to_owned(),
                );
            }
        };
        match rest {
            "" => Err(format!(
                "`{name}` of what? Try `{name}:{}`",
                match name {
                    "score" => "deepgini",
                    _ => "kmnc",
                }
            )),
            rest => rest.parse().map(make).map_err(|error| format!("{error}")),
        }
    }
}

/// A criterion that needs no more of an input than its path.
pub(crate) const PATHS: &str = "snpc";

/// Prepares to measure what a strategy needs, and says what that is.
pub(crate) fn prepare<'g>(
    graph: &'g LearntGraph,
    strategy: &Strategy,
    choices: Option<&Choices>,
) -> Result<(Measurement<'g>, Wanted), SelectError> {
    match strategy {
        Strategy::Additional(spec) | Strategy::Total(spec) => {
            let measurement = counting_things(graph, std::slice::from_ref(spec), choices)?;
            Ok((measurement, Wanted::Slots))
        }
        Strategy::Random => Ok((measurement(graph, &[], choices)?, Wanted::Nothing)),
        Strategy::Score(spec) if let Some(kind) = by_neighbours(&spec.name) => {
            let snpc = Spec {
                options: spec.options.clone(),
                ..Spec::named(PATHS)
            };
            let measurement = measurement(graph, &[snpc], choices)?;
            Ok((measurement, Wanted::Neighbours(kind)))
        }
        Strategy::Score(spec) => {
            let known = scores(graph);
            let found = known.iter().find(|(score, _)| *score == spec.name);
            let Some((score, criterion)) = found else {
                let mut names: Vec<String> = known.into_iter().map(|(score, _)| score).collect();
                names.extend(ScoreKind::ALL.map(|kind| kind.name().to_owned()));
                return Err(SelectError::NoSuchScore {
                    name: spec.name.clone(),
                    known: names,
                });
            };
            let criterion = Spec {
                name: criterion.clone(),
                options: spec.options.clone(),
            };
            let measurement = measurement(graph, &[criterion], choices)?;
            Ok((measurement, Wanted::Score(score.clone())))
        }
    }
}

/// The score of this name that an input's neighbours in the decision graph give it.
fn by_neighbours(name: &str) -> Option<ScoreKind> {
    ScoreKind::ALL.into_iter().find(|kind| kind.name() == name)
}

fn measurement<'g>(
    graph: &'g LearntGraph,
    criteria: &[Spec],
    choices: Option<&Choices>,
) -> Result<Measurement<'g>, SelectError> {
    let options = CoverOptions {
        criteria: Some(criteria.to_vec()),
        choices: choices.cloned(),
    };
    Ok(graph.measurement(&options)?)
}

/// Prepares to measure with criteria, all of which must count things that inputs cover.
pub(crate) fn counting_things<'g>(
    graph: &'g LearntGraph,
    specs: &[Spec],
    choices: Option<&Choices>,
) -> Result<Measurement<'g>, SelectError> {
    let measurement = measurement(graph, specs, choices)?;
    for member in measurement.criteria().members() {
        let criterion = &member.criterion;
        if criterion.counts_things() {
            continue;
        }
        let state = criterion.state();
        let score = state.all_scores().map(|(score, _)| score).next();
        return Err(SelectError::CountsNothing {
            criterion: member.spec.to_string(),
            reason: match score {
                _ if criterion.ordered() => {
                    "what an input covers depends on those before it".to_owned()
                }
                Some(score) => format!("it gives each input a score, as in `score:{score}`"),
                None => "it looks at a suite as a whole".to_owned(),
            },
            known: counting(graph),
        });
    }
    Ok(measurement)
}

/// All scores with the names of the criteria that give them.
fn scores(graph: &LearntGraph) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, criterion) in all(graph) {
        for (score, _) in criterion.state().all_scores() {
            found.push((score.to_owned(), name.to_owned()));
        }
    }
    found
}

/// The names of the criteria that count things.
fn counting(graph: &LearntGraph) -> Vec<String> {
    let counting = all(graph).into_iter().filter(|(_, c)| c.counts_things());
    counting.map(|(name, _)| name.to_owned()).collect()
}

/// Every criterion without options, as far as the network allows.
fn all(graph: &LearntGraph) -> Vec<(&'static str, Box<dyn Criterion>)> {
    let record = graph.file().record();
    let network = record.network_shape(&record.choices);
    let made = names().into_iter().filter_map(|name| {
        let criterion = create(&Spec::named(name), &network).ok()?;
        Some((name, criterion))
    });
    made.collect()
}

/// Those of a graph's criteria that count things which inputs cover: suites can be minimised and
/// inputs chosen by them.
pub fn counting_criteria(graph: &LearntGraph) -> Vec<Spec> {
    let record = graph.file().record();
    let network = record.network_shape(&record.choices);
    let counts = |spec: &Spec| {
        let created = create(spec, &network);
        created.is_ok_and(|criterion| criterion.counts_things())
    };
    record.specs().into_iter().filter(counts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_are_read_and_written() {
        for text in [
            "additional:kmnc",
            "total:nc:thresholds=0.5",
            "score:lsa:layer=-2",
            "random",
        ] {
            assert_eq!(text.parse::<Strategy>().unwrap().to_string(), text);
        }
        for wrong in ["", "kmnc", "additional", "additional:", "random:7", "score"] {
            assert!(wrong.parse::<Strategy>().is_err(), "{wrong}");
        }
    }
}
