//! Parquet tables written by the tools people use (the files in `data/` come from pandas 3.1 and pyarrow 26), our own
//! writer, and files with damaged bytes.
#![cfg(feature = "parquet")]

use std::path::{Path, PathBuf};

use nowcast::data::{ParquetColumn, ParquetValues, ReadOptions, Table, write_parquet};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn read(name: &str) -> Table {
    Table::read(&file(name), &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn values<'a>(table: &'a Table, name: &str) -> &'a [f64] {
    &table.columns.iter().find(|column| column.name == name).unwrap_or_else(|| panic!("no column {name:?}")).values
}

/// Equal, where NaN equals NaN.
#[track_caller]
fn assert_values(table: &Table, name: &str, expected: &[f64]) {
    let found = values(table, name);
    let same =
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
    assert!(same, "{name}: {found:?}, expected {expected:?}");
}

#[test]
fn a_data_frame_with_its_index() {
    let table = read("pandas_business_days.parquet");
    assert_eq!(table.name, "pandas_business_days");
    assert_values(&table, "Close", &[1.5, 2.5, f64::NAN, 4.5, 5.5, 6.5]);
    assert_values(&table, "Volume", &[0.0, 1000.0, 2000.0, 3000.0, 4000.0, 5000.0]);
    assert_eq!(table.stamps_text()[0], "2024-01-01");
    assert_eq!(table.future_text(5)[3..], ["2024-01-12", "2024-01-15"]);
}

#[test]
fn every_type_of_number() {
    let nan = f64::NAN;
    let table = read("types_zstd.parquet");
    assert_eq!(table.times.as_ref().expect("times").column, "when");
    assert_eq!(table.future_text(1), ["2024-01-01T00:20:00Z"]);
    assert_values(&table, "small", &[1.0, nan, -3.0, 4.0]);
    assert_values(&table, "unsigned", &[9_223_372_036_854_775_808.0, 1.0, 2.0, 3.0]);
    assert_values(&table, "unsigned32", &[4_294_967_295.0, 1.0, 2.0, 3.0]);
    assert_values(&table, "price", &[1.25, nan, -3.5, 4.0]);
    assert_values(&table, "wide", &[12_345_678_901_234_567_890.125; 4]);
    assert_values(&table, "half", &[0.5, 1.5, -2.0, 65_504.0]);
    assert_values(&table, "single", &[0.1_f32, 0.2, 0.3, f32::NAN].map(f64::from));
    assert_values(&table, "nested.a", &[1.0, nan, nan, 4.0]);
    assert_values(&table, "text number", &[1234.5, nan, 3.0, nan]);
    assert_eq!(
        table.notes,
        [
            "left out as times: \"day\"",
            "left out as no numbers: \"flag\", \"list.list.element\", \"clock\"",
            "left out as text: \"symbol\"",
            "thousands separators taken off: \"text number\"",
        ]
    );
}

#[test]
fn every_kind_of_time() {
    let nanoseconds = read("nanoseconds_gzip.parquet");
    assert_values(&nanoseconds, "y", &[1.0, 2.0, 3.0]);
    assert_eq!(nanoseconds.stamps_text()[0], "2024-01-01 00:00:00.123456789");
    assert_eq!(read("int96_lz4.parquet").future_text(1), ["2024-01-01 03:00:00"]);
    assert_eq!(read("text_dates_delta.parquet").future_text(1), ["2024-01-05"]);
    assert_eq!(read("epoch_delta.parquet").future_text(1), ["2024-01-01T00:04:00Z"]);
}

#[test]
fn from_memory_as_from_a_file() {
    let bytes = std::fs::read(file("types_zstd.parquet")).expect("the file");
    let table = Table::from_reader("types_zstd", bytes.as_slice(), &ReadOptions::default()).expect("a table");
    // NaN is no equal of NaN.
    assert_eq!(format!("{table:?}"), format!("{:?}", read("types_zstd.parquet")));
}

