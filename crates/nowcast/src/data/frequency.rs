//! How far apart the rows of a table are, and the stamps that come next.

use std::fmt;
use std::sync::Arc;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;

use super::sessions::Sessions;
use super::stamp::Stamp;

/// The rhythm of a table's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frequency {
    /// Nothing to go by: no time column, or fewer than two stamps. Steps are counted instead.
    Unknown,
    /// A constant step of elapsed time, shorter than a day.
    Step(SignedDuration),
    /// A step shorter than a day, within sessions that are the same every week: the hours in which a market trades.
    Sessions(Arc<Sessions>),
    /// So many calendar days.
    Days(u16),
    /// Daily, but only on some days of the week; for markets Monday to Friday.
    Weekdays(Weekdays),
    /// So many calendar months: 1 monthly, 3 quarterly, 12 yearly.
    Months {
        /// Months between rows.
        every: u16,
        /// Which day of the month.
        day: MonthDay,
    },
}

/// Which day of its month a stamp falls on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MonthDay {
    /// The same day each month; the last one where a month is too short.
    Same(i8),
    /// The last day.
    Last,
    /// The first day from Monday to Friday.
    FirstBusiness,
    /// The last day from Monday to Friday.
    LastBusiness,
}

/// A set of days of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weekdays(u8);

impl Weekdays {
    /// Monday to Friday.
    pub const BUSINESS: Weekdays = Weekdays(0b001_1111);
    const ALL: Weekdays = Weekdays(0b111_1111);

    /// Whether this day belongs to the set.
    pub fn contains(self, day: Weekday) -> bool {
        self.0 & Self::bit(day) != 0
    }

    fn bit(day: Weekday) -> u8 {
        1 << day.to_monday_zero_offset()
    }
}

const NANOSECONDS_PER_DAY: i128 = 86_400_000_000_000;

/// Stamps looked at: habits of the last years count, not those of a century ago.
const RECENT: usize = 2_000;

impl Frequency {
    /// Infers the rhythm from stamps in ascending order.
    pub fn infer(all: &[Stamp]) -> Self {
        let stamps = &all[all.len().saturating_sub(RECENT)..];
        if stamps.len() < 2 {
            return Frequency::Unknown;
        }
        // Days and months follow the calendar, so the offset from UTC (summer time) must not disturb them.
        let clock = |stamp: &Stamp| Stamp::civil(stamp.clock()).nanoseconds();
        let elapsed: Vec<i128> = stamps.windows(2).map(|pair| pair[1].nanoseconds() - pair[0].nanoseconds()).collect();
        let by_clock: Vec<i128> = stamps.windows(2).map(|pair| clock(&pair[1]) - clock(&pair[0])).collect();
        let (step, share) = most_common(&by_clock);
        if step >= 27 * NANOSECONDS_PER_DAY
            && let Some(months) = infer_months(stamps, share)
        {
            return months;
        }
        if step > 0 && step % NANOSECONDS_PER_DAY == 0 {
            let days = u16::try_from(step / NANOSECONDS_PER_DAY).unwrap_or(u16::MAX);
            return if days == 1 { infer_weekdays(stamps) } else { Frequency::Days(days) };
        }
        match most_common(&elapsed) {
            (step, _) if step > 0 => {
                let Ok(step) = i64::try_from(step).map(SignedDuration::from_nanos) else { return Frequency::Unknown };
                Sessions::learn(all, step)
                    .map_or(Frequency::Step(step), |sessions| Frequency::Sessions(sessions.into()))
            }
            _ => Frequency::Unknown,
        }
    }

    /// The stamps of the next `horizon` steps after `last`; `None` if they leave the calendar (year 9999) or if the
    /// rhythm is unknown.
    pub fn future(&self, last: Stamp, zone: Option<&TimeZone>, horizon: usize) -> Option<Vec<Stamp>> {
        let mut stamps = Vec::with_capacity(horizon.min(65_536));
        let mut walk = Walk::new(self, last);
        for _ in 0..horizon {
            stamps.push(walk.next(zone)?);
        }
        Some(stamps)
    }

