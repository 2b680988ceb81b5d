//! Marks along a time axis: where a new second, hour, day, month or year begins, as finely as labels have room.

use jiff::SignedDuration;
use jiff::civil::{DateTime, Time};

use super::scene::text_width;

/// Pixels kept free between two labels.
const GAP: f64 = 16.0;

/// One mark of the time axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// The time step it stands at.
    pub(super) step: usize,
    /// What is written at the mark.
    pub(super) label: String,
    /// What is written in a second line: the date or the year the label belongs to, where it changes.
    pub(super) context: Option<String>,
}

/// A length of the calendar; marks stand where a new one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
    Seconds(i64),
    Minutes(i64),
    Hours(i64),
    Days(i64),
    Weeks(i64),
    Months(i64),
    Years(i64),
}

/// All periods in use, from fine to coarse.
const PERIODS: [Period; 24] = [
    Period::Seconds(1),
    Period::Seconds(5),
    Period::Seconds(15),
    Period::Seconds(30),
    Period::Minutes(1),
    Period::Minutes(5),
    Period::Minutes(15),
    Period::Minutes(30),
    Period::Hours(1),
    Period::Hours(3),
    Period::Hours(6),
    Period::Hours(12),
    Period::Days(1),
    Period::Days(2),
    Period::Weeks(1),
    Period::Weeks(2),
    Period::Months(1),
    Period::Months(3),
    Period::Months(6),
    Period::Years(1),
    Period::Years(2),
    Period::Years(5),
    Period::Years(10),
    Period::Years(50),
];

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const DAY: i64 = 86_400;

fn seconds(clock: DateTime) -> i64 {
    clock.duration_since(EPOCH).as_secs()
}

impl Period {
    /// The number of the period a reading of the clock falls into.
    fn number(self, clock: DateTime) -> i64 {
        let months = i64::from(clock.year()) * 12 + i64::from(clock.month()) - 1;
        match self {
            Self::Seconds(count) => seconds(clock).div_euclid(count),
            Self::Minutes(count) => seconds(clock).div_euclid(60 * count),
            Self::Hours(count) => seconds(clock).div_euclid(3600 * count),
            Self::Days(count) => seconds(clock).div_euclid(DAY * count),
            // Weeks begin on Monday; 1970 began on a Thursday.
            Self::Weeks(count) => (seconds(clock).div_euclid(DAY) + 3).div_euclid(7 * count),
            Self::Months(count) => months.div_euclid(count),
            Self::Years(count) => i64::from(clock.year()).div_euclid(count),
        }
    }

    /// Whether a step of so many seconds leaves this period worth a mark.
    fn suits(self, shortest_step: i64) -> bool {
        match self {
            Self::Seconds(_) => shortest_step < 60,
            Self::Minutes(_) | Self::Hours(_) => shortest_step < DAY,
            Self::Days(_) | Self::Weeks(_) => shortest_step < 28 * DAY,
            Self::Months(_) => shortest_step < 365 * DAY,
            Self::Years(_) => true,
        }
    }

    /// Whether a period begins at this very reading of the clock.
    fn begins_at(self, clock: DateTime) -> bool {
        match clock.checked_sub(SignedDuration::from_nanos(1)) {
            Ok(before) => self.number(before) != self.number(clock),
            Err(_) => true,
        }
    }

    fn label(self, clock: DateTime) -> String {
        match self {
            Self::Seconds(_) => clock.strftime("%H:%M:%S").to_string(),
            Self::Minutes(_) | Self::Hours(_) => clock.strftime("%H:%M").to_string(),
            Self::Days(_) | Self::Weeks(_) => clock.strftime("%-d %b").to_string(),
            Self::Months(_) => clock.strftime("%b").to_string(),
            Self::Years(_) => clock.strftime("%Y").to_string(),
        }
    }

    fn context(self, clock: DateTime) -> Option<String> {
        match self {
            Self::Seconds(_) | Self::Minutes(_) | Self::Hours(_) => Some(clock.strftime("%-d %b %Y").to_string()),
            Self::Days(_) | Self::Weeks(_) | Self::Months(_) => Some(clock.strftime("%Y").to_string()),
            Self::Years(_) => None,
        }
    }
}

