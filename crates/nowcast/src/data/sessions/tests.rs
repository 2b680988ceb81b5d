use jiff::civil::{date, time};
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::super::frequency::Frequency;
use super::*;

/// Times from one to another, both included.
fn session(step_minutes: i64, from: (i8, i8), to: (i8, i8)) -> Vec<Time> {
    let (from, to) = (time(from.0, from.1, 0, 0), time(to.0, to.1, 0, 0));
    from.series(step_minutes.minutes()).take_while(|time| *time <= to).collect()
}

/// Bars on so many days from a first one, at the times that the calendar gives for each date.
fn bars(first: Date, days: usize, calendar: impl Fn(Date) -> Vec<Time>) -> Vec<Stamp> {
    let dates = first.series(1.day()).take(days);
    dates.flat_map(|date| calendar(date).into_iter().map(move |time| Stamp::civil(date.to_datetime(time)))).collect()
}

fn is_weekend(date: Date) -> bool {
    matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// Bars of five minutes with a lunch break, Monday to Friday.
fn shanghai(date: Date) -> Vec<Time> {
    let open = if is_weekend(date) { Vec::new() } else { session(5, (9, 35), (11, 30)) };
    let afternoon = if is_weekend(date) { Vec::new() } else { session(5, (13, 5), (15, 0)) };
    [open, afternoon].concat()
}

/// What follows the stamps: name of the rhythm and the next `count` readings of the clock.
fn next(stamps: &[Stamp], count: usize) -> (String, Vec<DateTime>) {
    let frequency = Frequency::infer(stamps);
    let future = frequency.future(stamps[stamps.len() - 1], None, count).unwrap();
    (frequency.to_string(), future.iter().map(Stamp::clock).collect())
}

/// The bars of the calendar that follow the stamps.
fn truth(stamps: &[Stamp], count: usize, calendar: impl Fn(Date) -> Vec<Time>) -> Vec<DateTime> {
    let last = stamps[stamps.len() - 1].clock();
    let coming = bars(last.date(), 40, calendar).into_iter().map(|stamp| stamp.clock());
    coming.filter(|clock| *clock > last).take(count).collect()
}

#[test]
fn lunch_nights_and_weekends_are_learned() {
    // Cut off in the middle of a morning and continued over a weekend.
    let mut stamps = bars(date(2024, 8, 1), 15, shanghai);
    stamps.drain(..20);
    stamps.truncate(stamps.len() - 30);
    let (name, future) = next(&stamps, 200);
    assert_eq!(name, "every 5 minutes, 09:35 to 11:30 and 13:05 to 15:00, Monday to Friday");
    assert_eq!(future, truth(&stamps, 200, shanghai));
}

#[test]
fn three_days_are_enough_and_weekends_are_then_closed() {
    // Tuesday noon to Thursday noon.
    let stamps = bars(date(2024, 8, 6), 3, shanghai);
    let (name, future) = next(&stamps[24..120], 150);
    assert_eq!(name, "every 5 minutes, 09:35 to 11:30 and 13:05 to 15:00, Monday to Friday");
    assert_eq!(future, truth(&stamps[24..120], 150, shanghai));
}

#[test]
fn holidays_half_days_and_holes_do_not_change_the_calendar() {
    let stamps = bars(date(2024, 7, 1), 28, |date| match date.day() {
        8 => Vec::new(),
        12 => session(5, (9, 35), (11, 30)),
        // Every seventh bar of this day is lost.
        17 => shanghai(date).into_iter().enumerate().filter(|(bar, _)| bar % 7 != 3).map(|(_, time)| time).collect(),
        _ => shanghai(date),
    });
    assert_eq!(next(&stamps, 300).1, truth(&stamps, 300, shanghai));
}

#[test]
fn a_hole_of_the_only_week_is_filled_from_the_other_days() {
    let stamps = bars(date(2024, 7, 1), 5, |date| {
        shanghai(date).into_iter().filter(|at| date.day() != 3 || *at != time(10, 5, 0, 0)).collect()
    });
    assert_eq!(next(&stamps, 300).1, truth(&stamps, 300, shanghai));
}

#[test]
fn an_odd_saturday_does_not_open_saturdays() {
    let stamps = bars(date(2024, 7, 1), 28, |date| match date.day() {
        13 => session(5, (9, 35), (11, 30)),
        _ => shanghai(date),
    });
    assert_eq!(next(&stamps, 300).1, truth(&stamps, 300, shanghai));
}

#[test]
fn hours_that_do_not_divide_the_break() {
    let calendar = |date: Date| match is_weekend(date) {
        true => Vec::new(),
        false => vec![time(10, 30, 0, 0), time(11, 30, 0, 0), time(14, 0, 0, 0), time(15, 0, 0, 0)],
    };
    let stamps = bars(date(2024, 3, 4), 12, calendar);
    let (name, future) = next(&stamps, 30);
    assert_eq!(name, "every hour, 10:30 to 11:30 and 14:00 to 15:00, Monday to Friday");
    assert_eq!(future, truth(&stamps, 30, calendar));
}

#[test]
fn a_week_that_opens_on_sunday_evening() {
    let calendar = |date: Date| match date.weekday() {
        Weekday::Saturday => Vec::new(),
        Weekday::Sunday => session(60, (17, 0), (23, 0)),
        Weekday::Friday => session(60, (0, 0), (16, 0)),
        _ => session(60, (0, 0), (23, 0)),
    };
    let stamps = bars(date(2024, 3, 4), 26, calendar);
    let (name, future) = next(&stamps, 200);
    assert_eq!(name, "every hour, in sessions");
    assert_eq!(future, truth(&stamps, 200, calendar));
}

#[test]
fn a_week_from_sunday_to_thursday() {
    let calendar = |date: Date| match date.weekday() {
        Weekday::Friday | Weekday::Saturday => Vec::new(),
        _ => session(15, (10, 0), (15, 0)),
    };
    let stamps = bars(date(2024, 3, 3), 20, calendar);
    assert_eq!(next(&stamps, 150).1, truth(&stamps, 150, calendar));
}

#[test]
fn day_and_night_without_breaks_are_no_sessions() {
    let all_day = |_| session(15, (0, 0), (23, 45));
    let stamps = bars(date(2024, 3, 3), 20, all_day);
    assert_eq!(next(&stamps, 3).0, "every 15 minutes");
    // An outage is no closing time.
    let outage = bars(date(2024, 3, 3), 20, |date| match date.day() {
        7 => session(15, (4, 0), (23, 45)),
        9 | 10 => Vec::new(),
        _ => all_day(date),
    });
    assert_eq!(next(&outage, 3).0, "every 15 minutes");
}

#[test]
fn irregular_stamps_are_no_sessions() {
    // Seven hours a day, each bar a little late by another amount.
    let stamps: Vec<Stamp> = bars(date(2024, 3, 3), 20, |_| session(60, (9, 0), (15, 0)))
        .iter()
        .enumerate()
        .map(|(bar, stamp)| {
            let late = SignedDuration::from_secs((bar as i64 * 7919) % 1009);
            Stamp::civil(stamp.clock().checked_add(late).unwrap())
        })
        .collect();
    assert_eq!(Sessions::learn(&stamps, SignedDuration::from_hours(1)), None);
    // Two days are not enough.
    let two = bars(date(2024, 8, 6), 2, shanghai);
    assert_eq!(next(&two, 1).0, "every 5 minutes");
}

#[test]
fn the_end_of_the_calendar_is_not_crossed() {
    let stamps = bars(date(9999, 12, 20), 12, shanghai);
    assert_eq!(Frequency::infer(&stamps).future(stamps[stamps.len() - 1], None, 10), None);
}

#[test]
fn a_zone_moves_the_offset_and_not_the_session() {
    let new_york = TimeZone::get("America/New_York").unwrap();
    let calendar = |date: Date| if is_weekend(date) { Vec::new() } else { session(60, (9, 30), (15, 30)) };
    let zoned = |stamp: &Stamp| stamp.at(stamp.clock(), Some(&new_york)).unwrap();
    let first = Stamp::with_offset(date(2024, 2, 12).at(0, 0, 0, 0), jiff::tz::Offset::constant(-5));
    let stamps: Vec<Stamp> = bars(date(2024, 2, 12), 26, calendar)
        .iter()
        .map(|stamp| first.at(stamp.clock(), Some(&new_york)).unwrap())
        .collect();
    assert_eq!(stamps[0], zoned(&stamps[0]));
    // Friday, 8 March; the clock goes forward on Sunday.
    let future = Frequency::infer(&stamps).future(stamps[stamps.len() - 1], Some(&new_york), 7).unwrap();
    assert_eq!(future[0].clock(), date(2024, 3, 11).at(9, 30, 0, 0));
    assert_eq!(future[0].offset(), Some(jiff::tz::Offset::constant(-4)));
    // Of bars by night, the one at 02:30 does not exist on that Sunday.
    let night =
        |date: Date| if date.weekday() == Weekday::Saturday { Vec::new() } else { session(60, (0, 30), (5, 30)) };
    let stamps: Vec<Stamp> = bars(date(2024, 2, 11), 28, night)
        .iter()
        .map(|stamp| first.at(stamp.clock(), Some(&new_york)).unwrap())
        .collect();
    let future = Frequency::infer(&stamps).future(stamps[stamps.len() - 1], Some(&new_york), 3).unwrap();
    assert_eq!(future.iter().map(|stamp| stamp.clock().hour()).collect::<Vec<_>>(), [0, 1, 3]);
}

proptest! {
    #[test]
    fn the_future_comes_after_the_past_and_in_order(
        steps in prop::collection::vec(prop_oneof![5 => Just(300i64), 1 => 1i64..100_000, 1 => Just(66_900)], 2..600),
        second in 0i64..3_000_000_000,
    ) {
        let mut clock = date(1970, 1, 1).at(0, 0, 0, 0).checked_add(SignedDuration::from_secs(second)).unwrap();
        let stamps: Vec<Stamp> = steps.iter().map(|step| {
            clock = clock.checked_add(SignedDuration::from_secs(*step)).unwrap();
            Stamp::civil(clock)
        }).collect();
        let future = Frequency::infer(&stamps).future(stamps[stamps.len() - 1], None, 50).unwrap();
        prop_assert!(future[0].nanoseconds() > stamps[stamps.len() - 1].nanoseconds());
        prop_assert!(future.is_sorted_by(|a, b| a.nanoseconds() < b.nanoseconds()));
    }
}
