//! Relevance programs beside their definitions.
//!
//! Every linear operator is a matrix, found here by running it on unit vectors. On that matrix each
//! rule is a few sums, written in [`twin`] as the definition has them, contribution by contribution
//! and in `f64`. What a program computes must be that: with the engine's own kernels and as the
//! plain operators it lowers to, for several inputs side by side.
//!
//! Numbers are multiples of 1/8 (see [`harness::Random`]), with which most sums are exact: a sum
//! that is zero by the definition is zero in `f32` too, and dead or one-sided units are the same
//! ones for both.

mod harness;
mod linear;
mod selection;
mod structure;
mod twin;
