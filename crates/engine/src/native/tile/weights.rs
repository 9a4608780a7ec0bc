//! The weights of a layer, in the order in which tiles read them.

use std::ops::Range;

use npcov_cpu::{Isa, Vectors};

use super::Block;

/// The largest tile: as many channels as leave registers for the operands.
pub(crate) fn max_rows(isa: Isa) -> usize {
    match isa.vectors() {
        // 4 registers a pack: 12 of 16, and of NEON's 32.
        Vectors::Portable => 3,
        // 2 accumulators a row; 12 of 16 registers.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => 6,
        // 1 accumulator a row; 12 chains hide the latency of two FMA units.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => 12,
    }
}

/// Channels in blocks, which differ in height by at most one, so that no tile is too low to keep the
/// multipliers busy.
pub(crate) fn blocks(isa: Isa, channels: usize) -> impl Iterator<Item = Range<usize>> {
    let blocks = channels.div_ceil(max_rows(isa)).max(1);
    let bound = move |b: usize| channels * b / blocks;
    (0..blocks).map(move |b| bound(b)..bound(b + 1))
}

/// Weights of one layer, cut into blocks of channels and laid out in the order tiles read them:
/// block by block, then `k`, then channel.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    isa: Isa,
    data: Vec<f32>,
    /// Number of channels of each block.
    heights: Vec<u8>,
    /// Products per channel.
    k: usize,
}

impl Weights {
    /// Packs `channels x k` weights given by position.
    pub(crate) fn new(
        isa: Isa,
        channels: usize,
        k: usize,
        weight: impl Fn(usize, usize) -> f32,
    ) -> Weights {
        let mut data = Vec::with_capacity(channels * k);
        let mut heights = Vec::new();
        for block in blocks(isa, channels) {
            for i in 0..k {
                data.extend(block.clone().map(|m| weight(m, i)));
            }
            heights.push(block.len() as u8);
        }
        Weights {
            isa,
            data,
            heights,
            k,
        }
    }

    /// Number of channels.
    pub(crate) fn channels(&self) -> usize {
        self.heights.iter().map(|&h| usize::from(h)).sum()
    }

    /// Weights of one channel.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// The blocks, each with its first channel.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let mut first = 0;
        self.heights.iter().map(move |&height| {
            let height = usize::from(height);
            let block = Block {
                isa: self.isa,
                weights: &self.data[first * self.k..(first + height) * self.k],
                first,
                height,
                k: self.k,
            };
            first += height;
            block
        })
    }
}
