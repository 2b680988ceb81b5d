//! Forecasts of candles: what a Kronos model answers on the command line.

use std::fs;
use std::path::Path;

use nowcast::data::{ReadOptions, Table};
use nowcast::{CandleForecaster, CandleOptions, Candles};
use serde_json::Value;

use crate::answer::{example, keys, names, numbers, parse, run, vix};
use crate::program::{Run, kronos};

/// `forecast FILE... --model <small> --context 64` and more; another context may be among it.
fn forecast(files: &[&str], more: &[&str]) -> Run {
    let context: &[&str] = if more.contains(&"--context") { &[] } else { &["--context", "64"] };
    run(&[&["forecast"], files, &["--model", &kronos()], context, more].concat())
}

fn json(files: &[&str], more: &[&str]) -> Value {
    parse(&forecast(files, &[more, &["--output", "json"]].concat()))
}

fn kline() -> String {
    example("kline_5min.csv")
}

/// The paths of every field of a market, `[field][path][step]`.
fn paths(answer: &Value, market: usize) -> Vec<Vec<Vec<f64>>> {
    let series = &answer["series"].as_array().unwrap()[6 * market..6 * market + 6];
    series.iter().map(|series| series["paths"].as_array().unwrap().iter().map(numbers).collect()).collect()
}

#[test]
fn a_market_is_answered_field_by_field() {
    let answer = json(&[&kline()], &["--horizon", "26", "--samples", "6", "--seed", "3", "--paths"]);
    let series = answer["series"].as_array().unwrap();
    let named: Vec<_> = series.iter().map(|series| series["name"].as_str().unwrap()).collect();
    assert_eq!(named, Candles::FIELDS.map(|field| format!("kline_5min/{field}")));
    let table = Table::read(Path::new(&kline()), &ReadOptions::default()).unwrap();
    let (candles, _) = Candles::from_table(&table, 26).unwrap();
    let mut options = CandleOptions::new(26);
    (options.context, options.samples, options.seed) = (Some(64), Some(6), 3);
    let forecast = CandleForecaster::load(&kronos()).unwrap().forecast(&[candles], &options).unwrap().remove(0);
    for (series, variate) in series.iter().zip(forecast.variates()) {
        assert_eq!(numbers(&series["mean"]), variate.mean());
        assert_eq!(series["point"], series["mean"], "the point forecast is the reference's: the mean of the paths");
        assert_eq!(keys(&series["quantiles"]), ["0.1", "0.5", "0.9"]);
        assert_eq!(numbers(&series["quantiles"]["0.9"]), variate.quantile(0.9).unwrap());
        // The file ends at the lunch break of a Thursday.
        let stamps = series["timestamps"].as_array().unwrap();
        assert_eq!((&stamps[0], &stamps[23]), (&"2024-08-29 13:05:00".into(), &"2024-08-29 15:00:00".into()));
        assert_eq!((&stamps[24], stamps.len()), (&"2024-08-30 09:35:00".into(), 26));
    }
    assert_eq!(paths(&answer, 0).iter().map(|paths| (paths.len(), paths[5].len())).collect::<Vec<_>>(), [(6, 26); 6]);
    let market = &answer["markets"][0];
    assert_eq!((market["name"].as_str(), market["consistency"]["bars"].as_u64()), (Some("kline_5min"), Some(6 * 26)));
    let settings = &answer["settings"];
    for (key, value) in [("context", 64), ("max_context", 512), ("samples", 6), ("seed", 3), ("top_k", 0)] {
        assert_eq!(settings[key].as_u64(), Some(value), "{key}");
    }
    for (key, value) in [("point", "mean"), ("filter", "reference"), ("window", "exact"), ("mode", "default")] {
        assert_eq!(settings[key].as_str(), Some(value), "{key}");
    }
    assert_eq!((settings["temperature"].as_f64(), settings["top_p"].as_f64()), (Some(1.0), Some(0.9)));
    assert_eq!((answer["stats"]["plans_built"].as_u64(), answer["stats"]["host_syncs"].as_u64()), (Some(1), Some(0)));
}

