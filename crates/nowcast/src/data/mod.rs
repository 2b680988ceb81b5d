//! Tables as they come: CSV and Parquet files with whatever header, order, gaps and date style they have.
//!
//! [`Table::read`] takes a file without preparation. It finds the time column and the numeric columns, puts the rows
//! in order of time, and says in [`Table::notes`] what it had to do. Missing values stay missing (NaN, masked in a
//! [`Series`]); nothing is invented. Raw and adjusted prices (`Close`, `Adj Close`) are separate columns and never mixed.
//!
//! ```
//! use nowcast::data::{ReadOptions, Table};
//!
//! let file = "Date,Close,Adj Close\n2024-01-03,3,1.5\n2024-01-02,null,1\n";
//! let table = Table::from_reader("prices", file.as_bytes(), &ReadOptions::default())?;
//! assert_eq!(table.stamps_text(), ["2024-01-02", "2024-01-03"]);
//! assert_eq!(table.columns[1].values, [1.0, 1.5]);
//! assert_eq!(table.future_text(1), ["2024-01-04"]);
//! # Ok::<(), nowcast::Error>(())
//! ```

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use crate::series::Series;
use crate::{Error, Result};

mod arrange;
mod cell;
mod clock_text;
mod csv_read;
mod dialect;
mod epoch;
mod frequency;
mod future;
mod header;
mod layout;
mod lines;
mod notes;
#[cfg(feature = "parquet")]
mod parquet_guard;
#[cfg(feature = "parquet")]
mod parquet_kind;
#[cfg(feature = "parquet")]
mod parquet_read;
#[cfg(feature = "parquet")]
mod parquet_time;
#[cfg(feature = "parquet")]
mod parquet_write;
mod raw;
mod scan;
mod sessions;
mod stamp;
mod stamp_column;
mod stamp_text;

pub use frequency::{Frequency, MonthDay, Weekdays};
#[cfg(feature = "parquet")]
pub use parquet_write::{ParquetColumn, ParquetValues, write_parquet};
pub use sessions::Sessions;
pub use stamp::{Precision, Stamp, Style, Zone};

pub(crate) use header::{listed, plain};
use raw::Source;

/// Most rows of one table.
pub const MAX_ROWS: usize = 50_000_000;
/// Most columns of one table.
pub const MAX_COLUMNS: usize = 10_000;
/// Most cells kept of one table: 3.2 GB.
const MAX_CELLS: usize = 400_000_000;

/// The first bytes of every Parquet file.
const PARQUET: &[u8] = b"PAR1";
/// Most bytes of a Parquet table that does not come from a file.
#[cfg(feature = "parquet")]
const MAX_IN_MEMORY: u64 = 4 << 30;

/// What to read of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The time column; without it the column is found by its name (`Date`, `timestamp`, `ds`, ...) or its contents.
    pub time: Option<String>,
    /// The value columns, in the order wanted; empty means every numeric column. Exact names first, then any case.
    pub columns: Vec<String>,
    /// Inserts rows of missing values where the rhythm of the stamps leaves steps out. Without it rows are taken as
    /// they come: trading days follow each other as if there were no night between them.
    pub fill_gaps: bool,
}

/// A numeric column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The name in the file.
    pub name: String,
    /// One value for each row; NaN where it is missing.
    pub values: Vec<f64>,
}

/// The stamps of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// Name of the time column.
    pub column: String,
    /// One for each row, ascending, no two alike.
    pub stamps: Vec<Stamp>,
    /// How they are written.
    pub style: Style,
}

/// A table of numbers in order of time.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Table {
    /// The file name without folder and extension.
    pub name: String,
    /// The stamps; `None` if the file has none, and rows count as steps.
    pub times: Option<Times>,
    /// The numeric columns, all of the same length.
    pub columns: Vec<Column>,
    /// What was done to the file and what was left out, one remark each.
    pub notes: Vec<String>,
    /// The rhythm of the rows.
    pub frequency: Frequency,
    /// The steps to come, where somebody told them.
    given_future: Option<Vec<Stamp>>,
}

impl Table {
    /// Reads a CSV or Parquet file; `-` is standard input.
    ///
    /// # Errors
    /// One line naming the file, the row (its line in the file), the column, and the cure.
    pub fn read(path: &Path, options: &ReadOptions) -> Result<Table> {
        if path == Path::new("-") {
            return Self::from_reader("stdin", std::io::stdin().lock(), options);
        }
        let name = path.file_stem().map_or_else(|| "table".into(), |stem| stem.to_string_lossy().into_owned());
        arrange::arrange(read_file(path, options)?, name, options)
    }

