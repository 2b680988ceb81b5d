//! Every oddity of real files, one small table each: read without preparation, and said in the notes.

use nowcast::data::{Frequency, ReadOptions, Table};

fn read_with(text: impl AsRef<[u8]>, options: &ReadOptions) -> Table {
    Table::from_reader("t", text.as_ref(), options).unwrap_or_else(|error| panic!("{error}"))
}

fn read(text: impl AsRef<[u8]>) -> Table {
    read_with(text, &ReadOptions::default())
}

fn values<'a>(table: &'a Table, name: &str) -> &'a [f64] {
    let column = table.columns.iter().find(|column| column.name == name);
    &column.unwrap_or_else(|| panic!("no {name:?} in {:?}", names(table))).values
}

fn names(table: &Table) -> Vec<&str> {
    table.columns.iter().map(|column| column.name.as_str()).collect()
}

#[track_caller]
fn assert_noted(table: &Table, words: &str) {
    assert!(table.notes.iter().any(|note| note.contains(words)), "no {words:?} in {:?}", table.notes);
}

#[test]
fn newest_first_is_turned_around() {
    let table = read("Date,Close\n2018-03-27,3\n2018-03-26,2\n2018-03-23,1\n");
    assert_eq!(values(&table, "Close"), [1.0, 2.0, 3.0]);
    assert_eq!(table.stamps_text(), ["2018-03-23", "2018-03-26", "2018-03-27"]);
    assert_noted(&table, "newest first");
}

#[test]
fn disorder_is_sorted() {
    let table = read("Date,Close\n2018-03-02,2\n2018-03-01,1\n2018-03-03,3\n");
    assert_eq!(values(&table, "Close"), [1.0, 2.0, 3.0]);
    assert_noted(&table, "sorted");
}

#[test]
fn order_needs_no_note() {
    let table = read("Date,Close\n2018-03-01,1\n2018-03-02,2\n");
    assert_eq!(table.notes, Vec::<String>::new());
}

#[test]
fn of_duplicates_the_last_of_the_file_is_kept() {
    let ascending = read("Date,Close\n2018-03-01,1\n2018-03-02,2\n2018-03-02,22\n2018-03-03,3\n");
    assert_eq!(values(&ascending, "Close"), [1.0, 22.0, 3.0]);
    assert_noted(&ascending, "1 row(s) repeat a moment of \"Date\"");
    let descending = read("Date,Close\n2018-03-03,3\n2018-03-02,2\n2018-03-02,22\n2018-03-01,1\n");
    assert_eq!(values(&descending, "Close"), [1.0, 22.0, 3.0]);
}

#[test]
fn a_file_pasted_twice_is_read_once() {
    let table = read("Date,Close\n2018-03-01,1\n2018-03-02,null\n2018-03-01,1\n2018-03-02,null\n");
    assert_eq!((table.rows(), values(&table, "Close")[0]), (2, 1.0));
    assert_noted(&table, "2 row(s) repeat");
}

#[test]
fn one_moment_in_two_offsets_is_a_duplicate() {
    let table = read("ts,y\n2024-01-01T12:00:00+01:00,1\n2024-01-01T11:00:00Z,2\n2024-01-01T12:00:00Z,3\n").columns[0]
        .values
        .clone();
    assert_eq!(table, [2.0, 3.0]);
}

#[test]
fn every_spelling_of_no_value_is_missing() {
    let table = read(
        "Date,Close\n2024-01-01,\n2024-01-02,null\n2024-01-03,NaN\n2024-01-04,--\n2024-01-05,N/A\n2024-01-06,-\n2024-01-07,7\n",
    );
    let (missing, last) = values(&table, "Close").split_at(6);
    assert!(missing.iter().all(|value| value.is_nan()));
    assert_eq!(last, [7.0]);
    let series = table.series().expect("series");
    assert_eq!(series[0].valid(0), [false, false, false, false, false, false, true]);
}

