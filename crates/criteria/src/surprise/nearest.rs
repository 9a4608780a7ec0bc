//! The nearest training traces, exactly and fast.
//!
//! Distances are defined in double precision, input by input. Nearly all of that work is spared:
//! `|q|² + |t|² - 2 q·t` with products in single precision is close to the squared distance, and
//! only traces that the error of that could make the nearest are looked at in double precision.
//!
//! How large can the error be? Let u = 2⁻²⁴ be the rounding unit of single precision, k the
//! number of neurons, and q and t the traces with the (mean) centre subtracted, in single
//! precision; Q = |q|² and T = |t|². With 2|q||t| ≤ Q + T:
//! * the centred traces are off by u|q| and u|t|, the squared distance by at most
//!   u(2 + u)(|q| + |t|)² ≤ 2u(2 + u)(Q + T);
//! * a sum of k products, in any order and fused or not, is off by γ|q||t| with γ = ku/(1 - ku),
//!   twice it by γ(Q + T);
//! * Q and T are summed in double precision; rounding T, and the sum, in single precision adds at
//!   most 3u(Q + T) and a little;
//! * the definition in double precision is off by far less than u(Q + T), as long as k < 2²⁶.
//!
//! Together that is less than (γ + 16u)(Q + T). Numbers too small for single precision add at most
//! the smallest normal number for each neuron. Traces that are too large for it, or not finite,
//! are always looked at.

use std::ops::Range;

use crate::error::CriterionError;
use crate::training::Training;

use super::product;

/// Numbers of training traces that are read at a time: 4 MB.
const READ: usize = 1 << 20;

/// Inputs whose products are held at a time.
const PANEL: usize = 256;

/// Norms up to this are safe from overflow in single precision.
const LARGEST: f64 = 1e37;

/// Which training traces are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    /// Those of the same class.
    Same,
    /// Those of all other classes.
    Others,
}

/// A trace whose nearest is sought.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) class: u32,
    /// A training input that does not count.
    pub(crate) except: Option<usize>,
    pub(crate) trace: Vec<f32>,
}

/// The nearest training trace; of equally near ones the first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Nearest {
    pub(crate) input: usize,
    pub(crate) squared: f64,
    pub(crate) trace: Vec<f32>,
}

/// What was found for each query.
pub(crate) struct Found {
    pub(crate) same: Vec<Option<Nearest>>,
    pub(crate) others: Vec<Option<Nearest>>,
}

/// Where the traces are, and what is subtracted to make numbers small.
pub(crate) struct Space<'a> {
    pub(crate) training: &'a dyn Training,
    pub(crate) neurons: Range<usize>,
    pub(crate) centre: &'a [f32],
}

/// The squared distance, by definition.
pub(crate) fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |(&a, &b): (&f32, &f32)| (f64::from(a) - f64::from(b)).powi(2);
    a.iter().zip(b).map(square).sum()
}

impl Space<'_> {
    /// For each query the nearest of the traces; `None` where there are none, or none at a finite
    /// distance. With [`Among::Others`], which of equally near ones it is is left open.
    pub(crate) fn nearest(
        &self,
        queries: &[Query],
        among: Among,
    ) -> Result<Vec<Option<Nearest>>, CriterionError> {
        let found = self.search(queries, &[among])?;
        Ok(match among {
            Among::Same => found.same,
            Among::Others => found.others,
        })
    }

    /// The same for both, of which all products are needed only once.
    pub(crate) fn nearest_of_both(&self, queries: &[Query]) -> Result<Found, CriterionError> {
        self.search(queries, &[Among::Same, Among::Others])
    }

    fn search(&self, queries: &[Query], among: &[Among]) -> Result<Found, CriterionError> {
        let width = self.neurons.len();
        let mut order: Vec<usize> = (0..queries.len()).collect();
        order.sort_by_key(|&i| queries[i].class);
        let mut search = Search::new(self, queries, &order);

        let inputs = self.training.inputs();
        let step = (READ / width.max(1)).clamp(64, 4096).min(inputs.max(1));
        let others = among.contains(&Among::Others);
        let mut block = Block::default();
        for start in (0..inputs).step_by(step) {
            let range = start..(start + step).min(inputs);
            block.read(self, range, |class| others || search.seeks(class))?;
            match others {
                true => search.among_all(&block, among.contains(&Among::Same)),
                false => search.among_same(&block),
            }
        }
        let by_query = |found: Vec<Option<Nearest>>| {
            let mut nearest = vec![None; queries.len()];
            for (found, &place) in found.into_iter().zip(&order) {
                nearest[place] = found;
            }
            nearest
        };
        Ok(Found {
            same: by_query(search.found.same),
            others: by_query(search.found.others),
        })
    }

    /// The centred trace in single precision, and its squared norm.
    fn centre(&self, trace: &[f32], out: &mut [f32]) -> f64 {
        let mut norm = 0.0;
        for ((out, x), centre) in out.iter_mut().zip(trace).zip(self.centre) {
            *out = x - centre;
            norm += f64::from(*out) * f64::from(*out);
        }
        // Written so that NaN is too large.
        match norm <= LARGEST {
            true => norm,
            false => f64::NAN,
        }
    }

    /// How far off single precision is, as a part of Q + T, and besides.
    fn error(&self) -> (f64, f64) {
        let unit = f64::from(f32::EPSILON) / 2.0;
        let width = self.neurons.len() as f64;
        let part = match width * unit < 0.5 {
            true => width * unit / (1.0 - width * unit) + 16.0 * unit,
            false => f64::INFINITY,
        };
        (part, (width + 8.0) * f64::from(f32::MIN_POSITIVE))
    }
}

