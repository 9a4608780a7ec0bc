//! What a coverage state says, in numbers for people and programs.

use std::fmt;
use std::path::PathBuf;

use npcov_artefact::{LayerRecord, MeasuredSuite, ScoreKind};
use npcov_criteria::{
    Amount, Criterion, CriterionError, CriterionSet, CriterionValue, LayerValues, Member, State,
    Warning,
};
use npcov_data::npz::{Compression, NpzWriter};
use npcov_paths::NO_CLUSTER;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::coverage::Coverage;
use crate::doubts;
use crate::error::CoverageError;
use crate::headline::{Baselines, alone, copies};
use crate::thin::{judge, training_predictions};

/// The coverage of suites.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The suites.
    pub suites: Vec<SuiteReport>,
    /// What all suites cover together; `None` for a single one.
    pub together: Option<Values>,
    /// How many things there are to cover, for criteria that are a share.
    pub buckets: Values<u64>,
    /// What is probably not meant, though it was measured.
    pub warnings: Vec<String>,
}

/// Something for each criterion, in the order in which criteria are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Values<T = Amount>(pub Vec<(String, T)>);

impl<T> Default for Values<T> {
    fn default() -> Self {
        Values(Vec::new())
    }
}

impl<T: Copy> Values<T> {
    /// What belongs to a criterion.
    pub fn get(&self, name: &str) -> Option<T> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| *value)
    }
}

impl<T: Serialize> Serialize for Values<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Values<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Values<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("something for each criterion")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Values<T>, M::Error> {
                let mut values = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    values.push(entry);
                }
                Ok(Values(values))
            }
        }
        deserializer.deserialize_map(Entries(std::marker::PhantomData))
    }
}

impl Report {
    /// Clusters of which a suite has far fewer inputs than training would let expect, by more than
    /// chance. Those of a class without inputs are not among them: there the class is thin.
    pub fn gaps(&self) -> impl Iterator<Item = &ClusterCoverage> {
        let clusters = self.suites.iter().flat_map(|suite| &suite.clusters);
        clusters.filter(|cluster| cluster.thin)
    }

    /// Whether a criterion is a part of what there is, not a count or another number.
    pub fn is_share(&self, criterion: &str) -> bool {
        let amounts = self
            .suites
            .iter()
            .map(|suite| suite.criteria.get(criterion));
        amounts.flatten().any(Amount::is_share)
    }
}

/// What a suite covers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SuiteReport {
    /// Its name.
    pub name: String,
    /// Number of inputs.
    pub inputs: usize,
    /// The share of inputs that are classified as labelled; `None` without labels.
    pub accuracy: Option<f64>,
    /// What it is worth by each criterion.
    pub criteria: Values,
    /// The same beside what other inputs reach.
    #[serde(rename = "yardsticks")]
    pub baselines: Values<Baselines>,
    /// By class.
    pub classes: Vec<ClassCoverage>,
    /// By cluster of the decision graph.
    pub clusters: Vec<ClusterCoverage>,
    /// By path layer.
    pub layers: Vec<LayerCoverage>,
    /// The inputs without which the suite would cover least, by SNPC.
    pub most: Vec<Contribution>,
    /// By layer of ANPC: the share of distances beyond the bound; `None` without distances.
    pub beyond: Vec<Option<f64>>,
    /// How many inputs are decided in a way that training did not show; `None` where nothing is known
    /// of that.
    pub unfamiliar: Option<Unusual>,
    /// How many inputs are decided nearly as another class is; `None` where nothing is known of that.
    pub contested: Option<Unusual>,
    /// How many inputs are copies of others: what was measured of them is the same to the last bit.
    /// `None` where nothing was measured that tells inputs apart.
    pub copies: Option<usize>,
}

impl SuiteReport {
    /// How many inputs have an unusually high score of a kind.
    pub fn unusual(&self, kind: ScoreKind) -> Option<Unusual> {
        match kind {
            ScoreKind::Unfamiliar => self.unfamiliar,
            ScoreKind::Contested => self.contested,
        }
    }
}

