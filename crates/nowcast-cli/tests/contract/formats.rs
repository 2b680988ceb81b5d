//! How answers are written.

use std::fs;

#[cfg(feature = "parquet")]
use nowcast::data::{ReadOptions, Table};

use crate::answer::{forecast, json, keys, names, numbers, parse, vix};
use crate::program::model;

#[test]
fn json_has_the_promised_keys_and_shapes() {
    let answer = json(&vix(), &["--horizon", "40", "--samples", "32", "--paths", "--quantiles", "0.05,0.5,0.95"]);
    for key in ["model", "horizon", "settings", "series", "stats"] {
        assert!(answer.get(key).is_some(), "{key}");
    }
    assert_eq!((answer["horizon"].as_u64(), answer["model"].as_str()), (Some(40), Some(model().as_str())));
    let settings = &answer["settings"];
    assert_eq!((settings["samples"].as_u64(), settings["seed"].as_u64()), (Some(32), Some(0)));
    assert_eq!((settings["mode"].as_str(), settings["decode"].as_str()), (Some("default"), Some("sample")));
    let series = answer["series"].as_array().unwrap();
    let named: Vec<_> = series.iter().map(|series| series["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["vix_daily/OPEN", "vix_daily/HIGH", "vix_daily/LOW", "vix_daily/CLOSE"]);
    for series in series {
        assert_eq!(series["timestamps"].as_array().unwrap().len(), 40);
        assert_eq!(keys(&series["quantiles"]), ["0.05", "0.5", "0.95"]);
        let (point, mean) = (numbers(&series["point"]), numbers(&series["mean"]));
        let quantiles = ["0.05", "0.5", "0.95"].map(|level| numbers(&series["quantiles"][level]));
        assert_eq!(point, quantiles[1], "the default point forecast is the median");
        let paths: Vec<Vec<f64>> = series["paths"].as_array().unwrap().iter().map(numbers).collect();
        assert_eq!((paths.len(), mean.len()), (32, 40));
        for step in 0..40 {
            assert!(quantiles[0][step] <= quantiles[1][step] && quantiles[1][step] <= quantiles[2][step]);
            // Paths are printed as the shortest f32.
            let mut values: Vec<f32> = paths.iter().map(|path| path[step] as f32).collect();
            values.sort_by(f32::total_cmp);
            let median = (f64::from(values[15]) + f64::from(values[16])) / 2.0;
            assert!((point[step] - median).abs() <= f64::EPSILON * median.abs(), "the median of the paths printed");
        }
    }
    let stats = &answer["stats"];
    assert_eq!((stats["plans_built"].as_u64(), stats["host_syncs"].as_u64()), (Some(1), Some(0)));
}

#[test]
fn csv_and_table_say_what_json_says() {
    let file = vix();
    let arguments = ["--horizon", "5", "--columns", "close,open"];
    let answer = json(&file, &arguments);
    let csv = forecast(&file, &[&arguments[..], &["--output", "csv"]].concat());
    let mut lines = csv.stdout.lines();
    assert_eq!(lines.next(), Some("series,timestamp,point,mean,q0.1,q0.5,q0.9"));
    for series in answer["series"].as_array().unwrap() {
        for step in 0..5 {
            let cells: Vec<&str> = lines.next().expect("a row for each step").split(',').collect();
            assert_eq!(cells[..2], [series["name"].as_str().unwrap(), series["timestamps"][step].as_str().unwrap()]);
            let quantiles = &series["quantiles"];
            let numbers = [&series["point"], &series["mean"], &quantiles["0.1"], &quantiles["0.5"], &quantiles["0.9"]];
            for (cell, numbers) in cells[2..].iter().zip(numbers) {
                assert_eq!(cell.parse::<f64>().ok(), numbers[step].as_f64());
            }
        }
    }
    assert_eq!(lines.next(), None);
    let table = forecast(&file, &arguments);
    for word in ["vix_daily/CLOSE", "vix_daily/OPEN", "median", "10%", "2026-07-24", "5 steps ahead"] {
        assert!(table.stdout.contains(word), "{word}: {}", table.stdout);
    }
    assert_eq!(table.stdout.matches("2026-07-24").count(), 2);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_says_what_json_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answer.parquet");
    let arguments = ["--horizon", "5", "--columns", "close"];
    let answer = json(&vix(), &arguments);
    forecast(&vix(), &[&arguments[..], &["--output", "parquet", "--out", path.to_str().unwrap()]].concat());
    let table = Table::read(&path, &ReadOptions::default()).unwrap();
    let column = |name: &str| table.columns.iter().find(|column| column.name == name).unwrap().values.clone();
    assert_eq!(column("q0.9"), numbers(&answer["series"][0]["quantiles"]["0.9"]));
    assert_eq!(table.stamps_text()[0], "2026-07-24");
}

#[test]
fn an_answer_goes_whole_into_its_file_and_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answer.json");
    fs::write(&path, "an older answer that is much longer than nothing").unwrap();
    let arguments = ["--horizon", "4", "--output", "json"];
    let printed = forecast(&vix(), &arguments);
    let written = forecast(&vix(), &[&arguments[..], &["--out", path.to_str().unwrap()]].concat());
    assert!(written.stdout.is_empty());
    assert_eq!(fs::read_to_string(&path).unwrap(), printed.stdout);
    assert_eq!(names(folder.path()), ["answer.json"]);
    assert_eq!(forecast(&vix(), &[&arguments[..], &["--out", "-"]].concat()).stdout, printed.stdout);
}

#[test]
fn charts_are_drawn_beside_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--horizon", "20", "--samples", "16", "--output", "csv"];
    let alone = forecast(&vix(), &arguments);
    let svg = folder.path().join("chart.svg");
    let with = forecast(&vix(), &[&arguments[..], &["--plot", svg.to_str().unwrap()]].concat());
    assert_eq!(with.stdout, alone.stdout);
    let text = fs::read_to_string(&svg).unwrap();
    let chart = roxmltree::Document::parse(&text).expect("the chart is XML");
    assert_eq!(chart.root_element().tag_name().name(), "svg");
    assert!(text.contains("vix_daily/CLOSE"));
    #[cfg(feature = "png")]
    {
        let png = folder.path().join("chart.PNG");
        forecast(&vix(), &[&arguments[..], &["--plot", png.to_str().unwrap()]].concat());
        assert!(fs::read(&png).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
        assert_eq!(names(folder.path()), ["chart.PNG", "chart.svg"]);
    }
}

#[test]
fn notes_and_counters_go_to_the_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("descending.csv");
    fs::write(&file, "Date,Close,symbol\n2024-01-04,3,X\n2024-01-03,null,X\n2024-01-02,1,X\n").unwrap();
    let file = file.to_str().unwrap();
    let run = forecast(file, &["--horizon", "2", "--output", "json"]);
    let answer = parse(&run);
    assert!(run.stderr.lines().all(|line| line.starts_with("note: descending: ")), "{}", run.stderr);
    assert!(run.stderr.contains("newest first") && run.stderr.contains("left out as text"), "{}", run.stderr);
    assert!(run.stderr.contains("1 of the last 3 values of \"Close\" are missing"), "{}", run.stderr);
    assert_eq!(answer["notes"].as_array().unwrap().len(), run.stderr.lines().count());
    assert!(answer["stats"].get("forecast_ms").is_none(), "times differ from run to run");
    let run = forecast(file, &["--horizon", "2", "--output", "json", "--stats"]);
    assert!(run.stderr.contains("forecast_ms: ") && run.stderr.contains("plans_built: 1"), "{}", run.stderr);
    assert!(parse(&run)["stats"]["forecast_ms"].as_f64().unwrap() > 0.0);
}
