//! `--params`: settings that a search found.

use std::path::Path;

use nowcast::tuning::{Choice, Parameters};
use nowcast::{Aggregation, Error, Result};

use crate::arguments::CandleArguments;

/// A larger file holds no parameters.
const MOST_BYTES: u64 = 64 << 20;

/// Reads the file, which must be for one of these models.
pub(super) fn read(path: &Path, models: &[String]) -> Result<Parameters> {
    let length = std::fs::metadata(path).map_err(|error| Error::file(path, error))?.len();
    if length > MOST_BYTES {
        return Err(Error::Setting(format!("{} is too large for tuned parameters", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
    let parameters = Parameters::from_json(&path.display().to_string(), &text)?;
    if models.contains(&parameters.model) {
        return Ok(parameters);
    }
    Err(Error::Setting(format!(
        "{} was tuned for {}, and the model is {}: tune it again, or leave --params out",
        path.display(),
        parameters.model,
        models.join(" or ")
    )))
}

/// What flags say, as a choice.
pub(super) fn said(
    context: Option<usize>,
    samples: Option<usize>,
    point: Option<Aggregation>,
    candles: &CandleArguments,
) -> Choice {
    Choice {
        context,
        samples,
        point: point.map(|rule| rule.to_string()),
        temperature: candles.temperature,
        top_k: candles.top_k,
        top_p: candles.top_p,
        clip: candles.clip,
    }
}

/// The one choice for all of these symbols.
///
/// # Errors
/// A symbol that was not tuned, or symbols that were tuned to different settings.
pub(super) fn common<'a>(parameters: &Parameters, symbols: impl IntoIterator<Item = &'a str>) -> Result<Choice> {
    let mut found: Option<(&str, &Choice)> = None;
    for symbol in symbols {
        let choice = parameters.of(symbol)?;
        match found {
            Some((other, chosen)) if chosen != choice => {
                return Err(Error::Setting(format!(
                    "{other} and {symbol} were tuned to different settings: forecast them one at a time"
                )));
            }
            _ => found = Some((symbol, choice)),
        }
    }
    Ok(found.map(|(_, choice)| choice.clone()).unwrap_or_default())
}
