//! Any bytes as a text table: no panic, and what is read keeps the promises of `Table`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nowcast::data::{ReadOptions, Table};

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses the options, so that the corpus remembers them.
    let Some((&choice, text)) = bytes.split_first() else { return };
    let options = ReadOptions {
        time: (choice & 1 != 0).then(|| "date".to_string()),
        columns: if choice & 2 != 0 { vec!["close".to_string()] } else { Vec::new() },
        fill_gaps: choice & 4 != 0,
    };
    match Table::from_reader("fuzz", text, &options) {
        Ok(table) => {
            let rows = table.rows();
            assert!(rows > 0 && table.columns.iter().all(|column| column.values.len() == rows));
            let fits = |value: &f64| value.is_nan() || value.abs() <= f64::from(f32::MAX);
            assert!(table.columns.iter().all(|column| column.values.iter().all(fits)));
            if let Some(times) = &table.times {
                assert_eq!(times.stamps.len(), rows);
                assert!(times.stamps.is_sorted_by(|a, b| a.nanoseconds() < b.nanoseconds()));
                if let Some(future) = table.future(10) {
                    let last = times.stamps[rows - 1];
                    assert!(future.len() == 10 && future[0].nanoseconds() > last.nanoseconds());
                    assert!(future.is_sorted_by(|a, b| a.nanoseconds() < b.nanoseconds()));
                }
            }
            assert_eq!(table.stamps_text().len(), rows);
            assert_eq!(table.future_text(10).len(), 10);
            assert_eq!(table.series().expect("series").len(), table.columns.len());
            table.multivariate().expect("one series");
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("fuzz: ") && !line.contains('\n'), "{line:?}");
        }
    }
});
