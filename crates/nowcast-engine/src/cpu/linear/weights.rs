//! What one word of a panel's columns adds to the sums of a register tile.

use crate::cpu::vector::{Pairs, Vector};

/// How a tile reads its weights and rows.
///
/// `right` is two vectors of words, one word for each column; `left` is [`Weights::VALUES`] words of each row.
pub(super) trait Weights<V: Vector> {
    /// Inputs of one word of the weights: 1 or 2.
    const INPUTS: usize;
    /// Words of every row that meet one word of the weights.
    const VALUES: usize;

    /// Adds the products of one word.
    ///
    /// # Safety
    /// Both operands must be readable.
    unsafe fn add<const ROWS: usize>(sums: &mut [[V; 2]; ROWS], left: *const f32, right: *const f32);

    /// Adds the products of a last word that is half empty.
    ///
    /// # Safety
    /// As [`Weights::add`], but there is one word of every row.
    #[inline(always)]
    unsafe fn add_half<const ROWS: usize>(sums: &mut [[V; 2]; ROWS], left: *const f32, right: *const f32) {
        // SAFETY: the caller vouches for as much as one word of every row.
        unsafe { Self::add(sums, left, right) }
    }
}

/// One f32.
pub(super) struct Floats;

/// Two bf16, widened to f32; so are the rows.
pub(super) struct Widened;

/// Two bf16, and two of every row, multiplied as they are.
pub(super) struct Paired;

impl<V: Vector> Weights<V> for Floats {
    const INPUTS: usize = 1;
    const VALUES: usize = 1;

    #[inline(always)]
    unsafe fn add<const ROWS: usize>(sums: &mut [[V; 2]; ROWS], left: *const f32, right: *const f32) {
        // SAFETY: the caller vouches for both operands.
        unsafe { add_input(sums, left, [V::load(right), V::load(right.add(V::LANES))]) }
    }
}

impl<V: Vector> Weights<V> for Widened {
    const INPUTS: usize = 2;
    const VALUES: usize = 2;

    #[inline(always)]
    unsafe fn add<const ROWS: usize>(sums: &mut [[V; 2]; ROWS], left: *const f32, right: *const f32) {
        // SAFETY: the caller vouches for both operands.
        unsafe {
            let [a, b] = [V::load(right).halves(), V::load(right.add(V::LANES)).halves()];
            add_input(sums, left, [a[0], b[0]]);
            add_input(sums, left.add(ROWS), [a[1], b[1]]);
        }
    }

    #[inline(always)]
    unsafe fn add_half<const ROWS: usize>(sums: &mut [[V; 2]; ROWS], left: *const f32, right: *const f32) {
        // SAFETY: the caller vouches for both operands.
        unsafe {
            let [[first, _], [second, _]] = [V::load(right).halves(), V::load(right.add(V::LANES)).halves()];
            add_input(sums, left, [first, second]);
        }
    }
}

impl<P: Pairs> Weights<P> for Paired {
    const INPUTS: usize = 2;
    const VALUES: usize = 1;

    #[inline(always)]
    unsafe fn add<const ROWS: usize>(sums: &mut [[P; 2]; ROWS], left: *const f32, right: *const f32) {
        // SAFETY: the caller vouches for both operands.
        unsafe {
            let weights = [P::load(right), P::load(right.add(P::LANES))];
            for (row, sums) in sums.iter_mut().enumerate() {
                let pair = P::splat(*left.add(row));
                *sums = [sums[0].add_pairs(pair, weights[0]), sums[1].add_pairs(pair, weights[1])];
            }
        }
    }
}

/// Adds the products of one input of every row.
///
/// # Safety
/// `ROWS` values must be readable.
#[inline(always)]
unsafe fn add_input<V: Vector, const ROWS: usize>(sums: &mut [[V; 2]; ROWS], left: *const f32, weights: [V; 2]) {
    for (row, sums) in sums.iter_mut().enumerate() {
        // SAFETY: the caller vouches for it.
        let value = V::splat(unsafe { *left.add(row) });
        *sums = [value.mul_add(weights[0], sums[0]), value.mul_add(weights[1], sums[1])];
    }
}