/// Inputs with a score that is unusually high among inputs that the graph was learnt without.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unusual {
    /// How many there are with a `p` of at most [`UNUSUAL`].
    pub inputs: usize,
    /// How many there would be among usual ones.
    pub expected: f64,
}

/// A score that so few inputs reach is unusual.
pub const UNUSUAL: f64 = 0.05;

/// What a suite covers of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassCoverage {
    /// The class.
    pub class: usize,
    /// Its name, where the training data has names.
    pub name: Option<String>,
    /// Inputs that are classified as it.
    pub inputs: usize,
    /// How many that would be if classes were as frequent as they [should be](crate::ClassShares).
    pub expected: f64,
    /// How likely it is that chance leaves no more of them.
    pub p: f64,
    /// Whether these are far fewer than expected, by more than chance.
    pub thin: bool,
    /// A suite of so many inputs would show that the class is missing; `None` where no inputs of it
    /// are expected.
    pub enough: Option<u64>,
    /// The same by label; `None` without labels. A network may take inputs of one class for another, so
    /// that a class is gone from the labels and still predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labelled: Option<LabelledClass>,
    /// The share of its buckets that are covered.
    pub criteria: Values,
}

/// Inputs of a suite that are labelled as a class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LabelledClass {
    /// How many there are.
    pub inputs: usize,
    /// How many that would be if labels were as frequent as they [should be](crate::ClassShares); `None`
    /// where training inputs have no labels and nothing else is said.
    pub expected: Option<f64>,
    /// How likely it is that chance leaves no more of them; `None` like `expected`.
    pub p: Option<f64>,
    /// Whether these are far fewer than expected, by more than chance.
    pub thin: bool,
    /// So many labelled inputs would show that the class is missing; `None` where none are expected.
    pub enough: Option<u64>,
}

/// What a suite covers of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterCoverage {
    /// The cluster, among those of the graph.
    pub cluster: usize,
    /// Its class.
    pub class: usize,
    /// Inputs that belong to it.
    pub inputs: usize,
    /// How many that would be of the inputs of its class, if clusters were as frequent as among
    /// training inputs.
    pub expected: f64,
    /// How likely it is that chance leaves no more of them.
    pub p: f64,
    /// Whether these are far fewer than expected, by more than chance.
    pub thin: bool,
    /// So many inputs of its class would show that the cluster is missing; `None` where training
    /// inputs leave it empty.
    pub enough: Option<u64>,
    /// The share of its buckets that are covered.
    pub criteria: Values,
}

/// What a suite covers of a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerCoverage {
    /// The layer's position.
    pub layer: usize,
    /// Its name in the model.
    pub name: String,
    /// What the layer is worth by those criteria that look at layers one by one.
    pub criteria: Values,
}

/// What an input adds to its suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contribution {
    /// The dataset's digest.
    pub data: String,
    /// The input's position in it.
    pub input: usize,
    /// What the input is called, where it has a name: a file of an image folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// The predicted class.
    pub prediction: usize,
    /// The label; `None` without labels.
    pub label: Option<i64>,
    /// Buckets that no other input of the suite covers.
    pub alone: usize,
}

/// Inputs that are named as adding most.
const MOST: usize = 10;

