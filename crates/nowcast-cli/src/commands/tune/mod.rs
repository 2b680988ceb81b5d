//! `nowcast tune`: settings that suit each symbol, found on its past and judged on what came later.

mod journal;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nowcast::backtest::{Backtest, CandlePredictor, Evaluation, Predictor, SeriesPredictor};
use nowcast::family::{Located, ModelFamily};
use nowcast::tuning::{Choice, Parameters, Space, Spans, Tuned};
use nowcast::{CandleOptions, Error, ForecastOptions, Result};
use nowcast_cli::output::{tuned_table, write_file};
use serde_json::{Map, Value, json};

use self::journal::{Finished, Journal};
use super::asks::{self, Choices};
use super::{files, print, symbols};
use crate::arguments::{TuneArguments, spelled};
use crate::progress::Progress;
use crate::{message, model};

/// More trials are a typing error.
const MOST_TRIALS: usize = 100_000;

pub(crate) fn run(arguments: &TuneArguments) -> Result<()> {
    if arguments.trials == 0 || arguments.trials > MOST_TRIALS {
        return Err(Error::Setting(format!("{} trials: choose 1 to {MOST_TRIALS}", arguments.trials)));
    }
    if let Some(minutes) = arguments.minutes.filter(|minutes| !(*minutes > 0.0 && *minutes < 1e6)) {
        return Err(Error::Setting(format!("--minutes {minutes}: choose a time above 0, such as 10")));
    }
    let journal_path = journal::beside(&arguments.out);
    files::check(arguments.files.iter().map(|path| path.as_path()), [arguments.out.as_path(), &journal_path])?;
    let (symbols, mut notes) = symbols::read(&arguments.files, &arguments.columns, arguments.time.as_ref())?;
    let stride = arguments.stride.unwrap_or(arguments.horizon);
    let spans = Spans::new(&symbols, arguments.horizon, stride, [arguments.windows, arguments.test_windows])?;
    let located = model::locate(&arguments.model.model, &arguments.model.run)?;
    let family = located.family();
    if family == ModelFamily::Kronos {
        notes.extend(symbols::candle_notes(&symbols));
    }
    let mut model = Model::load(arguments, located)?;
    let trials = Space::new(family, spans.longest_context, arguments.seed).trials(arguments.trials);
    let search = search(arguments, &spans, &model);
    let (journal, finished) = Journal::open(&journal_path, &Value::Object(search.clone()))?;
    notes.iter().for_each(|note| message::say("note", note));
    let finished = try_all(arguments, &trials, &spans, &mut model, journal, finished)?;

    let names: Vec<&str> = symbols.iter().map(|symbol| symbol.name()).collect();
    let best = |symbol: usize| {
        let scores: Vec<Option<f64>> = finished.iter().map(|trial| trial.scores[symbol]).collect();
        &finished[arguments.goal.best(&scores)]
    };
    let chosen: Choices =
        names.iter().enumerate().map(|(symbol, name)| ((*name).to_string(), best(symbol).settings.clone())).collect();
    let test = |model: &mut Model, choices: &Choices| {
        let mut progress = Progress::new("testing");
        model.evaluate(&spans.test, choices, &mut |done, total| progress.update(done, total))
    };
    let of_best = test(&mut model, &chosen)?;
    let of_defaults = test(&mut model, &Choices::new())?;
    let tuned = |(symbol, name): (usize, &&str)| {
        let tuned = Tuned {
            settings: best(symbol).settings.clone(),
            validation: best(symbol).scores[symbol],
            test: arguments.goal.of(&of_best.scores[symbol]),
            test_of_defaults: arguments.goal.of(&of_defaults.scores[symbol]),
        };
        ((*name).to_string(), tuned)
    };
    let tuned: BTreeMap<String, Tuned> = names.iter().enumerate().map(tuned).collect();
    let parameters = Parameters::new(&arguments.model.model, arguments.goal, search, tuned);
    write_file(&arguments.out, parameters.to_json().as_bytes())?;
    let text = tuned_table(&parameters, finished.len());
    print(
        format!("{text}\nwritten to {}; give it to other commands with --params\n", arguments.out.display()).as_bytes(),
    )
}

