//! A backtest as a whole: symbols, windows, and the evaluation of one forecaster after the other.

use serde::Serialize;

use super::prediction::change;
use super::scores::mean;
use super::simulation::{is_tradable, simulate};
use super::{
    Calendar, Costs, DECILES, History, Ledger, Performance, Portfolio, Prediction, Predictor, Question, RankIc, Ranked,
    Rhythm, Rules, Scored, Scores, Strategy, Symbol, Windows,
};
use crate::{Error, Result, metrics};

/// What is backtested, whoever forecasts. Start from [`BacktestOptions::new`] and change what matters.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BacktestOptions {
    /// Which windows.
    pub windows: Windows,
    /// Strategies to trade.
    pub strategies: Vec<Strategy>,
    /// What trading costs.
    pub costs: Costs,
    /// Nothing is sold short.
    pub long_only: bool,
    /// Days of a year.
    pub calendar: Calendar,
    /// Share that the central interval shall hold, whose coverage is scored.
    pub interval: f64,
    /// Bars of a season, for MASE; `None` takes that of each symbol's rhythm.
    pub season: Option<usize>,
}

impl BacktestOptions {
    /// The strategy `sign`, free of costs, both ways, and an interval of 80%.
    pub fn new(windows: Windows) -> Self {
        Self {
            windows,
            strategies: vec![Strategy::Sign],
            costs: Costs::default(),
            long_only: false,
            calendar: Calendar::default(),
            interval: 0.8,
            season: None,
        }
    }

    fn check(&self) -> Result<()> {
        self.windows.check()?;
        self.costs.check()?;
        if !(self.interval > 0.0 && self.interval < 1.0) {
            return Err(Error::Setting(format!(
                "the interval is {}: choose a share between 0 and 1, such as 0.8",
                self.interval
            )));
        }
        if self.season == Some(0) {
            return Err(Error::Setting("the season is 0: choose at least 1 bar".into()));
        }
        Ok(())
    }

    /// What every window is asked.
    pub fn question(&self) -> Question {
        let mut levels = DECILES.to_vec();
        levels.extend([0.5 - self.interval / 2.0, 0.5 + self.interval / 2.0]);
        levels.extend(self.strategies.iter().flat_map(|strategy| strategy.levels()));
        levels.sort_by(f64::total_cmp);
        levels.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
        let high_and_low = self.strategies.iter().any(|strategy| strategy.needs_high_and_low());
        Question { horizon: self.windows.horizon, levels, high_and_low }
    }
}

/// Symbols with their windows, ready to evaluate forecasters on.
#[derive(Debug, Clone)]
pub struct Backtest {
    symbols: Vec<Symbol>,
    /// Origins of each symbol.
    origins: Vec<Vec<usize>>,
    rhythms: Vec<Rhythm>,
    seasons: Vec<usize>,
    contexts: Vec<usize>,
    question: Question,
    options: BacktestOptions,
}

/// What came of one forecaster.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Its name.
    pub name: String,
    /// The forecasts, `[symbols][windows]`.
    pub predictions: Vec<Vec<Prediction>>,
    /// The scores of each symbol.
    pub scores: Vec<Scores>,
    /// The scores of all symbols together.
    pub overall: Overall,
    /// What each strategy earned.
    pub trading: Vec<Trading>,
}

/// Scores that can be compared between symbols.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overall {
    /// Windows of all symbols.
    pub windows: usize,
    /// Mean over the symbols that have one.
    pub mase: Option<f64>,
    /// Mean over the symbols that have one.
    pub wql: Option<f64>,
    /// Mean over the symbols.
    pub coverage: f64,
    /// Mean over the symbols that have one.
    pub direction: Option<f64>,
    /// Over the symbols that share dates.
    pub rank_ic: Option<RankIc>,
}

/// One strategy traded on the forecasts of one forecaster.
#[derive(Debug, Clone)]
pub struct Trading {
    /// The strategy.
    pub strategy: Strategy,
    /// The account of each symbol; `None` where prices are not above zero and nothing can be traded.
    pub ledgers: Vec<Option<Ledger>>,
    /// Figures of each account.
    pub performance: Vec<Option<Performance>>,
    /// All traded symbols with equal weights, where there are several and their years have the same number of bars.
    pub portfolio: Option<(Portfolio, Performance)>,
}

