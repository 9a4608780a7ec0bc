//! Gradients against differences of the definitions, computed with double precision.

mod elementwise;
mod harness;
mod linear;
mod loss;
mod statistics;
