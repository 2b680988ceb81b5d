//! What happens to the sums of one panel before they are written.

use super::PANEL;
use super::pack::Layout;
use crate::cpu::math::silu;
use crate::cpu::vector::Vector;

/// Scales the sums of one row by the norm, adds the bias and applies the gate; the results come first in `sums`.
#[inline(always)]
pub(super) fn finish<V: Vector>(sums: &mut [f32; PANEL], scale: f32, bias: Option<&[f32]>, layout: Layout) {
    let scale = V::splat(scale);
    for column in (0..PANEL).step_by(V::LANES) {
        let mut value = V::from_slice(&sums[column..]).mul(scale);
        if let Some(bias) = bias {
            value = value.add(V::from_slice(&bias[column..]));
        }
        value.to_slice(&mut sums[column..]);
    }
    if let Layout::Gated(_) = layout {
        for column in (0..PANEL / 2).step_by(V::LANES) {
            let gate = silu(V::from_slice(&sums[column..]));
            gate.mul(V::from_slice(&sums[PANEL / 2 + column..])).to_slice(&mut sums[column..]);
        }
    }
}