impl Backtest {
    /// Lays out the windows of every symbol; `contexts` are the bars that each symbol's forecasters need before an origin.
    ///
    /// # Errors
    /// Options out of range, two symbols of one name, a symbol too short for its windows, or one without high and low where
    /// a strategy needs them.
    pub fn new(symbols: Vec<Symbol>, contexts: Vec<usize>, options: BacktestOptions) -> Result<Self> {
        options.check()?;
        if contexts.contains(&0) {
            return Err(Error::Setting("the context is 0: give at least 1 past bar".into()));
        }
        let question = options.question();
        for (place, symbol) in symbols.iter().enumerate() {
            if symbols[..place].iter().any(|other| other.name() == symbol.name()) {
                return Err(Error::Data(format!("two symbols are called {}: rename one of the files", symbol.name())));
            }
            if question.high_and_low && !symbol.is_candle() {
                return Err(Error::Data(format!(
                    "{}: the strategies agree and bracket need high and low, and this is a column of values; choose another \
                     --strategy, or files with open, high, low and close",
                    symbol.name()
                )));
            }
        }
        let origins = symbols.iter().zip(&contexts).map(|(symbol, &context)| options.windows.origins(symbol, context));
        let origins = origins.collect::<Result<Vec<_>>>()?;
        let rhythms: Vec<Rhythm> = symbols.iter().map(|symbol| options.calendar.rhythm(symbol)).collect();
        let seasons = rhythms.iter().map(|rhythm| options.season.unwrap_or(rhythm.season())).collect();
        Ok(Self { symbols, origins, rhythms, seasons, contexts, question, options })
    }

    /// The symbols.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// The origins of a symbol's windows: each knows the bars before it.
    ///
    /// # Panics
    /// A symbol that is not there.
    pub fn origins(&self, symbol: usize) -> &[usize] {
        &self.origins[symbol]
    }

    /// The rhythm of a symbol's bars, with the days of the year that were chosen.
    ///
    /// # Panics
    /// A symbol that is not there.
    pub fn rhythm(&self, symbol: usize) -> Rhythm {
        self.rhythms[symbol]
    }

    /// Bars of a symbol's season.
    ///
    /// # Panics
    /// A symbol that is not there.
    pub fn season(&self, symbol: usize) -> usize {
        self.seasons[symbol]
    }

    /// Windows of all symbols.
    pub fn windows(&self) -> usize {
        self.origins.iter().map(Vec::len).sum()
    }

    /// What every window is asked.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// The options.
    pub fn options(&self) -> &BacktestOptions {
        &self.options
    }

