//! Running statistics that bring a series to zero mean and unit scale (Toto 1.0, `model/scaler.py`).
//!
//! Everything is f64 in Welford's form, as in the reference. Unlike there, locations and scales stay f64 until the
//! scaled value is rounded, so that a large level (1e7 with noise of 500) costs no digits.

/// Which points the statistics of a point cover.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaler {
    /// One location and scale for the whole context (`StdMeanScaler`).
    Global,
    /// Statistics of all points up to this one (`CausalStdMeanScaler`).
    Causal,
    /// Statistics up to the end of the point's patch (`CausalPatchStdMeanScaler`).
    CausalPatch {
        /// The scale stays within `10^±exponent` of the context's own scale.
        stabilise_exponent: Option<f64>,
    },
}

/// Added to the variance by the causal scalers; also the least scale when stabilised.
const CAUSAL_MINIMUM: f64 = 0.1;
/// Added to the variance by the global scaler.
const GLOBAL_MINIMUM: f64 = 1e-3;

/// Number of f64 values in a stored [`Statistics`].
pub const STATE_WIDTH: usize = 6;

/// Statistics of one series (or path) up to a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistics {
    count: f64,
    sum: f64,
    second_moment: f64,
    mean: f64,
    least_scale: f64,
    greatest_scale: f64,
}

impl Statistics {
    /// Before the first point of a context; the whole context is needed for its global part.
    pub fn before(scaler: Scaler, values: &[f32], mask: &[f32]) -> Self {
        let mut start = Self {
            count: 0.0,
            sum: 0.0,
            second_moment: 0.0,
            mean: 0.0,
            least_scale: f64::NEG_INFINITY,
            greatest_scale: f64::INFINITY,
        };
        match scaler {
            Scaler::Causal | Scaler::CausalPatch { stabilise_exponent: None } => {}
            Scaler::CausalPatch { stabilise_exponent: Some(exponent) } => {
                let (_, variance) = global_moments(values, mask);
                let scale = (variance + CAUSAL_MINIMUM).sqrt();
                start.least_scale = CAUSAL_MINIMUM.max(scale * 10f64.powf(-exponent));
                start.greatest_scale = scale * 10f64.powf(exponent);
            }
            Scaler::Global => {
                let (mean, variance) = global_moments(values, mask);
                start.mean = mean;
                start.least_scale = (variance + GLOBAL_MINIMUM).sqrt();
            }
        }
        start
    }

    /// Takes in one point.
    #[inline]
    pub fn push(&mut self, value: f64, weight: f64) {
        let before = self.mean;
        self.count += weight;
        self.sum += weight * value;
        self.mean = self.sum / self.count.max(1.0);
        self.second_moment += (value - before) * (value - self.mean) * weight;
    }

    /// Location and scale at this point.
    #[inline]
    pub fn location_scale(&self) -> (f64, f64) {
        let variance = self.second_moment / (self.count.max(1.0) - 1.0).max(1.0);
        let scale = (variance + CAUSAL_MINIMUM).sqrt();
        // Not `clamp`: the bounds may cross, and the reference lets the upper one win.
        let scale = scale.max(self.least_scale).min(self.greatest_scale);
        (self.mean, scale)
    }

    /// As stored between passes.
    pub fn to_state(self) -> [f64; STATE_WIDTH] {
        [self.count, self.sum, self.second_moment, self.mean, self.least_scale, self.greatest_scale]
    }

    /// As read back.
    pub fn from_state(state: &[f64]) -> Self {
        Self {
            count: state[0],
            sum: state[1],
            second_moment: state[2],
            mean: state[3],
            least_scale: state[4],
            greatest_scale: state[5],
        }
    }
}

fn global_moments(values: &[f32], mask: &[f32]) -> (f64, f64) {
    let points = || values.iter().zip(mask).map(|(&value, &weight)| (f64::from(value), f64::from(weight)));
    let count = points().map(|(_, weight)| weight).sum::<f64>().max(1.0);
    let mean = points().map(|(value, weight)| weight * value).sum::<f64>() / count;
    let mean = if mean.is_finite() { mean } else { 0.0 };
    let variance = points().map(|(value, weight)| ((value - mean) * weight).powi(2)).sum::<f64>() / count;
    (mean, variance)
}

/// Where [`scale_patch`] writes: one value for each point of the patch.
#[derive(Debug)]
pub struct ScaledPatch<'a> {
    /// `(value - location) / scale`.
    pub scaled: &'a mut [f32],
    /// Location of each point.
    pub location: &'a mut [f64],
    /// Scale of each point.
    pub scale: &'a mut [f64],
}

