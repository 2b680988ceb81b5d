//! The forecasts everybody can make without a model: what a model must beat.

use std::fmt;

use nowcast_engine::random::{Stream, series_key};

use super::{Calendar, History, Prediction, Predictor, Price, Question, Symbol};
use crate::Result;

/// A forecaster without a model.
///
/// Quantiles are the point forecast plus the errors that the same rule made within the context at the same step, taken
/// with both signs, so that their median is the point forecast. No rule looks further back than the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// Tomorrow is as today.
    Naive,
    /// Tomorrow is as the same bar of the last season.
    SeasonalNaive,
    /// The price rises by its typical change (the median of the absolute changes over so many bars): always long.
    BuyAndHold,
    /// The price rises or falls by its typical change, as a coin says.
    CoinFlip,
}

impl Reference {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Naive, Self::SeasonalNaive, Self::BuyAndHold, Self::CoinFlip];
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Naive => "naive",
            Self::SeasonalNaive => "seasonal naive",
            Self::BuyAndHold => "buy and hold",
            Self::CoinFlip => "coin flip",
        })
    }
}

/// A reference with what it needs to know.
#[derive(Debug, Clone)]
pub struct ReferencePredictor {
    reference: Reference,
    name: String,
    /// Bars looked back.
    context: usize,
    /// Bars of a season; `None` takes that of each symbol's rhythm.
    season: Option<usize>,
    /// Seed of the coin.
    seed: u64,
}

impl ReferencePredictor {
    /// A reference that looks back `context` bars.
    pub fn new(reference: Reference, context: usize, season: Option<usize>, seed: u64) -> Self {
        Self { reference, name: reference.to_string(), context, season, seed }
    }

    fn predict_one(&self, window: &History<'_>, question: &Question) -> Prediction {
        let sign = match self.reference {
            Reference::CoinFlip => coin(self.seed, window),
            _ => 1.0,
        };
        let season = self.season(window);
        let known = |price: Price| Some(self.tail(window.prices(price)?));
        let points = |price: Price| {
            let known = known(price)?;
            Some((1..=question.horizon).map(|step| self.point(known, step, season, sign)).collect::<Vec<f64>>())
        };
        let close = points(Price::Close).unwrap_or_default();
        let closes = self.tail(window.closes());
        let mut quantiles = vec![Vec::with_capacity(question.horizon); question.levels.len()];
        for (step, point) in close.iter().enumerate() {
            let errors = absolute_changes(closes, self.lag(closes, step + 1, season));
            for (quantile, &level) in quantiles.iter_mut().zip(&question.levels) {
                quantile.push(point + symmetric_quantile(&errors, level));
            }
        }
        let needed = |price: Price| question.high_and_low.then(|| points(price)).flatten();
        Prediction { quantiles, open: None, high: needed(Price::High), low: needed(Price::Low), close }
    }

    /// The part of a history that is looked at.
    fn tail<'a>(&self, values: &'a [f64]) -> &'a [f64] {
        &values[values.len().saturating_sub(self.context)..]
    }

    fn season(&self, window: &History<'_>) -> usize {
        match (self.reference, self.season) {
            (_, Some(season)) => season,
            (Reference::SeasonalNaive, None) => {
                let stamps = window.stamps();
                Calendar::Auto.rhythm_of(&stamps[stamps.len().saturating_sub(self.context)..]).season()
            }
            _ => 1,
        }
    }

    /// How far back the bar is that a step is forecast from: of whole seasons, so many that it is known.
    fn lag(&self, known: &[f64], step: usize, season: usize) -> usize {
        match self.reference {
            Reference::SeasonalNaive if season <= known.len() => step.div_ceil(season).saturating_mul(season),
            _ => step,
        }
    }

    /// The point forecast of a step, from 1.
    fn point(&self, known: &[f64], step: usize, season: usize, sign: f64) -> f64 {
        let last = known.len() - 1;
        match self.reference {
            Reference::Naive => known[last],
            // Seasons longer than the context leave the last value.
            Reference::SeasonalNaive => known[(last + step).saturating_sub(self.lag(known, step, season))],
            Reference::BuyAndHold | Reference::CoinFlip => known[last] + sign * middle(&absolute_changes(known, step)),
        }
    }
}

/// The absolute changes over `lag` bars, ascending.
fn absolute_changes(known: &[f64], lag: usize) -> Vec<f64> {
    let mut changes: Vec<f64> =
        known.iter().skip(lag).zip(known).map(|(after, before)| (after - before).abs()).collect();
    changes.sort_unstable_by(f64::total_cmp);
    changes
}

impl Predictor for ReferencePredictor {
    fn name(&self) -> &str {
        &self.name
    }

    fn context(&self, _: &Symbol, _: usize) -> usize {
        1
    }

    fn predict(
        &mut self,
        windows: &[History<'_>],
        question: &Question,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Prediction>> {
        let predict = |(done, window): (usize, &History<'_>)| {
            progress(done + 1, windows.len());
            self.predict_one(window, question)
        };
        Ok(windows.iter().enumerate().map(predict).collect())
    }
}

/// 1 or -1, from the seed, the symbol's name and the time of the last known bar alone.
fn coin(seed: u64, window: &History<'_>) -> f64 {
    let seconds = window.stamps().last().map_or(0, |stamp| (stamp.nanoseconds() / 1_000_000_000) as i64);
    let stream = Stream { seed, series: series_key(window.name()), sample: (seconds >> 32) as u32, step: 0 };
    if stream.words(seconds as u32)[0] & 1 == 0 { 1.0 } else { -1.0 }
}

/// The median of ascending values; 0 of none.
fn middle(ascending: &[f64]) -> f64 {
    match ascending.len() {
        0 => 0.0,
        length => (ascending[(length - 1) / 2] + ascending[length / 2]) / 2.0,
    }
}

/// The quantile of errors of these sizes and both signs, interpolated linearly; 0 without errors.
fn symmetric_quantile(ascending: &[f64], level: f64) -> f64 {
    let count = ascending.len();
    if count == 0 {
        return 0.0;
    }
    // Position 0 is the largest error with its sign reversed, position 2n - 1 the largest error.
    let error = |place: usize| match place.checked_sub(count) {
        Some(upper) => ascending[upper.min(count - 1)],
        None => -ascending[count - 1 - place],
    };
    let position = level * (2 * count - 1) as f64;
    let below = position.floor();
    let (low, high) = (error(below as usize), error(below as usize + 1));
    low + (position - below) * (high - low)
}
