//! The first of equal numbers, lane by lane.
//!
//! A table has the last position of each hash so far, and each position the one before it: positions with
//! the same place in the table are a chain. What a position's chain begins with is written down without
//! asking what it is, so that no branch has to be guessed; only positions whose chains go on are looked at
//! again, few where all numbers differ.
//!
//! Arrays of bits lie in working memory, as floats of those bits.

/// Memory of the table, for a map.
pub(super) struct Firsts<'a> {
    /// The last position of each place, counted on from lane to lane and from one: so those of earlier lanes
    /// are smaller, and none is zero.
    last: &'a mut [f32],
    /// What was there before each position.
    before: &'a mut [f32],
    /// Positions before which there was one of the same lane.
    chained: &'a mut [f32],
    /// The first position of equal numbers, for each.
    first: &'a mut [f32],
}

/// Places of the table: a power of two, so that few positions share one.
fn places(positions: usize) -> usize {
    (4 * positions).next_power_of_two()
}

impl<'a> Firsts<'a> {
    /// Numbers of working memory for a lane of so many positions.
    pub(super) fn scratch(positions: usize) -> usize {
        places(positions) + 3 * positions
    }

    /// An empty table in working memory.
    pub(super) fn new(positions: usize, scratch: &'a mut [f32]) -> Firsts<'a> {
        let (last, rest) = scratch.split_at_mut(places(positions));
        let (before, rest) = rest.split_at_mut(positions);
        let (chained, rest) = rest.split_at_mut(positions);
        last.fill(0.0);
        Firsts {
            last,
            before,
            chained,
            first: &mut rest[..positions],
        }
    }

    /// Finds the first position that has the same number, for each of the numbers of a lane, in two
    /// halves; positions with the number `none` are their own. Returns whether any is another one.
    pub(super) fn find(&mut self, lane: usize, [p, q]: [&[f32]; 2], none: [u32; 2]) -> bool {
        let lane_start = (lane * p.len()) as u32;
        let chained = self.chain(lane_start, p);
        for (position, first) in self.first.iter_mut().enumerate() {
            *first = f32::from_bits(position as u32);
        }
        let number = |at: usize| [p[at].to_bits(), q[at].to_bits()];
        let mut any = false;
        for position in &self.chained[..chained] {
            let position = position.to_bits() as usize;
            let own = number(position);
            let mut before = self.before[position].to_bits();
            while before > lane_start && own != none {
                let at = (before - lane_start - 1) as usize;
                if number(at) == own {
                    self.first[position] = self.first[at];
                    any = true;
                    break;
                }
                before = self.before[at].to_bits();
            }
        }
        any
    }

    /// Enters the positions of a lane by the first halves of their numbers. Returns how many are chained to one
    /// before.
    fn chain(&mut self, lane_start: u32, p: &[f32]) -> usize {
        let mask = self.last.len() - 1;
        let (before, positions) = (&mut self.before[..p.len()], &mut self.chained[..p.len()]);
        let mut chained = 0;
        for (position, (p, before)) in p.iter().zip(before).enumerate() {
            let p = p.to_bits();
            let last = &mut self.last[(p ^ (p >> 15)) as usize & mask];
            let there = last.to_bits();
            *last = f32::from_bits(lane_start + position as u32 + 1);
            *before = f32::from_bits(there);
            positions[chained] = f32::from_bits(position as u32);
            chained += usize::from(there > lane_start);
        }
        chained
    }

    /// What was found for the last lane.
    pub(super) fn first(&self) -> &[f32] {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that share their places of the table, and such that do not.
    #[test]
    fn the_first_of_equal_numbers_is_found() {
        let positions = 300;
        let mut scratch = vec![f32::NAN; Firsts::scratch(positions)];
        let mut firsts = Firsts::new(positions, &mut scratch);
        let none = [7, 7];
        for lane in 0..5 {
            let halves = |i: usize| match lane {
                0 => [i as u32, 1],
                1 => [1, i as u32 % 200],
                2 => [(i as u32 % 7) << 20, i as u32 % 5],
                3 => none,
                _ => [i as u32 % 9, 7],
            };
            let half = |h: usize| -> Vec<f32> {
                let bits = (0..positions).map(|i| halves(i)[h]);
                bits.map(f32::from_bits).collect()
            };
            let any = firsts.find(lane, [&half(0), &half(1)], none);
            let expected: Vec<usize> = (0..positions)
                .map(|i| match halves(i) == none {
                    true => i,
                    false => (0..i).find(|&j| halves(j) == halves(i)).unwrap_or(i),
                })
                .collect();
            let found: Vec<usize> = firsts
                .first()
                .iter()
                .map(|first| first.to_bits() as usize)
                .collect();
            assert_eq!(found, expected, "lane {lane}");
            assert_eq!(any, [false, true, true, false, true][lane]);
        }
    }
}
