//! What a suite has killed: a state that merges.
//!
//! Its file is JSON that begins with a checksum of all that comes behind.

use std::collections::BTreeSet;
use std::path::Path;

use npcov_data::{Digester, write_whole};
use serde::{Deserialize, Serialize};

use crate::draw::Mutant;
use crate::error::MutationError;
use crate::options::{MOST, MutationOptions};
use crate::score::MutationReport;

/// How state files begin: with their format.
const START: &str = "{\"npcov-mutation\":2,\"sha256\":\"";

/// What files of every format begin with.
const ANY_START: &[u8; 17] = b"{\"npcov-mutation\"";

/// The length of a checksum as text.
const CHECKSUM: usize = 64;

/// The largest state file.
const LARGEST: u64 = 1 << 26;

/// What tells mutants of one plan from others: states merge when it is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MutationPlan {
    /// The digest of the model.
    pub model: String,
    /// Number of classes.
    pub classes: usize,
    /// Which mutants were asked for.
    pub options: MutationOptions,
    /// The neurons that may be changed, in words; `None` where all may.
    pub among: Option<String>,
    /// The mutants that were made.
    pub mutants: Vec<Mutant>,
    /// How mutants do on data that was given to judge them by; without, they are judged by the suite itself.
    pub judged: Option<Judged>,
}

/// How a model and its mutants do on some data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The data, as it was named.
    pub data: String,
    /// Number of inputs.
    pub inputs: usize,
    /// How many of them the model classifies as labelled.
    pub correct: usize,
    /// The same of each mutant.
    pub by_mutant: Vec<usize>,
}

/// What a suite has done to one mutant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    /// The classes that are killed, in ascending order: for each the suite has an input that the model classifies as
    /// labelled and the mutant does not.
    pub classes: Vec<u32>,
    /// How many inputs the mutant classifies as labelled.
    pub correct: usize,
}

/// What a suite has killed of each mutant. States of several suites unite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MutationState {
    /// Of which mutants.
    pub plan: MutationPlan,
    /// The suites, as they were named, each once.
    pub suites: Vec<String>,
    /// Number of inputs.
    pub inputs: usize,
    /// Whether labels said what is right, or the model itself.
    pub labelled: bool,
    /// How many inputs of each class the model classifies as labelled.
    pub correct: Vec<usize>,
    /// By mutant.
    pub killed: Vec<Killed>,
}

impl MutationState {
    /// A state of no inputs.
    pub fn empty(plan: MutationPlan, suite: &str, labelled: bool) -> MutationState {
        MutationState {
            suites: vec![suite.to_owned()],
            inputs: 0,
            labelled,
            correct: vec![0; plan.classes],
            killed: vec![Killed::default(); plan.mutants.len()],
            plan,
        }
    }

    /// Adds the inputs that the model classified, with what is right for each.
    pub(crate) fn add_inputs(&mut self, truths: &[u32], predictions: &[u32]) {
        self.inputs += truths.len();
        for (&truth, _) in truths.iter().zip(predictions).filter(|(t, p)| t == p) {
            self.correct[truth as usize] += 1;
        }
    }

    /// Adds what a mutant makes of the inputs; `None` where its logits are no numbers.
    pub(crate) fn add_mutant(
        &mut self,
        mutant: usize,
        truths: &[u32],
        predictions: &[u32],
        mutated: &[Option<u32>],
    ) {
        let killed = &mut self.killed[mutant];
        let mut classes = vec![false; self.plan.classes];
        killed
            .classes
            .iter()
            .for_each(|&class| classes[class as usize] = true);
        for ((&truth, &prediction), &found) in truths.iter().zip(predictions).zip(mutated) {
            let right = found == Some(truth);
            killed.correct += usize::from(right);
            classes[truth as usize] |= truth == prediction && !right;
        }
        let all = (0..).zip(classes).filter(|(_, killed)| *killed);
        killed.classes = all.map(|(class, _)| class).collect();
    }

