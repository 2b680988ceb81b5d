use jiff::civil::date;
use proptest::prelude::*;

use super::*;
use crate::data::ReadOptions;

fn table(text: &str) -> Table {
    Table::from_reader("kline", text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn choose(text: &str, columns: &[&str]) -> Table {
    let columns = columns.iter().map(|name| (*name).to_string()).collect();
    Table::from_reader("kline", text.as_bytes(), &ReadOptions { columns, ..ReadOptions::default() }).unwrap()
}

fn refused(text: &str) -> String {
    Candles::from_table(&table(text), 2).unwrap_err().to_string()
}

const WHOLE: &str = "timestamps,open,high,low,close,volume,amount
2024-01-02 09:35,1,4,0.5,2,10,15
2024-01-02 09:40,2,5,1.5,3,20,60
";

#[test]
fn a_whole_table_is_taken_as_it_is() {
    let (candles, notes) = Candles::from_table(&table(WHOLE), 2).unwrap();
    assert_eq!((candles.name(), candles.len(), candles.is_empty()), ("kline", 2, false));
    assert_eq!(candles.rows(), [[1.0, 4.0, 0.5, 2.0, 10.0, 15.0], [2.0, 5.0, 1.5, 3.0, 20.0, 60.0]]);
    assert_eq!(candles.stamps()[1], date(2024, 1, 2).at(9, 40, 0, 0));
    assert_eq!(candles.future(), [date(2024, 1, 2).at(9, 45, 0, 0), date(2024, 1, 2).at(9, 50, 0, 0)]);
    assert!(notes.is_empty(), "{notes:?}");
    let tail = candles.tail(1);
    assert_eq!((tail.len(), tail.rows()[0][0], tail.future()), (1, 2.0, candles.future()));
    assert_eq!(candles.tail(9), candles);
}

#[test]
fn volume_and_amount_are_filled_as_the_reference_fills_them() {
    let (candles, notes) = Candles::from_table(
        &table("Date,Open,High,Low,Close,Volume\n2024-01-02,1,4,0.5,2,10\n2024-01-03,1,1,1,1,\n"),
        1,
    )
    .unwrap();
    assert_eq!(candles.rows(), [[1.0, 4.0, 0.5, 2.0, 10.0, 18.75], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]]);
    assert_eq!(candles.missing(), Missing { bars: 0, volumes: 1, amounts: 0 });
    assert_eq!(
        notes,
        [
            "there is no amount: it is volume times the mean of the four prices",
            "1 bar(s) have no volume: volume and amount count as 0"
        ]
    );
    let (candles, notes) = Candles::from_table(
        &table("Date,Open,High,Low,Close,amount\n2024-01-02,1,4,0.5,2,10\n2024-01-03,1,1,1,1,5\n"),
        1,
    )
    .unwrap();
    assert_eq!(candles.rows()[0][4..], [0.0, 0.0]);
    assert_eq!(notes, ["there is no volume: volume counts as 0, and so does the amount given"]);
    let (candles, notes) = Candles::from_table(&table(&WHOLE.replace(",60", ",")), 1).unwrap();
    assert_eq!(candles.rows()[1][5], 20.0 * 2.875);
    assert_eq!(notes, ["1 bar(s) have no amount: it is volume times the mean price"]);
}

#[test]
fn bars_without_a_price_are_left_out() {
    let text = WHOLE.replace("2,5,1.5,3", "2,5,,3") + "2024-01-02 09:45,2,5,1.5,3,20,60\n";
    let (candles, notes) = Candles::from_table(&table(&text), 1).unwrap();
    assert_eq!((candles.len(), candles.missing().bars), (2, 1));
    assert_eq!(candles.stamps()[1], date(2024, 1, 2).at(9, 45, 0, 0));
    assert_eq!(notes, ["1 bar(s) without all of open, high, low and close are left out"]);
    let none = "Date,open,high,low,close\n2024-01-02,1,,1,1\n2024-01-03,,1,1,1\n";
    assert_eq!(refused(none), "kline: no bar has all of open, high, low and close; Kronos needs at least one");
}

#[test]
fn columns_have_many_names_and_adjusted_prices_are_others() {
    for header in [
        "Date,OPEN,High,low,Close,Vol,Turnover",
        "date,1. open,2. high,3. low,4. close,5. volume,amt",
        "日期,开盘,最高,最低,收盘,成交量,成交额",
        "<DATE>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<TICKVOL>,amount",
    ] {
        let text = format!("{header}\n2024-01-02,1,4,0.5,2,10,15\n2024-01-03,1,4,0.5,2,10,15\n");
        let (candles, notes) = Candles::from_table(&table(&text), 1).unwrap();
        assert_eq!(candles.rows()[0], [1.0, 4.0, 0.5, 2.0, 10.0, 15.0], "{header}");
        assert!(notes.is_empty(), "{header}: {notes:?}");
    }
    let text = "Date,Open,High,Low,Close,Adj Close,Volume\n2024-01-02,1,4,0.5,2,1.9,10\n2024-01-03,1,4,0.5,2,1.9,10\n";
    let (candles, notes) = Candles::from_table(&table(text), 1).unwrap();
    assert_eq!(candles.rows()[0][3], 2.0);
    assert_eq!(notes[0], "no field of a candle and left out: \"Adj Close\"");
    let (candles, _) = Candles::from_chosen(&choose(text, &["Open", "High", "Low", "Adj Close"]), 1).unwrap();
    assert_eq!(candles.rows()[0], [1.0, 4.0, 0.5, 1.9, 0.0, 0.0]);
}

#[test]
fn chosen_columns_go_by_name_or_by_order() {
    let (candles, notes) =
        Candles::from_chosen(&choose(WHOLE, &["close", "open", "low", "high", "volume"]), 1).unwrap();
    assert_eq!(candles.rows()[0], [1.0, 4.0, 0.5, 2.0, 10.0, 18.75]);
    assert_eq!(notes, ["there is no amount: it is volume times the mean of the four prices"]);
    let odd = WHOLE.replace("open,high,low,close,volume,amount", "erster,hoch,tief,letzter,volume,amount");
    let (candles, notes) = Candles::from_chosen(&choose(&odd, &["erster", "hoch", "tief", "letzter"]), 1).unwrap();
    assert_eq!(candles.rows()[0], [1.0, 4.0, 0.5, 2.0, 0.0, 0.0]);
    assert_eq!(
        notes[0],
        "columns are taken in the order given: open is \"erster\", high is \"hoch\", low is \"tief\", close is \"letzter\""
    );
    let error = Candles::from_chosen(&choose(WHOLE, &["close"]), 1).unwrap_err().to_string();
    assert!(error.starts_with("kline: 1 column(s) are no candle; name four to six"), "{error}");
}

#[test]
fn what_is_no_candle_is_refused_with_its_cure() {
    let error = refused("Date,Close,Volume\n2024-01-02,1,2\n2024-01-03,1,2\n");
    assert!(error.contains("no column is called open or high or low; name the four"), "{error}");
    let error = refused("open,high,low,close\n1,1,1,1\n2,2,2,2\n");
    assert!(error.contains("needs the time of every bar") && error.contains("--time"), "{error}");
    let error = refused("Date,open,high,low,close\n2024-01-02,1,1,1,1\n");
    assert!(error.contains("cannot be continued"), "{error}");
    let error = refused("Date,open,high,low,close,volume\n2024-01-02,1,1,1,1,1\n2024-01-03,1e30,2e30,1e30,1e30,1e30\n");
    assert!(error.contains("the amount of 2024-01-03T00:00:00 is 1.25e60, beyond"), "{error}");
}

#[test]
fn columns_given_by_hand_are_checked() {
    let stamps = || vec![date(2024, 1, 2).at(0, 0, 0, 0), date(2024, 1, 3).at(0, 0, 0, 0)];
    let four = |close: Vec<f64>| CandleColumns {
        open: vec![1.0; 2],
        high: vec![2.0; 2],
        low: vec![0.5; 2],
        close,
        ..CandleColumns::default()
    };
    assert_eq!(Candles::new("x", four(vec![1.0; 2]), stamps(), Vec::new()).unwrap().len(), 2);
    let refuse = |columns| Candles::new("x", columns, stamps(), Vec::new()).unwrap_err().to_string();
    assert!(refuse(four(vec![1.0; 3])).starts_with("x: close has 3 values for 2 stamps"));
    assert!(refuse(CandleColumns { volume: Some(Vec::new()), ..four(vec![1.0; 2]) }).starts_with("x: volume has 0"));
    assert!(refuse(four(vec![f64::NAN; 2])).contains("no bar has all of"));
    assert!(refuse(four(vec![1.0, f64::INFINITY])).contains("the close of 2024-01-03T00:00:00 is inf"));
    assert!(Candles::new("x", CandleColumns::default(), Vec::new(), Vec::new()).is_err());
}

#[test]
fn past_bars_that_contradict_themselves_are_noted() {
    let (_, notes) = Candles::from_table(&table(&WHOLE.replace("2,5,1.5,3", "2,2.5,1.5,3")), 1).unwrap();
    assert_eq!(notes, ["1 of 2 bars contradict themselves (1 a high below open or close)"]);
}

#[test]
fn stamps_are_read_as_the_exchange_writes_them() {
    let text = "time,open,high,low,close\n2024-03-08T15:30-05:00,1,1,1,1\n2024-03-08T16:00-05:00,1,1,1,1\n";
    let (candles, _) = Candles::from_table(&table(text), 1).unwrap();
    assert_eq!(candles.future(), [date(2024, 3, 8).at(16, 30, 0, 0)]);
    // 2024-06-18 was a Tuesday.
    assert_eq!(time_features(&date(2024, 6, 18).at(11, 15, 59, 0)), [15, 11, 1, 18, 6]);
    assert_eq!(time_features(&date(2023, 12, 31).at(23, 59, 0, 0)), [59, 23, 6, 31, 12]);
    assert_eq!(time_features(&date(2024, 1, 1).at(0, 0, 0, 0)), [0, 0, 0, 1, 1]);
}

proptest! {
    #[test]
    fn no_columns_panic(
        values in prop::collection::vec(prop_oneof![-1e40..1e40f64, Just(f64::NAN), Just(f64::INFINITY), Just(0.0)], 0..60),
        with_volume: bool,
        with_amount: bool,
    ) {
        let bars = values.len() / 6;
        let column = |field: usize| values[field * bars..(field + 1) * bars].to_vec();
        let columns = CandleColumns {
            open: column(0),
            high: column(1),
            low: column(2),
            close: column(3),
            volume: with_volume.then(|| column(4)),
            amount: with_amount.then(|| column(5)),
        };
        let stamps = vec![date(2024, 1, 2).at(0, 0, 0, 0); bars];
        if let Ok(candles) = Candles::new("x", columns, stamps, Vec::new()) {
            prop_assert_eq!(candles.len() + candles.missing().bars, bars);
            prop_assert!(candles.rows().iter().flatten().all(|value| (*value as f32).is_finite()));
        }
    }
}
