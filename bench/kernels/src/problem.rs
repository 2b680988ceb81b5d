//! What everybody multiplies, and how far a result may be off.

/// `rows` rows of `inputs` values times the transpose of `[outputs, inputs]` weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    pub rows: usize,
    pub inputs: usize,
    pub outputs: usize,
}

/// What a result lost before and after the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Nothing: f32 throughout.
    None,
    /// Both operands were rounded to bf16.
    Operands,
    /// Both operands and the result were rounded to bf16.
    OperandsAndResult,
    /// Weights have one unit of a 127th of the largest for each output, rows one of their own.
    Integers,
}

/// Half a unit in the last place of f32 and of bf16, relative.
const F32: f64 = 1.0 / (1u64 << 24) as f64;
const BF16: f64 = 1.0 / 512.0;
/// Rows whose results are computed again in f64, spread over all.
const CHECKED_ROWS: usize = 4;
/// Where the input starts in the sequence that begins with the weights.
const INPUT_START: u32 = 0x4000_0000;

impl Problem {
    /// Operations of one product: a multiplication and an addition count as two.
    pub fn operations(&self) -> f64 {
        2.0 * (self.rows * self.inputs * self.outputs) as f64
    }

    /// The weight of an output and input, in -1..1.
    pub fn weight(&self, output: usize, input: usize) -> f32 {
        value((output * self.inputs + input) as u32)
    }

    /// The value of a row and input, in -1..1.
    pub fn input(&self, row: usize, input: usize) -> f32 {
        value((row * self.inputs + input) as u32 ^ INPUT_START)
    }

    /// `[rows, inputs]`
    pub fn all_inputs(&self) -> Vec<f32> {
        (0..self.rows).flat_map(|row| (0..self.inputs).map(move |input| self.input(row, input))).collect()
    }

    /// `[outputs, inputs]`, as a checkpoint holds them.
    pub fn all_weights(&self) -> Vec<f32> {
        (0..self.outputs).flat_map(|output| (0..self.inputs).map(move |input| self.weight(output, input))).collect()
    }

    /// The rows that are checked.
    pub fn checked_rows(&self) -> impl Iterator<Item = usize> {
        let step = self.rows.div_ceil(CHECKED_ROWS);
        (0..self.rows).step_by(step).chain([self.rows - 1])
    }

    /// The largest error of some rows against sums in f64, in units of what the rounding may cost.
    pub fn largest_error(&self, rounding: Rounding, mut row_of: impl FnMut(usize) -> Vec<f32>) -> f64 {
        let mut largest = 0.0f64;
        for row in self.checked_rows() {
            let result = row_of(row);
            assert_eq!(result.len(), self.outputs, "a row of results has all outputs");
            for (output, result) in result.into_iter().enumerate() {
                let (exact, limit) = self.expected(row, output, rounding);
                let error = (f64::from(result) - exact).abs() / limit;
                largest = if error.is_nan() { f64::INFINITY } else { largest.max(error) };
            }
        }
        largest
    }

    /// A result in f64, and the most that it may be off.
    fn expected(&self, row: usize, output: usize, rounding: Rounding) -> (f64, f64) {
        let pairs = || (0..self.inputs).map(|k| (f64::from(self.input(row, k)), f64::from(self.weight(output, k))));
        let exact: f64 = pairs().map(|(x, w)| x * w).sum();
        let magnitude: f64 = pairs().map(|(x, w)| (x * w).abs()).sum();
        // Of n terms in any order, each meets n roundings at most.
        let terms = self.inputs as f64 * F32;
        let sums = terms / (1.0 - terms);
        let operands = (1.0 + BF16).powi(2) - 1.0;
        let limit = match rounding {
            Rounding::None => magnitude * sums,
            Rounding::Operands => magnitude * ((1.0 + operands) * (1.0 + sums) - 1.0),
            Rounding::OperandsAndResult => {
                let before = magnitude * ((1.0 + operands) * (1.0 + sums) - 1.0);
                before + BF16 * (exact.abs() + before)
            }
            Rounding::Integers => {
                // Half a unit each, and a few roundings of f32 when the sum becomes a number.
                let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0f64, |most, v| most.max(v.abs()));
                let half_units =
                    [largest(&mut pairs().map(|(x, _)| x)) / 254.0, largest(&mut pairs().map(|(_, w)| w)) / 254.0];
                let quantised = |(x, w): (f64, f64)| (x.abs() + half_units[0]) * (w.abs() + half_units[1]);
                let most: f64 = pairs().map(quantised).sum();
                most - magnitude + 8.0 * F32 * most
            }
        };
        (exact, limit)
    }
}

/// A number in -1..1 with 24 bits, the same in every language: a multiplicative hash of its place.
fn value(place: u32) -> f32 {
    let mut hash = place.wrapping_mul(0x9e37_79b1);
    hash ^= hash >> 15;
    hash = hash.wrapping_mul(0x85eb_ca77);
    hash ^= hash >> 13;
    (hash >> 8) as f32 / (1 << 23) as f32 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBLEM: Problem = Problem { rows: 9, inputs: 40, outputs: 5 };

    /// Sums in f32, one after the other.
    fn row(row: usize) -> Vec<f32> {
        let sum = |output| (0..40).map(|k| PROBLEM.input(row, k) * PROBLEM.weight(output, k)).sum();
        (0..5).map(sum).collect()
    }

    #[test]
    fn an_honest_sum_passes_and_one_wrong_result_does_not() {
        assert!(PROBLEM.largest_error(Rounding::None, row) <= 1.0);
        for wrong in [1e-3, f32::NAN, f32::INFINITY] {
            let spoilt = |index| {
                let mut results = row(index);
                results[3] += wrong;
                results
            };
            assert!(PROBLEM.largest_error(Rounding::None, spoilt) > 1.0, "{wrong}");
        }
    }

    #[test]
    fn values_fill_their_range() {
        let values = PROBLEM.all_weights();
        assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
        assert!(values.iter().any(|value| *value < -0.9) && values.iter().any(|value| *value > 0.9));
        assert_ne!(PROBLEM.all_inputs()[..20], values[..20]);
    }
}
