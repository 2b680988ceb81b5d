//! Same seed, same digits: whatever runs beside a series, on however many threads, in however many pieces.

use std::path::PathBuf;
use std::sync::Arc;

use nowcast::checkpoint::ModelSource;
use nowcast::device::{CpuDevice, CudaDevice, Device};
use nowcast::forecast::Distribution;
use nowcast::toto::LoadOptions;
use nowcast::{Decode, Forecast, ForecastOptions, Forecaster, Series};

/// Five patches of 16 points and a few decode steps, time-wise and space-wise layers.
fn forecaster(threads: usize) -> Forecaster {
    forecaster_on(Arc::new(CpuDevice::new(Some(threads)).with_poisoned_memory()))
}

fn forecaster_on(device: Arc<dyn Device>) -> Forecaster {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../goldens/toto-groups");
    Forecaster::load_with(&ModelSource::Folder(folder), device, LoadOptions::default()).unwrap()
}

fn walk(name: &str, length: usize) -> Series {
    // Names of one letter: another letter, another walk.
    let mut state = length as u64 + u64::from(name.as_bytes()[0]);
    let mut level = 50.0;
    let values = (0..length).map(|step| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        level += (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
        if step % 17 == 3 { f32::NAN } else { level }
    });
    Series::new(name, values.collect()).unwrap()
}

fn several() -> Vec<Series> {
    vec![walk("a", 80), walk("b", 33), walk("c", 80), walk("d", 200), walk("e", 5), walk("f", 79)]
}

fn options() -> ForecastOptions {
    let mut options = ForecastOptions::new(40);
    options.paths = true;
    options.samples = Some(37);
    options.seed = 11;
    options
}

/// Every digit of a forecast.
fn digits(forecast: &Forecast) -> Vec<u64> {
    let variates = forecast.variates().iter();
    variates
        .flat_map(|variate| match variate.distribution() {
            Distribution::Paths { values, .. } | Distribution::Mean(values) => {
                values.iter().map(|value| u64::from(value.to_bits())).collect::<Vec<_>>()
            }
            _ => variate.quantiles(&[0.05, 0.5, 0.9]).unwrap().concat().iter().map(|value| value.to_bits()).collect(),
        })
        .collect()
}

fn all_digits(forecaster: &mut Forecaster, series: &[Series], options: &ForecastOptions) -> Vec<Vec<u64>> {
    forecaster.forecast(series, options).unwrap().iter().map(digits).collect()
}

#[test]
fn threads_change_no_digit() {
    let expected = all_digits(&mut forecaster(1), &several(), &options());
    for threads in [2, 3, 7] {
        assert_eq!(all_digits(&mut forecaster(threads), &several(), &options()), expected, "{threads} threads");
    }
}

#[test]
fn forecasters_at_work_at_once_change_no_digit() {
    let expected = all_digits(&mut forecaster(1), &several(), &options());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut forecaster = forecaster(2);
                for _ in 0..3 {
                    assert_eq!(all_digits(&mut forecaster, &several(), &options()), expected);
                }
            });
        }
    });
}

#[test]
fn each_series_has_the_digits_it_has_alone() {
    for decode in [Decode::Sample, Decode::Mean] {
        let mut options = options();
        options.decode = decode;
        if decode == Decode::Mean {
            (options.samples, options.paths) = (None, false);
        }
        let together = all_digits(&mut forecaster(2), &several(), &options);
        for (series, together) in several().iter().zip(together) {
            let alone = all_digits(&mut forecaster(2), std::slice::from_ref(series), &options);
            assert_eq!(alone[0], together, "{:?} of {:?}", decode, series.names());
        }
    }
}

#[test]
fn exact_quantiles_do_not_depend_on_company_either() {
    let options = ForecastOptions::new(9);
    let together = all_digits(&mut forecaster(2), &several(), &options);
    for (series, together) in several().iter().zip(together) {
        assert_eq!(all_digits(&mut forecaster(1), std::slice::from_ref(series), &options)[0], together);
    }
}

#[test]
fn quantiles_that_come_along_have_the_digits_of_those_asked_for_later() {
    let mut devices: Vec<Arc<dyn Device>> = vec![Arc::new(CpuDevice::new(Some(2)).with_poisoned_memory())];
    match CudaDevice::emulated() {
        Ok(device) => devices.push(Arc::new(device)),
        Err(error) => eprintln!("skipped on emulated kernels: {error}"),
    }
    for device in devices {
        let mut forecaster = forecaster_on(device);
        let mut answer = |quantiles: &[f64]| {
            let mut options = ForecastOptions::new(9);
            options.quantiles = quantiles.to_vec();
            let before = forecaster.counters().operations_run;
            let forecasts = forecaster.forecast(&several(), &options).unwrap();
            (forecasts.iter().map(digits).collect::<Vec<_>>(), forecaster.counters().operations_run - before)
        };
        let (expected, operations) = answer(&[]);
        // Contexts of 1, 3, 5 and 13 patches.
        let plans = 4;
        // All of them, some of them, and another.
        for quantiles in [&[0.9, 0.05, 0.5][..], &[0.5], &[0.25, 0.9]] {
            assert_eq!(answer(quantiles), (expected.clone(), operations + plans), "{quantiles:?}");
        }
    }
}

