//! Turns what was read into a table: numeric columns only, in order of time, each moment once.

use super::frequency::Frequency;
use super::header::listed;
use super::notes::Notes;
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
    let (column, repeats, stamps) = match times {
        None => {
            notes.push("no time column: rows are taken in the order of the file, stamps are step numbers".into());
            (None, Repeats { distinct: (0..rows).collect(), dropped: 0, conflicts: 0 }, None)
        }
        Some((column, stamp_column::Times::Numbers(values))) => {
            notes.push(format!(
                "column {column:?} counts and does not date: it orders the rows, stamps are step numbers"
            ));
            let order = order(&values, f64::total_cmp, &column, &mut notes);
            let repeats = Repeats::find(order, |a, b| values[a] == values[b], &kept);
            (Some(column), repeats, None)
        }
        Some((column, stamp_column::Times::Stamps { stamps, style, notes: remarks })) => {
            remarks.into_iter().for_each(|remark| notes.push(format!("column {column:?}: {remark}")));
            let moments: Vec<i128> = stamps.iter().map(Stamp::nanoseconds).collect();
            let order = order(&moments, i128::cmp, &column, &mut notes);
            let repeats = Repeats::find(order, |a, b| moments[a] == moments[b], &kept);
            (Some(column), repeats, Some((stamps, style)))
        }
    };
    if let Some(column) = &column {
        repeats.judge(&source, column, texts_vary.as_deref(), &mut notes)?;
    }
    let order = repeats.distinct;
    let mut columns: Vec<Column> = kept.into_iter().map(|column| pick(column, &order)).collect();
    let Some((column, (stamps, style))) = column.zip(stamps) else {
        let (notes, frequency) = (notes.into_lines(), Frequency::Unknown);
        return Ok(Table { name, times: None, columns, notes, frequency, given_future: None });
    };
    let mut stamps: Vec<Stamp> = order.iter().map(|&row| stamps[row]).collect();
    let frequency = Frequency::infer(&stamps);
    if frequency == Frequency::Unknown {
        notes.push("a single row gives no rhythm: further stamps are step numbers".into());
    }
    let gaps = Gaps::find(&stamps, frequency.clone(), &style);
    if options.fill_gaps {
        gaps.fill(&mut stamps, &mut columns, &source, &mut notes)?;
    } else if gaps.rows > 0 {
        let more = if gaps.rows > gaps.most { "more than " } else { "" };
        let (rows, places) = (gaps.rows.min(gaps.most), gaps.places.len());
        notes.push(format!(
            "the stamps ({frequency}) leave out {more}{rows} step(s) in {places} place(s); rows are taken as they come"
        ));
    }
    let times = Some(Times { column, stamps, style });
    Ok(Table { name, times, columns, notes: notes.into_lines(), frequency, given_future: None })
}

/// The rows in ascending order; rows of the same moment stay in the order of the file.
fn order<T>(keys: &[T], compare: impl Fn(&T, &T) -> std::cmp::Ordering, column: &str, notes: &mut Notes) -> Vec<usize> {
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

/// Rows of the same moment: the last of the file stays.
struct Repeats {
    /// The rows that stay, in order of time.
    distinct: Vec<usize>,
    /// How many rows go.
    dropped: usize,
    /// How many of those say something else than the row that stays.
    conflicts: usize,
}

impl Repeats {
    fn find(order: Vec<usize>, same: impl Fn(usize, usize) -> bool, columns: &[RawColumn]) -> Repeats {
        let agree = |a: usize, b: usize| {
            let equal = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
            columns.iter().all(|column| equal(column.values[a], column.values[b]))
        };
        let mut repeats = Repeats { distinct: Vec::with_capacity(order.len()), dropped: 0, conflicts: 0 };
        for run in order.chunk_by(|&a, &b| same(a, b)) {
            let Some((&last, earlier)) = run.split_last() else { continue };
            repeats.distinct.push(last);
            repeats.dropped += earlier.len();
            repeats.conflicts += earlier.iter().filter(|&&row| !agree(row, last)).count();
        }
        repeats
    }

    /// Says what was dropped; refuses a table of several series stacked on each other, where dropping would lose them.
    fn judge(&self, source: &Source, column: &str, id: Option<&str>, notes: &mut Notes) -> Result<()> {
        let (dropped, rows) = (self.dropped, self.dropped + self.distinct.len());
        let half = |count: usize| count * 2 >= rows;
        match id {
            _ if dropped == 0 => Ok(()),
            Some(id) if half(dropped) => Err(source.error(format_args!(
                "{dropped} of {rows} rows repeat a moment of {column:?}, and column {id:?} tells them apart: \
                 several series are stacked; give each its own file or its own column"
            ))),
            _ if half(self.conflicts) => Err(source.error(format_args!(
                "{dropped} of {rows} rows repeat a moment of {column:?} with other values; \
                 give one row per time step, or name another time column"
            ))),
            _ => {
                notes.push(format!("{dropped} row(s) repeat a moment of {column:?}: the last one of the file is kept"));
                Ok(())
            }
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
    /// Steps left out in all, counted a little past the most that may be filled.
    rows: usize,
    most: usize,
    frequency: Frequency,
    zone: Option<jiff::tz::TimeZone>,
}

impl Gaps {
    fn find(stamps: &[Stamp], frequency: Frequency, style: &Style) -> Gaps {
        let zone = style.time_zone().cloned();
        let most = stamps.len().saturating_mul(MOST_GROWTH - 1);
        let mut gaps = Gaps { places: Vec::new(), rows: 0, most, frequency, zone };
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
    fn fill(self, stamps: &mut Vec<Stamp>, columns: &mut [Column], source: &Source, notes: &mut Notes) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        if self.rows > self.most {
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
