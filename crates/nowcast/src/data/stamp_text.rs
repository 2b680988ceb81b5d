//! Reads the text of one stamp. What only the whole column can tell (day or month first, which unit an epoch number
//! has) stays open here and is settled in [`super::stamp_column`].

use super::stamp::Precision;

/// One stamp as far as its own text tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reading {
    /// A calendar date, perhaps with a time of day and a zone.
    Calendar(Calendar),
    /// A whole number: seconds to nanoseconds since 1970, or a date written without separators, or a year.
    Whole(i64),
    /// A number with a fraction: seconds since 1970.
    Fraction(f64),
}

/// A calendar date with its time of day, fields not yet checked against each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Calendar {
    pub(super) year: i16,
    /// The month; the first of two numbers where `order_open`.
    pub(super) month: u8,
    /// The day; the second of two numbers where `order_open`.
    pub(super) day: u8,
    /// `01/02/2024` may be January or February.
    pub(super) order_open: bool,
    /// Nanoseconds since midnight by the clock.
    pub(super) nanoseconds: i64,
    pub(super) precision: Precision,
    pub(super) separator: char,
    pub(super) offset: Option<OffsetText>,
    /// A zone name stands behind; the caller gets its text once.
    pub(super) named: bool,
}

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

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

/// Reads one stamp, and the name of its time zone if it has one. `None`: this is no stamp.
pub(super) fn read(text: &str) -> Option<(Reading, Option<ZoneName<'_>>)> {
    let text = text.trim();
    if let Some(number) = read_number(text) {
        return Some((number, None));
    }
    let mut scan = Scan { text, at: 0 };
    let mut calendar = read_date(&mut scan)?;
    let mut zone = None;
    if !scan.is_done() {
        zone = read_rest(&mut scan, &mut calendar)?;
    }
    Some((Reading::Calendar(calendar), zone))
}

/// Whether the text is a time of day alone: `09:30` or `09:30:00`.
pub(super) fn is_time_of_day(text: &str) -> bool {
    let mut scan = Scan { text: text.trim(), at: 0 };
    read_clock(&mut scan).is_some() && scan.is_done()
}

fn read_number(text: &str) -> Option<Reading> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || digits.len() > 40 || !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Reading::Whole);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+')) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    // 2^63 and beyond is no epoch in any unit.
    match value.abs() < i64::MAX as f64 {
        true if value.fract() == 0.0 => Some(Reading::Whole(value as i64)),
        true => Some(Reading::Fraction(value)),
        false => None,
    }
}

fn read_date(scan: &mut Scan<'_>) -> Option<Calendar> {
    let start = scan.at;
    if let Some(word) = scan.word() {
        if name_index(word, &WEEKDAYS, 3).is_some() {
            scan.eat_any(",");
            scan.spaces();
            return read_date_from_number(scan);
        }
        if let Some(month) = name_index(word, &MONTHS, 3) {
            return read_date_from_month(scan, month);
        }
        scan.at = start;
        return read_quarter_first(scan);
    }
    read_date_from_number(scan)
}

/// `Jan 2, 2024`, `Jan 2024`, `Jan-24`.
fn read_date_from_month(scan: &mut Scan<'_>, month: u8) -> Option<Calendar> {
    scan.eat_any(".");
    let dashed = scan.eat_any("-/").is_some();
    scan.spaces();
    let (number, digits) = scan.digits(4)?;
    if digits == 4 || (dashed && scan.is_done()) {
        return calendar(full_year(number, digits)?, month, 1, Precision::Month);
    }
    scan.eat_any(",-/");
    scan.spaces();
    let (year, digits) = scan.digits(4)?;
    calendar(full_year(year, digits)?, month, u8::try_from(number).ok()?, Precision::Day)
}

/// `Q1 2024`, `Q1-2024`.
fn read_quarter_first(scan: &mut Scan<'_>) -> Option<Calendar> {
    scan.eat_any("Qq")?;
    let quarter = scan.quarter()?;
    scan.spaces();
    scan.eat_any("-/");
    let (year, digits) = scan.digits(4)?;
    calendar(full_year(year, digits)?, quarter * 3 - 2, 1, Precision::Quarter)
}