    /// Reads a CSV or Parquet table from any source; `name` stands for the file in names and messages. Parquet is read
    /// from its end and therefore held in memory whole.
    ///
    /// # Errors
    /// As [`Table::read`].
    pub fn from_reader(name: &str, reader: impl Read, options: &ReadOptions) -> Result<Table> {
        let source = Source(name.to_string());
        let (start, reader) = magic(reader).map_err(|error| Error::file(name, error))?;
        let raw = if start == PARQUET {
            read_parquet_from_memory(start.as_slice().chain(reader), source, options)?
        } else {
            csv_read::read(start.as_slice().chain(reader), source, options)?
        };
        arrange::arrange(raw, name.to_string(), options)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// The stamps as text in the style of the file; step numbers from 0 where the file has none.
    pub fn stamps_text(&self) -> Vec<String> {
        match &self.times {
            Some(times) => times.stamps.iter().map(|stamp| times.style.write(stamp)).collect(),
            None => (0..self.rows()).map(|row| row.to_string()).collect(),
        }
    }

    /// The stamps of the next steps; `None` if the file has no stamps, or too few or too late ones to go on.
    pub fn future(&self, horizon: usize) -> Option<Vec<Stamp>> {
        if let Some(given) = &self.given_future {
            return given.get(..horizon).map(<[Stamp]>::to_vec);
        }
        let times = self.times.as_ref()?;
        self.frequency.future(*times.stamps.last()?, times.style.time_zone(), horizon)
    }

    /// The stamps of the next steps as text in the style of the file; step numbers where [`Table::future`] has none.
    pub fn future_text(&self, horizon: usize) -> Vec<String> {
        match (&self.times, self.future(horizon)) {
            (Some(times), Some(stamps)) => stamps.iter().map(|stamp| times.style.write(stamp)).collect(),
            _ => (self.rows()..self.rows().saturating_add(horizon)).map(|row| row.to_string()).collect(),
        }
    }

    /// Each column as its own series, named `<table>/<column>`.
    ///
    /// # Errors
    /// A table without rows.
    pub fn series(&self) -> Result<Vec<Series>> {
        self.columns.iter().map(|column| Series::new(self.series_name(column), column.narrowed())).collect()
    }

    /// All columns as variates of one series that may attend to each other. Raw and adjusted prices both take part;
    /// name the columns to choose.
    ///
    /// # Errors
    /// A table without columns or rows.
    pub fn multivariate(&self) -> Result<Series> {
        Series::multivariate(self.columns.iter().map(|column| (self.series_name(column), column.narrowed())).collect())
    }

    fn series_name(&self, column: &Column) -> String {
        format!("{}/{}", self.name, column.name)
    }
}

impl Column {
    /// The values as a model takes them; reading made sure that all fit.
    fn narrowed(&self) -> Vec<f32> {
        self.values.iter().map(|&value| value as f32).collect()
    }
}

/// Reads a file as it is.
fn read_file(path: &Path, options: &ReadOptions) -> Result<raw::RawTable> {
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    let source = Source(path.display().to_string());
    let (start, mut file) = magic(file).map_err(|error| Error::file(path, error))?;
    if start == PARQUET {
        file.rewind().map_err(|error| Error::file(path, error))?;
        read_parquet(file, source, options)
    } else {
        csv_read::read(start.as_slice().chain(file), source, options)
    }
}

/// The first four bytes of a file (fewer if it is shorter), and the file behind them.
fn magic<R: Read>(mut reader: R) -> io::Result<(Vec<u8>, R)> {
    let mut start = Vec::with_capacity(PARQUET.len());
    reader.by_ref().take(PARQUET.len() as u64).read_to_end(&mut start)?;
    Ok((start, reader))
}

#[cfg(feature = "parquet")]
fn read_parquet(file: File, source: Source, options: &ReadOptions) -> Result<raw::RawTable> {
    parquet_read::read(file, source, options)
}

#[cfg(feature = "parquet")]
fn read_parquet_from_memory(mut reader: impl Read, source: Source, options: &ReadOptions) -> Result<raw::RawTable> {
    let mut bytes = Vec::new();
    let read = reader.by_ref().take(MAX_IN_MEMORY + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::file(&source.0, error))?;
    if bytes.len() as u64 > MAX_IN_MEMORY {
        return Err(source.error("more than 4 GiB of Parquet on standard input; give the name of the file"));
    }
    parquet_read::read(bytes::Bytes::from(bytes), source, options)
}

#[cfg(not(feature = "parquet"))]
fn read_parquet(_: impl Read, source: Source, _: &ReadOptions) -> Result<raw::RawTable> {
    Err(source.error("this is a Parquet file, and Parquet is not built in; save the table as CSV"))
}

#[cfg(not(feature = "parquet"))]
use read_parquet as read_parquet_from_memory;
