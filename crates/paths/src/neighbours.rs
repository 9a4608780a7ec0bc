//! The nearest rows of bytes, found by looking at all.
//!
//! With `|a|^2` the sum of a row's squares, `|a - b|^2 = |a|^2 + |b|^2 - 2 a b`: a pair of rows costs one
//! sum of products of 16 bits, which is what vector units do most of. All of it is whole numbers
//! modulo 2^32, so it is what [`squared_distance`](crate::profile::squared_distance) gives.

/// A row near another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Which row.
    pub row: u32,
    /// The squared distance.
    pub squared: u32,
}

impl Neighbour {
    /// Nearer ones first, and of those at one distance the lower row.
    fn place(&self) -> (u32, u32) {
        (self.squared, self.row)
    }
}

/// The label that most of the neighbours have, which are in order; of several labels with as many
/// votes, the one of the nearest neighbour among them.
pub fn vote(neighbours: &[Neighbour], label_of: impl Fn(u32) -> u32) -> Option<u32> {
    let mut votes: Vec<(u32, usize)> = Vec::new();
    for neighbour in neighbours {
        let label = label_of(neighbour.row);
        match votes.iter_mut().find(|(other, _)| *other == label) {
            Some((_, count)) => *count += 1,
            None => votes.push((label, 1)),
        }
    }
    let most = votes.iter().map(|&(_, count)| count).max()?;
    // Labels are in the order of their nearest neighbours.
    let first = votes.iter().find(|&&(_, count)| count == most);
    first.map(|&(label, _)| label)
}

/// Rows in a block: with up to a few thousand bytes each, a block stays in a core's own cache.
const BLOCK: usize = 32;

/// Queries that a block is held against together: what is loaded of a row then serves all of them.
const TOGETHER: usize = 2;

/// Rows are filled up with zeros to whole vectors, so that nothing is left over.
const LANES: usize = 32;

/// The nearest rows of some queries, among candidates that are shown block by block.
///
/// ```
/// use npcov_paths::neighbours::NearestRows;
///
/// // Two queries of two bytes each; the second is row 7 itself.
/// let mut nearest = NearestRows::new(&[0, 0, 9, 9], 2, 1);
/// nearest.leave_out(1, 7);
/// nearest.show(&[3, 7], &[0, 5, 9, 9], 1);
/// nearest.show(&[8], &[9, 8], 1);
/// assert_eq!((nearest.of(0)[0].row, nearest.of(0)[0].squared), (3, 25));
/// assert_eq!((nearest.of(1)[0].row, nearest.of(1)[0].squared), (8, 1));
/// ```
///
/// Neither how candidates are divided, nor their order, nor the number of threads changes the result.
#[derive(Clone, Debug)]
pub struct NearestRows<'q> {
    width: usize,
    count: usize,
    queries: Vec<Query<'q>>,
}

#[derive(Clone, Debug)]
struct Query<'q> {
    bytes: &'q [u8],
    left_out: Option<u32>,
    /// In order.
    nearest: Vec<Neighbour>,
}

