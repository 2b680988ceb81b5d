//! Forecasts on a device whose memory runs out: the same digits in smaller chunks, or one clear error; nothing is left.
//!
//! The CUDA kernels run on this processor, on a machine with as much memory as the test says.

use std::sync::Arc;

use jiff::civil::date;
use nowcast::checkpoint::ModelSource;
use nowcast::device::CudaDevice;
use nowcast::kronos::KronosSource;
use nowcast::{
    CandleColumns, CandleForecaster, CandleOptions, Candles, Forecast, ForecastOptions, Forecaster, MemoryBudget,
    Result, Series, kronos, toto,
};
use nowcast_engine::cuda::{Faults, Site};

fn golden(name: &str) -> ModelSource {
    ModelSource::Folder(format!("{}/../../goldens/{name}", env!("CARGO_MANIFEST_DIR")).into())
}

/// Whether the kernels can be built here; it is said aloud where not.
fn kernels_can_be_built() -> bool {
    match CudaDevice::emulated() {
        Ok(_) => true,
        Err(error) => {
            assert!(error.to_string().contains("cannot build"), "{error}");
            eprintln!("skipped: {error}");
            false
        }
    }
}

fn toto_on(faults: &Faults) -> Result<Forecaster> {
    let device = Arc::new(CudaDevice::emulated_with(faults).expect("the kernels were built before"));
    Forecaster::load_with(&golden("toto-univariate"), device, toto::LoadOptions::default())
}

fn kronos_on(faults: &Faults) -> Result<CandleForecaster> {
    let device = Arc::new(CudaDevice::emulated_with(faults).expect("the kernels were built before"));
    let source =
        KronosSource { tokenizer: golden("kronos-predict/tokenizer"), predictor: golden("kronos-predict/model") };
    CandleForecaster::load_with(&source, device, kronos::LoadOptions::default())
}

fn series() -> Vec<Series> {
    let one = |phase: f32| (0..96).map(|step| 50.0 + (step as f32 / 5.0 + phase).sin()).collect();
    (0..3).map(|item| Series::new(format!("series {item}"), one(item as f32)).unwrap()).collect()
}

fn options() -> ForecastOptions {
    let mut options = ForecastOptions::new(24);
    options.paths = true;
    options.samples = Some(16);
    options
}

fn markets() -> Vec<Candles> {
    let close: Vec<f64> = (0..40).map(|step| 100.0 + (f64::from(step) / 7.0).sin()).collect();
    let shifted = |shift: f64| close.iter().map(|close| close + shift).collect();
    let (open, high, low) = (shifted(0.0), shifted(0.5), shifted(-0.5));
    let columns = CandleColumns { open, high, low, close: close.clone(), volume: None, amount: None };
    let day = |day: i64| date(2023, 1, 2).at(0, 0, 0, 0) + jiff::Span::new().days(day);
    vec![Candles::new("market", columns, (0..40).map(day).collect(), (40..43).map(day).collect()).unwrap()]
}

fn candle_options() -> CandleOptions {
    let mut options = CandleOptions::new(3);
    options.samples = Some(6);
    options
}

fn digits(forecasts: &[Forecast]) -> Vec<u32> {
    let variates = forecasts.iter().flat_map(Forecast::variates);
    variates.flat_map(|variate| variate.paths().unwrap()).flatten().map(|value| value.to_bits()).collect()
}

#[test]
fn a_device_that_is_almost_full_gets_smaller_chunks() {
    if !kernels_can_be_built() {
        return;
    }
    let free = Faults::default();
    let mut forecaster = toto_on(&free).unwrap();
    let expected = digits(&forecaster.forecast(&series(), &options()).unwrap());
    let (weights, plan) = (forecaster.weight_bytes(), forecaster.counters().planned_bytes);
    assert_eq!(free.held(), forecaster.held_bytes(), "what is counted is what the device holds");
    // Others hold so much that a third of the plan is left; once the device tells of them, once it does not.
    for (told, untold) in [(1 << 30, 0), (0, 1 << 30)] {
        let faults = Faults::default();
        let mut forecaster = toto_on(&faults).unwrap();
        let capacity = weights + plan / 3 + (1 << 30);
        faults.limit(capacity, told, untold);
        let found = forecaster.forecast(&series(), &options()).unwrap();
        assert_eq!(digits(&found), expected, "{told} {untold}");
        assert!(faults.peak() <= weights + plan / 3, "{} of {capacity}", faults.peak());
        assert!(forecaster.counters().plans_reused > 0, "several chunks ran");
        // The next forecast is not bound by what was missing then.
        faults.heal();
        assert_eq!(digits(&forecaster.forecast(&series(), &options()).unwrap()), expected);
        assert_eq!(forecaster.counters().planned_bytes, plan);
        drop(forecaster);
        assert_eq!((faults.leaks(), faults.held()), ((0, 0, 0), 0));
    }
}

