//! All stamps of one column together: what no single stamp tells (day or month first, the unit of an epoch number,
//! the style to go on in) is settled here.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};

use super::stamp::{Precision, Stamp, Style, Zone};
use super::stamp_text::{self, Calendar, OffsetForm, Reading};

/// The cells of a time column, read one by one.
#[derive(Debug, Default)]
pub(super) struct StampColumn {
    readings: Vec<Fields>,
    lines: Vec<u64>,
    zone: Option<NamedZone>,
    /// The finest precision, the first separator and the last spelling of an offset met so far.
    precision: Option<Precision>,
    separator: Option<char>,
    offset_form: Option<OffsetForm>,
}

/// One reading, small: a table may have fifty million of them.
#[derive(Debug, Clone, Copy)]
enum Fields {
    Calendar { year: i16, month: u8, day: u8, order_open: bool, nanoseconds: i64, offset: Option<i32>, named: bool },
    Whole(i64),
    Fraction(f64),
}

#[derive(Debug)]
struct NamedZone {
    name: String,
    zone: TimeZone,
    brackets: bool,
}

/// What a time column turned out to hold.
#[derive(Debug)]
pub(super) enum Times {
    /// Points in time.
    Stamps {
        /// One for each row, in the order of the file.
        stamps: Vec<Stamp>,
        /// How to write the next ones.
        style: Style,
        /// What a reader should know about how they were read.
        notes: Vec<String>,
    },
    /// Numbers that are no dates and no epoch: they order the rows, no more.
    Numbers(Vec<f64>),
}

/// A stamp that cannot be used: the row it stands in and what is wrong, with the cure.
#[derive(Debug, PartialEq)]
pub(super) struct BadStamp {
    pub(super) line: u64,
    pub(super) problem: String,
}

const CURE: &str = "write stamps like 2024-01-31 or 2024-01-31 09:30:00, or name another time column";

impl StampColumn {
    /// Reads one more cell.
    pub(super) fn push(&mut self, text: &str, line: u64) -> Result<(), BadStamp> {
        let Some((reading, zone)) = stamp_text::read(text) else {
            return Err(BadStamp { line, problem: format!("{} is not a date or time; {CURE}", shown(text)) });
        };
        if let Some(zone) = zone {
            self.set_zone(zone.name, zone.brackets).map_err(|problem| BadStamp { line, problem })?;
        }
        let fields = match reading {
            Reading::Whole(value) => Fields::Whole(value),
            Reading::Fraction(value) => Fields::Fraction(value),
            Reading::Calendar(calendar) => self.learn_style(&calendar),
        };
        self.readings.push(fields);
        self.lines.push(line);
        Ok(())
    }

    /// How many cells were read.
    pub(super) fn len(&self) -> usize {
        self.readings.len()
    }

    fn learn_style(&mut self, calendar: &Calendar) -> Fields {
        let Calendar { year, month, day, order_open, nanoseconds, precision, separator, offset, named } = *calendar;
        self.precision = self.precision.max(Some(precision));
        if precision > Precision::Day && self.separator.is_none() {
            self.separator = Some(separator);
        }
        if let Some(offset) = offset {
            self.offset_form = Some(offset.form);
        }
        Fields::Calendar {
            year,
            month,
            day,
            order_open,
            nanoseconds,
            offset: offset.map(|offset| offset.seconds),
            named,
        }
    }

    fn set_zone(&mut self, name: &str, brackets: bool) -> Result<(), String> {
        match &self.zone {
            Some(known) if known.name == name => Ok(()),
            Some(known) => Err(format!(
                "time zone {name:?} where earlier rows have {:?}; write all stamps in one zone, or with offsets like +01:00",
                known.name
            )),
            None => {
                let zone = TimeZone::get(name).map_err(|_| {
                    format!("unknown time zone {name:?}; use a name like America/New_York or an offset like -05:00")
                })?;
                self.zone = Some(NamedZone { name: name.to_string(), zone, brackets });
                Ok(())
            }
        }
    }

