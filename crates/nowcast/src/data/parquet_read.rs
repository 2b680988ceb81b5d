//! Reads Parquet tables, column by column: numbers, decimals, dates, time stamps and text.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::cell::Decimal;
use super::header::distinct;
use super::layout::{Candidate, Layout, Looks};
use super::raw::{RawColumn, RawTable, Source};
use super::stamp::{Precision, Stamp, Style, Zone};
use super::stamp_column::{BadStamp, StampColumn, Times, epoch_stamp};
use super::{MAX_COLUMNS, ReadOptions};
use crate::{Error, Result};

/// Rows that decide what a column looks like.
const SAMPLE_ROWS: usize = 64;
/// Rows decoded at a time.
const BATCH_ROWS: usize = 4096;

/// What the values of a column mean.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Whole numbers; those of decimals are to be divided.
    Whole { unsigned: bool, divisor: f64 },
    /// Floating point numbers.
    Real,
    /// Two bytes of IEEE 754 half precision.
    Half,
    /// A decimal as big-endian bytes.
    BigEndian { divisor: f64 },
    /// Days since 1970.
    Days,
    /// So many nanoseconds each since 1970; by the clock of nowhere in particular, or UTC.
    Moments { nanoseconds: i128, utc: bool },
    /// UTF-8.
    Text,
    /// Lists, intervals, truth values and whatever else no forecast is made of.
    Other,
}

/// One value.
enum Value<'a> {
    Missing,
    Number(f64),
    Whole(i64),
    Nanoseconds(i128),
    Text(&'a str),
}