#[test]
fn repair_mends_the_bars_that_are_counted() {
    let arguments = ["--horizon", "12", "--samples", "40", "--paths"];
    let drawn = forecast(&[&kline()], &[&arguments[..], &["--output", "json"]].concat());
    let said = drawn.stderr.lines().filter(|line| line.contains("contradict themselves")).collect::<Vec<_>>();
    assert!(said.len() == 1 && said[0].ends_with("--repair mends them"), "{}", drawn.stderr);
    let drawn = parse(&drawn);
    let mended = json(&[&kline()], &[&arguments[..], &["--repair"]].concat());
    let (before, after) = (&drawn["markets"][0], &mended["markets"][0]);
    assert_eq!((before["repaired"].as_bool(), after["repaired"].as_bool()), (Some(false), Some(true)));
    assert_eq!(before["consistency"], after["consistency"], "bars are counted as they were drawn");
    let sound = |paths: &[Vec<Vec<f64>>], path: usize, step: usize| {
        let [open, high, low, close, volume, amount] = [0, 1, 2, 3, 4, 5].map(|field: usize| paths[field][path][step]);
        high >= open.max(close) && low <= open.min(close) && high >= low && volume >= 0.0 && amount >= 0.0
    };
    let unsound = |answer: &Value| {
        let paths = paths(answer, 0);
        (0..40 * 12).filter(|at| !sound(&paths, at / 12, at % 12)).count() as u64
    };
    assert_eq!(unsound(&mended), 0);
    // Random weights draw no price below zero here, so the counts are of the same bars.
    assert_eq!(before["consistency"]["non_positive_price"].as_u64(), Some(0));
    assert_eq!(Some(unsound(&drawn)), before["consistency"]["inconsistent"].as_u64());
    assert!(unsound(&drawn) > 0);
    assert_eq!(paths(&drawn, 0)[3], paths(&mended, 0)[3], "closes stay as they were drawn");
}

#[test]
fn many_files_are_many_markets_with_the_digits_of_each_alone() {
    let (kline, vix) = (kline(), vix());
    let arguments = ["--horizon", "7", "--samples", "5"];
    let together = json(&[&kline, &vix], &arguments);
    let alone = [&kline, &vix].map(|file| json(&[file], &arguments));
    let both: Vec<Value> = alone.iter().flat_map(|answer| answer["series"].as_array().unwrap().clone()).collect();
    assert_eq!(together["series"].as_array().unwrap(), &both);
    let markets: Vec<_> =
        together["markets"].as_array().unwrap().iter().map(|market| market["name"].as_str().unwrap()).collect();
    assert_eq!(markets, ["kline_5min", "vix_daily"]);
    assert!(
        together["notes"]
            .as_array()
            .unwrap()
            .contains(&"vix_daily: there is no volume: volume and amount count as 0".into())
    );
    // Only a market with volume has columns for it.
    let table = forecast(&[&kline, &vix], &arguments);
    for word in ["kline_5min (mean of the paths", "vix_daily (mean", "open", "close", "90%", "volume", "2026-07-24"] {
        assert!(table.stdout.contains(word), "{word}: {}", table.stdout);
    }
    assert_eq!(table.stdout.matches("volume").count(), 1, "{}", table.stdout);
    assert!(table.stdout.starts_with(&format!("{}: 7 bars ahead from 64 past bars, 5 sample paths\n", kronos())));
}

