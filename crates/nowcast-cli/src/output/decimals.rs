//! How many decimals a person wants to see.

/// Significant digits kept of the spread of the numbers.
const SPREAD_DIGITS: i32 = 4;
/// Significant digits kept of a number where all numbers are equal.
const CONSTANT_DIGITS: i32 = 6;
/// More characters than this before or after the point, and numbers are written with an exponent.
const LONGEST: i32 = 12;

/// One way to write all numbers of a table, so that their decimal points align.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    /// So many decimals.
    Fixed(usize),
    /// An exponent, with so many decimals before it.
    Exponent(usize),
}

impl Notation {
    /// The notation that shows four significant digits of the spread of these finite numbers.
    pub(super) fn of(numbers: impl Iterator<Item = f64>) -> Self {
        let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
        for number in numbers {
            lowest = lowest.min(number);
            highest = highest.max(number);
        }
        let largest = lowest.abs().max(highest.abs());
        if !largest.is_finite() || largest == 0.0 {
            return Self::Fixed(0);
        }
        let magnitude = |number: f64| number.log10().floor() as i32;
        let spread = highest - lowest;
        // A spread below f64's resolution of the numbers is no spread.
        let decimals = if spread > largest * 1e-14 {
            SPREAD_DIGITS - 1 - magnitude(spread)
        } else {
            CONSTANT_DIGITS - 1 - magnitude(largest)
        };
        if magnitude(largest) >= LONGEST || decimals > LONGEST {
            return Self::Exponent((magnitude(largest) + decimals).clamp(0, 16) as usize);
        }
        Self::Fixed(decimals.max(0) as usize)
    }

    /// Writes one number; a result of zero never carries a sign.
    pub(super) fn write(self, number: f64) -> String {
        let text = match self {
            Self::Fixed(decimals) => format!("{number:.decimals$}"),
            Self::Exponent(decimals) => format!("{number:.decimals$e}"),
        };
        match text.strip_prefix('-') {
            Some(digits) if !digits.contains(|digit: char| ('1'..='9').contains(&digit)) => digits.to_string(),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(numbers: &[f64]) -> Vec<String> {
        let notation = Notation::of(numbers.iter().copied());
        numbers.iter().map(|&number| notation.write(number)).collect()
    }

    #[test]
    fn decimals_follow_the_spread() {
        assert_eq!(written(&[42731.512, 43155.0961]), ["42731.5", "43155.1"]);
        assert_eq!(written(&[1.084251, 1.0851]), ["1.0842510", "1.0851000"]);
        assert_eq!(written(&[0.0, 1234567.0]), ["0", "1234567"]);
        assert_eq!(written(&[-0.00001, 5.5]), ["0.000", "5.500"]);
        assert_eq!(written(&[-12.25, 99.5]), ["-12.2", "99.5"]);
    }

    #[test]
    fn constants_keep_six_digits() {
        assert_eq!(written(&[7.0, 7.0]), ["7.00000", "7.00000"]);
        assert_eq!(written(&[0.0, 0.0]), ["0", "0"]);
        assert_eq!(written(&[123456789.0; 2]), ["123456789", "123456789"]);
    }

    #[test]
    fn extreme_numbers_get_an_exponent() {
        assert_eq!(written(&[1e30, 3.25e30]), ["1.000e30", "3.250e30"]);
        assert_eq!(written(&[1e-12, 2e-12]), ["1.000e-12", "2.000e-12"]);
        assert_eq!(written(&[f64::MAX, -f64::MAX]).len(), 2);
        assert_eq!(written(&[5e-324]).len(), 1);
        assert_eq!(written(&[]).len(), 0);
    }
}
