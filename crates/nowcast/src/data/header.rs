//! Finds the names of the columns: a plain header, several header rows, a preamble before it, or none at all.

use std::collections::HashMap;

use super::cell::{self, Cell, Decimal};
use super::clock_text;
use super::notes::Notes;
use super::raw::Source;
use super::stamp_column::shown;
use super::stamp_text;
use crate::{Result, data::MAX_COLUMNS};

/// One record of a text table with the line it starts on.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) line: u64,
    pub(super) cells: Vec<String>,
}

/// What the first records say about the columns.
#[derive(Debug)]
pub(super) struct Header {
    /// Names, no two alike.
    pub(super) names: Vec<String>,
    /// Records before the first row of data.
    pub(super) records: usize,
    /// Remarks for the user.
    pub(super) notes: Notes,
}

/// The columns of an exchange's headerless candle archive.
const KLINE_NAMES: [&str; 12] = [
    "open_time",
    "open",
    "high",
    "low",
    "close",
    "volume",
    "close_time",
    "quote_volume",
    "trades",
    "taker_base",
    "taker_quote",
    "ignore",
];

/// Most header rows of one table (a download of several tickers has three).
const MOST_HEADER_ROWS: usize = 4;

impl Header {
    /// Looks at the first records of a file.
    ///
    /// # Errors
    /// No records, or too many columns.
    pub(super) fn find(records: &[Record], source: &Source) -> Result<Header> {
        let mut notes = Notes::default();
        let preamble = preamble(records);
        let Some(first) = records.get(preamble) else {
            return Err(source.error("the file is empty; give a table with a header and one row per time step"));
        };
        if preamble > 0 {
            notes.push(format!("{preamble} line(s) before the header are skipped"));
        }
        let width = first.cells.len();
        if width > MAX_COLUMNS {
            return Err(source.row_error(first.line, format_args!("{width} columns, at most {MAX_COLUMNS} are read")));
        }
        let body = &records[preamble..];
        let (names, rows) = if let Some(rows) = stacked_rows(body) {
            notes.push(format!("{rows} header rows are joined into one"));
            (stacked_names(&body[..rows]), rows)
        } else if is_data(first) {
            let names = unnamed(first);
            notes.push(format!("no header: columns are named {}", listed(&names)));
            (names, 0)
        } else {
            (first.cells.clone(), 1)
        };
        Ok(Header { names: distinct(names, &mut notes), records: preamble + rows, notes })
    }
}

/// Short lines before the table: a source address, a comment.
fn preamble(records: &[Record]) -> usize {
    let mut counts: Vec<usize> = records.iter().map(|record| record.cells.len()).collect();
    counts.sort_unstable();
    let usual = counts.chunk_by(|a, b| a == b).max_by_key(|run| run.len()).map_or(1, |run| run[0]);
    let is_remark = |record: &Record| {
        record.cells.len() != usual && (record.cells.len() == 1 || record.cells[0].trim_start().starts_with('#'))
    };
    records.iter().take_while(|record| usual > 1 && is_remark(record)).count()
}

/// Whether this record is data, not a header: every cell reads as a value and at least one as a number.
fn is_data(record: &Record) -> bool {
    let counts = |cells: &[String]| cells.iter().enumerate().all(|(index, cell)| cell.trim() == index.to_string());
    // pandas names unnamed columns 0, 1, 2, ..., perhaps behind an unnamed index.
    let numbered = record.cells.len() > 1
        && (counts(&record.cells) || (record.cells[0].trim().is_empty() && counts(&record.cells[1..])));
    let is_number = |cell: &String| {
        [Decimal::Point, Decimal::Comma].iter().any(|decimal| matches!(cell::read(cell, *decimal), Cell::Number(..)))
    };
    let is_value = |cell: &String| {
        is_number(cell)
            || cell::is_missing(cell)
            || stamp_text::read(cell).is_some()
            || clock_text::is_time_of_day(cell)
    };
    !numbered && record.cells.iter().all(is_value) && record.cells.iter().any(is_number)
}

/// How many header rows there are, if the last of them holds nothing but the name of the time column.
fn stacked_rows(records: &[Record]) -> Option<usize> {
    let last = records.iter().take(MOST_HEADER_ROWS).position(|record| {
        let [first, rest @ ..] = &record.cells[..] else { return false };
        !rest.is_empty()
            && rest.iter().all(|cell| cell.trim().is_empty())
            && matches!(plain(first).as_str(), "date" | "datetime" | "timestamp" | "time" | "index")
    })?;
    let whole = records[..last].iter().all(|record| record.cells.len() == records[last].cells.len());
    (last > 0 && whole && !records[..last].iter().any(is_data)).then_some(last + 1)
}

/// `AAPL Close`, or `Close` where all columns share the ticker.
fn stacked_names(rows: &[Record]) -> Vec<String> {
    let (last, levels) = rows.split_last().map_or((&[][..], &[][..]), |(last, levels)| (&last.cells[..], levels));
    let telling: Vec<&Record> = levels
        .iter()
        .filter(|level| levels.len() == 1 || level.cells.iter().skip(2).any(|cell| *cell != level.cells[1]))
        .collect();
    let telling = if telling.is_empty() { levels.iter().take(1).collect() } else { telling };
    let name = |column: usize| -> String {
        if column == 0 {
            return last[0].trim().to_string();
        }
        let parts: Vec<&str> = telling.iter().rev().map(|level| level.cells[column].trim()).collect();
        parts.join(" ").trim().to_string()
    };
    (0..last.len()).map(name).collect()
}

