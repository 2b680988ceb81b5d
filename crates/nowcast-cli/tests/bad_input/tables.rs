//! Tables that cannot be read, and numbers at the edge of what can.

use std::fs;

use serde_json::Value;

use crate::place::{Faults, GOOD, Place};

/// What is wrong, the file, more arguments, and what the message must say.
type Case<'a> = (&'a str, Vec<u8>, &'a [&'a str], &'a [&'a str]);

#[test]
fn tables() {
    let place = Place::new();
    fs::create_dir(place.path("folder")).unwrap();
    let mut binary = vec![0x89u8, b'A', 7, 0, 0, 1, 2, 255];
    binary.extend((0..4000u32).map(|value| (value.wrapping_mul(2_654_435_761) >> 24) as u8));
    let names = (0..1000).map(|column| format!("c{column}")).collect::<Vec<_>>().join(",");
    let wide = format!("{names}\n{}\n", vec!["1"; 1000].join(","));
    let cases: Vec<Case<'_>> = vec![
        ("empty file", b"".to_vec(), &[], &["empty", "give a table"]),
        ("blank lines", b"\n\n\n".to_vec(), &[], &["empty"]),
        ("header only", b"date,close\n".to_vec(), &[], &["no rows", "one row per time step"]),
        ("no such column", GOOD.into(), &["--columns", "bb"], &["no column \"bb\"", "\"a\", \"b\""]),
        ("one of two columns missing", GOOD.into(), &["--columns", "a,c"], &["no column \"c\""]),
        ("empty column name", GOOD.into(), &["--columns", ""], &["no column \"\""]),
        ("time column as value", GOOD.into(), &["--columns", "date"], &["is the time column"]),
        ("no such time column", GOOD.into(), &["--time", "when"], &["no column \"when\""]),
        ("text among numbers", b"date,y\n2024-01-01,1\n2024-01-02,n.m.\n".to_vec(), &[], &["row 3", "\"y\"", "n.m."]),
        ("text column by name", b"s,y\nx,1\nz,2\n".to_vec(), &["--columns", "s"], &["is text", "numeric column"]),
        ("only text", b"s,t\nx,u\nz,v\n".to_vec(), &[], &["no column holds numbers"]),
        ("only missing values", b"date,y\n2024-01-01,\n2024-01-02,null\n".to_vec(), &[], &["no column holds numbers"]),
        ("missing column by name", b"y,z\n,1\n,2\n".to_vec(), &["--columns", "y"], &["no value in any row"]),
        (
            "no value within the context",
            b"y\n1\n2\n\n\nnull\nnull\n".to_vec(),
            &["--context", "2"],
            &["no value among"],
        ),
        ("short row", b"a,b\n1,2\n3\n".to_vec(), &[], &["row 3", "1 cell where the header has 2"]),
        ("long row", b"a,b\n1,2\n3,4,5\n".to_vec(), &[], &["row 3", "3 cells where the header has 2"]),
        ("unclosed quote", b"a,b\n1,2\n\"3,4\n5,6\n".to_vec(), &[], &["row 3", "close the quote"]),
        ("bytes that are no text", binary, &[], &["not text"]),
        ("spreadsheet", b"PK\x03\x04rest".to_vec(), &[], &["spreadsheet", "save the table as CSV"]),
        ("compressed", b"\x1f\x8b\x08rest".to_vec(), &[], &["compressed", "unpack"]),
        ("UTF-16", b"\xff\xfea\0,\0".to_vec(), &[], &["UTF-16", "UTF-8"]),
        ("infinity", b"a\n1\ninf\n".to_vec(), &[], &["row 3", "32-bit"]),
        ("beyond 32 bits", b"a\n1\n1e39\n".to_vec(), &[], &["row 3", "rescale"]),
        ("beyond 64 bits", b"a\n1\n-1e999\n".to_vec(), &[], &["row 3"]),
        ("impossible date", b"date,y\n2024-01-01,1\n2024-02-30,2\n".to_vec(), &[], &["row 3", "\"date\""]),
        ("time left out", b"date,y\n2024-01-01,1\n,2\n".to_vec(), &[], &["row 3", "no time"]),
        ("stacked series", b"d,id,y\n2024-01-01,A,1\n2024-01-01,B,2\n".to_vec(), &["--time", "d"], &["stacked"]),
        ("Parquet cut short", b"PAR1".to_vec(), &[], &["arquet"]),
        ("Parquet of junk", [b"PAR1".as_slice(), &[7; 300], b"PAR1"].concat(), &[], &["arquet"]),
        ("unknown among many columns", wide.into(), &["--columns", "d"], &["no column \"d\"", "and 980 more"]),
        ("very long cell", format!("a\n1\n{}\n", "z".repeat(100_000)).into(), &[], &["row 3", "not a number"]),
        ("very long name", format!("{}\nx\ny\n", "n".repeat(100_000)).into(), &[], &["no column holds numbers"]),
        ("JSON", b"{\"a\": [1, 2]}".to_vec(), &[], &[]),
        ("web page", b"<html>\n<body>not here</body>\n</html>\n".to_vec(), &[], &[]),
        ("too many columns", vec!["x"; 10_001].join(",").into_bytes(), &[], &["10001 columns"]),
    ];
    let mut faults = Faults::default();
    for (name, bytes, more, words) in cases {
        place.write("data.csv", bytes);
        let said = [words, &["data.csv"]].concat();
        // A series is named after its table, without the ending.
        let words = if name == "no value within the context" { words } else { &said };
        faults.check(&place, name, place.forecast(&[&["data.csv"], more].concat()), words);
    }
    let once = "is given twice: once is enough";
    for (name, arguments, words) in [
        ("missing file", &["nowhere.csv"][..], &["nowhere.csv", "no such file"][..]),
        ("missing among others", &["good.csv", "nowhere.csv"], &["nowhere.csv"]),
        ("missing folder", &["no/where.csv"], &["no/where.csv"]),
        ("folder", &["folder"], &["folder", "name a file"]),
        ("name of two lines", &["no\nwhere.csv"], &["no where.csv"]),
        ("no name", &[""], &["<FILE>"]),
        ("file given twice", &["good.csv", "./good.csv"], &[once]),
        ("standard input twice", &["-", "-"], &[once]),
        ("standard input is empty", &["-"], &["stdin", "empty"]),
        ("many columns in one chart", &["wide.csv", "--plot", "chart.svg"], &["60", "--columns"]),
    ] {
        let wide = |row: usize| (0..61).map(|column| format!("{}", column * row)).collect::<Vec<_>>().join(",");
        let header = (0..61).map(|column| format!("c{column}")).collect::<Vec<_>>().join(",");
        place.write("wide.csv", format!("{header}\n{}\n{}\n", wide(1), wide(2)));
        faults.check(&place, name, place.forecast(arguments).input(""), words);
    }
}

