//! What is forecast.

use std::fs;
use std::path::Path;

use nowcast::data::{ReadOptions, Table};
use nowcast::{Decode, ForecastOptions, Forecaster};
use serde_json::Value;

use crate::answer::{PATCH, example, forecast, from_library, json, keys, numbers, parse, succeed, vix};
use crate::program::{Call, model};

#[test]
fn numbers_read_back_to_the_bits_of_the_library() {
    for (horizon, samples) in [(PATCH, None), (40, Some(16))] {
        let mut options = ForecastOptions::new(horizon);
        (options.context, options.samples, options.seed) = (Some(256), samples, 3);
        let library = from_library(&options);
        let samples = samples.map(|samples| samples.to_string());
        let asked = samples.as_ref().map_or(vec![], |samples| vec!["--samples", samples]);
        let answer = json(&vix(), &[&["--horizon", &horizon.to_string(), "--seed", "3"], &asked[..]].concat());
        for (series, forecast) in answer["series"].as_array().unwrap().iter().zip(&library) {
            let variate = &forecast.variates()[0];
            assert_eq!(series["name"], variate.name());
            assert_eq!(numbers(&series["mean"]), variate.mean());
            for level in [0.1, 0.5, 0.9] {
                let ours = numbers(&series["quantiles"][level.to_string()]);
                assert_eq!(ours, variate.quantile(level).unwrap(), "{level}");
            }
        }
    }
}

#[test]
fn timestamps_continue_in_the_rhythm_and_style_of_the_file() {
    // The file ends on Thursday, 23 July 2026; trading weeks have five days.
    let stamps = &json(&vix(), &["--horizon", "4"])["series"][0]["timestamps"];
    assert_eq!(*stamps, serde_json::json!(["2026-07-24", "2026-07-27", "2026-07-28", "2026-07-29"]));
    // The file ends at 11:30, where the morning session does: the afternoon's begins at 13:00.
    let stamps = &json(&example("kline_5min.csv"), &["--horizon", "2"])["series"][0]["timestamps"];
    assert_eq!(*stamps, serde_json::json!(["2024-08-29 13:05:00", "2024-08-29 13:10:00"]));
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain.csv");
    fs::write(&plain, "load\n1\n2\n4\n").unwrap();
    let stamps = &json(plain.to_str().unwrap(), &["--horizon", "2"])["series"][0]["timestamps"];
    assert_eq!(*stamps, serde_json::json!([3, 4]));
}

#[test]
fn more_samples_keep_the_first_ones() {
    let paths = |samples: &str| {
        let answer = json(&vix(), &["--horizon", "20", "--columns", "close", "--paths", "--samples", samples]);
        answer["series"][0]["paths"].as_array().unwrap().clone()
    };
    assert_eq!(paths("24")[..8], paths("8"));
}

#[test]
fn a_file_has_the_digits_it_has_alone() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.csv");
    fs::write(&other, "Date,load\n2024-01-01,3\n2024-01-02,5\n2024-01-03,4\n").unwrap();
    let other = other.to_str().unwrap();
    let arguments = ["--horizon", "20", "--samples", "8"];
    let together = json(&vix(), &[&[other], &arguments[..]].concat());
    let (first, second) = (json(&vix(), &arguments), json(other, &arguments));
    let alone: Vec<Value> =
        [first, second].iter().flat_map(|answer| answer["series"].as_array().unwrap().clone()).collect();
    assert_eq!(together["series"], Value::from(alone));
    assert_eq!(together["series"][4]["name"], "other/load");
}

#[test]
fn columns_of_a_multivariate_series_attend_to_each_other() {
    let arguments = ["--horizon", "8"];
    let apart = json(&vix(), &arguments);
    let together = json(&vix(), &[&arguments[..], &["--multivariate"]].concat());
    assert_eq!(together["settings"]["multivariate"], true);
    for column in 0..4 {
        assert_eq!(together["series"][column]["name"], apart["series"][column]["name"]);
        assert_ne!(together["series"][column]["point"], apart["series"][column]["point"]);
    }
    let mut options = ForecastOptions::new(8);
    options.context = Some(256);
    let table = Table::read(Path::new(&vix()), &ReadOptions::default()).unwrap();
    let forecasts = Forecaster::load(&model()).unwrap().forecast(&[table.multivariate().unwrap()], &options).unwrap();
    for (series, variate) in together["series"].as_array().unwrap().iter().zip(forecasts[0].variates()) {
        assert_eq!(numbers(&series["point"]), variate.median());
    }
}

