//! How a predictive distribution becomes one number per step: the names traders use, parsed, printed and defined.

use std::fmt;
use std::str::FromStr;

use super::statistics::StepDistribution;
use crate::{Error, Result};

/// A rule that turns the distribution of one step into one number.
///
/// Parses from and prints to the name shown with each rule, with any admissible number in place of the shown one:
/// `"quantile_0.4".parse::<Aggregation>()`. Every rule is defined for `n` samples and, as the limit of many samples, for
/// an exact mixture. `std` is the unbiased sample standard deviation (divisor `n - 1`), or the exact one of a mixture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aggregation {
    /// `mean`: the arithmetic mean.
    Mean,
    /// `median`: the quantile at 0.5, hence the mean of the two middle samples where `n` is even.
    Median,
    /// `trimmed_mean_0.1`, `0 <= p < 0.5`: the mean without the `floor(p n)` lowest and the `floor(p n)` highest
    /// samples (as `scipy.stats.trim_mean`); of a mixture, the mean between its quantiles `p` and `1 - p`.
    TrimmedMean(f64),
    /// `lower_trimmed_mean_0.1`, `0 <= p < 1`: the mean without the `floor(p n)` lowest samples.
    LowerTrimmedMean(f64),
    /// `upper_trimmed_mean_0.1`, `0 <= p < 1`: the mean without the `floor(p n)` highest samples.
    UpperTrimmedMean(f64),
    /// `quantile_0.4`, `0 < q < 1`: the quantile, interpolated linearly between samples at position `q (n - 1)`.
    Quantile(f64),
    /// `mean_minus_std_0.5`, `c >= 0`: `mean - c std`.
    MeanMinusStd(f64),
    /// `mean_plus_std_0.5`, `c >= 0`: `mean + c std`.
    MeanPlusStd(f64),
    /// `mean_quantile_mix_0.4_0.5`, `0 < q < 1`, `0 <= w <= 1`: `w mean + (1 - w) quantile(q)`.
    MeanQuantileMix {
        /// The level `q`, the first number of the name.
        level: f64,
        /// The weight `w` of the mean, the second number of the name.
        weight: f64,
    },
    /// `quantile_plus_std_0.4_0.5`, `0 < q < 1`, `c >= 0`: `quantile(q) + c std`.
    QuantilePlusStd {
        /// The level `q`, the first number of the name.
        level: f64,
        /// The coefficient `c`, the second number of the name.
        coefficient: f64,
    },
}

/// Names of all rules with example numbers, as an error message lists them.
const NAMES: &str = "mean, median, trimmed_mean_0.1, lower_trimmed_mean_0.1, upper_trimmed_mean_0.1, quantile_0.4, \
     mean_minus_std_0.5, mean_plus_std_0.5, mean_quantile_mix_0.4_0.5, quantile_plus_std_0.4_0.5";

impl Aggregation {
    /// Checks that every number lies in the range stated at its rule.
    ///
    /// # Errors
    /// A number outside its range; the line names the range.
    pub fn check(self) -> Result<()> {
        let (number, valid, range) = match self {
            Self::Mean | Self::Median => return Ok(()),
            Self::TrimmedMean(share) => (share, (0.0..0.5).contains(&share), "the trimmed share must be in [0, 0.5)"),
            Self::LowerTrimmedMean(share) | Self::UpperTrimmedMean(share) => {
                (share, (0.0..1.0).contains(&share), "the trimmed share must be in [0, 1)")
            }
            Self::Quantile(level) => return check_level(level),
            Self::MeanMinusStd(coefficient) | Self::MeanPlusStd(coefficient) => {
                return check_coefficient(coefficient);
            }
            Self::MeanQuantileMix { level, weight } => {
                check_level(level)?;
                (weight, (0.0..=1.0).contains(&weight), "the weight of the mean must be in [0, 1]")
            }
            Self::QuantilePlusStd { level, coefficient } => {
                check_level(level)?;
                return check_coefficient(coefficient);
            }
        };
        if valid { Ok(()) } else { Err(Error::Setting(format!("{range}, not {number}"))) }
    }

    /// Whether the rule can be applied to a forecast that is a mean path only.
    pub(super) fn is_central(self) -> bool {
        match self {
            Self::Mean
            | Self::Median
            | Self::TrimmedMean(_)
            | Self::LowerTrimmedMean(_)
            | Self::UpperTrimmedMean(_) => true,
            Self::Quantile(_)
            | Self::MeanMinusStd(_)
            | Self::MeanPlusStd(_)
            | Self::MeanQuantileMix { .. }
            | Self::QuantilePlusStd { .. } => false,
        }
    }

