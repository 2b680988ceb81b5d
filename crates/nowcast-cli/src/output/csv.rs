//! Comma-separated values in long format: one row per series and future step.

use super::{Answer, long};

/// The columns of [`long`], in order.
///
/// Numbers are the shortest that read back exactly: f64, and f32 for paths. The cells of paths that a series does not
/// have are empty.
pub(super) fn render(answer: &Answer) -> Result<Vec<u8>, csv::Error> {
    let paths = long::path_count(answer);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["series", "timestamp"].into_iter().map(String::from).chain(long::number_names(answer)))?;
    for series in answer.series() {
        for step in 0..series.horizon() {
            writer.write_field(series.name())?;
            writer.write_field(series.future_stamp(step).as_bytes())?;
            writer.write_field(series.point()[step].to_string())?;
            writer.write_field(series.mean()[step].to_string())?;
            for quantile in series.quantiles() {
                writer.write_field(quantile[step].to_string())?;
            }
            let mut written = 0;
            for path in series.forecast().paths().into_iter().flatten().take(paths) {
                writer.write_field(path[step].to_string())?;
                written += 1;
            }
            (written..paths).try_for_each(|_| writer.write_field(""))?;
            writer.write_record(None::<&[u8]>)?;
        }
    }
    writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
}

#[cfg(test)]
mod tests {
    use super::super::{Question, example};
    use super::*;

    fn text(answer: &Answer) -> String {
        String::from_utf8(render(answer).unwrap()).unwrap()
    }

    #[test]
    fn one_row_per_series_and_step() {
        let expected = "\
series,timestamp,point,mean,q0.1,q0.5,q0.9
close,2024-01-02 10:00,101.5,101.75,100.3,101.5,103.4
close,2024-01-02 11:00,102.5,102.75,101.3,102.5,104.4
close,2024-01-02 12:00,103.5,103.75,102.3,103.5,105.4
";
        assert_eq!(text(&example::dated(example::question())), expected);
    }

    #[test]
    fn names_are_quoted_where_needed() {
        let lines = text(&example::answer());
        assert!(lines.lines().nth(4).unwrap().starts_with("\"load, \"\"north\"\"\",4,-0.25,"), "{lines}");
    }

    #[test]
    fn paths_are_columns_in_f32() {
        let mut answer = example::dated(Question { paths: true, ..example::question() });
        example::push_one_path(&mut answer, [0.1, 0.2, 0.3]);
        let lines = text(&answer);
        assert!(lines.starts_with("series,timestamp,point,mean,q0.1,q0.5,q0.9,path_1,path_2,path_3,path_4\n"));
        assert_eq!(
            lines.lines().nth(1).unwrap(),
            "close,2024-01-02 10:00,101.5,101.75,100.3,101.5,103.4,100,101,102,104"
        );
        assert!(lines.lines().nth(4).unwrap().ends_with(",0.1,,,"), "{lines}");
    }
}
