use proptest::prelude::*;

use super::super::simulation::simulate;
use super::super::{
    Backtest, BacktestOptions, Costs, Order, Performance, Portfolio, Reason, Rules, Side, Strategy, Windows, drawdowns,
};
use super::*;

/// Opens, highs, lows and closes of five days.
const DAYS: [[f64; 4]; 5] = [
    [100.0, 100.0, 100.0, 100.0],
    [101.0, 103.0, 100.0, 102.0],
    [102.0, 104.0, 101.0, 103.0],
    [104.0, 105.0, 99.0, 100.0],
    [100.0, 101.0, 98.0, 99.0],
];

fn trade(days: &[[f64; 4]], rules: Rules, origins: &[usize], predictions: &[Prediction]) -> super::super::Ledger {
    let question = Question { horizon: predictions[0].close.len(), levels: vec![0.4, 0.6], high_and_low: true };
    simulate(&candles("a", days), origins, predictions, &question, &rules)
}

fn rules(strategy: Strategy, hold: usize) -> Rules {
    Rules { strategy, costs: Costs::default(), long_only: false, hold }
}

#[test]
fn market_orders_fill_at_the_next_open_with_fee_and_slippage() {
    let (fee, slippage) = (0.001, 0.002);
    let costs = Costs::from_basis_points(10.0, 20.0);
    near(costs.fee, fee);
    let up_then_down = [certain(&[101.0, 110.0], &[0.0; 2], &[0.0; 2]), certain(&[110.0, 90.0], &[0.0; 2], &[0.0; 2])];
    let ledger = trade(&DAYS, Rules { costs, ..rules(Strategy::Sign, 2) }, &[1, 3], &up_then_down);

    let bought = 101.0 * (1.0 + slippage);
    let units = 1.0 / (1.0 + fee) / bought;
    let sold = 104.0 * (1.0 - slippage);
    let cash = units * sold * (1.0 - fee);
    let short = cash / (1.0 + fee) / sold;
    let after_short = cash + short * sold * (1.0 - fee);
    let covered = 99.0 * (1.0 + slippage);
    let end = after_short - short * covered * (1.0 + fee);
    let expected = [1.0, units * 102.0, units * 103.0, after_short - short * 100.0, end];
    assert_eq!(ledger.first_bar, 0);
    assert_eq!(ledger.equity.len(), expected.len());
    ledger.equity.iter().zip(expected).for_each(|(measured, expected)| near(*measured, expected));

    assert_eq!(ledger.orders, [Order::Hold(Side::Long), Order::Hold(Side::Short)]);
    let [long, sold_short] = ledger.trades[..] else { panic!("two trades, not {:?}", ledger.trades) };
    assert_eq!((long.entry_bar, long.exit_bar, long.reason), (1, 3, Reason::Signal));
    assert_eq!((sold_short.side, sold_short.exit_bar, sold_short.reason), (Side::Short, 4, Reason::End));
    near(long.profit, cash - 1.0);
    near(sold_short.gain, end / cash - 1.0);
    near(
        ledger.traded,
        units * bought
            + (units * sold) / (units * 104.0)
            + short * sold / cash
            + short * covered / (after_short - short * 99.0),
    );
    let fees = fee * (units * bought + units * sold + short * sold + short * covered);
    near(ledger.paid, fees + units * 101.0 * slippage + (units + short) * 104.0 * slippage + short * 99.0 * slippage);
    assert_eq!(ledger.exposed, 4);
}

#[test]
fn a_position_that_is_kept_is_not_traded_again() {
    let up = vec![certain(&[200.0], &[0.0], &[0.0]); 4];
    let ledger = trade(&DAYS, rules(Strategy::Sign, 1), &[1, 2, 3, 4], &up);
    assert_eq!(ledger.trades.len(), 1);
    near(ledger.equity[4], 99.0 / 101.0);
    near(ledger.traded, 2.0);
    // A stride beyond the horizon leaves bars without a position.
    let ledger = trade(&DAYS, rules(Strategy::Sign, 1), &[1, 4], &up[..2]);
    assert_eq!((ledger.trades.len(), ledger.exposed), (2, 2));
    near(ledger.equity[4], 102.0 / 101.0 * 0.99);
}