/// Continues the statistics over one patch and scales it. `mask` empty means all points are valid.
pub fn scale_patch<T: Copy + Into<f64>>(
    scaler: Scaler,
    statistics: &mut Statistics,
    values: &[T],
    mask: &[f32],
    out: ScaledPatch<'_>,
) {
    for (index, &value) in values.iter().enumerate() {
        match scaler {
            Scaler::Global => {
                out.location[index] = statistics.mean;
                out.scale[index] = statistics.least_scale;
            }
            Scaler::Causal | Scaler::CausalPatch { .. } => {
                statistics.push(value.into(), mask.get(index).copied().map_or(1.0, f64::from));
                (out.location[index], out.scale[index]) = statistics.location_scale();
            }
        }
    }
    if let Scaler::CausalPatch { .. } = scaler {
        let (location, scale) = statistics.location_scale();
        out.location.fill(location);
        out.scale.fill(scale);
    }
    for (index, &value) in values.iter().enumerate() {
        out.scaled[index] = ((value.into() - out.location[index]) / out.scale[index]) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scaler: Scaler, values: &[f32], mask: &[f32], patch: usize) -> (Vec<f32>, Vec<f64>, Vec<f64>) {
        let (mut scaled, mut location, mut scale) =
            (vec![f32::NAN; values.len()], vec![f64::NAN; values.len()], vec![f64::NAN; values.len()]);
        let mut statistics = Statistics::before(scaler, values, mask);
        for start in (0..values.len()).step_by(patch) {
            let range = start..start + patch;
            let out = ScaledPatch {
                scaled: &mut scaled[range.clone()],
                location: &mut location[range.clone()],
                scale: &mut scale[range.clone()],
            };
            scale_patch(scaler, &mut statistics, &values[range.clone()], &mask[range], out);
        }
        (scaled, location, scale)
    }

    /// Two-pass mean and Bessel-corrected deviation of the valid points of a prefix.
    fn prefix(values: &[f32], mask: &[f32]) -> (f64, f64) {
        let valid: Vec<f64> = values.iter().zip(mask).filter(|(_, w)| **w == 1.0).map(|(v, _)| f64::from(*v)).collect();
        let mean = if valid.is_empty() { 0.0 } else { valid.iter().sum::<f64>() / valid.len() as f64 };
        let squares: f64 = valid.iter().map(|v| (v - mean).powi(2)).sum();
        (mean, (squares / (valid.len().max(2) - 1) as f64 + 0.1).sqrt())
    }

    #[test]
    fn causal_statistics_agree_with_two_passes_over_each_prefix() {
        let values: Vec<f32> = (0..48).map(|i| 1000.0 + (i as f32 * 0.7).sin() * 5.0).collect();
        let mask: Vec<f32> = (0..48).map(|i| if i % 7 == 3 || i < 5 { 0.0 } else { 1.0 }).collect();
        let (_, location, scale) = run(Scaler::Causal, &values, &mask, 8);
        for point in 0..48 {
            let (mean, deviation) = prefix(&values[..=point], &mask[..=point]);
            // 48 f64 additions on either side, magnified by cancellation of the squares of 1000 against 5.
            assert!((location[point] - mean).abs() <= 100.0 * f64::EPSILON * 1000.0);
            assert!((scale[point] - deviation).abs() <= 100.0 * f64::EPSILON * 1000.0);
        }
    }

    #[test]
    fn a_patch_takes_the_statistics_of_its_last_point() {
        let values: Vec<f32> = (0..32).map(|i| i as f32).collect();
        let mask = vec![1.0; 32];
        let (_, causal, _) = run(Scaler::Causal, &values, &mask, 8);
        let (_, patch, _) = run(Scaler::CausalPatch { stabilise_exponent: Some(10.0) }, &values, &mask, 8);
        for point in 0..32 {
            assert_eq!(patch[point], causal[point / 8 * 8 + 7]);
        }
    }

    #[test]
    fn the_global_scaler_uses_one_location_for_all() {
        let (scaled, location, scale) = run(Scaler::Global, &[1.0, 2.0, 3.0, 4.0], &[1.0; 4], 2);
        assert_eq!(location, [2.5; 4]);
        assert!((scale[0] - (1.25f64 + 1e-3).sqrt()).abs() < 1e-15);
        assert_eq!(scaled[3], (1.5 / scale[0]) as f32);
    }

    #[test]
    fn a_series_without_a_valid_point_stays_finite() {
        for scaler in [Scaler::Global, Scaler::Causal, Scaler::CausalPatch { stabilise_exponent: Some(10.0) }] {
            let (scaled, _, _) = run(scaler, &[0.0; 8], &[0.0; 8], 4);
            assert!(scaled.iter().all(|value| *value == 0.0));
        }
    }

    #[test]
    fn a_constant_series_has_the_scale_of_the_added_variance() {
        let (_, _, scale) = run(Scaler::CausalPatch { stabilise_exponent: Some(10.0) }, &[42.0; 8], &[1.0; 8], 4);
        assert_eq!(scale[7], 0.1f64.sqrt());
    }
}
