//! The file a search leaves: for every symbol the settings that were best, and what they reached.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Choice, Goal};
use crate::{Error, Result};

/// The only version there is.
const VERSION: u32 = 1;

/// Tuned settings of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Of this format.
    version: u32,
    /// The model, as it was named.
    pub model: String,
    /// What was made small (or large).
    pub goal: Goal,
    /// Every parameter of the search.
    pub search: serde_json::Map<String, Value>,
    /// By name.
    pub symbols: BTreeMap<String, Tuned>,
}

/// The best settings of one symbol, and the goal they reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuned {
    /// The settings.
    pub settings: Choice,
    /// On the windows that chose them; `None` where it cannot be measured.
    pub validation: Option<f64>,
    /// On later windows that nobody had looked at.
    pub test: Option<f64>,
    /// What the defaults reach on those windows.
    pub test_of_defaults: Option<f64>,
}

impl Parameters {
    /// The results of a search.
    pub fn new(
        model: impl Into<String>,
        goal: Goal,
        search: serde_json::Map<String, Value>,
        symbols: BTreeMap<String, Tuned>,
    ) -> Self {
        Self { version: VERSION, model: model.into(), goal, search, symbols }
    }

    /// Reads what [`Self::to_json`] wrote; `name` stands for the file in messages.
    ///
    /// # Errors
    /// Another format, or a rule that does not exist.
    pub fn from_json(name: &str, text: &str) -> Result<Self> {
        let wrong = |reason: &dyn std::fmt::Display| {
            Error::Setting(format!("{name} holds no tuned parameters ({reason}): give a file that nowcast tune wrote"))
        };
        let parameters: Self = serde_json::from_str(text).map_err(|error| wrong(&error))?;
        if parameters.version != VERSION {
            return Err(wrong(&format_args!("version {} where {VERSION} is known", parameters.version)));
        }
        for (symbol, tuned) in &parameters.symbols {
            tuned.settings.rule().map_err(|error| wrong(&format_args!("{symbol}: {error}")))?;
        }
        Ok(parameters)
    }

    /// Indented JSON with a final newline; numbers round-trip.
    pub fn to_json(&self) -> String {
        // Maps with text for keys and plain values cannot fail to be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The settings of a symbol, or of a series `<symbol>/<column>` of it.
    ///
    /// # Errors
    /// A symbol that was not tuned.
    pub fn of(&self, symbol: &str) -> Result<&Choice> {
        let whole = symbol.rsplit_once('/').map(|(table, _)| table);
        let found = self.symbols.get(symbol).or_else(|| self.symbols.get(whole?));
        found.map(|tuned| &tuned.settings).ok_or_else(|| {
            let names: Vec<&str> = self.symbols.keys().map(String::as_str).collect();
            Error::Setting(format!(
                "--params knows nothing of {symbol}, only of {}: tune it, or leave --params out",
                names.join(", ")
            ))
        })
    }
}
