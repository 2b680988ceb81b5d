//! From `--model`, given once or more, to forecasters of windows.

use nowcast::backtest::{Ask, CandlePredictor, Predictor, SeriesPredictor};
use nowcast::family::Located;
use nowcast::{Aggregation, Error, ForecastOptions, Result};

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
pub(super) fn load(arguments: &BacktestArguments) -> Result<Models> {
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
    let mut models = Models { forecasters: Vec::new(), mode: ModeName::Default, any_candles };
    for (name, located) in arguments.models.iter().zip(located) {
        let (forecaster, mode): (Box<dyn Predictor>, ModeName) = match located {
            Located::Toto(source) => {
                let (forecaster, mode) = model::load_series(&source, &arguments.run)?;
                let mut options = ForecastOptions::new(arguments.horizon);
                options.context = arguments.context;
                options.samples = arguments.samples;
                options.seed = arguments.seed;
                options.memory_limit = arguments.run.memory_limit;
                let ask = Ask { options, point: arguments.point.unwrap_or(Aggregation::Median) };
                (Box::new(SeriesPredictor::new(name, forecaster, Box::new(move |_| ask.clone()))), mode)
            }
            Located::Kronos(source) => {
                let (forecaster, mode) = model::load_candles(&source, &arguments.run)?;
                let mut options = arguments.candles.options(arguments.horizon);
                options.context = arguments.context;
                options.samples = arguments.samples;
                options.seed = arguments.seed;
                options.memory_limit = arguments.run.memory_limit;
                let ask = Ask { options, point: arguments.point.unwrap_or(Aggregation::Mean) };
                (Box::new(CandlePredictor::new(name, forecaster, Box::new(move |_| ask.clone()))), mode)
            }
        };
        models.forecasters.push(forecaster);
        models.mode = mode;
    }
    Ok(models)
}
