//! A stamp: one point in time as a table wrote it, and how to write the next one in the same style.

use std::fmt::Write;

use jiff::SignedDuration;
use jiff::civil::{DateTime, Time};
use jiff::tz::{Offset, TimeZone};

/// One point in time: the reading of the clock, and the offset from UTC where the table gives one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    civil: DateTime,
    offset: Option<Offset>,
}

impl Stamp {
    /// A reading of the clock in no particular time zone.
    pub fn civil(civil: DateTime) -> Self {
        Self { civil, offset: None }
    }

    /// A reading of the clock at a known offset from UTC.
    pub fn with_offset(civil: DateTime, offset: Offset) -> Self {
        Self { civil, offset: Some(offset) }
    }

    /// What the clock shows: the calendar features of a model come from here.
    pub fn clock(&self) -> DateTime {
        self.civil
    }

    /// Offset from UTC, where the table gives one.
    pub fn offset(&self) -> Option<Offset> {
        self.offset
    }

    /// Nanoseconds since 1970-01-01 00:00 UTC (of the clock, where no offset is known): the order of time.
    pub fn nanoseconds(&self) -> i128 {
        let since = self.civil.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
        since.as_nanos() - self.offset.map_or(0, |offset| i128::from(offset.seconds()) * 1_000_000_000)
    }

    /// The stamp `step` later: of elapsed time, so a named zone may change its offset. `None` past the year 9999.
    pub(super) fn later(self, step: SignedDuration, zone: Option<&TimeZone>) -> Option<Self> {
        let civil = self.civil.checked_add(step).ok()?;
        let (Some(offset), Some(zone)) = (self.offset, zone) else { return Some(Self { civil, ..self }) };
        let instant = offset.to_timestamp(civil).ok()?;
        let offset = zone.to_offset(instant);
        Some(Self { civil: offset.to_datetime(instant), offset: Some(offset) })
    }

    /// Another reading of the same clock; a named zone may change its offset. `None` outside the years kept.
    pub(super) fn at(self, civil: DateTime, zone: Option<&TimeZone>) -> Option<Self> {
        let (Some(_), Some(zone)) = (self.offset, zone) else { return Some(Self { civil, ..self }) };
        let instant = zone.to_ambiguous_timestamp(civil).compatible().ok()?;
        let offset = zone.to_offset(instant);
        Some(Self { civil: offset.to_datetime(instant), offset: Some(offset) })
    }
}

/// How finely the stamps of a table are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// `2024`
    Year,
    /// `2024Q1`
    Quarter,
    /// `2024-01`
    Month,
    /// `2024-01-31`
    Day,
    /// `2024-01-31 09:30`
    Minute,
    /// `2024-01-31 09:30:00`
    Second,
    /// `2024-01-31 09:30:00.000`, with so many digits (1 to 9)
    Fraction(u8),
}

/// How the offset from UTC is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    /// Not at all.
    None,
    /// `Z`, ` UTC` or ` GMT`: this text stands for offset zero.
    Zero(&'static str),
    /// `+01:00`
    Colon,
    /// `+0100`
    Plain,
    /// `+01`
    Hours,
    /// A name from the time zone database: `[Europe/Paris]`, or ` Europe/Paris` without brackets.
    Named {
        /// The zone itself.
        zone: TimeZone,
        /// Written in brackets after the offset, as in RFC 9557.
        brackets: bool,
    },
}

/// How a table writes its stamps. Month-first dates, dates with month names and epoch numbers continue as ISO 8601.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    /// How finely.
    pub precision: Precision,
    /// What stands between date and time: `T` or a space.
    pub separator: char,
    /// How the offset is written.
    pub zone: Zone,
}

impl Style {
    /// The named time zone, if there is one.
    pub fn time_zone(&self) -> Option<&TimeZone> {
        match &self.zone {
            Zone::Named { zone, .. } => Some(zone),
            _ => None,
        }
    }

    /// Writes one stamp in this style.
    pub fn write(&self, stamp: &Stamp) -> String {
        let (date, time) = (stamp.civil.date(), stamp.civil.time());
        let mut text = String::with_capacity(32);
        // Writing to a String cannot fail.
        let _ = match self.precision {
            Precision::Year => write!(text, "{:04}", date.year()),
            Precision::Quarter => write!(text, "{:04}Q{}", date.year(), (date.month() - 1) / 3 + 1),
            Precision::Month => write!(text, "{:04}-{:02}", date.year(), date.month()),
            _ => write!(text, "{:04}-{:02}-{:02}", date.year(), date.month(), date.day()),
        };
        if self.precision > Precision::Day {
            text.push(self.separator);
            write_time(&mut text, time, self.precision);
        }
        if let Some(offset) = stamp.offset {
            write_offset(&mut text, offset, &self.zone);
        }
        text
    }
}