/// Marks for ascending readings of the clock that stand `pitch` pixels apart, with labels of a font size.
///
/// The finest period whose labels do not touch wins; fewer than two such marks fall back to the first and last step.
pub(super) fn marks(clocks: &[DateTime], pitch: f64, size: f64) -> Vec<Mark> {
    let steps = clocks.windows(2).map(|pair| seconds(pair[1]) - seconds(pair[0])).filter(|&step| step > 0);
    let shortest_step = steps.min().unwrap_or(0);
    let clocks: &[DateTime] = &clocks.iter().map(|&clock| floored(clock, shortest_step)).collect::<Vec<_>>();
    PERIODS
        .into_iter()
        .filter(|period| period.suits(shortest_step))
        .map(|period| beginnings(clocks, period))
        .find(|marks| marks.len() >= 2 && fit(marks, pitch, size))
        .map(|marks| with_sparse_context(marks, pitch, size))
        .unwrap_or_else(|| ends(clocks))
}

/// The clock without what is finer than the step: monthly data belongs to its month, on whatever day it is stamped.
fn floored(clock: DateTime, shortest_step: i64) -> DateTime {
    match shortest_step {
        step if step >= 28 * DAY => clock.date().first_of_month().to_datetime(Time::midnight()),
        step if step >= DAY => clock.date().to_datetime(Time::midnight()),
        _ => clock,
    }
}

/// Every step at which a period begins, with the context of each.
fn beginnings(clocks: &[DateTime], period: Period) -> Vec<Mark> {
    let begins = |step: usize| match step {
        0 => period.begins_at(clocks[0]),
        _ => period.number(clocks[step]) != period.number(clocks[step - 1]),
    };
    (0..clocks.len())
        .filter(|&step| begins(step))
        .map(|step| Mark { step, label: period.label(clocks[step]), context: period.context(clocks[step]) })
        .collect()
}

fn fit(marks: &[Mark], pitch: f64, size: f64) -> bool {
    marks.windows(2).all(|pair| {
        let distance = (pair[1].step - pair[0].step) as f64 * pitch;
        distance >= (text_width(&pair[0].label, size) + text_width(&pair[1].label, size)) / 2.0 + GAP
    })
}

/// Keeps the context where it changes; where two would touch, the later one.
fn with_sparse_context(mut marks: Vec<Mark>, pitch: f64, size: f64) -> Vec<Mark> {
    let mut last = None;
    for at in 0..marks.len() {
        if at > 0 && last.as_ref() == Some(&marks[at].context) {
            marks[at].context = None;
            continue;
        }
        last = Some(marks[at].context.clone());
        let Some(context) = &marks[at].context else { continue };
        let width = text_width(context, size);
        if let Some(previous) = marks[..at].iter().rposition(|mark| mark.context.is_some()) {
            let distance = (marks[at].step - marks[previous].step) as f64 * pitch;
            if distance < width + GAP {
                marks[previous].context = None;
            }
        }
    }
    marks
}

