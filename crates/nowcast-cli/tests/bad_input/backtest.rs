//! Backtests that cannot be.

use crate::place::{Faults, Place};
use crate::program::{kronos, model};

#[test]
fn settings_and_data_that_allow_no_window() {
    let place = Place::new();
    place.write("short.csv", "date,open,high,low,close\n2024-01-01,1,2,1,1\n2024-01-02,1,2,1,1\n2024-01-03,1,2,1,1\n");
    place.write("untimed.csv", "a\n1\n2\n3\n4\n");
    let (toto, candles) = (model(), kronos());
    let mut faults = Faults::default();
    for (arguments, words) in [
        (&["good.csv"][..], &["5 bars are too few for a context of 512", "--context"][..]),
        (&["good.csv", "--context", "4"], &["good/a: 5 bars are too few", "take 6"]),
        (&["good.csv", "--context", "0"], &["context is 0"]),
        (&["good.csv", "--context", "2", "--horizon", "0"], &["horizon is 0"]),
        (&["good.csv", "--context", "2", "--horizon", "18446744073709551615"], &["too few"]),
        (&["good.csv", "--context", "2", "--stride", "0"], &["stride is 0"]),
        (&["good.csv", "--context", "2", "--windows", "0"], &["0 windows"]),
        (&["good.csv", "--context", "2", "--from", "2025-01-01"], &["no window lies within", "--from"]),
        (&["good.csv", "--context", "2", "--from", "2024-01-03", "--to", "2024-01-02"], &["is after --to"]),
        (&["good.csv", "--context", "2", "--from", "soon"], &["--from <TIME>", "2024-01-31"]),
        (&["good.csv", "--context", "2", "--strategy", "hodl"], &["hodl", "sign, agree, bracket"]),
        (&["good.csv", "--context", "2", "--strategy", "guard_2"], &["[0.5, 1)"]),
        (&["good.csv", "--context", "2", "--strategy", "bracket"], &["need high and low"]),
        (&["good.csv", "--context", "2", "--fee-bps", "-1"], &["fee of -1 basis points"]),
        (&["good.csv", "--context", "2", "--slippage-bps", "nan"], &["slippage of NaN"]),
        (&["good.csv", "--context", "2", "--interval", "1"], &["interval is 1"]),
        (&["good.csv", "--context", "2", "--season", "0"], &["season is 0"]),
        (&["good.csv", "--context", "2", "--calendar", "360"], &["360", "252, 365"]),
        (&["good.csv", "--context", "2", "--samples", "0"], &["0 samples"]),
        (&["good.csv", "--context", "2", "--point", "mode"], &["mode"]),
        (&["good.csv", "--context", "2", "--top-k", "3"], &["--top-k", "only Kronos models know it"]),
        (&["good.csv", "--context", "2", "--model", &toto], &["is given twice"]),
        (&["good.csv", "good.csv", "--context", "2"], &["is given twice"]),
        (&["good.csv", "--context", "2", "--forecasts", "f.xlsx"], &["f.xlsx", ".csv or .parquet"]),
        (&["good.csv", "--context", "2", "--report", "report.pdf"], &["report.pdf: a report is .html"]),
        (&["good.csv", "--context", "2", "--trades", "missing/t.csv"], &["create it first"]),
        (&["good.csv", "--context", "2", "--out", "good.csv"], &["would be overwritten"]),
        (&["good.csv", "--context", "2", "--forecasts", "a.csv", "--trades", "a.csv"], &["would be overwritten"]),
        (&["untimed.csv", "--context", "2"], &["the time of every row", "--time"]),
        (&["nowhere.csv"], &["nowhere.csv", "there is no such file"]),
    ] {
        let mut all = vec!["backtest"];
        all.extend(arguments);
        if !arguments.contains(&"--horizon") {
            all.extend(["--horizon", "2"]);
        }
        all.extend(["--model", &toto]);
        faults.check(&place, &arguments.join(" "), place.call(&all), words);
    }
    for (arguments, words) in [
        (
            &["backtest", "good.csv", "--horizon", "2", "--context", "2"][..],
            &["Kronos needs open, high, low and close"][..],
        ),
        (&["backtest", "short.csv", "--horizon", "2", "--context", "1"], &["cannot be continued"]),
        (&["backtest", "short.csv", "--horizon", "2"], &["3 bars are too few"]),
    ] {
        let all = [arguments, &["--model", &candles]].concat();
        faults.check(&place, &arguments.join(" "), place.call(&all), words);
    }
    faults.check(&place, "no horizon", place.call(&["backtest", "good.csv"]), &["--horizon <N>"]);
}
