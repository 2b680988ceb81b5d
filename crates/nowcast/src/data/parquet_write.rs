//! Writes a Parquet table of numbers, text and time stamps.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use crate::{Error, Result};

/// One column to write.
#[derive(Debug, Clone, PartialEq)]
pub struct ParquetColumn {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: ParquetValues,
}

/// The values of one column.
#[derive(Debug, Clone, PartialEq)]
pub enum ParquetValues {
    /// Numbers; a missing one is NaN.
    Numbers(Vec<f64>),
    /// Text.
    Text(Vec<String>),
    /// Microseconds since 1970; in UTC, or by a clock of no particular zone.
    Stamps {
        /// Microseconds since 1970-01-01 00:00.
        microseconds: Vec<i64>,
        /// Whether they count in UTC.
        utc: bool,
    },
}

/// Rows of one row group: what a reader holds in memory at once.
const ROWS_PER_GROUP: usize = 1 << 20;

/// Writes all columns, compressed with Snappy. The output is complete only if this succeeds: write to a temporary
/// name and rename it.
///
/// # Errors
/// No column, columns of different length, two of one name, or an output that cannot be written.
pub fn write_parquet(output: impl Write + Send, columns: &[ParquetColumn]) -> Result<()> {
    let rows = columns.first().map(|column| column.values.len()).unwrap_or_default();
    if columns.is_empty() {
        return Err(Error::Data("a Parquet table needs at least one column".into()));
    }
    if let Some(column) = columns.iter().find(|column| column.values.len() != rows) {
        return Err(Error::Data(format!(
            "column {:?} has {} rows where {:?} has {rows}: columns of a table have one length",
            column.name,
            column.values.len(),
            columns[0].name
        )));
    }
    let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::Data(format!("two columns are called {:?}: give each its own name", pair[0])));
    }
    write_all(output, columns, rows).map_err(|error| match error {
        ParquetError::External(inner) if inner.is::<std::io::Error>() => {
            Error::Data(format!("the Parquet table cannot be written: {inner}"))
        }
        other => Error::Data(format!("the Parquet table cannot be written: {other}")),
    })
}

impl ParquetValues {
    /// Number of rows.
    fn len(&self) -> usize {
        match self {
            ParquetValues::Numbers(values) => values.len(),
            ParquetValues::Text(values) => values.len(),
            ParquetValues::Stamps { microseconds, .. } => microseconds.len(),
        }
    }

    fn schema(&self, name: &str) -> Result<Type, ParquetError> {
        let (physical, logical) = match self {
            ParquetValues::Numbers(_) => (PhysicalType::DOUBLE, None),
            ParquetValues::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            ParquetValues::Stamps { utc, .. } => {
                (PhysicalType::INT64, Some(LogicalType::timestamp(*utc, TimeUnit::MICROS)))
            }
        };
        let builder = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        builder.with_repetition(Repetition::REQUIRED).build()
    }

    fn write(
        &self,
        rows: std::ops::Range<usize>,
        group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    ) -> Result<(), ParquetError> {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("the schema has too few columns".into()));
        };
        match self {
            ParquetValues::Numbers(values) => {
                column.typed::<DoubleType>().write_batch(&values[rows], None, None)?;
            }
            ParquetValues::Text(values) => {
                let values: Vec<ByteArray> = values[rows].iter().map(|text| text.as_str().into()).collect();
                column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            ParquetValues::Stamps { microseconds, .. } => {
                column.typed::<Int64Type>().write_batch(&microseconds[rows], None, None)?;
            }
        }
        column.close()
    }
}

fn write_all(output: impl Write + Send, columns: &[ParquetColumn], rows: usize) -> Result<(), ParquetError> {
    let fields = columns.iter().map(|column| column.values.schema(&column.name).map(Arc::new));
    let schema = Type::group_type_builder("table").with_fields(fields.collect::<Result<_, _>>()?).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties))?;
    for start in (0..rows).step_by(ROWS_PER_GROUP) {
        let mut group = file.next_row_group()?;
        for column in columns {
            column.values.write(start..rows.min(start + ROWS_PER_GROUP), &mut group)?;
        }
        group.close()?;
    }
    file.close()?;
    Ok(())
}
