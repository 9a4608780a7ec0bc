//! Smaller suites that cover the same.

use std::path::Path;

use npcov_coverage::{Coverage, LearntGraph};
use npcov_criteria::Spec;
use npcov_paths::Choices;
use npcov_run::{Progress, SampleRange};
use serde::{Deserialize, Serialize};

use crate::chosen::{self, Chosen};
use crate::error::SelectError;
use crate::given::Given;
use crate::pool::{Pool, Wanted};
use crate::ranking::{self, Covered, Ranked, SlotLists};
use crate::strategy;

/// How a suite is made smaller.
#[derive(Clone, Debug, PartialEq)]
pub struct MinimizeOptions {
    /// The criteria by which nothing may be lost; SNPC and ANPC by default.
    pub criteria: Vec<Spec>,
    /// How paths are compared; as the graph says by default.
    pub choices: Option<Choices>,
    /// What is covered already, and need not be covered again; nothing by default.
    pub given: Option<Coverage>,
}

impl Default for MinimizeOptions {
    fn default() -> MinimizeOptions {
        MinimizeOptions {
            criteria: ["snpc", "anpc"].map(Spec::named).into(),
            choices: None,
            given: None,
        }
    }
}

/// A suite that was made smaller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Minimization {
    /// The suite, as it was named.
    pub data: String,
    /// Inputs in it.
    pub inputs: usize,
    /// The names of the classes, where they have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_names: Option<Vec<String>>,
    /// The file with the inputs that are kept; empty without one.
    pub file: String,
    /// What is covered before and after.
    pub criteria: Vec<MinimizedCriterion>,
    /// The inputs that are kept, first those that add the most.
    pub chosen: Vec<Chosen>,
}

/// What a suite and a smaller one cover by a criterion: the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinimizedCriterion {
    /// The criterion.
    pub criterion: String,
    /// Things that were covered already, where a state was given; the other numbers are things beyond those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<u64>,
    /// Things that the suite covers.
    pub before: u64,
    /// Things that the smaller suite covers.
    pub after: u64,
    /// Things there are; `None` where nobody knows.
    pub total: Option<u64>,
}

/// Finds a small part of a suite that covers all that the suite covers beyond what is given, by each of
/// some criteria, and in which no input can be left out; writes it to a file, where one is wanted, as
/// [`select`](crate::select) does.
///
/// The smallest such part is hard to find; this one is greedy.
pub fn minimize(
    graph: &LearntGraph,
    suite: &SampleRange<'_>,
    options: &MinimizeOptions,
    output: Option<&Path>,
    progress: &mut dyn Progress,
) -> Result<Minimization, SelectError> {
    let choices = options.choices.as_ref();
    let measurement = strategy::counting_things(graph, &options.criteria, choices)?;
    let (data, start) = (suite.data, suite.range.start);
    let given = Given::of(options.given.as_ref(), &measurement)?;
    let pool = Pool::measure(
        &measurement,
        &Wanted::Slots,
        &given,
        suite,
        output,
        progress,
    )?;
    let kept = ranking::minimal(&pool.lists)?;
    let before = ranking::covered(&pool.lists, 0..pool.lists.len())?;
    let after = ranking::covered(&pool.lists, kept.iter().map(|ranked| ranked.input))?;
    let mut found = Vec::new();
    for (i, member) in measurement.criteria().members().iter().enumerate() {
        // Numbers and patterns.
        let things = |covered: &Covered| covered.count_of(2 * i) + covered.count_of(2 * i + 1);
        let criterion = MinimizedCriterion {
            criterion: member.spec.to_string(),
            given: given.count(i),
            before: things(&before),
            after: things(&after),
            total: member.criterion.things().map_err(|e| member.failed(e))?,
        };
        if criterion.before != criterion.after {
            return Err(SelectError::CoverageLost {
                criterion: criterion.criterion,
                before: criterion.before,
                after: criterion.after,
            });
        }
        found.push(criterion);
    }
    if let Some(output) = output {
        chosen::write(data, &kept, start, &pool, output)?;
    }
    let chosen = |ranked: &Ranked| Chosen::new(ranked, start, &pool, data);
    let minimization = Minimization {
        data: data.name().to_owned(),
        inputs: pool.lists.len(),
        class_names: data.class_names().map(<[String]>::to_vec),
        file: output.map_or(String::new(), |file| file.display().to_string()),
        criteria: found,
        chosen: kept.iter().map(chosen).collect(),
    };
    pool.store.remove()?;
    Ok(minimization)
}
