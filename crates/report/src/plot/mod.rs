//! Plots as SVG: readable on light and dark pages, without a dependency.
//!
//! Two forms are enough: [`Panels`] of lines side by side, and [`Rows`] of numbers with intervals.

mod panels;
mod rows;
mod svg;

pub(crate) use panels::{Axis, Line, Panel, Panels, Series};
pub(crate) use rows::{Mark, PlotRow, Rows};
