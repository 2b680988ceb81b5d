//! `nowcast doctor`, and `--sync` that names the operation behind a failure.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::answer::{forecast, parse, run, succeed, vix};
use crate::program::{Call, Run, golden};

/// A copy of the small model whose second layer holds weights so large that sums overflow.
fn damaged() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(golden("toto-univariate").join("config.json"), folder.path().join("config.json")).unwrap();
    let mut bytes = fs::read(golden("toto-univariate").join("model.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let tensor = &header["model.transformer.layers.1.attention.wO.weight"];
    let start = 8 + length + tensor["data_offsets"][0].as_u64().unwrap() as usize;
    let width = tensor["shape"][1].as_u64().unwrap() as usize;
    bytes[start..start + 4 * width].as_chunks_mut().0.fill(f32::MAX.to_le_bytes());
    fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    folder
}

/// What is said of the damaged model: its second layer, and a product in it.
fn names_the_culprit(text: &str) -> bool {
    text.contains("layer 1, Linear (operation ") && text.contains("it makes ")
}

#[test]
fn a_healthy_machine_passes_every_check() {
    let report = parse(&run(&["doctor", "--json"]));
    assert_eq!(report["failed"], 0);
    assert_eq!(report["first_failure"], Value::Null);
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(report["passed"].as_u64(), Some(checks.len() as u64));
    let names: Vec<&str> = checks.iter().map(|check| check["check"].as_str().unwrap()).collect();
    for part in ["scaling", "product", "attention", "norm", "rotary", "mixture", "token", "nano alone", "together"] {
        assert!(names.iter().any(|name| name.contains(part)), "{part}: {names:?}");
    }
    assert_eq!(names.last(), Some(&"nano and kronos-nano together under one memory budget"));
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(report["cpu"]["threads"].as_u64() >= Some(1) && report["cpu"]["instruction_set"].is_string());
    for library in ["driver", "compiler"] {
        assert!(!report[library]["looked_for"].as_array().unwrap().is_empty(), "{library}");
    }
    assert_eq!(report["checkpoints"]["offline"], true);
    for key in ["gpus", "kernel_cache", "memory", "device"] {
        assert!(report.get(key).is_some(), "{key}");
    }
}

#[test]
fn a_machine_without_a_gpu_says_where_it_was_looked_for() {
    let report = run(&["doctor", "--device", "cpu", "--sync"]).stdout;
    for line in ["processor", "memory", "driver", "compiler", "GPU", "kernel cache", "checkpoints", "runs on"] {
        assert!(report.lines().any(|found| found.starts_with(line)), "{line}: {report}");
    }
    let driver = report.lines().find(|line| line.starts_with("driver")).unwrap();
    assert!(driver.contains("libcuda") || driver.contains("nvcuda"), "{driver}");
    assert!(report.contains("PASS  nano alone") && report.ends_with(" passed, 0 failed\n"), "{report}");
}

#[test]
fn a_model_that_fails_is_named_with_the_operation_behind_it() {
    let folder = damaged();
    let model = folder.path().to_str().unwrap();
    for sync in [&[][..], &["--sync"]] {
        let Run { code, stdout, stderr } = Call::new(&[&["doctor", "--model", model, "--json"], sync].concat()).run();
        assert_eq!((code, stderr.as_str()), (Some(1), ""));
        let report: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(report["failed"], 1, "{report}");
        let failure = report["first_failure"].as_str().unwrap();
        assert!(failure.starts_with(&format!("{model} alone: ")) && names_the_culprit(failure), "{failure}");
    }
    let text = Call::new(&["doctor", "--model", model]).run().stdout;
    assert!(text.contains(&format!("FAIL  {model} alone")) && text.contains("\nfirst failure: "), "{text}");
}

#[test]
fn what_cannot_be_examined_is_one_line() {
    for line in [&["doctor", "--model", "no/such-model"][..], &["doctor", "--device", "tpu"]] {
        let Run { code, stdout, stderr } = Call::new(line).run();
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(2), "", 1), "{stderr}");
    }
}

#[test]
fn a_synchronous_run_has_the_same_bytes() {
    let shape = ["--horizon", "24", "--samples", "8", "--columns", "close", "--output", "csv"];
    let plain = forecast(&vix(), &shape).stdout;
    assert_eq!(forecast(&vix(), &[&shape[..], &["--sync"]].concat()).stdout, plain);
    run(&[
        "bench",
        "--model",
        "kronos-nano",
        "--context",
        "40",
        "--horizon",
        "2",
        "--samples",
        "2",
        "--runs",
        "1",
        "--sync",
    ]);
    for case in ["toto-univariate", "kronos-predict"] {
        run(&["verify", "--goldens", golden(case).to_str().unwrap(), "--sync"]);
    }
}

#[test]
fn a_forecast_that_fails_names_the_operation_if_it_is_asked_to() {
    let folder = damaged();
    let fixed = ["forecast", &vix(), "--model", folder.path().to_str().unwrap(), "--horizon", "4"];
    let refused = |call: Call| {
        let Run { code, stdout, stderr } = call.run();
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(2), "", 1), "{stderr}");
        assert!(names_the_culprit(&stderr), "{stderr}");
    };
    refused(Call::new(&[&fixed[..], &["--sync"]].concat()));
    refused(Call::new(&fixed).variable("CUDA_LAUNCH_BLOCKING", "1"));
    let explained = succeed(Call::new(&["config", "--explain", "forecast"]).variable("CUDA_LAUNCH_BLOCKING", "1"));
    let line = explained.stdout.lines().find(|line| line.starts_with("sync ")).expect("a line").to_string();
    assert!(line.contains("true") && line.ends_with("variable CUDA_LAUNCH_BLOCKING"), "{line}");
}
