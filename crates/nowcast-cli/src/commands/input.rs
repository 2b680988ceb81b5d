//! The files of commands that study a model: tables, and what is forecast of them.

use std::path::PathBuf;

use nowcast::data::{ReadOptions, Table};
use nowcast::{Candles, Error, Result, Series};

use crate::arguments::ColumnArguments;

/// Reads every file.
pub(super) fn tables(files: &[PathBuf], columns: &ColumnArguments) -> Result<Vec<Table>> {
    let options =
        ReadOptions { time: columns.time.clone(), columns: columns.columns.clone(), ..ReadOptions::default() };
    files.iter().map(|file| Table::read(file, &options)).collect()
}

/// The candles of a file, if it has any.
pub(super) fn candles(table: &Table, columns: &ColumnArguments, horizon: usize) -> Result<Candles> {
    let (candles, _) = match columns.columns.is_empty() {
        true => Candles::from_table(table, horizon)?,
        false => Candles::from_chosen(table, horizon)?,
    };
    Ok(candles)
}

/// A market for each file.
pub(super) fn markets(tables: &[Table], columns: &ColumnArguments, horizon: usize) -> Result<Vec<Candles>> {
    tables.iter().map(|table| candles(table, columns, horizon)).collect()
}

/// The columns that somebody chose, else the close of a file with candles, else every numeric column.
pub(super) fn series(tables: &[Table], columns: &ColumnArguments) -> Result<Vec<Series>> {
    let of_table = |table: &Table| match candles(table, columns, 1) {
        Ok(market) if columns.columns.is_empty() => Ok(vec![close(&market)?]),
        _ => table.series(),
    };
    let series: Vec<Series> = tables.iter().map(of_table).collect::<Result<Vec<_>>>()?.concat();
    if series.is_empty() { Err(Error::Data("the files hold no column of numbers".into())) } else { Ok(series) }
}

/// The closes of a market under its name.
pub(super) fn close(market: &Candles) -> Result<Series> {
    Series::new(market.name(), market.rows().iter().map(|row| row[CLOSE] as f32).collect())
}

/// Which of the fields of a bar is the close.
pub(super) const CLOSE: usize = 3;