    /// Unites the state with another one: what either suite kills is killed. Inputs and correct ones add up, so that parts
    /// of a suite give the state of all of it.
    pub fn merge(&mut self, other: &MutationState) -> Result<(), MutationError> {
        let reason = match (&self.plan, &other.plan) {
            (a, b) if a.model != b.model => Some("they are of different models"),
            (a, b) if a.judged != b.judged => Some("their mutants were judged by different data"),
            (a, b) if a != b => Some("they are of different mutants"),
            _ if self.labelled != other.labelled => Some("only one of them has labels"),
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(MutationError::Misfit(reason));
        }
        // No other count is larger.
        let inputs = self.inputs.checked_add(other.inputs);
        let too_many = MutationError::Misfit("together they have more inputs than can be counted");
        self.inputs = inputs.ok_or(too_many)?;
        let known: BTreeSet<String> = self.suites.iter().cloned().collect();
        let new = other.suites.iter().filter(|suite| !known.contains(*suite));
        self.suites.extend(new.cloned());
        let counts = self.correct.iter_mut().zip(&other.correct);
        counts.for_each(|(own, more)| *own += more);
        for (own, more) in self.killed.iter_mut().zip(&other.killed) {
            own.correct += more.correct;
            own.classes.extend(&more.classes);
            own.classes.sort_unstable();
            own.classes.dedup();
        }
        Ok(())
    }

    /// What it is worth.
    pub fn report(&self) -> MutationReport {
        MutationReport::of(self)
    }

    /// Writes it to a file, which has its name when it is whole.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), MutationError> {
        let state = serde_json::to_string(self).map_err(|error| {
            let file = path.as_ref().display().to_string();
            MutationError::File {
                file,
                reason: error.to_string(),
            }
        })?;
        Ok(write_whole(path.as_ref(), sealed(&state).as_bytes())?)
    }

    /// Reads a file.
    pub fn read(path: impl AsRef<Path>) -> Result<MutationState, MutationError> {
        let path = path.as_ref();
        let wrong = |reason: String| MutationError::File {
            file: path.display().to_string(),
            reason,
        };
        let mut bytes =
            npcov_file::read(path, LARGEST).map_err(|error| wrong(error.to_string()))?;
        if !bytes.starts_with(ANY_START) {
            return Err(wrong("it begins with something else".to_owned()));
        }
        if !bytes.starts_with(START.as_bytes()) {
            return Err(wrong(
                "it is of another format, or not as npcov writes it".to_owned(),
            ));
        }
        let unsealed = unsealed(&mut bytes);
        let state = unsealed.ok_or_else(|| wrong("its checksum does not fit".to_owned()))?;
        let state: MutationState =
            serde_json::from_slice(state).map_err(|error| wrong(error.to_string()))?;
        match state.fault() {
            Some(fault) => Err(wrong(fault.to_owned())),
            None => Ok(state),
        }
    }

    /// Whether a file begins like one of these.
    pub fn is_file(path: impl AsRef<Path>) -> bool {
        use std::io::Read;
        let mut start = [0; ANY_START.len()];
        let file = npcov_file::open(path.as_ref());
        let read = file.and_then(|(mut file, _)| file.read_exact(&mut start));
        read.is_ok() && start == *ANY_START
    }

    /// What does not belong together in what a file says.
    fn fault(&self) -> Option<&'static str> {
        let plan = &self.plan;
        let (classes, mutants) = (plan.classes, plan.mutants.len());
        let ascending = |killed: &Killed| killed.classes.is_sorted_by(|a, b| a < b);
        let of_model = |killed: &Killed| (killed.classes.iter()).all(|&c| (c as usize) < classes);
        if mutants > MOST || plan.options.check().is_err() {
            return Some("it is of mutants that cannot be made");
        }
        let ratios = plan.options.ratios.iter().map(|ratio| ratio.to_bits());
        let ratios: BTreeSet<u64> = ratios.collect();
        let operators: BTreeSet<_> = plan.options.operators.iter().copied().collect();
        let is_asked_for = |mutant: &Mutant| {
            let (operator, ratio) = mutant.kind();
            let fits = match ratio {
                Some(ratio) => operator.is_drawn() && ratios.contains(&ratio),
                None => !operator.is_drawn(),
            };
            fits && operators.contains(&operator) && mutant.number < plan.options.mutants
        };
        if !plan.mutants.iter().all(is_asked_for) {
            return Some("it is of mutants that its options do not ask for");
        }
        if plan.judged.as_ref().is_some_and(|judged| {
            let mut counts = judged.by_mutant.iter().chain([&judged.correct]);
            counts.any(|&count| count > judged.inputs)
        }) {
            return Some("more of the inputs that judge are classified as labelled than there are");
        }
        if self.correct.len() != classes {
            return Some("it has another number of classes than its model");
        }
        if self.killed.len() != mutants
            || plan
                .judged
                .as_ref()
                .is_some_and(|j| j.by_mutant.len() != mutants)
        {
            return Some("it has another number of mutants than its plan");
        }
        if !self
            .killed
            .iter()
            .all(|k| ascending(k) && of_model(k) && k.correct <= self.inputs)
        {
            return Some("it kills classes that the model has not, or more inputs than there are");
        }
        let correct = self
            .correct
            .iter()
            .try_fold(0_usize, |sum, &n| sum.checked_add(n));
        if correct.is_none_or(|correct| correct > self.inputs) {
            return Some("more of its inputs are classified as labelled than there are");
        }
        let mut killed = self.killed.iter().flat_map(|killed| &killed.classes);
        if killed.any(|&class| self.correct[class as usize] == 0) {
            return Some("it kills a class of which no input is classified as labelled");
        }
        None
    }
}

