//! The file of a baseline: JSON with sorted keys and one value on each line, so that versions can be compared.

use std::collections::BTreeMap;
use std::path::Path;

use nowcast::{Error, Result};
use serde::{Deserialize, Serialize};

use super::super::evaluation::Scores;

/// The version of the format.
const FORMAT: u32 = 1;

/// A larger file is no baseline.
const MOST_BYTES: u64 = 64 << 20;

/// What was measured, of what, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Baseline {
    /// Files by name.
    pub(super) data: BTreeMap<String, Data>,
    /// The version of the format.
    pub(super) format: u32,
    /// Models by name.
    pub(super) models: BTreeMap<String, Measured>,
    pub(super) settings: Settings,
    /// The version that wrote it.
    pub(super) version: String,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Data {
    pub(super) rows: usize,
    pub(super) sha256: String,
}

/// A model's scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measured {
    /// Past steps of every window.
    pub(super) context: usize,
    /// Sample paths; 0 where the quantiles are exact.
    pub(super) paths: usize,
    pub(super) sha256: String,
    pub(super) symbols: BTreeMap<String, Score>,
}

/// The scores of a symbol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Score {
    /// Share of actual values within the 80% interval.
    pub(super) coverage_80: f64,
    /// Mean absolute error of the median.
    pub(super) mae: f64,
    /// The same in percent of the mean price.
    pub(super) mae_percent: f64,
    /// What that means.
    pub(super) verdict: String,
    /// Mean weighted quantile loss over the deciles.
    pub(super) wql: f64,
}

/// How it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) columns: Vec<String>,
    pub(super) context: Option<usize>,
    pub(super) dtype: String,
    pub(super) horizon: usize,
    pub(super) mode: Option<String>,
    pub(super) samples: Option<usize>,
    pub(super) seed: u64,
    pub(super) time: Option<String>,
    /// How much a score may move, as a share.
    pub(super) tolerance: f64,
    pub(super) windows: usize,
}

impl Score {
    pub(super) fn of(scores: Scores) -> Self {
        let Scores { mae, mae_percent, wql, coverage } = scores;
        Self { coverage_80: coverage, mae, mae_percent, verdict: verdict(mae_percent).into(), wql }
    }

    /// Its numbers by name.
    pub(super) fn numbers(&self) -> [(&'static str, f64); 4] {
        let Self { coverage_80, mae, mae_percent, wql, .. } = *self;
        [("mae", mae), ("mae_percent", mae_percent), ("wql", wql), ("coverage_80", coverage_80)]
    }
}

/// What an error in percent of the mean price means.
fn verdict(percent: f64) -> &'static str {
    match percent {
        percent if percent < 5.0 => "excellent",
        percent if percent < 10.0 => "good",
        percent if percent <= 15.0 => "fair",
        _ => "investigate",
    }
}

impl Baseline {
    pub(super) fn new(settings: Settings) -> Self {
        let version = env!("CARGO_PKG_VERSION").into();
        Self { data: BTreeMap::new(), format: FORMAT, models: BTreeMap::new(), settings, version }
    }

    /// Reads a baseline.
    ///
    /// # Errors
    /// One line that says what is wrong with the file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let size = std::fs::metadata(path).map_err(|error| Error::file(path, error))?.len();
        let fault = |problem: String| {
            let file = path.display();
            Error::Data(format!("{file} is no baseline: {problem}; write one with nowcast baseline save"))
        };
        if size > MOST_BYTES {
            return Err(fault(format!("it has {size} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
        let baseline: Self = serde_json::from_str(&text).map_err(|error| fault(error.to_string()))?;
        if baseline.format != FORMAT {
            return Err(fault(format!("its format is {} and this version knows {FORMAT}", baseline.format)));
        }
        let scores = baseline.models.values().flat_map(|model| model.symbols.values());
        if scores.clone().count() == 0 || !(0.0..=10.0).contains(&baseline.settings.tolerance) {
            return Err(fault("it holds no scores, or no tolerance".into()));
        }
        Ok(baseline)
    }

    /// The text of its file.
    pub(super) fn text(&self) -> Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::Data(format!("cannot write the baseline: {error}")))?;
        text.push(b'\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_in_percent_have_their_names() {
        let named = [4.99, 5.0, 9.99, 10.0, 15.0, 15.01].map(verdict);
        assert_eq!(named, ["excellent", "good", "good", "fair", "fair", "investigate"]);
    }
}
