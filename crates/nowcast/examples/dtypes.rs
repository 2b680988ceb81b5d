//! What bf16 and int8 cost in accuracy, as one JSON document: errors against f64 on the stored cases, and forecasts of
//! the shipped models on real data beside those of f32.
//!
//! ```text
//! cargo run --release -p nowcast --example dtypes -- goldens examples [MORE_DATA...]
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nowcast::checkpoint::{HubOptions, resolve};
use nowcast::data::{ReadOptions, Table};
use nowcast::device::{CpuDevice, Device, Dtype};
use nowcast::family::{Located, locate};
use nowcast::golden::measure_dtype;
use nowcast::metrics::{QuantileForecast, mase, seasonal_naive_error, wql};
use nowcast::{
    CandleForecaster, CandleOptions, Candles, Error, Forecast, ForecastOptions, Forecaster, Result, Series, kronos,
    toto,
};
use serde_json::{Value, json};

const LEVELS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
const CONTEXT: usize = 512;
/// Within one patch of `nano`: quantiles are exact, and no sampling noise hides a difference.
const HORIZON: usize = 24;
/// Windows from the end of each series, a horizon apart.
const WINDOWS: usize = 60;
const CANDLE_CONTEXT: usize = 400;
const CANDLE_HORIZON: usize = 12;
const CANDLE_WINDOWS: usize = 30;
const CANDLE_PATHS: usize = 64;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let (Some(goldens), folders) = (arguments.next(), arguments.collect::<Vec<_>>()) else {
        return Err(Error::Setting("name the folder of stored cases, then folders of data".into()));
    };
    let device: Arc<dyn Device> = Arc::new(CpuDevice::new(None));
    let mut answer = BTreeMap::new();
    for dtype in Dtype::ALL {
        answer.insert(format!("goldens/{dtype}"), golden_errors(&device, &goldens, dtype)?);
    }
    for (file, column) in [
        ("vix_daily.csv", "CLOSE"),
        ("kline_5min.csv", "close"),
        ("btc_usd_daily.csv", "Close"),
        ("aapl_daily.csv", "Adj. Close"),
        ("etth1.csv", "OT"),
        ("etth1.csv", "HUFL"),
    ] {
        let Some(path) = folders.iter().map(|folder| folder.join(file)).find(|path| path.is_file()) else { continue };
        let windows = windows(&path, column)?;
        answer.insert(format!("nano/{file}/{column}"), series_scores(&device, &windows)?);
    }
    if let Some(path) = folders.iter().map(|folder| folder.join("kline_5min.csv")).find(|path| path.is_file()) {
        answer.insert("kronos-nano/kline_5min.csv/close".into(), candle_scores(&device, &path)?);
    }
    println!("{}", serde_json::to_string_pretty(&answer).expect("numbers and names are JSON"));
    Ok(())
}

/// The largest error of each tensor over all cases, in units of the tensor's largest value.
fn golden_errors(device: &Arc<dyn Device>, goldens: &Path, dtype: Dtype) -> Result<Value> {
    let mut errors: BTreeMap<String, f64> = BTreeMap::new();
    for case in measure_dtype(Arc::clone(device), goldens, None, dtype, &mut |_, _| ())?.cases {
        let family = case.case.split('-').next().unwrap_or_default().to_string();
        for check in &case.checks {
            let Some(largest) = check.largest.filter(|largest| *largest > 0.0) else { continue };
            let tensor = check.tensor.split('[').next().unwrap_or_default().trim_start_matches("nolabels.");
            let error = errors.entry(format!("{family} {tensor}")).or_default();
            *error = error.max(check.error / largest);
        }
    }
    Ok(json!(errors))
}

/// A context and what followed.
struct Window {
    context: Series,
    future: Vec<f64>,
    scale: f64,
}

fn windows(path: &Path, column: &str) -> Result<Vec<Window>> {
    let series = Table::read(path, &ReadOptions::default())?.series()?;
    let missing = || Error::Data(format!("{} has no column {column}", path.display()));
    let series = series.iter().find(|one| one.names()[0] == column).ok_or_else(missing)?;
    let values: Vec<f32> = series.values(0).iter().copied().filter(|value| value.is_finite()).collect();
    let ends = (0..WINDOWS).map(|window| values.len() - HORIZON * (window + 1));
    ends.map(|end| {
        let (context, future) = (&values[end - CONTEXT..end], &values[end..end + HORIZON]);
        let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<f64>>();
        let scale = seasonal_naive_error(&wide(context), 1).unwrap_or(f64::NAN);
        Ok(Window { context: Series::new("window", context.to_vec())?, future: wide(future), scale })
    })
    .collect()
}

/// Quantiles of every window, `[level][window, step]`.
type Quantiles = Vec<Vec<f64>>;

fn quantiles(forecasts: &[Forecast], variate: &str) -> Result<Quantiles> {
    let mut quantiles = vec![Vec::new(); LEVELS.len()];
    for forecast in forecasts {
        let of_levels = forecast.variate(variate).expect("it was forecast").quantiles(&LEVELS)?;
        quantiles.iter_mut().zip(of_levels).for_each(|(all, one)| all.extend(one));
    }
    Ok(quantiles)
}

