//! After warm-up nothing is written down, recorded or waited for again, whatever is forecast.

use std::sync::Arc;

use jiff::civil::date;
use nowcast::checkpoint::ModelSource;
use nowcast::device::{CpuDevice, CudaDevice, Device};
use nowcast::forecaster::Counters;
use nowcast::kronos::KronosSource;
use nowcast::{
    CandleColumns, CandleForecaster, CandleOptions, Candles, ForecastOptions, Forecaster, Series, kronos, toto,
};

const CANDLE_STEPS: usize = 3;

fn golden(name: &str) -> ModelSource {
    ModelSource::Folder(format!("{}/../../goldens/{name}", env!("CARGO_MANIFEST_DIR")).into())
}

fn series(index: usize, length: usize) -> Series {
    let values = (0..length).map(|step| 20.0 + (step as f32 / 6.0 + index as f32).sin()).collect();
    Series::new(format!("series {index}"), values).unwrap()
}

fn market(index: usize, length: usize) -> Candles {
    let close: Vec<f64> = (0..length).map(|step| 100.0 + (step as f64 / 7.0 + index as f64).sin()).collect();
    let shifted = |shift: f64| close.iter().map(|close| close + shift).collect();
    let (open, high, low) = (shifted(0.0), shifted(0.5), shifted(-0.5));
    let columns = CandleColumns { open, high, low, close: close.clone(), volume: None, amount: None };
    let day = |day: usize| date(2023, 1, 2).at(0, 0, 0, 0) + jiff::Span::new().days(day as i64);
    let (past, future) = ((0..length).map(day).collect(), (length..length + CANDLE_STEPS).map(day).collect());
    Candles::new(format!("market {index}"), columns, past, future).unwrap()
}

/// Both models through every length once, then `forecasts` times in mixed order: what the counters gained then.
fn gained(device: &Arc<dyn Device>, forecasts: usize, lengths: std::ops::Range<usize>) -> [Counters; 2] {
    let mut toto =
        Forecaster::load_with(&golden("toto-univariate"), Arc::clone(device), toto::LoadOptions::default()).unwrap();
    let source =
        KronosSource { tokenizer: golden("kronos-predict/tokenizer"), predictor: golden("kronos-predict/model") };
    let mut kronos = CandleForecaster::load_with(&source, Arc::clone(device), kronos::LoadOptions::default()).unwrap();
    let mut forecast = |index: usize, length: usize| {
        if index.is_multiple_of(2) {
            // Two patches of 16 are sampled, or one is exact.
            let mut options = ForecastOptions::new(if index.is_multiple_of(4) { 20 } else { 10 });
            (options.seed, options.samples) = (index as u64, index.is_multiple_of(4).then_some(4));
            toto.forecast(&[series(index, length)], &options).unwrap();
        } else {
            let mut options = CandleOptions::new(CANDLE_STEPS);
            (options.seed, options.samples) = (index as u64, Some(3));
            kronos.forecast(&[market(index, length)], &options).unwrap();
        }
        [toto.counters(), kronos.counters()]
    };
    let mut warm = [Counters::default(); 2];
    for length in lengths.clone() {
        for kind in 0..4 {
            warm = forecast(kind, length);
        }
    }
    let mut after = warm;
    let mut place = 12_345usize;
    for index in 0..forecasts {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        after = forecast(index, lengths.start + (place >> 33) % lengths.len());
    }
    [0, 1].map(|model| {
        let (before, after) = (warm[model], after[model]);
        let mut gained = after;
        gained.plans_built -= before.plans_built;
        gained.plans_reused -= before.plans_reused;
        gained.graphs_captured -= before.graphs_captured;
        gained.graphs_replayed -= before.graphs_replayed;
        gained.host_syncs -= before.host_syncs;
        gained
    })
}

fn assert_steady(device: Arc<dyn Device>, forecasts: usize, lengths: std::ops::Range<usize>, graphs: bool) {
    let name = device.describe();
    let gained = gained(&device, forecasts, lengths);
    for gained in gained {
        let nothing = (gained.plans_built, gained.graphs_captured, gained.graph_fallbacks, gained.host_syncs);
        assert_eq!(nothing, (0, 0, 0, 0), "{name}: plans built, graphs captured, fallbacks, waits");
        assert_eq!(gained.plans_reused, forecasts as u64 / 2, "{name}");
        assert_eq!(gained.graphs_replayed, if graphs { forecasts as u64 / 2 } else { 0 }, "{name}");
    }
}

#[test]
fn a_thousand_forecasts_of_mixed_lengths_symbols_and_seeds_on_the_cpu() {
    assert_steady(Arc::new(CpuDevice::new(Some(1))), 1000, 20..60, false);
}

#[test]
fn a_few_on_emulated_cuda_kernels() {
    match CudaDevice::emulated() {
        Ok(device) => assert_steady(Arc::new(device.with_strict_graphs()), 20, 30..36, true),
        Err(error) => eprintln!("skipped: {error}"),
    }
}

#[test]
fn a_thousand_on_every_gpu() {
    // Without one, the first tells why.
    for ordinal in 0..CudaDevice::count().max(1) {
        match CudaDevice::new(ordinal) {
            Ok(device) => assert_steady(Arc::new(device.with_strict_graphs()), 1000, 20..200, true),
            Err(error) => {
                assert_eq!(CudaDevice::count(), 0, "{error}");
                eprintln!("skipped on a GPU: {error}");
            }
        }
    }
}
