//! Whole numbers of which there is one for every training input: classes, labels, clusters.

use std::sync::Arc;

/// Whole numbers in as few bits each as the largest of them needs. There may be millions, and most are below a hundred.
/// A clone has no list of its own until one of both is changed.
#[derive(Clone, Debug)]
pub struct Narrow(Arc<Packed>);

/// Numbers, each one higher than it is, so that -1 ("none") needs as few bits as any.
#[derive(Clone, Debug)]
struct Packed {
    /// Bits of each number.
    width: u32,
    len: usize,
    /// As many numbers each as fit whole, from the lowest bits up.
    words: Vec<u64>,
}

impl Default for Narrow {
    fn default() -> Narrow {
        Narrow(Arc::new(Packed::new(1)))
    }
}

impl Narrow {
    /// So many times the same number.
    pub fn filled(number: i64, len: usize) -> Narrow {
        std::iter::repeat_n(number, len).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// The number at a place, if there is one.
    pub fn get(&self, place: usize) -> Option<i64> {
        let (word, shift) = self.0.place(place);
        let raised = self.0.words.get(word)? >> shift & self.0.mask();
        (place < self.0.len).then_some(lowered(raised))
    }

    /// Puts a number in the place of another one.
    pub fn set(&mut self, place: usize, number: i64) {
        let packed = self.with_room(number);
        let ((word, shift), mask) = (packed.place(place), packed.mask());
        let word = &mut packed.words[word];
        *word = *word & !(mask << shift) | raised(number) << shift;
    }

    /// Appends a number.
    pub fn push(&mut self, number: i64) {
        self.with_room(number).push(raised(number));
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = i64> {
        self.0.iter().map(lowered)
    }

    /// Its own list, in which every number is as wide as this one has to be.
    fn with_room(&mut self, number: i64) -> &mut Packed {
        let packed = Arc::make_mut(&mut self.0);
        let width = width(raised(number));
        if width > packed.width {
            let mut wider = Packed::new(width);
            packed.iter().for_each(|raised| wider.push(raised));
            *packed = wider;
        }
        packed
    }
}

impl Packed {
    fn new(width: u32) -> Packed {
        Packed {
            width,
            len: 0,
            words: Vec::new(),
        }
    }

    /// Numbers in a word.
    fn in_word(&self) -> usize {
        (u64::BITS / self.width) as usize
    }

    /// The bits of a number in the lowest place.
    fn mask(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.width)
    }

    /// The word that has a number, and by how many bits it is higher there.
    fn place(&self, place: usize) -> (usize, u32) {
        let in_word = self.in_word();
        (place / in_word, (place % in_word) as u32 * self.width)
    }

    fn push(&mut self, raised: u64) {
        let (word, shift) = self.place(self.len);
        if word == self.words.len() {
            self.words.push(0);
        }
        self.words[word] |= raised << shift;
        self.len += 1;
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        let (in_word, width, mask) = (self.in_word() as u32, self.width, self.mask());
        let of_word = move |&word: &u64| (0..in_word).map(move |i| word >> (i * width) & mask);
        self.words.iter().flat_map(of_word).take(self.len)
    }
}

/// One more than a number: -1 becomes 0, and numbers below it the largest ones.
fn raised(number: i64) -> u64 {
    (number as u64).wrapping_add(1)
}

fn lowered(raised: u64) -> i64 {
    raised.wrapping_sub(1) as i64
}

/// The bits that a number needs.
fn width(raised: u64) -> u32 {
    (u64::BITS - raised.leading_zeros()).max(1)
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
    fn small_numbers_take_few_bits() {
        // Sixteen of four bits in a word: from -1 to 14.
        assert_eq!(bytes(&(0..10).cycle().take(1600).collect()), 800);
        assert_eq!(bytes(&(-1..15).cycle().take(1600).collect()), 800);
        // Twelve of five bits.
        assert_eq!(bytes(&(0..16).cycle().take(1200).collect()), 800);
        assert_eq!(bytes(&Narrow::filled(-1, 6400)), 800);
        assert_eq!(bytes(&Narrow::filled(i64::MIN, 100)), 800);
        // Equal numbers are equal, however wide they are.
        let mut wide = Narrow::filled(300, 2);
        wide.set(0, 1);
        wide.set(1, 1);
        assert_eq!(wide, Narrow::filled(1, 2));
        assert_ne!(wide, Narrow::filled(1, 3));
    }

    fn bytes(numbers: &Narrow) -> usize {
        size_of_val(&numbers.0.words[..])
    }
}