    /// The stamp one step after this one.
    pub(super) fn next(&self, stamp: Stamp, zone: Option<&TimeZone>) -> Option<Stamp> {
        Walk::new(self, stamp).next(zone)
    }
}

/// A walk into the future. Steps are counted from the start, so that a short month shortens no later one.
struct Walk<'a> {
    frequency: &'a Frequency,
    start: Stamp,
    steps: i64,
    /// What the clock shows now, before a zone moves what does not exist in it.
    clock: DateTime,
}

impl<'a> Walk<'a> {
    fn new(frequency: &'a Frequency, start: Stamp) -> Self {
        Self { frequency, start, steps: 0, clock: start.clock() }
    }

    fn next(&mut self, zone: Option<&TimeZone>) -> Option<Stamp> {
        self.steps += 1;
        match self.frequency {
            Frequency::Unknown => None,
            Frequency::Step(step) => {
                let steps = i32::try_from(self.steps).ok()?;
                self.start.later(step.checked_mul(steps)?, zone)
            }
            Frequency::Sessions(sessions) => loop {
                self.clock = sessions.after(self.clock)?;
                let stamp = self.start.at(self.clock, zone)?;
                // A time that the clock skips in a night of spring has no bar.
                if stamp.clock() == self.clock {
                    return Some(stamp);
                }
            },
            Frequency::Days(days) => {
                self.clock = self.clock.checked_add(jiff::Span::new().try_days(*days).ok()?).ok()?;
                self.start.at(self.clock, zone)
            }
            Frequency::Weekdays(weekdays) => {
                // The set is never empty, so a week suffices.
                self.clock = (0..7).find_map(|_| {
                    self.clock = self.clock.tomorrow().ok()?;
                    weekdays.contains(self.clock.weekday()).then_some(self.clock)
                })?;
                self.start.at(self.clock, zone)
            }
            Frequency::Months { every, day } => {
                let months = self.steps.checked_mul(i64::from(*every))?;
                let first = self.start.clock().date().first_of_month();
                let first = first.checked_add(jiff::Span::new().try_months(months).ok()?).ok()?;
                self.start.at(day.in_month(first).to_datetime(self.start.clock().time()), zone)
            }
        }
    }
}

impl MonthDay {
    fn in_month(self, month: Date) -> Date {
        let (first, last) = (month.first_of_month(), month.last_of_month());
        match self {
            MonthDay::Same(day) => Date::new(first.year(), first.month(), day.clamp(1, last.day())).unwrap_or(last),
            MonthDay::Last => last,
            MonthDay::FirstBusiness => {
                let weekend = first.weekday().to_monday_zero_offset() - 4;
                let later = if weekend > 0 { 3 - weekend } else { 0 };
                Date::new(first.year(), first.month(), first.day() + later).unwrap_or(first)
            }
            MonthDay::LastBusiness => {
                let weekend = (last.weekday().to_monday_zero_offset() - 4).max(0);
                Date::new(last.year(), last.month(), last.day() - weekend).unwrap_or(last)
            }
        }
    }
}

/// The most common value (the smaller of two as common), and its share of all.
fn most_common(values: &[i128]) -> (i128, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let best = sorted.chunk_by(|a, b| a == b).rev().max_by_key(|run| run.len());
    best.map_or((0, 0.0), |run| (run[0], run.len() as f64 / values.len() as f64))
}

