//! One way to forecast a symbol: what a search varies and a file of parameters keeps.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Aggregation, CandleOptions, Error, ForecastOptions, Result};

/// Settings of a forecast; `None` leaves one as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Past bars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// Sample paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
    /// The point forecast, by the name of its [`Aggregation`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
    /// Kronos: divides the logits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Kronos: the likeliest tokens kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
    /// Kronos: the cumulative probability kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Kronos: where normalised values are clipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
}

impl Choice {
    /// The point forecast.
    ///
    /// # Errors
    /// No rule of this name.
    pub fn rule(&self) -> Result<Option<Aggregation>> {
        self.point.as_deref().map(str::parse).transpose()
    }

    /// These settings, and where one is not set, those of `other`.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            context: self.context.or(other.context),
            samples: self.samples.or(other.samples),
            point: self.point.or_else(|| other.point.clone()),
            temperature: self.temperature.or(other.temperature),
            top_k: self.top_k.or(other.top_k),
            top_p: self.top_p.or(other.top_p),
            clip: self.clip.or(other.clip),
        }
    }

    /// Applies what Toto knows.
    ///
    /// # Errors
    /// A setting that only Kronos knows.
    pub fn apply_to_series(&self, options: &mut ForecastOptions) -> Result<()> {
        let other = [
            ("temperature", self.temperature.is_some()),
            ("top_k", self.top_k.is_some()),
            ("top_p", self.top_p.is_some()),
            ("clip", self.clip.is_some()),
        ];
        if let Some((name, _)) = other.iter().find(|(_, given)| *given) {
            return Err(Error::Setting(format!("{name} is a setting of Kronos models, and this is a Toto model")));
        }
        options.context = self.context.or(options.context);
        options.samples = self.samples.or(options.samples);
        Ok(())
    }

    /// Applies everything but the point forecast.
    pub fn apply_to_candles(&self, options: &mut CandleOptions) {
        options.context = self.context.or(options.context);
        options.samples = self.samples.or(options.samples);
        options.temperature = self.temperature.unwrap_or(options.temperature);
        options.top_k = self.top_k.unwrap_or(options.top_k);
        options.top_p = self.top_p.unwrap_or(options.top_p);
        options.clip = self.clip.unwrap_or(options.clip);
    }
}

impl fmt::Display for Choice {
    /// `context 256, samples 64`; `defaults` where nothing is set.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: Option<&dyn fmt::Display>, name: &str| value.map(|value| format!("{name} {value}"));
        let parts = [
            text(self.context.as_ref().map(|value| value as _), "context"),
            text(self.samples.as_ref().map(|value| value as _), "samples"),
            text(self.point.as_ref().map(|value| value as _), "point"),
            text(self.temperature.as_ref().map(|value| value as _), "temperature"),
            text(self.top_k.as_ref().map(|value| value as _), "top_k"),
            text(self.top_p.as_ref().map(|value| value as _), "top_p"),
            text(self.clip.as_ref().map(|value| value as _), "clip"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        out.write_str(if parts.is_empty() { "defaults" } else { "" })?;
        out.write_str(&parts.join(", "))
    }
}
