//! What a benchmark runs: one forecast of synthetic input, again and again.

use std::sync::Arc;

use nowcast::device::Device;
use nowcast::family::Located;
use nowcast::forecaster::{Counters, DEFAULT_PATHS, DEFAULT_SAMPLES};
use nowcast::{CandleForecaster, CandleOptions, Candles, Error, ForecastOptions, Forecaster, Result, Series};
use serde_json::{Map, Value, json};

use super::super::synthetic::Synthetic;
use crate::arguments::{BenchArguments, FilterName, ModeName, WindowName, spelled};
use crate::model;

/// More than this is a typing error, not a benchmark.
const MOST_VALUES: usize = 1 << 30;

/// A model and its input.
pub(super) enum Workload {
    Series { forecaster: Forecaster, series: Vec<Series>, options: ForecastOptions },
    Candles { forecaster: CandleForecaster, markets: Vec<Candles>, options: CandleOptions },
}

/// Refuses sizes that no benchmark has, before anything is loaded.
pub(super) fn check(arguments: &BenchArguments) -> Result<()> {
    let values = [arguments.batch, arguments.variates, arguments.context]
        .into_iter()
        .try_fold(1usize, usize::checked_mul)
        .filter(|&values| (1..=MOST_VALUES).contains(&values));
    if values.is_none() || arguments.runs == 0 || arguments.runs > 1_000_000 {
        return Err(Error::Setting(format!(
            "batch, variates, context and runs must be at least 1, and the input at most {MOST_VALUES} values"
        )));
    }
    Ok(())
}

impl Workload {
    /// Loads a model onto a device and makes its input.
    pub(super) fn new(
        located: &Located,
        arguments: &BenchArguments,
        device: Arc<dyn Device>,
        mode: ModeName,
    ) -> Result<Self> {
        let (model, run) = (&arguments.model.model, &arguments.model.run);
        let BenchArguments { context, variates, horizon, batch, .. } = *arguments;
        let (synthetic, items) = (Synthetic { context, variates, horizon }, 0..batch);
        match located {
            Located::Toto(source) => {
                model::refuse_candle_flags(model, &[arguments.candles.given()])?;
                let mut options = ForecastOptions::new(arguments.horizon);
                let samples = arguments.samples.unwrap_or(DEFAULT_SAMPLES);
                options.context = Some(arguments.context);
                options.samples = (samples > 0).then_some(samples);
                // As the public code answers.
                options.paths = samples > 0;
                options.memory_limit = run.memory_limit;
                let series = items.map(|item| synthetic.series(item)).collect::<Result<_>>()?;
                let forecaster = model::load_series_on(source, run, device, mode)?;
                Ok(Self::Series { forecaster, series, options })
            }
            Located::Kronos(source) => {
                let variates = if arguments.variates == 1 { Vec::new() } else { vec!["--variates".to_string()] };
                model::refuse_series_flags(model, &variates, run)?;
                let mut options = arguments.candles.options(arguments.horizon);
                options.context = Some(arguments.context);
                options.samples = Some(arguments.samples.unwrap_or(DEFAULT_PATHS));
                options.memory_limit = run.memory_limit;
                let markets = items.map(|item| synthetic.candles(item)).collect::<Result<_>>()?;
                let forecaster = model::load_candles_on(source, run, device, mode)?;
                Ok(Self::Candles { forecaster, markets, options })
            }
        }
    }

    /// One forecast.
    pub(super) fn forecast(&mut self, seed: u64) -> Result<()> {
        match self {
            Self::Series { forecaster, series, options } => {
                options.seed = seed;
                forecaster.forecast(series, options).map(drop)
            }
            Self::Candles { forecaster, markets, options } => {
                options.seed = seed;
                forecaster.forecast(markets, options).map(drop)
            }
        }
    }

    /// What happened so far.
    pub(super) fn counters(&self) -> Counters {
        match self {
            Self::Series { forecaster, .. } => forecaster.counters(),
            Self::Candles { forecaster, .. } => forecaster.counters(),
        }
    }

    /// Bytes of the weights on the device.
    pub(super) fn weight_bytes(&self) -> usize {
        match self {
            Self::Series { forecaster, .. } => forecaster.weight_bytes(),
            Self::Candles { forecaster, .. } => forecaster.weight_bytes(),
        }
    }

    /// Sample paths of each item; 0 where Toto answers exactly.
    pub(super) fn samples(&self) -> usize {
        match self {
            Self::Series { options, .. } => options.samples.unwrap_or(0),
            Self::Candles { options, .. } => options.samples.unwrap_or(DEFAULT_PATHS),
        }
    }

    /// What is forecast, in words.
    pub(super) fn input(&self, arguments: &BenchArguments) -> String {
        let BenchArguments { batch, variates, context, .. } = arguments;
        match self {
            Self::Series { .. } => format!("{batch} series of {variates} x {context}"),
            Self::Candles { .. } => format!("{batch} market(s) of {context} candles"),
        }
    }

    /// The settings of the run, those of the family included.
    pub(super) fn settings(&self, arguments: &BenchArguments, mode: ModeName) -> Map<String, Value> {
        let run = &arguments.model.run;
        let mut settings = vec![
            ("model", json!(arguments.model.model)),
            ("context", json!(arguments.context)),
            ("horizon", json!(arguments.horizon)),
            ("samples", json!(self.samples())),
            ("batch", json!(arguments.batch)),
            ("variates", json!(arguments.variates)),
            ("runs", json!(arguments.runs)),
            ("warm_up_ms", json!(arguments.warm_up)),
            ("mode", json!(spelled(&mode))),
            ("dtype", json!(spelled(&run.dtype))),
            ("threads", json!(run.threads)),
            ("version", json!(env!("CARGO_PKG_VERSION"))),
        ];
        if let Self::Candles { forecaster, options, .. } = self {
            settings.extend([
                ("max_context", json!(options.max_context.unwrap_or(forecaster.max_context()))),
                ("temperature", json!(options.temperature)),
                ("top_k", json!(options.top_k)),
                ("top_p", json!(options.top_p)),
                ("filter", json!(spelled(&arguments.candles.filter.unwrap_or(FilterName::Reference)))),
                ("window", json!(spelled(&arguments.candles.window.unwrap_or(WindowName::Exact)))),
            ]);
        }
        settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}
