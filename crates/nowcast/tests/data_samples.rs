//! Real files read without preparation. Two of them ship in `examples/`; folders with more of them are named by the
//! environment variable `NOWCAST_DATA`.

use std::path::{Path, PathBuf};

use nowcast::data::{ReadOptions, Table};

fn read(path: &Path) -> Table {
    Table::read(path, &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn example(name: &str) -> Table {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name))
}

/// A file of `NOWCAST_DATA`, if that folder has it.
fn sample(name: &str) -> Option<Table> {
    let path = PathBuf::from(std::env::var_os("NOWCAST_DATA")?).join(name);
    path.exists().then(|| read(&path))
}

fn names(table: &Table) -> Vec<&str> {
    table.columns.iter().map(|column| column.name.as_str()).collect()
}

#[test]
fn vix_daily() {
    let table = example("vix_daily.csv");
    assert_eq!((table.name.as_str(), table.rows()), ("vix_daily", 9235));
    assert_eq!(names(&table), ["OPEN", "HIGH", "LOW", "CLOSE"]);
    let stamps = table.stamps_text();
    assert_eq!((stamps[0].as_str(), stamps[9234].as_str()), ("1990-01-02", "2026-07-23"));
    assert_eq!(table.frequency.to_string(), "daily, Monday to Friday");
    assert_eq!(table.future_text(3), ["2026-07-24", "2026-07-27", "2026-07-28"]);
    assert_eq!(table.columns[3].values[9234], 18.7);
}

#[test]
fn kline_5min() {
    let table = example("kline_5min.csv");
    assert_eq!(table.rows(), 2500);
    assert_eq!(names(&table), ["open", "high", "low", "close", "volume", "amount"]);
    let sessions = "every 5 minutes, 09:35 to 11:30 and 13:05 to 15:00, Monday to Friday";
    assert_eq!(table.frequency.to_string(), sessions);
    let future = table.future_text(80);
    // The file ends at the lunch break of a Thursday: the afternoon, the whole Friday, and Monday.
    assert_eq!((future[0].as_str(), future[23].as_str()), ("2024-08-29 13:05:00", "2024-08-29 15:00:00"));
    assert_eq!((future[24].as_str(), future[71].as_str()), ("2024-08-30 09:35:00", "2024-08-30 15:00:00"));
    assert_eq!(future[72], "2024-09-02 09:35:00");
    // Lunch, nights and weekends are no gaps.
    assert!(table.notes.is_empty(), "{:?}", table.notes);
}

#[test]
fn aapl_daily_newest_first() {
    let Some(table) = sample("aapl_daily.csv") else { return };
    assert_eq!(table.rows(), 9400);
    assert_eq!(table.columns.len(), 12);
    let stamps = table.stamps_text();
    assert_eq!((stamps[0].as_str(), stamps[9399].as_str()), ("1980-12-12", "2018-03-27"));
    assert_eq!((table.columns[3].values[9399], table.columns[0].values[0]), (168.34, 28.75));
    assert!(table.notes.iter().any(|note| note.contains("newest first")), "{:?}", table.notes);
    assert_eq!(table.future_text(4), ["2018-03-28", "2018-03-29", "2018-03-30", "2018-04-02"]);
}

#[test]
fn btc_daily_with_null_rows() {
    let Some(table) = sample("btc_usd_daily.csv") else { return };
    assert_eq!(names(&table), ["Open", "High", "Low", "Close", "Adj Close", "Volume"]);
    for column in &table.columns {
        assert_eq!(column.values.iter().filter(|value| value.is_nan()).count(), 4, "{}", column.name);
    }
    assert_eq!(table.future_text(2), ["2021-08-05", "2021-08-06"]);
    let close = table.series().expect("series").remove(3);
    assert_eq!(close.valid(0).iter().filter(|valid| !**valid).count(), 4);
}

#[test]
fn etth1_hourly() {
    let Some(table) = sample("etth1.csv") else { return };
    assert_eq!((table.rows(), table.columns.len()), (17420, 7));
    assert_eq!(table.frequency.to_string(), "every hour");
    assert_eq!(table.future_text(1), ["2018-06-26 20:00:00"]);
    assert_eq!(table.multivariate().expect("series").variates(), 7);
}
