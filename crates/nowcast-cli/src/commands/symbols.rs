//! From files to symbols.

use std::path::PathBuf;

use nowcast::Result;
use nowcast::backtest::Symbol;
use nowcast::data::{ReadOptions, Table};

/// The symbols of all files, and what is to be said about them.
pub(super) fn read(files: &[PathBuf], columns: &[String], time: Option<&String>) -> Result<(Vec<Symbol>, Vec<String>)> {
    let options = ReadOptions { time: time.cloned(), columns: columns.to_vec(), fill_gaps: false };
    let (mut symbols, mut notes) = (Vec::new(), Vec::new());
    for path in files {
        let table = Table::read(path, &options)?;
        let (found, said) = Symbol::from_table(&table)?;
        notes.extend(table.notes.iter().chain(&said).map(|note| format!("{}: {note}", table.name)));
        symbols.extend(found);
    }
    Ok((symbols, notes))
}

/// What a model of candles assumes of the symbols.
pub(super) fn candle_notes(symbols: &[Symbol]) -> impl Iterator<Item = String> {
    symbols.iter().flat_map(|symbol| symbol.candle_notes().iter().map(|note| format!("{}: {note}", symbol.name())))
}
