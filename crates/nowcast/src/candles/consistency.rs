//! Bars that no market could print: how many there are among sampled paths, and how to mend them.
//!
//! Kronos draws the six fields of a bar together, but nothing in it keeps a high above its close. The reference prints
//! what comes.

use serde::Serialize;

use super::Candles;
use crate::forecast::{Distribution, Forecast, VariateForecast};
use crate::{Error, Result};

/// How often bars contradict themselves. All counts are bars; `share` is that of [`inconsistent`](Self::inconsistent)
/// bars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Consistency {
    /// Bars looked at: paths times horizon.
    pub bars: usize,
    /// The high is below open or close.
    pub high_below_open_or_close: usize,
    /// The low is above open or close.
    pub low_above_open_or_close: usize,
    /// The high is below the low.
    pub high_below_low: usize,
    /// The volume is below zero; not counted where the past has no volume, and a model gives back the noise of nothing.
    pub negative_volume: usize,
    /// The amount is below zero; counted as the volume is.
    pub negative_amount: usize,
    /// Open, high, low or close is zero or below, though no price of the past was.
    pub non_positive_price: usize,
    /// At least one of these holds.
    pub inconsistent: usize,
    /// The part of the bars that is inconsistent, 0 to 1.
    pub share: f64,
}

impl Consistency {
    /// Looks at bars in the order of [`Candles::FIELDS`]; prices may be of any sign.
    pub fn of_bars(bars: impl IntoIterator<Item = [f64; 6]>) -> Self {
        Self::count(bars, Past { positive: false, traded: true })
    }

    /// Looks at sampled paths, `[paths, horizon, 6]`, of the market `past`.
    ///
    /// # Panics
    /// Not whole bars of six values.
    pub fn of_paths<T: Copy + Into<f64>>(paths: &[T], past: &Candles) -> Self {
        assert!(paths.len().is_multiple_of(6), "{} values are no bars of six", paths.len());
        let bars = paths.chunks_exact(6).map(|bar| std::array::from_fn(|field| bar[field].into()));
        Self::count(bars, Past::of(past))
    }

    /// Looks at the paths of a forecast, whose variates are [`Candles::FIELDS`].
    ///
    /// # Errors
    /// Other variates, or a forecast without paths.
    pub fn of_forecast(forecast: &Forecast, past: &Candles) -> Result<Self> {
        let fields = fields(forecast)?;
        let bars = (0..fields[0].len()).map(|bar| fields.map(|field| f64::from(field[bar])));
        Ok(Self::count(bars, Past::of(past)))
    }

    fn count(bars: impl IntoIterator<Item = [f64; 6]>, past: Past) -> Self {
        let mut counts = Self::default();
        for [open, high, low, close, volume, amount] in bars {
            let found = [
                (high < open.max(close), &mut counts.high_below_open_or_close),
                (low > open.min(close), &mut counts.low_above_open_or_close),
                (high < low, &mut counts.high_below_low),
                (past.traded && volume < 0.0, &mut counts.negative_volume),
                (past.traded && amount < 0.0, &mut counts.negative_amount),
                (past.positive && open.min(high).min(low).min(close) <= 0.0, &mut counts.non_positive_price),
            ];
            let mut any = false;
            for (holds, count) in found {
                *count += usize::from(holds);
                any |= holds;
            }
            counts.inconsistent += usize::from(any);
            counts.bars += 1;
        }
        counts.share = counts.inconsistent as f64 / counts.bars.max(1) as f64;
        counts
    }

    /// The counts in words, of such as `sampled bars`; `None` where all are consistent.
    pub fn summary(&self, bars: &str) -> Option<String> {
        let counts = [
            (self.high_below_open_or_close, "a high below open or close"),
            (self.low_above_open_or_close, "a low above open or close"),
            (self.high_below_low, "a high below their low"),
            (self.negative_volume, "a negative volume"),
            (self.negative_amount, "a negative amount"),
            (self.non_positive_price, "a price of zero or below"),
        ];
        let found: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        (!found.is_empty()).then(|| {
            format!("{} of {} {bars} contradict themselves ({})", self.inconsistent, self.bars, found.join(", "))
        })
    }
}

