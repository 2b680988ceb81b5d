//! Reads text tables: comma, semicolon, tab or bar between the cells, whatever the header looks like.

use std::io::{Cursor, Read};

use csv::ByteRecord;

use super::cell;
use super::dialect::{NumberStyle, refuse_other_formats, sniff_delimiter};
use super::header::{Header, Record};
use super::layout::{Candidate, Layout, Looks};
use super::lines::{Lines, RecordTooLong};
use super::notes::Notes;
use super::raw::{RawColumn, RawTable, Source};
use super::stamp_column::{BadStamp, StampColumn};
use super::{MAX_COLUMNS, ReadOptions};
use crate::{Error, Result};

/// Bytes that decide on the separator.
const SAMPLE_BYTES: usize = 64 << 10;
/// Records that decide on header, time column and decimal separator.
const SAMPLE_RECORDS: usize = 64;
/// Bytes of records after which no more are taken as a sample: rows may be very long.
const MOST_SAMPLED: usize = 1 << 20;

/// Reads a whole text table.
pub(super) fn read(reader: impl Read, source: Source, options: &ReadOptions) -> Result<RawTable> {
    let mut lines = Lines::new(reader);
    let since_record = lines.since_record();
    let mut sample = Vec::new();
    let taken = lines.by_ref().take(SAMPLE_BYTES as u64).read_to_end(&mut sample);
    taken.map_err(|error| Error::file(&source.0, error))?;
    refuse_other_formats(&sample, &source)?;
    let sample = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&sample);
    let delimiter = sniff_delimiter(sample);
    let mut records = Records {
        reader: csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .terminator(csv::Terminator::Any(b'\n'))
            .buffer_capacity(SAMPLE_BYTES)
            .from_reader(Cursor::new(sample.to_vec()).chain(lines)),
        reset: Box::new(move || since_record.set(0)),
        source: source.clone(),
        record: ByteRecord::new(),
    };

    let (mut first, mut raw, mut bytes) = (Vec::new(), Vec::new(), 0);
    while first.len() < SAMPLE_RECORDS && bytes < MOST_SAMPLED {
        let Some(line) = records.next()? else { break };
        bytes += records.record.as_slice().len();
        // A header far too wide is refused before it is copied.
        let cells = records.record.iter().take(MAX_COLUMNS + 1).map(|cell| String::from_utf8_lossy(cell).into_owned());
        first.push(Record { line, cells: cells.collect() });
        raw.push(records.record.clone());
    }
    let mut header = Header::find(&first, &source)?;
    let body = &first[header.records..];
    let mut numbers = NumberStyle::new(delimiter, body);
    let candidates: Vec<Candidate> = header
        .names
        .iter()
        .enumerate()
        .map(|(column, name)| Candidate {
            name: name.clone(),
            looks: Looks::judge(
                body.iter().filter_map(|record| record.cells.get(column)).map(String::as_str),
                numbers.decimal(),
            ),
        })
        .collect();
    let mut layout = Layout::choose(&candidates, options, &source)?;
    let mut notes = std::mem::take(&mut header.notes);
    notes.append(std::mem::take(&mut layout.notes));

    let mut filler = Filler::new(&source, &header, &layout);
    for (record, raw) in first.iter().zip(&raw).skip(header.records) {
        filler.push(record.line, raw, &mut numbers)?;
    }
    while let Some(line) = records.next()? {
        filler.push(line, &records.record, &mut numbers)?;
    }
    filler.finish(notes, !options.columns.is_empty())
}

/// Records of the file, each with the line it starts on.
struct Records<R> {
    reader: csv::Reader<R>,
    reset: Box<dyn Fn()>,
    source: Source,
    record: ByteRecord,
}

impl<R: Read> Records<R> {
    /// Reads the next record; its first line, counted from 1, or `None` at the end.
    fn next(&mut self) -> Result<Option<u64>> {
        let before = self.reader.position().line();
        match self.reader.read_byte_record(&mut self.record) {
            Ok(true) => {
                (self.reset)();
                // Blank lines before a record are skipped silently, so its place is counted from its end.
                let inner = self.record.as_slice().iter().filter(|&&byte| byte == b'\n').count() as u64;
                let after = self.reader.position().line();
                Ok(Some(after.saturating_sub(1 + inner).max(before)))
            }
            Ok(false) => Ok(None),
            Err(error) => Err(match error.into_kind() {
                csv::ErrorKind::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<RecordTooLong>()) => {
                    self.source.row_error(before, "the row does not end within 16 MiB; close the quote it opens")
                }
                csv::ErrorKind::Io(error) => Error::file(&self.source.0, error),
                _ => self.source.row_error(before, "the row cannot be read; save the file as plain CSV in UTF-8"),
            }),
        }
    }
}

