//! Mixtures of Student-t distributions, exactly: probabilities, quantiles and means without sampling.
//!
//! A decoded patch of a Toto head is one such mixture per position. Its quantiles are roots of its
//! distribution function, so they carry no Monte Carlo noise. Everything here is `f64`; tail
//! probabilities are computed as such, never as one minus the other side.

mod component;
mod quantile;

use std::sync::OnceLock;

use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::vector::Vector;
use crate::elementary::exp;
use component::{Component, Components, LANES};

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
    /// Their weights sum to one.
    components: Vec<Component>,
    mean: f64,
    /// What a point is evaluated with; many a mixture is never asked.
    blocks: OnceLock<Vec<Components>>,
}

/// Parameters of one time step in the units of a head, one value for each component.
#[derive(Debug, Clone, Copy)]
pub struct HeadParameters<'a> {
    /// Degrees of freedom, at least 2.
    pub degrees_of_freedom: &'a [f64],
    /// Locations.
    pub locations: &'a [f64],
    /// Scales, above 0.
    pub scales: &'a [f64],
    /// Logarithms of the weights up to a constant.
    pub logits: &'a [f64],
}

impl HeadParameters<'_> {
    /// The mixture of `affine_scale * x + affine_location`.
    ///
    /// # Errors
    /// As [`Mixture::new`].
    pub fn mixture(&self, affine_location: f64, affine_scale: f64) -> Result<Mixture, MixtureError> {
        let Self { degrees_of_freedom, locations, scales, logits } = *self;
        let count = check_lengths([logits, degrees_of_freedom, locations, scales].map(<[f64]>::len))?;
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let component = |k: usize| Component {
            weight: logits[k] - largest,
            degrees_of_freedom: degrees_of_freedom[k],
            location: locations[k] * affine_scale + affine_location,
            scale: scales[k] * affine_scale,
        };
        let mut components: Vec<_> = (0..count).map(component).collect();
        InstructionSet::detected().dispatch(Weigh(&mut components));
        Mixture::of(components)
    }
}

/// What root finding needs to know about one point of a mixture.
#[derive(Debug, Clone, Copy, Default)]
struct Evaluation {
    /// `P[X <= x]`.
    lower: f64,
    /// P[X > x], not computed as `1 - lower`.
    upper: f64,
    density: f64,
    /// Derivative of the density.
    slope: f64,
    /// The largest rate of change of any component; see [`component::Values`].
    rate: f64,
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
        let lengths = [&weights, &degrees_of_freedom, &locations, &scales].map(Vec::len);
        let component = |k: usize| Component {
            weight: weights[k],
            degrees_of_freedom: degrees_of_freedom[k],
            location: locations[k],
            scale: scales[k],
        };
        Self::of((0..check_lengths(lengths)?).map(component).collect())
    }

    /// A mixture of components whose weights need not sum to one.
    fn of(mut components: Vec<Component>) -> Result<Self, MixtureError> {
        let each = |part: fn(&Component) -> f64| components.iter().map(part);
        require(each(|one| one.weight), "weight", "finite and not negative", |value| value >= 0.0)?;
        let nu = each(|one| one.degrees_of_freedom);
        require(nu, "degrees of freedom", "finite and at least 2", |value| value >= 2.0)?;
        require(each(|one| one.location), "location", "finite", |_| true)?;
        require(each(|one| one.scale), "scale", "finite and positive", |value| value > 0.0)?;
        let sum: f64 = each(|one| one.weight).sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(MixtureError::WeightSum(sum));
        }
        components.iter_mut().for_each(|one| one.weight /= sum);
        let mean = components.iter().map(|one| one.weight * one.location).sum();
        Ok(Self { components, mean, blocks: OnceLock::new() })
    }

    /// Number of components K.
    pub fn component_count(&self) -> usize {
        self.components.len()
    }

    /// `P[X <= x]`.
    pub fn cdf(&self, x: f64) -> f64 {
        self.evaluate(x, InstructionSet::detected()).lower
    }

    /// `P[X > x]`, with full relative precision far to the right.
    pub fn survival(&self, x: f64) -> f64 {
        self.evaluate(x, InstructionSet::detected()).upper
    }

    /// Probability density at `x`.
    pub fn density(&self, x: f64) -> f64 {
        self.evaluate(x, InstructionSet::detected()).density
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
        self.mean
    }

    /// The variance; infinite where a component of positive weight has 2 degrees of freedom.
    pub fn variance(&self) -> f64 {
        let term = |one: &Component| {
            let (nu, scale) = (one.degrees_of_freedom, one.scale);
            let own = scale * scale * (nu / (nu - 2.0));
            one.weight * (own + (one.location - self.mean).powi(2))
        };
        // Zero times an infinite variance would not be zero.
        self.components.iter().filter(|one| one.weight > 0.0).map(term).sum()
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

    /// E[X - centre; X <= x]: the integral of `t f(t)` up to `b` is `-f(b) (nu + b^2) / (nu - 1)`.
    fn partial_expectation_about(&self, x: f64, centre: f64) -> f64 {
        if x == f64::INFINITY {
            return self.mean - centre;
        }
        if x == f64::NEG_INFINITY {
            return 0.0;
        }
        let term = |(block, values): (&Components, component::Values), lane: usize| {
            let (nu, scale, location) = (block.degrees_of_freedom[lane], block.scale[lane], block.location[lane]);
            let t = (x - location) / scale;
            let below = scale * scale * values.density[lane] * ((nu + t * t) / (nu - 1.0));
            block.weight[lane] * ((location - centre) * values.lower[lane] - below)
        };
        let evaluated = self.blocks().iter().map(|block| {
            let mut values = component::Values::default();
            InstructionSet::detected().dispatch(EvaluateBlock { block, x, values: &mut values });
            (block, values)
        });
        evaluated.map(|pair| (0..LANES).map(|lane| term(pair, lane)).sum::<f64>()).sum()
    }

    fn evaluate(&self, x: f64, set: InstructionSet) -> Evaluation {
        let mut result = Evaluation::default();
        set.dispatch(Evaluate { blocks: self.blocks(), x, result: &mut result });
        result
    }

    /// A length of the size of the whole mixture: the widest scale plus the spread of the locations.
    fn spread(&self) -> f64 {
        self.components.iter().map(|one| one.scale + (one.location - self.mean).abs()).fold(0.0, f64::max)
    }

    fn blocks(&self) -> &[Components] {
        self.blocks.get_or_init(|| {
            let mut blocks: Vec<_> = self.components.chunks(LANES).map(Components::of).collect();
            InstructionSet::detected().dispatch(Prepare(&mut blocks));
            blocks
        })
    }
}