/// Mends paths, `[paths, horizon, 6]`: the high becomes the greatest of the four prices, the low the least of them, and
/// a volume or amount below zero becomes zero. Open and close stay as they were drawn, and so does a consistent bar.
///
/// # Panics
/// Not whole bars of six values.
pub fn repair(paths: &mut [f32]) {
    assert!(paths.len().is_multiple_of(6), "{} values are no bars of six", paths.len());
    for bar in paths.chunks_exact_mut(6) {
        let mended = mended([bar[0], bar[1], bar[2], bar[3], bar[4], bar[5]]);
        bar.copy_from_slice(&mended);
    }
}

/// [`repair`] for a forecast whose variates are [`Candles::FIELDS`].
///
/// # Errors
/// Other variates, or a forecast without paths.
pub fn repair_forecast(forecast: &Forecast) -> Result<Forecast> {
    let paths = fields(forecast)?;
    let samples = paths[0].len() / forecast.horizon();
    let mut values: [Vec<f32>; 6] = std::array::from_fn(|_| Vec::with_capacity(paths[0].len()));
    for bar in 0..paths[0].len() {
        let mended = mended(paths.map(|field| field[bar]));
        values.iter_mut().zip(mended).for_each(|(field, value)| field.push(value));
    }
    let variates = forecast.variates().iter().zip(values).map(|(variate, values)| {
        VariateForecast::new(variate.name(), Distribution::Paths { samples, values: values.into() })
    });
    Forecast::new(variates.collect::<Result<_>>()?)
}

fn mended([open, high, low, close, volume, amount]: [f32; 6]) -> [f32; 6] {
    let highest = open.max(high).max(low).max(close);
    let lowest = open.min(high).min(low).min(close);
    [open, highest, lowest, close, volume.max(0.0), amount.max(0.0)]
}

/// What the past says about what may come.
#[derive(Clone, Copy)]
struct Past {
    /// No price was zero or below.
    positive: bool,
    /// There was volume.
    traded: bool,
}

impl Past {
    fn of(past: &Candles) -> Self {
        Self {
            positive: past.rows().iter().all(|row| row[..4].iter().all(|price| *price > 0.0)),
            traded: past.rows().iter().any(|row| row[4] != 0.0),
        }
    }
}

