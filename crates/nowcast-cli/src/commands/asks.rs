//! How each symbol is forecast: settings by symbol as a predictor asks for them.

use std::collections::BTreeMap;

use nowcast::backtest::{Ask, Asks};
use nowcast::tuning::Choice;
use nowcast::{Aggregation, CandleOptions, ForecastOptions, Result};

/// The choice of every symbol by name.
pub(super) type Choices = BTreeMap<String, Choice>;

/// Asks a Toto model: `base`, and over it what was chosen for the symbol.
pub(super) fn of_series(base: &ForecastOptions, choices: &Choices) -> Result<Asks<ForecastOptions>> {
    let ask = |choice: &Choice| {
        let mut options = base.clone();
        choice.apply_to_series(&mut options)?;
        Ok(Ask { options, point: choice.rule()?.unwrap_or(Aggregation::Median) })
    };
    by_symbol(choices, ask)
}

/// Asks a Kronos model.
pub(super) fn of_candles(base: &CandleOptions, choices: &Choices) -> Result<Asks<CandleOptions>> {
    let ask = |choice: &Choice| {
        let mut options = base.clone();
        choice.apply_to_candles(&mut options);
        Ok(Ask { options, point: choice.rule()?.unwrap_or(Aggregation::Mean) })
    };
    by_symbol(choices, ask)
}

fn by_symbol<Options: Clone + 'static>(
    choices: &Choices,
    ask: impl Fn(&Choice) -> Result<Ask<Options>>,
) -> Result<Asks<Options>> {
    let asks = choices.iter().map(|(symbol, choice)| Ok((symbol.clone(), ask(choice)?)));
    let asks = asks.collect::<Result<BTreeMap<_, _>>>()?;
    let other = ask(&Choice::default())?;
    Ok(Box::new(move |symbol| asks.get(symbol).unwrap_or(&other).clone()))
}
