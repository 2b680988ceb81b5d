//! A market among the series of an answer: its six fields belong together.

use nowcast::candles::Consistency;
use nowcast::{Candles, Forecast};

use super::Timeline;

/// The forecast of one market's candles, ready to become part of an answer.
#[derive(Debug, Clone)]
pub struct MarketForecast {
    /// Name of the market; its series are called `<name>/<field>`.
    pub name: String,
    /// The last past values of each field, as many as a chart shall show.
    pub history: [Vec<f32>; 6],
    /// The time axis: the past of `history` and then the horizon.
    pub timeline: Timeline,
    /// The forecast, its variates in the order of [`Candles::FIELDS`].
    pub forecast: Forecast,
    /// How many of the sampled bars contradict themselves, as they were drawn.
    pub consistency: Consistency,
    /// Whether such bars were mended.
    pub repaired: bool,
}

/// One market of an answer.
#[derive(Debug, Clone)]
pub struct Market {
    /// Name of the market.
    pub name: String,
    /// How many of the sampled bars contradict themselves, as they were drawn.
    pub consistency: Consistency,
    /// Whether such bars were mended.
    pub repaired: bool,
    /// Where its series begin among those of the answer.
    pub(super) first: usize,
}

impl Market {
    /// The place of each of its series, in the order of [`Candles::FIELDS`], among those of the answer.
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.first..self.first + Candles::FIELDS.len()
    }

    /// What is told to people, if there is anything.
    pub fn note(&self) -> Option<String> {
        let found = self.consistency.summary("sampled bars")?;
        let cure = if self.repaired { "repaired" } else { "--repair mends them" };
        Some(format!("{}: {found}: {cure}", self.name))
    }
}
