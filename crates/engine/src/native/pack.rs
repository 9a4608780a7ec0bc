//! The unit of computation: one tensor element of sixteen inputs at once.
//!
//! A tensor of shape `[1, C, H, W]` is stored as `C*H*W` packs in row-major order, and lane `i` of
//! every pack belongs to input `i` of the micro-batch. Lanes never mix. So a kernel reads like the
//! definition of its operator for a single input, vectorises for any shape, stride or axis, and
//! computes for each input exactly the same operations wherever it stands in a batch.

/// Number of inputs that are computed together.
pub(crate) const LANES: usize = 16;

/// One element of a tensor for [`LANES`] inputs; a cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pack(pub(crate) [f32; LANES]);

impl Pack {
    /// Zero in every lane.
    pub(crate) const ZERO: Pack = Pack([0.0; LANES]);

    /// The same number in every lane.
    #[inline(always)]
    pub(crate) fn splat(x: f32) -> Pack {
        Pack([x; LANES])
    }

    /// A function of each lane.
    #[inline(always)]
    pub(crate) fn map(self, f: impl Fn(f32) -> f32) -> Pack {
        let mut out = self;
        for l in 0..LANES {
            out.0[l] = f(self.0[l]);
        }
        out
    }

    /// `self * factor + sum`, rounded once.
    #[inline(always)]
    pub(crate) fn mul_add(self, factor: Pack, sum: Pack) -> Pack {
        let mut out = self;
        for l in 0..LANES {
            out.0[l] = self.0[l].mul_add(factor.0[l], sum.0[l]);
        }
        out
    }

    /// A function of each pair of lanes.
    #[inline(always)]
    pub(crate) fn zip(self, other: Pack, f: impl Fn(f32, f32) -> f32) -> Pack {
        let mut out = self;
        for l in 0..LANES {
            out.0[l] = f(self.0[l], other.0[l]);
        }
        out
    }
}

/// Spreads inputs, one after the other in `samples`, over the lanes. Lanes without an input repeat
/// the first one: their results are dropped, and real numbers take no slow path.
///
/// `rows` inputs stand in each lane one after the other, for models that fix their batch size.
pub(crate) fn pack(samples: &[f32], per_lane: usize, packs: &mut [Pack]) {
    let packs = &mut packs[..per_lane];
    for lane in 0..LANES {
        let sample = samples
            .get(lane * per_lane..(lane + 1) * per_lane)
            .unwrap_or(&samples[..per_lane]);
        for (pack, &x) in packs.iter_mut().zip(sample) {
            pack.0[lane] = x;
        }
    }
}

/// The numbers of packs, those of each beside each other.
#[allow(unsafe_code)]
pub(crate) fn numbers(packs: &[Pack]) -> &[f32] {
    const { assert!(size_of::<Pack>() == LANES * size_of::<f32>()) }
    // SAFETY: a pack is an array of `LANES` numbers and nothing else, so that so many of them are in
    // the memory of the packs, which is borrowed for as long as the result.
    unsafe { std::slice::from_raw_parts(packs.as_ptr().cast(), packs.len() * LANES) }
}

/// The numbers of packs, to be written.
#[allow(unsafe_code)]
pub(crate) fn numbers_mut(packs: &mut [Pack]) -> &mut [f32] {
    // SAFETY: as in `numbers`; nobody else has them meanwhile.
    unsafe { std::slice::from_raw_parts_mut(packs.as_mut_ptr().cast(), packs.len() * LANES) }
}

/// Numbers as packs, if they begin like one and fill them.
#[allow(unsafe_code)]
pub(crate) fn whole_packs(numbers: &[f32]) -> Option<&[Pack]> {
    // SAFETY: a pack is an array of numbers, any of which is one, and nothing else.
    match unsafe { numbers.align_to::<Pack>() } {
        ([], packs, []) => Some(packs),
        _ => None,
    }
}

/// As [`whole_packs`], to be written.
#[allow(unsafe_code)]
pub(crate) fn whole_packs_mut(numbers: &mut [f32]) -> Option<&mut [Pack]> {
    // SAFETY: as in `whole_packs`; nobody else has them meanwhile.
    match unsafe { numbers.align_to_mut::<Pack>() } {
        ([], packs, []) => Some(packs),
        _ => None,
    }
}

/// Gathers the first `samples.len() / per_lane` lanes: the inverse of [`pack`].
pub(crate) fn unpack(packs: &[Pack], per_lane: usize, samples: &mut [f32]) {
    for (lane, sample) in samples.chunks_mut(per_lane.max(1)).enumerate() {
        for (x, pack) in sample.iter_mut().zip(packs) {
            *x = pack.0[lane];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_and_unpacking_are_inverse() {
        let samples: Vec<f32> = (0..3 * 5).map(|i| i as f32).collect();
        let mut packs = vec![Pack::ZERO; 5];
        pack(&samples, 5, &mut packs);
        assert_eq!(packs[2].0[..4], [2.0, 7.0, 12.0, 2.0]);
        assert_eq!(numbers(&packs).len(), 5 * LANES);
        assert_eq!(numbers(&packs)[2 * LANES..][..4], [2.0, 7.0, 12.0, 2.0]);
        let parts = [
            (0, 80, true),
            (16, 32, true),
            (1, 16, false),
            (0, 15, false),
        ];
        for (from, len, whole) in parts {
            let found = whole_packs(&numbers(&packs)[from..from + len]);
            assert_eq!(found.is_some(), whole, "{from} {len}");
        }
        assert_eq!(
            whole_packs_mut(numbers_mut(&mut packs)).map(|p| p.len()),
            Some(5)
        );
        let mut back = vec![0.0; 15];
        unpack(&packs, 5, &mut back);
        assert_eq!(back, samples);
    }
}
