//! What a reader should know about how a file was read: a few lines, however many columns the file has.

use super::header::listed;

/// Remarks gathered while a table is read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Notes {
    lines: Vec<String>,
    /// What happened, and the columns it happened to.
    columns: Vec<(&'static str, Vec<String>)>,
}

impl Notes {
    /// Adds a line.
    pub(super) fn push(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Adds a column to all those of which the same is to be said.
    pub(super) fn push_column(&mut self, what: &'static str, column: &str) {
        match self.columns.iter_mut().find(|(other, _)| *other == what) {
            Some((_, columns)) => columns.push(column.to_string()),
            None => self.columns.push((what, vec![column.to_string()])),
        }
    }

    /// Takes over all remarks of another.
    pub(super) fn append(&mut self, other: Notes) {
        self.lines.extend(other.lines);
        for (what, columns) in other.columns {
            columns.iter().for_each(|column| self.push_column(what, column));
        }
    }

    /// All remarks, one line each.
    pub(super) fn into_lines(self) -> Vec<String> {
        let columns = self.columns.iter().map(|(what, columns)| format!("{what}: {}", listed(columns)));
        let columns: Vec<String> = columns.collect();
        self.lines.into_iter().chain(columns).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_one_remark_share_a_line() {
        let mut notes = Notes::default();
        notes.push_column("left out as text", "a");
        let mut more = Notes::default();
        more.push("sorted".into());
        more.push_column("left out as text", "b");
        notes.append(more);
        assert_eq!(notes.into_lines(), ["sorted", "left out as text: \"a\", \"b\""]);
    }
}