#[test]
fn null_rows_stay_rows() {
    let table = read("Date,Open,Close\n2020-04-16,1,2\n2020-04-17,null,null\n2020-04-18,3,4\n");
    assert_eq!(table.rows(), 3);
    assert!(values(&table, "Open")[1].is_nan() && values(&table, "Close")[1].is_nan());
}

#[test]
fn time_columns_of_many_names() {
    for name in [
        "Date",
        "date",
        "DATE",
        "timestamp",
        "timestamps",
        "Timestamp",
        "time",
        "ds",
        "datetime",
        "Open Time",
        "open_time",
        "Datetime",
        "<DATE>",
    ] {
        let table = read(format!("Close,{name}\n1,2024-01-01\n2,2024-01-02\n"));
        assert_eq!(names(&table), ["Close"], "{name}");
        assert!(table.times.is_some(), "{name}");
    }
}

#[test]
fn a_time_column_without_name_is_found_by_its_dates() {
    let table = read(",HUFL\n2016-07-01 00:00:00,5.8\n2016-07-01 01:00:00,5.7\n");
    assert_eq!(table.future_text(1), ["2016-07-01 02:00:00"]);
    assert_eq!(names(&table), ["HUFL"]);
}

#[test]
fn the_time_column_can_be_named() {
    let options = ReadOptions { time: Some("Settled".into()), ..ReadOptions::default() };
    let table = read_with("date,settled,y\n2024-01-01,2024-01-03,1\n2024-01-02,2024-01-04,2\n", &options);
    assert_eq!(table.stamps_text(), ["2024-01-03", "2024-01-04"]);
    assert_eq!(names(&table), ["y"]);
    assert_noted(&table, "left out as times: \"date\"");
}

#[test]
fn raw_and_adjusted_prices_stay_apart() {
    let table =
        read("Date,Open,Close,Adj Close,Adj. Open,Volume\n2024-01-01,1,2,0.5,0.25,10\n2024-01-02,3,4,0.75,0.5,20\n");
    assert_eq!(names(&table), ["Open", "Close", "Adj Close", "Adj. Open", "Volume"]);
    assert_eq!(values(&table, "Close"), [2.0, 4.0]);
    assert_eq!(values(&table, "Adj Close"), [0.5, 0.75]);
    let names: Vec<String> = table.series().expect("series").iter().map(|series| series.names()[0].clone()).collect();
    assert_eq!(names[2], "t/Adj Close");
    assert_eq!(table.multivariate().expect("one series").variates(), 5);
}

#[test]
fn columns_are_chosen_in_the_order_asked() {
    let options = ReadOptions { columns: vec!["VOLUME".into(), "Close".into()], ..ReadOptions::default() };
    let table = read_with("Date,Close,close,Volume\n2024-01-01,1,2,3\n", &options);
    assert_eq!(names(&table), ["Volume", "Close"]);
    assert_eq!(values(&table, "Close"), [1.0]);
}

#[test]
fn text_columns_are_left_out_and_said() {
    let table = read("Date,Symbol,Close\n2024-01-01,BTC,1\n2024-01-02,BTC,2\n");
    assert_eq!(names(&table), ["Close"]);
    assert_noted(&table, "left out as text: \"Symbol\"");
}

#[test]
fn empty_columns_are_left_out_and_said() {
    let table = read("Date,Close,Note\n2024-01-01,1,\n2024-01-02,2,null\n");
    assert_eq!(names(&table), ["Close"]);
    assert_noted(&table, "left out as empty: \"Note\"");
}

#[test]
fn thousands_currency_percent_and_units() {
    let table = read("Date,Price,Vol.,Change %\n2024-01-01,\"$1,234.50\",1.5M,-0.5%\n2024-01-02,\"1,300\",200K,1%\n");
    assert_eq!(values(&table, "Price"), [1234.5, 1300.0]);
    assert_eq!(values(&table, "Vol."), [1.5e6, 2e5]);
    assert_eq!(values(&table, "Change %"), [-0.5, 1.0]);
    assert_noted(&table, "thousands separators");
    assert_noted(&table, "currency signs");
    assert_noted(&table, "percent signs");
    assert_noted(&table, "million");
}

