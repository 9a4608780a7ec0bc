//! How inputs are chosen.

use std::fmt;
use std::str::FromStr;

use npcov_criteria::{Needs, Spec};

use super::pool::{INCORRECT, UNKNOWN, Wanted};
use crate::error::Error;
use crate::ruler::Ruler;

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

/// Lets a ruler measure what a strategy needs, and says what that is.
pub(super) fn prepare(ruler: &mut Ruler, strategy: &Strategy) -> Result<Wanted, Error> {
    match strategy {
        Strategy::Additional(spec) | Strategy::Total(spec) => {
            require_things(ruler, std::slice::from_ref(spec))?;
            Ok(Wanted::Slots)
        }
        Strategy::Random => {
            ruler.measure(&[])?;
            Ok(Wanted::Nothing)
        }
        Strategy::Score(spec) if [UNKNOWN, INCORRECT].contains(&spec.name.as_str()) => {
            let places = |needs: Needs| needs.paths && !needs.neighbours;
            let found = all(ruler).into_iter().find(|(_, c)| places(c.needs()));
            // Whatever the criterion is, it has an input's place looked up, and no more.
            let measured = found.map(|(criterion, _)| Spec {
                options: spec.options.clone(),
                ..criterion
            });
            ruler.measure(measured.as_slice())?;
            Ok(match spec.name == UNKNOWN {
                true => Wanted::Unknown,
                false => Wanted::Incorrect,
            })
        }
        Strategy::Score(spec) => {
            let known = scores(ruler);
            let found = known.iter().find(|(score, _)| *score == spec.name);
            let Some((score, criterion)) = found else {
                let mut names: Vec<String> = known.into_iter().map(|(score, _)| score).collect();
                names.extend([UNKNOWN, INCORRECT].map(str::to_owned));
                return Err(Error::NoSuchScore {
                    name: spec.name.clone(),
                    known: names,
                });
            };
            ruler.measure(&[Spec {
                name: criterion.clone(),
                options: spec.options.clone(),
            }])?;
            Ok(Wanted::Score(score.clone()))
        }
    }
}

/// Lets a ruler measure with criteria, all of which must count things that inputs cover.
pub(super) fn require_things(ruler: &mut Ruler, specs: &[Spec]) -> Result<(), Error> {
    ruler.measure(specs)?;
    for measure in ruler.measures().list() {
        let criterion = &measure.criterion;
        if criterion.counts_things() {
            continue;
        }
        let state = criterion.state();
        let score = state.all_scores().map(|(score, _)| score).next();
        return Err(Error::CountsNothing {
            criterion: measure.spec.to_string(),
            reason: match score {
                _ if criterion.ordered() => {
                    "what an input covers depends on those before it".to_owned()
                }
                Some(score) => format!("it gives each input a score, as in `score:{score}`"),
                None => "it looks at a suite as a whole".to_owned(),
            },
            known: counting(ruler),
        });
    }
    Ok(())
}

/// All scores with the names of the criteria that give them.
fn scores(ruler: &Ruler) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (spec, criterion) in all(ruler) {
        for (score, _) in criterion.state().all_scores() {
            found.push((score.to_owned(), spec.name.clone()));
        }
    }
    found
}

/// The names of the criteria that count things.
fn counting(ruler: &Ruler) -> Vec<String> {
    let counting = all(ruler).into_iter().filter(|(_, c)| c.counts_things());
    counting.map(|(spec, _)| spec.name).collect()
}

/// Every criterion without options, as far as the network allows.
fn all(ruler: &Ruler) -> Vec<(Spec, Box<dyn npcov_criteria::Criterion>)> {
    let network = ruler.graph().record().network_shape(ruler.choices());
    let made = npcov_criteria::names().into_iter().filter_map(|name| {
        let spec: Spec = name.parse().ok()?;
        let criterion = npcov_criteria::create(&spec, &network).ok()?;
        Some((spec, criterion))
    });
    made.collect()
}

impl Ruler {
    /// Those of the graph's criteria that count things which inputs cover: suites can be minimised
    /// and inputs chosen by them.
    pub fn counting_criteria(&self) -> Vec<Spec> {
        let network = self.graph().record().network_shape(self.choices());
        let counts = |spec: &Spec| {
            let created = npcov_criteria::create(spec, &network);
            created.is_ok_and(|criterion| criterion.counts_things())
        };
        let specs = self.graph().record().specs().into_iter();
        specs.filter(counts).collect()
    }
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
