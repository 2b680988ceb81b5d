//! When a market is open: the times of day at which bars were seen, learned for each day of the week.

use std::collections::BTreeMap;
use std::fmt;

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{SignedDuration, ToSpan};

use super::frequency::{self, Weekdays};
use super::stamp::Stamp;

/// The bars of a week: for each of its days, the times of day at which a bar is stamped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// The step within a session.
    step: SignedDuration,
    /// Times of day, ascending, Monday first; empty where the market is closed.
    days: [Vec<Time>; 7],
}

/// Habits are those of the last four weeks.
const WINDOW_DAYS: i64 = 28;
/// More stamps than this are not looked at: two weeks of trading at a bar per second.
const MOST_STAMPS: usize = 200_000;
/// Fewer days than this show no habit: the first and the last one may be cut off.
const FEWEST_DAYS: usize = 3;
/// With fewer days of the same name than this, a bar missing inside a session is taken for a hole in the data.
const DAYS_THAT_DECIDE: usize = 3;

impl Sessions {
    /// Learns the sessions from stamps in ascending order that mostly follow each other by `step`.
    ///
    /// A time of day belongs to a day of the week if at least half of those days had a bar then, days without any bar
    /// (holidays) left out of the count. What was never observed of a day from Monday to Friday (the morning of the
    /// first day, a holiday) is as on the other days from Monday to Friday; Saturdays and Sundays need bars of their
    /// own.
    ///
    /// `None` where there are no sessions to be seen: the steps run on day and night, too few days are given, or such
    /// a calendar would not describe the stamps (less than nine in ten of them, or one bar in three missing).
    pub(super) fn learn(stamps: &[Stamp], step: SignedDuration) -> Option<Self> {
        let evidence = Evidence::gather(&stamps[stamps.len().saturating_sub(MOST_STAMPS)..])?;
        let breaks = evidence.clocks.windows(2).any(|pair| pair[1].duration_since(pair[0]) > step);
        if !breaks || evidence.dates.len() < FEWEST_DAYS || !evidence.recurs() {
            return None;
        }
        let sessions = Self { step, days: evidence.days() };
        (sessions.has_breaks() && evidence.is_explained_by(&sessions)).then_some(sessions)
    }

    /// The first bar after a reading of the clock; `None` past the year 9999.
    pub(super) fn after(&self, clock: DateTime) -> Option<DateTime> {
        let mut date = clock.date();
        let times = self.times(date.weekday());
        if let Some(time) = times.get(times.partition_point(|time| *time <= clock.time())) {
            return Some(date.to_datetime(*time));
        }
        // Some day of the week is open, so seven suffice.
        for _ in 0..7 {
            date = date.tomorrow().ok()?;
            if let Some(time) = self.times(date.weekday()).first() {
                return Some(date.to_datetime(*time));
            }
        }
        None
    }

    /// The step within a session.
    pub fn step(&self) -> SignedDuration {
        self.step
    }

    /// The times of day at which bars are stamped on this day of the week, ascending; none where it is closed.
    pub fn times(&self, day: Weekday) -> &[Time] {
        &self.days[index(day)]
    }

    /// Whether some bar of the week is not one step after the one before: else the steps run on without sessions.
    fn has_breaks(&self) -> bool {
        let monday = Date::constant(2024, 1, 1).at(0, 0, 0, 0);
        let open = self.days.iter().map(Vec::len).sum::<usize>();
        let mut clock = monday;
        (0..=open).any(|bar| {
            let next = self.after(clock);
            let apart = next.map(|next| next.duration_since(clock));
            clock = next.unwrap_or(clock);
            bar > 0 && apart != Some(self.step)
        })
    }
}

/// What the last weeks show.
struct Evidence {
    /// Readings of the clock, ascending, no two alike.
    clocks: Vec<DateTime>,
    /// The days with bars.
    dates: Vec<Date>,
    /// How often a bar was seen at this time of this day of the week.
    seen: BTreeMap<(usize, Time), usize>,
    /// How often a bar was seen at this time from Monday to Friday.
    seen_on_business_days: BTreeMap<Time, usize>,
}

impl Evidence {
    fn gather(stamps: &[Stamp]) -> Option<Self> {
        let mut clocks: Vec<DateTime> = stamps.iter().map(Stamp::clock).collect();
        // The clock may step back in a night of autumn.
        clocks.sort_unstable();
        clocks.dedup();
        let first = clocks.last()?.checked_sub(WINDOW_DAYS.days()).unwrap_or(DateTime::MIN);
        clocks.drain(..clocks.partition_point(|clock| *clock < first));
        let mut dates: Vec<Date> = clocks.iter().map(|clock| clock.date()).collect();
        dates.dedup();
        let (mut seen, mut seen_on_business_days) = (BTreeMap::new(), BTreeMap::new());
        for clock in &clocks {
            let day = index(clock.weekday());
            *seen.entry((day, clock.time())).or_insert(0) += 1;
            if is_business(day) {
                *seen_on_business_days.entry(clock.time()).or_insert(0) += 1;
            }
        }
        Some(Self { clocks, dates, seen, seen_on_business_days })
    }

