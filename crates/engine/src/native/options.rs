//! Which kernels a graph is prepared with.

use std::fmt;
use std::str::FromStr;

use npcov_cpu::Isa;

/// How the engine computes. With the same options and shapes the same kernels
/// are chosen, whatever the machine's mood: results are the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The instruction set.
    pub isa: Isa,
    /// How convolutions are computed.
    pub kernels: Kernels,
    /// Bytes that a thread may work in when it computes sixteen inputs together. Where they do not
    /// suffice, inputs are computed one by one: with the same bits, in a sixteenth of the memory.
    pub memory: usize,
}

/// Bytes that a thread may work in by default.
const MEMORY: usize = 512 << 20;

impl Default for Options {
    /// The best instruction set of this CPU, the fastest kernels, 512 MiB for a thread.
    fn default() -> Options {
        Options {
            isa: Isa::detect(),
            kernels: Kernels::default(),
            memory: MEMORY,
        }
    }
}

/// How convolutions are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernels {
    /// Product by product, as they are defined.
    Direct,
    /// With Winograd's `F(4x4, 3x3)` where it takes less work: 3x3 taps, stride 1. Results differ in
    /// the last digits.
    #[default]
    Winograd,
}

impl Kernels {
    /// The name that results are recorded with.
    pub fn name(self) -> &'static str {
        match self {
            Kernels::Direct => "direct",
            Kernels::Winograd => "winograd",
        }
    }
}

impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kernels {
    type Err = String;

    fn from_str(name: &str) -> Result<Kernels, String> {
        [Kernels::Direct, Kernels::Winograd]
            .into_iter()
            .find(|kernels| kernels.name() == name)
            .ok_or_else(|| {
                format!("`{name}` is no kind of kernels; there are `direct`, `winograd`")
            })
    }
}