/// The paths of each field, `[paths, horizon]`, all of one length.
fn fields(forecast: &Forecast) -> Result<[&[f32]; 6]> {
    let named = forecast.variates().iter().map(|variate| match variate.distribution() {
        Distribution::Paths { values, .. } => (variate.name(), &values[..]),
        Distribution::Mixture(_) | Distribution::Samples { .. } | Distribution::Mean(_) => (variate.name(), &[][..]),
    });
    let (names, values): (Vec<&str>, Vec<&[f32]>) = named.unzip();
    let whole = values.iter().all(|paths| !paths.is_empty() && paths.len() == values[0].len());
    match <[&[f32]; 6]>::try_from(values) {
        Ok(values) if names == Candles::FIELDS && whole => Ok(values),
        _ => Err(Error::Data(format!("a forecast of {} is no forecast of candles with paths", names.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::super::CandleColumns;
    use super::*;

    const SOUND: [f32; 6] = [2.0, 4.0, 1.0, 3.0, 10.0, 25.0];

    fn past(price: f64) -> Candles {
        with_volume(price, Some(vec![7.0]))
    }

    fn with_volume(price: f64, volume: Option<Vec<f64>>) -> Candles {
        let prices = || vec![price];
        let columns =
            CandleColumns { open: prices(), high: prices(), low: prices(), close: prices(), volume, amount: None };
        Candles::new("x", columns, vec![date(2024, 1, 2).at(0, 0, 0, 0)], Vec::new()).unwrap()
    }

    #[test]
    fn every_contradiction_is_counted() {
        let paths = [
            SOUND,
            [2.0, 2.5, 1.0, 3.0, 10.0, 25.0],
            [2.0, 4.0, 2.5, 3.0, 10.0, 25.0],
            [2.0, 1.0, 4.0, 3.0, 10.0, 25.0],
            [2.0, 4.0, 1.0, 3.0, -1.0, -2.0],
            [0.5, 1.0, 0.0, 1.0, 0.0, 0.0],
        ];
        let expected = Consistency {
            bars: 6,
            high_below_open_or_close: 2,
            low_above_open_or_close: 2,
            high_below_low: 1,
            negative_volume: 1,
            negative_amount: 1,
            non_positive_price: 1,
            inconsistent: 5,
            share: 5.0 / 6.0,
        };
        assert_eq!(Consistency::of_paths(&paths.concat(), &past(1.0)), expected);
        // A market that was below zero may go there again.
        let negative = Consistency { non_positive_price: 0, inconsistent: 4, share: 4.0 / 6.0, ..expected };
        assert_eq!(Consistency::of_paths(&paths.concat(), &past(-1.0)), negative);
        // A market without volume has none to contradict.
        let untraded =
            Consistency { negative_volume: 0, negative_amount: 0, inconsistent: 4, share: 4.0 / 6.0, ..expected };
        assert_eq!(Consistency::of_paths(&paths.concat(), &with_volume(1.0, None)), untraded);
        let wide: Vec<f64> = paths.concat().iter().copied().map(f64::from).collect();
        assert_eq!(Consistency::of_paths(&wide, &past(1.0)), expected);
        assert_eq!(Consistency::of_paths::<f32>(&[], &past(1.0)), Consistency::default());
    }

    #[test]
    fn repair_mends_what_is_counted_and_nothing_else() {
        let mut paths = [
            SOUND,
            [2.0, 2.5, 1.0, 3.0, 10.0, 25.0],
            [2.0, 4.0, 2.5, 3.0, 10.0, 25.0],
            [2.0, 1.0, 4.0, 3.0, 10.0, 25.0],
            [2.0, 4.0, 1.0, 3.0, -1.0, -2.0],
        ]
        .concat();
        repair(&mut paths);
        let expected = [
            SOUND,
            [2.0, 3.0, 1.0, 3.0, 10.0, 25.0],
            [2.0, 4.0, 2.0, 3.0, 10.0, 25.0],
            [2.0, 4.0, 1.0, 3.0, 10.0, 25.0],
            [2.0, 4.0, 1.0, 3.0, 0.0, 0.0],
        ];
        assert_eq!(paths, expected.concat());
        assert_eq!(Consistency::of_paths(&paths, &past(1.0)).inconsistent, 0);
    }

    #[test]
    fn forecasts_are_looked_at_and_mended_field_by_field() {
        // Two paths of two steps; the second step of the first path has its high below its close.
        let bars = [SOUND, [2.0, 2.5, 1.0, 3.0, 10.0, 25.0], SOUND, [1.0, 9.0, 0.5, 2.0, -3.0, 1.0]];
        let variates = Candles::FIELDS.iter().enumerate().map(|(field, name)| {
            let values = bars.iter().map(|bar| bar[field]).collect();
            VariateForecast::new(*name, Distribution::Paths { samples: 2, values }).unwrap()
        });
        let forecast = Forecast::new(variates.collect()).unwrap();
        let consistency = Consistency::of_forecast(&forecast, &past(1.0)).unwrap();
        assert_eq!((consistency.bars, consistency.inconsistent, consistency.negative_volume), (4, 2, 1));
        let mended = repair_forecast(&forecast).unwrap();
        assert_eq!(Consistency::of_forecast(&mended, &past(1.0)).unwrap().inconsistent, 0);
        let high: Vec<&[f32]> = mended.variate("high").unwrap().paths().unwrap().collect();
        assert_eq!(high, [[4.0, 3.0], [4.0, 9.0]]);
        let other =
            Forecast::new(vec![VariateForecast::new("close", Distribution::Mean(vec![1.0].into())).unwrap()]).unwrap();
        assert_eq!(
            Consistency::of_forecast(&other, &past(1.0)).unwrap_err().to_string(),
            "a forecast of close is no forecast of candles with paths"
        );
    }
}
