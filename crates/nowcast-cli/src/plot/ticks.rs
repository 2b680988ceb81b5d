//! Round numbers along an axis of values.

/// A range of values with round numbers in it and how to write them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ticks {
    /// The round numbers, ascending.
    pub(crate) values: Vec<f64>,
    /// What is written at each of them.
    pub(crate) labels: Vec<String>,
}

/// A step of `multiple / 4 * 10^exponent` between round numbers.
#[derive(Debug, Clone, Copy)]
struct Step {
    quarters: f64,
    exponent: i32,
}

impl Step {
    /// The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `width`.
    fn at_least(width: f64) -> Self {
        let exponent = width.log10().floor() as i32;
        let fits = |quarters: &f64| Self { quarters: *quarters, exponent }.times(1.0) >= width;
        match [4.0, 8.0, 10.0, 20.0].into_iter().find(fits) {
            Some(quarters) => Self { quarters, exponent },
            None => Self { quarters: 4.0, exponent: exponent + 1 },
        }
    }

    /// `count` steps, rounded once: 3 steps of 0.1 are 0.3.
    fn times(self, count: f64) -> f64 {
        let quarters = count * self.quarters;
        if self.exponent < 0 {
            quarters / 4.0 / 10f64.powi(-self.exponent)
        } else {
            quarters / 4.0 * 10f64.powi(self.exponent)
        }
    }

    /// Decimals that show every multiple of the step exactly.
    fn decimals(self) -> i32 {
        if self.quarters == 10.0 { 1 - self.exponent } else { -self.exponent }
    }
}

impl Ticks {
    /// At most `count + 1` round numbers between two finite values, `low < high`.
    pub(crate) fn between(low: f64, high: f64, count: usize) -> Self {
        Self::with_step(Step::at_least((high - low) / count.max(1) as f64), low, high)
    }

    /// As [`between`](Self::between), whole numbers only.
    pub(super) fn whole_between(low: f64, high: f64, count: usize) -> Self {
        let width = ((high - low) / count.max(1) as f64).max(1.0);
        let step = Step::at_least(width);
        Self::with_step(if step.decimals() > 0 { Step { quarters: 20.0, exponent: 0 } } else { step }, low, high)
    }

    fn with_step(step: Step, low: f64, high: f64) -> Self {
        // An end that misses a round number by rounding only still gets it.
        let first = (low / step.times(1.0) - 1e-9).ceil();
        let last = (high / step.times(1.0) + 1e-9).floor();
        // Zero is added so that no tick is a negative zero.
        let values: Vec<f64> =
            (0..=(last - first).max(-1.0) as i64).map(|k| step.times(first + k as f64) + 0.0).collect();
        let largest = values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let labels = values.iter().map(|&value| label(value, largest, step)).collect();
        Self { values, labels }
    }
}

/// A round number as people write it: thousands grouped, millions and more abbreviated, extremes with an exponent.
fn label(value: f64, largest: f64, step: Step) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = largest.log10().floor() as i32;
    let digits = if !(-5..15).contains(&magnitude) {
        let decimals = (value.abs().log10().floor() as i32 + step.decimals()).clamp(0, 16) as usize;
        format!("{:.decimals$e}", value.abs())
    } else {
        let (unit, suffix) = match magnitude {
            12.. => (12, "T"),
            9.. => (9, "B"),
            7.. => (6, "M"),
            _ => (0, ""),
        };
        let decimals = (step.decimals() + unit).max(0) as usize;
        grouped(&format!("{:.decimals$}", value.abs() / 10f64.powi(unit))) + suffix
    };
    if value < 0.0 { format!("−{digits}") } else { digits }
}

/// Commas between groups of three digits before the decimal point.
fn grouped(digits: &str) -> String {
    let whole = digits.find('.').unwrap_or(digits.len());
    let mut text = String::with_capacity(digits.len() + whole / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && at < whole && (whole - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(low: f64, high: f64, count: usize) -> Vec<String> {
        Ticks::between(low, high, count).labels
    }

    #[test]
    fn labels_are_round() {
        assert_eq!(labels(41873.0, 43190.0, 5), ["42,000", "42,500", "43,000"]);
        assert_eq!(labels(0.07, 0.52, 5), ["0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(labels(-1.3, 1.2, 5), ["−1.0", "−0.5", "0", "0.5", "1.0"]);
        assert_eq!(labels(1.0841, 1.0868, 3), ["1.085", "1.086"]);
        assert_eq!(labels(0.0, 10.0, 4), ["0", "2.5", "5.0", "7.5", "10.0"]);
        assert_eq!(labels(1.2e9, 3.4e9, 5), ["1.5B", "2.0B", "2.5B", "3.0B"]);
        assert_eq!(labels(1e7, 3e7, 4), ["10M", "15M", "20M", "25M", "30M"]);
        assert_eq!(labels(1e30, 3e30, 2), ["1e30", "2e30", "3e30"]);
        assert_eq!(labels(1e-9, 2.2e-9, 4), ["1.0e-9", "1.5e-9", "2.0e-9"]);
    }

    #[test]
    fn whole_numbers_stay_whole() {
        assert_eq!(Ticks::whole_between(0.0, 3.0, 8).labels, ["0", "1", "2", "3"]);
        assert_eq!(Ticks::whole_between(0.0, 21.0, 10).labels, ["0", "5", "10", "15", "20"]);
        assert_eq!(Ticks::whole_between(90.0, 1200.0, 5).labels, ["250", "500", "750", "1,000"]);
    }

    proptest! {
        #[test]
        fn ticks_are_few_ascending_and_inside(low in -1e30..1e30f64, share in 1e-9..2.0f64, count in 1usize..12) {
            let high = low + low.abs().max(1e-30) * share;
            let ticks = Ticks::between(low, high, count);
            prop_assert!(ticks.values.len() <= count + 1);
            prop_assert_eq!(ticks.values.len(), ticks.labels.len());
            prop_assert!(ticks.values.is_sorted_by(|left, right| left < right));
            // A tick on the very end may fall outside by a billionth of a step and the rounding of its multiple.
            let slack = (high - low) * 3e-9 + low.abs().max(high.abs()) * 4.0 * f64::EPSILON;
            prop_assert!(ticks.values.iter().all(|&tick| low - slack <= tick && tick <= high + slack));
            // Steps of 1, 2, 2.5 and 5 exceed the wanted width by less than 2.5: two counts hold two ticks.
            prop_assert!(count < 6 || ticks.values.len() >= 2);
        }

        #[test]
        fn labels_tell_ticks_apart(low in -1e12..1e12f64, width in 1e-3..1e12f64) {
            let ticks = Ticks::between(low, low + width, 6);
            let mut labels = ticks.labels.clone();
            labels.dedup();
            prop_assert_eq!(labels.len(), ticks.values.len());
        }
    }
}
