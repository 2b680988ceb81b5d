//! How far apart two computations of one tensor may be, from the dtype and the lengths of the sums.
//!
//! A product's error is counted in units of its typical result. In f32 the engine sums K terms in blocks of about 2√K,
//! and K / (2√K) blocks: roundings are independent, so the error is about u·√(2.5·√K) with u = 2⁻²⁴. In bf16 both
//! factors of every term are rounded: √2 · 2⁻⁹ / √3. In int8 a weight is off by a uniform error within half a step of
//! its row's largest / 127, and so is an input; with the largest of a row eight times its typical value, that is
//! √2 · 8 / 127 / √12. Every sub-layer adds its error to the residual stream, independently of the others: √S of them
//! after S. Both sides are off: √2 for f32; the lower dtypes are alone. The largest error stands to the typical error about as
//! the largest value stands to the typical value, so that in units of a tensor's largest value no factor comes in for
//! the tail. [`MARGIN`] covers what is not counted: norms, activations, weights of uneven size, and softmax, which multiplies
//! the rounding of scores by their size.
//!
//! A step that is fed back enters the next one whole: after n steps errors may have added up n times.

use nowcast_engine::dtype::Dtype;

/// For what the model of errors leaves out.
const MARGIN: f64 = 4.0;

/// What a model's rounding errors depend on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rounding {
    /// Attention and MLP of each layer, and the products in front of and behind them.
    pub(super) sublayers: usize,
    /// Terms of the longest sum.
    pub(super) longest: usize,
}

impl Rounding {
    /// The most that a tensor may be off the eager f32 one, in units of its largest value, after some fed-back steps.
    pub(super) fn limit(self, dtype: Dtype, steps: usize) -> f64 {
        let single = f64::from(f32::EPSILON) / 2.0 * (2.5 * (self.longest as f64).sqrt()).sqrt();
        let product = match dtype {
            Dtype::F32 => 2f64.sqrt() * single,
            // Eleven bits where bf16 has nine, the implicit one counted.
            Dtype::Tf32 => (2.0f64 / 3.0).sqrt() / 2048.0,
            Dtype::Bf16 => (2.0f64 / 3.0).sqrt() / 512.0,
            Dtype::Int8 => 2f64.sqrt() * 8.0 / 127.0 / 12f64.sqrt(),
        };
        MARGIN * product * (self.sublayers as f64).sqrt() * steps.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_by_hand() {
        // 4 · √2 · 2⁻²⁴ · √(2.5 · √256) · √16 = 4 · 1.41421 · 5.9605e-8 · 6.32456 · 4
        let rounding = Rounding { sublayers: 16, longest: 256 };
        assert!((rounding.limit(Dtype::F32, 1) / 8.5301e-6 - 1.0).abs() < 1e-4, "{}", rounding.limit(Dtype::F32, 1));
        assert!((rounding.limit(Dtype::F32, 3) / rounding.limit(Dtype::F32, 1) - 3.0).abs() < 1e-12);
        // 4 · 0.81650 / 512 · 4
        assert!((rounding.limit(Dtype::Bf16, 1) / 0.025516 - 1.0).abs() < 1e-4);
        assert!(rounding.limit(Dtype::Bf16, 1) < rounding.limit(Dtype::Int8, 1));
    }

    /// Blocked f32 sums of random numbers stay within what one product is given.
    #[test]
    fn blocked_sums_keep_the_bound_of_one_product() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        for terms in [64usize, 768, 3072] {
            let rounding = Rounding { sublayers: 1, longest: terms };
            let block = 2 * (terms as f64).sqrt() as usize;
            let (mut error, mut largest) = (0.0f64, 0.0f64);
            for _ in 0..200 {
                let products: Vec<(f32, f32)> = (0..terms).map(|_| (random(), random())).collect();
                let of_block = |block: &[(f32, f32)]| block.iter().fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum));
                let single = products.chunks(block).map(of_block).fold(0.0f32, |sum, block| sum + block);
                let double: f64 = products.iter().map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                error = error.max((f64::from(single) - double).abs());
                largest = largest.max(double.abs());
            }
            assert!(error / largest <= rounding.limit(Dtype::F32, 1) / 2f64.sqrt(), "{terms}: {}", error / largest);
        }
    }
}