#[test]
fn what_cannot_be_used_ends_in_one_line() {
    for (name, columns, words) in [
        ("no_rows.parquet", &[][..], "no rows"),
        ("brotli.parquet", &[], "cannot be read"),
        ("types_zstd.parquet", &["flag"], "column \"flag\" holds no numbers; name a numeric column"),
        ("types_zstd.parquet", &["day"], "column \"day\" holds no numbers"),
        ("types_zstd.parquet", &["symbol"], "row 1, column \"symbol\": \"BTC\" is text"),
        ("types_zstd.parquet", &["smal"], "did you mean \"small\"?"),
    ] {
        let options =
            ReadOptions { columns: columns.iter().map(|name| name.to_string()).collect(), ..Default::default() };
        let error = Table::read(&file(name), &options).expect_err(name).to_string();
        assert!(error.contains(words) && error.contains(name) && !error.contains('\n'), "{error}");
    }
}

fn sample(rows: usize) -> Vec<ParquetColumn> {
    let start = 1_704_067_200_000_000;
    vec![
        ParquetColumn {
            name: "timestamp".into(),
            values: ParquetValues::Stamps {
                microseconds: (0..rows as i64).map(|row| start + row * 60_000_000).collect(),
                utc: true,
            },
        },
        ParquetColumn {
            name: "median".into(),
            values: ParquetValues::Numbers(
                (0..rows).map(|row| if row == 1 { f64::NAN } else { row as f64 * 0.1 }).collect(),
            ),
        },
        ParquetColumn { name: "series".into(), values: ParquetValues::Text(vec!["a".into(); rows]) },
    ]
}

fn written(columns: &[ParquetColumn]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_parquet(&mut bytes, columns).expect("written");
    bytes
}

#[test]
fn what_is_written_reads_back_exactly() {
    // More than one row group.
    let rows = (1 << 20) + 3;
    let table = Table::from_reader("t", written(&sample(rows)).as_slice(), &ReadOptions::default()).expect("a table");
    assert_eq!(table.rows(), rows);
    assert!(values(&table, "median").iter().enumerate().all(|(row, value)| match row {
        1 => value.is_nan(),
        _ => *value == row as f64 * 0.1,
    }));
    assert_eq!(table.stamps_text()[..2], ["2024-01-01T00:00:00Z", "2024-01-01T00:01:00Z"]);
    assert_eq!(table.frequency.to_string(), "every minute");
}

#[test]
fn what_cannot_be_written_is_refused() {
    let column =
        |name: &str, rows| ParquetColumn { name: name.into(), values: ParquetValues::Numbers(vec![1.0; rows]) };
    for (columns, words) in [
        (vec![], "at least one column"),
        (vec![column("a", 2), column("b", 3)], "\"b\" has 3 rows"),
        (vec![column("a", 2), column("a", 2)], "two columns are called \"a\""),
    ] {
        let error = write_parquet(Vec::new(), &columns).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// A small generator (SplitMix64), so that the same bytes are damaged every time.
struct Damage(u64);

impl Damage {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    }
}

#[test]
fn damaged_files_never_panic() {
    let mut damage = Damage(1);
    for name in
        ["pandas_business_days", "types_zstd", "nanoseconds_gzip", "int96_lz4", "text_dates_delta", "epoch_delta"]
    {
        let whole = std::fs::read(file(&format!("{name}.parquet"))).expect("the file");
        for _ in 0..500 {
            let mut bytes = whole.clone();
            for _ in 0..=damage.next(4) {
                let at = 4 + damage.next(bytes.len() - 4);
                bytes[at] = damage.next(256) as u8;
            }
            if damage.next(8) == 0 {
                bytes.truncate(4 + damage.next(whole.len() - 4));
            }
            if let Err(error) = Table::from_reader("damaged", bytes.as_slice(), &ReadOptions::default()) {
                let line = error.to_string();
                assert!(line.starts_with("damaged: ") && !line.contains('\n'), "{line}");
            }
        }
    }
}