    /// Whether at least half of the bars come at a time of day that another day has too.
    fn recurs(&self) -> bool {
        let mut times: BTreeMap<Time, usize> = BTreeMap::new();
        for (&(_, time), count) in &self.seen {
            *times.entry(time).or_insert(0) += count;
        }
        let recurring: usize = times.values().filter(|&&count| count > 1).sum();
        recurring * 2 >= self.clocks.len()
    }

    fn days(&self) -> [Vec<Time>; 7] {
        let weekdays = frequency::weekdays_of(&self.dates);
        let mut times: Vec<Time> = self.seen.keys().map(|&(_, time)| time).collect();
        times.sort_unstable();
        times.dedup();
        std::array::from_fn(|day| {
            if !self.is_open(day, weekdays) {
                return Vec::new();
            }
            let own: Vec<Time> = times.iter().copied().filter(|&time| self.seen.contains_key(&(day, time))).collect();
            let inside = |time: Time| own.first().is_some_and(|&first| first <= time) && own.last() >= Some(&time);
            times.iter().copied().filter(|&time| self.has_bar(day, time, inside(time))).collect()
        })
    }

    /// Whether there are bars on this day of the week at all.
    fn is_open(&self, day: usize, weekdays: Weekdays) -> bool {
        let on_day = |date: &Date| index(date.weekday()) == day;
        if is_business(day) {
            return weekdays.contains(weekday(day));
        }
        let (first, last) = (self.dates[0], self.dates[self.dates.len() - 1]);
        let passed = first.series(1.day()).take_while(|date| *date <= last).filter(on_day).count();
        let traded = self.dates.iter().copied().filter(|date| on_day(date)).count();
        traded > 0 && traded * 2 >= passed
    }

    /// Whether this day of the week has a bar at this time; `inside`: bars of that day lie before and after.
    fn has_bar(&self, day: usize, time: Time, inside: bool) -> bool {
        let chances = self.chances(time, |other| other == day);
        let hits = self.seen.get(&(day, time)).copied().unwrap_or(0);
        if chances > 0 && hits * 2 >= chances {
            return true;
        }
        // Nothing observed, or a hole within a session of which few were seen: as on the other days.
        let open_to_doubt = chances == 0 || (inside && chances < DAYS_THAT_DECIDE);
        let business_hits = self.seen_on_business_days.get(&time).copied().unwrap_or(0);
        open_to_doubt && is_business(day) && business_hits > 0 && business_hits * 2 >= self.chances(time, is_business)
    }

    /// On how many of the days with bars this time could be observed.
    fn chances(&self, time: Time, day: impl Fn(usize) -> bool) -> usize {
        let (first, last) = (self.clocks[0], self.clocks[self.clocks.len() - 1]);
        let observed = |date: &&Date| {
            let clock = date.to_datetime(time);
            day(index(date.weekday())) && first <= clock && clock <= last
        };
        self.dates.iter().filter(observed).count()
    }

    /// Whether the calendar has nine of ten bars seen, and two thirds of its own bars were seen.
    fn is_explained_by(&self, sessions: &Sessions) -> bool {
        let (first, last) = (self.clocks[0], self.clocks[self.clocks.len() - 1]);
        let has = |clock: &&DateTime| sessions.times(clock.weekday()).binary_search(&clock.time()).is_ok();
        let explained = self.clocks.iter().filter(has).count();
        let expected = self
            .dates
            .iter()
            .flat_map(|date| sessions.times(date.weekday()).iter().map(|time| date.to_datetime(*time)));
        let expected = expected.filter(|clock| first <= *clock && *clock <= last).count();
        explained * 10 >= self.clocks.len() * 9 && explained * 3 >= expected * 2
    }
}

fn index(day: Weekday) -> usize {
    day.to_monday_zero_offset() as usize
}

fn weekday(day: usize) -> Weekday {
    [
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
        Weekday::Sunday,
    ][day]
}

fn is_business(day: usize) -> bool {
    day < 5
}

/// `every 5 minutes, 09:35 to 11:30 and 13:05 to 15:00, Monday to Friday`
impl fmt::Display for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// More sessions a day than this are not listed.
        const MOST_LISTED: usize = 4;
        frequency::write_step(f, self.step)?;
        let open: Vec<usize> = (0..7).filter(|&day| !self.days[day].is_empty()).collect();
        let times = open.first().map_or(&[][..], |&day| &self.days[day]);
        let sessions: Vec<&[Time]> = times.chunk_by(|a, b| b.duration_since(*a) == self.step).collect();
        if sessions.len() > MOST_LISTED || open.iter().any(|&day| self.days[day] != times) {
            return write!(f, ", in sessions");
        }
        for (place, session) in sessions.iter().enumerate() {
            f.write_str(if place == 0 { ", " } else { " and " })?;
            write!(f, "{}", short(session[0]))?;
            if session.len() > 1 {
                write!(f, " to {}", short(session[session.len() - 1]))?;
            }
        }
        match open[..] {
            [0, 1, 2, 3, 4] => write!(f, ", Monday to Friday"),
            [_, _, _, _, _, _, _] => Ok(()),
            _ => write!(f, ", on some days of the week"),
        }
    }
}

/// `09:35`, with seconds where there are any.
fn short(time: Time) -> String {
    let text = time.to_string();
    text.strip_suffix(":00").unwrap_or(&text).to_string()
}

#[cfg(test)]
mod tests;
