//! Files that cannot be written, or must not be.

use std::fs;

use crate::place::{Faults, Place};
#[cfg(target_os = "linux")]
use crate::program::model;

#[cfg(target_os = "linux")]
#[test]
fn a_standard_output_that_is_full() {
    let place = Place::new();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_nowcast"))
        .args(["forecast", "good.csv", "--horizon", "4", "--model", &model()])
        .current_dir(place.path("."))
        .stdout(full)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.ends_with("error: standard output: the disk is full: make room or choose another\n"), "{said}");
}

#[test]
fn outputs_that_cannot_be_written() {
    let place = Place::new();
    fs::create_dir(place.path("folder")).unwrap();
    fs::create_dir(place.path("folder.svg")).unwrap();
    let mut faults = Faults::default();
    for (arguments, words) in [
        (&["--out", "missing/out.csv"][..], &["missing/out.csv", "create it first"][..]),
        (&["--out", "folder"], &["folder", "name a file in it"]),
        (&["--out", ""], &["--out"]),
        (&["--out", "good.csv/out.csv"], &["good.csv/out.csv"]),
        (&["--out", "good.csv"], &["good.csv would be overwritten", "name a new one"]),
        (&["--out", "./folder/../good.csv"], &["would be overwritten"]),
        (&["--plot", "missing/chart.svg"], &["missing/chart.svg", "create it first"]),
        (&["--plot", "folder.svg"], &["folder.svg", "name a file in it"]),
        (&["--plot", "chart.pdf"], &["chart.pdf", ".svg or .png"]),
        (&["--plot", "chart"], &["chart", ".svg or .png"]),
        (&["--plot", "a.svg", "--out", "a.svg"], &["a.svg would be overwritten"]),
        (&["--plot", "chart.svg", "--out", "missing/out.csv"], &["missing/out.csv"]),
        (&["--plot", "missing/chart.svg", "--out", "out.csv"], &["missing/chart.svg"]),
        (&["--plot", "chart.svg", "--point", "quantile_0.4", "--decode", "mean"], &["--decode sample"]),
        #[cfg(feature = "parquet")]
        (&["--output", "parquet"], &["--out FILE"]),
        #[cfg(target_os = "linux")]
        (&["--out", "/dev/full"], &["/dev/full"]),
        #[cfg(target_os = "linux")]
        (&["--out", "/proc/out.csv"], &["/proc/out.csv"]),
    ] {
        faults.check(&place, &arguments.join(" "), place.forecast(&[&["good.csv"], arguments].concat()), words);
    }
}
