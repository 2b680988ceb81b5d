//! A strategy traded bar by bar: when orders fill, and what the account is worth at every close.
//!
//! An order is decided at an origin, from the bars before it. It fills later:
//! - a market order at the open of the first bar of the window, slippage added; a column of values has no open, so there
//!   it fills at the last known value;
//! - the limit of a bracket at the open, slippage added, if the bar opens at or beyond the limit; else at the limit, if the
//!   bar trades beyond it (touching it is not enough);
//! - the target of a bracket at its limit, never better, on a later bar than the entry, if the bar trades beyond it;
//! - what is open when the bars held are over, at the close of the last of them, slippage added. A position that the next
//!   origin, one bar later, wants to keep stays open.

use super::account::{Account, Fill};
use super::strategy::Past;
use super::{Costs, Order, Prediction, Price, Question, Reason, Side, Strategy, Symbol, Trade};

/// How a strategy is traded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The strategy.
    pub strategy: Strategy,
    /// What trading costs.
    pub costs: Costs,
    /// Nothing is sold short: where a strategy would, it holds nothing.
    pub long_only: bool,
    /// Bars that a position is held at most before it is decided again.
    pub hold: usize,
}

/// What came of a strategy traded on one symbol. The account begins with 1 and always trades all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    /// The bar of the first equity, 1: the last one known at the first origin.
    pub first_bar: usize,
    /// The equity at the close of every bar from `first_bar` on.
    pub equity: Vec<f64>,
    /// Bars during which a position was open, however briefly.
    pub exposed: usize,
    /// Sum of all fills, each as a share of the equity at that time.
    pub traded: f64,
    /// Fees and slippage paid, of an account that began with 1.
    pub paid: f64,
    /// Every trade in the order of its exit.
    pub trades: Vec<Trade>,
    /// The order of every origin.
    pub orders: Vec<Order>,
}

/// Whether a symbol can be bought and sold between two bars: prices are above zero.
pub(super) fn is_tradable(symbol: &Symbol, bars: std::ops::Range<usize>) -> bool {
    [Price::Open, Price::High, Price::Low, Price::Close]
        .into_iter()
        .filter_map(|price| symbol.prices(price))
        .all(|prices| prices[bars.clone()].iter().all(|price| *price > 0.0))
}

/// Trades the windows of one symbol.
pub(super) fn simulate(
    symbol: &Symbol,
    origins: &[usize],
    predictions: &[Prediction],
    question: &Question,
    rules: &Rules,
) -> Ledger {
    let (first, end) = (origins[0], origins[origins.len() - 1] + rules.hold);
    let mut market = Market { symbol, account: Account::new(rules.costs), bracket: None };
    let mut ledger = Ledger {
        first_bar: first - 1,
        equity: vec![1.0],
        exposed: 0,
        traded: 0.0,
        paid: 0.0,
        trades: Vec::new(),
        orders: Vec::with_capacity(origins.len()),
    };
    let mut windows = origins.iter().zip(predictions).peekable();
    let (mut past, mut equity_at_origin, mut hold_until) = (Past::START, 1.0, first);
    for bar in first..end {
        if let Some((_, prediction)) = windows.next_if(|(origin, _)| **origin == bar) {
            let known = symbol.history(bar);
            let equity = ledger.equity[ledger.equity.len() - 1];
            if !ledger.orders.is_empty() {
                past.window_return = equity / equity_at_origin - 1.0;
            }
            let order = rules.allowed(rules.strategy.order(&known, prediction, question, past, rules.hold));
            market.place(order, bar);
            past.side = match order {
                Order::Hold(side) | Order::Bracket { side, .. } => side,
            };
            ledger.orders.push(order);
            (equity_at_origin, hold_until) = (equity, bar + rules.hold);
        }
        let entered_before = market.account.side() != Side::Flat;
        market.trade_bracket(bar, entered_before);
        let exposed = entered_before || market.account.side() != Side::Flat;
        let close = symbol.closes()[bar];
        let decided_next = windows.peek().is_some_and(|(origin, _)| **origin == bar + 1);
        if bar + 1 == hold_until && (market.bracket.take().is_some() || !decided_next) {
            market.account.exit(Fill { bar, price: close, market: true }, Reason::End);
        }
        if market.account.side() != Side::Flat && market.account.equity(close) <= 0.0 {
            market.account.exit(Fill { bar, price: close, market: true }, Reason::Ruin);
        }
        ledger.exposed += usize::from(exposed);
        ledger.equity.push(market.account.equity(close));
    }
    let Account { traded, paid, trades, .. } = market.account;
    Ledger { traded, paid, trades, ..ledger }
}

impl Rules {
    /// What is left of an order where nothing is sold short.
    fn allowed(&self, order: Order) -> Order {
        match order {
            Order::Hold(Side::Short) | Order::Bracket { side: Side::Short, .. } if self.long_only => {
                Order::Hold(Side::Flat)
            }
            other => other,
        }
    }
}

/// An account in front of its market.
struct Market<'a> {
    symbol: &'a Symbol,
    account: Account,
    bracket: Option<Bracket>,
}

/// The limits of a window.
#[derive(Clone, Copy)]
struct Bracket {
    side: Side,
    entry: f64,
    target: f64,
    /// Whether the entry has been filled: it is not filled twice.
    entered: bool,
}

impl Market<'_> {
    /// Takes the order of an origin whose first bar is `bar`.
    fn place(&mut self, order: Order, bar: usize) {
        // Without an open the last known value stands in.
        let price = self.symbol.prices(Price::Open).map_or(self.symbol.closes()[bar - 1], |opens| opens[bar]);
        let fill = Fill { bar, price, market: true };
        match order {
            Order::Hold(side) if side == self.account.side() => {}
            Order::Hold(side) => {
                self.account.exit(fill, Reason::Signal);
                self.account.enter(side, fill);
            }
            Order::Bracket { side, entry, target } => {
                self.account.exit(fill, Reason::Signal);
                self.bracket = Some(Bracket { side, entry, target, entered: false });
            }
        }
    }

    /// Fills the limits of a bracket within a bar.
    fn trade_bracket(&mut self, bar: usize, entered_before: bool) {
        let Some(bracket) = &mut self.bracket else { return };
        let [open, high, low] = [Price::Open, Price::High, Price::Low]
            .map(|price| self.symbol.prices(price).map_or(self.symbol.closes()[bar], |prices| prices[bar]));
        let sign = bracket.side.sign();
        // Seen from the side of the trade: a long one enters below and leaves above, a short one the other way round.
        let (worst, best) = if bracket.side == Side::Long { (low, high) } else { (high, low) };
        if !bracket.entered {
            let at_open = (open - bracket.entry) * sign <= 0.0;
            let beyond = (worst - bracket.entry) * sign < 0.0;
            if at_open || beyond {
                bracket.entered = true;
                let price = if at_open { open } else { bracket.entry };
                let side = bracket.side;
                self.account.enter(side, Fill { bar, price, market: at_open });
            }
        } else if entered_before && (best - bracket.target) * sign > 0.0 {
            let price = bracket.target;
            self.account.exit(Fill { bar, price, market: false }, Reason::Target);
        }
    }
}