    /// Settles what the column means.
    pub(super) fn settle(self) -> Result<Times, BadStamp> {
        let is_number = |fields: &Fields| !matches!(fields, Fields::Calendar { .. });
        let numbers = self.readings.first().is_some_and(is_number);
        if let Some(row) = self.readings.iter().position(|fields| is_number(fields) != numbers) {
            let (this, others) = if numbers { ("a date", "numbers") } else { ("a bare number", "dates") };
            return Err(BadStamp {
                line: self.lines[row],
                problem: format!("{this} where the rows before hold {others}; write all stamps in one form"),
            });
        }
        if numbers { settle_numbers(&self.readings) } else { self.settle_calendar() }
    }

    fn settle_calendar(self) -> Result<Times, BadStamp> {
        let mut notes = Vec::new();
        let day_first = self.day_first(&mut notes)?;
        let bad = |row: usize, problem: String| BadStamp { line: self.lines[row], problem };
        let mut stamps = Vec::with_capacity(self.readings.len());
        for (row, fields) in self.readings.iter().enumerate() {
            let Fields::Calendar { year, month, day, order_open, nanoseconds, offset, named } = *fields else {
                continue;
            };
            let (month, day) = if order_open && day_first { (day, month) } else { (month, day) };
            let civil = date_time(year, month, day, nanoseconds)
                .ok_or_else(|| bad(row, format!("there is no day {year:04}-{month:02}-{day:02}; {CURE}")))?;
            let zone = self.zone.as_ref().filter(|_| named);
            let offset = match (offset, zone) {
                (Some(seconds), _) => Offset::from_seconds(seconds).ok(),
                (None, Some(named)) => {
                    let instant = named.zone.to_ambiguous_timestamp(civil).compatible();
                    instant.ok().map(|instant| named.zone.to_offset(instant))
                }
                (None, None) => None,
            };
            let stamp = match offset {
                Some(offset) => Stamp::with_offset(civil, offset),
                None => Stamp::civil(civil),
            };
            if stamps.first().is_some_and(|first: &Stamp| first.offset().is_some() != stamp.offset().is_some()) {
                let (this, others) = if offset.is_some() { ("an", "none") } else { ("no", "one") };
                return Err(bad(
                    row,
                    format!(
                        "this stamp has {this} offset from UTC where earlier rows have {others}; write it for all or for none"
                    ),
                ));
            }
            stamps.push(stamp);
        }
        let style = Style {
            precision: self.precision.unwrap_or(Precision::Day),
            separator: self.separator.unwrap_or(' '),
            zone: match (self.zone, self.offset_form) {
                (Some(NamedZone { zone, brackets, .. }), _) => Zone::Named { zone, brackets },
                (None, Some(OffsetForm::Zero(name))) => Zone::Zero(name),
                (None, Some(OffsetForm::Colon)) => Zone::Colon,
                (None, Some(OffsetForm::Plain)) => Zone::Plain,
                (None, Some(OffsetForm::Hours)) => Zone::Hours,
                (None, None) => Zone::None,
            },
        };
        Ok(Times::Stamps { stamps, style, notes })
    }

    /// Whether `01/02/2024` is the first of February. A number above 12 proves it either way; without such proof the
    /// order with fewer turns in time wins, and month first wins a tie.
    fn day_first(&self, notes: &mut Vec<String>) -> Result<bool, BadStamp> {
        let open = || {
            self.readings.iter().enumerate().filter_map(|(row, fields)| match *fields {
                Fields::Calendar { year, month, day, order_open: true, .. } => Some((row, year, month, day)),
                _ => None,
            })
        };
        let day_first = open().find(|&(_, _, first, _)| first > 12);
        let month_first = open().find(|&(_, _, _, second)| second > 12);
        let chosen = match (day_first, month_first) {
            (Some((one, ..)), Some((other, ..))) => {
                let (row, before) = if one > other { (one, "month/day") } else { (other, "day/month") };
                return Err(BadStamp {
                    line: self.lines[row],
                    problem: format!("earlier rows are {before}/year, this one cannot be; write dates like 2024-01-31"),
                });
            }
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) if open().next().is_none() => return Ok(false),
            (None, None) => {
                let turns = |day_first: bool| {
                    let days = open().map(
                        |(_, year, first, second)| {
                            if day_first { (year, second, first) } else { (year, first, second) }
                        },
                    );
                    turns(days)
                };
                let day_first = turns(true) < turns(false);
                let order = if day_first { "day/month/year" } else { "month/day/year" };
                notes.push(format!("dates like 01/02/2024 are read as {order}: no day above 12 decides it"));
                return Ok(day_first);
            }
        };
        notes.push(format!("dates are read as {}/year", if chosen { "day/month" } else { "month/day" }));
        Ok(chosen)
    }
}

