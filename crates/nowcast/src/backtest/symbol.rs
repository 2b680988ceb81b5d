//! One symbol: its bars with their times, and the view of it that ends at an origin.

use jiff::civil::DateTime;

use crate::candles::columns;
use crate::data::{Frequency, Stamp, Style, Table};
use crate::{CandleColumns, Candles, Error, Result, Series};

/// A price of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Price {
    /// The first one.
    Open,
    /// The highest.
    High,
    /// The lowest.
    Low,
    /// The last one; of a column of values, the value.
    Close,
}

/// What is forecast and traded: the candles of a market, or one column of values, which count as closes.
#[derive(Debug, Clone, PartialEq)]
pub struct Symbol {
    name: String,
    /// `open`, `high` and `low` are empty for a column of values.
    columns: CandleColumns,
    /// How the file calls the prices, in the order of [`Candles::FIELDS`].
    column_names: [String; 4],
    /// What forecasting whole candles assumes of them.
    candle_notes: Vec<String>,
    stamps: Vec<Stamp>,
    style: Style,
}

impl Symbol {
    /// The symbols of a table, and what its reader should know. A table with the four prices of a candle is one symbol of
    /// the table's name; of any other table every column is one, named `<table>/<column>`. Rows without a price or value
    /// are left out.
    ///
    /// # Errors
    /// A table without times, or a symbol without any row.
    pub fn from_table(table: &Table) -> Result<(Vec<Self>, Vec<String>)> {
        let Some(times) = &table.times else {
            return Err(Error::Data(format!(
                "{}: a backtest needs the time of every row, and no column tells it; name the time column with --time",
                table.name
            )));
        };
        let mut notes = Vec::new();
        let symbols = match columns::known(table).map_or_else(|| columns::by_name(table), Ok) {
            Ok(found) => {
                let name = |field: usize| found.places[field].map(|place| table.columns[place].name.clone());
                let column_names = std::array::from_fn(|field| name(field).unwrap_or_default());
                vec![Self {
                    name: table.name.clone(),
                    columns: found.columns,
                    column_names,
                    candle_notes: found.notes,
                    stamps: times.stamps.clone(),
                    style: times.style.clone(),
                }]
            }
            Err(_) => table
                .columns
                .iter()
                .map(|column| Self {
                    name: format!("{}/{}", table.name, column.name),
                    columns: CandleColumns { close: column.values.clone(), ..CandleColumns::default() },
                    column_names: [String::new(), String::new(), String::new(), column.name.clone()],
                    candle_notes: Vec::new(),
                    stamps: times.stamps.clone(),
                    style: times.style.clone(),
                })
                .collect(),
        };
        let symbols = symbols.into_iter().map(|symbol| symbol.whole_bars(&mut notes)).collect::<Result<_>>()?;
        Ok((symbols, notes))
    }

    /// Leaves out the bars that lack a price.
    fn whole_bars(mut self, notes: &mut Vec<String>) -> Result<Self> {
        let prices = [&self.columns.open, &self.columns.high, &self.columns.low, &self.columns.close];
        let whole = |bar: usize| prices.iter().all(|values| values.get(bar).is_none_or(|value| value.is_finite()));
        let kept: Vec<usize> = (0..self.stamps.len()).filter(|&bar| whole(bar)).collect();
        if kept.is_empty() {
            return Err(Error::Data(format!("{}: no row has a value; choose another column", self.name)));
        }
        if let left_out @ 1.. = self.stamps.len() - kept.len() {
            let what = match self.is_candle() {
                true => "all of open, high, low and close".to_string(),
                false => format!("a value of {:?}", self.column_names[Price::Close as usize]),
            };
            notes.push(format!("{left_out} row(s) without {what} are left out"));
            let keep = |values: &mut Vec<f64>| {
                if !values.is_empty() {
                    *values = kept.iter().map(|&bar| values[bar]).collect();
                }
            };
            let CandleColumns { open, high, low, close, volume, amount } = &mut self.columns;
            [open, high, low, close].into_iter().chain(volume).chain(amount).for_each(keep);
            self.stamps = kept.iter().map(|&bar| self.stamps[bar]).collect();
        }
        Ok(self)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of bars.
    pub fn len(&self) -> usize {
        self.stamps.len()
    }

    /// Whether there is no bar, which no constructor allows.
    pub fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// Whether it has open, high and low.
    pub fn is_candle(&self) -> bool {
        !self.columns.open.is_empty()
    }

    /// What a forecast of whole candles assumes, such as an amount that the file lacks; a forecast of one price does not.
    pub fn candle_notes(&self) -> &[String] {
        &self.candle_notes
    }

    /// One price of every bar; `None` where there are values only.
    pub fn prices(&self, price: Price) -> Option<&[f64]> {
        let values = match price {
            Price::Open => &self.columns.open,
            Price::High => &self.columns.high,
            Price::Low => &self.columns.low,
            Price::Close => &self.columns.close,
        };
        (!values.is_empty()).then_some(values)
    }

    /// The close of every bar.
    pub fn closes(&self) -> &[f64] {
        &self.columns.close
    }

    /// The volume of every bar, where the file has one.
    pub fn volumes(&self) -> Option<&[f64]> {
        self.columns.volume.as_deref()
    }

    /// The time of every bar, ascending.
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// The time of a bar as the file writes it.
    ///
    /// # Panics
    /// A bar that is not there.
    pub fn stamp_text(&self, bar: usize) -> String {
        self.style.write(&self.stamps[bar])
    }

    /// The symbol as it was when it had so many bars.
    #[must_use]
    pub fn until(&self, bars: usize) -> Self {
        let mut cut = self.clone();
        let CandleColumns { open, high, low, close, volume, amount } = &mut cut.columns;
        [open, high, low, close].into_iter().chain(volume).chain(amount).for_each(|values| values.truncate(bars));
        cut.stamps.truncate(bars);
        cut
    }

    /// The first `bars` bars: all that an origin behind them may know.
    ///
    /// # Panics
    /// More bars than there are, or none.
    pub fn history(&self, bars: usize) -> History<'_> {
        assert!((1..=self.len()).contains(&bars), "a history of {bars} of {} bars", self.len());
        History { symbol: self, bars }
    }
}