/// Reads a whole Parquet table.
pub(super) fn read(input: impl ChunkReader + 'static, source: Source, options: &ReadOptions) -> Result<RawTable> {
    let reader = SerializedFileReader::new(input).map_err(|error| unreadable(&source, error))?;
    let metadata = reader.metadata();
    let schema = metadata.file_metadata().schema_descr();
    if schema.num_columns() > MAX_COLUMNS {
        return Err(source.error(format_args!("{} columns, at most {MAX_COLUMNS} are read", schema.num_columns())));
    }
    let kinds: Vec<Kind> = schema.columns().iter().map(|column| Kind::of(column)).collect();
    let mut notes = Vec::new();
    let names = distinct(schema.columns().iter().map(|column| column.path().string()).collect(), &mut notes);
    let row_counts = metadata.row_groups().iter().map(|group| usize::try_from(group.num_rows()).ok());
    let row_counts: Vec<usize> = row_counts.collect::<Option<_>>().ok_or_else(|| broken(&source))?;
    let total =
        row_counts.iter().try_fold(0_usize, |sum, &rows| sum.checked_add(rows)).ok_or_else(|| broken(&source))?;
    source.check_size(total, 1)?;

    let open = |index| reader.get_row_group(index).map_err(|error| unreadable(&source, error));
    let mut candidates = Vec::with_capacity(names.len());
    for (index, (name, &kind)) in names.iter().zip(&kinds).enumerate() {
        let looks = match row_counts.first() {
            Some(&rows) => looks(&*open(0)?, index, kind, rows.min(SAMPLE_ROWS), &source)?,
            None => Looks::Empty,
        };
        candidates.push(Candidate { name: name.clone(), looks });
    }
    let mut layout = Layout::choose(&candidates, options, &source)?;
    notes.append(&mut layout.notes);
    let requested = !options.columns.is_empty();
    let mut wanted = Vec::new();
    for &index in &layout.values {
        match kinds[index] {
            Kind::Days | Kind::Moments { .. } | Kind::Other if requested => {
                return Err(
                    source.error(format_args!("column {:?} holds no numbers; name a numeric column", names[index]))
                );
            }
            Kind::Other => notes.push(format!("column {:?} is left out: it holds no numbers", names[index])),
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

impl Kind {
    fn of(column: &ColumnDescriptor) -> Kind {
        if column.max_rep_level() > 0 {
            return Kind::Other;
        }
        // Decimals have at most 38 digits.
        let divisor = 10_f64.powi(column.type_scale().clamp(0, 38));
        let decimal = column.converted_type() == ConvertedType::DECIMAL
            || matches!(column.logical_type_ref(), Some(LogicalType::Decimal(_)));
        match (column.physical_type(), column.logical_type_ref(), column.converted_type()) {
            (PhysicalType::INT32, Some(LogicalType::Date), _) | (PhysicalType::INT32, _, ConvertedType::DATE) => {
                Kind::Days
            }
            (PhysicalType::INT64, Some(LogicalType::Timestamp(stamp)), _) => {
                let nanoseconds = match stamp.unit {
                    TimeUnit::MILLIS => 1_000_000,
                    TimeUnit::MICROS => 1_000,
                    TimeUnit::NANOS => 1,
                };
                Kind::Moments { nanoseconds, utc: stamp.is_adjusted_to_u_t_c }
            }
            (PhysicalType::INT64, _, ConvertedType::TIMESTAMP_MILLIS) => {
                Kind::Moments { nanoseconds: 1_000_000, utc: true }
            }
            (PhysicalType::INT64, _, ConvertedType::TIMESTAMP_MICROS) => {
                Kind::Moments { nanoseconds: 1_000, utc: true }
            }
            // The old 12-byte stamp has no zone; the programs that write it mean their own clock.
            (PhysicalType::INT96, ..) => Kind::Moments { nanoseconds: 1, utc: false },
            (_, Some(LogicalType::Time(_)), _) | (_, _, ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS) => {
                Kind::Other
            }
            (PhysicalType::INT32 | PhysicalType::INT64, logical, converted) => {
                let unsigned = matches!(logical, Some(LogicalType::Integer(integer)) if !integer.is_signed)
                    || matches!(
                        converted,
                        ConvertedType::UINT_8
                            | ConvertedType::UINT_16
                            | ConvertedType::UINT_32
                            | ConvertedType::UINT_64
                    );
                Kind::Whole { unsigned, divisor: if decimal { divisor } else { 1.0 } }
            }
            (PhysicalType::FLOAT | PhysicalType::DOUBLE, ..) => Kind::Real,
            (PhysicalType::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16), _) => Kind::Half,
            (PhysicalType::FIXED_LEN_BYTE_ARRAY | PhysicalType::BYTE_ARRAY, ..) if decimal => {
                Kind::BigEndian { divisor }
            }
            (PhysicalType::BYTE_ARRAY, ..) => Kind::Text,
            (PhysicalType::FIXED_LEN_BYTE_ARRAY | PhysicalType::BOOLEAN, ..) => Kind::Other,
        }
    }
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
    let column = group.get_column_reader(index).map_err(|error| unreadable(source, error))?;
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
        let (records, _, _) = column.read_records(batch, (deepest > 0).then_some(&mut levels), None, &mut values)?;
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

/// A two's complement number of up to 16 bytes.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let (&first, count) = (bytes.first()?, bytes.len());
    if count > 16 {
        return None;
    }
    let sign = if first & 0x80 == 0 { 0 } else { -1 };
    Some(bytes.iter().fold(sign, |value, &byte| (value << 8) | i128::from(byte)))
}

/// Nanoseconds since 1970 of the old 12-byte stamp: nanoseconds of the day, then the Julian day.
fn int96(parts: &[u32]) -> i128 {
    const JULIAN_DAY_OF_1970: i128 = 2_440_588;
    let [low, high, day] = [0, 1, 2].map(|index| i128::from(parts.get(index).copied().unwrap_or(0)));
    (day - JULIAN_DAY_OF_1970) * 86_400_000_000_000 + (high << 32 | low)
}

/// The cells of the time column while they are read.
enum TimeCells {
    /// Numbers or text, settled like the column of a text table.
    Written(StampColumn),
    /// Typed stamps.
    Typed { stamps: Vec<Stamp>, days: bool, utc: bool },
}

impl TimeCells {
    fn new(kind: Kind) -> Self {
        let typed = |days, utc| TimeCells::Typed { stamps: Vec::new(), days, utc };
        match kind {
            Kind::Days => typed(true, false),
            Kind::Moments { utc, .. } => typed(false, utc),
            _ => TimeCells::Written(StampColumn::default()),
        }
    }

    fn push(&mut self, value: Value<'_>, line: u64) -> Result<(), BadStamp> {
        let bad = |problem: &str| BadStamp { line, problem: problem.to_string() };
        match (self, value) {
            (TimeCells::Typed { stamps, utc, .. }, Value::Nanoseconds(nanoseconds)) => {
                let stamp = epoch_stamp(nanoseconds)
                    .ok_or_else(|| bad("the time is outside the years -9999 to 9999; correct it"))?;
                stamps.push(if *utc { stamp } else { Stamp::civil(stamp.clock()) });
                Ok(())
            }
            (TimeCells::Written(column), Value::Whole(value)) => column.push(&value.to_string(), line),
            (TimeCells::Written(column), Value::Number(value)) => column.push(&value.to_string(), line),
            (TimeCells::Written(column), Value::Text(text)) if !super::cell::is_missing(text) => {
                column.push(text, line)
            }
            _ => Err(bad("the row has no time; fill it in, delete the row, or name another time column")),
        }
    }

    fn settle(self) -> Result<Times, BadStamp> {
        let (stamps, days, utc) = match self {
            TimeCells::Written(column) => return column.settle(),
            TimeCells::Typed { stamps, days, utc } => (stamps, days, utc),
        };
        // Stamps without zone that all fall on midnight are dates, as the usual tools print them.
        let midnight = stamps.iter().all(|stamp| stamp.clock().time() == jiff::civil::Time::midnight());
        let fraction = |unit: i32| stamps.iter().all(|stamp| stamp.clock().time().subsec_nanosecond() % unit == 0);
        let precision = if days || (midnight && !utc) {
            Precision::Day
        } else {
            [(1_000_000_000, Precision::Second), (1_000_000, Precision::Fraction(3)), (1_000, Precision::Fraction(6))]
                .into_iter()
                .find(|(unit, _)| fraction(*unit))
                .map_or(Precision::Fraction(9), |(_, precision)| precision)
        };
        let (separator, zone) = if utc { ('T', Zone::Zero("Z")) } else { (' ', Zone::None) };
        Ok(Times::Stamps { stamps, style: Style { precision, separator, zone }, notes: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_any_length() {
        assert_eq!(big_endian(&[0x01, 0x00]), Some(256));
        assert_eq!(big_endian(&[0xff]), Some(-1));
        assert_eq!(big_endian(&[0x80, 0x00]), Some(-32_768));
        assert_eq!(big_endian(&[0x7f; 16]), Some(0x7f7f_7f7f_7f7f_7f7f_7f7f_7f7f_7f7f_7f7f));
        assert_eq!((big_endian(&[]), big_endian(&[0; 17])), (None, None));
    }

    #[test]
    fn the_old_stamp() {
        assert_eq!(int96(&[0, 0, 2_440_588]), 0);
        assert_eq!(int96(&[1, 1, 2_440_589]), 86_400_000_000_000 + (1 << 32) + 1);
        assert_eq!(int96(&[0, 0, 2_440_587]), -86_400_000_000_000);
    }
}