#[test]
fn without_an_open_orders_fill_at_the_last_known_value() {
    let question = Question { horizon: 1, levels: Vec::new(), high_and_low: false };
    let falls = [certain(&[1.0], &[], &[])];
    let ledger = simulate(&values("v", &[10.0, 8.0]), &[1], &falls, &question, &rules(Strategy::Sign, 1));
    near(ledger.equity[1], 1.2);
}

#[test]
fn nothing_is_sold_short_where_that_is_ruled_out() {
    let falls = [certain(&[90.0, 80.0], &[0.0; 2], &[0.0; 2]), certain(&[90.0, 80.0], &[120.0; 2], &[70.0; 2])];
    for strategy in [Strategy::Sign, Strategy::Bracket] {
        let rules = Rules { long_only: true, ..rules(strategy, 2) };
        let ledger = trade(&DAYS, rules, &[1, 3], &falls);
        assert_eq!((ledger.trades.len(), ledger.equity[4]), (0, 1.0), "{strategy}");
    }
}

#[test]
fn agreement_takes_all_three_prices() {
    let order = |close: f64, high: f64, low: f64| {
        let predictions = [certain(&[close], &[high], &[low])];
        trade(&DAYS, rules(Strategy::Agree, 1), &[2], &predictions).orders[0]
    };
    // The last known bar closes at 102 between 100 and 103.
    assert_eq!(order(104.0, 105.0, 101.0), Order::Hold(Side::Long));
    assert_eq!(order(104.0, 105.0, 99.0), Order::Hold(Side::Flat));
    assert_eq!(order(104.0, 102.0, 101.0), Order::Hold(Side::Flat));
    assert_eq!(order(101.0, 102.0, 99.0), Order::Hold(Side::Short));
    assert_eq!(order(102.0, 103.0, 100.0), Order::Hold(Side::Flat));
}

/// One window of three days behind a close of 100, entered at 99 with a target of 103.
fn bracket(days: [[f64; 4]; 3]) -> super::super::Ledger {
    let all = [vec![[100.0; 4]], days.to_vec()].concat();
    let prediction = certain(&[101.0, 101.0, 102.0], &[102.0, 103.0, 101.0], &[99.5, 99.0, 100.0]);
    trade(&all, rules(Strategy::Bracket, 3), &[1], &[prediction])
}

#[test]
fn brackets_fill_only_beyond_their_limits() {
    let calm = [100.0, 101.0, 99.5, 100.0];
    // Touched, not passed.
    let touched = bracket([[100.0, 101.0, 99.0, 100.0], calm, calm]);
    assert!(touched.trades.is_empty());
    assert_eq!(touched.orders, [Order::Bracket { side: Side::Long, entry: 99.0, target: 103.0 }]);
    // Passed on the second day; the target on the third.
    let both = bracket([calm, [100.0, 101.0, 98.0, 100.0], [100.0, 103.5, 100.0, 100.0]]);
    let trade = both.trades[0];
    assert_eq!((trade.entry_bar, trade.entry_price, trade.exit_price, trade.reason), (2, 99.0, 103.0, Reason::Target));
    near(both.equity[3], 103.0 / 99.0);
    // Both limits passed on one day: nobody knows which came first, so the target waits.
    let same_day = bracket([[100.0, 104.0, 98.0, 100.0], calm, calm]);
    assert_eq!((same_day.trades[0].reason, same_day.trades[0].exit_bar), (Reason::End, 3));
    near(same_day.equity[3], 100.0 / 99.0);
    // The target is touched only.
    let nearly = bracket([[100.0, 101.0, 98.0, 100.0], [100.0, 103.0, 99.0, 102.0], calm]);
    assert_eq!(nearly.trades[0].reason, Reason::End);
    // A bar that opens beyond the entry fills there; one that opens beyond the target gives no more than the target.
    let gaps = bracket([[97.0, 98.0, 96.0, 97.5], [105.0, 106.0, 104.0, 105.0], calm]);
    assert_eq!((gaps.trades[0].entry_price, gaps.trades[0].exit_price), (97.0, 103.0));
    // What has left does not enter again.
    let once = bracket([[100.0, 101.0, 98.0, 100.0], [100.0, 104.0, 98.0, 100.0], [100.0, 101.0, 98.0, 100.0]]);
    assert_eq!(once.trades.len(), 1);
}