/// Names for a table without a header.
fn unnamed(first: &Record) -> Vec<String> {
    let epoch = |index: usize| first.cells.get(index).is_some_and(|cell| is_epoch(cell));
    if first.cells.len() == KLINE_NAMES.len() && epoch(0) && epoch(6) {
        return KLINE_NAMES.map(String::from).to_vec();
    }
    (1..=first.cells.len()).map(|number| format!("column_{number}")).collect()
}

/// Whether a cell is a whole number that dates a moment between 2001 and 2100 in seconds to nanoseconds.
pub(super) fn is_epoch(cell: &str) -> bool {
    let Some((stamp_text::Reading::Whole(value), _)) = stamp_text::read(cell) else { return false };
    [1, 1_000, 1_000_000, 1_000_000_000].iter().any(|unit| (1_000_000_000..4_102_444_800).contains(&(value / unit)))
}

/// A name as it is compared: lower-case letters and digits only.
pub(crate) fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Cleans the names and tells equal ones apart.
pub(super) fn distinct(names: Vec<String>, notes: &mut Notes) -> Vec<String> {
    // How often each name was met.
    let mut seen: HashMap<String, usize> = HashMap::new();
    let clean = |(index, name): (usize, &String)| {
        let name = name.trim().trim_start_matches('#').trim();
        let name = name.strip_prefix('<').and_then(|name| name.strip_suffix('>')).unwrap_or(name);
        // One line of message stays one line.
        let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
        if name.is_empty() && index > 0 { format!("column_{}", index + 1) } else { name }
    };
    let mut result = Vec::with_capacity(names.len());
    for name in names.iter().enumerate().map(clean) {
        let mut copies = seen.get(&name).copied().unwrap_or(0);
        let mut unique = name.clone();
        while seen.contains_key(&unique) {
            unique = format!("{name}.{copies}");
            copies += 1;
        }
        seen.insert(name.clone(), copies.max(1));
        if unique != name {
            notes.push_column("renamed, as the name occurs before", &unique);
            seen.insert(unique.clone(), 1);
        }
        result.push(unique);
    }
    result
}

/// Some names, quoted, for a message; not more than fit a line.
pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    const MOST: usize = 20;
    let mut text = names.iter().take(MOST).map(|name| shown(name.as_ref())).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text += &format!(" and {} more", names.len() - MOST);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(lines: &[&str]) -> Header {
        let records: Vec<Record> = lines
            .iter()
            .enumerate()
            .map(|(row, line)| Record { line: row as u64 + 1, cells: line.split(',').map(String::from).collect() })
            .collect();
        Header::find(&records, &Source("test.csv".into())).expect("a header")
    }

    #[test]
    fn a_plain_header() {
        let header = find(&["Date,Open,Adj Close", "2024-01-01,1,2"]);
        assert_eq!((header.names, header.records), (vec!["Date".into(), "Open".into(), "Adj Close".into()], 1));
        assert_eq!(header.notes, Notes::default());
    }

    #[test]
    fn header_rows_of_one_ticker_drop_it() {
        let header = find(&["Price,Close,High", "Ticker,AAPL,AAPL", "Date,,", "2024-01-02,1,2"]);
        assert_eq!((header.names, header.records), (vec!["Date".into(), "Close".into(), "High".into()], 3));
    }

    #[test]
    fn header_rows_of_several_tickers_keep_them() {
        let header = find(&["Price,Close,Close,Volume", "Ticker,AAPL,MSFT,AAPL", "Date,,,", "2024-01-02,1,2,3"]);
        assert_eq!((header.names.join("|").as_str(), header.records), ("Date|AAPL Close|MSFT Close|AAPL Volume", 3));
        // What is the same for all columns tells nothing.
        assert_eq!(find(&[",Close,Close", ",AAPL,MSFT", "Date,,", "2024-01-02,1,2"]).names, ["Date", "AAPL", "MSFT"]);
    }

    #[test]
    fn a_single_price_column_keeps_its_name() {
        assert_eq!(find(&["Price,Close", "Ticker,AAPL", "Date,", "2024-01-02,1"]).names, ["Date", "Close"]);
    }

    #[test]
    fn lines_before_the_header_are_skipped() {
        let header = find(&["https://example.org", "date,close", "2024-01-01,1", "2024-01-02,1"]);
        assert_eq!((header.names, header.records), (vec!["date".into(), "close".into()], 2));
    }

    #[test]
    fn no_header() {
        let header = find(&["2024-01-01,1.5,2", "2024-01-02,1.5,2"]);
        assert_eq!((header.names.join(" "), header.records), ("column_1 column_2 column_3".into(), 0));
        let kline = "1704067200000,42283.58,42554.57,42261.02,42475.23,1271.68,1704070799999,53957248.9,47134,682.5,28957416.8,0";
        assert_eq!(find(&[kline]).names, KLINE_NAMES);
    }

    #[test]
    fn numbers_counted_from_zero_are_a_header() {
        assert_eq!(find(&["0,1,2", "1.5,2.5,3.5"]).records, 1);
        assert_eq!(find(&[",0,1", "2024-01-01,2.5,3.5"]).records, 1);
    }

    #[test]
    fn odd_names_are_cleaned_and_told_apart() {
        let header = find(&["<DATE>, <OPEN> ,x,x,", "2024.01.01,1,2,3,4"]);
        assert_eq!(header.names, ["DATE", "OPEN", "x", "x.1", "column_5"]);
        assert_eq!(header.notes.into_lines(), ["renamed, as the name occurs before: \"x.1\""]);
    }
}
