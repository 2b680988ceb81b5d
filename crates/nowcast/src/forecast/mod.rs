//! The answer to one [`Series`](crate::series::Series): for each variate, the distribution of every future step.

mod aggregation;
mod statistics;
mod values;

pub use aggregation::Aggregation;
pub(crate) use aggregation::check_level;
pub use nowcast_engine::student_t::Mixture;
pub use values::Values;

use crate::{Error, Result};
use statistics::{PointMass, SortedSamples, StepDistribution};

/// The forecast of one series: a horizon and one [`VariateForecast`] per variate, in the order of the series.
#[derive(Debug, Clone)]
pub struct Forecast {
    horizon: usize,
    variates: Vec<VariateForecast>,
}

impl Forecast {
    /// Gathers the variates of one series.
    ///
    /// # Errors
    /// No variate, or variates of different horizon.
    pub fn new(variates: Vec<VariateForecast>) -> Result<Self> {
        let horizon = variates.first().map_or(0, VariateForecast::horizon);
        if horizon == 0 {
            return Err(Error::Data("a forecast needs at least one variate".into()));
        }
        if let Some(other) = variates.iter().find(|variate| variate.horizon() != horizon) {
            return Err(Error::Data(format!(
                "the forecast of {:?} has {} steps where the first variate has {horizon}",
                other.name(),
                other.horizon()
            )));
        }
        Ok(Self { horizon, variates })
    }

    /// Number of future steps.
    pub fn horizon(&self) -> usize {
        self.horizon
    }

    /// The forecasts of the variates, in the order of the series.
    pub fn variates(&self) -> &[VariateForecast] {
        &self.variates
    }

    /// The forecasts of the variates, for keeping.
    pub fn into_variates(self) -> Vec<VariateForecast> {
        self.variates
    }

    /// The forecast of the first variate of this name.
    pub fn variate(&self, name: &str) -> Option<&VariateForecast> {
        self.variates.iter().find(|variate| variate.name() == name)
    }
}

/// What is known of the future of one variate, in real units.
#[derive(Debug, Clone)]
pub enum Distribution {
    /// The exact distribution of every step, `[horizon]`: what one decoded patch gives without sampling.
    Mixture(Vec<Mixture>),
    /// Sample paths, `[samples, horizon]`, one path after the other.
    Paths {
        /// Number of paths.
        samples: usize,
        /// The values, `[samples, horizon]`.
        values: Values,
    },
    /// The samples of each step in ascending order, `[horizon, samples]`: what is left of paths that nobody asked for.
    Samples {
        /// Number of samples of a step.
        samples: usize,
        /// The values, `[horizon, samples]`, each row in ascending order.
        values: Values,
    },
    /// The mean path alone, `[horizon]`: what mean decoding gives.
    Mean(Values),
}

/// The forecast of one variate.
///
/// All results are f64 in real units, one number per step, `[horizon]`.
#[derive(Debug, Clone)]
pub struct VariateForecast {
    name: String,
    horizon: usize,
    distribution: Distribution,
    /// Levels and their quantiles, `[horizon]` each, that came with the distribution.
    quantiles: Vec<(f64, Vec<f64>)>,
}

impl VariateForecast {
    /// Checks and names a distribution; the horizon is that of the distribution.
    ///
    /// # Errors
    /// No step, no path, paths of unequal length, or a value that is not finite.
    pub fn new(name: impl Into<String>, distribution: Distribution) -> Result<Self> {
        let forecast = Self::of_checked(name, distribution)?;
        match &forecast.distribution {
            Distribution::Mixture(_) => {}
            Distribution::Paths { values, .. } | Distribution::Mean(values) => {
                check_finite(&forecast.name, forecast.horizon, values)?;
            }
            Distribution::Samples { samples, values } => check_sorted(&forecast.name, *samples, values)?,
        }
        Ok(forecast)
    }

