//! Turns what was read into a table: numeric columns only, in order of time, each moment once.

use super::frequency::Frequency;
use super::header::listed;
use super::raw::{RawColumn, RawTable, Source};
use super::stamp::{Stamp, Style};
use super::{Column, ReadOptions, Table, Times, stamp_column};
use crate::Result;

/// Filling gaps may make a table at most so many times as long.
const MOST_GROWTH: usize = 10;

/// Judges, sorts, clears and fills.
pub(super) fn arrange(raw: RawTable, name: String, options: &ReadOptions) -> Result<Table> {
    let RawTable { source, columns, requested, times, rows, mut notes } = raw;
    if rows == 0 {
        return Err(source.error("there are no rows below the header; give one row per time step"));
    }
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let texts_vary = columns.iter().find(|column| column.texts_vary).map(|column| column.name.clone());
    let mut kept = Vec::with_capacity(columns.len());
    for column in columns {
        kept.extend(column.judge(&source, requested, &mut notes)?);
    }
    if kept.is_empty() {
        let found = if names.is_empty() { "the time column only".to_string() } else { listed(&names) };
        return Err(source.error(format_args!(
            "no column holds numbers (found {found}); give at least one numeric column, or name the time column"
        )));
    }
    let (column, order, stamps) = match times {
        None => {
            notes.push("no time column: rows are taken in the order of the file, stamps are step numbers".into());
            (None, (0..rows).collect(), None)
        }
        Some((column, stamp_column::Times::Numbers(values))) => {
            notes.push(format!(
                "column {column:?} counts and does not date: it orders the rows, stamps are step numbers"
            ));
            let order = order(&values, f64::total_cmp, &column, &mut notes);
            let order = distinct(order, |a, b| values[a] == values[b]);
            (Some(column), order, None)
        }
        Some((column, stamp_column::Times::Stamps { stamps, style, notes: remarks })) => {
            notes.extend(remarks.into_iter().map(|remark| format!("column {column:?}: {remark}")));
            let moments: Vec<i128> = stamps.iter().map(Stamp::nanoseconds).collect();
            let order = order(&moments, i128::cmp, &column, &mut notes);
            let order = distinct(order, |a, b| moments[a] == moments[b]);
            (Some(column), order, Some((stamps, style)))
        }
    };
    note_duplicates(&source, column.as_deref(), rows - order.len(), rows, texts_vary, &mut notes)?;
    let mut columns: Vec<Column> = kept.into_iter().map(|column| pick(column, &order)).collect();
    let Some((column, (stamps, style))) = column.zip(stamps) else {
        return Ok(Table { name, times: None, columns, notes, frequency: Frequency::Unknown });
    };
    let mut stamps: Vec<Stamp> = order.iter().map(|&row| stamps[row]).collect();
    let frequency = Frequency::infer(&stamps);
    if frequency == Frequency::Unknown {
        notes.push("a single row gives no rhythm: further stamps are step numbers".into());
    }
    let gaps = Gaps::find(&stamps, frequency, &style);
    if options.fill_gaps {
        gaps.fill(&mut stamps, &mut columns, &source, &mut notes)?;
    } else if gaps.rows > 0 {
        notes.push(format!(
            "the stamps ({frequency}) leave out {} step(s) in {} place(s); rows are taken as they come",
            gaps.rows,
            gaps.places.len()
        ));
    }
    Ok(Table { name, times: Some(Times { column, stamps, style }), columns, notes, frequency })
}

/// The rows in ascending order; rows of the same moment stay in the order of the file.
fn order<T>(
    keys: &[T],
    compare: impl Fn(&T, &T) -> std::cmp::Ordering,
    column: &str,
    notes: &mut Vec<String>,
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    if keys.is_sorted_by(|a, b| compare(a, b).is_le()) {
        return order;
    }
    let descending = keys.is_sorted_by(|a, b| compare(a, b).is_ge());
    order.sort_by(|&a, &b| compare(&keys[a], &keys[b]));
    notes.push(if descending {
        format!("rows were newest first in {column:?}: turned around")
    } else {
        format!("rows were not in the order of {column:?}: sorted")
    });
    order
}

/// Of rows with the same moment only the last of the file.
fn distinct(order: Vec<usize>, same: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let next = order.iter().skip(1).map(Some).chain([None]);
    order
        .iter()
        .zip(next)
        .filter(|(row, next)| next.is_none_or(|next| !same(**row, *next)))
        .map(|(row, _)| *row)
        .collect()
}

