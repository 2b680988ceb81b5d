//! Text in columns.

use std::fmt::Write;

/// A heading and rows, the first `left` columns flush left and the others flush right.
pub(super) fn aligned(heading: &[&str], left: usize, rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut whole = String::new();
        for (column, (cell, width)) in cells.zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            // Writing to a string cannot fail.
            let _ = match column < left {
                true => write!(whole, "{gap}{cell:width$}"),
                false => write!(whole, "{gap}{cell:>width$}"),
            };
        }
        text += whole.trim_end();
        text.push('\n');
    };
    line(&mut heading.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_numbers_right() {
        let rows = [vec!["a".into(), "1.5".into()], vec!["long".into(), "10.25".into()]];
        assert_eq!(aligned(&["name", "ms"], 1, &rows), "name     ms\na       1.5\nlong  10.25\n");
    }
}