#[test]
fn sampling_is_as_asked() {
    let answer = |more: &[&str]| {
        let arguments = ["--horizon", "6", "--samples", "8", "--paths"];
        paths(&json(&[&kline()], &[&arguments[..], more].concat()), 0)
    };
    let plain = answer(&[]);
    for more in [
        &["--temperature", "0.5"][..],
        &["--top-k", "3"],
        &["--top-p", "0.3"],
        &["--clip", "0.5"],
        &["--seed", "1"],
        &["--max-context", "16", "--context", "16"],
    ] {
        assert_ne!(answer(more), plain, "{more:?}");
    }
    assert_eq!(answer(&["--temperature", "1", "--top-k", "0", "--top-p", "0.9", "--clip", "5"]), plain);
    // The likeliest token leaves nothing to chance.
    let greedy = answer(&["--top-k", "1"]);
    assert_eq!(greedy, answer(&["--top-k", "1", "--seed", "9"]));
    assert!(greedy.iter().all(|paths| paths.iter().all(|path| path == &paths[0])));
    // The reference does not apply top-p where top-k is on.
    let filtered = |top_p: &str, filter: &str| answer(&["--top-k", "20", "--top-p", top_p, "--filter", filter]);
    assert_eq!(filtered("0.2", "reference"), filtered("1", "reference"));
    assert_ne!(filtered("0.2", "both"), filtered("1", "both"));
    assert_eq!(filtered("1", "both"), filtered("1", "reference"));
    // Once the window slides, what has fallen out of it leaves traces in a streaming cache only.
    let sliding = |window: &str| answer(&["--max-context", "12", "--context", "10", "--window", window]);
    assert_ne!(sliding("exact"), sliding("streaming"));
    assert_eq!(answer(&["--window", "streaming"]), plain, "inside the window both are the same");
}

#[test]
fn columns_are_found_or_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.csv");
    let rows = |header: &str| {
        let row = |day: usize| {
            let close = 10.0 + (day as f64 / 3.0).sin();
            format!("2024-01-{day:02},{},{},{},{close},{}\n", close - 0.1, close + 0.5, close - 0.5, close / 2.0)
        };
        format!("{header}\n{}", (1..31).map(row).collect::<String>())
    };
    let closes = |header: &str, more: &[&str]| {
        fs::write(&path, rows(header)).unwrap();
        let arguments = ["--horizon", "3", "--samples", "4"];
        json(&[path.to_str().unwrap()], &[&arguments[..], more].concat())["series"][3].clone()
    };
    let plain = closes("Date,Open,High,Low,Close,Adj Close", &[]);
    assert_eq!(plain, closes("Date,OPEN,HIGH,LOW,LAST,Adj. Close", &[]));
    assert_eq!(plain, closes("Date,a,b,c,d,e", &["--columns", "a,b,c,d"]), "in the order given");
    let adjusted = closes("Date,Open,High,Low,Close,Adj Close", &["--columns", "Open,High,Low,Adj Close"]);
    assert_ne!(plain, adjusted);
    assert!(numbers(&adjusted["point"])[0] < 8.0, "half the close");
}

#[test]
fn bars_without_a_price_are_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("holes.csv");
    let row = |day: usize| match day {
        7 => "2024-01-07,,3,1,2\n".to_string(),
        _ => format!("2024-01-{day:02},2,3,1,{}\n", 2.0 + (day % 5) as f64 / 10.0),
    };
    fs::write(&file, format!("date,open,high,low,close\n{}", (1..20).map(row).collect::<String>())).unwrap();
    let run = forecast(
        &[file.to_str().unwrap()],
        &["--horizon", "2", "--output", "json", "--plot", &{ folder.path().join("holes.svg").display().to_string() }],
    );
    assert!(run.stderr.contains("note: holes: 1 bar(s) without all of open, high, low and close"), "{}", run.stderr);
    assert_eq!(parse(&run)["series"][0]["timestamps"][0], "2024-01-20");
    assert_eq!(names(folder.path()), ["holes.csv", "holes.svg"]);
}

