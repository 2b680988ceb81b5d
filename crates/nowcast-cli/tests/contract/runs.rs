//! How a forecast runs does not change it.

use serde_json::Value;

use crate::answer::{forecast, json, numbers, parse, run, succeed, vix};
use crate::program::{Call, model};

#[test]
fn the_same_question_has_the_same_bytes() {
    let arguments = ["--horizon", "40", "--samples", "24", "--paths", "--output", "json"];
    let first = forecast(&vix(), &arguments).stdout;
    assert_eq!(forecast(&vix(), &arguments).stdout, first, "run again");
    for threads in ["1", "2", "3"] {
        assert_eq!(forecast(&vix(), &[&arguments[..], &["--threads", threads]].concat()).stdout, first, "{threads}");
    }
    let seeded = forecast(&vix(), &[&arguments[..], &["--seed", "1"]].concat());
    assert_ne!(parse(&seeded)["series"], serde_json::from_str::<Value>(&first).unwrap()["series"]);
}

#[test]
fn a_memory_limit_cuts_the_work_and_not_the_digits() {
    let shape = ["--context", "256", "--horizon", "40", "--samples", "512"];
    let plan = parse(&run(&[&["inspect", &model(), "--json"], &shape[..]].concat()));
    let bytes = |key: &str| plan[key].as_u64().unwrap();
    // Four columns of paths in f32.
    let paths = 4 * 512 * 40 * 4;
    let limit = (bytes("weight_bytes") + paths + bytes("planned_bytes") / 3).to_string();
    let arguments = ["--horizon", "40", "--samples", "512", "--output", "json"];
    let free = json(&vix(), &arguments[..4]);
    let limited = json(&vix(), &[&arguments[..4], &["--memory-limit", &limit]].concat());
    assert_eq!(limited["series"], free["series"]);
    let planned = |answer: &Value| answer["stats"]["planned_bytes"].as_u64().unwrap();
    assert!(planned(&limited) <= bytes("planned_bytes") / 3, "{} of {limit}", planned(&limited));
    assert!(planned(&limited) < planned(&free));
}

#[test]
fn modes_change_the_way_and_not_the_answer() {
    let answer = |mode: &str| json(&vix(), &["--horizon", "8", "--columns", "close", "--mode", mode]);
    let default = answer("default");
    for mode in ["reduce-overhead", "max-autotune", "eager"] {
        let other = answer(mode);
        assert_eq!(other["settings"]["mode"], mode);
        if mode != "eager" {
            assert_eq!(other["series"], default["series"], "{mode}");
        }
    }
    // Unfolded, the same formula rounds elsewhere: far below what a table shows, and not to the bit.
    let quantile = |answer: &Value, level: &str| numbers(&answer["series"][0]["quantiles"][level]);
    let eager = answer("eager");
    let spread: Vec<f64> =
        quantile(&default, "0.9").iter().zip(quantile(&default, "0.1")).map(|(high, low)| high - low).collect();
    for level in ["0.1", "0.5", "0.9"] {
        for ((ours, other), spread) in quantile(&default, level).iter().zip(quantile(&eager, level)).zip(&spread) {
            assert!((ours - other).abs() <= 1e-3 * spread, "{level}: {ours} {other}");
        }
    }
    assert_ne!(eager["series"], default["series"]);
}

#[test]
fn variables_of_old_scripts_choose_the_mode_and_flags_win() {
    let mode = |variables: &[(&str, &str)], more: &[&str]| {
        let (file, model) = (vix(), model());
        let fixed = ["forecast", &file, "--model", &model, "--context", "64", "--horizon", "2", "--output", "json"];
        let call = Call::new(&[&fixed[..], more].concat());
        let call = variables.iter().fold(call, |call, (name, value)| call.variable(name, value));
        parse(&succeed(call))["settings"]["mode"].as_str().unwrap().to_string()
    };
    assert_eq!(mode(&[("TOTO_COMPILE", "0")], &[]), "eager");
    assert_eq!(mode(&[("TOTO_COMPILE", "1")], &[]), "default");
    assert_eq!(mode(&[("TOTO_DISABLE_COMPILE", "1")], &[]), "eager");
    assert_eq!(mode(&[("TOTO_COMPILE", "1"), ("TOTO_COMPILE_MODE", "reduce-overhead")], &[]), "reduce-overhead");
    assert_eq!(mode(&[("TOTO_COMPILE_MODE", "max-autotune")], &[]), "max-autotune");
    assert_eq!(mode(&[("TOTO_DISABLE_COMPILE", "1")], &["--mode", "max-autotune"]), "max-autotune");
}
