//! The answer of one run, ready to be rendered: checked shapes, every number computed once.

use std::ops::Range;

use nowcast::data::{Stamp, Style, Table};
use nowcast::forecast::{Aggregation, Distribution, VariateForecast};
use nowcast::{Error, Result};
use serde_json::Value;

/// Everything one run of `nowcast forecast` says, whatever the format it says it in.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Model name, as the user gave it.
    pub model: String,
    /// Number of future steps.
    pub horizon: usize,
    /// Number of past values the model was allowed to see.
    pub context: usize,
    /// The rule behind the column `point`.
    pub point: Aggregation,
    /// Quantile levels in the order asked for; none for mean paths.
    pub levels: Vec<f64>,
    /// Whether the sample paths belong to the answer.
    pub paths: bool,
    /// Settings by name, in the order to print.
    pub settings: Vec<(String, Value)>,
    /// One entry per variate.
    pub series: Vec<SeriesAnswer>,
    /// Counters and times of the run.
    pub stats: Vec<(String, Value)>,
    /// What the user should know: sorted rows, masked values and the like.
    pub notes: Vec<String>,
}

impl Answer {
    /// One line: model, horizon, context and how the distribution was obtained.
    pub fn headline(&self) -> String {
        let steps = |count: usize| if count == 1 { "step" } else { "steps" };
        let mut line = format!("{}: {} {} ahead", self.model, self.horizon, steps(self.horizon));
        line += &format!(" from {} past {}", self.context, if self.context == 1 { "value" } else { "values" });
        line += &match self.series.first().map(|series| series.forecast.distribution()) {
            Some(Distribution::Paths { samples: 1, .. }) => ", 1 sample path".into(),
            Some(Distribution::Paths { samples, .. }) => format!(", {samples} sample paths"),
            Some(Distribution::Mixture(_)) => ", exact distribution".into(),
            Some(Distribution::Mean(_)) => ", mean path".into(),
            None => String::new(),
        };
        line
    }
}

/// The time axis of one series: the last steps of its past and, after them, its future.
#[derive(Debug, Clone)]
pub enum Timeline {
    /// Points in time.
    Dated {
        /// One for each step, ascending.
        stamps: Vec<Stamp>,
        /// How the input writes them.
        style: Style,
    },
    /// Numbers of the steps, for input without a time column.
    Numbered(Range<i64>),
}

impl Timeline {
    /// The last `past` rows of a table and the `horizon` steps that follow it.
    ///
    /// Steps are numbered, from 0 at the first row, where the table has no stamps or none that can be continued.
    pub fn of_table(table: &Table, past: usize, horizon: usize) -> Self {
        let first = table.rows().saturating_sub(past);
        match (&table.times, table.future(horizon)) {
            (Some(times), Some(future)) => {
                Self::Dated { stamps: [&times.stamps[first..], &future].concat(), style: times.style.clone() }
            }
            _ => Self::Numbered(first as i64..table.rows().saturating_add(horizon) as i64),
        }
    }

    /// Number of time steps.
    pub fn len(&self) -> usize {
        match self {
            Self::Dated { stamps, .. } => stamps.len(),
            Self::Numbered(numbers) => numbers.end.saturating_sub(numbers.start).try_into().unwrap_or(0),
        }
    }

    /// Whether there is no time step.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stamp of one time step as text.
    ///
    /// # Panics
    /// A step beyond [`len`](Self::len).
    pub fn text(&self, step: usize) -> String {
        match self {
            Self::Dated { stamps, style } => style.write(&stamps[step]),
            Self::Numbered(numbers) => (numbers.start + step as i64).to_string(),
        }
    }
}

/// The answer for one variate: its past, its future stamps and its forecast, with the asked numbers computed.
#[derive(Debug, Clone)]
pub struct SeriesAnswer {
    name: String,
    history: Vec<f32>,
    timeline: Timeline,
    forecast: VariateForecast,
    point: Vec<f64>,
    mean: Vec<f64>,
    quantiles: Vec<Vec<f64>>,
}

impl SeriesAnswer {
    /// Joins history, time axis and forecast, and computes the point forecast and the quantiles together.
    ///
    /// `history` holds the last past values, as many as a chart shall show, NaN where missing; `timeline` covers them
    /// and then the horizon.
    ///
    /// # Errors
    /// A time axis of another length, or a rule or level that this forecast cannot answer.
    pub fn new(
        history: Vec<f32>,
        timeline: Timeline,
        forecast: VariateForecast,
        point: Aggregation,
        levels: &[f64],
    ) -> Result<Self> {
        let name = forecast.name().to_string();
        if timeline.len() != history.len() + forecast.horizon() {
            return Err(Error::Data(format!(
                "the time axis of {name:?} has {} stamps for {} past values and {} future steps",
                timeline.len(),
                history.len(),
                forecast.horizon()
            )));
        }
        let mut rules = vec![point, Aggregation::Mean];
        rules.extend(levels.iter().map(|&level| Aggregation::Quantile(level)));
        let mut results = forecast.points(&rules)?.into_iter();
        let point = results.next().unwrap_or_default();
        let mean = results.next().unwrap_or_default();
        Ok(Self { name, history, timeline, point, mean, quantiles: results.collect(), forecast })
    }

    /// Name of the variate.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The last past values, NaN where missing.
    pub fn history(&self) -> &[f32] {
        &self.history
    }

    /// The time axis: the past and then the future.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The forecast itself.
    pub fn forecast(&self) -> &VariateForecast {
        &self.forecast
    }

    /// Number of future steps.
    pub fn horizon(&self) -> usize {
        self.forecast.horizon()
    }

    /// The stamp of one future step, from 0.
    pub fn future_stamp(&self, step: usize) -> String {
        self.timeline.text(self.history.len() + step)
    }

    /// The point forecast, `[horizon]`.
    pub fn point(&self) -> &[f64] {
        &self.point
    }

    /// The mean, `[horizon]`.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The quantiles, `[levels, horizon]`.
    pub fn quantiles(&self) -> &[Vec<f64>] {
        &self.quantiles
    }
}