#[test]
fn the_bars_to_come_may_be_told() {
    let folder = tempfile::tempdir().unwrap();
    let future = folder.path().join("future.csv");
    fs::write(&future, "timestamps\n2024-08-29 13:05\n2024-09-02 09:35\n2024-09-02 09:40\n").unwrap();
    let arguments = ["--horizon", "3", "--samples", "4"];
    let rhythm = forecast(&[&kline()], &[&arguments[..], &["--output", "json"]].concat());
    assert!(rhythm.stderr.contains("09:35 to 11:30 and 13:05 to 15:00, Monday to Friday"), "{}", rhythm.stderr);
    let told = ["--output", "json", "--future-times", future.to_str().unwrap()];
    let told = forecast(&[&kline()], &[&arguments[..], &told].concat());
    assert_eq!(told.stderr.lines().filter(|line| line.contains("sessions")).count(), 0);
    let (rhythm, told) = (parse(&rhythm), parse(&told));
    let stamps = ["2024-08-29 13:05:00", "2024-09-02 09:35:00", "2024-09-02 09:40:00"];
    assert_eq!(told["series"][0]["timestamps"], serde_json::json!(stamps));
    // A bar's stamp is seen when the next one is drawn: the first two know of the same past.
    let close = |answer: &Value| numbers(&answer["series"][3]["mean"]);
    assert_eq!(close(&told)[..2], close(&rhythm)[..2]);
    assert_ne!(close(&told)[2], close(&rhythm)[2], "the model sees another day");
}

#[test]
fn formats_and_charts_show_candles() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("kline.svg");
    let arguments = ["--horizon", "4", "--samples", "5"];
    let answer = json(&[&kline()], &arguments);
    let csv = forecast(&[&kline()], &[&arguments[..], &["--output", "csv", "--plot", svg.to_str().unwrap()]].concat());
    let rows: Vec<Vec<&str>> = csv.stdout.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((rows.len(), rows[0].join(",").as_str()), (1 + 6 * 4, "series,timestamp,point,mean,q0.1,q0.5,q0.9"));
    for (row, cells) in rows[1..].iter().enumerate() {
        let series = &answer["series"][row / 4];
        assert_eq!(cells[0], series["name"]);
        assert_eq!(cells[3].parse::<f64>().ok(), series["mean"][row % 4].as_f64());
    }
    let text = fs::read_to_string(&svg).unwrap();
    roxmltree::Document::parse(&text).expect("the chart is XML");
    for word in [">kline_5min<", ">up<", ">down<", ">volume<", ">95% of closes<", ">ahead: mean of the paths<"] {
        assert!(text.contains(word), "{word}");
    }
    #[cfg(feature = "parquet")]
    {
        let path = folder.path().join("answer.parquet");
        let out = ["--output", "parquet", "--out", path.to_str().unwrap()];
        forecast(&[&kline()], &[&arguments[..], &out].concat());
        let refused = Table::read(&path, &ReadOptions::default()).unwrap_err().to_string();
        assert!(refused.contains("20 of 24 rows repeat a moment"), "six fields of four bars: {refused}");
    }
}

#[test]
fn the_same_question_has_the_same_bytes() {
    let arguments = ["--horizon", "6", "--samples", "240", "--paths", "--output", "json"];
    let first = forecast(&[&kline()], &arguments).stdout;
    for threads in ["1", "3"] {
        assert_eq!(forecast(&[&kline()], &[&arguments[..], &["--threads", threads]].concat()).stdout, first);
    }
    let shape = ["--context", "64", "--horizon", "6", "--samples", "240"];
    let plan = parse(&run(&[&["inspect", &kronos(), "--json"], &shape[..]].concat()));
    let bytes = |key: &str| plan[key].as_u64().unwrap();
    let limit = (bytes("weight_bytes") + bytes("path_bytes") + bytes("planned_bytes") / 2).to_string();
    let limited = forecast(&[&kline()], &[&arguments[..], &["--memory-limit", &limit]].concat());
    let [free, limited] = [&first, &limited.stdout].map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(limited["series"], free["series"]);
    assert!(limited["stats"]["planned_bytes"].as_u64() < free["stats"]["planned_bytes"].as_u64());
}

