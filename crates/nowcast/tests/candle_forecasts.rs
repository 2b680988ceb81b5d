//! Forecasts of candles: the same digits whatever runs beside them, and windows that slide.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::civil::{DateTime, date};
use nowcast::checkpoint::ModelSource;
use nowcast::device::CpuDevice;
use nowcast::kronos::{Filter, KronosSource, LoadOptions, Window};
use nowcast::{CandleColumns, CandleForecaster, CandleOptions, Candles, Forecast};

/// A small random model whose window holds 64 tokens.
fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../goldens/kronos-predict")
}

fn forecaster(threads: usize) -> CandleForecaster {
    load(&golden(), threads)
}

fn load(folder: &Path, threads: usize) -> CandleForecaster {
    let [tokenizer, predictor] = ["tokenizer", "model"].map(|half| ModelSource::Folder(folder.join(half)));
    let device = Arc::new(CpuDevice::new(Some(threads)).with_poisoned_memory());
    CandleForecaster::load_with(&KronosSource { tokenizer, predictor }, device, LoadOptions::default()).unwrap()
}

fn hours(first: i64, count: usize) -> Vec<DateTime> {
    let start = date(2024, 5, 30).at(9, 0, 0, 0);
    (0..count as i64).map(|hour| start + jiff::Span::new().hours(first + hour)).collect()
}

fn market(name: &str, length: usize) -> Candles {
    let mut state = length as u64 + u64::from(name.as_bytes()[0]);
    let mut close = 50.0;
    let mut columns = CandleColumns { volume: Some(Vec::new()), ..CandleColumns::default() };
    for _ in 0..length {
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / f64::from(1 << 24)
        };
        let open = close;
        close += uniform() - 0.5;
        columns.open.push(open);
        columns.high.push(open.max(close) + 0.3 * uniform());
        columns.low.push(open.min(close) - 0.3 * uniform());
        columns.close.push(close);
        columns.volume.as_mut().unwrap().push(1000.0 * uniform());
    }
    Candles::new(name, columns, hours(0, length), hours(length as i64, 64)).unwrap()
}

fn several() -> Vec<Candles> {
    vec![market("a", 40), market("b", 33), market("c", 40), market("d", 90), market("e", 1), market("f", 60)]
}

fn options(horizon: usize) -> CandleOptions {
    let mut options = CandleOptions::new(horizon);
    options.max_context = Some(64);
    options.context = Some(100);
    options.samples = Some(9);
    options.seed = 11;
    options
}

fn changed(options: &CandleOptions, change: impl FnOnce(&mut CandleOptions)) -> CandleOptions {
    let mut options = options.clone();
    change(&mut options);
    options
}

/// Every digit of a forecast.
fn digits(forecast: &Forecast) -> Vec<u32> {
    let paths = forecast.variates().iter().flat_map(|variate| variate.paths().unwrap());
    paths.flat_map(|path| path.iter().map(|value| value.to_bits())).collect()
}

fn all_digits(forecaster: &mut CandleForecaster, markets: &[Candles], options: &CandleOptions) -> Vec<Vec<u32>> {
    forecaster.forecast(markets, options).unwrap().iter().map(digits).collect()
}

#[test]
fn threads_change_no_digit() {
    let expected = all_digits(&mut forecaster(1), &several(), &options(7));
    for threads in [2, 3, 7] {
        assert_eq!(all_digits(&mut forecaster(threads), &several(), &options(7)), expected, "{threads} threads");
    }
}

#[test]
fn each_market_has_the_digits_it_has_alone() {
    // Of these horizons the first fits the window of most markets, and the last slides for all but one.
    for horizon in [1, 5, 30] {
        for window in [Window::Exact, Window::Streaming] {
            let options = changed(&options(horizon), |options| options.window = window);
            let together = all_digits(&mut forecaster(2), &several(), &options);
            for (market, together) in several().iter().zip(together) {
                let alone = all_digits(&mut forecaster(2), std::slice::from_ref(market), &options);
                assert_eq!(alone[0], together, "horizon {horizon}, {window:?}, {}", market.name());
            }
        }
    }
}

#[test]
fn pieces_under_a_memory_limit_change_no_digit() {
    for horizon in [5, 12] {
        let mut whole = forecaster(2);
        let options = options(horizon);
        let expected = all_digits(&mut whole, &several(), &options);
        let one = changed(&options, |options| options.samples = Some(1));
        let least = [40, 64].map(|context| whole.planned_bytes(context, &one).unwrap()).into_iter().max().unwrap();
        let paths = CandleForecaster::path_bytes(several().len(), &options).unwrap();
        for spare in [least * 5 / 4, least * 3] {
            let memory_limit = Some(whole.weight_bytes() + paths + spare);
            let limited = changed(&options, |options| options.memory_limit = memory_limit);
            assert_eq!(all_digits(&mut forecaster(2), &several(), &limited), expected, "{spare} bytes");
        }
    }
}

#[test]
fn more_samples_begin_with_the_same_paths() {
    let more = changed(&options(30), |options| options.samples = Some(20));
    let market = [market("d", 50)];
    let few = forecaster(1).forecast(&market, &options(30)).unwrap();
    let many = forecaster(1).forecast(&market, &more).unwrap();
    for (few, many) in few[0].variates().iter().zip(many[0].variates()) {
        assert!(few.paths().unwrap().eq(many.paths().unwrap().take(9)), "{}", few.name());
    }
}

