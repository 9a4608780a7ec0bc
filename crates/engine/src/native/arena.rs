//! Who stands where in one stretch of memory, and when.

/// A value that needs a place for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// Packs.
    pub(crate) len: usize,
    /// The first and the last step during which it is there.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Where each value begins, and the length of the whole stretch.
///
/// Values that are there at the same time never overlap. The largest ones choose first, each the
/// lowest place that is free during its life: the layers of a network and, in the opposite order,
/// their relevances then fill the same stretch with few holes.
pub(crate) fn layout(lives: &[Life]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..lives.len()).filter(|&i| lives[i].len > 0).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(lives[i].len), lives[i].from, i));
    let mut starts = vec![0; lives.len()];
    let mut total = 0;
    // Those that have a place, by where it begins.
    let mut placed: Vec<usize> = Vec::new();
    for i in order {
        let life = lives[i];
        let meets = |other: &Life| other.from <= life.to && life.from <= other.to;
        let mut start = 0_usize;
        for &j in placed.iter().filter(|&&j| meets(&lives[j])) {
            if starts[j] >= start.saturating_add(life.len) {
                break;
            }
            start = start.max(starts[j] + lives[j].len);
        }
        starts[i] = start;
        total = total.max(start.saturating_add(life.len));
        let at = placed.partition_point(|&j| starts[j] < start);
        placed.insert(at, i);
    }
    (starts, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(len: usize, from: usize, to: usize) -> Life {
        Life { len, from, to }
    }

    #[test]
    fn values_of_different_times_share_places() {
        let lives = [
            life(10, 0, 1),
            life(10, 1, 2),
            life(10, 2, 3),
            life(0, 0, 3),
        ];
        assert_eq!(layout(&lives), (vec![0, 10, 0, 0], 20));
    }

    /// Two small values leave room for a large one.
    #[test]
    fn neighbours_make_room() {
        let lives = [life(5, 0, 1), life(5, 0, 1), life(10, 2, 3)];
        assert_eq!(layout(&lives).1, 10);
    }

    #[test]
    fn values_that_meet_never_overlap() {
        // Layers that shrink and live until their relevance has been computed, in reverse.
        let sizes = [64, 64, 32, 16, 16, 8];
        let n = sizes.len();
        let mut lives: Vec<Life> = (0..n).map(|i| life(sizes[i], i, 2 * n - i)).collect();
        lives.extend((0..n).map(|i| life(sizes[i], 2 * n - i - 1, 2 * n - i)));
        let (starts, total) = layout(&lives);
        for (i, a) in lives.iter().enumerate() {
            assert!(starts[i] + a.len <= total);
            for (j, b) in lives.iter().enumerate().skip(i + 1) {
                let meet = a.from <= b.to && b.from <= a.to;
                let apart = starts[i] + a.len <= starts[j] || starts[j] + b.len <= starts[i];
                assert!(!meet || apart, "{i} and {j}");
            }
        }
        // Near the end the first two layers and their relevances are there: no less will do.
        assert_eq!(total, 256);
    }
}
