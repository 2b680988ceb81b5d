use super::super::{Backtest, BacktestOptions, Calendar, Costs, Strategy, Windows};
use super::*;

fn ten() -> Symbol {
    values("ten", &[1.0; 10])
}

#[test]
fn windows_end_with_the_data_and_begin_where_the_context_is_whole() {
    let origins = |windows: &Windows, context| windows.origins(&ten(), context).unwrap();
    assert_eq!(origins(&Windows::new(3), 1), [1, 4, 7]);
    assert_eq!(origins(&Windows::new(3), 2), [4, 7]);
    assert_eq!(origins(&Windows { stride: 1, ..Windows::new(3) }, 5), [5, 6, 7]);
    assert_eq!(origins(&Windows { stride: 5, ..Windows::new(3) }, 1), [2, 7]);
    assert_eq!(origins(&Windows { count: Some(2), ..Windows::new(3) }, 1), [4, 7]);
    assert_eq!(origins(&Windows::new(3), 7), [7]);
    assert_eq!((Windows { stride: 5, ..Windows::new(3) }).hold(), 3);
}

#[test]
fn times_bound_the_last_known_bar() {
    let at = |day: i8| Some(jiff::civil::date(2024, 1, day).at(0, 0, 0, 0));
    let windows = Windows { stride: 1, from: at(4), to: at(6), ..Windows::new(2) };
    // The bars known end on the 4th, 5th and 6th.
    assert_eq!(windows.origins(&ten(), 1).unwrap(), [4, 5, 6]);
    let error = Windows { from: at(20), ..Windows::new(2) }.origins(&ten(), 1).unwrap_err().to_string();
    assert!(error.contains("from 2024-01-01 to 2024-01-08") && error.contains("--from"), "{error}");
}

#[test]
fn what_cannot_work_is_one_line() {
    let new = |options: BacktestOptions, symbols: Vec<Symbol>, context: usize| {
        let contexts = vec![context; symbols.len()];
        Backtest::new(symbols, contexts, options).unwrap_err().to_string()
    };
    let options = || BacktestOptions::new(Windows::new(3));
    let with = |change: fn(&mut BacktestOptions)| {
        let mut options = options();
        change(&mut options);
        options
    };
    for (message, words) in [
        (new(options(), vec![ten()], 8), "10 bars are too few for a context of 8 and a horizon of 3, which take 11"),
        (new(options(), vec![ten()], usize::MAX), "too few"),
        (new(options(), vec![ten()], 0), "context is 0"),
        (new(options(), vec![ten(), ten()], 1), "two symbols are called ten/x"),
        (new(with(|o| o.windows.horizon = 0), vec![ten()], 1), "horizon is 0"),
        (new(with(|o| o.windows.stride = 0), vec![ten()], 1), "stride is 0"),
        (new(with(|o| o.windows.count = Some(0)), vec![ten()], 1), "0 windows"),
        (new(with(|o| o.interval = 1.0), vec![ten()], 1), "interval is 1"),
        (new(with(|o| o.season = Some(0)), vec![ten()], 1), "season is 0"),
        (new(with(|o| o.costs = Costs::from_basis_points(-1.0, 0.0)), vec![ten()], 1), "fee of -1 basis points"),
        (new(with(|o| o.costs = Costs::from_basis_points(0.0, f64::NAN)), vec![ten()], 1), "slippage of NaN"),
        (new(with(|o| o.strategies = vec![Strategy::Bracket]), vec![ten()], 1), "need high and low"),
    ] {
        assert!(message.contains(words) && !message.contains('\n'), "{message}");
    }
}

#[test]
fn a_table_with_the_four_prices_is_one_symbol() {
    let read = |text: &str| {
        let table = Table::from_reader("t", text.as_bytes(), &ReadOptions::default()).unwrap();
        Symbol::from_table(&table).map_err(|error| error.to_string())
    };
    let (symbols, notes) =
        read("date,Open,High,Low,Close\n2024-01-01,1,3,1,2\n2024-01-02,1,,1,2\n2024-01-03,2,3,2,3\n").unwrap();
    assert_eq!((symbols.len(), symbols[0].name(), symbols[0].closes()), (1, "t", &[2.0, 3.0][..]));
    assert_eq!(notes, ["1 row(s) without all of open, high, low and close are left out"]);
    assert_eq!(symbols[0].candle_notes(), ["there is no volume: volume and amount count as 0"]);
    // Adjusted prices alone are prices.
    let (symbols, _) = read("date,Adj. Open,Adj. High,Adj. Low,Adj. Close\n2024-01-01,1,3,1,2\n").unwrap();
    assert!(symbols[0].is_candle());
    let (symbols, _) = read("date,a,b\n2024-01-01,1,2\n2024-01-02,3,4\n").unwrap();
    assert_eq!((symbols[1].name(), symbols[1].closes(), symbols[1].is_candle()), ("t/b", &[2.0, 4.0][..], false));
    assert!(read("a,b\n1,2\n").unwrap_err().contains("--time"));
}

#[test]
fn years_have_252_days_unless_there_are_bars_on_weekends() {
    let rhythm = |calendar: Calendar, text: &str| calendar.rhythm(&symbol("s", text));
    let days = |keep: fn(i64) -> bool, hours: &[i64]| {
        let start = jiff::civil::date(2024, 1, 1);
        let rows = (0..70).filter(|day| keep(*day)).flat_map(|day| {
            let date = start + jiff::Span::new().days(day);
            hours.iter().map(move |hour| format!("{date} {hour:02}:00,1\n"))
        });
        format!("time,x\n{}", rows.collect::<String>())
    };
    let every = days(|_| true, &[0]);
    let business = days(|day| day % 7 < 5, &[0]);
    let intraday = days(|day| day % 7 < 5, &[9, 10, 11, 12]);
    assert_eq!((rhythm(Calendar::Auto, &every).bars_per_year(), rhythm(Calendar::Auto, &every).season()), (365.0, 7));
    assert_eq!(
        (rhythm(Calendar::Auto, &business).bars_per_year(), rhythm(Calendar::Auto, &business).season()),
        (252.0, 5)
    );
    assert_eq!(rhythm(Calendar::Every, &business).bars_per_year(), 365.0);
    assert_eq!(rhythm(Calendar::Trading, &every).bars_per_year(), 252.0);
    assert_eq!(
        (rhythm(Calendar::Auto, &intraday).bars_per_year(), rhythm(Calendar::Auto, &intraday).season()),
        (1008.0, 4)
    );
    let weekly = days(|day| day % 7 == 0, &[0]);
    assert_eq!(
        (rhythm(Calendar::Auto, &weekly).bars_per_year(), rhythm(Calendar::Auto, &weekly).season()),
        (365.0 / 7.0, 52)
    );
}
