//! Flags and variables that make no sense.

use serde_json::Value;

use crate::place::{Faults, Place};
use crate::program::model;

#[test]
fn settings_out_of_range() {
    let place = Place::new();
    let mut faults = Faults::default();
    for (arguments, words) in [
        (&["--horizon", "0"][..], &["horizon", "1 to"][..]),
        (&["--horizon", "1000000000000"], &["horizon", "1 to"]),
        (&["--horizon", "18446744073709551615"], &["horizon", "1 to"]),
        (&["--horizon", "99999999999999999999"], &["--horizon"]),
        (&["--horizon", "-4"], &["invalid value '-4' for '--horizon <N>'"]),
        (&["--horizon", "4.5"], &["--horizon", "4.5"]),
        (&["--horizon", "NaN"], &["--horizon", "NaN"]),
        (&["--context", "0"], &["context", "at least 1"]),
        (&["--context", "inf"], &["--context"]),
        (&["--samples", "0"], &["samples", "1 to"]),
        (&["--samples", "1000000000000"], &["samples", "1 to"]),
        (&["--samples", "nan"], &["--samples"]),
        // 1 TiB of paths.
        (&["--samples", "16000000", "--horizon", "16384"], &["sample paths", "fewer"]),
        (&["--samples", "16000000", "--horizon", "64", "--memory-limit", "1GiB"], &["sample paths", "1.0 GiB"]),
        (&["--seed", "-1"], &["--seed <S>"]),
        (&["--seed", "x"], &["--seed"]),
        (&["--quantiles", "0"], &["between 0 and 1"]),
        (&["--quantiles", "0.5,1"], &["between 0 and 1"]),
        (&["--quantiles", "NaN"], &["between 0 and 1"]),
        (&["--quantiles", "inf"], &["between 0 and 1"]),
        (&["--quantiles=-0.1"], &["between 0 and 1"]),
        (&["--quantiles", "10%"], &["--quantiles"]),
        (&["--quantiles", ""], &["--quantiles"]),
        (&["--quantiles", "0.1,0.9,0.1"], &["0.1", "twice"]),
        (&["--point", "mode"], &["mode", "trimmed_mean_0.1"]),
        (&["--point", "trimmed_mean_0.5"], &["[0, 0.5)"]),
        (&["--point", "trimmed_mean_nan"], &["--point"]),
        (&["--point", "quantile_1"], &["between 0 and 1"]),
        (&["--point", "mean_plus_std_-1"], &["--point"]),
        (&["--point", "mean_plus_std_0.5", "--samples", "1"], &["two sample paths", "--samples"]),
        (&["--decode", "best"], &["best", "sample, mean"]),
        (&["--decode", "mean", "--samples", "8"], &["mean decode", "samples"]),
        (&["--decode", "mean", "--paths", "--output", "json"], &["mean decode", "paths"]),
        (&["--decode", "mean", "--point", "quantile_0.4"], &["distribution", "--decode sample"]),
        (&["--paths"], &["--paths", "--output json"]),
        (&["--paths", "--output", "csv"], &["--paths", "--output json"]),
        (&["--xpos", "none"], &["none", "cached, uncached"]),
        (&["--device", "tpu"], &["tpu", "auto, cpu"]),
        (&["--device", "cuda"], &["cuda", "--device cpu"]),
        (&["--device", "cuda:99"], &["cuda:99", "--device cpu"]),
        (&["--device", ""], &["--device"]),
        (&["--mode", "fastest"], &["fastest", "max-autotune"]),
        (&["--dtype", "int4"], &["int4", "f32, bf16, int8"]),
        (&["--dtype", "bf16", "--mode", "eager"], &["eager", "bf16", "f32"]),
        (&["--threads", "0"], &["threads", "1 to"]),
        (&["--threads", "1000000"], &["threads", "1 to"]),
        (&["--memory-limit", "0"], &["--memory-limit", "above zero"]),
        (&["--memory-limit", "lots"], &["--memory-limit", "such as 2GiB"]),
        (&["--memory-limit", "2 parsecs"], &["parsecs", "MiB"]),
        (&["--memory-limit", "NaN"], &["--memory-limit"]),
        (&["--memory-limit", "1e30GiB"], &["--memory-limit"]),
        // The weights fit, 128 MiB of paths do not.
        (&["--memory-limit", "128MiB", "--samples", "131072", "--horizon", "128"], &["weights and sample paths take"]),
        (&["--memory-limit", "100KiB"], &["the weights alone take", "100.0 KiB"]),
        (&["--variate-labels"], &["target_variate_label"]),
        (&["--horizn", "4"], &["--horizn", "--horizon"]),
        (&["--output", "yaml"], &["yaml", "json"]),
        (&["--columns"], &["--columns", "value"]),
        (&["--horizon", "4", "--horizon", "5"], &["--horizon", "multiple"]),
    ] {
        faults.check(&place, &arguments.join(" "), place.forecast(&[&["good.csv"], arguments].concat()), words);
    }
    let model = model();
    // Room for the weights, and for no plan.
    let weights = place.call(&["inspect", &model, "--json"]).run();
    let weights = serde_json::from_str::<Value>(&weights.stdout).unwrap()["weight_bytes"].as_u64().unwrap();
    let call = place.forecast(&["good.csv", "--memory-limit", &(weights + 100).to_string()]);
    faults.check(&place, "no room", call, &["one series with one sample needs", "raise the memory limit"]);
    for (arguments, words) in [
        (&["forecast"][..], &["--horizon <N>", "<FILE>", "see nowcast forecast --help"][..]),
        (&["forecast", "good.csv"], &["--horizon <N>"]),
        (&["forecast", "--horizon", "4"], &["<FILE>"]),
        (&["forcast"], &["forcast", "forecast", "see nowcast --help"]),
        (&["completions", "tcl"], &["tcl", "bash"]),
        (&["inspect"], &["<MODEL>"]),
        (&["inspect", &model, "--context", "0"], &["--context 0", "choose 1"]),
        (&["inspect", &model, "--context", "1000000000000000"], &["--context", "choose 1"]),
        (&["inspect", &model, "--variates", "0"], &["--variates 0"]),
        (&["inspect", &model, "--variates", "18446744073709551615"], &["--variates"]),
        (&["inspect", &model, "--horizon", "0"], &["horizon"]),
        (&["inspect", &model, "--samples", "0"], &["samples"]),
        (&["inspect", &model, "--memory-limit", "1"], &["the weights alone take"]),
        (&["bench", "--model", &model, "--warm-up", "600001"], &["--warm-up", "600000"]),
        (&["bench", "--model", &model, "--warm-up", "-1"], &["-1"]),
        (&["bench", "--model", &model, "--warm-up", "9", "--roofline"], &["--warm-up", "--roofline"]),
        (&["bench", "--model", &model, "--runs", "0"], &["runs", "at least 1"]),
        (&["bench", "--model", &model, "--batch", "0"], &["batch", "at least 1"]),
        (&["bench", "--model", &model, "--variates", "0"], &["variates", "at least 1"]),
        (&["bench", "--model", &model, "--context", "0"], &["context", "at least 1"]),
        (&["bench", "--model", &model, "--context", "18446744073709551615", "--batch", "3"], &["at most"]),
        (&["bench", "--model", &model, "--horizon", "0", "--runs", "1"], &["horizon"]),
        (&["bench", "--model", &model, "--samples", "17000000", "--runs", "1"], &["samples"]),
    ] {
        faults.check(&place, &arguments.join(" "), place.call(arguments), words);
    }
}

#[test]
fn variables_of_old_scripts() {
    let place = Place::new();
    let mut faults = Faults::default();
    for (name, value, word) in [
        ("TOTO_COMPILE_MODE", "fastest", "max-autotune"),
        ("TOTO_COMPILE", "off", "0 or 1"),
        ("TOTO_DISABLE_COMPILE", "yes", "0 or 1"),
    ] {
        let call = place.forecast(&["good.csv"]).variable(name, value);
        faults.check(&place, name, call, &[name, value, word]);
    }
}