impl Coverage {
    /// What the suites cover, in numbers.
    pub fn report(&self) -> Result<Report, CoverageError> {
        let criteria = self.state().criteria()?;
        let mut warnings = Vec::new();
        let mut suites = Vec::new();
        for suite in self.state().suites() {
            let names = &self.state().record().class_names;
            let called =
                |class: usize| doubts::called(class, names.get(class).and_then(Option::as_deref));
            warnings.extend(doubts::of_inputs(&suite.name, &suite.inputs, called));
            suites.push(self.suite_report(&criteria, suite, &mut warnings)?);
        }
        let together = match self.state().suites().len() {
            0 | 1 => None,
            _ => {
                let mut together = Values::default();
                let states = self.state().together();
                for (member, state) in criteria.members().iter().zip(&states) {
                    if let Some(state) = state {
                        let values = member.criterion.values(state);
                        let values = values.map_err(|e| member.failed(e))?;
                        together.0.extend(values.into_iter().map(entry));
                    }
                }
                Some(together)
            }
        };
        let totals = match self.state().suites().first() {
            Some(suite) => values(&criteria, suite)?,
            None => Vec::new(),
        };
        let totals = totals.into_iter().filter_map(|value| match value.amount {
            Amount::Share { total, .. } => Some((value.name, total)),
            _ => None,
        });
        Ok(Report {
            suites,
            together,
            buckets: Values(totals.collect()),
            warnings,
        })
    }

    fn suite_report(
        &self,
        criteria: &CriterionSet,
        suite: &MeasuredSuite,
        warnings: &mut Vec<String>,
    ) -> Result<SuiteReport, CoverageError> {
        let inputs = suite.inputs.len();
        let judged: Vec<bool> = suite.inputs.iter().filter_map(|i| i.is_correct()).collect();
        let right = judged.iter().filter(|&&right| right).count();
        for (member, state) in criteria.members().iter().zip(&suite.states) {
            let found = member.criterion.warnings(state);
            let found = found.map_err(|e| member.failed(e))?;
            let named = |warning: &Warning| format!("`{}`: {warning}", suite.name);
            warnings.extend(found.iter().map(named));
        }
        let amounts = values(criteria, suite)?.into_iter().map(entry);
        let scores = suite.scores(self.state().record());
        let scores: Vec<&[f64]> = scores.map(|(_, scores)| scores).collect();
        Ok(SuiteReport {
            name: suite.name.clone(),
            inputs,
            accuracy: (!judged.is_empty()).then(|| right as f64 / judged.len() as f64),
            criteria: Values(amounts.collect()),
            baselines: self.baselines(criteria, suite)?,
            classes: self.classes(criteria, suite)?,
            clusters: self.clusters(criteria, suite)?,
            layers: self.layers(criteria, suite)?,
            most: self.most(criteria, suite)?,
            beyond: self.beyond(criteria, suite)?,
            unfamiliar: self.unusual(suite, ScoreKind::Unfamiliar),
            contested: self.unusual(suite, ScoreKind::Contested),
            copies: copies(criteria, suite, &scores)?,
        })
    }

    /// How many inputs have an unusual score.
    fn unusual(&self, suite: &MeasuredSuite, kind: ScoreKind) -> Option<Unusual> {
        let calibration = self.state().calibration();
        if !calibration.tells(kind, UNUSUAL) {
            return None;
        }
        let scores = suite.inputs.iter().filter_map(|input| input.score(kind));
        let ranks = scores.filter_map(|score| calibration.p(kind, score));
        let ranks: Vec<f64> = ranks.collect();
        (!ranks.is_empty()).then(|| Unusual {
            inputs: ranks.iter().filter(|&&p| p <= UNUSUAL).count(),
            expected: UNUSUAL * ranks.len() as f64,
        })
    }

    /// What the first criterion that has bounds says of them.
    fn beyond(
        &self,
        criteria: &CriterionSet,
        suite: &MeasuredSuite,
    ) -> Result<Vec<Option<f64>>, CoverageError> {
        for (member, state) in criteria.members().iter().zip(&suite.states) {
            let beyond = member.criterion.beyond(state);
            let beyond = beyond.map_err(|e| member.failed(e))?;
            if !beyond.is_empty() {
                return Ok(beyond);
            }
        }
        Ok(Vec::new())
    }