/// MASE of the median, WQL, and how far the quantiles are from those of f32 in units of the mean 80% interval.
fn scores(actual: &[f64], scales: &[f64], quantiles: &Quantiles, exact: &Quantiles) -> Value {
    let steps = actual.len() / scales.len();
    let windows = actual.chunks(steps).zip(quantiles[4].chunks(steps)).zip(scales);
    let mases: Vec<f64> = windows.filter_map(|((actual, median), &scale)| mase(actual, median, scale)).collect();
    let weighted = LEVELS.iter().zip(quantiles).map(|(&level, values)| QuantileForecast { level, values });
    let widths = exact[8].iter().zip(&exact[0]).map(|(high, low)| high - low);
    let width = widths.sum::<f64>() / actual.len() as f64;
    let differences = quantiles.iter().flatten().zip(exact.iter().flatten()).map(|(a, b)| (a - b).abs() / width);
    let (mut sum, mut largest, mut count) = (0.0, 0.0f64, 0);
    for difference in differences {
        (sum, largest, count) = (sum + difference, largest.max(difference), count + 1);
    }
    json!({
        "mase": mases.iter().sum::<f64>() / mases.len() as f64,
        "wql": wql(actual, &weighted.collect::<Vec<_>>()),
        "mean_difference_of_interval": sum / f64::from(count),
        "largest_difference_of_interval": largest,
    })
}

fn series_scores(device: &Arc<dyn Device>, windows: &[Window]) -> Result<Value> {
    let source = resolve("nano", &HubOptions::from_environment())?;
    let actual: Vec<f64> = windows.iter().flat_map(|window| window.future.iter().copied()).collect();
    let scales: Vec<f64> = windows.iter().map(|window| window.scale).collect();
    let series: Vec<Series> = windows.iter().map(|window| window.context.clone()).collect();
    let mut exact = None;
    let mut answer = BTreeMap::new();
    for dtype in Dtype::ALL {
        let options = toto::LoadOptions { dtype, ..toto::LoadOptions::default() };
        let mut forecaster = Forecaster::load_with(&source, Arc::clone(device), options)?;
        let quantiles = quantiles(&forecaster.forecast(&series, &ForecastOptions::new(HORIZON))?, "window")?;
        let exact = exact.get_or_insert_with(|| quantiles.clone());
        answer.insert(dtype.name(), scores(&actual, &scales, &quantiles, exact));
    }
    Ok(json!(answer))
}

/// Sampled: another seed of f32 shows what chance alone does.
fn candle_scores(device: &Arc<dyn Device>, path: &Path) -> Result<Value> {
    const CLOSE: usize = 3;
    let Located::Kronos(source) = locate("kronos-nano", None, &HubOptions::from_environment(), &mut |_| ())? else {
        unreachable!("kronos-nano is a Kronos model")
    };
    let (all, _) = Candles::from_table(&Table::read(path, &ReadOptions::default())?, 1)?;
    let mut markets = Vec::new();
    let (mut actual, mut scales) = (Vec::new(), Vec::new());
    for window in 0..CANDLE_WINDOWS {
        let end = all.len() - CANDLE_HORIZON * (window + 1);
        let (past, future) = (end - CANDLE_CONTEXT..end, end..end + CANDLE_HORIZON);
        let field = |field: usize| all.rows()[past.clone()].iter().map(|row| row[field]).collect::<Vec<f64>>();
        let columns = nowcast::CandleColumns {
            open: field(0),
            high: field(1),
            low: field(2),
            close: field(CLOSE),
            volume: Some(field(4)),
            amount: Some(field(5)),
        };
        let stamps = |range: std::ops::Range<usize>| all.stamps()[range].to_vec();
        markets.push(Candles::new(format!("window {window}"), columns, stamps(past.clone()), stamps(future.clone()))?);
        actual.extend(all.rows()[future].iter().map(|row| row[CLOSE]));
        scales.push(seasonal_naive_error(&field(CLOSE), 1).unwrap_or(f64::NAN));
    }
    let mut exact = None;
    let mut answer = BTreeMap::new();
    for (name, dtype, seed) in [
        ("f32", Dtype::F32, 0),
        ("f32, another seed", Dtype::F32, 1),
        ("bf16", Dtype::Bf16, 0),
        ("int8", Dtype::Int8, 0),
    ] {
        let options = kronos::LoadOptions { dtype, ..kronos::LoadOptions::default() };
        let mut forecaster = CandleForecaster::load_with(&source, Arc::clone(device), options)?;
        let mut options = CandleOptions::new(CANDLE_HORIZON);
        (options.samples, options.seed) = (Some(CANDLE_PATHS), seed);
        options.context = Some(CANDLE_CONTEXT);
        let quantiles = quantiles(&forecaster.forecast(&markets, &options)?, "close")?;
        let exact = exact.get_or_insert_with(|| quantiles.clone());
        answer.insert(name, scores(&actual, &scales, &quantiles, exact));
    }
    Ok(json!(answer))
}
