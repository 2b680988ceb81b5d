//! Which windows of a symbol are forecast: where each one begins.

use jiff::civil::DateTime;

use super::Symbol;
use crate::{Error, Result};

/// Windows that walk forward through a symbol. An origin of `t` knows the bars before `t` and forecasts those from `t` on.
#[derive(Debug, Clone, PartialEq)]
pub struct Windows {
    /// Bars forecast by each window.
    pub horizon: usize,
    /// Bars from one origin to the next.
    pub stride: usize,
    /// At most so many, the latest; `None` for all that fit.
    pub count: Option<usize>,
    /// The last bar an origin knows is not before this time, by the clock of the file.
    pub from: Option<DateTime>,
    /// The last bar an origin knows is not after this time.
    pub to: Option<DateTime>,
}

/// Windows of one symbol are at most so many: more is a typing error.
const MOST_WINDOWS: usize = 1_000_000;

impl Windows {
    /// As many windows of this horizon as fit, one behind the other.
    pub fn new(horizon: usize) -> Self {
        Self { horizon, stride: horizon, count: None, from: None, to: None }
    }

    /// Bars that a position is held: until the next origin, and not beyond the horizon.
    pub fn hold(&self) -> usize {
        self.stride.min(self.horizon)
    }

    pub(super) fn check(&self) -> Result<()> {
        let fault = |message: String| Err(Error::Setting(message));
        if self.horizon == 0 {
            return fault("the horizon is 0: choose at least 1 bar".into());
        }
        if self.stride == 0 {
            return fault("the stride is 0: choose at least 1 bar from one window to the next".into());
        }
        if self.count.is_some_and(|count| count == 0 || count > MOST_WINDOWS) {
            return fault(format!("{} windows: choose 1 to {MOST_WINDOWS}", self.count.unwrap_or(0)));
        }
        match (self.from, self.to) {
            (Some(from), Some(to)) if from > to => {
                fault(format!("--from {from} is after --to {to}: no window lies between them"))
            }
            _ => Ok(()),
        }
    }

    /// The origins within a symbol, ascending; each has at least `context` bars behind it and `horizon` before it.
    ///
    /// # Errors
    /// A symbol too short for one window, or no window between the times asked for.
    pub fn origins(&self, symbol: &Symbol, context: usize) -> Result<Vec<usize>> {
        let bars = symbol.len();
        let needed = context.saturating_add(self.horizon);
        let Some(last) = bars.checked_sub(self.horizon).filter(|_| bars >= needed) else {
            return Err(Error::Data(format!(
                "{}: {bars} bars are too few for a context of {context} and a horizon of {}, which take {needed}; give a longer \
                 history, or a smaller --context or --horizon",
                symbol.name(),
                self.horizon
            )));
        };
        let clock = |origin: usize| symbol.stamps()[origin - 1].clock();
        let last = match self.to {
            Some(to) => last.min(symbol.stamps().partition_point(|stamp| stamp.clock() <= to)),
            None => last,
        };
        let late_enough = |origin: &usize| self.from.is_none_or(|from| clock(*origin) >= from);
        let backwards = (context.max(1)..=last).rev().step_by(self.stride);
        let mut origins: Vec<usize> =
            backwards.take_while(late_enough).take(self.count.unwrap_or(MOST_WINDOWS)).collect();
        origins.reverse();
        if origins.is_empty() {
            let (first, end) = (symbol.stamp_text(context.max(1) - 1), symbol.stamp_text(bars - self.horizon - 1));
            return Err(Error::Data(format!(
                "{}: no window lies within the times asked for; with a context of {context} and a horizon of {} origins reach from \
                 {first} to {end}: change --from, --to or --context",
                symbol.name(),
                self.horizon
            )));
        }
        Ok(origins)
    }
}
