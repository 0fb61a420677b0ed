//! Tables of text with aligned columns.

use std::fmt::{self, Write as _};

/// The side that a column's cells are pushed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows below a header. Columns are as wide as their widest cell, two spaces apart.
#[derive(Clone, Debug)]
pub(crate) struct Table<const N: usize> {
    sides: [Side; N],
    header: [String; N],
    rows: Vec<[String; N]>,
    indent: usize,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(columns: [(Side, &str); N]) -> Self {
        let sides = columns.map(|(side, _)| side);
        let header = columns.map(|(_, title)| title.to_owned());
        Self { sides, header, rows: Vec::new(), indent: 0 }
    }

    /// The same table, this many spaces to the right.
    pub(crate) fn indented(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| &row[column]);
        cells.chain([&self.header[column]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: [usize; N] = std::array::from_fn(|column| self.width(column));
        for row in [&self.header].into_iter().chain(&self.rows) {
            let mut line = " ".repeat(self.indent);
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let gap = if column == 0 { "" } else { "  " };
                match self.sides[column] {
                    Side::Left => write!(line, "{gap}{cell:<width$}")?,
                    Side::Right => write!(line, "{gap}{cell:>width$}")?,
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new([(Side::Left, "what"), (Side::Right, "GiB")]).indented(1);
        table.row(["weights".to_owned(), "8.00".to_owned()]);
        table.row(["µ".to_owned(), "12.50".to_owned()]);
        assert_eq!(table.to_string(), " what       GiB\n weights   8.00\n µ        12.50\n");
    }
}