/// Training traces, sorted by class, those of a class ascending.
#[derive(Default)]
struct Block {
    /// As they are read.
    raw: Vec<f32>,
    /// The first input.
    start: usize,
    /// For each trace its place among those that were read.
    places: Vec<usize>,
    /// The classes there are, with their traces.
    classes: Vec<(u32, Range<usize>)>,
    /// Centred traces.
    rows: Vec<f32>,
    /// Their squared norms, less and more what single precision may be off; NaN where that does
    /// not tell.
    low: Vec<f32>,
    high: Vec<f32>,
}

impl Block {
    fn read(
        &mut self,
        space: &Space<'_>,
        inputs: Range<usize>,
        wanted: impl Fn(u32) -> bool,
    ) -> Result<(), CriterionError> {
        let width = space.neurons.len();
        let classes = inputs.clone().map(|input| space.training.prediction(input));
        let classes: Vec<u32> = classes.collect();
        self.start = inputs.start;
        self.raw.resize(inputs.len() * width, 0.0);
        space
            .training
            .read(inputs, space.neurons.clone(), &mut self.raw)?;

        self.places = (0..classes.len()).filter(|&i| wanted(classes[i])).collect();
        self.places.sort_by_key(|&place| classes[place]);
        self.classes.clear();
        let mut first = 0;
        for same in self.places.chunk_by(|&a, &b| classes[a] == classes[b]) {
            self.classes
                .push((classes[same[0]], first..first + same.len()));
            first += same.len();
        }

        let (part, _) = space.error();
        self.rows.resize(self.places.len() * width, 0.0);
        self.low.clear();
        self.high.clear();
        for (i, &place) in self.places.iter().enumerate() {
            let trace = &self.raw[place * width..(place + 1) * width];
            let norm = space.centre(trace, &mut self.rows[i * width..(i + 1) * width]);
            self.low.push((norm * (1.0 - part)) as f32);
            self.high.push((norm * (1.0 + part)) as f32);
        }
        Ok(())
    }

    /// The traces of a class.
    fn of_class(&self, class: u32) -> Range<usize> {
        let found = self.classes.binary_search_by_key(&class, |(key, _)| *key);
        found.map_or(0..0, |at| self.classes[at].1.clone())
    }
}

/// Queries, sorted by class, and what was found for them.
struct Search<'a> {
    width: usize,
    error: (f64, f64),
    queries: Vec<&'a Query>,
    rows: Vec<f32>,
    norms: Vec<f64>,
    found: Found,
    products: Vec<f32>,
}