/// Numbers at the edge of what fits give an answer or a message, and never a panic or a number that is none.
#[test]
fn numbers_at_the_edge() {
    let place = Place::new();
    let rows = |cells: &[&str]| -> String {
        let cells = cells.iter().cycle().take(80);
        std::iter::once("y\n".to_string()).chain(cells.map(|cell| format!("{cell}\n"))).collect()
    };
    for (name, cells) in [
        ("largest", &["3.4e38", "-3.4e38"][..]),
        ("one sided", &["3.4e38", "3.3e38"]),
        ("smallest", &["1e-45", "-1e-45"]),
        ("mixed", &["1e38", "1e-38", "0"]),
        ("far from zero", &["1e20", "100000000000000000001"]),
    ] {
        place.write("edge.csv", rows(cells));
        for more in
            [&["--horizon", "4"][..], &["--horizon", "40", "--samples", "8"], &["--horizon", "40", "--decode", "mean"]]
        {
            let arguments = [&["edge.csv", "--output", "json"], more].concat();
            let run = place.forecast(&arguments).run();
            let answered = run.code == Some(0) && {
                let answer: Value = serde_json::from_str(&run.stdout).unwrap();
                let point = answer["series"][0]["point"].as_array().unwrap();
                point.iter().all(|value| value.as_f64().is_some_and(f64::is_finite))
            };
            let refused = run.code == Some(2) && run.stdout.is_empty() && run.stderr.lines().count() == 1;
            assert!(answered || refused, "{name} {more:?}: {:?} {}", run.code, run.stderr);
        }
    }
}
