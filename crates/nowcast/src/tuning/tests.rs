use std::collections::BTreeMap;

use super::*;
use crate::ModelFamily;
use crate::data::{ReadOptions, Table};

fn symbol(days: i64) -> Symbol {
    let row = |day| format!("{},{}\n", jiff::civil::date(2024, 1, 1) + jiff::Span::new().days(day), day % 5);
    let text = format!("date,x\n{}", (0..days).map(row).collect::<String>());
    let table = Table::from_reader("t", text.as_bytes(), &ReadOptions::default()).unwrap();
    Symbol::from_table(&table).unwrap().0.remove(0)
}

#[test]
fn the_validation_ends_before_the_test_begins() {
    let spans = Spans::new(&[symbol(100)], 4, 4, [5, 3]).unwrap();
    assert_eq!(spans.test.origins(0), [88, 92, 96]);
    assert_eq!(spans.validation.origins(0), [68, 72, 76, 80, 84]);
    assert_eq!(spans.validation.symbols()[0].len(), 88);
    assert_eq!(spans.longest_context, 68);
    // Windows that overlap each other do not reach into the test either.
    let spans = Spans::new(&[symbol(100)], 4, 1, [5, 3]).unwrap();
    assert_eq!((spans.test.origins(0)[0], spans.validation.origins(0)[4] + 4), (94, 94));
}

#[test]
fn histories_too_short_for_both_are_named() {
    for (days, counts) in [(60, [5, 3]), (60, [1, 9]), (34, [1, 1]), (38, [1, 1])] {
        let error = Spans::new(&[symbol(days)], 4, 4, counts).unwrap_err().to_string();
        assert!(error.contains("too few") && error.contains("t/x") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn trials_are_a_function_of_the_seed_and_begin_with_the_defaults() {
    for family in [ModelFamily::Toto, ModelFamily::Kronos] {
        let space = Space::new(family, 600, 3);
        let trials = space.trials(40);
        assert_eq!((trials.len(), &trials[0]), (40, &Choice::default()));
        assert_eq!(trials[..12], space.trials(12));
        assert!((1..40).all(|place| !trials[..place].contains(&trials[place])), "no two alike");
        assert!(
            trials.iter().all(|choice| choice.context.is_none_or(|context| context <= 512) && choice.rule().is_ok())
        );
        assert_ne!(trials, Space::new(family, 600, 4).trials(40));
        let kronos = trials[1..].iter().all(|choice| choice.temperature.is_some());
        assert_eq!(kronos, family == ModelFamily::Kronos);
    }
    // 32 is the one context left: 9 rules and 4 numbers of samples, and the defaults.
    assert_eq!(Space::new(ModelFamily::Toto, 40, 0).trials(1000).len(), 37);
}

#[test]
fn the_best_is_the_first_of_the_best() {
    assert_eq!(Goal::Mase.best(&[Some(2.0), Some(1.0), None, Some(1.0)]), 1);
    assert_eq!(Goal::Direction.best(&[Some(0.5), Some(0.4), Some(0.6)]), 2);
    assert_eq!(Goal::Wql.best(&[None, None]), 0);
    assert_eq!(Goal::Wql.best(&[None, Some(3.0)]), 1);
    assert_eq!("wql".parse::<Goal>().unwrap(), Goal::Wql);
    assert!("mape".parse::<Goal>().unwrap_err().to_string().contains("mase, rmse"));
}

#[test]
fn parameters_read_back_and_know_their_symbols() {
    let settings = Choice { context: Some(256), point: Some("quantile_0.4".into()), ..Choice::default() };
    assert_eq!(settings.to_string(), "context 256, point quantile_0.4");
    let tuned = Tuned { settings: settings.clone(), validation: Some(0.1), test: None, test_of_defaults: Some(0.3) };
    let symbols = BTreeMap::from([("btc".to_string(), tuned)]);
    let parameters = Parameters::new("nano", Goal::Mase, serde_json::Map::new(), symbols);
    let text = parameters.to_json();
    assert_eq!(Parameters::from_json("p.json", &text).unwrap(), parameters);
    assert_eq!(parameters.of("btc").unwrap(), &settings);
    assert_eq!(parameters.of("btc/Close").unwrap(), &settings);
    assert!(parameters.of("eth").unwrap_err().to_string().contains("only of btc"));
    for (from, to) in
        [("\"version\": 1", "\"version\": 2"), ("quantile_0.4", "mode"), ("context", "contest"), ("{", "[")]
    {
        let error = Parameters::from_json("p.json", &text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with("p.json holds no tuned parameters") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn what_is_said_wins_over_what_was_tuned() {
    let said = Choice { context: Some(64), ..Choice::default() };
    let tuned = Choice { context: Some(256), samples: Some(9), ..Choice::default() };
    assert_eq!(said.or(&tuned), Choice { context: Some(64), samples: Some(9), ..Choice::default() });
    let mut options = crate::ForecastOptions::new(4);
    tuned.apply_to_series(&mut options).unwrap();
    assert_eq!((options.context, options.samples), (Some(256), Some(9)));
    let warm = Choice { temperature: Some(0.5), ..Choice::default() };
    assert!(warm.apply_to_series(&mut options).unwrap_err().to_string().contains("temperature"));
    let mut candles = crate::CandleOptions::new(4);
    warm.apply_to_candles(&mut candles);
    assert_eq!((candles.temperature, candles.top_p), (0.5, 0.9));
}