#[test]
fn the_standard_input_is_a_file_too() {
    let text = fs::read(vix()).unwrap();
    let arguments = ["forecast", "-", "--model", &model(), "--context", "256", "--horizon", "8", "--output", "json"]
        .map(String::from);
    let piped = parse(&succeed(Call::new(&arguments).input(text)));
    let read = json(&vix(), &["--horizon", "8"]);
    for column in 0..4 {
        assert_eq!(piped["series"][column]["quantiles"], read["series"][column]["quantiles"]);
    }
    assert_eq!(piped["series"][3]["name"], "stdin/CLOSE");
}

#[test]
fn the_mean_decode_has_one_path_and_no_quantiles() {
    let answer = json(&vix(), &["--horizon", "40", "--decode", "mean", "--columns", "close"]);
    let series = &answer["series"][0];
    assert!(keys(&series["quantiles"]).is_empty() && series.get("paths").is_none());
    assert_eq!(series["point"], series["mean"]);
    let mut options = ForecastOptions::new(40);
    (options.context, options.decode) = (Some(256), Decode::Mean);
    assert_eq!(numbers(&series["mean"]), from_library(&options)[3].variates()[0].mean());
}

#[test]
fn every_point_rule_is_heeded() {
    let point = |rule: &str| {
        let answer = json(&vix(), &["--horizon", "4", "--samples", "40", "--columns", "close", "--point", rule]);
        assert_eq!(answer["settings"]["point"], rule);
        (numbers(&answer["series"][0]["point"]), numbers(&answer["series"][0]["mean"]))
    };
    let (mean, same) = point("mean");
    assert_eq!(mean, same);
    let rules = [
        "median",
        "trimmed_mean_0.1",
        "lower_trimmed_mean_0.1",
        "upper_trimmed_mean_0.1",
        "quantile_0.4",
        "mean_minus_std_0.5",
        "mean_plus_std_0.5",
        "mean_quantile_mix_0.4_0.25",
        "quantile_plus_std_0.4_0.5",
    ];
    let points: Vec<Vec<f64>> = rules.iter().map(|rule| point(rule).0).collect();
    for (index, one) in points.iter().enumerate() {
        assert!(points[..index].iter().all(|other| other != one), "{}", rules[index]);
    }
}

#[test]
fn xpos_matters_only_beyond_the_first_patch() {
    let answer = |horizon: &str, xpos: &str| {
        json(&vix(), &["--horizon", horizon, "--xpos", xpos, "--decode", "mean", "--columns", "close"])["series"]
            .clone()
    };
    assert_eq!(answer("16", "cached"), answer("16", "uncached"));
    assert_ne!(answer("40", "cached"), answer("40", "uncached"));
}

#[test]
fn little_and_flat_data_is_data() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, rows) in [
        ("one-row.csv", "Date,Close\n2024-01-05,3\n".to_string(), 1),
        ("flat.csv", format!("y\n{}", "7\n".repeat(100)), 100),
        ("zeros.csv", format!("y\n{}", "0\n".repeat(40)), 40),
        ("holes.csv", "y,z\n1,\n,2\n3,\n,4\n".to_string(), 4),
    ] {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        for more in
            [&["--horizon", "8"][..], &["--horizon", "40", "--samples", "4"], &["--horizon", "40", "--decode", "mean"]]
        {
            let answer = json(file.to_str().unwrap(), more);
            for series in answer["series"].as_array().unwrap() {
                assert!(numbers(&series["point"]).iter().all(|value| value.is_finite()), "{name} {more:?}");
            }
        }
        let table = forecast(file.to_str().unwrap(), &["--horizon", "3"]);
        let values = if rows == 1 { "1 past value,".to_string() } else { format!("{rows} past values,") };
        assert!(table.stdout.contains(&values), "{}", table.stdout);
    }
}

#[cfg(feature = "nano")]
#[test]
fn nano_needs_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["forecast", "-", "--horizon", "8", "--output", "json"];
    let text = (0..200).map(|step| format!("{}\n", (step as f64 / 9.0).sin())).collect::<String>();
    let answer = parse(&succeed(Call::new(&arguments).within(folder.path()).input(format!("wave\n{text}"))));
    assert_eq!(answer["model"], "nano");
    assert_eq!(numbers(&answer["series"][0]["point"]).len(), 8);
    assert!(crate::answer::names(folder.path()).is_empty());
}