    /// Names a distribution whose values are known to be finite, and of samples to rise.
    ///
    /// # Errors
    /// No step, no path, or paths of unequal length.
    pub(crate) fn of_checked(name: impl Into<String>, distribution: Distribution) -> Result<Self> {
        let name = name.into();
        let horizon = match &distribution {
            Distribution::Mixture(steps) => steps.len(),
            Distribution::Paths { samples, values } | Distribution::Samples { samples, values } => {
                let horizon = values.len().checked_div(*samples).unwrap_or(0);
                if horizon * samples != values.len() || values.is_empty() {
                    let what = match distribution {
                        Distribution::Paths { .. } => format!("no {samples} paths of equal length"),
                        _ => format!("not {samples} samples of every step"),
                    };
                    return Err(Error::Data(format!("{} values are {what} for {name:?}", values.len())));
                }
                horizon
            }
            Distribution::Mean(values) => values.len(),
        };
        if horizon == 0 {
            return Err(Error::Data(format!("the forecast of {name:?} has no step")));
        }
        Ok(Self { name, horizon, distribution, quantiles: Vec::new() })
    }

    /// The same forecast with some of its quantiles at hand: levels and `[horizon]` each.
    pub(crate) fn with_quantiles(self, quantiles: Vec<(f64, Vec<f64>)>) -> Self {
        Self { quantiles, ..self }
    }

    /// The same forecast under another name.
    #[must_use]
    pub fn renamed(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Name of the variate.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of future steps.
    pub fn horizon(&self) -> usize {
        self.horizon
    }

    /// The distribution as it was computed.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// The sample paths, each `[horizon]`; `None` where the forecast is not made of paths or was not asked to keep them.
    pub fn paths(&self) -> Option<std::slice::ChunksExact<'_, f32>> {
        match &self.distribution {
            Distribution::Paths { values, .. } => Some(values.chunks_exact(self.horizon)),
            Distribution::Mixture(_) | Distribution::Samples { .. } | Distribution::Mean(_) => None,
        }
    }

    /// The mean of each step; of samples it is taken in f64.
    pub fn mean(&self) -> Vec<f64> {
        self.central(Aggregation::Mean)
    }

    /// The median of each step (the quantile at 0.5); of a mean path, that path.
    pub fn median(&self) -> Vec<f64> {
        self.central(Aggregation::Median)
    }

    /// The quantile of each step.
    ///
    /// # Errors
    /// A level outside (0, 1), or a forecast that is a mean path only.
    pub fn quantile(&self, level: f64) -> Result<Vec<f64>> {
        self.point(&Aggregation::Quantile(level))
    }

    /// Several quantiles, `[levels, horizon]`, with one pass over the distribution; each has the digits it has alone.
    ///
    /// # Errors
    /// A level outside (0, 1), or a forecast that is a mean path only.
    pub fn quantiles(&self, levels: &[f64]) -> Result<Vec<Vec<f64>>> {
        let rules: Vec<_> = levels.iter().map(|&level| Aggregation::Quantile(level)).collect();
        self.points(&rules)
    }

    /// The standard deviation of each step: unbiased (divisor `samples - 1`) for paths; of a mixture, infinite where a
    /// component has 2 degrees of freedom.
    ///
    /// # Errors
    /// A forecast that is a mean path or a single path.
    pub fn std(&self) -> Result<Vec<f64>> {
        self.check_std()?;
        let mut std = Vec::with_capacity(self.horizon);
        self.for_each_step(|step| std.push(step.std()));
        Ok(std)
    }

    /// The point forecast a rule gives, `[horizon]`.
    ///
    /// A mean path answers `mean`, `median` and the trimmed means with itself.
    ///
    /// # Errors
    /// Numbers of the rule outside their range; a rule that needs a spread applied to a mean path, or one that needs a
    /// standard deviation applied to a single path; a result that is not finite.
    pub fn point(&self, rule: &Aggregation) -> Result<Vec<f64>> {
        Ok(self.points(std::slice::from_ref(rule))?.swap_remove(0))
    }

    /// Several point forecasts, `[rules, horizon]`, with one pass over the distribution.
    ///
    /// # Errors
    /// As [`point`](Self::point).
    pub fn points(&self, rules: &[Aggregation]) -> Result<Vec<Vec<f64>>> {
        for rule in rules {
            rule.check()?;
            if !rule.is_central() {
                self.check_spread(&format!("{rule} needs"))?;
            }
            if rule.needs_std() {
                self.check_std()?;
            }
        }
        let points = self.aggregate(rules);
        for (point, rule) in points.iter().zip(rules) {
            if let Some(step) = point.iter().position(|value| !value.is_finite()) {
                return Err(Error::Setting(format!(
                    "{rule} of {:?} is {} at step {}, where the tails have no finite spread: choose a quantile",
                    self.name,
                    point[step],
                    step + 1
                )));
            }
        }
        Ok(points)
    }

