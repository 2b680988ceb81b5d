//! Input that is the same on every machine: random walks from a linear congruential generator.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use nowcast::{CandleColumns, Candles, Result, Series};

/// The size of what is made up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Synthetic {
    /// Past steps.
    pub(super) context: usize,
    /// Variates of each series.
    pub(super) variates: usize,
    /// Bars whose times are told.
    pub(super) horizon: usize,
}

/// Numbers that look random enough for a benchmark.
struct Generator(u64);

impl Generator {
    /// The next number, -0.5 to 0.5.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1 << 24) - 0.5
    }
}

impl Synthetic {
    /// Random walks around 100.
    pub(super) fn series(&self, item: usize) -> Result<Series> {
        let variates = (0..self.variates).map(|variate| {
            let mut random = Generator((item * self.variates + variate) as u64 + 1);
            let mut level = 100.0f64;
            let values = (0..self.context).map(|_| {
                level += random.next();
                level as f32
            });
            (format!("item {item} variate {variate}"), values.collect())
        });
        Series::multivariate(variates.collect())
    }

    /// Bars of five minutes around 100, each opening where the one before closed.
    pub(super) fn candles(&self, item: usize) -> Result<Candles> {
        let mut random = Generator(item as u64 + 1);
        let mut columns = CandleColumns { volume: Some(Vec::new()), ..CandleColumns::default() };
        let mut last = 100.0f64;
        for _ in 0..self.context {
            let (open, close) = (last, last * (1.0 + random.next() / 100.0));
            let [above, below] = [random.next(), random.next()].map(|number| number.abs() / 200.0);
            columns.open.push(open);
            columns.high.push(open.max(close) * (1.0 + above));
            columns.low.push(open.min(close) * (1.0 - below));
            columns.close.push(close);
            columns.volume.get_or_insert_default().push(1000.0 * (1.0 + random.next()));
            last = close;
        }
        let start = date(2024, 1, 1).at(0, 0, 0, 0);
        let stamp = |bar: usize| -> DateTime {
            let minutes = i64::try_from(bar).unwrap_or(i64::MAX).saturating_mul(5);
            start.saturating_add(SignedDuration::from_secs(minutes.saturating_mul(60)))
        };
        let stamps = (0..self.context).map(stamp).collect();
        // Of a longer horizon the forecaster says what is wrong.
        let horizon = self.horizon.min(Candles::MOST_FUTURE);
        let future = (self.context..self.context + horizon).map(stamp).collect();
        Candles::new(format!("market {item}"), columns, stamps, future)
    }
}

#[cfg(test)]
mod tests {
    use nowcast::candles::Consistency;

    use super::*;

    #[test]
    fn candles_are_sound_and_differ_from_market_to_market() {
        let synthetic = Synthetic { context: 500, variates: 1, horizon: 7 };
        let [first, second] = [0, 1].map(|item| synthetic.candles(item).unwrap());
        assert_eq!((first.len(), first.future().len()), (500, 7));
        assert_eq!(Consistency::of_bars(first.rows().iter().copied()).inconsistent, 0);
        assert_eq!(first.future()[0].duration_since(first.stamps()[499]), SignedDuration::from_mins(5));
        assert_ne!(first.rows(), second.rows());
        assert_eq!(first, synthetic.candles(0).unwrap());
    }
}