#[test]
fn short_brackets_are_the_mirror_image() {
    let all = [[100.0; 4], [100.0, 101.5, 99.5, 100.0], [99.0, 100.0, 97.0, 98.0], [98.0; 4]];
    let prediction = certain(&[99.0, 99.0, 98.0], &[101.0, 100.0, 99.0], &[99.0, 98.0, 98.0]);
    let ledger = trade(&all, rules(Strategy::Bracket, 3), &[1], &[prediction]);
    let trade = ledger.trades[0];
    assert_eq!((trade.side, trade.entry_price, trade.exit_price), (Side::Short, 101.0, 98.0));
    near(ledger.equity[3], 1.0 + (101.0 - 98.0) / 101.0);
}

#[test]
fn limit_fills_pay_the_fee_and_no_slippage() {
    let costs = Costs::from_basis_points(10.0, 50.0);
    let all = [[100.0; 4], [100.0, 101.0, 98.0, 100.0], [100.0, 104.0, 100.0, 100.0]];
    let prediction = certain(&[101.0, 102.0], &[103.0, 102.0], &[99.0, 100.0]);
    let ledger = trade(&all, Rules { costs, ..rules(Strategy::Bracket, 2) }, &[1], &[prediction]);
    near(ledger.equity[2], 1.0 / 1.001 * 103.0 / 99.0 * 0.999);
}

#[test]
fn buy_and_hold_shuts_down_after_a_loss_and_waits_for_a_rise() {
    let days: Vec<[f64; 4]> = [100.0, 101.0, 90.0, 95.0, 96.0, 97.0].iter().map(|close| [*close; 4]).collect();
    let (rise, fall) = (certain(&[200.0], &[0.0], &[0.0]), certain(&[1.0], &[0.0], &[0.0]));
    let predictions = [fall.clone(), rise.clone(), rise.clone(), fall, rise];
    let ledger = trade(&days, rules(Strategy::Shutdown, 1), &[1, 2, 3, 4, 5], &predictions);
    // It begins long whatever is forecast. Bought at the open of the bar, 101 -> 101 gains nothing and loses nothing; the
    // fall to 90 loses: out; then a forecast fall keeps it out, and a forecast rise lets it in again.
    let long = Order::Hold(Side::Long);
    let flat = Order::Hold(Side::Flat);
    assert_eq!(ledger.orders, [long, long, flat, flat, long]);
}

#[test]
fn the_guard_asks_for_the_share_of_the_distribution() {
    let order = |low: f64, high: f64, close: f64| {
        let prediction = Prediction { quantiles: vec![vec![low], vec![high]], ..certain(&[close], &[], &[]) };
        trade(&DAYS, rules(Strategy::Guard(0.6), 1), &[2], &[prediction]).orders[0]
    };
    // The last close is 102; the quantiles are those at 0.4 and 0.6.
    assert_eq!(order(102.5, 110.0, 105.0), Order::Hold(Side::Long));
    assert_eq!(order(101.5, 110.0, 105.0), Order::Hold(Side::Flat));
    assert_eq!(order(90.0, 101.0, 95.0), Order::Hold(Side::Short));
    assert_eq!(order(90.0, 102.5, 95.0), Order::Hold(Side::Flat));
}

