//! The commands that study a model: `verify MODEL`, `stability`, `baseline` and the table of `bench`.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::answer::{example, keys, names, parse, run, succeed, vix};
use crate::program::{Call, kronos, model};

#[test]
fn verify_holds_every_mode_against_eager() {
    let report = parse(&run(&["verify", &model(), &vix(), "--quick", "--device", "cpu", "--dtype", "f32", "--json"]));
    assert_eq!(report["failed"].as_u64(), Some(0), "{report:#}");
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(report["passed"].as_u64(), Some(checks.len() as u64));
    for check in checks {
        assert!(check["measured"].as_f64().unwrap() <= check["limit"].as_f64().unwrap());
    }
    let has = |key: &str, word: &str| checks.iter().any(|check| check[key].as_str().unwrap().contains(word));
    for mode in ["default f32 cpu", "reduce-overhead f32 cpu", "max-autotune f32 cpu"] {
        assert!(has("way", mode), "{mode}");
    }
    for what in ["1 step", "3 steps: mean path", "KV cache of the path", "one thread", "plans built", "memory"] {
        assert!(has("what", what), "{what}");
    }
    let only = ["--quick", "--mode", "default", "--dtype", "f32", "--device", "cpu"];
    let text = run(&[&["verify", &kronos()], &only[..]].concat()).stdout;
    assert!(text.lines().filter(|line| line.starts_with("PASS  default f32 cpu")).count() > 20, "{text}");
    assert!(text.contains("logits against f64") && text.ends_with("0 failed\n"), "{text}");
}

#[test]
fn stability_is_exact_for_one_seed_and_within_its_limit_over_seeds() {
    let file = vix();
    let arguments = ["stability", &file, "--model", &model(), "--context", "64", "--device", "cpu", "--windows", "300"];
    let report =
        parse(&run(&[&arguments[..], &["--horizon", "4", "--seeds", "3", "--dtype", "f32", "--json"]].concat()));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!((report["passed"].as_u64(), report["failed"].as_u64()), (Some(rows.len() as u64), Some(0)));
    let of = |mode: &str, quantiles: &str| {
        let found = rows.iter().find(|row| row["mode"] == mode && row["quantiles"] == quantiles);
        found.unwrap_or_else(|| panic!("{mode} {quantiles}"))
    };
    for (mode, quantiles) in
        [("eager", "exact"), ("default", "exact"), ("eager", "256 paths"), ("default", "256 paths")]
    {
        let row = of(mode, quantiles);
        assert_eq!(row["sigma_mae_same_seed"].as_f64(), Some(0.0));
        assert_eq!(row["plans_built"].as_u64(), Some(0));
        assert_eq!(row["sigma_mae_seeds"].as_f64() == Some(0.0), quantiles == "exact", "{row}");
        assert!(row["median_ms"].as_f64() > Some(0.0));
    }
    // Rounding alone is far below what another seed changes.
    assert!(of("default", "exact")["mae_against_eager"].as_f64().unwrap().abs() < 1e-4);
}

/// With one path in three windows the seed decides: this is no stable setting, and it is said.
#[test]
fn what_is_not_stable_fails() {
    let file = vix();
    let arguments = ["stability", &file, "--model", &model(), "--context", "64", "--device", "cpu", "--windows", "3"];
    // The limit of one path is 16%.
    let run = Call::new(
        &[&arguments[..], &["--horizon", "1", "--samples", "1", "--mode", "default", "--dtype", "f32"]].concat(),
    )
    .run();
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    let failed: Vec<&str> = run.stdout.lines().filter(|line| line.ends_with("FAIL")).collect();
    assert!(failed.len() == 1 && failed[0].contains("1 paths"), "{}", run.stdout);
}

/// A folder with a baseline of two models, and the command that made it.
fn saved() -> (TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(example("kline_5min.csv"), folder.path().join("kline.csv")).unwrap();
    let flags = ["--windows", "6", "--horizon", "4", "--context", "64", "--device", "cpu", "--samples", "8"];
    let models = [model(), kronos()];
    let with = ["baseline", "save", "base.json", "kline.csv", "--model", &models[0], "--model", &models[1]];
    let command: Vec<String> = with.iter().chain(&flags).map(|part| (*part).to_string()).collect();
    let run = succeed(Call::new(&command).within(folder.path()));
    assert!(run.stdout.contains("WQL") && run.stderr.contains("base.json"), "{}", run.stdout);
    (folder, command)
}

fn check(folder: &TempDir, more: &[&str]) -> crate::program::Run {
    let arguments = [&["baseline", "check", "base.json", "kline.csv", "--device", "cpu"][..], more].concat();
    Call::new(&arguments).within(folder.path()).run()
}

