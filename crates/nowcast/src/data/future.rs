//! The steps to come as somebody knows them: holidays and short days that no rhythm shows.

use std::path::Path;

use super::header::listed;
use super::{ReadOptions, Stamp, Table, Times, read_file, stamp_column, stamp_text};
use crate::{Error, Result};

impl Times {
    /// Reads the time column of a CSV or Parquet file, which needs no other column; the stamps are put in order, each once.
    ///
    /// # Errors
    /// One line naming the file, the row and the cure, as [`Table::read`].
    pub fn read(path: &Path) -> Result<Self> {
        let raw = read_file(path, &ReadOptions::default())?;
        let no_times = |found: &str| {
            Err(raw.source.error(format_args!(
                "{found}; give one column of times under a header such as \"timestamps\", one row per step to come"
            )))
        };
        let Some((column, times)) = raw.times else {
            let names: Vec<&str> = raw.columns.iter().map(|column| column.name.as_str()).collect();
            return no_times(&format!("no column holds times (found {})", listed(&names)));
        };
        if stamp_text::read(&column).is_some() {
            return no_times(&format!("the first row is a time, {column:?}, and no header"));
        }
        let stamp_column::Times::Stamps { mut stamps, style, .. } = times else {
            return no_times(&format!("column {column:?} counts and does not date"));
        };
        stamps.sort_by_key(Stamp::nanoseconds);
        stamps.dedup_by_key(|stamp| stamp.nanoseconds());
        Ok(Self { column, stamps, style })
    }
}

impl Table {
    /// Takes the next steps from `future` instead of continuing the rhythm of the rows: those after the last row.
    ///
    /// # Errors
    /// A table without stamps, fewer than `horizon` times after its last row, or times with an offset from UTC where the
    /// table has none (or the other way round).
    pub fn with_future(mut self, future: &Times, horizon: usize) -> Result<Self> {
        let Some((times, last)) = self.times.as_ref().and_then(|times| Some((times, times.stamps.last()?))) else {
            return Err(Error::Data(format!(
                "{}: without a time column no row is before the times to come; name the time column with --time",
                self.name
            )));
        };
        if future.stamps.iter().any(|stamp| stamp.offset().is_some() != last.offset().is_some()) {
            return Err(Error::Data(format!(
                "{}: its times and those to come must both have an offset from UTC, or both none",
                self.name
            )));
        }
        let first = future.stamps.partition_point(|stamp| stamp.nanoseconds() <= last.nanoseconds());
        let coming = &future.stamps[first..];
        if coming.len() < horizon {
            return Err(Error::Data(format!(
                "{}: {} of the times to come are after its last row, {}, where the horizon is {horizon}; give one for each step",
                self.name,
                coming.len(),
                times.style.write(last)
            )));
        }
        self.given_future = Some(coming.to_vec());
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn times(text: &str) -> Result<Times> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("future.csv");
        fs::write(&path, text).unwrap();
        Times::read(&path)
    }

    fn table() -> Table {
        let text = "date,close\n2024-12-23,1\n2024-12-24,2\n";
        Table::from_reader("prices", text.as_bytes(), &ReadOptions::default()).unwrap()
    }

    #[test]
    fn holidays_are_heeded() {
        // Given out of order, with one day twice and one that is past.
        let future = times("date\n2024-12-30\n2024-12-24\n2024-12-27\n2024-12-27\n").unwrap();
        assert_eq!(table().future_text(2), ["2024-12-25", "2024-12-26"]);
        let table = table().with_future(&future, 2).unwrap();
        assert_eq!(table.future_text(2), ["2024-12-27", "2024-12-30"]);
        assert_eq!(table.future_text(1), ["2024-12-27"]);
    }

    #[test]
    fn the_file_may_hold_more_than_times() {
        let future = times("note,timestamps,closed\nx,2024-12-27,0\ny,2024-12-30,1\n").unwrap();
        assert_eq!((future.column.as_str(), future.stamps.len()), ("timestamps", 2));
    }

    #[test]
    fn what_is_no_future_is_refused() {
        for (text, words) in [
            ("a,b\n1,2\n3,5\n", "no column holds times (found \"a\", \"b\")"),
            ("2024-12-27\n2024-12-30\n", "the first row is a time"),
            ("time\n0\n1\n", "counts and does not date"),
            ("", "empty"),
            ("date\n2024-12-27\n2024-02-30\n", "row 3"),
        ] {
            let error = times(text).unwrap_err().to_string();
            assert!(error.contains("future.csv") && error.contains(words), "{text:?}: {error}");
        }
        let refuse = |text: &str, horizon| table().with_future(&times(text).unwrap(), horizon).unwrap_err().to_string();
        assert_eq!(
            refuse("date\n2024-12-24\n2024-12-27\n", 2),
            "prices: 1 of the times to come are after its last row, 2024-12-24, where the horizon is 2; give one for each step"
        );
        assert!(refuse("date\n2024-12-27T00:00Z\n", 1).contains("offset from UTC"));
        let untimed = Table::from_reader("x", "a\n1\n2\n".as_bytes(), &ReadOptions::default()).unwrap();
        let error = untimed.with_future(&times("date\n2024-12-27\n").unwrap(), 1).unwrap_err().to_string();
        assert!(error.contains("--time"), "{error}");
    }
}