#[test]
fn strategies_have_names() {
    for name in ["sign", "agree", "bracket", "shutdown", "guard_0.75"] {
        assert_eq!(name.parse::<Strategy>().unwrap().to_string(), name);
    }
    assert_eq!("guard".parse::<Strategy>().unwrap(), Strategy::Guard(0.6));
    for (name, words) in [("hodl", "the names are sign, agree"), ("guard_1", "[0.5, 1)"), ("guard_x", "unknown")] {
        let error = name.parse::<Strategy>().unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn an_account_that_lost_everything_stays_at_nothing() {
    let days = [[100.0; 4], [100.0; 4], [100.0, 250.0, 100.0, 250.0], [100.0; 4], [50.0; 4]];
    let falls = vec![certain(&[1.0], &[0.0], &[0.0]); 4];
    let ledger = trade(&days, rules(Strategy::Sign, 1), &[1, 2, 3, 4], &falls);
    assert_eq!(ledger.equity, [1.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(ledger.trades[0].reason, Reason::Ruin);
    let performance = Performance::of(&ledger, 252.0);
    assert_eq!((performance.total_return, performance.max_drawdown), (-1.0, 1.0));
}

#[test]
fn figures_of_a_curve_by_hand() {
    let equity = [1.0, 1.1, 0.99, 1.089];
    let performance = Performance::of_curve(&equity, 252.0);
    let returns = [0.1, -0.1, 0.1];
    let mean: f64 = 0.1 / 3.0;
    let deviation = (returns.iter().map(|value: &f64| (value - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    let close = |measured: Option<f64>, expected: f64| {
        // Returns are differences of numbers near 1: their last digits are gone.
        let measured = measured.unwrap();
        assert!((measured - expected).abs() < 1e-12 * expected.abs(), "{measured} {expected}");
    };
    close(Some(performance.total_return), 0.089);
    close(Some(performance.annual_return), 1.089f64.powf(84.0) - 1.0);
    close(performance.sharpe, mean / deviation * 252f64.sqrt());
    close(performance.sortino, mean / (0.01f64 / 3.0).sqrt() * 252f64.sqrt());
    close(Some(performance.max_drawdown), 0.1);
    let drawdowns = drawdowns(&equity);
    assert_eq!(drawdowns[..2], [0.0, 0.0]);
    close(Some(drawdowns[3]), 0.01);
    let still = Performance::of_curve(&[1.0, 1.0, 1.0], 252.0);
    assert_eq!((still.sharpe, still.sortino, still.annual_return), (None, None, 0.0));
}

#[test]
fn a_portfolio_averages_the_returns_of_each_date() {
    let days = |closes: [f64; 3]| closes.map(|close| [close; 4]);
    let up = vec![certain(&[999.0], &[0.0], &[0.0]); 2];
    let ledger = |closes| trade(&days(closes), rules(Strategy::Sign, 1), &[1, 2], &up);
    // Bought at the open of the second day, which is its close.
    let (a, b) = (ledger([1.0, 2.0, 3.0]), ledger([1.0, 4.0, 2.0]));
    let portfolio = Portfolio::of([(&a, vec![0, 1, 2]), (&b, vec![0, 1, 3])]);
    assert_eq!(portfolio.times, [0, 1, 2, 3]);
    assert_eq!(portfolio.equity, [1.0, 1.0, 1.5, 0.75]);
}

#[test]
fn values_at_or_below_zero_are_scored_and_not_traded() {
    let symbol = values("v", &[1.0, -1.0, 2.0, 3.0]);
    let backtest = Backtest::new(vec![symbol], vec![1], BacktestOptions::new(Windows::new(1))).unwrap();
    let evaluation = backtest.evaluate(&mut Script(|_| certain(&[1.0], &[], &[])), &mut |_, _| ()).unwrap();
    assert_eq!(evaluation.scores[0].windows, 3);
    assert_eq!((evaluation.trading[0].ledgers[0].is_none(), evaluation.trading[0].performance[0]), (true, None));
}

proptest! {
    /// Long only and free of costs, the equity is the product of what each held stretch gained, in a plain loop.
    #[test]
    fn long_positions_multiply(
        closes in prop::collection::vec((1.0..100.0f64, 1.0..100.0f64), 5..40),
        rises in prop::collection::vec(any::<bool>(), 40),
        stride in 1usize..4,
    ) {
        let days: Vec<[f64; 4]> =
            closes.iter().map(|(open, close)| [*open, open.max(*close), open.min(*close), *close]).collect();
        let origins: Vec<usize> = (1..=days.len() - stride).step_by(stride).collect();
        let prediction = |rise: &bool| certain(&vec![if *rise { 1e3 } else { 0.0 }; stride], &[0.0], &[0.0]);
        let predictions: Vec<Prediction> = rises.iter().take(origins.len()).map(prediction).collect();
        let rules = Rules { long_only: true, ..rules(Strategy::Sign, stride) };
        let ledger = trade(&days, rules, &origins, &predictions);
        let mut equity = 1.0;
        for (place, origin) in origins.iter().enumerate() {
            if rises[place] {
                let held = place > 0 && rises[place - 1];
                let from = if held { days[origin - 1][3] } else { days[*origin][0] };
                // A position that is given up is sold at the next open.
                let sold = origins.get(place + 1).filter(|_| !rises[place + 1]).map(|next| days[*next][0]);
                equity *= sold.unwrap_or(days[origin + stride - 1][3]) / from;
            }
        }
        let last = ledger.equity[ledger.equity.len() - 1];
        prop_assert!((last - equity).abs() <= 1e-12 * equity, "{} {}", last, equity);
    }
}