fn write_time(text: &mut String, time: Time, precision: Precision) {
    let _ = write!(text, "{:02}:{:02}", time.hour(), time.minute());
    if precision >= Precision::Second {
        let _ = write!(text, ":{:02}", time.second());
    }
    if let Precision::Fraction(digits) = precision {
        let digits = usize::from(digits.clamp(1, 9));
        let fraction = format!("{:09}", time.subsec_nanosecond());
        let _ = write!(text, ".{}", &fraction[..digits]);
    }
}

fn write_offset(text: &mut String, offset: Offset, zone: &Zone) {
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes) = (seconds.unsigned_abs() / 3600, seconds.unsigned_abs() / 60 % 60);
    let _ = match zone {
        Zone::None => Ok(()),
        Zone::Zero(name) if seconds == 0 => write!(text, "{name}"),
        Zone::Plain => write!(text, "{sign}{hours:02}{minutes:02}"),
        Zone::Hours if minutes == 0 => write!(text, "{sign}{hours:02}"),
        Zone::Named { zone, brackets: false } => write!(text, " {}", zone.iana_name().unwrap_or("UTC")),
        Zone::Named { zone, brackets: true } => {
            write!(text, "{sign}{hours:02}:{minutes:02}[{}]", zone.iana_name().unwrap_or("UTC"))
        }
        Zone::Zero(_) | Zone::Colon | Zone::Hours => write!(text, "{sign}{hours:02}:{minutes:02}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    fn style(precision: Precision, separator: char, zone: Zone) -> Style {
        Style { precision, separator, zone }
    }

    #[test]
    fn writes_each_precision() {
        let stamp = Stamp::civil(date(2024, 5, 6).at(7, 8, 9, 120_000_000));
        for (precision, text) in [
            (Precision::Year, "2024"),
            (Precision::Quarter, "2024Q2"),
            (Precision::Month, "2024-05"),
            (Precision::Day, "2024-05-06"),
            (Precision::Minute, "2024-05-06 07:08"),
            (Precision::Second, "2024-05-06 07:08:09"),
            (Precision::Fraction(3), "2024-05-06 07:08:09.120"),
        ] {
            assert_eq!(style(precision, ' ', Zone::None).write(&stamp), text);
        }
    }

    #[test]
    fn writes_each_zone() {
        let new_york = TimeZone::get("America/New_York").unwrap();
        let stamp = Stamp::with_offset(date(2024, 1, 2).at(3, 0, 0, 0), Offset::constant(-5));
        let zero = Stamp::with_offset(date(2024, 1, 2).at(3, 0, 0, 0), Offset::UTC);
        let write = |zone: Zone, stamp: &Stamp| style(Precision::Minute, 'T', zone).write(stamp);
        assert_eq!(write(Zone::Zero("Z"), &zero), "2024-01-02T03:00Z");
        assert_eq!(write(Zone::Zero(" UTC"), &zero), "2024-01-02T03:00 UTC");
        assert_eq!(write(Zone::Zero("Z"), &stamp), "2024-01-02T03:00-05:00");
        assert_eq!(write(Zone::Colon, &stamp), "2024-01-02T03:00-05:00");
        assert_eq!(write(Zone::Plain, &stamp), "2024-01-02T03:00-0500");
        assert_eq!(write(Zone::Hours, &stamp), "2024-01-02T03:00-05");
        let named = |brackets| Zone::Named { zone: new_york.clone(), brackets };
        assert_eq!(write(named(false), &stamp), "2024-01-02T03:00 America/New_York");
        assert_eq!(write(named(true), &stamp), "2024-01-02T03:00-05:00[America/New_York]");
    }

    #[test]
    fn a_named_zone_moves_its_offset() {
        let new_york = TimeZone::get("America/New_York").unwrap();
        let before = Stamp::with_offset(date(2024, 3, 9).at(9, 30, 0, 0), Offset::constant(-5));
        let day_later = before.at(date(2024, 3, 10).at(9, 30, 0, 0), Some(&new_york)).unwrap();
        assert_eq!(day_later, Stamp::with_offset(date(2024, 3, 10).at(9, 30, 0, 0), Offset::constant(-4)));
        let elapsed = before.later(SignedDuration::from_hours(24), Some(&new_york)).unwrap();
        assert_eq!(elapsed, Stamp::with_offset(date(2024, 3, 10).at(10, 30, 0, 0), Offset::constant(-4)));
    }

    #[test]
    fn nanoseconds_follow_the_instant() {
        let paris = Stamp::with_offset(date(1970, 1, 1).at(1, 0, 0, 0), Offset::constant(1));
        assert_eq!(paris.nanoseconds(), 0);
        assert_eq!(Stamp::civil(date(1969, 12, 31).at(23, 59, 59, 0)).nanoseconds(), -1_000_000_000);
    }
}
