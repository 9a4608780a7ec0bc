//! Which parameters to take: the narrowest paths that decide almost as well as the best.

use serde::{Deserialize, Serialize};

use crate::Inconsistency;

/// How far below the best Inc.C a point may be.
pub(super) const INC_C_SLACK: f64 = 0.05;
/// How far above the lowest Inc.NC a point may be.
pub(super) const INC_NC_SLACK: f64 = 0.03;
/// A difference of shares that is rounding: 1 - 0.95 is more than 0.05.
const ROUNDING: f64 = 1e-9;

/// The point that is recommended, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// Its position among the points.
    pub point: usize,
    /// Why it is this one.
    pub basis: Basis,
    /// The highest Inc.C of all points.
    pub best_inc_c: f64,
    /// The lowest Inc.NC of all points.
    pub lowest_inc_nc: f64,
    /// How much less than the best Inc.C is good enough.
    pub inc_c_slack: f64,
    /// How much more than the lowest Inc.NC is good enough.
    pub inc_nc_slack: f64,
    /// How many points are good enough in both.
    pub good: usize,
}

/// Why a point is recommended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// It is the narrowest of those that are good enough.
    Narrowest,
    /// None is good enough; it has the largest difference of Inc.C and Inc.NC.
    LargestDifference,
}

/// Chooses among points, each a rank, a width and what masking did: of those that are good enough the
/// narrowest of the lowest rank, the first of equal ones. `None` without points.
pub(super) fn recommend<R: Copy + Ord>(
    points: &[(R, f64, Inconsistency)],
) -> Option<Recommendation> {
    let best = points.iter().map(|point| point.2.inc_c).reduce(f64::max)?;
    let lowest = points.iter().map(|point| point.2.inc_nc).reduce(f64::min)?;
    let is_good = |inc: &Inconsistency| {
        best - inc.inc_c <= INC_C_SLACK + ROUNDING && inc.inc_nc - lowest <= INC_NC_SLACK + ROUNDING
    };
    let good: Vec<usize> = (0..points.len())
        .filter(|&i| is_good(&points[i].2))
        .collect();
    // The first of equal ones: `min_by` keeps it.
    let narrowest = good.iter().copied().min_by(|&a, &b| {
        let ((rank, width, _), (other_rank, other_width, _)) = (points[a], points[b]);
        rank.cmp(&other_rank).then(width.total_cmp(&other_width))
    });
    let (point, basis) = match narrowest {
        Some(point) => (point, Basis::Narrowest),
        None => {
            let gap = |i: usize| points[i].2.difference();
            let widest_gap = |&a: &usize, &b: &usize| gap(b).total_cmp(&gap(a));
            (
                (0..points.len()).min_by(widest_gap)?,
                Basis::LargestDifference,
            )
        }
    };
    Some(Recommendation {
        point,
        basis,
        best_inc_c: best,
        lowest_inc_nc: lowest,
        inc_c_slack: INC_C_SLACK,
        inc_nc_slack: INC_NC_SLACK,
        good: good.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Width, Inc.C and Inc.NC in per cent, as they are printed.
    fn chosen(rows: &[[f64; 3]]) -> (usize, Basis) {
        let point = |[width, c, nc]: &[f64; 3]| {
            let inc = Inconsistency {
                inc_c: c / 100.0,
                inc_nc: nc / 100.0,
            };
            ((), width / 100.0, inc)
        };
        let points: Vec<_> = rows.iter().map(point).collect();
        let found = recommend(&points).unwrap();
        (found.point, found.basis)
    }

    /// The paper's table of alpha .7, .8, .9, 1.
    #[test]
    fn alphas_of_the_paper() {
        let sadl1 = [
            [9.3, 89.3, 9.6],
            [12.8, 95.8, 1.9],
            [17.2, 97.0, 0.0],
            [33.3, 98.9, 1.8],
        ];
        let sadl2 = [
            [20.9, 100.0, 0.0],
            [27.2, 100.0, 0.0],
            [36.3, 100.0, 0.0],
            [63.4, 100.0, 0.0],
        ];
        let alexnet = [
            [23.0, 100.0, 2.1],
            [29.6, 100.0, 1.2],
            [38.2, 100.0, 0.2],
            [64.6, 100.0, 0.0],
        ];
        assert_eq!(chosen(&sadl1), (1, Basis::Narrowest));
        assert_eq!(chosen(&sadl2), (0, Basis::Narrowest));
        assert_eq!(chosen(&alexnet), (0, Basis::Narrowest));
        // The authors are stricter for VGG16 (they take .9) and more generous for ImageNet (.7).
        let vgg = [
            [10.2, 100.0, 12.1],
            [13.3, 100.0, 1.5],
            [17.9, 100.0, 0.1],
            [33.8, 100.0, 0.0],
        ];
        let imagenet = [
            [41.1, 99.3, 12.5],
            [51.9, 99.8, 13.9],
            [65.9, 99.9, 13.2],
            [98.8, 99.8, 0.2],
        ];
        assert_eq!(chosen(&vgg), (1, Basis::Narrowest));
        assert_eq!(chosen(&imagenet), (3, Basis::Narrowest));
    }

    /// The paper's table of k in 1, 4, 7, 10 and beta in .6, .7, .8, .9 for its first model, where
    /// three points have the same width, and for VGG16.
    #[test]
    fn grids_of_the_paper() {
        let sadl1 = [
            [16.9, 93.6, 2.3],
            [14.6, 89.2, 8.4],
            [12.5, 78.8, 29.9],
            [10.4, 73.6, 59.8],
            [16.7, 94.5, 2.4],
            [15.4, 95.0, 2.5],
            [14.6, 94.1, 3.9],
            [12.2, 88.1, 14.3],
            [16.9, 96.3, 2.6],
            [15.9, 96.1, 3.2],
            [14.6, 92.5, 2.9],
            [12.5, 88.7, 9.5],
            [16.9, 95.3, 1.7],
            [16.1, 95.1, 3.1],
            [14.6, 93.0, 4.3],
            [13.5, 89.2, 8.8],
        ];
        assert_eq!(chosen(&sadl1), (6, Basis::Narrowest));
        let vgg = [
            [15.5, 99.8, 4.3],
            [13.1, 99.3, 4.3],
            [10.8, 98.8, 4.3],
            [7.9, 100.0, 10.1],
            [15.8, 99.9, 4.3],
            [13.5, 99.9, 4.8],
            [11.2, 99.9, 4.8],
            [8.4, 100.0, 9.2],
            [15.9, 99.8, 2.8],
            [13.7, 99.9, 3.5],
            [11.4, 99.9, 4.4],
            [8.7, 100.0, 4.9],
            [15.9, 99.9, 2.0],
            [13.7, 99.9, 2.7],
            [11.5, 99.9, 3.4],
            [8.7, 99.9, 8.8],
        ];
        assert_eq!(chosen(&vgg), (11, Basis::Narrowest));
    }

    #[test]
    fn a_slack_reaches_to_its_end() {
        assert_eq!(chosen(&[[20.0, 100.0, 0.0], [10.0, 95.0, 3.0]]).0, 1);
        assert_eq!(chosen(&[[20.0, 100.0, 0.0], [10.0, 94.9, 3.0]]).0, 0);
        assert_eq!(chosen(&[[20.0, 100.0, 0.0], [10.0, 95.0, 3.1]]).0, 0);
    }

    #[test]
    fn when_none_is_good_the_largest_difference_counts() {
        let rows = [[10.0, 50.0, 0.0], [20.0, 80.0, 25.0], [30.0, 99.0, 60.0]];
        assert_eq!(chosen(&rows), (1, Basis::LargestDifference));
        assert_eq!(recommend::<()>(&[]), None);
    }

    #[test]
    fn the_lowest_rank_that_is_good_enough_comes_first() {
        let point = |rank: usize, width: f64, inc_nc: f64| {
            let inc = Inconsistency { inc_c: 1.0, inc_nc };
            (rank, width, inc)
        };
        let points = [
            point(2, 0.1, 0.0),
            point(1, 0.4, 0.0),
            point(1, 0.3, 0.02),
            point(0, 0.2, 0.2),
        ];
        assert_eq!(recommend(&points).map(|found| found.point), Some(2));
        assert_eq!(recommend(&points[..2]).map(|found| found.point), Some(1));
    }
}