impl<'a> Search<'a> {
    fn new(space: &Space<'_>, queries: &'a [Query], order: &[usize]) -> Search<'a> {
        let width = space.neurons.len();
        let mut rows = vec![0.0; queries.len() * width];
        let queries: Vec<&Query> = order.iter().map(|&i| &queries[i]).collect();
        let norm = |(i, query): (usize, &&Query)| {
            space.centre(&query.trace, &mut rows[i * width..(i + 1) * width])
        };
        let norms = queries.iter().enumerate().map(norm).collect();
        Search {
            width,
            error: space.error(),
            found: Found {
                same: vec![None; queries.len()],
                others: vec![None; queries.len()],
            },
            queries,
            rows,
            norms,
            products: Vec::new(),
        }
    }

    fn seeks(&self, class: u32) -> bool {
        self.queries
            .binary_search_by_key(&class, |query| query.class)
            .is_ok()
    }

    fn among_same(&mut self, block: &Block) {
        for (class, traces) in &block.classes {
            let first = self.queries.partition_point(|query| query.class < *class);
            let end = self.queries.partition_point(|query| query.class <= *class);
            for start in (first..end).step_by(PANEL) {
                let panel = start..(start + PANEL).min(end);
                self.multiply(panel.clone(), block, traces.clone());
                for query in panel.clone() {
                    let mut found = self.found.same[query].take();
                    let products = self.products(query - panel.start, traces, traces);
                    self.look(query, products, block, traces.clone(), &mut found);
                    self.found.same[query] = found;
                }
            }
        }
    }

    fn among_all(&mut self, block: &Block, same: bool) {
        let all = 0..block.places.len();
        for start in (0..self.queries.len()).step_by(PANEL) {
            let panel = start..(start + PANEL).min(self.queries.len());
            self.multiply(panel.clone(), block, all.clone());
            for query in panel.clone() {
                let row = query - panel.start;
                let own = block.of_class(self.queries[query].class);
                let mut found = self.found.others[query].take();
                for others in [0..own.start, own.end..all.end] {
                    let products = self.products(row, &all, &others);
                    self.look(query, products, block, others, &mut found);
                }
                self.found.others[query] = found;
                if same {
                    let mut found = self.found.same[query].take();
                    let products = self.products(row, &all, &own);
                    self.look(query, products, block, own, &mut found);
                    self.found.same[query] = found;
                }
            }
        }
    }

    fn multiply(&mut self, queries: Range<usize>, block: &Block, traces: Range<usize>) {
        let width = self.width;
        self.products.resize(queries.len() * traces.len(), 0.0);
        let a = &self.rows[queries.start * width..queries.end * width];
        let b = &block.rows[traces.start * width..traces.end * width];
        product::rows_f32(a, b, width, &mut self.products);
    }

    /// The products with some traces, in a row of those with the traces `multiplied`.
    fn products(&self, row: usize, multiplied: &Range<usize>, traces: &Range<usize>) -> &[f32] {
        let row = &self.products[row * multiplied.len()..(row + 1) * multiplied.len()];
        &row[traces.start - multiplied.start..traces.end - multiplied.start]
    }

    /// Looks for something nearer to a query among some traces, with these products.
    fn look(
        &self,
        query: usize,
        products: &[f32],
        block: &Block,
        traces: Range<usize>,
        found: &mut Option<Nearest>,
    ) {
        let (low, high) = (&block.low[traces.clone()], &block.high[traces.clone()]);
        let query_norm = self.norms[query];
        let (part, besides) = self.error;

        // One of these is no farther than this: the smallest of their upper bounds. An input that
        // does not count has no say.
        let counting = match self.own_place(query, block, &traces) {
            Some(own) => [0..own, own + 1..products.len()],
            None => [0..products.len(), 0..0],
        };
        let mut bound = f32::INFINITY;
        for part in counting {
            for (high, product) in high[part.clone()].iter().zip(&products[part]) {
                let squared = high - 2.0 * product;
                bound = if squared < bound { squared } else { bound };
            }
        }
        let known = distance(found).min(f64::from(bound) + query_norm * (1.0 + part) + besides);
        // What is to be exceeded without the query's own norm, rounded up.
        let limit = (known - query_norm * (1.0 - part) + besides) as f32;
        let limit = limit.next_up();

        const LANES: usize = 16;
        let beyond = |low: f32, product: f32| low - 2.0 * product > limit;
        for start in (0..products.len()).step_by(LANES) {
            let lanes = start..(start + LANES).min(products.len());
            let mut all_beyond = true;
            for i in lanes.clone() {
                all_beyond &= beyond(low[i], products[i]);
            }
            if all_beyond {
                continue;
            }
            for i in lanes {
                if !beyond(low[i], products[i]) {
                    self.compare(query, block, block.places[traces.start + i], found);
                }
            }
        }
    }

    /// Where the input that does not count is among some traces.
    fn own_place(&self, query: usize, block: &Block, traces: &Range<usize>) -> Option<usize> {
        let place = self.queries[query].except?.checked_sub(block.start)?;
        if place * self.width >= block.raw.len() {
            return None;
        }
        let places = &block.places[traces.clone()];
        places.iter().position(|&other| other == place)
    }

    /// Compares by definition.
    fn compare(&self, query: usize, block: &Block, place: usize, found: &mut Option<Nearest>) {
        let input = block.start + place;
        let Query { trace, except, .. } = self.queries[query];
        if *except == Some(input) {
            return;
        }
        let other = &block.raw[place * self.width..(place + 1) * self.width];
        let squared = squared_distance(trace, other);
        if squared < distance(found) {
            *found = Some(Nearest {
                input,
                squared,
                trace: other.to_vec(),
            });
        }
    }
}

