//! Goldens that are not there or damaged.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::place::{Faults, Place};
use crate::program::golden;

#[test]
fn goldens_that_are_not_there() {
    let place = Place::new();
    fs::create_dir(place.path("empty")).unwrap();
    fs::create_dir_all(place.path("other/chronos-1")).unwrap();
    place.write("other/chronos-1/case.json", "{}");
    let mut faults = Faults::default();
    for (arguments, words) in [
        (&["--goldens", "nowhere"][..], &["nowhere"][..]),
        (&["--goldens", "good.csv"], &["good.csv"]),
        (&["--goldens", "empty"], &["case.json"]),
        (&["--goldens", "other"], &["toto-*"]),
        (&["--goldens", "other", "--family", "prophet"], &["prophet", "toto"]),
        (&["--goldens", "empty", "--mode", "quick"], &["quick", "eager"]),
        (&[], &["MODEL"]),
    ] {
        faults.check(&place, &arguments.join(" "), place.call(&[&["verify"], arguments].concat()), words);
    }
}

/// A case that cannot be read or computed has failed, in words: exit status 1, as the other cases go on.
#[test]
fn damaged_goldens_fail_in_words() {
    let place = Place::new();
    let case = place.path("goldens/toto-damaged");
    fs::create_dir_all(&case).unwrap();
    let copy = |name: &str| assert!(fs::copy(golden("toto-univariate").join(name), case.join(name)).unwrap() > 0);
    let fails = |name: &str, word: &str| {
        let run = place.call(&["verify", "--goldens", "goldens", "--json"]).run();
        assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""), "{name}");
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        let failure = report["cases"][0]["failure"].as_str().unwrap_or_default();
        assert!(failure.contains(word) && !failure.contains('\n'), "{name}: {failure}");
    };
    let files = ["case.json", "config.json", "model.safetensors", "golden.safetensors"];
    for missing in &files[1..] {
        files.iter().copied().for_each(copy);
        fs::remove_file(case.join(missing)).unwrap();
        fails(missing, missing);
    }
    files.iter().copied().for_each(copy);
    let text = fs::read_to_string(case.join("case.json")).unwrap();
    for (field, value, word) in [
        ("prediction_length", json!(0), "horizon"),
        ("prediction_length", json!(1_000_000_000_000_u64), "horizon"),
        ("prediction_length", json!(-3), "case.json"),
        ("prediction_length", json!(40), "holds"),
        ("num_samples", json!(u64::MAX), "samples"),
        ("num_exogenous_variables", json!(u64::MAX), "exogenous"),
        ("num_exogenous_variables", json!(1), "exogenous"),
        ("labels", json!(true), "label"),
    ] {
        let mut edited: Value = serde_json::from_str(&text).unwrap();
        edited["args"][field] = value.clone();
        fs::write(case.join("case.json"), edited.to_string()).unwrap();
        fails(&format!("{field}: {value}"), word);
    }
    copy("case.json");
    let bytes = fs::read(golden("toto-univariate").join("golden.safetensors")).unwrap();
    for (tensor, shape) in [
        ("series", json!([1, 96])),
        ("series", json!([96, 1, 1])),
        ("mean_kv", json!([11, 1])),
        ("quantile_levels", json!([13, 1])),
    ] {
        // Another shape of the same size: read as something else, or not at all, and never a panic.
        write_golden(&case, &bytes, |header| header[tensor]["shape"] = shape.clone());
        let run = place.call(&["verify", "--goldens", "goldens"]).run();
        assert!(matches!(run.code, Some(0 | 1)) && run.stderr.is_empty(), "{tensor} {shape}: {}", run.stderr);
    }
    for (tensor, other) in [
        ("mean_kv_f64", "hidden_f64"),
        ("mean_kv", "hidden"),
        ("quantile_levels", "hidden_f64"),
        ("sample_quantiles", "hidden"),
        ("mix_df", "hidden"),
        ("affine_loc", "hidden"),
        ("padding_mask", "patch_id_mask"),
        ("series", "mean_kv"),
        ("first_patch_quantiles_exact_f64", "hidden_f64"),
    ] {
        // One tensor exchanged for another of a different size.
        write_golden(&case, &bytes, |header| {
            let first = header[tensor].take();
            header[tensor] = header[other].take();
            header[other] = first;
        });
        let run = place.call(&["verify", "--goldens", "goldens"]).run();
        assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""), "{tensor}");
    }
}

fn write_golden(case: &Path, bytes: &[u8], edit: impl FnOnce(&mut Value)) {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    edit(&mut header);
    let header = header.to_string().into_bytes();
    let whole = [&(header.len() as u64).to_le_bytes()[..], &header, &bytes[8 + length..]].concat();
    fs::write(case.join("golden.safetensors"), whole).unwrap();
}