#[test]
fn a_baseline_is_found_again_to_the_last_digit_and_reads_well() {
    let (folder, command) = saved();
    let text = fs::read_to_string(folder.path().join("base.json")).unwrap();
    let baseline: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(keys(&baseline), ["data", "format", "models", "settings", "version"]);
    assert_eq!(baseline["data"]["kline.csv"]["sha256"].as_str().map(str::len), Some(64));
    let scores = &baseline["models"][kronos()]["symbols"]["kline"];
    assert_eq!(keys(scores), ["coverage_80", "mae", "mae_percent", "verdict", "wql"]);
    assert!(text.lines().all(|line| line.matches(": ").count() <= 1), "one value on each line");
    let unchanged = check(&folder, &["--tolerance", "0"]);
    assert_eq!(unchanged.code, Some(0), "{}{}", unchanged.stdout, unchanged.stderr);
    assert_eq!(unchanged.stdout, "none of 8 scores moved by more than 0%\n");
    // Again, over the old file: the same bytes, and nothing beside it.
    succeed(Call::new(&command).within(folder.path()));
    assert_eq!(fs::read_to_string(folder.path().join("base.json")).unwrap(), text);
    assert_eq!(names(folder.path()), ["base.json", "kline.csv"]);
}

#[test]
fn what_moved_is_named_with_how_far() {
    let (folder, _) = saved();
    let path = folder.path().join("base.json");
    let mut baseline: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let score = &mut baseline["models"][model()]["symbols"]["kline"]["mae"];
    *score = (score.as_f64().unwrap() / 1.25).into();
    fs::write(&path, serde_json::to_vec(&baseline).unwrap()).unwrap();
    let run = check(&folder, &[]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    let line = run.stdout.lines().nth(1).unwrap();
    assert!(line.contains("kline") && line.contains("mae") && line.contains("+25.000%"), "{}", run.stdout);
    assert!(run.stdout.ends_with("1 of 8 scores moved by more than 0.1%\n"), "{}", run.stdout);
    assert_eq!(check(&folder, &["--tolerance", "30%"]).code, Some(0));
    let moved = check(&folder, &["--json"]);
    assert_eq!(parse(&moved)["moved"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_is_not_comparable_is_one_line() {
    let (folder, _) = saved();
    let refused = |more: &[&str], words: &[&str]| {
        let run = check(&folder, more);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{}", run.stderr);
    };
    refused(&["--mode", "eager"], &["--mode eager", "the baseline was made with"]);
    refused(&[&vix()], &["vix_daily.csv", "leave that file out"]);
    let file = folder.path().join("kline.csv");
    let rows = fs::read_to_string(&file).unwrap();
    fs::write(&file, &rows[..rows.len() - 60]).unwrap();
    refused(&[], &["kline.csv is not the file of the baseline", "rows"]);
    fs::write(&file, &rows).unwrap();
    let path = folder.path().join("base.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"format\": 1", "\"format\": 2")).unwrap();
    refused(&[], &["base.json is no baseline", "format is 2"]);
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    refused(&[], &["base.json is no baseline", "baseline save"]);
}

#[test]
fn bench_sets_symbols_and_modes_beside_each_other() {
    let files = [vix(), example("kline_5min.csv")];
    let shape = ["--model", &model(), "--context", "64", "--runs", "3", "--samples", "8", "--device", "cpu"];
    let arguments = [&["bench", &files[0], &files[1]], &shape[..]].concat();
    let answer = parse(&run(&[&arguments[..], &["--json"]].concat()));
    let rows = answer["rows"].as_array().unwrap();
    let of = |symbol: &str, mode: &str| {
        let found = rows.iter().find(|row| row["symbol"] == symbol && row["mode"] == mode && row["dtype"] == "f32");
        found.unwrap_or_else(|| panic!("{symbol} {mode}: {answer:#}"))
    };
    for symbol in ["vix_daily", "kline_5min"] {
        assert_eq!(of(symbol, "eager")["speedup"].as_f64(), Some(1.0));
        for key in ["first_ms", "median_ms", "p99_ms", "sigma_ms", "speedup", "planned_bytes"] {
            assert!(of(symbol, "default")[key].as_f64().is_some_and(|number| number >= 0.0), "{key}");
        }
    }
    let text = run(&[&arguments[..], &["--mode", "default", "--dtype", "f32"]].concat()).stdout;
    assert_eq!(text.lines().count(), 3, "{text}");
    let text = run(&["bench", "--compare", "--model", &kronos(), "--context", "64", "--runs", "2", "--device", "cpu"]);
    assert!(text.stdout.contains("synthetic  eager") && text.stdout.contains("synthetic  default"), "{}", text.stdout);
}
