//! Rows that reach no farther than the weights tell that make them: one power of two serves them all, so that whoever writes
//! such a row can cut it without having seen the rest.
//!
//! A row behind a norm has at most the length sqrt(inputs), so a product with it is at most that times the length of a row of
//! weights (Cauchy-Schwarz); a gated result is at most a gate times its value, and what attention returns, a mean of values, at
//! most the largest. That is farther than rows go: two f16s keep 2^-40 of it, and f32 keeps 2^-24 of a value.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use super::Recorder;
use crate::cuda::device::CudaWeights;
use crate::cuda::weights::{DeviceLinear, Format, Reach};
use crate::kv_cache::LayerCache;
use crate::operation::{Linear, Operation};
use crate::plan::{Section, Tensor};

/// What f16 holds without overflow, times the reach of a row.
const REACH_EXPONENT: i32 = 15;
/// How much farther than typical values rows may reach: 2^-40 of that is then 2^-22 of a value. Rows of other weights have
/// powers of two of their own.
const MOST_SLACK: f64 = (1u64 << 18) as f64;
/// By so much a mean of 2^12 values is smaller than they are.
const MEAN: f64 = 1.0 / 64.0;
/// For what rounding adds to a product: TF32 keeps eleven bits of each operand.
const MARGIN: f64 = 1.01;
/// Exponents of sensible rows.
const MOST_EXPONENT: i32 = 80;

/// A matrix, and which of its results.
type Columns = (usize, Range<usize>);

/// How far columns of matrices reach, and means of the values that contexts keep, each found once: every step of a forecast
/// asks again.
#[derive(Default)]
pub(super) struct Reaches {
    found: RefCell<HashMap<Columns, Option<Reach>>>,
    means: RefCell<HashMap<usize, Option<Reach>>>,
}

impl Reaches {
    fn of(&self, weights: &CudaWeights, matrix: usize, columns: Range<usize>) -> Option<Reach> {
        let find = || match &weights.linears[matrix] {
            DeviceLinear::Fragments(fragments) => fragments.reach(columns.clone()),
            DeviceLinear::Panels(_) => None,
        };
        *self.found.borrow_mut().entry((matrix, columns.clone())).or_insert_with(find)
    }
}

impl Recorder<'_> {
    /// The power of two that all rows of a product are multiplied by before they are cut; 0 where each has its own, as where a
    /// norm has to see the whole row anyway.
    pub(super) fn row_factor(&self, op: &Linear, format: Format) -> f32 {
        if op.norm_epsilon.is_some() {
            return 0.0;
        }
        if format == Format::Brain {
            // It has the exponents of f32.
            return 1.0;
        }
        let place = self.uses.place_of(op);
        let reach = place.and_then(|(section, place)| self.reach(section, place, op.input, 0..op.input.width));
        reach.and_then(Reach::factor).unwrap_or(0.0)
    }

    /// How far some columns of a tensor reach that the last operation before a place has written.
    fn reach(&self, section: Section, before: usize, tensor: Tensor, columns: Range<usize>) -> Option<Reach> {
        let operations = &self.plan.operations(section)[..before];
        let place = operations.iter().rposition(|operation| {
            let mut writes = false;
            operation.each_written(&mut |written| writes |= written.index == tensor.index);
            writes
        })?;
        match &operations[place] {
            Operation::Linear(op) => {
                // A norm of less than nothing would make rows longer.
                let has_norm = op.norm_epsilon.is_some_and(|epsilon| epsilon >= 0.0);
                let columns = op.columns.start + columns.start..op.columns.start + columns.end;
                (has_norm && op.residual.is_none()).then(|| self.reaches.of(self.weights, op.weight.index, columns))?
            }
            Operation::LastRow(op) => self.reach(section, place, op.input, columns),
            Operation::RepeatRows(op) => self.reach(section, place, op.input, columns),
            Operation::AttendContext(op) => self.reach_of_means(&op.cache),
            Operation::AttendPaths(op) => self.reach_of_means(&op.cache),
            _ => None,
        }
    }

    fn reach_of_means(&self, cache: &LayerCache) -> Option<Reach> {
        let context = cache.context_values.index;
        let known = self.reaches.means.borrow().get(&context).copied();
        known.unwrap_or_else(|| {
            let found = self.reach_of_values(cache);
            self.reaches.means.borrow_mut().insert(context, found);
            found
        })
    }

    /// The same of means of the values in a cache, wherever they come from.
    fn reach_of_values(&self, cache: &LayerCache) -> Option<Reach> {
        let width = cache.shape.heads * cache.shape.head_dim;
        let mut all: Option<Reach> = None;
        for section in [Section::Prefill, Section::Decode] {
            for (place, operation) in self.plan.operations(section).iter().enumerate() {
                let Operation::AppendCache(op) = operation else { continue };
                if op.cache.context_values.index != cache.context_values.index {
                    continue;
                }
                let one = self.reach(section, place, op.input, op.value_column..op.value_column + width)?;
                all = Some(all.map_or(one, |all| all.with(one)));
            }
        }
        all.map(|reach| Reach { typical: reach.typical * MEAN, ..reach })
    }
}

impl Reach {
    fn with(self, other: Self) -> Self {
        Self { largest: self.largest.max(other.largest), typical: self.typical.min(other.typical) }
    }

    /// What brings the largest value to less than 2^15, unless typical ones would be lost.
    fn factor(self) -> Option<f32> {
        let largest = self.largest * MARGIN;
        if !(largest > 0.0 && largest <= self.typical * MOST_SLACK) {
            return None;
        }
        // Of the next power of two.
        let exponent = (largest.to_bits() >> 52) as i32 - 1023 + 1;
        (exponent.abs() <= MOST_EXPONENT).then(|| 2f32.powi(REACH_EXPONENT - exponent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_bring_the_largest_value_below_two_to_the_fifteenth() {
        let factor = |largest: f64, typical: f64| Reach { largest, typical }.factor();
        assert_eq!(factor(1.5, 0.1), Some(2f32.powi(14)));
        assert_eq!(factor(100.0, 1.0), Some(2f32.powi(8)));
        assert_eq!(factor(0.99, 1e-2), Some(2f32.powi(15)));
        // With its margin it is past the power of two.
        assert_eq!(factor(0.999, 1e-2), Some(2f32.powi(14)));
    }

    #[test]
    fn rows_without_a_sensible_reach_have_their_own_factors() {
        let factor = |largest: f64, typical: f64| Reach { largest, typical }.factor();
        let none = [
            (0.0, 0.0),
            (f64::NAN, 1.0),
            (f64::INFINITY, 1.0),
            (1.0, f64::NAN),
            (1.0, 1e-6),
            (1e30, 1e29),
            (1e-30, 1e-30),
        ];
        none.into_iter()
            .for_each(|(largest, typical)| assert_eq!(factor(largest, typical), None, "{largest} {typical}"));
    }
}
