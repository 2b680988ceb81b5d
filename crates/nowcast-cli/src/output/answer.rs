//! The answer of one run, ready to be rendered: checked shapes, every number computed once.

use std::ops::Range;

use nowcast::data::{Stamp, Style, Table};
use nowcast::forecast::{Aggregation, Distribution, VariateForecast};
use nowcast::{Error, Result};
use serde_json::Value;

use super::market::{Market, MarketForecast};

/// What was asked of one run.
#[derive(Debug, Clone)]
pub struct Question {
    /// Model name, as the user gave it.
    pub model: String,
    /// Number of future steps.
    pub horizon: usize,
    /// Number of past values the model was allowed to see.
    pub context: usize,
    /// The rule behind the column `point`.
    pub point: Aggregation,
    /// Quantile levels in the order to print; none for mean paths.
    pub levels: Vec<f64>,
    /// Whether the sample paths belong to the answer.
    pub paths: bool,
    /// Settings by name, in the order to print.
    pub settings: Vec<(String, Value)>,
}

/// Everything one run of `nowcast forecast` says, whatever the format it says it in.
#[derive(Debug, Clone)]
pub struct Answer {
    question: Question,
    series: Vec<SeriesAnswer>,
    markets: Vec<Market>,
    /// Counters and times of the run, in the order to print.
    pub stats: Vec<(String, Value)>,
    /// What the user should know: sorted rows, masked values and the like.
    pub notes: Vec<String>,
}

impl Answer {
    /// An answer without series yet.
    ///
    /// # Errors
    /// A quantile level that is asked for twice.
    pub fn new(question: Question) -> Result<Self> {
        let twice = question.levels.iter().enumerate().find(|(at, level)| question.levels[..*at].contains(level));
        if let Some((_, level)) = twice {
            return Err(Error::Setting(format!("the quantile level {level} is asked for twice: once is enough")));
        }
        Ok(Self { question, series: Vec::new(), markets: Vec::new(), stats: Vec::new(), notes: Vec::new() })
    }

    /// Adds one variate and computes its point forecast, mean and quantiles together.
    ///
    /// `history` holds the last past values, as many as a chart shall show, NaN where missing; `timeline` covers them
    /// and then the horizon.
    ///
    /// # Errors
    /// Another horizon than asked for, a time axis of another length, or a rule or level that this forecast cannot
    /// answer.
    pub fn push(&mut self, history: Vec<f32>, timeline: Timeline, forecast: VariateForecast) -> Result<()> {
        let (name, horizon) = (forecast.name().to_string(), forecast.horizon());
        if horizon != self.question.horizon {
            return Err(Error::Data(format!(
                "{name:?} is forecast {horizon} steps ahead where {} were asked for",
                self.question.horizon
            )));
        }
        if timeline.len() != history.len() + horizon {
            return Err(Error::Data(format!(
                "the time axis of {name:?} has {} stamps for {} past values and {horizon} future steps",
                timeline.len(),
                history.len()
            )));
        }
        let mut rules = vec![self.question.point, Aggregation::Mean];
        rules.extend(self.question.levels.iter().map(|&level| Aggregation::Quantile(level)));
        let mut results = forecast.points(&rules)?.into_iter();
        let (point, mean) = (results.next().unwrap_or_default(), results.next().unwrap_or_default());
        let quantiles = results.collect();
        self.series.push(SeriesAnswer { name, history, timeline, forecast, point, mean, quantiles });
        Ok(())
    }

