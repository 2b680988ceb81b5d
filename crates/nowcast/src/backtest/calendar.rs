//! How many bars a year has, and how many a season.

use super::Symbol;
use crate::data::Stamp;

/// Trading days of a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Calendar {
    /// 365 where bars fall on weekends, else 252.
    #[default]
    Auto,
    /// 252: stocks.
    Trading,
    /// 365: crypto, weather, loads.
    Every,
}

/// Share of the days on a weekend above which a market is open every day; two in seven are full weekends.
const WEEKEND_SHARE: f64 = 0.1;

/// The rhythm of a symbol's bars in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rhythm {
    /// Days of a year that have bars: 252 or 365; fewer where bars are more than a day apart.
    pub days_per_year: f64,
    /// Bars of a day that has bars (the median).
    pub bars_per_day: f64,
}

impl Calendar {
    /// The rhythm of a symbol.
    pub fn rhythm(self, symbol: &Symbol) -> Rhythm {
        self.rhythm_of(symbol.stamps())
    }

    /// The rhythm of bars at these times.
    pub(super) fn rhythm_of(self, stamps: &[Stamp]) -> Rhythm {
        let mut days: Vec<(jiff::civil::Date, usize)> = Vec::new();
        for stamp in stamps {
            let date = stamp.clock().date();
            match days.last_mut() {
                Some((last, bars)) if *last == date => *bars += 1,
                _ => days.push((date, 1)),
            }
        }
        let weekend = days.iter().filter(|(date, _)| date.weekday().to_monday_zero_offset() >= 5).count();
        let every_day = weekend as f64 > WEEKEND_SHARE * days.len() as f64;
        let mut bars: Vec<usize> = days.iter().map(|(_, bars)| *bars).collect();
        bars.sort_unstable();
        let bars_per_day = bars.get(bars.len() / 2).map_or(1.0, |&bars| bars as f64);
        let mut gaps: Vec<i64> =
            days.windows(2).map(|pair| pair[1].0.duration_since(pair[0].0).as_secs() / SECONDS_PER_DAY).collect();
        gaps.sort_unstable();
        let gap = gaps.get(gaps.len() / 2).map_or(1, |&gap| gap.max(1));
        let days_per_year = match (self, gap) {
            // Weekly, monthly and the like.
            (_, 2..) => 365.0 / gap as f64,
            (Self::Every, _) => 365.0,
            (Self::Auto, _) if every_day => 365.0,
            (Self::Auto | Self::Trading, _) => 252.0,
        };
        Rhythm { days_per_year, bars_per_day }
    }
}

const SECONDS_PER_DAY: i64 = 86_400;

impl Rhythm {
    /// Bars of a year: what returns are annualised with.
    pub fn bars_per_year(self) -> f64 {
        self.days_per_year * self.bars_per_day
    }

    /// Bars of the season that comes to mind: a day of intraday bars, a week of daily ones, a year of longer ones.
    pub fn season(self) -> usize {
        let season = if self.bars_per_day > 1.0 {
            self.bars_per_day
        } else if self.days_per_year >= 365.0 {
            7.0
        } else if self.days_per_year >= 252.0 {
            5.0
        } else {
            self.days_per_year
        };
        (season.round() as usize).max(1)
    }
}
