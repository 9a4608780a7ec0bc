//! Columns that line up.

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

    /// Adds a row; cells that are missing at its end stay empty.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
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

/// A number with a comma between thousands.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share in per cent; a dash when there is nothing to have a share of.
pub(crate) fn percent(part: usize, whole: usize) -> String {
    match whole {
        0 => "-".to_owned(),
        whole => format!("{:.2}%", 100.0 * part as f64 / whole as f64),
    }
}

/// A part of 1 in per cent.
pub(crate) fn share(part: f64) -> String {
    // A share of -0.01% is none.
    let tenths = (1000.0 * part).round() / 10.0 + 0.0;
    format!("{tenths:.1}%")
}

/// A number with four digits that count.
pub(crate) fn number(x: f64) -> String {
    // Rounded first: 0.99999 has its first digit before the point.
    let rounded: f64 = format!("{x:.3e}").parse().unwrap_or(x);
    match rounded.abs() {
        0.0 => "0".to_owned(),
        size if (1e-3..1e6).contains(&size) => {
            let before = size.log10().floor() as i32;
            let after = usize::try_from(3 - before).unwrap_or(0);
            format!("{x:.after$}")
        }
        _ => format!("{x:.3e}"),
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
    fn numbers() {
        assert_eq!([grouped(0), grouped(999)], ["0", "999"]);
        assert_eq!([grouped(1000), grouped(1234567)], ["1,000", "1,234,567"]);
        assert_eq!([percent(1, 3), percent(0, 0)], ["33.33%", "-"]);
        assert_eq!([share(0.12345), share(-0.00001)], ["12.3%", "0.0%"]);
        for (x, text) in [
            (12.3456, "12.35"),
            (-0.00123456, "-0.001235"),
            (0.99999, "1.000"),
            (123456.7, "123457"),
            (1e7, "1.000e7"),
            (0.0, "0"),
            (1e-5, "1.000e-5"),
        ] {
            assert_eq!(number(x), text);
        }
    }
}