#[test]
fn pieces_under_a_memory_limit_change_no_digit() {
    let mut whole = forecaster(2);
    let expected = all_digits(&mut whole, &several(), &options());
    let weights = whole.weight_bytes();
    let mut smallest = options();
    smallest.samples = Some(1);
    let paths = several().len() * 37 * 40 * size_of::<f32>();
    let least = whole.planned_bytes(200, 1, &smallest).unwrap();
    for spare in [least * 2, least * 6, least * 40] {
        let mut limited = options();
        limited.memory_limit = Some(weights + paths + spare);
        assert_eq!(all_digits(&mut forecaster(2), &several(), &limited), expected, "{spare} bytes");
    }
}

#[test]
fn samples_in_order_answer_as_their_paths() {
    let answers = |forecasts: &[Forecast]| -> Vec<u64> {
        let variates = forecasts.iter().flat_map(Forecast::variates);
        let rows = variates.flat_map(|variate| {
            let quantiles = variate.quantiles(&[0.05, 0.5, 0.93]).unwrap();
            [variate.mean(), variate.std().unwrap(), quantiles.concat()]
        });
        rows.flatten().map(f64::to_bits).collect()
    };
    let mut forecaster = forecaster(2);
    let with_paths = forecaster.forecast(&several(), &options()).unwrap();
    let expected = answers(&with_paths);
    let mut unasked = options();
    unasked.paths = false;
    let whole = forecaster.forecast(&several(), &unasked).unwrap();
    assert!(whole.iter().flat_map(Forecast::variates).all(|variate| variate.paths().is_none()));
    assert_eq!(answers(&whole), expected);
    // In chunks, whose samples are merged.
    let mut smallest = unasked.clone();
    smallest.samples = Some(1);
    let paths = several().len() * 37 * 40 * size_of::<f32>();
    let least = forecaster.planned_bytes(200, 1, &smallest).unwrap();
    unasked.memory_limit = Some(forecaster.weight_bytes() + paths + least * 2);
    assert_eq!(answers(&forecaster.forecast(&several(), &unasked).unwrap()), expected);
    assert!(
        forecaster.planned_bytes(200, 1, &unasked).unwrap() < forecaster.planned_bytes(200, 1, &options()).unwrap()
    );
}

#[test]
fn more_samples_begin_with_the_same_paths() {
    let mut more = options();
    more.samples = Some(60);
    let few = forecaster(1).forecast(&several()[..1], &options()).unwrap();
    let many = forecaster(1).forecast(&several()[..1], &more).unwrap();
    let paths = |forecast: &Forecast| -> Vec<Vec<u32>> {
        let paths = forecast.variates()[0].paths().unwrap();
        paths.map(|path| path.iter().map(|value| value.to_bits()).collect()).collect()
    };
    assert_eq!(paths(&few[0]), paths(&many[0])[..37]);
}

#[test]
fn seeds_and_names_change_the_digits() {
    let mut other = options();
    other.seed = 12;
    let first = all_digits(&mut forecaster(1), &[walk("a", 80)], &options());
    assert_ne!(first, all_digits(&mut forecaster(1), &[walk("a", 80)], &other));
    assert_ne!(first, all_digits(&mut forecaster(1), &[walk("b", 80)], &options()));
    assert_eq!(first, all_digits(&mut forecaster(1), &[walk("a", 80)], &options()));
}

#[test]
fn variates_of_one_series_attend_to_each_other_and_series_do_not() {
    // Walks of one length are the same walk: the other one is the end of a longer one.
    let (a, b) = (walk("a", 80), walk("b", 200).tail(80));
    let pair = |other: &Series| {
        let variates = [&a, other].map(|series| (series.names()[0].clone(), series.values(0).to_vec()));
        Series::multivariate(variates.to_vec()).unwrap()
    };
    let options = ForecastOptions::new(8);
    let first =
        |series: &[Series]| -> Vec<f64> { forecaster(1).forecast(series, &options).unwrap()[0].variates()[0].median() };
    assert_eq!(first(&[a.clone(), b.clone()]), first(std::slice::from_ref(&a)), "series are independent");
    assert_ne!(first(&[pair(&b)]), first(std::slice::from_ref(&a)), "variates are not");
    let apart = pair(&b).with_groups(vec![0, 1]).unwrap();
    let alone = first(std::slice::from_ref(&a));
    for (grouped, alone) in first(&[apart]).iter().zip(alone) {
        // The same sums in another kernel: a softmax over one key instead of none.
        assert!((grouped - alone).abs() <= 1e-5 * alone.abs(), "{grouped} {alone}");
    }
}

#[test]
fn a_second_forecast_reuses_the_plan() {
    let mut forecaster = forecaster(2);
    forecaster.forecast(&several(), &options()).unwrap();
    let built = forecaster.counters().plans_built;
    forecaster.forecast(&several(), &options()).unwrap();
    assert_eq!(forecaster.counters().plans_built, built, "not even to learn its size");
    assert!(forecaster.counters().plans_reused >= built);
}