#[test]
fn a_full_device_is_one_clear_error_and_not_the_end() {
    if !kernels_can_be_built() {
        return;
    }
    let faults = Faults::default();
    for (told, untold) in [(1 << 30, 0), (0, 1 << 30)] {
        let mut forecaster = toto_on(&faults).unwrap();
        faults.limit(1 << 30, told, untold);
        let message = forecaster.forecast(&series(), &options()).err().unwrap().to_string();
        assert!(message.contains("the plan") && !message.contains('\n'), "{message}");
        faults.heal();
        forecaster.forecast(&series(), &options()).unwrap();
    }
    faults.limit(1000, 0, 0);
    let message = toto_on(&faults).err().unwrap().to_string();
    assert!(message.starts_with("cannot reserve") && message.contains("weights"), "{message}");
}

#[test]
fn reservations_that_fail_change_no_digit_and_leave_nothing_behind() {
    if !kernels_can_be_built() {
        return;
    }
    let whole_life = |faults: &Faults| -> Result<Vec<u32>> {
        let mut forecaster = toto_on(faults)?;
        let first = digits(&forecaster.forecast(&series(), &options())?);
        forecaster.unload();
        assert_eq!(faults.held(), 0);
        let second = digits(&forecaster.forecast(&series(), &options())?);
        assert_eq!(first, second);
        Ok(second)
    };
    let faults = Faults::default();
    let expected = whole_life(&faults).unwrap();
    for site in [Site::Memory, Site::HostMemory, Site::Upload, Site::Queue, Site::Instantiate] {
        let calls = {
            let faults = Faults::default();
            whole_life(&faults).unwrap();
            faults.calls(site)
        };
        // Weights are many calls of one kind: some of them, and all that follow.
        for first in (1..=calls).filter(|first| first % 7 == 1 || first + 3 > calls) {
            faults.fail(site, first, 1);
            match whole_life(&faults) {
                Ok(found) => assert_eq!(found, expected, "{site:?} {first} of {calls}"),
                Err(error) => {
                    let message = error.to_string();
                    let named = message.contains("cannot reserve") || message.contains("injected");
                    assert!(named && !message.contains('\n'), "{site:?} {first} of {calls}: {message}");
                }
            }
            assert_eq!((faults.leaks(), faults.held()), ((0, 0, 0), 0), "{site:?} {first} of {calls}");
            faults.heal();
        }
    }
}

#[test]
fn two_models_take_turns_on_a_device_with_room_for_one() {
    if !kernels_can_be_built() {
        return;
    }
    let free = Faults::default();
    let (mut toto, mut kronos) = (toto_on(&free).unwrap(), kronos_on(&free).unwrap());
    let expected_series = digits(&toto.forecast(&series(), &options()).unwrap());
    let expected_candles = digits(&kronos.forecast(&markets(), &candle_options()).unwrap());
    let one = toto.held_bytes().max(kronos.held_bytes());
    assert!(one < toto.held_bytes() + kronos.held_bytes());
    // The budget allows for both, but another process has taken half of the device without a word.
    let faults = Faults::default();
    let budget = MemoryBudget::new(1 << 30);
    let mut toto = toto_on(&faults).unwrap().with_budget(&budget).unwrap();
    toto.unload();
    faults.limit(one + (1 << 30), 0, 1 << 30);
    let mut kronos = kronos_on(&faults).unwrap().with_budget(&budget).unwrap();
    for _ in 0..3 {
        assert_eq!(digits(&toto.forecast(&series(), &options()).unwrap()), expected_series);
        assert_eq!(digits(&kronos.forecast(&markets(), &candle_options()).unwrap()), expected_candles);
        assert!(faults.held() <= one);
    }
    drop((toto, kronos));
    assert_eq!((faults.leaks(), faults.held()), ((0, 0, 0), 0));
}
