//! Columns that line up.

use crate::visible::on_one_line;

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Rows of cells, indented by two and with two spaces between columns.
pub(crate) struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(align: impl Into<Vec<Align>>) -> Table {
        Table {
            align: align.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; cells that are missing at its end stay empty. Whatever is in a cell stays in it.
    pub(crate) fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells = cells.into_iter().map(|cell| on_one_line(cell.as_ref()));
        self.rows.push(cells.collect());
    }

    /// The lines, each with a newline at its end and no spaces before that.
    pub(crate) fn lines(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &width), align) in row.iter().zip(&widths).zip(&self.align) {
                line += &match align {
                    Align::Left => format!("  {cell:<width$}"),
                    Align::Right => format!("  {cell:>width$}"),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new([Align::Left, Align::Right, Align::Left]);
        table.row(["é", "1", "x"]);
        table.row(["abc", "22", ""]);
        table.row(["d"]);
        assert_eq!(table.lines(), "  é     1  x\n  abc  22\n  d\n");
    }

    #[test]
    fn a_cell_is_not_left() {
        let mut table = Table::new([Align::Left, Align::Left]);
        table.row(["relu\n  total  100%", "\x1b[2Jx"]);
        table.row(["a", "b"]);
        let lines = table.lines();
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(
            lines.starts_with("  relu\\n  total  100%  \\u{1b}[2Jx\n"),
            "{lines}"
        );
    }
}