/// Puts the cells of each row where they belong.
struct Filler<'a> {
    source: &'a Source,
    header: &'a Header,
    layout: &'a Layout,
    stamps: StampColumn,
    columns: Vec<RawColumn>,
    rows: usize,
    blank_rows: usize,
    joined: String,
}

impl<'a> Filler<'a> {
    fn new(source: &'a Source, header: &'a Header, layout: &'a Layout) -> Self {
        let columns = layout.values.iter().map(|&column| RawColumn::new(header.names[column].clone())).collect();
        let (stamps, joined) = (StampColumn::default(), String::new());
        Self { source, header, layout, stamps, columns, rows: 0, blank_rows: 0, joined }
    }

    fn push(&mut self, line: u64, record: &ByteRecord, numbers: &mut NumberStyle) -> Result<()> {
        let is_blank = |cell: &[u8]| cell.trim_ascii().is_empty();
        if record.iter().all(is_blank) {
            self.blank_rows += 1;
            return Ok(());
        }
        let width = self.header.names.len();
        if record.len() < width || !record.iter().skip(width).all(is_blank) {
            return Err(self.ragged(line, record));
        }
        self.source.check_size(self.rows + 1, self.columns.len().max(1))?;
        if let Some((date, clock)) = self.layout.time {
            let clock = clock.map(|clock| String::from_utf8_lossy(&record[clock]));
            self.push_stamp(line, &String::from_utf8_lossy(&record[date]), clock.as_deref(), date)?;
        }
        for (column, &index) in self.columns.iter_mut().zip(&self.layout.values) {
            let text = String::from_utf8_lossy(&record[index]);
            column.push_text(&text, numbers.for_cell(&text), line);
        }
        self.rows += 1;
        Ok(())
    }

    fn push_stamp(&mut self, line: u64, date: &str, clock: Option<&str>, column: usize) -> Result<()> {
        let name = &self.header.names[column];
        if cell::is_missing(date) {
            return Err(self.source.cell_error(
                line,
                name,
                "the row has no time; fill it in, delete the row, or name another time column",
            ));
        }
        let result = match clock.filter(|clock| !cell::is_missing(clock)) {
            None => self.stamps.push(date, line),
            Some(clock) => {
                self.joined.clear();
                self.joined.extend([date.trim(), " ", clock.trim()]);
                self.stamps.push(&self.joined, line)
            }
        };
        result.map_err(|BadStamp { line, problem }| self.source.cell_error(line, name, problem))
    }

    fn ragged(&self, line: u64, record: &ByteRecord) -> Error {
        let (found, width) = (record.len(), self.header.names.len());
        let plural = if found == 1 { "" } else { "s" };
        let cure = if record.as_slice().contains(&b'\n') {
            "close the quote that runs over several lines"
        } else if found > width {
            "put quotes around cells that contain the separator, or name every column in the header"
        } else {
            "complete the row or delete it"
        };
        self.source.row_error(line, format_args!("{found} cell{plural} where the header has {width}; {cure}"))
    }

    fn finish(self, mut notes: Notes, requested: bool) -> Result<RawTable> {
        if self.blank_rows > 0 {
            notes.push(format!("{} blank row(s) are skipped", self.blank_rows));
        }
        let name = |column: usize| self.header.names[column].clone();
        let times = match self.layout.time.filter(|_| self.stamps.len() > 0) {
            None => None,
            Some((date, _)) => {
                let times = self.stamps.settle();
                let bad = |BadStamp { line, problem }| self.source.cell_error(line, &name(date), problem);
                Some((name(date), times.map_err(bad)?))
            }
        };
        Ok(RawTable { source: self.source.clone(), columns: self.columns, requested, times, rows: self.rows, notes })
    }
}
