//! The grid that states of a recurrent layer are put into: components cut into cells of equal length.

use crate::state::BitSet;

/// A grid: cells between the extremes of each component, and a margin of cells beyond both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Components of a state.
    pub(super) components: usize,
    /// Cells between the extremes; the largest number has one more of its own.
    pub(super) intervals: usize,
    /// Cells below the smallest number, and as many above the largest.
    pub(super) margin: usize,
}

impl Grid {
    /// Cells along a component.
    fn side(self) -> u64 {
        (self.intervals + 1 + 2 * self.margin) as u64
    }

    /// States that there can be; `None` where that is no number.
    pub(super) fn states(self) -> Option<u64> {
        self.side().checked_pow(self.components as u32)
    }

    /// The number of a state by its projections, and the smallest and largest number of each in training;
    /// `None` beyond the grid.
    pub(super) fn place(
        self,
        projections: impl Iterator<Item = f64>,
        extremes: &[f64],
    ) -> Option<u64> {
        let mut number = 0;
        for (x, extremes) in projections.zip(extremes.chunks_exact(2)) {
            let cell = self.cell(x, extremes) + self.margin as f64;
            let inside = cell >= 0.0 && cell < self.side() as f64;
            number = number * self.side() + inside.then_some(cell as u64)?;
        }
        Some(number)
    }

    /// The cell of a number; from 0 on between the extremes. Where all are the same in training, cells are of length 1.
    fn cell(self, x: f64, extremes: &[f64]) -> f64 {
        let (low, range) = (extremes[0], extremes[1] - extremes[0]);
        match range > 0.0 {
            true => ((x - low) * self.intervals as f64 / range).floor(),
            false => (x - low).floor(),
        }
    }

    /// Whether a number is that of a state between the extremes, of so many components.
    pub(super) fn is_inner(self, mut number: u64, components: usize) -> bool {
        let inner = self.margin as u64..(self.margin + self.intervals + 1) as u64;
        let digits = (0..components).all(|_| {
            let digit = number % self.side();
            number /= self.side();
            inner.contains(&digit)
        });
        digits && number == 0
    }

    /// The states whose cells are up to as many cells as the margin away (added up over components) from
    /// one of some inner states, and are none of these themselves; ascending.
    pub(super) fn around(self, inner: &[u64], components: usize) -> Vec<u64> {
        let bound = self.states().unwrap_or(0) as usize;
        let mut reached = BitSet::new(bound);
        inner
            .iter()
            .for_each(|&state| reached.insert(state as usize));
        let mut frontier = inner.to_vec();
        let mut found = Vec::new();
        let strides: Vec<u64> = (0..components as u32).map(|i| self.side().pow(i)).collect();
        for _ in 0..self.margin {
            let mut next = Vec::new();
            // The margin is wide enough: no step leaves its component.
            for (&state, &stride) in frontier
                .iter()
                .flat_map(|s| strides.iter().map(move |t| (s, t)))
            {
                for neighbour in [state - stride, state + stride] {
                    if !reached.contains(neighbour as usize) {
                        reached.insert(neighbour as usize);
                        next.push(neighbour);
                    }
                }
            }
            found.extend_from_slice(&next);
            frontier = next;
        }
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The cells of a state, signed, first component first.
    fn cells(grid: Grid, number: u64) -> Vec<i64> {
        let side = grid.side();
        let digit = |i: usize| (number / side.pow((grid.components - 1 - i) as u32) % side) as i64;
        (0..grid.components)
            .map(|i| digit(i) - grid.margin as i64)
            .collect()
    }

    #[test]
    fn what_is_around_is_near_and_new() {
        let grid = Grid {
            components: 2,
            intervals: 3,
            margin: 2,
        };
        let all: Vec<u64> = (0..grid.states().unwrap()).collect();
        let inner: Vec<u64> = all
            .iter()
            .copied()
            .filter(|&s| grid.is_inner(s, 2))
            .collect();
        assert_eq!(inner.len(), 16);
        for trained in [
            &inner[..1],
            &inner[5..8],
            &[inner[0], inner[15]],
            &inner[..],
        ] {
            // By the definition.
            let distance = |a: u64, b: u64| -> i64 {
                let (a, b) = (cells(grid, a), cells(grid, b));
                a.iter().zip(&b).map(|(a, b)| (a - b).abs()).sum()
            };
            let near = |&&s: &&u64| trained.iter().any(|&t| (1..=2).contains(&distance(s, t)));
            let naive: BTreeSet<u64> = all
                .iter()
                .filter(near)
                .copied()
                .filter(|s| !trained.contains(s))
                .collect();
            let found = grid.around(trained, 2);
            assert_eq!(found, naive.into_iter().collect::<Vec<_>>());
        }
        assert!(grid.around(&[], 2).is_empty());
    }

    #[test]
    fn numbers_fall_into_cells() {
        let grid = Grid {
            components: 1,
            intervals: 4,
            margin: 1,
        };
        let place = |x: f64| grid.place([x].into_iter(), &[0.0, 8.0]);
        assert_eq!(
            [-0.1, 0.0, 7.9, 8.0, 10.0].map(place),
            [0, 1, 4, 5, 6].map(Some)
        );
        assert_eq!([-2.1, 12.0, f64::NAN, f64::INFINITY].map(place), [None; 4]);
        let constant = |x: f64| grid.place([x].into_iter(), &[3.0, 3.0]);
        assert_eq!([3.0, 2.9, 10.0].map(constant), [Some(1), Some(0), None]);
    }
}
