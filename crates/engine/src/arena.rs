//! Who stands where in one stretch of memory.

use std::ops::Range;

/// Hands out places in a stretch of memory that grows as needed, and takes them back.
///
/// Values of very different sizes follow one another in a plan (the layers of a network, and then
/// their relevances in the opposite order), so free places are joined with their neighbours: what
/// several small values leave behind is room for a large one.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    /// Free places, ascending, never touching.
    free: Vec<Range<usize>>,
    len: usize,
}

impl Arena {
    /// The place of a value of so many packs: the smallest free one that is large enough, else the
    /// end.
    pub(crate) fn take(&mut self, len: usize) -> usize {
        if len == 0 {
            return 0;
        }
        let fits = |place: &Range<usize>| place.len() >= len;
        let best = (0..self.free.len())
            .filter(|&i| fits(&self.free[i]))
            .min_by_key(|&i| self.free[i].len());
        if let Some(i) = best {
            let start = self.free[i].start;
            self.free[i].start += len;
            if self.free[i].is_empty() {
                self.free.remove(i);
            }
            return start;
        }
        // A free place at the end is the beginning of the value's.
        let start = match self.free.last() {
            Some(last) if last.end == self.len => last.start,
            _ => self.len,
        };
        if start < self.len {
            self.free.pop();
        }
        self.len = start.saturating_add(len);
        start
    }

    /// Frees a place.
    pub(crate) fn give_back(&mut self, start: usize, len: usize) {
        if len == 0 {
            return;
        }
        let mut place = start..start + len;
        let i = self.free.partition_point(|free| free.start < start);
        if i < self.free.len() && self.free[i].start == place.end {
            place.end = self.free.remove(i).end;
        }
        match i.checked_sub(1).map(|before| &mut self.free[before]) {
            Some(before) if before.end == place.start => before.end = place.end,
            _ => self.free.insert(i, place),
        }
    }

    /// Length of the whole stretch.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined() {
        let mut arena = Arena::default();
        let places: Vec<usize> = (0..4).map(|_| arena.take(10)).collect();
        assert_eq!(places, [0, 10, 20, 30]);
        for start in [10, 30, 20] {
            arena.give_back(start, 10);
        }
        assert_eq!(arena.take(30), 10);
        assert_eq!(arena.len(), 40);
    }

    #[test]
    fn the_end_grows() {
        let mut arena = Arena::default();
        let (_, last) = (arena.take(10), arena.take(5));
        arena.give_back(last, 5);
        assert_eq!((arena.take(8), arena.len()), (10, 18));
    }

    #[test]
    fn the_smallest_place_is_taken() {
        let mut arena = Arena::default();
        for len in [8, 1, 4, 1] {
            arena.take(len);
        }
        arena.give_back(0, 8);
        arena.give_back(9, 4);
        assert_eq!((arena.take(3), arena.take(1), arena.take(8)), (9, 12, 0));
    }
}
