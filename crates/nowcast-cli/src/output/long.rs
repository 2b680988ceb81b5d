//! The long format of CSV and Parquet: one row per series and future step.
//!
//! Columns are `series`, `timestamp`, `point`, `mean`, one `q<level>` for each quantile and, if asked, one `path_<n>`,
//! from 1, for each sample path.

use super::{Answer, SeriesAnswer};

/// Number of path columns: as many as the series with most paths has, none unless asked.
pub(super) fn path_count(answer: &Answer) -> usize {
    let paths_of = |series: &SeriesAnswer| series.forecast().paths().map_or(0, |paths| paths.len());
    if answer.question().paths { answer.series().iter().map(paths_of).max().unwrap_or(0) } else { 0 }
}

/// Names of the columns of numbers.
pub(super) fn number_names(answer: &Answer) -> Vec<String> {
    let mut names = vec!["point".to_string(), "mean".to_string()];
    names.extend(answer.question().levels.iter().map(|level| format!("q{level}")));
    names.extend((1..=path_count(answer)).map(|path| format!("path_{path}")));
    names
}
