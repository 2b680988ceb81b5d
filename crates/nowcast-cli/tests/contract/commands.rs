//! The commands beside `forecast`.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::answer::{json, numbers, parse, run, succeed, vix};
use crate::program::{Call, golden, model};

#[test]
fn inspect_tells_the_memory_before_the_run() {
    let shape = ["--context", "256", "--horizon", "40", "--samples", "64"];
    let answer = parse(&run(&[&["inspect", &model(), "--json"], &shape[..]].concat()));
    assert_eq!((answer["parameters"].as_u64(), answer["patch_size"].as_u64()), (Some(154_900), Some(16)));
    assert_eq!((answer["time_layers"].as_u64(), answer["space_layers"].as_u64()), (Some(3), Some(1)));
    let bytes = |key: &str| answer[key].as_u64().unwrap();
    assert_eq!(bytes("total_bytes"), bytes("weight_bytes") + bytes("planned_bytes") + bytes("path_bytes"));
    assert_eq!(bytes("path_bytes"), 64 * 40 * 4, "f32");
    // One series with this context and these samples takes the plan that was announced.
    let ran = json(&vix(), &["--horizon", "40", "--samples", "64", "--columns", "close"]);
    assert_eq!(ran["stats"]["planned_bytes"], answer["planned_bytes"]);
    let text = run(&[&["inspect", &model()], &shape[..]].concat());
    assert!(text.stdout.contains("154900 parameters") && text.stdout.contains("patch        16 steps"));
}

#[test]
fn bench_reports_what_it_timed() {
    let arguments =
        ["bench", "--model", &model(), "--context", "64", "--horizon", "20", "--samples", "8", "--runs", "3"];
    let answer = parse(&run(&[&arguments[..], &["--batch", "2", "--variates", "2", "--json"]].concat()));
    for key in ["first_ms", "median_ms", "p99_ms", "sigma_ms", "planned_bytes"] {
        assert!(answer[key].as_f64().is_some_and(|number| number >= 0.0), "{key}");
    }
    assert_eq!(numbers(&answer["runs_ms"]).len(), 3);
    assert!(answer.get("peak_bytes").is_some());
    let settings = &answer["settings"];
    for (key, value) in [("context", 64), ("horizon", 20), ("samples", 8), ("batch", 2), ("variates", 2), ("runs", 3)] {
        assert_eq!(settings[key].as_u64(), Some(value), "{key}");
    }
    assert_eq!((settings["mode"].as_str(), settings["dtype"].as_str()), (Some("default"), Some("f32")));
    let counter = |name: &str| answer["counters"][name].as_u64();
    let warm_up = answer["warm_up_runs"].as_u64().unwrap();
    assert_eq!((counter("plans_built"), counter("plans_reused")), (Some(1), Some(warm_up + 3)));
    assert!(warm_up > 0);
    assert_eq!(
        (counter("graphs_captured"), counter("graphs_replayed"), counter("host_syncs")),
        (Some(0), Some(0), Some(0))
    );
    assert!(run(&arguments).stdout.contains("over 3 runs"));
    let cold = parse(&run(&[&arguments[..], &["--warm-up", "0", "--json"]].concat()));
    assert_eq!((cold["warm_up_runs"].as_u64(), cold["counters"]["plans_reused"].as_u64()), (Some(0), Some(3)));
    assert_eq!(cold["settings"]["warm_up_ms"].as_u64(), Some(0));
}

/// A copy of a golden case with one stored value changed by a thousandth.
fn tampered() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let case = folder.path().join("toto-tampered");
    fs::create_dir(&case).unwrap();
    for file in ["case.json", "config.json", "model.safetensors"] {
        fs::copy(golden("toto-univariate").join(file), case.join(file)).unwrap();
    }
    let mut bytes = fs::read(golden("toto-univariate").join("golden.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let start = 8 + length + header["mean_kv_f64"]["data_offsets"][0].as_u64().unwrap() as usize;
    let value = f64::from_le_bytes(bytes[start..start + 8].try_into().unwrap());
    bytes[start..start + 8].copy_from_slice(&(value * 1.001).to_le_bytes());
    fs::write(case.join("golden.safetensors"), bytes).unwrap();
    folder
}

#[test]
fn verify_passes_the_goldens_and_fails_a_tampered_one() {
    let goldens = golden("toto-univariate").display().to_string();
    let report = parse(&run(&["verify", "--goldens", &goldens, "--family", "toto", "--json"]));
    assert_eq!((report["passed"].as_u64(), report["failed"].as_u64()), (Some(1), Some(0)));
    let case = &report["cases"][0];
    assert_eq!((case["case"].as_str(), case["pass"].as_bool()), (Some("toto-univariate"), Some(true)));
    let checks = case["checks"].as_array().unwrap();
    assert!(checks.len() > 12);
    for check in checks {
        assert!(check["tensor"].is_string() && check["pass"] == true && check.get("reference_error").is_some());
        assert!(check["error"].as_f64().unwrap() <= check["limit"].as_f64().unwrap());
    }
    assert!(
        succeed(Call::new(&["verify", "--goldens", "."]).within(&golden("toto-univariate"))).stdout.contains("PASS")
    );

    let folder = tampered();
    let run = Call::new(&["verify", "--goldens", folder.path().to_str().unwrap(), "--json"]).run();
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    let report = parse(&run);
    assert_eq!((report["passed"].as_u64(), report["failed"].as_u64()), (Some(0), Some(1)));
    let failed: Vec<_> =
        report["cases"][0]["checks"].as_array().unwrap().iter().filter(|check| check["pass"] == false).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["tensor"], "mean_kv");
    assert!(failed[0]["error"].as_f64() > failed[0]["limit"].as_f64(), "{:?}", failed[0]);
}

#[test]
fn shells_get_their_completions() {
    for (shell, sign) in [("bash", "complete "), ("zsh", "#compdef nowcast"), ("fish", "complete -c nowcast")] {
        let script = run(&["completions", shell]);
        assert!(script.stdout.contains(sign) && script.stdout.contains("memory-limit"), "{shell}");
    }
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let commands = [
        "forecast",
        "verify",
        "stability",
        "baseline",
        "inspect",
        "bench",
        "doctor",
        "backtest",
        "tune",
        "config",
        "completions",
    ];
    for command in commands {
        let help = run(&[command, "--help"]);
        let (_, examples) = help.stdout.split_once("Example").expect("a heading");
        assert!(examples.contains(&format!("  nowcast {command}")), "{command}: {examples}");
        assert_eq!(help.stderr, "");
    }
    let help = run(&["--help"]);
    assert!(help.stdout.contains("  nowcast forecast"), "{}", help.stdout);
    assert_eq!(run(&["--version"]).stdout, concat!("nowcast ", env!("CARGO_PKG_VERSION"), "\n"));
}