/// Everything that starts with a number.
fn read_date_from_number(scan: &mut Scan<'_>) -> Option<Calendar> {
    let (first, digits) = scan.digits(8)?;
    if digits == 8 {
        let (year, month, day) = (first / 10_000, first / 100 % 100, first % 100);
        return calendar(i16::try_from(year).ok()?, month as u8, day as u8, Precision::Day);
    }
    let spaces = scan.spaces();
    if digits == 4 && matches!(scan.peek(), Some(b'Q' | b'q')) {
        scan.at += 1;
        return calendar(full_year(first, 4)?, scan.quarter()? * 3 - 2, 1, Precision::Quarter);
    }
    if scan.peek().is_some_and(|byte| byte.is_ascii_alphabetic()) {
        return read_named_month_second(scan, first, digits, "");
    }
    if spaces {
        return None;
    }
    let separator = scan.eat_any("-/.")?;
    if matches!(scan.peek(), Some(b'Q' | b'q')) && digits == 4 {
        scan.at += 1;
        return calendar(full_year(first, 4)?, scan.quarter()? * 3 - 2, 1, Precision::Quarter);
    }
    if scan.peek().is_some_and(|byte| byte.is_ascii_alphabetic()) {
        return read_named_month_second(scan, first, digits, "-/.");
    }
    let (second, second_digits) = scan.digits(2)?;
    if digits == 4 && scan.is_done() && separator != '.' && second_digits == 2 {
        return calendar(full_year(first, 4)?, u8::try_from(second).ok()?, 1, Precision::Month);
    }
    if scan.eat_any("-/.")? != separator {
        return None;
    }
    let (third, third_digits) = scan.digits(4)?;
    let [first_small, second_small, third_small] = [first, second, third].map(|part| u8::try_from(part).ok());
    if digits == 4 {
        return calendar(
            full_year(first, 4)?,
            second_small?,
            third_small.filter(|_| third_digits <= 2)?,
            Precision::Day,
        );
    }
    let year = full_year(third, third_digits)?;
    if digits > 2 {
        return None;
    }
    // Dots are used by countries that write the day first.
    if separator == '.' {
        return calendar(year, second_small?, first_small?, Precision::Day);
    }
    Some(Calendar { order_open: true, ..calendar(year, first_small?, second_small?, Precision::Day)? })
}

/// `02-Jan-2024`, `2 January 2024`, `2024-Jan-02`: the month has a name and stands second.
fn read_named_month_second(scan: &mut Scan<'_>, first: u32, digits: usize, separators: &str) -> Option<Calendar> {
    let month = name_index(scan.word()?, &MONTHS, 3)?;
    if separators.is_empty() {
        scan.eat_any(".,");
        scan.spaces();
    } else {
        scan.eat_any(separators)?;
    }
    let (third, third_digits) = scan.digits(4)?;
    if digits == 4 {
        return calendar(full_year(first, 4)?, month, u8::try_from(third).ok()?, Precision::Day);
    }
    calendar(full_year(third, third_digits)?, month, u8::try_from(first).ok()?, Precision::Day)
}

/// Time of day and zone, whichever of them are there; nothing else may follow.
fn read_rest<'a>(scan: &mut Scan<'a>, calendar: &mut Calendar) -> Option<Option<ZoneName<'a>>> {
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

fn calendar(year: i16, month: u8, day: u8, precision: Precision) -> Option<Calendar> {
    // Whether the day exists is known once the order is; what no order can make a date ends here.
    if month == 0 || day == 0 || month > 31 || day > 31 {
        return None;
    }
    let base = Calendar {
        year,
        month,
        day,
        order_open: false,
        nanoseconds: 0,
        precision,
        separator: ' ',
        offset: None,
        named: false,
    };
    Some(base)
}

/// Two digits mean 1969 to 2068, as POSIX reads them.
fn full_year(year: u32, digits: usize) -> Option<i16> {
    match digits {
        4 => i16::try_from(year).ok(),
        2 if year >= 69 => Some(year as i16 + 1900),
        2 => Some(year as i16 + 2000),
        _ => None,
    }
}

/// Which name this is, counted from one; three letters suffice.
fn name_index(word: &str, names: &[&str], shortest: usize) -> Option<u8> {
    let word = word.to_ascii_lowercase();
    let index = names.iter().position(|name| {
        word.len() >= shortest && (name.starts_with(&word) || word == "sept" && *name == "september")
    })?;
    Some(index as u8 + 1)
}

