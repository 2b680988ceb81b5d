//! Reads Parquet tables, column by column: numbers, decimals, dates, time stamps and text.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};

use super::cell::Decimal;
use super::header::distinct;
use super::layout::{Candidate, Layout, Looks};
use super::notes::Notes;
use super::parquet_guard::guarded;
use super::parquet_kind::{Kind, Value, big_endian, int96};
use super::parquet_time::TimeCells;
use super::raw::{RawColumn, RawTable, Source};
use super::stamp_column::BadStamp;
use super::{MAX_COLUMNS, ReadOptions};
use crate::{Error, Result};

/// Rows that decide what a column looks like.
const SAMPLE_ROWS: usize = 64;
/// Rows decoded at a time.
const BATCH_ROWS: usize = 4096;

/// Reads a whole Parquet table.
pub(super) fn read(input: impl ChunkReader + 'static, source: Source, options: &ReadOptions) -> Result<RawTable> {
    let reader = guarded(|| SerializedFileReader::new(input)).map_err(|error| unreadable(&source, error))?;
    let metadata = reader.metadata();
    let schema = metadata.file_metadata().schema_descr();
    if schema.num_columns() > MAX_COLUMNS {
        return Err(source.error(format_args!("{} columns, at most {MAX_COLUMNS} are read", schema.num_columns())));
    }
    let kinds: Vec<Kind> = schema.columns().iter().map(|column| Kind::of(column)).collect();
    let mut notes = Notes::default();
    let names = distinct(schema.columns().iter().map(|column| column.path().string()).collect(), &mut notes);
    let row_counts = metadata.row_groups().iter().map(|group| usize::try_from(group.num_rows()).ok());
    let row_counts: Vec<usize> = row_counts.collect::<Option<_>>().ok_or_else(|| broken(&source))?;
    let total =
        row_counts.iter().try_fold(0_usize, |sum, &rows| sum.checked_add(rows)).ok_or_else(|| broken(&source))?;
    source.check_size(total, 1)?;

    let open = |index| guarded(|| reader.get_row_group(index)).map_err(|error| unreadable(&source, error));
    let mut candidates = Vec::with_capacity(names.len());
    for (index, (name, &kind)) in names.iter().zip(&kinds).enumerate() {
        let looks = match row_counts.first() {
            Some(&rows) => looks(&*open(0)?, index, kind, rows.min(SAMPLE_ROWS), &source)?,
            None => Looks::Empty,
        };
        candidates.push(Candidate { name: name.clone(), looks });
    }
    let mut layout = Layout::choose(&candidates, options, &source)?;
    notes.append(std::mem::take(&mut layout.notes));
    let requested = !options.columns.is_empty();
    let mut wanted = Vec::new();
    for &index in &layout.values {
        match kinds[index] {
            Kind::Days | Kind::Moments { .. } | Kind::Other if requested => {
                return Err(
                    source.error(format_args!("column {:?} holds no numbers; name a numeric column", names[index]))
                );
            }
            Kind::Other => notes.push_column("left out as no numbers", &names[index]),
            _ => wanted.push(index),
        }
    }
    source.check_size(total, wanted.len())?;

    let mut columns: Vec<RawColumn> = wanted.iter().map(|&index| RawColumn::new(names[index].clone())).collect();
    let mut times = layout.time.map(|(index, _)| (index, TimeCells::new(kinds[index])));
    let mut before = 0;
    for (group, &rows) in row_counts.iter().enumerate() {
        let group = open(group)?;
        if let Some((index, cells)) = &mut times {
            let mut problem = Ok(());
            each(&*group, *index, kinds[*index], rows, &source, |row, value| {
                if problem.is_ok() {
                    problem = cells.push(value, (before + row + 1) as u64);
                }
            })?;
            problem.map_err(|BadStamp { line, problem }| source.cell_error(line, &names[*index], problem))?;
        }
        for (column, &index) in columns.iter_mut().zip(&wanted) {
            each(&*group, index, kinds[index], rows, &source, |row, value| {
                let line = (before + row + 1) as u64;
                match value {
                    Value::Missing | Value::Nanoseconds(_) => column.push_number(f64::NAN, line),
                    Value::Number(value) => column.push_number(value, line),
                    Value::Whole(value) => column.push_number(value as f64, line),
                    Value::Text(text) => column.push_text(text, Decimal::Point, line),
                }
            })?;
        }
        before += rows;
    }
    let times = match times.filter(|_| total > 0) {
        None => None,
        Some((index, cells)) => {
            let bad = |BadStamp { line, problem }| source.cell_error(line, &names[index], problem);
            Some((names[index].clone(), cells.settle().map_err(bad)?))
        }
    };
    Ok(RawTable { source, columns, requested, times, rows: total, notes })
}

fn unreadable(source: &Source, error: ParquetError) -> Error {
    let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    source.error(format_args!(
        "the Parquet file cannot be read ({reason}); write it again with Snappy, or save the table as CSV"
    ))
}

fn broken(source: &Source) -> Error {
    source.error(
        "the Parquet file is broken: its row counts contradict each other; write it again, or save the table as CSV",
    )
}

