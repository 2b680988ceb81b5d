//! One account that trades one symbol: positions, costs, trades.

use serde::Serialize;

use super::strategy::Side;
use crate::{Error, Result};

/// What trading costs, each as a share of what is traded (10 basis points are 0.001).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Costs {
    /// Paid on every fill.
    pub fee: f64,
    /// How much worse than the price a market order fills; limit orders fill at their limit.
    pub slippage: f64,
}

impl Costs {
    /// From basis points.
    pub fn from_basis_points(fee: f64, slippage: f64) -> Self {
        Self { fee: fee / 1e4, slippage: slippage / 1e4 }
    }

    pub(super) fn check(self) -> Result<()> {
        for (name, share) in [("fee", self.fee), ("slippage", self.slippage)] {
            if !(0.0..0.5).contains(&share) {
                return Err(Error::Setting(format!(
                    "a {name} of {} basis points: choose at least 0 and less than 5000, such as 10",
                    share * 1e4
                )));
            }
        }
        Ok(())
    }
}

/// Why a position was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The strategy changed its mind.
    Signal,
    /// The limit of the bracket was passed.
    Target,
    /// The bars held were over.
    End,
    /// The account had lost everything.
    Ruin,
}

impl Reason {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Target => "target",
            Self::End => "end",
            Self::Ruin => "ruin",
        }
    }
}

/// A position from its entry to its exit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trade {
    /// Long or short.
    pub side: Side,
    /// Bar of the entry, counted from the first bar of the symbol.
    pub entry_bar: usize,
    /// Bar of the exit.
    pub exit_bar: usize,
    /// Price paid, slippage included.
    pub entry_price: f64,
    /// Price received, slippage included.
    pub exit_price: f64,
    /// Pieces bought (negative: sold) by an account that began with 1.
    pub units: f64,
    /// Gain after costs, of an account that began with 1.
    pub profit: f64,
    /// Gain after costs as a share of the equity at the entry.
    pub gain: f64,
    /// Why it ended.
    pub reason: Reason,
}

/// A fill: at which bar, at what price, and whether as a market order (else at a limit).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fill {
    pub(super) bar: usize,
    pub(super) price: f64,
    pub(super) market: bool,
}

/// Money and at most one position; it begins with 1 and always trades all of it.
#[derive(Debug, Clone)]
pub(super) struct Account {
    costs: Costs,
    cash: f64,
    units: f64,
    open: Option<Entry>,
    /// Sum of what was traded, each fill as a share of the equity at that time.
    pub(super) traded: f64,
    /// Fees and slippage paid so far.
    pub(super) paid: f64,
    pub(super) trades: Vec<Trade>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    side: Side,
    fill: Fill,
    equity: f64,
}

impl Account {
    pub(super) fn new(costs: Costs) -> Self {
        Self { costs, cash: 1.0, units: 0.0, open: None, traded: 0.0, paid: 0.0, trades: Vec::new() }
    }

    /// What the account is worth at a price.
    pub(super) fn equity(&self, price: f64) -> f64 {
        self.cash + self.units * price
    }

    pub(super) fn side(&self) -> Side {
        self.open.map_or(Side::Flat, |entry| entry.side)
    }

    /// Enters with the whole equity; nothing happens while a position is open, or to an account without money.
    pub(super) fn enter(&mut self, side: Side, fill: Fill) {
        if self.open.is_some() || side == Side::Flat || self.cash <= 0.0 {
            return;
        }
        let equity = self.cash;
        let price = self.executed(fill, side.sign());
        let notional = equity / (1.0 + self.costs.fee);
        self.units = side.sign() * notional / price;
        self.cash -= self.units * price + notional * self.costs.fee;
        self.book(self.units, equity, fill, price);
        self.open = Some(Entry { side, fill: Fill { price, ..fill }, equity });
    }

    /// Leaves the position, if there is one.
    pub(super) fn exit(&mut self, fill: Fill, reason: Reason) {
        let Some(entry) = self.open.take() else { return };
        let equity = self.equity(fill.price);
        let price = self.executed(fill, -entry.side.sign());
        let notional = self.units.abs() * price;
        let units = std::mem::take(&mut self.units);
        self.cash += units * price - notional * self.costs.fee;
        self.book(units, equity, fill, price);
        if reason == Reason::Ruin {
            self.cash = 0.0;
        }
        let profit = self.cash - entry.equity;
        self.trades.push(Trade {
            side: entry.side,
            entry_bar: entry.fill.bar,
            exit_bar: fill.bar,
            entry_price: entry.fill.price,
            exit_price: price,
            units,
            profit,
            gain: profit / entry.equity,
            reason,
        });
    }

    /// The price of a fill in a direction (1 buys, -1 sells).
    fn executed(&self, fill: Fill, direction: f64) -> f64 {
        if fill.market { fill.price * (1.0 + direction * self.costs.slippage) } else { fill.price }
    }

    /// Counts what was traded and paid; `price` is that of the fill, slippage included.
    fn book(&mut self, units: f64, equity: f64, fill: Fill, price: f64) {
        let notional = units.abs() * price;
        // An account in ruin has no equity to compare with.
        self.traded += if equity > 0.0 { notional / equity } else { 0.0 };
        self.paid += notional * self.costs.fee + units.abs() * (price - fill.price).abs();
    }
}
