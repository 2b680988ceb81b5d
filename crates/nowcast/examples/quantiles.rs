//! How long a forecast and its quantiles take: with the paths and without, or, of 0 samples, of exact mixtures that the
//! host solves afterwards or the device along with the forecast.
//!
//! ```text
//! cargo run --release --example quantiles MODEL [cpu|cuda [VARIATES CONTEXT HORIZON SAMPLES [BATCH [RUNS]]]]
//! ```

use std::sync::Arc;
use std::time::Instant;

use nowcast::checkpoint::{HubOptions, resolve};
use nowcast::toto::LoadOptions;
use nowcast::{ForecastOptions, Forecaster, Result, Series};
use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::cuda::CudaDevice;
use nowcast_engine::device::Device;

const LEVELS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let source = resolve(&arguments.next().unwrap_or_else(|| "nano".into()), &HubOptions::from_environment())?;
    let device: Arc<dyn Device> = match arguments.next().as_deref() {
        Some("cuda") => Arc::new(CudaDevice::new(0).map_err(|error| nowcast::Error::Setting(error.to_string()))?),
        _ => Arc::new(CpuDevice::new(None)),
    };
    let mut number = |default: usize| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (variates, context, horizon, samples) = (number(1), number(512), number(8), number(256));
    let (batch, runs) = (number(1), number(20));
    let mut forecaster = Forecaster::load_with(&source, device, LoadOptions::default())?;
    let wave = |item: usize| {
        let value = |step: usize, variate: usize| ((step + item) as f32 / (7 + variate) as f32).sin();
        let values = |variate| (0..context).map(|step| value(step, variate)).collect();
        Series::multivariate((0..variates).map(|variate| (variate.to_string(), values(variate))).collect())
    };
    let series: Vec<Series> = (0..batch).map(wave).collect::<Result<_>>()?;
    for first in [true, false] {
        let mut options = ForecastOptions::new(horizon);
        options.context = Some(context);
        let way = if samples > 0 {
            (options.samples, options.paths) = (Some(samples), first);
            if first { "with paths" } else { "without paths" }
        } else {
            options.quantiles = if first { Vec::new() } else { LEVELS.to_vec() };
            if first { "solved afterwards" } else { "solved along" }
        };
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..runs {
            let start = Instant::now();
            let forecasts = forecaster.forecast(&series, &options)?;
            let forecast = start.elapsed();
            for variate in forecasts.iter().flat_map(|forecast| forecast.variates()) {
                variate.quantiles(&LEVELS)?;
            }
            times[0].push(forecast);
            times[1].push(start.elapsed());
        }
        times.iter_mut().for_each(|times| times.sort_unstable());
        let [forecast, with_quantiles] = times.map(|times| times[runs / 2].as_secs_f64() * 1e3);
        println!("{way}: forecast {forecast:.3} ms, with nine quantiles {with_quantiles:.3} ms");
    }
    Ok(())
}
