//! Rows and columns of plain values, written as CSV or Parquet.

use std::path::Path;

use nowcast::data::Stamp;
#[cfg(feature = "parquet")]
use nowcast::data::{ParquetColumn, ParquetValues, write_parquet};
use nowcast::{Error, Result};

/// How a sheet is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SheetFormat {
    /// Comma-separated values; a missing number is an empty cell.
    Csv,
    /// Parquet; a missing number is NaN.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl SheetFormat {
    /// The format that the name of a file asks for.
    ///
    /// # Errors
    /// Another extension than csv and parquet.
    pub fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("csv") => Ok(Self::Csv),
            #[cfg(feature = "parquet")]
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(Error::Setting(format!("{}: a table of forecasts or trades is .csv or .parquet", path.display()))),
        }
    }
}

/// A table of named columns, all of the same length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sheet {
    columns: Vec<(String, Cells)>,
}

/// The cells of one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Text.
    Text(Vec<String>),
    /// Numbers; NaN is missing.
    Numbers(Vec<f64>),
    /// Points in time, each with how its file writes it.
    Times(Vec<(Stamp, String)>),
}

impl Sheet {
    /// Adds a column.
    pub fn push(&mut self, name: impl Into<String>, cells: Cells) {
        self.columns.push((name.into(), cells));
    }

    /// The columns by name.
    pub fn columns(&self) -> &[(String, Cells)] {
        &self.columns
    }

    /// The sheet as a file.
    ///
    /// # Errors
    /// A failure of the encoder, such as two columns of one name.
    pub fn render(&self, format: SheetFormat) -> Result<Vec<u8>> {
        match format {
            SheetFormat::Csv => self.csv().map_err(|error| Error::Data(format!("cannot write CSV: {error}"))),
            #[cfg(feature = "parquet")]
            SheetFormat::Parquet => self.parquet(),
        }
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, cells)| match cells {
            Cells::Text(values) => values.len(),
            Cells::Numbers(values) => values.len(),
            Cells::Times(values) => values.len(),
        })
    }

    fn csv(&self) -> std::result::Result<Vec<u8>, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(self.columns.iter().map(|(name, _)| name))?;
        for row in 0..self.rows() {
            for (_, cells) in &self.columns {
                match cells {
                    Cells::Text(values) => writer.write_field(&values[row])?,
                    Cells::Numbers(values) if values[row].is_nan() => writer.write_field("")?,
                    Cells::Numbers(values) => writer.write_field(values[row].to_string())?,
                    Cells::Times(values) => writer.write_field(&values[row].1)?,
                }
            }
            writer.write_record(None::<&[u8]>)?;
        }
        writer.into_inner().map_err(|error| error.into_error().into())
    }

    #[cfg(feature = "parquet")]
    fn parquet(&self) -> Result<Vec<u8>> {
        let values = |cells: &Cells| match cells {
            Cells::Text(values) => ParquetValues::Text(values.clone()),
            Cells::Numbers(values) => ParquetValues::Numbers(values.clone()),
            Cells::Times(values) => {
                let utc = values.first().is_some_and(|(stamp, _)| stamp.offset().is_some());
                // Files with and without offsets cannot share one clock.
                if values.iter().any(|(stamp, _)| stamp.offset().is_some() != utc) {
                    return ParquetValues::Text(values.iter().map(|(_, text)| text.clone()).collect());
                }
                let microseconds = values.iter().map(|(stamp, _)| (stamp.nanoseconds() / 1000) as i64).collect();
                ParquetValues::Stamps { microseconds, utc }
            }
        };
        let columns: Vec<ParquetColumn> = self
            .columns
            .iter()
            .map(|(name, cells)| ParquetColumn { name: name.clone(), values: values(cells) })
            .collect();
        let mut bytes = Vec::new();
        write_parquet(&mut bytes, &columns)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_numbers_are_empty_cells() {
        let mut sheet = Sheet::default();
        sheet.push("name", Cells::Text(vec!["a,b".into(), "c".into()]));
        sheet.push("value", Cells::Numbers(vec![f64::NAN, 0.1]));
        let text = String::from_utf8(sheet.render(SheetFormat::Csv).unwrap()).unwrap();
        assert_eq!(text, "name,value\n\"a,b\",\nc,0.1\n");
    }

    #[test]
    fn names_of_files_choose_the_format() {
        assert_eq!(SheetFormat::of(Path::new("a.CSV")).unwrap(), SheetFormat::Csv);
        let error = SheetFormat::of(Path::new("a.xlsx")).unwrap_err().to_string();
        assert_eq!(error, "a.xlsx: a table of forecasts or trades is .csv or .parquet");
    }
}
