//! What happens to the sums of one row and panel before they are written.

use super::PANEL;
use super::layout::Layout;
use crate::cpu::math::silu;
use crate::cpu::vector::Vector;

/// The sums of one row and panel, and what they are scaled by and added to.
pub(super) struct Finish<'a> {
    pub(super) sums: &'a [f32; PANEL],
    pub(super) scale: f32,
    pub(super) bias: Option<&'a [f32; PANEL]>,
    pub(super) layout: Layout,
}

impl Finish<'_> {
    /// The results of neighbouring columns, from one on: scaled by the norm, with the bias, and gated.
    #[inline(always)]
    pub(super) fn results<V: Vector>(&self, column: usize) -> V {
        match self.layout {
            Layout::Plain => self.scaled(column),
            Layout::Gated(_) => silu(self.scaled::<V>(column)).mul(self.scaled(PANEL / 2 + column)),
        }
    }

    #[inline(always)]
    fn scaled<V: Vector>(&self, column: usize) -> V {
        let value = V::from_slice(&self.sums[column..]).mul(V::splat(self.scale));
        self.bias.map_or(value, |bias| value.add(V::from_slice(&bias[column..])))
    }
}