fn distance(found: &Option<Nearest>) -> f64 {
    found.as_ref().map_or(f64::INFINITY, |found| found.squared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::TrainingTable;
    use proptest::prelude::*;

    /// By definition.
    fn naive(table: &TrainingTable, query: &Query, among: Among) -> Option<(usize, f64)> {
        let mut nearest = None;
        for (input, trace) in table.activations.chunks_exact(table.neurons).enumerate() {
            let same = table.predictions[input] == query.class;
            if same != (among == Among::Same) || query.except == Some(input) {
                continue;
            }
            let squared = squared_distance(&query.trace, trace);
            if squared < nearest.map_or(f64::INFINITY, |(_, squared)| squared) {
                nearest = Some((input, squared));
            }
        }
        nearest
    }

    fn check(table: &TrainingTable, centre: &[f32], queries: &[Query]) {
        let space = Space {
            training: table,
            neurons: 0..table.neurons,
            centre,
        };
        let both = space.nearest_of_both(queries).unwrap();
        for (among, of_both) in [(Among::Same, both.same), (Among::Others, both.others)] {
            let fast = space.nearest(queries, among).unwrap();
            assert_eq!(fast, of_both);
            for (query, fast) in queries.iter().zip(fast) {
                let slow = naive(table, query, among);
                let fast = fast.map(|found| (found.input, found.squared));
                match among {
                    Among::Same => assert_eq!(fast, slow),
                    Among::Others => assert_eq!(fast.map(|f| f.1), slow.map(|s| s.1)),
                }
            }
        }
    }

    /// Traces with many equal ones and many nearly as near.
    fn traces(width: usize) -> impl Strategy<Value = Vec<f32>> {
        let number = prop_oneof![
            4 => (-3i8..3).prop_map(f32::from),
            2 => (0u8..4).prop_map(|n| 1.0 + f32::from(n) * f32::EPSILON),
            2 => -1.0f32..1.0,
            1 => Just(1000.0),
        ];
        prop::collection::vec(number, width)
    }

    proptest! {
        #[test]
        fn as_by_definition(
            (width, rows, queries) in (1usize..6).prop_flat_map(|width| (
                Just(width),
                prop::collection::vec((0u32..3, traces(width)), 1..200),
                prop::collection::vec((0u32..4, traces(width), prop::option::of(0usize..200)), 1..20),
            )),
            centre in prop::collection::vec(-500.0f32..500.0, 6),
        ) {
            let table = TrainingTable {
                predictions: rows.iter().map(|row| row.0).collect(),
                neurons: width,
                activations: rows.iter().flat_map(|row| &row.1).copied().collect(),
                ..TrainingTable::default()
            };
            let query = |(class, trace, except): &(u32, Vec<f32>, Option<usize>)| Query {
                class: *class,
                except: *except,
                trace: trace.clone(),
            };
            let queries: Vec<Query> = queries.iter().map(query).collect();
            check(&table, &centre[..width], &queries);
            check(&table, &vec![0.0; width], &queries);
        }
    }

    #[test]
    fn several_blocks_and_panels() {
        // A multiplicative sequence as numbers: more rows than are read at a time, more queries
        // than are multiplied at a time.
        let mut seed = 1u32;
        let mut number = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 20) as f32 / 4096.0
        };
        let table = TrainingTable {
            predictions: (0..9000).map(|i| i % 2).collect(),
            neurons: 3,
            activations: (0..27000).map(|_| number()).collect(),
            ..TrainingTable::default()
        };
        let query = |i: usize| Query {
            class: (i % 2) as u32,
            except: i.is_multiple_of(3).then_some(i),
            trace: table.activations[i * 3..i * 3 + 3].to_vec(),
        };
        let queries: Vec<Query> = (0..600).map(|i| query(i * 15)).collect();
        check(&table, &[0.5; 3], &queries);
    }

    #[test]
    fn numbers_that_single_precision_does_not_bear() {
        let large = 1e25;
        let table = TrainingTable {
            predictions: vec![0, 0, 0, 0, 0, 1, 1],
            neurons: 2,
            activations: vec![
                large,
                0.0, //
                f32::NAN,
                0.0, //
                large,
                1e24, //
                0.0,
                1e-40, //
                f32::INFINITY,
                0.0, //
                -large,
                -large, //
                1e-42,
                0.0,
            ],
            ..TrainingTable::default()
        };
        let traces = [
            [large, 9e23],
            [0.0, 0.0],
            [f32::NAN, 0.0],
            [3e30, 3e30],
            [1.0, 2.0],
        ];
        let query = |trace: &[f32; 2]| Query {
            class: 0,
            except: None,
            trace: trace.to_vec(),
        };
        let queries: Vec<Query> = traces.iter().map(query).collect();
        check(&table, &[0.0, 0.0], &queries);
    }
}
