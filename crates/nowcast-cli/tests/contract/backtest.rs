//! `nowcast backtest`: its numbers, its files, and that they say how they came about.

use std::fs;

use nowcast::data::{ReadOptions, Table};
use serde_json::Value;

use crate::answer::{example, keys, names, numbers, parse, run, vix};
use crate::program::{kronos, model};

fn backtest(files: &[&str], more: &[&str]) -> Value {
    parse(&run(&[&["backtest"], files, more, &["--output", "json"]].concat()))
}

/// The latest three windows of the sample data with the small model.
const SHORT: [&str; 6] = ["--horizon", "4", "--context", "64", "--windows", "3"];

#[test]
fn every_parameter_is_in_the_answer_and_figures_are_there() {
    let model = model();
    let more = [&SHORT[..], &["--model", &model, "--fee-bps", "7", "--strategy", "sign,bracket,guard_0.7"]].concat();
    let answer = backtest(&[&vix()], &more);
    assert_eq!(keys(&answer), ["forecasters", "notes", "settings", "symbols"]);
    let settings = &answer["settings"];
    for (key, value) in [("horizon", 4), ("context", 64), ("windows", 3), ("stride", 4), ("fee_bps", 7), ("seed", 0)] {
        assert_eq!(settings[key].as_f64(), Some(f64::from(value)), "{key}");
    }
    assert_eq!(settings["strategies"], serde_json::json!(["sign", "bracket", "guard_0.7"]));
    assert_eq!((settings["models"][0].as_str(), settings["calendar"].as_str()), (Some(&*model), Some("auto")));
    let symbol = &answer["symbols"][0];
    assert_eq!((symbol["name"].as_str(), symbol["windows"].as_u64()), (Some("vix_daily"), Some(3)));
    assert_eq!(symbol["bars_per_year"].as_f64(), Some(252.0));
    let bars = symbol["timestamps"].as_array().unwrap().len();
    assert_eq!(bars, 3 * 4 + 1);
    let forecasters = answer["forecasters"].as_array().unwrap();
    let kinds: Vec<_> = forecasters.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["model", "reference", "reference", "reference", "reference"]);
    for forecaster in forecasters {
        let scores = &forecaster["symbols"][0]["scores"];
        assert!(scores["mae"].as_f64().unwrap() > 0.0 && scores["wql"].as_f64().unwrap() > 0.0, "{forecaster}");
        for trading in forecaster["trading"].as_array().unwrap() {
            assert_eq!(numbers(&trading["symbols"][0]["equity"]).len(), bars);
            assert!(trading["symbols"][0]["performance"]["max_drawdown"].is_number());
        }
    }
}

#[test]
fn the_last_window_is_the_forecast_of_the_file_that_ends_there() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read_to_string(vix()).unwrap();
    let cut = folder.path().join("vix_daily.csv");
    let rows = whole.lines().count() - 4;
    fs::write(&cut, whole.lines().take(rows).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let forecasts = folder.path().join("forecasts.csv");
    let (model, path) = (model(), forecasts.display().to_string());
    run(&[&["backtest", &vix(), "--model", &model, "--forecasts", &path], &SHORT[..]].concat());
    let text = fs::read_to_string(&forecasts).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let first = header.iter().position(|name| *name == "forecast_1").unwrap();
    let window = lines.rfind(|row| row[2] == model && !row[first].is_empty()).unwrap();
    let shape = ["--context", "64", "--horizon", "4", "--columns", "CLOSE", "--output", "json"];
    let single = parse(&run(&[&["forecast", cut.to_str().unwrap(), "--model", &model], &shape[..]].concat()));
    let point = numbers(&single["series"][0]["point"]);
    let parsed: Vec<f64> = window[first..first + 4].iter().map(|cell| cell.parse().unwrap()).collect();
    assert_eq!(parsed, point);
}

#[test]
fn toto_and_kronos_stand_side_by_side() {
    let (toto, candles) = (model(), kronos());
    let more =
        [&SHORT[..], &["--model", &toto, "--model", &candles, "--samples", "4", "--temperature", "0.5"]].concat();
    let answer = backtest(&[&example("kline_5min.csv")], &more);
    assert_eq!(answer["forecasters"].as_array().unwrap().len(), 6);
    assert_eq!(answer["settings"]["temperature"], 0.5);
    // 48 bars of a day, 252 days.
    assert_eq!(answer["symbols"][0]["bars_per_year"].as_f64(), Some(12096.0));
}

/// Regression: backtests of Toto alone said that there is no amount, which only whole candles have.
#[test]
fn what_candles_lack_is_said_of_candles_alone() {
    for (model, says) in [(model(), false), (kronos(), true)] {
        let answer = backtest(&[&vix()], &[&SHORT[..], &["--model", &model, "--samples", "2"]].concat());
        let notes: Vec<&str> = answer["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
        assert_eq!(notes.contains(&"vix_daily: there is no volume: volume and amount count as 0"), says, "{notes:?}");
    }
}

#[test]
fn files_of_forecasts_and_trades_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let model = model();
    let more = ["--model", &model, "--forecasts", &path("f.csv"), "--trades", &path("t.csv"), "--output", "csv"];
    let report = ["--out", &path("r.csv"), "--report", &path("r.html")];
    let results = run(&[&["backtest", &vix()], &SHORT[..], &more, &report].concat());
    assert!(results.stdout.is_empty());
    assert_eq!(names(folder.path()), ["f.csv", "r.csv", "r.html", "t.csv"]);
    let header = |name: &str| fs::read_to_string(path(name)).unwrap().lines().next().unwrap().to_string();
    assert!(
        header("f.csv").starts_with("datetime,instrument,model,Open,High,Low,Close,Volume,score,label,forecast_1,")
    );
    assert!(header("t.csv").ends_with("EntryPrice,ExitPrice,PnL,ReturnPct,EntryTime,ExitTime"));
    assert!(header("r.csv").starts_with("forecaster,symbol,windows,mae,"));
    assert_eq!(fs::read_to_string(path("r.csv")).unwrap().lines().count(), 1 + 5);
    #[cfg(feature = "parquet")]
    {
        let more = ["--model", &model, "--forecasts", &path("f.parquet"), "--trades", &path("t.parquet")];
        run(&[&["backtest", &vix()], &SHORT[..], &more].concat());
        // The same rows: five forecasters repeat every moment, which a table of one series must not.
        let refused = Table::read(path("f.parquet").as_ref(), &ReadOptions::default()).unwrap_err().to_string();
        assert!(refused.contains("repeat a moment"), "{refused}");
    }
}

#[test]
fn the_same_question_has_the_same_bytes() {
    let (file, model) = (vix(), model());
    let arguments = [&["backtest", &file, "--model", &model, "--output", "json"], &SHORT[..]].concat();
    let first = run(&arguments).stdout;
    assert_eq!(run(&[&arguments[..], &["--threads", "1"]].concat()).stdout, first);
}

#[test]
fn the_table_is_for_people() {
    let text = run(&[&["backtest", &vix(), "--model", &model()], &SHORT[..]].concat()).stdout;
    for words in
        ["1 symbol, 3 windows, 4 bars ahead, a window every 4 bars", "MASE", "vix_daily, strategy sign", "buy and hold"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}