    /// Adds the six series of one market.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_market(&mut self, market: MarketForecast) -> Result<()> {
        let MarketForecast { name, history, timeline, forecast, consistency, repaired } = market;
        let first = self.series.len();
        for (variate, past) in forecast.into_variates().into_iter().zip(history) {
            let variate_name = format!("{name}/{}", variate.name());
            self.push(past, timeline.clone(), variate.renamed(variate_name))?;
        }
        self.markets.push(Market { name, consistency, repaired, first });
        Ok(())
    }

    /// What was asked.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// One entry per variate, in the order they were added.
    pub fn series(&self) -> &[SeriesAnswer] {
        &self.series
    }

    /// The markets, where series are fields of candles; none for series of their own.
    pub fn markets(&self) -> &[Market] {
        &self.markets
    }

    /// The series of a market, in the order of the fields of a candle.
    pub fn fields(&self, market: &Market) -> &[SeriesAnswer] {
        &self.series[market.range()]
    }

    /// One line: model, horizon, context and how the distribution was obtained.
    pub fn headline(&self) -> String {
        let Question { model, horizon, context, .. } = &self.question;
        let (step, value) = if self.markets.is_empty() { ("step", "value") } else { ("bar", "bar") };
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let (steps, values) = (plural(*horizon), plural(*context));
        let source = match self.series.first().map(|series| series.forecast.distribution()) {
            Some(Distribution::Paths { samples: 1, .. } | Distribution::Samples { samples: 1, .. }) => {
                ", 1 sample path".into()
            }
            Some(Distribution::Paths { samples, .. } | Distribution::Samples { samples, .. }) => {
                format!(", {samples} sample paths")
            }
            Some(Distribution::Mixture(_)) => ", exact distribution".into(),
            Some(Distribution::Mean(_)) => ", mean path".into(),
            None => String::new(),
        };
        format!("{model}: {horizon} {step}{steps} ahead from {context} past {value}{values}{source}")
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

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    fn mean_path(horizon: usize) -> VariateForecast {
        VariateForecast::new("load", Distribution::Mean(vec![1.0; horizon].into())).unwrap()
    }

    #[test]
    fn shapes_must_agree() {
        let mut answer = Answer::new(Question { levels: Vec::new(), ..example::question() }).unwrap();
        let mut refuse = |past: usize, steps: i64, horizon: usize| {
            answer.push(vec![0.0; past], Timeline::Numbered(0..steps), mean_path(horizon)).unwrap_err().to_string()
        };
        assert_eq!(refuse(0, 4, 4), "\"load\" is forecast 4 steps ahead where 3 were asked for");
        assert_eq!(refuse(2, 4, 3), "the time axis of \"load\" has 4 stamps for 2 past values and 3 future steps");
        answer.push(vec![0.0; 2], Timeline::Numbered(0..5), mean_path(3)).unwrap();
        assert_eq!(answer.series()[0].future_stamp(0), "2");
        assert_eq!(answer.headline(), "nano: 3 steps ahead from 4 past values, mean path");
    }

    #[test]
    fn questions_must_be_answerable() {
        let mut answer = Answer::new(example::question()).unwrap();
        let message = answer.push(Vec::new(), Timeline::Numbered(0..3), mean_path(3)).unwrap_err().to_string();
        assert!(message.starts_with("quantile_0.1 needs a distribution"), "{message}");
        let twice = Question { levels: vec![0.1, 0.5, 0.1], ..example::question() };
        assert_eq!(
            Answer::new(twice).unwrap_err().to_string(),
            "the quantile level 0.1 is asked for twice: once is enough"
        );
    }

    #[test]
    fn tables_give_the_time_axis() {
        let file = "Date,Close\n2024-01-02,1\n2024-01-03,2\n2024-01-04,3\n";
        let table = Table::from_reader("prices", file.as_bytes(), &Default::default()).unwrap();
        let timeline = Timeline::of_table(&table, 2, 2);
        let texts: Vec<String> = (0..timeline.len()).map(|step| timeline.text(step)).collect();
        assert_eq!(texts, ["2024-01-03", "2024-01-04", "2024-01-05", "2024-01-06"]);
        let table = Table::from_reader("loads", "a\n1\n2\n3\n".as_bytes(), &Default::default()).unwrap();
        assert!(matches!(Timeline::of_table(&table, 2, 4), Timeline::Numbered(steps) if steps == (1..7)));
        assert_eq!(Timeline::of_table(&table, usize::MAX, 0).len(), 3);
    }
}
