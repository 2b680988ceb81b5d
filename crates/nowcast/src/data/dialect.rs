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

/// The separator that splits most of the first lines into the same number of cells.
pub(super) fn sniff_delimiter(sample: &[u8]) -> u8 {
    const LINES: usize = 20;
    let lines: Vec<&[u8]> =
        sample.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(LINES).collect();
    let score = |delimiter: u8| {
        let counts = lines.iter().map(|line| count_outside_quotes(line, delimiter));
        let mut counts: Vec<usize> = counts.filter(|&count| count > 0).collect();
        counts.sort_unstable();
        let agree = counts.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or(0);
        // A header decides: it has no decimal commas.
        let in_header = lines.first().is_some_and(|line| count_outside_quotes(line, delimiter) > 0);
        if in_header { agree + LINES } else { agree }
    };
    // Of equals the last wins; without any separator the table has one column.
    let best = [b'|', b',', b'\t', b';'].into_iter().max_by_key(|&delimiter| score(delimiter));
    best.filter(|&delimiter| score(delimiter) > 0).unwrap_or(b',')
}

fn count_outside_quotes(line: &[u8], delimiter: u8) -> usize {
    let mut quoted = false;
    let outside = line.iter().filter(|&&byte| {
        quoted ^= byte == b'"';
        byte == delimiter && !quoted
    });
    outside.count()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_separator_is_found() {
        for (text, delimiter) in [
            ("date,open,close\n2024-01-01,1,2\n", b','),
            ("date;open;close\n2024-01-01;1,5;2,5\n2024-01-01;1,5;2,5\n", b';'),
            ("2024-01-01;1,5\n2024-01-02;2,5\n", b';'),
            ("date\tnote, long\n2024-01-01\ta\n", b'\t'),
            ("date|close\n2024-01-01|1\n", b'|'),
            ("\"a;b\",c\n1,2\n", b','),
            ("# made by hand\ndate,close\n2024-01-01,1\n", b','),
            ("y\n1\n", b','),
            ("", b','),
        ] {
            assert_eq!(char::from(sniff_delimiter(text.as_bytes())), char::from(delimiter), "{text:?}");
        }
    }
}