#[test]
fn other_commands_know_candles() {
    let shape = ["--context", "64", "--horizon", "6", "--samples", "8"];
    let answer = parse(&run(&[&["inspect", &kronos(), "--json"], &shape[..]].concat()));
    assert_eq!((answer["family"].as_str(), answer["s1_bits"].as_u64()), (Some("Kronos"), Some(6)));
    assert_eq!((answer["predictor"]["blocks"].as_u64(), answer["predictor"]["width"].as_u64()), (Some(3), Some(48)));
    let bytes = |key: &str| answer[key].as_u64().unwrap();
    assert_eq!(bytes("total_bytes"), bytes("weight_bytes") + bytes("planned_bytes") + bytes("path_bytes"));
    assert_eq!(bytes("path_bytes"), 8 * 6 * 6 * 4, "paths, bars, fields, f32");
    let ran = json(&[&kline()], &["--horizon", "6", "--samples", "8"]);
    assert_eq!(ran["stats"]["planned_bytes"], answer["planned_bytes"]);
    let text = run(&[&["inspect", &kronos()], &shape[..]].concat()).stdout;
    assert!(text.contains("Kronos") && text.contains("tokenizer") && text.contains("a window of 512"), "{text}");

    let sampling = ["--temperature", "0.15", "--top-k", "5", "--runs", "2", "--batch", "2", "--warm-up", "0"];
    let model = kronos();
    let arguments = [&["bench", "--model", &model], &shape[..], &sampling].concat();
    let answer = parse(&run(&[&arguments[..], &["--json"]].concat()));
    assert_eq!(numbers(&answer["runs_ms"]).len(), 2);
    let settings = &answer["settings"];
    assert_eq!((settings["temperature"].as_f64(), settings["top_k"].as_u64()), (Some(0.15), Some(5)));
    assert_eq!((settings["samples"].as_u64(), settings["batch"].as_u64()), (Some(8), Some(2)));
    let counter = |name: &str| answer["counters"][name].as_u64();
    assert_eq!((counter("plans_built"), counter("plans_reused"), counter("host_syncs")), (Some(1), Some(2), Some(0)));
    assert!(run(&arguments).stdout.starts_with("2 market(s) of 64 candles, 6 steps, 8 samples: median "));
}

#[test]
fn the_tokenizer_may_be_named() {
    let tokenizer = Path::new(&kronos()).join("tokenizer").display().to_string();
    let arguments = ["--horizon", "3", "--samples", "4"];
    let named = json(&[&kline()], &[&arguments[..], &["--tokenizer", &tokenizer]].concat());
    assert_eq!(named["series"], json(&[&kline()], &arguments)["series"]);
    assert_eq!(named["settings"]["tokenizer"], tokenizer);
}

#[cfg(feature = "nano")]
#[test]
fn kronos_nano_needs_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["forecast", "-", "--model", "kronos-nano", "--horizon", "4", "--samples", "3", "--output", "json"];
    let rows = (0..60).map(|minute| {
        let close = 100.0 + (f64::from(minute) / 9.0).sin();
        format!("2024-01-02 10:{minute:02},{close},{},{},{close},{}\n", close + 0.2, close - 0.2, 10 + minute % 7)
    });
    let text = format!("time,open,high,low,close,volume\n{}", rows.collect::<String>());
    let answer =
        parse(&crate::answer::succeed(crate::program::Call::new(&arguments).within(folder.path()).input(text)));
    assert_eq!(
        (answer["model"].as_str(), answer["series"][3]["name"].as_str()),
        (Some("kronos-nano"), Some("stdin/close"))
    );
    assert_eq!(answer["series"][0]["timestamps"][0], "2024-01-02 11:00");
    assert!(numbers(&answer["series"][3]["point"]).iter().all(|close| (90.0..110.0).contains(close)));
    assert!(names(folder.path()).is_empty());
}
