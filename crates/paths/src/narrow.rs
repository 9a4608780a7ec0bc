//! Whole numbers of which there is one for every training input: classes, labels, clusters.

use std::sync::Arc;

/// Whole numbers in as few bytes each as the largest of them needs. There may be millions, and most are below a hundred.
/// A clone has no list of its own until one of both is changed.
#[derive(Clone, Debug)]
pub struct Narrow(Arc<Width>);

#[derive(Clone, Debug)]
enum Width {
    /// Numbers from -1 ("none") to 254, each one higher than it is.
    One(Vec<u8>),
    Two(Vec<i16>),
    Four(Vec<i32>),
    Eight(Vec<i64>),
}

impl Default for Narrow {
    fn default() -> Narrow {
        Narrow(Arc::new(Width::One(Vec::new())))
    }
}

impl Narrow {
    /// So many times the same number.
    pub fn filled(number: i64, len: usize) -> Narrow {
        let mut numbers = Narrow(Arc::new(Width::One(vec![0; len])));
        numbers.make_room(number);
        match Arc::make_mut(&mut numbers.0) {
            Width::One(list) => list.fill(raised(number).unwrap_or_default()),
            Width::Two(list) => list.fill(number as i16),
            Width::Four(list) => list.fill(number as i32),
            Width::Eight(list) => list.fill(number),
        }
        numbers
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &*self.0 {
            Width::One(list) => list.len(),
            Width::Two(list) => list.len(),
            Width::Four(list) => list.len(),
            Width::Eight(list) => list.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at a place, if there is one.
    pub fn get(&self, place: usize) -> Option<i64> {
        match &*self.0 {
            Width::One(list) => list.get(place).map(|&raised| i64::from(raised) - 1),
            Width::Two(list) => list.get(place).map(|&number| number.into()),
            Width::Four(list) => list.get(place).map(|&number| number.into()),
            Width::Eight(list) => list.get(place).copied(),
        }
    }

    /// Puts a number in the place of another one.
    pub fn set(&mut self, place: usize, number: i64) {
        self.make_room(number);
        match Arc::make_mut(&mut self.0) {
            Width::One(list) => list[place] = raised(number).unwrap_or_default(),
            Width::Two(list) => list[place] = number as i16,
            Width::Four(list) => list[place] = number as i32,
            Width::Eight(list) => list[place] = number,
        }
    }

    /// Appends a number.
    pub fn push(&mut self, number: i64) {
        self.make_room(number);
        match Arc::make_mut(&mut self.0) {
            Width::One(list) => list.push(raised(number).unwrap_or_default()),
            Width::Two(list) => list.push(number as i16),
            Width::Four(list) => list.push(number as i32),
            Width::Eight(list) => list.push(number),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = i64> {
        (0..self.len()).map(|place| self.get(place).unwrap_or_default())
    }

    /// Makes every number as wide as this one has to be, if it is wider than they are.
    fn make_room(&mut self, number: i64) {
        let fits = match &*self.0 {
            Width::One(_) => raised(number).is_some(),
            Width::Two(_) => i16::try_from(number).is_ok(),
            Width::Four(_) => i32::try_from(number).is_ok(),
            Width::Eight(_) => true,
        };
        if fits {
            return;
        }
        let wider = if i16::try_from(number).is_ok() {
            Width::Two(self.iter().map(|number| number as i16).collect())
        } else if i32::try_from(number).is_ok() {
            Width::Four(self.iter().map(|number| number as i32).collect())
        } else {
            Width::Eight(self.iter().collect())
        };
        self.0 = Arc::new(wider);
    }
}

/// One more than a number, where that is a byte.
fn raised(number: i64) -> Option<u8> {
    u8::try_from(number.checked_add(1)?).ok()
}

impl PartialEq for Narrow {
    fn eq(&self, other: &Narrow) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Narrow {}

impl Extend<i64> for Narrow {
    fn extend<I: IntoIterator<Item = i64>>(&mut self, numbers: I) {
        numbers.into_iter().for_each(|number| self.push(number));
    }
}

impl FromIterator<i64> for Narrow {
    fn from_iter<I: IntoIterator<Item = i64>>(numbers: I) -> Narrow {
        let mut narrow = Narrow::default();
        narrow.extend(numbers);
        narrow
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers of all widths, and those where one width ends.
    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![
            (-1..255_i64),
            any::<i16>().prop_map(i64::from),
            any::<i32>().prop_map(i64::from),
            any::<i64>(),
            prop::sample::select(vec![
                -2,
                -1,
                254,
                255,
                32768,
                -32769,
                1 << 31,
                i64::MIN,
                i64::MAX
            ]),
        ]
    }

    proptest! {
        #[test]
        fn numbers_come_back(
            numbers in prop::collection::vec(number(), 0..20),
            others in prop::collection::vec((any::<prop::sample::Index>(), number()), 0..5),
        ) {
            let mut list = numbers.clone();
            let mut narrow: Narrow = numbers.into_iter().collect();
            if !list.is_empty() {
                for (place, number) in others {
                    let place = place.index(list.len());
                    list[place] = number;
                    narrow.set(place, number);
                }
            }
            prop_assert_eq!(narrow.len(), list.len());
            prop_assert_eq!(narrow.get(list.len()), None);
            prop_assert_eq!(narrow.iter().collect::<Vec<_>>(), list);
        }
    }

    #[test]
    fn small_numbers_take_a_byte() {
        assert_eq!(size_of_val_of(&Narrow::filled(-1, 10)), 10);
        assert_eq!(size_of_val_of(&(0..10).chain([254]).collect()), 11);
        assert_eq!(size_of_val_of(&(0..10).chain([255]).collect()), 22);
        assert_eq!(size_of_val_of(&Narrow::filled(1 << 20, 10)), 40);
        // Equal numbers are equal, however wide they are.
        let mut wide = Narrow::filled(300, 2);
        wide.set(0, 1);
        wide.set(1, 1);
        assert_eq!(wide, Narrow::filled(1, 2));
        assert_ne!(wide, Narrow::filled(1, 3));
    }

    fn size_of_val_of(numbers: &Narrow) -> usize {
        match &*numbers.0 {
            Width::One(list) => size_of_val(&list[..]),
            Width::Two(list) => size_of_val(&list[..]),
            Width::Four(list) => size_of_val(&list[..]),
            Width::Eight(list) => size_of_val(&list[..]),
        }
    }
}