#[test]
fn semicolons_with_decimal_commas() {
    let table = read("Datum;Kurs\n31.01.2024;1.234,5\n01.02.2024;2,25\n");
    assert_eq!(values(&table, "Kurs"), [1234.5, 2.25]);
    assert_eq!(table.stamps_text(), ["2024-01-31", "2024-02-01"]);
}

#[test]
fn semicolons_with_decimal_points() {
    let table = read("date;a;b\n2024-01-01;1.5;\"1,234.5\"\n2024-01-02;2;3\n");
    assert_eq!((values(&table, "a"), values(&table, "b")), (&[1.5, 2.0][..], &[1234.5, 3.0][..]));
}

#[test]
fn semicolons_with_the_first_fraction_past_the_sample() {
    let rows: String = (1..=100).map(|row| format!("{row};{}\n", if row == 100 { "2.5" } else { "7" })).collect();
    assert_eq!(values(&read(format!("x;y\n{rows}")), "y")[99], 2.5);
}

#[test]
fn commas_are_no_decimals_without_semicolons() {
    let error =
        Table::from_reader("t", "date\ty\n2024-01-01\t1,5\n2024-01-02\t2\n".as_bytes(), &ReadOptions::default());
    assert!(error.expect_err("refused").to_string().contains("row 2, column \"y\""));
}

#[test]
fn tabs_and_bars() {
    assert_eq!(values(&read("date\ty\n2024-01-01\t1\n"), "y"), [1.0]);
    assert_eq!(values(&read("date|y\n2024-01-01|1\n"), "y"), [1.0]);
}

#[test]
fn windows_files_with_byte_order_mark_and_blank_lines() {
    let table = read("\u{feff}Date,Close\r\n2024-01-01,1\r\n\r\n2024-01-02,2\r\n,\r\n\r\n\r\n");
    assert_eq!((names(&table), values(&table, "Close")), (vec!["Close"], &[1.0, 2.0][..]));
    assert_noted(&table, "1 blank row(s)");
}

#[test]
fn old_mac_line_ends() {
    assert_eq!(values(&read("Date,Close\r2024-01-01,1\r2024-01-02,2\r"), "Close"), [1.0, 2.0]);
}

#[test]
fn quotes_and_trailing_separators() {
    let table = read("\"Date\",\"a \"\"b\"\"\",\n\"2024-01-01\",\"1\",\n2024-01-02,2,\n");
    assert_eq!(values(&table, "a \"b\""), [1.0, 2.0]);
    assert_eq!(values(&read("Date,y\n2024-01-01,1,\n2024-01-02,2,,\n"), "y"), [1.0, 2.0]);
}

#[test]
fn header_rows_of_a_ticker_download() {
    let table =
        read("Price,Close,High\nTicker,AAPL,AAPL\nDate,,\n2024-01-02,185.64,188.44\n2024-01-03,184.25,185.88\n");
    assert_eq!(names(&table), ["Close", "High"]);
    assert_eq!(table.future_text(1), ["2024-01-04"]);
}

#[test]
fn candle_archive_without_header() {
    let table = read(
        "1704067200000,42283.58,42554.57,42261.02,42475.23,1271.68,1704070799999,53957248.9,47134,682.5,28957416.8,0\n\
         1704070800000,42475.23,42775.00,42431.65,42613.56,1196.37,1704074399999,50984430.2,42104,651.6,27771195.3,0\n",
    );
    assert_eq!(names(&table), ["open", "high", "low", "close", "volume"]);
    assert_eq!(table.times.as_ref().expect("times").column, "open_time");
    assert_eq!(table.stamps_text()[0], "2024-01-01T00:00:00Z");
    assert_eq!(table.future_text(1), ["2024-01-01T02:00:00Z"]);
    let options = ReadOptions { columns: vec!["quote_volume".into()], ..ReadOptions::default() };
    let text = "1735689600000000,1,2,3,4,5,1735693199999999,6,7,8,9,0\n1735693200000000,1,2,3,4,5,1735696799999999,66,7,8,9,0\n";
    let table = read_with(text, &options);
    assert_eq!(values(&table, "quote_volume"), [6.0, 66.0]);
    assert_eq!(table.future_text(1), ["2025-01-01T02:00:00Z"]);
}

