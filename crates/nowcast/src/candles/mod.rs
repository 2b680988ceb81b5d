//! Candles: the bars of one market as Kronos takes them, whatever the table they come from looks like.
//!
//! [`Candles`] are rows of [`Candles::FIELDS`] with the wall-clock time of each bar and of the bars to predict.
//! [`Candles::from_table`] finds the columns of a file by name ([`columns`](self) knows the usual ones), and what is
//! missing is filled as the reference fills it. [`Consistency`] counts bars that no market could print, and [`repair`]
//! mends them.

pub(crate) mod columns;
mod consistency;

pub use consistency::{Consistency, repair, repair_forecast};

use jiff::civil::DateTime;

use crate::data::{Stamp, Table};
use crate::{Error, Result};

/// One market's bars, oldest first: what Kronos forecasts.
#[derive(Debug, Clone, PartialEq)]
pub struct Candles {
    name: String,
    rows: Vec<[f64; 6]>,
    stamps: Vec<DateTime>,
    future: Vec<DateTime>,
    missing: Missing,
}

/// The columns of [`Candles`], one value for each bar; NaN is a missing value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CandleColumns {
    /// First price of each bar.
    pub open: Vec<f64>,
    /// Highest price of each bar.
    pub high: Vec<f64>,
    /// Lowest price of each bar.
    pub low: Vec<f64>,
    /// Last price of each bar.
    pub close: Vec<f64>,
    /// What was traded, in pieces.
    pub volume: Option<Vec<f64>>,
    /// What was traded, in money.
    pub amount: Option<Vec<f64>>,
}

/// What was missing of the columns given, and how often.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Missing {
    /// Bars without one of their four prices: left out.
    pub bars: usize,
    /// Bars without volume where other bars have one: volume and amount are 0.
    pub volumes: usize,
    /// Bars without amount where other bars have one: the amount is volume times the mean of the four prices.
    pub amounts: usize,
}