    fn classes(
        &self,
        criteria: &CriterionSet,
        suite: &MeasuredSuite,
    ) -> Result<Vec<ClassCoverage>, CoverageError> {
        let record = self.state().record();
        let columns = columns(criteria, suite, |criterion, state| {
            criterion.by_class(state)
        })?;
        let shares = self.class_shares();
        let known = shares.iter().filter(|&&share| share > 0.0).count();
        let predictions = suite.inputs.iter().map(|input| input.prediction);
        let counts = counts(record.classes.len(), predictions);
        let labelled = self.labelled(suite);
        let class = |(class, inputs): (usize, usize)| {
            let share = shares.get(class).copied().unwrap_or(0.0);
            let verdict = judge(inputs, suite.inputs.len(), share, known);
            ClassCoverage {
                labelled: labelled.get(class).copied(),
                class,
                name: record.class_names.get(class).cloned().flatten(),
                inputs,
                expected: verdict.expected,
                p: verdict.p,
                thin: verdict.thin,
                enough: verdict.enough,
                criteria: row(&columns, class),
            }
        };
        Ok(counts.into_iter().enumerate().map(class).collect())
    }

    /// By class: what a suite has of it by label; nothing without labels. Labels that are no classes do
    /// not count.
    fn labelled(&self, suite: &MeasuredSuite) -> Vec<LabelledClass> {
        let labels = suite.inputs.iter().filter(|i| i.is_correct().is_some());
        let classes = labels.filter_map(|input| u32::try_from(input.label).ok());
        let counts = counts(self.state().record().classes.len(), classes);
        let all: usize = counts.iter().sum();
        if all == 0 {
            return Vec::new();
        }
        let shares = self.label_shares();
        let known = |shares: &Vec<f64>| shares.iter().filter(|&&share| share > 0.0).count();
        let known = shares.as_ref().map_or(0, known);
        let class = |(class, inputs): (usize, usize)| {
            let share = shares.as_ref().and_then(|shares| shares.get(class));
            let verdict = share.map(|&share| judge(inputs, all, share, known));
            LabelledClass {
                inputs,
                expected: verdict.map(|verdict| verdict.expected),
                p: verdict.map(|verdict| verdict.p),
                thin: verdict.is_some_and(|verdict| verdict.thin),
                enough: verdict.and_then(|verdict| verdict.enough),
            }
        };
        counts.into_iter().enumerate().map(class).collect()
    }

    fn clusters(
        &self,
        criteria: &CriterionSet,
        suite: &MeasuredSuite,
    ) -> Result<Vec<ClusterCoverage>, CoverageError> {
        if !criteria.need_paths() {
            return Ok(Vec::new());
        }
        let record = self.state().record();
        let columns = columns(criteria, suite, |criterion, state| {
            criterion.by_cluster(state)
        })?;
        let owners = record.classes.iter().enumerate();
        let owners = owners.flat_map(|(class, &(_, clusters))| (0..clusters).map(move |_| class));
        let owners: Vec<usize> = owners.collect();
        let classes = record.classes.len();
        let predicted = counts(classes, suite.inputs.iter().map(|input| input.prediction));
        let counts = counts(owners.len(), suite.inputs.iter().map(|input| input.cluster));
        let trained = training_predictions(record);
        // Clusters of classes without inputs say nothing that the class does not.
        let looked_at = owners.iter().filter(|&&class| predicted[class] > 0).count();
        let cluster = |(cluster, (class, inputs)): (usize, (usize, usize))| {
            let training = record.shares.get(cluster).copied().unwrap_or(0) as f64;
            let share = training / trained[class].max(1) as f64;
            let verdict = judge(inputs, predicted[class], share, looked_at);
            ClusterCoverage {
                cluster,
                class,
                inputs,
                expected: verdict.expected,
                p: verdict.p,
                thin: verdict.thin,
                enough: verdict.enough,
                criteria: row(&columns, cluster),
            }
        };
        let clusters = owners.into_iter().zip(counts).enumerate();
        Ok(clusters.map(cluster).collect())
    }