#[test]
fn a_remark_and_a_second_time_column_before_the_data() {
    let table = read(
        "https://www.example.org/\nunix,date,symbol,close\n1704153600,2024-01-02 00:00:00,BTC,2\n1704067200,2024-01-01 00:00:00,BTC,1\n",
    );
    assert_eq!(names(&table), ["close"]);
    assert_noted(&table, "1 line(s) before the header");
    assert_noted(&table, "left out as times: \"unix\"");
}

#[test]
fn date_and_time_in_two_columns() {
    let table = read("<DATE>\t<TIME>\t<CLOSE>\n2024.01.02\t09:30:00\t1\n2024.01.02\t09:35:00\t2\n");
    assert_eq!(names(&table), ["CLOSE"]);
    assert_eq!(table.future_text(1), ["2024-01-02 09:40:00"]);
}

#[test]
fn saved_row_numbers_are_no_series() {
    let table = read(",date,y\n0,2024-01-01,5\n1,2024-01-02,6\n2,2024-01-03,7\n");
    assert_eq!(names(&table), ["y"]);
    assert_noted(&table, "left out as row numbers");
}

#[test]
fn epochs_of_every_unit() {
    for unit in ["", "000", "000000", "000000000"] {
        let table = read(format!("time,y\n1704067200{unit},1\n1704153600{unit},2\n"));
        assert_eq!(table.future_text(1), ["2024-01-03T00:00:00Z"], "{unit}");
    }
    let table = read("time,y\n1704067200.0,1\n1704067260.0,2\n");
    assert_eq!(table.future_text(1), ["2024-01-01T00:02:00Z"]);
}

#[test]
fn stamps_go_on_in_their_own_style() {
    for (first, second, next) in [
        ("2024-01-01", "2024-01-02", "2024-01-03"),
        ("2024/01/01", "2024/01/02", "2024-01-03"),
        ("01/30/2024", "01/31/2024", "2024-02-01"),
        ("2024-01-01 09:30", "2024-01-01 09:31", "2024-01-01 09:32"),
        ("2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z", "2024-01-01T02:00:00Z"),
        ("2024-01-01 00:00:00+05:30", "2024-01-01 01:00:00+05:30", "2024-01-01 02:00:00+05:30"),
        ("2024-03-08 00:00:00-05:00", "2024-03-09 00:00:00-05:00", "2024-03-10 00:00:00-05:00"),
        ("2024-01", "2024-02", "2024-03"),
        ("2023Q4", "2024Q1", "2024Q2"),
        ("1999", "2000", "2001"),
    ] {
        let table = read(format!("date,y\n{first},1\n{second},2\n"));
        assert_eq!(table.future_text(1), [next], "{first}");
    }
}

#[test]
fn named_zones_keep_their_clock_over_the_change_to_summer_time() {
    let table = read("date,y\n2024-03-08 09:30 America/New_York,1\n2024-03-09 09:30 America/New_York,2\n");
    assert_eq!(table.future_text(1), ["2024-03-10 09:30 America/New_York"]);
    let hours = read("ts,y\n2024-03-10T00:00-05:00[America/New_York],1\n2024-03-10T01:00-05:00[America/New_York],2\n");
    assert_eq!(hours.future_text(1), ["2024-03-10T03:00-04:00[America/New_York]"]);
}

#[test]
fn offsets_that_change_in_summer_are_still_daily() {
    let table = read("Date,y\n2024-03-08 00:00:00-05:00,1\n2024-03-11 00:00:00-04:00,2\n2024-03-12 00:00:00-04:00,3\n");
    assert_eq!(table.frequency.to_string(), "daily, Monday to Friday");
    assert_eq!(table.future_text(1), ["2024-03-13 00:00:00-04:00"]);
}