/// How often the order changes between ascending and descending.
fn turns<T: PartialOrd>(values: impl Iterator<Item = T>) -> usize {
    let (mut before, mut rising, mut turns) = (None, None, 0);
    for value in values {
        if let Some(before) = &before
            && *before != value
        {
            let rises = *before < value;
            turns += usize::from(rising.is_some_and(|rising: bool| rising != rises));
            rising = Some(rises);
        }
        before = Some(value);
    }
    turns
}

fn date_time(year: i16, month: u8, day: u8, nanoseconds: i64) -> Option<DateTime> {
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    let (seconds, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let [hour, minute, second] = [seconds / 3600, seconds / 60 % 60, seconds % 60].map(|part| part as i8);
    Some(date.to_datetime(Time::new(hour, minute, second, fraction as i32).ok()?))
}

fn settle_numbers(readings: &[Fields]) -> Result<Times, BadStamp> {
    let whole: Option<Vec<i64>> = readings
        .iter()
        .map(|fields| match *fields {
            Fields::Whole(value) => Some(value),
            _ => None,
        })
        .collect();
    if let Some(times) = whole.as_deref().and_then(settle_compact) {
        return Ok(times);
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
        return Ok(Times::Numbers(values));
    }
    Ok(settle_epoch(readings, &values).unwrap_or(Times::Numbers(values)))
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

/// A cell as an error shows it: quoted, escaped, not too long.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 40;
    if text.chars().count() <= LONGEST {
        return format!("{text:?}");
    }
    format!("{:?}...", text.chars().take(LONGEST).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(cells: &[&str]) -> Result<Times, BadStamp> {
        let mut column = StampColumn::default();
        for (row, cell) in cells.iter().enumerate() {
            column.push(cell, row as u64 + 2)?;
        }
        column.settle()
    }

    fn written(cells: &[&str]) -> Vec<String> {
        match settle(cells) {
            Ok(Times::Stamps { stamps, style, .. }) => stamps.iter().map(|stamp| style.write(stamp)).collect(),
            other => panic!("{cells:?} gave {other:?}"),
        }
    }

    #[test]
    fn stamps_keep_their_style() {
        for cells in [
            ["2024-01-31", "2024-02-01"],
            ["2024-01-31 09:30", "2024-02-01 10:00"],
            ["2024-01-31T09:30:00Z", "2024-02-01T09:30:00Z"],
            ["2024-01-31 09:30:00+01:00", "2024-02-01 09:30:00+02:00"],
            ["2024-01-31 09:30:00.250 UTC", "2024-02-01 09:30:00.500 UTC"],
            ["2024-01-31 09:30 America/New_York", "2024-07-01 09:30 America/New_York"],
            ["2024-01-31T09:30:00-05:00[America/New_York]", "2024-07-01T09:30:00-04:00[America/New_York]"],
            ["2024-01", "2024-02"],
            ["2024Q1", "2024Q2"],
        ] {
            assert_eq!(written(&cells), cells);
        }
    }

    #[test]
    fn other_styles_become_iso() {
        assert_eq!(written(&["01/31/2024", "02/01/2024"]), ["2024-01-31", "2024-02-01"]);
        assert_eq!(written(&["31/01/2024", "01/02/2024"]), ["2024-01-31", "2024-02-01"]);
        assert_eq!(written(&["Jan 31, 2024", "Feb 1, 2024"]), ["2024-01-31", "2024-02-01"]);
        assert_eq!(written(&["20240131", "20240201"]), ["2024-01-31", "2024-02-01"]);
        assert_eq!(written(&["202401310930", "202402011000"]), ["2024-01-31 09:30", "2024-02-01 10:00"]);
        assert_eq!(written(&["1999", "2000"]), ["1999", "2000"]);
    }

    #[test]
    fn the_order_of_time_decides_between_day_and_month() {
        assert_eq!(written(&["01/02/2024", "02/02/2024", "03/02/2024", "01/03/2024"])[3], "2024-03-01");
        assert_eq!(written(&["01/02/2024", "01/03/2024", "02/01/2024"])[2], "2024-02-01");
        assert_eq!(written(&["01/02/2024"])[0], "2024-01-02");
    }

    #[test]
    fn epochs_of_every_unit() {
        for (cells, expected) in [
            (["1704067200", "1704067260"], ["2024-01-01T00:00:00Z", "2024-01-01T00:01:00Z"]),
            (["1704067200000", "1704067260000"], ["2024-01-01T00:00:00Z", "2024-01-01T00:01:00Z"]),
            (["1704067200000000", "1704067260000000"], ["2024-01-01T00:00:00Z", "2024-01-01T00:01:00Z"]),
            (
                ["1704067200000000000", "1704067260000000001"],
                ["2024-01-01T00:00:00.000000000Z", "2024-01-01T00:01:00.000000001Z"],
            ),
            (["1704067200.5", "1704067260"], ["2024-01-01T00:00:00.500000Z", "2024-01-01T00:01:00.000000Z"]),
            (["-1325583000", "-1325496600"], ["1927-12-30T14:30:00Z", "1927-12-31T14:30:00Z"]),
            // Milliseconds, then microseconds.
            (["1735689540000", "1735689600000000"], ["2024-12-31T23:59:00Z", "2025-01-01T00:00:00Z"]),
            // Milliseconds across 1970: the small number is no unit of its own.
            (["-86400000", "315360000000"], ["1969-12-31T00:00:00Z", "1979-12-30T00:00:00Z"]),
        ] {
            assert_eq!(written(&cells), expected, "{cells:?}");
        }
    }

    #[test]
    fn counters_are_no_time() {
        assert!(matches!(settle(&["0", "1", "2"]), Ok(Times::Numbers(values)) if values == [0.0, 1.0, 2.0]));
        assert!(matches!(settle(&["0.1", "0.2"]), Ok(Times::Numbers(_))));
        assert!(matches!(settle(&["20240131", "20249999"]), Ok(Times::Numbers(_))));
    }

    #[test]
    fn stamps_that_contradict_each_other_name_the_row() {
        for (cells, line, words) in [
            (&["2024-01-31", "1704067200"][..], 3, "a bare number where the rows before hold dates"),
            (&["1704067200", "2024-01-31"], 3, "a date where the rows before hold numbers"),
            (&["2024-01-31 00:00Z", "2024-02-01 00:00"], 3, "no offset"),
            (&["2024-01-31 00:00", "2024-02-01 00:00Z"], 3, "an offset"),
            (&["31/01/2024", "01/31/2024"], 3, "earlier rows are day/month"),
            (&["2024-02-28", "2024-02-30"], 3, "there is no day 2024-02-30"),
            (&["2024-01-31 00:00 Europe/Paris", "2024-01-31 00:00 Europe/Berlin"], 3, "Europe/Berlin"),
            (&["2024-01-31 00:00 Europe/Atlantis"], 2, "unknown time zone"),
            (&["yesterday"], 2, "\"yesterday\" is not a date or time"),
        ] {
            let bad = settle(cells).expect_err("must be refused");
            assert_eq!(bad.line, line, "{cells:?}");
            assert!(bad.problem.contains(words), "{cells:?}: {}", bad.problem);
        }
    }

    #[test]
    fn extreme_epochs_do_not_overflow() {
        for cell in ["9223372036854775807", "-9223372036854775808", "9.2e18", "-9.2e18"] {
            let times = settle(&[cell, "5"]).expect("read as something");
            assert!(matches!(times, Times::Stamps { .. } | Times::Numbers(_)));
        }
    }
}
