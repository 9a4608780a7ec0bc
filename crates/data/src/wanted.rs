//! What a model wants for each of its inputs, and which numbers of samples that is.

use std::ops::Range;

use crate::element::Element;
use crate::error::DataError;
use crate::samples::{Images, SampleInput, Samples, listing};

/// What a model wants for one of its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedInput {
    /// The input's name.
    pub name: String,
    /// Shape of one sample, without the batch axis.
    pub shape: Vec<usize>,
    /// Whether it takes whole numbers: ids, masks.
    pub whole: bool,
    /// Whether NaN is a number that is missing, which the model itself fills in.
    pub missing: bool,
    /// The number that it always is, where samples have nothing to say.
    pub fixed: Option<f32>,
}

impl WantedInput {
    /// Numbers of one sample.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether a number can be given to the model: it is finite, or missing where that is provided for.
    pub(crate) fn fits(&self, x: f32) -> bool {
        x.is_finite() || self.missing && x.is_nan()
    }

    /// Whether a sample has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where the numbers of a model's input come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bound {
    /// One input of the samples.
    Input(usize),
    /// Columns of a table, side by side.
    Columns(Vec<usize>),
    /// The same number everywhere.
    Fixed(f32),
}

impl Bound {
    /// Its images, where it is images.
    pub(crate) fn images<'s>(&self, samples: &'s dyn Samples) -> Option<&'s dyn Images> {
        match self {
            Bound::Input(index) => samples.images(*index),
            Bound::Columns(_) | Bound::Fixed(_) => None,
        }
    }

    /// Reads rows as they are stored; columns have no bytes of their own.
    pub(crate) fn read(
        &self,
        samples: &dyn Samples,
        rows: Range<usize>,
        out: &mut [u8],
    ) -> Result<(), DataError> {
        match self {
            Bound::Input(index) => samples.read(*index, rows, out),
            Bound::Columns(_) | Bound::Fixed(_) => Ok(()),
        }
    }

    /// Reads rows as `f32`.
    pub(crate) fn read_f32(
        &self,
        samples: &dyn Samples,
        rows: Range<usize>,
        scratch: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        match self {
            Bound::Input(index) => samples.read_f32(*index, rows, scratch, out),
            Bound::Columns(columns) => read_columns(samples, columns, rows, scratch, out),
            Bound::Fixed(number) => {
                out.fill(*number);
                Ok(())
            }
        }
    }
}

/// Finds the numbers of each input of a model. Names tell, but for a single input on both sides; what is left of a table
/// are the columns of the input that is left.
pub(crate) fn bind(samples: &dyn Samples, wanted: &[WantedInput]) -> Result<Vec<Bound>, DataError> {
    let own = samples.inputs();
    let wrong = |reason: String| DataError::Inputs {
        file: samples.name().to_owned(),
        reason,
    };
    let open: Vec<usize> = (0..wanted.len())
        .filter(|&i| wanted[i].fixed.is_none())
        .collect();
    let mut bound: Vec<Option<Bound>> = wanted.iter().map(|w| w.fixed.map(Bound::Fixed)).collect();
    if let ([single], [_]) = (&open[..], own) {
        bound[*single] = Some(Bound::Input(0));
        return Ok(bound.into_iter().flatten().collect());
    }
    let mut used = vec![false; own.len()];
    for &i in &open {
        if let Some(found) = own.iter().position(|o| o.name() == wanted[i].name) {
            bound[i] = Some(Bound::Input(found));
            used[found] = true;
        }
    }
    let left: Vec<usize> = (0..own.len()).filter(|&i| !used[i]).collect();
    let missing: Vec<usize> = (0..wanted.len()).filter(|&i| bound[i].is_none()).collect();
    let columns = left.iter().all(|&i| own[i].shape().is_empty());
    match missing[..] {
        [] if left.is_empty() => {}
        [single] if columns && left.len() == wanted[single].len() => {
            bound[single] = Some(Bound::Columns(left));
        }
        [single] if columns && !left.is_empty() => {
            let names: Vec<&str> = left.iter().map(|&i| own[i].name()).collect();
            return Err(wrong(format!(
                "input `{}` takes {} numbers, and the columns are {} ({})",
                wanted[single].name,
                wanted[single].len(),
                left.len(),
                shortened(&names)
            )));
        }
        [] => {
            let names: Vec<&str> = left.iter().map(|&i| own[i].name()).collect();
            return Err(wrong(format!(
                "no input of the model takes {}",
                shortened(&names)
            )));
        }
        _ => {
            let names: Vec<&str> = missing.iter().map(|&i| wanted[i].name.as_str()).collect();
            return Err(wrong(format!(
                "holds {}, but nothing for the model's input {}",
                listing(samples),
                shortened(&names)
            )));
        }
    }
    Ok(bound.into_iter().flatten().collect())
}