/// Months, if the stamps step by a whole number of months on a day of the month that makes sense.
fn infer_months(stamps: &[Stamp], share_of_fixed_step: f64) -> Option<Frequency> {
    let dates: Vec<Date> = stamps.iter().map(|stamp| stamp.clock().date()).collect();
    let month = |date: &Date| i128::from(date.year()) * 12 + i128::from(date.month());
    let steps: Vec<i128> = dates.windows(2).map(|pair| month(&pair[1]) - month(&pair[0])).collect();
    let (every, share) = most_common(&steps);
    let every = u16::try_from(every).ok().filter(|&every| every > 0 && share >= 0.8)?;
    let day = dates.iter().map(|date| date.day()).max()?;
    let same = dates.iter().all(|date| date.day() == day.min(date.days_in_month()));
    let last = dates.iter().all(|date| date.day() == date.days_in_month());
    let weekday = |date: &Date| Weekdays::BUSINESS.contains(date.weekday());
    let day = if last {
        MonthDay::Last
    } else if same {
        MonthDay::Same(day)
    } else if share_of_fixed_step >= 0.9 {
        // Every 28 or 30 days: a fixed step fits better than the calendar.
        return None;
    } else if dates.iter().all(|date| date.day() <= 5 && weekday(date)) {
        MonthDay::FirstBusiness
    } else if dates.iter().all(|date| date.day() + 5 > date.days_in_month() && weekday(date)) {
        MonthDay::LastBusiness
    } else {
        MonthDay::Same(dates.last()?.day())
    };
    Some(Frequency::Months { every, day })
}

/// Daily, or daily without the days of the week on which nothing happens.
fn infer_weekdays(stamps: &[Stamp]) -> Frequency {
    let dates: Vec<Date> = stamps.iter().map(|stamp| stamp.clock().date()).collect();
    match weekdays_of(&dates) {
        Weekdays::ALL => Frequency::Days(1),
        weekdays => Frequency::Weekdays(weekdays),
    }
}

/// The days of the week on which something happens, of dates in ascending order.
pub(super) fn weekdays_of(dates: &[Date]) -> Weekdays {
    let mut seen = [0_usize; 7];
    let mut passed = [0_usize; 7];
    for date in dates {
        seen[date.weekday().to_monday_zero_offset() as usize] += 1;
    }
    for pair in dates.windows(2) {
        let mut skipped = pair[0];
        // A gap of more than a week (a trading halt, a hole in the data) says nothing about the days of the week.
        for _ in 0..7 {
            let Ok(next) = skipped.tomorrow() else { break };
            if next >= pair[1] {
                break;
            }
            skipped = next;
            passed[skipped.weekday().to_monday_zero_offset() as usize] += 1;
        }
    }
    // A weekend shows after one week; a single day off must be missed four times before it is a rule. A day that is
    // nearly always missed (one in ten) is missed: markets open on a few odd Saturdays.
    let weekend = |a: usize, b: usize| [a, b].iter().all(|&day| passed[day] > 9 * seen[day]);
    let mut weekdays = 0;
    for day in 0..7 {
        let in_weekend = (weekend(5, 6) && day >= 5) || (weekend(4, 5) && (4..=5).contains(&day));
        let missed = passed[day] > 9 * seen[day] && (in_weekend || passed[day] >= 4);
        weekdays |= u8::from(!missed) << day;
    }
    if weekdays == 0 { Weekdays::ALL } else { Weekdays(weekdays) }
}