    fn layers(
        &self,
        criteria: &CriterionSet,
        suite: &MeasuredSuite,
    ) -> Result<Vec<LayerCoverage>, CoverageError> {
        let mut columns: Vec<LayerValues> = Vec::new();
        for (member, state) in criteria.members().iter().zip(&suite.states) {
            let by_layer = member.criterion.by_layer(state);
            columns.extend(by_layer.map_err(|e| member.failed(e))?);
        }
        let layer = |(layer, record): (usize, &LayerRecord)| {
            let number = |values: &LayerValues| {
                let amount = values.layers.get(layer)?;
                let nothing = matches!(amount, Amount::Share { total: 0, .. });
                (!nothing).then(|| (values.name.clone(), *amount))
            };
            LayerCoverage {
                layer,
                name: record.name.clone(),
                criteria: Values(columns.iter().filter_map(number).collect()),
            }
        };
        let layers = self.state().record().layers.iter();
        Ok(layers.enumerate().map(layer).collect())
    }

    /// The inputs that cover most things which no other input covers, by the first criterion that
    /// keeps what each input covers.
    fn most(
        &self,
        criteria: &CriterionSet,
        suite: &MeasuredSuite,
    ) -> Result<Vec<Contribution>, CoverageError> {
        let mut found = None;
        for (member, state) in criteria.members().iter().zip(&suite.states) {
            let slots = member.criterion.slots_by_input(state);
            found = found.or(slots.map_err(|e| member.failed(e))?);
        }
        let Some(slots) = found else {
            return Ok(Vec::new());
        };
        let places = suite.shards.iter().flat_map(|shard| {
            (shard.start..shard.end).map(move |input| (shard.sha256.as_str(), input))
        });
        let inputs = suite
            .inputs
            .iter()
            .zip(alone(&slots))
            .zip(places)
            .enumerate();
        let name = |i: usize| suite.names.get(i).filter(|name| !name.is_empty());
        let mut most: Vec<Contribution> = inputs
            .map(|(i, ((record, alone), (data, input)))| Contribution {
                data: data.to_owned(),
                input,
                sample: name(i).cloned(),
                prediction: record.prediction as usize,
                label: record.is_correct().map(|_| record.label),
                alone,
            })
            .filter(|contribution| contribution.alone > 0)
            .collect();
        // Stable: of equal ones the first.
        most.sort_by_key(|contribution| std::cmp::Reverse(contribution.alone));
        most.truncate(MOST);
        Ok(most)
    }

    /// Writes what was found for every input as arrays of an npz file: `name` (of its sample, or its row
    /// where that has none), `suite`, `prediction`,
    /// `label` (-1 without one), `cluster` (of the graph, -1 for none), the scores `unfamiliar` and
    /// `contested` with the share of usual inputs that have at least such a score (`unfamiliar.p`,
    /// `contested.p`; NaN for none), and the scores of criteria that give inputs scores, by their
    /// names.
    pub fn write_inputs(&self, path: impl Into<PathBuf>) -> Result<(), CoverageError> {
        let mut writer = NpzWriter::create(path, Compression::Stored)?;
        let mut columns = Vec::new();
        for name in ["suite", "prediction", "label", "cluster"] {
            columns.push(writer.array::<i64>(name, &[])?);
        }
        let mut numbers = Vec::new();
        for kind in ScoreKind::ALL {
            numbers.push(writer.array::<f64>(kind.name(), &[])?);
            numbers.push(writer.array::<f64>(&format!("{}.p", kind.name()), &[])?);
        }
        let mut scores = Vec::new();
        for name in self.score_names() {
            scores.push(writer.array::<f64>(&name, &[])?);
        }
        let cluster = |cluster: u32| match cluster {
            NO_CLUSTER => -1,
            cluster => i64::from(cluster),
        };
        for (number, suite) in self.state().suites().iter().enumerate() {
            for input in &suite.inputs {
                let values = [
                    number as i64,
                    i64::from(input.prediction),
                    input.is_correct().map_or(-1, |_| input.label),
                    cluster(input.cluster),
                ];
                for (column, value) in columns.iter().zip(values) {
                    writer.append(column, &[value])?;
                }
                let values = ScoreKind::ALL.into_iter().flat_map(|kind| {
                    let score = input.score(kind);
                    let p = score.and_then(|score| self.state().calibration().p(kind, score));
                    [score, p].map(|number| number.unwrap_or(f64::NAN))
                });
                for (column, value) in numbers.iter().zip(values) {
                    writer.append(column, &[value])?;
                }
            }
            for (column, (_, values)) in scores.iter().zip(suite.scores(self.state().record())) {
                writer.append(column, values)?;
            }
        }
        let names: Vec<String> = self.state().suites().iter().flat_map(input_names).collect();
        writer.texts("name", &names)?;
        Ok(writer.finish()?)
    }

