//! One time series as a forecaster takes it: values, which of them are valid, and names.

use crate::{Error, Result};

/// One independent item to forecast: one or several variates over the same time steps.
///
/// Variates of one `Series` attend to each other; different `Series` never do. Values are
/// `[variates, length]`, variate-major; a missing value is NaN and is masked, never invented.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    names: Vec<String>,
    values: Vec<f32>,
    valid: Vec<bool>,
    length: usize,
    groups: Vec<i64>,
    exogenous: usize,
    future: Vec<f32>,
}

impl Series {
    /// A single variate. Missing values are NaN.
    pub fn new(name: impl Into<String>, values: Vec<f32>) -> Result<Self> {
        Self::multivariate(vec![(name.into(), values)])
    }

    /// Several variates of equal length that may attend to each other.
    ///
    /// # Errors
    /// No variate, no time step, or variates of different length.
    pub fn multivariate(variates: Vec<(String, Vec<f32>)>) -> Result<Self> {
        let length = variates.first().map_or(0, |(_, values)| values.len());
        if length == 0 {
            return Err(Error::Data("a series needs at least one value".into()));
        }
        if let Some((name, values)) = variates.iter().find(|(_, values)| values.len() != length) {
            return Err(Error::Data(format!(
                "variate {name:?} has {} values where the first has {length}: variates of one series share their time steps",
                values.len()
            )));
        }
        let (names, values): (Vec<_>, Vec<_>) = variates.into_iter().unzip();
        let groups = vec![0; names.len()];
        let values = values.concat();
        let valid = values.iter().map(|value| value.is_finite()).collect();
        Ok(Self { names, values, valid, length, groups, exogenous: 0, future: Vec::new() })
    }

    /// Masks points explicitly, `[variates, length]`: a masked point keeps its value but stays out of the statistics.
    /// Points that are not finite are masked in any case.
    ///
    /// # Errors
    /// Not one flag for each point.
    pub fn with_mask(mut self, valid: &[bool]) -> Result<Self> {
        if valid.len() != self.values.len() {
            return Err(Error::Data(format!("{} mask flags for {} points", valid.len(), self.values.len())));
        }
        self.valid = valid.iter().zip(&self.values).map(|(&flag, value)| flag && value.is_finite()).collect();
        Ok(self)
    }

    /// Gives each variate a group: only variates of the same group attend to each other.
    ///
    /// # Errors
    /// Not one group id for each variate.
    pub fn with_groups(mut self, groups: Vec<i64>) -> Result<Self> {
        if groups.len() != self.variates() {
            return Err(Error::Data(format!("{} group ids for {} variates", groups.len(), self.variates())));
        }
        self.groups = groups;
        Ok(self)
    }

    /// Declares the last `count` variates exogenous, their future known: `[count, steps]` values, variate-major.
    /// Steps past the given future count as zero, as in the reference.
    ///
    /// # Errors
    /// More exogenous variates than variates minus one, or a future that is not whole.
    pub fn with_exogenous(mut self, count: usize, future: Vec<f32>) -> Result<Self> {
        if count >= self.variates() {
            return Err(Error::Data(format!(
                "{count} exogenous of {} variates leave nothing to forecast",
                self.variates()
            )));
        }
        if count == 0 || !future.len().is_multiple_of(count) || future.iter().any(|value| !value.is_finite()) {
            return Err(Error::Data("the future of exogenous variates must be whole and finite".into()));
        }
        self.exogenous = count;
        self.future = future;
        Ok(self)
    }

    /// Only the last `context` time steps.
    #[must_use]
    pub fn tail(&self, context: usize) -> Self {
        let keep = context.min(self.length);
        Self {
            names: self.names.clone(),
            values: ends(&self.values, self.length, keep),
            valid: ends(&self.valid, self.length, keep),
            length: keep,
            groups: self.groups.clone(),
            exogenous: self.exogenous,
            future: self.future.clone(),
        }
    }

    /// Names of the variates.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of variates.
    pub fn variates(&self) -> usize {
        self.names.len()
    }

    /// Number of time steps.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Values of one variate.
    pub fn values(&self, variate: usize) -> &[f32] {
        &self.values[variate * self.length..(variate + 1) * self.length]
    }

    /// Which points of one variate are valid (not masked).
    pub fn valid(&self, variate: usize) -> &[bool] {
        &self.valid[variate * self.length..(variate + 1) * self.length]
    }

    /// Group id of each variate.
    pub fn groups(&self) -> &[i64] {
        &self.groups
    }

    /// How many of the last variates are exogenous.
    pub fn exogenous(&self) -> usize {
        self.exogenous
    }

    /// Known future of the exogenous variates, `[exogenous, steps]`.
    pub fn future(&self) -> &[f32] {
        &self.future
    }
}

/// The last `keep` of each `length` values.
fn ends<T: Copy>(values: &[T], length: usize, keep: usize) -> Vec<T> {
    values.chunks(length).map(|variate| &variate[length - keep..]).collect::<Vec<_>>().concat()
}
