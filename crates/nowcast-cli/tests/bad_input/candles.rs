//! What can go wrong with candles and with the flags of one family of models given to the other.

use crate::place::{Faults, Place};
use crate::program::{golden, kronos, model};

const CANDLES: &str = "date,open,high,low,close,volume
2024-01-01,1,2,0.5,1.5,10
2024-01-02,1.5,2,1,1.2,12
2024-01-03,1.2,1.4,1.1,1.3,9
2024-01-04,1.3,1.6,1.2,1.5,14
";

fn place() -> Place {
    let place = Place::new();
    place.write("candles.csv", CANDLES);
    place
}

#[test]
fn settings_out_of_range() {
    let (place, model) = (place(), kronos());
    let mut faults = Faults::default();
    for (arguments, words) in [
        (&["--horizon", "0"][..], &["horizon is 0", "1 to"][..]),
        (&["--horizon", "513"], &["horizon is 513", "1 to 512"]),
        (&["--horizon", "18446744073709551615"], &["horizon", "1 to"]),
        (&["--context", "0"], &["context", "at least 1"]),
        (&["--samples", "0"], &["0 samples", "1 to"]),
        (&["--samples", "1000000000000"], &["samples", "1 to"]),
        (&["--samples", "16000000", "--horizon", "500", "--memory-limit", "1GiB"], &["sample paths", "1.0 GiB"]),
        (&["--temperature", "0"], &["temperature is 0", "above 0", "--top-k 1"]),
        (&["--temperature", "-1"], &["temperature is -1"]),
        (&["--temperature", "nan"], &["temperature is NaN"]),
        (&["--temperature", "warm"], &["--temperature <T>", "warm"]),
        (&["--top-k", "-1"], &["--top-k <K>"]),
        (&["--top-k", "2.5"], &["--top-k <K>"]),
        (&["--top-p", "0"], &["top_p is 0", "above 0"]),
        (&["--top-p", "1.5"], &["top_p is 1.5", "up to 1"]),
        (&["--top-p", "NaN"], &["top_p is NaN"]),
        (&["--filter", "all"], &["all", "reference, both"]),
        (&["--window", "wide"], &["wide", "exact, streaming"]),
        (&["--clip", "0"], &["clip is 0", "above 0"]),
        (&["--clip", "inf"], &["clip is inf"]),
        (&["--max-context", "0"], &["window is 0 tokens", "1 to"]),
        (&["--max-context", "9999999"], &["window is 9999999 tokens", "1 to"]),
        (&["--tokenizer", "nowhere"], &["nowhere"]),
        (&["--tokenizer", &model_folder(&model)], &["is no Kronos tokenizer"]),
        (&["--quantiles", "0"], &["between 0 and 1"]),
        (&["--point", "mean_plus_std_1", "--samples", "1"], &["two sample paths", "--samples"]),
        (&["--paths"], &["--paths", "--output json"]),
        (&["--memory-limit", "20KiB"], &["the weights alone take", "20.0 KiB"]),
    ] {
        let call = place.forecast(&[&["candles.csv", "--model", &model], arguments].concat());
        faults.check(&place, &arguments.join(" "), call, words);
    }
}

/// The half of the checkpoint that is no tokenizer.
fn model_folder(model: &str) -> String {
    std::path::Path::new(model).join("model").display().to_string()
}