#[test]
fn a_window_that_never_slides_is_the_same_either_way() {
    let streaming = changed(&options(24), |options| options.window = Window::Streaming);
    let fits = [market("a", 40)];
    assert_eq!(all_digits(&mut forecaster(1), &fits, &options(24)), all_digits(&mut forecaster(1), &fits, &streaming));
    let slides = [market("a", 60)];
    assert_ne!(
        all_digits(&mut forecaster(1), &slides, &options(24)),
        all_digits(&mut forecaster(1), &slides, &streaming)
    );
}

#[test]
fn a_horizon_as_long_as_the_window_leaves_no_context_to_decode_with() {
    for length in [3, 64, 70] {
        let forecasts = forecaster(2).forecast(&[market("a", length)], &options(64)).unwrap();
        assert_eq!(forecasts[0].horizon(), 64);
    }
    let error = forecaster(1).forecast(&[market("a", 3)], &options(65)).unwrap_err().to_string();
    assert!(error.contains("65") && error.contains("64"), "{error}");
}

#[test]
fn the_context_leaves_room_for_the_horizon_unless_someone_asks_for_more() {
    let forecaster = forecaster(1);
    let options = |horizon| changed(&options(horizon), |options| options.context = None);
    for (horizon, expected) in [(1, 63), (24, 40), (40, 32), (64, 32)] {
        assert_eq!(forecaster.context(&options(horizon)), expected);
    }
    assert_eq!(forecaster.context(&changed(&options(24), |options| options.context = Some(500))), 500);
}

#[test]
fn both_filters_draw_from_fewer_tokens_than_one() {
    let one = changed(&options(12), |options| (options.top_k, options.top_p) = (20, 0.3));
    let both = changed(&one, |options| options.filter = Filter::Both);
    let alone = changed(&one, |options| options.top_p = 1.0);
    let market = [market("a", 40)];
    let mut forecaster = forecaster(1);
    assert_eq!(all_digits(&mut forecaster, &market, &one), all_digits(&mut forecaster, &market, &alone));
    assert_ne!(all_digits(&mut forecaster, &market, &one), all_digits(&mut forecaster, &market, &both));
}

#[test]
fn seeds_and_names_change_the_digits() {
    let mut forecaster = forecaster(1);
    let first = all_digits(&mut forecaster, &[market("a", 40)], &options(5));
    let other = changed(&options(5), |options| options.seed = 12);
    assert_ne!(first, all_digits(&mut forecaster, &[market("a", 40)], &other));
    assert_ne!(first, all_digits(&mut forecaster, &[market("b", 40)], &options(5)));
    assert_eq!(first, all_digits(&mut forecaster, &[market("a", 40)], &options(5)));
}

#[test]
fn a_second_forecast_reuses_the_plan_and_so_does_another_length() {
    let mut forecaster = forecaster(2);
    forecaster.forecast(&[market("a", 39)], &options(5)).unwrap();
    let built = forecaster.counters().plans_built;
    for (name, length) in [("b", 39), ("c", 40), ("d", 38)] {
        forecaster.forecast(&[market(name, length)], &options(5)).unwrap();
    }
    assert_eq!(forecaster.counters().plans_built, built);
    assert_eq!(forecaster.counters().plans_reused, 3);
}

#[test]
fn settings_and_times_that_are_missing_are_one_clear_line() {
    let mut forecaster = forecaster(1);
    let short = Candles::new(
        "short",
        CandleColumns {
            open: vec![1.0],
            high: vec![1.0],
            low: vec![1.0],
            close: vec![1.0],
            volume: None,
            amount: None,
        },
        hours(0, 1),
        hours(1, 2),
    );
    let error = forecaster.forecast(&[short.unwrap()], &options(3)).unwrap_err().to_string();
    assert!(error.contains("short") && error.contains('3') && !error.contains('\n'), "{error}");
    let cold = changed(&options(3), |options| options.temperature = 0.0);
    assert!(forecaster.forecast(&[market("a", 9)], &cold).unwrap_err().to_string().contains("temperature"));
}

/// A copy of the model whose `tensor` of one half is so large that sums overflow.
fn overflowing(half: &str, tensor: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for half in ["tokenizer", "model"] {
        fs::create_dir(folder.path().join(half)).unwrap();
        for file in ["config.json", "model.safetensors"] {
            fs::copy(golden().join(half).join(file), folder.path().join(half).join(file)).unwrap();
        }
    }
    let path = folder.path().join(half).join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let [start, end] = [0, 1].map(|side| 8 + length + header[tensor]["data_offsets"][side].as_u64().unwrap() as usize);
    bytes[start..end].as_chunks_mut().0.fill(f32::MAX.to_le_bytes());
    fs::write(path, bytes).unwrap();
    folder
}

/// Regression: tokens were drawn from logits that are not numbers, and decoded to candles that looked like any others.
#[test]
fn a_model_whose_sums_overflow_fails_instead_of_drawing_nonsense() {
    for (half, tensor) in [
        ("model", "transformer.1.ffn.w2.weight"),
        ("model", "head.proj_s2.weight"),
        ("tokenizer", "encoder.0.ffn.w2.weight"),
        ("tokenizer", "decoder.0.ffn.w2.weight"),
    ] {
        let folder = overflowing(half, tensor);
        let error = load(folder.path(), 2).forecast(&[market("a", 40)], &options(3)).unwrap_err().to_string();
        assert!(error.contains("the model's own numbers overflow, which --sync finds"), "{half} {tensor}: {error}");
    }
}
