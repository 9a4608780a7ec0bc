//! What suites cover of a decision graph.

use std::path::{Path, PathBuf};

use npcov_artefact::{ArtefactError, CoverageState};

use crate::class_shares::ClassShares;
use crate::difference::{ComparedReport, Difference};
use crate::error::CoverageError;

/// What suites cover of a decision graph: measured once, it can be merged with others, reported,
/// compared with an earlier one, and kept in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Coverage {
    state: CoverageState,
    /// What suites should be like; not part of what was measured.
    expected_classes: ClassShares,
}

impl Coverage {
    /// What a state says.
    pub fn new(state: CoverageState) -> Coverage {
        Coverage {
            state,
            expected_classes: ClassShares::Training,
        }
    }

    /// Reads a coverage state.
    pub fn open(path: impl AsRef<Path>) -> Result<Coverage, CoverageError> {
        Ok(Coverage::new(CoverageState::read(path)?))
    }

    /// Writes it, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), CoverageError> {
        Ok(self.state.write(path)?)
    }

    /// The same, where suites should have inputs of classes by other shares.
    pub(crate) fn expecting(self, expected_classes: ClassShares) -> Coverage {
        Coverage {
            expected_classes,
            ..self
        }
    }

    /// How frequent classes should be in suites.
    pub(crate) fn expected_classes(&self) -> &ClassShares {
        &self.expected_classes
    }

    /// Where it comes from, and its suites.
    pub fn state(&self) -> &CoverageState {
        &self.state
    }

    /// The same, alone.
    pub fn into_state(self) -> CoverageState {
        self.state
    }

    /// Unites coverage of the same graph in files. Suites of one name become one; with `name`, all do.
    pub fn merge_files(files: &[PathBuf], name: Option<&str>) -> Result<Coverage, CoverageError> {
        let mut merged: Option<CoverageState> = None;
        for file in files {
            let mut state = CoverageState::read(file)?;
            if let Some(name) = name {
                state = state.named(name)?;
            }
            match &mut merged {
                None => merged = Some(state),
                Some(merged) => merged.merge(state, file)?,
            }
        }
        let merged = merged.ok_or(ArtefactError::NothingToMerge)?;
        Ok(Coverage::new(merged))
    }

    /// Adds the suites of another coverage of the same graph, with the same choices; to those of the
    /// same names, where there are such.
    pub fn merge(&mut self, other: Coverage) -> Result<(), CoverageError> {
        let name = Path::new("what is merged");
        Ok(self.state.merge(other.state, name)?)
    }

    /// Some of the suites as one of this name, as if their inputs had been measured together. A name
    /// that no suite has is an error.
    pub fn united(&self, suites: &[&str], name: &str) -> Result<Coverage, CoverageError> {
        let united = Coverage::new(self.state.united(suites, name)?);
        Ok(united.expecting(self.expected_classes.clone()))
    }

    /// The same with only some suites, in their order.
    pub fn with_suites(mut self, names: &[String]) -> Result<Coverage, CoverageError> {
        let has = |name: &str| self.state.suites().iter().any(|suite| suite.name == name);
        if let Some(name) = names.iter().find(|name| !has(name)) {
            let suites = self.state.suites().iter();
            return Err(CoverageError::Artefact(ArtefactError::NoSuchSuite {
                name: name.clone(),
                suites: suites.map(|suite| suite.name.clone()).collect(),
            }));
        }
        self.state
            .retain_suites(|suite| names.contains(&suite.name));
        Ok(self)
    }

    /// What the suites cover, in numbers, and what changed since an earlier coverage. Where suites
    /// are named, only those.
    pub fn compared(
        self,
        earlier: Option<&Coverage>,
        suites: &[String],
    ) -> Result<ComparedReport, CoverageError> {
        let mut difference: Option<Difference> = earlier
            .map(|earlier| self.difference(earlier))
            .transpose()?;
        let mut coverage = self;
        if !suites.is_empty() {
            coverage = coverage.with_suites(suites)?;
            if let Some(difference) = &mut difference {
                difference.retain(suites);
            }
        }
        Ok(ComparedReport {
            report: coverage.report()?,
            difference,
        })
    }
}
