//! `nowcast tune`, and that other commands take what it found.

use std::fs;

use serde_json::Value;

use crate::answer::{example, names, parse, run, vix};
use crate::program::{kronos, model};

/// A small search over the sample data.
fn tune(file: &str, model: &str, out: &str, trials: &str) -> String {
    let shape = ["--horizon", "4", "--windows", "4", "--test-windows", "3", "--trials", trials, "--out", out];
    run(&[&["tune", file, "--model", model], &shape[..]].concat()).stdout
}

fn read(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_search_goes_on_where_it_stopped_and_repeats_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (file, model) = (vix(), model());
    let text = tune(&file, &model, &path("whole.json"), "6");
    assert!(text.contains("mase on the best of 6 trials") && text.contains("vix_daily"), "{text}");
    assert_eq!(names(folder.path()), ["whole.json", "whole.json.journal"]);
    // Three trials, then three more: the same file, and the first three lines stay.
    tune(&file, &model, &path("parts.json"), "3");
    let journal = fs::read_to_string(path("parts.json.journal")).unwrap();
    assert_eq!(journal.lines().count(), 1 + 3);
    tune(&file, &model, &path("parts.json"), "6");
    assert!(fs::read_to_string(path("parts.json.journal")).unwrap().starts_with(&journal));
    assert_eq!(fs::read_to_string(path("parts.json")).unwrap(), fs::read_to_string(path("whole.json")).unwrap());

    let found = read(&path("whole.json"));
    let tuned = &found["symbols"]["vix_daily"];
    assert!(tuned["validation"].is_f64() && tuned["test"].is_f64() && tuned["test_of_defaults"].is_f64(), "{found}");
    assert_eq!((found["goal"].as_str(), found["search"]["seed"].as_u64()), (Some("mase"), Some(0)));
    // Never worse than the defaults where it was chosen: they are the first trial.
    let first: Value = serde_json::from_str(journal.lines().nth(1).unwrap()).unwrap();
    assert_eq!(first["settings"], serde_json::json!({}));
    assert!(tuned["validation"].as_f64() <= first["scores"][0].as_f64());
}

#[test]
fn other_commands_take_what_was_found_and_flags_win() {
    let folder = tempfile::tempdir().unwrap();
    let params = folder.path().join("tuned.json").display().to_string();
    let (file, model) = (vix(), model());
    tune(&file, &model, &params, "1");
    let mut changed = read(&params);
    changed["symbols"]["vix_daily"]["settings"] = serde_json::json!({"context": 48, "point": "quantile_0.4"});
    fs::write(&params, changed.to_string()).unwrap();
    let forecast = |more: &[&str]| {
        let arguments =
            ["forecast", &file, "--model", &model, "--columns", "CLOSE", "--horizon", "4", "--output", "json"];
        parse(&run(&[&arguments[..], more].concat()))
    };
    let tuned = forecast(&["--params", &params]);
    assert_eq!(
        (tuned["settings"]["context"].as_u64(), tuned["settings"]["point"].as_str()),
        (Some(48), Some("quantile_0.4"))
    );
    assert_eq!(tuned["series"], forecast(&["--context", "48", "--point", "quantile_0.4"])["series"]);
    assert_eq!(forecast(&["--params", &params, "--context", "96"])["settings"]["context"].as_u64(), Some(96));
    let backtest = |more: &[&str]| {
        let arguments = ["backtest", &file, "--model", &model, "--horizon", "4", "--windows", "3", "--output", "json"];
        parse(&run(&[&arguments[..], more].concat()))["forecasters"][0].clone()
    };
    assert_eq!(backtest(&["--params", &params]), backtest(&["--context", "48", "--point", "quantile_0.4"]));
}

#[test]
fn kronos_is_tuned_too() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tuned.json").display().to_string();
    let file = example("kline_5min.csv");
    tune(&file, &kronos(), &out, "2");
    let journal = fs::read_to_string(format!("{out}.journal")).unwrap();
    let second: Value = serde_json::from_str(journal.lines().nth(2).unwrap()).unwrap();
    assert!(second["settings"]["temperature"].is_f64() && second["settings"]["top_k"].is_u64(), "{second}");
}
