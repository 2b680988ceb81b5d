//! Symbols and their held-out windows.

use nowcast::data::Table;
use nowcast::{Candles, Error, ModelFamily, Result, Series};

use super::super::input::{self, CLOSE};
use super::Study;
use crate::arguments::ColumnArguments;

/// What is forecast: a column of a file, or the close of its candles.
#[derive(Debug, Clone)]
pub(in super::super) struct Symbol {
    /// The file's name, with the column's where it was chosen.
    pub(in super::super) name: String,
    values: Vec<f64>,
    market: Option<Candles>,
}

/// The past of every window, and what came after it.
#[derive(Debug, Clone)]
pub(in super::super) struct Windows {
    pub(in super::super) inputs: Inputs,
    /// `[windows, horizon]`
    pub(in super::super) actual: Vec<f64>,
}

/// What a model of either family takes.
#[derive(Debug, Clone)]
pub(in super::super) enum Inputs {
    Series(Vec<Series>),
    Candles(Vec<Candles>),
}

/// The symbols of some files, for a family: for Kronos a market for each file, for Toto the columns somebody chose, else
/// the close of a file with candles, else every numeric column.
pub(in super::super) fn symbols(
    tables: &[Table],
    columns: &ColumnArguments,
    family: ModelFamily,
    horizon: usize,
) -> Result<Vec<Symbol>> {
    let mut symbols = Vec::new();
    for table in tables {
        match input::candles(table, columns, horizon) {
            Err(error) if family == ModelFamily::Kronos => return Err(error),
            Ok(market) if columns.columns.is_empty() || family == ModelFamily::Kronos => {
                let values = market.rows().iter().map(|row| row[CLOSE]).collect();
                symbols.push(Symbol { name: table.name.clone(), values, market: Some(market) });
            }
            _ => symbols.extend(table.columns.iter().map(|column| {
                let name = format!("{}/{}", table.name, column.name);
                Symbol { name, values: column.values.clone(), market: None }
            })),
        }
    }
    if let Some(twice) = (1..symbols.len()).find(|&at| symbols[..at].iter().any(|other| other.name == symbols[at].name))
    {
        let name = &symbols[twice].name;
        return Err(Error::Data(format!("two files are called {name:?}, and so would be their results: rename one")));
    }
    Ok(symbols)
}

impl Symbol {
    /// The most recent steps, as many as are asked for, nothing held out.
    pub(in super::super) fn latest(&self, context: usize, family: ModelFamily) -> Result<Inputs> {
        self.past(self.values.len(), context, &self.name, family)
    }

    /// The last windows of a study, the oldest first.
    pub(in super::super) fn windows(&self, study: Study, family: ModelFamily) -> Result<Windows> {
        let Study { context, horizon, windows } = study;
        let held_out = windows.checked_mul(horizon);
        let needed = held_out.and_then(|steps| steps.checked_add(context));
        let Some(first) = needed.and_then(|needed| self.values.len().checked_sub(needed)) else {
            return Err(Error::Data(format!(
                "{}: {} steps are too few for {windows} windows of {horizon} after a context of {context}; lower \
                 --windows, --horizon or --context",
                self.name,
                self.values.len()
            )));
        };
        let ends = (0..windows).map(|window| first + context + window * horizon);
        let inputs = ends.clone().map(|end| self.past(end, context, &format!("{} {end}", self.name), family));
        let (mut series, mut markets) = (Vec::new(), Vec::new());
        for input in inputs {
            match input? {
                Inputs::Series(one) => series.extend(one),
                Inputs::Candles(one) => markets.extend(one),
            }
        }
        let inputs = if markets.is_empty() { Inputs::Series(series) } else { Inputs::Candles(markets) };
        let actual = ends.flat_map(|end| &self.values[end..end + horizon]).copied().collect();
        Ok(Windows { inputs, actual })
    }

    /// The steps before `end`, under a name that gives them random numbers of their own.
    fn past(&self, end: usize, context: usize, name: &str, family: ModelFamily) -> Result<Inputs> {
        match (&self.market, family) {
            (Some(market), ModelFamily::Kronos) => {
                Ok(Inputs::Candles(vec![market.before(end).tail(context).renamed(name)]))
            }
            _ => {
                let values = self.values[end.saturating_sub(context)..end].iter().map(|&value| value as f32).collect();
                Ok(Inputs::Series(vec![Series::new(name, values)?]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nowcast::data::ReadOptions;

    use super::*;

    fn table(text: &str) -> Table {
        Table::from_reader("file", text.as_bytes(), &ReadOptions::default()).unwrap()
    }

    fn columns() -> ColumnArguments {
        ColumnArguments { columns: Vec::new(), time: None }
    }

    #[test]
    fn windows_stand_one_behind_the_other_and_see_nothing_of_what_they_are_scored_by() {
        let rows: String = (0..20).map(|day| format!("2024-01-{:02},{day}\n", day + 1)).collect();
        let table = table(&format!("date,a\n{rows}"));
        let symbols = symbols(&[table], &columns(), ModelFamily::Toto, 3).unwrap();
        assert_eq!(symbols[0].name, "file/a");
        let study = Study { context: 5, horizon: 3, windows: 4 };
        let windows = symbols[0].windows(study, ModelFamily::Toto).unwrap();
        let Inputs::Series(series) = &windows.inputs else { panic!("series") };
        assert_eq!(series.len(), 4);
        assert_eq!(series[0].values(0), [3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(windows.actual, (8..20).map(f64::from).collect::<Vec<_>>());
        let error = symbols[0].windows(Study { windows: 6, ..study }, ModelFamily::Toto).unwrap_err().to_string();
        assert!(error.contains("--windows") && error.contains("20 steps"), "{error}");
    }

    #[test]
    fn candles_know_the_times_of_what_is_held_out_and_no_more() {
        let rows: String = (1..=12).map(|day| format!("2024-01-{day:02},1,3,0.5,{day},10\n")).collect();
        let table = table(&format!("date,open,high,low,close,volume\n{rows}"));
        let symbols = symbols(&[table], &columns(), ModelFamily::Kronos, 2).unwrap();
        assert_eq!(symbols[0].name, "file");
        let study = Study { context: 4, horizon: 2, windows: 2 };
        let windows = symbols[0].windows(study, ModelFamily::Kronos).unwrap();
        let Inputs::Candles(markets) = &windows.inputs else { panic!("candles") };
        assert_eq!((markets[0].len(), markets[0].rows()[3][CLOSE]), (4, 8.0));
        assert_eq!(markets[0].future()[0].day(), 9);
        assert_eq!(windows.actual, [9.0, 10.0, 11.0, 12.0]);
        // Toto looks at the close of the same file.
        let windows = symbols[0].windows(study, ModelFamily::Toto).unwrap();
        assert!(matches!(windows.inputs, Inputs::Series(series) if series[1].values(0) == [7.0, 8.0, 9.0, 10.0]));
    }
}
