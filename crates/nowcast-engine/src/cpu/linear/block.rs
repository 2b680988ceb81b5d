//! A block of rows against some panels: what one task of a call multiplies, in whatever numbers.

use super::PANEL;
use super::operand::Operand;
use super::output::Output;
use super::pack::PackedLinear;
use crate::cpu::vector::Vector;
use std::ops::Range;

/// Inputs whose weights stay in the first-level cache while all rows of a block pass: whole chains, and 16 KiB of f32.
pub(super) const GROUP: usize = 128;

/// A block of rows against some panels.
pub(super) struct Block<'a> {
    pub(super) linear: &'a PackedLinear,
    pub(super) operand: &'a Operand,
    pub(super) output: &'a Output<'a>,
    /// Row of the output that the operand's first row belongs to.
    pub(super) first_row: usize,
    /// Rows of the operand.
    pub(super) rows: Range<usize>,
    pub(super) panels: Range<usize>,
}

/// Passes over the depth of a register tile, two vectors of columns each.
pub(super) const fn strips<V: Vector>() -> usize {
    PANEL / (2 * V::LANES)
}