/// `every 5 minutes`, in the largest unit that divides the step.
pub(super) fn write_step(f: &mut fmt::Formatter<'_>, step: SignedDuration) -> fmt::Result {
    let nanoseconds = step.as_nanos();
    let units: [(i128, &str); 6] = [
        (3_600_000_000_000, "hour"),
        (60_000_000_000, "minute"),
        (1_000_000_000, "second"),
        (1_000_000, "millisecond"),
        (1_000, "microsecond"),
        (1, "nanosecond"),
    ];
    let unit = units.iter().find(|(size, _)| nanoseconds % size == 0);
    let (size, name) = unit.copied().unwrap_or((1, "nanosecond"));
    match nanoseconds / size {
        1 => write!(f, "every {name}"),
        count => write!(f, "every {count} {name}s"),
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Frequency::Unknown => write!(f, "unknown"),
            Frequency::Step(step) => write_step(f, step),
            Frequency::Sessions(ref sessions) => sessions.fmt(f),
            Frequency::Days(1) => write!(f, "daily"),
            Frequency::Days(7) => write!(f, "weekly"),
            Frequency::Days(days) => write!(f, "every {days} days"),
            Frequency::Weekdays(Weekdays::BUSINESS) => write!(f, "daily, Monday to Friday"),
            Frequency::Weekdays(_) => write!(f, "daily, on some days of the week"),
            Frequency::Months { every: 1, .. } => write!(f, "monthly"),
            Frequency::Months { every: 3, .. } => write!(f, "quarterly"),
            Frequency::Months { every: 12, .. } => write!(f, "yearly"),
            Frequency::Months { every, .. } => write!(f, "every {every} months"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::{DateTime, date};

    fn stamps(texts: &[&str]) -> Vec<Stamp> {
        texts.iter().map(|text| Stamp::civil(text.parse::<DateTime>().unwrap())).collect()
    }

    /// The inferred rhythm in words, and the dates of the next four steps.
    fn next(stamps: &[Stamp]) -> (String, Vec<String>) {
        let frequency = Frequency::infer(stamps);
        let future = frequency.future(*stamps.last().unwrap(), None, 4).unwrap_or_default();
        (frequency.to_string(), future.iter().map(|stamp| stamp.clock().to_string()).collect())
    }

    fn dates(texts: &[&str]) -> (String, Vec<String>) {
        let (name, future) = next(&stamps(texts));
        (name, future.iter().map(|text| text[..10].to_string()).collect())
    }

    fn days(first: Date, count: i64, keep: impl Fn(Date) -> bool) -> Vec<Stamp> {
        let all = (0..count).map(|day| first.checked_add(jiff::Span::new().days(day)).unwrap());
        all.filter(|date| keep(*date)).map(|date| Stamp::civil(date.at(0, 0, 0, 0))).collect()
    }

    #[test]
    fn every_day_of_the_week() {
        let (name, future) = next(&days(date(2024, 2, 1), 28, |_| true));
        assert_eq!((name.as_str(), &future[0][..10], &future[3][..10]), ("daily", "2024-02-29", "2024-03-03"));
    }

    #[test]
    fn business_days_skip_weekends() {
        let stamps = days(date(2024, 1, 1), 26, |date| Weekdays::BUSINESS.contains(date.weekday()));
        assert_eq!(stamps.last().unwrap().clock().date(), date(2024, 1, 26));
        let (name, future) = next(&stamps);
        assert_eq!(name, "daily, Monday to Friday");
        let future: Vec<_> = future.iter().map(|text| &text[..10]).collect();
        assert_eq!(future, ["2024-01-29", "2024-01-30", "2024-01-31", "2024-02-01"]);
    }

    #[test]
    fn one_weekend_is_enough_but_one_lost_wednesday_is_not() {
        let friday_to_monday = ["2024-01-04T00:00", "2024-01-05T00:00", "2024-01-08T00:00", "2024-01-09T00:00"];
        assert_eq!(dates(&friday_to_monday).0, "daily, Monday to Friday");
        let stamps = days(date(2024, 1, 1), 9, |day| day != date(2024, 1, 3));
        assert_eq!(next(&stamps).0, "daily");
    }

    #[test]
    fn holidays_and_odd_saturdays_do_not_hide_business_days() {
        let holiday = |day: Date| day == date(2024, 1, 1) || day == date(2024, 1, 15);
        let odd = date(2024, 2, 17);
        let keep = |day: Date| (Weekdays::BUSINESS.contains(day.weekday()) && !holiday(day)) || day == odd;
        assert_eq!(next(&days(date(2024, 1, 1), 200, keep)).0, "daily, Monday to Friday");
    }

    #[test]
    fn a_week_from_sunday_to_thursday() {
        let keep = |day: Date| !matches!(day.weekday(), Weekday::Friday | Weekday::Saturday);
        let (name, future) = next(&days(date(2024, 1, 7), 19, keep));
        assert_eq!(name, "daily, on some days of the week");
        assert_eq!(&future[0][..10], "2024-01-28");
    }

    #[test]
    fn a_long_gap_says_nothing_about_weekdays() {
        let gap = date(2024, 2, 1)..date(2024, 6, 1);
        assert_eq!(next(&days(date(2024, 1, 1), 200, |day| !gap.contains(&day))).0, "daily");
    }

    #[test]
    fn breaks_seen_once_are_no_sessions() {
        let session = stamps(&[
            "2024-06-18T11:20",
            "2024-06-18T11:25",
            "2024-06-18T11:30",
            "2024-06-18T13:05",
            "2024-06-18T13:10",
            "2024-06-19T09:35",
            "2024-06-19T09:40",
        ]);
        let (name, future) = next(&session);
        assert_eq!((name.as_str(), future[0].as_str()), ("every 5 minutes", "2024-06-19T09:45:00"));
    }

    #[test]
    fn hours_and_parts_of_a_second() {
        assert_eq!(next(&stamps(&["2018-06-26T18:00", "2018-06-26T19:00"])).0, "every hour");
        let (name, future) = next(&stamps(&["2018-06-26T18:00:00", "2018-06-26T18:00:00.25"]));
        assert_eq!((name.as_str(), future[3].as_str()), ("every 250 milliseconds", "2018-06-26T18:00:01.25"));
    }

    #[test]
    fn weeks_months_quarters_and_years() {
        for (texts, name, future) in [
            (&["2024-01-05T00:00", "2024-01-12T00:00", "2024-01-19T00:00"][..], "weekly", ["2024-01-26", "2024-02-16"]),
            (&["2024-01-01T00:00", "2024-02-01T00:00"], "monthly", ["2024-03-01", "2024-06-01"]),
            (&["2023-11-30T00:00", "2023-12-31T00:00", "2024-01-31T00:00"], "monthly", ["2024-02-29", "2024-05-31"]),
            (&["2023-12-30T00:00", "2024-01-30T00:00"], "monthly", ["2024-02-29", "2024-05-30"]),
            (
                &["2023-12-01T00:00", "2024-01-02T00:00", "2024-02-01T00:00", "2024-03-01T00:00"],
                "monthly",
                ["2024-04-01", "2024-07-01"],
            ),
            (
                &["2024-01-31T00:00", "2024-02-29T00:00", "2024-03-29T00:00", "2024-04-30T00:00"],
                "monthly",
                ["2024-05-31", "2024-08-30"],
            ),
            (&["2024-01-01T00:00", "2024-04-01T00:00", "2024-07-01T00:00"], "quarterly", ["2024-10-01", "2025-07-01"]),
            (&["2022-01-01T00:00", "2023-01-01T00:00"], "yearly", ["2024-01-01", "2027-01-01"]),
            (
                &["2024-01-01T00:00", "2024-01-29T00:00", "2024-02-26T00:00", "2024-03-25T00:00"],
                "every 28 days",
                ["2024-04-22", "2024-07-15"],
            ),
        ] {
            let (inferred, stamps) = dates(texts);
            assert_eq!((inferred.as_str(), [stamps[0].as_str(), stamps[3].as_str()]), (name, future), "{texts:?}");
        }
    }

    #[test]
    fn a_single_stamp_has_no_rhythm() {
        let one = stamps(&["2024-01-01T00:00"]);
        assert_eq!(Frequency::infer(&one), Frequency::Unknown);
        assert_eq!(Frequency::Unknown.future(one[0], None, 3), None);
    }

    #[test]
    fn the_end_of_the_calendar_is_not_crossed() {
        let last = Stamp::civil(date(9999, 12, 30).at(0, 0, 0, 0));
        assert_eq!(Frequency::Days(1).future(last, None, 5), None);
        assert_eq!(Frequency::Step(SignedDuration::from_hours(1)).future(last, None, 100), None);
        assert_eq!(Frequency::Months { every: 1, day: MonthDay::Last }.future(last, None, 2), None);
        assert_eq!(Frequency::Days(1).future(last, None, 1).map(|stamps| stamps.len()), Some(1));
    }
}
