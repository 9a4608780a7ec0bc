//! A written program in words.

use npcov::Compilation;

use crate::inspection::port;
use crate::table::{Align, Table};
use crate::visible::on_one_line;

/// What a program takes and gives, for people to read.
pub fn compilation(written: &Compilation) -> String {
    let mut table = Table::new([Align::Left, Align::Left]);
    table.row(["opset", &written.opset.to_string()]);
    for input in &written.inputs {
        table.row(["input", &port(input)]);
    }
    for output in &written.outputs {
        table.row(["output", &port(output)]);
    }
    format!("{}\n{}", on_one_line(&written.file), table.lines())
}