    /// The names of the scores that criteria give inputs. A score that several criteria of one
    /// kind give carries the criterion's options.
    fn score_names(&self) -> Vec<String> {
        match self.state().suites().first() {
            Some(suite) => suite
                .scores(self.state().record())
                .map(|(name, _)| name)
                .collect(),
            None => Vec::new(),
        }
    }
}

fn entry(value: CriterionValue) -> (String, Amount) {
    (value.name, value.amount)
}

/// How many of some inputs belong to each of so many things, in one pass.
fn counts(things: usize, of_inputs: impl Iterator<Item = u32>) -> Vec<usize> {
    let mut counts = vec![0; things];
    for thing in of_inputs {
        if let Some(count) = counts.get_mut(thing as usize) {
            *count += 1;
        }
    }
    counts
}

/// What a suite is worth.
pub(crate) fn values(
    criteria: &CriterionSet,
    suite: &MeasuredSuite,
) -> Result<Vec<CriterionValue>, CoverageError> {
    let mut values = Vec::new();
    for (member, state) in criteria.members().iter().zip(&suite.states) {
        values.extend(values_of(criteria, member, state)?);
    }
    Ok(values)
}

/// What a suite is worth by one criterion. Where several criteria of one name differ in options,
/// those are part of the names.
pub(crate) fn values_of(
    criteria: &CriterionSet,
    member: &Member,
    state: &State,
) -> Result<Vec<CriterionValue>, CoverageError> {
    let alike = criteria.members().iter();
    let several = alike.filter(|m| m.spec.name == member.spec.name).count() > 1;
    let options = &member.spec.to_string()[member.spec.name.len()..];
    let values = member.criterion.values(state);
    let mut values = values.map_err(|e| member.failed(e))?;
    if several {
        values.iter_mut().for_each(|value| value.name += options);
    }
    Ok(values)
}

/// A breakdown of each criterion that has one.
fn columns(
    criteria: &CriterionSet,
    suite: &MeasuredSuite,
    of: impl Fn(&dyn Criterion, &State) -> Result<Vec<Amount>, CriterionError>,
) -> Result<Vec<(String, Vec<Amount>)>, CoverageError> {
    let mut columns = Vec::new();
    for (member, state) in criteria.members().iter().zip(&suite.states) {
        let column = of(member.criterion.as_ref(), state).map_err(|e| member.failed(e))?;
        if !column.is_empty() {
            columns.push((member.spec.to_string(), column));
        }
    }
    Ok(columns)
}

fn row(columns: &[(String, Vec<Amount>)], index: usize) -> Values {
    let number = |(name, column): &(String, Vec<Amount>)| Some((name.clone(), *column.get(index)?));
    Values(columns.iter().filter_map(number).collect())
}

/// What the inputs of a suite are called: their samples' names, or rows where those have none.
fn input_names(suite: &MeasuredSuite) -> impl Iterator<Item = String> {
    let rows = suite.shards.iter().flat_map(|shard| shard.start..shard.end);
    rows.enumerate().map(|(i, row)| match suite.names.get(i) {
        Some(name) if !name.is_empty() => name.clone(),
        _ => row.to_string(),
    })
}
