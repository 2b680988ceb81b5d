//! Reads what follows the date of a stamp: the time of day, the offset from UTC, the name of the time zone.

use super::scan::Scan;
use super::stamp::Precision;
use super::stamp_text::Calendar;

/// An offset from UTC and how it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OffsetText {
    pub(super) seconds: i32,
    pub(super) form: OffsetForm,
}

/// The spellings of an offset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum OffsetForm {
    Zero(&'static str),
    Colon,
    Plain,
    Hours,
}

/// The name of a time zone behind a stamp: `[Europe/Paris]` or ` Europe/Paris`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ZoneName<'a> {
    pub(super) name: &'a str,
    pub(super) brackets: bool,
}

const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

/// Whether the text is a time of day alone: `09:30` or `09:30:00`.
pub(super) fn is_time_of_day(text: &str) -> bool {
    let mut scan = Scan { text: text.trim(), at: 0 };
    read_clock(&mut scan).is_some() && scan.is_done()
}

/// Time of day and zone, whichever of them are there; nothing else may follow.
pub(super) fn read_rest<'a>(scan: &mut Scan<'a>, calendar: &mut Calendar) -> Option<Option<ZoneName<'a>>> {
    let start = scan.at;
    scan.eat_any(",");
    let separator = if scan.eat_any("Tt").is_some() {
        'T'
    } else {
        // Without a space, `2024-01-01+01:00` is a date with an offset.
        if !scan.spaces() && !matches!(scan.peek(), Some(b'Z' | b'+' | b'-' | b'[')) {
            return None;
        }
        ' '
    };
    if scan.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        if calendar.precision != Precision::Day {
            return None;
        }
        (calendar.nanoseconds, calendar.precision) = read_clock(scan)?;
        calendar.separator = separator;
    } else if separator == 'T' {
        // `2024-01-01 Tokyo` has no `T` separator; step back so that the zone is read whole.
        scan.at = start;
        return None;
    }
    read_zone(scan, calendar)
}

/// A time of day in nanoseconds: `09:30`, `9:30:00.5`, `09:30 PM`, `093000`, `09 PM`.
fn read_clock(scan: &mut Scan<'_>) -> Option<(i64, Precision)> {
    let (hour, digits) = scan.digits(6)?;
    let (mut hour, mut minute, mut second, mut fraction) = (hour, 0, 0, 0);
    let mut precision = Precision::Minute;
    match digits {
        4 => (hour, minute) = (hour / 100, hour % 100),
        6 => {
            (hour, minute, second) = (hour / 10_000, hour / 100 % 100, hour % 100);
            precision = Precision::Second;
        }
        1 | 2 if scan.eat_any(":").is_some() => {
            minute = scan.two_digits()?;
            if scan.eat_any(":").is_some() {
                second = scan.two_digits()?;
                precision = Precision::Second;
            }
        }
        1 | 2 => {
            let start = scan.at;
            scan.eat_any("-");
            scan.spaces();
            if !matches!(scan.peek(), Some(b'A' | b'a' | b'P' | b'p')) {
                return None;
            }
            scan.at = start;
            scan.eat_any("-");
        }
        _ => return None,
    }
    if precision == Precision::Second && scan.eat_any(".,").is_some() {
        let (value, digits) = scan.fraction()?;
        (fraction, precision) = (value, Precision::Fraction(digits));
    }
    let start = scan.at;
    scan.spaces();
    match scan.word().map(str::to_ascii_lowercase).as_deref() {
        Some("am") if (1..=12).contains(&hour) => hour %= 12,
        Some("pm") if (1..=12).contains(&hour) => hour = hour % 12 + 12,
        Some("am" | "pm") => return None,
        _ => scan.at = start,
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = i64::from(hour * 3600 + minute * 60 + second);
    Some((seconds * NANOSECONDS_PER_SECOND + i64::from(fraction), precision))
}

/// `Z`, `UTC`, `+01:00`, `+0100 UTC`, `+01:00[Europe/Paris]`, `Europe/Paris`, or nothing.
fn read_zone<'a>(scan: &mut Scan<'a>, calendar: &mut Calendar) -> Option<Option<ZoneName<'a>>> {
    let spaced = scan.spaces();
    if let Some(sign) = scan.eat_any("+-") {
        calendar.offset = Some(read_offset(scan, sign == '-')?);
        scan.spaces();
        // Some languages print the zone's abbreviation behind the offset; the offset says it all.
        if let Some(word) = scan.rest_if(|rest| matches!(rest, "UTC" | "GMT" | "Z")) {
            scan.at += word.len();
        }
    } else if let Some(word) = scan.rest_if(|rest| matches!(rest, "Z" | "z" | "UTC" | "GMT" | "utc" | "gmt")) {
        let form = match (word.len(), spaced, word.starts_with(['G', 'g'])) {
            (1, _, _) => "Z",
            (_, true, false) => " UTC",
            (_, false, false) => "UTC",
            (_, true, true) => " GMT",
            (_, false, true) => "GMT",
        };
        scan.at += word.len();
        calendar.offset = Some(OffsetText { seconds: 0, form: OffsetForm::Zero(form) });
    } else if scan.peek() == Some(b'Z') && scan.text.as_bytes().get(scan.at + 1) == Some(&b'[') {
        scan.at += 1;
        calendar.offset = Some(OffsetText { seconds: 0, form: OffsetForm::Zero("Z") });
    }
    if scan.is_done() {
        return Some(None);
    }
    let rest = &scan.text[scan.at..];
    let brackets = rest.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let name = brackets.unwrap_or(rest);
    let plausible = name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+'));
    if !plausible || (brackets.is_none() && !name.contains('/')) {
        return None;
    }
    calendar.named = true;
    scan.at = scan.text.len();
    Some(Some(ZoneName { name, brackets: brackets.is_some() }))
}