/// A symbol as it was known at an origin: nothing behind that bar can be reached through it.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    symbol: &'a Symbol,
    bars: usize,
}

impl<'a> History<'a> {
    /// Name of the symbol.
    pub fn name(&self) -> &'a str {
        &self.symbol.name
    }

    /// Number of bars known.
    pub fn bars(&self) -> usize {
        self.bars
    }

    /// Whether open, high and low are known.
    pub fn is_candle(&self) -> bool {
        self.symbol.is_candle()
    }

    /// One price of every known bar.
    pub fn prices(&self, price: Price) -> Option<&'a [f64]> {
        self.symbol.prices(price).map(|prices| &prices[..self.bars])
    }

    /// The known closes.
    pub fn closes(&self) -> &'a [f64] {
        &self.symbol.closes()[..self.bars]
    }

    /// The last known value of a price.
    pub fn last(&self, price: Price) -> Option<f64> {
        self.prices(price).map(|prices| prices[self.bars - 1])
    }

    /// The last known close.
    pub fn last_close(&self) -> f64 {
        self.closes()[self.bars - 1]
    }

    /// The times of the known bars.
    pub fn stamps(&self) -> &'a [Stamp] {
        &self.symbol.stamps[..self.bars]
    }

    /// The last `context` values of a price as a series of its own, named as the forecast of the file's column is.
    ///
    /// # Errors
    /// Values only, where another price than the close is asked for.
    pub fn series(&self, price: Price, context: usize) -> Result<Series> {
        let Some(prices) = self.prices(price) else {
            return Err(Error::Data(format!("{}: a column of values has a close only", self.name())));
        };
        let tail = &prices[self.bars.saturating_sub(context)..];
        let name = match self.is_candle() {
            true => format!("{}/{}", self.name(), self.symbol.column_names[price as usize]),
            false => self.name().to_string(),
        };
        Series::new(name, tail.iter().map(|&value| value as f32).collect())
    }

    /// The last `context` bars as candles; the times of the `horizon` bars to come continue the rhythm of the known ones.
    ///
    /// # Errors
    /// Values only, or times that cannot be continued.
    pub fn candles(&self, context: usize, horizon: usize) -> Result<Candles> {
        if !self.is_candle() {
            return Err(Error::Data(format!(
                "{}: Kronos needs open, high, low and close of every bar; choose a Toto model or another file",
                self.name()
            )));
        }
        let stamps = self.stamps();
        let zone = self.symbol.style.time_zone();
        let Some(future) = Frequency::infer(stamps).future(stamps[self.bars - 1], zone, horizon) else {
            return Err(Error::Data(format!(
                "{}: the times of its first {} bars cannot be continued for {horizon} more; give a longer --context",
                self.name(),
                self.bars
            )));
        };
        let range = self.bars.saturating_sub(context)..self.bars;
        let of = |values: &Vec<f64>| values[range.clone()].to_vec();
        let CandleColumns { open, high, low, close, volume, amount } = &self.symbol.columns;
        let columns = CandleColumns {
            open: of(open),
            high: of(high),
            low: of(low),
            close: of(close),
            volume: volume.as_ref().map(of),
            amount: amount.as_ref().map(of),
        };
        let clocks = |stamps: &[Stamp]| -> Vec<DateTime> { stamps.iter().map(Stamp::clock).collect() };
        Candles::new(self.name(), columns, clocks(&stamps[range]), clocks(&future))
    }
}
