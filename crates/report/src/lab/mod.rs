//! Experiments in words and pictures.

mod rq1;
mod rq2;
mod rq3;
mod rq4;
mod rq5;
mod rq6;
mod rq7;

pub use rq1::{rq1, rq1_plot};
pub use rq2::{cluster_grid, rq2, rq2_plot, rq2_settings};
pub use rq3::{rq3, rq3_plot};
pub use rq4::{rq4, rq4_plot};
pub use rq5::{rq5, rq5_plot};
pub use rq6::{rq6, rq6_plot};
pub use rq7::{rq7, rq7_plot};

use npcov_lab::Paper;

use crate::number::count;
use crate::table::{Align, Table};

/// Facts at the head of a result.
fn facts(rows: &[(&str, String)]) -> String {
    let mut table = Table::new([Align::Left, Align::Left]);
    for (name, value) in rows {
        table.row([*name, value]);
    }
    table.lines()
}

/// How many inputs were taken of how many.
fn drawn(inputs: usize, available: usize, seed: u64) -> String {
    match inputs == available {
        true => count(inputs),
        false => format!(
            "{} of {}, drawn with seed {seed}",
            count(inputs),
            count(available)
        ),
    }
}

/// A table whose first column is words and whose others are numbers.
fn numbers(columns: usize) -> Table {
    let mut align = vec![Align::Left];
    align.resize(columns, Align::Right);
    Table::new(align)
}

/// A number of the paper in per cent, as it is printed; nothing where there is none.
fn printed(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value}%"))
}

/// What to know of the paper's numbers.
fn remark(paper: Option<Paper>, question: u8) -> String {
    let remark = paper.and_then(|paper| paper.remark(question));
    remark.map_or(String::new(), |remark| format!("note: {remark}\n"))
}
