//! Every kind of operation in plans of their own, to compare a device with another.
//!
//! Tests run them at many sizes; [`operations`] holds each of them once, in small, for a machine that checks itself.
//!
//! | file | what it owns |
//! |---|---|
//! | `case` | a plan with its inputs and outputs |
//! | `products`, `attention`, `statistics`, `rows` | the plans |

mod attention;
mod case;
mod products;
mod rows;
mod statistics;

pub use attention::{attending, attending_group, projecting};
pub use case::{Case, live};
pub use products::{product, unfused};
pub use rows::{moving, tokens};
pub use statistics::{SCALERS, drawing, scaling};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::extent::Live;
use crate::head::Head;
use crate::rotary::Pairing;
use crate::scaler::Scaler;
use crate::weights::Activation;

/// A kind of operation, ready to be compared.
pub struct OperationCheck {
    /// What it is, in words.
    pub name: &'static str,
    build: fn() -> Case<'static>,
    lives: [Live; 2],
    /// How far outputs may lie apart, in units of f32's rounding of the largest value of the tensor.
    units: f64,
}

/// Inputs of the products: more than a block of any kernel, and no multiple of one.
const INPUTS: usize = 300;

/// Sums in f64, rounded once.
const NARROW: f64 = 1.0;

/// Two orders of a sum of n rounded products lie at most 2 n roundings apart.
const PRODUCT: f64 = 2.0 * INPUTS as f64;

/// A sine, cosine or power of another library may differ in the last place of f64 and then round to another f32; sums of
/// up to 40 products of ten such values pass that on.
const ROTATED: f64 = 2.0 * 40.0 * 10.0;

/// A score is a sum of 64 products of two projections, each of size up to 2 and off as a product is; what it is off by,
/// the weights of the values are off by, relatively.
const PROJECTED: f64 = 2.0 * 64.0 * 2.0 * (2.0 * attention::PROJECTED_INPUTS as f64);

/// Every kind of operation, in the order in which models use them.
pub fn operations() -> Vec<OperationCheck> {
    let check = |name, units, lives, build| OperationCheck { name, build, lives, units };
    vec![
        check("scaling of a context and its continuation", 1.0, [live(2, 9, 5), live(1, 2, 3)], || {
            scaling(Scaler::CausalPatch { stabilise_exponent: Some(10.0) }, 16)
        }),
        check("product of few inputs", NARROW, [live(40, 1, 1), live(9, 1, 1)], || {
            product(40, 64, 70, Activation::None, 0..70)
        }),
        check("product of one row", PRODUCT, [live(1, 1, 1); 2], || product(1, INPUTS, 70, Activation::None, 3..69)),
        check("product of few rows with norm and sum", PRODUCT, [live(7, 1, 1), live(3, 1, 1)], || {
            product(7, INPUTS, 70, Activation::None, 0..70)
        }),
        check("product of many rows with norm and sum", PRODUCT, [live(70, 1, 1), live(33, 1, 1)], || {
            product(70, INPUTS, 70, Activation::None, 0..70)
        }),
        check("gated product", PRODUCT, [live(40, 1, 1), live(5, 1, 1)], || {
            product(40, INPUTS, 40, Activation::SwiGlu, 0..40)
        }),
        check("norm and gate on their own", 4.0, [live(9, 1, 1), live(4, 1, 1)], unfused),
        check("rotary positions and attention, interleaved", ROTATED, [live(2, 7, 5), live(1, 3, 2)], || {
            attending(Pairing::Interleaved, 1, 0, live(2, 7, 5))
        }),
        check("rotary positions and attention, halves", ROTATED, [live(2, 7, 5), live(1, 3, 2)], || {
            attending(Pairing::HalfSplit, 2, 3, live(2, 7, 5))
        }),
        check("projections and attention of few tokens", PROJECTED, [live(2, 4, 1), live(1, 3, 1)], || {
            projecting(live(2, 4, 1))
        }),
        check("attention between variates", 4.0, [live(2, 4, 3), live(1, 3, 1)], || attending_group(7, 3, 20)),
        check("attention between variates of whole sixteens", 4.0, [live(2, 4, 3), live(1, 3, 1)], || {
            attending_group(7, 2, 64)
        }),
        check("rows that move", 1.0, [live(2, 5, 4), live(1, 2, 3)], || moving(4)),
        check("mixture parameters, means and samples", 4.0, [live(3, 1, 37), live(2, 1, 5)], || {
            drawing(Head::Mixture { components: 24 }, false)
        }),
        check("token embedding and sampling", 4.0, [live(2, 5, 11), live(1, 2, 3)], || tokens(false, 7)),
    ]
}

impl OperationCheck {
    /// Compares a device with a reference.
    ///
    /// # Errors
    /// A device fails, or they disagree; the message names the tensor, the values and the limit.
    pub fn compare(&self, device: &dyn Device, reference: &dyn Device) -> Result<()> {
        let case = (self.build)();
        let names: Vec<&str> = case.outputs.iter().map(|(name, _)| *name).collect();
        let (expected, _) = case.run(reference, &self.lives)?;
        let (found, _) = (self.build)().run(device, &self.lives)?;
        for (index, (expected, found)) in expected.iter().zip(&found).enumerate() {
            let largest = expected.iter().fold(f64::from(f32::MIN_POSITIVE), |most, value| most.max(value.abs()));
            let limit = self.units * largest * f64::from(f32::EPSILON);
            let mut pairs = expected.iter().zip(found).enumerate();
            let differ = |x: f64, y: f64| (x - y).is_nan() || (x - y).abs() > limit;
            if let Some((place, (x, y))) = pairs.find(|(_, (x, y))| differ(**x, **y)) {
                return Err(Error::Device(format!(
                    "{}: {} has {y} where {} computes {x} (value {place}, limit {limit:.1e})",
                    self.name,
                    names[index % names.len()],
                    reference.describe()
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuDevice;

    #[test]
    fn every_operation_is_checked_and_agrees_with_itself() {
        let one = CpuDevice::new(Some(1));
        for checked in [false, true] {
            let three = CpuDevice::new(Some(3)).with_poisoned_memory().with_checked_operations(checked);
            operations().iter().for_each(|check| check.compare(&three, &one).unwrap());
        }
    }
}