impl Candles {
    /// The six fields in the reference's order.
    pub const FIELDS: [&'static str; 6] = ["open", "high", "low", "close", "volume", "amount"];

    /// Most bars to predict: as many as the widest window of a model.
    pub const MOST_FUTURE: usize = 65_536;

    /// Bars from columns; `stamps` are the wall-clock times of the bars (of the exchange, as its traders read them),
    /// `future` those of the bars to predict, as many as the longest horizon that will be asked for.
    ///
    /// As the reference fills it: without volume, volume and amount are 0 (an amount that is given is discarded);
    /// without amount, it is volume times the mean of open, high, low and close. The same holds for a single bar whose
    /// volume or amount is missing. Bars without one of the four prices are left out, where the reference refuses them;
    /// [`missing`](Self::missing) tells how many.
    ///
    /// # Errors
    /// Columns of different length, no bar with all four prices, or an infinite value or one that f32 cannot hold.
    pub fn new(
        name: impl Into<String>,
        columns: CandleColumns,
        stamps: Vec<DateTime>,
        future: Vec<DateTime>,
    ) -> Result<Self> {
        let name = name.into();
        columns.check(&name, stamps.len())?;
        let mut candles = Self {
            name,
            rows: Vec::with_capacity(stamps.len()),
            stamps: Vec::new(),
            future,
            missing: Missing::default(),
        };
        candles.stamps.reserve_exact(stamps.len());
        for (bar, stamp) in stamps.into_iter().enumerate() {
            match columns.row(bar, &mut candles.missing) {
                Some(row) => {
                    candles.rows.push(row);
                    candles.stamps.push(stamp);
                }
                None => candles.missing.bars += 1,
            }
        }
        candles.check()?;
        Ok(candles)
    }

    /// The candles of a table, and what its reader should know. Columns are found by name in any case (`Open`, `OPEN`,
    /// `vol`, `turnover`, `1. open`); adjusted prices are left alone. The `horizon` bars to predict follow
    /// the rhythm of the table: of intraday bars, the sessions seen in it.
    ///
    /// # Errors
    /// A table without a time column or without the four prices, stamps that cannot be continued, or as
    /// [`Candles::new`].
    pub fn from_table(table: &Table, horizon: usize) -> Result<(Self, Vec<String>)> {
        Self::with_columns(table, columns::by_name(table)?, horizon)
    }

    /// As [`Candles::from_table`] for a table that holds just the columns somebody chose: four prices, perhaps volume
    /// and amount. Names decide if all are known (adjusted prices count as prices here), else the order: open, high,
    /// low, close, volume, amount.
    ///
    /// # Errors
    /// As [`Candles::from_table`]; fewer than four columns or more than six.
    pub fn from_chosen(table: &Table, horizon: usize) -> Result<(Self, Vec<String>)> {
        Self::with_columns(table, columns::chosen(table)?, horizon)
    }

    fn with_columns(table: &Table, found: columns::Found, horizon: usize) -> Result<(Self, Vec<String>)> {
        if horizon == 0 || horizon > Self::MOST_FUTURE {
            let most = Self::MOST_FUTURE;
            return Err(Error::Setting(format!("the horizon is {horizon}: choose 1 to {most} candles")));
        }
        let Some(times) = &table.times else {
            return Err(Error::Data(format!(
                "{}: Kronos needs the time of every bar, and no column tells it; name the time column with --time",
                table.name
            )));
        };
        let Some(future) = table.future(horizon) else {
            return Err(Error::Data(format!(
                "{}: the times of its {} bar(s) cannot be continued for {horizon} more; give at least two bars, of years before 9999",
                table.name,
                table.rows()
            )));
        };
        let clocks = |stamps: &[Stamp]| stamps.iter().map(Stamp::clock).collect();
        let candles = Self::new(&table.name, found.columns, clocks(&times.stamps), clocks(&future))?;
        let mut notes = found.notes;
        notes.extend(candles.missing.notes());
        let consistency = Consistency::of_bars(candles.rows.iter().copied());
        notes.extend(consistency.summary("bars"));
        Ok((candles, notes))
    }

    /// Name of the market.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of bars.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no bar, which no constructor allows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The bars, each in the order of [`Candles::FIELDS`]; finite, and within what f32 holds.
    pub fn rows(&self) -> &[[f64; 6]] {
        &self.rows
    }

    /// The wall-clock time of each bar.
    pub fn stamps(&self) -> &[DateTime] {
        &self.stamps
    }

    /// The wall-clock time of each bar to predict.
    pub fn future(&self) -> &[DateTime] {
        &self.future
    }

    /// What was missing of the columns given.
    pub fn missing(&self) -> Missing {
        self.missing
    }

    /// Only the last `context` bars.
    #[must_use]
    pub fn tail(&self, context: usize) -> Self {
        let first = self.len().saturating_sub(context);
        Self {
            name: self.name.clone(),
            rows: self.rows[first..].to_vec(),
            stamps: self.stamps[first..].to_vec(),
            future: self.future.clone(),
            missing: self.missing,
        }
    }

    /// The market as it stood before a bar: the bars up to it, and the times of all others as those to predict.
    ///
    /// # Panics
    /// If there are fewer bars.
    #[must_use]
    pub fn before(&self, bar: usize) -> Self {
        Self {
            name: self.name.clone(),
            rows: self.rows[..bar].to_vec(),
            stamps: self.stamps[..bar].to_vec(),
            future: self.stamps[bar..].iter().chain(&self.future).copied().collect(),
            missing: self.missing,
        }
    }

    /// The same market under another name, and so with random numbers of its own.
    #[must_use]
    pub fn renamed(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    fn check(&self) -> Result<()> {
        if self.rows.is_empty() {
            return Err(Error::Data(format!(
                "{}: no bar has all of open, high, low and close; Kronos needs at least one",
                self.name
            )));
        }
        for (row, stamp) in self.rows.iter().zip(&self.stamps) {
            // The product of volume and price may leave what its factors keep.
            if let Some(field) = row.iter().position(|value| value.abs() > f64::from(f32::MAX) || value.is_nan()) {
                return Err(Error::Data(format!(
                    "{}: the {} of {stamp} is {:e}, beyond what a 32-bit number holds (3.4e38); rescale the column",
                    self.name,
                    Self::FIELDS[field],
                    row[field]
                )));
            }
        }
        Ok(())
    }
}

impl CandleColumns {
    /// The columns that are there, by name.
    fn named(&self) -> impl Iterator<Item = (&'static str, &Vec<f64>)> {
        let columns = [
            Some(&self.open),
            Some(&self.high),
            Some(&self.low),
            Some(&self.close),
            self.volume.as_ref(),
            self.amount.as_ref(),
        ];
        Candles::FIELDS.into_iter().zip(columns).filter_map(|(name, column)| column.map(|column| (name, column)))
    }

    fn check(&self, name: &str, bars: usize) -> Result<()> {
        match self.named().find(|(_, values)| values.len() != bars) {
            None => Ok(()),
            Some((column, values)) => Err(Error::Data(format!(
                "{name}: {column} has {} values for {bars} stamps; give one value for each bar, NaN where it is missing",
                values.len()
            ))),
        }
    }

    /// One bar, filled as the reference fills it; `None` without one of its prices.
    fn row(&self, bar: usize, missing: &mut Missing) -> Option<[f64; 6]> {
        let prices = [self.open[bar], self.high[bar], self.low[bar], self.close[bar]];
        if prices.iter().any(|price| price.is_nan()) {
            return None;
        }
        let [open, high, low, close] = prices;
        let Some(volume) = self.volume.as_ref().map(|volumes| volumes[bar]) else {
            return Some([open, high, low, close, 0.0, 0.0]);
        };
        if volume.is_nan() {
            missing.volumes += 1;
            return Some([open, high, low, close, 0.0, 0.0]);
        }
        // Added in this order and in f64, as pandas takes a mean over columns.
        let priced = volume * ((open + high + low + close) / 4.0);
        let amount = match self.amount.as_ref().map(|amounts| amounts[bar]) {
            None => priced,
            Some(amount) if amount.is_nan() => {
                missing.amounts += 1;
                priced
            }
            Some(amount) => amount,
        };
        Some([open, high, low, close, volume, amount])
    }
}

impl Missing {
    /// What is told to people.
    fn notes(self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.bars > 0 {
            notes.push(format!("{} bar(s) without all of open, high, low and close are left out", self.bars));
        }
        if self.volumes > 0 {
            notes.push(format!("{} bar(s) have no volume: volume and amount count as 0", self.volumes));
        }
        if self.amounts > 0 {
            notes.push(format!("{} bar(s) have no amount: it is volume times the mean price", self.amounts));
        }
        notes
    }
}

/// What Kronos sees of a moment: minute, hour, weekday (Monday 0), day (1 to 31) and month (1 to 12), as the
/// reference's `calc_time_stamps`.
pub fn time_features(stamp: &DateTime) -> [i32; 5] {
    [
        i32::from(stamp.minute()),
        i32::from(stamp.hour()),
        i32::from(stamp.weekday().to_monday_zero_offset()),
        i32::from(stamp.day()),
        i32::from(stamp.month()),
    ]
}

#[cfg(test)]
mod tests;
