//! A small table of text for people.

/// Spaces between columns.
const GAP: usize = 2;

/// Rows of cells under headers; the first column is aligned to the left, the others to the right.
pub(super) struct Grid {
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(super) fn new(headers: &[&str]) -> Self {
        Self { rows: vec![headers.iter().map(|header| (*header).to_string()).collect()] }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(super) fn push_to(&self, text: &mut String) {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let padding = std::iter::repeat_n(' ', width - cell.chars().count());
                if column == 0 {
                    line.push_str(cell);
                    line.extend(padding);
                } else {
                    line.extend(std::iter::repeat_n(' ', GAP).chain(padding));
                    line.push_str(cell);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_numbers_right() {
        let mut grid = Grid::new(&["who", "MAE"]);
        grid.row(vec!["nano".into(), "1.5".into()]);
        grid.row(vec!["x".into(), "12.25".into()]);
        let mut text = String::new();
        grid.push_to(&mut text);
        assert_eq!(text, "who     MAE\nnano    1.5\nx     12.25\n");
    }
}