fn read_offset(scan: &mut Scan<'_>, negative: bool) -> Option<OffsetText> {
    let (number, digits) = scan.digits(4)?;
    let (hours, minutes, form) = match digits {
        4 => (number / 100, number % 100, OffsetForm::Plain),
        1 | 2 if scan.eat_any(":").is_some() => (number, scan.two_digits()?, OffsetForm::Colon),
        1 | 2 => (number, 0, OffsetForm::Hours),
        _ => return None,
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = (hours * 3600 + minutes * 60) as i32;
    Some(OffsetText { seconds: if negative { -seconds } else { seconds }, form })
}

#[cfg(test)]
mod tests {
    use super::super::stamp_text::{Reading, read};
    use super::*;

    #[test]
    fn offsets_and_zone_names() {
        for (text, seconds, form) in [
            ("2024-01-31T09:30:00Z", 0, OffsetForm::Zero("Z")),
            ("2024-01-31 09:30:00 UTC", 0, OffsetForm::Zero(" UTC")),
            ("2024-01-31 09:30:00+00:00", 0, OffsetForm::Colon),
            ("2024-01-31 09:30:00 -0530", -19_800, OffsetForm::Plain),
            ("2024-01-31 09:30:00+01", 3600, OffsetForm::Hours),
            ("2024-01-31 09:30:00 +0000 UTC", 0, OffsetForm::Plain),
            ("2024-01-31+01:00", 3600, OffsetForm::Colon),
        ] {
            let Some((Reading::Calendar(calendar), None)) = read(text) else { panic!("{text:?}") };
            assert_eq!(calendar.offset, Some(OffsetText { seconds, form }), "{text:?}");
        }
        for (text, name, brackets) in [
            ("2024-01-31 09:30 America/New_York", "America/New_York", false),
            ("2024-01-31T09:30:00-05:00[America/New_York]", "America/New_York", true),
            ("2024-01-31T09:30:00Z[Etc/UTC]", "Etc/UTC", true),
        ] {
            let (_, zone) = read(text).unwrap_or_else(|| panic!("{text:?}"));
            assert_eq!(zone, Some(ZoneName { name, brackets }), "{text:?}");
        }
    }

    #[test]
    fn times_of_day() {
        assert!(is_time_of_day("09:30") && is_time_of_day("9:30:00") && is_time_of_day("093000"));
        assert!(!is_time_of_day("2024-01-01") && !is_time_of_day("24:00") && !is_time_of_day("1.5"));
    }
}