impl<'q> NearestRows<'q> {
    /// For queries of `width` bytes each, one after the other: the `count` nearest of each.
    pub fn new(queries: &'q [u8], width: usize, count: usize) -> NearestRows<'q> {
        let query = |bytes| Query {
            bytes,
            left_out: None,
            nearest: Vec::with_capacity(count),
        };
        NearestRows {
            width,
            count,
            queries: rows(queries, width).map(query).collect(),
        }
    }

    /// Leaves a row out of the neighbours of a query: its own, where it is one of the candidates.
    pub fn leave_out(&mut self, query: usize, row: u32) {
        self.queries[query].left_out = Some(row);
    }

    /// Looks at candidates: numbers of rows, and their bytes one after the other. A row is shown once.
    pub fn show(&mut self, numbers: &[u32], bytes: &[u8], threads: usize) {
        if self.count == 0 {
            return;
        }
        let each = self.queries.len().div_ceil(threads.max(1)).max(1);
        let width = self.width;
        let count = self.count;
        std::thread::scope(|scope| {
            for queries in self.queries.chunks_mut(each) {
                scope.spawn(move || {
                    let mut block = Block::new(width);
                    let blocks = bytes.chunks((BLOCK * width).max(1));
                    for (numbers, bytes) in numbers.chunks(BLOCK).zip(blocks) {
                        block.fill(numbers, bytes);
                        for queries in queries.chunks_mut(TOGETHER) {
                            block.look(queries, count);
                        }
                    }
                });
            }
        });
    }

    /// The nearest rows of a query so far, nearest first; of rows at one distance the lower first.
    pub fn of(&self, query: usize) -> &[Neighbour] {
        &self.queries[query].nearest
    }

    /// The nearest rows of every query.
    pub fn into_lists(self) -> Vec<Vec<Neighbour>> {
        let queries = self.queries.into_iter();
        queries.map(|query| query.nearest).collect()
    }
}

/// Rows of `width` bytes. Rows of no bytes cannot be counted: there are none.
fn rows(bytes: &[u8], width: usize) -> impl Iterator<Item = &[u8]> {
    bytes.chunks_exact(width.max(1))
}

/// Up to [`BLOCK`] candidates, with numbers as wide as products need.
struct Block {
    numbers: Vec<u32>,
    stride: usize,
    rows: Vec<i16>,
    squares: [u32; BLOCK],
    queries: Vec<i16>,
}

impl Block {
    fn new(width: usize) -> Block {
        let stride = width.max(1).next_multiple_of(LANES);
        Block {
            numbers: Vec::new(),
            stride,
            rows: vec![0; BLOCK * stride],
            squares: [0; BLOCK],
            queries: vec![0; TOGETHER * stride],
        }
    }

    /// Puts candidates in the place of those before; places without one keep what they have.
    fn fill(&mut self, numbers: &[u32], bytes: &[u8]) {
        self.numbers.clear();
        self.numbers.extend_from_slice(numbers);
        let width = bytes.len() / numbers.len().max(1);
        let places = self.rows.chunks_exact_mut(self.stride);
        for ((place, square), bytes) in places.zip(&mut self.squares).zip(rows(bytes, width)) {
            widen(bytes, place);
            *square = sum_of_squares(bytes);
        }
    }

