//! Buckets: where a similarity or a distance falls.

use crate::choices::{Arithmetic, Disjoint, Edges};
use crate::similarity::Jaccard;

/// The bucket of a similarity among `buckets` equal parts of (0, 1], counted from 1; `None` when it
/// falls in none. Zero is the bucket of disjoint paths where that counts.
pub fn similarity_bucket(
    jaccard: Jaccard,
    buckets: u16,
    disjoint: Disjoint,
    arithmetic: Arithmetic,
) -> Option<u16> {
    let Jaccard { shared, united } = jaccard;
    let bucket = match (arithmetic, united) {
        // Two empty sets are alike.
        (_, 0) => buckets,
        // The smallest i with shared / united <= i / buckets.
        (Arithmetic::Exact, _) => {
            let scaled = u64::from(shared) * u64::from(buckets);
            scaled.div_ceil(u64::from(united)) as u16
        }
        (Arithmetic::Float, _) => (jaccard.value() / (1.0 / f64::from(buckets))).ceil() as u16,
    };
    match (bucket, disjoint) {
        (0, Disjoint::NoBucket) => None,
        // Rounding can only lead beyond the last bucket from the last one.
        (bucket, _) => Some(bucket.min(buckets)),
    }
}

/// The bucket of a distance among `buckets` equal parts of (0, `upper`], counted from 1; `None` when
/// it falls in none.
pub fn distance_bucket(distance: f64, upper: f64, buckets: u16, edges: Edges) -> Option<u16> {
    let m = f64::from(buckets);
    match edges {
        Edges::UpperClosed => {
            if distance <= 0.0 || distance > upper {
                return None;
            }
            // The smallest i with distance <= upper * i / m; the quotient may be off by rounding.
            let edge = |i: u16| upper * f64::from(i) / m;
            let mut i = ((m * distance / upper).ceil() as u16).clamp(1, buckets);
            while i > 1 && distance <= edge(i - 1) {
                i -= 1;
            }
            while i < buckets && distance > edge(i) {
                i += 1;
            }
            Some(i)
        }
        Edges::Overflow => {
            // The number of edges 0, upper / (m - 1), ..., upper that are not above the distance.
            let edge = |i: u16| match i {
                0 => 0.0,
                i if i + 1 == buckets => upper,
                i => f64::from(i) * (upper / (m - 1.0)),
            };
            let mut low = 0;
            let mut high = buckets;
            while low < high {
                let middle = low + (high - low) / 2;
                match edge(middle) <= distance {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            Some(low)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(shared: u32, united: u32, buckets: u16) -> Option<u16> {
        let jaccard = Jaccard { shared, united };
        similarity_bucket(jaccard, buckets, Disjoint::NoBucket, Arithmetic::Exact)
    }

    fn float(shared: u32, united: u32, buckets: u16) -> Option<u16> {
        let jaccard = Jaccard { shared, united };
        similarity_bucket(jaccard, buckets, Disjoint::BucketZero, Arithmetic::Float)
    }

    #[test]
    fn worked_cases_of_similarities() {
        // Case 9.
        assert_eq!((exact(1, 3, 4), exact(1, 1, 4)), (Some(2), Some(4)));
        assert_eq!((exact(1, 4, 4), exact(0, 4, 4)), (Some(1), None));
        assert_eq!(float(0, 4, 4), Some(0));
        assert_eq!((exact(7, 25, 100), float(7, 25, 100)), (Some(28), Some(29)));
        // Section 4: the only fractions with a union up to 64 that the quotient gets wrong.
        assert_eq!(
            (float(14, 25, 100), float(7, 50, 100)),
            (Some(57), Some(15))
        );
        for (a, b, wrong) in [(7, 25, 57), (14, 25, 113), (7, 50, 29)] {
            assert_eq!(
                (exact(a, b, 200), float(a, b, 200)),
                (Some(wrong - 1), Some(wrong))
            );
        }
        assert_eq!(exact(0, 0, 200), Some(200));
    }

    #[test]
    fn worked_cases_of_distances() {
        // Case 10, with U = 2 and 200 buckets.
        let paper = |d| distance_bucket(d, 2.0, 200, Edges::UpperClosed);
        let reference = |d| distance_bucket(d, 2.0, 200, Edges::Overflow);
        assert_eq!((paper(0.6), paper(3.3 - 3.0)), (Some(60), Some(30)));
        assert_eq!((paper(0.25), paper(0.5)), (Some(25), Some(50)));
        assert_eq!((paper(0.0), reference(0.0)), (None, Some(1)));
        assert_eq!((paper(2.0), reference(2.0)), (Some(200), Some(200)));
        assert_eq!((paper(2.5), reference(2.5)), (None, Some(200)));
        assert_eq!((paper(1.999), reference(1.999)), (Some(200), Some(199)));
        // The only edge is 0, as NumPy's `linspace(0, 2, 1)` says.
        let one = |d| distance_bucket(d, 2.0, 1, Edges::Overflow);
        assert_eq!((one(0.0), one(0.5), one(3.0)), (Some(1), Some(1), Some(1)));
    }

    proptest! {
        #[test]
        fn a_similarity_lies_in_its_bucket(shared in 1u32..400, more in 0u32..400, m in 1u16..300) {
            let united = shared + more;
            let i = u64::from(exact(shared, united, m).unwrap());
            let (s, u, m) = (u64::from(shared), u64::from(united), u64::from(m));
            // (i - 1) / m < s / u <= i / m
            prop_assert!((i - 1) * u < s * m && s * m <= i * u);
        }

        #[test]
        fn a_distance_lies_in_its_bucket(d in 0.0f64..3.0, upper in 0.1f64..3.0, m in 1u16..300) {
            let edge = |i: u16| upper * f64::from(i) / f64::from(m);
            let twin = (1..=m).find(|&i| edge(i - 1) < d && d <= edge(i));
            prop_assert_eq!(distance_bucket(d, upper, m, Edges::UpperClosed), twin);
        }

        #[test]
        fn overflowing_buckets_count_edges(d in 0.0f64..3.0, upper in 0.1f64..3.0, m in 2u16..300) {
            let step = upper / f64::from(m - 1);
            let inner = (0..m - 1).filter(|&i| f64::from(i) * step <= d).count();
            let twin = inner + usize::from(upper <= d);
            prop_assert_eq!(distance_bucket(d, upper, m, Edges::Overflow), Some(twin as u16));
        }
    }
}