/// Runs the trials that are not in the journal, until all are done or the time is over.
fn try_all(
    arguments: &TuneArguments,
    trials: &[Choice],
    spans: &Spans,
    model: &mut Model,
    mut journal: Journal,
    mut finished: Vec<Finished>,
) -> Result<Vec<Finished>> {
    let known = finished.len().min(trials.len());
    if finished[..known].iter().zip(trials).any(|(done, trial)| done.settings != *trial) {
        return Err(Error::Setting(
            "the journal lists other trials than this version tries: remove it, or name another --out".into(),
        ));
    }
    finished.truncate(known);
    if known > 0 {
        message::say("note", &format!("{known} trials are known from the journal"));
    }
    let limit = arguments.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let started = Instant::now();
    let mut progress = Progress::new("searching (finished trials are kept in the journal)");
    for trial in &trials[known..] {
        // The defaults are always tried: without them nothing can be compared.
        if !finished.is_empty() && limit.is_some_and(|limit| started.elapsed() >= limit) {
            message::say("note", &format!("the time is over after {} of {} trials", finished.len(), trials.len()));
            break;
        }
        progress.update(finished.len(), trials.len());
        let names = spans.validation.symbols().iter().map(|symbol| symbol.name().to_string());
        let choices: Choices = names.map(|name| (name, trial.clone())).collect();
        let evaluation = model.evaluate(&spans.validation, &choices, &mut |_, _| ())?;
        let scores = evaluation.scores.iter().map(|scores| arguments.goal.of(scores)).collect();
        let done = Finished { settings: trial.clone(), scores };
        journal.push(&done)?;
        finished.push(done);
    }
    Ok(finished)
}

/// Every parameter that the result depends on; a journal of others is of no use.
fn search(arguments: &TuneArguments, spans: &Spans, model: &Model) -> Map<String, Value> {
    let data: Vec<Value> = spans
        .test
        .symbols()
        .iter()
        .map(|symbol| json!({"name": symbol.name(), "bars": symbol.len(), "last": symbol.stamp_text(symbol.len() - 1)}))
        .collect();
    let settings = [
        ("model", json!(arguments.model.model)),
        ("data", json!(data)),
        ("horizon", json!(arguments.horizon)),
        ("stride", json!(arguments.stride.unwrap_or(arguments.horizon))),
        ("windows", json!(arguments.windows)),
        ("test_windows", json!(arguments.test_windows)),
        ("goal", json!(arguments.goal)),
        ("seed", json!(arguments.seed)),
        ("mode", json!(model.mode)),
        ("dtype", json!(spelled(&arguments.model.run.dtype))),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
    ];
    settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// The model that is tuned.
struct Model {
    predictor: Tunable,
    mode: String,
}

enum Tunable {
    Series(Box<SeriesPredictor>, ForecastOptions),
    Candles(Box<CandlePredictor>, CandleOptions),
}

impl Model {
    fn load(arguments: &TuneArguments, located: Located) -> Result<Self> {
        let (name, run) = (&arguments.model.model, &arguments.model.run);
        let none = Choices::new();
        Ok(match located {
            Located::Toto(source) => {
                let (forecaster, mode) = model::load_series(&source, run)?;
                let mut options = ForecastOptions::new(arguments.horizon);
                (options.seed, options.memory_limit) = (arguments.seed, run.memory_limit);
                let predictor = SeriesPredictor::new(name, forecaster, asks::of_series(&options, &none)?);
                Self { predictor: Tunable::Series(Box::new(predictor), options), mode: spelled(&mode) }
            }
            Located::Kronos(source) => {
                model::refuse_series_flags(name, &[], run)?;
                let (forecaster, mode) = model::load_candles(&source, run)?;
                let mut options = CandleOptions::new(arguments.horizon);
                (options.seed, options.memory_limit) = (arguments.seed, run.memory_limit);
                let predictor = CandlePredictor::new(name, forecaster, asks::of_candles(&options, &none)?);
                Self { predictor: Tunable::Candles(Box::new(predictor), options), mode: spelled(&mode) }
            }
        })
    }

    /// Forecasts with the settings chosen for each symbol, and scores them.
    fn evaluate(
        &mut self,
        backtest: &Backtest,
        choices: &Choices,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Evaluation> {
        let predictor: &mut dyn Predictor = match &mut self.predictor {
            Tunable::Series(predictor, options) => {
                predictor.ask(asks::of_series(options, choices)?);
                &mut **predictor
            }
            Tunable::Candles(predictor, options) => {
                predictor.ask(asks::of_candles(options, choices)?);
                &mut **predictor
            }
        };
        backtest.evaluate(predictor, progress)
    }
}
