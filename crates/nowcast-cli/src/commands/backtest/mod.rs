//! `nowcast backtest`: files in, scored and traded forecasts of their past out.

mod forecasters;
mod settings;

use std::path::Path;

use nowcast::Result;
use nowcast::backtest::{
    Backtest, BacktestOptions, Calendar, Costs, Predictor, Reference, ReferencePredictor, Symbol, Windows,
};
use nowcast_cli::output::{BacktestAnswer, SheetFormat, forecasts, render_backtest, trades, write_file};

use nowcast_cli::report::{check_report, render_report};

use super::{files, print, symbols};
use crate::arguments::{BacktestArguments, CalendarName};
use crate::message;
use crate::progress::Progress;

/// Windows of a symbol where neither their number nor their times are given.
const DEFAULT_WINDOWS: usize = 100;

pub(crate) fn run(arguments: &BacktestArguments) -> Result<()> {
    let out = files::out(arguments.out.as_deref());
    let format = files::format(arguments.output, out)?;
    let sheet = |path: &Option<std::path::PathBuf>| path.as_deref().map(SheetFormat::of).transpose();
    let (forecast_format, trade_format) = (sheet(&arguments.forecasts)?, sheet(&arguments.trades)?);
    let outputs = [out, arguments.report.as_deref(), arguments.forecasts.as_deref(), arguments.trades.as_deref()];
    files::check(arguments.files.iter().map(|path| path.as_path()), outputs.into_iter().flatten())?;
    arguments.report.as_deref().map(check_report).transpose()?;
    let options = options(arguments);
    let (symbols, mut notes) = symbols::read(&arguments.files, &arguments.columns, arguments.time.as_ref())?;
    // What cannot work is said before a model is fetched and loaded.
    let shortest = vec![arguments.context.unwrap_or(1); symbols.len()];
    Backtest::new(symbols.clone(), shortest, options.clone())?;

    let mut models = forecasters::load(arguments, &symbols)?;
    if models.any_candles {
        notes.extend(symbols::candle_notes(&symbols));
    }
    let longest = |symbol: &Symbol| {
        let contexts = models.forecasters.iter().map(|model| model.context(symbol, arguments.horizon));
        contexts.max().unwrap_or(1)
    };
    let contexts: Vec<usize> = symbols.iter().map(longest).collect();
    let look_back = contexts.iter().copied().max().unwrap_or(1);
    let backtest = Backtest::new(symbols, contexts, options)?;
    notes.extend(fewer_windows(arguments, &backtest));

    let mut references: Vec<ReferencePredictor> = Reference::ALL
        .iter()
        .map(|reference| ReferencePredictor::new(*reference, look_back, arguments.season, arguments.seed))
        .collect();
    let settings = settings::list(arguments, &backtest, &models, look_back);
    let count = models.forecasters.len();
    let all = models.forecasters.iter_mut().map(|model| &mut **model as &mut dyn Predictor);
    let all: Vec<&mut dyn Predictor> = all.chain(references.iter_mut().map(|one| one as &mut dyn Predictor)).collect();
    let (each, runs) = (backtest.windows(), all.len());
    let mut progress = Progress::new("forecasting the past");
    progress.update(0, runs * each);
    let mut evaluations = Vec::with_capacity(runs);
    for predictor in all {
        let before = evaluations.len() * each;
        evaluations.push(backtest.evaluate(predictor, &mut |done, _| progress.update(before + done, runs * each))?);
    }
    drop(progress);
    let answer = BacktestAnswer { settings, backtest, evaluations, models: count, notes };

    // Nothing is said or written before all of it is there.
    let results = render_backtest(&answer, format)?;
    let mut written: Vec<(&Path, Vec<u8>)> = Vec::new();
    if let Some(path) = arguments.report.as_deref() {
        written.push((path, render_report(&answer)));
    }
    if let (Some(path), Some(format)) = (arguments.forecasts.as_deref(), forecast_format) {
        written.push((path, forecasts(&answer).render(format)?));
    }
    if let (Some(path), Some(format)) = (arguments.trades.as_deref(), trade_format) {
        written.push((path, trades(&answer).render(format)?));
    }
    for note in &answer.notes {
        message::say("note", note);
    }
    written.iter().try_for_each(|(path, bytes)| write_file(path, bytes))?;
    match out {
        Some(path) => write_file(path, &results),
        None => print(&results),
    }
}

fn options(arguments: &BacktestArguments) -> BacktestOptions {
    let bounded = arguments.from.is_some() || arguments.windows.is_some();
    let windows = Windows {
        horizon: arguments.horizon,
        stride: arguments.stride.unwrap_or(arguments.horizon),
        count: arguments.windows.or((!bounded).then_some(DEFAULT_WINDOWS)),
        from: arguments.from,
        to: arguments.to,
    };
    let mut options = BacktestOptions::new(windows);
    options.strategies.clone_from(&arguments.strategy);
    options.costs = Costs::from_basis_points(arguments.fee_bps, arguments.slippage_bps);
    options.long_only = arguments.long_only;
    options.calendar = match arguments.calendar {
        CalendarName::Auto => Calendar::Auto,
        CalendarName::Trading => Calendar::Trading,
        CalendarName::Every => Calendar::Every,
    };
    options.interval = arguments.interval;
    options.season = arguments.season;
    options
}

/// Says where fewer windows fit than were asked for.
fn fewer_windows(arguments: &BacktestArguments, backtest: &Backtest) -> Vec<String> {
    let Some(asked) = arguments.windows else { return Vec::new() };
    let few = backtest.symbols().iter().enumerate().filter_map(|(place, symbol)| {
        let found = backtest.origins(place).len();
        (found < asked).then(|| format!("{}: {found} windows fit where {asked} were asked for", symbol.name()))
    });
    few.collect()
}