/// A state, which is an object, behind a checksum of it.
fn sealed(state: &str) -> String {
    let rest = format!("\",{}\n", state.strip_prefix('{').unwrap_or(state));
    format!("{START}{}{rest}", checksum(rest.as_bytes()))
}

/// The state in a file, if the checksum fits.
fn unsealed(bytes: &mut [u8]) -> Option<&[u8]> {
    let (checked, rest) = bytes
        .get_mut(START.len()..)?
        .split_at_mut_checked(CHECKSUM)?;
    if checksum(rest).as_bytes() != checked || !rest.starts_with(b"\",") {
        return None;
    }
    let state = &mut rest[1..];
    state[0] = b'{';
    Some(state)
}

fn checksum(bytes: &[u8]) -> String {
    let mut digester = Digester::default();
    digester.update(bytes);
    digester.finish().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Operator;
    use proptest::prelude::*;

    pub(crate) fn plan(classes: usize, mutants: usize) -> MutationPlan {
        let mutant = |number| Mutant {
            operator: Operator::Neb,
            ratio: Some(0.01),
            number,
        };
        MutationPlan {
            model: "a digest".to_owned(),
            classes,
            options: MutationOptions::default(),
            among: None,
            mutants: (0..mutants).map(mutant).collect(),
            judged: None,
        }
    }

    /// What is right, what the model says, what two mutants say.
    type Row = (u32, u32, [Option<u32>; 2]);

    fn measured(rows: &[Row]) -> MutationState {
        let mut state = MutationState::empty(plan(3, 2), "suite", true);
        let truths: Vec<u32> = rows.iter().map(|row| row.0).collect();
        let predictions: Vec<u32> = rows.iter().map(|row| row.1).collect();
        state.add_inputs(&truths, &predictions);
        for mutant in 0..2 {
            let found: Vec<Option<u32>> = rows.iter().map(|row| row.2[mutant]).collect();
            state.add_mutant(mutant, &truths, &predictions, &found);
        }
        state
    }

    /// The case worked out in the definition: three classes, of which two mutants have {0, 1} and {1} killed.
    #[test]
    fn two_mutants_and_three_classes() {
        let state = measured(&[
            (0, 0, [Some(2), Some(0)]),
            (1, 1, [None, Some(0)]),
            // What the model gets wrong kills nothing.
            (2, 1, [Some(0), Some(0)]),
        ]);
        assert_eq!(state.killed[0].classes, [0, 1]);
        assert_eq!(state.killed[1].classes, [1]);
        assert_eq!((state.killed[0].correct, state.killed[1].correct), (0, 1));
        let mut all = state;
        all.plan.options.quality = 0.0;
        assert_eq!(all.report().score, Some(0.5));
    }

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let mutated = || prop::option::of(0..3u32);
        let row = (0..3u32, 0..3u32, [mutated(), mutated()]);
        prop::collection::vec(row, 0..20)
    }

    proptest! {
        /// Parts of a suite, in any order, give the state of all of it; what is killed is the union.
        #[test]
        fn parts_are_the_whole(rows in rows(), cut in 0..20usize) {
            let (a, b) = rows.split_at(cut.min(rows.len()));
            let (a, b) = (measured(a), measured(b));
            let mut forth = a.clone();
            forth.merge(&b).unwrap();
            let mut back = b;
            back.merge(&a).unwrap();
            prop_assert_eq!(&forth, &measured(&rows));
            prop_assert_eq!(&forth, &back);
        }

        /// The definition in as many words.
        #[test]
        fn killed_as_defined(rows in rows()) {
            let state = measured(&rows);
            for mutant in 0..2 {
                for class in 0..3 {
                    let kills = |&(truth, model, found): &Row| {
                        truth == class && model == class && found[mutant] != Some(class)
                    };
                    let killed = state.killed[mutant].classes.contains(&class);
                    prop_assert_eq!(killed, rows.iter().any(kills));
                }
            }
        }
    }

    #[test]
    fn others_do_not_merge() {
        let state = measured(&[(0, 0, [None, None])]);
        let refused = |change: fn(&mut MutationState)| {
            let mut other = state.clone();
            change(&mut other);
            state.clone().merge(&other).unwrap_err().to_string()
        };
        let message = refused(|s| s.plan.model = "another".to_owned());
        assert_eq!(
            message,
            "the states cannot be merged: they are of different models"
        );
        assert!(refused(|s| s.plan.options.seed = 1).contains("different mutants"));
        assert!(refused(|s| s.plan.judged = Some(Judged::default())).contains("judged"));
        assert!(refused(|s| s.labelled = false).contains("labels"));
    }

    #[test]
    fn files_come_back_and_forged_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("killed.json");
        let state = measured(&[(0, 0, [None, Some(0)]), (2, 2, [Some(2), Some(1)])]);
        state.save(&path).unwrap();
        assert!(MutationState::is_file(&path));
        assert_eq!(MutationState::read(&path).unwrap(), state);
        let text = std::fs::read_to_string(&path).unwrap();
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            MutationState::read(&path).unwrap_err().to_string()
        };
        // Edited, it is not what was written, whatever it says.
        let error = refused(&text.replace("\"correct\":[1,0,1]", "\"correct\":[1,0,0]"));
        assert!(error.ends_with("its checksum does not fit"), "{error}");
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            assert!(MutationState::read(&path).is_err(), "byte {place}");
        }
        assert!(refused("{\"npcov-mutation\":1}").contains("another format"));
        let state_text = serde_json::to_string(&state).unwrap();
        assert_eq!(sealed(&state_text), text);
        for (old, new) in [
            ("\"number\":1", "\"number\":10"),
            ("\"ratio\":0.01", "\"ratio\":0.02"),
            ("\"ratio\":0.01", "\"ratio\":null"),
            ("\"classes\":[0]", "\"classes\":[7]"),
            ("\"classes\":[0]", "\"classes\":[0,0]"),
            ("\"classes\":[0]", "\"classes\":[1]"),
            ("\"inputs\":2", "\"inputs\":1"),
            ("\"correct\":[1,0,1]", "\"correct\":[1,0]"),
            (
                "\"correct\":[1,0,1]",
                "\"correct\":[18446744073709551615,1,1]",
            ),
            ("\"mutants\":10", "\"mutants\":0"),
            ("\"number\":1", "\"number\":-1"),
        ] {
            let forged = state_text.replace(old, new);
            assert_ne!(forged, state_text, "{old}");
            let error = refused(&sealed(&forged));
            assert!(error.contains("killed.json"), "{error}");
            assert!(!error.contains("checksum"), "{error}");
        }
        // Counts do not begin again at zero.
        let mut large = state.clone();
        large.inputs = usize::MAX;
        let error = large.clone().merge(&large).unwrap_err().to_string();
        assert!(error.contains("more inputs than can be counted"), "{error}");
        assert!(!MutationState::is_file(folder.path()));
    }
}
