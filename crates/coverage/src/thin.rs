//! Which classes and clusters a suite has too few inputs of.
//!
//! Of `n` inputs that were drawn as the training data was, `n s` are expected to be of something that
//! has a share `s` there. Fewer are no finding by themselves: chance does that. So something is *thin*
//! when a suite has less than half of what is expected (else nobody would care), and so few would be
//! rare (else nobody could tell): `P(Bin(n, s) <= k) < 0.01 / K`. `K` is how many things are looked at
//! together, so that of a hundred suites drawn as the training data was, one has anything thin.

use npcov_artefact::StateRecord;

use crate::binomial::at_most;

/// Less than this part of what is expected is few.
const FEW: f64 = 0.5;

/// How likely it is that anything is called thin in a suite that is like the training data.
const FALSE_ALARM: f64 = 0.01;

/// Whether a suite has too few inputs of something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// How many there would be if it were as frequent as its share says.
    pub(crate) expected: f64,
    /// How likely it is that there are no more.
    pub(crate) p: f64,
    /// Whether they are too few.
    pub(crate) thin: bool,
    /// Of so many inputs, none is a finding; `None` for something that has no share.
    pub(crate) enough: Option<u64>,
}

/// Judges that of `all` inputs `inputs` are of something that has this share, one of `things` that are
/// looked at together.
pub(crate) fn judge(inputs: usize, all: usize, share: f64, things: usize) -> Verdict {
    let level = FALSE_ALARM / things.max(1) as f64;
    let expected = all as f64 * share;
    let p = at_most(inputs as u64, all as u64, share);
    Verdict {
        expected,
        p,
        thin: (inputs as f64) < FEW * expected && p < level,
        enough: enough(share, level),
    }
}

/// The smallest `n` with `(1 - share)^n < level`.
fn enough(share: f64, level: f64) -> Option<u64> {
    if share <= 0.0 {
        return None;
    }
    let none = |n: u64| at_most(0, n, share);
    // The quotient may be off by its rounding.
    let mut n = (level.ln() / (-share).ln_1p()).floor().max(0.0) as u64;
    while n > 0 && none(n - 1) < level {
        n -= 1;
    }
    while none(n) >= level {
        n += 1;
    }
    Some(n)
}

/// Whether there were more of something earlier, by more than chance: of `new` and `old` inputs
/// together, as few are among the new ones with a probability below a twentieth.
///
/// Each input of the kind is among the new ones with the share that those have of all inputs.
pub(crate) fn are_fewer(new: (usize, usize), old: (usize, usize)) -> bool {
    let ((now, all_now), (then, all_then)) = (new, old);
    let share = all_now as f64 / (all_now + all_then).max(1) as f64;
    at_most(now as u64, (now + then) as u64, share) < 0.05
}

/// By class: training inputs that are classified as it.
pub(crate) fn training_predictions(record: &StateRecord) -> Vec<u64> {
    let mut start = 0;
    let class = |&(_, count): &(usize, usize)| {
        let members = record.shares.get(start..start + count);
        start += count;
        members.map_or(0, |members| members.iter().sum())
    };
    record.classes.iter().map(class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of the definition, worked out with SciPy's `binom.cdf`.
    #[test]
    fn worked_cases() {
        for (inputs, all, share, expected, p) in [
            (19, 994, 0.181084, 179.998, 1.4e-59),
            (4, 100, 0.1, 10.0, 0.0237),
            (1, 100, 0.1, 10.0, 3.217e-4),
            (0, 20, 0.2, 4.0, 0.01153),
            (0, 10, 0.2, 2.0, 0.1074),
            (9, 1000, 0.02, 20.0, 0.00468),
            (5, 1000, 0.02, 20.0, 6.40e-5),
        ] {
            let found = judge(inputs, all, share, 1);
            assert!((found.expected - expected).abs() < 1e-3, "{found:?}");
            assert!((found.p / p - 1.0).abs() < 0.03, "{found:?}, not {p}");
        }
    }

    #[test]
    fn thin_is_few_and_rare() {
        // 9 of 20 are few, and rare enough for a single thing, not for ten.
        assert!(judge(9, 1000, 0.02, 1).thin && !judge(9, 1000, 0.02, 10).thin);
        // 400 of 500 are rare, and not few.
        assert!(judge(400, 1000, 0.5, 1).p < 1e-9 && !judge(400, 1000, 0.5, 1).thin);
        // None of 2 is few, and not rare: for lack of data nothing is thin.
        assert!(!judge(0, 10, 0.2, 1).thin && !judge(0, 0, 0.2, 1).thin);
        // What training does not show is not missed.
        let nothing = judge(0, 1000, 0.0, 1);
        assert_eq!(
            (nothing.p, nothing.thin, nothing.enough),
            (1.0, false, None)
        );
    }

    #[test]
    fn enough_inputs_are_those_that_would_tell() {
        for (share, things) in [(0.05, 50), (0.2, 1), (0.5, 1), (1e-5, 1000), (1.0, 3)] {
            let n = judge(0, 0, share, things).enough.unwrap() as usize;
            assert!(judge(0, n, share, things).thin, "{share} {things} {n}");
            assert!(!judge(0, n - 1, share, things).thin, "{share} {things} {n}");
        }
        // 0.8^20 is 0.0115, 0.8^21 is 0.0092.
        assert_eq!(judge(0, 0, 0.2, 1).enough, Some(21));
    }

    #[test]
    fn fewer_than_earlier_by_more_than_chance() {
        // Of ten, half each: none with 2^-10, four with 0.38.
        assert!(are_fewer((0, 100), (10, 100)) && !are_fewer((4, 100), (6, 100)));
        // A suite of half the size has half as many.
        assert!(!are_fewer((5, 50), (10, 100)) && !are_fewer((0, 0), (10, 100)));
    }
}