/// The first names, for a message.
fn shortened(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let mut shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{}`", name.escape_debug()))
        .collect();
    if names.len() > SHOWN {
        shown.push(format!("and {} more", names.len() - SHOWN));
    }
    shown.join(", ")
}

/// Reads columns side by side: a row of `out` has one number of each.
fn read_columns(
    samples: &dyn Samples,
    columns: &[usize],
    rows: Range<usize>,
    scratch: &mut Vec<u8>,
    out: &mut [f32],
) -> Result<(), DataError> {
    let width = columns.len().max(1);
    let mut column = vec![0.0; rows.len()];
    for (place, &input) in columns.iter().enumerate() {
        samples.read_f32(input, rows.clone(), scratch, &mut column)?;
        for (row, &number) in out.chunks_exact_mut(width).zip(&column) {
            row[place] = number;
        }
    }
    Ok(())
}

/// A model's input that is read as it is stored: all but the one that is preprocessed.
#[derive(Debug)]
pub(crate) struct PlainInput {
    wanted: WantedInput,
    bound: Bound,
}

impl PlainInput {
    /// Numbers for an input; an error where a sample has more or fewer than the model wants.
    pub(crate) fn new(
        samples: &dyn Samples,
        wanted: &WantedInput,
        bound: Bound,
    ) -> Result<PlainInput, DataError> {
        if let Bound::Input(index) = bound {
            let stored = &samples.inputs()[index];
            if samples.images(index).is_some() || stored.sample_len() != wanted.len() {
                return Err(DataError::Shape {
                    file: format!("{}:{}", samples.name(), stored.name()),
                    stored: stored.shape().to_vec(),
                    wanted: wanted.shape.clone(),
                    reason: format!("input `{}` has another size", wanted.name),
                });
            }
        }
        Ok(PlainInput {
            wanted: wanted.clone(),
            bound,
        })
    }

    /// Numbers of one sample.
    pub(crate) fn len(&self) -> usize {
        self.wanted.len()
    }

    /// Reads the numbers of some rows. What is not finite, or no whole number where those are wanted, is an error.
    pub(crate) fn read(
        &self,
        samples: &dyn Samples,
        rows: Range<usize>,
        scratch: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        self.bound.read_f32(samples, rows.clone(), scratch, out)?;
        // Ids and masks are exact as `f32` up to here.
        const EXACT: f32 = (1 << 24) as f32;
        let whole = self.wanted.whole;
        let fits = |x: f32| self.wanted.fits(x) && (!whole || x.trunc() == x && x.abs() <= EXACT);
        match out.iter().position(|&x| !fits(x)) {
            None => Ok(()),
            Some(place) => Err(DataError::Row {
                file: samples.name().to_owned(),
                row: rows.start + place / self.len().max(1),
                reason: format!(
                    "number {} of input `{}` is `{}`{}",
                    place % self.len().max(1),
                    self.wanted.name,
                    out[place],
                    match whole {
                        true => ", and whole numbers up to 2^24 are wanted",
                        false => "",
                    }
                ),
            }),
        }
    }
}

/// What columns hold together.
pub(crate) fn columns_input(name: &str, columns: usize) -> Result<SampleInput, DataError> {
    let input = SampleInput::new(name, &[columns], Element::F64);
    input.map_err(|error| error.in_file(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::Arrays;

    fn wanted(name: &str, shape: &[usize]) -> WantedInput {
        WantedInput {
            name: name.to_owned(),
            shape: shape.to_vec(),
            whole: false,
            missing: false,
            fixed: None,
        }
    }

    fn table(names: &[&str]) -> Arrays<'static> {
        let mut arrays = Arrays::new(names[0], &[2], vec![1.0_f64, 2.0]).unwrap();
        for name in &names[1..] {
            arrays = arrays.with_input(name, &[2], vec![3.0_f64, 4.0]).unwrap();
        }
        arrays
    }

    #[test]
    fn names_tell_and_columns_are_what_is_left() {
        let found = |own: &[&str], wanted: &[WantedInput]| {
            bind(&table(own), wanted).map_err(|error| error.to_string())
        };
        let x = || wanted("x", &[2]);
        // A single input on both sides needs no name.
        assert_eq!(found(&["a"], &[x()]), Ok(vec![Bound::Input(0)]));
        assert_eq!(
            found(&["a", "b"], &[x()]),
            Ok(vec![Bound::Columns(vec![0, 1])])
        );
        let (age, mask) = (wanted("age", &[1]), wanted("mask", &[1]));
        assert_eq!(
            found(&["a", "age", "b"], &[age.clone(), x()]),
            Ok(vec![Bound::Input(1), Bound::Columns(vec![0, 2])])
        );
        let fixed = WantedInput {
            fixed: Some(1.0),
            ..mask.clone()
        };
        assert_eq!(
            found(&["a"], &[x(), fixed]),
            Ok(vec![Bound::Input(0), Bound::Fixed(1.0)])
        );
        let error = |own: &[&str], wanted: &[WantedInput]| found(own, wanted).unwrap_err();
        assert!(
            error(&["a", "b", "c"], &[x()])
                .contains("input `x` takes 2 numbers, and the columns are 3 (`a`, `b`, `c`)")
        );
        assert!(
            error(&["age", "b"], std::slice::from_ref(&age))
                .contains("no input of the model takes `b`")
        );
        assert!(
            error(&["age"], &[age, mask, x()])
                .contains("nothing for the model's input `mask`, `x`")
        );
    }
}
