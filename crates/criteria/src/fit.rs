//! What criteria learn from the training data, as arrays that are stored with the decision graph.

use std::collections::BTreeMap;

use crate::error::CriterionError;
use crate::per_input::PerInput;

/// What a criterion learnt from the training data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fit {
    arrays: BTreeMap<String, Array>,
}

/// An array of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub numbers: FitNumbers,
}

/// The numbers of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum FitNumbers {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Whole numbers.
    U32(Vec<u32>),
    /// Double precision, one for each training input.
    PerInput(PerInput),
}

impl FitNumbers {
    /// What arrays are called that have a number for each training input.
    pub const PER_INPUT: &str = "norms";

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            FitNumbers::F32(numbers) => numbers.len(),
            FitNumbers::F64(numbers) => numbers.len(),
            FitNumbers::U32(numbers) => numbers.len(),
            FitNumbers::PerInput(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Fit {
    /// Adds an array. Its numbers are as many as its shape says.
    pub fn insert(&mut self, name: impl Into<String>, shape: &[usize], numbers: FitNumbers) {
        let shape = shape.to_vec();
        debug_assert_eq!(shape.iter().product::<usize>(), numbers.len());
        self.arrays.insert(name.into(), Array { shape, numbers });
    }

    /// The arrays with their names.
    pub fn arrays(&self) -> impl ExactSizeIterator<Item = (&str, &Array)> {
        self.arrays
            .iter()
            .map(|(name, array)| (name.as_str(), array))
    }

    /// An array of single precision with that many numbers.
    pub fn f32(&self, criterion: &str, name: &str, len: usize) -> Result<&[f32], CriterionError> {
        match self.array(criterion, name, len)? {
            FitNumbers::F32(numbers) => Ok(numbers),
            _ => Err(damaged(criterion, name, "numbers of another kind")),
        }
    }

    /// An array of double precision with that many numbers.
    pub fn f64(&self, criterion: &str, name: &str, len: usize) -> Result<&[f64], CriterionError> {
        match self.array(criterion, name, len)? {
            FitNumbers::F64(numbers) => Ok(numbers),
            _ => Err(damaged(criterion, name, "numbers of another kind")),
        }
    }

    /// An array with a number for each training input.
    pub fn per_input(&self, criterion: &str, name: &str) -> Result<&PerInput, CriterionError> {
        match self.array(criterion, name, self.len(name))? {
            FitNumbers::PerInput(numbers) => Ok(numbers),
            _ => Err(damaged(criterion, name, "numbers of another kind")),
        }
    }

    /// An array of whole numbers with that many of them.
    pub fn u32(&self, criterion: &str, name: &str, len: usize) -> Result<&[u32], CriterionError> {
        match self.array(criterion, name, len)? {
            FitNumbers::U32(numbers) => Ok(numbers),
            _ => Err(damaged(criterion, name, "numbers of another kind")),
        }
    }

    /// How many numbers an array has; 0 where there is none.
    pub fn len(&self, name: &str) -> usize {
        self.arrays.get(name).map_or(0, |array| array.numbers.len())
    }

    /// Whether nothing was learnt.
    pub fn is_empty(&self) -> bool {
        self.arrays.is_empty()
    }

    fn array(
        &self,
        criterion: &str,
        name: &str,
        len: usize,
    ) -> Result<&FitNumbers, CriterionError> {
        match self.arrays.get(name) {
            Some(array) if array.numbers.len() == len => Ok(&array.numbers),
            Some(_) => Err(damaged(criterion, name, "another length")),
            None => Err(damaged(criterion, name, "it is missing")),
        }
    }
}

fn damaged(criterion: &str, name: &str, reason: &str) -> CriterionError {
    CriterionError::Damaged {
        criterion: criterion.to_owned(),
        reason: format!("`{name}`: {reason}"),
    }
}
