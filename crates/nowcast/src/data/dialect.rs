//! How a text table is written: what stands between cells, and before the fraction of a number.

use super::cell::{self, Decimal};
use super::header::Record;
use super::raw::Source;
use crate::Result;

/// Refuses what is plainly no text table.
pub(super) fn refuse_other_formats(sample: &[u8], source: &Source) -> Result<()> {
    let starts = |magic: &[u8]| sample.starts_with(magic);
    let problem = if starts(b"PK\x03\x04") || starts(b"\xd0\xcf\x11\xe0") {
        "this is a spreadsheet or zip archive; save the table as CSV or Parquet"
    } else if starts(b"\x1f\x8b") || starts(b"\x28\xb5\x2f\xfd") || starts(b"BZh") || starts(b"\xfd7zXZ") {
        "the file is compressed; unpack it first"
    } else if starts(b"\xff\xfe") || starts(b"\xfe\xff") {
        "the text is UTF-16; save the file as UTF-8"
    } else if sample.contains(&0) {
        "the file is not text; give a CSV or Parquet table"
    } else if sample.is_empty() {
        "the file is empty; give a table with a header and one row per time step"
    } else {
        return Ok(());
    };
    Err(source.error(problem))
}

/// The separator that splits most of the first lines into as many cells as its best line, and more than one.
pub(super) fn sniff_delimiter(sample: &[u8]) -> u8 {
    const LINES: usize = 20;
    let lines: Vec<&[u8]> =
        sample.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(LINES).collect();
    let count = |line: &[u8], delimiter: u8| {
        let mut quoted = false;
        let outside = line.iter().filter(|&&byte| {
            quoted ^= byte == b'"';
            byte == delimiter && !quoted
        });
        outside.count()
    };
    let score = |delimiter: u8| {
        let mut counts: Vec<usize> = lines.iter().map(|line| count(line, delimiter)).filter(|&n| n > 0).collect();
        counts.sort_unstable();
        // Lines that agree; then whether the first line takes part: a decimal comma is absent from a header.
        let agree = counts.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or(0);
        let first = lines.first().is_some_and(|line| count(line, delimiter) > 0);
        (agree + usize::from(first && agree > 0) * LINES, counts.last().copied().unwrap_or(0))
    };
    // The last of equals wins: a semicolon or tab beats the decimal comma inside its cells.
    [b'|', b',', b'\t', b';']
        .into_iter()
        .max_by_key(|&delimiter| score(delimiter).0)
        .filter(|&d| score(d).0 > 0)
        .unwrap_or(b',')
}

/// Which decimal separator the file uses. Only tables with semicolons may use a comma, and then the first cell that
/// proves one decides for the whole file.
pub(super) struct NumberStyle {
    settled: Option<Decimal>,
}

impl NumberStyle {
    pub(super) fn new(delimiter: u8, body: &[Record]) -> Self {
        if delimiter != b';' {
            return Self { settled: Some(Decimal::Point) };
        }
        let cells = || body.iter().flat_map(|record| &record.cells).map(String::as_str);
        Self { settled: cells().find_map(cell::proves).or_else(|| cells().find_map(cell::suggests)) }
    }

    pub(super) fn decimal(&self) -> Decimal {
        self.settled.unwrap_or(Decimal::Comma)
    }

    /// The separator to read this cell with.
    pub(super) fn for_cell(&mut self, text: &str) -> Decimal {
        if self.settled.is_none() {
            self.settled = cell::proves(text).or_else(|| cell::suggests(text));
        }
        self.decimal()
    }
}