/// The first and the last step with their dates.
fn ends(clocks: &[DateTime]) -> Vec<Mark> {
    let mark = |step: usize| {
        let context = clocks[step].strftime("%Y").to_string();
        Mark { step, label: clocks[step].strftime("%-d %b").to_string(), context: Some(context) }
    };
    match clocks.len() {
        0 => Vec::new(),
        1 => vec![mark(0)],
        count => vec![mark(0), mark(count - 1)],
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;
    use jiff::civil::date;
    use proptest::prelude::*;

    use super::*;

    fn every(first: DateTime, step: SignedDuration, count: i32) -> Vec<DateTime> {
        (0..count).map(|k| first.checked_add(step * k).unwrap()).collect()
    }

    fn written(marks: &[Mark]) -> Vec<String> {
        let text = |mark: &Mark| match &mark.context {
            Some(context) => format!("{}: {} / {context}", mark.step, mark.label),
            None => format!("{}: {}", mark.step, mark.label),
        };
        marks.iter().map(text).collect()
    }

    #[test]
    fn hours_carry_their_date() {
        let clocks = every(date(2024, 1, 1).at(20, 0, 0, 0), SignedDuration::from_hours(1), 30);
        assert_eq!(
            written(&marks(&clocks, 30.0, 11.0)),
            [
                "1: 21:00 / 1 Jan 2024",
                "4: 00:00 / 2 Jan 2024",
                "7: 03:00",
                "10: 06:00",
                "13: 09:00",
                "16: 12:00",
                "19: 15:00",
                "22: 18:00",
                "25: 21:00",
                "28: 00:00 / 3 Jan 2024"
            ]
        );
    }

    #[test]
    fn a_crowded_context_yields_to_the_next() {
        let clocks = every(date(2024, 1, 1).at(20, 0, 0, 0), SignedDuration::from_hours(1), 30);
        let marks = written(&marks(&clocks, 17.0, 11.0));
        assert_eq!(marks[..2], ["1: 21:00", "4: 00:00 / 2 Jan 2024"]);
    }

    #[test]
    fn trading_days_mark_what_exists() {
        // Business days: 1 June 2024 is a Saturday, so June is marked at Monday the 3rd.
        let days = every(date(2024, 5, 1).at(0, 0, 0, 0), SignedDuration::from_hours(24), 70);
        let open: Vec<DateTime> = days.into_iter().filter(|day| day.weekday().to_monday_one_offset() < 6).collect();
        let marks = marks(&open, 2.5, 11.0);
        let expected: Vec<(usize, &str)> = vec![(0, "May"), (23, "Jun"), (43, "Jul")];
        assert_eq!(marks.iter().map(|mark| (mark.step, mark.label.as_str())).collect::<Vec<_>>(), expected);
        assert_eq!(open[23], date(2024, 6, 3).at(0, 0, 0, 0));
        assert_eq!(marks[0].context.as_deref(), Some("2024"));
        assert_eq!(marks[1].context, None);
    }

    #[test]
    fn months_and_years_need_no_finer_marks() {
        let months: Vec<DateTime> =
            (0..60).map(|k: i32| date(2020, 1, 31).at(0, 0, 0, 0).checked_add(k.months()).unwrap()).collect();
        let labels = written(&marks(&months, 4.0, 11.0));
        assert_eq!(labels, ["0: 2020", "12: 2021", "24: 2022", "36: 2023", "48: 2024"]);
    }

    #[test]
    fn two_stamps_within_one_period_show_both_ends() {
        let clocks = [date(2024, 3, 5).at(0, 0, 0, 0), date(2024, 3, 6).at(0, 0, 0, 0)];
        assert_eq!(written(&marks(&clocks, 1.0, 11.0)), ["0: 5 Mar / 2024", "1: 6 Mar / 2024"]);
        assert!(marks(&[], 1.0, 11.0).is_empty());
        assert_eq!(marks(&clocks[..1], 1.0, 11.0).len(), 1);
    }

    proptest! {
        #[test]
        fn labels_never_touch(
            start in 0i64..4_000_000_000,
            step in prop_oneof![1i64..100, Just(300), Just(3600), Just(DAY), Just(7 * DAY), 1i64..10_000_000],
            count in 2i32..400,
        ) {
            let first = EPOCH.checked_add(SignedDuration::from_secs(start)).unwrap();
            let clocks = every(first, SignedDuration::from_secs(step), count);
            let pitch = 800.0 / f64::from(count);
            let marks = marks(&clocks, pitch, 11.0);
            prop_assert!(!marks.is_empty());
            prop_assert!(marks.is_sorted_by(|left, right| left.step < right.step));
            let contexts: Vec<_> = marks.iter().filter(|mark| mark.context.is_some()).collect();
            if marks.len() > 2 {
                prop_assert!(fit(&marks, pitch, 11.0));
                for pair in contexts.windows(2) {
                    let width = text_width(pair[0].context.as_ref().unwrap(), 11.0)
                        .max(text_width(pair[1].context.as_ref().unwrap(), 11.0));
                    prop_assert!((pair[1].step - pair[0].step) as f64 * pitch >= width);
                }
            }
        }
    }
}