    /// Whether the rule needs a standard deviation, hence at least two samples.
    pub(super) fn needs_std(self) -> bool {
        matches!(self, Self::MeanMinusStd(_) | Self::MeanPlusStd(_) | Self::QuantilePlusStd { .. })
    }

    /// The level of the quantile that the rule is, if it is one.
    pub fn level(self) -> Option<f64> {
        match self {
            Self::Median => Some(0.5),
            Self::Quantile(level) => Some(level),
            _ => None,
        }
    }

    /// Applies the rule to the distribution of one step.
    pub(super) fn of(self, step: &dyn StepDistribution) -> f64 {
        match self {
            Self::Mean => step.mean(),
            Self::Median => step.quantile(0.5),
            Self::TrimmedMean(share) => step.trimmed_mean(share, share),
            Self::LowerTrimmedMean(share) => step.trimmed_mean(share, 0.0),
            Self::UpperTrimmedMean(share) => step.trimmed_mean(0.0, share),
            Self::Quantile(level) => step.quantile(level),
            Self::MeanMinusStd(coefficient) => step.mean() - coefficient * step.std(),
            Self::MeanPlusStd(coefficient) => step.mean() + coefficient * step.std(),
            Self::MeanQuantileMix { level, weight } => weight * step.mean() + (1.0 - weight) * step.quantile(level),
            Self::QuantilePlusStd { level, coefficient } => step.quantile(level) + coefficient * step.std(),
        }
    }
}

/// Checks that a quantile level lies strictly between 0 and 1.
pub(crate) fn check_level(level: f64) -> Result<()> {
    if level > 0.0 && level < 1.0 {
        return Ok(());
    }
    Err(Error::Setting(format!(
        "a quantile level must lie strictly between 0 and 1, not {level}: 0.1 is the 10% quantile"
    )))
}

fn check_coefficient(coefficient: f64) -> Result<()> {
    if coefficient >= 0.0 && coefficient.is_finite() {
        return Ok(());
    }
    Err(Error::Setting(format!(
        "the multiple of the standard deviation must be finite and at least 0, not {coefficient}"
    )))
}

impl fmt::Display for Aggregation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => write!(out, "mean"),
            Self::Median => write!(out, "median"),
            Self::TrimmedMean(share) => write!(out, "trimmed_mean_{share}"),
            Self::LowerTrimmedMean(share) => write!(out, "lower_trimmed_mean_{share}"),
            Self::UpperTrimmedMean(share) => write!(out, "upper_trimmed_mean_{share}"),
            Self::Quantile(level) => write!(out, "quantile_{level}"),
            Self::MeanMinusStd(coefficient) => write!(out, "mean_minus_std_{coefficient}"),
            Self::MeanPlusStd(coefficient) => write!(out, "mean_plus_std_{coefficient}"),
            Self::MeanQuantileMix { level, weight } => write!(out, "mean_quantile_mix_{level}_{weight}"),
            Self::QuantilePlusStd { level, coefficient } => write!(out, "quantile_plus_std_{level}_{coefficient}"),
        }
    }
}

impl FromStr for Aggregation {
    type Err = Error;

    /// Reads a name such as `quantile_0.4`.
    ///
    /// # Errors
    /// An unknown name (the line lists the known ones) or a number outside its range.
    fn from_str(name: &str) -> Result<Self> {
        let rule = recognise(name)
            .ok_or_else(|| Error::Setting(format!("unknown point forecast {name:?}; the names are {NAMES}")))?;
        rule.check()?;
        Ok(rule)
    }
}

