//! Studies that cannot be made.

use crate::place::{Faults, Place};
use crate::program::{kronos, model};

#[test]
fn studies_that_cannot_be_made() {
    let place = Place::new();
    place.write("other.json", "{}");
    let (small, candles) = (model(), kronos());
    let mut faults = Faults::default();
    for (arguments, words) in [
        (&["verify"][..], &["MODEL"][..]),
        (&["verify", "nowhere/at/all/x"], &["nowhere"]),
        (&["verify", &small, "nowhere.csv"], &["nowhere.csv"]),
        (&["verify", &small, "good.csv"], &["5 steps", "64"]),
        (&["verify", &candles, "good.csv"], &["good"]),
        (&["verify", &small, "--goldens", "x"], &["--goldens"]),
        (&["verify", &small, "--family", "toto"], &["--goldens"]),
        (&["verify", &small, "--memory-limit", "1GiB"], &["--memory-limit", "leave it out"]),
        (&["verify", &small, "--device", "tpu"], &["tpu", "choose"]),
        (&["stability"], &["DATA"]),
        (&["stability", "good.csv", "--model", &small], &["good/a", "--windows"]),
        (&["stability", "good.csv", "--model", &small, "--seeds", "1"], &["--seeds"]),
        (&["stability", "good.csv", "--model", &small, "--horizon", "0"], &["--horizon"]),
        (&["stability", "good.csv", "--model", &candles], &["good"]),
        (&["stability", "good.csv", "--model", &small, "--windows", "18446744073709551615"], &["--windows"]),
        (&["baseline", "save", "base.json", "good.csv", "--model", &small], &["good/a", "--windows"]),
        (&["baseline", "save", "good.csv", "good.csv", "--model", &small], &["good.csv would be overwritten"]),
        (&["baseline", "save", "no/base.json", "good.csv"], &["no/base.json"]),
        (&["baseline", "save", "base.json", "good.csv", "--tolerance", "much"], &["--tolerance", "0.1%"]),
        (&["baseline", "check", "base.json", "good.csv"], &["base.json"]),
        (&["baseline", "check", "other.json", "good.csv"], &["other.json is no baseline", "baseline save"]),
        (&["baseline", "check", "good.csv", "good.csv"], &["good.csv is no baseline"]),
        (&["bench", "nowhere.csv", "--model", &small], &["nowhere.csv"]),
        (&["bench", "good.csv", "--model", &small, "--batch", "3"], &["--batch"]),
        (&["bench", "good.csv", "--model", &small, "--temperature", "0.5"], &["--temperature", "Kronos"]),
    ] {
        faults.check(&place, &arguments.join(" "), place.call(arguments), words);
    }
}