#[test]
fn without_time_steps_are_counted() {
    let table = read("a,b\n1.5,2\n2.5,3\n");
    assert_eq!((table.times.clone(), table.frequency.clone()), (None, Frequency::Unknown));
    assert_eq!(
        (table.stamps_text(), table.future_text(2)),
        (vec!["0".into(), "1".into()], vec!["2".into(), "3".into()])
    );
    assert_noted(&table, "no time column");
}

#[test]
fn a_counter_called_time_orders_the_rows() {
    let table = read("time,y\n3,30\n2,20\n1,10\n");
    assert_eq!((names(&table), values(&table, "y")), (vec!["y"], &[10.0, 20.0, 30.0][..]));
    assert_noted(&table, "counts and does not date");
}

#[test]
fn numbers_without_header() {
    let table = read("2024-01-01,1.5\n2024-01-02,2.5\n");
    assert_eq!(values(&table, "column_2"), [1.5, 2.5]);
    assert_noted(&table, "no header");
}

#[test]
fn a_single_column_and_a_single_row() {
    assert_eq!(values(&read("y\n1\n2\n"), "y"), [1.0, 2.0]);
    let table = read("date,y\n2024-01-01,1\n");
    assert_eq!(table.future_text(1), ["1"]);
    assert_noted(&table, "no rhythm");
}

#[test]
fn gaps_are_left_or_filled() {
    let text = "date,y\n2024-01-01 00:00,1\n2024-01-01 01:00,2\n2024-01-01 04:00,3\n2024-01-01 05:00,4\n";
    let table = read(text);
    assert_eq!(values(&table, "y"), [1.0, 2.0, 3.0, 4.0]);
    assert_noted(&table, "leave out 2 step(s) in 1 place(s)");
    let table = read_with(text, &ReadOptions { fill_gaps: true, ..ReadOptions::default() });
    assert_eq!(table.stamps_text()[2..4], ["2024-01-01 02:00", "2024-01-01 03:00"]);
    let filled = values(&table, "y");
    assert!(filled.len() == 6 && filled[2].is_nan() && filled[3].is_nan() && filled[4] == 3.0);
    assert_noted(&table, "2 missing row(s) are inserted");
}

#[test]
fn weekends_are_no_gaps_but_holidays_are() {
    let text =
        "date,y\n2024-01-11,1\n2024-01-12,2\n2024-01-16,3\n2024-01-17,4\n2024-01-18,5\n2024-01-19,6\n2024-01-22,7\n";
    let table = read_with(text, &ReadOptions { fill_gaps: true, ..ReadOptions::default() });
    assert_eq!(table.stamps_text()[1..4], ["2024-01-12", "2024-01-15", "2024-01-16"]);
    assert_eq!(table.rows(), 8);
}

#[test]
fn a_late_row_is_no_gap() {
    let text = "date,y\n2024-01-01 00:00,1\n2024-01-01 00:05,2\n2024-01-01 00:11,3\n2024-01-01 00:16,4\n";
    let table = read_with(text, &ReadOptions { fill_gaps: true, ..ReadOptions::default() });
    assert_eq!(table.rows(), 4);
}

#[test]
fn repeated_names_are_told_apart() {
    let table = read("date,close,close\n2024-01-01,1,2\n");
    assert_eq!((values(&table, "close"), values(&table, "close.1")), (&[1.0][..], &[2.0][..]));
    assert_noted(&table, "occurs before: \"close.1\"");
}

#[test]
fn names_in_any_script() {
    let table = read("日期,收盘,°C\n2024-01-01,1,2\n2024-01-02,3,4\n");
    assert_eq!(names(&table), ["收盘", "°C"]);
    assert!(table.times.is_some());
    assert_eq!(read(b"date,\xb0C\n2024-01-01,1\n").rows(), 1);
}

#[test]
fn values_survive_the_way_to_a_series() {
    let table = read("date,y\n2024-01-01,3.4e38\n2024-01-02,1e-60\n2024-01-03,0.1\n");
    assert_eq!(table.series().expect("series")[0].values(0), [3.4e38, 0.0, 0.1]);
}
