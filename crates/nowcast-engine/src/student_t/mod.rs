//! Mixtures of Student-t distributions, exactly: probabilities, quantiles and means without sampling.
//!
//! A decoded patch of a Toto head is one such mixture per position. Its quantiles are roots of its
//! distribution function, so they carry no Monte Carlo noise. Everything here is `f64`; tail
//! probabilities are computed as such, never as one minus the other side.

mod component;
mod quantile;

use component::Component;

/// Why four lists of numbers are not a mixture.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MixtureError {
    /// The lists are empty or their lengths differ.
    #[error(
        "a mixture needs as many weights ({weights}) as degrees of freedom ({degrees_of_freedom}), locations \
         ({locations}) and scales ({scales}), and at least one: check the head's component count"
    )]
    Lengths {
        /// Number of weights given.
        weights: usize,
        /// Number of degrees of freedom given.
        degrees_of_freedom: usize,
        /// Number of locations given.
        locations: usize,
        /// Number of scales given.
        scales: usize,
    },
    /// A parameter is not finite or outside its range.
    #[error("{parameter} of mixture component {component} is {value}: it must be {requirement}; check the checkpoint")]
    Parameter {
        /// Which parameter it is.
        parameter: &'static str,
        /// Index of the component, from 0.
        component: usize,
        /// The offending value.
        value: f64,
        /// What the value must satisfy.
        requirement: &'static str,
    },
    /// All weights are zero.
    #[error("the weights of a mixture sum to {0}: they need a positive, finite sum; check the checkpoint")]
    WeightSum(f64),
}

/// A mixture of K location-scale Student-t distributions,
/// `density(x) = sum_k weight_k t((x - location_k) / scale_k; degrees_of_freedom_k) / scale_k`.
#[derive(Debug, Clone)]
pub struct Mixture {
    components: Vec<Component>,
}

/// What root finding needs to know about one point of a mixture.
#[derive(Debug, Clone, Copy)]
struct Evaluation {
    /// P[X <= x].
    lower: f64,
    /// P[X > x], not computed as `1 - lower`.
    upper: f64,
    density: f64,
    /// Derivative of the density.
    slope: f64,
}

impl Mixture {
    /// A mixture from K weights, degrees of freedom, locations and scales.
    ///
    /// Weights need not sum to one; they are divided by their sum. Degrees of freedom start at 2, the value
    /// a Toto head rounds to at its lower end (there the variance is infinite).
    ///
    /// # Errors
    /// [`MixtureError`] when lengths differ, a weight is negative, a scale is not positive, degrees of freedom
    /// are below 2, or any number is not finite.
    pub fn new(
        weights: Vec<f64>,
        degrees_of_freedom: Vec<f64>,
        locations: Vec<f64>,
        scales: Vec<f64>,
    ) -> Result<Self, MixtureError> {
        let count = weights.len();
        if count == 0 || [degrees_of_freedom.len(), locations.len(), scales.len()] != [count; 3] {
            return Err(MixtureError::Lengths {
                weights: count,
                degrees_of_freedom: degrees_of_freedom.len(),
                locations: locations.len(),
                scales: scales.len(),
            });
        }
        require(&weights, "weight", "finite and not negative", |value| value >= 0.0)?;
        require(&degrees_of_freedom, "degrees of freedom", "finite and at least 2", |value| value >= 2.0)?;
        require(&locations, "location", "finite", |_| true)?;
        require(&scales, "scale", "finite and positive", |value| value > 0.0)?;
        let sum: f64 = weights.iter().sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(MixtureError::WeightSum(sum));
        }
        let components = (0..count)
            .map(|k| Component::new(weights[k] / sum, degrees_of_freedom[k], locations[k], scales[k]))
            .collect();
        Ok(Self { components })
    }

    /// Number of components K.
    pub fn component_count(&self) -> usize {
        self.components.len()
    }

    /// P[X <= x].
    pub fn cdf(&self, x: f64) -> f64 {
        self.evaluate(x).lower
    }

    /// P[X > x], with full relative precision far to the right.
    pub fn survival(&self, x: f64) -> f64 {
        self.evaluate(x).upper
    }

    /// Probability density at `x`.
    pub fn density(&self, x: f64) -> f64 {
        self.evaluate(x).density
    }

    /// The `x` with P[X <= x] = `level`: minus infinity at 0, infinity at 1, NaN outside [0, 1].
    pub fn quantile(&self, level: f64) -> f64 {
        self.quantiles(&[level])[0]
    }

    /// [`quantile`](Self::quantile) for several levels, in the order given; ascending levels are fastest.
    pub fn quantiles(&self, levels: &[f64]) -> Vec<f64> {
        quantile::solve(self, levels)
    }

    /// The mean, `sum_k weight_k location_k`.
    pub fn mean(&self) -> f64 {
        self.components.iter().map(|component| component.weight * component.location).sum()
    }

    /// The variance; infinite where a component of positive weight has 2 degrees of freedom.
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        let spread = |component: &Component| component.variance() + (component.location - mean).powi(2);
        self.components
            .iter()
            .filter(|component| component.weight > 0.0)
            .map(|component| component.weight * spread(component))
            .sum()
    }

    /// E[X; X <= x], the integral of `u density(u)` up to `x`: zero at minus infinity, the mean at infinity.
    pub fn partial_expectation(&self, x: f64) -> f64 {
        self.partial_expectation_about(x, 0.0)
    }

    /// E[X | quantile(low) <= X <= quantile(high)], the mean of what lies between two levels; a mean trimmed
    /// by a tenth on both sides is `mean_between(0.1, 0.9)`. NaN unless `0 <= low < high <= 1`.
    pub fn mean_between(&self, low: f64, high: f64) -> f64 {
        if !(0.0 <= low && low < high && high <= 1.0) {
            return f64::NAN;
        }
        let ends = self.quantiles(&[low, high]);
        // A centre inside the interval keeps a common offset of all locations out of the difference.
        let centre = match (ends[0].is_finite(), ends[1].is_finite()) {
            (true, true) => 0.5 * ends[0] + 0.5 * ends[1],
            (true, false) => ends[0],
            (false, true) => ends[1],
            (false, false) => return self.mean(),
        };
        let about = |x| self.partial_expectation_about(x, centre);
        centre + (about(ends[1]) - about(ends[0])) / (high - low)
    }

    /// E[X - centre; X <= x].
    fn partial_expectation_about(&self, x: f64, centre: f64) -> f64 {
        self.components.iter().map(|component| component.partial_expectation_about(x, centre)).sum()
    }

    /// A length of the size of the whole mixture: the widest scale plus the spread of the locations.
    fn spread(&self) -> f64 {
        let mean = self.mean();
        self.components.iter().map(|component| component.scale + (component.location - mean).abs()).fold(0.0, f64::max)
    }

    fn evaluate(&self, x: f64) -> Evaluation {
        let mut total = Evaluation { lower: 0.0, upper: 0.0, density: 0.0, slope: 0.0 };
        for component in &self.components {
            let part = component.evaluate(x);
            total.lower += component.weight * part.lower;
            total.upper += component.weight * part.upper;
            total.density += component.weight * part.density;
            total.slope += component.weight * part.slope;
        }
        total
    }
}

fn require(
    values: &[f64],
    parameter: &'static str,
    requirement: &'static str,
    accept: impl Fn(f64) -> bool,
) -> Result<(), MixtureError> {
    match values.iter().position(|&value| !(value.is_finite() && accept(value))) {
        Some(component) => Err(MixtureError::Parameter { parameter, component, value: values[component], requirement }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