    /// Forecasts all windows, scores and trades them; `progress` hears how many windows are done, as `(done, total)`.
    ///
    /// # Errors
    /// What the forecaster refuses.
    pub fn evaluate(
        &self,
        predictor: &mut dyn Predictor,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Evaluation> {
        let histories =
            |symbol: usize| self.origins[symbol].iter().map(move |&origin| self.symbols[symbol].history(origin));
        let windows: Vec<History<'_>> = (0..self.symbols.len()).flat_map(histories).collect();
        let mut answers = predictor.predict(&windows, &self.question, progress)?.into_iter();
        let predictions: Vec<Vec<Prediction>> =
            self.origins.iter().map(|origins| answers.by_ref().take(origins.len()).collect()).collect();
        let scores: Vec<Scores> = predictions.iter().enumerate().map(|(symbol, own)| self.score(symbol, own)).collect();
        let overall = self.overall(&predictions, &scores);
        let trade = |strategy: &Strategy| self.trade(*strategy, &predictions);
        let trading = self.options.strategies.iter().map(trade).collect();
        Ok(Evaluation { name: predictor.name().to_string(), predictions, scores, overall, trading })
    }

    /// The closes that a window forecasts.
    fn actual(&self, symbol: usize, origin: usize) -> &[f64] {
        &self.symbols[symbol].closes()[origin..origin + self.question.horizon]
    }

    fn score(&self, symbol: usize, predictions: &[Prediction]) -> Scores {
        let scored = |(&origin, prediction)| {
            let known = self.symbols[symbol].history(origin);
            let seen = &known.closes()[origin.saturating_sub(self.contexts[symbol])..];
            let scale = metrics::seasonal_naive_error(seen, self.seasons[symbol]);
            Scored { prediction, actual: self.actual(symbol, origin), last: known.last_close(), scale }
        };
        let scored: Vec<Scored<'_>> = self.origins[symbol].iter().zip(predictions).map(scored).collect();
        Scores::of(&scored, &self.question, self.options.interval)
    }

    fn overall(&self, predictions: &[Vec<Prediction>], scores: &[Scores]) -> Overall {
        let over = |of: fn(&Scores) -> Option<f64>| mean(scores.iter().filter_map(of));
        let ranked = (0..self.symbols.len()).flat_map(|symbol| {
            self.origins[symbol].iter().zip(&predictions[symbol]).map(move |(&origin, prediction)| {
                let known = self.symbols[symbol].history(origin);
                let actual = self.actual(symbol, origin);
                Ranked {
                    date: known.stamps()[origin - 1].nanoseconds(),
                    expected: prediction.expected_return(known.last_close()),
                    real: change(known.last_close(), actual[actual.len() - 1]),
                }
            })
        });
        Overall {
            windows: self.windows(),
            mase: over(|scores| scores.mase),
            wql: over(|scores| scores.wql),
            coverage: over(|scores| Some(scores.coverage)).unwrap_or(f64::NAN),
            direction: over(|scores| scores.direction),
            rank_ic: RankIc::of(ranked),
        }
    }

    fn trade(&self, strategy: Strategy, predictions: &[Vec<Prediction>]) -> Trading {
        let BacktestOptions { costs, long_only, windows, .. } = &self.options;
        let rules = Rules { strategy, costs: *costs, long_only: *long_only, hold: windows.hold() };
        let ledger = |(symbol, origins): (&Symbol, &Vec<usize>), own: &Vec<Prediction>| {
            let bars = origins[0] - 1..origins[origins.len() - 1] + rules.hold;
            is_tradable(symbol, bars).then(|| simulate(symbol, origins, own, &self.question, &rules))
        };
        let ledgers: Vec<Option<Ledger>> =
            self.symbols.iter().zip(&self.origins).zip(predictions).map(|(place, own)| ledger(place, own)).collect();
        let years = self.rhythms.iter().map(|rhythm| rhythm.bars_per_year());
        let performance =
            ledgers.iter().zip(years).map(|(ledger, year)| ledger.as_ref().map(|ledger| Performance::of(ledger, year)));
        let performance: Vec<_> = performance.collect();
        let portfolio = self.portfolio(&ledgers, &performance);
        Trading { strategy, ledgers, performance, portfolio }
    }

    /// All traded symbols together, where their bars can be counted alike.
    fn portfolio(
        &self,
        ledgers: &[Option<Ledger>],
        performance: &[Option<Performance>],
    ) -> Option<(Portfolio, Performance)> {
        let traded: Vec<(usize, &Ledger, &Performance)> = (0..self.symbols.len())
            .filter_map(|symbol| Some((symbol, ledgers[symbol].as_ref()?, performance[symbol].as_ref()?)))
            .collect();
        let year = self.rhythms[traded.first()?.0].bars_per_year();
        if traded.len() < 2 || traded.iter().any(|(symbol, ..)| self.rhythms[*symbol].bars_per_year() != year) {
            return None;
        }
        let times = |symbol: usize, ledger: &Ledger| {
            let stamps = &self.symbols[symbol].stamps()[ledger.first_bar..ledger.first_bar + ledger.equity.len()];
            stamps.iter().map(|stamp| stamp.nanoseconds()).collect()
        };
        let portfolio = Portfolio::of(traded.iter().map(|&(symbol, ledger, _)| (ledger, times(symbol, ledger))));
        let over = |of: fn(&Performance) -> f64| mean(traded.iter().map(|(_, _, own)| of(own))).unwrap_or(0.0);
        let trades: usize = traded.iter().map(|(_, _, own)| own.trades).sum();
        let winners: usize =
            traded.iter().flat_map(|(_, ledger, _)| &ledger.trades).filter(|trade| trade.profit > 0.0).count();
        let figures = Performance {
            turnover: over(|own| own.turnover),
            exposure: over(|own| own.exposure),
            trades,
            winners: (trades > 0).then(|| winners as f64 / trades as f64),
            costs: over(|own| own.costs),
            ..Performance::of_curve(&portfolio.equity, year)
        };
        Some((portfolio, figures))
    }
}