/// The rule a name spells, its numbers not yet checked.
fn recognise(name: &str) -> Option<Aggregation> {
    // The rule is everything before the first part that begins with a digit; no rule name has such a part.
    let at = name.find(|letter: char| letter.is_ascii_digit()).unwrap_or(name.len());
    let (rule, numbers) = name.split_at(at);
    let numbers = match numbers {
        "" => Vec::new(),
        some => some.split('_').map(|number| number.parse::<f64>().ok()).collect::<Option<Vec<_>>>()?,
    };
    Some(match (rule, numbers.as_slice()) {
        ("mean", []) => Aggregation::Mean,
        ("median", []) => Aggregation::Median,
        ("trimmed_mean_", &[share]) => Aggregation::TrimmedMean(share),
        ("lower_trimmed_mean_", &[share]) => Aggregation::LowerTrimmedMean(share),
        ("upper_trimmed_mean_", &[share]) => Aggregation::UpperTrimmedMean(share),
        ("quantile_", &[level]) => Aggregation::Quantile(level),
        ("mean_minus_std_", &[coefficient]) => Aggregation::MeanMinusStd(coefficient),
        ("mean_plus_std_", &[coefficient]) => Aggregation::MeanPlusStd(coefficient),
        ("mean_quantile_mix_", &[level, weight]) => Aggregation::MeanQuantileMix { level, weight },
        ("quantile_plus_std_", &[level, coefficient]) => Aggregation::QuantilePlusStd { level, coefficient },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_listed_name_parses_and_prints_back() {
        for name in NAMES.split(", ") {
            assert_eq!(name.parse::<Aggregation>().unwrap().to_string(), name);
        }
        assert_eq!(NAMES.split(", ").count(), 10);
    }

    #[test]
    fn two_numbers_keep_their_order() {
        assert_eq!(
            "mean_quantile_mix_0.4_0.5".parse::<Aggregation>().unwrap(),
            Aggregation::MeanQuantileMix { level: 0.4, weight: 0.5 }
        );
        assert_eq!(
            "quantile_plus_std_0.25_2".parse::<Aggregation>().unwrap(),
            Aggregation::QuantilePlusStd { level: 0.25, coefficient: 2.0 }
        );
    }

    #[test]
    fn unknown_names_list_the_known_ones_on_one_line() {
        for name in [
            "",
            "mode",
            "mean_",
            "median_0.5",
            "quantile",
            "quantile_",
            "quantile_0.4_0.5",
            "quantile_0.4_",
            "quantile_0.4x",
            "quantile_-0.4",
            "trimmed_mean_nan",
            "Mean",
            "mean_quantile_mix_0.4",
        ] {
            let message = name.parse::<Aggregation>().unwrap_err().to_string();
            assert_eq!(message, format!("unknown point forecast {name:?}; the names are {NAMES}"));
            assert!(!message.contains('\n'));
        }
    }

    #[test]
    fn numbers_outside_their_range_are_named() {
        for (name, message) in [
            ("quantile_0", "a quantile level must lie strictly between 0 and 1, not 0: 0.1 is the 10% quantile"),
            ("quantile_40", "a quantile level must lie strictly between 0 and 1, not 40: 0.1 is the 10% quantile"),
            ("trimmed_mean_0.5", "the trimmed share must be in [0, 0.5), not 0.5"),
            ("lower_trimmed_mean_1", "the trimmed share must be in [0, 1), not 1"),
            ("mean_quantile_mix_0.4_1.5", "the weight of the mean must be in [0, 1], not 1.5"),
            ("mean_plus_std_1e999", "the multiple of the standard deviation must be finite and at least 0, not inf"),
        ] {
            assert_eq!(name.parse::<Aggregation>().unwrap_err().to_string(), message);
        }
    }

    fn any_rule() -> impl Strategy<Value = Aggregation> {
        let level = || f64::EPSILON..1.0;
        prop_oneof![
            Just(Aggregation::Mean),
            Just(Aggregation::Median),
            (0.0..0.5).prop_map(Aggregation::TrimmedMean),
            (0.0..1.0).prop_map(Aggregation::LowerTrimmedMean),
            (0.0..1.0).prop_map(Aggregation::UpperTrimmedMean),
            level().prop_map(Aggregation::Quantile),
            (0.0..1e30).prop_map(Aggregation::MeanMinusStd),
            (0.0..4.0).prop_map(Aggregation::MeanPlusStd),
            (level(), 0.0..=1.0).prop_map(|(level, weight)| Aggregation::MeanQuantileMix { level, weight }),
            (level(), 0.0..4.0).prop_map(|(level, coefficient)| Aggregation::QuantilePlusStd { level, coefficient }),
        ]
    }

    proptest! {
        #[test]
        fn names_round_trip(rule in any_rule()) {
            prop_assert_eq!(rule.to_string().parse::<Aggregation>().unwrap(), rule);
        }

        #[test]
        fn no_name_panics(name in "[a-z_]{0,20}[0-9._e-]{0,12}") {
            let _ = name.parse::<Aggregation>();
        }
    }
}
