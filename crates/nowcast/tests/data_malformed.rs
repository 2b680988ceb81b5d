//! Files that cannot be used: each ends in one line that names the file, the place and the cure.

use nowcast::data::{ReadOptions, Table};

struct Case {
    /// What is wrong.
    name: &'static str,
    file: Vec<u8>,
    options: ReadOptions,
    /// Where the message says it is, and what it must also say: the problem and the cure.
    place: &'static str,
    words: &'static [&'static str],
}

fn case(name: &'static str, file: impl Into<Vec<u8>>, place: &'static str, words: &'static [&'static str]) -> Case {
    Case { name, file: file.into(), options: ReadOptions::default(), place, words }
}

impl Case {
    fn columns(mut self, columns: &[&str]) -> Self {
        self.options.columns = columns.iter().map(|name| name.to_string()).collect();
        self
    }

    fn time(mut self, name: &str) -> Self {
        self.options.time = Some(name.to_string());
        self
    }

    fn fill_gaps(mut self) -> Self {
        self.options.fill_gaps = true;
        self
    }
}

fn cases() -> Vec<Case> {
    let wide = vec!["x"; 10_001].join(",");
    let endless_quote = format!("date,y\n2024-01-01,\"{}", "7".repeat(17 << 20));
    vec![
        case("nothing", "", "f.csv", &["empty", "give a table"]),
        case("blank lines only", "\n\n\r\n", "f.csv", &["empty", "give a table"]),
        case("header only", "date,close\n", "f.csv", &["no rows", "give one row per time step"]),
        case(
            "short row",
            "date,open,close\n2024-01-01,1,2\n2024-01-02,1\n",
            "f.csv: row 3",
            &["2 cells where the header has 3", "complete the row"],
        ),
        case(
            "long row",
            "date,close\n2024-01-01,1\n2024-01-02,1,2\n",
            "f.csv: row 3",
            &["3 cells where the header has 2", "put quotes around"],
        ),
        case(
            "short row after blank lines and CRLF",
            "date,close\r\n\r\n2024-01-01,1\r\n\r\n2024-01-02\r\n",
            "f.csv: row 5",
            &["1 cell where the header has 2", "complete the row"],
        ),
        case(
            "short row after a cell of two lines",
            "date,note,y\n2024-01-01,\"a\nb\",1\n2024-01-02,1\n",
            "f.csv: row 4",
            &["2 cells where the header has 3"],
        ),
        case(
            "quote over several lines",
            "date,close\n2024-01-01,1\n2024-01-02,\"2\n2024-01-03,3\n",
            "f.csv: row 3",
            &["is not a number", "close the quote"],
        ),
        case(
            "quote that swallows cells",
            "date,a,b\n2024-01-01,1,2\n2024-01-02,\"2,3\n2024-01-03,3,4\n",
            "f.csv: row 3",
            &["close the quote"],
        ),
        case("quote without end", endless_quote, "f.csv: row 2", &["16 MiB", "close the quote"]),
        case(
            "text among numbers",
            "date,close\n2024-01-01,1\n2024-01-02,n.m.\n",
            "f.csv: row 3, column \"close\"",
            &["\"n.m.\" is not a number", "leave the cell empty"],
        ),
        case(
            "text in a column asked for",
            "date,s,y\n2024-01-01,BTC,1\n",
            "f.csv: row 2, column \"s\"",
            &["\"BTC\" is text", "name a numeric column"],
        )
        .columns(&["s"]),
        case(
            "spreadsheet error value",
            "date,close\n2024-01-01,1\n2024-01-02,#DIV/0!\n",
            "row 3, column \"close\"",
            &["#DIV/0!", "correct it"],
        ),
        case(
            "two points in a number",
            "date,close\n2024-01-01,1.2\n2024-01-02,1.2.3\n",
            "row 3, column \"close\"",
            &["1.2.3"],
        ),
        case(
            "decimal comma without semicolons",
            "date,close\n2024-01-01,1\n2024-01-02,\"1,5\"\n",
            "row 3, column \"close\"",
            &["1,5"],
        ),
        case(
            "point in a file of decimal commas",
            "date;y\n2024-01-01;1,5\n2024-01-02;2.5\n",
            "row 3, column \"y\"",
            &["2.5"],
        ),
        case(
            "infinity",
            "date,close\n2024-01-01,1\n2024-01-02,-inf\n",
            "row 3, column \"close\"",
            &["-inf", "32-bit", "leave the cell empty"],
        ),
        case(
            "number beyond 32 bits",
            "date,close\n2024-01-01,1\n2024-01-02,4e38\n",
            "row 3, column \"close\"",
            &["4e38", "rescale"],
        ),
        case(
            "number beyond 64 bits",
            "date,close\n2024-01-01,1e999\n",
            "row 2, column \"close\"",
            &["1e999", "rescale"],
        ),
        case(
            "unknown column",
            "Date,Open,Close\n2024-01-01,1,2\n",
            "f.csv",
            &["no column \"Cloze\"", "did you mean \"Close\"?", "the numeric columns are \"Open\", \"Close\""],
        )
        .columns(&["Cloze"]),
        case(
            "unknown time column",
            "Date,Open\n2024-01-01,1\n",
            "f.csv",
            &["no column \"when\"", "\"Date\", \"Open\""],
        )
        .time("when"),
        case(
            "time column asked for as value",
            "Date,Open\n2024-01-01,1\n",
            "f.csv",
            &["\"date\" is the time column", "name one of the numeric columns \"Open\""],
        )
        .columns(&["date"]),
        case(
            "column asked for is empty",
            "Date,Open,Note\n2024-01-01,1,\n",
            "f.csv",
            &["column \"Note\" has no value", "name another column"],
        )
        .columns(&["Note"]),
        case("no numbers at all", "Date,Note\n2024-01-01,hello\n", "f.csv", &["no column holds numbers", "\"Note\""]),
        case("dates only", "Date\n2024-01-01\n", "f.csv", &["no column holds numbers", "time column only"]),
        case(
            "word for a date",
            "Date,y\n2024-01-01,1\ntomorrow,2\n",
            "f.csv: row 3, column \"Date\"",
            &["\"tomorrow\" is not a date or time", "write stamps like 2024-01-31"],
        ),
        case("day that does not exist", "Date,y\n2023-02-29,1\n", "row 2, column \"Date\"", &["no day 2023-02-29"]),
        case(
            "month that does not exist",
            "Date,y\n2024-01-01,1\n2024-13-01,1\n",
            "row 3, column \"Date\"",
            &["no day 2024-13-01"],
        ),
        case(
            "hour that does not exist",
            "Date,y\n2024-01-01 23:00,1\n2024-01-01 24:00,1\n",
            "row 3, column \"Date\"",
            &["is not a date or time"],
        ),
        case(
            "missing time",
            "Date,y\n2024-01-01,1\nnull,2\n",
            "f.csv: row 3, column \"Date\"",
            &["the row has no time", "delete the row"],
        ),
        case(
            "day and month in both orders",
            "Date,y\n31/01/2024,1\n01/31/2024,2\n",
            "row 3, column \"Date\"",
            &["earlier rows are day/month", "write dates like 2024-01-31"],
        ),
        case(
            "offset on some rows only",
            "Date,y\n2024-01-01T00:00Z,1\n2024-01-02T00:00,2\n",
            "row 3, column \"Date\"",
            &["no offset", "for all or for none"],
        ),
        case(
            "unknown zone",
            "Date,y\n2024-01-01 10:00 Mars/Olympus,1\n",
            "row 2, column \"Date\"",
            &["unknown time zone \"Mars/Olympus\"", "America/New_York"],
        ),
        case(
            "two zones",
            "Date,y\n2024-01-01 10:00 Asia/Tokyo,1\n2024-01-01 10:00 Asia/Seoul,1\n",
            "row 3, column \"Date\"",
            &["Asia/Seoul", "one zone"],
        ),
        case(
            "dates and numbers in one time column",
            "Date,y\n2024-01-01,1\n1704153600,2\n",
            "row 3, column \"Date\"",
            &["bare number", "one form"],
        ),
        case(
            "stacked series",
            "ds,id,y\n2024-01-01,a,1\n2024-01-02,a,1\n2024-01-01,b,1\n2024-01-02,b,1\n",
            "f.csv",
            &["column \"id\" tells them apart", "give each its own file"],
        ),
        case(
            "stacked series of which one column is asked for",
            "ds,id,y\n2024-01-01,a,1\n2024-01-02,a,2\n2024-01-01,b,3\n2024-01-02,b,4\n",
            "f.csv",
            &["2 of 4 rows repeat", "give one row per time step"],
        )
        .columns(&["y"]),
        case(
            "one time for all rows",
            "Date,y\n2024-01-01,1\n2024-01-01,2\n2024-01-01,3\n",
            "f.csv",
            &["2 of 3 rows repeat", "one row per time step"],
        ),
        case("too many columns", format!("{wide}\n1\n"), "f.csv: row 1", &["at most 10000"]),
        case(
            "gaps too wide to fill",
            "Date,y\n2024-01-01 00:00:00,1\n2024-01-01 00:00:01,2\n2024-06-01 00:00:00,3\n",
            "f.csv",
            &["more than 10 times as long", "leave the gaps"],
        )
        .fill_gaps(),
        case("spreadsheet", b"PK\x03\x04\x14\x00".to_vec(), "f.csv", &["spreadsheet", "save the table as CSV"]),
        case("gzip", b"\x1f\x8b\x08\x00abc".to_vec(), "f.csv", &["compressed", "unpack it"]),
        case("UTF-16", b"\xff\xfeD\x00a\x00".to_vec(), "f.csv", &["UTF-16", "UTF-8"]),
        case("binary", b"date,y\n\x00\x01\x02".to_vec(), "f.csv", &["not text", "give a CSV"]),
        case("Parquet without its end", b"PAR1 and no more".to_vec(), "f.csv", &["Parquet", "CSV"]),
        case(
            "two names in one",
            "date,Close,CLOSE\n2024-01-01,1,2\n",
            "f.csv",
            &["may be any of", "write one exactly"],
        )
        .columns(&["close"]),
    ]
}

#[test]
fn each_ends_in_one_clear_line() {
    for Case { name, file, options, place, words } in cases() {
        let error = match Table::from_reader("f.csv", file.as_slice(), &options) {
            Err(error) => error.to_string(),
            Ok(table) => panic!("{name}: read as {:?}, notes {:?}", table.columns, table.notes),
        };
        assert!(error.contains(place) && error.starts_with("f.csv"), "{name}: no {place:?} in {error:?}");
        for word in words {
            assert!(error.contains(word), "{name}: no {word:?} in {error:?}");
        }
        assert!(!error.contains('\n') && error.len() < 600, "{name}: not one line: {error:?}");
    }
}

#[test]
fn at_least_twenty_five_kinds() {
    assert!(cases().len() >= 25);
}

#[test]
fn a_file_that_is_not_there() {
    let path = std::path::Path::new("no/such/file.csv");
    let error = Table::read(path, &ReadOptions::default()).expect_err("no file").to_string();
    assert!(error.starts_with("no/such/file.csv: "), "{error}");
}

#[test]
fn a_folder_is_no_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Table::read(folder.path(), &ReadOptions::default()).expect_err("a folder").to_string();
    assert!(error.starts_with(&folder.path().display().to_string()), "{error}");
}