    /// A rule that every distribution answers.
    fn central(&self, rule: Aggregation) -> Vec<f64> {
        self.aggregate(&[rule]).swap_remove(0)
    }

    /// Applies checked rules to every step, `[rules, horizon]`.
    fn aggregate(&self, rules: &[Aggregation]) -> Vec<Vec<f64>> {
        let mut points: Vec<_> = rules.iter().map(|rule| self.at_hand(rule).unwrap_or_default()).collect();
        let mut missing: Vec<_> = points.iter_mut().zip(rules).filter(|(point, _)| point.is_empty()).collect();
        if !missing.is_empty() {
            self.for_each_step(|step| missing.iter_mut().for_each(|(point, rule)| point.push(rule.of(step))));
        }
        points
    }

    /// What a rule gives where that came with the distribution.
    fn at_hand(&self, rule: &Aggregation) -> Option<Vec<f64>> {
        let wanted = rule.level()?;
        self.quantiles.iter().find(|(level, _)| *level == wanted).map(|(_, values)| values.clone())
    }

    /// Shows every step in turn; the samples of a step are sorted once.
    fn for_each_step(&self, mut visit: impl FnMut(&dyn StepDistribution)) {
        match &self.distribution {
            Distribution::Mixture(steps) => steps.iter().for_each(|mixture| visit(mixture)),
            Distribution::Paths { samples, values } => {
                let mut sorted = Vec::with_capacity(*samples);
                for step in 0..self.horizon {
                    sorted.clear();
                    sorted.extend(values[step..].iter().step_by(self.horizon));
                    sorted.sort_unstable_by(f32::total_cmp);
                    visit(&SortedSamples(&sorted));
                }
            }
            Distribution::Samples { samples, values } => {
                values.chunks_exact(*samples).for_each(|step| visit(&SortedSamples(step)));
            }
            Distribution::Mean(values) => values.iter().for_each(|&value| visit(&PointMass(f64::from(value)))),
        }
    }

    fn check_spread(&self, what_needs: &str) -> Result<()> {
        match self.distribution {
            Distribution::Mean(_) => Err(Error::Setting(format!(
                "{what_needs} a distribution, but {:?} was forecast as a mean path only: forecast with --decode sample",
                self.name
            ))),
            _ => Ok(()),
        }
    }

    fn check_std(&self) -> Result<()> {
        self.check_spread("a standard deviation needs")?;
        match self.distribution {
            Distribution::Paths { samples: 1, .. } | Distribution::Samples { samples: 1, .. } => {
                Err(Error::Setting(format!(
                    "a standard deviation needs at least two sample paths, but {:?} has one: raise --samples",
                    self.name
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses values that are not finite: `[paths, horizon]`.
fn check_finite(name: &str, horizon: usize, values: &[f32]) -> Result<()> {
    // Pieces are looked at whole, which is faster than value by value.
    let are_finite = |values: &[f32]| values.iter().fold(true, |all, value| all & value.is_finite());
    if values.chunks(1024).all(are_finite) {
        return Ok(());
    }
    let at = values.iter().position(|value| !value.is_finite());
    at.map_or(Ok(()), |at| Err(not_finite(name, at % horizon, values[at])))
}

/// Refuses samples that do not rise or are not finite: `[horizon, samples]`.
fn check_sorted(name: &str, samples: usize, values: &[f32]) -> Result<()> {
    let rises = |of_step: &[f32]| of_step.windows(2).fold(true, |all, pair| all & (pair[0] <= pair[1]));
    for (step, of_step) in values.chunks_exact(samples).enumerate() {
        // Between finite ends all are finite.
        if rises(of_step) && of_step[0].is_finite() && of_step[samples - 1].is_finite() {
            continue;
        }
        return Err(match of_step.iter().find(|value| !value.is_finite()) {
            Some(&value) => not_finite(name, step, value),
            None => Error::Data(format!("the samples of step {} of {name:?} are not in ascending order", step + 1)),
        });
    }
    Ok(())
}

fn not_finite(name: &str, step: usize, value: f32) -> Error {
    let cause = match value.is_nan() {
        true => "the model's own numbers overflow, which --sync finds the place of",
        false => "its values are too large for f32, divide the series by a power of ten",
    };
    Error::Data(format!("the forecast of {name:?} is {value} at step {}: {cause}", step + 1))
}

#[cfg(test)]
mod tests;
