//! Time columns of bare numbers: seconds to nanoseconds since 1970, dates written as one number, years, or counters.

use jiff::tz::Offset;

use super::stamp::{Precision, Stamp, Style, Zone};
use super::stamp_column::{Fields, Times, date_time};

/// Settles a column that holds no calendar date.
pub(super) fn settle(readings: &[Fields]) -> Times {
    let whole: Option<Vec<i64>> = readings
        .iter()
        .map(|fields| match *fields {
            Fields::Whole(value) => Some(value),
            _ => None,
        })
        .collect();
    if let Some(times) = whole.as_deref().and_then(settle_compact) {
        return times;
    }
    let values: Vec<f64> = readings
        .iter()
        .map(|fields| match *fields {
            Fields::Whole(value) => value as f64,
            Fields::Fraction(value) => value,
            Fields::Calendar { .. } => f64::NAN,
        })
        .collect();
    // Below 10^8 even seconds would lie before 1973: these are row counters or physical time, not an epoch.
    if values.iter().all(|value| value.abs() < 1e8) {
        return Times::Numbers(values);
    }
    settle_epoch(readings, &values).unwrap_or(Times::Numbers(values))
}

/// Dates written as one number: `20240131`, `202401310930`, `20240131093000`; or years.
fn settle_compact(values: &[i64]) -> Option<Times> {
    let digits = |value: i64| value.checked_ilog10().map_or(0, |log| log + 1);
    let first = digits(*values.first()?);
    let stamp = |value: i64| -> Option<Stamp> {
        if digits(value) != first {
            return None;
        }
        let (date, clock) = match first {
            4 => (value * 10_000 + 101, 0),
            8 => (value, 0),
            12 => (value / 10_000, value % 10_000 * 100),
            14 => (value / 1_000_000, value % 1_000_000),
            _ => return None,
        };
        let years = if first == 4 { 1600..=2200 } else { 1900..=2100 };
        let year = i16::try_from(date / 10_000).ok().filter(|year| years.contains(year))?;
        let [month, day] = [date / 100 % 100, date % 100].map(|part| part as u8);
        let [hour, minute, second] = [clock / 10_000, clock / 100 % 100, clock % 100];
        let seconds = (hour <= 23 && minute <= 59 && second <= 59).then_some(hour * 3600 + minute * 60 + second)?;
        date_time(year, month, day, seconds * 1_000_000_000).map(Stamp::civil)
    };
    let stamps: Vec<Stamp> = values.iter().map(|&value| stamp(value)).collect::<Option<_>>()?;
    let precision = match first {
        4 => Precision::Year,
        8 => Precision::Day,
        12 => Precision::Minute,
        _ => Precision::Second,
    };
    let notes = vec!["dates are written as one number; further stamps follow as ISO 8601".to_string()];
    Some(Times::Stamps { stamps, style: Style { precision, separator: ' ', zone: Zone::None }, notes })
}

/// Units of an epoch number: its name, nanoseconds in one, digits of a second it resolves.
const UNITS: [(&str, i128, u8); 4] =
    [("seconds", 1_000_000_000, 0), ("milliseconds", 1_000_000, 3), ("microseconds", 1_000, 6), ("nanoseconds", 1, 9)];

/// Which unit puts a number between the years -1200 and 5138.
fn unit_of(value: f64) -> usize {
    [1e11, 1e14, 1e17].iter().take_while(|&&limit| value.abs() >= limit).count()
}

/// Seconds, milli-, micro- or nanoseconds since 1970 UTC. The largest number sets the unit, unless a change of unit
/// inside the file is the only sensible reading (a well-known exchange changed from milli- to microseconds in 2025).
fn settle_epoch(readings: &[Fields], values: &[f64]) -> Option<Times> {
    let largest = values.iter().map(|&value| unit_of(value)).max()?;
    let recent = |value: f64, unit: usize| {
        let seconds = value * UNITS[unit].1 as f64 / 1e9;
        (6.3e8..4.1e9).contains(&seconds)
    };
    let mixed = values.iter().any(|&value| unit_of(value) != largest)
        && values.iter().all(|&value| recent(value, unit_of(value)));
    let mut digits = 0;
    let stamps: Vec<Stamp> = readings
        .iter()
        .zip(values)
        .map(|(fields, &value)| {
            let (_, scale, resolved) = UNITS[if mixed { unit_of(value) } else { largest }];
            let nanoseconds = match *fields {
                Fields::Whole(value) => i128::from(value) * scale,
                // A fraction of a second is a decimal fraction: a microsecond is what an f64 of this size still holds.
                _ => (value * scale as f64 / 1e3).round() as i128 * 1_000,
            };
            if nanoseconds % 1_000_000_000 != 0 {
                digits = digits.max(if resolved == 0 { 6 } else { resolved });
            }
            epoch_stamp(nanoseconds)
        })
        .collect::<Option<_>>()?;
    let precision = if digits == 0 { Precision::Second } else { Precision::Fraction(digits) };
    let unit = if mixed { "numbers of changing unit" } else { UNITS[largest].0 };
    let notes = vec![format!("times are {unit} since 1970 UTC; further stamps follow as ISO 8601")];
    Some(Times::Stamps { stamps, style: Style { precision, separator: 'T', zone: Zone::Zero("Z") }, notes })
}

/// The stamp so many nanoseconds after 1970-01-01 00:00 UTC.
pub(super) fn epoch_stamp(nanoseconds: i128) -> Option<Stamp> {
    let instant = jiff::Timestamp::from_nanosecond(nanoseconds).ok()?;
    Some(Stamp::with_offset(Offset::UTC.to_datetime(instant), Offset::UTC))
}
