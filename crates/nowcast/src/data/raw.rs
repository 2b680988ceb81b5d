//! A table while it is read: columns that may still turn out to be text, stamps in the order of the file.

use super::cell::{self, Cell, Decimal, Dressing};
use super::notes::Notes;
use super::stamp_column::{Times, shown};
use super::{MAX_CELLS, MAX_ROWS};
use crate::{Error, Result};

/// Everything read from a file, not yet judged, sorted or cleared of duplicates.
#[derive(Debug)]
pub(super) struct RawTable {
    pub(super) source: Source,
    pub(super) columns: Vec<RawColumn>,
    /// Whether the user named the columns: then what is wrong with one is an error, else a note.
    pub(super) requested: bool,
    /// Name and contents of the time column.
    pub(super) times: Option<(String, Times)>,
    pub(super) rows: usize,
    pub(super) notes: Notes,
}

/// How messages name the file, and how they name a place in it.
#[derive(Debug, Clone)]
pub(super) struct Source(pub(super) String);

impl Source {
    /// Something is wrong with the file as a whole.
    pub(super) fn error(&self, problem: impl std::fmt::Display) -> Error {
        Error::Data(format!("{}: {problem}", self.0))
    }

    /// Something is wrong with one row.
    pub(super) fn row_error(&self, line: u64, problem: impl std::fmt::Display) -> Error {
        Error::Data(format!("{}: row {line}: {problem}", self.0))
    }

    /// Something is wrong with one cell.
    pub(super) fn cell_error(&self, line: u64, column: &str, problem: impl std::fmt::Display) -> Error {
        Error::Data(format!("{}: row {line}, column {}: {problem}", self.0, shown(column)))
    }

    /// Refuses more than any forecast could use, before memory runs out.
    pub(super) fn check_size(&self, rows: usize, columns: usize) -> Result<()> {
        if rows > MAX_ROWS {
            return Err(self.error(format_args!("more than {MAX_ROWS} rows; split the file or keep its newest rows")));
        }
        if rows.saturating_mul(columns) > MAX_CELLS {
            return Err(self.error(format_args!(
                "more than {MAX_CELLS} cells in {columns} columns; name the columns to forecast, or split the file"
            )));
        }
        Ok(())
    }
}

/// One column while it is read.
#[derive(Debug, Default)]
pub(super) struct RawColumn {
    pub(super) name: String,
    /// Numbers; NaN where missing or text.
    pub(super) values: Vec<f64>,
    numbers: usize,
    texts: usize,
    first_text: Option<(u64, String)>,
    /// Not all texts are the same: perhaps a name of a series.
    pub(super) texts_vary: bool,
    first_unfit: Option<(u64, String)>,
    dressing: Dressing,
}

impl RawColumn {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Adds a cell of a text table.
    pub(super) fn push_text(&mut self, text: &str, decimal: Decimal, line: u64) {
        match cell::read(text, decimal) {
            Cell::Missing => self.values.push(f64::NAN),
            Cell::Text => {
                self.texts += 1;
                self.values.push(f64::NAN);
                match &self.first_text {
                    None => self.first_text = Some((line, text.trim().to_string())),
                    Some((_, first)) => self.texts_vary |= first != text.trim(),
                }
            }
            Cell::Number(value, dressing) => {
                let all = &mut self.dressing;
                all.thousands |= dressing.thousands;
                all.currency |= dressing.currency;
                all.percent |= dressing.percent;
                all.suffix |= dressing.suffix;
                self.push_checked(value, line, || text.trim().to_string());
            }
        }
    }

    /// Adds a number; NaN is a missing value.
    #[cfg(feature = "parquet")]
    pub(super) fn push_number(&mut self, value: f64, line: u64) {
        if value.is_nan() {
            self.values.push(f64::NAN);
        } else {
            self.push_checked(value, line, || value.to_string());
        }
    }

    fn push_checked(&mut self, value: f64, line: u64, text: impl FnOnce() -> String) {
        self.numbers += 1;
        // Comparing in f64: what rounds to f32::MAX still fits.
        if value.abs() > f64::from(f32::MAX) && self.first_unfit.is_none() {
            self.first_unfit = Some((line, text()));
        }
        self.values.push(value);
    }

    /// Judges the finished column: `Some` values if it is numeric, `None` with a note if it can be left out.
    pub(super) fn judge(self, source: &Source, requested: bool, notes: &mut Notes) -> Result<Option<Self>> {
        let name = &self.name;
        if let Some((line, text)) = &self.first_text {
            let is_text = self.numbers == 0 || (!requested && self.texts > self.numbers);
            if !is_text {
                let cure = if text.contains('\n') {
                    "close the quote that runs over several lines"
                } else {
                    "correct it, or leave the cell empty if the value is missing"
                };
                return Err(source.cell_error(*line, name, format_args!("{} is not a number; {cure}", shown(text))));
            }
            if requested {
                return Err(source.cell_error(
                    *line,
                    name,
                    format_args!("{} is text, and so is the column; name a numeric column", shown(text)),
                ));
            }
            notes.push_column("left out as text", name);
            return Ok(None);
        }
        if self.numbers == 0 {
            if requested {
                return Err(source
                    .error(format_args!("column {name:?} has no value in any row; name another column or fill it")));
            }
            notes.push_column("left out as empty", name);
            return Ok(None);
        }
        if let Some((line, text)) = &self.first_unfit {
            return Err(source.cell_error(
                *line,
                name,
                format_args!(
                    "{} is beyond what a 32-bit number holds (3.4e38); rescale the column, or leave the cell empty if the value is missing",
                    shown(text)
                ),
            ));
        }
        let dressing = self.dressing;
        for (used, what) in [
            (dressing.thousands, "thousands separators taken off"),
            (dressing.currency, "currency signs taken off"),
            (dressing.percent, "percent signs taken off (5% reads as 5)"),
            (dressing.suffix, "K, M, B, T read as thousand, million, billion, trillion"),
        ] {
            if used {
                notes.push_column(what, name);
            }
        }
        Ok(Some(self))
    }
}
