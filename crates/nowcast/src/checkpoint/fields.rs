//! Fields of a `config.json`, and one line about the one that does not fit.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::{Error, Result};

/// The fields of a `config.json`.
pub(crate) struct Fields {
    values: Map<String, Value>,
    /// What the file should describe.
    what: &'static str,
}

impl Fields {
    /// Reads the text of a `config.json` that should describe `what`.
    pub(crate) fn read(text: &str, what: &'static str) -> Result<Self> {
        let values = serde_json::from_str(text).map_err(|error| fault(format!("is not a JSON object: {error}")))?;
        Ok(Self { values, what })
    }

    /// A field that may be missing.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// A field that must be there.
    pub(crate) fn require(&self, name: &str) -> Result<&Value> {
        self.get(name).ok_or_else(|| fault(format!("has no {name}: it does not describe {}", self.what)))
    }

    /// A size within bounds.
    pub(crate) fn size(&self, name: &str, allowed: RangeInclusive<usize>) -> Result<usize> {
        size(name, self.require(name)?, allowed)
    }

    /// A switch with a default.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(fault(format!("{name} is {other}, allowed: true or false"))),
        }
    }
}

/// A value that must be a size within bounds.
pub(crate) fn size(name: &str, value: &Value, allowed: RangeInclusive<usize>) -> Result<usize> {
    let size = value.as_u64().and_then(|size| usize::try_from(size).ok()).filter(|size| allowed.contains(size));
    size.ok_or_else(|| fault(format!("{name} is {value}, allowed: {} to {}", allowed.start(), allowed.end())))
}

/// An error about `config.json`.
pub(crate) fn fault(message: String) -> Error {
    super::fault(&format!("config.json {message}"))
}
