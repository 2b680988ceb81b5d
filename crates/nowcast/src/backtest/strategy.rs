//! From a forecast to an order: the rules that are traded.

use std::fmt;
use std::str::FromStr;

use super::{History, Prediction, Price, Question};
use crate::{Error, Result};

/// A rule that turns the forecast of a window into an order. Unless it says otherwise, what counts is the last step of
/// the horizon against the last known bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Strategy {
    /// `sign`: long if the close is forecast to rise, short if to fall.
    Sign,
    /// `agree`: long if close, high and low are all forecast to rise, short if all to fall, else nothing.
    Agree,
    /// `bracket`: towards the forecast close, but only at a better price: long with a limit at the lowest low forecast and
    /// take-profit at the highest high forecast within the bars held; short the other way round.
    Bracket,
    /// `shutdown`: buy and hold that shuts down after a window that lost; it opens again at the first later origin whose
    /// forecast close rises, but never at the very next one.
    Shutdown,
    /// `guard_0.6`: as `sign`, but only if at least this share of the forecast distribution lies on that side of the last
    /// close.
    Guard(f64),
}

/// Names of all strategies with an example number, as an error message lists them.
const NAMES: &str = "sign, agree, bracket, shutdown, guard_0.6";

impl Strategy {
    /// Whether the forecasts of high and low are needed.
    pub fn needs_high_and_low(self) -> bool {
        matches!(self, Self::Agree | Self::Bracket)
    }

    /// The levels of the quantiles that are needed.
    pub fn levels(self) -> Vec<f64> {
        match self {
            Self::Guard(share) => vec![1.0 - share, share],
            Self::Sign | Self::Agree | Self::Bracket | Self::Shutdown => Vec::new(),
        }
    }

    /// The order at an origin, from what is known there and nothing else.
    pub fn order(
        self,
        known: &History<'_>,
        prediction: &Prediction,
        question: &Question,
        past: Past,
        hold: usize,
    ) -> Order {
        let last = known.last_close();
        let expected = prediction.expected_return(last);
        match self {
            Self::Sign => Order::Hold(Side::of(expected)),
            Self::Agree => {
                let side = Side::of(expected);
                let agrees = |price: Price, forecast: &Option<Vec<f64>>| match (known.last(price), forecast) {
                    (Some(last), Some(forecast)) => Side::of(forecast[forecast.len() - 1] - last) == side,
                    _ => false,
                };
                let all = agrees(Price::High, &prediction.high) && agrees(Price::Low, &prediction.low);
                Order::Hold(if all { side } else { Side::Flat })
            }
            Self::Bracket => {
                let (Some(high), Some(low)) = (&prediction.high, &prediction.low) else {
                    return Order::Hold(Side::Flat);
                };
                let high = high.iter().take(hold).copied().fold(f64::NEG_INFINITY, f64::max);
                let low = low.iter().take(hold).copied().fold(f64::INFINITY, f64::min);
                match Side::of(expected) {
                    _ if low >= high => Order::Hold(Side::Flat),
                    Side::Flat => Order::Hold(Side::Flat),
                    Side::Long => Order::Bracket { side: Side::Long, entry: low, target: high },
                    Side::Short => Order::Bracket { side: Side::Short, entry: high, target: low },
                }
            }
            Self::Shutdown => match past {
                Past { side: Side::Long, window_return } if window_return < 0.0 => Order::Hold(Side::Flat),
                Past { side: Side::Long, .. } => Order::Hold(Side::Long),
                Past { side: Side::Flat | Side::Short, .. } if past.is_start() || expected > 0.0 => {
                    Order::Hold(Side::Long)
                }
                Past { .. } => Order::Hold(Side::Flat),
            },
            Self::Guard(share) => {
                let last_step = prediction.close.len() - 1;
                let quantile = |level: f64| prediction.quantiles[question.level(level)][last_step];
                match Side::of(expected) {
                    Side::Long if quantile(1.0 - share) > last => Order::Hold(Side::Long),
                    Side::Short if quantile(share) < last => Order::Hold(Side::Short),
                    _ => Order::Hold(Side::Flat),
                }
            }
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sign => out.write_str("sign"),
            Self::Agree => out.write_str("agree"),
            Self::Bracket => out.write_str("bracket"),
            Self::Shutdown => out.write_str("shutdown"),
            Self::Guard(share) => write!(out, "guard_{share}"),
        }
    }
}

impl FromStr for Strategy {
    type Err = Error;

    /// Reads a name such as `guard_0.6`.
    ///
    /// # Errors
    /// An unknown name (the line lists the known ones) or a share outside its range.
    fn from_str(name: &str) -> Result<Self> {
        let unknown = || Error::Setting(format!("unknown strategy {name:?}; the names are {NAMES}"));
        Ok(match name {
            "sign" => Self::Sign,
            "agree" => Self::Agree,
            "bracket" => Self::Bracket,
            "shutdown" => Self::Shutdown,
            "guard" => Self::Guard(0.6),
            _ => {
                let share: f64 =
                    name.strip_prefix("guard_").and_then(|share| share.parse().ok()).ok_or_else(unknown)?;
                if !(0.5..1.0).contains(&share) {
                    return Err(Error::Setting(format!("the share of {name} must be in [0.5, 1), such as guard_0.6")));
                }
                Self::Guard(share)
            }
        })
    }
}

/// Which way a position gains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Side {
    /// When the price rises.
    Long,
    /// When it falls.
    Short,
    /// There is none.
    #[default]
    Flat,
}

impl Side {
    /// The side that gains from such a change.
    pub fn of(change: f64) -> Self {
        match change {
            _ if change > 0.0 => Self::Long,
            _ if change < 0.0 => Self::Short,
            _ => Self::Flat,
        }
    }

    /// 1, -1 or 0.
    pub fn sign(self) -> f64 {
        match self {
            Self::Long => 1.0,
            Self::Short => -1.0,
            Self::Flat => 0.0,
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::Short => "short",
            Self::Flat => "flat",
        }
    }
}

/// What is to be done at an origin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// Be on this side, at the market price.
    Hold(Side),
    /// Enter at a limit, leave at another; what is not left by the end of the bars held is left at the market price.
    Bracket {
        /// Long or short.
        side: Side,
        /// The limit of the entry.
        entry: f64,
        /// The limit of the exit.
        target: f64,
    },
}

/// What an account tells a strategy of its own past.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Past {
    /// The position held since the origin before.
    pub side: Side,
    /// The return of the equity since the origin before; NaN at the first origin.
    pub window_return: f64,
}

impl Past {
    /// At the first origin nothing has happened yet.
    pub const START: Self = Self { side: Side::Flat, window_return: f64::NAN };

    fn is_start(self) -> bool {
        self.window_return.is_nan()
    }
}