/// Turns distances of logits from the largest into weights.
struct Weigh<'a>(&'a mut [Component]);

impl Kernel for Weigh<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        for Component { weight, .. } in self.0 {
            // Below, the exponential is no longer one.
            *weight = if *weight < -708.0 { 0.0 } else { exp::<V>(*weight) };
        }
    }
}

struct Prepare<'a>(&'a mut [Components]);

impl Kernel for Prepare<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        for block in self.0 {
            block.prepare::<V>();
        }
    }
}

struct EvaluateBlock<'a> {
    block: &'a Components,
    x: f64,
    values: &'a mut component::Values,
}

impl Kernel for EvaluateBlock<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        *self.values = self.block.evaluate::<V>(self.x);
    }
}

struct Evaluate<'a> {
    blocks: &'a [Components],
    x: f64,
    result: &'a mut Evaluation,
}

impl Kernel for Evaluate<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        *self.result = evaluate::<V>(self.blocks, self.x);
    }
}

#[inline(always)]
fn evaluate<V: Vector>(blocks: &[Components], x: f64) -> Evaluation {
    if !x.is_finite() {
        let (lower, upper) = if x > 0.0 { (1.0, 0.0) } else { (0.0, 1.0) };
        let nothing = if x.is_nan() { f64::NAN } else { 0.0 };
        return Evaluation {
            lower: lower + nothing,
            upper: upper + nothing,
            density: nothing,
            slope: nothing,
            rate: nothing,
        };
    }
    let mut sums = [[0.0; LANES]; 4];
    let mut rate = [0.0; LANES];
    for block in blocks {
        let values = block.evaluate::<V>(x);
        for lane in 0..LANES {
            let weight = block.weight[lane];
            sums[0][lane] += weight * values.lower[lane];
            sums[1][lane] += weight * values.upper[lane];
            sums[2][lane] += weight * values.density[lane];
            sums[3][lane] += weight * values.slope[lane];
            let counted = if weight > 0.0 { values.rate[lane] } else { 0.0 };
            rate[lane] = if counted > rate[lane] { counted } else { rate[lane] };
        }
    }
    let total = |lanes: [f64; LANES]| (0..LANES).map(|lane| lanes[lane]).sum();
    let [lower, upper, density, slope] = sums.map(total);
    Evaluation { lower, upper, density, slope, rate: rate.into_iter().fold(0.0, f64::max) }
}

/// The one length of the weights, degrees of freedom, locations and scales of a mixture.
fn check_lengths(lengths: [usize; 4]) -> Result<usize, MixtureError> {
    let [weights, degrees_of_freedom, locations, scales] = lengths;
    match weights > 0 && lengths == [weights; 4] {
        true => Ok(weights),
        false => Err(MixtureError::Lengths { weights, degrees_of_freedom, locations, scales }),
    }
}

fn require(
    values: impl Iterator<Item = f64>,
    parameter: &'static str,
    requirement: &'static str,
    accept: impl Fn(f64) -> bool,
) -> Result<(), MixtureError> {
    match values.enumerate().find(|&(_, value)| !(value.is_finite() && accept(value))) {
        Some((component, value)) => Err(MixtureError::Parameter { parameter, component, value, requirement }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
