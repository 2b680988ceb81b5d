//! The long format as a Parquet table.

use nowcast::Result;
use nowcast::data::{ParquetColumn, ParquetValues, Stamp, write_parquet};

use super::{Answer, SeriesAnswer, Timeline, long};

/// The columns of [`long`]: text, time stamps and f64 numbers. The cells of paths that a series does not have are NaN.
///
/// # Errors
/// A failure of the encoder.
pub(super) fn render(answer: &Answer) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_parquet(&mut bytes, &columns(answer))?;
    Ok(bytes)
}

fn columns(answer: &Answer) -> Vec<ParquetColumn> {
    let names = answer.series().iter().flat_map(|series| (0..series.horizon()).map(|_| series.name().to_string()));
    let mut columns = vec![
        ParquetColumn { name: "series".into(), values: ParquetValues::Text(names.collect()) },
        ParquetColumn { name: "timestamp".into(), values: stamps(answer) },
    ];
    let paths = long::path_count(answer);
    let mut numbers = vec![Vec::new(); long::number_names(answer).len()];
    for series in answer.series() {
        let computed = [series.point(), series.mean()].into_iter().chain(series.quantiles().iter().map(Vec::as_slice));
        let mut targets = numbers.iter_mut();
        // The numbers lead: where they end, no target has been taken yet.
        for (values, target) in computed.zip(targets.by_ref()) {
            target.extend_from_slice(values);
        }
        let mut present = series.forecast().paths().into_iter().flatten();
        for target in targets.take(paths) {
            match present.next() {
                Some(path) => target.extend(path.iter().copied().map(f64::from)),
                None => target.extend((0..series.horizon()).map(|_| f64::NAN)),
            }
        }
    }
    let numbers = long::number_names(answer).into_iter().zip(numbers);
    columns.extend(numbers.map(|(name, values)| ParquetColumn { name, values: ParquetValues::Numbers(values) }));
    columns
}

/// Time stamps in UTC where every one has an offset, of the clock where none has; else step numbers or text.
fn stamps(answer: &Answer) -> ParquetValues {
    let future = |series: &SeriesAnswer| -> Option<Vec<Stamp>> {
        match series.timeline() {
            Timeline::Dated { stamps, .. } => Some(stamps[series.history().len()..].to_vec()),
            Timeline::Numbered(_) => None,
        }
    };
    if let Some(stamps) = answer.series().iter().map(future).collect::<Option<Vec<_>>>() {
        let stamps = stamps.concat();
        let utc = stamps.first().is_some_and(|stamp| stamp.offset().is_some());
        if stamps.iter().all(|stamp| stamp.offset().is_some() == utc) {
            // Years 1 to 9999 in microseconds fit into an i64 thirty times over.
            let microseconds = stamps.iter().map(|stamp| (stamp.nanoseconds() / 1000) as i64).collect();
            return ParquetValues::Stamps { microseconds, utc };
        }
    }
    let numbered = |series: &SeriesAnswer| match series.timeline() {
        Timeline::Numbered(numbers) => Some(numbers.clone().skip(series.history().len()).map(|step| step as f64)),
        Timeline::Dated { .. } => None,
    };
    match answer.series().iter().map(numbered).collect::<Option<Vec<_>>>() {
        Some(steps) => ParquetValues::Numbers(steps.into_iter().flatten().collect()),
        None => {
            let texts = answer.series().iter().flat_map(|series| (0..series.horizon()).map(|k| series.future_stamp(k)));
            ParquetValues::Text(texts.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use nowcast::data::{ReadOptions, Table};

    use super::super::{Question, example};
    use super::*;

    #[test]
    fn the_table_reads_back() {
        let answer = example::dated(Question { paths: true, ..example::question() });
        let bytes = render(&answer).unwrap();
        let table = Table::from_reader("answer", bytes.as_slice(), &ReadOptions::default()).unwrap();
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["point", "mean", "q0.1", "q0.5", "q0.9", "path_1", "path_2", "path_3", "path_4"]);
        let series = &answer.series()[0];
        assert_eq!(table.columns[0].values, series.point());
        assert_eq!(table.columns[1].values, series.mean());
        for (column, quantile) in table.columns[2..5].iter().zip(series.quantiles()) {
            assert_eq!(&column.values, quantile);
        }
        assert_eq!(table.columns[8].values, [104.0, 105.0, 106.0]);
        let clocks: Vec<_> = table.times.unwrap().stamps.iter().map(Stamp::clock).collect();
        let Timeline::Dated { stamps, .. } = series.timeline() else { unreachable!("the example is dated") };
        assert_eq!(clocks, stamps[4..].iter().map(Stamp::clock).collect::<Vec<_>>());
    }

    #[test]
    fn mixed_time_axes_are_text() {
        let expected =
            ["2024-01-02 10:00", "2024-01-02 11:00", "2024-01-02 12:00", "4", "5", "6"].map(String::from).to_vec();
        assert_eq!(stamps(&example::answer()), ParquetValues::Text(expected));
        let mut answer = Answer::new(example::question()).unwrap();
        example::push_numbered(&mut answer);
        assert_eq!(stamps(&answer), ParquetValues::Numbers(vec![4.0, 5.0, 6.0]));
    }

    #[test]
    fn absent_paths_are_nan() {
        let mut answer = example::dated(Question { paths: true, ..example::question() });
        example::push_one_path(&mut answer, [7.0, 8.0, 9.0]);
        let columns = columns(&answer);
        let cells = |name: &str| match &columns.iter().find(|column| column.name == name).unwrap().values {
            ParquetValues::Numbers(values) => values.clone(),
            other => unreachable!("{other:?}"),
        };
        assert_eq!(cells("path_1").last(), Some(&9.0));
        assert!(cells("path_2").last().unwrap().is_nan());
        assert_eq!(cells("path_4").len(), 6);
    }
}