#[test]
fn flags_of_the_other_family() {
    let (place, kronos, toto) = (place(), kronos(), model());
    let mut faults = Faults::default();
    let only_toto = "only Toto models know it";
    for (arguments, words) in [
        (&["--xpos", "cached"][..], &["--xpos", only_toto, "leave it out"][..]),
        (&["--decode", "sample"], &["--decode", only_toto]),
        (&["--multivariate"], &["--multivariate", only_toto]),
        (&["--fill-gaps"], &["--fill-gaps", only_toto]),
        (&["--variate-labels"], &["--variate-labels", only_toto]),
        (&["--xpos", "cached", "--fill-gaps"], &["--fill-gaps, --xpos", "leave them out"]),
    ] {
        let call = place.forecast(&[&["candles.csv", "--model", &kronos], arguments].concat());
        faults.check(&place, &arguments.join(" "), call, words);
    }
    let only_kronos = "only Kronos models know it";
    for (arguments, words) in [
        (&["--temperature", "1"][..], &["--temperature", only_kronos, "another --model"][..]),
        (&["--top-k", "0"], &["--top-k", only_kronos]),
        (&["--top-p", "0.9"], &["--top-p", only_kronos]),
        (&["--filter", "both"], &["--filter", only_kronos]),
        (&["--clip", "5"], &["--clip", only_kronos]),
        (&["--window", "exact"], &["--window", only_kronos]),
        (&["--max-context", "512"], &["--max-context", only_kronos]),
        (&["--repair"], &["--repair", only_kronos]),
        (&["--tokenizer", &kronos], &["no Kronos model", "--tokenizer"]),
    ] {
        let call = place.forecast(&[&["candles.csv", "--model", &toto], arguments].concat());
        faults.check(&place, &arguments.join(" "), call, words);
    }
    for (arguments, words) in [
        (&["bench", "--model", &kronos, "--variates", "2"][..], &["--variates", only_toto][..]),
        (&["bench", "--model", &toto, "--top-k", "5"], &["--top-k", only_kronos]),
        (&["bench", "--model", &kronos, "--samples", "0", "--runs", "1"], &["0 samples"]),
        (&["bench", "--model", &kronos, "--horizon", "18446744073709551615", "--runs", "1"], &["horizon"]),
        (&["inspect", &kronos, "--variates", "3"], &["--variates", only_toto]),
        (&["inspect", &toto, "--window", "exact"], &["--window", only_kronos]),
        (&["inspect", &kronos, "--horizon", "513"], &["horizon is 513"]),
    ] {
        faults.check(&place, &arguments.join(" "), place.call(arguments), words);
    }
}

#[test]
fn tables_without_candles() {
    let (place, model) = (place(), kronos());
    let mut faults = Faults::default();
    let lacks = "Kronos needs open, high, low and close";
    for (name, text, more, words) in [
        (
            "no low",
            "date,open,high,close\n2024-01-01,1,2,1\n2024-01-02,1,2,1\n",
            &[][..],
            &[lacks, "low", "--columns"][..],
        ),
        ("closes only", "date,close\n2024-01-01,1\n2024-01-02,1\n", &[], &[lacks, "open or high or low"]),
        (
            "adjusted close only",
            "date,open,high,low,Adj Close\n2024-01-01,1,2,1,1\n2024-01-02,1,2,1,1\n",
            &[],
            &[lacks, "close", "\"Adj Close\""],
        ),
        ("no times", "open,high,low,close\n1,2,1,1\n1,2,1,1\n", &[], &["the time of every bar", "--time"]),
        ("counted rows", "time,open,high,low,close\n0,1,2,1,1\n1,1,2,1,1\n", &[], &["the time of every bar"]),
        (
            "one bar",
            "date,open,high,low,close\n2024-01-01,1,2,1,1\n",
            &[],
            &["cannot be continued", "at least two bars"],
        ),
        (
            "no whole bar",
            "date,open,high,low,close\n2024-01-01,1,,1,1\n2024-01-02,,2,1,1\n",
            &[],
            &["no bar has all of"],
        ),
        ("one column", CANDLES, &["--columns", "close"], &["1 column(s) are no candle", "four to six"]),
        (
            "seven columns",
            "date,a,b,c,d,e,f,g\n2024-01-01,1,1,1,1,1,1,1\n",
            &["--columns", "a,b,c,d,e,f,g"],
            &["7 column(s) are no candle"],
        ),
        ("no such column", CANDLES, &["--columns", "open,high,low,last"], &["no column \"last\""]),
        (
            "an endless volume",
            "date,open,high,low,close,volume\n2024-01-01,9,9,9,9,1e38\n2024-01-02,1,1,1,1,1\n",
            &[],
            &["the amount of 2024-01-01T00:00:00 is 9e38", "rescale"],
        ),
    ] {
        place.write("data.csv", text);
        faults.check(&place, name, place.forecast(&[&["data.csv", "--model", &model], more].concat()), words);
    }
}

#[test]
fn models_that_are_half_there() {
    let place = place();
    let mut faults = Faults::default();
    let copy = |from: &str, to: &str| {
        std::fs::create_dir_all(place.path(to)).unwrap();
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(golden("kronos-predict").join(from).join(file), place.path(to).join(file)).unwrap();
        }
    };
    copy("tokenizer", "alone/codes");
    copy("model", "lonely/weights");
    for (model, words) in [
        ("alone/codes", &["is a Kronos tokenizer", "name the model"][..]),
        ("lonely/weights", &["has no tokenizer in it or beside it", "--tokenizer"]),
    ] {
        faults.check(&place, model, place.forecast(&["candles.csv", "--model", model]), words);
    }
}