    /// Puts those candidates that are near enough into the lists of up to [`TOGETHER`] queries.
    fn look(&mut self, queries: &mut [Query<'_>], count: usize) {
        let places = self.queries.chunks_exact_mut(self.stride);
        for (query, place) in queries.iter().zip(places) {
            widen(query.bytes, place);
        }
        let wide = &self.queries[..queries.len() * self.stride];
        let mut products = [0; TOGETHER * BLOCK];
        let products = &mut products[..queries.len() * BLOCK];
        npcov_cpu::products(wide, &self.rows, self.stride, products);
        for (query, products) in queries.iter_mut().zip(products.chunks_exact(BLOCK)) {
            self.insert(query, products, count);
        }
    }

    /// Puts those candidates that are near enough into a query's list; their products are known.
    fn insert(&self, query: &mut Query<'_>, products: &[i32], count: usize) {
        let own = sum_of_squares(query.bytes);
        let mut squared = [0; BLOCK];
        for ((squared, &square), product) in squared.iter_mut().zip(&self.squares).zip(products) {
            let both = own.wrapping_add(square);
            *squared = both.wrapping_sub(product.cast_unsigned().wrapping_mul(2));
        }
        // Most blocks hold nothing nearer.
        let limit = match query.nearest.last() {
            Some(last) if query.nearest.len() == count => last.squared,
            _ => u32::MAX,
        };
        let squared = &squared[..self.numbers.len()];
        if squared.iter().copied().fold(u32::MAX, u32::min) > limit {
            return;
        }
        for (&row, &squared) in self.numbers.iter().zip(squared) {
            if squared <= limit && query.left_out != Some(row) {
                insert(&mut query.nearest, Neighbour { row, squared }, count);
            }
        }
    }
}

/// Puts a neighbour in its place, if it is among the nearest.
fn insert(nearest: &mut Vec<Neighbour>, neighbour: Neighbour, count: usize) {
    let place = nearest.partition_point(|other| other.place() < neighbour.place());
    if place < count {
        nearest.truncate(count - 1);
        nearest.insert(place, neighbour);
    }
}

fn widen(bytes: &[u8], place: &mut [i16]) {
    for (wide, &byte) in place.iter_mut().zip(bytes) {
        *wide = i16::from(byte);
    }
}

fn sum_of_squares(bytes: &[u8]) -> u32 {
    let square = |&byte: &u8| u32::from(byte).pow(2);
    bytes.iter().map(square).fold(0, u32::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::squared_distance;
    use proptest::prelude::*;

    /// All candidates in order, but for the one left out.
    fn naive(
        query: &[u8],
        left_out: Option<u32>,
        candidates: &[(u32, Vec<u8>)],
        count: usize,
    ) -> Vec<Neighbour> {
        let neighbour = |(row, bytes): &(u32, Vec<u8>)| Neighbour {
            row: *row,
            squared: squared_distance(query, bytes),
        };
        let mut all: Vec<Neighbour> = candidates.iter().map(neighbour).collect();
        all.retain(|neighbour| Some(neighbour.row) != left_out);
        all.sort_by_key(|neighbour| (neighbour.squared, neighbour.row));
        all.truncate(count);
        all
    }

    #[derive(Clone, Debug)]
    struct Case {
        width: usize,
        queries: Vec<(Vec<u8>, Option<u32>)>,
        candidates: Vec<(u32, Vec<u8>)>,
        count: usize,
    }

    fn cases() -> impl Strategy<Value = Case> {
        let widths = prop_oneof![1..5usize, 30..34usize, 60..70usize];
        // Few values make many ties, all values large sums.
        let largest = prop_oneof![Just(2u8), Just(255u8)];
        (widths, largest, 0..20usize).prop_flat_map(|(width, largest, count)| {
            let row = move || prop::collection::vec(0..=largest, width);
            let query = (row(), prop::option::of(0..90u32));
            let queries = prop::collection::vec(query, 0..6);
            let numbers = Just((0..90u32).collect::<Vec<_>>()).prop_shuffle();
            let candidates = prop::collection::vec(row(), 0..90);
            (queries, numbers, candidates).prop_map(move |(queries, numbers, rows)| Case {
                width,
                queries,
                candidates: numbers.into_iter().zip(rows).collect(),
                count,
            })
        })
    }

    fn find(case: &Case, shown: usize, threads: usize) -> Vec<Vec<Neighbour>> {
        let bytes: Vec<u8> = case.queries.iter().flat_map(|q| q.0.clone()).collect();
        let mut nearest = NearestRows::new(&bytes, case.width, case.count);
        for (query, (_, left_out)) in case.queries.iter().enumerate() {
            left_out.map(|row| nearest.leave_out(query, row));
        }
        for candidates in case.candidates.chunks(shown) {
            let numbers: Vec<u32> = candidates.iter().map(|c| c.0).collect();
            let bytes: Vec<u8> = candidates.iter().flat_map(|c| c.1.clone()).collect();
            nearest.show(&numbers, &bytes, threads);
        }
        nearest.into_lists()
    }

    proptest! {
        #[test]
        fn the_nearest_rows_are_those_of_the_definition(
            case in cases(), shown in 1..100usize, threads in 1..4usize,
        ) {
            let expected: Vec<_> = case
                .queries
                .iter()
                .map(|(query, out)| naive(query, *out, &case.candidates, case.count))
                .collect();
            prop_assert_eq!(find(&case, shown, threads), expected);
        }
    }

    #[test]
    fn sums_of_many_large_bytes_do_not_overflow() {
        let width = 70_000;
        let (low, high) = (vec![0; width], vec![255; width]);
        let mut nearest = NearestRows::new(&low, width, 1);
        nearest.show(&[1], &high, 1);
        assert_eq!(nearest.of(0)[0].squared, squared_distance(&low, &high));
    }

    #[test]
    fn rows_of_no_bytes_are_none() {
        let mut nearest = NearestRows::new(&[], 0, 3);
        nearest.show(&[1, 2], &[], 2);
        assert!(nearest.into_lists().is_empty());
    }

    #[test]
    fn most_votes_win_and_the_nearest_of_ties() {
        let neighbours: Vec<Neighbour> =
            (0..5).map(|row| Neighbour { row, squared: row }).collect();
        let by = |labels: [u32; 5]| vote(&neighbours, |row| labels[row as usize]);
        assert_eq!(by([4, 7, 7, 4, 7]), Some(7));
        assert_eq!(by([9, 7, 4, 4, 7]), Some(7));
        assert_eq!(by([1, 2, 3, 4, 5]), Some(1));
        assert_eq!(vote(&[], |row| row), None);
    }
}
