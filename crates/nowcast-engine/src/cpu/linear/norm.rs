//! The scale of a row under root-mean-square normalisation.

/// Partial sums, so that the additions need not wait for each other; part of the order of summation.
const PARTS: usize = 16;

/// `1 / sqrt(mean(row^2) + epsilon)`.
///
/// The squares are exact in `f64` and their sum is nearly so: part `i` sums values `i, i + 16, ...` in order, then the
/// upper half of the parts is added to the lower until one is left.
#[inline(always)]
pub(super) fn inverse_root_mean_square(row: &[f32], epsilon: f32) -> f64 {
    let mut parts = [0.0f64; PARTS];
    let (chunks, rest) = row.as_chunks::<PARTS>();
    for chunk in chunks {
        // All squares before the first sum: so the compiler keeps the parts in whole registers.
        let squares = chunk.map(|value| f64::from(value) * f64::from(value));
        for (part, square) in parts.iter_mut().zip(squares) {
            *part += square;
        }
    }
    for (part, value) in rest.iter().enumerate() {
        parts[part] += f64::from(*value) * f64::from(*value);
    }
    let mut half = PARTS / 2;
    while half > 0 {
        for part in 0..half {
            parts[part] += parts[part + half];
        }
        half /= 2;
    }
    1.0 / (parts[0] / row.len() as f64 + f64::from(epsilon)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_formula() {
        for length in [1, 2, 15, 16, 17, 60, 768] {
            let row: Vec<f32> = (0..length).map(|index| (index as f32 * 0.7).sin() * 3.0).collect();
            let mean = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / length as f64;
            let expected = 1.0 / (mean + f64::from(1e-5f32)).sqrt();
            let error = (inverse_root_mean_square(&row, 1e-5) - expected).abs() / expected;
            // Sums of up to 768 squares on either side, then three operations.
            assert!(error <= 800.0 * f64::EPSILON, "length {length}: {error}");
        }
    }

    #[test]
    fn a_row_of_zeros_and_a_huge_row_stay_finite() {
        assert_eq!(inverse_root_mean_square(&[0.0; 20], 1e-8), 1.0 / f64::from(1e-8f32).sqrt());
        assert_eq!(inverse_root_mean_square(&[1e30; 20], 1e-8) as f32, 1e-30);
    }
}