/// A place in the text.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn is_done(&self) -> bool {
        self.at == self.text.len()
    }

    /// Takes one of these ASCII characters.
    fn eat_any(&mut self, any: &str) -> Option<char> {
        let next = self.peek().filter(|byte| any.as_bytes().contains(byte))?;
        self.at += 1;
        Some(char::from(next))
    }

    fn spaces(&mut self) -> bool {
        let start = self.at;
        while self.eat_any(" ").is_some() {}
        self.at > start
    }

    /// All the digits here, if they are at most `most` (up to 9): their value and their count.
    fn digits(&mut self, most: usize) -> Option<(u32, usize)> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take(most + 1).take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 || count > most {
            return None;
        }
        let value = rest[..count].iter().fold(0, |value, byte| value * 10 + u32::from(byte - b'0'));
        self.at += count;
        Some((value, count))
    }

    fn two_digits(&mut self) -> Option<u32> {
        self.digits(2).filter(|(_, digits)| *digits == 2).map(|(value, _)| value)
    }

    fn quarter(&mut self) -> Option<u8> {
        self.digits(1).map(|(value, _)| value as u8).filter(|quarter| (1..=4).contains(quarter))
    }

    /// A fraction of a second in nanoseconds and how many digits it has; digits past the ninth are dropped.
    fn fraction(&mut self) -> Option<(u32, u8)> {
        let (mut value, mut digits, mut all) = (0, 0, 0);
        while let Some(byte) = self.peek().filter(u8::is_ascii_digit) {
            if digits < 9 {
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
            }
            (self.at, all) = (self.at + 1, all + 1);
            if all > 18 {
                return None;
            }
        }
        (digits > 0).then(|| (value * 10_u32.pow(9 - u32::from(digits)), digits))
    }

    fn word(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let end = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        self.at += end;
        (end > 0).then(|| &rest[..end])
    }

    fn rest_if(&self, accept: impl Fn(&str) -> bool) -> Option<&'a str> {
        Some(&self.text[self.at..]).filter(|rest| accept(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Option<(i16, u8, u8, i64, Precision)> {
        match read(text)?.0 {
            Reading::Calendar(c) => Some((c.year, c.month, c.day, c.nanoseconds / NANOSECONDS_PER_SECOND, c.precision)),
            _ => None,
        }
    }

    #[test]
    fn calendar_dates() {
        for (text, expected) in [
            ("2024-01-31", (2024, 1, 31, 0, Precision::Day)),
            (" 2024/1/5 ", (2024, 1, 5, 0, Precision::Day)),
            ("2024.01.05 17:30", (2024, 1, 5, 63_000, Precision::Minute)),
            ("31.12.2024", (2024, 12, 31, 0, Precision::Day)),
            ("01/02/2024", (2024, 1, 2, 0, Precision::Day)),
            ("1/2/24", (2024, 1, 2, 0, Precision::Day)),
            ("12-31-99", (1999, 12, 31, 0, Precision::Day)),
            ("Jan 2, 2024", (2024, 1, 2, 0, Precision::Day)),
            ("January 02 2024", (2024, 1, 2, 0, Precision::Day)),
            ("02-Jan-2024", (2024, 1, 2, 0, Precision::Day)),
            ("2-Sept-24", (2024, 9, 2, 0, Precision::Day)),
            ("02Jan2024", (2024, 1, 2, 0, Precision::Day)),
            ("2024-Jan-02", (2024, 1, 2, 0, Precision::Day)),
            ("Tue, 02 Jan 2024 10:00:00 GMT", (2024, 1, 2, 36_000, Precision::Second)),
            ("2024-01", (2024, 1, 1, 0, Precision::Month)),
            ("Jan 2024", (2024, 1, 1, 0, Precision::Month)),
            ("Jan-24", (2024, 1, 1, 0, Precision::Month)),
            ("2024Q3", (2024, 7, 1, 0, Precision::Quarter)),
            ("2024-Q1", (2024, 1, 1, 0, Precision::Quarter)),
            ("Q4 2024", (2024, 10, 1, 0, Precision::Quarter)),
            ("2024-01-31T09:30:15", (2024, 1, 31, 34_215, Precision::Second)),
            ("20240131T093000", (2024, 1, 31, 34_200, Precision::Second)),
            ("20240131 0930", (2024, 1, 31, 34_200, Precision::Minute)),
            ("2024-01-31 9:30 PM", (2024, 1, 31, 77_400, Precision::Minute)),
            ("2024-01-31 12:00:00 AM", (2024, 1, 31, 0, Precision::Second)),
            ("2020-01-01 09-PM", (2020, 1, 1, 75_600, Precision::Minute)),
            ("2024-01-31 00:00:00.250", (2024, 1, 31, 0, Precision::Fraction(3))),
        ] {
            assert_eq!(fields(text), Some(expected), "{text:?}");
        }
    }

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
    fn numbers_stay_open() {
        assert_eq!(read("1704067200").map(|read| read.0), Some(Reading::Whole(1_704_067_200)));
        assert_eq!(read("-86400").map(|read| read.0), Some(Reading::Whole(-86_400)));
        assert_eq!(read("1704067200.5").map(|read| read.0), Some(Reading::Fraction(1_704_067_200.5)));
        assert_eq!(read("1.7040672e9").map(|read| read.0), Some(Reading::Whole(1_704_067_200)));
        assert_eq!(read("1e30"), None);
    }

    #[test]
    fn what_is_no_stamp() {
        for text in [
            "",
            "hello",
            "2024-13-45x",
            "2024-01-31 25:00",
            "2024-01-31 10:60",
            "2024-01-31T",
            "2024-01-31 EST",
            "2024-01-31 09:30 EST",
            "2024-00-10",
            "2024-01-32",
            "1/2",
            "1/2/3",
            "1-2/2024",
            "Foo 2, 2024",
            "2024Q5",
            "10:30",
            "2024-01-31 10:3",
            "2024-01-31 13:00 PM",
            "99999999999999999999",
            "2024-01-31 10:00 +25:00",
            "２０２４-01-01",
            "2024-01-31 10:00:00.1234567890123456789",
            "--1",
            "2024--01-01",
            "T10:00",
            "2024-01-31Tx",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn times_of_day() {
        assert!(is_time_of_day("09:30") && is_time_of_day("9:30:00") && is_time_of_day("093000"));
        assert!(!is_time_of_day("2024-01-01") && !is_time_of_day("24:00") && !is_time_of_day("1.5"));
    }
}