/// Says what was dropped; refuses a table of several series stacked on each other, where dropping would destroy them.
fn note_duplicates(
    source: &Source,
    column: Option<&str>,
    dropped: usize,
    rows: usize,
    texts_vary: Option<String>,
    notes: &mut Vec<String>,
) -> Result<()> {
    let Some(column) = column.filter(|_| dropped > 0) else { return Ok(()) };
    match texts_vary {
        Some(id) if dropped * 2 >= rows => Err(source.error(format_args!(
            "{dropped} of {rows} rows repeat a moment of {column:?}, and column {id:?} tells them apart: several series are stacked; give each its own file or its own column"
        ))),
        None if dropped * 2 > rows => Err(source.error(format_args!(
            "{dropped} of {rows} rows repeat a moment of {column:?}; give one row per time step, or name another time column"
        ))),
        _ => {
            notes.push(format!("{dropped} row(s) repeat a moment of {column:?}: the last one of the file is kept"));
            Ok(())
        }
    }
}

fn pick(column: RawColumn, order: &[usize]) -> Column {
    let in_place = order.len() == column.values.len() && order.iter().enumerate().all(|(at, &row)| at == row);
    let values = if in_place { column.values } else { order.iter().map(|&row| column.values[row]).collect() };
    Column { name: column.name, values }
}

/// Places where the rhythm leaves steps out.
struct Gaps {
    /// The row before each gap, and how many steps are left out after it.
    places: Vec<(usize, usize)>,
    /// Steps left out in all, counted up to the most that may be filled.
    rows: usize,
    frequency: Frequency,
    zone: Option<jiff::tz::TimeZone>,
}

impl Gaps {
    fn find(stamps: &[Stamp], frequency: Frequency, style: &Style) -> Gaps {
        let zone = style.time_zone().cloned();
        let most = stamps.len().saturating_mul(MOST_GROWTH);
        let mut gaps = Gaps { places: Vec::new(), rows: 0, frequency, zone };
        for (row, pair) in stamps.windows(2).enumerate() {
            let missing = gaps.between(pair[0], pair[1]).take(most + 1 - gaps.rows.min(most)).count();
            if missing > 0 {
                gaps.places.push((row, missing));
                gaps.rows += missing;
            }
        }
        gaps
    }

    /// The stamps left out between two rows. The rhythm starts anew at each row, and a row that comes late, but nearer
    /// to its own step than to the one after, leaves nothing out.
    fn between(&self, from: Stamp, to: Stamp) -> impl Iterator<Item = Stamp> {
        let next = |stamp: Stamp| self.frequency.next(stamp, self.zone.as_ref());
        let mut due = next(from);
        std::iter::from_fn(move || {
            let stamp = due?;
            let after = next(stamp);
            let half = after.map_or(0, |after| (after.nanoseconds() - stamp.nanoseconds()) / 2);
            due = after;
            (stamp.nanoseconds() + half < to.nanoseconds()).then_some(stamp)
        })
    }

    /// Inserts rows without values.
    fn fill(
        self,
        stamps: &mut Vec<Stamp>,
        columns: &mut [Column],
        source: &Source,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        if stamps.len() + self.rows > stamps.len().saturating_mul(MOST_GROWTH) {
            return Err(source.error(format_args!(
                "filling the gaps ({}) would make the table more than {MOST_GROWTH} times as long; leave the gaps, or correct the stamps",
                self.frequency
            )));
        }
        source.check_size(stamps.len() + self.rows, columns.len())?;
        let mut filled = Vec::with_capacity(stamps.len() + self.rows);
        let mut start = 0;
        for &(row, _) in &self.places {
            filled.extend_from_slice(&stamps[start..=row]);
            filled.extend(self.between(stamps[row], stamps[row + 1]));
            start = row + 1;
        }
        filled.extend_from_slice(&stamps[start..]);
        *stamps = filled;
        for column in columns {
            let mut values = Vec::with_capacity(stamps.len());
            let mut start = 0;
            for &(row, missing) in &self.places {
                values.extend_from_slice(&column.values[start..=row]);
                values.extend(std::iter::repeat_n(f64::NAN, missing));
                start = row + 1;
            }
            values.extend_from_slice(&column.values[start..]);
            column.values = values;
        }
        notes.push(format!("{} missing row(s) are inserted ({})", self.rows, self.frequency));
        Ok(())
    }
}