/// What the first rows of a column look like.
fn looks(group: &dyn RowGroupReader, index: usize, kind: Kind, rows: usize, source: &Source) -> Result<Looks> {
    match kind {
        Kind::Days => return Ok(Looks::Dates { days: true }),
        Kind::Moments { .. } => return Ok(Looks::Dates { days: false }),
        Kind::Other => return Ok(Looks::Text),
        _ => {}
    }
    let mut cells = Vec::with_capacity(rows);
    each(group, index, kind, rows, source, |_, value| match value {
        Value::Number(value) => cells.push(value.to_string()),
        Value::Whole(value) => cells.push(value.to_string()),
        Value::Text(text) => cells.push(text.to_string()),
        Value::Missing | Value::Nanoseconds(_) => {}
    })?;
    Ok(match Looks::judge(cells.iter().map(String::as_str), Decimal::Point) {
        // Date and time of day in two columns are joined in text tables only.
        Looks::Clock => Looks::Text,
        looks => looks,
    })
}

/// Calls `sink` with each of the first `rows` values of a column.
fn each(
    group: &dyn RowGroupReader,
    index: usize,
    kind: Kind,
    rows: usize,
    source: &Source,
    mut sink: impl FnMut(usize, Value<'_>),
) -> Result<()> {
    if index >= group.num_columns() {
        return Err(broken(source));
    }
    let levels = group.metadata().column(index).column_descr().max_def_level();
    let column = guarded(|| group.get_column_reader(index)).map_err(|error| unreadable(source, error))?;
    let whole = |value: i64, bits: u32| match kind {
        Kind::Days => Value::Nanoseconds(i128::from(value) * 86_400_000_000_000),
        Kind::Moments { nanoseconds, .. } => Value::Nanoseconds(i128::from(value) * nanoseconds),
        // The bits of a negative number, read as unsigned.
        Kind::Whole { unsigned: true, divisor } if value < 0 && bits == 64 => {
            Value::Number(value as u64 as f64 / divisor)
        }
        Kind::Whole { unsigned: true, divisor } if value < 0 => Value::Number(value as u32 as f64 / divisor),
        Kind::Whole { divisor: 1.0, .. } => Value::Whole(value),
        Kind::Whole { divisor, .. } => Value::Number(value as f64 / divisor),
        _ => Value::Missing,
    };
    let bytes = |row: usize, value: Option<&[u8]>, sink: &mut dyn FnMut(usize, Value<'_>)| {
        let text;
        sink(
            row,
            match (kind, value) {
                (Kind::Half, Some(&[low, high])) => Value::Number(half::f16::from_le_bytes([low, high]).to_f64()),
                (Kind::BigEndian { divisor }, Some(value)) => {
                    big_endian(value).map_or(Value::Missing, |value| Value::Number(value as f64 / divisor))
                }
                (Kind::Text, Some(value)) => {
                    text = String::from_utf8_lossy(value);
                    Value::Text(&text)
                }
                _ => Value::Missing,
            },
        );
    };
    let read = match column {
        ColumnReader::Int32ColumnReader(column) => decode(column, levels, rows, |row, value| {
            sink(row, value.map_or(Value::Missing, |value| whole(i64::from(*value), 32)));
        }),
        ColumnReader::Int64ColumnReader(column) => decode(column, levels, rows, |row, value| {
            sink(row, value.map_or(Value::Missing, |value| whole(*value, 64)));
        }),
        ColumnReader::Int96ColumnReader(column) => decode(column, levels, rows, |row, value| {
            sink(row, value.map_or(Value::Missing, |value| Value::Nanoseconds(int96(value.data()))));
        }),
        ColumnReader::FloatColumnReader(column) => decode(column, levels, rows, |row, value| {
            sink(row, value.map_or(Value::Missing, |value| Value::Number(f64::from(*value))));
        }),
        ColumnReader::DoubleColumnReader(column) => decode(column, levels, rows, |row, value| {
            sink(row, value.map_or(Value::Missing, |value| Value::Number(*value)));
        }),
        ColumnReader::ByteArrayColumnReader(column) => {
            decode(column, levels, rows, |row, value| bytes(row, value.map(|value| value.data()), &mut sink))
        }
        ColumnReader::FixedLenByteArrayColumnReader(column) => {
            decode(column, levels, rows, |row, value| bytes(row, value.map(|value| value.data()), &mut sink))
        }
        ColumnReader::BoolColumnReader(_) => Ok(rows),
    };
    match read {
        Ok(read) if read == rows => Ok(()),
        Ok(_) => Err(broken(source)),
        Err(error) => Err(unreadable(source, error)),
    }
}

/// Decodes up to `rows` values of a flat column; a value that is not defined at the deepest level is `None`.
fn decode<T: DataType>(
    mut column: ColumnReaderImpl<T>,
    deepest: i16,
    rows: usize,
    mut sink: impl FnMut(usize, Option<&T::T>),
) -> Result<usize, ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let mut row = 0;
    while row < rows {
        values.clear();
        levels.clear();
        let batch = BATCH_ROWS.min(rows - row);
        let levels_wanted = (deepest > 0).then_some(&mut levels);
        let (records, _, _) = guarded(|| column.read_records(batch, levels_wanted, None, &mut values))?;
        if records == 0 {
            break;
        }
        let mut values = values.iter();
        for at in 0..records {
            let defined = deepest == 0 || levels.get(at) == Some(&deepest);
            sink(row + at, if defined { values.next() } else { None });
        }
        row += records;
    }
    Ok(row)
}
