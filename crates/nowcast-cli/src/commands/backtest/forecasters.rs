//! From `--model`, given once or more, to forecasters of windows.

use nowcast::backtest::{CandlePredictor, Predictor, SeriesPredictor, Symbol};
use nowcast::family::Located;
use nowcast::tuning::{Choice, Parameters};
use nowcast::{Error, ForecastOptions, Result};

use super::super::asks::{self, Choices};
use super::super::params;

use crate::arguments::{BacktestArguments, ModeName};
use crate::model;

/// The models of a run.
pub(super) struct Models {
    pub(super) forecasters: Vec<Box<dyn Predictor>>,
    /// How they run.
    pub(super) mode: ModeName,
    /// Whether one of them is a Kronos model, and the other flags therefore count.
    pub(super) any_candles: bool,
}

/// Finds and loads the models; flags that none of them knows are refused.
pub(super) fn load(arguments: &BacktestArguments, symbols: &[Symbol]) -> Result<Models> {
    for (place, name) in arguments.models.iter().enumerate() {
        if arguments.models[..place].contains(name) {
            return Err(Error::Setting(format!("--model {name} is given twice: once is enough")));
        }
    }
    let located =
        arguments.models.iter().map(|name| model::locate(name, &arguments.run)).collect::<Result<Vec<_>>>()?;
    let any_candles = located.iter().any(|one| matches!(one, Located::Kronos(_)));
    let any_series = located.iter().any(|one| matches!(one, Located::Toto(_)));
    let names = arguments.models.join(" or ");
    if !any_candles {
        model::refuse_candle_flags(&names, &[arguments.candles.given()])?;
    }
    if !any_series {
        model::refuse_series_flags(&names, &[], &arguments.run)?;
    }
    let tuned = arguments.params.as_deref().map(|path| params::read(path, &arguments.models)).transpose()?;
    let mut models = Models { forecasters: Vec::new(), mode: ModeName::Default, any_candles };
    let said = params::said(arguments.context, arguments.samples, arguments.point, &arguments.candles);
    for (name, located) in arguments.models.iter().zip(located) {
        let tuned = tuned.as_ref().filter(|tuned| tuned.model == *name);
        let (forecaster, mode): (Box<dyn Predictor>, ModeName) = match located {
            Located::Toto(source) => {
                let (forecaster, mode) = model::load_series(&source, &arguments.run)?;
                let mut options = ForecastOptions::new(arguments.horizon);
                (options.seed, options.memory_limit) = (arguments.seed, arguments.run.memory_limit);
                // Flags of Kronos are for the other models of this run.
                let said = Choice { temperature: None, top_k: None, top_p: None, clip: None, ..said.clone() };
                let asks = asks::of_series(&options, &choices(symbols, &said, tuned)?)?;
                (Box::new(SeriesPredictor::new(name, forecaster, asks)), mode)
            }
            Located::Kronos(source) => {
                let (forecaster, mode) = model::load_candles(&source, &arguments.run)?;
                let mut options = arguments.candles.options(arguments.horizon);
                (options.seed, options.memory_limit) = (arguments.seed, arguments.run.memory_limit);
                let asks = asks::of_candles(&options, &choices(symbols, &said, tuned)?)?;
                (Box::new(CandlePredictor::new(name, forecaster, asks)), mode)
            }
        };
        models.forecasters.push(forecaster);
        models.mode = mode;
    }
    Ok(models)
}

/// What flags say, and beyond it what was tuned for each symbol.
fn choices(symbols: &[Symbol], said: &Choice, tuned: Option<&Parameters>) -> Result<Choices> {
    let choice = |symbol: &Symbol| {
        let choice = match tuned {
            Some(tuned) => said.clone().or(tuned.of(symbol.name())?),
            None => said.clone(),
        };
        Ok((symbol.name().to_string(), choice))
    };
    symbols.iter().map(choice).collect()
}
