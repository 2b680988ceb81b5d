//! Searches that cannot be, and parameters that are none.

use crate::place::{Faults, Place};
use crate::program::model;

#[test]
fn searches_that_cannot_be() {
    let place = Place::new();
    let model = model();
    place.write("tuned.json.journal", "{\"search\": \"another\"}\n");
    let rows = (1..=28)
        .map(|day| format!("2024-02-{day:02},{day}\n"))
        .chain((1..=28).map(|day| format!("2024-03-{day:02},{day}\n")));
    place.write("month.csv", format!("date,x\n{}", rows.collect::<String>()));
    let mut faults = Faults::default();
    let short = ["--windows", "2", "--test-windows", "2"];
    for (arguments, words) in [
        (&["good.csv"][..], &["good/a", "too few"][..]),
        (&["month.csv"], &["month/x: 56 bars are too few for 50 windows of validation and 50 of test"]),
        (&[&["month.csv", "--trials", "0"], &short[..]].concat(), &["0 trials", "1 to"]),
        (&[&["month.csv", "--minutes", "0"], &short[..]].concat(), &["--minutes 0", "above 0"]),
        (&[&["month.csv", "--goal", "mape"], &short[..]].concat(), &["mape", "mase, rmse, wql, direction"]),
        (&["month.csv", "--windows", "0"], &["0 windows"]),
        (&[&["month.csv", "--out", "month.csv"], &short[..]].concat(), &["would be overwritten"]),
        (&[&["month.csv", "--out", "missing/t.json"], &short[..]].concat(), &["create it first"]),
        (&[&["month.csv"], &short[..]].concat(), &["tuned.json.journal", "other data or settings", "--out"]),
    ] {
        let all = [&["tune"], arguments, &["--horizon", "4", "--model", &model]].concat();
        faults.check(&place, &arguments.join(" "), place.call(&all), words);
    }
}

#[test]
fn parameters_that_are_none() {
    let place = Place::new();
    let model = model();
    let file = |model: &str, symbols: &str| {
        format!("{{\"version\":1,\"model\":{model:?},\"goal\":\"mase\",\"search\":{{}},\"symbols\":{{{symbols}}}}}")
    };
    let tuned = |context: usize| {
        format!("{{\"settings\":{{\"context\":{context}}},\"validation\":1,\"test\":null,\"test_of_defaults\":null}}")
    };
    place.write("other.json", file("another", ""));
    place.write("unknown.json", file(&model, &format!("\"eth\":{}", tuned(3))));
    place.write("apart.json", file(&model, &format!("\"good/a\":{},\"good/b\":{}", tuned(3), tuned(4))));
    place.write("none.json", "[]");
    let mut faults = Faults::default();
    for (name, words) in [
        ("missing.json", &["missing.json", "no such file"][..]),
        ("none.json", &["none.json holds no tuned parameters", "nowcast tune"]),
        ("good.csv", &["given twice"]),
        ("other.json", &["was tuned for another"]),
        ("unknown.json", &["--params knows nothing of good/a, only of eth"]),
        ("apart.json", &["good/a and good/b were tuned to different settings", "one at a time"]),
    ] {
        faults.check(&place, name, place.forecast(&["good.csv", "--params", name]), words);
    }
    let backtest = ["backtest", "good.csv", "--horizon", "1", "--context", "2", "--model", &model, "--params"];
    faults.check(
        &place,
        "backtest",
        place.call(&[&backtest[..], &["unknown.json"]].concat()),
        &["knows nothing of good/a"],
    );
}
