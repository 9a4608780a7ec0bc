//! Where the numbers of samples lie: data that was scaled twice, or not at all, is found by it.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::loader::Loader;

/// Samples that are looked at: enough to see the extremes of pixels, few enough to cost nothing.
const LOOKED_AT: usize = 256;

/// Where the numbers of some samples lie; those that are missing (NaN) do not count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueRange {
    /// The smallest.
    pub min: f32,
    /// The largest.
    pub max: f32,
    /// Their mean.
    pub mean: f64,
    /// Whether all of them are whole numbers.
    pub whole: bool,
}

impl ValueRange {
    /// How far apart the smallest and the largest are.
    pub fn width(&self) -> f64 {
        f64::from(self.max) - f64::from(self.min)
    }
}

impl Loader<'_> {
    /// Where the numbers lie that enter the model: of up to 256 samples, spread evenly over `rows`. `None` without
    /// samples.
    pub fn value_range(&self, rows: Range<usize>) -> Result<Option<ValueRange>, DataError> {
        looked_at(rows, self.sample_len(), |row, out| {
            self.read(row..row + 1, out)
        })
    }

    /// The same of the numbers as they are stored.
    pub fn stored_value_range(&self, rows: Range<usize>) -> Result<Option<ValueRange>, DataError> {
        looked_at(rows, self.sample_len(), |row, out| {
            self.read_stored(row..row + 1, out)
        })
    }
}

fn looked_at(
    rows: Range<usize>,
    sample_len: usize,
    mut read: impl FnMut(usize, &mut [f32]) -> Result<(), DataError>,
) -> Result<Option<ValueRange>, DataError> {
    let count = rows.len().min(LOOKED_AT);
    let mut sample = vec![0.0; sample_len];
    let mut found: Option<ValueRange> = None;
    let (mut sum, mut numbers) = (0.0, 0.0);
    for i in 0..count {
        read(rows.start + i * rows.len() / count, &mut sample)?;
        for &x in sample.iter().filter(|x| !x.is_nan()) {
            let range = found.get_or_insert(ValueRange {
                min: x,
                max: x,
                mean: 0.0,
                whole: true,
            });
            range.min = range.min.min(x);
            range.max = range.max.max(x);
            range.whole &= x.trunc() == x;
            sum += f64::from(x);
            numbers += 1.0;
        }
    }
    Ok(found.map(|range| ValueRange {
        mean: sum / numbers,
        ..range
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Arrays, Preprocessing, WantedInput};

    #[test]
    fn numbers_before_and_after_they_are_scaled() {
        let pixels: Vec<u8> = vec![9, 9, 0, 255, 51, 0, 9, 9];
        let samples = Arc::new(Arrays::new("x", &[4, 2], pixels).unwrap());
        let scale = Preprocessing {
            divide: Some(255.0),
            ..Preprocessing::default()
        };
        let loader = Loader::new(samples, &[2], &scale).unwrap();
        let stored = loader.stored_value_range(1..3).unwrap().unwrap();
        assert_eq!(
            stored,
            ValueRange {
                min: 0.0,
                max: 255.0,
                mean: 76.5,
                whole: true
            }
        );
        let scaled = loader.value_range(1..3).unwrap().unwrap();
        assert_eq!((scaled.min, scaled.max, scaled.whole), (0.0, 1.0, false));
        assert!((scaled.mean - 0.3).abs() < 1e-7 && scaled.width() == 1.0);
        assert_eq!(loader.value_range(2..2).unwrap(), None);
        assert!(loader.value_range(3..5).is_err());
    }

    #[test]
    fn missing_numbers_lie_nowhere() {
        let range = |numbers: Vec<f32>| {
            let samples = Arc::new(Arrays::new("x", &[2, 2], numbers).unwrap());
            let wanted = WantedInput {
                name: "x".to_owned(),
                shape: vec![2],
                whole: false,
                missing: true,
                fixed: None,
            };
            let nothing = Preprocessing::default();
            let loader = Loader::of_inputs(samples, &[wanted], 0, &nothing).unwrap();
            loader.value_range(0..2).unwrap()
        };
        let found = range(vec![f32::NAN, 1.0, f32::NAN, 5.0]).unwrap();
        assert_eq!((found.min, found.max, found.mean), (1.0, 5.0, 3.0));
        assert!(found.whole);
        assert_eq!(range(vec![f32::NAN; 4]), None);
    }

    #[test]
    fn samples_are_spread_over_all() {
        let mut numbers = vec![0.5_f32; 1000];
        numbers[996..].fill(7.0);
        let samples = Arc::new(Arrays::new("x", &[1000, 1], numbers).unwrap());
        let loader = Loader::new(samples, &[1], &Preprocessing::default()).unwrap();
        let found = loader.value_range(0..1000).unwrap().unwrap();
        assert_eq!((found.min, found.max), (0.5, 7.0));
    }
}
